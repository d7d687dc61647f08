"""Rows that belong to users: which train a model, which validate it, which features are used, means over a user."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpviz.datasets.base import Dataset, DatasetFacts, DatasetSpecification
from dpviz.datasets.users import UserDataset, UserFacts


def user_count(facts: DatasetFacts) -> int:
    """Users of a table; every row is one where nothing is said of users."""
    return facts.users if isinstance(facts, UserFacts) else facts.n


def chosen_features(p: int, most: int) -> np.ndarray:
    """Which of p features are used: all, or `most` of them, the same whenever asked."""
    if p <= most:
        return np.arange(p)
    return np.sort(np.random.default_rng(0).permutation(p)[:most])


@dataclass(frozen=True, eq=False)
class Users:
    """n users and their rows. n : their number. places : (rows,) whose each row is; None: row i is user i's."""

    n: int
    places: np.ndarray | None = None

    def means(self, values: np.ndarray) -> np.ndarray:
        """(P, n, ...) the means over each user's rows of values (P, rows, ...); 0 of a user without rows."""
        if self.places is None:
            return values
        order, counts = np.argsort(self.places, kind="stable"), np.bincount(self.places, minlength=self.n)
        some = counts > 0
        means = np.zeros((len(values), self.n, *values.shape[2:]))
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.add.reduceat(values[:, order], (np.cumsum(counts) - counts)[some], axis=1)
            means[:, some] = sums / counts[some].reshape(-1, *[1] * (values.ndim - 2))
        return means


@dataclass(frozen=True, eq=False)
class Rows:
    """Features (rows, p), targets (rows,), and the users whose rows they are."""

    features: np.ndarray
    targets: np.ndarray
    users: Users


def loaded(data: DatasetSpecification, tables: Mapping[str, np.ndarray]) -> tuple[Dataset, np.ndarray]:
    """A data set, and whose each of its rows is (n,)."""
    found = data.load(tables)
    return found, found.users if isinstance(found, UserDataset) else np.arange(found.facts.n)


def rows_of(
    features: np.ndarray, targets: np.ndarray, places: np.ndarray, chosen: np.ndarray, most: int | None = None
) -> Rows:
    """The rows of the chosen users, who are numbered in that order.

    features (rows, p), targets (rows,), places (rows,) whose each row is, chosen (k,) different users. most : rows of a
        user that count, spread over those that there are; None: all.
    """
    numbers = np.full(max(int(places.max(initial=0)), int(chosen.max(initial=0))) + 1, -1)
    numbers[chosen] = np.arange(len(chosen))
    mine = numbers[places]
    order = np.argsort(mine, kind="stable")[np.count_nonzero(mine < 0) :]
    if most is not None:
        counts = np.bincount(mine[order], minlength=len(chosen))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        each = np.repeat(counts, counts)
        step = np.minimum(most, each)  # rank j is kept where ⌊j k/c⌋ takes a new value, k of c times
        order = order[(rank == 0) | (rank * step // each > (rank - 1) * step // each)]
    alone = np.array_equal(mine[order], np.arange(len(chosen)))  # one row each
    return Rows(features[order], targets[order], Users(len(chosen), None if alone else mine[order]))
