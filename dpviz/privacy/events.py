"""Events: the effect of a release on privacy, with the sensitivity already divided out.

An event describes a mechanism completely; accountants consume events and know nothing else. All are frozen, hashable
and relative to one neighbouring relation: replace-one (n is public, one row is exchanged) or add/remove-one. An event
without sampling may be read under either, whichever its sensitivity was computed for; a sampled one fixes it.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar, assert_never

from dpviz.errors import UserError
from dpviz.numbers import short_up

T = TypeVar("T")
Relation = Literal["replace-one", "add/remove-one"]


_NO_NOISE = 1e150  # a number beyond, whose square float64 does not hold, says as little as infinity


class OneNumber:
    """A single release that is described by one positive number: its ε, μ, η or ρ. Infinite: no noise, no privacy."""

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        if not self.parameter > 0:
            raise ValueError(f"{self.__match_args__[0]} must be positive, got {self.parameter}")
        if self.parameter > _NO_NOISE:
            object.__setattr__(self, self.__match_args__[0], math.inf)  # frozen, but not finished before this

    @property
    def parameter(self) -> float:
        """The number, under any of its names: eps, mu, eta or rho."""
        number: float = getattr(self, self.__match_args__[0])
        return number


@dataclass(frozen=True, slots=True)
class Laplace(OneNumber):
    """Laplace noise of scale Δ₁/eps on a query of L1 sensitivity Δ₁. `eps = inf` means no noise and no privacy."""

    eps: float


@dataclass(frozen=True, slots=True)
class Gaussian(OneNumber):
    """Gaussian noise of standard deviation Δ₂/mu on a query of L2 sensitivity Δ₂. `mu = inf`: no noise, no privacy."""

    mu: float


@dataclass(frozen=True, slots=True)
class ExpMech(OneNumber):
    """One selection by the exponential mechanism, P(r) ∝ exp(eta u_r / Δ), Δ the range of the utilities' change.

    More generally any release of bounded range eta: the log-ratio of its probabilities under two neighbouring data sets
    takes values in an interval of length eta (Dong, Durfee, Rogers 2020); and any mixture of such releases whose
    weights do not depend on the data, because hockey-stick and Rényi divergences are jointly quasi-convex.
    """

    eta: float


@dataclass(frozen=True, slots=True)
class StatedPureDP(OneNumber):
    """Any eps-DP release of which nothing else is known, such as the sparse vector technique."""

    eps: float


@dataclass(frozen=True, slots=True)
class StatedZCDP(OneNumber):
    """Any rho-zCDP release of which nothing else is known, such as all releases that a filter in ρ allows."""

    rho: float


@dataclass(frozen=True, slots=True)
class StatedApproximateDP:
    """Any (eps, delta)-DP release of which nothing else is known. Its delta is never won back."""

    eps: float
    delta: float

    def __post_init__(self) -> None:
        if not (self.eps >= 0 and 0 < self.delta < 1):
            raise ValueError(f"StatedApproximateDP needs eps >= 0 and 0 < delta < 1, got {self.eps} and {self.delta}")
        if self.eps > _NO_NOISE:
            object.__setattr__(self, "eps", math.inf)


@dataclass(frozen=True, slots=True)
class Seq:
    """Several releases computed on the same data (for instance on one batch), one after the other."""

    events: "tuple[Event, ...]"

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("Seq needs at least one event")
        relation(self.events)


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same kind of release, `times` in a row, each with fresh randomness."""

    event: "Event"
    times: int

    def __post_init__(self) -> None:
        if not isinstance(self.times, int) or self.times < 1:
            raise ValueError(f"Repeat needs a whole number of times, at least 1, got {self.times}")


@dataclass(frozen=True, slots=True)
class Parallel:
    """Releases on disjoint blocks of rows that were fixed without looking at the data: one row is in one block only.

    Not for blocks that are chosen by the rows' values: a replaced row may then change its block.
    """

    events: "tuple[Event, ...]"

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("Parallel needs at least one event")
        if any(draws_batch(event) for event in self.events):
            raise ValueError("batches inside disjoint blocks are not supported")


@dataclass(frozen=True, slots=True)
class Sub:
    """`inner` on a fresh random batch.

    "wor" : a uniform batch of m of the n rows, drawn without replacement, m < n; holds under replace-one.
    "poisson" : every row takes part with probability m/n by itself, so the size of the batch is random and stays
        secret; sums are divided by the constant m. n is a declared constant, not the number of rows, which differs
        between neighbours. Holds under add/remove-one, and so does the inner event.
    """

    kind: Literal["wor", "poisson"]
    m: int
    n: int
    inner: "Event"

    def __post_init__(self) -> None:
        integers = isinstance(self.m, int) and isinstance(self.n, int)
        if self.kind not in ("wor", "poisson") or not integers or not 1 <= self.m < self.n:
            raise ValueError(
                f"Sub needs kind 'wor' or 'poisson' and whole 1 <= m < n, got {self.kind!r}, m={self.m}, n={self.n}"
            )
        if draws_batch(self.inner):
            raise ValueError("a batch of a batch is not supported")


