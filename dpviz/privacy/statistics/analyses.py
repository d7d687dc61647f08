"""Planned analyses: counts, sums, means, histograms and quantiles of a table, with their noise and their error.

Plans are made without reading data: noise and errors follow from declared ranges and the number of rows n. Under
replace-one all rows of one person, at most k, are replaced by as many others, and n is public; under add/remove-one
they are added or removed, n is secret, and the n of a plan is an assumption, on which errors depend and no noise.
THEORY.md, section 11, has the derivations. Only `released` and the functions below it work with columns of data.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, StringConstraints, model_validator
from scipy.special import lambertw, ndtr, ndtri

from dpviz import resources
from dpviz.errors import UserError
from dpviz.later import pd
from dpviz.numbers import rounded_up, short, short_up
from dpviz.privacy.accounting import per_event
from dpviz.privacy.accounting.currencies import Noise
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Relation
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, seed_or_random
from dpviz.privacy.releases import Norm, Query
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.allocation import Analysis, Share
from dpviz.privacy.statistics.noisy_means import TableSize
from dpviz.specification import Specification, choice, number

_WHY: Mapping[Relation, Mapping[str, str]] = resources.data(__package__, "words.toml")["WHY"]

# Change of several counts, in each norm, if a row leaves one of them and enters another.
_CHANGE_OF_COUNTS: Mapping[Norm, float] = {"l1": 2.0, "l2": math.sqrt(2), "linf": 1.0, "range": 2.0}
CONFIDENCE = 0.95
_NORMAL = float(-ndtri((1 - CONFIDENCE) / 2))  # a normal error is within this many standard deviations, with 95 %
MAX_STATISTICS = 20  # largest number of statistics in a plan
NARROWEST = 1e-100  # smallest width of a column's range with which all computed numbers are finite
NOISES = {"smaller": "Whichever is smaller", "laplace": "Laplace", "gaussian": "Gaussian"}
RELATIONS: Mapping[str, str] = {"replace-one": "Public", "add/remove-one": "Secret"}
Key = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]  # text of a cell
NORMS: dict[Noise, Norm] = {"laplace": "l1", "gaussian": "l2", "selection": "range"}


def error_bound(noise: Noise, scale: float, together: int = 1) -> float:
    """Return the t that none of k = `together` independent noises |X| of this scale exceeds with 95 % probability.

    It solves P(all |X| ≤ t) = 0.95, where the left side is (1 - e^(-t/b))^k for Laplace noise of scale b, and (2 Φ(t/σ)
    - 1)^k for Gaussian noise of standard deviation σ.
    """
    chance = _chance_of_excess(together)
    return scale * float(-math.log(chance) if noise == "laplace" else -ndtri(chance / 2))


def _chance_of_excess(together: int) -> float:
    """Return the probability with which each of k = `together` independent errors may exceed a bound that all k
    together keep with 95 % probability: 1 - 0.95^(1/k)."""
    return -math.expm1(math.log(CONFIDENCE) / together)


def selection_bound(scale: float, candidates: int) -> float:
    """Return a 95 % bound on the gap between the largest utility and that of the candidate that is selected.

    It is the t for which the bound P(gap ≥ t) ≤ x/(1 + x) with x = (N - 1) e^(-t/scale) is 5 %, where N is the number
    of candidates: each of the N - 1 others with a gap of t or more is at most e^(-t/scale) as likely as the best one.

    scale : of the Gumbel noise that the exponential mechanism adds to utilities, the range of their change over η.
    """
    return scale * math.log((candidates - 1) * CONFIDENCE / (1 - CONFIDENCE))


def ratio_bound(noise: Noise, scale: float, together: int = 1) -> float:
    """Return the t that, with 95 % probability, none of k = `together` noisy ratios is off by more than t/n.

    A noisy ratio is (S + X)/(n + Y), clipped to [-1, 1], with |S| ≤ n and independent noises X, Y of this scale. If n +
    Y > 0, the ratio exceeds S/n by more than t/n only if X - cY > t, where c = (S + t)/n is at most 1 because of the
    clip. This event is likeliest at |c| = 1, where X - cY has the law of X + Y. So t solves P(|X + Y| ≤ t)^k = 0.95
    (THEORY.md, section 11), where P(|X + Y| > t) is (1 + t/(2b)) e^(-t/b) for Laplace noise.
    """
    if noise == "gaussian":
        return math.sqrt(2) * error_bound(noise, scale, together)
    # With w = -2 - t/b, the probability is -w e^w e²/2, so that w is a value of Lambert's W, of the branch below -1.
    return scale * (-float(lambertw(-2 * math.exp(-2) * _chance_of_excess(together), -1).real) - 2)


class Statistic(Specification):
    """One number, or several, computed from a table of n rows.

    title : name of the kind of statistic, for the screen.
    unit : unit of its error; empty if it is that of the column.
    column : name of the column that it reads; empty if that is its own name.
    from_data : True if its condition, keys, cut points or groups were read from the data, which no guarantee covers.
    is_rounded : True if released numbers are rounded to whole ones after the noise was added, which costs nothing.

    In its methods, scale : of the noise, in the unit of the numbers that get it. rows : n. relation : the neighbouring
    relation.
    """

    title: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    is_rounded: ClassVar[bool] = False
    name: str = Field("Analysis", min_length=1, max_length=60)
    column: str = Field("", max_length=200)
    from_data: bool = False
    weight: float = number(
        1.0, 1e-6, 1e6, label="Share", symbol="w", scale="log", help="Parts of the budget: 2 gets twice as much as 1."
    )

    accepted_error: float | None = number(
        None,
        1e-12,
        1e9,
        label="Error you accept",
        scale="log",
        help="Largest 95 % error, in the unit of the statistic; empty: a share of its reference, like the others.",
    )

    @property
    @abstractmethod
    def reference_name(self) -> str:
        """Text that names the `reference`, the number to which a relative error refers."""

    @property
    def reads(self) -> str:
        """Name of the column that it reads."""
        return self.column or self.name

    @property
    def of_column(self) -> str:
        """Words that name the declared column, " of “age”"; empty if there is none."""
        return f" of “{self.column}”" if self.column else ""

    @property
    def source(self) -> str:
        """Words for where its condition, keys, cut points or groups come from."""
        return "read from the data" if self.from_data else "declared"

    @property
    def value_count(self) -> int:
        """Number of values in the answer: one, or one for each bin or group."""
        return 1

    def reference(self, rows: int) -> float:
        """Return the number to which a relative error refers; of a count, whose size only the data know, it is n."""
        return rows

    @property
    def max_relative_error(self) -> float:
        """The error, relative to the `reference`, from which on noise hides the statistic."""
        return 1.0

    @property
    @abstractmethod
    def description(self) -> str:
        """Text that describes the statistic with all declared numbers, as "Mean of values clipped to [0, 80]"."""

    @abstractmethod
    def sensitivity(self, norm: Norm, rows: int, relation: Relation = "replace-one") -> float:
        """Return the largest change of the statistic, in `norm`, by a row that is replaced, or added or removed."""

    def why(self, rows: int, relation: Relation = "replace-one") -> str:
        """Return sentences for the screen that explain the sensitivity in a table of this number of rows."""
        return self._why_template(relation)

    def _why_template(self, relation: Relation) -> str:
        """Return the sentences of `why`, with fields such as {width} for numbers."""
        return _WHY[relation][self.title]

    def is_ratio(self, relation: Relation) -> bool:
        """Return whether a noisy sum is divided by a noisy count, since nobody may know the number of rows."""
        return False

    def rows_needed(self, noise: Noise, scale: float, rows: int, relation: Relation, relative: float) -> int:
        """Return the smallest number of rows with which the error divided by the `reference` is at most `relative`.

        noise, scale : those that the statistic's share of the budget gives in a table of `rows` rows.
        """
        # The reference is n, and the error the same for any n.
        return max(1, math.ceil(self.error(noise, scale, rows, relation) / relative))

    def mechanism(self, noise: Noise) -> Noise:
        """Return the mechanism that protects the statistic, in a plan that protects numbers by this noise."""
        return noise

    def standard_deviation(self, noise: Noise, scale: float) -> float | None:
        """Return the standard deviation of the noise in each number; None if it depends on the data."""
        return scale * (math.sqrt(2) if noise == "laplace" else 1.0)

    def error(self, noise: Noise, scale: float, rows: int, relation: Relation, together: int = 1) -> float:
        """Return the error that, with 95 % probability, none of `together` of the statistic's values exceeds."""
        bound = error_bound(noise, scale, together)
        # A whole number with noise of at most k + 1/2 is off by at most k after rounding.
        return max(0.0, math.ceil(bound - 0.5)) if self.is_rounded else bound

    def scale_for(self, noise: Noise, error: float, rows: int, relation: Relation) -> float:
        """Return the largest scale of the noise with which the statistic's 95 % error is at most `error`."""
        bound = math.floor(error) + 0.5 if self.is_rounded else error  # for whole numbers, as in the method `error`
        return bound / error_bound(noise, 1.0)

    def sampling_error(self, rows: int) -> float:
        """Return the 95 % error, without any noise, as an estimate for the people of whom the rows are a random sample.

        It is by the normal approximation, and for the largest variance that is possible where nothing is declared.
        """
        return _NORMAL * math.sqrt(rows) / 2  # of a number of rows: √(n p (1 - p)) at p = 1/2

    def clipping_bias(self, rows: int) -> float | None:
        """Return by how much clipping moves the statistic if values are as declared; None if nothing is declared."""
        return 0.0


