"""Results of a run that has ended: the models that it releases, in sentences and as a table to download, which reads
no raw data; its curves over steps or privacy spent; and the table of final numbers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets.base import DatasetFacts
from dpviz.datasets.groups import GroupedFacts
from dpviz.experiments import results
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Privacy, weakest_privacy
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.exports.spreadsheets import as_csv
from dpviz.numbers import rounded_up, short, short_up
from dpviz.plots import run_figures
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.accounting.currencies import UNITS
from dpviz.problems.base import Metric
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import texts
from dpviz.ui.experiment.plan import Charts
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import escape_name, escape_sentence, show_table

# ------------------------------------------------------------------------------------------------------ released models

CONSTANT = "(constant)"  # name of the constant term in the column of coefficients
MAX_NAMED = 3  # largest number of coefficients that a sentence names


def private_traces(trace: Trace) -> dict[str, ArmTrace]:
    """Return the traces of the private methods that have released something, by label."""
    return {label: arm_trace for label, arm_trace in trace.arm_traces.items() if arm_trace.private and arm_trace.output}


def coefficients(facts: DatasetFacts | GroupedFacts, constant: bool = False) -> pd.DataFrame:
    """Return a table with a row for each coefficient: the column that it multiplies, and the column's declared range.

    constant : true to append a row for the constant term, which multiplies no column.
    """
    low, high = np.array(facts.bounds).T
    table = pd.DataFrame({"column": facts.names, "lowest": low, "highest": high})
    if constant:
        table.loc[len(table)] = [CONSTANT, np.nan, np.nan]
    return table


def heaviest(x: np.ndarray, names: Sequence[str]) -> str:
    """Return text with the largest coefficients of x (d,), in absolute value, at most MAX_NAMED, and their names."""
    largest = np.argsort(-np.abs(x), kind="stable")[:MAX_NAMED]
    return ", ".join(f"{escape_name(names[j])} {x[j]:+.3g}" for j in largest)


def show_model(
    panel: Panel,
    run: Run,
    sentences: Mapping[str, str],
    model: pd.DataFrame,
    meaning: str,
    weights: pd.DataFrame | None = None,
    digits: str = "%.3f",
) -> None:
    """Draw the models that the first run of each private method releases, and a button that saves them as a file.

    sentences : one about the model of each method, in Markdown, by label. model : the table of the coefficients, with a
    row for each, a column for each method, and columns that describe the coefficient. meaning : a sentence on how to
    read it. weights : in a game, the table of the other player's weights, with the same columns of methods.
    digits : format of the numbers on the screen; the file has all digits.
    """
    about, guarantee = f"First run of each method. {meaning}", run.experiment.promise
    note = run.job.trace.time_note if run.job.trace is not None else ""
    with explain.heading("What one run releases"):
        explain.privacy_badge(weakest_privacy(run.plans[label].privacy for label in sentences))
        charts.download(
            "the released model of each method",
            lambda: as_csv(model, [f"{about} Guarantee: {guarantee}. {note} {texts.COMPOSES}"]).encode(),
            f"dpviz_{panel.page}_model.csv",
            panel.key("model_csv"),
        )
    st.markdown("\n".join(f"- **{label}**: {sentence}" for label, sentence in sentences.items()))
    columns = {label: st.column_config.NumberColumn(format=digits) for label in sentences}
    show_table(model, column_config=columns, alt="Released coefficients, one column per method")
    if weights is not None:
        show_table(weights, column_config=columns, alt="Released weights of the groups")
    st.caption(f"{about} {explain.release_sentence(run.experiment, 1)} {texts.COMPOSES}")


# ------------------------------------------------------------------------------------------------- curves and the table

AXES = {"steps": "Steps", "spent": "Privacy spent"}
NO_OVERLAY = "none"  # value of the choice of thin lines that draws none
MAX_CHARTS = 12  # largest number of cached charts of a run


@dataclass(frozen=True)
class CurveOptions:
    """A family's options for drawing the curves of a run.

    second : name of the metric that the second chart shows at first.
    overlays : curves of theory for the metric named `compared`, by their name and the label of the method: (T+1,)
    values, after each of steps 0..T. The visitor can choose a name, whose curves are drawn as thin lines.
    remarks, conditions : by name, a sentence about the curves, and their condition, which is drawn after the name.
    """

    second: str = ""
    overlays: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)
    compared: str = "objective_gap"


def diagnostics_shown(panel: Panel, experiment: Experiment) -> bool:
    """Return true if results that read raw data may be shown: on public data always, on a file if the switch is on."""
    return experiment.problem.public or bool(st.session_state.get(panel.key("diagnostics")))


def show_diagnostics_switch(panel: Panel) -> None:
    """Draw the switch that shows results which read the raw data of a visitor's file."""
    st.toggle(
        "Accuracy on my data (not private)",
        key=panel.key("diagnostics"),
        persist_state="session",
        help="Loss, gradient norm and accuracy read your raw data. Nothing that they show is covered by the guarantee.",
    )


