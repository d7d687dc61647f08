"""Choosing what is minimised: a data set, and a non-convex loss on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import (
    BundledTable,
    CorrelatedLogistic,
    DatasetSpecification,
    HeavyTailed,
    Prepared,
    Saddle,
    UniformLogistic,
)
from dpviz.datasets.covertype import CovertypeLike, CovertypeUpload, prepare_covertype
from dpviz.families.second_order import gap
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, NonconvexModel, RobustComponent, SigmoidTukey
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment.bought import TYPED, Purchase, typed
from dpviz.ui.experiment.controls import fields_of
from dpviz.ui.uploads import file
from dpviz.ui.uploads import table as data_panel

# The short names are part of the address.
SADDLE, COVERTYPE_FILE = "saddle", "covertype_file"
GENERATORS: Mapping[str, type[DatasetSpecification]] = {
    SADDLE: Saddle,
    "covertype": CovertypeLike,
    "uniform": UniformLogistic,
    "correlated": CorrelatedLogistic,
    "heavy": HeavyTailed,
    "bundled": BundledTable,
}
SOURCES = {name: cls.title for name, cls in GENERATORS.items()} | {
    data_panel.UPLOAD: "Your own file",
    COVERTYPE_FILE: "Your copy of covtype.data",
}
LOSSES: Mapping[str, type[NonconvexModel]] = {
    "robust": RobustComponent,
    "logistic": LogisticTukey,
    "sigmoid": SigmoidTukey,
}
LOSS_TITLES = {"robust": "Robust component", "logistic": "Logistic", "sigmoid": "Sigmoid"}
MODEL = ("scaling", "divisor", "start", "smoothness", "hessian_lipschitz", "hessian_bound")
LOSS_HELP = (
    "Robust component: the direction in which the rows reach furthest, whatever outliers say; its start is a saddle. "
    "Logistic: two classes, as in the paper; its curvature cannot fall far below 0. Sigmoid: a smooth count of "
    "mistakes."
)


@dataclass(frozen=True)
class Data:
    """What the data controls chose: settings of a generator; or an upload, None until it is ready."""

    source: str
    settings: Settings[DatasetSpecification] | None = None
    upload: DatasetSpecification | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    leads = False  # the tolerance leads

    @property
    def uploaded(self) -> bool:
        """Whether the data are the visitor's own file."""
        return self.source in (data_panel.UPLOAD, COVERTYPE_FILE)

    @property
    def number(self) -> bool:
        """Whether the target is a number and not one of two classes."""
        return self.upload is not None and self.upload.facts().target is not None


def data(panel: Panel, main: DeltaGenerator, _lead: DeltaGenerator) -> Data:
    """Choose the data; the panel for an upload is drawn in `main`. None of the controls leads."""
    source = panel.choice(
        "data", "Data set", SOURCES, SADDLE, "What the algorithms learn from. Your own file stays on this server."
    )
    if source in (data_panel.UPLOAD, COVERTYPE_FILE):
        with main, st.expander("Your data", expanded=True, icon=":material/upload_file:"):
            upload, tables = _uploaded(panel.page, source)
        return Data(source, upload=upload, tables=tables)
    cls = GENERATORS[source]
    with st.expander("Data settings"):
        names = [control.name for control in cls.controls()]
        return Data(source, Settings(cls, panel.specification(cls, names, prefix=f"{source}_")))


def _uploaded(page: str, source: str) -> tuple[DatasetSpecification | None, Mapping[str, np.ndarray]]:
    """A file with declared columns; or that of the forest cover types, of which all is declared already."""
    if source == data_panel.UPLOAD:
        return data_panel.uploaded(page, constant=True)
    st.caption("The UCI file covtype.data, or covtype.data.gz: 54 columns and the class, without a header.")
    return file.uploaded(page, file.File, _covertype)


