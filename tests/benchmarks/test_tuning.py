"""What DP-GIBO takes beside its trainings: choosing points and estimating the users' gradients, one replicate's step.

Target: less than the trainings of the step, about six of 0.6 ms each in the default (d = 10, 100 evaluations
kept, 500 users); more users cost one more product of matrices, and more evaluations their square.
"""

from collections.abc import Callable

import numpy as np
import pytest

from dpviz.families.bayesian_optimization import Gibo, Placing
from dpviz.families.bayesian_optimization.algorithms import Posteriors
from dpviz.problems.tuning.learners import ProcessLearner
from dpviz.problems.tuning.tuning import TuningFacts, TuningProblem


class Free(TuningProblem):
    """Losses that take no time."""

    def __init__(self, users: int, d: int) -> None:
        super().__init__(TuningFacts(users, d, low=(-3.0,) * d, high=(3.0,) * d))
        self._drawn = np.random.default_rng(0).standard_normal((4 * d, users))

    def _losses(self, points: np.ndarray) -> np.ndarray:
        return self._drawn[: len(points)]


def stepping(d: int = 10, kept: int = 100, users: int = 500) -> Callable[[], None]:
    """A step of one replicate that keeps so many evaluations, which it has, without its trainings."""
    problem, generator = Free(users, d), np.random.default_rng(1)
    batches = Gibo(placing=Placing(window=kept / d)).batches(problem.facts)
    estimates = Posteriors(problem.evaluations(1, batches.window), batches)
    x = np.zeros((1, d))

    def step(length: float = 0.05) -> None:
        x[:] = np.clip(x + length * generator.standard_normal(x.shape), -3, 3)
        estimates.at(x, 0.5)

    while estimates._known[0].points.shape[0] < batches.window:
        step(0.4)
    return step


def trainings(users: int = 500, count: int = 6) -> Callable[[], object]:
    """The trainings of a step of the default: d = 10, 200 training rows."""
    draw = np.random.default_rng(0).standard_normal
    rows = {"x": draw((200, 10)), "y": draw(200), "v": draw((users, 10)), "z": draw(users)}
    learner, points = ProcessLearner(rows, noise=0.01), draw((count, 10))
    return lambda: learner.losses(points)


@pytest.mark.parametrize("users", [500, 5000, 50_000])
@pytest.mark.parametrize("kept", [25, 100, 400])
def test_a_step_against_history_and_users(kept: int, users: int, report) -> None:
    """What stands in THEORY.md, section 9: milliseconds of a step beside those of six trainings of the default."""
    found = report.in_turns(stepping(kept=kept, users=users), {"trainings": trainings(users)}, rounds=20)
    step, six = found["measured"], found["trainings"]
    report(step_ms=1e3 * step, trainings_ms=1e3 * six, share_of_trainings=six / (six + step))


@pytest.mark.parametrize(("d", "kept", "users"), [(50, 500, 1000), (103, 412, 1000)], ids=["d = 50", "d = 103"])
def test_a_step_in_many_settings(d: int, kept: int, users: int, benchmark) -> None:
    benchmark.pedantic(stepping(d, kept, users), rounds=20)
