"""From a table to a data set: every unusable choice gets its sentence, and what is delivered is what was chosen."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.datasets import (
    ColumnInfo,
    Prepared,
    Reading,
    UploadedTable,
    describe_columns,
    encode_target,
    likely_target,
    prepare,
    read_table,
    suggested_bounds,
    target_candidates,
    target_classes,
    usual_positive,
)
from dpviz.datasets.uploads.parsing import Bins, class_label, encode_classes
from dpviz.errors import UserError
from dpviz.specification import Specification

BOUNDS = {"age": (0.0, 120.0), "income": (0.0, 1e5)}
SECRET = "s3cret"


def frame(**changes: object) -> pd.DataFrame:
    """Forty rows: two features, a target with two classes and one with three, and columns that cannot be used."""
    n = 40
    columns = {
        "age": np.linspace(18.0, 90.0, n),
        "income": np.arange(n) * 1000.0,
        "label": ["no", "yes"] * (n // 2),
        "three": np.arange(n) % 3,
        "text": ["1.5"] * 16 + [SECRET] * 24,
        "day": pd.date_range("2020-01-01", periods=n),
        "same": [7] * n,
    }
    return pd.DataFrame(columns | changes)


def with_cell(column: str, row: int, value: object) -> pd.DataFrame:
    table = frame()
    table.loc[row, column] = value
    return table


def refused(table: pd.DataFrame, drop_missing: bool = False, **choice: object) -> tuple[str, str]:
    """(title, message) of the UserError that preparing must raise; it never quotes a cell."""
    arguments = {"target": "label", "positive": "yes", "features": ["age", "income"], "bounds": BOUNDS} | choice
    with pytest.raises(UserError) as caught:
        prepare(table, drop_missing=drop_missing, **arguments)  # type: ignore[arg-type]
    assert SECRET not in caught.value.title + str(caught.value)
    return caught.value.title, str(caught.value)


BAD_CHOICES = {
    "no feature": (frame(), {"features": []}, "No feature is chosen", "at least one"),
    "unknown column": (frame(), {"features": ["height"]}, "The file has no column 'height'", "again"),
    "unknown target": (frame(), {"target": "height"}, "The file has no column 'height'", "again"),
    "feature twice": (frame(), {"features": ["age", "age"]}, "A feature is chosen twice", "once"),
    "target as feature": (frame(), {"target": "age"}, "Column 'age' is both target and feature", "Take it out"),
    "no range": (frame(), {"bounds": {"age": (0, 120)}}, "Column 'income' needs a range", "without looking"),
    "range upside down": (
        frame(),
        {"bounds": BOUNDS | {"age": (9, 3)}},
        "Column 'age' needs a range",
        "below the highest",
    ),
    "empty range": (frame(), {"bounds": BOUNDS | {"age": (3, 3)}}, "Column 'age' needs a range", "below the highest"),
    "thin range": (frame(), {"bounds": BOUNDS | {"age": (0, 5e-324)}}, "Column 'age' needs a range", "10⁻¹⁰⁰"),
    "endless range": (frame(), {"bounds": BOUNDS | {"age": (0, math.inf)}}, "Column 'age' needs a range", "10¹⁰⁰"),
    "too few": (frame().iloc[:19], {}, "Only 19 rows", "At least 20"),
}


@pytest.mark.parametrize("case", BAD_CHOICES)
def test_every_bad_choice_gets_its_sentence(case: str) -> None:
    table, choice, title, fragment = BAD_CHOICES[case]
    found = refused(table, **choice)  # type: ignore[arg-type]
    assert title in found[0] and fragment in found[1]


def prepared(table: pd.DataFrame, **choice: object) -> Prepared:
    arguments = {"target": "label", "positive": "yes", "features": ["age", "income"], "bounds": BOUNDS} | choice
    return prepare(table, **arguments)  # type: ignore[arg-type]


def test_rows_with_gaps_are_filled_and_noted_and_dropped_on_demand_only() -> None:
    table = frame()
    table.loc[[3, 7, 11], "age"] = np.nan
    table.loc[[7, 20], "income"] = np.inf
    table.loc[25, "label"] = None
    filled = prepared(table)
    assert filled.dropped == 0 and filled.specification.n == 40 and filled.specification.missing == "fill"
    assert (filled.table[[3, 7, 11], 0] == 60).all() and (filled.table[[7, 20], 1] == 5e4).all()
    assert filled.table[25, -1] == -1
    assert "the middle of the declared range: 3 in 'age', 2 in 'income'" in " ".join(filled.notes)
    assert "count as the negative class: 1" in " ".join(filled.notes)
    dropped = prepared(table, drop_missing=True)
    kept = [row for row in range(40) if row not in (3, 7, 11, 20, 25)]
    assert dropped.dropped == 5 and np.array_equal(dropped.table[:, 1], np.array(kept) * 1000.0)
    assert dropped.specification.missing == "drop" and dropped.specification.n == 35 and not dropped.notes


def test_dropping_can_leave_too_little() -> None:
    table = frame()
    table.loc[5:, "age"] = np.nan
    assert refused(table, drop_missing=True)[0] == "Only 5 rows are left"


ODD: dict[str, tuple[pd.DataFrame, dict[str, object], str]] = {
    "text": (frame(), {"features": ["text"], "bounds": {"text": (0, 1)}}, "range: 24 in 'text'"),
    "dates": (frame(), {"features": ["day"], "bounds": {"day": (0, 1)}}, "range: 40 in 'day'"),
    "constant": (frame(), {"features": ["same"], "bounds": {"same": (0, 9)}}, "costs noise: 'same'"),
    "infinite": (with_cell("age", 9, math.inf), {}, "range: 1 in 'age'"),
    "one class": (frame(label="yes"), {}, "every row has the class 'yes' in column 'label'"),
    "no such class": (frame(), {"positive": "maybe"}, "no row has the class 'maybe' in column 'label'"),
}


@pytest.mark.parametrize("case", ODD)
def test_what_looks_odd_in_the_rows_is_noted_and_stops_nothing(case: str) -> None:
    table, choice, note = ODD[case]
    found = prepared(table, **choice)
    assert note in " ".join(found.notes) and SECRET not in " ".join(found.notes)
    assert found.specification.n == 40 == len(found.table) and np.isfinite(found.table).all()


def test_the_positive_class_is_named_and_offered_by_what_its_column_is_declared_to_hold_alone() -> None:
    """It was read from the file: one row could change what every other row's label meant."""
    assert refused(frame(), positive=None)[0] == refused(frame(), positive=" ")[0] == "No positive class is chosen"
    for rows in ([0, 1], [1, 2], ["a", "b"], ["no", "yes"]):
        columns = describe_columns(pd.DataFrame({"a": rows * 20, "b": rows * 20}), ("number", "text"))
        assert [usual_positive(column) for column in columns] == ["1", "yes"]


