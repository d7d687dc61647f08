"""Before a run: can its budget tell a minimum from a flat place, and what would make it able to?

After it: who stopped by the tests, when, and who of them at a true solution.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from dpviz.datasets.base import NO_TABLES
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace, last_numbers
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.methods import algorithms, trust_region
from dpviz.families.second_order.methods.algorithms import EVEN, HESSIAN_LIMITS, Descent, NonconvexMethod
from dpviz.families.second_order.methods.trust_region import TrustRegion
from dpviz.families.second_order.theory import Analysis, Guarantee, Light, Stopping
from dpviz.numbers import short_up
from dpviz.privacy import events, ledger
from dpviz.privacy.accounting import accountants, currencies
from dpviz.privacy.budgets import Budget
from dpviz.privacy.ledger import Filter
from dpviz.privacy.mechanisms import Mechanisms, Purpose, drawn_seed, noise_scale
from dpviz.problems.nonconvex import nonconvex, nonconvex_risk
from dpviz.problems.nonconvex.nonconvex_risk import Assumed, NonconvexFacts

UNDERESTIMATE = 1e-3  # probability that a released gap is below the true one
FAILURE = 0.05  # of the theorem's promise, over a whole run, all that may fail together
ORDER: tuple[Light, ...] = ("green", "amber", "red")


@dataclass(frozen=True)
class Forecast:
    """What is known of one phase of one method's plan, from settings alone.

    label : of the method. phase, phases : which of how many, from 1. stopping : what both tests do at a flat place.
    decrease : what a step is sure to take off, at least. all_rows : whether noise falls with 1/n exactly, because every
    iteration reads all rows. needed : n_min, the rows from which on the theorem promises a solution; None where it
    promises nothing: with batches, with fewer iterations than it asks for, or from a constant that is assumed.
    published : the same by the poster's formula (4), without its hidden factors. blind : never looks at the curvature.
    assumed : the constants that are declared, and smaller than what follows from the loss. factor : how many times less
    noise would turn the method green, in one of its phases; infinite if none does.
    """

    label: str
    phase: int
    phases: int
    stopping: Stopping
    decrease: float
    rows: int
    all_rows: bool
    needed: float | None
    published: float | None
    blind: bool
    assumed: tuple[Assumed, ...]
    factor: float

    @property
    def name(self) -> str:
        """The method, and which of its phases."""
        return self.label if self.phases == 1 else f"{self.label}, phase {self.phase}"

    @property
    def light(self) -> Light:
        """As the traffic light shows it: what rests on an assumption is not green."""
        found = self.stopping.light
        return "amber" if found == "green" and self.assumed else found

    @property
    def hurried(self) -> bool:
        """Whether it stops soon only if it gets to a flat place before the phase is over, which is short."""
        return self.light == "amber" and self.stopping.recognised and self.stopping.light != "green"

    @property
    def practical(self) -> float | None:
        """The rows at which noise is as large as what is tested; None with batches, whose noise falls otherwise."""
        largest = max(self.stopping.gradient_ratio, self.stopping.hessian_ratio)
        return self.rows * largest if self.all_rows else None


def forecasts(experiment: Experiment, plans: Mapping[str, Plan]) -> dict[str, tuple[Forecast, ...]]:
    """The phases of every private method, by its label."""
    found = {}
    for arm in experiment.arms:
        plan, method = plans[arm.label], arm.algorithm
        if plan.private and isinstance(method, algorithms.NonconvexMethod):
            found[arm.label] = phases(arm.label, method, plan)
    return found


def phases(label: str, method: algorithms.NonconvexMethod, plan: Plan) -> tuple[Forecast, ...]:
    """The phases of one private method's plan."""
    facts = NonconvexFacts.of(plan.facts)
    analysis = method.analysis(facts)
    stoppings = planning.stoppings(analysis, method.hessian_noise, plan)
    all_rows = bool((plan.rows == facts.n).all())
    longest = max(stopping.iterations for stopping in stoppings)
    bound = plan.resolved.get("iterations_by_theory", plan.iterations) > longest  # the cap binds
    blind = isinstance(method, algorithms.Descent) and method.curvature == "never"
    promising = isinstance(method, algorithms.Descent) and not (bound or blind) and all_rows
    factor = min(stopping.green_at for stopping in stoppings)
    found = []
    for number, stopping in enumerate(stoppings, 1):
        promised = promising and number == len(stoppings)
        sure = promised and not facts.assumed
        needed = facts.n * guarantee(analysis, stopping, method, plan).factor if sure else None
        tolerances = stopping.gradient_tolerance, stopping.curvature_tolerance
        published = theory.published_rows(facts.d, float(plan.spent("rho")[-1]), *tolerances) if promised else None
        decrease, count = least_decrease(plan), len(stoppings)
        rows = facts.n, all_rows, needed, published
        found.append(Forecast(label, number, count, stopping, decrease, *rows, blind, facts.assumed, factor))
    return tuple(found)