Event = Laplace | Gaussian | ExpMech | StatedPureDP | StatedZCDP | StatedApproximateDP | Seq | Repeat | Parallel | Sub


def parts(event: Event) -> tuple[Event, ...]:
    """Return the events directly inside a composite one; empty for a single release."""
    match event:
        case Seq(events) | Parallel(events):
            return events
        case Repeat(part) | Sub(inner=part):
            return (part,)
        case OneNumber() | StatedApproximateDP():
            return ()
        case _:
            assert_never(event)


def of_each(events: Sequence[Event], value: Callable[[Event], T]) -> list[T]:
    """Return the value of each event, computed once for every one of `objects`."""
    by_id = {id(event): value(event) for event in objects(events)}
    return [by_id[id(event)] for event in events]


def objects(events: Iterable[Event]) -> Collection[Event]:
    """Return the events, each object once, as a uniform schedule repeats one. Nothing is hashed, which takes longer
    than all other work on a long plan; so equal ones may be among them."""
    return {id(event): event for event in events}.values()


def draws_batch(event: Event) -> bool:
    """Return whether a batch is drawn anywhere inside the event."""
    return isinstance(event, Sub) or any(draws_batch(part) for part in parts(event))


def has_blocks(event: Event) -> bool:
    """Return whether there are releases on disjoint blocks anywhere inside the event."""
    return isinstance(event, Parallel) or any(has_blocks(part) for part in parts(event))


def relation(events: Iterable[Event]) -> Relation | None:
    """Return the neighbouring relation that sampled events fix; None if either will do.

    Raises UserError if some hold under replace-one and others under add/remove-one: guarantees for two different
    notions of a neighbour do not add up.
    """
    schemes = {scheme for event in objects(events) for scheme in _schemes(event)}
    if len(schemes) > 1:
        raise UserError(
            "Batches without replacement hold if one row is replaced, Poisson batches if one is added or removed: two "
            "guarantees that do not compose. Draw all batches in one way.",
            title="These batches do not add up",
        )
    if not schemes:
        return None
    return "replace-one" if "wor" in schemes else "add/remove-one"


def _schemes(event: Event) -> Iterator[str]:
    if isinstance(event, Sub):
        yield event.kind
    for part in parts(event):
        yield from _schemes(part)


def inner_events(event: Event) -> tuple[Event, ...]:
    """Return the single releases inside one event, in order: those that a batch allows once it is opened."""
    if isinstance(event, Repeat):
        return inner_events(event.event) * event.times
    return tuple(e for part in parts(event) for e in inner_events(part)) or (event,)


def grouped(event: Event, k: int) -> Event:
    """Return the same releases as they protect a group of k rows (Dwork and Roth 2014, Theorem 2.2; for Gaussian noise
    μ grows k-fold, for zCDP ρ k²-fold). Raises ValueError for sampled events, for which no simple rule exists.

    Add/remove-one to replace-one is a group of 2.
    """
    match event:
        case Sub():
            raise ValueError(
                f"{described(event)}: a sampled event has no simple rule for groups; plan it with the group's "
                "sensitivity instead"
            )
        case StatedZCDP(rho):
            return StatedZCDP(k**2 * rho)
        case OneNumber(parameter=number):
            return type(event)(k * number)
        case StatedApproximateDP(eps, delta):
            ratio = math.expm1(-k * eps) / math.expm1(-eps) if eps else k
            growth = math.exp(min((k - 1) * eps, 700.0)) * ratio  # (e^(kε) - 1)/(e^ε - 1) without overflow
            return StatedApproximateDP(k * eps, min(delta * growth, 1 - 1e-16))
        case Repeat(part, times):
            return Repeat(grouped(part, k), times)
        case Seq(events) | Parallel(events):
            # The rows of a group may lie in several disjoint blocks; at worst all of them meet every block.
            return Seq(tuple(grouped(part, k) for part in events))
        case _:
            assert_never(event)


_NAMES: dict[type[OneNumber], str] = {
    Laplace: "Laplace, ε",
    Gaussian: "Gaussian, μ",
    ExpMech: "Selection, η",
    StatedPureDP: "Only known: ε",
    StatedZCDP: "Only known: ρ",
}


def described(event: Event) -> str:
    """Return an event in words: "Laplace, ε = 0.2", "10 times Gaussian, μ = 0.1, on batches of 50 of 1,000 rows"."""
    match event:
        case OneNumber(parameter=number):
            return f"{_NAMES[type(event)]} = {short_up(number)}"
        case StatedApproximateDP(eps, delta):
            return f"Only known: ε = {short_up(eps)}, δ = {short_up(delta)}"
        case Repeat(part, times):
            return f"{times:,} times {described(part)}"
        case Sub(m=m, n=n, inner=inner):
            return f"{described(inner)}, on batches of {m:,} of {n:,} rows"
        case Seq(events):
            return "; then ".join(map(described, events))
        case Parallel(events):
            return f"disjoint blocks: {' | '.join(map(described, dict.fromkeys(events)))}"
        case _:
            assert_never(event)
