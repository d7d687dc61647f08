"""The faces of a page's picture, one of which is chosen above it: along the steps, along the budget, a cloud of runs,
and the map that a family has."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import numpy as np
import streamlit as st

from dpviz.errors import UserError
from dpviz.execution.runner import Job
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.trace import Trace
from dpviz.numbers import short
from dpviz.plots import sweep_figures
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.lines import Turn
from dpviz.plots.elements.style import arm_styles
from dpviz.specification import Control
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import Ended, Place, SweepResult, by_reason
from dpviz.ui import charts, visitors
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import freshness, hero, sweep_tab, texts
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment.hero import Face
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import Options
from dpviz.ui.experiment.run import Ready, Run, runner

STEPS, BUDGET, CLOUD, MAP = "Along the steps", "Along the budget", "Cloud", "Map"
FIRST = "first"  # the map or the steps, with which a page begins
BUDGETS = 7  # of a sweep, at most
_BOUND = "bound"  # the overlay of that name, among a page's options


class Page(Protocol):
    """The part of a family's page that the faces use."""

    @property
    def title(self) -> str:
        """As `FamilyPage`."""

    @property
    def family(self) -> str:
        """As `FamilyPage`."""

    def view(self, experiment: Experiment) -> PlanView:
        """As `FamilyPage`."""

    def curve_options(self, view: PlanView, /) -> Options:
        """As `FamilyPage`."""


def choose(panel: Panel, shown: PlanView | None, uploaded: bool, mapped: bool, more: Sequence[str]) -> str:
    """Draw the choice of the face above a picture, and return the face.

    shown : None while the settings make no plan, and the choice stays as it is. mapped : true if the family has a map.
    uploaded : true if the data are a visitor's own: then no face needs other runs, or the position of each run.
    more : titles of the family's further faces.
    """
    faces: dict[str, str] = st.session_state.get(panel.key("faces"), {FIRST: STEPS})
    if uploaded:
        faces = {FIRST: STEPS} | {title: title for title in more}
    elif shown is not None:
        faces = {FIRST: MAP, STEPS: STEPS} if mapped else {FIRST: STEPS}
        faces |= {BUDGET: BUDGET} | ({CLOUD: CLOUD} if shown.experiment.problem.plane is not None else {})
        faces |= {title: title for title in more}
        st.session_state[panel.key("faces")] = faces
    if len(faces) == 1:  # before the first plan
        return STEPS
    return faces[panel.choice("face", "Picture", faces, FIRST, "", above=True)]


def along_budget(panel: Panel, page: Page, ready: Ready | None, experiment: Experiment | None) -> Face:
    """Return the face with the final values of the methods at other budgets, from a sweep.

    The sweep begins when the run of the picture has ended, and a move of the budget does not change it.

    ready, experiment : the settings of the page, and their experiment, also with methods that have no plan now.
    """
    key = page.family + run_panel.ALONG
    wanted, ended = None if experiment is None else along(experiment), run_panel.shown(panel.page)
    own = ended if ended is not None and freshness.belongs(ready, ended.job) else None
    swept: Run | None = st.session_state.get(key)
    if swept is not None and swept.job.task != wanted:
        swept.job.stop()
    same = swept is not None and swept.job.task == wanted and swept.job.state != "stopped"
    free = own is not None and own is run_panel.current(panel.page) and ready is not None and not ready.too_much
    if wanted is not None and free and not same:
        job = runner().submit(wanted, visitor=visitors.here().name, later=True)
        swept, same = Run(job, {}, panel.page, f"{page.title}, along the budget"), True
        visitors.here().keep(key, swept)
    task = wanted if swept is None else swept.job.task
    pale = swept is not None and not same

    def draw() -> float | None:
        if not isinstance(task, Sweep):
            st.caption(texts.UNSET)
            return None
        made = _chart(panel, page, task, None if swept is None else swept.job, None if pale else own, experiment)
        charts.picture(made, panel.key("hero_budget"), pale, panel.page)
        return swept.look() if swept is not None and swept.job.active else None

    return Face(pale, draw)


def along(experiment: Experiment) -> Sweep | None:
    """Return the sweep of the private methods over budgets that do not depend on the present one; None for a file."""
    arms = tuple(arm for arm in experiment.arms if not arm.reference)
    if not experiment.public or not arms:
        return None
    control, repeats = _size(experiment), min(freshness.FIRST, experiment.replicates)
    with suppress(UserError):
        budget = experiment.budget.replaced(**{control.name: control.default})
        usual = experiment.replaced(arms=arms, replicates=repeats, budget=budget)
        metrics = usual.metrics()
        lower = (name for name, metric in metrics.items() if metric.better == "lower" and not metric.axis)
        metric = next(lower, next(iter(metrics), ""))
        return Sweep(usual, fields=(f"budget.{control.name}",), values=_budgets(control), metric=metric)
    return None


def _size(experiment: Experiment) -> Control:
    """Return the control of the size of a budget, which is drawn above the picture."""
    return type(experiment.budget).controls()[0]


def _budgets(control: Control) -> tuple[float, ...]:
    """Return the numbers 1 and 3 times a power of ten in the slider's range, those closest to its default."""
    low, high, usual = control.low or 0.0, control.high or math.inf, float(control.default)
    points = (float(f"{mantissa}e{power}") for power in range(-9, 9) for mantissa in (1, 3))
    inside = [point for point in points if low <= point <= high]
    return tuple(sorted(sorted(inside, key=lambda point: abs(math.log(point / usual)))[:BUDGETS]))


