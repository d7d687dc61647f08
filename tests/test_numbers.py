"""One way to write numbers, on all pages and charts."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.numbers import duration, rounded_up, short, short_down, short_up
from tests.bounds import number as read

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
    ("number", "down", "up"),
    [
        (4.8911, "4.89", "4.9"),
        (4.89, "4.89", "4.89"),
        (0.1 + 0.2, "0.3", "0.3"),  # floating-point noise is no bound
        (0.3 + 1e-6, "0.3", "0.301"),
        (-4.8911, "-4.9", "-4.89"),
        (1.2341e-6, "1.23×10⁻⁶", "1.24×10⁻⁶"),
        (99.99, "99.9", "100"),
        (1_234_567, "1,234,567", "1,234,567"),
        (np.float32(0.25), "0.25", "0.25"),
        (0.0, "0", "0"),
        (math.inf, "∞", "∞"),
        (1.7976931348623157e308, "1.79×10³⁰⁸", "∞"),
        (5e-324, "4.94×10⁻³²⁴", "4.94×10⁻³²⁴"),
        (math.nan, "nan", "nan"),
    ],
)
def test_a_bound_is_rounded_away_from_what_it_bounds(number: float, down: str, up: str) -> None:
    assert (short_down(number), short_up(number)) == (down, up)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.floats(1e-300, 1e300), st.sampled_from([-1, 1]), st.integers(2, 9))
def test_a_number_lies_between_its_two_roundings_and_no_digit_is_given_away(
    size: float, sign: int, digits: int
) -> None:
    number = sign * size
    low, high = read(short_down(number, digits)), read(short_up(number, digits))
    assert low - 1e-9 * size <= number <= high + 1e-9 * size
    assert high - low <= 1.0001 * size * 10.0 ** (1 - digits) + 1e-9 * size  # one unit of the last digit
    assert rounded_up(number, digits) == high
    exact = float(f"{number:.{digits - 1}e}")  # a number that these digits tell stays
    assert short_up(exact, digits) == short_down(exact, digits) == short(exact, digits)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "less than a second"), (1.2, "1 second"), (8, "8 seconds"), (540, "9 minutes"), (7200, "2.0 hours")],
)
def test_times_are_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words
