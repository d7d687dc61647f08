"""Planned analyses: counts, sums, means, histograms and quantiles of a table, with their noise and their error.

All of it follows from declared ranges and the number of rows n, which is public; one row may be replaced by any other
(replace-one). Nothing reads data. Derivations: THEORY.md, section 11.
"""

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, model_validator
from scipy.special import ndtri

from dpviz import resources
from dpviz.errors import UserError
from dpviz.numbers import short, short_up
from dpviz.privacy.accounting.currencies import Noise
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, drawn_seed
from dpviz.privacy.releases import Norm, Query
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.allocation import Analysis, Share
from dpviz.specification import Specification, choice, number

_WHY: Mapping[str, str] = resources.data(__package__, "words.toml")["WHY"]

CONFIDENCE = 0.95
MOST = 20  # statistics of one plan
NARROWEST = 1e-100  # range of a column: numbers computed from it stay finite
NOISES = {"smaller": "Whichever is smaller", "laplace": "Laplace", "gaussian": "Gaussian"}
NORMS: dict[Noise, Norm] = {"laplace": "l1", "gaussian": "l2", "selection": "range"}


def error_bound(noise: Noise, scale: float, values: int = 1) -> float:
    """Return the error that none of `values` independent noises of a scale exceeds with 95 % probability; exact.

    P(all |X| ≤ t) = (1 - e^(-t/b))^k for Laplace noise of scale b, (2 Φ(t/σ) - 1)^k for Gaussian noise.
    """
    exceeds = -math.expm1(math.log(CONFIDENCE) / values)  # of one of them
    return scale * float(-math.log(exceeds) if noise == "laplace" else -ndtri(exceeds / 2))


class Statistic(Specification):
    """One number, or several, computed from a table of n rows.

    title : its name. unit : of its error; empty: that of the column. of : the number that an error is compared with.
    whole : True if released numbers are rounded to whole ones after the noise was added, which costs nothing.
    """

    title: ClassVar[str] = ""
    unit: ClassVar[str] = ""
    of: ClassVar[str] = ""
    whole: ClassVar[bool] = False
    name: str = Field("Analysis", min_length=1, max_length=60)
    weight: float = number(
        1.0, 1e-6, 1e6, label="Share", symbol="w", scale="log", help="Parts of the budget: 2 gets twice as much as 1."
    )

    @property
    def values(self) -> int:
        """Number of noisy numbers that are released."""
        return 1

    @property
    def reach(self) -> float:
        """The largest possible error, in parts of what errors are compared with."""
        return 1.0

    @property
    @abstractmethod
    def asked(self) -> str:
        """The statistic in words, with all that is declared: "Mean, clipped to [0, 80]"."""

    @abstractmethod
    def sensitivity(self, norm: Norm, rows: int) -> float:
        """Return the largest change of the statistic, in `norm`, when one row is replaced."""

    def why(self, rows: int) -> str:
        """Return an explanation of the sensitivity, in sentences."""
        return _WHY[self.title]

    def rows_needed(self, error: float, rows: int, relative: float) -> int:
        """Return the smallest number of rows for an error of at most the share `relative` of the number that it is
        compared with; `error` is the error with `rows` rows."""
        return max(1, math.ceil(error / relative))

    def mechanism(self, noise: Noise) -> Noise:
        """Return the mechanism that protects it, where numbers get this noise."""
        return noise

    def standard_deviation(self, noise: Noise, scale: float) -> float | None:
        """Return the standard deviation of the noise in each number; None where that depends on the data."""
        return scale * (math.sqrt(2) if noise == "laplace" else 1.0)

    def error(self, noise: Noise, scale: float, values: int = 1) -> float:
        """Return the error that none of `values` of its numbers exceeds with 95 % probability.

        A noisy count that is rounded is off by at most k if the noise is at most k + 1/2.
        """
        bound = error_bound(noise, scale, values)
        return max(0.0, math.ceil(bound - 0.5)) if self.whole else bound


