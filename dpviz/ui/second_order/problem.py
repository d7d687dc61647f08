"""The choice of the objective: a data set, and a non-convex loss on it."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dpviz import datasets
from dpviz.datasets.bundled import CovertypeLike, CovertypeUpload, prepare_covertype
from dpviz.families.second_order import advice, texts
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, NonconvexModel, RobustComponent, SigmoidTukey
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment import problem_menu
from dpviz.ui.experiment.private_fact import PrivateFact, say_typed, typed
from dpviz.ui.uploads import file, table

# The short names are part of the address.
SADDLE = "saddle"
GENERATORS: Mapping[str, type[datasets.DatasetSpecification]] = {
    SADDLE: datasets.Saddle,
    "covertype": CovertypeLike,
    "uniform": datasets.UniformLogistic,
    "correlated": datasets.CorrelatedLogistic,
    "heavy": datasets.HeavyTailed,
    "bundled": datasets.BundledTable,
}
LOSSES: Mapping[str, type[NonconvexModel]] = {
    "robust": RobustComponent,
    "logistic": LogisticTukey,
    "sigmoid": SigmoidTukey,
}
LOSS_TITLES = {"robust": "Robust component", "logistic": "Logistic", "sigmoid": "Sigmoid"}
MODEL = ("scaling", "divisor", "start", "smoothness", "hessian_lipschitz", "hessian_bound")
EXPANDER = "Loss and constants"


def _loss(selection: problem_menu.Selection) -> problem_menu.Menu:
    """Return the menu of losses for the selected data.

    There are three: for a target that is a number, which only an upload can have, for the demonstration with a saddle,
    and for all other data. The last two have different names and defaults, so that each remembers its own choice.
    """
    if isinstance(selection.upload, datasets.DatasetSpecification) and selection.upload.facts().target is not None:
        help = "The target is a number, so only the robust component can be learned: it looks at no target."
        return problem_menu.Menu("loss", "Loss", {"robust": LOSS_TITLES["robust"]}, default="robust", help=help)
    if selection.source == SADDLE:
        return problem_menu.Menu("saddle_loss", "Loss", LOSS_TITLES, default="robust", help=texts.LOSS_HELP)
    return problem_menu.Menu("loss", "Loss", LOSS_TITLES, default="logistic", help=texts.LOSS_HELP)


def _covertype_file(page: str) -> tuple[datasets.DatasetSpecification | None, Mapping[str, np.ndarray]]:
    """Draw the controls for the visitor's copy of the forest cover types; return its data set and its arrays.

    Nothing has to be declared, as the columns of this file are known.
    """
    st.caption("The UCI file covtype.data, or covtype.data.gz: 54 columns and the class, without a header.")
    return file.uploaded(page, kind=file.File, make=_covertype)


def _covertype(upload: file.File) -> datasets.Prepared[CovertypeUpload]:
    """Prepare an uploaded file of the forest cover types, once for each file, and say what is in it."""
    prepared = upload.once("covertype", lambda identity: prepare_covertype(upload.frame, identity, upload.reading))
    contents = f"{prepared.specification.facts().d} features"
    file.show_ready(upload, rows=len(prepared.table), dropped=prepared.dropped, contents=contents)
    return prepared


def _draw_gap(panel: Panel, cls: type[ProblemSpecification], values: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the controls for the gap Γ, by how much the objective can fall, and for a random start; return the values of
    the fields that they set."""
    controls = {control.name: control for control in cls.controls()}
    # That a gap was typed is noted, as it then counts as declared, and costs nothing.
    fields = {"gap": panel.number(controls["gap"], "gap", on_change=partial(typed, panel, "gap"))}
    if values["start"] == "random":
        fields |= panel.specification(cls, ["start_seed", "gap_cost"])
    return fields


def _with_gap(draft: problem_menu.Draft) -> Mapping[str, Any]:
    """Draw the button that computes the gap Γ of a random start by a private release, and what it costs or has cost.

    Returns the values of the problem's fields, with the cost of the gap in use; the cost is None if that was typed.
    """
    panel, values, budget = draft.panel, draft.values, draft.budget.build()
    value, cost = values["gap"], values.get("gap_cost")
    problem = Settings(draft.cls, {**values, "gap": None, "gap_cost": None}).build()  # for which Γ is to be computed
    assert isinstance(problem, NonconvexModel)
    file_key = None if problem.public else file.known_as(panel.page)
    purchase = PrivateFact(panel, "gap", symbol="ε_Γ", what="the gap", about=problem.to_json(), file=file_key)
    if cost is not None:
        purchase.note_origin(value, cost)  # notes a value from a link as a release
    # At the start 0 a release says nothing; and under pure ε there is no run, as these methods need Gaussian noise.
    if values["start"] == "random" and budget.private and not budget.pure:
        spend = advice.suggested_cost(budget) if cost is None else cost
        purchase.offer_release(value, spend, partial(advice.release_gap, problem, spend, draft.seed, draft.tables))
    purchase.say_error()
    paid = purchase.cost_of(value)  # of all its releases, whatever the control for the cost has; None if it was typed
    released_value = None if paid is None else value  # which may be for another problem
    purchase.warn(paid is not None, where="with the gap that was released, and its cost", value=released_value)
    if value is not None and paid is None:
        purchase.typed(value)
        if cost is not None:  # set, as if the value had been bought
            say_typed("Γ")
    return {**values, "gap_cost": paid}


def _problem(name: str, cls: type[NonconvexModel]) -> problem_menu.ProblemEntry:
    """Return the entry of a loss in the menu; all its controls but that of the regularisation are shared."""
    shared = problem_menu.setting_names(cls, ["regularisation"])
    return problem_menu.ProblemEntry(
        cls, prefix=f"{name}_", shared=shared, groups={EXPANDER: ("regularisation", *MODEL)}
    )


MENU = problem_menu.ProblemMenu(
    problems={name: _problem(name, cls) for name, cls in LOSSES.items()},
    menu=_loss,
    sources={
        problem_menu.ANY: {
            **problem_menu.generators(GENERATORS),
            problem_menu.UPLOAD: problem_menu.Source("Your own file", upload=partial(table.uploaded, constant=True)),
            "covertype_file": problem_menu.Source("Your copy of covtype.data", upload=_covertype_file),
        }
    },
    help="What the algorithms learn from. Your own file stays on this server.",
    expanders=(EXPANDER,),
    more=_draw_gap,
    complete=_with_gap,
)
