"""Problems F(x) = (1/n) Σ f(x, zᵢ) of which algorithms use values f(x, z) only.

Queries estimate gradients from differences of values at points around x, along random directions that are public. Each
difference is clipped, so that one row's influence is bounded. In the shapes, R is the number of replicates (simulated
runs), R' the number of those that a query is for, and b that of the rows of a block.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dpviz.checkpoints import checkpoint
from dpviz.privacy.batches import Batch
from dpviz.privacy.releases import Norm, Query
from dpviz.problems.base import Facts, Metric, Problem, evaluate_in_slices
from dpviz.problems.linear.linear_base import clip_finite
from dpviz.problems.values.value_losses import ValueLoss

# -------------------------------------------------------------------------------------- random directions, from a bank

# A batch needs a set of m random directions for each of its rows, which would be expensive to draw. So there is a bank
# of sets, drawn once and never changed, and a run only draws rotations of it.

Kind = Literal["iid", "orthonormal"]  # directions of a set: independent, or perpendicular to each other

MAX_SETS, BANK_BYTES = 1024, 32_000_000
FEWEST_SETS = 16  # so that one rotation, whose cost grows with d³, serves at least as many rows
MAX_SEEN = 32  # directions per row in diagnostics, at most
AT_ONCE = 400_000  # numbers that are drawn at once for the directions in diagnostics
_BANK_SEED = 3_141_592_653  # of the banks, which are public constants; the streams of a run are derived from hashes


def haar(normals: np.ndarray) -> np.ndarray:
    """Return orthogonal matrices (..., d, d), uniform among all rotations and reflections, from standard normal numbers
    (..., d, d).

    From numbers (..., d, k) return the first k columns of such matrices.
    """
    q, r = np.linalg.qr(normals)
    # Columns are multiplied by the signs of r's diagonal, or they would prefer one half of the sphere (Mezzadri 2007).
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return np.asarray(q * signs[..., None, :])


def bank_size(count: int, d: int) -> int:
    """Return the number P of sets in a bank, each of `count` directions of d numbers: 1,024, or as many as have 32 MB,
    but no fewer than 16."""
    return min(MAX_SETS, max(FEWEST_SETS, BANK_BYTES // (8 * count * d)))


def bank_bytes(count: int, d: int) -> float:
    """Return the bytes of a bank whose sets have `count` directions of d numbers."""
    return 8.0 * bank_size(count, d) * count * d


@lru_cache(maxsize=4)
def bank(kind: Kind, count: int, d: int) -> np.ndarray:
    """Return the bank (P, m, d): P independent sets of m = `count` random unit vectors.

    Within a set they are independent, or orthonormal, then with m ≤ d. The array is read-only, as it is cached.
    """
    generator, size = np.random.default_rng((_BANK_SEED, count, d)), bank_size(count, d)
    if kind == "iid":
        sets = generator.standard_normal((size, count, d))
        sets /= np.linalg.norm(sets, axis=2, keepdims=True)
    else:
        sets = np.empty((size, count, d))
        # From normals (d, m) the law would be the same, but the bank would be another one, and with it all results.
        # One set is drawn at a time, so that no (P, d, d) array is needed.
        for directions in sets:
            directions[:] = haar(generator.standard_normal((d, d)))[:, :count].T
    sets.flags.writeable = False
    return sets


@lru_cache(maxsize=4)
def projected_directions(k: int, d: int, n_rows: int) -> np.ndarray:
    """Return for each of `n_rows` rows the coordinates of m random orthonormal directions along k fixed ones;
    (m, n_rows, k).

    The m = min(d, 32) directions are the first of d in uniform position. A row whose function depends on x through k
    numbers sees no more of a direction than these coordinates. The array is read-only, as it is cached.
    """
    generator = np.random.default_rng((_BANK_SEED, k, d, n_rows))
    coordinates = np.empty((min(d, MAX_SEEN), n_rows, k))
    n_parts = -(-n_rows * d * k // AT_ONCE)  # rounded up
    for part in np.array_split(coordinates, n_parts, axis=1):  # a view, which is written to
        checkpoint()
        columns = haar(generator.standard_normal((part.shape[1], d, k)))  # (b, d, k): row j is of direction j
        part[:] = columns[:, :MAX_SEEN].transpose(1, 0, 2)
    coordinates.flags.writeable = False
    return coordinates


class Directions:
    """One set of m = `count` directions for each row of a batch, different for every replicate.

    Each row gets another set of the bank, and each replicate draws one rotation G, which turns the directions v of all
    sets into u = G v. The sets of two rows are then independent, and each is as uniform as a fresh one; so the means
    and variances of averages over a batch are those of fresh directions. If the batch has more rows than the bank has
    sets, the bank is used again with another rotation.

    generators : R' public random streams, one for each replicate.
    start : in [0, 1), the place in the bank of the set of the first row, from the first possible one (0) to the last.
        The same for all replicates, and drawn anew for each step, so that different steps meet different sets.
    """

    def __init__(
        self, kind: Kind, count: int, d: int, generators: Sequence[np.random.Generator], start: float = 0.0
    ) -> None:
        self.kind, self.count, self.d = kind, count, d
        self._generators, self._start = generators, start

    @property
    def max_mean_length(self) -> float:
        """ς, the largest length that (1/m) Σ_j ε_j u_j can have for directions u_j of a set and numbers |ε_j| ≤ 1."""
        return max_mean_length(self.kind, self.count)

    def parts(self, size: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield the rows 0..size of a batch in parts of b rows: their slice, their sets (b, m, d) of directions v from
        the bank, and the rotations G (R', d, d) of the replicates for this part."""
        sets = bank(self.kind, self.count, self.d)
        for begin in range(0, size, len(sets)):
            rows = slice(begin, min(begin + len(sets), size))
            n_rows = rows.stop - rows.start
            first_set = int(self._start * (len(sets) - n_rows + 1))
            normals = np.empty((len(self._generators), self.d, self.d))
            for matrix, generator in zip(normals, self._generators, strict=True):
                matrix[:] = generator.standard_normal(matrix.shape)
            yield rows, sets[first_set : first_set + n_rows], haar(normals)


