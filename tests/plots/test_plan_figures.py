from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import Nesterov, planning
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.plan_figures import accountant_curves, bound_by_horizon, error_bounds, noise_schedule, privacy_spent
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.problems.linear.quadratic import Quadratic

PRIVATE = ["DP-GD", "DP-HB", "DP-NAG", "DP-NAG-opt", "DP-MASG", "DP-MASG-opt"]


def single(algorithm: Nesterov, budget: object) -> Experiment:
    return Experiment(
        problem=Quadratic(rows=2000, dimension=3), arms=(Arm(label="a", algorithm=algorithm),), budget=budget
    )


def named(figure: go.Figure) -> dict[str, object]:
    """Every curve by its name; several may be one line."""
    return {name: trace for trace in figure.data if trace.name for name in trace.meta or [trace.name]}


def test_noise_schedule_shows_the_noise_of_the_plan(experiment, check_finite) -> None:
    plans = experiment.plans()
    figure = noise_schedule(plans, arm_styles(experiment.arms)).figure
    check_finite(figure)
    assert set(named(figure)) == set(PRIVATE)  # references draw no noise
    assert [trace.name for trace in figure.data] == ["DP-GD + 3 equal", "DP-NAG-opt = DP-MASG-opt"]
    for label, trace in named(figure).items():
        np.testing.assert_array_equal(trace.x, np.arange(1, plans[label].iterations + 1))  # type: ignore[attr-defined]
        np.testing.assert_allclose(trace.y, plans[label].noise["gradient"], rtol=1e-6)  # type: ignore[attr-defined]
    assert figure.layout.yaxis.type == "log" and figure.layout.xaxis.type == "linear"
    assert figure.layout.yaxis.title.text == "Noise scale b_t"


def test_noise_schedule_names_the_kind_of_noise() -> None:
    gaussian = single(Nesterov(iterations=10, noise="gaussian"), ZeroConcentratedDP(rho=0.1))
    figure = noise_schedule(gaussian.plans(), arm_styles(gaussian.arms)).figure
    assert figure.layout.yaxis.title.text == "Noise scale σ_t"
    plain = single(Nesterov(iterations=10), NoPrivacy())
    empty = noise_schedule(plain.plans(), arm_styles(plain.arms)).figure
    assert not empty.data and empty.layout.annotations[0].text == "No method adds noise."


def test_privacy_spent_climbs_to_the_limit_and_leaves_out_references(experiment, check_finite) -> None:
    figure = privacy_spent(experiment.plans(), arm_styles(experiment.arms), "epsilon", 2.0).figure
    check_finite(figure)
    *lines, limit = figure.data
    assert set(named(figure)) == set(PRIVATE)
    for line in lines:
        assert line.x[0] == 0 and line.y[0] == 0 and (np.diff(line.y) > 0).all()
        assert line.y[-1] == pytest.approx(2.0, rel=1e-6)
    assert (limit.y == 2).all() and limit.text[0] == "budget ε = 2"
    assert figure.layout.yaxis.type == "linear" and figure.layout.yaxis.rangemode == "tozero"
    assert figure.layout.yaxis.title.text == "Cumulative ε"


def test_privacy_spent_leaves_out_a_currency_that_does_not_exist(experiment) -> None:
    gaussian = single(Nesterov(iterations=10, noise="gaussian"), ZeroConcentratedDP(rho=0.1))
    styles = arm_styles(gaussian.arms)
    assert not privacy_spent(gaussian.plans(), styles, "epsilon", None).figure.data
    (rho,) = privacy_spent(gaussian.plans(), styles, "rho", None).figure.data
    assert rho.y[-1] == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("schedule", ["uniform", "optimal"])
def test_accountants_agree_with_the_accounting_and_embolden_the_tightest(schedule: str, check_finite) -> None:
    plan = single(Nesterov(iterations=60, schedule=schedule), PureDP(epsilon=2.0)).plans()["a"]
    figure = accountant_curves(plan, 1e-6).figure
    check_finite(figure)
    *lines, limit = figure.data
    expected = set(accountants.METHOD_NAMES.values())
    if schedule == "optimal":  # its releases differ, and the theorem is about equal ones
        expected.remove(accountants.METHOD_NAMES["optimal"])
    assert {line.name.removesuffix(" (tightest)") for line in lines} == expected
    last = {line.name.removesuffix(" (tightest)"): line.y[-1] for line in lines}
    reading = accountants.tightest(plan.events, 1e-6)
    for method, value in reading.by_method.items():
        assert last[accountants.METHOD_NAMES[method]] == pytest.approx(value, rel=1e-6)
    (bold,) = [line for line in lines if line.name.endswith("(tightest)")]
    assert bold.y[-1] == min(last.values()) and bold.line.width > max(o.line.width for o in lines if o is not bold)
    assert len({line.line.dash for line in lines}) == len(lines)
    assert all(len(line.x) <= 26 and line.x[-1] == 60 for line in lines)
    assert limit.text[0] == "budget ε = 2" and figure.layout.yaxis.title.text == "ε at δ = 10⁻⁶"


