"""What a run of the zeroth-order methods shows beyond curves: stationarity, clipping, and the ground it walked on."""

import streamlit as st

from dpviz.experiments.plan import worst
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import figures, texts
from dpviz.numbers import short
from dpviz.plots.elements.style import arm_styles
from dpviz.problems.values.black_box import BlackBox
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.experiment.run import Run
from dpviz.ui.zeroth_order import live

# What is looked at, its standard error, the chart's heading and caption.
STATIONARITY = (
    ("stationarity_bound", "stationarity_error", "Is it a stationary place?", texts.STATIONARITY),
    ("smoothed_gradient_norm", "smoothed_gradient_error", "Is the smoothed gradient small?", texts.SMOOTHED),
)
MUCH = 0.05  # of what clipping takes away, from which on it is a warning


def extra(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """How long the noisy gradients were, how stationary the runs became, and for two parameters the raw and the
    smoothed ground; what was drawn."""
    left, right = st.columns(2, gap="medium")
    with left:
        shown = _norms(panel, run, trace)
    if not diagnostics:
        return shown
    for place, (name, error, heading, words) in zip((right, left), STATIONARITY, strict=True):
        with place:
            shown += _stationarity(panel, run, trace, name, error, heading, words)
    return shown + (_grounds(panel, run, trace) if live.has_landscape(run.experiment.problem) else [])


def _norms(panel: Panel, run: Run, trace: Trace) -> Shown:
    """The length of what was released beside that of the noise in it."""
    figure = figures.norms(trace, run.plans, arm_styles(run.experiment.arms))
    if not figure.data:
        return []
    heading, experiment = "How much of it was noise?", run.experiment
    caption = f"{texts.NORMS} {explain.released(experiment, experiment.replicates)}"
    alt = "Length of the noisy gradients of every method, and of their noise alone"
    status = worst(plan.privacy for plan in run.plans.values() if plan.private)
    charts.show(figure, panel.key("chart_norms"), heading, alt, caption, status)
    return [(heading, figure, caption)]


def _stationarity(panel: Panel, run: Run, trace: Trace, name: str, error: str, heading: str, words: str) -> Shown:
    """A metric with the error of the sample of rows that it is from."""
    figure = figures.stationarity(trace, name, error, arm_styles(run.experiment.arms))
    if not figure.data:
        problem = run.experiment.problem
        if name == STATIONARITY[0][0] and isinstance(problem, BlackBox) and not problem.loss().continuous:
            st.caption(texts.NO_STATIONARITY)
        return []
    caption = f"{words} {explain.diagnostic(run.experiment.replicates, run.experiment.problem.public)}"
    alt = f"{heading} One line per method, at a few epochs"
    charts.show(figure, panel.key(f"chart_{error}"), heading, alt, caption, "not private")
    return [(heading, figure, caption)]


def _grounds(panel: Panel, run: Run, trace: Trace) -> Shown:
    """The objective beside what the method descends on."""
    shown: Shown = []
    for column, smoothed in zip(st.columns(2, gap="medium"), (False, True), strict=True):
        found = live.landscape(run, trace, smoothed)
        if found is None:
            continue
        heading = f"Smoothed over r = {short(live.radius(run))}" if smoothed else "The function itself"
        with column:
            key = panel.key(f"chart_ground_{smoothed}")
            charts.show(found.figure, key, heading, found.alt, found.caption, "not private")
        shown.append((heading, found.figure, found.caption))
    return shown


def verdict(_: Run, trace: Trace, diagnostics: bool) -> None:
    """How much clipping took away at the end of the run, for who may see diagnostics."""
    if not diagnostics:
        return
    found = {
        label: (float(shares.mean()), float(masses.mean()))
        for label in trace.lanes
        if len(shares := trace.last(label, "clipped_share")) and len(masses := trace.last(label, "clipped_mass"))
    }
    if not found:
        return
    label, (share, mass) = max(found.items(), key=lambda item: item[1])
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**Clipped**: {texts.clipped(share, mass, label)}", width="content")
        explain.diagnostic_badge()
    if mass > MUCH:
        st.warning(texts.MUCH_CLIPPED, title="Clipping changes the function")
