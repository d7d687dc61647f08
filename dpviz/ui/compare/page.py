"""The page that compares pinned runs of any family: curves on common axes, final numbers, settings, and total cost.

Without pins it shows an example. A run of the comparison is called a side, in `dpviz.compare.comparison` as well.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pandas as pd
import streamlit as st

from dpviz.compare import comparison
from dpviz.compare.comparison import MAX_SIDES, PRIVACY, SHARE, Side
from dpviz.compare.pins import Pin, clean
from dpviz.experiments import changes
from dpviz.experiments.plan import weakest_privacy
from dpviz.experiments.results import CONFIDENCE, Cost
from dpviz.exports.spreadsheets import safe_cell
from dpviz.numbers import rounded_up, short, short_up
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.sweep_figures import compared
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.specification import Control
from dpviz.ui import charts, explain, families, glossary, links
from dpviz.ui.compare import CONVERTED, texts
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import pins, results
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.pins import PagePin
from dpviz.ui.experiment.run import Run, rerun_when_ended
from dpviz.ui.families import Entry
from dpviz.ui.markdown import escape_name, escape_sentence, show_table

PREFIX = "compare"  # of the keys of this page
SHARE_TITLE = "Share of the start"
EXAMPLE = "compare_example"  # prefix, like that of a page, under which the example's runs are kept as pins
DELTA = Control("delta", "ε is read at δ", "At which every ε here is read.", 1e-6, float, 1e-12, 0.1, scale="log")
BEST, EVERY = "best", "all"  # values of the choice of methods: of each run the best one, or all
SETTING = "Setting"  # title of the column of settings


@dataclass(frozen=True, eq=False)
class _PinnedRun:
    """A pin with the page that made it. name : its name on this page, which no other pin has."""

    pinned: PagePin
    entry: Entry
    page: FamilyPage
    name: str


def show() -> None:
    """Draw the page that compares pinned runs."""
    panel = Panel(PREFIX)
    pages = {entry: entry.page() for entry in families.FAMILIES}
    can_express_by_page = {
        page.prefix: page.can_express for page in pages.values()
    }  # a pin goes to a page that can express it
    if panel.key("arrived") not in st.session_state:
        st.session_state[panel.key("arrived")] = True
        pins.import_pins(pins.link_readers(MAX_SIDES), can_express_by_page, PREFIX)  # those of the address
    st.title("Compare", anchor=False)
    st.markdown(texts.QUESTION)
    with st.container(key=panel.key("tools"), horizontal=True):
        glossary.mark_terms(panel.key("words"))
    all_pins = [(pinned, entry, page) for entry, page in pages.items() for pinned in pins.on_page(page.prefix)]
    names = _distinct_names([pinned.pin.name for pinned, _, _ in all_pins])
    pinned_runs = [
        _PinnedRun(pinned, entry, page, name) for (pinned, entry, page), name in zip(all_pins, names, strict=True)
    ]
    pins.write_address(panel, [run.pinned for run in pinned_runs[:MAX_SIDES]])  # as many as can be compared
    pins.show_refusals(PREFIX)
    if pinned_runs:
        selected = _select(panel, pinned_runs)
        _list(pinned_runs)
    else:
        selected = _example(pages)
    sides = [side for side in map(_side, selected) if side is not None]
    if sides:
        _compare(panel, sides)
    if not pinned_runs:
        st.caption(f":material/keep: {texts.EMPTY}")
    with st.container(horizontal=True, vertical_alignment="center"):
        if pinned_runs:
            links.show(panel)
        else:
            for entry in families.FAMILIES:
                st.page_link(entry.address, label=entry.title, icon=entry.icon)
        pins.show_files(PREFIX, [run.pinned for run in pinned_runs], can_express_by_page)


def _example(pages: Mapping[Entry, FamilyPage]) -> Sequence[_PinnedRun]:
    """Return the first presets of the first two families as pinned runs, and compute them if that is not done yet."""
    panel, two_pages = Panel(EXAMPLE), list(pages.items())[:2]
    if not pins.on_page(EXAMPLE):
        first_presets = [Pin(clean(entry.title), page.presets[0].experiment) for entry, page in two_pages]
        pins.set_pins(EXAMPLE, [PagePin(pin, key=f"preset_{number}") for number, pin in enumerate(first_presets)])
    pinned_runs = []
    under_way: list[Run] = []
    for pinned, (entry, page) in zip(pins.on_page(EXAMPLE), two_pages, strict=True):
        pinned_runs.append(_PinnedRun(pinned, entry, page, pinned.pin.name))
        if pinned.summary is None:
            under_way += pins.compute_lines(panel, "Example", pinned, make_chart=page.picture, make_ready=page.ready)
    rerun_when_ended("compare_example_poll", under_way)
    return pinned_runs


def _distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names, with a number after those that occur more than once, so that all differ.

    They also differ as titles of the columns of a table, next to the column SETTING; `safe_cell` returns such a title,
    which is another text for a name that a spreadsheet would run as a formula.
    """
    result, title_counts = list(names), Counter(map(safe_cell, (SETTING, *names)))
    for index, name in enumerate(names):
        if title_counts[safe_cell(name)] > 1:
            numbered = (f"{name} {number}" for number in itertools.count(index + 1))  # its position, or more
            result[index] = next(candidate for candidate in numbered if safe_cell(candidate) not in title_counts)
            title_counts[safe_cell(result[index])] = 1  # used from now on
    return result