def draw_directions(law: Literal["sphere", "normal"], d: int, generators: Sequence[np.random.Generator]) -> np.ndarray:
    """Draw one random direction for each of R' replicates, (R', d), of mean squared length d.

    law : "normal" for N(0, I); "sphere" for the uniform law on the sphere of radius √d.
    """
    normals = np.array([generator.standard_normal(d) for generator in generators])
    return normals if law == "normal" else normals * (np.sqrt(d) / np.linalg.norm(normals, axis=1, keepdims=True))


def max_mean_length(kind: Kind, count: int) -> float:
    """Return ς, the largest length of (1/m) Σ_j ε_j u_j for m = `count` directions u_j and numbers |ε_j| ≤ 1.

    It is 1 for independent directions, which might all be equal, and 1/√m for orthonormal ones, by Pythagoras.
    """
    return 1.0 if kind == "iid" else count**-0.5


# ---------------------------------------------------- the shortest vector in a convex hull, for many replicates at once

STEPS = 300  # of the iteration, at most
ROUNDING = 1e-9  # relative tolerance: of lengths, of a clip that is not active, of the distance from x to itself


def least_norm(vectors: np.ndarray) -> np.ndarray:
    """Compute for each of R sets of q vectors (R, q, d) the norm (R,) of nearly the shortest convex combination.

    It is never below the norm of the shortest one, and exactly 0 where only rounding errors remain.
    """
    return np.linalg.norm(combine(vectors, shortest_weights(vectors)), axis=1)


