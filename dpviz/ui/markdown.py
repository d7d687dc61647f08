"""Texts of files, links and visitors, escaped so that Markdown shows them literally; and tables, made safe likewise.

Cells of a table are also made safe for a spreadsheet: Streamlit offers each table as CSV, and a text that begins like a
formula would be run.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dpviz.exports.spreadsheets import safe_cell, without_formula_cells

NONE: Mapping[str, Any] = {}
_HARMLESS = r"[+-][\w ]+|-[\d.]+ ± [\d.]+"  # texts that begin like a formula, and that no spreadsheet runs


def column_configs(declared: Mapping[str, Mapping[str, Any]], **more: Mapping[str, Any]) -> dict[str, Any]:
    """Return Streamlit's configuration of a table's columns from declarations in TOML.

    declared : by column, its options, and under "kind" the beginning of the name of Streamlit's class, such as "Number"
    for `NumberColumn`. more : further options, by column.
    """
    configuration = {}
    for name, declared_options in declared.items():
        options = {**declared_options, **more.get(name, {})}
        column_class = getattr(st.column_config, f"{options.pop('kind')}Column")
        configuration[name] = column_class(**options)
    return configuration


def editor_height(rows: int) -> int:
    """Return the height of a table to edit, in pixels: of Streamlit's header and rows, at most 320; then it scrolls."""
    return min(320, 38 + 35 * max(1, rows))


def show_table(
    table: Any,
    alt: str,
    *,
    column_config: Mapping[str, Any] = NONE,
    help: Mapping[str, str] = NONE,
    placeholder: str = "–",
    index: bool = False,
    style: Callable[[pd.DataFrame], Any] = lambda frame: frame,
) -> None:
    """Draw a table, whose texts do nothing in a spreadsheet.

    table : any argument of `pandas.DataFrame`. alt : text alternative. column_config : Streamlit's configuration, by
    column. help : texts that explain columns without a configuration, by column. placeholder : text in empty cells.
    index : true to draw the index. style : formats the cells.
    """
    all_configs = {name: st.column_config.Column(help=text) for name, text in help.items()} | dict(column_config)
    # By the names that `without_formula_cells` gives the columns.
    safe_configs = {_safe(name): config for name, config in all_configs.items()}
    frame = style(without_formula_cells(pd.DataFrame(table), _safe))
    st.dataframe(frame, hide_index=not index, column_config=safe_configs, alt=alt, placeholder=placeholder)


def _safe(value: Any) -> Any:
    """Return a cell in a form that a spreadsheet does not run as a formula.

    A name with a sign, and a number with its margin, stay as they are: our own tables have these.
    """
    is_harmless = isinstance(value, str) and re.fullmatch(_HARMLESS, value)
    return value if is_harmless else safe_cell(value)


_ADDRESS_GAPS = re.compile(r"(?<=\w)(?=\.[^\W\d])|(?<=//)(?=\d)")  # places in an address: before a dot or a first digit
_LINKED = re.compile(r"www\.|@|//", re.IGNORECASE)  # a text without any of these has no link
_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")  # all signs of ASCII: a backslash before any other character would be visible
_MARKS = re.compile(r"([\\`*_\[\]<>$~#|!]|:(?=\S))")  # the signs that mean something within a sentence
_JOINER = "\u2060"  # a character without width, which makes an address one no longer


def escape_name(text: str) -> str:
    """Return Markdown that shows a name literally: without emphasis, formula, picture, emoji or link."""
    return _SIGNS.sub(r"\\\1", _unlinked(text))


def escape_sentence(text: str) -> str:
    """Return Markdown that shows a sentence literally, with fewer escapes than `escape_name` needs for a name.

    Quotes, full stops, and colons before a blank mean nothing there.
    """
    return _MARKS.sub(r"\\\1", _unlinked(text))


def _unlinked(text: str) -> str:
    """Return a text on one line, in which no address becomes a link by itself; escapes would not prevent that."""
    text = " ".join(text.split())
    return _ADDRESS_GAPS.sub(_JOINER, text) if _LINKED.search(text) else text
