"""Limits of a user's file, checks of its declarations, and the errors for files that cannot be used."""

import math
from collections.abc import Mapping, Sequence

from dpviz.datasets.base import MAX_BOUND, is_range
from dpviz.errors import MissingInput, UserError, did_you_mean
from dpviz.later import pd
from dpviz.numbers import short

MIN_ROWS = 20
MAX_ROWS = 1_000_000  # of a file that is read as a whole
MAX_ROWS_IN_BLOCKS = 10**9  # of a file that is read in blocks, hence of any table
MIN_COLUMNS, MAX_COLUMNS = 2, 400
MAX_BYTES = 50 * 1024 * 1024
MAX_TEXT_BYTES = 150_000_000  # of a .gz file when it is unpacked; of all texts of a Parquet file, each counted once
# Cells of a Parquet file, a few kilobytes of which can hold any number of equal values; and rows × features of a table
# with categories, which make features: 400 MB.
MAX_CELLS = 50_000_000
MAX_FEATURES = 500  # of a table with categories, each of which makes a feature
MAX_UNPACKED_BYTES = 500_000_000  # of a Parquet file
UNDECLARED = (math.nan, math.nan)  # in place of a range that the user has not declared yet
MAX_NAME = 200  # characters of the name of a column, category, class or group
NO_TABLE = "This file is not a table"
UNUSABLE = "dpviz.unusable"  # in `DataFrame.attrs`, by column without numbers or texts: message and title of an error
KEEP_LESS = "Keep the columns and rows that you need."
HOW_TO_SAVE = "Save it as UTF-8 CSV (or Parquet) with a header row, at most 50 MB."


def quote_name(name: str) -> str:
    """Return a column name as an error quotes it: in quotes, shortened to 40 characters."""
    return f"'{name}'" if len(name) <= 40 else f"'{name[:39]}…'"


def too_few_rows(count: int, suffix: str = "") -> UserError:
    """Return the error for a table with `count` rows, fewer than MIN_ROWS; its title ends in `suffix`."""
    rows = f"{count} row{'s' if count != 1 else ''}{suffix}"
    return UserError(
        f"At least {MIN_ROWS} are needed. At ε = 1 the noise hides everything in a table this small; try 1,000 rows or "
        "more.",
        title=f"Only {rows}",
    )


def too_many_rows(limit: int) -> UserError:
    """Return the error for a table with more than `limit` rows."""
    return UserError(
        f"At most {limit:,} rows can be used. Use a random sample of {limit:,} rows, or shorten the file.",
        title=f"More than {limit:,} rows",
    )


def too_big(message: str) -> UserError:
    """Return the error for a file that is too large to read; its sentence `message` says which limit is exceeded."""
    return UserError(f"{message} {KEEP_LESS}", title="This file is too big")


def unreadable(message: str = "") -> UserError:
    """Return the error for a file that is damaged, or of another type than it claims to be; `message` gives details."""
    return UserError(f"{message} {HOW_TO_SAVE}".lstrip(), title="This file could not be read")


def checked_names(names: list[str], min_columns: int, max_columns: int) -> list[str]:
    """Return the column names of a file without surrounding blanks; a column without a name becomes "Column 3", say.

    Raises UserError for too few or too many columns, and for names that are too long or repeated.
    """
    if len(names) < min_columns:
        shortage = "No column was found."
        if names:
            shortage = "Only one column was found; two at least are needed, such as a feature and a target."
        raise UserError(
            f"{shortage} Put the column names into the first row and separate the cells by commas, semicolons or tabs.",
            title=NO_TABLE,
        )
    if len(names) > max_columns:
        raise UserError(
            f"At most {max_columns} can be read. Keep the columns that you need.",
            title=f"This file has {len(names):,} columns",
        )
    names = [name.strip() or f"Column {position}" for position, name in enumerate(names, 1)]
    if any(len(name) > MAX_NAME for name in names):
        raise UserError(
            f"Column names may have at most {MAX_NAME} characters. Is the first row a header?",
            title="A column name is too long",
        )
    repeated = next((name for position, name in enumerate(names) if name in names[:position]), None)
    if repeated is not None:
        title = f"Two columns are called {quote_name(repeated)}"
        raise UserError("Give every column its own name in the header.", title=title)
    return names


