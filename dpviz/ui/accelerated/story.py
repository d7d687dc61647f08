"""The start page's story in three pictures, moved by one budget: one answer, every step, and the price."""

import numpy as np
import streamlit as st

from dpviz.experiments.results import quantiles
from dpviz.families.accelerated import story
from dpviz.numbers import short, short_up
from dpviz.plots import clouds, planner_figures
from dpviz.plots.clouds import Animation, Ground, Walk
from dpviz.plots.elements import style
from dpviz.plots.elements.chart import Chart
from dpviz.privacy.budgets import PureDP
from dpviz.ui import appearance, charts, components
from dpviz.ui.appearance import theme
from dpviz.ui.controls import Panel, input_error
from dpviz.ui.explain import SETTINGS_ONLY


@st.fragment
def show_pictures() -> None:
    """Draw the control of the budget ε, and below it the three pictures side by side."""
    panel = Panel("home")
    (control,) = PureDP.controls()
    control_column, text_column = st.columns([2, 3], vertical_alignment="bottom")
    with control_column:
        value = panel.number(control, "epsilon")
    text_column.caption(f"{PureDP.direction} One budget moves all three pictures.")
    if input_error(control, value):
        return
    epsilon = float(value or PureDP().epsilon)  # the default if the control is empty
    pictures = _one_answer, _every_step, _price
    with st.container(key="home_pictures"):
        for column, draw_picture in zip(st.columns(3, gap="medium"), pictures, strict=True):
            with column:
                draw_picture(epsilon)


def _one_answer(epsilon: float) -> None:
    """Draw the densities of a published count with Laplace noise, if one person says no and if the person says yes."""
    st.header("1. Noise on one answer", anchor=False)
    st.markdown(
        f"{story.PEOPLE} people answer; the number of yes is published with noise. The more the curves overlap, the "
        "less anyone can tell what **you** said."
    )
    answers = story.answers(epsilon)
    figure = planner_figures.two_densities(
        answers.values, (answers.without, answers.with_you), ("if you say no", "if you say yes"), "Published count"
    )
    noise = short(answers.scale)
    highest = f"highest at {story.OTHERS} if you say no and at {story.OTHERS + 1} if you say yes"
    chart = Chart(
        figure,
        "Noise on one answer",
        f"How likely each published count is, with noise of scale {noise}: {highest}",
        f"Laplace noise of scale b = {noise}: no count is more than {short_up(answers.factor)} times as likely under "
        f"one answer as under the other. {SETTINGS_ONLY}",
    )
    charts.show_captioned(chart, "home_answer")


@st.cache_resource(max_entries=64, show_spinner=False)
def _walk_animation(epsilon: float) -> tuple[Animation, dict[str, float]]:
    """Return the animation of the runs downhill, and the median height above the lowest point at which the private arm
    and the reference end, by label.

    The function is public, so all visitors share the runs.
    """
    trace = story.walk(epsilon)
    end_heights = {label: float(np.median(trace.last(label, "objective_gap"))) for label in trace.arm_traces}
    # Positions (k, R, 2) and median heights (k,) at the k steps of the private arm that were recorded.
    steps, positions = trace.cloud(story.PRIVATE)
    reference = clouds.values_at_steps(*trace.cloud(story.REFERENCE), steps)
    height_steps, heights = trace.series(story.PRIVATE, "objective_gap")
    _low, medians, _high = quantiles(heights).T
    median_texts = [short(height) for height in clouds.values_at_steps(height_steps, medians, steps)]
    color, last = style.PALETTE["private"], int(steps[-1])
    # Without noise all replicates are the same, so one point is enough for the reference.
    walk = Walk(
        story.PRIVATE,
        color,
        positions,
        last,
        reference_points=reference[:, :1],
        reference_label=story.REFERENCE,
        median=median_texts,
    )
    coordinates, ground_heights = story.ground()
    ground = Ground(coordinates, coordinates, ground_heights)
    axes = clouds.axes_of_ground(("First parameter", "Second parameter"), ground)
    return Animation(steps, [walk], *axes, metric="height", ground=ground), end_heights


def _every_step(epsilon: float) -> None:
    """Draw the animation of gradient descent with noise in every step, and where the runs end."""
    st.header("2. Noise on every step", anchor=False)
    st.markdown(f"Learning asks many questions: {story.WALK.iterations} noisy steps downhill share the budget.")
    animation, end_heights = _walk_animation(epsilon)
    components.draw_cloud(
        "home_walk", clouds.animation_bytes(animation, style.NOT_PRIVATE[theme()], appearance.type_scale())
    )
    st.caption(
        f"Half of the runs end within {short_up(end_heights[story.PRIVATE])} of the lowest value; without privacy, "
        f"{short(end_heights[story.REFERENCE])}. **Not private**: it reads the raw data, which are made up."
    )


_price_curve = st.cache_resource(show_spinner=False)(story.price)


def _price(epsilon: float) -> None:
    """Draw the error bound of private logistic regression against ε, and the best number of steps at this ε."""
    st.header("3. The price", anchor=False)
    st.markdown("More privacy, less accuracy. Each step adds noise: every budget has a best number of steps.")
    best_steps, bound = story.best_steps_and_bound(epsilon)
    figure = planner_figures.price(*_price_curve(), here=(epsilon, bound), title="Error bound, nats per row")
    charts.show_figure(figure, "home_price", f"Error bound against ε; at yours it is {short_up(bound)} nats per row")
    st.metric(
        f"Best number of steps, {story.METHOD}",
        f"T = {best_steps}",
        f"error at most {short_up(bound)} nats per row",
        delta_color="off",
        delta_arrow="off",
    )
    st.caption(
        f"Upper bound on the excess loss of logistic regression, n = {story.EXAMPLE.facts().n:,}, at the best number "
        f"of steps. {SETTINGS_ONLY}"
    )
