"""The faces of a page's picture, that is, its views of the same settings, one of which is chosen above it.

A page has the curves along the steps, the final values along the budget, a cloud of moving dots, a family's map, and a
family's further faces, as far as the problem allows. This file holds the choice among them and the face along the
budget.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal, Protocol

import numpy as np
import streamlit as st

from dpviz.errors import UserError
from dpviz.execution.runner import Job
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.trace import Trace
from dpviz.numbers import short
from dpviz.plots import sweep_figures
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.lines import VerticalLine
from dpviz.plots.elements.style import arm_styles
from dpviz.specification import Control
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import PointKey, PointRuns, SweepResult, by_reason
from dpviz.ui import charts, visitors
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import hero, texts
from dpviz.ui.experiment import run as run_panel
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment.hero import Face
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.results import CurveOptions, diagnostics_shown
from dpviz.ui.experiment.run import Run, StartableExperiment, runner

STEPS, BUDGET, CLOUD, MAP = "Along the steps", "Along the budget", "Cloud", "Map"
FIRST = "first"  # value of the choice with which a page begins: `choose` says which face that is
MAX_BUDGETS = 7  # largest number of budgets in a sweep along the budget
_BOUND = "bound"  # name of the overlay with the theory's upper bound, among a page's options


class FacesPage(Protocol):
    """The part of a family's page that the faces use."""

    @property
    def title(self) -> str:
        """The title of the page in the menu."""

    @property
    def family(self) -> str:
        """The name of the family's package."""

    def view(self, experiment: Experiment) -> PlanView:
        """Return the plans of an experiment with their theory. Raises UserError if no method has a plan."""

    def curve_options(self, view: PlanView, /) -> CurveOptions:
        """Return the options for the curves of a run, among them the theory's bounds, from its plans."""


def choose(panel: Panel, view: PlanView | None, uploaded: bool, mapped: bool, more: Sequence[str]) -> str:
    """Draw the choice of the face above a picture; return the title of the chosen face.

    view : the plan of the page's settings; None while they make no plan, and the choice offers the same faces as
    before. uploaded : true if the data are a visitor's own file: then only the steps and the further faces are offered,
    since the others need runs at other budgets, which would be releases too, or the position of each run. While what
    reads the file is hidden, a further face is first: it draws released values, and curves often do not.
    mapped : true if the family has a map. more : titles of the family's further faces.
    """
    # By the value of the choice, the title of its face. Without a plan, those of the last plan.
    faces: dict[str, str] = st.session_state.get(panel.key("faces"), {FIRST: STEPS})
    if uploaded:
        reads_file = view is not None and diagnostics_shown(panel, view.experiment)
        first, *others = [STEPS, *more] if reads_file else [*more, STEPS]
        faces = {FIRST: first} | {title: title for title in others}
    elif view is not None:
        faces = {FIRST: MAP, STEPS: STEPS} if mapped else {FIRST: STEPS}
        has_plane = view.experiment.problem.plane is not None
        common = [BUDGET, CLOUD] if has_plane else [BUDGET]
        faces |= {title: title for title in (*common, *more)}
        st.session_state[panel.key("faces")] = faces
    if len(faces) == 1:  # no choice, as before the first plan
        return faces[FIRST]
    return faces[panel.choice("face", "Picture", faces, default=FIRST, help="", above=True)]


def along_budget(
    panel: Panel, page: FacesPage, ready: StartableExperiment | None, experiment: Experiment | None
) -> Face:
    """Return the face with the final values of the methods at several budgets, from a sweep in the background.

    The sweep begins when the page's own run has ended, so that it does not delay it. Its budgets do not depend on the
    present one: a visitor who moves the budget sees another point of the same curves.

    ready : the settings of the page, None while they make no run. experiment : the experiment of these settings,
    including methods that have no plan at the present budget; None while the controls make none.
    """
    key = page.family + run_panel.ALONG
    wanted = None if experiment is None else budget_sweep(experiment)
    sweep_run: Run | None = st.session_state.get(key)  # the last one
    is_wanted = False  # true if `sweep_run` is of the wanted sweep and was not stopped: else the sweep begins again
    if sweep_run is not None and sweep_run.job.task == wanted:
        is_wanted = sweep_run.job.state != "stopped"
    elif sweep_run is not None:
        sweep_run.job.stop()
    # The run at the present budget, if it has ended and has the present settings.
    last_ended = run_panel.finished_run(panel.page)
    present_run = last_ended if last_ended is not None and run_panel.matches_job(ready, last_ended.job) else None
    has_newest_ended = present_run is not None and present_run is run_panel.newest_run(panel.page)
    may_start = has_newest_ended and ready is not None and not ready.too_much  # the memory of a run suffices
    if wanted is not None and may_start and not is_wanted:
        job = runner().submit(wanted, visitor=visitors.current().name, later=True)  # after all runs in the queue
        # Without plans: only the progress and the results of a single run need them.
        sweep_run, is_wanted = Run(job, {}, panel.page, f"{page.title}, along the budget"), True
        visitors.current().keep(key, sweep_run)
    task = wanted if sweep_run is None else sweep_run.job.task  # the last sweep stays until the wanted one begins
    pale = sweep_run is not None and not is_wanted

    def draw() -> float | None:
        """Draw the chart of the sweep; return the seconds until it is drawn again, None if it is final."""
        if not isinstance(task, Sweep):  # None: the settings make no sweep, and there was none before
            st.caption(texts.UNSET)
            return None
        job = None if sweep_run is None else sweep_run.job
        # A run that was stopped has no final values, and a pale sweep has other settings or was stopped.
        has_point = present_run is not None and present_run.job.state == "done" and not pale
        chart = _chart(panel, page, task, job, present_run if has_point else None, experiment)
        charts.show_captioned(chart, panel.key("hero_budget"), pale, panel.page)
        return sweep_run.poll_interval() if sweep_run is not None and sweep_run.job.active else None

    return Face(pale, draw)


