"""Marks of declarations that were read from the rows of the upload itself: no budget pays for that.

Such a mark stays with the declaration, in settings, links and files, until the user declares another value, or
declares that this one was known beforehand.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from dpviz.datasets.uploads.limits import MAX_NAME

Kind = Literal["bounds", "categories", "groups", "shares"]
Mark = tuple[Kind, Annotated[str, Field(min_length=1, max_length=MAX_NAME)]]  # and the name of the column

ROWS = "the number of rows"
_PHRASES: dict[Kind, tuple[str, str]] = {
    "bounds": ("the range of", "the ranges of"),
    "categories": ("the categories of", "the categories of"),
    "groups": ("the groups in", "the groups in"),
    "shares": ("the shares of the groups in", "the shares of the groups in"),
}
_NAMED, _LONGEST = 3, 30  # columns that are named, and characters of a name
SIGNS = frozenset('"\\*<>$[]#`|~{}')  # that texts, programs and web pages take for more than a letter


def in_words(marks: Sequence[Mark]) -> tuple[str, ...]:
    """Describe the marks, with one phrase for each kind; plain text, on one line."""
    names_by_kind: dict[Kind, list[str]] = {}
    for kind, name in marks:
        names_by_kind.setdefault(kind, []).append(_quoted(name))
    return tuple(f"{_PHRASES[kind][len(names) > 1]} {_enumerate(names)}" for kind, names in names_by_kind.items())


def _enumerate(names: Sequence[str]) -> str:
    first, more = list(names[:_NAMED]), len(names) - _NAMED
    last = f"{more} more" if more > 0 else first.pop()
    return f"{', '.join(first)} and {last}" if first else last


def _quoted(name: str) -> str:
    """Return a column's name in quotes, on one line, without SIGNS and at most _LONGEST characters long."""
    plain = (letter if letter.isprintable() and letter not in SIGNS else " " for letter in name)
    line = " ".join("".join(plain).split())
    return f"“{line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…'}”"
