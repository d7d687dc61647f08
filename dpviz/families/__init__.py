"""Algorithm families, one package each; importing a family registers its algorithms."""

import importlib
import pkgutil


def load_all() -> None:
    """Import every family, for whatever walks over the registry of kinds."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
