"""Choosing data: generated, bundled, or a user's own file with declared ranges."""

import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeVar

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
    Reading,
    UniformLogistic,
    describe_columns,
    detect_reading,
    likely_positive,
    likely_target,
    prepare,
    read_table,
    suggested_bounds,
    target_candidates,
    target_classes,
)
from dpviz.datasets.cells import is_empty, numbers
from dpviz.datasets.columns import MAX_CLASSES_SHOWN
from dpviz.datasets.files import MAX_ROWS, is_parquet, shown
from dpviz.datasets.upload import UploadedTable, new_identity
from dpviz.errors import NotYet, UserError
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.uploads.file import NAMES, chosen_reading, how_it_was_read

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
CHOICES = ("target", "positive", "features", "drop", "group", "lowest", "highest")  # keys that a new file resets
FILL = "Fill from the data (not private)"
NOTICE = (
    "For learning and planning. Not a release tool: seeded pseudo-random noise and floating-point arithmetic do not "
    "protect real data."
)


Made = TypeVar("Made")
Kind = TypeVar("Kind", bound="Upload")


@dataclass
class Upload:
    """A file as it was read: its table, or what was wrong with it. Kept in the session, never on disk."""

    page: str  # prefix of the panel's keys
    name: str
    serial: int  # of the files that this panel read
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    columns: tuple[ColumnInfo, ...] = ()
    reading: Reading | None = None  # how it was read
    questions: tuple[str, ...] | None = None  # what a text file leaves open; None of a Parquet file
    error: UserError | None = None
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)  # as declared so far
    filled: bool = False  # whether ranges were taken from the data
    taken: list[str] = field(default_factory=list)  # what the panel, as it is drawn now, says was taken from the data
    edition: int = 0  # of the tables to fill in; a new one starts from what was declared
    starts: dict[str, pd.DataFrame] = field(default_factory=dict)  # of the tables to fill in, by key
    made: tuple[Hashable, Any] | None = None  # the choice that it was made for, and the result
    identities: dict[Hashable, str] = field(default_factory=dict)  # of the choices made so far
    counts: dict[Hashable, Any] = field(default_factory=dict)  # what was counted in the rows so far

    @property
    def known_as(self) -> Hashable:
        """What a file is known by when it comes again: name, columns and number of rows, which are public. Not its
        rows: whether two files have the same ones must not enter a plan."""
        return self.name, tuple(self.frame.columns), len(self.frame)

    def once(self, choice: Hashable, make: Callable[[str], Made]) -> Made:
        """What `make` returns for a choice, given its identity; made again only when the choice changes."""
        if self.made is None or self.made[0] != choice:
            # A choice that comes back is the same data set: a run of it was not made with other settings.
            self.made = (choice, make(self.identities.setdefault(choice, new_identity())))
        return self.made[1]

    def count(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` finds in the rows, looked up when it is asked for again: a page is drawn often."""
        if what not in self.counts:
            self.counts[what] = make()
        found: Made = self.counts[what]
        return found

    def column(self, name: str) -> ColumnInfo:
        """What a column holds."""
        return next(column for column in self.columns if column.name == name)

    def editor(self, name: str, rows: Hashable, start: Callable[[], pd.DataFrame], **options: Any) -> pd.DataFrame:
        """A table to fill in, as edited. It starts from `start()`, again after a fill and wherever it was hidden."""
        key = f"{self.page}_{name}_{self.serial}_{self.edition}_{hash(rows)}"
        # What is edited is kept by the widget as changes to its start; so that changes only when the widget is new.
        if key not in self.starts or key not in st.session_state:
            self.starts[key] = start()
        return st.data_editor(self.starts[key], key=key, **options)


def generated(panel: Panel, source: str) -> Settings[DatasetSpecification]:
    """The controls of a generator or of the bundled tables; what they set."""
    cls = GENERATORS[source]
    return Settings(cls, panel.specification(cls, [control.name for control in cls.controls()], prefix=f"{source}_"))


def uploaded(page: str) -> tuple[DatasetSpecification | None, dict[str, np.ndarray]]:
    """The panel for a user's file; the data set and its table, or None as long as something is missing."""
    upload = chosen_file(page, Upload)
    if upload is not None:
        with in_place():
            prepared = _chosen(upload)
            return prepared.specification, {prepared.specification.identity: prepared.table}
    return None, {}


def chosen_file(page: str, kind: type[Kind]) -> Kind | None:
    """The part of a panel that reads a file, to be kept as a `kind`; None as long as none can be used."""
    st.info(NOTICE, icon=":material/info:")
    st.file_uploader(
        "CSV or Parquet file, at most 50 MB",
        type=["csv", "txt", "tsv", "parquet", "pq"],
        key=f"{page}_file",
        max_upload_size=50,
        on_change=_read,
        args=(page, kind),
    )
    upload: Kind | None = st.session_state.get(f"{page}_upload")
    if upload is None:
        st.caption("The file stays in the memory of this server. It is never written to disk nor put into a link.")
        return None
    if upload.error is not None:
        st.error(str(upload.error), title=upload.error.title)
        # Only this error can be mended by a sample.
        if upload.error.title == f"More than {MAX_ROWS:,} rows":
            st.button(f"Use a random sample of {MAX_ROWS:,} rows", on_click=_read, args=(page, kind, MAX_ROWS))
    else:
        st.caption(f"**{upload.name}**: {len(upload.frame):,} rows, {len(upload.columns)} columns")
    if upload.reading is not None and upload.questions is not None:
        how_it_was_read(page, upload.reading, upload.questions, _read_again, (page, kind))
    if upload.error is not None:
        return None
    upload.taken.clear()
    return upload


def from_data(page: str) -> tuple[str, ...]:
    """What was taken from the file itself instead of being declared, as the panel has just said: "ranges", "groups"."""
    upload: Upload | None = st.session_state.get(f"{page}_upload")
    return () if upload is None else tuple(upload.taken)


def known_as(page: str) -> Hashable:
    """What tells the file of a panel from others in this session; None without a file."""
    upload: Upload | None = st.session_state.get(f"{page}_upload")
    return None if upload is None else upload.known_as


def _read(page: str, kind: type[Upload], sample_rows: int | None = None) -> None:
    """Read the file that was just chosen; forget the table if it was removed."""
    for name in NAMES:
        st.session_state.pop(f"{page}_upload_{name}", None)
    _read_as(page, kind, lambda found: found.replaced(sample_rows=sample_rows))


def _read_again(page: str, kind: type[Upload]) -> None:
    """Read the file as the panel now says."""
    _read_as(page, kind, lambda found: chosen_reading(page, st.session_state[f"{page}_upload"].reading or found))


def _read_as(page: str, kind: type[Upload], reading: Callable[[Reading], Reading]) -> None:
    """Read the file in the way that `reading` makes of the one that it suggests."""
    file = st.session_state.get(f"{page}_file")
    if file is None:
        st.session_state.pop(f"{page}_upload", None)
        return
    serial = st.session_state[f"{page}_upload_serial"] = st.session_state.get(f"{page}_upload_serial", 0) + 1
    data = file.getvalue()
    upload = kind(page, file.name, serial)
    try:
        found = detect_reading(data, file.name)
        upload.reading = found.reading
        upload.questions = None if is_parquet(data, file.name) else found.questions
        upload.reading = reading(found.reading)
        upload.frame = read_table(data, file.name, reading=upload.reading)
        upload.columns = describe_columns(upload.frame)
    except UserError as error:
        upload.error = error
    st.session_state[f"{page}_upload"] = upload
    for name in CHOICES:
        st.session_state.pop(f"{page}_upload_{name}", None)


def _chosen(upload: Upload) -> Prepared[UploadedTable]:
    """Target, features, ranges and missing values: the table that the user's choices make. Raises UserError."""
    target, positive = choose_target(upload)
    features = choose_features(upload, {target})
    bounds = declare_ranges(upload, features)
    drop = choose_dropping(upload, [target], features)
    choice = (target, positive, tuple(features), tuple(sorted(bounds.items())), drop)
    chosen = (upload.frame, target, positive, features, bounds, drop)
    prepared = upload.once(choice, lambda name: prepare(*chosen, name, upload.reading))
    ready(len(prepared.table), prepared.dropped, f"{len(features)} features")
    counted(prepared.notes)
    return prepared


def choose_dropping(upload: Upload, filled: Sequence[str], features: Sequence[str]) -> bool:
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


def counted(notes: Sequence[str], said: Sequence[str] = ()) -> None:
    """What looks odd in the file, for the uploader's eyes: notes as plain text, and what is Markdown already."""
    # Quotes, and colons before a blank, mean nothing in Markdown.
    found = [re.sub(r"([\\`*_\[\]<>$~#|!]|:(?=\S))", r"\\\1", note) for note in notes]
    if found or said:
        st.caption(f"**Not private**, counted in the file: {'; '.join([*found, *said])}.")


def plain(text: str) -> str:
    """Text for Markdown, in which nothing of a file may be a link, an image or a formula."""
    return re.sub(r"([^\w\s])", r"\\\1", text, flags=re.ASCII)


def ready(rows: int, dropped: int, contents: str) -> None:
    """Say that the table can be used, and what is in it."""
    left_out = f", {dropped:,} dropped" if dropped else ""
    st.success(f"Ready: {rows:,} rows{left_out}, {contents}.", icon=":material/check:")


def choose_target(upload: Upload) -> tuple[str, str]:
    """The target column and its positive class. Raises UserError as long as one of them is not chosen."""
    candidates, likely_column = target_candidates(upload.columns), likely_target(upload.columns)
    names = [column.name for column in upload.columns]
    left, right = st.columns(2)
    target = left.selectbox(
        "Target column",
        names,
        index=None if likely_column is None else names.index(likely_column),
        key=f"{upload.page}_upload_target",
        persist_state="session",
        on_change=lambda: st.session_state.pop(f"{upload.page}_upload_positive", None),  # it was one of another column
        help="What is to be predicted: a column with two classes.",
    )
    if target is None:
        raise NotYet(
            f"A target has two classes, or up to {MAX_CLASSES_SHOWN} of which you choose one; no column of this file "
            "looks like that. Choose one all the same, or add one to the file.",
            title="No target column is chosen",
        )
    if target not in candidates:
        fitting = f" Columns that fit: {', '.join(map(plain, candidates))}." if candidates else ""
        several = "one class only" if upload.column(target).constant else f"more than {MAX_CLASSES_SHOWN} classes"
        st.caption(f"**Not private**, counted in the file: column {shown(plain(target))} has {several}.{fitting}")
    listed = upload.count(("classes", target), lambda: target_classes(upload.frame[target]))
    likely = upload.count(("likely", target), lambda: likely_positive(upload.frame[target]))
    positive = right.selectbox(
        "Positive class",
        listed,
        index=None if likely is None else listed.index(likely),
        key=f"{upload.page}_upload_positive",
        persist_state="session",
        accept_new_options=True,
        help="Becomes the label +1; every other class becomes -1. Type one that is not in the list.",
    )
    if positive is None or not positive.strip():
        raise NotYet("It becomes the label +1; every other class becomes -1.", title="No positive class is chosen")
    return target, positive.strip()


def choose_features(
    upload: Upload,
    taken: Collection[str],
    label: str = "Feature columns",
    help: str = "Numeric columns that predict the target.",
) -> list[str]:
    """Numeric columns other than those `taken`; at first, all that can be used."""
    usable, left_out = [], []
    for column in upload.columns:
        if column.name in taken:
            continue
        problem = _unusable(column)
        if problem:
            left_out.append(f"'{column.name}' ({problem})")
        else:
            usable.append(column.name)
    features = st.multiselect(
        label,
        [column.name for column in upload.columns if column.name not in taken],
        default=usable,
        key=f"{upload.page}_upload_features",
        persist_state="session",
        help=help,
    )
    if left_out:
        st.caption(f"Left out at first: {', '.join(left_out[:8])}{' and more' if len(left_out) > 8 else ''}.")
    return features


def _unusable(column: ColumnInfo) -> str:
    return "text" if not column.numeric else "constant" if column.constant else ""


def declare_ranges(upload: Upload, features: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The declared ranges, as a table to fill in."""
    st.markdown("**Declared range of each feature.** Values outside are clipped to it, so that the guarantee holds.")
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
            "feature": st.column_config.TextColumn("Feature", disabled=True),
            "lowest": st.column_config.NumberColumn("Lowest value", help="Declare what you know, not what you see."),
            "highest": st.column_config.NumberColumn("Highest value", help="Declare what you know, not what you see."),
        },
        height=min(320, 38 + 35 * max(1, len(features))),
        alt="Lowest and highest value that you declare for each feature",
    )
    upload.bounds |= {name: (float(edited.at[name, "lowest"]), float(edited.at[name, "highest"])) for name in features}
    st.button(
        FILL,
        key=f"{upload.page}_upload_fill",
        on_click=_fill,
        args=(upload, list(features)),
        help="Minimum and maximum of each column, rounded outwards. They reveal something that no budget accounts for.",
    )
    if upload.filled:
        taken_from_data(upload, "ranges")
    return {name: upload.bounds[name] for name in features}


def taken_from_data(upload: Upload, *what: str) -> None:
    """Marks declarations that were taken from the file itself."""
    upload.taken.extend(what)
    st.badge(f"{' and '.join(what)} taken from the data: not private", icon=":material/visibility:", color="orange")


def _fill(upload: Upload, features: Sequence[str]) -> None:
    upload.bounds |= suggested_bounds(upload.frame, features)
    upload.filled, upload.edition = True, upload.edition + 1
