"""Pinned runs of any page side by side: curves on common axes, final numbers, settings, and what they cost together."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count

import pandas as pd
import streamlit as st

from dpviz.compare import comparison
from dpviz.compare.comparison import MOST, PRIVACY, SHARE, Curve, Side
from dpviz.compare.pins import Pin, clean
from dpviz.experiments import changes
from dpviz.experiments.plan import worst
from dpviz.experiments.results import CONFIDENCE, Cost
from dpviz.exports.spreadsheets import as_text
from dpviz.numbers import rounded_up, short, short_up
from dpviz.plots.elements.chart import Chart, provenance
from dpviz.plots.sweep_figures import compared
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.specification import Control
from dpviz.ui import charts, explain, families, glossary, links
from dpviz.ui.compare import texts
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import pins, results
from dpviz.ui.experiment import presets as preset_menu
from dpviz.ui.experiment.page import FamilyPage
from dpviz.ui.experiment.pins import Pinned
from dpviz.ui.experiment.run import Run, until_ended
from dpviz.ui.families import Entry
from dpviz.ui.markdown import plain, sentence, show_table

PREFIX = "compare"
SHARE_TITLE = "Share of the start that is left"
EXAMPLE = "compare_example"  # in place of a page's prefix: the example's runs are pins of no page
DELTA = Control("delta", "ε is read at δ", "At which every ε here is read.", 1e-6, float, 1e-12, 0.1, scale="log")
BEST, EVERY = "best", "all"
SETTING = "Setting"  # title of the column of settings


@dataclass(frozen=True, eq=False)
class _PinnedRun:
    """A pin, its page, and its name on this page: the pin's own, unless another pin has the same."""

    pinned: Pinned
    entry: Entry
    page: FamilyPage
    name: str


def show() -> None:
    """Draw the page."""
    panel = Panel(PREFIX)
    pages = {entry: entry.page() for entry in families.FAMILIES}
    known_settings = {page.prefix: page.knows for page in pages.values()}
    if panel.key("arrived") not in st.session_state:
        st.session_state[panel.key("arrived")] = True
        pins.take(pins.linked(MOST), known_settings, PREFIX)
    st.title("Compare", anchor=False)
    st.markdown(texts.QUESTION)
    with st.container(key=panel.key("tools"), horizontal=True):
        glossary.words(panel.key("words"))
    pinned_runs = _pinned_runs(pages)
    pins.address(panel, [one.pinned for one in pinned_runs[:MOST]])
    pins.refusals(PREFIX)
    if pinned_runs:
        selected = _select(panel, pinned_runs)
        _list(pinned_runs)
    else:
        selected = _example(pages)
    sides = [side for one in selected if (side := _side(one)) is not None]
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
        pins.files(PREFIX, [one.pinned for one in pinned_runs], known_settings)


def _pinned_runs(pages: Mapping[Entry, FamilyPage]) -> list[_PinnedRun]:
    """Return all pins, in the order of the pages."""
    all_pins = [(pinned, entry, page) for entry, page in pages.items() for pinned in pins.of(page.prefix)]
    names = _distinct([pinned.pin.name for pinned, _, _ in all_pins])
    return [_PinnedRun(*one, name) for one, name in zip(all_pins, names, strict=True)]


def _example(pages: Mapping[Entry, FamilyPage]) -> Sequence[_PinnedRun]:
    """Run the first presets of the first two families; return them as pinned runs."""
    panel, two_pages = Panel(EXAMPLE), list(pages.items())[:2]
    if not pins.of(EXAMPLE):
        first = [Pin(clean(entry.title), page.presets[0].experiment) for entry, page in two_pages]
        pins.keep(EXAMPLE, [Pinned(pin, key=f"preset_{number}") for number, pin in enumerate(first)])
    runs = [
        _PinnedRun(pinned, entry, page, pinned.pin.name)
        for pinned, (entry, page) in zip(pins.of(EXAMPLE), two_pages, strict=True)
    ]
    missing = [one for one in runs if one.pinned.summary is None]
    computing = (pins.computed(panel, "Example", one.pinned, one.page.picture, one.page.ready) for one in missing)
    until_ended("compare_example_look", list(chain(*computing)))
    return runs


