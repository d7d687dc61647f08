"""Directions: as uniform as promised, orthonormal where they should be, and never far from fresh ones."""

from itertools import product

import numpy as np
import pytest

from dpviz.problems.values.value_problem import (
    Directions,
    Kind,
    bank,
    bank_size,
    draw_directions,
    haar,
    max_mean_length,
)

D = 6


@pytest.mark.parametrize("kind", ["iid", "orthonormal"])
def test_a_bank_holds_unit_vectors_that_nobody_can_change(kind: Kind) -> None:
    sets = bank(kind, 4, D)
    assert sets.shape == (1024, 4, D) and not sets.flags.writeable
    assert np.linalg.norm(sets, axis=2) == pytest.approx(1.0, abs=1e-12)
    assert bank_size(100, 100) == 400 and bank_size(600, 600) == 16


def test_orthonormal_sets_are_orthonormal_and_stay_so_when_turned() -> None:
    draws = Directions("orthonormal", D, D, [np.random.default_rng(0)])
    _, sets, turns = next(draws.parts(50))
    turned = sets @ turns[0].T
    assert np.abs(turned @ turned.transpose(0, 2, 1) - np.eye(D)).max() < 1e-12


def test_rotations_are_uniform() -> None:
    """Each coordinate of each column has mean 0, second moment 1/d and fourth moment 3/(d(d + 2)). Columns without
    their signs mended have a mean that is not 0."""
    count = 20_000
    found = haar(np.random.default_rng(1).standard_normal((count, D, D)))
    assert np.abs(found.mean(axis=0)).max() < 5 * np.sqrt(1 / D / count)
    fourth = 3 / (D * (D + 2))
    assert np.abs((found**2).mean(axis=0) - 1 / D).max() < 5 * np.sqrt((fourth - 1 / D**2) / count)
    assert np.abs((found**4).mean(axis=0) - fourth).max() < 0.1 * fourth


def test_parts_cover_a_batch_and_are_within_the_bank_wherever_they_begin() -> None:
    for start in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        draws = Directions("iid", 2, 3, [np.random.default_rng(0)] * 2, start)
        parts = list(draws.parts(2500))
        rows = [(part.start, part.stop) for part, _, _ in parts]
        assert rows == [(0, 1024), (1024, 2048), (2048, 2500)]
        assert [len(sets) for _, sets, _ in parts] == [1024, 1024, 452]
        assert all(turns.shape == (2, 3, 3) for _, _, turns in parts)


def test_the_turn_of_a_replicate_is_its_own() -> None:
    def turned(seeds: tuple[int, ...]) -> np.ndarray:
        draws = Directions("orthonormal", 3, 3, [np.random.default_rng(seed) for seed in seeds])
        return np.stack([turns for _, _, turns in draws.parts(2000)])

    both = turned((1, 2))
    assert np.array_equal(both[:, 1:], turned((2,))) and not np.allclose(both[:, 0], both[:, 1])


def test_no_signs_make_a_rows_part_longer_than_its_spread() -> None:
    """(1/m) Σ ±u_j over all 2⁶ signs: 1/√m for orthonormal directions whatever the signs; for independent ones at most
    their spectral norm over √m, and never more than 1."""
    signs = np.array(list(product([-1.0, 1.0], repeat=D)))
    lengths = np.linalg.norm(signs @ bank("orthonormal", D, D)[:50] / D, axis=2)
    assert lengths == pytest.approx(max_mean_length("orthonormal", D), abs=1e-12)
    free = bank("iid", D, D)[:200]
    longest = np.linalg.norm(signs @ free / D, axis=2).max(axis=1)
    assert (longest <= np.linalg.norm(free, 2, axis=(1, 2)) / np.sqrt(D) + 1e-12).all()
    assert D**-0.5 < longest.max() < max_mean_length("iid", D) == 1.0


def test_single_directions_have_the_mean_squared_length_of_the_dimension() -> None:
    generators = [np.random.default_rng(seed) for seed in range(500)]
    sphere, normal = draw_directions("sphere", D, generators), draw_directions("normal", D, generators)
    assert (sphere**2).sum(axis=1) == pytest.approx(D)
    assert (normal**2).sum(axis=1).mean() == pytest.approx(D, abs=5 * np.sqrt(2 * D / 500))
