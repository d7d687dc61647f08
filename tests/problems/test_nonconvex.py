"""Non-convex risks: constants that hold, derivatives that are right, and the saddle point of the page."""

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

from dpviz.datasets import Saddle, UniformLinear, UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.second_order import ShortStep
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.events import Gaussian, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.linear import linear_base
from dpviz.problems.nonconvex import nonconvex_risk
from dpviz.problems.nonconvex.nonconvex import (
    LogisticTukey,
    NonconvexModel,
    Ridge,
    RobustComponent,
    SigmoidTukey,
    Tukey,
    clip_row_norms,
)
from dpviz.problems.nonconvex.nonconvex_risk import UNIT, NonconvexRisk
from dpviz.problems.nonconvex.symmetric import unpacked

KINDS = (LogisticTukey, SigmoidTukey, RobustComponent)
LINE = np.linspace(-12, 12, 24_001)
STEP = LINE[1] - LINE[0]


def small(kind: type[NonconvexModel], **settings) -> NonconvexRisk:
    return kind(data=Saddle(rows=1000, dimension=4), **settings).build()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_the_constants_are_the_largest_values_of_the_derivatives(kind: type[NonconvexModel]) -> None:
    risk = kind.risk
    slopes = -risk.negative_slopes(LINE.copy(), None)
    bends = risk.curvatures(LINE.copy())
    thirds = np.gradient(bends, STEP)
    assert np.gradient(risk.losses(LINE), STEP)[1:-1] == pytest.approx(slopes[1:-1], abs=1e-5)
    assert np.gradient(slopes, STEP)[1:-1] == pytest.approx(bends[1:-1], abs=1e-5)
    assert np.abs(slopes).max() == pytest.approx(risk.max_slope, rel=1e-5)
    low, high = min(bends.min(), 0.0), bends.max()
    smallest, largest = risk.curvature_range
    assert (low, high) == (pytest.approx(smallest, abs=1e-9), pytest.approx(largest, rel=1e-7))
    assert np.abs(thirds).max() == pytest.approx(risk.max_third_derivative, rel=1e-5)
    assert risk.losses(LINE).min() >= risk.floor and risk.losses(LINE).min() == pytest.approx(risk.floor, abs=4e-3)
    (least,), (most,) = risk.extremes(np.array([3.0]))
    inside = risk.losses(LINE[np.abs(LINE) <= 3])
    assert (inside.min(), inside.max()) == (pytest.approx(least, abs=1e-5), pytest.approx(most, abs=1e-5))


@pytest.mark.parametrize("penalty", [Tukey(0.3), Ridge(0.3)])
def test_the_penalties_constants_are_the_largest_values_of_their_derivatives(penalty: Tukey | Ridge) -> None:
    value, slopes, bends = penalty.value(LINE[:, None]), penalty.gradient(LINE), penalty.hessian(LINE)
    assert value.min() == 0
    assert np.gradient(value, STEP)[1:-1] == pytest.approx(slopes[1:-1], abs=1e-5)
    assert np.gradient(slopes, STEP)[1:-1] == pytest.approx(bends[1:-1], abs=1e-5)
    assert (bends.min(), bends.max()) == pytest.approx(penalty.curvature_range, rel=1e-7)
    assert np.abs(np.gradient(bends, STEP)).max() == pytest.approx(penalty.max_third_derivative, rel=1e-5, abs=1e-12)


def test_the_facts_are_those_of_the_table_of_constants() -> None:
    """families/second_order/THEORY.md, section 2.1, to the digits that are printed there."""
    facts = LogisticTukey(regularisation=1e-3).facts()
    assert (facts.gradient_sensitivity, facts.curvature_sensitivity, facts.value_range) == (2.0, 0.25, 0.0)
    assert (facts.smoothness, facts.curvature_floor) == (pytest.approx(0.252), pytest.approx(-0.0005))
    assert facts.hessian_sensitivity == pytest.approx(0.353553, abs=1e-6)
    assert facts.hessian_lipschitz == pytest.approx(0.096225 + 0.004668559, abs=1e-6)
    assert (facts.gap, facts.lowest) == (pytest.approx(np.log(2)), 0.0)
    facts = SigmoidTukey(regularisation=1e-3).facts()
    assert facts.gradient_sensitivity == 0.5
    assert facts.hessian_sensitivity == facts.curvature_sensitivity == pytest.approx(0.192450, abs=1e-6)
    assert (facts.smoothness, facts.curvature_floor) == pytest.approx((0.098225, -0.096725), abs=1e-6)
    assert facts.hessian_lipschitz == pytest.approx(0.125 + 0.004668559, abs=1e-6)
    facts = RobustComponent().facts()
    assert facts.gradient_sensitivity == pytest.approx(0.649519, abs=1e-6)
    assert (facts.hessian_sensitivity, facts.curvature_sensitivity) == (pytest.approx(1.414214, abs=1e-6), 1.25)
    assert (facts.smoothness, facts.curvature_floor) == pytest.approx((0.3, -0.95))
    assert facts.hessian_lipschitz == pytest.approx(2.334280, abs=1e-6)
    assert (facts.gap, facts.value_range, facts.lowest) == (0.5, 0.0, -0.5)


