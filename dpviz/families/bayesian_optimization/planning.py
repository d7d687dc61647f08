"""Estimates before a run: batches, trainings, and warnings."""

import math

import numpy as np

from dpviz import resources
from dpviz.families.bayesian_optimization.batches import Batches
from dpviz.families.bayesian_optimization.posterior import NOTHING_NEW
from dpviz.numbers import short
from dpviz.problems.tuning.tuning import TuningFacts

phrase = resources.phrases(__package__)
# Later steps need on average this share of the first batch at a bias level of 0.02 or less, and less at a higher one
# (THEORY.md, section 9).
LATER_SHARE, LATER_LEVEL, LATER_POWER = 0.6, 0.02, 0.45


def expected_trainings(batches: Batches, steps: int) -> float:
    """Return about the number of trainings of a replicate; later steps reuse the history."""
    return float(expected_batches(batches, steps).sum())


def expected_batches(batches: Batches, steps: int) -> np.ndarray:
    """Return (T,) about the number of points that each step adds."""
    first, is_fixed = batches.first(), batches.size is not None or batches.placing.design == "central"
    is_fixed = is_fixed or batches.closed_form() is None  # a level that the first batch misses, later ones miss, too
    share = LATER_SHARE * min(1.0, (LATER_LEVEL / batches.level) ** LATER_POWER)
    sizes = np.full(steps, float(first) if is_fixed else max(share * first, batches.placing.least))
    sizes[0] = first
    surrogate, d = batches.surrogate, len(batches.low)
    coefficients = (d + 1) * (d + 2) / 2  # of a quadratic function, which is exact after this number of evaluations
    if surrogate.kernel == "quadratic" and surrogate.noise <= NOTHING_NEW and batches.window >= coefficients:
        sizes = np.diff(np.minimum(np.cumsum(sizes), coefficients), prepend=0.0)
    return sizes


def warnings(facts: TuningFacts, clip: float, noise: float) -> tuple[str, ...]:
    """Return a warning if the noise is long compared with the clip, from public numbers. noise : standard deviation per
    coordinate."""
    total = noise * math.sqrt(facts.d)
    if total <= clip / 2:
        return ()
    return (
        (
            f"The noise is about {short(total)} long in every step, and no gradient is longer than the clip, "
            f"{short(clip)}: most steps go nowhere. Take fewer steps, more users or a larger budget."
        ),
    )


def surrogate_warnings(facts: TuningFacts, batches: Batches) -> tuple[str, ...]:
    """Return warnings about the surrogate's settings."""
    warnings, surrogate = [], batches.surrogate
    if surrogate.noise < facts.observation_sd**2:
        warnings.append(
            f"The process assumes noise of variance {short(surrogate.noise)} and observations have "
            f"{short(facts.observation_sd**2)}, if a user's loss has variance 1. Assuming too little costs most: "
            "points come too near, and noise is taken for slopes."
        )
    is_by_level = batches.size is None and batches.placing.design != "central" and surrogate.kernel != "quadratic"
    if is_by_level and batches.closed_form() is None:
        warnings.append(
            f"No batch of {short(batches.most)} points leaves so little unexplained: every step will take that "
            "many. Raise the bias level, or allow repeats."
        )
    return tuple(warnings)
