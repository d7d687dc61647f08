"""Closer looks at what settings buy: where the budget goes, rows for a target gap, the paper's bound and table."""

from collections.abc import Callable

import streamlit as st

from dpviz.families.mirror_descent import (
    CertifiedSampling,
    choice_figures,
    planning,
    presets,
    rates,
    theory,
)
from dpviz.numbers import short
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.specification import Control
from dpviz.ui import charts
from dpviz.ui.controls import Panel, mistake
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.explain import SETTINGS_ONLY
from dpviz.ui.mirror_descent import players
from dpviz.ui.mirror_descent.plan import facts_of, sampling
from dpviz.ui.tables import show_table

HEIGHT = 380
TARGET = Control(
    "target_gap", "Target gap", "The gap that you could live with.", 0.1, float, 0.001, 2.0, symbol="α", scale="log"
)
REALS = ("Rate", "of which privacy", "Known before", "τ")
COLUMNS = {
    "Rate": "Bound on the gap, all unknown constants set to 1.",
    "of which privacy": "The part of the rate that is due to privacy; the rest is sampling error.",
    "Known before": "The best rate that was known before this paper, with constants 1 as well.",
    "By": "Whose rate that is. In ℓ₂: a rate for Euclidean balls, times the length of gradients on a simplex.",
    "T": "Rounds.",
    "K": "Vertices that each player draws per round.",
    "B": "Rows per round.",
    "τ": "Step size.",
    "U": "Theorem 4.3: units of B rows after which it stops. Theorem 5.1: rounds between two new sets of draws.",
}


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
    mechanism = "Laplace" if budget.pure else "Gaussian"
    charts.show(
        choice_figures.certificate(facts, budget, chosen=chosen, height=HEIGHT),
        panel.key("chart_certificate"),
        "For a certificate of the gap",
        "Width that a certificate adds to the gap, and how much shorter steps get, against its share of the budget",
        "The gap of the output is a diagnostic, unless a part of the budget pays for it: one row moves it by at most "
        f"{short(facts.gap_change)}/n. The method “{presets.CERTIFIED}” releases it once, at the end, with {mechanism} "
        f"noise, plus so much that the sum is an upper bound with 95 % confidence. {SETTINGS_ONLY}",
    )


def _group_shares(panel: Panel, shown: PlanView) -> None:
    problem = shown.experiment.problem
    assert isinstance(problem, GroupLoss | LossMatrix)
    data = problem.data.facts()
    paid = f"Spent on them: ε = {' + '.join(map(short, data.shares_costs))}. " if data.shares_costs else ""
    charts.show(
        choice_figures.group_shares(data.n, data.smallest_share, shown.experiment.budget, height=HEIGHT),
        panel.key("chart_shares"),
        "For the groups' shares",
        "Error of the smallest share, and how much noisier the run gets, against the ε that buys the shares",
        "Shares are declared here, or bought for an ε that comes off the run's budget (Laplace noise of scale 2/ε on "
        f"the numbers of rows). {paid}Worth it where both curves are low: a wrong share re-weights its group by "
        f"as much. {SETTINGS_ONLY}",
    )


# --------------------------------------------------------------------------------------------------- rows for a target


def rows_for_gap(panel: Panel, shown: PlanView) -> None:
    """How many rows a target gap needs, by the bound and by what was measured."""
    st.markdown(
        "How many rows would a given gap need at this budget? The bound holds for every data set and is loose; the "
        "other curves are medians of runs on generated data at these rounds, and stop where nothing was measured."
    )
    if not shown.experiment.budget.private:
        st.info("Without privacy the bound does not depend on the number of rows.")
        return
    with st.columns([1, 2])[0]:
        target = panel.number(TARGET, TARGET.name)
    if mistake(TARGET, target) or target is None:
        return
    facts, method = facts_of(shown), sampling(shown)
    figure, needed = choice_figures.rows_for_gap(
        shown.experiment.problem,
        facts,
        shown.experiment.budget,
        float(target),
        method.iterations,
        shown.styles,
        draws=method.each_draws,
        height=HEIGHT,
    )
    bias = theory.sampling_bias(planning.players(facts, method.each_draws))
    why = f" Sampling alone can cost {short(bias)} in the bound: draw more vertices." if bias >= target else ""
    told = [f"{name}: {f'{count:,.0f}' if count else 'not in reach'}" for name, count in needed.items()]
    charts.show(
        figure,
        panel.key("chart_rows"),
        f"Rows for a gap of {short(target)}",
        "Expected gap against the number of rows, by the bound and by measured medians, with the target",
        f"Rows needed: {'; '.join(told)}. You have {facts.n:,}.{why} Bound: all rows in every round, the best T up to "
        f"100,000, the best split. {SETTINGS_ONLY}",
    )


# ------------------------------------------------------------------------------------------------------ paper's bound


def paper_bound(panel: Panel, shown: PlanView) -> None:
    """The paper's error bound beside the direct one."""
    st.markdown(
        "The paper bounds the gap of averages that are drawn **afresh** (Lemma 4.2) around the hidden weights' "
        "averages. The direct analysis bounds the gap of the vertices that were played. Both hold for every data set."
    )
    budget, facts, method = shown.experiment.budget, facts_of(shown), sampling(shown)
    if not isinstance(budget, ApproximateDP):
        st.info("The paper states its bound for (ε, δ)-DP. State the guarantee as (ε, δ) to compare.")
        return
    if not facts.oscillation_x:
        st.info("The paper's bound is about players who both read data.")
        return
    figure = choice_figures.paper_beside(
        facts,
        budget,
        draws=method.draws,
        share_x=method.own_share,
        height=HEIGHT,
    )
    lowest = choice_figures.smallest(figure, (choice_figures.DIRECT, choice_figures.PAPERS))
    told = "; ".join(f"{name} {short(y)} at T = {x:,.0f}" for name, (x, y) in lowest.items())
    charts.show(
        figure,
        panel.key("chart_paper_bound"),
        "The paper's bound and ours",
        "Bound on the gap against the rounds: direct with all rows, direct in a single pass, the paper's, Lemma 4.2",
        f"Lowest: {told}. K = {method.draws}. The paper's step is min(√(ℓ/T)/L₀, its privacy cap); its other terms are "
        f"regret and the bias of gradients. {SETTINGS_ONLY}",
    )


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
            for name, help in COLUMNS.items()
        },
        alt="The paper's theorems with rate, best rate known before, rounds, draws, batch and step size",
    )
    st.caption(
        "Rates with unit constants; ln(1/δ) is kept in all. **Known before** is put together here: the paper's own "
        "table says “None” there, but for bilinear games (Hardt, Rothblum) and one row of minimisation (Asi et al.). "
        "Games with rates in ln d were linear queries only; for minimisation the paper's rate is not the best, but its "
        f"methods are the first ones without Frank-Wolfe steps. {SETTINGS_ONLY}"
    )
