"""A visitor's own file: the panel that reads it, keeps it in the session and turns it into a data set."""

import os
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import ColumnInfo, Detected, GroupedUpload, Prepared, Reading, Upload, UploadedTable
from dpviz.datasets.uploads.files import is_parquet
from dpviz.datasets.uploads.from_data import Kind as MarkKind
from dpviz.datasets.uploads.from_data import Mark
from dpviz.datasets.uploads.limits import MAX_ROWS, MIN_COLUMNS
from dpviz.datasets.uploads.upload import new_identity
from dpviz.errors import UserError
from dpviz.execution.reader import Reader
from dpviz.exports.spreadsheets import as_text
from dpviz.specification import Specification
from dpviz.ui import explain, visitors
from dpviz.ui.controls import WHOLE, in_place
from dpviz.ui.markdown import plain, sentence
from dpviz.ui.uploads import how, texts

# Keys that a new file resets.
CHOICES = ("target", "kind", "positive", "features", "lists", "drop", "group", "lowest", "highest")
NOTICE = texts.NOTICE
FILL = "Fill from the data (not private)"
LACKS, REMOVED, USED = "own_file_lacks", "own_file_removed", "own_file_used"  # keys in the session
MAX_HELD = 4e9  # bytes of all visitors' tables together that this server keeps
# Process-wide on purpose: bytes of every table in memory, by the table's id(), until the table is collected.
_held: dict[int, int] = {}

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="File")
U = TypeVar("U", bound=Upload)


def missing_rule(data: Specification | None) -> str:
    """Return how an upload treats missing values: "fill", "drop", or "" for data that is no table."""
    return data.missing if isinstance(data, UploadedTable | GroupedUpload) else ""


