"""Advice before a run on the oracle, its directions and its running sums, with reasons; and bounds of an experiment's
methods.

The advice minimises the final objective of runs on generated data (`measured`); for a kind of problem that was not
measured, the bound. The two often disagree, and then the advice says so.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import planning, texts, theory
from dpviz.families.zeroth_order.algorithms import Naive, VarianceReduced
from dpviz.families.zeroth_order.conversion import MOST_STEPS, Conversion
from dpviz.families.zeroth_order.theory import Best, Bound, Setting, Sums
from dpviz.numbers import short, short_up
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.values.black_box import WANTED, BentValley, BlackBox, PhaseRetrieval, TableModel, Votes
from dpviz.problems.values.value_problem import Kind, ValueFacts

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


NO_BOUND = "No bound holds: values jump, or move faster than L."


@dataclass(frozen=True)
class Way:
    """Way to estimate gradients. sums : None for the naive oracle. follows : True if batches follow the moves. full :
    True for m = d directions per row, False for one."""

    name: str
    kind: Kind
    sums: Sums | None
    follows: bool = False
    full: bool = True

    def method(self, **epochs: Any) -> Conversion:
        """Return the method of this way with the settings `epochs`; all others have their defaults."""
        if self.sums is not None:
            return VarianceReduced(directions=self.kind, sums=self.sums, follow_moves=self.follows, **epochs)
        return Naive(directions=self.kind, directions_per_row=None if self.full else 1, **epochs)


WAYS: tuple[Way, ...] = (
    Way("Published", "iid", "tree"),
    Way("Published, square-root sums", "iid", "square_root"),
    Way("Improved", "orthonormal", "optimal"),
    Way("Improved, batches follow the moves", "orthonormal", "optimal", follows=True),
    Way("Naive", "iid", None, full=False),
    Way("Naive, orthonormal", "orthonormal", None),
)


@dataclass(frozen=True)
class Option:
    """Way to estimate gradients, with the epochs of its smallest bound, and those of its lowest runs.

    mu : μ of the budget. least : the lowest median of runs, with T and K; None if the kind of problem was not measured.
    there : the median of runs with the epochs of `best`.
    """

    way: Way
    facts: ValueFacts
    mu: float
    best: Best
    least: Least | None = None
    there: float | None = None

    @property
    def epochs(self) -> tuple[int, int]:
        """T and K of the advice: those of the lowest runs, else those of the smallest bound."""
        return (self.best.length, self.best.epochs) if self.least is None else self.least[1:]

    @property
    def method(self) -> Conversion:
        """The method with these epochs."""
        length, epochs = self.epochs
        return self.way.method(epoch_length=length, iterations=length * epochs)

    @cached_property
    def bound(self) -> float:
        """Bound with the epochs of the advice; infinite where none is known."""
        result = bound(self.method, self.facts, self.mu)
        return math.inf if result is None else result.total

    @property
    def noise(self) -> tuple[float, float]:
        """Deviation per coordinate of the noise of a step and of the mean of an epoch, with the epochs of the
        advice."""
        step, epoch = self.method.epoch_noise(self.facts, self.method.layout(self.facts))
        return step / self.mu, epoch / self.mu


@dataclass(frozen=True)
class Advice:
    """Options for one problem and budget, the smallest bound first.

    lipschitz : L, from which on a bound says nothing. exact : True if bounds hold. expected : medians of runs, None if
    the kind of problem was not measured.
    """

    options: tuple[Option, ...]
    lipschitz: float
    exact: bool
    expected: Expectation | None = None

    @property
    def smallest(self) -> Option:
        """Option with the smallest bound; the naive oracle where values have no Lipschitz constant."""
        return next((option for option in self.options if self.exact or option.way.sums is None), self.options[0])

    @property
    def choice(self) -> Option:
        """Option with the lowest runs; if the kind of problem was not measured, the one with the smallest bound."""
        with_runs = [option for option in self.options if option.least is not None]
        return min(with_runs, key=lambda option: option.least or (math.inf,), default=self.smallest)

    @property
    def disagree(self) -> bool:
        """True if runs with the smallest bound end higher than those of `choice`, by more than their error."""
        lowest, there = self.choice.least, self.smallest.there
        return lowest is not None and there is not None and there > EQUAL * lowest[0]

    @property
    def why(self) -> str:
        """Reasons for the choice, in sentences: results of runs, the bound, the noise."""
        if math.isinf(self.smallest.best.bound):
            return "There are too few rows for an epoch of two steps."
        sentences = [self._runs(), self._bound() if self.exact else NO_BOUND]
        return " ".join(filter(None, [*sentences, self._noise(), texts.GUESS * (self.exact and self.facts.guessed)]))

    def _runs(self) -> str:
        """Return a sentence on the results of runs."""
        if self.expected is None or self.choice.least is None:
            start = "No function of the kind was measured"
            return f"{start}: this is what the bound says, and runs may end otherwise." if self.exact else f"{start}."
        where = "like this one" if self.expected.inside else "of the kind, but of another size or with other settings,"
        return (
            f"Runs on generated data {where} ended lowest with it: at about {short(self.choice.least[0], 2)} "
            f"(median), from {short(self.expected.start, 2)} at the start."
        )

    def _bound(self) -> str:
        """Return sentences on the smallest bound, and on the runs with its epochs."""
        smallest, best = self.smallest, self.smallest.best
        useless = " That is L or more, so no bound promises anything here." if best.bound >= self.lipschitz else ""
        if self.choice.least is None:
            return useless.strip()
        text = f"The smallest bound, {short_up(best.bound, 2)}, has “{smallest.way.name}” with T = {best.length:,}, "
        if smallest.there is None:
            return f"{text}K = {best.epochs:,}, of which no runs were measured.{useless}"
        text += f"K = {best.epochs:,}; its runs ended at about {short(smallest.there, 2)}"
        return f"{text}: **bound and runs disagree**.{useless}" if self.disagree else f"{text}.{useless}"

    def _noise(self) -> str:
        """Return sentences that compare the noise of the choice, if it has running sums, with that of fresh estimates;
        and, where a bound holds, the terms of the bound."""
        choice, method = self.choice, self.choice.method
        if not isinstance(method, VarianceReduced) or math.isinf(choice.mu):
            return ""
        naive = method.afresh()
        noise = method.epoch_noise(self.facts, method.layout(self.facts))
        naive_noise = naive.epoch_noise(self.facts, naive.layout(self.facts))
        step, epoch = (reduced / fresh for reduced, fresh in zip(noise, naive_noise, strict=True))
        term = 2 * step * math.sqrt(choice.epochs[0])
        told = (
            f"The noise of the advised sums is {short(step, 2)} times that of fresh estimates on the same rows in "
            f"a step, and {short(epoch, 2)} times in the mean of an epoch."
        )
        if not self.exact:
            return told
        return (
            f"{told} The bound makes {short(term, 2)} of that: it counts errors of running sums twice in every "
            "step, and lets those of fresh estimates average out."
        )

    @property
    def facts(self) -> ValueFacts:
        """Facts of the problem, the same for all options."""
        return self.options[0].facts


def advice(facts: ValueFacts, budget: Budget, most: int | None = None, expected: Expectation | None = None) -> Advice:
    """Return the options for these facts and this budget.

    most : largest number of steps, None for any. expected : medians of runs. Raises UserError under pure ε.
    """
    mu = planning.total_mu(budget, facts)
    options = []
    for way in WAYS:
        count = facts.d if way.full else 1
        setting = replace(setting_of(facts, mu), kind=way.kind, count=count, follows=way.follows)
        best = theory.best_naive(setting, most=most)
        if way.sums is not None:
            best = theory.best_reduced(setting, way.sums, most=most)
        least = there = None
        if expected is not None and math.isfinite(best.bound):
            least = expected.least(way.name, _most_steps(facts, way, most))
            there = expected.at(way.name, best.length, best.epochs)
        options.append(Option(way, facts, mu, best, least, there))
    options.sort(key=lambda option: option.best.bound)
    return Advice(tuple(options), facts.lipschitz, facts.exact, expected)


def _most_steps(facts: ValueFacts, way: Way, most: int | None) -> Callable[[int], float]:
    """Return a function from the length of epochs to the number of steps for which rows suffice, at most `most`."""
    share = None if way.sums is None else 0.5

    def steps(length: int) -> float:
        return min(planning.most_steps(facts.n, length, share, way.follows), math.inf if most is None else most)

    return steps


def setting_of(facts: ValueFacts, mu: float) -> Setting:
    """Return the setting of the bounds with d orthonormal directions per row."""
    constants = facts.n, facts.d, facts.lipschitz, facts.radius, facts.gap
    return Setting(*constants, mu, "orthonormal", facts.d, value_range=facts.value_range)


def bound(method: Conversion, facts: ValueFacts, mu: float) -> Bound | None:
    """Return the bound on the stationarity of a method's output (THEORY.md, 5).

    None where none is known: values have no Lipschitz constant, are clipped at their range or below what it allows, or
    the learner keeps its last move between epochs.
    """
    if not facts.exact or method.clipping == "range" or not method.fresh_start:
        return None
    if isinstance(method, VarianceReduced) and (method.concentration or math.inf) < math.sqrt(facts.d):
        return None
    layout = method.layout(facts)
    setting = replace(setting_of(facts, mu), kind=method.directions, count=layout.directions, follows=layout.follows)
    epochs = layout.length, layout.epochs
    if not isinstance(method, VarianceReduced):
        return theory.naive_bound(setting, *epochs, layout.batch, layout.move)
    largest = float(method.changes(facts, layout).max())
    variance = (method.epoch_noise(facts, layout)[0] / largest) ** 2  # each leaf pays for itself, as in the plan
    return theory.reduced_bound(setting, *epochs, layout.first, layout.batch, layout.move, variance)


@dataclass(frozen=True)
class Forecast:
    """Bounds and advice before a run.

    mu, advice : None where the budget allows no Gaussian noise.
    bounds : of every private method that has one. without : the private methods of which no bound is known.
    watched : (T,) per private method with epochs, the μ of the releases of its first t steps.
    reach : largest distance that a run with epochs may get from its start; 0 if there is none.
    far : distance from the start to the nearest minimum, if it is known; no run with a shorter reach gets there.
    """

    facts: ValueFacts
    mu: float | None
    bounds: Mapping[str, Bound]
    without: tuple[str, ...]
    watched: Mapping[str, np.ndarray]
    reach: float
    far: float | None
    advice: Advice | None


def forecast(experiment: Experiment, plans: Mapping[str, Plan]) -> Forecast:
    """Return the bounds of all private methods with epochs, and the advice for these facts and this budget."""
    facts = ValueFacts.of(next(iter(plans.values())).facts)
    try:
        mu = planning.total_mu(experiment.budget, facts)
        recommendation = advice(facts, experiment.budget, MOST_STEPS, expectation(experiment.problem, mu))
    except UserError:
        recommendation, mu = None, None
    methods = {
        arm.label: arm.algorithm
        for arm in experiment.arms
        if not arm.reference and arm.label in plans and isinstance(arm.algorithm, Conversion)
    }
    bounds = {
        label: result
        for label, method in methods.items()
        if (result := bound(method, facts, planning.total_mu(plans[label].budget, facts))) is not None
    }
    private = [arm.label for arm in experiment.arms if not arm.reference and arm.label in plans]
    return Forecast(
        facts,
        mu,
        bounds,
        tuple(label for label in private if label not in bounds),
        {} if mu is None else {label: watched(method, facts, mu) for label, method in methods.items()},
        reach(plans),
        distance(experiment.problem),
        recommendation,
    )


def reach(plans: Mapping[str, Plan]) -> float:
    """Return the largest distance that a run with epochs may get from its start; 0 if there is none."""
    return max((plan.resolved.get("reach", 0.0) for plan in plans.values()), default=0.0)


def watched(method: Conversion, facts: ValueFacts, mu: float) -> np.ndarray:
    """Return (T,) the largest μ of the releases of the first t steps, for an observer that stops then (THEORY.md, 4).

    A row's leaf i enters the releases j ≤ t with C_ji s_i; fresh estimates release every leaf at once.
    """
    layout = method.layout(facts)
    if not isinstance(method, VarianceReduced):
        return np.full(layout.length, mu)
    changes, sums = method.changes(facts, layout)[: layout.length], method.epoch_sums(facts, layout)
    released = np.sqrt(np.cumsum((sums.encoder() * changes) ** 2, axis=0).max(axis=1))
    return np.asarray(mu * released / theory.charged(method.sums, sums, changes))


def reduced_of(experiment: Experiment) -> VarianceReduced:
    """Return the experiment's first method with running sums; if there is none, the published one with the settings of
    the first method."""
    methods = [arm.algorithm for arm in experiment.arms if isinstance(arm.algorithm, Conversion)]
    reduced = next((method for method in methods if isinstance(method, VarianceReduced)), None)
    if reduced is not None:
        return reduced
    shared = {name: getattr(methods[0], name) for name in Conversion.model_fields} if methods else {}
    return VarianceReduced().adopting(shared)


def distance(problem: ProblemSpecification) -> float | None:
    """Return the distance from the start to the nearest minimum of a simulated function; None if no minimum is
    known."""
    if isinstance(problem, PhaseRetrieval):
        minima = np.full(problem.dimension, problem.dimension**-0.5) * np.array([[1], [-1]])
    elif isinstance(problem, Votes):
        minima = np.array([WANTED])
    elif isinstance(problem, BentValley):
        minima = np.ones((1, 2))
    else:
        return None
    return float(np.linalg.norm(minima - problem.function().start, axis=1).min())
