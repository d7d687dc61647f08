"""Runs of a page in the background: the buttons Run and Stop, progress, and parts of the page that follow a run.

A page is known by its prefix, with which all its keys in the session begin. Its newest run is under `<prefix>_job`. An
older one may still be in the picture or under Results, until the newest has curves or has ended.

On public data a change of a setting starts a run of the first few repeats, and all repeats follow if they are quick.
CONTRIBUTING has the table of states of a picture.
"""

import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, Optional, Protocol
from uuid import uuid4

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitAPIException

from dpviz.execution import progress, store
from dpviz.execution.runner import Job, Runner
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.plots.elements.chart import Chart
from dpviz.privacy.accounting.currencies import Currency
from dpviz.problems.base import Problem, ProblemSpecification
from dpviz.sweeps.sweep import Sweep
from dpviz.ui import components, streamlit_patches, visitors
from dpviz.ui.controls import WHOLE, Panel
from dpviz.ui.experiment import texts
from dpviz.ui.uploads import file
from dpviz.ui.visitors import VisitorRun

# --------------------------------------------------------------------------------------- state of the picture, next run

State = Literal["idle", "queued", "first repeats", "all repeats", "old", "failed", "stopped"]
FIRST_REPEATS = 4  # number of repeats that are run first
SHORT_SECONDS = 2.0  # seconds of computing below which a run counts as short
FOLLOW_SECONDS = 5.0  # seconds of computing below which all repeats follow the first ones by themselves


class Startable(Protocol):
    """An experiment or an audit that is ready to run."""

    @property
    def public(self) -> bool:
        """True if it may start by itself: it reads no file of a visitor."""

    @property
    def first_part(self) -> Optional["Startable"]:
        """A run of the same settings with only the first few repeats, which shows curves sooner.

        None if all repeats are to run at once.
        """

    @property
    def has_few_repeats(self) -> bool:
        """True if it has so few repeats that all of them are run at once."""

    @property
    def work_ratio(self) -> float:
        """The ratio of its work to the work of its first repeats."""

    @property
    def too_much(self) -> bool:
        """True if it needs more memory than a run may use."""

    def is_task_of(self, job: Job) -> bool:
        """Return true if a job is the one that it would start."""

    def start(self, page: str, title: str, short: bool) -> VisitorRun:
        """Queue the run and return it.

        page : prefix of the keys of its page. title : name of the run in the sidebar. short : true if it is known to
        take less than SHORT_SECONDS.
        """


def matches_job(ready: Startable | None, job: Job | None) -> bool:
    """Return true if a job runs these settings, with all repeats or only the first ones."""
    if ready is None or job is None:
        return False
    return ready.is_task_of(job) or (ready.first_part is not None and ready.first_part.is_task_of(job))


def job_state(ready: Startable | None, newest: Job | None, pictured: Job | None) -> State:
    """Return the state of a page.

    ready : its present settings; None while they make no run. newest : the job that began last. pictured : the job
    whose results its picture, number and sentence show. In the states "queued", "old", "failed" and "stopped" the
    picture may be of earlier settings: it is pale unless `matches_job(ready, pictured)`.
    """
    job = next((job for job in (newest, pictured) if matches_job(ready, job)), None)  # the newest of these settings
    if ready is None or job is None:  # no run has these settings
        return "idle" if pictured is None else "old"
    if job.active and not matches_job(ready, pictured):  # it has no curves yet
        return "queued"
    if job.state == "failed":
        return "failed"
    if job.state in ("stopped", "timeout"):
        return "stopped"
    has_first_repeats = pictured is not None and not ready.is_task_of(pictured)
    return "first repeats" if has_first_repeats else "all repeats"


