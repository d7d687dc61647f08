"""Algorithm families, one package each; importing a family registers its algorithms."""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpviz.arguments import ByName, checked
from dpviz.experiments.preset import Preset

if TYPE_CHECKING:  # a plan needs no audits
    from dpviz.audits.audit import Broken, Case


def load_all() -> None:
    """Import every family, so that its classes can be read from files, which name them by their `kind`."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


@checked
def presets() -> Mapping[str, tuple[Preset, ...]]:
    """Return the named experiments of every family that has any.

    Returns
    -------
    mapping of str to tuple of Preset
        By the name of the family, such as "accelerated"; a preset has a `name`, an `experiment`, and its `source`.

    Examples
    --------
    >>> import dpviz
    >>> dpviz.presets()["accelerated"][0].name
    'Start here: same privacy, three methods'
    """
    return ByName({name: module.PRESETS for name, module in _modules("presets")}, "family")


def preset_names() -> Iterator[tuple[str, str]]:
    """Yield the family and the name of every preset, such as ("accelerated", …).

    A pattern finds the names in the families' files, where the name is the first line of each preset. To import the
    families, or to parse the files, would take longer than to plan a preset.
    """
    files = [file for folder in __path__ for file in Path(folder).glob("*/presets.toml")]
    for file in sorted(files):
        for quoted_name in re.findall(r'^\[\[preset\]\]\s+name = (".*")$', file.read_text("utf-8"), re.MULTILINE):
            yield file.parent.name, json.loads(quoted_name)  # TOML quotes and escapes as JSON does


def preset(family: str, name: str) -> Preset:
    """Return the preset with this name from the package of a family, such as "accelerated"."""
    family_presets: tuple[Preset, ...] = importlib.import_module(f"{__name__}.{family}.presets").PRESETS
    return next(candidate for candidate in family_presets if candidate.name == name)


def audits() -> "Mapping[str, tuple[Case, ...]]":
    """Return the audits' cases of every family's algorithms, by the name of the family."""
    return {name: module.CASES for name, module in _modules("audits")}


def broken() -> "tuple[Broken, ...]":
    """Return the algorithms of all families that contain a mistake on purpose, which audits should find."""
    lists = [getattr(module, "BROKEN", ()) for _, module in _modules("audits")]  # not every family has such algorithms
    return tuple(mistake for mistakes in lists for mistake in mistakes)


def _modules(module_name: str) -> Iterator[tuple[str, Any]]:
    """Import the module with this name, such as "audits", of every family that has one; yield (family, module)."""
    for family in pkgutil.iter_modules(__path__):
        full_name = f"{__name__}.{family.name}.{module_name}"
        if find_spec(full_name) is not None:  # asked first, so that an ImportError inside of the module is not hidden
            yield family.name, importlib.import_module(full_name)
