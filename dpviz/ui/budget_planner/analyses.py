"""Planned analyses: a table of counts, sums, means, histograms and quantiles, and the budget share of each."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial

import pandas as pd
import streamlit as st
from pandas.api.types import is_numeric_dtype
from streamlit.delta_generator import DeltaGenerator

from dpviz import resources
from dpviz.errors import MissingInput, UserError
from dpviz.exports import export, opendp
from dpviz.exports.export import to_report
from dpviz.numbers import rounded_up, short, short_up
from dpviz.plots import planner_figures
from dpviz.privacy.budgets import Budget, GaussianDP
from dpviz.privacy.events import Relation, described
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import (
    Analyses,
    Count,
    GroupableStatistic,
    Histogram,
    Mean,
    PlannedStatistic,
    Quantile,
    Ranged,
    Smallest,
    Statistic,
    Sum,
    cost_of_errors,
    smallest_budget,
)
from dpviz.privacy.statistics.noisy_means import NoisyMeans, protected_change
from dpviz.specification import Control
from dpviz.ui import downloads, explain
from dpviz.ui.budget_planner import declared, texts
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.budget_planner.editing import MAX_ROWS, EditedTable, Row
from dpviz.ui.budget_planner.view import Releases
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.plan import Charts
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.glossary import TERMS
from dpviz.ui.markdown import column_configs, escape_name, escape_sentence, show_table
from dpviz.ui.uploads.file import File, choose_file, read_again

TABLES = resources.data(__package__, "tables.toml")  # titles, help and formats of the columns of tables
# Columns of the table of analyses, in their order.
COLUMNS = (
    *("analysis", "kind", "declared", "lowest", "highest", "bins", "level", "share"),
    *("accepted", "typical", "spread"),
)
NAME, KIND, DECLARED, LOW, HIGH, SIZE, LEVEL, SHARE, ACCEPTED, TYPICAL, SPREAD = COLUMNS
KINDS: dict[str, type[Statistic]] = {cls.title: cls for cls in (Count, Sum, Mean, Histogram, Quantile)}
DEFAULT: tuple[Row, ...] = (
    ("Aged 65 or more", "Count", "age >= 65", None, None, None, None, 1.0, None, None, None),
    ("Monthly income", "Mean", "income", 0.0, 10_000.0, None, None, 1.0, None, 3_000.0, 2_000.0),
    ("Hours worked", "Sum", "hours", 0.0, 80.0, None, None, 1.0, None, 38.0, 12.0),
    ("Region", "Histogram", "region:", None, None, 16.0, None, 1.0, None, None, None),
    ("Age, median", "Quantile", "age", 0.0, 120.0, 121.0, 0.5, 1.0, None, None, None),
)
_HELP = (
    "Of statistics the 95 % error, as a share of what the table compares it with. Of a model that is trained in noisy "
    "steps the bound on its error."
)
WANTED = Control("relative", "Error you want", _HELP, 0.05, float, 1e-6, 1.0, scale="log")
# The columns with the fields of a statistic, but for its name, weight and what its line declares.
FIELDS = {
    **{"lowest": LOW, "highest": HIGH, "bins": SIZE, "candidates": SIZE, "level": LEVEL},
    **{"accepted_error": ACCEPTED, "typical": TYPICAL, "spread": SPREAD},
}
SETTINGS = {"relation": "analyses_relation", "noise": "analyses_noise"}  # keys of the plan's own controls, by field
_REFERENCES = (
    "in % of the declared range (sums: n times it, in G groups n/G times); counts, bins and ranks in % of all n rows"
)
COUNTINGS = {"opendp": "OpenDP's", "dpviz": "dpviz's"}
SYMBOLS = {"laplace": "Laplace, b", "gaussian": "Gaussian, σ", "selection": "Selection, Δ/η"}


class NamesOnlyFile(File):
    """A file of which no cell is shown; one column is enough."""

    min_columns = 1
    shows_cells = False


def show_plan(
    panel: Panel,
    means: NoisyMeans,
    budget: Budget,
    delta: float,
    wanted: float,
    head: DeltaGenerator | None,
    question: str,
) -> tuple[Charts, Releases]:
    """Draw the table of analyses, the noise and the share of each, and their cost together; return charts and releases.

    means : gives the number of rows and of rows per person, and the neighbours. delta : δ at which ε is stated.
    wanted : the largest acceptable 95 % error, as a share of the value that the error is compared with.
    head : container for the answer; None if the answer is about something else. question : what the answer's chart is
    about: "error", "rows" or "sources".
    Raises UserError for a table that is not complete or not possible.
    """
    st.markdown(texts.ANALYSES)
    table = _table(panel)
    _take_columns(panel, table)
    rows = table.rows(is_open=True)  # draws the table, too
    with st.container(horizontal=True):
        settings = {name: panel.control(_control(name), key) for name, key in SETTINGS.items()}
    plan = _plan(means, rows, settings)
    if plan.from_data:
        with st.container(horizontal=True, vertical_alignment="center"):
            explain.mark_taken("Proposals", f"{table.key}_knew", _declare_known, (table,))
    figures: Charts = []
    if head is not None:
        with head:
            figures = _show_verdict(panel, plan, budget, wanted, question)
    _show_smallest(panel, table, plan, budget, wanted)
    _show_details(plan, budget, delta, wanted)
    program = _show_program(panel, plan, budget, delta)
    downloads.analyses(
        panel.page,
        plan,
        notebook=partial(export.analyses_to_notebook, plan, budget, delta, relative=wanted),
        report=lambda: to_report(plan, budget, delta, relative=wanted, day=date.today().isoformat()),
        program=lambda: program,
    )
    return figures, _releases(plan, budget)


def answer(
    panel: Panel, means: NoisyMeans, budget: Budget, wanted: float, head: DeltaGenerator, question: str
) -> Charts:
    """Draw only the answer, for when the table of analyses is not drawn; return its chart.

    The arguments are those of `show_plan`.
    """
    with head:
        try:
            plan = _stored_plan(panel, means)
            return _show_verdict(panel, plan, budget, wanted, question)
        except UserError as error:
            st.caption(f"{escape_sentence(error.title)}: see “Your analyses”.")
            return []


def releases(panel: Panel, means: NoisyMeans, budget: Budget) -> Releases | None:
    """Return the planned statistics as releases, while their table is not drawn; None if they cannot be planned."""
    with suppress(UserError):
        plan = _stored_plan(panel, means)
        return _releases(plan, budget)
    return None


def relation(panel: Panel) -> Relation:
    """Return the neighbouring relation that is chosen for the statistics."""
    chosen: Relation = panel.peek(_control("relation"), SETTINGS["relation"])
    return chosen


def _control(name: str) -> Control:
    return next(control for control in Analyses.controls() if control.name == name)


def _stored_plan(panel: Panel, means: NoisyMeans) -> Analyses:
    """Return the plan while its table is not drawn; errors are those of `_plan`."""
    settings = {name: panel.peek(_control(name), key) for name, key in SETTINGS.items()}
    return _plan(means, _table(panel).rows(is_open=False), settings)


def _plan(means: NoisyMeans, rows: Sequence[Row], settings: Mapping[str, str]) -> Analyses:
    """Return the plan of the analyses in the table's rows, with its `SETTINGS`.

    Raises MissingInput without rows, and where ranges or bins are missing; and UserError, with the name of the
    analysis, for other mistakes.
    """
    statistics: list[Statistic] = []
    missing = []
    for row in rows:
        values = dict(zip(COLUMNS, row, strict=True))
        name, cls = values[NAME] or "Analysis", KINDS.get(values[KIND] or "")
        if cls is None:
            raise UserError(f"Choose a kind for {name}: {', '.join(KINDS)}.", title="A kind is missing")
        try:
            parts = declared.parse_line(cls, values[DECLARED] or "")
        except UserError as error:
            raise UserError(f"{name}: {error}", title=error.title) from error
        lacks_range = issubclass(cls, Ranged) and None in (values[LOW], values[HIGH])
        # Keys and cut points, if the line has them, say how many bins there are.
        lacks_bins = cls is Histogram and values[SIZE] is None and not parts.keys() & {"keys", "cut_points"}
        if lacks_range or lacks_bins:
            missing.append(name)
            continue
        fields = {field: values[column] for field, column in FIELDS.items() if field in cls.model_fields}
        fields |= {"name": name, "weight": values[SHARE]} | parts
        filled = {field: value for field, value in fields.items() if value is not None}  # others get their defaults
        try:
            statistics.append(Settings(cls, filled).build())
        except UserError as error:
            raise UserError(f"{name}: {error}", title=error.title) from error
    if missing:
        raise MissingInput(
            f"Declare the lowest and the highest value, or the bins, of {', '.join(missing)}: from what you know "
            "beforehand, not from the data.",
            title="A range is not declared yet",
        )
    if not statistics:
        raise MissingInput("Add a row: what you want to know, and its range or its bins.", title="Nothing is asked yet")
    return Settings(
        Analyses, {"rows": means.rows, "rows_per_person": means.rows_per_person, "statistics": statistics, **settings}
    ).build()


def _show_verdict(panel: Panel, plan: Analyses, budget: Budget, wanted: float, question: str) -> Charts:
    """Draw a sentence that says if the budget is enough, and the chart that answers the question.

    wanted : the largest acceptable error, as a share, of those statistics for which none is declared. A count gets no
    verdict by it, unless it needs more rows than there are: it needs the rows that it counts, whose number is known
    from the data alone.
    """
    planned, percent = plan.planned(budget), short(100 * wanted)
    by_share = [p for p in planned if p.statistic.accepted_error is None]
    needed = [(p.statistic, p.rows_needed(wanted)) for p in by_share]
    # Statistics that need more rows than there are, and counts (their unit is "rows") that need at most all of them.
    too_few = [f"“{escape_name(s.name)}” {count:,}" for s, count in needed if count > plan.rows]
    counts = [f"“{escape_name(s.name)}” {count:,}" for s, count in needed if s.unit == "rows" and count <= plan.rows]
    accepted = zip(planned, plan.accepted_errors(wanted), strict=True)
    too_inaccurate = [
        f"“{escape_name(p.statistic.name)}” is off by up to {short_up(p.error)}, not {short(error)}"
        for p, error in accepted
        if p.statistic.accepted_error is not None and p.error > error * (1 + 1e-6)  # by more than rounding
    ]
    budget_text, error_text = budget.describe(), f"an error of {percent} % (95 % confidence)"
    if too_few:
        verdict = f"**No**: at {budget_text}, {error_text} needs more rows: {', '.join(too_few)}."
    elif too_inaccurate:
        verdict = f"**No**: at {budget_text}, {'; '.join(too_inaccurate)} (95 % confidence)."
    elif len(counts) == len(planned):
        verdict = f"At {budget_text}, whether it is depends on the counts."
    else:
        errors_text = error_text if len(by_share) == len(planned) else "these errors (95 % confidence)"
        verdict = f"**Yes**: at {budget_text}, {plan.rows:,} rows are enough for {errors_text}."
    if counts:
        verdict += f" Counts need: {', '.join(counts)}."
    with suppress(UserError):
        smallest = smallest_budget(plan, plan.accepted_errors(wanted), budget, on_page=True)
        has_counts = any(p.statistic.unit == "rows" for p in by_share)
        reference = " (counts: in % of all rows)" if has_counts else ""
        verdict += f" The least for it{reference} is {_budget_text(smallest)}, in the best shares."
    st.markdown(f"{verdict} {plan.warning(budget)}")
    if question == "error":
        errors = planner_view.by_name((p.statistic.name, 100 * p.relative_error) for p in planned)
        return planner_view.chart(
            "errors",
            planner_figures.bars(errors, "95 % error [%]", unit=" %"),
            "The error you get",
            "95 % error of every analysis, in percent",
            f"With {plan.rows:,} rows, {_REFERENCES}, so of a smaller count more.",
            panel=panel,
        )
    if question == "sources":
        return _show_sources(panel, planned)
    bars = planner_view.by_name((p.statistic.name, float(p.rows_needed(wanted))) for p in planned)
    return planner_view.chart(
        "analyses",
        planner_figures.bars(bars, "Rows needed"),
        f"Rows needed for an error of {percent} %",
        "Rows that every analysis needs for the wanted error",
        f"Each with its share of the budget. Counts and histograms: rows in each bin; others: all rows, here "
        f"{plan.rows:,}.",
        panel=panel,
    )


def _show_sources(panel: Panel, planned: Sequence[PlannedStatistic]) -> Charts:
    """Draw the chart of what each statistic is off by: its sample, clipping, and noise."""

    def percents(error: Callable[[PlannedStatistic], float | None]) -> dict[str, float]:
        """Return the errors in percent of their references, by name; 0 where nothing is declared."""
        return planner_view.by_name(
            (p.statistic.name, 100 * abs(error(p) or 0.0) / p.statistic.reference(p.rows)) for p in planned
        )

    groups = {
        "sample": percents(lambda p: p.statistic.sampling_error(p.rows)),
        "clipping": percents(lambda p: p.statistic.clipping_bias(p.rows)),
        "noise": percents(lambda p: p.error),
    }
    names = [escape_name(p.statistic.name) for p in planned if p.statistic.clipping_bias(p.rows) is None]
    unknown = f" Without a typical value and a spread, clipping of {', '.join(names)} is unknown." if names else ""
    return planner_view.chart(
        "sources",
        planner_figures.grouped_bars(groups, "Error [%]", unit=" %"),
        "Where the error comes from",
        "Error of every analysis by its sample, by clipping and by noise, in percent",
        f"With {planned[0].rows:,} rows, {_REFERENCES}. Sample: its 95 % error, at most, if the rows are a random "
        f"sample of those you ask about. Clipping: of normal values as you declare them.{unknown}",
        panel=panel,
    )


def _show_smallest(panel: Panel, table: EditedTable, plan: Analyses, budget: Budget, wanted: float) -> None:
    """Draw the smallest budget for the accepted errors, with a button that takes it, and where more stops paying."""
    control = budget.controls()[0]  # of the amount
    try:
        smallest = smallest_budget(plan, plan.accepted_errors(wanted), budget, on_page=True)
    except UserError as error:
        st.caption(escape_sentence(str(error)))
        return
    assert control.low is not None and control.high is not None
    # The amount of the budget with which noise is half of what a random sample can be off by.
    half_errors = [statistic.sampling_error(plan.rows) / 2 for statistic in plan.statistics]
    enough = max(rounded_up(cost_of_errors(plan, half_errors, budget)), control.low)  # no smaller one can be set
    more = ""
    if enough <= control.high:
        more = (
            f" From {control.symbol} = {short(enough)} on more hardly pays: noise is then less than half of what a "
            "random sample of so many rows can be off by."
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"The errors that you accept need **{_budget_text(smallest)}**, in the best shares.{more}", width="stretch"
        )
        st.button(
            f"Take {control.symbol} = {short(smallest.budget.limit)} and its shares",
            key=panel.key("smallest"),
            on_click=_take,
            args=(panel, table, control.name, smallest),
        )


def _budget_text(smallest: Smallest) -> str:
    """Return the smallest budget as text; where it is the lower end of its range, a smaller one may be enough."""
    control, limit = smallest.budget.controls()[0], smallest.budget.limit  # the first is that of the amount
    size = f"{control.symbol} = {short(limit)}"
    return f"at most {size}" if limit == control.low else size


def _take(panel: Panel, table: EditedTable, amount: str, smallest: Smallest) -> None:
    """Put the smallest budget and the noise of its plan into their controls, and its shares into the table; for
    callbacks. amount : name of the budget's control."""
    panel.set_values({amount: smallest.budget.limit, SETTINGS["noise"]: smallest.plan.noise})
    position = COLUMNS.index(SHARE)
    weights = (float(f"{statistic.weight:.6g}") for statistic in smallest.plan.statistics)  # short in a link
    rows = table.rows(is_open=False)
    table.replace([(*row[:position], weight, *row[position + 1 :]) for row, weight in zip(rows, weights, strict=True)])