def _select(panel: Panel, pinned_runs: Sequence[_PinnedRun]) -> Sequence[_PinnedRun]:
    """Draw the choice of the runs to compare; return the chosen ones, at most MAX_SIDES. One run needs no choice."""
    names = {run.pinned.key: escape_name(run.name) for run in pinned_runs}
    if len(pinned_runs) <= 1:
        return pinned_runs
    selected = st.pills(
        "Runs",
        list(names),
        selection_mode="multi",
        default=list(names)[:MAX_SIDES],
        format_func=lambda key: names.get(key, ""),
        key=panel.key(f"runs_{len(names)}"),  # one run more or less makes a new control, with its default
        help=f"Up to {MAX_SIDES} at once.",
    )
    if not selected:
        st.info("Choose at least one run.", icon=":material/keep:")
    return [run for run in pinned_runs if run.pinned.key in selected][:MAX_SIDES]


def _list(pinned_runs: Sequence[_PinnedRun]) -> None:
    """Draw a row for every pin, with a button that opens its page at its settings, if the page has controls for them.

    The results of pins that have none are computed.
    """
    under_way: list[Run] = []
    for pinned_run in pinned_runs:
        pinned, entry, page = pinned_run.pinned, pinned_run.entry, pinned_run.page
        experiment = pinned.pin.experiment
        private_count = sum(not arm.reference for arm in experiment.arms)
        about = f"{private_count} method{'s' if private_count != 1 else ''} at {experiment.guarantee}"
        row = pins.show_row(page.prefix, pinned, pinned_run.name, f"{entry.title}: {escape_name(about)}.")
        if row.button(f"Open {escape_name(pinned_run.name)}", key=f"compare_open_{pinned.key}", type="tertiary"):
            try:
                page.settings(experiment)  # only for its error
            except ValueError:
                st.info(texts.NO_CONTROLS)
            else:
                preset_menu.set_pending(page.prefix, experiment)
                st.switch_page(entry.address, query_params={})
        if pinned.summary is None:
            under_way += pins.compute_lines(Panel(page.prefix), entry.title, pinned, page.picture, page.ready)
    rerun_when_ended("compare_poll", under_way)