def _distinct(names: Sequence[str]) -> list[str]:
    """Return the names, with a number where several are alike, also as the titles of a table's columns."""
    titles, distinct = Counter(map(as_text, (SETTING, *names))), list(names)
    for index, name in enumerate(names):
        if titles[as_text(name)] > 1:
            numbered = (f"{name} {number}" for number in count(index + 1))
            distinct[index] = next(candidate for candidate in numbered if as_text(candidate) not in titles)
            titles[as_text(distinct[index])] = 1
    return distinct


def _select(panel: Panel, pinned_runs: Sequence[_PinnedRun]) -> Sequence[_PinnedRun]:
    """Ask which runs are compared, at most MOST; return them."""
    names = {one.pinned.key: plain(one.name) for one in pinned_runs}
    if len(pinned_runs) <= 1:
        return pinned_runs
    selected = st.pills(
        "Runs",
        list(names),
        selection_mode="multi",
        default=list(names)[:MOST],
        format_func=lambda key: names.get(key, ""),
        key=panel.key(f"runs_{len(names)}"),
        help=f"Up to {MOST} at once.",
    )
    if not selected:
        st.info("Choose at least one run.", icon=":material/keep:")
    return [one for one in pinned_runs if one.pinned.key in selected][:MOST]


def _list(pinned_runs: Sequence[_PinnedRun]) -> None:
    """Draw a row for every pin with its page; compute the curves of pins that came without any."""
    under_way: list[Run] = []
    for one in pinned_runs:
        page = one.page
        row = pins.row(page.prefix, one.pinned, one.name, f"{one.entry.title}: {plain(_about(one))}.")
        if row.button(f"Open {plain(one.name)}", key=f"compare_open_{one.pinned.key}", type="tertiary"):
            _open(one)
        if one.pinned.summary is None:
            under_way += pins.computed(Panel(page.prefix), one.entry.title, one.pinned, page.picture, page.ready)
    until_ended("compare_look", under_way)


def _about(one: _PinnedRun) -> str:
    """Return a run in a few words."""
    experiment = one.pinned.pin.experiment
    methods = sum(not arm.reference for arm in experiment.arms)
    return f"{methods} method{'s' if methods != 1 else ''} at {experiment.guarantee}"


def _open(one: _PinnedRun) -> None:
    """Go to the page of a pin, with its settings, if the page has controls for all of them."""
    try:
        one.page.settings(one.pinned.pin.experiment)
    except ValueError:
        st.info(texts.NO_CONTROLS)
        return
    preset_menu.open_with(one.page.prefix, one.pinned.pin.experiment)
    st.switch_page(one.entry.address, query_params={})


def _side(one: _PinnedRun) -> Side | None:
    """Return what may be shown of a pin; None while it is computed, or if nothing may be."""
    pinned = one.pinned
    if pinned.summary is None:
        return None
    summary = pinned.summary.visible(results.diagnostics_shown(Panel(one.page.prefix), pinned.pin.experiment))
    plans = one.page.view(pinned.pin.experiment).plans
    return Side(one.name, pinned.pin.experiment, plans, summary) if summary.metrics else None


# ---------------------------------------------------------------------------------------------------------- the picture


def _compare(panel: Panel, sides: Sequence[Side]) -> None:
    panel.heard("Side by side")
    labels = {SHARE: SHARE_TITLE, **comparison.metrics(sides)}
    with st.container(key=panel.key("leads"), horizontal=True, gap="medium", vertical_alignment="bottom"):
        metric = panel.choice("metric", "What is shown", labels, SHARE, texts.WHAT_SHARE)
        axes = comparison.axes(sides)
        axis = panel.choice("axis", "Along", axes, next(iter(axes)), texts.ALONG_HELP)
        options = {BEST: "Best", EVERY: "All"}
        all_methods = panel.choice("methods", "Methods", options, BEST, texts.METHODS_HELP) == EVERY
        delta = panel.number(DELTA, "delta", slider=False)
    if panel.mistakes or delta is None:
        return
    currency = _currency(panel, sides, delta) if axis == PRIVACY else None
    title = labels[metric]
    _show_chart(
        panel, sides, metric=metric, title=title, axis=axis, all_methods=all_methods, currency=currency, delta=delta
    )
    parts: dict[str, Callable[[], None]] = {
        "Final numbers": partial(_show_ends, sides, metric, all_methods, delta),
        "What is set differently": partial(_show_settings, sides),
        "What they cost together": partial(_show_total, panel, sides, delta),
    }
    panel.sections(parts)


