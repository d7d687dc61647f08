"""Data sets whose rows have features, a label and a group: generated, bundled, and uploaded.

The list of groups and their shares are declared, never counted: counts would reveal rows of the table.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpviz.datasets.base import RowsSpecification, check_features, enforce_bounds, rows_field, seed_field
from dpviz.datasets.bundled import BundledTable
from dpviz.datasets.uploads import limits
from dpviz.datasets.uploads.parsing import class_label, encode_classes
from dpviz.datasets.uploads.reading import Reading
from dpviz.datasets.uploads.upload import (
    CONSTANT,
    CONSTANT_RANGE,
    Cost,
    Missing,
    Name,
    Prepared,
    RowsRead,
    Upload,
    prepare_upload,
    range_phrases,
    ranges_of,
    read_rows,
)
from dpviz.errors import UserError
from dpviz.later import pd
from dpviz.numbers import short
from dpviz.specification import choice, number

MAX_GROUPS = 20
MIN_SHARE = 0.001  # a row of a group with share p weighs 1/p: a smaller share would need too much noise
ROUNDING = 1e-6  # tolerance for the sum of the shares, which must be 1
OTHER = "other"
Bounds = tuple[tuple[float, float], ...]  # (low, high) of each feature


@dataclass(frozen=True)
class GroupedFacts:
    """Public facts of a grouped data set, known without its rows.

    n : number of rows, which is public.
    bounds, names : declared range of each feature, in the feature's own unit, and its name.
    groups : names of the groups.
    shares : the share of all rows of each group, declared or released; they sum to 1. Wrong shares change the weights
        of the groups, not the privacy.
    shares_costs : ε of every release that was made to learn the shares; none if they are declared.
    """

    n: int
    bounds: Bounds
    names: tuple[str, ...]
    groups: tuple[str, ...]
    shares: tuple[float, ...]
    shares_costs: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_features(self.n, self.bounds, self.names)
        mistake = mistake_of(self.groups, self.shares)
        if mistake:
            raise ValueError(mistake)

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
    """A loaded table: read-only arrays that keep to the declared facts.

    features : (n, d) float64; each declared range is scaled to [-1, 1].
    labels : (n,) float64 in [-1, 1]; exactly -1 or +1 where there are two classes.
    groups : (n,) int64, the position of each row's group in `facts.groups`.
    """

    features: np.ndarray
    labels: np.ndarray
    groups: np.ndarray
    facts: GroupedFacts


class GroupedSpecification(RowsSpecification[GroupedFacts, GroupedDataset]):
    """A source of a table whose rows have features, a label and a group.

    Its `raw_rows` are features (n, d), labels (n,), and the position of each row's group (n,) as a float.
    """

    declared_by: ClassVar[str] = "dpviz.table(…, group=…)"

    def enforced(self, facts: GroupedFacts, *rows: np.ndarray) -> GroupedDataset:
        """Return the data set after all declared facts were enforced on features (n, d), labels (n,) and groups (n,).

        Features and labels that are not finite become 0, then all are clipped into their ranges, and the features are
        scaled to [-1, 1]. Groups come as positions in floats; one that is no group's position becomes the last.
        """
        features, labels, groups = rows
        enforce_bounds(features, facts.bounds)
        low, high = np.array(facts.bounds).T
        features -= (low + high) / 2
        features /= (high - low) / 2
        np.clip(features, -1.0, 1.0, out=features)  # rounding must not leave the declared box
        enforce_bounds(labels[:, None], ((-1.0, 1.0),))  # in place, through a view with one column
        last = len(facts.groups) - 1
        is_before_last = np.isin(groups, np.arange(last))
        positions = np.where(is_before_last, groups, last).astype(np.int64)
        features.flags.writeable = labels.flags.writeable = positions.flags.writeable = False
        return GroupedDataset(features, labels, positions, facts)


def mistake_of(groups: Sequence[str], shares: Sequence[float]) -> str:
    """Return a sentence about the first mistake in declared groups and their shares, or "" if there is none."""
    if not 1 <= len(groups) <= MAX_GROUPS:
        return f"there must be 1 to {MAX_GROUPS} groups"
    if len(set(groups)) < len(groups) or len(shares) != len(groups):
        return "every group needs a name and a share of its own"
    if not all(MIN_SHARE <= share <= 1 for share in shares):
        return f"every share must be between {short(MIN_SHARE, 6)} and 1"
    if abs(sum(shares) - 1) > ROUNDING:
        return "the shares must sum to 1"
    return ""


MAX_CELLS = 20_000_000  # rows × columns of a generated table, at most: 160 MB
_THREE_GROUPS = ("group 1", "group 2", "group 3")


class GroupedSigns(GroupedSpecification):
    """Rows of random signs a ∈ {±1}^d whose effect differs between three groups: a row of group g ∈ {0, 1, 2} has the
    label b = ½ a₀ + ½ a_{1+g}.

    No single model of small norm fits all groups, so the worst group's loss and the mean loss have different minima.
    Drawn from `default_rng(seed)`: features first, then groups with probabilities 0.4, 0.3, 0.3.
    """

    kind: ClassVar[str] = "datasets.groups.signs"
    title: ClassVar[str] = "Three groups that need different models"
    public: ClassVar[bool] = True
    rows: int = rows_field(20_000, 200, 100_000)
    dimension: int = number(
        30, 4, 200, label="Features", symbol="d", scale="log", help="Four of them matter; the others are noise."
    )
    seed: int = seed_field()

    def facts(self) -> GroupedFacts:
        names = tuple(f"feature_{j}" for j in range(1, self.dimension + 1))
        return GroupedFacts(self.rows, ((-1.0, 1.0),) * self.dimension, names, _THREE_GROUPS, shares=(0.4, 0.3, 0.3))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.integers(0, 2, (self.rows, self.dimension)) * 2.0 - 1.0
        groups = generator.choice(3, self.rows, p=self.facts().shares)
        labels = 0.5 * features[:, 0] + 0.5 * features[np.arange(self.rows), 1 + groups]
        return features, labels, groups.astype(np.float64)


class GroupedLosses(GroupedSpecification):
    """Losses, 0 or 1, of d strategies in three groups: every strategy fails with probability 0.6, but strategies 1 to 3
    with probability 0.1 in the group of their own number.

    Alone, each strategy fails in some group with probability 0.6; mixed in equal parts, strategies 1 to 3 fail in each
    group with probability 13/30 = (0.1 + 0.6 + 0.6)/3. The features are the losses; the labels are 0.
    Drawn from `default_rng(seed)`: groups with equal probabilities, then one uniform number per loss.
    """

    kind: ClassVar[str] = "datasets.groups.losses"
    title: ClassVar[str] = "Three specialists among many strategies"
    public: ClassVar[bool] = True
    rows: int = rows_field(20_000, 200, 100_000)
    dimension: int = number(
        30, 3, 500, label="Strategies", symbol="d", scale="log", help="Three are specialists; the others fail everyone."
    )
    seed: int = seed_field()

    @model_validator(mode="after")
    def _fits_into_memory(self) -> Self:
        if self.rows * self.dimension > MAX_CELLS:
            raise ValueError(f"rows × strategies may be at most {MAX_CELLS:,}; choose fewer of one")
        return self

    def facts(self) -> GroupedFacts:
        names = tuple(f"strategy {j}" for j in range(1, self.dimension + 1))
        return GroupedFacts(self.rows, ((0.0, 1.0),) * self.dimension, names, _THREE_GROUPS, shares=(1 / 3,) * 3)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        groups = generator.integers(0, 3, self.rows)
        numbers = generator.random((self.rows, self.dimension))
        failures = (numbers < 0.6).astype(np.float64)
        own_specialist = np.arange(self.rows), groups  # in each row, the strategy with the number of the row's group
        failures[own_specialist] = numbers[own_specialist] < 0.1
        return failures, np.zeros(self.rows), groups.astype(np.float64)


class GroupedBundled(GroupedSpecification):
    """The bundled health insurance table, grouped by self-rated health; label: a visit to a doctor.

    A row is one person's year, so replacing one row protects a person-year and not a person.
    """

    kind: ClassVar[str] = "datasets.groups.bundled"
    title: ClassVar[str] = "Health insurance, by self-rated health"
    public: ClassVar[bool] = True
    grouping: Literal["four", "three"] = choice(
        "four",
        label="Groups",
        help="The smallest group decides the noise: 2 % rate their health as poor, 10 % as fair or poor.",
        options={"four": "Excellent, good, fair, poor", "three": "Excellent, good, fair or poor"},
    )

    def facts(self) -> GroupedFacts:
        table = BundledTable(table="health_insurance").facts()
        # Declared shares, in round numbers.
        groups: dict[str, float] = {"excellent": 0.55, "good": 0.35, "fair": 0.08, "poor": 0.02}
        if self.grouping == "three":
            groups = {"excellent": 0.55, "good": 0.35, "fair or poor": 0.1}
        # The columns of health make the groups, so they are no features.
        positions = [position for position, name in enumerate(table.names) if not name.startswith("hlth")]
        return GroupedFacts(
            n=table.n,
            bounds=tuple(table.bounds[position] for position in positions),
            names=tuple(table.names[position] for position in positions),
            groups=tuple(groups),
            shares=tuple(groups.values()),
        )

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the features without those of health, the labels, and the positions of the groups (n,)."""
        table = BundledTable(table="health_insurance")
        features, labels = table.raw_rows(tables)
        names = table.facts().names
        good, fair, poor = (features[:, names.index(name)] for name in ("hlthg", "hlthf", "hlthp"))
        positions = [names.index(name) for name in self.facts().names]
        position_of_poor = 3 if self.grouping == "four" else 2  # of three groups, the last is "fair or poor"
        groups = good + 2 * fair + position_of_poor * poor  # 0, excellent, where all three columns are 0
        return features[:, positions].copy(), labels, groups


