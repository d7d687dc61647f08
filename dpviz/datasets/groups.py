"""Data sets whose rows belong to groups: features, a label and a group, each with what is declared of it.

The list of groups and their shares are declared, never counted: counts would reveal who is in the table.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, model_validator

from dpviz.datasets.base import NO_TABLES, enforce_bounds, is_range
from dpviz.datasets.bundled import BundledTable
from dpviz.datasets.files import MAX_COLUMNS, MAX_NAME, MAX_ROWS, MIN_ROWS, shown, too_few_rows
from dpviz.datasets.upload import class_label, prepare
from dpviz.errors import UserError
from dpviz.specification import Specification, choice, number, sentences

MAX_GROUPS = 20
MIN_SHARE = 0.001  # a row of a group with share p weighs 1/p
MAX_CELLS = 20_000_000  # of a generated table: 160 MB
OTHER = "other"
_THREE_GROUPS = ("group 1", "group 2", "group 3")
Bounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class GroupedFacts:
    """What may be known of a grouped data set without its rows.

    n : rows, public. bounds, names : declared range and name of each feature, in its own unit.
    groups : names of the groups; shares : (G,) their declared shares, which sum to 1. Wrong shares change how much the
        groups count, not the privacy.
    """

    n: int
    bounds: Bounds
    names: tuple[str, ...]
    groups: tuple[str, ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.n < 1 or not self.bounds or len(self.names) != len(self.bounds):
            raise ValueError(f"facts need rows and a name for every bound, got n={self.n}, d={len(self.bounds)}")
        if not all(is_range(low, high) for low, high in self.bounds):
            raise ValueError("every declared range needs low < high, both finite")
        problem = _mistake(self.groups, self.shares)
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


class GroupedSpecification(Specification):
    """Where a grouped table comes from. `facts` costs nothing and looks at no row; `load` delivers the rows."""

    title: ClassVar[str] = ""
    public: ClassVar[bool] = True

    @abstractmethod
    def facts(self) -> GroupedFacts:
        """The public facts, without loading any data."""

    @abstractmethod
    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features (n, d), labels (n,) and group positions (n,) as found, in fresh float64 arrays."""

    def load(self, tables: Mapping[str, np.ndarray] = NO_TABLES) -> GroupedDataset:
        """The table, with its declarations enforced whatever the rows contain.

        Non-finite features and labels become 0, then all are clipped into their ranges, and features are scaled to
        [-1, 1]. A position that names no group becomes the last one. Raises UserError for a missing table.
        """
        facts = self.facts()
        features, labels, groups = self.raw_rows(tables)
        if features.shape != (facts.n, facts.d) or labels.shape != (facts.n,) or groups.shape != (facts.n,):
            raise ValueError(f"{self.kind} delivered {features.shape}, its facts say {facts.n} x {facts.d}")
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


def _rows() -> Any:
    return number(20_000, 200, 100_000, label="Rows", symbol="n", scale="log", help="More rows need less noise each.")


def _seed() -> Any:
    return number(0, 0, 2**31 - 1, label="Data seed", help="Another seed draws another data set.")


class GroupedSigns(GroupedSpecification):
    """Signs a ∈ {±1}^d whose effect differs between groups: label b = ½ a₀ + ½ a_{1+g} for group g ∈ {0, 1, 2}.

    No single model of small norm fits all groups, so the worst group's loss and the mean loss have different minima.
    Drawn from `default_rng(seed)`: features first, then groups with probabilities 0.4, 0.3, 0.3.
    """

    kind: ClassVar[str] = "datasets.groups.signs"
    title: ClassVar[str] = "Three groups that need different models"
    rows: int = _rows()
    dimension: int = number(
        30, 4, 200, label="Features", symbol="d", scale="log", help="Four of them matter; the others are noise."
    )
    seed: int = _seed()

    def facts(self) -> GroupedFacts:
        names = tuple(f"feature_{j}" for j in range(1, self.dimension + 1))
        return GroupedFacts(self.rows, ((-1.0, 1.0),) * self.dimension, names, _THREE_GROUPS, (0.4, 0.3, 0.3))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        features = generator.integers(0, 2, (self.rows, self.dimension)) * 2.0 - 1.0
        groups = generator.choice(3, self.rows, p=self.facts().shares)
        labels = 0.5 * features[:, 0] + 0.5 * features[np.arange(self.rows), 1 + groups]
        return features, labels, groups.astype(np.float64)


