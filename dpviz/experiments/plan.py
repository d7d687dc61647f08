"""Plans: the releases and schedules that a budget buys, from public facts alone."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal, Self

import numpy as np

from dpviz.arguments import Between, checked
from dpviz.displays import Displayed
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, objects
from dpviz.privacy.ledger import SLACK, Filter, FixedEvents
from dpviz.problems.base import Condition, Facts

# Kinds of a value: a function of private releases; of releases that are private only if the seed of their noise stays
# secret, or if facts that were read from the data were known beforehand, or if both; of raw data.
Privacy = Literal[
    "private",
    "private if the seed stays secret",
    "private if known beforehand",
    "private if known beforehand and the seed stays secret",
    "not private",
]
_BY_CONDITION: Mapping[tuple[bool, bool], Privacy] = MappingProxyType(  # key: facts were read, a seed was set
    {
        (False, False): "private",
        (False, True): "private if the seed stays secret",
        (True, False): "private if known beforehand",
        (True, True): "private if known beforehand and the seed stays secret",
    }
)
MOST_RECORDED = 1_000  # iterations that a plan may ask to be recorded
NOTHING: Mapping[str, np.ndarray] = MappingProxyType({})


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed):
    """The events of every iteration, and the schedules that go with them. Computed without touching data.

    facts : the facts it was computed from; `run` refuses a problem with other facts.
    budget : the guarantee that was asked for; the events deliver it or a stronger one.
    terms : the rule of the ledger: a fixed sequence of events, or a filter for an adaptive method.
    charged_at : (len(events),) iteration at which each of `events` is charged.
    iterations : T, exact, or the largest number of iterations.
    batch_size : (T,) rows that each iteration reads, on average if that is random; None where no rows are counted.
    sizes_vary : whether batch sizes are random, drawn by the run from its public numbers.
    noise : by name ("gradient", "x", "hessian"), (T,) scale of the noise that each iteration adds, 0 where none.
        Empty if the method never adds noise: then it randomises by selection.
    noise_varies : whether `noise` is an upper bound, because the noise of an iteration depends on earlier releases.
    schedule : by name, (T,) numbers that only the method and its family read, such as step sizes.
    worst_case : (T+1,) the largest amount that a filter can have been charged after each iteration, in the filter's
        currency (ε, ρ, μ), by the run alone. None: its cap from the first iteration on.
    record_at : (k,) ascending iterations that are recorded in any case, such as the ends of epochs.
    resolved : the values of settings that were left to be chosen by theory.
    notes : warnings in plain words.
    stops : whether a replicate may end before the last iteration, so that `events` are an upper bound of its charges.
    seeded : as of a `Condition`; an `Experiment` knows it.

    All arrays and mappings are read-only.

    >>> from dpviz.families.accelerated import Nesterov
    >>> from dpviz.privacy.budgets import PureDP
    >>> from dpviz.problems.linear.linear_models import LogisticRegression
    >>> plan = Nesterov(iterations=4).plan(LogisticRegression().facts(), PureDP(epsilon=2.0))  # reads no data
    >>> plan.spent("epsilon").tolist()
    [0.0, 0.5, 1.0, 1.5, 2.0]
    >>> float(plan.noise["gradient"][0])  # the Laplace scale of every step: 2C/(n ε_t)
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

    def __repr__(self) -> str:
        at_most = "at most " * self.stops
        return f"<Plan of {at_most}{self.iterations:,} iterations at {self.guarantee}>"

    def __post_init__(self) -> None:
        """Refuse arrays of the wrong shape with a ValueError, and make all of them read-only."""
        steps, count = self.iterations, len(self.events)
        if self.charged_at.shape != (count,) or not _ascending(self.charged_at, 1, steps):
            raise ValueError(f"{count} events are charged in ascending order at 1 to {steps}, not at {self.charged_at}")
        record_at = np.empty(0) if self.record_at is None else self.record_at
        if len(record_at) > MOST_RECORDED or not _ascending(record_at, 0, steps):
            raise ValueError(f"at most {MOST_RECORDED} iterations to record ascend from 0 to {steps}, not {record_at}")
        if self.worst_case is not None:
            self._check_worst_case(self.worst_case)
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
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))  # frozen, but not yet finished

    def _check_worst_case(self, spent: np.ndarray) -> None:
        if not isinstance(self.terms, Filter):
            raise ValueError("what a fixed plan has spent after each iteration follows from its events")
        if spent.shape != (self.iterations + 1,) or not _ascending(spent, 0, self.terms.cap * (1 + SLACK)):
            raise ValueError(f"{self.iterations + 1} ascending sums from 0 to the cap {self.terms.cap}, not {spent}")

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
        """Return a plan whose events are fixed in advance. Each further array is part of `schedule`, (T,).

        charged_at : (len(events),) ascending, if it is not one event per iteration; then `iterations` is T.
        stops : whether replicates may end before the last iteration.
        """
        times = np.arange(1, len(events) + 1) if charged_at is None else charged_at
        steps = len(events) if iterations is None else iterations
        fields = facts, budget, FixedEvents(events), times, steps, batch_size, noise, schedule
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
        """Return a plan under a filter, for a method that chooses its events during the run; T is `iterations` at
        most."""
        fields = facts, budget, terms, np.ones(1, dtype=int), iterations, batch_size, noise, schedule, worst_case
        return cls(*fields, record_at, resolved, notes, stops=True, noise_varies=noise_varies)

    @property
    def rows(self) -> np.ndarray:
        """(T,) rows that each iteration reads: `batch_size`, or all n where the plan does not count them."""
        return np.full(self.iterations, self.facts.n) if self.batch_size is None else self.batch_size

    @property
    def private(self) -> bool:
        """True if it has a budget; nothing of a run without one is released. `guarantee` names the condition."""
        return self.budget.private

    @property
    def privacy(self) -> Privacy:
        """Privacy of the releases of its runs."""
        return privacy_of(self.private, self.condition)

    @property
    def condition(self) -> Condition:
        """Condition that its guarantee rests on."""
        return replace(self.facts.condition, seeded=self.seeded)

    @property
    def guarantee(self) -> str:
        """Guarantee of one of its runs, in words: the budget, and the condition."""
        return f"{self.budget.describe()}{self.condition if self.private else ''}"

    @cached_property
    def passes(self) -> np.ndarray | None:
        """(T+1,) passes over the data after each iteration, 0 first: a measure of computing time for batches of any
        size.

        None where it is not known in advance, because rows are not counted, batches are of random size, or replicates
        stop.
        """
        if self.batch_size is None or self.sizes_vary or self.stops:
            return None
        return np.concatenate([[0.0], np.cumsum(self.batch_size)]) / self.facts.n

    @property
    def events(self) -> tuple[Event, ...]:
        """The events for the accountants, in the order of their release; under a filter, its ceiling as one event."""
        if isinstance(self.terms, FixedEvents):
            return self.terms.events
        return (_ceiling(self.terms, self.terms.cap),)

    @checked
    def charged(self, iteration: Annotated[int, Between(0, math.inf, ends=True)]) -> tuple[Event, ...]:
        """Return the events of a run up to an iteration, for the accountants; under a filter, its worst case."""
        if isinstance(self.terms, Filter) and self.worst_case is not None:
            amount = float(self.worst_case[iteration])
            return (_ceiling(self.terms, amount),) if amount else ()
        return self.events[: int(np.searchsorted(self.charged_at, iteration, side="right"))]

    @cached_property
    def currency(self) -> Currency | None:
        """Currency in which its steps add up: that of a filter, else that of the budget; ρ where the budget has none.

        None without privacy, and where the costs do not add up: sampling rows lowers ε and δ of Gaussian noise, but no
        ρ.
        """
        if not self.private:
            return None
        if isinstance(self.terms, Filter):
            return self.terms.currency
        currency = self.budget.currency or "rho"
        return currency if all(UNITS[currency].cost(event) < math.inf for event in objects(self.events)) else None

    @checked
    def spent(self, currency: Currency) -> np.ndarray:
        """Compute (T+1,) the privacy spent after each iteration, at most, in a currency that composes by itself.

        Entry 0 is the cost of the facts that were released before the run.
        """
        earlier = self.facts.released
        if isinstance(self.terms, Filter) and self.worst_case is not None:
            sums, indices = np.unique(self.worst_case, return_inverse=True)
            unit, earlier_cost = UNITS[currency], accountants.total(earlier, currency)
            costs = np.array([unit.cost(_ceiling(self.terms, amount)) if amount else 0.0 for amount in sums.tolist()])
            return np.asarray((earlier_cost**unit.power + costs[indices] ** unit.power) ** (1 / unit.power))
        cumulative = accountants.spent((*earlier, *self.events), currency)
        counts = np.searchsorted(self.charged_at, np.arange(self.iterations + 1), side="right")
        return cumulative[len(earlier) + counts]