class Ranged(Statistic):
    """A statistic of a column whose values are clipped to a declared range."""

    lowest: float = number(0.0, -1e12, 1e12, label="Lowest value", symbol="a", help="Smaller values count as this.")
    highest: float = number(1.0, -1e12, 1e12, label="Highest value", symbol="b", help="Larger values count as this.")

    @model_validator(mode="after")
    def _ordered(self) -> "Ranged":
        if not self.lowest < self.highest:
            raise ValueError("the lowest value must be below the highest")
        if self.width < NARROWEST:
            raise ValueError("the range is too narrow to compute with; state it in a smaller unit")
        return self

    @property
    def width(self) -> float:
        """b - a."""
        return self.highest - self.lowest

    @property
    def asked(self) -> str:
        return f"{self.title} of values clipped to [{short(self.lowest, 6)}, {short(self.highest, 6)}]"

    def why(self, rows: int) -> str:
        return _WHY[self.title].format(width=short_up(self.width, 6), rows=rows, share=short_up(self.width / rows))


class Count(Statistic):
    """The number of rows that satisfy a condition, which reads one row at a time."""

    kind: ClassVar[str] = "privacy.analyses.count"
    title: ClassVar[str] = "Count"
    unit: ClassVar[str] = "rows"
    of: ClassVar[str] = "the count"
    whole: ClassVar[bool] = True

    @property
    def asked(self) -> str:
        return "Count of the rows that satisfy a condition"

    def sensitivity(self, norm: Norm, rows: int) -> float:
        return 1.0


class Sum(Ranged):
    """The sum of a column."""

    kind: ClassVar[str] = "privacy.analyses.sum"
    title: ClassVar[str] = "Sum"
    of: ClassVar[str] = "n (b − a)"

    def sensitivity(self, norm: Norm, rows: int) -> float:
        return self.width

    def rows_needed(self, error: float, rows: int, relative: float) -> int:
        return max(1, math.ceil(error / (relative * self.width)))


class Mean(Ranged):
    """The mean of a column: its sum over the public number of rows."""

    kind: ClassVar[str] = "privacy.analyses.mean"
    title: ClassVar[str] = "Mean"
    of: ClassVar[str] = "b − a"

    def sensitivity(self, norm: Norm, rows: int) -> float:
        return self.width / rows

    def rows_needed(self, error: float, rows: int, relative: float) -> int:
        return max(1, math.ceil(error * rows / (relative * self.width)))


class Histogram(Statistic):
    """The number of rows in each of several declared bins; every row is in one of them at most."""

    kind: ClassVar[str] = "privacy.analyses.histogram"
    title: ClassVar[str] = "Histogram"
    unit: ClassVar[str] = "rows"
    of: ClassVar[str] = "the count in a bin"
    whole: ClassVar[bool] = True
    bins: int = number(
        10, 2, 100_000, label="Bins", symbol="B", scale="log", help="Categories or ranges, all declared beforehand."
    )

    @property
    def values(self) -> int:
        return self.bins

    @property
    def asked(self) -> str:
        return f"Histogram over {self.bins:,} declared bins"

    def sensitivity(self, norm: Norm, rows: int) -> float:
        return {"l1": 2.0, "l2": math.sqrt(2), "linf": 1.0, "range": 2.0}[norm]


class Quantile(Ranged):
    """A quantile of a column by the exponential mechanism, among evenly spaced values of the declared range.

    A value's utility is minus the number of rows between it and the wanted rank q n.
    """

    kind: ClassVar[str] = "privacy.analyses.quantile"
    title: ClassVar[str] = "Quantile"
    unit: ClassVar[str] = "ranks"
    of: ClassVar[str] = "n"
    level: float = number(0.5, 0.001, 0.999, label="Level", symbol="q", help="0.5 is the median.")
    candidates: int = number(
        101, 2, 1_000_000, label="Values", symbol="N", scale="log", help="That can be released, evenly spaced."
    )

    @property
    def asked(self) -> str:
        return (
            f"Quantile {short(self.level, 6)} among {self.candidates:,} evenly spaced values from "
            f"{short(self.lowest, 6)} to {short(self.highest, 6)}"
        )

    @property
    def reach(self) -> float:
        """Distance from the wanted rank to the farther end of the table, in parts of n."""
        return max(self.level, 1 - self.level)

    def sensitivity(self, norm: Norm, rows: int) -> float:
        return 2.0 if norm == "range" else 1.0

    def mechanism(self, noise: Noise) -> Noise:
        return "selection"

    def standard_deviation(self, noise: Noise, scale: float) -> float | None:
        return None

    def error(self, noise: Noise, scale: float, values: int = 1) -> float:
        """Return the error in ranks, for any data: P(k or more ranks off) ≤ x/(1 + x) with x = (N - 1) e^(-k/scale).

        The values of the column are rounded to the values that can be released, so one of them has the wanted rank.
        """
        return scale * math.log((self.candidates - 1) * CONFIDENCE / (1 - CONFIDENCE))


