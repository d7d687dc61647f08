"""What is known of an experiment before it runs: the noise, what a bias level takes, and which one is advised."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.bayesian_optimization import advice, planning
from dpviz.families.bayesian_optimization.advice import Advice
from dpviz.families.bayesian_optimization.algorithms import Descent, Gibo
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import Budget
from dpviz.problems.tuning.tuning import TuningFacts

LEVELS = np.geomspace(0.001, 0.95, 40)  # bias levels of the figures


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
    facts = next(iter(plans.values())).facts
    assert isinstance(facts, TuningFacts)
    label, method = gibo_of(experiment)
    try:
        advised: Advice | None = advice.advice(facts, experiment.budget, method)
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
    middle = np.mean(found.facts.box, axis=0)
    prior = float(np.trace(found.method.surrogate.covariance.prior(middle)))
    return np.asarray(advice.AMPLITUDE * np.sqrt(LEVELS * prior / found.facts.d))


def expected(found: Forecast, levels: np.ndarray) -> np.ndarray:
    """(k,) about how many trainings a run takes at these bias levels. About 0.1 ms each; with rougher kernels and a
    hundred settings 6 ms, once."""
    method = found.method.replaced(batch_size=None)
    batches = (method.replaced(bias_level=level).batches(found.facts) for level in levels.tolist())
    return np.array([planning.expected_trainings(one, method.iterations) for one in batches])
