"""Learning without an opponent: gradients, their sensitivity, the certified excess loss, what the generators draw."""

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.problems.games.games import Ball, GradientSums, Simplex
from dpviz.problems.games.simplex_learning import LearningGame, Portfolio, SparseRegression
from dpviz.specification import Specification

SMALL = [
    SparseRegression(rows=400, dimension=5, radius=1.5),
    SparseRegression(rows=300, dimension=40, radius=0.5, seed=3),
    Portfolio(rows=400, dimension=6),
    Portfolio(rows=300, dimension=4, risk_aversion=0.0),
    Portfolio(rows=300, dimension=4, risk_aversion=4.0),
]
EVERY = pytest.mark.parametrize("specification", SMALL, ids=lambda s: f"{s.kind.rpartition('.')[2]}-{s.dimension}")


def points(game: LearningGame, replicates: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.dirichlet(np.full(game.facts.d_x, 0.3), replicates), np.ones((replicates, 1))


def objective(game: LearningGame, x: np.ndarray) -> np.ndarray:
    return game.evaluate({"x": x})["objective"]


@EVERY
def test_the_gradient_is_that_of_the_objective(specification: SparseRegression | Portfolio) -> None:
    game = specification.build()
    x, y = points(game, 4)
    gradient, other = game.gradients(x, y)
    assert gradient.shape == x.shape and np.array_equal(other, np.zeros((4, 1)))
    direction = points(game, 4, seed=1)[0] - x
    slope = (objective(game, x + 1e-4 * direction) - objective(game, x - 1e-4 * direction)) / 2e-4
    assert np.allclose((gradient * direction).sum(axis=1), slope, rtol=0, atol=1e-9)


@EVERY
def test_sums_computed_once_agree_with_a_pass_over_the_rows(specification: SparseRegression | Portfolio) -> None:
    game = specification.build()
    x, y = points(game, 3)
    n, third = game.facts.n, game.facts.n // 3
    whole = game.gradients(x, y)[0]
    assert np.allclose(game.gradients(x, y, slice(0, n))[0], whole, rtol=0, atol=1e-13)
    parts = game.gradients(x, y, slice(0, third))[0] * third + game.gradients(x, y, slice(third, n))[0] * (n - third)
    assert np.allclose(parts / n, whole, rtol=0, atol=1e-13)


@EVERY
def test_the_excess_loss_is_certified(specification: SparseRegression | Portfolio) -> None:
    game = specification.build()
    x, _ = points(game, 50)
    found = game.evaluate({"x": x})
    weights, value = game.weights(game._minimum.x)[0], float(game._minimum.value[0])
    excess = found["objective"] - value
    assert (found["duality_gap"] >= excess).all() and (found["duality_gap"] <= excess + 1e-6).all()
    assert (excess > -1e-6).all()
    d = specification.dimension
    if isinstance(specification, SparseRegression):
        assert np.abs(weights).sum() <= specification.radius + 1e-9
        vertex = np.concatenate([np.maximum(weights, 0), np.maximum(-weights, 0)]) / specification.radius
        vertex[[0, d]] += (1 - vertex.sum()) / 2  # what is left cancels
    else:
        vertex = weights
    at_optimum = game.evaluate({"x": vertex[None]})
    assert at_optimum["objective"][0] == pytest.approx(value, abs=1e-12)
    assert 0 <= at_optimum["duality_gap"][0] <= 1e-6


def made(specification: SparseRegression | Portfolio, features: np.ndarray, labels: np.ndarray) -> LearningGame:
    """The game on other rows."""
    ball = isinstance(specification, SparseRegression)
    curvature = 1.0 if ball else specification.risk_aversion
    facts = specification.replaced(rows=200).facts()
    body = Ball(specification.radius) if ball else Simplex()
    return LearningGame(facts, features, labels, curvature, 0.0, body)


def moved(before: LearningGame, after: LearningGame, rows: slice | None, x: np.ndarray) -> tuple[float, float, float]:
    """Range of the change of the scores, what is declared, and the largest change of a coordinate times the rows."""
    y = np.ones((len(x), 1))
    scores = [GradientSums(game, len(x)) for game in (before, after)]
    for total in scores:
        total.add([(0.7, x, y)], rows)
        if rows is None:
            total.add([(0.3, x[::-1], y)])
    old, new = (total.utilities_x(total.weight) for total in scores)
    change = new.value - old.value
    m = 200 if rows is None else rows.stop - rows.start
    single = before.gradients(x, y, rows)[0] - after.gradients(x, y, rows)[0]
    return float(np.ptp(change, axis=1).max()), float(np.max(old.sensitivity)), float(np.abs(single).max()) * m


@EVERY
def test_no_replaced_row_moves_the_scores_further_than_declared(specification: SparseRegression | Portfolio) -> None:
    generator = np.random.default_rng(4)
    d = specification.dimension
    features, labels = generator.uniform(-1, 1, (200, d)), generator.uniform(-1, 1, 200)
    if isinstance(specification, Portfolio):
        labels[:] = 1.0
    before = made(specification, features, labels)
    for trial in range(40):
        row = generator.integers(20)
        other, label = features.copy(), labels.copy()
        other[row] = generator.choice([-1.0, 1.0], d) if trial % 2 else generator.uniform(-1, 1, d)
        if isinstance(specification, SparseRegression):
            label[row] = generator.choice([-1.0, 1.0])
        after = made(specification, other, label)
        x = np.eye(before.facts.d_x)[generator.integers(before.facts.d_x, size=6)]
        for rows in (None, slice(0, 20)):
            spread, declared, largest = moved(before, after, rows, x)
            assert spread <= declared * (1 + 1e-12) and largest <= before.facts.change_x * (1 + 1e-12)


def test_a_crafted_pair_of_rows_attains_the_declared_range() -> None:
    for specification in (SMALL[0], SMALL[2]):
        d = specification.dimension  # type: ignore[attr-defined]
        features, labels = np.zeros((200, d)), np.zeros(200)
        features[0], labels[0] = 1.0, -1.0
        if isinstance(specification, Portfolio):
            labels[:] = 1.0
            features[0, 0] = -1.0  # slope γ ⟨ρ, x⟩ - 1 = -(1 + γ) at the first vertex
            features[0, 1::2] = -1.0
        else:
            features[0, 1::2] = -1.0
        other = features.copy()
        other[0, 1:] *= -1.0
        before, after = made(specification, features, labels), made(specification, other, labels)
        spread, declared, largest = moved(before, after, None, np.eye(before.facts.d_x)[[0, 0]])
        assert spread == pytest.approx(declared) and largest == pytest.approx(before.facts.change_x)


def test_sparse_regression_is_the_published_instance() -> None:
    specification = SparseRegression()
    facts = specification.facts()
    assert (facts.n, facts.d_x, facts.d_y, facts.lipschitz, facts.smoothness) == (10_000, 1000, 1, 2.0, 1.0)
    assert (facts.oscillation_x, facts.oscillation_y, facts.second_smoothness) == (4.0, 0.0, 0.0)
    game = specification.build()
    start = game.evaluate({"x": facts.uniform(2)[0]})["duality_gap"]
    assert start == pytest.approx(0.176, abs=0.008)  # four standard errors of ½ mean b²
    assert game.weights(game._minimum.x)[0, :3] == pytest.approx([0.49, -0.29, 0.19], abs=0.01)  # shrunk by clipping


def test_the_best_portfolio_holds_the_good_assets() -> None:
    game = Portfolio().build()
    weights = game.weights(game._minimum.x)[0]
    assert weights.sum() == pytest.approx(1) and (weights >= 0).all() and weights[:3].sum() > 0.98
    assert np.array_equal(game.weights(weights[None])[0], weights)
    indifferent = Portfolio(risk_aversion=0.0).build()
    greedy = indifferent.weights(indifferent._minimum.x)[0]
    assert greedy.max() == 1.0 and greedy.argmax() < 3


def test_seeds_decide_the_data_and_settings_survive_a_round_trip() -> None:
    x = np.random.default_rng(0).dirichlet(np.ones(10), 1)
    first, same, other = (SparseRegression(rows=200, dimension=5, seed=seed).build() for seed in (1, 1, 2))
    assert objective(first, x) == objective(same, x) != objective(other, x)
    for specification in SMALL:
        assert Specification.from_json(specification.to_json()) == specification
        assert specification.build().facts == specification.facts()


def test_tables_that_do_not_fit_into_memory_are_refused() -> None:
    with pytest.raises(UserError, match="at most 20,000,000"):
        Specification.from_json('{"kind": "problems.simplex_learning.portfolio", "rows": 100000, "dimension": 2000}')
