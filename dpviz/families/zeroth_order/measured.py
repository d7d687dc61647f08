"""Expected results before a run: medians of the objective, interpolated from a table of runs on generated data.

No formula orders the methods: their bounds are loose by different factors. So every option of the advice was run on
generated data of several sizes, at several budgets, epochs and smoothing radii, with the page's other settings at
their defaults; `measure.py`, in the folder of the tests, writes the medians of the objective at the end of the last
epoch to `measured.json`. Here they are interpolated to a user's size and budget, which are public.
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
_NEAR = 1.5  # factor beyond the measured range up to which a number is not called an extrapolation
_MIN_ROWS = 0.1  # of the measured number of rows: with fewer, at the same n μ, sampling errors decide


Least = tuple[float, int, int]  # a median, and the T and K of its runs


@dataclass(frozen=True)
class Expectation:
    """Medians that are expected at some size and budget.

    medians : (T, K) objective at the end of each option's runs, by name, over `lengths` and `EPOCHS`. start : objective
    at x₀. inside : True if size, settings and kind of data are within the measured range; else the medians are the
    nearest that were measured.
    """

    medians: Mapping[str, np.ndarray]
    lengths: tuple[int, ...]
    start: float
    inside: bool

    def at(self, name: str, length: float, epochs: float) -> float | None:
        """Return the median of an option for this length and number of epochs; None far from the measured range."""
        if not (_is_near(length, self.lengths) and _is_near(epochs, EPOCHS)):
            return None
        return float(between(epochs, EPOCHS, between(length, self.lengths, self.medians[name])))

    def least(self, name: str, most: Callable[[int], float]) -> Least | None:
        """Return an option's lowest median, with T and K; None if no epochs are short enough. most : function from the
        length of epochs to the largest number of steps."""
        medians = [
            (float(self.medians[name][i, j]), length, epochs)
            for i, length in enumerate(self.lengths)
            for j, epochs in enumerate(EPOCHS)
            if length * epochs <= most(length)
        ]
        return min(medians, default=None)


def expectation(problem: ProblemSpecification, mu: float) -> Expectation | None:
    """Return the expected medians of every option on a problem, from facts only; None for a problem that was not
    measured, and without privacy.

    mu : μ of the budget.
    """
    facts, cells = problem.facts(), table()["advice"].get(key(problem), [])
    if not cells or not isinstance(facts, ValueFacts) or not isinstance(problem, BlackBox) or not math.isfinite(mu):
        return None
    point = (facts.d, facts.radius, facts.n * mu)  # size, radius, signal
    axes = [sorted({cell[name] for cell in cells}) for name in ("size", "radius")]
    axes.append(cells[0]["signals"])
    medians = {}
    for name in cells[0]["medians"]:
        by_cell = {(cell["size"], cell["radius"]): np.array(cell["medians"][name]) for cell in cells}
        grid = np.array([[by_cell[size, radius] for radius in axes[1]] for size in axes[0]])
        for x, axis in zip(point, axes, strict=True):
            grid = between(x, axis, grid)
        medians[name] = grid
    (cell, *_) = sorted(cells, key=lambda cell: abs(math.log(cell["size"] / facts.d)))
    other = BlackBox.from_json(json.dumps(cell["problem"]))
    is_near = all(_is_near(x, axis) for x, axis in zip(point, axes, strict=True))
    is_near &= facts.n >= _MIN_ROWS * other.facts().n
    return Expectation(medians, tuple(cell["lengths"]), cell["start"], is_near and _as_measured(problem, other))


def between(x: float, xs: Sequence[float], values: np.ndarray) -> np.ndarray:
    """Return the value (…) at x, linear in logarithms between k points xs with values (k, …); beyond them that at the
    edge."""
    index = np.interp(math.log(x), np.log(xs), np.arange(len(xs)))
    low = min(int(index), max(len(xs) - 2, 0))
    high = min(low + 1, len(xs) - 1)
    logs = np.log(values)
    return np.asarray(np.exp(logs[low] + (index - low) * (logs[high] - logs[low])))


def _is_near(x: float, xs: Sequence[float]) -> bool:
    return xs[0] / _NEAR <= x <= _NEAR * xs[-1]


def key(problem: ProblemSpecification) -> str:
    """Return the problem's name in the table: its kind, and the settings that make it another function."""
    choices = (getattr(problem, name, "") for name in ("form", "answer"))
    return "_".join(filter(None, (problem.kind.rpartition(".")[2], *choices)))


_VARIED = {"rows", "dimension", "seed", "radius", "gap", "data"}  # in sizes and facts, or without effect on a run


def _as_measured(problem: BlackBox, other: BlackBox) -> bool:
    """Return True if all settings except sizes, seeds and the radius are those of the problem that was measured."""
    pairs: list[tuple[Any, Any]] = [(problem, other)]
    if isinstance(problem, TableModel) and isinstance(other, TableModel):
        pairs.append((problem.data, other.data))
    return all(
        type(mine) is type(theirs)
        and all(getattr(mine, name) == getattr(theirs, name) for name in type(mine).model_fields if name not in _VARIED)
        for mine, theirs in pairs
    )


def table() -> dict[str, Any]:
    """Return the table as `measure.py` writes it; empty if there is no file."""
    return resources.data(__package__, TABLE.name) if TABLE.exists() else {"presets": {}, "advice": {}}
