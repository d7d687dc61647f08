"""The section "Sweep" of any page: the controls for one or two varied settings and their ranges, and the results."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.numbers import short
from dpviz.plots.elements.chart import Chart, Provenance, provenance
from dpviz.plots.sweep_figures import BEST, heat_maps, metric_by_setting
from dpviz.specification import Control
from dpviz.sweeps.sweep import Axis, Setting, Sweep, data_seed, setting_at, settings
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts, downloads, explain, screen
from dpviz.ui.controls import Panel, Settings, draw_errors
from dpviz.ui.experiment import results, texts
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.markdown import escape_sentence

PREFIX = "vary"  # beginning of the names of all controls here
TITLE = "Sweep"
NONE = "none"  # value of the choice of the second setting that varies no second one
HEIGHT = 400  # of the chart of curves, in pixels
NARROW, WIDE = 350, 1000  # width of the maps on a narrow and on a wide screen, in pixels
MAX_POINTS = 200  # of a sweep on a page
VALUES = Control("values", "Values", "How many, both ends included.", 5, int, 2, 24)
DATA_SETS = Control("data_sets", "Data sets", texts.DATA_SETS_HELP, 1, int, 1, 20, symbol="S")


def show(panel: Panel, title: str, experiment: Experiment, tables: Mapping[str, np.ndarray], diagnostics: bool) -> None:
    """Draw the section.

    title : of the page. experiment : the experiment whose settings are varied. tables : the arrays of a visitor's file.
    diagnostics : true to show results that read the raw rows of such a file.
    """
    st.markdown(texts.SWEEP)
    sweep: Sweep | None = None
    with draw_errors():
        sweep = _sweep(panel, experiment, diagnostics)
    if not experiment.problem.public and sweep is not None:
        with draw_errors():
            st.info(texts.SWEEP_UPLOADED.format(price=sweep_panel.price(sweep.to_json())), icon=":material/lock:")
    key = panel.key(PREFIX)
    run = sweep_panel.newest_run(key)
    if run is not None:  # it may be on a file while the present data are public
        diagnostics = results.diagnostics_shown(panel, run.experiment)
    sweep_panel.show_sweep(key, f"{title}, sweep", sweep, partial(_draw, panel, key), tables, diagnostics)


def _sweep(panel: Panel, experiment: Experiment, diagnostics: bool) -> Sweep | None:
    """Draw the controls and return their sweep; None if a number is out of range, which a message next to it says.

    diagnostics : as in `show`. Raises UserError if the numbers do not go together, or there is no setting to vary or no
    metric to show.
    """
    offered = {name: setting for name, setting in settings(experiment).items() if _has_control(panel, name, setting)}
    metrics = {}
    for name, metric in experiment.metrics().items():
        # A metric with `beside` is the value of a constant guess in another one: it is in the caption, by `_guess`.
        if not metric.guess_for and (diagnostics or metric.released):
            metrics[name] = metric
    if not offered or not metrics:
        raise UserError(
            "These methods release no number that could be followed. Switch “Accuracy on my data” on, beside the "
            "picture, or choose another method.",
            title="Nothing to sweep",
        )
    titles = {name: setting.title for name, setting in offered.items()}
    mistake_count = len(panel.mistakes)  # of the controls above
    first, first_range = _axis(panel, "setting", "Vary", titles, offered, "What is drawn along the horizontal axis.")
    others = {NONE: "Nothing else", **{name: title for name, title in titles.items() if name != first}}
    second, second_range = _axis(
        panel, "second", "And", others, offered, "With a second setting there is a map of each method."
    )
    left, middle, right = st.columns([3, 2, 4], vertical_alignment="bottom")
    with left:
        labels = {name: metric.label for name, metric in metrics.items()}
        default, *_ = labels
        metric_name = panel.choice(f"{PREFIX}_metric", "What is shown", labels, default, "At the last iteration.")
    seed_field = data_seed(experiment)  # path to the seed from which the data are generated; "" for other data
    with middle:
        data_sets = panel.number(DATA_SETS, f"{PREFIX}_{DATA_SETS.name}", slider=False) if seed_field else 1
    private = [arm.label for arm in experiment.arms if not arm.reference]
    if len(private) > 2 and second == NONE:
        with right:
            panel.named(f"{PREFIX}_compared", "Crossings with", private, "The others cross this.")
    if len(panel.mistakes) > mistake_count:
        return None
    fields: dict[str, Any] = {"experiment": experiment, "fields": offered[first].fields, "metric": metric_name}
    fields["values"] = offered[first].grid(*first_range)
    if second != NONE:
        fields["second"] = Axis(fields=offered[second].fields, values=offered[second].grid(*second_range))
    if data_sets and data_sets > 1:
        seed = experiment.problem.dataset.seed  # type: ignore[union-attr]  # `seed_field` names it, so there is one
        seeds = tuple((seed + k) % 2**31 for k in range(int(data_sets)))  # after the largest seed follows 0
        fields |= {"data_seed": seed_field, "data_seeds": seeds}
    sweep = Settings(Sweep, fields).build()
    points = sweep.data_sets * sweep.places  # `places`: the points on one data set
    if points > MAX_POINTS:
        raise UserError(
            f"This sweep has {points} points; a page takes at most {MAX_POINTS}. Choose fewer values or data sets."
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


def _axis(
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
    usual_low, usual_high = setting.usual
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
    run = sweep_panel.newest_run(key)
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
            values = {repr(value): short(value, 4) for value in sweep.second.values}
            name = second.control.symbol or second.control.label
            default, *_ = values
            at = panel.choice(f"{PREFIX}_at", f"Curves at {name} =", values, default, "A row of the maps.")
            _curves(panel, sweep, setting, result.at(float(at)), f" at {name} = {values[at]}")
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
    privacy, publishing = status(sweep, result)
    best = f"{BEST}: the best method with privacy.{_guess(result)}"
    columns, width = (1, NARROW) if screen.narrow() else (2, WIDE)
    chart = Chart(
        heat_maps(result, setting.title, second.title, columns=columns, width=width),
        f"{metric} against {_in_sentence(setting)} and {_in_sentence(second)}",
        f"{metric} at every pair of values, one map per method; the best method with privacy is starred",
        f"Median of {_runs(sweep)} at the last iteration. {best} {publishing}",
        privacy,
    )
    charts.show(chart, panel.key(f"chart_{PREFIX}_map"))


def _curves(panel: Panel, sweep: Sweep, setting: Setting, result: SweepResult, where: str) -> None:
    """Draw the curves of the metric against a setting, and a table of their laws of growth on a logarithmic axis.

    where : a text on the value of the second setting, "" without one.
    """
    metric = _label(sweep, result)
    log_x = setting.logarithmic and sweep.values[0] > 0  # the values ascend, so then all are positive
    # The method whose crossings with others are marked, as chosen in `_sweep`.
    compared = st.session_state.get(panel.key(f"{PREFIX}_compared"), "")
    privacy, publishing = status(sweep, result)
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
        sweep_panel.laws(result, setting.control.symbol or "x")


def status(sweep: Sweep, result: SweepResult) -> tuple[Provenance, str]:
    """Return the provenance of a sweep's results, for a badge, and sentences on what may be published."""
    problem, replicates = sweep.experiment.problem, sweep.experiment.replicates
    statuses = {curve.status for curve in result.curves.values() if curve.ends}
    if statuses == {"not private"}:
        return provenance(statuses), explain.diagnostic_sentence(replicates, problem.public)
    adds_up = f"all of it: {result.price}" if result.price else "several adds up"
    text = f"Each run is private at the budget of its point for {problem.unit}; publishing {adds_up}."
    condition = escape_sentence(str(sweep.condition))
    if condition:
        text += f" **All of this holds {condition}.**"
    if "not private" in statuses:
        text += f" {explain.REFERENCES}"
    return provenance(statuses), text


def _guess(result: SweepResult) -> str:
    """Return a sentence, after a blank, with the range over all data sets of the metric of a constant guess.

    A constant guess ignores the features; "" if the problem has none.
    """
    samples = np.array([end.samples[0] for end in result.guesses.ends])  # a guess is one number at each point
    if result.guess is None or not samples.size:
        return ""
    low, high = short(float(samples.min()), 4), short(float(samples.max()), 4)
    return f" {result.guess.label}: {low}." if low == high else f" {result.guess.label}: {low} to {high}."


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
