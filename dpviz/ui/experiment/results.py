"""Results of a run: curves over steps or privacy spent, and the table of final numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.trace import Trace
from dpviz.numbers import rounded_up, short, short_up
from dpviz.plots import run_figures
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.problems.base import Metric
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import texts

if TYPE_CHECKING:
    from streamlit.elements.lib.column_types import ColumnConfig
from dpviz.ui.experiment.plan import PlanView, Shown
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import plain, sentence, show_table

AXES = {"steps": "Steps", "spent": "Privacy spent"}
NO_OVERLAY = "none"
MAX_CHARTS = 12  # cached charts of a run


@dataclass(frozen=True)
class Options:
    """Options for drawing the curves of a run.

    second : metric of the second chart at first.
    overlays : further curves (T+1,) by name and arm, of the metric `compared`. remarks : a sentence about them.
    conditions : the conditions under which they hold, shown behind their names.
    """

    currency: Currency
    currency_title: str
    second: str = ""
    overlays: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    compared: str = "objective_gap"


def plain_options(shown: PlanView) -> Options:
    """Return options for curves without theory to compare them with."""
    currency: Currency = shown.experiment.budget.currency or "rho"
    return Options(currency, f"Privacy spent, {UNITS[currency].label}")


def diagnostics_shown(panel: Panel, experiment: Experiment) -> bool:
    """Return true if raw-data curves are shown: always for public data; for a user's file if the switch is on."""
    return experiment.problem.public or bool(st.session_state.get(panel.key("diagnostics")))


def diagnostics_switch(panel: Panel) -> None:
    """Draw the switch for raw-data curves of a user's file."""
    st.toggle(
        "Accuracy on my data (not private)",
        key=panel.key("diagnostics"),
        persist_state="session",
        help="Loss, gradient norm and accuracy read your raw data. Nothing that they show is covered by the guarantee.",
    )


def hidden(panel: Panel, experiment: Experiment) -> None:
    """Say that curves and numbers are hidden, if they are."""
    if not diagnostics_shown(panel, experiment):
        st.caption(texts.HIDDEN)


def metrics(trace: Trace) -> dict[str, Metric]:
    """Return the recorded metrics: first the headline, last those that serve as horizontal axes."""
    by_name = {name: metric for name, metric in trace.metrics.items() if not metric.beside}
    ordered = [*results.headlined(trace)[:1], *sorted(by_name, key=lambda name: by_name[name].axis)]
    return {name: by_name[name] for name in dict.fromkeys(ordered)}


def curves(panel: Panel, run: Run, trace: Trace, options: Options) -> Shown:
    """Draw two charts side by side: the first metric, and one of the others, if there are any; return the charts.

    trace : the part of the run that may be shown.
    """
    available = metrics(trace)
    if not available:
        return []
    first, *others = available
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with row:
        axes = AXES | {name: axis.title for name, axis in results.axes(trace, run.plans).items()}
        axis = panel.choice("axis", "Horizontal axis", axes, "steps", "Steps, or what they have cost.")
        second = _second(panel, available, others, options.second) if others else ""
        overlay = NO_OVERLAY
        if options.overlays and first == options.compared:
            named = {NO_OVERLAY: "None", **{name: name.capitalize() for name in options.overlays}}
            overlay = panel.choice(
                "overlay", "Thin lines", named, NO_OVERLAY, "Theory to compare the first chart with."
            )
        every = len(trace.lanes) > 2 and run.experiment.replicates > 1
        every = every and panel.switch("all_bands", "All bands", False, texts.ALL_BANDS)
    drawn = {first: options.overlays.get(overlay, {}), **({second: {}} if second else {})}
    curve = partial(_curve, run, trace, axis=axis, options=options, overlay_name=overlay, every_band=every)
    return charts.beside(
        *((curve(available[name], overlays=lines), panel.key(f"chart_{name}")) for name, lines in drawn.items())
    )


