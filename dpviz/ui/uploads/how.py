"""The panel that asks how a visitor's text file is read.

The settings, a `Reading`, are proposed from the file, confirmed by one click, and count as declared from then on.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import Detected, Reading
from dpviz.errors import UserError
from dpviz.exports.spreadsheets import safe_cell
from dpviz.ui.markdown import column_configs, editor_height, escape_name
from dpviz.ui.uploads import TABLES, texts

NAMES = ("separator", "decimal", "header", "missing", "rows", "above")  # of the controls that a new file resets
CONFIRM = "Read it like this"
AGAIN = "It is read as you confirmed before in this session, for a file of this name with these columns."
_SEPARATORS = {",": "Comma", ";": "Semicolon", "\t": "Tab", "|": "Vertical bar"}
_DECIMALS = {".": "Point: 1.234 is 1.234, and 1,234 is 1234", ",": "Comma: 1,234 is 1.234, and 1.234 is 1234"}
_HEADERS = {True: "names the columns", False: "is data"}
_ROWS = {
    "lines": "Every line",
    "records": "A CSV record: cells in quotes may have several lines",
    "returns": "Every line, ended by a carriage return (old Macs)",
}
_KINDS = {"number": "Numbers", "text": "Texts or categories", "unused": "Left out"}
_MAX_LISTED = 20  # columns of a kind that are named in a list
_CONFIRMED = "confirmed_readings"  # session key: from the name of a file to the confirmed settings and its columns


def propose(
    page: str,
    name: str,
    detected: Detected,
    editor: Callable[..., pd.DataFrame] | None,
    *,
    on_change: Callable[..., None],
    on_confirm: Callable[..., None],
    args: tuple[Any, ...],
) -> None:
    """Draw the panel that proposes how a file is read, with controls to change it and the button that confirms it.

    page : prefix of the panel's keys. name : of the file. detected : the proposal.
    editor : `File.editor`, which draws the columns and their first cells; None if no cell of the file may be shown.
    on_change, on_confirm : are called with `args` when a setting changes, and when the visitor confirms all.
    """
    with st.container(border=True):
        st.markdown(f"**How is {escape_name(name)} read?** This is a guess, made from the file. Change what is wrong.")
        st.badge("from the data, not private", icon=":material/visibility:", color="orange")
        for question in detected.questions:
            st.info(question)
        if detected.ids and editor is not None:
            st.info(texts.IDS.format(names=", ".join(map(escape_name, detected.ids))))
        _controls(page, detected.reading, {"persist_state": "session", "on_change": on_change, "args": args})
        if editor is not None:
            _columns(page, detected, editor)
        st.caption(texts.UNCONFIRMED)
        st.button(
            CONFIRM,
            key=f"{page}_upload_confirm",
            type="primary",
            icon=":material/check:",
            on_click=on_confirm,
            args=args,
        )


def _controls(page: str, reading: Reading, options: dict[str, Any]) -> None:
    """Draw the controls of the settings of `reading`, in two columns. options : further arguments of each control."""
    left, right = st.columns(2)

    def draw_choice(
        column: DeltaGenerator, name: str, label: str, choices: dict[Any, str], help: str | None = None
    ) -> None:
        values = list(choices)
        column.selectbox(
            label,
            values,
            index=values.index(getattr(reading, name)),
            format_func=choices.__getitem__,
            key=f"{page}_upload_{name}",
            help=help,
            **options,
        )

    draw_choice(left, "separator", "Separator of cells", _SEPARATORS)
    help = "It decides where a number could be read in two ways. 1.234,50 and 1,234.50 are read as they are."
    draw_choice(right, "decimal", "Decimal mark", _DECIMALS, help)
    draw_choice(left, "header", "The first row", _HEADERS)
    help = (
        "If a quote is opened that is not closed, a line is a row all the same; where that cannot be told from a "
        "record of several lines, the file is refused. “Every line” refuses nothing."
    )
    draw_choice(left, "rows", "A row is", _ROWS, help)
    right.text_input(
        "Missing values",
        ", ".join(reading.missing),
        key=f"{page}_upload_missing",
        help="Texts, separated by commas, that stand where a value is missing. Empty cells always do.",
        **options,
    )
    right.number_input(
        "Lines above the table",
        min_value=0,
        max_value=1000,
        value=reading.above,
        key=f"{page}_upload_above",
        help=texts.ABOVE_HELP.format(below=reading.below or 0),  # lines left out at the end of the file
        **options,
    )


def _columns(page: str, detected: Detected, editor: Callable[..., pd.DataFrame]) -> None:
    """Draw a table with a row for each column of the file: its name, its kind, and its first cells as read.

    The visitor can change the kind. The kinds are stored in the session, where `selected` reads them.
    """
    kinds = detected.reading.kinds

    def start() -> pd.DataFrame:
        names = detected.names[: len(kinds)]  # columns beyond the largest number that can be read have no kind
        # Columns that seem only to identify rows (`ids`) are left out at first.
        proposed = ["unused" if name in detected.ids else kind for name, kind in zip(names, kinds, strict=True)]
        return pd.DataFrame(
            {
                "column": [safe_cell(name) for name in names],
                "holds": [_KINDS[kind] for kind in proposed],
                "cells": [safe_cell("  ·  ".join(cells)) for cells in detected.cells[: len(kinds)]],
            }
        )

    edited = editor(
        "kinds",
        rows=detected.names,
        start=start,
        hide_index=True,
        column_config=column_configs(TABLES["kinds"], holds={"options": [*_KINDS.values()]}),
        height=editor_height(len(kinds)),
        alt="The columns of the file, what they hold, and their first cells as they would be read",
    )
    kind_by_label = {label: kind for kind, label in _KINDS.items()}
    st.session_state[f"{page}_upload_kinds"] = tuple(kind_by_label[label] for label in edited["holds"])


def show_reading(
    page: str,
    reading: Reading,
    used: Sequence[str],
    *,
    is_repeated: bool,
    change: Callable[..., None],
    args: tuple[Any, ...],
) -> None:
    """Draw the confirmed settings with which a file is read, and a button to change them.

    reading : the settings. used : names of the columns in use. is_repeated : true if the settings were confirmed for an
    earlier file. change, args : `change(*args)` is called when the button is pressed.
    """
    if is_repeated:
        st.caption(AGAIN)
    with st.expander("How the file is read", icon=":material/table_view:"):
        st.markdown(_describe(reading, used))
        st.button("Change it", key=f"{page}_upload_change", on_click=change, args=args)


def _describe(reading: Reading, used: Sequence[str]) -> str:
    """Return a list in Markdown of the settings with which a file is read. used : names of the columns in use."""
    separator, decimal = _SEPARATORS[reading.separator].lower(), {".": "point", ",": "comma"}[reading.decimal]
    missing = ["empty cells", *map(escape_name, reading.missing)]
    lines = [
        f"- Cells are separated by: {separator}. Decimal mark: {decimal}. The first row {_HEADERS[reading.header]}.",
        f"- A row is: {_ROWS[reading.rows][0].lower()}{_ROWS[reading.rows][1:]}.",
        f"- Missing: {', '.join(missing)}.",
    ]
    kinds = [kind for kind in reading.kinds if kind != "unused"]
    for kind in ("number", "text"):
        # A reading may have no kinds, and then none are listed.
        columns_of_kind = [name for name, column_kind in zip(used, kinds, strict=False) if column_kind == kind]
        names = [escape_name(safe_cell(name)) for name in columns_of_kind]
        if names:
            more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
            lines.append(f"- {_KINDS[kind]}: {', '.join(names[:_MAX_LISTED])}{more}.")
    unused = reading.kinds.count("unused")
    if unused:
        lines.append(f"- Left out: {unused} column{'s' if unused > 1 else ''}.")
    return "\n".join(lines)


def selected(page: str, old: Reading, asks_kinds: bool = True) -> Reading:
    """Return the settings that the controls of the panel have now. Raises UserError if they do not go together.

    old : the earlier settings, which have values that no control has, such as the size of a sample. asks_kinds : true
    if the panel asks for the kind of each column; otherwise all are read as texts, which may hold anything.
    """
    settings = {name: st.session_state.get(f"{page}_upload_{name}") for name in NAMES}
    marks = tuple(mark.strip() for mark in str(settings.pop("missing") or "").split(",") if mark.strip())
    all_texts = ("text",) * len(old.kinds)
    kinds = st.session_state.get(f"{page}_upload_kinds", old.kinds) if asks_kinds else all_texts
    return old.replaced(missing=marks, kinds=kinds, **settings)


def forget(page: str) -> None:
    """Forget the values of the panel's controls, because another file was chosen."""
    for name in (*NAMES, "kinds"):
        st.session_state.pop(f"{page}_upload_{name}", None)


def keep(name: str, reading: Reading, columns: tuple[str, ...]) -> None:
    """Remember in this session the confirmed settings of a file with this name and these columns."""
    st.session_state.setdefault(_CONFIRMED, {})[name] = (reading, columns)


def detect_confirmed(name: str, detect: Callable[[Reading], Detected]) -> Detected | None:
    """Return the proposal for a file with the settings that were confirmed before for a file of its name.

    Return None if there are none, or if with them the file has other columns than the earlier one, or another number of
    lines to leave out at its end.

    detect : returns the proposal that the settings lead to; may raise UserError.
    """
    reading, columns = st.session_state.get(_CONFIRMED, {}).get(name, (None, ()))
    try:
        detected = None if reading is None else detect(reading)
    except UserError:
        return None
    # With another number of lines to leave out, a row would be left out, or a line of text be taken as a row.
    if detected is None or detected.names != columns or detected.reading.below != reading.below:
        return None
    return replace(detected, reading=reading)  # the kinds of the columns, too, are those that were confirmed
