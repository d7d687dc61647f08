"""A table that a visitor fills in: its rows travel in the address, and stay while another tab or page is open."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.exports.spreadsheets import without_formulas
from dpviz.ui.controls import Panel

MOST = 20  # rows that count
JOINERS = "\u200c\u200d"  # not printed, but part of how Persian or Hindi words and some emoji are written
STEPS_BACK = 50  # that can be undone
Row = tuple[Any, ...]


@dataclass(frozen=True)
class EditedTable:
    """One table of a page.

    name : of the table in the address, after the page's. columns : how each is edited, in order; `numbers` of them hold
    numbers, the others texts. start : the rows that it has at first. alt : its text alternative.
    """

    panel: Panel
    name: str
    columns: Mapping[str, Any]
    numbers: Collection[str]
    start: Sequence[Row]
    alt: str

    def rows(self, is_open: bool) -> list[Row]:
        """The rows as edited, or those that it begins with; drawn only while its tab is open, because an editor is the
        heaviest part of a page."""
        rows = self._edited() if is_open else self._kept()
        if rows is None:
            return [*self.start]
        if rows != st.session_state.get(self._last, rows):
            self._remember()
        st.session_state[self._last] = rows
        if is_open:
            self._buttons(rows)
        self._write(rows)
        return rows

    def add(self, rows: Sequence[Row]) -> None:
        """Put rows below those that are there, or in place of those that it began with; for callbacks."""
        added = [tuple(_harmless(cell) for cell in row) for row in rows]
        before = st.session_state.get(self._last, [])
        self._replace([*before, *added] if before != [*self.start] else added)

    @property
    def key(self) -> str:
        """Of its rows in the address."""
        return self.panel.key(self.name)

    @property
    def _last(self) -> str:
        """Where the session keeps the rows that came of it."""
        return f"{self.key}_rows"

    def _write(self, rows: Sequence[Row]) -> None:
        """Put the rows into the link, and into the address: a page that is loaded again still has them."""
        self.panel.titles[self.name] = self.alt
        if rows == [*self.start]:
            st.query_params.pop(self.key, None)
            return
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        self.panel.query[self.key] = text
        if st.query_params.get(self.key) != text:
            st.query_params[self.key] = text

    def _buttons(self, rows: Sequence[Row]) -> None:
        """What the editor has no key for, or one that nobody finds; also for touch."""
        with st.container(horizontal=True, vertical_alignment="bottom"):
            chosen = st.selectbox(
                "Row",
                range(len(rows)),
                format_func=lambda row: f"{row + 1}. {rows[row][0]}",
                key=f"{self.key}_row",
                disabled=not rows,
                width=220,
            )
            for label, icon, change, possible in (
                ("Duplicate", ":material/content_copy:", self._duplicate, bool(rows) and len(rows) < MOST),
                ("Remove", ":material/delete:", self._remove, bool(rows)),
                ("Undo", ":material/undo:", self._undo, self._history in st.session_state),
            ):
                st.button(
                    label,
                    key=f"{self.key}_{label.lower()}",
                    icon=icon,
                    on_click=change,
                    args=(chosen,),
                    disabled=not possible,
                )

    def _duplicate(self, row: int) -> None:
        rows = st.session_state[self._last]
        copies = [(f"{name[:53]} (copy)", *rest) for name, *rest in rows[row : row + 1]]
        self._replace([*rows[: row + 1], *copies, *rows[row + 1 :]])

    def _remove(self, row: int) -> None:
        rows = st.session_state[self._last]
        self._replace([*rows[:row], *rows[row + 1 :]])

    def _undo(self, _: int | None) -> None:
        # Not disabled when all is undone: a button that is, loses the focus of the keyboard.
        if history := st.session_state[self._history]:
            self._replace(history[-1])
            st.session_state[self._history] = history[:-1]
        else:
            st.toast("All changes are undone.")

    def _replace(self, rows: Sequence[Row]) -> None:
        """Other rows, in a new editor; for callbacks."""
        self._remember()
        st.session_state[self._last] = [*rows]
        st.session_state[f"{self.key}_edition"] = st.session_state.get(f"{self.key}_edition", 0) + 1

    def _remember(self) -> None:
        """The rows as they are, for Undo."""
        history = st.session_state.get(self._history, [])
        st.session_state[self._history] = [*history, st.session_state.get(self._last, [])][-STEPS_BACK:]

    @property
    def _history(self) -> str:
        return f"{self.key}_history"

    def _edited(self) -> list[Row]:
        # Rows that were added need a new editor: this one keeps what was edited as changes to what it began with.
        edition = st.session_state.get(f"{self.key}_edition", 0)
        base, editor = f"{self.key}_base", f"{self.key}_table" + f"_{edition}" * bool(edition)
        if editor not in st.session_state:  # what was edited is lost with the editor, so a new one begins with it
            kept = st.session_state.get(self._last)
            st.session_state[base] = self._from_address() if kept is None else self._frame(kept)
        edited = st.data_editor(
            st.session_state[base],
            key=editor,
            num_rows="dynamic",
            hide_index=True,
            column_config=dict(self.columns),
            placeholder="",
            alt=self.alt,
        )
        rows = [tuple(_plain(value) for value in row) for row in edited[[*self.columns]].itertuples(index=False)]
        if len(rows) > MOST:
            st.warning(f"Only the first {MOST} analyses count.")
        return rows[:MOST]

    def _kept(self) -> list[Row] | None:
        """The rows while there is no editor; None for those that it begins with."""
        rows: list[Row] | None = st.session_state.get(self._last)
        if rows is None and self.key in st.query_params:
            frame = self._from_address()
            rows = [tuple(_plain(value) for value in row) for row in frame.itertuples(index=False)]
        return rows

    def _from_address(self) -> pd.DataFrame:
        """The table that a link holds, or the one to start with if it holds none that can be read."""
        text = st.query_params.get(self.key)
        if text:
            try:
                rows = json.loads(text)
                if isinstance(rows, list) and len(rows) <= MOST and all(len(x) == len(self.columns) for x in rows):
                    return self._frame([[_harmless(cell) for cell in row] for row in rows])
            except (ValueError, TypeError, OverflowError, RecursionError):
                pass
            st.warning("The table of analyses in this link cannot be read. The default one is shown.")
        return self._frame(self.start)

    def _frame(self, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
        """The rows as the editor takes them; what is no number is empty."""
        frame = pd.DataFrame(list(rows), columns=[*self.columns])
        for name in self.columns:
            if name in self.numbers:
                frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)  # of booleans, too
            else:
                frame[name] = frame[name].fillna("").astype(str)
        return frame


def _harmless(cell: Any) -> Any:
    """A text of a link or a file in one line, without what turns the text beside it around (21 would read as 12), and
    no formula of a spreadsheet: the editor saves its table as it is."""
    if not isinstance(cell, str):
        return cell
    kept = (c for c in cell if c.isprintable() or c.isspace() or c in JOINERS)
    return without_formulas(" ".join("".join(kept).split()))


def _plain(value: Any) -> Any:
    if value is None or (isinstance(value, float) and np.isnan(value)) or value is pd.NA:
        return None
    return float(value) if isinstance(value, (int, float, np.number)) else str(value)
