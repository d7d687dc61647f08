"""Quadratic games: closed-form and certified gaps against fine grids, derivatives, bounds over every row."""

import itertools

import numpy as np
import pytest

from dpviz import checkpoints
from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.problems.base import check_facts
from dpviz.problems.games import quadratic_games
from dpviz.problems.games.games import GameFacts, GradientSums, Pair, minimise_on_simplex, project_to_simplex
from dpviz.problems.games.matrix_games import MatrixGame, Payoffs
from dpviz.problems.games.quadratic_games import CurvedGame, CurvedGameProblem, QuadraticGame, quadratic_gap
from dpviz.specification import Specification
from tests.counting import counted

DATA = LatentGame(structure="hide_seek", rows=203, strategies_x=12, strategies_y=9, seed=3)
TINY = LatentGame(rows=41, strategies_x=2, strategies_y=2, seed=1)
# Both players' strategies on a segment, 2001 points each: a smooth maximum is met up to (1/4000)² × curvature.
GRID = np.column_stack([np.linspace(0, 1, 2001), np.linspace(1, 0, 2001)])


def pair(data: LatentGame, replicates: int = 5) -> Pair:
    generator = np.random.default_rng(0)
    return generator.dirichlet(np.ones(data.strategies_x), replicates), generator.dirichlet(
        np.ones(data.strategies_y), replicates
    )


def dense(records: tuple[Signs, Signs]) -> list[np.ndarray]:
    return [signs.columns(slice(None)) for signs in records]


def quadratic_value(x: np.ndarray, y: np.ndarray, data: LatentGame, weights: tuple[float, float]) -> np.ndarray:
    """F at x (N, d_x), y (N, d_y), written out over the rows."""
    u, v = dense(data.load())
    bilinear = ((x @ u.T) * (y @ v.T)).mean(axis=1)
    return weights[0] / 2 * (x * x).sum(axis=1) + bilinear - weights[1] / 2 * (y * y).sum(axis=1)


def curved_value(x: np.ndarray, y: np.ndarray, data: LatentGame, rows: slice = slice(None)) -> np.ndarray:
    (u, v), (p, q) = dense(data.load()), dense(data.fair_signs())
    per_row = (x @ p.T) ** 2 / 2 + (x @ u.T) * (y @ v.T) - (y @ q.T) ** 2 / 2
    return per_row[:, rows].mean(axis=1)


def grid_gap(value, x: np.ndarray, y: np.ndarray) -> np.ndarray:  # type: ignore[no-untyped-def]
    """The gap with both best answers searched on GRID; at most the true one."""
    best_y = [value(np.broadcast_to(point, GRID.shape), GRID).max() for point in x]
    best_x = [value(GRID, np.broadcast_to(point, GRID.shape)).min() for point in y]
    return np.array(best_y) - np.array(best_x)


def check_derivatives(gradients: Pair, value, x: np.ndarray, y: np.ndarray) -> None:  # type: ignore[no-untyped-def]
    step = 1e-5
    for r, j in itertools.product(range(len(x)), range(x.shape[1])):
        shift = step * np.eye(x.shape[1])[j]
        slope = (value(x[r : r + 1] + shift, y[r : r + 1]) - value(x[r : r + 1] - shift, y[r : r + 1])) / (2 * step)
        assert gradients[0][r, j] == pytest.approx(slope.item(), abs=1e-9)
    for r, k in itertools.product(range(len(y)), range(y.shape[1])):
        shift = step * np.eye(y.shape[1])[k]
        slope = (value(x[r : r + 1], y[r : r + 1] + shift) - value(x[r : r + 1], y[r : r + 1] - shift)) / (2 * step)
        assert gradients[1][r, k] == pytest.approx(slope.item(), abs=1e-9)


def check_ranges_and_smoothness(game, facts: GameFacts) -> None:  # type: ignore[no-untyped-def]
    """The stated constants hold between random points, vertices included."""
    generator = np.random.default_rng(4)
    points = [
        (generator.dirichlet(np.full(d, 0.1), 60), np.eye(d)[generator.integers(0, d, 60)])
        for d in (facts.d_x, facts.d_y)
    ]
    x, y = (np.concatenate(kinds)[generator.permutation(120)] for kinds in points)
    for g, largest in zip(game.gradients(x, y), (facts.range_x, facts.range_y), strict=True):
        assert np.ptp(g, axis=1).max() <= largest and np.abs(g).max() <= facts.lipschitz
    change = np.concatenate([np.diff(g, axis=0) for g in game.gradients(x, y)], axis=1)
    distance = np.abs(np.diff(x, axis=0)).sum(axis=1) + np.abs(np.diff(y, axis=0)).sum(axis=1)
    assert (np.abs(change).max(axis=1) <= facts.smoothness * distance + 1e-12).all()


