"""Common parts of linear models, in which the loss φ of a row depends on the parameters x through one number.

With a row v and an offset o that number is the row's *argument* ⟨v, x⟩ - o. Features are scaled by their declared
bounds, gradients are clipped row by row, and the objective has an ℓ2 term. In the shapes, R is the number of replicates
(simulated runs), n that of all rows, and b that of the rows of a block.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import checkpoint, checkpointed_slices
from dpviz.datasets.base import NO_TABLES, SECONDS_PER_LOADED, Dataset, DatasetSpecification
from dpviz.datasets.synthetic import UniformLogistic
from dpviz.datasets.uploads import limits
from dpviz.datasets.uploads.files import ROWS
from dpviz.datasets.uploads.upload import Upload
from dpviz.numbers import short
from dpviz.privacy import batches, events, releases
from dpviz.privacy.batches import Batch
from dpviz.problems import base
from dpviz.problems.model import LinearScore, to_target, unscaled
from dpviz.specification import choice, number

# --------------------------------------------------------------------------------------- sums over rows, block by block

# Passes over the table work on blocks of about this many elements (rows × replicates): they stay in the cache, and no
# (n, R) array is returned to the system and faulted in again at every iteration.
BLOCK = 48_000
_ROUND = 64  # a block has a multiple of 64 rows, so that the logistic loss can fold it in halves six times
GATHERED = 160_000  # numbers in the rows of batches that are gathered at once (replicates × rows × columns)
_REMEMBERED = 16  # kept sums at most: arms of an experiment take turns, and each needs only its latest one
# Declared costs of drawing a row of a batch, and of gathering each of its numbers; slices follow from them.
SECONDS_PER_DRAWN_ROW, SECONDS_PER_GATHERED = 20e-9, 1e-9


class LinearSums(ABC):
    """A table of rows v, and sums over them of a loss φ(⟨v, x⟩ - o) and its derivatives.

    rows : (n, d) the rows v. offsets : (n,) the numbers o; None if all are 0.
    caps : (n,) largest |φ'| that clipping allows in each row; None if the clip is never active. A row's gradient is φ'
        v, so a bound on |φ'| is a bound on its norm.
    seconds : declared cost of one replicate's losses and gradient on all rows; slices follow from it.
    """

    def __init__(self, rows: np.ndarray, caps: np.ndarray | None, offsets: np.ndarray | None, seconds: float) -> None:
        self._rows, self._caps, self._offsets, self._seconds = rows, caps, offsets, seconds
        self._remembered_sums: dict[bytes, np.ndarray] = {}
        self._lock = Lock()

    @staticmethod
    @abstractmethod
    def negative_slopes(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return -φ' (R, b) at the arguments (R, b) of b rows, clipped to [-cap, cap] with the caps (b,) of these rows.

        With this sign the logistic loss needs no negation. All values are finite. The result may overwrite the
        arguments.
        """

    def _blocks(self, x: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray | None]]:
        """Yield the table in blocks of b rows: their slice, rows (b, d), arguments (R, b) at x (R, d), and caps (b,).

        The arguments of the next block overwrite those of this one.
        """
        n, replicates = len(self._rows), len(x)
        size = min(n, -(-BLOCK // replicates // _ROUND) * _ROUND)  # rounded up to a multiple
        buffer = np.empty(replicates * size)
        for start in range(0, n, size):
            part = slice(start, min(start + size, n))
            rows = self._rows[part]
            arguments = buffer[: replicates * len(rows)].reshape(replicates, len(rows))
            np.matmul(x, rows.T, out=arguments)
            if self._offsets is not None:
                arguments -= self._offsets[part]
            yield part, rows, arguments, None if self._caps is None else self._caps[part]

    def _sum(self, x: np.ndarray, batch: Batch | None) -> np.ndarray:
        """Compute Σ -φ' v (R, d) at x (R, d) over the rows of each replicate's batch, or over all rows without a batch.

        The replicates are computed in slices.
        """
        x = clip_finite(x)
        marked = indices = taken = None  # for the whole table
        if batch is not None:
            if batch.rows is not None:
                raise ValueError("a block of the table is no batch of single rows")
            # A large batch is given by marks on all rows (its indices would have to be computed), a smaller one by
            # indices, the whole table by neither.
            marked, taken = batch.marked, batch.taken
            indices = batch.indices if marked is None else None
        self._check_rows(indices, marked)
        row_seconds = SECONDS_PER_DRAWN_ROW + SECONDS_PER_GATHERED * x.shape[1]
        # Without a batch the slices are those of `evaluate`, so that the sums it remembered are for the same points.
        seconds = self._seconds if indices is None else indices.shape[1] * row_seconds
        total = np.empty_like(x)
        for part in checkpointed_slices(len(x), seconds):
            with np.errstate(over="ignore"):
                if marked is not None:
                    total[part] = self._table_sum(x[part], marked[part])
                elif indices is not None:
                    is_taken = None if taken is None else taken[part]
                    total[part] = self._batch_sum(x[part], indices[part], is_taken)
                else:
                    remembered = self._recall(x[part])
                    total[part] = self._table_sum(x[part]) if remembered is None else remembered
        return total

    def _table_sum(self, x: np.ndarray, marked: np.ndarray | None = None) -> np.ndarray:
        """Compute Σ -φ' v (R, d) at x (R, d) over all rows, or over the rows that are marked (R, n) for each
        replicate."""
        total = np.zeros_like(x)
        for part, rows, arguments, caps in self._blocks(x):
            negative_slopes = self.negative_slopes(arguments, caps)
            if marked is not None:
                negative_slopes *= marked[:, part]  # they are finite, so those of the other rows become exactly 0
            total += negative_slopes @ rows
        return total

    def _batch_sum(self, x: np.ndarray, indices: np.ndarray, taken: np.ndarray | None) -> np.ndarray:
        """Compute Σ -φ' v (R, d) at x (R, d) over the rows of each replicate's batch, given by `indices` (R, m).

        taken : (R, m) True for the indices that count, where batches have different sizes; None if all count.
        """
        (replicates, d), m = x.shape, indices.shape[1]
        size = max(1, min(m, GATHERED // x.size))  # rows of each batch that are gathered at once
        row_buffer, argument_buffer = np.empty(replicates * size * d), np.empty(replicates * size)
        total = np.zeros_like(x)
        for start in range(0, m, size):
            block = indices[:, start : start + size]
            rows = row_buffer[: block.size * d].reshape(*block.shape, d)
            arguments = argument_buffer[: block.size].reshape(block.shape)
            np.take(self._rows, block, axis=0, out=rows, mode="clip")  # other modes gather into a copy of the buffer
            np.matmul(rows, x[:, :, None], out=arguments[:, :, None])
            if self._offsets is not None:
                arguments -= self._offsets[block]
            negative_slopes = self.negative_slopes(arguments, None if self._caps is None else self._caps[block])
            if taken is not None:
                negative_slopes *= taken[:, start : start + size]
            total += np.matmul(negative_slopes[:, None, :], rows)[:, 0]
        return total

    def _check_rows(self, indices: np.ndarray | None, marked: np.ndarray | None) -> None:
        """Raise IndexError for a batch that was drawn from a table with more rows, or with other marks than rows.

        Without this check `_batch_sum` would read the last row in place of one that does not exist.
        """
        n = len(self._rows)
        if (indices is not None and indices.max(initial=0) >= n) or (marked is not None and marked.shape[1] != n):
            raise IndexError(f"the batch was drawn from another table than this one of {n} rows")

    def _remember(self, x: np.ndarray, total: np.ndarray) -> None:
        """Keep the sum `total` = Σ -φ' v (R, d) over all rows at x (R, d), for `_recall`; drop the oldest kept sums.

        Diagnostics compute this sum at the latest iterates, and a method without momentum needs it there for its next
        gradient. It equals the result of `_table_sum` to the last bit, so no result depends on which of the two is
        used.
        """
        with self._lock:
            self._remembered_sums[x.tobytes()] = total
            while len(self._remembered_sums) > _REMEMBERED:
                oldest = next(iter(self._remembered_sums))  # dictionaries keep the order of insertion
                del self._remembered_sums[oldest]

    def _recall(self, x: np.ndarray) -> np.ndarray | None:
        """Return the sum (R, d) that `_remember` keeps for x (R, d), and drop it; None if there is none."""
        with self._lock:
            return self._remembered_sums.pop(x.tobytes(), None)


def clip_finite(x: np.ndarray) -> np.ndarray:
    """Return x with NaN replaced by 0 and all entries clipped to ±1e100, so that ⟨v, x⟩ and ‖x‖² are finite even for
    a replicate that has diverged."""
    return np.clip(np.nan_to_num(x), -1e100, 1e100)


# ------------------------------------------------------------------------------------------------------------ the model

_NORMS = 4096  # rows whose norms are computed at once


def evaluation_seconds(n: int, d: int) -> float:
    """Return the declared seconds of one replicate's diagnostics on n rows with d features: 1.5 times those of a
    clipped gradient."""
    return 1.5 * (n * (4e-9 + 0.1e-9 * d))


def gradient_clip_field(empty: str) -> Any:
    """Declare the field C, the largest norm of one row's gradient.

    empty : text of the field's help on what holds if the field has no value.
    """
    help = f"Largest norm of one row's gradient. Empty: {empty}."
    return number(None, 0.01, 1000.0, label="Gradient clip", symbol="C", scale="log", help=help)


class LinearModel(base.ProblemSpecification):
    """F(x) = (1/n) Σ φ(⟨vᵢ, x⟩ - oᵢ) + λ‖x‖² with a convex loss φ ≥ 0 of one number per row.

    vᵢ is ±uᵢ, where the row uᵢ has the features scaled by their declared bounds; those of categories stay 0 and 1. As
    λ‖x‖² has no factor ½, strong convexity is μ = 2λ (Kuru et al. 2022, section 5). Clipping replaces φ by a loss that
    is nowhere larger.

    has_probabilities : true if 1 / (1 + e^-⟨u, x⟩) is the probability of the positive class.
    curvature : largest second derivative of φ, so that L = curvature · R² + 2λ for rows of ℓ2 norm at most R.
    """

    curvature: ClassVar[float] = 1.0
    has_probabilities: ClassVar[bool] = False
    data: DatasetSpecification = UniformLogistic()
    regularisation: float = number(
        0.01,
        1e-5,
        1.0,
        label="Regularisation",
        symbol="λ",
        scale="log",
        help="Weight of λ‖x‖²; μ = 2λ.",
        limits=(1e-12, 1e6),
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
    clip: float | None = gradient_clip_field("the bound that the declared features imply (clips nothing)")
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
    start: float = number(
        0.0, -100.0, 100.0, label="Start", symbol="x₀", help="Every coordinate starts here.", limits=(-1e6, 1e6)
    )
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
        """Raise ValueError unless a value of L and its cost are given just where L's source needs them, and L ≥ μ."""
        if (self.smoothness is None) != (self.smoothness_source == "bounds"):
            raise ValueError("a smoothness that does not follow from the bounds needs its value, and only then")
        if (self.smoothness_cost is not None) != (self.smoothness_source == "released"):
            raise ValueError("a privately released smoothness needs its cost ε_L, and only then")
        if self.smoothness is not None and self.smoothness < 2 * self.regularisation:
            raise ValueError(
                f"smoothness L = {short(self.smoothness, 6)} is below μ = 2λ = {short(2 * self.regularisation, 6)}"
            )
        return self

    @abstractmethod
    def largest_loss(self, prediction: float) -> float:
        """Return the largest loss φ that any row u can have at an x with |⟨u, x⟩| ≤ prediction."""

    @abstractmethod
    def gradient_bound(self, norm: releases.Norm) -> float:
        """Return the largest norm of one row's clipped gradient, without the regulariser."""

    @property
    def settings_from_data(self) -> tuple[str, ...]:
        """The smoothness L, in words, if it was estimated from the data without paying for it."""
        return ("the smoothness L",) if self.smoothness_source == "estimated" else ()

    @property
    def releases_of_settings(self) -> tuple[events.Event, ...]:
        """The release of L, if it was released: at the cost ε_L for a person's k rows, a k-th of it for a row."""
        return () if self.smoothness_cost is None else (events.Laplace(self.smoothness_cost / self.rows_per_person),)

    def _plane(self) -> base.Plane | None:
        names = list(self.data.facts().names)
        if self.intercept == "yes":
            names.append("the constant column")
        return base.first_two_plane([f"Weight of {name}" for name in names[:2]])

    def feature_radius(self, norm: releases.Norm) -> float:
        """Return the largest norm R that a scaled row u can have, by the declared ranges and the clip of rows."""
        data = self.data.facts()
        largest_entry = 0.5 if self.scaling == "centred" else 1.0
        # One of the features of a categorical column is 1 and the others are 0. So each such column adds 1 to the ℓ1
        # norm and to the square of the ℓ2 norm.
        n_numeric, n_categorical = data.numeric + (self.intercept == "yes"), len(data.blocks)
        if norm == "l2":
            radius = math.sqrt(largest_entry**2 * n_numeric + n_categorical)
        else:
            radius = largest_entry * n_numeric + n_categorical
        return min(radius, self.clip_in(norm)) if self.clipping == "rows" else radius

    @property
    def _dimension(self) -> int:
        """d, the number of parameters: one for each feature, and one for the constant column."""
        return self.data.facts().d + (self.intercept == "yes")

    def clip_in(self, norm: releases.Norm) -> float:
        """Return the bound in `norm` that follows from the clip C, which may be in the other norm; inf without it."""
        if self.clip is None:
            return math.inf
        # ‖g‖₂ ≤ ‖g‖₁ ≤ √d ‖g‖₂: a clip in one norm bounds the other.
        is_l1_from_l2 = norm == "l1" and self.clip_norm == "l2"
        return self.clip * math.sqrt(self._dimension) if is_l1_from_l2 else self.clip

    def facts(self) -> base.SmoothFacts:
        """Return the public facts, which follow from the declared ranges and the clip, and from the origin of L."""
        data, d = self.data.facts(), self._dimension
        implied_smoothness = self.smoothness_of(self.feature_radius("l2") ** 2)
        gap, lyapunov = self._initial_error(d)
        return base.SmoothFacts(
            n=data.n,
            d=d,
            released=self.released,
            from_data=self.from_data,
            gradient_bound_l1=self.gradient_bound("l1"),
            gradient_bound_l2=self.gradient_bound("l2"),
            smoothness=implied_smoothness if self.smoothness is None else self.smoothness,
            strong_convexity=2 * self.regularisation,
            start=self.start,
            initial_gap=gap,
            lyapunov=lyapunov,
        )

    def smoothness_of(self, eigenvalue_bound: float) -> float:
        """Return the smoothness L of F, given a bound on the eigenvalues of UᵀU/n, with the scaled rows in U (n, d)."""
        return self.curvature * eigenvalue_bound + 2 * self.regularisation

    def _initial_error(self, d: int) -> tuple[float, float]:
        """Return bounds on E₀ = F(x₀) - F* and on V₀ = E₀ + (μ/2)‖x₀ - x*‖², for d parameters and the minimiser x*.

        They follow from the user's guess of E₀, if there is one; otherwise they hold for every data set.
        """
        if self.initial_gap is not None:
            return self.initial_gap, 2 * self.initial_gap  # (μ/2)‖x₀ - x*‖² ≤ E₀, as F is strongly convex
        # E₀: all coordinates of x₀ are `start`, so |⟨u, x₀⟩| ≤ R₁|start| with the largest ℓ1 norm R₁ of a row, and
        # F(x₀) ≤ largest_loss(R₁|start|) + λ‖x₀‖². Clipping only lowers φ, and F* ≥ 0 because φ ≥ 0.
        # V₀: with λ‖x*‖² ≤ F* ≤ F(0) ≤ largest_loss(0) and (μ/2)‖x₀ - x*‖² ≤ 2λ‖x₀‖² + 2λ‖x*‖²,
        # V₀ ≤ F(x₀) + 2λ‖x₀‖² + λ‖x*‖²; at x₀ = 0 it is F(0) - F* + λ‖x*‖² ≤ F(0).
        regulariser = self.regularisation * d * self.start**2  # λ‖x₀‖²
        gap = self.largest_loss(self.feature_radius("l1") * abs(self.start)) + regulariser
        lyapunov = gap if self.start == 0 else gap + 2 * regulariser + self.largest_loss(0.0)
        return gap, lyapunov

    def linear_score(self, x: np.ndarray) -> LinearScore:
        """Return the prediction in the table's own units, from the weights x (d,) of the scaled features."""
        facts = self.data.facts()
        low, high = np.array(facts.bounds).T
        centres, is_centred = low.copy(), self.scaling == "centred"
        if is_centred:  # features of categories are not centred
            centres[: facts.numeric] += (high - low)[: facts.numeric] / 2
        # From weights of the scaled features to those of the table's own values.
        coefficients, constant = unscaled(x[: facts.d], centres, high - low)
        if self.intercept == "yes":
            constant += float(x[-1]) * (0.5 if is_centred else 1.0)  # the last weight, times the constant column
        return to_target(LinearScore(coefficients, constant, proba=self.has_probabilities), facts.target_range)

    def memory(self, facts: base.Facts) -> base.Memory:
        """Estimate the memory; of a file in blocks: the scaled rows, 5 numbers of each row, 6 copies of a block, and
        for each replicate 8 vectors.

        The numbers of a row are its label or target, its cap, and what they are computed from; 10⁷ rows with 20
        features took 1.8 to 2.1 GB.
        """
        if not isinstance(self.data, Upload) or facts.n <= limits.MAX_ROWS:
            return super().memory(facts)
        return base.Memory(8.0 * facts.n * (facts.d + 5) + 48.0 * ROWS * facts.d, replicate=64.0 * facts.d)

    def rows(self, data: Dataset) -> "ScaledRows":
        """Return the rows of the data, scaled by their declared bounds, and shortened to norm C if rows are clipped."""
        n, d, numeric = data.facts.n, data.facts.d, data.facts.numeric
        low, high = np.array(data.facts.bounds).T
        is_centred, is_clipped = self.scaling == "centred", self.clipping == "rows"
        features, caps = np.empty((n, self._dimension)), np.empty(n)  # the only copy of the data
        features[:, d:] = 0.5 if is_centred else 1.0  # the constant column, if there is one
        checkpoint()
        row_seconds = self._dimension * SECONDS_PER_LOADED / 3  # a third of what loading them takes
        for part in checkpointed_slices(n, row_seconds):
            block = features[part, :d]
            np.subtract(data.features[part], low, out=block)
            block /= high - low
            np.clip(block, 0.0, 1.0, out=block)  # rounding must not leave the declared box
            if is_centred:
                block[:, :numeric] -= 0.5
            caps[part] = (self.clip or math.inf) / norms(features[part], self.clip_norm)  # C/‖u‖
            if is_clipped:
                features[part] *= np.minimum(caps[part], 1.0)[:, None]
        if is_clipped:  # gradients then need no caps; a cap below 1 was the factor that shortened a row
            return ScaledRows(features, np.full(n, math.inf), shortened=float((caps < 1).mean()))
        return ScaledRows(features, caps)

    def load_rows(self, tables: Mapping[str, np.ndarray]) -> tuple["ScaledRows", np.ndarray]:
        """Return the rows of the whole table, scaled and clipped by `rows`, and their labels (n,).

        A file is read block by block, so that at most one block is in memory in addition to the result.
        """
        facts, n_filled, shortened = self.data.facts(), 0, 0.0
        for data in self.data.parts(tables):
            block, count = self.rows(data), len(data.labels)
            if count == facts.n:  # the block is the whole table, and needs no copy
                (features, caps, shortened), labels = block, data.labels
                continue  # to the end of the file, where `parts` refuses one with further rows
            if not n_filled:  # the first block
                features, caps, labels = np.empty((facts.n, self._dimension)), np.empty(facts.n), np.empty(facts.n)
            part = slice(n_filled, n_filled + count)
            features[part], caps[part], labels[part] = block.features, block.caps, data.labels
            n_filled, shortened = n_filled + count, shortened + block.shortened * count / facts.n
        return ScaledRows(features, caps, shortened), labels

    @abstractmethod
    def build(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> "LinearProblem": ...


class ScaledRows(NamedTuple):
    """The rows of a linear model.

    features : (n, d) the scaled rows u.
    caps : (n,) C/‖u‖, the largest |φ'| of each row for which its gradient φ' u has at most norm C; inf if there is no
        clip, and if the rows themselves are clipped.
    shortened : share of the rows that were scaled down to norm C; a diagnostic.
    """

    features: np.ndarray
    caps: np.ndarray
    shortened: float = 0.0


class LinearProblem(LinearSums, base.SmoothProblem):
    """A linear model with its data; see `LinearModel`.

    The last but one of `metrics` measures predictions, such as the accuracy; the last is the same measure for the best
    prediction that is equal in all rows. Clipping keeps F convex: a clipped gradient is the gradient of the loss that
    continues linearly from where its slope has reached the cap.

    rows, caps, offsets : see `LinearSums`.
    guess : value of the last of `metrics`; a diagnostic.
    max_slope : largest |φ'| of any row without a clip, at x = 0 if φ' is unbounded. A row with a smaller cap can be
        clipped.
    shortened : see `ScaledRows`.
    """

    def __init__(
        self,
        specification: LinearModel,
        rows: np.ndarray,
        caps: np.ndarray | None,
        offsets: np.ndarray | None = None,
        max_slope: float = 1.0,
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
        self._max_slope, self.shortened_share = max_slope, shortened

    @staticmethod
    @abstractmethod
    def curvatures(arguments: np.ndarray, caps: np.ndarray | None) -> np.ndarray:
        """Return φ'' (R, b) at the arguments (R, b) of rows with caps (b,); it is 0 where the slope is clipped."""

    @abstractmethod
    def sums(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute at x (R, d), in one pass over the rows: F(x) (R,); Σ -φ' v (R, d), equal to `_table_sum` to the last
        bit; and the last but one of `metrics` (R,)."""

    def _gradient(self, x: np.ndarray, total: np.ndarray) -> np.ndarray:
        """Return ∇F (R, d) at x (R, d), given `total` = Σ -φ' v (R, d) over all rows there."""
        return self.regulariser_gradient(x) - total / self.facts.n

    def mean_gradient(self, x: np.ndarray, batch: batches.Batch, norm: releases.Norm) -> releases.Query:
        """Return the query of the mean clipped gradient of a batch's rows at x, without the regulariser."""
        total = self._sum(x, batch)  # Σ -φ' v; the mean of φ' v has the opposite sign
        m = batch.divisor(self.facts.n)  # rows of the batch
        sensitivity = self.facts.gradient_sensitivity(norm, m, batch.relation)
        return releases.Query(total / -m, sensitivity, norm, batch, batch.relation)

    def regulariser_gradient(self, x: np.ndarray) -> np.ndarray:
        return 2 * self._regularisation * x

    def largest_eigenvalue(self) -> releases.Query:
        """Return the query of the largest eigenvalue of UᵀU/n, (1,), with the scaled rows in U (n, d), in ℓ1.

        A replaced row changes UᵀU/n by the difference of two positive semidefinite matrices of rank one, each with an
        eigenvalue of at most R₂²/n for rows of ℓ2 norm at most R₂; so the largest eigenvalue changes by at most R₂²/n
        (Weyl's inequality).
        """
        # The rows v = ±u give the same matrix. Its eigenvalues are in ascending order.
        largest = np.linalg.eigvalsh(self._rows.T @ self._rows / self.facts.n)[-1]
        return releases.Query(np.array([largest]), self._radius**2 / self.facts.n, "l1")

    @property
    def clipped_share(self) -> float:
        """Share of rows whose gradient can reach the clip; a diagnostic."""
        return 0.0 if self._caps is None else float((self._caps < self._max_slope).mean())

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return base.evaluate_in_slices(self._evaluate, output, self._seconds)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute all metrics (R,) at the outputs {"x": (R, d)}, and remember the sums for the next gradient."""
        x = output["x"]
        with np.errstate(over="ignore", invalid="ignore"):
            objective, total, measure = self.sums(x)
            self._remember(x, total)
            return {
                "objective_gap": objective - self.optimum,
                "objective": objective,
                "gradient_norm": np.linalg.norm(self._gradient(x, total), axis=1),
                self.metrics[-2].name: measure,  # such as the accuracy
                self.metrics[-1].name: np.full(len(x), self.guess),  # the same for the best constant guess
            }

    def prepare(self) -> None:
        """Compute the minimiser of F and F*, unless they are known: by Newton's method with backtracking, from 0."""
        if self._minimum is not None:
            return
        x = np.zeros((1, self.facts.d))
        value, total, _ = self.sums(x)
        for _ in range(100):
            checkpoint()
            next_state = self._newton_step(x, value, self._gradient(x, total))
            if next_state is None:
                break
            x, value, total = next_state
        self._minimum = x[0], float(value[0])

    @property
    def optimum(self) -> float:
        """F*, the minimum of F; a diagnostic."""
        return self._prepared_minimum[1]

    @property
    def minimiser(self) -> np.ndarray:
        """(d,) the minimiser of F; a diagnostic."""
        return self._prepared_minimum[0]

    @property
    def _prepared_minimum(self) -> tuple[np.ndarray, float]:
        """The minimiser of F (d,) and F*, computed when they are first needed."""
        self.prepare()
        assert self._minimum is not None
        return self._minimum

    def _newton_step(
        self, x: np.ndarray, value: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the next point (1, d), and there F (1,) and Σ -φ' v (1, d); None if F can decrease no more.

        x : (1, d) the point, with value F(x) (1,) and gradient ∇F(x) (1, d).
        """
        with np.errstate(over="ignore", invalid="ignore"):
            step = np.linalg.solve(self._hessian(x), gradient[0])
            slope = float(gradient[0] @ step)  # decrease of F by the whole step, to first order
            if slope <= 1e-16 * value[0]:  # less than rounding
                return None
            fraction = 1.0
            while fraction >= 1e-6:  # a heuristic: if shorter steps are needed, rounding hides the decrease
                new_x = x - fraction * step
                new_value, new_total, _ = self.sums(new_x)
                if new_value[0] <= value[0] - 1e-4 * fraction * slope:  # a sufficient decrease (Armijo's condition)
                    return new_x, new_value, new_total
                fraction /= 2
        return None

    def _hessian(self, x: np.ndarray) -> np.ndarray:
        """Compute the Hessian (d, d) of F at one point x (1, d)."""
        total = np.zeros((self.facts.d, self.facts.d))
        for _, rows, arguments, caps in self._blocks(x):
            total += (rows.T * self.curvatures(arguments, caps)) @ rows
        return total / self.facts.n + 2 * self._regularisation * np.eye(self.facts.d)


def norms(rows: np.ndarray, norm: releases.Norm) -> np.ndarray:
    """Return the norm (n,) of every row of (n, d), or 1e-300 where it is smaller, so that it can be a divisor."""
    order = 1 if norm == "l1" else 2
    result = np.empty(len(rows))
    for start in range(0, len(rows), _NORMS):  # the squares of a whole table would be a second table
        part = slice(start, start + _NORMS)
        result[part] = np.linalg.norm(rows[part], order, axis=1)
    return np.maximum(result, 1e-300, out=result)
