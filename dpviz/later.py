"""Modules that are imported when they are first used: packages for tables, and the painter of the library's objects.

A plan needs neither, and in a shell the imports would take longer than the plan. Annotations that name these modules
are written as text.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet
    from pyarrow import types
else:

    class _Later:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            if name in ("compute", "parquet"):
                return import_module(f"{self._name}.{name}")
            return getattr(import_module(self._name), name)

    pd, pyarrow, types = map(_Later, ("pandas", "pyarrow", "pyarrow.types"))

__all__ = ["now", "painter", "pd", "pyarrow", "types"]

painter: Callable[[], Any]  # the module with `figure(subject, diagnostics)` and `html(subject)`; `dpviz` names it


def now() -> None:
    """Import the packages for tables: before a limit of memory or time begins, which must not count the imports."""
    for name in ("pandas", "pyarrow.compute", "pyarrow.parquet"):
        import_module(name)
