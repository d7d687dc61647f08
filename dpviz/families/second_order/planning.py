"""From a budget to the releases of a plan: how it is split over iterations, phases and purposes."""

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
APPROACH = 60  # iterations to a flat place: most runs that were looked at took fewer
APPROACH_SHARE = 0.1  # or so many of those that the analysis asks for, if that is more: all that were looked at did
Costs = Mapping[Purpose, float]  # amounts of one iteration, or shares of it


@dataclass(frozen=True)
class BudgetSplit:
    """A budget in a currency that adds up, of which a filter keeps the account.

    amount : ρ, or μ².
    """

    currency: Currency
    amount: float

    @classmethod
    def gaussian(cls, budget: Budget, facts: NonconvexFacts) -> "BudgetSplit":
        """For Gaussian noise alone: ρ stays ρ; of (ε, δ), and of all others, the exact μ.

        Raises UserError under pure ε.
        """
        (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
        return cls("rho", float(rho)) if budget.currency == "rho" else cls("mu", 2 * float(rho))

    @classmethod
    def mixed(cls, budget: Budget, facts: NonconvexFacts) -> "BudgetSplit":
        """For Gaussian noise and releases of pure ε: the largest ρ that implies (ε, δ); μ stays μ.

        Raises UserError under pure ε.
        """
        if budget.pure or not budget.private:
            return cls("rho", budget.gaussian_rho(budget.amount))
        whole = budget.additive(facts.released)
        assert whole.currency is not None
        return cls(whole.currency, whole.left(facts.released))

    def event(self, purpose: Purpose, amount: float) -> Event:
        """The release for a purpose that costs so much."""
        if purpose == "search":
            return stated_pure(self.currency, amount)
        return release("gaussian", self.currency, amount)

    def filter(self, allowed: Mapping[str, Event]) -> Filter:
        """The terms of a plan whose releases are these, by name."""
        return Filter(self.currency, UNITS[self.currency].root(self.amount), allowed)

    def path(self, costs: np.ndarray) -> np.ndarray:
        """(T+1,) what iterations of these amounts (T,) cost together after each of them, as the filter states it; never
        more than all there is, which rounding might say."""
        sums = np.minimum(np.concatenate([[0.0], np.cumsum(costs)]), self.amount)
        return np.sqrt(sums) if UNITS[self.currency].power == 2 else sums


def in_rho(event: Event, currency: Currency) -> float:
    """What an event costs in ρ; of one that is counted in μ, μ²/2."""
    return price(event, currency) / UNITS[currency].power


# ----------------------------------------------------------------------------------------------------- phases of a plan


@dataclass(frozen=True)
class Phase:
    """A stretch of iterations that cost the same.

    costs : amounts of the releases of one iteration, by purpose. costs_after : where what the first phase did not ask
        for is spent in this one, the amounts after 0, 1, 2, ... releases of the first that are not asked for in every
        iteration; `costs` are then those of the last case.
    """

    iterations: int
    costs: Costs
    costs_after: tuple[Costs, ...] = ()

    @property
    def amount(self) -> float:
        """Of one iteration that asks for everything."""
        return sum(self.costs.values())


def phases(
    purse: BudgetSplit, lengths: Sequence[int], shares: np.ndarray, each: Costs, carry_over: bool
) -> tuple[Phase, ...]:
    """Phases that get their shares of the budget, in each of which every iteration costs the same.

    each : how the amount of an iteration is split. carry_over : whether what the first of two phases does not ask for
        is spent in the second one: whatever it asked for beside gradients counts like the dearest of that.
    """
    total = sum(each.values())
    found = []
    for length, share in zip(lengths, shares.tolist(), strict=True):
        unit = purse.amount * share / length / total
        found.append(Phase(length, {purpose: unit * weight for purpose, weight in each.items()}))
    if carry_over and len(found) == 2 and len(each) > 1 and purse.amount < math.inf:
        first, second = found
        unit, others = first.amount / total, [weight for purpose, weight in each.items() if purpose != "gradient"]
        after = []
        for asked in range(len(others) * first.iterations + 1):
            most = min(asked * max(others), first.iterations * sum(others))
            rest = purse.amount - (first.iterations * each["gradient"] + most) * unit
            after.append({purpose: rest * weight / (total * second.iterations) for purpose, weight in each.items()})
        found[1] = Phase(second.iterations, second.costs, tuple(after))
    return tuple(found)


def name(purpose: Purpose, phase: int, asked: int | None = None) -> str:
    """What a filter calls a release; phases count from 0. asked : releases that the first phase asked for."""
    later = "" if phase == 0 else f", phase {phase + 1}"
    return f"{purpose}{later}" if asked is None else f"{purpose}{later}, {asked} before"


def allowed(purse: BudgetSplit, plan: Sequence[Phase]) -> dict[str, Event]:
    """All releases of a plan under a filter, by name."""
    found: dict[str, Event] = {}
    for number, phase in enumerate(plan):
        cases = enumerate(phase.costs_after) if phase.costs_after else [(None, phase.costs)]
        for asked, costs in cases:
            for purpose, amount in costs.items():
                found[name(purpose, number, asked)] = purse.event(purpose, amount)
    return found


def in_each(plan: Sequence[Phase], values: Sequence[float]) -> np.ndarray:
    """(T,) one value for each phase, in each of its iterations."""
    return np.repeat(np.asarray(values, dtype=float), [phase.iterations for phase in plan])


def changes(facts: NonconvexFacts) -> dict[Purpose, float]:
    """By purpose, how far one row moves the sum that is released, at most."""
    return {
        "gradient": facts.gradient_sensitivity,
        "hessian": facts.hessian_sensitivity,
        "certificate": facts.curvature_sensitivity,
    }


def noise(purse: BudgetSplit, plan: Sequence[Phase], facts: NonconvexFacts) -> dict[str, np.ndarray]:
    """By purpose, (T,) the scale of its noise, at most: that of the largest sensitivity, with nothing left over."""
    return {
        purpose: in_each(plan, [noise_scale(purse.event(purpose, p.costs[purpose]), change / facts.n) for p in plan])
        for purpose, change in changes(facts).items()
        if purpose in plan[0].costs
    }


def cut_short(asked: int, iterations: int) -> tuple[str, ...]:
    """What to know of a run that may take fewer iterations than its analysis asks for."""
    if iterations >= asked:
        return ()
    return (
        (
            f"The analysis asks for {short(asked)} iterations. With {short(iterations)} its promise to finish is "
            f"given up, for {short(math.sqrt(asked / iterations))} times less noise; the privacy is the same."
        ),
    )


def assumptions(facts: NonconvexFacts) -> tuple[str, ...]:
    """What a plan rests on that does not follow from the loss, in words."""
    if not facts.assumed:
        return ()
    named = ", ".join(f"{a.symbol} = {short(a.declared)} where {short(a.follows)} follows" for a in facts.assumed)
    return (
        (
            f"Assumed, not known: {named} from the loss for every data set. Steps, their number and what a run comes "
            "to rest on it; the privacy does not."
        ),
    )


def filtered(
    purse: BudgetSplit,
    stretches: Sequence[Phase],
    facts: NonconvexFacts,
    budget: Budget,
    resolved: Mapping[str, float],
    notes: tuple[str, ...],
    **schedule: np.ndarray,
) -> Plan:
    """A plan of these phases under a filter, every release with an event of its own."""
    return Plan.filtered(
        facts,
        budget,
        purse.filter(allowed(purse, stretches)),
        sum(phase.iterations for phase in stretches),
        worst_case=purse.path(in_each(stretches, [phase.amount for phase in stretches])) if budget.private else None,
        batch_size=in_each(stretches, [facts.n] * len(stretches)),
        noise=noise(purse, stretches, facts),
        noise_varies=any(phase.costs_after for phase in stretches),
        resolved=resolved,
        notes=(*notes, *assumptions(facts)),
        phase=in_each(stretches, range(len(stretches))),
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
    """A fixed plan that replicates may leave early: every iteration pays for a gradient, and a Hessian, on one batch.

    weights : (T,) shares of ρ, before any amplification by sampling. hessian_share : of each, for the Hessian; 0 for
    none. Raises UserError where `calibrate_gaussian` does.
    """
    m = max(1, min(facts.n, round(batch_fraction * facts.n)))
    parts = (1 - hessian_share, hessian_share)[: 1 + (hessian_share > 0)]
    rho = calibration.calibrate_gaussian(budget, weights, m, facts.n, facts.released)
    made: dict[float, Event] = {}
    for one in np.unique(rho).tolist():
        inner = Seq(tuple(Gaussian(math.sqrt(2 * one * part)) for part in parts))
        made[one] = inner if m == facts.n else Sub("wor", m, facts.n, inner)
    each = zip(changes(facts).items(), parts, strict=False)  # the gradient, and the Hessian
    noise: dict[str, np.ndarray] = {purpose: change / m / np.sqrt(2 * rho * part) for (purpose, change), part in each}
    return Plan.fixed(
        facts,
        budget,
        tuple(made[one] for one in rho.tolist()),
        stops=True,
        batch_size=np.full(len(rho), float(m)),
        noise=noise,
        resolved={**resolved, "batch_size": m},
        notes=(*notes, *assumptions(facts)),
    )


# ----------------------------------------------------------------------------------------------- what the plan foresees


def stoppings(analysis: Analysis, shape: Shape, plan: Plan) -> tuple[Stopping, ...]:
    """What the stopping test does at a flat place in every phase of a plan; a phase has a noise of its own."""
    asked = plan.resolved["iterations_by_theory"]
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
            0.0 if length >= asked else min(asked, max(APPROACH, APPROACH_SHARE * asked)),
        )
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    )
