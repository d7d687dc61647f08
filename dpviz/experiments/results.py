"""Results of a run: summaries over the replicates, the table of final numbers, and the privacy cost of publishing them.

Each method and each repeat meets the budget alone; together they spend more.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import bdtr

from dpviz import resources
from dpviz.arguments import Delta, checked, one_of
from dpviz.experiments.algorithm import Status
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.later import pd
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.accounting.rounding import MOST_GROUPS, rounded_up
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.events import Event, Repeat
from dpviz.problems.base import Condition

PASSES = "passes"  # over the data
LOW, MEDIAN, HIGH = 0.1, 0.5, 0.9
CONFIDENCE = 0.95  # of an interval of the median
NOT_PRIVATE = " (not private)"  # appended to the name of a column or of a method
WHOLE_PLAN = ", whole plan"  # appended to the name of an accountant, for a run that is not at its end
GUESS = "What the best guess that is the same for all rows reaches, without any model."
UPPER = ("spent", "epsilon_at_delta")  # columns that are guarantees: rounded up everywhere
_LARGEST = 1e300  # differences of values up to here are still finite


@dataclass(frozen=True)
class Column:
    """Label, privacy and help of a column of the table.

    released : False for a diagnostic, which reads raw data or, like the time, is not covered by the guarantee, on any
        condition. Rows of methods without privacy release nothing in any column.
    """

    label: str
    released: bool
    help: str = ""


COLUMNS: Mapping[str, Column] = {
    name: Column(**words) for name, words in resources.data(__package__, "columns.toml").items()
}


STOPS = ("finished", "median_stop", "status", "used", "ceiling")  # columns of methods that stop by themselves


def headlined(trace: Trace) -> tuple[str, ...]:
    """Return the metrics of the final table that were recorded, the most telling first."""
    ranked = [metric for metric in trace.metrics.values() if metric.headline]
    return tuple(metric.name for metric in sorted(ranked, key=lambda metric: metric.headline))


def columns(trace: Trace, headlines: Sequence[str] | None = None) -> dict[str, Column]:
    """Return `COLUMNS` and those of the `headlines` (None: of the trace) that the trace records, in the order of
    `final_table`."""
    result = {name: COLUMNS[name] for name in ("algorithm", "steps")}
    for position, name in enumerate(_recorded(trace, headlines)):
        metric = trace.metrics[name]
        # A row without privacy releases nothing in any column.
        released = any(status != "not private" for status in trace.statuses(metric).values())
        help = GUESS if metric.beside else "Median over the repeats, after the last step."
        result[name] = Column(metric.label, released, help)
        if position == 0:
            result[f"{name}_low"] = Column(f"{metric.label}, 10 %", released)
            result[f"{name}_high"] = Column(f"{metric.label}, 90 %", released)
            result["best_step"] = Column("Best step", released, f"Where the median was lowest: {metric.label}.")
    has_stops = any(len(arm_trace.stopped_at) for arm_trace in trace.lanes.values())
    rest = {name: column for name, column in COLUMNS.items() if has_stops or name not in STOPS}
    return result | {name: column for name, column in rest.items() if name not in result}


def _recorded(trace: Trace, names: Sequence[str] | None) -> tuple[str, ...]:
    return headlined(trace) if names is None else tuple(name for name in names if name in trace.metrics)


def quantiles(values: np.ndarray) -> np.ndarray:
    """Compute (k, 3) 10 % quantile, median and 90 % quantile over the replicates of a recorded series (k, R).

    A replicate that stops delivering numbers keeps its last one; a row is nan while any replicate has none yet.
    """
    return np.quantile(_filled(values), (LOW, MEDIAN, HIGH), axis=1).T if len(values) else np.empty((0, 3))


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """Compute an interval that contains the median of all possible runs at the last record, with a confidence of 95 %.

    values : a recorded series (k, R) of independent replicates. The ends are nan where R is too small, below six, and
        while a replicate has no number. The ends are the j-th lowest and the j-th highest of the replicates' sorted
        last values: the median lies outside if fewer than j of the R fall to one side of it, and j is the largest
        number for which a binomial law gives that at most 2.5 % on each side (Hahn and Meeker, Statistical Intervals,
        1991, section 5.2). No other law of the runs is assumed.
    """
    ends = np.sort(_filled(values)[-1])
    j = int(np.searchsorted(bdtr(np.arange(len(ends)), len(ends), 0.5), (1 - CONFIDENCE) / 2))
    is_known = j and not np.isnan(ends).any()
    return (float(ends[j - 1]), float(ends[-j])) if is_known else (math.nan, math.nan)


def _filled(values: np.ndarray) -> np.ndarray:
    """Return a series (k, R) in which replicates keep their last number, and none is infinite."""
    last_rows = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    filled = np.take_along_axis(values, np.maximum.accumulate(last_rows, axis=0), axis=0) if len(values) else values
    return np.asarray(np.clip(filled, -_LARGEST, _LARGEST))


def budget_spent(plan: Plan, iteration: int) -> tuple[float, str]:
    """Return the privacy spent by a run up to this iteration, in the currency of its budget, and that currency's
    symbol.

    Pure ε, ρ, μ and Rényi divergences are charged step by step. ε at δ is that of `reading`; an attack bound is that of
    the whole plan.
    """
    budget, charged = plan.budget, plan.charged(iteration)
    return budget.spent_when_stopped(charged, plan.events, plan.facts.released), budget.symbol


def reading(plan: Plan, iteration: int, delta: float) -> accountants.Reading:
    """Return ε at δ of a run up to this iteration, with the releases before it.

    At the end of its plan the tightest accountant proves it. On the way it is that of `accountants.when_stopped`: the
    reader may stop the run there.
    """
    return accountants.when_stopped(plan.charged(iteration), plan.events, delta, plan.facts.released)


@checked
def final_table(
    trace: Trace, plans: Mapping[str, Plan], *, delta: Delta | None = None, headlines: Sequence[str] | None = None
) -> "pd.DataFrame":
    """Return one row per arm of the trace at its last recorded iteration.

    Parameters
    ----------
    trace : Trace
        May still grow, or have been stopped: its guarantees are then those of `reading`.
    plans : mapping of str to Plan
        By label, as `Experiment.plans` gives them.
    delta : float, optional
        Adds ε at this δ, and the accountant that proves it.
    headlines : sequence of str, optional
        The metrics; by default those that are declared as headlines.

    Returns
    -------
    DataFrame
        The columns of `columns`, as far as they apply.
    """
    names = _recorded(trace, headlines)
    rows = [_row(trace, label, plan, delta, names) for label, plan in plans.items() if label in trace.lanes]
    order = [name for name in columns(trace, headlines) if any(name in row for row in rows)]
    has_seconds = any(math.isfinite(row["seconds"]) for row in rows)
    return pd.DataFrame(rows, columns=order if has_seconds else [name for name in order if name != "seconds"])


@checked
def marked(table: "pd.DataFrame", trace: Trace) -> "pd.DataFrame":
    """Return a final table of a user's data, in which names mark everything that is not private.

    Parameters
    ----------
    table : DataFrame
        As `final_table` gives it.
    trace : Trace

    Returns
    -------
    DataFrame
        The metrics that no method releases, and the methods without privacy, end in " (not private)".
    """
    one_of("algorithm", map(str, table.columns), "column")
    raw = [name for name, column in columns(trace).items() if not column.released]
    names = {label: label + NOT_PRIVATE for label, arm_trace in trace.lanes.items() if not arm_trace.private}
    marked = table.rename(columns={name: name + NOT_PRIVATE for name in raw})
    return marked.assign(algorithm=marked["algorithm"].replace(names))


def _row(trace: Trace, label: str, plan: Plan, delta: float | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the row of one arm in the final table, by the names of its columns."""
    arm_trace = trace.lanes[label]
    iterations = arm_trace.iterations[:]
    steps = iterations[-1] if iterations else 0
    # The guarantee of a method that stops by itself is its ceiling. Its charges so far are known where they add up.
    guaranteed = plan.iterations if plan.stops else steps
    spent, currency = budget_spent(plan, steps if plan.budget.adds_up else guaranteed)
    row: dict[str, Any] = {"algorithm": label, "steps": steps}
    for position, name in enumerate(names):
        row |= _metric(trace, label, name, with_band=position == 0)
    row |= {"spent": spent, "currency": currency, **_stops(trace, label, plan)}
    if delta is not None:
        proof = reading(plan, guaranteed, delta)
        suffix = WHOLE_PLAN if steps < plan.iterations and (plan.stops or proof.method != "basic") else ""
        is_proven = math.isfinite(proof.epsilon)
        row |= {
            "epsilon_at_delta": proof.epsilon,
            "accountant": accountants.METHOD_NAMES[proof.method] + suffix if is_proven else "none",
        }
    return row | {"diverged": arm_trace.status.count("diverged"), "seconds": arm_trace.seconds}


