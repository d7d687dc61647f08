"""Figures of plan-time choices and of the bias of few draws: their lines are those of the formulas."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.datasets.groups import GroupedSigns
from dpviz.datasets.synthetic import LatentGame
from dpviz.families.mirror_descent import CertifiedSampling, bounds, choice_figures, planning, theory
from dpviz.families.mirror_descent.planning import Sampling
from dpviz.families.mirror_descent.sampling_bias import measure_gradient_bias, measure_gradient_spread
from dpviz.plots.elements import style
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.problems.games.group_loss import GroupLoss
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
GROUPS = GroupLoss().facts()
LOOK = ArmStyle(style.PALETTE["private"], "solid")


def lines(figure: go.Figure) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {trace.name: (np.array(trace.x), np.array(trace.y)) for trace in figure.data if trace.name}


def test_the_split_is_lowest_where_it_is_marked() -> None:
    figure = choice_figures.split(GROUPS, BUDGET, 20, sampling=Sampling((2, 1)), chosen=0.5).figure
    shares, regret = lines(figure)["what the split decides, Σ ln d/(τ T)"]
    best = theory.optimal_shares(planning.players(GROUPS, (2, 1)))[0]
    assert shares[np.argmin(regret)] == pytest.approx(best, abs=0.02)
    assert f"best split φ = {best:.2f}" in str(figure.layout)


@pytest.mark.parametrize("budget", [PureDP(epsilon=1.0), BUDGET, ZeroConcentratedDP(rho=0.02), GaussianDP(mu=0.3)])
def test_a_certificates_width_is_that_of_the_plan(budget) -> None:
    facts = MatrixGame().facts()
    figure = choice_figures.certificate(facts, budget, chosen=0.05).figure
    shares, widths = lines(figure)["added to the gap"]
    plan = CertifiedSampling(certificate_share=0.05).plan(facts, budget)
    assert np.interp(0.05, shares, widths) == pytest.approx(plan.resolved["certificate_width"], rel=2e-3)
    assert (np.diff(widths) < 0).all() and (np.diff(lines(figure)["steps shorter by, about"][1]) > 0).all()


@pytest.mark.parametrize("budget", [PureDP(epsilon=1.0), BUDGET, ZeroConcentratedDP(rho=0.02), GaussianDP(mu=0.3)])
def test_shares_that_cost_more_are_better_and_leave_less(budget) -> None:
    found = lines(choice_figures.group_shares(20_000, 0.02, budget).figure)
    costs, error = found["error of the smallest share"]
    assert np.interp(0.05, costs, error * costs) == pytest.approx(2 / (20_000 * 0.02), rel=1e-5)
    growth = found["more noise in the run"][1]
    assert (np.diff(growth) > 0).all() and growth[0] > 0
    if isinstance(budget, PureDP):  # steps are in proportion to what is left of ε
        assert np.interp(0.2, found["more noise in the run"][0], growth) == pytest.approx(0.25, rel=0.02)


def test_shares_are_priced_as_far_as_the_budget_goes() -> None:
    found = lines(choice_figures.group_shares(20_000, 0.02, ZeroConcentratedDP(rho=1e-4)).figure)
    assert {costs[-1] < np.sqrt(2e-4) for costs, _ in found.values()} == {True} and len(found) == 2


def test_rows_for_a_gap_cross_the_target_where_it_is_said() -> None:
    problem = QuadraticGame()
    chart, needed = choice_figures.gap_by_rows(problem, problem.facts(), BUDGET, 0.02, 64, {"Vertex sampling": LOOK})
    found = lines(chart.figure)
    assert set(needed) == {"bound, best T", "Vertex sampling"} and needed["bound, best T"] is None  # K = 1: bias 2 L₁
    rows, medians = found["Vertex sampling"]
    count = needed["Vertex sampling"]
    assert count is not None and np.interp(count, rows, medians) == pytest.approx(0.02, rel=0.05)
    matrix = MatrixGame()
    _, needed = choice_figures.gap_by_rows(matrix, matrix.facts(), BUDGET, 0.2, 64, {})
    assert needed == {"bound, best T": bounds.rows_for_gap(matrix.facts(), BUDGET, 0.2)}
    # A bound says that fewer rows suffice than the fewest that were measured.
    chart, needed = choice_figures.gap_by_rows(matrix, matrix.facts(), BUDGET, 2.0, 64, {"Vertex sampling": LOOK})
    assert needed["bound, best T"] < needed["Vertex sampling"] and chart.caption.count("or fewer") == 1


def test_bias_of_gradients_has_its_bounds_and_the_cheaper_oracle() -> None:
    """The oracle of level M takes 2 (M + 1)/C_M draws on average for the bias of 2^{M+1}: 4.27 instead of 16."""
    game = GroupLoss(loss="logistic", data=GroupedSigns(rows=500, dimension=4)).build()
    x, y = game.facts.uniform(1)
    measured = measure_gradient_bias(game, (x[0], y[0]), [1, 4, 16], 400, seed=0, rows=slice(0, 200))
    found = lines(choice_figures.gradient_bias(measured, game.facts).figure)
    assert found["bound by L₂"][1] == pytest.approx(4 * game.facts.second_smoothness / np.array([1, 4, 16]))
    assert found["bound by L₁"][1] == pytest.approx(
        4 * math.sqrt(2) * game.facts.smoothness / np.sqrt([1, 4, 16]), rel=1e-6
    )
    cost, bias = found["bias-reduced oracle, draws on average"]
    assert cost[-1] == pytest.approx(2 * 4 / 1.875) and bias[-1] == pytest.approx(measured.mean[-1], rel=1e-6)


def test_spread_and_tails_stay_below_their_bounds() -> None:
    game = QuadraticGame(data=LatentGame(rows=200, strategies_x=20, strategies_y=20)).build()
    x, y = game.facts.uniform(1)
    measured = measure_gradient_spread(game, (x[0], y[0]), [1, 8, 64], 500, seed=0)
    found = lines(choice_figures.gradient_spread(measured).figure)
    assert (found["bound"][1] > found[choice_figures.MEASURED][1]).all()
    tails = lines(choice_figures.tails((4, 64)).figure)
    assert len(tails) == 4
    linear = MatrixGame(data=LatentGame(rows=200, strategies_x=20, strategies_y=20)).build()
    flat = choice_figures.gradient_spread(measure_gradient_spread(linear, (x[0], y[0]), [1, 8], 50, seed=0)).figure
    assert not flat.data and "nothing is biased" in str(flat.layout)
