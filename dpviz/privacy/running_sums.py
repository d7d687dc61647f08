"""Leaves and running sums: releases on disjoint sets of rows, each of which is used once.

A leaf is a set of rows on which one query is computed. Each row of the data is in one leaf at most, and which one does
not depend on the data. So a replaced row changes only one of the queries, and running sums over all of them cost no
more than they would if any one query changed (`matrix_factorisation`). This module enforces both: leaves are handed out
once, and running sums accept only queries on the leaves that they were opened for, in order. R' is the number of
replicates (simulated runs) that leaves are made for.
"""

from collections.abc import Sequence
from threading import Lock

import numpy as np

from dpviz.privacy.batches import (
    Batch,
    Replicates,
    require_finite,
    require_precision,
    require_relation,
    require_sensitivity,
)
from dpviz.privacy.events import Event, Gaussian, Relation
from dpviz.privacy.ledger import LedgerError
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.releases import Query, Source, SumRelease

ROUNDING = 1e-12  # relative difference by which rounding lets a query's sensitivity exceed the declared one


class Leaves:
    """Disjoint batches of rows (leaves), handed out one after the other by `next`, each once.

    They are cut off a public permutation of the rows, a different one for each replicate, so which rows they contain
    is not secret. No release on them is possible before either `Mechanisms.prefix_sums` or `Mechanisms.parallel` opens
    them, which pays for the releases and happens once.

    indices : (R', sum of sizes) the permuted rows of each replicate.
    sizes : number of rows of each leaf.
    replicates : (R',) numbers of the replicates.
    source : the mechanisms that made them. relation : the neighbouring relation of the run.
    """

    def __init__(
        self, indices: np.ndarray, sizes: Sequence[int], replicates: Replicates, source: Source, relation: Relation
    ) -> None:
        self.sizes = tuple(sizes)
        self.replicates = replicates
        self._indices = indices
        indices.setflags(write=False)
        self._ends = np.cumsum(sizes)
        self._source, self._relation = source, relation
        # The position in `_indices` of each replicate that has taken part in all leaves so far.
        self._position_of = {int(r): i for i, r in enumerate(replicates)}
        self._events: tuple[Event | None, ...] | None = None  # what was paid for on each leaf; None before the opening
        self._handed_out: list[Batch] = []  # the leaves so far
        self._lock = Lock()  # two threads must not both get the same leaf

    def __len__(self) -> int:
        return len(self.sizes)

    def check(self, source: Source, count: int) -> None:
        """Raise LedgerError unless there are `count` leaves, made by the mechanisms `source` and not yet opened."""
        if source is not self._source:
            raise LedgerError("these leaves belong to another run")
        if self._events is not None:
            raise LedgerError("these leaves were opened before; each is used once")
        if len(self) != count:
            raise LedgerError(f"there are {len(self)} leaves, and {count} to be released")

    def _open(self, events: Sequence[Event | None]) -> None:
        """Record the event that was paid for on each leaf; each is None if running sums release the leaves' queries."""
        with self._lock:
            self.check(self._source, len(events))
            self._events = tuple(events)

    def next(self, replicates: Replicates | None = None) -> Batch:
        """Return the next leaf as a batch, for these `replicates`; None means all that have not stopped.

        A replicate that is not among them has stopped for good. Raises LedgerError before the leaves are opened, after
        the last leaf, and for replicates that have stopped, are named twice or never had leaves.
        """
        with self._lock:
            if self._events is None:
                raise LedgerError("open running sums or parallel releases on these leaves first")
            i = len(self._handed_out)
            if i == len(self):
                raise LedgerError(f"there are {len(self)} leaves; this is one more")
            numbers = list(self._position_of) if replicates is None else [int(r) for r in replicates]
            if len(set(numbers)) < len(numbers) or not self._position_of.keys() >= set(numbers):
                raise LedgerError(f"leaf {i + 1} is for different ones of the replicates {list(self._position_of)}")
            positions = [self._position_of[r] for r in numbers]
            indices = self._indices[:, self._ends[i] - self.sizes[i] : self._ends[i]]
            if positions != list(range(len(indices))):  # without a copy if all replicates take part
                indices = indices[positions]
            self._position_of = dict(zip(numbers, positions, strict=True))  # the others have stopped for good
            leaf = Batch(self._events[i], numbers, self._source, self._relation, indices=indices, size=self.sizes[i])
            self._handed_out.append(leaf)
            return leaf

    def is_leaf(self, batch: Batch | None, number: int) -> bool:
        """Return whether `batch` is the leaf of this number, counted from 0, and has been handed out."""
        return number < len(self._handed_out) and batch is self._handed_out[number]


