"""Planning of gradient methods: the smoothness L, the number of steps, and the split of the budget over the steps."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, Protocol

import numpy as np

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import quadratic, theory
from dpviz.numbers import short_up
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Laplace
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, Purpose, noise_scale, seed_or_random
from dpviz.problems.base import ProblemSpecification, SmoothFacts
from dpviz.problems.linear.linear_base import LinearModel

# ------------------------------------------------------------ the smoothness L of a linear model, estimated or released
# L = c λ_max(UᵀU/n) + 2λ, as the loss has a second derivative of at most c: 1/4 for the logistic, 1 for the squared
# and the Huber loss. Too small an L costs accuracy, never privacy.

SHARE = 0.05  # of the budget, for the release
UNDERESTIMATE = 1e-3  # probability that the released L is below the true one
# Shares of the starting point's error bound. Bounds exceed errors: on four columns of breast_cancer and on
# health_insurance (30 steps, ε from 0.03 to 10) the error itself exceeded the start's from 8 times its bound on.
FAR_ABOVE, HARDLY_BELOW = 10.0, 0.9


def estimated_smoothness(problem: LinearModel, tables: Mapping[str, np.ndarray] = NO_TABLES) -> float:
    """Compute the smoothness L of a linear model from its data: NOT private.

    tables : uploaded tables by identity. Raises UserError if one is missing.
    """
    # The value of the query as it is, without the noise of a release.
    (largest_eigenvalue,) = _without_smoothness(problem).build(tables).largest_eigenvalue().value
    return problem.smoothness_of(float(largest_eigenvalue))


def release_smoothness(
    problem: LinearModel, epsilon: float, seed: int | None, tables: Mapping[str, np.ndarray] = NO_TABLES
) -> float:
    """Release the smoothness L of a linear model privately, with Laplace noise that costs `epsilon`, and a margin.

    L follows from the largest eigenvalue λ_max of UᵀU/n, where the n rows of U have norms of at most R. Replacing a row
    changes λ_max by at most R²/n, so the noise has the scale b = R²/(n ε). The margin b ln(1/(2 β)) is added because
    too small an L is worse than too large a one: it makes the result an under-estimate with probability at most
    β = UNDERESTIMATE. The sum is clipped to [0, R²], where λ_max lies for any data (THEORY.md, section 10, item 4).

    seed : the same data, model and epsilon with the same seed repeat the release; any other combination draws other
        noise. None: drawn afresh from the operating system's randomness.
    tables : uploaded tables by identity.

    Raises UserError if an uploaded table is missing or epsilon is not positive.
    """
    if not epsilon > 0:
        raise UserError("Releasing L needs a positive part of the budget.", title="No budget for L")
    event = Laplace(epsilon / problem.rows_per_person)  # the cost is that of a person, or of a row
    specification = _without_smoothness(problem)
    query = specification.build(tables).largest_eigenvalue()
    scale = noise_scale(event, float(query.sensitivity))
    # The text from which, with the seed, the noise is derived.
    release = f"smoothness\n{epsilon!r}\n{specification.to_json()}"
    ledger = Ledger(FixedEvents((event,)), replicates=1)
    mechanisms = Mechanisms(ledger, seed_or_random(seed), Purpose.FACTS, release=release)
    (noisy,) = mechanisms.laplace(query, event)
    margin = scale * math.log(1 / (2 * UNDERESTIMATE))
    return problem.smoothness_of(min(max(float(noisy) + margin, 0.0), problem.feature_radius("l2") ** 2))


def suggested_cost(budget: Budget) -> float:
    """Return the ε at which `release_smoothness` uses about the part SHARE of the budget.

    Raises UserError for a budget without a limit.
    """
    if budget.total_epsilon is not None:
        return SHARE * budget.total_epsilon
    if budget.total_rho is not None:
        return math.sqrt(2 * SHARE * budget.total_rho)  # Laplace noise of ε costs a ρ of at most ε²/2
    raise UserError("Without a budget there is nothing to spend on L.", title="No budget for L")


def _without_smoothness(problem: LinearModel) -> LinearModel:
    """Return the problem with the L of its declared ranges, so that its rows can be read before another L is known.

    The rows and their declared radius do not depend on L.
    """
    return problem.replaced(smoothness=None, smoothness_source="bounds", smoothness_cost=None)


def assumed_constants(problem: ProblemSpecification) -> tuple[str, ...]:
    """Return the names of the constants that a user has set below the value that follows from the declared ranges: "L",
    the smoothness, and "E₀", the bound on the initial gap, from which the bound on V₀, `lyapunov`, follows.

    Error bounds hold only if such an assumption is right. A released L is no assumption.
    """
    if not isinstance(problem, LinearModel):
        return ()
    defaults = {"initial_gap": None, "smoothness": None, "smoothness_cost": None, "smoothness_source": "bounds"}
    facts, derived = problem.facts(), problem.replaced(**defaults).facts()
    names = []
    if problem.smoothness_source != "released" and facts.smoothness < derived.smoothness:
        names.append("L")
    if facts.initial_gap < derived.initial_gap or facts.lyapunov < derived.lyapunov:
        names.append("E₀")
    return tuple(names)


# --------------------------------------------------------------------------------------------------- budget and horizon


class Method(Protocol):
    """Part of a gradient method that planning uses: its settings, its steps, and its error bound.

    The class `GradientMethod` itself is in `algorithms`, which imports this module.
    """

    title: ClassVar[str]
    dynamics: ClassVar[quadratic.Kind]

    @property
    def iterations(self) -> int:
        """The number of steps T if `horizon` is "fixed"; else its upper limit."""

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
        """Return the method without its noise: step sizes, momentum, stages and restarts of `iterations` steps."""

    def bound_factors(self, facts: SmoothFacts, steps: theory.Steps) -> theory.BoundFactors | None:
        """Return the error bound of these steps, or None where none is known."""


def shares(method: Method, facts: SmoothFacts, budget: Budget, iterations: int) -> np.ndarray:
    """Return (T,) the share of the budget of each of T = `iterations` steps, up to a common factor, by the method's
    schedule: the share of ε for Laplace noise, of ρ for Gaussian noise.

    Raises UserError for the optimal schedule of a method without an error bound.
    """
    if method.schedule == "uniform" or not budget.private:
        return np.ones(iterations)
    if method.schedule == "own":
        return theory.own_shares(method.knots, iterations, method.noise)
    steps = method.steps(facts, iterations)
    if method.schedule == "envelope":
        # The influence of each step's noise variance on the last error, on quadratics in general. Σ weight / share² or,
        # for Gaussian noise, Σ weight / share is smallest at these powers.
        weights = quadratic.envelope_weights(steps, method.dynamics, facts.strong_convexity, facts.smoothness)
        return weights ** (1 / 3 if method.noise == "laplace" else 1 / 2)
    factors = method.bound_factors(facts, steps)
    if factors is None:
        raise UserError(
            f"{method.title} has no error bound to optimise. Use the uniform schedule or 'Optimal (quadratics)', and "
            "set T yourself.",
            title="No bound for this method",
        )
    return best_split(method, facts, budget, factors)


def best_split(method: Method, facts: SmoothFacts, budget: Budget, factors: theory.BoundFactors) -> np.ndarray:
    """Return (T,) the shares of the budget, up to a common factor, that minimise the noise part of the error bound.

    Laplace noise on batches under pure ε has its own optimum, as amplification by sampling enters it. Elsewhere the
    optimum for all rows is used.
    """
    m = method.batch_size(facts)
    if method.noise == "laplace" and m < facts.n and budget.pure:
        return theory.sampled_split(factors.log_weight, epsilon=budget.remaining(facts.released), ratio=facts.n / m)
    return theory.shares_by_bound(factors, method.noise)


def half_variance(method: Method, facts: SmoothFacts, plan: Plan) -> np.ndarray:
    """Return (T,) half the expected squared norm of each step's gradient error: privacy noise plus batch noise.

    Privacy noise in d coordinates contributes d b² for the Laplace scale b, d σ²/2 for the Gaussian scale σ.
    """
    variance_factor = 1.0 if method.noise == "laplace" else 0.5
    batch = theory.sampling_variance(facts.gradient_bound("l2"), method.batch_size(facts), facts.n)
    return variance_factor * facts.d * plan.noise["gradient"] ** 2 + batch / 2


def noise_note(method: Method, facts: SmoothFacts, plan: Plan, steps: theory.Steps) -> tuple[str, ...]:
    """Return a note if the error bound at the end of a plan is far above that of its starting point, by noise, or if it
    is hardly below although the number of steps was chosen by it; else nothing.

    The note says how many times as many rows would help, with the same budget and share of rows in a batch. With k
    times as many rows and the same steps, the part of the bound by privacy noise falls by k², as the noise falls by k,
    and the part by batches by k at least. There is no note for a method without a bound, where the bound would be above
    that of the start without noise, too, and on a quadratic, whose error is known exactly.
    """
    try:
        factors = method.bound_factors(facts, steps)
    except UserError:  # a step is too long for a bound
        return ()
    if factors is None or facts.eigenvalues or not plan.private:
        return ()
    start = facts.initial_gap
    bound = float(theory.bound(factors, half_variance(method, facts, plan))[-1])
    noiseless = float(theory.bound(factors, half_variance=0.0)[-1])
    # With all weights 0 a model predicts the same of every row.
    about_start = "the starting point, a constant guess," if facts.start == 0 else "the starting point"
    if bound > FAR_ABOVE * start:
        # The bound is linear in the noise: a part without any, one by batches and one by privacy.
        batch = theory.sampling_variance(facts.gradient_bound("l2"), method.batch_size(facts), facts.n) / 2
        with_batches = float(theory.bound(factors, batch)[-1])
        margin, by_batches, by_privacy = start - noiseless, with_batches - noiseless, bound - with_batches
        if margin <= 0:  # then no number of rows is enough
            return ()
        # The smallest k with by_privacy / k² + by_batches / k = margin.
        factor = (by_batches + math.sqrt(by_batches**2 + 4 * margin * by_privacy)) / (2 * margin)
        return (
            f"Noise may hide everything: the error bound ends at {short_up(bound)}, and that of {about_start} is "
            f"{short_up(start)}. With {short_up(factor, 2)} times as many rows it would be below; fewer features help.",
        )
    if method.horizon != "bound" or bound < HARDLY_BELOW * start:
        return ()
    if plan.iterations == method.iterations and noiseless > HARDLY_BELOW * bound:  # by too few steps, not by noise
        return ()
    about_rows = ""
    for factor in (4, 16, 64, 256):
        _horizons, bounds, _best = bound_by_horizon(method, replace(facts, n=factor * facts.n), plan.budget)
        if bounds.min() <= start / 2:
            about_rows = f" With {factor} times as many rows it would be half of that at most; fewer features help."
            break
    return (
        "Noise may hide everything: even after the best number of steps the error bound is "
        f"{short_up(bound)}, and that of {about_start} is {short_up(start)}.{about_rows}",
    )


def bound_by_horizon(method: Method, facts: SmoothFacts, budget: Budget) -> tuple[np.ndarray, np.ndarray, int]:
    """Return k candidate numbers of steps (k,), the error bound (k,) after each if its steps spend the whole budget,
    and the candidate with the smallest bound.

    The candidates are all numbers up to `method.iterations` where a closed form gives all bounds at once, else those
    that a search tries.

    Raises UserError for a method without a bound, and where no quick bound is known (Gaussian noise on batches).
    """
    limit = method.iterations
    factors = method.bound_factors(facts, method.steps(facts, limit))
    if factors is None or method.schedule == "envelope":
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
    # A closed form covers all T at once where the costs of the steps add up.
    if method.schedule != "own" and full_batch and (method.noise == "gaussian" or budget.pure):
        unit = _half_variance_of_whole_budget(method, facts, budget)
        bounds = theory.bound_by_iterations(factors, unit, method.schedule, method.noise)
        return np.arange(1, limit + 1), bounds, theory.best_iterations(bounds)
    # Gaussian noise comes here with a schedule drawn by hand only.
    make_bound = _gaussian_bound if method.noise == "gaussian" else _laplace_bound
    horizons, bounds = theory.bounds_by_search(factors, make_bound(method, facts, budget, factors))
    return horizons, bounds, int(horizons[np.argmin(bounds)])


def _half_variance_of_whole_budget(method: Method, facts: SmoothFacts, budget: Budget) -> float:
    """Return half the expected squared norm of the noise of a single step that gets the whole budget and uses all rows.

    With the sensitivity Δ in d coordinates it is d (Δ/ε)² for Laplace noise, d Δ²/(4 ρ) for Gaussian noise.
    """
    if method.noise == "laplace":
        return facts.d * (facts.gradient_sensitivity("l1", facts.n) / budget.remaining(facts.released)) ** 2
    (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), m=facts.n, n=facts.n, prior=facts.released)
    return facts.d * facts.gradient_sensitivity("l2", facts.n) ** 2 / (4 * rho)


def _gaussian_bound(
    method: Method, facts: SmoothFacts, budget: Budget, factors: theory.BoundFactors
) -> Callable[[int], float]:
    """Return a function from T' to the error bound after T' steps of Gaussian noise on all rows, in a schedule drawn by
    hand; the T' steps spend the whole budget."""
    unit = _half_variance_of_whole_budget(method, facts, budget)

    def bound_at(iterations: int) -> float:
        prefix, weights = factors.first(iterations), theory.own_shares(method.knots, iterations, "gaussian")
        # A step with the share w of the sum W of all shares has W/w times the noise variance of a single step.
        noise = np.exp(prefix.log_contraction[-1] + prefix.log_weight) * unit * weights.sum() / weights
        return float(prefix.initial * np.exp(prefix.log_contraction[-1]) + noise.sum())

    return bound_at


