"""Mechanisms: the only place where privacy noise is drawn. Charge, then draw, in one act."""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

import numpy as np

from dpviz.privacy.events import Event, Gaussian, Laplace, Sub, draws_batch, inner_events
from dpviz.privacy.ledger import Ledger, LedgerError, times_of
from dpviz.privacy.queries import Norm, Query

E = TypeVar("E", Laplace, Gaussian)


class Purpose(IntEnum):
    """What random numbers are for; each purpose has its own stream in every replicate."""

    NOISE = 0
    BATCHES = 1
    PUBLIC = 2


def streams(seed: int, purpose: Purpose, replicates: int) -> list[np.random.Generator]:
    """One PCG64 generator per replicate; replicate r draws the same numbers whatever the other replicates do."""
    sequences = (np.random.SeedSequence(seed, spawn_key=(purpose, r)) for r in range(replicates))
    return [np.random.Generator(np.random.PCG64(sequence)) for sequence in sequences]


def noise_scale(event: Event, sensitivity: float) -> float:
    """Scale of the noise that `event` adds to a query: Laplace scale b = Δ₁/ε (not the standard deviation √2 b),
    Gaussian standard deviation σ = Δ₂/μ. For a batch, `sensitivity` is that of the query on the batch."""
    (release,) = inner_events(event)
    if isinstance(release, Laplace):
        return sensitivity / release.eps
    if isinstance(release, Gaussian):
        return sensitivity / release.mu
    raise TypeError(f"{release} has no noise scale")


class Mechanisms:
    """Draws all randomness of one arm's run for R replicates, charging the ledger before each draw.

    A mechanism takes the event and the query and derives the scale from both, so the noise that is drawn, the noise
    that is booked and the noise that is shown cannot differ.
    """

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self._ledger = ledger
        self._noise = streams(seed, Purpose.NOISE, ledger.replicates)
        self._batches = streams(seed, Purpose.BATCHES, ledger.replicates)
        self.public = streams(seed, Purpose.PUBLIC, ledger.replicates)

    @property
    def replicates(self) -> int:
        return self._ledger.replicates

    def batch(self, event: Event, rows: Sequence[int] | np.ndarray | None = None) -> "Batch":
        """Open a batch: charges all of `event` now, and draws the indices if it is a `Sub`."""
        if draws_batch(event) and not isinstance(event, Sub):
            raise LedgerError(f"{event} draws a batch inside; open one batch at a time")
        self._ledger.charge(event, times_of(rows, self.replicates))
        return Batch(self, event, range(self.replicates) if rows is None else rows)

    def laplace(self, query: Query, event: Event, rows: np.ndarray | None = None) -> np.ndarray:
        """The query's value plus i.i.d. Laplace noise of scale Δ₁/ε; (R', ...)."""
        return self.batch(event, rows).laplace(query)

    def gaussian(self, query: Query, event: Event, rows: np.ndarray | None = None) -> np.ndarray:
        """The query's value plus i.i.d. Gaussian noise of standard deviation Δ₂/μ; (R', ...)."""
        return self.batch(event, rows).gaussian(query)


class Batch:
    """A batch that has been paid for: its queries are released as declared, in order, or not at all.

    indices : (R', m) rows of the table for each replicate, or None for the whole table. Secret: never show them.
    """

    def __init__(self, mechanisms: Mechanisms, event: Event, rows: Sequence[int] | np.ndarray) -> None:
        self._mechanisms = mechanisms
        self._rows = rows
        self._declared = list(inner_events(event))
        self.indices = self._drawn(event)

    def _drawn(self, event: Event) -> np.ndarray | None:
        if not isinstance(event, Sub):
            return None
        indices = np.empty((len(self._rows), event.m), dtype=np.int64)
        for i, r in enumerate(self._rows):
            indices[i] = self._mechanisms._batches[r].choice(event.n, event.m, replace=False, shuffle=False)
        return indices

    def laplace(self, query: Query) -> np.ndarray:
        """Release the query with the batch's next declared event, which must be Laplace; (R', ...)."""
        return self._released(query, self._next(query, Laplace, "l1").eps, "laplace")

    def gaussian(self, query: Query) -> np.ndarray:
        """Release the query with the batch's next declared event, which must be Gaussian; (R', ...)."""
        return self._released(query, self._next(query, Gaussian, "l2").mu, "standard_normal")

    def _next(self, query: Query, kind: type[E], norm: Norm) -> E:
        """The next declared event, after checking that the query fits it and this batch."""
        release = self._declared[0] if self._declared else None
        if not isinstance(release, kind):
            raise LedgerError(f"this batch does not allow {kind.__name__} now; declared: {self._declared}")
        if query.norm != norm:
            raise LedgerError(f"{kind.__name__} noise needs a sensitivity in {norm}, the query has {query.norm}")
        if query.batch is not self and not (query.batch is None and self.indices is None):
            raise LedgerError("a query must be released by the batch that it was computed on")
        if len(query.value) != len(self._rows):
            raise LedgerError(f"the query has {len(query.value)} replicates, the batch {len(self._rows)}")
        del self._declared[0]
        return release

    def _released(self, query: Query, parameter: float, distribution: str) -> np.ndarray:
        scale = np.asarray(query.sensitivity) / parameter
        if not (np.isfinite(scale) & (scale >= 0)).all():
            raise LedgerError(f"the sensitivity {query.sensitivity} is not a finite number")
        if parameter == np.inf:
            return query.value
        noise = np.empty(query.value.shape)
        for i, r in enumerate(self._rows):
            noise[i] = getattr(self._mechanisms._noise[r], distribution)(size=noise.shape[1:])
        return query.value + noise * (scale.reshape(-1, *[1] * (noise.ndim - 1)) if scale.ndim else scale)
