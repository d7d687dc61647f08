"""Run, Stop, progress and live charts of a background job; the state of the jobs of all pages."""

import os
import time
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from dpviz.execution import store
from dpviz.execution.runner import Job, Runner
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.numbers import about, duration
from dpviz.problems.base import Problem, ProblemSpecification
from dpviz.sweeps import fitting
from dpviz.sweeps.fitting import Limits
from dpviz.sweeps.sweep import Sweep
from dpviz.ui import visitors
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import progress
from dpviz.ui.experiment.startable import Startable

POLL = 0.25  # seconds between two looks at a running job
PATIENT = 1.0, 5.0  # at least and at most between two at one that waits in line: each look costs its browser 0.2 s
TIMES = 4.0  # a look took, that pass until the next
LONG = 20.0  # seconds from which a run is announced with a warning
AT_ONCE = 2.0  # seconds up to which a run on public data starts by itself
FIRST_PICTURE = 0.12  # seconds that a page waits for a run that has just begun
PRESSED = 0.3  # and for one that was asked for by Run: what else the page would draw keeps its browser busy for longer
STOPPED = 0.3  # seconds that Stop waits for a run to end: it does at its next step
FOLLOW = "Public data run by themselves when the settings have settled, if that takes less than two seconds."
NONE = "No run yet. A plan needs no data; Run shows what happens on the data."
WORKERS, SLOTS = "DPVIZ_WORKERS", 2  # runs at the same time, unless the variable says otherwise
_SUFFIX, _SHOWN, _PICTURED, _LOOKED = "_job", "_shown", "_pictured", "_looked"


@dataclass(frozen=True)
class Ready:
    """An experiment that can be run: with the plans that it executes, and the uploaded tables that it runs on."""

    experiment: Experiment
    plans: Mapping[str, Plan]
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def seconds(self) -> float:
        """About how long it will take."""
        return self.experiment.estimated_seconds(self.plans)

    @cached_property
    def bytes(self) -> float:
        """About how much memory it will need."""
        return self.experiment.estimated_bytes(self.plans)

    @cached_property
    def likely(self) -> float:
        """About how long it is likely to take, as methods may stop by themselves: then `seconds` is the most."""
        return self.experiment.likely_seconds(self.plans)

    @property
    def may_stop_early(self) -> bool:
        """Whether it may take much less time than at most."""
        return self.likely < 0.8 * self.seconds

    @property
    def too_much(self) -> bool:
        """As `Startable`."""
        return self.seconds > runner().max_seconds or self.bytes > runner().max_bytes

    @property
    def public(self) -> bool:
        """As `Startable`."""
        return self.experiment.public

    def is_that_of(self, job: Job) -> bool:
        """As `Startable`."""
        return job.task == self.experiment

    def started(self, page: str, title: str) -> "Run":
        """As `Startable`."""
        job = runner().submit(self.experiment, self.tables, visitor=visitors.here().name, expected=self.seconds)
        return Run(job, self.plans, page, title, dict(self.tables))


@dataclass(frozen=True, eq=False)
class Run:
    """A job with the plans that it executes, kept until the next one replaces it.

    tables : the uploaded tables that it ran on, which its results may need; they leave with it, or with the file.
    figures : of its results, by what they show: a page is drawn again much more often than they change.
    films : its cloud with the caption, by the colour of marks and the size of type.
    """

    job: Job
    plans: Mapping[str, Plan]
    page: str  # prefix of its keys
    title: str
    tables: dict[str, np.ndarray] = field(default_factory=dict)
    figures: dict[Hashable, go.Figure] = field(default_factory=dict, repr=False)
    films: dict[tuple[str, float], tuple[bytes, str]] = field(default_factory=dict, repr=False)

    def abandon(self) -> None:
        """End it: its visitor has left."""
        self.job.stop()

    @property
    def waits(self) -> bool:
        """Whether it stands in line, and will for a while."""
        return (self.job.expected_wait or 0.0) > PATIENT[0]

    def look(self, took: float = 0.0) -> float:
        """Seconds from one look at it to the next: in line, a tenth of what it is expected to wait; else longer the
        longer the last one took, as on a server that many are looking at."""
        if self.waits:
            return float(np.clip((self.job.expected_wait or 0.0) / 10, *PATIENT))
        return float(np.clip(TIMES * took, POLL, PATIENT[0]))

    @property
    def returns(self) -> bool:
        """Whether a tab that is loaded again may have it back: a run of no file."""
        return self.job.experiment.public

    def let_go(self, tables: Collection[str]) -> None:
        """Forget the uploaded tables of these names; what is still computed on one of them ends."""
        self.job.let_go(tables)
        for name in tables:
            if self.tables.pop(name, None) is not None:
                _built.clear()

    @property
    def experiment(self) -> Experiment:
        """What runs, or what a sweep varies."""
        assert isinstance(self.job.experiment, Experiment)
        return self.job.experiment

    @property
    def problem(self) -> Problem:
        """What was run on, for diagnostics after the run; only while it `has_data`."""
        return _built(self.experiment.problem.to_json(), self.tables)

    @property
    def has_data(self) -> bool:
        """Whether its data are still there: those of a file that was removed are not."""
        return self.experiment.public or bool(self.tables)

    @property
    def done(self) -> str:
        """How many steps are done, of all methods together; of a sweep, how many points."""
        if isinstance(self.job.task, Sweep):
            result = self.job.result
            return f"{result.finished} of {result.points} points" if result is not None else "the first point"
        total = sum(plan.iterations for plan in self.plans.values())
        so_far = f"{round(self.job.progress * total):,} of " if self.job.state != "done" else ""
        return f"{so_far}{total:,} steps"


