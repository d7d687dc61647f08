"""Runs of any families next to each other: on common axes, in a common currency, with their joint privacy cost."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan, Privacy
from dpviz.experiments.results import PASSES, Cost, composed, spent
from dpviz.experiments.summary import Series, Summary
from dpviz.later import pd
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.problems.base import Condition

STEPS, PRIVACY, SHARE = "steps", "privacy", "share"
MOST = 6  # largest number of sides of a comparison: more names do not fit the chart
POINTS = 24  # largest number of points of a curve of ε at δ
QUICK = tuple(method for method in accountants.METHODS if method != "pld")


@dataclass(frozen=True, eq=False)
class Side:
    """One run of a comparison: its name, its settings, its plans by method, and the summary that may be shown."""

    name: str
    experiment: Experiment
    plans: Mapping[str, Plan]
    summary: Summary


@dataclass(frozen=True, eq=False)
class Curve:
    """One method of one side: x (k,) and its quantiles (k, 3) there.

    status : privacy of its values. private : whether the method has a budget. arm : the method; None for the level of a
        constant guess.
    """

    side: str
    method: str
    x: np.ndarray
    quantiles: np.ndarray
    status: Privacy
    private: bool
    arm: Arm | None = None

    @property
    def released(self) -> bool:
        """True if it may be published, on no condition."""
        return self.status == "private"


def metrics(sides: Sequence[Side]) -> dict[str, str]:
    """Return the labels of the metrics that can be compared, by name: first those that most sides recorded.

    A metric with different labels on different sides gets its name in words.
    """
    labels: dict[str, list[str]] = {}
    for side in sides:
        for name, metric in side.summary.metrics.items():
            if metric.beside:
                continue
            labels.setdefault(name, []).append(metric.label)
    plain = {name: name.replace("_", " ").capitalize() for name in labels}
    order = sorted(labels, key=lambda name: -len(labels[name]))
    return {name: labels[name][0] if len(set(labels[name])) == 1 else plain[name] for name in order}


def methods(side: Side, metric: str, every: bool) -> tuple[str, ...]:
    """Return the methods of a side that are drawn: all that recorded the metric, or the private one that ends best."""
    name = _name(side, metric)
    if name is None or name not in side.summary.metrics:
        return ()
    best = side.summary.best(name)
    if every or best is None:
        return tuple(label for label, by_metric in side.summary.series.items() if name in by_metric)
    return (best,)


@dataclass(frozen=True)
class Ranking:
    """The best private method of each side, best first, with its last median.

    higher : whether the highest is best.
    """

    ends: tuple[tuple[Side, str, float], ...]  # side, method, end
    higher: bool


def ranking(sides: Sequence[Side], metric: str) -> Ranking | None:
    """Rank the best private methods of the sides in a metric, or in the remaining share of the start.

    None without a private method, and where the sides disagree whether lower or higher is better.
    """
    ends, better = [], set()
    for side in sides:
        name = _name(side, metric)
        method = None if name is None or name not in side.summary.metrics else side.summary.best(name)
        if name is None or method is None:
            continue
        series = side.summary.series[method][name]
        values = series.relative if metric == SHARE else series
        if values is not None:
            ends.append((side, method, float(values.end[1])))
            better.add(side.summary.metrics[name].better)
    if not ends or len(better) > 1 or better == {""}:
        return None
    higher = better == {"higher"}
    return Ranking(tuple(sorted(ends, key=lambda end: -end[2] if higher else end[2])), higher)


def logarithmic(sides: Sequence[Side], metric: str) -> bool:
    """Return whether a metric is drawn on a log axis."""
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
    """Return the currencies that add up and have a finite total for every private method, the strictest first; may
    be empty."""
    plans = [plan for side in sides for plan in side.plans.values() if plan.private]
    return tuple(currency for currency in UNITS if all(np.isfinite(plan.spent(currency)[-1]) for plan in plans))


def curves(
    sides: Sequence[Side], metric: str, axis: str, every: bool, currency: Currency | None = None, delta: float = 1e-6
) -> list[Curve]:
    """Return the curves of a metric, or of the remaining share of the start, along an axis.

    currency, delta : the unit of the privacy used; None is ε at this δ. Methods without the axis are left out, and so
        are points without a value on it. A level curve shows the value of a constant guess.
    """
    result = []
    for side in sides:
        arms = {arm.label: arm for arm in side.experiment.arms}
        for label in methods(side, metric, every):
            name = _name(side, metric)
            assert name is not None
            series = side.summary.series[label][name]
            values = series.relative if metric == SHARE else series
            x = _along(side, label, series, axis, currency, delta)
            if values is not None and x is not None:
                private, status = label in side.summary.private, side.summary.status[label][name]
                has_x = ~np.isnan(x)
                result.append(Curve(side.name, label, x[has_x], values.quantiles[has_x], status, private, arms[label]))
        of_side = [curve for curve in result if curve.side == side.name and len(curve.x)]
        guess = side.summary.guess(metric)
        if of_side and guess is not None:
            ends = np.array([min(curve.x[0] for curve in of_side), max(curve.x[-1] for curve in of_side)])
            result.append(
                Curve(side.name, guess[0].label.lower(), ends, np.full((2, 3), guess[1]), "not private", False)
            )
    return result


def _name(side: Side, metric: str) -> str | None:
    """Return the name of the recorded metric; for a share, that of the side's most telling metric."""
    headline = side.summary.headline
    return metric if metric != SHARE else None if headline is None else headline.name


