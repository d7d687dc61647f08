"""Sections of the budget planner: the split of a budget among analyses, and what-ifs about noisy means.

Each is computed only while it is open.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dpviz.datasets.uploads.limits import MAX_ROWS_IN_BLOCKS
from dpviz.errors import UserError
from dpviz.exports import dpsgd
from dpviz.numbers import short, short_down, short_up
from dpviz.plots import planner_figures
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.events import described
from dpviz.privacy.statistics import allocation, noisy_means, search
from dpviz.privacy.statistics.allocation import MECHANISMS, Analysis, Share
from dpviz.privacy.statistics.noisy_means import SAVINGS, STEPS_LIMIT, NoisyMeans, protected_change
from dpviz.specification import Control
from dpviz.ui import explain
from dpviz.ui.budget_planner import texts
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.budget_planner.analyses import TABLES, NamesOnlyFile, columns_of
from dpviz.ui.budget_planner.editing import MAX_ROWS, EditedTable
from dpviz.ui.budget_planner.view import Releases
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Charts
from dpviz.ui.glossary import TERMS
from dpviz.ui.markdown import column_configs, show_table
from dpviz.ui.uploads.file import File, choose_file, fill_button

# Columns of the table of analyses that share a budget, in their order.
COLUMNS = ("analysis", "mechanism", "weight", "sensitivity", "rows", "own guarantee", "amount", "δ")
NAME, MECHANISM, WEIGHT, SENSITIVITY, ROWS, CURRENCY, AMOUNT, DELTA = COLUMNS
SHARE = "share of the total"  # option of the column CURRENCY: the analysis has no guarantee of its own
DEFAULT: tuple[tuple[Any, ...], ...] = (
    ("Training", "Laplace", 4.0, 1.0, "", SHARE, None, None),
    ("Summary table", "Laplace", 1.0, 1.0, "", SHARE, None, None),
    ("Survey by a partner", MECHANISMS["any"], 1.0, 1.0, "", "Pure ε", 0.2, None),
)
PEOPLE: tuple[tuple[Any, ...], ...] = (("Once", 1.0, 70.0), ("Now and then", 4.0, 25.0), ("Often", 30.0, 5.0))
FROM_DATA = "From the data"  # begins the name of people who were counted in a file; a copy of the row has more
RULES = {"optimal": "Least noise", "proportional": "Like the weights"}


def split(panel: Panel, means: NoisyMeans, budget: Budget, delta: float) -> tuple[Charts, Releases | None]:
    """Draw the table of analyses, the share of the budget that each gets, and the cost of all together.

    Returns the chart of the shares, and the releases; None without analyses.
    """
    st.markdown(texts.SPLIT)
    table = _table(panel).rows(is_open=True)
    help = "Least noise minimises the sum of weight × variance over all analyses."
    rule = panel.choice("rule", "Shares", RULES, "optimal", help)
    analyses = [_analysis(row) for row in table]
    if not analyses:
        st.info("Add an analysis to the table.")
        return [], None
    shares = allocation.split(budget, analyses, rule)  # type: ignore[arg-type]
    show_table(
        pd.DataFrame(
            {
                "Analysis": [share.analysis.name for share in shares],
                "Share": [share.fraction for share in shares],
                "Noise scale": [share.noise_scale for share in shares],
                "Costs": [described(share.event) for share in shares],
            }
        ),
        column_config=column_configs(TABLES["shares"]),
        placeholder="—",
        alt="Share of the budget, noise scale and cost of every analysis",
    )
    total = allocation.joint_guarantee(shares, delta)
    st.markdown(f"**All together** ({budget.describe()} was given):")
    planner_view.show_cost(total)
    if all(share.fraction is None for share in shares) and budget.spent(total.events) > budget.limit * (1 + 1e-9):
        st.warning(f"It is not proven that these guarantees together meet {budget.describe()}.")
    percents = planner_view.by_name(
        (share.analysis.name, None if share.fraction is None else 100 * share.fraction) for share in shares
    )
    figures: Charts = []
    if percents:
        figure = planner_figures.bars(percents, "Share [%]", unit=" %")
        figures = planner_view.chart(
            "split",
            figure,
            "Shares of the budget",
            "Share of the budget of every analysis",
            f"Of {'' if budget.adds_up else 'what own guarantees leave of '}{type(budget).name}. Shares of analyses on "
            "disjoint sets of rows do not add up.",
        )
    program_lines = "\n".join(f"    {analysis.to_python()}," for analysis in analyses)
    classes = sorted({type(budget).__name__, *(type(a.budget).__name__ for a in analyses if a.budget is not None)})
    planner_view.in_python(
        f"from dpviz.privacy.budgets import {', '.join(classes)}\n"
        f"from dpviz.privacy.statistics.allocation import Analysis, split\n\nanalyses = [\n{program_lines}\n]\n"
        f'for share in split({budget.to_python()}, analyses, rule="{rule}"):\n'
        "    print(share.analysis.name, share.noise_scale)"
    )
    return figures, _releases(shares, means)


def _releases(shares: Sequence[Share], means: NoisyMeans) -> Releases:
    """Return the analyses as releases, for the chart of the attacker and for the assumptions."""
    return Releases(
        events=allocation.joint_events([(share.analysis, share.event) for share in shares]),
        name=f"the split below ({planner_view.count_text(len(shares))})",
        relation=means.relation,
        protects=protected_change(means.relation, means.rows_per_person),
        batches=texts.OWN_ROWS,
        composition=texts.ACCOUNTED,
        constants=texts.STATED,
    )


def _table(panel: Panel) -> EditedTable:
    """Return the table of analyses that share a budget, which the visitor edits."""
    config = column_configs(
        TABLES["split"],
        mechanism={"options": [*MECHANISMS.values()]},
        sensitivity={"help": TERMS["sensitivity"].sentence},
        **{CURRENCY: {"options": [SHARE, *(cls.name for cls in CURRENCIES.values())], "default": SHARE}},
    )
    return EditedTable(
        panel,
        "split",
        config,
        numbers=(WEIGHT, SENSITIVITY, AMOUNT, DELTA),
        start=DEFAULT,
        alt="The analyses: name, mechanism, weight, sensitivity, rows, own guarantee",
    )


def _analysis(row: tuple[Any, ...]) -> Analysis:
    """Return the analysis in one row of the table. Raises UserError, with its name, for a row that is not possible."""
    values = dict(zip(COLUMNS, row, strict=True))
    name = values[NAME] or "Analysis"
    mechanism = next((key for key, title in MECHANISMS.items() if title == values[MECHANISM]), None)
    if mechanism is None:
        raise UserError(f"Choose a mechanism for {name}.", title="A mechanism is missing")
    # The kind of the analysis's own guarantee; None if it gets a share of the total.
    currency = next((cls for cls in CURRENCIES.values() if cls.name == values[CURRENCY]), None)
    rows = "".join(filter(str.isprintable, values[ROWS] or "")).strip()  # names that look alike are those of one set
    fields = {"name": name, "noise": mechanism, "rows": rows}
    fields |= {"weight": values[WEIGHT], "sensitivity": values[SENSITIVITY]}
    try:
        if currency is not None:
            if values[AMOUNT] is None:
                raise UserError("State the amount of its guarantee.", title="An amount is missing")
            amount, *others = (control.name for control in currency.controls())  # the other one, if any, is δ
            if others and values[DELTA] is None:
                raise UserError("State its δ, too.", title="The δ of a guarantee")
            if values[DELTA] is not None and not others:
                text = f"{currency.name} has no δ. Choose (ε, δ), or empty the cell."
                raise UserError(text, title="The δ of a guarantee")
            numbers = {amount: values[AMOUNT]} | dict.fromkeys(others, values[DELTA])
            fields |= {"budget": Settings(currency, numbers).build()}
        # An empty cell leaves the default.
        return Settings(Analysis, {key: value for key, value in fields.items() if value is not None}).build()
    except UserError as error:
        raise UserError(f"{name}: {error}", title=error.title) from error


_TARGET_HELP = "Scale of the noise in every mean, for the what-ifs. Empty: half of what the budget gives."
TARGET = Control("target", "Noise you can live with", _TARGET_HELP, None, float, 1e-12, 1e6, scale="log", optional=True)
_TRAININGS_HELP = "Of which the best one is published; on average, where the number is random."
TRAININGS = Control("trainings", "Trainings", _TRAININGS_HELP, 40, int, 2, 1_000_000, scale="log")
_ROWS_HELP = "Rows that no training sees, set aside without looking at them; what it gets right of them is its score."
HELD_OUT = Control("held_out", "Held-out rows", _ROWS_HELP, 1000, int, 1, 1_000_000, scale="log")
CHECKPOINTS = 10  # points of a curve over the steps, without T itself and the end of the budget
LONGEST = 10_000  # largest number of steps in a chart, unless more are set
LONGEST_BAR = 300.0  # times the shortest bar; next to a longer one the shortest would be invisible
GRID = "Privacy loss distributions are composed on a grid, which costs up to 0.2 %, never too little."


def symbol(means: NoisyMeans) -> str:
    """Return the symbol of the noise scale."""
    return "b" if means.noise == "laplace" else "σ"


def target_noise(means: NoisyMeans, budget: Budget, target: float | None) -> float:
    """Return the noise scale that the what-ifs are about: `target`, or if None half of the scale by the budget."""
    return means.noise_scale(budget) / 2 if target is None else target


def show_noise(means: NoisyMeans, budget: Budget) -> Charts:
    """Draw the noise that the budget gives every mean, and a chart of it against the number of steps that share the
    budget; return the chart."""
    scale = means.noise_scale(budget)
    help = f"In every coordinate of the mean of m = {means.batch_size:,} rows, each clipped to norm C."
    planner_view.metrics(
        {
            f"Noise scale {symbol(means)} per step": (short_up(scale), help),
            "Signal to noise": (short_down(means.clip / scale), f"Largest mean C, divided by {symbol(means)}."),
            "Rows for half the noise": (
                f"{means.rows_needed(budget, scale / 2):,}",
                "At the same budget, number of steps and share of rows per batch.",
            ),
        }
    )
    if isinstance(budget, ApproximateDP) and means.noise == "gaussian" and budget.epsilon < 1:
        # The textbook's noise, known for ε < 1, over the noise here: noise is proportional to 1/μ.
        ratio = closed_forms.gdp_mu(budget.epsilon, budget.delta)
        ratio /= closed_forms.classic_gaussian_mu(budget.epsilon, budget.delta)
        st.caption(texts.CALIBRATED.format(waste=100 * (ratio - 1)))
    is_slow = not budget.adds_up  # then each point of the chart is calibrated by composing losses
    steps = np.unique([means.iterations, *np.geomspace(1, LONGEST, 4 if is_slow else 30).round().astype(int)])
    scales, reasons = np.full(len(steps), np.nan), []  # NaN where the budget allows no noise, with the reasons
    for i, t in enumerate(steps.tolist()):
        try:
            scales[i] = means.replaced(iterations=t).noise_scale(budget)
        except UserError as error:
            reasons.append(str(error))
    figure = planner_figures.noise_by_steps(steps, scales, (means.iterations, scale), symbol(means))
    figures = planner_view.chart(
        "noise",
        figure,
        "Noise against the number of steps",
        "Noise scale in every mean against the number of steps that share the budget",
        "The whole budget is spread evenly over T means.",
    )
    if reasons:
        missing_steps = ", ".join(f"{t:,}" for t in steps[np.isnan(scales)])
        st.caption(f"No point for T = {missing_steps}. {' '.join(dict.fromkeys(reasons))}")
    _means_in_python(f"print(means.noise_scale({budget.to_python()}))", means, budget)
    return figures


def given_noise(means: NoisyMeans, budget: Budget, delta: float, target: float | None) -> Charts:
    """Draw the guarantee of means with noise of a given scale, and how many steps the budget covers; return the charts.

    target : scale of the noise; None for half of the one by the budget.
    """
    scale = target_noise(means, budget, target)
    cost = noisy_means.guarantee(means.events_of_noise(scale), delta)
    st.markdown(f"**{means.iterations:,} means with noise {symbol(means)} = {short_up(scale)}** cost together:")
    planner_view.show_cost(cost)
    steps = means.affordable_steps(budget, scale)
    steps_text = f"at least {STEPS_LIMIT:,}" if steps >= STEPS_LIMIT else f"{steps:,}"
    st.markdown(f"With noise of scale **{short_up(scale)}** in every mean the budget covers **{steps_text} steps**.")
    longest = int(min(max(steps, means.iterations, 2) * 1.25, LONGEST))  # a little beyond both
    end = steps if steps <= longest else 0  # 0: the end is outside the chart and not marked
    step_counts = np.unique([means.iterations, max(end, 1), *np.linspace(1, longest, CHECKPOINTS).round().astype(int)])
    # The budget as ε at this δ, in which accountants count; None for other budgets, which get a chart of their own.
    limit = None if budget.adds_up else budget.limit_at(delta)
    if limit is not None:  # so one chart shows both the accountants and the budget
        figures = _accountants_by_steps(means, scale, delta, step_counts, limit=limit, affordable=end)
    else:
        left, right = st.columns(2, gap="medium")
        with left:
            figures = _budget_by_steps(means, budget, scale, step_counts, affordable=end)
        with right:
            figures += _accountants_by_steps(means, scale, delta, step_counts)
    _means_in_python(
        f"events = means.events_of_noise({scale!r})\nprint(noisy_means.guarantee(events, delta={delta!r}).values)",
        means,
        budget,
        "from dpviz.privacy.statistics import noisy_means\n",
    )
    return figures


def _budget_by_steps(
    means: NoisyMeans, budget: Budget, scale: float, step_counts: np.ndarray, affordable: int
) -> Charts:
    """Draw what means with noise of this scale spend along the steps, in the currency of the budget.

    step_counts : (k,) numbers of steps. affordable : steps that the budget covers, 0 if outside of the chart.
    """
    control = budget.controls()[0]  # of the budget's amount
    if not budget.adds_up:  # each point composes losses, which is slow, so there are few
        step_counts = np.unique([1, means.iterations, max(affordable, 1), step_counts[-1]])
    spent = means.spent(budget, scale, step_counts.tolist())
    title = f"Privacy spent, {control.symbol} ({budget.name})"
    limit = getattr(budget, control.name)
    figure = planner_figures.budget_by_steps(step_counts, spent, title, control.symbol, limit, affordable=affordable)
    return planner_view.chart(
        "budget",
        figure,
        "How long the budget lasts",
        "Privacy spent after each step of a given noise, in the currency of the budget, with the budget",
        "In the currency of the budget, so it lasts until the line meets it.",
    )


def _accountants_by_steps(
    means: NoisyMeans,
    scale: float,
    delta: float,
    step_counts: np.ndarray,
    *,
    limit: float | None = None,
    affordable: int = 0,
) -> Charts:
    """Draw ε at δ of means with noise of this scale along the steps, one curve for each accountant.

    step_counts : (k,) numbers of steps. limit, affordable : a budget in ε at this δ, and the number of steps that it
    covers; None and 0 if the budget is not drawn.
    """
    events = means.replaced(iterations=int(step_counts[-1])).events_of_noise(scale)
    # How many of the events each number of steps takes: a pass over disjoint blocks is one event, with all its means.
    event_counts = np.maximum(np.ceil(step_counts * len(events) / step_counts[-1]), 1).astype(int)
    checkpoints = tuple(event_counts.tolist())
    all_curves = {name: accountants.epsilon_curve(events, delta, name, checkpoints) for name in accountants.METHODS}
    curves = {name: curve for name, curve in all_curves.items() if np.isfinite(curve[-1])}
    heading = f"Read as ε at δ = {short_up(delta)}" if limit is None else "How long the budget lasts"
    figure = planner_figures.spent_by_steps(step_counts, curves, delta, limit=limit, affordable=affordable)
    return planner_view.chart(
        "spent",
        figure,
        heading,
        "ε spent after each step of a given noise, one line per accountant",
        f"Each line is an upper bound; the lowest one holds. {GRID}",
    )


def rows(means: NoisyMeans, budget: Budget, target: float | None) -> Charts:
    """Draw how many rows a noise scale needs at the same budget, and a chart of the noise against the rows.

    target : the noise scale; None for half of the one by the budget. Returns the chart.
    """
    scale = target_noise(means, budget, target)
    needed = means.rows_needed(budget, scale)
    st.markdown(
        f"Noise of scale **{short_up(scale)}** in each of {means.iterations:,} means needs **{needed:,} rows**; you "
        f"have {means.rows:,}."
    )
    present = means.noise_scale(budget)
    low, high = sorted((means.rows, needed))
    axis = np.geomspace(max(1, low / 4), high * 4, 50)
    figure = planner_figures.noise_by_rows(
        axis, present * means.rows / axis, target=scale, needed=needed, symbol=symbol(means)
    )
    figures = planner_view.chart(
        "rows",
        figure,
        "Noise against the number of rows",
        "Noise scale against the number of rows, and the number that gives the wanted noise",
        "At the same budget, steps and share of rows per batch: noise falls about like 1/n.",
    )
    _means_in_python(f"print(means.rows_needed({budget.to_python()}, {scale!r}))", means, budget)
    return figures


def people(panel: Panel, means: NoisyMeans) -> Charts:
    """Draw the table of how many rows people have, and what is cut off if k rows of each are kept; return the chart.

    Raises UserError if the table has no people.
    """
    st.markdown(texts.PEOPLE)
    table = EditedTable(
        panel,
        "people",
        column_configs(TABLES["people"]),
        numbers=("rows", "count"),
        start=PEOPLE,
        alt="How many people have how many rows",
    )
    rows_of_table = table.rows(is_open=True)
    are_counted = [str(group).startswith(FROM_DATA) for group, *_ in rows_of_table]
    if any(are_counted):
        # What the button writes: rows without the name that marks them as counted in a file.
        unmarked = [
            ("People" if is_counted else row[0], *row[1:])
            for row, is_counted in zip(rows_of_table, are_counted, strict=True)
        ]
        with st.container(horizontal=True, vertical_alignment="center"):
            explain.mark_taken("Numbers of rows", f"{table.key}_knew", table.replace, (unmarked,))
    _count_people(panel, table)
    cells = [cell for _, *cells_of_row in rows_of_table for cell in cells_of_row if cell is not None]
    if max(cells, default=0.0) > MAX_ROWS_IN_BLOCKS:
        raise UserError(f"There are at most {MAX_ROWS_IN_BLOCKS:,} rows or people.", title="A number is too large")
    people_by_rows: dict[float, float] = {}  # number of people with so many rows each
    for _, each, count in rows_of_table:
        if each is not None and count is not None and each >= 1 and count > 0:
            people_by_rows[each] = people_by_rows.get(each, 0.0) + count
    if not people_by_rows:
        raise UserError("Add a row with people who have at least one row each.", title="No people are declared")
    k = means.rows_per_person
    dropped, losing = noisy_means.dropped_shares(people_by_rows, k)  # shares of rows, and of people who lose some
    outcome = "All rows are kept."
    if dropped:
        outcome = f"**{short(100 * dropped)} % of the rows** are dropped, of {short(100 * losing)} % of the people."
    noise = f"The noise is {k:,} times that of one row."
    if k == 1:
        noise = "The noise is the smallest."
    elif means.accounted_batch_size > means.batch_size:  # a batch is more likely to hold a row of a person
        noise = f"The noise is at least {k:,} times that of one row."
    st.markdown(f"With at most **{k:,}** row{'s' * (k > 1)} of a person: {outcome} {noise}")
    numbers = np.unique(np.geomspace(1, max(*people_by_rows, k, 2), 60).round())
    pairs = [noisy_means.dropped_shares(people_by_rows, round(number)) for number in numbers]
    shares = np.array([dropped_share for dropped_share, _ in pairs])
    return planner_view.chart(
        "people",
        planner_figures.dropped_rows(numbers, 100 * shares, (k, 100 * dropped)),
        "What is cut off",
        "Share of the rows that are dropped against the number of rows that are kept of a person",
        "Of the people in the table. More rows of a person: less is dropped; the noise grows in proportion or more.",
    )


def _count_people(panel: Panel, table: EditedTable) -> None:
    """Draw a panel that fills the table with how many rows the people of a visitor's file have."""
    with st.expander("Count them in a file", icon=":material/upload_file:"):
        st.markdown(texts.COUNTED)
        file = choose_file(f"{panel.page}_people", NamesOnlyFile)
        if file is None:
            return
        names = columns_of(file)
        person = st.selectbox("Column that names the person", [*names], index=None, key=panel.key("people_column"))
        if person is not None:
            help = "How many people have how many rows, in up to 20 groups."
            fill_button(file, _fill_people, (table, file, names[person]), help)


