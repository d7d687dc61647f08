"""Losses that need no training: what is known of them in closed form, and means over the rows of a user."""

import math

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets import BundledTable, UniformLinear
from dpviz.datasets.synthetic import NormalDraws, RegressionDraws
from dpviz.datasets.users import prepare_users
from dpviz.problems.tuning.model_tuning import DirectTuning, HuberRegression, Location, NormalLocation
from dpviz.problems.tuning.tuning import TuningProblem, Users
from dpviz.specification import Specification

BOXES: tuple[DirectTuning, ...] = (
    NormalLocation(data=NormalDraws(rows=200, dimension=3)),
    NormalLocation(data=BundledTable(table="breast_cancer"), most_features=4),
    HuberRegression(data=RegressionDraws(rows=200)),
    HuberRegression(data=UniformLinear(rows=500, dimension=3), weighted=False),
    HuberRegression(data=BundledTable(table="digits"), most_features=5),
    HuberRegression(data=RegressionDraws(rows=200, dimension=6), most_features=3),
)


@pytest.mark.parametrize("box", BOXES, ids=lambda box: f"{box.title}, {box.data.title}")
def test_gradients_are_the_slopes_of_the_losses(box: DirectTuning) -> None:
    assert Specification.from_json(box.to_json()) == box
    problem = box.build()
    facts, step = problem.facts, 1e-6 * np.eye(problem.facts.d)
    assert facts == box.facts() and len(facts.names) == len(facts.low) == facts.d and facts.has_gradients
    x = facts.starting_points([np.random.default_rng(0)]) + 0.3
    slopes = (problem._losses(x + step) - problem._losses(x - step)).T / 2e-6
    assert np.abs(problem._gradients(x)[0] - slopes).max() < 1e-6
    gradient = np.zeros_like(x)
    found = problem.evaluate({"x": x, "gradient": gradient, "clipped": np.array([0.5])})
    assert found["gradient_error"] == pytest.approx(np.linalg.norm(slopes.mean(axis=0)), rel=1e-6)
    assert found["exact_gradient_norm"] == pytest.approx(np.linalg.norm(slopes.mean(axis=0)), rel=1e-6)
    assert found["clipped_share"] == 0.5 and found["gradient_norm"] == 0.0


def test_mallows_weights_bound_every_gradient_and_without_them_long_rows_pull_without_end() -> None:
    """c√2 = 1.902 at c = 1.345, reached by rows of norm √2 and residuals beyond the corner (specification, E.4)."""
    data = RegressionDraws(rows=20_000, dimension=4, noise=10.0)
    bounded, free = HuberRegression(data=data), HuberRegression(data=data, weighted=False)
    limit = bounded.corner * math.sqrt(2)
    x = np.random.default_rng(0).uniform(-4, 4, (3, 5))
    longest = np.linalg.norm(bounded.build()._gradients(x), axis=2).max()
    assert limit * 0.999 < longest <= limit * (1 + 1e-12)
    assert np.linalg.norm(free.build()._gradients(x), axis=2).max() > 2 * limit


def test_the_location_of_a_user_is_a_polynomial_of_known_norm() -> None:
    """In the space of k(x, z) = (1 + xᵀz)², ‖f_i‖² = d/4 + ½‖x_i‖² + ¼‖x_i‖⁴ (specification, E.3): the norm of the
    interpolant through (d + 1)(d + 2)/2 values, which determine it."""
    box = NormalLocation(data=NormalDraws(rows=100, dimension=2))
    problem = box.build()
    assert isinstance(problem, Location)
    points = np.random.default_rng(0).uniform(-2, 2, (6, 2))
    gram = (1 + points @ points.T) ** 2
    losses = problem._losses(points)
    norms = np.einsum("pn,pn->n", losses, np.linalg.solve(gram, losses))
    squares = (box.rows({}).features ** 2).sum(axis=1)
    assert norms == pytest.approx(2 / 4 + squares / 2 + squares**2 / 4, rel=1e-6)
    best = problem._means.mean(axis=0)
    found = problem.evaluate({"x": np.array([best, best + np.array([3.0, 4.0])])})
    assert found["distance"] == pytest.approx([0.0, 5.0])
    assert found["objective"][1] - found["objective"][0] == pytest.approx(12.5)


def test_the_true_coefficients_of_the_features_that_are_used_are_known() -> None:
    data = RegressionDraws(rows=200, dimension=6)
    problem = HuberRegression(data=data)
    fewer = problem.replaced(most_features=3)
    kept = data.coefficients[[0, *1 + fewer.used_features]]
    assert len(kept) == fewer.facts().d == 4
    assert fewer.build().evaluate({"x": kept[None]})["distance"] == 0.0
    assert problem.build().evaluate({"x": data.coefficients[None]})["distance"] == 0.0


def test_the_minimiser_of_a_table_has_no_gradient() -> None:
    problem = BOXES[3].build()
    problem.prepare()
    best = problem._reference  # type: ignore[attr-defined]
    assert np.abs(problem._gradients(best[None]).mean(axis=1)).max() < 1e-4
    assert problem.evaluate({"x": best[None]})["distance"] == 0.0


def test_the_rows_of_a_user_are_averaged_and_scaled_by_declared_ranges() -> None:
    generator = np.random.default_rng(3)
    who = np.r_[np.arange(30), generator.integers(0, 30, 70)]
    table = pd.DataFrame({"a": generator.uniform(0, 8, 100), "y": generator.uniform(0, 2, 100), "who": who})
    ready = prepare_users(
        table, user="who", target="y", positive=None, features=["a"], bounds={"a": (0.0, 8.0)}, target_range=(0.0, 2.0)
    )
    tables = {ready.specification.identity: ready.table}
    box = NormalLocation(data=ready.specification, start=0.0)
    places = ready.table[:, -1].astype(int)
    assert (box.facts().n, box.unit, box.not_protected) == (30, "one user replaced", "")
    scaled = 3 * (table["a"].to_numpy() / 4 - 1)
    means = [np.mean(scaled[places == user] ** 2) / 2 for user in range(30)]
    assert box.build(tables)._losses(np.zeros((1, 1)))[0] == pytest.approx(np.array(means))
    huber: TuningProblem = HuberRegression(data=ready.specification).build(tables)
    assert huber._losses(np.zeros((2, 2))).shape == (2, 30) and huber._gradients(np.zeros((2, 2))).shape == (2, 30, 2)


def test_means_over_users_are_their_own_and_nobody_elses() -> None:
    values = np.array([[1.0, np.nan, 3.0, np.inf, 1e300, 5.0]])
    users = Users(4, np.array([0, 1, 0, 1, 3, 3]))
    found = users.means(values)[0]
    assert found[0] == 2.0 and np.isnan(found[1]) and found[2] == 0.0 and found[3] == 5e299
    both = users.means(np.stack([values, -values], axis=2))
    assert np.array_equal(both[..., 0], users.means(values), equal_nan=True) and both.shape == (1, 4, 2)
    assert Users(6).means(values) is values
