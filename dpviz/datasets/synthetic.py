"""Data sets drawn from a seed: the same rows on every machine, independent of all other random numbers.

Each class describes in its docstring how a row is drawn. Its `facts` returns the public facts without drawing a row;
its `raw_rows` draws features (n, d) and labels or targets (n,), and needs no `tables`. The last four classes are for
private tuning: models that are fitted to them have parameters to tune.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.checkpoints import checkpoint, checkpointed_slices  # points at which a user can stop
from dpviz.datasets.base import SECONDS_PER_LOADED, DatasetFacts, DatasetSpecification, rows_field, seed_field
from dpviz.specification import Specification, choice, number

_WORD = 64  # signs in an element of a packed array
# Sizes of the blocks in which matrices of signs are worked on, so that memory stays small:
_ENTRIES = 1 << 20  # entries of an unpacked block: several columns, also with 100 000 rows
_WORDS = 1 << 15  # packed elements of a block of products
_PRODUCT_ENTRIES = 1 << 24  # entries of an unpacked block in a matrix product: 64 MB of float32

# The eight signs of every byte (256, 8): unpacking is then a look-up of rows, faster than shifting bits.
_BYTES = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), -1, 1)
_SIGNS = {np.dtype(kind): _BYTES.astype(kind) for kind in (np.float32, np.float64)}


@dataclass(frozen=True, eq=False)
class Signs:
    """An (n, d) matrix of ±1, one bit per entry; a column has the entries of the n rows for one strategy ("vertex").

    words : (d, ⌈n/64⌉) uint64, C-contiguous: the bits of a column are contiguous. A set bit means -1; the bits after
        the n-th are 0. No other value than ±1 can be written, so |entry| ≤ 1 holds by construction.
    n : number of rows.
    """

    words: np.ndarray
    n: int

    @classmethod
    def pack(cls, negative: np.ndarray) -> "Signs":
        """Return the matrix that is -1 where `negative` (d, n) holds; a column of the matrix is a row of `negative`."""
        d, n = negative.shape
        words = np.zeros((d, -(-n // _WORD)), dtype=np.uint64)
        words.view(np.uint8)[:, : -(-n // 8)] = np.packbits(negative, axis=1, bitorder="little")
        return cls(words, n)

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.words)

    def span(self, rows: slice | None) -> tuple[int, int]:
        """Return the first row of a range of rows and the row after its last; None means all rows.

        Raises ValueError for an empty range or one with steps.
        """
        start, stop, step = (slice(None) if rows is None else rows).indices(self.n)
        if step != 1 or stop <= start:
            raise ValueError(f"{rows} is not a range of rows out of {self.n}")
        return start, stop

    def columns(
        self, vertices: np.ndarray | slice, rows: slice | None = None, dtype: type[np.floating[Any]] = np.float64
    ) -> np.ndarray:
        """Return the columns `vertices` in a range of rows as float32 or float64: (m, k) for k vertices and m rows."""
        start, stop = self.span(rows)
        first_byte, end_byte = start // 8, -(-stop // 8)  # the bytes that hold these rows
        packed = self.words.view(np.uint8)[vertices, first_byte:end_byte]
        signs = np.take(_SIGNS[np.dtype(dtype)], packed, axis=0).reshape(len(packed), -1)  # (k, rows of these bytes)
        return signs[:, start - 8 * first_byte : stop - 8 * first_byte].T

    def cross(self, other: "Signs", vertices: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Return the inner products of k columns of `other` with every column of this matrix; (k, d) int32, exact.

        Both are restricted to the m rows of `rows`. Two signs differ where their bits do, so that an inner product is
        m - 2 × (number of bits set in the exclusive or).
        """
        start, stop = self.span(rows)
        first_word, end_word = start // _WORD, -(-stop // _WORD)  # the words that hold these rows
        mine, theirs = self.words[:, first_word:end_word], other.words[vertices, first_word:end_word]
        # The first and the last word may hold bits of other rows, too; the mask removes them.
        is_inside = np.zeros((1, (end_word - first_word) * _WORD), dtype=bool)
        is_inside[:, start - first_word * _WORD : stop - first_word * _WORD] = True
        inside = Signs.pack(is_inside).words[0]  # (words,), with the bits of `rows` set
        products = np.empty((len(theirs), self.d), dtype=np.int32)
        # In blocks of up to 16 of their columns, and of as many of mine as keep `differing` within _WORDS words.
        words = end_word - first_word
        their_size = max(1, min(16, _WORDS // words))
        my_size = max(1, _WORDS // (their_size * words))
        for their_block in _blocks(len(theirs), their_size):
            for my_block in _blocks(self.d, my_size):
                differing = mine[my_block] ^ theirs[their_block, None]  # (their columns, my columns, words)
                differing[..., 0] &= inside[0]
                differing[..., -1] &= inside[-1]
                products[their_block, my_block] = np.bitwise_count(differing).sum(axis=2, dtype=np.uint32)
        products *= -2  # so far they are numbers of differing signs
        products += stop - start
        return products

    def mix(self, weights: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Return R weighted sums of the columns at m rows, (R, m), for weights (R, d).

        Columns whose weights are all 0 are not unpacked.
        """
        start, stop = self.span(rows)
        used_columns = np.flatnonzero((weights != 0).any(axis=0))
        total = np.zeros((len(weights), stop - start))
        for block in _blocks(len(used_columns), max(1, _ENTRIES // (stop - start))):
            checkpoint()
            total += weights[:, used_columns[block]] @ self.columns(used_columns[block], rows).T
        return total

    def inner(self, values: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Return the inner products (R, d) of R vectors of one value per row, `values` (R, m), with every column."""
        start, stop = self.span(rows)
        products = np.empty((len(values), self.d))
        for block in _blocks(self.d, max(1, _ENTRIES // (stop - start))):
            checkpoint()
            products[:, block] = values @ self.columns(block, rows)
        return products

    def mean_products(self, other: "Signs") -> np.ndarray:
        """Return (1/n) Σᵢ uᵢ vᵢᵀ over this matrix's rows u and the other's rows v; (d, d_other) float64.

        The sums are integers of at most n, which is below 2²⁴ for every game, so that they are exact in float32, whose
        matrix product is faster.
        """
        total = np.zeros((self.d, other.d), dtype=np.float32)
        block_rows = max(8, _PRODUCT_ENTRIES // (self.d + other.d) // 8 * 8)  # whole bytes
        for rows in _blocks(self.n, block_rows):
            checkpoint()
            u, v = (signs.columns(slice(None), rows, np.float32) for signs in (self, other))  # all columns
            total += u.T @ v
        return total.astype(np.float64) / self.n


class LatentGame(Specification):
    """Records zᵢ = (uᵢ, vᵢ) of signs, with payoff matrix uᵢ vᵢᵀ for that row; the mean payoffs are known.

    uᵢ has one sign per strategy of the minimising player x, vᵢ one per strategy of the maximising player y. Each
    player's strategies fall into r classes: strategy j is in class j mod r. Every row has hidden signs ζ, uniform, one
    per class. Then u_j = ζ_class(j) s_j, where the sign s_j has mean a_j: P(s_j = 1) = (1 + a_j)/2. Likewise v_k, with
    mean b_k. All s are independent given ζ, so that the mean payoff is a_j b_k within a class and 0 across classes.

    Drawn from `default_rng(seed)`, which gives ζ, u and v a stream each: with more strategies, the first ones keep
    their data.
    """

    kind: ClassVar[str] = "datasets.games.latent"
    title: ClassVar[str] = "Latent factors"
    public: ClassVar[bool] = True
    structure: Literal["needle", "hide_seek"] = choice(
        "needle",
        label="Structure",
        help="Needle: each player must find the one good strategy. Hide and seek: both must mix over three classes.",
        options={"needle": "Needle in a haystack", "hide_seek": "Hide and seek"},
    )
    rows: int = rows_field(5000, 20, 100_000, "Each row is one person.")
    strategies_x: int = number(
        300,
        2,
        10_000,
        label="Strategies of x",
        symbol="dₓ",
        scale="log",
        help="Choices of the minimising player.",
        limits=(2, 10**6),
    )
    strategies_y: int = number(
        300,
        2,
        10_000,
        label="Strategies of y",
        symbol="dᵧ",
        scale="log",
        help="Choices of the maximising player.",
        limits=(1, 10**6),
    )
    seed: int = seed_field()

    @property
    def classes(self) -> int:
        """Number r of hidden signs per row."""
        return 1 if self.structure == "needle" else 3

    @property
    def best_strategies(self) -> tuple[slice, str]:
        """The best strategies of x for the mean payoffs, as a slice, and a phrase that names them."""
        if self.structure == "needle":
            return slice(0, 1), "the needle, strategy 1"
        return slice(0, 3), "strategies 1 to 3, which hide best"

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """Return a (d_x,) and b (d_y,), the means of the signs s of x's and of y's strategies."""
        x, y = np.arange(self.strategies_x), np.arange(self.strategies_y)
        if self.structure == "needle":
            # Only strategy 1 of x makes the mean payoffs a_j b_k negative; against it, y loses least with the least b.
            return np.where(x < 1, -1.0, 0.5), np.where(y < 1, 0.2, 0.9)
        # All are positive, so that the smallest a is best for x in its class, and the largest b for y.
        return np.where(x < 3, 0.1, 0.9), np.where(y < 3, 0.9, 0.3)

    def population(self) -> tuple[np.ndarray, np.ndarray]:
        """Return factors (d_x, r) and (d_y, r) whose product P_x P_yᵀ is the mean payoff matrix of the population."""
        a, b = self.means()
        return a[:, None] * self._membership(len(a)), b[:, None] * self._membership(len(b))

    def load(self) -> tuple[Signs, Signs]:
        """Draw the records of the minimising and of the maximising player, (n, d_x) and (n, d_y)."""
        zeta_stream, u_stream, v_stream = self._streams()[:3]
        zeta = _draw(zeta_stream, np.full(self.classes, 0.5), self.rows)
        a, b = self.means()
        u = _draw(u_stream, (1 - a) / 2, self.rows)
        v = _draw(v_stream, (1 - b) / 2, self.rows)
        for signs in (u, v):
            for c in range(self.classes):
                signs.words[c :: self.classes] ^= zeta.words[c]  # the exclusive or of bits multiplies their signs
        return u, v

    def fair_signs(self) -> tuple[Signs, Signs]:
        """Draw fair signs p (n, d_x) and q (n, d_y), independent of each other and the records.

        Each sign is -1 with probability ½. The curved game adds squares of ⟨p, x⟩ and ⟨q, y⟩ to a record's payoff, for
        mixed strategies x and y; in the mean, E⟨p, x⟩² = ‖x‖².
        """
        p_stream, q_stream = self._streams()[3:]
        p = _draw(p_stream, np.full(self.strategies_x, 0.5), self.rows)
        q = _draw(q_stream, np.full(self.strategies_y, 0.5), self.rows)
        return p, q

    def _streams(self) -> list[np.random.Generator]:
        """Return the independent random streams of ζ, u, v, p and q, in this order."""
        return np.random.default_rng(self.seed).spawn(5)

    def _membership(self, d: int) -> np.ndarray:
        """Return an array (d, r) for d strategies: 1 at the class of each strategy, 0 elsewhere."""
        return (np.arange(d)[:, None] % self.classes == np.arange(self.classes)).astype(np.float64)


def _draw(generator: np.random.Generator, probabilities: np.ndarray, n: int) -> Signs:
    """Draw a matrix (n, d) of independent signs; in column j they are -1 with probability probabilities[j].

    The uniform numbers have 24 bits, so that probabilities are met up to 2⁻²⁴. They are drawn column after column, so
    that the size of a block does not change them.
    """
    d = len(probabilities)
    signs = Signs(np.empty((d, -(-n // _WORD)), dtype=np.uint64), n)
    thresholds = probabilities.astype(np.float32)[:, None]
    for block in _blocks(d, max(1, _ENTRIES // n)):
        checkpoint()
        uniforms = generator.random((block.stop - block.start, n), dtype=np.float32)
        signs.words[block] = Signs.pack(uniforms < thresholds[block]).words
    return signs


def _blocks(count: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` indices, which together cover the indices from 0 to `count` - 1."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


# ---------------------------------------------------------------------------------------- rows with a label or a target

_SECONDS_PER_CAUCHY = 25e-9  # to draw one Cauchy number, which takes two normal numbers and a division
_PAPER_ROWS = 100_000  # rows of the paper's matrix; a smaller n takes the first of them


def _dimension(default: int = 10) -> Any:
    """Declare the field for the number of features."""
    help = "Noise is added to every coordinate."
    return number(default, 2, 50, label="Features", symbol="d", help=help, limits=(1, 100_000))


def _signal(default: float = 4.0) -> Any:
    """Declare the field for the size of the true weights of a logistic model."""
    return number(
        default, 0.1, 20.0, label="Signal", scale="log", help="Size of the true weights: larger = clearer labels."
    )


@lru_cache(64)  # a page asks for them twenty times
def _facts(n: int, d: int, low: float, high: float) -> DatasetFacts:
    """Return the facts of n rows with d features between `low` and `high`, and one of two classes."""
    return DatasetFacts(n, ((low, high),) * d, tuple(f"feature_{j}" for j in range(1, d + 1)))


def _tuned_rows(default: int, high: int, limit: int = 10**9) -> Any:
    """Declare the field for the number of rows: up to `high` on the slider, up to `limit` otherwise."""
    return rows_field(default, 100, high, help="For training and validation.", limits=(100, limit))


def _tuned_dimension(default: int, low: int, high: int) -> Any:
    help = "Most methods need more of everything for more."
    return number(default, low, high, label="Features", help=help, limits=(low, 10_000))


def _tuned_facts(n: int, d: int, bound: float, target_range: tuple[float, float]) -> DatasetFacts:
    """Return the facts of n rows with d features between ±`bound`, and a number within `target_range` to predict."""
    return replace(_facts(n, d, -bound, bound), target_range=target_range)


def _logistic_labels(generator: np.random.Generator, scores: np.ndarray) -> np.ndarray:
    """Draw labels (n,) in {-1, +1} for scores (n,), with P(+1) = σ(score), where σ(t) = 1/(1 + exp(-t)).

    σ is written as a hyperbolic tangent, which cannot overflow.
    """
    return np.where(generator.random(len(scores)) < 0.5 + 0.5 * np.tanh(0.5 * scores), 1.0, -1.0)


class _Synthetic(DatasetSpecification):
    """Base of the tables drawn from a seed, of which anybody may see the rows."""

    public: ClassVar[bool] = True


class UniformLogistic(_Synthetic):
    """Features u uniform on [0, 1] and labels z of a logistic model: P(z = 1) = σ((u - ½)ᵀw), w = signal · N(0, I).

    Drawn from `default_rng(seed)`: features first, then w, then one uniform per label.
    """

    kind: ClassVar[str] = "datasets.synthetic.uniform_logistic"
    title: ClassVar[str] = "Uniform features, logistic labels"
    rows: int = rows_field(10_000, 500, 1_000_000)
    dimension: int = _dimension()
    signal: float = _signal()
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, 0.0, 1.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.random((self.rows, self.dimension))
        weights = self.signal * generator.standard_normal(self.dimension)
        scores = features @ weights - 0.5 * weights.sum()  # (u - ½)ᵀw without a second copy of the features
        return features, _logistic_labels(generator, scores)


class PaperLogistic(_Synthetic):
    """The simulated data of Kuru, Birbil, Gürbüzbalaban and Yıldırım, Figure 3: separable and unbalanced.

    A row u is one of the first n of the 100 000 x d matrix that MATLAB's `rng(1); rand(100000, d)` draws; its label is
    the sign of uᵀw for weights w.
    MATLAB's normal numbers cannot be drawn here, so w is `default_rng(seed).standard_normal(d)`; the default seed
    gives 10 % negative labels at d = 20, which fits the objective published for the starting point.
    """

    kind: ClassVar[str] = "datasets.synthetic.paper_logistic"
    title: ClassVar[str] = "Simulated data of the accelerated-gradient paper"
    rows: int = number(
        10_000,
        500,
        _PAPER_ROWS,
        label="Rows",
        symbol="n",
        scale="log",
        help="The first n of the paper's 100,000 rows.",
        limits=(1, _PAPER_ROWS),
    )
    dimension: int = _dimension(20)
    seed: int = seed_field(367)

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, 0.0, 1.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        stream = np.random.RandomState(1)  # MATLAB's generator; it fills the matrix column by column
        features = np.empty((self.rows, self.dimension))
        for column in range(self.dimension):
            features[:, column] = stream.random_sample(_PAPER_ROWS)[: self.rows]
        weights = np.random.default_rng(self.seed).standard_normal(self.dimension)
        return features, np.where(features @ weights > 0.0, 1.0, -1.0)


class CorrelatedLogistic(_Synthetic):
    """Strongly correlated features: an ill-conditioned problem, on which momentum pays.

    Every two features have correlation r: u_j = √r c + √(1 - r) e_j with standard normal c, e_j. The covariance has one
    eigenvalue 1 + (d - 1) r and d - 1 eigenvalues 1 - r. The label z of a row u is that of a logistic model:
    P(z = 1) = σ(uᵀw), w = signal · N(0, I). Features are cut at ±3, the declared range, after the labels are drawn.
    """

    kind: ClassVar[str] = "datasets.synthetic.correlated_logistic"
    title: ClassVar[str] = "Correlated features (ill-conditioned)"
    rows: int = rows_field(10_000, 500, 1_000_000)
    dimension: int = _dimension()
    correlation: float = number(
        0.9,
        0.0,
        0.99,
        label="Correlation",
        symbol="r",
        help="Closer to 1 = harder to optimise: larger condition number.",
        limits=(0.0, 0.999999),
    )
    signal: float = _signal(1.0)
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, -3.0, 3.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.standard_normal((self.rows, self.dimension))
        features *= np.sqrt(1.0 - self.correlation)
        features += np.sqrt(self.correlation) * generator.standard_normal((self.rows, 1))
        weights = self.signal * generator.standard_normal(self.dimension)
        return features, _logistic_labels(generator, features @ weights)


class UniformLinear(_Synthetic):
    """A number to predict: features u uniform on [0, 1], and as the target the signal (u - ½)ᵀw plus noise.

    w is normal, scaled so that the signal has standard deviation 1. The noise has standard deviation `noise`; in a
    share `outliers` of the targets it is 20 times as large. Declared range of the target: ±4. Drawn from
    `default_rng(seed)`: features, w, noise, then the choice of outliers.
    """

    kind: ClassVar[str] = "datasets.synthetic.uniform_linear"
    title: ClassVar[str] = "A number to predict (regression)"
    rows: int = rows_field(10_000, 500, 1_000_000)
    dimension: int = _dimension()
    noise: float = number(
        0.5, 0.01, 3.0, label="Label noise", scale="log", help="Standard deviation, relative to that of the signal."
    )
    outliers: float = number(
        0.02, 0.0, 0.5, label="Outliers", help="Share of targets with 20 times the noise.", limits=(0, 1)
    )
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return replace(_facts(self.rows, self.dimension, 0.0, 1.0), target_range=(-4.0, 4.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.random((self.rows, self.dimension))
        weights = generator.standard_normal(self.dimension)
        # A uniform number has variance 1/12, so that the signal has variance ‖w‖²/12, which becomes 1.
        weights *= math.sqrt(12 / float(weights @ weights))
        noise = self.noise * generator.standard_normal(self.rows)
        noise[generator.random(self.rows) < self.outliers] *= 20.0
        return features, features @ weights - 0.5 * weights.sum() + noise


class SphereLinear(_Synthetic):
    """A number to predict, with outliers: rows a are uniform on the unit sphere, the target is aᵀx* + 0.05 N(0, 1).

    The true weights x* are 1/√d in every coordinate. In a share `outliers` of the rows the target is uniform on [-3, 3]
    instead. Its declared range is ±1, so that outliers are clipped.

    Drawn from `default_rng(seed)`: rows, noise, the choice of outliers, their targets.
    """

    kind: ClassVar[str] = "datasets.synthetic.sphere_linear"
    title: ClassVar[str] = "A number to predict, with outliers"
    rows: int = rows_field(60_000, 1000, 200_000)
    dimension: int = _dimension(8)
    outliers: float = number(0.2, 0.0, 0.5, label="Outliers", help="Share of targets that say nothing.", limits=(0, 1))
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return replace(_facts(self.rows, self.dimension, -1.0, 1.0), target_range=(-1.0, 1.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.standard_normal((self.rows, self.dimension))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        target = features.sum(axis=1) / math.sqrt(self.dimension) + 0.05 * generator.standard_normal(self.rows)
        is_outlier = generator.random(self.rows) < self.outliers
        target[is_outlier] = generator.uniform(-3.0, 3.0, int(is_outlier.sum()))
        return features, target


class Saddle(_Synthetic):
    """Rows along one line, on both sides of 0, so that x = 0 is a saddle point of a robust principal component.

    Row i is aᵢe₁ + 0.9 √((1 - spike²)/d) N(0, I), shortened to norm 1 if it is longer; due to the factor 0.9, few are.
    e₁ is the direction of the line, the first coordinate, and aᵢ = ± spike · U[0.6, 1], where U is uniform and the
    sign is fair.
    The label is the sign of aᵢ. Drawn from `default_rng(seed)`: signs, sizes, normal numbers.
    """

    kind: ClassVar[str] = "datasets.synthetic.saddle"
    title: ClassVar[str] = "Two sides of a line (saddle point)"
    rows: int = rows_field(20_000, 1000, 200_000)
    dimension: int = number(
        10,
        2,
        2000,
        label="Features",
        symbol="d",
        scale="log",
        help="Noise is added to every coordinate.",
        limits=(1, 1_000_000),
    )
    spike: float = number(
        0.85, 0.1, 0.99, label="Spike", help="How far the rows reach along the line: longer = steeper way down."
    )
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, -1.0, 1.0)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        signs = generator.choice([-1.0, 1.0], self.rows)
        sizes = generator.uniform(0.6, 1.0, self.rows)
        features = np.empty((self.rows, self.dimension))
        # Drawn in parts, between which the computation can be stopped; the numbers do not depend on the parts.
        for part in checkpointed_slices(self.rows, seconds=self.dimension * SECONDS_PER_LOADED):
            block = features[part]
            generator.standard_normal(out=block)
            block *= 0.9 * math.sqrt((1 - self.spike**2) / self.dimension)
            block[:, 0] += self.spike * sizes[part] * signs[part]
            block /= np.maximum(1.0, np.linalg.norm(block, axis=1))[:, None]
        return features, signs


class HeavyTailed(_Synthetic):
    """Cauchy features, whose rare huge values only the declared bound tames: an example for the use of clipping.

    The label z of a row u follows its values as drawn, P(z = 1) = σ(uᵀw) with w = signal · N(0, I); the learner sees
    the values clipped to ±bound. A small bound loses information, a large one needs more noise, and without a bound
    there is no privacy.
    """

    kind: ClassVar[str] = "datasets.synthetic.heavy_tailed"
    title: ClassVar[str] = "Heavy-tailed features (outliers)"
    rows: int = rows_field(10_000, 500, 1_000_000)
    dimension: int = _dimension()
    bound: float = number(
        5.0,
        0.5,
        1000.0,
        label="Declared bound",
        scale="log",
        help="Values beyond ±bound are clipped; noise grows with it.",
    )
    signal: float = _signal(1.0)
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _facts(self.rows, self.dimension, -self.bound, self.bound)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = np.empty((self.rows, self.dimension))
        # Drawn in parts, between which the computation can be stopped; the numbers do not depend on the parts.
        for part in checkpointed_slices(self.rows, seconds=self.dimension * _SECONDS_PER_CAUCHY):
            features[part] = generator.standard_cauchy(features[part].shape)
        weights = self.signal * generator.standard_normal(self.dimension)
        return features, _logistic_labels(generator, features @ weights)


class NormalDraws(_Synthetic):
    """Normal rows, N(mean, I) with the same mean in every feature, which a model has to find.

    The target is a copy of the first feature and is not used. Declared range of all: ±10. Drawn from
    `default_rng(seed)`.
    """

    kind: ClassVar[str] = "datasets.tuning.normal_draws"
    title: ClassVar[str] = "Normal rows"
    scaled: ClassVar[bool] = True
    rows: int = _tuned_rows(1000, 200_000)
    dimension: int = _tuned_dimension(2, 1, 100)
    mean: float = number(
        1.5, -3.0, 3.0, label="Mean", help="Of every feature; the standard deviation is 1.", limits=(-1e6, 1e6)
    )
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _tuned_facts(self.rows, self.dimension, 10.0, (-10.0, 10.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        features = self.mean + np.random.default_rng(self.seed).standard_normal((self.rows, self.dimension))
        return features, features[:, 0].copy()  # copied, as `enforced` may write into it


class RegressionDraws(_Synthetic):
    """Linear regression: features z from N(0, I), target β₀ + ⟨β, z⟩ + noise · N(0, 1).

    The intercept β₀ and then the entries of β repeat the numbers 1, -1, ½, -½, 1.5. Declared ranges: features ±10,
    target ±1000. Drawn from `default_rng(seed)`: features, then noise.
    """

    kind: ClassVar[str] = "datasets.tuning.regression_draws"
    title: ClassVar[str] = "Linear regression, normal features"
    scaled: ClassVar[bool] = True
    rows: int = _tuned_rows(1000, 200_000)
    dimension: int = _tuned_dimension(4, 1, 100)
    noise: float = number(1.0, 0.01, 10.0, label="Label noise", scale="log", help="Standard deviation.")
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _tuned_facts(self.rows, self.dimension, 10.0, (-1000.0, 1000.0))

    @property
    def coefficients(self) -> np.ndarray:
        """The true coefficients, (dimension + 1,): the intercept β₀, then β."""
        return np.resize([1.0, -1.0, 0.5, -0.5, 1.5], self.dimension + 1)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator, beta = np.random.default_rng(self.seed), self.coefficients
        features = generator.standard_normal((self.rows, self.dimension))
        return features, beta[0] + features @ beta[1:] + self.noise * generator.standard_normal(self.rows)


class ProcessDraws(_Synthetic):
    """A draw of a Gaussian process at features uniform on [-√3, √3], with noise added: the target.

    The kernel is exp(-½ Σⱼ ((zⱼ - z′ⱼ)/ℓⱼ)²), where each feature j has a length-scale ℓⱼ, log-uniform on [1.5, 12].
    Drawn from `default_rng(seed)`: features, length-scales, the process at all rows, noise. Declared range of the
    target: ±10.
    """

    kind: ClassVar[str] = "datasets.tuning.process_draws"
    title: ClassVar[str] = "Draw of a Gaussian process"
    scaled: ClassVar[bool] = True
    rows: int = _tuned_rows(700, 3000, 30_000)  # at 30,000 rows the covariance takes 7 GB
    dimension: int = _tuned_dimension(10, 1, 120)
    noise: float = number(0.1, 0.01, 3.0, label="Label noise", scale="log", help="Standard deviation; the process: 1.")
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _tuned_facts(self.rows, self.dimension, math.sqrt(3), (-10.0, 10.0))

    def draw_features(self) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
        """Draw features (n, d) and length-scales (d,), but not the process, which takes far longer.

        Returns both, and the generator for the draws that follow.
        """
        generator = np.random.default_rng(self.seed)
        features = math.sqrt(3) * generator.uniform(-1, 1, (self.rows, self.dimension))
        length_scales = np.exp(generator.uniform(math.log(1.5), math.log(12), self.dimension))
        return features, length_scales, generator

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        features, length_scales, generator = self.draw_features()
        scaled = features / length_scales
        squares = (scaled**2).sum(axis=1)
        # ‖a - b‖² = ‖a‖² + ‖b‖² - 2aᵀb; rounding may lead below 0.
        squared_distances = np.maximum(squares[:, None] + squares - 2 * scaled @ scaled.T, 0.0)
        covariance = np.exp(-squared_distances / 2)  # (n, n)
        # A small multiple of the identity lets the factorisation succeed where rounding made an eigenvalue negative.
        process = np.linalg.cholesky(covariance + 1e-8 * np.eye(self.rows)) @ generator.normal(size=self.rows)
        return features, process + self.noise * generator.normal(size=self.rows)


class FactorDraws(_Synthetic):
    """Many correlated features, of which six matter: a stand-in for the slices of CT images.

    Feature j is x_j = 0.8 e_j + 0.6 F_(j mod 10), where e_j and the ten factors F are N(0, 1). The target is
    1.2 sin 1.5x₀ + 0.8 x₁x₂ + x₃ - 0.8 x₄ + 0.6 |x₅| + noise · N(0, 1). Declared ranges: features ±6, target ±12.
    Drawn from `default_rng(seed)`: the parts e, the factors F, then noise.
    """

    kind: ClassVar[str] = "datasets.tuning.factor_draws"
    title: ClassVar[str] = "Many features, few that matter"
    scaled: ClassVar[bool] = True
    rows: int = _tuned_rows(1300, 20_000)
    dimension: int = _tuned_dimension(100, 6, 117)
    noise: float = number(0.1, 0.01, 3.0, label="Label noise", scale="log", help="Standard deviation.")
    seed: int = seed_field()

    def facts(self) -> DatasetFacts:
        return _tuned_facts(self.rows, self.dimension, 6.0, (-12.0, 12.0))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        independent = generator.standard_normal((self.rows, self.dimension))
        factors = generator.standard_normal((self.rows, 10))
        factor_of_feature = np.arange(self.dimension) % 10
        x = 0.8 * independent + 0.6 * factors[:, factor_of_feature]
        target = 1.2 * np.sin(1.5 * x[:, 0]) + 0.8 * x[:, 1] * x[:, 2] + x[:, 3] - 0.8 * x[:, 4] + 0.6 * np.abs(x[:, 5])
        return x, target + self.noise * generator.standard_normal(self.rows)


# Sources whose rows come in random order, so that they need no shuffling before they are split.
DRAWN = (NormalDraws, RegressionDraws, ProcessDraws, FactorDraws)
