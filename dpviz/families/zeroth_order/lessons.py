"""The lesson that black boxes tell: what a value says of a gradient."""

from dpviz.experiments.experiment import Experiment
from dpviz.families.zeroth_order.presets import FRESH, arms
from dpviz.lessons.lesson import Ends, Numbers, Side, load
from dpviz.numbers import short
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.values.black_box import PhaseRetrieval


def _asked(directions: int) -> Experiment:
    """A box that answers with values, asked in so many directions per row."""
    return Experiment(
        problem=PhaseRetrieval(),
        arms=arms((FRESH,), directions_per_row=directions),
        budget=GaussianDP(mu=0.3),
        replicates=5,
    )


def _directions(before: Side, after: Side) -> Numbers:
    """In how many directions rows are asked, of how many there are, and what that does to the noise."""
    (plan,), (other,) = before.plans.values(), after.plans.values()
    few, many = (int(side.resolved["directions"]) for side in (plan, other))
    return {
        "few": few,
        "many": many,
        "unknowns": plan.facts.d,
        "quieter": short(float(plan.noise["gradient"][0] / other.noise["gradient"][0]), 2),
    }


VALUES = load(
    __package__, "values", before=_asked(1), after=_asked(6), measure=Ends(FRESH, "objective"), also=_directions
)

LESSONS = (VALUES,)