@dataclass(frozen=True)
class Endings:
    """Ends of the replicates of a method that stops by itself; functions of released values alone.

    finished : number of replicates, of `replicates`, that stopped before the end of the plan.
    median_stop : the median iteration after which those stopped; nan without any.
    status : number of replicates by their status, the most frequent first.
    """

    finished: int
    replicates: int
    median_stop: float
    status: Mapping[Status, int]

    def describe(self) -> str:
        """Return a text like "3 of 5 runs ended, median step 40"."""
        median = f", median step {short(self.median_stop, 4)}" if self.finished else ""
        return f"{self.finished} of {self.replicates} runs ended{median}"

    def reasons(self) -> str:
        """Return the status of the replicates in words: "3 converged, 2 running"."""
        return ", ".join(f"{count} {WORDS[word]}" for word, count in self.status.items())


WORDS: Mapping[Status, str] = MappingProxyType(
    {
        "running": "running",
        "converged": "converged",
        "budget": "out of budget",
        "exhausted": "used all steps or rows",
        "diverged": "diverged",
    }
)


def endings(arm_trace: ArmTrace) -> Endings | None:
    """Count the ends of an arm's replicates so far; None for a method whose replicates never stop."""
    if not len(arm_trace.stopped_at):
        return None
    stops = arm_trace.stopped_at[arm_trace.stopped_at >= 0]
    median = float(np.median(stops)) if len(stops) else math.nan
    return Endings(len(stops), len(arm_trace.stopped_at), median, dict(Counter(arm_trace.status).most_common()))