def _releases(plan: Analyses, budget: Budget) -> Releases:
    """Return the planned statistics as releases, for the chart of the attacker and for the assumptions."""
    planned = plan.planned(budget)
    # Under other relations the number of rows is secret.
    constants = texts.DECLARED if plan.relation == "replace-one" else texts.DECLARED_SECRET
    if plan.rows_per_person > 1:
        constants += f" {texts.FEW_ROWS}"
    if plan.from_data:
        constants += f" {texts.FROM_DATA.format(names=', '.join(map(escape_name, plan.from_data)))}"
    return Releases(
        events=allocation.joint_events([(p.share.analysis, p.event) for p in planned]),
        name=f"the plan below ({planner_view.count_text(len(planned))})",
        relation=plan.relation,
        protects=protected_change(plan.relation, plan.rows_per_person),
        batches="Every analysis uses all rows.",
        composition=texts.FIXED_SHARES,
        constants=constants,
    )


def _take_columns(panel: Panel, table: EditedTable) -> None:
    """Draw a panel that adds columns of a visitor's file to the table: their names, and the number of rows.

    Keys, cut points, conditions and groups are read from the values only if the visitor wants that; the lines say so.
    """
    with st.expander("Take columns from a file", icon=":material/upload_file:"):
        st.markdown(texts.FROM_A_FILE)
        file = choose_file(panel.page, NamesOnlyFile)
        if file is None:
            return
        is_proposing = st.toggle(
            "Propose from its values (not private)",
            key=panel.key("columns_values"),
            help=texts.PROPOSE_HELP,
            on_change=read_again,  # as the values are forgotten below
            args=(panel.page, NamesOnlyFile),
        )
        if not is_proposing:
            file.frame = file.frame[[]]  # forget the values before the page shows anything of the file
        left, right = st.columns(2)
        columns_by_name = columns_of(file)
        help = "A name that is a number is not shown: without a header it would be a person's value."
        names = left.multiselect(
            "Columns", [*columns_by_name], key=panel.key("columns"), max_selections=MAX_ROWS, help=help
        )
        kind = right.selectbox("Asked of each", [*KINDS], index=[*KINDS].index("Mean"), key=panel.key("columns_kind"))
        ending = ":" if kind == Histogram.title else ""  # the bins of a histogram follow it
        lines = [f"{declared.quoted(name)}{ending}" for name in names]
        if is_proposing:
            values = {name: file.frame[column] for name, column in columns_by_name.items()}
            by: str | None = None
            groups: tuple[str, pd.Series] | None = None
            if issubclass(KINDS[kind], GroupableStatistic):
                by_names = [name for name in values if not is_numeric_dtype(values[name])]
                by = right.selectbox("By the groups of", by_names, index=None, key=panel.key("columns_by"))
                groups = None if by is None else (by, values[by])
            lines = [
                file.compute_once((kind, name, by), partial(declared.proposal, KINDS[kind], name, values[name], groups))
                for name in names
            ]
        rows = len(file.frame) if relation(panel) == "replace-one" else None  # else n is secret
        st.button(
            "Add to the table" + (f", with n = {rows:,}" if rows is not None else ""),
            on_click=_add,
            args=(panel, table, [(name[:60], kind, line) for name, line in zip(names, lines, strict=True)], rows),
            disabled=not names,
            key=panel.key("columns_add"),
        )


