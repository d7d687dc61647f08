"""Lessons that gradient methods tell, on logistic regression and on a bowl."""

from dataclasses import dataclass, replace

import numpy as np

from dpviz.families.accelerated import quadratic
from dpviz.families.accelerated.algorithms import HeavyBall
from dpviz.lessons.lesson import Curve, Ends, Numbers, Side, load
from dpviz.numbers import short
from dpviz.privacy.accounting import accountants
from dpviz.privacy.events import inner_events
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.base import SmoothFacts


def _per_step(before: Side, after: Side) -> Numbers:
    """How much more steps there are, what each may spend, and how much louder that makes its noise."""
    plan, other = before.plan, after.plan
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
    spent = after.plan.spent("epsilon")
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
    plan, other = before.plan, after.plan
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


STEPS = load(__package__, "steps", measure=Ends("DP-NAG"), also=_per_step)
SHRINK = load(__package__, "shrink", measure=Ends("DP-NAG"), also=_thrift)
SAMPLING = load(__package__, "sampling", measure=Ends("DP-GD"), also=_batches)


@dataclass(frozen=True)
class Upsets(Ends):
    """In which share of pairs of runs the other method ends lower, of two of which `arm` ends lower in the median."""

    other: str = ""

    def ratio(self, before: Side, after: Side) -> float:
        return self.value(after)

    def value(self, side: Side) -> float:
        first, second = self._ends(side)
        share = float((first[:, None] > second).mean())
        return share if np.median(first) <= np.median(second) else 1 - share

    def curves(self, side: Side) -> tuple[Curve, ...]:
        both = (self.arm, self.other)
        return tuple(replace(c, name=arm) for arm in both for c in Ends(arm, self.metric).curves(side))

    def numbers(self, side: Side) -> Numbers:
        found = dict(super().numbers(side))
        if side.trace is not None:
            first, second = self._ends(side)
            found |= {"one": float(first[0]), "another": float(second[0])}
            found["winner"] = self.arm if first[0] < second[0] else self.other
            found |= {"median": float(np.median(first)), "other_median": float(np.median(second))}
            found["apart"] = float(second.max() / second.min())
        return found

    def outcome(self, before: Side, after: Side) -> str:
        return f"{short(100 * self.value(after), 2)} % of the pairs say the opposite of the medians"

    def _ends(self, side: Side) -> tuple[np.ndarray, np.ndarray]:
        return side.ends(self.arm, self.metric), side.ends(self.other, self.metric)


LUCK = load(__package__, "luck", measure=Upsets("DP-GD", other="DP-MASG"))


def _without_noise(before: Side, after: Side) -> Numbers:
    """How far from the bottom it would end without noise, exactly; how long momentum remembers; and how far from the
    bottom a run of fewer steps that spends the same budget ends, expected over the noise."""
    few, momentum = before.plan.iterations // 6, after.method(HeavyBall).momentum
    return {
        "exact_before": _bias(before),
        "exact_after": _bias(after),
        "few": few,
        "few_before": _expected(before, few),
        "few_after": _expected(after, few),
        "remembers": 1 / (1 - momentum),
        "momentum": momentum,
    }


def _expected(side: Side, steps: int) -> float:
    facts, method = SmoothFacts.of(side.plan.facts), side.method(HeavyBall).replaced(iterations=steps)
    return float(method.expected_on_quadratic(method.plan(facts, side.experiment.budget))[-1])


def _bias(side: Side) -> float:
    plan, method = side.plan, side.method(HeavyBall)
    facts = SmoothFacts.of(plan.facts)
    start = np.full(len(facts.eigenvalues), facts.start)
    steps = method.steps(facts, plan.iterations)
    return float(quadratic.expected_gap(steps, method.dynamics, facts.eigenvalues, start, 0.0).bias[-1])


MOMENTUM = load(__package__, "momentum", measure=Ends("DP-HB"), also=_without_noise)

LESSONS = (STEPS, SHRINK, SAMPLING, LUCK, MOMENTUM)
