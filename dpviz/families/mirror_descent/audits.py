"""Tiny games on simplices for audits: two data sets, D and D', which differ in one row, for every method.

Each problem has a worst row, which moves the gradients as far as a row can, and an ordinary row, which moves them less.

game : a matrix game with 2 × 2 strategies. The payoffs of the worst row change their sign for both strategies of x,
    those of the ordinary row for one of them. On D the payoffs of all rows cancel.
regression : the label of the worst row changes from 1 to -1. The ordinary row is 0 on D', as all others are.
survey : a table of two questions with the answers no and yes, hence four cells. The worst row moves from one cell to
    the opposite one, the ordinary row to an adjacent one; half of the other rows are in each of the two opposite cells.
    Methods that measure the tables of both questions are not audited with the ordinary row, as it shows no less.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from dpviz.audits.audit import KNOWN, WORST, Case, Neighbours, Row
from dpviz.datasets.categories import CategoricalUpload
from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.families.mirror_descent.methods import algorithms, baselines, bias_reduced, noisy_gradients
from dpviz.families.mirror_descent.methods.baselines import GaussianMarginals, MultiplicativeWeights, NoisyPayoffs
from dpviz.families.mirror_descent.methods.noisy_gradients import EuclideanGradient, GaussianMirrorDescent
from dpviz.privacy.budgets import Budget, GaussianDP, PureDP
from dpviz.problems.games.games import Ball
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame, MatrixGameProblem, Payoffs
from dpviz.problems.games.simplex_learning import LearningGame, SparseRegression

ROWS = 20
CODES = "c" * 32  # identity of the survey's table, in place of the checksum of an uploaded file
LEVELS = ("no", "yes")
SURVEY = MarginalQueries(data=CategoricalUpload(identity=CODES, n=ROWS, columns=(("a", LEVELS), ("b", LEVELS))))
# Differences between D and D', in words.
GAME = "One row's payoffs change their sign, whatever the strategies; on D the payoffs of all rows cancel."
REGRESSION = "One row's label is 1 on D and -1 on D'; all others are 0."
MOVED = "One row of the survey moves from one cell to the opposite one."


def game(first: float = -1.0) -> Neighbours:
    """Return the game on D and on D'. The first row's signs for the strategies of x are (1, -1) on D and (`first`, 1)
    on D'."""
    facts = replace(MatrixGame(data=LatentGame(strategies_x=2, strategies_y=2)).facts(), n=ROWS)

    def build(first_row: Row) -> MatrixGameProblem:
        signs_x = np.tile([1.0, -1.0], (ROWS, 1))  # a row's payoffs are the products of its signs for x and for y
        signs_y = signs_x.copy()
        signs_y[1::2] *= -1  # every second row has the opposite payoffs, so that all cancel on D
        signs_x[0] = first_row
        population = np.zeros((2, 1)), np.zeros((2, 1))  # means of a generator, for diagnostics that no audit computes
        records = (Signs.pack(signs_x.T < 0), Signs.pack(signs_y.T < 0))  # a bit for each sign, strategies first
        return MatrixGameProblem(facts, Payoffs.of(records, population))

    return Neighbours(build((1.0, -1.0)), build((first, 1.0)))


def regression(other: Row = (1.0, 1.0, -1.0)) -> Neighbours:
    """Return the regression on D and on D'. The first row has two features and a label: (1, 1, 1) on D and `other` on
    D'; all other rows are 0."""
    # The fewest features are 3; two weights are enough here. Their l1 ball has four vertices, the second player one.
    facts = replace(SparseRegression(dimension=3).facts(), n=ROWS, d=5, d_x=4)

    def build(first_row: Row) -> LearningGame:
        features, labels = np.zeros((ROWS, 2)), np.zeros(ROWS)
        features[0], labels[0] = first_row[:2], first_row[2]
        return LearningGame(facts, features, labels, curvature=1.0, constant=0.0, body=Ball(1.0))

    return Neighbours(build((1.0, 1.0, 1.0)), build(other))


