"""Sums over the rows of a linear model, block by block: of the whole table, of marked rows, of batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from threading import Lock

import numpy as np

from dpviz.checkpoints import slices
from dpviz.privacy.batches import Batch

# Passes over the table work on blocks of about this many elements (rows × replicates): they stay in the cache, and no
# (n, R) array is returned to the system and faulted in again at every iteration.
BLOCK = 48_000
_ROUND = 64  # rows: a block has a multiple of so many, that whoever folds it in halves can do so six times
GATHERED = 160_000  # numbers in the rows of batches that are gathered at once (replicates × rows × columns)
_REMEMBERED = 16  # sums, one for each of the arms that take turns
# Of a row of a batch, which is drawn, and of each number of it that is gathered: slices follow from it.
SECONDS_PER_DRAWN_ROW, SECONDS_PER_GATHERED = 20e-9, 1e-9


class LinearSums(ABC):
    """Rows v, and what a loss φ of one number per row, its argument ⟨v, x⟩ - o, adds up to over them.

    rows : (n, d). caps : (n,) largest allowed |φ'| of each row, or None if the clip is never active. offsets : (n,)
        or None. seconds : declared, of one replicate's losses and gradient on all rows; slices follow from it.
    """

    def __init__(self, rows: np.ndarray, caps: np.ndarray | None, offsets: np.ndarray | None, seconds: float) -> None:
        self._rows, self._caps, self._offsets, self._seconds = rows, caps, offsets, seconds
        self._known: dict[bytes, np.ndarray] = {}
        self._lock = Lock()

    @staticmethod
    @abstractmethod
    def slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """-φ' at the arguments, clipped to the caps; finite; may work in place."""

    def _blocks(self, x: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Blocks of the table: where, rows (b, d), their arguments (R, b) in a buffer that is reused, caps (b,)."""
        n, count = len(self._rows), len(x)
        size = min(n, -(-BLOCK // count // _ROUND) * _ROUND)
        buffer = np.empty(count * size)
        for start in range(0, n, size):
            part = slice(start, min(start + size, n))
            rows = self._rows[part]
            arguments = np.matmul(x, rows.T, out=buffer[: count * len(rows)].reshape(count, len(rows)))
            if self._offsets is not None:
                arguments -= self._offsets[part]
            yield part, rows, arguments, None if self._caps is None else self._caps[part]

    def _sum(self, x: np.ndarray, batch: Batch | None) -> np.ndarray:
        """Σ -φ' v (R, d) over the rows of each replicate's batch, or all of them without one: some replicates after the
        others, where all together take long."""
        x = bounded(x)
        marked = None if batch is None else batch.marked
        indices = batch.indices if batch is not None and marked is None else None
        if batch is not None and batch.rows is not None:
            raise ValueError("a block of the table is no batch of single rows")
        self._check_rows(indices, marked)
        total, each = np.empty_like(x), SECONDS_PER_DRAWN_ROW + SECONDS_PER_GATHERED * x.shape[1]
        for part in slices(len(x), self._seconds if indices is None else indices.shape[1] * each):
            with np.errstate(over="ignore"):
                if marked is not None:
                    total[part] = self._table_sum(x[part], marked[part])
                elif batch is not None and indices is not None:
                    taken = None if batch.taken is None else batch.taken[part]
                    total[part] = self._batch_sum(x[part], indices[part], taken)
                else:
                    known = self._recalled(x[part])
                    total[part] = self._table_sum(x[part]) if known is None else known
        return total

    def _table_sum(self, x: np.ndarray, marked: np.ndarray | None = None) -> np.ndarray:
        """Σ -φ' v over all rows (R, d), or over those that are marked (R, n) for each replicate."""
        total = np.zeros_like(x)
        for part, rows, arguments, caps in self._blocks(x):
            slopes = self.slopes(arguments, caps)
            if marked is not None:
                slopes *= marked[:, part]  # finite, so that the others are exactly 0 and add nothing
            total += slopes @ rows
        return total

    def _batch_sum(self, x: np.ndarray, indices: np.ndarray, taken: np.ndarray | None) -> np.ndarray:
        """Σ -φ' v (R, d) over the rows of each replicate's batch (R, m), of which those count that are taken."""
        (count, d), m = x.shape, indices.shape[1]
        total, size = np.zeros_like(x), max(1, min(m, GATHERED // x.size))
        buffer, other = np.empty(count * size * d), np.empty(count * size)
        for start in range(0, m, size):
            chosen = indices[:, start : start + size]
            shape = chosen.shape
            rows, arguments = buffer[: chosen.size * d].reshape(*shape, d), other[: chosen.size].reshape(shape)
            np.take(self._rows, chosen, axis=0, out=rows, mode="clip")  # other modes gather into a copy of the buffer
            np.matmul(rows, x[:, :, None], out=arguments[:, :, None])
            if self._offsets is not None:
                arguments -= self._offsets[chosen]
            slopes = self.slopes(arguments, None if self._caps is None else self._caps[chosen])
            if taken is not None:
                slopes *= taken[:, start : start + size]
            total += np.matmul(slopes[:, None, :], rows)[:, 0]
        return total

    def _check_rows(self, indices: np.ndarray | None, marked: np.ndarray | None) -> None:
        """Raises IndexError for a batch of another table: what gathers rows stops at the last one."""
        n = len(self._rows)
        if (indices is not None and indices.max(initial=0) >= n) or (marked is not None and marked.shape[1] != n):
            raise IndexError(f"the batch was drawn from another table than this one of {n} rows")

    def _remember(self, x: np.ndarray, total: np.ndarray) -> None:
        """Keep Σ -φ' v (R, d) over all rows at x (R, d), until it is asked for or others have come after it.

        A method without momentum asks for its next gradient where its last iterate was evaluated. What diagnostics add
        up on the way is `_table_sum` to the last bit, so it does not matter to any result who finds what here.
        """
        with self._lock:
            self._known[x.tobytes()] = total
            while len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]

    def _recalled(self, x: np.ndarray) -> np.ndarray | None:
        """What was kept for x, once."""
        with self._lock:
            return self._known.pop(x.tobytes(), None)


def bounded(x: np.ndarray) -> np.ndarray:
    """x without what is not finite or too large: a diverged replicate must not turn an argument into NaN."""
    return np.clip(np.nan_to_num(x), -1e100, 1e100)
