"""Choosing data: generated, bundled, or a user's own file with declared ranges."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import (
    BundledTable,
    ColumnInfo,
    CorrelatedLogistic,
    DatasetSpecification,
    HeavyTailed,
    PaperLogistic,
    Prepared,
    UniformLogistic,
    describe_columns,
    prepare,
    read_table,
    suggested_bounds,
    target_candidates,
    target_classes,
)
from dpviz.datasets.files import MAX_ROWS
from dpviz.errors import UserError
from dpviz.ui.controls import Panel, Settings, in_place

# The short names are part of the address.
GENERATORS: Mapping[str, type[DatasetSpecification]] = MappingProxyType(
    {
        "uniform": UniformLogistic,
        "correlated": CorrelatedLogistic,
        "heavy": HeavyTailed,
        "paper": PaperLogistic,
        "bundled": BundledTable,
    }
)
UPLOAD = "upload"
NOTICE = (
    "For learning and planning. Not a release tool: seeded pseudo-random noise and floating-point arithmetic do not "
    "protect real data."
)


@dataclass
class Upload:
    """A file as it was read: its table, or what was wrong with it. Kept in the session, never on disk."""

    name: str
    frame: pd.DataFrame | None = None
    columns: tuple[ColumnInfo, ...] = ()
    error: UserError | None = None
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)  # as declared so far
    filled: bool = False  # whether ranges were taken from the data
    edition: int = 0  # of the ranges' table; a new one starts from `bounds`
    prepared: tuple[Any, Prepared] | None = None  # the choice that it was made for, and the result


def generated(panel: Panel, source: str) -> Settings[DatasetSpecification]:
    """The controls of a generator or of the bundled tables; what they set."""
    cls = GENERATORS[source]
    return Settings(cls, panel.specification(cls, [control.name for control in cls.controls()], prefix=f"{source}_"))


def uploaded(page: str) -> tuple[DatasetSpecification | None, dict[str, np.ndarray]]:
    """The panel for a user's file; the data set and its table, or None as long as something is missing."""
    st.info(NOTICE, icon=":material/info:")
    key = f"{page}_file"
    st.file_uploader(
        "CSV or Parquet file with a header row, at most 50 MB",
        type=["csv", "txt", "tsv", "parquet", "pq"],
        key=key,
        max_upload_size=50,
        on_change=_read,
        args=(page,),
    )
    upload: Upload | None = st.session_state.get(f"{page}_upload")
    if upload is None:
        st.caption("The file stays in the memory of this server. It is never written to disk nor put into a link.")
        return None, {}
    if upload.error is not None:
        st.error(str(upload.error), title=upload.error.title)
        # Only this error can be mended by a sample.
        if upload.error.title == f"More than {MAX_ROWS:,} rows":
            st.button(f"Use a random sample of {MAX_ROWS:,} rows", on_click=_read, args=(page, MAX_ROWS))
        return None, {}
    with in_place():
        prepared = _chosen(page, upload)
        return prepared.specification, {prepared.specification.sha256: prepared.table}
    return None, {}


def ranges_from_data(page: str) -> bool:
    """Whether the declared ranges of the uploaded table were taken from the file itself."""
    upload: Upload | None = st.session_state.get(f"{page}_upload")
    return upload is not None and upload.filled


def _read(page: str, sample_rows: int | None = None) -> None:
    """Read the file that was just chosen; forget the table if it was removed."""
    file = st.session_state.get(f"{page}_file")
    if file is None:
        st.session_state.pop(f"{page}_upload", None)
        return
    upload = Upload(file.name)
    try:
        upload.frame = read_table(file.getvalue(), file.name, sample_rows=sample_rows)
        upload.columns = describe_columns(upload.frame)
    except UserError as error:
        upload.error = error
    st.session_state[f"{page}_upload"] = upload
    for name in ("target", "positive", "features", "drop"):
        st.session_state.pop(f"{page}_upload_{name}", None)


def _chosen(page: str, upload: Upload) -> Prepared:
    """Target, features, ranges and missing values: the table that the user's choices make. Raises UserError."""
    frame = upload.frame
    assert frame is not None
    st.caption(f"**{upload.name}**: {len(frame):,} rows, {len(upload.columns)} columns")
    target, positive = _target(page, upload, frame)
    features = _features(page, upload, target)
    bounds = _ranges(page, upload, features)
    missing = int(frame[[target, *features]].isna().any(axis=1).sum())
    drop = False
    if missing:
        drop = st.toggle(
            "Drop the row with missing values" if missing == 1 else f"Drop the {missing:,} rows with missing values",
            key=f"{page}_upload_drop",
            persist_state="session",
            help="Rows are never dropped silently. The number of rows that remain is treated as public.",
        )
    choice = (target, positive, tuple(features), tuple(sorted(bounds.items())), drop)
    if upload.prepared is None or upload.prepared[0] != choice:
        upload.prepared = (choice, prepare(frame, target, positive, features, bounds, drop))
    prepared = upload.prepared[1]
    dropped = f", {prepared.dropped:,} dropped" if prepared.dropped else ""
    st.success(f"Ready: {len(prepared.table):,} rows{dropped}, {len(features)} features.", icon=":material/check:")
    return prepared


