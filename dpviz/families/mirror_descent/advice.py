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
ROUNDS = (16, 64, 256)  # of the methods whose rounds are the page's setting "Steps"
DATA_SEEDS = (101, 102)
REPLICATES = 8
EQUAL = 1.25  # medians within this factor of the best count as equally good: the error of a median and of interpolation
USELESS = 0.95  # a method whose median is above this share of uniform play's does no better than not playing
SMALLEST = 1e-6  # medians below count as this; some methods find an equilibrium exactly


@dataclass(frozen=True)
class Expectation:
    """Medians that are expected at some size, budget and number of rounds.

    medians : error of each method, by label. uniform : that of uniform play, which needs no data. inside : True if
    size, settings and kind of data are within the measured range; else the medians are the nearest that were measured.
    """

    medians: Mapping[str, float]
    uniform: float
    inside: bool

    def without(self, labels: Collection[str]) -> "Expectation":
        """Return the same without some methods, such as those that have no plan."""
        medians = {label: value for label, value in self.medians.items() if label not in labels}
        return Expectation(medians, self.uniform, self.inside)

    @property
    def ranking(self) -> tuple[str, ...]:
        """Labels from the smallest expected error on."""
        return tuple(sorted(self.medians, key=lambda label: self.medians[label]))

    @property
    def best(self) -> tuple[str, ...]:
        """Labels of the methods with the smallest error, several where they are within a factor `EQUAL`."""
        smallest = min(self.medians.values(), default=math.inf)
        return tuple(label for label in self.ranking if self.medians[label] <= EQUAL * max(smallest, SMALLEST))

    @property
    def useless(self) -> tuple[str, ...]:
        """Labels of the methods that do no better than uniform play."""
        return tuple(label for label in self.ranking if self.medians[label] >= USELESS * self.uniform)


def expectation(
    problem: ProblemSpecification, budget: Budget, rounds: int, rows: float | None = None
) -> Expectation | None:
    """Return the expected errors of all methods offered for a problem, from facts only.

    None for a problem or a budget that was not measured. rounds : of the methods that use the page's number of rounds.
    rows : in place of the problem's number of rows.
    """
    facts = problem.facts()
    sizes = _measured(problem, budget)
    signal = signal_of(facts, budget) if isinstance(facts, GameFacts) and budget.private else math.inf
    if not sizes or not isinstance(facts, GameFacts) or not math.isfinite(signal):
        return None
    vertices = max(facts.d_x, facts.d_y)
    signal *= 1.0 if rows is None else rows / facts.n
    medians = {}
    for label in dict.fromkeys(label for size in sizes for label in size["medians"]):
        with_label = [size for size in sizes if label in size["medians"]]
        of_sizes = [_median(size, label, signal, rounds) for size in with_label]
        medians[label] = _interpolated(vertices, [size["size"] for size in with_label], of_sizes)
    uniform = _interpolated(vertices, [size["size"] for size in sizes], [size["uniform"] for size in sizes])
    return Expectation(medians, uniform, _as_measured(problem) and _inside(vertices, signal, rounds, sizes))


def over_rows(
    problem: ProblemSpecification, budget: Budget, rounds: int, rows: Sequence[float]
) -> Mapping[str, np.ndarray]:
    """Return (k,) the expected medians of every method with each number of rows; NaN outside of the measured range.

    Empty if the kind of problem was not measured.
    """
    expectations = [expectation(problem, budget, rounds, n) for n in rows]
    if not expectations or expectations[0] is None:
        return {}
    facts = GameFacts.of(problem.facts())
    signals = [signal for size in _measured(problem, budget) for signal in size["signals"]]
    signal = signal_of(facts, budget) * np.asarray(rows, float) / facts.n
    is_inside = np.array([bool(each and each.inside) for each in expectations])
    is_measured = (min(signals) <= signal) & (signal <= max(signals)) & is_inside
    return {
        label: np.where(is_measured, [each.medians[label] if each else math.nan for each in expectations], math.nan)
        for label in expectations[0].medians
    }