@pytest.mark.parametrize("weights", [(1.0, 1.0), (4.0, 0.0), (0.0, 0.3), (0.05, 4.0), (1e-320, 1e-5)], ids=str)
def test_the_closed_form_gap_is_the_best_on_a_fine_grid(weights: tuple[float, float]) -> None:
    game = QuadraticGame(data=TINY, curvature_x=weights[0], curvature_y=weights[1]).build()
    x, y = pair(TINY, 20)
    expected = grid_gap(lambda x, y: quadratic_value(x, y, TINY, weights), x, y)
    found = game.evaluate({"x": x, "y": y})["duality_gap"]
    assert found == pytest.approx(expected, abs=1e-6) and (found >= expected - 1e-12).all()


@pytest.mark.parametrize("weights", [(1.0, 1.0), (4.0, 0.01), (0.2, 3.0)], ids=str)
def test_the_closed_form_gap_agrees_with_certified_minimisation(weights: tuple[float, float]) -> None:
    game, (x, y) = QuadraticGame(data=DATA, curvature_x=weights[0], curvature_y=weights[1]).build(), pair(DATA)
    u, v = dense(DATA.load())
    e, c = (y @ v.T) @ u / 203, (x @ u.T) @ v / 203

    def smallest(slopes: np.ndarray, weight: float) -> np.ndarray:
        def value_and_gradient(z: np.ndarray, which: np.ndarray) -> Pair:
            return (slopes[which] * z + weight / 2 * z * z).sum(axis=1), slopes[which] + weight * z

        start = np.full(slopes.shape, 1 / slopes.shape[1])
        return minimise_on_simplex(value_and_gradient, start, weight, tolerance=1e-10).value

    best_y = weights[0] / 2 * (x * x).sum(axis=1) - smallest(-c, weights[1])
    best_x = smallest(e, weights[0]) - weights[1] / 2 * (y * y).sum(axis=1)
    found = game.evaluate({"x": x, "y": y})
    assert found["duality_gap"] == pytest.approx(best_y - best_x, abs=1e-9)
    of_x, of_y = DATA.population()
    products = y @ (of_x @ of_y.T).T, x @ (of_x @ of_y.T)
    assert found["population_gap"] == pytest.approx(quadratic_gap(x, y, products, weights), abs=1e-12)
    assert list(found) == [metric.name for metric in game.metrics]


def test_without_curvature_it_is_the_matrix_game() -> None:
    flat, matrix = QuadraticGame(data=DATA, curvature_x=0, curvature_y=0).build(), MatrixGame(data=DATA).build()
    x, y = pair(DATA)
    for rows in (None, slice(10, 90)):
        for ours, theirs in zip(flat.gradients(x, y, rows), matrix.gradients(x, y, rows), strict=True):
            assert (ours == theirs).all()
    ours, theirs = (game.evaluate({"x": x, "y": y}) for game in (flat, matrix))  # type: ignore[assignment]
    assert all((ours[name] == theirs[name]).all() for name in theirs)


@pytest.mark.parametrize("weights", [(1.0, 1.0), (3.0, 0.0)], ids=str)
def test_gradients_of_the_quadratic_game_and_its_facts(weights: tuple[float, float]) -> None:
    specification = QuadraticGame(data=DATA, curvature_x=weights[0], curvature_y=weights[1])
    game, facts, (x, y) = specification.build(), specification.facts(), pair(DATA, 2)
    check_facts(game, facts)
    check_derivatives(game.gradients(x, y), lambda x, y: quadratic_value(x, y, DATA, weights), x, y)
    check_ranges_and_smoothness(game, facts)
    assert (facts.smoothness_x, facts.smoothness_y) == weights and facts.lipschitz == 1 + max(weights)
    assert facts.oscillation_x == facts.change_y == 2, "the norms cancel between neighbours"
    assert facts.payoff_bound == 0 and facts.range_x == 2 + weights[0]
    assert specification.public and Specification.from_json(specification.to_json()) == specification


@pytest.mark.parametrize("tolerance", [1e-4, 0.05])
def test_the_certified_gap_is_the_best_on_a_fine_grid(tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quadratic_games, "_GAP_TOLERANCE", tolerance)
    game, (x, y) = CurvedGame(data=TINY).build(), pair(TINY, 20)
    expected = grid_gap(lambda x, y: curved_value(x, y, TINY), x, y)
    found = game.evaluate({"x": x, "y": y})
    assert (found["duality_gap"] >= expected - 1e-12).all(), "the upper end of its interval"
    assert (found["duality_gap"] <= expected + 2 * tolerance + 1e-6).all(), "one certificate for each player"
    public = QuadraticGame(data=TINY).build().evaluate({"x": x, "y": y})
    assert (found["population_gap"] == public["population_gap"]).all()