class Ranged(Statistic):
    """A statistic of a column whose values are clipped to a declared range."""

    lowest: float = number(0.0, -1e12, 1e12, label="Lowest value", symbol="a", help="Smaller values count as this.")
    highest: float = number(1.0, -1e12, 1e12, label="Highest value", symbol="b", help="Larger values count as this.")
    typical: float | None = number(
        None, -1e12, 1e12, label="Typical value", help="Mean of the values before clipping, as you expect it."
    )
    spread: float | None = number(
        None, 1e-12, 1e9, label="Spread", scale="log", help="Their standard deviation, as you expect it."
    )

    @model_validator(mode="after")
    def _ordered(self) -> "Ranged":
        if not self.lowest < self.highest:
            raise ValueError("the lowest value must be below the highest")
        if self.width < NARROWEST:
            raise ValueError("the range is too narrow to compute with; state it in a smaller unit")
        return self

    @property
    def width(self) -> float:
        """Width of the declared range, b - a."""
        return self.highest - self.lowest

    @property
    def description(self) -> str:
        return (
            f"{self.title}{self.of_column or ' of values'} clipped to "
            f"[{short(self.lowest, 13)}, {short(self.highest, 13)}]"
        )

    @property
    def _deviation(self) -> float:
        """Standard deviation of the clipped values: at most that before clipping, and at most half of the range."""
        return self.width / 2 if self.spread is None else min(self.spread, self.width / 2)

    @property
    def _bias(self) -> float | None:
        """Mean of the clipped values minus that of all values, which are normal with the declared mean and spread."""
        if self.typical is None or self.spread is None:
            return None
        low, high = ((end - self.typical) / self.spread for end in (self.lowest, self.highest))
        # Clipping raises a standard normal Z by (low - Z)₊ and lowers it by (Z - high)₊. The expectation of the first
        # is low Φ(low) + φ(low), that of the second φ(high) - high Φ(-high).
        phi_low, phi_high = (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) for z in (low, high))
        raised, lowered = low * ndtr(low) + phi_low, phi_high - high * ndtr(-high)
        return self.spread * float(raised - lowered)

    @property
    def farthest(self) -> float:
        """Distance from 0 to the farther end of the declared range, max(|a|, |b|)."""
        return max(abs(self.lowest), abs(self.highest))

    def why(self, rows: int, relation: Relation = "replace-one") -> str:
        return self._why_template(relation).format(
            width=short_up(self.width, 6),
            rows=rows,
            share=short_up(self.width / rows),
            farthest=short_up(self.farthest, 6),
            half=short_up(self.width / 2, 6),
            range=short_up(self.sensitivity("range", rows, relation)),
            l1=short_up(self.sensitivity("l1", rows, relation), 6),
            l2=short_up(self.sensitivity("l2", rows, relation), 6),
        )


