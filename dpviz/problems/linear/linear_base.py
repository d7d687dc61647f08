"""Common parts of linear models: features scaled by their declared bounds, clipping row by row, an ℓ2 term, and the
loss as a function of one number per row."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import checkpoint, slices
from dpviz.datasets.base import NO_TABLES, SECONDS_PER_LOADED, Dataset, DatasetSpecification
from dpviz.datasets.synthetic import UniformLogistic
from dpviz.numbers import short
from dpviz.privacy import batches, events, releases
from dpviz.privacy.batches import Batch
from dpviz.problems import base
from dpviz.problems.model import Score, to_target, unscaled
from dpviz.specification import choice, number

# --------------------------------------------------------------------------------------- sums over rows, block by block

# Passes over the table work on blocks of about this many elements (rows × replicates): they stay in the cache, and no
# (n, R) array is returned to the system and faulted in again at every iteration.
BLOCK = 48_000
_ROUND = 64  # a block has a multiple of 64 rows, so that it can be folded in halves six times
GATHERED = 160_000  # numbers in the rows of batches that are gathered at once (replicates × rows × columns)
_REMEMBERED = 16  # sums that are kept, one for each of the arms that take turns
# Declared costs of drawing a row of a batch, and of gathering each of its numbers; slices follow from them.
SECONDS_PER_DRAWN_ROW, SECONDS_PER_GATHERED = 20e-9, 1e-9


class LinearSums(ABC):
    """Rows v, and the sums over them of a loss φ of one number per row, its argument ⟨v, x⟩ - o.

    rows : (n, d). caps : (n,) largest allowed |φ'| of each row, or None if the clip is never active. offsets : (n,) or
        None.
    seconds : declared cost of one replicate's losses and gradient on all rows; slices follow from it.
    """

    def __init__(self, rows: np.ndarray, caps: np.ndarray | None, offsets: np.ndarray | None, seconds: float) -> None:
        self._rows, self._caps, self._offsets, self._seconds = rows, caps, offsets, seconds
        self._remembered_sums: dict[bytes, np.ndarray] = {}
        self._lock = Lock()

    @staticmethod
    @abstractmethod
    def slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return -φ' at the arguments, clipped to the caps; finite; may work in place."""

    def _blocks(self, x: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield blocks of the table: slice, rows (b, d), their arguments (R, b) in a buffer that is reused, caps
        (b,)."""
        n, count = len(self._rows), len(x)
        size = min(n, -(-BLOCK // count // _ROUND) * _ROUND)
        buffer = np.empty(count * size)
        for start in range(0, n, size):
            part = slice(start, min(start + size, n))
            rows = self._rows[part]
            arguments = np.matmul(x, rows.T, out=buffer[: count * len(rows)].reshape(count, len(rows)))
            if self._offsets is not None:
                arguments -= self._offsets[part]
            yield part, rows, arguments, None if self._caps is None else self._caps[part]

    def _sum(self, x: np.ndarray, batch: Batch | None) -> np.ndarray:
        """Compute Σ -φ' v (R, d) over the rows of each replicate's batch, or over all rows without a batch, in
        slices of replicates."""
        x = bounded(x)
        marked = None if batch is None else batch.marked
        indices = batch.indices if batch is not None and marked is None else None
        if batch is not None and batch.rows is not None:
            raise ValueError("a block of the table is no batch of single rows")
        self._check_rows(indices, marked)
        total, row_seconds = np.empty_like(x), SECONDS_PER_DRAWN_ROW + SECONDS_PER_GATHERED * x.shape[1]
        for part in slices(len(x), self._seconds if indices is None else indices.shape[1] * row_seconds):
            with np.errstate(over="ignore"):
                if marked is not None:
                    total[part] = self._table_sum(x[part], marked[part])
                elif batch is not None and indices is not None:
                    is_taken = None if batch.taken is None else batch.taken[part]
                    total[part] = self._batch_sum(x[part], indices[part], is_taken)
                else:
                    recalled = self._recalled(x[part])
                    total[part] = self._table_sum(x[part]) if recalled is None else recalled
        return total

    def _table_sum(self, x: np.ndarray, marked: np.ndarray | None = None) -> np.ndarray:
        """Compute Σ -φ' v over all rows (R, d), or over those that are marked (R, n) for each replicate."""
        total = np.zeros_like(x)
        for part, rows, arguments, caps in self._blocks(x):
            slopes = self.slopes(arguments, caps)
            if marked is not None:
                slopes *= marked[:, part]  # finite, so that the others are exactly 0 and add nothing
            total += slopes @ rows
        return total

    def _batch_sum(self, x: np.ndarray, indices: np.ndarray, taken: np.ndarray | None) -> np.ndarray:
        """Compute Σ -φ' v (R, d) over the rows of each replicate's batch (R, m), counting only those that are
        `taken` (R, m)."""
        (count, d), m = x.shape, indices.shape[1]
        total, size = np.zeros_like(x), max(1, min(m, GATHERED // x.size))
        row_buffer, argument_buffer = np.empty(count * size * d), np.empty(count * size)
        for start in range(0, m, size):
            part = indices[:, start : start + size]
            shape = part.shape
            rows, arguments = (
                row_buffer[: part.size * d].reshape(*shape, d),
                argument_buffer[: part.size].reshape(shape),
            )
            np.take(self._rows, part, axis=0, out=rows, mode="clip")  # other modes gather into a copy of the buffer
            np.matmul(rows, x[:, :, None], out=arguments[:, :, None])
            if self._offsets is not None:
                arguments -= self._offsets[part]
            slopes = self.slopes(arguments, None if self._caps is None else self._caps[part])
            if taken is not None:
                slopes *= taken[:, start : start + size]
            total += np.matmul(slopes[:, None, :], rows)[:, 0]
        return total

    def _check_rows(self, indices: np.ndarray | None, marked: np.ndarray | None) -> None:
        """Raise IndexError for a batch of another table: gathering with mode "clip" would read the last row instead."""
        n = len(self._rows)
        if (indices is not None and indices.max(initial=0) >= n) or (marked is not None and marked.shape[1] != n):
            raise IndexError(f"the batch was drawn from another table than this one of {n} rows")

    def _remember(self, x: np.ndarray, total: np.ndarray) -> None:
        """Keep Σ -φ' v (R, d) over all rows at x (R, d), until `_recalled` takes it or newer sums displace it.

        A method without momentum needs its next gradient where its last iterate was evaluated. The sum that diagnostics
        compute is that of `_table_sum` to the last bit, so no result depends on which of the two is used.
        """
        with self._lock:
            self._remembered_sums[x.tobytes()] = total
            while len(self._remembered_sums) > _REMEMBERED:
                del self._remembered_sums[next(iter(self._remembered_sums))]

    def _recalled(self, x: np.ndarray) -> np.ndarray | None:
        """Remove and return the sum that was kept for x; None without one."""
        with self._lock:
            return self._remembered_sums.pop(x.tobytes(), None)


def bounded(x: np.ndarray) -> np.ndarray:
    """Return x without entries that are not finite or too large: a diverged replicate must not turn an argument into
    NaN."""
    return np.clip(np.nan_to_num(x), -1e100, 1e100)


# ------------------------------------------------------------------------------------------------------------ the model

_NORMS = 4096  # rows


def evaluation_seconds(n: int, d: int) -> float:
    """Return the declared seconds of one replicate's diagnostics on n rows: 1.5 times those of a clipped gradient."""
    return 1.5 * (n * (4e-9 + 0.1e-9 * d))


def gradient_clip(empty: str) -> Any:
    """Declare the field C, the largest norm of one row's gradient. empty : meaning of no value, for its help."""
    help = f"Largest norm of one row's gradient. Empty: {empty}."
    return number(None, 0.01, 1000.0, label="Gradient clip", symbol="C", scale="log", help=help)


class LinearModel(base.ProblemSpecification):
    """F(x) = (1/n) Σ φ(⟨vᵢ, x⟩ - oᵢ) + λ‖x‖²: a convex loss φ of one number per row, its argument.

    vᵢ is the row uᵢ of features, scaled by their declared bounds, or -uᵢ. Features of categories stay 0 and 1. Note
    λ‖x‖² without ½: strong convexity is μ = 2λ (Kuru et al. 2022, section 5). φ ≥ 0, and clipping lowers it.

    has_probabilities : true if 1 / (1 + e^-⟨u, x⟩) is the probability of the positive class.
    curvature : largest second derivative of φ, so that L = curvature · R² + 2λ for rows of ℓ2 norm at most R.
    """

    curvature: ClassVar[float] = 1.0
    has_probabilities: ClassVar[bool] = False
    data: DatasetSpecification = UniformLogistic()
    regularisation: float = number(
        0.01, 1e-5, 1.0, label="Regularisation", symbol="λ", scale="log", help="Weight of λ‖x‖²; μ = 2λ."
    )
    scaling: Literal["unit", "centred"] = choice(
        "unit",
        label="Feature scaling",
        help="Ranges are mapped to this interval. Centring halves the sensitivity and quarters L.",
        options={"unit": "[0, 1]", "centred": "[-½, ½]"},
    )
    intercept: Literal["no", "yes"] = choice(
        "no", label="Constant column", help="Adds a column of 1 (½ if centred).", options={"no": "No", "yes": "Yes"}
    )
    clip: float | None = gradient_clip("the bound that the declared features imply (clips nothing)")
    clip_norm: Literal["l1", "l2"] = choice(
        "l1", label="Clip norm", help="The norm in which the clip C is meant.", options={"l1": "L1", "l2": "L2"}
    )
    clipping: Literal["gradients", "rows"] = choice(
        "gradients",
        label="What is clipped",
        help="Clipping gradients minimises a Huberised loss; clipping rows keeps the loss of scaled rows.",
        options={"gradients": "Gradients", "rows": "Feature rows"},
    )
    smoothness: float | None = number(
        None, 1e-4, 1000.0, label="Smoothness", symbol="L", scale="log", help="Empty: what the ranges imply."
    )
    smoothness_source: Literal["bounds", "declared", "estimated", "released"] = choice(
        "bounds",
        label="Smoothness L",
        help="Where L comes from. An estimate from the data is not private; a private release spends budget.",
        options={
            "bounds": "From the ranges",
            "declared": "My own value",
            "estimated": "Estimated from data (not private)",
            "released": "Released privately",
        },
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
    def _smoothness_is_stated(self) -> Self:
        if (self.smoothness is None) != (self.smoothness_source == "bounds"):
            raise ValueError("a smoothness that does not follow from the bounds needs its value, and only then")
        if (self.smoothness_cost is None) != (self.smoothness_source != "released"):
            raise ValueError("a privately released smoothness needs its cost ε_L, and only then")
        if self.smoothness is not None and self.smoothness < 2 * self.regularisation:
            raise ValueError(
                f"smoothness L = {short(self.smoothness, 6)} is below μ = 2λ = {short(2 * self.regularisation, 6)}"
            )
        return self

    @abstractmethod
    def largest_loss(self, prediction: float) -> float:
        """Return the largest φ of any row with |⟨u, x⟩| ≤ prediction."""

    @abstractmethod
    def gradient_bound(self, norm: releases.Norm) -> float:
        """Return the largest norm of one row's clipped gradient, without the regulariser."""

    @property
    def public(self) -> bool:
        return self.data.public

    @property
    def read_by_itself(self) -> tuple[str, ...]:
        return ("the smoothness L",) if self.smoothness_source == "estimated" else ()

    def _plane(self) -> base.Plane | None:
        names = (*self.data.facts().names, *["the constant column"] * (self.intercept == "yes"))
        return base.first_two([f"Weight of {name}" for name in names[:2]])

    def feature_radius(self, norm: releases.Norm) -> float:
        """Return the declared bound on a scaled row's norm; where rows are clipped, at most the clip."""
        data, half = self.data.facts(), 0.5 if self.scaling == "centred" else 1.0
        # One of the features of a categorical column is 1, the others are 0: each such column adds 1 to either norm.
        scaled, columns = data.numeric + (self.intercept == "yes"), len(data.blocks)
        radius = half * scaled + columns if norm == "l1" else math.sqrt(half**2 * scaled + columns)
        return min(radius, self.clip_in(norm)) if self.clipping == "rows" else radius

    @property
    def _dimension(self) -> int:
        return self.data.facts().d + (self.intercept == "yes")

    def clip_in(self, norm: releases.Norm) -> float:
        """Return the clip as a bound in this norm; inf if there is none."""
        if self.clip is None:
            return math.inf
        # ‖g‖₂ ≤ ‖g‖₁ ≤ √d ‖g‖₂: a clip in one norm bounds the other.
        return self.clip * (math.sqrt(self._dimension) if (norm, self.clip_norm) == ("l1", "l2") else 1.0)

    def facts(self) -> base.SmoothFacts:
        data, d = self.data.facts(), self._dimension
        smoothness = self.smoothness_of(self.feature_radius("l2") ** 2)
        gap, lyapunov = self._initial_error(d)
        return base.SmoothFacts(
            n=data.n,
            d=d,
            released=() if self.smoothness_cost is None else (events.Laplace(self.smoothness_cost),),
            from_data=self.from_data,
            gradient_bound_l1=self.gradient_bound("l1"),
            gradient_bound_l2=self.gradient_bound("l2"),
            smoothness=smoothness if self.smoothness is None else self.smoothness,
            strong_convexity=2 * self.regularisation,
            start=self.start,
            initial_gap=gap,
            lyapunov=lyapunov,
        )

    def smoothness_of(self, largest: float) -> float:
        """Return L = curvature · λ + 2λ_reg, where λ = `largest` bounds the eigenvalues of the rows' second moment
        UᵀU/n."""
        return self.curvature * largest + 2 * self.regularisation

    def _initial_error(self, d: int) -> tuple[float, float]:
        """Return bounds on E₀ = F(x₀) - F* and V₀ = E₀ + (μ/2)‖x₀ - x*‖², in this order, that hold for every data set,
        or that follow from the user's guess of E₀."""
        if self.initial_gap is not None:
            return self.initial_gap, 2 * self.initial_gap  # (μ/2)‖x₀ - x*‖² ≤ E₀, as F is strongly convex
        # |⟨u, x₀⟩| ≤ R₁|x₀|, so F(x₀) ≤ largest_loss(R₁|x₀|) + λ‖x₀‖²; clipping only lowers φ, and φ ≥ 0. With
        # λ‖x*‖² ≤ F* ≤ F(0) ≤ largest_loss(0) and (μ/2)‖x₀ - x*‖² ≤ 2λ‖x₀‖² + 2λ‖x*‖²,
        # V₀ ≤ F(x₀) + 2λ‖x₀‖² + λ‖x*‖²; at x₀ = 0 it is F(0) - F* + λ‖x*‖² ≤ F(0).
        square = self.regularisation * d * self.start**2
        gap = self.largest_loss(self.feature_radius("l1") * abs(self.start)) + square
        return gap, gap if self.start == 0 else gap + 2 * square + self.largest_loss(0.0)

    def linear_score(self, x: np.ndarray) -> Score:
        facts = self.data.facts()
        low, high = np.array(facts.bounds).T
        centres, is_centred = low.copy(), self.scaling == "centred"
        if is_centred:
            centres[: facts.numeric] += (high - low)[: facts.numeric] / 2
        coefficients, constant = unscaled(x[: facts.d], centres, high - low)
        if self.intercept == "yes":
            constant += float(x[-1]) * (0.5 if is_centred else 1.0)
        return to_target(Score(coefficients, constant, facts.target is None and self.has_probabilities), facts.target)

    def rows(self, data: Dataset) -> "Rows":
        """Return the rows of the data, scaled by their declared bounds; also clipped, if `clipping` is "rows"."""
        n, d, numeric = data.facts.n, data.facts.d, data.facts.numeric
        low, high = np.array(data.facts.bounds).T
        is_centred, is_clipped = self.scaling == "centred", self.clipping == "rows"
        features, caps = np.empty((n, self._dimension)), np.empty(n)  # the one copy of the data
        features[:, d:] = 0.5 if is_centred else 1.0  # a constant column, if there is one
        checkpoint()
        for part in slices(n, self._dimension * SECONDS_PER_LOADED / 3):
            block = features[part, :d]
            np.subtract(data.features[part], low, out=block)
            block /= high - low
            np.clip(block, 0.0, 1.0, out=block)  # rounding must not leave the declared box
            if is_centred:
                block[:, :numeric] -= 0.5
            caps[part] = (self.clip or math.inf) / norms(features[part], self.clip_norm)
            if is_clipped:
                features[part] *= np.minimum(caps[part], 1.0)[:, None]
        return Rows(features, np.full(n, math.inf), float((caps < 1).mean())) if is_clipped else Rows(features, caps)

    def loaded(self, tables: Mapping[str, np.ndarray]) -> tuple["Rows", np.ndarray]:
        """Return the rows of the whole table as `rows`, and their labels (n,).

        Of a file, one block at a time is in memory in addition to them.
        """
        facts, filled, shortened = self.data.facts(), 0, 0.0
        for data in self.data.parts(tables):
            part, count = self.rows(data), len(data.labels)
            if count == facts.n:  # all of them, unless the file has more: then it is refused at its end
                features, caps, shortened, labels = *part, data.labels
                continue
            if not filled:
                features, caps, labels = np.empty((facts.n, self._dimension)), np.empty(facts.n), np.empty(facts.n)
            target = slice(filled, filled + count)
            features[target], caps[target], labels[target] = part.features, part.caps, data.labels
            filled, shortened = filled + count, shortened + part.shortened * count / facts.n
        return Rows(features, caps, shortened), labels

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LinearProblem": ...


class Rows(NamedTuple):
    """The rows of a linear model.

    features : (n, d) scaled rows u.
    caps : (n,) C over the norm of each row, the largest |φ'| that the clip allows; inf without a clip and where rows
        are clipped.
    shortened : share of rows that were scaled down to norm C; a diagnostic.
    """

    features: np.ndarray
    caps: np.ndarray
    shortened: float = 0.0


class LinearProblem(LinearSums, base.SmoothProblem):
    """A linear model with its data; see `LinearModel`.

    rows, caps, offsets : see `LinearSums`. Clipping a linear model keeps convexity: it is gradient descent on the loss
        that continues linearly where its slope has reached the cap.
    guess : the last but one of `metrics` for the best constant guess; a diagnostic.
    steep : a row can reach the clip if its cap is below this; the largest |φ'| of any row at x = 0 if φ' is unbounded.
    shortened : see `Rows`.
    """

    def __init__(
        self,
        specification: LinearModel,
        rows: np.ndarray,
        caps: np.ndarray | None,
        offsets: np.ndarray | None = None,
        steep: float = 1.0,
        shortened: float = 0.0,
        *,
        guess: float,
    ) -> None:
        self.facts = specification.facts()
        super().__init__(rows, caps, offsets, evaluation_seconds(self.facts.n, self.facts.d))
        self.guess = guess
        self._radius = specification.feature_radius("l2")
        self._regularisation = specification.regularisation
        self._minimum: tuple[np.ndarray, float] | None = None
        self._steep, self.shortened_share = steep, shortened

    @staticmethod
    @abstractmethod
    def curvatures(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return φ'' at the arguments, 0 where the slope is clipped."""

    @abstractmethod
    def sums(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute F(x) (R,), Σ -φ' v (R, d) as `_table_sum` does, and the last but one of `metrics` (R,), in one
        pass."""

    def _gradient(self, x: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return ∇F (R, d) at x, where the rows' slopes add up to `total`."""
        return self.regulariser_gradient(x) - total / self.facts.n

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        """Compute the query in slices of replicates."""
        # Without a batch the slices are those of diagnostics, whose sums may have been kept.
        total = self._sum(x, batch)
        m = batch.divisor(self.facts.n)
        sensitivity = self.facts.gradient_sensitivity(norm, m, batch.relation)
        return releases.Query(total / -m, sensitivity, norm, batch, batch.relation)

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        return 2 * self._regularisation * x

    def curvature(self) -> releases.Query:
        """Return λ_max(UᵀU/n), (1,): replacing a row changes it by at most R₂²/n (Weyl, difference of two rank-one
        PSD)."""
        largest = np.linalg.eigvalsh(self._rows.T @ self._rows / self.facts.n)[-1]
        return releases.Query(np.array([largest]), self._radius**2 / self.facts.n, "l1")

    @property
    def clipped_share(self) -> float:
        """Share of rows whose gradient can reach the clip; a diagnostic."""
        return 0.0 if self._caps is None else float((self._caps < self._steep).mean())

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        self.prepare()
        return base.evaluated_in_slices(self._evaluate, output, self._seconds)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        x = output["x"]
        with np.errstate(over="ignore", invalid="ignore"):
            objective, total, last = self.sums(x)
            self._remember(x, total)
            return {
                "objective_gap": objective - self.optimum,
                "objective": objective,
                "gradient_norm": np.linalg.norm(self._gradient(x, total), axis=1),
                self.metrics[-2].name: last,
                self.metrics[-1].name: np.full(len(x), self.guess),
            }

    def prepare(self) -> None:
        if self._minimum is None:
            self._minimum = self._minimise()

    @property
    def optimum(self) -> float:
        """F*; a diagnostic."""
        return self._prepared_minimum[1]

    @property
    def minimiser(self) -> np.ndarray:
        """(d,) the minimiser of F; a diagnostic."""
        return self._prepared_minimum[0]

    @property
    def _prepared_minimum(self) -> tuple[np.ndarray, float]:
        self.prepare()
        assert self._minimum is not None
        return self._minimum

    def _minimise(self) -> tuple[np.ndarray, float]:
        """Compute the minimiser and F*, by Newton's method with backtracking."""
        x = np.zeros((1, self.facts.d))
        value, total, _ = self.sums(x)
        for _ in range(100):
            checkpoint()
            next_state = self._newton_step(x, value, self._gradient(x, total))
            if next_state is None:
                break
            x, value, total = next_state
        return x[0], float(value[0])

    def _newton_step(
        self, x: np.ndarray, value: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the next point (1, d), F and the sum of slopes there; None if no measurable decrease remains."""
        with np.errstate(over="ignore", invalid="ignore"):
            step = np.linalg.solve(self._hessian(x), gradient[0])
            decrease = float(gradient[0] @ step)
            if decrease <= 1e-16 * value[0]:
                return None
            length = 1.0
            while length >= 1e-6:
                new_x = x - length * step
                new_value, new_total, _ = self.sums(new_x)
                if new_value[0] <= value[0] - 1e-4 * length * decrease:
                    return new_x, new_value, new_total
                length /= 2
        return None

    def _hessian(self, x: np.ndarray) -> np.ndarray:
        """Compute the (d, d) Hessian at one point x (1, d)."""
        total = np.zeros((self.facts.d, self.facts.d))
        for _, rows, arguments, caps in self._blocks(x):
            total += (rows.T * self.curvatures(arguments, caps)) @ rows
        return total / self.facts.n + 2 * self._regularisation * np.eye(self.facts.d)


def norms(rows: np.ndarray, norm: releases.Norm) -> np.ndarray:
    """Compute the norm (n,) of every row; at least 1e-300, so that it can be a divisor."""
    order, result = 1 if norm == "l1" else 2, np.empty(len(rows))
    for start in range(0, len(rows), _NORMS):  # the squares of a whole table would be a second table
        part = slice(start, start + _NORMS)
        result[part] = np.linalg.norm(rows[part], order, axis=1)
    return np.maximum(result, 1e-300, out=result)
