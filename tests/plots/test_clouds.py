"""Films of moving clouds: what is unpacked is what was packed; what lies far beyond the frame is at its edge."""

import numpy as np
import pytest

from dpviz.plots import clouds
from dpviz.plots.clouds import BANDS, MAX_STEPS, Animation, Ground, Walk
from tests.films import unpacked

TITLES = ("one", "other")


def test_what_is_unpacked_is_what_was_packed_and_who_diverged_is_at_the_edge() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(6, 40, 2)).astype(np.float32)
    points[3:, 5] = 3e38, -3e38
    region = np.full((6, 2), [0.5, -1.0]), np.full((6, 2), [1.0, np.inf])
    walk = Walk("Ünï", "#0072B2", points, 9, points[:, :1], "plain", region, ["0.1"] * 6, ["ε = 1 spent"] * 6)
    x, y = clouds.axes_around(TITLES, [points[:, 6:]])
    ground = Ground(np.linspace(x.low, x.high, 7), np.linspace(y.low, y.high, 5), np.arange(35.0).reshape(5, 7) ** 3)
    steps = np.array([0, 1, 2, 3, 5, 9])
    found = unpacked(
        clouds.animation_bytes(Animation(steps, [walk, walk], x, y, "loss", ground, [("Rock", 0.0, 0.0)]), "#B45309")
    )

    assert found["steps"] == steps.tolist() and [told["label"] for told in found["walks"]] == ["Ünï", "Ünï"]
    low, high = np.array([x.low, y.low]), np.array([x.high, y.high])
    for told in found["walks"]:
        back = low + (told["points"] + 1) / 2 * (high - low)
        inside = (points >= low) & (points <= high)
        assert inside.mean() > 0.9 and np.abs(back - points)[inside].max() < (high - low).max() / 32767
        assert (told["points"][3:, 5] == [1, -1]).all() and np.abs(told["points"][~inside]).min() == 1
        assert (told["reference_points"][:, 0] == told["points"][:, 0]).all()
        assert told["region"][0][3] == 1e4 and told["region"][0][2] == pytest.approx(2 / (x.high - x.low), abs=1e-4)
    levels = found["ground"]["levels"] * BANDS  # each band is equally large, however steep
    assert np.histogram(levels, BANDS, (0, BANDS))[0].tolist() == pytest.approx([35 / BANDS] * BANDS, abs=1)


def test_a_film_has_all_of_the_first_steps_and_a_method_that_has_ended_stays_where_it_is() -> None:
    short, long = np.arange(28), np.unique(np.geomspace(1, 5000, 300).astype(int))
    steps = clouds.timeline([short, long])
    assert len(steps) <= MAX_STEPS and steps[:20].tolist() == list(range(20)) and steps[-1] == 5000
    assert np.isin(steps, [*short, *long]).all()
    assert clouds.timeline([short]).tolist() == short.tolist()
    values = clouds.values_at_steps(short, 10.0 * short, steps)
    assert (values == 10.0 * np.minimum(steps, 27)).all()