@dataclass
class File:
    """A visitor's file: its table, or the error that it could not be read with. Kept in the session, never on disk.

    min_columns : fewest columns that the panel accepts. shows_cells : whether the panel shows cells, and asks what the
        columns hold.
    """

    min_columns: ClassVar[int] = MIN_COLUMNS
    shows_cells: ClassVar[bool] = True
    page: str  # prefix of the panel's keys
    name: str
    serial: int  # number of this file among those that this panel read
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    columns: tuple[ColumnInfo, ...] = ()
    reading: Reading | None = None  # how it was read, as declared
    is_text: bool = False  # not Parquet, whose schema declares how it is read
    is_confirmed_before: bool = False  # read as the visitor confirmed for an earlier file
    all_names: tuple[str, ...] = ()  # of all its columns, those left out among them
    proposal: Detected | None = None  # how a text file may be read, until the visitor confirms it
    error: UserError | None = None
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)  # declared so far, by column
    lists: dict[str, str] = field(default_factory=dict)  # categories typed so far, by column
    # Taken from the data so far, by declaration: its categories, groups, shares, or pairs of (end, value).
    filled: dict[Mark, set[Any]] = field(default_factory=dict)
    from_data: list[Mark] = field(default_factory=list)  # declarations of the panel, as drawn now, from the data
    edition: int = 0  # of the tables to fill in; a new edition starts from what was declared
    starts: dict[str, pd.DataFrame] = field(default_factory=dict)  # unedited tables to fill in, by key
    result: tuple[Hashable, Any] | None = None  # the last choice of the panel, and its data set
    identities: dict[Hashable, str] = field(default_factory=dict)  # of the data sets so far, by choice
    counts: dict[Hashable, Any] = field(default_factory=dict)  # counted in the rows so far, by quantity
    contents: str = ""  # of the data set, in a line; empty until there is one
    lacks: list[str] = field(default_factory=list)  # still missing for a data set in the panel as drawn now

    @property
    def known_as(self) -> Hashable:
        """Public facts that identify the file when it comes again: name, names of all columns, and number of rows.
        Not its rows: whether two files have the same ones must not enter a plan."""
        return self.name, self.all_names, len(self.frame)

    def widget(self, name: str) -> dict[str, Any]:
        """Return the options of one of the panel's controls: its texts and key, and that its value stays while it is
        not drawn."""
        return {"key": f"{self.page}_upload_{name}", "persist_state": "session", **texts.WIDGETS.get(name, {})}

    def once(self, choice: Hashable, make: Callable[[str], Result]) -> Result:
        """Return `make(identity)` for a choice; call it only when the choice has changed."""
        if self.result is None or self.result[0] != choice:
            # A choice that returns keeps its identity, so that a run of it does not count as one of other settings.
            self.result = (choice, make(self.identities.setdefault(choice, new_identity())))
        return self.result[1]

    def prepare_once(self, prepare: Callable[..., Result], **declared: Any) -> Result:
        """Return the data set that `prepare` builds from the table and these declarations; see `once`."""
        choice = tuple((name, _hashable(value)) for name, value in declared.items())
        return self.once(
            choice, lambda identity: prepare(self.frame, **declared, identity=identity, reading=self.reading)
        )

    def count(self, quantity: Hashable, compute: Callable[[], Result]) -> Result:
        """Return `compute()`, a quantity counted in the rows; compute it once, because a page is drawn often."""
        if quantity not in self.counts:
            self.counts[quantity] = compute()
        value: Result = self.counts[quantity]
        return value

    def fill(self, mark: Mark, parts: Collection[Any]) -> None:
        """Note which parts of a declaration were taken from the data; they stay noted when more are taken."""
        self.filled.setdefault(mark, set()).update(parts)

    def typed(self, name: str, rows: Hashable) -> Mapping[int, Mapping[str, Any]]:
        """Return the cells typed into a table to fill in since the last fill, by row and column."""
        state: Mapping[str, Any] = st.session_state.get(self.key(name, rows)) or {}
        edited: Mapping[int, Mapping[str, Any]] = state.get("edited_rows", {})
        return edited

    def let_go(self) -> None:
        """Forget the rows, here and in runs of them: the file was removed. Widgets may hold `self` for longer."""
        visitors.here().forget(self.identities.values())
        self.frame, self.result = pd.DataFrame(), None
        for cache in (self.counts, self.starts, self.bounds, self.lists):
            cache.clear()

    def column(self, name: str) -> ColumnInfo:
        """Return the declared contents of the column `name`."""
        return next(column for column in self.columns if column.name == name)

    def key(self, name: str, rows: Hashable) -> str:
        """Return the widget key of a table to fill in."""
        return f"{self.page}_{name}_{self.serial}_{self.edition}_{hash(rows)}"

    def editor(self, name: str, rows: Hashable, start: Callable[[], pd.DataFrame], **options: Any) -> pd.DataFrame:
        """Draw a table to fill in; return it as edited. It starts from `start()`, again after a fill and after it
        was hidden."""
        key = self.key(name, rows)
        # The widget keeps its edits as changes to its start, so that the start changes only with a new widget.
        if key not in self.starts or key not in st.session_state:
            self.starts[key] = start()
        frame = self.starts[key]
        if pd.api.types.is_numeric_dtype(frame.index.dtype):
            return st.data_editor(frame, key=key, **options)
        # Rows are named after columns of the file. Streamlit offers the table as CSV: names must be no formulas there.
        safe = frame.set_axis(frame.index.map(as_text), axis=0)
        return st.data_editor(safe, key=key, **options).set_axis(frame.index, axis=0)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value


