"""What it costs to publish: each method and each repeat meets the budget alone, and together they spend more."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dpviz.experiments.plan import Plan
from dpviz.numbers import short
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.accounting.rounding import MOST_GROUPS, rounded_up
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Repeat
from dpviz.problems.base import condition_of


@dataclass(frozen=True)
class Cost:
    """The composed guarantee of several releases on the same rows.

    methods, repeats : how many methods, and how many runs of each. spent : in the budget's own currency, called
    `symbol`; infinite where the currency does not exist for these releases, and None for budgets whose currency does
    not add up. epsilon : at `delta`, by the accountant `method`; infinite if none proves anything. condition : what all
    of it rests on, as the plans' facts say.
    """

    methods: int
    repeats: int
    symbol: str
    spent: float | None
    epsilon: float
    delta: float
    method: str
    condition: str = ""

    def describe(self) -> str:
        """In symbols: "ε = 4; ε ≤ 3.2 at δ = 10⁻⁶ (zCDP)"."""
        own = "" if self.spent is None or math.isinf(self.spent) else f"{self.symbol} = {short(self.spent, 4)}; "
        if math.isinf(self.epsilon):
            return f"{own}no finite ε at δ = {short(self.delta)}{self.condition}"
        return f"{own}ε ≤ {short(self.epsilon, 4)} at δ = {short(self.delta)} ({self.method}){self.condition}"


def costs(plans: Mapping[str, Plan], shown: Collection[str], budget: Budget, repeats: int, delta: float) -> list[Cost]:
    """What publishing one run of every method shown costs, and, if there are more, all their repeats; may be empty.

    plans : of a run, by label. shown : labels; those without privacy have no guarantee and are not counted.
    delta : at which ε is read, unless the budget has a δ of its own.
    """
    private = [plan for label, plan in plans.items() if label in shown and plan.budget.private]
    return [_cost(private, times, budget, delta) for times in sorted({1, repeats})] if private else []


def _cost(plans: list[Plan], repeats: int, budget: Budget, delta: float) -> Cost:
    before = plans[0].facts.released  # of the one problem, paid once
    return composed([(plan, repeats) for plan in plans], before, budget.currency, budget.own_delta(delta))


def composed(
    runs: Sequence[tuple[Plan, int]], before: Sequence[Event], currency: Currency | None, delta: float
) -> Cost:
    """What publishing these runs costs: of each plan so many; `repeats` of it is the most of them.

    before : what was released before the runs, which is paid once. currency : that the sum is told in, if it adds up.
    """
    # What is composed in full may be composed in any order, and nearly equal events may count as the larger one.
    counts: Counter[Event] = Counter()
    for plan, repeats in runs:
        counts.update({event: repeats * count for event, count in Counter(plan.events).items()})
    most = max(repeats for _, repeats in runs)
    grouped = list(counts.items()) if len(counts) <= MOST_GROUPS else rounded_up(counts.items())
    events = tuple(Repeat(event, count) for event, count in grouped)
    paid = accountants.total(before, "epsilon")
    # Of hundreds of runs a loss distribution would tell little more, and be large.
    methods = [method for method in accountants.METHODS if most == 1 or method != "pld"]
    found = {method: paid + accountants.epsilon(events, delta, method) for method in methods}
    best = min(found, key=found.__getitem__)
    return Cost(
        len(runs),
        most,
        UNITS[currency or "epsilon"].symbol,
        _spent(runs, before, currency) if currency else None,
        found[best],
        delta,
        accountants.METHOD_NAMES[best],
        condition_of(words for plan, _ in runs for words in plan.facts.from_data),
    )


def _spent(runs: Sequence[tuple[Plan, int]], before: Sequence[Event], currency: Currency) -> float:
    """In a currency that adds up; what was released before the runs, once."""
    power, earlier = UNITS[currency].power, accountants.total(before, currency)
    own = math.fsum(
        repeats * (float(plan.spent(currency)[-1]) ** power - accountants.total(plan.facts.released, currency) ** power)
        for plan, repeats in runs
    )
    return float((earlier**power + own) ** (1 / power))


def sentences(found: Collection[Cost]) -> Iterator[str]:
    """The costs in words, one sentence each: "one run of each of 4 methods: ε = 8; …"."""
    for cost in found:
        methods = "one method" if cost.methods == 1 else f"each of {cost.methods} methods"
        runs = "one run" if cost.repeats == 1 else f"all {cost.repeats} runs"
        yield f"{runs} of {methods}: {cost.describe()}"
