"""Results of a run: summaries over the replicates, the table of final numbers, and the privacy cost of publishing them.

Each method and each repeat meets the budget by itself; publishing several of them spends more. Costs are those of a
plan's `statement`: the plan as the unit of protection sees it, which is one row, or a person with all rows.
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
from dpviz.arguments import Delta, check_one_of, checked  # UserError for wrong types and unknown names
from dpviz.experiments.algorithm import Status
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.later import pd
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency
from dpviz.privacy.accounting.rounding import rounded_up
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.events import Event, Repeat
from dpviz.problems.base import Condition

PASSES = "passes"  # name of the axis of passes over the data
LOW, MEDIAN, HIGH = 0.1, 0.5, 0.9  # levels of the quantiles over the replicates
CONFIDENCE = 0.95  # of the interval for the median
NOT_PRIVATE = " (not private)"  # appended to the name of a column or of a method
WHOLE_PLAN = ", whole plan"  # appended to the name of an accountant, for a run that is not at its end
GUESS = "What the best guess that is the same for all rows reaches, without any model."
UPPER = ("spent", "epsilon_at_delta")  # columns that are guarantees: rounded up everywhere
_LARGEST = 1e300  # values are limited to ±this, so that their differences, from which quantiles are made, are finite


@dataclass(frozen=True)
class Column:
    """Label, privacy and help of a column of the table of final numbers.

    released : False for a diagnostic, which reads raw data, and for the computing time: the privacy guarantee covers
        neither. Rows of methods without privacy release nothing in any column.
    """

    label: str
    released: bool
    help: str = ""


# All columns but those of metrics, by name.
COLUMNS: Mapping[str, Column] = {
    name: Column(**fields) for name, fields in resources.data(__package__, "columns.toml").items()
}


STOPS = ("finished", "median_stop", "status", "used", "ceiling")  # columns of methods that stop by themselves


def headline_metrics(trace: Trace) -> tuple[str, ...]:
    """Return the names of the recorded metrics that are declared for the final table, the most telling first."""
    ranked = [metric for metric in trace.metrics.values() if metric.headline]
    return tuple(metric.name for metric in sorted(ranked, key=lambda metric: metric.headline))


def columns(trace: Trace, headlines: Sequence[str] | None = None) -> dict[str, Column]:
    """Return the columns that `final_table` may have for a trace, by name, in its order.

    headlines : names of metrics, of which those that the trace records get columns; None: all metrics that are declared
        for the table.
    """
    result = {name: COLUMNS[name] for name in ("algorithm", "steps")}
    for position, name in enumerate(_table_metrics(trace, headlines)):
        metric = trace.metrics[name]
        # A row without privacy releases nothing in any column.
        released = any(privacy != "not private" for privacy in trace.privacy_by_arm(metric).values())
        is_guess = bool(metric.guess_for)
        help = GUESS if is_guess else "Median over the repeats, after the last step."
        result[name] = Column(metric.label, released, help)
        if position == 0:  # the most telling metric also has its spread over the replicates
            result[f"{name}_low"] = Column(f"{metric.label}, 10 %", released)
            result[f"{name}_high"] = Column(f"{metric.label}, 90 %", released)
            best = "highest" if metric.better == "higher" else "lowest"
            result["best_step"] = Column("Best step", released, f"Where the median was {best}: {metric.label}.")
    has_stops = any(len(arm_trace.stopped_at) for arm_trace in trace.arm_traces.values())
    for name, column in COLUMNS.items():
        if name not in result and (has_stops or name not in STOPS):
            result[name] = column
    return result


def _table_metrics(trace: Trace, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return those of the metrics `names` that the trace records; None: all that are declared for the final table."""
    return headline_metrics(trace) if names is None else tuple(name for name in names if name in trace.metrics)