class GroupableStatistic(Statistic):
    """A statistic of all rows, or one for each of several declared groups of them. A row is in at most one group.

    by, groups : a column, and the texts of its cells, one for each group. Rows of other groups are not counted.
    """

    by: str = Field("", max_length=200)
    groups: tuple[Key, ...] = Field((), max_length=1000)

    @model_validator(mode="after")
    def _has_groups(self) -> "GroupableStatistic":
        if bool(self.by) != bool(self.groups) or len(self.groups) == 1:
            raise ValueError("groups are a column and at least two texts of its cells")
        if len(set(self.groups)) < len(self.groups):
            raise ValueError("a group is named twice")
        return self

    @property
    def value_count(self) -> int:
        return len(self.groups) or 1

    @property
    def labels(self) -> tuple[str, ...]:
        """Text that names each group."""
        return self.groups

    @property
    def in_groups(self) -> str:
        """Words that name the groups, " for each of 2 groups of “region”, declared: …"; empty without groups."""
        if not self.groups:
            return ""
        return f", for each of {len(self.groups):,} groups of “{self.by}”, {self.source}: {_listed(self.groups)}"

    def _why_template(self, relation: Relation) -> str:
        return _WHY[relation][f"{self.title}{'Groups' * bool(self.groups)}"]  # for instance "Count", "CountGroups"


class Count(GroupableStatistic):
    """The number of rows that satisfy a condition, which depends on each row alone.

    comparison, operands : the condition on the cell of the column, such as "≥" and (65.0,), or "is one of" and
        ("north", "south"). Numbers are compared with the cell as a number, texts with the cell as it is written.
        Without a comparison, rows count whose cell is a number other than 0. An empty cell satisfies no condition.

    >>> import dpviz
    >>> dpviz.statistics(dpviz.PureDP(epsilon=1), dpviz.Count("smokers"), rows=10_000)
    <Statistics of 10,000 rows at ε = 1, 95 %: smokers ± 3 rows>
    """

    kind: ClassVar[str] = "privacy.analyses.count"
    title: ClassVar[str] = "Count"
    unit: ClassVar[str] = "rows"
    is_rounded: ClassVar[bool] = True
    comparison: Literal["", "=", "≠", "<", "≤", ">", "≥", "is one of"] = ""
    operands: tuple[float | Key, ...] = Field((), max_length=1000)

    @model_validator(mode="after")
    def _is_condition(self) -> "Count":
        kinds = {type(operand) for operand in self.operands}
        if bool(self.comparison) != bool(self.operands):
            raise ValueError("a condition is a comparison and what the cell is compared with")
        if len(self.operands) > 1 and self.comparison != "is one of":
            raise ValueError(f"“{self.comparison}” compares with one value; use “is one of” for several")
        if self.comparison in ("<", "≤", ">", "≥") and kinds != {float}:
            raise ValueError(f"“{self.comparison}” compares with a number")
        if len(kinds) > 1:
            raise ValueError("compare with numbers or with texts, not with both")
        if len(set(self.operands)) < len(self.operands):
            raise ValueError("a value is named twice")
        return self

    @property
    def reference_name(self) -> str:
        return "the count in a group" if self.groups else "the count"

    @property
    def description(self) -> str:
        if not self.comparison:
            return f"Count{self.of_column} of the rows that satisfy a condition{self.in_groups}"
        condition = f"“{self.reads}” {self.comparison} {_listed(self.operands)}, {self.source}"
        return f"Count of the rows where {condition}{self.in_groups}"

    def sensitivity(self, norm: Norm, rows: int, relation: Relation = "replace-one") -> float:
        if self.groups and relation == "replace-one":
            return _CHANGE_OF_COUNTS[norm]
        return 1.0


class Sum(GroupableStatistic, Ranged):
    """The sum of a column.

    >>> import dpviz
    >>> dpviz.statistics(dpviz.PureDP(epsilon=1), dpviz.Sum("hours", lowest=0, highest=80), rows=10_000)
    <Statistics of 10,000 rows at ε = 1, 95 %: hours ± 240>
    """

    kind: ClassVar[str] = "privacy.analyses.sum"
    title: ClassVar[str] = "Sum"

    @property
    def reference_name(self) -> str:
        return "n (b − a)" if not self.groups else f"n (b − a)/{len(self.groups):,}"

    def sensitivity(self, norm: Norm, rows: int, relation: Relation = "replace-one") -> float:
        if relation == "add/remove-one":
            return self.farthest
        if not self.groups:
            return self.width
        # A row moves its own group's sum within [a, b], or leaves one group's sum and enters another's.
        return max(self.width, self.farthest * _CHANGE_OF_COUNTS[norm])

    @property
    def description(self) -> str:
        return f"{super().description}{self.in_groups}"

    def sampling_error(self, rows: int) -> float:
        # What a row adds to the sum of a group is 0, or within [a, b]; half of that range is the largest deviation.
        if self.groups:
            return _NORMAL * (max(self.highest, 0.0) - min(self.lowest, 0.0)) / 2 * math.sqrt(rows)
        return _NORMAL * self._deviation * math.sqrt(rows)

    def clipping_bias(self, rows: int) -> float | None:
        return None if self._bias is None else rows / self.value_count * self._bias

    def reference(self, rows: int) -> float:
        """Return n (b - a)/G: how far the sum of a group of n/G rows can move if their values lie in [a, b]."""
        return rows / self.value_count * self.width

    def rows_needed(self, noise: Noise, scale: float, rows: int, relation: Relation, relative: float) -> int:
        """Return the smallest n with error ≤ relative n (b - a)/G, the `reference`: the error is the same for any n."""
        return max(1, math.ceil(self.value_count * self.error(noise, scale, rows, relation) / (relative * self.width)))


