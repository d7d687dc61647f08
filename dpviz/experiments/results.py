"""What came out of a run: summaries over the replicates, and the table of final numbers; and what it costs to publish.

Each method and each repeat meets the budget alone, and together they spend more.
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
NOT_PRIVATE = " (not private)"  # behind the name of a column, or of a method
WHOLE_PLAN = ", whole plan"  # behind the name of an accountant, of a run that is not at its end
GUESS = "What the best guess that is the same for all rows reaches, without any model."
UPPER = ("spent", "epsilon_at_delta")  # columns that are guarantees: rounded up wherever they are
_LARGEST = 1e300  # differences of values up to here are still finite


@dataclass(frozen=True)
class Column:
    """What the table's reader must know of a column.

    released : False for a diagnostic, which reads raw data or, like the time, is not covered by the guarantee, whatever
        that rests on. Rows of methods without privacy release nothing in any column.
    """

    label: str
    released: bool
    help: str = ""


COLUMNS: Mapping[str, Column] = {
    name: Column(**words) for name, words in resources.data(__package__, "columns.toml").items()
}


STOPS = ("finished", "median_stop", "status", "used", "ceiling")  # of methods that stop by themselves


def headlined(trace: Trace) -> tuple[str, ...]:
    """The metrics of the final table that were recorded, the most telling first."""
    ranked = [metric for metric in trace.metrics.values() if metric.headline]
    return tuple(metric.name for metric in sorted(ranked, key=lambda metric: metric.headline))


def columns(trace: Trace, headlines: Sequence[str] | None = None) -> dict[str, Column]:
    """`COLUMNS` and those of the `headlines` (None: of the trace) that it records, in the order of `final_table`."""
    found = {name: COLUMNS[name] for name in ("algorithm", "steps")}
    for position, name in enumerate(_recorded(trace, headlines)):
        metric = trace.metrics[name]
        # A row without privacy releases nothing, whatever the column.
        released = any(status != "not private" for status in trace.statuses(metric).values())
        help = GUESS if metric.beside else "Median over the repeats, after the last step."
        found[name] = Column(metric.label, released, help)
        if position == 0:
            found[f"{name}_low"] = Column(f"{metric.label}, 10 %", released)
            found[f"{name}_high"] = Column(f"{metric.label}, 90 %", released)
            found["best_step"] = Column("Best step", released, f"Where the median was lowest: {metric.label}.")
    stopping = any(len(lane.stopped_at) for lane in trace.lanes.values())
    rest = {name: column for name, column in COLUMNS.items() if stopping or name not in STOPS}
    return found | {name: column for name, column in rest.items() if name not in found}


def _recorded(trace: Trace, names: Sequence[str] | None) -> tuple[str, ...]:
    return headlined(trace) if names is None else tuple(name for name in names if name in trace.metrics)


def quantiles(values: np.ndarray) -> np.ndarray:
    """(k, 3) 10 % quantile, median and 90 % quantile over the replicates of a recorded series (k, R).

    A replicate that stops delivering numbers keeps its last one; a row is nan while any replicate has none yet.
    """
    return np.quantile(_kept(values), (LOW, MEDIAN, HIGH), axis=1).T if len(values) else np.empty((0, 3))


def median_interval(values: np.ndarray) -> tuple[float, float]:
    """Between which values the median of all runs that there could be lies in the end, with a confidence of 95 %.

    values : a recorded series (k, R) of independent replicates. nan where R, below six, is too small to tell, and
    while one of them has no number. Of the sorted ends it takes one and the one as far from the other side: the median
    lies outside if fewer of the R fall to one side of it than chance, by a binomial law, lets happen in 2.5 % of the
    cases (Hahn and Meeker, Statistical Intervals, 1991, section 5.2). It needs no other law of the runs.
    """
    ends = np.sort(_kept(values)[-1])
    place = int(np.searchsorted(bdtr(np.arange(len(ends)), len(ends), 0.5), (1 - CONFIDENCE) / 2))
    known = place and not np.isnan(ends).any()
    return (float(ends[place - 1]), float(ends[-place])) if known else (math.nan, math.nan)


def _kept(values: np.ndarray) -> np.ndarray:
    """A series (k, R) in which replicates keep their last number, and none is infinite."""
    numbered = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    filled = np.take_along_axis(values, np.maximum.accumulate(numbered, axis=0), axis=0) if len(values) else values
    return np.asarray(np.clip(filled, -_LARGEST, _LARGEST))


def budget_spent(plan: Plan, iteration: int) -> tuple[float, str]:
    """Privacy spent by a run that is at this iteration, in the currency of its budget, and the symbol of that currency.

    Pure ε, ρ, μ and Rényi divergences are charged step by step. ε at δ is that of `reading`; an attack bound is that of
    the whole plan.
    """
    budget, charged = plan.budget, plan.charged(iteration)
    return budget.spent_when_stopped(charged, plan.events, plan.facts.released), budget.symbol


def reading(plan: Plan, iteration: int, delta: float) -> accountants.Reading:
    """ε at δ of a run that is at this iteration, with what was released before it: at the end of its plan by the
    tightest accountant; on the way, where whoever looks may stop it, by `accountants.when_stopped`."""
    return accountants.when_stopped(plan.charged(iteration), plan.events, delta, plan.facts.released)


@checked
def final_table(
    trace: Trace, plans: Mapping[str, Plan], *, delta: Delta | None = None, headlines: Sequence[str] | None = None
) -> "pd.DataFrame":
    """One row per arm of the trace at its last recorded iteration.

    Parameters
    ----------
    trace : Trace
        Also one that is growing or was stopped, of which `reading` says what may be told.
    plans : mapping of str to Plan
        By label, as `Experiment.plans` gives them.
    delta : float, optional
        Adds ε at this δ, and the accountant that proves it.
    headlines : sequence of str, optional
        The metrics; by itself those that say so.

    Returns
    -------
    DataFrame
        The columns of `columns`, as far as they apply.
    """
    names = _recorded(trace, headlines)
    rows = [_row(trace, label, plan, delta, names) for label, plan in plans.items() if label in trace.lanes]
    order = [name for name in columns(trace, headlines) if any(name in row for row in rows)]
    told = any(math.isfinite(row["seconds"]) for row in rows)  # how long it took
    return pd.DataFrame(rows, columns=order if told else [name for name in order if name != "seconds"])


@checked
def marked(table: "pd.DataFrame", trace: Trace) -> "pd.DataFrame":
    """A final table of a user's own data, in which names say what reads them.

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
    names = {label: label + NOT_PRIVATE for label, lane in trace.lanes.items() if not lane.private}
    marked = table.rename(columns={name: name + NOT_PRIVATE for name in raw})
    return marked.assign(algorithm=marked["algorithm"].replace(names))


