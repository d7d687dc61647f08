"""The budget between two players and their draws (THEORY.md, 10.3, 10.4): any split keeps it, none beats the best."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpviz.errors import UserError
from dpviz.families.mirror_descent import BiasReduced, SyntheticData, VertexSampling, bounds, presets, rates
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.closed_forms import exponential_rho
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech, Repeat, inner_events
from dpviz.problems.games.group_loss import GroupLoss
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.simplex_learning import SparseRegression
from tests.strategies import steady

GROUPS, GAME = GroupLoss().facts(), MatrixGame().facts()
RHO = ZeroConcentratedDP(rho=0.05)
BUDGETS: tuple[Budget, ...] = (ApproximateDP(epsilon=1.0, delta=1e-6), RHO, GaussianDP(mu=0.3), PureDP(epsilon=1.0))
NOISY = ("DP-SGDA", "Gaussian mirror descent")
METHODS = ("Vertex sampling", "Single pass", "Fresh draws", "Bias-reduced", *NOISY)
some = st.floats(0.05, 0.95)


@steady
@given(some, st.sampled_from(METHODS), st.sampled_from(BUDGETS))
def test_whatever_the_split_the_budget_is_kept_and_spent(share: float, label: str, budget: Budget) -> None:
    if budget.pure and label in NOISY:
        return
    plan = presets.METHODS[label].replaced(share_x=share).plan(GROUPS, budget)
    if isinstance(budget, ApproximateDP):
        spent = accountants.tightest(plan.events, budget.delta).epsilon
    else:
        spent = budget.cost(plan.events)
    assert 0.97 * budget.amount <= spent <= budget.amount * (1 + 1e-9)
    assert plan.resolved["share_x"] == share
    if label in NOISY:  # what a player pays goes with 1/σ², by the change that one row makes
        paid = [(change * d**0.5 / plan.noise[name][0]) ** 2 for name, change, d in _players()]
        assert paid[0] / sum(paid) == pytest.approx(share)


def _players() -> list[tuple[str, float, int]]:
    return [("x", GROUPS.change_x, GROUPS.d_x), ("y", GROUPS.change_y, GROUPS.d_y)]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("label", METHODS)
def test_no_split_has_a_smaller_bound_than_the_best_one(label: str, budget: Budget) -> None:
    if budget.pure and label in NOISY:
        return
    method = presets.METHODS[label]
    methods = [method.replaced(share_x=share) for share in (0.05, 0.3, 0.5)]
    told = [bounds.compare_splits(m, m.plan(GROUPS, budget)) for m in methods]
    taken = bounds.compare_splits(best := method.replaced(split="bound"), best.plan(GROUPS, budget))
    assert taken is not None and taken.yours == taken.best and 0.5 < taken.best_share < 0.95
    for one in told:
        # Under (ε, δ) the optimum is that of a budget in ρ, of which the tightest accountant makes a little more.
        assert one is not None and one.best <= min(one.yours, one.even) and one.best == taken.best
    assert told[2].yours == told[2].even  # type: ignore[union-attr]
    near = method.replaced(share_x=taken.best_share * 0.97)
    beside = bounds.compare_splits(near, near.plan(GROUPS, budget))
    assert beside is not None and taken.best <= beside.yours * (1 + 1e-6) <= taken.best * 1.01


def cost(plan, player: str, draws: int) -> float:
    return draws * float(exponential_rho(plan.schedule[f"range_{player}"]).sum())


@pytest.mark.parametrize("batching", ["full", "single"])
def test_each_player_pays_for_its_own_draws(batching: str) -> None:
    """K_x Σ η_x² and K_y Σ η_y² in proportion to the shares; events of 5 draws and of 2."""
    plan = VertexSampling(draws=5, draws_y=2, share_x=0.7, batching=batching).plan(GROUPS, RHO)
    assert cost(plan, "x", 5) == pytest.approx(0.035, rel=2e-3) and cost(plan, "y", 2) == pytest.approx(0.015, rel=4e-3)
    assert accountants.total(plan.events, "rho") == pytest.approx(0.05, rel=1e-5)
    assert [len(inner_events(event)) for event in plan.events[:4]] == [5, 2, 5, 2]
    assert (plan.resolved["draws"], plan.resolved["draws_y"], plan.resolved["share_x"]) == (5, 2, 0.7)


def test_the_papers_composition_counts_the_draws_of_both() -> None:
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    paper = VertexSampling(accounting="paper", batching="single", draws=6, draws_y=2)
    expected = float(rates.tau_paper(64, 78, 1.0, 1e-6, 1.0, 4))
    assert paper.plan(GAME, budget).resolved["step_size_x"] == pytest.approx(expected)


def test_the_split_follows_the_formula_of_the_step_sizes() -> None:
    """Section 10.3: τ_x in proportion to (ln d_x/osc_x²)^⅓, for one draw each."""
    found = VertexSampling(split="bound").plan(GROUPS, RHO).resolved
    expected = [
        (math.log(d) / osc**2) ** (1 / 3)
        for d, osc in ((GROUPS.d_x, GROUPS.oscillation_x), (GROUPS.d_y, GROUPS.oscillation_y))
    ]
    assert found["step_size_x"] / found["step_size_y"] == pytest.approx(expected[0] / expected[1], rel=1e-9)
    reduced = BiasReduced(split="bound").plan(GROUPS, RHO).resolved
    assert reduced["step_size_x"] / reduced["step_size_y"] == pytest.approx(expected[0] / expected[1], rel=1e-9)
    alone = VertexSampling(split="bound", draws_y=3).plan(SparseRegression().facts(), RHO)
    assert alone.resolved["share_x"] == 1.0 and all(isinstance(event, ExpMech) for event in alone.events)


def test_synthetic_data_has_its_own_theorem() -> None:
    """T = n ε √ln|Z|/(ln q √Λ) = 1,380 at 10,000 rows, 480 cells and 127 queries, and one draw (section 5.3)."""
    facts, budget = MarginalQueries().facts(), ApproximateDP(epsilon=1.0, delta=1e-6)
    asked = 10_000 * math.sqrt(math.log(480)) / (math.log(127) * math.sqrt(math.log(1e6)))
    assert rates.synthetic_setting(10_000, 480, 127, 1.0, 1e-6).rounds == round(asked) == 1380
    few = ApproximateDP(epsilon=0.5, delta=1e-6)
    plan = SyntheticData(iterations=1024, parameters="synthetic", draws=7).plan(facts, few)
    assert plan.iterations == 690 and plan.resolved["draws_y"] == 1 and not plan.notes
    cut = SyntheticData(parameters="synthetic").plan(facts, budget)
    assert cut.iterations == 256 and "Theorem G.1 asks for T = 1,380" in cut.notes[0]
    with pytest.raises(UserError, match=r"choose Theorem G\.1"):
        SyntheticData(parameters="bilinear").plan(facts, budget)
    with pytest.raises(UserError, match=r"Choose Theorem 4\.1"):
        VertexSampling(parameters="synthetic").plan(GAME, budget)
    drawn = SyntheticData(draws=2, draws_y=5).plan(facts, budget)
    assert all(isinstance(event, Repeat) and event.times == 5 for event in drawn.events)
