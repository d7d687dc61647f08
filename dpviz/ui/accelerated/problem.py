"""Choosing what is minimised: a data set with its model, or the quadratic test bench."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import DatasetSpecification, UniformLogistic
from dpviz.families.accelerated import smoothness
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.linear.regression import HuberRegression, LeastSquares
from dpviz.specification import Specification
from dpviz.ui import explain
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment.bought import TYPED, Purchase
from dpviz.ui.experiment.controls import fields_of
from dpviz.ui.uploads import file as upload_file
from dpviz.ui.uploads import table as data_panel

QUADRATIC = "quadratic"
SOURCES = {
    **{name: cls.title for name, cls in data_panel.GENERATORS.items()},
    data_panel.UPLOAD: "Your own file",
    QUADRATIC: Quadratic.title,
}
# The losses, by the names that are part of the address.
LOSSES: Mapping[str, type[LinearModel]] = {
    "logistic": LogisticRegression,
    "squared": LeastSquares,
    "huber": HuberRegression,
}
LOSS_TITLES = {"logistic": "Logistic", "squared": "Squared", "huber": "Huber"}
# The usual default and that of an upload. Without a constant column a model must say ½ where all features are at their
# lowest. A coefficient of 5 costs 0.25 at λ = 0.01, a third of what guessing costs (ln 2), and 0.025 at 0.001.
UPLOADS: Mapping[str, tuple[Any, Any]] = {
    "intercept": ("no", "yes"),
    "regularisation": (0.01, 0.001),
}
MODEL = ("regularisation", "scaling", "intercept", "clip", "clip_norm", "clipping", "start", "initial_gap")


@dataclass(frozen=True)
class Data:
    """What the data controls chose: settings of a generator or of the quadratic; or an upload, None until ready."""

    source: str
    settings: Settings[DatasetSpecification] | Settings[Quadratic] | None = None
    upload: DatasetSpecification | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    leads = False  # the steps lead

    @property
    def number(self) -> bool:
        """Whether the target is a number and not one of two classes."""
        dataset = self.upload or data_panel.GENERATORS.get(self.source, UniformLogistic)()
        return dataset.facts().target is not None

    @property
    def uploaded(self) -> bool:
        """Whether the data are the visitor's own file."""
        return self.source == data_panel.UPLOAD


def data(panel: Panel, main: DeltaGenerator, _lead: DeltaGenerator) -> Data:
    """Choose the data; the panel for an upload is drawn in `main`. None of the controls leads."""
    help = "What the algorithms learn from. Your own file stays on this server."
    source = data_panel.source(panel, "data", SOURCES, "uniform", help, UPLOADS)
    if source == data_panel.UPLOAD:
        with main, st.expander("Your data", expanded=True, icon=":material/upload_file:"):
            upload, tables = data_panel.uploaded(panel.page)
        return Data(source, upload=upload, tables=tables)
    with st.expander("Data settings"):
        if source != QUADRATIC:
            return Data(source, data_panel.generated(panel, source))
        names = [control.name for control in Quadratic.controls()]
        return Data(source, Settings(Quadratic, panel.specification(Quadratic, names, prefix="quadratic_")))


def model(panel: Panel, chosen: Data, budget: Settings[Budget], seed: int | None) -> ProblemSpecification | None:
    """The problem and, in an expander, its controls: see `_model`."""
    with st.expander("Model and clipping"):
        return _model(panel, chosen, budget, seed)


def _model(panel: Panel, chosen: Data, budget: Settings[Budget], seed: int | None) -> ProblemSpecification | None:
    """The problem: for a data set, the controls of a linear model on it. None if there are no data yet.

    The last of the controls that make an experiment: raises UserError for any mistake in them.
    """
    if chosen.source == QUADRATIC:
        st.caption("The quadratic is set under “Data settings”.")
        panel.check()
        assert chosen.settings is not None
        quadratic = chosen.settings.build()
        assert isinstance(quadratic, Quadratic)
        return quadratic
    cls = _loss(panel, chosen.number)
    names = ("threshold",) * (cls is HuberRegression) + MODEL
    own = {name: default for name, (_, default) in UPLOADS.items()} if chosen.uploaded else {}
    values = panel.specification(cls, names, defaults=own)
    fields = _smoothness(panel)
    panel.check()
    dataset = chosen.upload if chosen.settings is None else chosen.settings.build()
    if dataset is None:
        return None
    with in_place(go_on=False):
        problem = Settings(cls, {**values, "data": dataset}).build()
        fields = _computed(panel, problem, chosen.tables, fields, budget.build(), seed)
        return Settings(cls, {**values, **fields, "data": dataset}).build()


