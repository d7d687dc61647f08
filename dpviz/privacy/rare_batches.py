"""When a plan on random batches protects by luck alone: the row is rarely drawn, and shows almost surely when it is.

Sampling multiplies a guarantee by the chance that a row is in the batch. Taken to its end, a small chance pays for
releasing whole batches without noise: one row of 1000 in the clear is (0, 1/1000)-DP. Every accountant is right to
accept such a plan, and nobody should run it: whoever is drawn is not protected at all.
"""

import math
from typing import Literal, NoReturn

from scipy.special import ndtr, ndtri

from dpviz.errors import UserError
from dpviz.privacy import tradeoffs
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, ZeroConcentratedDP

ALMOST_SURELY = 0.9999  # the advantage (TPR - FPR) from which a release tells a row of its batch almost surely
_LEAST_DOUBT = 2 * math.exp(-100.0)  # no currency leaves less within its declared range


def most_inner(noise: Literal["laplace", "gaussian"], budget: Budget) -> float:
    """The largest ε of Laplace or μ of Gaussian noise on a batch that still hides a row of the batch.

    Beyond it, one release gives an attacker who knows the batch an advantage above ALMOST_SURELY, and above what the
    budget itself grants to anybody: a budget that promises nothing needs no guard.
    """
    doubt = max(min(1 - ALMOST_SURELY, _doubt(budget)), _LEAST_DOUBT)
    # The advantage is 1 - e^(-ε/2) for Laplace noise and 2 Φ(μ/2) - 1 for Gaussian noise.
    return -2 * math.log(doubt) if noise == "laplace" else -2 * float(ndtri(doubt / 2))


def _doubt(budget: Budget) -> float:
    """1 - the largest advantage that the budget allows, where possible without the rounding of advantages near 1."""
    if isinstance(budget, PureDP | ApproximateDP):
        certain = 1 - budget.delta if isinstance(budget, ApproximateDP) else 1.0
        return certain * 2 / (1 + math.exp(budget.epsilon))
    if isinstance(budget, GaussianDP):
        return 2 * float(ndtr(-budget.mu / 2))
    if isinstance(budget, ZeroConcentratedDP) and budget.rho > 10:  # 1 - tanh(ε/2) where ρ = ε tanh(ε/2) is nearly ε
        return 2 * math.exp(-budget.rho)
    return 1 - tradeoffs.budget_advantage(budget)


def refuse() -> NoReturn:
    """Raises the UserError for a budget that only batches with too little noise would use up."""
    raise UserError(
        "This guarantee would hold only because the batch is rare: a given row is drawn so seldom that the budget "
        "allows releasing whole batches without any noise, or with so little that a row in the batch shows almost "
        "surely. Choose a larger m/n or a smaller budget: a smaller δ, far below 1/n, a smaller ε, ρ or μ, or a "
        "stricter attack bound.",
        title="This budget does not protect those who are drawn",
    )
