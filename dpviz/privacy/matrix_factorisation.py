"""Running sums under Gaussian noise: factorisations of the prefix-sum matrix, and the noise that they give.

y_1, …, y_T are queries of which one row of the data touches one, a *leaf*. Their prefix sums are A y, with A the T × T
lower-triangular matrix of ones. A mechanism factors A = B C, releases C y + σ z (z standard normal, T values per
coordinate), and reads off the noisy prefix sums B (C y + σ z) = A y + σ B z. With leaf sensitivities s_i:

- replacing a row moves C y by at most max_i s_i ‖C_i‖ (C_i: column i), so μ = max_i s_i ‖C_i‖ / σ;
- the noise on prefix t has standard deviation σ ‖B_t‖ (B_t: row t) in every coordinate.

B and C are lower-triangular, so the noise of prefix t needs the draws of the first t steps only, and the guarantee
holds for queries chosen after seeing earlier sums (Denisov et al. 2022, theorem 2.1; Gaussian noise only).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft
from scipy.linalg import block_diag, cholesky, solve_triangular, toeplitz

from dpviz.errors import UserError

Floats = NDArray[np.float64]
Draw = Callable[[], Floats]

LONGEST_DENSE = 1024  # steps; a matrix has 8 MB, and the optimal factorisation takes two seconds
_DIRECT = 32  # steps; below this a product is faster than its FFT

# ------------------------------------------------------------------------------------------------------ factorisations


class Factorisation(ABC):
    """A factorisation A = B C for T steps, with the cost and the noise of its running sums.

    name : in words, for legends.
    column_norms : (T,) ‖C_i‖, the length by which one unit of change in leaf i moves C y.
    row_norms : (T,) ‖B_t‖, the standard deviation of the noise on prefix t for σ = 1.
    """

    def __init__(self, name: str, column_norms: Floats) -> None:
        self.name = name
        self.column_norms = frozen(column_norms)

    @property
    def length(self) -> int:
        """T, the number of steps."""
        return len(self.column_norms)

    @property
    def period(self) -> int:
        """Steps after which the sums begin anew: T, unless the factorisation is restarted."""
        return self.length

    @property
    @abstractmethod
    def row_norms(self) -> Floats:
        """(T,) the standard deviation of the noise on each prefix for σ = 1, per coordinate."""

    @abstractmethod
    def encoder(self) -> Floats:
        """Return C, (T, T), lower-triangular."""

    @abstractmethod
    def decoder(self) -> Floats:
        """Return B, (T, T), lower-triangular."""

    @abstractmethod
    def stream(self, draw: Draw) -> Iterator[Floats]:
        """Yield B z step by step, the noise of prefixes 1, …, T for σ = 1; each calls `draw` once for a new (R, ...).

        Prefix t is computed from the first t draws and nothing else. The arrays are not to be written to.
        """

    def noise(self, normals: Floats) -> Floats:
        """Return (R, T, ...) B z at once, the noise of every prefix for σ = 1, from standard normal draws (R, T,
        ...)."""
        steps = iter(np.moveaxis(normals, 1, 0))
        return np.stack(list(self.stream(lambda: next(steps))), axis=1)

    def sensitivity(self, leaves: ArrayLike = 1.0, participations: int = 1) -> Floats:
        """Return the L2 sensitivity of everything released, C y: σ = sensitivity / μ.

        leaves : sensitivity of each query under replace-one; a scalar, (T,) or (R, T), giving a scalar or (R,).
        participations : number of queries in which one row may take part. Beyond one this is a bound for the worst
            choice of leaves: the triangle inequality, at most `participations` times the sensitivity for one.
        """
        moved = np.sort(np.asarray(leaves, dtype=float) * self.column_norms, axis=-1)
        return moved[..., max(self.length - participations, 0) :].sum(axis=-1)

    def pattern_sensitivity(self, touched: Sequence[int]) -> float:
        """Return the L2 sensitivity of C y if a row is in exactly the queries `touched` (from 0), each of sensitivity
        1.

        √Σ_ij |⟨C_i, C_j⟩| over i, j touched: exact where no two columns have a negative product, else an upper bound
        (Choquette-Choo et al. 2023). A row that may change its leaf touches two.
        """
        columns = self.encoder()[:, list(touched)]
        return float(np.sqrt(np.abs(columns.T @ columns).sum()))

    def rms_error(self, leaves: ArrayLike = 1.0) -> Floats:
        """Return (T,) standard deviations of the noise on prefixes, per coordinate, at μ = 1; leaves : scalar or
        (T,)."""
        return self.row_norms * self.sensitivity(leaves)


class ToeplitzFactorisation(Factorisation):
    """C = K diag(w)⁻¹ with K a lower-triangular Toeplitz matrix: noise is a filter, a scaling and a running sum.

    kernel, inverse : (T,) first columns of K and of K⁻¹. weights : (T,) w, or 1.
    """

    def __init__(self, name: str, kernel: Floats, inverse: Floats, weights: ArrayLike = 1.0) -> None:
        self._kernel, self._inverse = kernel, inverse
        self._weights = np.broadcast_to(np.asarray(weights, dtype=float), kernel.shape)
        super().__init__(name, np.sqrt(np.cumsum(kernel**2)[::-1]) / self._weights)

    @cached_property
    def row_norms(self) -> Floats:
        if np.ptp(self._weights) == 0:  # then B is Toeplitz, too
            return frozen(np.sqrt(np.cumsum((self._weights[0] * np.cumsum(self._inverse)) ** 2)))
        row, norms = np.zeros(self.length), np.empty(self.length)
        for t in range(self.length):
            row[: t + 1] += self._weights[t] * self._inverse[t::-1]
            norms[t] = np.sqrt(row @ row)
        return frozen(norms)

    def encoder(self) -> Floats:
        return toeplitz(self._kernel, np.zeros(self.length)) / self._weights

    def decoder(self) -> Floats:
        return np.cumsum(self._weights[:, None] * toeplitz(self._inverse, np.zeros(self.length)), axis=0)

    def noise(self, normals: Floats) -> Floats:
        """Return B z at once, in O(T log T) by FFT; unlike in `stream`, rounding mixes draws of all steps at the 1e-16
        level."""
        size = fft.next_fast_len(2 * self.length - 1, real=True)
        trailing = (-1,) + (1,) * (normals.ndim - 2)
        spectrum = fft.rfft(normals, size, axis=1) * fft.rfft(self._inverse, size).reshape(trailing)
        filtered = fft.irfft(spectrum, size, axis=1)[:, : self.length]
        return np.cumsum(self._weights.reshape(trailing) * filtered, axis=1)

    @cached_property
    def _spectra(self) -> tuple[NDArray[np.complex128], ...]:
        """Transforms of the first 2, 4, 8, … coefficients of K⁻¹."""
        return tuple(fft.rfft(self._inverse[: 2 << j], 2 << j)[:, None] for j in range(self.length.bit_length()))

    def stream(self, draw: Draw) -> Iterator[Floats]:
        """Yield B z step by step, in O(T log² T): within a block of 32 steps directly; at its end, the last b draws, b
        the largest power of two that divides t, are convolved onto the next b steps. So each pair of steps meets once
        (relaxed multiplication, van der Hoeven 2002)."""
        for t in range(self.length):
            sample = draw()
            if t == 0:
                history = np.empty((self.length, sample.size))
                filtered = np.zeros((self.length, sample.size))
                total = np.zeros(sample.shape)
            history[t] = sample.reshape(-1)
            start = t - t % _DIRECT
            filtered[t] += self._inverse[t - start :: -1] @ history[start : t + 1]
            total = total + self._weights[t] * filtered[t].reshape(sample.shape)
            yield total
            done = t + 1
            block = done & -done
            ahead = min(block, self.length - done)
            if ahead and block >= _DIRECT:
                spectrum = fft.rfft(history[done - block : done], 2 * block, axis=0)
                spectrum *= self._spectra[block.bit_length() - 1]
                filtered[done : done + ahead] += fft.irfft(spectrum, 2 * block, axis=0)[block : block + ahead]


class BinaryTree(Factorisation):
    """One noisy sum per dyadic block that ends at t and is as long as the largest power of two dividing t.

    Prefix t adds up popcount(t) of them; the first leaf is in ⌈log₂(T + 1)⌉, the others in fewer (Dwork et al. 2010;
    Chan, Shi, Song 2011; as a data structure, a Fenwick tree). Right children are never needed nor released.
    """

    def __init__(self, length: int) -> None:
        blocks = np.arange(length) >> np.arange(tree_depth(length))[:, None]  # block of leaf i at each level, from 0
        released = (blocks % 2 == 0) & ((blocks + 1) << np.arange(len(blocks))[:, None] <= length)
        super().__init__("Binary tree", np.sqrt(released.sum(axis=0)))

    @cached_property
    def row_norms(self) -> Floats:
        return frozen(np.sqrt(np.bitwise_count(np.arange(1, self.length + 1)).astype(float)))

    def encoder(self) -> Floats:
        ends, leaves = np.arange(1, self.length + 1)[:, None], np.arange(1, self.length + 1)
        return ((leaves <= ends) & (leaves > (ends & (ends - 1)))).astype(float)

    def decoder(self) -> Floats:
        matrix = np.zeros((self.length, self.length))
        for t in range(1, self.length + 1):
            matrix[t - 1, [last - 1 for _, last in tree_nodes(t)]] = 1.0
        return matrix

    def stream(self, draw: Draw) -> Iterator[Floats]:
        """Yield B z step by step: one addition a step, one stored array a level, as N_t = N_{t - block} + fresh
        noise."""
        latest: dict[int, Floats] = {}  # noise of the last prefix t, by the largest power of two that divides t
        for t in range(1, self.length + 1):
            shorter = t & (t - 1)
            sample = draw()
            latest[t & -t] = latest[shorter & -shorter] + sample if shorter else sample
            yield latest[t & -t]


class DenseFactorisation(Factorisation):
    """Any lower-triangular C, given as a matrix; B = A C⁻¹, and noise costs O(T²)."""

    def __init__(self, name: str, encoder: Floats) -> None:
        self._encoder = frozen(encoder)
        ones = np.tril(np.ones(encoder.shape))
        self._decoder = frozen(np.tril(solve_triangular(encoder, ones.T, lower=True, trans="T").T))
        super().__init__(name, np.linalg.norm(encoder, axis=0))

    @cached_property
    def row_norms(self) -> Floats:
        return frozen(np.linalg.norm(self._decoder, axis=1))

    def encoder(self) -> Floats:
        return self._encoder

    def decoder(self) -> Floats:
        return self._decoder

    def noise(self, normals: Floats) -> Floats:
        return (self._decoder @ normals.reshape(*normals.shape[:2], -1)).reshape(normals.shape)

    def stream(self, draw: Draw) -> Iterator[Floats]:
        for t in range(self.length):
            sample = draw()
            if t == 0:
                history = np.empty((self.length, sample.size))
            history[t] = sample.reshape(-1)
            yield (self._decoder[t, : t + 1] @ history[: t + 1]).reshape(sample.shape)


class RestartedFactorisation(Factorisation):
    """K running sums one after the other, as one: I_K ⊗ A = (I_K ⊗ B)(I_K ⊗ C), with fresh noise in each.

    A row is in one leaf, hence in one of the sums: it moves (I_K ⊗ C) y by s_i ‖C_i‖, a column of one block. So the
    sensitivity is the largest over all leaves, that of a single sum if their leaves are alike, and one event pays for
    all K (parallel composition). I_K ⊗ C is lower-triangular, so the queries may be chosen while they run.
    """

    def __init__(self, single: Factorisation, times: int) -> None:
        super().__init__(f"{single.name}, restarted", np.tile(single.column_norms, times))
        self._single, self._times = single, times

    @property
    def period(self) -> int:
        return self._single.period

    @property
    def row_norms(self) -> Floats:
        return np.tile(self._single.row_norms, self._times)

    def encoder(self) -> Floats:
        return block_diag(*[self._single.encoder()] * self._times)

    def decoder(self) -> Floats:
        return block_diag(*[self._single.decoder()] * self._times)

    def stream(self, draw: Draw) -> Iterator[Floats]:
        for _ in range(self._times):
            yield from self._single.stream(draw)


# ---------------------------------------------------------------------------------------------------------- the methods


def restarted(single: Factorisation, times: int) -> Factorisation:
    """Return `times` ≥ 1 running sums of `single`, on disjoint leaves, under one event; raise ValueError for fewer.

    Restarted sums can be restarted again: the period is that of the innermost sum.
    """
    if times < 1:
        raise ValueError(f"running sums are restarted at least once, not {times} times")
    return RestartedFactorisation(single, times)


def tree_depth(length: int) -> int:
    """Return ⌈log₂(T + 1)⌉, the number of released blocks of a binary tree that contain the first leaf."""
    return length.bit_length()


def tree_nodes(t: int) -> tuple[tuple[int, int], ...]:
    """Return the blocks (first, last) of a binary tree that prefix t adds up, the longest first: binary digits of t."""
    nodes, last = [], t
    while last:
        nodes.append((last - (last & -last) + 1, last))
        last &= last - 1
    return tuple(reversed(nodes))


@lru_cache(maxsize=64)
def independent(length: int) -> Factorisation:
    """Return C = I: every query gets its own noise, so that of prefix t is a random walk, with variance t at μ = 1."""
    impulse = np.zeros(checked(length))
    impulse[0] = 1.0
    return ToeplitzFactorisation("Independent noise", impulse, impulse)


@lru_cache(maxsize=64)
def binary_tree(length: int) -> Factorisation:
    """Return the binary tree mechanism; see BinaryTree."""
    return BinaryTree(checked(length))


@lru_cache(maxsize=64)
def square_root(length: int) -> Factorisation:
    """Return the factorisation B = C = √A, Toeplitz with c_k = binom(2k, k) 4⁻ᵏ; variance of prefix t at μ = 1: S_t
    S_T, S_t = Σ_{k<t} c_k².

    Fichtenberger, Henzinger, Upadhyay 2023 (maximum); Henzinger, Upadhyay, Upadhyay 2023 (mean).
    """
    return ToeplitzFactorisation("Square root", *_root(checked(length)))


@lru_cache(maxsize=64)
def normalised_square_root(length: int) -> Factorisation:
    """Return √A with its columns scaled to norm 1: all leaves cost the same (Henzinger, Kalinin, Upadhyay 2025)."""
    kernel, inverse = _root(checked(length))
    return ToeplitzFactorisation("Normalised square root", kernel, inverse, np.sqrt(np.cumsum(kernel**2)[::-1]))


def _root(length: int) -> tuple[Floats, Floats]:
    """Return the first T coefficients of (1 - x)^(-1/2) and of (1 - x)^(1/2)."""
    k = np.arange(1, length)
    return np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k))), np.cumprod(np.append(1.0, (2 * k - 3) / (2 * k)))


@lru_cache(maxsize=8)
def honaker_tree(length: int) -> Factorisation:
    """Return the full binary tree, each block estimated from its noisy sum and its children's (Honaker 2015, online).

    Variance of prefix t: Σ over its blocks of 2^h / (2^(h+1) - 1), h the level. Only prefix sums are released, so it
    costs as much as the square C = L⁻¹ A, L Lᵀ = B Bᵀ: 7 % less noise than if every block were. UserError: T > 1 024.
    """
    checked(length, LONGEST_DENSE)
    rows, draws = np.zeros((length, 2 * length)), 0
    stack: list[tuple[int, Floats]] = []
    for t in range(length):
        estimate, level = np.zeros(2 * length), 0
        estimate[draws] = 1.0
        draws += 1
        while stack and stack[-1][0] == level:
            children = 2 * 2**level / (2 ** (level + 1) - 1)  # variance of the sum of both
            estimate = (estimate + stack.pop()[1]) / (1 + children)
            estimate[draws] = children / (1 + children)
            draws, level = draws + 1, level + 1
        stack.append((level, estimate))
        rows[t] = np.sum([part for _, part in stack], axis=0)
    factor = cholesky(rows @ rows.T, lower=True)
    return DenseFactorisation("Honaker's tree", solve_triangular(factor, np.tril(np.ones(factor.shape)), lower=True))


def checked(length: int, longest: int | None = None) -> int:
    """Return the length as an integer. Raise ValueError below 1, UserError above `longest`."""
    if length < 1:
        raise ValueError(f"a running sum needs at least one step, got {length}")
    if longest is not None and length > longest:
        raise UserError(
            f"This factorisation is computed for up to {longest:,} steps, not {length:,}. Take fewer steps, or the "
            "normalised square root, which is almost as good and has no limit.",
            title="Too many steps",
        )
    return int(length)


def frozen(array: Floats) -> Floats:
    """Return the array, now read-only."""
    array.setflags(write=False)
    return array
