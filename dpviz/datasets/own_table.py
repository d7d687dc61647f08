"""A table of your own as the data of a problem, in one call."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from dpviz.arguments import Between, check_fields, checked  # UserError for arguments of a wrong type
from dpviz.datasets.base import is_range
from dpviz.datasets.categories import prepare_categories
from dpviz.datasets.groups import prepare_groups
from dpviz.datasets.uploads import limits
from dpviz.datasets.uploads.arrow import frame_of, to_plain_array
from dpviz.datasets.uploads.files import TableFile, large_file, read_table
from dpviz.datasets.uploads.limits import check_columns, no_range, quote_name
from dpviz.datasets.uploads.parsing import Bins, class_label
from dpviz.datasets.uploads.reading import Reading
from dpviz.datasets.uploads.upload import (
    MAX_ROWS_OF_A_PERSON,
    NO_CATEGORIES,
    Prepared,
    U,
    UploadedTable,
    new_identity,
    prepare,
    range_phrases,
    too_big_for,
)
from dpviz.datasets.users import prepare_users
from dpviz.errors import UserError, value_in_words
from dpviz.later import pd, pyarrow
from dpviz.numbers import short_up

Bounds = Mapping[str, tuple[float, float]]  # the declared range (lowest, highest) of each column
NO_BOUNDS: Bounds = {}
_LISTED = 6  # the largest number of columns that an error names
# Stack level of warnings, the line that calls `table`: above are the function that warns, `table` and `checked`.
_TABLE_CALL = 4


@dataclass(frozen=True)
class BoughtRanges:
    """Ranges of columns that were released privately, by `dpviz.private_bounds`, with the ε that they cost.

    `bought | {"age": (0, 120)}` adds declared ranges, which take precedence, and `bought | more` another release. It is
    no mapping: a copy of the ranges alone would lose their cost.

    ranges : (lowest, highest) by column. costs : the ε of every release, each of which counts, used or not.
    columns : the columns that were asked for; one that is not in `ranges` has too few rows for its noise.
    user : the column of users, all of whose rows are protected; None where a single row is.
    """

    ranges: Bounds
    costs: tuple[float, ...]
    columns: tuple[str, ...]
    user: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        missing = [name for name in self.columns if name not in self.ranges]
        ranges = ", ".join(range_phrases(list(self.ranges), list(self.ranges.values())))
        missing_text = f"; no range for {', '.join(missing)}" if missing else ""
        unit = "row" if self.user is None else f"user by {self.user}"
        costs = " + ".join(map(short_up, self.costs))  # rounded up, as these are upper bounds
        return f"<BoughtRanges for ε = {costs}, one {unit} replaced: {ranges}{missing_text}>"

    def __or__(self, more: "BoughtRanges | Bounds") -> "BoughtRanges":
        if not isinstance(more, BoughtRanges):
            return replace(self, ranges={**self.ranges, **more})
        if more.user != self.user:
            raise UserError("Buy both with the same `user`.", title="These ranges protect different units")
        columns = tuple(dict.fromkeys((*self.columns, *more.columns)))
        return BoughtRanges({**self.ranges, **more.ranges}, (*self.costs, *more.costs), columns, self.user)

    def __ror__(self, declared: Bounds) -> "BoughtRanges":
        return self | declared  # declared ranges take precedence on either side


@checked
def table(
    data: Any,
    *,
    target: str | None = None,
    positive: str | float | bool | None = None,
    features: Sequence[str] | None = None,
    bounds: Bounds | tuple[float, float] | BoughtRanges = NO_BOUNDS,
    categories: Mapping[str, Sequence[str | float] | Bins] = NO_CATEGORIES,
    drop_missing: bool = False,
    constant: bool = False,
    group: str | None = None,
    groups: Sequence[str | float] = (),
    shares: Sequence[float] = (),
    user: str | None = None,
    person: str | None = None,
    rows_per_person: Annotated[int, Between(1, MAX_ROWS_OF_A_PERSON, ends=True)] = 1,
    reading: Reading | None = None,
) -> Any:  # one of four classes, each for some of the problems: the arguments say which, and a type checker cannot
    """Declare a table of your own as data that carry their rows, for `data=` of a problem.

    What is declared must come from knowledge of the columns, not from the rows: plans and guarantees rest on it. Any
    rows keep to it, as cells are clipped to the ranges and unknown categories become "other".

    Parameters
    ----------
    data : DataFrame, (X, y), str or Path
        A pandas DataFrame, or one of any library that exports Arrow data, such as Polars; arrays X (n, d) and y (n,),
        whose columns are called x1 to xd and y; or a file: Parquet, or CSV as `dpviz.read_table` reads it. A Parquet
        file above 50 MB or a million rows is read in blocks at every run.
    target : str, optional
        The column to predict; "y" for arrays.
    positive : str, float or bool, optional
        The class of the target that counts as yes; 1 and True are the same class. None: the target is a number, whose
        range is in `bounds`.
    features : sequence of str, optional
        The columns to learn from. By default all that have no other use.
    bounds : mapping of column to (lowest, highest), one pair for all, or what `dpviz.private_bounds` returns
        The range of every numeric feature, and of a target that is a number. What bought ranges cost comes off the
        budget of every run.
    categories : mapping of column to its categories
        Features of texts, each category a feature that is 0 or 1: as in `dpviz.datasets.prepare_categories`. With
        neither target nor bounds the table is one of categories alone, for synthetic data.
    drop_missing : bool
        Leave out rows in which a feature is no number or the target is missing. Their number is then public although it
        depends on the rows. Otherwise the middle of the range takes the place of such cells.
    constant : bool
        Add a feature that is 1 in every row. Problems with an `intercept` have one of their own.
    group, groups, shares : str, sequences, optional
        The column that names the group of a row, the groups, and their shares of the rows: for `dpviz.GroupLoss`. The
        group "other" is added unless it is listed; where the shares sum to 1, it gets that of the smallest group, and
        all are scaled to sum to 1.
    user : str, optional
        The column that names the user of a row: tuning then protects all rows of a user.
    person, rows_per_person : str and int, optional
        The column that names the person of a row, for all problems but tuning: at most so many rows of each person are
        used, and the budget is that of a person. Names, and how many rows each has, count as public.
    reading : Reading, optional
        How a text file is read; see `dpviz.read_table`.

    Returns
    -------
    UploadedTable, GroupedUpload, UserUpload or CategoricalUpload
        Settings without rows: its JSON text has none. The rows are kept with the object as long as it lives, and
        `Experiment.run` and `Sweep.run` find them.

    Raises
    ------
    UserError
        For a column that does not exist or has no range, for declarations that do not go together, and for a file that
        cannot be read. Oddities of the rows are warnings, for your eyes only: they are not private.

    Examples
    --------
    >>> import dpviz
    >>> data = dpviz.table(
    ...     "data/breast_cancer.parquet",
    ...     target="malignant",
    ...     positive=1,
    ...     features=["mean_radius", "mean_texture"],
    ...     bounds={"mean_radius": (5, 30), "mean_texture": (5, 40)},
    ... )
    >>> data
    <UploadedTable of 569 rows: mean_radius in [5, 30], mean_texture in [5, 40]; target malignant, positive "1">
    >>> experiment = dpviz.Experiment(dpviz.LogisticRegression(data=data), dpviz.Nesterov(iterations=5), epsilon=1)
    >>> experiment.run()
    <Trace of DP-NAG: 1 run, 5 iterations>
    """
    if isinstance(data, tuple) and len(data) == 2:
        data, target = _frame_of_arrays(*data), target or "y"
    file = large_file(Path(data)) if isinstance(data, (str, Path)) else None  # one that must be read in blocks
    if file is not None and (target is None or any(name is not None for name in (group, user, person))):
        raise too_big_for("groups, users, people or categories alone")
    if user is not None and (person is not None or rows_per_person > 1):
        raise UserError("Give one of the two: a user for tuning, a person otherwise.", title="Who is protected?")
    if group is None and (groups or shares):
        raise UserError("Give the column that names the group of a row: group=….", title="Groups of which column?")
    lists: dict[str, Sequence[str] | Bins] = {
        name: part if isinstance(part, Bins) else _as_texts(part) for name, part in categories.items()
    }
    people: dict[str, Any] = {"person": person, "rows_per_person": rows_per_person}
    # Of a file in blocks, the declarations are checked with its first block.
    frame = _frame(data, reading) if file is None else next(file.blocks())
    if categories and target is None and not bounds:
        others = {"positive": positive, "features": features, "drop_missing": drop_missing, "constant": constant}
        others |= {"group": group, "user": user}
        unused_arguments = [name for name, value in others.items() if value]
        if unused_arguments:
            raise UserError(
                f"Leave {' and '.join(unused_arguments)} out, or give a target and `bounds`.",
                title="A table of categories alone has no such declaration",
            )
        return _carrying(prepare_categories(frame, lists, reading=reading, **people))
    if target is None and group is None:
        raise UserError("Give the column to predict, target=…, or a `group`.", title="Nothing says what to predict")
    check_columns(frame, [*(features or ()), *categories, *filter(None, (target, group, user, person))])
    if features is None:
        features = [name for name in frame.columns if name not in {target, group, user, person, *categories}]
    numeric = [name for name in features if name not in categories]
    number_target = target if positive is None else None  # the target if it is a number
    need_range = numeric if number_target is None else [*numeric, number_target]
    costs = bounds.costs if isinstance(bounds, BoughtRanges) else ()
    if isinstance(bounds, BoughtRanges):
        unit_column = user if person is None else person
        # Where single rows are protected, any ranges will do: to protect a user is to protect each of the user's rows.
        if unit_column is not None and bounds.user != unit_column:
            raise UserError(
                f"Buy them for these people: dpviz.private_bounds(…, user={unit_column!r}).",
                title="The ranges protect another unit than the table",
            )
        # A range that is of no column here may have been bought for another table of the same rows.
        bounds = {name: bounds.ranges[name] for name in need_range if name in bounds.ranges}
    elif not isinstance(bounds, Mapping):
        bounds = dict.fromkeys(need_range, bounds)
    limits.check_choice(frame, target, columns=[*numeric, *categories], numeric=(), bounds={})  # ranges: next line
    _check_ranges(need_range, bounds, number_target)
    declared: dict[str, Any] = {
        "target": target,
        "positive": None if positive is None else class_label(positive),
        "features": numeric,
        "bounds": {name: bounds[name] for name in numeric},
        "drop_missing": drop_missing,
        "constant": constant,
        "reading": reading,
    }
    if group is not None:
        if categories or user is not None or number_target is not None:
            raise UserError(
                "Leave out user and categories, and give `positive` with a target.",
                title="A table with groups has numeric features and two classes",
            )
        declared |= {"group": group, "groups": _as_texts(groups), "shares": shares}
        return _carrying(prepare_groups(frame, **declared, **people), costs)
    declared |= {"categories": lists, "target_range": None if number_target is None else bounds[number_target]}
    if user is not None:
        return _carrying(prepare_users(frame, **declared, user=user), costs)
    if file is None:
        return _carrying(prepare(frame, **declared, **people), costs)
    # No row is dropped yet: too few of the first block may remain where enough of the file do, as `_in_blocks` counts.
    first_upload = prepare(frame, **declared | {"drop_missing": False}, **people).specification
    return _in_blocks(file, first_upload.replaced(missing="drop" if drop_missing else "fill"), frame, costs)


def _as_texts(names: Sequence[str | float]) -> list[str]:
    """Return names of categories or groups as texts; 1.0 is "1"."""
    return [name if isinstance(name, str) else class_label(name) for name in names]


def frame_blocks(data: Any, reading: Reading | None = None) -> Iterator["pd.DataFrame"]:
    """Yield a table of any kind that `table` accepts, as DataFrames: the blocks of a large file, else the whole."""
    if isinstance(data, tuple) and len(data) == 2:
        data = _frame_of_arrays(*data)
    file = large_file(Path(data)) if isinstance(data, (str, Path)) else None
    if file is None:
        yield _frame(data, reading)
    else:
        yield from file.blocks()


def _frame(data: Any, reading: Reading | None) -> "pd.DataFrame":
    """Return a table of any supported kind as a DataFrame with unique names of columns and rows numbered from 0.

    Raises UserError for an object of another kind, and for a file or for names that cannot be used.
    """
    if isinstance(data, (str, Path)):
        path = Path(data)
        try:
            content = path.read_bytes()
        except (OSError, ValueError) as error:  # ValueError: the name has a null character
            reason = getattr(error, "strerror", None) or error
            raise UserError(f"{quote_name(str(path))}: {reason}.", title="This file cannot be read") from None
        try:
            return read_table(content, path.name, reading=reading)
        except UserError as error:
            if reading is not None or error.title != limits.NO_TABLE:  # another separator would not help
                raise
            hint = 'Or declare how the text is read, such as reading=dpviz.Reading(separator=";").'
            raise UserError(f"{error} {hint}", title=error.title) from None
    if not isinstance(data, pd.DataFrame):
        if not hasattr(data, "__arrow_c_stream__"):
            raise UserError(
                "Give a DataFrame of pandas or Arrow, (X, y), or the path of a file.",
                title=f"{value_in_words(data)} is no table",
            )
        try:
            arrow_table = pyarrow.table(data)  # from any library that exports Arrow data
        except (pyarrow.ArrowInvalid, TypeError):  # the data are a single column
            raise UserError(
                "Give a DataFrame of several columns.", title=f"{value_in_words(data)} is no table"
            ) from None
        names = limits.checked_names(arrow_table.column_names, min_columns=1, max_columns=limits.MAX_COLUMNS)
        # `frame_of` takes only the few Arrow types of `to_plain_array`, of arrays in one piece.
        columns, unusable = [], {}
        for name, column in zip(names, arrow_table.columns, strict=True):
            try:
                columns.append(to_plain_array(column.combine_chunks(), name))
            except UserError as error:  # such as one of lists; `check_columns` raises it where the column is used
                unusable[name] = str(error), error.title
                columns.append(to_plain_array(pyarrow.nulls(len(column)), name))
        frame = frame_of(pyarrow.Table.from_arrays(columns, names=names))
        frame.attrs[limits.UNUSABLE] = unusable
        return frame
    # Columns of pandas stay as they are, since `parsing` reads cells of every dtype but those of Arrow.
    names = limits.checked_names(list(map(str, data.columns)), min_columns=1, max_columns=limits.MAX_COLUMNS)
    frame = data.set_axis(names, axis=1).reset_index(drop=True)
    arrow_names = [name for name, dtype in frame.dtypes.items() if isinstance(dtype, pd.ArrowDtype)]
    for name in arrow_names:
        part = _frame(pyarrow.table(frame[[name]]), None)  # by the branch above
        frame[name] = part[name]
        frame.attrs[limits.UNUSABLE] = frame.attrs.get(limits.UNUSABLE, {}) | part.attrs[limits.UNUSABLE]
    return frame


def _frame_of_arrays(x: Any, y: Any) -> "pd.DataFrame":
    """Return X (n, d) and y (n,) as a table with the columns x1 to xd and y. Raises UserError for other shapes.

    A masked entry is missing.
    """
    try:
        features, labels = (
            # As objects, since whole numbers and truths have no NaN.
            np.ma.filled(part.astype(object), np.nan) if isinstance(part, np.ma.MaskedArray) else np.asarray(part)
            for part in (x, y)
        )
    except ValueError:
        raise UserError("All rows of X need equally many columns.", title="These arrays are no table") from None
    if hasattr(x, "toarray"):
        raise UserError("X is sparse: give X.toarray().", title="These arrays are no table")
    if features.ndim != 2 or labels.shape != (len(features),):
        raise UserError(
            f"X needs the shape (n, d) and y the shape (n,), not {features.shape} and {labels.shape}.",
            title="These arrays are no table",
        )
    frame = pd.DataFrame(features, columns=[f"x{number}" for number in range(1, features.shape[1] + 1)])
    return frame.assign(y=labels)


def _in_blocks(
    file: TableFile, upload: UploadedTable, first_block: "pd.DataFrame", costs: tuple[float, ...]
) -> UploadedTable:
    """Return the declarations of a file that is read in blocks, which carry the file in place of rows.

    upload : the declarations; their n becomes that of the whole file.
    costs : ε of every release by which ranges were bought.
    """
    n = file.rows
    for note in upload.read(first_block).notes:
        warnings.warn(f"Not private, read off the first rows of your file: {note}.", stacklevel=_TABLE_CALL)
    if upload.missing == "drop":  # only reading the whole file tells how many rows are left out
        n = sum(len(upload.read(frame).table) for frame in file.blocks())
        limits.check_rows(file.rows, remaining=n)
        if n < file.rows:
            note = f"rows left out because of missing values: {file.rows - n:,}"
            warnings.warn(f"Not private, read off your rows: {note}.", stacklevel=_TABLE_CALL)
    return upload.replaced(identity=new_identity(), n=n, ranges_costs=costs).carrying(file)


def _check_ranges(names: Sequence[str], bounds: Bounds, target: str | None) -> None:
    """Raise UserError if a column of `names` has no usable range in `bounds`, or if a range is of no such column.

    All columns without a range are named at once, up to _LISTED, so that one correction is enough.

    target : the column to predict if it counts as a number, else None. Without a range it may be one of two classes, of
        which `positive` names one.
    """
    for name in names:
        if name in bounds and not is_range(*bounds[name]):
            raise no_range(name, bounds[name])
    missing = [name for name in names if name not in bounds]
    if missing:
        listed = ", ".join(map(quote_name, missing[:_LISTED]))
        names_in_call = ", ".join(map(repr, missing[:_LISTED]))
        if len(missing) > _LISTED:
            listed, names_in_call = f"{listed} and more", f"{names_in_call}, …"
        raise UserError(
            f"Declare them: bounds={{{missing[0]!r}: (lowest, highest), …}}, known without its rows. "
            f"Or buy them with a part of the budget: bounds=dpviz.private_bounds(data, [{names_in_call}], epsilon=…). "
            f"Or leave columns out by features=[…]. Without a range: {listed}"
            + (f", unless {quote_name(target)} has two classes: then positive=…." if target in missing else "."),
            title=f"{len(missing)} column{'s need' if len(missing) > 1 else ' needs'} a range",
        )
    unused = [name for name in bounds if name not in names]
    if unused:
        raise UserError(
            f"The columns that need a range are {', '.join(map(quote_name, names[:_LISTED])) or 'none'}.",
            title=f"{quote_name(unused[0])} has a range and no use",
        )


def _carrying(result: Prepared[U], costs: tuple[float, ...] = ()) -> U:
    """Return the declarations of a prepared table, which carry its rows; warn of rows left out and of odd cells.

    costs : ε of every release by which ranges were bought.
    """
    notes = list(result.notes)
    if result.dropped:
        notes.insert(0, f"rows left out because of missing values: {result.dropped:,}")
    for note in notes:
        warnings.warn(f"Not private, read off your rows: {note}.", stacklevel=_TABLE_CALL)
    return result.specification.replaced(ranges_costs=costs).carrying(result.table)