def next_run(ready: Startable, newest: Job | None, others_wait: bool) -> Startable | None:
    """Return the run that is to begin by itself now; None if there is none.

    The first repeats of new settings begin at once. All repeats follow if the computing time of the first ones shows
    that all take less than FOLLOW_SECONDS, and no other visitor waits. Nothing begins by itself on a visitor's file, as
    each run there is a release, or if memory would not suffice.
    """
    if not ready.public or ready.too_much:
        return None
    if newest is None or not matches_job(ready, newest):
        return ready.first_part or ready
    are_first_done = newest.state == "done" and not ready.is_task_of(newest)  # it matches, so it had the first ones
    is_short_enough = newest.computing * ready.work_ratio < FOLLOW_SECONDS
    return ready if are_first_done and not others_wait and is_short_enough else None


def is_short(ready: Startable, newest: Job | None) -> bool:
    """Return true if the run that follows a page's newest job is known to be short.

    If the newest job had the first repeats of the same settings, their computing time shows it. Otherwise a run counts
    as short if it has few repeats.
    """
    if newest is not None and newest.state == "done" and matches_job(ready, newest):
        return newest.computing * ready.work_ratio < SHORT_SECONDS
    return ready.has_few_repeats


# ----------------------------------------------------------------------------------------------------------------- runs

# A poll is one drawing of the parts of a page that show a run; an interval is the seconds between two polls.
MIN_INTERVAL = 0.25  # for a run that computes
WAITING_INTERVALS = 1.0, 5.0  # ends, for a run in line; the first is also the upper end for one that computes
# An interval is at least this multiple of the time that the last poll took, and 1 / INTERVAL_RATIO of the run's time.
INTERVAL_RATIO = 4.0
MAX_POLLS = 7.0  # upper limit of the polls in a second of all tabs with runs in line, roughly
MIN_STATUS_INTERVAL = 2.0  # for the state of all runs in the sidebar
AT_ONCE = 0.05  # interval for a run that has ended while the page was drawn
START_WAIT = 0.12  # seconds that a page waits for the first curves of a run that began by itself
PRESS_WAIT = 0.3  # seconds that a page waits for the first curves of a run that the button Run began
STOP_WAIT = 0.3  # seconds that Stop waits for a run to end: it does at its next step
SHORT_BYTES = 300e6  # upper limit of the memory of a run that counts as short, and so needs no turn after long ones
WORKERS, SLOTS = "DPVIZ_WORKERS", 2  # environment variable of the number of runs at the same time, and its default
# After a page's prefix: keys of its newest run, of the runs under Results and in the picture, and of its settings.
JOB, _SHOWN, _PICTURED, _SETTLED = "_job", "_shown", "_pictured", "_settled"
ALONG = "_budget_job"  # after a family's name: key of its sweep along the budget, with the ending of all keys of runs


@dataclass(frozen=True)
class StartableExperiment(Startable):
    """An experiment that is ready to run, with its plans by label, and the uploaded tables on which it runs by name."""

    experiment: Experiment
    plans: Mapping[str, Plan]
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def bytes(self) -> float:
        """An estimate of the bytes of memory that its run needs."""
        return self.experiment.estimated_bytes(self.plans)

    @property
    def has_few_repeats(self) -> bool:
        return self.experiment.replicates < 2 * FIRST_REPEATS  # the first ones would be more than half of them

    @property
    def work_ratio(self) -> float:
        return self.experiment.replicates / FIRST_REPEATS

    @cached_property
    def releases(self) -> str:
        """A text with the number of releases of its run, and their cost together."""
        runs = [(plan, self.experiment.replicates) for plan in self.plans.values()]
        return results.describe_releases(runs, self.experiment.budget)

    @cached_property
    def first_part(self) -> "StartableExperiment | None":
        """The same experiment with only its first FIRST_REPEATS repeats; None if it has few.

        It is also None on a file, where no run is a part of another: each has noise of its own.
        """
        if not self.public or self.has_few_repeats:
            return None
        return replace(self, experiment=self.experiment.replaced(replicates=FIRST_REPEATS))

    @property
    def too_much(self) -> bool:
        return self.bytes > runner().max_bytes

    @property
    def public(self) -> bool:
        return self.experiment.public

    def is_task_of(self, job: Job) -> bool:
        return job.task == self.experiment

    def start(self, page: str, title: str, short: bool) -> "Run":
        short = short and self.bytes < SHORT_BYTES
        job = runner().submit(self.experiment, self.tables, visitor=visitors.current().name, short=short)
        return Run(job, self.plans, page, title, dict(self.tables))