def guarantee(analysis: Analysis, stopping: Stopping, method: algorithms.NonconvexMethod, plan: Plan) -> Guarantee:
    """What the theorem asks of the noise of a plan's last phase, which has the most of it, in all of its iterations."""
    facts = NonconvexFacts.of(plan.facts)
    failure = FAILURE - algorithms.CERTIFICATE_FAILURE * ("certificate" in plan.noise)
    failure -= algorithms.LANCZOS_FAILURE * ("hessian_products" in plan.resolved) + UNDERESTIMATE * bool(facts.released)
    searching = method.searching_noise(plan) if isinstance(method, trust_region.LineSearch) else None
    return theory.guarantee(analysis, stopping, failure, plan.iterations, searching)


def least_decrease(plan: Plan) -> float:
    """MIN_DEC: what every step of a plan is sure to take off the objective; nan where the plan does not say."""
    parts = [plan.resolved[name] for name in ("gradient_decrease", "curvature_decrease") if name in plan.resolved]
    return min(parts[: 1 if "hessian" not in plan.noise else None], default=float("nan"))


def best(phases: tuple[Forecast, ...]) -> Forecast:
    """The phase in which a run is most likely to stop: the last one of those with the best light."""
    return min(reversed(phases), key=lambda forecast: ORDER.index(forecast.light))


def budget_for(plan: Plan, factor: float) -> str:
    """The budget with which a plan that reads all rows has so many times less Gaussian noise, in symbols, rounded up;
    empty if none goes so far."""
    if isinstance(plan.terms, Filter):
        currency, most = plan.terms.currency, plan.terms.cap
    else:
        currency, most = "mu", accountants.total(plan.events, "mu")
    unit, control = currencies.UNITS[currency], plan.budget.controls()[0]
    needed = plan.budget.spent((unit.stated(most * factor ** (2 / unit.power)),), plan.facts.released)
    assert control.high is not None
    return f"{control.symbol} = {short_up(needed)}" if needed <= control.high else ""