def _fill_people(table: EditedTable, file: File, person: str) -> None:
    """Fill the table with how many people of the file have how many rows; for callbacks.

    As the table has few rows, people with about as many rows are counted together, with the mean of their rows.
    """
    counts = file.frame[person].value_counts(dropna=False).to_numpy()  # rows without a name are those of one person
    edges = np.unique(np.geomspace(1, counts.max() + 1, MAX_ROWS + 1).round())  # each upper edge is excluded
    groups = [counts[(low <= counts) & (counts < high)] for low, high in pairwise(edges)]
    table.replace([(FROM_DATA, float(round(group.mean())), float(len(group))) for group in groups if len(group)])


def price_of_search(means: NoisyMeans, budget: Budget, trainings: int, held_out: int) -> Charts:
    """Draw what each of many trainings may cost if the best one is published; return the chart.

    held_out : number of rows by which the exponential mechanism chooses, if it does.

    Raises UserError for a guarantee in whose currency no price of a search is known.
    """
    costs = search.search_budgets(budget, trainings)
    sizes = {
        search.WAYS[way]: f"{cost.controls()[0].symbol} = {short_down(cost.limit)}"
        for way, cost in costs.items()
        if cost is not None  # None: no price is known
    }
    st.markdown(texts.SEARCH.format(trainings=trainings, budget=budget.describe()))
    st.markdown("\n".join(f"- {way.capitalize()}: **{size}** for each." for way, size in sizes.items()))
    if len(sizes) < len(costs):
        st.caption(texts.SEARCH_UNKNOWN)
    # By which share of the held-out rows the published training may be worse than the best one.
    shortfall = search.shortfall(budget, trainings, held_out, means.rows_per_person, means.relation)
    by_person = texts.SEARCH_PEOPLE.format(k=means.rows_per_person) if means.rows_per_person > 1 else ""
    st.markdown(texts.SEARCH_HELD_OUT.format(rows=held_out, below=short_up(100 * shortfall), by_person=by_person))
    factors = {search.WAYS[way]: factor for way, factor in search.noise_factors(budget, trainings).items()}
    call = f"search.search_budgets({budget.to_python()}, {trainings})"
    settings = f"{trainings}, {held_out}, {means.rows_per_person}, {means.relation!r}"
    figures = planner_view.chart(
        "search",
        planner_figures.bars(factors, "Noise of each training, times that of a single one"),
        "What the search costs in noise",
        "Noise of each training against that of a single one with the whole budget, by way to search",
        "For Laplace noise under ε, Gaussian noise under others, on all rows; on batches it is another factor. Random "
        "numbers of trainings: Papernot and Steinke 2022. Unless held-out rows decide, the score by which the "
        "best one is chosen is part of its training, and paid with it.",
    )
    planner_view.in_python(
        f"from dpviz.privacy.budgets import {type(budget).__name__}\nfrom dpviz.privacy.statistics import search\n\n"
        f"print({call})\nprint(search.shortfall({budget.to_python()}, {settings}))"
    )
    return figures


