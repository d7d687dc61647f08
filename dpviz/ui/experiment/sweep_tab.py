"""The sweep of any page: which setting or two are varied, from where to where, and what comes of it."""

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
    """The tab. experiment : what is varied. diagnostics : whether what is not released may be shown."""
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
    """The sweep that the controls describe; None if a number is out of range, which is said beside it.

    Raises UserError if the numbers do not go together, or nothing can be shown.
    """
    offered = {name: found for name, found in settings(experiment).items() if _drawn(panel, name, found)}
    every = {name: found for name, found in experiment.metrics().items() if not found.beside}
    metrics = {name: found for name, found in every.items() if diagnostics or found.released}
    if not offered or not metrics:
        raise UserError(
            "These methods release no number that could be followed. Switch “Accuracy on my data” on, beside the "
            "picture, or choose another method.",
            title="Nothing to sweep",
        )
    titles, mistakes = {name: found.title for name, found in offered.items()}, len(panel.mistakes)
    name, values = _axis(panel, "setting", "Vary", titles, offered, "What is drawn along the horizontal axis.")
    others = {NONE: "Nothing else", **{other: title for other, title in titles.items() if other != name}}
    other, along = _axis(
        panel, "second", "And", others, offered, "With a second setting there is a map of each method."
    )
    left, middle, right = st.columns([3, 2, 4], vertical_alignment="bottom")
    with left:
        labels = {metric: found.label for metric, found in metrics.items()}
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
    chosen: dict[str, Any] = {"experiment": experiment, "fields": offered[name].fields, "metric": metric}
    chosen["values"] = offered[name].grid(*values)
    if other != NONE:
        chosen["second"] = Axis(fields=offered[other].fields, values=offered[other].grid(*along))
    if count and count > 1:
        first = experiment.problem.dataset.seed  # type: ignore[union-attr]  # there is one, with a seed
        chosen |= {"data_seed": seed, "data_seeds": tuple((first + k) % 2**31 for k in range(int(count)))}
    return Settings(Sweep, chosen).build()


def _drawn(panel: Panel, name: str, setting: Setting) -> bool:
    """Whether the page has a control for it now; one that it leaves out would change nothing."""
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
    """What a sweep has found so far."""
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
    found = named(sweep.experiment, fields)
    assert found is not None
    return found


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
    """The frontier: the metric against the setting, and how fast it grows."""
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
    """What may be published of what is drawn, as a badge and in words."""
    problem, replicates = sweep.experiment.problem, sweep.experiment.replicates
    found = {curve.status for curve in result.curves.values() if curve.ends}
    if found == {"not private"}:
        return provenance(found), explain.diagnostic(replicates, problem.public)
    adds_up = f"all of it: {result.price}" if result.price else "several adds up"
    said = f"Each run is private at the budget of its point for {problem.unit}; publishing {adds_up}."
    rests_on = sentence(str(sweep.experiment.condition))
    said += f" **All of this holds {rests_on}.**" if rests_on else ""
    return provenance(found), f"{said} {explain.REFERENCES}" if "not private" in found else said


def _guess(result: SweepResult) -> str:
    """What a constant guess reaches, on all data sets."""
    found = np.array(result.guesses.ends and [end.samples[0] for end in result.guesses.ends])
    if result.guess is None or not found.size:
        return ""
    ends = dict.fromkeys(short(float(end), 4) for end in (found.min(), found.max()))
    return f" {result.guess.label}: {' to '.join(ends)}."


def _runs(sweep: Sweep) -> str:
    count = sweep.experiment.replicates
    runs = f"{count} run{'s' if count != 1 else ''}"
    return f"{runs} on each of {sweep.data_sets} data sets" if sweep.data_sets > 1 else runs


def _label(sweep: Sweep, result: SweepResult) -> str:
    return result.metric.label if result.metric else sweep.experiment.metrics()[sweep.metric].label


def _lower(setting: Setting) -> str:
    """The name of a setting inside a sentence."""
    return setting.control.label[0].lower() + setting.control.label[1:]
