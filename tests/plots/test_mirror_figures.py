"""Figures of vertex sampling: the right lines, finite numbers, words for what is missing."""

import math
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.datasets.synthetic import LatentGame
from dpviz.experiments.experiment import Arm
from dpviz.families.mirror_descent import GaussianMirrorDescent, NoisyPayoffs, VertexSampling, figures, planning, theory
from dpviz.families.mirror_descent.sampling_bias import measure_value_bias
from dpviz.plots import plan_figures
from dpviz.plots.elements import style
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy, ZeroConcentratedDP
from dpviz.privacy.events import Laplace
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.ui import charts

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
GAME = MatrixGame(data=LatentGame(rows=2000, strategies_x=40, strategies_y=40))
FACTS = replace(GAME.facts(), largest_gap=math.inf)  # so that all of a bound is drawn
ARMS = (
    Arm(label="full", algorithm=VertexSampling(iterations=20)),
    Arm(label="single", algorithm=VertexSampling(iterations=20, batching="single", share_x=0.8)),
    Arm(label="fresh", algorithm=VertexSampling(iterations=20, output="fresh")),
    Arm(label="Gaussian", algorithm=GaussianMirrorDescent(gradient_rounds=20)),
    Arm(label="matrix", algorithm=NoisyPayoffs()),
    Arm(label="plain", algorithm=VertexSampling(iterations=20), budget=NoPrivacy()),
)
STYLES = style.arm_styles(ARMS)
PLANS = {arm.label: arm.algorithm.plan(FACTS, arm.budget or BUDGET) for arm in ARMS}


def named(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data if trace.name}


def notes(figure: go.Figure) -> str:
    return " ".join(note.text for note in figure.layout.annotations if not note.name)


def test_bounds_of_the_arms_that_have_one() -> None:
    figure = figures.gap_bounds(ARMS, PLANS, STYLES).figure
    lines = named(figure)
    assert set(lines) == {"full", "single", "plain"} and lines["full"].x.tolist() == list(range(1, 21))
    players = planning.players(FACTS)
    expected = theory.direct_bound(players, [PLANS["full"].schedule["step_size_x"][0]] * 2, np.arange(1, 21))
    np.testing.assert_allclose(lines["full"].y, expected, rtol=1.1e-3)  # four digits, rounded up
    assert (lines["full"].y >= expected * (1 - 1e-7)).all()
    assert not figures.gap_bounds(ARMS[3:4], PLANS, STYLES).figure.data


@pytest.mark.parametrize("budget", [BUDGET, ZeroConcentratedDP(rho=0.02)])
@pytest.mark.parametrize("batching", ["full", "single"])
def test_the_best_rounds_are_marked_on_the_bound(batching, budget) -> None:
    figure = figures.bound_by_rounds(FACTS, budget, planning.Sampling(batching=batching)).figure
    caps, below, marks = figure.data
    assert [caps.name, below.name] == ["step size at its cap", "best step size below it"]
    assert (below.y <= caps.y * (1 + 1e-6)).all() and figure.layout.xaxis.type == "log"
    assert [text.split(" =")[0] for text in marks.text] == ["T*", "√3 T*", "T*/4"]
    assert notes(figure) == ", ".join(marks.text)
    balanced, best, practical = marks.x
    assert practical == pytest.approx(balanced / 4, abs=0.51) and best == pytest.approx(3**0.5 * balanced, abs=2)
    if batching == "full":
        assert marks.y[1] <= caps.y.min() * 1.01  # the closed form finds the minimum
    assert set(zip(marks.x, marks.y, strict=True)) <= set(zip(caps.x, caps.y, strict=True))


def test_a_bound_above_what_the_gap_can_be_is_called_vacuous_and_not_drawn() -> None:
    """2,000 rows: with T = 20 the bounds are above 2, which no gap in a matrix game exceeds."""
    long = Arm(label="plain", algorithm=VertexSampling(iterations=1024, parameters="bound"))
    arms = (*ARMS[:2], long)
    plans = {arm.label: arm.algorithm.plan(GAME.facts(), arm.budget or BUDGET) for arm in arms}
    figure = figures.gap_bounds(arms, plans, STYLES).figure
    assert set(named(figure)) == {"plain"} and named(figure)["plain"].y.max() < 2
    assert not figures.gap_bounds(ARMS[:1], plans, STYLES).figure.data
    over_rounds = figures.bound_by_rounds(GAME.facts(), BUDGET).figure
    caps, below, marks = over_rounds.data
    assert max(caps.y.max(), below.y.max()) < 2 and (np.array(marks.y) < 2).all()
    few = MatrixGame(data=LatentGame(rows=200, strategies_x=40, strategies_y=40)).facts()
    assert not figures.bound_by_rounds(few, ApproximateDP(epsilon=0.1, delta=1e-6)).figure.data