class Mean(GroupableStatistic, Ranged):
    """The mean of a column: its sum divided by the public number of rows.

    Under add/remove-one the number of rows is secret, and so is that of a group under both relations: two numbers get
    noise of one scale, Σ (x - c) and h n, where c is the middle and h half the width of the range, and the mean is c
    plus h times their ratio. The error is for groups of equal size.

    >>> import dpviz
    >>> dpviz.statistics(dpviz.PureDP(epsilon=1), dpviz.Mean("age", lowest=0, highest=100), rows=10_000)
    <Statistics of 10,000 rows at ε = 1, 95 %: age ± 0.03>
    """

    kind: ClassVar[str] = "privacy.analyses.mean"
    title: ClassVar[str] = "Mean"

    @property
    def reference_name(self) -> str:
        return "b − a"

    def sensitivity(self, norm: Norm, rows: int, relation: Relation = "replace-one") -> float:
        if relation == "add/remove-one":  # two numbers move by at most h = width/2 each: by 2h, √2 h, h and 2h
            return self.width / {"l1": 1.0, "l2": math.sqrt(2), "linf": 2.0, "range": 1.0}[norm]
        if self.groups:  # the numbers of two groups by at most h each, or the sum of one group by at most 2h
            return self.width * (2.0 if norm in ("l1", "range") else 1.0)
        return self.width / rows

    @property
    def description(self) -> str:
        return f"{super().description}{self.in_groups}"

    def is_ratio(self, relation: Relation) -> bool:
        return bool(self.groups) or relation == "add/remove-one"

    def error(self, noise: Noise, scale: float, rows: int, relation: Relation, together: int = 1) -> float:
        if self.is_ratio(relation):
            # h times the bound for the ratio of Σ (x - c)/h to n/G, whose noise has the scale divided by h.
            return min(self.width, ratio_bound(noise, scale, together) * self.value_count / rows)
        return super().error(noise, scale, rows, relation, together)

    def scale_for(self, noise: Noise, error: float, rows: int, relation: Relation) -> float:
        if self.is_ratio(relation):
            return error * rows / self.value_count / ratio_bound(noise, 1.0)
        return super().scale_for(noise, error, rows, relation)

    def sampling_error(self, rows: int) -> float:
        return _NORMAL * self._deviation / math.sqrt(rows / self.value_count)

    def clipping_bias(self, rows: int) -> float | None:
        return self._bias

    def reference(self, rows: int) -> float:
        return self.width

    def rows_needed(self, noise: Noise, scale: float, rows: int, relation: Relation, relative: float) -> int:
        if self.is_ratio(relation):
            # The scale is the same in a table of any size.
            return max(1, math.ceil(self.value_count * ratio_bound(noise, scale) / (relative * self.width)))
        # The scale is in proportion to 1/n, as the sensitivity is.
        return max(1, math.ceil(self.error(noise, scale, rows, relation) * rows / (relative * self.width)))


class Histogram(Statistic):
    """The number of rows in each of several declared bins. A row is in at most one bin.

    keys : the texts of the cells, one for each bin. cut_points : a bin is from one of these numbers up to the next,
        which is not in it; the last is in the last bin. Without either, cells are numbers of bins, from 0. With either,
        `bins` follows from it. Rows with another cell are not counted.

    >>> import dpviz
    >>> dpviz.statistics(dpviz.PureDP(epsilon=1), dpviz.Histogram("regions", bins=12), rows=10_000)
    <Statistics of 10,000 rows at ε = 1, 95 %: regions ± 6 rows>
    """

    kind: ClassVar[str] = "privacy.analyses.histogram"
    title: ClassVar[str] = "Histogram"
    unit: ClassVar[str] = "rows"
    is_rounded: ClassVar[bool] = True
    bins: int = number(
        10, 2, 100_000, label="Bins", symbol="B", scale="log", help="Categories or ranges, all declared beforehand."
    )
    keys: tuple[Key, ...] = Field((), max_length=1000)
    cut_points: tuple[float, ...] = Field((), max_length=1001)

    @model_validator(mode="before")
    @classmethod
    def _set_bins(cls, values: Any) -> Any:
        if not isinstance(values, dict):  # pydantic passes a ready Histogram, too
            return values
        for name, surplus in (("keys", 0), ("cut_points", 1)):  # there is one cut point more than bins
            declared = values.get(name, ())
            if not isinstance(declared, list | tuple):
                raise ValueError(f"{name} must be a list")
            if declared:
                return values | {"bins": len(declared) - surplus}
        return values

    @model_validator(mode="after")
    def _are_bins(self) -> "Histogram":
        if self.keys and self.cut_points:
            raise ValueError("declare keys or cut points, not both")
        if len(set(self.keys)) < len(self.keys):
            raise ValueError("a key is named twice")
        if any(low >= high for low, high in pairwise(self.cut_points)):
            raise ValueError("every cut point must be larger than the one before")
        return self

    @property
    def reference_name(self) -> str:
        return "the count in a bin"

    @property
    def value_count(self) -> int:
        return self.bins

    @property
    def labels(self) -> tuple[str, ...]:
        """Text that names each bin."""
        if self.cut_points:
            ranges = [f"[{low:.15g}, {high:.15g}" for low, high in pairwise(self.cut_points)]
            return (*(f"{text})" for text in ranges[:-1]), f"{ranges[-1]}]")  # the last bin has its upper end, too
        return self.keys or tuple(map(str, range(self.bins)))

    @property
    def description(self) -> str:
        if self.cut_points:
            return (
                f"Histogram{self.of_column} over {self.bins:,} ranges, {self.source}, cut at {_listed(self.cut_points)}"
            )
        bins = f"keys, {self.source}: {_listed(self.keys)}" if self.keys else "declared bins"
        return f"Histogram{self.of_column} over {self.bins:,} {bins}"

    def sensitivity(self, norm: Norm, rows: int, relation: Relation = "replace-one") -> float:
        if relation == "add/remove-one":
            return 1.0
        return _CHANGE_OF_COUNTS[norm]


class Quantile(Ranged):
    """A quantile of a column by the exponential mechanism, among evenly spaced values of the declared range.

    A value's utility is minus the number of rows between it and the wanted rank q n.

    >>> import dpviz
    >>> dpviz.statistics(dpviz.PureDP(epsilon=1), dpviz.Quantile("median age", lowest=0, highest=100), rows=10_000)
    <Statistics of 10,000 rows at ε = 1, 95 %: median age ± 15.1 ranks>
    """

    kind: ClassVar[str] = "privacy.analyses.quantile"
    title: ClassVar[str] = "Quantile"
    unit: ClassVar[str] = "ranks"
    level: float = number(0.5, 0.001, 0.999, label="Level", symbol="q", help="0.5 is the median.")
    candidates: int = number(
        101, 2, 1_000_000, label="Values", symbol="N", scale="log", help="That can be released, evenly spaced."
    )

    @property
    def reference_name(self) -> str:
        return "n"

    @property
    def description(self) -> str:
        return (
            f"Quantile {short(self.level, 6)}{self.of_column} among {self.candidates:,} evenly spaced values from "
            f"{short(self.lowest, 13)} to {short(self.highest, 13)}"
        )

    @property
    def max_relative_error(self) -> float:
        """Distance from the wanted rank to the farther end of the table, relative to n."""
        return max(self.level, 1 - self.level)

    def sensitivity(self, norm: Norm, rows: int, relation: Relation = "replace-one") -> float:
        # A row moves the ranks of values by 1, or, if it comes or goes, by 1 - q or -q against the wanted rank q n.
        change = 1.0 if relation == "replace-one" else max(self.level, 1 - self.level)
        return 2 * change if norm == "range" else change  # one utility may rise and another one fall

    def mechanism(self, noise: Noise) -> Noise:
        return "selection"

    def standard_deviation(self, noise: Noise, scale: float) -> float | None:
        return None

    def error(self, noise: Noise, scale: float, rows: int, relation: Relation, together: int = 1) -> float:
        """Return the error in ranks that is not exceeded with 95 % probability, for any data.

        The values of the column are rounded to candidates, so one candidate has the wanted rank and utility 0, and the
        gap of the selected one is its distance from that rank.
        """
        return selection_bound(scale, self.candidates)

    def scale_for(self, noise: Noise, error: float, rows: int, relation: Relation) -> float:
        return error / self.error(noise, 1.0, rows, relation)

    def sampling_error(self, rows: int) -> float:
        return _NORMAL * math.sqrt(rows * self.level * (1 - self.level))  # ranks between sample and wanted quantile


