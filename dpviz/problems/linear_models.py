"""Linear models for binary classification: logistic regression with an ℓ2 term, clipped row by row."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from dpviz.datasets.base import NO_TABLES, DatasetSpecification
from dpviz.datasets.synthetic import UniformLogistic
from dpviz.numbers import short
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Laplace
from dpviz.privacy.queries import Norm, Query
from dpviz.problems.base import Metric, ProblemSpecification, SmoothFacts, SmoothProblem
from dpviz.specification import choice, number

# Passes over the data work on blocks of about this many elements (rows × replicates): they stay in the cache, and no
# (n, R) array is returned to the system and faulted in again at every iteration.
BLOCK = 16_000


class LogisticRegression(ProblemSpecification):
    """F(x) = (1/n) Σ ln(1 + exp(-zᵢ uᵢᵀx)) + λ‖x‖², labels zᵢ = ±1, features uᵢ scaled by their declared bounds.

    Note λ‖x‖² without ½: strong convexity is μ = 2λ (Kuru et al. 2022, section 5).
    """

    kind: ClassVar[str] = "problems.linear_models.logistic_regression"
    title: ClassVar[str] = "Logistic regression"
    data: DatasetSpecification = UniformLogistic()
    regularisation: float = number(
        0.01, 1e-5, 1.0, label="Regularisation", symbol="λ", scale="log", help="Weight of λ‖x‖²; μ = 2λ."
    )
    scaling: Literal["unit", "centred"] = choice(
        "unit",
        {"unit": "[0, 1]", "centred": "[-½, ½]"},
        label="Feature scaling",
        help="Declared bounds are mapped to this interval. Centring halves the sensitivity and quarters L.",
    )
    intercept: Literal["no", "yes"] = choice(
        "no", {"no": "No", "yes": "Yes"}, label="Constant column", help="Adds a column of 1 (½ if centred)."
    )
    clip: float | None = number(
        None,
        0.01,
        1000.0,
        label="Gradient clip",
        symbol="C",
        scale="log",
        help="Largest norm of one row's gradient. Empty: the bound that the declared features imply (clips nothing).",
    )
    clip_norm: Literal["l1", "l2"] = choice(
        "l1", {"l1": "L1", "l2": "L2"}, label="Clip norm", help="The norm in which the clip C is meant."
    )
    clipping: Literal["gradients", "rows"] = choice(
        "gradients",
        {"gradients": "Gradients", "rows": "Feature rows"},
        label="What is clipped",
        help="Clipping gradients minimises a Huberised loss; clipping rows keeps the logistic loss of scaled rows.",
    )
    smoothness: float | None = number(
        None, 1e-4, 1000.0, label="Smoothness", symbol="L", scale="log", help="Empty: L = R²/4 + 2λ from the bounds."
    )
    smoothness_source: Literal["bounds", "declared", "estimated", "released"] = choice(
        "bounds",
        {
            "bounds": "From the declared bounds",
            "declared": "My own value",
            "estimated": "Estimated from data (not private)",
            "released": "Released privately",
        },
        label="Smoothness L",
        help="Where L comes from. An estimate from the data is not private; a private release spends budget.",
    )
    smoothness_cost: float | None = number(
        None, 1e-6, 50.0, label="Cost of L", symbol="ε_L", scale="log", help="Pure ε that the private release spent."
    )
    start: float = number(0.0, -100.0, 100.0, label="Start", symbol="x₀", help="Every coordinate starts here.")
    initial_gap: float | None = number(
        None,
        1e-6,
        1e6,
        label="Initial gap",
        symbol="E₀",
        scale="log",
        help="A guess of F(x₀) - F*. Empty: the bound that holds for every data set (V₀ ≤ ln 2 at x₀ = 0).",
    )

    @model_validator(mode="after")
    def _smoothness_is_stated(self) -> "LogisticRegression":
        if (self.smoothness is None) != (self.smoothness_source == "bounds"):
            raise ValueError("a smoothness that does not follow from the bounds needs its value, and only then")
        if (self.smoothness_cost is None) != (self.smoothness_source != "released"):
            raise ValueError("a privately released smoothness needs its cost ε_L, and only then")
        if self.smoothness is not None and self.smoothness < 2 * self.regularisation:
            raise ValueError(
                f"smoothness L = {short(self.smoothness, 6)} is below μ = 2λ = {short(2 * self.regularisation, 6)}"
            )
        return self

    @property
    def public(self) -> bool:
        return self.data.public

    def feature_radius(self, norm: Norm) -> float:
        """The declared bound on a scaled row's norm, and the clip where rows are clipped."""
        d, half = self._dimension, 0.5 if self.scaling == "centred" else 1.0
        radius = half * (d if norm == "l1" else math.sqrt(d))
        return min(radius, self._clip_in(norm)) if self.clipping == "rows" else radius

    @property
    def _dimension(self) -> int:
        return len(self.data.facts().bounds) + (self.intercept == "yes")

    def _clip_in(self, norm: Norm) -> float:
        if self.clip is None:
            return math.inf
        # ‖g‖₂ ≤ ‖g‖₁ ≤ √d ‖g‖₂: a clip in one norm bounds the other.
        return self.clip * (math.sqrt(self._dimension) if (norm, self.clip_norm) == ("l1", "l2") else 1.0)

    def facts(self) -> SmoothFacts:
        data, d = self.data.facts(), self._dimension
        radius_l1, radius_l2 = self.feature_radius("l1"), self.feature_radius("l2")
        bounds_smoothness = radius_l2**2 / 4 + 2 * self.regularisation
        gap, lyapunov = self._initial_error(radius_l1, d)
        return SmoothFacts(
            n=data.n,
            d=d,
            released=() if self.smoothness_cost is None else (Laplace(self.smoothness_cost),),
            gradient_bound_l1=min(radius_l1, self._clip_in("l1")),
            gradient_bound_l2=min(radius_l2, self._clip_in("l2")),
            smoothness=bounds_smoothness if self.smoothness is None else self.smoothness,
            strong_convexity=2 * self.regularisation,
            start=self.start,
            initial_gap=gap,
            lyapunov=lyapunov,
        )

    def _initial_error(self, radius_l1: float, d: int) -> tuple[float, float]:
        """Bounds on E₀ and V₀ that hold for every data set, or those that follow from the user's guess of E₀."""
        if self.initial_gap is not None:
            return self.initial_gap, 2 * self.initial_gap
        # F(x₀) ≤ ln(1 + e^{R|x₀|}) + λ‖x₀‖². With λ‖x*‖² ≤ F* ≤ ln 2 (Huberised loss included) and
        # (μ/2)‖x₀ - x*‖² ≤ 2λ‖x₀‖² + 2λ‖x*‖², V₀ ≤ F(x₀) + 2λ‖x₀‖² + λ‖x*‖²; at x₀ = 0 it is just F(0) = ln 2.
        square = self.regularisation * d * self.start**2
        gap = float(np.logaddexp(0.0, radius_l1 * abs(self.start))) + square
        return gap, gap if self.start == 0 else gap + 2 * square + math.log(2)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LogisticProblem":
        data = self.data.load(tables)
        low, high = np.array(data.facts.bounds).T
        features = data.features - low  # the one copy; what follows works in place
        features /= high - low
        np.clip(features, 0.0, 1.0, out=features)  # rounding must not leave the declared box
        constant = 1.0
        if self.scaling == "centred":
            features -= 0.5
            constant = 0.5
        if self.intercept == "yes":
            features = np.column_stack([features, np.full(len(features), constant)])
        norms = np.linalg.norm(features, 1 if self.clip_norm == "l1" else 2, axis=1)
        caps = np.minimum(1.0, (self.clip or math.inf) / np.maximum(norms, 1e-300))
        if self.clipping == "rows":
            features *= caps[:, None]
            caps = np.ones(len(features))
        features *= data.labels[:, None]
        return LogisticProblem(self, features, None if (caps == 1).all() else caps)