@pytest.mark.parametrize(("output", "times"), [("reuse", 1), ("fresh", 2)])
def test_later_blocks_pay_less(output: str, times: int) -> None:
    """Of a game whose players draw unlike often: in each of the 19 rounds after its own block, and for fresh ones."""
    method = VertexSampling(iterations=20, draws=2, draws_y=3, batching="single", output=output, share_x=0.2)
    plan = method.plan(FACTS, ZeroConcentratedDP(rho=0.01))
    figure = figures.rho_by_position(plan).figure
    (line,) = figure.data
    assert (np.diff(line.y) < 0).all() and line.y[-1] == 0 and "guarantee is that of block 1" in notes(figure)
    assert line.y[0] == pytest.approx(plan.spent("rho")[-1]) == pytest.approx(0.01, rel=1e-5)
    bought = method.plan(replace(FACTS, released=(Laplace(0.1),)), ZeroConcentratedDP(rho=0.01))  # every row pays that
    (after,) = figures.rho_by_position(bought).figure.data
    assert after.y[[0, -1]] == pytest.approx(bought.spent("rho")[[-1, 0]]) and after.y[-1] > 0
    steps, weight = (plan.resolved["step_size_x"], plan.resolved["step_size_y"]), 1 / (FACTS.n // 20)
    one_round = sum(
        times * k * theory.rho_of_draws(2 * 2 * step * weight) for k, step in zip((2, 3), steps, strict=True)
    )
    assert line.y[:-1] == pytest.approx(np.arange(19, 0, -1) * one_round, rel=1e-4)


def test_what_was_bought_before_is_not_charged_at_the_first_step() -> None:
    method = GaussianMirrorDescent(gradient_rounds=20, batching="single")
    for released in ((), (Laplace(0.1),)):
        plan = method.plan(replace(FACTS, released=released), ZeroConcentratedDP(rho=0.01))
        drawn = plan_figures.privacy_spent({"a": plan}, {"a": STYLES["Gaussian"]}, "rho", None).figure
        assert ("all of it is charged at the first step" in notes(drawn)) == (not released)


@pytest.mark.parametrize(("d", "top", "areas"), [(5, 10, 5), (10_000, 10, 11), (12, 11, 12)])
def test_strategies_stack_up_to_one(d: int, top: int, areas: int) -> None:
    generator = np.random.default_rng(0)
    path = [generator.dirichlet(np.full(d, 0.1)).astype(np.float32) for _ in range(30)]
    names = [f"ad {j}" for j in range(d)]
    figure = figures.strategies(path, list(range(0, 60, 2)), names.__getitem__, top)
    assert len(figure.data) == areas and all(trace.stackgroup == "strategy" for trace in figure.data)
    np.testing.assert_allclose(sum(trace.y for trace in figure.data), 1.0, atol=1e-4)
    assert figure.data[0].name == names[int(np.argmax(path[-1]))] and figure.data[0].x[-1] == 58
    assert figure.data[-1].name == (
        f"{d - top:,} other{'s' if d - top > 1 else ''}" if d > top else names[int(np.argmin(path[-1]))]
    )
    looks = {(trace.line.color, trace.fillpattern.shape) for trace in figure.data}
    assert len(looks) == areas and tuple(figure.layout.yaxis.range) == (0, 1)


def test_measured_bias_between_exact_value_and_bound() -> None:
    figure = figures.value_bias(measure_value_bias([1, 4, 16], 30, 500, seed=0)).figure
    lines = named(figure)
    assert set(lines) == {"exact", "bound 2 L₁/K", "measured ± 2 standard errors"}
    points = lines["measured ± 2 standard errors"]
    assert points.mode == "markers" and (points.error_y.arrayminus < points.y).all()
    np.testing.assert_allclose(lines["bound 2 L₁/K"].y, 4.2 * lines["exact"].y, rtol=0.02)


def test_names_from_the_data_are_shown_as_they_are() -> None:
    """Categories such as "<=50K" are no tags, long names take a line of the legend each, and CSV has them in full."""
    path = np.full((3, 4), 0.25, dtype=np.float32)
    long = "education=HS-grad, marital_status=Never-married, race=White, sex=Male, income=<=50K"
    names = ["sex=F, income=<=50K, hours=>40", "+age", long, "<b>bold</b>"]
    figure = figures.strategies(path, [0, 1, 2], names.__getitem__)
    assert [trace.name for trace in figure.data] == [
        "sex=F, income=&lt;=50K, hours=&gt;40",
        "+age",
        "education=HS-grad, marital_status=Never-married, race=White,<br>sex=Male, income=&lt;=50K",
        "&lt;b&gt;bold&lt;/b&gt;",
    ]
    assert set(charts.numbers(figure)["curve"]) == set(names)
    assert figure.layout.height > figures.strategies(path, [0, 1, 2]).layout.height + 40
    assert figures.plain("word, " * 40).endswith("…") and len(figures.plain("word, " * 40)) < 135
    cells = figures.marginals(names, np.full(4, 0.1), np.full(4, 0.2)).figure
    assert cells.data[-1].text[0] == "sex=F, income=&lt;=50K, hours=&gt;40"