@dataclass(frozen=True, eq=False)
class Run:
    """A job of a page with the plans that it executes, kept in the session until the next one replaces it.

    page : prefix of the page. title : name in the sidebar.
    tables : the uploaded tables that it ran on, by name, which its results may need; empty after the file was removed.
    charts : cached charts of its results, by all that they depend on.
    films : cached animations of its moving dots with their caption, by the colour of marks and the size of type.
    identity : a random text that no other run has.
    """

    job: Job
    plans: Mapping[str, Plan]
    page: str
    title: str
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    charts: dict[Hashable, Chart] = field(default_factory=dict, repr=False)
    films: dict[tuple[str, float], tuple[bytes, str]] = field(default_factory=dict, repr=False)
    identity: str = field(default_factory=lambda: uuid4().hex)

    def abandon(self) -> None:
        """Stop the job, because its visitor has left."""
        self.job.stop()

    @property
    def waits(self) -> bool:
        """True if it waits in the queue and is not the next."""
        return (self.job.position or 0) > 0  # the number of runs before it; None outside the queue

    @property
    def waiting_text(self) -> str:
        """A sentence on why the run has no curves yet."""
        return progress.waiting_text(self.job) if self.job.state == "queued" else "The new run has no curves yet."

    def poll_interval(self, took: float = 0.0) -> float:
        """Return the seconds until a page polls the run again.

        In line, these are as many as there are runs before it. While it computes, they grow with its duration and with
        `took`, the seconds that the last poll took, which are many on a busy server. Both are within limits.
        """
        if self.waits:
            # Its position is None if its turn has come just now.
            return float(np.clip(self.job.position or 0, *WAITING_INTERVALS))
        seconds = max(INTERVAL_RATIO * took, self.job.seconds / INTERVAL_RATIO)
        return float(np.clip(seconds, MIN_INTERVAL, WAITING_INTERVALS[0]))

    @property
    def is_restorable(self) -> bool:
        """True for a run on public data: a tab that is loaded again may have it back."""
        return self.job.experiment.public

    def forget_tables(self, tables: Collection[str]) -> None:
        """Forget the uploaded tables of these names, and end computations that still use one of them."""
        self.job.stop_if_using(tables)
        removed = [self.tables.pop(name) for name in tables if name in self.tables]
        if removed:
            _built.clear()  # the problems in this cache hold the rows, too

    @property
    def experiment(self) -> Experiment:
        """The experiment that runs, or that a sweep varies."""
        assert isinstance(self.job.experiment, Experiment)
        return self.job.experiment

    @property
    def currency(self) -> Currency:
        """The currency in which the privacy spent is drawn: ρ for a guarantee such as (ε, δ), whose costs do not add
        up."""
        return self.experiment.budget.currency or "rho"

    @property
    def problem(self) -> Problem:
        """The problem with its data, for diagnostics after the run; it exists only while the run `has_data`."""
        return _built(self.experiment.problem.to_json(), self.tables)

    @property
    def has_data(self) -> bool:
        """True for public data, and for those of a file until it is removed."""
        return self.experiment.public or bool(self.tables)

    @property
    def progress_text(self) -> str:
        """A text with the finished steps of all methods together, such as "120 of 400 steps", or points of a sweep.

        At the end these are the steps that each method's longest repeat took. On a file they are those of the private
        methods: when others stop by themselves would tell something about the rows.
        """
        if isinstance(self.job.task, Sweep):
            result = self.job.result
            return f"{result.finished} of {result.points} points" if result is not None else "the first point"
        if self.job.state == "done" and self.job.trace is not None:
            trace = self.job.trace.visible(diagnostics=self.is_restorable)
            steps = sum(arm_trace.iterations[-1] for arm_trace in trace.arm_traces.values() if arm_trace.iterations)
            return f"{steps:,} steps" if self.is_restorable else f"{steps:,} private steps"
        total = sum(plan.iterations for plan in self.plans.values())
        return f"{round(self.job.progress * total):,} of {total:,} steps"


