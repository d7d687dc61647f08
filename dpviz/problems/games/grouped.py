"""Games of a model, or of strategies, against weighted groups: the shares of the groups, and their losses.

The game cannot use the mean loss of a group: its number of rows depends on the data, so one row would move the mean by
an amount that no declaration bounds. It divides by the declared share instead, and so uses each group's mean times
actual share / declared share. The classes here read raw data: what they compute are diagnostics, not private.
"""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from dpviz.datasets.groups import GroupedDataset
from dpviz.errors import UserError
from dpviz.privacy import events, ledger, releases
from dpviz.privacy.mechanisms import Mechanisms, Purpose, seed_or_random
from dpviz.problems.base import Metric
from dpviz.problems.games.games import SlicedGame

# ---------------------------------------------------------------- shares of the groups that are not declared but bought
# Shares determine the weight of a group in the game, and the noise that the game needs, as a row of a group has the
# weight 1/share. Wrong shares never break privacy.

COST = 0.05  # default ε of a release of the shares
SMALLEST = 0.02  # default of the smallest share of a group (families/mirror_descent/THEORY.md, section 4.4)


def release_counts(groups: np.ndarray, group_count: int, epsilon: float, seed: int | None = None) -> np.ndarray:
    """Return the numbers of rows (G,) in all groups with Laplace noise of scale 2/ε: a private release at the cost ε.

    A row is in exactly one group, so replacing it changes two counts by 1: the sensitivity is 2 in ℓ1. Noisy counts may
    be negative; `floored_shares` turns them into shares.
    groups : (n,) the index of each row's group. epsilon : ε.
    seed : of the noise; None draws the noise from the operating system's randomness, so that it cannot be repeated and
        subtracted.

    Raises UserError if epsilon is not positive.
    """
    if not epsilon > 0:
        raise UserError("Releasing the shares needs a positive part of the budget.", title="No budget for the shares")
    event = events.Laplace(epsilon)
    query = releases.Query(np.bincount(groups, minlength=group_count).astype(float)[None], 2.0, "l1")
    release = f"shares\n{epsilon!r}\n{group_count} of {len(groups)}"  # another text gets other noise from the same seed
    terms = ledger.FixedEvents((event,))
    mechanisms = Mechanisms(
        ledger.Ledger(terms, replicates=1), seed_or_random(seed), noise=Purpose.FACTS, release=release
    )
    (noisy,) = mechanisms.laplace(query, event)
    return np.asarray(noisy)


def floored_shares(counts: np.ndarray, smallest: float) -> tuple[float, ...]:
    """Return shares (G,) that sum to 1, in proportion to counts (G,), which may be negative, except that no share is
    below `smallest`, or below 1/G if that is less.

    Raising one share lowers the others, which may then be too small as well; so this is repeated until none is.
    """
    smallest = min(smallest, 1 / len(counts))
    weights = np.maximum(counts, 0.0)
    is_low = np.zeros(len(counts), dtype=bool)  # groups that get the smallest share
    while True:
        remaining, total = 1 - smallest * is_low.sum(), weights[~is_low].sum()
        # If no count is positive, groups that are not low get equal shares; if all are low, this number is not used.
        proportional_shares = weights * remaining / total if total > 0 else remaining / max((~is_low).sum(), 1)
        shares = np.where(is_low, smallest, proportional_shares)
        is_below = (shares < smallest * (1 - 1e-12)) & ~is_low  # by more than rounding
        if not is_below.any():
            return tuple(shares.tolist())
        is_low |= is_below


# ---------------------------------------------------------------------------------------------- the loss of every group

WORST_GROUP = Metric("worst_group_loss", "Highest mean loss of a group", headline=4)
CLOSE = 0.1  # relative: declared shares this close to the actual ones count as right


class Rates(NamedTuple):
    """Rates of the predictions of R models in each of G groups and, last, in all rows; (R, G + 1), NaN for a group
    without rows.

    error : share of wrong predictions. selection : share of rows that are predicted positive. true_positive : the same
        share among the rows whose label is positive.
    """

    error: np.ndarray
    selection: np.ndarray
    true_positive: np.ndarray


