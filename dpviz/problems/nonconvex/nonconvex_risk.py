"""Non-convex risks: rows of norm at most 1, a loss of one number per row, and the queries to them."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dpviz.checkpoints import checkpoint, slices
from dpviz.privacy.batches import Batch
from dpviz.privacy.matrix_products import MatrixQuery
from dpviz.privacy.releases import Query
from dpviz.problems.base import Facts, Metric, Problem, evaluated_in_slices
from dpviz.problems.linear.linear_base import GATHERED, LinearSums, bounded
from dpviz.problems.nonconvex.symmetric import Shape, lanczos, packed

Loss = Literal["logistic", "sigmoid", "robust"]
UNIT = 1 + 1e-12  # the largest norm of a row, after rounding
_HALVINGS = 52
_MISJUDGED = 1e-6  # probability that an eigenvalue is below the bound of a diagnostic, with many columns
_EIGENVALUES, _AT_ONCE = (
    4096,
    20,
)  # largest number of cached eigenvalues, and of Hessians that a diagnostic forms at once
HALVED = 32  # columns from which on half a Hessian and its mirror image are faster than the whole
MOST_COLUMNS, PRODUCTS = 300, 60  # largest Hessians that diagnostics form; number of products with larger ones
# Slices follow from these: a row's gradient, each product in it, its loss; each number of a row that is weighted for a
# Hessian, and each entry of half a Hessian.
SECONDS_PER_ROW, SECONDS_PER_PRODUCT, SECONDS_PER_LOSS = 3e-9, 0.075e-9, 2.5e-9
SECONDS_PER_WEIGHTED, SECONDS_PER_SQUARE = 0.8e-9, 0.024e-9


class Assumed(NamedTuple):
    """A declared constant that is smaller than the one that follows from the loss for every data set."""

    symbol: str
    declared: float
    follows: float


@dataclass(frozen=True)
class NonconvexFacts(Facts):
    """Facts of a smooth, non-convex mean of n functions of rows of norm at most 1, plus a term without data.

    gradient_sensitivity, hessian_sensitivity, curvature_sensitivity : n times the largest change by one replaced row:
        of the mean gradient, in ℓ2, at any point; of the Hessian, in the Frobenius norm; of its smallest eigenvalue.
    gradient_bound : largest norm of one row's gradient. value_range : n times the largest change by one replaced row of
        the value at the starting point.
    smoothness : G, an upper bound on the Hessian's largest eigenvalue. hessian_lipschitz : M, the Lipschitz constant of
        the Hessian. curvature_floor : lower bound on the eigenvalues of the Hessian, for every data set and point.
    gap : bound on f(x₀) - inf f. lowest : lower bound on inf f.
    start : (d,) the starting point; () for 0.
    assumed : of `smoothness`, `hessian_lipschitz` and `gap`, those that are declared and do not follow. Bounds on the
        error hold if these do; privacy never depends on them.
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
        """The largest norm of one row's gradient."""
        return self.gradient_sensitivity / 2

    def starting_point(self, replicates: int) -> np.ndarray:
        """Return (R, d) the data-independent x₀, the same for every replicate."""
        return np.tile(np.array(self.start) if self.start else np.zeros(self.d), (replicates, 1))

    def gradient_sensitivity_at(self, lengths: np.ndarray) -> np.ndarray:
        """Return n times the sensitivity of the mean gradient at points of these norms (R',), at most that anywhere."""
        if self.loss == "logistic":
            return np.minimum(logistic_diameter(lengths), self.gradient_sensitivity)
        # |φ'(u)| ≤ |u|, and the vectors u x, u = ⟨x, w⟩, ‖x‖ ≤ 1, lie in the ball around w/2 that has 0 on its surface:
        # scaled down towards 0 they stay in it. Its diameter is ‖w‖.
        return np.minimum(lengths if self.loss == "robust" else np.inf, self.gradient_sensitivity)


