"""Figures of private tuning, and the curve that the process sees."""

from dataclasses import replace

import numpy as np
import pytest

from dpviz.experiments.experiment import Experiment
from dpviz.families.bayesian_optimization import figures, presets
from dpviz.families.bayesian_optimization.algorithms import Gibo
from dpviz.families.bayesian_optimization.batches import Placing
from dpviz.families.bayesian_optimization.forecast import forecast
from dpviz.families.bayesian_optimization.posterior import Surrogate
from dpviz.families.bayesian_optimization.posterior_slice import slice_along
from dpviz.plots.elements.style import arm_styles
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.privacy.events import Laplace
from dpviz.problems.tuning.model_tuning import NormalLocation

SMALL = NormalLocation(start=None)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    arms = presets.arms((presets.GIBO, presets.RANDOM), iterations=5, trainings=30)
    return Experiment(problem=SMALL, arms=arms, budget=GaussianDP(mu=1.0), replicates=3)


STEPS = np.arange(101.0)


@pytest.mark.parametrize(
    ("median", "runs", "expected"),
    [
        (np.exp(-STEPS / 10), [0, 0, 0], (30, "twentieth")),  # e^-3 = 1/20.1
        (np.exp(-STEPS / 10), [-0.2, 0, 0.2], (19, "band")),  # half the band is 0.16; e^-1.9 = 0.15
        (np.exp(-STEPS / 10), [0], None),  # a single run says nothing of how runs differ
        (STEPS, [0, 0], None),
        (np.where(STEPS < 100, 1.0, 0.0), [0, 0], None),  # all is gained at the end
    ],
    ids=["a small part", "runs differ", "one run", "rising", "at the end"],
)
def test_looks_pay_until_little_is_left_to_gain(
    median: np.ndarray, runs: list[float], expected: tuple[int, str] | None
) -> None:
    found = figures.end_of_gains(np.add.outer(median, runs))
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert found[0] == expected[0] and expected[1] in found[1]


def test_a_process_of_quadratic_functions_knows_a_quadratic_loss() -> None:
    exact = Surrogate(kernel="quadratic", relative_noise=1e-10)
    method = Gibo(surrogate=exact, bias_level=0.001, placing=Placing(nearest=1.0))
    way = np.array([[-3.0, -3.0], [-1.0, 0.0], [0.5, 1.0]])
    curve = slice_along(SMALL.build(), method, way, 1)
    assert curve.mean == pytest.approx(curve.truth, abs=1e-3) and curve.deviation.max() < 0.1
    assert curve.here == 1.0 and len(curve.queries) <= 6
    rough = slice_along(SMALL.build(), Gibo(), way, 1)
    near = np.abs(rough.coordinates - 1.0) < 0.2
    assert rough.deviation[near].max() < 0.1 < rough.deviation.max() and rough.newest.any()


def test_readings_and_attacks_of_every_method(experiment: Experiment) -> None:
    plans, styles = experiment.plans(), arm_styles(experiment.arms)
    epsilon = {line.name: line.y for line in figures.epsilon_by_step(plans, styles, 1e-5).figure.data}
    assert epsilon[presets.GIBO][-1] == pytest.approx(4.378)  # 4.377178 in four digits, rounded up
    assert 1.5 < epsilon[presets.RANDOM][-1] <= 1.6140001  # of one choice, whose pure ε this is
    gibo, random = (
        next(line.y for line in figures.attacks(plans, styles).figure.data if line.name == label)
        for label in (presets.GIBO, presets.RANDOM)
    )
    assert (np.array(random) >= np.array(gibo) - 1e-6).all()


def test_figures_of_dp_gibo_are_empty_without_it(experiment: Experiment) -> None:
    for arms in (experiment.arms, experiment.arms[1:]):
        one = experiment.replaced(arms=arms)
        prediction = forecast(one, one.plans())
        for chart in (figures.bias_and_noise(prediction), figures.trainings_by_level(prediction)):
            assert bool(chart.figure.data) == (arms == experiment.arms)


def test_what_was_bought_before_counts_in_readings_and_attacks(experiment: Experiment) -> None:
    arm, styles = experiment.arms[1], arm_styles(experiment.arms)
    epsilons, misses = [], []
    for released in ((), (Laplace(0.2),)):
        plans = {arm.label: arm.algorithm.plan(replace(SMALL.facts(), released=released), PureDP(epsilon=1.0))}
        epsilons.append(figures.epsilon_by_step(plans, styles, 1e-9).figure.data[0].y)
        lines = figures.attacks(plans, styles).figure.data
        misses.append(np.array(next(line.y for line in lines if line.name == arm.label)))
    assert epsilons[1][0] == pytest.approx(0.2) and [each[-1] for each in epsilons] == pytest.approx(
        [1.0, 1.0], rel=0.01
    )
    assert (misses[1] <= misses[0] + 1e-6).all()
