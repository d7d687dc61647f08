"""Matrix games: gradients, sensitivity over every neighbour, exact gaps and linear programs."""

import itertools
import math
from collections.abc import Mapping

import numpy as np
import pytest

from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.errors import UserError
from dpviz.problems.base import check_facts
from dpviz.problems.games import matrix_games
from dpviz.problems.games.games import Game, GameFacts, GradientSums, Pair
from dpviz.problems.games.matrix_games import MatrixGame, MatrixGameProblem, Payoffs, bilinear_gap, equilibrium
from dpviz.specification import Specification
from tests.pairs import all_pairs

SMALL = LatentGame(structure="hide_seek", rows=203, strategies_x=14, strategies_y=11, seed=3)


def built(data: LatentGame) -> tuple[MatrixGameProblem, np.ndarray, np.ndarray]:
    """The game with its records as dense matrices."""
    u, v = data.load()
    return MatrixGame(data=data).build(), u.columns(slice(None)), v.columns(slice(None))


def strategies(generator: np.random.Generator, kind: str, d: int, replicates: int = 4) -> np.ndarray:
    """(R, d): a vertex, a mixture of three draws, or a strategy that uses all vertices."""
    if kind == "dense":
        return generator.dirichlet(np.ones(d), replicates)
    draws = generator.integers(0, d, (replicates, 1 if kind == "vertex" else 3))
    return np.eye(d)[draws].mean(axis=1)


class ExplicitGame(Game):
    """xᵀAy for a given matrix."""

    def __init__(self, payoffs: np.ndarray) -> None:
        d_x, d_y = payoffs.shape
        self.facts = GameFacts(n=1, d=d_x + d_y, d_x=d_x, d_y=d_y)
        self._payoffs = payoffs

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        return y @ self._payoffs.T, x @ self._payoffs

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return {"duality_gap": bilinear_gap(self.gradients(output["x"], output["y"]))}


def test_facts_need_no_data_and_are_those_of_the_built_game() -> None:
    game = MatrixGame(data=SMALL)
    facts = game.facts()
    check_facts(game.build(), facts)
    assert (facts.n, facts.d, facts.d_x, facts.d_y) == (203, 25, 14, 11)
    assert facts.lipschitz == facts.smoothness == facts.payoff_bound == 1
    assert facts.oscillation_x == facts.oscillation_y == facts.change_x == facts.change_y == 2
    assert facts.range_x == facts.range_y == 2
    assert facts.smoothness_x == facts.smoothness_y == facts.second_smoothness == 0
    assert game.public and Specification.from_json(game.to_json()) == game


