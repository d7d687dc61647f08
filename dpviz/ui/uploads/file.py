"""The panel for a visitor's own file, which reads it, keeps it in the session and turns it into a data set.

How a text file is read is guessed from the file, confirmed by the visitor and then declared. Ranges and categories are
declared too: only declarations may enter the plan of a private run. If one was taken from the data instead, the data
set carries a mark, and every guarantee says so.
"""

import os
import weakref
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import ColumnInfo, Detected, GroupedUpload, Prepared, Reading, Upload, UploadedTable
from dpviz.datasets.uploads.files import is_parquet
from dpviz.datasets.uploads.limits import MAX_ROWS, MIN_COLUMNS
from dpviz.datasets.uploads.upload import Mark, MarkKind, new_identity
from dpviz.errors import UserError
from dpviz.execution.reader import Reader
from dpviz.exports.spreadsheets import safe_cell
from dpviz.specification import Specification
from dpviz.ui import explain, visitors
from dpviz.ui.controls import WHOLE, draw_errors
from dpviz.ui.markdown import escape_name, escape_sentence
from dpviz.ui.uploads import how, texts

# Names of the controls that a new file resets.
CHOICES = (
    *("target", "kind", "positive", "features", "lists", "drop", "group", "lowest", "highest"),
    *("person", "rows_per_person"),
)
NOTICE = texts.NOTICE
FILL = "Fill from the data (not private)"
# Keys in the session: what is still missing for a data set; the file was just removed; the panel is to be folded up.
LACKS, REMOVED, FOLD = "own_file_lacks", "own_file_removed", "own_file_fold"
# Keys in the session of mappings from `File.known_as`: to the releases of facts of the file, a key for each kind of
# fact; and to the column of the persons whom these releases protect.
RELEASES, PROTECTED = ("bought_shares", "released_smoothness", "released_gap"), "protected_by_releases"
MAX_HELD = 4e9  # largest number of bytes of all visitors' tables together that this server keeps
# Process-wide on purpose: bytes of every table in memory, by the table's id(), until the table is garbage-collected.
_held: dict[int, int] = {}

Result = TypeVar("Result")
Kind = TypeVar("Kind", bound="File")
U = TypeVar("U", bound=Upload)


def missing_rule(data: Specification | None) -> str:
    """Return the rule of a data set for missing values: "fill", "drop", or "" if it is no uploaded table."""
    return data.missing if isinstance(data, UploadedTable | GroupedUpload) else ""