def _laplace_bound(
    method: Method, facts: SmoothFacts, budget: Budget, factors: theory.BoundFactors
) -> Callable[[int], float]:
    """Return a function from T' to the error bound after T' steps of Laplace noise that spend the whole budget, for
    settings where no closed form covers all T' at once.

    It is exact under pure ε. For other budgets the accountants that calibrate the plan itself are too slow for every
    T'; approximations replace them, so the chosen T may be a little off. The privacy of the plan is not: its events are
    calibrated exactly.
    """
    m = method.batch_size(facts)
    ratio = facts.n / m
    unit = facts.d * facts.gradient_sensitivity("l1", m) ** 2  # half variance of the noise of ε = 1 on a known batch
    batch_variance = theory.sampling_variance(facts.gradient_bound("l2"), m, facts.n)
    if budget.pure and method.schedule != "own":
        epsilon = budget.remaining(facts.released)
        # "envelope" never comes here: its bounds are refused before.
        schedule: theory.Schedule = "uniform" if method.schedule == "uniform" else "optimal"
        return lambda iterations: theory.sampled_bound(
            factors.first(iterations), epsilon, ratio, unit, batch_variance, schedule
        )
    affordable_multiple = _affordable_multiple(facts, budget)

    def bound_at(iterations: int) -> float:
        prefix = factors.first(iterations)
        if method.schedule == "own":
            weights = theory.own_shares(method.knots, iterations, "laplace")
        elif method.schedule == "uniform":
            weights = np.ones(iterations)
        else:
            weights = theory.shares_by_bound(prefix, "laplace")
        epsilon_of_steps = weights * affordable_multiple(weights)
        # Amplification by sampling makes ε on a known batch ln(1 + (e^ε - 1) m/n); this is the inverse.
        epsilon_on_batch = np.log1p(np.expm1(epsilon_of_steps) * ratio)
        half_variances = unit / epsilon_on_batch**2 + batch_variance / 2
        noise = np.exp(prefix.log_contraction[-1] + prefix.log_weight) * half_variances
        return float(prefix.initial * np.exp(prefix.log_contraction[-1]) + noise.sum())

    return bound_at


