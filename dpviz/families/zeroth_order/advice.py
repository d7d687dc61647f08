"""Before a run: which oracle, directions and running sums are advised at this size, and why; and what theory says of
an experiment's methods.

What is minimised is the objective that runs on generated data came to (`measured`); where nothing of the kind was
measured, the bound. The two often disagree, and then the advice says so.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import measured, planning, texts, theory
from dpviz.families.zeroth_order.algorithms import Naive, VarianceReduced
from dpviz.families.zeroth_order.conversion import MOST_STEPS, Conversion
from dpviz.families.zeroth_order.measured import Expectation
from dpviz.families.zeroth_order.theory import Best, Bound, Setting, Sums
from dpviz.numbers import short, short_up
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.values.black_box import WANTED, BentValley, PhaseRetrieval, Votes
from dpviz.problems.values.value_problem import Kind, ValueFacts

NO_BOUND = "No bound holds: values jump, or move faster than L."


@dataclass(frozen=True)
class Way:
    """A way to estimate gradients. sums : None for the naive oracle. follows : whether batches follow the moves.
    full : m = d directions per row, else one."""

    name: str
    kind: Kind
    sums: Sums | None
    follows: bool = False
    full: bool = True

    def method(self, **epochs: Any) -> Conversion:
        """The method, with these settings and the defaults of the others."""
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
    """A way, with the epochs that have its smallest bound, and those whose runs ended lowest.

    least : the lowest median of runs; None where nothing was measured. there : that of runs with the epochs of `best`.
    """

    way: Way
    facts: ValueFacts
    mu: float
    best: Best
    least: measured.Least | None = None
    there: float | None = None

    @property
    def epochs(self) -> tuple[int, int]:
        """T and K that are advised: those whose runs ended lowest, else those of the smallest bound."""
        return (self.best.length, self.best.epochs) if self.least is None else self.least[1:]

    @property
    def method(self) -> Conversion:
        """The method with these epochs."""
        length, epochs = self.epochs
        return self.way.method(epoch_length=length, iterations=length * epochs)

    @cached_property
    def bound(self) -> float:
        """Of these epochs."""
        found = bound(self.method, self.facts, self.mu)
        return math.inf if found is None else found.total

    @property
    def noise(self) -> tuple[float, float]:
        """Per coordinate, of a step and of the mean of an epoch, as planned with these epochs."""
        step, epoch = self.method.epoch_noise(self.facts, self.method.layout(self.facts))
        return step / self.mu, epoch / self.mu


@dataclass(frozen=True)
class Advice:
    """options : the smallest bound first. expected : what runs came to, if anything of the kind was measured.
    lipschitz : L, from which on a bound says nothing. exact : whether bounds hold."""

    options: tuple[Option, ...]
    lipschitz: float
    exact: bool
    expected: Expectation | None = None

    @property
    def smallest(self) -> Option:
        """The one with the smallest bound; the naive oracle where values have no Lipschitz constant."""
        return next((one for one in self.options if self.exact or one.way.sums is None), self.options[0])

    @property
    def choice(self) -> Option:
        """The one whose runs ended lowest; where nothing was measured, the one with the smallest bound."""
        known = [one for one in self.options if one.least is not None]
        return min(known, key=lambda one: one.least or (math.inf,), default=self.smallest)

    @property
    def disagree(self) -> bool:
        """Whether runs with the smallest bound end higher than those of the choice, by more than their error."""
        chosen, there = self.choice.least, self.smallest.there
        return chosen is not None and there is not None and there > measured.EQUAL * chosen[0]

    @property
    def why(self) -> str:
        """The reason, in sentences: what runs came to, what the bound says, what the noise is."""
        if math.isinf(self.smallest.best.bound):
            return "There are too few rows for an epoch of two steps."
        words = [self._runs(), self._bound() if self.exact else NO_BOUND]
        return " ".join(filter(None, [*words, self._noise(), texts.GUESS * (self.exact and self.facts.guessed)]))

    def _runs(self) -> str:
        if self.expected is None or self.choice.least is None:
            told = "No function of the kind was measured"
            return f"{told}: this is what the bound says, and runs may end otherwise." if self.exact else f"{told}."
        where = "like this one" if self.expected.inside else "of the kind, but of another size or with other settings,"
        return (
            f"Runs on generated data {where} ended lowest with it: at about {short(self.choice.least[0], 2)} "
            f"(median), from {short(self.expected.start, 2)} at the start."
        )

    def _bound(self) -> str:
        least, best = self.smallest, self.smallest.best
        nothing = " That is L or more, so no bound promises anything here." if best.bound >= self.lipschitz else ""
        if self.choice.least is None:
            return nothing.strip()
        told = f"The smallest bound, {short_up(best.bound, 2)}, has “{least.way.name}” with T = {best.length:,}, K = "
        if least.there is None:
            return f"{told}{best.epochs:,}, of which no runs were measured.{nothing}"
        told += f"{best.epochs:,}; its runs ended at about {short(least.there, 2)}"
        return f"{told}: **bound and runs disagree**.{nothing}" if self.disagree else f"{told}.{nothing}"

    def _noise(self) -> str:
        """The noise of the choice, if it is one of running sums, beside that of fresh estimates and, where a bound
        holds, what it makes of both."""
        chosen = self.choice
        if not isinstance(chosen.method, VarianceReduced) or math.isinf(self.choice.mu):
            return ""
        naive = chosen.method.afresh()
        step, epoch = (
            own / other
            for own, other in zip(
                chosen.method.epoch_noise(self.facts, chosen.method.layout(self.facts)),
                naive.epoch_noise(self.facts, naive.layout(self.facts)),
                strict=True,
            )
        )
        term = 2 * step * math.sqrt(chosen.epochs[0])
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
        """What all options are for."""
        return self.options[0].facts


def advice(facts: ValueFacts, budget: Budget, most: int | None = None, expected: Expectation | None = None) -> Advice:
    """The options for these facts and this budget. most : steps, if not any number of them. expected : what runs came
    to. UserError under pure ε."""
    mu = planning.total_mu(budget, facts)
    found = []
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
        found.append(Option(way, facts, mu, best, least, there))
    return Advice(tuple(sorted(found, key=lambda one: one.best.bound)), facts.lipschitz, facts.exact, expected)


def _most_steps(facts: ValueFacts, way: Way, most: int | None) -> Callable[[int], float]:
    """For how many steps, in epochs of a length, rows suffice."""
    share = None if way.sums is None else 0.5

    def of(length: int) -> float:
        return min(planning.most_steps(facts.n, length, share, way.follows), math.inf if most is None else most)

    return of


def setting_of(facts: ValueFacts, mu: float) -> Setting:
    """What bounds depend on, for as many orthonormal directions per row as there are parameters."""
    known = facts.n, facts.d, facts.lipschitz, facts.radius, facts.gap
    return Setting(*known, mu, "orthonormal", facts.d, value_range=facts.value_range)


def bound(method: Conversion, facts: ValueFacts, mu: float) -> Bound | None:
    """The bound on the stationarity of what a method returns (THEORY.md, 5). None where none is known: values have no
    Lipschitz constant, are clipped at their range or below what it allows, or the learner keeps its last move."""
    if not facts.exact or method.clipping == "range" or not method.fresh_start:
        return None
    if isinstance(method, VarianceReduced) and (method.concentration or math.inf) < math.sqrt(facts.d):
        return None
    layout = method.layout(facts)
    setting = replace(setting_of(facts, mu), kind=method.directions, count=layout.directions, follows=layout.follows)
    where = layout.length, layout.epochs
    if not isinstance(method, VarianceReduced):
        return theory.naive_bound(setting, *where, layout.batch, layout.move)
    largest = float(method.changes(facts, layout).max())
    variance = (method.epoch_noise(facts, layout)[0] / largest) ** 2  # each leaf pays for itself, as in the plan
    return theory.reduced_bound(setting, *where, layout.first, layout.batch, layout.move, variance)


@dataclass(frozen=True)
class Forecast:
    """What is known before a run.

    mu, advice : None where the budget buys no Gaussian noise.
    bounds : of every private method that has one. without : the private methods of which no bound is known.
    watched : (T,) per private method with epochs, the μ of what its first t steps release.
    reach : how far a run with epochs may get from its start, at most; 0 if there is none.
    far : from the start to the nearest minimum, where that is known; no run with a shorter reach gets there.
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
    """The bounds of all private methods with epochs, and the advice for these facts and this budget."""
    facts = ValueFacts.of(next(iter(plans.values())).facts)
    try:
        mu = planning.total_mu(experiment.budget, facts)
        advised = advice(facts, experiment.budget, MOST_STEPS, measured.expectation(experiment.problem, mu))
    except UserError:
        advised, mu = None, None
    methods = {
        arm.label: arm.algorithm
        for arm in experiment.arms
        if not arm.reference and arm.label in plans and isinstance(arm.algorithm, Conversion)
    }
    bounds = {
        label: found
        for label, method in methods.items()
        if (found := bound(method, facts, planning.total_mu(plans[label].budget, facts))) is not None
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
        advised,
    )


