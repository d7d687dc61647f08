"""Advice on second-order methods.

Before a run: can its budget tell a minimum from a point that only looks flat through the noise, and what would make it
able to; with which split of the budget between gradients and Hessians (`compare`)? After it: how many runs stopped by
their tests, when, and how many of them at a true solution (`run_endings`). And a private release of the gap Γ, the
bound on how far the objective can fall (`release_gap`).

Symbols: α and ε_H are the targets of the gradient's norm and of the curvature, W is the mean number of iterations that
a run waits at a flat point until both of its stopping tests pass.
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
from dpviz.families.second_order.methods.algorithms import (
    CERTIFICATE_FAILURE,
    EVEN,
    HESSIAN_LIMITS,
    LANCZOS_FAILURE,
    Descent,
    NonconvexMethod,
)
from dpviz.families.second_order.methods.trust_region import LineSearch, TrustRegion
from dpviz.families.second_order.theory import Analysis, Guarantee, Light, Stopping
from dpviz.numbers import short_up
from dpviz.privacy import events, ledger
from dpviz.privacy.accounting import accountants, currencies
from dpviz.privacy.budgets import Budget
from dpviz.privacy.ledger import Filter
from dpviz.privacy.mechanisms import Mechanisms, Purpose, noise_scale, seed_or_random
from dpviz.problems.nonconvex import nonconvex
from dpviz.problems.nonconvex.nonconvex_risk import Assumed, NonconvexFacts

UNDERESTIMATE = 1e-3  # probability that a released gap is below the true one
FAILURE = 0.05  # probability that the theorem's promise for a whole run fails, for all reasons together
ORDER: tuple[Light, ...] = ("green", "amber", "red")  # forecasts, the best first


@dataclass(frozen=True)
class Forecast:
    """Forecast of one phase of one method's plan, from settings alone.

    label : of the method. phase, phases : number of the phase, from 1, and of all phases.
    stopping : behaviour of both stopping tests at a flat point.
    decrease : the decrease of the objective that every step guarantees; nan where the plan does not say.
    rows : n. all_rows : True if every iteration reads all rows, so that noise falls with 1/n exactly.
    rows_needed : number of rows from which on the theorem promises a solution; None where it promises nothing: with
        batches, with fewer iterations than it asks for, from an assumed constant, and for other phases than the last.
    rows_published : the same by the poster's formula (4), without its hidden factors; also with assumed constants.
    blind : True if the method never looks at the curvature.
    assumed : constants that are declared, and smaller than what follows from the loss.
    factor_until_green : factor by which noise must fall until one of the phases is green; infinite if none suffices.
    """

    label: str
    phase: int
    phases: int
    stopping: Stopping
    decrease: float
    rows: int
    all_rows: bool
    rows_needed: float | None
    rows_published: float | None
    blind: bool
    assumed: tuple[Assumed, ...]
    factor_until_green: float

    @property
    def name(self) -> str:
        """Label of the method, with the number of the phase if there are several."""
        return self.label if self.phases == 1 else f"{self.label}, phase {self.phase}"

    @property
    def light(self) -> Light:
        """Forecast as a traffic light; one that rests on assumed constants is amber instead of green."""
        light = self.stopping.light
        return "amber" if light == "green" and self.assumed else light

    @property
    def rows_practical(self) -> float | None:
        """Number of rows at which the noise is as large as the tolerance of its test, for the test with more noise;
        None with batches, whose noise does not fall with 1/n."""
        largest_ratio = max(self.stopping.gradient_ratio, self.stopping.hessian_ratio)
        return self.rows * largest_ratio if self.all_rows else None


def forecasts(experiment: Experiment, plans: Mapping[str, Plan]) -> dict[str, tuple[Forecast, ...]]:
    """Return by label the forecasts of all phases of every private method of an experiment. plans : by label."""
    return {
        arm.label: phase_forecasts(arm.label, arm.algorithm, plans[arm.label])
        for arm in experiment.arms
        if plans[arm.label].private and isinstance(arm.algorithm, NonconvexMethod)
    }


def phase_forecasts(label: str, method: NonconvexMethod, plan: Plan) -> tuple[Forecast, ...]:
    """Return the forecasts of all phases of one private method's plan."""
    facts = NonconvexFacts.of(plan.facts)
    analysis = method.analysis(facts)
    stoppings = planning.stopping_forecasts(analysis, method.hessian_noise, plan)
    all_rows = bool((plan.rows == facts.n).all())
    # A plan has one phase with all the iterations that the analysis asks for, so that it alone suffices; it has none if
    # the setting "Steps at most" cut it short.
    is_cut_short = max(stopping.iterations for stopping in stoppings) < plan.resolved["iterations_by_theory"]
    blind = isinstance(method, Descent) and method.curvature == "never"
    theorem_applies = isinstance(method, Descent) and not (is_cut_short or blind) and all_rows
    # The decrease of f that every step guarantees, the paper's MIN_DEC; of curvature steps only if there are Hessians.
    names = ["gradient_decrease", "curvature_decrease"] if "hessian" in plan.noise else ["gradient_decrease"]
    decrease = min((plan.resolved[name] for name in names if name in plan.resolved), default=float("nan"))
    factor_until_green = min(stopping.factor_until_green for stopping in stoppings)
    forecasts_of_phases = []
    for number, stopping in enumerate(stoppings, 1):
        rows_needed = rows_published = None
        if theorem_applies and number == len(stoppings):  # it promises a solution by the end of the last phase
            if not facts.assumed:
                rows_needed = facts.n * guarantee(analysis, stopping, method, plan).row_factor
            rho = float(plan.spent("rho")[-1])  # after all steps
            rows_published = theory.published_rows(
                facts.d, rho, stopping.gradient_tolerance, stopping.curvature_tolerance
            )
        forecast = Forecast(
            label=label,
            phase=number,
            phases=len(stoppings),
            stopping=stopping,
            decrease=decrease,
            rows=facts.n,
            all_rows=all_rows,
            rows_needed=rows_needed,
            rows_published=rows_published,
            blind=blind,
            assumed=facts.assumed,
            factor_until_green=factor_until_green,
        )
        forecasts_of_phases.append(forecast)
    return tuple(forecasts_of_phases)


