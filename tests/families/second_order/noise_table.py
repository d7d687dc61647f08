"""Compute the quantiles in dpviz/families/second_order/noise_spectrum.npy, and write them, in a few minutes:

    python -m tests.families.second_order.noise_table

For even noise the distribution is computed exactly, as the Pfaffian of a matrix of integrals (de Bruijn 1955; Mehta,
"Random matrices"), by Gauss-Legendre quadrature. For the other there is no formula: its quantiles are those of even
noise, with mean, deviation and skewness as simulated.
"""

import math

import numpy as np
from numpy.polynomial import legendre
from scipy.special import ndtri, ndtri_exp

from dpviz.families.second_order import noise_spectrum

NODES, PANELS_PER_COLUMN, MIN_PANELS = 16, 0.5, 40  # of the quadrature: nodes in a panel, numbers of panels
# The simulation of one size draws DRAWS/d^2.5 matrices, and 2,000 more: by trial, fewer the more time each takes.
DRAWS = 4e7


def integral_matrix(d: int, top: float) -> np.ndarray:
    """Return the matrix whose Pfaffian is P(λ_max ≤ top) times a constant, for even noise on d × d matrices.

    Its entries are the integrals of φᵢ(u)φⱼ(v) - φⱼ(u)φᵢ(v) over u < v ≤ top, of the Hermite functions φ₀ to φ_{d-1};
    for odd d a last row and column have the integrals of φᵢ up to top. The range is divided into panels, on each of
    which the functions are taken at Gauss-Legendre nodes.
    """
    nodes, weights = legendre.leggauss(NODES)
    panels = max(MIN_PANELS, int(PANELS_PER_COLUMN * d))
    # Beyond ±√(2d) Hermite functions decay: 9 farther out they are below e^-40, and count as 0.
    edges = np.linspace(-math.sqrt(2 * d) - 9, top, panels + 1)
    half = (edges[1] - edges[0]) / 2
    x = ((edges[:-1] + half)[:, None] + half * nodes).ravel()  # nodes of all panels
    values = np.empty((d, len(x)))  # φⱼ at all nodes, by their three-term recursion
    values[0] = math.pi**-0.25 * np.exp(-x * x / 2)
    for j in range(1, d):
        second_term = math.sqrt((j - 1) / j) * values[j - 2] if j > 1 else 0.0
        values[j] = math.sqrt(2 / j) * x * values[j - 1] - second_term
    # A matrix that turns values at the nodes of [-1, 1] into integrals from -1 up to each node, read from the right:
    # values to Legendre coefficients, to those of the antiderivative, to its values at the nodes.
    coefficients = np.linalg.inv(legendre.legvander(nodes, NODES - 1))
    antiderivatives = legendre.legint(np.eye(NODES), lbnd=-1)  # of each Legendre polynomial, one in each column
    up_to_node = legendre.legvander(nodes, NODES) @ antiderivatives @ coefficients
    by_panel = values.reshape(d, panels, NODES)
    panel_integrals = half * (by_panel @ weights)
    earlier_panels = np.cumsum(panel_integrals, axis=1) - panel_integrals
    inner = earlier_panels[:, :, None] + half * (by_panel @ up_to_node.T)  # ∫ φᵢ(u) over u up to each node
    double_integrals = inner.reshape(d, -1) @ (values * np.tile(half * weights, panels)).T  # of φᵢ(u)φⱼ(v), u < v
    matrix = double_integrals - double_integrals.T
    if d % 2:
        integrals = panel_integrals.sum(axis=1)[:, None]
        matrix = np.block([[matrix, integrals], [-integrals.T, np.zeros((1, 1))]])
    return matrix


def exact_log_chance(d: int, level: float) -> float:
    """Compute ln P(λ_max ≤ level) for even noise of scale 1; up to about d = 500.

    The constant of `integral_matrix` is found at a level so high that the probability is 1. A Pfaffian is the root of
    the determinant.
    """
    certain_level = math.sqrt(2 * d) + 9  # beyond it the functions of `integral_matrix` count as 0
    log_pfaffian, log_constant = (
        float(np.linalg.slogdet(integral_matrix(d, top)).logabsdet) / 2 for top in (level, certain_level)
    )
    return min(0.0, log_pfaffian - log_constant)


