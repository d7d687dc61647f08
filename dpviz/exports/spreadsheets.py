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
_IN_TEXT = re.compile(rf"(^|[;\t\r\n])(?={_RUN})|^(?='*[\t\r\n])")
_IN_LINE = re.compile(rf"([,;\t])(?={_RUN})(?!{_NUMBER}(?:[,;\t\]}}]|$))")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')  # of JSON
_IN_STRING = re.compile(r'((?:^"|[,;])[\s\']*)([=+\-@＝＋－＠])')


def as_text(value: Any) -> Any:
    """Return a cell that no spreadsheet runs: a text with apostrophes where a formula would begin; other values
    unchanged."""
    return _IN_TEXT.sub(r"\1'", value) if isinstance(value, str) and not re.fullmatch(_NUMBER, value) else value


def without_formulas(text: str) -> str:
    """Return the text without the beginnings of formulas: for a text of a link in a table that is saved unchanged."""
    return re.sub(rf"(^|[;\t\r\n])({_RUN})+", r"\1", text)


def neutral(frame: "pd.DataFrame", convert: Callable[[Any], Any] = as_text) -> "pd.DataFrame":
    """Return the table with all its texts, including index and names of columns, as `as_text` makes them."""
    columns = [
        column if pd.api.types.is_numeric_dtype(column.dtype) else column.map(convert, na_action="ignore")
        for _, column in frame.items()
    ]
    result = pd.concat(columns, axis=1, keys=[convert(name) for name in frame.columns]) if columns else frame.copy()
    has_numbers = pd.api.types.is_numeric_dtype(result.index.dtype)
    return result if has_numbers else result.set_axis(result.index.map(convert), axis=0)


def settings(text: str) -> str:
    """Return JSON for a line of `comments`: the same settings, with JSON escapes where a formula would begin."""
    return _STRING.sub(lambda string: _IN_STRING.sub(_coded, string[0]), text)


def _coded(match: re.Match[str]) -> str:
    return f"{match[1]}\\u{ord(match[2]):04x}"


def as_csv(frame: "pd.DataFrame", comments: Iterable[str] = ()) -> str:
    """Return the table as CSV, below one line that begins with "#" for each comment.

    Text is quoted: a "#" in a label does not start a comment, and nothing in it starts a row.
    """
    out = io.StringIO()
    for line in comments:
        out.write(f"# {_IN_LINE.sub(lambda match: match[1] + chr(39), ' '.join(line.splitlines()))}\n")
    neutral(frame).to_csv(out, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return out.getvalue()
