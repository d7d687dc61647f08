"""The panel for a categorical file: lists are declared, the domain is in sight, mistakes get a sentence."""

import io

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets.uploads.lists import Bins, Declared
from dpviz.errors import UserError
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.ui.uploads.categories import categories_text, parse_categories
from tests.confirming import confirmed


def script() -> None:
    import streamlit as st

    from dpviz.ui.uploads import categories as category_upload

    if not st.session_state.get("hidden"):
        st.session_state["dataset"], st.session_state["tables"] = category_upload.uploaded("p")


def table(rows: int = 60) -> pd.DataFrame:
    x = np.arange(rows)
    return pd.DataFrame(
        {
            "area": np.resize(["city", "town", "country"], rows),
            "owned": np.where(x % 4 == 0, "yes", "no"),
            "age": 18 + x % 50,
            "name": [f"person {number}" for number in x],
        }
    )


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=300).run()


def upload(app: AppTest, frame: pd.DataFrame | bytes, name: str = "table.csv") -> AppTest:
    data = frame if isinstance(frame, bytes) else frame.to_csv(index=False).encode()
    app.file_uploader[0].upload(name, data, "text/csv")
    confirmed(app.run())
    assert not app.exception
    return app


def declare(app: AppTest, **lists: str | None) -> AppTest:
    """Use columns with the given lists; None takes a column out."""
    editor = app.data_editor[0]
    rows = list(editor.value.index)
    app.session_state[editor.key] = {
        "edited_rows": {
            rows.index(name): {"used": False} if text is None else {"used": True, "categories": text}
            for name, text in lists.items()
        },
        "added_rows": [],
        "deleted_rows": [],
    }
    app.run()
    assert not app.exception
    return app


def fill(app: AppTest) -> AppTest:
    app.button(key="p_categories_upload_fill").click().run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    return " ".join(f"{getattr(error.proto, 'title', '')} {error.value}" for error in [*app.error, *app.info])


def text(app: AppTest) -> str:
    return " ".join(element.value for element in [*app.markdown, *app.caption])


# -------------------------------------------------------------------------------------------------------- text of lists


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("a, b,c ", ("a", "b", "c")),
        ('"New York, NY", Boston', ("New York, NY", "Boston")),
        ('"say ""hi""", b', ('say "hi"', "b")),
        ("bins: 0, 10, 20.5", Bins((0.0, 10.0, 20.5))),
        (" Bins:-1e3 ,0", Bins((-1000.0, 0.0))),
        ('"bins: 1", b', ("bins: 1", "b")),
        ("bins:", Bins(())),
        ("", ()),
        ("a,,b", ("a", "", "b")),
    ],
)
def test_lists_and_edges_are_read_as_typed(typed: str, expected: Declared) -> None:
    assert parse_categories("column", typed) == expected


