"""The noise of line searches: what one of them may get wrong, and how often (THEORY.md, 5.4)."""

import math
from dataclasses import dataclass

from scipy.optimize import brentq


@dataclass(frozen=True)
class Searching:
    """The noise of the sparse vectors of a run.

    epsilon : of each. sensitivity : 2B/n, of a query per length of the direction. candidates : steps of one search, at
    most. allowed : by how much noise may turn a query, per length of the direction.
    """

    epsilon: float
    sensitivity: float
    candidates: int
    allowed: float

    def error(self, failure: float) -> float:
        """q_f: no candidate of one search seems larger than it is, beside the threshold, by more than this times the
        length of the direction, but with probability `failure` at most."""
        return self.sensitivity / self.epsilon * search_quantile(self.candidates, failure)


def search_quantile(candidates: int, failure: float) -> float:
    """By how much, in units of Δ/ε, the noise of the values of a sparse vector exceeds that of its threshold, anywhere
    among so many values, with probability `failure` at most: a union bound over the values.

    Laplace noise of scales a = 2/ε₂ on a value and b = 1/ε₁ on the threshold, ε₁ : ε₂ = 1 : 2^{2/3}: the difference
    exceeds z > 0 with probability (a² e^{-z/a} - b² e^{-z/b})/(2(a² - b²)).
    """
    b = 1 + 2 ** (2 / 3)
    a = 2 * b / 2 ** (2 / 3)
    each = min(failure / candidates, 0.5)

    def above(z: float) -> float:
        return (a**2 * math.exp(-z / a) - b**2 * math.exp(-z / b)) / (2 * (a**2 - b**2)) - each

    most = a * math.log(a**2 / (a**2 - b**2) / (2 * each)) + 1  # where the first term alone is below
    return float(brentq(above, 0.0, most))
