"""What DP-GIBO takes beside its trainings: choosing points and estimating the users' gradients, one replicate's step.

Target: less than the trainings of the step, about six of 0.6 ms each in the default (d = 10, 100 evaluations
kept, 500 users); more users cost one more product of matrices, and more evaluations their square.
"""

import numpy as np
import pytest

from dpviz.families.bayesian_optimization import Gibo, Placing
from dpviz.families.bayesian_optimization.algorithms import Posteriors
from dpviz.pauses import finished
from dpviz.problems.tuning import TuningFacts, TuningProblem


class Free(TuningProblem):
    """Losses that take no time."""

    def __init__(self, users: int, d: int) -> None:
        super().__init__(TuningFacts(users, d, low=(-3.0,) * d, high=(3.0,) * d))
        self._drawn = np.random.default_rng(0).standard_normal((4 * d, users))

    def _losses(self, points: np.ndarray) -> np.ndarray:
        return self._drawn[: len(points)]


@pytest.mark.parametrize(
    ("d", "window", "users"),
    [(10, 10.0, 500), (10, 40.0, 500), (10, 10.0, 5000), (50, 10.0, 1000), (103, 4.0, 1000)],
    ids=["default", "four times the history", "ten times the users", "d = 50", "d = 103"],
)
def test_a_step_without_its_trainings(d: int, window: float, users: int, benchmark) -> None:
    problem, generator = Free(users, d), np.random.default_rng(1)
    batches = Gibo(placing=Placing(window=window)).batches(problem.facts)
    estimates = Posteriors(problem.evaluations(1, batches.window), batches)
    x = np.zeros((1, d))

    def step(length: float) -> None:
        x[:] = np.clip(x + length * generator.standard_normal(x.shape), -3, 3)
        finished(estimates.at(x, 0.5))

    while estimates._known[0].points.shape[0] < batches.window:
        step(0.4)
    benchmark.pedantic(lambda: step(0.05), rounds=20)
