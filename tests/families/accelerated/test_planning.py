"""From budgets to events: every combination of settings either plans within its budget or says why it cannot."""

from itertools import product

import numpy as np
import pytest

from dpviz.datasets import UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.families.accelerated import GradientDescent, MultistageNesterov, Nesterov, planning
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Gaussian, Laplace, Sub, inner_events
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from tests.pairs import all_pairs
from tests.refusals import NO_AMPLIFICATION, NO_BOUND, NO_GAUSSIAN, NO_HORIZON, UNPROTECTED, is_refusal

DEFAULT = LogisticRegression().facts()
BUDGETS: list[Budget] = [
    PureDP(epsilon=2.0),
    ApproximateDP(epsilon=2.0, delta=1e-6),
    ZeroConcentratedDP(rho=0.1),
    GaussianDP(mu=0.5),
    NoPrivacy(),
]


def used(events: tuple, budget: Budget) -> float:
    """The share of the budget that events spend, in the budget's own currency."""
    if isinstance(budget, PureDP):
        return accountants.total(events, "epsilon") / budget.epsilon
    if isinstance(budget, ZeroConcentratedDP):
        return accountants.total(events, "rho") / budget.rho
    if isinstance(budget, GaussianDP):
        return (accountants.total(events, "mu") / budget.mu) ** 2
    assert isinstance(budget, ApproximateDP)
    return accountants.tightest(events, budget.delta).epsilon / budget.epsilon


def check(method: GradientMethod, facts: SmoothFacts, budget: Budget, least: float = 0.97) -> Plan | None:
    """Plan, and check all that must hold of any plan; None if the settings were refused with a sentence.

    least : share of the budget that the plan must use.
    """
    said = f"{method!r} under {budget.describe()}"
    try:
        plan = method.plan(facts, budget)
    except UserError as error:
        assert is_refusal(error, NO_AMPLIFICATION, NO_GAUSSIAN, UNPROTECTED, NO_BOUND, NO_HORIZON), said
        return None
    scale, m = plan.noise["gradient"], method.batch_size(facts)
    assert 1 <= plan.iterations <= method.iterations and len(plan.events) == plan.iterations, said
    for event in set(plan.events):
        assert isinstance(event, Sub) == (m < facts.n), said
        assert not isinstance(event, Sub) or (event.m, event.n) == (m, facts.n), said
        kinds = {type(inner) for inner in inner_events(event)}
        assert kinds == {Laplace if method.noise == "laplace" else Gaussian}, said
    if isinstance(budget, NoPrivacy):
        assert (scale == 0).all(), said
        return plan
    assert np.isfinite(scale).all() and (scale > 0).all(), said
    share = used(plan.events, budget)
    assert least <= share <= 1 + 1e-12, f"{said} uses {share} of its budget"
    bound = method.error_bound(plan)
    if bound is not None:
        assert bound.shape == (plan.iterations + 1,) and np.isfinite(bound).all() and (bound >= 0).all(), said
    return plan


PROBLEMS = {
    "one feature, few rows": LogisticRegression(
        data=UploadedTable(identity="a" * 32, n=20, bounds=((0.0, 1.0),), names=("a",))
    ),
    "a million rows": LogisticRegression(
        data=UniformLogistic(rows=1_000_000, dimension=50), regularisation=1e-5, clip=1000.0
    ),
    "ill-conditioned": Quadratic(rows=10_000_000, dimension=200, strong_convexity=1e-5, smoothness=1000.0),
    "perfectly conditioned": Quadratic(rows=20, dimension=2, strong_convexity=10.0, smoothness=10.0, start=100.0),
    "far start": LogisticRegression(start=100.0, regularisation=1.0),
    "smallest smoothness": LogisticRegression(smoothness=0.02, smoothness_source="declared"),
    "tiny guess": LogisticRegression(initial_gap=1e-6),
}
EXTREME: list[Budget] = [
    PureDP(epsilon=0.01),
    PureDP(epsilon=50.0),
    ApproximateDP(epsilon=0.01, delta=1e-10),
    ApproximateDP(epsilon=50.0, delta=1e-10),
    ApproximateDP(epsilon=50.0, delta=1e-3),
    ZeroConcentratedDP(rho=1e-5),
    ZeroConcentratedDP(rho=100.0),
    GaussianDP(mu=0.01),
    GaussianDP(mu=20.0),
]


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("budget", EXTREME, ids=lambda budget: budget.describe())
@pytest.mark.parametrize("problem", PROBLEMS)
def test_extreme_problems_and_budgets(problem: str, budget: Budget) -> None:
    """No crash, no warning, no infinite or zero noise, and the budget kept: at both ends of every range."""
    facts = PROBLEMS[problem].facts()
    assert isinstance(facts, SmoothFacts)
    for cls, iterations, schedule, fraction in product(
        (GradientDescent, MultistageNesterov), (1, 7), ("uniform", "optimal"), (1.0, 0.0001)
    ):
        method = cls(iterations=iterations, schedule=schedule, batch_fraction=fraction)
        # If a row is drawn with probability below δ only, (ε, δ) does not protect it at all: no noise costs all of ε.
        exposed = (
            isinstance(budget, ApproximateDP) and iterations * method.batch_size(facts) / facts.n < 2 * budget.delta
        )
        plan = check(method, facts, budget, least=0.0 if exposed else 0.97)
        assert plan is not None or exposed, f"{method!r}"
        if fraction == 1 and not isinstance(budget, PureDP):
            assert check(method.replaced(noise="gaussian"), facts, budget) is not None