def test_identical_replicates_have_one_minimum_that_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start of every method all play the same; elsewhere, parts are as many as replicates at most."""
    started: list[int] = []

    def projected(points: np.ndarray) -> np.ndarray:
        started.append(len(points))
        return project_to_simplex(points)

    game, (x, y) = CurvedGame(data=DATA).build(), pair(DATA, 1)
    alone, apart = game.evaluate({"x": x, "y": y}), pair(DATA, 4)
    expected = game.evaluate(dict(zip("xy", apart, strict=True)))
    monkeypatch.setattr(quadratic_games, "project_to_simplex", projected)
    found = game.evaluate({"x": np.repeat(x, 6, axis=0), "y": np.repeat(y, 6, axis=0)})
    assert set(started) == {1} and all((found[name] == alone[name]).all() and len(found[name]) == 6 for name in found)
    monkeypatch.setattr(checkpoints, "LONGEST", 1e-12)
    paused, count = counted(lambda: game.evaluate(dict(zip("xy", apart, strict=True))))
    assert count > 10 and max(started) <= 4
    assert paused["duality_gap"] == pytest.approx(expected["duality_gap"], rel=1e-9)


def test_a_bound_on_eigenvalues_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 30))
    matrix = rows.T @ rows / 50
    whole, largest = quadratic_games.eigenvalue_bound(matrix), float(np.linalg.eigvalsh(matrix)[-1])
    assert largest <= whole <= 30**0.125 * largest
    assert counted(lambda: quadratic_games.eigenvalue_bound(matrix))[1] == 1, "short as it is"
    monkeypatch.setattr(checkpoints, "LONGEST", 1e-12)
    again, count = counted(lambda: quadratic_games.eigenvalue_bound(matrix))
    assert count == 59 and again == pytest.approx(whole, rel=1e-12)


def test_with_many_rows_private_curvature_is_the_squared_norm() -> None:
    data = DATA.replaced(rows=50_000)
    x, y = pair(data)
    found, public = (kind(data=data).build().evaluate({"x": x, "y": y}) for kind in (CurvedGame, QuadraticGame))
    # Second moments are off by at most 5/√50000 = 0.022 per entry, and each of four terms halves that.
    assert found["duality_gap"] == pytest.approx(public["duality_gap"], abs=4 * 0.5 * 0.0224 + 2e-4)


@pytest.mark.parametrize("rows", [None, slice(0, 3), slice(60, 190)], ids=str)
def test_gradients_of_the_curved_game(rows: slice | None) -> None:
    game, (x, y) = CurvedGame(data=DATA).build(), pair(DATA, 2)
    part = slice(None) if rows is None else rows
    check_derivatives(game.gradients(x, y, rows), lambda x, y: curved_value(x, y, DATA, part), x, y)


def test_facts_of_the_curved_game() -> None:
    specification = CurvedGame(data=DATA)
    facts = specification.facts()
    game = specification.build()
    check_facts(game, facts)
    check_ranges_and_smoothness(game, facts)
    assert facts.lipschitz == 2 and facts.oscillation_x == facts.oscillation_y == facts.change_x == 4
    assert facts.smoothness_x == facts.smoothness_y == facts.smoothness == 1 and facts.second_smoothness == 0
    assert specification.public and Specification.from_json(specification.to_json()) == specification


@pytest.mark.slow
def test_no_row_moves_the_scores_of_the_curved_game_further_than_stated_and_some_moves_them_that_far() -> None:
    facts = GameFacts(n=1, d=5, d_x=3, d_y=2, oscillation_x=4.0, oscillation_y=4.0)
    x, y = np.eye(3)[:1], np.eye(2)[:1]
    found = []
    for signs in itertools.product((1, -1), repeat=10):
        u, v, p, q = (Signs.pack(part[:, None] < 0) for part in np.split(np.array(signs), [3, 5, 8]))
        payoffs = Payoffs.of((u, v), (np.ones((3, 1)), np.ones((2, 1))))
        moments = (p.mean_products(p), q.mean_products(q))
        scores = GradientSums(CurvedGameProblem(facts, payoffs, (p, q), moments), 1)
        scores.add([(1.0, x, y)])
        found.append([scores.utilities_x(1.0).value[0], np.append(scores.utilities_y(1.0).value[0], np.nan)])
    assert scores.utilities_x(1.0).sensitivity == scores.utilities_y(1.0).sensitivity == 8
    values = np.unique(np.array(found), axis=0, equal_nan=True)
    ranges = [np.nanmax(values - one, axis=2) - np.nanmin(values - one, axis=2) for one in values]
    assert np.max(ranges, axis=(0, 1))[0] == 8, "attained, and never exceeded"
    assert np.max(ranges, axis=(0, 1))[1] <= 8


def test_a_curved_game_that_takes_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="choose fewer strategies or rows"):
        CurvedGame(data=LatentGame(strategies_x=3500))
    with pytest.raises(ValueError, match="choose fewer strategies or rows"):
        CurvedGame(data=LatentGame(rows=100_000, strategies_x=3000))
