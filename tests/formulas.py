"""Finds in a CSV file what a spreadsheet would run, whichever way it cuts the file into cells."""

import csv
import io
import re

_FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
_NUMBER = re.compile(r"\s*[+-]?(inf|\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[\s\]})]*")


def formulas(text: str) -> list[str]:
    """The cells that begin like a formula and are no numbers (nor the end of a list of numbers)."""
    found = []
    for separator in ",;\t":
        # As a spreadsheet does: a carriage return outside of quotes ends a row.
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator):
            found += [cell for cell in row if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)]
    return found