def _affordable_multiple(facts: SmoothFacts, budget: Budget) -> Callable[[np.ndarray], float]:
    """Return a function from weights (T,) to a factor c, such that T Laplace steps with ε_t = c weights[t] cost about
    the whole budget; it is quick, and exact under pure ε."""
    if budget.pure:
        epsilon = budget.remaining(facts.released)
        return lambda weights: epsilon / weights.sum()
    if budget.total_epsilon is not None:
        epsilon = budget.remaining(facts.released)
        rho = budget.about_rho(epsilon)
        # The budget affords Σ ε_t = ε, and about Σ ε_t²/2 = ρ, as a Laplace step costs about ρ_t = ε_t²/2. The larger
        # factor is the better one: few steps profit from the first, many from the second.
        return lambda weights: max(epsilon / weights.sum(), math.sqrt(2 * rho / (weights**2).sum()))
    # One calibration against the budget's own accountant fixes Σ ε_t², as small steps cost in proportion to ε².
    steps = 100  # equal ones: so many that each is small
    epsilons = calibration.calibrate_laplace(budget, np.ones(steps), m=facts.n, n=facts.n, prior=facts.released)
    epsilon_of_step = epsilons[0]
    return lambda weights: epsilon_of_step * math.sqrt(steps / (weights**2).sum())
