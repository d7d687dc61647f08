"""The choice of a game: the kind of problem, its data, and its settings."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from dpviz.datasets.categories import CategoricalBundled, CategoricalGenerator
from dpviz.datasets.groups import GroupedBundled, GroupedLosses, GroupedSigns
from dpviz.datasets.synthetic import LatentGame
from dpviz.errors import UserError
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import problem_menu
from dpviz.ui.uploads import categories as category_upload
from dpviz.ui.uploads import groups as group_upload

# The short names are part of the address.
PROBLEMS: Mapping[str, type[ProblemSpecification]] = {
    "matrix": MatrixGame,
    "quadratic": QuadraticGame,
    "curved": CurvedGame,
    "groups": GroupLoss,
    "losses": LossMatrix,
    "synthetic": MarginalQueries,
    "regression": SparseRegression,
    "portfolio": Portfolio,
    "polytope": PolytopeRegression,
}
TRIANGLE = "0.5 0\n0 0.5\n-0.5 -0.5"  # vertices that the text for a polytope of the visitor's own has at first
# Sources of the rows of a problem; a problem without an entry generates its rows itself.
SOURCES: Mapping[str, Mapping[str, problem_menu.Generator]] = {
    "matrix": {"latent": LatentGame},
    "quadratic": {"latent": LatentGame},
    "curved": {"latent": LatentGame},
    "groups": {"signs": GroupedSigns, "insurance": GroupedBundled},
    "losses": {"specialists": GroupedLosses},
    "synthetic": {"generated": CategoricalGenerator, "insurance": CategoricalBundled},
}
# Panels for the visitor's own file, by problem; the other problems take none.
UPLOADS: Mapping[str, problem_menu.Upload] = {
    "groups": group_upload.uploaded,
    "losses": partial(group_upload.uploaded, loss_columns=True),
    "synthetic": category_upload.uploaded,
}


def _sources(name: str) -> dict[str, problem_menu.Source]:
    """Return the sources of the rows of a problem, by name: its generators and, for some, the visitor's own file."""
    sources = problem_menu.generators(SOURCES.get(name, {}), f"{name}_")
    if name in UPLOADS:
        sources[problem_menu.UPLOAD] = problem_menu.Source("Your own file", upload=UPLOADS[name])
    return sources


def _draw_vertices(panel: Panel, _cls: type[ProblemSpecification], values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw a text area for the vertices of a polytope of the visitor's own; return the text, by the field's name.

    For all other shapes nothing is drawn, and the mapping is empty.
    """
    if values.get("shape") != "own":
        return {}
    help = "Numbers with spaces or commas between."
    return {"vertices": panel.text("vertices", "Vertices, one per line", TRIANGLE, help)}


def _read_vertices(draft: problem_menu.Draft) -> Mapping[str, Any]:
    """Return the values of a draft with the text of the vertices, one per line, read as tuples of numbers.

    Raises UserError for anything but numbers.
    """
    if "vertices" not in draft.values:
        return draft.values
    lines = draft.values["vertices"].splitlines()
    try:
        vertices = tuple(tuple(map(float, line.replace(",", " ").split())) for line in lines if line.strip())
    except ValueError:
        raise UserError(
            "Write one vertex per line, as numbers with spaces or commas between them.",
            title="These vertices cannot be read",
        ) from None
    return {**draft.values, "vertices": vertices}


def _vertices_of(problem: ProblemSpecification) -> dict[str, Any]:
    """Return the text of the vertices of a problem, by the control's name: the inverse of `_read_vertices`."""
    if not isinstance(problem, PolytopeRegression) or problem.shape != "own":
        return {}
    return {"vertices": "\n".join(" ".join(f"{value:g}" for value in vertex) for vertex in problem.vertices)}


MENU = problem_menu.ProblemMenu(
    problems={
        name: problem_menu.ProblemEntry(cls, prefix=f"{name}_", first=problem_menu.setting_names(cls))
        for name, cls in PROBLEMS.items()
    },
    menu=problem_menu.Menu(
        name="problem",
        label="Problem",
        options={name: cls.title for name, cls in PROBLEMS.items()},
        default="quadratic",
        help="What is played, or minimised over a simplex.",
    ),
    sources={name: _sources(name) for name in PROBLEMS},
    source_name="{}_data",
    help="Your own file stays on this server.",
    data_settings="Problem settings",
    expanded=True,
    leading="strategies_x",  # the setting that the page's question is about
    more=_draw_vertices,  # further controls, below the settings
    complete=_read_vertices,  # from their values to those of the problem's fields
    more_of=_vertices_of,  # the inverse of `more`
)
