"""The plan-time promises of the families: kept by the plans themselves, monotone, and honest about limits."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.experiments.accuracy import ErrorBound, levers, required_budget
from dpviz.families.accelerated import theory as smooth
from dpviz.families.accelerated.accuracy import SmoothConvexBound
from dpviz.families.mirror_descent import VertexSampling, planning, theory
from dpviz.families.mirror_descent.accuracy import GameBound
from dpviz.privacy.accounting.closed_forms import zcdp_rho
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, RenyiDP, ZeroConcentratedDP
from dpviz.specification import registered
from tests.oracles.accelerated import required_scale

METHODS = ["gradient_descent", "nesterov", "multistage_nesterov"]
BUDGETS: list[Budget] = [PureDP(), ApproximateDP(), ZeroConcentratedDP(), GaussianDP()]
SMOOTH = [
    SmoothConvexBound(noise=noise, schedule=schedule)
    for noise in ("laplace", "gaussian")
    for schedule in ("uniform", "optimal")
]
GAMES = [
    GameBound(iterations=1000),
    GameBound(strategies_x=10_000, strategies_y=3, draws=2, smoothness=0.5, iterations=1000),
    GameBound(strategies_x=50, strategies_y=1, draws=16, smoothness=1.0, iterations=1000),
    GameBound(rows=200, iterations=1000),
]
# From good to bad.
WORSE: dict[type[ErrorBound], dict[str, Sequence[Any]]] = {
    SmoothConvexBound: {"rows": (10_000, 1000, 100), "dimension": (1, 10, 1000), "iterations": (500, 50, 5)},
    GameBound: {
        "rows": (1_000_000, 10_000, 100),
        "strategies_x": (2, 100, 10_000),
        "lipschitz": (0.1, 1.0, 10.0),
        "smoothness": (0.0, 1.0, 10.0),
        "iterations": (10_000, 100, 2),
    },
}


class Unknown(RenyiDP):
    """A currency that no bound has ever heard of."""

    name = "Unknown"


def private(bound: ErrorBound) -> list[Budget]:
    return BUDGETS[getattr(bound, "noise", "") == "gaussian" :]  # which never gives pure ε


CASES = [(bound, budget) for bound in (*SMOOTH, GameBound()) for budget in private(bound)]


@pytest.mark.parametrize("bound", SMOOTH, ids=lambda bound: f"{bound.noise}-{bound.schedule}")
@pytest.mark.parametrize("method", METHODS)
def test_the_plan_of_a_gradient_method_keeps_the_promise(method: str, bound: SmoothConvexBound) -> None:
    """The same number of steps under the same budget has an error bound no larger than what was promised, and with an
    exact formula no smaller; otherwise by what losing track of ρ's third order costs."""
    for budget in private(bound):
        own = bound.replaced(method=method, iterations=300)
        best = own.best(budget)
        algorithm = own.algorithm().replaced(iterations=best.iterations, horizon="fixed")
        kept = algorithm.error_bound(algorithm.plan(own.facts(), budget))
        exact = own.noise == "gaussian" or isinstance(budget, PureDP)
        assert kept is not None and (1 - 1e-4 if exact else 0.6) * best.bound <= kept[-1] <= best.bound * (1 + 1e-4)


@pytest.mark.parametrize("bound", GAMES, ids=["matrix game", "uneven game", "minimisation", "few rows"])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
def test_the_plan_of_vertex_sampling_keeps_the_promise(budget: Budget, bound: GameBound) -> None:
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


@pytest.mark.parametrize("method", METHODS)
def test_no_other_number_of_steps_promises_less(method: str) -> None:
    bound = SmoothConvexBound(method=method, iterations=200)
    best = bound.best(PureDP())
    for steps in range(1, 201, 7):
        algorithm = bound.algorithm().replaced(iterations=steps, horizon="fixed")
        kept = algorithm.error_bound(algorithm.plan(bound.facts(), PureDP()))
        assert kept is not None and kept[-1] >= best.bound * (1 - 1e-9)


@pytest.mark.parametrize(("bound", "budget"), CASES)
def test_the_promise_improves_with_budget_and_with_all_that_is_better(bound: Any, budget: Budget) -> None:
    amounts = ({budget.controls()[0].name: float(amount)} for amount in np.geomspace(0.05, 20, 9))
    errors = [bound.best(budget.replaced(**amount)).bound for amount in amounts]
    assert (np.diff(errors) <= 0).all() and errors[-1] >= bound.without_privacy()
    for field, values in WORSE[type(bound)].items():
        errors = [bound.replaced(**{field: value}).best(budget).bound for value in values]
        assert (np.diff(errors) >= -1e-12).all(), field


def test_required_budgets_reach_their_targets() -> None:
    """`required_scale`: the smallest n ε whose bound reaches a target."""
    factors = smooth.nesterov_factors(smooth.nesterov(1000, 1.0, 0.02), 0.02, 1.0, 1.4)
    scale, steps = required_scale(factors, 1e-3, 2.0, 10, "optimal", "laplace")
    found = required_budget(SmoothConvexBound(), 1e-3, PureDP)
    assert isinstance(found.budget, PureDP)
    assert scale / 10_000 <= found.budget.epsilon <= scale / 10_000 * 1.0101
    assert abs(found.best.iterations - steps) <= 1 and found.best.bound <= 1e-3
    found = required_budget(GameBound(), 0.3, ApproximateDP, 1e-8)
    assert isinstance(found.budget, ApproximateDP) and found.budget.delta == 1e-8
    assert found.best.bound <= 0.3 < GameBound().best(found.budget.replaced(epsilon=found.budget.epsilon * 0.985)).bound


