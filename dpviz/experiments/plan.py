"""Plans: what a budget buys, from public facts alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

import numpy as np

from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import Budget, GaussianDP, NoPrivacy, PureDP
from dpviz.privacy.events import Event, Gaussian, StatedPureDP, StatedZCDP
from dpviz.privacy.ledger import Filter, FixedEvents
from dpviz.problems.base import Facts

SYMBOLS: Mapping[accountants.Currency, str] = MappingProxyType({"epsilon": "ε", "rho": "ρ", "mu": "μ"})


@dataclass(frozen=True, eq=False)
class Plan:
    """The events of every iteration, and the schedules that go with them. Computed without touching data.

    facts : what was known; `run` refuses a problem with other facts.
    budget : the guarantee that was asked for; the events deliver it or a stronger one.
    terms : what the ledger will allow: a fixed sequence of events, or a filter for an adaptive method.
    charged_at : (len(events),) iteration at which each of `events` is charged.
    iterations : exact, or the most that there can be.
    schedule : arrays (T,), read-only: step_size, noise_scale, batch_size, ...
    resolved : what "chosen by theory" became.
    notes : warnings in plain words.
    stops : whether a replicate may end before the last iteration, so that `events` are what it is charged at most.
    """

    facts: Facts
    budget: Budget
    terms: FixedEvents | Filter
    charged_at: np.ndarray
    iterations: int
    schedule: Mapping[str, np.ndarray]
    resolved: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stops: bool = False

    @classmethod
    def fixed(
        cls,
        facts: Facts,
        budget: Budget,
        events: tuple[Event, ...],
        *,
        charged_at: np.ndarray | None = None,
        iterations: int | None = None,
        resolved: Mapping[str, float] = MappingProxyType({}),
        notes: tuple[str, ...] = (),
        stops: bool = False,
        **schedule: np.ndarray,
    ) -> Self:
        """A plan whose events are fixed in advance. Each array of `schedule` is (T,).

        charged_at : (len(events),) ascending, if it is not one event per iteration; then `iterations` says T.
        stops : whether replicates may leave before the end.
        """
        times = np.arange(1, len(events) + 1) if charged_at is None else charged_at
        steps = len(events) if iterations is None else iterations
        return cls._made(facts, budget, FixedEvents(events), times, steps, resolved, notes, schedule, stops)

    @classmethod
    def filtered(
        cls,
        facts: Facts,
        budget: Budget,
        terms: Filter,
        iterations: int,
        *,
        resolved: Mapping[str, float] = MappingProxyType({}),
        notes: tuple[str, ...] = (),
        **schedule: np.ndarray,
    ) -> Self:
        """A plan under a filter, for a method that decides while it runs what comes next; `iterations` at most."""
        return cls._made(facts, budget, terms, np.ones(1, dtype=int), iterations, resolved, notes, schedule, True)

    @classmethod
    def _made(
        cls,
        facts: Facts,
        budget: Budget,
        terms: FixedEvents | Filter,
        charged_at: np.ndarray,
        iterations: int,
        resolved: Mapping[str, float],
        notes: tuple[str, ...],
        schedule: Mapping[str, np.ndarray],
        stops: bool,
    ) -> Self:
        single = 1 if isinstance(terms, Filter) else len(terms.events)
        if charged_at.shape != (single,) or (np.diff(charged_at, prepend=1, append=iterations) < 0).any():
            raise ValueError(
                f"{single} events are charged in ascending order at 1 to {iterations}, not at {charged_at}"
            )
        for values in schedule.values():
            if values.shape != (iterations,):
                raise ValueError(f"a schedule needs {iterations} entries, not {values.shape}")
            values.setflags(write=False)
        kept = MappingProxyType(dict(schedule))
        return cls(facts, budget, terms, charged_at, iterations, kept, resolved, notes, stops)

    @property
    def events(self) -> tuple[Event, ...]:
        """What accountants read: the events in the order of their release; under a filter, its ceiling as one event."""
        if isinstance(self.terms, FixedEvents):
            return self.terms.events
        ceiling: dict[str, type[StatedPureDP | StatedZCDP | Gaussian]] = {
            "epsilon": StatedPureDP,
            "rho": StatedZCDP,
            "mu": Gaussian,
        }
        return (ceiling[self.terms.currency](self.terms.cap),)

    @property
    def currency(self) -> accountants.Currency | None:
        """The currency in which its steps add up: that of a filter, or the budget's own; ρ where the budget has none.

        None without privacy.
        """
        if isinstance(self.budget, NoPrivacy):
            return None
        if isinstance(self.terms, Filter):
            return self.terms.currency
        return "epsilon" if isinstance(self.budget, PureDP) else "mu" if isinstance(self.budget, GaussianDP) else "rho"

    def spent(self, currency: accountants.Currency) -> np.ndarray:
        """(T+1,) privacy spent after each iteration, at most, in a currency that composes by itself.

        Entry 0 is what was spent before the run, to learn one of its facts.
        """
        before = self.facts.released
        cumulative = accountants.spent((*before, *self.events), currency)
        counts = np.searchsorted(self.charged_at, np.arange(self.iterations + 1), side="right")
        return cumulative[len(before) + counts]
