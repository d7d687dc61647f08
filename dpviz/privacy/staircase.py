"""A schedule of few different noises: as good as one in which all differ, and far quicker to account for."""

import numpy as np

from dpviz.privacy.accounting.closed_forms import Floats

LEVELS = 24  # different costs in a schedule; the sum of weighted variances is within 1 % of the optimum
MANY_LEVELS = 500  # it is within 1e-4 of the optimum


def levelled(weights: Floats, levels: int, order: float = 3.0) -> Floats:
    """(T,) weights > 0 of the steps of a schedule, rounded to at most `levels` different ones.

    Where a step's cost is its share of a budget, and shares are optimal, moving a share w by a small factor f loses
    w (f - 1)², whatever w is. So the logarithms are cut as a companding quantiser cuts (Panter and Dite 1951): the
    width of a level is in proportion to the density of the shares there to the power -1/3. Equal weights stay equal,
    and larger ones larger or equal.

    order : of the mean of its weights that a level is. The cubic one keeps the largest of a wide level, which matter,
    from getting too little.
    """
    distinct, back, counts = np.unique(np.asarray(weights, dtype=float), return_inverse=True, return_counts=True)
    if len(distinct) <= levels:
        return distinct[back]
    mass = counts * distinct
    gaps = np.diff(np.log(np.maximum(distinct, 1e-300)))
    lengths = ((mass[1:] + mass[:-1]) / 2) ** (1 / 3) * gaps ** (2 / 3)
    position = np.concatenate([[0.0], np.cumsum(lengths)])
    group = np.minimum((levels * (position / position[-1])).astype(int), levels - 1)
    means = (np.bincount(group, counts * distinct**order) / np.maximum(np.bincount(group, counts), 1)) ** (1 / order)
    return means[group][back]
