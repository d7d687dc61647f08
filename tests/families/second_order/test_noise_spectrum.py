"""How likely noise looks flat: against exact values, simulation, and closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

from dpviz.families.second_order import noise_spectrum
from dpviz.families.second_order.noise_spectrum import log_chance
from dpviz.families.second_order.theory import Stopping
from dpviz.problems.nonconvex.symmetric import Shape
from tests.families.second_order import noise_table
from tests.families.second_order.noise_table import exact_log_chance

SIMULATED = {2: 200_000, 10: 20_000, 54: 4000}


def simulated(d: int, shape: Shape, draws: int) -> np.ndarray:
    drawn = np.random.default_rng(7).standard_normal((draws, d, d))
    if shape == "goe":
        matrices = (drawn + drawn.transpose(0, 2, 1)) / 2
    else:
        matrices = np.triu(drawn) + np.triu(drawn, 1).transpose(0, 2, 1)
    return np.linalg.eigvalsh(matrices)[:, -1]


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["goe", "upper"])
@pytest.mark.parametrize("d", SIMULATED)
def test_the_chance_is_that_of_simulated_noise(d: int, shape: Shape) -> None:
    """At the quantiles of the simulation: four standard errors of a share, and what the table may be off."""
    largest = simulated(d, shape, SIMULATED[d])
    allowed = 0.0005 if shape == "goe" else 0.006
    for share in (0.01, 0.1, 0.32, 0.5, 0.7, 0.95):
        found = math.exp(log_chance(d, shape, float(np.quantile(largest, share))))
        assert found == pytest.approx(share, abs=allowed + 4 * math.sqrt(share * (1 - share) / len(largest)))


def test_two_columns_have_a_closed_form() -> None:
    """λ_max = a + r, with a normal and r a Rayleigh variable, both of variance ½ in each coordinate."""
    for level in (-0.5, 0.5, 0.9, 2.0):

        def density(r: float, at: float = level) -> float:
            return float(2 * r * math.exp(-r * r) * ndtr((at - r) * math.sqrt(2)))

        exact = quad(density, 0, 12)[0]
        assert math.exp(exact_log_chance(2, level)) == pytest.approx(exact, abs=1e-10)
        assert math.exp(log_chance(2, "goe", level)) == pytest.approx(exact, abs=5e-4)
    for shape in ("goe", "upper"):
        assert log_chance(1, shape, 0.7) == pytest.approx(math.log(ndtr(0.7)), abs=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize("d", [2, 7, 10, 25, 54, 150])
def test_the_table_is_within_what_it_says_of_the_exact_chance_and_the_normal_one_is_not(d: int) -> None:
    """0.32, 0.40 and 0.44 at d = 2, 10 and 54 by Tracy's and Widom's mean and deviation, where it is one half."""
    levels = np.linspace(0.2, 1.3, 23) * math.sqrt(2 * d)
    exact = np.exp([exact_log_chance(d, level) for level in levels.tolist()])
    table = np.exp([log_chance(d, "goe", level) for level in levels.tolist()])
    assert np.abs(exact - table).max() < 5e-4
    median = float(brentq(lambda level: log_chance(d, "goe", level) - math.log(0.5), levels[0], levels[-1]))
    mean, deviation = 2 * math.sqrt(d) - 1.2065 * d ** (-1 / 6), 1.27 * d ** (-1 / 6)
    normal = ndtr((median * math.sqrt(2) - mean) / deviation)
    assert normal < 0.47 and {2: 0.32, 10: 0.40, 54: 0.44}.get(d, normal) == pytest.approx(normal, abs=0.01)
    stopping = Stopping(100, d, "goe", 0.0, 1.0, 1.0, median)
    assert stopping.waiting_time == pytest.approx(2.0, abs=0.01)


@pytest.mark.slow
def test_the_file_is_what_the_program_writes() -> None:
    """The quantiles of some sizes again, to rounding."""
    even, same = np.load(noise_spectrum._FILE)
    for d in (1, 4, 20):
        place = noise_spectrum._SIZES.tolist().index(d)
        assert noise_table.exact(d) == pytest.approx(even[place], abs=1e-6)
    assert noise_table.simulated(100, even[-3]) == pytest.approx(same[-3], abs=1e-6)
