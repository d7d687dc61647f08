"""Events: descriptions of releases that say all that privacy accounting needs to know about them.

An event names the kind of noise and one number: the sensitivity of the query divided by the scale of the noise, or an ε
or ρ that is stated. Accountants consume events and know nothing else. All are frozen, hashable and relative to one
neighbouring relation: replace-one (the number n of rows is public, and one row is exchanged) or add/remove-one. An
event without sampling may be read under either relation, the one that its sensitivity was computed for; an event on a
random batch holds under one relation only.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar, assert_never

from dpviz.errors import UserError
from dpviz.numbers import short_up

T = TypeVar("T")
Relation = Literal["replace-one", "add/remove-one"]


_NO_NOISE = 1e150  # a larger parameter is set to infinity: float64 may not hold its square, and it promises nothing


class OneNumber:
    """Base class of the events that one positive number describes: the ε, μ, η or ρ of a single release.

    An infinite number means that no noise is added and nothing is protected.
    """

    __slots__ = ()
    __match_args__: ClassVar[tuple[str, ...]]  # set by `dataclass`: the names of the fields, here of the only one

    def __post_init__(self) -> None:
        if not self.parameter > 0:
            raise ValueError(f"{self.__match_args__[0]} must be positive, got {self.parameter}")
        if float(self.parameter) > _NO_NOISE:  # `float`: _NO_NOISE is beyond a float32
            # The dataclass is frozen; its own __init__ sets fields in this way, too.
            object.__setattr__(self, self.__match_args__[0], math.inf)

    @property
    def parameter(self) -> float:
        """The one number of the event, which each subclass calls by its own name: eps, mu, eta or rho."""
        number: float = getattr(self, self.__match_args__[0])
        return number


@dataclass(frozen=True, slots=True)
class Laplace(OneNumber):
    """Laplace noise of scale Δ₁/eps on a query of L1 sensitivity Δ₁. With `eps = inf` there is no noise."""

    eps: float


@dataclass(frozen=True, slots=True)
class Gaussian(OneNumber):
    """Gaussian noise of standard deviation Δ₂/mu on a query of L2 sensitivity Δ₂. With `mu = inf` there is no noise."""

    mu: float


@dataclass(frozen=True, slots=True)
class ExpMech(OneNumber):
    """One selection by the exponential mechanism: index r with utility u_r has probability P(r) ∝ exp(eta u_r / Δ).

    Δ is the range of the utilities' change: the largest change of any u_r minus the smallest, when a row changes.

    The event also describes any other release of bounded range eta, which means that the log-ratio of its probabilities
    under two neighbouring data sets takes values in an interval of length eta (Dong, Durfee, Rogers 2020); and any
    mixture of such releases whose weights do not depend on the data, because hockey-stick and Rényi divergences are
    jointly quasi-convex.
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
    """Any (eps, delta)-DP release of which nothing else is known.

    No guarantee for several releases, this one among them, has a smaller delta.
    """

    eps: float
    delta: float

    def __post_init__(self) -> None:
        if not (self.eps >= 0 and 0 < self.delta < 1):
            raise ValueError(f"StatedApproximateDP needs eps >= 0 and 0 < delta < 1, got {self.eps} and {self.delta}")
        if float(self.eps) > _NO_NOISE:  # `float` as in `OneNumber`
            object.__setattr__(self, "eps", math.inf)


@dataclass(frozen=True, slots=True)
class Seq:
    """Several releases on the same rows (for instance on one batch), one after the other."""

    events: "tuple[Event, ...]"

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("Seq needs at least one event")
        relation(self.events)  # raises UserError if their batches hold under two neighbouring relations


@dataclass(frozen=True, slots=True)
class Repeat:
    """The same kind of release, `times` times one after the other, each with fresh noise and a fresh batch, if any."""

    event: "Event"
    times: int

    def __post_init__(self) -> None:
        if not hasattr(self.times, "__index__") or self.times < 1:
            raise ValueError(f"Repeat needs a whole number of times, at least 1, got {self.times}")
        object.__setattr__(self, "times", int(self.times))  # NumPy's whole numbers overflow


@dataclass(frozen=True, slots=True)
class Parallel:
    """Releases on disjoint blocks of rows: event i is the release on block i, and each row is in at most one block.

    The blocks must be fixed without looking at the data. If the rows' values chose them, a replaced row could move to
    another block and so change two releases.
    """

    events: "tuple[Event, ...]"

    def __post_init__(self) -> None:
        if not self.events:
            raise ValueError("Parallel needs at least one event")
        if any(draws_batch(event) for event in self.events):
            raise ValueError("batches inside disjoint blocks are not supported")


