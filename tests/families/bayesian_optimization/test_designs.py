"""Designs: closed forms against the posterior, and how batches are chosen. Values: THEORY.md, section 4."""

import numpy as np
import pytest

from dpviz.families.bayesian_optimization import Placing, Surrogate, designs
from dpviz.families.bayesian_optimization.batches import Batches, unexplained
from dpviz.families.bayesian_optimization.posterior import Evaluated

TABLE = {
    1e-6: (0.9540, 0.8750, 0.6254, 0.1261, 0.0012, 0.0011, 0.0008, 0.0004, 0.0001),
    1e-2: (0.9545, 0.8794, 0.6624, 0.2289, 0.1207, 0.1079, 0.0843, 0.0596, 0.0348),
    1e-1: (0.9582, 0.8964, 0.7388, 0.4254, 0.3472, 0.3206, 0.2703, 0.2209, 0.1715),
}
COUNTS = (1, 2, 4, 8, 9, 10, 12, 14, 16)


def left(points: np.ndarray, noise: float, length: float = 1.0, mean: str = "constant") -> float:
    """α/P at 0 after evaluations at these points alone."""
    surrogate = Surrogate(length_scale=length, relative_noise=noise, mean=mean)  # type: ignore[arg-type]
    d = points.shape[1]
    return Evaluated(surrogate, np.empty((0, d))).at(np.zeros(d)).trial(points).unexplained


@pytest.mark.parametrize("noise", TABLE)
def test_closed_forms_are_what_the_posterior_finds(noise: float) -> None:
    for count, expected in zip(COUNTS, TABLE[noise], strict=True):
        closed = designs.unexplained(count, 8, noise)
        assert closed == pytest.approx(expected, abs=6e-5)
        points = designs.offsets(count, 8, noise, 0.0)
        assert points.shape == (count, 8)
        assert left(points, noise) == pytest.approx(closed, abs=2e-6)
        if 2 <= count <= 8:
            assert designs.unexplained(count, 8, 1e-10) >= (8 - count + 1) / 8 - 1e-9
    found = [designs.unexplained(count, 8, noise) for count in range(1, 17)]
    assert (np.diff(found) < 0).all()


def test_values_with_a_smallest_distance_and_best_distances() -> None:
    expected = {
        1e-6: (0.017941, 0.010116, 0.000280),
        1e-2: (0.123332, 0.084282, 0.034848),
        1e-1: (0.352732, 0.270310, 0.171532),
    }
    for noise, values in expected.items():
        found = [designs.unexplained(count, 10, noise, 0.2) for count in (11, 15, 20)]
        assert found == pytest.approx(values, abs=1e-5)
    for noise, spread, rest in ((0.01, 0.24324, 0.034848), (0.1, 0.49498, 0.171532), (1.0, 0.82467, 0.600051)):
        assert designs.best_spread(1, noise) == pytest.approx(spread, abs=1e-4)
        assert 1 - designs.explained(1, spread, noise) == pytest.approx(rest, abs=1e-4)
    axes = 0.3 * np.concatenate([np.eye(5), -np.eye(5)])
    for points, noise, value in (
        (axes, 1e-10, 0.00139798),
        (np.tile(axes / 0.3 * 0.5, (1, 1)), 0.01, 0.12153859),
        (np.tile(axes / 0.3 * 0.7, (4, 1)), 0.01, 0.05753143),
        (0.3 * designs.simplex(5), 1e-10, 0.06284926),
        (0.5 * designs.simplex(5), 0.01, 0.33494721),
        (np.tile(0.7 * designs.simplex(5), (4, 1)), 0.01, 0.35933113),
    ):
        assert left(points, noise, 1.3, "zero") * 5 / 1.3**2 == pytest.approx(value, abs=2e-7)


