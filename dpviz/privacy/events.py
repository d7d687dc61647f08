"""Events: what a release does to privacy, with the sensitivity already divided out.

An event describes a mechanism completely; accountants consume events and know nothing else. All are frozen, hashable
and relative to one neighbouring relation, replace-one (n is public, one row is exchanged), unless said otherwise.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace noise of scale Δ₁/eps on a query of L1 sensitivity Δ₁. `eps = inf` means no noise and no privacy."""

    eps: float

    def __post_init__(self) -> None:
        if not self.eps > 0:
            raise ValueError(f"eps must be positive, got {self.eps}")


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Gaussian noise of standard deviation Δ₂/mu on a query of L2 sensitivity Δ₂. `mu = inf`: no noise, no privacy."""

    mu: float

    def __post_init__(self) -> None:
        if not self.mu > 0:
            raise ValueError(f"mu must be positive, got {self.mu}")


@dataclass(frozen=True, slots=True)
class Seq:
    """Several releases computed on the same data (for instance on one batch), one after the other."""

    events: "tuple[Event, ...]"

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("Seq needs at least one event")


@dataclass(frozen=True, slots=True)
class Sub:
    """`inner` on a fresh uniform batch of m of the n rows, drawn without replacement ("wor"), m < n."""

    kind: Literal["wor"]
    m: int
    n: int
    inner: "Event"

    def __post_init__(self) -> None:
        whole = isinstance(self.m, int) and isinstance(self.n, int)
        if self.kind != "wor" or not whole or not 1 <= self.m < self.n:
            raise ValueError(f"Sub needs kind 'wor' and whole 1 <= m < n, got {self.kind!r}, m={self.m}, n={self.n}")
        if draws_batch(self.inner):
            raise ValueError("a batch of a batch is not supported")


Event = Laplace | Gaussian | Seq | Sub


def draws_batch(event: Event) -> bool:
    """Whether a batch is drawn anywhere inside the event."""
    return isinstance(event, Sub) or (isinstance(event, Seq) and any(draws_batch(part) for part in event.events))


def inner_events(event: Event) -> tuple[Event, ...]:
    """The noise releases inside one event, in order: what a batch, once opened, allows."""
    if isinstance(event, Sub):
        return inner_events(event.inner)
    return tuple(e for part in event.events for e in inner_events(part)) if isinstance(event, Seq) else (event,)
