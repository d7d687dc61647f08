"""Batches: the rows that a query is computed on, with the releases that were paid for on them.

Rows are drawn for each replicate from its own generator, independently of the others. Noise comes from the mechanisms
that opened the batch.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from dpviz.privacy.events import Event, Gaussian, Laplace, Relation, StatedPureDP, inner_events
from dpviz.privacy.ledger import LedgerError
from dpviz.privacy.releases import Accepted, Noised, Norm, Query, Sample, Source, Standard

E = TypeVar("E", Laplace, Gaussian, StatedPureDP)
Replicates = Sequence[int] | np.ndarray

ROOM = 2.0**16  # floats within one scale of the noise, at least
# From n/8 rows on, a batch is drawn as a mark on every row: less work than to draw and gather that many rows.
MARKED = 8


def without_replacement(generators: Sequence[np.random.Generator], m: int, n: int) -> np.ndarray:
    """Return (R, m) different rows of n, every set of m as likely as any other."""
    indices = np.empty((len(generators), m), dtype=np.int64)
    for row, generator in zip(indices, generators, strict=True):
        row[:] = generator.choice(n, m, replace=False, shuffle=False)
    return indices


def marked(generators: Sequence[np.random.Generator], m: int, n: int) -> np.ndarray:
    """Return (R, n) bool: the m of n rows that are chosen, every set of m as likely as any other.

    One byte for each row chooses about m, all rows alike; the surplus is then drawn among the chosen rows, or the
    missing ones among the others. Given the number that the bytes chose, all sets of that size are equally likely, and
    so are those of m.
    """
    is_chosen = np.empty((len(generators), n), dtype=bool)
    for row, generator in zip(is_chosen, generators, strict=True):
        np.less(np.frombuffer(generator.bytes(n), dtype=np.uint8), round(256 * m / n), out=row)
        missing = m - np.count_nonzero(row)
        if missing:
            among = np.flatnonzero(~row if missing > 0 else row)
            row[among[generator.choice(len(among), abs(missing), replace=False, shuffle=False)]] = missing > 0
    return is_chosen


def poisson(generators: Sequence[np.random.Generator], chance: float, table: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw each of the `table` rows with probability `chance`, independently; sizes differ between replicates.

    Returns (R, largest size) rows, and bool of the same shape, True for those that take part: short batches are filled
    up with row 0.
    """
    rows_of_each = [  # first how many, then which: the same law as a coin for every row, and no coin for the others
        generator.choice(table, generator.binomial(table, chance), replace=False, shuffle=False)
        for generator in generators
    ]
    sizes = np.array([len(rows) for rows in rows_of_each], dtype=np.int64)
    is_taken = np.arange(sizes.max(initial=0)) < sizes[:, None]
    indices = np.zeros(is_taken.shape, dtype=np.int64)
    indices[is_taken] = np.concatenate(rows_of_each) if rows_of_each else 0
    return indices, is_taken


def permuted(generators: Sequence[np.random.Generator], count: int, n: int) -> np.ndarray:
    """Return (R, count) the first rows of a random order of n."""
    indices = np.empty((len(generators), count), dtype=np.int64)
    for row, generator in zip(indices, generators, strict=True):
        row[:] = generator.permutation(n)[:count]
    return indices


def require_finite(values: np.ndarray) -> None:
    """Raise LedgerError if a value is not a number or infinite: no noise hides that, and no sensitivity bounds it.

    Problems put 0 in place of such entries before they clip, so one that comes here is a bug of an algorithm.
    """
    if not np.isfinite(values).all():
        raise LedgerError("what is released must be finite numbers; put 0 in place of the others before clipping")


def require_room(values: np.ndarray, scale: float | np.ndarray) -> None:
    """Raise LedgerError if rounding would hide the noise: values (R', ...) so large in comparison with its scale, a
    scalar or (R',), that fewer than ROOM numbers are within it. Noise below all digits would be no noise.

    A scale follows from a declared sensitivity, and values from declared bounds: as with numbers that are not finite,
    it is these that must be mended, and no data make the difference where they are kept.
    """
    largest = np.abs(values).max(axis=tuple(range(1, values.ndim)), initial=0.0)
    with np.errstate(over="ignore"):
        lost = (ROOM * np.spacing(largest) > scale) & (np.asarray(scale) > 0)
    if lost.any():
        raise LedgerError("values are too large beside the noise, whose digits they have no room for; rescale the data")


