"""What theory says of the methods of an experiment before they run: their bounds, and which one is advised."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import advice, measured, planning, theory
from dpviz.families.zeroth_order.advice import Advice
from dpviz.families.zeroth_order.algorithms import VarianceReduced
from dpviz.families.zeroth_order.conversion import MOST_STEPS, Conversion
from dpviz.families.zeroth_order.theory import Bound
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.values.black_box import WANTED, BentValley, PhaseRetrieval, Votes
from dpviz.problems.values.value_problem import ValueFacts


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
    facts = next(iter(plans.values())).facts
    assert isinstance(facts, ValueFacts)
    try:
        mu = planning.total_mu(experiment.budget, facts)
        expected = measured.expectation(experiment.problem, mu)
        advised = advice.advice(facts, experiment.budget, MOST_STEPS, expected)
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
        if (found := advice.bound(method, facts, planning.total_mu(plans[label].budget, facts))) is not None
    }
    private = [arm.label for arm in experiment.arms if not arm.reference and arm.label in plans]
    return Forecast(
        facts,
        mu,
        bounds,
        tuple(label for label in private if label not in bounds),
        {} if mu is None else {label: watched(method, facts, mu) for label, method in methods.items()},
        max((plan.resolved.get("reach", 0.0) for plan in plans.values()), default=0.0),
        distance(experiment.problem),
        advised,
    )


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
    return float(np.linalg.norm(wanted - problem.starting_point(), axis=1).min())
