"""The start page's story in three pictures, moved by one budget: one answer, every step, and the price."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from dpviz.families.accelerated import story
from dpviz.numbers import short
from dpviz.plots import landscape, planner_figures
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.style import PALETTE, ArmStyle
from dpviz.plots.landscape import Background, Cloud
from dpviz.privacy.budgets import PureDP
from dpviz.ui import charts
from dpviz.ui.controls import Panel, mistake
from dpviz.ui.explain import SETTINGS_ONLY

LOOKS = {story.PRIVATE: ArmStyle(PALETTE["private"], "solid"), story.REFERENCE: ArmStyle(PALETTE["theory"], "dot")}


@st.fragment
def told() -> None:
    """The budget, and below it three pictures side by side."""
    panel = Panel("home")
    (control,) = PureDP.controls()
    with st.columns([2, 3])[0]:
        epsilon = panel.number(control, "epsilon")
        st.caption(f"{PureDP.direction} One budget moves all three pictures.")
    if mistake(control, epsilon):
        return
    chosen = float(epsilon or PureDP().epsilon)
    for column, picture in zip(st.columns(3, gap="medium"), (_one_answer, _every_step, _price), strict=True):
        with column:
            picture(chosen)


def _one_answer(epsilon: float) -> None:
    st.subheader("1. Noise on one answer", anchor=False)
    st.markdown(
        f"{story.PEOPLE} people are asked a question, and the number of yes is published with noise. "
        "The more the curves overlap, the less anyone can tell what **you** said."
    )
    found = story.answers(epsilon)
    figure = planner_figures.two_densities(
        found.values, (found.without, found.with_you), ("if you say no", "if you say yes"), "Published count"
    )
    noise = short(found.scale)
    highest = f"highest at {story.OTHERS} if you say no and at {story.OTHERS + 1} if you say yes"
    chart = Chart(
        figure,
        "Noise on one answer",
        f"How likely each published count is, with noise of scale {noise}: {highest}",
        f"Laplace noise of scale b = {noise}. No published count is more than {short(found.factor)} times "
        f"(e^ε) as likely under one answer as under the other. {SETTINGS_ONLY}",
    )
    charts.picture(chart, "home_answer")


@st.cache_resource(max_entries=64, show_spinner=False)
def _walked(epsilon: float) -> tuple[go.Figure, dict[str, float]]:
    """The picture of the walk, and how far above the lowest point half of the runs end, by name: for all visitors."""
    trace = story.walk(epsilon)
    clouds = {label: Cloud(lane.output["x"], np.array(lane.path["x"])) for label, lane in trace.lanes.items()}
    places, heights = story.ground()
    figure = landscape.contours(
        Background(places, places, heights),
        clouds,
        LOOKS,
        ("First parameter", "Second parameter"),
        height=planner_figures.HEIGHT,
    )
    # Between two other pictures there is more room to the left of the frame than to its right.
    figure.update_annotations({"x": 1, "xanchor": "right"}, selector={"name": "not private"})
    return figure, {label: float(np.median(trace.last(label, "objective_gap"))) for label in trace.lanes}


def _every_step(epsilon: float) -> None:
    st.subheader("2. Noise on every step", anchor=False)
    st.markdown(
        f"Learning asks many questions: {story.WALK.iterations} steps downhill, each with noise, because all share "
        "the budget. A line is one run, dots are where many end."
    )
    figure, ends = _walked(epsilon)
    half = f"half of the runs end within {short(ends[story.PRIVATE])} of the lowest value"
    chart = Chart(
        figure,
        "Noise on every step",
        f"Runs downhill in a valley: with privacy, {half}",
        f"With privacy, {half}; without, {short(ends[story.REFERENCE])}. **Not private**: it reads the raw data, which "
        "are made up.",
        "not private",
    )
    charts.picture(chart, "home_walk")


_price_curve = st.cache_resource(show_spinner=False)(story.price)


def _price(epsilon: float) -> None:
    st.subheader("3. The price", anchor=False)
    st.markdown(
        "More privacy, less accuracy. Each step adds noise, so at every budget another number of steps is best."
    )
    curve, (best, bound) = _price_curve(), story.planned(epsilon)
    figure = planner_figures.price(*curve, (epsilon, bound), "Bound on the error")
    charts.plain(figure, "home_price", f"Error bound against the budget; at yours it is {short(bound)}")
    st.metric(
        f"Best number of steps, {story.METHOD}",
        f"T = {best}",
        f"error at most {short(bound)}",
        delta_color="off",
        delta_arrow="off",
    )
    st.caption(
        f"Upper bound on the error of logistic regression, n = {story.EXAMPLE.facts().n:,}, at the best number of "
        f"steps. {SETTINGS_ONLY}"
    )