def _chart(panel: Panel, page: Page, sweep: Sweep, job: Job | None, own: Run | None, now: Experiment | None) -> Chart:
    """Return the picture of the results so far. own : the run at the present budget, which is that of `now`."""
    metric, control = sweep.experiment.metrics()[sweep.metric], _size(sweep.experiment)
    arms, alike = sweep.experiment.arms, now is not None and type(now.budget) is type(sweep.experiment.budget)
    found = SweepResult(arms, sweep.metric, sweep.places) if job is None or job.result is None else job.result
    seen, here = found.visible(True), float(getattr(now.budget, control.name)) if now is not None and alike else None
    seen.metric, trace = metric, None if own is None else own.job.trace
    level = None if trace is None else _level(trace, sweep.metric)
    for arm in arms:
        ends = np.empty(0) if trace is None or arm.label not in trace.lanes else trace.last(arm.label, sweep.metric)
        if here is not None and trace is not None and len(ends) and np.isfinite(ends).all():
            curve = seen.curves[arm.label]
            curve.ends = tuple(end for end in curve.ends if end.place.value != here)
            curve.status = trace.lanes[arm.label].status_of(metric)
            curve.add(Ended(Place(sweep.places, here), ends, 0))
    bound, remark = _bound(panel, page, sweep, here)
    low, high = (end(sweep.values if here is None else (*sweep.values, here)) for end in (min, max))
    turns = []
    if here is not None:
        side = here**2 < low * high  # which has more room for the words
        turns = [Turn(here, f"you are here<br>{control.symbol} = {short(here)}", "left" if side else "right")]
    figure = sweep_figures.along_budget(
        seen,
        arm_styles(arms) | ({} if own is None else arm_styles(own.experiment.arms)),
        control.title,
        turns,
        (low, high),
        level=level,
        bound=bound,
        height=hero.HEIGHT,
    )
    status, privacy = sweep_tab.status(sweep, seen)
    few = sweep.experiment.replicates
    runs = f"Median of {few} run{'s' * (few != 1)} at each budget{', 10-90 % band' * (few > 1)}"
    if own is not None:
        runs += f"; at yours, of {own.experiment.replicates}"
    words = [_progress(job, found), f"{metric.label} in the end, by budget.", f"{runs}.", remark]
    words += [f"Left out: {arms}: {reason}" for reason, arms in by_reason(found.left_out, sweep.places).items()]
    at = "" if here is None else f"; you are at {short(here)}"
    alt = f"{metric.label} in the end against {control.title}, one line per method{at}"
    return Chart(figure, metric.label, alt, " ".join(filter(None, [*words, privacy])), status)


def _progress(job: Job | None, found: SweepResult) -> str:
    """Say how many budgets have results, while some have none."""
    if job is not None and job.state == "failed":
        return f"**Other budgets failed:** {job.message}"
    if found.finished == found.points:
        return ""
    why = ""
    if job is not None:
        why = (
            ": the others took too long"
            if job.state == "timeout"
            else ", after the runs of others" * bool(job.position)
        )
    return f"**{found.finished} of {found.points} budgets{why}.**"


def _level(trace: Trace, metric: str) -> tuple[str, float] | None:
    """Return label and final value of the best method without privacy; None without one."""
    sign = -1.0 if trace.metrics[metric].better == "higher" else 1.0
    without = [label for label, lane in trace.lanes.items() if not lane.private and len(lane.last(metric))]
    ends = {label: float(np.median(trace.last(label, metric))) for label in without}
    return min(ends.items(), key=lambda end: sign * end[1], default=None)


def _bound(
    panel: Panel, page: Page, sweep: Sweep, here: float | None
) -> tuple[tuple[str, np.ndarray, np.ndarray] | None, str]:
    """Return the bound of the method whose bound is lowest near the present budget, and a sentence about it.

    The bound is the label, budgets (k,) and the bound at each (k,); None and "" if the metric has no bound.
    """
    last, bounds, remark = st.session_state.get(panel.key("bounds"), (None, {}, ""))
    if last != sweep:
        bounds, remark = _bounds(page, sweep)
        st.session_state[panel.key("bounds")] = sweep, bounds, remark
    values = np.array(sweep.values)
    near = -1 if here is None else int(np.abs(np.log(values / here)).argmin())
    label = min(bounds, key=lambda label: np.nan_to_num(bounds[label][near], nan=np.inf), default="")
    return ((label, values, bounds[label]), remark) if label else (None, "")


def _bounds(page: Page, sweep: Sweep) -> tuple[Mapping[str, np.ndarray], str]:
    """Return the bounds (k,) of all methods that have one, at every budget, and a sentence about them."""
    bounds: dict[str, np.ndarray] = {}
    remark = ""
    for index, point in enumerate(sweep.points()):
        with suppress(UserError):  # no method has a plan there
            options = page.curve_options(page.view(point))
            if options.compared == sweep.metric:
                remark = options.remarks.get(_BOUND, "")
                for label, curve in options.overlays.get(_BOUND, {}).items():
                    bounds.setdefault(label, np.full(sweep.places, np.nan))[index] = curve[-1]
    return {label: bound for label, bound in bounds.items() if np.isfinite(bound).any()}, remark
