"""Planning of second-order methods: the split of the budget over phases, iterations and purposes of releases."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpviz import resources
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

phrase = resources.phrases(__package__)
Purpose = Literal["gradient", "hessian", "certificate", "search"]
APPROACH = 60  # iterations to a flat stationary point: most runs that were measured took fewer
APPROACH_SHARE = 0.1  # of the iterations by theory, if that is more: all runs that were measured took fewer
Costs = Mapping[Purpose, float]  # amounts of one iteration, or shares of it


@dataclass(frozen=True)
class BudgetSplit:
    """Budget in a currency that adds up over releases, as a filter counts them.

    amount : ρ, or μ².
    """

    currency: Currency
    amount: float

    @classmethod
    def gaussian(cls, budget: Budget, facts: NonconvexFacts) -> "BudgetSplit":
        """Return the split for Gaussian noise alone: in ρ for a budget in ρ, else in the exact μ.

        Raises UserError under pure ε.
        """
        (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
        return cls("rho", float(rho)) if budget.currency == "rho" else cls("mu", 2 * float(rho))

    @classmethod
    def mixed(cls, budget: Budget, facts: NonconvexFacts) -> "BudgetSplit":
        """Return the split for Gaussian noise and releases of pure ε: the largest ρ that implies (ε, δ); μ stays μ.

        Raises UserError under pure ε.
        """
        if budget.pure or not budget.private:
            return cls("rho", budget.gaussian_rho(budget.amount))
        whole = budget.additive(facts.released)
        assert whole.currency is not None
        return cls(whole.currency, whole.left(facts.released))

    def event(self, purpose: Purpose, amount: float) -> Event:
        """Return the release for `purpose` at the price `amount`, in ρ or μ²."""
        if purpose == "search":
            return stated_pure(self.currency, amount)
        return release("gaussian", self.currency, amount)

    def filter(self, allowed: Mapping[str, Event]) -> Filter:
        """Return the filter that allows these releases, by name, within the budget."""
        return Filter(self.currency, UNITS[self.currency].root(self.amount), allowed)

    def path(self, costs: np.ndarray) -> np.ndarray:
        """Return (T+1,) the total cost before and after each iteration, in the filter's unit, from amounts (T,).

        It is cut off at the whole budget, which rounding might exceed.
        """
        sums = np.minimum(np.concatenate([[0.0], np.cumsum(costs)]), self.amount)
        return np.sqrt(sums) if UNITS[self.currency].power == 2 else sums


def in_rho(event: Event, currency: Currency) -> float:
    """Return the price of an event in ρ; μ²/2 if the currency is μ."""
    return price(event, currency) / UNITS[currency].power


# ----------------------------------------------------------------------------------------------------- phases of a plan


@dataclass(frozen=True)
class Phase:
    """Consecutive iterations that cost the same.

    costs : amounts of the releases of one iteration, by purpose. costs_after : if this phase spends what the first
        phase did not use, the amounts after 0, 1, 2, ... optional releases of the first phase, those other than
        gradients; `costs` are then those of the last case.
    """

    iterations: int
    costs: Costs
    costs_after: tuple[Costs, ...] = ()

    @property
    def amount(self) -> float:
        """Cost of one iteration with all its releases."""
        return sum(self.costs.values())


def split_into_phases(
    budget_split: BudgetSplit, lengths: Sequence[int], shares: np.ndarray, weights: Costs, carry_over: bool
) -> tuple[Phase, ...]:
    """Return the phases with their shares of the budget; every iteration of a phase costs the same.

    weights : parts of the amount of an iteration, by purpose. carry_over : True if the second of two phases spends what
        the first does not use. Each optional release of the first, one other than a gradient, counts as the most
        expensive of these.
    """
    total = sum(weights.values())
    result = []
    for length, share in zip(lengths, shares.tolist(), strict=True):
        unit = budget_split.amount * share / length / total
        result.append(Phase(length, {purpose: unit * weight for purpose, weight in weights.items()}))
    if carry_over and len(result) == 2 and len(weights) > 1 and budget_split.amount < math.inf:
        first, second = result
        unit, optional = first.amount / total, [weight for purpose, weight in weights.items() if purpose != "gradient"]
        costs_after = []
        for used in range(len(optional) * first.iterations + 1):
            upper = min(used * max(optional), first.iterations * sum(optional))
            rest = budget_split.amount - (first.iterations * weights["gradient"] + upper) * unit
            costs = {purpose: rest * weight / (total * second.iterations) for purpose, weight in weights.items()}
            costs_after.append(costs)
        result[1] = Phase(second.iterations, second.costs, tuple(costs_after))
    return tuple(result)


def name(purpose: Purpose, phase: int, used: int | None = None) -> str:
    """Return the filter's name of a release; phases count from 0. used : optional releases of the first phase."""
    later = "" if phase == 0 else f", phase {phase + 1}"
    return f"{purpose}{later}" if used is None else f"{purpose}{later}, {used} before"


def allowed(budget_split: BudgetSplit, phases: Sequence[Phase]) -> dict[str, Event]:
    """Return all releases of a plan under a filter, by name."""
    by_name: dict[str, Event] = {}
    for number, phase in enumerate(phases):
        cases = enumerate(phase.costs_after) if phase.costs_after else [(None, phase.costs)]
        for used, costs in cases:
            for purpose, amount in costs.items():
                by_name[name(purpose, number, used)] = budget_split.event(purpose, amount)
    return by_name


def in_each(phases: Sequence[Phase], values: Sequence[float]) -> np.ndarray:
    """Return (T,) the value of each iteration's phase, from one value per phase."""
    return np.repeat(np.asarray(values, dtype=float), [phase.iterations for phase in phases])


