"""What the lessons of gradient methods say beyond what their runs decide."""

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated.lessons import MOMENTUM
from dpviz.lessons.lesson import Side


def test_momentum_helps_where_the_lesson_says_so() -> None:
    """With few steps, whoever tries it finds that it does; and without noise."""
    assert isinstance(MOMENTUM.before, Experiment) and isinstance(MOMENTUM.after, Experiment)
    told = MOMENTUM.also(*(Side(one, one.plans()) for one in (MOMENTUM.before, MOMENTUM.after)))
    assert float(told["few_after"]) < float(told["few_before"]) / 2
    assert float(told["exact_after"]) < float(told["exact_before"]) / 2