class GroupedGame(SlicedGame):
    """A game whose second player chooses weights of the groups of a table.

    groups : names of the groups. shares : (G,) their declared shares. counts : (G,) their actual numbers of rows, a
        diagnostic.
    """

    metrics: ClassVar[tuple[Metric, ...]] = (*SlicedGame.metrics, WORST_GROUP)

    def __init__(self, data: GroupedDataset) -> None:
        self.groups = data.facts.groups
        self.shares = np.array(data.facts.shares)
        self.counts = np.bincount(data.groups, minlength=len(self.groups))
        self._features, self._labels, self._groups = data.features, data.labels, data.groups
        self._row_weights = 1 / self.shares[data.groups]

    def _membership(self, rows: slice) -> np.ndarray:
        """Return (b, G) for a block of b rows 1/share in the column of each row's group, and 0 in the others."""
        groups = self._groups[rows]
        membership = np.zeros((len(groups), len(self.groups)))
        membership[np.arange(len(groups)), groups] = self._row_weights[rows]
        return membership

    @abstractmethod
    def group_losses(self, x: np.ndarray) -> np.ndarray:
        """Compute the groups' losses in the game (R, G) at x (R, d_x): mean losses times actual share / declared share.

        They are diagnostics.
        """

    @property
    @abstractmethod
    def best_in_game(self) -> np.ndarray:
        """The strategy (1, d_x) with the smallest maximum of `group_losses`: the solution of the game without
        privacy."""

    @property
    @abstractmethod
    def fairest(self) -> np.ndarray:
        """The strategy (1, d_x) for which the largest of the groups' mean losses is smallest."""

    @property
    @abstractmethod
    def best_on_average(self) -> np.ndarray:
        """The strategy (1, d_x) with the smallest mean loss over all rows, regardless of groups."""

    def rates(self, x: np.ndarray) -> Rates | None:
        """Return the rates of the models x (R, d_x); None, as here, if they predict no classes."""
        return None

    def correct_share(self, x: np.ndarray) -> np.ndarray | None:
        """Compute the share of rows (R,) whose class the models x (R, d_x) predict; None if they predict no classes."""
        model_rates = self.rates(x)
        return None if model_rates is None else 1 - model_rates.error[:, -1]

    def majority(self) -> Rates | None:
        """Return the rates (1, G + 1) of always predicting the more frequent class; None, as here, if models predict no
        classes."""
        return None

    @property
    def actual_shares(self) -> np.ndarray:
        """The groups' actual shares (G,) of the rows."""
        return self.counts / self.counts.sum()

    @property
    def declared_shares(self) -> np.ndarray:
        """The declared shares (G,), scaled so that those of the groups with rows sum to 1.

        So they can be compared with the actual shares, even if some share is declared for groups without rows.
        """
        return self.shares / self.shares[self.counts > 0].sum()

    @property
    def shares_are_right(self) -> bool:
        """True if in all groups with rows the declared share differs from the actual one by at most the relative
        difference CLOSE."""
        has_rows = self.counts > 0
        return bool((np.abs(self.declared_shares[has_rows] / self.actual_shares[has_rows] - 1) <= CLOSE).all())

    def mean_losses(self, x: np.ndarray) -> np.ndarray:
        """Compute the mean loss in each group and, last, in all rows, (R, G + 1), at x (R, d_x); NaN for a group
        without rows."""
        sums = self.group_losses(x) * self.shares  # of the losses of a group's rows, over n
        with np.errstate(divide="ignore", invalid="ignore"):
            means = sums * self.counts.sum() / self.counts
        return np.concatenate([means, sums.sum(axis=1, keepdims=True)], axis=1)

    def highest_mean_loss(self, x: np.ndarray) -> np.ndarray:
        """Compute the largest mean loss (R,) of a group with rows, at x (R, d_x)."""
        return np.nanmax(self.mean_losses(x)[:, :-1], axis=1)

    @property
    def _mean_factors(self) -> np.ndarray:
        """The factors (G,) that turn `group_losses` into mean losses; 0 for a group without rows."""
        return np.where(self.counts > 0, self.shares / np.maximum(self.actual_shares, 1e-300), 0.0)  # avoids 0/0


def rates(predictions: np.ndarray, labels: np.ndarray, groups: np.ndarray, group_count: int) -> np.ndarray:
    """Compute the three `Rates` of one model in each of G groups and, last, in all rows; (3, G + 1).

    predictions : (n,) bool, True for rows that the model predicts positive. labels : (n,) ±1. groups : (n,) indices of
        the rows' groups.
    """

    def counts(rows: np.ndarray) -> np.ndarray:
        """Count the rows that are True in `rows` (n,), in each group and in all; (G + 1,)."""
        by_group = np.bincount(groups[rows], minlength=group_count)
        return np.append(by_group, by_group.sum())

    is_positive = labels > 0
    totals = counts(np.ones(len(labels), dtype=bool))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array(
            [
                counts(predictions != is_positive) / totals,
                counts(predictions) / totals,
                counts(predictions & is_positive) / counts(is_positive),
            ]
        )