def exact(d: int) -> np.ndarray:
    """Compute the quantiles of λ_max for even noise, (scores,), normalised by `noise_spectrum._limit`.

    The probabilities of many levels give their scores; between those the quantiles are interpolated.
    """
    centre, scale = noise_spectrum._limit(d, "goe")
    levels = centre + scale * np.linspace(-14, 12, 261)  # beyond all quantiles that are stored
    logs = np.array([exact_log_chance(d, level) for level in levels.tolist()])
    complements = np.array([1 - math.exp(log) for log in logs.tolist()])
    is_accurate = (logs > -60) & (complements > 1e-11)  # beyond these limits rounding errors count
    # Probabilities below ½ from their logarithm, larger ones from their complement: neither loses digits. A complement
    # that is rounded to 0 has no score; it is not used.
    scores = np.where(logs < -0.7, ndtri_exp(logs), -ndtri(np.maximum(complements, 1e-300)))
    return np.interp(noise_spectrum._SCORES, scores[is_accurate], (levels[is_accurate] - centre) / scale)


def simulated(d: int, even: np.ndarray) -> np.ndarray:
    """Compute the quantiles of λ_max for the same noise on all entries, (scores,), from those of even noise, `even`
    (scores,); both are normalised by `noise_spectrum._limit`.

    They are those of even noise with mean, deviation and skewness changed. The changes are simulated with the same
    random numbers for both shapes of noise, so that most of the sampling error cancels.
    """
    generator, draws = np.random.default_rng(d), int(DRAWS / d**2.5) + 2000
    eigenvalues = []  # the largest ones, of both shapes
    at_once = max(1, 4_000_000 // d**2)  # matrices, for 32 MB of numbers
    for start in range(0, draws, at_once):
        normal = generator.standard_normal((min(at_once, draws - start), d, d))
        # Variance 2 on the diagonal, 1 off it: √2 times even noise of scale 1, so that centre and scale of "upper"
        # normalise both shapes.
        matrices = (normal + normal.transpose(0, 2, 1)) / math.sqrt(2)
        largest_of_even = np.linalg.eigvalsh(matrices)[:, -1]
        matrices[:, np.arange(d), np.arange(d)] /= math.sqrt(2)  # variance 1 on the diagonal, too
        eigenvalues.append([largest_of_even, np.linalg.eigvalsh(matrices)[:, -1]])
    values = (np.concatenate(eigenvalues, axis=1) - 2 * math.sqrt(d)) * d ** (1 / 6)  # (2, draws), normalised
    (even_mean, mean), (even_deviation, deviation) = values.mean(axis=1), values.std(axis=1)
    standardised = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)
    even_skewness, skewness = (standardised**3).mean(axis=1)
    correction = (skewness - even_skewness) / 6 * (noise_spectrum._SCORES**2 - 1)  # Cornish, Fisher 1938
    correction_at_4 = correction[np.argmin(np.abs(noise_spectrum._SCORES - 4))]  # and at -4
    shift = np.where(np.abs(noise_spectrum._SCORES) < 4, correction, correction_at_4)  # constant in the tails
    return np.asarray(mean + deviation * ((even - even_mean) / even_deviation + shift))


def write() -> None:
    """Compute the quantiles of both shapes of noise for all sizes, and write the file; this takes a few minutes."""
    even = [exact(d) for d in noise_spectrum._SIZES.tolist()]
    centre, scale = noise_spectrum._limit(1, "upper")
    upper = [(noise_spectrum._SCORES - centre) / scale]  # d = 1: the only entry is a normal number
    upper += [simulated(d, row) for d, row in zip(noise_spectrum._SIZES[1:].tolist(), even[1:], strict=True)]
    np.save(noise_spectrum._FILE, np.array([even, upper]))


if __name__ == "__main__":
    write()
