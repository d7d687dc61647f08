"""Choosing data with a target: generated, bundled, or a user's own file with declared ranges and categories."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from dpviz import datasets
from dpviz.datasets.uploads.columns import MAX_CLASSES_SHOWN
from dpviz.datasets.uploads.detection import is_id
from dpviz.datasets.uploads.limits import UNDECLARED, shown
from dpviz.datasets.uploads.parsing import is_empty, numbers
from dpviz.ui.markdown import columns, plain
from dpviz.ui.uploads import categories, file, texts
from dpviz.ui.uploads.file import File

# The short names are part of the address.
GENERATORS: Mapping[str, type[datasets.DatasetSpecification]] = MappingProxyType(
    {
        "uniform": datasets.UniformLogistic,
        "correlated": datasets.CorrelatedLogistic,
        "heavy": datasets.HeavyTailed,
        "paper": datasets.PaperLogistic,
        "bundled": datasets.BundledTable,
        "linear": datasets.UniformLinear,
    }
)
NAMED = 4  # columns without a range that are named
CLASSES, NUMBER = "classes", "number"
TARGETS = {CLASSES: "One of two classes", NUMBER: "A number"}


class Target(NamedTuple):
    """What is to be predicted: a column, and its positive class, "" if none is chosen, or None for a number."""

    column: str
    positive: str | None


def uploaded_with_users(page: str) -> tuple[datasets.UploadedTable | None, Mapping[str, np.ndarray]]:
    """`uploaded`, where the rows of each person may be protected together; the data set is a `UserUpload` where a
    column names users."""
    return file.uploaded(f"{page}_users", File, _choose_with_users)


def uploaded(page: str, constant: bool = False) -> tuple[datasets.UploadedTable | None, Mapping[str, np.ndarray]]:
    """The panel for a user's file; the data set and its table, or None as long as something is missing.

    constant : whether a constant column is offered; not where the model has one of its own.
    """
    return file.uploaded(page, File, partial(choose, constant=constant))


def choose(upload: File, user: str | None = None, constant: bool = False) -> datasets.Prepared[Any]:
    """Target, features, ranges, categories and missing values: the table that they make. Raises UserError.

    user : the column that says whose each row is; then the table is one of users. constant : as in `uploaded`.
    """
    target, positive = choose_target(upload, tuple(TARGETS))
    used = {target} if user is None else {target, user}
    features = choose_features(upload, used)
    _offer_texts(upload, {*used, *features})
    columns = _choose_categories(upload, {*used, *features})
    numeric = [target, *features] if positive is None else features
    bounds = declare_ranges(upload, numeric, positive is None)
    lists = categories.declare(upload, columns) if columns else {}
    drop = choose_dropping(upload, [] if positive is None else [target], numeric)
    constant = constant and positive is not None and choose_constant(upload)
    target_range = bounds.pop(target, UNDECLARED) if positive is None else None
    prepared: datasets.Prepared[Any] = upload.made_by(
        datasets.prepare if user is None else datasets.prepare_users,
        **({} if user is None else {"user": user}),
        target=target,
        positive=positive,
        features=features,
        bounds=bounds,
        drop_missing=drop,
        categories=lists,
        target_range=target_range,
        constant=constant,
    )
    made = f" from {len(features) + len(columns)} columns" if columns else ""
    file.ready(upload, len(prepared.table), prepared.dropped, f"{prepared.specification.facts().d} features{made}")
    file.counted(prepared.notes)
    return prepared


def choose_constant(upload: File) -> bool:
    """Whether there is a constant column; at first there is."""
    return st.toggle(**upload.widget("constant"))


def choose_dropping(upload: File, filled: Sequence[str], features: Sequence[str]) -> bool:
    """Whether rows without a cell of `filled` or a number in the features are dropped; asked if there are any."""
    missing = upload.count(("missing", *filled, None, *features), lambda: _incomplete(upload.frame, filled, features))
    if not missing:
        return False
    rows = "row" if missing == 1 else f"{missing:,} rows"
    drop = st.toggle(f"Drop the {rows} with missing values", **upload.widget("drop"))
    if drop:
        st.caption(texts.DROPPED)
    return drop


def _incomplete(frame: pd.DataFrame, filled: Sequence[str], features: Sequence[str]) -> int:
    incomplete = np.zeros(len(frame), dtype=bool)
    for name in filled:
        incomplete |= is_empty(frame[name])
    for name in features:
        incomplete |= ~np.isfinite(numbers(frame[name]))
    return int(incomplete.sum())


def choose_target(upload: File, kinds: Sequence[str] = (CLASSES,)) -> Target:
    """The target column, and its positive class where it has two.

    kinds : what it may be, of TARGETS; asked if there are several. It is a choice of the user's: nothing in the file
        decides about it.
    """
    candidates, likely_column = datasets.target_candidates(upload.columns), datasets.likely_target(upload.columns)
    names = [column.name for column in upload.columns]
    left, right = st.columns(2)
    target = left.selectbox(
        options=names,
        index=names.index(likely_column),
        **upload.widget("target"),
        on_change=lambda: st.session_state.pop(f"{upload.page}_upload_positive", None),  # it was one of another column
        help="What is to be predicted: a column with two classes" + (", or with numbers." if NUMBER in kinds else "."),
    )
    kind = kinds[0]
    if len(kinds) > 1:
        kind = left.segmented_control(
            options=kinds, default=kind, format_func=TARGETS.__getitem__, **upload.widget("kind")
        )
    if kind == NUMBER:
        right.caption("Declare its range below, with those of the features.")
        return Target(target, None)
    if target not in candidates:
        fitting = f" Columns that fit: {', '.join(map(plain, candidates))}." if candidates else ""
        several = "one class only" if upload.column(target).constant else f"more than {MAX_CLASSES_SHOWN} classes"
        st.caption(f"**Not private**, counted in the file: column {plain(shown(target))} has {several}.{fitting}")
    listed = upload.count(("classes", target), lambda: datasets.target_classes(upload.frame[target]))
    usual = datasets.usual_positive(upload.column(target))
    place = listed.index(usual) if usual in listed else None
    positive = right.selectbox(options=listed, index=place, **upload.widget("positive"))
    right.caption(texts.CLASSES_SHOWN)
    if not positive:
        upload.lacks.append("the positive class")
    return Target(target, (positive or "").strip())


def choose_features(
    upload: File,
    used: Collection[str],
    label: str = "Feature columns",
    help: str = "Numeric columns that predict the target.",
) -> list[str]:
    """Numeric columns other than those `used`; at first, all that were declared as such."""
    usable: list[str] = []
    left_out: list[str] = []
    for column in upload.columns:
        if column.name in used:
            continue
        if not column.numeric:
            left_out.append(column.name)
        elif upload.of_text or not is_id(column.name):  # how a text is read says what is used
            usable.append(column.name)
    features = st.multiselect(
        label,
        [column.name for column in upload.columns if column.name not in used],
        default=usable,
        **upload.widget("features"),
        help=help,
    )
    if left_out:
        listed = ", ".join(plain(shown(name)) for name in left_out[:8]) + " and more" * (len(left_out) > 8)
        st.caption(f"Left out at first, because they hold texts: {listed}.")
    return features


def _offer_texts(upload: File, used: Collection[str]) -> None:
    """A button that uses the columns of texts as categories, with lists taken from the data."""
    left_out = [column.name for column in upload.columns if not column.numeric and column.name not in used]
    if left_out and not st.session_state.get(f"{upload.page}_upload_lists"):
        label = "Use these columns as categories; list them from the data (not private)"
        fill = partial(categories.use, upload, left_out)
        file.fill_button(upload, fill, (), "The most frequent texts of each column.", "texts", label)


def _choose_categories(upload: File, used: Collection[str]) -> list[str]:
    """Columns that are used as declared categories, at first none; not those `used`."""
    names, key = [column.name for column in upload.columns if column.name not in used], f"{upload.page}_upload_lists"
    if key in st.session_state:  # one of them may have become the target or a feature
        st.session_state[key] = [name for name in st.session_state[key] if name in names]
    return st.multiselect(options=names, **upload.widget("lists"))


def declare_ranges(upload: File, features: Sequence[str], target: bool = False) -> dict[str, tuple[float, float]]:
    """The declared ranges, as a table to fill in; target : the first of them is that."""
    what = "the target and each feature" if target else "each feature"
    st.markdown(f"**Declared range of {what}.** Values outside are clipped to it, so that the guarantee holds.")
    edited = upload.editor(
        "ranges",
        tuple(features),
        lambda: pd.DataFrame(
            [upload.bounds.get(name, (np.nan, np.nan)) for name in features],
            columns=["lowest", "highest"],
            index=pd.Index(features, name="feature"),
            dtype=float,
        ),
        column_config=columns(texts.TABLES["ranges"], feature={"label": "Column"} if target else {}),
        height=min(320, 38 + 35 * max(1, len(features))),
        alt="Lowest and highest value that you declare for each feature",
    )
    upload.bounds |= {name: (float(edited.at[name, "lowest"]), float(edited.at[name, "highest"])) for name in features}
    help = "Minimum and maximum of each column, rounded outwards."
    file.fill_button(upload, _fill, (upload, list(features)), help)
    for row, ends in upload.typed("ranges", tuple(features)).items():  # the number that was there may be typed, too
        filled = upload.filled.get(("bounds", features[row]), set())
        filled -= {part for part in filled if part[0] in ends}
    bounds = {name: upload.bounds[name] for name in features}
    if unknown := [plain(shown(name)) for name, ends in bounds.items() if np.isnan(ends).any()]:
        more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
        upload.lacks.append(f"the range of {', '.join(unknown[:NAMED])}{more}")
    file.marks(upload, {("bounds", name): file.ends(*found) for name, found in bounds.items()}, {"bounds": "ranges"})
    return bounds


def _fill(upload: File, features: Sequence[str]) -> None:
    suggested = datasets.suggested_bounds(upload.frame, features)
    upload.bounds |= suggested
    for name, bounds in suggested.items():
        upload.fill(("bounds", name), file.ends(*bounds))


def _choose_with_users(upload: File) -> datasets.Prepared[Any]:
    """`choose`, with the column that names the users, if there is one."""
    user = st.selectbox(options=[column.name for column in upload.columns], index=None, **upload.widget("user"))
    prepared = choose(upload, user)
    if isinstance(prepared.specification, datasets.UserUpload):
        st.caption(texts.USERS.format(users=prepared.specification.users))
    return prepared