def quantiles(values: np.ndarray) -> np.ndarray:
    """Compute 10 % quantile, median and 90 % quantile, (k, 3), over the R replicates of a recorded series (k, R).

    A replicate whose values turn into nan counts with its last number; a row is nan while any replicate has none yet.
    """
    return np.quantile(_filled(values), (LOW, MEDIAN, HIGH), axis=1).T if len(values) else np.empty((0, 3))


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """Compute a 95 % confidence interval for the median of all possible runs, at the last record.

    values : a recorded series (k, R) of R independent replicates.

    The ends are the j-th lowest and the j-th highest of the replicates' last values. The median lies below the interval
    if fewer than j of the R values are below the median, which has the probability P(B < j) of a binomial variable B
    with R trials and success probability 1/2; the same holds above. j is the largest number for which this is at most
    2.5 % (Hahn and Meeker, Statistical Intervals, 1991, section 5.2). No distribution of the runs is assumed.

    Both ends are nan where R is below six, for which there is no such j, and while a replicate has no number.
    """
    ends = np.sort(_filled(values)[-1])
    replicates = len(ends)
    at_most = bdtr(np.arange(replicates), replicates, 0.5)  # P(B <= i) for i = 0, 1, …; P(B < j) is entry j - 1
    j = int(np.searchsorted(at_most, (1 - CONFIDENCE) / 2))  # number of entries below 2.5 %
    is_known = j > 0 and not np.isnan(ends).any()
    return (float(ends[j - 1]), float(ends[-j])) if is_known else (math.nan, math.nan)


def _filled(values: np.ndarray) -> np.ndarray:
    """Return a series (k, R) in which each nan is replaced by the replicate's last number before it, if there is one,
    and values are limited to ±_LARGEST."""
    # Before a replicate's first number the row is 0, whose entry is nan as well.
    rows_with_number = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    last_rows = np.maximum.accumulate(rows_with_number, axis=0)  # for each entry the row of the last number up to it
    filled = np.take_along_axis(values, last_rows, axis=0)
    return np.asarray(np.clip(filled, -_LARGEST, _LARGEST))


def budget_spent(plan: Plan, iteration: int) -> tuple[float, str]:
    """Return the privacy spent by a run up to this iteration, in its budget's currency, and that currency's symbol.

    Pure ε, ρ, μ and Rényi divergences are charged iteration by iteration. The ε of an (ε, δ) budget is that of
    `epsilon_reading`; an attack bound is that of the whole plan at every iteration.
    """
    plan = plan.statement
    budget, charged = plan.budget, plan.charged(iteration)
    return budget.spent_when_stopped(charged, plan.events, plan.facts.released), budget.symbol


def epsilon_reading(plan: Plan, iteration: int, delta: float) -> accountants.Reading:
    """Return the ε at δ that a run up to this iteration satisfies, including the releases before the run.

    At the end of the plan it is the tightest that any accountant proves. Before the end, as the user may stop the run
    because of its releases, it is that of the whole plan or the sum of the pure ε so far, whichever is less.
    """
    plan = plan.statement
    return accountants.when_stopped(plan.charged(iteration), plan.events, delta, plan.facts.released)


@checked
def final_table(
    trace: Trace, plans: Mapping[str, Plan], *, delta: Delta | None = None, headlines: Sequence[str] | None = None
) -> "pd.DataFrame":
    """Return one row per arm of the trace at its last recorded iteration.

    Parameters
    ----------
    trace : Trace
        It may still grow, or have been stopped: its guarantees are then those of `epsilon_reading`.
    plans : mapping of str to Plan
        The plans by label, as `Experiment.plans` gives them.
    delta : float, optional
        If given, the table states ε at this δ, and the accountant that proves it.
    headlines : sequence of str, optional
        Names of the metrics; by default those that are declared as headlines.

    Raises
    ------
    UserError
        For a metric that the trace does not have.

    Returns
    -------
    DataFrame
        The columns of `columns`, as far as they apply.

    Examples
    --------
    >>> import dpviz
    >>> experiment = dpviz.Experiment(dpviz.Quadratic(), dpviz.Nesterov(iterations=5), epsilon=1)
    >>> dpviz.final_table(experiment.run(), experiment.plans()).shape[0]
    1
    """
    for name in headlines or ():
        check_one_of(name, trace.metrics, "metric")
    names = _table_metrics(trace, headlines)
    rows = [_row(trace, label, plan, delta, names) for label, plan in plans.items() if label in trace.arm_traces]
    order = [name for name in columns(trace, headlines) if any(name in row for row in rows)]
    if not any(math.isfinite(row["seconds"]) for row in rows):  # a trace without diagnostics has no times
        order = [name for name in order if name != "seconds"]
    return pd.DataFrame(rows, columns=order)


