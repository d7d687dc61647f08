"""What an analysis declares in one line: read as it is written, or a sentence."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpviz.errors import UserError
from dpviz.privacy.statistics.analyses import Count, Histogram, Mean, Quantile, Statistic
from dpviz.ui.budget_planner import declared
from dpviz.ui.budget_planner.editing import clean_cell


@pytest.mark.parametrize(
    ("cls", "line", "fields"),
    [
        (Mean, "", {}),
        (Mean, " income; net: 3 ", {"column": "income; net: 3"}),
        (Mean, '"a ""b"""', {"column": 'a "b"'}),
        (Count, "age", {"column": "age"}),
        (Count, "age >= -6.5e1", {"column": "age", "comparison": "≥", "operands": (-65.0,)}),
        (Count, "age<>3", {"column": "age", "comparison": "≠", "operands": (3.0,)}),
        (Count, 'code == "03"', {"column": "code", "comparison": "=", "operands": ("03",)}),
        (Count, '"a > b" > 3', {"column": "a > b", "comparison": ">", "operands": (3.0,)}),
        (Count, "born in is one of north; so uth", {"column": "born in", "operands": ("north", "so uth")}),
        (Count, "c is one of 1; 2; other", {"column": "c", "operands": ("1", "2", "other")}),
        (Mean, "income by region: north; 2", {"column": "income", "by": "region", "groups": ("north", "2")}),
        (Mean, 'by "a: b": x; "y; z"', {"column": "", "by": "a: b", "groups": ("x", "y; z")}),
        (Mean, "income by region", {"column": "income by region"}),
        (Count, "age >= 65 by sex: f; m", {"column": "age", "operands": (65.0,), "by": "sex", "groups": ("f", "m")}),
        (Count, "c is one of a; b by sex: f; m", {"column": "c", "operands": ("a", "b"), "groups": ("f", "m")}),
        (Quantile, '"age by sex: f; m"', {"column": "age by sex: f; m"}),
        (Histogram, "region:", {"column": "region"}),
        (Histogram, "north; south", {"column": "", "keys": ("north", "south")}),
        (Histogram, 'a b: "x; y"; "=z"; "3"', {"column": "a b", "keys": ("x; y", "=z", "3")}),
        (Histogram, "age: -10; 0; 1e2", {"column": "age", "cut_points": (-10.0, 0.0, 100.0)}),
        (Histogram, "-10; 0; +10", {"column": "", "cut_points": (-10.0, 0.0, 10.0)}),
        (Histogram, "from the data: a: b; c", {"column": "a", "keys": ("b", "c"), "from_data": True}),
        (Histogram, '"from the data": b; c', {"column": "from the data", "keys": ("b", "c")}),
    ],
)
def test_a_line_is_read_as_it_is_written_and_so_after_it_was_in_a_link(
    cls: type[Statistic], line: str, fields: dict[str, Any]
) -> None:
    for text in (line, clean_cell(line)):
        parts = declared.parse_line(cls, text)
        assert parts | fields == parts and cls(**{"highest": 2.0} if cls is Mean else {}, **parts)


@pytest.mark.parametrize(
    ("cls", "line"),
    [
        (Count, "= 5"),
        (Count, "> 5"),
        (Count, 'age > "5'),
        (Mean, "income by region: north"),
        (Mean, "income by region: north; "),
        (Quantile, "age by region: north; south"),
        (Histogram, "age by region: north; south"),
        (Histogram, "north"),
        (Histogram, "age: 3"),
        (Histogram, "a; =b"),
        (Histogram, "=1+1; b"),
        (Histogram, "a\u202eb; c"),
    ],
)
def test_a_line_that_cannot_be_read_is_a_sentence(cls: type[Statistic], line: str) -> None:
    with pytest.raises(UserError):
        declared.parse_line(cls, line)


HOSTILE = ["12", "3e5", "a by b", "is one of", ";", "a:b", "=x", "'y'", '"z"', "a  b", "a;=b"]
TEXTS = st.lists(st.none() | st.text(max_size=70) | st.sampled_from(HOSTILE))


@given(name=st.text(min_size=1, max_size=60).map(clean_cell).filter(bool), texts=TEXTS, groups=TEXTS)
def test_a_proposal_is_read_as_the_texts_of_the_file_whatever_they_are(
    name: str, texts: list[str | None], groups: list[str | None]
) -> None:
    values, others = pd.Series(["in", "out", *texts], dtype=object), pd.Series(["yes", "no", *groups], dtype=object)
    cells = {text.strip() for text in values.dropna()}
    for cls, field in ((Histogram, "keys"), (Count, "operands")):
        parts = declared.parse_line(cls, clean_cell(declared.proposal(cls, name, values)))
        assert parts["from_data"] and parts["column"] == name and set(parts[field]) <= cells and len(parts[field]) >= 2
        assert cls(**parts).source == "read from the data"
    parts = declared.parse_line(Mean, declared.proposal(Mean, name, values, ("g", others)))
    assert parts["column"] == name and parts["by"] == "g" and {"yes", "no"} <= set(parts["groups"])


def test_where_no_value_is_proposed_none_was_read() -> None:
    for cls in (Count, Mean):
        assert declared.parse_line(cls, clean_cell(declared.proposal(cls, "c", pd.Series(["x" * 61])))) == {
            "column": "c"
        }


@pytest.mark.parametrize(
    "values", [[], [np.nan], [np.inf, 3.0], [5.0, 5.0], [1e308, -1e308], [1e-300, 2e-300], [0, 1], [1e13, 1e13 + 50]]
)
def test_numbers_of_any_size_are_proposed_as_ascending_cut_points(values: list[float]) -> None:
    numbers = pd.Series(np.array(values, dtype=float))
    histogram = Histogram(**declared.parse_line(Histogram, declared.proposal(Histogram, "x", numbers)))
    count = Count(**declared.parse_line(Count, declared.proposal(Count, "x", numbers)))
    assert 2 <= histogram.bins <= 12 and count.operands[0] in histogram.cut_points