def _row(trace: Trace, label: str, plan: Plan, delta: float | None, names: Sequence[str]) -> dict[str, Any]:
    lane = trace.lanes[label]
    iterations = lane.iterations[:]
    steps = iterations[-1] if iterations else 0
    # The guarantee of a method that stops by itself is its ceiling. Its charges by then can be told where they add up.
    whole = plan.iterations if plan.stops else steps
    spent, currency = budget_spent(plan, steps if plan.budget.adds_up else whole)
    row: dict[str, Any] = {"algorithm": label, "steps": steps}
    for position, name in enumerate(names):
        row |= _metric(trace, label, name, with_band=position == 0)
    row |= {"spent": spent, "currency": currency, **_stops(trace, label, plan)}
    if delta is not None:
        found = reading(plan, whole, delta)
        of = WHOLE_PLAN if steps < plan.iterations and (plan.stops or found.method != "basic") else ""
        proven = math.isfinite(found.epsilon)
        row |= {
            "epsilon_at_delta": found.epsilon,
            "accountant": accountants.METHOD_NAMES[found.method] + of if proven else "none",
        }
    return row | {"diverged": lane.status.count("diverged"), "seconds": lane.seconds}


@dataclass(frozen=True)
class Endings:
    """How the replicates of a method that stops by itself ended; functions of released values alone.

    finished : how many stopped before the end of the plan, of `replicates`. median_stop : the median iteration after
    which those stopped; nan without any. status : how many have each word, the most frequent first.
    """

    finished: int
    replicates: int
    median_stop: float
    status: Mapping[Status, int]

    def describe(self) -> str:
        """In words: "3 of 5 runs ended, median step 40"."""
        when = f", median step {short(self.median_stop, 4)}" if self.finished else ""
        return f"{self.finished} of {self.replicates} runs ended{when}"

    def reasons(self) -> str:
        """The status of the replicates in words: "3 converged, 2 running"."""
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


def endings(lane: ArmTrace) -> Endings | None:
    """How the replicates of an arm ended so far; None for a method that never says who goes on."""
    if not len(lane.stopped_at):
        return None
    ended = lane.stopped_at[lane.stopped_at >= 0]
    median = float(np.median(ended)) if len(ended) else math.nan
    return Endings(len(ended), len(lane.stopped_at), median, dict(Counter(lane.status).most_common()))


