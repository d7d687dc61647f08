"""Data sets drawn from a seed: the same rows on every machine, whatever else draws random numbers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpviz.checkpoints import Parts, finished, slices
from dpviz.datasets.base import SECONDS_PER_LOADED, DatasetFacts, DatasetSpecification
from dpviz.specification import number

_SECONDS_PER_CAUCHY = 25e-9  # to draw one, which takes two normal numbers and a division
_PAPER_ROWS = 100_000  # rows of the paper's matrix; a smaller n takes the first of them


def _rows() -> Any:
    return number(10_000, 500, 1_000_000, label="Rows", symbol="n", scale="log", help="More rows need less noise each.")


def _dimension(default: int = 10) -> Any:
    return number(default, 2, 50, label="Features", symbol="d", help="Noise is added to every coordinate.")


def _signal(default: float = 4.0) -> Any:
    return number(
        default, 0.1, 20.0, label="Signal", scale="log", help="Size of the true weights: larger = clearer labels."
    )


def _seed(default: int = 0) -> Any:
    return number(default, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")


def _facts(n: int, d: int, low: float, high: float) -> DatasetFacts:
    return DatasetFacts(n, ((low, high),) * d, tuple(f"feature_{j}" for j in range(1, d + 1)))


def _logistic_labels(generator: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    """Labels (n,) in {-1, +1} with P(+1) = σ(score); the hyperbolic tangent form of σ cannot overflow."""
    return np.where(generator.random(len(scores)) < 0.5 + 0.5 * np.tanh(0.5 * scores), 1.0, -1.0)


class UniformLogistic(DatasetSpecification):
    """Features uniform on [0, 1], labels from a logistic model: P(z = 1) = σ((u - ½)ᵀw), w = signal · N(0, I).

    Drawn from `default_rng(seed)`: features first, then w, then one uniform per label.
    """

    kind: ClassVar[str] = "datasets.synthetic.uniform_logistic"
    title: ClassVar[str] = "Uniform features, logistic labels"
    rows: int = _rows()
    dimension: int = _dimension()
    signal: float = _signal()
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, 0.0, 1.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.random((self.rows, self.dimension))
        weights = self.signal * generator.standard_normal(self.dimension)
        scores = features @ weights - 0.5 * weights.sum()  # (u - ½)ᵀw without a second copy of the features
        return features, _logistic_labels(generator, scores)


class PaperLogistic(DatasetSpecification):
    """The simulated data of Kuru, Birbil, Gürbüzbalaban and Yıldırım, Figure 3: separable and unbalanced.

    The first n rows of the 100 000 x d matrix that MATLAB's `rng(1); rand(100000, d)` draws, and labels sign(uᵀw).
    MATLAB's normal numbers cannot be drawn here, so w is `default_rng(seed).standard_normal(d)`; the default seed
    gives 10 % negative labels at d = 20, which fits the objective published for the starting point.
    """

    kind: ClassVar[str] = "datasets.synthetic.paper_logistic"
    title: ClassVar[str] = "Simulated data of the accelerated-gradient paper"
    rows: int = number(
        10_000, 500, _PAPER_ROWS, label="Rows", symbol="n", scale="log", help="The first n of the paper's 100,000 rows."
    )
    dimension: int = _dimension(20)
    seed: int = _seed(367)

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, 0.0, 1.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        stream = np.random.RandomState(1)  # MATLAB's generator; it fills the matrix column by column
        features = np.empty((self.rows, self.dimension))
        for column in range(self.dimension):
            features[:, column] = stream.random_sample(_PAPER_ROWS)[: self.rows]
        weights = np.random.default_rng(self.seed).standard_normal(self.dimension)
        return features, np.where(features @ weights > 0.0, 1.0, -1.0)


class CorrelatedLogistic(DatasetSpecification):
    """Strongly correlated features: an ill-conditioned problem, on which momentum pays.

    Every two features have correlation r: u_j = √r c + √(1 - r) e_j with standard normal c, e_j, cut at ±3. The
    covariance has one eigenvalue 1 + (d - 1) r and d - 1 eigenvalues 1 - r. P(z = 1) = σ(uᵀw), w = signal · N(0, I).
    """

    kind: ClassVar[str] = "datasets.synthetic.correlated_logistic"
    title: ClassVar[str] = "Correlated features (ill-conditioned)"
    rows: int = _rows()
    dimension: int = _dimension()
    correlation: float = number(
        0.9,
        0.0,
        0.99,
        label="Correlation",
        symbol="r",
        help="Closer to 1 = harder to optimise: larger condition number.",
    )
    signal: float = _signal(1.0)
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, -3.0, 3.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.standard_normal((self.rows, self.dimension))
        features *= np.sqrt(1.0 - self.correlation)
        features += np.sqrt(self.correlation) * generator.standard_normal((self.rows, 1))
        weights = self.signal * generator.standard_normal(self.dimension)
        return features, _logistic_labels(generator, features @ weights)


class UniformLinear(DatasetSpecification):
    """A number to predict: features uniform on [0, 1], target (u - ½)ᵀw plus noise, in units of its standard deviation.

    w is normal, scaled so that the signal has standard deviation 1; the noise has standard deviation `noise`, and a
    share of the targets are outliers: noise 20 times as large. Declared range ±4. Drawn from `default_rng(seed)`:
    features, w, noise, then which rows are outliers.
    """

    kind: ClassVar[str] = "datasets.synthetic.uniform_linear"
    title: ClassVar[str] = "A number to predict (regression)"
    rows: int = _rows()
    dimension: int = _dimension()
    noise: float = number(
        0.5, 0.01, 3.0, label="Label noise", scale="log", help="Standard deviation, relative to that of the signal."
    )
    outliers: float = number(
        0.02,
        0.0,
        0.5,
        label="Outliers",
        help="Share of targets with 20 times the noise.",
    )
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return replace(_facts(self.rows, self.dimension, 0.0, 1.0), target=(-4.0, 4.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.random((self.rows, self.dimension))
        weights = generator.standard_normal(self.dimension)
        weights *= math.sqrt(12 / float(weights @ weights))  # a uniform number has variance 1/12
        noise = self.noise * generator.standard_normal(self.rows)
        noise[generator.random(self.rows) < self.outliers] *= 20.0
        return features, features @ weights - 0.5 * weights.sum() + noise


class SphereLinear(DatasetSpecification):
    """A number to predict, with outliers: rows a uniform on the unit sphere, target aᵀx* + 0.05 N(0, 1), x* = 1/√d in
    every coordinate; of a share of the rows it is uniform on [-3, 3] instead. Declared range ±1, which cuts outliers.

    Drawn from `default_rng(seed)`: rows, noise, which rows are outliers, their targets.
    """

    kind: ClassVar[str] = "datasets.synthetic.sphere_linear"
    title: ClassVar[str] = "A number to predict, with outliers"
    rows: int = number(60_000, 1000, 200_000, label="Rows", symbol="n", scale="log", help="More rows need less noise.")
    dimension: int = _dimension(8)
    outliers: float = number(0.2, 0.0, 0.5, label="Outliers", help="Share of targets that say nothing.")
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return replace(_facts(self.rows, self.dimension, -1.0, 1.0), target=(-1.0, 1.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.standard_normal((self.rows, self.dimension))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        target = features.sum(axis=1) / math.sqrt(self.dimension) + 0.05 * generator.standard_normal(self.rows)
        out = generator.random(self.rows) < self.outliers
        target[out] = generator.uniform(-3.0, 3.0, int(out.sum()))
        return features, target


class Saddle(DatasetSpecification):
    """Rows along one line, on both sides of 0: what makes x = 0 a saddle point of a robust principal component.

    Row i is aᵢe₁ + 0.9 √((1 - spike²)/d) N(0, I), shortened to norm 1 if it is longer, with aᵢ = ± spike · U[0.6, 1].
    Its label is the sign. Drawn from `default_rng(seed)`: signs, sizes, normal numbers.
    """

    kind: ClassVar[str] = "datasets.synthetic.saddle"
    title: ClassVar[str] = "Two sides of a line (saddle point)"
    rows: int = number(
        20_000, 1000, 200_000, label="Rows", symbol="n", scale="log", help="More rows need less noise each."
    )
    dimension: int = number(
        10, 2, 2000, label="Features", symbol="d", scale="log", help="Noise is added to every coordinate."
    )
    spike: float = number(
        0.85, 0.1, 0.99, label="Spike", help="How far the rows reach along the line: longer = steeper way down."
    )
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, -1.0, 1.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return finished(self.raw_rows_in_parts(tables))

    def raw_rows_in_parts(self, tables: Mapping[str, np.ndarray]) -> Parts[tuple[np.ndarray, np.ndarray]]:
        generator = np.random.default_rng(self.seed)
        signs = generator.choice([-1.0, 1.0], self.rows)
        sizes = generator.uniform(0.6, 1.0, self.rows)
        features = np.empty((self.rows, self.dimension))
        for part in slices(self.rows, self.dimension * SECONDS_PER_LOADED):  # the same numbers, whatever the parts
            if part.start:
                yield
            block = features[part]
            generator.standard_normal(out=block)
            block *= 0.9 * math.sqrt((1 - self.spike**2) / self.dimension)
            block[:, 0] += self.spike * sizes[part] * signs[part]
            block /= np.maximum(1.0, np.linalg.norm(block, axis=1))[:, None]
        return features, signs


class HeavyTailed(DatasetSpecification):
    """Cauchy features, whose rare huge values only the declared bound tames: why clipping matters.

    The labels follow the values as drawn, P(z = 1) = σ(uᵀw) with w = signal · N(0, I); the learner sees them clipped
    to ±bound. A small bound loses information, a large one asks for more noise, and no bound gives no privacy at all.
    """

    kind: ClassVar[str] = "datasets.synthetic.heavy_tailed"
    title: ClassVar[str] = "Heavy-tailed features (outliers)"
    rows: int = _rows()
    dimension: int = _dimension()
    bound: float = number(
        5.0,
        0.5,
        1000.0,
        label="Declared bound",
        scale="log",
        help="Values beyond ±bound are clipped; noise grows with it.",
    )
    signal: float = _signal(1.0)
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, -self.bound, self.bound)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        return finished(self.raw_rows_in_parts(tables))

    def raw_rows_in_parts(self, tables: Mapping[str, np.ndarray]) -> Parts[tuple[np.ndarray, np.ndarray]]:
        generator = np.random.default_rng(self.seed)
        features = np.empty((self.rows, self.dimension))
        for part in slices(self.rows, self.dimension * _SECONDS_PER_CAUCHY):  # the same numbers, whatever the parts
            if part.start:
                yield
            features[part] = generator.standard_cauchy(features[part].shape)
        weights = self.signal * generator.standard_normal(self.dimension)
        return features, _logistic_labels(generator, features @ weights)