@dataclass
class File:
    """A visitor's file, with its table or the error of reading it, and everything that the panel has declared about it.

    It is kept in the session, never on disk.

    min_columns : smallest number of columns that the panel accepts. shows_cells : whether the panel shows cells of the
    file, and asks what each column holds.
    """

    min_columns: ClassVar[int] = MIN_COLUMNS
    shows_cells: ClassVar[bool] = True
    page: str  # prefix of the panel's keys
    name: str
    serial: int  # number of this file among those that this panel read
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    columns: tuple[ColumnInfo, ...] = ()
    reading: Reading | None = None  # the declared settings with which it was read
    is_text: bool = False  # true for CSV; a Parquet file has a schema, which declares how it is read
    is_confirmed_before: bool = False  # true if it was read by settings that were confirmed for an earlier file
    all_names: tuple[str, ...] = ()  # names of all its columns, including those that are left out
    proposal: Detected | None = None  # how a text file may be read, until the visitor confirms it
    error: UserError | None = None
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)  # declared (lowest, highest), by column
    lists: dict[str, str] = field(default_factory=dict)  # declared categories as typed, by column
    # The parts of each declaration that were taken from the data: categories, groups, shares, or (end, value) pairs
    # such as ("lowest", 0.5).
    filled: dict[Mark, set[Any]] = field(default_factory=dict)
    from_data: list[Mark] = field(default_factory=list)  # marks of the present declarations that have such parts
    edition: int = 0  # number of the present versions of the tables to fill in, which a fill from the data replaces
    starts: dict[str, pd.DataFrame] = field(default_factory=dict)  # these tables before the visitor edits them, by key
    result: tuple[Hashable, Any] | None = None  # the last choice of the panel, and its data set
    identities: dict[Hashable, str] = field(default_factory=dict)  # identities of the data sets so far, by choice
    row_results: dict[Hashable, Any] = field(default_factory=dict)  # by `quantity` of `compute_once`
    contents: str = ""  # description of the data set in a line; empty until there is one
    missing_parts: list[str] = field(default_factory=list)  # texts that name what is still missing for a data set

    @property
    def known_as(self) -> Hashable:
        """The name of the file, the names of all columns and the number of rows, by which it is recognised later.

        The rows play no part: whether two files have the same rows is private, and must not enter a plan.
        """
        return self.name, self.all_names, len(self.frame)

    def widget_options(self, name: str) -> dict[str, Any]:
        """Return Streamlit's options of the control `name` of the panel: its key, and that its value is kept while it
        is not drawn."""
        return {"key": f"{self.page}_upload_{name}", "persist_state": "session"}

    def make_once(self, choice: Hashable, make: Callable[[str], Result]) -> Result:
        """Return `make(identity)`, the data set of a choice of the panel; call `make` only if the choice has changed.

        choice : all declarations that the data set depends on. identity : a name of the data set.
        """
        if self.result is None or self.result[0] != choice:
            # A choice that returns keeps its identity, so that a run of it does not count as one of other settings.
            self.result = (choice, make(self.identities.setdefault(choice, new_identity())))
        return self.result[1]

    def prepare_once(self, prepare: Callable[..., Result], **declared: Any) -> Result:
        """Return the data set that `prepare` builds from the table; call `prepare` only if a declaration has changed.

        declared : the declarations, which are keyword arguments of `prepare`.
        """
        choice = tuple((name, _hashable(value)) for name, value in declared.items())

        def make(identity: str) -> Result:
            return prepare(self.frame, **declared, identity=identity, reading=self.reading)

        return self.make_once(choice, make)

    def compute_once(self, quantity: Hashable, compute: Callable[[], Result]) -> Result:
        """Return `compute()`, which reads the rows; call it once for this file, because a page is drawn often.

        quantity : identifies the result.
        """
        if quantity not in self.row_results:
            self.row_results[quantity] = compute()
        value: Result = self.row_results[quantity]
        return value

    def note_from_data(self, mark: Mark, parts: Collection[Any]) -> None:
        """Note that `parts` of the declaration `mark` were taken from the data, in addition to those noted before."""
        self.filled.setdefault(mark, set()).update(parts)

    def typed_cells(self, name: str, rows: Hashable) -> Mapping[int, Mapping[str, Any]]:
        """Return the cells that the visitor has typed into a table since the last fill, by row number and column.

        name, rows : identify the table, as in `editor`.
        """
        state: Mapping[str, Any] = st.session_state.get(self.key(name, rows)) or {}
        edited: Mapping[int, Mapping[str, Any]] = state.get("edited_rows", {})
        return edited

    def forget_rows(self) -> None:
        """Forget the rows, here and in runs on them, when the file is removed.

        The object itself may live longer, as Streamlit's widgets hold it.
        """
        visitors.current().forget_tables(self.identities.values())
        self.frame, self.result = pd.DataFrame(), None
        for cache in (self.row_results, self.starts, self.bounds, self.lists):
            cache.clear()

    def column(self, name: str) -> ColumnInfo:
        """Return the declared contents of the column `name`."""
        (match,) = (column for column in self.columns if column.name == name)
        return match

    def key(self, name: str, rows: Hashable) -> str:
        """Return the key of the widget of a table to fill in, which changes with the file and with each fill."""
        return f"{self.page}_{name}_{self.serial}_{self.edition}_{hash(rows)}"

    def editor(self, name: str, rows: Hashable, start: Callable[[], pd.DataFrame], **options: Any) -> pd.DataFrame:
        """Draw a table that the visitor fills in; return it as edited.

        name, rows : identify the table; another value of `rows` starts a new one. start : returns the table to begin
        with; it is called again after a fill from the data, and after the table was hidden. options : arguments of
        `st.data_editor`.
        """
        key = self.key(name, rows)
        # The widget keeps its edits as changes to its start, so the start may change only with a new widget.
        if key not in self.starts or key not in st.session_state:
            self.starts[key] = start()
        frame = self.starts[key]
        if pd.api.types.is_numeric_dtype(frame.index.dtype):
            return st.data_editor(frame, key=key, **options)
        # Rows are named after columns of the file. Streamlit offers the table as CSV: names must be no formulas there.
        safe = frame.set_axis(frame.index.map(safe_cell), axis=0)
        return st.data_editor(safe, key=key, **options).set_axis(frame.index, axis=0)


class People(NamedTuple):
    """The column that names the person of each row, None if every row is a person; and how many rows of each count."""

    person: str | None = None
    rows_per_person: int = 1


