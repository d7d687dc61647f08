"""Planning of gradient methods: the smoothness L, the number of steps, and the split of the budget over the steps."""

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, Protocol

import numpy as np

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import quadratic, theory
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Laplace
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, Purpose, drawn_seed, noise_scale
from dpviz.problems.base import ProblemSpecification, SmoothFacts
from dpviz.problems.linear.linear_base import LinearModel

# ------------------------------------------------------------ the smoothness L of a linear model, estimated or released
# L = c λ_max(UᵀU/n) + 2λ, as the loss has a second derivative of at most c: 1/4 for the logistic, 1 for the squared
# and the Huber loss. Too small an L costs accuracy, never privacy.

SHARE = 0.05  # of the budget, for the release
UNDERESTIMATE = 1e-3  # probability that the released L is below the true one


def estimated(problem: LinearModel, tables: Mapping[str, np.ndarray] = NO_TABLES) -> float:
    """Compute L from the data: NOT private. Raises UserError if an uploaded table is missing."""
    (largest,) = _without_smoothness(problem).build(tables).curvature().value
    return problem.smoothness_of(float(largest))


def released(
    problem: LinearModel, epsilon: float, seed: int | None, tables: Mapping[str, np.ndarray] = NO_TABLES
) -> float:
    """Release L with Laplace noise at the price `epsilon`, with a margin upwards; private.

    Replacing a row changes λ_max by at most R²/n. The noise has scale b = R²/(n ε); the margin b ln(1/(2 β)) makes the
    result an under-estimate with probability at most β = 0.001. Clipped to [0, R²], which holds for any data
    (THEORY.md, section 10, item 4).

    seed : the same data, model and epsilon with the same seed repeat the release; any other combination draws other
        noise. None: drawn afresh from the operating system's randomness.

    Raises UserError if an uploaded table is missing or epsilon is not positive.
    """
    if not epsilon > 0:
        raise UserError("Releasing L needs a positive part of the budget.", title="No budget for L")
    event = Laplace(epsilon)
    specification = _without_smoothness(problem)
    query = specification.build(tables).curvature()
    scale = noise_scale(event, float(query.sensitivity))
    release = f"smoothness\n{epsilon!r}\n{specification.to_json()}"
    mechanisms = Mechanisms(Ledger(FixedEvents((event,)), 1), drawn_seed(seed), Purpose.FACTS, release)
    (noisy,) = mechanisms.laplace(query, event)
    margin = scale * math.log(1 / (2 * UNDERESTIMATE))
    return problem.smoothness_of(min(max(float(noisy) + margin, 0.0), problem.feature_radius("l2") ** 2))


def suggested_cost(budget: Budget, share: float = SHARE) -> float:
    """Return the ε of a release of L that uses about `share` of the budget, in the currency of the budget.

    Raises UserError for a budget without a limit.
    """
    if budget.total_epsilon is not None:
        return share * budget.total_epsilon
    if budget.total_rho is not None:
        return math.sqrt(2 * share * budget.total_rho)
    raise UserError("Without a budget there is nothing to spend on L.", title="No budget for L")


def _without_smoothness(problem: LinearModel) -> LinearModel:
    """Return the problem without a stated or released L, on which the rows and their declared radius do not depend."""
    return problem.replaced(smoothness=None, smoothness_source="bounds", smoothness_cost=None)


def assumed(problem: ProblemSpecification) -> tuple[str, ...]:
    """Return the names of those of L and E₀ that are set below the value that follows from the declared ranges.

    Error bounds hold only if they are right. A released L does not count.
    """
    if not isinstance(problem, LinearModel):
        return ()
    defaults = {"initial_gap": None, "smoothness": None, "smoothness_cost": None, "smoothness_source": "bounds"}
    facts, derived = problem.facts(), problem.replaced(**defaults).facts()
    is_start_assumed = facts.initial_gap < derived.initial_gap or facts.lyapunov < derived.lyapunov
    is_smoothness_assumed = problem.smoothness_source != "released" and facts.smoothness < derived.smoothness
    return ("L",) * is_smoothness_assumed + ("E₀",) * is_start_assumed


# --------------------------------------------------------------------------------------------------- budget and horizon