def _show_best(sides: Sequence[Side], metric: str) -> None:
    """Show which run ends best, and where the others end."""
    ranking = comparison.ranking(sides, metric)
    if ranking is None:
        return
    (side, method, best), *others = ranking.ends
    then = "; ".join(f"{_with_guarantee(side)} {short(end)}" for side, _, end in others)
    st.metric(
        f"{'Highest' if ranking.higher else 'Lowest'} in the end", short(best), help=texts.BEST_HELP, width="content"
    )
    text = f"**{_with_guarantee(side)}**, by {plain(method)}.{f' Then {then}.' if then else ''}"
    st.markdown(text, width="stretch")


def _with_guarantee(side: Side) -> str:
    """Return the name of a run with its guarantee: runs under different guarantees are not like for like."""
    return f"{plain(side.name)} ({plain(side.experiment.guarantee)})"


def _currency(panel: Panel, sides: Sequence[Side], delta: float) -> Currency | None:
    """Ask for the currency, among those of all runs, that counts the privacy used; None for ε at δ."""
    common = comparison.currencies(sides)
    options: dict[str, str] = {currency: UNITS[currency].label for currency in common}
    options |= {"at_delta": f"ε at δ = {short(delta)}"}
    selected = panel.choice("currency", "Privacy is counted in", options, next(iter(options)), texts.CURRENCY_HELP)
    return next((currency for currency in common if currency == selected), None)


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
    curves = comparison.curves(sides, metric, axis, all_methods, currency, delta)
    along, converted = comparison.axes(sides)[axis], ""
    if axis == PRIVACY:
        along = f"{along}, {UNITS[currency].label if currency else f'ε at δ = {short(delta)}'}"
        converted = f" {texts.CONVERTED[currency or 'at_delta']}"
    missing = "; ".join(map(plain, _missing(sides, metric, all_methods, curves)))
    left_out = f" Not drawn, as they lack such an axis or number: {missing}." if missing else ""
    figure = compared(curves, along, title, metric == SHARE or comparison.logarithmic(sides, metric))
    statuses = {curve.status for curve in curves}
    rests_on = plain(_rests_on(sides))
    status = worst(side.experiment.privacy for side in sides)
    privacy = f"{explain.only_if(status)}: {rests_on}." if rests_on else "Private, each run at its own budget."
    if "not private" in statuses:
        public = all(side.experiment.problem.public for side in sides)
        reads = "it reads the raw data, which are public here" if public else "some of it reads your raw data"
        privacy = f"{privacy} {explain.REFERENCES}" if len(statuses) > 1 else f"**Not private**: {reads}."
    chart = Chart(
        figure,
        title,
        f"{title} along {along}, one line for each method of each run",
        f"Medians over the repeats.{converted}{left_out} {privacy}",
        provenance(statuses),
    )
    key = panel.key("chart")
    with st.container(key=panel.key("number"), horizontal=True, vertical_alignment="center"):
        _show_best(sides, metric)
        charts.beside_heading(chart, key)
    charts.picture(chart, key)


def _rests_on(sides: Sequence[Side]) -> str:
    """Return the conditions that the guarantees of these runs rest on, run by run."""
    conditions = [(side.name, side.experiment.condition) for side in sides]
    return "; ".join(f"{name}{condition}" for name, condition in conditions if condition)


def _missing(sides: Sequence[Side], metric: str, all_methods: bool, curves: Sequence[Curve]) -> list[str]:
    """Return the runs without a curve, and the methods without one of the other runs."""
    missing = []
    for side in sides:
        methods = {curve.method for curve in curves if curve.side == side.name}
        labels = [label for label in comparison.methods(side, metric, all_methods) if label not in methods]
        missing += [f"{side.name}: {label}" for label in labels] if methods else [side.name]
    return missing