def _second(panel: Panel, available: Mapping[str, Metric], others: Sequence[str], default: str) -> str:
    """Draw the choice of the metric of the second chart; return its name."""
    return panel.choice(
        "second",
        "Second chart",
        {name: available[name].label.split(" ‖")[0] for name in others},
        default if default in others else others[0],
        "The quantity in the chart on the right.",
    )


def _curve(
    run: Run,
    trace: Trace,
    metric: Metric,
    *,
    axis: str,
    options: Options,
    overlays: Mapping[str, np.ndarray],
    overlay_name: str,
    every_band: bool,
) -> Chart:
    # All that the chart depends on besides the run, which has ended: visible arms and metrics, and the controls.
    key = (*trace.lanes, *trace.metrics), metric.name, axis, overlay_name if overlays else "", every_band
    if key in run.charts:
        return run.charts[key]
    if len(run.charts) >= MAX_CHARTS:
        run.charts.clear()
    over, title, ceilings = _over(run, trace, axis, options)
    draw = partial(
        run_figures.convergence,
        trace,
        metric.name,
        arm_styles(run.experiment.arms),
        x="iteration" if axis == "steps" else "spent",
        spent=over,
        spent_title=title,
        ceilings=ceilings,
        overlays={label: curve[: len(over[label])] if label in over else curve for label, curve in overlays.items()},
        overlay_name=f"{overlay_name}{options.conditions.get(overlay_name, '')}",
    )
    figure = draw(bands="panels" if every_band else "best")
    compared = f" {options.remarks.get(overlay_name, '')}" if overlays else ""
    caption = f"{explain.spread(run.experiment.replicates)}{compared} {privacy(metric, trace, run.experiment)}"
    along = "steps" if axis == "steps" else title.lower() if axis != "spent" else "privacy spent"
    alt = f"{metric.label} against {along}, one line per method"
    private = provenance(trace.statuses(metric).values())
    chart = Chart(figure, metric.label, alt, caption, private, to_download=partial(draw, bands="all"))
    run.charts[key] = chart
    return chart


def _over(
    run: Run, trace: Trace, axis: str, options: Options
) -> tuple[Mapping[str, np.ndarray], str, Mapping[str, float]]:
    """Return the horizontal axis, if not steps: values (t+1,) per method, its title, and upper limits per method."""
    if axis == "steps":
        return {}, "", {}
    others = results.axes(trace, run.plans)
    if axis in others:
        return others[axis].curves, others[axis].title, {}
    spent = {
        label: results.spent_curve(trace, label, plan, options.currency)
        for label, plan in run.plans.items()
        if label in trace.lanes and plan.private
    }
    return spent, options.currency_title, results.ceilings(run.plans, options.currency)


def privacy(metric: Metric, trace: Trace, experiment: Experiment) -> str:
    """Say what may be published of a chart of a metric."""
    statuses = set(trace.statuses(metric).values())
    if statuses == {"not private"}:
        return explain.diagnostic(experiment.replicates, experiment.problem.public)
    released = explain.released(experiment, experiment.replicates)
    return f"{released} {explain.REFERENCES}" if "not private" in statuses else released