@all_pairs
@pytest.mark.parametrize("rows", [None, slice(0, 5), slice(61, 190)], ids=str)
@pytest.mark.parametrize("of_y", ["vertex", "few", "dense"])
@pytest.mark.parametrize("of_x", ["vertex", "few", "dense"])
@pytest.mark.parametrize("computed", ["before", "on demand", "in small pieces"])
def test_gradients_are_means_over_rows_however_they_are_computed(
    computed: str, of_x: str, of_y: str, rows: slice | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if computed != "before":
        monkeypatch.setattr(matrix_games, "MAX_PRODUCTS", 0)
    if computed == "in small pieces":  # the cache drops columns, and many vertices need a pass over the table
        monkeypatch.setattr(matrix_games, "_FEW", 4)
        monkeypatch.setattr(matrix_games, "_CACHE_BYTES", 0)
    generator = np.random.default_rng(0)
    game, u, v = built(SMALL)
    part = slice(None) if rows is None else rows
    u, v = u[part], v[part]
    for _ in range(4):
        x, y = strategies(generator, of_x, 14), strategies(generator, of_y, 11)
        g_x, g_y = game.gradients(x, y, rows)
        assert g_x == pytest.approx((y @ v.T) @ u / len(u), abs=1e-13)
        assert g_y == pytest.approx((x @ u.T) @ v / len(v), abs=1e-13)


def test_gradients_are_derivatives_of_the_mean_payoff() -> None:
    game, u, v = built(SMALL)
    generator, step = np.random.default_rng(1), 1e-5
    x, y = strategies(generator, "dense", 14, 1), strategies(generator, "dense", 11, 1)

    def payoff(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return ((x @ u.T) * (y @ v.T)).mean(axis=1)

    for gradient, point, other, of_x in ((game.gradients(x, y)[0], x, y, True), (game.gradients(x, y)[1], y, x, False)):
        ups, downs = point + step * np.eye(point.shape[1]), point - step * np.eye(point.shape[1])
        ends = [payoff(moved, other) if of_x else payoff(other, moved) for moved in (ups, downs)]
        assert gradient[0] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-9)


def every_table() -> dict[tuple[int, int], tuple[Signs, Signs]]:
    """All 256 tables of two rows (u₁, u₂, v₁, v₂) of signs, by the numbers of their rows."""
    records = [np.array(signs) < 0 for signs in itertools.product((1, -1), repeat=4)]
    tables = {}
    for first, second in itertools.product(range(16), repeat=2):
        negative = np.stack([records[first], records[second]], axis=1)
        tables[first, second] = Signs.pack(negative[:2]), Signs.pack(negative[2:])
    return tables


def neighbours() -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """All pairs of tables that differ in one row."""
    keys = list(itertools.product(range(16), repeat=2))
    return [(k, o) for k, o in itertools.product(keys, repeat=2) if (k[0] == o[0]) != (k[1] == o[1])]


@pytest.mark.parametrize("batching", ["full_batch", "single_pass"])
def test_no_neighbour_moves_the_scores_further_than_stated_and_some_moves_them_that_far(batching: str) -> None:
    facts = MatrixGame(data=LatentGame(strategies_x=2, strategies_y=2)).facts()
    facts = GameFacts(**{**facts.__dict__, "n": 2})
    vertex, even = np.eye(2)[:1], np.full((1, 2), 0.5)
    # In a single pass, a row counts in its own step only: the first row weighs 0.75, the second 0.25.
    rounds = [(0.75, vertex, vertex), (0.25, vertex, vertex if batching == "full_batch" else even)]
    found = {}
    for key, records in every_table().items():
        scores = GradientSums(MatrixGameProblem(facts, Payoffs.of(records, (even.T, even.T))), 1)
        for t, step in enumerate(rounds):
            scores.add([step], None if batching == "full_batch" else slice(t, t + 1))
        x, y = scores.utilities_x(scores.weight), scores.utilities_y(scores.weight)
        found[key] = np.stack([x.value[0], y.value[0]])
    assert scores.weight == (0.5 if batching == "full_batch" else 0.75)
    ranges = np.array([np.ptp(found[a] - found[b], axis=1) for a, b in neighbours()])
    assert x.norm == y.norm == "range" and x.sensitivity == y.sensitivity == 4 * scores.weight
    assert ranges.max(axis=0) == pytest.approx(4 * scores.weight, rel=1e-14), "attained, and never exceeded"


def test_no_neighbour_moves_the_payoff_matrix_further_than_stated() -> None:
    facts = GameFacts(n=2, d=4, d_x=2, d_y=2, payoff_bound=1.0)
    factor = np.ones((2, 1))
    queries = {
        key: MatrixGameProblem(facts, Payoffs.of(records, (factor, factor))).payoffs(3)
        for key, records in every_table().items()
    }
    moved = [np.linalg.norm(queries[a].value[0] - queries[b].value[0]) for a, b in neighbours()]
    query = queries[0, 0]
    assert query.value.shape == (3, 2, 2) and query.norm == "l2" and query.sensitivity == 2 * 2 / 2
    assert max(moved) == pytest.approx(query.sensitivity, rel=1e-14)


def test_payoffs_are_the_mean_matrix_once_for_all_replicates(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (matrix_games.MAX_PRODUCTS, 0):
        monkeypatch.setattr(matrix_games, "MAX_PRODUCTS", limit)
        game, u, v = built(SMALL)
        query = game.payoffs(5)
        assert query.sensitivity == pytest.approx(2 * math.sqrt(14 * 11) / 203)
        assert (query.value == u.T @ v / 203).all() and query.value.shape == (5, 14, 11)
        assert query.value.strides[0] == 0 and not query.value.flags.writeable


@pytest.mark.parametrize("structure", ["needle", "hide_seek"])
def test_the_gap_is_what_both_players_best_answers_gain(structure: str) -> None:
    data = SMALL.replaced(structure=structure)
    game, u, v = built(data)
    of_x, of_y = data.population()
    generator = np.random.default_rng(2)
    for kind in ("vertex", "few", "dense"):
        x, y = strategies(generator, kind, 14, 50), strategies(generator, kind, 11, 50)
        found = game.evaluate({"x": x, "y": y})
        assert list(found) == [metric.name for metric in game.metrics] == ["duality_gap", "population_gap"]
        for name, payoffs in (("duality_gap", u.T @ v / 203), ("population_gap", of_x @ of_y.T)):
            expected = (x @ payoffs).max(axis=1) - (payoffs @ y.T).min(axis=0)
            assert found[name] == pytest.approx(expected, abs=1e-13) and found[name].min() >= -1e-12


@pytest.mark.slow
def test_the_gap_of_a_large_game_reads_few_columns_and_agrees_with_the_dense_one() -> None:
    """Too large for a matrix: averages of vertices that were fetched before."""
    game, u, v = built(LatentGame(rows=130, strategies_x=3300, strategies_y=3100))
    generator = np.random.default_rng(3)
    total_x, total_y = np.zeros((3, 3300)), np.zeros((3, 3100))
    for t in range(1, 9):
        x, y = strategies(generator, "vertex", 3300, 3), strategies(generator, "vertex", 3100, 3)
        game.gradients(x, y)
        total_x, total_y = total_x + x, total_y + y
        found = game.evaluate({"x": total_x / t, "y": total_y / t})["duality_gap"]
        against_x, against_y = (total_x @ u.T) @ v / (130 * t), (total_y @ v.T) @ u / (130 * t)
        assert found == pytest.approx(against_x.max(axis=1) - against_y.min(axis=1), abs=1e-12)
    with pytest.raises(UserError, match="Choose fewer strategies"):
        game.payoffs(1)
    with pytest.raises(UserError, match="up to 500"):
        game.value()


def test_the_linear_program_finds_a_mixed_equilibrium() -> None:
    payoffs = np.array([[0.5, -1.0, 0.0], [-0.5, 1.0, 0.25]])
    found = equilibrium(payoffs)
    assert found.value == pytest.approx(0.1, abs=1e-9)
    gap = ExplicitGame(payoffs).evaluate({"x": found.x[None], "y": found.y[None]})["duality_gap"]
    assert abs(gap) <= 1e-8


@pytest.mark.parametrize(("structure", "value"), [("needle", -0.2), ("hide_seek", 0.03)])
def test_the_equilibrium_on_data_is_near_that_of_the_population(structure: str, value: float) -> None:
    game = MatrixGame(data=LatentGame(structure=structure, rows=5000, strategies_x=60, strategies_y=50)).build()  # type: ignore[arg-type]
    found = game.equilibrium()
    assert found.x.sum() == pytest.approx(1) and found.y.sum() == pytest.approx(1)
    gaps = game.evaluate({"x": found.x[None], "y": found.y[None]})
    assert -1e-12 <= gaps["duality_gap"].item() <= 1e-8
    # The value moves by no more than the largest of 3000 deviations; so does each player's best answer.
    deviation = 5 / math.sqrt(5000)
    assert game.value() == found.value == pytest.approx(value, abs=deviation)
    assert gaps["population_gap"].item() <= 2 * deviation


@pytest.mark.parametrize(
    ("structure", "d", "expected"),
    [
        ("needle", 10, 1.15),
        ("needle", 300, 1.35),
        ("needle", 1000, 1.36),
        ("hide_seek", 30, 0.249),
        ("hide_seek", 300, 0.262),
    ],
)
def test_gap_of_uniform_play(structure: str, d: int, expected: float) -> None:
    data = LatentGame(structure=structure, strategies_x=d, strategies_y=d)  # type: ignore[arg-type]
    game = MatrixGame(data=data).build()
    x, y = game.facts.uniform(2)
    assert game.evaluate({"x": x, "y": y})["duality_gap"] == pytest.approx(expected, abs=0.025)


def test_multiplicative_weights_without_noise_reach_the_known_gap() -> None:
    game = ExplicitGame(np.array([[0.5, -1.0, 0.0], [-0.5, 1.0, 0.25]]))
    scores, (x, y) = GradientSums(game, 1), game.facts.uniform(1)
    total_x, total_y = np.zeros_like(x), np.zeros_like(y)
    for _ in range(200):
        total_x, total_y = total_x + x, total_y + y
        scores.add([(0.1, x, y)])
        x, y = (np.exp(query.value) for query in (scores.utilities_x(scores.weight), scores.utilities_y(scores.weight)))
        x, y = x / x.sum(), y / y.sum()
    found = game.evaluate({"x": total_x / 200, "y": total_y / 200})
    assert total_x[0] / 200 == pytest.approx([0.5505092, 0.4494908], abs=1e-6)
    assert found["duality_gap"].item() == pytest.approx(0.0596937, abs=1e-6)
