"""Shares that are bought: noise as planned and charged, shares that can be used whatever the noise was."""

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.families.mirror_descent import shares

GROUPS = np.repeat([0, 1], [360, 40])  # of three; nobody is in the last one
EXACT = [360, 40, 0]


def test_counts_carry_laplace_noise_of_scale_two_over_epsilon() -> None:
    noise = np.array([shares.released(GROUPS, 3, 0.5, seed) - EXACT for seed in range(600)])
    # Scale b = 2/ε = 4: |noise| has mean b and standard deviation b; 1800 draws, four standard errors.
    assert np.abs(noise).mean() == pytest.approx(4.0, abs=4 * 4.0 / np.sqrt(1800))
    assert noise.mean() == pytest.approx(0.0, abs=4 * 4.0 * np.sqrt(2 / 1800))


def test_two_releases_share_no_noise_and_without_a_seed_none_repeats() -> None:
    first, second = (shares.released(GROUPS, 3, epsilon, 0) - EXACT for epsilon in (0.5, 1.0))
    assert not np.isclose(first, 2 * second, rtol=1e-3).any()
    assert np.array_equal(shares.released(GROUPS, 3, 0.5, 0), shares.released(GROUPS, 3, 0.5, 0))
    assert not np.array_equal(shares.released(GROUPS, 3, 0.5), shares.released(GROUPS, 3, 0.5))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan")])
def test_a_release_needs_a_budget(epsilon: float) -> None:
    with pytest.raises(UserError, match="positive part"):
        shares.released(GROUPS, 3, epsilon)


@pytest.mark.parametrize(
    ("counts", "smallest", "expected"),
    [
        ([900, 100, 0], 0.02, [0.882, 0.098, 0.02]),
        ([900, 100, -50], 0.001, [0.8991, 0.0999, 0.001]),
        ([500, 300, 200], 0.02, [0.5, 0.3, 0.2]),
        ([-3, -1, -2], 0.02, [1 / 3, 1 / 3, 1 / 3]),
        ([10, 0, 0], 0.9, [1 / 3, 1 / 3, 1 / 3]),
        ([970, 21, 9], 0.02, [0.9592, 0.02077, 0.02]),
        ([975, 20.2, 4.8], 0.02, [0.96, 0.02, 0.02]),  # the second falls below when the third is lifted
    ],
)
def test_shares_sum_to_one_and_none_is_too_small(counts: list, smallest: float, expected: list) -> None:
    found = shares.as_shares(np.array(counts, dtype=float), smallest)
    assert sum(found) == pytest.approx(1.0, abs=1e-12)
    assert found == pytest.approx(expected, abs=1e-4)
