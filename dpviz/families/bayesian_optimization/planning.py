"""What a run will ask for, known before it: batches, trainings, and what to be warned of."""

import math

import numpy as np

from dpviz import resources
from dpviz.families.bayesian_optimization.batches import Batches
from dpviz.families.bayesian_optimization.posterior import NOTHING_NEW
from dpviz.numbers import short
from dpviz.problems.tuning.tuning import TuningFacts

phrase = resources.phrases(__package__)
# Of the first batch, that later steps need on average: so much at a bias level of 0.02 or less, and less the more of
# the gradient may stay unknown (THEORY.md, section 9).
LATER_SHARE, LATER_LEVEL, LATER_POWER = 0.6, 0.02, 0.45


def expected_trainings(batches: Batches, steps: int) -> float:
    """About how many trainings a replicate needs: later steps reuse the history."""
    return float(expected_batches(batches, steps).sum())


def expected_batches(batches: Batches, steps: int) -> np.ndarray:
    """(T,) about how many points each step adds."""
    first, fixed = batches.first(), batches.size is not None or batches.placing.design == "central"
    fixed = fixed or batches.closed_form() is None  # what no batch reaches at first, later ones hardly do
    share = LATER_SHARE * min(1.0, (LATER_LEVEL / batches.level) ** LATER_POWER)
    found = np.full(steps, float(first) if fixed else max(share * first, batches.placing.least))
    found[0] = first
    surrogate, d = batches.surrogate, len(batches.low)
    coefficients = (d + 1) * (d + 2) / 2  # of a quadratic function, which so many evaluations tell exactly
    if surrogate.kernel == "quadratic" and surrogate.noise <= NOTHING_NEW and batches.window >= coefficients:
        found = np.diff(np.minimum(np.cumsum(found), coefficients), prepend=0.0)
    return found


def warnings(facts: TuningFacts, clip: float, noise: float) -> tuple[str, ...]:
    """What to be warned of by numbers that are public. noise : standard deviation per coordinate."""
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
    """What to be warned of in the surrogate's settings."""
    found, surrogate = [], batches.surrogate
    if surrogate.noise < facts.observation_sd**2:
        found.append(
            f"The process assumes noise of variance {short(surrogate.noise)} and observations have "
            f"{short(facts.observation_sd**2)}, if a user's loss has variance 1. Assuming too little costs most: "
            "points come too near, and noise is taken for slopes."
        )
    chosen = batches.size is None and batches.placing.design != "central" and surrogate.kernel != "quadratic"
    if chosen and batches.closed_form() is None:
        found.append(
            f"No batch of {short(batches.most)} points leaves so little unexplained: every step will take that "
            "many. Raise the bias level, or allow repeats."
        )
    return tuple(found)
