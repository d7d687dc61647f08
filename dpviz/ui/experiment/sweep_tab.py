"""The sweep tab of any page: controls for one or two varied settings and their ranges, and the results."""

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
from dpviz.plots.sweep_figures import BEST, against, heat_maps
from dpviz.specification import Control
from dpviz.sweeps.sweep import MOST_VALUES, Axis, Setting, Sweep, data_seed, named, settings
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui import charts, downloads, explain, screen
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment import sweep as sweep_panel
from dpviz.ui.experiment import texts
from dpviz.ui.markdown import sentence

PREFIX = "vary"  # of the names of all controls here
TITLE = "Sweep"
NONE = "none"
HEIGHT = 400
NARROW, WIDE = 350, 1000  # pixels that a figure has, about
VALUES = Control("values", "Values", "How many, both ends included.", 5, int, 2, MOST_VALUES)
DATA_SETS = Control("data_sets", "Data sets", texts.DATA_SETS_HELP, 1, int, 1, 20, symbol="S")


def show(panel: Panel, title: str, experiment: Experiment, tables: Mapping[str, np.ndarray], diagnostics: bool) -> None:
    """Draw the tab.

    experiment : whose settings are varied. diagnostics : true to show results that are not released.
    """
    st.markdown(texts.SWEEP)
    sweep: Sweep | None = None
    with in_place():
        sweep = _sweep(panel, experiment, diagnostics)
    if not experiment.problem.public and sweep is not None:
        with in_place():
            st.info(texts.SWEEP_UPLOADED.format(price=sweep_panel.price(sweep.to_json())), icon=":material/lock:")
    key = panel.key(PREFIX)
    sweep_panel.panel(key, f"{title}, sweep", sweep, partial(_draw, panel, key), tables, diagnostics)


def _sweep(panel: Panel, experiment: Experiment, diagnostics: bool) -> Sweep | None:
    """Draw the controls and return their sweep; None if a number is out of range, with a message next to it.

    Raises UserError if the numbers do not go together, or there is no metric or setting.
    """
    offered = {name: setting for name, setting in settings(experiment).items() if _is_drawn(panel, name, setting)}
    all_metrics = {name: metric for name, metric in experiment.metrics().items() if not metric.beside}
    metrics = {name: metric for name, metric in all_metrics.items() if diagnostics or metric.released}
    if not offered or not metrics:
        raise UserError(
            "These methods release no number that could be followed. Switch “Accuracy on my data” on, beside the "
            "picture, or choose another method.",
            title="Nothing to sweep",
        )
    titles, mistakes = {name: setting.title for name, setting in offered.items()}, len(panel.mistakes)
    name, values = _axis(panel, "setting", "Vary", titles, offered, "What is drawn along the horizontal axis.")
    others = {NONE: "Nothing else", **{other: title for other, title in titles.items() if other != name}}
    other, along = _axis(
        panel, "second", "And", others, offered, "With a second setting there is a map of each method."
    )
    left, middle, right = st.columns([3, 2, 4], vertical_alignment="bottom")
    with left:
        labels = {key: metric.label for key, metric in metrics.items()}
        metric = panel.choice(f"{PREFIX}_metric", "What is shown", labels, next(iter(labels)), "At the last iteration.")
    seed = data_seed(experiment)
    with middle:
        count = panel.number(DATA_SETS, f"{PREFIX}_{DATA_SETS.name}", slider=False) if seed else 1
    private = [arm.label for arm in experiment.arms if not arm.reference]
    if len(private) > 2 and other == NONE:
        with right:
            panel.named(f"{PREFIX}_compared", "Crossings with", private, "The others cross this.")
    if len(panel.mistakes) > mistakes:
        return None
    fields: dict[str, Any] = {"experiment": experiment, "fields": offered[name].fields, "metric": metric}
    fields["values"] = offered[name].grid(*values)
    if other != NONE:
        fields["second"] = Axis(fields=offered[other].fields, values=offered[other].grid(*along))
    if count and count > 1:
        first = experiment.problem.dataset.seed  # type: ignore[union-attr]  # there is one, with a seed
        fields |= {"data_seed": seed, "data_seeds": tuple((first + k) % 2**31 for k in range(int(count)))}
    return Settings(Sweep, fields).build()


def _is_drawn(panel: Panel, name: str, setting: Setting) -> bool:
    """Return true if the page draws a control for the setting now; a setting without one would change nothing."""
    field = setting.fields[0].rpartition(".")[2]
    return name in panel.titles if name == field else any(f"_{key}".endswith(f"_{field}") for key in panel.titles)


def _axis(
    panel: Panel, name: str, label: str, titles: Mapping[str, str], offered: Mapping[str, Setting], help: str
) -> tuple[str, tuple[float, float, int]]:
    """Which setting is varied, from where to where, and how many values."""
    left, right = st.columns([3, 6], vertical_alignment="bottom")
    with left:
        chosen = panel.choice(f"{PREFIX}_{name}", label, titles, next(iter(titles)), help)
    if chosen == NONE:
        return chosen, (0.0, 0.0, 0)
    setting, numbers = offered[chosen], []
    ends = [
        replace(setting.control, name=word.lower(), label=word, default=default, unit="", optional=False, help=sentence)
        for word, default, sentence in zip(("From", "To"), setting.usual, ("The least.", "The largest."), strict=True)
    ]
    for place, control in zip(right.columns(3), (*ends, VALUES), strict=True):
        with place:
            numbers.append(panel.number(control, f"{PREFIX}_{chosen}_{control.name}", slider=False) or 0)
    low, high, count = numbers
    return chosen, (low, high, int(count))