def logistic_diameter(lengths: np.ndarray) -> np.ndarray:
    """Compute S(ϱ) (R,), the diameter of {σ(⟨x, w⟩) x : ‖x‖ ≤ 1} for ‖w‖ = ϱ (R,): max over c of 2 √(1 - c²) σ(ϱc).

    That is a distance between mirror images, so S is no smaller. It is no larger: with the best c, which solves ϱ (1 -
    σ(ϱc)) (1 - c²) = c, all of the set is in the ball of diameter S around c σ(ϱc) w/ϱ. For of the rows with one margin
    t those of norm 1 are farthest from there, and the derivative of their squared distance in t has the sign of ϱ - c
    σ(ϱc) (1 + e⁻ᵗ)(1 + eᵗ + t), which falls in t: the distance is largest where that is 0, at t = ϱc.
    """
    lengths = np.nan_to_num(np.asarray(lengths, dtype=float), nan=np.inf)
    low, high = np.zeros_like(lengths), np.ones_like(lengths)
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            rises = lengths * (1 - middle**2) > middle * (1 + np.exp(lengths * middle))
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        diameters = 2 * np.sqrt(1 - high**2) / (1 + np.exp(-lengths * high))
    return np.where(np.isfinite(lengths), np.minimum(2.0, diameters * UNIT), 2.0)


