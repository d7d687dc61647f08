"""The format of numbers and times on pages, in figures and in messages. Files have more digits."""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import SupportsFloat, SupportsIndex

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Relative size of a difference that counts as a rounding error: above the errors of floating-point sums, below the
# rounding of any accountant.
_NOISE = 1e-9
# Powers of ten: numbers from 0.0001 to below 10,000,000 are written without an exponent.
PLAIN_FROM, PLAIN_BELOW = -4, 7


def short(x: SupportsFloat | SupportsIndex, digits: int = 3) -> str:
    """Return a number as text: 1,000; 0.0514; 10⁻⁶; 1.23×10¹².

    Whole numbers (int) have all their digits, others at most `digits` significant digits and no needless zeros.
    """
    if not isinstance(x, float) and isinstance(x, SupportsIndex):  # in this order: the check for a protocol takes long
        return f"{x.__index__():,}"
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    mantissa, _, exponent = f"{x:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if x == 0 or PLAIN_FROM <= power < PLAIN_BELOW:
        rounded = float(f"{x:.{digits}g}")  # before "f" writes it, which would show all digits before the point
        return _trimmed(f"{rounded:,.{max(0, digits - 1 - power)}f}")
    mantissa = _trimmed(mantissa)
    factor = mantissa.removesuffix("1") if mantissa in ("1", "-1") else f"{mantissa}×"
    return f"{factor}10{str(power).translate(_SUPERSCRIPTS)}"


def short_up(x: SupportsFloat | SupportsIndex, digits: int = 3) -> str:
    """Return `short`, rounded up: for upper bounds, and for rows or noise that suffice."""
    return short(_rounded(x, digits, ROUND_CEILING), digits)


def short_down(x: SupportsFloat | SupportsIndex, digits: int = 3) -> str:
    """Return `short`, rounded down: for lower bounds, and for the ends of allowed ranges."""
    return short(_rounded(x, digits, ROUND_FLOOR), digits)


def near_zero_or(x: float, scale: float, write: Callable[[float], str] = short) -> str:
    """Return a number as text: "≈ 0" if it is not 0, but below 10⁻⁴ of `scale`, the size of the numbers around it; else
    `write(x)`."""
    return "≈ 0" if 0 < abs(x) < 1e-4 * abs(scale) else write(x)


def rounded_up(value: float, digits: int = 3) -> float:
    """Return a number rounded up to `digits` significant digits: for amounts that must suffice."""
    return float(_rounded(value, digits, ROUND_CEILING))


def about(seconds: float) -> str:
    """Return an estimated time in words: "less than a second", "about 8 seconds"."""
    return duration(seconds) if seconds < 1 else f"about {duration(seconds)}"


def duration(seconds: float) -> str:
    """Return a time in words: "less than a second", "8 seconds", "3 minutes", "2.5 hours"; it is in seconds below 90
    seconds, in minutes below 90 minutes."""
    if seconds < 1:
        return "less than a second"
    if seconds < 90:
        return f"{round(seconds)} second{'s' if round(seconds) != 1 else ''}"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _rounded(x: SupportsFloat | SupportsIndex, digits: int, direction: str) -> SupportsFloat | SupportsIndex:
    """Return a number rounded to `digits` significant digits in a direction, ROUND_CEILING or ROUND_FLOOR.

    If the nearest such number is within _NOISE, it is returned, so that 0.1 + 0.2 becomes 0.3. A whole number (int) is
    unchanged.
    """
    if not isinstance(x, float) and isinstance(x, SupportsIndex):
        return x
    x = float(x)
    nearest = float(f"{x:.{digits - 1}e}")
    if not math.isfinite(x) or abs(nearest - x) <= _NOISE * abs(x):
        return nearest
    exact = Decimal(x)
    last_digit = Decimal(1).scaleb(exact.adjusted() - digits + 1)  # the power of ten of the last digit that is kept
    return float(exact.quantize(last_digit, rounding=direction))


def _trimmed(text: str) -> str:
    """Return a number as text without needless zeros behind the point: "1.50" becomes "1.5"."""
    return text.rstrip("0").rstrip(".") if "." in text else text