def _along(
    side: Side, label: str, series: Series, axis: str, currency: Currency | None, delta: float
) -> np.ndarray | None:
    """Return (k,) the positions of a series' points on an axis; None for a method that does not have the axis."""
    plan, iterations = side.plans[label], series.iterations
    if axis == PRIVACY:
        used = _used(plan, iterations, currency, delta) if plan.private else None
        return used if used is not None and np.isfinite(used[-1]) else None
    if axis == STEPS:
        return iterations
    if axis == PASSES:
        return None if plan.passes is None else plan.passes[iterations]
    other = side.summary.series[label].get(axis)
    return None if other is None else np.interp(iterations, other.iterations, other.quantiles[:, 1])


def _used(plan: Plan, iterations: np.ndarray, currency: Currency | None, delta: float) -> np.ndarray:
    """Compute (k,) the privacy used by these iterations, at most.

    Without a currency it is ε at δ at up to POINTS of them, else nan: it rises like a root, so that lines between two
    of them are below it.
    """
    if currency is not None:
        return plan.spent(currency)[iterations]
    indices = np.unique(np.geomspace(1, len(iterations), POINTS).round().astype(int)) - 1
    used = np.full(len(iterations), np.nan)
    used[indices] = [_epsilon(plan, int(iteration), delta) for iteration in iterations[indices]]
    return used + accountants.total(plan.facts.released, "epsilon")


def _epsilon(plan: Plan, iteration: int, delta: float) -> float:
    events = plan.charged(iteration)
    return min(accountants.epsilon(events, delta, method) for method in QUICK) if events else 0.0


def readings(side: Side, delta: float) -> dict[str, float]:
    """Compute ε at δ of one run of every private method of a side, by the tightest accountant."""
    return {
        label: accountants.tightest(plan.events, delta, plan.facts.released).epsilon
        for label, plan in side.plans.items()
        if plan.private
    }


def ends(sides: Sequence[Side], metric: str, every: bool) -> "pd.DataFrame":
    """Return a table of the end of every method: median, its interval, 10-90 % over the replicates, a constant
    guess's value, share of the start, and budget."""
    rows = []
    for side in sides:
        for label in methods(side, metric, every):
            name = _name(side, metric)
            assert name is not None
            series = side.summary.series[label][name]
            (low, median, high), share = series.end.tolist(), series.relative
            guess = side.summary.guess(name)
            rows.append(
                {
                    "run": side.name,
                    "method": label,
                    "what": side.summary.metrics[name].label,
                    "median": median,
                    "low": low,
                    "high": high,
                    "interval": series.interval,
                    "guess": float("nan") if guess is None else guess[1],
                    "share": float("nan") if share is None else float(share.end[1]),
                    "steps": int(series.iterations[-1]),
                    "repeats": side.experiment.replicates,
                    "budget": side.plans[label].guarantee,
                    "released": side.summary.status[label][name] == "private",
                    "status": side.summary.status[label][name],
                }
            )
    return pd.DataFrame(rows)


def together(sides: Sequence[Side], delta: float, repeats: bool, fixed: bool = False) -> Cost | None:
    """Compute the cost of publishing one run of every private method of all sides, or all their repeats; None without
    any.

    All tables count as one, about the same people: one unit of protection of each table loses no more than that.
    fixed : all settings were chosen before any of these runs, so the tightest accountant composes them. Otherwise later
        settings may depend on earlier results, and only basic composition holds: pure ε add up; without it, so do each
        side's ε at δ / MOST, a δ that does not depend on the number of later runs. ρ and μ² add up where their total
        was fixed beforehand (Rogers, Roth, Ullman, Vadhan 2016; Whitehouse et al. 2023).
    """
    problems = {side.experiment.problem.to_json(): side for side in sides}
    earlier = [event for side in problems.values() for event in next(iter(side.plans.values())).facts.released]
    runs_by_side = [
        [(plan, side.experiment.replicates if repeats else 1) for plan in side.plans.values() if plan.private]
        for side in sides
    ]
    runs_by_side = [runs for runs in runs_by_side if runs]
    all_runs = list(chain(*runs_by_side))
    if not all_runs:
        return None
    currency = next(iter(currencies(sides)), None)
    if fixed or len(runs_by_side) == 1:
        return composed(all_runs, earlier, currency, delta)
    total = spent(all_runs, earlier, currency) if currency else None
    if currency == "epsilon" and total is not None:
        epsilon = total
    else:
        by_side = [composed(runs, (), None, delta / MOST).epsilon for runs in runs_by_side]
        epsilon = accountants.total(earlier, "epsilon") + math.fsum(by_side)
    return Cost(
        methods=len(all_runs),
        repeats=max(count for _, count in all_runs),
        symbol=UNITS[currency or "epsilon"].symbol,
        spent=total,
        epsilon=epsilon,
        delta=delta,
        method=accountants.METHOD_NAMES["basic"],
        condition=Condition.joined(plan.condition for plan, _ in all_runs),
        proviso="" if currency in (None, "epsilon") else " if that total was fixed beforehand",
    )


def publishable(sides: Sequence[Side]) -> tuple[int, int]:
    """Return the number of all private methods, and the number of their runs."""
    private = [(side, sum(plan.private for plan in side.plans.values())) for side in sides]
    return sum(count for _, count in private), sum(count * side.experiment.replicates for side, count in private)
