"""Batches: which rows a query is computed on, and the releases that were paid for with them.

Rows are drawn for each replicate from a generator of its own, whatever the others draw. Noise comes from the mechanisms
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

ROOM = 2.0**16  # different numbers within a scale of noise, at least
# From n/8 rows on, a batch is drawn as a mark on every row: less work than to draw and gather so many rows.
MARKED = 8


def without_replacement(generators: Sequence[np.random.Generator], m: int, n: int) -> np.ndarray:
    """(R, m) different rows of n, every set of m as likely as any other."""
    indices = np.empty((len(generators), m), dtype=np.int64)
    for row, generator in zip(indices, generators, strict=True):
        row[:] = generator.choice(n, m, replace=False, shuffle=False)
    return indices


def marked(generators: Sequence[np.random.Generator], m: int, n: int) -> np.ndarray:
    """(R, n) bool, which m of n rows are chosen; every set of m as likely as any other.

    One byte for each row chooses about as many, all rows alike; the surplus is then drawn among the chosen, or what is
    missing among the others. Given how many the bytes chose, all sets of that size are as likely, so those of m are.
    """
    chosen = np.empty((len(generators), n), dtype=bool)
    for row, generator in zip(chosen, generators, strict=True):
        np.less(np.frombuffer(generator.bytes(n), dtype=np.uint8), round(256 * m / n), out=row)
        missing = m - np.count_nonzero(row)
        if missing:
            among = np.flatnonzero(~row if missing > 0 else row)
            row[among[generator.choice(len(among), abs(missing), replace=False, shuffle=False)]] = missing > 0
    return chosen


def poisson(generators: Sequence[np.random.Generator], chance: float, table: int) -> tuple[np.ndarray, np.ndarray]:
    """Every one of the `table` rows takes part with probability `chance`, by itself: different sizes per replicate.

    Returns (R, largest size) rows, and the same shape in bool: which of them take part, as short batches are filled
    with row 0.
    """
    drawn = [  # first how many, then which: the same law as a coin for every row, and no coin for the others
        generator.choice(table, generator.binomial(table, chance), replace=False, shuffle=False)
        for generator in generators
    ]
    sizes = np.array([len(rows) for rows in drawn], dtype=np.int64)
    taken = np.arange(sizes.max(initial=0)) < sizes[:, None]
    indices = np.zeros(taken.shape, dtype=np.int64)
    indices[taken] = np.concatenate(drawn) if drawn else 0
    return indices, taken


def permuted(generators: Sequence[np.random.Generator], count: int, n: int) -> np.ndarray:
    """(R, count) the first rows of a random order of n."""
    indices = np.empty((len(generators), count), dtype=np.int64)
    for row, generator in zip(indices, generators, strict=True):
        row[:] = generator.permutation(n)[:count]
    return indices


def require_finite(values: np.ndarray) -> None:
    """Raises LedgerError where a value is not a number or infinite: no noise hides that, and no sensitivity bounds it.

    Problems put 0 in place of such entries before they clip, so one that comes here is a bug of an algorithm.
    """
    if not np.isfinite(values).all():
        raise LedgerError("what is released must be finite numbers; put 0 in place of the others before clipping")


def require_room(values: np.ndarray, scale: float | np.ndarray) -> None:
    """Raises LedgerError where rounding would hide the noise: values (R', ...) that are so large beside its scale, a
    scalar or (R',), that fewer than ROOM numbers are within it; beyond all digits they would leave without noise.

    A scale follows from a declared sensitivity, and values from declared bounds: as with numbers that are not finite,
    it is these that must be mended, and no data make the difference where they are kept.
    """
    largest = np.abs(values).max(axis=tuple(range(1, values.ndim)), initial=0.0)
    with np.errstate(over="ignore"):
        lost = (ROOM * np.spacing(largest) > scale) & (np.asarray(scale) > 0)
    if lost.any():
        raise LedgerError("values are too large beside the noise, whose digits they have no room for; rescale the data")


def require_relation(query: Query, relation: Relation) -> None:
    """Raises LedgerError for a sensitivity that holds for other neighbours than the run's events do."""
    if query.relation != relation:
        raise LedgerError(f"this run holds under {relation}, the query's sensitivity under {query.relation}")


def require_sensitivity(query: Query, replicates: int) -> np.ndarray | np.float64:
    """(R',) or scalar: the query's sensitivity. Raises LedgerError unless it is finite and at least 0, and fits."""
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
    """Rows of the table, and what was paid for: queries on them are released as declared, in order, or not at all.

    event : what was charged for the releases on these rows; None if they are released by running sums only.
    replicates : (R',) for whom.
    indices : (R', m) rows of the table for each replicate, or None if none were drawn. Those of a sampled batch are
        secret: never show them.
    marked : (R', n) bool, of a large batch, which rows are in it; None of others, and of the whole table. As secret.
    taken : (R', k) bool, which of (R', k) indices are in the batch, where sizes differ; None if all are. As secret.
    rows : the block of the table that it is, for all replicates; None for the whole table.
    size : what makes a mean of a sum over the batch; None: all rows of the table.
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
        whom = np.asarray(replicates, dtype=int)
        self.replicates = whom.copy() if whom.flags.writeable else whom  # the caller's may change
        self.relation = relation
        self._indices, self.marked, self.taken, self.rows = indices, marked, taken, rows
        # What was paid for is on these rows, for these replicates.
        for kept in (self.replicates, indices, marked, taken):
            if kept is not None and kept.flags.writeable:
                kept.setflags(write=False)
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
        """Whether it is the whole table."""
        return self._indices is None and self.marked is None and self.rows is None

    def split(self, parts: Iterable[slice]) -> "Iterator[tuple[slice, Batch]]":
        """Batches for some of the replicates each, which together have the releases that are left; this one has none.

        For releases that take long: each replicate gets the same noise, whatever the parts. Disjoint, whole table only.
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
            own = Batch(None, self.replicates[part], self._source, self.relation, size=self._size)
            own._declared = list(declared)
            yield part, own

    def part(self, places: np.ndarray) -> "Batch":
        """A batch for some of its replicates only, with the releases that are left; this one has none, and the others
        give theirs up. places : (R'',) places among its replicates."""
        with self._lock:
            declared, self._declared = self._declared, []
        secret = {"indices": self._indices, "marked": self.marked, "taken": self.taken}
        of_part: dict[str, Any] = {name: rows[places] for name, rows in secret.items() if rows is not None}
        whom = self.replicates[places]
        part = Batch(None, whom, self._source, self.relation, rows=self.rows, size=self._size, **of_part)
        if len(np.unique(part.replicates)) < len(part.replicates):
            raise LedgerError("a replicate that is named twice would get two releases for one")
        part._declared = declared
        return part

    def divisor(self, n: int) -> int:
        """What makes a mean of a sum over the batch: its size; of a Poisson batch, whose size is secret, the declared
        m. n : rows of the table."""
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
        """The next declared event. Raises LedgerError unless it is of this kind and the query fits it and the batch."""
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
        """The next declared event, used up, after checking that the query fits it and this batch."""
        with self._lock:
            release = self.check(query, kind, norm)
            del self._declared[0]
            return release

    def _released(self, query: Query, event: Event, parameter: float, distribution: Standard) -> np.ndarray:
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
