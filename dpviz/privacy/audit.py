"""Statistical audits: lower bounds on the true cost of a mechanism, from the outcomes of repeated runs.

An audit chooses two neighbouring data sets D and D', ideally the pair that is easiest to tell apart, and an event E (a
set of outputs). Both must be chosen before the runs that count, or on a separate half of them. E occurs in `hits` of
`runs` runs on D and in `false_hits` of `false_runs` independent runs on D'. From these follow a lower bound p of its
probability on D, an upper bound q on D', and so a lower bound on ε or μ. If that is above the claim, the claim is
refuted; if it is below, the claim is "not refuted", never "proved".

The numbers of runs must be fixed in advance, too, because the confidence holds for one evaluation. An auditor who
evaluates K times, at growing numbers of runs or for K events, must divide the error 1 - confidence by K.

Sources: Jagielski, Ullman, Oprea 2020; Nasr et al. 2023; Steinke, Nasr, Jagielski 2023 (one run).
"""

import numpy as np
from numpy.typing import ArrayLike

from dpviz.later import lazy_functions
from dpviz.privacy.accounting.closed_forms import Floats

(brentq,) = lazy_functions("scipy.optimize", "brentq")
bdtrc, betaincinv, expit, logit, ndtri = lazy_functions("scipy.special", "bdtrc betaincinv expit logit ndtri")

CONFIDENCE = 0.95
_ORDERS = 1 + np.geomspace(1e-3, 1e3, 60)  # orders of Rényi divergences that `least_rho` tries

# ------------------------------------------------------------------------------------------------------ an event's runs


