"""Leaves and running sums: releases on disjoint sets of rows, each of which is used once.

A row of the data is in one leaf at most, and its leaf does not depend on the data. So replacing it moves one of the
queries that are computed on the leaves, and a running sum over them pays for that one only (`matrix_factorisation`).
Both are enforced: leaves are dealt once, and a running sum accepts only the leaves that it was opened for, in order.
"""

from collections.abc import Sequence
from threading import Lock

import numpy as np

from dpviz.privacy.batches import Batch, Replicates, require_finite, require_relation, require_room, require_sensitivity
from dpviz.privacy.events import Event, Gaussian, Relation
from dpviz.privacy.ledger import LedgerError
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.releases import Query, Source, Summed

ROUNDING = 1e-12  # relative, of a sensitivity that was computed twice


class Leaves:
    """Disjoint batches of rows under a public permutation, one permutation per replicate; dealt in order, each once.

    They hold nothing private: releases on them are paid for when `Mechanisms.prefix_sums` or `Mechanisms.parallel`
    opens them; one of the two does, once.

    sizes : rows of each leaf.
    replicates : (R',) that they are dealt to.
    """

    def __init__(
        self, indices: np.ndarray, sizes: Sequence[int], replicates: Replicates, source: Source, relation: Relation
    ) -> None:
        self.sizes = tuple(sizes)
        self.replicates = replicates
        self._indices = indices  # (R', sum of sizes)
        indices.setflags(write=False)
        self._ends = np.cumsum(sizes)
        self._source, self._relation = source, relation
        self._row_of = {int(r): i for i, r in enumerate(replicates)}  # of the replicates that have not left
        self._events: tuple[Event | None, ...] | None = None
        self._dealt: list[Batch] = []
        self._lock = Lock()  # two threads must not both be dealt one leaf

    def __len__(self) -> int:
        return len(self.sizes)

    def check(self, source: Source, count: int) -> None:
        """Raise LedgerError unless these leaves are `count`, of the mechanisms `source`, and not yet opened."""
        if source is not self._source:
            raise LedgerError("these leaves belong to another run")
        if self._events is not None:
            raise LedgerError("these leaves were opened before; each is used once")
        if len(self) != count:
            raise LedgerError(f"there are {len(self)} leaves, and {count} to be released")

    def _open(self, events: Sequence[Event | None]) -> None:
        """Record the event that was paid for on each leaf; None for leaves that a running sum releases."""
        with self._lock:
            self.check(self._source, len(events))
            self._events = tuple(events)

    def next(self, rows: Replicates | None = None) -> Batch:
        """Deal the next leaf, as a batch of the replicates `rows`; None = all that have not left.

        A replicate that is not among them has left for good. Raises LedgerError before the leaves are opened, after
        the last one, and for replicates that have left or never had leaves.
        """
        with self._lock:
            if self._events is None:
                raise LedgerError("open running sums or parallel releases on these leaves first")
            i = len(self._dealt)
            if i == len(self):
                raise LedgerError(f"there are {len(self)} leaves; this is one more")
            numbers = list(self._row_of) if rows is None else [int(r) for r in rows]
            if len(set(numbers)) < len(numbers) or not self._row_of.keys() >= set(numbers):
                raise LedgerError(f"leaf {i + 1} is for different ones of the replicates {list(self._row_of)}")
            positions = [self._row_of[r] for r in numbers]
            indices = self._indices[:, self._ends[i] - self.sizes[i] : self._ends[i]]
            if positions != list(range(len(indices))):
                indices = indices[positions]
            self._row_of = dict(zip(numbers, positions, strict=True))
            leaf = Batch(self._events[i], numbers, self._source, self._relation, indices=indices, size=self.sizes[i])
            self._dealt.append(leaf)
            return leaf

    def is_leaf(self, batch: Batch | None, number: int) -> bool:
        """Return whether a batch is the leaf of this number, from 0."""
        return number < len(self._dealt) and batch is self._dealt[number]


