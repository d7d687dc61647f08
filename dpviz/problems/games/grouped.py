"""Games of a model against weighted groups: the actual loss of each group, and the loss that the game uses for it.

The game cannot use a group's own mean: the number of rows of a group depends on the data, so one row would move the
mean by an amount that no declaration bounds. It divides by the declared share instead, and so uses each group's mean
times actual share / declared share. The classes here read raw data: diagnostics, not private.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from dpviz.datasets.groups import GroupedDataset
from dpviz.errors import UserError
from dpviz.privacy import events, ledger, releases
from dpviz.privacy.mechanisms import Mechanisms, Purpose, drawn_seed
from dpviz.problems.base import Metric
from dpviz.problems.games.games import SlicedGame

# ---------------------------------------------------------------- shares of the groups that are not declared but bought
# Shares determine the weight of a group in the game, and the noise that the game needs (a row of a group weighs
# 1/share); wrong ones never break privacy.

COST = 0.05  # default ε of a release
SMALLEST = 0.02  # default of the smallest share of a group (families/mirror_descent/THEORY.md, section 4.4)


def released(groups: np.ndarray, group_count: int, epsilon: float, seed: int | None = None) -> np.ndarray:
    """Release (G,) the number of rows in every group with Laplace noise of scale 2/ε, at the cost `epsilon`; private.

    groups : (n,) the index of each row's group. A row is in exactly one, so replacing it changes two counts by 1:
        sensitivity 2 in the ℓ1 norm. Noisy counts may be negative; see `as_shares`.
    seed : None draws the noise from the operating system's randomness, so that it cannot be repeated and subtracted.

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
    """Return shares (G,) in proportion to counts, which may be negative; none is below `smallest`, and they sum to 1.

    smallest : capped at 1/G.
    """
    smallest = min(smallest, 1 / len(counts))
    weights = np.maximum(counts, 0.0)
    is_low = np.zeros(len(counts), dtype=bool)
    while True:
        remaining, total = 1 - smallest * is_low.sum(), weights[~is_low].sum()
        shares = np.where(
            is_low, smallest, weights * remaining / total if total > 0 else remaining / max((~is_low).sum(), 1)
        )
        is_below = (shares < smallest * (1 - 1e-12)) & ~is_low
        if not is_below.any():
            return tuple(shares.tolist())
        is_low |= is_below


# ---------------------------------------------------------------------------------------------- the loss of every group

WORST_GROUP = Metric("worst_group_loss", "Highest mean loss of a group", headline=4)
CLOSE = 0.1  # relative: declared shares this close to the actual ones count as right


class Rates(NamedTuple):
    """Predictions of R models in each of the G groups and, last, in all rows; each (R, G + 1), nan without such rows.

    error : share of wrong predictions; selection : share predicted positive; true_positive : share predicted positive
        among the rows whose label is positive.
    """

    error: np.ndarray
    selection: np.ndarray
    true_positive: np.ndarray


class GroupedGame(SlicedGame):
    """A game whose second player weights the groups of a table.

    groups : names; shares : (G,) declared; counts : (G,) actual rows of each group, a diagnostic.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (*SlicedGame.metrics, WORST_GROUP)

    def __init__(self, data: GroupedDataset) -> None:
        self.groups = data.facts.groups
        self.shares = np.array(data.facts.shares)
        self.counts = np.bincount(data.groups, minlength=len(self.groups))
        self._features, self._labels, self._groups = data.features, data.labels, data.groups
        self._row_weights = 1 / self.shares[data.groups]

    @abstractmethod
    def group_losses(self, x: np.ndarray) -> np.ndarray:
        """Return (R, G) the groups' losses in the game at x (R, d_x): mean losses times actual share / declared
        share."""

    @abstractmethod
    def best_in_game(self) -> np.ndarray:
        """Return (1, d_x) the strategy with the smallest maximum of `group_losses`: the solution of the game without
        privacy."""

    @abstractmethod
    def fairest(self) -> np.ndarray:
        """Return (1, d_x) the strategy with the smallest maximum over the groups of their mean loss."""

    @abstractmethod
    def best_on_average(self) -> np.ndarray:
        """Return (1, d_x) the strategy with the smallest mean loss over all rows, in disregard of groups."""

    def rates(self, x: np.ndarray) -> Rates | None:
        """Return the rates of the models x (R, d_x); None where they predict no classes."""
        return None

    def correct(self, x: np.ndarray) -> np.ndarray | None:
        model_rates = self.rates(x)
        return None if model_rates is None else 1 - model_rates.error[:, -1]

    def majority(self) -> Rates | None:
        """Return the rates (1, G + 1) of the constant guess of the more frequent class; None where no classes are
        predicted."""
        return None

    @property
    def found(self) -> np.ndarray:
        """(G,) the groups' actual shares of the rows."""
        return self.counts / self.counts.sum()

    @property
    def declared(self) -> np.ndarray:
        """(G,) the declared shares, scaled so that those of the groups with rows sum to 1.

        So a share that is kept for other groups, without rows, changes no order.
        """
        return self.shares / self.shares[self.counts > 0].sum()

    @property
    def shares_are_right(self) -> bool:
        """True if `declared` is within `CLOSE` of `found` in all groups with rows."""
        present = self.counts > 0
        return bool((np.abs(self.declared[present] / self.found[present] - 1) <= CLOSE).all())

    def mean_losses(self, x: np.ndarray) -> np.ndarray:
        """Compute (R, G + 1) the mean loss in each group and, last, in all rows; nan for a group without rows."""
        total = self.group_losses(x) * self.shares
        with np.errstate(divide="ignore", invalid="ignore"):
            means = total * self.counts.sum() / self.counts
        return np.concatenate([means, total.sum(axis=1, keepdims=True)], axis=1)

    def highest_mean(self, x: np.ndarray) -> np.ndarray:
        """Compute (R,) the highest mean loss of a group that has rows."""
        return np.nanmax(self.mean_losses(x)[:, :-1], axis=1)

    @property
    def _to_means(self) -> np.ndarray:
        """(G,) the factor from `group_losses` to mean losses; 0 for a group without rows."""
        return np.where(self.counts > 0, self.shares / np.maximum(self.found, 1e-300), 0.0)


def rates(positive: np.ndarray, labels: np.ndarray, groups: np.ndarray, group_count: int) -> np.ndarray:
    """Compute (3, G + 1) error, selection and true-positive rate of one model, as in `Rates`.

    positive : (n,) bool, its predictions; labels : (n,) ±1; groups : (n,) indices.
    """

    def counts(rows: np.ndarray) -> np.ndarray:
        by_group = np.bincount(groups[rows], minlength=group_count)
        return np.append(by_group, by_group.sum())

    is_positive = labels > 0
    totals = counts(np.ones(len(labels), dtype=bool))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array(
            [
                counts(positive != is_positive) / totals,
                counts(positive) / totals,
                counts(positive & is_positive) / counts(is_positive),
            ]
        )
