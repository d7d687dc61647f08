"""Lessons on guarantees alone: nothing runs. They belong to no family, and need nothing above this room."""

from typing import ClassVar

import numpy as np

from dpviz.lessons.lesson import Axes, Curve, Measure, Numbers, Side, load
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import Budget, PureDP
from dpviz.privacy.statistics.noisy_means import NoisyMeans
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
        return {
            "epsilon": epsilon,
            "found": short_up(self.value(side)),
            "factor": float(np.exp(epsilon)),
            "alarms": 100 * FALSE_ALARMS,
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


CURRENCIES = load(__package__, "currencies", Released, measure=NoiseOfMeans(), also=_share)
PERSON = load(__package__, "person", Released, measure=Found())

LESSONS = (PERSON, CURRENCIES)