def budget_sweep(experiment: Experiment) -> Sweep | None:
    """Return the sweep of an experiment's private methods over fixed budgets of the same currency.

    The present size of the budget plays no part in it, so that the sweep is the same wherever the slider is. Return
    None if there is nothing to sweep: data of a visitor, no private method, or an experiment that cannot be built.
    """
    arms = tuple(arm for arm in experiment.arms if not arm.reference)
    if not experiment.public or not arms:
        return None
    # As many repeats as a page runs first: a sweep that nobody has asked for must be short.
    repeats = min(run_panel.FIRST_REPEATS, experiment.replicates)
    control = _size_control(experiment)
    with suppress(UserError):
        budget = experiment.budget.replaced(**{control.name: control.default})
        template = experiment.replaced(arms=arms, replicates=repeats, budget=budget)
        # The first metric of which less is better, except those for horizontal axes, such as a number of evaluations.
        names = (name for name, metric in template.metrics().items() if metric.better == "lower" and not metric.axis)
        metric = next(names, "")  # with "" the sweep takes the first of all, or raises UserError if there is none
        return Sweep(template, fields=(f"budget.{control.name}",), values=_budgets(control), metric=metric)
    return None


def _size_control(experiment: Experiment) -> Control:
    """Return the control of the size of an experiment's budget, such as ε; a budget's class declares it first."""
    return type(experiment.budget).controls()[0]


def _budgets(control: Control) -> tuple[float, ...]:
    """Return at most MAX_BUDGETS sizes of a budget in the range of its control, in ascending order.

    They are 1 or 3 times a power of ten, and closest to the control's default on a logarithmic scale.
    """
    low, high, default = control.low or 0.0, control.high or math.inf, float(control.default)  # None: without a limit
    # From 1e-9 to 3e8, far beyond the range of any budget; parsed, so that each is the float closest to its text.
    round_numbers = [float(f"{mantissa}e{power}") for power in range(-9, 9) for mantissa in (1, 3)]
    in_range = [size for size in round_numbers if low <= size <= high]
    closest = sorted(in_range, key=lambda size: abs(math.log(size / default)))[:MAX_BUDGETS]
    return tuple(sorted(closest))


def _chart(
    panel: Panel, page: FacesPage, sweep: Sweep, job: Job | None, present_run: Run | None, experiment: Experiment | None
) -> Chart:
    """Return the chart of the results that a sweep over budgets has so far, with the present budget as one more point.

    job : the job of the sweep, None before it has begun. experiment : that of the page, None while its controls make
    none. present_run : the ended run of `experiment`, whose R final values are drawn at its budget; None without one.
    """
    metric, arms = sweep.experiment.metrics()[sweep.metric], sweep.experiment.arms
    control = _size_control(sweep.experiment)
    result = None if job is None else job.result
    if result is None:
        result = SweepResult(arms, sweep.metric, sweep.points_per_data_set)  # an empty one
    # A copy, as the present run is added to it; with all values, as the data are public.
    drawn_result = result.visible(diagnostics=True)
    drawn_result.metric = metric  # a result has none before its first point
    present_size: float | None = None  # size of the present budget, if it has the currency of the sweep
    if experiment is not None and type(experiment.budget) is type(sweep.experiment.budget):
        present_size = float(getattr(experiment.budget, control.name))
    trace = None if present_run is None else present_run.job.trace
    if trace is not None and present_size is not None:
        for arm in arms:
            final_values = trace.last(arm.label, sweep.metric) if arm.label in trace.arm_traces else np.empty(0)  # (R,)
            if len(final_values) and np.isfinite(final_values).all():
                curve = drawn_result.curves[arm.label]
                # In place of the sweep's own point at this budget, if any; the sweep's own points have lower numbers.
                curve.point_runs = tuple(runs for runs in curve.point_runs if runs.key.value != present_size)
                curve.privacy = trace.arm_traces[arm.label].privacy_of_metric(metric)
                curve.add(PointRuns(PointKey(sweep.points_per_data_set, present_size), final_values))
    bound, remark = _bound(panel, page, sweep, present_size)
    budgets = sweep.values if present_size is None else (*sweep.values, present_size)
    low, high = min(budgets), max(budgets)
    verticals = []
    if present_size is not None:
        # √(low·high) is the middle of the logarithmic axis. In the left half the line is left of its text, for which
        # there is more room on the right.
        side: Literal["left", "right"] = "left" if present_size**2 < low * high else "right"
        verticals = [VerticalLine(present_size, f"you are here<br>{control.symbol} = {short(present_size)}", side)]
    styles = arm_styles(arms)
    if present_run is not None:  # as in the picture along the steps: styles may depend on which methods are drawn
        styles |= arm_styles(present_run.experiment.arms)
    figure = sweep_figures.along_budget(
        drawn_result,
        styles,
        control.title,
        verticals,
        ends=(low, high),
        level=None if trace is None else _level(trace, sweep.metric),
        bound=bound,
        height=hero.HEIGHT,
    )
    privacy, publishing = sweep_panel.provenance_and_sentences(sweep, drawn_result)
    repeats = sweep.experiment.replicates
    run_count = f"Median of {repeats} runs at each budget, 10-90 % band"
    if repeats == 1:
        run_count = "Median of 1 run at each budget"
    if present_run is not None:
        run_count += f"; at yours, of {present_run.experiment.replicates}"
    sentences = [_progress(job, result), f"{metric.label} in the end, by budget.", f"{run_count}.", remark]
    for reason, methods in by_reason(result.left_out, sweep.points_per_data_set).items():
        sentences.append(f"Left out: {methods}: {reason}")
    at = "" if present_size is None else f"; you are at {short(present_size)}"
    alt = f"{metric.label} in the end against {control.title}, one line per method{at}"
    return Chart(figure, metric.label, alt, " ".join(filter(None, [*sentences, publishing])), privacy)


