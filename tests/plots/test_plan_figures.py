import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.families import presets
from dpviz.families.accelerated import Nesterov, planning
from dpviz.plots.elements.style import ArmStyle, arm_styles
from dpviz.plots.plan_figures import accountant_curves, bound_by_horizon, error_bounds, noise_schedule, privacy_spent
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import (
    ApproximateDP,
    Budget,
    GaussianDP,
    NoPrivacy,
    PureDP,
    RenyiDP,
    TradeOff,
    ZeroConcentratedDP,
)
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.plan import privacy_spent as privacy_spent_of

PRIVATE = ["DP-GD", "DP-HB", "DP-NAG", "DP-NAG-opt", "DP-MASG", "DP-MASG-opt"]


def single(algorithm: Nesterov, budget: object) -> Experiment:
    return Experiment(
        problem=Quadratic(rows=2000, dimension=3), arms=(Arm(label="a", algorithm=algorithm),), budget=budget
    )


def named(figure: go.Figure) -> dict[str, object]:
    """Every curve by its name; several may be one line."""
    return {name: trace for trace in figure.data if trace.name for name in trace.meta or [trace.name]}


def test_noise_schedule_shows_the_noise_of_the_plan(experiment) -> None:
    plans = experiment.plans()
    figure = noise_schedule(plans, arm_styles(experiment.arms)).figure
    assert set(named(figure)) == set(PRIVATE)  # references draw no noise
    assert [trace.name for trace in figure.data] == ["DP-GD + 3 equal", "DP-NAG-opt = DP-MASG-opt"]
    for label, trace in named(figure).items():
        np.testing.assert_array_equal(trace.x, np.arange(1, plans[label].iterations + 1))  # type: ignore[attr-defined]
        np.testing.assert_allclose(trace.y, plans[label].noise["gradient"], rtol=1e-6)  # type: ignore[attr-defined]
    assert figure.layout.yaxis.type == "log" and figure.layout.xaxis.type == "linear"
    assert figure.layout.yaxis.title.text == "Noise scale b_t"


def test_privacy_spent_climbs_to_the_limit_and_leaves_out_references(experiment) -> None:
    figure = privacy_spent(experiment.plans(), arm_styles(experiment.arms), "epsilon", 2.0).figure
    *lines, limit = figure.data
    assert set(named(figure)) == set(PRIVATE)
    for line in lines:
        assert line.x[0] == 0 and line.y[0] == 0 and (np.diff(line.y) > 0).all()
        assert line.y[-1] == pytest.approx(2.0, rel=1e-6)
    assert (limit.y == 2).all() and limit.text[0] == "budget ε = 2"
    assert figure.layout.yaxis.type == "linear" and figure.layout.yaxis.rangemode == "tozero"
    assert figure.layout.yaxis.title.text == "Cumulative ε"


def height(trace: go.Scatter, steps: np.ndarray) -> np.ndarray:
    """Where plotly draws a line at these steps."""
    if trace.line.shape == "hv":
        return np.asarray(trace.y, dtype=float)[np.searchsorted(trace.x, steps, side="right") - 1]
    return np.interp(steps, trace.x, trace.y)


CURRENCIES: tuple[Budget, ...] = (
    PureDP(epsilon=2.0),
    ApproximateDP(epsilon=2.0, delta=1e-6),
    ZeroConcentratedDP(rho=0.1),
    GaussianDP(mu=0.5),
    RenyiDP(epsilon=1.0),
    TradeOff(true_positive_rate=0.05),
)
PRESETS = {f"{family}: {preset.name}": preset.experiment for family, found in presets().items() for preset in found}
PESSIMISM = 2e-3  # a loss distribution on its grid may overestimate ε by so much
QUICK = "mirror_descent: Start here: the game that pays for itself"


def least(plan: Plan, budget: Budget, steps: np.ndarray) -> np.ndarray:
    """The smallest that is proven of a plan after these steps, had one planned to stop there."""
    if not isinstance(budget, ApproximateDP):
        return plan.spent(budget.currency or "rho")[steps]
    return np.array(
        [accountants.tightest(plan.charged(t), budget.delta, plan.facts.released).epsilon for t in steps.tolist()]
    )


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PRESETS]
)
def test_no_step_is_drawn_with_less_privacy_spent_than_the_tightest_accountant_proves(name: str) -> None:
    preset, rng = PRESETS[name], np.random.default_rng(1)
    drawn = set()
    for budget in (preset.budget, *CURRENCIES):
        planned = preset.replaced(budget=budget).planned()
        try:
            experiment = planned.ready()
        except UserError:  # this currency is none of its methods'
            continue
        shown = PlanView(experiment, planned.plans, arm_styles(experiment.arms), {}, lambda *_: None)
        lines = named(privacy_spent_of(shown).figure)
        for label in lines.keys() & planned.plans.keys():
            plan, own = planned.plans[label], isinstance(budget, ApproximateDP)
            steps = np.arange(plan.iterations + 1)
            if own and len(steps) > 10:  # what is composed takes long
                steps = np.append(steps[:4], rng.choice(steps, 6, replace=False))
            proven = least(plan, budget, steps)
            # Of a part of a plan, losses are rounded up to another grid than of the whole: both are proven.
            too_low = height(lines[label], steps) < proven * (1 - (PESSIMISM if own else 1e-6))
            assert not too_low.any(), (budget, label, steps[too_low])
            drawn.add((budget, label))
    assert drawn


