"""Run, Stop, progress and live charts of a background job; the state of the jobs of all pages."""

import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.execution import progress, store
from dpviz.execution.runner import Job, Runner
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.plots.elements.chart import Chart
from dpviz.problems.base import Problem, ProblemSpecification
from dpviz.sweeps.sweep import Sweep
from dpviz.ui import components, streamlit_patches, visitors
from dpviz.ui.controls import WHOLE, Panel
from dpviz.ui.experiment import freshness, texts
from dpviz.ui.experiment.freshness import Startable
from dpviz.ui.uploads import file

POLL = 0.25  # seconds between two looks at a running job
PATIENT = 1.0, 5.0  # at least and at most between two at one that waits in line: each look costs its browser 0.2 s
TIMES = 4.0  # a look took, that pass until the next; and the part of a run's time that does
LOOKS = 7.0  # in a second, at most about, of all tabs that have runs in line
STATUS = 2.0  # seconds at least between two looks at the state of all runs
AT_ONCE = 0.05  # seconds until the next, where the run has ended while the page was drawn
FIRST_PICTURE = 0.12  # seconds that a page waits for a run that has just begun
PRESSED = 0.3  # and for one that was asked for by Run
STOPPED = 0.3  # seconds that Stop waits for a run to end: it does at its next step
SMALL = 300e6  # bytes of memory of a run that counts as short: it may be run beside the pages
WORKERS, SLOTS = "DPVIZ_WORKERS", 2  # runs at the same time, unless the variable says otherwise
_SUFFIX, _SHOWN, _PICTURED, _SETTLED = "_job", "_shown", "_pictured", "_settled"
ALONG = "_budget_job"  # behind a family's name: its sweep along the budget; ends like the names of other runs


@dataclass(frozen=True)
class Ready:
    """An experiment that is ready to run, with its plans and the uploaded tables on which it runs."""

    experiment: Experiment
    plans: Mapping[str, Plan]
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def bytes(self) -> float:
        """Estimated bytes of memory that it needs."""
        return self.experiment.estimated_bytes(self.plans)

    @property
    def few(self) -> bool:
        """As `Startable`."""
        return self.experiment.replicates < 2 * freshness.FIRST

    @property
    def times(self) -> float:
        """As `Startable`."""
        return self.experiment.replicates / freshness.FIRST

    @cached_property
    def releases(self) -> str:
        """The number of its releases, and their sum."""
        runs = [(plan, self.experiment.replicates) for plan in self.plans.values()]
        return results.releases(runs, self.experiment.budget)

    @cached_property
    def first(self) -> "Ready | None":
        """As `Startable`. No run on a file is part of another one: each has noise of its own."""
        if not self.public or self.few:
            return None
        return replace(self, experiment=self.experiment.replaced(replicates=freshness.FIRST))

    def without_tables(self) -> "Ready":
        """Return the same settings without tables, for a page to remember."""
        return replace(self, tables={}) if self.tables else self

    @property
    def too_much(self) -> bool:
        """As `Startable`."""
        return self.bytes > runner().max_bytes

    @property
    def public(self) -> bool:
        """As `Startable`."""
        return self.experiment.public

    def is_that_of(self, job: Job) -> bool:
        """As `Startable`."""
        return job.task == self.experiment

    def started(self, page: str, title: str, short: bool) -> "Run":
        """As `Startable`."""
        short = short and self.bytes < SMALL
        job = runner().submit(self.experiment, self.tables, visitor=visitors.here().name, short=short)
        return Run(job, self.plans, page, title, dict(self.tables))


