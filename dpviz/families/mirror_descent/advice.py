"""What each method may be expected to reach before anything runs: from runs on generated data, kept in a table.

No formula orders the methods: their bounds are loose by different factors, and some have none. So every method that is
offered for a problem was run on generated data of several sizes, at several budgets and numbers of rounds, with the
page's other settings at their defaults; `measure.py`, beside the tests, writes the medians to `measured.json`. Here
they are interpolated to a user's size, budget and rounds, which are public.
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

    medians : error of each method, by label. uniform : that of uniform play, which needs no data. inside : whether
    size, settings and kind of data lie within what was measured; else the numbers are those nearest to them.
    """

    medians: Mapping[str, float]
    uniform: float
    inside: bool

    def without(self, labels: Collection[str]) -> "Expectation":
        """The same without some methods, such as those that have no plan."""
        kept = {label: value for label, value in self.medians.items() if label not in labels}
        return Expectation(kept, self.uniform, self.inside)

    @property
    def ranking(self) -> tuple[str, ...]:
        """Labels from the smallest expected error on."""
        return tuple(sorted(self.medians, key=lambda label: self.medians[label]))

    @property
    def best(self) -> tuple[str, ...]:
        """The methods with the smallest error, several where they are within a factor `EQUAL`."""
        least = min(self.medians.values(), default=math.inf)
        return tuple(label for label in self.ranking if self.medians[label] <= EQUAL * max(least, SMALLEST))

    @property
    def useless(self) -> tuple[str, ...]:
        """The methods that do no better than uniform play."""
        return tuple(label for label in self.ranking if self.medians[label] >= USELESS * self.uniform)


def expectation(
    problem: ProblemSpecification, budget: Budget, rounds: int, rows: float | None = None
) -> Expectation | None:
    """What is expected of every method offered for a problem; None for a problem or a budget that was not measured.

    rounds : of the methods that take the page's number of rounds. rows : instead of the problem's own. Reads facts
    only.
    """
    facts = problem.facts()
    sizes = _measured(problem, budget)
    signal = signal_of(facts, budget) if isinstance(facts, GameFacts) and budget.private else math.inf
    if not sizes or not isinstance(facts, GameFacts) or not math.isfinite(signal):
        return None
    here = max(facts.d_x, facts.d_y)
    signal *= 1.0 if rows is None else rows / facts.n
    medians = {}
    for label in dict.fromkeys(label for size in sizes for label in size["medians"]):
        known = [size for size in sizes if label in size["medians"]]
        at = [_at(size, label, signal, rounds) for size in known]
        medians[label] = _between(here, [size["size"] for size in known], at)
    uniform = _between(here, [size["size"] for size in sizes], [size["uniform"] for size in sizes])
    return Expectation(medians, uniform, _as_measured(problem) and _inside(here, signal, rounds, sizes))


def over_rows(
    problem: ProblemSpecification, budget: Budget, rounds: int, rows: Sequence[float]
) -> Mapping[str, np.ndarray]:
    """(k,) expected medians of every method with each number of rows; NaN outside of what was measured. Empty if
    nothing of the kind was."""
    found = [expectation(problem, budget, rounds, n) for n in rows]
    if not found or found[0] is None:
        return {}
    facts = GameFacts.of(problem.facts())
    signals = [signal for size in _measured(problem, budget) for signal in size["signals"]]
    here = signal_of(facts, budget) * np.asarray(rows, float) / facts.n
    measured = (
        (min(signals) <= here) & (here <= max(signals)) & np.array([bool(each and each.inside) for each in found])
    )
    return {
        label: np.where(measured, [each.medians[label] if each else math.nan for each in found], math.nan)
        for label in found[0].medians
    }


def rows_for(medians: np.ndarray, rows: np.ndarray, target: float) -> float | None:
    """The fewest rows from which on all medians of `over_rows` are at most `target`, straight in logarithms between two
    numbers of rows; None if they end above it. The first one measured if they begin below."""
    known = np.flatnonzero(np.isfinite(medians))
    above = known[medians[known] > target]
    if not len(known) or (len(above) and above[-1] == known[-1]):
        return None
    if not len(above):
        return float(rows[known[0]])
    last, next = above[-1], above[-1] + 1
    heights = np.log(np.maximum(medians[[next, last]], SMALLEST))
    return float(np.exp(np.interp(math.log(max(target, SMALLEST)), heights, np.log(rows[[next, last]]))))


def key(problem: ProblemSpecification) -> str:
    """The problem's name in the table: its kind, and the choice that makes it another game."""
    data = problem.dataset
    choices = (data.structure if isinstance(data, LatentGame) else "", *(getattr(problem, name, "") for name in _KINDS))
    return "_".join(filter(None, (problem.kind.rpartition(".")[2], *choices)))


def _as_measured(problem: ProblemSpecification) -> bool:
    """Whether the data are generated, and no setting but sizes, seeds and those of `key` differs from its default."""
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
    """What all methods' noise depends on: n √ρ, under pure ε n ε, by the range of one row's gradient."""
    strength = budget.amount if budget.pure else math.sqrt(budget.about_rho(budget.amount))
    return facts.n * strength / max(facts.oscillation_x, facts.oscillation_y)


def no_better(samples: np.ndarray, uniform: float) -> bool:
    """Whether the errors (R,) of a method do not show that it does better than uniform play.

    That is if the 95 % interval of their median, by order statistics, reaches up to the error of uniform play.
    """
    upper = min(1.0, 0.5 + 0.98 / math.sqrt(len(samples)))
    return float(np.quantile(samples, upper, method="hazen")) >= uniform


def _measured(problem: ProblemSpecification, budget: Budget) -> Sequence[Mapping[str, Any]]:
    """What the table has of a problem under such budgets, by size; nothing of other problems."""
    currencies = resources.data(__package__, TABLE.name).get(key(problem), {})
    found: Sequence[Mapping[str, Any]] = currencies.get("pure" if budget.pure else "approximate", ())
    return found


def _at(size: Mapping[str, Any], label: str, signal: float, rounds: int) -> float:
    """A method's median at one size: kept for every number of rounds that matters to it, over the signals."""
    over_rounds = [_between(signal, size["signals"], heights) for heights in size["medians"][label]]
    return _between(rounds, ROUNDS[: len(over_rounds)], over_rounds)


def _between(place: float, places: Sequence[float], heights: Sequence[float]) -> float:
    """A height between known places, straight in logarithms; beyond them that at the edge."""
    logarithms = np.log(np.maximum(heights, SMALLEST))
    return float(np.exp(np.interp(math.log(place), np.log(places), logarithms)))


def _inside(here: int, signal: float, rounds: int, sizes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether nothing was extrapolated, with a margin of a factor 2 for size and budget."""
    signals = [signal for size in sizes for signal in size["signals"]]
    within = min(signals) / 2 <= signal <= 2 * max(signals)
    return (
        within and sizes[0]["size"] / 2 <= here <= 2 * sizes[-1]["size"] and ROUNDS[0] / 2 <= rounds <= 4 * ROUNDS[-1]
    )