# -------------------------------------------------------------------------------------------------- released beforehand


@pytest.mark.parametrize("budget", BUDGETS[:-1], ids=lambda budget: budget.kind.split(".")[-1])
def test_a_release_that_uses_up_the_budget_leaves_no_run(budget: Budget) -> None:
    noise = "laplace" if isinstance(budget, PureDP) else "gaussian"
    for cost in (2.0, 10.0, 50.0):  # 2.0 is all of ε = 2, and more than ρ = 0.1 and μ = 0.5
        facts = LogisticRegression(smoothness=0.3, smoothness_source="released", smoothness_cost=cost).facts()
        for horizon in ("fixed", "bound"):
            with pytest.raises(UserError) as caught:
                Nesterov(noise=noise, horizon=horizon).plan(facts, budget)
            assert "left" in caught.value.title
    assert Nesterov().plan(facts, NoPrivacy()).iterations == 100


# --------------------------------------------------------------------------------------------------- is it a good plan?


@all_pairs
@pytest.mark.parametrize("budget", BUDGETS[:-1], ids=lambda budget: budget.kind.split(".")[-1])
@pytest.mark.parametrize("fraction", [1.0, 0.1])
@pytest.mark.parametrize("schedule", ["uniform", "optimal"])
@pytest.mark.parametrize("cls", [GradientDescent, Nesterov, MultistageNesterov], ids=lambda cls: cls.title)
def test_the_number_of_steps_chosen_is_about_the_best(
    cls: type[GradientMethod], schedule: str, fraction: float, budget: Budget
) -> None:
    """Against plans of a fixed length: exact under pure ε, within 10 % where a quick estimate chooses T."""
    method = cls(iterations=400, schedule=schedule, batch_fraction=fraction, horizon="bound")

    def last_bound(chosen: GradientMethod) -> float:
        bound = chosen.error_bound(chosen.plan(DEFAULT, budget))
        assert bound is not None
        return float(bound[-1])

    others = [
        last_bound(method.replaced(horizon="fixed", iterations=t)) for t in (1, 5, 10, 20, 30, 45, 70, 110, 180, 400)
    ]
    slack = 1 + 1e-9 if isinstance(budget, PureDP) else 1.10
    assert last_bound(method) <= min(others) * slack


def test_delta_buys_less_noise_and_never_more() -> None:
    """(2, δ) allows at least what pure ε = 2 allows; the gain grows with T (THEORY.md, section 10, item 2)."""
    gains = []
    for iterations in (1, 25, 40, 80):
        method = Nesterov(iterations=iterations)
        pure, approximate = (
            method.plan(DEFAULT, budget).noise["gradient"][0]
            for budget in (PureDP(epsilon=2.0), ApproximateDP(epsilon=2.0, delta=1e-6))
        )
        gains.append(pure / approximate)
    assert gains[0] >= 1 - 1e-9
    assert gains[1:] == pytest.approx([1.22, 1.50, 2.06], abs=0.01)


def test_bounds_by_horizon_agree_with_the_plans() -> None:
    method = Nesterov(iterations=200, schedule="optimal", horizon="bound")
    for fraction in (1.0, 0.1):
        chosen = method.replaced(batch_fraction=fraction)
        horizons, bounds, best = planning.bound_by_horizon(chosen, DEFAULT, PureDP(epsilon=2.0))
        assert best == horizons[np.argmin(bounds)] == chosen.plan(DEFAULT, PureDP(epsilon=2.0)).iterations
        for index in (0, len(horizons) // 2, len(horizons) - 1):
            fixed = chosen.replaced(horizon="fixed", iterations=int(horizons[index]))
            bound = fixed.error_bound(fixed.plan(DEFAULT, PureDP(epsilon=2.0)))
            assert bound is not None and bounds[index] == pytest.approx(bound[-1], rel=1e-9)


def test_the_gaussian_plan_of_the_theory() -> None:
    """Section 10, item 1: μ(2, 10⁻⁶) = 0.44833, and T* = 112 by the bound."""
    method = Nesterov(noise="gaussian", schedule="optimal", horizon="bound", iterations=1000)
    plan = method.plan(DEFAULT, ApproximateDP(epsilon=2.0, delta=1e-6))
    assert plan.spent("mu")[-1] == pytest.approx(0.44833, abs=5e-6)
    assert plan.iterations == 112
    assert plan.spent("rho")[-1] == pytest.approx(0.44833**2 / 2, abs=5e-6)


def test_a_private_smoothness_gives_the_plan_of_the_theory() -> None:
    """Section 10, item 4: centred, L = 0.0457 released for 5 % of ε = 2: T* = 7."""
    problem = LogisticRegression(
        scaling="centred", smoothness=0.0457, smoothness_source="released", smoothness_cost=0.1
    )
    plan = Nesterov(schedule="optimal", horizon="bound").plan(problem.facts(), PureDP(epsilon=2.0))
    assert plan.iterations == 7
    assert plan.spent("epsilon")[[0, -1]] == pytest.approx([0.1, 2.0], rel=1e-9)