@dataclass(frozen=True, eq=False)
class Run:
    """A job with the plans that it executes, kept until the next one replaces it.

    tables : the uploaded tables that it ran on, which its results may need; they leave with it, or with the file.
    charts : of its results, by what they show: a page is drawn again much more often than they change.
    films : its cloud with the caption, by the colour of marks and the size of type.
    """

    job: Job
    plans: Mapping[str, Plan]
    page: str  # prefix of its keys
    title: str
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    charts: dict[Hashable, Chart] = field(default_factory=dict, repr=False)
    films: dict[tuple[str, float], tuple[bytes, str]] = field(default_factory=dict, repr=False)

    def abandon(self) -> None:
        """Stop the job, because its visitor has left."""
        self.job.stop()

    @property
    def waits(self) -> bool:
        """True if it waits in the queue and is not the next."""
        return (self.job.position or 0) > 0

    @property
    def waiting(self) -> str:
        """A sentence on why it has no curves yet."""
        return progress.waiting(self.job) if self.job.state == "queued" else "The new run has no curves yet."

    def look(self, took: float = 0.0) -> float:
        """Seconds from one look at it to the next: in line, longer the more come before it; else longer the longer it
        goes on, and the longer the last one took, as on a server that many are looking at."""
        if self.waits:
            return float(np.clip(self.job.position or 0, *PATIENT))
        return float(np.clip(max(TIMES * took, self.job.seconds / TIMES), POLL, PATIENT[0]))

    @property
    def returns(self) -> bool:
        """True if a reloaded tab may have it back: a run on public data."""
        return self.job.experiment.public

    def let_go(self, tables: Collection[str]) -> None:
        """Forget the uploaded tables of these names; end computations that still use one of them."""
        self.job.let_go(tables)
        for name in tables:
            if self.tables.pop(name, None) is not None:
                _built.clear()

    @property
    def experiment(self) -> Experiment:
        """The experiment that runs, or that a sweep varies."""
        assert isinstance(self.job.experiment, Experiment)
        return self.job.experiment

    @property
    def problem(self) -> Problem:
        """The problem with its data, for diagnostics after the run; only while it `has_data`."""
        return _built(self.experiment.problem.to_json(), self.tables)

    @property
    def has_data(self) -> bool:
        """True while its data exist: those of a removed file do not."""
        return self.experiment.public or bool(self.tables)

    @property
    def done(self) -> str:
        """A text with the finished steps of all methods together, or the finished points of a sweep."""
        if isinstance(self.job.task, Sweep):
            result = self.job.result
            return f"{result.finished} of {result.points} points" if result is not None else "the first point"
        total = sum(plan.iterations for plan in self.plans.values())
        so_far = f"{round(self.job.progress * total):,} of " if self.job.state != "done" else ""
        return f"{so_far}{total:,} steps"


@st.cache_resource(max_entries=4, scope="session", show_spinner=False)
def _built(text: str, _tables: Mapping[str, np.ndarray]) -> Problem:
    return ProblemSpecification.from_json(text).build(_tables)


def about_problem(run: Run) -> str:
    """Return the cache key of a run for results that depend on its problem alone."""
    return run.experiment.problem.to_json()


@st.cache_resource(show_spinner=False)
def runner() -> Runner:
    """Return the one runner of this server, for all visitors: with DPVIZ_WORKERS processes, or threads if that is 0."""
    chosen = os.environ.get(WORKERS, "")
    count = int(chosen) if chosen.isdecimal() else SLOTS
    return Runner(slots=count or SLOTS, processes=count > 0, store=store.usual(), short=count > 0)


def current(page: str) -> Run | None:
    """Return the newest run of a page, None before the first."""
    return st.session_state.get(page + _SUFFIX)


def shown(page: str) -> Run | None:
    """Return the run whose results a page shows: the last that has ended, also while the next one is under way."""
    run = current(page)
    if run is not None and not run.job.active and run.job.trace is not None:
        st.session_state[page + _SHOWN] = run
    return st.session_state.get(page + _SHOWN)


def pictured(page: str) -> Run | None:
    """Return the newest run with a curve of every method: the last picture stays until the next one has lines."""
    run, before = current(page), st.session_state.get(page + _PICTURED)
    trace = None if run is None else run.job.trace
    if run is None or trace is None or not all(lane.iterations for lane in trace.lanes.values()):
        return before
    if run.job.active and before is not None and _first_of(before.job, run.job):
        return before  # the curves of the first repeats stay until all have theirs to the end
    st.session_state[page + _PICTURED] = run
    return run


def _first_of(before: Job, job: Job) -> bool:
    """Return true if a job has exactly the first repeats of another one."""
    whole = job.task
    first = isinstance(whole, Experiment) and whole.public  # on a file each run has noise of its own
    first = first and before.task == whole.replaced(replicates=freshness.FIRST)
    return first and before.task != whole


def settled(page: str, ready: Startable | None) -> None:
    """Note the present settings of a page; None while they make no run."""
    st.session_state[page + _SETTLED] = ready


def state(page: str) -> tuple[freshness.State, bool]:
    """Return the state of a page, and true if its picture, number and sentence are pale, being of earlier settings."""
    ready, run, seen = st.session_state.get(page + _SETTLED), current(page), pictured(page)
    newest, of = (None if each is None else each.job for each in (run, seen))
    return freshness.state(ready, newest, of), not freshness.belongs(ready, of)


