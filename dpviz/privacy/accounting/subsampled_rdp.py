"""Rényi divergences D_α of Gaussian noise on a random batch, amplified by sampling, at any order α above 1.

The noise has parameter μ = Δ₂/σ on a batch of m of the n rows; q = m/n. Let z be standard normal and r(z) = 1 + q
(e^(μz - μ²/2) - 1), the likelihood ratio of a mixture in which the row is in the batch with probability q to the noise
without the row. Then e^((α-1) D_α) is

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
# The integral over z is taken to this many standard deviations on either side of the modes of the integrand, which lie
# between 0 and αμ; less than 1e-31 is outside.
_REACH = 12.0
_MAX_PRODUCT = 400.0  # largest αμ for which the integral is computed; for larger ones a simple bound is nearly exact
_MAX_MU = 20.0  # largest such μ: the range of integration grows with μ, and more protects nothing in practice
_MIN_MU = 1e-9  # a smaller μ is replaced by this one, as its effect is below rounding errors
_BLOCK = 8  # number of orders that share one range of integration


@lru_cache(4096)
def gaussian(kind: Literal["wor", "poisson"], q: float, mu: float, orders: tuple[float, ...]) -> Floats:
    """Return upper bounds (len(orders),) on the Rényi divergences of a Gaussian release on random batches; read-only.

    kind : how batches are drawn: "wor", without replacement under replace-one, or "poisson", under add/remove-one.
    q : m/n, the share of the rows that are in a batch.
    mu : the μ = Δ₂/σ of the release on its batch; positive, may be infinite.
    orders : α, any numbers above 1.

    The bounds are above the formulas of the module by a relative error of 1e-12; with "poisson", of 1e-14/(α - 1) if
    that is larger.
    """
    alpha = np.array(orders)
    if mu == math.inf:
        return np.full(len(alpha), math.inf)
    unsampled = alpha * mu**2 / 2  # the divergence on the whole table
    mu = max(mu, _MIN_MU)
    scaled = _minkowski_bound(kind, q, mu, alpha)  # bounds on (α - 1) D_α
    integrable = np.flatnonzero((alpha * mu <= _MAX_PRODUCT) & (mu <= _MAX_MU))
    integrable = integrable[np.argsort(alpha[integrable])]  # so that similar orders are in one block
    for start in range(0, len(integrable), _BLOCK):
        block = integrable[start : start + _BLOCK]
        # Raised by the relative errors that are stated above.
        log_excess = _log_excess(kind, q, mu, alpha[block]) + 1e-12 + 1e-14 / (alpha[block] - 1)
        scaled[block] = np.logaddexp(0.0, log_excess)
    divergence = np.minimum(scaled / (alpha - 1), unsampled)  # sampling never makes it larger
    divergence.setflags(write=False)
    return divergence


def _minkowski_bound(kind: str, q: float, mu: float, orders: Floats) -> Floats:
    """Return an upper bound on (α-1) D_α at each order α, without an integral.

    By Minkowski's inequality (E r^α)^(1/α) ≤ 1 - q + q e^((α-1) μ²/2). Without replacement the integrand is r^α - 1 - r
    + r^(1-α) ≤ r^α, as r > 1, so e^((α-1) D_α) ≤ 1 + E r^α ≤ 2 E r^α.
    """
    exponent = (orders - 1) * mu**2 / 2
    # Above 30, where e^exponent is far larger than 1, the bound 1 + q e^exponent is used, which does not overflow.
    log_norm = np.where(
        exponent < 30, np.log1p(q * np.expm1(np.minimum(exponent, 30.0))), np.logaddexp(0.0, exponent + math.log(q))
    )
    return orders * log_norm + (math.log(2) if kind == "wor" else 0.0)


def _log_excess(kind: str, q: float, mu: float, orders: Floats) -> Floats:
    """Return ln(e^((α-1) D_α) - 1) at each order α, (k,): the logarithm of the integral over z of the integrand and the
    normal density, by Gauss's rule on panels of equal length."""
    # r > 1, the range of the integral for "wor", is z > μ/2.
    low, high = mu / 2 if kind == "wor" else -_REACH, float(orders.max()) * mu + _REACH
    panels = math.ceil((high - low) * max(0.5, mu / 2))  # of length 2/max(1, μ) at most, in which ln r is smooth
    half_panel = (high - low) / panels / 2  # the middle of panel i is at low + half_panel (2i + 1)
    z = (low + half_panel * (2 * np.arange(panels)[:, None] + 1 + _NODES)).ravel()
    log_weights = -(z**2) / 2 + np.log(np.tile(_WEIGHTS, panels)) + math.log(half_panel / math.sqrt(2 * math.pi))
    u = mu * z - mu**2 / 2
    log_r = np.where(u < 30, np.log1p(q * np.expm1(np.minimum(u, 30.0))), np.logaddexp(math.log1p(-q), math.log(q) + u))
    log_integrand = _log_wor if kind == "wor" else _log_poisson
    terms = log_integrand(log_r, orders[:, None]) + log_weights
    top = terms.max(axis=1)  # taken out of the sum, so that nothing overflows
    return np.asarray(top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))


def _log_wor(y: Floats, orders: Floats) -> Floats:
    """Return ln((r^(α-1) - 1)(r - r^(1-α))) for r = e^y > 1, the integrand for batches without replacement."""
    size = (orders - 1) * y  # r^(α-1) = e^size and r are taken out; (1 - r^(1-α)) (1 - r^-α) remains
    return np.asarray(size + y + np.log(np.expm1(-size) * np.expm1(-orders * y)))


def _log_poisson(y: Floats, orders: Floats) -> Floats:
    """Return ln(r^α - 1 - α (r - 1)) for r = e^y, the integrand for Poisson batches.

    It has the same expectation as r^α - 1, because E r = 1, and is nowhere negative.
    """
    size = orders * y
    # Near 0 it is g(αy) - α g(y) with g(x) = e^x - 1 - x, in which little cancels; otherwise r^α is taken out, and the
    # logarithm of 1 - r^-α (1 + α (r - 1)) remains. Each is limited where the other one is used, so that it is finite.
    near = exp_rest(np.minimum(size, 1.0)) - orders * exp_rest(np.minimum(y, 1.0))
    far = np.log1p(-np.exp(-np.maximum(size, 1.0)) * (1 + orders * np.expm1(np.clip(y, 0.0, 700.0))))
    with np.errstate(divide="ignore"):
        return np.where(size < 1.0, np.log(np.maximum(near, 0.0)), size + far)
