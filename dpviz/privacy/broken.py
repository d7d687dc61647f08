"""Mechanisms that are broken on purpose, for audits to find: none of them is to be used for anything else."""

from collections.abc import Sequence

import numpy as np

from dpviz.privacy.batches import Batch, Replicates
from dpviz.privacy.events import Event, Sub
from dpviz.privacy.releases import Standard
from dpviz.privacy.running_sums import Leaves
from dpviz.privacy.transcripts import Transcript


class Quieter(Transcript):
    """Draws noise that is smaller than declared by √2."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        return super()._drawn(distribution, rows, shape) / np.sqrt(2)


class Unsampled(Transcript):
    """Pays for a random batch and takes the same rows every time."""

    def batch(self, event: Event, rows: Replicates | None = None, table: int | None = None) -> Batch:
        if isinstance(event, Sub) and self._of is None:
            return self._told(event, rows, taken=True)
        return super().batch(event, rows, table)


class OneStream(Transcript):
    """Draws the same numbers for every release."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        if not hasattr(self, "_once"):
            self._once = super()._drawn(distribution, rows, shape)
        return self._once


class Reusing(Transcript):
    """Draws the noise of the first value of a sparse vector, and takes it for all values."""

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        drawn = super()._drawn(distribution, rows, shape)
        return np.concatenate([drawn[:, :1], np.repeat(drawn[:, 1:2], shape[0] - 1, axis=1)], axis=1)


class Twice(Transcript):
    """Deals a row to the first two leaves."""

    def leaves(self, sizes: Sequence[int], n: int, rows: Replicates | None = None) -> Leaves:
        dealt = super().leaves(sizes, n, rows)
        indices = np.where(dealt._indices == self._row, dealt._indices[:, :1], dealt._indices)
        indices[:, [0, sizes[0]]] = self._row
        return Leaves(indices, sizes, dealt.replicates, self, self._ledger.relation)
