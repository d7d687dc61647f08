"""A user's own file as a categorical table: which columns to keep, and the categories declared for each."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import CategoricalUpload, PreparedCategories, prepare_categories, suggest_categories
from dpviz.datasets.categories import MAX_DOMAIN
from dpviz.datasets.cells import class_label
from dpviz.datasets.files import shown
from dpviz.datasets.lists import OTHER, Bins, Declared
from dpviz.errors import UserError
from dpviz.ui.controls import in_place
from dpviz.ui.uploads import table as data_panel

BINS = "bins:"  # what a list of edges starts with


@dataclass
class CategoricalFile(data_panel.Upload):
    """A file, with what was declared of its columns so far: whether each is used, and its categories as typed."""

    declared: dict[str, tuple[bool, str]] = field(default_factory=dict)


def uploaded(page: str) -> tuple[CategoricalUpload | None, dict[str, np.ndarray]]:
    """The panel for a user's categorical file; the data set and its table, or None as long as something is missing."""
    file = data_panel.chosen_file(_prefix(page), CategoricalFile)
    if file is not None:
        with in_place():
            prepared = _chosen(file)
            return prepared.specification, {prepared.specification.identity: prepared.table}
    return None, {}


def from_data(page: str) -> tuple[str, ...]:
    """See `data_panel.from_data`."""
    return data_panel.from_data(_prefix(page))


def _prefix(page: str) -> str:
    return f"{page}_categories"


def _chosen(file: CategoricalFile) -> PreparedCategories:
    """The table that the user's choices make. Raises UserError."""
    used = _declare_categories(file)
    declared: dict[str, Declared] = {}
    for name, text in used.items():
        with in_place():  # a mistake in one column must hide none in another
            declared[name] = parse_categories(name, text)
    if declared:
        combinations = math.prod(_size(categories) for categories in declared.values())
        count = f"{combinations:,}" if combinations < 10**9 else f"about 10^{len(str(combinations)) - 1}"
        st.caption(f"|Z| = {count} combinations of categories so far, of at most {MAX_DOMAIN:,}.")
    if len(declared) < len(used):
        raise UserError("Correct them, or leave the columns out.", title="Some categories cannot be read")
    choice = tuple(declared.items())
    prepared = file.once(choice, lambda name: prepare_categories(file.frame, declared, name, file.reading))
    data_panel.ready(len(prepared.table), 0, f"{len(declared)} columns")
    most = sorted(prepared.unlisted.items(), key=lambda item: -item[1])[:8]
    unlisted = ", ".join(f"{count:,} in {shown(name)}" for name, count in most if count)
    data_panel.counted([f"rows that went to “{OTHER}”: {unlisted or 'none'}"])
    return prepared


def _declare_categories(file: CategoricalFile) -> dict[str, str]:
    """The columns that are used and their categories as typed, from a table to fill in."""
    st.markdown("**Declared categories of each column.** Whatever is not listed, and what is missing, becomes “other”.")
    names = [column.name for column in file.columns]
    edited = file.editor(
        "lists",
        (),
        lambda: pd.DataFrame(
            [file.declared.get(name, (False, "")) for name in names],
            columns=["used", "categories"],
            index=pd.Index(names, name="column"),
        ).astype({"used": bool, "categories": str}),
        column_config={
            "column": st.column_config.TextColumn("Column", disabled=True),
            "used": st.column_config.CheckboxColumn("Use", width="small"),
            "categories": st.column_config.TextColumn(
                "Categories, or edges of bins",
                help='Separated by commas: "city, town, country". Edges of a numeric column: "bins: 0, 10, 20". '
                "Declare what you know, not what you see.",
                width="large",
            ),
        },
        height=min(320, 38 + 35 * len(names)),
        alt="Columns to use, and the categories that you declare for each",
    )
    file.declared = {
        name: (bool(used), "" if pd.isna(text) else str(text))
        for name, used, text in zip(names, edited["used"], edited["categories"], strict=True)
    }
    st.caption('Separate categories by commas; write "New York, NY" in quotes. For numbers, write bins: 0, 10, 20.')
    st.button(
        data_panel.FILL,
        key=f"{file.page}_upload_fill",
        on_click=_fill,
        args=(file,),
        help="Lists for the columns in use that have none; if none is in use, for as many as fit. "
        "They reveal something that no budget accounts for.",
    )
    if file.filled:
        data_panel.taken_from_data(file, "categories")
    return {name: text for name, (used, text) in file.declared.items() if used}


def parse_categories(name: str, text: str) -> Declared:
    """The declared categories of a column as typed: "a, b, c", quoted like CSV, or "bins: 0, 10". Raises UserError."""
    is_bins = text.strip().lower().startswith(BINS)
    try:
        rows = csv.reader(
            io.StringIO(text.strip()[len(BINS) :] if is_bins else text), skipinitialspace=True, strict=True
        )
        parts = [part.strip() for row in rows for part in row]
        return Bins(tuple(float(part) for part in parts)) if is_bins else tuple(parts)
    except csv.Error:
        title = f"The categories of column {shown(name)} cannot be read"
        raise UserError('Separate them by commas; close every " that opens.', title=title) from None
    except ValueError:
        title = f"The edges of column {shown(name)} are no numbers"
        raise UserError("Write them like this: bins: 0, 10, 20.", title=title) from None


def categories_text(declared: Declared) -> str:
    """Declared categories as `parse_categories` reads them."""
    if isinstance(declared, Bins):
        return f"{BINS} {', '.join(map(class_label, declared.edges))}"
    return ", ".join(map(_quoted, declared))


def _quoted(text: str) -> str:
    special = any(character in text for character in ',"\r\n') or text.lower().startswith(BINS)
    return '"{}"'.format(text.replace('"', '""')) if special else text


def _size(declared: Declared) -> int:
    """Categories of a column, "other" included."""
    listed = declared if not isinstance(declared, Bins) else declared.labels if declared.edges else ()
    return len({*listed, OTHER})


def _fill(file: CategoricalFile) -> None:
    suggested = suggest_categories(file.frame)
    if not any(used for used, _ in file.declared.values()):
        for name in _fitting(suggested):
            file.declared[name] = (True, file.declared[name][1])
    for name, (used, text) in file.declared.items():
        if used and not text.strip() and name in suggested:
            file.declared[name] = (used, categories_text(suggested[name]))
    file.filled, file.edition = True, file.edition + 1


def _fitting(suggested: Mapping[str, Declared]) -> list[str]:
    """As many columns as the domain can hold, in the file's order."""
    names, combinations = [], 1
    for name, declared in suggested.items():
        if combinations * _size(declared) <= MAX_DOMAIN:
            names.append(name)
            combinations *= _size(declared)
    return names
