"""Runs of any families next to each other: on common axes, in a common currency, with their joint privacy cost.

Costs are those of a plan's `statement`: the plan as the unit of protection sees it, a row or a person.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan, Privacy
from dpviz.experiments.results import PASSES, Cost, composed_cost, epsilon_reading, total_cost
from dpviz.experiments.summary import Series, Summary
from dpviz.later import pd
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.events import Event, grouped
from dpviz.problems.base import Condition

STEPS, PRIVACY = "steps", "privacy"  # names of horizontal axes, besides those of the runs
SHARE = "share"  # in place of a metric's name: the remaining share of the value at the start, of each side's own metric
MAX_SIDES = 6  # largest number of sides of a comparison: more names do not fit the chart
POINTS = 24  # largest number of points of a curve of ε at δ, each of which takes the accountants some time
QUICK = tuple(method for method in accountants.METHODS if method != "pld")  # accountants that take little time


@dataclass(frozen=True, eq=False)
class Side:
    """One run of a comparison: its name, its settings, its plans by method, and the summary that may be shown."""

    name: str
    experiment: Experiment
    plans: Mapping[str, Plan]
    summary: Summary


@dataclass(frozen=True, eq=False)
class Curve:
    """The curve of one method of one side.

    side, method : name of the side, label of the method.
    x, quantiles : the points (k,), and there 10 % quantile, median and 90 % quantile over the replicates (k, 3).
    privacy : of its values. private : true if the method has a budget. arm : the method; None for the level of a
        constant guess.
    """

    side: str
    method: str
    x: np.ndarray
    quantiles: np.ndarray
    privacy: Privacy
    private: bool
    arm: Arm | None = None

    @property
    def released(self) -> bool:
        """True if its values may be published without a condition."""
        return self.privacy == "private"


def metrics(sides: Sequence[Side]) -> dict[str, str]:
    """Return the labels of the metrics that can be compared, by name: first those that most sides recorded.

    A metric with different labels on different sides gets its name in words.
    """
    labels: dict[str, list[str]] = {}
    for side in sides:
        for name, metric in side.summary.metrics.items():
            if not metric.guess_for:
                labels.setdefault(name, []).append(metric.label)
    result = {}
    for name in sorted(labels, key=lambda name: -len(labels[name])):
        is_unique = len(set(labels[name])) == 1
        result[name] = labels[name][0] if is_unique else name.replace("_", " ").capitalize()
    return result


def methods(side: Side, metric: str, all_methods: bool) -> tuple[str, ...]:
    """Return the labels of the methods of a side whose curves of a metric are drawn.

    These are all that recorded the metric. Without `all_methods`, only the private one that ends best is drawn, if
    there is a private one.
    """
    name = _metric_name(side, metric)
    if name not in side.summary.metrics:
        return ()
    best = side.summary.best(name)
    if all_methods or best is None:
        return tuple(label for label, by_metric in side.summary.series.items() if name in by_metric)
    return (best,)


@dataclass(frozen=True)
class Ranking:
    """The best private method of each side, best first, with its last median.

    higher : true if the highest value is best.
    """

    ends: tuple[tuple[Side, str, float], ...]  # side, method, end
    higher: bool


def ranking(sides: Sequence[Side], metric: str) -> Ranking | None:
    """Rank the sides by the last median of their best private method.

    metric : a name, or SHARE. Returns None if no side has a private method, and where the sides disagree whether lower
        or higher is better.
    """
    ranked, directions = [], set()
    for side in sides:
        name = _metric_name(side, metric)
        if name not in side.summary.metrics:
            continue
        method = side.summary.best(name)
        if method is None:
            continue
        series = side.summary.series[method][name]
        values = series.relative if metric == SHARE else series
        if values is not None:
            _, median, _ = values.end
            ranked.append((side, method, float(median)))
            directions.add(side.summary.metrics[name].better)
    if not ranked or len(directions) > 1 or directions == {""}:  # "": neither lower nor higher is better
        return None
    higher = directions == {"higher"}
    ranked.sort(key=lambda item: item[2], reverse=higher)  # by the median
    return Ranking(tuple(ranked), higher)


def logarithmic(sides: Sequence[Side], metric: str) -> bool:
    """Return true if a metric is drawn on a logarithmic axis: if any side declares it so."""
    return any(side.summary.metrics[metric].scale == "log" for side in sides if metric in side.summary.metrics)


def axes(sides: Sequence[Side]) -> dict[str, str]:
    """Return the titles of the horizontal axes that some side has, by name."""
    titles = {STEPS: "Step t", PRIVACY: "Privacy used"}
    if any(plan.passes is not None for side in sides for plan in side.plans.values()):
        titles[PASSES] = "Passes over the data"
    for side in sides:
        titles |= {name: metric.label for name, metric in side.summary.metrics.items() if metric.axis}
    return titles


def currencies(sides: Sequence[Side]) -> tuple[Currency, ...]:
    """Return the currencies of privacy in which every private method has a finite total, the strictest first.

    There may be none. Losses in one of these currencies add up over runs. The order is that of UNITS: ε, ρ, μ.
    """
    plans = [plan.statement for side in sides for plan in side.plans.values() if plan.private]
    return tuple(currency for currency in UNITS if all(np.isfinite(plan.spent(currency)[-1]) for plan in plans))


def curves(
    sides: Sequence[Side],
    metric: str,
    axis: str,
    all_methods: bool,
    currency: Currency | None = None,
    delta: float = 1e-6,
) -> list[Curve]:
    """Return the curves of a metric along an axis, for all sides.

    metric : a name, or SHARE.
    axis : a name of `axes`.
    all_methods : true for all methods, as for `methods`.
    currency, delta : the unit of the axis of privacy; without a currency it is ε at this δ.

    Methods without the axis are left out, and so are points without a value on it. For each side in whose metric a
    constant guess has a value, a level curve shows it.
    """
    result = []
    for side in sides:
        arms = {arm.label: arm for arm in side.experiment.arms}
        for label in methods(side, metric, all_methods):
            name = _metric_name(side, metric)
            series = side.summary.series[label][name]
            values = series.relative if metric == SHARE else series
            x = _positions(side, label, series, axis, currency, delta)
            if values is not None and x is not None:
                is_private, privacy = label in side.summary.private, side.summary.privacy[label][name]
                has_x = ~np.isnan(x)
                result.append(
                    Curve(side.name, label, x[has_x], values.quantiles[has_x], privacy, is_private, arms[label])
                )
        side_curves = [curve for curve in result if curve.side == side.name and len(curve.x)]
        guess = side.summary.guess(metric)
        if side_curves and guess is not None:
            guess_metric, level = guess
            start, end = min(curve.x[0] for curve in side_curves), max(curve.x[-1] for curve in side_curves)
            method, levels = guess_metric.label.lower(), np.full((2, 3), level)  # (points, quantiles), all equal
            result.append(Curve(side.name, method, np.array([start, end]), levels, "not private", private=False))
    return result


def _metric_name(side: Side, metric: str) -> str:
    """Return the name of the recorded metric to draw for a side.

    For SHARE it is the most telling metric of the side; "" if it recorded none. Else it is `metric` itself.
    """
    if metric != SHARE:
        return metric
    headline = side.summary.headline
    return headline.name if headline else ""


def _positions(
    side: Side, label: str, series: Series, axis: str, currency: Currency | None, delta: float
) -> np.ndarray | None:
    """Return the positions of the k points of a series on an axis, (k,), of which some may be nan.

    None for a method that does not have the axis. label : the method. currency, delta : as for `curves`.
    """
    plan, iterations = side.plans[label], series.iterations
    if axis == PRIVACY:
        if not plan.private:
            return None
        used = _privacy_used(plan, iterations, currency, delta)
        return used if np.isfinite(used[-1]) else None  # infinite where no ε is proven
    if axis == STEPS:
        return iterations
    if axis == PASSES:
        return None if plan.passes is None else plan.passes[iterations]
    other = side.summary.series[label].get(axis)  # the axis is a recorded metric; its median is the position
    return None if other is None else np.interp(iterations, other.iterations, other.quantiles[:, 1])


def _privacy_used(plan: Plan, iterations: np.ndarray, currency: Currency | None, delta: float) -> np.ndarray:
    """Compute the privacy that a method has used at most by each of k iterations, (k,).

    Without a currency it is ε at δ, computed for up to POINTS of the iterations and nan for the others, which `curves`
    leaves out: ε rises like a root, so that an interpolated value would be too small.
    """
    plan = plan.statement
    if currency is not None:
        return plan.spent(currency)[iterations]
    # All of the first iterations, then fewer and fewer, up to the last.
    indices = np.unique(np.geomspace(1, len(iterations), POINTS).round().astype(int)) - 1
    used = np.full(len(iterations), np.nan)
    for index in indices:
        events = plan.charged(int(iterations[index]))
        used[index] = min(accountants.epsilon(events, delta, method) for method in QUICK) if events else 0.0
    return used + accountants.total(plan.facts.released, "epsilon")


def readings(side: Side, delta: float) -> dict[str, float]:
    """Compute ε at δ of one run of every private method of a side by the tightest accountant, by the method's label."""
    return {
        label: epsilon_reading(plan, plan.iterations, delta).epsilon
        for label, plan in side.plans.items()
        if plan.private
    }


