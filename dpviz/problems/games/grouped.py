"""Games of a model against weighted groups: what each group really loses, beside what the game plays for.

The game cannot use a group's own mean: how many rows a group has depends on the data, so one row would move the mean
by an amount that no declaration bounds. It divides by the declared share instead, and so sees each group's mean times
found share / declared share. Everything here reads raw data: diagnostics, not private.
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
# Shares decide how much a group counts in the game, and how much noise the game needs (a row of a group weighs
# 1/share); wrong ones never break privacy.

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


# ---------------------------------------------------------------------------------------------- the loss of every group

WORST_GROUP = Metric("worst_group_loss", "Highest mean loss of a group", headline=4)
CLOSE = 0.1  # relative: declared shares this close to the found ones are taken to be right


class Rates(NamedTuple):
    """What R models predict in each of the G groups and, last, in all rows; each (R, G + 1), nan without such rows.

    error : share of wrong predictions; selection : share predicted positive; true_positive : share predicted positive
    among the rows whose label is positive.
    """

    error: np.ndarray
    selection: np.ndarray
    true_positive: np.ndarray


class GroupedGame(SlicedGame):
    """A game whose second player weights the groups of a table.

    groups : names; shares : (G,) declared; counts : (G,) rows found in each group, a diagnostic.
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
        """(R, G) what the game plays for at x (R, d_x): mean losses times found share / declared share."""

    @abstractmethod
    def best_in_game(self) -> np.ndarray:
        """(1, d_x) the strategy with the smallest highest `group_losses`: what the game would find without privacy."""

    @abstractmethod
    def fairest(self) -> np.ndarray:
        """(1, d_x) the strategy with the smallest highest mean loss of a group."""

    @abstractmethod
    def best_on_average(self) -> np.ndarray:
        """(1, d_x) the strategy with the smallest mean loss over all rows, whatever it does to a group."""

    def rates(self, x: np.ndarray) -> Rates | None:
        """What the models x (R, d_x) predict; None where they predict no classes."""
        return None

    def correct(self, x: np.ndarray) -> np.ndarray | None:
        found = self.rates(x)
        return None if found is None else 1 - found.error[:, -1]

    def majority(self) -> Rates | None:
        """The same, (1, G + 1), of who always guesses the more frequent class; None where no classes are predicted."""
        return None

    @property
    def found(self) -> np.ndarray:
        """(G,) the groups' shares of the rows."""
        return self.counts / self.counts.sum()

    @property
    def declared(self) -> np.ndarray:
        """(G,) the declared shares, scaled so that those of the groups with rows sum to 1: a place that is kept for
        other groups and stays empty changes no order."""
        return self.shares / self.shares[self.counts > 0].sum()

    @property
    def shares_are_right(self) -> bool:
        """Whether `declared` is within `CLOSE` of `found` in all groups with rows."""
        present = self.counts > 0
        return bool((np.abs(self.declared[present] / self.found[present] - 1) <= CLOSE).all())

    def mean_losses(self, x: np.ndarray) -> np.ndarray:
        """(R, G + 1) the mean loss in each group and, last, in all rows; nan for a group without rows."""
        total = self.group_losses(x) * self.shares
        with np.errstate(divide="ignore", invalid="ignore"):
            means = total * self.counts.sum() / self.counts
        return np.concatenate([means, total.sum(axis=1, keepdims=True)], axis=1)

    def highest_mean(self, x: np.ndarray) -> np.ndarray:
        """(R,) the highest mean loss of a group that has rows."""
        return np.nanmax(self.mean_losses(x)[:, :-1], axis=1)

    @property
    def _to_means(self) -> np.ndarray:
        """(G,) the factor from `group_losses` to mean losses; 0 for a group without rows."""
        return np.where(self.counts > 0, self.shares / np.maximum(self.found, 1e-300), 0.0)


def rates(positive: np.ndarray, labels: np.ndarray, groups: np.ndarray, group_count: int) -> np.ndarray:
    """(3, G + 1) error, selection and true-positive rate of one model, as in `Rates`.

    positive : (n,) bool, its predictions; labels : (n,) ±1; groups : (n,) positions.
    """

    def counted(rows: np.ndarray) -> np.ndarray:
        found = np.bincount(groups[rows], minlength=group_count)
        return np.append(found, found.sum())

    wanted = labels > 0
    everyone = counted(np.ones(len(labels), dtype=bool))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array(
            [
                counted(positive != wanted) / everyone,
                counted(positive) / everyone,
                counted(positive & wanted) / counted(wanted),
            ]
        )