class Method(Protocol):
    """Part of a `GradientMethod` that planning uses: its settings, its steps, and its error bound."""

    title: ClassVar[str]
    dynamics: ClassVar[quadratic.Kind]

    @property
    def iterations(self) -> int:
        """T, or its upper limit."""

    @property
    def noise(self) -> Literal["laplace", "gaussian"]:
        """Kind of the noise."""

    @property
    def schedule(self) -> Literal["uniform", "optimal", "envelope", "own"]:
        """Rule that spreads the budget over the steps."""

    @property
    def knots(self) -> theory.Knots:
        """Shape of a schedule drawn by hand, log10 of the noise at equally spaced steps."""

    @property
    def horizon(self) -> Literal["fixed", "bound"]:
        """Choice of T: `iterations`, or the best number of steps up to it by the bound."""

    def batch_size(self, facts: SmoothFacts) -> int:
        """Return m, the rows in each gradient."""

    def steps(self, facts: SmoothFacts, iterations: int) -> theory.Steps:
        """Return the noise-free method."""

    def recursion(self, facts: SmoothFacts, steps: theory.Steps) -> theory.Recursion | None:
        """Return the error bound, or None where none is known."""


def split_budget(method: Method, facts: SmoothFacts, budget: Budget) -> tuple[Event, ...]:
    """Choose T (if the method leaves it to the bound) and spread the budget over the steps: one event per step."""
    iterations = best_iterations(method, facts, budget) if method.horizon == "bound" else method.iterations
    m, n = method.batch_size(facts), facts.n
    weights = shares(method, facts, budget, iterations)
    return calibration.calibrated_events(method.noise, budget, weights, m, n, prior=facts.released)


def shares(method: Method, facts: SmoothFacts, budget: Budget, iterations: int) -> np.ndarray:
    """Return (T,) the share of the budget of each step, up to a common factor: of ε for Laplace noise, else of ρ.

    Raises UserError for the optimal schedule of a method without an error bound.
    """
    if method.schedule == "uniform" or not budget.private:
        return np.ones(iterations)
    if method.schedule == "own":
        return theory.own_shares(method.knots, iterations, method.noise)
    steps = method.steps(facts, iterations)
    if method.schedule == "envelope":
        worst = quadratic.envelope_weights(steps, method.dynamics, facts.strong_convexity, facts.smoothness)
        return worst ** (1 / 3 if method.noise == "laplace" else 1 / 2)
    recursion = method.recursion(facts, steps)
    if recursion is None:
        raise UserError(
            f"{method.title} has no error bound to optimise. Use the uniform schedule or 'Optimal (quadratics)', and "
            "set T yourself.",
            title="No bound for this method",
        )
    return best_split(method, facts, budget, recursion)


def best_split(method: Method, facts: SmoothFacts, budget: Budget, recursion: theory.Recursion) -> np.ndarray:
    """Return (T,) the shares of the budget, up to a common factor, that minimise the noise part of the error bound."""
    m = method.batch_size(facts)
    if method.noise == "laplace" and m < facts.n and budget.pure:
        return theory.sampled_split(recursion.log_weight, budget.left(facts.released), facts.n / m)
    return theory.optimal_weights(recursion, method.noise)


def half_variance(method: Method, facts: SmoothFacts, plan: Plan) -> np.ndarray:
    """Return (T,) half the expected squared norm of each step's gradient error: privacy noise plus batch noise."""
    variance_factor = 1.0 if method.noise == "laplace" else 0.5
    batch = theory.sampling_variance(facts.gradient_bound("l2"), method.batch_size(facts), facts.n)
    return variance_factor * facts.d * plan.noise["gradient"] ** 2 + batch / 2


def best_iterations(method: Method, facts: SmoothFacts, budget: Budget) -> int:
    """Return T up to `method.iterations` that minimises the error bound when T steps spend the whole budget."""
    if not budget.private:
        return method.iterations
    _, _, best = bound_by_horizon(method, facts, budget)
    return best


def bound_by_horizon(method: Method, facts: SmoothFacts, budget: Budget) -> tuple[np.ndarray, np.ndarray, int]:
    """Return numbers of steps (k,), the error bound (k,) if the whole budget is spread over each, and the best number.

    Raises UserError for a method without a bound, and where no quick bound is known (Gaussian noise on batches).
    """
    limit = method.iterations
    recursion = method.recursion(facts, method.steps(facts, limit))
    if recursion is None or method.schedule == "envelope":
        raise UserError(
            f"{method.title} has no error bound for this schedule. Set the number of steps yourself.",
            title="No bound to choose T by",
        )
    full_batch = method.batch_size(facts) == facts.n
    if method.noise == "gaussian" and not full_batch:
        raise UserError(
            "With Gaussian noise on batches no quick bound is known. Set the number of steps yourself or use all rows.",
            title="No bound to choose T by",
        )
    if method.schedule == "own" and method.noise == "gaussian":
        horizons, bounds = theory.bounds_by_search(recursion, _gaussian_bound(method, facts, budget, recursion))
        return horizons, bounds, int(horizons[np.argmin(bounds)])
    if method.schedule != "own" and full_batch and (method.noise == "gaussian" or budget.pure):
        bounds = theory.bound_by_iterations(recursion, _unit(method, facts, budget), method.schedule, method.noise)
        return np.arange(1, limit + 1), bounds, theory.best_iterations(bounds)
    horizons, bounds = theory.bounds_by_search(recursion, _laplace_bound(method, facts, budget, recursion))
    return horizons, bounds, int(horizons[np.argmin(bounds)])