def test_more_steps_than_points_are_drawn_none_too_low() -> None:
    """10,000 steps of μ, which climbs like a root, are drawn by 1000 points."""
    plan = single(Nesterov(iterations=10_000, noise="gaussian"), GaussianDP(mu=0.5)).plans()["a"]
    (line, _) = privacy_spent({"a": plan}, {"a": ArmStyle("#000000", "solid")}, "mu", 0.5).figure.data
    assert len(line.x) <= 1000
    spent = plan.spent("mu")
    drawn = height(line, np.arange(10_001))
    assert (drawn >= spent * (1 - 1e-6)).all() and (drawn[100:] <= spent[100:] * 1.1).all()


@pytest.mark.parametrize("schedule", ["uniform", "optimal"])
def test_accountants_agree_with_the_accounting_and_embolden_the_tightest(schedule: str) -> None:
    plan = single(Nesterov(iterations=60, schedule=schedule), PureDP(epsilon=2.0)).plans()["a"]
    figure = accountant_curves(plan, 1e-6).figure
    *lines, limit = figure.data
    expected = set(accountants.METHOD_NAMES.values())
    if schedule == "optimal":  # its releases differ, and the theorem is about equal ones
        expected.remove(accountants.METHOD_NAMES["optimal"])
    assert {line.name.removesuffix(" (tightest)") for line in lines} == expected
    last = {line.name.removesuffix(" (tightest)"): line.y[-1] for line in lines}
    reading = accountants.tightest(plan.events, 1e-6)
    for method, value in reading.by_method.items():
        assert value * (1 - 1e-7) <= last[accountants.METHOD_NAMES[method]] <= value * 1.0011  # four digits, rounded up
    (bold,) = [line for line in lines if line.name.endswith("(tightest)")]
    assert bold.y[-1] == min(last.values()) and bold.line.width > max(o.line.width for o in lines if o is not bold)
    assert len({line.line.dash for line in lines}) == len(lines) and {line.line.shape for line in lines} == {"hv"}
    assert all(len(line.x) == 60 and line.x[-1] == 60 for line in lines)
    at_step_10 = min(height(line, np.array([10]))[0] for line in lines)
    assert at_step_10 >= accountants.tightest(plan.events[:10], 1e-6).epsilon * (1 - 1e-6)
    assert limit.text[0] == "budget ε = 2"


def test_error_bounds_start_at_zero_steps(experiment) -> None:
    plans = experiment.plans()
    bounds = {}
    for arm in experiment.arms:
        bound = arm.algorithm.error_bound(plans[arm.label])
        if bound is not None:
            bounds[arm.label] = bound
    figure = error_bounds(bounds, arm_styles(experiment.arms)).figure
    for label, trace in named(figure).items():
        np.testing.assert_array_equal(trace.x, np.arange(len(bounds[label])))  # type: ignore[attr-defined]
        expected = np.maximum(bounds[label], 1e-12)
        np.testing.assert_allclose(trace.y, expected, rtol=1.1e-3)  # type: ignore[attr-defined]  # four digits, rounded up
        assert (trace.y >= expected * (1 - 1e-7)).all()  # type: ignore[attr-defined]
    assert figure.layout.yaxis.type == "log" and "DP-HB" not in named(figure)


def test_bound_by_horizon_marks_the_best_number_of_steps(experiment) -> None:
    curves, best = {}, {}
    for arm in experiment.arms:
        if arm.label in ("DP-GD", "DP-NAG", "DP-NAG-opt", "NAG, no privacy"):
            budget = arm.budget or experiment.budget
            if isinstance(budget, NoPrivacy):
                curves[arm.label] = (np.arange(1, 41), 0.5 ** np.arange(40.0))
                continue
            *curve, best[arm.label] = planning.bound_by_horizon(arm.algorithm, experiment.problem.facts(), budget)
            curves[arm.label] = tuple(curve)  # type: ignore[assignment]
    figure = bound_by_horizon(curves, arm_styles(experiment.arms)).figure
    *lines, marks = figure.data
    assert [line.name for line in lines] == [
        *(f"{label}: T* = {steps}" for label, steps in best.items()),
        "NAG, no privacy",  # more steps are always better
    ]
    np.testing.assert_array_equal(marks.x, list(best.values()))
    np.testing.assert_allclose(marks.y, [curves[label][1].min() for label in best], rtol=1e-6)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