def _listed(declared: Sequence[float | str]) -> str:
    """Return declared numbers or texts in words; of more than twelve only the first, as a sentence must stay short."""
    words = [f"“{value}”" if isinstance(value, str) else f"{value:.15g}" for value in declared[:12]]
    return ", ".join(words) + (f" and {len(declared) - 12:,} more" if len(declared) > 12 else "")


@dataclass(frozen=True)
class PlannedStatistic:
    """A statistic with the share of the budget that it gets.

    share : its release; the noise scale in it is that for a sensitivity of 1.
    rows : n, the number of rows of the table; under add/remove-one it is an assumption. rows_per_person : k, the
        largest number of rows of one person. relation : the neighbouring relation.
    """

    statistic: Statistic
    share: Share
    rows: int
    rows_per_person: int = 1
    relation: Relation = "replace-one"

    @property
    def event(self) -> Event:
        """Event that is charged for the release."""
        return self.share.event

    @property
    def noise(self) -> Noise:
        """Mechanism that protects the statistic."""
        return self.share.analysis.noise

    @property
    def sensitivity(self) -> float:
        """Sensitivity of the statistic to the k rows of a person, in the norm of its mechanism (`NORMS`)."""
        return self.rows_per_person * self.statistic.sensitivity(NORMS[self.noise], self.rows, self.relation)

    @property
    def why(self) -> str:
        """Sentences for the screen that explain how far one row moves the statistic."""
        return self.statistic.why(self.rows, self.relation)

    @property
    def scale(self) -> float:
        """Scale of the noise: b (Laplace), σ (Gaussian), or for a selection that of the Gumbel noise, in ranks."""
        assert self.share.noise_scale is not None
        return self.sensitivity * self.share.noise_scale

    @property
    def standard_deviation(self) -> float | None:
        """Standard deviation of the noise in each number; None if it depends on the data."""
        if self.statistic.is_ratio(self.relation):
            return None
        return self.statistic.standard_deviation(self.noise, self.scale)

    @property
    def error(self) -> float:
        """Error that the noise in a single number does not exceed with 95 % probability."""
        return self.statistic.error(self.noise, self.scale, self.rows, self.relation)

    @property
    def largest_error(self) -> float | None:
        """Error that, with 95 % probability, none of the statistic's numbers exceeds; None if there is only one."""
        if self.statistic.value_count == 1:
            return None
        return self.statistic.error(self.noise, self.scale, self.rows, self.relation, self.statistic.value_count)

    @property
    def is_drowned(self) -> bool:
        """True if the error is as large as any possible error in a table of this size, so that the noise hides all."""
        return self.rows_needed(self.statistic.max_relative_error) > self.rows

    def rows_needed(self, relative: float) -> int:
        """Return the smallest number of rows with which the 95 % error, divided by the statistic's `reference`, is at
        most `relative`, with the same share of the same budget."""
        return self.statistic.rows_needed(self.noise, self.scale, self.rows, self.relation, relative)

    @property
    def relative_error(self) -> float:
        """The 95 % error divided by the statistic's `reference`; for a count, by n."""
        return self.error / self.statistic.reference(self.rows)


class Analyses(TableSize):
    """Several statistics of the same table, which share a budget.

    >>> from dpviz.privacy.budgets import PureDP
    >>> plan = Analyses(rows=1000, statistics=(Count(name="aged 65 or more"), Mean(name="hours", highest=80.0)))
    >>> [round(planned.scale, 3) for planned in plan.planned(PureDP(epsilon=1.0))]
    [2.0, 0.16]
    """

    kind: ClassVar[str] = "privacy.analyses.analyses"
    noise: Literal["smaller", "laplace", "gaussian"] = choice(
        "smaller",
        NOISES,
        label="Noise of numbers",
        help="Pure ε allows only Laplace noise. Under the other guarantees Gaussian noise is often smaller.",
    )
    relation: Relation = choice(
        "replace-one",
        RELATIONS,
        label="Number of rows",
        help="Public: a row may be replaced. Secret: a row may be added or removed; n is then an assumption, on which "
        "only errors depend.",
    )
    statistics: tuple[Statistic, ...] = Field(min_length=1, max_length=MAX_STATISTICS)

    @property
    def rows_text(self) -> str:
        """Number of rows in words: "10,000", or "about 10,000" where it is secret and assumed."""
        return f"{'about ' * (self.relation == 'add/remove-one')}{self.rows:,}"

    @property
    def from_data(self) -> tuple[str, ...]:
        """Names of the statistics whose condition, keys, cut points or groups were read from the data."""
        return tuple(statistic.name for statistic in self.statistics if statistic.from_data)

    def planned(self, budget: Budget) -> tuple[PlannedStatistic, ...]:
        """Return each statistic with its share of the budget, in proportion to its weight.

        Raises UserError if a mechanism cannot meet a budget in this currency, or if the currency cannot be split.
        """
        return _planned(self, budget)

    def warning(self, budget: Budget) -> str:
        """Return a sentence for the screen if δ is 1/n or more, which allows to publish rows; else an empty text."""
        if not isinstance(budget, ApproximateDP) or budget.delta * self.rows < 1:
            return ""
        rows = "each row" if self.rows_per_person == 1 else "all rows of each person, together,"
        return f"**δ is not below 1/n**: the guarantee allows publishing {rows} with probability {short(budget.delta)}."

    def accepted_errors(self, relative: float) -> tuple[float, ...]:
        """Return the largest 95 % error of each statistic that is accepted: as declared, or else `relative` times its
        reference."""
        return tuple(
            s.reference(self.rows) * relative if s.accepted_error is None else s.accepted_error for s in self.statistics
        )


