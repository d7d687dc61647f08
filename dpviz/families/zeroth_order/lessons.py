"""A lesson with black boxes: more directions per row make the noise of an estimated gradient smaller."""

from dpviz.families.zeroth_order.presets import FRESH
from dpviz.lessons.lesson import Ends, Numbers, Side, load
from dpviz.numbers import short


def _directions(before: Side, after: Side) -> Numbers:
    """Return the directions per row on both sides, the dimension, and the ratio of the noise scales."""
    plan, other = before.plan, after.plan
    few, many = (int(side.resolved["directions"]) for side in (plan, other))
    return {
        "few": few,
        "many": many,
        "unknowns": plan.facts.d,
        "quieter": short(float(plan.noise["gradient"][0] / other.noise["gradient"][0]), 2),
    }


VALUES = load(__package__, "values", measure=Ends(FRESH, "objective"), also=_directions)

LESSONS = (VALUES,)
