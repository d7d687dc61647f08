"""Running sums under Gaussian noise: factorisations of the prefix-sum matrix, and the noise that they give.

y = (y_1, …, y_T) are T queries, each computed on rows of its own, a *leaf*: one row of the data affects only one query.
Their prefix sums y_1 + … + y_t are the entries of A y, with A the T × T lower-triangular matrix of ones. A mechanism
factors A = B C, releases C y + σ z (z standard normal, T values per coordinate), and computes from that the noisy
prefix sums B (C y + σ z) = A y + σ B z. Let s_i be the L2 sensitivity of query i:

- replacing a row of leaf i moves C y by at most s_i ‖C_i‖ (C_i: column i), so μ = max_i s_i ‖C_i‖ / σ;
- the noise on prefix t has standard deviation σ ‖B_t‖ (B_t: row t) in every coordinate.

B and C are lower-triangular, so the noise of prefix t needs the draws of the first t steps only, and the guarantee
holds for queries chosen after seeing earlier sums (Denisov et al. 2022, theorem 2.1; Gaussian noise only).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import fft
from scipy.linalg import block_diag, cholesky, solve_triangular, toeplitz

from dpviz.errors import UserError

Floats = NDArray[np.float64]
Draw = Callable[[], Floats]

LONGEST_DENSE = 1024  # most steps of a dense factorisation: a matrix has 8 MB, and the optimal one takes two seconds
_DIRECT = 32  # steps of a block of the streamed convolution; shorter products are faster than their FFT

# ------------------------------------------------------------------------------------------------------ factorisations


class Factorisation(ABC):
    """A factorisation A = B C of the prefix-sum matrix for T steps; it says what the sums cost and draws their noise.

    name : text for legends.
    column_norms : (T,) ‖C_i‖, the L2 distance by which C y moves if query i changes by 1.
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
        """Number of steps after which the sums begin again at 0: T, unless the factorisation is restarted."""
        return self.length

    @property
    @abstractmethod
    def row_norms(self) -> Floats:
        """(T,) ‖B_t‖, the standard deviation of the noise on each prefix for σ = 1, per coordinate."""

    @abstractmethod
    def encoder(self) -> Floats:
        """Return C, a lower-triangular (T, T) matrix."""

    @abstractmethod
    def decoder(self) -> Floats:
        """Return B, a lower-triangular (T, T) matrix."""

    @abstractmethod
    def stream(self, draw: Draw) -> Iterator[Floats]:
        """Yield the noise B z of the prefixes 1, …, T for σ = 1, one array (R, ...) per step.

        Each step calls `draw` once; it returns the next row of z, standard normal numbers of shape (R, ...) for R
        replicates. So the noise of prefix t depends on the first t draws only. The caller must not write to the arrays.
        """

    def noise(self, normals: Floats) -> Floats:
        """Return the noise B z of all prefixes for σ = 1, (R, T, ...), from standard normal draws z of that shape."""
        steps = iter(np.moveaxis(normals, 1, 0))
        return np.stack(list(self.stream(lambda: next(steps))), axis=1)

    def sensitivity(self, sensitivities: ArrayLike = 1.0) -> Floats:
        """Return the L2 sensitivity of C y, from which all sums are computed; for μ-GDP, σ = sensitivity / μ.

        One row affects one query. sensitivities : s_i, the L2 sensitivity of each query, a scalar, (T,) or (R, T);
        the result, the largest s_i ‖C_i‖, is a scalar or (R,).
        """
        return (np.asarray(sensitivities, dtype=float) * self.column_norms).max(axis=-1)

    def rms_error(self, sensitivities: ArrayLike = 1.0) -> Floats:
        """Return (T,) the standard deviation of the noise on each prefix at μ = 1, per coordinate.

        sensitivities : L2 sensitivity of each query, a scalar or (T,).
        """
        return self.row_norms * self.sensitivity(sensitivities)