def choose_people(upload: File, used: Collection[str] = ()) -> People:
    """Draw the choice of the column that names persons, other than those `used`, and of the number of their rows.

    Raises UserError for a person whom earlier releases of the file do not protect.
    """
    names = [column.name for column in upload.columns if column.name not in used]
    key = f"{upload.page}_upload_person"
    if st.session_state.get(key) not in names:  # the chosen column has become the target
        st.session_state.pop(key, None)
    left, right = st.columns(2)
    person = left.selectbox(
        "Column that names the person",
        names,
        index=None,
        placeholder="None: every row is another person",
        help="If people have several rows: the budget is then that of a person, and all rows of a person are protected "
        "together.",
        **upload.widget_options("person"),
    )
    protected: dict[Hashable, str | None] = st.session_state.setdefault(PROTECTED, {})
    has_releases = any(st.session_state.get(name, {}).get(upload.known_as) for name in RELEASES)
    if not has_releases:  # until the first release, the visitor may still choose another column
        protected[upload.known_as] = person
    if person is None:  # what protected all rows of a person protects each row, at the same cost
        return People()
    rows = right.number_input(
        "Rows of a person kept",
        min_value=1,
        max_value=1000,
        value=1,
        help="At most, chosen as if at random, whatever they say. The noise grows with this number as fast as the rows "
        "can: 1 has the least noise, and uses the fewest rows.",
        **upload.widget_options("rows_per_person"),
    )
    st.caption(texts.PEOPLE)
    # Only the column counts: what earlier releases cost a person does not depend on the present number of rows.
    if protected.get(upload.known_as) != person:
        raise UserError(
            "Facts of this file were released before, at a cost that is not that of these people. Leave the person "
            "empty, or load the page again.",
            title="Somebody else was protected before",
        )
    return People(person, rows)


def _hashable(value: Any) -> Hashable:
    """Return a declaration in a form that can be compared and hashed."""
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value


def choose_upload(
    page: str, kind: type[Kind], make: Callable[[Kind], Prepared[U]]
) -> tuple[U | None, Mapping[str, np.ndarray]]:
    """Draw the panel for a file; return the data set of its choices, None while something is missing, and its arrays.

    The panel is open while something is missing. It folds up into a line only when the visitor presses "Done" or starts
    a run, so that optional declarations, and those that were taken from the data, are seen before.

    page : prefix of the panel's keys. kind : class of the file in the session. make : draws the controls that declare
    the contents of the file, and returns the prepared data set; may raise UserError.
    """
    st.caption(f":material/info: {NOTICE}")
    # Session keys: of the expander; set once the visitor has folded it up; and of the line into which it folds.
    open_key, folded_key, line_key = f"{page}_file_open", f"{page}_file_folded", f"{page}_line"
    old_line = st.session_state.get(line_key, "")  # description of the data set at the last draw, "" without one
    if st.session_state.pop(FOLD, False):
        st.session_state[folded_key] = True
        st.session_state.pop(open_key, None)  # so that the expander takes `expanded` again
    with st.container(horizontal=True, key=f"{page}_own_file"):
        title = escape_name(old_line) if old_line else "Your data"
        is_unfolded = folded_key not in st.session_state
        box = st.expander(title, expanded=is_unfolded, key=open_key, icon=":material/upload_file:", on_change="rerun")
        if old_line:
            st.button("Replace", key=f"{page}_replace", on_click=_remove, args=(page,))
            is_back = True  # the page returns to its demonstration
            st.button("Remove", key=f"{page}_remove", on_click=_remove, args=(page, is_back))
    with box:
        file = choose_file(page, kind)
        result = None if file is None else _result(file, make)
        if result is not None:
            st.button("Done", key=f"{page}_done", icon=":material/check:", on_click=fold)
    line = "" if file is None or result is None else f"{file.name}: {file.contents}"
    if result is not None:
        st.session_state[LACKS] = ()
    elif file is not None:
        st.session_state[LACKS] = tuple(file.missing_parts)
    else:  # there is no file, or it is not confirmed yet how it is read
        proposal = getattr(st.session_state.get(f"{page}_upload"), "proposal", None)
        st.session_state[LACKS] = ("your file" if proposal is None else "how the file is read, to be confirmed",)
    if line != old_line:  # it was drawn above with the old text
        st.session_state[line_key] = line
        if not line:
            for key in (open_key, folded_key):
                st.session_state.pop(key, None)
        st.rerun()
    return (None, {}) if result is None else result


