"""Marks of declarations that were read from the rows of the upload itself: no budget pays for that.

Such a mark says: this range, list or share was not known beforehand, but taken from the file. It stays with the
declaration, in settings, links and files, until the user declares another value, or declares that this one was known
beforehand.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from dpviz.datasets.uploads.limits import MAX_NAME

Kind = Literal["bounds", "categories", "groups", "shares"]
Mark = tuple[Kind, Annotated[str, Field(min_length=1, max_length=MAX_NAME)]]  # the kind of declaration, and its column

ROWS = "the number of rows"
_PHRASES: dict[Kind, tuple[str, str]] = {  # for one column, and for several
    "bounds": ("the range of", "the ranges of"),
    "categories": ("the categories of", "the categories of"),
    "groups": ("the groups in", "the groups in"),
    "shares": ("the shares of the groups in", "the shares of the groups in"),
}
_NAMED, _LONGEST = 3, 30  # columns of a phrase that are named, and characters of a name, at most
SIGNS = frozenset('"\\*<>$[]#`|~{}')  # characters with a meaning in Markdown, programs or HTML


def mark_phrases(marks: Sequence[Mark]) -> tuple[str, ...]:
    """Return one phrase for each kind of mark, such as "the ranges of “age” and “income”"; plain text on one line."""
    names_by_kind: dict[Kind, list[str]] = {}
    for kind, name in marks:
        names_by_kind.setdefault(kind, []).append(_quoted(name))
    phrases = []
    for kind, names in names_by_kind.items():
        singular, plural = _PHRASES[kind]
        # "a", "a and b", "a, b and c", and from the fourth on "a, b, c and 1 more".
        entries = names[:_NAMED]
        if len(names) > _NAMED:
            entries.append(f"{len(names) - _NAMED} more")
        *earlier, last = entries
        enumeration = f"{', '.join(earlier)} and {last}" if earlier else last
        phrases.append(f"{plural if len(names) > 1 else singular} {enumeration}")
    return tuple(phrases)


def _quoted(name: str) -> str:
    """Return a column's name in quotes, on one line, without SIGNS and at most _LONGEST characters long."""
    letters = (letter if letter.isprintable() and letter not in SIGNS else " " for letter in name)
    line = " ".join("".join(letters).split())
    return f"“{line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…'}”"