def survey(cell: Row = (1, 1)) -> Neighbours:
    """Return the survey on D and on D'. The first row's two answers, 0 for no and 1 for yes, are (0, 0) on D and `cell`
    on D'; all other rows are (0, 0) and (1, 1) in turn."""
    table = np.resize(np.array([[0, 0], [1, 1]], dtype=np.int16), (ROWS, 2))
    return Neighbours.of(SURVEY, CODES, table, one=(0, 0), other=cell)


SELECTION: tuple[Budget, ...] = (GaussianDP(mu=1.0), PureDP(epsilon=6.0))
GAUSSIAN: tuple[Budget, ...] = (GaussianDP(mu=1.0), GaussianDP(mu=3.0))
# Every method with few rounds, as an audit runs it many times, and the budgets at which it is audited.
METHODS: dict[str, tuple[AnyAlgorithm, tuple[Budget, ...]]] = {
    "vertex_sampling": (algorithms.VertexSampling(iterations=3), SELECTION),
    "certified_sampling": (algorithms.CertifiedSampling(iterations=3), SELECTION),
    "bias_reduced": (bias_reduced.BiasReduced(stop_level=4), SELECTION),
    "fictitious_play": (baselines.FictitiousPlay(responses=3), SELECTION),
    "two_draws": (baselines.TwoDraws(), SELECTION),
    "euclidean_gradient": (EuclideanGradient(gradient_rounds=3), GAUSSIAN),
    "gaussian_mirror_descent": (GaussianMirrorDescent(gradient_rounds=3), GAUSSIAN),
    "noisy_payoffs": (NoisyPayoffs(matrix_rounds=20), GAUSSIAN),
    "anytime_sampling": (noisy_gradients.AnytimeSampling(iterations=3), SELECTION),
    "frank_wolfe": (noisy_gradients.FrankWolfe(chosen_vertices=3), SELECTION),
    "synthetic_data": (algorithms.SyntheticData(iterations=3), SELECTION),
    "multiplicative_weights": (MultiplicativeWeights(measured_queries=2), SELECTION),
    "gaussian_marginals": (GaussianMarginals(fitting_rounds=20), GAUSSIAN),
}
# The methods that are not audited in the game: how D and D' differ, and the function that builds both.
OTHER_PROBLEMS: dict[str, tuple[str, Callable[[], Neighbours]]] = {
    "anytime_sampling": (REGRESSION, regression),
    "frank_wolfe": (REGRESSION, regression),
    "synthetic_data": (MOVED, survey),
    "multiplicative_weights": (MOVED, survey),
    "gaussian_marginals": (MOVED, survey),
}
# These release one query, and the row moves it as far as its sensitivity allows: no other row can be worse. For all
# other methods the row is only the worst that is known.
ATTAINED = ("noisy_payoffs", "gaussian_marginals")
WITH_WORST_ROW: tuple[Case, ...] = tuple(
    Case(
        name,
        method.title,
        method,
        canary,
        budgets,
        data,
        runs=2000 if name == "bias_reduced" else 10_000,  # its replicates take gradients one after the other: slow
        canary_name=WORST if name in ATTAINED else KNOWN,
    )
    for name, (method, budgets) in METHODS.items()
    # One round of this loop: methods that are not in `OTHER_PROBLEMS` play the game.
    for canary, data in (OTHER_PROBLEMS.get(name, (GAME, game)),)
)
ZEROS = (0.0, 0.0, 0.0)
# The ordinary row of each problem, by the description of its worst row.
ORDINARY = {
    GAME: ("One row's payoffs change their sign for one of two strategies.", partial(game, 1.0)),
    REGRESSION: ("One row is 1 on D, with the label 1, and 0 on D', as all others are.", partial(regression, ZEROS)),
    MOVED: ("One row of the survey moves to the next cell: one of its two answers changes.", partial(survey, (0, 1))),
}
MEASURE_TABLES = ("multiplicative_weights", "gaussian_marginals")  # to them the ordinary row shows no less
CASES: tuple[Case, ...] = (
    *WITH_WORST_ROW,
    *(case.ordinary(*ORDINARY[case.canary]) for case in WITH_WORST_ROW if case.name not in MEASURE_TABLES),
)
