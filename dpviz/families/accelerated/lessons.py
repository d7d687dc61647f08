"""Lessons that gradient methods tell, on logistic regression and on a bowl."""

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.lesson import Answer, Curve, Ends, Lesson, Numbers, Side
from dpviz.families.accelerated import quadratic
from dpviz.families.accelerated.algorithms import HeavyBall
from dpviz.families.accelerated.presets import arms
from dpviz.numbers import short
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.events import inner_events
from dpviz.privacy.noisy_means import NoisyMeans
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear_models import LogisticRegression
from dpviz.problems.quadratic import Quadratic


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


def _batches(before: Side, after: Side) -> Numbers:
    """How many people a step looks at, how often one is looked at, and how much more each counts in a batch; and what
    the same noise promises in other words: if rows come and go (Poisson), and if it is known who was drawn."""
    (plan,), (other,) = before.plans.values(), after.plans.values()
    m, n = int(other.rows[0]), other.facts.n
    (inner,) = inner_events(other.events[0])
    known = accountants.total((inner,), "epsilon")
    drawn = NoisyMeans(rows=n, sampling="poisson", batch_fraction=m / n, iterations=other.iterations)
    one_by_one = drawn.events_of_noise(2 * drawn.clip / m / known)
    return {
        "batch": m,
        "looks": short(other.iterations * m / n),
        "fewer": short(int(plan.rows[0]) / m),
        "known": short(other.iterations * known),
        "poisson": short(accountants.total(one_by_one, "epsilon"), 2),
    }


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
    drawn=True,
    also=_thrift,
)

SAMPLING = Lesson(
    slug="sampling",
    title="Does looking at fewer people protect them?",
    minutes=4,
    page="accelerated",
    before=_logistic("DP-GD"),
    after=_logistic("DP-GD", batch_fraction=0.01),
    measure=Ends("DP-GD"),
    setting="Each of {before[steps]} steps looks at all {before[rows]} people, with noise of scale {before[gradient]}. "
    "All steps together spend **{before[budget]}**, and the excess loss ends at **{before[end]}**.",
    question="Now each step looks at {batch} people, drawn afresh and in secret, so a person is seen in about "
    "{looks} of the steps, not in all {before[steps]}. Same steps, same budget. What becomes of the loss?",
    why="A mean of {batch} people moves {fewer} times as far when one of them is replaced, so it needs {fewer} times "
    "the noise. That nobody knows who was drawn gives most of it back: the scale goes from {before[gradient]} to "
    "{after[gradient]} only. The rest is the price, and which people are drawn adds chance of its own. "
    "**Sampling saves work, not privacy.** And ask who is protected: without that secret the same noise would "
    "promise ε = {known} only, as anybody may be drawn in every step. If each person were drawn independently of the "
    "others, it would promise ε = {poisson}, but about a person who is added or removed, not replaced: a smaller "
    "number about a smaller change.",
    try_it="Choose other batches, and look at the noise in each step.",
    answers=(
        Answer("It falls: fewer looks need less noise", 0.0, 0.9),
        Answer("It stays about the same", 0.9, 1.4),
        Answer("It rises, up to {high} times", 1.4, 5.0),
        Answer("It rises more than {low} times", 5.0, inf),
    ),
    also=_batches,
)


@dataclass(frozen=True)
class Upsets(Ends):
    """In which share of pairs of runs the other method ends lower, of two of which `arm` ends lower in the median."""

    other: str = ""

    def ratio(self, before: Side, after: Side) -> float:
        return self.value(after)

    def value(self, side: Side) -> float:
        first, second = (self._ends(side, label) for label in (self.arm, self.other))
        share = float((first[:, None] > second).mean())
        return share if np.median(first) <= np.median(second) else 1 - share

    def curves(self, side: Side) -> tuple[Curve, ...]:
        both = (self.arm, self.other)
        return tuple(replace(c, name=arm) for arm in both for c in Ends(arm, self.metric).curves(side))

    def numbers(self, side: Side) -> Numbers:
        found = dict(super().numbers(side))
        if side.trace is not None:
            first, second = (self._ends(side, label) for label in (self.arm, self.other))
            found |= {"one": float(first[0]), "another": float(second[0])}
            found["winner"] = self.arm if first[0] < second[0] else self.other
            found |= {"median": float(np.median(first)), "other_median": float(np.median(second))}
            found["apart"] = float(second.max() / second.min())
        return found

    def outcome(self, before: Side, after: Side) -> str:
        return f"{short(100 * self.value(after), 2)} % of the pairs say the opposite of the medians"

    def _ends(self, side: Side, label: str) -> np.ndarray:
        assert side.trace is not None
        return side.trace.series(label, self.metric)[1][-1]


def _luck(repeats: int) -> Experiment:
    """Two methods that differ by less than their runs do."""
    methods = arms(("DP-GD", "DP-MASG"))
    return Experiment(problem=LogisticRegression(), arms=methods, budget=PureDP(epsilon=2.0), replicates=repeats)


