"""Uploaded tables in which a user has several rows, for guarantees that protect users.

Two neighbouring tables differ in the rows of one user, who is replaced by another one. The names of users in the file
count as public, like their number; the content of their rows does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from dpviz.datasets.base import Dataset, DatasetFacts
from dpviz.datasets.uploads.from_data import ROWS
from dpviz.datasets.uploads.limits import MAX_ROWS, check_columns, check_named, shown
from dpviz.datasets.uploads.parsing import classes
from dpviz.datasets.uploads.upload import Name, Prepared, RowsRead, UploadedTable, prepare, prepared
from dpviz.errors import UserError
from dpviz.later import pd

MIN_USERS = 20


@dataclass(frozen=True)
class UserFacts(DatasetFacts):
    """Facts of a table whose rows belong to users. users : their number."""

    users: int = 1


@dataclass(frozen=True, eq=False)
class UserDataset(Dataset):
    """A loaded table. users : (n,) number of each row's user, 0 to facts.users - 1."""

    users: np.ndarray


class UserUpload(UploadedTable):
    """An uploaded table whose rows belong to users.

    user : the column with the user of each row; rows where it is empty are one user's together. users : their number.
    All else : as in `UploadedTable`.
    """

    kind: ClassVar[str] = "datasets.users.upload"
    title: ClassVar[str] = "Uploaded table with users"
    user: Name = "user"
    users: int = Field(ge=MIN_USERS, le=MAX_ROWS)

    @property
    def _columns(self) -> str:
        return f"{super()._columns}; {self.users:,} users by {self.user}"

    @property
    def read_from_rows(self) -> tuple[str, ...]:
        """Facts of any upload that were read from the rows; the number of users is one more."""
        return tuple(f"{ROWS} and of users" if fact == ROWS else fact for fact in super().read_from_rows)

    def facts(self) -> UserFacts:
        facts = super().facts()
        return UserFacts(facts.n, facts.bounds, facts.names, facts.blocks, facts.target, self.users)

    def rows(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return the rows of `UploadedTable`, and in the last column the number of each row's user."""
        table = super().rows(frame)
        if count_users(table) != self.users:
            raise UserError("Choose the file that these settings were made for.", title="This file has other users")
        return table

    def read(self, frame: "pd.DataFrame") -> RowsRead:
        rows_read = super().read(frame)
        check_columns(frame, (self.user,))
        table = np.column_stack([rows_read.table, _user_numbers(frame[self.user][rows_read.kept])])
        table.flags.writeable = False
        return replace(rows_read, table=table)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:  # type: ignore[override]
        table = self.table(tables, len(self.bounds) + len(self.categories) + 2)
        return (*super().raw_rows({self.identity: table[:, :-1]}), table[:, -1].copy())

    def enforced(self, facts: DatasetFacts, *rows: np.ndarray) -> UserDataset:
        """Return the data set of any table; the number of no user becomes the nearest user's."""
        table, numbers = super().enforced(facts, *rows[:-1]), np.nan_to_num(rows[-1])
        users = np.clip(numbers, 0, self.users - 1).astype(np.int64)
        users.flags.writeable = False
        return UserDataset(table.features, table.labels, facts, users)


def prepare_users(
    frame: "pd.DataFrame",
    *,
    user: str,
    target: str,
    positive: str | None,
    features: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    **named: Any,
) -> Prepared[UserUpload]:
    """Return `prepare` for a table in which the column `user` names the user of each row; all else is passed on.

    Raises UserError as `prepare` does, for a column that has another use, and for too few users.
    """
    check_named(frame, "user", user, target, [*features, *named.get("categories", ())])
    declared = dict(prepare(frame, target, positive, features, bounds, **named).specification)
    del declared["n"]
    wide = prepared(UserUpload, frame, declared.pop("identity"), **declared, user=user, users=MIN_USERS)
    count = count_users(wide.table)
    if count < MIN_USERS:
        raise UserError(
            f"Column {shown(user)} names {count:,} of them, and {MIN_USERS} are needed: what one user has would drown "
            "in noise, or everybody would see it.",
            title="There are too few users",
        )
    return replace(wide, specification=wide.specification.replaced(users=count))


def count_users(table: np.ndarray) -> int:
    """Return the number of users in the rows of an array of `UserUpload`."""
    return int(table[:, -1].max(initial=-1)) + 1


def _user_numbers(column: "pd.Series") -> np.ndarray:
    """Return (n,) the number of each row's user, by name in alphabetical order; without a name, after all others."""
    codes, names = classes(column)
    numbers = np.empty(len(names) + 1, dtype=np.int64)
    numbers[np.argsort(names, kind="stable")] = np.arange(len(names))
    numbers[-1] = len(names)
    return numbers[codes]
