"""Runs side by side: common axes, currencies that all have, and what publishing all of them costs."""

import math

import numpy as np
import pytest

from dpviz.compare import comparison
from dpviz.compare.comparison import PRIVACY, SHARE, STEPS, Side
from dpviz.datasets import UploadedTable
from dpviz.datasets.synthetic import UniformLogistic
from dpviz.experiments import changes
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import PASSES, quantiles
from dpviz.experiments.summary import summary
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.privacy.budgets import Budget, GaussianDP, NoPrivacy, PureDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

DELTA = 1e-6
METHOD = Nesterov(iterations=4)


def experiment(budget: Budget, noise: str, steps: int = 8, seed: int = 0) -> Experiment:
    half = 0.5 if noise == "laplace" else 1.0
    arms = (
        Arm(label="GD", algorithm=GradientDescent(iterations=steps, noise=noise, batch_fraction=half)),
        Arm(label="NAG", algorithm=Nesterov(iterations=2 * steps, noise=noise)),
        Arm(label="GD, no privacy", algorithm=GradientDescent(iterations=steps, noise=noise), budget=NoPrivacy()),
    )
    return Experiment(problem=Quadratic(), arms=arms, budget=budget, replicates=3, seed=seed)


def side(name: str, found: Experiment) -> Side:
    return Side(name, found, found.plans(), summary(found.run()))


@pytest.fixture(scope="module")
def sides() -> tuple[Side, Side]:
    return side("Pure", experiment(PureDP(epsilon=2.0), "laplace")), side(
        "Gauss", experiment(GaussianDP(mu=0.5), "gaussian")
    )


def test_a_summary_has_the_quantiles_of_the_trace_and_shows_no_more_than_it_may(sides: tuple[Side, Side]) -> None:
    found = sides[0].experiment
    trace = found.run()
    kept = summary(trace)
    iterations, values = trace.series("NAG", "objective_gap")
    series = kept.series["NAG"]["objective_gap"]
    np.testing.assert_array_equal(series.iterations, iterations)
    np.testing.assert_array_equal(series.quantiles, quantiles(values))
    assert kept.best("objective_gap") == min(
        ("GD", "NAG"), key=lambda label: quantiles(trace.series(label, "objective_gap")[1])[-1, 1]
    )
    shown = kept.visible(False)
    assert set(shown.series) == {"GD", "NAG"} and set(shown.metrics) == set(trace.visible(False).metrics)
    assert shown.metrics and "objective_gap" not in shown.series["GD"]


def test_curves_stand_on_the_axis_that_was_asked_for(sides: tuple[Side, Side]) -> None:
    (first, *_) = comparison.curves(sides, "objective_gap", STEPS, all_methods=True)
    assert (first.side, first.method, first.x[-1], first.released) == ("Pure", "GD", 8, False)
    passes = {(c.side, c.method): c.x[-1] for c in comparison.curves(sides, "objective_gap", PASSES, all_methods=True)}
    assert passes["Pure", "GD"] == 4 and passes["Gauss", "NAG"] == 16
    shares = comparison.curves(sides, SHARE, STEPS, all_methods=False)
    assert len(shares) == 2 and all(c.quantiles[0, 1] == pytest.approx(1) and c.private for c in shares)


def test_the_common_currencies_are_those_that_every_method_has(sides: tuple[Side, Side]) -> None:
    """Gaussian noise has no pure ε; Laplace noise has a ρ and a μ."""
    pure, gauss = sides
    assert comparison.currencies([pure]) == ("epsilon", "rho", "mu")
    assert comparison.currencies([gauss]) == comparison.currencies(sides) == ("rho", "mu")
    for currency in (*comparison.currencies(sides), None):
        found = comparison.curves(sides, SHARE, PRIVACY, all_methods=True, currency=currency, delta=DELTA)
        assert {(c.side, c.method) for c in found} == {(s.name, m) for s in sides for m in ("GD", "NAG")}
        assert all((np.diff(c.x) >= 0).all() and c.x[0] == 0 for c in found)