def _progress(job: Job | None, result: SweepResult) -> str:
    """Return a sentence on how many budgets have results, and why the others have none; "" if all have."""
    if job is not None and job.state == "failed":
        return f"**Other budgets failed:** {job.message}"
    if result.finished == result.points:
        return ""
    why = ""
    if job is not None and job.state == "timeout":
        why = ": the others took too long"
    elif job is not None and job.position:
        why = ", after the runs of others"
    return f"**{result.finished} of {result.points} budgets{why}.**"


def _level(trace: Trace, metric: str) -> tuple[str, float] | None:
    """Return label and median final value of the best method without privacy; None if there is no such method."""
    sign = -1.0 if trace.metrics[metric].better == "higher" else 1.0
    without_privacy = [
        label for label, arm_trace in trace.arm_traces.items() if not arm_trace.private and len(arm_trace.last(metric))
    ]
    medians = {label: float(np.median(trace.last(label, metric))) for label in without_privacy}
    return min(medians.items(), key=lambda item: sign * item[1], default=None)


def _bound(
    panel: Panel, page: FacesPage, sweep: Sweep, present_size: float | None
) -> tuple[tuple[str, np.ndarray, np.ndarray] | None, str]:
    """Return the theory's bound of one method at the k budgets of a sweep, and a sentence about it.

    The method is the one whose bound is lowest at the budget closest to `present_size`, or without one at the largest
    budget. The bound is (label, budgets (k,), bounds (k,)). Returns None and "" if no method has a bound.
    """
    last_sweep, bounds, remark = st.session_state.get(panel.key("bounds"), (None, {}, ""))
    if last_sweep != sweep:  # a page is drawn again much more often than its sweep changes
        bounds, remark = _bounds(page, sweep)
        st.session_state[panel.key("bounds")] = sweep, bounds, remark
    if not bounds:
        return None, ""
    budgets = np.array(sweep.values)
    closest = -1 if present_size is None else int(np.abs(np.log(budgets / present_size)).argmin())
    label = min(bounds, key=lambda name: np.nan_to_num(bounds[name][closest], nan=np.inf))  # nan: no plan there
    return (label, budgets, bounds[label]), remark


def _bounds(page: FacesPage, sweep: Sweep) -> tuple[Mapping[str, np.ndarray], str]:
    """Return the theory's bound of each method that has one, by label, and the page's sentence about these bounds.

    A bound is an array (k,) over the k budgets of the sweep, of the final value of its metric; nan at budgets at which
    the method has no plan.
    """
    bounds: dict[str, np.ndarray] = {}
    remark = ""
    for index, point in enumerate(sweep.points()):
        with suppress(UserError):  # no method has a plan there
            options = page.curve_options(page.view(point))
            if options.compared == sweep.metric:  # the metric that the overlays bound
                remark = options.remarks.get(_BOUND, "")
                for label, curve in options.overlays.get(_BOUND, {}).items():
                    if label not in bounds:
                        bounds[label] = np.full(sweep.points_per_data_set, np.nan)
                    bounds[label][index] = curve[-1]  # after the last step
    return {label: bound for label, bound in bounds.items() if np.isfinite(bound).any()}, remark
