"""Lessons on guarantees alone: nothing runs. They belong to no family, and need nothing above this room."""

from math import inf
from typing import ClassVar

import numpy as np

from dpviz.experiments.lesson import Answer, Axes, Curve, Lesson, Measure, Numbers, Side
from dpviz.numbers import short
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP
from dpviz.privacy.noisy_means import NoisyMeans
from dpviz.specification import Specification

FALSE_ALARMS = 0.01
_POINTS = 40  # of a curve


class Released(Specification):
    """Noisy means and the budget that they share."""

    kind: ClassVar[str] = "experiments.budget_lessons.released"
    means: NoisyMeans
    budget: Budget


class NoiseOfMeans(Measure):
    """The scale of the noise in each of T means that share a budget, against T."""

    def value(self, side: Side) -> float:
        released = _released(side)
        return released.means.noise_scale(released.budget)

    def curves(self, side: Side) -> tuple[Curve, ...]:
        released = _released(side)
        steps = np.unique(np.geomspace(1, released.means.iterations, _POINTS).round().astype(int))
        means = [released.means.replaced(iterations=int(count)) for count in steps]
        drawn = Curve(steps, np.array([one.noise_scale(released.budget) for one in means]))
        if len(steps) == 1:
            return (drawn,)
        debts = np.array([_debts(released, int(count)) for count in steps])
        return drawn, Curve(steps, debts, name="added up like debts")

    def axes(self, _: Side) -> Axes:
        return Axes("Means T that share the budget", "Noise in each mean σ", log_x=True)

    def reach(self, side: Side) -> tuple[float, float]:
        return 1.0, float(_released(side).means.iterations)

    def numbers(self, side: Side) -> Numbers:
        released = _released(side)
        means, budget = released.means, released.budget
        sigma = self.value(side)
        delta = budget.own_delta(0.0)
        alone = accountants.tightest(means.events_of_noise(sigma)[:1], delta).epsilon
        return {
            "means": means.iterations,
            "rows": means.rows,
            "budget": budget.describe(),
            "noise": sigma,
            "debts": _debts(released, means.iterations),
            "alone": alone,
            "sum": means.iterations * alone,
            "root": short(np.sqrt(means.iterations)),
            "laplace": means.replaced(noise="laplace").noise_scale(PureDP(epsilon=budget.amount)),
        }


def _debts(released: Released, count: int) -> float:
    """The noise if each mean gets an equal share of all that the budget states, which is what adding up asks for."""
    budget = released.budget
    share = budget.replaced(**{control.name: getattr(budget, control.name) / count for control in budget.controls()})
    return released.means.replaced(iterations=1).noise_scale(share)


class Found(Measure):
    """The share of people whom an attacker finds, with few false alarms, against ε."""

    unit = " %"

    def value(self, side: Side) -> float:
        return _found(_released(side).budget.amount)

    def curves(self, side: Side) -> tuple[Curve, ...]:
        epsilons = np.linspace(0.01, _released(side).budget.amount, _POINTS)
        return (Curve(epsilons, np.array([_found(epsilon) for epsilon in epsilons])),)

    def axes(self, _: Side) -> Axes:
        return Axes("ε", f"People found at {short(100 * FALSE_ALARMS)} % false alarms [%], at most")

    def reach(self, side: Side) -> tuple[float, float]:
        return 0.0, _released(side).budget.amount

    def numbers(self, side: Side) -> Numbers:
        epsilon = _released(side).budget.amount
        return {"epsilon": epsilon, "found": self.value(side), "factor": float(np.exp(epsilon))} | {
            "alarms": 100 * FALSE_ALARMS
        }


def _found(epsilon: float) -> float:
    """In per cent: 1 minus the smallest rate of misses that pure ε allows."""
    return 100 * (1 - float(PureDP(epsilon=epsilon).tradeoff(FALSE_ALARMS)))


def _released(side: Side) -> Released:
    assert isinstance(side.settings, Released)
    return side.settings


def _share(before: Side, after: Side) -> Numbers:
    """How many times as many means there are, and how much more noise debts would ask for."""
    one, other = _released(before), _released(after)
    debts = _debts(other, other.means.iterations)
    return {
        "times_means": short(other.means.iterations / one.means.iterations),
        "times_debts": short(debts / one.means.noise_scale(one.budget), 2),
    }


def _means(count: int) -> Released:
    return Released(
        means=NoisyMeans(iterations=count, noise="gaussian", sampling="all"),
        budget=ApproximateDP(epsilon=1.0, delta=1e-6),
    )


CURRENCIES = Lesson(
    slug="currencies",
    title="Do guarantees add up?",
    minutes=4,
    page="budget_planner",
    before=_means(1),
    after=_means(100),
    measure=NoiseOfMeans(),
    setting="A mean of {before[rows]} people is released with Gaussian noise, so that **{before[budget]}** "
    "bounds what it says about whether any one of them was replaced. That takes noise of scale **{before[noise]}**.",
    question="Now {after[means]} such means are released of the same people, and the promise for all of them together "
    "stays the same. How much more noise does each of them need?",
    why="If each got its share of ε and δ, there would be {times_debts} times the noise, {after[debts]}: what one pays "
    "adds up like a debt. But what a release gives away is random, more or less by chance, and {after[means]} of them "
    "add up like a random walk: √T, not T, and √{after[means]} = {after[root]}. At this noise one mean alone is worth "
    "ε = {after[alone]}; {after[means]} times that is {after[sum]}, and they keep {after[budget]} all the same. "
    "**So count in a currency in which releases add up as they are:** ρ (zCDP) or μ² (Gaussian DP). Pure ε knows no "
    "luck: Laplace noise would have scale {after[laplace]}.",
    try_it="Open the planner, and look at what accounting saves.",
    answers=(
        Answer("Hardly any", 0.0, 1.5),
        Answer("{low} to {high} times as much", 1.5, 5.0),
        Answer("{low} to {high} times as much", 5.0, 30.0),
        Answer("More than {low} times as much", 30.0, inf),
    ),
    drawn=True,
    also=_share,
)


def _pure(epsilon: float) -> Released:
    return Released(means=NoisyMeans(), budget=PureDP(epsilon=epsilon))


PERSON = Lesson(
    slug="person",
    title="What does ε mean for one person?",
    minutes=3,
    page="budget_planner",
    before=_pure(1.0),
    after=_pure(4.0),
    measure=Found(),
    setting="Somebody who knows everything but your record wants to learn from what is released whether it is in the "
    "data or another one. They may accuse wrongly in {before[alarms]} % of the cases. At **ε = {before[epsilon]}** "
    "they find you in at most **{before[found]} %**.",
    question="Now ε is {after[epsilon]}. How much more often do they find you, at most?",
    why="ε is a logarithm. A replaced record may change the probability of an accusation by a factor of e to the power "
    "ε: {before[factor]} at ε = {before[epsilon]}, {after[factor]} at ε = {after[epsilon]}. So somebody who accuses "
    "wrongly in {before[alarms]} % of the cases accuses rightly in up to {after[found]} %. **A little more of a small "
    "ε matters little; a few units more change everything.** This is the worst case: an algorithm may give away less.",
    try_it="Move ε in the planner, and see both error rates of the best attack.",
    answers=(
        Answer("At most {high} times", 0.0, 2.5),
        Answer("{low} to {high} times, about as many as ε has grown", 2.5, 6.0),
        Answer("{low} to {high} times", 6.0, 40.0),
        Answer("More than {low} times", 40.0, inf),
    ),
)

LESSONS = (PERSON, CURRENCIES)
