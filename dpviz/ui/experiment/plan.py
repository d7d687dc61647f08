"""The plan of an experiment on its page: which arms have one, what theory says of them, and its figures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.plots import plan_figures
from dpviz.plots.elements.style import ArmStyle, arm_styles
from dpviz.ui import charts
from dpviz.ui.explain import SETTINGS_ONLY

Drawing = tuple[str, go.Figure, str]  # heading, figure, caption: as the HTML export takes them
Shown = list[Drawing]


Predict = Callable[[Experiment, Mapping[str, Plan]], Any]


@dataclass(frozen=True)
class PlanView:
    """Everything that the plan's figures show.

    experiment : with the arms that have a plan. plans, styles : of these, by label. refused : why the others have none.
    theory : what the family's theory says of these plans, in the family's own terms.
    """

    experiment: Experiment
    plans: Mapping[str, Plan]
    styles: Mapping[str, ArmStyle]
    refused: Mapping[str, UserError]
    theory: Any


@st.cache_resource(max_entries=64, scope="session", show_spinner=False)
def view(text: str, _predict: Predict) -> PlanView:
    """The plans of an experiment, given as its JSON text, and their theory. Raises UserError if no arm has a plan."""
    planned = Experiment.from_json(text).planned()
    experiment = planned.ready()
    styles = arm_styles(experiment.arms)
    return PlanView(experiment, planned.plans, styles, planned.refused, _predict(experiment, planned.plans))


ALTS = (
    "Scale of the noise in each step, one line per method",
    "Privacy spent after each step, one line per method, and the budget",
)


def noise(shown: PlanView) -> Drawing:
    """The scale of the noise in each step."""
    figure = plan_figures.noise_schedule(shown.plans, shown.styles)
    return "Noise per step", figure, f"Scale of the noise in each step. {SETTINGS_ONLY}"


def drawings(shown: PlanView) -> Shown:
    """What stands beside the noise of each step in every family's plan: the privacy spent."""
    return [privacy_spent(shown)]


def privacy_spent(shown: PlanView) -> Drawing:
    """What has been spent after each step, in the currency in which the budget adds up."""
    budget = shown.experiment.budget
    limit = None if budget.currency is None else budget.limit
    figure = plan_figures.privacy_spent(shown.plans, shown.styles, budget.currency or "rho", limit)
    return "Privacy spent", figure, f"{budget.remark} {SETTINGS_ONLY}"


def size(shown: PlanView) -> str:
    """The number of rows, in a line."""
    return f"n = {next(iter(shown.plans.values())).facts.n:,} rows."


def refusals(refused: Mapping[str, UserError]) -> None:
    """Say which of the chosen methods have no plan, and why, once per reason."""
    for reason in dict.fromkeys(str(error) for error in refused.values()):
        labels = [label for label, error in refused.items() if str(error) == reason]
        st.warning(reason, title=f"Left out: {', '.join(labels)}")


def notes(plans: Mapping[str, Plan]) -> None:
    """What the plans warn of, once per sentence, with the methods that it is about."""
    for note in dict.fromkeys(note for plan in plans.values() for note in plan.notes):
        st.warning(note, title=", ".join(label for label, plan in plans.items() if note in plan.notes))


def draw(drawings: Shown, alts: Sequence[str], key: str) -> None:
    """Figures with heading and caption, two side by side; their keys are `<key>_<number>`. In place of one that has
    nothing to draw stands the sentence that says why."""
    columns = [column for _ in range((len(drawings) + 1) // 2) for column in st.columns(2, gap="medium")]
    for number, (column, drawing, alt) in enumerate(zip(columns, drawings, alts, strict=False)):
        heading, figure, caption = drawing
        with column:
            if figure.data:
                charts.show(figure, f"{key}_{number}", heading, alt, caption)
                continue
            st.subheader(heading, anchor=False)
            for note in figure.layout.annotations:
                st.info(f"{note.text[0].upper()}{note.text[1:].rstrip('.')}.", icon=":material/block:")
            st.caption(caption)