def test_privacy_used_is_an_upper_bound_in_every_currency(sides: tuple[Side, Side]) -> None:
    """ε at δ of a whole run: never above a guarantee that implies it, never below the tightest accountant's."""
    ends = {(c.side, c.method): c.x[-1] for c in comparison.curves(sides, SHARE, PRIVACY, True, None, DELTA)}
    for one in sides:
        for method, tightest in comparison.readings(one, DELTA).items():
            assert tightest <= ends[one.name, method] * (1 + 1e-9)
    assert ends["Pure", "GD"] <= 2.0
    assert ends["Gauss", "NAG"] <= GaussianDP(mu=0.5).to_epsilon_at(DELTA) * (1 + 1e-6)
    rho = {(c.side, c.method): c.x[-1] for c in comparison.curves(sides, SHARE, PRIVACY, True, "rho")}
    assert rho["Gauss", "NAG"] == pytest.approx(0.5**2 / 2)  # ρ of Gaussian noise is μ²/2
    each = 2.0 / 16  # ε of each of NAG's full-batch steps
    assert rho["Pure", "NAG"] == pytest.approx(16 * (each - 1 + math.exp(-each)))  # of Laplace noise, exactly


def test_privacy_used_is_not_told_too_low_on_the_way() -> None:
    """ε at δ rises like a root: straight lines between a few steps of many lie far below it."""
    steps, mu = 100, 0.5
    found = comparison.curves([side("Long", experiment(GaussianDP(mu=mu), "gaussian", steps))], SHARE, PRIVACY, True)
    first = GaussianDP(mu=mu / math.sqrt(steps)).to_epsilon_at(1e-6)  # of one of as many equal steps
    assert [curve.x[0] for curve in found] == [0.0, 0.0] and len(found[0].x) == len(found[0].quantiles) > 10
    assert next(curve for curve in found if curve.method == "GD").x[1] == pytest.approx(first, rel=1e-6)


def test_settings_fixed_beforehand_compose_tightly(sides: tuple[Side, Side]) -> None:
    pure, gauss = sides
    one = comparison.joint_cost([pure, pure], DELTA, repeats=False, fixed=True)
    assert one is not None and one.symbol == "ε" and one.spent == pytest.approx(8.0) and one.methods == 4
    both = comparison.joint_cost([gauss, gauss], DELTA, repeats=True, fixed=True)
    assert both is not None and comparison.count_private([gauss, gauss]) == (4, 12)
    # Four methods of three runs at μ = 0.5 are one release at μ = 0.5 √12; counted in ρ, which comes first.
    assert both.symbol == "ρ" and both.spent == pytest.approx(12 * 0.5**2 / 2) and not both.proviso
    assert both.epsilon == pytest.approx(GaussianDP(mu=0.5 * math.sqrt(12)).to_epsilon_at(DELTA), rel=1e-6)
    mixed = comparison.joint_cost(sides, DELTA, repeats=False, fixed=True)
    alone = [comparison.joint_cost([found], DELTA, repeats=False) for found in sides]
    assert mixed is not None and all(found is not None and found.epsilon < mixed.epsilon for found in alone)
    assert mixed.epsilon <= sum(found.epsilon for found in alone if found is not None) * (1 + 1e-9)


@pytest.mark.parametrize("fixed", [True, False])
def test_what_was_released_before_the_runs_counts_once_for_each_problem(fixed: bool) -> None:
    """Each side spends 2: 0.5 or 0.25 on its problem's smoothness, the rest on its run."""
    paid = {"smoothness": 0.2, "smoothness_source": "released"}
    data = UniformLogistic(rows=100, dimension=2)
    half, quarter = (
        side(str(cost), Experiment(LogisticRegression(data=data, smoothness_cost=cost, **paid), METHOD, epsilon=2.0))
        for cost in (0.5, 0.25)
    )
    for sides, spent in (([half, half], 3.5), ([half, quarter], 4.0), ([quarter, half, half], 5.5)):
        cost = comparison.joint_cost(sides, DELTA, repeats=False, fixed=fixed)
        assert cost is not None and cost.spent == pytest.approx(spent)