def test_a_text_is_offered_as_the_target_before_any_number() -> None:
    columns = describe_columns(frame().drop(columns="label").assign(flag=np.arange(40) % 2))
    assert likely_target(columns) == [column.name for column in columns if not column.numeric][-1]
    assert likely_target(describe_columns(frame()[["age", "three", "income"]])) == "income"


def test_a_target_that_is_a_number_and_columns_of_categories() -> None:
    table = with_cell("income", 3, math.inf)
    choice = {"target": "income", "positive": None, "features": ["age"], "target_range": (0.0, 30_000.0)}
    lists = {"three": ["0", "1"], "label": ["yes"], "age ": Bins((50.0,))}
    ready = prepared(table.assign(**{"age ": table["age"]}), **choice, categories=lists)
    assert ready.table.shape == (40, 5) and ready.table[3, -1] == 15_000 and not ready.table.flags.writeable
    data = ready.specification.load({ready.specification.identity: ready.table})
    facts = data.facts
    assert facts.names[:4] == ("age", "three: 0", "three: 1", "three: other") and facts.blocks == (3, 2, 3)
    assert facts.names[4:] == ("label: yes", "label: other", "age : below 50", "age : 50 or more", "age : other")
    assert facts.target_range == (0.0, 30_000.0) == (data.labels.min(), data.labels.max())
    assert not ready.specification.public
    assert data.features[:3, 1:6].tolist() == [[1, 0, 0, 0, 1], [0, 1, 0, 1, 0], [0, 0, 1, 0, 1]]
    assert "the middle of the declared range: 1 in 'income'" in ready.notes[0]
    assert "“other”: 13 in 'three', 20 in 'label'" in ready.notes[1]
    assert Specification.from_json(ready.specification.to_json()) == ready.specification
    dropped = prepared(table, **choice, categories={"three": ["0"]}, drop_missing=True)
    assert dropped.dropped == 1 and dropped.specification.n == 39 and len(dropped.table) == 39


