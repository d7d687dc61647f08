"""Tuning on validation users: what is asked keeps to its sensitivity, whoever is replaced by whatever."""

from typing import Any

import numpy as np
import pytest

from dpviz.problems.tuning import tuning
from dpviz.problems.tuning.tuning import Evaluations, TuningFacts, TuningProblem

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
    found.add(points)
    return found


@pytest.mark.slow
def test_one_user_replaced_by_anything_moves_no_query_beyond_its_sensitivity() -> None:
    generator = np.random.default_rng(0)
    weights, clip = generator.standard_normal((R, 7, D)), 0.5
    usual = generator.uniform(0, 5, (7, N))
    points = generator.uniform(-1, 1, (R, 7, D))

    def asked(losses: np.ndarray) -> list:
        found = evaluated(Given(losses))
        return [found.gradient(weights, clip), found.utilities(points), found.mean_loss(points[:, 0])]

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


def test_users_change_places_and_the_mean_stays_and_others_stay_to_the_last_bit() -> None:
    generator = np.random.default_rng(1)
    losses, weights = generator.uniform(0, 5, (7, N)), generator.standard_normal((R, 7, D))
    one = evaluated(Given(losses)).gradient(weights, 1.0).value
    order = generator.permutation(N)
    two = evaluated(Given(losses[:, order])).gradient(weights, 1.0).value
    assert two == pytest.approx(one, rel=1e-12)
    alone, hostile = np.zeros((7, N)), np.zeros((7, N))
    alone[:, 3] = hostile[:, 3] = losses[:, 3]
    hostile[:, 7], hostile[:, 9] = np.nan, [1e300, -1e300] * 3 + [np.inf]
    rows = [evaluated(Given(given))._losses[0].T @ weights[0] for given in (alone, hostile)]
    assert np.array_equal(rows[0][3], rows[1][3])


def test_of_longer_arrays_the_rows_that_fill_up_do_not_count_and_old_points_leave() -> None:
    generator = np.random.default_rng(2)
    losses, weights = generator.uniform(0, 5, (7, N)), generator.standard_normal((R, 9, D))
    found = evaluated(Given(losses), window=4)
    assert [len(points) for points in found.points] == [4, 4] and found.count.tolist() == [7, 5]
    value = found.gradient(weights, 1e9).value
    every = np.concatenate([losses, losses])  # what the box answers, one training after the other
    for r, kept in enumerate((every[3:7], every[8:12])):
        assert value[r] == pytest.approx((kept.T @ weights[r, :4]).mean(axis=0), rel=1e-12)
    assert found.clipped_share.tolist() == [0.0, 0.0]


def test_observation_noise_is_each_users_own_or_everybodys_and_the_same_for_a_replicate_whoever_else_runs() -> None:
    zeros = np.zeros((40, N))
    own, shared = (evaluated(Given(zeros, sd=0.5, shared=s), (40, 40))._losses for s in (False, True))
    assert np.std(own) == pytest.approx(0.5, rel=0.06)  # 4 standard errors of 4000 draws: 4.5 %
    assert np.ptp(shared[0], axis=1).max() == 0.0 and np.std(shared[0][:, 0]) == pytest.approx(0.5, rel=0.5)
    assert not np.array_equal(own[0], own[1])
    (alone,) = evaluated(Given(zeros, sd=0.5), (40,))._losses
    assert np.array_equal(alone, own[0])


def test_what_is_asked_is_counted_and_what_is_no_number_counts_as_the_cap() -> None:
    losses = np.full((4, N), np.nan)
    losses[0] = 1.0
    problem = Given(losses, cap=2.0)
    found = problem.evaluations(R)
    points = np.zeros((R, 4, D))
    utilities = found.utilities(points).value
    assert utilities.tolist() == [[-1.0, -2.0, -2.0, -2.0]] * R and found.count.tolist() == [4, 4]
    assert found.mean_loss(points[:, 0]).value.tolist() == [[1.0], [2.0]]
    assert found.count.tolist() == [5, 5] and [len(kept) for kept in found.points] == [0, 0]
    assert problem.evaluate({"x": points[0]})["objective"].tolist() == [1.0, 2.0, 2.0, 2.0]


def test_the_mean_losses_of_many_points_are_found_without_keeping_all_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Given(np.random.default_rng(0).standard_normal((1, N)))
    sizes: list[int] = []

    def spied(points: np.ndarray, true: Any = problem._losses) -> Any:
        sizes.append(len(points))
        return true(points)

    monkeypatch.setattr(problem, "_losses", spied)
    monkeypatch.setattr(tuning, "LOSSES", 3 * N)
    found = problem.evaluate({"x": np.zeros((7, D))})["objective"]
    assert sizes == [3, 3, 1] and found == pytest.approx(np.full(7, problem._given.mean()), rel=1e-12)