def guarantee(analysis: Analysis, stopping: Stopping, method: NonconvexMethod, plan: Plan) -> Guarantee:
    """Return the errors of a plan's releases against those that the theorem allows.

    stopping : of the last phase, whose noise is the largest and is counted in all iterations.

    The releases may have errors that are too large with the probability that FAILURE leaves after everything else that
    may fail: certificates, tests of Hessians through products, and a gap that was released before the run.
    """
    certificate_failure = CERTIFICATE_FAILURE if "certificate" in plan.noise else 0.0
    product_failure = LANCZOS_FAILURE if "hessian_products" in plan.resolved else 0.0
    gap_failure = UNDERESTIMATE if NonconvexFacts.of(plan.facts).released else 0.0
    failure = FAILURE - certificate_failure - (product_failure + gap_failure)
    search_noise = method.search_noise(plan) if isinstance(method, LineSearch) else None
    return theory.guarantee(analysis, stopping, failure, iterations=plan.iterations, search_noise=search_noise)


def stopping_phase(forecasts_of_phases: tuple[Forecast, ...]) -> Forecast:
    """Return the forecast of the phase in which a run is most likely to stop: the last one of those with the best
    light."""
    return min(reversed(forecasts_of_phases), key=lambda forecast: ORDER.index(forecast.light))


def budget_for(plan: Plan, factor: float) -> str:
    """Return in symbols, such as "ε = 3.1", the budget with which a plan that reads all rows has `factor` times less
    Gaussian noise, rounded up; "" if the control of the budget does not go so far, or if it is the (ε, δ) of a person
    with several rows."""
    if plan.person is not None and plan.budget.currency is None:
        return ""  # the (ε, δ) of a row does not follow from what its releases cost a person
    statement = plan.statement  # in which budget and costs are those of a person, if a person may have several rows
    if isinstance(statement.terms, Filter):
        currency, total = statement.terms.currency, statement.terms.cap
    else:
        currency, total = "mu", accountants.total(statement.events, "mu")
    unit, control = currencies.UNITS[currency], statement.budget.controls()[0]  # the first control is of the amount
    larger_total = total * factor ** (2 / unit.power)  # ρ and μ² go with 1/noise²
    one_release = unit.event_of_cost(larger_total)  # that costs as much as the run
    needed = statement.budget.spent((one_release,), statement.facts.released)  # in the unit of `control`
    assert control.high is not None
    return f"{control.symbol} = {short_up(needed)}" if needed <= control.high else ""


