"""Closer looks at what settings buy: where the budget goes, rows for a target gap, the paper's bound and table."""

from collections.abc import Callable

import streamlit as st

from dpviz.families.mirror_descent import CertifiedSampling, choice_figures, planning, rates, texts
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.specification import Control
from dpviz.ui import charts
from dpviz.ui.controls import Panel, mistake
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.markdown import show_table
from dpviz.ui.mirror_descent import players
from dpviz.ui.mirror_descent.plan import facts_of, sampling

TARGET = Control(
    "target_gap", "Target gap", "The gap that you could live with.", 0.1, float, 0.001, 2.0, symbol="α", scale="log"
)
REALS = ("Rate", "of which privacy", "Known before", "τ")


# ------------------------------------------------------------------------------------------------ where the budget goes


def budget_split(panel: Panel, shown: PlanView) -> None:
    """How the budget is split: between the players, for a certificate, for the groups' shares."""
    facts, budget, problem = facts_of(shown), shown.experiment.budget, shown.experiment.problem
    if not budget.private:
        st.info("Without privacy there is no budget to split.")
        return
    parts: list[Callable[[], None]] = []
    if planning.both_pay(facts):
        players.show(panel, shown)
    if facts.gap_change:
        parts.append(lambda: _certificate(panel, shown))
    if isinstance(problem, GroupLoss | LossMatrix):
        parts.append(lambda: _group_shares(panel, shown))
    if not (parts or planning.both_pay(facts)):
        st.info("One player pays for everything here, and there is nothing else to buy.")
        return
    for start in range(0, len(parts), 2):
        for column, part in zip(st.columns(2, gap="medium"), parts[start : start + 2], strict=False):
            with column:
                part()


def _certificate(panel: Panel, shown: PlanView) -> None:
    facts, budget = facts_of(shown), shown.experiment.budget
    arms = (arm.algorithm for arm in shown.experiment.arms)
    chosen = next((method.certificate_share for method in arms if isinstance(method, CertifiedSampling)), None)
    charts.show(choice_figures.certificate(facts, budget, chosen=chosen), panel.key("chart_certificate"))


def _group_shares(panel: Panel, shown: PlanView) -> None:
    problem = shown.experiment.problem
    assert isinstance(problem, GroupLoss | LossMatrix)
    data = problem.data.facts()
    chart = choice_figures.group_shares(
        data.n, data.smallest_share, shown.experiment.budget, costs_paid=data.shares_costs
    )
    charts.show(chart, panel.key("chart_shares"))


# --------------------------------------------------------------------------------------------------- rows for a target


def rows_for_gap(panel: Panel, shown: PlanView) -> None:
    """How many rows a target gap needs, by the bound and by what was measured."""
    st.markdown(texts.ROWS_NEEDED)
    if not shown.experiment.budget.private:
        st.info("Without privacy the bound does not depend on the number of rows.")
        return
    with st.columns([1, 2])[0]:
        target = panel.number(TARGET, TARGET.name)
    if mistake(TARGET, target) or target is None:
        return
    facts, method = facts_of(shown), sampling(shown)
    chart, _ = choice_figures.rows_for_gap(
        shown.experiment.problem,
        facts,
        shown.experiment.budget,
        float(target),
        method.iterations,
        shown.styles,
        draws=method.each_draws,
    )
    charts.show(chart, panel.key("chart_rows"))


# ------------------------------------------------------------------------------------------------------ paper's bound


def paper_bound(panel: Panel, shown: PlanView) -> None:
    """The paper's error bound beside the direct one."""
    st.markdown(texts.TWO_ANALYSES)
    budget, facts, method = shown.experiment.budget, facts_of(shown), sampling(shown)
    if not isinstance(budget, ApproximateDP):
        st.info("The paper states its bound for (ε, δ)-DP. State the guarantee as (ε, δ) to compare.")
        return
    if not facts.oscillation_x:
        st.info("The paper's bound is about players who both read data.")
        return
    chart = choice_figures.paper_beside(facts, budget, draws=method.draws, share_x=method.own_share)
    charts.show(chart, panel.key("chart_paper_bound"))


# ------------------------------------------------------------------------------------------------------ paper's table


def table(shown: PlanView) -> None:
    """The paper's Table 1 at the user's size, with the best rates before it."""
    st.markdown("Rates and parameters of the paper's theorems at your size, and what was known before it.")
    budget, facts = shown.experiment.budget, facts_of(shown)
    if not isinstance(budget, ApproximateDP):
        st.info("The paper states its rates for (ε, δ)-DP. State the guarantee as (ε, δ) to see the table.")
        return
    if isinstance(shown.experiment.problem, MarginalQueries):
        rows: list[tuple[rates.Setting, rates.Previous | None]] = [
            (
                rates.synthetic_setting(facts.n, facts.d_x, facts.d_y // 2, budget.epsilon, budget.delta),
                rates.queries_before(facts.n, facts.d_x, facts.d_y // 2, budget.epsilon, budget.delta),
            )
        ]
    else:
        sizes = planning.sizes(facts, budget)
        rows = [(row, rates.previous(sizes, row.result)) for row in rates.settings(sizes)]
    show_table(
        [
            {
                "Result": row.theorem,
                "Rate": row.rate,
                "of which privacy": row.private_rate,
                "Known before": before.rate if before else None,
                "By": before.source if before else None,
                "T": row.rounds,
                "K": row.draws,
                "B": row.batch,
                "τ": row.step_size,
                "U": row.stop or row.refresh,
            }
            for row, before in rows
        ],
        placeholder="–",
        column_config={
            name: st.column_config.TextColumn(help=help)
            if name == "By"
            else st.column_config.NumberColumn(help=help, format="%.3g" if name in REALS else "localized")
            for name, help in texts.COLUMNS["theorems"].items()
        },
        alt="The paper's theorems with rate, best rate known before, rounds, draws, batch and step size",
    )
    st.caption(f"{texts.RATES} {SETTINGS_ONLY}")
