"""Figures of the accelerated family: THEORY.md, sections 5.4, 5.5, 7 (P1), errata E2, E10, E16."""

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.families.accelerated import GradientDescent, HeavyBall, MultistageNesterov, Nesterov, quadratic, theory
from dpviz.families.accelerated.certificate import certify
from dpviz.families.accelerated.figures import (
    decomposition,
    heavy_ball_on_quadratic,
    momentum_rates,
    noise_takes_over,
    worst_case,
)
from dpviz.numbers import short
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

BUDGET = PureDP(epsilon=2.0)
METHODS = [
    GradientDescent(iterations=50),
    Nesterov(iterations=50, schedule="optimal", batch_fraction=0.1),
    MultistageNesterov(iterations=300),
]


def lines(figure: go.Figure) -> list:
    return [trace for trace in figure.data if trace.mode == "lines"]


def test_rates_are_lowest_at_the_best_momentum_of_each_method() -> None:
    figure = momentum_rates(0.1).figure
    *rates, marks = figure.data
    assert len(rates) == len(marks.x) == 6
    for line, best, lowest in zip(rates, marks.x, marks.y, strict=True):
        grid = line.x[1] - line.x[0]
        assert abs(line.x[np.argmin(line.y)] - best) <= grid
        assert line.y.min() >= lowest - 1e-6 and line.name.endswith(f"best β = {short(best)}")
    # P1 at α = 1, μ = 0.1: heavy ball contracts by 0.9 without momentum, and by √0.5 at β = 0.5.
    heavy_ball = next(line for line in rates if line.name.startswith("heavy ball, 1/L"))
    assert heavy_ball.y[0] == pytest.approx(0.9) and np.interp(0.5, heavy_ball.x, heavy_ball.y) == pytest.approx(
        0.5**0.5, abs=1e-4
    )


def test_the_step_at_which_noise_takes_over_is_marked() -> None:
    parts = np.array([[8.0, 4.0, 2.0, 1.0], [0.0, 5.0, 1.0, 1.0], [0.0, 0.0, 0.5, 0.5]])
    assert noise_takes_over(parts) == 3, "for good: not at step 1, where optimisation is larger again later"
    assert noise_takes_over(parts[:, :3]) is None
    method = Nesterov(iterations=50)
    plan = method.plan(Quadratic().facts(), BUDGET)
    figure = decomposition(method, plan).figure
    optimisation, noise = (trace.y for trace in figure.data)
    (shape,) = figure.layout.shapes
    at = int(shape.x0)
    assert shape.x0 == shape.x1 and (noise[at:] > optimisation[at:]).all() and noise[at - 1] <= optimisation[at - 1]
    assert figure.layout.annotations[-1].text == f"noise takes over: step {at}"


@pytest.mark.parametrize(
    ("step_size", "noise", "best"),
    [
        (1.0, 1e-2, [(5, 2.69e-3), (6, 3.81e-3), (9, 3.44e-2), (3, 2.28e-3), (4, 1.93e-3)]),
        (0.5, 1e-2, [(11, 4.86e-3), (7, 2.18e-3), (10, 1.26e-2), (6, 1.88e-3), (7, 2.70e-3)]),
        (0.1, 1e-2, [(48, 1.65e-2), (35, 1.21e-2), (16, 5.40e-3), (18, 5.00e-3), (19, 5.83e-3)]),
        (1.0, 1e-4, [(11, 1.16e-6), (11, 1.58e-6), (26, 2.29e-5), (8, 6.56e-7), (8, 6.34e-7)]),
    ],
)
def test_exact_optima_of_figure_1(step_size: float, noise: float, best: list) -> None:
    figure = heavy_ball_on_quadratic(0.5, step_size, noise).figure
    marks = figure.data[-1]
    assert list(marks.x) == [steps for steps, _ in best]
    np.testing.assert_allclose(marks.y, [error for _, error in best], rtol=5e-3)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert [line.name.rpartition("T* = ")[2] for line in lines(figure)] == [str(steps) for steps, _ in best]


