"""Pictures of the library's objects in a notebook, and its progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpviz import later
from dpviz.arguments import checked
from dpviz.errors import UserError


class Displayed:
    """Has a picture of its own, drawn as the pages draw it; plotly is imported when one is asked for."""

    @checked
    def figure(self, *, diagnostics: bool = False) -> Any:
        """Its picture, as the pages draw it.

        Parameters
        ----------
        diagnostics : bool
            Also what methods do not release of data that are not public. The picture says that it is not private.

        Returns
        -------
        plotly.graph_objects.Figure

        Raises
        ------
        UserError
            If there is nothing that may be drawn.
        """
        return later.painter().figure(self, diagnostics)

    def _repr_html_(self) -> str:
        """Return a line, the picture and what may be published of it, for Jupyter."""
        page: str = later.painter().html(self)
        return page


@contextmanager
def bar(title: str, shown: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar by tqdm, to be told the share that is done; an interrupt ends what goes on within it, after its
    first step. Without `shown`, neither. Raises UserError if tqdm is missing."""
    if not shown:
        yield lambda _: None
        return
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped]
    except ImportError:
        raise UserError("A progress bar needs tqdm: pip install tqdm.", title="tqdm is missing") from None
    begun = False
    shape = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
    with tqdm(total=100, desc=title, bar_format=shape) as drawn:

        def tell(share: float) -> None:
            nonlocal begun
            begun = True
            drawn.update(100 * share - drawn.n)

        try:
            yield tell
        except KeyboardInterrupt:
            if not begun:
                raise
