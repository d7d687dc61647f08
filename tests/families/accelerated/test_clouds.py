"""The theory of a cloud: about 90 % of the runs are where the plan says, and the ground is the objective."""

import warnings

import numpy as np
import pytest

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent, HeavyBall, MultistageNesterov, Nesterov, figures
from dpviz.privacy.budgets import ApproximateDP, PureDP
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.linear.regression import HuberRegression, LeastSquares

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
    found = figures.section(built, x, y)
    places = np.tile(built.minimiser, (121, 1))
    places[:, 0], places[:, 1] = np.tile(x, 11), np.repeat(y, 11)
    values = built.evaluate({"x": places})["objective"]
    assert found.raw and found.values.ravel() == pytest.approx(values, abs=0.002 * np.ptp(values))
    assert found.values.min() == found.values[4, 4] == pytest.approx(built.optimum, abs=0.002 * np.ptp(values))
    assert built.evaluate({"x": built.minimiser[None]})["gradient_norm"] < 1e-6
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # where runs have diverged
        assert np.isfinite(figures.section(built, 1e38 * x, 1e38 * y).values).all()


def test_the_ground_is_the_objective() -> None:
    quadratic = Quadratic(dimension=5)
    x, y = np.linspace(-1, 2, 4), np.linspace(-3, 1, 3)
    ground = figures.ground(quadratic.facts(), x, y)
    places = np.zeros((12, 5))
    places[:, 0], places[:, -1] = np.tile(x, 3), np.repeat(y, 4)
    assert quadratic.plane is not None
    assert quadratic.plane.project({"x": places}) == pytest.approx(places[:, [0, -1]])
    gaps = quadratic.build().evaluate({"x": places})["objective_gap"]
    assert not ground.raw and ground.values.ravel() == pytest.approx(gaps, rel=1e-12)
