"""Planning of second-order methods: the split of the budget over phases, iterations and purposes of releases.

A run releases numbers for up to four purposes: gradients in every iteration, and, in some, Hessians, smallest
eigenvalues ("certificate") and line searches. These three are optional releases: a run may do without them. Under a
filter each release is paid for by itself; under a fixed plan an iteration is paid for as a whole.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpviz.experiments.plan import Plan
from dpviz.families.second_order.theory import Analysis, Shape, Stopping
from dpviz.numbers import short
from dpviz.privacy import calibration
from dpviz.privacy.accounting.currencies import UNITS, Currency, price, release, stated_pure
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Gaussian, Seq, Sub
from dpviz.privacy.ledger import Filter
from dpviz.privacy.mechanisms import noise_scale
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts

Purpose = Literal["gradient", "hessian", "certificate", "search"]
# Iterations that a forecast reserves for the way to a flat point: 60, or this share of the iterations by theory if that
# is more. Most runs that were measured took fewer than 60, all took less than the share.
APPROACH = 60
APPROACH_SHARE = 0.1
Costs = Mapping[Purpose, float]  # by purpose, the cost of one iteration's release, or its share in the iteration


@dataclass(frozen=True)
class RunBudget:
    """Budget in a currency whose amounts add up over releases, as a filter counts them.

    currency : "rho" or "mu". amount : ρ, or μ², as μ² is what adds up.
    """

    currency: Currency
    amount: float

    @classmethod
    def gaussian(cls, budget: Budget, facts: NonconvexFacts) -> "RunBudget":
        """Return the budget for releases with Gaussian noise alone: in ρ if it is stated in ρ, else in μ, which is
        exact for such noise.

        Raises UserError under pure ε, which Gaussian noise never gives.
        """
        # The ρ of one release on all rows that spends all; its μ² is 2ρ.
        (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), m=facts.n, n=facts.n, prior=facts.released)
        return cls("rho", float(rho)) if budget.currency == "rho" else cls("mu", 2 * float(rho))

    @classmethod
    def mixed(cls, budget: Budget, facts: NonconvexFacts) -> "RunBudget":
        """Return the budget for releases with Gaussian noise and of pure ε: the largest ρ that implies an (ε, δ); a
        budget in μ stays in μ.

        Raises UserError under pure ε, which Gaussian noise never gives.
        """
        if budget.pure or not budget.private:  # `gaussian_rho` raises the error, or is infinite
            return cls("rho", budget.gaussian_rho(budget.amount))
        whole = budget.additive(facts.released)  # that also covers what was released before the run
        assert whole.currency is not None
        return cls(whole.currency, whole.remaining(facts.released))  # `remaining` gives ρ or μ²

    def event(self, purpose: Purpose, amount: float) -> Event:
        """Return the event of a release for `purpose` that costs `amount`, in ρ or μ²: pure ε for a line search, else
        Gaussian noise."""
        if purpose == "search":
            return stated_pure(self.currency, amount)
        return release("gaussian", self.currency, amount)

    def filter(self, allowed: Mapping[str, Event]) -> Filter:
        """Return the filter, in ρ or μ, that allows these releases, by name, within the budget."""
        return Filter(self.currency, UNITS[self.currency].root(self.amount), allowed)

    def cumulative_costs(self, costs: np.ndarray) -> np.ndarray:
        """Return (T+1,) the cost of the first t = 0..T iterations in ρ or μ, the unit of the filter, from the amounts
        (T,) of all iterations, in ρ or μ².

        It is cut off at the whole budget, which rounding might exceed.
        """
        sums = np.minimum(np.concatenate([[0.0], np.cumsum(costs)]), self.amount)
        return np.sqrt(sums) if UNITS[self.currency].power == 2 else sums  # 2 for μ, as μ² adds up


def in_rho(event: Event, currency: Currency) -> float:
    """Return the price of an event in ρ; if the currency is μ, that is μ²/2."""
    return price(event, currency) / UNITS[currency].power  # of ρ, with the power 1, or of μ², with the power 2


# ----------------------------------------------------------------------------------------------------- phases of a plan


@dataclass(frozen=True)
class Phase:
    """Consecutive iterations that cost the same.

    costs : by purpose, the cost of the release of one iteration, in ρ or μ².
    costs_after : if this phase spends what the first phase did not use, the costs after 0, 1, 2, … optional releases of
        the first phase; `costs` are then those of the last case, where nothing is left over. Else ().
    """

    iterations: int
    costs: Costs
    costs_after: tuple[Costs, ...] = ()

    @property
    def amount(self) -> float:
        """Cost of one iteration with all its releases."""
        return sum(self.costs.values())


def split_into_phases(
    run_budget: RunBudget, lengths: Sequence[int], shares: np.ndarray, weights: Costs, carry_over: bool
) -> tuple[Phase, ...]:
    """Return the phases of a plan with their costs; every iteration of a phase costs the same.

    lengths : iterations of each phase. shares : of the budget, (phases,). weights : by purpose, the share of a release
        in the cost of an iteration, up to a common factor.
    carry_over : True if the second of two phases spends what the first does not use. A run knows only how many optional
        releases the first has used, so each of them counts as the most expensive one.
    """
    total_weight = sum(weights.values())
    phases = []
    for length, share in zip(lengths, shares.tolist(), strict=True):
        cost_of_weight = run_budget.amount * share / length / total_weight  # of a release with the weight 1
        phases.append(Phase(length, {purpose: cost_of_weight * weight for purpose, weight in weights.items()}))
    has_optional_releases, is_private = len(weights) > 1, run_budget.amount < math.inf
    if carry_over and len(phases) == 2 and has_optional_releases and is_private:
        first, second = phases
        cost_of_weight = first.amount / total_weight  # in the first phase
        optional_weights = [weight for purpose, weight in weights.items() if purpose != "gradient"]
        costs_after = []
        for used in range(len(optional_weights) * first.iterations + 1):
            # Each counts as the most expensive one, but together they are no more than all that there may be.
            used_weight = min(used * max(optional_weights), first.iterations * sum(optional_weights))
            spent = (first.iterations * weights["gradient"] + used_weight) * cost_of_weight
            rest = run_budget.amount - spent
            costs = {purpose: rest * weight / (total_weight * second.iterations) for purpose, weight in weights.items()}
            costs_after.append(costs)
        phases[1] = Phase(second.iterations, second.costs, tuple(costs_after))
    return tuple(phases)


def release_name(purpose: Purpose, phase: int, used: int | None = None) -> str:
    """Return the name under which a filter knows the release for a purpose in a phase.

    phase : its number, from 0. used : number of optional releases that the first phase has used, where the release
        depends on it; else None.
    """
    later = "" if phase == 0 else f", phase {phase + 1}"
    return f"{purpose}{later}" if used is None else f"{purpose}{later}, {used} before"


def allowed(run_budget: RunBudget, phases: Sequence[Phase]) -> dict[str, Event]:
    """Return, by the name that `release_name` gives them, the events of all releases that a plan allows."""
    by_name: dict[str, Event] = {}
    for number, phase in enumerate(phases):
        costs_by_used = enumerate(phase.costs_after) if phase.costs_after else [(None, phase.costs)]
        for used, costs in costs_by_used:
            for purpose, amount in costs.items():
                by_name[release_name(purpose, number, used)] = run_budget.event(purpose, amount)
    return by_name


def in_each(phases: Sequence[Phase], values: Sequence[float]) -> np.ndarray:
    """Return (T,) for every iteration the value of its phase, given one value per phase."""
    return np.repeat(np.asarray(values, dtype=float), [phase.iterations for phase in phases])


def sum_sensitivities(facts: NonconvexFacts) -> dict[Purpose, float]:
    """Return, by purpose, the sensitivity of the sum over all rows, n times that of the released mean."""
    return {
        "gradient": facts.gradient_sensitivity,
        "hessian": facts.hessian_sensitivity,
        "certificate": facts.curvature_sensitivity,
    }


def largest_noise(run_budget: RunBudget, phases: Sequence[Phase], facts: NonconvexFacts) -> dict[str, np.ndarray]:
    """Return, by purpose, (T,) the largest noise scale of each iteration: that at the point of the largest sensitivity,
    and with nothing carried over from the first phase."""
    scales: dict[str, np.ndarray] = {}
    for purpose, sensitivity in sum_sensitivities(facts).items():
        if purpose in phases[0].costs:
            events = [run_budget.event(purpose, phase.costs[purpose]) for phase in phases]
            scales[purpose] = in_each(phases, [noise_scale(event, sensitivity / facts.n) for event in events])
    return scales


def limit_note(by_theory: int, iterations: int, budget: Budget) -> tuple[str, ...]:
    """Return a note if a plan has fewer iterations than the analysis needs, else nothing."""
    if iterations >= by_theory:
        return ()
    start = f"The analysis asks for {short(by_theory)} iterations. With {short(iterations)} its promise to finish is"
    if not budget.private:
        return (f"{start} given up.",)
    ratio = short(math.sqrt(by_theory / iterations))
    return (f"{start} given up, for {ratio} times less noise; the privacy is the same.",)


def assumption_note(facts: NonconvexFacts) -> tuple[str, ...]:
    """Return a note on the constants of a plan that are assumed, as they do not follow from the loss; else nothing."""
    if not facts.assumed:
        return ()
    constants = ", ".join(
        f"{constant.symbol} = {short(constant.declared)} where {short(constant.implied)} follows"
        for constant in facts.assumed
    )
    note = (
        f"Assumed, not known: {constants} from the loss for every data set. Steps, their number and what a run comes "
        "to rest on it; the privacy does not."
    )
    return (note,)


def filtered_plan(
    run_budget: RunBudget,
    phases: Sequence[Phase],
    facts: NonconvexFacts,
    budget: Budget,
    resolved: Mapping[str, float],
    notes: tuple[str, ...],
    **schedule: np.ndarray,
) -> Plan:
    """Return the plan of these phases under a filter, in which each release has its own event.

    resolved, notes : of the plan. schedule : by name, (T,) further numbers that the method reads in its run.
    """
    amounts = in_each(phases, [phase.amount for phase in phases])
    return Plan.filtered(
        facts,
        budget,
        terms=run_budget.filter(allowed(run_budget, phases)),
        iterations=sum(phase.iterations for phase in phases),
        worst_case=run_budget.cumulative_costs(amounts) if budget.private else None,
        batch_size=in_each(phases, [facts.n] * len(phases)),
        noise=largest_noise(run_budget, phases, facts),
        noise_varies=any(phase.costs_after for phase in phases),
        resolved=resolved,
        notes=(*notes, *assumption_note(facts)),
        phase=in_each(phases, range(len(phases))),  # from 0, for the payment by `releases.SeparateReleases`
        **schedule,
    )


def fixed_plan(
    batch_fraction: float,
    weights: np.ndarray,
    hessian_share: float,
    facts: NonconvexFacts,
    budget: Budget,
    resolved: Mapping[str, float],
    notes: tuple[str, ...],
) -> Plan:
    """Return a fixed plan that replicates may leave early, in which each iteration pays for a gradient, and perhaps a
    Hessian, on one batch.

    batch_fraction : share of the rows in a batch. weights : (T,) shares of ρ of the iterations, up to a common factor,
        before any amplification by sampling. hessian_share : share of the Hessian in the ρ of an iteration; 0 if none
        is released. resolved, notes : of the plan.
    Raises UserError where `calibrate_gaussian` does.
    """
    m = max(1, min(facts.n, round(batch_fraction * facts.n)))
    shares: dict[Purpose, float] = {"gradient": 1 - hessian_share}
    if hessian_share > 0:
        shares["hessian"] = hessian_share
    rho = calibration.calibrate_gaussian(budget, weights, m=m, n=facts.n, prior=facts.released)
    event_of: dict[float, Event] = {}  # by ρ: iterations that cost the same have one event together
    for amount in np.unique(rho).tolist():
        on_batch = Seq(tuple(Gaussian(math.sqrt(2 * amount * share)) for share in shares.values()))  # μ = √(2ρ)
        event_of[amount] = on_batch if m == facts.n else Sub("wor", m, facts.n, on_batch)  # without replacement
    sensitivity_of_sum = sum_sensitivities(facts)
    noise_scales: dict[str, np.ndarray] = {  # sensitivity/μ
        purpose: sensitivity_of_sum[purpose] / m / np.sqrt(2 * rho * share) for purpose, share in shares.items()
    }
    return Plan.fixed(
        facts,
        budget,
        tuple(event_of[amount] for amount in rho.tolist()),
        stops=True,
        batch_size=np.full(len(rho), float(m)),
        noise=noise_scales,
        resolved={**resolved, "batch_size": m},
        notes=(*notes, *assumption_note(facts)),
    )


# ------------------------------------------------------------------------------------------------ forecast of stopping


def stopping_forecasts(analysis: Analysis, shape: Shape, plan: Plan) -> tuple[Stopping, ...]:
    """Return for each phase of a plan the forecast of its stopping test at a flat point.

    A phase is recognised by its noise, which differs from that of the phases next to it.

    analysis : tolerances of the test. shape : of the noise on Hessians.
    """
    by_theory = plan.resolved["iterations_by_theory"]
    # Iterations (from 0) whose noise differs from that before; no scale is -1, so the first begins a phase, too.
    starts = np.flatnonzero(np.diff(plan.noise["gradient"], prepend=-1.0))
    lengths = np.diff(np.append(starts, plan.iterations))
    hessian_noise = plan.noise.get("hessian", np.zeros(plan.iterations))
    approach = min(by_theory, max(APPROACH, APPROACH_SHARE * by_theory))
    return tuple(
        Stopping(
            iterations=length,
            d=plan.facts.d,
            shape=shape,
            gradient_noise=float(plan.noise["gradient"][start]),
            hessian_noise=float(hessian_noise[start]),
            gradient_tolerance=analysis.gradient_tolerance,
            curvature_tolerance=analysis.curvature_tolerance,
            in_a_row=1 + int(plan.resolved.get("patience", 0)),  # the short gradient at the step aside counts, too
            approach=0.0 if length >= by_theory else approach,
        )
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    )