def test_under_zcdp_it_is_the_closed_form_of_the_theory() -> None:
    """Section 5.4 with steps at the cap: T = √3 T* and the bound there, up to rounding and Σ₂ ≈ T³/3."""
    rho = zcdp_rho(1.0, 1e-6)
    players = [theory.Player(math.log(1000), 2.0, 2.0)] * 2
    optimum = theory.closed_form_optimum(players, (0.5, 0.5), rho, 10_000, "full_batch")
    best = GameBound(strategies_x=1000, strategies_y=1000).best(ZeroConcentratedDP(rho=rho))
    assert best.bound == pytest.approx(optimum.bound, rel=0.01)
    assert best.iterations == pytest.approx(optimum.rounds, rel=0.02)


@pytest.mark.parametrize(
    ("bound", "budget", "rows", "amount"),
    [
        (GameBound(rows=100_000, iterations=100_000), ZeroConcentratedDP(rho=0.01), 4, 16),  # as 1/√(n √ρ)
        (GameBound(rows=100_000, iterations=100_000), GaussianDP(mu=0.1), 4, 4),
        (SmoothConvexBound(), PureDP(), 1.43, 1.43),  # only n ε enters
        (SmoothConvexBound(noise="gaussian"), GaussianDP(), 1.41, 1.41),
    ],
)
def test_what_halves_the_error(bound: ErrorBound, budget: Budget, rows: float, amount: float) -> None:
    found = levers(bound, budget)
    assert (found.controls["rows"], found.budget) == pytest.approx((rows, amount), rel=0.01)


def test_without_privacy_the_steps_and_the_draws_limit() -> None:
    """Gradient descent contracts by 1 - 2 μ α (1 - α L/2) with α = 1/L; Hedge has regret √(ln d/(2T)) per player and
    spread, and playing vertices costs 2 L₁/K."""
    descent = SmoothConvexBound(method="gradient_descent", iterations=100)
    game = GameBound(smoothness=3.0, draws=4, iterations=5000)
    regret = 2 * (2 * math.sqrt(math.log(100) / 10_000) + 2 * 3.0 / 4)
    for bound, expected in ((descent, 0.7 * 0.98**100), (game, regret)):
        assert bound.without_privacy() == pytest.approx(expected) == pytest.approx(bound.best(NoPrivacy()).bound)


@pytest.mark.parametrize(
    ("bound", "stays"),
    [
        (SmoothConvexBound(rows=20, dimension=100_000), 0.7),
        (GameBound(rows=20, lipschitz=3.0), 2 * 6.0 * 0.99),  # each player loses at most the spread 2 L₀ times 1 - 1/d
        (GameBound(rows=20, strategies_x=2, strategies_y=1), 1.0),
    ],
)
def test_nothing_is_promised_that_the_start_does_not_keep(bound: ErrorBound, stays: float) -> None:
    best = bound.best(PureDP(epsilon=0.01))
    assert best.iterations == 0 and best.bound == pytest.approx(stays)


@pytest.mark.parametrize(
    ("bound", "target", "budget", "match"),
    [
        (SmoothConvexBound(method="gradient_descent", iterations=100), 0.01, PureDP, "Even without privacy"),
        (SmoothConvexBound(rows=20), 1e-6, PureDP, "the noise is the limit"),
        (SmoothConvexBound(noise="gaussian"), 0.1, PureDP, "never gives pure"),
        (SmoothConvexBound(strong_convexity=2.0, smoothness=1.0), 0.1, PureDP, "Strong convexity"),
        (GameBound(smoothness=1.0), 0.5, ApproximateDP, "Even without privacy"),
        (GameBound(rows=20), 0.3, PureDP, "the noise is the limit"),
    ],
)
def test_what_cannot_be_promised_is_refused(bound: Any, target: float, budget: Any, match: str) -> None:
    with pytest.raises(UserError, match=match):
        required_budget(bound, target, budget)


def test_extreme_settings_give_numbers() -> None:
    for method in METHODS:
        for values in (
            {"rows": 10_000_000, "dimension": 1, "strong_convexity": 1.0},
            {"rows": 20, "smoothness": 1000.0, "strong_convexity": 1e-5, "iterations": 10_000},
            {"iterations": 1},
        ):
            for budget in (PureDP(epsilon=50.0), ApproximateDP(epsilon=0.01, delta=1e-10)):
                best = SmoothConvexBound(method=method, **values).best(budget)
                assert math.isfinite(best.bound) and 0 <= best.iterations <= 10_000


@pytest.mark.parametrize("bound", [SmoothConvexBound(), SmoothConvexBound(noise="gaussian"), GameBound()])
def test_a_currency_without_a_bound_is_refused(bound: ErrorBound) -> None:
    assert type(bound) in registered(ErrorBound)
    with pytest.raises(UserError, match="State the guarantee in one of these"):
        bound.best(Unknown())
