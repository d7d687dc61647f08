"""Sums over the rows of a linear model: whatever path is quickest for a batch, they are those of the plain formula."""

import numpy as np
import pytest

from dpviz.datasets import UniformLinear, UniformLogistic
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent, HeavyBall, Nesterov
from dpviz.privacy.events import Laplace, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.linear.linear_base import LinearModel, LinearProblem
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares, LogisticRegression

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
    slopes = problem.negative_slopes(arguments, None if problem._caps is None else problem._caps[rows])
    return -(slopes @ problem._rows[rows]) / len(rows)


def point(problem: LinearProblem, seed: int = 0) -> np.ndarray:
    return 3 * np.random.default_rng(seed).standard_normal((REPLICATES, problem.facts.d))


@pytest.mark.parametrize("m", [1, 100, ROWS // 8 - 1, ROWS // 8, ROWS // 2, ROWS - 1])
def test_the_gradient_on_a_batch_is_the_mean_over_its_rows(
    problem: LinearProblem, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dpviz.problems.linear.linear_base.GATHERED", 70 * REPLICATES * 5
    )  # several blocks, the last is short
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


# ------------------------------------------------------------------------------------------- sums that are remembered


def whole(problem: LinearProblem, x: np.ndarray) -> np.ndarray:
    """The mean gradient on all rows, where x was not evaluated before."""
    batch = Mechanisms(Ledger(FixedEvents((Laplace(1.0),)), len(x)), 0).batch(Laplace(1.0))
    return problem.mean_gradient(x, batch, "l1").value


@pytest.mark.parametrize("replicates", [1, 7, 40])
@pytest.mark.parametrize("size", [0.0, 1.0, 500.0, 1e99])
def test_a_gradient_where_diagnostics_were_taken_is_the_same_to_the_last_bit(
    problem: LinearProblem, size: float, replicates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it matters to no result which arm's diagnostics were the last ones, or whether an iteration was recorded."""
    x = size * np.random.default_rng(1).standard_normal((replicates, problem.facts.d))
    computed, calls = whole(problem, x), []
    true = type(problem)._table_sum
    monkeypatch.setattr(type(problem), "_table_sum", lambda *a: calls.append(1) or true(*a))  # type: ignore[func-returns-value]
    problem.evaluate({"x": x})
    assert np.array_equal(whole(problem, x), computed) and not calls, "nothing was added up"
    assert np.array_equal(whole(problem, x), computed) and len(calls) == 1, "it is given out once"
    problem.evaluate({"x": x})
    whole(problem, x + 1e-9 * (1 + np.abs(x)))
    assert len(calls) == 2, "and for that point only"


def test_a_few_points_are_remembered_and_no_batch_reads_them(problem: LinearProblem) -> None:
    points = [point(problem, seed) for seed in range(40)]
    for x in points:
        problem.evaluate({"x": x})
    assert 2 <= len(problem._remembered_sums) <= 16, "one for every arm of the largest experiment"
    event = Sub("wor", ROWS // 2, ROWS, Laplace(1.0))
    batch = Mechanisms(Ledger(FixedEvents((event,)), REPLICATES), 3).batch(event)
    before = len(problem._remembered_sums)
    problem.mean_gradient(points[-1], batch, "l1")
    assert len(problem._remembered_sums) == before


def test_methods_that_ask_where_they_were_evaluated_save_a_pass_for_every_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arms take turns, and each finds its own; what they release is what it was without."""
    passes = []
    true = LinearProblem._table_sum
    monkeypatch.setattr(LinearProblem, "_table_sum", lambda *a: passes.append(1) or true(*a))  # type: ignore[func-returns-value]
    arms = tuple(Arm(label=m.title, algorithm=m(iterations=6)) for m in (GradientDescent, HeavyBall, Nesterov))
    of = Experiment(problem=MODELS["clipped"], arms=arms, replicates=2)
    trace = of.run()
    assert [len(lane.iterations) for lane in trace.arm_traces.values()] == [7, 7, 7]
    assert 5 <= len(passes) <= 8, "Nesterov's own, and of those that all share at the start"
    monkeypatch.setattr(LinearProblem, "_recall", lambda self, x: None)
    again = of.run()
    for label, lane in trace.arm_traces.items():
        assert np.array_equal(lane.output["x"], again.arm_traces[label].output["x"])


def test_parts_of_replicates_are_the_same_for_diagnostics_and_gradients(
    problem: LinearProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a pass takes long, some replicates come after the others; what is remembered is found all the same."""
    x, calls = point(problem), []
    monkeypatch.setattr("dpviz.checkpoints.LONGEST", 2.5 * problem._seconds)  # two replicates at a time
    computed = whole(problem, x)
    monkeypatch.setattr(type(problem), "_table_sum", lambda *a: calls.append(1))
    problem.evaluate({"x": x}, expensive=True)
    assert len(problem._remembered_sums) >= 5
    assert np.array_equal(whole(problem, x), computed) and not calls
