"""Means of functions of which only values are used: differences of values along public directions, clipped."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from dpviz.checkpoints import checkpoint
from dpviz.privacy.batches import Batch
from dpviz.privacy.releases import Norm, Query
from dpviz.problems.base import Facts, Metric, Problem, evaluated_in_slices
from dpviz.problems.values.value_losses import ValueLoss

# ------------------------------------------------------------ random directions, public: rotations of one bank of them

Kind = Literal["iid", "orthonormal"]

MOST_SETS, BANK_BYTES, FEWEST_SETS = 1024, 32_000_000, 16
MOST_SEEN, AT_ONCE = 32, 400_000  # largest number of a row's directions in diagnostics; numbers drawn at once for these
_BANK_SEED = 3_141_592_653  # of the banks, which are public constants; the streams of a run are derived from hashes


def haar(normals: np.ndarray) -> np.ndarray:
    """Return rotations (and reflections) (..., d, d), uniform over all, from standard normal numbers (..., d, d).

    From (..., d, k) numbers, return the first k columns of such. The signs matter: without them the first column would
    prefer one half of the sphere (Mezzadri 2007).
    """
    q, r = np.linalg.qr(normals)
    return np.asarray(q * np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :])


def bank_size(count: int, d: int) -> int:
    """Return the number of sets of `count` directions in a bank: at most 1,024, and 32 MB unless that is fewer than
    16 sets."""
    return min(MOST_SETS, max(FEWEST_SETS, BANK_BYTES // (8 * count * d)))


def bank_bytes(count: int, d: int) -> float:
    """Return the bytes of such a bank."""
    return 8.0 * bank_size(count, d) * count * d


@lru_cache(maxsize=4)
def bank(kind: Kind, count: int, d: int) -> np.ndarray:
    """Return (P, m, d) sets of m unit vectors, read-only: independent of each other, or orthonormal within a set (m
    ≤ d)."""
    generator, size = np.random.default_rng((_BANK_SEED, count, d)), bank_size(count, d)
    if kind == "iid":
        sets = generator.standard_normal((size, count, d))
        sets /= np.linalg.norm(sets, axis=2, keepdims=True)
    else:
        sets = np.empty((size, count, d))
        for directions in sets:  # so that no (P, d, d) array is needed for few directions in a large space
            directions[:] = haar(generator.standard_normal((d, d)))[:, :count].T
    sets.flags.writeable = False
    return sets


@lru_cache(maxsize=4)
def seen(count: int, d: int, size: int) -> np.ndarray:
    """Return (m, size, k) the coordinates of random orthonormal directions along k fixed ones, read-only.

    For each of `size` rows, the first m = min(d, 32) of d orthonormal directions, in uniform position, as they act on a
    row whose function depends on k = `count` numbers.
    """
    generator, sets = np.random.default_rng((_BANK_SEED, count, d, size)), np.empty((min(d, MOST_SEEN), size, count))
    for part in np.array_split(sets, -(-size * d * count // AT_ONCE), axis=1):  # views
        checkpoint()
        part[:] = haar(generator.standard_normal((part.shape[1], d, count)))[:, :MOST_SEEN].transpose(1, 0, 2)
    sets.flags.writeable = False
    return sets


class Directions:
    """Sets of m directions, one for each row of a batch, different for every replicate.

    Row i of a replicate gets set i of a bank, turned by a rotation G that the replicate draws: u = G v. The bank's sets
    are independent, so two rows' turned sets are, and each is as uniform as a fresh one; means and variances of batch
    averages are those of fresh directions. A bank that is shorter than the batch is turned again for the rest.

    generators : (R') public streams. start : in [0, 1), the relative position in the bank of the first set, the same
        for all replicates.
    """

    def __init__(
        self, kind: Kind, count: int, d: int, generators: Sequence[np.random.Generator], start: float = 0.0
    ) -> None:
        self.kind, self.count, self.d = kind, count, d
        self._generators, self._start = generators, start

    @property
    def spread(self) -> float:
        """ς: the length of (1/m) Σ_j ε_j u_j is at most this, for any |ε_j| ≤ 1."""
        return spread(self.kind, self.count)

    def parts(self, size: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield parts of the rows 0..size: slice of rows, their sets (b, m, d) in the bank, and the rotations (R',
        d, d)."""
        sets = bank(self.kind, self.count, self.d)
        for begin in range(0, size, len(sets)):
            rows = slice(begin, min(begin + len(sets), size))
            first = int(self._start * (len(sets) - (rows.stop - rows.start) + 1))
            normals = np.empty((len(self._generators), self.d, self.d))
            for matrix, generator in zip(normals, self._generators, strict=True):
                matrix[:] = generator.standard_normal(matrix.shape)
            yield rows, sets[first : first + rows.stop - rows.start], haar(normals)


def singles(law: Literal["sphere", "normal"], d: int, generators: Sequence[np.random.Generator]) -> np.ndarray:
    """Draw (R', d) one direction for every replicate, of mean squared length d: N(0, I), or uniform on the sphere."""
    normals = np.array([generator.standard_normal(d) for generator in generators])
    return normals if law == "normal" else normals * (np.sqrt(d) / np.linalg.norm(normals, axis=1, keepdims=True))


def spread(kind: Kind, count: int) -> float:
    """Return ς = 1 for independent directions, which might all be equal; 1/√m for orthonormal ones, by Pythagoras."""
    return 1.0 if kind == "iid" else count**-0.5


# ---------------------------------------------------- the shortest vector in a convex hull, for many replicates at once

STEPS = 300
ROUNDING = 1e-9  # relative tolerance: of lengths, of a clip that is not active, of the distance from x to itself


def least_norm(vectors: np.ndarray) -> np.ndarray:
    """Compute (R,) the norm of nearly the shortest convex combination of vectors (R, q, d).

    It is never below the smallest norm, and 0 where only rounding errors remain.
    """
    return np.linalg.norm(mixed(vectors, shortest(vectors)), axis=1)


def mixed(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute (R, d) convex combinations of vectors (R, q, d); 0 where only rounding errors remain."""
    combinations = np.matmul(weights[:, None], vectors)[:, 0]
    is_nonzero = np.linalg.norm(combinations, axis=1) > ROUNDING * np.linalg.norm(vectors, axis=2).max(axis=1)
    return np.where(is_nonzero[:, None], combinations, 0.0)


def shortest(vectors: np.ndarray) -> np.ndarray:
    """Compute (R, q) weights of nearly the shortest convex combination of vectors (R, q, d).

    Frank-Wolfe with pairwise steps: weight moves from the worst vector with positive weight to the best one, as far as
    that helps (Lacoste-Julien and Jaggi 2015).
    """
    gram, rows = np.matmul(vectors, vectors.transpose(0, 2, 1)), np.arange(len(vectors))
    weights = np.zeros(vectors.shape[:2])
    weights[rows, np.diagonal(gram, axis1=1, axis2=2).argmin(axis=1)] = 1.0
    for _ in range(STEPS):
        slopes = np.matmul(gram, weights[:, :, None])[:, :, 0]
        best, worst = slopes.argmin(axis=1), np.where(weights > 0, slopes, -np.inf).argmax(axis=1)
        gain = slopes[rows, worst] - slopes[rows, best]
        curvature = gram[rows, best, best] + gram[rows, worst, worst] - 2 * gram[rows, best, worst]
        step = np.minimum(
            weights[rows, worst], np.divide(gain, curvature, out=np.zeros_like(gain), where=curvature > 0)
        )
        weights[rows, best] += step
        weights[rows, worst] -= step
        if not (gain > 1e-12 * (1 + np.abs(slopes).max(axis=1))).any():
            break
    return weights


# ---------------------------------------------------------------------------------------------------------- the problem

UNIT = 1 + 1e-12  # the largest norm of a row, after rounding
BLOCK = 400_000  # values of the loss that are computed at once; their arguments are temporaries of 8 bytes each
TEMPORARIES = 5  # number of such temporaries at once
HALF = 2000  # rows of each half of the sample that diagnostics use
POINTS = 20  # points around an iterate, whose gradients are combined to a short vector
FEWER = 1000  # rows of that sample that choose the combination; the others measure its length
GROUPS = 20  # groups of these others: the spread of their means gives the error
# Slices follow from these: a value at a point of its own, a row's gradient, each product in it, a value of all rows at
# one point.
SECONDS_PER_VALUE, SECONDS_PER_DIAGNOSED, SECONDS_PER_PRODUCT, SECONDS_PER_ROW = 5e-9, 8e-9, 0.15e-9, 10e-9
_SEED = 2_718_281_829  # of the diagnostics' generator


@dataclass(frozen=True)
class ValueFacts(Facts):
    """Facts of a mean of n functions that may have kinks or jumps.

    lipschitz : L, declared. exact : whether it holds for the function of every possible row; else values that change
        faster are clipped, which costs accuracy and no privacy.
    radius : r, over which the objective is smoothed. value_range : largest difference of two values of one row's
        function, inf if there is none.
    gap : bound on F(x₀) - inf F. guessed : whether it is assumed, as it is less than the bound for every data set.
    start : (d,) the starting point.
    """

    lipschitz: float = 1.0
    exact: bool = True
    radius: float = 0.1
    value_range: float = np.inf
    gap: float = 1.0
    guessed: bool = False
    start: tuple[float, ...] = ()

    def starting_point(self, replicates: int) -> np.ndarray:
        """Return (R, d) the data-independent x₀, the same for every replicate."""
        return np.tile(np.array(self.start), (replicates, 1))


Terms = tuple[tuple[float, np.ndarray, int], ...]  # weight, point (R, d), sign of the direction


class ValueProblem(Problem):
    """F(x) = (1/n) Σ f(x, zᵢ), of which an algorithm may use values f(x, z) only, at any points.

    rows : (n, p), of norm at most 1. targets : (n, t). The loss defines their meaning.
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
        if not np.linalg.norm(rows, axis=1).max(initial=0.0) <= UNIT:
            raise ValueError("a row is longer than 1: no Lipschitz constant would hold")
        if not np.isfinite(targets).all():
            raise ValueError("a target is not a finite number")
        self.facts, self.loss = facts, loss
        self._rows, self._targets = rows, targets

    # --------------------------------------------------------------------------------------------------------- queries

    def slope(
        self, x: np.ndarray, batch: Batch, directions: Directions, clip: float, radius: float | None = None
    ) -> Query:
        """Estimate ∇F̂_r(x) from differences f(x + ru, z) - f(x - ru, z); (R', d), "l2". Algorithm 1.

        x : (R', d). clip : largest |difference| that counts. radius : r, if it is not that of the facts.
        """
        r = self.facts.radius if radius is None else radius
        clips = np.full(len(x), float(clip))
        total = self._summed(((1, x, 1), (-1, x, -1)), batch, directions, clips, r)
        return self._query(total, directions.d / (2 * r), clips, batch, directions)

    def change(
        self,
        x: np.ndarray,
        previous: np.ndarray,
        batch: Batch,
        directions: Directions,
        clips: np.ndarray,
        symmetric: bool = False,
    ) -> Query:
        """Estimate ∇F̂_r(x) - ∇F̂_r(previous) from differences f(x + ru, z) - f(previous + ru, z), the same u for both;
        (R', d), "l2". Algorithm 2.

        x, previous : (R', d). clips : (R',) largest |difference| that counts; public, such as L ‖x - previous‖.
        symmetric : half of the difference for u minus that for -u.
        """
        terms: Terms = ((1, x, 1), (-1, previous, 1))
        if symmetric:
            terms = ((0.5, x, 1), (-0.5, x, -1), (-0.5, previous, 1), (0.5, previous, -1))
        total = self._summed(terms, batch, directions, clips, self.facts.radius)
        return self._query(total, directions.d / self.facts.radius, clips, batch, directions)

    def directional(
        self, x: np.ndarray, along: np.ndarray, batch: Batch, clip: float, distance: float, norm: Norm = "l2"
    ) -> Query:
        """Compute the mean slope along one direction per replicate, (f(x + λu, z) - f(x - λu, z)) / 2λ, clipped; (R',
        1).

        x, along : (R', d), u of any length. clip : largest |slope| that counts. distance : λ. norm : any, as it is one
            number.
        """
        x, total, b = bounded(x), np.zeros(len(x)), self._size(batch)
        for rows in self._blocks(b, len(x) * self.facts.d * self.loss.count):
            z, y = self._gathered(batch, rows)
            arguments, step = self._arguments(z, x), distance * self._arguments(z, along)
            with np.errstate(invalid="ignore", over="ignore"):
                differences = self._values(arguments + step, y) - self._values(arguments - step, y)
            differences[~np.isfinite(differences)] = 0.0
            total += _clipped(differences / (2 * distance), clip).sum(axis=(0, 1))
        return Query((total / b)[:, None], 2 * clip / b, norm, batch)

    def subgradient(self, x: np.ndarray, batch: Batch, clip: float) -> Query:
        """Compute the mean of the rows' subgradients at x (R', d), each clipped to length `clip`; (R', d), "l2".

        For methods that may use more than values.
        """
        x, total, b = bounded(x), np.zeros(x.shape), self._size(batch)
        for rows in self._blocks(b, x.size * self.loss.count):
            z, y = self._gathered(batch, rows)
            weights = self.loss.slopes(self.loss.arguments(z, x[:, :, None])[..., 0], y)
            lengths = self.loss.lengths(z) * np.linalg.norm(weights, axis=2)
            weights = weights * np.minimum(1.0, clip / np.maximum(lengths, 1e-300))[:, :, None]
            total += self.loss.pulled(z, weights)
        return Query(total / b, 2 * clip / b, "l2", batch)

    def _query(self, total: np.ndarray, scale: float, clips: np.ndarray, batch: Batch, directions: Directions) -> Query:
        """Return the query of a sum over the rows of a batch.

        A row's part of the sum is scale/m Σ_j h_j u_j, whose length `spread` bounds: if the row is replaced, the sum
        moves by at most twice that.
        """
        b = self._size(batch)
        return Query(total * (scale / b), 2 * scale * clips * directions.spread / b, "l2", batch)

    # ---------------------------------------------------------------------------------------------- sums of differences

    def _summed(
        self, terms: Terms, batch: Batch, directions: Directions, clips: np.ndarray, radius: float
    ) -> np.ndarray:
        """Compute (1/m) Σ_ij h_ij u_ij (R', d) over the rows of a batch, h = Σ weight · f(point ± ru) clipped at
        `clips`."""
        count, d = terms[0][1].shape
        terms = tuple((weight, bounded(x), sign) for weight, x, sign in terms)
        total = np.zeros((count, d))
        for part, sets, turns in directions.parts(self._size(batch)):
            bank_total = np.zeros((count, d))
            for rows in self._blocks(part.stop - part.start, count * max(directions.count, d) * self.loss.count):
                checkpoint()
                z, y = self._gathered(batch, slice(part.start + rows.start, part.start + rows.stop))
                differences = _clipped(self._differences(terms, z, y, sets[rows], turns, radius), clips)
                bank_total += differences.reshape(-1, count).T @ sets[rows].reshape(-1, d)
            total += np.matmul(turns, bank_total[:, :, None])[:, :, 0] / directions.count
        return total

    def _differences(
        self, terms: Terms, z: np.ndarray, y: np.ndarray, sets: np.ndarray, turns: np.ndarray, radius: float
    ) -> np.ndarray:
        """Compute h (b, m, R) of rows z (R, b, p), not clipped; 0 where it is not finite."""
        count, b = len(turns), len(sets)
        columns = self.loss.arguments(z, turns).transpose(1, 3, 0, 2).reshape(b, -1, count * self.loss.count)
        shifts = np.matmul(sets, columns).reshape(b, -1, count, self.loss.count)
        shifts *= radius
        total = np.zeros((b, sets.shape[1], count))
        with np.errstate(invalid="ignore", over="ignore"):
            for weight, x, sign in terms:
                arguments = self._arguments(z, x)
                total += weight * self._values(arguments + shifts if sign > 0 else arguments - shifts, y)
        if not np.isfinite(total.sum()):
            total[~np.isfinite(total)] = 0.0
        return total

    def _arguments(self, z: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Compute A_z x (b, 1, R, k) at x (R, d); z (R, b, p), or (1, b, p) where all replicates have the same rows."""
        if len(z) == 1:  # one product, for which the rows are read once
            return self.loss.arguments(z, x.T[None]).transpose(1, 0, 3, 2)
        return self.loss.arguments(z, x[:, :, None]).transpose(1, 3, 0, 2)

    def _values(self, arguments: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Compute f (b, m, R); y (R, b, t)."""
        return self.loss.values(arguments, y.transpose(1, 0, 2)[:, None])

    def _size(self, batch: Batch) -> int:
        """Return the number of rows of a batch that names them one by one.

        Raises ValueError for another kind of batch, or one of another table.
        """
        if batch.indices is None or batch.taken is not None or batch.indices.max(initial=0) >= self.facts.n:
            raise ValueError("values are asked for on leaves of this table")
        return batch.indices.shape[1]

    def _gathered(self, batch: Batch, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return rows (R', b, p) and targets (R', b, t) of a part of a batch."""
        assert batch.indices is not None
        indices = batch.indices[:, rows]
        return self._rows[indices], self._targets[indices]

    @staticmethod
    def _blocks(count: int, per_row: int) -> Iterator[slice]:
        """Yield 0..count in blocks of rows with `per_row` values each, so that temporaries stay small."""
        size = max(1, BLOCK // max(1, per_row))
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    # ------------------------------------------------------------------------------------------------------ diagnostics

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        n, d, weight = (
            self.facts.n,
            self.facts.d,
            (1 + self.loss.count) / 2,
        )  # it grows with the loss's number of arguments
        seconds = n * weight * (SECONDS_PER_ROW + SECONDS_PER_PRODUCT * d)
        if not expensive:
            return evaluated_in_slices(self._evaluate_cheap, output, seconds)
        slope_seconds = SECONDS_PER_DIAGNOSED + 2 * SECONDS_PER_PRODUCT * d
        sample_seconds = 2 * min(d, MOST_SEEN) * SECONDS_PER_VALUE + POINTS * slope_seconds
        return evaluated_in_slices(self._evaluate, output, seconds + min(2 * HALF, n) * weight * sample_seconds)

    def _evaluate(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self._evaluate_cheap(output) | self._sampled(bounded(output["x"]))

    def _evaluate_cheap(self, output: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        x = bounded(output["x"])
        total = np.zeros(len(x))
        for rows in self._blocks(self.facts.n, len(x) * self.loss.count):
            z, y = self._rows[None, rows], self._targets[None, rows]
            total += self._values(self._arguments(z, x), y).sum(axis=(0, 1))
        return {"objective": total / self.facts.n}

    def correct(self, x: np.ndarray) -> np.ndarray | None:
        """Compute the share of rows whose loss is less at their own target than at the other one, as `Problem.correct`.

        None unless there are two targets.
        """
        ends = self._targets.min(), self._targets.max()
        if self._targets.shape[1] != 1 or not np.isin(self._targets, ends).all():
            return None
        x = bounded(x)
        total = np.zeros(len(x))
        for rows in self._blocks(self.facts.n, len(x) * self.loss.count):
            checkpoint()
            arguments, y = self._arguments(self._rows[None, rows], x), self._targets[None, rows]
            total += np.sign(self._values(arguments, sum(ends) - y) - self._values(arguments, y)).sum(axis=(0, 1))
        return (1 + total / self.facts.n) / 2

    def _sampled(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """Estimate smoothed gradient, stationarity and clipping from a sample of rows, with the same rows and
        directions every time."""
        generator, facts = np.random.default_rng(_SEED), self.facts
        half = max(1, min(HALF, facts.n // 2))
        order = generator.permutation(facts.n)[: 2 * half]
        weights, clipping = self._sloped(x, order)
        z = self._rows[order]
        first_mean, second_mean = (
            self._pulled(z[part], weights[part]) / len(z[part]) for part in (slice(half), slice(half, None))
        )
        product, mean = (first_mean * second_mean).sum(axis=1), (first_mean + second_mean) / 2
        along = (weights * self._arguments(z[None], mean)[:, 0]).sum(axis=2)
        along /= np.maximum(np.linalg.norm(mean, axis=1), 1e-12)
        bound, error = self._stationarity(x, order, generator)
        return {
            "smoothed_gradient_norm": np.sign(product) * np.sqrt(np.abs(product)),
            "smoothed_gradient_error": along.std(axis=0) / np.sqrt(len(along)),
            "stationarity_bound": np.minimum(bound, facts.lipschitz) if facts.exact else bound,
            "stationarity_error": error,
            **clipping,
        }

    def _sloped(self, x: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Estimate ∇F̂_r(x) from each row alone, with orthonormal directions and without clipping.

        Return the weights w (b, R, k) of A_zᵀ w, and the effect that a clip at 2rL would have. The function of a row
        depends on a direction u through A_z u alone, k numbers; over all u with these the mean is A_zᵀ A_z u/l², as A_z
        A_zᵀ is l² times the identity, and the other part of u only adds noise. A_z u/l has the same law in every row.
        """
        (count, d), r, k = x.shape, self.facts.radius, self.loss.count
        clip, n_clipped, clipped_sizes, total_sizes = (
            2 * r * self.facts.lipschitz,
            np.zeros(count),
            np.zeros(count),
            np.zeros(count),
        )
        sets, weights = seen(k, d, len(order)), np.empty((len(order), count, k))
        m = len(sets)
        for rows in self._blocks(len(order), 4 * count * m * k):  # blocks that fit into the cache
            z, y, along = self._rows[None, order[rows]], self._targets[order[rows]], sets[:, rows]
            lengths = self.loss.lengths(z)[0, :, None]
            arguments, shifts = np.ascontiguousarray(self._arguments(z, x).transpose(2, 1, 0, 3)), r * lengths * along
            with np.errstate(invalid="ignore", over="ignore"):
                differences = self.loss.values(arguments + shifts, y) - self.loss.values(
                    arguments - shifts, y
                )  # (R, m, b)
            differences[~np.isfinite(differences)] = 0.0
            pulls = np.einsum("rmb,mbk->brk", differences, along)
            weights[rows] = pulls * (d / (2 * r * m)) / np.maximum(lengths, 1e-300)[:, None]
            sizes = np.abs(differences, out=differences)
            total_sizes += sizes.sum(axis=(1, 2))
            n_clipped += (sizes > clip * (1 + ROUNDING)).sum(axis=(1, 2))
            clipped_sizes += np.maximum(sizes - clip, 0.0).sum(axis=(1, 2))
        mass = np.divide(clipped_sizes, total_sizes, out=np.zeros(count), where=n_clipped > 0)
        return weights, {"clipped_share": n_clipped / (len(order) * m), "clipped_mass": mass}

    def _stationarity(
        self, x: np.ndarray, order: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Estimate (R,) the norm of a convex combination of gradients within r of x, and (R,) its standard error.

        The norm is at least the distance of 0 from the hull of the gradients, so an upper bound. Some rows choose a
        short combination, others measure its length: measured by the same rows it would appear shorter than it is. The
        points are random, so that no row has a kink there: the combined vectors are gradients of the mean of rows, and
        so in the hull.

        The standard error follows from the means of groups of rows. Both are NaN for functions that jump, of which
        Goldstein's gradients are not defined.
        """
        count, d = x.shape
        if not self.loss.continuous:
            return np.full(count, np.nan), np.full(count, np.nan)
        normals = generator.standard_normal((POINTS, d))
        lengths = self.facts.radius * generator.random(POINTS) ** (1 / d) / np.linalg.norm(normals, axis=1)
        lengths[0] *= ROUNDING  # x itself, moved off a possible kink
        points = (x[:, None] + lengths[:, None] * normals).reshape(-1, d)
        n_chosen = min(FEWER, max(1, len(order) // 2))
        measuring_rows = order[n_chosen:] if len(order) > n_chosen else order
        weights = shortest(self._slopes(points, order[:n_chosen]).reshape(count, POINTS, d))
        groups = np.array_split(measuring_rows, min(GROUPS, len(measuring_rows)))
        gradients = np.array([self._slopes(points, group) for group in groups]).reshape(-1, count, POINTS, d)
        share = np.array([len(group) / len(measuring_rows) for group in groups])
        combination = mixed(np.tensordot(share, gradients, 1), weights)
        bound = np.linalg.norm(combination, axis=1)
        by_group = np.einsum("rq,grqd->grd", weights, gradients)
        along = np.einsum("grd,rd->gr", by_group, combination) / np.maximum(bound, 1e-12)
        return bound, along.std(axis=0, ddof=min(1, len(groups) - 1)) / np.sqrt(len(groups))

    def _slopes(self, points: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Compute (P, d) gradients of the mean of some rows at points (P, d)."""
        total = np.zeros(points.shape)
        for rows in self._blocks(len(indices), len(points) * self.loss.count):
            z, y = self._rows[indices[rows]], self._targets[indices[rows], None]
            total += self._pulled(z, self.loss.slopes(self._arguments(z[None], points)[:, 0], y))
        return total / len(indices)

    def _pulled(self, z: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Compute Σ A_zᵀ w (R, d) over rows (b, p), the same for all replicates, with weights w (b, R, k): in one
        product."""
        return self.loss.pulled(z[None], weights.reshape(1, len(z), -1)).reshape(weights.shape[1], -1)


def bounded(x: np.ndarray) -> np.ndarray:
    """Return x with finite numbers whose squares are finite, too: a diverged replicate must not turn a value into
    NaN."""
    return np.clip(np.nan_to_num(x), -1e100, 1e100)


def _clipped(values: np.ndarray, clips: np.ndarray | float) -> np.ndarray:
    """Clip values (b, m, R) at `clips` (R,), in place."""
    return np.clip(values, -clips, clips, out=values)
