"""Mechanisms: the only place where privacy noise is drawn. Charge, then draw, in one act."""

import hashlib
import secrets
from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from typing import overload

import numpy as np

from dpviz.privacy import batches, events
from dpviz.privacy.accounting.currencies import Currency
from dpviz.privacy.batches import Batch, Replicates, require_finite, require_relation, require_room, require_sensitivity
from dpviz.privacy.ledger import Ledger, LedgerError, times_of
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.matrix_products import MatrixProducts, MatrixQuery
from dpviz.privacy.releases import Query, Release, Selected, Standard, log_weights
from dpviz.privacy.running_sums import Leaves, PrefixSums

_AT_ONCE = 1 << 18  # utilities that are compared in one step


class Purpose(IntEnum):
    """Purposes of random numbers; each has its own stream in every replicate, `SHARED` one for all of them."""

    NOISE = 0
    BATCHES = 1
    PUBLIC = 2
    FACTS = 3  # noise of a release before the run, to learn one of its facts: never the run's own numbers again
    SHARED = 4
    COMMON = 5  # public choices that a whole run depends on, the same for all releases that are compared


def drawn_seed(seed: int | None) -> int:
    """Return the seed itself; None draws one from the operating system, so that no one can repeat the noise."""
    return secrets.randbits(128) if seed is None else seed


class _Streams(Sequence[np.random.Generator]):
    """The generators of `streams`."""

    def __init__(self, seed: int, purpose: Purpose, replicates: int, release: str = "") -> None:
        self._replicates = range(replicates)
        digest = np.frombuffer(hashlib.sha256(release.encode()).digest(), dtype="<u4").tolist() if release else ()
        # The entropy that SeedSequence(seed, spawn_key=(purpose, replicate, *digest)) assembles, in half the time.
        seeds = [seed >> bits & 0xFFFFFFFF for bits in range(0, max(128, seed.bit_length()), 32)]
        self._entropy, self._replicate = np.array([*seeds, purpose, 0, *digest], dtype=np.uint32), len(seeds) + 1
        self._generators: dict[int, np.random.Generator] = {}

    def __len__(self) -> int:
        return len(self._replicates)

    @overload
    def __getitem__(self, index: int) -> np.random.Generator: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.random.Generator]: ...
    def __getitem__(self, index: int | slice) -> np.random.Generator | list[np.random.Generator]:
        if isinstance(index, slice):
            return [self[r] for r in self._replicates[index]]
        generator = self._generators.get(index)
        if generator is None:
            entropy, replicate = self._entropy.copy(), self._replicates[index]
            entropy[self._replicate] = replicate
            # Two threads get the same generator, the first that was made: never the same numbers twice.
            generator = self._generators.setdefault(replicate, np.random.Generator(np.random.PCG64(entropy)))
        return generator


def streams(seed: int, purpose: Purpose, replicates: int, release: str = "") -> Sequence[np.random.Generator]:
    """Return one PCG64 generator per replicate, made when it is first used; replicate r draws the same numbers
    independently of the other replicates.

    release : a text that describes the release, such as method, budget and problem. Equal texts repeat the numbers,
        different ones share nothing: two releases with one noise would together give the exact value.
    """
    return _Streams(seed, purpose, replicates, release)


def noise_scale(event: events.Event, sensitivity: float) -> float:
    """Return the scale of the noise that `event` adds to a query: Laplace scale b = Δ₁/ε (not the standard deviation √2
    b), Gaussian standard deviation σ = Δ₂/μ. For a batch, `sensitivity` is that of the query on the batch."""
    (release,) = events.inner_events(event)
    if isinstance(release, events.Laplace | events.Gaussian):
        return sensitivity / release.parameter
    raise TypeError(f"{release} has no noise scale")


