"""What analysts plan: a table of counts, sums, means, histograms and quantiles, and what each gets of the budget."""

import re
from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from dpviz.errors import NotYet, UserError
from dpviz.exports import notebook
from dpviz.exports.analyses_report import to_report
from dpviz.numbers import short
from dpviz.plots import planner_figures
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import described
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import (
    NOISES,
    Analyses,
    Count,
    Histogram,
    Mean,
    Planned,
    Quantile,
    Ranged,
    Statistic,
    Sum,
)
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.specification import Control
from dpviz.ui import downloads
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.budget_planner.editing import MOST, EditedTable, Row
from dpviz.ui.budget_planner.view import Releases
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import plain
from dpviz.ui.tables import show_table
from dpviz.ui.terms import TERMS
from dpviz.ui.uploads.file import File, chosen_file

NAME, KIND, LOW, HIGH, SIZE, LEVEL, SHARE = "analysis", "kind", "lowest", "highest", "bins", "level", "share"
KINDS: dict[str, type[Statistic]] = {cls.title: cls for cls in (Count, Sum, Mean, Histogram, Quantile)}
DEFAULT: tuple[Row, ...] = (
    ("Aged 65 or more", "Count", None, None, None, None, 1.0),
    ("Monthly income", "Mean", 0.0, 10_000.0, None, None, 1.0),
    ("Hours worked", "Sum", 0.0, 80.0, None, None, 1.0),
    ("Region", "Histogram", None, None, 16.0, None, 1.0),
    ("Age, median", "Quantile", 0.0, 120.0, 121.0, 0.5, 1.0),
)
WANTED = Control(
    name="relative",
    label="Error you want",
    help="For the rows needed: the 95 % error, as a share of what the table compares it with.",
    default=0.05,
    type=float,
    low=0.0001,
    high=1.0,
    scale="log",
)
SYMBOLS = {"laplace": "Laplace, b", "gaussian": "Gaussian, σ", "selection": "Selection, 2/η"}


class Names(File):
    """A file of which the columns' names are taken: one is enough."""

    min_columns = 1
    shows_cells = False


def view(panel: Panel, means: NoisyMeans, budget: Budget, delta: float, is_open: bool) -> tuple[Shown, Releases | None]:
    """The table; while the tab is open, what each analysis gets, why, and what all of them cost and do to privacy."""
    st.markdown(
        "Numbers that you want to publish about the same people, and what the guarantee in the sidebar leaves of them. "
        "Each analysis gets a **share** of it. **Declare** ranges, bins and conditions from what you know beforehand, "
        "never from the data: what is read off the data is not protected. Of the sidebar, the guarantee and the rows n "
        "count here."
    )
    table = _table(panel)
    if is_open:
        _columns_of_a_file(panel, table)
    rows = table.rows(is_open)
    left, right = st.columns(2, gap="large")
    with left:
        noise = panel.choice(
            "analyses_noise", "Noise of numbers", NOISES, "smaller", Analyses.model_fields["noise"].description or ""
        )
    with right:
        relative = panel.number(WANTED, WANTED.name)
    if not is_open:
        return [], None
    panel.check()
    if means.relation != "replace-one":
        raise UserError(
            "These analyses publish the number of rows, so that one row is exchanged, not added or removed. Choose "
            "another sampling than Poisson in the sidebar.",
            title="Another kind of neighbours",
        )
    statistics = _statistics(rows)
    if not statistics:
        raise NotYet("Add a row: what you want to know, and its range or its bins.", title="Nothing is asked yet")
    values = {"rows": means.rows, "noise": noise, "statistics": statistics}
    plan = Settings(Analyses, values).build()
    wanted = float(relative or WANTED.default)
    shown = _answer(plan, budget, delta, wanted)
    downloads.analyses(
        panel.page,
        plan,
        partial(notebook.of_analyses, plan, budget, delta, wanted),
        lambda: to_report(plan, budget, delta, wanted, date.today().isoformat()),
    )
    return shown, _releases(plan.planned(budget))


def _releases(planned: Sequence[Planned]) -> Releases:
    return Releases(
        events=allocation.composed([(p.share.analysis, p.event) for p in planned]),
        name=f"the plan below ({planner_view.analyses(len(planned))})",
        protects=planner_view.NEIGHBOURS["replace-one"],
        batches="Every analysis uses all rows.",
        composition="Analyses and shares are fixed in advance, and each is released once. The tightest accountant that "
        "applies is used; each is valid.",
        constants="Ranges, bins, conditions and the number of rows are declared. Clipping enforces the sensitivity "
        "whatever the data are. Noise is as in exact arithmetic: release with a tool that was built for it.",
    )