def check_ranges(names: Sequence[str], bounds: Sequence[tuple[float, float]]) -> None:
    """Raise ValueError unless every column name occurs once and has a usable range, at its position in `bounds`."""
    if len(names) != len(bounds) or len(set(names)) < len(names):
        raise ValueError("every range needs the name of its own column")
    for name, (low, high) in zip(names, bounds, strict=True):
        if not is_range(low, high):
            raise ValueError(f"the range of column {quote_name(name)} must run from a smaller to a larger number")


def check_columns(frame: "pd.DataFrame", names: Sequence[str]) -> None:
    """Raise UserError if the table lacks one of the columns `names`, or if its cells are no numbers or texts."""
    unknown = next((name for name in names if name not in frame.columns), None)
    if unknown is not None:
        hint = did_you_mean(unknown, map(str, frame.columns))
        raise UserError(f"Choose the columns again.{hint}", title=f"The file has no column {quote_name(unknown)}")
    for name, (message, title) in frame.attrs.get(UNUSABLE, {}).items():
        if name in names:
            raise UserError(message, title=title)


def check_id_column(
    frame: "pd.DataFrame", what: str, column: str | None, target: str | None, features: Sequence[str]
) -> None:
    """Raise UserError if a table lacks the column that names the group, user or person, or if it has another use.

    what : "group", "user" or "person", for the error. column : the column that names it; None if there is none. target,
    features : the other columns in use; no target if None.
    """
    if column is None:
        return
    check_columns(frame, (column,))
    if column == target or column in features:
        raise UserError(
            f"The column that names the {what} can be neither the target nor a feature. Choose another one.",
            title=f"Column {quote_name(column)} has two uses",
        )


def check_positive(positive: str | None) -> None:
    """Raise UserError unless the class of the target that counts as +1 is declared; a guess would not be private."""
    if positive is None or not positive.strip():
        raise MissingInput("Choose the class of the target that counts as yes.", title="No positive class is chosen")


def check_rows(total: int, remaining: int) -> None:
    """Raise UserError if fewer than MIN_ROWS rows remain of the `total` rows of a file."""
    if remaining < MIN_ROWS:
        raise too_few_rows(remaining, suffix=" are left" if remaining < total else "")


def check_features(n: int, numeric: int, categories: Sequence[tuple[str, int]]) -> None:
    """Raise UserError if there is no feature, or if categories make more features than n rows can have.

    numeric : the number of numeric features. categories : name and number of categories of each further column, which
    has one feature per category.
    """
    d = numeric + sum(size for _, size in categories)
    if d == 0:
        raise MissingInput("Choose at least one column.", title="No feature is chosen")
    # Numeric columns alone make no more features than a file has columns.
    if categories and (d > MAX_FEATURES or n * d > MAX_CELLS):
        name, size = max(categories, key=lambda column: column[1])
        max_features = min(MAX_FEATURES, MAX_CELLS // n)
        raise UserError(
            f"Every category makes a feature, and {n:,} rows can have {max_features:,} of them. Column "
            f"{quote_name(name)} alone has {size:,} categories: merge some, or leave the column out.",
            title=f"The columns make {d:,} features",
        )


def check_choice(
    frame: "pd.DataFrame",
    target: str | None,
    columns: Sequence[str],
    numeric: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
) -> None:
    """Raise UserError for choices that no rows could make usable.

    columns : all columns of features. numeric : those of them that are numbers; each needs a usable range in `bounds`.
    target : the column to predict, which must not be a feature; None if there is none.
    """
    if not columns:
        raise MissingInput("Choose at least one numeric column.", title="No feature is chosen")
    check_columns(frame, columns if target is None else (target, *columns))
    if len(set(columns)) < len(columns):
        raise UserError("Choose every column once.", title="A feature is chosen twice")
    if target in columns:
        raise UserError(
            "A feature that is the target itself makes the task trivial. Take it out of the features.",
            title=f"Column {quote_name(str(target))} is both target and feature",
        )
    for name in numeric:
        if not is_range(*bounds.get(name, UNDECLARED)):
            raise no_range(name, bounds.get(name, UNDECLARED))


def no_range(name: str, bounds: tuple[float, float]) -> UserError:
    """Return the error for a column without a usable range: `MissingInput` while its declaration is unfinished."""
    title = f"Column {quote_name(name)} needs a range"
    declare = "Declare what is known of it without looking at the file."
    if any(map(math.isnan, bounds)):  # as in UNDECLARED, or a half of it
        return MissingInput(declare, title=title)
    return UserError(
        f"The lowest value must be below the highest by {short(1 / MAX_BOUND)} at least, and both between "
        f"{short(-MAX_BOUND)} and {short(MAX_BOUND)}. {declare}",
        title=title,
    )