MakeChart = Callable[[Run, bool], Chart | None]  # from a run, and whether diagnostics may be seen, to its chart


@st.cache_resource(max_entries=4, scope="session", show_spinner=False)
def _built(problem_json: str, _tables: Mapping[str, np.ndarray]) -> Problem:
    """Return the problem with its data, from uploaded tables or generated; cached by its JSON text alone.

    Streamlit leaves parameters with an underscore out of the cache key.
    """
    return ProblemSpecification.from_json(problem_json).build(_tables)


def problem_key(run: Run) -> str:
    """Return a text that identifies the problem of a run, as key for cached results that depend on it alone."""
    return run.experiment.problem.to_json()


@st.cache_resource(show_spinner=False)
def runner() -> Runner:
    """Return the one runner of this server, which computes the runs of all visitors.

    The environment variable DPVIZ_WORKERS is its number of processes. If it is 0, the runner has SLOTS threads instead.
    """
    text = os.environ.get(WORKERS, "")
    count = int(text) if text.isdecimal() else SLOTS
    # With processes, short runs have one more slot of their own.
    return Runner(slots=count or SLOTS, processes=count > 0, store=store.configured_store(), short=count > 0)


def newest_run(page: str) -> Run | None:
    """Return the newest run of the page with the prefix `page`, None before the first."""
    return st.session_state.get(page + JOB)


def finished_run(page: str) -> Run | None:
    """Return the run whose results a page shows: the last one that has ended with any, None before the first.

    It stays while the next run is under way.
    """
    run = newest_run(page)
    if run is not None and not run.job.active and run.job.trace is not None:
        st.session_state[page + _SHOWN] = run
    return st.session_state.get(page + _SHOWN)


def pictured(page: str) -> Run | None:
    """Return the run in a page's picture: the newest one with a curve of every method, None before the first.

    A run of all repeats takes the place of one of the first repeats only when it has ended, as its curves would have to
    begin again.
    """
    run, last = newest_run(page), st.session_state.get(page + _PICTURED)
    trace = None if run is None else run.job.trace
    if run is None or trace is None or not all(arm_trace.iterations for arm_trace in trace.arm_traces.values()):
        return last
    if run.job.active and last is not None and _had_first_repeats_of(last.job, run.job):
        return last
    st.session_state[page + _PICTURED] = run
    return run


def _had_first_repeats_of(earlier: Job, job: Job) -> bool:
    """Return true if the job `earlier` had exactly the first repeats of `job`, which has more."""
    experiment = job.task
    if not isinstance(experiment, Experiment) or not experiment.public:  # on a file each run has noise of its own
        return False
    return earlier.task != experiment and earlier.task == experiment.replaced(replicates=FIRST_REPEATS)


def note_settings(page: str, ready: StartableExperiment | None) -> None:
    """Note the present settings of a page; None while they make no run."""
    if ready is not None and ready.tables:  # the session must not hold the rows of a file that may be removed
        ready = replace(ready, tables={})
    st.session_state[page + _SETTLED] = ready


def picture_state(page: str) -> tuple[State, bool]:
    """Return the state of a page, and true if its picture is of earlier settings, and therefore pale."""
    ready = st.session_state.get(page + _SETTLED)
    newest, picture = newest_run(page), pictured(page)
    newest_job = None if newest is None else newest.job
    picture_job = None if picture is None else picture.job
    return job_state(ready, newest_job, picture_job), not matches_job(ready, picture_job)


