"""A lesson with private tuning: from some number of trainings on, random search gains nothing from further ones."""

from dpviz.families.bayesian_optimization.algorithms import RandomSearch
from dpviz.families.bayesian_optimization.presets import RANDOM
from dpviz.lessons.lesson import Numbers, Side, Spread, load_lesson
from dpviz.numbers import short


def _text_numbers(before: Side, after: Side) -> Numbers:
    """Return the numbers that the lesson's texts name, by field: how many settings random search tries on both sides,
    their ratio, and ε of its selection, which both sides share."""
    few, many = (side.method(RandomSearch).trainings for side in (before, after))
    return {
        "few": few,
        "many": many,
        "times_trainings": short(many / few),
        "choice": float(before.plan.resolved["selection_epsilon"]),
    }


LOOKING = load_lesson(__package__, "looking", measure=Spread(RANDOM, "distance"), also=_text_numbers)

LESSONS = (LOOKING,)