class GroupedUpload(Upload, GroupedSpecification):
    """An uploaded table whose rows belong to groups.

    identity, n, reading : name of the array of rows, number of used rows, declared way to read the file.
    bounds, names : declared range and column of each feature. constant : true to add a feature that is 1 in every row.
    missing : "fill" puts the middle of the range where a feature is no number; "drop" leaves out such rows, and rows
        without a target.
    group : the column with the group of each row. A row of no declared group, or without one, belongs to "other", which
        `prepare_groups` always lists, or to the last group where there is no "other".
    groups, shares : the declared groups, and the share of each, which sum to 1.
    shares_costs : ε of every release that was made to learn the shares; none if they are declared.
    target, positive : the target column, and its class that counts as +1; if the target is None, all labels are 0.
    """

    kind: ClassVar[str] = "datasets.groups.upload"
    title: ClassVar[str] = "Uploaded table with groups"
    bounds: Bounds = Field(min_length=1, max_length=limits.MAX_COLUMNS)
    names: tuple[Name, ...]
    group: Name = "group"
    groups: tuple[Name, ...] = Field(min_length=1, max_length=MAX_GROUPS)
    shares: tuple[float, ...]
    shares_costs: tuple[Cost, ...] = Field((), max_length=100)
    target: Name | None = "target"
    positive: Name = "1"
    missing: Missing = "fill"
    constant: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        limits.check_ranges(self.names, self.bounds)
        mistake = mistake_of(self.groups, self.shares)
        if mistake:
            raise ValueError(mistake)
        self.facts()  # raises ValueError where two features would have one name
        return self

    @property
    def costs(self) -> tuple[float, ...]:
        return (*super().costs, *self.shares_costs)

    @property
    def _columns(self) -> str:
        groups = ", ".join(f"{name} {share:.3g}" for name, share in zip(self.groups, self.shares, strict=True))
        target = "no target" if self.target is None else f'target {self.target}, positive "{self.positive}"'
        return f"{', '.join(range_phrases(self.names, self.bounds))}; {target}; groups by {self.group}: {groups}"

    def facts(self) -> GroupedFacts:
        bounds, names = self.bounds, self.names
        if self.constant:
            bounds, names = (*bounds, CONSTANT_RANGE), (*names, CONSTANT)
        return GroupedFacts(self.n, bounds, names, self.groups, self.shares, self.shares_costs)

    def read(self, frame: "pd.DataFrame") -> RowsRead:
        """Return the array (rows, features + 2), float64: a row's features, its label, its group's position."""
        rows_read = read_rows(frame, self.names, self.bounds, self.target, self.positive, missing=self.missing)
        limits.check_columns(frame, (self.group,))
        positions = group_positions(frame[self.group], self.groups)
        table = np.column_stack([rows_read.table, positions[rows_read.is_used]])  # of the rows that are not left out
        table.flags.writeable = False
        return replace(rows_read, table=table)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return features (n, d), labels (n,) and positions of groups (n,), from the columns that `read` makes."""
        table = self.table(tables, columns=len(self.bounds) + 2)  # 2: label and group
        features = np.ones((self.n, len(self.bounds) + self.constant))  # a constant feature keeps the ones
        features[:, : len(self.bounds)] = table[:, :-2]
        return features, table[:, -2].copy(), table[:, -1].copy()  # copied, as `enforced` may write into it


def prepare_groups(
    frame: "pd.DataFrame",
    target: str | None,
    positive: str | None,
    group: str,
    features: Sequence[str],
    *,
    bounds: Mapping[str, tuple[float, float]],
    groups: Sequence[str],
    shares: Sequence[float],
    costs: Sequence[float] = (),
    drop_missing: bool = False,
    identity: str | None = None,
    reading: Reading | None = None,
    constant: bool = False,
    person: str | None = None,
    rows_per_person: int = 1,
) -> Prepared[GroupedUpload]:
    """Prepare columns of a table from `read_table`: as one array, with the specification that made it.

    Parameters
    ----------
    target, positive : str, optional
        The target column, and its class that counts as +1. If the target is None, all labels are 0, for methods that
        use only features.
    features, bounds, drop_missing, identity, reading, constant, person, rows_per_person
        As in `upload.prepare`; a row without a group is never dropped.
    group : str
        The column with the group of each row.
    groups : sequence of str
        The declared groups, named as `columns.target_classes` names them; "other" is added if it is not among them.
    shares : sequence of float
        Their shares of all rows, declared or released. See `with_other` for the share of "other".
    costs : sequence of float
        The ε of every release that the shares come from; none if they are declared.

    Raises UserError as `upload.prepare` does, and for groups and shares that cannot be used.
    """
    limits.check_id_column(frame, what="group", column=group, target=target, features=features)
    limits.check_id_column(frame, what="person", column=person, target=target, features=[*features, group])
    limits.check_choice(frame, target, columns=features, numeric=features, bounds=bounds)
    all_groups, all_shares = with_other(groups, shares)
    if target is not None:
        limits.check_positive(positive)
    return prepare_upload(
        GroupedUpload,
        frame,
        identity,
        bounds=ranges_of(features, bounds),
        names=tuple(features),
        group=group,
        groups=all_groups,
        shares=all_shares,
        shares_costs=tuple(costs),
        target=target,
        positive=positive or "1",  # without a target any text will do
        missing="drop" if drop_missing else "fill",
        reading=reading,
        constant=constant,
        person=person,
        rows_per_person=rows_per_person,
    )


def with_other(groups: Sequence[str], shares: Sequence[float]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Add the group "other" to declared groups that lack it; return the groups and their shares, which sum to 1.

    A row may name any group, so "other" must be listed before any row is read. Its share is the part of 1 that the
    declared shares leave. Where they leave less than MIN_SHARE, it gets the share of the smallest group, and all shares
    are scaled to sum to 1: the declared ones keep their ratios, and become smaller by a factor of about 1 + this share.

    Raises UserError for groups and shares that cannot be used.
    """
    if not groups:
        raise UserError("List the groups that the column may name.", title="No group is declared")
    all_groups = tuple(groups) if OTHER in groups else (*groups, OTHER)
    all_shares = tuple(float(share) for share in shares)
    remaining = 1.0 - math.fsum(all_shares)
    if OTHER not in groups and len(shares) == len(groups):  # every group but "other" has a share
        other_share = remaining if remaining >= MIN_SHARE else min(all_shares)
        all_shares = (*all_shares, other_share)
        if remaining > -ROUNDING:  # else the declared shares exceed 1, which `mistake_of` reports
            total = math.fsum(all_shares)
            all_shares = tuple(share / total for share in all_shares)
    mistake = mistake_of(all_groups, all_shares)
    if mistake:
        raise UserError(f"{mistake[0].upper()}{mistake[1:]}.", title="These groups cannot be used")
    if len({class_label(name) for name in all_groups}) < len(all_groups):
        raise UserError("List every group once; 1 and 1.0 are the same.", title="These groups cannot be used")
    return all_groups, all_shares


def group_positions(column: "pd.Series", groups: Sequence[str]) -> np.ndarray:
    """Return the position of each row's group among the declared groups, (n,).

    A row without a group, or of one that is not declared, gets the position of "other", or the last without "other".
    """
    codes, labels = encode_classes(column)
    positions = {class_label(name): position for position, name in enumerate(groups)}
    other_position = positions.get(OTHER, len(groups) - 1)
    by_code = [positions.get(label, other_position) for label in labels]
    return np.array([*by_code, other_position])[codes]  # code -1, a row without a group, takes the last entry
