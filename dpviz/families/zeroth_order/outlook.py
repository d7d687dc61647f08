"""What theory says of the methods of an experiment before they run: their bounds, and which one is advised."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import advice, planning, theory
from dpviz.families.zeroth_order.advice import Advice
from dpviz.families.zeroth_order.algorithms import VarianceReduced
from dpviz.families.zeroth_order.conversion import MOST_STEPS, Conversion
from dpviz.families.zeroth_order.theory import Bound, Setting
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.black_box import WANTED, BentValley, PhaseRetrieval, Votes
from dpviz.problems.value_problem import ValueFacts


@dataclass(frozen=True)
class Outlook:
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


def outlook(experiment: Experiment, plans: Mapping[str, Plan]) -> Outlook:
    """The bounds of all private methods with epochs, and the advice for these facts and this budget."""
    facts = next(iter(plans.values())).facts
    assert isinstance(facts, ValueFacts)
    try:
        advised = advice.advice(facts, experiment.budget, most=MOST_STEPS)
        mu = planning.total_mu(experiment.budget, facts)
    except UserError:
        advised, mu = None, None
    methods = {
        arm.label: arm.algorithm
        for arm in experiment.arms
        if not arm.reference and arm.label in plans and isinstance(arm.algorithm, Conversion)
    }
    bounds = {label: found for label, method in methods.items() if (found := bound(method, plans[label])) is not None}
    private = [arm.label for arm in experiment.arms if not arm.reference and arm.label in plans]
    return Outlook(
        facts,
        mu,
        bounds,
        tuple(label for label in private if label not in bounds),
        {} if mu is None else {label: watched(method, facts, mu) for label, method in methods.items()},
        max((plan.resolved.get("reach", 0.0) for plan in plans.values()), default=0.0),
        distance(experiment.problem),
        advised,
    )


def bound(method: Conversion, plan: Plan) -> Bound | None:
    """The bound on the stationarity of what a method returns (THEORY.md, 5). None where none is known: values have no
    Lipschitz constant, are clipped at their range or below what it allows, or the learner keeps its last move."""
    facts = plan.facts
    assert isinstance(facts, ValueFacts)
    if not facts.exact or method.clipping == "range" or not method.fresh_start:
        return None
    if isinstance(method, VarianceReduced) and (method.concentration or math.inf) < math.sqrt(facts.d):
        return None
    layout = method.layout(facts)
    mu = planning.total_mu(plan.budget, facts)
    setting = replace(setting_of(facts, mu), kind=method.directions, count=layout.directions, follows=layout.follows)
    where = layout.length, layout.epochs
    if not isinstance(method, VarianceReduced):
        return theory.naive_bound(setting, *where, layout.batch, layout.move)
    changes = method.changes(facts, layout)  # and their own noise: leaves that cost less than the most count as they do
    variance = float(((method.factorisation(facts, layout).rms_error(changes) / changes.max()) ** 2).mean())
    return theory.reduced_bound(setting, *where, layout.first, layout.batch, layout.move, variance)


def setting_of(facts: ValueFacts, mu: float) -> Setting:
    """What bounds depend on, for as many orthonormal directions per row as there are parameters."""
    return Setting(facts.n, facts.d, facts.lipschitz, facts.radius, facts.gap, mu, "orthonormal", facts.d)


def watched(method: Conversion, facts: ValueFacts, mu: float) -> np.ndarray:
    """(T,) μ of what the first t steps release, at most: what who stops watching then has seen (THEORY.md, 4).

    A row's leaf i enters the releases j ≤ t with C_ji s_i; fresh estimates release every leaf at once.
    """
    layout = method.layout(facts)
    if not isinstance(method, VarianceReduced):
        return np.full(layout.length, mu)
    changes = method.changes(facts, layout)[: layout.length]
    seen = np.sqrt(np.cumsum((method.epoch_sums(facts, layout).encoder() * changes) ** 2, axis=0).max(axis=1))
    return np.asarray(mu * seen / seen[-1])


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
