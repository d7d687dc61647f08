"""From budgets to events: any schedule, what was released before, other losses, and what is drawn of a plan."""

import math
import re
import warnings
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpviz.datasets import UniformLinear, UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import (
    GradientDescent,
    HeavyBall,
    MultistageNesterov,
    Nesterov,
    figures,
    planning,
    presets,
    story,
    theory,
)
from dpviz.families.accelerated.algorithms import GradientMethod, compare
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import Currency
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.mechanisms import Purpose, streams
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares, LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from tests.pairs import all_pairs
from tests.refusals import NO_AMPLIFICATION, NO_BOUND, NO_GAUSSIAN, NO_HORIZON, UNPROTECTED, is_refusal
from tests.strategies import steady

DEFAULT = LogisticRegression().facts()
BUDGETS: list[Budget] = [
    PureDP(epsilon=2.0),
    ApproximateDP(epsilon=2.0, delta=1e-6),
    ZeroConcentratedDP(rho=0.1),
    GaussianDP(mu=0.5),
    NoPrivacy(),
]


def check(method: GradientMethod, facts: SmoothFacts, budget: Budget, least: float = 0.97) -> bool:
    """Whether there is a plan, of which all must hold that holds of any; else a sentence says why not.

    least : share of the budget that the plan must use.
    """
    try:
        plan = method.plan(facts, budget)
    except UserError as error:
        assert is_refusal(error, NO_AMPLIFICATION, NO_GAUSSIAN, UNPROTECTED, NO_BOUND, NO_HORIZON), repr(method)
        return False
    scale, stated = plan.noise["gradient"], getattr(budget, budget.controls()[0].name)
    assert np.isfinite(scale).all() and (scale > 0).all(), repr(method)
    assert least * stated <= budget.spent(plan.events) <= stated * (1 + 1e-12), repr(method)
    bound = method.error_bound(plan)
    assert bound is None or (np.isfinite(bound).all() and (bound >= 0).all()), repr(method)
    return True


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
        assert check(method, facts, budget, least=0.0 if exposed else 0.97) or exposed, repr(method)
        if fraction == 1 and not isinstance(budget, PureDP):
            assert check(method.replaced(noise="gaussian"), facts, budget)


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


def test_a_plan_says_when_its_limit_cuts_the_steps_that_the_bound_would_take() -> None:
    facts = LogisticRegression(data=UniformLogistic(rows=100_000)).facts()
    free, cut = (Nesterov(schedule="optimal", horizon="bound", iterations=T).plan(facts, PureDP()) for T in (1000, 50))
    assert 50 < free.iterations < 1000 and not free.notes
    assert cut.iterations == 50 and any("T = 50" in note for note in cut.notes)
    assert not Nesterov(iterations=50).plan(facts, PureDP()).notes


def test_where_noise_may_hide_everything_a_plan_says_how_many_rows_would_help() -> None:
    small = LogisticRegression(data=UniformLogistic(rows=500)).facts()
    for method in (
        Nesterov(iterations=30),
        Nesterov(iterations=30, batch_fraction=0.25),
        GradientDescent(iterations=30),
    ):
        (note,) = method.plan(small, PureDP(epsilon=0.5)).notes
        times = float(re.search(r"([\d.,]+) times", note)[1])  # type: ignore[index]
        for factor, helps in ((times, True), (0.9 * times, False)):
            facts = replace(small, n=4 * round(125 * factor))
            bound = method.error_bound(method.plan(facts, PureDP(epsilon=0.5)))
            assert bound is not None and bool(bound[-1] < facts.initial_gap) == helps
    by_bound = Nesterov(iterations=30, horizon="bound")
    (note,) = by_bound.plan(small, PureDP(epsilon=0.5)).notes
    times = float(re.search(r"([\d.,]+) times", note)[1])  # type: ignore[index]
    facts = replace(small, n=int(small.n * times))
    bound = by_bound.error_bound(by_bound.plan(facts, PureDP(epsilon=0.5)))
    assert bound is not None and bound[-1] <= facts.initial_gap / 2
    assert not Nesterov(iterations=30).plan(small, NoPrivacy()).notes


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


