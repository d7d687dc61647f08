"""The panel for a visitor's own file as a categorical table: which columns to use, and the categories of each.

The categories are declared by the visitor, in the text of a list. They can be filled in from the data, which no budget
accounts for; the data set then carries a mark that says so.
"""

import csv
import io
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets import CategoricalUpload, PreparedCategories, prepare_categories, suggest_categories
from dpviz.datasets.categories import MAX_DOMAIN
from dpviz.datasets.uploads.limits import quote_name
from dpviz.datasets.uploads.parsing import OTHER, Bins, Declared, class_label
from dpviz.datasets.uploads.upload import Mark
from dpviz.errors import UserError
from dpviz.ui.controls import draw_errors
from dpviz.ui.markdown import column_configs, editor_height
from dpviz.ui.uploads import TABLES, file, texts
from dpviz.ui.uploads.file import File

BINS = "bins:"  # beginning of a list of numbers, the edges of ranges that are the categories
_MAX_NAMED = 8  # columns in the sentence about rows that went to "other"


@dataclass
class CategoricalFile(File):
    """A file with the names of the columns that the visitor uses."""

    used: set[str] = field(default_factory=set)


def choose_upload(page: str) -> tuple[CategoricalUpload | None, Mapping[str, np.ndarray]]:
    """Draw the panel for a visitor's categorical file; return the data set, and its arrays by name.

    The data set is None while something is missing. page : prefix of the page.
    """
    return file.choose_upload(f"{page}_categories", CategoricalFile, _choose)


def _choose(upload: CategoricalFile) -> PreparedCategories:
    """Draw the controls for the columns in use and their categories; return the prepared table.

    Raises UserError while something is missing or cannot be read.
    """
    people = file.choose_people(upload)
    names = [column.name for column in upload.columns if column.name != people.person]
    is_used = pd.Series([name in upload.used for name in names], dtype=bool)
    edited = _edit(upload, names, rows=people.person, used=is_used)  # another person changes the rows
    upload.used = {name for name, used in zip(names, edited["used"], strict=True) if used}
    help = "Lists for the columns in use that have none; if none is in use, for as many as fit."
    file.fill_button(upload, _fill, (upload, upload.used), help)
    declared = _parse(upload, [name for name in names if name in upload.used])
    _mark(upload, declared)
    if declared:  # the domain Z holds all combinations of the categories
        combinations = math.prod(_size(categories) for categories in declared.values())
        # A longer number would be hard to read: then the power of ten at or below it.
        count = f"{combinations:,}" if combinations < 10**9 else f"about 10^{len(str(combinations)) - 1}"
        st.caption(f"|Z| = {count} combinations of categories so far, of at most {MAX_DOMAIN:,}.")
    _require_all(declared, upload.used)
    prepared = upload.prepare_once(prepare_categories, columns=declared, **people._asdict())
    # No row is dropped: a cell that is empty or not listed becomes "other".
    file.show_ready(upload, len(prepared.table), dropped=0, contents=f"{len(declared)} columns")
    # Of the columns with such cells, those with the most are named.
    largest = sorted(prepared.unlisted.items(), key=lambda item: -item[1])[:_MAX_NAMED]
    unlisted = ", ".join(f"{count:,} in {quote_name(name)}" for name, count in largest if count)
    file.show_counts([*prepared.notes, f"rows that went to “{OTHER}”: {unlisted or 'none'}"])
    return prepared


def declare(upload: File, columns: Sequence[str]) -> dict[str, Declared]:
    """Draw a table in which the visitor types the categories of each of `columns`; return the categories by column.

    Raises UserError if those of a column cannot be read.
    """
    _edit(upload, columns, rows=tuple(columns))
    help = "The most frequent categories, or ranges, of columns that have no list yet."
    file.fill_button(upload, _fill, (upload, set(columns)), help, name="fill_lists")
    declared = _parse(upload, columns)
    _mark(upload, declared)
    _require_all(declared, columns)
    return declared


def use(upload: File, columns: Sequence[str]) -> None:
    """Use those of `columns` that have few enough categories, and fill in their lists from the data; for callbacks."""
    suggested = suggest_categories(upload.frame).keys()
    names = [name for name in columns if name in suggested]
    st.session_state[f"{upload.page}_upload_lists"] = names  # the control that chooses them, in `table`
    _fill(upload, set(names))