def ends(sides: Sequence[Side], metric: str, all_methods: bool) -> "pd.DataFrame":
    """Return a table with a row for the last value of every method that `methods` returns.

    Its columns are the median over the replicates with its interval, the 10 and 90 % quantiles, the value of a constant
    guess, the remaining share of the start, the budget, and the privacy of the value.
    """
    rows = []
    for side in sides:
        for label in methods(side, metric, all_methods):
            name = _metric_name(side, metric)
            series = side.summary.series[label][name]
            low, median, high = series.end.tolist()
            relative = series.relative  # to the value at the start
            _, guess = side.summary.guess(name) or (None, math.nan)
            rows.append(
                {
                    "run": side.name,
                    "method": label,
                    "what": side.summary.metrics[name].label,
                    "median": median,
                    "low": low,
                    "high": high,
                    "interval": series.interval,
                    "guess": guess,
                    "share": math.nan if relative is None else float(relative.end[1]),  # the median
                    "steps": int(series.iterations[-1]),
                    "repeats": side.experiment.replicates,
                    "budget": side.plans[label].guarantee,
                    "released": side.summary.privacy[label][name] == "private",
                    "status": side.summary.privacy[label][name],
                }
            )
    return pd.DataFrame(rows)


def joint_cost(sides: Sequence[Side], delta: float, repeats: bool, fixed: bool = False) -> Cost | None:
    """Compute the privacy cost of publishing one run of every private method of all sides; None if there is none.

    All tables count as one, about the same people: the cost holds for one unit of protection of each table together.

    delta : the δ at which ε is read. repeats : true to publish all replicates of each method.
    fixed : true if all settings were chosen before any of these runs, so that the tightest accountant may compose them.
        Otherwise later settings may depend on earlier results, and only basic composition holds: pure ε add up; without
        pure ε, each side's ε at δ / MAX_SIDES add up, since that δ does not depend on the number of later runs. ρ and
        μ² add up where their total was fixed beforehand (Rogers, Roth, Ullman, Vadhan 2016; Whitehouse et al. 2023).
    """
    # Releases by which facts were learned count once, also if several sides have their data set, or their problem.
    earlier_by_source: dict[str, list[Event]] = {}
    for side in sides:
        problem = side.experiment.problem
        released = [grouped(event, problem.rows_per_person) for event in problem.released]
        n_of_dataset = len(released) - len(problem.releases_of_settings)  # the releases of the data set come first
        if problem.dataset is not None:
            earlier_by_source[problem.dataset.to_json()] = released[:n_of_dataset]
        earlier_by_source[problem.to_json()] = released[n_of_dataset:]
    earlier = list(chain.from_iterable(earlier_by_source.values()))
    runs_by_side = []  # for each side with private methods, their plans and numbers of runs
    for side in sides:
        count = side.experiment.replicates if repeats else 1
        runs = [(plan, count) for plan in side.plans.values() if plan.private]
        if runs:
            runs_by_side.append(runs)
    all_runs = list(chain(*runs_by_side))
    if not all_runs:
        return None
    currency = next(iter(currencies(sides)), None)  # the strictest
    if fixed or len(runs_by_side) == 1:
        return composed_cost(all_runs, earlier, currency, delta)
    total = total_cost(all_runs, earlier, currency) if currency else None
    if currency == "epsilon" and total is not None:
        epsilon = total
    else:
        by_side = [composed_cost(runs, (), currency=None, delta=delta / MAX_SIDES).epsilon for runs in runs_by_side]
        epsilon = accountants.total(earlier, "epsilon") + math.fsum(by_side)
    return Cost(
        methods=len(all_runs),
        repeats=max(count for _, count in all_runs),
        symbol=UNITS[currency or "epsilon"].symbol,  # not used without a currency, as `spent` is None then
        spent=total,
        epsilon=epsilon,
        delta=delta,
        method=accountants.METHOD_NAMES["basic"],
        condition=Condition.joined(plan.condition for plan, _ in all_runs),
        proviso="" if currency in (None, "epsilon") else " if that total was fixed beforehand",
    )


def count_private(sides: Sequence[Side]) -> tuple[int, int]:
    """Return the number of private methods of all sides, and the number of their runs."""
    runs_by_method = [side.experiment.replicates for side in sides for plan in side.plans.values() if plan.private]
    return len(runs_by_method), sum(runs_by_method)
