"""Runs of any kind side by side: on common axes, in a common currency, with what they cost together."""

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
MOST = 6  # sides of a comparison: as many as have names in the chart
POINTS = 24  # of a curve of ε at δ, at most
QUICK = tuple(method for method in accountants.METHODS if method != "pld")


@dataclass(frozen=True, eq=False)
class Side:
    """One run of a comparison: its name, its settings, its plans by method, and what may be shown of it."""

    name: str
    experiment: Experiment
    plans: Mapping[str, Plan]
    summary: Summary


@dataclass(frozen=True, eq=False)
class Curve:
    """One method of one side: x (k,) and its quantiles (k, 3) there.

    status : what may be published of it. private : whether the method has a budget. arm : the method, unless the curve
    is what a guess reaches.
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
        """Whether it may be published, on no condition."""
        return self.status == "private"


def metrics(sides: Sequence[Side]) -> dict[str, str]:
    """The labels of what can be compared, by name: what several sides recorded first, in words where they call it
    differently."""
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
    """The methods of a side that are drawn: all that recorded it, or the private one that ends best."""
    name = _name(side, metric)
    if name is None or name not in side.summary.metrics:
        return ()
    best = side.summary.best(name)
    if every or best is None:
        return tuple(label for label, found in side.summary.series.items() if name in found)
    return (best,)


@dataclass(frozen=True)
class Ranking:
    """The best private method of each side, best first, with its last median; higher : whether the highest is best."""

    ends: tuple[tuple[Side, str, float], ...]  # side, method, end
    higher: bool


def ranking(sides: Sequence[Side], metric: str) -> Ranking | None:
    """Of a metric, or of the share of the start that is left; None without a private method, and where neither end is
    better for all."""
    ends, better = [], set()
    for side in sides:
        name = _name(side, metric)
        method = None if name is None or name not in side.summary.metrics else side.summary.best(name)
        if name is None or method is None:
            continue
        series = side.summary.series[method][name]
        shown = series.relative if metric == SHARE else series
        if shown is not None:
            ends.append((side, method, float(shown.end[1])))
            better.add(side.summary.metrics[name].better)
    if not ends or len(better) > 1 or better == {""}:
        return None
    higher = better == {"higher"}
    return Ranking(tuple(sorted(ends, key=lambda end: -end[2] if higher else end[2])), higher)


def logarithmic(sides: Sequence[Side], metric: str) -> bool:
    """Whether a metric is drawn on a log axis."""
    return any(side.summary.metrics[metric].scale == "log" for side in sides if metric in side.summary.metrics)


def axes(sides: Sequence[Side]) -> dict[str, str]:
    """The titles of the horizontal axes that some side has, by name."""
    found = {STEPS: "Step t", PRIVACY: "Privacy used"}
    if any(plan.passes is not None for side in sides for plan in side.plans.values()):
        found[PASSES] = "Passes over the data"
    for side in sides:
        found |= {name: metric.label for name, metric in side.summary.metrics.items() if metric.axis}
    return found


def currencies(sides: Sequence[Side]) -> tuple[Currency, ...]:
    """The currencies that add up in which every private method can be counted, the strictest first; may be none."""
    plans = [plan for side in sides for plan in side.plans.values() if plan.private]
    return tuple(currency for currency in UNITS if all(np.isfinite(plan.spent(currency)[-1]) for plan in plans))


def curves(
    sides: Sequence[Side], metric: str, axis: str, every: bool, currency: Currency | None = None, delta: float = 1e-6
) -> list[Curve]:
    """What is drawn of a metric, or of the share of the start that is left, along an axis.

    currency, delta : in which the privacy used is counted; None is ε at this δ. Methods that do not have the axis are
    left out, and so are points at which that is not known. A level curve shows what a constant guess reaches.
    """
    found = []
    for side in sides:
        arms = {arm.label: arm for arm in side.experiment.arms}
        for label in methods(side, metric, every):
            name = _name(side, metric)
            assert name is not None
            series = side.summary.series[label][name]
            shown = series.relative if metric == SHARE else series
            x = _along(side, label, series, axis, currency, delta)
            if shown is not None and x is not None:
                private, status = label in side.summary.private, side.summary.status[label][name]
                known = ~np.isnan(x)
                found.append(Curve(side.name, label, x[known], shown.quantiles[known], status, private, arms[label]))
        own = [curve for curve in found if curve.side == side.name and len(curve.x)]
        guess = side.summary.guess(metric)
        if own and guess is not None:
            ends = np.array([min(curve.x[0] for curve in own), max(curve.x[-1] for curve in own)])
            found.append(
                Curve(side.name, guess[0].label.lower(), ends, np.full((2, 3), guess[1]), "not private", False)
            )
    return found


def _name(side: Side, metric: str) -> str | None:
    """The recorded metric that is meant: of a share, that of the side's own most telling number."""
    headline = side.summary.headline
    return metric if metric != SHARE else None if headline is None else headline.name