def uploaded(
    page: str, kind: type[Kind], make: Callable[[Kind], Prepared[U]]
) -> tuple[U | None, Mapping[str, np.ndarray]]:
    """Draw the panel for a file; return the data set of its choices and the tables, or None while something is missing.

    page : prefix of the panel's keys.
    kind : class that the file is kept as.
    make : draws the controls that declare what the file holds, and returns the prepared data set. May raise UserError.

    The panel opens while something is missing. It folds up into a line when the visitor is done or starts a run, so
    that what is optional, and what was taken from the data, is seen before.
    """
    st.caption(f":material/info: {NOTICE}")
    open_key, used_key, line_key = f"{page}_file_open", f"{page}_file_used", f"{page}_line"
    line = st.session_state.get(line_key, "")
    if st.session_state.pop(USED, False):
        st.session_state[used_key] = True
        st.session_state.pop(open_key, None)
    with st.container(horizontal=True, key=f"{page}_own_file"):
        title = plain(line) if line else "Your data"
        is_unfolded = used_key not in st.session_state
        box = st.expander(title, is_unfolded, key=open_key, icon=":material/upload_file:", on_change="rerun")
        if line:
            st.button("Replace", key=f"{page}_replace", on_click=_remove, args=(page,))
            st.button("Remove", key=f"{page}_remove", on_click=_remove, args=(page, True))
    with box:
        file, result = read_file(page, kind), None
        if file is not None:
            result = _result(file, make)
        if result is not None:
            st.button("Done", key=f"{page}_done", icon=":material/check:", on_click=fold)
    new_line = "" if file is None or result is None else f"{file.name}: {file.contents}"
    proposal = getattr(st.session_state.get(f"{page}_upload"), "proposal", None)
    without_file = ("your file" if proposal is None else "how the file is read, to be confirmed",)
    st.session_state[LACKS] = () if result else without_file if file is None else tuple(file.lacks)
    if new_line != line:
        st.session_state[line_key] = new_line
        if not new_line:
            for key in (open_key, used_key):
                st.session_state.pop(key, None)
        st.rerun()
    return (None, {}) if result is None else result


def _result(file: Kind, make: Callable[[Kind], Prepared[U]]) -> tuple[U, Mapping[str, np.ndarray]] | None:
    """Return the data set of a panel's choices, and its table; None, with a message, where something is missing."""
    file.lacks.clear()
    with in_place():
        try:
            prepared = make(file)
        except UserError as error:
            file.lacks = file.lacks or [sentence(error.title) or "what the panel of the file says"]
            raise
        specification = prepared.specification.replaced(from_data=tuple(file.from_data))
        return specification, {specification.identity: prepared.table}
    return None


def lacks() -> Sequence[str]:
    """Return what is missing until the page's file, whose panel was drawn last, can be used."""
    missing: Sequence[str] = st.session_state.get(LACKS, ())
    return missing


def fold() -> None:
    """Fold up the page's panel, which is drawn again: its visitor has declared all there is to declare."""
    st.session_state[USED] = st.session_state[WHOLE] = True


def removed() -> bool:
    """Return whether the button removed the file, so that the page returns to its demonstration; true only once."""
    return bool(st.session_state.pop(REMOVED, False))


def _remove(page: str, back: bool = False) -> None:
    """Remove the file. back : whether the page returns to its demonstration."""
    _forget(page)
    st.session_state.pop(f"{page}_upload", None)
    st.session_state[f"{page}_uploader"] = st.session_state.get(f"{page}_uploader", 0) + 1  # its widget holds a file
    st.session_state[WHOLE] = True
    if back:
        st.session_state[REMOVED] = True


def _uploader(page: str) -> str:
    """Return the key of the widget that takes a file."""
    return f"{page}_file" + (f"_{number}" if (number := st.session_state.get(f"{page}_uploader")) else "")


@st.cache_resource
def reader() -> Reader:
    """Return this server's only reader of files; it runs in processes of its own unless DPVIZ_WORKERS is 0."""
    return Reader(processes=0 if os.environ.get("DPVIZ_WORKERS") == "0" else 2)