def _result(file: Kind, make: Callable[[Kind], Prepared[U]]) -> tuple[U, Mapping[str, np.ndarray]] | None:
    """Return the data set of a panel's choices, and its array by name; None, with a message, if something is missing.

    make : as in `choose_upload`.
    """
    file.missing_parts.clear()
    with draw_errors():
        try:
            prepared = make(file)
        except UserError as error:
            file.missing_parts = file.missing_parts or [
                escape_sentence(error.title) or "what the panel of the file says"
            ]
            raise
        specification = prepared.specification.replaced(from_data=tuple(file.from_data))
        return specification, {specification.identity: prepared.table}
    return None  # `draw_errors` has drawn the error


def missing_parts() -> Sequence[str]:
    """Return texts that name what is missing until the file of the panel that was drawn last can be used."""
    missing: Sequence[str] = st.session_state.get(LACKS, ())
    return missing


def fold() -> None:
    """Fold up the page's panel at the next draw, because the visitor has finished the declarations; for callbacks."""
    st.session_state[FOLD] = True
    st.session_state[WHOLE] = True  # the next draw is of the whole page, not of its fragment


def pop_removed() -> bool:
    """Return true, once, after the visitor has removed the file: the page then returns to its demonstration."""
    return bool(st.session_state.pop(REMOVED, False))


def _remove(page: str, back: bool = False) -> None:
    """Remove the file of a panel; for callbacks. back : whether the page returns to its demonstration."""
    _forget(page)
    st.session_state.pop(f"{page}_upload", None)
    # A new number gives the widget that takes a file a new key, as the old widget still holds the file.
    st.session_state[f"{page}_uploader"] = st.session_state.get(f"{page}_uploader", 0) + 1
    st.session_state[WHOLE] = True
    if back:
        st.session_state[REMOVED] = True


def _uploader_key(page: str) -> str:
    """Return the key of the widget that takes a file, which has the number of removals so far."""
    number = st.session_state.get(f"{page}_uploader")
    return f"{page}_file_{number}" if number else f"{page}_file"


@st.cache_resource
def reader() -> Reader:
    """Return this server's only reader of files. It has processes of its own, unless DPVIZ_WORKERS is 0."""
    return Reader(processes=0 if os.environ.get("DPVIZ_WORKERS") == "0" else 2)


def choose_file(page: str, kind: type[Kind]) -> Kind | None:
    """Draw the part of a panel that takes a file and asks how it is read; return the file once it is read, else None.

    kind : class of the file in the session.
    """
    reader()  # starts its first process, so that it is ready when there is a file to read
    st.file_uploader(
        "CSV (also packed as .gz) or Parquet file, at most 50 MB",
        type=["csv", "txt", "tsv", "data", "gz", "parquet", "pq"],
        key=_uploader_key(page),
        max_upload_size=50,
        on_change=_read,
        args=(page, kind),
    )
    upload: Kind | None = st.session_state.get(f"{page}_upload")
    if upload is None:
        lost = visitors.current().lost.get(f"{page}_upload")
        if lost:
            st.info(f"{lost} Your file is gone: choose it again.", icon=":material/restart_alt:")
        st.caption("The file stays in the memory of this server. It is never written to disk nor put into a link.")
        return None
    if upload.error is not None:
        st.error(escape_sentence(str(upload.error)), title=escape_sentence(upload.error.title))
        if upload.error.title == f"More than {MAX_ROWS:,} rows":  # the only error that a sample avoids
            st.button(f"Use a random sample of {MAX_ROWS:,} rows", on_click=_sample, args=(page, kind))
    if upload.proposal is not None:  # also with an error, so that the settings can be corrected
        table = upload.editor if kind.shows_cells else None
        how.propose(
            page, upload.name, upload.proposal, table, on_change=_propose_again, on_confirm=_confirm, args=(page, kind)
        )
        return None
    if upload.error is not None:
        return None
    st.caption(f"**{escape_name(upload.name)}**: {len(upload.frame):,} rows, {len(upload.columns)} columns")
    if upload.reading is not None and upload.is_text:
        used = [column.name for column in upload.columns]
        repeated = upload.is_confirmed_before
        how.show_reading(page, upload.reading, used, is_repeated=repeated, change=_change, args=(page, kind))
    upload.from_data.clear()  # the controls that follow add the present ones, by `mark_from_data`
    return upload


