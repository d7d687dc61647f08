"""The lesson that black boxes tell: what a value says of a gradient."""

from math import inf

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.lesson import Answer, Ends, Lesson, Numbers, Side
from dpviz.families.zeroth_order.presets import FRESH, arms
from dpviz.numbers import short
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.black_box import PhaseRetrieval


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


VALUES = Lesson(
    slug="values",
    title="What if you may only ask for values?",
    minutes=4,
    page="zeroth_order",
    before=_asked(1),
    after=_asked(6),
    measure=Ends(FRESH, "objective"),
    setting="A black box answers with values, never with gradients, and {unknowns} unknowns are to be found. In each "
    "step a person's value is asked a little to the one side and a little to the other, along random "
    "directions: **{few}** per person. The difference says how steep it is there. At **{before[budget]}** the "
    "objective falls from {before[start]} to **{before[end]}**.",
    question="Now each person is asked along {many} directions, at right angles to each other. The more you ask a "
    "person, the more you learn about that person; the budget stays the same. Where does the objective end?",
    why="One random direction out of {unknowns} shows a small part of a slope, so it must be blown up to stand for the "
    "whole, and one person's part is blown up with it. All {many} directions together **are** the gradient: nothing is "
    "blown up, no person can move it as far, and the noise is {quieter} times smaller. **Privacy does not charge for "
    "questions, but for how far one person can move the answer.**",
    try_it="Try the directions between, and the methods that add up changes of gradients.",
    answers=(
        Answer("Higher: more questions need more noise", 1.3, inf),
        Answer("About the same", 0.7, 1.3),
        Answer("Lower, but less than {below} times", 0.25, 0.7),
        Answer("More than {above} times lower", 0.0, 0.25),
    ),
    also=_directions,
)

LESSONS = (VALUES,)