def test_the_papers_log_bound_is_shown_on_demand_and_named_for_what_it_is() -> None:
    figure = heavy_ball_on_quadratic(0.1, 1.0, 1e-2, published=True).figure
    thin = [line for line in lines(figure) if line.line.width == 1]
    assert len(thin) == 5 and not any(line.showlegend for line in thin)
    expected = quadratic.published_log_bound(250, 1.0, 0.3, 1e-2, 0.1)
    np.testing.assert_allclose(np.log(thin[1].y), expected, atol=1e-5)
    assert "not a bound" in figure.layout.annotations[0].text


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.title)
@pytest.mark.parametrize("problem", [LogisticRegression(), Quadratic(rows=5000, dimension=4)])
def test_the_parts_add_up_to_the_bound(method, problem) -> None:
    plan = method.plan(problem.facts(), BUDGET)
    figure = decomposition(method, plan).figure
    assert all(trace.stackgroup == "error" for trace in figure.data)
    total = sum(trace.y.astype(float) for trace in figure.data)
    np.testing.assert_allclose(total, method.error_bound(plan)[figure.data[0].x], rtol=1e-5)
    names = [trace.name for trace in figure.data]
    assert ("batch noise" in names) == (method.batch_fraction < 1)
    assert len({trace.fillpattern.shape for trace in figure.data}) == len(names)  # never colour alone
    assert figure.layout.yaxis.type == "linear"


@pytest.mark.parametrize("method", [*METHODS, HeavyBall(iterations=50, batch_fraction=0.2)], ids=lambda m: m.title)
def test_the_exact_parts_add_up_to_the_exact_error(method) -> None:
    plan = method.plan(Quadratic(rows=5000, dimension=4).facts(), BUDGET)
    facts = plan.facts
    batch = theory.sampling_variance(facts.gradient_bound_l2, method.batch_size(facts), facts.n)
    variance = 2 * plan.noise["gradient"] ** 2 + batch / facts.d
    steps, spectrum = method.steps(facts, plan.iterations), facts.eigenvalues
    expected = quadratic.expected_gap(steps, method.dynamics, spectrum, facts.start, variance).total
    figure = decomposition(method, plan, exact=True).figure
    np.testing.assert_allclose(sum(t.y.astype(float) for t in figure.data), expected[figure.data[0].x], rtol=1e-5)


def test_the_quadratic_that_stands_for_a_problem_starts_at_its_initial_gap() -> None:
    problem = LogisticRegression()
    plan = Nesterov(iterations=20).plan(problem.facts(), BUDGET)
    optimisation, *_ = decomposition(Nesterov(iterations=20), plan, exact=True).figure.data
    assert optimisation.name == "optimisation" and optimisation.y[0] == pytest.approx(np.log(2))


def test_the_quadratic_that_stands_for_a_problem_has_no_more_noise_than_the_problem() -> None:
    method, facts = GradientDescent(iterations=20), LogisticRegression().facts()
    plan = method.plan(facts, BUDGET)
    _, noise = decomposition(method, plan, exact=True).figure.data
    mean_curvature = np.geomspace(facts.strong_convexity, facts.smoothness, 20).mean()
    squared_norm = 2 * facts.d * plan.noise["gradient"][0] ** 2
    expected = mean_curvature / 2 * plan.schedule["step_size"][0] ** 2 * squared_norm
    assert noise.name == "privacy noise" and noise.y[1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_the_certificate_stays_above_the_exact_error() -> None:
    problem = Quadratic(rows=5000, dimension=4, strong_convexity=0.5, smoothness=1.0)
    method = HeavyBall(iterations=30, momentum_rule="optimal")
    facts = problem.facts()
    certificate = certify(facts.strong_convexity, facts.smoothness, 1 / facts.smoothness, (1 - 0.5**0.5) ** 2)
    assert certificate is not None
    figure = worst_case(method, method.plan(facts, BUDGET), certificate).figure
    exact, certified = lines(figure)
    assert certified.name == "certified, worst case" and (certified.y >= exact.y).all()
    assert figure.layout.yaxis.type == "log"