def test_what_is_declared_takes_the_place_of_what_always_holds() -> None:
    declared = {
        "smoothness": 1.05,
        "hessian_lipschitz": 1.0,
        "gap": 0.7,
        "hessian_bound": "spectral",
        "start": "random",
    }
    facts = RobustComponent(start_seed=3, **declared).facts()
    assert (facts.smoothness, facts.hessian_lipschitz, facts.gap) == (1.05, 1.0, 0.7)
    assert facts.hessian_sensitivity == 2 * np.sqrt(10)
    start = np.random.default_rng(3).standard_normal(10)
    assert np.array_equal(facts.starting_point(2), [start, start])
    length = np.linalg.norm(start)
    assert facts.value_range == pytest.approx(length**2 / (2 * (1 + length**2)))
    assert LogisticTukey(start="random").facts().value_range == pytest.approx(
        np.linalg.norm(np.random.default_rng(0).standard_normal(10))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_and_hessian_are_derivatives_of_the_objective(kind: type[NonconvexModel]) -> None:
    risk = small(kind, regularisation=0.3)
    x = 2 * np.random.default_rng(1).standard_normal((3, 4))

    def objective(at: np.ndarray) -> np.ndarray:
        return risk.mean_value(at).value[:, 0] + risk.penalty.value(at)

    gradient = risk.mean_gradient(x).value + risk.regulariser_gradient(x)
    hessian = unpacked(risk.hessian(x).value, "goe")
    hessian[:, range(4), range(4)] += risk.regulariser_hessian(x)
    h = 1e-5
    for j, e in enumerate(h * np.eye(4)):
        assert (objective(x + e) - objective(x - e)) / (2 * h) == pytest.approx(gradient[:, j], abs=1e-9)
        change = risk.mean_gradient(x + e).value - risk.mean_gradient(x - e).value
        change += risk.regulariser_gradient(x + e) - risk.regulariser_gradient(x - e)
        assert change / (2 * h) == pytest.approx(hessian[:, j], abs=1e-9)
    found = risk.evaluate({"x": x})
    assert found["objective"] == pytest.approx(objective(x), rel=1e-12)
    assert found["gradient_norm"] == pytest.approx(np.linalg.norm(gradient, axis=1), rel=1e-12)
    assert found["smallest_eigenvalue"] == pytest.approx(np.linalg.eigvalsh(hessian)[:, 0], rel=1e-10)
    assert risk.smallest_eigenvalue(x).value[:, 0] == pytest.approx(found["smallest_eigenvalue"], rel=1e-10)
    products, directions = risk.hessian_products(x), np.random.default_rng(2).standard_normal((3, 4))
    data_part = unpacked(risk.hessian(x).value, "goe")
    assert products.times(directions) == pytest.approx(np.einsum("rij,rj->ri", data_part, directions), rel=1e-10)
    assert (products.d, products.sensitivity) == (4, risk.hessian(x).sensitivity)
    falls = risk.decrease(x, gradient, np.full((3, 2), [0.5, 4.0])).value
    for k, step in enumerate((0.5, 4.0)):
        assert falls[:, k] == pytest.approx((objective(x) - objective(x + step * gradient)) / step, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("halved", [1, 1000])
def test_hessians_and_their_products_are_those_of_the_definition(
    kind: type[NonconvexModel], halved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With half of each matrix computed or the whole, block by block; of all rows, and of a batch."""
    monkeypatch.setattr(nonconvex_risk, "HALVED", halved)
    monkeypatch.setattr(linear_base, "BLOCK", 300)
    risk, generator = kind(data=UniformLogistic(rows=500, dimension=6)).build(), np.random.default_rng(4)
    x, directions, chosen = *3 * generator.standard_normal((2, 3, 6)), generator.integers(0, 500, (3, 40))
    nobody: Any = None
    batch = Batch(None, [0, 1, 2], nobody, "replace-one", indices=chosen, size=40)
    for indices, asked in ((np.tile(np.arange(500), (3, 1)), None), (chosen, batch)):
        rows = risk._rows[indices]
        weights = risk.curvatures(np.einsum("rbd,rd->rb", rows, x))
        true = np.einsum("rb,rbd,rbe->rde", weights, rows, rows) / indices.shape[1]
        found = unpacked(risk.hessian(x, asked).value, "goe")
        assert found == pytest.approx(true, rel=1e-12, abs=1e-15)
        if asked is None:
            products = risk.hessian_products(x)
            for _ in range(2):
                assert products.times(directions) == pytest.approx(np.einsum("rde,re->rd", true, directions), rel=1e-10)


def test_the_saddle_is_one_for_every_data_set_and_the_numbers_are_those_of_the_page() -> None:
    risk = RobustComponent().build()
    x = risk.facts.starting_point(1)
    found = risk.evaluate({"x": x})
    assert found["objective"] == found["gradient_norm"] == 0
    assert found["smallest_eigenvalue"] == pytest.approx(-0.4257, abs=5e-5)
    hessian = unpacked(risk.hessian(x).value, "goe")[0] + 0.05 * np.eye(10)
    assert np.linalg.eigvalsh(hessian)[1] == pytest.approx(0.0274, abs=5e-5)
    x[0, 0] = 0.4
    for _ in range(500):
        x -= (risk.mean_gradient(x).value + risk.regulariser_gradient(x)) / 0.3
    found = risk.evaluate({"x": x})
    assert found["objective"] == pytest.approx(-0.21075, abs=5e-6) and found["gradient_norm"] < 1e-9
    assert np.linalg.norm(x) == pytest.approx(2.075, abs=5e-4)
    assert found["smallest_eigenvalue"] == pytest.approx(0.0537, abs=5e-5)


def test_eigenvalues_are_computed_only_where_no_replicate_was(monkeypatch: pytest.MonkeyPatch) -> None:
    risk, asked = small(RobustComponent), []
    true = risk._smallest_eigenvalues
    monkeypatch.setattr(risk, "_smallest_eigenvalues", lambda x: asked.append(len(x)) or true(x))  # type: ignore[func-returns-value]
    x = np.zeros((5, 4))
    x[3:] = 1.0
    first = risk.evaluate({"x": x})["smallest_eigenvalue"]
    assert asked == [2], "all start in one of two points"
    x[1] = 2.0
    again = risk.evaluate({"x": x})["smallest_eigenvalue"]
    assert asked == [2, 1] and np.array_equal(np.delete(again, 1), np.delete(first, 1))
    risk.evaluate({"x": x + 1}, expensive=False)
    assert asked == [2, 1]


def test_hessians_take_little_memory_beside_the_table() -> None:
    risk = RobustComponent(data=Saddle(rows=20_000, dimension=60)).build()
    x = np.ones((3, 60))
    sample = Sub("wor", 3000, 20_000, Gaussian(1.0))
    batch = Mechanisms(Ledger(FixedEvents((sample,)), 3), 0).batch(sample)
    for asked in (lambda: risk.hessian(x), lambda: risk.hessian(x, batch), lambda: risk.evaluate({"x": x})):
        tracemalloc.start()
        asked()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20e6, "rows × columns × columns would be 576 MB, and a second table 10 MB"


def test_rows_are_scaled_by_what_is_declared_and_then_shortened() -> None:
    data = UploadedTable(identity="a" * 32, n=20, bounds=((0.0, 10.0), (5.0, 7.0)), names=("a", "b"))
    table = np.tile([5.0, 6.0, 1.0], (20, 1))
    table[1], table[2] = [10.0, 6.0, -1.0], [10.0, 5.0, 1.0]
    table[3], table[4] = [np.nan, 7.0, 1.0], [1e300, np.inf, -1.0]  # not finite: 0, the lowest value of the first range
    rows = LogisticTukey(data=data).build({"a" * 32: table})._rows
    half = np.sqrt(0.5)
    assert rows[:3] == pytest.approx(np.array([[0.0, 0.0], [-1.0, 0.0], [half, -half]]))
    assert rows[3:5] == pytest.approx(np.array([[-half, half], [-half, half]]))
    rows = RobustComponent(data=data, divisor=4.0).build({"a" * 32: table})._rows
    assert rows[:3] == pytest.approx(np.array([[0.0, 0.0], [0.25, 0.0], [0.25, -0.25]]))
    rows = RobustComponent(data=data, scaling="none").build({"a" * 32: table})._rows
    assert rows[0] == pytest.approx(np.array([5, 6]) / np.sqrt(61))


def test_features_of_categories_stay_0_and_1_before_rows_are_shortened() -> None:
    lists = (("area", ("north", "south", "other")),)
    data = UploadedTable(identity="b" * 32, n=20, bounds=((0.0, 10.0),), names=("a",), categories=lists)
    table = np.tile([10.0, 1.0, -1.0], (20, 1))
    table[1] = [5.0, 7.0, 1.0]  # an unknown category is another one
    for divisor in (1.0, 2.0):
        rows = LogisticTukey(data=data, divisor=divisor).build({"b" * 32: table})._rows
        first, second = np.array([1.0, 0.0, 1.0, 0.0]) / divisor, np.array([0.0, 0.0, 0.0, 1.0]) / divisor
        np.testing.assert_allclose(rows[:2], [-first / max(1, np.linalg.norm(first)), second])


def test_a_constant_column_is_shortened_with_the_others() -> None:
    data = UploadedTable(identity="a" * 32, n=20, bounds=((0.0, 10.0),), names=("a",), constant=True)
    assert UploadedTable.from_json(data.to_json().replace('"constant":true,', "")) == data.replaced(constant=False)
    table = np.tile([5.0, 1.0], (20, 1))
    table[1], table[2] = [10.0, -1.0], [np.nan, 1.0]
    specification = LogisticTukey(data=data)
    rows, half = specification.build({"a" * 32: table})._rows, np.sqrt(0.5)
    assert data.facts().names == ("a", "constant") and specification.facts().d == 2
    assert rows[:3] == pytest.approx(np.array([[0.0, 1.0], [-half, -half], [-half, half]]))  # times the label
    lists = (("area", ("north", "south", "other")),)
    wide = data.replaced(categories=lists).load({"a" * 32: np.column_stack([table[:, 0], np.ones(20), table[:, 1]])})
    assert wide.features[0].tolist() == [5.0, 1.0, 0.0, 1.0, 0.0]


def test_hostile_rows_become_short_ones() -> None:
    hostile = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, 0.0, 3.0]
    rows = np.array(list(itertools.product(hostile, repeat=3)))
    finite = np.isfinite(rows).all(axis=1)
    assert (
        clip_row_norms(rows) == (np.abs(np.array(list(itertools.product(hostile[3:], repeat=3)))).max(axis=1) > 1).sum()
    )
    assert np.linalg.norm(rows, axis=1).max() <= UNIT and (rows[~finite] == 0).all()
    with pytest.raises(ValueError, match="longer than 1"):
        small(RobustComponent).__class__(RobustComponent().facts(), Ridge(1.0), np.full((3, 2), 0.8))


def test_a_number_is_no_class() -> None:
    with pytest.raises(UserError, match="two classes"):
        LogisticTukey(data=UniformLinear())
    assert RobustComponent(data=UniformLinear(rows=500)).build().evaluate({"x": np.ones((1, 10))})
    assert LogisticTukey(data=UniformLogistic(rows=500)).build().evaluate({"x": np.ones((1, 10))})


@pytest.mark.parametrize("cls", KINDS)
def test_what_a_run_records_is_known_before_it(cls: type[NonconvexModel]) -> None:
    """Coordinates of the robust component, too, which the others do not have."""
    problem = cls(data=Saddle(rows=1000, dimension=3))
    arm = Arm(label="a", algorithm=ShortStep(iterations=1))
    experiment = Experiment(problem=problem, arms=(arm,), budget=ApproximateDP(epsilon=1.0, delta=1e-5), replicates=1)
    assert list(experiment.metrics()) == list(experiment.run().metrics)
    assert ("coordinate_2" in experiment.metrics()) == isinstance(problem, RobustComponent)
