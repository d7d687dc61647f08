"""Plans: the releases and schedules that a budget buys, from public facts alone."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import numpy as np

from dpviz.arguments import Between, ByName, checked  # UserError for wrong types and unknown names
from dpviz.displays import Displayed
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import (
    Event,
    Gaussian,
    StatedApproximateDP,
    distinct_objects,
    draws_batch,
    grouped,
    has_blocks,
    inner_events,
    of_each,
)
from dpviz.privacy.ledger import SLACK, Filter, FixedEvents
from dpviz.problems.base import Condition, Facts

# Privacy of a value on the screen or in a file. "private": it is computed from private releases alone. The next three:
# the same, but the releases are private only on a condition, namely that the seed of their noise stays secret, that
# facts which were read from the data were known beforehand, or both. "not private": it is computed from raw data.
Privacy = Literal[
    "private",
    "private if the seed stays secret",
    "private if known beforehand",
    "private if known beforehand and the seed stays secret",
    "not private",
]
_BY_CONDITION: Mapping[tuple[bool, bool], Privacy] = MappingProxyType(  # key: (facts were read, a seed was set)
    {
        (False, False): "private",
        (False, True): "private if the seed stays secret",
        (True, False): "private if known beforehand",
        (True, True): "private if known beforehand and the seed stays secret",
    }
)
MAX_RECORDED = 1_000  # largest number of iterations in `Plan.record_at`
NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})  # the default of mappings of arrays


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed):
    """The privacy events (noisy releases) of every iteration of a method, and the schedules that the method follows.

    A plan is computed from public facts, without touching data. Most are built by `fixed` or `filtered`.

    facts : the facts it was computed from; `run` refuses a problem with other facts.
    budget : the guarantee that was asked for; the events deliver it or a stronger one.
    terms : the rule of the ledger, which books every release: a fixed sequence of events, or, for a method that
        chooses its events during the run, a filter with a cap on their sum.
    charged_at : (len(events),) iteration at which each of `events` is charged.
    iterations : T, the number of iterations; the largest possible number if `stops`.
    batch_size : (T,) rows that each iteration reads, on average if that is random; None where rows are not counted.
    sizes_vary : True if batch sizes are random, drawn by the run from its public numbers.
    noise : by name ("gradient", "x", "hessian"), (T,) scale of the noise that each iteration adds, 0 where none.
        Empty if the method never adds noise, but randomises by selection.
    noise_varies : True if `noise` is an upper bound, because the noise of an iteration depends on earlier releases.
    schedule : by name, (T,) numbers that only the method and its family read, such as step sizes.
    worst_case : (T+1,) the largest amount that a filter can have been charged after each iteration, in the filter's
        currency (ε, ρ, μ), without the releases before the run. None: its cap from the first iteration on.
    record_at : (k,) ascending iterations that are recorded besides the usual ones, such as the ends of epochs; 40 of
        them, if there are more.
    resolved : the values of settings that were left to be chosen by theory.
    notes : warnings in plain words.
    stops : True if a replicate may end before the last iteration, so that `events` are an upper bound of its charges.
    seeded : True if a seed was set for data that are not public; `Experiment.plan` sets it, since an algorithm does not
        know the seed.
    person : the same releases as all rows of a person see them, by `for_people`; None where every row is a person.

    All arrays and mappings are read-only.

    >>> from dpviz.families.accelerated import Nesterov
    >>> from dpviz.privacy.budgets import PureDP
    >>> from dpviz.problems.linear.linear_models import LogisticRegression
    >>> plan = Nesterov(iterations=4).plan(LogisticRegression().facts(), PureDP(epsilon=2.0))  # reads no data
    >>> plan.spent("epsilon").tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    >>> # Laplace scale of every step: 2C/(n ε_t), for n rows whose gradients are clipped to C, and ε_t = 0.5 a step
    >>> float(plan.noise["gradient"][0])
    0.004
    """

    facts: Facts
    budget: Budget
    terms: FixedEvents | Filter
    charged_at: np.ndarray
    iterations: int
    batch_size: np.ndarray | None = None
    noise: Mapping[str, np.ndarray] = field(default_factory=dict)
    schedule: Mapping[str, np.ndarray] = field(default_factory=dict)
    worst_case: np.ndarray | None = None
    record_at: np.ndarray | None = None
    resolved: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stops: bool = False
    noise_varies: bool = False
    sizes_vary: bool = False
    seeded: bool = False
    person: "Plan | None" = None

    def __repr__(self) -> str:
        at_most = "at most " if self.stops else ""
        notes = "".join(f"; {note}" for note in self.notes)
        return f"<Plan of {at_most}{self.iterations:,} iterations at {self.guarantee}{notes}>"

    def __post_init__(self) -> None:
        """Raise ValueError for arrays of a wrong shape or order; make all arrays and mappings read-only."""
        steps, count = self.iterations, len(self.events)
        if self.charged_at.shape != (count,) or not _ascending(self.charged_at, 1, steps):
            raise ValueError(f"{count} events are charged in ascending order at 1 to {steps}, not at {self.charged_at}")
        record_at = np.empty(0) if self.record_at is None else self.record_at
        if len(record_at) > MAX_RECORDED or not _ascending(record_at, 0, steps):
            raise ValueError(f"at most {MAX_RECORDED} iterations to record ascend from 0 to {steps}, not {record_at}")
        if self.worst_case is not None:
            if not isinstance(self.terms, Filter):
                raise ValueError("what a fixed plan has spent after each iteration follows from its events")
            sums, cap = self.worst_case, self.terms.cap
            if sums.shape != (steps + 1,) or not _ascending(sums, 0, cap * (1 + SLACK)):
                raise ValueError(f"{steps + 1} ascending sums from 0 to the cap {cap}, not {sums}")
        schedules = (
            *self.noise.values(),
            *self.schedule.values(),
            *([] if self.batch_size is None else [self.batch_size]),
        )
        for values in schedules:
            if values.shape != (steps,):
                raise ValueError(f"a schedule needs {steps} entries, not {values.shape}")
        for array in (*schedules, self.charged_at, self.worst_case, self.record_at):
            if array is not None:
                array.setflags(write=False)
        for name in ("noise", "schedule", "resolved"):
            read_only = MappingProxyType(ByName(getattr(self, name), name))
            object.__setattr__(self, name, read_only)  # frozen, but not yet finished

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields with plain mappings: a `MappingProxyType` can be neither pickled nor copied in depth."""
        return vars(self) | {name: dict(getattr(self, name)) for name in ("noise", "schedule", "resolved")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    @classmethod
    def fixed(
        cls,
        facts: Facts,
        budget: Budget,
        events: tuple[Event, ...],
        *,
        charged_at: np.ndarray | None = None,
        iterations: int | None = None,
        stops: bool = False,
        batch_size: np.ndarray | None = None,
        sizes_vary: bool = False,
        noise: Mapping[str, np.ndarray] = NOTHING,
        record_at: np.ndarray | None = None,
        resolved: Mapping[str, float] = MappingProxyType({}),
        notes: tuple[str, ...] = (),
        **schedule: np.ndarray,
    ) -> Self:
        """Return a plan whose events are fixed in advance.

        charged_at, iterations : iteration of each event, ascending, and T; without them one event per iteration.
        schedule : each further keyword is an array (T,) of the field `schedule`.
        The other parameters are the fields of the same names.
        """
        if charged_at is None:
            charged_at = np.arange(1, len(events) + 1)
        steps = len(events) if iterations is None else iterations
        # In the order of the class's fields, as in `filtered`.
        fields = facts, budget, FixedEvents(events), charged_at, steps, batch_size, noise, schedule
        return cls(*fields, record_at=record_at, resolved=resolved, notes=notes, stops=stops, sizes_vary=sizes_vary)

    @classmethod
    def filtered(
        cls,
        facts: Facts,
        budget: Budget,
        terms: Filter,
        iterations: int,
        *,
        worst_case: np.ndarray | None = None,
        batch_size: np.ndarray | None = None,
        noise: Mapping[str, np.ndarray] = NOTHING,
        noise_varies: bool = False,
        record_at: np.ndarray | None = None,
        resolved: Mapping[str, float] = MappingProxyType({}),
        notes: tuple[str, ...] = (),
        **schedule: np.ndarray,
    ) -> Self:
        """Return a plan under a filter, for a method that chooses its events during the run and may stop by itself.

        iterations : the largest possible number of iterations.
        schedule : each further keyword is an array (T,) of the field `schedule`.
        The other parameters are the fields of the same names.
        """
        charged_at = np.ones(1, dtype=int)  # of the only event, the filter's cap: from the first iteration on
        fields = facts, budget, terms, charged_at, iterations, batch_size, noise, schedule, worst_case
        return cls(*fields, record_at=record_at, resolved=resolved, notes=notes, stops=True, noise_varies=noise_varies)

    def for_people(self, budget: Budget, rows_per_person: int) -> "Plan":
        """Return the plan with its `statement` for people who have up to k = `rows_per_person` rows.

        budget : the guarantee of a person; the plan was made for `budget.per_row(rows_per_person)`.
        """
        if rows_per_person == 1 or not self.private:
            return self
        k = rows_per_person
        released = tuple(grouped(event, k) for event in self.facts.released)  # `grouped`: for k rows together
        statement = replace(self, facts=replace(self.facts, released=released), budget=budget)
        if isinstance(self.terms, Filter):
            factor = k**2 if self.terms.currency == "rho" else k  # k rows cost k times ε or μ, and k² times ρ
            worst_case = None if self.worst_case is None else factor * self.worst_case
            terms = replace(self.terms, cap=factor * self.terms.cap)
            return replace(self, person=replace(statement, terms=terms, worst_case=worst_case))
        # `of_each` computes once for each object among the events: equal steps share one.
        events = of_each(self.terms.events, lambda event: _of_person(event, k, budget.currency))
        with_cost = tuple(event for event in events if event is not None)
        if len(with_cost) == len(events):
            return replace(self, person=replace(statement, terms=FixedEvents(with_cost)))
        # Some event has no cost by itself for a person. All events together, charged at the first iteration, cost what
        # the earlier releases leave of the budget.
        together = FixedEvents((StatedApproximateDP(budget.remaining(released), budget.own_delta(0.0)),))
        return replace(self, person=replace(statement, terms=together, charged_at=np.ones(1, dtype=int)))

    @property
    def statement(self) -> "Plan":
        """The plan with the budget and the events of the unit of protection, a person with all rows or one row:
        guarantees and displays of the privacy spent follow it.

        The fields of the plan itself are always those of one row, which noise, theory and ledger follow.
        """
        return self if self.person is None else self.person

    @property
    def rows(self) -> np.ndarray:
        """(T,) rows that each iteration reads: `batch_size`, or all n rows where it is None."""
        return np.full(self.iterations, self.facts.n) if self.batch_size is None else self.batch_size

    @property
    def private(self) -> bool:
        """True if the plan has a budget; nothing of a run without one is released.

        The guarantee may rest on a condition, which `privacy` and `guarantee` name.
        """
        return self.budget.private

    @property
    def privacy(self) -> Privacy:
        """Privacy of the releases of the plan's runs, with the condition that it rests on."""
        return privacy_of(self.private, self.condition)

    @property
    def condition(self) -> Condition:
        """Condition that the guarantee rests on: facts that were read from the data, and a seed that was set."""
        return replace(self.facts.condition, seeded=self.seeded)

    @property
    def guarantee(self) -> str:
        """Guarantee of one run of the plan, in words: the budget, and the condition that it rests on."""
        return f"{self.statement.budget.describe()}{self.condition if self.private else ''}"

    @cached_property
    def passes(self) -> np.ndarray | None:
        """(T+1,) number of passes over the data up to each iteration (rows read so far / n), which compares methods
        with batches of different sizes.

        None where it is not known in advance, because rows are not counted, batches are of random size, or replicates
        may stop by themselves.
        """
        if self.batch_size is None or self.sizes_vary or self.stops:
            return None
        return np.concatenate([[0.0], np.cumsum(self.batch_size)]) / self.facts.n

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the whole run for the accountants, in the order of their release.

        Under a filter, whose events are not known in advance, it is one event that stands for the whole cap.
        """
        if isinstance(self.terms, FixedEvents):
            return self.terms.events
        return (_event_costing(self.terms, self.terms.cap),)

    @checked
    def charged(self, iteration: Annotated[int, Between(0, math.inf, ends=True)]) -> tuple[Event, ...]:
        """Return the events of a run up to an iteration, for the accountants.

        Under a filter it is one event that stands for the largest amount which can have been charged until then.
        """
        if isinstance(self.terms, Filter) and self.worst_case is not None:
            amount = float(self.worst_case[iteration])
            return (_event_costing(self.terms, amount),) if amount else ()  # no event costs 0
        count = int(np.searchsorted(self.charged_at, iteration, side="right"))
        return self.events[:count]

    @cached_property
    def currency(self) -> Currency | None:
        """Currency (ε, ρ or μ) in which the costs of the iterations add up, for curves of the privacy spent so far.

        It is that of the filter or of the budget, and ρ for a budget without such a currency. None for a plan without
        privacy, and where an event has no finite cost in the currency: Gaussian noise on randomly drawn rows has an ε
        at δ that profits from the drawing, but no such ρ.
        """
        if not self.private:
            return None
        if isinstance(self.terms, Filter):
            return self.terms.currency
        currency = self.budget.currency or "rho"
        # Each event once, as plans of equal steps repeat one.
        has_cost = all(UNITS[currency].cost(event) < math.inf for event in distinct_objects(self.events))
        return currency if has_cost else None

    @checked
    def spent(self, currency: Currency) -> np.ndarray:
        """Compute (T+1,) the largest privacy spent up to each iteration, in a currency whose costs add up (ε, ρ or μ).

        Entry 0 is the cost of the facts that were released before the run; the other entries include it.
        """
        earlier = self.facts.released
        if isinstance(self.terms, Filter) and self.worst_case is not None:
            # Costs to the power `unit.power` add up: 1 for ε and ρ, 2 for μ.
            unit, earlier_cost = UNITS[currency], accountants.total(earlier, currency)
            # The worst case is in the filter's currency. Each distinct amount is converted to `currency` once; no event
            # costs 0.
            amounts, indices = np.unique(self.worst_case, return_inverse=True)
            costs = np.array(
                [unit.cost(_event_costing(self.terms, amount)) if amount else 0.0 for amount in amounts.tolist()]
            )
            return np.asarray((earlier_cost**unit.power + costs[indices] ** unit.power) ** (1 / unit.power))
        cumulative = accountants.spent((*earlier, *self.events), currency)  # entry i: the cost of the first i events
        counts = np.searchsorted(self.charged_at, np.arange(self.iterations + 1), side="right")
        return cumulative[len(earlier) + counts]


def privacy_of(private: bool, condition: Condition) -> Privacy:
    """Return the privacy of an arm's releases; this is the only place that decides it.

    private : True if the arm has a budget.
    condition : the condition that the budget's guarantee rests on.
    """
    return _BY_CONDITION[bool(condition.read), condition.seeded] if private else "not private"


def is_conditional(privacy: str) -> bool:
    """Return whether a `Privacy` is one of the three that hold on a condition only."""
    return privacy in set(_BY_CONDITION.values()) - {"private"}


def weakest_privacy(privacies: Iterable[Privacy]) -> Privacy:
    """Return the privacy of several values that are shown together: every condition of one is a condition of all.

    It is "private" if there are no values.
    """
    distinct = set(privacies)
    if "not private" in distinct:
        return "not private"
    conditions = [condition for condition, privacy in _BY_CONDITION.items() if privacy in distinct]
    some_read_facts = any(read for read, _ in conditions)
    some_set_seed = any(seeded for _, seeded in conditions)
    return _BY_CONDITION[some_read_facts, some_set_seed]


def _ascending(values: np.ndarray, low: float, high: float) -> bool:
    """Return whether `values` are one-dimensional, never decrease, and lie in [low, high]."""
    bounded = np.concatenate([[low], values.ravel(), [high]])
    return values.ndim == 1 and bool((bounded[1:] >= bounded[:-1]).all())


def _of_person(event: Event, k: int, currency: Currency | None) -> Event | None:
    """Return an event that costs at least as much as `event` does if all k rows of a person change at once.

    For events on random batches, or in disjoint blocks, it follows from their cost in the budget's currency alone, or
    from their μ if the budget has no currency. None if there is no such cost (THEORY.md, section 6).
    """
    if not draws_batch(event) and not has_blocks(event):
        return grouped(event, k)
    if currency is None and not all(isinstance(inner, Gaussian) for inner in inner_events(event)):
        return None  # its cost in μ exceeds what the budget charges; `for_people` then charges all events together
    unit = UNITS[currency or "mu"]
    cost = unit.cost(event)
    return grouped(unit.event_of_cost(cost), k) if cost < math.inf else None


def _event_costing(terms: Filter, amount: float) -> Event:
    """Return one event that costs at least as much privacy as any events whose sum under the filter is `amount`.

    amount : in the filter's currency.
    """
    return UNITS[terms.currency].event_of_cost(amount)