def only_first(page: str, run: Run) -> tuple[int, int] | None:
    """Return the repeats of a run, and those of the page's settings, if the run has only the first of them."""
    ready = st.session_state.get(page + _SETTLED)
    if not isinstance(ready, Ready) or ready.is_that_of(run.job) or not freshness.belongs(ready, run.job):
        return None
    return run.experiment.replicates, ready.experiment.replicates


def bar(panel: Panel, title: str, ready: Startable | None, switch: DeltaGenerator, own: str = "") -> bool:
    """Draw Run and Stop, and start runs that start by themselves. Call it outside any fragment, so that Run polls.

    switch : the place of the switch that lets them. ready : None while the settings do not
    make something to run; a run that is under way can still be stopped. own : what is said instead of the switch on a
    page that is about a visitor's own file.
    Returns whether a run is under way, as the buttons show it: the run may end while the page is being drawn.
    """
    page = panel.page
    if own:
        switch.caption(own)
    else:
        with switch:
            at_once = panel.switch("follow", "Run at every change", True, texts.FOLLOW_HELP)
        if at_once and ready is not None:
            _follow(page, title, ready)
    run, pressed = current(page), bool(st.session_state.get(f"{page}_run"))
    if pressed and run is not None and ready is not None and not freshness.belongs(ready, run.job):
        # A number that was typed just before Run was pressed: the button began what it was drawn with.
        run.job.stop()
        if not ready.too_much:
            start(page, title, ready)
    run = current(page)
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
    st.button("Stop", key=f"{page}_stop", icon=":material/stop:", disabled=not active, on_click=_stop, args=(page,))
    return active


def _follow(page: str, title: str, ready: Startable) -> None:
    """Start the run of new settings in place of that of older ones; in the queue, the visitor keeps the position."""
    run = current(page)
    waiting = runner().waiting - (run is not None and run.job.state == "queued")  # others', as this one is replaced
    while (due := freshness.due(ready, None if run is None else run.job, waiting > 0)) is not None:
        start(page, title, due)
        run = current(page)
        assert run is not None
        run.job.wait(FIRST_PICTURE)


def live(
    page: str,
    active: bool,
    draw: Callable[[], float | None],
    none: str = "",
    whole: str = "app",
    hidden: Callable[[Run], bool] = lambda _: False,
) -> None:
    """What `draw` draws, again and again while the page's run is under way, and its progress; without a run that is,
    again after as many seconds as `draw` returns, if it returns any.

    active : what `bar` returned; when the run has ended since, Run is to be enabled. none : what is said before the
    first run. whole : the key of the fragment that is drawn again then, and when a run is at the head of the line.
    hidden : whether the progress of a run is not shown.
    """
    now = current(page)
    pressed = bool(st.session_state.get(f"{page}_run"))
    waits = now is not None and now.waits
    if active and now is not None and not waits and (pressed or pictured(page) is None):
        now.job.wait_for_curves(PRESSED if pressed else FIRST_PICTURE)  # it computes meanwhile; the next look is far

    def look() -> None:
        run = current(page)
        if run is not None and ((active and not run.job.active) or (waits and not run.waits)):
            st.rerun(whole)

    def poll() -> float | None:
        began = time.perf_counter()
        soon = draw()
        took = time.perf_counter() - began
        run = current(page)
        if run is None:
            _none_yet(visitors.here().lost.get(page + _SUFFIX), none)
            return None
        if not hidden(run):
            _progress(run)
        if not active:
            return None if soon is None else max(soon, runner().waiting / LOOKS)
        return max(run.look(took), runner().waiting / LOOKS) if run.job.active else AT_ONCE

    watch(f"{page}_look", poll, look)


def watch(key: str, draw: Callable[[], float | None], on_look: Callable[[], None]) -> None:
    """A part of a page that is drawn again after as many seconds as `draw` returns, if it returns any; `on_look` is
    called before, and may have more drawn."""

    @st.fragment
    def part() -> None:
        seconds = draw()
        if seconds is not None:
            components.look(key, seconds, on_look)
        streamlit_patches.page_drawn()

    part()


def until_ended(key: str, runs: Sequence[Run]) -> None:
    """Draw the page again when one of these runs, which were under way, has ended."""

    def look() -> None:
        if any(not run.job.active for run in runs):
            st.rerun()

    if runs:
        watch(key, lambda: min(run.look() for run in runs), look)


