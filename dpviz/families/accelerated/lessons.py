"""Lessons that gradient methods tell, on logistic regression and on a bowl."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import quadratic
from dpviz.families.accelerated.algorithms import HeavyBall
from dpviz.families.accelerated.presets import arms
from dpviz.lessons.lesson import Curve, Ends, Numbers, Side, load
from dpviz.numbers import short
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.events import inner_events
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic


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


STEPS = load(
    __package__,
    "steps",
    before=_logistic("DP-NAG", iterations=20),
    after=_logistic("DP-NAG", iterations=200),
    measure=Ends("DP-NAG"),
    also=_per_step,
)

SHRINK = load(
    __package__,
    "shrink",
    before=_logistic("DP-NAG"),
    after=_logistic("DP-NAG", schedule="optimal"),
    measure=Ends("DP-NAG"),
    also=_thrift,
)

SAMPLING = load(
    __package__,
    "sampling",
    before=_logistic("DP-GD"),
    after=_logistic("DP-GD", batch_fraction=0.01),
    measure=Ends("DP-GD"),
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


LUCK = load(__package__, "luck", before=_luck(1), after=_luck(60), measure=Upsets("DP-GD", other="DP-MASG"))


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


MOMENTUM = load(
    __package__, "momentum", before=_bowl(0.0), after=_bowl(0.6), measure=Ends("DP-HB"), also=_without_noise
)

LESSONS = (STEPS, SHRINK, SAMPLING, LUCK, MOMENTUM)