def _side(pinned_run: _PinnedRun) -> Side | None:
    """Return a run with the part of its results that may be shown; None while it is computed, or if none may be."""
    page, pinned = pinned_run.page, pinned_run.pinned
    if pinned.summary is None:
        return None
    experiment = pinned.pin.experiment
    summary = pinned.summary.visible(results.diagnostics_shown(Panel(page.prefix), experiment))
    return Side(pinned_run.name, experiment, page.view(experiment).plans, summary) if summary.metrics else None


# ---------------------------------------------------------------------------------------------------------- the picture


def _compare(panel: Panel, sides: Sequence[Side]) -> None:
    """Draw the controls of the comparison, its chart, and the sections with its tables."""
    panel.hidden_heading("Side by side")
    labels = {SHARE: SHARE_TITLE, **comparison.metrics(sides)}
    with st.container(key=panel.key("leads"), horizontal=True, gap="medium", vertical_alignment="bottom"):
        help = "Of each run its most telling number, divided by where it started: so runs of different kinds meet."
        metric = panel.choice("metric", "What is shown", labels, SHARE, help)
        axes = comparison.axes(sides)
        default_axis, *_ = axes
        axis = panel.choice("axis", "Along", axes, default_axis, "What every run has, or what it has cost.")
        options = {BEST: "Best", EVERY: "All"}
        help = "Best: of each run the one with privacy that ends best. All: also those without privacy."
        all_methods = panel.choice("methods", "Methods", options, BEST, help) == EVERY
        delta = panel.number(DELTA, "delta", slider=False)
    if panel.mistakes or delta is None:
        return
    currency = None  # ε at `delta`
    if axis == PRIVACY:
        common = comparison.currencies(sides)  # those in which every run has a finite cost
        units = {name: UNITS[name].label for name in common} | {"at_delta": f"ε at δ = {short_up(delta)}"}
        default_unit, *_ = units
        help = "A currency that all of these methods have."
        unit = panel.choice("currency", "Privacy is counted in", units, default_unit, help)
        currency = next((name for name in common if name == unit), None)  # None if the unit is "at_delta"
    title = labels[metric]
    _show_chart(
        panel, sides, metric=metric, title=title, axis=axis, all_methods=all_methods, currency=currency, delta=delta
    )
    sections: dict[str, Callable[[], None]] = {
        "Final numbers": partial(_show_ends, sides, metric, all_methods, delta),
        "What is set differently": partial(_show_settings, sides),
        "What they cost together": partial(_show_total, panel, sides, delta),
    }
    panel.sections(sections)


def _show_best(sides: Sequence[Side], metric: str) -> None:
    """Draw the best final value of the metric with the run that has it, and the final values of the other runs."""
    ranking = comparison.ranking(sides, metric)
    if ranking is None:
        return
    (best_side, method, best), *others = ranking.ends
    has_other_problem = any(side.experiment.problem != best_side.experiment.problem for side in sides)
    problems = ", of different problems" if has_other_problem else ""
    label = f"{'Highest' if ranking.higher else 'Lowest'} in the end{problems}"
    help = "Median over the repeats of the best method with privacy of each run, at its last step."
    st.metric(label, short(best), help=help, width="content")
    listed = "; ".join(f"{_with_guarantee(side)} {short(end)}" for side, _, end in others)
    rest = f" Then {listed}." if listed else ""
    # Leaves room for the badge.
    st.markdown(f"**{_with_guarantee(best_side)}**, by {escape_name(method)}.{rest}", width=480)


def _with_guarantee(side: Side) -> str:
    """Return the name of a run with its guarantee, since runs with different guarantees are not comparable without."""
    return f"{escape_name(side.name)} ({escape_name(side.experiment.guarantee)})"