@lru_cache(64)
def _planned(plan: Analyses, budget: Budget) -> tuple[PlannedStatistic, ...]:
    """Return `plan.planned(budget)`: with the noise that the plan demands, or with the one that is smaller overall."""
    candidates = []
    for noise in _noises(plan, budget):
        # All analyses have sensitivity 1: shares in proportion to weights do not depend on it. Shares that minimise the
        # sum of errors would, but errors in different units, such as euros and rows, cannot be added.
        analyses = [Analysis(name=s.name, noise=s.mechanism(noise), weight=s.weight) for s in plan.statistics]
        shares = allocation.split(budget, analyses, "proportional")
        planned = (
            PlannedStatistic(statistic, share, plan.rows, plan.rows_per_person, plan.relation)
            for statistic, share in zip(plan.statistics, shares, strict=True)
        )
        candidates.append(tuple(planned))
    return min(candidates, key=_log_noise)


def _noises(plan: Analyses, budget: Budget) -> Sequence[Noise]:
    """Return the kinds of noise that the plan allows under this budget; raise UserError if there are none."""
    if plan.noise == "smaller":
        return ("laplace", "gaussian") if budget.allows_gaussian else ("laplace",)
    if plan.noise == "gaussian" and not budget.allows_gaussian:
        raise UserError(
            "Gaussian noise never gives pure ε-DP. Choose Laplace noise, or state the budget as (ε, δ), ρ or μ.",
            title="This budget does not exist for Gaussian noise",
        )
    return (plan.noise,)


def _log_noise(planned: tuple[PlannedStatistic, ...]) -> float:
    """Return Σ log of the noises' standard deviations, which ranks plans without regard to units."""
    deviations = (p.statistic.standard_deviation(p.noise, p.scale) for p in planned)
    return math.fsum(math.log(deviation) for deviation in deviations if deviation is not None)


@dataclass(frozen=True)
class Smallest:
    """The smallest budget that meets given errors, and the plan that does so: `plan.planned(budget)`."""

    budget: Budget
    plan: Analyses


def smallest_budget(plan: Analyses, errors: Sequence[float], budget: Budget, *, on_page: bool = False) -> Smallest:
    """Return the smallest budget, in three digits, in which no statistic has a larger 95 % error than is wanted.

    Every statistic gets the noise with which it has just the wanted error; what these releases cost together is the
    budget, and what each costs alone is its weight. Of Laplace and Gaussian noise the one that costs less is taken.

    errors : for each statistic, in its unit. budget : in the wanted currency and with the wanted δ, of any size.
    on_page : True for a budget in the range of its slider. Raises UserError if the errors need more than the largest
    budget.
    """
    return _smallest(plan, tuple(errors), _default_size(budget), on_page)  # cached, once for all sizes of the budget


def cost_of_errors(plan: Analyses, errors: Sequence[float], budget: Budget) -> float:
    """Return what releases with just these errors cost together, in the unit of `budget.limit`."""
    cost, _ = _cheapest(plan, tuple(errors), _default_size(budget))
    return cost


def _default_size(budget: Budget) -> Budget:
    """Return the budget in its default size, so that what does not depend on its size is cached once."""
    control, *_ = budget.controls()  # of the field that says how much privacy there is
    return budget.replaced(**{control.name: control.default})


@lru_cache(64)
def _cheapest(plan: Analyses, errors: tuple[float, ...], budget: Budget) -> tuple[float, Analyses]:
    """Return what releases with these errors cost together, and the plan with their noise and weights."""
    options: list[tuple[float, Analyses]] = []
    for noise in _noises(plan, budget):
        events = tuple(
            _event(statistic, statistic.mechanism(noise), error, plan)
            for statistic, error in zip(plan.statistics, errors, strict=True)
        )
        # Under (ε, δ), where costs do not add up, shares are of ρ.
        costs = [budget.cost((event,)) if budget.adds_up else per_event.rho(event) for event in events]
        weights = [max(cost / max(costs), 1e-6) for cost in costs]  # 1e-6: the smallest weight of a `Statistic`
        statistics = tuple(s.replaced(weight=weight) for s, weight in zip(plan.statistics, weights, strict=True))
        spent = budget.in_unit_of_limit(budget.cost(events))
        options.append((spent, plan.replaced(noise=noise, statistics=statistics)))
    return min(options, key=lambda option: option[0])  # by what is spent


@lru_cache(64)
def _smallest(plan: Analyses, errors: tuple[float, ...], budget: Budget, on_page: bool) -> Smallest:
    """Return `smallest_budget`, which does not depend on the size of `budget`."""
    control, *_ = budget.controls()  # of the field that says how much privacy there is
    spent, weighted_plan = _cheapest(plan, errors, budget)
    assert control.low is not None and control.high is not None
    low, high = (control.low, control.high) if on_page else control.limits
    size = max(rounded_up(spent), low)
    while size <= high:
        candidate = budget.replaced(**{control.name: size})
        planned = weighted_plan.planned(candidate)
        if all(p.error <= error * (1 + 1e-9) for p, error in zip(planned, errors, strict=True)):
            return Smallest(candidate, weighted_plan)
        # It is too small if a weight was raised to 1e-6, or if the split is one of ε.
        size = rounded_up(1.002 * size)  # about the next number of three digits
    raise UserError(
        f"These errors need {control.symbol} = {short_up(size)}, and the largest is {short(high)}. Accept "
        "larger ones, or ask of more rows.",
        title="No budget is enough",
    )


def _event(statistic: Statistic, noise: Noise, error: float, plan: Analyses) -> Event:
    """Return the release of a statistic whose 95 % error is `error`."""
    kinds: Mapping[Noise, Callable[[float], Event]] = {"laplace": Laplace, "gaussian": Gaussian, "selection": ExpMech}
    sensitivity = plan.rows_per_person * statistic.sensitivity(NORMS[noise], plan.rows, plan.relation)
    return kinds[noise](sensitivity / statistic.scale_for(noise, error, plan.rows, plan.relation))


