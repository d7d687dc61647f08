"""Releases as they leave a mechanism: the exact value, the output, and the density of the output given the value.

Every release of a run goes through `Source._passed`. A usual run stores none of them. An audit records them, and in a
second run, on another data set, it hands out the same outputs again: so the densities of one series of outputs (a
transcript) under both data sets are known, see `verification.transcripts`.

R' is the number of replicates (simulated runs) that a query or release is for.
"""

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.events import Event, OneNumber, Relation
from dpviz.privacy.matrix_factorisation import Factorisation

# -------------------------------------------------------------------------------------------------------------- queries

Norm = Literal["l1", "l2", "linf", "range"]


class Sample:
    """Base class of `Batch`, the rows that a query is computed on; it lets `Query` refer to batches without a cycle of
    imports."""


class Query(NamedTuple):
    """A value computed from data for R' replicates, before noise; made by a Problem, consumed by a Mechanism.

    value : (R', ...) float64.
    sensitivity : largest change of `value`, measured in `norm`, when one row of the data (of the batch, if there is
        one) changes as `relation` says; a scalar or (R',). It may depend on public facts and released values only.
    norm : "l1", "l2", "linf" (the largest change of any entry), or "range" (the largest change of any entry minus the
        smallest).
    batch : the batch that the value was computed on; None for the whole table.
    relation : the neighbouring relation under which the sensitivity holds. Mechanisms refuse the query unless it is
        that of the run's events.
    """

    value: np.ndarray
    sensitivity: float | np.ndarray
    norm: Norm
    batch: Sample | None = None
    relation: Relation = "replace-one"


# ------------------------------------------------------------------------------------------------------------- releases

Standard = Literal["laplace", "standard_normal"]
_NODES = 100  # of the integral over the noisy threshold; its error is far below what an audit's runs can resolve


@dataclass(slots=True)
class Release(ABC):
    """One release, for R' replicates.

    value : (R', ...) the exact value.
    output : (R', ...) the numbers that are released.
    replicates : (R',) numbers of the replicates that they are released for.
    batch : the rows that the value was computed on; None for the whole table, and for running sums and products.
    event : the single event that was charged for the release.
    declared_sensitivity : of the query, a scalar or (R',); for running sums those of all T queries, (R', T).

    Fields of subclasses describe the noise as it was really drawn, `event` and `declared_sensitivity` as it should have
    been.
    """

    value: np.ndarray
    output: np.ndarray
    replicates: np.ndarray
    batch: Sample | None
    _: KW_ONLY
    event: Event | None = None
    declared_sensitivity: float | np.ndarray = np.nan

    @property
    def charged_parameter(self) -> float:
        """The parameter of the event that was charged: its ε, μ, η or ρ; nan if it has none."""
        return self.event.parameter if isinstance(self.event, OneNumber) else np.nan

    @abstractmethod
    def log_density(self) -> Floats:
        """Return (R',) the log density of the output given the value, up to a constant equal for all data sets."""


