"""Texts of files, links and visitors, escaped so that Markdown shows them literally; and tables."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dpviz.exports.spreadsheets import as_text, neutral

NONE: Mapping[str, Any] = {}
_HARMLESS = r"[+-][\w ]+|-[\d.]+ ± [\d.]+"


def columns(declared: Mapping[str, Mapping[str, Any]], **more: Mapping[str, Any]) -> dict[str, Any]:
    """Return Streamlit's configuration of a table's columns, declared in a page's data.

    declared : by column, its kind ("Number" or another one that Streamlit has) and options.
    more : options that are known only now, by column.
    """
    all_options = {name: dict(options) | dict(more.get(name, {})) for name, options in declared.items()}
    return {
        name: getattr(st.column_config, f"{options.pop('kind')}Column")(**options)
        for name, options in all_options.items()
    }


def show_table(
    table: Any,
    alt: str,
    *,
    column_config: Mapping[str, Any] = NONE,
    help: Mapping[str, str] = NONE,
    placeholder: str | None = None,
    index: bool = False,
    style: Callable[[pd.DataFrame], Any] = lambda frame: frame,
) -> None:
    """Draw a table, given as any argument of `DataFrame`, with a text alternative.

    help : meaning of columns without a configuration. index : whether the index is drawn. style : formats the cells.
    """
    helps = {name: st.column_config.Column(help=text) for name, text in help.items()}
    configs = {_safe(name): config for name, config in (helps | dict(column_config)).items()}
    options: Any = {} if placeholder is None else {"placeholder": placeholder}
    frame = style(neutral(pd.DataFrame(table), _safe))
    st.dataframe(frame, hide_index=not index, column_config=configs, alt=alt, **options)


def _safe(value: Any) -> Any:
    """Return a cell as `as_text` does, but unchanged if it is a name with a sign or a number with its margin: our
    own tables have these, and no spreadsheet runs them."""
    return value if isinstance(value, str) and re.fullmatch(_HARMLESS, value) else as_text(value)


_ADDRESSES = re.compile(r"(?<=\w)(?=\.[^\W\d])|(?<=//)(?=\d)")  # the first dot of a host, or its first number
_LINKED = re.compile(r"www\.|@|//", re.IGNORECASE)  # a text without any of these has no link
_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")  # a backslash before any other character would be visible
_MARKS = re.compile(r"([\\`*_\[\]<>$~#|!]|:(?=\S))")
_JOINER = "\u2060"  # has no width


def plain(text: str) -> str:
    """Return a name in Markdown: without emphasis, formula, picture, emoji or link."""
    return _SIGNS.sub(r"\\\1", _unlinked(text))


def sentence(text: str) -> str:
    """Return a sentence in Markdown; in it quotes, and colons before a blank, need no escape."""
    return _MARKS.sub(r"\\\1", _unlinked(text))


def _unlinked(text: str) -> str:
    """Return a text on one line, without anything that becomes a link by itself, escaped or not."""
    text = " ".join(text.split())
    return _ADDRESSES.sub(_JOINER, text) if _LINKED.search(text) else text