def _stops(trace: Trace, label: str, plan: Plan) -> dict[str, Any]:
    """Of a method that stops by itself: how many replicates did, when and why, what they were charged and may be."""
    found, (_, charged) = endings(trace.lanes[label]), trace.spent(label)
    if found is None:
        return {}
    row: dict[str, Any] = {
        "finished": f"{found.finished} of {found.replicates}",
        "median_stop": found.median_stop,
        "status": found.reasons(),
    }
    if len(charged) and plan.currency is not None:
        amounts = {"used": np.median(charged[-1]), "ceiling": plan.spent(plan.currency)[-1]}
        row |= {name: f"{short_up(float(amount))} {UNITS[plan.currency].symbol}" for name, amount in amounts.items()}
    return row


def ceilings(plans: Mapping[str, Plan], currency: Currency) -> dict[str, float]:
    """What each private method that stops by itself may be charged at most: its guarantee, in a currency."""
    return {label: float(plan.spent(currency)[-1]) for label, plan in plans.items() if plan.private and plan.stops}


@dataclass(frozen=True)
class Axis:
    """What the series of a run can be drawn over, beside step and privacy spent.

    curves : (t+1,) its value after every iteration, per method that has it.
    """

    title: str
    curves: Mapping[str, np.ndarray]


def axes(trace: Trace, plans: Mapping[str, Plan]) -> dict[str, Axis]:
    """Passes over the data, which the plans know, and the released series that are declared as axes, by name.

    Of the latter the median over the replicates, in straight lines between the recorded iterations.
    """
    passes = {label: plan.passes for label, plan in plans.items() if label in trace.lanes and plan.passes is not None}
    found = {PASSES: Axis("Passes over the data", passes)} if passes else {}
    for metric in trace.metrics.values():
        recorded = {label: trace.series(label, metric.name) for label in trace.lanes if metric.axis}
        curves = {
            label: np.interp(np.arange(iterations[-1] + 1), iterations, np.median(values, axis=1))
            for label, (iterations, values) in recorded.items()
            if len(iterations)
        }
        if curves:
            found[metric.name] = Axis(metric.label, curves)
    return found


def spent_curve(trace: Trace, label: str, plan: Plan, currency: Currency) -> np.ndarray:
    """(T+1,) spent after each iteration: the median of what the replicates were charged, where they stop by themselves
    and the currency is theirs; else what the plan spends."""
    recorded, charged = trace.spent(label)
    if not plan.stops or trace.lanes[label].currency != currency or not len(recorded):
        return plan.spent(currency)
    latest = np.searchsorted(recorded, np.arange(plan.iterations + 1), side="right") - 1
    return np.asarray(np.median(charged, axis=1)[np.maximum(latest, 0)])


def _metric(trace: Trace, label: str, name: str, with_band: bool) -> dict[str, float]:
    iterations, values = trace.series(label, name)
    series = quantiles(values)
    known = ~np.isnan(series[:, 1])
    low, median, high = series[known][-1].tolist() if known.any() else (math.nan,) * 3
    if not with_band:
        return {name: median}
    best = float(iterations[known][np.argmin(series[known, 1])]) if known.any() else math.nan
    return {name: median, f"{name}_low": low, f"{name}_high": high, "best_step": best}