def partial_repeats(page: str, run: Run) -> tuple[int, int] | None:
    """Return (repeats of a run, repeats of the page's settings) if the run has only the first ones, else None."""
    ready = st.session_state.get(page + _SETTLED)
    if not isinstance(ready, StartableExperiment) or ready.is_task_of(run.job) or not matches_job(ready, run.job):
        return None
    return run.experiment.replicates, ready.experiment.replicates


def bar(panel: Panel, title: str, ready: Startable | None, switch_area: DeltaGenerator, file_text: str = "") -> bool:
    """Draw Run and Stop, start the run that begins by itself, if one does, and return whether a run is under way.

    The returned value is that of the buttons; the run may end while the rest of the page is drawn. Call this outside
    any fragment, so that a press of a button draws the whole page.

    title : of the page, as name of its runs. ready : the present settings, None while they make no run; a run that is
    under way can still be stopped then. switch_area : of the switch that lets runs begin by themselves.
    file_text : on a page about a visitor's own file, the text in the place of the switch.
    """
    page = panel.page
    if file_text:
        switch_area.caption(file_text)
    else:
        with switch_area:
            at_once = panel.switch("follow", "Run at every change", default=True, help=texts.FOLLOW_HELP)
        if at_once and ready is not None:
            _follow(page, title, ready)
    run = newest_run(page)
    # Streamlit gives a button the value true in the drawing after its press; its callback has run before.
    is_pressed = bool(st.session_state.get(f"{page}_run"))
    if is_pressed and run is not None and ready is not None and not matches_job(ready, run.job):
        # A number was typed just before Run was pressed, and the callback started a run without the number.
        run.job.stop()
        if not ready.too_much:
            start(page, title, ready)
    run = newest_run(page)
    active = run is not None and run.job.active
    st.button(
        "Run",
        key=f"{page}_run",
        type="primary",
        icon=":material/play_arrow:",
        disabled=active or ready is None or ready.too_much,
        on_click=start,
        args=(page, title, ready),
    )
    st.button("Stop", key=f"{page}_stop", icon=":material/stop:", disabled=not active, on_click=stop, args=(page,))
    return active


def _follow(page: str, title: str, ready: Startable) -> None:
    """Start the run that begins by itself at the settings `ready`, and the next one if the first ends at once.

    It replaces the run of earlier settings; in the queue, the visitor keeps the position.
    """
    run = newest_run(page)
    is_queued = run is not None and run.job.state == "queued"
    others_wait = runner().waiting > int(is_queued)  # `waiting` counts the runs in the queue, also this one if queued
    while True:
        due = next_run(ready, None if run is None else run.job, others_wait)
        if due is None:
            return
        start(page, title, due)
        run = newest_run(page)
        assert run is not None
        run.job.wait(START_WAIT)  # if the run ends within this time, all repeats may follow at once