def combine(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute the convex combinations (R, d) of vectors (R, q, d) with these weights (R, q).

    A combination becomes exactly 0 where only rounding errors remain.
    """
    combinations = np.matmul(weights[:, None], vectors)[:, 0]
    is_nonzero = np.linalg.norm(combinations, axis=1) > ROUNDING * np.linalg.norm(vectors, axis=2).max(axis=1)
    return np.where(is_nonzero[:, None], combinations, 0.0)


def shortest_weights(vectors: np.ndarray) -> np.ndarray:
    """Compute the weights (R, q) of nearly the shortest convex combination of each set of q vectors (R, q, d).

    This is Frank-Wolfe's method with pairwise steps for half of the squared norm: weight moves from the vector with the
    largest slope, among those with positive weight, to the vector with the smallest, as far as that helps
    (Lacoste-Julien and Jaggi 2015).
    """
    gram = np.matmul(vectors, vectors.transpose(0, 2, 1))  # (R, q, q)
    sets = np.arange(len(vectors))  # their indices: `weights[sets, best]` has one weight of each
    weights = np.zeros(vectors.shape[:2])
    weights[sets, np.diagonal(gram, axis1=1, axis2=2).argmin(axis=1)] = 1.0  # all weight on the shortest vector
    for _ in range(STEPS):
        slopes = np.matmul(gram, weights[:, :, None])[:, :, 0]
        best, worst = slopes.argmin(axis=1), np.where(weights > 0, slopes, -np.inf).argmax(axis=1)
        gain = slopes[sets, worst] - slopes[sets, best]
        # The squared distance of the two vectors, which is the second derivative of half of the squared norm by the
        # weight that moves.
        curvature = gram[sets, best, best] + gram[sets, worst, worst] - 2 * gram[sets, best, worst]
        best_step = np.divide(gain, curvature, out=np.zeros_like(gain), where=curvature > 0)
        step = np.minimum(weights[sets, worst], best_step)
        weights[sets, best] += step
        weights[sets, worst] -= step
        if not (gain > 1e-12 * (1 + np.abs(slopes).max(axis=1))).any():  # no gain is more than rounding
            break
    return weights


# ---------------------------------------------------------------------------------------------------------- the problem

UNIT = 1 + 1e-12  # the largest norm of a row, after rounding
BLOCK = 400_000  # values of the loss that are computed at once; their arguments are temporaries of 8 bytes each
TEMPORARIES = 5  # number of such temporaries at once
HALF = 2000  # rows of each half of the sample that diagnostics use
POINTS = 20  # points around an iterate, whose gradients are combined to a short vector
CHOOSING_ROWS = 1000  # rows of that sample that choose the combination; the others measure its length
GROUPS = 20  # groups of these others: the spread of their means gives the error
# Declared costs, from which slices follow: of a row's value at a point that no other row uses, of a row's gradient in
# diagnostics, of each multiplication in it, and of a row's value at a point that all rows use.
SECONDS_PER_VALUE, SECONDS_PER_DIAGNOSED, SECONDS_PER_PRODUCT, SECONDS_PER_ROW = 5e-9, 8e-9, 0.15e-9, 10e-9
_SEED = 2_718_281_829  # of the diagnostics' generator


@dataclass(frozen=True)
class ValueFacts(Facts):
    """Facts of a function F, the mean of one function f(·, z) per row z, which may have kinks or jumps.

    lipschitz : L, the declared Lipschitz constant of f(·, z).
    exact : True if L holds for every possible row; else differences of values that exceed it are clipped, which costs
        accuracy and no privacy.
    radius : r, the radius of the ball over which F is averaged to get the smoothed objective F̂_r.
    value_range : largest difference of two values of one row's function; inf if there is none.
    gap : bound on F(x₀) - inf F. guessed : True if it is an assumption, being less than the bound for every data set.
    start : (d,) the starting point x₀.
    """

    lipschitz: float = 1.0
    exact: bool = True
    radius: float = 0.1
    value_range: float = np.inf
    gap: float = 1.0
    guessed: bool = False
    start: tuple[float, ...] = ()

    def starting_point(self, replicates: int) -> np.ndarray:
        """Return x₀ (R, d), the same for all R replicates; it does not depend on data."""
        return np.tile(np.array(self.start), (replicates, 1))


class Term(NamedTuple):
    """A term weight · f(point + sign · r u) of a difference of values; point : (R, d). sign : +1 or -1."""

    weight: float
    point: np.ndarray
    sign: int


class ValueProblem(Problem):
    """A function F(x) = (1/n) Σ f(x, zᵢ) with its data, of which an algorithm may use values f(x, z) only, at any x.

    F̂_r(x) is the mean of F(x + rv) over v in the unit ball.
    A row is z = (a, y): rows (n, p) are the a, of norm at most 1, and targets (n, t) are the y. The loss defines f from
    them: f(x, z) is a function φ(A_z x, y) of k numbers A_z x, its *arguments*; see `ValueLoss`.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("objective", "Objective F(x_t)", headline=1),
        Metric("smoothed_gradient_norm", "Smoothed gradient ‖∇F̂_r(x_t)‖", headline=2, cost="expensive"),
        Metric("smoothed_gradient_error", "Standard error of ‖∇F̂_r(x_t)‖", cost="expensive", better=""),
        Metric("stationarity_bound", "Goldstein stationarity ‖∇F(x_t)‖_r, at most", headline=3, cost="expensive"),
        Metric("stationarity_error", "Standard error of the Goldstein stationarity", cost="expensive", better=""),
        Metric("clipped_share", "Share of the differences that are clipped", headline=4, cost="expensive"),
        Metric("clipped_mass", "Share of their sum that clipping takes away", cost="expensive"),
    )
    facts: ValueFacts

    def __init__(self, facts: ValueFacts, loss: ValueLoss, rows: np.ndarray, targets: np.ndarray) -> None:
        if not np.linalg.norm(rows, axis=1).max(initial=0.0) <= UNIT:  # true of NaN, too
            raise ValueError("a row is longer than 1: no Lipschitz constant would hold")
        if not np.isfinite(targets).all():
            raise ValueError("a target is not a finite number")
        self.facts, self.loss = facts, loss
        self._rows, self._targets = rows, targets

    # --------------------------------------------------------------------------------------------------------- queries

    def smoothed_gradient(
        self, x: np.ndarray, batch: Batch, directions: Directions, clip: float, radius: float | None = None
    ) -> Query:
        """Return the query of an estimate of ∇F̂_r (R', d) at x (R', d), from differences f(x + ru, z) - f(x - ru, z),
        in ℓ2. Algorithm 1 of Zhang, Tran and Cutkosky (2024).

        The estimate is the mean of d/(2r) · difference · u over the batch's rows z and their directions u.
        clip : largest |difference| that counts; others are clipped. radius : r, if it is not that of the facts.
        """
        r = self.facts.radius if radius is None else radius
        clips = np.full(len(x), float(clip))
        total = self._difference_sum((Term(1, x, 1), Term(-1, x, -1)), batch, directions, clips, r)
        return self._query(total, directions.d / (2 * r), clips, batch, directions)

    def gradient_change(
        self,
        x: np.ndarray,
        previous: np.ndarray,
        batch: Batch,
        directions: Directions,
        clips: np.ndarray,
        symmetric: bool = False,
    ) -> Query:
        """Return the query of an estimate of ∇F̂_r(x) - ∇F̂_r(previous), (R', d), from differences f(x + ru, z) -
        f(previous + ru, z) with the same u at both points, in ℓ2. Algorithm 2 of Zhang, Tran and Cutkosky (2024).

        The estimate is the mean of d/r · difference · u over the batch's rows z and their directions u.
        x, previous : (R', d). clips : (R',) largest |difference| that counts; public, such as L ‖x - previous‖.
        symmetric : use half of the difference for u minus the difference for -u, whose variance is never larger.
        """
        terms: tuple[Term, ...] = (Term(1, x, 1), Term(-1, previous, 1))
        if symmetric:
            terms = (Term(0.5, x, 1), Term(-0.5, x, -1), Term(-0.5, previous, 1), Term(0.5, previous, -1))
        total = self._difference_sum(terms, batch, directions, clips, self.facts.radius)
        return self._query(total, directions.d / self.facts.radius, clips, batch, directions)

    def directional_slope(
        self, x: np.ndarray, along: np.ndarray, batch: Batch, clip: float, distance: float, norm: Norm = "l2"
    ) -> Query:
        """Return the query of the mean slope (R', 1) along one direction per replicate: the mean of (f(x + λu, z) - f(x
        - λu, z)) / 2λ over the batch's rows z, each clipped.

        x, along : (R', d), the points and the directions u of any length. clip : largest |slope| that counts.
        distance : λ. norm : of the query; any, because the norms of one number are all the same.
        """
        x, total, b = clip_finite(x), np.zeros(len(x)), self._batch_size(batch)
        for rows in self._blocks(b, len(x) * self.facts.d * self.loss.count):  # a matrix A_z (k, d) has as many numbers
            a, y = self._batch_rows(batch, rows)
            arguments, step = self._arguments(a, x), distance * self._arguments(a, along)
            with np.errstate(invalid="ignore", over="ignore"):
                differences = self._values(arguments + step, y) - self._values(arguments - step, y)
            differences[~np.isfinite(differences)] = 0.0
            total += _clip_in_place(differences / (2 * distance), clip).sum(axis=(0, 1))
        return Query((total / b)[:, None], 2 * clip / b, norm, batch)

    def subgradient(self, x: np.ndarray, batch: Batch, clip: float) -> Query:
        """Return the query of the mean of the rows' subgradients (R', d) at x (R', d), each clipped to length `clip`,
        in ℓ2, for methods that may use more than values."""
        x, total, b = clip_finite(x), np.zeros(x.shape), self._batch_size(batch)
        for rows in self._blocks(b, x.size * self.loss.count):
            a, y = self._batch_rows(batch, rows)
            # A row's subgradient is A_zᵀ w with the derivatives w of φ by its arguments.
            weights = self.loss.slopes(self.loss.arguments(a, x[:, :, None])[..., 0], y)
            lengths = self.loss.lengths(a) * np.linalg.norm(weights, axis=2)  # of A_zᵀ w
            weights = weights * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))[:, :, None]  # lengths may be 0
            total += self.loss.pull_back(a, weights)
        return Query(total / b, 2 * clip / b, "l2", batch)

    def _query(self, total: np.ndarray, scale: float, clips: np.ndarray, batch: Batch, directions: Directions) -> Query:
        """Return the query of `scale` times the mean over a batch's rows, from the sum `total` (R', d) of
        `_difference_sum`.

        A row's part of the sum is (1/m) Σ_j h_j u_j with |h_j| at most the clip (R',). Its length is at most the clip
        times `max_mean_length`, and changes by at most twice that if the row is replaced.
        """
        b = self._batch_size(batch)
        return Query(total * (scale / b), 2 * scale * clips * directions.max_mean_length / b, "l2", batch)

    # ---------------------------------------------------------------------------------------------- sums of differences

    def _difference_sum(
        self, terms: Sequence[Term], batch: Batch, directions: Directions, clips: np.ndarray, radius: float
    ) -> np.ndarray:
        """Compute (1/m) Σ_ij h_ij u_ij (R', d) over the rows i of a batch and their m directions u_ij.

        h_ij is the difference that the `terms` define for row i and direction u_ij, clipped to ±clips (R',).
        """
        replicates, d = terms[0].point.shape
        terms = [term._replace(point=clip_finite(term.point)) for term in terms]
        total = np.zeros((replicates, d))
        for part, sets, rotations in directions.parts(self._batch_size(batch)):
            bank_total = np.zeros((replicates, d))  # Σ h v with the directions v of the bank; u = G v
            # For each row and replicate there are values at m points, and a product A_z G with d columns.
            for rows in self._blocks(part.stop - part.start, replicates * max(directions.count, d) * self.loss.count):
                checkpoint()
                a, y = self._batch_rows(batch, slice(part.start + rows.start, part.start + rows.stop))
                differences = _clip_in_place(self._differences(terms, a, y, sets[rows], rotations, radius), clips)
                bank_total += differences.reshape(-1, replicates).T @ sets[rows].reshape(-1, d)
            total += np.matmul(rotations, bank_total[:, :, None])[:, :, 0] / directions.count
        return total

    def _differences(
        self,
        terms: Sequence[Term],
        a: np.ndarray,
        y: np.ndarray,
        sets: np.ndarray,
        rotations: np.ndarray,
        radius: float,
    ) -> np.ndarray:
        """Compute the differences h (b, m, R) that the `terms` define, not clipped; 0 where they are not finite.

        a (R, b, p), y (R, b, t) : b rows for each replicate. sets : (b, m, d) their directions v in the bank.
        rotations : (R, d, d) G. radius : r.
        """
        replicates, b = len(rotations), len(sets)
        # φ depends on x + ru through A_z x + r A_z u, where A_z u = (A_z G) v: (b, m, R, k), from `sets` (b, m, d) and
        # the products A_z G (b, d, R k).
        products = self.loss.arguments(a, rotations).transpose(1, 3, 0, 2).reshape(b, -1, replicates * self.loss.count)
        shifts = np.matmul(sets, products).reshape(b, -1, replicates, self.loss.count)
        shifts *= radius
        total = np.zeros((b, sets.shape[1], replicates))
        with np.errstate(invalid="ignore", over="ignore"):
            for term in terms:
                arguments = self._arguments(a, term.point)
                arguments = arguments + shifts if term.sign > 0 else arguments - shifts
                total += term.weight * self._values(arguments, y)
        if not np.isfinite(total.sum()):  # rare, so that the next line seldom takes its time
            total[~np.isfinite(total)] = 0.0
        return total

    def _arguments(self, a: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Compute the arguments A_z x (b, 1, R, k) of b rows at x (R, d).

        a : (R, b, p) rows, or (1, b, p) where all replicates have the same rows.
        """
        if len(a) == 1:  # one product, for which the rows are read once
            return self.loss.arguments(a, x.T[None]).transpose(1, 0, 3, 2)
        return self.loss.arguments(a, x[:, :, None]).transpose(1, 3, 0, 2)

    def _values(self, arguments: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Compute f (b, m, R) of b rows from their arguments (b, m, R, k), at m points, and their targets y (R, b,
        t)."""
        return self.loss.values(arguments, y.transpose(1, 0, 2)[:, None])

    def _batch_size(self, batch: Batch) -> int:
        """Return b, the number of rows of a batch that is given by indices, as many for every replicate.

        Raises ValueError for another kind of batch, and for indices of another table.
        """
        # With `taken`, which marks the indices that count, batches differ in size.
        if batch.indices is None or batch.taken is not None or batch.indices.max(initial=0) >= self.facts.n:
            raise ValueError("values need a batch of indices of this table, equally many for every replicate")
        return batch.indices.shape[1]

    def _batch_rows(self, batch: Batch, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows a (R', b, p) and targets y (R', b, t) of a slice of b rows of a batch."""
        assert batch.indices is not None
        indices = batch.indices[:, rows]
        return self._rows[indices], self._targets[indices]

    @staticmethod
    def _blocks(count: int, per_row: int) -> Iterator[slice]:
        """Yield 0..count in slices of as many rows as have BLOCK values together, at `per_row` values for each."""
        size = max(1, BLOCK // max(1, per_row))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    # ------------------------------------------------------------------------------------------------------ diagnostics

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        """Compute the metrics (R,) at the outputs {"x": (R, d)}, in slices that follow from declared costs."""
        n, d = self.facts.n, self.facts.d
        cost_factor = (1 + self.loss.count) / 2  # a loss with more arguments per row takes longer; an estimate
        seconds = n * cost_factor * (SECONDS_PER_ROW + SECONDS_PER_PRODUCT * d)
        if not expensive:
            return evaluate_in_slices(self._evaluate_cheap, output, seconds)
        slope_seconds = SECONDS_PER_DIAGNOSED + 2 * SECONDS_PER_PRODUCT * d  # the products A_z x, and A_zᵀ w
        sample_seconds = 2 * min(d, MAX_SEEN) * SECONDS_PER_VALUE + POINTS * slope_seconds  # two values per direction
        return evaluate_in_slices(self._evaluate, output, seconds + min(2 * HALF, n) * cost_factor * sample_seconds)

    def _evaluate_cheap(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute the objective F (R,) at the outputs {"x": (R, d)}, over all rows."""
        x = clip_finite(output["x"])
        total = np.zeros(len(x))
        for rows in self._blocks(self.facts.n, len(x) * self.loss.count):
            a, y = self._rows[None, rows], self._targets[None, rows]
            total += self._values(self._arguments(a, x), y).sum(axis=(0, 1))
        return {"objective": total / self.facts.n}

    def correct_share(self, x: np.ndarray) -> np.ndarray | None:
        """Compute for each of the models x (R, d) the share of the rows whose loss is smaller with their own target
        than with the other one; (R,). A row with equal losses counts half.

        Return None unless there are exactly two different targets. This reads raw data and is not private.
        """
        low, high = self._targets.min(), self._targets.max()
        has_two_values = low < high and np.isin(self._targets, (low, high)).all()
        if self._targets.shape[1] != 1 or not has_two_values:
            return None
        x = clip_finite(x)
        total = np.zeros(len(x))
        for rows in self._blocks(self.facts.n, len(x) * self.loss.count):
            checkpoint()
            arguments, y = self._arguments(self._rows[None, rows], x), self._targets[None, rows]
            other_y = low + high - y  # the other of the two targets
            total += np.sign(self._values(arguments, other_y) - self._values(arguments, y)).sum(axis=(0, 1))
        return (1 + total / self.facts.n) / 2  # from a mean of 1, -1 and, for equal losses, 0 to a share

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Compute all metrics (R,) at the outputs {"x": (R, d)}, the expensive ones from a random sample of the rows.

        The rows of the sample and their directions are the same at every call, so that values can be compared.
        """
        generator, facts = np.random.default_rng(_SEED), self.facts
        half = max(1, min(HALF, facts.n // 2))
        sample = generator.permutation(facts.n)[: 2 * half]
        a, x = self._rows[sample], clip_finite(output["x"])
        weights, clipping = self._row_estimates(x, sample)
        first_mean, second_mean = (
            self._pull_back_sum(a[part], weights[part]) / len(a[part]) for part in (slice(half), slice(half, None))
        )
        # The product of two independent estimates of ∇F̂_r has the mean ‖∇F̂_r‖²; the square of one would have more.
        square, mean = (first_mean * second_mean).sum(axis=1), (first_mean + second_mean) / 2
        # Components (b, R) of the rows' estimates along their mean: (A_zᵀ w) · mean = w · (A_z mean).
        components = (weights * self._arguments(a[None], mean)[:, 0]).sum(axis=2)
        components /= np.maximum(np.linalg.norm(mean, axis=1), 1e-12)  # the mean may be 0
        bound, error = self._stationarity(x, sample, generator)
        return self._evaluate_cheap(output) | {
            "smoothed_gradient_norm": np.sign(square) * np.sqrt(np.abs(square)),
            "smoothed_gradient_error": components.std(axis=0) / np.sqrt(len(components)),
            # If L holds for every row, no gradient is longer than L.
            "stationarity_bound": np.minimum(bound, facts.lipschitz) if facts.exact else bound,
            "stationarity_error": error,
            **clipping,
        }

    def _row_estimates(self, x: np.ndarray, sample: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Estimate ∇F̂_r at x (R, d) from each row of the sample alone, by m orthonormal directions, without clipping.

        Return weights w (b, R, k), where the estimate of a row is A_zᵀ w, and the metrics of the effect that clipping
        the differences at 2rL would have.
        A row's value at x + ru depends on u through the k numbers A_z u alone. The mean of all u with the same A_z u is
        A_zᵀ A_z u/l², where A_z A_zᵀ is l² times the identity; it replaces u in the estimate, as the rest of u only
        adds noise. A_z u/l has the same law in every row: `projected_directions`.
        """
        (replicates, d), r, k = x.shape, self.facts.radius, self.loss.count
        clip = 2 * r * self.facts.lipschitz
        n_clipped, clipped_sizes, total_sizes = np.zeros(replicates), np.zeros(replicates), np.zeros(replicates)
        directions, weights = projected_directions(k, d, len(sample)), np.empty((len(sample), replicates, k))
        m = len(directions)
        for rows in self._blocks(len(sample), 4 * replicates * m * k):  # 4 is by trial: blocks fit into the cache
            a, y = self._rows[None, sample[rows]], self._targets[sample[rows]]
            coordinates = directions[:, rows]  # A_z u/l of the block's rows, (m, b, k)
            lengths = self.loss.lengths(a)[0, :, None]  # l of each row, (b, 1)
            arguments = np.ascontiguousarray(self._arguments(a, x).transpose(2, 1, 0, 3))  # A_z x, (R, 1, b, k)
            shifts = r * lengths * coordinates  # r A_z u, (m, b, k)
            with np.errstate(invalid="ignore", over="ignore"):  # (R, m, b)
                differences = self.loss.values(arguments + shifts, y) - self.loss.values(arguments - shifts, y)
            differences[~np.isfinite(differences)] = 0.0
            sums = np.einsum("rmb,mbk->brk", differences, coordinates)  # Σ difference · A_z u/l over the directions
            # The sums hold A_z u/l, and A_zᵀ A_z u/l² is A_zᵀ times that, divided by l; a row, and so l, may be 0.
            weights[rows] = sums * (d / (2 * r * m)) / np.maximum(lengths, 1e-300)[:, None]
            sizes = np.abs(differences, out=differences)
            total_sizes += sizes.sum(axis=(1, 2))
            n_clipped += (sizes > clip * (1 + ROUNDING)).sum(axis=(1, 2))
            clipped_sizes += np.maximum(sizes - clip, 0.0).sum(axis=(1, 2))
        # Where no difference counts as clipped, only rounding exceeds the clip.
        mass = np.divide(clipped_sizes, total_sizes, out=np.zeros(replicates), where=n_clipped > 0)
        return weights, {"clipped_share": n_clipped / (len(sample) * m), "clipped_mass": mass}

    def _stationarity(
        self, x: np.ndarray, sample: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Estimate the norm (R,) of a convex combination of gradients of F within r of x (R, d), and its standard error
        (R,).

        The norm is an upper bound on Goldstein's ‖∇F(x)‖_r, the distance of 0 from the convex hull of these gradients.
        Some rows of the sample choose a short combination, and the others measure its length, which would be too short
        for the rows that chose it. The points are random, so that F has no kink there and its gradients exist.

        The standard error follows from the means of groups of rows. Both are NaN for functions that jump, of which
        Goldstein's gradients are not defined.
        """
        replicates, d = x.shape
        if not self.loss.continuous:
            return np.full(replicates, np.nan), np.full(replicates, np.nan)
        normals = generator.standard_normal((POINTS, d))
        # U^(1/d) for a uniform U is the distance from the centre of a point that is uniform in the unit ball.
        lengths = self.facts.radius * generator.random(POINTS) ** (1 / d) / np.linalg.norm(normals, axis=1)
        lengths[0] *= ROUNDING  # x itself, moved off a possible kink
        points = (x[:, None] + lengths[:, None] * normals).reshape(-1, d)
        n_choosing = min(CHOOSING_ROWS, max(1, len(sample) // 2))
        measuring_rows = sample[n_choosing:] if len(sample) > n_choosing else sample
        weights = shortest_weights(self._mean_gradients(points, sample[:n_choosing]).reshape(replicates, POINTS, d))
        groups = np.array_split(measuring_rows, min(GROUPS, len(measuring_rows)))
        group_gradients = np.array([self._mean_gradients(points, group) for group in groups])
        group_gradients = group_gradients.reshape(-1, replicates, POINTS, d)
        shares = np.array([len(group) / len(measuring_rows) for group in groups])
        combination = combine(np.tensordot(shares, group_gradients, axes=1), weights)
        bound = np.linalg.norm(combination, axis=1)
        group_combinations = np.einsum("rq,grqd->grd", weights, group_gradients)
        # Their components along the combination of all; their mean, weighted by the groups' sizes, is the bound, which
        # may be 0.
        components = np.einsum("grd,rd->gr", group_combinations, combination) / np.maximum(bound, 1e-12)
        ddof = min(1, len(groups) - 1)  # a single group has no spread; its error is given as 0
        return bound, components.std(axis=0, ddof=ddof) / np.sqrt(len(groups))

    def _mean_gradients(self, points: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Compute at points (P, d) the gradients (P, d) of the mean of f over the rows of these indices (b,)."""
        total = np.zeros(points.shape)
        for rows in self._blocks(len(indices), len(points) * self.loss.count):
            a, y = self._rows[indices[rows]], self._targets[indices[rows], None]
            arguments = self._arguments(a[None], points)[:, 0]  # (b, P, k)
            total += self._pull_back_sum(a, self.loss.slopes(arguments, y))
        return total / len(indices)

    def _pull_back_sum(self, a: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Compute Σ A_zᵀ w (R, d) over the rows a (b, p), which are the same for all replicates, with weights w (b, R,
        k): in one product, in which the R k weights of a row stand as if they were those of one replicate."""
        return self.loss.pull_back(a[None], weights.reshape(1, len(a), -1)).reshape(weights.shape[1], -1)


def _clip_in_place(values: np.ndarray, clips: np.ndarray | float) -> np.ndarray:
    """Clip values (b, m, R) to ±clips (R,), and return them."""
    return np.clip(values, -clips, clips, out=values)
