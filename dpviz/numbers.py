"""One way to write a number, or a time: on pages, in figures, in messages. Files have more digits."""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import SupportsFloat, SupportsIndex

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_NOISE = 1e-9  # of a number: more than sums of floating-point numbers err, less than any accountant rounds up
SMALLEST, LARGEST = -4, 7  # powers of ten: from 0.0001 to below 10,000,000 without an exponent


def short(x: SupportsFloat | SupportsIndex, digits: int = 3) -> str:
    """A number as readers see it: 1,000; 0.0514; 10⁻⁶; 1.23×10¹². Whole numbers (int) in full, others with at most
    `digits` significant digits and no needless zeros."""
    if not isinstance(x, float) and isinstance(x, SupportsIndex):  # in this order: the second takes long
        return f"{x.__index__():,}"
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "∞" if x > 0 else "-∞"
    mantissa, _, exponent = f"{x:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if x == 0 or SMALLEST <= power < LARGEST:
        return _trimmed(f"{float(f'{x:.{digits}g}'):,.{max(0, digits - 1 - power)}f}")
    mantissa = _trimmed(mantissa)
    factor = mantissa.removesuffix("1") if mantissa in ("1", "-1") else f"{mantissa}×"
    return f"{factor}10{str(power).translate(_SUPERSCRIPTS)}"


def short_up(x: SupportsFloat | SupportsIndex, digits: int = 3) -> str:
    """`short`, rounded up: an upper bound, and rows or noise that are enough."""
    return short(_rounded(x, digits, ROUND_CEILING), digits)


def short_down(x: SupportsFloat | SupportsIndex, digits: int = 3) -> str:
    """`short`, rounded down: a lower bound, and the end of what is allowed."""
    return short(_rounded(x, digits, ROUND_FLOOR), digits)


def beside(x: float, scale: float, write: Callable[[float], str] = short) -> str:
    """A number among others as large as `scale`: what is below 10⁻⁴ of it, but not 0, is about 0."""
    return "≈ 0" if 0 < abs(x) < 1e-4 * abs(scale) else write(x)


def rounded_up(value: float, digits: int = 3) -> float:
    """A number with so many digits, rounded up: for what is enough, as less would not be."""
    return float(_rounded(value, digits, ROUND_CEILING))


def about(seconds: float) -> str:
    """How long something will take: "less than a second", "about 8 seconds"."""
    return duration(seconds) if seconds < 1 else f"about {duration(seconds)}"


def duration(seconds: float) -> str:
    """A time in words: "less than a second", "8 seconds", "3 minutes"."""
    if seconds < 1:
        return "less than a second"
    if seconds < 90:
        return f"{round(seconds)} second{'s' if round(seconds) != 1 else ''}"
    return f"{round(seconds / 60)} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _rounded(x: SupportsFloat | SupportsIndex, digits: int, direction: str) -> SupportsFloat | SupportsIndex:
    """The next number of so many digits, or the one nearer than _NOISE: 0.1 + 0.2 is 0.3. A whole number stays."""
    if not isinstance(x, float) and isinstance(x, SupportsIndex):
        return x
    x = float(x)
    nearest = float(f"{x:.{digits - 1}e}")
    if not math.isfinite(x) or abs(nearest - x) <= _NOISE * abs(x):
        return nearest
    exact = Decimal(x)
    return float(exact.quantize(Decimal((0, (1,), exact.adjusted() - digits + 1)), rounding=direction))


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