def _stops(trace: Trace, label: str, plan: Plan) -> dict[str, Any]:
    """Return the columns `STOPS` of a method that stops by itself; empty for other methods."""
    ends, (_, charged) = endings(trace.lanes[label]), trace.spent(label)
    if ends is None:
        return {}
    row: dict[str, Any] = {
        "finished": f"{ends.finished} of {ends.replicates}",
        "median_stop": ends.median_stop,
        "status": ends.reasons(),
    }
    if len(charged) and plan.currency is not None:
        amounts = {"used": np.median(charged[-1]), "ceiling": plan.spent(plan.currency)[-1]}
        row |= {name: f"{short_up(float(amount))} {UNITS[plan.currency].symbol}" for name, amount in amounts.items()}
    return row


def ceilings(plans: Mapping[str, Plan], currency: Currency) -> dict[str, float]:
    """Return the largest charge of each private method that stops by itself, its guarantee, in a currency."""
    return {label: float(plan.spent(currency)[-1]) for label, plan in plans.items() if plan.private and plan.stops}


@dataclass(frozen=True)
class Axis:
    """Horizontal axis for the series of a run, next to the step and the privacy spent.

    curves : (t+1,) its value after every iteration, per method that has it.
    """

    title: str
    curves: Mapping[str, np.ndarray]


def axes(trace: Trace, plans: Mapping[str, Plan]) -> dict[str, Axis]:
    """Return the axes of a run by name: passes over the data, which the plans know, and the released series declared as
    axes.

    Of the latter the median over the replicates, in straight lines between the recorded iterations.
    """
    passes = {label: plan.passes for label, plan in plans.items() if label in trace.lanes and plan.passes is not None}
    result = {PASSES: Axis("Passes over the data", passes)} if passes else {}
    for metric in trace.metrics.values():
        recorded = {label: trace.series(label, metric.name) for label in trace.lanes if metric.axis}
        curves = {
            label: np.interp(np.arange(iterations[-1] + 1), iterations, np.median(values, axis=1))
            for label, (iterations, values) in recorded.items()
            if len(iterations)
        }
        if curves:
            result[metric.name] = Axis(metric.label, curves)
    return result


