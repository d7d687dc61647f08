"""The section "Sweep" of any page: an experiment at several values of one setting or two.

It has the controls for the settings and their ranges, the buttons Run and Stop, the progress, the results so far, and
the methods that have none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.execution import cluster, progress
from dpviz.execution.cluster import Cluster
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.task import Cell, Executor
from dpviz.numbers import short
from dpviz.plots.elements.chart import Chart, Provenance, provenance
from dpviz.plots.sweep_figures import BEST, heat_maps, metric_by_setting, slope_text
from dpviz.specification import Control
from dpviz.sweeps.sweep import Axis, Point, Setting, Sweep, data_seed, setting_at, settings
from dpviz.sweeps.sweep_result import LeftOut, SweepResult, better_law, by_reason
from dpviz.ui import appearance, charts, downloads, explain, visitors
from dpviz.ui.controls import Panel, Settings, draw_errors
from dpviz.ui.experiment import results, texts
from dpviz.ui.experiment.run import JOB, MIN_INTERVAL, Run, draw_repeatedly, newest_run, runner, stop
from dpviz.ui.markdown import escape_sentence, show_table

# -------------------------------------------------------------------------------------------------------------- section

PREFIX = "vary"  # beginning of the names of all controls here
TITLE = "Sweep"
NONE = "none"  # value of the choice of the second setting that varies no second one
HEIGHT = 400  # of the chart of curves, in pixels
NARROW, WIDE = 350, 1000  # width of the maps on a narrow and on a wide screen, in pixels
MAX_POINTS = 200  # of a sweep on a page
VALUES = Control("values", "Values", "How many, both ends included.", 5, int, 2, 24)
DATA_SETS = Control("data_sets", "Data sets", texts.DATA_SETS_HELP, 1, int, 1, 20, symbol="S")


def show_section(
    panel: Panel, title: str, experiment: Experiment, tables: Mapping[str, np.ndarray], diagnostics: bool
) -> None:
    """Draw the section "Sweep" of a page.

    title : of the page. experiment : the experiment whose settings are varied. tables : the arrays of a visitor's file.
    diagnostics : true to show results that read the raw rows of such a file.
    """
    st.markdown(texts.SWEEP)
    sweep: Sweep | None = None
    with draw_errors():
        sweep = _choose_sweep(panel, experiment, diagnostics)
    if not experiment.problem.public and sweep is not None:
        with draw_errors():
            st.info(texts.SWEEP_UPLOADED.format(price=price(sweep.to_json())), icon=":material/lock:")
    key = panel.key(f"{PREFIX}_sweep")
    run = newest_run(key)
    if run is not None:  # it may be on a file while the present data are public
        diagnostics = results.diagnostics_shown(panel, run.experiment)
    show_sweep(key, f"{title}, sweep", sweep, partial(_draw, panel, key), tables, diagnostics)


def _choose_sweep(panel: Panel, experiment: Experiment, diagnostics: bool) -> Sweep | None:
    """Draw the controls and return their sweep; None if a number is out of range, which a message next to it says.

    diagnostics : as in `show_section`. Raises UserError if the numbers do not go together, or there is no setting to
    vary or no metric to show.
    """
    offered = {name: setting for name, setting in settings(experiment).items() if _has_control(panel, name, setting)}
    metrics = {  # without the values of a constant guess in other metrics, which the caption of `_maps` has
        name: metric
        for name, metric in experiment.metrics().items()
        if not metric.guess_for and (diagnostics or metric.released)
    }
    if not offered or not metrics:
        raise UserError(
            "These methods release no number that could be followed. Switch “Accuracy on my data” on, beside the "
            "picture, or choose another method.",
            title="Nothing to sweep",
        )
    titles = {name: setting.title for name, setting in offered.items()}
    mistake_count = len(panel.mistakes)  # of the controls above
    help = "What is drawn along the horizontal axis."
    first, first_range = _choose_axis(panel, "setting", "Vary", titles, offered, help)
    others = {NONE: "Nothing else", **{name: title for name, title in titles.items() if name != first}}
    help = "With a second setting there is a map of each method."
    second, second_range = _choose_axis(panel, "second", "And", others, offered, help)
    left, middle, right = st.columns([3, 2, 4], vertical_alignment="bottom")
    with left:
        labels = {name: metric.label for name, metric in metrics.items()}
        default, *_ = labels
        metric_name = panel.choice(f"{PREFIX}_metric", "What is shown", labels, default, "At the last iteration.")
    seed_path = data_seed(experiment)  # path to the seed from which the data are generated; "" for other data
    with middle:
        data_sets = panel.number(DATA_SETS, f"{PREFIX}_{DATA_SETS.name}", slider=False) if seed_path else 1
    private = [arm.label for arm in experiment.arms if not arm.reference]
    if len(private) > 2 and second == NONE:
        with right:  # `_curves` reads the choice from the session
            panel.one_of(f"{PREFIX}_compared", "Crossings with", private, "The others cross this.")
    if len(panel.mistakes) > mistake_count:
        return None
    fields: dict[str, Any] = {"experiment": experiment, "fields": offered[first].fields, "metric": metric_name}
    fields["values"] = offered[first].grid(*first_range)
    if second != NONE:
        fields["second"] = Axis(fields=offered[second].fields, values=offered[second].grid(*second_range))
    if data_sets and data_sets > 1:
        seed = experiment.problem.dataset.seed  # type: ignore[union-attr]  # `seed_path` names it, so there is one
        seeds = tuple((seed + k) % 2**31 for k in range(int(data_sets)))  # after the largest seed follows 0
        fields |= {"data_seed": seed_path, "data_seeds": seeds}
    sweep = Settings(Sweep, fields).build()
    point_count = sweep.data_sets * sweep.points_per_data_set
    if point_count > MAX_POINTS:
        raise UserError(
            f"This sweep has {point_count} points; a page takes at most {MAX_POINTS}. Choose fewer values or data sets."
        )
    return sweep


def _has_control(panel: Panel, name: str, setting: Setting) -> bool:
    """Return true if the page has a control for a setting now; to vary one without would change nothing.

    A setting of the budget or the methods has the name of its field, and so has its control. The names of other
    settings, and of their controls, have prefixes, not always the same ones.
    """
    field = setting.fields[0].rpartition(".")[2]  # the last name of a path such as "problem.data.rows"
    if name == field:
        return name in panel.titles  # the controls drawn so far
    return any(f"_{control}".endswith(f"_{field}") for control in panel.titles)


def _choose_axis(
    panel: Panel, name: str, label: str, titles: Mapping[str, str], offered: Mapping[str, Setting], help: str
) -> tuple[str, tuple[float, float, int]]:
    """Draw the choice of a varied setting and its range; return its name, and (first value, last value, how many).

    name, label, help : of the choice. titles : its options, by name of the setting. offered : the settings.
    """
    left, right = st.columns([3, 6], vertical_alignment="bottom")
    with left:
        default, *_ = titles
        setting_name = panel.choice(f"{PREFIX}_{name}", label, titles, default, help)
    if setting_name == NONE:
        return setting_name, (0.0, 0.0, 0)  # a range that is not used
    setting = offered[setting_name]
    usual_low, usual_high = setting.proposed_range
    end = replace(setting.control, unit="", optional=False)  # a control of one end of the range
    controls = (  # their names are in links
        replace(end, name="from", label="From", default=usual_low, help="The least."),
        replace(end, name="to", label="To", default=usual_high, help="The largest."),
        VALUES,
    )
    numbers = []
    for column, control in zip(right.columns(3), controls, strict=True):
        with column:
            value = panel.number(control, f"{PREFIX}_{setting_name}_{control.name}", slider=False)
            numbers.append(value or 0)  # an empty input is noted as a mistake, and then no sweep is made
    low, high, count = numbers
    return setting_name, (low, high, int(count))


def _draw(panel: Panel, key: str, result: SweepResult) -> None:
    """Draw the results of a sweep so far: curves for one varied setting, maps and the curves of one row for two.

    key : prefix of the sweep's panel.
    """
    # It may be of earlier settings than the controls, so the sweep is that of the run.
    run = newest_run(key)
    assert run is not None and isinstance(run.job.task, Sweep)
    sweep, active = run.job.task, run.job.active
    setting = _varied_setting(sweep, sweep.fields)
    if sweep.second is None:
        _curves(panel, sweep, setting, result, where="")
    else:
        second = _varied_setting(sweep, sweep.second.fields)
        _maps(panel, sweep, setting, second, result)
        if not active:  # the values of controls would be lost while the results are drawn again and again
            # From the text of `repr`, `float` returns the same number.
            options = {repr(value): short(value, 4) for value in sweep.second.values}
            name = second.control.symbol or second.control.label
            default, *_ = options
            at = panel.choice(f"{PREFIX}_at", f"Curves at {name} =", options, default, "A row of the maps.")
            _curves(panel, sweep, setting, result.at(float(at)), f" at {name} = {options[at]}")
    if not active:
        downloads.sweep(panel.page, sweep, result)


def _varied_setting(sweep: Sweep, fields: Sequence[str]) -> Setting:
    """Return the setting that a sweep varies by these fields of its experiment."""
    setting = setting_at(sweep.experiment, fields)
    assert setting is not None
    return setting


def _maps(panel: Panel, sweep: Sweep, setting: Setting, second: Setting, result: SweepResult) -> None:
    """Draw a map of the metric for each method, over the values of both settings."""
    metric = _label(sweep, result)
    privacy, publishing = provenance_and_sentences(sweep, result)
    samples = np.array([runs.samples[0] for runs in result.guesses.point_runs])  # a guess is one number at each point
    guess = ""  # the range, over all data sets, of the metric of a constant guess, which ignores the features
    if result.guess is not None and samples.size:
        low, high = short(float(samples.min()), 4), short(float(samples.max()), 4)
        guess = f" {result.guess.label}: {low}." if low == high else f" {result.guess.label}: {low} to {high}."
    columns, width = (1, NARROW) if appearance.is_narrow() else (2, WIDE)
    chart = Chart(
        heat_maps(result, setting.title, second.title, columns=columns, width=width),
        f"{metric} against {_in_sentence(setting)} and {_in_sentence(second)}",
        f"{metric} at every pair of values, one map per method; the best method with privacy is starred",
        f"Median of {_runs(sweep)} at the last iteration. {BEST}: the best method with privacy.{guess} {publishing}",
        privacy,
    )
    charts.show(chart, panel.key(f"chart_{PREFIX}_map"))


def _curves(panel: Panel, sweep: Sweep, setting: Setting, result: SweepResult, where: str) -> None:
    """Draw the curves of the metric against a setting, and a table of their laws of growth on a logarithmic axis.

    where : a text on the value of the second setting, "" without one.
    """
    metric = _label(sweep, result)
    log_x = setting.logarithmic and sweep.values[0] > 0  # the values ascend, so then all are positive
    # The method whose crossings with others are marked, as chosen in `_choose_sweep`.
    compared = st.session_state.get(panel.key(f"{PREFIX}_compared"), "")
    privacy, publishing = provenance_and_sentences(sweep, result)
    band = "Median" if sweep.experiment.replicates == 1 and sweep.data_sets == 1 else "Median and 10-90 % band"
    crossing_bars = (  # along the axis of the setting
        "from the least to the largest over the data sets" if sweep.data_sets > 1 else "a 95 % interval over the runs"
    )
    slopes = " Slopes are those of straight lines on these axes, with 95 % intervals." if log_x else ""
    figure = metric_by_setting(
        result,
        setting.title,
        symbol=setting.control.symbol,
        compared_arm=compared if compared in result.curves else "",
        log_x=log_x,
        height=HEIGHT,
    )
    chart = Chart(
        figure,
        f"{metric} against {_in_sentence(setting)}{where}",
        f"{metric} against {_in_sentence(setting)}{where}, one line per method; crossovers are marked",
        f"{band} of {_runs(sweep)} at the last iteration.{slopes} Marks show where curves cross, bars {crossing_bars}. "
        f"{publishing}",
        privacy,
    )
    charts.show(chart, panel.key(f"chart_{PREFIX}"))
    if log_x:
        show_laws(result, setting.control.symbol or "x")


def provenance_and_sentences(sweep: Sweep, result: SweepResult) -> tuple[Provenance, str]:
    """Return the provenance of a sweep's results, for a badge, and sentences on what may be published."""
    problem, replicates = sweep.experiment.problem, sweep.experiment.replicates
    privacies = {curve.privacy for curve in result.curves.values() if curve.point_runs}
    if privacies == {"not private"}:
        return provenance(privacies), explain.diagnostic_sentence(replicates, problem.public)
    adds_up = f"all of it: {result.price}" if result.price else "several adds up"
    text = f"Each run is private at the budget of its point for {problem.unit}; publishing {adds_up}."
    condition = escape_sentence(str(sweep.condition))
    if condition:
        text += f" **All of this holds {condition}.**"
    if "not private" in privacies:
        text += f" {explain.REFERENCES}"
    return provenance(privacies), text


