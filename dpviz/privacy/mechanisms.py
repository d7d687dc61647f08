"""Mechanisms: the only place where privacy noise is drawn. Charge, then draw, in one act."""

import hashlib
import secrets
from collections.abc import Sequence
from enum import IntEnum
from threading import Lock
from typing import TypeVar

import numpy as np

from dpviz.privacy import batches
from dpviz.privacy.events import (
    Event,
    ExpMech,
    Gaussian,
    Laplace,
    Parallel,
    StatedPureDP,
    Sub,
    draws_batch,
    has_blocks,
    inner_events,
)
from dpviz.privacy.ledger import Additive, Ledger, LedgerError, times_of
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.queries import Norm, Query

E = TypeVar("E", Laplace, Gaussian)


class Purpose(IntEnum):
    """What random numbers are for; each purpose has its own stream in every replicate."""

    NOISE = 0
    BATCHES = 1
    PUBLIC = 2
    FACTS = 3  # noise of a release before the run, to learn one of its facts: never the run's own numbers again


def drawn_seed(seed: int | None) -> int:
    """The seed itself; None draws one from the operating system, so that nobody can repeat and subtract."""
    return secrets.randbits(128) if seed is None else seed


def streams(seed: int, purpose: Purpose, replicates: int, release: str = "") -> list[np.random.Generator]:
    """One PCG64 generator per replicate; replicate r draws the same numbers whatever the other replicates do.

    release : a text that says what is released, such as method, budget and problem. Equal texts repeat the numbers,
        different ones share nothing: two releases with one noise would together give the exact value.
    """
    words = np.frombuffer(hashlib.sha256(release.encode()).digest(), dtype="<u4").tolist() if release else ()
    sequences = (np.random.SeedSequence(seed, spawn_key=(purpose, r, *words)) for r in range(replicates))
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


def _require_finite(values: np.ndarray) -> None:
    """Raises LedgerError where a value is not a number or infinite: no noise hides that, and no sensitivity bounds it.

    Problems put 0 in place of such entries before they clip, so one that comes here is a bug of an algorithm.
    """
    if not np.isfinite(values).all():
        raise LedgerError("what is released must be finite numbers; put 0 in place of the others before clipping")


def _require_relation(query: Query, ledger: Ledger) -> None:
    """Raises LedgerError for a sensitivity that holds for other neighbours than the run's events do."""
    if query.relation != ledger.relation:
        raise LedgerError(f"this run holds under {ledger.relation}, the query's sensitivity under {query.relation}")


