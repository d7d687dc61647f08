"""Mechanisms that are broken on purpose, to show that audits find the fault. They must not be used for anything else.

Each class documents its fault, and overrides the method that has it: `_drawn` returns (R', *shape) independent draws of
scale 1 for the `replicates`; `batch`, `leaves` and `prefix_sums` open the rows that releases are made on. `_first_run`
is None in a first run. In a second run of an audit, which draws nothing, it is the first one, and no batch has a fault.
"""

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
    """Noise whose scale is the declared one divided by √2."""

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        return super()._drawn(distribution, replicates, shape) / np.sqrt(2)


class TenthLess(Transcript):
    """Noise whose scale is the declared one times 0.9."""

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        return super()._drawn(distribution, replicates, shape) * 0.9


class RoundedOff(Transcript):
    """Noise that is rounded to 0 where it is less than a hundredth of its scale."""

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        sample = super()._drawn(distribution, replicates, shape)
        return np.where(np.abs(sample) < 0.01, 0.0, sample)


class Unsampled(Transcript):
    """A batch that is paid for as random, but has the same rows in every step and run."""

    def batch(self, event: Event, replicates: Replicates | None = None, table_rows: int | None = None) -> Batch:
        if isinstance(event, Sub) and self._first_run is None:
            return self._fixed_batch(event, replicates, with_row=True)
        return super().batch(event, replicates, table_rows)


class OneStream(Transcript):
    """The random numbers of the first release, used for all releases."""

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        if not hasattr(self, "_once"):
            self._once = super()._drawn(distribution, replicates, shape)
        return self._once


class Reusing(Transcript):
    """Sparse vector technique in which the noise of the first value is used for all values."""

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        sample = super()._drawn(distribution, replicates, shape)  # (R', 1 + values), that of the threshold first
        threshold_noise, value_noise = sample[:, :1], sample[:, 1:2]
        return np.concatenate([threshold_noise, np.repeat(value_noise, shape[0] - 1, axis=1)], axis=1)


class OverlappingLeaves(Transcript):
    """Leaves of which the first two have one row in common."""

    def leaves(self, sizes: Sequence[int], n: int, replicates: Replicates | None = None) -> Leaves:
        leaves = super().leaves(sizes, n, replicates)
        indices = leaves._indices.copy()  # `Transcript` has put the audited row in the first place of the first leaf
        indices[:, sizes[0]] = self._row  # and in that of the second
        return Leaves(indices, sizes, leaves.replicates, self, self._ledger.relation)


class RepeatedNoise(Transcript):
    """Noise that is drawn for every second release only, and used again for the release after it."""

    _stored: np.ndarray | None = None

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        stored, self._stored = self._stored, None
        if stored is not None and stored.shape == (len(replicates), *shape):
            return stored
        self._stored = super()._drawn(distribution, replicates, shape)
        return self._stored


class OneBatch(Transcript):
    """One random batch, used in all steps of a run."""

    _first: Batch | None = None

    def batch(self, event: Event, replicates: Replicates | None = None, table_rows: int | None = None) -> Batch:
        opened = super().batch(event, replicates, table_rows)
        if not isinstance(event, Sub) or self._first_run is not None:  # all rows, or a second run, which draws no batch
            return opened
        self._first = self._first or opened  # all replicates were in it, so their numbers are indices into it
        indices, marked = self._first._indices, self._first.marked
        return Batch(
            event,
            opened.replicates,
            self,
            self._ledger.relation,
            indices=None if indices is None else indices[opened.replicates],
            marked=None if marked is None else marked[opened.replicates],
            size=event.m,
        )


class QuietOffDiagonal(Transcript):
    """Noise of symmetric 2 × 2 matrices that is too small by √2 off the diagonal."""

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        sample = super()._drawn(distribution, replicates, shape)
        return sample / [1.0, np.sqrt(2), 1.0] if shape == (3,) else sample  # 3 numbers: the entries of such a matrix


class LevelMissing(Transcript):
    """Running sums by a binary tree whose noise is calibrated as if each leaf were in one block fewer than it is."""

    def prefix_sums(self, event: Event, factorisation: Factorisation, *rest: Any, **more: Any) -> PrefixSums:
        tree = BinaryTree(factorisation.length)
        tree.column_norms = frozen(np.sqrt(np.maximum(tree.column_norms**2 - 1, 1.0)))  # their squares count blocks
        return super().prefix_sums(event, tree, *rest, **more)
