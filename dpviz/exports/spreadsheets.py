"""Tables as CSV files that a spreadsheet shows and does not run.

A spreadsheet takes a cell that begins with =, +, - or @ for a formula, which may send what stands beside it to a
stranger; labels, column names and categories come from files and links. An apostrophe in front makes it a text. It
stands wherever such a cell could begin, in whatever way the file is cut into cells, and there only: without it the text
is what it was, and numbers are not touched.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable
from typing import Any

from dpviz.later import pd

_RUN = r"[\s']*[=+\-@＝＋－＠]"  # what begins a formula; blanks before it are skipped by some
_NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
_IN_TEXT = re.compile(rf"(^|[;\t\r\n])(?={_RUN})|^(?='*[\t\r\n])")
_IN_LINE = re.compile(rf"([,;\t])(?={_RUN})(?!{_NUMBER}(?:[,;\t\]}}]|$))")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')  # of JSON
_IN_STRING = re.compile(r'((?:^"|[,;])[\s\']*)([=+\-@＝＋－＠])')


def as_text(value: Any) -> Any:
    """A cell that no spreadsheet runs: a text with apostrophes where a formula would begin; all else as it is."""
    return _IN_TEXT.sub(r"\1'", value) if isinstance(value, str) and not re.fullmatch(_NUMBER, value) else value


def without_formulas(text: str) -> str:
    """A text of a link, for a table that is saved as it stands: without what a formula would begin with."""
    return re.sub(rf"(^|[;\t\r\n])({_RUN})+", r"\1", text)


def neutral(frame: "pd.DataFrame", written: Callable[[Any], Any] = as_text) -> "pd.DataFrame":
    """The table with all its texts, index and names of columns included, as `as_text` makes them."""
    columns = [
        column if pd.api.types.is_numeric_dtype(column.dtype) else column.map(written, na_action="ignore")
        for _, column in frame.items()
    ]
    found = pd.concat(columns, axis=1, keys=[written(name) for name in frame.columns]) if columns else frame.copy()
    numbered = pd.api.types.is_numeric_dtype(found.index.dtype)
    return found if numbered else found.set_axis(found.index.map(written), axis=0)


def settings(text: str) -> str:
    """JSON, for a line of `comments`: the same settings, with the code of what a formula would begin with."""
    return _STRING.sub(lambda found: _IN_STRING.sub(_coded, found[0]), text)


def _coded(found: re.Match[str]) -> str:
    return f"{found[1]}\\u{ord(found[2]):04x}"


def as_csv(frame: "pd.DataFrame", comments: Iterable[str] = ()) -> str:
    """The table as CSV; lines that begin with "#", one for each comment, stand above it.

    Text is quoted: a "#" in a label does not start a comment, and nothing in it starts a row.
    """
    out = io.StringIO()
    for line in comments:
        out.write(f"# {_IN_LINE.sub(lambda found: found[1] + chr(39), ' '.join(line.splitlines()))}\n")
    neutral(frame).to_csv(out, index=False, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    return out.getvalue()