def show_live(
    page: str,
    active: bool,
    draw: Callable[[], float | None],
    if_none: str = "",
    hides_progress: Callable[[Run], bool] = lambda _: False,
) -> None:
    """Draw a part of the page, and the progress of its run below, again and again while the run is under way.

    When the run has ended, or its turn in the queue has come, all of the page but its sidebar is drawn again instead,
    so that the buttons change.

    active : the value that `bar` returned. draw : draws the part; if no run is under way, it is drawn again after as
    many seconds as `draw` returns, unless that is None. if_none : a text for the time before the first run.
    hides_progress : returns true for a run whose progress is not shown.
    """
    newest = newest_run(page)
    is_pressed = bool(st.session_state.get(f"{page}_run"))
    was_waiting = newest is not None and newest.waits
    if active and newest is not None and not was_waiting and (is_pressed or pictured(page) is None):
        # A short wait shows the first curves at once; without it they come with the next poll.
        newest.job.wait_for_curves(PRESS_WAIT if is_pressed else START_WAIT)

    def before_poll() -> None:
        run = newest_run(page)
        if run is None:
            return
        has_ended = active and not run.job.active
        has_its_turn = was_waiting and not run.waits
        if has_ended or has_its_turn:
            st.rerun(f"{page}_whole")  # the fragment of `PageBody`, instead of the poll

    def poll() -> float | None:
        """Draw the part and the progress; return the seconds until the next poll, None for no other one."""
        began = time.perf_counter()
        seconds = draw()
        took = time.perf_counter() - began
        run = newest_run(page)
        if run is None:
            why_lost = visitors.current().lost.get(page + JOB)  # a sentence on why the last run is gone
            if why_lost is not None:
                text = f"{why_lost} The last run is gone, the settings are kept: press Run."
                st.info(text, icon=":material/restart_alt:")
            elif if_none:
                st.caption(if_none)
            return None
        if not hides_progress(run):
            _progress(run)
        shared_interval = runner().waiting / MAX_POLLS  # the tabs of all runs in line share the polls of a second
        if active:  # if the run has ended since `bar`, `before_poll` is called at once and has the page drawn again
            return max(run.poll_interval(took), shared_interval) if run.job.active else AT_ONCE
        return None if seconds is None else max(seconds, shared_interval)

    draw_repeatedly(f"{page}_poll", poll, before_poll)


def draw_repeatedly(key: str, draw: Callable[[], float | None], before_redraw: Callable[[], None]) -> None:
    """Draw a part of a page that is drawn again after as many seconds as `draw` returns, unless that is None.

    key : of the component that asks for it in the browser. before_redraw : is called before each further drawing, and
    may have more of the page drawn instead.
    """

    def on_request() -> None:
        # If the visitor has changed a setting meanwhile, the whole page is being drawn anyway.
        if not streamlit_patches.draws_whole_page():
            with suppress(StreamlitAPIException):  # the part to be drawn instead is of a page that was left
                before_redraw()

    @st.fragment
    def part() -> None:
        seconds = draw()
        if seconds is not None:
            components.redraw_after(key, seconds, on_request)
        streamlit_patches.finish_page()  # notes the time: soon after it, the browser may still send former values

    part()


def rerun_when_ended(key: str, runs: Sequence[Run]) -> None:
    """Draw the page again as soon as one of `runs`, all under way, has ended. key : as in `draw_repeatedly`."""

    def rerun_at_end() -> None:
        if any(not run.job.active for run in runs):
            st.rerun()

    if runs:
        draw_repeatedly(key, lambda: min(run.poll_interval() for run in runs), rerun_at_end)


def show_memory_error(ready: StartableExperiment) -> None:
    """Draw an error if a run would need more memory than it may use, with the number of repeats that would fit."""
    if not ready.too_much:
        return
    max_bytes, experiment = runner().max_bytes, ready.experiment
    one, two = (experiment.replaced(replicates=count).estimated_bytes(ready.plans) for count in (1, 2))
    advice = "Choose"
    if one <= max_bytes and two > one:  # the estimate is linear in the repeats: one + (repeats - 1)(two - one)
        max_repeats = int((max_bytes - one) / (two - one)) + 1
        advice = f"Choose at most {max_repeats} repeat{'s' * (max_repeats > 1)}, or"
    st.error(
        f"A run may use {max_bytes / 1e9:.0f} GB. {advice} fewer methods or smaller data.",
        title=f"This run would need about {ready.bytes / 1e9:.0f} GB of memory",
    )