def _runs(sweep: Sweep) -> str:
    """Return a text with the number of runs at each point, such as "4 runs on each of 3 data sets"."""
    count = sweep.experiment.replicates
    runs = f"{count} run{'s' if count != 1 else ''}"
    return f"{runs} on each of {sweep.data_sets} data sets" if sweep.data_sets > 1 else runs


def _label(sweep: Sweep, result: SweepResult) -> str:
    """Return the label of the metric of a sweep, also before its first result."""
    return result.metric.label if result.metric else sweep.experiment.metrics()[sweep.metric].label


def _in_sentence(setting: Setting) -> str:
    """Return the label of a setting for the inside of a sentence."""
    return setting.control.label[0].lower() + setting.control.label[1:]


# ----------------------------------------------------------------------------------------------------- runs and results

FLAT = 1e-9  # a slope below this is rounding


@st.cache_resource(max_entries=16, scope="session", show_spinner="Planning every point")
def planned(text: str) -> tuple[Point, ...]:
    """Return the points, with their plans, of the sweep with this JSON text. Raises UserError as `Sweep.planned`."""
    return Sweep.from_json(text).planned()


@st.cache_data(max_entries=16, scope="session", show_spinner=False)
def price(text: str) -> str:
    """Return the cost of publishing all of the sweep with this JSON text. Raises UserError as `Sweep.planned`."""
    return Sweep.from_json(text).price(planned(text))


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
    max_bytes = max((point.bytes for point in points), default=0.0)
    is_too_large = max_bytes > runner().max_bytes
    row = st.container(horizontal=True, vertical_alignment="center")
    row.button(
        "Resume the sweep" if _resumes(page, sweep) else "Run the sweep",
        key=f"{page}_run",
        icon=":material/play_arrow:",
        disabled=active or not points or is_too_large,
        on_click=_start,
        args=(page, title, sweep, points, tables, cluster_executor),
    )
    row.button("Stop", key=f"{page}_stop", icon=":material/stop:", disabled=not active, on_click=stop, args=(page,))
    if sweep is not None and points:
        repeats = f"{sweep.experiment.replicates} run{'s' if sweep.experiment.replicates != 1 else ''} of each"
        points_text = f"{sweep.points_per_data_set} points"
        if sweep.data_sets > 1:
            points_text += f" on {sweep.data_sets} data sets"
        row.caption(f"{points_text}, {repeats}.", width="content")
    if is_too_large:
        st.error(
            f"A run may use {runner().max_bytes / 1e9:.0f} GB. Use smaller values, fewer methods or fewer repeats.",
            title=f"A point of this sweep would need about {max_bytes / 1e9:.0f} GB of memory",
        )
    is_of_settings = run is not None and run.job.task == sweep
    if not is_of_settings and sweep is not None:  # else the result of the run says below what was left out
        left_out = []
        for point in points[: sweep.points_per_data_set]:  # those of the first data set; the others have the same plans
            left_out += [LeftOut(point.key, label, reason) for label, reason in point.left_out.items()]
        _say_left_out(left_out, sweep.points_per_data_set)
    if run is not None and not is_of_settings:  # also while it is under way, as its results are drawn then
        st.info("Settings changed since this sweep. What is shown belongs to the old ones.", icon=":material/history:")
    _live(page, active, diagnostics, draw)
    store = runner().store  # of results on the disk; its note names problems with them
    if store is not None and store.note:
        st.info(store.note, icon=":material/inventory_2:")
    if run is None or active or run.job.result is None or run.job.result.metric is None:  # no metric: no results yet
        return
    result = _visible(run, run.job.result, diagnostics)
    assert isinstance(run.job.task, Sweep)
    _say_left_out(result.left_out, run.job.task.points_per_data_set)
    draw(result)
    st.caption(texts.SWEEP_NOT_COVERED)


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
            key = f"{page}_cluster"
            address = st.text_input(
                "Dask scheduler", key=key, placeholder="tcp://host:8786", help=texts.CLUSTER_HELP
            ).strip()
        elif not st.toggle("On the cluster", True, key=f"{page}_cluster", help=texts.CLUSTER_HELP):
            return None
    return Cluster(address) if address else None