# ----------------------------------------------------------------------------------------------------------- the tables


def _show_ends(sides: Sequence[Side], metric: str, all_methods: bool, delta: float) -> None:
    """Draw the table of final numbers, with what the guarantee of each run says at a common δ."""
    numbers = comparison.ends(sides, metric, all_methods)
    if numbers.empty:
        return
    if (status := worst(numbers["status"])) != "private":
        explain.privacy_badge(status)
    readings = {side.name: _readings(side.experiment.to_json(), delta, side) for side in sides}
    has_guess = numbers["guess"].notna().any()
    columns = {
        "Run": numbers["run"],
        "Method": numbers["method"],
        "Number": numbers["what"],
        "Median": numbers["median"],
        **({"Constant guess": numbers["guess"]} if has_guess else {}),
        f"Median, {100 * CONFIDENCE:.0f} %": [_range(*interval) for interval in numbers["interval"]],
        "10-90 %": [_range(*ends) for ends in zip(numbers["low"], numbers["high"], strict=True)],
        "Share of the start": numbers["share"],
        "Steps": numbers["steps"],
        "Repeats": numbers["repeats"],
        "Guarantee": numbers["budget"],
        f"ε at δ = {short_up(delta)}": [
            readings[run].get(method) for run, method in zip(numbers["run"], numbers["method"], strict=True)
        ],
    }
    alt = "Final numbers of every method of every run"
    show_table(pd.DataFrame(columns), alt, placeholder="–", style=explain.readable)
    st.caption(texts.ENDS.format(confidence=100 * CONFIDENCE) + (f" {texts.GUESS}" if has_guess else ""))


def _range(low: float, high: float) -> str | None:
    """Return two ends in words; None for unknown ones (NaN)."""
    return None if math.isnan(low) else " to ".join(short(end).replace("-", "−") for end in (low, high))


def _show_settings(sides: Sequence[Side]) -> None:
    rows = changes.table([side.experiment for side in sides])
    if not rows:
        st.caption("Nothing: these are the same settings.")
        return
    names = [side.name for side in sides]
    table = pd.DataFrame([(label, *row) for label, row in rows.items()], columns=[SETTING, *names])
    show_table(table, "Settings in which the runs differ, one column for each run")
    st.caption(texts.LEFT_OUT)


def _show_total(panel: Panel, sides: Sequence[Side], delta: float) -> None:
    """Show what publishing all runs costs; all, because to pick the best one needs to see the others."""
    methods, runs = comparison.publishable(sides)
    if not methods:
        return
    is_fixed = len(sides) < 2 or panel.switch("fixed", texts.FIXED, False, texts.FIXED_HELP)
    totals = _costs(tuple(side.experiment.to_json() for side in sides), delta, is_fixed, sides)
    costs = [f"one run of each of {methods} methods: {totals[0].describe()}"]
    costs += [f"all {runs:,} runs: {totals[1].describe()}"] if runs > methods else []
    units = dict.fromkeys(side.experiment.problem.unit for side in sides)
    published = sentence("; publishing ".join(costs))
    counted = texts.COUNTED_FIXED if is_fixed else texts.COUNTED_ONE_BY_ONE
    st.markdown(f"Publishing {published}. {counted} {texts.AS_IF} Protected: {'; '.join(units)}.")


@st.cache_data(max_entries=64, scope="session", show_spinner=False)
def _readings(text: str, delta: float, _side: Side) -> dict[str, float]:  # noqa: ARG001 (`text` is the key of the cache)
    return {label: rounded_up(epsilon) for label, epsilon in comparison.readings(_side, delta).items()}


@st.cache_data(max_entries=16, scope="session", show_spinner=False)
def _costs(texts: tuple[str, ...], delta: float, is_fixed: bool, _sides: Sequence[Side]) -> tuple[Cost, Cost]:  # noqa: ARG001 (`texts` is the key of the cache)
    one, all_repeats = (comparison.together(_sides, delta, repeats, is_fixed) for repeats in (False, True))
    assert one is not None and all_repeats is not None
    return one, all_repeats
