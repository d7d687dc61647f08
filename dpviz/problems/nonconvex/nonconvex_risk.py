"""Smooth risks f(x) = (1/n) Σ φ(⟨vᵢ, x⟩) + r(x) that are not convex, and the queries of their values, gradients and
Hessians. The rows vᵢ have norm at most 1, so that one row can change each of these by a bounded amount only.

In the shapes, R is the number of replicates (simulated runs), R' the number of those that a query is for, n that of all
rows, and b that of the rows of a block.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dpviz.checkpoints import checkpoint, checkpointed_slices
from dpviz.privacy.batches import Batch
from dpviz.privacy.matrix_products import MatrixQuery
from dpviz.privacy.releases import Query
from dpviz.problems.base import Facts, Metric, Problem, evaluate_in_slices
from dpviz.problems.linear.linear_base import GATHERED, LinearSums, clip_finite
from dpviz.problems.nonconvex.symmetric import Shape, lanczos, packed

Loss = Literal["logistic", "sigmoid", "robust"]
UNIT = 1 + 1e-12  # the largest norm of a row, after rounding
_HALVINGS = 52  # of an interval of length 1, until it is as short as rounding
_MISJUDGED = 1e-6  # probability that `_eigenvalue_bounds` is above an eigenvalue
_EIGENVALUES = 4096  # cached eigenvalues at most
_AT_ONCE = 20  # Hessians that a diagnostic forms at once
HALVED = 32  # columns from which on half a Hessian and its mirror image are faster than the whole
MAX_COLUMNS = 300  # with more columns diagnostics form no Hessian, but compute PRODUCTS products with it
PRODUCTS = 60
# Declared costs, from which slices follow: of a row's gradient, of each multiplication in it, and of a row's loss; of
# each number of a row that is weighted for a Hessian, and of each entry of half a row's Hessian.
SECONDS_PER_ROW, SECONDS_PER_PRODUCT, SECONDS_PER_LOSS = 3e-9, 0.075e-9, 2.5e-9
SECONDS_PER_WEIGHTED, SECONDS_PER_SQUARE = 0.8e-9, 0.024e-9


class Assumed(NamedTuple):
    """A constant whose declared value is an assumption: it is smaller than `implied`, which holds for every data set.

    symbol : the name of the constant in formulas.
    """

    symbol: str
    declared: float
    implied: float


@dataclass(frozen=True)
class NonconvexFacts(Facts):
    """Facts of a smooth, non-convex risk f: the mean of n rows' losses, plus a penalty that does not depend on data.

    The three sensitivities and the value range are n times the largest change that one replaced row can cause.
    loss : kind of the loss φ. gradient_sensitivity : of the mean gradient, in ℓ2, at any point.
    hessian_sensitivity : of the mean Hessian, in the Frobenius norm. curvature_sensitivity : of the Hessian's smallest
        eigenvalue. value_range : of the mean loss at the starting point x₀.
    smoothness : G, an upper bound on the largest eigenvalue of the Hessian of f. hessian_lipschitz : M, the Lipschitz
        constant of that Hessian. curvature_floor : lower bound on its eigenvalues, for every data set and point.
    gap : bound on f(x₀) - inf f. lowest : lower bound on inf f.
    start : (d,) the starting point x₀; () for 0.
    assumed : those of `smoothness`, `hessian_lipschitz` and `gap` that are declared smaller than what holds for every
        data set. Bounds on the error hold only if the assumptions do; privacy never depends on them.
    """

    loss: Loss = "logistic"
    gradient_sensitivity: float = 2.0
    hessian_sensitivity: float = 1.0
    curvature_sensitivity: float = 1.0
    value_range: float = 0.0
    smoothness: float = 1.0
    hessian_lipschitz: float = 1.0
    curvature_floor: float = -1.0
    gap: float = 1.0
    lowest: float = 0.0
    start: tuple[float, ...] = ()
    assumed: tuple[Assumed, ...] = ()

    @property
    def gradient_bound(self) -> float:
        """The largest norm of one row's gradient: half of the sensitivity, the diameter of the ball of all such
        gradients."""
        return self.gradient_sensitivity / 2

    def starting_point(self, replicates: int) -> np.ndarray:
        """Return x₀ (R, d), the same for all R replicates; it does not depend on data."""
        return np.tile(np.array(self.start) if self.start else np.zeros(self.d), (replicates, 1))

    def gradient_sensitivity_at(self, lengths: np.ndarray) -> np.ndarray:
        """Return n times the sensitivity of the mean gradient at points w of norms `lengths` (R',); (R',) or a scalar.

        It is the diameter of the set of all gradients that a row of norm at most 1 can have at w, and no larger than
        `gradient_sensitivity`, which holds at all points.
        """
        if self.loss == "logistic":
            return np.minimum(logistic_diameter(lengths), self.gradient_sensitivity)
        if self.loss == "robust":
            # A row x with u = ⟨x, w⟩ has the gradient φ'(u) x with |φ'(u)| ≤ |u|. The vectors u x with ‖x‖ ≤ 1 are in
            # the ball around w/2 that has 0 on its surface. Scaled down towards 0 they stay in this ball, whose
            # diameter is ‖w‖.
            return np.minimum(lengths, self.gradient_sensitivity)
        return np.asarray(self.gradient_sensitivity)


def logistic_diameter(lengths: np.ndarray) -> np.ndarray:
    """Compute S(ϱ) (R,), the diameter of the set {σ(⟨x, w⟩) x : ‖x‖ ≤ 1} for a w of norm ϱ = `lengths` (R,), with
    σ(t) = 1/(1 + e⁻ᵗ). It is the largest 2 √(1 - c²) σ(ϱc) of all c in [0, 1].

    S is no smaller: two vectors x of norm 1 with ⟨x, w⟩ = ϱc that are mirror images about w give two points of the set
    at this distance. S is no larger: the best c solves ϱ (1 - σ(ϱc)) (1 - c²) = c, and with it the whole set is in the
    ball of diameter S around the point c σ(ϱc) w/ϱ. Among the x with the same margin t = ⟨x, w⟩ those of norm 1 are
    farthest from this point. The derivative of their squared distance with respect to t has the sign of
    ϱ - c σ(ϱc) (1 + e⁻ᵗ)(1 + eᵗ + t), which falls in t; so the distance is largest where this is 0, at t = ϱc.
    """
    lengths = np.nan_to_num(np.asarray(lengths, dtype=float), nan=np.inf)
    low, high = np.zeros_like(lengths), np.ones_like(lengths)  # the best c is between them
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            is_below_best = lengths * (1 - middle**2) > middle * (1 + np.exp(lengths * middle))  # 1 - σ = 1/(1 + eᵗ)
            low, high = np.where(is_below_best, middle, low), np.where(is_below_best, high, middle)
        diameters = 2 * np.sqrt(1 - high**2) / (1 + np.exp(-lengths * high))
    # Rounded up, as it is a sensitivity; 2 is the limit for ϱ → ∞, which S never exceeds.
    return np.where(np.isfinite(lengths), np.minimum(2.0, diameters * UNIT), 2.0)


class Penalty(ABC):
    """The term r(x) of a risk that does not depend on data and needs no noise: a sum of one function of each
    coordinate, nowhere negative."""

    @property
    @abstractmethod
    def curvature_range(self) -> tuple[float, float]:
        """Smallest and largest second derivative of one coordinate's function, at any point."""

    @property
    @abstractmethod
    def max_third_derivative(self) -> float:
        """Largest absolute third derivative of one coordinate's function."""

    @abstractmethod
    def value(self, x: np.ndarray) -> np.ndarray:
        """Return r (R,) at x (R, d)."""

    @abstractmethod
    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradients of r (R, d) at x (R, d)."""

    @abstractmethod
    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return the diagonals (R, d) of the Hessians of r at x (R, d); their other entries are 0."""


