"""How a visitor's text file is read: proposed from the file, confirmed by one click, and declared from then on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import Detected, Reading
from dpviz.errors import UserError
from dpviz.exports.spreadsheets import as_text
from dpviz.specification import sentences
from dpviz.ui.markdown import columns, plain
from dpviz.ui.uploads import texts

NAMES = ("separator", "decimal", "header", "missing", "rows", "above")  # of the settings; a new file resets them
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
_CONFIRMED = "confirmed_readings"  # of this session, by the file's name and its columns

Callbacks = tuple[Callable[..., None], Callable[..., None]]


def propose(
    page: str,
    name: str,
    detected: Detected,
    editor: Callable[..., pd.DataFrame] | None,
    *,
    callbacks: Callbacks,
    args: tuple[Any, ...],
) -> None:
    """Draw the panel that asks how a file is read, until the visitor confirms it.

    editor : draws a table to fill in; None where no cell may be shown.
    callbacks : called with `args`, the first when a setting has changed, the second when all are confirmed.
    """
    with st.container(border=True):
        st.markdown(f"**How is {plain(name)} read?** This is a guess, made from the file. Change what is wrong.")
        st.badge("from the data, not private", icon=":material/visibility:", color="orange")
        for question in detected.questions:
            st.info(question)
        if detected.ids and editor is not None:
            st.info(texts.IDS.format(names=", ".join(map(plain, detected.ids))))
        _controls(page, detected.reading, {"persist_state": "session", "on_change": callbacks[0], "args": args})
        if editor is not None:
            _columns(page, detected, editor)
        st.caption(texts.UNCONFIRMED)
        st.button(
            CONFIRM,
            key=f"{page}_upload_confirm",
            type="primary",
            icon=":material/check:",
            on_click=callbacks[1],
            args=args,
        )


def _controls(page: str, reading: Reading, options: dict[str, Any]) -> None:
    left, right = st.columns(2)
    choices: tuple[tuple[DeltaGenerator, str, dict[Any, str]], ...] = (
        (left, "separator", _SEPARATORS),
        (right, "decimal", _DECIMALS),
        (left, "header", _HEADERS),
        (left, "rows", _ROWS),
    )
    for column, name, labels in choices:
        index = [*labels].index(getattr(reading, name))
        shared = {"key": f"{page}_upload_{name}", **texts.WIDGETS[name], **options}
        column.selectbox(options=[*labels], index=index, format_func=labels.__getitem__, **shared)
    shared, key = {**texts.WIDGETS["missing"], **options}, f"{page}_upload_missing"
    right.text_input(value=", ".join(reading.missing), key=key, **shared)
    shared, key = {**texts.WIDGETS["above"], **options}, f"{page}_upload_above"
    right.number_input(value=reading.above, key=key, help=texts.ABOVE_HELP.format(below=reading.below or 0), **shared)


def _columns(page: str, detected: Detected, editor: Callable[..., pd.DataFrame]) -> None:
    """Draw the columns, what they hold, and their first cells as they would be read."""
    kinds = detected.reading.kinds
    edited = editor(
        "kinds",
        detected.names,
        lambda: pd.DataFrame(
            {
                "column": [as_text(name) for name in detected.names[: len(kinds)]],
                "holds": [
                    _KINDS["unused" if name in detected.ids else kind]
                    for name, kind in zip(detected.names, kinds, strict=False)
                ],
                "cells": [as_text("  ·  ".join(cells)) for cells in detected.cells[: len(kinds)]],
            }
        ),
        hide_index=True,
        column_config=columns(texts.TABLES["kinds"], holds={"options": [*_KINDS.values()]}),
        height=min(320, 38 + 35 * max(1, len(kinds))),
        alt="The columns of the file, what they hold, and their first cells as they would be read",
    )
    labels = {label: kind for kind, label in _KINDS.items()}
    st.session_state[f"{page}_upload_kinds"] = tuple(labels[label] for label in edited["holds"])


def declared(
    page: str,
    reading: Reading,
    used: Sequence[str],
    *,
    is_repeated: bool,
    change: Callable[..., None],
    args: tuple[Any, ...],
) -> None:
    """Draw the panel that says how a file is read, as confirmed; `change(*args)` asks again.

    used : names of the columns in use. is_repeated : whether the reading was confirmed for an earlier file.
    """
    if is_repeated:
        st.caption(AGAIN)
    with st.expander("How the file is read", icon=":material/table_view:"):
        st.markdown(_describe(reading, used))
        st.button("Change it", key=f"{page}_upload_change", on_click=change, args=args)


def _describe(reading: Reading, used: Sequence[str]) -> str:
    separator, decimal = _SEPARATORS[reading.separator].lower(), {".": "point", ",": "comma"}[reading.decimal]
    lines = [
        f"- Cells are separated by: {separator}. Decimal mark: {decimal}. The first row {_HEADERS[reading.header]}.",
        f"- A row is: {_ROWS[reading.rows][0].lower()}{_ROWS[reading.rows][1:]}.",
        f"- Missing: empty cells, {', '.join(map(plain, reading.missing))}.".replace(", .", "."),
    ]
    kinds = [kind for kind in reading.kinds if kind != "unused"]
    for kind in ("number", "text"):
        names = [plain(as_text(name)) for name, column_kind in zip(used, kinds, strict=False) if column_kind == kind]
        listed = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
        lines += [f"- {_KINDS[kind]}: {listed}."] if names else []
    if left_out := reading.kinds.count("unused"):
        lines.append(f"- Left out: {left_out} column{'s' if left_out > 1 else ''}.")
    return "\n".join(lines)


def selected(page: str, old: Reading, asks_kinds: bool = True) -> Reading:
    """Return the reading that the panel's settings declare, with the sample of the `old` reading. Raises UserError.

    asks_kinds : whether the panel asks what the columns hold; otherwise each may hold anything.
    """
    settings = {name: st.session_state.get(f"{page}_upload_{name}") for name in NAMES}
    marks = tuple(mark.strip() for mark in str(settings.pop("missing") or "").split(",") if mark.strip())
    any_kinds = ("text",) * len(old.kinds)
    kinds = st.session_state.get(f"{page}_upload_kinds", old.kinds) if asks_kinds else any_kinds
    with sentences(Reading):
        return old.replaced(missing=marks, kinds=kinds, **settings)


def forget(page: str) -> None:
    """Forget the panel's settings: another file was chosen."""
    for name in (*NAMES, "kinds"):
        st.session_state.pop(f"{page}_upload_{name}", None)


def keep(name: str, reading: Reading, columns: tuple[str, ...]) -> None:
    """Remember in this session how a file is read."""
    st.session_state.setdefault(_CONFIRMED, {})[name] = (reading, columns)


def detect_confirmed(name: str, detect: Callable[[Reading], Detected]) -> Detected | None:
    """Return the file by the reading confirmed for its name in this session; None unless `detect` finds the same
    columns by it, and as many lines to leave out at the end."""
    reading, columns = st.session_state.get(_CONFIRMED, {}).get(name, (None, ()))
    try:
        detected = None if reading is None else detect(reading)
    except UserError:
        return None
    # Without a line break at the end, the last line that was left out would be a row.
    if detected is None or detected.names != columns or detected.reading.below != reading.below:
        return None
    return replace(detected, reading=reading)
