"""Mechanisms that are broken on purpose, for audits to find: none of them is to be used for anything else."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpviz.privacy.batches import Batch, Replicates
from dpviz.privacy.events import Event, Sub
from dpviz.privacy.matrix_factorisation import BinaryTree, Factorisation, frozen
from dpviz.privacy.releases import Standard
from dpviz.privacy.running_sums import Leaves, PrefixSums
from dpviz.privacy.verification.transcripts import Transcript


class Quieter(Transcript):
    """Noise that is smaller than declared by √2."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        return super()._drawn(distribution, rows, shape) / np.sqrt(2)


class TenthLess(Transcript):
    """Noise that is smaller than declared by a tenth."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        return super()._drawn(distribution, rows, shape) * 0.9


class RoundedOff(Transcript):
    """Noise that is rounded to 0 where it is less than a hundredth of its scale."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        sample = super()._drawn(distribution, rows, shape)
        return np.where(np.abs(sample) < 0.01, 0.0, sample)


class Unsampled(Transcript):
    """A random batch that is paid for, and the same rows every time."""

    def batch(self, event: Event, rows: Replicates | None = None, table: int | None = None) -> Batch:
        if isinstance(event, Sub) and self._of is None:
            return self._fixed_batch(event, rows, taken=True)
        return super().batch(event, rows, table)


class OneStream(Transcript):
    """The same random numbers for every release."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        if not hasattr(self, "_once"):
            self._once = super()._drawn(distribution, rows, shape)
        return self._once


class Reusing(Transcript):
    """The noise of the first value of a sparse vector, used for all values."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        sample = super()._drawn(distribution, rows, shape)
        return np.concatenate([sample[:, :1], np.repeat(sample[:, 1:2], shape[0] - 1, axis=1)], axis=1)


class Twice(Transcript):
    """Leaves of which the first two have one row in common."""

    def leaves(self, sizes: Sequence[int], n: int, rows: Replicates | None = None) -> Leaves:
        dealt = super().leaves(sizes, n, rows)
        indices = np.where(dealt._indices == self._row, dealt._indices[:, :1], dealt._indices)
        indices[:, [0, sizes[0]]] = self._row
        return Leaves(indices, sizes, dealt.replicates, self, self._ledger.relation)


class Again(Transcript):
    """Noise that is drawn for every other release, and used for the next one, too."""

    _stored: np.ndarray | None = None

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        stored, self._stored = self._stored, None
        if stored is not None and stored.shape == (len(rows), *shape):
            return stored
        self._stored = super()._drawn(distribution, rows, shape)
        return self._stored


class OneBatch(Transcript):
    """One random batch, used in all steps."""

    _first: Batch | None = None

    def batch(self, event: Event, rows: Replicates | None = None, table: int | None = None) -> Batch:
        opened = super().batch(event, rows, table)
        if not isinstance(event, Sub) or self._of is not None:
            return opened
        self._first = self._first or opened
        first = {"indices": self._first._indices, "marked": self._first.marked}
        stored = {name: None if rows is None else rows[opened.replicates] for name, rows in first.items()}
        return Batch(event, opened.replicates, self, self._ledger.relation, **stored, size=event.m)


class QuietBeside(Transcript):
    """Noise of symmetric 2 × 2 matrices that is divided by √2 once more off the diagonal."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        sample = super()._drawn(distribution, rows, shape)
        return sample / [1.0, np.sqrt(2), 1.0] if shape == (3,) else sample


class LevelMissing(Transcript):
    """Noise of a tree for leaves that are in one block fewer than they are."""

    def prefix_sums(self, event: Event, factorisation: Factorisation, *rest: Any, **more: Any) -> PrefixSums:
        fewer = BinaryTree(factorisation.length)
        fewer.column_norms = frozen(np.sqrt(np.maximum(fewer.column_norms**2 - 1, 1.0)))
        return super().prefix_sums(event, fewer, *rest, **more)