def _columns_of_a_file(panel: Panel, table: EditedTable) -> None:
    """Names and number of rows of a file; its values are forgotten before anything is drawn of them."""
    with st.expander("Take columns from a file", icon=":material/upload_file:"):
        st.markdown(
            "Only the **names of the columns** and the **number of rows**, which is public here, are taken from it, "
            "and no value. Ranges and bins you declare yourself: a range that is read off the data reveals the most "
            "extreme person. If you see a person's values instead of names, the file has no header: say so under “How "
            "the file is read”."
        )
        file = chosen_file(panel.page, Names)
        if file is None:
            return
        file.frame = file.frame[[]]
        left, right = st.columns(2)
        offered = [_name(position, column.name) for position, column in enumerate(file.columns, 1)]
        names = left.multiselect(
            "Columns",
            [*dict.fromkeys(offered)],
            key=panel.key("columns"),
            max_selections=MOST,
            help="A name that is a number is not shown: without a header it would be a person's value.",
        )
        kind = right.selectbox("Asked of each", [*KINDS], index=[*KINDS].index("Mean"), key=panel.key("columns_kind"))
        st.button(
            f"Add to the table, with n = {len(file.frame):,}",
            on_click=_add,
            args=(panel, table, names, kind, len(file.frame)),
            disabled=not names,
            key=panel.key("columns_add"),
        )


def _name(position: int, name: str) -> str:
    """What a column is called here: a number may be a person's, in a file whose first row is no header."""
    return f"Column {position}" if re.fullmatch(r"[\d\s.,:/+-]*", name) else name


def _add(panel: Panel, table: EditedTable, names: Sequence[str], kind: str, count: int) -> None:
    table.add([(name[:60], kind, None, None, None, None, 1.0) for name in names])
    panel.write({"rows": count, "columns": []})


def _answer(plan: Analyses, budget: Budget, delta: float, relative: float) -> Shown:
    planned = plan.planned(budget)
    _numbers(planned, relative)
    st.caption(
        "**95 % error**: in 95 of 100 releases the number is off by at most this, because of the noise; **all bins** "
        "at once in the column beside it. Exact for Laplace and Gaussian noise; counts are rounded to whole numbers "
        "after the noise was added, which costs nothing. What clipping changes is not in it. Of a quantile the error "
        "is in **ranks**, a bound for all data: how many rows lie between what is released and the wanted rank. How "
        f"far off its value is depends on the data. {SETTINGS_ONLY}"
    )
    if lost := [plain(p.statistic.name) for p in planned if p.drowned]:
        st.warning(
            f"The noise hides all of {', '.join(lost)}: it is as large as anything that {plan.rows:,} rows can give. "
            "Raise the budget or the share, or ask less."
        )
    needed = _named([p.statistic.name for p in planned], [float(p.rows_needed(relative)) for p in planned])
    shown = planner_view.show(
        planner_figures.bars(needed, "Rows needed"),
        "planner_chart_analyses",
        f"Rows needed for an error of {short(100 * relative)} %",
        "Rows that every analysis needs for the wanted error",
        "With the same shares of the same budget. Of counts and histograms: rows that are counted, in each bin; of all "
        f"others: rows of the table. {SETTINGS_ONLY}",
    )
    st.subheader("How far one row moves each of them", anchor=False)
    st.markdown("\n".join(f"- **{plain(p.statistic.name)}**. {p.statistic.why(p.rows)}" for p in planned))
    st.markdown(f"**All together** ({budget.describe()} was given):")
    planner_view.of_events(allocation.together([p.share for p in planned], delta))
    with st.expander("The same in Python", icon=":material/code:"):
        kinds = sorted({type(p.statistic).__name__ for p in planned})
        st.code(
            f"from dpviz.privacy.statistics.analyses import {', '.join(['Analyses', *kinds])}\n"
            f"from dpviz.privacy.budgets import {type(budget).__name__}\n\nplan = {plan.to_python()}\n"
            f"for planned in plan.planned({budget.to_python()}):\n"
            "    print(planned.statistic.name, planned.scale, planned.error)",
            language="python",
        )
    return shown


