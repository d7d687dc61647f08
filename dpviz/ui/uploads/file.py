"""A visitor's own file, as every panel has it: read, kept in the session, asked about, made a table once."""

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
from dpviz.datasets.uploads.from_data import Kind as Marked
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
LACKS, REMOVED, USED = "own_file_lacks", "own_file_removed", "own_file_used"  # in the session
MOST_HELD = 4e9  # bytes that this server keeps of all visitors' files together
# Process-wide on purpose: the bytes of every table that is kept, by its id, for as long as it is.
_held: dict[int, int] = {}

Made = TypeVar("Made")
Kind = TypeVar("Kind", bound="File")
U = TypeVar("U", bound=Upload)


def missing_rule(data: Specification | None) -> str:
    """What became of missing values in an upload: "fill", "drop", or "" where that is no question."""
    return data.missing if isinstance(data, UploadedTable | GroupedUpload) else ""


@dataclass
class File:
    """A file as it was read: its table, or what was wrong with it. Kept in the session, never on disk.

    min_columns : fewer are no table to its panel. shows_cells : whether the panel shows some, and asks what they hold.
    """

    min_columns: ClassVar[int] = MIN_COLUMNS
    shows_cells: ClassVar[bool] = True
    page: str  # prefix of the panel's keys
    name: str
    serial: int  # of the files that this panel read
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    columns: tuple[ColumnInfo, ...] = ()
    reading: Reading | None = None  # how it was read, as declared
    of_text: bool = False  # and not Parquet, whose schema declares how it is read
    again: bool = False  # read as was confirmed of a file before
    named: tuple[str, ...] = ()  # all its columns
    proposal: Detected | None = None  # how a text file may be read, as long as nobody has confirmed it
    error: UserError | None = None
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)  # of columns, as declared so far
    lists: dict[str, str] = field(default_factory=dict)  # categories of columns, as typed so far
    # What was taken from the data so far: of each declaration the categories, groups, (group, share), or (end, value).
    filled: dict[Mark, set[Any]] = field(default_factory=dict)
    from_data: list[Mark] = field(default_factory=list)  # of what the panel, as it is drawn now, declares
    edition: int = 0  # of the tables to fill in; a new one starts from what was declared
    starts: dict[str, pd.DataFrame] = field(default_factory=dict)  # of the tables to fill in, by key
    made: tuple[Hashable, Any] | None = None  # the choice that it was made for, and the result
    identities: dict[Hashable, str] = field(default_factory=dict)  # of the choices made so far
    counts: dict[Hashable, Any] = field(default_factory=dict)  # what was counted in the rows so far
    contents: str = ""  # of the table that was made, in a line; empty until it is
    lacks: list[str] = field(default_factory=list)  # what keeps the panel, as it is drawn now, from making one

    @property
    def known_as(self) -> Hashable:
        """What a file is known by when it comes again: name, columns, those left out among them, and number of rows,
        which are public. Not its rows: whether two files have the same ones must not enter a plan."""
        return self.name, self.named, len(self.frame)

    def widget(self, name: str) -> dict[str, Any]:
        """The options of a control of its panel: its words and key, and that its value stays while it is not drawn."""
        return {"key": f"{self.page}_upload_{name}", "persist_state": "session", **texts.WIDGETS.get(name, {})}

    def once(self, choice: Hashable, make: Callable[[str], Made]) -> Made:
        """What `make` returns for a choice, given its identity; made again only when the choice changes."""
        if self.made is None or self.made[0] != choice:
            # A choice that comes back is the same data set: a run of it was not made with other settings.
            self.made = (choice, make(self.identities.setdefault(choice, new_identity())))
        return self.made[1]

    def made_by(self, prepare: Callable[..., Made], **declared: Any) -> Made:
        """What `prepare` makes of the table by these declarations; see `once`."""
        choice = tuple((name, _hashable(value)) for name, value in declared.items())
        return self.once(choice, lambda name: prepare(self.frame, **declared, identity=name, reading=self.reading))

    def count(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` finds in the rows, looked up when it is asked for again: a page is drawn often."""
        if what not in self.counts:
            self.counts[what] = make()
        counted: Made = self.counts[what]
        return counted

    def fill(self, mark: Mark, parts: Collection[Any]) -> None:
        """Note what was taken from the data: taking it again, or more, makes none of it declared."""
        self.filled.setdefault(mark, set()).update(parts)

    def typed(self, name: str, rows: Hashable) -> Mapping[int, Mapping[str, Any]]:
        """What was typed into a table to fill in since the last fill, by row and column."""
        state: Mapping[str, Any] = st.session_state.get(self.key(name, rows)) or {}
        edited: Mapping[int, Mapping[str, Any]] = state.get("edited_rows", {})
        return edited

    def let_go(self) -> None:
        """Forget the rows, here and in runs of them: the file was removed. Widgets hold on to `self` until they end."""
        visitors.here().forget(self.identities.values())
        self.frame, self.made = pd.DataFrame(), None
        for kept in (self.counts, self.starts, self.bounds, self.lists):
            kept.clear()

    def column(self, name: str) -> ColumnInfo:
        """What a column holds."""
        return next(column for column in self.columns if column.name == name)

    def key(self, name: str, rows: Hashable) -> str:
        """Of a table to fill in."""
        return f"{self.page}_{name}_{self.serial}_{self.edition}_{hash(rows)}"

    def editor(self, name: str, rows: Hashable, start: Callable[[], pd.DataFrame], **options: Any) -> pd.DataFrame:
        """A table to fill in, as edited. It starts from `start()`, again after a fill and wherever it was hidden."""
        key = self.key(name, rows)
        # What is edited is kept by the widget as changes to its start; so that changes only when the widget is new.
        if key not in self.starts or key not in st.session_state:
            self.starts[key] = start()
        frame = self.starts[key]
        if pd.api.types.is_numeric_dtype(frame.index.dtype):
            return st.data_editor(frame, key=key, **options)
        # Its rows are named after columns of the file, and Streamlit lets it be saved as it is shown.
        shown = frame.set_axis(frame.index.map(as_text), axis=0)
        return st.data_editor(shown, key=key, **options).set_axis(frame.index, axis=0)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value


def uploaded(
    page: str, kind: type[Kind], make: Callable[[Kind], Prepared[U]]
) -> tuple[U | None, Mapping[str, np.ndarray]]:
    """A panel for a file: the data set that its choices make, and its table; or None as long as something is missing.

    page : prefix of the panel's keys. kind : what the file is kept as.
    make : draws what is declared of the file, and returns what `once` keeps of that. May raise UserError.

    The panel opens where something is missing, and folds up into a line once the visitor is done or starts a run: what
    is optional, and what was taken from the data, is to be seen before.
    """
    st.caption(f":material/info: {NOTICE}")
    is_open, is_used, said = f"{page}_file_open", f"{page}_file_used", f"{page}_line"
    line = st.session_state.get(said, "")
    if st.session_state.pop(USED, False):
        st.session_state[is_used] = True
        st.session_state.pop(is_open, None)
    with st.container(horizontal=True, key=f"{page}_own_file"):
        title = plain(line) if line else "Your data"
        unfolded = is_used not in st.session_state
        box = st.expander(title, unfolded, key=is_open, icon=":material/upload_file:", on_change="rerun")
        if line:
            st.button("Replace", key=f"{page}_replace", on_click=_remove, args=(page,))
            st.button("Remove", key=f"{page}_remove", on_click=_remove, args=(page, True))
    with box:
        file, made = chosen_file(page, kind), None
        if file is not None:
            made = _made(file, make)
        if made is not None:
            st.button("Done", key=f"{page}_done", icon=":material/check:", on_click=fold)
    now = "" if file is None or made is None else f"{file.name}: {file.contents}"
    asked = getattr(st.session_state.get(f"{page}_upload"), "proposal", None)
    without = ("your file" if asked is None else "how the file is read, to be confirmed",)
    st.session_state[LACKS] = () if made else without if file is None else tuple(file.lacks)
    if now != line:
        st.session_state[said] = now
        if not now:
            for name in (is_open, is_used):
                st.session_state.pop(name, None)
        st.rerun()
    return (None, {}) if made is None else made


def _made(file: Kind, make: Callable[[Kind], Prepared[U]]) -> tuple[U, Mapping[str, np.ndarray]] | None:
    """The data set that the choices of a panel make, and its table; None where something is missing, which is said."""
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
    """What is missing until the file of the page, whose panel was drawn last, can be used."""
    missing: Sequence[str] = st.session_state.get(LACKS, ())
    return missing


def fold() -> None:
    """Fold the panel of the page up, which is drawn again: all that its visitor wants to declare is declared."""
    st.session_state[USED] = st.session_state[WHOLE] = True


def removed() -> bool:
    """Whether the file was removed by its button, so that the page goes back to its demonstration; said once."""
    return bool(st.session_state.pop(REMOVED, False))


def _remove(page: str, back: bool = False) -> None:
    """Remove the file; back : to the demonstration."""
    _forget(page)
    st.session_state.pop(f"{page}_upload", None)
    st.session_state[f"{page}_uploader"] = st.session_state.get(f"{page}_uploader", 0) + 1  # its widget holds a file
    st.session_state[WHOLE] = True
    if back:
        st.session_state[REMOVED] = True


def _uploader(page: str) -> str:
    """The key of the widget that takes a file."""
    return f"{page}_file" + (f"_{number}" if (number := st.session_state.get(f"{page}_uploader")) else "")


@st.cache_resource
def reader() -> Reader:
    """The one reader of files of this server; in processes of its own, unless its runs are in none either."""
    return Reader(processes=0 if os.environ.get("DPVIZ_WORKERS") == "0" else 2)


def chosen_file(page: str, kind: type[Kind]) -> Kind | None:
    """The part of a panel that reads a file, to be kept as a `kind`; None as long as none can be used."""
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
        # Only this error can be mended by a sample.
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
    if upload.reading is not None and upload.of_text:
        used = [column.name for column in upload.columns]
        how.declared(page, upload.reading, used, again=upload.again, change=_change, args=(page, kind))
    upload.from_data.clear()
    return upload


def known_as(page: str) -> Hashable:
    """What tells the file of a panel from others in this session; None without a file."""
    upload: File | None = st.session_state.get(f"{page}_upload")
    return None if upload is None else upload.known_as


def _forget(page: str) -> None:
    """The rows of the file, and how it was to be read."""
    before: File | None = st.session_state.get(f"{page}_upload")
    if before is not None:
        before.let_go()
    how.forget(page)


def _read(page: str, kind: type[File]) -> None:
    """Look at the file that was just chosen; forget the one before. A text is read when its reading is confirmed."""
    _forget(page)
    visitors.here().lost.pop(f"{page}_upload", None)

    def look(upload: File, data: bytes) -> None:
        upload.of_text = not is_parquet(data, upload.name)
        known = how.confirmed_before(upload.name, lambda given: reader().detect(data, upload.name, given))
        detected = known or reader().detect(data, upload.name)
        upload.again = upload.of_text and known is not None
        if upload.of_text and not known:
            upload.proposal = detected
        else:
            _take(upload, data, detected.reading, detected.names)

    _afresh(page, kind, look)


def _look_again(page: str, kind: type[File]) -> None:
    """Propose the columns of the file, read as the panel now says."""
    before: Detected = st.session_state[f"{page}_upload"].proposal

    def look(upload: File, data: bytes) -> None:
        upload.proposal = before  # to be mended, if it cannot be
        upload.proposal = reader().detect(data, upload.name, how.chosen(page, before.reading))

    _afresh(page, kind, look)


def _confirm(page: str, kind: type[File]) -> None:
    """Read the file as the panel says: from here on that is declared."""
    before: Detected = st.session_state[f"{page}_upload"].proposal

    def read(upload: File, data: bytes) -> None:
        upload.proposal = before  # to be mended, if it cannot be
        reading = how.chosen(page, before.reading, kind.shows_cells)
        upload.proposal = replace(before, reading=reading)
        _take(upload, data, reading, before.names)
        upload.proposal = None
        how.keep(upload.name, reading, before.names)

    _afresh(page, kind, read)


def _change(page: str, kind: type[File]) -> None:
    """Ask again how the file is read, from what was declared."""
    reading = st.session_state[f"{page}_upload"].reading

    def look(upload: File, data: bytes) -> None:
        detected = reader().detect(data, upload.name, reading)
        upload.proposal = replace(detected, reading=detected.reading.replaced(kinds=reading.kinds), ids=())

    _afresh(page, kind, look)


def _sample(page: str, kind: type[File]) -> None:
    """Read a random sample of a file that is too long."""
    before: File = st.session_state[f"{page}_upload"]
    names = before.named if before.proposal is None else before.proposal.names

    def read(upload: File, data: bytes) -> None:
        reading = (before.reading or Reading()).replaced(sample_rows=MAX_ROWS)
        _take(upload, data, reading, names)
        how.keep(upload.name, reading, names)

    _afresh(page, kind, read)


def _afresh(page: str, kind: type[File], use: Callable[[File, bytes], None]) -> None:
    """Do something with the file as chosen, of which nothing is read yet; what is raised meanwhile stays with it."""
    file = st.session_state.get(_uploader(page))
    before: File | None = st.session_state.pop(f"{page}_upload", None)
    if file is None:
        return
    serial = st.session_state[f"{page}_upload_serial"] = st.session_state.get(f"{page}_upload_serial", 0) + 1
    upload = st.session_state[f"{page}_upload"] = kind(page, file.name, serial)
    upload.of_text = before is not None and before.of_text
    for name in CHOICES:
        st.session_state.pop(f"{page}_upload_{name}", None)
    try:
        use(upload, file.getvalue())
    except UserError as error:
        upload.error = error.with_traceback(None)  # which would keep a table that was refused


def _take(upload: File, data: bytes, reading: Reading, names: tuple[str, ...]) -> None:
    """Read the file by a declared reading; names : of all its columns, those left out among them."""
    upload.reading, upload.named = reading, names
    frame, upload.columns = reader().read(data, upload.name, reading, upload.min_columns)
    upload.frame = _kept(frame)


def _kept(frame: pd.DataFrame) -> pd.DataFrame:
    """The table, counted among those that this server keeps. Raises UserError if there are too many."""
    size = int(frame.memory_usage(index=False).sum())
    if sum(list(_held.values())) + size > MOST_HELD:
        raise UserError("Try again later, or with fewer rows or columns.", title="This server keeps many files already")
    _held[id(frame)] = size
    weakref.finalize(frame, _held.pop, id(frame), None)
    return frame


def counted(notes: Sequence[str], said: Sequence[str] = ()) -> None:
    """What looks odd in the file, for the uploader's eyes: notes as plain text, and what is Markdown already."""
    if notes or said:
        st.caption(f"**Not private**, counted in the file: {'; '.join([*map(sentence, notes), *said])}.")


def ready(upload: File, rows: int, dropped: int, contents: str) -> None:
    """Say that the table can be used, and what is in it."""
    left_out = f", {dropped:,} dropped" if dropped else ""
    upload.contents = f"{rows:,} rows{left_out}, {contents}"
    st.success(f"Ready: {upload.contents}.", icon=":material/check:")


def marks(upload: File, declared: Mapping[Mark, Collection[Any]], what: Mapping[Marked, str]) -> None:
    """Marks those declarations of which a part still is what was taken from the file itself, for all that follows.

    declared : the parts of every declaration, as `File.filled` has them. what : each kind in a word.
    """
    from_file = [mark for mark, parts in declared.items() if not set(upload.filled.get(mark, ())).isdisjoint(parts)]
    upload.from_data.extend(from_file)
    kinds = [word for kind, word in what.items() if any(mark[0] == kind for mark in from_file)]
    if not kinds:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        explain.taken_badge(" and ".join(kinds))
        key = f"{upload.page}_upload_knew_{'_'.join(kinds)}"
        st.button(explain.KNEW, key=key, on_click=_declared, args=(upload, from_file), help=explain.KNEW_HELP)


def ends(low: float, high: float) -> set[tuple[str, float]]:
    """A range, as `File.filled` has it."""
    return {("lowest", low), ("highest", high)}


def _declared(upload: File, known: Sequence[Mark]) -> None:
    """Its owner says that these were known beforehand; for callbacks."""
    for mark in known:
        upload.filled.pop(mark, None)


def fill_button(
    file: File, fill: Callable[..., None], args: tuple[Any, ...], help: str, name: str = "fill", label: str = FILL
) -> None:
    """A button that declares from the file itself what should be declared from elsewhere.

    fill(*args) : does it, and tells `File.fill` what it has taken; for callbacks.
    """
    st.button(
        label,
        key=f"{file.page}_upload_{name}",
        on_click=_filled,
        args=(file, fill, args),
        help=f"{help} They reveal something that no budget accounts for.",
    )


def _filled(file: File, fill: Callable[..., None], args: tuple[Any, ...]) -> None:
    fill(*args)
    file.edition += 1
