"""Algorithm families, one package each; importing a family registers its algorithms."""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpviz.experiments.preset import Preset

if TYPE_CHECKING:  # a plan needs no audits
    from dpviz.audits.audit import Broken, Case


def load_all() -> None:
    """Import every family, which registers the `kind` of each of its classes."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def presets() -> Mapping[str, tuple[Preset, ...]]:
    """Return the named experiments of every family that has any.

    Returns
    -------
    mapping of str to tuple of Preset
        By the name of the family, such as "accelerated"; a preset has a `name`, an `experiment`, and its `source`.
    """
    return {name: module.PRESETS for name, module in _modules("presets")}


def preset_names() -> Iterator[tuple[str, str]]:
    """Yield the family and the name of every preset. The name is the first line of each preset in its file, so that no
    family is imported and no file is parsed: both take longer than to plan a preset."""
    for file in sorted(file for folder in __path__ for file in Path(folder).glob("*/presets.toml")):
        for name in re.findall(r'^\[\[preset\]\]\s+name = (".*")$', file.read_text("utf-8"), re.MULTILINE):
            yield file.parent.name, json.loads(name)


def preset(family: str, name: str) -> Preset:
    """Return the preset with this name from the package of a family, such as "accelerated"."""
    presets: tuple[Preset, ...] = importlib.import_module(f"{__name__}.{family}.presets").PRESETS
    return next(preset for preset in presets if preset.name == name)


def audits() -> "Mapping[str, tuple[Case, ...]]":
    """Return the audits' cases of every family's algorithms, by the name of the family."""
    return {name: module.CASES for name, module in _modules("audits")}


def broken() -> "tuple[Broken, ...]":
    """Return the algorithms of all families with a mistake made on purpose, for audits to find."""
    return tuple(mistake for _, module in _modules("audits") for mistake in getattr(module, "BROKEN", ()))


def _modules(part: str) -> Iterator[tuple[str, Any]]:
    """Yield the name of each family that has a module called `part`, such as "audits", and the module."""
    for family in pkgutil.iter_modules(__path__):
        address = f"{__name__}.{family.name}.{part}"
        if find_spec(address) is not None:
            yield family.name, importlib.import_module(address)
