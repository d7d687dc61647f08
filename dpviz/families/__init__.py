"""Algorithm families, one package each; importing a family registers its algorithms."""

import importlib
import pkgutil
from collections.abc import Mapping
from importlib.util import find_spec

from dpviz.experiments.preset import Preset


def load_all() -> None:
    """Import every family, for whatever walks over the registry of kinds."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def presets() -> Mapping[str, tuple[Preset, ...]]:
    """The named experiments of every family that has any, by its name."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return {
        name: importlib.import_module(f"{__name__}.{name}.presets").PRESETS
        for name in names
        if find_spec(f"{__name__}.{name}.presets") is not None
    }
