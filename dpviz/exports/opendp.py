"""Programs that release a plan for several analyses with OpenDP, whose noise is safe on data that must be protected.

The programs are text: nothing here needs OpenDP. THEORY.md, section 11, has how OpenDP counts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context
from typing import Any, Literal

from dpviz import templates
from dpviz.numbers import short_up
from dpviz.privacy.accounting import closed_forms, per_event
from dpviz.privacy.accounting.currencies import Noise
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech
from dpviz.privacy.statistics.analyses import (
    Analyses,
    Count,
    GroupableStatistic,
    Histogram,
    Mean,
    PlannedStatistic,
    Quantile,
    Ranged,
    Sum,
    example_cells,
)
from dpviz.privacy.statistics.noisy_means import protected_change
from dpviz.version import VERSION

Counting = Literal["opendp", "dpviz"]
Unit = Literal["epsilon", "rho"]

_OPERATORS = {"=": "==", "≠": "!=", "<": "<", "≤": "<=", ">": ">", "≥": ">="}


@dataclass(frozen=True)
class Release:
    """A planned statistic as OpenDP releases it.

    number : its place in the plan, from 1. cost : for all rows of a person, in ε for Laplace noise, in ρ for Gaussian
        noise, in `unit` for a selection. unit : in which the losses of the program are added up.
    """

    planned: PlannedStatistic
    number: int
    cost: float
    unit: Unit

    @property
    def measure(self) -> Unit:
        """Unit of `cost`."""
        return _measure(self.planned.noise, self.unit)

    @property
    def scale(self) -> float:
        """Scale of the noise, as `PlannedStatistic.scale`, that has this cost by OpenDP's count: the inverse of
        `_planned_cost`."""
        p, cost = self.planned, self.cost
        if self.measure == "epsilon":
            return _sensitivity(p) / cost
        factor = 8 if p.noise == "selection" else 2  # η = √(8ρ), μ = √(2ρ)
        return _sensitivity(p) / math.sqrt(factor * cost)

    @property
    def factor(self) -> float:
        """Scale of the noise, divided by the planned one."""
        return self.scale / self.planned.scale

    @property
    def key(self) -> str:
        """Source of the name of the statistic in the program; with its number, as two may have one name."""
        return repr(f"{self.number}. {self.planned.statistic.name}")

    @property
    def expression(self) -> str:
        """Source of the Polars expression that the statistic reads; `text` and `number` are functions of the
        program."""
        statistic, column = self.planned.statistic, repr(self.planned.statistic.reads)
        match statistic:
            case Count(groups=groups, by=by) if groups:  # the group of a row that satisfies the condition
                ungrouped = replace(self.planned, statistic=statistic.replaced(by="", groups=()))
                condition = replace(self, planned=ungrouped).expression
                return f"pl.when({condition}).then(text({by!r}))"
            case Count(comparison=comparison, operands=operands) if comparison:
                cell = f"{'text' if isinstance(operands[0], str) else 'number'}({column})"
                if comparison == "is one of":
                    return f"{cell}.is_in({list(operands)!r})"
                return f"{cell} {_OPERATORS[comparison]} {operands[0]!r}"
            case Count():  # without a condition it counts cells that are not 0
                return f"number({column}) != 0"
            case Histogram(keys=keys) if keys:
                return f"text({column})"
        return f"number({column})"

    @property
    def group(self) -> str:
        """Source of the expression of the group of a row, for a sum or a mean in groups; empty for others."""
        statistic = self.planned.statistic
        return f"text({statistic.by!r})" if isinstance(statistic, Sum | Mean) and statistic.groups else ""

    @property
    def counts_unknown_rows(self) -> bool:
        """True for a sum or a mean over a secret number of rows: the rows of the table, or of each group."""
        statistic, is_secret = self.planned.statistic, self.planned.relation == "add/remove-one"
        return isinstance(statistic, Sum | Mean) and (is_secret or bool(statistic.groups))

    @property
    def settings(self) -> str:
        """Source of the settings of the statistic in the program, by the names that its template reads.

        "alone" is true where its cost is not one of those that a privacy filter for several statistics adds up: for a
        selection, and for what `_has_own_filter` describes.
        """
        statistic, noise = self.planned.statistic, self.planned.noise
        values: dict[str, Any] = {
            "name": statistic.name,
            "kind": statistic.title.lower(),
            "measure": self.measure,
            "cost": self.cost,
            "planned": self.planned.scale,
            "alone": noise == "selection" or _has_own_filter(self.planned),
        }
        match statistic:
            case Histogram():
                has_labels = bool(statistic.keys or statistic.cut_points)
                values |= {"bins": statistic.bins, "cut_points": list(statistic.cut_points)}
                values["labels"] = list(statistic.labels) if has_labels else []
            case Count() if statistic.groups:  # one histogram of the groups of the rows that are counted
                values |= {"kind": "histogram", "cut_points": [], "labels": list(statistic.groups)}
            case Ranged():
                values |= {"lowest": statistic.lowest, "highest": statistic.highest}
        if isinstance(statistic, Sum | Mean):
            values |= {"secret": self.counts_unknown_rows, "groups": list(statistic.groups)}
        if isinstance(statistic, Quantile):
            values |= {"level": statistic.level, "values": statistic.candidates}
        return repr(values)


def _has_own_filter(p: PlannedStatistic) -> bool:
    """Return true for Gaussian counts in bins or groups, of which a replaced row leaves one and enters another: OpenDP
    knows their sensitivity, √2, only in a privacy filter for that column alone."""
    is_histogram = isinstance(p.statistic, Histogram) or (isinstance(p.statistic, Count) and bool(p.statistic.groups))
    return p.noise == "gaussian" and is_histogram and p.relation == "replace-one"


def _sensitivity(p: PlannedStatistic) -> float:
    """Return the sensitivity as OpenDP knows it: larger than the planned one for Gaussian sums and means in groups.

    To OpenDP a replaced row is one removed and one added, both perhaps of one group. They move its sum by up to 2
    max(|a|, |b|), twice `farthest`. A mean is released as two numbers, each of which they move by up to b - a, its
    `width`, for half of the cost ρ: with noise √2 times as large.
    """
    statistic = p.statistic
    if not isinstance(statistic, Sum | Mean) or not statistic.groups:
        return p.sensitivity
    if p.noise != "gaussian" or p.relation != "replace-one":
        return p.sensitivity
    row_sensitivity = 2 * statistic.farthest if isinstance(statistic, Sum) else math.sqrt(2) * statistic.width
    return p.rows_per_person * row_sensitivity


def releases(plan: Analyses, budget: Budget, counting: Counting = "opendp") -> tuple[Release, ...]:
    """Return the statistics of a plan as OpenDP releases them.

    counting : whose count of the loss meets the budget: "opendp", or "dpviz", with the planned noise. OpenDP has no
        μ-GDP, so that a budget in μ is always met by the count of dpviz.
    """
    planned = plan.planned(budget)
    limits: dict[Unit, float] = {}  # the budget, in each unit in which OpenDP can count up to it
    if isinstance(budget, PureDP | ApproximateDP) and all(p.noise != "gaussian" for p in planned):
        limits["epsilon"] = budget.epsilon
    if isinstance(budget, ZeroConcentratedDP):
        limits["rho"] = budget.rho
    elif isinstance(budget, ApproximateDP):
        rho = closed_forms.zcdp_rho(budget.epsilon, budget.delta)
        if rho > 0:
            limits["rho"] = rho * (1 - 1e-9)  # OpenDP's conversion to ε is not exact in the last digits
    if counting == "dpviz" or not limits:
        unit: Unit = next(iter(limits), "rho")  # "rho" also where OpenDP cannot count up to the budget
        return _build_releases(planned, [_planned_cost(p, _measure(p.noise, unit)) for p in planned], unit)
    ways = []  # releases that share the limit in a unit as the planned ones share the budget
    for unit, limit in limits.items():
        if unit == "epsilon":  # not by the plan's fractions: under (ε, δ) dpviz may have divided a ρ by them
            sizes = [_planned_cost(p, unit) for p in planned]
        else:
            sizes = [p.share.fraction or 0.0 for p in planned]  # `or`: for the type checker; every one has a fraction
        costs = [limit * size / math.fsum(sizes) for size in sizes]
        # Each cost in the unit of its noise: to OpenDP, Laplace noise of ε has ρ = ε²/2.
        costs_by_noise = [
            cost if _measure(p.noise, unit) == unit else math.sqrt(2 * cost)
            for p, cost in zip(planned, costs, strict=True)
        ]
        ways.append(_build_releases(planned, costs_by_noise, unit))
    # The way with the smaller noise overall: the product of scales compares statistics of different units.
    return min(ways, key=lambda way: math.fsum(math.log(release.scale) for release in way))


def _build_releases(planned: Sequence[PlannedStatistic], costs: Sequence[float], unit: Unit) -> tuple[Release, ...]:
    """Return releases of these costs, rounded down in their twelfth digit: five costs of 0.2 would add up to more than
    1, which OpenDP's filter refuses for good."""
    twelve_digits = Context(prec=12, rounding=ROUND_FLOOR)
    # The factor lowers also a cost that has fewer digits, such as 0.2.
    lowered = [float(twelve_digits.create_decimal_from_float(cost * (1 - 1e-12))) for cost in costs]
    pairs = zip(planned, lowered, strict=True)
    return tuple(Release(p, number, cost, unit) for number, (p, cost) in enumerate(pairs, start=1))