class Penalty(ABC):
    """The term of a risk without data, a sum over the coordinates. It needs no noise, and is nowhere negative."""

    @property
    @abstractmethod
    def bends(self) -> tuple[float, float]:
        """Smallest and largest second derivative of one coordinate's part."""

    @property
    @abstractmethod
    def third(self) -> float:
        """Largest third derivative of one coordinate's part."""

    @abstractmethod
    def value(self, x: np.ndarray) -> np.ndarray:
        """Return values (R,) at x (R, d)."""

    @abstractmethod
    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return gradients (R, d) at x (R, d)."""

    @abstractmethod
    def hessian(self, x: np.ndarray) -> np.ndarray:
        """Return the diagonals (R, d) of the Hessians at x (R, d), which are diagonal."""


# The first two coordinates of the released points, so that downloads have the path of every run.
PLACE = tuple(
    Metric(f"coordinate_{number}", f"Coordinate w{sign} of x_t", released=True, better="")
    for number, sign in ((1, "₁"), (2, "₂"))
)


class NonconvexRisk(LinearSums, Problem):
    """f(x) = (1/n) Σ φ(⟨vᵢ, x⟩) + r(x); the arguments of the loss φ are ⟨v, x⟩.

    rows : (n, d), of norm at most 1. penalty : r. shortened : share of the rows that were longer; a diagnostic.
    steepest : largest |φ'|. bends : smallest and largest φ'' of any row, one of norm 0 included. third : largest third
        derivative. floor : inf φ. labelled : whether vᵢ is the row times its label.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("objective", "Objective f(x_t)", headline=1),
        Metric("gradient_norm", "Gradient norm ‖∇f(x_t)‖", scale="log", headline=2),
        Metric(
            "smallest_eigenvalue", "Smallest eigenvalue λ_min(∇²f(x_t))", headline=3, cost="expensive", better="higher"
        ),
    )
    loss: ClassVar[Loss]
    steepest: ClassVar[float]
    bends: ClassVar[tuple[float, float]]
    third: ClassVar[float]
    floor: ClassVar[float] = 0.0
    labelled: ClassVar[bool] = True
    facts: NonconvexFacts

    def __init__(self, facts: NonconvexFacts, penalty: Penalty, rows: np.ndarray, shortened: float = 0.0) -> None:
        n, d = rows.shape
        super().__init__(rows, None, None, n * (SECONDS_PER_ROW + SECONDS_PER_PRODUCT * d) + n * SECONDS_PER_LOSS)
        if not np.linalg.norm(rows, axis=1).max() <= UNIT:
            raise ValueError("a row is longer than 1: no sensitivity would hold")
        self.facts, self.penalty = facts, penalty
        self.shortened_share = shortened
        self._eigenvalues: dict[bytes, float] = {}

    @staticmethod
    @abstractmethod
    def extremes(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the smallest and largest φ (R,) of rows of norm at most 1 at points of these norms (R,)."""

    @staticmethod
    @abstractmethod
    def losses(arguments: np.ndarray) -> np.ndarray:
        """Return φ at the arguments, in a new array."""

    @staticmethod
    @abstractmethod
    def curvatures(arguments: np.ndarray) -> np.ndarray:
        """Return φ'' at the arguments; may work in place."""

    def starting_point(self, replicates: int) -> np.ndarray:
        """Return (R, d) the starting point of every replicate."""
        return self.facts.starting_point(replicates)

    # --------------------------------------------------------------------------------------------------------- queries

    def mean_gradient(self, x: np.ndarray, batch: Batch | None = None, at_state: bool = False) -> Query:
        """Return the mean of the rows' gradients at x (R', d), without the penalty; (R', d), "l2".

        at_state : use the sensitivity at x, which is public, where it is smaller than that anywhere.
        """
        total = self._sum(x, batch)
        sensitivity: float | np.ndarray = self.facts.gradient_sensitivity
        if at_state:
            sensitivity = self.facts.gradient_sensitivity_at(np.linalg.norm(bounded(x), axis=1))
        m = self._divisor(batch)
        return Query(total / -m, sensitivity / m, "l2", batch)

    def hessian(self, x: np.ndarray, batch: Batch | None = None, shape: Shape = "goe") -> Query:
        """Return the mean of the rows' Hessians at x (R', d), without the penalty, `packed`; (R', d(d+1)/2), "l2"."""
        m = self._divisor(batch)
        return Query(packed(self._hessian_sum(x, batch), shape) / m, self.facts.hessian_sensitivity / m, "l2", batch)

    def hessian_products(self, x: np.ndarray) -> MatrixQuery:
        """Return the mean of the rows' Hessians at x (R', d), without the penalty, as a function that computes
        products.

        Each product takes two passes over the table, and no matrix. The rows' curvatures (R', n) are kept for all
        products.
        """
        with np.errstate(over="ignore"):
            curvatures_by_block = [self.curvatures(arguments.copy()) for _, _, arguments, _ in self._blocks(bounded(x))]

        def times(directions: np.ndarray) -> np.ndarray:
            total = np.zeros_like(directions)
            for (_, rows, arguments_along, _), curvatures in zip(
                self._blocks(directions), curvatures_by_block, strict=True
            ):
                arguments_along *= curvatures
                total += arguments_along @ rows
            return total / self.facts.n

        return MatrixQuery(times, self.facts.d, self.facts.hessian_sensitivity / self.facts.n)

    def mean_value(self, x: np.ndarray) -> Query:
        """Return the mean of the rows' losses at x (R', d), without the penalty; (R', 1), "l2"."""
        x = bounded(x)
        lengths = np.linalg.norm(x, axis=1)
        low, high = self.extremes(lengths)
        total = np.zeros(len(x))
        for _, _, arguments, _ in self._blocks(x):
            np.clip(arguments, -lengths[:, None], lengths[:, None], out=arguments)  # rounding must not widen the range
            total += self.losses(arguments).sum(axis=1)
        return Query((total / self.facts.n)[:, None], (high - low) / self.facts.n, "l2")

    def decrease(self, x: np.ndarray, directions: np.ndarray, steps: np.ndarray) -> Query:
        """Return the decrease of f per length of step, (f(x) - f(x + step · direction)) / step, with the penalty; (R',
        k), "linf".

        x, directions : (R', d). steps : (R', k), positive. A loss falls by at most its slope times the distance; that
            is enforced row by row, as the difference of two large numbers may be off by more.
        """
        x, directions = bounded(x), bounded(directions)
        max_decrease = self.steepest * np.linalg.norm(directions, axis=1)
        total = np.zeros(steps.shape)
        for _, rows, arguments, _ in self._blocks(x):
            checkpoint()
            slopes, losses = directions @ rows.T, self.losses(arguments)
            for k in range(steps.shape[1]):
                fall = losses - self.losses(arguments + steps[:, k, None] * slopes)
                fall /= steps[:, k, None]
                total[:, k] += np.clip(fall, -max_decrease[:, None], max_decrease[:, None], out=fall).sum(axis=1)
        new_x = x[:, None] + steps[:, :, None] * directions[:, None]
        new_penalty = self.penalty.value(new_x.reshape(-1, x.shape[1])).reshape(steps.shape)
        penalty = (self.penalty.value(x)[:, None] - new_penalty) / steps
        return Query(total / self.facts.n + penalty, 2 * max_decrease / self.facts.n, "linf")

    def smallest_eigenvalue(self, x: np.ndarray) -> Query:
        """Return λ_min(∇²f(x)) (R', 1), "l2", with the penalty: one number instead of a matrix."""
        return Query(self._smallest_eigenvalues(x)[:, None], self.facts.curvature_sensitivity / self.facts.n, "l2")

    # ----------------------------------------------------------------------------------------- parts that need no noise

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient of the penalty at x; (R', d)."""
        return self.penalty.gradient(bounded(x))

    def regulariser_hessian(self, x: np.ndarray) -> np.ndarray:
        """Return the diagonal of the penalty's Hessian at x, which is diagonal; (R', d)."""
        return self.penalty.hessian(bounded(x))

    # ------------------------------------------------------------------------------------------------------ diagnostics

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        diagnostics = evaluated_in_slices(self._evaluate_cheap, output, self._seconds)
        if expensive:
            diagnostics["smallest_eigenvalue"] = self._cached_eigenvalues(output["x"])
        return diagnostics

    def correct(self, x: np.ndarray) -> np.ndarray | None:
        if not self.labelled:
            return None
        x = bounded(x)
        signs = np.zeros(len(x))
        for _, _, arguments, _ in self._blocks(x):
            signs += np.sign(arguments).sum(axis=1)
        return (1 + signs / self.facts.n) / 2

    def _evaluate_cheap(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        x = bounded(output["x"])
        loss, total = np.zeros(len(x)), np.zeros_like(x)
        for _, rows, arguments, _ in self._blocks(x):
            loss += self.losses(arguments).sum(axis=1)
            with np.errstate(over="ignore"):
                total += self.slopes(arguments, None) @ rows
        self._remember(x, total)
        gradient = self.penalty.gradient(x) - total / self.facts.n
        return {
            "objective": loss / self.facts.n + self.penalty.value(x),
            "gradient_norm": np.linalg.norm(gradient, axis=1),
            **{
                metric.name: x[:, index].copy()
                for index, metric in enumerate(PLACE[: x.shape[1]])
                if metric in self.metrics
            },
        }

    def _cached_eigenvalues(self, x: np.ndarray) -> np.ndarray:
        """Return λ_min (R,), computed at new points only: replicates that have ended stay at theirs."""
        keys = [row.tobytes() for row in x]
        with self._lock:
            new = [i for i, key in enumerate(keys) if key not in self._eigenvalues]
            by_key = {key: self._eigenvalues[key] for key in keys if key in self._eigenvalues}
        new = list({keys[i]: i for i in new}.values())  # each point once
        compute = self._smallest_eigenvalues if self.facts.d <= MOST_COLUMNS else self._eigenvalue_bounds
        for part in (new[start : start + _AT_ONCE] for start in range(0, len(new), _AT_ONCE)):
            values = compute(x[part])
            by_key |= {keys[i]: float(value) for i, value in zip(part, values, strict=True)}
        with self._lock:
            self._eigenvalues |= by_key
            while len(self._eigenvalues) > _EIGENVALUES:
                del self._eigenvalues[next(iter(self._eigenvalues))]
        return np.array([by_key[key] for key in keys])

    def _smallest_eigenvalues(self, x: np.ndarray) -> np.ndarray:
        """Compute λ_min (R,) of the Hessians at x (R, d)."""
        matrices = self._hessian_sum(x, None)
        matrices /= self.facts.n
        diagonal = np.arange(self.facts.d)
        matrices[:, diagonal, diagonal] += self.penalty.hessian(bounded(x))
        return np.linalg.eigvalsh(matrices)[:, 0]

    def _eigenvalue_bounds(self, x: np.ndarray) -> np.ndarray:
        """Compute lower bounds on λ_min (R,), close to it, from a few products.

        For diagnostics alone: their sensitivity is unknown.
        """
        products, diagonal = self.hessian_products(x), self.penalty.hessian(bounded(x))
        start = np.tile(np.random.default_rng(0).standard_normal(self.facts.d), (len(x), 1))
        _, lowest, _ = lanczos(lambda v: products.times(v) + diagonal * v, start, PRODUCTS, _MISJUDGED)
        return lowest

    # --------------------------------------------------------------------------------------------------- sums over rows

    def _divisor(self, batch: Batch | None) -> int:
        return self.facts.n if batch is None else batch.divisor(self.facts.n)

    def _hessian_sum(self, x: np.ndarray, batch: Batch | None) -> np.ndarray:
        """Compute Σ φ'' vvᵀ (R, d, d) at x (R, d) over the rows of each replicate's batch, or over all rows without a
        batch.

        For a product of a matrix with its own transpose NumPy computes half, which is faster with many columns. For
        that each row is scaled by the root of φ'' - lower, where the smallest φ'' is `lower`; lower · Σ vvᵀ of the same
        rows is added if lower is not 0.
        """
        x, lower, is_halved = bounded(x), self.bends[0], self.facts.d >= HALVED
        total = np.zeros((len(x), self.facts.d, self.facts.d))
        if batch is not None and not batch.whole:
            indices = batch.indices
            if indices is None:
                raise ValueError("a block of the table is no batch of single rows")
            self._check_rows(indices, None)
            blocks, is_halved = self._batch_blocks(x, indices), is_halved and not lower
        else:
            blocks = ((slice(None), rows, arguments) for _, rows, arguments, _ in self._blocks(x))
            if is_halved and lower:
                total += lower * self._gram
        for replicates, rows, arguments in blocks:
            with np.errstate(over="ignore"):
                weights = self.curvatures(arguments)
            if is_halved:
                weights = np.sqrt(np.maximum(weights - lower, 0.0))
            scaled = np.empty_like(rows)
            for matrix, weight in zip(total[replicates], weights, strict=True):
                np.multiply(rows, weight[:, None], out=scaled)
                matrix += scaled.T @ (scaled if is_halved else rows)
            checkpoint()
        return total

    @cached_property
    def _gram(self) -> np.ndarray:
        """Σ vvᵀ (d, d) over all rows."""
        n, d = self._rows.shape
        row_seconds = SECONDS_PER_ROW + SECONDS_PER_WEIGHTED * d + SECONDS_PER_SQUARE * d**2
        parts = (self._rows[part] for part in slices(n, row_seconds))
        return np.sum([rows.T @ rows for rows in parts], axis=0)

    def _batch_blocks(self, x: np.ndarray, indices: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield blocks of each replicate's batch (R, m): the replicate, rows (b, d), their arguments (1, b)."""
        size = max(1, GATHERED // x.shape[1])
        for r, batch_rows in enumerate(indices):
            for start in range(0, len(batch_rows), size):
                rows = self._rows[batch_rows[start : start + size]]
                yield slice(r, r + 1), rows, x[r : r + 1] @ rows.T
