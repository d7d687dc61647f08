"""Statistical audits: lower bounds on the true cost of a mechanism, from the outcomes of repeated runs.

Two neighbouring data sets D and D' are chosen, best the worst pair, and an event E, before the runs that count, or on a
separate half of them. E occurred in `hits` of `runs` runs on D and in `false_hits` of `false_runs` independent runs on
D'. A bound above the claim refutes it; one below means "not refuted", never "proved".

The numbers of runs are fixed in advance, too: the confidence holds for one look. An auditor who looks K times at
growing numbers, or at K events, divides the error 1 - confidence by K.

Sources: Jagielski, Ullman, Oprea 2020; Nasr et al. 2023; Steinke, Nasr, Jagielski 2023 (one run).
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import bdtr, bdtrc, betaincinv, betaln, expit, logit, ndtr, ndtri, xlog1py, xlogy

from dpviz.privacy.accounting.closed_forms import Floats

Parameter = Literal["epsilon", "mu", "eta"]  # of a claim: ε of (ε, δ), μ of Gaussian DP, η of a bounded range
CONFIDENCE = 0.95
_ORDERS = 1 + np.geomspace(1e-3, 1e3, 60)

# ------------------------------------------------------------------------------------------------------ an event's runs


def clopper_pearson(hits: ArrayLike, runs: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Return the two-sided interval for the probability of an event with `hits` in `runs` runs; arguments broadcast.

    Each end is wrong with probability (1 - confidence)/2 at most (Clopper and Pearson 1934). Raises ValueError unless
    0 ≤ hits ≤ runs and runs ≥ 1.
    """
    hits, runs = np.broadcast_arrays(np.asarray(hits, dtype=float), np.asarray(runs, dtype=float))
    if ((hits < 0) | (hits > runs) | (runs < 1)).any():
        raise ValueError("an event occurs between 0 times and as often as it was tried, and is tried at least once")
    tail = (1 - confidence) / 2
    low = betaincinv(np.maximum(hits, 1), runs - hits + 1, tail)
    high = betaincinv(hits + 1, np.maximum(runs - hits, 1), 1 - tail)
    return np.where(hits > 0, low, 0.0), np.where(hits < runs, high, 1.0)