def _numbers(planned: Sequence[Planned], relative: float) -> None:
    """The table of what each analysis gets."""
    number = st.column_config.NumberColumn
    show_table(
        pd.DataFrame(
            {
                "Analysis": [p.statistic.name for p in planned],
                "95 % error": [p.error for p in planned],
                "All bins": pd.Series([p.largest_error for p in planned], dtype=float),
                "Unit": [p.statistic.unit or "as the column" for p in planned],
                "Standard deviation": pd.Series([p.standard_deviation for p in planned], dtype=float),
                "Noise": [f"{SYMBOLS[p.noise]} = {short(p.scale)}" for p in planned],
                "Sensitivity": [p.sensitivity for p in planned],
                "Share": [p.share.fraction for p in planned],
                "Costs": [described(p.event) for p in planned],
                "Rows needed": [float(p.rows_needed(relative)) for p in planned],  # may exceed 64 bits
                "for an error of": [f"{short(100 * relative)} % of {p.statistic.of}" for p in planned],
                "Asked": [p.statistic.asked for p in planned],
            }
        ),
        column_config={
            "95 % error": number(format="%.4g", help="In 95 of 100 releases the number is off by at most this."),
            "All bins": number(format="%.4g", help="In 95 of 100 releases no bin is off by more."),
            "Standard deviation": number(format="%.4g", help="Of the noise, before counts are rounded."),
            "Sensitivity": number(format="%.4g", help=TERMS["sensitivity"].sentence),
            "Share": number(format="percent", help="Of the budget: of its ε, ρ or μ²."),
            "Rows needed": number(format="localized", help="The fewest rows for the error that you want."),
        },
        placeholder="—",
        alt="Error, noise, sensitivity, share, cost and rows needed of every analysis",
    )


def _named(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """The values by name; a second one of the same name is numbered."""
    found: dict[str, float] = {}
    for number, (name, value) in enumerate(zip(names, values, strict=True), 1):
        found[f"{name} ({number})" if name in found else name] = value
    return found


def _table(panel: Panel) -> EditedTable:
    number = st.column_config.NumberColumn
    return EditedTable(
        panel,
        "analyses",
        {
            NAME: st.column_config.TextColumn(
                "Analysis", required=True, default="Analysis", max_chars=60, help="Or the condition of a count."
            ),
            KIND: st.column_config.SelectboxColumn("Kind", options=[*KINDS], required=True, default="Count"),
            LOW: number("Lowest", help="Of a sum, mean or quantile: smaller values count as this. Declare it."),
            HIGH: number("Highest", help="Of a sum, mean or quantile: larger values count as this. Declare it."),
            SIZE: number("Bins", help="Of a histogram; of a quantile: how many values can be released."),
            LEVEL: number("Level", help="Of a quantile: 0.5 is the median."),
            SHARE: number("Share", default=1.0, min_value=1e-6, help="Parts of the budget: 2 gets twice as much as 1."),
        },
        numbers=(LOW, HIGH, SIZE, LEVEL, SHARE),
        start=DEFAULT,
        alt="The analyses: name, kind, declared range, bins, level, share",
    )


def _statistics(rows: Sequence[Row]) -> tuple[Statistic, ...]:
    """The rows of the table. Raises NotYet if ranges or bins are missing, UserError that names the analysis."""
    found, missing = [], []
    for row in rows:
        values = dict(zip((NAME, KIND, LOW, HIGH, SIZE, LEVEL, SHARE), row, strict=True))
        name, cls = values[NAME] or "Analysis", KINDS.get(values[KIND] or "")
        if cls is None:
            raise UserError(f"Choose a kind for {name}: {', '.join(KINDS)}.", title="A kind is missing")
        fields = {"name": name, "weight": values[SHARE]} | _declared(cls, values)
        if (issubclass(cls, Ranged) and None in (values[LOW], values[HIGH])) or (
            cls is Histogram and values[SIZE] is None
        ):
            missing.append(name)
            continue
        try:
            found.append(Settings(cls, {key: value for key, value in fields.items() if value is not None}).build())
        except UserError as error:
            raise UserError(f"{name}: {error}", title=error.title) from error
    if missing:
        raise NotYet(
            f"Declare the lowest and the highest value, or the number of bins, of {', '.join(missing)}: from what you "
            "know beforehand, not from the data.",
            title="A range is not declared yet",
        )
    return tuple(found)


def _declared(cls: type[Statistic], values: dict[str, Any]) -> dict[str, Any]:
    """What a kind of statistic takes of a row, beside name and share."""
    columns = {"lowest": LOW, "highest": HIGH, "bins": SIZE, "candidates": SIZE, "level": LEVEL}
    return {field: values[column] for field, column in columns.items() if field in cls.model_fields}
