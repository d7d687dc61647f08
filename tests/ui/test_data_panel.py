"""The panel for a user's file: every bad file gets a sentence, nothing is dropped or guessed silently."""

import gc
import io

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.ui.uploads import file
from tests.confirming import confirmed


def script() -> None:
    import streamlit as st

    from dpviz.ui.uploads import table as data_panel

    st.session_state["dataset"], st.session_state["tables"] = data_panel.uploaded("p")


def table(rows: int = 60) -> pd.DataFrame:
    x = np.arange(rows, dtype=float)
    return pd.DataFrame({"age": x % 7, "height": x % 11, "sick": np.where(x % 3 == 0, "yes", "no")})


def csv(frame: pd.DataFrame) -> bytes:
    return frame.to_csv(index=False).encode()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=300).run()


def upload(app: AppTest, data: bytes, name: str = "table.csv") -> AppTest:
    app.file_uploader[0].upload(name, data, "text/csv")
    confirmed(app.run())
    assert not app.exception
    return app


def fill(app: AppTest) -> AppTest:
    app.button(key="p_upload_fill").click().run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    return " ".join(str(getattr(error.proto, "title", "")) + " " + error.value for error in [*app.error, *app.info])


def test_without_a_file_the_panel_says_what_it_is_for(app: AppTest) -> None:
    assert not app.exception and app.session_state["dataset"] is None
    assert "Not a release tool" in app.info[0].value


@pytest.mark.slow
def test_no_more_is_kept_of_all_visitors_files_than_there_is_room_for(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    before, size = sum(file._held.values()), 60 * (8 + 8 + 4)
    monkeypatch.setattr(file, "MOST_HELD", before + 2 * size)
    upload(app, csv(table()))
    assert size <= sum(file._held.values()) - before < 2 * size and not app.error
    upload(app, csv(table(200)))
    gc.collect()
    assert "keeps many files already" in said(app) and sum(file._held.values()) == before
    upload(app, csv(table()))
    assert "keeps many files already" not in said(app)


def test_ranges_must_be_declared_and_may_be_filled_with_a_warning(app: AppTest) -> None:
    upload(app, csv(table()))
    assert app.session_state["dataset"] is None and "needs a range" in said(app) and not app.error
    fill(app)
    dataset, tables = app.session_state["dataset"], app.session_state["tables"]
    assert not app.error
    assert dataset.n == 60 and dataset.names == ("age", "height") and dataset.bounds == ((0.0, 6.0), (0.0, 10.0))  # type: ignore[attr-defined]
    assert list(tables) == [dataset.identity] and tables[dataset.identity].shape == (60, 3)  # type: ignore[attr-defined]
    assert "not private" in " ".join(markdown.value for markdown in app.markdown)
    assert set(dataset.load(tables).labels) == {-1.0, 1.0}  # type: ignore[attr-defined]


def test_parquet_is_read_too(app: AppTest) -> None:
    buffer = io.BytesIO()
    table().to_parquet(buffer)
    fill(upload(app, buffer.getvalue(), "table.parquet"))
    assert app.session_state["dataset"].n == 60


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (b"", "empty"),
        (b"   \n", "empty"),
        (b"\xff\xfe\x00\x81", "could not be read"),
        (b"just some words\nand more\n", "not a table"),
        (csv(table(5)), "Only 5 rows"),
        (csv(table().iloc[:0]), "no rows"),
    ],
)
def test_a_bad_file_gets_a_sentence(app: AppTest, data: bytes, title: str) -> None:
    upload(app, data)
    assert title in said(app) and app.session_state["dataset"] is None


def captions(app: AppTest) -> str:
    return " ".join(caption.value.replace("\\", "") for caption in app.caption)