def _edit(upload: File, names: Sequence[str], rows: Hashable, used: pd.Series | None = None) -> pd.DataFrame:
    """Draw a table with a row for each column of the file, in which the visitor types its categories.

    Return the table as edited. The texts of the categories are also stored in `upload.lists`.

    names : of the columns. rows : identifies the table; another value starts a new one. used : whether each column is
    in use at first, for a table that asks this too; None for one that does not.
    """
    st.markdown(texts.CATEGORIES)

    def start() -> pd.DataFrame:
        lists = pd.DataFrame({"categories": [upload.lists.get(name, "") for name in names]}, dtype=str)
        if used is not None:
            lists.insert(0, "used", used)
        return lists.set_index(pd.Index(names, name="column"))

    edited = upload.editor(
        "lists",
        rows=rows,
        start=start,
        column_config=column_configs(TABLES["lists"]),
        height=editor_height(len(names)),
        alt="Columns to use, and the categories that you declare for each",
    )
    typed = ("" if pd.isna(text) else str(text) for text in edited["categories"])
    upload.lists |= dict(zip(names, typed, strict=True))
    st.caption(texts.HOW_TO_LIST)
    return edited


def _parse(upload: File, names: Sequence[str]) -> dict[str, Declared]:
    """Return the categories that were typed for the columns `names`, by column.

    A column whose text cannot be read is left out, and the mistake is drawn.
    """
    declared: dict[str, Declared] = {}
    for name in names:
        with draw_errors():  # a mistake in one column must hide none in another
            declared[name] = parse_categories(name, upload.lists[name])
    return declared


def _require_all(declared: Collection[str], used: Collection[str]) -> None:
    """Raise UserError if one of the columns `used` is not among the columns with readable categories, `declared`."""
    # The columns in `declared` are among those used, so it is enough to count them.
    if len(declared) < len(used):
        raise UserError("Correct them, or leave the columns out.", title="Some categories cannot be read")


def parse_categories(name: str, text: str) -> Declared:
    """Return the categories that a text lists.

    The text is "a, b, c", with quotes as in CSV, or "bins: 0, 10, 20" for the ranges between these edges.

    name : of the column, for the errors. Raises UserError if the text cannot be read.
    """
    is_bins = text.strip().lower().startswith(BINS)
    listed = text.strip()[len(BINS) :] if is_bins else text
    try:
        rows = csv.reader(io.StringIO(listed), skipinitialspace=True, strict=True)
        parts = [part.strip() for row in rows for part in row]
        return Bins(tuple(float(part) for part in parts)) if is_bins else tuple(parts)
    except csv.Error:
        title = f"The categories of column {quote_name(name)} cannot be read"
        raise UserError('Separate them by commas; close every " that opens.', title=title) from None
    except ValueError:
        title = f"The edges of column {quote_name(name)} are no numbers"
        raise UserError("Write them like this: bins: 0, 10, 20.", title=title) from None


def categories_text(declared: Declared) -> str:
    """Return the text that `parse_categories` reads as these categories."""
    if isinstance(declared, Bins):
        return f"{BINS} {', '.join(map(class_label, declared.edges))}"
    return ", ".join(map(_quoted, declared))


def _quoted(text: str) -> str:
    """Return a category in quotes if it would else be read as several, or as the beginning of a list of edges."""
    special = any(character in text for character in ',"\r\n') or text.lower().startswith(BINS)
    return '"{}"'.format(text.replace('"', '""')) if special else text


def _mark(upload: File, declared: Mapping[str, Declared]) -> None:
    """Mark the columns of which at least one category or edge was filled in from the data.

    declared : the categories by column.
    """
    parts: dict[Mark, set[str]] = {("categories", name): _parts(categories) for name, categories in declared.items()}
    file.mark_from_data(upload, parts, nouns={"categories": "categories"})


def _parts(declared: Declared) -> set[str]:
    """Return the categories, or the edges, of a column as texts, without "other".

    Edges become texts like categories that are numbers, so that a list from the data that a visitor turns into edges
    still counts as taken from the data.
    """
    return set(map(class_label, declared.edges if isinstance(declared, Bins) else declared)) - {OTHER}


def _size(declared: Declared) -> int:
    """Return the number of categories of a column, "other" included."""
    if not isinstance(declared, Bins):
        return len({*declared, OTHER})
    labels = declared.labels if declared.edges else ()  # without edges there are no labels to compute
    return len({*labels, OTHER})


def _fill(upload: File, used: set[str]) -> None:
    """Fill in the lists of the columns `used` that have none, from the data; for callbacks.

    If no column of a categorical file is in use, as many as fit into the domain are put to use.
    """
    suggested = suggest_categories(upload.frame)
    if not used and isinstance(upload, CategoricalFile):
        upload.used = used = set()  # both names are the same set, filled below
        combinations = 1
        for name, declared in suggested.items():
            if combinations * _size(declared) <= MAX_DOMAIN:
                used.add(name)
                combinations *= _size(declared)
    for name in used & suggested.keys():
        if not upload.lists.get(name, "").strip():
            upload.lists[name] = categories_text(suggested[name])
            upload.note_from_data(("categories", name), _parts(suggested[name]))
