"""What a run of the zeroth-order methods shows beyond curves: stationarity, clipping, and the ground it walked on."""

import streamlit as st

from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import figures, texts
from dpviz.numbers import short
from dpviz.plots.style import arm_styles
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.experiment.run import Run
from dpviz.ui.zeroth_order import live

MUCH = 0.05  # of what clipping takes away, from which on it is a warning


def extra(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """How stationary the runs became, and for two parameters the raw and the smoothed ground; what was drawn."""
    if not diagnostics:
        return []
    shown: Shown = []
    looks = arm_styles(run.experiment.arms)
    privacy = explain.diagnostic(run.experiment.replicates, run.experiment.problem.public)
    parts = (
        (True, "Is the smoothed gradient small?", texts.STATIONARITY),
        (False, "Goldstein stationarity", texts.GOLDSTEIN),
    )
    for column, (smoothed, heading, words) in zip(st.columns(2, gap="medium"), parts, strict=True):
        figure = figures.stationarity(trace, looks, smoothed=smoothed)
        if figure.data:
            caption = f"{words} {privacy}"
            with column:
                alt = f"{heading} One line per method, at a few epochs"
                charts.show(figure, panel.key(f"chart_stationary_{smoothed}"), heading, alt, caption, "not private")
            shown.append((heading, figure, caption))
    return shown + (_grounds(panel, run, trace) if live.has_landscape(run.experiment.problem) else [])


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
