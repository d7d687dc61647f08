"""Choosing a game: the kind of problem, its data, and its settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets.base import DataSpecification
from dpviz.datasets.categories import CategoricalBundled, CategoricalGenerator
from dpviz.datasets.games import LatentGame
from dpviz.datasets.groups import GroupedBundled, GroupedLosses, GroupedSigns
from dpviz.errors import UserError
from dpviz.families.mirror_descent import presets
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import Offer, fields_of
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
LEAD = "strategies_x"  # the setting that the page's question is about
TRIANGLE = "0.5 0\n0 0.5\n-0.5 -0.5"
UPLOAD = "upload"
# Where the rows of a problem may come from; a problem without an entry generates its own.
SOURCES: Mapping[str, Mapping[str, type[DataSpecification[Any, Any]] | type[LatentGame]]] = {
    "matrix": {"latent": LatentGame},
    "quadratic": {"latent": LatentGame},
    "curved": {"latent": LatentGame},
    "groups": {"signs": GroupedSigns, "insurance": GroupedBundled},
    "losses": {"specialists": GroupedLosses},
    "synthetic": {"generated": CategoricalGenerator, "insurance": CategoricalBundled},
}
UPLOADS = ("groups", "losses", "synthetic")


@dataclass(frozen=True)
class Choice:
    """What the controls chose: a kind of problem, and its settings, None as long as an upload is not ready."""

    name: str
    settings: Settings[ProblemSpecification] | None
    uploaded: bool = False
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    leads: bool = False

    @property
    def problem(self) -> type[ProblemSpecification]:
        """The kind of problem."""
        return PROBLEMS[self.name]


def choose(panel: Panel, main: DeltaGenerator, lead: DeltaGenerator) -> Choice:
    """Choose the problem and its data; the panel for an upload is drawn in `main`.

    The number of strategies, where there is one to set, is drawn in `lead`: what the page's question is about.
    """
    titles = {name: cls.title for name, cls in PROBLEMS.items()}
    name = panel.choice("problem", "Problem", titles, "quadratic", "What is played, or minimised over a simplex.")
    source, data, tables = _data(panel, name, main)
    fields: dict[str, Any] = {}
    cls = PROBLEMS[name]
    own = [control.name for control in cls.controls()]
    with st.expander("Problem settings", expanded=True) if own or _fields(source, name) else st.container():
        values = panel.specification(cls, own, prefix=f"{name}_")
        if source in SOURCES.get(name, {}):
            kind, prefix = SOURCES[name][source], f"{name}_{source}_"
            names = [control.name for control in kind.controls()]
            fields = panel.specification(kind, [field for field in names if field != LEAD], prefix=prefix)
            if LEAD in names:
                with lead:
                    fields |= panel.specification(kind, [LEAD], prefix=prefix)
            data = Settings(kind, fields)
        if values.get("shape") == "own":
            help = "Numbers with spaces or commas between."
            values["vertices"] = panel.text("vertices", "Vertices, one per line", TRIANGLE, help)
    if source == UPLOAD and data is None:
        return Choice(name, None, True, tables)
    parts: dict[str, Any] = dict(values)
    if data is not None:
        parts["data"] = data
    return Choice(name, Settings(cls, parts), source == UPLOAD, tables, LEAD in fields)


def offer(choice: Choice) -> Offer:
    """The methods for the chosen kind of problem."""
    return _offer(choice.problem)


def offer_of(problem: ProblemSpecification) -> Offer:
    """The methods for a problem."""
    return _offer(type(problem))


def _offer(problem: type[ProblemSpecification]) -> Offer:
    if issubclass(problem, MarginalQueries):
        name = "methods_synthetic"
    else:
        learning = issubclass(problem, SparseRegression | Portfolio | PolytopeRegression)
        name = "methods_learning" if learning else "methods_game"
    return Offer(*presets.offered(problem), name)


def applicable(settings: Sequence[str], choice: Choice, budget: type[Budget]) -> tuple[str, ...]:
    """Those of the methods' settings that mean something for a kind of problem and a currency."""
    without: set[str] = set()
    if issubclass(choice.problem, MarginalQueries | SparseRegression | Portfolio | PolytopeRegression):
        without |= {"share_x", "split"}  # one player pays for everything
    if issubclass(choice.problem, SparseRegression | Portfolio | PolytopeRegression):
        without.add("draws_y")  # and is alone
    if not issubclass(budget, ApproximateDP):
        without |= {"accounting", "theorem"}  # what the paper states for (ε, δ) only
    return tuple(name for name in settings if name not in without)


def build(panel: Panel, choice: Choice, _budget: Settings[Budget], _seed: int | None) -> ProblemSpecification | None:
    """The problem, once all controls have been drawn; None while an upload is missing. Raises UserError."""
    panel.check()
    if choice.settings is None:
        return None
    values = {
        name: value.build() if isinstance(value, Settings) else value for name, value in choice.settings.values.items()
    }
    if "vertices" in values:
        values["vertices"] = _vertices(values["vertices"])
    return Settings(choice.settings.cls, values).build()


def _vertices(text: str) -> tuple[tuple[float, ...], ...]:
    """One vertex per line. Raises UserError for what is no number."""
    try:
        return tuple(tuple(map(float, line.replace(",", " ").split())) for line in text.splitlines() if line.strip())
    except ValueError:
        raise UserError(
            "Write one vertex per line, as numbers with spaces or commas between them.",
            title="These vertices cannot be read",
        ) from None


def _fields(source: str, name: str) -> bool:
    kind = SOURCES.get(name, {}).get(source)
    return kind is not None and bool(kind.controls())


def _data(panel: Panel, name: str, main: DeltaGenerator) -> tuple[str, Any, Mapping[str, np.ndarray]]:
    """Which rows, and for an upload the data set and its table."""
    offered = SOURCES.get(name, {})
    options = {source: kind.title for source, kind in offered.items()}
    if name in UPLOADS:
        options[UPLOAD] = "Your own file"
    source = next(iter(options), "")
    if len(options) > 1:
        source = panel.choice(f"{name}_data", "Data set", options, source, "Your own file stays on this server.")
    if source != UPLOAD:
        return source, None, {}
    with main, st.expander("Your data", expanded=True, icon=":material/upload_file:"):
        if name == "synthetic":
            return source, *category_upload.uploaded(panel.page)
        return source, *group_upload.uploaded(panel.page, loss_columns=name == "losses")


def settings_of(problem: ProblemSpecification) -> dict[str, Any]:
    """The controls that rebuild a problem: the inverse of `choose`. Raises ValueError for one on an upload."""
    for name, cls in PROBLEMS.items():
        if type(problem) is not cls:
            continue
        found: dict[str, Any] = {"problem": name, **fields_of(problem, f"{name}_")}
        if isinstance(problem, PolytopeRegression) and problem.shape == "own":
            found["vertices"] = "\n".join(" ".join(f"{value:g}" for value in vertex) for vertex in problem.vertices)
        data = problem.dataset
        if data is None:
            return found
        for source, kind in SOURCES[name].items():
            if type(data) is kind:
                chosen = {f"{name}_data": source} if len(SOURCES[name]) > 1 or name in UPLOADS else {}
                return found | chosen | fields_of(data, f"{name}_{source}_")
    raise ValueError(f"the page has no controls for {problem.kind}")