def _unit(method: Method, facts: SmoothFacts, budget: Budget) -> float:
    """Return the half variance of a single step that gets the whole budget and uses all rows."""
    if method.noise == "laplace":
        return facts.d * (facts.gradient_sensitivity("l1", facts.n) / budget.left(facts.released)) ** 2
    (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
    return facts.d * facts.gradient_sensitivity("l2", facts.n) ** 2 / (4 * rho)


def _gaussian_bound(
    method: Method, facts: SmoothFacts, budget: Budget, recursion: theory.Recursion
) -> Callable[[int], float]:
    """Return a function from T' to the bound after T' steps of a schedule drawn by hand, Gaussian noise on all rows."""
    unit = _unit(method, facts, budget)

    def bound_at(iterations: int) -> float:
        part, weights = recursion.first(iterations), theory.own_shares(method.knots, iterations, "gaussian")
        terms = np.exp(part.log_contraction[-1] + part.log_weight) * unit * weights.sum() / weights
        return float(part.initial * np.exp(part.log_contraction[-1]) + terms.sum())

    return bound_at


def _laplace_bound(
    method: Method, facts: SmoothFacts, budget: Budget, recursion: theory.Recursion
) -> Callable[[int], float]:
    """Return a function from T' to the bound after T' steps, for Laplace noise where no closed form covers all T'.

    Exact under pure ε. In other currencies the accountants that calibrate the plan itself are too slow for every T';
    approximations replace them, so the chosen T may be a little off. The privacy of the plan is not: it is calibrated
    exactly.
    """
    m, ratio = method.batch_size(facts), facts.n / method.batch_size(facts)
    unit = facts.d * facts.gradient_sensitivity("l1", m) ** 2
    batch = theory.sampling_variance(facts.gradient_bound("l2"), m, facts.n)
    schedule: theory.Schedule = "uniform" if method.schedule == "uniform" else "optimal"
    if budget.pure and method.schedule != "own":
        epsilon = budget.left(facts.released)
        return lambda iterations: theory.sampled_bound(
            recursion.first(iterations), epsilon, ratio, unit, batch, schedule
        )
    largest_multiple = _quick_multiple(facts, budget)

    def bound_at(iterations: int) -> float:
        part = recursion.first(iterations)
        if method.schedule == "own":
            weights = theory.own_shares(method.knots, iterations, "laplace")
        else:
            weights = np.ones(iterations) if schedule == "uniform" else theory.optimal_weights(part, "laplace")
        base = np.log1p(np.expm1(weights * largest_multiple(weights)) * ratio)
        terms = np.exp(part.log_contraction[-1] + part.log_weight) * (unit / base**2 + batch / 2)
        return float(part.initial * np.exp(part.log_contraction[-1]) + terms.sum())

    return bound_at


def _quick_multiple(facts: SmoothFacts, budget: Budget) -> Callable[[np.ndarray], float]:
    """Return a function from weights (T,) to about their largest multiple that the budget affords as ε_t of Laplace
    steps."""
    if budget.pure:
        epsilon = budget.left(facts.released)
        return lambda weights: epsilon / weights.sum()
    if budget.total_epsilon is not None:
        pure = budget.left(facts.released)
        rho = budget.about_rho(pure)
        # Whichever is better at this number of steps; ρ of a Laplace step is about ε²/2.
        return lambda weights: max(pure / weights.sum(), math.sqrt(2 * rho / (weights**2).sum()))
    # One calibration against the budget's own accountant fixes the scale; small steps cost in proportion to ε².
    steps = 100
    (single, *_) = calibration.calibrate_laplace(budget, np.ones(steps), facts.n, facts.n, facts.released)
    return lambda weights: single * math.sqrt(steps / (weights**2).sum())
