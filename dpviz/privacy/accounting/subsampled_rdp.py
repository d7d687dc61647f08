"""Rényi divergences of Gaussian noise on a random batch: amplified by sampling, at any order above 1.

With r(z) = 1 + q (e^(μz - μ²/2) - 1), q = m/n, and z standard normal, e^((α-1) D_α) is

- E r^α for Poisson batches under add/remove-one. Exact: of the two directions, removing a row is the worse one, at
  every order, fractional ones included (Mironov, Talwar, Zhang 2019, theorem 5 and section 3.3);
- 1 + E [(r^(α-1) - 1)(r - r^(1-α)); r > 1] for batches without replacement under replace-one. An upper bound: the
  divergence of the pair whose profile is q δ(ln(1 + (e^ε - 1)/q)) for ε ≥ 0 and its mirror image below, which dominates
  the batch (Balle, Barthe, Gaboardi 2018; Zhu, Dong, Wang 2022). For a pair with profile δ and its mirror image,
  e^((α-1) D_α) - 1 = α (α-1) ∫ (e^((α-1)ε) + e^(-αε)) δ(ε) dε over ε > 0, whose inner integral is taken here. It is
  below the bound of Wang, Balle, Kasiviswanathan 2019, theorem 9, and needs no whole orders.

Both integrands are positive, so nothing cancels, and smooth on panels of Gauss's rule. A ρ does not exist: large orders
find the row in the batch as if there were no sampling, so D_α/α grows back to that of the whole table.
"""

import math
from functools import lru_cache
from typing import Literal

import numpy as np

from dpviz.privacy.accounting.closed_forms import Floats, exp_rest

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = 12.0  # standard deviations on either side of the modes, which lie between 0 and αμ: outside is less than 1e-31
_MAX_PRODUCT = 400.0  # α μ up to which the integral is computed; beyond, a simple bound is nearly exact
_MAX_MU = 20.0  # likewise: the range grows with μ, and the privacy spent is beyond any use
_MIN_MU = 1e-9  # a smaller one is less than rounding errors
_BLOCK = 8  # orders that share one range of integration


def gaussian(kind: Literal["wor", "poisson"], q: float, mu: Floats, orders: Floats) -> Floats:
    """Return upper bounds (len(mu), len(orders)) on the Rényi divergence of Gaussian releases on batches of share q.

    mu : (k,) of each release without sampling, positive, may be infinite. orders : above 1, any order.
    Relative error 1e-12, upwards; of "poisson" 1e-14/(α - 1), if that is more.
    """
    mu, orders = np.asarray(mu, dtype=float), np.asarray(orders, dtype=float)
    return np.array([_single(kind, q, value, tuple(orders.tolist())) for value in mu.tolist()])


@lru_cache(4096)
def _single(kind: str, q: float, mu: float, orders: tuple[float, ...]) -> Floats:
    """Return the bounds of `gaussian` for one μ; (len(orders),), read-only and cached."""
    a = np.array(orders)
    if mu == math.inf:
        return np.full(len(a), math.inf)
    unsampled, mu = a * mu**2 / 2, max(mu, _MIN_MU)
    divergence = _minkowski_bound(kind, q, mu, a)
    near = np.flatnonzero((a * mu <= _MAX_PRODUCT) & (mu <= _MAX_MU))
    near = near[np.argsort(a[near])]
    for start in range(0, len(near), _BLOCK):
        block = near[start : start + _BLOCK]
        divergence[block] = np.logaddexp(0.0, _log_excess(kind, q, mu, a[block]) + 1e-12 + 1e-14 / (a[block] - 1))
    divergence = np.minimum(divergence / (a - 1), unsampled)  # a batch never tells more than the table
    divergence.setflags(write=False)
    return divergence


def _minkowski_bound(kind: str, q: float, mu: float, orders: Floats) -> Floats:
    """Return an upper bound on (α-1) D_α at each order without an integral, by Minkowski's inequality: (E r^α)^(1/α) ≤
    1 - q + q e^((α-1) μ²/2); and r^(1-α) ≤ 1 ≤ E r^α."""
    size = (orders - 1) * mu**2 / 2
    norm = np.where(size < 30, np.log1p(q * np.expm1(np.minimum(size, 30.0))), np.logaddexp(0.0, size + math.log(q)))
    return orders * norm + (math.log(2) if kind == "wor" else 0.0)


def _log_excess(kind: str, q: float, mu: float, orders: Floats) -> Floats:
    """Return ln(e^((α-1) D_α) - 1) at each order, (k,), by Gauss's rule on panels."""
    low, high = mu / 2 if kind == "wor" else -_REACH, float(orders.max()) * mu + _REACH
    panels = math.ceil((high - low) * max(0.5, mu / 2))  # no longer than 2, nor than ln r takes to bend
    half = (high - low) / panels / 2
    z = (low + half * (2 * np.arange(panels)[:, None] + 1 + _NODES)).ravel()
    log_mass = -(z**2) / 2 + np.log(np.tile(_WEIGHTS, panels)) + math.log(half / math.sqrt(2 * math.pi))
    u = mu * z - mu**2 / 2
    y = np.where(u < 30, np.log1p(q * np.expm1(np.minimum(u, 30.0))), np.logaddexp(math.log1p(-q), math.log(q) + u))
    terms = (_log_wor if kind == "wor" else _log_poisson)(y, orders[:, None]) + log_mass
    top = terms.max(axis=1)
    return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))


def _log_wor(y: Floats, orders: Floats) -> Floats:
    """Return ln((r^(α-1) - 1)(r - r^(1-α))) of r = e^y > 1."""
    size = (orders - 1) * y
    return np.asarray(size + y + np.log(np.expm1(-size) * np.expm1(-orders * y)))


def _log_poisson(y: Floats, orders: Floats) -> Floats:
    """Return ln(r^α - 1 - α (r - 1)) of r = e^y, with the same expectation as r^α - 1 because E r = 1."""
    size = orders * y
    near = exp_rest(np.minimum(size, 1.0)) - orders * exp_rest(np.minimum(y, 1.0))
    far = np.log1p(-np.exp(-np.maximum(size, 1.0)) * (1 + orders * np.expm1(np.clip(y, 0.0, 700.0))))
    with np.errstate(divide="ignore"):
        return np.where(size < 1.0, np.log(np.maximum(near, 0.0)), size + far)
