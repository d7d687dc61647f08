"""Batches: the rows that a query is computed on, with the releases that were paid for on them.

R is the number of replicates that a batch is drawn for. Rows are drawn for each replicate from its own generator,
independently of the others; `generators` is always one per replicate, (R,). Noise comes from the mechanisms that opened
the batch.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from dpviz.privacy.events import Event, Gaussian, Laplace, Relation, StatedPureDP, inner_events
from dpviz.privacy.ledger import LedgerError
from dpviz.privacy.releases import NoisyRelease, Norm, Query, Sample, Source, Standard, ThresholdRelease

E = TypeVar("E", Laplace, Gaussian, StatedPureDP)
Replicates = Sequence[int] | np.ndarray

ROOM = 2.0**16  # smallest number of float64 values that must lie within one scale of the noise around a released value
# A batch of at least n/MARKED rows is drawn as a mark on every row: less work than to draw and gather that many rows.
MARKED = 8


def without_replacement(generators: Sequence[np.random.Generator], m: int, n: int) -> np.ndarray:
    """Draw m different rows of n for each replicate, every set of m equally likely; return their indices, (R, m)."""
    indices = np.empty((len(generators), m), dtype=np.int64)
    for row, generator in zip(indices, generators, strict=True):
        row[:] = generator.choice(n, m, replace=False, shuffle=False)
    return indices


def draw_marks(generators: Sequence[np.random.Generator], m: int, n: int) -> np.ndarray:
    """Draw m different rows of n for each replicate, every set of m equally likely; return marks, (R, n) bool.

    A random byte for each row marks about m of them, all rows alike. If that is too few, the missing ones are drawn
    among the other rows; if it is too many, those to unmark are drawn among the marked ones. Given how many rows the
    bytes marked, all sets of that size are equally likely, and so are all sets of m in the end.
    """
    is_marked = np.empty((len(generators), n), dtype=bool)
    for row, generator in zip(is_marked, generators, strict=True):
        # A byte is below 256 m/n with a probability of about m/n.
        np.less(np.frombuffer(generator.bytes(n), dtype=np.uint8), round(256 * m / n), out=row)
        missing = m - np.count_nonzero(row)  # negative if too many rows are marked
        if missing:
            candidates = np.flatnonzero(~row if missing > 0 else row)
            to_change = candidates[generator.choice(len(candidates), abs(missing), replace=False, shuffle=False)]
            row[to_change] = missing > 0
    return is_marked


def poisson(generators: Sequence[np.random.Generator], chance: float, table_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw each of `table_rows` rows with probability `chance`, independently, for each replicate.

    Returns the indices of the rows, (R, largest size), and a bool array of the same shape that is True for the rows
    that take part: the sizes of the batches differ, and shorter ones are filled up with row 0.
    """
    # To draw the size first and then the rows has the same law as a coin for every row, and is less work.
    batches = [
        generator.choice(table_rows, generator.binomial(table_rows, chance), replace=False, shuffle=False)
        for generator in generators
    ]
    sizes = np.array([len(batch) for batch in batches], dtype=np.int64)
    is_taken = np.arange(sizes.max(initial=0)) < sizes[:, None]
    indices = np.zeros(is_taken.shape, dtype=np.int64)
    indices[is_taken] = np.concatenate(batches) if batches else 0
    return indices, is_taken


def permuted(generators: Sequence[np.random.Generator], count: int, n: int) -> np.ndarray:
    """Put n rows in a random order for each replicate; return the indices of the first `count`, (R, count)."""
    indices = np.empty((len(generators), count), dtype=np.int64)
    for row, generator in zip(indices, generators, strict=True):
        row[:] = generator.permutation(n)[:count]
    return indices


def require_finite(values: np.ndarray) -> None:
    """Raise LedgerError if a value is infinite or not a number: no noise hides that, and no sensitivity bounds it.

    Problems put 0 in place of such entries before they clip, so a value that fails here is a bug of an algorithm.
    """
    if not np.isfinite(values).all():
        raise LedgerError("what is released must be finite numbers; put 0 in place of the others before clipping")


def require_precision(values: np.ndarray, scale: float | np.ndarray) -> None:
    """Raise LedgerError if values are so large that adding the noise would round it away.

    values : (R', ...) to which noise is added. scale : of the noise, a scalar or (R',); 0 means no noise and passes.

    The rule is that at least ROOM float64 numbers lie within one scale of the largest value. The scale follows from a
    declared sensitivity and the size of the values from declared bounds, so an error means that one of the declarations
    must be changed. Where values keep to their bounds, whether the error is raised does not depend on the data.
    """
    largest = np.abs(values).max(axis=tuple(range(1, values.ndim)), initial=0.0)
    with np.errstate(over="ignore"):
        is_lost = (ROOM * np.spacing(largest) > scale) & (np.asarray(scale) > 0)
    if is_lost.any():
        raise LedgerError("values are too large beside the noise, whose digits they have no room for; rescale the data")