def test_the_fewest_points_of_a_first_step() -> None:
    levels = (0.9, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
    assert [designs.smallest_batch(w, 10, 1e-6, 0.2) for w in levels] == [3, 7, 10, 11, 11, 11, 16]
    assert [designs.smallest_batch(w, 10, 1e-2, 0.2) for w in levels] == [3, 7, 11, 14, 19, None, None]
    assert [designs.smallest_batch(w, 10, 0.1, 0.2) for w in levels[:4]] == [3, 9, 19, None]
    assert [designs.smallest_batch(w, 103, 1e-6, 0.2) for w in (0.5, 0.2, 0.1, 0.05, 0.02)] == [54, 86, 96, 101, 104]
    assert designs.smallest_batch(0.1, 10, 0.1, 0.2, repeats=5) == 60  # 0.1715, 0.118, 0.093 with 1, 2, 3 repeats


def test_corners_of_a_simplex_are_evenly_spread() -> None:
    for d in (1, 2, 7):
        corners = designs.simplex(d)
        assert corners @ corners.T == pytest.approx((1 + 1 / d) * np.eye(d + 1) - 1 / d, abs=1e-12)


def test_points_that_would_leave_the_box_go_the_other_way() -> None:
    low, high = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    found = designs.inside(np.array([0.9, 0.5]), np.array([[0.3, 0.1], [-0.3, 0.2], [-2.0, 0.0]]), low, high)
    assert found == pytest.approx(np.array([[0.6, 0.6], [0.6, 0.7], [1.0, 0.5]]))


def batches(size: int | None = None, level: float = 0.02, d: int = 10, **placing: object) -> Batches:
    low, high = np.full(d, -2.0), np.full(d, 2.0)
    return Batches(Surrogate(), Placing(**placing), low, high, level, size)  # type: ignore[arg-type]


def test_the_smallest_batch_that_explains_enough_is_taken() -> None:
    choose, theta = batches(), np.zeros(10)
    nothing = Evaluated(Surrogate(), np.empty((0, 10)))
    first = choose.chosen(nothing, theta)
    assert len(first.points) == 11 and first.unexplained <= 0.02
    known = first.known
    assert len(choose.chosen(known, theta).points) == 0
    moved = theta.copy()
    moved[:3] += 0.15
    second, axes = choose.chosen(known, moved), np.linalg.eigh(known.at(moved).covariance)[1][:, ::-1]
    assert 0 < len(second.points) < 11 and second.unexplained <= 0.02 < known.at(moved).unexplained
    assert choose._placed(known.at(moved), len(second.points) - 1, axes).unexplained > 0.02
    assert len(batches(least=4).chosen(known, theta).points) == 4
    assert len(batches(size=7).chosen(known, theta).points) == 7


def test_noise_asks_for_repeats_and_a_level_out_of_reach_gets_all_there_is() -> None:
    theta = np.zeros(5)
    for repeats, count in ((1, 10), (4, 30)):
        low, high = np.full(5, -9.0), np.full(5, 9.0)
        choose = Batches(Surrogate(relative_noise=0.1), Placing(repeats=repeats), low, high, 0.1, None)
        found = choose.chosen(Evaluated(choose.surrogate, np.empty((0, 5))), theta)
        assert len(found.points) == count and (found.unexplained <= 0.1) == (repeats == 4)
    choose = batches(design="central")
    assert len(choose.chosen(Evaluated(Surrogate(), np.zeros((1, 10))), np.zeros(10)).points) == 20
    assert (choose.window, batches().window, batches(size=150).window, batches(window=2.0).window) == (20, 100, 150, 20)


@pytest.mark.parametrize("kernel", ["rbf", "matern", "quadratic"])
@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_what_a_batch_leaves_has_the_derivative_that_is_stated(kernel: str, mean: str) -> None:
    generator = np.random.default_rng(2)
    surrogate = Surrogate(kernel=kernel, mean=mean, relative_noise=0.01)  # type: ignore[arg-type]
    local = Evaluated(surrogate, generator.normal(size=(5, 3))).at(generator.normal(size=3))
    points, h = generator.normal(size=(4, 3)), 1e-6
    _, slope = unexplained(local, points)
    shifts = h * np.eye(12).reshape(12, 4, 3)
    rises = [unexplained(local, points + move)[0] - unexplained(local, points - move)[0] for move in shifts]
    assert slope == pytest.approx(np.array(rises) / (2 * h), abs=1e-7)


@pytest.mark.slow
def test_moving_the_points_of_a_batch_together_saves_some() -> None:
    """A walk of 6 steps with noise, where fewer points reach the level; and no polish makes a batch worse."""
    found = {}
    for design in ("adaptive", "joint"):
        low, high = np.full(6, -9.0), np.full(6, 9.0)
        surrogate = Surrogate(relative_noise=0.01)
        choose = Batches(surrogate, Placing(design=design), low, high, 0.05, None)  # type: ignore[arg-type]
        known, theta, generator = Evaluated(surrogate, np.empty((0, 6))), np.zeros(6), np.random.default_rng(3)
        for _ in range(6):
            trial = choose.chosen(known, theta)
            assert trial.unexplained <= 0.05
            known, move = trial.known, generator.normal(size=6)
            theta = theta + 0.4 * move / np.linalg.norm(move)
        found[design] = len(known.points)
    assert found["joint"] < 0.9 * found["adaptive"]


def test_the_first_batch_is_known_before_a_run_for_every_kernel() -> None:
    for kernel, level, expected in (("rbf", 0.02, 6), ("matern", 0.1, 6), ("matern", 0.01, 10), ("quadratic", 0.02, 6)):
        surrogate = Surrogate(kernel=kernel)  # type: ignore[arg-type]
        choose = Batches(surrogate, Placing(), np.full(5, -2.0), np.full(5, 2.0), level, None)
        chosen = choose.chosen(Evaluated(surrogate, np.empty((0, 5))), np.zeros(5))
        assert choose.first() == len(chosen.points) == expected
    nothing = Batches(Surrogate(), Placing(design="joint"), np.zeros(2), np.ones(2), 0.02, 3)
    everything = Evaluated(Surrogate(relative_noise=1e-10), np.empty((0, 2))).at(np.full(2, 0.5)).trial(np.eye(2))
    assert len(nothing._moved(everything, everything.trial(np.empty((0, 2)))).points) == 0