def trainers(panel: Panel, means: NoisyMeans, budget: Budget, delta: float) -> Charts:
    """Draw the noisy means in the words of Opacus, JAX-Privacy and dp_accounting, and what their settings cost here."""
    try:
        st.code(dpsgd.to_dpsgd(means, budget), language="python")
    except UserError as error:
        st.info(f"{error.title}. {error}")
    text = st.text_area(
        "Their settings",
        key=panel.key("their_settings"),
        placeholder="noise_multiplier=1.1, sample_rate=0.01, max_grad_norm=1, steps=1000",
        help=texts.THEIRS_HELP,
        max_chars=2000,
    )
    if not text.strip():
        return []  # no charts
    theirs, scale = dpsgd.from_dpsgd(text, means.rows)
    st.markdown(
        f"**{theirs.iterations:,} noisy means of {theirs.batch_size:,} of {theirs.rows:,} rows**, Poisson batches, "
        f"clip {short(theirs.clip)}, noise σ = {short_up(scale)} in each mean. For one row added or removed they cost:"
    )
    planner_view.show_cost(noisy_means.guarantee(theirs.events_of_noise(scale), delta))
    st.button(
        "Take these settings",
        key=panel.key("take_theirs"),
        on_click=_take,
        args=(panel, theirs, scale),
        help="Into the controls of this page, with their noise as the one that you can live with.",
    )
    return []