def test_a_target_with_too_many_classes_is_noted_with_those_that_fit(app: AppTest) -> None:
    fill(upload(app, csv(table().assign(number=np.arange(60.0)))))
    app.selectbox(key="p_upload_target").set_value("number").run()
    assert not app.exception and app.selectbox(key="p_upload_target").value == "number"
    assert "counted in the file: column 'number' has more than 20 classes. Columns that fit: sick" in captions(app)
    assert app.selectbox(key="p_upload_positive").value == "1"  # not the class of the other target
    app.selectbox(key="p_upload_positive").set_value("5").run()
    assert not app.exception
    app.multiselect(key="p_upload_features").set_value(["age", "height"]).run()
    dataset = app.session_state["dataset"]
    assert (dataset.target, dataset.positive) == ("number", "5")


def test_a_choice_that_comes_back_is_the_same_data_set(app: AppTest) -> None:
    fill(upload(app, csv(table())))
    first = app.session_state["dataset"]
    app.multiselect(key="p_upload_features").set_value(["age"]).run()
    second = app.session_state["dataset"]
    app.multiselect(key="p_upload_features").set_value(["age", "height"]).run()
    assert app.session_state["dataset"] == first and second.identity != first.identity
    fill(upload(app, csv(table())))
    assert app.session_state["dataset"].identity not in (first.identity, second.identity)


def test_of_several_classes_one_is_the_positive_one(app: AppTest) -> None:
    frame = table().drop(columns="sick").assign(kind=np.resize(["a", "b", "c"], 60))
    upload(app, csv(frame))
    app.selectbox(key="p_upload_target").set_value("kind")
    app.run()
    app.selectbox(key="p_upload_positive").set_value("b")
    app.run()
    fill(app)
    dataset = app.session_state["dataset"]
    assert (dataset.load(app.session_state["tables"]).labels == 1).sum() == 20


def test_columns_of_texts_are_left_out_and_named_and_can_be_chosen(app: AppTest) -> None:
    frame = table().assign(name=[f"row {i}" for i in range(60)], same=1.0, huge=np.r_[np.inf, np.arange(59.0)])
    upload(app, csv(frame))
    app.selectbox(key="p_upload_target").set_value("sick").run()
    assert "Left out at first, because they hold texts: 'name'." in captions(app)
    assert app.multiselect(key="p_upload_features").value == ["age", "height", "same", "huge"]
    app.multiselect(key="p_upload_features").set_value(["age", "same", "huge", "name"]).run()
    fill(app)
    assert "'name' needs a range" in said(app)
    app.multiselect(key="p_upload_features").set_value(["age", "same", "huge"]).run()
    assert not app.exception and not app.error and app.session_state["dataset"].n == 60
    assert "costs noise: 'same'" in captions(app) and "the middle of the declared range: 1 in 'huge'" in captions(app)


def test_missing_values_are_filled_and_counted_and_dropped_only_if_asked(app: AppTest) -> None:
    frame = table()
    frame.loc[[2, 5, 9], "age"] = np.nan
    fill(upload(app, csv(frame)))
    assert not app.error and app.session_state["dataset"].n == 60
    assert "the middle of the declared range: 3 in 'age'" in captions(app)
    assert app.toggle(key="p_upload_drop").label == "Drop the 3 rows with missing values"
    app.toggle(key="p_upload_drop").set_value(True).run()
    assert not app.exception and not app.error and "then depends on the data" in captions(app)
    assert app.session_state["dataset"].n == 57 and "3 dropped" in app.success[0].value


@pytest.mark.slow
def test_two_million_rows_are_refused_with_the_limit_and_a_sample_is_offered(app: AppTest) -> None:
    lines = b"a,b,target\n" + b"1,2,0\n3,4,1\n" * 1_000_001
    upload(app, lines)
    assert "More than 1,000,000 rows" in said(app)
    app.button[0].click().run()
    assert not app.exception
    fill(app)
    assert app.session_state["dataset"].n == 1_000_000


def test_removing_the_file_forgets_it_and_a_new_one_starts_afresh(app: AppTest) -> None:
    fill(upload(app, csv(table())))
    upload(app, csv(table().rename(columns={"age": "years"})))
    assert app.session_state["dataset"] is None and "'years' needs a range" in said(app)
    fill(app)
    assert app.session_state["dataset"].names == ("years", "height")  # type: ignore[attr-defined]


