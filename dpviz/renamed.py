"""Modules that have moved, by the address that they had: settings, links and programs of earlier versions name it.

A kind keeps the address under which it was published first. An old address imports the module of today.
"""

import importlib
import sys
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from dpviz import resources


@cache
def addresses() -> dict[str, str]:
    """Address of today by the address before, from `renamed.toml`; read when something is not found by its address."""
    moved = {
        f"dpviz.{before}.{name.partition('=')[0]}": f"dpviz.{after}.{name.rpartition('=')[2]}"
        for before, places in resources.data("dpviz", "renamed.toml").items()
        for after, names in places.items()
        for name in names.split()
    }
    return moved | {"dpviz.pauses": "dpviz.checkpoints"}


class Finder(MetaPathFinder, Loader):
    """Finds modules under their old addresses; the last one that Python asks."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Where a moved module is found; None for every other address."""
        return ModuleSpec(fullname, self) if fullname.startswith("dpviz.") and fullname in addresses() else None

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of today in its place."""
        sys.modules[module.__name__] = importlib.import_module(addresses()[module.__name__])
