"""The guaranteed accuracy of the accelerated methods: their error bounds for given public numbers and any data."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np

from dpviz.experiments.accuracy import BestBound, ErrorBound, no_bound_error
from dpviz.families.accelerated import planning, theory
from dpviz.families.accelerated.algorithms import (
    NOISE,
    NOISES,
    GradientDescent,
    GradientMethod,
    MultistageNesterov,
    Nesterov,
)
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import SmoothFacts
from dpviz.specification import choice, number

_METHODS: Mapping[str, type[GradientMethod]] = MappingProxyType(
    {"gradient_descent": GradientDescent, "nesterov": Nesterov, "multistage_nesterov": MultistageNesterov}
)


class SmoothConvexBound(ErrorBound):
    """Error bounds of noisy gradient methods on the mean of n losses, an objective F that is L-smooth and μ-strongly
    convex; every step uses all rows.

    They bound E F(x_T) - F*, in expectation over the noise (see `theory`). Batches are left out: they would save time,
    not noise.
    """

    kind: ClassVar[str] = "families.accelerated.accuracy.smooth_convex"
    title: ClassVar[str] = "Accelerated gradient methods"
    error_title: ClassVar[str] = "excess loss F(x) - F*"
    advice: ClassVar[str] = "Allow more steps, or choose a larger target."
    levers: ClassVar[Mapping[str, Literal["more", "less"]]] = MappingProxyType({"rows": "more", "dimension": "less"})
    method: Literal["gradient_descent", "nesterov", "multistage_nesterov"] = choice(
        "nesterov",
        {name: method.title for name, method in _METHODS.items()},
        label="Method",
        help="Gradient descent, Nesterov's accelerated method, or the latter in stages of shrinking steps.",
    )
    noise: Literal["laplace", "gaussian"] = choice("laplace", NOISES, label="Noise", help=NOISE)
    schedule: Literal["uniform", "optimal"] = choice(
        "optimal",
        label="Noise schedule",
        help="How the budget is spread over the steps. Optimal: more noise early, less noise late.",
        options={"uniform": "Uniform", "optimal": "Optimal (bound)"},
    )
    rows: int = number(10_000, 20, 10_000_000, label="Rows", symbol="n", scale="log", help="Rows of the data set.")
    dimension: int = number(
        10, 1, 100_000, label="Parameters", symbol="d", scale="log", help="Parameters of the model; each gets noise."
    )
    smoothness: float = number(
        1.0, 1e-4, 1000.0, label="Smoothness", symbol="L", scale="log", help="Largest curvature of the objective."
    )
    strong_convexity: float = number(
        0.02, 1e-5, 10.0, label="Strong convexity", symbol="μ", scale="log", help="Smallest curvature, at most L."
    )
    clip: float = number(
        1.0,
        0.001,
        1000.0,
        label="Gradient clip",
        symbol="C",
        scale="log",
        help="Largest norm of one row's gradient, L1 for Laplace, L2 for Gaussian noise; taken to cut nothing off.",
    )
    initial_gap: float = number(
        0.7, 1e-6, 1e6, label="Initial gap", symbol="E₀", scale="log", help="Bound on the excess loss at the start."
    )
    iterations: int = number(
        1000, 1, 10_000, label="Steps at most", symbol="T", scale="log", help="The best number up to this is taken."
    )

    def facts(self) -> SmoothFacts:
        """Return these numbers in the form in which a problem states them.

        Nesterov's bound starts from the Lyapunov value V₀ = E₀ + μ/2 ‖x₀ - x*‖², with the initial gap E₀ = F(x₀) - F*;
        strong convexity gives V₀ ≤ 2 E₀.
        """
        return SmoothFacts(
            n=self.rows,
            d=self.dimension,
            gradient_bound_l1=self.clip,  # only the bound in the norm of the noise counts
            gradient_bound_l2=self.clip,
            smoothness=self.smoothness,
            strong_convexity=self.strong_convexity,
            initial_gap=self.initial_gap,
            lyapunov=2 * self.initial_gap,
        )

    def algorithm(self) -> GradientMethod:
        """Return the method that attains these bounds; it chooses T by its bound."""
        cls = _METHODS[self.method]
        return cls(iterations=self.iterations, noise=self.noise, schedule=self.schedule, horizon="bound")

    def best(self, budget: Budget) -> BestBound:
        """Return the smallest error bound over 0 to `iterations` steps that spend the whole budget.

        It uses exactly the noise of the plan under pure ε and for Gaussian noise. For Laplace noise under other budgets
        it counts a little more noise than the plan will have, because calibrating each number of steps would take too
        long: it keeps Σ ε_t²/2 of the Laplace steps within `total_rho`, which the budget surely pays for.
        """
        if budget.private and budget.total_epsilon is None and budget.total_rho is None:  # such as Rényi DP
            raise no_bound_error(budget)
        method, facts = self.algorithm(), self.facts()
        if self.noise == "gaussian" and budget.private:
            # All rows are used, so there is no search: the horizons are all of 1..T.
            _horizons, bounds_by_steps, _best = planning.bound_by_horizon(method, facts, budget)
            return self._best_of(bounds_by_steps)
        factors = method.bound_factors(facts, method.steps(facts, self.iterations))
        assert factors is not None  # all of _METHODS have one
        if not budget.private:
            bounds_from_start = theory.bound(factors, half_variance=0.0)
            return self._best_of(bounds_from_start[1:])  # without the start, after 0 steps
        # Half variance of the gradient noise, d b², of one step with ε = 1: the scale b is then the L1 sensitivity.
        half_variance = self.dimension * facts.gradient_sensitivity("l1", self.rows) ** 2
        bounds = []  # (T,) each, after T' = 1..T steps; where the budget implies both ε and ρ, both bounds hold
        epsilon, rho = budget.total_epsilon, budget.total_rho
        if epsilon is not None:  # the steps share ε: Σ ε_t = ε
            unit = half_variance / epsilon**2
            bounds.append(theory.bound_by_iterations(factors, unit, self.schedule, noise="laplace"))
        if rho is not None:  # the steps share ρ: Σ ε_t²/2 = ρ
            noise_part = half_variance / (2 * rho) * _laplace_factor(factors, self.schedule)
            bounds.append(factors.initial * np.exp(factors.log_contraction) + noise_part)
        return self._best_of(np.min(bounds, axis=0))

    def _best_of(self, bounds: Floats) -> BestBound:
        """Return the smallest of the bounds (T,) after 1..T steps with its number of steps, or the initial gap with 0
        steps if that is smaller still."""
        iterations = theory.best_iterations(bounds)
        bound = float(bounds[iterations - 1])
        return BestBound(bound, iterations) if bound < self.initial_gap else BestBound(self.initial_gap, iterations=0)


def _laplace_factor(factors: theory.BoundFactors, schedule: theory.Schedule) -> Floats:
    """Return (T,) the noise part of the error bound after T' = 1..T steps of Laplace noise whose ε_t satisfy
    Σ ε_t² = 1, in units of the half variance of a step with ε = 1.

    A step with ε_t has the half variance 1/ε_t², which the bound multiplies by G g_t: G = exp(log_contraction) is the
    contraction of all T' steps, and g_t = exp(log_weight) undoes that of the steps up to t. With ε_t in proportion to
    w_t the sum is G (Σ w_t²) (Σ g_t/w_t²). The uniform schedule has w_t = 1. The optimal one has w_t = g_t^(1/3), the
    optimum for a given Σ ε_t: plans under ρ use the same shares.
    """
    _, log_contraction, log_weight = factors
    # Sums of logarithms, as the terms themselves would overflow.
    if schedule == "uniform":
        log_sums = np.log(np.arange(1, log_weight.size + 1)) + np.logaddexp.accumulate(log_weight)
    else:
        log_sums = np.logaddexp.accumulate(2 / 3 * log_weight) + np.logaddexp.accumulate(log_weight / 3)
    return np.asarray(np.exp(log_contraction + log_sums))