# Metrics of the first two coordinates of the released points, so that downloads have the path of every run.
COORDINATES = tuple(
    Metric(f"coordinate_{number}", f"Coordinate w{sign} of x_t", released=True, better="")
    for number, sign in ((1, "₁"), (2, "₂"))
)


class NonconvexRisk(LinearSums, Problem):
    """A risk f(x) = (1/n) Σ φ(⟨vᵢ, x⟩) + r(x) with its data. The numbers ⟨vᵢ, x⟩ are the arguments of the loss φ.

    rows : (n, d) the vᵢ, of norm at most 1. penalty : r.
    shortened : share of the rows that were longer before they were shortened to norm 1; a diagnostic.

    Subclasses define φ and its constants:
    loss : kind of the loss. max_slope : largest |φ'|. max_third_derivative : largest |φ'''|. floor : inf φ.
    curvature_range : smallest and largest φ'', made to include 0, as the Hessian φ'' vvᵀ of a row v = 0 is 0.
    labelled : True if vᵢ is the row of features times its label ±1.

    `self._blocks(x)` yields the rows in blocks of b: their slice, rows (b, d), arguments (R, b) at x (R, d), and None.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("objective", "Objective f(x_t)", headline=1),
        Metric("gradient_norm", "Gradient norm ‖∇f(x_t)‖", scale="log", headline=2),
        Metric(
            "smallest_eigenvalue", "Smallest eigenvalue λ_min(∇²f(x_t))", headline=3, cost="expensive", better="higher"
        ),
    )
    loss: ClassVar[Loss]
    max_slope: ClassVar[float]
    curvature_range: ClassVar[tuple[float, float]]
    max_third_derivative: ClassVar[float]
    floor: ClassVar[float] = 0.0
    labelled: ClassVar[bool] = True
    facts: NonconvexFacts

    def __init__(self, facts: NonconvexFacts, penalty: Penalty, rows: np.ndarray, shortened: float = 0.0) -> None:
        n, d = rows.shape
        row_seconds = SECONDS_PER_ROW + SECONDS_PER_PRODUCT * d + SECONDS_PER_LOSS
        super().__init__(rows, caps=None, offsets=None, seconds=n * row_seconds)  # no gradient is clipped
        if not np.linalg.norm(rows, axis=1).max() <= UNIT:  # true of NaN, too
            raise ValueError("a row is longer than 1: no sensitivity would hold")
        self.facts, self.penalty = facts, penalty
        self.shortened_share = shortened
        self._eigenvalues: dict[bytes, float] = {}

    @staticmethod
    @abstractmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and the largest φ (R,) that a row of norm at most 1 can have at points of norms `lengths`
        (R,)."""

    @staticmethod
    @abstractmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        """Return φ (R, b) at the arguments (R, b), in a new array."""

    @staticmethod
    @abstractmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return φ'' (R, b) at the arguments (R, b). The result may overwrite the arguments."""

    # --------------------------------------------------------------------------------------------------------- queries

    def mean_gradient(self, x: np.ndarray, batch: Batch | None = None, at_state: bool = False) -> Query:
        """Return the query of the mean of the rows' gradients (R', d) at x (R', d), without the penalty, in ℓ2.

        batch : the rows to use; None for all. at_state : use the sensitivity that holds at x, which is public, in place
            of the one that holds at all points and is larger.
        """
        total = self._sum(x, batch)  # Σ -φ' v; the gradient has the opposite sign
        sensitivity: float | np.ndarray = self.facts.gradient_sensitivity
        if at_state:
            sensitivity = self.facts.gradient_sensitivity_at(np.linalg.norm(clip_finite(x), axis=1))
        m = self._divisor(batch)
        return Query(total / -m, sensitivity=sensitivity / m, norm="l2", batch=batch)

    def hessian(self, x: np.ndarray, batch: Batch | None = None, shape: Shape = "goe") -> Query:
        """Return the query of the mean of the rows' Hessians at x (R', d), without the penalty, in ℓ2.

        Its value (R', d(d+1)/2) has the upper triangles of the matrices, `packed` for this shape of noise.
        batch : the rows to use; None for all.
        """
        m = self._divisor(batch)
        triangles = packed(self._hessian_sum(x, batch), shape)
        return Query(triangles / m, sensitivity=self.facts.hessian_sensitivity / m, norm="l2", batch=batch)

    def hessian_products(self, x: np.ndarray) -> MatrixQuery:
        """Return the query of products of the mean of the rows' Hessians at x (R', d), without the penalty, with
        directions.

        The mean Hessian is (1/n) Σ φ'' vvᵀ, so a product with a direction p is (1/n) Σ φ'' ⟨v, p⟩ v: it takes two
        multiplications with the table and no (d, d) matrix. The second derivatives φ'' (R', n) are computed once.
        """
        with np.errstate(over="ignore"):  # copies, as `_blocks` reuses the array of the arguments
            curvatures_by_block = [
                self.curvatures(arguments.copy()) for _, _, arguments, _ in self._blocks(clip_finite(x))
            ]

        def times(directions: np.ndarray) -> np.ndarray:
            """Return the products (R', d) of the mean Hessians with directions p (R', d)."""
            total = np.zeros_like(directions)
            blocks = zip(self._blocks(directions), curvatures_by_block, strict=True)  # the same blocks
            for (_, rows, weights, _), curvatures in blocks:
                weights *= curvatures  # ⟨v, p⟩ for the rows v of this block, now times φ''
                total += weights @ rows
            return total / self.facts.n

        return MatrixQuery(times, self.facts.d, sensitivity=self.facts.hessian_sensitivity / self.facts.n)

    def mean_value(self, x: np.ndarray) -> Query:
        """Return the query of the mean of the rows' losses (R', 1) at x (R', d), without the penalty, in ℓ2.

        The sensitivity is the range of losses that a row can have at x, over n.
        """
        x = clip_finite(x)
        lengths = np.linalg.norm(x, axis=1)
        low, high = self.extremes(lengths)
        total = np.zeros(len(x))
        for _, _, arguments, _ in self._blocks(x):
            np.clip(arguments, -lengths[:, None], lengths[:, None], out=arguments)  # rounding must not widen the range
            total += self.losses(arguments).sum(axis=1)
        return Query((total / self.facts.n)[:, None], sensitivity=(high - low) / self.facts.n, norm="l2")

    def decrease(self, x: np.ndarray, directions: np.ndarray, steps: np.ndarray) -> Query:
        """Return the query of the mean decrease of f per step size, (f(x) - f(x + step · direction)) / step, for k step
        sizes; (R', k), with the penalty, in ℓ∞.

        x, directions : (R', d). steps : (R', k), positive. As |φ'| is bounded and rows have norm at most 1, each row's
            decrease is at most max_slope · ‖direction‖. It is clipped to that, because rounding may exceed it where two
            large losses are subtracted.
        """
        x, directions = clip_finite(x), clip_finite(directions)
        max_decrease = self.max_slope * np.linalg.norm(directions, axis=1)
        total = np.zeros(steps.shape)
        for _, rows, arguments, _ in self._blocks(x):
            checkpoint()
            changes, losses = directions @ rows.T, self.losses(arguments)  # changes of the arguments per step size
            for k in range(steps.shape[1]):
                step = steps[:, k, None]
                row_decreases = losses - self.losses(arguments + step * changes)
                row_decreases /= step
                np.clip(row_decreases, -max_decrease[:, None], max_decrease[:, None], out=row_decreases)
                total[:, k] += row_decreases.sum(axis=1)
        new_x = x[:, None] + steps[:, :, None] * directions[:, None]
        new_penalty = self.penalty.value(new_x.reshape(-1, x.shape[1])).reshape(steps.shape)
        penalty_decrease = (self.penalty.value(x)[:, None] - new_penalty) / steps
        sensitivity = 2 * max_decrease / self.facts.n  # from one end of the clipped range to the other
        return Query(total / self.facts.n + penalty_decrease, sensitivity, norm="linf")

    def smallest_eigenvalue(self, x: np.ndarray) -> Query:
        """Return the query of the smallest eigenvalue (R', 1) of the Hessian of f at x (R', d), with the penalty, in
        ℓ2: one number, which needs less noise than a matrix."""
        sensitivity = self.facts.curvature_sensitivity / self.facts.n
        return Query(self._smallest_eigenvalues(x)[:, None], sensitivity, norm="l2")

    # ----------------------------------------------------------------------------------------- parts that need no noise

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient of the penalty (R', d) at x (R', d)."""
        return self.penalty.gradient(clip_finite(x))

    def regulariser_hessian(self, x: np.ndarray) -> np.ndarray:
        """Return the diagonal (R', d) of the penalty's Hessian at x (R', d); its other entries are 0."""
        return self.penalty.hessian(clip_finite(x))

    # ------------------------------------------------------------------------------------------------------ diagnostics

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute the metrics (R,) at the outputs {"x": (R, d)}; the smallest eigenvalue only if `expensive`."""
        diagnostics = evaluate_in_slices(self._evaluate_cheap, output, self._seconds)
        if expensive:
            diagnostics["smallest_eigenvalue"] = self._cached_eigenvalues(output["x"])
        return diagnostics

    def correct_share(self, x: np.ndarray) -> np.ndarray | None:
        if not self.labelled:
            return None
        x = clip_finite(x)
        signs = np.zeros(len(x))
        for _, _, margins, _ in self._blocks(x):
            signs += np.sign(margins).sum(axis=1)  # a margin is positive for a correct class, negative for a wrong one
        return (1 + signs / self.facts.n) / 2

    def _evaluate_cheap(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute all diagnostics (R,) but the smallest eigenvalue, at the outputs {"x": (R, d)}."""
        x = clip_finite(output["x"])
        loss, total = np.zeros(len(x)), np.zeros_like(x)
        for _, rows, arguments, _ in self._blocks(x):
            loss += self.losses(arguments).sum(axis=1)
            with np.errstate(over="ignore"):
                total += self.negative_slopes(arguments, caps=None) @ rows  # last, as it overwrites the arguments
        self._remember(x, total)  # for the next gradient
        gradient = self.penalty.gradient(x) - total / self.facts.n
        diagnostics = {
            "objective": loss / self.facts.n + self.penalty.value(x),
            "gradient_norm": np.linalg.norm(gradient, axis=1),
        }
        for index, metric in enumerate(COORDINATES[: x.shape[1]]):
            if metric in self.metrics:  # only `RobustRisk` has them
                diagnostics[metric.name] = x[:, index].copy()
        return diagnostics

    def _cached_eigenvalues(self, x: np.ndarray) -> np.ndarray:
        """Return the smallest eigenvalue (R,) of the Hessian of f at x (R, d), or a lower bound close to it.

        It is computed at new points only, as it is expensive, and replicates that have ended stay where they are.
        """
        keys = [point.tobytes() for point in x]
        with self._lock:
            by_key = {key: self._eigenvalues[key] for key in keys if key in self._eigenvalues}
        # One index for each new point, although several replicates may be there.
        new_indices = list({key: index for index, key in enumerate(keys) if key not in by_key}.values())
        compute = self._smallest_eigenvalues if self.facts.d <= MAX_COLUMNS else self._eigenvalue_bounds
        for start in range(0, len(new_indices), _AT_ONCE):
            part = new_indices[start : start + _AT_ONCE]
            values = compute(x[part])
            by_key |= {keys[index]: float(value) for index, value in zip(part, values, strict=True)}
        with self._lock:
            self._eigenvalues |= by_key
            while len(self._eigenvalues) > _EIGENVALUES:
                oldest = next(iter(self._eigenvalues))  # dictionaries keep the order of insertion
                del self._eigenvalues[oldest]
        return np.array([by_key[key] for key in keys])

    def _smallest_eigenvalues(self, x: np.ndarray) -> np.ndarray:
        """Compute the smallest eigenvalues (R,) of the Hessians of f at x (R, d), from these matrices (R, d, d)."""
        matrices = self._hessian_sum(x, batch=None)
        matrices /= self.facts.n
        diagonal = np.arange(self.facts.d)
        matrices[:, diagonal, diagonal] += self.penalty.hessian(clip_finite(x))
        return np.linalg.eigvalsh(matrices)[:, 0]

    def _eigenvalue_bounds(self, x: np.ndarray) -> np.ndarray:
        """Compute lower bounds (R,), close to the smallest eigenvalues of the Hessians of f at x (R, d), from products.

        They are diagnostics only: their sensitivity is unknown.
        """
        products, diagonal = self.hessian_products(x), self.penalty.hessian(clip_finite(x))
        # The same start each time, so that a point always has the same bound.
        start = np.tile(np.random.default_rng(0).standard_normal(self.facts.d), (len(x), 1))
        # The penalty's Hessian is diagonal, and is added to that of the losses.
        _values, lower_bounds, _vectors = lanczos(
            lambda v: products.times(v) + diagonal * v, start, steps=PRODUCTS, failure=_MISJUDGED
        )
        return lower_bounds

    # --------------------------------------------------------------------------------------------------- sums over rows

    def _divisor(self, batch: Batch | None) -> int:
        """Return the number by which a sum over the batch, or over all rows without a batch, is divided for a mean."""
        return self.facts.n if batch is None else batch.divisor(self.facts.n)

    def _hessian_sum(self, x: np.ndarray, batch: Batch | None) -> np.ndarray:
        """Compute Σ φ'' vvᵀ (R, d, d) at x (R, d) over the rows of each replicate's batch; None for all rows.

        With many columns the sum is computed as SᵀS, of which NumPy computes half and mirrors it. The rows of S are the
        v, scaled by √(φ'' - lower) with the smallest φ'' `lower`, which may be negative. Then lower · Σ vvᵀ over the
        same rows must be added; for a batch this sum is not known, so that its S is used only if lower = 0.
        """
        x, lower, d = clip_finite(x), self.curvature_range[0], self.facts.d
        total = np.zeros((len(x), d, d))
        if batch is not None and not batch.whole:
            indices = batch.indices
            if indices is None:
                raise ValueError("a block of the table is no batch of single rows")
            self._check_rows(indices, marked=None)  # refuses a batch of another table
            is_halved = d >= HALVED and not lower
            blocks = self._batch_blocks(x, indices)
        else:
            is_halved = d >= HALVED
            if is_halved and lower:
                total += lower * self._gram
            blocks = ((slice(None), rows, arguments) for _, rows, arguments, _ in self._blocks(x))
        for replicates, rows, arguments in blocks:
            with np.errstate(over="ignore"):  # where the square of an argument is inf, φ'' is rightly 0
                weights = self.curvatures(arguments)
            if is_halved:
                weights = np.sqrt(np.maximum(weights - lower, 0.0))  # rounding may give less than `lower`
            scaled = np.empty_like(rows)
            for matrix, row_weights in zip(total[replicates], weights, strict=True):  # each matrix a view of `total`
                np.multiply(rows, row_weights[:, None], out=scaled)
                matrix += scaled.T @ (scaled if is_halved else rows)
            checkpoint()
        return total

    @cached_property
    def _gram(self) -> np.ndarray:
        """Σ vvᵀ (d, d) over all rows."""
        n, d = self._rows.shape
        row_seconds = SECONDS_PER_ROW + SECONDS_PER_WEIGHTED * d + SECONDS_PER_SQUARE * d**2
        parts = (self._rows[part] for part in checkpointed_slices(n, row_seconds))
        return np.sum([rows.T @ rows for rows in parts], axis=0)

    def _batch_blocks(self, x: np.ndarray, indices: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield the replicates' batches, given by indices (R, m), one after the other in blocks of b rows: the slice of
        the replicate, rows (b, d), and their arguments (1, b) at its x."""
        size = max(1, GATHERED // x.shape[1])
        for r, batch_rows in enumerate(indices):
            for start in range(0, len(batch_rows), size):
                rows = self._rows[batch_rows[start : start + size]]
                yield slice(r, r + 1), rows, x[r : r + 1] @ rows.T
