"""Run, Stop, progress and the live figure of a sweep: an experiment at several values of one setting."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import streamlit as st

from dpviz.datasets.base import NO_TABLES
from dpviz.experiments.laws import better_law
from dpviz.experiments.sweep import Point, Sweep
from dpviz.experiments.sweep_result import LeftOut, SweepResult
from dpviz.numbers import short
from dpviz.plots.sweep_figures import with_margin
from dpviz.ui import visitors
from dpviz.ui.controls import in_place
from dpviz.ui.experiment import progress
from dpviz.ui.experiment.progress import duration
from dpviz.ui.experiment.run import LONG, POLL, Run, keep, runner

_SUFFIX = "_sweep_job"  # ends like the names of other runs, so that the sidebar shows a sweep too
NOT_COVERED = "Every point is a run with a budget of its own; choosing by what a sweep shows is not covered by it."


@st.cache_resource(max_entries=16, scope="session", show_spinner=False)
def planned(text: str) -> tuple[Point, ...]:
    """The points of a sweep, given as its JSON text. Raises UserError as `Sweep.planned` does."""
    return Sweep.from_json(text).planned()


def current(page: str) -> Run | None:
    """The sweep that this page shows."""
    return st.session_state.get(page + _SUFFIX)


def panel(
    page: str,
    title: str,
    sweep: Sweep | None,
    draw: Callable[[SweepResult], None],
    tables: Mapping[str, np.ndarray] = NO_TABLES,
    diagnostics: bool = False,
) -> None:
    """Buttons, progress and figure of a page's sweep. Outside any fragment, so that it polls.

    sweep : None while the settings do not make one; a sweep that is under way can still be stopped. draw : draws what
    was found so far, while the sweep goes on and after it has ended. diagnostics : whether what is not released is
    shown of a table that is not public.
    """
    run = current(page)
    active = run is not None and run.job.active
    points: tuple[Point, ...] = ()
    with in_place():
        points = planned(sweep.to_json()) if sweep is not None else ()
    _bar(page, title, sweep, points, tables, active)
    same = run is not None and run.job.task == sweep
    if not same and sweep is not None:
        here = points[: len(sweep.values)]  # the other data sets have the same plans
        _left_out([LeftOut(point.place, *item) for point in here for item in point.left_out.items()], len(here))
    _live(page, active, diagnostics, draw)
    if run is None or active or run.job.result is None:
        return
    if not same:
        st.info("Settings changed since this sweep. What is shown belongs to the old ones.", icon=":material/history:")
    _left_out(run.job.result.left_out, len(run.job.task.values) if isinstance(run.job.task, Sweep) else 0)
    draw(_visible(run, run.job.result, diagnostics))
    st.caption(NOT_COVERED)


def _bar(
    page: str,
    title: str,
    sweep: Sweep | None,
    points: tuple[Point, ...],
    tables: Mapping[str, np.ndarray],
    active: bool,
) -> None:
    seconds, limit = sum(point.seconds for point in points), runner().max_seconds
    row = st.container(horizontal=True, vertical_alignment="center")
    row.button(
        "Run the sweep",
        key=f"{page}_sweep_run",
        icon=":material/play_arrow:",
        disabled=active or not points or seconds > limit,
        on_click=_start,
        args=(page, title, sweep, points, tables),
    )
    row.button(
        "Stop", key=f"{page}_sweep_stop", icon=":material/stop:", disabled=not active, on_click=_stop, args=(page,)
    )
    if sweep is None or not points:
        return
    repeats = f"{sweep.experiment.replicates} run{'s' if sweep.experiment.replicates != 1 else ''} of each"
    places = f"{len(sweep.values)} points" + (f" on {sweep.data_sets} data sets" if sweep.data_sets > 1 else "")
    row.caption(f"{places}, {repeats}, about {duration(seconds)}.", width="content")
    if seconds > limit:
        most = int(limit * sweep.data_sets / seconds)
        fewer = f"at most {most} data set{'s' if most > 1 else ''}, " if sweep.data_sets > 1 and most else ""
        advice = (
            f"Runs end after {duration(limit)}. Use {fewer}fewer or smaller values, fewer methods or fewer repeats."
        )
        st.error(advice, title=f"This sweep would take about {duration(seconds)}")
    elif seconds > LONG:
        st.info("You can stop it at any time; the points that are finished are kept.", icon=":material/schedule:")


def _visible(run: Run, result: SweepResult, diagnostics: bool) -> SweepResult:
    return result.visible(diagnostics or run.experiment.problem.public)


def _live(page: str, active: bool, diagnostics: bool, draw: Callable[[SweepResult], None]) -> None:
    """Progress and, while the sweep goes on, its figure; when it has ended, the page is drawn again."""

    @st.fragment(run_every=POLL if active else None)
    def poll(was_active: bool) -> None:
        run = current(page)
        if run is None:
            return
        job, result = run.job, run.job.result
        place = f"{result.finished} of {result.points} points" if result is not None else "the first point"
        if job.state == "failed":
            st.error(job.message, title="The sweep failed")
        elif job.state == "queued":
            st.progress(0.0, text=progress.waiting(job))
        elif job.active:
            left = f", about {duration(job.seconds_left)} left" if job.seconds_left is not None else ""
            st.progress(job.progress, text=f"{place}{left}")
        else:
            ended = {"done": "Done", "stopped": "Stopped"}.get(job.state, "Stopped at the time limit")
            st.progress(job.progress, text=f"{ended}: {place} in {job.seconds:.1f} s")
        if was_active and not job.active:
            st.rerun()
        if was_active and result is not None:
            draw(_visible(run, result, diagnostics))

    poll(active)


def _left_out(items: Sequence[LeftOut], points: int) -> None:
    """Say which methods have no result, and at which of the points if not at all of them; once per reason."""
    for reason in dict.fromkeys(item.reason for item in items):
        values: dict[str, dict[str, None]] = {}
        for item in items:
            if item.reason == reason:
                values.setdefault(item.label, {})[short(item.place.value, 10)] = None  # once, on however many data sets
        places = [
            label if len(found) == points else f"{label} at {', '.join(found)}" for label, found in values.items()
        ]
        st.warning(reason, title=f"Left out: {'; '.join(places)}")


def laws(result: SweepResult, symbol: str) -> None:
    """Two laws of growth for every method with three points or more, how far off each is, and which fits better."""
    rows = []
    for label in result.curves:
        power, log = result.laws(label)
        if power is None or log is None or power.misfit is None or log.misfit is None:
            continue
        rows.append(
            {
                "Method": label,
                f"p in c {symbol}^p": with_margin(power),
                "off by": f"{short(100 * power.misfit, 2)} %",
                f"b in a + b ln {symbol}": with_margin(log),
                "off by ": f"{short(100 * log.misfit, 2)} %",
                "Fits better": better_law(power, log),
            }
        )
    if rows:
        st.dataframe(rows, hide_index=True, alt="Growth of every method by a power law and by a log law, with errors")
        st.caption(
            f"A power law, median ≈ c {symbol}^p, against a log law, median ≈ a + b ln {symbol}; fitted on every data "
            "set. ±: 95 % interval over data sets and runs. Off by: typical relative distance of a median from the "
            "law. Both hold between the values shown, not beyond."
        )


def _start(page: str, title: str, sweep: Sweep, points: tuple[Point, ...], tables: Mapping[str, np.ndarray]) -> None:
    here = points[: len(sweep.values)]  # the other data sets have the same plans
    plans = {f"{label} at {short(point.value, 6)}": plan for point in here for label, plan in point.plans.items()}
    keep(page + _SUFFIX, Run(runner().submit(sweep, tables, visitor=visitors.here().name), plans, page, title))


def _stop(page: str) -> None:
    run = current(page)
    if run is not None:
        run.job.stop()
