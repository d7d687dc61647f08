"""Bias of drawn vertices, measured: THEORY.md, section 5 and check 9; and what the page says about the family."""

import math

import numpy as np
import pytest

from dpviz.datasets.games import LatentGame
from dpviz.datasets.groups import GroupedSigns
from dpviz.families.mirror_descent import VertexSampling, bounds, theory
from dpviz.families.mirror_descent.planning import Sampling
from dpviz.families.mirror_descent.sampling_bias import measure, measure_game, measure_spread, tail
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy, PureDP
from dpviz.problems.games.group_loss import GroupLoss
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame

DRAWS = [1, 2, 8, 64]
BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
GAME = MatrixGame(data=LatentGame(rows=500, strategies_x=20, strategies_y=20))


@pytest.mark.parametrize("dimension", [2, 50])
def test_the_bias_of_half_the_squared_norm_is_the_exact_one(dimension: int) -> None:
    found = measure(DRAWS, dimension, 4000, seed=1)
    assert found.exact is not None
    np.testing.assert_allclose(found.exact, (1 - 1 / dimension) / (2 * np.array(DRAWS)))
    assert (np.abs(found.mean - found.exact) <= 4 * found.standard_error + 1e-12).all()
    assert (found.exact <= found.bound).all() and found.bound.tolist() == [2 / size for size in DRAWS]
    assert found.standard_error[0] < 1e-12  # a single vertex always has norm 1
    assert (found.standard_error[1:] > 0).all()


def test_gradients_of_the_squared_loss_have_the_bias_of_its_curvature() -> None:
    """E L(ŵ) - L(w) = tr(H Cov ŵ)/2, and only the groups' losses are curved: ∇_u is linear in each player."""
    game = GroupLoss(data=GroupedSigns(rows=2000, dimension=5)).build()
    generator = np.random.default_rng(0)
    x, y = generator.dirichlet(np.ones(game.facts.d_x)), generator.dirichlet(np.ones(game.facts.d_y))
    x[3] = 0.0
    x /= x.sum()
    found = measure_game(game, (x, y), [2, 16], 20_000, seed=0)
    vertices = np.eye(game.facts.d_x)
    mean_loss = x @ game.group_losses(vertices)  # of a single vertex: E L(ŵ) at K = 1; the bias is 1/K of that
    expected = np.max(mean_loss - game.group_losses(x[None])[0]) / np.array([2, 16])
    assert (np.abs(found.mean - expected) <= 4 * found.standard_error).all()
    assert found.exact is None and (found.mean <= found.bound).all()
    facts = game.facts
    np.testing.assert_allclose(
        found.bound, theory.maurey_gradient_bias(facts.smoothness, facts.second_smoothness, [2, 16], 2)
    )


def test_linear_gradients_have_no_bias() -> None:
    for problem in (GAME, QuadraticGame(data=GAME.data)):
        game = problem.build()
        x, y = game.facts.uniform(1)
        found = measure_game(game, (x[0], y[0]), [1, 8], 4000, seed=0)
        assert (np.abs(found.mean) <= 4 * found.standard_error + 1e-12).all() and (found.bound == 0).all()


# -------------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("budget", [BUDGET, PureDP(epsilon=2.0)])
@pytest.mark.parametrize("batching", ["full", "single"])
@pytest.mark.parametrize("problem", [GAME, MarginalQueries(), GroupLoss()], ids=lambda problem: problem.title)
def test_the_bound_over_rounds_is_that_of_the_plans(problem, batching, budget) -> None:
    facts = problem.facts()
    rounds = [8, 40]
    at_caps, at_best = bounds.bound_over_rounds(facts, budget, rounds, Sampling(share_x=0.7, batching=batching))
    assert (at_best <= at_caps + 1e-12).all()
    for count, bound in zip(rounds, at_caps, strict=True):
        method = VertexSampling(iterations=count, batching=batching, share_x=0.7)
        curve = bounds.gap_bound(method, method.plan(facts, budget))
        assert curve is not None and curve.shape == (count + 1,) and math.isnan(curve[0])
        # A player who pays nothing plays a bolder step in the plan than the one with the best bound.
        assert curve[-1] == pytest.approx(bound) if facts.oscillation_x > 0 else curve[-1] >= bound


def test_fresh_draws_have_no_bound_and_runs_without_privacy_no_sampling_term() -> None:
    facts = QuadraticGame(data=GAME.data).facts()
    fresh = VertexSampling(output="fresh")
    assert bounds.gap_bound(fresh, fresh.plan(facts, BUDGET)) is None
    method = VertexSampling(iterations=1000)
    plan = method.plan(facts, NoPrivacy())
    bound = bounds.gap_bound(method, plan)
    players = [theory.Player(math.log(20), 2.0, 3.0)] * 2
    expected = theory.direct_bound(players, [plan.schedule["step_size_x"][0], plan.schedule["step_size_y"][0]], 1000)
    assert bound is not None and bound[-1] == pytest.approx(float(expected))


def test_what_the_papers_step_really_costs() -> None:
    """Section 4.2: n = 10,000, T = 100 in a single pass claims ε = 1; 0.509 by its own composition, 0.194 by zCDP."""
    facts = MatrixGame(data=LatentGame(rows=10_000)).facts()
    plan = VertexSampling(iterations=100, batching="single", accounting="paper").plan(facts, BUDGET)
    claimed, composed, zcdp, tightest = bounds.paper_costs(plan).values()
    assert (claimed, composed, zcdp) == (1.0, pytest.approx(0.509, abs=1e-3), pytest.approx(0.194, abs=1e-3))
    assert 0.9 * zcdp < tightest <= zcdp
    fresh = VertexSampling(iterations=100, batching="single", accounting="paper", output="fresh").plan(facts, BUDGET)
    assert max(bounds.paper_costs(fresh).values()) == 1.0


# --------------------------------------------------------------------------------------------------- spread, deviations


def test_the_spread_of_a_curved_gradient_is_the_exact_one_at_one_draw() -> None:
    """∇ₓ of ½‖x‖² moves from x to a vertex: E ‖e_j - x‖²_∞ = (1 - 1/d)² at uniform x."""
    game = QuadraticGame(data=GAME.data).build()
    x, y = game.facts.uniform(1)
    found = measure_spread(game, (x[0], y[0]), [1, 4, 64], 2000, seed=0)
    assert found.mean[0] == pytest.approx((1 - 1 / 20) ** 2, rel=1e-9)
    assert (found.mean <= found.bound).all() and (np.diff(found.mean) < 0).all()
    np.testing.assert_allclose(found.bound, theory.maurey_second_moment(1.0, 0.0, [1, 4, 64], 20))


def test_rare_deviations_are_binomial_and_below_lemma_3_2() -> None:
    excess = np.array([0.25, 0.5, 1.0])
    exact, bound = tail(4, excess)
    np.testing.assert_allclose(exact, [5 / 16, 5 / 16, 1 / 16])  # 3 or 4 of 4 heads; 4 of 4
    np.testing.assert_allclose(bound, np.exp(-2 * excess**2))
    for draws in (1, 7, 64):
        grid = np.linspace(0.01, 1.2, 300)
        exact, bound = tail(draws, grid)
        assert (exact <= bound).all() and (exact[grid > 1] == 0).all()