def require_relation(query: Query, relation: Relation) -> None:
    """Raise LedgerError if the query's sensitivity holds for other neighbours than the events of the run."""
    if query.relation != relation:
        raise LedgerError(f"this run holds under {relation}, the query's sensitivity under {query.relation}")


def require_sensitivity(query: Query, replicates: int) -> np.ndarray | np.float64:
    """Return the query's sensitivity, (R',) or scalar. Raise LedgerError unless it fits, is finite and at least 0."""
    if isinstance(query.sensitivity, float) and 0 <= query.sensitivity < math.inf:  # the usual case, in no time
        return np.float64(query.sensitivity)
    try:
        sensitivity = np.broadcast_to(np.asarray(query.sensitivity, dtype=float), replicates)
    except ValueError:
        raise LedgerError(f"there are {replicates} replicates, and sensitivities {query.sensitivity}") from None
    if not (np.isfinite(sensitivity) & (sensitivity >= 0)).all():
        raise LedgerError(f"the sensitivity {query.sensitivity} is not a finite number")
    return sensitivity


class Batch(Sample):
    """Rows of the table, and releases that were paid for: queries on them are released as declared, in order.

    event : charged for the releases on these rows; None if they are released by running sums only.
    replicates : (R',) the replicates that it was opened for.
    indices : (R', m) rows of the table for each replicate, or None if none were drawn. Those of a sampled batch are
        secret: never show them.
    marked : (R', n) bool, of a large batch, True for its rows; None of others, and of the whole table. As secret.
    taken : (R', k) bool, True for those of (R', k) indices that are in it, where sizes differ; else None. As secret.
    rows : the block of the table that it is, for all replicates; None for the whole table.
    size : the divisor that makes a mean of a sum over the batch; None: all rows of the table.
    relation : the neighbouring relation that the sensitivity of its queries must hold for.
    """

    def __init__(
        self,
        event: Event | None,
        replicates: Replicates,
        source: Source,
        relation: Relation,
        *,
        indices: np.ndarray | None = None,
        marked: np.ndarray | None = None,
        taken: np.ndarray | None = None,
        rows: slice | None = None,
        size: int | None = None,
    ) -> None:
        numbers = np.asarray(replicates, dtype=int)
        self.replicates = numbers.copy() if numbers.flags.writeable else numbers  # the caller's may change
        self.relation = relation
        self._indices, self.marked, self.taken, self.rows = indices, marked, taken, rows
        # The releases were paid for on these rows and these replicates.
        for array in (self.replicates, indices, marked, taken):
            if array is not None and array.flags.writeable:
                array.setflags(write=False)
        self._source, self._size = source, size
        self._declared = [] if event is None else list(inner_events(event))
        self._lock = Lock()  # two threads must not both get the one release that was paid for

    @property
    def indices(self) -> np.ndarray | None:
        """(R', m) rows of the table for each replicate; None for the whole table and for a block of it."""
        if self._indices is None and self.marked is not None:
            self._indices = np.nonzero(self.marked)[1].reshape(len(self.marked), -1)
            self._indices.setflags(write=False)
        return self._indices

    @property
    def whole(self) -> bool:
        """True if the batch is the whole table."""
        return self._indices is None and self.marked is None and self.rows is None

    def split(self, parts: Iterable[slice]) -> "Iterator[tuple[slice, Batch]]":
        """Yield batches for some of the replicates each, which together have the remaining releases; this one has none.

        For releases that take long: each replicate gets the same noise for any parts. Disjoint, whole table only.
        """
        if not self.whole:
            raise LedgerError("only releases on the whole table are split by replicates")
        with self._lock:
            declared, self._declared = self._declared, []
        assigned = np.zeros(len(self.replicates), dtype=bool)
        for part in parts:
            if assigned[part].any():
                raise LedgerError("a replicate is in two parts, which would be two releases for one")
            assigned[part] = True
            batch = Batch(None, self.replicates[part], self._source, self.relation, size=self._size)
            batch._declared = list(declared)
            yield part, batch

    def part(self, positions: np.ndarray) -> "Batch":
        """Return a batch for some of its replicates only, with the remaining releases; this one has none, and the other
        replicates give theirs up. positions : (R'',) indices into its replicates."""
        with self._lock:
            declared, self._declared = self._declared, []
        secret = {"indices": self._indices, "marked": self.marked, "taken": self.taken}
        of_part: dict[str, Any] = {name: rows[positions] for name, rows in secret.items() if rows is not None}
        numbers = self.replicates[positions]
        part = Batch(None, numbers, self._source, self.relation, rows=self.rows, size=self._size, **of_part)
        if len(np.unique(part.replicates)) < len(part.replicates):
            raise LedgerError("a replicate that is named twice would get two releases for one")
        part._declared = declared
        return part

    def divisor(self, n: int) -> int:
        """Return the divisor that makes a mean of a sum over the batch: its size; of a Poisson batch, whose size is
        secret, the declared m. n : rows of the table."""
        return n if self._size is None else self._size

    def laplace(self, query: Query) -> np.ndarray:
        """Release the query with the batch's next declared event, which must be Laplace; (R', ...)."""
        event = self._next(query, Laplace, "l1")
        return self._released(query, event, event.eps, "laplace")

    def gaussian(self, query: Query) -> np.ndarray:
        """Release the query with the batch's next declared event, which must be Gaussian; (R', ...)."""
        event = self._next(query, Gaussian, "l2")
        return self._released(query, event, event.mu, "standard_normal")

    def above_threshold(self, query: Query) -> np.ndarray:
        """Release the first index whose noisy value reaches 0 with the batch's next declared event, which must be
        StatedPureDP; (R',), -1 if none does. See `Mechanisms.above_threshold`."""
        return self._first_above(query, self._next(query, StatedPureDP, "linf"))

    def check(self, query: Query, kind: type[E], norm: Norm) -> E:
        """Return the next declared event. Raise LedgerError unless it is of this kind and fits the query and batch."""
        release = self._declared[0] if self._declared else None
        if not isinstance(release, kind):
            raise LedgerError(f"this batch does not allow {kind.__name__} now; declared: {self._declared}")
        if query.norm != norm:
            raise LedgerError(f"{kind.__name__} noise needs a sensitivity in {norm}, the query has {query.norm}")
        if query.batch is not self and not (query.batch is None and self.whole):
            raise LedgerError("a query must be released by the batch that it was computed on")
        require_relation(query, self.relation)
        if len(query.value) != len(self.replicates):
            raise LedgerError(f"the query has {len(query.value)} replicates, the batch {len(self.replicates)}")
        if norm == "linf" and query.value.ndim != 2:
            raise LedgerError(f"thresholds need one row of values for each replicate, not {query.value.shape}")
        require_finite(query.value)
        require_sensitivity(query, len(self.replicates))
        return release

    def _next(self, query: Query, kind: type[E], norm: Norm) -> E:
        """Return the next declared event and use it up, after a check that the query fits it and this batch."""
        with self._lock:
            release = self.check(query, kind, norm)
            del self._declared[0]
            return release

    def _released(self, query: Query, event: Event, parameter: float, distribution: Standard) -> np.ndarray:
        """Return the value plus noise of scale sensitivity / parameter; no noise where the parameter is infinite."""
        noisy, scale = query.value, require_sensitivity(query, len(self.replicates)) / parameter
        if parameter < np.inf:
            if not np.isfinite(scale).all():
                raise LedgerError(f"noise for the sensitivity {query.sensitivity} is too large for a number")
            require_room(query.value, scale)
            noise = self._source._drawn(distribution, self.replicates, query.value.shape[1:])
            noisy = noisy + noise * (scale.reshape(-1, *[1] * (noise.ndim - 1)) if np.ndim(scale) else scale)
        law = self.replicates, self, distribution, scale
        return self._source._passed(Noised(query.value, noisy, *law, event=event, change=query.sensitivity))

    def _first_above(self, query: Query, event: StatedPureDP) -> np.ndarray:
        """Return the first index whose noisy value reaches the noisy threshold, -1 if none does."""
        (replicates, count), epsilon = query.value.shape, event.eps
        if not count:
            return np.full(replicates, -1)
        sensitivity = np.broadcast_to(require_sensitivity(query, replicates), replicates)[:, None]
        first = epsilon / (1 + 2 ** (2 / 3))
        second = first * 2 ** (2 / 3)  # not the rest of ε: without privacy both are infinite
        noise, (threshold, each) = np.zeros((replicates, 1 + count)), (sensitivity / first, 2 * sensitivity / second)
        if epsilon < np.inf:
            require_room(query.value, threshold[:, 0])
            noise = self._source._drawn("laplace", self.replicates, (1 + count,))
        accepted = query.value + each * noise[:, 1:] >= threshold * noise[:, :1]
        first_index = np.where(accepted.any(axis=1), accepted.argmax(axis=1), -1)
        law = self.replicates, self, threshold, each
        return self._source._passed(Accepted(query.value, first_index, *law, event=event, change=query.sensitivity))
