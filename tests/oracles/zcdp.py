"""A second way to the ε of zCDP, which shares no code with the first: Newton's method for all ρ at once."""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpviz.privacy.accounting.closed_forms import Floats


def epsilon_curve(rho: ArrayLike, delta: float) -> Floats:
    """ε at δ of ρ-zCDP for an array of ρ.

    Every order α gives a valid ε, so an inexact best order errs on the safe side. With u = ln α it solves
    (e^u - 1)² ρ + u = ln(1/δ), convex in u: Newton's method from above.
    """
    rho = np.asarray(rho, float)
    safe, log_odds = np.clip(rho, 1e-300, 1e300), math.log(1 / delta)
    u = np.minimum(log_odds, np.log1p(np.sqrt(log_odds / safe)))
    for _ in range(12):
        a = np.expm1(u)
        u -= (a**2 * safe + u - log_odds) / (2 * a * (1 + a) * safe + 1)
    a = np.expm1(u)
    epsilon = (1 + a) * safe - np.log1p(1 / a) + (log_odds - u) / a
    return np.where(rho == 0, 0.0, np.where(rho < 1e300, np.maximum(epsilon, 0.0), np.inf))