def _target(page: str, upload: Upload, frame: pd.DataFrame) -> tuple[str, str | None]:
    candidates = target_candidates(upload.columns)
    if not candidates:
        raise UserError(
            "A target column needs two classes (or up to 20, of which you choose one). Add such a column to the file.",
            title="No column can be the target",
        )
    names = [column.name for column in upload.columns]
    left, right = st.columns(2)
    target = left.selectbox(
        "Target column",
        names,
        index=names.index(candidates[0]),
        key=f"{page}_upload_target",
        persist_state="session",
        help="What is to be predicted: a column with two classes.",
    )
    column = next(column for column in upload.columns if column.name == target)
    if target not in candidates:
        found = "one class only" if column.constant else "too many classes"
        raise UserError(
            f"A target needs two classes, or up to 20 of which you choose one. Columns that fit: "
            f"{', '.join(candidates)}.",
            title=f"Column '{target}' has {found}",
        )
    classes = target_classes(frame[target].dropna())
    positive = right.selectbox(
        "Positive class",
        classes,
        index=len(classes) - 1,
        key=f"{page}_upload_positive",
        persist_state="session",
        help="Becomes the label +1; every other class becomes -1.",
    )
    return target, positive


def _features(page: str, upload: Upload, target: str) -> list[str]:
    usable, left_out = [], []
    for column in upload.columns:
        if column.name == target:
            continue
        problem = _unusable(column)
        if problem:
            left_out.append(f"'{column.name}' ({problem})")
        else:
            usable.append(column.name)
    features = st.multiselect(
        "Feature columns",
        [column.name for column in upload.columns if column.name != target],
        default=usable,
        key=f"{page}_upload_features",
        persist_state="session",
        help="Numeric columns that predict the target.",
    )
    if left_out:
        st.caption(f"Left out at first: {', '.join(left_out[:8])}{' and more' if len(left_out) > 8 else ''}.")
    return features


def _unusable(column: ColumnInfo) -> str:
    if not column.numeric:
        return "text"
    if column.constant:
        return "constant"
    return f"{column.infinite:,} infinite values" if column.infinite else ""


def _ranges(page: str, upload: Upload, features: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The declared ranges, as a table to fill in."""
    st.markdown("**Declared range of each feature.** Values outside are clipped to it, so that the guarantee holds.")
    base = pd.DataFrame(
        [upload.bounds.get(name, (np.nan, np.nan)) for name in features],
        columns=["lowest", "highest"],
        index=pd.Index(features, name="feature"),
        dtype=float,
    )
    # What is edited is kept by the widget as changes to `base`; so `base` changes only together with the key.
    signature = f"{page}_ranges_{upload.edition}_{hash(tuple(features))}"
    base = st.session_state.setdefault(f"{signature}_base", base)
    edited = st.data_editor(
        base,
        key=signature,
        column_config={
            "feature": st.column_config.TextColumn("Feature", disabled=True),
            "lowest": st.column_config.NumberColumn("Lowest value", help="Declare what you know, not what you see."),
            "highest": st.column_config.NumberColumn("Highest value", help="Declare what you know, not what you see."),
        },
        height=min(320, 38 + 35 * max(1, len(features))),
        alt="Lowest and highest value that you declare for each feature",
    )
    upload.bounds |= {name: (float(edited.at[name, "lowest"]), float(edited.at[name, "highest"])) for name in features}
    st.button(
        "Fill from the data (not private)",
        key=f"{page}_upload_fill",
        on_click=_fill,
        args=(upload, list(features)),
        help="Minimum and maximum of each column, rounded outwards. They reveal something that no budget accounts for.",
    )
    if upload.filled:
        st.badge("ranges taken from the data: not private", icon=":material/visibility:", color="orange")
    return {name: upload.bounds[name] for name in features}


def _fill(upload: Upload, features: Sequence[str]) -> None:
    assert upload.frame is not None
    upload.bounds |= suggested_bounds(upload.frame, features)
    upload.filled, upload.edition = True, upload.edition + 1