def privacy_of(private: bool, condition: Condition) -> Privacy:
    """Return the privacy of an arm's releases; no other place decides it.

    private : whether the arm has a budget. condition : the condition that the budget's guarantee rests on.
    """
    return _BY_CONDITION[bool(condition.read), condition.seeded] if private else "not private"


def conditional(status: str) -> bool:
    """Return whether a status is that of releases that are private on a condition."""
    return status in tuple(_BY_CONDITION.values())[1:]


def worst(statuses: Iterable[Privacy]) -> Privacy:
    """Return the privacy of several values together; "private" for none."""
    distinct = set(statuses)
    if "not private" in distinct:
        return "not private"
    conditions = [condition for condition, status in _BY_CONDITION.items() if status in distinct]
    return _BY_CONDITION[any(read for read, _ in conditions), any(seeded for _, seeded in conditions)]


def _ascending(values: np.ndarray, low: float, high: float) -> bool:
    """Return whether values (k,) ascend, weakly, from `low` at least to `high` at most."""
    bounded = np.concatenate([[low], values.ravel(), [high]])
    return values.ndim == 1 and bool((bounded[1:] >= bounded[:-1]).all())


def _ceiling(terms: Filter, amount: float) -> Event:
    """Return the one event that is at least as bad as all events that a filter with this cap allows."""
    return UNITS[terms.currency].stated(amount)
