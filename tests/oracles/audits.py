"""The power of an audit, which no page states."""

from typing import Literal, get_args

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri
from scipy.stats import binom

from dpviz.privacy.audit import CONFIDENCE, clopper_pearson

Parameter = Literal["epsilon", "mu", "eta"]  # the claim is an ε of (ε, δ), a μ of Gaussian DP, or an η of bounded range


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
    """Return the probability that an audit with `runs` runs on each data set refutes a claim, exact by binomial sums.

    If the claim is true, that is the rate of false alarms.

    parameter, claim : the currency of the claim and its number.
    rate, false_rate : the true probabilities of the event on D and on D'.
    delta : the δ of a claim in ε.
    """
    if parameter not in get_args(Parameter):
        raise ValueError(f"parameter must be one of {get_args(Parameter)}, got {parameter!r}")
    counts = np.arange(runs + 1)
    low, high = clopper_pearson(counts, runs, confidence)
    # The claim is refuted if q, the upper end on D', is below the smallest value that the claim allows together with p,
    # the lower end on D. Both ends increase with the counts.
    if parameter == "epsilon":
        allowed = np.maximum(np.exp(-claim) * (low - delta), 1 - delta - np.exp(claim) * (1 - low))
    elif parameter == "mu":
        allowed = ndtr(ndtri(low) - claim)
    else:
        allowed = expit(logit(low) - claim)
    refuting_counts = np.searchsorted(high, allowed, side="left")  # on D', for each count on D: 0, 1, … below this
    return float(binom.pmf(counts, runs, rate) @ binom.cdf(refuting_counts - 1, runs, false_rate))
