"""What a grouped data set is: features, a label and a group of each row, and what is declared of them.

The list of groups and their shares are declared, never counted: counts would reveal who is in the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpviz.datasets.base import DataSpecification, check_features, enforce_bounds
from dpviz.numbers import short

MAX_GROUPS = 20
MIN_SHARE = 0.001  # a row of a group with share p weighs 1/p
ROUNDING = 1e-6  # of shares that sum to 1
OTHER = "other"
Bounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class GroupedFacts:
    """What may be known of a grouped data set without its rows.

    n : rows, public. bounds, names : declared range and name of each feature, in its own unit.
    groups : names of the groups; shares : (G,) their shares, declared or released, which sum to 1. Wrong shares change
        how much the groups count, not the privacy. shares_costs : ε of every release that was made to learn them.
    """

    n: int
    bounds: Bounds
    names: tuple[str, ...]
    groups: tuple[str, ...]
    shares: tuple[float, ...]
    shares_costs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_features(self.n, self.bounds, self.names)
        problem = mistake_of(self.groups, self.shares)
        if problem:
            raise ValueError(problem)

    @property
    def d(self) -> int:
        """Number of features."""
        return len(self.bounds)

    @property
    def smallest_share(self) -> float:
        """p₋, the smallest declared share."""
        return min(self.shares)


@dataclass(frozen=True, eq=False)
class GroupedDataset:
    """A loaded table: read-only arrays that keep to what was declared.

    features : (n, d) float64 in [-1, 1], the declared ranges scaled; labels : (n,) float64 in [-1, 1], ±1 where there
    are two classes; groups : (n,) int64, positions in `facts.groups`.
    """

    features: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    facts: GroupedFacts


class GroupedSpecification(DataSpecification[GroupedFacts, GroupedDataset]):
    """Where a table comes from whose rows have features, a label and the position of a group."""

    def enforced(self, facts: GroupedFacts, *rows: np.ndarray) -> GroupedDataset:
        """Non-finite features and labels become 0, then all are clipped into their ranges, and features are scaled to
        [-1, 1]. A position that names no group becomes the last one."""
        features, labels, groups = rows
        enforce_bounds(features, facts.bounds)
        low, high = np.array(facts.bounds).T
        features -= (low + high) / 2
        features /= (high - low) / 2
        np.clip(features, -1.0, 1.0, out=features)  # rounding must not leave the declared box
        enforce_bounds(labels[:, None], ((-1.0, 1.0),))
        last = len(facts.groups) - 1
        valid = np.isin(groups, np.arange(last))
        positions = np.where(valid, groups, last).astype(np.int64)
        features.flags.writeable = labels.flags.writeable = positions.flags.writeable = False
        return GroupedDataset(features, labels, positions, facts)


def mistake_of(groups: Sequence[str], shares: Sequence[float]) -> str:
    """What is wrong with declared groups and shares, or ""."""
    if not 1 <= len(groups) <= MAX_GROUPS:
        return f"there must be 1 to {MAX_GROUPS} groups"
    if len(set(groups)) < len(groups) or len(shares) != len(groups):
        return "every group needs a name and a share of its own"
    if not all(MIN_SHARE <= share <= 1 for share in shares):
        return f"every share must be between {short(MIN_SHARE, 6)} and 1"
    if abs(sum(shares) - 1) > ROUNDING:
        return "the shares must sum to 1"
    return ""