@dataclass(frozen=True)
class Planned:
    """A statistic with the share of the budget that it gets.

    share : its release, stated for a sensitivity of 1. rows : n.
    """

    statistic: Statistic
    share: Share
    rows: int

    @property
    def event(self) -> Event:
        """The event of its release."""
        return self.share.event

    @property
    def noise(self) -> Noise:
        """The mechanism that protects it."""
        return self.share.analysis.noise

    @property
    def sensitivity(self) -> float:
        """Sensitivity in the norm that the mechanism pays for."""
        return self.statistic.sensitivity(NORMS[self.noise], self.rows)

    @property
    def scale(self) -> float:
        """b of Laplace, σ of Gaussian noise; of a selection that of the Gumbel noise which picks, in ranks."""
        assert self.share.noise_scale is not None
        return self.sensitivity * self.share.noise_scale

    @property
    def standard_deviation(self) -> float | None:
        """Standard deviation of the noise in each number; None where that depends on the data."""
        return self.statistic.standard_deviation(self.noise, self.scale)

    @property
    def error(self) -> float:
        """Error of a number by the noise that is not exceeded with 95 % probability."""
        return self.statistic.error(self.noise, self.scale)

    @property
    def largest_error(self) -> float | None:
        """Error that none of its numbers exceeds with 95 % probability; None if there is only one."""
        values = self.statistic.values
        return self.statistic.error(self.noise, self.scale, values) if values > 1 else None

    @property
    def drowned(self) -> bool:
        """True if the error is larger than anything that this number of rows can give."""
        return self.rows_needed(self.statistic.reach) > self.rows

    def rows_needed(self, relative: float) -> int:
        """Return the smallest number of rows for a 95 % error of at most the share `relative` of `statistic.of`, with
        the same share of the same budget."""
        return self.statistic.rows_needed(self.error, self.rows, relative)

    @property
    def relative_error(self) -> float:
        """The 95 % error as a share of `statistic.of`, of which a count is as large as n."""
        part = 1e-6  # needed rows are whole
        return self.rows_needed(part) * part / self.rows


class Analyses(Specification):
    """Several statistics of the same table, which share a budget.

    >>> from dpviz.privacy.budgets import PureDP
    >>> plan = Analyses(rows=1000, statistics=(Count(name="aged 65 or more"), Mean(name="hours", highest=80.0)))
    >>> [round(planned.scale, 3) for planned in plan.planned(PureDP(epsilon=1.0))]
    [2.0, 0.16]
    """

    kind: ClassVar[str] = "privacy.analyses.analyses"
    rows: int = number(10_000, 20, 10_000_000, label="Rows", symbol="n", scale="log", help="Rows of the data set.")
    noise: Literal["smaller", "laplace", "gaussian"] = choice(
        "smaller",
        NOISES,
        label="Noise of numbers",
        help="Pure ε allows only Laplace noise. Under the other guarantees Gaussian noise is often smaller.",
    )
    statistics: tuple[Statistic, ...] = Field(min_length=1, max_length=MOST)

    def planned(self, budget: Budget) -> tuple[Planned, ...]:
        """Return each statistic with its share; all together meet the budget, in shares like their weights.

        Raises UserError where a mechanism does not exist in the currency, or where it does not add up.
        """
        return _planned(self, budget)


@lru_cache(64)
def _planned(plan: Analyses, budget: Budget) -> tuple[Planned, ...]:
    """Return each statistic with its share, under the kind of noise that is smaller on the whole."""
    noises: Sequence[Noise] = ("laplace", "gaussian") if plan.noise == "smaller" else (plan.noise,)
    if plan.noise == "smaller" and not budget.allows_gaussian:
        noises = ("laplace",)
    elif plan.noise == "gaussian" and not budget.allows_gaussian:
        raise UserError(
            "Gaussian noise never gives pure ε-DP. Choose Laplace noise, or state the budget as (ε, δ), ρ or μ.",
            title="This budget does not exist for Gaussian noise",
        )
    return min((_shared(plan, budget, noise) for noise in noises), key=_spread)


def _shared(plan: Analyses, budget: Budget, noise: Noise) -> tuple[Planned, ...]:
    # At sensitivity 1: shares like the weights do not depend on it, and errors in euros and in rows do not compare.
    analyses = [Analysis(name=s.name, noise=s.mechanism(noise), weight=s.weight) for s in plan.statistics]
    shares = allocation.split(budget, analyses, "proportional")
    return tuple(Planned(*pair, plan.rows) for pair in zip(plan.statistics, shares, strict=True))


