"""Lessons with gradient methods on logistic regression and on a quadratic: measures and numbers for their texts."""

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
    """Return the ratio of the steps, ε per step on both sides, and the ratios of noise scale and of noise variance."""
    plan, other = before.plan, after.plan
    noise_ratio = float(other.noise["gradient"][-1] / plan.noise["gradient"][-1])
    spent = [float(side.spent("epsilon")[1]) for side in (plan, other)]
    return {
        "times_steps": short(other.iterations / plan.iterations),
        "epsilon_before": spent[0],
        "epsilon_after": spent[1],
        "louder": short(noise_ratio),
        "variance": short(noise_ratio**2),
    }


def _thrift(_: Side, after: Side) -> Numbers:
    """Return ε spent by the first half, the last quarter and all of the steps after the change, and the highest error
    of the run, if there is one."""
    spent = after.plan.spent("epsilon")
    steps = len(spent) - 1
    late = steps // 4
    numbers: dict[str, float | int | str] = {
        "late": late,
        "late_spent": float(spent[-1] - spent[steps - late]),
        "early": steps // 2,
        "early_spent": float(spent[steps // 2]),
        "all_spent": float(spent[-1]),
    }
    if after.trace is not None:
        (label,) = after.plans
        numbers["climbs"] = short(float(Ends(label).numbers(after)["highest"]), 2)  # in multiples of the start
    return numbers


def _batches(before: Side, after: Side) -> Numbers:
    """Return the rows of a batch, how many steps use a row on average, the weight of a row in a batch, and ε of the
    same noise under other assumptions: Poisson sampling with rows added or removed, and batches that are known."""
    plan, other = before.plan, after.plan
    m, n = int(other.rows[0]), other.facts.n
    (inner,) = inner_events(other.events[0])
    unamplified = accountants.total((inner,), "epsilon")  # of a step whose batch is known
    means = NoisyMeans(rows=n, sampling="poisson", batch_fraction=m / n, iterations=other.iterations)
    poisson_events = means.events_of_noise(2 * means.clip / m / unamplified)
    return {
        "batch": m,
        "looks": short(other.iterations * m / n),
        "fewer": short(int(plan.rows[0]) / m),
        "known": short(other.iterations * unamplified),
        "poisson": short(accountants.total(poisson_events, "epsilon"), 2),
    }


STEPS = load(__package__, "steps", measure=Ends("DP-NAG"), also=_per_step)
SHRINK = load(__package__, "shrink", measure=Ends("DP-NAG"), also=_thrift)
SAMPLING = load(__package__, "sampling", measure=Ends("DP-GD"), also=_batches)


@dataclass(frozen=True)
class Upsets(Ends):
    """Share of the pairs of runs, one of the arm `arm` and one of `other`, that contradict the order of the medians."""

    other: str = ""

    def ratio(self, before: Side, after: Side) -> float:
        return self.value(after)

    def value(self, side: Side) -> float:
        first, second = self._ends(side)
        share = float((first[:, None] > second).mean())
        return share if np.median(first) <= np.median(second) else 1 - share

    def curves(self, side: Side) -> tuple[Curve, ...]:
        arms = (self.arm, self.other)
        return tuple(replace(curve, name=arm) for arm in arms for curve in Ends(arm, self.metric).curves(side))

    def numbers(self, side: Side) -> Numbers:
        numbers = dict(super().numbers(side))
        if side.trace is not None:
            first, second = self._ends(side)
            numbers |= {"one": float(first[0]), "another": float(second[0])}
            numbers["winner"] = self.arm if first[0] < second[0] else self.other
            numbers |= {"median": float(np.median(first)), "other_median": float(np.median(second))}
            numbers["apart"] = float(second.max() / second.min())
        return numbers

    def outcome(self, before: Side, after: Side) -> str:
        return f"{short(100 * self.value(after), 2)} % of the pairs say the opposite of the medians"

    def _ends(self, side: Side) -> tuple[np.ndarray, np.ndarray]:
        """Return the last errors of the runs of both arms, (R,) each."""
        return side.ends(self.arm, self.metric), side.ends(self.other, self.metric)


LUCK = load(__package__, "luck", measure=Upsets("DP-GD", other="DP-MASG"))


def _without_noise(before: Side, after: Side) -> Numbers:
    """Return, before and after the change, the exact final gap without noise and the expected final gap of a sixth of
    the steps that spend the same budget; and the momentum with its memory in steps, 1/(1-β)."""
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
    """Return the expected gap after a run of `steps` steps that spends the budget of the side."""
    facts, method = SmoothFacts.of(side.plan.facts), side.method(HeavyBall).replaced(iterations=steps)
    return float(method.expected_on_quadratic(method.plan(facts, side.experiment.budget))[-1])


def _bias(side: Side) -> float:
    """Return the gap after the last step without noise."""
    plan, method = side.plan, side.method(HeavyBall)
    facts = SmoothFacts.of(plan.facts)
    start = np.full(len(facts.eigenvalues), facts.start)
    steps = method.steps(facts, plan.iterations)
    return float(quadratic.expected_gap(steps, method.dynamics, facts.eigenvalues, start, 0.0).bias[-1])


MOMENTUM = load(__package__, "momentum", measure=Ends("DP-HB"), also=_without_noise)

LESSONS = (STEPS, SHRINK, SAMPLING, LUCK, MOMENTUM)