@dataclass(frozen=True)
class Cost:
    """The composed guarantee of several releases on the same rows.

    methods, repeats : how many methods, and how many runs of each. spent : in the budget's own currency, called
    `symbol`; infinite where the currency does not exist for these releases, and None for budgets whose currency does
    not add up. epsilon : at `delta`, by the accountant `method`; infinite if none proves anything. condition : what all
    of it rests on, as the plans say. proviso : when `spent` is a guarantee; empty: always.
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
        """In symbols, with the condition: "ε = 4; ε ≤ 3.2 at δ = 10⁻⁶ (zCDP)"."""
        return f"{self.numbers()}{self.condition}"

    def numbers(self) -> str:
        """The same without the condition."""
        own = ""
        if self.spent is not None and not math.isinf(self.spent):
            own = f"{self.symbol} = {short_up(self.spent, 4)}{self.proviso}; "
        if math.isinf(self.epsilon):
            return f"{own}no finite ε at δ = {short_up(self.delta)}"
        return f"{own}ε ≤ {short_up(self.epsilon, 4)} at δ = {short_up(self.delta)} ({self.method})"


def costs(plans: Mapping[str, Plan], shown: Collection[str], budget: Budget, repeats: int, delta: float) -> list[Cost]:
    """What publishing one run of every method shown costs, and, if there are more, all their repeats; may be empty.

    plans : of a run, by label. shown : labels; those without privacy have no guarantee and are not counted.
    delta : at which ε is read, unless the budget has a δ of its own.
    """
    private = [plan for label, plan in plans.items() if label in shown and plan.budget.private]
    return [_cost(private, times, budget, delta) for times in sorted({1, repeats})] if private else []


def _cost(plans: list[Plan], repeats: int, budget: Budget, delta: float) -> Cost:
    before = plans[0].facts.released  # of the one problem, paid once
    return composed([(plan, repeats) for plan in plans], before, budget.currency, budget.own_delta(delta))


def composed(
    runs: Sequence[tuple[Plan, int]], before: Sequence[Event], currency: Currency | None, delta: float
) -> Cost:
    """What publishing these runs costs: of each plan so many; `repeats` of it is the most of them.

    before : what was released before the runs, which is paid once. currency : that the sum is told in, if it adds up.
    """
    # What is composed in full may be composed in any order, and nearly equal events may count as the larger one.
    counts: Counter[Event] = Counter()
    for plan, repeats in runs:
        counts.update({event: repeats * count for event, count in Counter(plan.events).items()})
    most = max(repeats for _, repeats in runs)
    grouped = list(counts.items()) if len(counts) <= MOST_GROUPS else rounded_up(counts.items())
    events = tuple(Repeat(event, count) for event, count in grouped)
    paid = accountants.total(before, "epsilon")
    # Of hundreds of runs a loss distribution would tell little more, and be large.
    methods = [method for method in accountants.METHODS if most == 1 or method != "pld"]
    found = {method: paid + accountants.epsilon(events, delta, method) for method in methods}
    best = min(found, key=found.__getitem__)
    return Cost(
        len(runs),
        most,
        UNITS[currency or "epsilon"].symbol,
        spent(runs, before, currency) if currency else None,
        found[best],
        delta,
        accountants.METHOD_NAMES[best],
        Condition.joined(plan.condition for plan, _ in runs),
    )


def releases(runs: Sequence[tuple[Plan, int]], budget: Budget) -> str:
    """How many releases of the same data these runs make, of each plan so many, and what that adds up to by basic
    composition: "9 releases, ε = 18 by adding up; with 1 repeat ε = 6". What was released before them counts once.

    budget : of the runs, in whose currency they are added.
    """
    private = [(plan, repeats) for plan, repeats in runs if plan.private]
    count = sum(repeats for _, repeats in private)
    if count < 2:
        return f"1 release, {_added(private, budget)}" if private else "no release"
    once = [(plan, 1) for plan, _ in private]
    fewer = f"; with 1 repeat {_added(once, budget)}" if count > len(once) else ""
    return f"{count:,} releases, {_added(private, budget)} by adding up{fewer}"


def _added(runs: Sequence[tuple[Plan, int]], budget: Budget) -> str:
    """The sum of what private runs may cost: ε, ρ, the root of all μ², or ε and δ; ε at a δ where no such number is."""
    before = list(chain.from_iterable(dict.fromkeys(plan.facts.released for plan, _ in runs)))
    if budget.currency is not None:
        total = spent(runs, before, budget.currency)
        if math.isfinite(total):
            return f"{UNITS[budget.currency].symbol} = {short(total, 4)}"
    if all(isinstance(plan.budget, ApproximateDP) for plan, _ in runs):
        paid = accountants.total(before, "epsilon")
        epsilon = paid + math.fsum(
            repeats * (plan.budget.limit - accountants.total(plan.facts.released, "epsilon")) for plan, repeats in runs
        )
        delta = math.fsum(repeats * plan.budget.own_delta(0.0) for plan, repeats in runs)
        return f"ε = {short(epsilon, 4)} and δ = {short(delta, 4)}"
    return composed(runs, before, None, budget.own_delta(ApproximateDP().delta)).numbers()


def spent(runs: Sequence[tuple[Plan, int]], before: Sequence[Event], currency: Currency) -> float:
    """Sum of the costs of these runs in a currency that adds up; what was released before them, once."""
    power, earlier = UNITS[currency].power, accountants.total(before, currency)
    own = math.fsum(
        repeats * (float(plan.spent(currency)[-1]) ** power - accountants.total(plan.facts.released, currency) ** power)
        for plan, repeats in runs
    )
    return float((earlier**power + own) ** (1 / power))


def sentences(found: Collection[Cost], conditions: bool = True) -> Iterator[str]:
    """The costs, one sentence each: "one run of each of 4 methods: ε = 8; …"; with their conditions, or not."""
    for cost in found:
        methods = "one method" if cost.methods == 1 else f"each of {cost.methods} methods"
        runs = "one run" if cost.repeats == 1 else f"all {cost.repeats} runs"
        yield f"{runs} of {methods}: {cost.describe() if conditions else cost.numbers()}"