def _show_chart(
    panel: Panel,
    sides: Sequence[Side],
    *,
    metric: str,
    title: str,
    axis: str,
    all_methods: bool,
    currency: Currency | None,
    delta: float,
) -> None:
    """Draw the curves of all runs in one chart, and the best final value above it.

    metric, title : name and label of the vertical axis. axis : name of the horizontal one. all_methods : false to draw
    only the best method of each run. currency : in which the axis of privacy counts; None for ε at `delta`.
    """
    curves = comparison.curves(sides, metric, axis, all_methods=all_methods, currency=currency, delta=delta)
    along, unit_sentence = comparison.axes(sides)[axis], ""
    if axis == PRIVACY:  # the title of the axis has the currency, and the caption says what is counted in it
        along = f"{along}, {UNITS[currency].label if currency else f'ε at δ = {short_up(delta)}'}"
        unit_sentence = f" {CONVERTED[currency or 'at_delta']}"
    missing = []  # names of the runs without any curve, and of the methods of other runs that have none
    for side in sides:
        methods = {curve.method for curve in curves if curve.side == side.name}
        labels = [label for label in comparison.methods(side, metric, all_methods=all_methods) if label not in methods]
        missing += [f"{side.name}: {label}" for label in labels] if methods else [side.name]
    names = "; ".join(map(escape_name, missing))
    left_out = f" Not drawn, as they lack such an axis or number: {names}." if missing else ""
    figure = compared(curves, along, title, log_y=metric == SHARE or comparison.logarithmic(sides, metric))
    privacies = {curve.privacy for curve in curves}
    conditions = {side.name: side.experiment.condition for side in sides if side.experiment.condition}
    rests_on = "; ".join(f"{name}{condition}" for name, condition in conditions.items())  # "Pin 1 if nobody learns …"
    weakest = weakest_privacy(side.experiment.privacy for side in sides)
    privacy = ""  # without curves
    if privacies == {"not private"}:
        public = all(side.experiment.problem.public for side in sides)
        reads = "it reads the raw data, which are public here" if public else "some of it reads your raw data"
        privacy = f"**Not private**: {reads}."
    elif privacies:
        privacy = "Private, each repeat of each method at its own budget."
        if rests_on:
            privacy = f"{explain.only_if(weakest)}: {escape_name(rests_on)}."
        _, run_count = comparison.count_private(sides)
        if run_count > 1:
            privacy += " Publishing all of them would compose."
        if "not private" in privacies:
            privacy += " Some curves are **not private**: they read the raw data."
    chart = Chart(
        figure,
        title,
        f"{title} along {along}, one line for each method of each run",
        f"Medians over the repeats.{unit_sentence}{left_out} {privacy}",
        provenance(privacies) if privacies else "settings",  # without curves there is no value
    )
    key = panel.key("chart")
    with st.container(key=panel.key("number"), horizontal=True, vertical_alignment="center"):
        _show_best(sides, metric)
        charts.badge_and_csv(chart, key)
    charts.show_captioned(chart, key)


# ----------------------------------------------------------------------------------------------------------- the tables


def _show_ends(sides: Sequence[Side], metric: str, all_methods: bool, delta: float) -> None:
    """Draw the table of final numbers of all methods, with ε of each at the common `delta`."""
    numbers = comparison.ends(sides, metric, all_methods=all_methods)
    if numbers.empty:
        return
    weakest = weakest_privacy(numbers["status"])
    if weakest != "private":
        explain.privacy_badge(weakest)
    readings = {side.name: _readings(side.experiment.to_json(), delta, side) for side in sides}
    # None for a method without privacy, which has no reading.
    epsilons = [readings[run].get(method) for run, method in zip(numbers["run"], numbers["method"], strict=True)]
    has_guess = numbers["guess"].notna().any()
    columns = {
        "Run": numbers["run"],
        "Method": numbers["method"],
        "Number": numbers["what"],
        "Median": numbers["median"],
        **({"Constant guess": numbers["guess"]} if has_guess else {}),
        f"Median, {100 * CONFIDENCE:.0f} %": [_range(*interval) for interval in numbers["interval"]],
        "10-90 %": [_range(*band) for band in zip(numbers["low"], numbers["high"], strict=True)],
        SHARE_TITLE: numbers["share"],
        "Steps": numbers["steps"],
        "Repeats": numbers["repeats"],
        "Guarantee": numbers["budget"],
        f"ε at δ = {short_up(delta)}": epsilons,
    }
    alt = "Final numbers of every method of every run"
    show_table(pd.DataFrame(columns), alt, style=explain.format_numbers)
    st.caption(texts.ENDS.format(confidence=100 * CONFIDENCE) + (f" {texts.GUESS}" if has_guess else ""))