def waiting_by_rows(forecast: Forecast, points: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of rows (k,), from 1/100 to 100 times the present one, and the waiting time W (k,) with each at
    the same budget, as noise falls with 1/n."""
    factors = np.geomspace(1 / 100, 100, points)
    waiting_times = [forecast.stopping.quieter(factor).waiting_time for factor in factors.tolist()]
    return forecast.rows * factors, np.array(waiting_times)


ROUNDING = 1e-9  # relative tolerance with which exact values must meet the targets


@dataclass(frozen=True)
class RunEndings:
    """Endings of the runs of a method. All but `solved` follow from released values.

    finished : number of runs that stopped because both of their tests passed. runs : R, the number of all runs.
    median_step : median of the steps at which these stopped; nan if none did.
    solved : number of these that are at a true second-order solution, which reads raw data; None where that may not be
        shown, or was not computed.
    """

    finished: int
    runs: int
    median_step: float
    solved: int | None


def run_endings(trace: Trace, arm: Arm, plan: Plan) -> RunEndings | None:
    """Return the endings of an arm's runs so far; None before their first record."""
    arm_trace = trace.arm_traces[arm.label]
    if not arm_trace.status or not len(arm_trace.stopped_at):  # nothing is recorded yet
        return None
    has_converged = np.array([status == "converged" for status in arm_trace.status])  # (R,)
    steps = arm_trace.stopped_at[has_converged]
    targets_met = within_targets(trace, arm, plan)
    solved = None
    if targets_met is not None:
        gradient_met, curvature_met = targets_met
        solved = int((gradient_met & curvature_met & has_converged).sum())
    return RunEndings(
        finished=int(has_converged.sum()),
        runs=len(has_converged),
        median_step=float(np.median(steps)) if len(steps) else float("nan"),
        solved=solved,
    )


def within_targets(trace: Trace, arm: Arm, plan: Plan) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two arrays (R,) bool: True for a run at whose last point the exact gradient meets its target, and the same
    for the exact curvature. None where they may not be shown, as they read raw data, or were not computed."""
    method, facts = arm.algorithm, NonconvexFacts.of(plan.facts)
    assert isinstance(method, NonconvexMethod)
    arm_trace = trace.arm_traces[arm.label]
    _, gradient_norms = arm_trace.series("gradient_norm", gaps=True)  # (k, R) at the records, with NaN
    _, eigenvalues = arm_trace.series("smallest_eigenvalue", gaps=True)
    gradient, curvature = last_numbers(gradient_norms), last_numbers(eigenvalues)  # (R,) the last that are not NaN
    if not len(gradient) or not len(curvature) or np.isnan(curvature).any():  # NaN: not computed for a run
        return None
    analysis = method.analysis(facts)
    slack = 1 + ROUNDING
    return gradient <= analysis.gradient_target * slack, curvature >= -analysis.curvature * slack


# Names of the splits that are compared: the plan's own, half each, that with which a run stops at once at the most
# noise, and that with which the theorem needs the fewest rows.
YOURS, EVENLY, SOONEST, PROVEN = "Yours", "Even", "Soonest W ≤ 2", "Soonest proven"
# Shares of the Hessians at which curves are computed.
CURVE_SHARES = np.linspace(*HESSIAN_LIMITS, 46)


class Split(NamedTuple):
    """Effect of a split of the budget, in the phase in which a run is most likely to stop.

    share : of the Hessians in what an iteration spends on its gradient and its test of curvature, in ρ.
    stopping : forecast of the stopping test with this share.
    row_factor : factor by which the number of rows must grow until the theorem promises a solution; None where it
        promises nothing.
    """

    share: float
    stopping: Stopping
    row_factor: float | None


class SplitComparison(NamedTuple):
    """Comparison of a plan's split of the budget between gradients and Hessians with others.

    splits : by name, the plan's own first. phase : name of the phase that they refer to.
    rows : n if noise falls with 1/n, else None. assumed : constants that are declared and do not follow from the loss.
    curve_shares : (k,) shares of the Hessians. factors_until_recognised : (k,) for each the factor by which noise must
        fall until a run stops at once at a flat point. row_factors : (k,) for each the factor by which the number of
        rows must grow until the theorem promises a solution; None where it promises nothing.
    """

    splits: Mapping[str, Split]
    phase: str
    rows: int | None
    assumed: tuple[Assumed, ...]
    curve_shares: np.ndarray
    factors_until_recognised: np.ndarray
    row_factors: np.ndarray | None


def compare(label: str, method: NonconvexMethod, plan: Plan) -> SplitComparison | None:
    """Compare a plan's split of the budget between gradients and Hessians with others; return None where no Hessian is
    released, or without privacy."""
    facts = NonconvexFacts.of(plan.facts)
    if not (plan.private and isinstance(method, Descent | TrustRegion) and "hessian" in plan.noise):
        return None
    forecast, analysis = stopping_phase(phase_forecasts(label, method, plan)), method.analysis(facts)
    current, stopping = share_of(plan), forecast.stopping

    def row_factor(share: float) -> float | None:
        """Return the factor of rows that the theorem needs with this share; None where it promises nothing."""
        if forecast.rows_needed is None:
            return None
        return guarantee(analysis, with_share(stopping, current, share), method, plan).row_factor

    def factor_until_recognised(share: float) -> float:
        """Return the factor by which noise must fall until a run stops at once at a flat point with this share."""
        return with_share(stopping, current, share).factor_until_recognised

    soonest = minimize_scalar(factor_until_recognised, bounds=HESSIAN_LIMITS, method="bounded", options={"xatol": 1e-3})
    shares = {YOURS: current, EVENLY: EVEN, SOONEST: float(soonest.x)}
    factors_until_recognised = np.array([factor_until_recognised(share) for share in CURVE_SHARES.tolist()])
    row_factors = None
    if forecast.rows_needed is not None:
        shares[PROVEN] = soonest_proven_share(guarantee(analysis, stopping, method, plan), current)
        row_factors = np.array([row_factor(share) for share in CURVE_SHARES.tolist()], dtype=float)
    return SplitComparison(
        splits={
            name: Split(share, with_share(stopping, current, share), row_factor(share))
            for name, share in shares.items()
        },
        phase=forecast.name,
        rows=facts.n if forecast.all_rows else None,
        assumed=facts.assumed,
        curve_shares=CURVE_SHARES,
        factors_until_recognised=factors_until_recognised,
        row_factors=row_factors,
    )


def share_of(plan: Plan) -> float:
    """Return φ, the share of the curvature test in what the first iteration spends on its gradient and that test, in ρ.

    A release with the sensitivity Δ and noise of the scale σ costs ρ = (Δ/σ)²/2.
    """
    facts = NonconvexFacts.of(plan.facts)
    # Costs up to a common factor: with the sensitivity of the sum over all rows, and without the ½.
    costs = {
        purpose: (sensitivity / plan.noise[purpose][0]) ** 2
        for purpose, sensitivity in planning.sum_sensitivities(facts).items()
        if purpose in plan.noise
    }
    return float(1 - costs["gradient"] / sum(costs.values()))


def with_share(stopping: Stopping, current: float, share: float) -> Stopping:
    """Return the forecast of the stopping test with the noise that it has if the share of the Hessians changes from
    `current` to `share`: noise goes with the root of 1/share."""
    return replace(
        stopping,
        gradient_noise=stopping.gradient_noise * math.sqrt((1 - current) / (1 - share)),
        hessian_noise=stopping.hessian_noise * math.sqrt(current / share),
    )


def soonest_proven_share(errors: Guarantee, current: float) -> float:
    """Return the share of the Hessians with which the theorem needs the fewest rows, in closed form (THEORY.md, 5.6).

    At that share the errors of gradient and Hessian are the same multiple of what the theorem allows; squared errors go
    with 1/share. errors : those at the share `current`. Those of a line search do not depend on the share.
    """
    # Squares of these multiples are gradient/(1 - φ) and hessian/φ at the share φ.
    gradient = (errors.gradient_error / errors.allowed_gradient_error) ** 2 * (1 - current)
    hessian = (errors.hessian_error / errors.allowed_hessian_error) ** 2 * current
    low, high = HESSIAN_LIMITS
    return min(high, max(low, hessian / (gradient + hessian)))


SHARE = 0.02  # of the budget, for the release of the gap: one number, so its noise is small
_MIN_GAP = 1e-3  # smallest gap that a release returns, the lower limit of the problem's setting


def release_gap(
    problem: nonconvex.NonconvexModel, epsilon: float, seed: int | None, tables: Mapping[str, np.ndarray] = NO_TABLES
) -> float:
    """Release privately, at the price `epsilon`, the gap Γ: a bound on how far the objective f can fall from the
    starting point x₀.

    It is Γ = f(x₀) + Lap(b) + b ln(1/(2ζ)) - inf f, with a lower bound in place of inf f. Replacing a row changes the
    mean loss at x₀ by at most Δ = `NonconvexFacts.value_range`/n, so the Laplace noise has the scale b = Δ/epsilon. The
    margin b ln(1/(2ζ)) makes the result an under-estimate with probability at most ζ = UNDERESTIMATE; the published
    algorithm has no margin, and its result is an under-estimate half of the time (Gao and Wright 2023, eq. 3). The
    result is at most the bound that holds for every data set. The noise is Laplace noise, because its ε can be deducted
    from every budget that Gaussian runs can have, (ε, δ) included.

    seed : the same data, model and epsilon with the same seed repeat the release; any other combination draws other
        noise. None: drawn afresh from the operating system's randomness.
    tables : uploaded tables by identity.

    Raises UserError if an uploaded table is missing, epsilon is not positive, or the start is 0, where it says nothing.
    """
    if not 0 < epsilon < math.inf:
        raise UserError("Releasing the gap needs a positive part of the budget.", title="No budget for the gap")
    if problem.start == "zero":
        raise UserError(
            "There the objective is the same for every data set. Leave the gap empty.", title="The start is 0"
        )
    without_gap = problem.replaced(gap=None, gap_cost=None)  # so that its facts have the gap for every data set
    event = events.Laplace(epsilon / problem.rows_per_person)  # the cost is that of a person, or of a row
    facts, risk = without_gap.facts(), without_gap.build(tables)
    x = facts.starting_point(replicates=1)
    query = risk.mean_value(x)._replace(norm="l1")  # as Laplace noise needs; of one number all norms are alike
    release = f"gap\n{epsilon!r}\n{without_gap.to_json()}"  # from this text and the seed the noise is derived
    mechanisms = Mechanisms(
        ledger.Ledger(ledger.FixedEvents((event,)), replicates=1), seed_or_random(seed), Purpose.FACTS, release=release
    )
    ((noisy,),) = mechanisms.laplace(query, event)  # one replicate, one number
    margin = noise_scale(event, float(np.max(query.sensitivity))) * math.log(1 / (2 * UNDERESTIMATE))
    (penalty,) = risk.penalty.value(x)
    return min(max(float(noisy + penalty) + margin - facts.lowest, _MIN_GAP), facts.gap)


def suggested_cost(budget: Budget) -> float:
    """Return the ε at which `release_gap` uses about the part SHARE of the budget.

    Raises UserError under pure ε, which the Gaussian noise of the run cannot meet, and without a budget.
    """
    if not budget.private:
        raise UserError("Without a budget there is nothing to spend on the gap.", title="No budget for the gap")
    rho = budget.gaussian_rho(budget.amount)  # raises the error under pure ε
    if budget.total_epsilon is not None:
        return SHARE * budget.total_epsilon
    return math.sqrt(2 * SHARE * rho)  # Laplace noise of ε costs a ρ of at most ε²/2
