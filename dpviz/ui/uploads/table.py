"""Data with a target: the generators of a page, and the panel for a visitor's own file.

The visitor declares the target, the numeric features with their ranges, and columns of texts with their categories.
"""

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
from dpviz.datasets.uploads.limits import UNDECLARED, quote_name
from dpviz.datasets.uploads.parsing import column_numbers, is_empty
from dpviz.datasets.uploads.upload import Mark
from dpviz.ui.markdown import column_configs, editor_height, escape_name
from dpviz.ui.uploads import TABLES, categories, file, texts
from dpviz.ui.uploads.file import File

# Classes of the settings of generated and bundled data, by the names under which addresses contain them.
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
# Largest numbers of columns that a sentence names: of those without a range, and of those left out for their texts.
MAX_NAMED, MAX_LEFT_OUT = 4, 8
CLASSES, NUMBER = "classes", "number"  # kinds of target
TARGETS = {CLASSES: "One of two classes", NUMBER: "A number"}


class Target(NamedTuple):
    """The column to be predicted, and its positive class: "" if none is chosen, None if the column holds numbers."""

    column: str
    positive: str | None


def choose_upload_with_users(page: str) -> tuple[datasets.UploadedTable | None, Mapping[str, np.ndarray]]:
    """Draw the panel for a visitor's file, with a choice of the column that names users; return as `choose_upload`.

    If such a column is chosen, the data set is a `UserUpload`, in which all rows of a user can be protected together.
    """
    return file.choose_upload(f"{page}_users", File, partial(choose, with_users=True))


def choose_upload(page: str, constant: bool = False) -> tuple[datasets.UploadedTable | None, Mapping[str, np.ndarray]]:
    """Draw the panel for a visitor's file; return the data set and its arrays by name.

    The data set is None while something is missing.

    page : prefix of the page. constant : true to offer a constant column; false for a model with one of its own.
    """
    return file.choose_upload(page, File, partial(choose, constant=constant))


def choose(upload: File, constant: bool = False, with_users: bool = False) -> datasets.Prepared[Any]:
    """Draw the controls for target, features, ranges, categories and missing values; return the prepared table.

    Raises UserError while something is missing or inconsistent.

    constant : true to offer a constant column, if the target has classes. with_users : true to offer the choice of the
    column that names the user of each row; then users are protected, and no other persons.
    """
    user: str | None = None
    if with_users:
        names = [column.name for column in upload.columns]
        user = st.selectbox(
            "Column that names the user",
            names,
            index=None,
            placeholder="None: every row is another user",
            help="All rows of a user are protected together. Leave it empty if nobody has more than one row.",
            **upload.widget_options("user"),
        )
    target, positive = choose_target(upload, kinds=tuple(TARGETS))
    people = file.People() if with_users else file.choose_people(upload, (target,))
    used = {target, user, people.person}
    features = choose_features(upload, used)
    _offer_texts(upload, {*used, *features})
    text_columns = _choose_categories(upload, {*used, *features})
    is_number = positive is None  # the target
    numeric = [target, *features] if is_number else features
    bounds = declare_ranges(upload, numeric, with_target=is_number)
    lists = categories.declare(upload, text_columns) if text_columns else {}
    drop = choose_dropping(upload, [] if is_number else [target], numeric)
    has_constant = constant and not is_number and choose_constant(upload)
    target_range = bounds.pop(target, UNDECLARED) if is_number else None  # declared with those of the features
    prepared: datasets.Prepared[Any] = upload.prepare_once(
        datasets.prepare if user is None else datasets.prepare_users,
        **(people._asdict() if user is None else {"user": user}),
        target=target,
        positive=positive,
        features=features,
        bounds=bounds,
        drop_missing=drop,
        categories=lists,
        target_range=target_range,
        constant=has_constant,
    )
    d = prepared.specification.facts().d
    source = f" from {len(features) + len(text_columns)} columns" if text_columns else ""
    columns = f"{d} {'feature' if d == 1 else 'features'}{source}"
    file.show_ready(upload, len(prepared.table), prepared.dropped, columns)
    file.show_counts(prepared.notes)
    if isinstance(prepared.specification, datasets.UserUpload):
        st.caption(texts.USERS.format(users=prepared.specification.users))
    return prepared


def choose_constant(upload: File) -> bool:
    """Draw the switch that adds a constant column, which is on at first; return its value."""
    return st.toggle(
        "Add a constant column",
        value=True,
        help="A feature that is 1 in every row. Without it a model is undecided where all features are in the middle "
        "of their ranges, however few rows have the positive class. It is clipped and needs noise like any other.",
        **upload.widget_options("constant"),
    )


