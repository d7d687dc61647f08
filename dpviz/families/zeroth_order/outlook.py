"""What theory says of the methods of an experiment before they run: their bounds, and which one is advised."""

from collections.abc import Mapping
from dataclasses import dataclass

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import advice, planning, theory
from dpviz.families.zeroth_order.advice import Advice
from dpviz.families.zeroth_order.algorithms import VarianceReduced
from dpviz.families.zeroth_order.conversion import Conversion
from dpviz.families.zeroth_order.theory import Bound, Setting
from dpviz.problems.value_problem import ValueFacts


@dataclass(frozen=True)
class Outlook:
    """What is known before a run.

    bounds : of every private method that has one. without : the private methods of which no bound is known.
    advice : None where the budget buys no Gaussian noise.
    """

    facts: ValueFacts
    bounds: Mapping[str, Bound]
    without: tuple[str, ...]
    advice: Advice | None


def outlook(experiment: Experiment, plans: Mapping[str, Plan]) -> Outlook:
    """The bounds of all private methods with epochs, and the advice for these facts and this budget."""
    facts = next(iter(plans.values())).facts
    assert isinstance(facts, ValueFacts)
    bounds, without = {}, []
    for arm in experiment.arms:
        if not arm.reference and arm.label in plans:
            found = bound(arm.algorithm, plans[arm.label]) if isinstance(arm.algorithm, Conversion) else None
            if found is None:
                without.append(arm.label)
            else:
                bounds[arm.label] = found
    try:
        advised = advice.advice(facts, experiment.budget)
    except UserError:
        advised = None
    return Outlook(facts, bounds, tuple(without), advised)


def bound(method: Conversion, plan: Plan) -> Bound | None:
    """The bound on the stationarity of what a method returns (THEORY.md, 5). None where none is known: values have no
    Lipschitz constant, are clipped at their range, or the learner keeps its last move."""
    facts = plan.facts
    assert isinstance(facts, ValueFacts)
    if not facts.exact or method.clipping == "range" or not method.fresh_start:
        return None
    layout = method.layout(facts)
    setting = setting_of(method, plan)
    where = layout.length, layout.epochs
    if not isinstance(method, VarianceReduced):
        return theory.naive_bound(setting, *where, layout.batch, layout.move)
    variance = theory.mean_variance(method.sums, layout.length)
    return theory.reduced_bound(setting, *where, layout.first, layout.batch, layout.move, variance)


def setting_of(method: Conversion, plan: Plan) -> Setting:
    """What the bounds of a method's plan depend on."""
    facts = plan.facts
    assert isinstance(facts, ValueFacts)
    layout, mu = method.layout(facts), planning.total_mu(plan.budget, facts)
    known = facts.n, facts.d, facts.lipschitz, facts.radius, facts.gap
    return Setting(*known, mu, method.directions, layout.directions, layout.follows)