@dataclass(slots=True)
class NoisyRelease(Release):
    """A value plus independent noise in each entry, of distribution `law` and of `scale`, a scalar or (R',).

    A scale of 0 means that there is no noise.
    """

    law: Standard
    scale: float | np.ndarray

    def log_density(self) -> Floats:
        return self.log_densities().sum(axis=1)

    def log_densities(self) -> Floats:
        """Return (R', k) the log density of each of the k numbers of the output, up to constants."""
        replicates = len(self.value)
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), replicates)[:, None]
        distance = np.abs(self.output - self.value).reshape(replicates, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            in_scales = np.where(distance > 0, distance / scale, 0.0)  # 0 / 0 without noise counts as 0
            exponent = in_scales if self.law == "laplace" else in_scales**2 / 2
            return -exponent - np.where(scale > 0, np.log(scale), 0.0)


@dataclass(slots=True)
class SelectionRelease(Release):
    """Indices that were selected with probabilities ∝ exp(slope · utility).

    value : the utilities, (R', k), or (R', draws, k) if each draw has its own.
    output : (R', draws) the indices; -1 where a replicate has fewer draws than others.
    slope : (R',), the factor η/Δ of the exponential mechanism as it was used.
    """

    slope: np.ndarray

    def log_weights(self, slope: np.ndarray) -> np.ndarray:
        """Return the log weights of all k indices at slopes (R',), such as the declared ones, which an audit tests.

        The shape is (R', draws, k), or (R', 1, k) if all draws have the same utilities.
        """
        logits = log_weights(self.value, slope.reshape(-1, *[1] * (self.value.ndim - 1)))
        return logits if logits.ndim == 3 else logits[:, None]

    def log_density(self) -> Floats:
        logits = self.log_weights(self.slope)
        log_probabilities = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        log_probabilities = np.broadcast_to(log_probabilities, (*self.output.shape, logits.shape[-1]))
        is_index = self.output >= 0  # where it is -1, the log probability of index 0 is not counted
        of_output = np.take_along_axis(log_probabilities, np.maximum(self.output, 0)[..., None], axis=-1)[..., 0]
        return np.asarray(np.where(is_index, of_output, 0.0).sum(axis=1))


def log_weights(utilities: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return slope · (utility - largest utility), the log weights of indices (..., k); the best index has 0.

    An infinite slope leaves only the best indices possible. It belongs to utilities that one row cannot change at all
    (Δ = 0), which are public.
    """
    gaps = utilities - utilities.max(axis=-1, keepdims=True)
    if not np.isinf(slope).any():
        return np.asarray(slope * gaps)
    with np.errstate(invalid="ignore"):
        return np.where(gaps < 0, slope * gaps, 0.0)


@dataclass(slots=True)
class ThresholdRelease(Release):
    """The first index whose noisy value reaches a noisy threshold of 0: the sparse vector technique.

    value : (R', k) the exact values minus thresholds.
    output : (R',) the index; -1 if no noisy value reaches the threshold.
    threshold_scale, value_scale : (R', 1) scales of the Laplace noise on the threshold and on the values.
    """

    threshold_scale: np.ndarray
    value_scale: np.ndarray

    def log_density(self, nodes: int = _NODES) -> Floats:
        """Return (R',) the log probability of the output, averaged over `nodes` quantiles of the noisy threshold.

        Given the threshold, the values are above or below it independently: index i is the output if its value is
        above and all earlier ones are below.
        """
        levels = (np.arange(nodes) + 0.5) / nodes
        standard_quantiles = np.where(levels < 0.5, np.log(2 * levels), -np.log(2 - 2 * levels))
        quantiles = self.threshold_scale * standard_quantiles  # (R', nodes)
        all_below = np.ones_like(quantiles)  # the probability that all values so far are below the threshold
        likelihood = np.zeros(len(self.value))
        for index in range(self.value.shape[1]):
            below = _laplace_below(quantiles - self.value[:, index : index + 1], self.value_scale)
            is_output = self.output == index
            likelihood[is_output] = (all_below * (1 - below))[is_output].mean(axis=1)
            all_below *= below
        is_none = self.output < 0
        likelihood[is_none] = all_below[is_none].mean(axis=1)
        with np.errstate(divide="ignore"):
            return np.log(likelihood)


def _laplace_below(height: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the probability that Laplace noise of this scale is below `height`; a scale of 0 is no noise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.exp(-np.where(height == 0, 0.0, np.abs(height) / scale)) / 2
    return np.where(height < 0, tail, 1 - tail)


@dataclass(slots=True)
class SumRelease(Release):
    """One of a series of running sums: its value plus scale (R',) times row `step` of B z.

    z are independent standard normal numbers, one for each sum of the series (and each entry of the value), and B is
    the left factor of `factorisation`. So the noises of the sums of one series are correlated.

    series : the object that releases all sums of this series, by which they are recognised.
    step : index of this sum in the series, from 0.
    """

    scale: np.ndarray
    series: object
    factorisation: Factorisation
    step: int

    @property
    def first(self) -> bool:
        """True for the first sum of its series; the one event that pays for the whole series is counted there."""
        return self.step == 0

    def log_density(self) -> Floats:
        raise TypeError("how likely a running sum is depends on those before; `transcripts` knows them")


@dataclass(slots=True)
class ProductRelease(Release):
    """A product of a unit vector with a symmetric matrix that carries GOE noise (see `matrix_products`).

    value : (R', d) the mean of the product, given the earlier products with the same noisy matrix.
    unit : (R', d) the vector, orthogonal to the earlier ones.
    basis : (R', k, d) the vectors of the earlier products.
    scale : s, the standard deviation of the noise on the diagonal of the matrix; off the diagonal it is s/√2.
    """

    unit: np.ndarray
    basis: np.ndarray
    scale: float

    @property
    def first(self) -> bool:
        """True for the first product with its matrix; the one event that pays for all of them is counted there."""
        return not self.basis.shape[1]

    def log_density(self) -> Floats:
        """Return (R',) the log density of the product given the earlier ones, up to a constant.

        The noise is normal, of variance s² along the vector and s²/2 in each direction orthogonal to it and to the
        earlier vectors. Its part along the earlier vectors is fixed, because the matrix is symmetric.
        """
        noise = self.output - self.value
        along_unit = (noise * self.unit).sum(axis=1)
        along_earlier = np.einsum("rkd,rd->rk", self.basis, noise)
        square_of_rest = (noise**2).sum(axis=1) - along_unit**2 - (along_earlier**2).sum(axis=1)
        return -(along_unit**2 / 2 + np.maximum(square_of_rest, 0.0)) / self.scale**2


class Source(Protocol):
    """The part of `Mechanisms` that batches, leaves and sums use: it draws noise, and every release passes it."""

    def _drawn(self, distribution: Standard, replicates: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return (R', *shape) independent draws of scale 1 for the `replicates`, each from its own stream."""

    def _passed(self, release: Release) -> np.ndarray:
        """Return the output of the release; in an audit's second run, that of the same release in the first."""
