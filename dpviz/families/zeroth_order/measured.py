"""What runs came to, before anything runs: medians on generated data, kept in a table.

No formula orders the methods: their bounds are loose by different factors. So every option of the advice was run on
generated data of several sizes, at several budgets, epochs and smoothing radii, with the page's other settings at
their defaults; `measure.py`, beside the tests, writes the medians of the objective at the end of the last epoch to
`measured.json`. Here they are interpolated to a user's size and budget, which are public.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpviz import resources
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.values.black_box import BlackBox, TableModel
from dpviz.problems.values.value_problem import ValueFacts

TABLE = Path(__file__).with_name("measured.json")
EPOCHS = (10, 20, 40)
REPLICATES, SEED, PRESET_RUNS = 6, 101, 16
EQUAL = 1.25  # medians within this factor count as equally good: the error of a median and of interpolation
_NEAR = 1.5  # factor beyond what was measured up to which a number is not called an extrapolation
_FEWEST = 0.1  # of the rows that were measured: with fewer, at the same n μ, sampling errors decide


Least = tuple[float, int, int]  # a median, and the T and K of its runs


@dataclass(frozen=True)
class Expectation:
    """Medians that are expected at some size and budget.

    medians : (T, K) objective at the end of each option's runs, by name, over `lengths` and `EPOCHS`. start : objective
    at x₀. inside : whether size, settings and kind of data lie within what was measured; else the numbers are those
    nearest to them.
    """

    medians: Mapping[str, np.ndarray]
    lengths: tuple[int, ...]
    start: float
    inside: bool

    def at(self, name: str, length: float, epochs: float) -> float | None:
        """The median of an option in epochs of this number and length; None far from all that was measured."""
        if not (_is_near(length, self.lengths) and _is_near(epochs, EPOCHS)):
            return None
        return float(between(epochs, EPOCHS, between(length, self.lengths, self.medians[name])))

    def least(self, name: str, most: Callable[[int], float]) -> Least | None:
        """An option's lowest median, with T and K. most : steps that there may be in epochs of a length."""
        found = [
            (float(self.medians[name][i, j]), length, epochs)
            for i, length in enumerate(self.lengths)
            for j, epochs in enumerate(EPOCHS)
            if length * epochs <= most(length)
        ]
        return min(found, default=None)


def expectation(problem: ProblemSpecification, mu: float) -> Expectation | None:
    """What is expected of every option on a problem; None for one that was not measured, and without privacy.

    mu : what the budget buys. Reads facts only.
    """
    facts, cells = problem.facts(), table()["advice"].get(key(problem), [])
    if not cells or not isinstance(facts, ValueFacts) or not isinstance(problem, BlackBox) or not math.isfinite(mu):
        return None
    place = (facts.d, facts.radius, facts.n * mu)
    axes = [sorted({cell[name] for cell in cells}) for name in ("size", "radius")]
    axes.append(cells[0]["signals"])
    medians = {}
    for name in cells[0]["medians"]:
        by_place = {(cell["size"], cell["radius"]): np.array(cell["medians"][name]) for cell in cells}
        grid = np.array([[by_place[size, radius] for radius in axes[1]] for size in axes[0]])
        for where, axis in zip(place, axes, strict=True):
            grid = between(where, axis, grid)
        medians[name] = grid
    (cell, *_) = sorted(cells, key=lambda one: abs(math.log(one["size"] / facts.d)))
    other = BlackBox.from_json(json.dumps(cell["problem"]))
    near = all(_is_near(where, axis) for where, axis in zip(place, axes, strict=True))
    near &= facts.n >= _FEWEST * other.facts().n
    return Expectation(medians, tuple(cell["lengths"]), cell["start"], near and _as_measured(problem, other))


def between(place: float, places: Sequence[float], heights: np.ndarray) -> np.ndarray:
    """Heights (k, …) between k known places, straight in logarithms; beyond them those at the edge."""
    at = np.interp(math.log(place), np.log(places), np.arange(len(places)))
    low = min(int(at), max(len(places) - 2, 0))
    high = min(low + 1, len(places) - 1)
    logs = np.log(heights)
    return np.asarray(np.exp(logs[low] + (at - low) * (logs[high] - logs[low])))


def _is_near(place: float, places: Sequence[float]) -> bool:
    return places[0] / _NEAR <= place <= _NEAR * places[-1]


def key(problem: ProblemSpecification) -> str:
    """The problem's name in the table: its kind, and the choice that makes it another function."""
    choices = (getattr(problem, name, "") for name in ("form", "answer"))
    return "_".join(filter(None, (problem.kind.rpartition(".")[2], *choices)))


_VARIED = {"rows", "dimension", "seed", "radius", "gap", "data"}  # in sizes and facts, or of no account in a run


def _as_measured(problem: BlackBox, other: BlackBox) -> bool:
    """Whether no setting but sizes, seeds and the radius differs from those of the problem that was measured."""
    pairs: list[tuple[Any, Any]] = [(problem, other)]
    if isinstance(problem, TableModel) and isinstance(other, TableModel):
        pairs.append((problem.data, other.data))
    return all(
        type(one) is type(two)
        and all(getattr(one, name) == getattr(two, name) for name in type(one).model_fields if name not in _VARIED)
        for one, two in pairs
    )


def table() -> dict[str, Any]:
    """The table as `measure.py` writes it; empty before it did."""
    return resources.data(__package__, TABLE.name) if TABLE.exists() else {"presets": {}, "advice": {}}