BENCH, LOGISTIC = Quadratic(strong_convexity=0.1, dimension=4).facts(), LogisticRegression().facts()
NOISES: tuple[tuple[Budget, tuple[str, ...]], ...] = (
    (PureDP(epsilon=2.0), ("laplace",)),
    (ApproximateDP(epsilon=2.0, delta=1e-6), ("laplace", "gaussian")),
    (ZeroConcentratedDP(rho=0.1), ("laplace", "gaussian")),
    (GaussianDP(mu=0.5), ("laplace", "gaussian")),
)
EACH = [(budget, noise) for budget, noises in NOISES for noise in noises]
some_knots = st.lists(st.floats(-theory.LIMIT, theory.LIMIT), min_size=6, max_size=6).map(tuple)


@steady
@given(some_knots, st.sampled_from(EACH), st.sampled_from([1, 5, 40]))
def test_whatever_is_drawn_keeps_the_budget_and_its_shape(
    knots: theory.Knots, settings: tuple[Budget, str], iterations: int
) -> None:
    budget, noise = settings
    plan = Nesterov(iterations=iterations, noise=noise, schedule="own", knots=knots).plan(LOGISTIC, budget)
    spent = budget.cost(plan.events)
    assert 0.97 * budget.remaining(()) <= spent <= budget.remaining(()) * (1 + 1e-9)
    asked = theory.log_scales(knots, iterations)
    got = np.log10(plan.noise["gradient"])
    # Where the accountant is expensive, long schedules are rounded to few levels.
    allowed = 1e-9 if iterations < 40 or budget.pure else 0.3
    assert np.abs((got - got[0]) - (asked - asked[0])).max() <= allowed


@pytest.mark.parametrize(("budget", "noise"), EACH)
@pytest.mark.parametrize("height", [0.0, -1.3, 1.6])
def test_equal_numbers_are_the_even_schedule(budget: Budget, noise: str, height: float) -> None:
    method = GradientDescent(noise=noise, schedule="own", knots=(height,) * 6)
    assert method.plan(BENCH, budget).events == method.replaced(schedule="uniform").plan(BENCH, budget).events


@pytest.mark.parametrize(("budget", "noise"), EACH)
@pytest.mark.parametrize("shape", theory.SHAPES)
def test_the_noise_of_the_even_schedule_follows_from_that_of_any_shape(budget: Budget, noise: str, shape: str) -> None:
    """So a browser can draw any other shape: exactly where the cost of a step is a power of its noise."""
    method = GradientDescent(noise=noise, schedule="own", knots=theory.SHAPES[shape])
    level = theory.even_level(method.knots, method.plan(LOGISTIC, budget).noise["gradient"], 1 if budget.pure else 2)
    even = method.replaced(schedule="uniform").plan(LOGISTIC, budget).noise["gradient"][0]
    is_exact = budget.pure or noise == "gaussian"
    assert level == pytest.approx(math.log10(even), abs=1e-9 if is_exact else 0.1)


def test_the_numbers_are_powers_of_ten_of_the_noise_with_straight_lines_between() -> None:
    method = HeavyBall(iterations=11, schedule="own", knots=(1.0, 0.0, 0.5, 0.5, 0.0, -1.0))
    noise = method.plan(BENCH, PureDP(epsilon=1.0)).noise["gradient"]
    expected = 10.0 ** np.array([1, 0.5, 0, 0.25, 0.5, 0.5, 0.5, 0.25, 0, -0.5, -1])
    assert noise / noise[2] == pytest.approx(expected)


@pytest.mark.parametrize("facts", [BENCH, LOGISTIC], ids=["quadratic", "logistic"])
@pytest.mark.parametrize(("budget", "noise"), [EACH[0], EACH[2], EACH[4], EACH[6]])
@pytest.mark.parametrize("cls", [GradientDescent, Nesterov, MultistageNesterov])
def test_no_shape_beats_the_optimal_one(cls: type[GradientMethod], budget: Budget, noise: str, facts: object) -> None:
    for knots in theory.SHAPES.values():
        method = cls(iterations=30, noise=noise, schedule="own", knots=knots)
        found = compare(method, method.plan(facts, budget))  # type: ignore[arg-type]
        assert found is not None and found.proven and found.exact == (facts is BENCH)
        assert found.optimal <= min(found.yours, found.even) * (1 + 1e-9)
        if knots == theory.EVEN:
            assert found.yours == pytest.approx(found.even, rel=1e-12)


