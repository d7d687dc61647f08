"""Before a run: how much bias is worth removing at this noise, and how many trainings that takes."""

import math
from dataclasses import dataclass

import numpy as np

from dpviz.families.bayesian_optimization import planning, theory
from dpviz.families.bayesian_optimization.algorithms import Gibo
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.problems.tuning import TuningFacts

LEAST, MOST = 0.01, 0.2  # of a recommended bias level: a promise of the process is worth no more (errata E1, E2)
AMPLITUDE = 0.5  # A, declared, of the mean loss around the iterates, in the unit of the losses
SHOWN = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # bias levels of the table


@dataclass(frozen=True)
class Row:
    """A bias level with what it takes. batch : of the first step with the squared exponential, None where no batch
    reaches it. bias : planned, A√(ωP/d). trainings : about, of the whole run."""

    level: float
    batch: int | None
    bias: float
    trainings: float


@dataclass(frozen=True)
class Advice:
    """level : ω, where the bias is about the noise. noise : σ√d, about the length of the noise of a step. swamped :
    whether it is longer than half a clip. rows : the bias levels to choose from."""

    level: float
    noise: float
    swamped: bool
    rows: tuple[Row, ...]

    @property
    def why(self) -> str:
        """The reason, in sentences."""
        if self.noise == 0:
            return f"Without noise every bias shows: take a small bias level, such as {short(self.level)}."
        words = [
            f"A step's noise is about {short(self.noise)} long. A bias level of {short(self.level)} keeps the bias "
            "about as long; below it you pay for trainings whose gain drowns in the noise."
        ]
        if self.level == MOST:
            words.append("The noise would allow more bias, but then the process is trusted with most of the gradient.")
        if self.swamped:
            words.append("The noise is long beside the clip: more users, fewer steps or a larger budget help more.")
        return " ".join(words)


def advice(facts: TuningFacts, budget: Budget, method: Gibo, amplitude: float = AMPLITUDE) -> Advice:
    """What to set, from public facts and a declared amplitude A of the mean loss. UserError under pure ε."""
    sigma = float(method.plan(facts, budget).noise["gradient"][0])
    d, middle = facts.d, np.mean(facts.box, axis=0)
    prior = float(np.trace(method.surrogate.covariance.prior(middle)))
    level = min(MOST, max(LEAST, (d * sigma / amplitude) ** 2 / prior))
    rows = []
    for one in sorted({*SHOWN, method.bias_level, level}, reverse=True):
        batches = method.replaced(bias_level=one, batch_size=None).batches(facts)
        bias = theory.bias_bound(amplitude, theory.planned_uncertainty(one, d, prior))
        rows.append(Row(one, batches.closed_form(), bias, planning.expected_trainings(batches, method.iterations)))
    noise = sigma * math.sqrt(d)
    return Advice(level, noise, noise > method.clip / 2, tuple(rows))
