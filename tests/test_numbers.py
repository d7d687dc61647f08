"""One way to write numbers, on all pages and charts."""

import math
from pathlib import Path

import numpy as np
import pytest

from dpviz.numbers import duration, short

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1e-6, "10⁻⁶"),
        (1.234e-5, "1.23×10⁻⁵"),
        (-1e-6, "-10⁻⁶"),
        (0.0001, "0.0001"),
        (0.01, "0.01"),
        (0.0514312, "0.0514"),
        (2.0, "2"),
        (0.0, "0"),
        (1000.0, "1,000"),
        (1234.5, "1,230"),
        (100_000.0, "100,000"),
        (999_999.0, "1,000,000"),
        (9_999_999.0, "10⁷"),
        (1.23e12, "1.23×10¹²"),
        (1_234_567, "1,234,567"),
        (np.int64(1234), "1,234"),
        (np.float32(0.25), "0.25"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (math.nan, "nan"),
    ],
)
def test_a_number_is_short(number: float, words: str) -> None:
    assert short(number) == words


def test_more_digits_where_they_tell_something() -> None:
    assert short(1234.56, 4) == "1,235" and short(0.99999, 4) == "1" and short(1.2346e-9, 4) == "1.235×10⁻⁹"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "less than a second"), (1.2, "1 second"), (8, "8 seconds"), (540, "9 minutes"), (7200, "2.0 hours")],
)
def test_times_are_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
