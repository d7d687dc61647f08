"""Forecast of an experiment with DP-GIBO before a run: the noise of a step, the bias level that is worth choosing at
this noise, and about how many trainings the methods take.

Symbols: ω bias level, the share of the gradient's variance that a step may leave unexplained; P trace of the gradient's
prior covariance; d settings; σ standard deviation of the noise on each coordinate; A norm of the mean loss in the
kernel's space. The planned bias of a step's gradient is A √(ωP/d), the length of its noise σ √d (THEORY.md, section 5).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.bayesian_optimization import planning
from dpviz.families.bayesian_optimization.algorithms import Descent, Gibo
from dpviz.numbers import short, short_down
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import Budget
from dpviz.problems.tuning.tuning import TuningFacts

LEVELS = np.geomspace(0.001, 0.95, 40)  # bias levels of the figures
# Ends of the recommended bias levels: lower ones gained nothing in runs, and at higher ones the process is not reliable
# (THEORY.md, sections 5 and 10, E1 and E2).
MIN_LEVEL, MAX_LEVEL = 0.02, 0.2
AMPLITUDE = 0.5  # A, declared, of the mean loss around the iterates, in the unit of the losses
TABLE_LEVELS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # bias levels of the table


@dataclass(frozen=True)
class Row:
    """A bias level with its consequences, a row of the table.

    level : ω. batch : number of points of the first step with the squared exponential kernel; None if no batch reaches
    the level. bias : length of the planned bias. trainings : about the number of trainings of the whole run.
    """

    level: float
    batch: int | None
    bias: float
    trainings: float


@dataclass(frozen=True)
class Advice:
    """The recommended bias level, and its reasons.

    level : ω, the one nearest to `balance` within `MIN_LEVEL` to `MAX_LEVEL`. balance : the level at which the planned
    bias is as long as the noise; it may be above 1. noise_length : of a step. is_noise_long : True if it
    is longer than half a clip. rows : the table of bias levels.
    """

    level: float
    balance: float
    noise_length: float
    is_noise_long: bool
    rows: tuple[Row, ...]

    @property
    def why(self) -> str:
        """Reasons for the level, in sentences."""
        if self.noise_length == 0:
            return f"Without noise every bias shows: take a small bias level, such as {short(self.level)}."
        sentences = [f"A step's noise is about {short(self.noise_length)} long."]
        if self.balance < MIN_LEVEL:
            sentences.append(
                f"The planned bias would be as short at {short(self.balance)}, but runs on the page's first "
                f"problem gained nothing below {short(self.level)}."
            )
        elif self.balance > MAX_LEVEL:
            # The noise hides the bias at levels below the balance; but a level is a promise of the process, not of the
            # data, and beyond MAX_LEVEL it is not reliable.
            limit = f"up to {short_down(self.balance)}" if self.balance < 1 else "of any size"
            sentences.append(
                f"It would hide more bias, {limit}, but what a step leaves unexplained rests on the process alone."
            )
        else:
            sentences.append(
                f"At a bias level of {short(self.level)} the planned bias is about as long; below it you pay for "
                "trainings whose gain drowns in the noise."
            )
        if self.is_noise_long:
            sentences.append("The noise is long beside the clip: more users, fewer steps or a larger budget help more.")
        return " ".join(sentences)


def advice(facts: TuningFacts, budget: Budget, method: Gibo) -> Advice:
    """Return the recommended bias level for a problem with these facts, at which the planned bias is about as long as
    the noise; it needs no data.

    Raises UserError under pure ε, which allows no Gaussian noise.
    """
    sigma = float(method.plan(facts, budget).noise["gradient"][0])
    d, prior = facts.d, prior_trace(facts, method)
    balance = (d * sigma / AMPLITUDE) ** 2 / prior  # the ω that solves A √(ωP/d) = σ √d
    level = min(MAX_LEVEL, max(MIN_LEVEL, balance))
    rows = []
    for row_level in sorted({*TABLE_LEVELS, method.bias_level, level}, reverse=True):
        batches = method.replaced(bias_level=row_level, batch_size=None).batches(facts)
        bias = planning.bias_bound(AMPLITUDE, planning.planned_uncertainty(row_level, d, prior))
        trainings = planning.expected_trainings(batches, method.iterations)
        rows.append(Row(row_level, batches.first_size_by_formula(), bias, trainings))
    noise_length = sigma * math.sqrt(d)
    return Advice(level, balance, noise_length, is_noise_long=noise_length > method.clip / 2, rows=tuple(rows))


def prior_trace(facts: TuningFacts, method: Gibo) -> float:
    """Return P, the trace of the gradient's prior covariance, in the middle of the box; of a kernel that is not
    stationary it depends on the point."""
    return float(np.trace(method.surrogate.kernel_function.prior(np.mean(facts.box, axis=0))))


@dataclass(frozen=True)
class Forecast:
    """The forecast of an experiment; see the module.

    label, method : the first DP-GIBO of the experiment, or the default one; `selected` is true if it is one of the
    experiment. mu : μ of one of its runs; None if the budget allows no Gaussian noise. advice : the recommended bias
    level; None in the same case. trainings : about the number of trainings of a run of each private method for which it
    is known, by label.
    """

    facts: TuningFacts
    budget: Budget
    label: str
    method: Gibo
    selected: bool
    mu: float | None
    advice: Advice | None
    trainings: Mapping[str, float]

    @property
    def noise(self) -> float:
        """Standard deviation of the noise on each coordinate of a step's gradient; 0 if none is allowed or needed."""
        return 0.0 if self.advice is None else self.advice.noise_length / math.sqrt(self.facts.d)


def forecast(experiment: Experiment, plans: Mapping[str, Plan]) -> Forecast:
    """Return the forecast of an experiment. plans : of its arms, by label; at least one."""
    facts = TuningFacts.of(next(iter(plans.values())).facts)  # the same in all plans
    label, method = gibo_of(experiment)
    try:
        recommendation: Advice | None = advice(facts, experiment.budget, method)
        mu: float | None = accountants.total(method.plan(facts, experiment.budget).events, "mu")
    except UserError:  # under pure ε there is no Gaussian noise
        recommendation, mu = None, None
    trainings: dict[str, float] = {}
    for arm in experiment.arms:
        if not arm.reference and arm.label in plans:  # a reference is a method without privacy
            # The number of a search is a setting; that of a descent is expected by its plan.
            setting = getattr(arm.algorithm, "trainings", None)
            count = plans[arm.label].resolved.get("expected_trainings", setting)
            if count is not None:
                trainings[arm.label] = float(count)
    return Forecast(facts, experiment.budget, label, method, label in plans, mu, recommendation, trainings)


def gibo_of(experiment: Experiment) -> tuple[str, Gibo]:
    """Return the label and the method of the experiment's first DP-GIBO.

    If there is none, the method has the settings of the first descent method, or the default ones.
    """
    for arm in experiment.arms:
        if isinstance(arm.algorithm, Gibo) and not arm.reference:
            return arm.label, arm.algorithm
    descents = [arm.algorithm for arm in experiment.arms if isinstance(arm.algorithm, Descent)]
    shared_settings = {name: getattr(descents[0], name) for name in Descent.model_fields} if descents else {}
    return Gibo.title, Gibo().adopting(shared_settings)