@pytest.mark.parametrize(
    ("choice", "title"),
    [
        ({"target": "income", "features": ["age"], "target_range": (5.0, 5.0)}, "Column 'income' needs a range"),
        ({"target": "income", "features": ["age"], "target_range": (math.nan, 5.0)}, "Column 'income' needs a range"),
        ({"features": [], "categories": {}}, "No feature is chosen"),
        ({"features": ["age"], "categories": {"age": ["1"]}}, "A feature is chosen twice"),
        ({"categories": {"label": ["yes"]}}, "Column 'label' is both target and feature"),
        ({"categories": {"text": []}}, "The categories of column 'text' cannot be used"),
        ({"categories": {"size": ["a"]}}, "The file has no column 'size'"),
        ({"categories": {"text": [str(i) for i in range(600)]}}, "The columns make 603 features"),
    ],
)
def test_choices_of_categories_and_ranges_that_cannot_be_used(choice: dict[str, object], title: str) -> None:
    assert refused(frame(), **choice)[0] == title  # type: ignore[arg-type]


def test_many_rows_with_many_categories_are_refused_before_they_fill_the_memory() -> None:
    settings = {"identity": "a" * 32, "bounds": (), "names": ()}
    lists = (("area", tuple(f"{i}" for i in range(100))),)
    assert UploadedTable(**settings, n=500_000, categories=lists).facts().d == 100  # type: ignore[arg-type]
    with pytest.raises(UserError, match="1,000,000 rows can have 50"):
        UploadedTable(**settings, n=1_000_000, categories=lists)  # type: ignore[arg-type]


def test_what_is_prepared_is_what_was_chosen() -> None:
    ready = prepare(frame(), "label", "yes", ["income", "age"], BOUNDS, drop_missing=False)
    expected = np.column_stack([np.arange(40) * 1000.0, np.linspace(18, 90, 40), np.tile([-1.0, 1.0], 20)])
    assert np.array_equal(ready.table, expected) and ready.dropped == 0
    assert not ready.table.flags.writeable and ready.table.dtype == np.float64
    specification = ready.specification
    assert (specification.target, specification.positive, specification.missing) == ("label", "yes", "fill")
    assert np.array_equal(specification.rows(frame()), expected)
    assert specification.names == ("income", "age") and specification.bounds == ((0.0, 1e5), (0.0, 120.0))
    assert not specification.public and Specification.from_json(specification.to_json()) == specification
    # Nothing of an upload, not even a column name, may get into a share link.
    assert specification.query("page") == {} and "39000" not in specification.to_json()


def test_declared_ranges_clip_the_upload_and_leave_the_table_alone() -> None:
    ready = prepare(frame(), "label", "no", ["age"], {"age": (30.0, 40.0)}, drop_missing=False)
    before = ready.table.copy()
    data = ready.specification.load({ready.specification.identity: ready.table})
    assert np.array_equal(data.features[:, 0], before[:, 0].clip(30.0, 40.0))
    assert np.array_equal(data.labels, np.tile([1.0, -1.0], 20))
    assert np.array_equal(ready.table, before)


def test_the_identity_of_an_upload_is_random_and_tells_nothing_of_its_rows() -> None:
    first, again = (prepared(frame()).specification for _ in range(2))
    assert first.identity != again.identity and first.replaced(identity=again.identity) == again
    assert prepared(frame(), identity="0" * 32).specification.identity == "0" * 32


def test_rows_of_another_table_are_a_sentence() -> None:
    specification = prepared(frame()).specification
    with pytest.raises(UserError, match="30 rows that can be used, and these settings are for 40"):
        specification.rows(frame().iloc[:30])
    with pytest.raises(UserError) as caught:
        specification.rows(frame().drop(columns="age"))
    assert caught.value.title == "The file has no column 'age'"


