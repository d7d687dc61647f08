"""What a run will ask for, known before it: batches, trainings, time and memory, and what to be warned of."""

import math
from functools import partial

import numpy as np

from dpviz import errors, resources
from dpviz.experiments.algorithm import seconds_per_step
from dpviz.experiments.plan import Plan
from dpviz.families.bayesian_optimization.batches import Batches
from dpviz.families.bayesian_optimization.posterior import NOTHING_NEW
from dpviz.numbers import short
from dpviz.problems.base import Cost
from dpviz.problems.tuning.tuning import TuningFacts

phrase, refusal = resources.phrases(__package__), partial(errors.refusal, __package__)
# Of the first batch, that later steps need on average: so much at a bias level of 0.02 or less, and less the more of
# the gradient may stay unknown (THEORY.md, section 9).
LATER_SHARE, LATER_LEVEL, LATER_POWER = 0.6, 0.02, 0.45
# Of one trial of a batch, and of its linear algebra, measured as `problems.base` says.
SECONDS_PER_CALL, SECONDS_PER_MULTIPLICATION = 1e-4, 0.06e-9
# Of points that are moved together: how often a batch is tried with its derivatives, what these take for each point,
# and which part of a batch can be left out where observations are noisy.
MOVES, SECONDS_PER_MOVE, FEWER_IF_NOISY = 50, 3.4e-5, 0.3


def expected_trainings(batches: Batches, steps: int) -> float:
    """About how many trainings a replicate needs: later steps reuse the history."""
    return float(_expected_batches(batches, steps).sum())


def _expected_batches(batches: Batches, steps: int) -> np.ndarray:
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


def choice_seconds(known: np.ndarray | int, batch: np.ndarray | int, batches: Batches) -> np.ndarray:
    """About how long it takes a replicate that has `known` evaluations to choose `batch` further ones."""
    known, batch, d = np.asarray(known, dtype=float), np.asarray(batch, dtype=float), len(batches.low)
    seconds = SECONDS_PER_MULTIPLICATION * (known**2 * d + 10 * d**3)  # what is known there, and its directions
    if batches.size is not None or batches.placing.design == "central":
        seconds, polishes = seconds + _trial_seconds(known, batch, d), np.ones(())
    else:
        rounds = np.maximum(1, np.ceil(batch / (2 * d)))  # central differences, repeated until they are enough
        for j in range(1, int(rounds.max()) + 1):
            seconds = seconds + (j <= rounds) * _trial_seconds(known, 2 * d * j, d)
        seconds = seconds + math.log2(2 * d) * _trial_seconds(known, np.minimum(batch, 2 * d), d)
        fewer = FEWER_IF_NOISY * batch if batches.surrogate.noise > 1e-3 else 1.3  # points that can be left out
        fewer = fewer / np.where(rounds > 1, 2 * d, 1)  # of repeated ones, all of a round
        polishes = 1 + np.where((rounds > 1) & (batch >= batches.most), fewer / 6, fewer)  # what is not enough stays
        batch = np.where(rounds > 1, batch - 2 * d, batch)
    if batches.placing.design == "joint":
        seconds = seconds + polishes * MOVES * (_trial_seconds(known, batch, d) + SECONDS_PER_MOVE * batch)
    return seconds


def _trial_seconds(known: np.ndarray, batch: np.ndarray | float, d: int) -> np.ndarray:
    """Of one trial of a batch: the factor grows, and with it what is known of the gradient."""
    work = known**2 * batch / 2 + known * batch**2 + batch**3 / 6 + (known + batch) * batch * d
    return SECONDS_PER_CALL + SECONDS_PER_MULTIPLICATION * work


def algebra_seconds(facts: TuningFacts, batches: Batches, steps: int) -> float:
    """About how long all linear algebra of a replicate takes: choosing batches, factors, and the users' gradients."""
    taken = _expected_batches(batches, steps)
    known = np.minimum(np.cumsum(taken), batches.window)
    users = facts.n * facts.d * known
    work = SECONDS_PER_MULTIPLICATION * (users + known**3 / 3 + 2 * known**2 * facts.d)
    return float((choice_seconds(known, taken, batches) + work).sum())


def run_seconds(plan: Plan, replicates: int, cost: Cost, trainings: float) -> float:
    """About how long trainings and steps take, for all replicates."""
    return replicates * trainings * cost.evaluation + plan.iterations * seconds_per_step(replicates, plan.facts.d)


def run_bytes(facts: TuningFacts, replicates: int, cost: Cost, batches: Batches, steps: int) -> float:
    """Losses and points that are kept, factors, and temporaries of one replicate."""
    taken = _expected_batches(batches, steps)
    window, most = min(float(taken.sum()), batches.window), float(taken.max())
    kept = window * (facts.n + facts.d + window)
    beside = (window + most) * (facts.n + 6 * (window + most) + facts.d * most)
    return replicates * (cost.replicate + 8.0 * (kept + most * facts.n)) + 8.0 * beside


def warnings(facts: TuningFacts, clip: float, noise: float) -> tuple[str, ...]:
    """What to be warned of by numbers that are public. noise : standard deviation per coordinate."""
    total = noise * math.sqrt(facts.d)
    if total <= clip / 2:
        return ()
    return (phrase("noise_and_clip", noise=short(total), clip=short(clip)),)


def surrogate_warnings(facts: TuningFacts, batches: Batches) -> tuple[str, ...]:
    """What to be warned of in the surrogate's settings."""
    found, surrogate = [], batches.surrogate
    if surrogate.noise < facts.observation_sd**2:
        found.append(phrase("little_noise", assumed=short(surrogate.noise), real=short(facts.observation_sd**2)))
    chosen = batches.size is None and batches.placing.design != "central" and surrogate.kernel != "quadratic"
    if chosen and batches.closed_form() is None:
        found.append(phrase("no_batch", most=short(batches.most)))
    return tuple(found)
