"""What a visitor sees first: the picture of the run, moving, and beside it the one number that it comes to."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import plotly.graph_objects as go
import streamlit as st

from dpviz.experiments.outcome import PRIVATE, Outcome, outcome, pictured
from dpviz.experiments.trace import Trace
from dpviz.numbers import short
from dpviz.plots import run_figures
from dpviz.plots.elements.labels import compact, resized
from dpviz.plots.elements.lines import Limit
from dpviz.plots.elements.style import arm_styles
from dpviz.ui import charts, components, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import results
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.plan import Drawing
from dpviz.ui.experiment.run import Run

HEIGHT, SMALL = 380, 190  # pixels
FEW = 6  # lines with names in the small figure
_ALIKE, _FAR = 1.05, 1_000.0  # ratios of two ends that are told as the same, and no longer in numbers
_TINY = 1e-12  # rounding may leave a gap of 1e-16, of either sign, where a method has solved the problem
NOTHING = "This run records nothing that may be shown in a curve. What it releases stands under Results."


class Picture(NamedTuple):
    """The live picture: its text alternative begins with `alt`, the caption stands below."""

    figure: go.Figure
    alt: str
    caption: str


class Headline(NamedTuple):
    """The one number of a run, what it is, and what it means in a sentence or two."""

    label: str
    value: str
    help: str
    sentence: str


Drawn = Callable[[Run, bool], Picture | None]
Told = Callable[[Run, Trace], Headline | None]


def picture(panel: Panel, active: bool, drawn: Drawn) -> None:
    """The picture of the newest run that has one, and its progress; it follows a run that is under way.

    drawn : makes it, given whether diagnostics may be seen; None if nothing may be shown.
    """
    run_panel.live(panel.page, active, partial(_draw, panel, drawn))


def _draw(panel: Panel, make: Drawn) -> None:
    run = run_panel.pictured(panel.page)
    if run is None:
        components.awaited(panel.key("hero"))
        return
    of, active = (run.job, results.diagnostics_shown(panel, run.experiment)), run.job.active
    still = not active or bool(st.session_state.get(panel.key("pause")))
    last, drawn, growing = st.session_state.get(panel.key("picture"), (None, None, True))
    # A picture that stands still is of the same run, shows no more than may be seen now, and the end if there is one.
    if not still or drawn is None or last != of or (growing and not active):
        drawn = make(run, of[1])
        st.session_state[panel.key("picture")] = of, drawn, active
    if drawn is None:
        st.info(NOTHING)
        return
    figure, alt, caption = drawn
    charts.plain(figure, panel.key("hero"), alt)
    st.caption(caption)


def curves(
    run: Run, diagnostics: bool, name: str = "", limits: Sequence[Limit] = (), most: int = PRIVATE
) -> Picture | None:
    """The curves of the most telling metric, or of that of this name; None if none may be shown.

    most : private methods that are drawn, those that end lowest.
    """
    if run.job.trace is None:
        return None
    trace = run.job.trace.visible(diagnostics)
    found = results.metrics(trace)
    metric = found.get(name) or next(iter(found.values()), None)
    if metric is None:
        return None
    few = trace.only(pictured(trace, metric.name, most))
    looks = arm_styles(run.experiment.arms)
    figure = run_figures.convergence(few, metric.name, looks, limits=limits, height=HEIGHT)
    privacy = results.privacy(metric, few, run.experiment)
    left_out = len(trace.lanes) - len(few.lanes)
    others = f" {left_out} more under Results." if left_out > 0 else ""
    caption = f"{metric.label}. {explain.spread(run.experiment.replicates)}{others} {privacy}"
    return Picture(figure, f"{metric.label} by step, one line per method", caption)


def number(panel: Panel, noise: Drawing | None, told: Told) -> None:
    """What the last run came to, in a number and a sentence, and the noise of each step below it."""
    run = run_panel.shown(panel.page)
    found = None
    if run is not None and run.job.trace is not None:
        diagnostics = results.diagnostics_shown(panel, run.experiment)
        found = told(run, run.job.trace.visible(diagnostics))
    if found is not None:
        st.metric(found.label, found.value, help=found.help)
        st.markdown(found.sentence)
    elif run is not None:
        st.markdown("Your run has ended. What it releases stands under **Results**.")
    if noise is not None:
        heading, figure, _ = noise
        st.caption(f"{heading}, known before anything runs")
        small = resized(figure, SMALL)
        if sum(bool(trace.name) for trace in small.data) > FEW:  # a legend would leave no room for lines
            small = compact(small).update_layout(showlegend=False, height=SMALL, margin_b=48)
        charts.plain(small, panel.key("hero_noise"), f"{heading}, one line per method")


def lowest(_: Run, trace: Trace) -> Headline | None:
    """Where the method ends that ends lowest; None if there is no number of which less is better."""
    found = outcome(trace)
    if found is None:
        return None
    help = f"{found.metric.label}: median over the repeats."
    return Headline(f"{found.best} ends at", short(found.end), help, sentence(found))


def sentence(found: Outcome) -> str:
    """How good the best end is: against the start, against the next method, and against no privacy. Ratios only of
    gaps, whose floor is 0; and what may be chance between the repeats is called that."""
    parts = [_since(found)]
    if found.others:
        parts.append(_beside(found, *found.others[0]))
    if found.floor is not None:
        parts.append(_above(found, found.floor))
    return " ".join(filter(None, parts))


def _since(found: Outcome) -> str:
    """How far the best end is below the start."""
    if found.end >= found.start and (found.start > 0 or not found.metric.gap):
        return "**No lower than where it started**: at this budget the noise wins."
    if not found.metric.gap:
        return f"Down from {short(found.start)}, where it started."
    return f"**{short(100 * max(found.share, 0.0))} %** of where it started." if found.start > 0 else ""


def _beside(found: Outcome, label: str, other: float) -> str:
    """How much closer the best end is than that of the next method."""
    if _alike(found, other):
        return f"About as close as {label}." if found.metric.gap else f"{label} ends as low."
    if not found.metric.gap:
        said = f"{label} ends at {short(other)}"
    elif found.end <= 0 or other > _FAR * found.end:
        said = f"{label} ends far above, at {short(other)}"
    else:
        said = f"{short(other / found.end)} times closer than {label}"
    return f"{said}{_doubt(found, label)}."


def _above(found: Outcome, floor: float) -> str:
    """What privacy costs."""
    if _alike(found, floor):
        return f"As low as without privacy, {short(floor)}."
    if doubt := _doubt(found, found.reference):
        return f"Without privacy: {short(floor)}{doubt}."
    if found.end < floor:
        return f"Lower than without privacy, {short(floor)}."
    return f"Without privacy: {short(floor)}; the gap is the price."


def _alike(found: Outcome, other: float) -> bool:
    """Whether the best end and another one are told as the same: gaps nearly so, losses to the last digit shown."""
    if not found.metric.gap:
        return short(found.end) == short(other)
    least, most = sorted((found.end, other))
    return most <= max(_ALIKE * least, least + _TINY)


def _doubt(found: Outcome, label: str) -> str:
    """That the difference to an arm may be chance, if it may."""
    repeats = min(len(found.runs[arm]) for arm in (found.best, label))
    many = "one repeat" if repeats == 1 else f"{repeats} repeats"
    return f"; with {many} the difference may be chance" if found.chance(found.best, label) else ""
