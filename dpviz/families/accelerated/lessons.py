"""Lessons with gradient methods on logistic regression and on a quadratic.

A lesson runs an experiment twice, before and after one setting changes: each `Side` has the plan, and the trace once it
has run. Its texts are in lessons.toml. The functions here return the numbers that these texts name, by their names, so
the keys of each dictionary are those between braces in the text.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpviz.families.accelerated import quadratic
from dpviz.families.accelerated.algorithms import HeavyBall
from dpviz.lessons.lesson import Curve, FinalMedian, Numbers, Side, load_lesson
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants
from dpviz.privacy.events import inner_events
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.base import SmoothFacts


def _noise_per_step(before: Side, after: Side) -> Numbers:
    """Return the numbers of the lesson on more steps with the same budget: by which factor the number of steps, the
    noise scale and the noise variance grow, and the ε that a single step spends on either side."""
    noise_ratio = float(after.plan.noise["gradient"][-1] / before.plan.noise["gradient"][-1])
    return {
        "times_steps": short(after.plan.iterations / before.plan.iterations),
        # The steps share the budget evenly, so each spends what the first one does.
        "epsilon_before": float(before.plan.spent("epsilon")[1]),
        "epsilon_after": float(after.plan.spent("epsilon")[1]),
        "louder": short(noise_ratio),
        "variance": short(noise_ratio**2),
    }


def _spending_over_steps(_: Side, after: Side) -> Numbers:
    """Return the numbers of the lesson on shrinking noise: ε spent by the first half, by the last quarter and by all of
    the steps under the optimal schedule, and, once that has run, its highest error as a multiple of the first."""
    spent = after.plan.spent("epsilon")  # by the first 0, 1, ..., T steps together
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
        numbers["climbs"] = short(float(FinalMedian(label).numbers(after)["highest"]), 2)
    return numbers


def _sampling_assumptions(before: Side, after: Side) -> Numbers:
    """Return the numbers of the lesson on random batches.

    They are the rows m of a batch, the number of steps that use a given row on average, the factor by which a batch is
    smaller than all rows, and the ε that the same noise would guarantee under other assumptions: if the attacker knew
    the batches, and if each row joined a batch independently (Poisson sampling, for a row added or removed).
    """
    plan = after.plan
    m, n = int(plan.rows[0]), plan.facts.n
    (noise_on_batch,) = inner_events(plan.events[0])
    epsilon_of_known_batch = accountants.total((noise_on_batch,), "epsilon")  # a step without amplification by sampling
    means = NoisyMeans(rows=n, sampling="poisson", batch_fraction=m / n, iterations=plan.iterations)
    laplace_scale = 2 * means.clip / m / epsilon_of_known_batch  # that of the plan, for gradients clipped at means.clip
    return {
        "batch": m,
        "looks": short(plan.iterations * m / n),
        "fewer": short(int(before.plan.rows[0]) / m),
        "known": short_up(plan.iterations * epsilon_of_known_batch),
        "poisson": short_up(accountants.total(means.events_of_noise(laplace_scale), "epsilon"), 2),
    }


STEPS = load_lesson(__package__, "steps", measure=FinalMedian("DP-NAG"), also=_noise_per_step)
SHRINK = load_lesson(
    __package__, "shrink", measure=FinalMedian("DP-NAG", schedule="gradient"), also=_spending_over_steps
)
SAMPLING = load_lesson(__package__, "sampling", measure=FinalMedian("DP-GD"), also=_sampling_assumptions)


@dataclass(frozen=True)
class Upsets(FinalMedian):
    """Share of the pairs of runs, one run of each of two methods, in which the method with the worse median wins.

    arm, other : labels of the two methods. metric : the error by whose value in the last iteration a run wins.
    """

    other: str = ""

    def ratio(self, before: Side, after: Side) -> float:
        """Return the share itself, which the answers of this lesson are about: nothing is compared with `before`."""
        return self.value(after)

    def value(self, side: Side) -> float:
        """Return the share of the pairs of runs, after the runs of a side, that contradict the order of the medians."""
        errors, other_errors = self._last_errors(side)
        share_won_by_other = float((errors[:, None] > other_errors).mean())
        return share_won_by_other if np.median(errors) <= np.median(other_errors) else 1 - share_won_by_other

    def curves(self, side: Side) -> tuple[Curve, ...]:
        """Return the lines of a side's chart: the errors of both methods, by name."""
        curves: list[Curve] = []
        for arm in (self.arm, self.other):
            curves += [replace(curve, name=arm) for curve in FinalMedian(arm, self.metric).curves(side)]
        return tuple(curves)

    def numbers(self, side: Side) -> Numbers:
        """Return the numbers of a side that the lesson's text names, among them the errors of a single run of either
        method, and `apart`, the largest error of `other` over its smallest."""
        numbers = dict(super().numbers(side))
        if side.trace is not None:
            errors, other_errors = self._last_errors(side)
            numbers |= {"one": float(errors[0]), "another": float(other_errors[0])}
            numbers["winner"] = self.arm if errors[0] < other_errors[0] else self.other
            numbers |= {"median": float(np.median(errors)), "other_median": float(np.median(other_errors))}
            numbers["apart"] = float(other_errors.max() / other_errors.min())
        return numbers

    def outcome(self, before: Side, after: Side) -> str:
        """Return the share after the change in words."""
        return f"{short(100 * self.value(after), 2)} % of the pairs say the opposite of the medians"

    def _last_errors(self, side: Side) -> tuple[np.ndarray, np.ndarray]:
        """Return the error in the last iteration of each of the R runs, (R,) for `arm` and (R,) for `other`."""
        return side.ends(self.arm, self.metric), side.ends(self.other, self.metric)


