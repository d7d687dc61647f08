"""Expected errors of all methods before a run, interpolated from a table of runs on generated data.

No formula orders the methods: their bounds are loose by different factors, and some have none. So every method that is
offered for a problem was run on generated data of several sizes, at several budgets and numbers of rounds, with the
page's other settings at their defaults; `measure.py`, in the folder of the tests, writes the medians to
`measured.json`. Here they are interpolated to a user's size, budget and rounds, which are public.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpviz import resources
from dpviz.datasets.categories import CategoricalBundled, CategoricalGenerator
from dpviz.datasets.groups import GroupedLosses, GroupedSigns
from dpviz.datasets.synthetic import LatentGame
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameFacts

TABLE = Path(__file__).with_name("measured.json")
ROUNDS = (16, 64, 256)  # measured, for the methods whose rounds are the page's setting "Steps"
DATA_SEEDS = (101, 102)  # measured data sets
REPLICATES = 8  # measured runs of a method on each data set
EQUAL = 1.25  # medians within this factor of the best count as equally good: the error of a median and of interpolation
USELESS = 0.95  # a method whose median is above this share of uniform play's does no better than not playing
MIN_MEDIAN = 1e-6  # smaller medians count as this, as logarithms are taken; some methods find an equilibrium exactly


@dataclass(frozen=True)
class Expectation:
    """Median errors that are expected of a run with given size, budget and number of rounds.

    medians : median error of each method, by label. uniform : error of uniform play, which needs no data.
    inside : True if size, settings and kind of data are in or near the measured range; else the medians are those of
    the nearest measurement.
    """

    medians: Mapping[str, float]
    uniform: float
    inside: bool

    def without(self, labels: Collection[str]) -> "Expectation":
        """Return the same expectation without the methods with these labels, such as those that have no plan."""
        medians = {label: value for label, value in self.medians.items() if label not in labels}
        return Expectation(medians, self.uniform, self.inside)

    @property
    def ranking(self) -> tuple[str, ...]:
        """Labels of the methods, in ascending order of their expected error."""
        return tuple(sorted(self.medians, key=lambda label: self.medians[label]))

    @property
    def best(self) -> tuple[str, ...]:
        """Labels of the methods with the smallest error, several where they are within a factor `EQUAL`."""
        smallest = min(self.medians.values(), default=math.inf)
        return tuple(label for label in self.ranking if self.medians[label] <= EQUAL * max(smallest, MIN_MEDIAN))

    @property
    def useless(self) -> tuple[str, ...]:
        """Labels of the methods that do no better than uniform play."""
        return tuple(label for label in self.ranking if self.medians[label] >= USELESS * self.uniform)


def expectation(
    problem: ProblemSpecification, budget: Budget, rounds: int, rows: float | None = None
) -> Expectation | None:
    """Return the expected errors of all methods offered for a problem, from public facts only.

    None for a problem or a budget that was not measured. rounds : number of rounds of the methods that use the page's
    setting. rows : number of rows; None = that of the problem.
    """
    facts, table = problem.facts(), _table_rows(problem, budget)
    if not table or not isinstance(facts, GameFacts) or not budget.private:
        return None
    vertices = max(facts.d_x, facts.d_y)
    signal = signal_of(facts, budget) * (1.0 if rows is None else rows / facts.n)  # it is in proportion to the rows
    labels = dict.fromkeys(label for row in table for label in row["medians"])  # each once, in the table's order
    medians = {}
    for label in labels:
        with_label = [row for row in table if label in row["medians"]]
        by_size = [_median(row, label, signal, rounds) for row in with_label]
        medians[label] = _interpolated(vertices, [row["size"] for row in with_label], by_size)
    uniform = _interpolated(vertices, [row["size"] for row in table], [row["uniform"] for row in table])
    measured_signals = [number for row in table for number in row["signals"]]
    is_near = (  # up to a factor 2 beyond what was measured, and up to a factor 4 beyond the largest number of rounds
        min(measured_signals) / 2 <= signal <= 2 * max(measured_signals)
        and table[0]["size"] / 2 <= vertices <= 2 * table[-1]["size"]
        and ROUNDS[0] / 2 <= rounds <= 4 * ROUNDS[-1]
    )
    return Expectation(medians, uniform, inside=is_near and _is_like_measured(problem))


def medians_by_rows(
    problem: ProblemSpecification, budget: Budget, rounds: int, rows: Sequence[float]
) -> Mapping[str, np.ndarray]:
    """Return, by label of the method, (k,) its expected median error with each number of rows (k,); NaN outside of the
    measured range.

    Empty if the kind of problem was not measured.
    """
    expectations = []
    for n in rows:
        expected = expectation(problem, budget, rounds, n)
        if expected is None:  # for all numbers of rows, as the kinds of problem and of budget decide
            return {}
        expectations.append(expected)
    facts = GameFacts.of(problem.facts())
    measured_signals = [signal for row in _table_rows(problem, budget) for signal in row["signals"]]
    signals = signal_of(facts, budget) * np.asarray(rows, float) / facts.n
    is_measured = (min(measured_signals) <= signals) & (signals <= max(measured_signals))
    is_measured &= np.array([expected.inside for expected in expectations])
    return {
        label: np.where(is_measured, [expected.medians[label] for expected in expectations], math.nan)
        for label in expectations[0].medians
    }


def rows_for(medians: np.ndarray, rows: np.ndarray, target: float) -> float | None:
    """Return the smallest number of rows from which on all medians of one method are at most `target`.

    medians, rows : (k,) a curve of `medians_by_rows`, and its numbers of rows in ascending order. The result is
    interpolated in logarithms between two of them. None if the last median is above the target; the first measured
    number of rows if no median is above it.
    """
    finite = np.flatnonzero(np.isfinite(medians))
    above = finite[medians[finite] > target]
    if not len(finite) or (len(above) and above[-1] == finite[-1]):
        return None
    if not len(above):
        return float(rows[finite[0]])
    last_above = above[-1]  # the next one is finite, too, as the measured range is an interval
    ends = [last_above + 1, last_above]  # in ascending order of their medians, as `interp` needs it
    log_medians = np.log(np.maximum(medians[ends], MIN_MEDIAN))
    return float(np.exp(np.interp(math.log(max(target, MIN_MEDIAN)), log_medians, np.log(rows[ends]))))


_VARIANTS = ("loss", "shape")  # settings of a problem that make it another game, with measurements of its own
# Settings that may differ from their defaults in a problem that counts as measured.
_VARIED = {"rows", "dimension", "strategies_x", "strategies_y", "seed", "data", "structure", *_VARIANTS}
# Data of which measurements can speak: generated, or bundled with this package.
_DATA = LatentGame | GroupedSigns | GroupedLosses | CategoricalGenerator | CategoricalBundled


def table_key(problem: ProblemSpecification) -> str:
    """Return the problem's name in the table: the last part of its `kind`, and the settings that make it another
    game."""
    data = problem.dataset
    kind = problem.kind.rpartition(".")[2]
    structure = data.structure if isinstance(data, LatentGame) else ""
    settings = [getattr(problem, name, "") for name in _VARIANTS]
    return "_".join(filter(None, (kind, structure, *settings)))


def _is_like_measured(problem: ProblemSpecification) -> bool:
    """Return True if a problem is like those that were measured: its data are generated or bundled, and all settings
    are the defaults, except sizes, seeds and the settings in the name of `table_key`."""
    data = problem.dataset
    if not isinstance(data, _DATA | None):
        return False
    specifications = [problem] if data is None else [problem, data]
    return all(
        getattr(specification, name) == field.default
        for specification in specifications
        for name, field in type(specification).model_fields.items()
        if name not in _VARIED
    )


def signal_of(facts: GameFacts, budget: Budget) -> float:
    """Return n √ρ with an estimate of ρ, or n ε under pure ε, over the range of one row's gradient: the one number
    through which rows and budget decide how large the noise of a method is."""
    strength = budget.amount if budget.pure else math.sqrt(budget.about_rho(budget.amount))
    return facts.n * strength / max(facts.oscillation_x, facts.oscillation_y)


def no_better_than_uniform(samples: np.ndarray, uniform: float) -> bool:
    """Return True if the errors (R,) of a method's runs do not show that it does better than uniform play.

    That is so if the 95 % interval of their median, by order statistics, reaches up to the error of uniform play. Of R
    runs, R/2 ± 1.96 √R/2 are below the median: the interval's upper end is the quantile at 1/2 + 0.98/√R.
    """
    upper_level = min(1.0, 0.5 + 0.98 / math.sqrt(len(samples)))
    upper_end = np.quantile(samples, upper_level, method="hazen")  # of R sorted runs the i-th is at the level (i - ½)/R
    return float(upper_end) >= uniform


def _table_rows(problem: ProblemSpecification, budget: Budget) -> Sequence[Mapping[str, Any]]:
    """Return the table's rows of a problem under this kind of budget, one per size, in ascending order; empty if there
    are none.

    A row has the keys "size" (vertices of the larger player), "signals" (see `signal_of`), "uniform" (error of
    uniform play) and "medians": by label, one list over the signals for each number of `ROUNDS`; a single list for
    methods with rounds of their own.
    """
    by_budget = resources.data(__package__, TABLE.name).get(table_key(problem), {})
    rows: Sequence[Mapping[str, Any]] = by_budget.get("pure" if budget.pure else "approximate", ())
    return rows


def _median(row: Mapping[str, Any], label: str, signal: float, rounds: int) -> float:
    """Return a method's median error at one size (a row of `_table_rows`), interpolated over the signals, and over the
    numbers of rounds if it was measured at several."""
    by_rounds = [_interpolated(signal, row["signals"], medians) for medians in row["medians"][label]]
    return _interpolated(rounds, ROUNDS[: len(by_rounds)], by_rounds)  # a single value counts for all numbers of rounds


def _interpolated(x: float, xs: Sequence[float], values: Sequence[float]) -> float:
    """Return the value at x, linear in logarithms between the points (xs, values); beyond them that at the edge."""
    logarithms = np.log(np.maximum(values, MIN_MEDIAN))
    return float(np.exp(np.interp(math.log(x), np.log(xs), logarithms)))
