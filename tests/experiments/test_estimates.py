"""Estimates of memory, from declared sizes: how they grow, and what they keep from being run."""

import tracemalloc
from typing import Any

from dpviz.datasets import UniformLogistic, UploadedTable
from dpviz.datasets.synthetic import LatentGame, ProcessDraws, Saddle
from dpviz.execution.runner import Runner
from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets as accelerated
from dpviz.families.mirror_descent import presets as games
from dpviz.families.second_order import TrustRegion
from dpviz.privacy.budgets import ApproximateDP, PureDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.simplex_learning import SparseRegression
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.nonconvex import RobustComponent
from dpviz.problems.tuning.model_tuning import LengthScales

TABLE = UniformLogistic(rows=100_000, dimension=20)
SPARSE = SparseRegression(rows=100_000, dimension=200)


def model(methods: tuple[str, ...] = ("DP-NAG",), repeats: int = 100, data: Any = TABLE, **settings: Any) -> Experiment:
    arms = accelerated.arms(methods, **{"iterations": 1000, **settings})
    return Experiment(problem=LogisticRegression(data=data), arms=arms, budget=PureDP(epsilon=2.0), replicates=repeats)


def game(problem: ProblemSpecification, method: str, repeats: int = 100, **settings: Any) -> Experiment:
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    return Experiment(problem=problem, arms=games.arms((method,), **settings), budget=budget, replicates=repeats)


def size(of: Experiment) -> float:
    return of.estimated_bytes(of.plans())


def latent(rows: int, strategies: int) -> MatrixGame:
    return MatrixGame(data=LatentGame(rows=rows, strategies_x=strategies, strategies_y=strategies))


MATRIX = latent(5000, 3000)


def test_memory_grows_with_the_table_the_batches_and_the_repeats() -> None:
    assert 1.9 < size(model(data=TABLE.replaced(rows=1_000_000))) / size(model(data=TABLE.replaced(rows=500_000))) < 2.1
    drawn = size(model(batch_fraction=0.01)) - size(model())
    assert drawn == 100 * 8 * 1000, "a row number for each row of each repeat's batch"
    marked = size(model(batch_fraction=0.5)) - size(model())
    assert marked == (100 + 8) * 100_000, "or a mark on every row, and all row numbers of one repeat"
    names = tuple(map(str, range(20)))
    file = UploadedTable(identity="b" * 32, n=10**7, bounds=((0.0, 1.0),) * 20, names=names)
    assert 1.83e9 < size(model(data=file, repeats=1)) < 2.5e9, "of a file in blocks the rows are in memory once"


def test_each_replicate_takes_the_memory_of_three_hessians() -> None:
    problem = RobustComponent(data=Saddle(rows=1000, dimension=310))  # at its starting point the gradient is 0
    method = TrustRegion(iterations=1, gradient_target=0.3, curvature_target=0.02)
    peaks, estimates = [], []
    for replicates in (1, 4, 8):  # the first run imports and caches, too
        experiment = Experiment(problem, method, rho=50, replicates=replicates, seed=1)
        estimates.append(size(experiment))
        tracemalloc.start()
        experiment.run()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    hessian = 8 * 310**2
    assert 2.9 * hessian < (peaks[2] - peaks[1]) / 4 < 3.1 * hessian < (estimates[2] - estimates[1]) / 4
    assert peaks[2] < estimates[2]


def test_what_would_fill_the_memory_of_the_server_is_refused() -> None:
    """Each draw of a mixture has utilities of its own; and every repeat has a noisy matrix of its own."""
    stated = {"theorem": "anytime_first_order", "iterations": 1024}
    draws = game(SPARSE, "Anytime", 200, **stated).replaced(budget=ApproximateDP(epsilon=50.0, delta=1e-6))
    plan = draws.plans()["Anytime"]
    assert 8 * 200 * plan.resolved["draws"] * plan.facts.d > 4e9, "that array alone"
    matrices = game(latent(2000, 3000), "Noisy matrix", 200)
    for refused in (draws, matrices):
        assert size(refused) > Runner().max_bytes
    assert size(matrices) > 8 * 200 * 3000**2


def test_a_training_that_is_declared_too_quick_is_estimated_by_its_sizes() -> None:
    sizes = LengthScales(training_rows=1000, data=ProcessDraws(rows=3000))
    assert sizes.replaced(declared_seconds=1e-5).facts() == sizes.facts()
    assert sizes.replaced(declared_seconds=9.0).facts().training_seconds == 9.0