def require_relation(query: Query, relation: Relation) -> None:
    """Raise LedgerError unless the query's sensitivity holds under `relation`, that of the run's events."""
    if query.relation != relation:
        raise LedgerError(f"this run holds under {relation}, the query's sensitivity under {query.relation}")


def require_sensitivity(query: Query, replicates: int) -> np.ndarray | np.float64:
    """Return the query's sensitivity, a scalar or (R',).

    Raises LedgerError unless it is finite, at least 0, and one number or one for each of the `replicates`.
    """
    if isinstance(query.sensitivity, float) and 0 <= query.sensitivity < math.inf:
        return np.float64(query.sensitivity)  # the usual case, without the cost of arrays
    try:
        sensitivity = np.broadcast_to(np.asarray(query.sensitivity, dtype=float), replicates)
    except ValueError:
        raise LedgerError(f"there are {replicates} replicates, and sensitivities {query.sensitivity}") from None
    if not (np.isfinite(sensitivity) & (sensitivity >= 0)).all():
        raise LedgerError(f"the sensitivity {query.sensitivity} is not a finite number")
    return sensitivity


class Batch(Sample):
    """Rows of the table with the releases that were paid for on them: each may be made once, in the declared order.

    The rows are given by `indices`, by `marked` or by `rows`; if all are None, the batch is the whole table. Which
    rows are in a random batch is secret and must never be displayed.

    event : what was charged; the releases inside it are the ones allowed. None if only running sums release queries on
        these rows.
    replicates : (R',) numbers of the replicates that the batch was opened for.
    source : the mechanisms that opened it, which draw the noise.
    relation : the neighbouring relation under which the sensitivities of its queries must hold.
    indices : (R', m) indices of the batch's rows for each replicate.
    marked : (R', n) bool, True for the rows in the batch; used for large batches.
    taken : (R', m) bool, True for the indices that are in the batch; given where the replicates' batches differ in
        size, so that `indices` are filled up.
    rows : a block of consecutive rows, the same for all replicates.
    size : the number by which a sum over the batch is divided for a mean; None for the number of rows of the table.
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
        self.replicates = numbers.copy() if numbers.flags.writeable else numbers  # the caller may change its array
        self.relation = relation
        self._indices, self.marked, self.taken, self.rows = indices, marked, taken, rows
        # The releases were paid for on these rows and these replicates, so neither may change any more.
        for array in (self.replicates, indices, marked, taken):
            if array is not None and array.flags.writeable:
                array.setflags(write=False)
        self._source, self._size = source, size
        self._declared = [] if event is None else list(inner_events(event))  # the releases that remain
        self._lock = Lock()  # two threads must not both get the one release that was paid for

    @property
    def indices(self) -> np.ndarray | None:
        """(R', m) indices of the batch's rows for each replicate; None for the whole table and for a block of it."""
        if self._indices is None and self.marked is not None:
            _, columns = np.nonzero(self.marked)
            self._indices = columns.reshape(len(self.marked), -1)  # every replicate has m marks
            self._indices.setflags(write=False)
        return self._indices

    @property
    def whole(self) -> bool:
        """True if the batch is the whole table."""
        return self._indices is None and self.marked is None and self.rows is None

    def split(self, parts: Iterable[slice]) -> "Iterator[tuple[slice, Batch]]":
        """Yield each part with a batch for its replicates, so that a long release can be made in several steps.

        Each yielded batch has the remaining releases for its replicates; this batch has none any more. The noise of a
        replicate does not depend on the parts.

        parts : disjoint slices of the replicates.

        Raises LedgerError if parts overlap, or if the batch is not the whole table.
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
            batch = Batch(
                event=None,  # the remaining releases follow below
                replicates=self.replicates[part],
                source=self._source,
                relation=self.relation,
                size=self._size,
            )
            batch._declared = list(declared)
            yield part, batch

    def part(self, positions: np.ndarray) -> "Batch":
        """Return a batch of the same rows for some of its replicates, with the remaining releases.

        This batch has no releases any more, and the other replicates give theirs up.

        positions : (R'',) indices into the R' replicates of this batch.
        """
        numbers = self.replicates[positions]
        if len(np.unique(numbers)) < len(numbers):
            raise LedgerError("a replicate that is named twice would get two releases for one")
        with self._lock:
            declared, self._declared = self._declared, []
        row_arrays = {"indices": self._indices, "marked": self.marked, "taken": self.taken}
        rows_of_part: dict[str, Any] = {
            name: array[positions] for name, array in row_arrays.items() if array is not None
        }
        batch = Batch(
            event=None,  # the remaining releases follow below
            replicates=numbers,
            source=self._source,
            relation=self.relation,
            rows=self.rows,
            size=self._size,
            **rows_of_part,
        )
        batch._declared = declared
        return batch

    def divisor(self, n: int) -> int:
        """Return the number by which a sum over the batch is divided for a mean, where the table has n rows.

        It is the size of the batch; for a Poisson batch, whose size is secret, it is the m that its event declares.
        """
        return n if self._size is None else self._size

    def laplace(self, query: Query) -> np.ndarray:
        """Release the query's value with the Laplace noise of the batch's next declared event; (R', ...)."""
        event = self._next(query, Laplace, "l1")
        return self._released(query, event, event.eps, "laplace")

    def gaussian(self, query: Query) -> np.ndarray:
        """Release the query's value with the Gaussian noise of the batch's next declared event; (R', ...)."""
        event = self._next(query, Gaussian, "l2")
        return self._released(query, event, event.mu, "standard_normal")

    def above_threshold(self, query: Query) -> np.ndarray:
        """Release the first index whose noisy value reaches a noisy threshold of 0, (R',); -1 if none does.

        The batch's next declared event must be StatedPureDP. See `Mechanisms.above_threshold` for the mechanism.
        """
        return self._first_above(query, self._next(query, StatedPureDP, "linf"))

    def check(self, query: Query, kind: type[E], norm: Norm) -> E:
        """Return the next declared event, without using it up.

        Raises LedgerError unless it is of class `kind`, and the query was computed on this batch, with a sensitivity in
        `norm` and finite values for every replicate.
        """
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
        """Return the next declared event and use it up; raise LedgerError as `check` does, without using it up."""
        with self._lock:
            release = self.check(query, kind, norm)
            del self._declared[0]
            return release

    def _released(self, query: Query, event: Event, parameter: float, distribution: Standard) -> np.ndarray:
        """Return the value plus noise of scale sensitivity / parameter; no noise if the parameter is infinite."""
        noisy = query.value
        scale = require_sensitivity(query, len(self.replicates)) / parameter
        if parameter < np.inf:
            if not np.isfinite(scale).all():
                raise LedgerError(f"noise for the sensitivity {query.sensitivity} is too large for a number")
            require_precision(query.value, scale)
            noise = self._source._drawn(distribution, self.replicates, query.value.shape[1:])
            # A scale per replicate, (R',), gets axes of length 1, so that it multiplies the noise of its replicate.
            noisy = noisy + noise * (scale.reshape(-1, *[1] * (noise.ndim - 1)) if np.ndim(scale) else scale)
        release = NoisyRelease(
            query.value,
            noisy,
            self.replicates,
            batch=self,
            law=distribution,
            scale=scale,
            event=event,
            declared_sensitivity=query.sensitivity,
        )
        return self._source._passed(release)

    def _first_above(self, query: Query, event: StatedPureDP) -> np.ndarray:
        """Return the first index whose noisy value reaches the noisy threshold of 0, (R',); -1 if none does."""
        replicates, count = query.value.shape
        if not count:  # without values nothing is released
            return np.full(replicates, -1)
        sensitivity = np.broadcast_to(require_sensitivity(query, replicates), replicates)[:, None]
        # The shares of ε for the threshold and for the values are 1 : 2^{2/3} (Lyu, Su, Li 2017, c = 1). The second is
        # not computed as the rest of ε, which would be ∞ - ∞ without privacy.
        threshold_epsilon = event.eps / (1 + 2 ** (2 / 3))
        values_epsilon = threshold_epsilon * 2 ** (2 / 3)
        threshold_scale, value_scale = sensitivity / threshold_epsilon, 2 * sensitivity / values_epsilon
        noise = np.zeros((replicates, 1 + count))  # that of the threshold first, then those of the values
        if event.eps < np.inf:
            require_precision(query.value, threshold_scale[:, 0])  # the smaller one of the two scales
            noise = self._source._drawn("laplace", self.replicates, (1 + count,))
        is_above = query.value + value_scale * noise[:, 1:] >= threshold_scale * noise[:, :1]
        first_index = np.where(is_above.any(axis=1), is_above.argmax(axis=1), -1)
        release = ThresholdRelease(
            query.value,
            first_index,
            self.replicates,
            batch=self,
            threshold_scale=threshold_scale,
            value_scale=value_scale,
            event=event,
            declared_sensitivity=query.sensitivity,
        )
        return self._source._passed(release)
