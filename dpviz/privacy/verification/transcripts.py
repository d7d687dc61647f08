"""Transcripts: all releases of a run, and their likelihood on another data set.

An algorithm acts on released values, on public random numbers and on facts. So a second run of it, on a neighbouring
data set and with the outputs of the first one handed out again, makes the queries that it would have made there along
the same path. From the values of these queries in both runs follow the densities of one transcript under both data
sets, for any adaptive algorithm: the best of all attackers compares these (Neyman and Pearson).

For audits on data that an auditor made up: transcripts contain the exact values of queries.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.batches import Batch, Replicates
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Seq, Sub, inner_events
from dpviz.privacy.ledger import Ledger, LedgerError, times_of
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Multiplied, Noised, Release, Selected, Standard, Summed
from dpviz.privacy.running_sums import Leaves, PrefixSums

# ---------------------------------------------------------------------------- releases in units of their declared noise
# The declared law follows from the event that was paid for and from the query's sensitivity, not from the law and the
# scale of the actual draws.


def declared_scale(release: Release) -> Floats | None:
    """Return (R',) the declared scale of the noise, 0 where no row moves the query; None where no noise is declared, as
    for choices and without privacy."""
    noisy = isinstance(release, Noised | Summed | Multiplied) and isinstance(release.event, Laplace | Gaussian)
    if not noisy or not 0 < release.paid < np.inf:
        return None
    change = np.asarray(release.change, dtype=float)
    if isinstance(release, Summed):
        change = (change * np.linalg.norm(release.factorisation.encoder(), axis=0)).max(axis=-1)
    return np.broadcast_to(change / release.paid, len(release.value))


def law_of(release: Release) -> Standard:
    """Return the law of the draws of a release, by its event."""
    return "laplace" if isinstance(release.event, Laplace) else "standard_normal"


def standard_draws(releases: Sequence[Release], replicates: int) -> list[np.ndarray | None]:
    """Return (R', k) standard draws of every release, nan if no row moves the query; None if no noise is declared.

    replicates : R, of the run.
    """
    past: dict[int, list[np.ndarray]] = {}
    draws: list[np.ndarray | None] = []
    for release in releases:
        scale = declared_scale(release)
        if scale is None:
            draws.append(None)
            continue
        noise = (release.output - release.value).reshape(len(scale), -1)
        units = noise / np.where(scale > 0, scale, 1.0)[:, None]
        if isinstance(release, Summed):
            units = whitened(release, units, past.setdefault(id(release.series), []), replicates)
        elif isinstance(release, Multiplied):
            units = _along_and_across(release, units)
        draws.append(np.where(scale[:, None] > 0, units, np.nan))
    return draws


def whitened(release: Summed, noise: np.ndarray, past: list[np.ndarray], replicates: int) -> np.ndarray:
    """Return (R', k) the last row of z = B⁻¹ (y - x)/σ, and add this running sum to `past`, the ones before.

    noise : (R', k) in units of σ. replicates : R, of the run.
    """
    noise_of_all = np.zeros((replicates, noise.shape[1]))
    noise_of_all[release.replicates] = noise
    past.append(noise_of_all)
    decoder = release.factorisation.decoder()[: len(past), : len(past)]
    draws = solve_triangular(decoder, np.stack(past).reshape(len(past), -1), lower=True)[-1]
    return np.asarray(draws.reshape(noise_of_all.shape)[release.replicates])


def _along_and_across(release: Multiplied, noise: np.ndarray) -> np.ndarray:
    """Return (R', d - earlier) noise along the direction, and √2 times that across it and all earlier ones, in some
    basis."""
    rows, earlier, d = release.basis.shape
    spanning = np.concatenate([release.basis, release.unit[:, None], np.broadcast_to(np.eye(d), (rows, d, d))], axis=1)
    basis = np.linalg.qr(spanning.transpose(0, 2, 1))[0][:, :, earlier + 1 :]
    along = (noise * release.unit).sum(axis=1, keepdims=True)
    return np.concatenate([along, np.sqrt(2) * np.einsum("rdk,rd->rk", basis, noise)], axis=1)


# ---------------------------------------------------------------------------------------------------------- transcripts

HANDED_OUT: Sequence[np.random.Generator] = []  # in place of the streams of noise: outputs are those of the first run


class Opened(NamedTuple):
    """A release on a random batch, by its number and that of the charge that paid for the batch, both from 1."""

    release_number: int
    charge_number: int
    event: Sub


class Transcript(Mechanisms):
    """Mechanisms that note every release and its likelihood; they draw as `Mechanisms` does.

    of : the transcript whose releases are handed out again, in order; with the same seed and release, so that public
        random numbers are the same. None: releases are drawn.
    row, taken : of releases handed out again: True if that row of the table is in every random batch, where all other
        rows are alike; False if in none.
    """

    def __init__(
        self,
        ledger: Ledger,
        seed: int,
        release: str = "",
        of: "Transcript | None" = None,
        *,
        row: int = 0,
        taken: bool = True,
    ) -> None:
        super().__init__(ledger, seed, release=release)
        self._of, self._row, self._taken = of, row, taken
        # Where the streams of two replicates begin, of every purpose but the public choices that releases share.
        streams = (self._noise, self._batches, self.public, [self.shared]) if of is None else ()
        self.seeds = [repr(generator.bit_generator.state) for stream in streams for generator in stream[:2]]
        if of is not None:
            self._noise = HANDED_OUT
        self._releases: list[Release] = []
        self._chance: float | None = None  # that the row is in the batch that was opened last
        self._past: dict[int, list[np.ndarray]] = {}
        self.fixed = np.zeros(self.replicates)  # log densities of releases on public sets of rows, added up
        self.sampled: list[tuple[float, Floats]] = []  # of each random batch: the row's chance, and log densities
        self.opened: list[Opened] = []
        self.leaves_paid: list[Leaves] = []

    def _drawn(self, distribution: Standard, rows: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        if self._of is not None:
            return np.zeros((len(rows), *shape))  # the output is that of the first run
        return super()._drawn(distribution, rows, shape)

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
        if generators is HANDED_OUT:
            return np.zeros((len(rows), max(1, each * int(times.max(initial=0)))), dtype=np.int64)
        return Mechanisms._selected(generators, utilities, slope, times, each=each, rows=rows)

    def batch(self, event: Event, rows: Replicates | None = None, table: int | None = None) -> Batch:
        if not isinstance(event, Sub):
            return super().batch(event, rows, table)
        if event.kind == "poisson":
            raise LedgerError("batches of random size are not replayed")
        self._chance = event.m / event.n
        self.sampled.append((self._chance, np.zeros(self.replicates)))
        if self._of is None:
            return super().batch(event, rows, table)
        return self._fixed_batch(event, rows, self._taken)

    def _fixed_batch(self, event: Sub, rows: Replicates | None, taken: bool) -> Batch:
        """Return a batch that is not drawn: with the row in it, or without."""
        self._ledger.charge(event, times_of(rows, self.replicates))
        others = np.delete(np.arange(event.n), self._row)
        table_rows = np.append(others[: event.m - 1], self._row) if taken else others[: event.m]
        numbers = self._numbers(rows)
        indices = np.tile(table_rows, (len(numbers), 1))
        return Batch(event, numbers, self, self._ledger.relation, indices=indices, size=event.m)

    def leaves(self, sizes: Sequence[int], n: int, rows: Replicates | None = None) -> Leaves:
        """Deal leaves as `Mechanisms.leaves`, in the public order that has the row in the first leaf: a guarantee holds
        for every order, so also for this one. The row changes places with the first row of the order that was drawn."""
        dealt = super().leaves(sizes, n, rows)
        indices = dealt._indices.copy()
        indices[indices == self._row] = np.broadcast_to(indices[:, :1], indices.shape)[indices == self._row]
        indices[:, 0] = self._row
        return Leaves(indices, dealt.sizes, dealt.replicates, self, self._ledger.relation)

    def parallel(self, event: Parallel, leaves: Leaves) -> None:
        super().parallel(event, leaves)
        self.leaves_paid.append(leaves)

    def prefix_sums(
        self,
        event: Event,
        factorisation: Factorisation,
        leaves: Leaves,
        sensitivities: float | np.ndarray,
        shape: tuple[int, ...] = (),
    ) -> PrefixSums:
        self.leaves_paid.append(leaves)
        return super().prefix_sums(event, factorisation, leaves, sensitivities, shape)

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases, in order."""
        return tuple(self._releases)

    @property
    def released(self) -> tuple[np.ndarray, ...]:
        """All outputs, in order: (R', ...) each."""
        return tuple(release.output for release in self._releases)

    def matched(self) -> bool:
        """Return whether each event that was charged to a replicate has its release, and each release its event.

        Of several releases on one batch, those behind the first may be left out; so may leaves that were not dealt. All
        products with one matrix are one release, and so are running sums, which have one for each leaf that was dealt.
        """
        lower, upper, actual = (
            defaultdict[object, Any](lambda: np.zeros(self.replicates, dtype=int)) for _ in range(3)
        )
        for event, times in self._ledger.charges():
            if any(isinstance(event, Parallel) and leaves._events == event.events for leaves in self.leaves_paid):
                continue
            several = isinstance(event.inner if isinstance(event, Sub) else event, Seq)
            for index, single in enumerate(inner_events(event)):
                upper[single] += times
                lower[single] += times * (index == 0 or not several)
        for leaves in self.leaves_paid:
            for paid, leaf in zip(leaves._events or (), leaves._used, strict=False):
                for count in (lower, upper):
                    count[paid or Summed][leaf.replicates] += 1
        for release in self._releases:
            choices = (release.output >= 0).sum(axis=1) if isinstance(release, Selected) else 1
            if isinstance(release, Summed):
                actual[Summed][release.replicates] += 1
            if not isinstance(release, Summed | Multiplied) or release.first:
                actual[release.event][release.replicates] += choices
        return all((lower[one] <= actual[one]).all() and (actual[one] <= upper[one]).all() for one in {*upper, *actual})

    def _passed(self, release: Release) -> np.ndarray:
        if self._of is None:
            release.output = super()._passed(release)
        else:
            release.output = self._of._output_of(len(self._releases), release).copy()
        self._releases.append(release)
        logs = self._whitened_density(release) if isinstance(release, Summed) else release.log_density()
        apart = isinstance(release.batch, Batch) and not release.batch.whole
        secret = apart and self._chance is not None
        total = self.sampled[-1][1] if secret else self.fixed
        booked = self._ledger.booked(int(release.replicates[0])) if apart and len(release.replicates) else ()
        if booked and isinstance(booked[-1], Sub):
            self.opened.append(Opened(len(self._releases), len(booked), booked[-1]))
        np.add.at(total, release.replicates, logs)
        return release.output

    def _output_of(self, index: int, requested: Release) -> np.ndarray:
        """Return the output at `index` of this transcript, for the release `requested` by the run on other data."""
        release = self._releases[index] if index < len(self._releases) else None
        same = type(release) is type(requested) and np.array_equal(release.replicates, requested.replicates)
        if release is None or not same or release.output.shape != requested.output.shape:
            raise Departure(f"release {index + 1} would have been another one on this data set")
        return release.output

    def _whitened_density(self, release: Summed) -> Floats:
        """Return the log density of a running sum given those before, by its standard normal draws z in the noise B
        z."""
        is_noisy = release.scale > 0
        scale = np.where(is_noisy, release.scale, 1.0)  # no noise, no distance
        noise = (release.output - release.value).reshape(len(scale), -1) / scale[:, None]
        draws = whitened(release, noise, self._past.setdefault(id(release.series), []), self.replicates)
        square = (draws**2).sum(axis=1)
        logs = -square / 2 - draws.shape[1] * np.log(scale)
        return np.where(is_noisy, logs, np.where(square > 0, -np.inf, 0.0))


class Departure(LedgerError):
    """A run on another data set asks for other releases, given the same outputs: it uses values not released."""


def log_likelihood(present: Transcript, absent: Transcript | None = None) -> Floats:
    """Return (R,) the log density, on one data set, of the transcript that `present` and `absent` hand out again.

    present, absent : with the row in every random batch, and in none; the latter only where batches are random. The
    batches are secret, so that a release on one has the density of a mixture.
    """
    total = present.fixed.copy()
    for index, (chance, logs) in enumerate(present.sampled):
        assert absent is not None
        total += np.logaddexp(np.log(chance) + logs, np.log1p(-chance) + absent.sampled[index][1])
    return total