def metrics(trace: Trace) -> dict[str, Metric]:
    """Return the metrics that a trace records, by name: the most telling first, those for horizontal axes last.

    Metrics that are the value of a constant guess in another one are left out: they are in its chart.
    """
    by_name = {name: metric for name, metric in trace.metrics.items() if not metric.guess_for}
    most_telling = results.headline_metrics(trace)[:1]
    axes_last = sorted(by_name, key=lambda name: by_name[name].axis)
    return {name: by_name[name] for name in dict.fromkeys([*most_telling, *axes_last])}


def show_curves(panel: Panel, run: Run, trace: Trace, options: CurveOptions) -> Charts:
    """Draw two charts side by side, with the controls above them; return the charts.

    The first has the most telling metric, the second another one of the visitor's choice, if there are others.

    trace : the part of the run's results that may be shown.
    """
    available = metrics(trace)
    if not available:
        return []
    first, *others = available
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with row:
        axes = AXES | {name: other.title for name, other in results.axes(trace, run.plans).items()}
        axis = panel.choice("axis", "Horizontal axis", axes, "steps", "Steps, or what they have cost.")
        second = ""
        if others:
            labels = {name: available[name].label.split(" ‖")[0] for name in others}  # without formulas of norms
            default = options.second if options.second in others else others[0]
            second = panel.choice("second", "Second chart", labels, default, "The quantity in the chart on the right.")
        overlay = NO_OVERLAY
        if options.overlays and first == options.compared:
            titles = {NO_OVERLAY: "None", **{name: name.capitalize() for name in options.overlays}}
            help = "Theory to compare the first chart with."
            overlay = panel.choice("overlay", "Thin lines", titles, NO_OVERLAY, help)
        every_band = False
        if len(trace.arm_traces) > 2 and run.experiment.replicates > 1:
            help = "A panel for each method, with its 10-90 % band; the others in grey."
            every_band = panel.switch("all_bands", "All bands", default=False, help=help)
    curve = partial(_curve, run, trace, axis=axis, options=options, every_band=every_band)
    charts_with_keys = [(curve(available[first], overlay=overlay), panel.key(f"chart_{first}"))]
    if second:
        charts_with_keys.append((curve(available[second], overlay=NO_OVERLAY), panel.key(f"chart_{second}")))
    return charts.show_side_by_side(*charts_with_keys)


def _curve(
    run: Run, trace: Trace, metric: Metric, *, axis: str, options: CurveOptions, overlay: str, every_band: bool
) -> Chart:
    """Return the chart of a metric, from the run's cache if it has been made before.

    axis : name of the horizontal axis: "steps", "spent", or one of `results.axes`. overlay : name of the thin lines
    among `options.overlays`, or NO_OVERLAY. every_band : true for a panel with the 10-90 % band of each method, false
    for one panel with the band of the best.
    """
    # The key has everything that the chart depends on, except the run: visible arms and metrics, and the controls.
    key = (*trace.arm_traces, *trace.metrics), metric.name, axis, overlay, every_band
    if key in run.charts:
        return run.charts[key]
    if len(run.charts) >= MAX_CHARTS:
        run.charts.clear()
    x_values, ceilings, title, axis_name = _horizontal_axis(run, trace, axis)
    overlays = options.overlays.get(overlay, {})
    make_figure = partial(
        run_figures.convergence,
        trace,
        metric.name,
        arm_styles(run.experiment.arms),
        positions=x_values,
        x_title=title,
        ceilings=ceilings,
        overlays=overlays,
        overlay_name=f"{overlay}{options.conditions.get(overlay, '')}",
    )
    figure = make_figure(bands="panels" if every_band else "best")
    remark = f" {options.remarks.get(overlay, '')}" if overlays else ""
    privacy = privacy_sentence(metric, trace, run.experiment)
    caption = f"{explain.spread_sentence(run.experiment.replicates)}{remark} {privacy}"
    alt = f"{metric.label} against {axis_name}, one line per method"
    read_from = provenance(trace.privacy_by_arm(metric).values())
    all_bands = partial(make_figure, bands="all")
    chart = Chart(figure, metric.label, alt, caption, provenance=read_from, to_download=all_bands)
    run.charts[key] = chart
    return chart