def test_on_batches_the_optimum_is_proven_for_pure_epsilon_only() -> None:
    method = Nesterov(iterations=30, schedule="own", batch_fraction=0.1)
    for budget, proven in ((PureDP(epsilon=2.0), True), (ApproximateDP(epsilon=2.0), False)):
        found = compare(method, method.plan(BENCH, budget))
        assert found is not None and found.proven == proven and found.optimal < found.even


@pytest.mark.parametrize("said", ["[0,0,0,0,0,1.7]", "[0,0,0,0,0]", "[0,0,0,0,0,0,0]", '["x",0,0,0,0,0]', "7", "null"])
def test_anything_else_gets_a_sentence(said: str) -> None:
    text = Nesterov(schedule="own").to_json().replace("[0.0,0.0,0.0,0.0,0.0,0.0]", said)
    with pytest.raises(UserError) as caught:
        Nesterov.from_json(text)
    assert str(caught.value).startswith("Your own schedule needs 6 numbers between -1.6 and 1.6.")


CENTRED = LogisticRegression(scaling="centred")


def test_the_estimate_is_that_of_the_theory() -> None:
    """Section 10, item 4: λ_max of the centred default data is 0.0863; L = λ_max/4 + 2λ."""
    assert planning.estimated_smoothness(CENTRED) == pytest.approx(0.0863 / 4 + 0.02, abs=2e-5)


@pytest.mark.slow
def test_the_release_adds_noise_and_the_margin_of_the_theory() -> None:
    """Section 10, item 4 gives 0.1026 for one seed: noise of scale b = R²/(n ε), and b ln 500 upwards."""
    scale = 2.5 / (10_000 * 0.1)
    margin = scale * math.log(500)
    released = [(planning.release_smoothness(CENTRED, 0.1, seed) - 0.02) * 4 for seed in range(200)]
    exact = (planning.estimated_smoothness(CENTRED) - 0.02) * 4
    noise = np.array(released) - exact - margin
    # Standard error of a mean of 200 Laplace draws is √2 b/√200; that of the mean size |noise| = b is b/√200.
    assert abs(noise.mean()) < 4 * math.sqrt(2) * scale / math.sqrt(200)
    assert abs(np.abs(noise).mean() - scale) < 4 * scale / math.sqrt(200)
    assert abs(exact + margin - 0.1026) < 1e-3
    assert released[0] == (planning.release_smoothness(CENTRED, 0.1, 0) - 0.02) * 4


