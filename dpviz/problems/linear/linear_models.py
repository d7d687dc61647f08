"""Linear models with an ℓ2 term, clipped row by row: least squares, Huber regression and logistic regression.

The loss φ of a row v depends on the parameters x through one number, its *argument*; the *cap* of the row is the
largest |φ'| that clipping allows (`linear_base`). In the shapes, R is the number of replicates and b that of some rows.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from pydantic import model_validator

from dpviz.datasets.base import NO_TABLES, DatasetSpecification
from dpviz.datasets.synthetic import UniformLinear
from dpviz.errors import UserError
from dpviz.privacy.releases import Norm
from dpviz.problems.base import Metric
from dpviz.problems.linear.linear_base import (
    LinearModel,
    LinearProblem,
    ScaledRows,
    clip_finite,
    gradient_clip_field,
    norms,
)
from dpviz.specification import number

# -------------------------------------------------------------------- a target that is a number: squared and Huber loss

BOTH_NORMS: tuple[Norm, Norm] = ("l1", "l2")


class LeastSquares(LinearModel):
    """F(x) = (1/n) Σ ½ (uᵢᵀx - tᵢ)² + λ‖x‖²; tᵢ is the target, its declared range mapped to [-1, 1] (THEORY.md of the
    accelerated family, 11).

    Two classes are the targets -1 and +1. The slope of this loss is unbounded, so there is always a clip of gradients:
    by default, and if the user's clip is one of rows, the largest norm that any row's gradient can have at x = 0, R₁ in
    the ℓ1 and R₂ in the ℓ2 norm.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.LeastSquares(), dpviz.GradientDescent(iterations=5), epsilon=1).run()
    <Trace of DP-GD: 20 runs, 5 iterations>
    """

    kind: ClassVar[str] = "problems.regression.least_squares"
    title: ClassVar[str] = "Least squares"
    data: DatasetSpecification = UniformLinear()
    clip: float | None = gradient_clip_field("the largest that any row can have at x = 0")

    def largest_loss(self, prediction: float) -> float:
        """Return the largest ½ (uᵀx - t)² of a row with |uᵀx| ≤ prediction, as |t| ≤ 1."""
        return (prediction + 1) ** 2 / 2

    def gradient_bound(self, norm: Norm) -> float:
        """Return the largest norm of one row's clipped gradient, without the regulariser."""
        if self.clip is None or self.clipping == "rows":
            # `build` clips gradients to the largest norm at x = 0, where they are the row times a slope of |t| ≤ 1.
            return self.feature_radius(norm)
        return self.clip_in(norm)

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "RegressionProblem":
        """Load the data, and return the problem, with the cap that the clip implies for each row."""
        (rows, caps, shortened), targets = _regression(self, tables)
        if self.clip is None or self.clipping == "rows":
            # Gradients are clipped to R₁ in the ℓ1 and R₂ in the ℓ2 norm. No row u is longer than these, so that slopes
            # up to R/‖u‖ ≥ 1 are allowed.
            l1_caps, l2_caps = (self.feature_radius(norm) / norms(rows, norm) for norm in BOTH_NORMS)
            caps = np.maximum(np.minimum(l1_caps, l2_caps), 1.0)  # rounding may give less than 1
        return RegressionProblem(self, rows, caps, targets, shortened=shortened, guess=_median_error(targets))


