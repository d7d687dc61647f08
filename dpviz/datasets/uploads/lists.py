"""Columns of a user's file as declared categories: lists of texts, or numbers cut into ranges.

The lists are declared, never read from the rows. Whatever is not listed, and what is missing, becomes "other".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field

from dpviz.datasets.uploads.limits import MAX_NAME, shown
from dpviz.datasets.uploads.parsing import class_label, classes, numbers
from dpviz.errors import NotYet, UserError
from dpviz.later import pd

MAX_CATEGORIES = 1_000  # of one column; more could hardly be told apart through the noise
OTHER = "other"
Text = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Categories = Annotated[tuple[Text, ...], Field(min_length=2, max_length=MAX_CATEGORIES + 1)]
Lists = tuple[tuple[Text, Categories], ...]  # column, its categories
Edges = tuple[tuple[Text, tuple[float, ...]], ...]  # column that is cut into ranges, where


@dataclass(frozen=True)
class Bins:
    """Categories of a numeric column by edges e₁ < e₂ < …: below e₁, from e₁ to below e₂, …, from the last on."""

    edges: tuple[float, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The len(edges) + 1 categories."""
        texts = [class_label(float(edge)) for edge in self.edges]
        between = (f"{low} to below {high}" for low, high in pairwise(texts))
        return (f"below {texts[0]}", *between, f"{texts[-1]} or more")


Declared = Sequence[str] | Bins


def declared_lists(columns: Mapping[str, Declared]) -> tuple[Lists, Edges]:
    """The categories of every column, the last of them "other", and the edges of those that are cut into ranges.

    Numbers are compared as such: 1.0 is "1". Raises UserError for a list or edges that cannot be used.
    """
    lists = tuple((name, (*_listed(name, declared), OTHER)) for name, declared in columns.items())
    return lists, tuple((name, cut.edges) for name, cut in columns.items() if isinstance(cut, Bins))


def check_lists(columns: Lists, edges: Edges) -> None:
    """Raise ValueError unless every column is there once with different categories, one for each range and the rest."""
    lists = dict(columns)
    if len(lists) < len(columns):
        raise ValueError("every column must have its own name")
    for name, categories in columns:
        if len(set(categories)) < len(categories):
            raise ValueError(f"column {shown(name)} lists a category twice")
    if any(len(lists.get(name, ())) != len(cut) + 2 for name, cut in edges):
        raise ValueError("edges need a column with a category for each range, and one for the rest")


def list_codes(frame: "pd.DataFrame", columns: Lists, edges: Edges) -> np.ndarray:
    """The place (n, columns) of every cell in its column's list, by declarations alone; int16, read-only."""
    cuts = dict(edges)
    codes = np.empty((len(frame), len(columns)), dtype=np.int16)
    for position, (name, categories) in enumerate(columns):
        cut = cuts.get(name)
        codes[:, position] = _listed_codes(frame[name], categories) if cut is None else _ranges(frame[name], cut)
    codes.flags.writeable = False
    return codes


def unlisted(codes: np.ndarray, columns: Lists) -> dict[str, int]:
    """How many rows of every column are "other", in codes (n, columns). Not private."""
    last = [len(categories) - 1 for _, categories in columns]
    return dict(zip((name for name, _ in columns), (codes == last).sum(axis=0).tolist(), strict=True))


def _listed(name: str, declared: Declared) -> tuple[str, ...]:
    """The declared categories without "other". Raises UserError if they cannot be used."""
    if isinstance(declared, Bins):
        edges = declared.edges
        increasing = all(low < high for low, high in pairwise(edges))
        if not edges or not all(math.isfinite(edge) for edge in edges) or not increasing:
            raise UserError(
                "Give at least one number, each larger than the one before.",
                title=f"The edges of column {shown(name)} do not increase",
            )
        categories = declared.labels
    else:
        categories = tuple(text for text in (text.strip() for text in declared) if text != OTHER)
    title = f"The categories of column {shown(name)} cannot be used"
    if not categories or "" in categories:
        raise (UserError if categories else NotYet)("List at least one category, and none that is empty.", title=title)
    if len(categories) > MAX_CATEGORIES:
        count = len(categories)
        raise UserError(
            f"They are {count:,}, at most {MAX_CATEGORIES:,} are possible. List the frequent ones; the rest becomes "
            '"other". Of a numeric column, use ranges.',
            title=f"The categories of column {shown(name)} cannot be used",
        )
    if any(len(text) > MAX_NAME for text in categories):
        raise UserError(f"A category may have at most {MAX_NAME} characters. Leave out longer texts.", title=title)
    labels = [class_label(text) for text in categories]  # 1 and 1.0 are the same
    repeated = next((text for position, text in enumerate(categories) if labels[position] in labels[:position]), None)
    if repeated is not None:
        raise UserError(f"{shown(repeated)} is listed twice. List every category once.", title=title)
    return categories


def _listed_codes(series: "pd.Series", categories: Sequence[str]) -> np.ndarray:
    """The place (n,) of every cell in the list, whose last category takes what is missing or not listed."""
    codes, labels = classes(series)
    other = len(categories) - 1
    place = {class_label(text): position for position, text in enumerate(categories)}
    return np.array([*(place.get(label, other) for label in labels), other])[codes]  # code -1, missing: the end


def _ranges(series: "pd.Series", edges: Sequence[float]) -> np.ndarray:
    """The place (n,) of every cell among the ranges between edges; after them, what is no number."""
    values = numbers(series)
    return np.where(np.isnan(values), len(edges) + 1, np.digitize(values, edges))