def spent_curve(trace: Trace, label: str, plan: Plan, currency: Currency) -> np.ndarray:
    """Compute (T+1,) the privacy spent after each iteration.

    It is the median of the replicates' charges where they stop by themselves and are charged in this currency; else the
    plan's spending.
    """
    recorded, charged = trace.spent(label)
    if not plan.stops or trace.lanes[label].currency != currency or not len(recorded):
        return plan.spent(currency)
    latest = np.searchsorted(recorded, np.arange(plan.iterations + 1), side="right") - 1
    return np.asarray(np.median(charged, axis=1)[np.maximum(latest, 0)])


def _metric(trace: Trace, label: str, name: str, with_band: bool) -> dict[str, float]:
    """Return the last median of a metric and, with_band, its 10 % and 90 % quantiles and the step of the lowest
    median."""
    iterations, values = trace.series(label, name)
    series = quantiles(values)
    has_median = ~np.isnan(series[:, 1])
    low, median, high = series[has_median][-1].tolist() if has_median.any() else (math.nan,) * 3
    if not with_band:
        return {name: median}
    best = float(iterations[has_median][np.argmin(series[has_median, 1])]) if has_median.any() else math.nan
    return {name: median, f"{name}_low": low, f"{name}_high": high, "best_step": best}


@dataclass(frozen=True)
class Cost:
    """The composed guarantee of several releases on the same rows.

    methods, repeats : number of methods, and of runs of each.
    spent : in the currency of the budget, called `symbol`; infinite where the currency does not exist for these
        releases, and None for budgets whose currency does not add up.
    epsilon : at `delta`, by the accountant `method`; infinite if none proves a finite one.
    condition : the condition that the guarantee rests on, joined over the plans. proviso : restriction of `spent`, in
        words; empty: always a guarantee.
    """

    methods: int
    repeats: int
    symbol: str
    spent: float | None
    epsilon: float
    delta: float
    method: str
    condition: Condition = field(default_factory=Condition)
    proviso: str = ""

    def describe(self) -> str:
        """Return the cost in symbols, with the condition: "ε = 4; ε ≤ 3.2 at δ = 10⁻⁶ (zCDP)"."""
        return f"{self.numbers()}{self.condition}"

    def numbers(self) -> str:
        """Return the cost in symbols, without the condition."""
        spent = ""
        if self.spent is not None and not math.isinf(self.spent):
            spent = f"{self.symbol} = {short_up(self.spent, 4)}{self.proviso}; "
        if math.isinf(self.epsilon):
            return f"{spent}no finite ε at δ = {short_up(self.delta)}"
        return f"{spent}ε ≤ {short_up(self.epsilon, 4)} at δ = {short_up(self.delta)} ({self.method})"


def costs(plans: Mapping[str, Plan], labels: Collection[str], budget: Budget, repeats: int, delta: float) -> list[Cost]:
    """Return the cost of publishing one run of every method in `labels`, and of all their repeats if there are more;
    may be empty.

    plans : of a run, by label. labels : those without privacy have no guarantee and are not counted.
    delta : δ of ε, unless the budget has a δ of its own.
    """
    private = [plan for label, plan in plans.items() if label in labels and plan.budget.private]
    return [_cost(private, count, budget, delta) for count in sorted({1, repeats})] if private else []


def _cost(plans: list[Plan], repeats: int, budget: Budget, delta: float) -> Cost:
    """Return the cost of publishing `repeats` runs of each plan; the releases before them, of their one problem,
    count once."""
    earlier = plans[0].facts.released
    return composed([(plan, repeats) for plan in plans], earlier, budget.currency, budget.own_delta(delta))


