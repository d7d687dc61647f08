"""Choosing data with a target: generated, bundled, or a user's own file with declared ranges and categories."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import (
    BundledTable,
    CorrelatedLogistic,
    DatasetSpecification,
    HeavyTailed,
    PaperLogistic,
    Prepared,
    UniformLinear,
    UniformLogistic,
    likely_target,
    prepare,
    prepare_users,
    suggested_bounds,
    target_candidates,
    target_classes,
    usual_positive,
)
from dpviz.datasets.uploads.columns import MAX_CLASSES_SHOWN
from dpviz.datasets.uploads.limits import shown
from dpviz.datasets.uploads.parsing import is_empty, numbers
from dpviz.datasets.uploads.upload import UNDECLARED, UploadedTable
from dpviz.ui.controls import Panel, Settings
from dpviz.ui.markdown import plain
from dpviz.ui.uploads import categories, file
from dpviz.ui.uploads.file import File

# The short names are part of the address.
GENERATORS: Mapping[str, type[DatasetSpecification]] = MappingProxyType(
    {
        "uniform": UniformLogistic,
        "correlated": CorrelatedLogistic,
        "heavy": HeavyTailed,
        "paper": PaperLogistic,
        "bundled": BundledTable,
        "linear": UniformLinear,
    }
)
UPLOAD = "upload"
CLASSES, NUMBER = "classes", "number"
TARGETS = {CLASSES: "One of two classes", NUMBER: "A number"}


class Target(NamedTuple):
    """What is to be predicted: a column, and its positive class, "" if none is chosen, or None for a number."""

    column: str
    positive: str | None


def source(
    panel: Panel, name: str, options: Mapping[str, str], default: str, help: str, own: Mapping[str, tuple[Any, Any]]
) -> str:
    """Where the data come from, one of `options`.

    own : controls whose default is another one for the visitor's own file: the usual one, and that one. When the source
        is changed by hand, those that are at the default of the one kind take the other's.
    """
    key = panel.key(name)
    value = panel.choice(name, "Data set", options, default, help, partial(_swap, panel, name, own))
    st.session_state[f"{key}_drawn"] = value
    return value


def _swap(panel: Panel, name: str, own: Mapping[str, tuple[Any, Any]]) -> None:
    before, after = (st.session_state.get(panel.key(key)) == UPLOAD for key in (f"{name}_drawn", name))
    for control, defaults in own.items():
        if before != after and st.session_state.get(panel.key(control)) == defaults[before]:
            st.session_state[panel.key(control)] = defaults[after]


def generated(panel: Panel, source: str) -> Settings[DatasetSpecification]:
    """The controls of a generator or of the bundled tables; what they set."""
    cls = GENERATORS[source]
    return Settings(cls, panel.specification(cls, [control.name for control in cls.controls()], prefix=f"{source}_"))


def uploaded(page: str, constant: bool = False) -> tuple[UploadedTable | None, Mapping[str, np.ndarray]]:
    """The panel for a user's file; the data set and its table, or None as long as something is missing.

    constant : whether a constant column is offered; not where the model has one of its own.
    """
    return file.uploaded(page, File, partial(choose, constant=constant))


def choose(upload: File, user: str | None = None, constant: bool = False) -> Prepared[Any]:
    """Target, features, ranges, categories and missing values: the table that they make. Raises UserError.

    user : the column that says whose each row is; then the table is one of users. constant : as in `uploaded`.
    """
    target, positive = choose_target(upload, tuple(TARGETS))
    taken = {target} if user is None else {target, user}
    features = choose_features(upload, taken)
    columns = _choose_categories(upload, {*taken, *features})
    numeric = [target, *features] if positive is None else features
    bounds = declare_ranges(upload, numeric, positive is None)
    lists = categories.declare(upload, columns) if columns else {}
    drop = choose_dropping(upload, [] if positive is None else [target], numeric)
    constant = constant and positive is not None and choose_constant(upload)
    target_range = bounds.pop(target, UNDECLARED) if positive is None else None
    choice = (
        target,
        positive,
        tuple(features),
        tuple(sorted(bounds.items())),
        tuple(lists.items()),
        target_range,
        drop,
        user,
        constant,
    )
    made_by: Callable[..., Prepared[Any]] = prepare if user is None else partial(prepare_users, user=user)
    prepared = upload.once(
        choice,
        lambda name: made_by(
            upload.frame,
            target=target,
            positive=positive,
            features=features,
            bounds=bounds,
            drop_missing=drop,
            identity=name,
            reading=upload.reading,
            categories=lists,
            target_range=target_range,
            constant=constant,
        ),
    )
    made = f" from {len(features) + len(columns)} columns" if columns else ""
    file.ready(len(prepared.table), prepared.dropped, f"{prepared.specification.facts().d} features{made}")
    file.counted(prepared.notes)
    return prepared


def choose_constant(upload: File) -> bool:
    """Whether there is a constant column; at first there is."""
    return st.toggle(
        "Add a constant column",
        value=True,
        key=f"{upload.page}_upload_constant",
        persist_state="session",
        help="A feature that is 1 in every row. Without it a model is undecided where all features are in the middle "
        "of their ranges, however few rows have the positive class. It is clipped and needs noise like any other.",
    )


def choose_dropping(upload: File, filled: Sequence[str], features: Sequence[str]) -> bool:
    """Whether rows without a cell of `filled` or a number in the features are dropped; asked if there are any."""
    missing = upload.count(("missing", *filled, None, *features), lambda: _lacking(upload.frame, filled, features))
    if not missing:
        return False
    drop = st.toggle(
        "Drop the row with missing values" if missing == 1 else f"Drop the {missing:,} rows with missing values",
        key=f"{upload.page}_upload_drop",
        persist_state="session",
        help="Otherwise a cell without a finite number takes the middle of its declared range, and a missing target "
        "counts as the negative class.",
    )
    if drop:
        st.caption(
            "The number of rows then depends on the data: it counts as public, and tells how many rows lack a value."
        )
    return drop


def _lacking(frame: pd.DataFrame, filled: Sequence[str], features: Sequence[str]) -> int:
    lacking = np.zeros(len(frame), dtype=bool)
    for name in filled:
        lacking |= is_empty(frame[name])
    for name in features:
        lacking |= ~np.isfinite(numbers(frame[name]))
    return int(lacking.sum())


def choose_target(upload: File, kinds: Sequence[str] = (CLASSES,)) -> Target:
    """The target column, and its positive class where it has two.

    kinds : what it may be, of TARGETS; asked if there are several. It is a choice of the user's: nothing in the file
        decides about it.
    """
    candidates, likely_column = target_candidates(upload.columns), likely_target(upload.columns)
    names = [column.name for column in upload.columns]
    left, right = st.columns(2)
    target = left.selectbox(
        "Target column",
        names,
        index=names.index(likely_column),
        key=f"{upload.page}_upload_target",
        persist_state="session",
        on_change=lambda: st.session_state.pop(f"{upload.page}_upload_positive", None),  # it was one of another column
        help="What is to be predicted: a column with two classes" + (", or with numbers." if NUMBER in kinds else "."),
    )
    kind = kinds[0]
    if len(kinds) > 1:
        kind = left.segmented_control(
            "The target is",
            kinds,
            default=kind,
            required=True,
            format_func=TARGETS.__getitem__,
            key=f"{upload.page}_upload_kind",
            persist_state="session",
            help="A number needs a loss that predicts numbers; two classes go with any loss.",
        )
    if kind == NUMBER:
        right.caption("Declare its range below, with those of the features.")
        return Target(target, None)
    if target not in candidates:
        fitting = f" Columns that fit: {', '.join(map(plain, candidates))}." if candidates else ""
        several = "one class only" if upload.column(target).constant else f"more than {MAX_CLASSES_SHOWN} classes"
        st.caption(f"**Not private**, counted in the file: column {plain(shown(target))} has {several}.{fitting}")
    listed = upload.count(("classes", target), lambda: target_classes(upload.frame[target]))
    usual = usual_positive(upload.column(target))
    positive = right.selectbox(
        "Positive class",
        listed,
        index=listed.index(usual) if usual in listed else None,
        key=f"{upload.page}_upload_positive",
        persist_state="session",
        accept_new_options=True,
        help="Counts as yes, every other class as no. Type one that is not in the list.",
    )
    right.caption("**Not private**: the list shows the classes in the file. Choose by what you know.")
    return Target(target, (positive or "").strip())


def choose_features(
    upload: File,
    taken: Collection[str],
    label: str = "Feature columns",
    help: str = "Numeric columns that predict the target.",
) -> list[str]:
    """Numeric columns other than those `taken`; at first, all that were declared as such."""
    usable: list[str] = []
    left_out: list[str] = []
    for column in upload.columns:
        if column.name in taken:
            continue
        (usable if column.numeric else left_out).append(column.name)
    features = st.multiselect(
        label,
        [column.name for column in upload.columns if column.name not in taken],
        default=usable,
        key=f"{upload.page}_upload_features",
        persist_state="session",
        help=help,
    )
    if left_out:
        listed = ", ".join(map(shown, left_out[:8])) + (" and more" if len(left_out) > 8 else "")
        st.caption(f"Left out at first, because they hold texts: {listed}.")
    return features


def _choose_categories(upload: File, taken: Collection[str]) -> list[str]:
    """Columns that are used as declared categories, at first none; not those `taken`."""
    names, key = [column.name for column in upload.columns if column.name not in taken], f"{upload.page}_upload_lists"
    if key in st.session_state:  # one of them may have become the target or a feature
        st.session_state[key] = [name for name in st.session_state[key] if name in names]
    return st.multiselect(
        "Columns of categories",
        names,
        key=key,
        persist_state="session",
        help="Text, or numbers cut into ranges. Every category that you declare becomes a feature that is 0 or 1; a "
        "column adds 1 to the norm of a row, however many it has.",
    )


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
        column_config={
            "feature": st.column_config.TextColumn("Column" if target else "Feature", disabled=True),
            "lowest": st.column_config.NumberColumn("Lowest value", help="Declare what you know, not what you see."),
            "highest": st.column_config.NumberColumn("Highest value", help="Declare what you know, not what you see."),
        },
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
    file.marks(upload, {("bounds", name): file.ends(*found) for name, found in bounds.items()}, {"bounds": "ranges"})
    return bounds


def _fill(upload: File, features: Sequence[str]) -> None:
    found = suggested_bounds(upload.frame, features)
    upload.bounds |= found
    for name, bounds in found.items():
        upload.fill(("bounds", name), file.ends(*bounds))