def read_file(page: str, kind: type[Kind]) -> Kind | None:
    """Draw the part of a panel that reads a file; return the file as a `kind`, or None while none can be used."""
    reader()  # its first process starts now, and not when there is a file to read
    st.file_uploader(
        "CSV (also packed as .gz) or Parquet file, at most 50 MB",
        type=["csv", "txt", "tsv", "data", "gz", "parquet", "pq"],
        key=_uploader(page),
        max_upload_size=50,
        on_change=_read,
        args=(page, kind),
    )
    upload: Kind | None = st.session_state.get(f"{page}_upload")
    if upload is None:
        if lost := visitors.here().lost.get(f"{page}_upload"):
            st.info(f"{lost} Your file is gone: choose it again.", icon=":material/restart_alt:")
        st.caption("The file stays in the memory of this server. It is never written to disk nor put into a link.")
        return None
    if upload.error is not None:
        st.error(sentence(str(upload.error)), title=sentence(upload.error.title))
        # A sample mends no other error.
        if upload.error.title == f"More than {MAX_ROWS:,} rows":
            st.button(f"Use a random sample of {MAX_ROWS:,} rows", on_click=_sample, args=(page, kind))
    elif upload.proposal is None:
        st.caption(f"**{plain(upload.name)}**: {len(upload.frame):,} rows, {len(upload.columns)} columns")
    if upload.proposal is not None:
        table = upload.editor if kind.shows_cells else None
        how.propose(page, upload.name, upload.proposal, table, callbacks=(_look_again, _confirm), args=(page, kind))
        return None
    if upload.error is not None:
        return None
    if upload.reading is not None and upload.is_text:
        used = [column.name for column in upload.columns]
        repeated = upload.is_confirmed_before
        how.declared(page, upload.reading, used, is_repeated=repeated, change=_change, args=(page, kind))
    upload.from_data.clear()
    return upload


def known_as(page: str) -> Hashable:
    """Return what identifies the file of a panel in this session; None without a file."""
    upload: File | None = st.session_state.get(f"{page}_upload")
    return None if upload is None else upload.known_as


def _forget(page: str) -> None:
    """Forget the rows of the panel's file, and how it was to be read."""
    old: File | None = st.session_state.get(f"{page}_upload")
    if old is not None:
        old.let_go()
    how.forget(page)


def _read(page: str, kind: type[File]) -> None:
    """Look at the file that was just chosen; forget the previous one. A text is read once its reading is confirmed."""
    _forget(page)
    visitors.here().lost.pop(f"{page}_upload", None)

    def look(upload: File, data: bytes) -> None:
        upload.is_text = not is_parquet(data, upload.name)
        confirmed = how.detect_confirmed(upload.name, lambda reading: reader().detect(data, upload.name, reading))
        detected = confirmed or reader().detect(data, upload.name)
        upload.is_confirmed_before = upload.is_text and confirmed is not None
        if upload.is_text and not confirmed:
            upload.proposal = detected
        else:
            _load(upload, data, detected.reading, detected.names)

    _use_file(page, kind, look)


def _look_again(page: str, kind: type[File]) -> None:
    """Propose the columns of the file, read by the settings of the panel."""
    old: Detected = st.session_state[f"{page}_upload"].proposal

    def look(upload: File, data: bytes) -> None:
        upload.proposal = old  # stays to be mended if the file cannot be read
        upload.proposal = reader().detect(data, upload.name, how.selected(page, old.reading))

    _use_file(page, kind, look)


def _confirm(page: str, kind: type[File]) -> None:
    """Read the file by the settings of the panel, which are declared from here on."""
    old: Detected = st.session_state[f"{page}_upload"].proposal

    def read(upload: File, data: bytes) -> None:
        upload.proposal = old  # stays to be mended if the file cannot be read
        reading = how.selected(page, old.reading, kind.shows_cells)
        upload.proposal = replace(old, reading=reading)
        _load(upload, data, reading, old.names)
        upload.proposal = None
        how.keep(upload.name, reading, old.names)

    _use_file(page, kind, read)


def _change(page: str, kind: type[File]) -> None:
    """Ask again how the file is read, starting from what was declared."""
    reading = st.session_state[f"{page}_upload"].reading

    def look(upload: File, data: bytes) -> None:
        detected = reader().detect(data, upload.name, reading)
        upload.proposal = replace(detected, reading=detected.reading.replaced(kinds=reading.kinds), ids=())

    _use_file(page, kind, look)


def _sample(page: str, kind: type[File]) -> None:
    """Read a random sample of a file that is too long."""
    old: File = st.session_state[f"{page}_upload"]
    names = old.all_names if old.proposal is None else old.proposal.names

    def read(upload: File, data: bytes) -> None:
        reading = (old.reading or Reading()).replaced(sample_rows=MAX_ROWS)
        _load(upload, data, reading, names)
        how.keep(upload.name, reading, names)

    _use_file(page, kind, read)


