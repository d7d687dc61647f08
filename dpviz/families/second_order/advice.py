"""Before a run: can its budget tell a minimum from a flat place, and what would make it able to?

After it: who stopped by the tests, when, and who of them at a true solution.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace, last_numbers
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.methods import algorithms, trust_region
from dpviz.families.second_order.theory import Analysis, Guarantee, Light, Stopping
from dpviz.numbers import short_up
from dpviz.privacy.accounting import accountants, currencies
from dpviz.privacy.ledger import Filter
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