def test_choices_survive_a_wrong_one(app: AppTest) -> None:
    fill(upload(app, csv(table())))
    app.multiselect(key="p_upload_features").set_value([]).run()
    assert "No feature is chosen" in said(app)
    app.multiselect(key="p_upload_features").set_value(["age", "height"]).run()
    assert not app.exception and not app.error
    assert app.session_state["dataset"].bounds == ((0.0, 6.0), (0.0, 10.0))


def choose_number(app: AppTest, target: str) -> AppTest:
    app.selectbox(key="p_upload_target").set_value(target)
    next(control for control in app.segmented_control if control.key == "p_upload_kind").set_value("number")
    app.run()
    assert not app.exception
    return app


def type_into(app: AppTest, name: str, rows: dict[str, dict[str, object]]) -> AppTest:
    """Declare something of columns, in the table to fill in whose key contains the name."""
    editor = next(editor for editor in app.data_editor if f"_{name}_" in editor.key)
    places = list(editor.value.index)
    app.session_state[editor.key] = {
        "edited_rows": {places.index(column): cells for column, cells in rows.items()},
        "added_rows": [],
        "deleted_rows": [],
    }
    app.run()
    assert not app.exception
    return app


def test_the_first_target_offered_is_the_last_column_of_texts_whatever_the_rows_say(app: AppTest) -> None:
    """One row with a third class offered another target, which entered the settings."""
    odd = table().assign(flag=np.arange(60) % 2, kind=np.resize(["a", "b"], 60))[["kind", "age", "sick", "flag"]]
    for rows in (0, 1, 2):
        upload(app, csv(odd.assign(sick=["maybe"] * rows + odd["sick"].tolist()[rows:])))
        assert app.selectbox(key="p_upload_target").value == "sick"
        assert app.selectbox(key="p_upload_positive").value == "yes"
        assert "Not private**: the list shows the classes in the file" in captions(app)
    upload(app, csv(table().drop(columns="sick").assign(flag=np.arange(60) % 2)))
    assert app.selectbox(key="p_upload_target").value == "flag"


@pytest.mark.parametrize("classes", [("bad", "good"), ("False", "True"), ("0", "2")])
def test_a_positive_class_with_another_name_is_chosen_by_the_visitor(app: AppTest, classes: tuple[str, str]) -> None:
    """The class that was offered came from the file, and entered the settings without a mark."""
    app.file_uploader[0].upload("table.csv", csv(table().assign(sick=np.resize(classes, 60))), "text/csv")
    fill(confirmed(app.run(), positive=False))
    if classes == ("0", "2"):
        app.selectbox(key="p_upload_target").set_value("sick").run()
        app.multiselect(key="p_upload_features").set_value(["age", "height"]).run()
    assert app.selectbox(key="p_upload_positive").value is None
    assert "No positive class is chosen" in said(app) and not app.error and app.session_state["dataset"] is None
    app.selectbox(key="p_upload_positive").set_value(classes[0]).run()
    assert app.session_state["dataset"].positive == classes[0]  # type: ignore[attr-defined]


def test_a_number_can_be_the_target_and_its_range_is_declared_too(app: AppTest) -> None:
    choose_number(upload(app, csv(table())), "height")
    assert "'age' needs a range" in said(app) and not app.error
    assert not any(widget.key == "p_upload_positive" for widget in app.selectbox)
    type_into(app, "ranges", {"height": {"lowest": 1.0, "highest": 8.0}, "age": {"lowest": 0.0, "highest": 6.0}})
    dataset, tables = app.session_state["dataset"], app.session_state["tables"]
    assert not app.error and dataset.names == ("age",) and dataset.target_range == (1.0, 8.0)
    loaded = dataset.load(tables)
    assert np.array_equal(loaded.labels, np.clip(np.arange(60) % 11, 1, 8)) and loaded.facts.target == (1.0, 8.0)
    assert "not private" not in " ".join(markdown.value for markdown in app.markdown)
    type_into(app, "ranges", {"height": {"lowest": 9.0, "highest": 8.0}, "age": {"lowest": 0.0, "highest": 6.0}})
    assert "'height' needs a range" in said(app) and app.session_state["dataset"] is None


