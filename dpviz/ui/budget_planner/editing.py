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

MAX_ROWS = 20  # the rows after these are ignored
JOINERS = "\u200c\u200d"  # invisible, but Persian and Hindi words and some emoji need them
MAX_UNDO = 50  # changes that can be undone
Row = tuple[Any, ...]


@dataclass(frozen=True)
class EditedTable:
    """An editable table of a page.

    Its rows are kept in three places: in the editor while that is drawn, in the session, and in the address.

    name : of the table in the address, after the page's prefix. columns : Streamlit's configuration of each column, in
        order. numbers : the columns that hold numbers; the others hold texts. start : rows at first. alt : text
        alternative.
    """

    panel: Panel
    name: str
    columns: Mapping[str, Any]
    numbers: Collection[str]
    start: Sequence[Row]
    alt: str

    def rows(self, is_open: bool) -> list[Row]:
        """Return the rows as edited, or `start` if there are none yet.

        is_open : true to draw the editor. It is the heaviest part of a page, so it is drawn only in an open section.
        """
        rows: list[Row] | None
        if is_open:
            rows = self._edit()
        else:  # those of the session, or else of the address
            rows = st.session_state.get(self._rows_key)
            if rows is None and self.key in st.query_params:
                frame = self._from_address()
                rows = [tuple(_plain(value) for value in row) for row in frame.itertuples(index=False)]
        if rows is None:
            return [*self.start]
        if rows != st.session_state.get(self._rows_key, rows):  # the visitor has edited them
            self._remember()
        st.session_state[self._rows_key] = rows
        if is_open:
            self._draw_buttons(rows)
        self._write(rows)
        return rows

    def add(self, rows: Sequence[Row]) -> None:
        """Put rows below the present ones, or in place of `start`; for callbacks."""
        added = [tuple(clean_cell(cell) for cell in row) for row in rows]
        old = st.session_state.get(self._rows_key, [])
        self.replace([*old, *added] if old != [*self.start] else added)

    @property
    def key(self) -> str:
        """Key of the rows in the address."""
        return self.panel.key(self.name)

    @property
    def _rows_key(self) -> str:
        """Key of the last rows in the session."""
        return f"{self.key}_rows"

    @property
    def _row_key(self) -> str:
        """Key of the menu of rows."""
        return f"{self.key}_row"

    def _write(self, rows: Sequence[Row]) -> None:
        """Put the rows into the link, and into the address, so that a page that is loaded again still has them."""
        self.panel.titles[self.name] = self.alt  # the table counts as a control
        if rows == [*self.start]:
            st.query_params.pop(self.key, None)
            return
        text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
        self.panel.query[self.key] = text
        if st.query_params.get(self.key) != text:
            st.query_params[self.key] = text

    def _draw_buttons(self, rows: Sequence[Row]) -> None:
        """Draw buttons for changes that the editor lacks or hides behind a key; they work by touch, too."""
        with st.container(horizontal=True, vertical_alignment="bottom"):
            row = st.selectbox(
                "Row",
                range(len(rows)),
                format_func=lambda index: f"{index + 1}. {rows[index][0] or ''}",
                key=self._row_key,
                disabled=not rows,
                width=220,
            )
            for label, icon, change, is_possible in (
                ("Duplicate", ":material/content_copy:", self._duplicate, bool(rows) and len(rows) < MAX_ROWS),
                ("Remove", ":material/delete:", self._remove, bool(rows)),
                ("Undo", ":material/undo:", self._undo, self._history_key in st.session_state),
            ):
                st.button(
                    label,
                    key=f"{self.key}_{label.lower()}",
                    icon=icon,
                    on_click=change,
                    args=(row,),
                    disabled=not is_possible,
                )

    def _duplicate(self, row: int) -> None:
        """Put a copy of the row with this index below it; for callbacks. Its name fits into the 60 characters of a
        name."""
        rows = st.session_state[self._rows_key]
        copies = [(f"{name or '':.53} (copy)".strip(), *rest) for name, *rest in rows[row : row + 1]]
        self.replace([*rows[: row + 1], *copies, *rows[row + 1 :]])

    def _remove(self, row: int) -> None:
        """Remove the row with this index; for callbacks."""
        rows = st.session_state[self._rows_key]
        self.replace([*rows[:row], *rows[row + 1 :]])

    def _undo(self, _: int | None) -> None:
        """Go back to the rows before the last change; for callbacks. The index of the selected row does not matter.

        The button works even if all is undone, and then says so: a disabled one loses the focus of the keyboard.
        """
        history = st.session_state[self._history_key]
        if history:
            self.replace(history[-1])  # adds the present rows to the history, which the next line undoes
            st.session_state[self._history_key] = history[:-1]
        else:
            st.toast("All changes are undone.")

    def replace(self, rows: Sequence[Row]) -> None:
        """Put `rows` in place of the present ones, into a new editor; for callbacks."""
        self._remember()
        st.session_state[self._rows_key] = [*rows]
        st.session_state[f"{self.key}_edition"] = st.session_state.get(f"{self.key}_edition", 0) + 1
        if rows:  # the menu of rows shows the new name of its row only if its value is set
            st.session_state[self._row_key] = min(st.session_state.get(self._row_key) or 0, len(rows) - 1)

    def _remember(self) -> None:
        """Add the last rows to the history of Undo."""
        history = st.session_state.get(self._history_key, [])
        st.session_state[self._history_key] = [*history, st.session_state.get(self._rows_key, [])][-MAX_UNDO:]

    @property
    def _history_key(self) -> str:
        """Key of the earlier versions of the rows in the session, the oldest first."""
        return f"{self.key}_history"

    def _edit(self) -> list[Row]:
        """Draw the editor; return its rows."""
        # Added rows need a new editor: an editor keeps its edits as changes to the rows that it began with.
        edition = st.session_state.get(f"{self.key}_edition", 0)
        editor_key = f"{self.key}_table_{edition}" if edition else f"{self.key}_table"
        base_key = f"{self.key}_base"  # of the rows that the editor began with
        if editor_key not in st.session_state:  # one that was closed has lost its edits: begin with the last rows
            last_rows = st.session_state.get(self._rows_key)
            st.session_state[base_key] = self._from_address() if last_rows is None else self._frame(last_rows)
        edited = st.data_editor(
            st.session_state[base_key],
            key=editor_key,
            num_rows="dynamic",
            hide_index=True,
            column_config=dict(self.columns),
            placeholder="",
            alt=self.alt,
        )
        rows = [tuple(_plain(value) for value in row) for row in edited[[*self.columns]].itertuples(index=False)]
        if len(rows) > MAX_ROWS:
            st.warning(f"Only the first {MAX_ROWS} rows count.")
        return rows[:MAX_ROWS]

    def _from_address(self) -> pd.DataFrame:
        """Return the rows in the address as a frame for the editor; `start`, with a warning, if they cannot be read."""
        text = st.query_params.get(self.key)
        if text:
            try:
                rows = json.loads(text)
                has_shape = isinstance(rows, list) and len(rows) <= MAX_ROWS
                if has_shape and all(len(row) == len(self.columns) for row in rows):
                    return self._frame([[clean_cell(cell) for cell in row] for row in rows])
            except (ValueError, TypeError, OverflowError, RecursionError):
                pass  # no JSON, a row that is no list, a number that is too large, or lists in lists without end
            st.warning("The table in this link cannot be read. The default one is shown.")
        return self._frame(self.start)

    def _frame(self, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
        """Return the rows as a frame for the editor; a cell of a number column that is no number is empty."""
        frame = pd.DataFrame(list(rows), columns=[*self.columns])
        for name in self.columns:
            if name in self.numbers:
                frame[name] = pd.to_numeric(frame[name], errors="coerce").astype(float)  # booleans, too
            else:
                frame[name] = frame[name].fillna("").astype(str)
        return frame


def clean_cell(cell: Any) -> Any:
    """Return a cell from a link or a file: a text in one line that is safe to show and to save; a number unchanged.

    Characters that turn the text around them are left out, as with them 21 would read as 12. Formulas of spreadsheets
    are made plain text, as the editor lets a visitor save its table without another check.
    """
    if not isinstance(cell, str):
        return cell
    visible = [sign for sign in cell if sign.isprintable() or sign.isspace() or sign in JOINERS]
    return without_formulas("".join(" " if sign.isspace() else sign for sign in visible).strip())


def _plain(value: Any) -> Any:
    """Return a cell of a frame as None (if empty), float or str, so that rows can be compared and saved as JSON."""
    if value is None or (isinstance(value, float) and np.isnan(value)) or value is pd.NA:
        return None
    return float(value) if isinstance(value, (int, float, np.number)) else str(value)
