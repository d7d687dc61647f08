"""Mechanisms: the only place where privacy noise is drawn. Charge, then draw, in one act."""

from collections.abc import Sequence
from enum import IntEnum
from typing import TypeVar

import numpy as np

from dpviz.privacy.events import Event, Gaussian, Laplace, Sub, draws_batch, inner_events
from dpviz.privacy.ledger import Ledger, LedgerError, times_of
from dpviz.privacy.prefix_sums import Factorisation
from dpviz.privacy.queries import Norm, Query

E = TypeVar("E", Laplace, Gaussian)


class Purpose(IntEnum):
    """What random numbers are for; each purpose has its own stream in every replicate."""

    NOISE = 0
    BATCHES = 1
    PUBLIC = 2
    FACTS = 3  # noise of a release before the run, to learn one of its facts: never the run's own numbers again


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

    def __init__(self, ledger: Ledger, seed: int, noise: Purpose = Purpose.NOISE) -> None:
        self._ledger = ledger
        self._noise = streams(seed, noise, ledger.replicates)
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

    def prefix_sums(
        self,
        event: Event,
        factorisation: Factorisation,
        leaves: float | np.ndarray,
        shape: tuple[int, ...] = (),
        rows: Sequence[int] | np.ndarray | None = None,
    ) -> "PrefixSums":
        """Open running sums of up to `factorisation.length` queries of `shape`; charges all of `event` now.

        leaves : L2 sensitivity of each query; a scalar, (T,) or (R', T). Declared now, because the noise of the first
            sum must already cover the last query. One row of the data may take part in one of the queries only.
        """
        sums = PrefixSums(self, event, factorisation, leaves, shape, range(self.replicates) if rows is None else rows)
        self._ledger.charge(event, times_of(rows, self.replicates))
        return sums


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


class PrefixSums:
    """Running sums that have been paid for: `add` releases the noisy sum of all queries so far, T times at most.

    noise_scale : (R',) standard deviation of the draws; prefix t gets factorisation.row_norms[t - 1] times as much.
    """

    def __init__(
        self,
        mechanisms: Mechanisms,
        event: Event,
        factorisation: Factorisation,
        leaves: float | np.ndarray,
        shape: tuple[int, ...],
        rows: Sequence[int] | np.ndarray,
    ) -> None:
        if not isinstance(event, Gaussian):
            raise LedgerError(f"running sums need a Gaussian event on the whole table, not {event}")
        self._leaves = np.broadcast_to(np.asarray(leaves, dtype=float), (len(rows), factorisation.length))
        if not (np.isfinite(self._leaves) & (self._leaves >= 0)).all():
            raise LedgerError(f"the sensitivities {leaves} are not finite numbers")
        self.noise_scale = factorisation.sensitivity(self._leaves) / event.mu
        self._mechanisms, self._rows = mechanisms, rows
        self._total = np.zeros((len(rows), *shape))
        self._noise = factorisation.stream(self._drawn) if event.mu < np.inf else None
        self._added = 0

    def add(self, query: Query) -> np.ndarray:
        """The noisy sum of this query and all before; (R', ...). Raises LedgerError if it is not as declared."""
        self._check(query)
        self._added += 1
        self._total = self._total + query.value
        if self._noise is None:
            return self._total.copy()
        return self._total + next(self._noise) * self.noise_scale.reshape(-1, *[1] * (self._total.ndim - 1))

    def _drawn(self) -> np.ndarray:
        normals = np.empty(self._total.shape)
        for i, r in enumerate(self._rows):
            normals[i] = self._mechanisms._noise[r].standard_normal(size=normals.shape[1:])
        return normals

    def _check(self, query: Query) -> None:
        if self._added == self._leaves.shape[1]:
            raise LedgerError(f"these running sums were opened for {self._added} queries; this is one more")
        if query.norm != "l2":
            raise LedgerError(f"Gaussian noise needs a sensitivity in l2, the query has {query.norm}")
        if query.batch is not None:
            raise LedgerError("a query must be released by the batch that it was computed on")
        if query.value.shape != self._total.shape:
            raise LedgerError(f"the query has shape {query.value.shape}, the running sums {self._total.shape}")
        declared = self._leaves[:, self._added]
        if not (np.asarray(query.sensitivity) <= declared * (1 + 1e-12)).all():  # rounding, if it was computed twice
            raise LedgerError(f"query {self._added + 1} has sensitivity {query.sensitivity}, declared was {declared}")
