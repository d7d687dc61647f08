"""Names of vertices are those of the data's declarations, and no gap exceeds what the facts say it can be."""

import numpy as np
import pytest

from dpviz.datasets.categories import CategoricalGenerator
from dpviz.datasets.groups import GroupedBundled, GroupedLosses, GroupedSigns
from dpviz.datasets.synthetic import LatentGame
from dpviz.problems.games.games import Game, GameFacts, GameSpecification
from dpviz.problems.games.group_loss import GroupLoss, GroupLossGame, LossMatrix
from dpviz.problems.games.marginals import MarginalGame, MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression

DATA = LatentGame(rows=200, strategies_x=5, strategies_y=4)
GAMES = (
    MatrixGame(data=DATA),
    QuadraticGame(data=DATA, curvature_x=2.0, curvature_y=0.5),
    CurvedGame(data=DATA),
    GroupLoss(data=GroupedSigns(rows=300, dimension=4)),
    GroupLoss(data=GroupedSigns(rows=300, dimension=4), loss="logistic", radius=3.0),
    LossMatrix(data=GroupedLosses(rows=300, dimension=4)),
    MarginalQueries(data=CategoricalGenerator(rows=200)),
    SparseRegression(rows=200, dimension=5, radius=2.0),
    Portfolio(rows=200, dimension=5, risk_aversion=3.0),
    Portfolio(rows=200, dimension=5, risk_aversion=0.5),
    PolytopeRegression(rows=200),
)


def test_a_model_has_a_vertex_for_every_feature_and_sign() -> None:
    problem = GroupLoss(data=GroupedBundled())
    names, game = problem.data.facts().names, problem.build()
    assert isinstance(game, GroupLossGame)
    models = game.weights(np.eye(game.facts.d_x))
    for index, model in enumerate(models):
        (feature,) = np.flatnonzero(model)
        assert problem.vertex("x", index) == f"{'+' if model[feature] > 0 else '-'}{names[feature]}"
    assert [problem.vertex("y", g) for g in range(4)] == ["excellent", "good", "fair", "poor"]


def test_histograms_are_named_by_categories_and_queries_by_cells() -> None:
    """The second player gains where the histogram has too few or too many rows in a cell: as the name says."""
    problem = MarginalQueries()
    game = problem.build()
    assert isinstance(game, MarginalGame)
    table = problem.data.facts().decode(np.array([0, 77, 479]))
    for index, (_, row) in zip((0, 77, 479), table.iterrows(), strict=True):
        assert problem.vertex("x", index) == ", ".join(f"{name}={category}" for name, category in row.items())
    x, y = game.facts.uniform(1)
    _, gains = game.gradients(x, y)
    excess = (game.answers(x)[0] - game.true_answers()) > 0
    for index in (0, 5, 126, 127, 200, 253):
        cell, many = index % 127, index >= 127
        assert problem.vertex("y", index) == f"too {'many' if many else 'few'}: {game.marginals.cells[cell]}"
        assert (gains[0, index] > 0) == (excess[cell] == many)
    assert [game.marginals.cell(query) for query in range(127)] == list(game.marginals.cells)


def test_other_games_number_or_describe_their_vertices() -> None:
    assert (
        LossMatrix().vertex("x", 2) == "strategy 3"
        and LossMatrix().vertex("y", 0) == LossMatrix().data.facts().groups[0]
    )
    assert SparseRegression(dimension=10).vertex("x", 12) == "-feature 3" and Portfolio().vertex("x", 0) == "asset 1"
    assert PolytopeRegression(shape="own", vertices=((0.5, 0.0), (-1.0, 0.25))).vertex("x", 1) == "(-1, 0.25)"
    assert (
        PolytopeRegression(dimension=10).vertex("x", 3) == "vertex 4"
        and MatrixGame().vertex("y", 999) == "strategy 1,000"
    )


@pytest.mark.parametrize("problem", GAMES, ids=lambda problem: problem.title)
def test_no_gap_exceeds_the_largest(problem: GameSpecification) -> None:
    """At vertices and at mixtures of few."""
    facts, game = problem.facts(), problem.build()
    assert isinstance(game, Game) and isinstance(facts, GameFacts)
    generator = np.random.default_rng(0)
    x = np.concatenate([np.eye(facts.d_x)[:40], generator.dirichlet(np.full(facts.d_x, 0.2), 40)])
    y = np.concatenate([np.eye(facts.d_y)[:40], generator.dirichlet(np.full(facts.d_y, 0.2), 40)])
    gaps = game.evaluate({"x": np.repeat(x, len(y), axis=0), "y": np.tile(y, (len(x), 1))})["duality_gap"]
    assert 0 < gaps.max() <= facts.largest_gap < np.inf