def composed(
    runs: Sequence[tuple[Plan, int]], earlier: Sequence[Event], currency: Currency | None, delta: float
) -> Cost:
    """Return the cost of publishing these runs, given as pairs of a plan and its number of repeats.

    earlier : the releases before the runs, which count once. currency : of the sum `spent`, if there is one that adds
        up. The result's `repeats` is the largest number of repeats.
    """
    # What is composed in full may be composed in any order, and nearly equal events may count as the larger one.
    counts: Counter[Event] = Counter()
    for plan, repeats in runs:
        counts.update({event: repeats * count for event, count in Counter(plan.events).items()})
    max_repeats = max(repeats for _, repeats in runs)
    grouped = list(counts.items()) if len(counts) <= MOST_GROUPS else rounded_up(counts.items())
    events = tuple(Repeat(event, count) for event, count in grouped)
    earlier_cost = accountants.total(earlier, "epsilon")
    # For hundreds of runs a loss distribution is hardly tighter, and large.
    methods = [method for method in accountants.METHODS if max_repeats == 1 or method != "pld"]
    epsilons = {method: earlier_cost + accountants.epsilon(events, delta, method) for method in methods}
    best = min(epsilons, key=epsilons.__getitem__)
    return Cost(
        len(runs),
        max_repeats,
        UNITS[currency or "epsilon"].symbol,
        spent(runs, earlier, currency) if currency else None,
        epsilons[best],
        delta,
        accountants.METHOD_NAMES[best],
        Condition.joined(plan.condition for plan, _ in runs),
    )


def releases(runs: Sequence[tuple[Plan, int]], budget: Budget) -> str:
    """Return the number of releases that these runs make of the same data and their cost by basic composition, in
    words.

    "9 releases, ε = 18 by adding up; with 1 repeat ε = 6". runs : pairs of a plan and its number of repeats. Earlier
    releases count once. budget : of the runs, in whose currency they are added.
    """
    private = [(plan, repeats) for plan, repeats in runs if plan.private]
    count = sum(repeats for _, repeats in private)
    if count < 2:
        return f"1 release, {_added(private, budget)}" if private else "no release"
    once = [(plan, 1) for plan, _ in private]
    fewer = f"; with 1 repeat {_added(once, budget)}" if count > len(once) else ""
    return f"{count:,} releases, {_added(private, budget)} by adding up{fewer}"


def _added(runs: Sequence[tuple[Plan, int]], budget: Budget) -> str:
    """Return the sum of the costs of private runs as text: ε, ρ, the root of all μ², or ε and δ; else ε at a δ."""
    earlier = list(chain.from_iterable(dict.fromkeys(plan.facts.released for plan, _ in runs)))
    if budget.currency is not None:
        total = spent(runs, earlier, budget.currency)
        if math.isfinite(total):
            return f"{UNITS[budget.currency].symbol} = {short(total, 4)}"
    if all(isinstance(plan.budget, ApproximateDP) for plan, _ in runs):
        earlier_cost = accountants.total(earlier, "epsilon")
        epsilon = earlier_cost + math.fsum(
            repeats * (plan.budget.limit - accountants.total(plan.facts.released, "epsilon")) for plan, repeats in runs
        )
        delta = math.fsum(repeats * plan.budget.own_delta(0.0) for plan, repeats in runs)
        return f"ε = {short(epsilon, 4)} and δ = {short(delta, 4)}"
    return composed(runs, earlier, None, budget.own_delta(ApproximateDP().delta)).numbers()


def spent(runs: Sequence[tuple[Plan, int]], earlier: Sequence[Event], currency: Currency) -> float:
    """Return the sum of the costs of these runs in a currency that adds up; the releases before the runs count once."""
    power, earlier_cost = UNITS[currency].power, accountants.total(earlier, currency)
    of_runs = math.fsum(
        repeats * (float(plan.spent(currency)[-1]) ** power - accountants.total(plan.facts.released, currency) ** power)
        for plan, repeats in runs
    )
    return float((earlier_cost**power + of_runs) ** (1 / power))


def sentences(costs: Collection[Cost], conditions: bool = True) -> Iterator[str]:
    """Yield one text per cost: "one run of each of 4 methods: ε = 8; …"; with its condition, or not."""
    for cost in costs:
        methods = "one method" if cost.methods == 1 else f"each of {cost.methods} methods"
        runs = "one run" if cost.repeats == 1 else f"all {cost.repeats} runs"
        yield f"{runs} of {methods}: {cost.describe() if conditions else cost.numbers()}"
