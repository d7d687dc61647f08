"""Plan-time choices: the split's curve, rows for a target gap by bound and by measured medians, the paper's bound."""

import math

import numpy as np
import pytest

from dpviz.datasets.games import LatentGame
from dpviz.families.mirror_descent import accuracy, bounds, planning, rates
from dpviz.families.mirror_descent.planning import Sampling
from dpviz.privacy.accounting.closed_forms import zcdp_rho
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.problems.games.group_loss import GroupLoss
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from tests.oracles import games

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
GAME = MatrixGame(data=LatentGame(rows=10_000, strategies_x=1000, strategies_y=1000))


# ------------------------------------------------------------------------------------------------------- paper's bound


def test_the_papers_bound_is_its_terms_and_above_the_direct_one() -> None:
    """Section 5: by hand at T = 100, K = 2, B = 100; and at every T above the direct bound for the same single pass."""
    facts, rounds = GAME.facts(), np.array([10.0, 100.0, 1000.0])
    whole, fresh = bounds.paper_over_rounds(facts, BUDGET, rounds, 2)
    ell, root = 2 * math.log(1000), math.sqrt(math.log(1000))
    step = min(math.sqrt(ell / 100), float(rates.tau_paper(100, 100, 1.0, 1e-6, 1.0, 2)))
    lemma = 2 * math.sqrt(2) * 2 * root / math.sqrt(200) + 4 / 200
    assert fresh[1] == pytest.approx(lemma)
    assert whole[1] == pytest.approx(2 * ell / (100 * step) + 5 * step + lemma)  # linear gradients have no bias
    _, direct = bounds.bound_over_rounds(facts, BUDGET, [10, 100, 1000], Sampling(2, batching="single"))
    assert (whole > direct).all()
    assert (np.diff(fresh) < 0).all()


def test_lemma_4_2_holds_for_fresh_draws_in_a_matrix_game() -> None:
    """E Gap of N fresh vertices each less the gap of the centres, which is 0 at the equilibrium of matching pennies."""
    generator, payoffs = np.random.default_rng(0), np.array([[1.0, -1.0], [-1.0, 1.0]])
    for count in (4, 64):
        x, y = (generator.binomial(count, 0.5, 4000) / count for _ in range(2))
        x, y = (np.column_stack([share, 1 - share]) for share in (x, y))
        gaps = (x @ payoffs).max(axis=1) - (y @ payoffs.T).min(axis=1)
        bound = float(rates.fresh_output_term((math.log(2), math.log(2)), 1.0, count))
        assert 0.2 * bound < gaps.mean() < bound


# ---------------------------------------------------------------------------------------------------------------- rows


def test_rows_by_the_bound_are_those_of_the_closed_form() -> None:
    """Section 5.5: n = 4 L₀² ℓ^1.5 √(4K/(3ρ))/α² at T*; at √3 T* the bound is 12 % lower, so it takes 0.770 of that."""
    facts, rho, target = GAME.facts(), zcdp_rho(1.0, 1e-6), 0.2
    found = bounds.rows_for_gap(facts, BUDGET, target)
    ell = 2 * math.log(1000)
    balanced = 4 * ell**1.5 * math.sqrt(4 / (3 * rho)) / target**2
    assert found == pytest.approx(balanced * ((3**0.25 + 3**-0.75) / 2) ** 2, rel=0.02)
    players = planning.players(facts)
    assert found == pytest.approx(games.sample_size(target, players, (0.5, 0.5), rho, "full_batch"), rel=0.02)
    assert (
        bounds.bound_over_rows(facts, BUDGET, [found])[0]
        <= target
        < bounds.bound_over_rows(facts, BUDGET, [found * 0.99])[0]
    )


@pytest.mark.parametrize("budget", [BUDGET, PureDP(epsilon=1.0), ZeroConcentratedDP(rho=0.05), GaussianDP(mu=0.3)])
@pytest.mark.parametrize("problem", [QuadraticGame(), GroupLoss(), MarginalQueries()], ids=lambda p: p.title)
def test_a_plan_keeps_what_the_rows_promise(problem, budget) -> None:
    """With its rounds, the plan's own bound is no larger: in every currency, and where one player pays alone."""
    facts = problem.facts()
    players = planning.players(facts, (4, 2))
    rounds, bound = accuracy.best_bound(players, facts.n, budget, 400)
    _, kept = bounds.bound_at(facts, budget, rounds, Sampling((4, 2), None))
    assert 0.95 * bound <= kept <= bound * (1 + 1e-6)


def test_the_sampling_bias_no_rows_can_buy_off() -> None:
    facts = CurvedGame(data=LatentGame(rows=2000, strategies_x=30, strategies_y=30)).facts()
    assert bounds.rows_for_gap(facts, BUDGET, 3.9, draws=1) is None  # 2 L₁/K for both players
    assert bounds.rows_for_gap(facts, BUDGET, 0.5, draws=64) is not None