class ToeplitzFactorisation(Factorisation):
    """Factorisation with C = K diag(w)⁻¹ and K a lower-triangular Toeplitz matrix, hence B = A diag(w) K⁻¹.

    The noise B z is z convolved with the first column of K⁻¹, then multiplied by w, then summed up along the steps.

    kernel, inverse : (T,) first columns of K and of K⁻¹.
    weights : (T,) w, or 1.
    """

    def __init__(self, name: str, kernel: Floats, inverse: Floats, weights: ArrayLike = 1.0) -> None:
        self._kernel, self._inverse = kernel, inverse
        self._weights = np.broadcast_to(np.asarray(weights, dtype=float), kernel.shape)
        # Column i of K has the first T - i entries of its first column, i = 0, …
        super().__init__(name, np.sqrt(np.cumsum(kernel**2)[::-1]) / self._weights)

    @cached_property
    def row_norms(self) -> Floats:
        if np.ptp(self._weights) == 0:  # equal weights: B is Toeplitz, too, and its first column gives all norms
            first_column = self._weights[0] * np.cumsum(self._inverse)
            return frozen(np.sqrt(np.cumsum(first_column**2)))
        row, norms = np.zeros(self.length), np.empty(self.length)
        for t in range(self.length):
            row[: t + 1] += self._weights[t] * self._inverse[t::-1]  # B_t is B_(t-1) plus w_t times row t of K⁻¹
            norms[t] = np.sqrt(row @ row)
        return frozen(norms)

    def encoder(self) -> Floats:
        return toeplitz(self._kernel, np.zeros(self.length)) / self._weights

    def decoder(self) -> Floats:
        return np.cumsum(self._weights[:, None] * toeplitz(self._inverse, np.zeros(self.length)), axis=0)

    def noise(self, normals: Floats) -> Floats:
        """Return B z of all steps at once, in O(T log T) by FFT.

        Unlike in `stream`, rounding mixes the draws of all steps at the 1e-16 level.
        """
        size = fft.next_fast_len(2 * self.length - 1, real=True)
        along_steps = (-1,) + (1,) * (normals.ndim - 2)  # a shape with which (T,) multiplies axis 1 of (R, T, ...)
        spectrum = fft.rfft(normals, size, axis=1) * fft.rfft(self._inverse, size).reshape(along_steps)
        filtered = fft.irfft(spectrum, size, axis=1)[:, : self.length]
        return np.cumsum(self._weights.reshape(along_steps) * filtered, axis=1)

    @cached_property
    def _spectra(self) -> tuple[NDArray[np.complex128], ...]:
        """Fourier transforms of the first 2^(j+1) entries of the first column of K⁻¹, for blocks of 2^j steps, by j."""
        return tuple(fft.rfft(self._inverse[: 2 << j], 2 << j)[:, None] for j in range(self.length.bit_length()))

    def stream(self, draw: Draw) -> Iterator[Floats]:
        """Yield B z step by step, in O(T log² T) for all steps (relaxed multiplication, van der Hoeven 2002).

        The convolution of the draws with the first column of K⁻¹ is split so that each pair of a draw and a later step
        is counted once. Within a block of _DIRECT steps it is computed directly. At the end of a block, after t steps,
        let b be the largest power of two that divides t: the effect of the last b draws on the next b steps is then
        added by FFT.
        """
        for t in range(self.length):
            sample = draw()
            if t == 0:  # the first draw tells the size
                draws = np.empty((self.length, sample.size))
                filtered = np.zeros((self.length, sample.size))  # the convolution, as far as it is known
                total = np.zeros(sample.shape)
            draws[t] = sample.reshape(-1)
            start = t - t % _DIRECT
            filtered[t] += self._inverse[t - start :: -1] @ draws[start : t + 1]
            total = total + self._weights[t] * filtered[t].reshape(sample.shape)
            yield total
            done = t + 1  # number of steps so far
            block = done & -done  # the largest power of two that divides it
            ahead = min(block, self.length - done)
            if ahead and block >= _DIRECT:  # within a block of _DIRECT steps the effect is computed directly
                spectrum = fft.rfft(draws[done - block : done], 2 * block, axis=0)
                spectrum *= self._spectra[block.bit_length() - 1]
                # Of this cyclic convolution, the second half is that of the next steps, to which nothing wraps around.
                filtered[done : done + ahead] += fft.irfft(spectrum, 2 * block, axis=0)[block : block + ahead]


