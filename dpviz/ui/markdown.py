"""Texts of files, links and visitors in Markdown, in which they are what they say and nothing else."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import streamlit as st

from dpviz.exports.spreadsheets import as_text, neutral

NONE: Mapping[str, Any] = {}
_OWN = r"[+-][\w ]+|-[\d.]+ ± [\d.]+"


def columns(declared: Mapping[str, Mapping[str, Any]], **more: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a table, of a page's data: of each its kind, "Number" or another one that Streamlit has, and options.

    more : options of columns that are known only now.
    """
    every = {name: dict(options) | dict(more.get(name, {})) for name, options in declared.items()}
    return {
        name: getattr(st.column_config, f"{options.pop('kind')}Column")(**options) for name, options in every.items()
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
    """Draw a table, of whatever `DataFrame` takes, with a text alternative.

    help : what columns without a configuration mean. index : whether its index is shown. style : how its cells are
    written.
    """
    meanings = {name: st.column_config.Column(help=words) for name, words in help.items()}
    named = {_shown(name): config for name, config in (meanings | dict(column_config)).items()}
    options: Any = {} if placeholder is None else {"placeholder": placeholder}
    frame = style(neutral(pd.DataFrame(table), _shown))
    st.dataframe(frame, hide_index=not index, column_config=named, alt=alt, **options)


def _shown(value: Any) -> Any:
    """A cell as `as_text` makes it, but a name with a sign and a number with its margin, which our own tables have, as
    they are: they call nothing."""
    return value if isinstance(value, str) and re.fullmatch(_OWN, value) else as_text(value)


_ADDRESSES = re.compile(r"(?<=\w)(?=\.[^\W\d])|(?<=//)(?=\d)")  # the first dot of a host, or its first number
_LINKED = re.compile(r"www\.|@|//", re.IGNORECASE)  # without any of these nothing becomes a link
_SIGNS = re.compile(r"([!-/:-@\[-`{-~])")  # before any other letter a backslash would be seen
_MARKS = re.compile(r"([\\`*_\[\]<>$~#|!]|:(?=\S))")
_JOINER = "\u2060"  # has no width


def plain(text: str) -> str:
    """A name as it is: no emphasis, formula, picture, emoji or link."""
    return _SIGNS.sub(r"\\\1", _unlinked(text))


def sentence(text: str) -> str:
    """The same for a sentence, in which quotes, and colons before a blank, mean nothing."""
    return _MARKS.sub(r"\\\1", _unlinked(text))


def _unlinked(text: str) -> str:
    """Without what becomes a link by itself, escaped or not; on one line."""
    text = " ".join(text.split())
    return _ADDRESSES.sub(_JOINER, text) if _LINKED.search(text) else text
