"""Figures of the library's objects in a notebook, and progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpviz import later
from dpviz.arguments import checked


class Displayed:
    """Base class of objects that have a figure as on the pages; plotly is imported when a figure is requested."""

    @checked
    def figure(self, *, diagnostics: bool = False) -> Any:
        """Draw the object's figure, as on the pages.

        Parameters
        ----------
        diagnostics : bool
            If the data are not public, show also values that methods do not release. The figure is marked as not
            private.

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
        """Return a line of text, the figure and its privacy, for Jupyter."""
        page: str = later.painter().html(self)
        return page


@contextmanager
def show_progress_bar(title: str, is_shown: bool) -> Iterator[Callable[[float], None]]:
    """Show a progress bar by tqdm around the body of a `with`; yield a function that sets the share that is done, in
    [0, 1].

    A KeyboardInterrupt ends the body without an error, so that the caller can return the results so far; before the
    first call of the function there are none, and the interrupt is raised. Without `is_shown` there is no bar, and
    interrupts are raised. Raises UserError if tqdm is missing.
    """
    if not is_shown:
        yield lambda _: None
        return
    later.require_package("tqdm")
    from tqdm.auto import tqdm  # type: ignore[import-untyped]

    has_begun = False
    bar_format = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
    with tqdm(total=100, desc=title, bar_format=bar_format) as progress_bar:

        def set_share(share: float) -> None:
            nonlocal has_begun
            has_begun = True
            progress_bar.update(100 * share - progress_bar.n)  # tqdm takes the advance

        try:
            yield set_share
        except KeyboardInterrupt:
            if not has_begun:
                raise