def clopper_pearson(hits: ArrayLike, runs: ArrayLike, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Return the lower and the upper end of a confidence interval for the probability of an event that occurred in
    `hits` of `runs` runs.

    The arguments broadcast. Each end is wrong with probability (1 - confidence)/2 at most (Clopper and Pearson 1934).
    Raises ValueError unless 0 ≤ hits ≤ runs and runs ≥ 1.
    """
    hits, runs = np.broadcast_arrays(np.asarray(hits, dtype=float), np.asarray(runs, dtype=float))
    if ((hits < 0) | (hits > runs) | (runs < 1)).any():
        raise ValueError("an event occurs between 0 times and as often as it was tried, and is tried at least once")
    tail = (1 - confidence) / 2
    # The maxima keep the parameters positive where no run hits, or all do; the last line sets those ends to 0 and 1.
    low = betaincinv(np.maximum(hits, 1), runs - hits + 1, tail)
    high = betaincinv(hits + 1, np.maximum(runs - hits, 1), 1 - tail)
    return np.where(hits > 0, low, 0.0), np.where(hits < runs, high, 1.0)


def rate_bounds(
    hits: ArrayLike, runs: int, false_hits: ArrayLike, false_runs: int, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return p, the lower bound on the probability of the event on D, and q, the upper bound on D'.

    Both hold together with the given confidence, as each fails with half of the error.
    """
    p, _ = clopper_pearson(hits, runs, confidence)
    _, q = clopper_pearson(false_hits, false_runs, confidence)
    return p, q


def least_epsilon(rate: ArrayLike, false_rate: ArrayLike, delta: float = 0.0) -> Floats:
    """Return the smallest ε for which an (ε, delta)-DP algorithm can have an event of probability p = `rate` on D and q
    = `false_rate` on D'.

    It is the larger one of ln((p - δ)/q) and, for the complement of the event and the data sets exchanged, ln((1 - q -
    δ)/(1 - p)); 0 if both are negative.
    """
    p, q = np.asarray(rate, dtype=float), np.asarray(false_rate, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_event = np.log(np.maximum(p - delta, 0.0) / q)
        by_complement = np.log(np.maximum(1 - q - delta, 0.0) / (1 - p))
    return np.maximum(np.fmax(by_event, by_complement), 0.0)  # `fmax` passes over 0/0, from which nothing follows


def least_mu(rate: ArrayLike, false_rate: ArrayLike) -> Floats:
    """Return the smallest μ of Gaussian DP with which an event can have probability p = `rate` on D and q =
    `false_rate` on D': Φ⁻¹(p) - Φ⁻¹(q), or 0 if that is negative."""
    return _positive_difference(ndtri(rate), ndtri(false_rate))


def least_eta(rate: ArrayLike, false_rate: ArrayLike) -> Floats:
    """Return the smallest bounded range η with which an event of one selection can have probability p = `rate` on D and
    q = `false_rate` on D': logit p - logit q, or 0 if that is negative."""
    return _positive_difference(logit(rate), logit(false_rate))


def _positive_difference(minuend: Floats, subtrahend: Floats) -> Floats:
    """Return the difference, or 0 where it is negative, or where both are infinite so that nothing follows."""
    with np.errstate(invalid="ignore"):
        return np.maximum(np.nan_to_num(minuend - subtrahend, nan=0.0, posinf=np.inf, neginf=0.0), 0.0)


def least_renyi(rate: ArrayLike, false_rate: ArrayLike, order: float) -> Floats:
    """Return the smallest Rényi divergence of an order α > 1 with which an event can have probability p = `rate` on D
    and q = `false_rate` on D'; 0 if p ≤ q.

    It is the larger one of the divergences, in both directions, between "the event occurs, or not" on D and on D'. The
    divergence of the whole output is at least as large (Rényi 1961; van Erven and Harremoës 2014).
    """
    p, q = np.asarray(rate, dtype=float), np.asarray(false_rate, dtype=float)

    def log_moment(x: Floats, y: Floats) -> Floats:
        """Return ln(x^α y^(1-α) + (1-x)^α (1-y)^(1-α))."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = [order * np.log(a) + (1 - order) * np.log(b) for a, b in ((x, y), (1 - x, 1 - y))]
        # Where a term is not a number, both probabilities are 0, and it counts as 0.
        return np.logaddexp(*np.nan_to_num(logs, nan=-np.inf, posinf=np.inf, neginf=-np.inf))

    with np.errstate(invalid="ignore"):
        divergence = np.maximum(log_moment(p, q), log_moment(q, p)) / (order - 1)
    return np.where(p > q, np.maximum(divergence, 0.0), 0.0)


def least_rho(rate: ArrayLike, false_rate: ArrayLike) -> Floats:
    """Return the smallest ρ of zCDP with which an event can have probability `rate` on D and `false_rate` on D'.

    It is the largest D_α/α over a grid of orders α, with D_α from `least_renyi`.
    """
    ratios = [least_renyi(rate, false_rate, order) / order for order in _ORDERS]
    return np.asarray(np.max(ratios, axis=0))


def least_detection(rate: ArrayLike, false_rate: ArrayLike, at: float) -> Floats:
    """Return the true positive rate that an attacker can reach at the false positive rate `at`, if an event has
    probability p = `rate` on D and q = `false_rate` on D'.

    The attacker says D when the event occurs, or tosses a coin between that test and one that always says D (if `at` is
    above q) or never does (if `at` is below q).
    """
    p, q = np.asarray(rate, dtype=float), np.asarray(false_rate, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        below_q, above_q = p * at / q, p + (1 - p) * (at - q) / (1 - q)
    return np.maximum(np.where(at <= q, below_q, above_q), at)  # `at` itself is reached by guessing


def epsilon_lower_bound(
    hits: int, runs: int, false_hits: int, false_runs: int, delta: float = 0.0, *, confidence: float = CONFIDENCE
) -> float:
    """Return a lower bound on the ε, at δ = delta, of a mechanism whose runs are counted as in the module's text.

    It is `least_epsilon` of the bounds p and q, and holds with the given confidence (Jagielski, Ullman, Oprea 2020).

    >>> round(epsilon_lower_bound(hits=500, runs=1000, false_hits=122, false_runs=1000), 3)
    1.18
    """
    return float(least_epsilon(*rate_bounds(hits, runs, false_hits, false_runs, confidence), delta))


# -------------------------------------------------------------------------------------------------------------- one run


def one_run_epsilon_lower_bound(
    canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """Return a lower bound on the ε, at δ = delta, of a mechanism from a single run (Steinke, Nasr, Jagielski 2023,
    Theorem 5.2); at least 0.

    Each of `canaries` rows is put into the data by the toss of a fair coin of its own. From the output, the auditor
    guesses for `guesses` of them whether they were put in, abstains for the rest, and is right `correct` times. The
    bound holds under add/remove-one. Raises ValueError unless 0 ≤ correct ≤ guesses ≤ canaries.
    """
    if not 0 <= correct <= guesses <= canaries:
        raise ValueError("of the canaries some are guessed, and of the guesses some are correct")
    error = 1 - confidence

    def surplus(epsilon: float) -> float:
        """Return the p-value of this ε less the allowed error; it increases with ε, and a negative one refutes ε."""
        return _one_run_p_value(canaries, guesses, correct, epsilon, delta) - error

    if surplus(0.0) >= 0:
        return 0.0
    high = 1.0
    while surplus(high) < 0:
        high *= 2
    return float(brentq(surplus, 0.0, high, xtol=1e-13))


def _one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the probability of v = `correct` or more right guesses if the mechanism is (ε, δ)-DP.

    It is β + 2mδ max_i Pr[v > B ≥ v - i]/i over i = 1, …, v, where m = `canaries`, B ~ Bin(`guesses`, 1/(1 + e^-ε)) and
    β = Pr[B ≥ v].
    """
    chance_right = float(expit(epsilon))
    p_value = float(bdtrc(correct - 1, guesses, chance_right))
    if delta and correct:
        i = np.arange(1, correct + 1)
        probability_in_range = bdtrc(correct - i - 1, guesses, chance_right) - p_value  # Pr[v > B ≥ v - i]
        p_value += 2 * canaries * delta * float((probability_in_range / i).max())
    return min(p_value, 1.0)