class GroupedLosses(GroupedSpecification):
    """Losses, 0 or 1, of d strategies in three groups: every strategy fails with probability 0.6, but strategies 1 to 3
    with probability 0.1 in the group of their own number.

    Alone, each fails most of some group; mixed in equal parts, the three fail each group with probability 13/30.
    Drawn from `default_rng(seed)`: groups with equal probabilities, then one uniform number per loss.
    """

    kind: ClassVar[str] = "datasets.groups.losses"
    title: ClassVar[str] = "Three specialists among many strategies"
    rows: int = _rows()
    dimension: int = number(
        30, 3, 500, label="Strategies", symbol="d", scale="log", help="Three are specialists; the others fail everyone."
    )
    seed: int = _seed()

    @model_validator(mode="after")
    def _fits_into_memory(self) -> Self:
        if self.rows * self.dimension > MAX_CELLS:
            raise ValueError(f"rows × strategies may be at most {MAX_CELLS:,}; choose fewer of one")
        return self

    def facts(self) -> GroupedFacts:
        names = tuple(f"strategy {j}" for j in range(1, self.dimension + 1))
        return GroupedFacts(self.rows, ((0.0, 1.0),) * self.dimension, names, _THREE_GROUPS, (1 / 3,) * 3)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        generator = np.random.default_rng(self.seed)
        groups = generator.integers(0, 3, self.rows)
        numbers = generator.random((self.rows, self.dimension))
        failures = (numbers < 0.6).astype(np.float64)
        own = np.arange(self.rows), groups
        failures[own] = numbers[own] < 0.1
        return failures, np.zeros(self.rows), groups.astype(np.float64)


class GroupedBundled(GroupedSpecification):
    """The bundled health insurance table, grouped by how people rate their own health: who saw a doctor?

    A row is one person's year, so replacing one row protects a person-year and not a person.
    """

    kind: ClassVar[str] = "datasets.groups.bundled"
    title: ClassVar[str] = "Health insurance, by self-rated health"
    grouping: Literal["four", "three"] = choice(
        "four",
        {"four": "Excellent, good, fair, poor", "three": "Excellent, good, fair or poor"},
        label="Groups",
        help="The smallest group decides the noise: 2 % rate their health as poor, 10 % as fair or poor.",
    )

    def facts(self) -> GroupedFacts:
        table = BundledTable(table="health_insurance").facts()
        groups: dict[str, float] = {"excellent": 0.55, "good": 0.35, "fair": 0.08, "poor": 0.02}
        if self.grouping == "three":
            groups = {"excellent": 0.55, "good": 0.35, "fair or poor": 0.1}
        kept = [position for position, name in enumerate(table.names) if not name.startswith("hlth")]
        return GroupedFacts(
            table.n,
            tuple(table.bounds[position] for position in kept),
            tuple(table.names[position] for position in kept),
            tuple(groups),
            tuple(groups.values()),
        )

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = BundledTable(table="health_insurance")
        features, labels = table.raw_rows(tables)
        names = table.facts().names
        good, fair, poor = (features[:, names.index(name)] for name in ("hlthg", "hlthf", "hlthp"))
        kept = [names.index(name) for name in self.facts().names]
        return features[:, kept].copy(), labels, good + 2 * fair + (3 if self.grouping == "four" else 2) * poor


class GroupedUpload(GroupedSpecification):
    """A table that the user uploaded, with its declared ranges, groups and shares. The array travels beside it."""

    kind: ClassVar[str] = "datasets.groups.upload"
    title: ClassVar[str] = "Uploaded table with groups"
    public: ClassVar[bool] = False
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    n: int = Field(ge=MIN_ROWS, le=MAX_ROWS)
    bounds: Bounds = Field(min_length=1, max_length=MAX_COLUMNS)
    names: tuple[Annotated[str, Field(min_length=1, max_length=MAX_NAME)], ...]
    groups: tuple[Annotated[str, Field(min_length=1, max_length=MAX_NAME)], ...] = Field(
        min_length=1, max_length=MAX_GROUPS
    )
    shares: tuple[float, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.names) != len(self.bounds) or len(set(self.names)) < len(self.names):
            raise ValueError("every range needs the name of its own column")
        for name, (low, high) in zip(self.names, self.bounds, strict=True):
            if not is_range(low, high):
                raise ValueError(f"the range of column {shown(name)} must run from a smaller to a larger number")
        mistake = _mistake(self.groups, self.shares)
        if mistake:
            raise ValueError(mistake)
        return self

    def facts(self) -> GroupedFacts:
        return GroupedFacts(self.n, self.bounds, self.names, self.groups, self.shares)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        table = tables.get(self.sha256)
        if table is None or table.shape != (self.n, len(self.bounds) + 2) or table.dtype != np.float64:
            raise UserError(
                "Upload the file again. Uploaded rows are kept in memory only and never become part of the settings.",
                title="The uploaded table is no longer here",
            )
        return np.array(table[:, :-2], order="C"), table[:, -2].copy(), table[:, -1].copy()


@dataclass(frozen=True, eq=False)
class PreparedGroups:
    """An upload that is ready to use.

    table : (n, d + 2) float64, read-only: the features as found, not yet clipped, the labels, the group positions.
    specification : load it with `{specification.sha256: table}`.
    dropped : rows left out because of missing values.
    """

    table: np.ndarray
    specification: GroupedUpload
    dropped: int