def _draw(panel: Panel, key: str, result: SweepResult) -> None:
    """Draw the results of a sweep so far."""
    run = sweep_panel.current(key)
    assert run is not None and isinstance(run.job.task, Sweep)
    sweep, active = run.job.task, run.job.active
    setting = _named(sweep, sweep.fields)
    if sweep.second is None:
        _curves(panel, sweep, setting, result, "")
    else:
        second = _named(sweep, sweep.second.fields)
        _maps(panel, sweep, setting, second, result)
        if not active:  # controls would be lost while the picture is drawn again and again
            values = {repr(value): short(value, 4) for value in sweep.second.values}
            name = second.control.symbol or second.control.label
            at = panel.choice(f"{PREFIX}_at", f"Curves at {name} =", values, next(iter(values)), "A row of the maps.")
            _curves(panel, sweep, setting, result.at(float(at)), f" at {name} = {values[at]}")
    if not active:
        downloads.sweep(panel.page, sweep, result)


def _named(sweep: Sweep, fields: Sequence[str]) -> Setting:
    setting = named(sweep.experiment, fields)
    assert setting is not None
    return setting


def _maps(panel: Panel, sweep: Sweep, setting: Setting, second: Setting, result: SweepResult) -> None:
    metric, narrow, (privacy, words) = _label(sweep, result), screen.narrow(), status(sweep, result)
    best = f"{BEST}: the best method with privacy.{_guess(result)}"
    columns, width = (1, NARROW) if narrow else (2, WIDE)
    chart = Chart(
        heat_maps(result, setting.title, second.title, columns=columns, width=width),
        f"{metric} against {_lower(setting)} and {_lower(second)}",
        f"{metric} at every pair of values, one map per method; the best method with privacy is starred",
        f"Median of {_runs(sweep)} at the last iteration. {best} {words}",
        privacy,
    )
    charts.show(chart, panel.key(f"chart_{PREFIX}_map"))


def _curves(panel: Panel, sweep: Sweep, setting: Setting, result: SweepResult, where: str) -> None:
    """Draw the metric against the setting, and the laws of its growth."""
    metric, log_x = _label(sweep, result), setting.logarithmic and sweep.values[0] > 0
    compared, (privacy, words) = st.session_state.get(panel.key(f"{PREFIX}_compared"), ""), status(sweep, result)
    band = "Median" if sweep.experiment.replicates == 1 and sweep.data_sets == 1 else "Median and 10-90 % band"
    bars = (
        "from the least to the largest over the data sets" if sweep.data_sets > 1 else "a 95 % interval over the runs"
    )
    slopes = " Slopes are those of straight lines on these axes, with 95 % intervals." if log_x else ""
    figure = against(
        result,
        setting.title,
        symbol=setting.control.symbol,
        compared=compared if compared in result.curves else "",
        log_x=log_x,
        height=HEIGHT,
    )
    chart = Chart(
        figure,
        f"{metric} against {_lower(setting)}{where}",
        f"{metric} against {_lower(setting)}{where}, one line per method; crossovers are marked",
        f"{band} of {_runs(sweep)} at the last iteration.{slopes} Marks show where curves cross, bars {bars}. {words}",
        privacy,
    )
    charts.show(chart, panel.key(f"chart_{PREFIX}"))
    if log_x:
        sweep_panel.laws(result, setting.control.symbol or "x")


def status(sweep: Sweep, result: SweepResult) -> tuple[Provenance, str]:
    """Return the provenance of the drawn results, for a badge, and sentences on what may be published."""
    problem, replicates = sweep.experiment.problem, sweep.experiment.replicates
    statuses = {curve.status for curve in result.curves.values() if curve.ends}
    if statuses == {"not private"}:
        return provenance(statuses), explain.diagnostic(replicates, problem.public)
    adds_up = f"all of it: {result.price}" if result.price else "several adds up"
    text = f"Each run is private at the budget of its point for {problem.unit}; publishing {adds_up}."
    condition = sentence(str(sweep.experiment.condition))
    text += f" **All of this holds {condition}.**" if condition else ""
    return provenance(statuses), f"{text} {explain.REFERENCES}" if "not private" in statuses else text


def _guess(result: SweepResult) -> str:
    """Describe the result of a constant guess over all data sets; "" without one."""
    samples = np.array(result.guesses.ends and [end.samples[0] for end in result.guesses.ends])
    if result.guess is None or not samples.size:
        return ""
    ends = dict.fromkeys(short(float(end), 4) for end in (samples.min(), samples.max()))
    return f" {result.guess.label}: {' to '.join(ends)}."


def _runs(sweep: Sweep) -> str:
    count = sweep.experiment.replicates
    runs = f"{count} run{'s' if count != 1 else ''}"
    return f"{runs} on each of {sweep.data_sets} data sets" if sweep.data_sets > 1 else runs


def _label(sweep: Sweep, result: SweepResult) -> str:
    return result.metric.label if result.metric else sweep.experiment.metrics()[sweep.metric].label


def _lower(setting: Setting) -> str:
    """Return the label of a setting for the inside of a sentence."""
    return setting.control.label[0].lower() + setting.control.label[1:]