def _none_yet(lost: str | None, none: str) -> None:
    if lost is None and none:
        st.caption(none)
    elif lost is not None:
        st.info(f"{lost} The last run is gone, the settings are kept: press Run.", icon=":material/restart_alt:")


def refusal(ready: Ready) -> None:
    """Say before a run that it needs more memory than there is, with the repeats that would fit, if any do."""
    if not ready.too_much:
        return
    most, experiment = runner().max_bytes, ready.experiment
    one, two = (experiment.replaced(replicates=count).estimated_bytes(ready.plans) for count in (1, 2))
    fit = int((most - one) / (two - one)) + 1 if one <= most and two > one else 0  # memory is linear in the repeats
    fits = f"Choose at most {fit} repeat{'s' if fit > 1 else ''}, or" if fit else "Choose"
    st.error(
        f"A run may use {most / 1e9:.0f} GB. {fits} fewer methods or smaller data.",
        title=f"This run would need about {ready.bytes / 1e9:.0f} GB of memory",
    )


def changed(page: str) -> None:
    """Draw a notice if the results on the page belong to other than the present settings, or to a removed file."""
    place = st.container()  # always there: a notice that comes and goes would redraw all that follows
    ready, run, latest = st.session_state.get(page + _SETTLED), shown(page), current(page)
    if run is None:
        return
    soon = latest is not None and latest.job.active and latest.job.seconds < freshness.SOON
    if not run.has_data:
        place.info(
            "The file of this run was removed. What needs its rows is no longer shown.", icon=":material/delete:"
        )
    elif not freshness.belongs(ready, run.job) and not soon:
        place.info(
            "Settings changed since this run. The results below belong to the settings it was started with.",
            icon=":material/history:",
        )
    elif few := only_first(page, run):
        place.caption(f"Of the first {few[0]} of {few[1]} runs.")


def rest(family: str) -> None:
    """Stop the sweeps along the budget that are not on the screen: all but that of `family`, if its page is."""
    for name, run in st.session_state.items():
        if str(name).endswith(ALONG) and name != family + ALONG and isinstance(run, Run):
            run.job.stop()


def sidebar_status() -> None:
    """Draw the state of every page's run, in the sidebar of every page."""
    runs = [value for name, value in st.session_state.items() if str(name).endswith(_SUFFIX)]
    active = [run for run in runs if isinstance(run, Run) and run.job.active]
    place = st.sidebar.container()  # always there: a place that comes and goes would redraw every control below it
    if not active:
        return

    def poll() -> float | None:
        for run in active:
            state = progress.active(run.job, run.done) if run.job.active else progress.ended(run.job, run.done)
            st.caption(f":material/directions_run: {run.title}: {state}")
        return max(STATUS, min(run.look() for run in active)) if any(run.job.active for run in active) else None

    with place:
        watch("status_look", poll, lambda: None)


def start(page: str, title: str, ready: Startable) -> None:
    """Queue the run of these settings in place of the page's last one, which stops."""
    before = current(page)
    if isinstance(ready, Ready) and not ready.experiment.public:
        file.fold()
    if before is None:
        st.session_state[WHOLE] = True  # the tab is to remember that it has a run
    else:
        before.job.stop()
    short = freshness.is_short(ready, None if before is None else before.job)
    visitors.here().keep(page + _SUFFIX, ready.started(page, title, short))


def _stop(page: str) -> None:
    run = current(page)
    if run is not None:
        run.job.stop()
        run.job.wait(STOPPED)  # so that the page that is drawn next shows that it has ended


def _progress(run: Run) -> None:
    if run.job.active:
        st.progress(min(1.0, run.job.progress), text=progress.active(run.job, run.done))
    elif run.job.state == "failed":
        st.error(run.job.message, title="The run failed")
    else:
        st.caption(progress.ended(run.job, run.done))
        _diverged(run)


def _diverged(run: Run) -> None:
    if run.job.trace is None:
        return
    for label, lane in run.job.trace.lanes.items():
        lost = sum(status == "diverged" for status in lane.status)
        if lost and (lane.private or run.experiment.problem.public):
            method = next(arm.algorithm for arm in run.experiment.arms if arm.label == label)
            st.warning(
                f"The curves keep their last values. {method.if_diverged}",
                title=f"{label}: {lost} of {len(lane.status)} runs diverged",
            )
