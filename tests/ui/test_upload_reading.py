"""How a file is read: proposed, confirmed by one click, and declared from then on."""

from collections.abc import Callable

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import read_table
from dpviz.ui.uploads.how import AGAIN
from tests.confirming import confirmed


def script() -> None:
    import streamlit as st

    from dpviz.ui.uploads import table as data_panel

    st.session_state["dataset"], st.session_state["tables"] = data_panel.uploaded("p")


def written(separator: str = ";", decimal: str = ",", header: bool = True) -> bytes:
    rows = [f"{place}{decimal}{place + 100}{separator}{'yes' if place % 3 else 'no'}" for place in range(1, 61)]
    return "\n".join([f"dose{separator}ill"] * header + rows).encode()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=300).run()


def upload(app: AppTest, data: bytes, name: str = "table.csv") -> AppTest:
    app.file_uploader[0].upload(name, data, "text/csv")
    app.run()
    assert not app.exception and not app.error
    return app


def changed(app: AppTest, name: str, value: object) -> AppTest:
    widget: Callable[..., object] = {"missing": app.text_input, "above": app.number_input}.get(name, app.selectbox)
    widget(key=f"p_upload_{name}").set_value(value).run()  # type: ignore[attr-defined]
    assert not app.exception
    return app


def pressed(app: AppTest, name: str) -> AppTest:
    app.button(key=f"p_upload_{name}").click().run()
    assert not app.exception
    return app


def filled(app: AppTest) -> AppTest:
    pressed(confirmed(app), "fill")
    assert not app.error
    return app


def held(app: AppTest, kinds: dict[int, str]) -> AppTest:
    editor = next(editor for editor in app.data_editor if "_kinds_" in editor.key)
    edited = {row: {"holds": kind} for row, kind in kinds.items()}
    app.session_state[editor.key] = {"edited_rows": edited, "added_rows": [], "deleted_rows": []}
    return app.run()


def texts(app: AppTest) -> str:
    return "\n".join(str(element.value) for element in (*app.markdown, *app.caption, *app.info))


def test_nothing_is_made_of_a_file_before_its_reading_is_confirmed_by_one_click(app: AppTest) -> None:
    upload(app, written(",", "."))
    assert "from the data, not private" in texts(app) and not app.session_state["dataset"]
    assert app.session_state["p_upload"].frame.empty and not app.multiselect
    editor = next(editor for editor in app.data_editor if "_kinds_" in editor.key).value
    assert list(editor["column"]) == ["dose", "ill"] and list(editor["holds"]) == ["Numbers", "Texts or categories"]
    assert editor["cells"][0] == "1.101  ·  2.102  ·  3.103"
    confirmed(app)
    assert not app.error and "60 rows, 2 columns" in texts(app)
    assert not [button for button in app.button if button.key == "p_upload_confirm"]
    pressed(app, "fill")
    dataset = app.session_state["dataset"]
    assert dataset.reading.separator == "," and dataset.reading.kinds == ("number", "text")
    assert dataset.bounds[0][1] < 100
    assert "Cells are separated by: comma. Decimal mark: point. The first row names the columns." in texts(app)


def test_one_row_that_changes_the_proposal_changes_no_other_row_under_what_was_declared(app: AppTest) -> None:
    """The same file, but for one row, comes again in the session: it is read as it was declared, without a question."""
    rows = [f"{place % 9}.{place + 100},{20 + place},{'yes' if place % 3 else 'no'}" for place in range(300)]
    first = "\n".join(["dose,age,ill", *rows]).encode()
    filled(upload(app, first))
    dataset = app.session_state["dataset"]
    frame = app.session_state["p_upload"].frame
    for other in ('"0,5",40,no', "dose,age,ill", '"', ""):
        upload(app, "\n".join(["dose,age,ill", *rows[:150], other, *rows[151:]]).encode())
        assert app.session_state["p_upload"].proposal is None
        again = app.session_state["p_upload"].frame
        assert list(again) == list(frame) and again.drop(150).astype(str).equals(frame.drop(150).astype(str))
        assert app.session_state["p_upload"].reading == dataset.reading


