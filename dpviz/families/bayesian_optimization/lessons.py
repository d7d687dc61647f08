"""The lesson that tuning tells: when further trainings no longer help."""

from math import inf

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.lesson import Answer, Lesson, Numbers, Side, Spread
from dpviz.families.bayesian_optimization.baselines import RandomSearch
from dpviz.families.bayesian_optimization.presets import RANDOM, arms
from dpviz.numbers import short
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.direct_tuning import NormalLocation


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


LOOKING = Lesson(
    slug="looking",
    title="When should you stop looking?",
    minutes=3,
    page="bayesian_optimization",
    before=_tried(200),
    after=_tried(2000),
    measure=Spread(RANDOM, "distance"),
    setting="A model has settings to be chosen. {few} of them are tried at random, and one is drawn in private, good "
    "ones more often: that draw is all that the validation data of {before[rows]} people say, at **{before[budget]}**. "
    "In the median of {before[repeats]} runs it lies **{before[end]}** from the best possible.",
    question="The draw costs the same however many are tried. So {times_trainings} times as many settings are tried, "
    "{many}. How far from the best does the chosen one lie?",
    why="Among more settings there are better ones, and there are more that are nearly as good, in the same "
    "proportion. A draw that may spend ε = {choice} cannot tell those apart: the more there are, the more of them it "
    "hesitates between. **When settings differ by less than the noise of the choice, further trainings cost time and "
    "bring nothing.** What helps is a larger budget, more people, or steps that learn from what was tried.",
    try_it="Raise the budget, and see when further trainings begin to pay.",
    answers=(
        Answer("More than {above} times closer", 0.0, 0.4),
        Answer("Closer, but less than {below} times", 0.4, 0.66),
        Answer("No real difference", 0.66, 1.4),
        Answer("Farther away", 1.4, inf),
    ),
    also=_trainings,
)

LESSONS = (LOOKING,)
