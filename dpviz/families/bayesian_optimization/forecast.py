"""What is known of an experiment before it runs: the noise, how much bias is worth removing at it, and how many
trainings that takes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.bayesian_optimization import planning, theory
from dpviz.families.bayesian_optimization.algorithms import Descent, Gibo
from dpviz.numbers import short, short_down
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import Budget
from dpviz.problems.tuning.tuning import TuningFacts

LEVELS = np.geomspace(0.001, 0.95, 40)  # bias levels of the figures
LEAST, MOST = 0.02, 0.2  # of a recommended bias level: a promise of the process is worth no more (errata E1, E2)
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
                f"The planned bias would be as short at {short(self.balance)}, but runs on the page's first "
                f"problem gained nothing below {short(self.level)}."
            )
        if self.balance > MOST:
            much = f"up to {short_down(self.balance)}" if self.balance < 1 else "of any size"
            return f"It would hide more bias, {much}, but then the process is trusted with most of the gradient."
        return (
            f"At a bias level of {short(self.level)} the planned bias is about as long; below it you pay for "
            "trainings whose gain drowns in the noise."
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


@dataclass(frozen=True)
class Forecast:
    """What is known before a run.

    label, method : the first DP-GIBO of the experiment, or the usual one. mu : of a run of it; None where the budget
    buys no Gaussian noise, and then there is no advice either.
    trainings : about how many each private method needs, where that is known.
    """

    facts: TuningFacts
    budget: Budget
    label: str
    method: Gibo
    mu: float | None
    advice: Advice | None
    trainings: Mapping[str, float]

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on each coordinate of a step's gradient."""
        return 0.0 if self.advice is None else self.advice.noise / math.sqrt(self.facts.d)


def forecast(experiment: Experiment, plans: Mapping[str, Plan]) -> Forecast:
    """The advice for these facts and this budget, and what the methods take."""
    facts = TuningFacts.of(next(iter(plans.values())).facts)
    label, method = gibo_of(experiment)
    try:
        advised: Advice | None = advice(facts, experiment.budget, method)
        mu: float | None = accountants.total(method.plan(facts, experiment.budget).events, "mu")
    except UserError:
        advised, mu = None, None
    trainings: dict[str, float] = {}
    for arm in experiment.arms:
        if not arm.reference and arm.label in plans:
            expected = plans[arm.label].resolved.get("expected_trainings", getattr(arm.algorithm, "trainings", None))
            trainings |= {} if expected is None else {arm.label: float(expected)}
    return Forecast(facts, experiment.budget, label, method, mu, advised, trainings)


def gibo_of(experiment: Experiment) -> tuple[str, Gibo]:
    """The first DP-GIBO, with its label; else one with the settings of the first method."""
    for arm in experiment.arms:
        if isinstance(arm.algorithm, Gibo) and not arm.reference:
            return arm.label, arm.algorithm
    methods = [arm.algorithm for arm in experiment.arms if isinstance(arm.algorithm, Descent)]
    shared = {name: getattr(methods[0], name) for name in Descent.model_fields} if methods else {}
    return Gibo.title, Gibo().adopting(shared)


def biases(found: Forecast) -> np.ndarray:
    """(k,) how long the planned bias of a step's gradient is at each of `LEVELS`."""
    prior = float(np.trace(found.method.surrogate.covariance.prior(np.mean(found.facts.box, axis=0))))
    return np.asarray(AMPLITUDE * np.sqrt(LEVELS * prior / found.facts.d))


def expected(found: Forecast, levels: np.ndarray) -> np.ndarray:
    """(k,) about how many trainings a run takes at these bias levels. About 0.1 ms each; with rougher kernels and a
    hundred settings 6 ms, once."""
    method = found.method.replaced(batch_size=None)
    batches = (method.replaced(bias_level=level).batches(found.facts) for level in levels.tolist())
    return np.array([planning.expected_trainings(one, method.iterations) for one in batches])