def columns_of(file: File) -> dict[str, str]:
    """Return the columns of a file by the name that is shown: its own, or its position if that is a number or a date.

    In a file without a header such a name is a value of the first row, which may be private.
    """
    names = [column.name for column in file.columns]
    number_or_date = re.compile(r"[\d\s.,:/+-]*")
    return {
        f"Column {position}" if number_or_date.fullmatch(name) else name: name for position, name in enumerate(names, 1)
    }


def _add(panel: Panel, table: EditedTable, analyses: Sequence[tuple[str, str, str]], rows: int | None) -> None:
    """Add analyses, each a name, a kind and a line, and set the number of rows unless that is None; for callbacks.

    The share is 1. All other cells stay empty: ranges must not be read from the file.
    """
    table.add([(*analysis, None, None, None, None, 1.0, None, None, None) for analysis in analyses])
    panel.set_values({"columns": []} if rows is None else {"rows": rows, "columns": []})


def _declare_known(table: EditedTable) -> None:
    """Make all proposals of the table declarations; for callbacks."""
    position = COLUMNS.index(DECLARED)
    table.replace(
        [
            (*row[:position], declared.without_mark(row[position] or ""), *row[position + 1 :])
            for row in table.rows(is_open=False)
        ]
    )


def _show_details(plan: Analyses, budget: Budget, delta: float, wanted: float) -> None:
    """Draw the numbers of every analysis, how far a row moves it, the cost of all together, and the same in Python."""
    planned = plan.planned(budget)
    errors_at_once = pd.Series([p.largest_error for p in planned], dtype=float)  # missing for a single number
    show_table(
        pd.DataFrame(
            {
                "Analysis": [p.statistic.name for p in planned],
                "95 % error": [rounded_up(p.error, digits=4) for p in planned],
                "All at once": errors_at_once.map(partial(rounded_up, digits=4)),
                "Unit": [p.statistic.unit or "as the column" for p in planned],
                "Standard deviation": pd.Series([p.standard_deviation for p in planned], dtype=float),
                "Noise": [f"{SYMBOLS[p.noise]} = {short_up(p.scale)}" for p in planned],
                "Sensitivity": [p.sensitivity for p in planned],
                "Share": [p.share.fraction for p in planned],
                "Costs": [described(p.event) for p in planned],
                "Rows needed": [float(p.rows_needed(wanted)) for p in planned],  # may exceed 64 bits
                "for an error of": [f"{short(100 * wanted)} % of {p.statistic.reference_name}" for p in planned],
                "Asked": [p.statistic.description for p in planned],
            }
        ),
        column_config=column_configs(TABLES["planned"], Sensitivity={"help": TERMS["sensitivity"].sentence}),
        placeholder="—",
        alt="Error, noise, sensitivity, share, cost and rows needed of every analysis",
    )
    st.caption(f"{texts.ERRORS} {SETTINGS_ONLY}")
    drowned = [escape_name(p.statistic.name) for p in planned if p.is_drowned]
    if drowned:
        st.warning(texts.DROWNED.format(lost=", ".join(drowned), rows=plan.rows))
    st.subheader("How far one row moves each of them", anchor=False)
    if plan.rows_per_person > 1:
        k = f"{plan.rows_per_person:,}"
        st.markdown(f"The {k} rows of a person together move each of them {k} times as far, which the noise pays for.")
    st.markdown("\n".join(f"- **{escape_name(p.statistic.name)}**. {p.why}" for p in planned))
    st.markdown(f"**All together** ({budget.describe()} was given):")
    planner_view.show_cost(allocation.joint_guarantee([p.share for p in planned], delta))
    kinds = sorted({type(p.statistic).__name__ for p in planned})
    planner_view.in_python(
        f"from dpviz.privacy.statistics.analyses import {', '.join(['Analyses', *kinds])}\n"
        f"from dpviz.privacy.budgets import {type(budget).__name__}\n\nplan = {plan.to_python()}\n"
        f"for planned in plan.planned({budget.to_python()}):\n"
        "    print(planned.statistic.name, planned.scale, planned.error)"
    )


