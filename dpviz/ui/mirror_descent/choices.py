"""Tabs on the effect of settings: where the budget goes, rows for a target gap, the paper's bound and table."""

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


def budget_split(panel: Panel, view: PlanView) -> None:
    """Draw the splits of the budget: between the players, for a certificate, for the groups' shares."""
    facts, budget, problem = facts_of(view), view.experiment.budget, view.experiment.problem
    if not budget.private:
        st.info("Without privacy there is no budget to split.")
        return
    parts: list[Callable[[], None]] = []
    if planning.both_pay(facts):
        players.show(panel, view)
    if facts.gap_change:
        parts.append(lambda: _certificate(panel, view))
    if isinstance(problem, GroupLoss | LossMatrix):
        parts.append(lambda: _group_shares(panel, view))
    if not (parts or planning.both_pay(facts)):
        st.info("One player pays for everything here, and there is nothing else to buy.")
        return
    for start in range(0, len(parts), 2):
        for column, part in zip(st.columns(2, gap="medium"), parts[start : start + 2], strict=False):
            with column:
                part()


def _certificate(panel: Panel, view: PlanView) -> None:
    facts, budget = facts_of(view), view.experiment.budget
    arms = (arm.algorithm for arm in view.experiment.arms)
    certificate_share = next(
        (method.certificate_share for method in arms if isinstance(method, CertifiedSampling)), None
    )
    charts.show(choice_figures.certificate(facts, budget, chosen=certificate_share), panel.key("chart_certificate"))


def _group_shares(panel: Panel, view: PlanView) -> None:
    problem = view.experiment.problem
    assert isinstance(problem, GroupLoss | LossMatrix)
    data = problem.data.facts()
    chart = choice_figures.group_shares(
        data.n, data.smallest_share, view.experiment.budget, costs_paid=data.shares_costs
    )
    charts.show(chart, panel.key("chart_shares"))


# --------------------------------------------------------------------------------------------------- rows for a target


def rows_for_gap(panel: Panel, view: PlanView) -> None:
    """Draw the rows that a target gap needs, by the bound and by measured runs."""
    st.markdown(texts.ROWS_NEEDED)
    if not view.experiment.budget.private:
        st.info("Without privacy the bound does not depend on the number of rows.")
        return
    with st.columns([1, 2])[0]:
        target = panel.number(TARGET, TARGET.name)
    if mistake(TARGET, target) or target is None:
        return
    facts, method = facts_of(view), sampling(view)
    chart, _ = choice_figures.rows_for_gap(
        view.experiment.problem,
        facts,
        view.experiment.budget,
        float(target),
        method.iterations,
        view.styles,
        draws=method.each_draws,
    )
    charts.show(chart, panel.key("chart_rows"))


# ------------------------------------------------------------------------------------------------------ paper's bound


def paper_bound(panel: Panel, view: PlanView) -> None:
    """Draw the paper's error bound next to the direct one."""
    st.markdown(texts.TWO_ANALYSES)
    budget, facts, method = view.experiment.budget, facts_of(view), sampling(view)
    if not isinstance(budget, ApproximateDP):
        st.info("The paper states its bound for (ε, δ)-DP. State the guarantee as (ε, δ) to compare.")
        return
    if not facts.oscillation_x:
        st.info("The paper's bound is about players who both read data.")
        return
    chart = choice_figures.paper_beside(facts, budget, draws=method.draws, share_x=method.own_share)
    charts.show(chart, panel.key("chart_paper_bound"))


# ------------------------------------------------------------------------------------------------------ paper's table


def table(view: PlanView) -> None:
    """Draw the paper's Table 1 at the user's size, with the best rates known before the paper."""
    st.markdown("Rates and parameters of the paper's theorems at your size, and what was known before it.")
    budget, facts = view.experiment.budget, facts_of(view)
    if not isinstance(budget, ApproximateDP):
        st.info("The paper states its rates for (ε, δ)-DP. State the guarantee as (ε, δ) to see the table.")
        return
    if isinstance(view.experiment.problem, MarginalQueries):
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
                "Known before": previous.rate if previous else None,
                "By": previous.source if previous else None,
                "T": row.rounds,
                "K": row.draws,
                "B": row.batch,
                "τ": row.step_size,
                "U": row.stop or row.refresh,
            }
            for row, previous in rows
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
