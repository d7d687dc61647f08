"""The plan-time promise of vertex sampling: kept by the plans themselves, monotone, and honest about limits."""

import math

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.experiments.accuracy import ErrorBound, levers, required_budget
from dpviz.families.mirror_descent import VertexSampling, planning, theory
from dpviz.families.mirror_descent.accuracy import GameBound
from dpviz.privacy.accounting.closed_forms import zcdp_rho
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, RenyiDP, ZeroConcentratedDP
from dpviz.specification import registered

BUDGETS: list[Budget] = [PureDP(), ApproximateDP(), ZeroConcentratedDP(), GaussianDP()]
GAMES = {
    "matrix game": GameBound(iterations=1000),
    "uneven game": GameBound(strategies_x=10_000, strategies_y=3, draws=2, smoothness=0.5, iterations=1000),
    "minimisation": GameBound(strategies_x=50, strategies_y=1, draws=16, smoothness=1.0, iterations=1000),
    "few rows": GameBound(rows=200, iterations=1000),
}


class Unknown(RenyiDP):
    """A currency that the bound has never on_progress of."""

    name = "Unknown"


@pytest.mark.parametrize("bound", GAMES.values(), ids=list(GAMES))
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
def test_the_plan_of_the_method_keeps_the_promise(budget: Budget, bound: GameBound) -> None:
    """A plan with the same rounds affords steps at least as long as the promise takes, and hardly longer ones."""
    best, facts = bound.best(budget), bound.facts()
    if best.iterations == 0:
        assert bound.rows == 200
        return
    players = planning.players(facts, bound.draws)
    share = theory.optimal_shares(players, budget.pure)[0]
    method = VertexSampling(iterations=best.iterations, draws=bound.draws, share_x=min(share, 0.95))
    plan = method.plan(facts, budget)
    free = [planning.regret_step(p.log_vertices, p.spread, best.iterations) for p in players]
    steps = [min(float(plan.resolved[f"step_size_{name}"]), f) for name, f in zip("xy", free, strict=False)]
    kept = float(theory.direct_bound(players, steps, best.iterations))
    assert best.bound * 0.97 <= kept <= best.bound * (1 + 1e-6)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
def test_the_promise_improves_with_budget_rows_and_rounds(budget: Budget) -> None:
    name = budget.controls()[0].name
    errors = [GameBound().best(budget.replaced(**{name: float(a)})).bound for a in np.geomspace(0.05, 20, 9)]
    assert (np.diff(errors) <= 0).all() and errors[-1] >= GameBound().without_privacy()
    for field, values in {
        "rows": (1_000_000, 10_000, 100),
        "strategies_x": (2, 100, 10_000),
        "lipschitz": (0.1, 1.0, 10.0),
        "smoothness": (0.0, 1.0, 10.0),
        "iterations": (10_000, 100, 2),
    }.items():
        errors = [GameBound(**{field: value}).best(budget).bound for value in values]
        assert (np.diff(errors) >= -1e-12).all(), field


def test_under_zcdp_it_is_the_closed_form_of_the_theory() -> None:
    """Section 5.4 with steps at the cap: T = √3 T* and the bound there, up to rounding and Σ₂ ≈ T³/3."""
    rho = zcdp_rho(1.0, 1e-6)
    players = [theory.Player(math.log(1000), 2.0, 2.0)] * 2
    optimum = theory.closed_form_optimum(players, (0.5, 0.5), rho, 10_000, "full_batch")
    assert optimum.balanced_rounds == pytest.approx(364, abs=1)
    best = GameBound(strategies_x=1000, strategies_y=1000).best(ZeroConcentratedDP(rho=rho))
    assert best.bound == pytest.approx(optimum.bound, rel=0.01)
    assert best.iterations == pytest.approx(optimum.rounds, rel=0.02)


def test_halving_the_gap_of_a_matrix_game_takes_four_times_the_rows() -> None:
    """The bound is proportional to 1/√(n √ρ)."""
    bound = GameBound(rows=100_000, iterations=100_000)
    found = levers(bound, ZeroConcentratedDP(rho=0.01))
    assert found.controls["rows"] == pytest.approx(4, rel=0.01)
    assert found.budget == pytest.approx(16, rel=0.01)
    assert levers(bound, GaussianDP(mu=0.1)).budget == pytest.approx(4, rel=0.01)


def test_required_budget_reaches_its_target_and_names_its_limit() -> None:
    found = required_budget(GameBound(), 0.3, ApproximateDP, 1e-8)
    assert isinstance(found.budget, ApproximateDP) and found.budget.delta == 1e-8
    assert found.best.bound <= 0.3 < GameBound().best(found.budget.replaced(epsilon=found.budget.epsilon * 0.985)).bound
    with pytest.raises(UserError, match=r"Even without privacy .* draw more vertices"):
        required_budget(GameBound(smoothness=1.0), 0.5, ApproximateDP)
    with pytest.raises(UserError, match="the noise is the limit"):
        required_budget(GameBound(rows=20), 0.3, PureDP)


def test_what_remains_without_privacy() -> None:
    """Regret of Hedge over T rounds, spread √(ln d/(2T)) per player, and 2 L₁/K for playing vertices."""
    bound = GameBound(smoothness=3.0, draws=4, iterations=5000)
    expected = 2 * (2 * math.sqrt(math.log(100) / 10_000) + 2 * 3.0 / 4)
    assert bound.without_privacy() == pytest.approx(expected) == pytest.approx(bound.best(NoPrivacy()).bound)


def test_nothing_is_promised_that_uniform_play_does_not_keep() -> None:
    """There each player loses at most the spread 2 L₀ times 1 - 1/d."""
    best = GameBound(rows=20, lipschitz=3.0).best(PureDP(epsilon=0.01))
    assert best.iterations == 0 and best.bound == pytest.approx(2 * 6.0 * 0.99)
    alone = GameBound(rows=20, strategies_x=2, strategies_y=1).best(PureDP(epsilon=0.01))
    assert alone.iterations == 0 and alone.bound == pytest.approx(1.0)


def test_a_currency_without_a_bound_is_refused() -> None:
    for bound in (GameBound(),):
        with pytest.raises(UserError, match="State the guarantee in one of these"):
            bound.best(Unknown())


def test_it_is_among_the_registered_bounds() -> None:
    assert GameBound in registered(ErrorBound)