def test_accountants_draw_a_limit_only_where_it_is_that_limit() -> None:
    algorithm = Nesterov(iterations=10, noise="gaussian")
    plan = single(algorithm, ApproximateDP(epsilon=1.0, delta=1e-6)).plans()["a"]
    assert any(trace.text for trace in accountant_curves(plan, 1e-6).figure.data)
    assert not any(trace.text for trace in accountant_curves(plan, 1e-5).figure.data)
    assert not accountant_curves(single(Nesterov(iterations=5), NoPrivacy()).plans()["a"], 1e-6).figure.data


def test_error_bounds_start_at_zero_steps(experiment, check_finite) -> None:
    plans = experiment.plans()
    bounds = {}
    for arm in experiment.arms:
        bound = arm.algorithm.error_bound(plans[arm.label])
        if bound is not None:
            bounds[arm.label] = bound
    figure = error_bounds(bounds, arm_styles(experiment.arms)).figure
    check_finite(figure)
    for label, trace in named(figure).items():
        np.testing.assert_array_equal(trace.x, np.arange(len(bounds[label])))  # type: ignore[attr-defined]
        np.testing.assert_allclose(trace.y, np.maximum(bounds[label], 1e-12), rtol=1e-6)  # type: ignore[attr-defined]
    assert figure.layout.yaxis.type == "log" and "DP-HB" not in named(figure)


def test_bounds_above_the_error_of_the_start_are_called_vacuous_and_no_advice(experiment, check_finite) -> None:
    styles = arm_styles(experiment.arms)
    bounds = {"DP-GD": np.geomspace(1.0, 0.1, 11), "DP-NAG": np.geomspace(1.0, 1e6, 11)}
    figure = error_bounds(bounds, styles, start=1.0).figure
    check_finite(figure)
    words = " ".join(str(trace.text) for trace in figure.data) + str(figure.layout.annotations)
    assert "without a step: at most 1" in words and "says nothing in the end: DP-NAG" in words
    useful = error_bounds({"DP-GD": bounds["DP-GD"]}, styles, start=1.0).figure
    assert "without a step" not in str(useful.data) + str(useful.layout.annotations)
    assert [note.text for note in useful.layout.annotations] == ["DP-GD\u2002<b>0.1</b>"]

    horizons = np.arange(1, 12)
    curves = {"DP-GD": (horizons, bounds["DP-GD"]), "DP-NAG": (horizons, bounds["DP-NAG"] + 1)}
    figure = bound_by_horizon(curves, styles, start=1.0).figure
    assert {trace.name for trace in figure.data if trace.name} >= {"DP-GD: T* = 11", "DP-NAG: says nothing"}
    assert figure.data[-1].x.tolist() == [11] and "without a step: at most 1" in str(figure)


def test_bound_by_horizon_marks_the_best_number_of_steps(experiment, check_finite) -> None:
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
    check_finite(figure)
    *lines, marks = figure.data
    assert [line.name for line in lines] == [
        *(f"{label}: T* = {steps}" for label, steps in best.items()),
        "NAG, no privacy",  # more steps are always better
    ]
    np.testing.assert_array_equal(marks.x, list(best.values()))
    np.testing.assert_allclose(marks.y, [curves[label][1].min() for label in best], rtol=1e-6)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"


def test_every_figure_of_six_long_plans_is_small(long_experiment, check_finite) -> None:
    plans, styles = long_experiment.plans(), arm_styles(long_experiment.arms)
    bounds = {label: np.geomspace(1, 1e-3, 1001) * (i + 1) for i, label in enumerate(plans)}
    curves = {label: (np.arange(1, 1001), bound[1:]) for label, bound in bounds.items()}
    accountant_curves(plans["DP-NAG-opt"], 1e-6)  # the accountants cache their curves
    builders: list[Callable[[], go.Figure]] = [
        lambda: noise_schedule(plans, styles).figure,
        lambda: privacy_spent(plans, styles, "epsilon", 2.0).figure,
        lambda: accountant_curves(plans["DP-NAG-opt"], 1e-6).figure,
        lambda: error_bounds(bounds, styles).figure,
        lambda: bound_by_horizon(curves, styles).figure,
    ]
    for build in builders:
        figure = build()
        check_finite(figure)
        assert len(figure.to_json()) < 80_000
