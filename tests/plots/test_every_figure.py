"""What every figure is: finite numbers in single precision, few of them, with words beside it and a provenance."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.trace import Trace
from dpviz.families.accelerated import GradientDescent, HeavyBall, Nesterov, presets
from dpviz.families.accelerated import figures as accelerated
from dpviz.families.mirror_descent import VertexSampling, choice_figures, sampling_bias
from dpviz.families.mirror_descent import figures as mirror
from dpviz.families.zeroth_order import VarianceReduced, figures
from dpviz.families.zeroth_order.planning import Layout
from dpviz.families.zeroth_order.theory import Setting
from dpviz.plots import audit_figures, plan_figures, planner_figures
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import SETTINGS_ONLY, Chart
from dpviz.plots.elements.lines import Line, line_figure
from dpviz.plots.elements.style import ArmStyle, arm_styles
from dpviz.plots.elements.words import alt_text
from dpviz.plots.run_figures import convergence
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.values.black_box import PhaseRetrieval

DRAWN = np.random.default_rng(0)
PURE, APPROXIMATE = PureDP(epsilon=2.0), ApproximateDP(epsilon=1.0, delta=1e-6)
LONG = Experiment(
    problem=Quadratic(), arms=presets.arms(presets.SIX_METHODS, iterations=1000, horizon="fixed"), budget=PURE
)
LOOKS = arm_styles(LONG.arms)
NESTEROV, HEAVY = Nesterov(iterations=1000, batch_fraction=0.1), HeavyBall(iterations=1000)
FACTS, GAME = LogisticRegression().facts(), MatrixGame().facts()
FALLING = {label: np.geomspace(1, 1e-3, 1001) * (i + 1) for i, label in enumerate(LOOKS)}
STEPS = np.arange(1, 1001)
VERTEX = VertexSampling(iterations=1024, batching="single")
RATES = planner_figures.RATES
TRUTH = DRAWN.random(3000) / 10
TEN = Setting(n=50_000, d=10, lipschitz=1.0, radius=0.1, gap=1.0, mu=1.0, kind="iid", count=10)
LAYOUT = Layout(1000, 1, 50, 5, 0.1, 0.1, 6)
MEANS = np.array([[0.1, np.nan, 0.3], [0.2, np.nan, 0.5]])
ENDS = np.array([0.1, np.nan, 0.2])


def vertex(budget: ApproximateDP | ZeroConcentratedDP | NoPrivacy) -> dict:
    return {"a": VERTEX.plan(GAME, budget)}


FIGURES: dict[str, Callable[[], Chart | go.Figure]] = {
    "rates of momentum": lambda: accelerated.momentum_rates(0.1, published=True),
    "heavy ball": lambda: accelerated.heavy_ball_on_quadratic(0.5, 1.0, 1e-2, published=True),
    "parts of a bound": lambda: accelerated.decomposition(NESTEROV, NESTEROV.plan(FACTS, PURE)),
    "exact parts": lambda: accelerated.decomposition(NESTEROV, NESTEROV.plan(FACTS, PURE), exact=True),
    "parts without a bound": lambda: accelerated.decomposition(HEAVY, HEAVY.plan(FACTS, PURE)),
    "parts without noise": lambda: accelerated.decomposition(
        GradientDescent(iterations=20), GradientDescent(iterations=20).plan(FACTS, NoPrivacy())
    ),
    "worst case": lambda: accelerated.worst_case(HEAVY, HEAVY.plan(FACTS, PURE), None),
    "operating curve": lambda: audit_figures.roc(RATES, RATES, RATES, RATES, RATES, {"yours": (0.2, 0.5)}),
    "rising bound": lambda: audit_figures.rising_bound(
        STEPS, np.log(STEPS), np.full(1000, np.inf), np.full(1000, np.inf), 1.0, "ε"
    ),
    "noise of draws": lambda: mirror.noise_of_rounds(vertex(APPROXIMATE), LOOKS | {"a": LOOKS["DP-GD"]}),
    "rounds": lambda: mirror.bound_by_rounds(GAME, APPROXIMATE),
    "rounds without privacy": lambda: mirror.bound_by_rounds(GAME, NoPrivacy()),
    "rounds of marginals": lambda: mirror.bound_by_rounds(MarginalQueries().facts(), APPROXIMATE),
    "positions": lambda: mirror.rho_by_position(vertex(ZeroConcentratedDP(rho=0.01))["a"]),
    "who has nothing to choose": lambda: mirror.rho_by_position(
        VERTEX.plan(replace(GAME, d_x=1, d=1 + GAME.d_y, oscillation_x=0.0), ZeroConcentratedDP(rho=0.01))
    ),
    "measured bias": lambda: mirror.value_bias(sampling_bias.measure_value_bias([1, 4, 16], 30, 100, seed=0)),
    "shares of groups": lambda: choice_figures.group_shares(20_000, 0.02, APPROXIMATE),
    "tails": lambda: choice_figures.tails((4, 64)),
    "strategies": lambda: mirror.strategies(np.full((1700, 3), 1 / 3, dtype=np.float32), np.arange(1700)),
    "no strategies": lambda: mirror.strategies([], []),
    "marginals": lambda: mirror.marginals([f"cell {j}" for j in range(3000)], TRUTH, 1.1 * TRUTH),
    "errors of cells": lambda: mirror.error_histogram(TRUTH, {"DP-GD": TRUTH}, LOOKS),
    "groups": lambda: mirror.group_losses(["a", "b", "other"], MEANS, MEANS, ENDS, ENDS),
    "noise": lambda: plan_figures.noise_schedule(LONG.plans(), LOOKS),
    "no noise": lambda: plan_figures.noise_schedule(vertex(NoPrivacy()), LOOKS | {"a": LOOKS["DP-GD"]}),
    "spent": lambda: plan_figures.privacy_spent(LONG.plans(), LOOKS, "epsilon", 2.0),
    "accountants": lambda: plan_figures.accountant_curves(LONG.plans()["DP-NAG-opt"], 1e-6),
    "bounds": lambda: plan_figures.error_bounds(FALLING, LOOKS),
    "bounds by horizon": lambda: plan_figures.bound_by_horizon(
        {label: (STEPS, bound[1:]) for label, bound in FALLING.items()}, LOOKS
    ),
    "noise by steps": lambda: planner_figures.noise_by_steps(STEPS, np.full(1000, np.nan), (50, 5.0), "b"),
    "noise by rows": lambda: planner_figures.noise_by_rows(STEPS, 1 / STEPS, 0.1, 10, "b"),
    "budget by steps": lambda: planner_figures.budget_by_steps(STEPS, 0.04 * STEPS, "Pure ε", "ε", 2.0, 50),
    "bars": lambda: planner_figures.bars({f"analysis {k}": 5.0 for k in range(20)}, "Share [%]", unit=" %"),
    "proven error": lambda: planner_figures.proven_error(STEPS, 1 / STEPS, "ε", "gap", 0.2, (0.5, 0.2, "ε = 0.5")),
    "trade-off": lambda: planner_figures.tradeoff(1 - RATES, 1 - RATES),
    "groups of positions": lambda: planner_figures.positions(
        {"a": [(0.1, "one"), (30.0, "two")], "b": [(2.0, "three")]}, 2.0, "ε"
    ),
    "positions beside a budget of nothing": lambda: planner_figures.positions({"a": [(0.1, "one")]}, 0.0, "ε"),
    "of hundred": lambda: planner_figures.hundred_cases({"guessing": 50.0, "also with the plan": 65.6}),
    "two densities": lambda: planner_figures.two_densities(RATES, (RATES, 1 - RATES), ("no", "yes"), "Count"),
    "price": lambda: planner_figures.price(STEPS, 1 / STEPS, 1.0, (10.0, 0.5), "Bound"),
    "sums": lambda: figures.running_sums(VarianceReduced(), PhaseRetrieval().facts(), GaussianDP(mu=1.0)),
    "sums without noise": lambda: figures.running_sums(VarianceReduced(), PhaseRetrieval().facts(), NoPrivacy()),
    "tree": lambda: figures.tree(LAYOUT, 1, 999),
    "tree without the row": lambda: figures.tree(LAYOUT, LAYOUT.rows + 1, 16),
    "rows needed": lambda: figures.rows_needed(TEN, 0.3)[0],
    "free privacy": lambda: figures.free_privacy(10, 1.0, 0.3, 0.5),
    "crossover": lambda: figures.crossover(64),
    "ratio of noise": lambda: figures.noise_ratio(16, (0.4, 1.0)),
    "long line": lambda: line_figure(
        [Line(np.arange(40_000), DRAWN.random(40_000), "a", ArmStyle("#0072B2", "solid"))], Axes("Step t", "Loss")
    ),
}


def check(made: Chart | go.Figure) -> None:
    figure = made.figure if isinstance(made, Chart) else made
    for trace in figure.data:
        for values in (trace.x, trace.y):
            if isinstance(values, np.ndarray) and values.dtype.kind != "O":
                assert values.dtype in (np.int16, np.int32, np.float32) and np.isfinite(values).all()
        assert 0 < len(trace.x) == len(trace.y) <= 1000
    assert len(figure.to_json()) < 80_000 and alt_text(figure)
    assert figure.layout.title.text is None and figure.layout.paper_bgcolor is None
    if isinstance(made, Chart):
        assert made.heading and made.alt
        assert made.provenance != "settings" or made.caption.endswith(SETTINGS_ONLY) or not made.caption, "the page's"
        marked = any(note.name == "not private" for note in figure.layout.annotations)
        assert not marked or made.provenance in ("not private", "partly private")


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_finite_small_and_has_words(name: str) -> None:
    check(FIGURES[name]())


@pytest.mark.parametrize("metric", ["objective_gap", "noisy_gradient_norm", "of nobody"])
@pytest.mark.parametrize("bands", ["best", "all", "panels"])
def test_a_run_is_finite_small_and_has_words(experiment: Experiment, trace: Trace, metric: str, bands: str) -> None:
    check(convergence(trace, metric, arm_styles(experiment.arms), bands=bands))