def choose_dropping(upload: File, labels: Sequence[str], features: Sequence[str]) -> bool:
    """Draw the switch that drops rows with missing values; return its value, False if there are no such rows.

    A row has a missing value if its cell is empty in a column of `labels`, or is no number in a column of `features`.
    """
    quantity = ("missing", *labels, None, *features)  # None ends the names of `labels`
    missing = upload.compute_once(quantity, lambda: _count_incomplete(upload.frame, labels, features))
    if not missing:
        return False
    rows = "row" if missing == 1 else f"{missing:,} rows"
    drop = st.toggle(
        f"Drop the {rows} with missing values",
        help="Otherwise a cell without a finite number takes the middle of its declared range, and a missing target "
        "counts as the negative class.",
        **upload.widget_options("drop"),
    )
    if drop:
        st.caption(texts.DROPPED)
    return drop


def _count_incomplete(frame: pd.DataFrame, labels: Sequence[str], features: Sequence[str]) -> int:
    """Return the number of rows with missing values, as `choose_dropping` defines them."""
    incomplete = np.zeros(len(frame), dtype=bool)
    for name in labels:
        incomplete |= is_empty(frame[name])
    for name in features:
        incomplete |= ~np.isfinite(column_numbers(frame[name]))
    return int(incomplete.sum())


def choose_target(upload: File, kinds: Sequence[str] = (CLASSES,)) -> Target:
    """Draw the choice of the target column and, for a target with classes, of its positive class; return both.

    Nothing in the rows decides about either: they only lead to suggestions.

    kinds : the allowed kinds of target, keys of TARGETS; a control asks for the kind if there are several.
    """
    candidates = datasets.target_candidates(upload.columns)  # with 2 classes, then with up to MAX_CLASSES_SHOWN
    likely_column = datasets.likely_target(upload.columns)
    names = [column.name for column in upload.columns]
    left, right = st.columns(2)
    target = left.selectbox(
        "Target column",
        names,
        index=names.index(likely_column),
        **upload.widget_options("target"),
        on_change=lambda: st.session_state.pop(f"{upload.page}_upload_positive", None),  # a class of the old column
        help="What is to be predicted: a column with two classes" + (", or with numbers." if NUMBER in kinds else "."),
    )
    kind = kinds[0]
    if len(kinds) > 1:
        kind = left.segmented_control(
            "The target is",
            kinds,
            default=kind,
            format_func=TARGETS.__getitem__,
            required=True,
            help="A number needs a loss that predicts numbers; two classes go with any loss.",
            **upload.widget_options("kind"),
        )
    if kind == NUMBER:
        right.caption("Declare its range below, with those of the features.")
        return Target(target, positive=None)
    if target not in candidates:
        fitting = f" Columns that fit: {', '.join(map(escape_name, candidates))}." if candidates else ""
        classes = "one class only" if upload.column(target).constant else f"more than {MAX_CLASSES_SHOWN} classes"
        st.caption(
            f"**Not private**, counted in the file: column {escape_name(quote_name(target))} has {classes}.{fitting}"
        )
    listed = upload.compute_once(("classes", target), lambda: datasets.target_classes(upload.frame[target]))
    usual = datasets.usual_positive(upload.column(target))  # "1" or "yes", by the declared kind
    index = listed.index(usual) if usual in listed else None
    positive = right.selectbox(
        "Positive class",
        listed,
        index=index,
        accept_new_options=True,
        help="Counts as yes, every other class as no. Type one that is not in the list.",
        **upload.widget_options("positive"),
    )
    right.caption(texts.CLASSES_SHOWN)
    if not positive:
        upload.missing_parts.append("the positive class")
    return Target(target, (positive or "").strip())


def choose_features(
    upload: File,
    used: Collection[str | None],
    label: str = "Feature columns",
    help: str = "Numeric columns that predict the target.",
) -> list[str]:
    """Draw the choice of the feature columns, other than those `used`; return their names.

    At first these are all columns that were declared as numeric. used : names of columns with another role; None is no
    column. label, help : of the control.
    """
    numeric: list[str] = []
    left_out: list[str] = []
    for column in upload.columns:
        if column.name in used:
            continue
        if not column.numeric:
            left_out.append(column.name)
        # Not a column that only numbers the rows. Of a text file, the visitor has said what each column holds.
        elif upload.is_text or not is_id(column.name):
            numeric.append(column.name)
    features = st.multiselect(
        label,
        [column.name for column in upload.columns if column.name not in used],
        default=numeric,
        **upload.widget_options("features"),
        help=help,
    )
    if left_out:
        more = " and more" if len(left_out) > MAX_LEFT_OUT else ""
        listed = ", ".join(escape_name(quote_name(name)) for name in left_out[:MAX_LEFT_OUT]) + more
        st.caption(f"Left out at first, because they hold texts: {listed}.")
    return features