@dataclass(frozen=True, slots=True)
class Sub:
    """The release `inner` on a random batch of rows, drawn afresh and kept secret.

    kind : how the batch is drawn.
        "wor" : m of the n rows without replacement, every set of m alike, m < n. The guarantee holds under replace-one.
        "poisson" : every row takes part with probability m/n, independently of the others. The size of the batch is
            then random and stays secret; means are sums divided by the constant m. n is a declared constant, not the
            number of rows, which differs between neighbours. The guarantee, and that of `inner`, holds under
            add/remove-one.
    """

    kind: Literal["wor", "poisson"]
    m: int
    n: int
    inner: "Event"

    def __post_init__(self) -> None:
        are_whole = hasattr(self.m, "__index__") and hasattr(self.n, "__index__")
        if self.kind not in ("wor", "poisson") or not are_whole or not 1 <= self.m < self.n:
            raise ValueError(
                f"Sub needs kind 'wor' or 'poisson' and whole 1 <= m < n, got {self.kind!r}, m={self.m}, n={self.n}"
            )
        if draws_batch(self.inner):
            raise ValueError("a batch of a batch is not supported")
        for name in ("m", "n"):
            object.__setattr__(self, name, int(getattr(self, name)))  # NumPy's whole numbers overflow


Event = Laplace | Gaussian | ExpMech | StatedPureDP | StatedZCDP | StatedApproximateDP | Seq | Repeat | Parallel | Sub


def parts(event: Event) -> tuple[Event, ...]:
    """Return the events directly inside a composite one; empty for a single release."""
    match event:
        case Seq(events) | Parallel(events):
            return events
        case Repeat(event=inner) | Sub(inner=inner):
            return (inner,)
        case OneNumber() | StatedApproximateDP():
            return ()
        case _:
            assert_never(event)


def of_each(events: Sequence[Event], value: Callable[[Event], T]) -> list[T]:
    """Return value(event) for each event, in order; `value` is called once for each of `distinct_objects(events)`."""
    value_by_id = {id(event): value(event) for event in distinct_objects(events)}
    return [value_by_id[id(event)] for event in events]


def distinct_objects(events: Iterable[Event]) -> Collection[Event]:
    """Return the different objects among the events, in order: a plan of equal steps repeats one object many times.

    Objects are told apart by identity, so two equal events may both be returned. To hash every event of a long plan
    would take longer than all other work on it.
    """
    return {id(event): event for event in events}.values()


def draws_batch(event: Event) -> bool:
    """Return whether the event is, or contains at any depth, a release on a random batch (`Sub`)."""
    return isinstance(event, Sub) or any(draws_batch(part) for part in parts(event))


def has_blocks(event: Event) -> bool:
    """Return whether the event is, or contains at any depth, releases on disjoint blocks (`Parallel`)."""
    return isinstance(event, Parallel) or any(has_blocks(part) for part in parts(event))


def relation(events: Iterable[Event]) -> Relation | None:
    """Return the neighbouring relation under which the random batches of the events hold; None if there are no batches.

    Raises UserError if some events hold under replace-one and others under add/remove-one: guarantees for two different
    notions of a neighbour do not add up.
    """
    sampling_kinds: set[str] = set()
    for event in distinct_objects(events):
        sampling_kinds.update(_sampling_kinds(event))
    if len(sampling_kinds) > 1:
        raise UserError(
            "Batches without replacement hold if one row is replaced, Poisson batches if one is added or removed: two "
            "guarantees that do not compose. Draw all batches in one way.",
            title="These batches do not add up",
        )
    if not sampling_kinds:
        return None
    return "replace-one" if "wor" in sampling_kinds else "add/remove-one"


def _sampling_kinds(event: Event) -> Iterator[str]:
    """Yield the kind ("wor" or "poisson") of each `Sub` that the event is or contains."""
    if isinstance(event, Sub):
        yield event.kind
    for part in parts(event):
        yield from _sampling_kinds(part)


def inner_events(event: Event) -> tuple[Event, ...]:
    """Return the single releases inside an event, in the order in which they happen; of a single release, itself.

    A batch that is opened for the event allows just these releases, in this order.
    """
    if isinstance(event, Repeat):
        return inner_events(event.event) * event.times
    if not parts(event):
        return (event,)
    return tuple(release for part in parts(event) for release in inner_events(part))


def grouped(event: Event, k: int) -> Event:
    """Return an event that describes how the same releases protect a group of k rows, all of which may change at once.

    ε, μ and η grow k-fold and ρ k²-fold; (ε, δ) becomes (kε, δ (e^(kε) - 1)/(e^ε - 1)) (Dwork and Roth 2014, Theorem
    2.2). To replace a row is to remove one and add one, so k = 2 leads from add/remove-one to replace-one. Raises
    ValueError for events on random batches, for which no simple rule exists.
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
            return StatedApproximateDP(k * eps, min(delta * growth, 1 - 1e-16))  # an event's δ is below 1
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
    """Describe an event in words: "Laplace, ε = 0.2", "10 times Gaussian, μ = 0.1, on batches of 50 of 1,000 rows"."""
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
