"""The lesson that tuning tells: when further trainings no longer help."""

from dpviz.experiments.experiment import Experiment
from dpviz.families.bayesian_optimization.baselines import RandomSearch
from dpviz.families.bayesian_optimization.presets import RANDOM, arms
from dpviz.lessons.lesson import Numbers, Side, Spread, load
from dpviz.numbers import short
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.tuning.direct_tuning import NormalLocation


def _tried(trainings: int) -> Experiment:
    """So many settings at random, one of them chosen in private."""
    return Experiment(
        problem=NormalLocation(),
        arms=arms((RANDOM,), trainings=trainings),
        budget=GaussianDP(mu=0.2),
        replicates=100,
    )


def _trainings(before: Side, after: Side) -> Numbers:
    """How many settings are tried, and what the choice may spend."""
    few, many = (_method(side).trainings for side in (before, after))
    (plan,) = before.plans.values()
    return {
        "few": few,
        "many": many,
        "times_trainings": short(many / few),
        "choice": float(plan.resolved["selection_epsilon"]),
    }


def _method(side: Side) -> RandomSearch:
    assert isinstance(side.settings, Experiment)
    method = side.settings.arms[0].algorithm
    assert isinstance(method, RandomSearch)
    return method


LOOKING = load(
    __package__, "looking", before=_tried(200), after=_tried(2000), measure=Spread(RANDOM, "distance"), also=_trainings
)

LESSONS = (LOOKING,)
