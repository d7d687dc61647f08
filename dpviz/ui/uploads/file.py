"""How an uploaded text file was read: shown, asked about where the file leaves it open, and changeable."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from dpviz.datasets import Reading
from dpviz.datasets.reading import SEPARATORS
from dpviz.specification import sentences

NAMES = ("separator", "decimal", "header", "missing")  # of the widgets; a new file resets them
_SEPARATORS = {",": "Comma", ";": "Semicolon", "\t": "Tab", "|": "Vertical bar"}
_DECIMALS = {".": "Point: 1.234 is 1.234, and 1,234 is 1234", ",": "Comma: 1,234 is 1.234, and 1.234 is 1234"}


def how_it_was_read(
    page: str, reading: Reading, questions: tuple[str, ...], again: Callable[..., None], args: tuple[Any, ...]
) -> None:
    """The panel; `again(*args)` is called when a setting was changed. It opens by itself where there is a question."""
    with st.expander("How the file was read", expanded=bool(questions), icon=":material/table_view:"):
        for question in questions:
            st.info(question)
        left, right = st.columns(2)
        left.selectbox(
            "Separator of cells",
            SEPARATORS,
            index=SEPARATORS.index(reading.separator),
            format_func=_SEPARATORS.__getitem__,
            key=f"{page}_upload_separator",
            persist_state="session",
            on_change=again,
            args=args,
        )
        right.selectbox(
            "Decimal mark",
            list(_DECIMALS),
            index=list(_DECIMALS).index(reading.decimal),
            format_func=_DECIMALS.__getitem__,
            key=f"{page}_upload_decimal",
            persist_state="session",
            on_change=again,
            args=args,
            help="It decides where a number could be read in two ways. 1.234,50 and 1,234.50 are read as they are.",
        )
        left.selectbox(
            "The first row",
            [True, False],
            index=int(not reading.header),
            format_func=lambda header: "names the columns" if header else "is data",
            key=f"{page}_upload_header",
            persist_state="session",
            on_change=again,
            args=args,
        )
        right.text_input(
            "Missing values",
            ", ".join(reading.missing),
            key=f"{page}_upload_missing",
            persist_state="session",
            on_change=again,
            args=args,
            help="Texts, separated by commas, that stand where a value is missing. Empty cells always do.",
        )


def chosen_reading(page: str, before: Reading) -> Reading:
    """The settings of the panel, with the sample of the reading before. Raises UserError."""
    found = {name: st.session_state.get(f"{page}_upload_{name}") for name in NAMES}
    marks = tuple(mark.strip() for mark in str(found.pop("missing") or "").split(",") if mark.strip())
    with sentences(Reading):
        return before.replaced(missing=marks, **found)