def _loss(panel: Panel, number: bool) -> type[LinearModel]:
    """The loss. Two controls, since a target that is a number leaves fewer, and each remembers what was chosen."""
    offered = {name: title for name, title in LOSS_TITLES.items() if not (number and name == "logistic")}
    help = "The Huber loss grows linearly beyond a threshold: it minds outliers less, and needs less noise."
    if number:
        return LOSSES[panel.choice("number_loss", "Loss", offered, "squared", help)]
    both = f"{help} The squared and the Huber loss learn the classes as the numbers -1 and +1."
    return LOSSES[panel.choice("loss", "Loss", offered, "logistic", both)]


def _smoothness(panel: Panel) -> dict[str, Any]:
    """Controls for L; the fields that they set."""
    declared = {control.name: control for control in LinearModel.controls()}
    source = panel.control(declared["smoothness_source"], "smoothness_source")
    if source == "bounds":
        return {}
    value = panel.number(declared["smoothness"], "smoothness", disabled=source != "declared")
    fields: dict[str, Any] = {"smoothness_source": source, "smoothness": value}
    if source == "released":
        fields["smoothness_cost"] = panel.number(declared["smoothness_cost"], "smoothness_cost")
    return fields


def _computed(
    panel: Panel,
    problem: LinearModel,
    tables: Mapping[str, np.ndarray],
    fields: dict[str, Any],
    budget: Budget,
    seed: int | None,
) -> dict[str, Any]:
    """Buttons that compute L from the data; the fields to use, none as long as there is no L."""
    source, value = fields.get("smoothness_source"), fields.get("smoothness")
    file = None if problem.public else upload_file.known_as(panel.page)
    bought = Purchase(panel, "smoothness", "ε_L", "L", problem.to_json(), file)
    if source == "estimated":
        bought.elsewhere(value, None)
        st.badge("estimated from the data: not private", icon=":material/visibility:", color="orange")
        compute = partial(smoothness.estimated, problem, tables)
        st.button("Estimate L", key=panel.key("estimate"), on_click=bought.keep, args=(None, compute))
    elif source == "released":
        cost = fields["smoothness_cost"]
        if cost is not None:
            bought.elsewhere(value, cost)
        spend = smoothness.suggested_cost(budget) if cost is None else cost
        bought.offer_release(value, spend, partial(smoothness.released, problem, spend, seed, tables))
    if source in ("declared", "released") and value is not None:
        fields = _as_found(panel, bought, fields, value)
        source = fields["smoothness_source"]
    bought.say_error()
    released = source == "released" and value is not None
    bought.warn(released, "with L “Released privately”", value if source in ("estimated", "released") else None)
    if fields and value is None:
        st.caption("Until there is a value, the plan uses L from the ranges.")
        return {}
    return fields


def _as_found(panel: Panel, bought: Purchase, fields: dict[str, Any], value: float) -> dict[str, Any]:
    """The fields of an L under another name, which stays what it is: an estimate is neither declared nor bought, what
    was bought is not free, and what was typed is no release, whatever the other control says that one would cost."""
    cost, source = bought.cost_of(value), fields["smoothness_source"]
    if bought.computed(value):
        explain.taken_badge("this L")
        knew = panel.key("knew_smoothness")
        st.button(explain.KNEW, key=knew, on_click=bought.known, args=(value,), help=explain.KNEW_HELP)
        return {**fields, "smoothness_source": "estimated", "smoothness_cost": None}
    if cost is not None:
        if source == "declared":
            st.caption(f"This L was released: it stays paid for, with ε_L = {short(cost)}.")
        return {**fields, "smoothness_source": "released", "smoothness_cost": cost}
    if source == "declared":
        bought.typed(value)
    elif bought.is_typed(value):
        st.caption(f"This L is {TYPED}")
        return {**fields, "smoothness_source": "declared", "smoothness_cost": None}
    return fields


def settings_of(problem: ProblemSpecification) -> dict[str, Any]:
    """The controls that rebuild a problem: the inverse of `data` and `model`.

    Raises ValueError for a problem that the page cannot express, such as one on an uploaded table.
    """
    if isinstance(problem, Quadratic):
        return {"data": QUADRATIC, **fields_of(problem, "quadratic_")}
    loss = next((name for name, cls in LOSSES.items() if type(problem) is cls), None)
    if loss is None or not isinstance(problem, LinearModel):
        raise ValueError(f"the page has no controls for {problem.kind}")
    chosen = {"loss" if problem.data.facts().target is None else "number_loss": loss}
    for source, cls in data_panel.GENERATORS.items():
        if type(problem.data) is cls:
            dataset: Specification = problem.data
            return {"data": source, **chosen, **fields_of(dataset, f"{source}_"), **fields_of(problem)}
    raise ValueError(f"the page has no controls for {problem.data.kind}")