def changes(facts: NonconvexFacts) -> dict[Purpose, float]:
    """Return, by purpose, the largest change of the released sum if one row is replaced."""
    return {
        "gradient": facts.gradient_sensitivity,
        "hessian": facts.hessian_sensitivity,
        "certificate": facts.curvature_sensitivity,
    }


def noise(budget_split: BudgetSplit, phases: Sequence[Phase], facts: NonconvexFacts) -> dict[str, np.ndarray]:
    """Return, by purpose, (T,) the largest scale of the noise: at the largest sensitivity, with no carry-over."""

    def scale(purpose: Purpose, phase: Phase, change: float) -> float:
        return noise_scale(budget_split.event(purpose, phase.costs[purpose]), change / facts.n)

    return {
        purpose: in_each(phases, [scale(purpose, phase, change) for phase in phases])
        for purpose, change in changes(facts).items()
        if purpose in phases[0].costs
    }


def cut_short(by_theory: int, iterations: int) -> tuple[str, ...]:
    """Return a note if a plan has fewer iterations than the analysis needs, else nothing."""
    if iterations >= by_theory:
        return ()
    ratio = math.sqrt(by_theory / iterations)
    return (
        (
            f"The analysis asks for {short(by_theory)} iterations. With {short(iterations)} its promise to finish is "
            f"given up, for {short(ratio)} times less noise; the privacy is the same."
        ),
    )


def assumptions(facts: NonconvexFacts) -> tuple[str, ...]:
    """Return a note on the constants of a plan that do not follow from the loss, if there are any."""
    if not facts.assumed:
        return ()
    constants = ", ".join(f"{a.symbol} = {short(a.declared)} where {short(a.follows)} follows" for a in facts.assumed)
    return (
        (
            f"Assumed, not known: {constants} from the loss for every data set. Steps, their number and what a run "
            "comes to rest on it; the privacy does not."
        ),
    )


def filtered(
    budget_split: BudgetSplit,
    phases: Sequence[Phase],
    facts: NonconvexFacts,
    budget: Budget,
    resolved: Mapping[str, float],
    notes: tuple[str, ...],
    **schedule: np.ndarray,
) -> Plan:
    """Return the plan of these phases under a filter, in which each release has its own event."""
    return Plan.filtered(
        facts,
        budget,
        budget_split.filter(allowed(budget_split, phases)),
        sum(phase.iterations for phase in phases),
        worst_case=budget_split.path(in_each(phases, [phase.amount for phase in phases])) if budget.private else None,
        batch_size=in_each(phases, [facts.n] * len(phases)),
        noise=noise(budget_split, phases, facts),
        noise_varies=any(phase.costs_after for phase in phases),
        resolved=resolved,
        notes=(*notes, *assumptions(facts)),
        phase=in_each(phases, range(len(phases))),
        **schedule,
    )


def fixed(
    batch_fraction: float,
    weights: np.ndarray,
    hessian_share: float,
    facts: NonconvexFacts,
    budget: Budget,
    resolved: Mapping[str, float],
    notes: tuple[str, ...],
) -> Plan:
    """Return a fixed plan that replicates may leave early: each iteration pays for a gradient, and a Hessian, on one
    batch.

    weights : (T,) shares of ρ, before any amplification by sampling. hessian_share : part of each for the Hessian; 0
    for none. Raises UserError where `calibrate_gaussian` does.
    """
    m = max(1, min(facts.n, round(batch_fraction * facts.n)))
    parts = (1 - hessian_share, hessian_share)[: 1 + (hessian_share > 0)]
    rho = calibration.calibrate_gaussian(budget, weights, m, facts.n, facts.released)
    event_of: dict[float, Event] = {}
    for amount in np.unique(rho).tolist():
        inner = Seq(tuple(Gaussian(math.sqrt(2 * amount * part)) for part in parts))
        event_of[amount] = inner if m == facts.n else Sub("wor", m, facts.n, inner)
    releases = zip(changes(facts).items(), parts, strict=False)  # the gradient, and the Hessian
    noise: dict[str, np.ndarray] = {
        purpose: change / m / np.sqrt(2 * rho * part) for (purpose, change), part in releases
    }
    return Plan.fixed(
        facts,
        budget,
        tuple(event_of[amount] for amount in rho.tolist()),
        stops=True,
        batch_size=np.full(len(rho), float(m)),
        noise=noise,
        resolved={**resolved, "batch_size": m},
        notes=(*notes, *assumptions(facts)),
    )


# ------------------------------------------------------------------------------------------------ forecast of stopping


def stoppings(analysis: Analysis, shape: Shape, plan: Plan) -> tuple[Stopping, ...]:
    """Return the behaviour of the stopping test at a flat stationary point in each phase of a plan.

    A phase is recognised by its noise, which differs from that of the phases next to it.
    """
    by_theory = plan.resolved["iterations_by_theory"]
    starts = np.flatnonzero(np.diff(plan.noise["gradient"], prepend=-1.0))
    lengths = np.diff(np.append(starts, plan.iterations))
    hessian = plan.noise.get("hessian", np.zeros(plan.iterations))
    return tuple(
        Stopping(
            length,
            plan.facts.d,
            shape,
            float(plan.noise["gradient"][start]),
            float(hessian[start]),
            analysis.gradient_tolerance,
            analysis.curvature_tolerance,
            1 + int(plan.resolved.get("patience", 0)),
            0.0 if length >= by_theory else min(by_theory, max(APPROACH, APPROACH_SHARE * by_theory)),
        )
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    )