def _range(low: float, high: float) -> str | None:
    """Return a text with both ends of an interval, such as "0.1 to 0.3"; None if they are unknown (NaN)."""
    if math.isnan(low):
        return None
    # With minus signs, since a spreadsheet may take a text with a hyphen for a formula.
    return " to ".join(short(end).replace("-", "−") for end in (low, high))


def _show_settings(sides: Sequence[Side]) -> None:
    """Draw the table of the settings in which the runs differ."""
    rows = changes.table([side.experiment for side in sides])
    if not rows:
        st.caption("Nothing: these are the same settings.")
        return
    names = [side.name for side in sides]
    table = pd.DataFrame([(label, *row) for label, row in rows.items()], columns=[SETTING, *names])
    show_table(table, "Settings in which the runs differ, one column for each run")
    st.caption(texts.LEFT_OUT)


def _show_total(panel: Panel, sides: Sequence[Side], delta: float) -> None:
    """Draw the privacy cost of publishing all runs; all of them count, because to pick the best needs the others."""
    methods, runs = comparison.count_private(sides)
    if not methods:
        return
    # If only one run has private methods, its settings cannot depend on another release that is listed.
    private_sides = [side for side in sides if any(plan.private for plan in side.plans.values())]
    is_single = len(private_sides) < 2
    is_fixed = is_single or panel.switch("fixed", texts.FIXED, default=False, help=texts.FIXED_HELP)
    one_repeat, all_repeats = _costs(tuple(side.experiment.to_json() for side in sides), delta, is_fixed, sides)
    each = f" of each of {methods} methods" if methods > 1 else ""
    costs = [f"one run{each}: {one_repeat.describe()}"]
    if runs > methods:
        costs.append(f"all {runs:,} runs: {all_repeats.describe()}")
    units = dict.fromkeys(side.experiment.problem.unit for side in sides)
    published = escape_sentence("; publishing ".join(costs))
    several = texts.COUNTED_FIXED if is_fixed else texts.COUNTED_ONE_BY_ONE
    counted = texts.UNLISTED if is_single else several
    st.markdown(f"Publishing {published}. {counted} {texts.AS_IF} Protected: {'; '.join(units)}.")


@st.cache_data(max_entries=64, scope="session", show_spinner=False)
def _readings(text: str, delta: float, _side: Side) -> dict[str, float]:  # noqa: ARG001 (`text` is in the key of the cache; Streamlit leaves out `_side`)
    """Return ε at `delta` of each method of a run, by label, rounded up. text : JSON text of the run's experiment."""
    return {label: rounded_up(epsilon) for label, epsilon in comparison.readings(_side, delta).items()}


@st.cache_data(max_entries=16, scope="session", show_spinner=False)
def _costs(texts: tuple[str, ...], delta: float, is_fixed: bool, _sides: Sequence[Side]) -> tuple[Cost, Cost]:  # noqa: ARG001 (`texts` is in the key of the cache; Streamlit leaves out `_sides`)
    """Return the cost of publishing one repeat of each method, and that of all repeats, with ε at `delta`.

    texts : JSON texts of the experiments. is_fixed : true if all settings were chosen before any of these runs.
    """
    one_repeat = comparison.joint_cost(_sides, delta, repeats=False, fixed=is_fixed)
    all_repeats = comparison.joint_cost(_sides, delta, repeats=True, fixed=is_fixed)
    assert one_repeat is not None and all_repeats is not None  # as there are private methods
    return one_repeat, all_repeats