class Mechanisms:
    """Draws all randomness of one arm's run for R replicates, charging the ledger before each draw.

    A mechanism takes the event and the query and derives the scale from both, so the noise that is drawn, the noise
    that is booked and the noise that is shown cannot differ. Values that are not finite are refused with a LedgerError
    before anything is drawn and, except on a batch and in running sums that were paid for when they opened, before
    anything is charged.

    seed, release : of the random numbers, see `streams`. Two different releases on the same data with one seed must
        have different texts `release`.
    public : one generator per replicate for choices that do not depend on the data: directions, the number of rounds.
    shared : one generator for all replicates, such as for batch sizes, which are the same on the whole axis. Draw from
        it at moments that no replicate decides on, or a replicate would depend on the others.
    common : one generator per replicate that follows from the text `compared` in place of `release`: all releases with
        that text draw the same numbers. Only for public choices that depend on no data and on which a whole run
        depends, such as its starting point: differences between the runs are then not chance. Never for noise, nor for
        batches that must stay secret.
    """

    def __init__(
        self, ledger: Ledger, seed: int, noise: Purpose = Purpose.NOISE, release: str = "", compared: str = ""
    ) -> None:
        self._ledger = ledger
        self._noise = self._streams(seed, noise, release)
        self._batches = self._streams(seed, Purpose.BATCHES, release)
        self.public = self._streams(seed, Purpose.PUBLIC, release)
        self.common = self._streams(seed, Purpose.COMMON, compared)
        self._everyone = np.arange(ledger.replicates)
        self._everyone.setflags(write=False)
        self.shared = streams(seed, Purpose.SHARED, 1, release)[0]

    @property
    def replicates(self) -> int:
        """R, the hypothetical runs that are drawn at once."""
        return self._ledger.replicates

    def batch(self, event: events.Event, rows: Replicates | None = None, table: int | None = None) -> Batch:
        """Open a batch: charges all of `event` now, and draws the indices if it is a `Sub`.

        table : for Poisson batches, the number of rows that there are, which the event must not know.
        """
        if events.draws_batch(event) and not isinstance(event, events.Sub):
            raise LedgerError(f"{event} draws a batch inside; open one batch at a time")
        if events.has_blocks(event):
            raise LedgerError(f"{event} pays for each block once; open its blocks, not one batch for all")
        if (isinstance(event, events.Sub) and event.kind == "poisson") != (table is not None):
            raise LedgerError(f"Poisson batches, and no others, need the number of rows in the table: {event}, {table}")
        self._ledger.charge(event, times_of(rows, self.replicates))
        numbers = self._numbers(rows)
        if not isinstance(event, events.Sub):
            return Batch(event, numbers, self, self._ledger.relation)
        generators = [self._batches[r] for r in numbers]
        opened = partial(Batch, event, numbers, self, self._ledger.relation, size=event.m)
        if table is not None:
            indices, is_taken = batches.poisson(generators, event.m / event.n, table)
            return opened(indices=indices, taken=is_taken)
        if event.m * batches.MARKED >= event.n:
            return opened(marked=batches.marked(generators, event.m, event.n))
        return opened(indices=batches.without_replacement(generators, event.m, event.n))

    def blocks(self, event: events.Parallel, n: int, rows: Replicates | None = None) -> list[Batch]:
        """Open disjoint blocks of floor(n/k) consecutive rows, one for each of the k parts of `event`; charges it now.

        Each block is released like a batch; a row is in one block at most, so the blocks compose in parallel.
        """
        self._require_blocks(event)
        size = n // len(event.events)
        if size < 1:
            raise LedgerError(f"{n} rows do not make {len(event.events)} blocks")
        self._ledger.charge(event, times_of(rows, self.replicates))
        slices = (slice(i * size, (i + 1) * size) for i in range(len(event.events)))
        return [
            Batch(part, self._numbers(rows), self, self._ledger.relation, rows=block, size=size)
            for part, block in zip(event.events, slices, strict=True)
        ]

    def leaves(self, sizes: Sequence[int], n: int, rows: Replicates | None = None) -> Leaves:
        """Deal disjoint batches of these sizes, of n rows in an order that each replicate draws from its public stream.

        Free, as nothing can be released on them before `prefix_sums` or `parallel` has paid for it. Raises LedgerError
        unless there are enough rows, and rows keep their places when one of them is replaced.
        """
        possible = all(isinstance(size, int | np.integer) and size >= 1 for size in sizes)
        if not len(sizes) or not possible or sum(sizes) > n:
            raise LedgerError(f"leaves need whole sizes, at least 1 and together at most {n}, not {sizes}")
        self._require_fixed_places()
        times_of(rows, self.replicates)  # different replicates
        numbers = self._numbers(rows)
        indices = batches.permuted([self.public[r] for r in numbers], int(sum(sizes)), n)
        return Leaves(indices, [int(size) for size in sizes], numbers, self, self._ledger.relation)

    def parallel(self, event: events.Parallel, leaves: Leaves) -> None:
        """Pay for releases on each leaf by itself, part i of `event` on leaf i; charges it now, for its replicates."""
        self._require_blocks(event)
        leaves.check(self, len(event.events))
        self._ledger.charge(event, times_of(leaves.replicates, self.replicates))
        leaves._open(event.events)

    def prefix_sums(
        self,
        event: events.Event,
        factorisation: Factorisation,
        leaves: Leaves,
        sensitivities: float | np.ndarray,
        shape: tuple[int, ...] = (),
    ) -> PrefixSums:
        """Open running sums of queries of `shape`, one on each leaf; charges all of `event` now, for its replicates.

        sensitivities : L2 sensitivity of each query; a scalar, (T,) or (R', T). Declared now, because the noise of the
            first sum must already cover the last query.
        """
        if not isinstance(event, events.Gaussian):
            raise LedgerError(f"running sums need a Gaussian event on the whole table, not {event}")
        leaves.check(self, factorisation.length)
        relation = self._ledger.relation
        sums = PrefixSums(event, factorisation, leaves, sensitivities, shape, source=self, relation=relation)
        self._ledger.charge(event, times_of(leaves.replicates, self.replicates))
        leaves._open([None] * len(leaves))
        return sums

    def laplace(self, query: Query, event: events.Event, rows: Replicates | None = None) -> np.ndarray:
        """Release the query's value plus i.i.d. Laplace noise of scale Δ₁/ε; (R', ...)."""
        require_finite(query.value)
        return self.batch(event, rows).laplace(query)

    def gaussian(self, query: Query, event: events.Event, rows: Replicates | None = None) -> np.ndarray:
        """Release the query's value plus i.i.d. Gaussian noise of standard deviation Δ₂/μ; (R', ...)."""
        require_finite(query.value)
        return self.batch(event, rows).gaussian(query)

    def matrix_products(
        self, query: MatrixQuery, event: events.Event, rows: Replicates | None = None
    ) -> MatrixProducts:
        """Open the products with symmetric matrices plus GOE noise of scale Δ/μ; charges all of `event` now, and pays
        for any number of products. The same release as that of all entries, without drawing those that no product
        needs."""
        if not isinstance(event, events.Gaussian):
            raise LedgerError(f"products with a noisy matrix need a Gaussian event on the whole table, not {event}")
        opened = MatrixProducts(query, event, self._numbers(rows), self, self._ledger.relation)
        self._ledger.charge(event, times_of(rows, self.replicates))
        return opened

    def exponential(
        self, query: Query, event: events.Event, draws: int | np.ndarray = 1, rows: Replicates | None = None
    ) -> np.ndarray:
        """Select by the exponential mechanism: index j with probability ∝ exp(η u_j / Δ), Δ the range of the change.

        query : utilities (R', k), or (R', selections, k) if each has its own, norm "range".
        event : ExpMech(η), or a Repeat of it for several selections at once.
        draws : under a filter, how many selections each replicate buys; a number or (R',).
        Returns (R', most selections) indices; a replicate that bought fewer has -1 in the rest.
        One selection is the argmax of u η/Δ plus Gumbel noise; several share one inverse distribution function.
        """
        selections = events.inner_events(event)
        selection = selections[0]
        composite = events.draws_batch(event) or events.has_blocks(event)
        if not isinstance(selection, events.ExpMech) or composite or len(set(selections)) > 1:
            raise LedgerError(f"a selection needs an exponential-mechanism event on the whole table, not {event}")
        if query.norm != "range":
            raise LedgerError(f"a selection needs the range of the utilities' change, the query has {query.norm}")
        if query.batch is not None:
            raise LedgerError("selections on batches are not supported")
        require_relation(query, self._ledger.relation)
        numbers = self._numbers(rows)
        sensitivity = np.broadcast_to(require_sensitivity(query, len(numbers)), len(numbers))
        shape = query.value.shape
        fits = len(shape) == 2 or (len(shape) == 3 and shape[1] == len(selections) and np.all(np.equal(draws, 1)))
        if not fits or shape[0] != len(numbers) or not shape[-1] or not np.isfinite(query.value).all():
            raise LedgerError(f"utilities must be finite, one row for each of {len(numbers)} replicates")
        if selection.eta < np.inf:
            require_room(query.value.max(axis=-1), sensitivity / selection.eta)  # far below it nothing is chosen
        self._ledger.charge(event, times_of(rows, self.replicates, draws))
        with np.errstate(divide="ignore"):
            slope = selection.eta / sensitivity
        times = np.broadcast_to(draws, len(numbers))
        indices = self._selected(self._noise, query.value, slope, times, each=len(selections), rows=numbers)
        law = np.asarray(numbers), query.batch, slope
        return self._passed(Selected(query.value, indices, *law, event=selection, change=query.sensitivity))

    def sample(
        self, log_weights: np.ndarray, draws: int | np.ndarray = 1, rows: Replicates | None = None
    ) -> np.ndarray:
        """Draw indices with probabilities ∝ exp(log_weights), (R', k), public or released before: costs nothing.

        Returns (R', most draws), filled with -1 where a replicate draws fewer. A weight of -∞ is an index that cannot
        be drawn; raises LedgerError if that is all of them, or one is not a number or +∞.
        """
        if np.isnan(log_weights).any() or not np.isfinite(log_weights.max(axis=-1, initial=-np.inf)).all():
            raise LedgerError("indices are drawn from weights of which one at least is positive, and none infinite")
        numbers = self._numbers(rows)
        times = np.broadcast_to(draws, len(numbers))
        return self._selected(self.public, log_weights, np.ones(len(numbers)), times, each=1, rows=numbers)

    @staticmethod
    def _selected(
        generators: Sequence[np.random.Generator],
        utilities: np.ndarray,
        slope: np.ndarray,
        times: np.ndarray,
        *,
        each: int,
        rows: Replicates,
    ) -> np.ndarray:
        """Return (R', most draws) indices, times × each per replicate, with P(j) ∝ exp(slope · utility_j).

        Utilities of zero slope do not matter; of infinite slope, only the best can be chosen.
        """
        counts = times * each
        indices = np.full((len(rows), max(1, int(counts.max(initial=0)))), -1, dtype=np.int64)
        step = max(1, _AT_ONCE // max(1, utilities[:1].size))
        for part in (slice(start, start + step) for start in range(0, len(rows), step)):
            logits = log_weights(utilities[part], slope[part].reshape(-1, *[1] * (utilities.ndim - 1)))
            if utilities.ndim == 3 or (counts[part] == 1).all():
                gumbel = np.array([generators[r].gumbel(size=logits.shape[1:]) for r in rows[part]])
                indices[part] = np.argmax(logits + gumbel, axis=-1).reshape(len(logits), -1)
                continue
            for i, r in enumerate(rows[part], part.start):
                if counts[i] == 1:
                    indices[i, 0] = np.argmax(logits[i - part.start] + generators[r].gumbel(size=logits.shape[1:]))
                elif counts[i] > 1:
                    sums = np.cumsum(np.exp(logits[i - part.start]))
                    points = generators[r].random(size=counts[i]) * sums[-1]
                    last = np.searchsorted(sums, sums[-1])  # rounding may reach the end, but never an impossible index
                    indices[i, : counts[i]] = np.minimum(np.searchsorted(sums, points, side="right"), last)
        return indices

    def above_threshold(self, query: Query, event: events.Event, rows: Replicates | None = None) -> np.ndarray:
        """Release the first index whose noisy value reaches 0, by the sparse vector technique with one positive answer;
        (R',), -1 if none does. Only the index is released, for any number of values.

        query : values minus thresholds (R', k), norm "linf". event : StatedPureDP(ε). The noisy threshold gets ε₁,
        the values ε₂, ε₁ : ε₂ = 1 : 2^{2/3}, with Laplace noise of scale Δ/ε₁ and 2Δ/ε₂ (Lyu, Su, Li 2017, Algorithm 7,
        c = 1). On a batch, whose event has a StatedPureDP inside, it is `Batch.above_threshold`.
        """
        if not isinstance(event, events.StatedPureDP):
            raise LedgerError(f"the sparse vector technique needs a StatedPureDP event, not {event}")
        opened = Batch(event, self._numbers(rows), self, self._ledger.relation)
        opened.check(query, events.StatedPureDP, "linf")
        self._ledger.charge(event, times_of(rows, self.replicates))
        return opened.above_threshold(query)

    def affordable(self, event: events.Event, times: int | np.ndarray = 1) -> np.ndarray:
        """Return (R,) bool: True for the replicates that may still be charged `event`, `times` times."""
        return self._ledger.affordable(event, times)

    def spent(self, currency: Currency) -> np.ndarray:
        """Return (R,) the amount that each replicate has been charged so far: ε, ρ, or μ."""
        return self._ledger.spent(currency)

    def _require_blocks(self, event: events.Parallel) -> None:
        if not isinstance(event, events.Parallel) or any(events.has_blocks(part) for part in event.events):
            raise LedgerError(f"blocks need a Parallel event without blocks inside a block, not {event}")
        self._require_fixed_places()

    def _require_fixed_places(self) -> None:
        if self._ledger.relation != "replace-one":
            raise LedgerError("a row that is added or removed moves all later ones into other blocks")

    def _numbers(self, rows: Replicates | None) -> Replicates:
        """Return the numbers of the replicates that a call addresses; None = all."""
        return self._everyone if rows is None else rows

    def _streams(self, seed: int, purpose: Purpose, release: str) -> Sequence[np.random.Generator]:
        """Return a generator for each replicate."""
        return streams(seed, purpose, self.replicates, release)

    def _passed(self, release: Release) -> np.ndarray:
        """Return the output that leaves. Audits override this to see every release."""
        return release.output

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        """Return (R', *shape) standard draws, each replicate's from its own stream."""
        noise = np.empty((len(rows), *shape))
        for i, r in enumerate(rows):
            noise[i] = getattr(self._noise[r], distribution)(size=shape)
        return noise