@st.cache_resource(max_entries=4, scope="session", show_spinner=False)
def _built(text: str, _tables: Mapping[str, np.ndarray]) -> Problem:
    return ProblemSpecification.from_json(text).build(_tables)


@st.cache_resource
def runner() -> Runner:
    """The one runner of this server, for all its visitors: DPVIZ_WORKERS processes, or without any, threads."""
    chosen = os.environ.get(WORKERS, "")
    count = int(chosen) if chosen.isdecimal() else SLOTS
    return Runner(slots=count or SLOTS, processes=count > 0, store=store.usual())


def current(page: str) -> Run | None:
    """The run that this page shows."""
    return st.session_state.get(page + _SUFFIX)


def shown(page: str) -> Run | None:
    """The run whose results this page shows: the last that has ended, while the next one is still under way."""
    run = current(page)
    if run is not None and not run.job.active and run.job.trace is not None:
        st.session_state[page + _SHOWN] = run
    return st.session_state.get(page + _SHOWN)


def pictured(page: str) -> Run | None:
    """The newest run of which every method has a curve: the last picture stays until the next one has lines."""
    run = current(page)
    trace = None if run is None else run.job.trace
    if trace is not None and all(lane.iterations for lane in trace.lanes.values()):
        st.session_state[page + _PICTURED] = run
    return st.session_state.get(page + _PICTURED)


def begun(page: str) -> bool:
    """Whether the page is drawn because its Run was pressed, and has first curves to show; waits for them a little."""
    run = current(page)
    if run is None or not st.session_state.get(f"{page}_run") or not run.job.active or run.waits:
        return False
    run.job.wait_for_curves(PRESSED)
    return pictured(page) is run


def bar(panel: Panel, title: str, ready: Startable | None) -> bool:
    """Run and Stop, and runs that start by themselves. Outside any fragment, so that Run polls.

    ready : None while the settings do not make something to run; a run that is under way can still be stopped.
    Returns whether a run is under way, as the buttons show it: the run may end while the page is being drawn.
    """
    page = panel.page
    row = st.container(horizontal=True, vertical_alignment="center")
    place = st.container()
    if ready is None or ready.public:
        with place:
            at_once = panel.switch("follow", "Run at every change", True, FOLLOW)
        if at_once and ready is not None and ready.likely < AT_ONCE and not ready.too_much:
            _follow(page, title, ready)
    else:
        place.caption("Your own file: runs start by click only.")
    run = current(page)
    if run is not None and ready is not None and st.session_state.get(f"{page}_run") and not ready.is_that_of(run.job):
        # A number that was typed just before Run was pressed: the button began what it was drawn with.
        run.job.stop()
        if not ready.too_much:
            _start(page, title, ready)
    run = current(page)
    active = run is not None and run.job.active
    row.button(
        "Run",
        key=f"{page}_run",
        type="primary",
        icon=":material/play_arrow:",
        disabled=active or ready is None or ready.too_much,
        on_click=_start,
        args=(page, title, ready),
    )
    row.button("Stop", key=f"{page}_stop", icon=":material/stop:", disabled=not active, on_click=_stop, args=(page,))
    return active


def forecast(panel: Panel, ready: Ready) -> None:
    """What a run will take, and what keeps it from running."""
    row = st.container(horizontal=True, vertical_alignment="center")
    most = f", at most {duration(ready.seconds)}" if ready.may_stop_early else ""
    row.caption(f"{_counts(ready)}, {about(ready.likely if most else ready.seconds)}{most}.", width="content")
    row.toggle(
        "Pause chart updates",
        key=panel.key("pause"),
        persist_state="session",
        help="The chart stands still while you look; the run itself does not pause.",
    )
    _warn(ready)


def _follow(page: str, title: str, ready: Startable) -> None:
    """Start the run of new settings, in place of one of older settings; only where nobody waits in line."""
    run = current(page)
    if run is not None and ready.is_that_of(run.job):
        return
    if run is not None:
        run.job.stop()
    if runner().waiting == 0:
        _start(page, title, ready)
        current_run = current(page)
        if current_run is not None:
            current_run.job.wait(FIRST_PICTURE)


