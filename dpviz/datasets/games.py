"""Records of a game: one sign per row and strategy, packed into bits, and the generator whose equilibrium is known."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz import resources
from dpviz.checkpoints import checkpoint
from dpviz.datasets.base import data_seed, rows_number
from dpviz.specification import Specification, choice, number

CONTROLS = resources.data(__package__, "controls.toml")  # label, symbol and help of fields

_WORD = 64
_ENTRIES = 1 << 20  # of an unpacked block: several columns even of 100 000 rows
_WORDS = 1 << 15  # of a block of packed products
_PRODUCT_ENTRIES = 1 << 24  # of an unpacked block in a matrix product: 64 MB of float32

# The eight signs of every byte: unpacking is then a gather of rows, faster than shifting bits.
_BYTES = np.where(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), -1, 1)
_SIGNS = {np.dtype(kind): _BYTES.astype(kind) for kind in (np.float32, np.float64)}


@dataclass(frozen=True, eq=False)
class Signs:
    """An (n, d) matrix of ±1, one bit per entry; a column is what the n rows say about one strategy ("vertex").

    words : (d, ⌈n/64⌉) uint64, C-contiguous: a column's bits lie side by side. A set bit means -1; the bits after the
        n-th are 0. There is no way to write another value than ±1, so |entry| ≤ 1 holds by construction.
    n : number of rows.
    """

    words: np.ndarray
    n: int

    @classmethod
    def pack(cls, negative: np.ndarray) -> "Signs":
        """The matrix that is -1 where `negative` (d, n) holds; note that one column of the matrix is one row here."""
        d, n = negative.shape
        words = np.zeros((d, -(-n // _WORD)), dtype=np.uint64)
        words.view(np.uint8)[:, : -(-n // 8)] = np.packbits(negative, axis=1, bitorder="little")
        return cls(words, n)

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.words)

    def span(self, rows: slice | None) -> tuple[int, int]:
        """First row and end of a contiguous range of rows; None = all. Raises ValueError if it is not one."""
        start, stop, step = (slice(None) if rows is None else rows).indices(self.n)
        if step != 1 or stop <= start:
            raise ValueError(f"{rows} is not a range of rows out of {self.n}")
        return start, stop

    def columns(
        self, vertices: np.ndarray | slice, rows: slice | None = None, dtype: type[np.floating[Any]] = np.float64
    ) -> np.ndarray:
        """Some columns as float32 or float64; (m, k) for k vertices and m rows."""
        start, stop = self.span(rows)
        first, last = start // 8, -(-stop // 8)
        packed = self.words.view(np.uint8)[vertices, first:last]
        signs = np.take(_SIGNS[np.dtype(dtype)], packed, axis=0).reshape(len(packed), -1)
        return signs[:, start - 8 * first : stop - 8 * first].T

    def cross(self, other: "Signs", vertices: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Inner products of k columns of `other` with every column of this matrix; (k, d) int32, exact.

        Signs multiply as bits are added without carry, so a product is m - 2 × (bits set in the exclusive or).
        """
        start, stop = self.span(rows)
        first, last = start // _WORD, -(-stop // _WORD)
        own, theirs = self.words[:, first:last], other.words[vertices, first:last]
        inside = _word_mask(start - first * _WORD, stop - first * _WORD, last - first)
        products = np.empty((len(theirs), self.d), dtype=np.int32)
        group = max(1, min(16, _WORDS // (last - first)))
        for few in _blocks(len(theirs), group):
            for block in _blocks(self.d, max(1, _WORDS // (group * (last - first)))):
                differing = own[block] ^ theirs[few, None]
                differing[..., 0] &= inside[0]
                differing[..., -1] &= inside[-1]
                products[few, block] = np.bitwise_count(differing).sum(axis=2, dtype=np.uint32)
        products *= -2
        products += stop - start
        return products

    def mix(self, weights: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Weighted sums of columns, weights (R, d) -> (R, m). Columns without weight are not touched."""
        start, stop = self.span(rows)
        used = np.flatnonzero((weights != 0).any(axis=0))
        total = np.zeros((len(weights), stop - start))
        for block in _blocks(len(used), max(1, _ENTRIES // (stop - start))):
            checkpoint()
            total += weights[:, used[block]] @ self.columns(used[block], rows).T
        return total

    def inner(self, values: np.ndarray, rows: slice | None = None) -> np.ndarray:
        """Inner products of values per row (R, m) with every column; (R, d)."""
        start, stop = self.span(rows)
        products = np.empty((len(values), self.d))
        for block in _blocks(self.d, max(1, _ENTRIES // (stop - start))):
            checkpoint()
            products[:, block] = values @ self.columns(block, rows)
        return products

    def mean_products(self, other: "Signs") -> np.ndarray:
        """(1/n) Σᵢ uᵢ vᵢᵀ over this matrix's rows u and the other's rows v; (d, d_other) float64.

        The sums are integers below 2²⁴, so they are exact in float32, the faster matrix product.
        """
        total = np.zeros((self.d, other.d), dtype=np.float32)
        for rows in _blocks(self.n, max(8, _PRODUCT_ENTRIES // (self.d + other.d) // 8 * 8)):
            checkpoint()
            total += self.columns(slice(None), rows, np.float32).T @ other.columns(slice(None), rows, np.float32)
        return total.astype(np.float64) / self.n


class LatentGame(Specification):
    """Records zᵢ = (uᵢ, vᵢ) of signs, with payoff matrix uᵢ vᵢᵀ for that row; the mean payoffs are known.

    Every row has hidden signs ζ, uniform, one per class of strategies; strategy j is of class j mod r. Then
    u_j = ζ_class(j) s_j with P(s_j = 1) = (1 + a_j)/2, v_k likewise with b_k, all independent given ζ, so that the mean
    payoff is a_j b_k within a class and 0 across classes. Drawn from `default_rng(seed)`, with a stream of its own for
    ζ, u and v: with more strategies, the first ones keep their data.
    """

    kind: ClassVar[str] = "datasets.games.latent"
    title: ClassVar[str] = "Latent factors"
    public: ClassVar[bool] = True
    structure: Literal["needle", "hide_seek"] = choice("needle", **CONTROLS["structure"])
    rows: int = rows_number(5000, 20, 100_000, "Each row is one person.")
    strategies_x: int = number(300, 2, 10_000, **CONTROLS["strategies_x"])
    strategies_y: int = number(300, 2, 10_000, **CONTROLS["strategies_y"])
    seed: int = data_seed()

    @property
    def classes(self) -> int:
        """Number r of hidden signs per row."""
        return 1 if self.structure == "needle" else 3

    @property
    def good(self) -> tuple[slice, str]:
        """The strategies that x does best to play, in the population, and what they are called."""
        if self.structure == "needle":
            return slice(0, 1), "the needle, strategy 1"
        return slice(0, 3), "strategies 1 to 3, which hide best"

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """a (d_x,) and b (d_y,), the means of the signs s."""
        x, y = np.arange(self.strategies_x), np.arange(self.strategies_y)
        if self.structure == "needle":
            return np.where(x < 1, -1.0, 0.5), np.where(y < 1, 0.2, 0.9)
        return np.where(x < 3, 0.1, 0.9), np.where(y < 3, 0.9, 0.3)

    def population(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors (d_x, r) and (d_y, r) whose product P_x P_yᵀ is the mean payoff matrix of the population."""
        a, b = self.means()
        return a[:, None] * self._membership(len(a)), b[:, None] * self._membership(len(b))

    def load(self) -> tuple[Signs, Signs]:
        """The records of the minimising and of the maximising player, (n, d_x) and (n, d_y)."""
        hidden, first, second = self._streams()[:3]
        latent = _draw(hidden, np.full(self.classes, 0.5), self.rows)
        a, b = self.means()
        of_x = _draw(first, (1 - a) / 2, self.rows)
        of_y = _draw(second, (1 - b) / 2, self.rows)
        for signs in (of_x, of_y):
            for c in range(self.classes):
                signs.words[c :: self.classes] ^= latent.words[c]
        return of_x, of_y

    def fair_signs(self) -> tuple[Signs, Signs]:
        """Independent fair signs p (n, d_x) and q (n, d_y), independent of the records: E⟨p, x⟩² = ‖x‖²."""
        first, second = self._streams()[3:]
        of_x = _draw(first, np.full(self.strategies_x, 0.5), self.rows)
        of_y = _draw(second, np.full(self.strategies_y, 0.5), self.rows)
        return of_x, of_y

    def _streams(self) -> list[np.random.Generator]:
        return np.random.default_rng(self.seed).spawn(5)

    def _membership(self, d: int) -> np.ndarray:
        """(d, r): 1 where the strategy is of the class."""
        return (np.arange(d)[:, None] % self.classes == np.arange(self.classes)).astype(np.float64)


def _draw(generator: np.random.Generator, negative: np.ndarray, n: int) -> Signs:
    """Independent signs, column j being -1 with probability negative[j]; (n, d) for `negative` (d,).

    Uniforms of 24 bits, so probabilities are met up to 2⁻²⁴; drawn column after column, whatever the size of a block.
    """
    signs = Signs(np.empty((len(negative), -(-n // _WORD)), dtype=np.uint64), n)
    bounds = negative.astype(np.float32)[:, None]
    for block in _blocks(len(negative), max(1, _ENTRIES // n)):
        checkpoint()
        draws = generator.random((len(bounds[block]), n), dtype=np.float32)
        signs.words[block] = Signs.pack(draws < bounds[block]).words
    return signs


def _word_mask(start: int, stop: int, words: int) -> np.ndarray:
    """(words,) uint64 with the bits of rows start to stop set."""
    inside = np.zeros((1, words * _WORD), dtype=bool)
    inside[:, start:stop] = True
    return Signs.pack(inside).words[0]


def _blocks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