def separated(
    hits: ArrayLike, runs: int, false_hits: ArrayLike, false_runs: int, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return the smallest probability of the event on D that the runs allow, and the largest on D'."""
    return clopper_pearson(hits, runs, confidence)[0], clopper_pearson(false_hits, false_runs, confidence)[1]


def least_epsilon(rate: ArrayLike, false_rate: ArrayLike, delta: float = 0.0) -> Floats:
    """Return the smallest ε at δ = delta under which an event can occur at `rate` on D and at `false_rate` on D'.

    The larger of ln((p - δ)/q) and, of the complement and the data sets exchanged, ln((1 - q - δ)/(1 - p)); 0 if
    nothing follows.
    """
    p, q = np.asarray(rate, dtype=float), np.asarray(false_rate, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [np.log(np.maximum(x - delta, 0.0) / y) for x, y in ((p, q), (1 - q, 1 - p))]
    return np.maximum(np.fmax(*ratios), 0.0)


def least_mu(rate: ArrayLike, false_rate: ArrayLike) -> Floats:
    """Return the smallest μ of Gaussian DP that allows these rates: Φ⁻¹(p) - Φ⁻¹(q); 0 if nothing follows."""
    return _positive_difference(ndtri(rate), ndtri(false_rate))


def least_eta(rate: ArrayLike, false_rate: ArrayLike) -> Floats:
    """Return the smallest range of one selection that allows these rates: logit p - logit q; 0 if nothing follows."""
    return _positive_difference(logit(rate), logit(false_rate))


def _positive_difference(one: Floats, other: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.maximum(np.nan_to_num(one - other, nan=0.0, posinf=np.inf, neginf=0.0), 0.0)


def least_renyi(rate: ArrayLike, false_rate: ArrayLike, order: float) -> Floats:
    """Return the smallest Rényi divergence of an order α > 1, in either direction, that allows these rates; 0 if p ≤ q.

    What is computed from an output diverges no more than the output (Rényi 1961; van Erven and Harremoës 2014).
    """
    p, q = np.asarray(rate, dtype=float), np.asarray(false_rate, dtype=float)

    def one_way(x: Floats, y: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [order * np.log(a) + (1 - order) * np.log(b) for a, b in ((x, y), (1 - x, 1 - y))]
        return np.logaddexp(*(np.nan_to_num(value, nan=-np.inf, posinf=np.inf, neginf=-np.inf) for value in logs))

    with np.errstate(invalid="ignore"):
        divergence = np.maximum(one_way(p, q), one_way(q, p)) / (order - 1)
    return np.where(p > q, np.maximum(divergence, 0.0), 0.0)


def least_rho(rate: ArrayLike, false_rate: ArrayLike) -> Floats:
    """Return the smallest ρ of zCDP that allows these rates: the largest divergence over its order, on a grid."""
    each = [least_renyi(rate, false_rate, order) / order for order in _ORDERS]
    return np.asarray(np.max(each, axis=0))


def least_detection(rate: ArrayLike, false_rate: ArrayLike, at: float) -> Floats:
    """Return the smallest true positive rate at the false positive rate `at` where some test has these rates: one may
    also toss a coin between that test and one that always, or never, says D."""
    p, q = np.asarray(rate, dtype=float), np.asarray(false_rate, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        below, above = p * at / q, p + (1 - p) * (at - q) / (1 - q)
    return np.maximum(np.where(q >= at, below, above), at)


def epsilon_lower_bound(
    hits: int, runs: int, false_hits: int, false_runs: int, delta: float = 0.0, *, confidence: float = CONFIDENCE
) -> float:
    """Return a lower bound on ε at δ = delta, see `least_epsilon`, p at least the rate on D and q at most that on D'; 0
    if nothing follows. Holds with the given confidence (Jagielski, Ullman, Oprea 2020).

    >>> round(epsilon_lower_bound(hits=500, runs=1000, false_hits=122, false_runs=1000), 3)
    1.18
    """
    return float(least_epsilon(*separated(hits, runs, false_hits, false_runs, confidence), delta))


def power(
    parameter: Parameter,
    claim: float,
    rate: float,
    false_rate: float,
    runs: int,
    *,
    delta: float = 0.0,
    confidence: float = CONFIDENCE,
) -> float:
    """Return the exact probability (binomial sums) that an audit with `runs` runs on each data set refutes the claim.

    parameter : of the claim, with its lower bound above. rate, false_rate : true probabilities of the event on D, D'.
    delta : of the claim, for ε only. Where the claim is true this is the rate of false alarms.
    """
    if parameter not in get_args(Parameter):
        raise ValueError(f"parameter must be one of {get_args(Parameter)}, got {parameter!r}")
    counts = np.arange(runs + 1)
    low, high = clopper_pearson(counts, runs, confidence)
    # The claim is refuted if q, the upper end on D', is below what the claim allows for p, the lower end on D.
    if parameter == "epsilon":
        allowed = np.maximum(np.exp(-claim) * (low - delta), 1 - delta - np.exp(claim) * (1 - low))
    elif parameter == "mu":
        allowed = ndtr(ndtri(low) - claim)
    else:
        allowed = expit(logit(low) - claim)
    refuting = np.searchsorted(high, allowed, side="left")  # number of counts on D' that refute, for each count on D
    refuted = np.where(refuting > 0, bdtr(np.maximum(refuting - 1, 0), runs, false_rate), 0.0)
    return float(_binomial(counts, runs, rate) @ refuted)


def _binomial(counts: ArrayLike, runs: int, rate: float) -> Floats:
    """Return Pr[B = k] of a binomial B; as `scipy.stats.binom.pmf`, whose package takes half a second to import."""
    k = np.asarray(counts)
    return np.asarray(np.exp(xlogy(k, rate) + xlog1py(runs - k, -rate) - betaln(runs - k + 1, k + 1) - np.log1p(runs)))


# -------------------------------------------------------------------------------------------------------------- one run


def one_run_epsilon_lower_bound(
    canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """Return a lower bound on ε at δ = delta from one run (Steinke, Nasr, Jagielski 2023, Theorem 5.2), at least 0.

    Each of `canaries` rows is included by the toss of a fair coin of its own. The auditor guesses of `guesses` of them
    whether they were included, abstains from the rest, and is right `correct` times. Add/remove-one. Raises ValueError
    unless 0 ≤ correct ≤ guesses ≤ canaries.
    """
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError("of the canaries some are guessed, and of the guesses some are correct")
    error = 1 - confidence

    def surplus(epsilon: float) -> float:
        return _one_run_p_value(canaries, guesses, correct, epsilon, delta) - error

    if surplus(0.0) >= 0:
        return 0.0
    high = 1.0
    while surplus(high) < 0:
        high *= 2
    return float(brentq(surplus, 0.0, high, xtol=1e-13))


def _one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return the chance, at most, of `correct` or more right answers under (ε, δ): β + 2mδ max_i Pr[v > B ≥ v-i]/i."""
    right = float(expit(epsilon))
    p_value = float(bdtrc(correct - 1, guesses, right))
    if delta and correct:
        wrong = np.arange(1, correct + 1)
        below = np.cumsum(_binomial(correct - wrong, guesses, right))
        p_value += 2 * canaries * delta * float((below / wrong).max())
    return min(p_value, 1.0)