def _measure(noise: Noise, unit: Unit) -> Unit:
    """Return the unit in which OpenDP measures a noise, in a program whose losses are added up in `unit`."""
    measures: dict[Noise, Unit] = {"laplace": "epsilon", "gaussian": "rho", "selection": unit}
    return measures[noise]


def _planned_cost(p: PlannedStatistic, measure: Unit) -> float:
    """Return OpenDP's cost of the planned noise: of a selection of range η it is ε = η or ρ = η²/8."""
    if isinstance(p.event, ExpMech):
        return p.event.eta if measure == "epsilon" else p.event.eta**2 / 8
    if measure == "epsilon":
        return per_event.pure(p.event)
    return per_event.rho(p.event) * (_sensitivity(p) / p.sensitivity) ** 2  # ρ grows with the sensitivity squared


def accounting_note(all_releases: Sequence[Release], budget: Budget, counting: Counting) -> str:
    """Return sentences for the screen: whose count of the loss meets the budget, and what that costs in noise."""
    unit = {"epsilon": "ε", "rho": "ρ"}[all_releases[0].unit]  # the same in all releases
    factor = max(release.factor for release in all_releases)
    if counting == "opendp" and not isinstance(budget, GaussianDP):
        noise = "with the planned noise" if factor < 1 + 1e-8 else f"with up to {short_up(factor, 5)} times its noise"
        return f"OpenDP's own count of the loss, in {unit}, meets the budget, {noise}."
    why = " OpenDP does not count in μ." if isinstance(budget, GaussianDP) else ""
    return (
        f"The noise is the planned one: it meets the budget by dpviz's count. OpenDP's, in {unit}, may be higher.{why}"
    )