# ----------------------------------------------------------------------------------- the release, computed from columns
# Whatever values a column has, its statistic changes by at most the planned sensitivity between neighbours: values are
# clipped, missing ones count as the lowest value of the range, and bins that were not declared are not counted.


def release(
    planned: Sequence[PlannedStatistic],
    columns: Iterable[ArrayLike],
    seed: int | None = None,
    people: ArrayLike | None = None,
) -> list[Any]:
    """Release every planned statistic of a table; return for each a number, or the numbers (B,) of a histogram.

    columns : one for each statistic, with its values in the n rows (any number of rows under add/remove-one), as `read`
        takes them from a table: True or False for a count; numbers for a sum, a mean or a quantile; the index of the
        bin, from 0, for a histogram; (n, 2) with the index of the group, from 0, if there are groups.
    seed : of the noise; None draws a new, unknown one.
    people : (n,) the person of each row; not needed where every row is a person of its own.

    All answers together cost the planned budget; the ledger refuses anything else. The guarantee is that of exact
    arithmetic: noise in floating-point numbers is not safe for data that must be protected (Mironov 2012). Raises
    UserError for a column that does not consist of n numbers, and where a person may have more rows than is planned.
    """
    numbers = [_numbers(p, column) for p, column in zip(planned, columns, strict=True)]
    max_rows = min(p.rows_per_person for p in planned)
    is_missing = people is None and max_rows > 1
    if is_missing or (people is not None and np.shape(people) != (len(numbers[0]),)):
        raise UserError(
            f"Give `people`: the person of each of the rows. The plan is for people with up to {max_rows:,} rows.",
            title="Whose rows are these?",
        )
    if people is not None:
        _, counts = np.unique(np.asarray(people).astype(str), return_counts=True)  # missing names, too
        if counts.max(initial=0) > max_rows:
            raise UserError(
                f"Somebody has more rows than the {max_rows:,} of the plan. Keep `rows_kept(people, {max_rows})` of "
                "the table, and plan with their number.",
                title="Too many rows of one person",
            )
    relation = planned[0].relation  # that of the plan, so the same for all
    ledger = Ledger(FixedEvents(tuple(p.event for p in planned)), replicates=1, otherwise=relation)
    mechanisms = Mechanisms(ledger, seed_or_random(seed))
    return [_answer(p, column, mechanisms) for p, column in zip(planned, numbers, strict=True)]


def _answer(planned: PlannedStatistic, column: np.ndarray, mechanisms: Mechanisms) -> Any:
    """Release one planned statistic of a column, (n,) or (n, 2): a number, or the numbers of all bins or groups."""
    statistic, event = planned.statistic, planned.event
    offset = 0.0
    if planned.relation == "replace-one" and isinstance(statistic, Sum | Mean) and not statistic.groups:
        # Values count from the middle of their range: far from 0 rounding would leave no digits for the noise. The
        # `offset`, which is added back afterwards, is public as n is.
        middle, half = (statistic.lowest + statistic.highest) / 2, statistic.width / 2
        column = _clipped(statistic, column) - middle
        offset = middle * (len(column) if isinstance(statistic, Sum) else 1)
        statistic = statistic.replaced(lowest=-half, highest=half)
    exact = exact_values(statistic, column, planned.relation)[None]  # of one replicate, and so is `noisy` below
    query = Query(exact, planned.sensitivity, NORMS[planned.noise], relation=planned.relation)
    if isinstance(statistic, Quantile):
        index = mechanisms.exponential(query, event).item()  # one replicate, one selection
        return float(np.linspace(statistic.lowest, statistic.highest, statistic.candidates)[index])
    release = mechanisms.laplace if planned.noise == "laplace" else mechanisms.gaussian
    (noisy,) = release(query, event)
    if isinstance(statistic, Ranged) and statistic.is_ratio(planned.relation):
        total, count = noisy.reshape(2, statistic.value_count)  # as `exact_values` orders them
        # A noisy count that is not positive says nothing: then the mean is the middle of the range.
        ratio = np.where(count > 0, np.clip(total / np.where(count > 0, count, 1.0), -1, 1), 0.0)
        means = (statistic.lowest + statistic.highest) / 2 + statistic.width / 2 * ratio
        return means if statistic.value_count > 1 else means.item()
    answer = np.round(noisy).astype(int) if statistic.is_rounded else noisy + offset
    return answer if statistic.value_count > 1 else answer.item()


def _numbers(p: PlannedStatistic, column: ArrayLike) -> np.ndarray:
    """Return the column as n numbers, (n,) or (n, 2); raise UserError, which quotes none of its values, if it is
    anything else. Under add/remove-one n may be any."""
    try:
        numbers = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        numbers = None
    is_public = p.relation == "replace-one"
    has_groups = isinstance(p.statistic, GroupableStatistic) and bool(p.statistic.groups)
    shape = (2,) if has_groups else ()
    if numbers is None or numbers.ndim == 0 or numbers.shape[1:] != shape or (is_public and len(numbers) != p.rows):
        count = f"{p.rows:,} numbers" if is_public else "numbers"
        index = ", with the index of its group" if has_groups else ""
        raise UserError(
            f"{p.statistic.name} needs {count}, or True or False, one for each row{index}.",
            title="This column does not fit the plan",
        )
    return numbers


