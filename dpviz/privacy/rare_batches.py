"""When a plan on random batches protects by luck alone: the row is rarely drawn, and shows almost surely when it is.

Sampling multiplies a guarantee by the chance that a row is in the batch. Taken to its end, a small chance pays for
releasing whole batches without noise: one row of 1000 in the clear is (0, 1/1000)-DP. Every accountant is right to
accept such a plan, and nobody should run it: whoever is drawn is not protected at all.
"""

import math
from typing import Literal, NoReturn

from scipy.special import ndtri

from dpviz.errors import UserError
from dpviz.privacy.budgets import Budget

ALMOST_SURELY = 0.9999  # the advantage (TPR - FPR) from which a release tells a row of its batch almost surely
_LEAST_DOUBT = 2 * math.exp(-100.0)  # no currency leaves less within its declared range


def most_inner(noise: Literal["laplace", "gaussian"], budget: Budget) -> float:
    """The largest ε of Laplace or μ of Gaussian noise on a batch that still hides a row of the batch.

    Beyond it, one release gives an attacker who knows the batch an advantage above ALMOST_SURELY, and above what the
    budget itself grants to anybody: a budget that promises nothing needs no guard.
    """
    doubt = max(min(1 - ALMOST_SURELY, budget.doubt()), _LEAST_DOUBT)
    # The advantage is 1 - e^(-ε/2) for Laplace noise and 2 Φ(μ/2) - 1 for Gaussian noise.
    return -2 * math.log(doubt) if noise == "laplace" else -2 * float(ndtri(doubt / 2))


def refuse() -> NoReturn:
    """Raises the UserError for a budget that only batches with too little noise would use up."""
    raise UserError(
        "This guarantee would hold only because the batch is rare: a given row is drawn so seldom that the budget "
        "allows releasing whole batches without any noise, or with so little that a row in the batch shows almost "
        "surely. Choose a larger m/n or a smaller budget: a smaller δ, far below 1/n, a smaller ε, ρ or μ, or a "
        "stricter attack bound.",
        title="This budget does not protect those who are drawn",
    )
