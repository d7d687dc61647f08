"""The numbers of a text that it says something is at most, or at least."""

import re

_NUMBER = r"(∞|-?[\d,]*\.?\d+(?:×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?|10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)"
_POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def number(text: str) -> float:
    """A number as `dpviz.numbers.short` writes it."""
    if text == "∞":
        return float("inf")
    mantissa, ten, power = re.sub(r"^(-?)10(?=[⁻⁰¹²³⁴⁵⁶⁷⁸⁹])", r"\g<1>1×10", text.replace(",", "")).partition("×10")
    return float(f"{mantissa}e{power.translate(_POWERS)}") if ten else float(mantissa)


def after(words: str, text: str) -> list[float]:
    """All numbers that follow such words."""
    return [number(found) for found in re.findall(rf"{words}\s*\**{_NUMBER}", text)]
