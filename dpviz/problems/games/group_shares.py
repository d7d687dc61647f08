"""Shares of the groups that are not declared but released, with a part of the budget.

Shares decide how much a group counts in the game, and how much noise the game needs (a row of a group weighs 1/share);
wrong ones never break privacy.
"""

import numpy as np

from dpviz.errors import UserError
from dpviz.privacy import events, ledger, releases
from dpviz.privacy.mechanisms import Mechanisms, Purpose, drawn_seed

COST = 0.05  # ε of a release, at first
SMALLEST = 0.02  # share that a group gets at least, at first (families/mirror_descent/THEORY.md, section 4.4)


def released(groups: np.ndarray, group_count: int, epsilon: float, seed: int | None = None) -> np.ndarray:
    """(G,) rows in every group with Laplace noise of scale 2/ε, in a release that costs `epsilon`; private.

    groups : (n,) the position of each row's group. A row is in exactly one, so replacing it changes two counts by 1:
        sensitivity 2 in the ℓ1 norm. The counts may come out negative; see `as_shares`.
    seed : None draws the noise from the operating system's randomness, so that nobody can repeat and subtract it.

    Raises UserError if epsilon is not positive.
    """
    if not epsilon > 0:
        raise UserError("Releasing the shares needs a positive part of the budget.", title="No budget for the shares")
    event = events.Laplace(epsilon)
    query = releases.Query(np.bincount(groups, minlength=group_count).astype(float)[None], 2.0, "l1")
    release = f"shares\n{epsilon!r}\n{group_count} of {len(groups)}"
    mechanisms = Mechanisms(ledger.Ledger(ledger.FixedEvents((event,)), 1), drawn_seed(seed), Purpose.FACTS, release)
    (noisy,) = mechanisms.laplace(query, event)
    return np.asarray(noisy)


def as_shares(counts: np.ndarray, smallest: float) -> tuple[float, ...]:
    """Shares (G,) in proportion to counts, which may be negative; none is below `smallest`, and they sum to 1.

    smallest : at most 1/G counts.
    """
    smallest = min(smallest, 1 / len(counts))
    weights = np.maximum(counts, 0.0)
    low = np.zeros(len(counts), dtype=bool)
    while True:
        left, total = 1 - smallest * low.sum(), weights[~low].sum()
        shares = np.where(low, smallest, weights * left / total if total > 0 else left / max((~low).sum(), 1))
        below = (shares < smallest * (1 - 1e-12)) & ~low
        if not below.any():
            return tuple(shares.tolist())
        low |= below
