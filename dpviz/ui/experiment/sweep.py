"""The panel of a sweep, that is, of an experiment at several values of one setting or two.

It has the buttons Run and Stop, the progress, the results so far, and the methods that have none.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import streamlit as st

from dpviz.datasets.base import NO_TABLES
from dpviz.execution import cluster, progress
from dpviz.execution.cluster import Cluster
from dpviz.experiments.task import Executor
from dpviz.numbers import short
from dpviz.plots.sweep_figures import slope_text
from dpviz.sweeps.sweep import Point, Sweep
from dpviz.sweeps.sweep_result import LeftOut, SweepResult, better_law, by_reason
from dpviz.ui import visitors
from dpviz.ui.controls import draw_errors
from dpviz.ui.experiment import texts
from dpviz.ui.experiment.run import POLL, Run, draw_repeatedly, runner
from dpviz.ui.markdown import show_table

_SUFFIX = "_sweep_job"  # with the ending of the keys of other runs, so that the sidebar shows a sweep too
FLAT = 1e-9  # a slope below this is rounding


@st.cache_resource(max_entries=16, scope="session", show_spinner="Planning every point")
def planned(text: str) -> tuple[Point, ...]:
    """Return the points, with their plans, of the sweep with this JSON text. Raises UserError as `Sweep.planned`."""
    return Sweep.from_json(text).planned()


@st.cache_data(max_entries=16, scope="session", show_spinner=False)
def price(text: str) -> str:
    """Return the cost of publishing all of the sweep with this JSON text. Raises UserError as `Sweep.planned`."""
    return Sweep.from_json(text).price(planned(text))


def newest_run(page: str) -> Run | None:
    """Return the run of the newest sweep of the page with the prefix `page`, None before the first."""
    return st.session_state.get(page + _SUFFIX)


def show_sweep(
    page: str,
    title: str,
    sweep: Sweep | None,
    draw: Callable[[SweepResult], None],
    tables: Mapping[str, np.ndarray] = NO_TABLES,
    diagnostics: bool = False,
) -> None:
    """Draw the buttons, the progress and the results of a page's sweep.

    Call this outside any fragment, so that it can be drawn repeatedly while the sweep is under way.

    page, title : prefix of the keys, and name of the sweep in the sidebar. sweep : the sweep of the present settings,
    None while they make none; one that is under way can still be stopped then. draw : draws results, during the sweep
    and after its end. tables : the arrays of a visitor's file. diagnostics : true to show results that read the raw
    rows of such a file.
    """
    run = newest_run(page)
    active = run is not None and run.job.active
    points: tuple[Point, ...] = ()
    cluster_executor: Executor | None = None
    with draw_errors():
        cluster_executor = _choose_cluster(page, sweep)
        points = planned(sweep.to_json()) if sweep is not None else ()
    _bar(page, title, sweep, points, tables, active, cluster_executor)
    is_of_settings = run is not None and run.job.task == sweep
    if not is_of_settings and sweep is not None:  # else the result of the run says below what was left out
        left_out = []
        for point in points[: sweep.places]:  # those of the first data set; the others have the same plans
            left_out += [LeftOut(point.place, label, reason) for label, reason in point.left_out.items()]
        _say_left_out(left_out, sweep.places)
    if run is not None and not is_of_settings:  # also while it is under way, as its results are drawn then
        st.info("Settings changed since this sweep. What is shown belongs to the old ones.", icon=":material/history:")
    _live(page, active, diagnostics, draw)
    store = runner().store  # of results on the disk; its note names problems with them
    if store is not None and store.note:
        st.info(store.note, icon=":material/inventory_2:")
    if run is None or active or run.job.result is None or run.job.result.metric is None:  # no metric: no results yet
        return
    result = _visible(run, run.job.result, diagnostics)
    points_count = run.job.task.places if isinstance(run.job.task, Sweep) else 0  # it always is one
    _say_left_out(result.left_out, points_count)
    draw(result)
    st.caption(texts.SWEEP_NOT_COVERED)


def _bar(
    page: str,
    title: str,
    sweep: Sweep | None,
    points: tuple[Point, ...],
    tables: Mapping[str, np.ndarray],
    active: bool,
    cluster_executor: Executor | None,
) -> None:
    """Draw Run and Stop of a sweep, with its size, and an error if one of its points needs too much memory.

    points : the planned points of `sweep`, () if it has none. active : whether a sweep is under way.
    cluster_executor : the cluster that is to compute the points, None for this server.
    """
    max_bytes = max((point.bytes for point in points), default=0.0)
    is_too_large = max_bytes > runner().max_bytes
    row = st.container(horizontal=True, vertical_alignment="center")
    row.button(
        "Resume the sweep" if _resumes(page, sweep) else "Run the sweep",
        key=f"{page}_sweep_run",
        icon=":material/play_arrow:",
        disabled=active or not points or is_too_large,
        on_click=_start,
        args=(page, title, sweep, points, tables, cluster_executor),
    )
    row.button(
        "Stop", key=f"{page}_sweep_stop", icon=":material/stop:", disabled=not active, on_click=_stop, args=(page,)
    )
    if sweep is None or not points:
        return
    repeats = f"{sweep.experiment.replicates} run{'s' if sweep.experiment.replicates != 1 else ''} of each"
    points_text = f"{sweep.places} points" + (f" on {sweep.data_sets} data sets" if sweep.data_sets > 1 else "")
    row.caption(f"{points_text}, {repeats}.", width="content")
    if is_too_large:
        st.error(
            f"A run may use {runner().max_bytes / 1e9:.0f} GB. Use smaller values, fewer methods or fewer repeats.",
            title=f"A point of this sweep would need about {max_bytes / 1e9:.0f} GB of memory",
        )


def _choose_cluster(page: str, sweep: Sweep | None) -> Executor | None:
    """Draw the choice of a cluster that computes the sweep; return the cluster, or None for this server.

    There is a choice only if the operator of the server has named a cluster or lets visitors name theirs. A visitor's
    file stays on this server. The address of a cluster is no setting, so no link contains it. Raises UserError for an
    invalid address.
    """
    # The operator's setting; "" without one, and ASK to let visitors name a cluster.
    address = cluster.configured_address()
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
    """Return true if to run this sweep would continue one that was stopped: some of its points are in the store."""
    run = newest_run(page)
    if run is None or run.job.active or run.job.task != sweep or run.job.result is None:
        return False
    is_stored = runner().store is not None and run.experiment.problem.public  # points of a visitor's file are not
    return is_stored and 0 < run.job.result.finished < run.job.result.points


def _visible(run: Run, result: SweepResult, diagnostics: bool) -> SweepResult:
    """Return the part of a result that may be shown: all on public data or with `diagnostics`, else the releases."""
    return result.visible(diagnostics or run.experiment.problem.public)


def _live(page: str, active: bool, diagnostics: bool, draw: Callable[[SweepResult], None]) -> None:
    """Draw the progress of a sweep again and again, and its results as long as it is under way.

    When it has ended, the whole page is drawn again, and then draws the results itself. active : true if the sweep was
    under way when the page was drawn.
    """

    def rerun_at_end() -> None:
        run = newest_run(page)
        if run is not None and not run.job.active:
            st.rerun()

    def poll() -> float | None:
        run = newest_run(page)
        if run is None:
            return None
        job, result = run.job, run.job.result
        if job.state == "failed":
            st.error(job.message, title="The sweep failed")
        elif job.active:
            st.progress(job.progress, text=progress.active_text(job, run.progress_text))
        else:
            end = {"done": "Done", "stopped": "Stopped"}.get(job.state, progress.AT_LIMIT)  # else it is "timeout"
            restored = 0 if result is None else result.restored  # points that were in the store before
            cached = f"; {restored} of them were known" if restored else ""
            depends = f". {progress.DEPENDS}" if job.state == "timeout" and not job.experiment.public else ""
            st.progress(job.progress, text=f"{end}: {run.progress_text}{progress.duration_text(job)}{cached}{depends}")
        if active and result is not None:
            draw(_visible(run, result, diagnostics))
        return POLL if active else None

    draw_repeatedly(f"{page}_sweep_look", poll, rerun_at_end)


def _say_left_out(left_out: Sequence[LeftOut], points: int) -> None:
    """Draw a warning for each reason why methods have no result at some or all of the points.

    points : the number of points. The warning names the methods, and the points if there are others.
    """
    for reason, methods in by_reason(left_out, points).items():
        st.warning(reason, title=f"Left out: {methods}")


def laws(result: SweepResult, symbol: str) -> None:
    """Draw a table of two laws of growth of each method in the setting x that the sweep varies.

    They are the power law, median = c x^p, and the log law, median = a + b ln x, each with its misfit; the last column
    names the one that fits better. Methods with fewer than three points, and those that do not change with x, are left
    out.

    symbol : the symbol of x.
    """
    rows = []
    for label in result.curves:
        power, log = result.laws(label)
        if power is None or log is None or power.misfit is None or log.misfit is None:
            continue
        is_flat = abs(power.slope) < FLAT  # the setting does not concern this method
        if is_flat:
            continue
        rows.append(
            {
                "Method": label,
                f"p in c {symbol}^p": slope_text(power),
                "off by": f"{short(100 * power.misfit, 2)} %",
                f"b in a + b ln {symbol}": slope_text(log),
                # With a blank, as the columns of a table need different names.
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
    cluster_executor: Executor | None,
) -> None:
    """Queue a sweep, in place of the page's last one; for the callback of Run. The parameters are those of `_bar`."""
    first_points = points[: sweep.places]  # those of the first data set; the others have the same plans
    plans = {f"{label} at {point.where}": plan for point in first_points for label, plan in point.plans.items()}
    visitor = visitors.current()
    job = runner().submit(sweep, tables, visitor=visitor.name, elsewhere=cluster_executor)
    visitor.keep(page + _SUFFIX, Run(job, plans, page, title))


def _stop(page: str) -> None:
    """Stop the page's sweep; for the callback of Stop."""
    run = newest_run(page)
    if run is not None:
        run.job.stop()