class PrefixSums:
    """Running sums that have been paid for: `add` releases the noisy sum of all queries so far, at most T times.

    Query t is computed on leaf t, for the replicates that the leaf was handed out for. At a restart of the
    factorisation (every `factorisation.period` queries) the sums begin again at 0.

    factorisation : of the T running sums; it determines the noise of sum t, which is a combination of independent
        normal draws and correlated with that of the other sums.
    sensitivities : L2 sensitivity of each query, declared in advance; a scalar, (T,) or (R', T).
    shape : of a query's value for one replicate.
    noise_scale : (R',) standard deviation of the independent draws; the noise of sum t has factorisation.row_norms[t -
        1] times that standard deviation.
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
        replicates = len(leaves.replicates)
        self._declared = np.broadcast_to(np.asarray(sensitivities, dtype=float), (replicates, factorisation.length))
        if not (np.isfinite(self._declared) & (self._declared >= 0)).all():
            raise LedgerError(f"the sensitivities {sensitivities} are not finite numbers")
        self.noise_scale, self._event = factorisation.sensitivity(self._declared) / event.mu, event
        self._factorisation, self._leaves, self._source, self._relation = factorisation, leaves, source, relation
        self._position_of = {int(r): i for i, r in enumerate(leaves.replicates)}
        self._total = np.zeros((replicates, *shape))  # the exact sums so far
        self._noise = factorisation.stream(self._drawn) if event.mu < np.inf else None  # at σ = 1, one array per sum
        self._added = 0  # number of queries so far
        self._lock = Lock()  # two threads must not both release a query on one leaf

    def add(self, query: Query) -> np.ndarray:
        """Release the noisy sum of all queries since the last restart, with this one; (R'', ...).

        R'' are the replicates of the leaf that the query was computed on. Raises LedgerError, before anything is drawn,
        if the query was not computed on the next leaf, or if its norm, shape or sensitivity is not as declared.
        """
        with self._lock:
            number, leaf = self._added + 1, query.batch
            if number > len(self._leaves):
                raise LedgerError(f"these running sums were opened for {self._added} queries; this is one more")
            if not isinstance(leaf, Batch) or not self._leaves.is_leaf(leaf, self._added):
                raise LedgerError(f"query {number} must be computed on leaf {number} of the running sums")
            positions = [self._position_of[int(r)] for r in leaf.replicates]
            self._check(query, positions)
            is_restart = self._added % self._factorisation.period == 0
            total = query.value + (0.0 if is_restart else self._total[positions])
            require_finite(total)
            self._added += 1
            self._total[positions] = total
            if self._noise is None:  # without privacy
                return total
            scale = self.noise_scale[positions]
            require_precision(total, scale)
            self._drawing_for = leaf.replicates, positions  # read by `_drawn`, which the stream of noise calls
            noise = next(self._noise)[positions]
            noisy = total + noise * scale.reshape(-1, *[1] * (total.ndim - 1))
            release = SumRelease(
                total,
                noisy,
                leaf.replicates,
                batch=None,
                scale=scale,
                series=self,
                factorisation=self._factorisation,
                step=self._added - 1,
                event=self._event,
                declared_sensitivity=self._declared[positions],
            )
            return self._source._passed(release)

    def _drawn(self) -> np.ndarray:
        """Return (R', *shape) standard normal draws for the current query; 0 for replicates that have stopped."""
        replicates, positions = self._drawing_for
        normals = np.zeros(self._total.shape)
        normals[positions] = self._source._drawn("standard_normal", replicates, self._total.shape[1:])
        return normals

    def _check(self, query: Query, positions: list[int]) -> None:
        """Raise LedgerError unless norm, relation, shape and sensitivity of the query are as declared.

        positions : those of the query's replicates among the R' of these sums.
        """
        if query.norm != "l2":
            raise LedgerError(f"Gaussian noise needs a sensitivity in l2, the query has {query.norm}")
        require_relation(query, self._relation)
        expected = (len(positions), *self._total.shape[1:])
        if query.value.shape != expected:
            raise LedgerError(f"the query has shape {query.value.shape}, the running sums {expected}")
        declared = self._declared[positions, self._added]
        if not (require_sensitivity(query, len(positions)) <= declared * (1 + ROUNDING)).all():
            raise LedgerError(f"query {self._added + 1} has sensitivity {query.sensitivity}, declared was {declared}")