@pytest.mark.parametrize(
    ("typed", "words"),
    [("bins: 0, ten", "no numbers"), ("bins: 0,,1", "no numbers"), ('a, "b', "cannot be read"), ('"a" b', "be read")],
)
def test_what_cannot_be_read_gets_a_sentence(typed: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_categories("column", typed)
    assert words in caught.value.title and "column" in caught.value.title


@pytest.mark.parametrize(
    "declared",
    [
        ("a", "b"),
        ("a, b", 'c"d', '"', "e\nf", "bins: 1", "0"),
        ("bins: 1", "x"),
        Bins((0.0, 0.1, 1e22, 1e300)),
        Bins((-1.5, 1 / 3)),
    ],
    ids=["plain", "special", "like bins", "bins", "fractions"],
)
def test_what_is_filled_in_is_read_back(declared: Declared) -> None:
    assert parse_categories("column", categories_text(declared)) == declared


# ------------------------------------------------------------------------------------------------------------ the panel


def test_declared_lists_make_a_table_and_a_problem(app: AppTest) -> None:
    assert app.session_state["dataset"] is None and "Not a release tool" in app.info[0].value
    upload(app, table())
    assert "No column is chosen" in said(app) and "badge" not in text(app)
    assert not app.data_editor[0].value["used"].any() and not any(app.data_editor[0].value["categories"])
    declare(app, area="city, town", owned="no, yes", age="bins: 30, 45, 60")
    assert not app.error and "|Z| = 45 combinations" in text(app) and "badge" not in text(app)
    dataset, tables = app.session_state["dataset"], app.session_state["tables"]
    assert dataset.columns == (  # type: ignore[attr-defined]
        ("area", ("city", "town", "other")),
        ("owned", ("no", "yes", "other")),
        ("age", ("below 30", "30 to below 45", "45 to below 60", "60 or more", "other")),
    )
    assert list(tables) == [dataset.identity] and np.array_equal(dataset.rows(table()), tables[dataset.identity])  # type: ignore[attr-defined]
    assert "**Not private**, counted in the file: rows that went to “other”: 20 in 'area'." in text(app)
    assert "Ready: 60 rows, 3 columns." in app.success[0].value and not dataset.from_data  # type: ignore[attr-defined]
    np.testing.assert_array_equal(dataset.load(tables).codes[:, 0], np.resize([0, 1, 2], 60))  # type: ignore[attr-defined]
    game = MarginalQueries(data=dataset).build(tables)
    assert game.facts.n == 60 and game.facts.d_x == 45


def test_lists_are_filled_from_the_data_only_on_request_and_marked(app: AppTest) -> None:
    fill(upload(app, table()))
    assert not app.error and "categories taken from the data: not private" in text(app)
    dataset = app.session_state["dataset"]
    assert dataset.from_data == tuple(("categories", name) for name in ("area", "owned", "age"))
    assert [name for name, _ in dataset.columns] == ["area", "owned", "age"]  # a name per row is no category
    assert app.data_editor[0].value.at["age", "categories"].startswith("bins: ")
    assert "went to “other”: none" in text(app)
    assert MarginalQueries(data=dataset).build(app.session_state["tables"]).facts.d_x == dataset.facts().domain_size


def test_numbers_taken_from_the_data_stay_so_as_edges(app: AppTest) -> None:
    fill(upload(app, table().assign(age=np.resize([1, 2, 3], 60))))
    listed = app.data_editor[0].value.at["age", "categories"]
    edges = listed if listed.startswith("bins: ") else f"bins: {listed}"
    declare(app, area=None, owned=None, age=edges)
    assert app.session_state["dataset"].from_data == (("categories", "age"),)
    declare(app, area=None, owned=None, age=edges.removeprefix("bins: "))
    assert app.session_state["dataset"].from_data == (("categories", "age"),)
    declare(app, area=None, owned=None, age="bins: 1.5, 2.5")
    assert app.session_state["dataset"].from_data == ()


def test_a_fill_keeps_what_was_declared_and_adds_no_column(app: AppTest) -> None:
    declare(upload(app, table()), area="city, town", owned="")
    assert "List at least one category" in said(app)
    fill(app)
    columns = dict(app.session_state["dataset"].columns)
    assert columns == {"area": ("city", "town", "other"), "owned": ("no", "yes", "other")}


def test_a_fill_takes_as_many_columns_as_the_domain_holds(app: AppTest) -> None:
    frame = pd.DataFrame({f"c{number}": np.arange(60) % 12 for number in range(8)})
    fill(upload(app, frame))
    assert not app.error and len(app.session_state["dataset"].columns) == 4  # 13⁴ = 28,561 combinations
    declare(app, c4="bins: 1, 2")
    assert "The columns have 114,244 combinations" in said(app) and "Leave out 'c0' (13 categories)" in said(app)
    assert "|Z| = 114,244 combinations of categories so far, of at most 50,000" in text(app)
    assert app.session_state["dataset"] is None
    declare(app, c4="bins: 1, 2", c0=None)
    assert not app.error and "|Z| = 8,788" in text(app)


@pytest.mark.slow
def test_an_enormous_domain_is_refused_too(app: AppTest) -> None:
    frame = pd.DataFrame({f"c{number}": np.arange(60) % 10 for number in range(150)})
    declare(upload(app, frame), **{name: ",".join(map(str, range(999))) for name in frame})
    assert "|Z| = about 10^450" in text(app) and "combinations" in said(app)


@pytest.mark.one_in(11)
@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"area": ""}, "List at least one category"),
        ({"area": "city,,town"}, "none that is empty"),
        ({"area": "city, city"}, "'city' is listed twice"),
        ({"area": "x" * 201}, "at most 200 characters"),
        ({"area": ",".join(map(str, range(1001)))}, "at most 1,000 are possible"),
        ({"age": "bins: 2, 1"}, "edges of column 'age' do not increase"),
        ({"age": "bins:"}, "edges of column 'age' do not increase"),
        ({"age": "bins: 0, nan"}, "edges of column 'age' do not increase"),
        ({"age": "bins: 0, 1e400"}, "edges of column 'age' do not increase"),
        ({"age": "bins: young, old"}, "edges of column 'age' are no numbers"),
        ({"area": 'city, "town'}, "categories of column 'area' cannot be read"),
    ],
)
def test_lists_that_cannot_be_used_get_a_sentence(app: AppTest, lists: dict[str, str], words: str) -> None:
    declare(upload(app, table()), **lists)
    assert words in said(app) and app.session_state["dataset"] is None
    declare(app, owned="yes", **dict.fromkeys(lists))
    assert not app.error and app.session_state["dataset"].columns == (("owned", ("yes", "other")),)  # type: ignore[attr-defined]


def test_ranges_of_a_column_without_numbers_leave_everything_to_other(app: AppTest) -> None:
    declare(upload(app, table()), area="bins: 1, 2")
    assert not app.error and app.session_state["dataset"].n == 60 and "60 in 'area'" in text(app)


def test_every_mistake_is_shown_and_hides_no_other(app: AppTest) -> None:
    declare(upload(app, table()), area='"city', age="bins: x", owned="yes")
    assert "'area' cannot be read" in said(app) and "'age' are no numbers" in said(app) and "|Z| = 2 " in text(app)
    assert "Some categories cannot be read" in said(app)


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (b"", "empty"),
        (b"\xff\xfe\x00\x81", "could not be read"),
        (b"just some words\nand more\n", "not a table"),
        (table(5).to_csv(index=False).encode(), "Only 5 rows"),
    ],
)
def test_a_bad_file_gets_a_sentence(app: AppTest, data: bytes, title: str) -> None:
    upload(app, data)
    assert title in said(app) and app.session_state["dataset"] is None


def test_parquet_with_odd_texts_and_gaps(app: AppTest) -> None:
    frame = table().assign(area=np.resize(["a, b", 'say "hi"', None, "bins: 1"], 60))
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    fill(upload(app, buffer.getvalue(), "table.parquet"))
    assert dict(app.session_state["dataset"].columns)["area"] == ("a, b", "bins: 1", 'say "hi"', "other")
    assert "15 in 'area'" in text(app)


def test_what_was_declared_survives_another_page_and_a_new_file_starts_afresh(app: AppTest) -> None:
    declare(upload(app, table()), area="city, town", age="bins: 30")
    before = app.session_state["dataset"]
    for hidden in (True, False):
        app.session_state["hidden"] = hidden
        app.run()
        assert not app.exception
    assert before is not None and app.session_state["dataset"] == before
    upload(app, table())
    assert "No column is chosen" in said(app) and app.session_state["dataset"] is None
