"""Mechanisms: the only place where privacy noise is drawn. Every draw is charged to the ledger in the same call.

R is the number of replicates, the simulated runs that are computed at once, and R' the number of those that a call
addresses: all R, or the ones that its argument `replicates` lists.
"""

import hashlib
import operator
import secrets
from collections.abc import Sequence
from enum import IntEnum
from functools import partial
from typing import overload

import numpy as np

from dpviz.privacy import batches, events
from dpviz.privacy.accounting.currencies import Currency
from dpviz.privacy.batches import (
    Batch,
    Replicates,
    require_finite,
    require_precision,
    require_relation,
    require_sensitivity,
)
from dpviz.privacy.ledger import Ledger, LedgerError, charge_counts
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.matrix_products import MatrixProducts, MatrixQuery
from dpviz.privacy.releases import Query, Release, SelectionRelease, Standard, log_weights
from dpviz.privacy.running_sums import Leaves, PrefixSums

_BLOCK = 1 << 18  # utilities for which a selection is drawn in one vectorised step, to bound the memory


class Purpose(IntEnum):
    """Purposes of random numbers: each has a stream of its own in every replicate; `SHARED` has one for all of them."""

    NOISE = 0
    BATCHES = 1
    PUBLIC = 2
    FACTS = 3  # noise of a release before the run, to learn a fact about the data; never repeats the run's NOISE
    SHARED = 4
    COMMON = 5  # public choices that a whole run depends on, the same for all releases that are compared


def seed_or_random(seed: int | None) -> int:
    """Return `seed`, or draw a new one from the operating system if it is None, so that no one can repeat the noise."""
    return secrets.randbits(128) if seed is None else operator.index(seed)  # a NumPy number has no bit_length


class _Streams(Sequence[np.random.Generator]):
    """Sequence of one generator per replicate, each made when it is first used; see `streams`."""

    def __init__(self, seed: int, purpose: Purpose, replicates: int, release: str = "") -> None:
        self._replicates = range(replicates)
        digest = np.frombuffer(hashlib.sha256(release.encode()).digest(), dtype="<u4").tolist() if release else ()
        # The 32-bit words that SeedSequence(seed, spawn_key=(purpose, replicate, *digest)) assembles for PCG64, with
        # those of the seed filled up to 128 bits. To lay them out here takes half the time.
        seed_words = [seed >> bits & 0xFFFFFFFF for bits in range(0, max(128, seed.bit_length()), 32)]
        self._entropy = np.array([*seed_words, purpose, 0, *digest], dtype=np.uint32)
        self._replicate_index = len(seed_words) + 1  # of the 0, which `__getitem__` replaces by the replicate's number
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
            replicate = self._replicates[index]  # resolves a negative index, and raises IndexError beyond the end
            entropy = self._entropy.copy()
            entropy[self._replicate_index] = replicate
            # If two threads make one at the same time, setdefault gives both the first: two would repeat the numbers.
            generator = self._generators.setdefault(replicate, np.random.Generator(np.random.PCG64(entropy)))
        return generator


def streams(seed: int, purpose: Purpose, replicates: int, release: str = "") -> Sequence[np.random.Generator]:
    """Return one PCG64 generator per replicate; it is made when it is first used.

    The numbers of replicate r follow from the seed, the purpose, r and `release` alone, not from `replicates`.

    release : a text that describes the release, such as method, budget and problem. Equal texts repeat the numbers,
        and different ones have independent numbers: if two releases had the same noise, their difference would be free
        of it.
    """
    return _Streams(seed, purpose, replicates, release)


def noise_scale(event: events.Event, sensitivity: float) -> float:
    """Return the scale of the noise with which `event` releases a query of this sensitivity.

    It is b = Δ₁/ε for Laplace noise (whose standard deviation is √2 b), and the standard deviation σ = Δ₂/μ for
    Gaussian noise. The event must contain a single release. If that is on a batch, `sensitivity` is the one of the
    query on the batch. Raises TypeError for other kinds of releases.
    """
    (release,) = events.inner_events(event)
    if isinstance(release, events.Laplace | events.Gaussian):
        return sensitivity / release.parameter
    raise TypeError(f"{release} has no noise scale")


