"""The texts of the audit page."""

from dpviz import resources
from dpviz.numbers import short_up
from dpviz.privacy.verification.implementation import Kind

TEXTS = resources.data(__package__, "texts.toml")
__getattr__ = resources.texts(__package__)
TESTS: dict[Kind, str] = TEXTS["TESTS"]


def chance(p: float) -> str:
    """Return a p-value as text, for a table."""
    if p == 0:
        return "impossible"
    return "1" if p >= 1 else short_up(p, 2)
