"""What problems declare: whom they protect, and the memory that they need, from sizes alone."""

import math

import numpy as np
import pytest

from dpviz import families
from dpviz.datasets import UniformLogistic
from dpviz.datasets.synthetic import LatentGame
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.matrix_games import MatrixGame, MeanProducts
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.tuning.model_tuning import HuberRegression, KernelMachine, LengthScales, NormalLocation
from dpviz.specification import registered

families.load_all()
UNITS: dict[type, str] = {
    LengthScales: "one user of the validation data replaced",
    KernelMachine: "one user of the validation data replaced",
    NormalLocation: "one user replaced",
    HuberRegression: "one user replaced",
}
PROBLEMS = [cls for cls in registered(ProblemSpecification) if cls.__module__.startswith("dpviz.")]


@pytest.mark.parametrize("kind", PROBLEMS, ids=lambda kind: kind.kind)
def test_every_problem_says_whom_it_protects_and_what_memory_it_needs(
    kind: type[ProblemSpecification], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "build", None)  # from declared sizes: nothing is loaded
    problem = kind()
    memory = problem.memory(problem.facts())
    assert problem.unit == UNITS.get(kind, "one row replaced")
    assert 0 < memory.replicate < math.inf and 0 <= memory.table < math.inf
    assert (memory.table > 0) != isinstance(problem, Quadratic), "the bench has no table"


def test_the_memory_of_a_table_is_that_of_its_numbers() -> None:
    def table(rows: int, dimension: int) -> float:
        problem = LogisticRegression(data=UniformLogistic(rows=rows, dimension=dimension))
        return problem.memory(problem.facts()).table

    assert table(10_000, 5) == table(1000, 50) == 10 * table(1000, 5)


def test_where_all_replicates_play_the_same_it_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    true = MeanProducts._product
    monkeypatch.setattr(
        MeanProducts,
        "_product",
        lambda self, weights, rows: counted.append(len(weights)) or true(self, weights, rows),  # type: ignore[func-returns-value]
    )
    for game in (MatrixGame, QuadraticGame):
        problem = game(data=LatentGame(rows=50, strategies_x=6, strategies_y=7)).build()
        x, y = problem.facts.uniform(5)
        together = problem.gradients(x, y)
        assert counted == [1, 1], "one row for each player"
        again = problem.gradients(*problem.facts.uniform(3))
        assert counted == [1, 1] and np.array_equal(again[0], together[0][:3]), "and it is remembered"
        x[1], y[2] = np.eye(6)[3], np.eye(7)[0]
        mixed = problem.gradients(x, y)
        assert counted == [1, 1, 5, 5]
        for one, all_ in zip(mixed, together, strict=True):
            assert one[0] == pytest.approx(all_[0], rel=1e-12) and one[1:3] != pytest.approx(all_[1:3])
        counted.clear()