def _horizontal_axis(
    run: Run, trace: Trace, axis: str
) -> tuple[Mapping[str, np.ndarray] | None, Mapping[str, float], str, str]:
    """Return the horizontal axis: its values, their upper limits, its title, and its name in the text alternative.

    The values (t+1,) after each of t steps, and the limits, are by label of the method; None and {} for the axis of
    steps.
    """
    if axis == "steps":
        return None, {}, "", "steps"
    others = results.axes(trace, run.plans)
    if axis in others:
        return others[axis].curves, {}, others[axis].title, others[axis].title.lower()
    spent = {
        label: results.spent_curve(trace, label, plan, run.currency)
        for label, plan in run.plans.items()
        if label in trace.arm_traces and plan.private
    }
    ceilings = results.ceilings(run.plans, run.currency)
    return spent, ceilings, f"Privacy spent, {UNITS[run.currency].label}", "privacy spent"


def privacy_sentence(metric: Metric, trace: Trace, experiment: Experiment) -> str:
    """Return a sentence on which curves of a metric's chart may be published, and under which guarantee."""
    privacies = list(trace.privacy_by_arm(metric).values())
    if set(privacies) == {"not private"}:
        return explain.diagnostic_sentence(experiment.replicates, experiment.problem.public)
    return releases_sentence(privacies, experiment)


def releases_sentence(privacies: Sequence[Privacy], experiment: Experiment) -> str:
    """Return sentences on the privacy of a chart of releases, from the privacy of each method; a second one is on
    references without privacy."""
    private_count = sum(privacy != "not private" for privacy in privacies)
    released = explain.release_sentence(experiment, experiment.replicates, methods=private_count)
    return f"{released} {explain.REFERENCES}" if "not private" in privacies else released


def show_final_numbers(run: Run, trace: Trace, delta: float) -> None:
    """Draw the table of final numbers, with captions on what they mean and which of them read the raw data.

    trace : the part of the run's results that may be shown. delta : at which ε is read.
    """
    numbers = results.final_table(trace, run.plans, delta=delta)
    if numbers.empty:
        return
    columns = {name: column for name, column in results.columns(trace).items() if name in numbers}
    # The currency of an (ε, δ) budget names its δ, in four digits. Where this is `delta`, two columns are the same.
    if numbers["currency"].iloc[0] == f"ε at δ = {short_up(delta, 4)}":
        columns.pop("epsilon_at_delta", None)
    headings = {name: _heading(name, column, numbers, delta) for name, column in columns.items()}
    labels = dict(headings)
    if not run.experiment.public:  # a visitor may save the table, and then no badge is next to it
        numbers["algorithm"] = results.marked(numbers, trace)["algorithm"]  # names that end in " (not private)"
        labels |= {name: headings[name] + results.NOT_PRIVATE for name in columns if not columns[name].released}
    view = _readable(numbers[list(columns)]).rename(columns=labels)
    column_config = {}
    for name, column in columns.items():
        if labels[name] in view:
            is_number = pd.api.types.is_numeric_dtype(view[labels[name]])  # numbers are aligned otherwise than texts
            kind = st.column_config.NumberColumn if is_number else st.column_config.TextColumn
            column_config[labels[name]] = kind(help=column.help or None)
    raw_headings = []  # of columns that no guarantee covers; a band, of two columns, has no heading of its own
    for name, column in columns.items():
        is_band = name.endswith(("_low", "_high"))
        is_public_time = name == "seconds" and run.experiment.public  # else the time tells something about the rows
        if not column.released and not is_band and not is_public_time:
            raw_headings.append(headings[name])
    with explain.heading("Final numbers"):
        if raw_headings or run.experiment.condition:  # of the guarantees, such as facts read from the data
            explain.privacy_badge("not private" if raw_headings else run.experiment.privacy)
    show_table(
        view,
        style=explain.format_numbers,
        column_config=column_config,
        alt="Final numbers of each method: steps, loss, best step, accuracy, privacy spent, time",
    )
    if run.experiment.condition:
        private_count = sum(arm_trace.private for arm_trace in trace.arm_traces.values())
        st.caption(explain.release_sentence(run.experiment, run.experiment.replicates, methods=private_count))
    stopping = []
    unfinished = []
    for label, arm_trace in trace.arm_traces.items():
        endings = results.endings(arm_trace)  # counts of how the repeats ended, of a method that stops by itself
        if endings:
            stopping.append(f"{label}: {endings.describe()} ({endings.reasons()})")
        plan = run.plans[label]
        if arm_trace.private and not plan.stops and plan.iterations not in arm_trace.iterations:  # no last record
            unfinished.append(label)
    if stopping:
        st.caption(f"**Methods that stop by themselves.** {'; '.join(stopping)}. Their guarantee is the ceiling.")
    if unfinished:
        st.caption(texts.UNFINISHED.format(methods=", ".join(map(escape_name, unfinished))))
    notes = []
    if raw_headings:
        notes.append(f"**Not private**, because read off the raw data: {', '.join(raw_headings)}.")
    if any(not arm_trace.private for arm_trace in trace.arm_traces.values()):
        notes.append(explain.REFERENCES)
    if notes:  # without any, no caption: the captions of the charts also say that values are medians
        repeats = run.experiment.replicates
        st.caption(" ".join(["Of one run." if repeats == 1 else f"Medians of {repeats} runs.", *notes]))


