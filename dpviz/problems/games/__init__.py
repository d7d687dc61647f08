"""Saddle points on products of simplices: matrix games, groups, marginals."""

from dpviz.problems.games.games import (
    DEAR_GAP,
    DUALITY_GAP,
    SECONDS_PER_PRODUCT,
    Game,
    GameCost,
    GameFacts,
    GameSpecification,
    Pair,
    Player,
    Scores,
    Work,
    per_product,
)
