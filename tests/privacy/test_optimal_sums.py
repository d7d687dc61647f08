"""Multipliers on file: the command that writes them gives them, and what is interpolated is as good as the optimum."""

import numpy as np
import pytest

from dpviz.privacy import optimal_sums
from dpviz.privacy.matrix_factorisation import DenseFactorisation, normalised_square_root
from dpviz.privacy.optimal_sums import optimal_mean


@pytest.mark.parametrize("power", [-4.0, 0.0, 3.0])
def test_the_file_has_what_the_command_computes(power: float) -> None:
    """To 0.002: of so much the smallest variance knows nothing, and other machines may end elsewhere."""
    column = optimal_sums._FIRSTS.tolist().index(power)
    again = optimal_sums.tabulated(optimal_sums._LENGTHS[0], 2.0**power)
    assert np.abs(optimal_sums._on_file()[0, column] - again).max() < 2e-3


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", [0.013, 0.3, 1.0, 1.13, 3.0, 90.0])
@pytest.mark.parametrize("length", [64, 100, 300])
def test_between_what_is_on_file_sums_are_optimal_to_a_millionth(length: int, first: float) -> None:
    leaves = np.append(first, np.ones(length - 1))
    searched = optimal_sums._multipliers(leaves / leaves.max(), optimal_sums._GAP)
    best = DenseFactorisation("searched", optimal_sums._encoder(leaves / leaves.max(), searched))
    found = optimal_mean(length, first)
    smallest, mean = ((one.rms_error(leaves) ** 2).mean() for one in (best, found))
    assert smallest * (1 - 1e-6) < mean < smallest * (1 + 1e-6)
    assert leaves * found.column_norms == pytest.approx(np.full(length, leaves.max()), rel=1e-12)


def test_long_sums_too() -> None:
    """T = 512: 2.5 % less variance than the normalised square root."""
    found = optimal_mean(512)
    ratio = (normalised_square_root(512).rms_error() ** 2).mean() / (found.rms_error() ** 2).mean()
    assert ratio == pytest.approx(1.0254, abs=5e-4)
    ones = np.tril(np.ones((512, 512)))
    assert np.abs(found.decoder() @ found.encoder() - ones).max() < 1e-9
