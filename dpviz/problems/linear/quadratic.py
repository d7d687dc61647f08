"""The quadratic test bench: a problem whose quantities all have closed forms."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np

from dpviz.datasets.base import NO_TABLES
from dpviz.numbers import short
from dpviz.privacy.batches import Batch
from dpviz.privacy.releases import Norm, Query
from dpviz.problems import base
from dpviz.specification import choice, number


class Quadratic(base.ProblemSpecification):
    """F(x) = ½ Σ λᵢ xᵢ², with minimiser x* = 0: a public function, plus a mean over n rows that is 0 in these data.

    Rows may have gradients of norm up to C, so a query of their mean has the usual sensitivity and gets the usual
    noise; but all of these rows' gradients are 0. An algorithm thus sees exactly its own noise, and its expected error
    obeys the recursion that the theory solves exactly.

    >>> import dpviz
    >>> round(float(dpviz.Quadratic(dimension=2, strong_convexity=0.5).eigenvalues()[0]), 6)
    0.5
    """

    kind: ClassVar[str] = "problems.quadratic.bench"
    title: ClassVar[str] = "Quadratic test bench"
    rows: int = number(
        10_000, 20, 10_000_000, label="Rows", symbol="n", scale="log", help="Rows of the data set.", limits=(1, 10**9)
    )
    dimension: int = number(
        10, 2, 200, label="Parameters", symbol="d", scale="log", help="Number of eigenvalues.", limits=(1, 10**6)
    )
    strong_convexity: float = number(
        0.02, 1e-5, 10.0, label="Strong convexity", symbol="μ", scale="log", help="The smallest eigenvalue."
    )
    smoothness: float = number(
        1.0, 1e-4, 1000.0, label="Smoothness", symbol="L", scale="log", help="The largest eigenvalue."
    )
    spacing: Literal["log", "ends"] = choice(
        "log",
        label="Spectrum",
        help="How eigenvalues are spread.",
        options={"log": "Log-uniform", "ends": "Only μ and L"},
    )
    clip: float = number(
        10.0, 1e-3, 1e4, label="Gradient clip", symbol="C", scale="log", help="Largest norm of one row's gradient."
    )
    start: float = number(
        1.0, -100.0, 100.0, label="Start", symbol="x₀", help="Every coordinate starts here.", limits=(-1e6, 1e6)
    )

    def eigenvalues(self) -> np.ndarray:
        """Return the eigenvalues λᵢ (d,) of the Hessian, ascending from μ to L.

        They are equally spaced on a logarithmic scale, or half of them are μ and the others L.
        """
        low, high = sorted((self.strong_convexity, self.smoothness))  # the user may have exchanged them
        if self.spacing == "ends":
            return np.where(np.arange(self.dimension) < (self.dimension + 1) // 2, low, high)
        return np.geomspace(low, high, self.dimension)

    def facts(self) -> base.SmoothFacts:
        """Return the public facts, with the exact errors E₀ and V₀ at the start."""
        spectrum = self.eigenvalues()
        gap = 0.5 * self.start**2 * spectrum.sum()  # F(x₀), as F* = 0
        return base.SmoothFacts(
            n=self.rows,
            d=self.dimension,
            gradient_bound_l1=self.clip,
            gradient_bound_l2=self.clip,
            smoothness=float(spectrum[-1]),
            strong_convexity=float(spectrum[0]),
            start=self.start,
            initial_gap=gap,
            lyapunov=gap + 0.5 * spectrum[0] * self.start**2 * self.dimension,  # V₀ = E₀ + (μ/2) ‖x₀ - x*‖²
            eigenvalues=tuple(spectrum),
        )

    def memory(self, facts: base.Facts) -> base.Memory:
        """Return the memory of the replicates alone: there is no table."""
        return base.Memory(table=0.0, replicate=64.0 * facts.d)  # 8 vectors of d numbers of 8 bytes

    def _plane(self) -> base.Plane:
        """Return the plane of the coordinates with the smallest and largest eigenvalue: there methods differ most."""
        flat, steep = (short(value) for value in self.eigenvalues()[[0, -1]].tolist())
        titles = f"Flattest direction, curvature {flat}", f"Steepest direction, curvature {steep}"
        return base.coordinate_plane(0, self.dimension - 1, titles)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "QuadraticProblem":
        return QuadraticProblem(self.facts())


class QuadraticProblem(base.SmoothProblem):
    """A quadratic test bench; see `Quadratic`. F does not depend on data, so it is the regulariser, whose gradient
    needs no noise."""

    metrics: ClassVar[tuple[base.Metric, ...]] = (
        base.Metric("objective_gap", "Excess loss F(x_t) - F*", scale="log", headline=1),
        base.Metric("gradient_norm", "Gradient norm ‖∇F(x_t)‖", scale="log"),
    )

    def __init__(self, facts: base.SmoothFacts) -> None:
        self.facts = facts
        self._eigenvalues = np.array(facts.eigenvalues)

    def mean_gradient(self, x: np.ndarray, batch: Batch, norm: Norm) -> Query:
        """Return a query with the value 0 at each x, and the sensitivity of a mean of gradients of norm at most C."""
        sensitivity = self.facts.gradient_sensitivity(norm, batch.divisor(self.facts.n), batch.relation)
        return Query(np.zeros_like(x), sensitivity, norm, batch, batch.relation)

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        return self._eigenvalues * x

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        x = output["x"]
        gap = 0.5 * (self._eigenvalues * x**2).sum(axis=1)
        return {"objective_gap": gap, "gradient_norm": np.linalg.norm(self._eigenvalues * x, axis=1)}
