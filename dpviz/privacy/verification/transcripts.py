"""Transcripts: all releases of a run, and the likelihood of the same outputs on another data set.

An algorithm acts on released values, on public random numbers and on public facts. So if it runs a second time, on a
neighbouring data set, and gets the outputs of the first run again, it makes the queries that it would have made there
after the same outputs. The values of these queries in both runs give the densities of one transcript under both data
sets, for any adaptive algorithm. The best possible attacker compares these densities (Neyman and Pearson).

Transcripts contain the exact values of queries, so they are only for audits on data that an auditor made up.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dpviz.errors import UserError
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.batches import Batch, Replicates
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Seq, Sub, inner_events
from dpviz.privacy.ledger import Ledger, LedgerError, charge_counts
from dpviz.privacy.matrix_factorisation import Factorisation
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import NoisyRelease, ProductRelease, Release, SelectionRelease, Standard, SumRelease
from dpviz.privacy.running_sums import Leaves, PrefixSums

# ---------------------------------------------------------------------------- releases in units of their declared noise
# The declared noise follows from the event that was charged and from the query's sensitivity. What was really drawn may
# differ from it if the implementation has a fault.


def declared_scale(release: Release) -> Floats | None:
    """Return the declared scale of the noise of a release, (R',); 0 where no row can change the query.

    It is the standard deviation of Gaussian noise, for a running sum that of the independent draws. The result is None
    if no noise is declared: for selections, for the sparse vector technique, and without privacy.
    """
    has_noise = isinstance(release, NoisyRelease | SumRelease | ProductRelease) and isinstance(
        release.event, Laplace | Gaussian
    )
    if not has_noise or not 0 < release.charged_parameter < np.inf:
        return None
    change = np.asarray(release.declared_sensitivity, dtype=float)
    if isinstance(release, SumRelease):  # the sensitivity of C y is the largest s_i ‖C_i‖, see `matrix_factorisation`
        change = (change * np.linalg.norm(release.factorisation.encoder(), axis=0)).max(axis=-1)
    return np.broadcast_to(change / release.charged_parameter, len(release.value))


def law_of(release: Release) -> Standard:
    """Return the declared distribution of the draws of a release, which follows from its event."""
    return "laplace" if isinstance(release.event, Laplace) else "standard_normal"


def standard_draws(releases: Sequence[Release], replicates: int) -> list[np.ndarray | None]:
    """Return, for each release, the independent draws of scale 1 from which its noise must have been made, (R', k).

    They are computed from outputs and exact values with the declared scales. An entry is nan if no row can change the
    query, and the draws are None if no noise is declared.

    replicates : R, the number of replicates of the run.
    """
    earlier_of_series: dict[int, list[np.ndarray]] = {}  # by series of running sums; `independent_draws` appends
    draws: list[np.ndarray | None] = []
    for release in releases:
        scale = declared_scale(release)
        if scale is None:
            draws.append(None)
            continue
        noise = (release.output - release.value).reshape(len(scale), -1)
        units = noise / np.where(scale > 0, scale, 1.0)[:, None]
        if isinstance(release, SumRelease):
            units = independent_draws(release, units, earlier_of_series.setdefault(id(release.series), []), replicates)
        elif isinstance(release, ProductRelease):
            units = _independent_parts(release, units)
        draws.append(np.where(scale[:, None] > 0, units, np.nan))
    return draws


def independent_draws(
    release: SumRelease, noise: np.ndarray, earlier_noise: list[np.ndarray], replicates: int
) -> np.ndarray:
    """Return the independent draws that a running sum adds to those of the earlier sums of its series, (R', k).

    The noise of all sums is σ B z; the result is the last row of z = B⁻¹ (noise/σ) for the sums so far.

    noise : (R', k) the noise of this sum divided by σ.
    earlier_noise : the same of each earlier sum, for all R replicates, (R, k); that of this sum is appended.
    replicates : R, the number of replicates of the run.
    """
    noise_of_all = np.zeros((replicates, noise.shape[1]))
    noise_of_all[release.replicates] = noise
    earlier_noise.append(noise_of_all)
    sums = len(earlier_noise)  # so far, with this one
    decoder = release.factorisation.decoder()[:sums, :sums]
    draws = solve_triangular(decoder, np.stack(earlier_noise).reshape(sums, -1), lower=True)[-1]
    return np.asarray(draws.reshape(noise_of_all.shape)[release.replicates])


def _independent_parts(release: ProductRelease, noise: np.ndarray) -> np.ndarray:
    """Return the independent parts of the noise of a product with a matrix, each of the same scale, (R', d - earlier).

    The first is the noise along the product's direction. The others are √2 times the noise in the directions orthogonal
    to it and to all earlier ones, in some orthonormal basis. `earlier` is the number of earlier products.

    noise : (R', d) in units of its scale along the direction.
    """
    replicates, earlier, d = release.basis.shape
    # Vectors that span the space: earlier directions, the product's, and the axes. QR makes them orthonormal in this
    # order, (R', d, d), so the columns after the first earlier + 1 are orthogonal to those directions.
    axes = np.broadcast_to(np.eye(d), (replicates, d, d))
    spanning = np.concatenate([release.basis, release.unit[:, None], axes], axis=1)
    orthonormal, _ = np.linalg.qr(spanning.transpose(0, 2, 1))
    across = orthonormal[:, :, earlier + 1 :]
    along = (noise * release.unit).sum(axis=1, keepdims=True)
    return np.concatenate([along, np.sqrt(2) * np.einsum("rdk,rd->rk", across, noise)], axis=1)


# ---------------------------------------------------------------------------------------------------------- transcripts

NO_STREAMS: Sequence[np.random.Generator] = []  # stands for the streams of noise in a second run, which draws none


class BatchRelease(NamedTuple):
    """A release on a random batch.

    release_number : its number among all releases, from 1.
    charge_number : the number, from 1, of the event that paid for the batch among all charges of the replicate.
    event : that event.
    """

    release_number: int
    charge_number: int
    event: Sub


class Transcript(Mechanisms):
    """Mechanisms that record every release and its likelihood, for audits.

    first_run : None for a first run, whose releases are drawn as in `Mechanisms`. For a second run, the transcript of
        the first one, whose outputs are handed out again, in order. Both need the same seed and text `release`, so that
        public random numbers are the same.
    row : index of the row of the table in which the two data sets differ.
    with_row : in a second run, random batches are not drawn: with True every batch has that row, with False none.
        Which other rows a batch has does not matter in the data of an audit, where all of them are equal.
    """

    def __init__(
        self,
        ledger: Ledger,
        seed: int,
        release: str = "",
        first_run: "Transcript | None" = None,
        *,
        row: int = 0,
        with_row: bool = True,
    ) -> None:
        super().__init__(ledger, seed, release=release)
        self._first_run, self._row, self._with_row = first_run, row, with_row
        # The first states of the streams of two replicates, for every purpose but that of `common`, which different
        # releases share; a test compares them.
        streams = (self._noise, self._batches, self.public, [self.shared]) if first_run is None else ()
        self.seeds = [repr(generator.bit_generator.state) for stream in streams for generator in stream[:2]]
        if first_run is not None:
            self._noise = NO_STREAMS
        self._releases: list[Release] = []
        self._noise_of_series: dict[int, list[np.ndarray]] = {}  # `earlier_noise` of running sums, by their series
        self.public_log_density = np.zeros(self.replicates)  # (R,), the sum over the releases on public sets of rows
        # For each random batch: the probability that the row is in it, and the sum of its releases' log densities.
        self.batch_log_densities: list[tuple[float, Floats]] = []
        self.batch_releases: list[BatchRelease] = []  # the releases on random batches
        self.paid_leaves: list[Leaves] = []  # those whose releases were paid for

    def _drawn(self, distribution: Standard, replicates: Replicates, shape: tuple[int, ...]) -> np.ndarray:
        """Return draws as `Mechanisms` does; zeros in a second run, whose outputs are those of the first."""
        if self._first_run is not None:
            return np.zeros((len(replicates), *shape))
        return super()._drawn(distribution, replicates, shape)

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
        """Return indices as `Mechanisms` does; zeros for selections of a second run, which draws none."""
        if generators is NO_STREAMS:
            return np.zeros((len(replicates), max(1, each * int(times.max(initial=0)))), dtype=np.int64)
        return Mechanisms._selected(generators, utilities, slope, times, each=each, replicates=replicates)

    def batch(self, event: Event, replicates: Replicates | None = None, table_rows: int | None = None) -> Batch:
        """Open a batch as `Mechanisms` does; in a second run, a random batch is one with the row or without it."""
        if not isinstance(event, Sub):
            return super().batch(event, replicates, table_rows)
        if event.kind == "poisson":
            raise UserError("Draw batches of one size.", title="Poisson batches cannot be audited")
        self.batch_log_densities.append((event.m / event.n, np.zeros(self.replicates)))
        if self._first_run is None:
            return super().batch(event, replicates, table_rows)
        return self._fixed_batch(event, replicates, self._with_row)

    def _fixed_batch(self, event: Sub, replicates: Replicates | None, with_row: bool) -> Batch:
        """Charge the event and return a batch that is not drawn, `with_row` or without it."""
        self._ledger.charge(event, charge_counts(replicates, self.replicates))
        others = np.delete(np.arange(event.n), self._row)
        row_indices = np.append(others[: event.m - 1], self._row) if with_row else others[: event.m]
        numbers = self._numbers(replicates)
        indices = np.tile(row_indices, (len(numbers), 1))
        return Batch(event, numbers, self, self._ledger.relation, indices=indices, size=event.m)

    def leaves(self, sizes: Sequence[int], n: int, replicates: Replicates | None = None) -> Leaves:
        """Return leaves as `Mechanisms.leaves` does, but with the row in the first leaf.

        The row and the first row of the public order that was drawn change places. The order is public, so a guarantee
        must hold for every order, and this one suits an attack.
        """
        leaves = super().leaves(sizes, n, replicates)
        indices = leaves._indices.copy()
        is_row = indices == self._row
        indices[is_row] = np.broadcast_to(indices[:, :1], indices.shape)[is_row]
        indices[:, 0] = self._row
        return Leaves(indices, leaves.sizes, leaves.replicates, self, self._ledger.relation)

    def parallel(self, event: Parallel, leaves: Leaves) -> None:
        """Pay for releases on leaves as `Mechanisms` does; the leaves are recorded, here and in `prefix_sums`."""
        super().parallel(event, leaves)
        self.paid_leaves.append(leaves)

    def prefix_sums(
        self,
        event: Event,
        factorisation: Factorisation,
        leaves: Leaves,
        sensitivities: float | np.ndarray,
        shape: tuple[int, ...] = (),
    ) -> PrefixSums:
        self.paid_leaves.append(leaves)
        return super().prefix_sums(event, factorisation, leaves, sensitivities, shape)

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases, in order."""
        return tuple(self._releases)

    @property
    def outputs(self) -> tuple[np.ndarray, ...]:
        """Outputs of all releases, in order, each (R', ...)."""
        return tuple(release.output for release in self._releases)

    def releases_match_charges(self) -> bool:
        """Return whether the releases are those that were paid for: each charge has its release, each release a charge.

        Of several releases on one batch, those after the first may be left out, and so may leaves that were not used.
        All products with one matrix count as one release. A series of running sums has one charge for all, and besides
        needs one sum for each leaf that was used.
        """
        # By event, the smallest, the largest and the actual number of releases of each replicate, (R,). Leaves count
        # under the tuple of their events, and the releases on them under each event. A running sum is counted twice:
        # its series under the event, and each sum under the class SumRelease.
        lower, upper, actual = (
            defaultdict[object, Any](lambda: np.zeros(self.replicates, dtype=int)) for _ in range(3)
        )
        for event, times in self._ledger.charges():
            if isinstance(event, Parallel) and any(leaves._events == event.events for leaves in self.paid_leaves):
                for bound in (lower, upper):  # the leaves that it pays for; the releases on them are counted below
                    bound[event.events] += times
                continue
            may_be_cut_short = isinstance(event.inner if isinstance(event, Sub) else event, Seq)
            for index, single in enumerate(inner_events(event)):
                upper[single] += times
                lower[single] += times * (index == 0 or not may_be_cut_short)
        for leaves in self.paid_leaves:
            if any(leaves._events or ()):  # else running sums, whose first release has the charge for all
                actual[leaves._events][leaves.replicates] += 1
            # `strict=False`: a leaf that was not used owes no release. The event is None for running sums.
            for paid, leaf in zip(leaves._events or (), leaves._handed_out, strict=False):
                for bound in (lower, upper):
                    bound[paid or SumRelease][leaf.replicates] += 1
        for release in self._releases:
            # A replicate with fewer selections than others has -1 in place of an index.
            count_of_release = (release.output >= 0).sum(axis=1) if isinstance(release, SelectionRelease) else 1
            if isinstance(release, SumRelease):
                actual[SumRelease][release.replicates] += 1
            if not isinstance(release, SumRelease | ProductRelease) or release.first:
                actual[release.event][release.replicates] += count_of_release
        return all(
            (lower[event] <= actual[event]).all() and (actual[event] <= upper[event]).all()
            for event in {*upper, *actual}
        )

    def _passed(self, release: Release) -> np.ndarray:
        """Record a release with its log density, and return its output; in a second run, that of the first."""
        if self._first_run is None:
            release.output = super()._passed(release)
        else:
            release.output = self._first_run._output_of(len(self._releases), release).copy()
        self._releases.append(release)
        log_density = self._sum_log_density(release) if isinstance(release, SumRelease) else release.log_density()
        is_on_batch = isinstance(release.batch, Batch) and not release.batch.whole
        # The density is added to the sum (R,) of the batch that was opened last, or to the public one. The leaves of a
        # tree are batches, too; they are public sets of rows, so their densities may be in either sum.
        total = self.public_log_density
        if is_on_batch and self.batch_log_densities:
            _, total = self.batch_log_densities[-1]
        np.add.at(total, release.replicates, log_density)
        if is_on_batch and len(release.replicates):
            # The event booked last opened the batch. All replicates of the release paid for it: the first one tells.
            booked = self._ledger.booked(int(release.replicates[0]))
            if booked and isinstance(booked[-1], Sub):
                self.batch_releases.append(BatchRelease(len(self._releases), len(booked), booked[-1]))
        return release.output

    def _output_of(self, index: int, requested: Release) -> np.ndarray:
        """Return the output at `index` of this transcript, for the release that a second run makes at this index.

        Raises ReplayMismatch if that release is of another kind or shape, or for other replicates.
        """
        release = self._releases[index] if index < len(self._releases) else None
        is_same = type(release) is type(requested) and np.array_equal(release.replicates, requested.replicates)
        if release is None or not is_same or release.output.shape != requested.output.shape:
            raise ReplayMismatch(f"release {index + 1} would have been another one on this data set")
        return release.output

    def _sum_log_density(self, release: SumRelease) -> Floats:
        """Return (R',) the log density of a running sum given the earlier ones, by the independent draws in it."""
        is_noisy = release.scale > 0
        scale = np.where(is_noisy, release.scale, 1.0)  # without noise, any scale will do
        noise = (release.output - release.value).reshape(len(scale), -1) / scale[:, None]
        earlier_noise = self._noise_of_series.setdefault(id(release.series), [])
        draws = independent_draws(release, noise, earlier_noise, self.replicates)
        square = (draws**2).sum(axis=1)
        with_noise = -square / 2 - draws.shape[1] * np.log(scale)
        without_noise = np.where(square > 0, -np.inf, 0.0)  # another output is impossible
        return np.where(is_noisy, with_noise, without_noise)


class ReplayMismatch(LedgerError):
    """Error for a second run that makes other releases than the first after the same outputs.

    So the algorithm acts on values of the data that it has not released.
    """


def log_likelihood(present: Transcript, absent: Transcript | None = None) -> Floats:
    """Return the log density, on one data set, of the outputs of a first run, (R,), from second runs on that data set.

    present : the second run with the row in every random batch.
    absent : the second run with the row in no batch; needed only if there are random batches.

    The batches are secret, so the releases on one have the density of a mixture of both cases.
    """
    total = present.public_log_density.copy()
    for index, (chance, logs_with_row) in enumerate(present.batch_log_densities):
        assert absent is not None
        _, logs_without_row = absent.batch_log_densities[index]
        total += np.logaddexp(np.log(chance) + logs_with_row, np.log1p(-chance) + logs_without_row)
    return total