def show_publishing_line(run: Run, trace: Trace, delta: float) -> None:
    """Draw a line on the privacy cost of publishing several of the results; nothing if there is only one.

    delta : at which ε is read.
    """
    experiment = run.experiment
    costs_of_publishing = results.costs(run.plans, trace.arm_traces, experiment.budget, experiment.replicates, delta)
    several = [cost for cost in costs_of_publishing if cost.methods * cost.repeats > 1]
    if several:
        costs = "; publishing ".join(results.cost_sentences(several, conditions=False))
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.caption(
                f"**What publishing costs.** Each method alone: {experiment.budget.describe()}. Publishing {costs}. "
                "Other runs on the same data add to this.",
                width="content",
            )
            if experiment.condition:
                explain.privacy_badge(experiment.privacy, escape_sentence(str(experiment.condition)))


def _readable(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return the table of final numbers as the screen shows it.

    Columns that say nothing new are dropped, upper bounds are rounded up, both ends of a 10-90 % band are joined in the
    column of its lower end, and numbers that are not finite become None.
    """
    view = numbers.drop(columns=["currency", "accountant"], errors="ignore")
    if "diverged" in view and not view["diverged"].any():
        view = view.drop(columns="diverged")
    for name in [name for name in view if name in results.UPPER]:
        view[name] = view[name].map(rounded_up)
    for low_name in [name for name in view if name.endswith("_low")]:
        high_name = low_name.removesuffix("_low") + "_high"
        ends = zip(view[low_name], view[high_name], strict=True)
        band = [f"{_signed(low)} - {_signed(high)}" for low, high in ends]
        view = view.drop(columns=high_name).assign(**{low_name: band})
    return view.map(lambda value: None if isinstance(value, float) and not np.isfinite(value) else value)


def _signed(x: float) -> str:
    """Format an end of a band with a minus sign, since a spreadsheet may take a text with a hyphen for a formula."""
    return short(x, 2).replace("-", "−")


def _heading(name: str, column: results.Column, numbers: pd.DataFrame, delta: float) -> str:
    """Return the heading of a column of the table of final numbers, short enough for the screen.

    A metric is headed by its label without its formula.

    name, column : name and description of the column. numbers : the table. delta : at which ε is read.
    """
    if name == "spent":
        return f"Spent {numbers['currency'].iloc[0]}"
    if name == "epsilon_at_delta":
        return f"ε at δ = {short_up(delta)}"
    if name.endswith("_low"):
        return "10-90 %"
    return re.sub(r" (F\(|‖)[^,]*", "", column.label)  # a formula begins like this, and ends at a comma
