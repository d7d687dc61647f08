"""Sums over the rows of a linear model: whatever path is quickest for a batch, they are those of the plain formula."""

import numpy as np
import pytest

from dpviz.datasets import UniformLinear, UniformLogistic
from dpviz.privacy.events import Laplace, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.linear_base import LinearModel, LinearProblem
from dpviz.problems.linear_models import LogisticRegression
from dpviz.problems.regression import HuberRegression, LeastSquares

ROWS, REPLICATES = 2000, 9
MODELS: dict[str, LinearModel] = {
    "logistic": LogisticRegression(data=UniformLogistic(rows=ROWS, dimension=4)),
    "clipped": LogisticRegression(data=UniformLogistic(rows=ROWS, dimension=4), clip=0.4),
    "squares": LeastSquares(data=UniformLinear(rows=ROWS, dimension=4), clip=0.3),
    "huber": HuberRegression(data=UniformLinear(rows=ROWS, dimension=4), intercept="yes"),
}


@pytest.fixture(scope="module", params=MODELS)
def problem(request: pytest.FixtureRequest) -> LinearProblem:
    return MODELS[request.param].build()


def plain(problem: LinearProblem, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Mean of the rows' clipped gradients (d,) at one point x (d,)."""
    arguments = problem._rows[rows] @ x
    if problem._offsets is not None:
        arguments -= problem._offsets[rows]
    slopes = problem.slopes(arguments, None if problem._caps is None else problem._caps[rows])
    return -(slopes @ problem._rows[rows]) / len(rows)


def point(problem: LinearProblem, seed: int = 0) -> np.ndarray:
    return 3 * np.random.default_rng(seed).standard_normal((REPLICATES, problem.facts.d))


@pytest.mark.parametrize("m", [1, 100, ROWS // 8 - 1, ROWS // 8, ROWS // 2, ROWS - 1])
def test_the_gradient_on_a_batch_is_the_mean_over_its_rows(
    problem: LinearProblem, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpviz.problems.linear_base.GATHERED", 70 * REPLICATES * 5)  # several blocks, the last is short
    event = Sub("wor", m, ROWS, Laplace(1.0))
    batch, x = Mechanisms(Ledger(FixedEvents((event,)), REPLICATES), 3).batch(event), point(problem)
    assert (batch.marked is not None) == (m >= ROWS // 8) and batch.indices is not None
    found = problem.mean_gradient(x, batch, "l1")
    assert found.sensitivity == problem.facts.gradient_sensitivity("l1", m)
    expected = np.stack([plain(problem, x[r], batch.indices[r]) for r in range(REPLICATES)])
    assert found.value == pytest.approx(expected, rel=1e-12, abs=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("m", [10, ROWS])
def test_a_batch_of_another_table_is_refused(problem: LinearProblem, m: int) -> None:
    """Gathering stops at the last row, which would then count more than once."""
    event = Sub("wor", m, 3 * ROWS, Laplace(1.0))
    batch = Mechanisms(Ledger(FixedEvents((event,)), REPLICATES), 3).batch(event)
    with pytest.raises(IndexError, match="another table"):
        problem.mean_gradient(point(problem), batch, "l1")
