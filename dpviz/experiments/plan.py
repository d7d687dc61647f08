"""Plans: what a budget buys, from public facts alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

import numpy as np

from dpviz.privacy import accounting
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event
from dpviz.privacy.ledger import Sequence
from dpviz.problems.base import Facts


@dataclass(frozen=True, eq=False)
class Plan:
    """The events of every iteration, and the schedules that go with them. Computed without touching data.

    facts : what was known; `run` refuses a problem with other facts.
    budget : the guarantee that was asked for; the events deliver it or a stronger one.
    terms : what the ledger will allow.
    charged_at : (len(events),) iteration at which each event is charged.
    schedule : arrays (T,), read-only: step_size, noise_scale, batch_size, ...
    resolved : what "chosen by theory" became.
    notes : warnings in plain words.
    """

    facts: Facts
    budget: Budget
    terms: Sequence
    charged_at: np.ndarray
    iterations: int
    schedule: Mapping[str, np.ndarray]
    resolved: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def fixed(
        cls,
        facts: Facts,
        budget: Budget,
        events: tuple[Event, ...],
        *,
        resolved: Mapping[str, float] = MappingProxyType({}),
        notes: tuple[str, ...] = (),
        **schedule: np.ndarray,
    ) -> Self:
        """A plan with one event per iteration. Each array of `schedule` is (T,)."""
        for values in schedule.values():
            if values.shape != (len(events),):
                raise ValueError(f"a schedule needs {len(events)} entries, not {values.shape}")
            values.setflags(write=False)
        return cls(
            facts=facts,
            budget=budget,
            terms=Sequence(events),
            charged_at=np.arange(1, len(events) + 1),
            iterations=len(events),
            schedule=MappingProxyType(schedule),
            resolved=resolved,
            notes=notes,
        )

    @property
    def events(self) -> tuple[Event, ...]:
        """The events in the order of their release."""
        return self.terms.events

    def spent(self, currency: accounting.Currency) -> np.ndarray:
        """(T+1,) privacy spent after each iteration, in a currency that composes by itself.

        Entry 0 is what was spent before the run, to learn one of its facts.
        """
        before = self.facts.released
        cumulative = accounting.spent((*before, *self.events), currency)
        counts = np.searchsorted(self.charged_at, np.arange(self.iterations + 1), side="right")
        return cumulative[len(before) + counts]