def rows_for(medians: np.ndarray, rows: np.ndarray, target: float) -> float | None:
    """Return the smallest number of rows from which on all medians of `over_rows` are at most `target`.

    It is interpolated in logarithms between two numbers of rows. None if the last median is above the target; the
    first measured number of rows if the first median is below.
    """
    finite = np.flatnonzero(np.isfinite(medians))
    above = finite[medians[finite] > target]
    if not len(finite) or (len(above) and above[-1] == finite[-1]):
        return None
    if not len(above):
        return float(rows[finite[0]])
    last, next = above[-1], above[-1] + 1
    logarithms = np.log(np.maximum(medians[[next, last]], SMALLEST))
    return float(np.exp(np.interp(math.log(max(target, SMALLEST)), logarithms, np.log(rows[[next, last]]))))


def key(problem: ProblemSpecification) -> str:
    """Return the problem's name in the table: its kind, and the settings that make it another game."""
    data = problem.dataset
    choices = (data.structure if isinstance(data, LatentGame) else "", *(getattr(problem, name, "") for name in _KINDS))
    return "_".join(filter(None, (problem.kind.rpartition(".")[2], *choices)))


def _as_measured(problem: ProblemSpecification) -> bool:
    """Return True if the data are generated and all settings except sizes, seeds and those of `key` are defaults."""
    data = problem.dataset
    parts = [problem] if data is None else [problem, data]
    return isinstance(data, _DATA | None) and all(
        getattr(part, name) == field.default
        for part in parts
        for name, field in type(part).model_fields.items()
        if name not in _VARIED
    )


_KINDS = ("loss", "shape")
_VARIED = {"rows", "dimension", "strategies_x", "strategies_y", "seed", "data", "structure", *_KINDS}
_DATA = LatentGame | GroupedSigns | GroupedLosses | CategoricalGenerator | CategoricalBundled


def signal_of(facts: GameFacts, budget: Budget) -> float:
    """Return the number on which the noise of all methods depends: n √ρ, under pure ε n ε, over the range of one row's
    gradient."""
    strength = budget.amount if budget.pure else math.sqrt(budget.about_rho(budget.amount))
    return facts.n * strength / max(facts.oscillation_x, facts.oscillation_y)


def no_better(samples: np.ndarray, uniform: float) -> bool:
    """Return True if the errors (R,) of a method do not show that it does better than uniform play.

    That is so if the 95 % interval of their median, by order statistics, reaches up to the error of uniform play.
    """
    upper = min(1.0, 0.5 + 0.98 / math.sqrt(len(samples)))
    return float(np.quantile(samples, upper, method="hazen")) >= uniform


def _measured(problem: ProblemSpecification, budget: Budget) -> Sequence[Mapping[str, Any]]:
    """Return the table's measurements of a problem under this kind of budget, one per size; empty if there are none."""
    currencies = resources.data(__package__, TABLE.name).get(key(problem), {})
    sizes: Sequence[Mapping[str, Any]] = currencies.get("pure" if budget.pure else "approximate", ())
    return sizes


def _median(size: Mapping[str, Any], label: str, signal: float, rounds: int) -> float:
    """Return a method's median at one size, interpolated over the signals and, where they matter, over the rounds."""
    over_rounds = [_interpolated(signal, size["signals"], medians) for medians in size["medians"][label]]
    return _interpolated(rounds, ROUNDS[: len(over_rounds)], over_rounds)


def _interpolated(x: float, xs: Sequence[float], values: Sequence[float]) -> float:
    """Return the value at x, linear in logarithms between the points (xs, values); beyond them that at the edge."""
    logarithms = np.log(np.maximum(values, SMALLEST))
    return float(np.exp(np.interp(math.log(x), np.log(xs), logarithms)))


def _inside(vertices: int, signal: float, rounds: int, sizes: Sequence[Mapping[str, Any]]) -> bool:
    """Return True if nothing is extrapolated: up to a factor 2 for size and signal, 2 below and 4 above for rounds."""
    signals = [signal for size in sizes for signal in size["signals"]]
    return (
        min(signals) / 2 <= signal <= 2 * max(signals)
        and sizes[0]["size"] / 2 <= vertices <= 2 * sizes[-1]["size"]
        and ROUNDS[0] / 2 <= rounds <= 4 * ROUNDS[-1]
    )
