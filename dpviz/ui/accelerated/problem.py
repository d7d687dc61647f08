"""The choice of the problem that is minimised: a data set with a loss on it, or the quadratic test bench."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from dpviz.datasets import DatasetSpecification, UniformLogistic
from dpviz.families.accelerated import planning, texts
from dpviz.numbers import short
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares, LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui import explain
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment import problem_menu
from dpviz.ui.experiment.private_fact import PrivateFact, say_typed
from dpviz.ui.uploads import file as upload_file
from dpviz.ui.uploads import table

QUADRATIC = "quadratic"
# The losses, by the names that are part of the address.
LOSSES: Mapping[str, type[LinearModel]] = {
    "logistic": LogisticRegression,
    "squared": LeastSquares,
    "huber": HuberRegression,
}
LOSS_TITLES = {"logistic": "Logistic", "squared": "Squared", "huber": "Huber"}
# Settings with another default on a visitor's own file: the usual default, and that one. An upload gets an intercept,
# since a model without one must say ½ where all features are at their lowest. It gets a smaller λ, since a coefficient
# of 5 costs 0.25 at λ = 0.01, a third of what guessing costs (ln 2), and 0.025 at 0.001.
UPLOADS: Mapping[str, tuple[Any, Any]] = {"intercept": ("no", "yes"), "regularisation": (0.01, 0.001)}
MODEL = ("regularisation", "scaling", "intercept", "clip", "clip_norm", "clipping", "start", "initial_gap")
SMOOTHNESS = ("smoothness_source", "smoothness", "smoothness_cost")
EXPANDER = "Model and clipping"


def _loss(selection: problem_menu.Selection) -> problem_menu.Menu:
    """Return the menu of losses for the selected data.

    A target with two classes allows all losses; a target that is a number, all but the logistic one. The two menus have
    different names, so that each remembers its own choice.
    """
    # Without data, as before an upload, the menu is that of two classes.
    data = selection.upload or table.GENERATORS.get(selection.source, UniformLogistic)()
    assert isinstance(data, DatasetSpecification)
    if data.facts().target is None:
        both = f"{texts.LOSS_HELP} The squared and the Huber loss learn the classes as the numbers -1 and +1."
        return problem_menu.Menu("loss", "Loss", LOSS_TITLES, default="logistic", help=both)
    losses = {name: title for name, title in LOSS_TITLES.items() if name != "logistic"}
    return problem_menu.Menu("number_loss", "Loss", losses, default="squared", help=texts.LOSS_HELP)


def _draw_smoothness(panel: Panel, cls: type[ProblemSpecification], _values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the controls for the smoothness L of a linear model; return the values of the fields that they set.

    The source of L decides which are drawn: only the source if L follows from the declared ranges, L itself if it is
    declared or estimated, and the cost of its release if it is released.
    """
    if cls is Quadratic:
        st.caption("The quadratic is set under “Data settings”.")
        return {}
    declared = {control.name: control for control in LinearModel.controls()}
    source = panel.control(declared["smoothness_source"], "smoothness_source")
    if source == "bounds":
        return {}
    value = panel.number(declared["smoothness"], "smoothness", disabled=source != "declared")
    fields: dict[str, Any] = {"smoothness_source": source, "smoothness": value}
    if source == "released":
        fields["smoothness_cost"] = panel.number(declared["smoothness_cost"], "smoothness_cost")
    return fields


def _with_smoothness(draft: problem_menu.Draft) -> Mapping[str, Any]:
    """Draw the button that computes L from the data, by an estimate or a release, and what it costs or has cost.

    Returns the values of the problem's fields; without those of L as long as there is no L.
    """
    if draft.cls is Quadratic:
        return draft.values
    panel, seed, tables = draft.panel, draft.seed, draft.tables
    fields = {name: draft.values[name] for name in SMOOTHNESS if name in draft.values}
    other_fields = {name: value for name, value in draft.values.items() if name not in fields}
    problem = Settings(draft.cls, other_fields).build()  # without L, to compute it for
    assert isinstance(problem, LinearModel)
    source, value, budget = fields.get("smoothness_source"), fields.get("smoothness"), draft.budget.build()
    file = None if problem.public else upload_file.known_as(panel.page)
    about = problem.to_json()
    purchase = PrivateFact(panel, "smoothness", symbol="ε_L", what="L", about=about, file=file)
    if source == "estimated":
        purchase.note_origin(value, cost=None)  # notes a value from a link as an estimate
        st.badge("estimated from the data: not private", icon=":material/visibility:", color="orange")
        compute = partial(planning.estimated_smoothness, problem, tables)
        st.button("Estimate L", key=panel.key("estimate"), on_click=purchase.keep, args=(None, compute))  # at no cost
    elif source == "released":
        cost = fields["smoothness_cost"]
        if cost is not None:
            purchase.note_origin(value, cost)  # notes a value from a link as a release
        spend = planning.suggested_cost(budget) if cost is None else cost
        purchase.offer_release(value, spend, partial(planning.release_smoothness, problem, spend, seed, tables))
    if source in ("declared", "released") and value is not None:
        fields = _by_origin(panel, purchase, fields, value)
        source = fields["smoothness_source"]
    purchase.say_error()
    is_counted = source == "released" and value is not None
    computed_value = value if source in ("estimated", "released") else None  # which may be for another problem
    purchase.warn(is_counted, where="with L “Released privately”", value=computed_value)
    if fields and value is None:  # without fields, L follows from the ranges anyway
        st.caption("Until there is a value, the plan uses L from the ranges.")
        return other_fields
    return other_fields | fields


def _by_origin(panel: Panel, purchase: PrivateFact, fields: dict[str, Any], value: float) -> dict[str, Any]:
    """Return the fields of L (its source, value and cost) by where the value came from, whatever source is selected.

    An estimate stays an estimate, although the visitor now calls it declared or released; a released value stays paid
    for; and a typed value is declared and costs nothing. The origin is drawn as a caption where it differs from the
    selected source.
    """
    cost, source = purchase.cost_of(value), fields["smoothness_source"]
    if purchase.is_estimate(value):
        explain.mark_taken("this L", panel.key("knew_smoothness"), on_known=purchase.known, args=(value,))
        return {**fields, "smoothness_source": "estimated", "smoothness_cost": None}
    if cost is not None:
        if source == "declared":
            st.caption(f"This L was released: it stays paid for, with ε_L = {short(cost)}.")
        return {**fields, "smoothness_source": "released", "smoothness_cost": cost}
    if source == "declared":
        purchase.typed(value)
    elif purchase.is_typed(value):
        say_typed("L")
        return {**fields, "smoothness_source": "declared", "smoothness_cost": None}
    return fields


MENU = problem_menu.ProblemMenu(
    problems={
        name: problem_menu.ProblemEntry(
            cls, groups={EXPANDER: ("threshold", *MODEL) if cls is HuberRegression else MODEL}
        )
        for name, cls in LOSSES.items()
    }
    | {QUADRATIC: problem_menu.ProblemEntry(Quadratic, f"{QUADRATIC}_", first=problem_menu.setting_names(Quadratic))},
    menu=_loss,
    sources={
        problem_menu.ANY: {
            **problem_menu.generators(table.GENERATORS),
            problem_menu.UPLOAD: problem_menu.Source("Your own file", upload=table.uploaded),
            QUADRATIC: problem_menu.Source(Quadratic.title),
        }
    },
    help="What the algorithms learn from. Your own file stays on this server.",
    expanders=(EXPANDER,),
    upload_defaults=UPLOADS,
    more=_draw_smoothness,
    complete=_with_smoothness,
)
