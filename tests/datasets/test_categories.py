"""Categorical tables: declared lists that hold whatever the rows contain, and a histogram that is a distribution."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.datasets.categories import (
    MAX_DOMAIN,
    CategoricalBundled,
    CategoricalFacts,
    CategoricalGenerator,
    CategoricalSpecification,
    CategoricalTable,
    CategoricalUpload,
    PreparedCategories,
    prepare_categories,
    suggest_categories,
)
from dpviz.datasets.uploads.parsing import Bins, Declared
from dpviz.errors import UserError
from dpviz.resources import data_file
from dpviz.specification import Specification

SECRET = "s3cret"


def frame(**changes: object) -> pd.DataFrame:
    """Forty rows: text, whole numbers with a gap, true or false, and what cannot be a category."""
    n = 40
    columns = {
        "colour": ["red", "green", None, " red ", "Red", SECRET, "other", "green"] * 5,
        "count": [0.0, 1.0, 2.0, np.nan, 7.0, 1.5, -1.0, np.inf] * 5,
        "member": [True, False] * 20,
        "name": [f"{SECRET}-{i}" for i in range(n)],
        "mixed": ["1", "2", "x", "", "1e3", "-inf", "nan", "2.0"] * 5,
        "age": np.arange(n) + 20,
        "empty": [None] * n,
        "same": ["a"] * n,
        "day": pd.date_range("2020-01-01", periods=n),
    }
    return pd.DataFrame(columns | changes)


def codes(declared: Declared, column: str, table: pd.DataFrame | None = None) -> tuple[list[int], tuple[str, ...]]:
    """The codes of the first eight rows and the list of categories of one prepared column."""
    prepared = prepare_categories(frame() if table is None else table, {column: declared})
    return prepared.table[:8, 0].tolist(), prepared.specification.columns[0][1]


SOURCES = {"generator": CategoricalGenerator(rows=700, seed=3), "bundled": CategoricalBundled()}


@pytest.mark.parametrize("source", SOURCES)
def test_a_table_keeps_to_its_facts_and_its_histogram_is_a_distribution(source: str) -> None:
    data = SOURCES[source]
    table = data.load()
    facts = data.facts()
    assert table.codes.shape == (facts.n, len(facts.columns)) and table.codes.dtype == np.int16
    assert (table.codes >= 0).all() and (table.codes < np.array(facts.sizes)).all()
    assert not table.codes.flags.writeable and not table.histogram.flags.writeable
    assert table.histogram.shape == (facts.domain_size,) and (table.histogram >= 0).all()
    assert table.histogram.sum() == pytest.approx(1, abs=1e-12)
    assert np.array_equal(table.codes, data.load().codes), "the same rows every time"
    assert Specification.from_json(data.to_json()) == data
    for size, column in zip(facts.sizes, table.codes.T, strict=True):
        assert len(np.unique(column)) == size, "no declared category of these tables is empty"


def test_the_survey_has_480_combinations_and_correlated_answers() -> None:
    data = CategoricalGenerator()
    assert data.facts().sizes == (2, 3, 4, 4, 5) and data.facts().domain_size == 480 and data.facts().n == 10_000
    shares = data.load().histogram.reshape(data.facts().sizes)
    pair = shares.sum(axis=(0, 1, 3))
    independent = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    # Ten standard errors of a share: independent columns would stay below four.
    assert np.abs(pair - independent).max() > 10 * 0.5 / np.sqrt(10_000)
    assert not np.array_equal(data.load().codes, CategoricalGenerator(seed=1).load().codes)


def test_the_insurance_table_is_binned_as_declared() -> None:
    raw = pd.read_parquet(data_file("health_insurance.parquet"))
    facts = CategoricalBundled().facts()
    table = facts.decode(CategoricalBundled().load().indices)
    assert facts.domain_size == 2000 and len(table) == len(raw) == facts.n
    visits = raw["mdvis"].map(lambda v: str(v) if v < 3 else "3 to 5" if v < 6 else "6 or more")
    assert (table["visits"] == visits).all()
    percent = {0: "0 %", 26: "25 %", 51: "50 %", 96: "95 %", 101: "100 %"}
    levels = np.exp(raw["lncoins"]).round().astype(int).map(lambda v: percent.get(v, "0 %"))
    assert (table["coinsurance"] == levels).all()
    assert ((table["deductible"] == "yes") == (raw["idp"] == 1)).all()
    assert ((table["limitation"] == "yes") == (raw["physlm"] >= 0.5)).all()
    for label, column in (("good", "hlthg"), ("fair", "hlthf"), ("poor", "hlthp")):
        assert ((table["health"] == label) == (raw[column] == 1)).all()
    assert ((table["diseases"] == "10 to 15") == ((raw["disea"] >= 10) & (raw["disea"] < 15))).all()


def test_decoding_and_encoding_are_inverse() -> None:
    facts = CategoricalGenerator().facts()
    indices = np.arange(facts.domain_size)
    table = facts.decode(indices)
    assert list(table.columns) == [name for name, _ in facts.columns] and not table.duplicated().any()
    places = [[categories.index(v) for v in table[name]] for name, categories in facts.columns]
    again = CategoricalTable(np.array(places, dtype=np.int16).T, facts)
    assert np.array_equal(again.indices, indices)
    prepared = prepare_categories(table.astype(str), dict(facts.columns))
    assert prepared.unlisted == dict.fromkeys(table.columns, 0)
    assert np.array_equal(prepared.table, np.array(places).T)
    assert facts.decode(np.array([], dtype=np.int64)).shape == (0, 5)


def test_codes_outside_a_list_become_its_last_category() -> None:
    class Broken(CategoricalSpecification):
        def facts(self) -> CategoricalFacts:
            return CategoricalFacts(3, (("a", ("x", "y")), ("b", ("x", "y", "z"))))

        def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray]:
            return (np.array([[-1, 2**40], [1, 3], [0, -(2**62)]]),)

    assert Broken().load().codes.tolist() == [[1, 2], [1, 2], [0, 2]]


def test_values_that_are_not_listed_or_missing_become_other() -> None:
    assert codes(["red", "green"], "colour") == ([0, 1, 2, 0, 2, 2, 2, 1], ("red", "green", "other"))
    assert codes(["other", "green"], "colour") == ([1, 0, 1, 1, 1, 1, 1, 0], ("green", "other")), "other goes last"
    assert codes(["0", "1", "2"], "count") == ([0, 1, 2, 3, 3, 3, 3, 3], ("0", "1", "2", "other"))
    assert codes(["True"], "member")[0] == [0, 1] * 4
    assert codes(["yes"], "empty")[0] == [1] * 8
    assert codes([" red "], "colour", frame().astype({"colour": "category"}))[0] == [0, 1, 1, 0, 1, 1, 1, 1]
    assert prepare_categories(frame(), {"colour": ["red", "green"]}).unlisted == {"colour": 20}


def test_bins_take_every_number_and_other_the_rest() -> None:
    labels = ("below 1", "1 to below 2", "2 or more", "other")
    assert codes(Bins((1, 2)), "count") == ([0, 1, 2, 3, 2, 1, 0, 2], labels)
    assert codes(Bins((1, 2)), "mixed") == ([1, 2, 3, 3, 2, 0, 3, 2], labels)
    assert Bins((0.5, 1e6)).labels == ("below 0.5", "0.5 to below 1000000", "1000000 or more")
    assert codes(Bins((0,)), "empty")[0] == [2] * 8
    huge = frame(count=pd.Series([10**400, -(10**400), 1, None, 2, 3, 4, 5] * 5, dtype=object))
    assert codes(Bins((2,)), "count", huge)[0] == [1, 0, 0, 2, 1, 1, 1, 1]


REFUSED: dict[str, tuple[dict[str, Declared], str, str]] = {
    "nothing": ({}, "No column is chosen", "at least one"),
    "unknown": ({"height": ["a"]}, "The file has no column 'height'", "again"),
    "empty list": ({"colour": []}, "The categories of column 'colour' cannot", "at least one category"),
    "only other": ({"colour": ["other"]}, "The categories of column 'colour' cannot", "at least one category"),
    "empty text": ({"colour": ["red", " "]}, "The categories of column 'colour' cannot", "none that is empty"),
    "twice": ({"colour": ["red", "red "]}, "The categories of column 'colour' cannot", "'red' is listed twice"),
    "too long": ({"colour": ["x" * 201]}, "The categories of column 'colour' cannot", "200 characters"),
    "too many": ({"age": [str(i) for i in range(1001)]}, "The categories of column 'age' cannot", "use ranges"),
    "no edges": ({"age": Bins(())}, "The edges of column 'age' do not increase", "at least one"),
    "edges down": ({"age": Bins((2, 1))}, "The edges of column 'age' do not increase", "larger"),
    "edge missing": ({"age": Bins((1, np.nan))}, "The edges of column 'age' do not increase", "larger"),
    "edge infinite": ({"age": Bins((1, np.inf))}, "The edges of column 'age' do not increase", "larger"),
    "twice as numbers": ({"count": ["1", "1.0"]}, "The categories of column 'count' cannot", "'1.0' is listed twice"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_a_sentence(case: str) -> None:
    columns, title, message = REFUSED[case]
    with pytest.raises(UserError, match=message) as caught:
        prepare_categories(frame(), columns)
    assert caught.value.title.startswith(title)
    assert SECRET not in caught.value.title + str(caught.value)


def test_a_table_of_a_few_rows_is_refused() -> None:
    with pytest.raises(UserError, match="At least 20"):
        prepare_categories(frame()[:19], {"colour": ["red"]})


def test_too_many_combinations_name_the_columns_to_drop() -> None:
    columns: dict[str, Declared] = {
        "age": [str(i) for i in range(100)],
        "count": [str(i) for i in range(60)],
        "name": [str(i) for i in range(40)],
        "colour": ["red"],
    }
    with pytest.raises(UserError, match=r"At most 50,000 .* Leave out 'age' \(101 categories\), or merge") as caught:
        prepare_categories(frame(), columns)
    assert caught.value.title == f"The columns have {101 * 61 * 41 * 2:,} combinations"
    del columns["age"]
    assert prepare_categories(frame(), columns).specification.facts().domain_size == 61 * 41 * 2
    exact: dict[str, Declared] = {"age": [str(i) for i in range(249)], "count": [str(i) for i in range(199)]}
    assert prepare_categories(frame(), exact).specification.facts().domain_size == MAX_DOMAIN
    text = CategoricalUpload(identity="a" * 32, n=40, columns=(("x", ("0", "1")),)).to_json()
    wide = str([str(i) for i in range(900)]).replace("'", '"')
    with pytest.raises(UserError, match="Leave out 'x' "):
        Specification.from_json(text.replace('[["x",["0","1"]]]', f'[["x",{wide}],["y",{wide}]]'))


def upload() -> PreparedCategories:
    return prepare_categories(frame(), {"colour": ["red", "green"], "count": Bins((1, 2)), "member": ["True"]})


def test_an_upload_is_made_by_its_declarations_and_loads_from_memory_only() -> None:
    prepared = upload()
    specification = prepared.specification
    assert np.array_equal(specification.rows(frame()), prepared.table) and specification.edges == (("count", (1, 2)),)
    assert upload().specification.identity != specification.identity
    with pytest.raises(UserError, match="these settings are for 40"):
        specification.rows(frame()[:30])
    assert not specification.public and not prepared.table.flags.writeable
    assert specification.facts().sizes == (3, 4, 2) and specification.facts().n == 40
    loaded = specification.load({specification.identity: prepared.table})
    assert np.array_equal(loaded.codes, prepared.table)
    assert Specification.from_json(specification.to_json()) == specification
    others = (prepared.table[:-1], prepared.table.astype(np.float64))
    for tables in ({}, *({specification.identity: other} for other in others)):
        with pytest.raises(UserError, match=r"Upload the file again|An array of"):
            specification.load(tables)


def test_a_damaged_specification_is_a_sentence() -> None:
    specification = upload().specification
    for columns, message in (
        ((("a", ("x", "y")), ("a", ("x", "y"))), "its own name"),
        ((("a", ("x", "x")),), "lists a category twice"),
        ((("a", ("x",)),), "at least 2"),
        ((), "at least 1"),
        (specification.columns[1:], "edges need a column"),
    ):
        with pytest.raises(ValueError, match=message):
            specification.replaced(columns=columns, edges=(("count", (1, 2, 3)),) if len(columns) == 2 else ())


def test_forged_codes_of_an_upload_stay_in_the_declared_lists() -> None:
    specification = upload().specification
    forged = np.full((40, 3), 999, dtype=np.int16)
    forged[::2] = -5
    assert (specification.load({specification.identity: forged}).codes == [2, 3, 1]).all()


def test_suggestions_can_be_declared_as_they_are() -> None:
    suggested = suggest_categories(frame())
    assert suggested["colour"] == ("Red", "green", "red", SECRET)
    assert suggested["count"] == ("-1", "0", "1", "1.5", "2", "7", "inf"), "numbers in their own order"
    assert suggested["member"] == ("False", "True")
    assert suggested["age"] == Bins((28.0, 36.0, 43.0, 51.0))
    assert not {"name", "empty", "same", "day"} & set(suggested)
    for name, declared in suggested.items():
        assert prepare_categories(frame(), {name: declared}).unlisted[name] <= 20
    mostly_zero = pd.DataFrame({"x": np.r_[np.zeros(900), np.arange(1, 101)]})
    assert suggest_categories(mostly_zero) == {"x": Bins((1.0,))}
    one_float = pd.DataFrame({"x": np.repeat(10**18 + np.arange(13), 2)})  # 13 numbers that are the same as float64
    assert suggest_categories(one_float)["x"] == tuple(str(10**18 + number) for number in range(12))


CELLS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.sampled_from("ab"))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(CELLS, min_size=20, max_size=30), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=4, unique=True))
def test_whatever_the_cells_every_row_gets_a_declared_category(cells: list[object], edges: list[float]) -> None:
    table = pd.DataFrame({"x": pd.Series(cells, dtype=object)})
    suggestion = suggest_categories(table).get("x", ("a",))
    for declared in (("a", "1"), suggestion, Bins(tuple(sorted(edges)))):
        prepared = prepare_categories(table, {"x": declared})
        facts = prepared.specification.facts()
        assert ((prepared.table >= 0) & (prepared.table < facts.sizes[0])).all()
        missing = table["x"].isna().to_numpy()
        assert (prepared.table[missing, 0] == facts.sizes[0] - 1).all()