def _use_file(page: str, kind: type[File], use: Callable[[File, bytes], None]) -> None:
    """Start a new `kind` for the chosen file and pass it to `use` with the file's bytes; keep a UserError in it."""
    file = st.session_state.get(_uploader(page))
    old: File | None = st.session_state.pop(f"{page}_upload", None)
    if file is None:
        return
    serial = st.session_state[f"{page}_upload_serial"] = st.session_state.get(f"{page}_upload_serial", 0) + 1
    upload = st.session_state[f"{page}_upload"] = kind(page, file.name, serial)
    upload.is_text = old is not None and old.is_text
    for name in CHOICES:
        st.session_state.pop(f"{page}_upload_{name}", None)
    try:
        use(upload, file.getvalue())
    except UserError as error:
        upload.error = error.with_traceback(None)  # which would keep a table that was refused


def _load(upload: File, data: bytes, reading: Reading, names: tuple[str, ...]) -> None:
    """Read the file by a declared reading; count its table among those that this server keeps.

    names : of all columns, those left out among them. Raises UserError, too, if the server keeps too much already.
    """
    upload.reading, upload.all_names = reading, names
    frame, upload.columns = reader().read(data, upload.name, reading, upload.min_columns)
    size = int(frame.memory_usage(index=False).sum())
    if sum(list(_held.values())) + size > MAX_HELD:
        raise UserError("Try again later, or with fewer rows or columns.", title="This server keeps many files already")
    _held[id(frame)] = size
    weakref.finalize(frame, _held.pop, id(frame), None)
    upload.frame = frame


def show_counts(notes: Sequence[str], sentences: Sequence[str] = ()) -> None:
    """Show what looks odd in the file to its uploader.

    notes : plain texts. sentences : Markdown.
    """
    if notes or sentences:
        st.caption(f"**Not private**, counted in the file: {'; '.join([*map(sentence, notes), *sentences])}.")


def ready(upload: File, rows: int, dropped: int, contents: str) -> None:
    """Show that the data set can be used, and what is in it."""
    left_out = f", {dropped:,} dropped" if dropped else ""
    upload.contents = f"{rows:,} rows{left_out}, {contents}"
    st.success(f"Ready: {upload.contents}.", icon=":material/check:")


def mark_from_data(upload: File, declared: Mapping[Mark, Collection[Any]], nouns: Mapping[MarkKind, str]) -> None:
    """Mark, for everything that follows, the declarations with a part that was taken from the file itself.

    declared : parts of every declaration, as in `File.filled`. nouns : each kind of declaration in a word.
    """
    from_file = [mark for mark, parts in declared.items() if not set(upload.filled.get(mark, ())).isdisjoint(parts)]
    upload.from_data.extend(from_file)
    kinds = [noun for kind, noun in nouns.items() if any(mark[0] == kind for mark in from_file)]
    if not kinds:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        explain.taken_badge(" and ".join(kinds))
        key = f"{upload.page}_upload_knew_{'_'.join(kinds)}"
        st.button(explain.KNEW, key=key, on_click=_declare_known, args=(upload, from_file), help=explain.KNEW_HELP)


def range_parts(low: float, high: float) -> set[tuple[str, float]]:
    """Return the parts of a declared range, as in `File.filled`."""
    return {("lowest", low), ("highest", high)}


def _declare_known(upload: File, marks: Sequence[Mark]) -> None:
    """Count declarations as known beforehand, as the owner of the file says; for callbacks."""
    for mark in marks:
        upload.filled.pop(mark, None)


def fill_button(
    file: File, fill: Callable[..., None], args: tuple[Any, ...], help: str, name: str = "fill", label: str = FILL
) -> None:
    """Draw a button that declares from the file itself what should be declared from elsewhere.

    fill(*args) : declares it, and passes the parts that it has taken to `File.fill`; called in a callback.
    """
    st.button(
        label,
        key=f"{file.page}_upload_{name}",
        on_click=_fill,
        args=(file, fill, args),
        help=f"{help} They reveal something that no budget accounts for.",
    )


def _fill(file: File, fill: Callable[..., None], args: tuple[Any, ...]) -> None:
    fill(*args)
    file.edition += 1
