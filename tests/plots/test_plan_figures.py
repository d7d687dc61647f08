import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import Nesterov, planning
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.plan_figures import accountant_curves, bound_by_horizon, error_bounds, noise_schedule, privacy_spent
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import NoPrivacy, PureDP
from dpviz.problems.linear.quadratic import Quadratic

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
    assert len({line.line.dash for line in lines}) == len(lines)
    assert all(len(line.x) <= 26 and line.x[-1] == 60 for line in lines)
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