def read_again(page: str, kind: type[File]) -> None:
    """Read the panel's file again by its declared settings, after its rows were forgotten; for a callback."""
    old: File = st.session_state[f"{page}_upload"]
    _use_file(page, kind, lambda upload, data: _load(upload, data, old.reading or Reading(), old.all_names))


def known_as(page: str) -> Hashable:
    """Return the identity of a panel's file in this session, from public facts about it; None without a file."""
    upload: File | None = st.session_state.get(f"{page}_upload")
    return None if upload is None else upload.known_as


def _forget(page: str) -> None:
    """Forget the rows of the panel's file, and the settings of how to read it."""
    old: File | None = st.session_state.get(f"{page}_upload")
    if old is not None:
        old.forget_rows()
    how.forget(page)


def _read(page: str, kind: type[File]) -> None:
    """Take the file that the visitor has just chosen in place of the previous one; for a callback.

    A Parquet file is read at once. A text file is read at once if the visitor has confirmed before how such a file is
    read; otherwise the panel proposes it.
    """
    _forget(page)
    visitors.current().lost.pop(f"{page}_upload", None)

    def detect(upload: File, data: bytes) -> None:
        """Read the file, if it is Parquet or its settings were confirmed before; else propose settings."""
        upload.is_text = not is_parquet(data, upload.name)
        # By the settings confirmed for a file of this name; None if none fit. Those of Parquet only say to sample rows.
        earlier = how.detect_confirmed(upload.name, lambda reading: reader().detect(data, upload.name, reading))
        detected = earlier or reader().detect(data, upload.name)
        upload.is_confirmed_before = upload.is_text and earlier is not None
        if upload.is_confirmed_before or not upload.is_text:
            _load(upload, data, detected.reading, detected.names)
        else:
            upload.proposal = detected

    _use_file(page, kind, detect)


def _propose_again(page: str, kind: type[File]) -> None:
    """Propose the columns that the file has by the present settings of the panel; for a callback."""
    old: Detected = st.session_state[f"{page}_upload"].proposal

    def detect(upload: File, data: bytes) -> None:
        upload.proposal = old  # if the file cannot be read so, the settings stay, to be corrected
        upload.proposal = reader().detect(data, upload.name, how.selected(page, old.reading))

    _use_file(page, kind, detect)


def _confirm(page: str, kind: type[File]) -> None:
    """Read the file by the present settings of the panel, which count as declared from then on; for a callback."""
    old: Detected = st.session_state[f"{page}_upload"].proposal

    def read(upload: File, data: bytes) -> None:
        upload.proposal = old  # stays, to be corrected, if the settings do not go together
        reading = how.selected(page, old.reading, asks_kinds=kind.shows_cells)
        upload.proposal = replace(old, reading=reading)  # stays, to be corrected, if the file cannot be read so
        _load(upload, data, reading, old.names)
        upload.proposal = None
        how.keep(upload.name, reading, old.names)

    _use_file(page, kind, read)


def _change(page: str, kind: type[File]) -> None:
    """Ask again how the file is read, starting from the declared settings; for a callback."""
    reading = st.session_state[f"{page}_upload"].reading

    def detect(upload: File, data: bytes) -> None:
        detected = reader().detect(data, upload.name, reading)
        # The kinds of the columns stay as declared, so none is proposed to be left out as an identifier.
        upload.proposal = replace(detected, reading=detected.reading.replaced(kinds=reading.kinds), ids=())

    _use_file(page, kind, detect)


def _sample(page: str, kind: type[File]) -> None:
    """Read a random sample of MAX_ROWS rows of a file that has more; for a callback."""
    old: File = st.session_state[f"{page}_upload"]  # refused by `_load`, which has set its reading and names

    def read(upload: File, data: bytes) -> None:
        assert old.reading is not None
        reading = old.reading.replaced(sample_rows=MAX_ROWS)
        _load(upload, data, reading, old.all_names)
        how.keep(upload.name, reading, old.all_names)

    _use_file(page, kind, read)


def _use_file(page: str, kind: type[File], use: Callable[[File, bytes], None]) -> None:
    """Put a new file object of the class `kind` into the session, and pass it to `use` with the bytes of the file.

    All declarations about the old object are reset. A UserError that `use` raises is kept in the new one.
    """
    file = st.session_state.get(_uploader_key(page))
    old: File | None = st.session_state.pop(f"{page}_upload", None)
    if file is None:
        return
    serial = st.session_state[f"{page}_upload_serial"] = st.session_state.get(f"{page}_upload_serial", 0) + 1
    upload = st.session_state[f"{page}_upload"] = kind(page, file.name, serial)
    upload.is_text = old is not None and old.is_text  # the same file again, unless `_read` detects it anew
    for name in CHOICES:
        st.session_state.pop(f"{page}_upload_{name}", None)
    try:
        use(upload, file.getvalue())
    except UserError as error:
        upload.error = error.with_traceback(None)  # a traceback would keep the refused table in memory