def table(run: Run, trace: Trace, delta: float) -> None:
    """Draw the table of final numbers that may be shown; say which of them read the raw data."""
    numbers = results.final_table(trace, run.plans, delta=delta)
    if numbers.empty:
        return
    columns = {name: column for name, column in results.columns(trace).items() if name in numbers}
    if numbers["currency"].iloc[0] == f"ε at δ = {short_up(delta, 4)}":  # then the reading equals the privacy spent
        columns.pop("epsilon_at_delta", None)
    labels = {name: _heading(name, column, numbers, delta) for name, column in columns.items()}
    read = [name for name, column in columns.items() if not column.released and not name.endswith(("_low", "_high"))]
    # How long a run takes follows from its data.
    read = [labels[name] for name in read if name != "seconds" or not run.experiment.public]
    if not run.experiment.public:  # a visitor may save the table, and then no badge stands beside it
        numbers["algorithm"] = results.marked(numbers, trace)["algorithm"]
        labels |= {name: labels[name] + results.NOT_PRIVATE for name in columns if not columns[name].released}
    shown = _readable(numbers[list(columns)]).rename(columns=labels)
    help = {labels[name]: column.help for name, column in columns.items()}
    with explain.heading("Final numbers"):
        if read or run.experiment.condition:
            explain.privacy_badge("not private" if read else run.experiment.privacy)
    show_table(
        shown,
        style=explain.readable,
        placeholder="–",
        column_config={name: _format(shown[name], help.get(name)) for name in shown},
        alt="Final numbers of each method: steps, loss, best step, accuracy, privacy spent, time",
    )
    if run.experiment.condition:
        st.caption(explain.released(run.experiment, run.experiment.replicates))
    ended = {label: results.endings(lane) for label, lane in trace.lanes.items()}
    stopping = [f"{label}: {found.describe()} ({found.reasons()})" for label, found in ended.items() if found]
    if stopping:
        st.caption(f"**Methods that stop by themselves.** {'; '.join(stopping)}. Their guarantee is the ceiling.")
    fixed = {label: run.plans[label].iterations for label in trace.lanes if not run.plans[label].stops}
    unfinished = [
        label
        for label, steps in fixed.items()
        if trace.lanes[label].private and steps not in trace.lanes[label].iterations
    ]
    if unfinished:
        st.caption(texts.UNFINISHED.format(methods=", ".join(map(plain, unfinished))))
    said = [f"Medians of {run.experiment.replicates} runs."]
    said += [f"**Not private**, because read off the raw data: {', '.join(read)}."] * bool(read)
    said += [explain.REFERENCES] * any(not lane.private for lane in trace.lanes.values())
    if said[1:]:
        st.caption(" ".join(said))


def publishing_line(run: Run, trace: Trace, delta: float) -> None:
    """Draw the cost of publishing more than one of these results, in one line."""
    experiment = run.experiment
    found = results.costs(run.plans, trace.lanes, experiment.budget, experiment.replicates, delta)
    several = [cost for cost in found if cost.methods * cost.repeats > 1]
    if several:
        costs = "; publishing ".join(results.sentences(several, conditions=False))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(
                f"**What publishing costs.** Each method alone: {experiment.budget.describe()}. Publishing {costs}. "
                "Other runs on the same data add to this.",
                width="content",
            )
            if experiment.condition:
                explain.privacy_badge(experiment.privacy, sentence(str(experiment.condition)))


def _readable(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the table without columns that repeat, and with both ends of a band in one column."""
    shown = numbers.drop(columns=["currency", "accountant"], errors="ignore")
    if "diverged" in shown and not shown["diverged"].any():
        shown = shown.drop(columns="diverged")
    for name in [name for name in shown if name in results.UPPER]:
        shown[name] = shown[name].map(rounded_up)
    for name in [name for name in shown if name.endswith("_low")]:
        high = name.removesuffix("_low") + "_high"
        band = [f"{_signed(low)} - {_signed(high)}" for low, high in zip(shown[name], shown[high], strict=True)]
        shown = shown.drop(columns=high).assign(**{name: band})
    return shown.map(lambda value: None if isinstance(value, float) and not np.isfinite(value) else value)


def _signed(x: float) -> str:
    """Format an end of a band, with a minus sign for the hyphen, which a spreadsheet could take for a formula."""
    return short(x, 2).replace("-", "−")


def _heading(name: str, column: results.Column, numbers: pd.DataFrame, delta: float) -> str:
    """Return a short heading: the label of a metric without its formula, or the currency of the privacy spent."""
    if name == "spent":
        return f"Spent {numbers['currency'].iloc[0]}"
    if name == "epsilon_at_delta":
        return f"ε at δ = {short_up(delta)}"
    if name.endswith("_low"):
        return "10-90 %"
    return re.sub(r" (F\(|‖)[^,]*", "", column.label)


def _format(values: pd.Series, help: str | None) -> "ColumnConfig":
    if pd.api.types.is_numeric_dtype(values):
        return st.column_config.NumberColumn(help=help or None)
    return st.column_config.TextColumn(help=help or None)
