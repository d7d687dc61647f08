"""Releases as they leave a mechanism: value, law, and density of the output.

Every release of a run goes through `Source._passed`. A usual run keeps none. An audit notes them, and in a second run
on another data set hands out the same outputs again: so the densities of one transcript under both data sets are known
(`transcripts`).
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
    """Rows that were opened for queries; a query names them by this base class of `Batch`."""


class Query(NamedTuple):
    """A value computed from data for R' replicates; made by a Problem, consumed by a Mechanism.

    value : (R', ...) float64.
    sensitivity : largest change of `value` in `norm` when one row of the data (of the batch, if there is one) is
        replaced, or added or removed, by `relation`; a scalar or (R',), a function of public facts and released values
        only.
    batch : the batch that the value was computed on; None for the whole table.
    relation : the neighbouring relation that the sensitivity holds for; that of the run's events, or it is refused.
    """

    value: np.ndarray
    sensitivity: float | np.ndarray
    norm: Norm
    batch: Sample | None = None
    relation: Relation = "replace-one"


# ------------------------------------------------------------------------------------------------------------- releases

Standard = Literal["laplace", "standard_normal"]
_NODES = 100  # of the noisy threshold's law; the remaining error of a probability is far below 1 / runs


@dataclass(slots=True)
class Release(ABC):
    """One release, for R' replicates.

    value : (R', ...) the exact value. output : (R', ...) the numbers that leave. replicates : (R',) that get them.
    batch : the rows that it was computed on; None for the whole table, and for running sums and products.
    event, change : as declared, not as drawn: the single release that was paid for, and the query's sensitivity, a
        scalar or (R',); of running sums those of all queries, (R', T).
    """

    value: np.ndarray
    output: np.ndarray
    replicates: np.ndarray
    batch: Sample | None
    _: KW_ONLY
    event: Event | None = None
    change: float | np.ndarray = np.nan

    @property
    def paid(self) -> float:
        """The parameter of the event."""
        return self.event.parameter if isinstance(self.event, OneNumber) else np.nan

    @abstractmethod
    def log_density(self) -> Floats:
        """Return (R',) the logarithm of the density of the output, up to a constant that no data set changes."""


@dataclass(slots=True)
class Noised(Release):
    """Value plus independent noise of this scale, a scalar or (R',); 0 for none."""

    law: Standard
    scale: float | np.ndarray

    def log_density(self) -> Floats:
        return self.log_densities().sum(axis=1)

    def log_densities(self) -> Floats:
        """Return (R', k) the logarithms of the densities of the k numbers of the output."""
        rows = len(self.value)
        scale = np.broadcast_to(np.asarray(self.scale, dtype=float), rows)[:, None]
        distance = np.abs(self.output - self.value).reshape(rows, -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            units = np.where(distance > 0, distance / scale, 0.0)  # no noise, no distance
            units = units if self.law == "laplace" else units**2 / 2
            return -units - np.where(scale > 0, np.log(scale), 0.0)


@dataclass(slots=True)
class Selected(Release):
    """Indices (R', most), -1 for none, drawn with probabilities ∝ exp(slope · utility); value : the utilities, (R', k)
    for all draws or (R', most, k). slope : (R',)."""

    slope: np.ndarray

    def log_weights(self, slope: np.ndarray) -> np.ndarray:
        """Return (R', most or 1, k) the logarithms of the weights of all indices, with slopes (R',)."""
        logits = log_weights(self.value, slope.reshape(-1, *[1] * (self.value.ndim - 1)))
        return logits if logits.ndim == 3 else logits[:, None]

    def log_density(self) -> Floats:
        logits = self.log_weights(self.slope)
        logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        logs = np.broadcast_to(logs, (*self.output.shape, logits.shape[-1]))
        each = np.take_along_axis(logs, np.maximum(self.output, 0)[..., None], axis=-1)[..., 0]
        return np.asarray(np.where(self.output >= 0, each, 0.0).sum(axis=1))


def log_weights(utilities: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return the logarithms of the weights of indices, 0 for the best; of infinite slope, only the best can be chosen:
    utilities that one row cannot move at all (Δ = 0) are public."""
    gaps = utilities - utilities.max(axis=-1, keepdims=True)
    if not np.isinf(slope).any():
        return np.asarray(slope * gaps)
    with np.errstate(invalid="ignore"):
        return np.where(gaps < 0, slope * gaps, 0.0)


@dataclass(slots=True)
class Accepted(Release):
    """The first index (R',) of values (R', k) that reaches a noisy threshold, -1 for none. threshold, noise : (R', 1)
    scales of the Laplace noise on the threshold and on the values."""

    threshold: np.ndarray
    noise: np.ndarray

    def log_density(self, nodes: int = _NODES) -> Floats:
        levels = (np.arange(nodes) + 0.5) / nodes  # of the threshold's quantiles
        heights = self.threshold * np.where(levels < 0.5, np.log(2 * levels), -np.log(2 - 2 * levels))  # (R', nodes)
        none_before, likelihood = np.ones_like(heights), np.zeros(len(self.value))
        for index in range(self.value.shape[1]):
            below = _laplace_below(heights - self.value[:, index : index + 1], self.noise)
            is_first = self.output == index
            likelihood[is_first] = (none_before * (1 - below))[is_first].mean(axis=1)
            none_before *= below
        none = self.output < 0
        likelihood[none] = none_before[none].mean(axis=1)
        with np.errstate(divide="ignore"):
            return np.log(likelihood)


def _laplace_below(height: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the chance that Laplace noise of this scale is below a height."""
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.exp(-np.where(height == 0, 0.0, np.abs(height) / scale)) / 2
    return np.where(height < 0, tail, 1 - tail)


@dataclass(slots=True)
class Summed(Release):
    """One of a series of running sums: value plus row `step`, from 0, of B z for a factorisation, scale (R',) times.

    series : the running sums, the same object for all of them.
    """

    scale: np.ndarray
    series: object
    factorisation: Factorisation
    step: int

    @property
    def first(self) -> bool:
        """True for the first sum of its series, all of which one event pays for."""
        return self.step == 0

    def log_density(self) -> Floats:
        raise TypeError("how likely a running sum is depends on those before; `transcripts` knows them")


@dataclass(slots=True)
class Multiplied(Release):
    """A symmetric matrix with GOE noise times a unit vector; value : its mean (R', d) given the earlier products.

    unit : (R', d) the vector. basis : (R', k, d) the earlier ones. scale : of the noise on the diagonal.
    """

    unit: np.ndarray
    basis: np.ndarray
    scale: float

    @property
    def first(self) -> bool:
        """True for the first product with its matrix, all of which one event pays for."""
        return not self.basis.shape[1]

    def log_density(self) -> Floats:
        """Return (R',) log densities: variance s² along the vector, s²/2 on the space orthogonal to it and to all
        before; the rest is known by symmetry."""
        noise = self.output - self.value
        along = (noise * self.unit).sum(axis=1)
        earlier = np.einsum("rkd,rd->rk", self.basis, noise)
        square = (noise**2).sum(axis=1) - along**2 - (earlier**2).sum(axis=1)
        return -(along**2 / 2 + np.maximum(square, 0.0)) / self.scale**2


class Source(Protocol):
    """The mechanisms of a run, as batches, leaves and sums know them: the source of noise, and the exit of releases."""

    def _drawn(self, distribution: Standard, rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return (R', *shape) standard draws, each replicate's from its own stream."""

    def _passed(self, release: Release) -> np.ndarray:
        """Return the output that leaves, in a second run that of the first."""