def _load(upload: File, data: bytes, reading: Reading, names: tuple[str, ...]) -> None:
    """Read the table of a file from its bytes by declared settings, and count it among those that this server keeps.

    names : names of all columns, including those left out. Raises UserError if the file cannot be read, or if the
    tables of all visitors would take more than MAX_HELD.
    """
    upload.reading, upload.all_names = reading, names
    frame, upload.columns = reader().read(data, upload.name, reading, upload.min_columns)
    size = int(frame.memory_usage(index=False).sum())
    held = sum(list(_held.values()))  # of a copy, as the threads of other visitors change it
    if held + size > MAX_HELD:
        raise UserError("Try again later, or with fewer rows or columns.", title="This server keeps many files already")
    _held[id(frame)] = size
    weakref.finalize(frame, _held.pop, id(frame), None)  # until the table is garbage-collected
    upload.frame = frame


def show_counts(notes: Sequence[str], sentences: Sequence[str] = ()) -> None:
    """Draw a caption with numbers that were counted in the file, so that its owner can see what looks odd.

    notes : plain texts. sentences : texts in Markdown.
    """
    if notes or sentences:
        st.caption(f"**Not private**, counted in the file: {'; '.join([*map(escape_sentence, notes), *sentences])}.")


def show_ready(upload: File, rows: int, dropped: int, contents: str) -> None:
    """Draw a line which says that the data set can be used, and describes it.

    rows, dropped : numbers of rows that are used and that were left out. contents : text on the columns.
    """
    dropped_text = f", {dropped:,} dropped" if dropped else ""
    upload.contents = f"{rows:,} rows{dropped_text}, {contents}"
    st.success(f"Ready: {upload.contents}.", icon=":material/check:")


def mark_from_data(upload: File, declared: Mapping[Mark, Collection[Any]], nouns: Mapping[MarkKind, str]) -> None:
    """Mark the declarations of which at least one part was taken from the file itself.

    The data set then carries the marks. A badge says so here, next to a button with which the owner of the file can
    declare that these parts were known beforehand.

    declared : the parts of every declaration, by mark, in the form of `File.filled`. nouns : a word for each kind of
    declaration, the first item of a mark.
    """
    from_file = [mark for mark, parts in declared.items() if upload.filled.get(mark, set()) & set(parts)]
    upload.from_data.extend(from_file)
    kinds = {kind for kind, _ in from_file}
    nouns_in_use = [noun for kind, noun in nouns.items() if kind in kinds]
    if not nouns_in_use:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        key = f"{upload.page}_upload_knew_{'_'.join(nouns_in_use)}"
        explain.mark_taken(" and ".join(nouns_in_use), key, _declare_known, (upload, from_file))


def range_parts(low: float, high: float) -> set[tuple[str, float]]:
    """Return the parts of a declared range in the form of `File.filled`: either end may be from the data."""
    return {("lowest", low), ("highest", high)}


def _declare_known(upload: File, marks: Sequence[Mark]) -> None:
    """Forget that parts of declarations came from the data: the owner says they were known before; for callbacks."""
    for mark in marks:
        upload.filled.pop(mark, None)


def fill_button(
    file: File, fill: Callable[..., None], args: tuple[Any, ...], help: str, name: str = "fill", label: str = FILL
) -> None:
    """Draw a button that fills in declarations from the file itself, although its owner should know them beforehand.

    fill : is called as `fill(*args)` in the callback; it fills them in, and passes the parts to `File.note_from_data`.
    help : text on what is taken from the file. name, label : of the button.
    """
    st.button(
        label,
        key=f"{file.page}_upload_{name}",
        on_click=_fill,
        args=(file, fill, args),
        help=f"{help} They reveal something that no budget accounts for.",
    )


def _fill(file: File, fill: Callable[..., None], args: tuple[Any, ...]) -> None:
    """Fill in declarations, and have the tables start from them; for the callback of `fill_button`."""
    fill(*args)
    file.edition += 1  # gives each table a new key
