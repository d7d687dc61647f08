"""A lesson with black boxes: more directions per row make the noise of an estimated gradient smaller.

A lesson runs an experiment twice, before and after one setting changes. Its texts are in lessons.toml; the keys of the
numbers here are those between braces in these texts.
"""

from dpviz.families.zeroth_order.presets import FRESH
from dpviz.lessons.lesson import FinalMedian, Numbers, Side, load_lesson
from dpviz.numbers import short


def _text_numbers(before: Side, after: Side) -> Numbers:
    """Return the numbers that the lesson's text names: the directions per row before and after the change, the number
    of unknowns d, and the factor by which the noise scale falls."""
    plan_before, plan_after = before.plan, after.plan
    return {
        "few": int(plan_before.resolved["directions"]),
        "many": int(plan_after.resolved["directions"]),
        "unknowns": plan_before.facts.d,
        "quieter": short(float(plan_before.noise["gradient"][0] / plan_after.noise["gradient"][0]), 2),
    }


VALUES = load_lesson(__package__, "values", measure=FinalMedian(FRESH, "objective"), also=_text_numbers)

LESSONS = (VALUES,)