def _spread(planned: tuple[Planned, ...]) -> float:
    """Return Σ log of the standard deviations, of which comparisons do not depend on the units of columns."""
    return math.fsum(math.log(p.standard_deviation) for p in planned if p.standard_deviation is not None)


# ----------------------------------------------------------------------------------- the release, computed from columns
# Each column's values are clipped, missing ones count as the lowest value of the range, and bins that were not declared
# are not counted: for any values, a neighbour is at most as far away as the plan says.


def released(planned: Sequence[Planned], columns: Iterable[ArrayLike], seed: int | None = None) -> list[Any]:
    """Return one private answer to every analysis: a number, or the numbers (B,) of a histogram.

    columns : for each, its values of the n rows: True or False for a count, numbers for a sum, a mean or a quantile,
        the number of the bin, from 0, for a histogram. seed : of the noise; None draws a fresh, unknown one.

    All together cost the planned budget; the ledger refuses anything else. The guarantee is that of exact arithmetic:
    floating-point noise on data that must be protected is not safe (Mironov 2012). Raises UserError for a column that
    holds no numbers, or another number of rows.
    """
    ledger = Ledger(FixedEvents(tuple(p.event for p in planned)), 1)
    mechanisms = Mechanisms(ledger, drawn_seed(seed))
    return [_answer(p, _numbers(p, column), mechanisms) for p, column in zip(planned, columns, strict=True)]


def _answer(p: Planned, column: np.ndarray, mechanisms: Mechanisms) -> Any:
    """Release one planned statistic of a column (n,): a number, or the numbers (B,) of a histogram."""
    query = Query(computed(p.statistic, column)[None], p.sensitivity, NORMS[p.noise])
    if isinstance(p.statistic, Quantile):
        index = int(mechanisms.exponential(query, p.event)[0, 0])
        return float(np.linspace(p.statistic.lowest, p.statistic.highest, p.statistic.candidates)[index])
    noisy = (mechanisms.laplace if p.noise == "laplace" else mechanisms.gaussian)(query, p.event)[0]
    answer = np.round(noisy).astype(int) if p.statistic.whole else noisy
    return answer if p.statistic.values > 1 else answer.item()


def _numbers(p: Planned, column: ArrayLike) -> np.ndarray:
    """Return (n,) the column. Refuse a wrong one without quoting any of it."""
    try:
        numbers = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        numbers = None
    if numbers is None or numbers.shape != (p.rows,):
        raise UserError(
            f"{p.statistic.name} needs {p.rows:,} numbers, or True or False, one for each row.",
            title="This column does not fit the plan",
        )
    return numbers


def computed(statistic: Statistic, column: np.ndarray) -> np.ndarray:
    """Return (B,) the exact values, not private, from a column (n,); of a quantile, the utilities (N,) of its
    values."""
    match statistic:
        case Count():
            return np.array([np.count_nonzero(np.nan_to_num(column))], dtype=float)
        case Sum():
            return np.array([_clipped(statistic, column).sum()])
        case Mean():
            return np.array([_clipped(statistic, column).mean()])
        case Histogram():
            declared = column[(column >= 0) & (column < statistic.bins)]
            return np.bincount(declared.astype(int), minlength=statistic.bins).astype(float)
        case Quantile():
            steps = (_clipped(statistic, column) - statistic.lowest) / statistic.width * (statistic.candidates - 1)
            counts = np.bincount(np.round(steps).astype(int), minlength=statistic.candidates)
            up_to, rank = np.cumsum(counts), statistic.level * len(column)
            return np.minimum(np.minimum(rank - (up_to - counts), up_to - rank), 0.0)
    raise TypeError(f"nothing says how to compute {statistic}")


def _clipped(statistic: Ranged, column: np.ndarray) -> np.ndarray:
    return np.clip(np.where(np.isnan(column), statistic.lowest, column), statistic.lowest, statistic.highest)


def made_up(statistic: Statistic, rows: int, generator: np.random.Generator) -> np.ndarray:
    """Return (n,) values that such a column could have, for a rehearsal."""
    if isinstance(statistic, Ranged):
        return generator.uniform(statistic.lowest, statistic.highest, rows)
    return generator.integers(statistic.bins if isinstance(statistic, Histogram) else 2, size=rows).astype(float)