def _warn(ready: Ready) -> None:
    """Say before the run that it will take long, or too long, or more memory than there is."""
    most, limit = runner().max_bytes, runner().max_seconds
    takes = f"{'up to' if ready.may_stop_early else 'about'} {duration(ready.seconds)}"
    if ready.bytes > most:
        st.error(
            f"A run may use {most / 1e9:.0f} GB. {_advice(ready.experiment.to_json(), Limits(limit, most))}",
            title=f"This run would need about {ready.bytes / 1e9:.0f} GB of memory",
        )
    elif ready.seconds > limit:
        st.error(
            f"Runs end after {duration(limit)}. {_advice(ready.experiment.to_json(), Limits(limit, most))}",
            title=f"This run would take {takes}",
        )
    elif ready.seconds > LONG:
        quicker = _advice(ready.experiment.to_json(), Limits(LONG, most), f"it takes less than {duration(LONG)}")
        st.warning(
            f"You can stop it at any time and keep what was computed. {quicker}",
            title=f"This run will take {takes}",
        )


@st.cache_data(max_entries=64, scope="session", show_spinner=False)
def _advice(text: str, limits: Limits, then: str = "it would fit") -> str:
    """What would make an experiment, given as its JSON text, keep to the limits."""
    return fitting.advice(fitting.ways(Experiment.from_json(text), limits.allow), then)


def live(page: str, active: bool, draw: Callable[[], None], none: str = NONE) -> None:
    """What `draw` draws, again and again while the page's run is under way, and its progress.

    active : what `bar` returned; when the run has ended since, the page is drawn again, so that Run is enabled. none :
    what is said before the first run.
    """
    now = current(page)
    took = st.session_state.get(page + _LOOKED, 0.0)
    every = now.look(took) if active and now is not None else None
    waits = now is not None and now.waits
    if active and now is not None and not waits and pictured(page) is None:
        now.job.wait_for_curves(FIRST_PICTURE)  # it computes while the page is drawn; the next look is far away

    @st.fragment(run_every=every)
    def poll(was_active: bool, waited: bool) -> None:
        began = time.perf_counter()
        draw()
        st.session_state[page + _LOOKED] = time.perf_counter() - began
        run = current(page)
        if run is None:
            _none_yet(visitors.here().lost.get(page + _SUFFIX), none)
            return
        _progress(run)
        if (was_active and not run.job.active) or (waited and not run.waits):
            st.rerun()  # the whole page: it is looked at more often, or it has ended and all charts are drawn

    poll(active, waits)


def _none_yet(lost: str | None, none: str) -> None:
    if lost is None:
        st.caption(none)
    else:
        st.info(f"{lost} The last run is gone, the settings are kept: press Run.", icon=":material/restart_alt:")


def changed(page: str, experiment: Experiment | None) -> None:
    """Say so if the results on the page belong to other settings than those that are set now, or to no file."""
    place = st.container()  # always there: a notice that comes and goes would redraw all that follows
    run, latest = shown(page), current(page)
    if run is not None and not run.has_data:
        place.info(
            "The file of this run was removed. What needs its rows is no longer shown.", icon=":material/delete:"
        )
    elif run is not None and run.experiment != experiment and not (latest is not None and latest.job.active):
        place.info(
            "Settings changed since this run. The results below belong to the settings it was started with.",
            icon=":material/history:",
        )


def sidebar_status() -> None:
    """The state of every page's run, on every page."""
    runs = [value for name, value in st.session_state.items() if str(name).endswith(_SUFFIX)]
    active = [run for run in runs if isinstance(run, Run) and run.job.active]
    place = st.sidebar.container()  # always there: a place that comes and goes would redraw every control below it
    if not active:
        return

    @st.fragment(run_every=max(2.0, min(run.look() for run in active)))
    def poll() -> None:
        for run in active:
            state = progress.active(run.job, run.done) if run.job.active else progress.ended(run.job, run.done)
            st.caption(f":material/directions_run: {run.title}: {state}")

    with place:
        poll()


def _start(page: str, title: str, ready: Startable) -> None:
    visitors.here().keep(page + _SUFFIX, ready.started(page, title))


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
            st.warning(
                f"The curves keep their last values. {_arm(run, label).algorithm.if_diverged}",
                title=f"{label}: {lost} of {len(lane.status)} runs diverged",
            )


def _arm(run: Run, label: str) -> Arm:
    return next(arm for arm in run.experiment.arms if arm.label == label)


def _counts(ready: Ready) -> str:
    steps, runs = sum(plan.iterations for plan in ready.plans.values()), ready.experiment.replicates
    methods = f"{len(ready.plans)} method{'s' if len(ready.plans) != 1 else ''}"
    return f"{methods}, {steps:,} steps in all, {runs} run{'s' if runs != 1 else ''} of each"