class Mechanisms:
    """Source of all randomness in R replicates of one method's run; it charges the ledger before each private draw.

    A mechanism takes the event and the query and derives the scale from both, so the noise that is drawn, the noise
    that is booked and the noise that is displayed cannot differ. Values that are not finite are refused with a
    LedgerError before anything is drawn. They are refused before anything is charged, too, except on a batch and in
    running sums, which are paid for when they are opened.

    seed, release : determine the random numbers, see `streams`. Two different releases on the same data with one seed
        must have different texts `release`.
    noise : the purpose whose streams the noise is drawn from.
    public : one generator per replicate for choices that do not depend on the data: directions, the number of rounds.
    shared : one generator for all replicates, for numbers that they have in common, such as batch sizes. Draw from it
        only at moments that do not depend on any replicate's results, or a replicate would depend on the others.
    common : one generator per replicate, whose numbers follow from the text `compared` in place of `release`, so all
        releases with that text draw the same ones. It is meant for public choices on which a whole run depends, such as
        its starting point: runs that are compared then do not differ by the chance of these. Never use it for noise,
        nor for batches that must stay secret.
    """

    def __init__(
        self, ledger: Ledger, seed: int, noise: Purpose = Purpose.NOISE, release: str = "", compared: str = ""
    ) -> None:
        self._ledger = ledger
        self._noise = self._streams(seed, noise, release)
        self._batches = self._streams(seed, Purpose.BATCHES, release)
        self.public = self._streams(seed, Purpose.PUBLIC, release)
        self.common = self._streams(seed, Purpose.COMMON, compared)
        self._all_replicates = np.arange(ledger.replicates)
        self._all_replicates.setflags(write=False)
        (self.shared,) = streams(seed, Purpose.SHARED, 1, release)

    @property
    def replicates(self) -> int:
        """R, the number of simulated runs that are computed at once."""
        return self._ledger.replicates

    def batch(self, event: events.Event, replicates: Replicates | None = None, table_rows: int | None = None) -> Batch:
        """Open a batch, on which the releases inside `event` can then be made, each once and in order.

        All of `event` is charged now. If it is a `Sub`, a batch of rows is drawn for each replicate; otherwise the
        batch is the whole table.

        replicates : numbers of those that take part; None for all.
        table_rows : for Poisson batches only, the number of rows in the data, which the event must not know, because
            under add/remove-one it is private.
        """
        if events.draws_batch(event) and not isinstance(event, events.Sub):
            raise LedgerError(f"{event} draws a batch inside; open one batch at a time")
        if events.has_blocks(event):
            raise LedgerError(f"{event} pays for each block once; open its blocks, not one batch for all")
        if (isinstance(event, events.Sub) and event.kind == "poisson") != (table_rows is not None):
            raise LedgerError(
                f"Poisson batches, and no others, need the number of rows in the table: {event}, {table_rows}"
            )
        self._ledger.charge(event, charge_counts(replicates, self.replicates))
        numbers = self._numbers(replicates)
        if not isinstance(event, events.Sub):
            return Batch(event, numbers, self, self._ledger.relation)
        generators = [self._batches[r] for r in numbers]
        batch_of = partial(Batch, event, numbers, self, self._ledger.relation, size=event.m)
        if table_rows is not None:  # a Poisson batch: m/n is the chance of each row, and n not the number of rows
            indices, is_taken = batches.poisson(generators, event.m / event.n, table_rows)
            return batch_of(indices=indices, taken=is_taken)
        if event.m >= event.n / batches.MARKED:  # large enough that marks on all rows are less work than indices
            return batch_of(marked=batches.draw_marks(generators, event.m, event.n))
        return batch_of(indices=batches.without_replacement(generators, event.m, event.n))

    def blocks(self, event: events.Parallel, n: int, replicates: Replicates | None = None) -> list[Batch]:
        """Open disjoint blocks of floor(n/k) consecutive rows, one for each of the k events inside `event`.

        All of `event` is charged now. Block i then allows the releases of event i, like a batch. A row is in one block
        at most, so the blocks compose in parallel.

        n : rows of the table; the remainder of n/k is in no block. replicates : their numbers; None for all.
        """
        self._require_blocks(event)
        size = n // len(event.events)
        if size < 1:
            raise LedgerError(f"{n} rows do not make {len(event.events)} blocks")
        self._ledger.charge(event, charge_counts(replicates, self.replicates))
        numbers, relation = self._numbers(replicates), self._ledger.relation
        return [
            Batch(part, numbers, self, relation, rows=slice(i * size, (i + 1) * size), size=size)
            for i, part in enumerate(event.events)
        ]

    def leaves(self, sizes: Sequence[int], n: int, replicates: Replicates | None = None) -> Leaves:
        """Divide rows into leaves: disjoint batches of these sizes, each of which can be used once.

        The n rows are put in a random order, which each replicate draws from its public stream, and the leaves are cut
        off it one by one. Nothing is charged, because nothing can be released on the leaves before `prefix_sums` or
        `parallel` has paid for it.

        Raises LedgerError if there are too few rows, and under add/remove-one, where a row that is added or removed
        would move the others to different leaves.
        """
        are_whole = all(isinstance(size, int | np.integer) and size >= 1 for size in sizes)
        if not len(sizes) or not are_whole or sum(sizes) > n:
            raise LedgerError(f"leaves need whole sizes, at least 1 and together at most {n}, not {sizes}")
        self._require_fixed_places()
        charge_counts(replicates, self.replicates)  # raises LedgerError if a replicate is named twice
        numbers = self._numbers(replicates)
        indices = batches.permuted([self.public[r] for r in numbers], int(sum(sizes)), n)
        return Leaves(indices, [int(size) for size in sizes], numbers, self, self._ledger.relation)

    def parallel(self, event: events.Parallel, leaves: Leaves) -> None:
        """Pay for releases on the leaves: leaf i then allows those of the event i inside `event`.

        All of `event` is charged now, to the replicates of the leaves.
        """
        self._require_blocks(event)
        leaves.check(self, len(event.events))
        self._ledger.charge(event, charge_counts(leaves.replicates, self.replicates))
        leaves._open(event.events)

    def prefix_sums(
        self,
        event: events.Event,
        factorisation: Factorisation,
        leaves: Leaves,
        sensitivities: float | np.ndarray,
        shape: tuple[int, ...] = (),
    ) -> PrefixSums:
        """Open running sums: query t is computed on leaf t, and the sum of the first t queries is released with noise.

        All of `event` is charged now, to the replicates of the leaves.

        factorisation : of the running sums of T queries, which says how the noise of different sums is correlated; T is
            the number of leaves.
        sensitivities : L2 sensitivity of each query; a scalar, (T,) or (R', T). They are declared now, because the
            noise of the first sum must already cover the last query.
        shape : of a query's value for one replicate.
        """
        if not isinstance(event, events.Gaussian):
            raise LedgerError(f"running sums need a Gaussian event on the whole table, not {event}")
        leaves.check(self, factorisation.length)
        relation = self._ledger.relation
        sums = PrefixSums(event, factorisation, leaves, sensitivities, shape, source=self, relation=relation)
        self._ledger.charge(event, charge_counts(leaves.replicates, self.replicates))
        leaves._open([None] * len(leaves))  # on the leaves themselves nothing may be released
        return sums

    def laplace(self, query: Query, event: events.Event, replicates: Replicates | None = None) -> np.ndarray:
        """Release the query's value plus independent Laplace noise of scale Δ₁/ε in each entry; (R', ...)."""
        require_finite(query.value)
        return self.batch(event, replicates).laplace(query)

    def gaussian(self, query: Query, event: events.Event, replicates: Replicates | None = None) -> np.ndarray:
        """Release the query's value plus independent Gaussian noise of standard deviation Δ₂/μ per entry; (R', ...)."""
        require_finite(query.value)
        return self.batch(event, replicates).gaussian(query)

    def matrix_products(
        self, query: MatrixQuery, event: events.Event, replicates: Replicates | None = None
    ) -> MatrixProducts:
        """Open products of vectors with a noisy symmetric matrix, one matrix per replicate.

        The noise is a matrix of the Gaussian orthogonal ensemble: symmetric, independent on and above the diagonal,
        with standard deviation Δ/μ on the diagonal and Δ/(√2 μ) off it. All of `event` is charged now and pays for any
        number of products: together they have the law of a release of all entries, but noise is drawn only for the
        products that are asked for.
        """
        if not isinstance(event, events.Gaussian):
            raise LedgerError(f"products with a noisy matrix need a Gaussian event on the whole table, not {event}")
        opened = MatrixProducts(query, event, self._numbers(replicates), self, self._ledger.relation)
        self._ledger.charge(event, charge_counts(replicates, self.replicates))
        return opened

    def exponential(
        self, query: Query, event: events.Event, draws: int | np.ndarray = 1, replicates: Replicates | None = None
    ) -> np.ndarray:
        """Select indices by the exponential mechanism: index j of utility u_j has probability ∝ exp(η u_j / Δ).

        query : utilities (R', k), or (R', selections, k) if each selection has its own. The norm is "range": Δ, the
            sensitivity, is the largest change of any u_j minus the smallest.
        event : ExpMech(η), or a Repeat of it for several selections in one call.
        draws : under a filter, the number of times that each replicate pays for `event`; one number, or (R',).

        Returns (R', largest number of selections) indices; a replicate with fewer selections has -1 in the rest.
        One selection is the argmax of u η/Δ plus Gumbel noise; several are drawn by inversion of one distribution
        function.
        """
        selections = events.inner_events(event)
        selection = selections[0]
        is_on_parts = events.draws_batch(event) or events.has_blocks(event)
        if not isinstance(selection, events.ExpMech) or is_on_parts or len(set(selections)) > 1:
            raise LedgerError(f"a selection needs an exponential-mechanism event on the whole table, not {event}")
        if query.norm != "range":
            raise LedgerError(f"a selection needs the range of the utilities' change, the query has {query.norm}")
        if query.batch is not None:
            raise LedgerError("selections on batches are not supported")
        require_relation(query, self._ledger.relation)
        numbers = self._numbers(replicates)
        sensitivity = np.broadcast_to(require_sensitivity(query, len(numbers)), len(numbers))
        shape = query.value.shape
        is_common = len(shape) == 2  # all selections of a replicate have the same utilities
        is_separate = len(shape) == 3 and shape[1] == len(selections) and np.all(np.equal(draws, 1))  # each has its own
        has_shape = (is_common or is_separate) and shape[0] == len(numbers) and shape[-1] > 0
        if not has_shape or not np.isfinite(query.value).all():
            raise LedgerError(f"utilities must be finite, one row for each of {len(numbers)} replicates")
        if selection.eta < np.inf:
            # Only utilities near the largest are ever selected, so only the digits of these matter.
            require_precision(query.value.max(axis=-1), sensitivity / selection.eta)
        self._ledger.charge(event, charge_counts(replicates, self.replicates, draws))
        with np.errstate(divide="ignore"):  # a sensitivity of 0 leaves only the best indices, see `log_weights`
            slope = selection.eta / sensitivity
        times = np.broadcast_to(draws, len(numbers))
        indices = self._selected(self._noise, query.value, slope, times, each=len(selections), replicates=numbers)
        release = SelectionRelease(
            query.value,
            indices,
            np.asarray(numbers),
            batch=None,
            slope=slope,
            event=selection,
            declared_sensitivity=query.sensitivity,
        )
        return self._passed(release)

    def sample(
        self, log_weights: np.ndarray, draws: int | np.ndarray = 1, replicates: Replicates | None = None
    ) -> np.ndarray:
        """Draw indices with probabilities ∝ exp(log_weights), (R', k). This is not a release and costs nothing.

        The weights must be public or released before. An index with log weight -∞ is never drawn. Returns (R', largest
        number of draws), filled with -1 where a replicate draws fewer. Raises LedgerError if all log weights of a
        replicate are -∞, or if one is +∞ or not a number.
        """
        if np.isnan(log_weights).any() or not np.isfinite(log_weights.max(axis=-1, initial=-np.inf)).all():
            raise LedgerError("indices are drawn from weights of which one at least is positive, and none infinite")
        numbers = self._numbers(replicates)
        times = np.broadcast_to(draws, len(numbers))
        return self._selected(self.public, log_weights, np.ones(len(numbers)), times, each=1, replicates=numbers)

    @staticmethod
    def _selected(
        generators: Sequence[np.random.Generator],
        utilities: np.ndarray,
        slope: np.ndarray,
        times: np.ndarray,
        *,
        each: int,
        replicates: Replicates,
    ) -> np.ndarray:
        """Return indices j drawn with probabilities ∝ exp(slope · utility_j), filled up with -1 for fewer draws.

        generators : one for each of all R replicates. replicates : (R',) numbers of those to draw for.
        utilities : (R', k), or (R', each, k) if every one of the `each` draws has its own.
        slope : (R',); where it is 0 all indices are equally likely, and where it is ∞ only the best can be drawn.
        times, each : replicate i draws times[i] × each indices, times (R',).
        """
        counts = times * each
        indices = np.full((len(replicates), max(1, int(counts.max(initial=0)))), -1, dtype=np.int64)
        block_size = max(1, _BLOCK // max(1, utilities[:1].size))  # as many replicates as have _BLOCK utilities
        for start in range(0, len(replicates), block_size):
            block = slice(start, start + block_size)
            logits = log_weights(utilities[block], slope[block].reshape(-1, *[1] * (utilities.ndim - 1)))
            if utilities.ndim == 3 or (counts[block] == 1).all():
                gumbel = np.array([generators[r].gumbel(size=logits.shape[1:]) for r in replicates[block]])
                indices[block] = np.argmax(logits + gumbel, axis=-1).reshape(len(logits), -1)
                continue
            for i, (r, own_logits) in enumerate(zip(replicates[block], logits, strict=True), start):
                if counts[i] == 1:
                    indices[i, 0] = np.argmax(own_logits + generators[r].gumbel(size=logits.shape[1:]))
                elif counts[i] > 1:
                    sums = np.cumsum(np.exp(own_logits))  # distribution function, times its last entry
                    points = generators[r].random(size=counts[i]) * sums[-1]
                    # Rounding may put a point at the end; the last index that can be drawn is the one that reaches it.
                    last = np.searchsorted(sums, sums[-1])
                    indices[i, : counts[i]] = np.minimum(np.searchsorted(sums, points, side="right"), last)
        return indices

    def above_threshold(self, query: Query, event: events.Event, replicates: Replicates | None = None) -> np.ndarray:
        """Release the first index whose noisy value reaches a noisy threshold of 0, (R',); -1 if none does.

        This is the sparse vector technique with one positive answer (Lyu, Su, Li 2017, Algorithm 7, c = 1). Only the
        index is released, so the cost does not depend on the number k of values. The threshold gets Laplace noise of
        scale Δ/ε₁ and each value Laplace noise of scale 2Δ/ε₂, where ε₁ + ε₂ = ε and ε₁ : ε₂ = 1 : 2^{2/3}.

        query : values minus thresholds (R', k) of sensitivity Δ, norm "linf".
        event : StatedPureDP(ε), on the whole table; for a batch use `Batch.above_threshold`.
        """
        if not isinstance(event, events.StatedPureDP):
            raise LedgerError(f"the sparse vector technique needs a StatedPureDP event, not {event}")
        opened = Batch(event, self._numbers(replicates), self, self._ledger.relation)
        opened.check(query, events.StatedPureDP, "linf")  # before anything is charged
        self._ledger.charge(event, charge_counts(replicates, self.replicates))
        return opened.above_threshold(query)

    def affordable(self, event: events.Event, times: int | np.ndarray = 1) -> np.ndarray:
        """Return (R,) bool: True for the replicates that the ledger would now let pay for `event`, `times` times."""
        return self._ledger.affordable(event, times)

    def spent(self, currency: Currency) -> np.ndarray:
        """Return (R,) the amount that each replicate has been charged so far: an ε, ρ, or μ, by the currency."""
        return self._ledger.spent(currency)

    def _require_blocks(self, event: events.Parallel) -> None:
        """Raise LedgerError unless the event is a `Parallel` that can be opened as blocks under the run's relation."""
        if not isinstance(event, events.Parallel) or any(events.has_blocks(part) for part in event.events):
            raise LedgerError(f"blocks need a Parallel event without blocks inside a block, not {event}")
        self._require_fixed_places()

    def _require_fixed_places(self) -> None:
        """Raise LedgerError under add/remove-one, where the index of a row depends on the rows before it."""
        if self._ledger.relation != "replace-one":
            raise LedgerError("a row that is added or removed moves all later ones into other blocks")

    def _numbers(self, replicates: Replicates | None) -> Replicates:
        """Return the numbers (R',) of the replicates that a call addresses; None for all of them."""
        return self._all_replicates if replicates is None else replicates

    def _streams(self, seed: int, purpose: Purpose, release: str) -> Sequence[np.random.Generator]:
        return streams(seed, purpose, self.replicates, release)

    def _passed(self, release: Release) -> np.ndarray:
        """Return the output of a release. Every release passes this method before it leaves; audits override it."""
        return release.output

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        """Return (R', *shape) independent draws of scale 1; each replicate's come from its own stream of noise."""
        noise = np.empty((len(replicates), *shape))
        for i, r in enumerate(replicates):
            draw = getattr(self._noise[r], distribution)  # `Standard` names methods of NumPy's generators
            noise[i] = draw(size=shape)
        return noise