def test_a_table_that_is_gone_or_another_one_is_a_sentence() -> None:
    ready = prepare(frame(), "label", "yes", ["age"], BOUNDS, drop_missing=False)
    for tables in (
        {},
        {"0" * 32: ready.table},
        {ready.specification.identity: ready.table[:30]},
        {ready.specification.identity: ready.table[:, :1]},
        {ready.specification.identity: ready.table.astype(np.float32)},
    ):
        with pytest.raises(UserError, match=r"Upload the file again|An array of"):
            ready.specification.load(tables)


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": "A" * 32},
        {"identity": "a" * 31},
        {"n": 5},
        {"n": 2_000_000_000},
        {"bounds": [[0, 1]]},
        {"bounds": [[0, 1], [2, 1]]},
        {"bounds": [[0, 1], [0, 1e300]]},
        {"names": ["a", "a"]},
        {"names": ["a", ""]},
        {"names": ["a", "b" * 300]},
        {"target": ""},
        {"missing": "guess"},
    ],
)
def test_hostile_settings_of_an_upload_are_sentences(changes: dict[str, object]) -> None:
    good = {"identity": "a" * 32, "n": 30, "bounds": [[0, 1], [0, 1]], "names": ["a", "b"]}
    assert UploadedTable.model_validate(good).facts().d == 2
    text = str(good | changes | {"kind": "datasets.upload.table"}).replace("'", '"')
    with pytest.raises(UserError):
        Specification.from_json(text)


def test_columns_are_described_without_a_value() -> None:
    table = with_cell("age", 3, math.inf)
    table.loc[5, "income"] = np.nan
    found = {column.name: column for column in describe_columns(table)}
    assert found["age"] == ColumnInfo("age", numeric=True, missing=0, distinct=40)
    assert found["income"] == ColumnInfo("income", numeric=True, missing=1, distinct=39)
    assert found["text"] == ColumnInfo("text", numeric=False, missing=0, distinct=2)
    assert found["same"].constant and not found["label"].constant and not found["day"].numeric
    assert SECRET not in repr(found)


def test_distinct_values_are_counted_up_to_a_hundred_wherever_they_are() -> None:
    late = np.zeros(30_000)
    late[-60:] = np.arange(60)
    columns = describe_columns(pd.DataFrame({"late": late, "many": np.arange(30_000), "late many": np.sort(late)}))
    assert [column.distinct for column in columns] == [60, 100, 60]


def test_numbers_that_pandas_keeps_as_objects_are_numbers() -> None:
    # Whole numbers beyond 64 bits, the largest beyond float64 too, and true/false with gaps.
    table = pd.DataFrame({"big": [10**20, 10**400, -(10**400), 5], "flag": [True, None, False, True]}, dtype=object)
    big, flag = describe_columns(table)
    assert big.numeric and big.distinct == 4
    assert flag.numeric and flag.missing == 1 and flag.distinct == 2
    assert suggested_bounds(table, ["flag"]) == {"flag": (0.0, 1.0)}


@pytest.mark.parametrize("first", [True, 1])
def test_true_and_one_are_two_classes_whichever_comes_first(first: object) -> None:
    """A dictionary would take them for one key, so that one row would decide how the others are read."""
    cells = [first, True, 1, 1.0, "1", False, 0]
    codes, classes = encode_classes(pd.Series(cells, dtype=object))
    assert [classes[code] for code in codes] == [class_label(cell) for cell in cells]
    assert sorted(classes) == ["0", "1", "False", "True"]


def test_targets_with_two_classes_come_first() -> None:
    assert target_candidates(describe_columns(frame())) == ("label", "text", "three")


@pytest.mark.parametrize(
    ("values", "classes", "first"),
    [
        ([0, 1] * 10, ("0", "1"), -1.0),
        ([1.0, 0.0] * 10, ("0", "1"), 1.0),
        ([-1.0, 1.0] * 10, ("-1", "1"), -1.0),
        ([0.25, 0.5] * 10, ("0.25", "0.5"), -1.0),
        ([True, False] * 10, ("False", "True"), 1.0),
        (["yes", "no"] * 10, ("no", "yes"), 1.0),
        (pd.Categorical(["b", "a"] * 10, categories=["b", "unused", "a"]), ("a", "b"), 1.0),
        (pd.array([2, 1] * 10, dtype="Int64"), ("1", "2"), 1.0),
    ],
)
def test_two_classes_become_minus_and_plus_one(values: object, classes: tuple[str, ...], first: float) -> None:
    series = pd.Series(values, name="target")
    expected = np.tile([first, -first], 10)
    assert target_classes(series) == classes
    assert np.array_equal(encode_target(series, classes[1]), expected)
    assert np.array_equal(encode_target(series, classes[0]), -expected)