class HuberRegression(LinearModel):
    """F(x) = (1/n) Σ h(uᵢᵀx - tᵢ) + λ‖x‖² with h(r) = ½ r² up to |r| = δ and δ (|r| - δ/2) beyond (Huber 1964).

    tᵢ is the target, its declared range mapped to [-1, 1]; two classes are -1 and +1. No slope exceeds δ, so that no
    row's gradient has a norm above δ R.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.HuberRegression(threshold=0.1), dpviz.GradientDescent(iterations=5), epsilon=1).run()
    <Trace of DP-GD: 20 runs, 5 iterations>
    """

    kind: ClassVar[str] = "problems.regression.huber"
    title: ClassVar[str] = "Huber regression"
    data: DatasetSpecification = UniformLinear()
    threshold: float = number(
        0.25,
        0.01,
        2.0,
        label="Threshold",
        scale="log",
        help="Of the Huber loss: residuals beyond it count linearly. In half widths of the target's range. The "
        "sensitivity grows with it.",
    )

    def largest_loss(self, prediction: float) -> float:
        """Return the largest h(uᵀx - t) of a row with |uᵀx| ≤ prediction, as |t| ≤ 1."""
        return float(_huber(np.array(prediction + 1), np.array(self.threshold)))

    def gradient_bound(self, norm: Norm) -> float:
        """Return the largest norm of one row's clipped gradient, without the regulariser."""
        radius = self.threshold * self.feature_radius(norm)
        return radius if self.clipping == "rows" else min(radius, self.clip_in(norm))

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "HuberProblem":
        """Load the data, and return the problem, with the cap that δ and the clip imply for each row."""
        (rows, caps, shortened), targets = _regression(self, tables)
        # The Huber loss is the squared loss whose slope is clipped at δ.
        caps, guess = np.minimum(caps, self.threshold), _median_error(targets)
        return HuberProblem(self, rows, caps, targets, max_slope=self.threshold, shortened=shortened, guess=guess)