def _show_program(panel: Panel, plan: Analyses, budget: Budget, delta: float) -> str:
    """Draw the program that releases the plan with OpenDP, and the choice by whose count of the privacy loss it meets
    the budget; return the program."""
    st.subheader("Release it with OpenDP", anchor=False)
    counting: opendp.Counting = "opendp"
    if not isinstance(budget, GaussianDP):
        counting = panel.choice("counting", "Whose count meets the budget", COUNTINGS, counting, texts.COUNTING_HELP)  # type: ignore[assignment]
    st.markdown(f"{opendp.accounting_note(opendp.releases(plan, budget, counting), budget, counting)} {texts.OPENDP}")
    program = opendp.to_opendp(plan, budget, delta, counting)
    with st.expander("The program", icon=":material/code:"):
        st.code(program, language="python", height=500)
    return program


def _table(panel: Panel) -> EditedTable:
    """Return the table of analyses, which the visitor edits."""
    return EditedTable(
        panel,
        "analyses",
        column_configs(TABLES["analyses"], kind={"options": [*KINDS]}),
        numbers=COLUMNS[3:],  # those after name, kind and line
        start=DEFAULT,
        alt="The analyses: name, kind, declared column, condition or bins, declared range, bins, level, share, error "
        "you accept, typical value, spread",
    )