@pytest.mark.parametrize(("truths", "positive"), [([True, False], "1"), ([1, 0], "True"), ([False, True], "0")])
def test_one_and_true_are_the_same_class_of_a_target(truths: list[object], positive: str) -> None:
    assert np.array_equal(encode_target(pd.Series(truths), positive), [1.0, -1.0])


def test_one_class_against_the_rest() -> None:
    series = pd.Series([3, 1, 2, 2], name="target")
    assert np.array_equal(encode_target(series, "2"), [-1.0, -1.0, 1.0, 1.0])


def test_of_many_classes_the_most_frequent_twenty_are_shown() -> None:
    series = pd.Series(np.repeat(np.arange(50), np.arange(50) + 1))
    assert target_classes(series) == tuple(str(value) for value in range(30, 50))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20))
def test_suggested_bounds_are_a_usable_range_around_the_values(values: list[float]) -> None:
    suggested = suggested_bounds(pd.DataFrame({"x": values}), ["x"])
    finite = [value for value in values if math.isfinite(value)]
    assert bool(suggested) == bool(finite)
    if finite:
        low, high = suggested["x"]
        assert -1e100 <= low < high <= 1e100
        size = max(abs(value) for value in finite)
        # Up to the rounding of a decimal step to binary.
        assert low <= max(min(finite), -1e100) + 1e-12 * size and high >= min(max(finite), 1e100) - 1e-12 * size


def test_suggested_bounds_are_round_numbers() -> None:
    table = pd.DataFrame({"a": [17.3, 89.1], "b": [0.0, 0.4268], "c": [5.0, 5.0], "d": ["x", "y"], "e": [-1234, 988]})
    assert suggested_bounds(table, list("abcde")) == {
        "a": (10.0, 90.0),
        "b": (0.0, 0.5),
        "c": pytest.approx((5.0 - 1e-6, 5.0 + 1e-6)),
        "e": (-2000.0, 1000.0),
    }


def test_from_the_bytes_of_a_file_to_a_loaded_data_set() -> None:
    generator = np.random.default_rng(1)
    original = pd.DataFrame(generator.normal(size=(300, 2)), columns=["x", "y"])
    original["class"] = generator.choice(["spam", "ham"], 300)
    table = read_table(original.to_csv(index=False, sep=";").encode(), "mail.csv", reading=Reading(separator=";"))
    ready = prepare(table, "class", "spam", ["x", "y"], {"x": (-1, 1), "y": (-5, 5)}, drop_missing=False)
    data = ready.specification.load({ready.specification.identity: ready.table})
    expected = np.column_stack([original["x"].clip(-1, 1), original["y"].clip(-5, 5)])
    np.testing.assert_allclose(data.features, expected, rtol=1e-12, atol=0.0)  # as test_csv_round_trip
    assert np.array_equal(data.labels > 0, original["class"] == "spam")


@pytest.mark.parametrize("rows", [39, 41])
def test_a_table_with_another_number_of_rows_than_declared_is_refused(rows: int) -> None:
    """n is public and fixed: the noise of every plan is for that many rows."""
    columns = ["age", "income"]
    data = prepare(frame(), "label", "yes", columns, BOUNDS).specification
    other = pd.concat([frame(), frame()], ignore_index=True)[:rows]
    assert len(data.rows(frame())) == data.n == 40
    with pytest.raises(UserError, match=f"{rows}.*40|40.*{rows}"):
        data.rows(other)


@pytest.mark.parametrize("cells", [["yes", "no"], ["a", "b"], [None, None], ["2020-01-01", "2021-01-01"]])
def test_a_column_without_a_number_is_noted_on_the_page_and_refused_in_the_library(cells: list[str]) -> None:
    frame = pd.DataFrame({"smoker": cells * 20, "age": np.arange(40.0), "target": [0, 1] * 20})
    found = prepare(frame, "target", "1", ["smoker", "age"], {"smoker": (0.0, 1.0), "age": (0.0, 100.0)})
    with pytest.raises(UserError, match="'smoker': declare categories"):
        found.specification.rows(frame)
    assert any("'smoker'" in note and "'age'" not in note for note in found.notes)
