"""What a visitor declares of an analysis in one line: its column, condition, bins and groups."""

import re
from typing import Any

from dpviz.errors import UserError
from dpviz.privacy.statistics.analyses import ByGroup, Count, Histogram, Statistic
from dpviz.ui.budget_planner.editing import harmless

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMPARISON = re.compile(r"\s+is one of\s+|<=|>=|!=|<>|==|[=≠<≤>≥]")
_BY = re.compile(r"(?:^|\s+)by\s+(?=[^:]+:)")  # with a column and a colon after it
_WRITTEN = {"<=": "≤", ">=": "≥", "!=": "≠", "<>": "≠", "==": "="}


def read(cls: type[Statistic], text: str) -> dict[str, Any]:
    """Return the fields of a kind of statistic that a line declares.

    A count has a condition, "age >= 65" or "region is one of north; south"; a histogram has keys, "north; south", or
    ascending numbers as cut points, "0; 18; 65", after the column and a colon if the column is not its name; others
    have their column. Counts, sums and means may end with groups, "income by region: north; south". A part in quotes is
    text, whatever is in it. Raises UserError for a line that cannot be read.
    """
    if not text.strip():
        return {}
    if harmless(text) != " ".join(text.split()):
        raise UserError(
            "Put a part of “Declared” that begins with =, +, - or @ in quotes; signs that cannot be seen have no place "
            "in it.",
            title="This line cannot be read",
        )
    if issubclass(cls, ByGroup):
        statistic, *groups = _split(text, _BY, 1)
        parts = _condition(statistic) if issubclass(cls, Count) else {"column": _text(statistic)}
        return parts | (_groups(groups[0]) if groups else {})
    if _BY.search(_masked(text)):
        raise UserError(
            f"Counts, sums and means can be asked by groups, no {cls.title.lower()}. If “by” is part of a name, put "
            "that in quotes.",
            title="Not by groups",
        )
    if not issubclass(cls, Histogram):
        return {"column": _text(text)}
    column, *rest = _split(text, re.compile(":"), 1)
    if not rest:
        column, rest = "", [text]
    return {"column": _text(column)} | (_bins(rest[0]) if rest[0].strip() else {})


def _condition(text: str) -> dict[str, Any]:
    """Return column and condition of a count."""
    match = _COMPARISON.search(_masked(text))
    if match is None:
        return {"column": _text(text)}
    column, comparison = text[: match.start()], match[0].strip()
    if not column.strip():
        raise UserError(f"Begin with the column that “{comparison}” is about.", title="A column is missing")
    return {
        "column": _text(column),
        "comparison": _WRITTEN.get(comparison, comparison),
        "operands": _values(text[match.end() :]),
    }


def _groups(text: str) -> dict[str, Any]:
    """Return column and groups of a statistic by groups. text : what follows a match of _BY, which demands a colon."""
    column, keys = _split(text, re.compile(":"), 1)
    groups = tuple(_text(part) for part in _split(keys, re.compile(";")))
    if len(groups) < 2 or not all(groups):
        raise UserError("Declare at least two groups, with “;” between them.", title="One group is no group")
    return {"by": _text(column), "groups": groups}


def _bins(text: str) -> dict[str, Any]:
    """Return the keys or the cut points of a histogram."""
    values = _values(text)
    if len(values) < 2:
        raise UserError(
            "Declare at least two keys or three cut points, with “;” between them.", title="One bin is no histogram"
        )
    return {"keys" if isinstance(values[0], str) else "cut_points": values}


def _values(text: str) -> tuple[float, ...] | tuple[str, ...]:
    """Return the parts of a text as numbers if all of them are, and otherwise as texts."""
    parts = [part.strip() for part in _split(text, re.compile(";"))]
    if all(_NUMBER.fullmatch(part) for part in parts):
        return tuple(map(float, parts))
    return tuple(map(_text, parts))


def _text(part: str) -> str:
    """Return a text without the quotes around it."""
    part = part.strip()
    return part[1:-1].replace('""', '"') if _QUOTED.fullmatch(part) else part


def _split(text: str, separator: re.Pattern[str], max_splits: int = 0) -> list[str]:
    """Return the parts of a text between separators that are not in quotes.

    max_splits : number of separators, from the first, at which it is split at most; 0 for all.
    """
    spans = [match.span() for match in separator.finditer(_masked(text))][: max_splits or None]
    begins, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    return [text[begin:end] for begin, end in zip(begins, ends, strict=True)]


def _masked(text: str) -> str:
    """Return a text of the same length, with a sign that separates nothing in place of what is in quotes."""
    masked = _QUOTED.sub(lambda match: "\0" * len(match[0]), text)
    if '"' in masked:
        raise UserError('A quote " has no second one.', title="This line cannot be read")
    return masked