def show_outdated_notice(page: str) -> None:
    """Draw a notice if the results on the page are of earlier settings, of a removed file, or of the first repeats.

    There is none for earlier settings in the first seconds of a new run, which may soon replace them.
    """
    container = st.container()  # always there: a notice that comes and goes would redraw all that follows
    ready, run, newest = st.session_state.get(page + _SETTLED), finished_run(page), newest_run(page)
    if run is None:
        return
    has_just_begun = newest is not None and newest.job.active and newest.job.seconds < SHORT_SECONDS
    counts = partial_repeats(page, run)
    if not run.has_data:
        container.info(
            "The file of this run was removed. What needs its rows is no longer shown.", icon=":material/delete:"
        )
    elif not matches_job(ready, run.job) and not has_just_begun:
        container.info(
            "Settings changed since this run. The results below belong to the settings it was started with.",
            icon=":material/history:",
        )
    elif counts:
        repeats, all_repeats = counts
        container.caption(f"Of the first {repeats} of {all_repeats} runs.")


def stop_other_sweeps(family: str) -> None:
    """Stop the sweeps along the budget of all families but `family`, as they are not on the screen; "" stops all."""
    for name, run in visitors.current().runs.items():
        if name.endswith(ALONG) and name != family + ALONG and isinstance(run, Run):
            run.job.stop()


def sidebar_status() -> None:
    """Draw the progress of the runs of all pages that are under way, in the sidebar."""
    runs = [run for name, run in visitors.current().runs.items() if name.endswith(JOB)]
    active = [run for run in runs if isinstance(run, Run) and run.job.active]
    container = st.sidebar.container()  # always there: if it came and went, every control below it would be redrawn
    if not active:
        return

    def poll() -> float | None:
        for run in active:
            describe = progress.active_text if run.job.active else progress.ended_text
            st.caption(f":material/directions_run: {run.title}: {describe(run.job, run.progress_text)}")
        if not any(run.job.active for run in active):
            return None
        return max(MIN_STATUS_INTERVAL, min(run.poll_interval() for run in active))

    with container:
        draw_repeatedly("status_poll", poll, lambda: None)


def start(page: str, title: str, ready: Startable) -> None:
    """Queue the run of the settings `ready` on the page with the prefix `page`, and stop the page's last run.

    title : of the page, as name of the run in the sidebar.
    """
    last = newest_run(page)
    if isinstance(ready, StartableExperiment) and not ready.experiment.public:
        file.fold()  # the panel of the visitor's file, whose declarations are complete
    if last is None:
        st.session_state[WHOLE] = True  # the whole page is to be drawn: `visitors.sync_tab` marks a tab that has a run
    else:
        last.job.stop()
    is_quick = is_short(ready, None if last is None else last.job)
    visitors.current().keep(page + JOB, ready.start(page, title, is_quick))


def stop(page: str) -> None:
    """Stop the page's run, and wait a moment for its end; for the callback of Stop."""
    run = newest_run(page)
    if run is not None:
        run.job.stop()
        run.job.wait(STOP_WAIT)  # so that the page that is drawn next shows that it has ended


def _progress(run: Run) -> None:
    """Draw the progress of a run, or how it has ended."""
    if run.job.active:
        st.progress(min(1.0, run.job.progress), text=progress.active_text(run.job, run.progress_text))
    elif run.job.state == "failed":
        st.error(run.job.message, title="The run failed")
    else:
        st.caption(progress.ended_text(run.job, run.progress_text))
        _warn_diverged(run)


def _warn_diverged(run: Run) -> None:
    """Draw a warning for each method some of whose repeats have diverged, if that may be seen.

    For a method without privacy on a visitor's file, even this would tell something about the rows.
    """
    if run.job.trace is None:
        return
    for label, arm_trace in run.job.trace.arm_traces.items():
        diverged = sum(status == "diverged" for status in arm_trace.status)
        if diverged and (arm_trace.private or run.experiment.problem.public):
            (algorithm,) = (arm.algorithm for arm in run.experiment.arms if arm.label == label)
            st.warning(
                f"The curves keep their last values. {algorithm.if_diverged}",
                title=f"{label}: {diverged} of {len(arm_trace.status)} runs diverged",
            )
