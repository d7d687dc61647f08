"""Lessons that gradient methods tell, on logistic regression and on a bowl."""

from math import inf
from typing import Any

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.lesson import Answer, Ends, Lesson, Numbers, Side
from dpviz.families.accelerated.presets import arms
from dpviz.numbers import short
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear_models import LogisticRegression


def _logistic(label: str, **settings: Any) -> Experiment:
    """One method on generated data, pure ε."""
    return Experiment(problem=LogisticRegression(), arms=arms((label,), **settings), budget=PureDP(epsilon=2.0))


def _per_step(before: Side, after: Side) -> Numbers:
    """How much more steps there are, what each may spend, and how much louder that makes its noise."""
    (plan,), (other,) = before.plans.values(), after.plans.values()
    louder = float(other.noise["gradient"][-1] / plan.noise["gradient"][-1])
    spent = [float(side.spent("epsilon")[1]) for side in (plan, other)]
    return {
        "times_steps": short(other.iterations / plan.iterations),
        "epsilon_before": spent[0],
        "epsilon_after": spent[1],
        "louder": short(louder),
        "variance": short(louder**2),
    }


def _thrift(_: Side, after: Side) -> Numbers:
    """Where the budget goes if late steps may have more of it."""
    (plan,) = after.plans.values()
    spent = plan.spent("epsilon")
    steps = len(spent) - 1
    late = steps // 4
    found: dict[str, float | int | str] = {
        "late": late,
        "late_spent": float(spent[-1] - spent[steps - late]),
        "early": steps // 2,
        "early_spent": float(spent[steps // 2]),
        "all_spent": float(spent[-1]),
    }
    if after.trace is not None:
        found["climbs"] = _peak(after)
    return found


def _peak(side: Side) -> str:
    """The highest median on the way, in multiples of the start."""
    (label,) = side.plans
    return short(float(Ends(label).numbers(side)["highest"]), 2)


STEPS = Lesson(
    slug="steps",
    title="How many steps can you afford?",
    minutes=4,
    page="accelerated",
    before=_logistic("DP-NAG", iterations=20),
    after=_logistic("DP-NAG", iterations=200),
    measure=Ends("DP-NAG"),
    setting="A model is learned from the records of {before[rows]} people. Each step looks at all of them and adds "
    "noise to what it saw, so that no single person shows. All steps together may spend **{before[budget]}**. With "
    "{before[steps]} steps, {before[left]} % of the excess loss is left: it ends at **{before[end]}**.",
    question="Now take {times_steps} times as many steps, {after[steps]}, with the same budget for all of them. Where "
    "does it end?",
    why="Each step gets ε = {epsilon_after} in place of {epsilon_before}, so its noise is {louder} times larger: "
    "its scale goes from {before[gradient]} to {after[gradient]}, and its variance grows {variance}-fold. More steps "
    "would learn more, but each sees less. **A budget is shared by its steps, so it says how many are worth taking.**",
    try_it="Find the best number of steps at other budgets. The larger ε, the more steps it affords.",
    answers=(
        Answer("Closer to the best model", 0.0, 0.9),
        Answer("About the same", 0.9, 1.5),
        Answer("A few times worse, up to {high} times", 1.5, 15.0),
        Answer("More than {low} times worse", 15.0, inf),
    ),
    also=_per_step,
)

SHRINK = Lesson(
    slug="shrink",
    title="Why should noise shrink?",
    minutes=3,
    page="accelerated",
    before=_logistic("DP-NAG"),
    after=_logistic("DP-NAG", schedule="optimal"),
    measure=Ends("DP-NAG"),
    setting="{before[steps]} steps share **{before[budget]}** evenly: each has noise of scale {before[gradient]}. "
    "In the end the excess loss is **{before[end]}**, {before[left]} % of where it started.",
    question="Now the last steps are made quiet, with noise of scale {after[gradient]}, and the first ones pay for it, "
    "with noise of scale {after[gradient_most]}. All steps together spend the same. Where does it end?",
    why="Every step shrinks what is there, the noise of the steps before it, too. **Early noise is forgotten, late "
    "noise stays.** So quiet is worth most at the end: the last {late} steps spend {late_spent} of the "
    "{all_spent}, the first {early} only {early_spent}. On the way the loss climbs to {climbs} times its start, and "
    "that does not matter: only the last model is used.",
    try_it="Choose a smaller step size c. A slow method forgets little, so the schedule matters less.",
    answers=(
        Answer("Worse", 1.15, inf),
        Answer("No real difference", 0.85, 1.15),
        Answer("Better, but less than {below} times", 0.5, 0.85),
        Answer("{above} to {below} times better", 0.1, 0.5),
        Answer("More than {above} times better", 0.0, 0.1),
    ),
    also=_thrift,
)

LESSONS = (STEPS, SHRINK)