class BinaryTree(Factorisation):
    """Factorisation by a binary tree: step t releases the noisy sum of one block of queries, which ends at t.

    The block's length is the largest power of two that divides t. Prefix t is the sum of popcount(t) blocks. The first
    leaf is in ⌈log₂(T + 1)⌉ blocks, the others are in at most as many (Dwork et al. 2010; Chan, Shi, Song 2011; as a
    data structure, a Fenwick tree). Of the two halves of a block only the left one is a block, as no prefix needs the
    right one.
    """

    def __init__(self, length: int) -> None:
        levels = np.arange(length.bit_length())[:, None]  # blocks of level h have 2^h leaves
        # (levels, T) the number b, from 0, of the half or whole block of 2^h leaves that contains each leaf. It ends at
        # step (b + 1) 2^h, and 2^h is the largest power of two that divides this if b is even: then it is a block.
        numbers = np.arange(length) >> levels
        is_block, ends_in_time = numbers % 2 == 0, (numbers + 1) << levels <= length
        super().__init__("Binary tree", np.sqrt((is_block & ends_in_time).sum(axis=0)))

    @cached_property
    def row_norms(self) -> Floats:
        return frozen(np.sqrt(np.bitwise_count(np.arange(1, self.length + 1)).astype(float)))

    def encoder(self) -> Floats:
        # The block that ends at leaf t begins after leaf t & (t - 1), which is t without its lowest binary digit 1.
        ends, leaves = np.arange(1, self.length + 1)[:, None], np.arange(1, self.length + 1)
        return ((leaves <= ends) & (leaves > (ends & (ends - 1)))).astype(float)

    def decoder(self) -> Floats:
        matrix = np.zeros((self.length, self.length))
        for t in range(1, self.length + 1):
            matrix[t - 1, [last - 1 for _, last in tree_nodes(t)]] = 1.0
        return matrix

    def stream(self, draw: Draw) -> Iterator[Floats]:
        """Yield B z step by step, with one addition per step and one stored array per level of the tree.

        The noise of prefix t is that of the prefix without the last block plus the noise of the block, which is fresh.
        """
        latest: dict[int, Floats] = {}  # noise of the last prefix t, by t & -t, the largest power of two dividing t
        for t in range(1, self.length + 1):
            shorter = t & (t - 1)  # length of the prefix without the last block
            sample = draw()
            latest[t & -t] = latest[shorter & -shorter] + sample if shorter else sample
            yield latest[t & -t]


class DenseFactorisation(Factorisation):
    """A factorisation with any lower-triangular C, given as a matrix `encoder`; B = A C⁻¹, and noise takes O(T²)."""

    def __init__(self, name: str, encoder: Floats) -> None:
        self._encoder = frozen(encoder)
        ones = np.tril(np.ones(encoder.shape))  # A
        # B C = A is solved as Cᵀ Bᵀ = Aᵀ; `tril` removes rounding errors above the diagonal.
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
            if t == 0:  # the first draw tells the size
                draws = np.empty((self.length, sample.size))
            draws[t] = sample.reshape(-1)
            yield (self._decoder[t, : t + 1] @ draws[: t + 1]).reshape(sample.shape)


