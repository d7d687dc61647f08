"""Splitting a budget over several analyses: a small table, its total in every currency, and the noise of each part."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dpviz import resources
from dpviz.errors import UserError
from dpviz.plots import planner_figures
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import described
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.allocation import MECHANISMS, Analysis, Share
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.ui.budget_planner import texts
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.budget_planner.editing import EditedTable
from dpviz.ui.budget_planner.view import Releases
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.tables import columns, show_table
from dpviz.ui.terms import TERMS

TABLES = resources.data(__package__, "tables.toml")
COLUMNS = ("analysis", "mechanism", "weight", "sensitivity", "rows", "own guarantee", "amount", "δ")
NAME, MECHANISM, WEIGHT, MOVE, SET, CURRENCY, AMOUNT, DELTA = COLUMNS
SHARE = "share of the total"
DEFAULT: tuple[tuple[Any, ...], ...] = (
    ("Training", "Laplace", 4.0, 1.0, "", SHARE, None, None),
    ("Summary table", "Laplace", 1.0, 1.0, "", SHARE, None, None),
    ("Survey by a partner", MECHANISMS["any"], 1.0, 1.0, "", "Pure ε", 0.2, None),
)
RULES = {"optimal": "Least noise", "proportional": "Like the weights"}


def view(panel: Panel, means: NoisyMeans, budget: Budget, delta: float) -> tuple[Shown, Releases | None]:
    """The table, the split, the total, and what all of it does to privacy."""
    st.markdown(texts.SPLIT)
    table = _table(panel).rows(is_open=True)
    rule = panel.choice("rule", "Shares", RULES, "optimal", texts.RULE_HELP)
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
        column_config=columns(TABLES["shares"]),
        placeholder="—",
        alt="Share of the budget, noise scale and cost of every analysis",
    )
    total = allocation.together(shares, delta)
    st.markdown(f"**All together** ({budget.describe()} was given):")
    planner_view.of_events(total)
    parts = planner_view.by_name((s.analysis.name, s.fraction and 100 * s.fraction) for s in shares)
    shown: Shown = []
    if parts:
        figure = planner_figures.bars(parts, "Share of the total [%]", unit=" %")
        shown = planner_view.chart("split", figure, budget=type(budget).name)
    _in_python(budget, analyses, rule)
    return shown, _releases(shares, means)


def _releases(shares: Sequence[Share], means: NoisyMeans) -> Releases:
    return Releases(
        events=allocation.composed([(share.analysis, share.event) for share in shares]),
        name=f"the split below ({planner_view.analyses(len(shares))})",
        protects=planner_view.NEIGHBOURS[means.relation],
        batches=texts.OWN_ROWS,
        composition=texts.ACCOUNTED,
        constants=texts.STATED,
    )


def _in_python(budget: Budget, analyses: Sequence[Analysis], rule: str) -> None:
    """The split as a program."""
    rows = "\n".join(f"    {analysis.to_python()}," for analysis in analyses)
    used = sorted({type(budget).__name__, *(type(a.budget).__name__ for a in analyses if a.budget is not None)})
    planner_view.in_python(
        f"from dpviz.privacy.budgets import {', '.join(used)}\n"
        f"from dpviz.privacy.statistics.allocation import Analysis, split\n\nanalyses = [\n{rows}\n]\n"
        f'for share in split({budget.to_python()}, analyses, rule="{rule}"):\n'
        "    print(share.analysis.name, share.noise_scale)"
    )


def _table(panel: Panel) -> EditedTable:
    edited = columns(
        TABLES["split"],
        mechanism={"options": [*MECHANISMS.values()]},
        sensitivity={"help": TERMS["sensitivity"].sentence},
        **{CURRENCY: {"options": [SHARE, *(cls.name for cls in CURRENCIES.values())], "default": SHARE}},
    )
    return EditedTable(
        panel,
        "split",
        edited,
        numbers=(WEIGHT, MOVE, AMOUNT, DELTA),
        start=DEFAULT,
        alt="The analyses: name, mechanism, weight, sensitivity, rows, own guarantee",
    )


def _analysis(row: tuple[Any, ...]) -> Analysis:
    """One row of the table. Raises UserError that names the analysis."""
    values = dict(zip(COLUMNS, row, strict=True))
    name = values[NAME] or "Analysis"
    mechanism = next((key for key, title in MECHANISMS.items() if title == values[MECHANISM]), None)
    if mechanism is None:
        raise UserError(f"Choose a mechanism for {name}.", title="A mechanism is missing")
    own = next((cls for cls in CURRENCIES.values() if cls.name == values[CURRENCY]), None)
    parts = {"name": name, "noise": mechanism, "rows": values[SET] or "", "weight": values[WEIGHT]}
    parts |= {"sensitivity": values[MOVE]}
    try:
        if own is not None:
            if values[AMOUNT] is None:
                raise UserError("State the amount of its guarantee.", title="An amount is missing")
            fields = {own.controls()[0].name: values[AMOUNT]}
            if len(own.controls()) > 1 and values[DELTA] is not None:
                fields[own.controls()[1].name] = values[DELTA]
            parts |= {"budget": Settings(own, fields).build()}
        return Settings(Analysis, {key: value for key, value in parts.items() if value is not None}).build()
    except UserError as error:
        raise UserError(f"{name}: {error}", title=error.title) from error