class PrefixSums:
    """Running sums that have been paid for: `add` releases the noisy sum of all queries so far, T times at most.

    Query t is one on leaf t, for the replicates that the leaf was dealt to. Where the factorisation is restarted, the
    sums begin anew.

    sensitivities : (R', T) declared largest change of each query in L2.
    noise_scale : (R',) standard deviation of the draws; prefix t gets factorisation.row_norms[t - 1] times as much.
    """

    def __init__(
        self,
        event: Gaussian,
        factorisation: Factorisation,
        leaves: Leaves,
        sensitivities: float | np.ndarray,
        shape: tuple[int, ...],
        *,
        source: Source,
        relation: Relation,
    ) -> None:
        rows = len(leaves.replicates)
        self._declared = np.broadcast_to(np.asarray(sensitivities, dtype=float), (rows, factorisation.length))
        if not (np.isfinite(self._declared) & (self._declared >= 0)).all():
            raise LedgerError(f"the sensitivities {sensitivities} are not finite numbers")
        self.noise_scale, self._event = factorisation.sensitivity(self._declared) / event.mu, event
        self._factorisation, self._leaves, self._source, self._relation = factorisation, leaves, source, relation
        self._row_of = {int(r): i for i, r in enumerate(leaves.replicates)}
        self._total = np.zeros((rows, *shape))
        self._noise = factorisation.stream(self._drawn) if event.mu < np.inf else None
        self._added = 0
        self._lock = Lock()  # two threads must not both release a query on one leaf

    def add(self, query: Query) -> np.ndarray:
        """Release the noisy sum of the queries since the sums last began, up to this one; (R', ...), as in its leaf.

        Raises LedgerError, before anything is drawn, if the query is not one on the next leaf, or not as declared.
        """
        with self._lock:
            leaf = self._leaf(query)
            positions = [self._row_of[int(r)] for r in leaf.replicates]
            self._check(query, positions)
            total = query.value + (0.0 if self._added % self._factorisation.period == 0 else self._total[positions])
            require_finite(total)
            self._added += 1
            self._total[positions] = total
            if self._noise is None:
                return total
            self._now = leaf.replicates, positions
            require_room(total, self.noise_scale[positions])
            noise, scale = next(self._noise)[positions], self.noise_scale[positions]
            noisy = total + noise * scale.reshape(-1, *[1] * (total.ndim - 1))
            law = leaf.replicates, None, scale, self, self._factorisation, self._added - 1
            change = self._declared[positions]
            return self._source._passed(Summed(total, noisy, *law, event=self._event, change=change))

    def _drawn(self) -> np.ndarray:
        """Return standard normal draws for the replicates of this step, zeros for those that have left."""
        replicates, positions = self._now
        normals = np.zeros(self._total.shape)
        normals[positions] = self._source._drawn("standard_normal", replicates, self._total.shape[1:])
        return normals

    def _leaf(self, query: Query) -> Batch:
        """Return the leaf of the query; raise LedgerError unless it is the next one of these sums."""
        if self._added == len(self._leaves):
            raise LedgerError(f"these running sums were opened for {self._added} queries; this is one more")
        leaf = query.batch
        if not isinstance(leaf, Batch) or not self._leaves.is_leaf(leaf, self._added):
            raise LedgerError(f"query {self._added + 1} must be computed on leaf {self._added + 1} of the running sums")
        return leaf

    def _check(self, query: Query, positions: list[int]) -> None:
        """Raise LedgerError unless norm, relation, shape and sensitivity of the query are as declared."""
        if query.norm != "l2":
            raise LedgerError(f"Gaussian noise needs a sensitivity in l2, the query has {query.norm}")
        require_relation(query, self._relation)
        expected = (len(positions), *self._total.shape[1:])
        if query.value.shape != expected:
            raise LedgerError(f"the query has shape {query.value.shape}, the running sums {expected}")
        declared = self._declared[positions, self._added]
        if not (require_sensitivity(query, len(positions)) <= declared * (1 + ROUNDING)).all():
            raise LedgerError(f"query {self._added + 1} has sensitivity {query.sensitivity}, declared was {declared}")
