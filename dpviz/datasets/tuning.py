"""Data sets whose models have something to be tuned, drawn from a seed."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from dpviz.datasets.base import DatasetFacts, DatasetSpecification
from dpviz.specification import number


def _rows(default: int, most: int) -> Any:
    return number(default, 100, most, label="Rows", symbol="n", scale="log", help="For training and validation.")


def _dimension(default: int, least: int, most: int) -> Any:
    return number(default, least, most, label="Features", help="Most methods need more of everything for more.")


def _seed() -> Any:
    return number(0, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")


def _facts(n: int, d: int, bound: float, target: tuple[float, float]) -> DatasetFacts:
    return DatasetFacts(n, ((-bound, bound),) * d, tuple(f"feature_{j}" for j in range(1, d + 1)), target=target)


class NormalDraws(DatasetSpecification):
    """Rows N(mean, I), to be located. The target, at which nobody looks, is the first feature. Drawn from
    `default_rng(seed)`."""

    kind: ClassVar[str] = "datasets.tuning.normal_draws"
    title: ClassVar[str] = "Normal rows"
    scaled: ClassVar[bool] = True
    rows: int = _rows(1000, 200_000)
    dimension: int = _dimension(2, 1, 100)
    mean: float = number(1.5, -3.0, 3.0, label="Mean", help="Of every feature; the standard deviation is 1.")
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, 10.0, (-10.0, 10.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        features = self.mean + np.random.default_rng(self.seed).standard_normal((self.rows, self.dimension))
        return features, features[:, 0].copy()


class RegressionDraws(DatasetSpecification):
    """Features N(0, I), target β₀ + ⟨β, z⟩ + noise · N(0, 1) with β cycling through 1, -1, ½, -½, 1.5, β₀ the first.

    Drawn from `default_rng(seed)`: features, then noise.
    """

    kind: ClassVar[str] = "datasets.tuning.regression_draws"
    title: ClassVar[str] = "Linear regression, normal features"
    scaled: ClassVar[bool] = True
    rows: int = _rows(1000, 200_000)
    dimension: int = _dimension(4, 1, 100)
    noise: float = number(1.0, 0.01, 10.0, label="Label noise", scale="log", help="Standard deviation.")
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, 10.0, (-1000.0, 1000.0))

    @property
    def coefficients(self) -> np.ndarray:
        """(dimension + 1,) β, the intercept first."""
        return np.resize([1.0, -1.0, 0.5, -0.5, 1.5], self.dimension + 1)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator, beta = np.random.default_rng(self.seed), self.coefficients
        features = generator.standard_normal((self.rows, self.dimension))
        return features, beta[0] + features @ beta[1:] + self.noise * generator.standard_normal(self.rows)


class ProcessDraws(DatasetSpecification):
    """A draw of a Gaussian process: features uniform on [-√3, √3], RBF kernel with a length-scale of its own for each,
    log-uniform on [1.5, 12], and noise in the target.

    Drawn from `default_rng(seed)`: features, length-scales, the process at all rows, noise. Declared range ±10.
    """

    kind: ClassVar[str] = "datasets.tuning.process_draws"
    title: ClassVar[str] = "Draw of a Gaussian process"
    scaled: ClassVar[bool] = True
    rows: int = _rows(700, 3000)
    dimension: int = _dimension(10, 1, 120)
    noise: float = number(0.1, 0.01, 3.0, label="Label noise", scale="log", help="Standard deviation; the process: 1.")
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, math.sqrt(3), (-10.0, 10.0))

    def drawn(self) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Features (n, p), length-scales (p,), and the generator where it stands then."""
        generator = np.random.default_rng(self.seed)
        features = math.sqrt(3) * generator.uniform(-1, 1, (self.rows, self.dimension))
        return features, np.exp(generator.uniform(math.log(1.5), math.log(12), self.dimension)), generator

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        features, scales, generator = self.drawn()
        scaled = features / scales
        squares = (scaled**2).sum(axis=1)
        covariance = np.exp(-np.maximum(squares[:, None] + squares - 2 * scaled @ scaled.T, 0.0) / 2)
        process = np.linalg.cholesky(covariance + 1e-8 * np.eye(self.rows)) @ generator.normal(size=self.rows)
        return features, process + self.noise * generator.normal(size=self.rows)


class FactorDraws(DatasetSpecification):
    """Many correlated features, of which seven say something: x_j = 0.8 e_j + 0.6 F_(j mod 10), target 1.2 sin 1.5x₀ +
    0.8 x₁x₂ + x₃ - 0.8 x₄ + 0.6 |x₅| + noise. A stand-in for the slices of CT images.

    Drawn from `default_rng(seed)`: the features' own parts, the factors, noise. Declared ranges ±6 and ±12.
    """

    kind: ClassVar[str] = "datasets.tuning.factor_draws"
    title: ClassVar[str] = "Many features, few that matter"
    scaled: ClassVar[bool] = True
    rows: int = _rows(1300, 20_000)
    dimension: int = _dimension(100, 6, 117)
    noise: float = number(0.1, 0.01, 3.0, label="Label noise", scale="log", help="Standard deviation.")
    seed: int = _seed()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, 6.0, (-12.0, 12.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        own = generator.standard_normal((self.rows, self.dimension))
        factors = generator.standard_normal((self.rows, 10))
        x = 0.8 * own + 0.6 * factors[:, np.arange(self.dimension) % 10]
        target = 1.2 * np.sin(1.5 * x[:, 0]) + 0.8 * x[:, 1] * x[:, 2] + x[:, 3] - 0.8 * x[:, 4] + 0.6 * np.abs(x[:, 5])
        return x, target + self.noise * generator.standard_normal(self.rows)


DRAWN = (NormalDraws, RegressionDraws, ProcessDraws, FactorDraws)  # whose rows are independent, in whatever order