def _offer_texts(upload: File, used: Collection[str | None]) -> None:
    """Draw a button that declares categories, taken from the data, for all columns of texts but those `used`.

    It is drawn while no column has declared categories.
    """
    left_out = [column.name for column in upload.columns if not column.numeric and column.name not in used]
    if left_out and not st.session_state.get(f"{upload.page}_upload_lists"):
        label = "Use these columns as categories; list them from the data (not private)"
        fill = partial(categories.use, upload, left_out)
        file.fill_button(upload, fill, (), "The most frequent texts of each column.", name="texts", label=label)


def _choose_categories(upload: File, used: Collection[str | None]) -> list[str]:
    """Draw the choice of the columns, other than those `used`, that get declared categories; return their names."""
    names = [column.name for column in upload.columns if column.name not in used]
    key = f"{upload.page}_upload_lists"
    if key in st.session_state:  # one of them may have become the target or a feature
        st.session_state[key] = [name for name in st.session_state[key] if name in names]
    return st.multiselect(
        "Columns of categories",
        names,
        help="Text, or numbers cut into ranges. Every category that you declare becomes a feature that is 0 or 1; a "
        "column adds 1 to the norm of a row, however many it has.",
        **upload.widget_options("lists"),
    )


def declare_ranges(upload: File, features: Sequence[str], with_target: bool = False) -> dict[str, tuple[float, float]]:
    """Draw a table in which the visitor types the range of each of `features`; return (lowest, highest) by column.

    An end that is not typed is NaN. A button fills in the ends from the data; those of them that the visitor has not
    typed again are marked as not private. with_target : true if the first of `features` is the target.
    """
    subject = "the target and each feature" if with_target else "each feature"
    st.markdown(f"**Declared range of {subject}.** Values outside are clipped to it, so that the guarantee holds.")

    def start() -> pd.DataFrame:
        return pd.DataFrame(
            [upload.bounds.get(name, (np.nan, np.nan)) for name in features],
            columns=["lowest", "highest"],
            index=pd.Index(features, name="feature"),
            dtype=float,
        )

    edited = upload.editor(
        "ranges",
        rows=tuple(features),
        start=start,
        column_config=column_configs(TABLES["ranges"], feature={"label": "Column"} if with_target else {}),
        height=editor_height(len(features)),
        alt="Lowest and highest value that you declare for each feature",
    )
    upload.bounds |= {name: (float(edited.at[name, "lowest"]), float(edited.at[name, "highest"])) for name in features}
    help = "Minimum and maximum of each column, rounded outwards."
    file.fill_button(upload, _fill_ranges, (upload, list(features)), help)
    # An end that was typed after the fill is no longer from the data, even if it is the same number.
    for row, typed_ends in upload.typed_cells("ranges", rows=tuple(features)).items():
        filled = upload.filled.get(("bounds", features[row]), set())  # pairs such as ("lowest", 0.5)
        filled.difference_update([(end, value) for end, value in filled if end in typed_ends])
    bounds = {name: upload.bounds[name] for name in features}
    unknown = [escape_name(quote_name(name)) for name, ends in bounds.items() if np.isnan(ends).any()]
    if unknown:
        more = f" and {len(unknown) - MAX_NAMED} more" if len(unknown) > MAX_NAMED else ""
        upload.missing_parts.append(f"the range of {', '.join(unknown[:MAX_NAMED])}{more}")
    parts: dict[Mark, set[tuple[str, float]]] = {
        ("bounds", name): file.range_parts(*ends) for name, ends in bounds.items()
    }
    file.mark_from_data(upload, parts, nouns={"bounds": "ranges"})
    return bounds


def _fill_ranges(upload: File, features: Sequence[str]) -> None:
    """Fill in the ranges of `features` from the data; for a callback."""
    suggested = datasets.suggested_bounds(upload.frame, features)
    upload.bounds |= suggested
    for name, bounds in suggested.items():
        upload.note_from_data(("bounds", name), file.range_parts(*bounds))
