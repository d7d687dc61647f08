"""Linear recursions: the same numbers as SciPy's filter, and as the definition."""

import numpy as np
import pytest
from scipy.signal import lfilter

from dpviz.privacy.accounting.closed_forms import recursion


@pytest.mark.parametrize("coefficients", [[0.9], [1.5, -0.6], [1.2, -0.3, 0.05], [1.9, -0.95]])
@pytest.mark.parametrize("count", [1, 2, 3, 400])
def test_a_recursion_is_a_filter_with_poles_only(coefficients: list[float], count: int) -> None:
    generator = np.random.default_rng(count)
    force, memory = generator.normal(size=count), generator.normal(size=len(coefficients))
    expected, _ = lfilter([1.0], [1.0, *(-c for c in coefficients)], force, zi=memory)
    given = force.copy()
    assert recursion(coefficients, given, memory.tolist()) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert np.array_equal(given, force), "what it is given stays as it is"


def test_one_that_overflows_says_so_by_inf_or_nan() -> None:
    values = recursion([-1e200], [1.0, 0.0, 0.0, 0.0])
    assert values[:2].tolist() == [1.0, -1e200] and not np.isfinite(values[2:]).any()