def reach(plans: Mapping[str, Plan]) -> float:
    """How far a run with epochs may get from its start, at most; 0 if there is none."""
    return max((plan.resolved.get("reach", 0.0) for plan in plans.values()), default=0.0)


def watched(method: Conversion, facts: ValueFacts, mu: float) -> np.ndarray:
    """(T,) μ of what the first t steps release, at most: what who stops watching then has seen (THEORY.md, 4).

    A row's leaf i enters the releases j ≤ t with C_ji s_i; fresh estimates release every leaf at once.
    """
    layout = method.layout(facts)
    if not isinstance(method, VarianceReduced):
        return np.full(layout.length, mu)
    changes, sums = method.changes(facts, layout)[: layout.length], method.epoch_sums(facts, layout)
    seen = np.sqrt(np.cumsum((sums.encoder() * changes) ** 2, axis=0).max(axis=1))
    return np.asarray(mu * seen / theory.charged(method.sums, sums, changes))


def reduced_of(experiment: Experiment) -> VarianceReduced:
    """The first of the methods that adds up changes; else the published one with the settings of the first method."""
    methods = [arm.algorithm for arm in experiment.arms if isinstance(arm.algorithm, Conversion)]
    chosen = next((method for method in methods if isinstance(method, VarianceReduced)), None)
    if chosen is not None:
        return chosen
    shared = {name: getattr(methods[0], name) for name in Conversion.model_fields} if methods else {}
    return VarianceReduced().adopting(shared)


def distance(problem: ProblemSpecification) -> float | None:
    """From the start to the nearest minimum of a simulated function; None where no minimum is known."""
    if isinstance(problem, PhaseRetrieval):
        wanted = np.full(problem.dimension, problem.dimension**-0.5) * np.array([[1], [-1]])
    elif isinstance(problem, Votes):
        wanted = np.array([WANTED])
    elif isinstance(problem, BentValley):
        wanted = np.ones((1, 2))
    else:
        return None
    return float(np.linalg.norm(wanted - problem.function().start, axis=1).min())