def _take(panel: Panel, theirs: NoisyMeans, scale: float) -> None:
    """Put the noisy means into the controls of the page, and their noise as the wanted one; for callbacks."""
    panel.set_values(
        {
            "rows": theirs.rows,
            "rows_per_person": 1,
            "sampling": theirs.sampling,
            "batch_fraction": theirs.batch_fraction,
            "iterations": theirs.iterations,
            "clip": theirs.clip,
            "noise": theirs.noise,
            "target": scale,
            "solve": "steps",
        }
    )


def savings(means: NoisyMeans, budget: Budget, delta: float) -> Charts:
    """Draw the ε at δ that each theorem and accountant proves for the noise that the budget gives; return the chart."""
    scale = means.noise_scale(budget)
    epsilons = noisy_means.savings(means, scale, delta)
    if not epsilons:
        st.info("No accountant reads this noise at so small a δ. Raise δ.")
        return []
    best, worst = min(epsilons, key=lambda name: epsilons[name]), max(epsilons, key=lambda name: epsilons[name])
    lowest, highest = epsilons[best], epsilons[worst]
    if highest <= 1.005 * lowest:  # as good as equal
        st.markdown(f"The noise costs **ε = {short_up(lowest)}**, however it is counted.")
    else:
        highest_text = f"ε = {short_up(highest)} ({SAVINGS[worst]})"
        lowest_text = f"ε = {short_up(lowest)} ({SAVINGS[best]})"
        times = short(highest / max(lowest, 1e-300))  # an accountant may prove 0
        st.markdown(texts.BETTER_COUNTED.format(most=highest_text, least=lowest_text, times=times))
    bars = {SAVINGS[name]: value for name, value in epsilons.items() if value <= LONGEST_BAR * lowest or lowest == 0}
    absent = [f"{SAVINGS[name]}, ε = {short_up(epsilons[name])}" for name in epsilons if SAVINGS[name] not in bars]
    too_long = f"Too long to draw: {'; '.join(absent)}. " if absent else ""
    figures = planner_view.chart(
        "accountants",
        planner_figures.bars(bars, "ε", best=SAVINGS[best]),
        f"The same noise at δ = {short_up(delta)}",
        "One bar per way to count: the smallest ε that it proves for the same noise",
        "Each bar is an upper bound; the lowest one holds. “No credit for sampling” counts as if all could see "
        f"who is in the batch. {too_long}{GRID} The CSV has a finer grid where memory and time allow.",
        to_download=partial(_finer_bars, means, scale, delta),
    )
    _means_in_python(
        f"print(noisy_means.savings(means, means.noise_scale({budget.to_python()}), delta={delta!r}))",
        means,
        budget,
        "from dpviz.privacy.statistics import noisy_means\n",
    )
    return figures


def _finer_bars(means: NoisyMeans, scale: float, delta: float) -> go.Figure:
    """Return the figure of `savings` for a file: with all bars, by accountants that round losses to a finer grid."""
    epsilons = noisy_means.savings(means, scale, delta, precision="fine")
    return planner_figures.bars({SAVINGS[name]: value for name, value in epsilons.items()}, "ε")


def _means_in_python(lines: str, means: NoisyMeans, budget: Budget, imports: str = "") -> None:
    """Draw a program that computes the numbers of a what-if.

    lines : its last lines, after `means` is defined. imports : further lines at its beginning.
    """
    planner_view.in_python(
        f"{imports}from dpviz.privacy.budgets import {type(budget).__name__}\n"
        f"from dpviz.privacy.statistics.noisy_means import NoisyMeans\n\nmeans = {means.to_python()}\n{lines}"
    )
