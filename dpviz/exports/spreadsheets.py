"""Tables as CSV files that a spreadsheet shows and does not run.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, which may send neighbouring cells to a stranger;
labels, column names and categories come from files and links. An apostrophe in front makes the cell a text. It is
inserted wherever such a cell could begin, for any separator by which a program may cut the file into cells, and nowhere
else: without the apostrophes the text is unchanged, and numbers are never touched.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable
from typing import Any

from dpviz.later import pd

_RUN = r"[\s']*[=+\-@＝＋－＠]"  # beginning of a formula; some programs skip blanks before it
_NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
# Positions at which a formula could begin: in a cell, and in a comment, which a program may cut into cells. A cell that
# begins with a tab or a line break gets an apostrophe, too, whatever follows; numbers in a comment get none.
_IN_TEXT = re.compile(rf"(^|[;\t\r\n])(?={_RUN})|^(?='*[\t\r\n])")
_IN_LINE = re.compile(rf"([,;\t])(?={_RUN})(?!{_NUMBER}(?:[,;\t\]}}]|$))")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')  # a string of JSON
_IN_STRING = re.compile(r'((?:^"|[,;])[\s\']*)([=+\-@＝＋－＠])')  # the beginning of a formula in such a string


def safe_cell(value: Any) -> Any:
    """Return a cell in a form that no spreadsheet runs.

    A text gets an apostrophe wherever a formula would begin; numbers, also as texts, stay as they are.
    """
    if not isinstance(value, str) or re.fullmatch(_NUMBER, value):
        return value
    return _IN_TEXT.sub(r"\1'", value)  # \1: the separator before the formula, if there is one


def without_formulas(text: str) -> str:
    """Return a text without signs that begin a formula; numbers keep theirs.

    It is for tables that a browser shows, and saves without `as_csv`: there an apostrophe would be seen.
    """
    return re.sub(rf"(^|[;\t\r\n])(?!{_NUMBER}(?:[;\t\r\n]|$))({_RUN})+", r"\1", text)


def without_formula_cells(frame: "pd.DataFrame", convert: Callable[[Any], Any] = safe_cell) -> "pd.DataFrame":
    """Return a table whose texts, including index and names of columns, no spreadsheet runs.

    convert : the function that is applied to each text.
    """
    columns = [
        column if pd.api.types.is_numeric_dtype(column.dtype) else column.map(convert, na_action="ignore")
        for _, column in frame.items()
    ]
    # `concat`, since two names may be equal, as the keys of a dictionary may not be; it takes no empty list.
    result = pd.concat(columns, axis=1, keys=[convert(name) for name in frame.columns]) if columns else frame.copy()
    if pd.api.types.is_numeric_dtype(result.index.dtype):
        return result
    return result.set_axis(result.index.map(convert), axis=0)


def escape_settings(text: str) -> str:
    """Return settings in JSON for a comment of `as_csv`: the same values, with escapes where a formula would begin."""
    return _STRING.sub(lambda string: _IN_STRING.sub(_escape_sign, string[0]), text)


def _escape_sign(match: re.Match[str]) -> str:
    """Return a match of `_IN_STRING` with its sign, such as "=", as an escape of JSON."""
    return f"{match[1]}\\u{ord(match[2]):04x}"


def as_csv(frame: "pd.DataFrame", comments: Iterable[str] = ()) -> str:
    """Return a table as CSV, below one line that begins with "#" for each comment.

    Texts are in quotes, so that a "#" in a label does not start a comment, and a line break does not start a row.
    """
    out = io.StringIO()
    for comment in comments:
        line = " ".join(comment.splitlines())
        line = _IN_LINE.sub(r"\1'", line)  # an apostrophe before each beginning of a formula
        out.write(f"# {line}\n")
    without_formula_cells(frame).to_csv(out, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return out.getvalue()
