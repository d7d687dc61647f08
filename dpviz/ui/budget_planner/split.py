"""Splitting a budget over several analyses: a small table, its total in every currency, and the noise of each part."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dpviz.errors import UserError
from dpviz.plots import planner_figures
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import described
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.allocation import Analysis, Share
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.ui.budget_planner import view as planner_view
from dpviz.ui.budget_planner.editing import EditedTable
from dpviz.ui.budget_planner.view import Releases
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.experiment.controls import CURRENCIES
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.tables import show_table
from dpviz.ui.terms import TERMS

NAME, MECHANISM, WEIGHT, MOVE, SET, CURRENCY, AMOUNT, DELTA = (
    "analysis",
    "mechanism",
    "weight",
    "sensitivity",
    "rows",
    "own guarantee",
    "amount",
    "δ",
)
COLUMNS = (NAME, MECHANISM, WEIGHT, MOVE, SET, CURRENCY, AMOUNT, DELTA)
SHARE = "share of the total"
MECHANISMS = {
    "laplace": "Laplace",
    "gaussian": "Gaussian",
    "selection": "Selection",
    "any": "Only a guarantee is known",
}
DEFAULT: tuple[tuple[Any, ...], ...] = (
    ("Training", "Laplace", 4.0, 1.0, "", SHARE, None, None),
    ("Summary table", "Laplace", 1.0, 1.0, "", SHARE, None, None),
    ("Survey by a partner", MECHANISMS["any"], 1.0, 1.0, "", "Pure ε", 0.2, None),
)
RULES = {"optimal": "Least noise", "proportional": "Like the weights"}


def view(panel: Panel, means: NoisyMeans, budget: Budget, delta: float, is_open: bool) -> tuple[Shown, Releases | None]:
    """The table; while the tab is open, the split, the total, and what all of it does to privacy."""
    st.markdown(
        "Several analyses of the same people. Each gets a **share of the total** (the guarantee in the sidebar) or "
        "states a **guarantee of its own** in its own currency. Analyses with the same entry under *rows* use the same "
        "rows; different entries mean disjoint sets of rows, fixed without looking at them; empty means all rows."
    )
    table = _table(panel).rows(is_open)
    rule = panel.choice(
        "rule", "Shares", RULES, "optimal", "Least noise minimises the sum of weight × variance over all analyses."
    )
    if not is_open:
        return [], None
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
        column_config={
            "Share": st.column_config.NumberColumn(format="percent", help="Of the total; empty: its own guarantee."),
            "Noise scale": st.column_config.NumberColumn(format="%.4g", help="b, σ, or that of the Gumbel noise."),
        },
        placeholder="—",
        alt="Share of the budget, noise scale and cost of every analysis",
    )
    total = allocation.together(shares, delta)
    st.markdown(f"**All together** ({budget.describe()} was given):")
    planner_view.of_events(total)
    parts = _percents(shares)
    shown: Shown = []
    if parts:
        shown = planner_view.show(
            planner_figures.bars(parts, "Share of the total [%]", unit=" %"),
            "planner_chart_split",
            "Shares of the budget",
            "Share of the budget of every analysis",
            f"Of {type(budget).name}. A share of an analysis on rows of its own costs nothing to the others. "
            f"{SETTINGS_ONLY}",
        )
    _in_python(budget, analyses, rule)
    return shown, _releases(shares, means)


def _releases(shares: Sequence[Share], means: NoisyMeans) -> Releases:
    return Releases(
        events=allocation.composed([(share.analysis, share.event) for share in shares]),
        name=f"the split below ({planner_view.analyses(len(shares))})",
        protects=planner_view.NEIGHBOURS[means.relation],
        batches="Every analysis uses all rows, or those that its row of the table names; a row is in one such set.",
        composition="Shares are fixed in advance. The tightest accountant that applies is used; each is valid.",
        constants="Sensitivities and guarantees are as you state them, for the neighbours above.",
    )


def _in_python(budget: Budget, analyses: Sequence[Analysis], rule: str) -> None:
    """The split as a program."""
    with st.expander("The same in Python", icon=":material/code:"):
        rows = "\n".join(f"    {analysis.to_python()}," for analysis in analyses)
        used = sorted({type(budget).__name__, *(type(a.budget).__name__ for a in analyses if a.budget is not None)})
        st.code(
            f"from dpviz.privacy.budgets import {', '.join(used)}\n"
            f"from dpviz.privacy.statistics.allocation import Analysis, split\n\nanalyses = [\n{rows}\n]\n"
            f'for share in split({budget.to_python()}, analyses, rule="{rule}"):\n'
            "    print(share.analysis.name, share.noise_scale)",
            language="python",
        )


def _percents(shares: Sequence[Share]) -> dict[str, float]:
    """Those of the analyses that have a share; a second one of the same name is numbered."""
    found: dict[str, float] = {}
    for number, share in enumerate(shares, 1):
        if share.fraction is not None:
            name = share.analysis.name
            found[f"{name} ({number})" if name in found else name] = 100 * share.fraction
    return found


def _table(panel: Panel) -> EditedTable:
    return EditedTable(
        panel,
        "split",
        {
            NAME: st.column_config.TextColumn("Analysis", required=True, default="Analysis", max_chars=60),
            MECHANISM: st.column_config.SelectboxColumn(
                "Mechanism", options=list(MECHANISMS.values()), required=True, default="Laplace"
            ),
            WEIGHT: st.column_config.NumberColumn(
                "Weight", default=1.0, min_value=1e-6, help="How much the variance of its noise matters."
            ),
            MOVE: st.column_config.NumberColumn(
                "Sensitivity", default=1.0, min_value=1e-9, help=TERMS["sensitivity"].sentence
            ),
            SET: st.column_config.TextColumn("Rows", default="", help="Name of a disjoint set of rows; empty: all."),
            CURRENCY: st.column_config.SelectboxColumn(
                "Guarantee", options=[SHARE, *(cls.name for cls in CURRENCIES.values())], required=True, default=SHARE
            ),
            AMOUNT: st.column_config.NumberColumn("Amount", help="ε, ρ or μ of its own guarantee."),
            DELTA: st.column_config.NumberColumn("δ", format="%.1e", help="Of an (ε, δ) guarantee of its own."),
        },
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