def _along(
    side: Side, label: str, series: Series, axis: str, currency: Currency | None, delta: float
) -> np.ndarray | None:
    """(k,) where the points of a series lie; None for a method that does not have the axis."""
    plan, at = side.plans[label], series.iterations
    if axis == PRIVACY:
        used = _used(plan, at, currency, delta) if plan.private else None
        return used if used is not None and np.isfinite(used[-1]) else None
    if axis == STEPS:
        return at
    if axis == PASSES:
        return None if plan.passes is None else plan.passes[at]
    other = side.summary.series[label].get(axis)
    return None if other is None else np.interp(at, other.iterations, other.quantiles[:, 1])


def _used(plan: Plan, at: np.ndarray, currency: Currency | None, delta: float) -> np.ndarray:
    """(k,) the privacy used by these iterations, at most; ε at δ at a few of them, else nan: it rises like a root, so
    that lines between two of them lie below it."""
    if currency is not None:
        return plan.spent(currency)[at]
    few = np.unique(np.geomspace(1, len(at), POINTS).round().astype(int)) - 1
    used = np.full(len(at), np.nan)
    used[few] = [_epsilon(plan, int(iteration), delta) for iteration in at[few]]
    return used + accountants.total(plan.facts.released, "epsilon")


def _epsilon(plan: Plan, iteration: int, delta: float) -> float:
    events = plan.charged(iteration)
    return min(accountants.epsilon(events, delta, method) for method in QUICK) if events else 0.0


def readings(side: Side, delta: float) -> dict[str, float]:
    """ε at δ of one run of every private method of a side, by the tightest accountant."""
    return {
        label: accountants.tightest(plan.events, delta, plan.facts.released).epsilon
        for label, plan in side.plans.items()
        if plan.private
    }


def ends(sides: Sequence[Side], metric: str, every: bool) -> "pd.DataFrame":
    """Where every method ends: median, its interval, 10-90 % over the replicates, what a constant guess reaches, share
    of the start, and budget."""
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
    """The cost of publishing one run of every private method of all sides, or all their repeats; None without any.

    Counted as if all tables described the same people: one unit of protection of each table loses no more than that.
    fixed : all settings were chosen before any of these runs, so the tightest accountant composes them. Otherwise
    later settings may depend on earlier results, and only basic composition holds: pure ε add up; without it, so do
    each side's ε at δ / MOST, a δ that does not depend on how many runs follow. ρ and μ² add up where their total was
    fixed beforehand (Rogers, Roth, Ullman, Vadhan 2016; Whitehouse et al. 2023).
    """
    problems = {side.experiment.problem.to_json(): side for side in sides}
    before = [event for side in problems.values() for event in next(iter(side.plans.values())).facts.released]
    each = [
        [(plan, side.experiment.replicates if repeats else 1) for plan in side.plans.values() if plan.private]
        for side in sides
    ]
    each = [runs for runs in each if runs]
    every = list(chain(*each))
    if not every:
        return None
    currency = next(iter(currencies(sides)), None)
    if fixed or len(each) == 1:
        return composed(every, before, currency, delta)
    total = spent(every, before, currency) if currency else None
    if currency == "epsilon" and total is not None:
        epsilon = total
    else:
        apart = [composed(runs, (), None, delta / MOST).epsilon for runs in each]
        epsilon = accountants.total(before, "epsilon") + math.fsum(apart)
    return Cost(
        methods=len(every),
        repeats=max(count for _, count in every),
        symbol=UNITS[currency or "epsilon"].symbol,
        spent=total,
        epsilon=epsilon,
        delta=delta,
        method=accountants.METHOD_NAMES["basic"],
        condition=Condition.joined(plan.condition for plan, _ in every),
        proviso="" if currency in (None, "epsilon") else " if that total was fixed beforehand",
    )


def publishable(sides: Sequence[Side]) -> tuple[int, int]:
    """How many private methods there are in all, and how many runs of them."""
    private = [(side, sum(plan.private for plan in side.plans.values())) for side in sides]
    return sum(count for _, count in private), sum(count * side.experiment.replicates for side, count in private)
