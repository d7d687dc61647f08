"""The line that declares an analysis: its column, condition, bins and groups; or proposes them, read from a file."""

import math
import re
from typing import Any

import numpy as np
import pandas as pd

from dpviz.errors import UserError
from dpviz.privacy.statistics.analyses import Count, GroupableStatistic, Histogram, Statistic
from dpviz.ui.budget_planner.editing import clean_cell

_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_COMPARISON = re.compile(r"\s+is one of\s+|<=|>=|!=|<>|==|[=≠<≤>≥]")
_BY = re.compile(r"(?:^|\s+)by\s+(?=[^:]+:)")  # with a column and a colon after it
FROM_DATA = "from the data:"  # begins a line whose condition, keys, cut points or groups were read from a file
MAX_LINE = 1000  # signs of a line
_MAX_KEYS = 50  # of a list in a proposal
_WRITTEN = {"<=": "≤", ">=": "≥", "!=": "≠", "<>": "≠", "==": "="}


def parse_line(cls: type[Statistic], text: str) -> dict[str, Any]:
    """Return the fields of a kind of statistic that a line declares.

    A count has a condition, "age >= 65" or "region is one of north; south"; a histogram has keys, "north; south", or
    ascending numbers as cut points, "0; 18; 65", after the column and a colon if the column is not its name; others
    have their column. Counts, sums and means may end with groups, "income by region: north; south". A part in quotes is
    text, whatever is in it. A line that begins with `FROM_DATA` is a proposal. Raises UserError for a line that cannot
    be read.
    """
    text = text.strip()
    if text.startswith(FROM_DATA):
        return parse_line(cls, without_mark(text)) | {"from_data": True}
    if not text:
        return {}
    if clean_cell(text) != re.sub(r"\s", " ", text):  # it leaves out beginnings of formulas and invisible signs
        raise UserError(
            "Put a part of “Declared” that begins with =, +, - or @ in quotes; signs that cannot be seen have no place "
            "in it.",
            title="This line cannot be read",
        )
    if issubclass(cls, GroupableStatistic):
        statistic, *groups = _split(text, _BY, max_splits=1)
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
    column, *rest = _split(text, re.compile(":"), max_splits=1)
    if not rest:  # no column, but the bins alone
        column, rest = "", [text]
    fields: dict[str, Any] = {"column": _text(column)}
    if rest[0].strip():
        values = _values(rest[0])
        if len(values) < 2:
            raise UserError(
                "Declare at least two keys or three cut points, with “;” between them.", title="One bin is no histogram"
            )
        fields["keys" if isinstance(values[0], str) else "cut_points"] = values
    return fields


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
    column, keys = _split(text, re.compile(":"), max_splits=1)
    groups = tuple(_text(part) for part in _split(keys, re.compile(";")))
    if len(groups) < 2 or not all(groups):
        raise UserError("Declare at least two groups, with “;” between them.", title="One group is no group")
    return {"by": _text(column), "groups": groups}


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
    parts, begin = [], 0
    for separator_start, separator_end in spans:
        parts.append(text[begin:separator_start])
        begin = separator_end
    return [*parts, text[begin:]]


def _masked(text: str) -> str:
    """Return a text of the same length, with a sign that separates nothing in place of what is in quotes."""
    masked = _QUOTED.sub(lambda match: "\0" * len(match[0]), text)
    if '"' in masked:
        raise UserError('A quote " has no second one.', title="This line cannot be read")
    return masked


# ------------------------------------------------------------------------------------------------ proposals from a file


def without_mark(text: str) -> str:
    """Return a line as if its user had known beforehand what it says."""
    return text.removeprefix(FROM_DATA).strip()


def quoted(text: str) -> str:
    """Return a text as a part of a line: in quotes if it could be read as anything else."""
    is_plain = re.fullmatch(r"[\w .]+", text) and not re.search(r"\b(by|is one of)\b", text)
    return text if is_plain and not _NUMBER.fullmatch(text) else '"' + text.replace('"', '""') + '"'


def proposal(cls: type[Statistic], name: str, values: pd.Series, groups: tuple[str, pd.Series] | None = None) -> str:
    """Return a line for a column of a file, with the keys, cut points, condition and groups read from its values.

    A histogram gets the texts as keys, or cut points of the numbers. A count gets a condition: to be one of these
    texts, or at least the middle cut point.

    values : of the column, numbers or texts. groups : name and texts of another column, of which each text is a group.
    """
    is_number = pd.api.types.is_numeric_dtype(values)
    parts = _cut_points(values) if is_number else _keys(values)
    line = quoted(name)
    if cls is Histogram:
        line += f": {'; '.join(parts)}"
    elif cls is Count and parts:
        line += f" >= {parts[len(parts) // 2]}" if is_number else f" is one of {'; '.join(parts)}"
    if groups is not None:
        group_column, group_texts = groups
        line += f" by {quoted(group_column)}: {'; '.join(_keys(group_texts))}"
    return line if line == quoted(name) else f"{FROM_DATA} {line}"


def _keys(texts: pd.Series) -> list[str]:
    """Return the most frequent texts of a column as parts of a line, sorted.

    Left out are those that no line can declare, and those for which a line with two such lists has no room.
    """
    counts = texts.dropna().astype(str).str.strip().value_counts()
    all_keys = [quoted(key) for key in counts.index if 0 < len(key) <= 60]  # the length of a key in a plan
    keys = [key for key in all_keys if clean_cell(key) == key][:_MAX_KEYS]
    ends = np.cumsum([len(key) + 2 for key in keys])  # of each key in the list, with what separates them
    return sorted(keys[: int((ends <= MAX_LINE // 3).sum())])  # the rest is for names


def _cut_points(values: pd.Series) -> list[str]:
    """Return round numbers as parts of a line, about ten, that hold the middle 98 % of the finite values."""
    numbers = np.clip(values[np.isfinite(values)], -1e300, 1e300)  # so that differences are finite, too
    low, high = np.quantile(numbers, (0.01, 0.99)) if len(numbers) else (0.0, 1.0)
    width = (high - low) / 10 or 1.0  # 1.0 if all numbers are equal
    power = 10.0 ** math.floor(math.log10(width))
    # The smallest of these steps with which ten are enough.
    step = next(multiple * power for multiple in (1, 2, 5, 10) if multiple * power * 10 >= high - low)
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 2)  # a histogram needs three cut points at least
    return [f"{index * step:.15g}" for index in range(first, last + 1)]