def _resumes(page: str, sweep: Sweep | None) -> bool:
    """Return true if to run this sweep would continue one that was stopped: some of its points are in the store."""
    run = newest_run(page)
    if run is None or run.job.active or run.job.task != sweep or run.job.result is None:
        return False
    store = runner().store
    keeps_points = store is not None and store.keeps(Cell(run.experiment))  # a cell like those of the sweep
    return keeps_points and 0 < run.job.result.finished < run.job.result.points


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
        return MIN_INTERVAL if active else None

    draw_repeatedly(f"{page}_poll", poll, rerun_at_end)


def _say_left_out(left_out: Sequence[LeftOut], points: int) -> None:
    """Draw a warning for each reason why methods have no result at some or all of the points.

    points : the number of points. The warning names the methods, and the points if there are others.
    """
    for reason, methods in by_reason(left_out, points).items():
        st.warning(reason, title=f"Left out: {methods}")


def show_laws(result: SweepResult, symbol: str) -> None:
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
    """Queue a sweep, in place of the page's last one; for the callback of Run. points : those of `sweep`, planned."""
    first_points = points[: sweep.points_per_data_set]  # those of the first data set; the others have the same plans
    plans = {f"{label} at {point.where}": plan for point in first_points for label, plan in point.plans.items()}
    visitor = visitors.current()
    job = runner().submit(sweep, tables, visitor=visitor.name, elsewhere=cluster_executor)
    visitor.keep(page + JOB, Run(job, plans, page, title))