class Mechanisms:
    """Draws all randomness of one arm's run for R replicates, charging the ledger before each draw.

    A mechanism takes the event and the query and derives the scale from both, so the noise that is drawn, the noise
    that is booked and the noise that is shown cannot differ. Values that are not finite are refused with a LedgerError
    before anything is drawn and, except on a batch and in running sums that were paid for when they opened, before
    anything is charged.

    seed, release : of the random numbers, see `streams`. Who runs two different releases on the same data with one seed
        must say in `release` what each of them is.
    """

    def __init__(self, ledger: Ledger, seed: int, noise: Purpose = Purpose.NOISE, release: str = "") -> None:
        self._ledger = ledger
        self._noise = streams(seed, noise, ledger.replicates, release)
        self._batches = streams(seed, Purpose.BATCHES, ledger.replicates, release)
        self.public = streams(seed, Purpose.PUBLIC, ledger.replicates, release)

    @property
    def replicates(self) -> int:
        """R, the hypothetical runs that are drawn at once."""
        return self._ledger.replicates

    def batch(self, event: Event, rows: Sequence[int] | np.ndarray | None = None, table: int | None = None) -> "Batch":
        """Open a batch: charges all of `event` now, and draws the indices if it is a `Sub`.

        table : for Poisson batches, the number of rows that there are, which the event must not know.
        """
        if draws_batch(event) and not isinstance(event, Sub):
            raise LedgerError(f"{event} draws a batch inside; open one batch at a time")
        if has_blocks(event):
            raise LedgerError(f"{event} pays for each block once; open its blocks, not one batch for all")
        if (isinstance(event, Sub) and event.kind == "poisson") != (table is not None):
            raise LedgerError(f"Poisson batches, and no others, need the number of rows in the table: {event}, {table}")
        self._ledger.charge(event, times_of(rows, self.replicates))
        return Batch(self, event, range(self.replicates) if rows is None else rows, table=table)

    def blocks(self, event: Parallel, n: int) -> "list[Batch]":
        """Open disjoint blocks of floor(n/k) consecutive rows, one for each of the k parts of `event`; charges it now.

        Each block is released like a batch; a row is in one block at most, so the blocks compose in parallel.
        """
        size = n // len(event.events)
        if size < 1:
            raise LedgerError(f"{n} rows do not make {len(event.events)} blocks")
        if any(has_blocks(part) for part in event.events):
            raise LedgerError(f"{event} has blocks inside a block")
        if self._ledger.relation != "replace-one":
            raise LedgerError("a row that is added or removed moves all later ones into other blocks")
        self._ledger.charge(event)
        slices = (slice(i * size, (i + 1) * size) for i in range(len(event.events)))
        parts = zip(event.events, slices, strict=True)
        return [Batch(self, part, range(self.replicates), rows=rows) for part, rows in parts]

    def laplace(self, query: Query, event: Event, rows: np.ndarray | None = None) -> np.ndarray:
        """The query's value plus i.i.d. Laplace noise of scale Δ₁/ε; (R', ...)."""
        _require_finite(query.value)
        return self.batch(event, rows).laplace(query)

    def gaussian(self, query: Query, event: Event, rows: np.ndarray | None = None) -> np.ndarray:
        """The query's value plus i.i.d. Gaussian noise of standard deviation Δ₂/μ; (R', ...)."""
        _require_finite(query.value)
        return self.batch(event, rows).gaussian(query)

    def exponential(
        self, query: Query, event: Event, draws: int | np.ndarray = 1, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Select by the exponential mechanism: index j with probability ∝ exp(η u_j / Δ), Δ the range of the change.

        query : utilities (R', k), or (R', selections, k) if each has its own, norm "range".
        event : ExpMech(η), or a Repeat of it for several selections at once.
        draws : under a filter, how many selections each replicate buys; a number or (R',).
        Returns (R', most selections) indices; a replicate that bought fewer has -1 in the rest.
        One selection is the argmax of u η/Δ plus Gumbel noise; several share one inverse distribution function.
        """
        selections = inner_events(event)
        selection = selections[0]
        composite = draws_batch(event) or has_blocks(event)
        if not isinstance(selection, ExpMech) or composite or len(set(selections)) > 1:
            raise LedgerError(f"a selection needs an exponential-mechanism event on the whole table, not {event}")
        if query.norm != "range":
            raise LedgerError(f"a selection needs the range of the utilities' change, the query has {query.norm}")
        if query.batch is not None:
            raise LedgerError("selections on batches are not supported")
        _require_relation(query, self._ledger)
        chosen = range(self.replicates) if rows is None else rows
        sensitivity = np.broadcast_to(np.asarray(query.sensitivity, dtype=float), len(chosen))
        if not (np.isfinite(sensitivity) & (sensitivity >= 0)).all():
            raise LedgerError(f"the sensitivity {query.sensitivity} is not a finite number")
        shape = query.value.shape
        fits = len(shape) == 2 or (len(shape) == 3 and shape[1] == len(selections) and np.all(np.equal(draws, 1)))
        if not fits or shape[0] != len(chosen) or not shape[-1] or not np.isfinite(query.value).all():
            raise LedgerError(f"utilities must be finite, one row for each of {len(chosen)} replicates")
        self._ledger.charge(event, times_of(rows, self.replicates, draws))
        with np.errstate(divide="ignore"):
            slope = selection.eta / sensitivity
        times = np.broadcast_to(draws, len(chosen))
        return self._selected(self._noise, query.value, slope, times, len(selections), chosen)

    def sample(
        self, log_weights: np.ndarray, draws: int | np.ndarray = 1, rows: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw indices with probabilities ∝ exp(log_weights), (R', k), public or released before: costs nothing.

        Returns (R', most draws), filled with -1 where a replicate draws fewer. A weight of -∞ is an index that cannot
        be drawn; raises LedgerError if that is all of them, or one is not a number or +∞.
        """
        if np.isnan(log_weights).any() or not np.isfinite(log_weights.max(axis=-1, initial=-np.inf)).all():
            raise LedgerError("indices are drawn from weights of which one at least is positive, and none infinite")
        chosen = range(self.replicates) if rows is None else rows
        times = np.broadcast_to(draws, len(chosen))
        return self._selected(self.public, log_weights, np.ones(len(chosen)), times, 1, chosen)

    @staticmethod
    def _selected(
        generators: Sequence[np.random.Generator],
        utilities: np.ndarray,
        slope: np.ndarray,
        times: np.ndarray,
        each: int,
        rows: Sequence[int] | np.ndarray,
    ) -> np.ndarray:
        """(R', most) indices, times × each of them for every replicate, with P(j) ∝ exp(slope · utility_j).

        Utilities of zero slope do not matter; of infinite slope, only the best can be chosen.
        """
        counts = times * each
        found = np.full((len(rows), max(1, int(counts.max(initial=0)))), -1, dtype=np.int64)
        for i, r in enumerate(rows):
            gaps = utilities[i] - utilities[i].max(axis=-1, keepdims=True)
            # Utilities that one row cannot move at all (Δ = 0) are public: the best one is chosen, ties at random.
            logits = slope[i] * gaps if slope[i] < np.inf else np.where(gaps < 0, -np.inf, 0.0)
            if counts[i] == 1 or logits.ndim == 2:
                found[i, : counts[i]] = np.argmax(logits + generators[r].gumbel(size=logits.shape), axis=-1)
            elif counts[i] > 1:
                sums = np.cumsum(np.exp(logits))
                drawn = generators[r].random(size=counts[i]) * sums[-1]
                last = np.searchsorted(sums, sums[-1])  # rounding may reach the end, but never an impossible index
                found[i, : counts[i]] = np.minimum(np.searchsorted(sums, drawn, side="right"), last)
        return found

    def above_threshold(self, query: Query, event: Event, rows: np.ndarray | None = None) -> np.ndarray:
        """The first index whose noisy value reaches 0, by the sparse vector technique with one positive answer; (R',),
        -1 if none does. Only the index is released, whatever the number of values.

        query : values minus thresholds (R', k), norm "linf". event : StatedPureDP(ε). The noisy threshold gets ε₁,
        the values ε₂, ε₁ : ε₂ = 1 : 2^{2/3}, with Laplace noise of scale Δ/ε₁ and 2Δ/ε₂ (Lyu, Su, Li 2017, Algorithm 7,
        c = 1).
        """
        if not isinstance(event, StatedPureDP):
            raise LedgerError(f"the sparse vector technique needs a StatedPureDP event, not {event}")
        if query.norm != "linf" or query.batch is not None:
            raise LedgerError(f"it needs a sensitivity in linf on the whole table, the query has {query.norm}")
        _require_relation(query, self._ledger)
        chosen = range(self.replicates) if rows is None else rows
        delta = np.broadcast_to(np.asarray(query.sensitivity, dtype=float), len(chosen))
        valid = (np.isfinite(delta) & (delta >= 0)).all() and np.isfinite(query.value).all()
        if query.value.ndim != 2 or len(query.value) != len(chosen) or not valid:
            raise LedgerError("it needs one row of finite numbers for each replicate, and a finite sensitivity")
        self._ledger.charge(event, times_of(rows, self.replicates))
        first = event.eps / (1 + 2 ** (2 / 3))
        second = first * 2 ** (2 / 3)  # not the rest of ε: without privacy both are infinite
        found = np.full(len(chosen), -1, dtype=np.int64)
        for i, r in enumerate(chosen):
            size = 1 + query.value.shape[1]
            noise = self._noise[r].laplace(size=size) if event.eps < np.inf else np.zeros(size)
            accepted = query.value[i] + 2 * delta[i] / second * noise[1:] >= delta[i] / first * noise[0]
            if accepted.any():
                found[i] = accepted.argmax()
        return found

    def affordable(self, event: Event, times: int | np.ndarray = 1) -> np.ndarray:
        """(R,) bool: which replicates may still be charged `event` so many times."""
        return self._ledger.affordable(event, times)

    def spent(self, currency: Additive) -> np.ndarray:
        """(R,) what each replicate has been charged so far: ε, ρ, or μ."""
        return self._ledger.spent(currency)

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

    indices : (R', m) rows of the table for each replicate, or None if none were drawn. Secret: never show them.
    taken : (R', k) bool, which of (R', k) indices are in the batch, where sizes differ; None if all are. As secret.
    rows : the block of the table that it is, for all replicates; None for the whole table.
    relation : the neighbouring relation that the sensitivity of its queries must hold for.
    """

    def __init__(
        self,
        mechanisms: Mechanisms,
        event: Event,
        replicates: Sequence[int] | np.ndarray,
        rows: slice | None = None,
        table: int | None = None,
    ) -> None:
        self._mechanisms = mechanisms
        self._rows = replicates
        self._event = event
        self.rows = rows
        self.relation = mechanisms._ledger.relation
        self._declared = list(inner_events(event))
        self._lock = Lock()  # two threads must not both get the one release that was paid for
        self.indices: np.ndarray | None = None
        self.taken: np.ndarray | None = None
        if isinstance(event, Sub):
            generators = [mechanisms._batches[r] for r in replicates]
            if table is None:
                self.indices = batches.without_replacement(generators, event.m, event.n)
            else:
                self.indices, self.taken = batches.poisson(generators, event.m / event.n, table)

    def divisor(self, n: int) -> int:
        """What makes a mean of a sum over the batch: its size; of a Poisson batch, whose size is secret, the declared
        m. n : rows of the table."""
        if isinstance(self._event, Sub):
            return self._event.m
        return n if self.rows is None else self.rows.stop - self.rows.start

    def laplace(self, query: Query) -> np.ndarray:
        """Release the query with the batch's next declared event, which must be Laplace; (R', ...)."""
        return self._released(query, self._next(query, Laplace, "l1").eps, "laplace")

    def gaussian(self, query: Query) -> np.ndarray:
        """Release the query with the batch's next declared event, which must be Gaussian; (R', ...)."""
        return self._released(query, self._next(query, Gaussian, "l2").mu, "standard_normal")

    def _next(self, query: Query, kind: type[E], norm: Norm) -> E:
        """The next declared event, after checking that the query fits it and this batch."""
        with self._lock:
            return self._taken(query, kind, norm)

    def _taken(self, query: Query, kind: type[E], norm: Norm) -> E:
        release = self._declared[0] if self._declared else None
        if not isinstance(release, kind):
            raise LedgerError(f"this batch does not allow {kind.__name__} now; declared: {self._declared}")
        if query.norm != norm:
            raise LedgerError(f"{kind.__name__} noise needs a sensitivity in {norm}, the query has {query.norm}")
        whole = self.indices is None and self.rows is None
        if query.batch is not self and not (query.batch is None and whole):
            raise LedgerError("a query must be released by the batch that it was computed on")
        _require_relation(query, self._mechanisms._ledger)
        if len(query.value) != len(self._rows):
            raise LedgerError(f"the query has {len(query.value)} replicates, the batch {len(self._rows)}")
        _require_finite(query.value)
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
        self._lock = Lock()  # a leaf is one query's, whichever thread brings it

    def add(self, query: Query) -> np.ndarray:
        """The noisy sum of this query and all before; (R', ...). Raises LedgerError if it is not as declared."""
        with self._lock:
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
        _require_relation(query, self._mechanisms._ledger)
        if query.value.shape != self._total.shape:
            raise LedgerError(f"the query has shape {query.value.shape}, the running sums {self._total.shape}")
        declared = self._leaves[:, self._added]
        if not (np.asarray(query.sensitivity) <= declared * (1 + 1e-12)).all():  # rounding, if it was computed twice
            raise LedgerError(f"query {self._added + 1} has sensitivity {query.sensitivity}, declared was {declared}")
        _require_finite(self._total + query.value)
