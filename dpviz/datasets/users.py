"""Uploaded tables in which a user has several rows, for guarantees that protect users.

Two neighbouring tables differ in the rows of one user, who is replaced by another one. The names of users in the file
count as public, like their number; the content of their rows does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from dpviz.datasets.base import Dataset, DatasetFacts
from dpviz.datasets.uploads.limits import MAX_ROWS, check_columns, check_id_column, quote_name
from dpviz.datasets.uploads.parsing import encode_classes
from dpviz.datasets.uploads.upload import ROWS, Name, Prepared, RowsRead, UploadedTable, prepare, prepare_upload
from dpviz.errors import UserError
from dpviz.later import pd

MIN_USERS = 20


@dataclass(frozen=True)
class UserFacts(DatasetFacts):
    """Public facts of a table in which each row belongs to a user. users : the number of users."""

    users: int = 1


@dataclass(frozen=True, eq=False)
class UserDataset(Dataset):
    """A loaded table. users : (n,) int64, the number of each row's user, from 0 to `facts.users` - 1."""

    users: np.ndarray


class UserUpload(UploadedTable):
    """An uploaded table whose rows belong to users.

    user : the column with the user of each row; all rows where it is empty count as rows of one further user.
    users : the number of users.
    All other fields : as in `UploadedTable`.
    """

    kind: ClassVar[str] = "datasets.users.upload"
    title: ClassVar[str] = "Uploaded table with users"
    user: Name = "user"
    users: int = Field(ge=MIN_USERS, le=MAX_ROWS)

    @model_validator(mode="after")
    def _users_are_the_people(self) -> Self:
        if self.person is not None:
            raise ValueError("users are protected with all of their rows: leave out the person")
        return self

    @property
    def _columns(self) -> str:
        return f"{super()._columns}; {self.users:,} users by {self.user}"

    @property
    def read_from_rows(self) -> tuple[str, ...]:
        """Phrases for what was read from the rows; where rows are left out, this includes the number of users."""
        return tuple(f"{ROWS} and of users" if phrase == ROWS else phrase for phrase in super().read_from_rows)

    def facts(self) -> UserFacts:
        """Return the facts of `UploadedTable`, with the number of users."""
        facts = super().facts()
        return UserFacts(facts.n, facts.bounds, facts.names, facts.blocks, facts.target_range, users=self.users)

    def rows(self, frame: "pd.DataFrame") -> np.ndarray:
        """Return the array of `UploadedTable.rows` with one more column at its end: the number of each row's user.

        Raises UserError also for another number of users than `users`.
        """
        table = super().rows(frame)
        if count_users(table) != self.users:
            raise UserError("Choose the file that these settings were made for.", title="This file has other users")
        return table

    def read(self, frame: "pd.DataFrame") -> RowsRead:
        """Make the array of `UploadedTable.read`, with the number of each row's user in one more column at its end."""
        rows_read = super().read(frame)
        check_columns(frame, (self.user,))
        users = user_numbers(frame[self.user][rows_read.is_used])  # of the rows that are not left out
        table = np.column_stack([rows_read.table, users])
        table.flags.writeable = False
        return replace(rows_read, table=table)

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...]:  # type: ignore[override]
        """Return features (n, d), targets (n,) and the numbers of the users (n,), from the columns of `rows`."""
        table = self.table(tables, columns=len(self.bounds) + len(self.categories) + 2)  # 2: target and user
        without_users = {self.identity: table[:, :-1]}  # the array of an `UploadedTable`
        return (*super().raw_rows(without_users), table[:, -1].copy())  # copied, as `enforced` may write into it

    def enforced(self, facts: DatasetFacts, *rows: np.ndarray) -> UserDataset:
        """Enforce the facts as for any table. Numbers of users are clipped to 0, …, users - 1; NaN becomes 0."""
        *features_and_targets, numbers = rows
        table = super().enforced(facts, *features_and_targets)
        users = np.clip(np.nan_to_num(numbers), 0, self.users - 1).astype(np.int64)
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
    **options: Any,
) -> Prepared[UserUpload]:
    """Prepare a table as `upload.prepare` does, where the column `user` names the user of each row.

    All other parameters are those of `prepare`. Raises UserError as that does, for a `user` column that is also
    the target or a feature, and for fewer than MIN_USERS users.
    """
    all_features = [*features, *options.get("categories", ())]
    check_id_column(frame, what="user", column=user, target=target, features=all_features)
    # `prepare` checks and completes the declarations; the rows that it reads have no column of users yet.
    declared = dict(prepare(frame, target, positive, features, bounds, **options).specification)  # its fields, by name
    del declared["n"]  # `prepare_upload` counts the rows again
    # The number of users is known only when the rows are read; until then the smallest valid one takes its place.
    upload = prepare_upload(UserUpload, frame, declared.pop("identity"), **declared, user=user, users=MIN_USERS)
    count = count_users(upload.table)
    if count < MIN_USERS:
        raise UserError(
            f"Column {quote_name(user)} names {count:,} of them, and {MIN_USERS} are needed: what one user has would "
            "drown in noise, or everybody would see it.",
            title="There are too few users",
        )
    return replace(upload, specification=upload.specification.replaced(users=count))


def count_users(table: np.ndarray) -> int:
    """Return the number of users in an array of `UserUpload`, whose last column numbers the users from 0."""
    return int(table[:, -1].max(initial=-1)) + 1


def user_numbers(column: "pd.Series") -> np.ndarray:
    """Number the users in the alphabetical order of their names, from 0; return the number of each row's user, (n,).

    All rows without a name share one number, the last.
    """
    codes, names = encode_classes(column)
    number_by_code = np.empty(len(names) + 1, dtype=np.int64)
    sorted_codes = np.argsort(names, kind="stable")  # in the order of their names
    number_by_code[sorted_codes] = np.arange(len(names))
    number_by_code[-1] = len(names)  # code -1, a row without a name, takes this last entry
    return number_by_code[codes]
