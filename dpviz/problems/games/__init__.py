"""Saddle points on products of simplices: matrix games, groups, marginals."""

from dpviz.problems.games.games import (
    DEAR_GAP,
    DUALITY_GAP,
    Game,
    GameFacts,
    GameSpecification,
    GradientSums,
    Pair,
    Player,
)
