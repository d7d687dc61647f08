"""Before a run: how much bias is worth removing at this noise, and how many trainings that takes."""

import math
from dataclasses import dataclass

import numpy as np

from dpviz.families.bayesian_optimization import planning, theory
from dpviz.families.bayesian_optimization.algorithms import Gibo
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.problems.tuning.tuning import TuningFacts

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
    """level : ω, the nearest to `balance` that is worth choosing. balance : where the planned bias is as long as the
    noise; it may be above 1. noise : σ√d, about the length of the noise of a step. swamped : whether it is longer than
    half a clip. rows : the bias levels to choose from."""

    level: float
    balance: float
    noise: float
    swamped: bool
    rows: tuple[Row, ...]

    @property
    def why(self) -> str:
        """The reason, in sentences."""
        if self.noise == 0:
            return f"Without noise every bias shows: take a small bias level, such as {short(self.level)}."
        words = [f"A step's noise is about {short(self.noise)} long.", self._beside_bias()]
        if self.swamped:
            words.append("The noise is long beside the clip: more users, fewer steps or a larger budget help more.")
        return " ".join(words)

    def _beside_bias(self) -> str:
        if self.balance < LEAST:
            return (
                f"The planned bias is as short at {short(self.balance)}, and longer at {short(self.level)}; but it is "
                "a promise of the process, and on the page's first problem runs gained nothing below 0.02."
            )
        if self.balance > MOST:
            much = f"up to {short(self.balance)}" if self.balance < 1 else "of any size"
            return f"It would hide more bias, {much}, but then the process is trusted with most of the gradient."
        return (
            f"At a bias level of {short(self.level)} the planned bias is about as long; below it you pay for trainings "
            "whose gain drowns in the noise."
        )


def advice(facts: TuningFacts, budget: Budget, method: Gibo, amplitude: float = AMPLITUDE) -> Advice:
    """What to set, from public facts and a declared amplitude A of the mean loss. UserError under pure ε."""
    sigma = float(method.plan(facts, budget).noise["gradient"][0])
    d, middle = facts.d, np.mean(facts.box, axis=0)
    prior = float(np.trace(method.surrogate.covariance.prior(middle)))
    balance = (d * sigma / amplitude) ** 2 / prior
    level = min(MOST, max(LEAST, balance))
    rows = []
    for one in sorted({*SHOWN, method.bias_level, level}, reverse=True):
        batches = method.replaced(bias_level=one, batch_size=None).batches(facts)
        bias = theory.bias_bound(amplitude, theory.planned_uncertainty(one, d, prior))
        rows.append(Row(one, batches.closed_form(), bias, planning.expected_trainings(batches, method.iterations)))
    noise = sigma * math.sqrt(d)
    return Advice(level, balance, noise, noise > method.clip / 2, tuple(rows))