def waiting_by_rows(forecast: Forecast, reach: float = 100.0, points: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of rows (k,) around the present one, and the waiting time at each (k,), at the same budget."""
    factors = np.geomspace(1 / reach, reach, points)
    times = [forecast.stopping.quieter(factor).waiting_time for factor in factors.tolist()]
    return forecast.rows * factors, np.array(times)


ROUNDING = 1e-9


@dataclass(frozen=True)
class Finish:
    """How R runs of a method ended: functions of released values, but for `solved`.

    finished : how many met both tests. median_step : of these; nan without any. solved : how many of these are at a
    true second-order solution, which reads raw data; None where that may not be shown, or was not computed.
    """

    finished: int
    runs: int
    median_step: float
    solved: int | None


def finish(trace: Trace, arm: Arm, plan: Plan) -> Finish | None:
    """How an arm's runs ended so far; None before their first record."""
    lane = trace.lanes[arm.label]
    if not lane.status or not len(lane.stopped_at):
        return None
    stopped = np.array([word == "converged" for word in lane.status])
    steps = lane.stopped_at[stopped]
    met = within(trace, arm, plan)
    solved = None if met is None else int((met[0] & met[1] & stopped).sum())
    return Finish(int(stopped.sum()), len(stopped), float(np.median(steps)) if len(steps) else float("nan"), solved)


def within(trace: Trace, arm: Arm, plan: Plan) -> tuple[np.ndarray, np.ndarray] | None:
    """(R,) bool each: at whose last point the exact gradient, and the exact curvature, meet their targets. Diagnostics;
    None where they may not be shown, or were not computed."""
    method, facts = arm.algorithm, NonconvexFacts.of(plan.facts)
    assert isinstance(method, algorithms.NonconvexMethod)
    gradient = last_numbers(trace.lanes[arm.label].series("gradient_norm", gaps=True)[1])
    curvature = last_numbers(trace.lanes[arm.label].series("smallest_eigenvalue", gaps=True)[1])
    if not len(gradient) or not len(curvature) or np.isnan(curvature).any():
        return None
    analysis = method.analysis(facts)
    slack = 1 + ROUNDING
    return gradient <= analysis.gradient_target * slack, curvature >= -analysis.curvature * slack


YOURS, EVENLY, SOONEST, PROVEN = "Yours", "Even", "Soonest W ≤ 2", "Soonest proven"
CURVE = np.linspace(*HESSIAN_LIMITS, 46)


class Split(NamedTuple):
    """Effect of a share of the Hessians, in the phase in which a run is most likely to stop.

    stopping : of that phase. needed : n_min/n, the factor of rows that the theorem needs; None where it promises
    nothing.
    """

    share: float
    stopping: theory.Stopping
    needed: float | None


class Compared(NamedTuple):
    """Splits by name, the present one first, and curves over the share of the Hessians.

    phase : the name of the phase they refer to. rows : n, if noise falls with 1/n, else None. assumed : constants that
    do not follow from the loss. curve : (k,) shares. green : (k,) the factor by which noise must fall until a run stops
    at once. proven : (k,) n_min/n, None where the theorem promises nothing.
    """

    splits: Mapping[str, Split]
    phase: str
    rows: int | None
    assumed: tuple[nonconvex_risk.Assumed, ...]
    curve: np.ndarray
    green: np.ndarray
    proven: np.ndarray | None


def compare(label: str, method: NonconvexMethod, plan: Plan) -> Compared | None:
    """Compare the plan's split of the budget with others; None where no Hessian is released, or without privacy."""
    facts = nonconvex_risk.NonconvexFacts.of(plan.facts)
    if not (plan.private and isinstance(method, Descent | TrustRegion) and "hessian" in plan.noise):
        return None
    forecast, analysis = best(phases(label, method, plan)), method.analysis(facts)
    current, stopping = share_of(plan), forecast.stopping

    def needed(share: float) -> float | None:
        if forecast.needed is None:
            return None
        return guarantee(analysis, with_share(stopping, current, share), method, plan).factor

    shares = {YOURS: current, EVENLY: EVEN, SOONEST: soonest_green(stopping, current)}
    if forecast.needed is not None:
        shares[PROVEN] = soonest_proven(guarantee(analysis, stopping, method, plan), current)
    return Compared(
        {name: Split(share, with_share(stopping, current, share), needed(share)) for name, share in shares.items()},
        forecast.name,
        facts.n if forecast.all_rows else None,
        facts.assumed,
        CURVE,
        np.array([with_share(stopping, current, share).recognised_at for share in CURVE.tolist()]),
        None if forecast.needed is None else np.array([needed(share) for share in CURVE.tolist()], dtype=float),
    )


def share_of(plan: Plan) -> float:
    """Return φ, the part of an iteration's budget for gradient and curvature test that goes to the test, in μ²."""
    facts = nonconvex_risk.NonconvexFacts.of(plan.facts)
    changes = planning.changes(facts)
    squares = {name: (changes[name] / plan.noise[name][0]) ** 2 for name in changes if name in plan.noise}
    return float(1 - squares["gradient"] / sum(squares.values()))


def with_share(stopping: theory.Stopping, current: float, share: float) -> theory.Stopping:
    """Return the stopping test with the noise that follows if the share of the Hessians changes from `current`."""
    return replace(
        stopping,
        gradient_noise=stopping.gradient_noise * math.sqrt((1 - current) / (1 - share)),
        hessian_noise=stopping.hessian_noise * math.sqrt(current / share),
    )


def soonest_green(stopping: theory.Stopping, current: float) -> float:
    """Return the share of the Hessians with which the most noise still lets a run stop at once."""

    def noise(share: float) -> float:
        return with_share(stopping, current, share).recognised_at

    return float(minimize_scalar(noise, bounds=HESSIAN_LIMITS, method="bounded", options={"xatol": 1e-3}).x)


def soonest_proven(guarantee: theory.Guarantee, current: float) -> float:
    """Return the share of the Hessians with which the theorem needs fewest rows, in closed form (THEORY.md, 5.6).

    guarantee : the theorem's conditions at the share `current`. Those on a line search do not depend on the share.
    """
    gradient = (guarantee.gradient_error / guarantee.allowed_gradient_error) ** 2 * (1 - current)
    hessian = (guarantee.hessian_error / guarantee.allowed_hessian_error) ** 2 * current
    low, high = HESSIAN_LIMITS
    return min(high, max(low, hessian / (gradient + hessian)))


SHARE = 0.02  # of the budget, for the release: one number, so its noise is small
_MIN_GAP = 1e-3


def released(
    problem: nonconvex.NonconvexModel, epsilon: float, seed: int | None, tables: Mapping[str, np.ndarray] = NO_TABLES
) -> float:
    """Release the gap Γ = f̃ + b ln(1/(2ζ)) - inf f, from f̃ = f(x₀) + Lap(b), at the price `epsilon`; private.

    Replacing a row changes the mean loss at x₀ by at most Δ = `Facts.value_range`/n, so b = Δ/epsilon. The margin makes
    the result an under-estimate with probability at most ζ = 0.001; the published algorithm has no margin, and its
    result is an under-estimate half of the time (Gao and Wright 2023, eq. 3). The result is at most the bound that
    holds for every data set. The noise is Laplace noise, because its ε can be deducted from every budget that Gaussian
    runs can have, (ε, δ) included.

    seed : the same data, model and epsilon with the same seed repeat the release; any other combination draws other
        noise. None: drawn afresh from the operating system's randomness.

    Raises UserError if an uploaded table is missing, epsilon is not positive, or the start is 0, where it says nothing.
    """
    if not 0 < epsilon < math.inf:
        raise UserError("Releasing the gap needs a positive part of the budget.", title="No budget for the gap")
    if problem.start == "zero":
        raise UserError(
            "There the objective is the same for every data set. Leave the gap empty.", title="The start is 0"
        )
    without_gap = problem.replaced(gap=None, gap_cost=None)  # the rows do not depend on it
    event, facts, risk = events.Laplace(epsilon), without_gap.facts(), without_gap.build(tables)
    x = facts.starting_point(1)
    query = risk.mean_value(x)._replace(norm="l1")  # one number: all norms are alike
    release = f"gap\n{epsilon!r}\n{without_gap.to_json()}"
    mechanisms = Mechanisms(ledger.Ledger(ledger.FixedEvents((event,)), 1), drawn_seed(seed), Purpose.FACTS, release)
    ((noisy,),) = mechanisms.laplace(query, event)
    margin = noise_scale(event, float(np.max(query.sensitivity))) * math.log(1 / (2 * UNDERESTIMATE))
    (penalty,) = risk.penalty.value(x)
    return min(max(float(noisy + penalty) + margin - facts.lowest, _MIN_GAP), facts.gap)


def suggested_cost(budget: Budget) -> float:
    """Return the ε of a release of the gap that uses about a fiftieth of the budget.

    Raises UserError under pure ε, which the Gaussian noise of the run cannot meet, and without a budget.
    """
    if not budget.private:
        raise UserError("Without a budget there is nothing to spend on the gap.", title="No budget for the gap")
    rho = budget.gaussian_rho(budget.amount)
    return SHARE * budget.total_epsilon if budget.total_epsilon is not None else math.sqrt(2 * SHARE * rho)