class RegressionProblem(LinearProblem):
    """A least-squares problem with its data; see `LeastSquares`. The arguments of the loss are the residuals uᵢᵀx - tᵢ.

    Clipping turns the squared loss of each row into a Huber loss with the row's cap as its threshold.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("objective_gap", "Excess squared loss F(x_t) - F*", scale="log", headline=1),
        Metric("objective", "Squared loss F(x_t)", headline=6),
        Metric("gradient_norm", "Gradient norm ‖∇F(x_t)‖", scale="log"),
        Metric("absolute_error", "Mean absolute error / range", headline=7),
        Metric("median_guess", "Always guessing the median", headline=8, guess_for="absolute_error"),
    )

    @staticmethod
    def negative_slopes(residuals: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return -φ' = -r (R, b) for residuals r (R, b), clipped to [-cap, cap] with the caps (b,), in place."""
        np.negative(residuals, out=residuals)
        return residuals if caps is None else np.clip(residuals, -caps, caps, out=residuals)

    @staticmethod
    def curvatures(residuals: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return φ'' (R, b) of the clipped loss at residuals (R, b): 1, or 0 where |r| exceeds the row's cap."""
        return np.ones_like(residuals) if caps is None else np.where(np.abs(residuals) <= caps, 1.0, 0.0)

    def sums(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute F(x) (R,), Σ -φ' v (R, d) and the mean absolute error (R,) at x (R, d), in one pass over the rows.

        The error is a share of the target's range [-1, 1], hence half of the mean |uᵀx - t|.
        """
        loss, error, total = np.zeros(len(x)), np.zeros(len(x)), np.zeros_like(x)
        for _, rows, residuals, caps in self._blocks(x):
            loss += _huber(residuals, caps).sum(axis=1)
            error += np.abs(residuals).sum(axis=1)
            total += self.negative_slopes(residuals, caps) @ rows  # last, as it overwrites the residuals
        n, regulariser = self.facts.n, self._regularisation * (x**2).sum(axis=1)
        return loss / n + regulariser, total, error / n / 2


class HuberProblem(RegressionProblem):
    """A Huber regression with its data; see `HuberRegression`."""

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("objective_gap", "Excess Huber loss F(x_t) - F*", scale="log", headline=1),
        Metric("objective", "Huber loss F(x_t)", headline=6),
        *RegressionProblem.metrics[2:],
    )


def _regression(model: LinearModel, tables: Mapping[str, np.ndarray]) -> tuple[ScaledRows, np.ndarray]:
    """Load the data of a regression: return the rows with their caps, as `load_rows` does, and the targets (n,), mapped
    from their declared range to [-1, 1]."""
    scaled_rows, labels = model.load_rows(tables)
    low, high = model.data.facts().target_range or (-1.0, 1.0)  # the declared range; two classes have the labels ±1
    targets = (labels - (low + high) / 2) / ((high - low) / 2)
    return scaled_rows, np.clip(targets, -1.0, 1.0)


def _median_error(targets: np.ndarray) -> float:
    """Return the mean absolute error of the best constant guess, the median, as a share of their range [-1, 1]."""
    return float(np.abs(targets - np.median(targets)).mean()) / 2


def _huber(residuals: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
    """Return (R, b) the loss ½ r² of the residuals r (R, b), continued linearly where |r| exceeds the row's cap
    (b,)."""
    magnitudes = np.abs(residuals)
    clipped = magnitudes if caps is None else np.minimum(magnitudes, caps)
    return np.asarray(clipped * (magnitudes - clipped / 2))


# ------------------------------------------------------------------------------------------- two classes: logistic loss

_LARGEST_EXPONENT = 700.0  # e^700 is a finite number, which a product of exponentials must not exceed
_LARGEST_MARGIN = 600.0  # up to this |margin|, `_shared_exponential` is used; e^600 is finite, too


class LogisticRegression(LinearModel):
    """F(x) = (1/n) Σ ln(1 + exp(-zᵢ uᵢᵀx)) + λ‖x‖² with labels zᵢ = ±1 and features uᵢ scaled by their declared
    bounds.

    >>> import dpviz
    >>> problem = dpviz.LogisticRegression(regularisation=0.1)
    >>> dpviz.Experiment(problem, dpviz.Nesterov(iterations=5), epsilon=1).run()
    <Trace of DP-NAG: 20 runs, 5 iterations>
    """

    kind: ClassVar[str] = "problems.linear_models.logistic_regression"
    title: ClassVar[str] = "Logistic regression"
    curvature: ClassVar[float] = 1 / 4
    has_probabilities: ClassVar[bool] = True

    @model_validator(mode="after")
    def _two_classes(self) -> Self:
        if self.data.facts().target_range is not None:
            raise UserError(
                "The logistic loss needs two classes. Choose the squared or the Huber loss, or another target.",
                title="The target is a number",
            )
        return self

    def largest_loss(self, prediction: float) -> float:
        """Return the largest ln(1 + exp(-z uᵀx)) of a row with |uᵀx| ≤ prediction."""
        return float(np.logaddexp(0.0, prediction))

    def gradient_bound(self, norm: Norm) -> float:
        """Return the largest norm of one row's clipped gradient, without the regulariser: no slope exceeds 1."""
        return min(self.feature_radius(norm), self.clip_in(norm))

    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LogisticProblem":
        """Load the data, and return the problem, with the cap that the clip implies for each row."""
        (rows, caps, shortened), labels = self.load_rows(tables)
        rows *= labels[:, None]  # v = z u, so that the argument of the loss is the margin
        active_caps = np.minimum(caps, 1.0) if (caps < 1).any() else None  # no slope exceeds 1
        majority = (1 + abs(float(labels.mean()))) / 2  # the share of the larger class
        return LogisticProblem(self, rows, active_caps, shortened=shortened, guess=majority)


class LogisticProblem(LinearProblem):
    """A logistic regression with its data; see `LogisticRegression`. The arguments of the loss are the margins zᵢuᵢᵀx.

    Clipping a row with cap c replaces its loss by one that continues linearly below the margin ln((1-c)/c), where its
    slope reaches -c (a Huberised logistic loss).
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("objective_gap", "Excess loss F(x_t) - F*", scale="log", headline=1),
        Metric("objective", "Loss F(x_t)", headline=6),
        Metric("gradient_norm", "Gradient norm ‖∇F(x_t)‖", scale="log"),
        Metric("accuracy", "Training accuracy", headline=7, better="higher"),
        Metric("majority", "Always guessing the majority", headline=8, better="higher", guess_for="accuracy"),
    )

    @staticmethod
    def negative_slopes(margins: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return min(σ(-s), cap) (R, b) for margins s (R, b), with σ(t) = 1/(1 + e^-t): minus the derivative of the
        loss, clipped. The result overwrites the margins."""
        np.exp(margins, out=margins)  # overflow to inf is correct: that slope is 0
        margins += 1.0
        np.reciprocal(margins, out=margins)
        return margins if caps is None else np.minimum(margins, caps, out=margins)

    @staticmethod
    def curvatures(margins: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return the second derivatives σ(s)(1 - σ(s)) (R, b) at margins s (R, b), 0 below the `_knee` of the cap."""
        unclipped = 1.0 if caps is None else margins >= _knee(caps)  # first, as the next line overwrites the margins
        sigma = LogisticProblem.negative_slopes(margins, None)  # σ(-s)
        return np.asarray(sigma * (1 - sigma) * unclipped)

    def sums(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute F(x) (R,), Σ -φ' v (R, d) and the share of correctly classified rows (R,) at x (R, d), in one pass
        over the rows.

        A margin is positive for a correct class and negative for a wrong one; a row with margin 0 counts half.
        """
        # By Cauchy's inequality no |margin| exceeds R₂ max ‖x‖₂. It is NaN if x is, and the comparison is then False.
        largest_margin = self._radius * float(np.sqrt((x * x).sum(axis=1)).max())
        if self._caps is None and largest_margin < _LARGEST_MARGIN:
            loss, signs, total = self._shared_exponential(x, largest_margin)
        else:
            loss, signs, total = np.zeros(len(x)), np.zeros(len(x)), np.zeros_like(x)
            for _, rows, margins, caps in self._blocks(x):
                loss += _losses(margins, caps).sum(axis=1)
                signs += np.sign(margins).sum(axis=1)
                total += self.negative_slopes(margins, caps) @ rows  # last, as it overwrites the margins
        n, regulariser = self.facts.n, self._regularisation * (x**2).sum(axis=1)
        return loss / n + regulariser, total, (1 + signs / n) / 2

    def correct_share(self, x: np.ndarray) -> np.ndarray:
        _, _, correct_share = self.sums(clip_finite(x))
        return correct_share

    def _shared_exponential(self, x: np.ndarray, largest_margin: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute Σ ln(1 + e^-s) (R,), Σ sign(s) (R,) and Σ σ(-s) v (R, d) over all rows v, whose margins s = ⟨v, x⟩ at
        x (R, d) have |s| ≤ `largest_margin`, without clipping.

        Loss and slope share one exponential per margin: ln(1 + e^-s) = ln(1 + e^s) - s and σ(-s) = 1/(1 + e^s). Σ s is
        ⟨x, Σ v⟩. Σ ln(1 + e^s) is computed as the logarithms of products of many factors 1 + e^s, as many as cannot
        overflow. That changes a mean loss by less than 1e-14 and saves a third of the time.
        """
        # A product of 2^folds factors cannot overflow, as ln(1 + e^s) ≤ largest_margin + 1.
        folds = min(6, int(math.log2(_LARGEST_EXPONENT / (largest_margin + 1))))
        loss, signs, total, buffer = np.zeros(len(x)), np.zeros(len(x)), np.zeros_like(x), np.empty(0)
        for _, rows, margins, _ in self._blocks(x):
            if not buffer.size:
                buffer = np.empty(margins.size)  # the first block is the longest
            workspace = buffer[: margins.size].reshape(margins.shape)
            signs += np.sign(margins, out=workspace).sum(axis=1)
            np.exp(margins, out=margins)
            margins += 1.0  # now 1 + e^s
            # Each fold multiplies the first half of the columns by the second half, while their number is even.
            products = margins
            for _ in range(folds):
                half, is_odd = divmod(products.shape[1], 2)
                if is_odd:
                    break
                products = np.multiply(products[:, :half], products[:, half:], out=workspace[:, :half])
            loss += np.log(products).sum(axis=1)
            np.reciprocal(margins, out=margins)  # now σ(-s)
            total += margins @ rows
        return loss - x @ self._column_sums, signs, total

    @cached_property
    def _column_sums(self) -> np.ndarray:
        """Σ v (d,) over all rows."""
        return np.asarray(self._rows.sum(axis=0))


def _losses(margins: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
    """Return the losses ln(1 + exp(-s)) (R, b) of margins s (R, b), continued linearly where s is below the `_knee` of
    the row's cap (b,)."""
    if caps is None:
        return np.log1p(np.exp(-np.abs(margins))) + np.maximum(-margins, 0.0)
    clipped = np.maximum(margins, _knee(caps))
    return _losses(clipped, caps=None) + caps * (clipped - margins)


def _knee(caps: np.ndarray) -> np.ndarray:
    """Return for caps c (b,) the margins ln((1-c)/c) at which the slope of the logistic loss is -c; -inf for c = 1."""
    with np.errstate(divide="ignore"):
        return np.log((1 - caps) / caps)