def exact_values(statistic: Statistic, column: np.ndarray, relation: Relation = "replace-one") -> np.ndarray:
    """Return the exact, not private value of a statistic of a column (n,): (1,), or (B,) for a histogram with B bins.

    For a quantile, they are the utilities of the N candidates, (N,); for a mean under add/remove-one Σ (x - c) and h n,
    (2,), with the middle c and half the width h of the range. With G groups the column is (n, 2), and each of these
    numbers is (G,), one after the other.
    """
    groups = np.zeros(len(column))  # without groups, all rows are in one
    if isinstance(statistic, GroupableStatistic) and statistic.groups:
        is_declared = (column[:, 1] >= 0) & (column[:, 1] < statistic.value_count)
        column, groups = column[is_declared].T  # its two columns

    def per_group(numbers: np.ndarray) -> np.ndarray:
        """Return the sums of the numbers (n,) in each group, (G,); of all of them, (1,), without groups."""
        return np.bincount(groups.astype(int), weights=numbers, minlength=statistic.value_count)

    match statistic:
        case Mean() if statistic.is_ratio(relation):
            middle, half = (statistic.lowest + statistic.highest) / 2, statistic.width / 2
            centred = np.clip(_clipped(statistic, column) - middle, -half, half)
            return np.concatenate([per_group(centred), half * per_group(np.ones(len(column)))])
        case Count():
            return per_group((np.nan_to_num(column) != 0).astype(float))  # missing values are not counted
        case Sum():
            return per_group(_clipped(statistic, column))
        case Mean():
            return np.array([_clipped(statistic, column).mean()])
        case Histogram():
            declared = column[(column >= 0) & (column < statistic.bins)]
            return np.bincount(declared.astype(int), minlength=statistic.bins).astype(float)
        case Quantile():
            steps = (_clipped(statistic, column) - statistic.lowest) / statistic.width * (statistic.candidates - 1)
            counts = np.bincount(np.round(steps).astype(int), minlength=statistic.candidates)  # rows at each candidate
            up_to = np.cumsum(counts)
            below, wanted_rank = up_to - counts, statistic.level * len(column)
            # The utility is 0 if the wanted rank is between the ranks below and up to the candidate.
            return np.minimum(np.minimum(wanted_rank - below, up_to - wanted_rank), 0.0)
    raise TypeError(f"nothing says how to compute {statistic}")


def _clipped(statistic: Ranged, column: np.ndarray) -> np.ndarray:
    """Return the column (n,) clipped to the declared range, with the lowest value in place of missing ones."""
    return np.clip(np.where(np.isnan(column), statistic.lowest, column), statistic.lowest, statistic.highest)


def read(statistic: Statistic, table: Mapping[str, Any]) -> np.ndarray:
    """Return what a statistic is computed from, (n,) or (n, 2), out of a table: a frame, or columns by name.

    Every cell is read by itself; so let pandas read a file with `dtype=str`, as otherwise one row changes how it reads
    others. Raises UserError if the table lacks the column.
    """
    if statistic.reads not in table:
        raise UserError(
            f"The table has no column “{statistic.reads}”, which {statistic.name} reads.", title="A column is missing"
        )
    cells = pd.Series(table[statistic.reads])
    if isinstance(statistic, GroupableStatistic) and statistic.groups:
        if statistic.by not in table:
            raise UserError(
                f"The table has no column “{statistic.by}”, the groups of {statistic.name}.",
                title="A column is missing",
            )
        index = pd.Index(statistic.groups).get_indexer(_texts(pd.Series(table[statistic.by])))
        return np.column_stack([read(statistic.replaced(by="", groups=()), table), index.astype(float)])
    match statistic:
        case Count(comparison=comparison, operands=operands) if comparison:
            values = _texts(cells) if isinstance(operands[0], str) else _cell_numbers(cells)
            return np.where(pd.isna(values), False, _holds(values, comparison, operands)).astype(float)
        case Count():
            return (np.nan_to_num(_cell_numbers(cells)) != 0).astype(float)
        case Histogram(keys=keys) if keys:
            return pd.Index(keys).get_indexer(_texts(cells)).astype(float)  # -1 for other cells
        case Histogram(cut_points=cuts) if cuts:
            numbers = _cell_numbers(cells)
            index = np.searchsorted(cuts, numbers, "right") - 1  # B for missing numbers, and from the last cut point on
            return np.where(numbers == cuts[-1], statistic.bins - 1, index).astype(float)
    return _cell_numbers(cells)


def _texts(cells: "pd.Series[Any]") -> np.ndarray:
    """Return cells as texts, (n,), without spaces at their ends; None for missing and empty ones."""
    texts = cells.astype(str).str.strip().to_numpy(dtype=object, copy=True)
    texts[cells.isna() | (texts == "")] = None
    return texts


def _cell_numbers(cells: "pd.Series[Any]") -> np.ndarray:
    """Return cells as numbers, (n,); NaN for all that are none, and for whole numbers beyond float64."""

    def plain(cell: Any) -> Any:
        """Return a text as it is, and any other cell as a float."""
        try:
            return cell if isinstance(cell, str) else float(cell)
        except (OverflowError, TypeError, ValueError):
            return math.nan

    # Next to a complex number pandas misreads all other cells, and it refuses 10**400.
    if cells.dtype == object or cells.dtype.kind == "c":
        cells = cells.map(plain)
    return pd.to_numeric(cells, errors="coerce").to_numpy(dtype=float)


def _holds(values: np.ndarray, comparison: str, operands: Sequence[float | str]) -> np.ndarray:
    """Return (n,) bool: true for each of the values (n,) that satisfies the condition of a count."""
    match comparison:
        case "<":
            return values < operands[0]
        case "≤":
            return values <= operands[0]
        case ">":
            return values > operands[0]
        case "≥":
            return values >= operands[0]
    is_one = np.isin(values, operands)
    return ~is_one if comparison == "≠" else is_one


def example_cells(statistic: Statistic) -> tuple[float | str, ...]:
    """Return made-up cells of the column that a statistic reads, for a rehearsal without data."""
    match statistic:
        case Ranged():
            return tuple(np.linspace(statistic.lowest, statistic.highest, 101).tolist())
        case Histogram(keys=keys) if keys:
            return keys
        case Histogram(cut_points=cuts) if cuts:
            return tuple(np.linspace(cuts[0], cuts[-1], 101).tolist())
        case Histogram():
            return tuple(range(min(statistic.bins, 1000)))
        case Count(operands=operands) if operands and isinstance(operands[0], str):
            return (*operands, "made up")
        case Count(operands=operands) if operands:
            return (*operands, operands[0] - 1, operands[-1] + 1)  # type: ignore[operator]
    return (0, 1)


def made_up(statistics: Sequence[Statistic], rows: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw columns (n,) by name for n = `rows` rows from `example_cells`, for a rehearsal without data.

    A column that several statistics read has cells for each of them.
    """
    columns: dict[str, list[float | str]] = {}
    for statistic in statistics:
        columns.setdefault(statistic.reads, []).extend(example_cells(statistic))
        if isinstance(statistic, GroupableStatistic) and statistic.groups:
            columns.setdefault(statistic.by, []).extend((*statistic.groups, "made up"))
    return {
        name: np.array(values, dtype=object)[generator.integers(len(values), size=rows)]
        for name, values in columns.items()
    }