class LogisticProblem(SmoothProblem):
    """See `LogisticRegression`.

    signed : (n, d) the rows zᵢuᵢ, whose products with x are the margins.
    caps : (n,) largest allowed |∂loss/∂margin| of each row, min(1, C/‖uᵢ‖), or None if the clip is never active.
        Clipping a linear model keeps convexity: it is gradient descent on the loss that continues linearly below the
        margin ln((1-c)/c), where its slope reaches -c (a Huberised logistic loss).
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("objective_gap", "Excess loss F(x_t) - F*", scale="log", headline=1),
        Metric("objective", "Loss F(x_t)", headline=6),
        Metric("gradient_norm", "Gradient norm ‖∇F(x_t)‖", scale="log"),
        Metric("accuracy", "Training accuracy", headline=7),
    )

    def __init__(self, specification: LogisticRegression, signed: np.ndarray, caps: np.ndarray | None) -> None:
        self.facts = specification.facts()
        self._radius = specification.feature_radius("l2")
        self._regularisation = specification.regularisation
        self._signed = signed
        self._caps = caps

    def mean_gradient(self, x: np.ndarray, batch: Batch, norm: Norm) -> Query:
        x = np.clip(np.nan_to_num(x), -1e100, 1e100)  # a diverged replicate must not turn a margin into NaN
        m = batch.divisor(self.facts.n)
        with np.errstate(over="ignore"):
            total = self._table_sum(x) if batch.indices is None else self._batch_sum(x, batch.indices, batch.taken)
        sensitivity = self.facts.gradient_sensitivity(norm, m, batch.relation)
        return Query(total / -m, sensitivity, norm, batch, batch.relation)

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        return 2 * self._regularisation * x

    def curvature(self) -> Query:
        """λ_max(UᵀU/n), (1,): replacing a row changes it by at most R₂²/n (Weyl, difference of two rank-one PSD)."""
        largest = np.linalg.eigvalsh(self._signed.T @ self._signed / self.facts.n)[-1]
        return Query(np.array([largest]), self._radius**2 / self.facts.n, "l1")

    @property
    def clipped_share(self) -> float:
        """Share of rows whose gradient can reach the clip; a diagnostic."""
        return 0.0 if self._caps is None else float((self._caps < 1).mean())

    def _table_sum(self, x: np.ndarray) -> np.ndarray:
        total = np.zeros_like(x)
        for rows, margins, caps in self._blocks(x):
            total += _slopes(margins, caps) @ rows
        return total

    def _blocks(self, x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
        """Blocks of the table: rows (b, d), their margins (R, b) in a buffer that is reused, caps (b,)."""
        size = max(1, BLOCK // len(x))
        buffer = np.empty((len(x), min(size, self.facts.n)))
        for start in range(0, self.facts.n, size):
            rows = self._signed[start : start + size]
            margins = np.matmul(x, rows.T, out=buffer[:, : len(rows)])
            yield rows, margins, None if self._caps is None else self._caps[start : start + size]

    def _batch_sum(self, x: np.ndarray, indices: np.ndarray, taken: np.ndarray | None) -> np.ndarray:
        total = np.zeros_like(x)
        size = max(1, BLOCK // len(x))
        for start in range(0, indices.shape[1], size):
            chosen = indices[:, start : start + size]
            rows = self._signed[chosen]  # (R, b, d): every replicate has a batch of its own
            margins = np.matmul(rows, x[:, :, None])[:, :, 0]
            slopes = _slopes(margins, None if self._caps is None else self._caps[chosen])
            if taken is not None:
                slopes *= taken[:, start : start + size]
            total += np.matmul(slopes[:, None, :], rows)[:, 0]
        return total

    def evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        x = output["x"]
        with np.errstate(over="ignore", invalid="ignore"):
            objective, gradient, accuracy = self._diagnostics(x)
            return {
                "objective_gap": objective - self.optimum,
                "objective": objective,
                "gradient_norm": np.linalg.norm(gradient, axis=1),
                "accuracy": accuracy,
            }

    def _diagnostics(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """F(x) (R,), its gradient (R, d) and the share of rows on the right side (R,), ties counting half; one pass."""
        loss, signs, total = np.zeros(len(x)), np.zeros(len(x)), np.zeros_like(x)
        for rows, margins, caps in self._blocks(x):
            loss += _losses(margins, caps).sum(axis=1)
            signs += np.sign(margins).sum(axis=1)
            total += _slopes(margins, caps) @ rows
        n, regulariser = self.facts.n, self._regularisation * (x**2).sum(axis=1)
        return loss / n + regulariser, self.regulariser_gradient(x) - total / n, (1 + signs / n) / 2

    @cached_property
    def optimum(self) -> float:
        """F*, by Newton's method with backtracking; a diagnostic."""
        x = np.zeros((1, self.facts.d))
        value, gradient, _ = self._diagnostics(x)
        for _ in range(100):
            step = np.linalg.solve(self._hessian(x), gradient[0])
            decrease = float(gradient[0] @ step)
            if decrease < 1e-16 * value[0]:
                break
            length = 1.0
            while True:
                moved = x - length * step
                new_value, new_gradient, _ = self._diagnostics(moved)
                if new_value[0] <= value[0] - 1e-4 * length * decrease or length < 1e-6:
                    break
                length /= 2
            if length < 1e-6:
                break  # no measurable decrease is left
            x, value, gradient = moved, new_value, new_gradient
        return float(value[0])

    def _hessian(self, x: np.ndarray) -> np.ndarray:
        """(d, d) Hessian at one point x (1, d)."""
        total = np.zeros((self.facts.d, self.facts.d))
        for rows, margins, caps in self._blocks(x):
            unclipped = 1.0 if caps is None else margins >= _knee(caps)
            slopes = _slopes(margins, None)
            total += (rows.T * (slopes * (1 - slopes) * unclipped)) @ rows
        return total / self.facts.n + 2 * self._regularisation * np.eye(self.facts.d)


def _slopes(margins: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
    """min(σ(-s), cap) for margins s, in place: minus the loss's derivative, clipped."""
    np.exp(margins, out=margins)  # overflow to inf is right: that slope is 0
    margins += 1.0
    np.reciprocal(margins, out=margins)
    return margins if caps is None else np.minimum(margins, caps, out=margins)


def _losses(margins: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
    """ln(1 + exp(-s)), continued linearly with slope -cap below the knee."""
    if caps is None:
        return np.log1p(np.exp(-np.abs(margins))) + np.maximum(-margins, 0.0)
    bent = np.maximum(margins, _knee(caps))
    return _losses(bent, None) + caps * (bent - margins)


def _knee(caps: np.ndarray) -> np.ndarray:
    """The margin ln((1-c)/c) at which the slope of the logistic loss reaches -c; -inf for c = 1."""
    with np.errstate(divide="ignore"):
        return np.log((1 - caps) / caps)