@pytest.mark.parametrize("epsilon", [1e-5, 50.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_release_stays_within_what_any_data_can_have(epsilon: float, seed: int) -> None:
    assert 0.02 <= planning.release_smoothness(CENTRED, epsilon, seed) <= 2.5 / 4 + 0.02 + 1e-12


def test_an_earlier_smoothness_does_not_matter() -> None:
    declared = CENTRED.replaced(smoothness=3.0, smoothness_source="declared")
    assert planning.release_smoothness(declared, 0.1, 3) == planning.release_smoothness(CENTRED, 0.1, 3)


@pytest.mark.parametrize(
    ("budget", "currency", "whole"),
    [
        (PureDP(epsilon=2.0), "epsilon", 2.0),
        (ZeroConcentratedDP(rho=0.1), "rho", 0.1),
        (GaussianDP(mu=0.5), "mu", 0.5**2),
    ],
    ids=lambda value: str(value),
)
def test_the_suggested_cost_is_five_percent_at_most(budget: Budget, currency: Currency, whole: float) -> None:
    spent = accountants.total((Laplace(planning.suggested_cost(budget)),), currency)
    share = (spent**2 if currency == "mu" else spent) / whole
    assert 0.04 < share <= 0.05 + 1e-12


def test_what_cannot_be_is_said_in_a_sentence() -> None:
    with pytest.raises(UserError):
        planning.release_smoothness(CENTRED, 0.0, 0)
    with pytest.raises(UserError):
        planning.suggested_cost(NoPrivacy())
    missing = LogisticRegression(data=UploadedTable(identity="0" * 32, n=100, bounds=((0.0, 1.0),), names=("a",)))
    with pytest.raises(UserError, match="Upload the file again"):
        planning.estimated_smoothness(missing)


def test_the_release_of_the_smoothness_shares_no_noise_with_the_run() -> None:
    """If both drew the same standard number, their difference would be a noise-free function of the data."""
    problem = LogisticRegression(data=UniformLogistic(rows=1000, dimension=3))
    exact = problem.build().largest_eigenvalue()
    scale = float(exact.sensitivity) / 1.0
    margin = scale * math.log(1 / (2 * planning.UNDERESTIMATE))
    for seed in range(5):
        released_smoothness = planning.release_smoothness(problem, 1.0, seed)
        drawn = (4 * (released_smoothness - 2 * problem.regularisation) - margin - exact.value[0]) / scale
        for purpose in (Purpose.NOISE, Purpose.BATCHES, Purpose.PUBLIC):
            for generator in streams(seed, purpose, 200):
                assert np.abs(generator.laplace(size=50) - drawn).min() > 1e-9


DATA = UniformLinear(rows=2000, dimension=4)
MODELS = [
    pytest.param(LeastSquares(data=DATA, scaling="centred"), id="squared"),
    pytest.param(HuberRegression(data=DATA, scaling="centred", intercept="yes"), id="huber"),
    pytest.param(HuberRegression(data=UniformLogistic(rows=2000, dimension=3)), id="huber on classes"),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("noise", "batch"), [("laplace", 1.0), ("laplace", 0.25), ("gaussian", 1.0)])
def test_every_method_runs_and_stays_below_its_bound(model: LinearModel, noise: str, batch: float) -> None:
    """Mean gaps of 8 runs against bounds on their expectation: factors of 3 and more, where 30 % would be noise."""
    budget = PureDP(epsilon=5.0) if noise == "laplace" else ApproximateDP(epsilon=5.0, delta=1e-5)
    arms = presets.arms(tuple(presets.METHODS), iterations=12, noise=noise, batch_fraction=batch)
    experiment = Experiment(problem=model, arms=arms, budget=budget, replicates=8, seed=1)
    plans, trace = experiment.plans(), experiment.run()
    assert set(plans) == set(presets.METHODS)
    bounded = 0
    for arm in arms:
        assert isinstance(arm.algorithm, GradientMethod)
        _, gaps = trace.series(arm.label, "objective_gap")
        assert np.isfinite(gaps).all() and (gaps >= -1e-12).all()
        bound = arm.algorithm.error_bound(plans[arm.label])
        if bound is not None:
            bounded += 1
            assert gaps[-1].mean() <= bound[-1]
    assert bounded >= 6


@pytest.mark.parametrize("model", MODELS[:2])
def test_a_release_of_the_smoothness_is_above_the_curvature(model: LinearModel) -> None:
    estimate = planning.estimated_smoothness(model)
    assert 2 * model.regularisation < estimate <= model.facts().smoothness
    released = planning.release_smoothness(model, 1.0, seed=0)
    assert estimate <= released <= model.facts().smoothness
    paid = model.replaced(smoothness=released, smoothness_source="released", smoothness_cost=1.0)
    assert paid.facts().released == (Laplace(1.0),)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 10.0])
def test_no_count_is_likelier_than_the_guarantee_allows_and_some_are_as_much(epsilon: float) -> None:
    found = story.answers(epsilon)
    ratios = np.maximum(found.with_you / found.without, found.without / found.with_you)
    assert ratios.max() == pytest.approx(found.factor) == pytest.approx(np.exp(epsilon))
    assert found.values[found.with_you.argmax()] == story.OTHERS + 1 == found.values[found.without.argmax()] + 1
    within = np.abs(found.values - story.OTHERS) <= story.REACH  # the same distance on both sides
    area = np.trapezoid(found.without[within], found.values[within])
    assert area == pytest.approx(1 - np.exp(-story.REACH / found.scale), abs=5e-3)  # of the grid of the curve