@checked
def marked(table: "pd.DataFrame", trace: Trace) -> "pd.DataFrame":
    """Return a final table in which the names of everything that is not private end in " (not private)".

    It is for downloads of results on data that are not public.

    Parameters
    ----------
    table : DataFrame
        The table that `final_table` returns.
    trace : Trace
        The trace that the table was made from.

    Returns
    -------
    DataFrame
        The same numbers; marked are the columns that no method releases, and the methods without privacy.

    Examples
    --------
    >>> import dpviz
    >>> experiment = dpviz.Experiment(dpviz.Quadratic(), dpviz.Nesterov(iterations=5), epsilon=1)
    >>> trace = experiment.run()
    >>> dpviz.marked(dpviz.final_table(trace, experiment.plans()), trace).shape[0]
    1
    """
    check_one_of("algorithm", map(str, table.columns), "column")  # raises UserError for any other table
    new_columns = {name: name + NOT_PRIVATE for name, column in columns(trace).items() if not column.released}
    new_labels = {label: label + NOT_PRIVATE for label, arm_trace in trace.arm_traces.items() if not arm_trace.private}
    result = table.rename(columns=new_columns)
    return result.assign(algorithm=result["algorithm"].replace(new_labels))


def _row(trace: Trace, label: str, plan: Plan, delta: float | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the row of one arm in the final table, by the names of its columns.

    names : the metrics, of which the first also has its 10 % and 90 % quantiles and its best step.
    delta : δ of the ε in the columns `epsilon_at_delta` and `accountant`; None to leave these out.
    """
    arm_trace = trace.arm_traces[label]
    iterations = arm_trace.iterations[:]  # a copy: another thread may append
    steps = iterations[-1] if iterations else 0
    # The guarantee of a method that stops by itself is that of its whole plan, because the time of the stop depends on
    # its releases. Where costs add up, the privacy that it has spent so far is known all the same.
    guaranteed_steps = plan.iterations if plan.stops else steps
    spent, symbol = budget_spent(plan, steps if plan.budget.adds_up else guaranteed_steps)
    row: dict[str, Any] = {"algorithm": label, "steps": steps}
    for position, name in enumerate(names):
        row |= _metric(trace, label, name, with_band=position == 0)
    row |= {"spent": spent, "currency": symbol, **_stops(trace, label, plan)}
    if delta is not None:
        # A method without privacy has no ε, not even before its first release, where that would be 0.
        proof = epsilon_reading(plan, guaranteed_steps if plan.private else plan.iterations, delta)
        # Before the end of the plan, only adding up ("basic") proves an ε of the releases so far.
        is_of_whole_plan = steps < plan.iterations and (plan.stops or proof.method != "basic")
        suffix = WHOLE_PLAN if is_of_whole_plan else ""
        is_proven = math.isfinite(proof.epsilon)
        row |= {
            "epsilon_at_delta": proof.epsilon,
            "accountant": accountants.METHOD_NAMES[proof.method] + suffix if is_proven else "none",
        }
    return row | {"diverged": arm_trace.status.count("diverged"), "seconds": arm_trace.seconds}


@dataclass(frozen=True)
class Endings:
    """Counts of how the replicates of a method that stops by itself have ended, from released values alone.

    finished : number of replicates that stopped before the end of the plan.
    replicates : number of all replicates.
    median_stop : median iteration after which those stopped; nan if none did.
    status : number of replicates for each status, the most frequent first.
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
        """Return the counts of each status in words: "3 converged, 2 running"."""
        return ", ".join(f"{count} {WORDS[status]}" for status, count in self.status.items())


# Text on the screen for the status of a replicate.
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
    """Count how the replicates of an arm have ended so far; None for a method whose replicates never stop."""
    if not len(arm_trace.stopped_at):
        return None
    stops = arm_trace.stopped_at[arm_trace.stopped_at >= 0]
    median = float(np.median(stops)) if len(stops) else math.nan
    return Endings(len(stops), len(arm_trace.stopped_at), median, dict(Counter(arm_trace.status).most_common()))


def _stops(trace: Trace, label: str, plan: Plan) -> dict[str, Any]:
    """Return the part of an arm's row in the columns `STOPS`; empty for a method whose replicates never stop."""
    ends = endings(trace.arm_traces[label])
    if ends is None:
        return {}
    row: dict[str, Any] = {
        "finished": f"{ends.finished} of {ends.replicates}",
        "median_stop": ends.median_stop,
        "status": ends.reasons(),
    }
    _, spent_by_replicate = trace.spent(label)  # (k, R)
    currency = trace.arm_traces[label].currency
    if len(spent_by_replicate) and currency is not None:
        amounts = {"used": np.median(spent_by_replicate[-1]), "ceiling": plan.statement.spent(currency)[-1]}
        row |= {name: f"{short_up(float(amount))} {UNITS[currency].symbol}" for name, amount in amounts.items()}
    return row


def ceilings(plans: Mapping[str, Plan], currency: Currency) -> dict[str, float]:
    """Return, by label, the most privacy that each private method which stops by itself can spend: its guarantee."""
    return {
        label: float(plan.statement.spent(currency)[-1]) for label, plan in plans.items() if plan.private and plan.stops
    }


@dataclass(frozen=True)
class Axis:
    """A horizontal axis over which the series of a run can be drawn, in place of the step or the privacy spent.

    curves : by label of each method that has this axis, (t+1,) its value after iterations 0 to t.
    """

    title: str
    curves: Mapping[str, np.ndarray]


def axes(trace: Trace, plans: Mapping[str, Plan]) -> dict[str, Axis]:
    """Return the horizontal axes that a run offers, by name.

    These are the passes over the data, which follow from the plans, and the released series that are declared as axes:
    the median over the replicates, interpolated by straight lines between the recorded iterations.
    """
    passes = {
        label: plan.passes for label, plan in plans.items() if label in trace.arm_traces and plan.passes is not None
    }
    result = {PASSES: Axis("Passes over the data", passes)} if passes else {}
    for metric in trace.metrics.values():
        if not metric.axis:
            continue
        curves = {}
        for label in trace.arm_traces:
            iterations, values = trace.series(label, metric.name)
            if len(iterations):
                every_iteration = np.arange(iterations[-1] + 1)
                curves[label] = np.interp(every_iteration, iterations, np.median(values, axis=1))
        if curves:
            result[metric.name] = Axis(metric.label, curves)
    return result


def spent_curve(trace: Trace, label: str, plan: Plan, currency: Currency) -> np.ndarray:
    """Compute (T+1,) the privacy spent by one arm up to each iteration.

    For a method that stops by itself it is the median over the replicates of the privacy spent, which the trace
    records if it is in this currency; for other methods it follows from the plan.
    """
    recorded_iterations, spent_by_replicate = trace.spent(label)  # (k,), (k, R)
    if not plan.stops or trace.arm_traces[label].currency != currency or not len(recorded_iterations):
        return plan.statement.spent(currency)
    # For each iteration the index of the last record up to it; -1 before the first record, which is used there.
    last_record = np.searchsorted(recorded_iterations, np.arange(plan.iterations + 1), side="right") - 1
    return np.asarray(np.median(spent_by_replicate, axis=1)[np.maximum(last_record, 0)])


def _metric(trace: Trace, label: str, name: str, with_band: bool) -> dict[str, float]:
    """Return the cells of one metric in an arm's row: the last median over the replicates; nan if there is none.

    with_band : add the last 10 % and 90 % quantiles, and the step at which the median was best.
    """
    iterations, values = trace.series(label, name)
    series = quantiles(values)
    has_median = ~np.isnan(series[:, 1])
    low = median = high = best_step = math.nan
    if has_median.any():
        low, median, high = series[has_median][-1].tolist()
        sign = -1 if trace.metrics[name].better == "higher" else 1  # with it the lowest median is the best
        best_step = float(iterations[has_median][np.argmin(sign * series[has_median, 1])])
    if not with_band:
        return {name: median}
    return {name: median, f"{name}_low": low, f"{name}_high": high, "best_step": best_step}


@dataclass(frozen=True)
class Cost:
    """The privacy guarantee of publishing several runs on the same rows together, by composition.

    methods, repeats : number of methods, and of runs of each.
    symbol, spent : symbol of the budget's currency and the sum of the costs in it; infinite where the releases have no
        cost in this currency, and None for budgets whose costs do not add up.
    epsilon : ε at `delta` of all releases together, as the accountant `method` proves it; infinite if none does.
    condition : everything that the guarantees of the runs rest on.
    proviso : a restriction under which `spent` holds, in words; empty if it always holds.
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
            return f"{spent}no ε is proven at δ = {short_up(self.delta)}"
        return f"{spent}ε ≤ {short_up(self.epsilon, 4)} at δ = {short_up(self.delta)} ({self.method})"


def costs(plans: Mapping[str, Plan], labels: Collection[str], budget: Budget, repeats: int, delta: float) -> list[Cost]:
    """Return the cost of publishing one run of each method in `labels`, and, if there are several repeats, of all.

    plans : the plans of a run, by label.
    labels : the published methods. Those without privacy have no guarantee and do not count; without private methods
        the list is empty.
    delta : δ of the stated ε, unless the budget has a δ of its own.
    """
    private = [plan.statement for label, plan in plans.items() if label in labels and plan.budget.private]
    if not private:
        return []
    earlier, result = private[0].facts.released, []  # earlier: releases of the problem, which count once for all plans
    for count in sorted({1, repeats}):
        runs = [(plan, count) for plan in private]
        cost = composed_cost(runs, earlier, budget.currency, budget.own_delta(delta))
        # Where only the (ε, δ) of each run is known, no ε is proven at a δ below the sum of their δ.
        sum_of_deltas = math.fsum(count * plan.budget.own_delta(0.0) for plan in private)
        if math.isinf(cost.epsilon) and cost.delta < sum_of_deltas < 1:
            cost = composed_cost(runs, earlier, budget.currency, sum_of_deltas)
        result.append(cost)
    return result


def composed_cost(
    runs: Sequence[tuple[Plan, int]], earlier: Sequence[Event], currency: Currency | None, delta: float
) -> Cost:
    """Return the cost of publishing these runs, given as pairs of a plan and its number of repeats.

    earlier : the releases before the runs, which count once.
    currency : the currency of the result's `spent`; None if the costs of the budget do not add up.
    The result's `repeats` is the largest number of repeats.
    """
    # The order of events has no influence on the cost of all of them: equal ones are counted. Where too many different
    # ones are left, nearly equal events are replaced by the largest of them, which costs no less.
    counts: Counter[Event] = Counter()
    for plan, repeats in runs:
        counts.update({event: repeats * count for event, count in Counter(plan.statement.events).items()})
    max_repeats = max(repeats for _, repeats in runs)
    counted = list(counts.items()) if len(counts) <= accountants.MAX_ADDED else rounded_up(counts.items())
    events = tuple(Repeat(event, count) for event, count in counted)
    # The plans depend on the releases before the runs: only basic composition holds, so that ε adds up.
    earlier_cost = accountants.total(earlier, "epsilon")
    # With several repeats there may be hundreds of runs, for which the accountant of privacy loss distributions ("pld")
    # needs much memory and is hardly tighter.
    candidates = [method for method in accountants.METHODS if max_repeats == 1 or method != "pld"]
    epsilons = {method: earlier_cost + accountants.epsilon(events, delta, method) for method in candidates}
    best = min(epsilons, key=epsilons.__getitem__)
    return Cost(
        methods=len(runs),
        repeats=max_repeats,
        symbol=UNITS[currency or "epsilon"].symbol,  # not used without a currency, as `spent` is None then
        spent=total_cost(runs, earlier, currency) if currency else None,
        epsilon=epsilons[best],
        delta=delta,
        method=accountants.METHOD_NAMES[best],
        condition=Condition.joined(plan.condition for plan, _ in runs),
    )


def describe_releases(runs: Sequence[tuple[Plan, int]], budget: Budget) -> str:
    """Return the number of published runs of the same data, and their cost, in words: "9 releases, ε = 18 by adding up;
    with 1 repeat ε = 6".

    runs : pairs of a plan and its number of repeats. Plans without privacy do not count; releases before the runs count
        once.
    budget : the runs' budget, in whose currency the costs are added.
    """
    private = [(plan.statement, repeats) for plan, repeats in runs if plan.private]
    if not private:
        return "no release"
    count = sum(repeats for _, repeats in private)
    cost, is_sum = _joint_cost(private, budget)
    if count == 1:
        return f"1 release, {cost}"
    text = f"{count:,} releases, {cost}"
    if is_sum:
        text += " by adding up"
    if count > len(private):
        once, _ = _joint_cost([(plan, 1) for plan, _ in private], budget)
        text += f"; with 1 repeat {once}"
    return text


def _joint_cost(runs: Sequence[tuple[Plan, int]], budget: Budget) -> tuple[str, bool]:
    """Return the cost of private runs as text, and whether it is a sum.

    It is the sum in the budget's currency (ε, ρ, or the root of the sum of all μ²); the sums of ε and of δ if all
    budgets are (ε, δ), and that of δ is below 1; else the ε that an accountant proves at a δ.

    runs : pairs of a plan and its number of repeats.
    """
    # The same releases before several runs count once.
    earlier = list(chain.from_iterable(dict.fromkeys(plan.facts.released for plan, _ in runs)))
    if budget.currency is not None:
        total = total_cost(runs, earlier, budget.currency)
        if math.isfinite(total):
            return f"{UNITS[budget.currency].symbol} = {short_up(total, 4)}", True
    delta = math.fsum(repeats * plan.budget.own_delta(0.0) for plan, repeats in runs)
    if delta < 1 and all(isinstance(plan.budget, ApproximateDP) for plan, _ in runs):
        # The limit of a budget also covers the releases before its runs, which count once.
        earlier_cost = accountants.total(earlier, "epsilon")
        epsilon = earlier_cost + math.fsum(
            repeats * (plan.budget.limit - accountants.total(plan.facts.released, "epsilon")) for plan, repeats in runs
        )
        return f"ε = {short_up(epsilon, 4)} and δ = {short_up(delta, 4)}", True
    delta = budget.own_delta(ApproximateDP().delta)  # the usual δ if the budget has none of its own
    return composed_cost(runs, earlier, currency=None, delta=delta).numbers(), False


def total_cost(runs: Sequence[tuple[Plan, int]], earlier: Sequence[Event], currency: Currency) -> float:
    """Return the sum of the costs of runs in a currency whose costs add up, ε, ρ or, as squares, μ.

    runs : pairs of a plan and its number of repeats.
    earlier : the releases before the runs. The plans' own sums include them, so they are subtracted there and added
        once.
    """
    power, earlier_cost = UNITS[currency].power, accountants.total(earlier, currency)  # costs to this power add up
    costs_of_runs = []
    for plan, repeats in runs:
        total = float(plan.statement.spent(currency)[-1])
        earlier_of_plan = accountants.total(plan.statement.facts.released, currency)
        costs_of_runs.append(repeats * (total**power - earlier_of_plan**power))
    return float((earlier_cost**power + math.fsum(costs_of_runs)) ** (1 / power))


def cost_sentences(costs: Collection[Cost], conditions: bool = True) -> Iterator[str]:
    """Yield one text per cost: "one run of each of 4 methods: ε = 8; …".

    conditions : append the condition that the guarantee rests on.
    """
    for cost in costs:
        methods = "one method" if cost.methods == 1 else f"each of {cost.methods} methods"
        runs = "one run" if cost.repeats == 1 else f"all {cost.repeats} runs"
        yield f"{runs} of {methods}: {cost.describe() if conditions else cost.numbers()}"
