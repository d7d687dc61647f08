"""How large a user's file may be, and the sentences for one that is too large, or no table."""

from dpviz.errors import UserError

MIN_ROWS = 20
MAX_ROWS = 1_000_000
MIN_COLUMNS, MAX_COLUMNS = 2, 400
MAX_BYTES = 50 * 1024 * 1024
MAX_TEXT_BYTES = 150_000_000  # of a .gz file when it is unpacked
MAX_CELLS = 50_000_000  # of a Parquet file: a few compressed kilobytes can hold any number of equal values
MAX_UNPACKED_BYTES = 500_000_000
MAX_NAME = 200  # characters of a column name
KEEP_LESS = "Keep the columns and rows that you need."
HOW_TO_SAVE = "Save it as UTF-8 CSV (or Parquet) with a header row, at most 50 MB."


def shown(name: str) -> str:
    """A column name as an error quotes it: in quotes, shortened to 40 characters."""
    return f"'{name}'" if len(name) <= 40 else f"'{name[:39]}…'"


def too_few_rows(count: int, left: str = "") -> UserError:
    """The error for a table with fewer than MIN_ROWS rows; `left` ends its title where rows were dropped."""
    return UserError(
        f"At least {MIN_ROWS} are needed. At ε = 1 the noise hides everything in a table this small; "
        "try 1,000 rows or more.",
        title=f"Only {count} row{'s' if count != 1 else ''}{left}",
    )


def too_many_rows(limit: int) -> UserError:
    """The error for a table with more than `limit` rows."""
    return UserError(
        f"At most {limit:,} rows can be used. Use a random sample of {limit:,} rows, or shorten the file.",
        title=f"More than {limit:,} rows",
    )


def too_big(message: str) -> UserError:
    """The error for a file of more than can be read; `message` says of what it has too much."""
    return UserError(f"{message} {KEEP_LESS}", title="This file is too big")


def unreadable(message: str = "") -> UserError:
    """The error for a file that is damaged, or something else than it claims to be."""
    return UserError(f"{message} {HOW_TO_SAVE}".lstrip(), title="This file could not be read")


def checked_names(names: list[str], min_columns: int, max_columns: int) -> list[str]:
    """The column names, or the UserError that they deserve. A column without a name gets one."""
    if len(names) < min_columns:
        two = "Only one column was found; two at least are needed, such as a feature and a target."
        raise UserError(
            f"{two if min_columns > 1 else 'No column was found.'} Put the column names "
            "into the first row and separate the cells by commas, semicolons or tabs.",
            title="This file is not a table",
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
        title = f"Two columns are called {shown(repeated)}"
        raise UserError("Give every column its own name in the header.", title=title)
    return names