def to_opendp(plan: Analyses, budget: Budget, delta: float, counting: Counting = "opendp") -> str:
    """Return the program that releases a plan with OpenDP; no text of the user becomes part of its code.

    delta : at which ε is read, if the budget has no δ. counting : as of `releases`.
    """
    all_releases = releases(plan, budget, counting)
    cells: dict[str, list[str]] = {}  # sources of the cells of a made-up table for a rehearsal, by column
    for release in all_releases:
        statistic = release.planned.statistic
        cells.setdefault(repr(statistic.reads), []).extend(map(str, example_cells(statistic)))
        if isinstance(statistic, GroupableStatistic) and statistic.groups:
            cells.setdefault(repr(statistic.by), []).extend((*statistic.groups, "made up"))  # the last: not declared
    return templates.render(
        "exports/templates/analyses_opendp.py.j2",
        version=VERSION,
        plan=plan,
        budget=budget,
        change=protected_change(plan.relation, plan.rows_per_person),
        secret=plan.relation == "add/remove-one",
        counting=accounting_note(all_releases, budget, counting),
        delta=repr(budget.own_delta(delta)),
        unit=all_releases[0].unit,
        releases=all_releases,
        selections=any(release.planned.noise == "selection" for release in all_releases),
        grouped=any(_has_own_filter(release.planned) for release in all_releases),
        secret_sums=any(r.counts_unknown_rows and isinstance(r.planned.statistic, Sum) for r in all_releases),
        secret_means=any(r.counts_unknown_rows and isinstance(r.planned.statistic, Mean) for r in all_releases),
        in_groups=any(release.group for release in all_releases),
        cells={column: repr(texts) for column, texts in cells.items()},
    )