LUCK = load_lesson(__package__, "luck", measure=Upsets("DP-GD", other="DP-MASG"))


def _gaps_by_momentum(before: Side, after: Side) -> Numbers:
    """Return the numbers of the lesson on momentum, which changes heavy ball's momentum β on a quadratic.

    The gap is F(x_T) - F* after the last step. On either side: the gap that would remain without noise, and the
    expected gap of a run that spends the same budget on a sixth of the steps. Then the momentum after the change, and
    how many steps a gradient is remembered for, 1/(1-β).
    """
    few_steps, momentum = before.plan.iterations // 6, after.method(HeavyBall).momentum
    return {
        "exact_before": _noise_free_gap(before),
        "exact_after": _noise_free_gap(after),
        "few": few_steps,
        "few_before": _expected_gap(before, few_steps),
        "few_after": _expected_gap(after, few_steps),
        "remembers": 1 / (1 - momentum),
        "momentum": momentum,
    }


def _expected_gap(side: Side, iterations: int) -> float:
    """Return E F(x_T) - F* at the end of a run of `iterations` steps of heavy ball that spends the side's budget."""
    facts, method = SmoothFacts.of(side.plan.facts), side.method(HeavyBall).replaced(iterations=iterations)
    plan = method.plan(facts, side.experiment.budget)
    return float(method.expected_on_quadratic(plan)[-1])


def _noise_free_gap(side: Side) -> float:
    """Return F(x_T) - F* after the last step of the side's heavy ball if its gradients had no noise."""
    plan, method = side.plan, side.method(HeavyBall)
    facts = SmoothFacts.of(plan.facts)
    steps = method.steps(facts, plan.iterations)
    gap = quadratic.expected_gap(steps, method.dynamics, facts.eigenvalues, facts.start, noise_variance=0.0)
    return float(gap.bias[-1])


MOMENTUM = load_lesson(__package__, "momentum", measure=FinalMedian("DP-HB"), also=_gaps_by_momentum)

LESSONS = (STEPS, SHRINK, SAMPLING, LUCK, MOMENTUM)
