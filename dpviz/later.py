"""Modules that are imported only when they are first used: packages for tables (`pd`, `pyarrow`), SciPy
(`lazy_functions`), and the module that draws the library's objects (`painter`); and packages of an extra.

A plan needs none of them, and in a shell the imports would take longer than the plan. Annotations that name these
modules are written as text.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpviz.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow
    import pyarrow.compute
    import pyarrow.parquet
    from pyarrow import types
else:

    class _Later:
        """A stand-in for the module `name`, which is imported when an attribute of it is first used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            require_package(self._name.partition(".")[0])
            if name in ("compute", "parquet"):  # modules inside pyarrow, which its own import leaves out
                return import_module(f"{self._name}.{name}")
            return getattr(import_module(self._name), name)

    pd, pyarrow, types = map(_Later, ("pandas", "pyarrow", "pyarrow.types"))

__all__ = ["backend", "import_tables", "lazy_functions", "painter", "pd", "pyarrow", "require_package", "types"]

# Returns the module with `figure(subject, diagnostics)` and `html(subject)`. `dpviz/__init__.py` sets it, so that this
# module does not depend on figures.
painter: Callable[[], Any]
# Likewise the module with `open_backend(store, max_seconds, workers, cluster)`, for sweeps in other processes.
backend: Callable[[], Any]


def lazy_functions(module: str, names: str) -> Iterator[Callable[..., Any]]:
    """Yield a stand-in for each of the functions `names`, with blanks between them, of a module; its first call imports
    the module."""
    yield from (_lazy_function(module, name) for name in names.split())


def _lazy_function(module: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] | None = None

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal function
        if function is None:
            function = getattr(import_module(module), name)
        return function(*arguments, **named)

    return call


_EXTRAS = {"distributed": "cluster", "tqdm": "notebook"}  # by package; the others that are not always there: "app"


def require_package(package: str) -> None:
    """Raise UserError, which names the extra of pyproject.toml that installs it, if a package is missing."""
    if find_spec(package) is None:
        extra = _EXTRAS.get(package, "app")
        raise UserError(f"This needs {package}: pip install 'dpviz[{extra}]'.", title="A package is missing")


def import_tables() -> None:
    """Import the packages for tables now, as far as they are installed. To be called before a limit of memory or time
    begins, which must not count the imports."""
    import_module("pandas")
    if find_spec("pyarrow"):
        import_module("pyarrow.compute")
        import_module("pyarrow.parquet")