def test_the_price_falls_and_is_the_bound_of_the_plan() -> None:
    found = story.price()
    assert (np.diff(found.bounds) <= 0).all() and found.bounds[0] == found.start
    assert story.best_steps_and_bound(0.01) == (0, found.start)  # no step is proven to help
    method = presets.METHODS[story.METHOD]
    for epsilon in (0.5, 2.0):
        plan = method.replaced(iterations=story.FARTHEST).plan(story.EXAMPLE.facts(), PureDP(epsilon=epsilon))
        bound = method.error_bound(plan)
        assert bound is not None
        assert story.best_steps_and_bound(epsilon) == (plan.iterations, pytest.approx(bound[-1], rel=1e-9))


RUNS = 200


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("noise", "batch", "first"), [("laplace", 1, 0.886), ("laplace", 0.01, 0.886), ("gaussian", 1, 0.9)]
)
def test_the_ellipse_holds_nine_runs_of_ten(noise: str, batch: float, first: float) -> None:
    """At one step the share may differ by four standard deviations; over all of them, which are not independent, it is
    known to 1 %, and sums of Laplace noise miss it by as much."""
    methods = (GradientDescent, Nesterov, HeavyBall, MultistageNesterov)
    arms = tuple(
        Arm(label=cls.title, algorithm=cls(iterations=40, noise=noise, batch_fraction=batch)) for cls in methods
    )
    budget = PureDP(epsilon=1.0) if noise == "laplace" else ApproximateDP(epsilon=1.0, delta=1e-6)
    experiment = Experiment(problem=Quadratic(dimension=4), arms=arms, budget=budget, replicates=RUNS)
    plans, trace, shares = experiment.plans(), experiment.run(), []
    for arm in arms:
        iterations, places = trace.cloud(arm.label)
        found = figures.ellipse(arm.algorithm, plans[arm.label])  # type: ignore[arg-type]
        assert found is not None and places.shape == (len(iterations), RUNS, 2)
        centres, half_axes = (part[iterations[1:], None] for part in found)
        assert (found[0][0] == 1).all() and (found[1][0] == 0).all(), "all begin at one place"
        inside = (((places[1:] - centres) / half_axes) ** 2).sum(axis=2) <= 1
        shares.append(inside.mean(axis=1))
    assert np.abs(np.array(shares) - figures.SHARE).max() < 4 * np.sqrt(0.9 * 0.1 / RUNS)
    ones = np.mean([share[0] for share in shares])  # after one step; of 800 runs
    assert ones == pytest.approx(first, abs=4 * np.sqrt(0.9 * 0.1 / RUNS / len(arms)))
    assert np.mean(shares) == pytest.approx(figures.SHARE, abs=0.02)


@pytest.mark.parametrize("problem", [LogisticRegression(clip=0.3), LeastSquares(), HuberRegression()])
def test_below_the_runs_of_a_model_is_its_objective(problem: LinearModel) -> None:
    """All but two weights as at the minimum, so that it is lowest where the model's minimum is."""
    built = problem.build()
    x, y = (np.linspace(weight - 2, weight + 3, 11) for weight in built.minimiser[:2].tolist())
    found = figures.model_ground(built, x, y)
    places = np.tile(built.minimiser, (121, 1))
    places[:, 0], places[:, 1] = np.tile(x, 11), np.repeat(y, 11)
    values = built.evaluate({"x": places})["objective"]
    assert found.raw and found.values.ravel() == pytest.approx(values, abs=0.002 * np.ptp(values))
    assert found.values.min() == found.values[4, 4] == pytest.approx(built.optimum, abs=0.002 * np.ptp(values))
    assert built.evaluate({"x": built.minimiser[None]})["gradient_norm"] < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # where runs have diverged
        assert np.isfinite(figures.model_ground(built, 1e38 * x, 1e38 * y).values).all()


def test_the_ground_is_the_objective() -> None:
    quadratic = Quadratic(dimension=5)
    x, y = np.linspace(-1, 2, 4), np.linspace(-3, 1, 3)
    ground = figures.quadratic_ground(quadratic.facts(), x, y)
    places = np.zeros((12, 5))
    places[:, 0], places[:, -1] = np.tile(x, 3), np.repeat(y, 4)
    assert quadratic.plane is not None
    assert quadratic.plane.project({"x": places}) == pytest.approx(places[:, [0, -1]])
    gaps = quadratic.build().evaluate({"x": places})["objective_gap"]
    assert not ground.raw and ground.values.ravel() == pytest.approx(gaps, rel=1e-12)
