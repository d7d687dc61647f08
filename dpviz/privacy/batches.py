"""Which rows are in a random batch: for each replicate from a generator of its own, whatever the others draw."""

from collections.abc import Sequence

import numpy as np


def without_replacement(generators: Sequence[np.random.Generator], m: int, n: int) -> np.ndarray:
    """(R, m) different rows of n, every set of m as likely as any other."""
    indices = np.empty((len(generators), m), dtype=np.int64)
    for row, generator in zip(indices, generators, strict=True):
        row[:] = generator.choice(n, m, replace=False, shuffle=False)
    return indices


def poisson(generators: Sequence[np.random.Generator], chance: float, table: int) -> tuple[np.ndarray, np.ndarray]:
    """Every one of the `table` rows takes part with probability `chance`, by itself: different sizes per replicate.

    Returns (R, largest size) rows, and the same shape in bool: which of them take part, as short batches are filled
    with row 0.
    """
    drawn = [  # first how many, then which: the same law as a coin for every row, and no coin for the others
        generator.choice(table, generator.binomial(table, chance), replace=False, shuffle=False)
        for generator in generators
    ]
    sizes = np.array([len(rows) for rows in drawn], dtype=np.int64)
    taken = np.arange(sizes.max(initial=0)) < sizes[:, None]
    indices = np.zeros(taken.shape, dtype=np.int64)
    indices[taken] = np.concatenate(drawn) if drawn else 0
    return indices, taken