def prepare_groups(
    frame: pd.DataFrame,
    target: str | None,
    positive: str | None,
    group: str,
    features: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    groups: Sequence[str],
    shares: Sequence[float] | None = None,
    drop_missing: bool = False,
) -> PreparedGroups:
    """The chosen columns of a table from `read_table` as one array, and the specification that names it.

    Parameters
    ----------
    target, positive, features, bounds, drop_missing
        As in `upload.prepare`; a target None stands for labels that are all 0, where only features are used.
    group : str
        The column that says to which group a row belongs. Rows of no declared group, or without one, belong to the
        last group "other", which is added if there are any; whether it was needed counts as public.
    groups : sequence of str
        The declared groups, named as `upload.target_classes` names them.
    shares : sequence of float, optional
        Their declared shares; 1/G each if None. What they leave of 1 is the share of "other".

    Raises UserError as `upload.prepare` does, and for groups and shares that cannot be used.
    """
    _check_group_column(frame, target, group, features)
    if drop_missing:
        needed = [name for name in (target, *features) if name in frame.columns]
        total, frame = len(frame), frame.dropna(subset=needed)
        if len(frame) < MIN_ROWS:
            raise too_few_rows(len(frame), " are left" if len(frame) < total else "")
        dropped = total - len(frame)
    else:
        dropped = 0
    named = target
    if named is None:  # two classes that pass every check, and are not used
        named = _unused_name(frame)
        frame = frame.assign(**{named: np.arange(len(frame)) % 2})
    prepared = prepare(frame, named, positive if target is not None else None, features, bounds, drop_missing=False)
    positions, names, declared = _positions(frame[group], groups, shares)
    table = np.column_stack([prepared.table, positions])
    if target is None:
        table[:, -2] = 0.0
    table.flags.writeable = False
    with sentences(GroupedUpload):
        specification = GroupedUpload(
            sha256=hashlib.sha256(table.data).hexdigest(),
            n=len(table),
            bounds=prepared.specification.bounds,
            names=prepared.specification.names,
            groups=names,
            shares=declared,
        )
    return PreparedGroups(table, specification, dropped)


def _positions(
    series: pd.Series, groups: Sequence[str], shares: Sequence[float] | None
) -> tuple[np.ndarray, tuple[str, ...], tuple[float, ...]]:
    """Position (n,) of each row's group among the final groups, these groups and their shares."""
    if not groups:
        raise UserError("List the groups that the column may name.", title="No group is declared")
    names = tuple(groups)
    codes, classes = pd.factorize(series)
    lookup = {name: position for position, name in enumerate(names)}
    catch_all = lookup.get(OTHER, len(names))
    place = np.array([lookup.get(class_label(value), catch_all) for value in classes] + [catch_all])
    positions = place[codes]  # code -1, a missing group, is the entry at the end
    rest = 1.0 - sum(shares) if shares is not None else 0.0
    if (positions == len(names)).any() or (rest > 1e-6 and OTHER not in names):
        names = (*names, OTHER)
        if shares is not None:
            if rest < MIN_SHARE:
                raise UserError(
                    "Add the missing groups, or lower the shares so that their sum leaves a share for other groups.",
                    title="Some rows belong to no declared group",
                )
            shares = (*shares, rest)
    declared = tuple(float(share) for share in shares) if shares is not None else (1 / len(names),) * len(names)
    mistake = _mistake(names, declared)
    if mistake:
        raise UserError(f"{mistake[0].upper()}{mistake[1:]}.", title="These groups cannot be used")
    return positions, names, declared


def _mistake(groups: Sequence[str], shares: Sequence[float]) -> str:
    """What is wrong with declared groups and shares, or ""."""
    if not 1 <= len(groups) <= MAX_GROUPS:
        return f"there must be 1 to {MAX_GROUPS} groups"
    if len(set(groups)) < len(groups) or len(shares) != len(groups):
        return "every group needs a name and a share of its own"
    if not all(MIN_SHARE <= share <= 1 for share in shares):
        return f"every share must be between {MIN_SHARE:g} and 1"
    if abs(sum(shares) - 1) > 1e-6:
        return "the shares must sum to 1"
    return ""


def _check_group_column(frame: pd.DataFrame, target: str | None, group: str, features: Sequence[str]) -> None:
    if group not in frame.columns:
        raise UserError("Choose the columns again.", title=f"The file has no column {shown(group)}")
    if group == target or group in features:
        raise UserError(
            "The column that names the group can be neither the target nor a feature. Choose another one.",
            title=f"Column {shown(group)} has two uses",
        )


def _unused_name(frame: pd.DataFrame) -> str:
    name = "label"
    while name in frame.columns:
        name += "_"
    return name