def test_what_ranges_of_a_person_cost_counts_once_for_each_data_set() -> None:
    """Each side spends 2, 0.5 of it on the ranges, and has another clip; one of them begins with a reference."""
    declared = {"identity": "a" * 32, "n": 100, "bounds": ((0.0, 1.0),), "names": ("a",)}
    bought = UploadedTable(**declared, ranges_costs=(0.5,), person="who", rows_per_person=4)
    arms = Arm("reference", METHOD, budget=NoPrivacy()), Arm("private", METHOD)
    found = [
        Experiment(LogisticRegression(data=bought, clip=clip), given, epsilon=2.0)
        for clip, given in ((1.0, METHOD), (0.5, arms))
    ]
    sides = [Side("", one, one.plans(), None) for one in reversed(found)]  # type: ignore[arg-type]
    cost = comparison.joint_cost(sides, DELTA, repeats=False)
    assert cost is not None and cost.spent == pytest.approx(0.5 + 1.5 + 1.5)


def test_settings_chosen_after_seeing_earlier_runs_add_up(sides: tuple[Side, Side]) -> None:
    """Pins at ε = 1, 2 and 1.5, of many small steps each, cost 4.5: a later setting may follow from earlier results."""
    pins = [
        side(str(epsilon), Experiment(problem=Quadratic(), arms=(arm,), budget=PureDP(epsilon=epsilon), replicates=1))
        for epsilon in (1.0, 2.0, 1.5)
        for arm in (Arm(label="GD", algorithm=GradientDescent(iterations=200)),)
    ]
    fixed, cost = (comparison.joint_cost(pins, DELTA, False, fixed) for fixed in (True, False))
    assert fixed is not None and cost is not None and fixed.epsilon < 3 and fixed.spent == pytest.approx(4.5)
    assert cost.epsilon == cost.spent == pytest.approx(4.5)
    # Without a pure ε: of each side what its methods cost together, at its own part of δ.
    gauss = comparison.joint_cost([sides[1]] * 2, DELTA, repeats=False)
    each = GaussianDP(mu=0.5 * math.sqrt(2)).to_epsilon_at(DELTA / comparison.MAX_SIDES)
    assert gauss is not None and gauss.epsilon == pytest.approx(2 * each, rel=1e-6) and gauss.proviso


def test_a_run_without_privacy_costs_nothing_that_could_be_told() -> None:
    free = experiment(NoPrivacy(), "laplace", steps=2)
    assert comparison.joint_cost([side("Free", free)], DELTA, repeats=False) is None


def test_the_table_of_ends_says_what_was_recorded(sides: tuple[Side, Side]) -> None:
    table = comparison.ends(sides, "objective_gap", all_methods=True)
    row = table[(table["run"] == "Gauss") & (table["method"] == "GD")].iloc[0]
    end = quantiles(sides[1].experiment.run().series("GD", "objective_gap")[1])[-1]
    assert [row["low"], row["median"], row["high"]] == end.tolist()
    assert (row["steps"], row["repeats"], row["budget"], row["released"]) == (8, 3, "μ = 0.5", False)
    assert comparison.metrics(sides)["objective_gap"].startswith("Excess loss")


def test_settings_that_differ_are_told_in_a_row_each() -> None:
    first, second = experiment(PureDP(epsilon=2.0), "laplace"), experiment(GaussianDP(mu=0.5), "gaussian", seed=3)
    rows = changes.table([first, second, first])
    assert rows == {
        "Batch m/n": ("0.5 / 1", "1", "0.5 / 1"),
        "Noise": ("Laplace", "Gaussian", "Laplace"),
        "Privacy budget": ("ε = 2", "μ = 0.5", "ε = 2"),
        "Seed": ("0", "3", "0"),
    }
    assert changes.table([first, first]) == {}
    near = changes.table([first.replaced(seed=seed) for seed in (1234567, 1234568)])  # equal to six digits
    assert near == {"Seed": ("1,234,567", "1,234,568")}
