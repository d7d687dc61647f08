"""What problems declare: whom they protect, and what they cost, from sizes alone."""

import math

import numpy as np
import pytest

from dpviz import families
from dpviz.datasets import UniformLogistic
from dpviz.datasets.games import LatentGame
from dpviz.problems.base import Cost, ProblemSpecification
from dpviz.problems.games.matrix_games import MatrixGame, MeanProducts
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.tuning.direct_tuning import HuberRegression, NormalLocation
from dpviz.problems.tuning.model_tuning import KernelMachine, LengthScales
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
def test_every_problem_says_whom_it_protects_and_what_it_costs(
    kind: type[ProblemSpecification], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "build", None)  # from declared sizes: nothing is loaded
    problem = kind()
    cost = problem.cost(problem.facts())
    assert problem.unit == UNITS.get(kind, "one row replaced")
    assert isinstance(cost, Cost) and cost == problem.cost(problem.facts())
    numbers = [value for value in vars(cost).values() if isinstance(value, float | int)]
    assert all(math.isfinite(value) and value >= 0 for value in numbers)
    assert cost.evaluation > 0 and cost.diagnostic > 0 and cost.replicate > 0


def test_costs_grow_with_rows_and_columns() -> None:
    def cost(rows: int, dimension: int) -> Cost:
        problem = LogisticRegression(data=UniformLogistic(rows=rows, dimension=dimension))
        return problem.cost(problem.facts())

    small, longer, wider = cost(1000, 5), cost(10_000, 5), cost(1000, 50)
    for name in ("evaluation", "diagnostic", "preparation", "table"):
        assert getattr(longer, name) == pytest.approx(10 * getattr(small, name)), name
        assert getattr(wider, name) > getattr(small, name), name
    assert longer.batch_row == small.batch_row > small.evaluation / 1000, "a row that is drawn is expensive"
    bench = Quadratic(rows=10_000_000)
    assert bench.cost(bench.facts()).evaluation < 1e-5, "the bench has no table"


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