def _covertype(upload: file.File) -> Prepared[CovertypeUpload]:
    prepared = upload.once("covertype", lambda name: prepare_covertype(upload.frame, name, upload.reading))
    file.ready(len(prepared.table), prepared.dropped, f"{prepared.specification.facts().d} features")
    return prepared


def model(panel: Panel, chosen: Data, budget: Settings[Budget], seed: int | None) -> ProblemSpecification | None:
    """The problem and, in an expander, its controls; None if there are no data yet.

    The last of the controls that make an experiment: raises UserError for any mistake in them.
    """
    with st.expander("Loss and constants"):
        loss = _loss(panel, chosen)
        cls = LOSSES[loss]
        values = panel.specification(cls, ["regularisation"], prefix=f"{loss}_")
        values |= panel.specification(cls, MODEL)
        declared = {control.name: control for control in cls.controls()}
        values["gap"] = panel.number(declared["gap"], "gap", on_change=partial(typed, panel, "gap"))
        if values["start"] == "random":
            values |= panel.specification(cls, ["start_seed", "gap_cost"])
        panel.check()
        dataset = chosen.upload if chosen.settings is None else chosen.settings.build()
        if dataset is None:
            return None
        with in_place(go_on=False):
            values |= {"data": dataset, **_gap(panel, cls, {**values, "data": dataset}, chosen, budget.build(), seed)}
            return Settings(cls, values).build()


def _gap(
    panel: Panel,
    cls: type[NonconvexModel],
    values: Mapping[str, Any],
    chosen: Data,
    budget: Budget,
    seed: int | None,
) -> dict[str, Any]:
    """The button that releases the gap of a random start; the fields to use."""
    value, cost = values["gap"], values.get("gap_cost")
    problem = Settings(cls, {**values, "gap": None, "gap_cost": None}).build()
    known_as = None if problem.public else file.known_as(panel.page)
    bought = Purchase(panel, "gap", "ε_Γ", "the gap", problem.to_json(), known_as)
    if cost is not None:
        bought.elsewhere(value, cost)
    if values["start"] == "random" and budget.private and not budget.pure:
        spend = gap.suggested_cost(budget) if cost is None else cost
        bought.offer_release(value, spend, partial(gap.released, problem, spend, seed, chosen.tables))
    bought.say_error()
    paid = bought.cost_of(value)  # whatever the other control says now
    bought.warn(paid is not None, "with the gap that was released, and its cost", None if paid is None else value)
    if value is not None and paid is None:
        bought.typed(value)
        if cost is not None:
            st.caption(f"This Γ is {TYPED}")
    return {"gap_cost": paid}


def _loss(panel: Panel, chosen: Data) -> str:
    """The loss. A control for each kind of data, since each remembers what was chosen and has a default of its own."""
    if chosen.number:
        st.caption("The target is a number, so only the robust component can be learned: it looks at no target.")
        return "robust"
    if chosen.source == SADDLE:
        return panel.choice("saddle_loss", "Loss", LOSS_TITLES, "robust", LOSS_HELP)
    return panel.choice("loss", "Loss", LOSS_TITLES, "logistic", LOSS_HELP)


def settings_of(problem: ProblemSpecification) -> dict[str, Any]:
    """The controls that rebuild a problem: the inverse of `data` and `model`.

    Raises ValueError for a problem that the page cannot express, such as one on an uploaded table.
    """
    loss = next((name for name, cls in LOSSES.items() if type(problem) is cls), None)
    if loss is None or not isinstance(problem, NonconvexModel):
        raise ValueError(f"the page has no controls for {problem.kind}")
    fields = fields_of(problem)
    chosen = {f"{loss}_regularisation": fields.pop("regularisation"), **fields}
    for source, cls in GENERATORS.items():
        if type(problem.data) is cls:
            name = "saddle_loss" if source == SADDLE else "loss"
            return {"data": source, name: loss, **chosen, **fields_of(problem.data, f"{source}_")}
    raise ValueError(f"the page has no controls for {problem.data.kind}")