def test_a_missing_number_to_predict_is_filled_or_dropped(app: AppTest) -> None:
    frame = table()
    frame.loc[[2, 5], "height"] = np.nan
    fill(choose_number(upload(app, csv(frame)), "height"))
    assert app.session_state["dataset"].target_range == (0.0, 10.0)
    assert "the middle of the declared range: 2 in 'height'" in captions(app)
    assert app.toggle(key="p_upload_drop").label == "Drop the 2 rows with missing values"
    app.toggle(key="p_upload_drop").set_value(True).run()
    assert not app.exception and app.session_state["dataset"].n == 58


def test_texts_become_features_by_declared_categories(app: AppTest) -> None:
    frame = table().assign(area=np.resize(["north", "south", "east"], 60), code=np.arange(60) % 5)
    upload(app, csv(frame))
    app.selectbox(key="p_upload_target").set_value("sick").run()
    fill(app)
    assert app.session_state["dataset"].names == ("age", "height", "code")
    app.multiselect(key="p_upload_features").set_value(["age"])
    app.run()
    app.multiselect(key="p_upload_lists").set_value(["area", "code"]).run()
    assert not app.exception and "categories of column 'area' cannot be used" in said(app)
    type_into(app, "lists", {"area": {"categories": "north, south"}, "code": {"categories": "bins: 2, 4"}})
    dataset = app.session_state["dataset"]
    assert not app.error and dataset.facts().names == (
        *("age", "area: north", "area: south", "area: other"),
        *("code: below 2", "code: 2 to below 4", "code: 4 or more", "code: other"),
    )
    assert "8 features from 3 columns" in app.success[0].value and "“other”: 20 in 'area'" in captions(app)
    rows = dataset.load(app.session_state["tables"]).features
    assert rows[:3, 1:4].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]] and (rows[:, 4:].sum(axis=1) == 1).all()


def test_categories_may_be_filled_with_a_warning_and_a_wrong_list_is_named(app: AppTest) -> None:
    frame = table().assign(area=np.resize(["north", "south", "east"], 60))
    upload(app, csv(frame))
    app.selectbox(key="p_upload_target").set_value("sick").run()
    app.multiselect(key="p_upload_features").set_value([])
    app.multiselect(key="p_upload_lists").set_value(["area"]).run()
    app.button(key="p_upload_fill_lists").click().run()
    assert not app.exception and not app.error
    assert app.session_state["dataset"].categories == (("area", ("east", "north", "south", "other")),)
    assert "categories taken from the data: not private" in " ".join(markdown.value for markdown in app.markdown)
    type_into(app, "lists", {"area": {"categories": "north, north"}})
    assert "'north' is listed twice" in said(app) and app.session_state["dataset"] is None
    type_into(app, "lists", {"area": {"categories": "bins: a, b"}})
    assert "are no numbers" in said(app) and "Some categories cannot be read" in said(app)


def test_a_column_of_categories_that_becomes_the_target_is_none_any_more(app: AppTest) -> None:
    frame = table().assign(area=np.resize(["north", "south"], 60))
    upload(app, csv(frame))
    app.selectbox(key="p_upload_target").set_value("sick").run()
    app.multiselect(key="p_upload_lists").set_value(["area"]).run()
    app.selectbox(key="p_upload_target").set_value("area").run()
    assert not app.exception and app.multiselect(key="p_upload_lists").value == []


def test_a_new_file_starts_with_two_classes_and_no_column_of_categories(app: AppTest) -> None:
    frame = table().assign(area=np.resize(["north", "south"], 60))
    choose_number(upload(app, csv(frame)), "height")
    app.multiselect(key="p_upload_lists").set_value(["area"]).run()
    upload(app, csv(frame))
    assert next(control.value for control in app.segmented_control if control.key == "p_upload_kind") == "classes"
    assert app.multiselect(key="p_upload_lists").value == []
