"""Run, Stop, progress and the live figure of a sweep: an experiment at several values of one setting or two."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import streamlit as st

from dpviz.datasets.base import NO_TABLES
from dpviz.execution import cluster, progress
from dpviz.execution.cluster import Cluster
from dpviz.experiments.task import Executor
from dpviz.numbers import short
from dpviz.plots.sweep_figures import with_margin
from dpviz.sweeps.sweep import Point, Sweep
from dpviz.sweeps.sweep_result import LeftOut, SweepResult, better_law, by_reason
from dpviz.ui import visitors
from dpviz.ui.controls import in_place
from dpviz.ui.experiment import texts
from dpviz.ui.experiment.run import POLL, Run, runner, watch
from dpviz.ui.markdown import show_table

_SUFFIX = "_sweep_job"  # ends like the names of other runs, so that the sidebar shows a sweep too
FLAT = 1e-9  # a slope below is that of the arithmetic


@st.cache_resource(max_entries=16, scope="session", show_spinner="Planning every point")
def planned(text: str) -> tuple[Point, ...]:
    """Return the planned points of the sweep with JSON text `text`. Raises UserError as `Sweep.planned` does."""
    return Sweep.from_json(text).planned()


@st.cache_data(max_entries=16, scope="session", show_spinner=False)
def price(text: str) -> str:
    """Describe the cost of publishing the sweep with JSON text `text`. Raises UserError as `Sweep.planned` does."""
    return Sweep.from_json(text).price(planned(text))


def current(page: str) -> Run | None:
    """Return the sweep that a page shows, None before the first."""
    return st.session_state.get(page + _SUFFIX)


def panel(
    page: str,
    title: str,
    sweep: Sweep | None,
    draw: Callable[[SweepResult], None],
    tables: Mapping[str, np.ndarray] = NO_TABLES,
    diagnostics: bool = False,
) -> None:
    """Draw buttons, progress and figure of a page's sweep. Call it outside any fragment, so that it can poll.

    sweep : None while the settings make none; a sweep that is under way can still be stopped. draw : draws the results
    so far, while the sweep goes on and after its end. diagnostics : true to show results that are not released, for a
    table that is not public.
    """
    run = current(page)
    active = run is not None and run.job.active
    points: tuple[Point, ...] = ()
    elsewhere: Executor | None = None
    with in_place():
        elsewhere = _elsewhere(page, sweep)
        points = planned(sweep.to_json()) if sweep is not None else ()
    _bar(page, title, sweep, points, tables, active, elsewhere)
    same = run is not None and run.job.task == sweep
    if not same and sweep is not None:
        here = points[: sweep.places]  # the other data sets have the same plans
        _left_out([LeftOut(point.place, *item) for point in here for item in point.left_out.items()], len(here))
    _live(page, active, diagnostics, draw)
    store = runner().store
    if store is not None and store.note:
        st.info(store.note, icon=":material/inventory_2:")
    if run is None or active or run.job.result is None or run.job.result.metric is None:  # no recorded point yet
        return
    if not same:
        st.info("Settings changed since this sweep. What is shown belongs to the old ones.", icon=":material/history:")
    result = _visible(run, run.job.result, diagnostics)
    _left_out(result.left_out, run.job.task.places if isinstance(run.job.task, Sweep) else 0)
    draw(result)
    st.caption(texts.SWEEP_NOT_COVERED)


def _bar(
    page: str,
    title: str,
    sweep: Sweep | None,
    points: tuple[Point, ...],
    tables: Mapping[str, np.ndarray],
    active: bool,
    elsewhere: Executor | None,
) -> None:
    largest = max((point.bytes for point in points), default=0.0)
    row = st.container(horizontal=True, vertical_alignment="center")
    row.button(
        "Resume the sweep" if _resumes(page, sweep) else "Run the sweep",
        key=f"{page}_sweep_run",
        icon=":material/play_arrow:",
        disabled=active or not points or largest > runner().max_bytes,
        on_click=_start,
        args=(page, title, sweep, points, tables, elsewhere),
    )
    row.button(
        "Stop", key=f"{page}_sweep_stop", icon=":material/stop:", disabled=not active, on_click=_stop, args=(page,)
    )
    if sweep is None or not points:
        return
    repeats = f"{sweep.experiment.replicates} run{'s' if sweep.experiment.replicates != 1 else ''} of each"
    places = f"{sweep.places} points" + (f" on {sweep.data_sets} data sets" if sweep.data_sets > 1 else "")
    row.caption(f"{places}, {repeats}.", width="content")
    if largest > runner().max_bytes:
        st.error(
            f"A run may use {runner().max_bytes / 1e9:.0f} GB. Use smaller values, fewer methods or fewer repeats.",
            title=f"A point of this sweep would need about {largest / 1e9:.0f} GB of memory",
        )


def _elsewhere(page: str, sweep: Sweep | None) -> Executor | None:
    """Draw the choice of a cluster, if the operator has named one or lets visitors name theirs; return it, else None.

    An address is no setting, so no link contains it. Files of visitors stay on this server. Raises UserError for an
    invalid address.
    """
    address = cluster.asked()
    if not address or sweep is None or not sweep.experiment.problem.public:
        return None
    with st.container(width=400):
        if address == cluster.ASK:
            key = f"{page}_sweep_cluster"
            address = st.text_input(
                "Dask scheduler", key=key, placeholder="tcp://host:8786", help=texts.CLUSTER_HELP
            ).strip()
        elif not st.toggle("On the cluster", True, key=f"{page}_sweep_cluster", help=texts.CLUSTER_HELP):
            return None
    return Cluster(address) if address else None


def _resumes(page: str, sweep: Sweep | None) -> bool:
    """Return true if some points of this sweep are known and others are missing."""
    run = current(page)
    if run is None or run.job.active or run.job.task != sweep or run.job.result is None or runner().store is None:
        return False
    return run.experiment.problem.public and 0 < run.job.result.finished < run.job.result.points


def _visible(run: Run, result: SweepResult, diagnostics: bool) -> SweepResult:
    return result.visible(diagnostics or run.experiment.problem.public)


def _live(page: str, active: bool, diagnostics: bool, draw: Callable[[SweepResult], None]) -> None:
    """Draw progress and, while the sweep goes on, its figure; when it has ended, draw the page again."""

    def rerun_at_end() -> None:
        run = current(page)
        if run is not None and not run.job.active:
            st.rerun()

    def poll() -> float | None:
        run = current(page)
        if run is None:
            return None
        job, result = run.job, run.job.result
        if job.state == "failed":
            st.error(job.message, title="The sweep failed")
        elif job.active:
            st.progress(job.progress, text=progress.active(job, run.done))
        else:
            end = {"done": "Done", "stopped": "Stopped"}.get(job.state, progress.AT_LIMIT)
            depends = f". {progress.DEPENDS}" if job.state == "timeout" and not job.experiment.public else ""
            st.progress(job.progress, text=f"{end}: {run.done}{progress.took(job)}{_known(result)}{depends}")
        if active and result is not None:
            draw(_visible(run, result, diagnostics))
        return POLL if active else None

    watch(f"{page}_sweep_look", poll, rerun_at_end)


def _known(result: SweepResult | None) -> str:
    """Say how many points were known before the sweep; "" for none."""
    return f"; {result.restored} of them were known" if result is not None and result.restored else ""


def _left_out(items: Sequence[LeftOut], points: int) -> None:
    """Say which methods have no result, and at which of the points if not at all of them; once per reason."""
    for reason, arms in by_reason(items, points).items():
        st.warning(reason, title=f"Left out: {arms}")


def laws(result: SweepResult, symbol: str) -> None:
    """Draw two laws of growth for every method with three points or more: their errors, and the law that fits better.

    Methods that do not change are left out.
    """
    rows = []
    for label in result.curves:
        power, log = result.laws(label)
        if power is None or log is None or power.misfit is None or log.misfit is None:
            continue
        if abs(power.slope) < FLAT:
            continue  # the setting does not concern this method
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
        show_table(rows, alt="Growth of every method by a power law and by a log law, with errors")
        st.caption(
            f"A power law, median ≈ c {symbol}^p, against a log law, median ≈ a + b ln {symbol}; fitted on every data "
            "set. ±: 95 % interval over data sets and runs. Off by: typical relative distance of a median from the "
            "law. Both hold between the values shown, not beyond."
        )


def _start(
    page: str,
    title: str,
    sweep: Sweep,
    points: tuple[Point, ...],
    tables: Mapping[str, np.ndarray],
    elsewhere: Executor | None,
) -> None:
    here = points[: sweep.places]  # the other data sets have the same plans
    plans = {f"{label} at {point.where}": plan for point in here for label, plan in point.plans.items()}
    visitor = visitors.here()
    job = runner().submit(sweep, tables, visitor=visitor.name, elsewhere=elsewhere)
    visitor.keep(page + _SUFFIX, Run(job, plans, page, title))


def _stop(page: str) -> None:
    run = current(page)
    if run is not None:
        run.job.stop()