LUCK = Lesson(
    slug="luck",
    title="Is one run enough?",
    minutes=3,
    page="accelerated",
    before=_luck(1),
    after=_luck(60),
    measure=Upsets("DP-GD", other="DP-MASG"),
    setting="Two methods, one run of each, the same data and **{before[budget]}** for both. DP-GD ends at "
    "**{before[one]}**, DP-MASG at **{before[another]}**: {before[winner]} wins. Would you publish that?",
    question="The noise is drawn anew in every run. Many students do the same, with a run of each method. What share "
    "of them finds the wrong winner?",
    why="In the median of {after[repeats]} runs DP-GD ends at {after[median]}, DP-MASG at {after[other_median]}, but "
    "the worst run of DP-MASG ends {after[apart]} times as high as its best. **The noise that protects people is also "
    "noise in your comparison**, so every chart here shows many runs. Whoever releases a model has one run, and "
    "its luck.",
    try_it="Choose fewer repeats and other seeds, and see how the order of the methods changes.",
    answers=(
        Answer("Almost none, less than {most} %: the same privacy, the same outcome", 0.0, 0.03),
        Answer("A few: {least} to {most} %", 0.03, 0.1),
        Answer("More than a few, but far from a coin toss: {least} to {most} %", 0.1, 0.35),
        Answer("So many that it is nearly a coin toss: more than {least} %", 0.35, inf),
    ),
)


def _bowl(momentum: float) -> Experiment:
    """Heavy ball on a bowl that is steep in one direction and flat in another."""
    methods = arms(("DP-HB",), momentum_rule="own", momentum=momentum)
    bowl = Quadratic(rows=10_000, dimension=10, strong_convexity=0.05, smoothness=1.0)
    return Experiment(problem=bowl, arms=methods, budget=PureDP(epsilon=2.0), replicates=100)


def _without_noise(before: Side, after: Side) -> Numbers:
    """How far from the bottom it would end without noise, exactly; how long momentum remembers; and how far from the
    bottom a run of fewer steps that spends the same budget ends, expected over the noise."""
    (plan,) = before.plans.values()
    few = plan.iterations // 6
    return {
        "exact_before": _bias(before),
        "exact_after": _bias(after),
        "few": few,
        "few_before": _expected(before, few),
        "few_after": _expected(after, few),
        "remembers": 1 / (1 - _method(after).momentum),
        "momentum": _method(after).momentum,
    }


def _method(side: Side) -> HeavyBall:
    assert isinstance(side.settings, Experiment)
    method = side.settings.arms[0].algorithm
    assert isinstance(method, HeavyBall)
    return method


def _expected(side: Side, steps: int) -> float:
    assert isinstance(side.settings, Experiment)
    (plan,) = side.plans.values()
    method = _method(side).replaced(iterations=steps)
    assert isinstance(plan.facts, SmoothFacts)
    return float(method.expected_on_quadratic(method.plan(plan.facts, side.settings.budget))[-1])


def _bias(side: Side) -> float:
    (plan,) = side.plans.values()
    facts, method = plan.facts, _method(side)
    assert isinstance(facts, SmoothFacts)
    start = np.full(len(facts.eigenvalues), facts.start)
    steps = method.steps(facts, plan.iterations)
    return float(quadratic.expected_gap(steps, method.dynamics, facts.eigenvalues, start, 0.0).bias[-1])


MOMENTUM = Lesson(
    slug="momentum",
    title="Does momentum help?",
    minutes=3,
    page="accelerated",
    before=_bowl(0.0),
    after=_bowl(0.6),
    measure=Ends("DP-HB"),
    setting="A bowl, steep in one direction and flat in another. Gradient descent takes {before[steps]} noisy steps "
    "that share **{before[budget]}**, and ends at **{before[end]}**.",
    question="Momentum keeps a share {momentum} of the last step. Without noise that is a great help: it would end at "
    "{exact_after} in place of {exact_before}. And with noise?",
    why="Momentum carries on whatever a step did, its noise, too: each draw of noise pushes not one step but about "
    "{remembers} of them. Without noise there is only the way to the bottom, and momentum shortens it. "
    "With noise, {before[steps]} steps have long arrived, and what is left is shaking: **momentum makes the way "
    "shorter and the shaking stronger.** So it helps where the way is what counts: a run of {few} steps that spends "
    "the same budget ends at {few_after} with it and at {few_before} without, on average.",
    try_it="Take fewer steps, and find where momentum begins to help.",
    answers=(
        Answer("It ends closer with momentum", 0.0, 0.8),
        Answer("No real difference", 0.8, 1.4),
        Answer("It ends farther away, up to {high} times", 1.4, 10.0),
        Answer("It ends more than {low} times farther away", 10.0, inf),
    ),
    also=_without_noise,
)

LESSONS = (STEPS, SHRINK, SAMPLING, LUCK, MOMENTUM)