def test_a_reading_that_is_used_again_is_said_and_leaves_out_no_row(app: AppTest) -> None:
    """A file without a line break at its end lost its last row by the reading of one with it."""
    data = written(",", ".")
    confirmed(upload(app, data + b"\n"))
    assert AGAIN not in texts(app) and app.session_state["p_upload"].reading.below == 1
    upload(app, data.replace(b"yes", b"no", 1) + b"\n")
    assert AGAIN in texts(app) and len(app.session_state["p_upload"].frame) == 60
    upload(app, data)
    assert app.session_state["p_upload"].proposal is not None and AGAIN not in texts(app)
    confirmed(app)
    assert AGAIN not in texts(app) and len(app.session_state["p_upload"].frame) == 60


def test_numbers_that_can_be_read_in_two_ways_are_asked_about_and_read_again(app: AppTest) -> None:
    upload(app, written())
    assert any("decimal mark" in info.value for info in app.info)
    filled(app)
    before = app.session_state["dataset"]
    assert before.bounds[0][1] > 10_000
    pressed(app, "change")
    assert not app.session_state["dataset"]
    changed(app, "decimal", ",")
    assert not app.session_state["dataset"]
    filled(app)
    dataset, tables = app.session_state["dataset"], app.session_state["tables"]
    assert dataset.bounds[0][1] < 100 and dataset.reading.decimal == "," and dataset.reading.separator == ";"
    assert dataset.identity != before.identity
    frame = read_table(written(), "table.csv", reading=dataset.reading)
    assert (dataset.rows(frame) == tables[dataset.identity]).all() and frame["dose"][0] == 1.101


def test_whether_the_first_row_is_data_can_be_said(app: AppTest) -> None:
    filled(upload(app, written(",", ".", header=False)))
    assert app.session_state["dataset"].n == 60 and app.session_state["dataset"].names == ("Column 1",)
    changed(pressed(app, "change"), "header", True)
    confirmed(app)
    assert app.multiselect(key="p_upload_features").value == ["1.101"]
    filled(app)
    assert app.session_state["dataset"].n == 59


def test_what_columns_hold_can_be_said(app: AppTest) -> None:
    data = b"age,note,dose,ill\n" + b"".join(b"%d,x%d,%d,%d\n" % (i, i, i % 7, i % 2) for i in range(60))
    upload(app, data)
    filled(held(app, {1: "Left out", 2: "Texts or categories"}))
    assert app.multiselect(key="p_upload_features").value == ["age", "ill"], "the last column of texts is the target"
    assert app.session_state["dataset"].reading.kinds == ("number", "unused", "text", "number")
    assert list(app.session_state["p_upload"].frame) == ["age", "dose", "ill"] and "Left out: 1 column." in texts(app)


def test_marks_of_missing_values_can_be_added(app: AppTest) -> None:
    data = written(",", ".").replace(b"yes", b"unknown", 5)
    filled(upload(app, data))
    assert not app.toggle
    filled(changed(pressed(app, "change"), "missing", "NA, unknown"))
    assert app.session_state["dataset"].reading.missing == ("NA", "unknown")
    assert app.toggle(key="p_upload_drop").label == "Drop the 5 rows with missing values"


def test_lines_above_the_table_can_be_left_out(app: AppTest) -> None:
    upload(app, b"A report;\nof 2020;\n" + written())
    filled(changed(app, "above", 2))
    assert app.session_state["dataset"].reading.above == 2 and app.session_state["dataset"].n == 60


def test_a_setting_that_cannot_be_is_a_sentence_and_can_be_mended(app: AppTest) -> None:
    upload(app, written())
    confirmed(changed(app, "separator", "|"))
    assert "not a table" in str(app.error[0].proto.title) and not app.session_state["dataset"]
    filled(changed(app, "separator", ";"))
    confirmed(changed(pressed(app, "change"), "missing", "x" * 60))
    assert app.error
    filled(changed(app, "missing", "x"))


def test_a_new_file_is_looked_at_afresh(app: AppTest) -> None:
    upload(app, written())
    confirmed(changed(app, "decimal", ","))
    upload(app, written(",", "."))
    assert not app.session_state["dataset"]
    assert app.selectbox(key="p_upload_separator").value == "," and app.selectbox(key="p_upload_decimal").value == "."
    filled(app)
    assert app.session_state["dataset"].bounds[0][1] < 100


def test_the_schema_of_a_parquet_file_declares_how_it_is_read(app: AppTest) -> None:
    frame = pd.DataFrame({"age": range(60), "code": [str(i) for i in range(60)], "ill": ["no", "yes"] * 30})
    upload(app, frame.to_parquet(), "table.parquet")
    assert not [button for button in app.button if button.key == "p_upload_confirm"]
    assert app.multiselect(key="p_upload_features").value == ["age"], "the last column of texts is the target"
