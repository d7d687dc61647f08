"""A schedule of one's own beside the even and the optimal one: the same budget, the same steps, without a run."""

from typing import NamedTuple

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import planning, quadratic, theory
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.privacy import calibration
from dpviz.problems.base import SmoothFacts

# Influences below this share of the largest are raised to it: every step needs some budget, and these hardly any.
_SMALLEST = 1e-30


class Compared(NamedTuple):
    """The predicted error after the last step, and the (T,) noise of the optimal schedule over that of the even one.

    exact : whether the errors are exact expectations, of a quadratic, or bounds. proven : whether no other schedule
    has a smaller one: where the cost of a step is a sum of ε_t (Laplace noise, pure ε) or of ρ_t (Gaussian, all rows).
    """

    yours: float
    even: float
    optimal: float
    noise: np.ndarray
    exact: bool
    proven: bool


def compare(method: GradientMethod, plan: Plan) -> Compared | None:
    """What the plan of a schedule of one's own is worth; None where there is neither an exact error nor a bound."""
    facts = SmoothFacts.of(plan.facts)
    weights = optimal_shares(method, plan)
    if weights is None:
        return None
    m = method.batch_size(facts)
    prior = facts.released
    even, optimal = (
        method.plan_with(
            facts,
            plan.budget,
            calibration.calibrated_events(method.noise, plan.budget, shares, m, facts.n, prior=prior),
        )
        for shares in (np.ones(plan.iterations), weights)
    )
    proven = plan.budget.pure if method.noise == "laplace" else m == facts.n
    return Compared(
        _error(method, plan),
        _error(method, even),
        _error(method, optimal),
        optimal.noise["gradient"] / even.noise["gradient"],
        bool(facts.eigenvalues),
        proven,
    )


def optimal_shares(method: GradientMethod, plan: Plan) -> np.ndarray | None:
    """(T,) shares of the budget that make the error after the last step smallest: exactly so on a quadratic (error =
    Σ_t A_t variance_t, so ε_t ∝ A_t^(1/3), ρ_t ∝ A_t^(1/2)), else the bound on it. None where there is no bound.
    """
    facts = SmoothFacts.of(plan.facts)
    steps = method.steps(facts, plan.iterations)
    recursion: theory.Recursion | None
    if facts.eigenvalues:
        influence = quadratic.adjoint_weights(steps, method.dynamics, facts.eigenvalues)
        log_weight = np.log(np.maximum(influence, _SMALLEST * influence.max()))
        recursion = theory.Recursion(facts.initial_gap, np.zeros(plan.iterations), log_weight)
    else:
        recursion = method.recursion(facts, steps)
    return None if recursion is None else planning.best_split(method, facts, plan.budget, recursion)


def _error(method: GradientMethod, plan: Plan) -> float:
    facts = SmoothFacts.of(plan.facts)
    errors = method.expected_on_quadratic(plan) if facts.eigenvalues else method.error_bound(plan)
    assert errors is not None
    return float(errors[-1])