class RestartedFactorisation(Factorisation):
    """K series of running sums one after the other, as one factorisation: I_K ⊗ A = (I_K ⊗ B)(I_K ⊗ C).

    I_K is the identity of size K, so each series has its own block of the matrices and fresh noise. A row is in one
    leaf i, hence in one of the series, and moves (I_K ⊗ C) y by s_i ‖C_i‖, the norm of a column within one block. So
    the sensitivity is the largest over all leaves; it is that of a single series if all have equal leaf sensitivities,
    and one event pays for all K (parallel composition). I_K ⊗ C is lower-triangular, so the queries may be chosen after
    seeing earlier sums.
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
    """Return the factorisation of `single` carried out `times` times one after the other, for which one event pays.

    The leaves of all the series must be disjoint. A restarted factorisation can be restarted again; its period is then
    that of the innermost one. Raises ValueError for `times` < 1.
    """
    if times < 1:
        raise ValueError(f"running sums are restarted at least once, not {times} times")
    return RestartedFactorisation(single, times)


def tree_nodes(t: int) -> tuple[tuple[int, int], ...]:
    """Return the blocks of a `BinaryTree` whose sum is prefix t, each as its (first, last) leaf from 1, the longest
    first.

    There is one block for each binary digit 1 of t, of that length.
    """
    nodes, last = [], t
    while last:
        block_length = last & -last  # the lowest binary digit 1
        nodes.append((last - block_length + 1, last))
        last -= block_length
    return tuple(reversed(nodes))


@lru_cache(maxsize=64)
def independent(length: int) -> Factorisation:
    """Return the factorisation B = A, C = I: every query gets noise of its own, so the noise of prefix t is a random
    walk, with variance t at μ = 1."""
    impulse = np.zeros(checked_length(length))
    impulse[0] = 1.0
    return ToeplitzFactorisation("Independent noise", impulse, impulse)


@lru_cache(maxsize=64)
def binary_tree(length: int) -> Factorisation:
    """Return the `BinaryTree` for T = `length` steps."""
    return BinaryTree(checked_length(length))


@lru_cache(maxsize=64)
def square_root(length: int) -> Factorisation:
    """Return the factorisation B = C = √A, a Toeplitz matrix with first column c_k = binom(2k, k) 4⁻ᵏ, k = 0, …, T - 1.

    The variance of prefix t at μ = 1 is S_t S_T, with S_t = Σ_{k<t} c_k². Its maximum over t is analysed by
    Fichtenberger, Henzinger, Upadhyay (2023), its mean by Henzinger, Upadhyay, Upadhyay (2023).
    """
    kernel, inverse = _root_coefficients(checked_length(length))
    return ToeplitzFactorisation("Square root", kernel, inverse)


@lru_cache(maxsize=64)
def normalised_square_root(length: int) -> Factorisation:
    """Return the factorisation in which C is √A with its columns scaled to norm 1, so that all leaves cost the same
    (Henzinger, Kalinin, Upadhyay 2025)."""
    kernel, inverse = _root_coefficients(checked_length(length))
    column_norms = np.sqrt(np.cumsum(kernel**2)[::-1])
    return ToeplitzFactorisation("Normalised square root", kernel, inverse, column_norms)


def _root_coefficients(length: int) -> tuple[Floats, Floats]:
    """Return the first columns of √A and of its inverse, (T,) each: the coefficients of the power series of (1 -
    x)^(-1/2) and of (1 - x)^(1/2)."""
    k = np.arange(1, length)
    kernel = np.cumprod(np.append(1.0, (2 * k - 1) / (2 * k)))
    inverse = np.cumprod(np.append(1.0, (2 * k - 3) / (2 * k)))
    return kernel, inverse


@lru_cache(maxsize=8)
def honaker_tree(length: int) -> Factorisation:
    """Return the factorisation by a full binary tree in which each block's sum is estimated from its own noisy sum and
    the estimates of its two halves (Honaker 2015, online).

    The variance of prefix t, before the noise is scaled to the cost, is the sum over its blocks of 2^h / (2^(h+1) - 1)
    for a block of 2^h leaves. Let B be the matrix by which the prefixes' noises follow from those of all blocks' sums.
    Only the prefixes are released, so any square factorisation with the same covariance B Bᵀ of the noise serves as
    well; the returned one has decoder L, the Cholesky factor of B Bᵀ, and encoder C = L⁻¹ A. It has 7 % less noise at
    the same cost than if the sum of every block were released. Raises UserError for T > 1 024.
    """
    checked_length(length, LONGEST_DENSE)
    decoder = np.zeros((length, 2 * length))  # row t: the weights of all noisy sums, fewer than 2 T, in prefix t
    block_count = 0
    stack: list[tuple[int, Floats]] = []  # the blocks that make up the prefix: level, and weights of the estimated sum
    for t in range(length):
        estimate, level = np.zeros(2 * length), 0
        estimate[block_count] = 1.0
        block_count += 1
        while stack and stack[-1][0] == level:
            # Two halves make a block: its own noisy sum, of variance 1, is averaged with the sum of both estimates,
            # each weighted by the inverse of its variance.
            halves_variance = 2 * 2**level / (2 ** (level + 1) - 1)
            _, left_estimate = stack.pop()
            estimate = (estimate + left_estimate) / (1 + halves_variance)
            estimate[block_count] = halves_variance / (1 + halves_variance)
            block_count, level = block_count + 1, level + 1
        stack.append((level, estimate))
        decoder[t] = np.sum([weights for _, weights in stack], axis=0)
    factor = cholesky(decoder @ decoder.T, lower=True)
    return DenseFactorisation("Honaker's tree", solve_triangular(factor, np.tril(np.ones(factor.shape)), lower=True))


def checked_length(length: int, longest: int | None = None) -> int:
    """Return the number of steps as an integer; raise ValueError if it is below 1, UserError if above `longest`."""
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
    """Make the array read-only and return it."""
    array.setflags(write=False)
    return array
