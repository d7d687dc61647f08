"""Tuning on validation users: what is asked keeps to its sensitivity, whoever is replaced by whatever."""

import numpy as np
import pytest

from dpviz.pauses import finished
from dpviz.problems.tuning import Evaluations, TuningFacts, TuningProblem

R, N, D = 2, 50, 3


class Given(TuningProblem):
    """Losses that are given, whatever the point: one row per training, again and again."""

    def __init__(self, losses: np.ndarray, cap: float = 4.0, sd: float = 0.0, shared: bool = False) -> None:
        facts = TuningFacts(losses.shape[1], D, low=(-1.0,) * D, high=(1.0,) * D, loss_cap=cap)
        super().__init__(TuningFacts(**{**vars(facts), "observation_sd": sd, "shared": shared}))
        self._given = losses

    def _losses(self, points: np.ndarray) -> np.ndarray:
        return np.resize(self._given, (len(points), self.facts.n))


def evaluated(problem: TuningProblem, sizes: tuple[int, ...] = (7, 5), window: int | None = None) -> Evaluations:
    found = problem.evaluations(len(sizes), window)
    points = [np.random.default_rng(size).uniform(-1, 1, (size, D)) for size in sizes]
    finished(found.add_in_parts(points))
    return found


def test_one_user_replaced_by_anything_moves_no_query_beyond_its_sensitivity() -> None:
    generator = np.random.default_rng(0)
    weights, clip = generator.standard_normal((R, 7, D)), 0.5
    usual = generator.uniform(0, 5, (7, N))
    points = generator.uniform(-1, 1, (R, 7, D))

    def asked(losses: np.ndarray) -> list:
        found = evaluated(Given(losses))
        return [
            finished(found.gradient_in_parts(weights, clip)),
            finished(found.utilities_in_parts(points)),
            finished(found.mean_loss_in_parts(points[:, 0])),
        ]

    before, largest = asked(usual), np.zeros(3)
    pseudo = np.linalg.pinv(weights[0].T)  # losses whose gradient is as long as we like, along any direction
    aligned = [pseudo @ np.full(D, scale) for scale in (1e3, -1e3)]
    hostile = [np.full(7, value) for value in (np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0)]
    mixed = [generator.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 1e-300, 3.0], 7) for _ in range(300)]
    bounds = [2 * clip / N, 2 * 4.0 / N, 4.0 / N]
    for user in (0, N - 1):
        for values in [*aligned, *hostile, *mixed]:
            changed = usual.copy()
            changed[:, user] = values
            for place, (one, two) in enumerate(zip(before, asked(changed), strict=True)):
                assert one.sensitivity == two.sensitivity == pytest.approx(bounds[place])
                assert np.isfinite(two.value).all()
                change = two.value - one.value
                size = np.ptp(change, axis=1) if one.norm == "range" else np.linalg.norm(change, axis=1)
                largest[place] = max(largest[place], (size / one.sensitivity).max())
    assert (largest <= 1 + 1e-12).all()
    opposite = [usual.copy(), usual.copy()]
    for losses, values in zip(opposite, aligned, strict=True):
        losses[:, 0] = values
    one, two = (asked(losses)[0].value[0] for losses in opposite)
    assert np.linalg.norm(one - two) == pytest.approx(2 * clip / N, rel=1e-9)  # attained
