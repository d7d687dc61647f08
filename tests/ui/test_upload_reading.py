"""How a file was read: shown, asked about where the file leaves it open, and changeable."""

import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import read_table


def script() -> None:
    import streamlit as st

    from dpviz.ui.uploads import table as data_panel

    st.session_state["dataset"], st.session_state["tables"] = data_panel.uploaded("p")


def written(separator: str = ";", decimal: str = ",", header: bool = True) -> bytes:
    rows = [f"{place}{decimal}{place + 100}{separator}{'yes' if place % 3 else 'no'}" for place in range(1, 61)]
    return "\n".join([f"dose{separator}ill"] * header + rows).encode()


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(script, default_timeout=30).run()


def upload(app: AppTest, data: bytes) -> AppTest:
    app.file_uploader[0].upload("table.csv", data, "text/csv")
    app.run()
    assert not app.exception and not app.error
    return app


def changed(app: AppTest, name: str, value: object) -> AppTest:
    widget = app.text_input if name == "missing" else app.selectbox
    widget(key=f"p_upload_{name}").set_value(value).run()
    assert not app.exception
    return app


def filled(app: AppTest) -> AppTest:
    app.button(key="p_upload_fill").click().run()
    assert not app.exception and not app.error
    return app


def panel(app: AppTest) -> object:
    return next(expander for expander in app.expander if expander.label == "How the file was read")


def test_a_file_that_leaves_nothing_open_is_read_without_a_question(app: AppTest) -> None:
    upload(app, written(",", "."))
    assert not panel(app).proto.expanded  # type: ignore[attr-defined]
    assert app.selectbox(key="p_upload_separator").value == "," and app.selectbox(key="p_upload_header").value is True
    filled(app)
    dataset = app.session_state["dataset"]
    assert dataset.reading.separator == "," and dataset.bounds[0][1] < 100


def test_numbers_that_can_be_read_in_two_ways_are_asked_about_and_read_again(app: AppTest) -> None:
    upload(app, written())
    assert panel(app).proto.expanded and any("decimal mark" in info.value for info in app.info)  # type: ignore[attr-defined]
    filled(app)
    before = app.session_state["dataset"]
    assert before.bounds[0][1] > 10_000
    changed(app, "decimal", ",")
    filled(app)
    dataset, tables = app.session_state["dataset"], app.session_state["tables"]
    assert dataset.bounds[0][1] < 100 and dataset.reading.decimal == "," and dataset.reading.separator == ";"
    assert dataset.identity != before.identity
    frame = read_table(written(), "table.csv", reading=dataset.reading)
    assert (dataset.rows(frame) == tables[dataset.identity]).all() and frame["dose"][0] == 1.101


def test_whether_the_first_row_is_data_can_be_said(app: AppTest) -> None:
    filled(upload(app, written(",", ".", header=False)))
    assert app.session_state["dataset"].n == 60 and app.session_state["dataset"].names == ("Column 1",)
    changed(app, "header", True)
    assert app.multiselect(key="p_upload_features").value == ["1.101"]
    filled(app)
    assert app.session_state["dataset"].n == 59


def test_marks_of_missing_values_can_be_added(app: AppTest) -> None:
    data = written(",", ".").replace(b"yes", b"unknown", 5)
    filled(upload(app, data))
    assert not app.toggle
    filled(changed(app, "missing", "NA, unknown"))
    assert app.session_state["dataset"].reading.missing == ("NA", "unknown")
    assert app.toggle(key="p_upload_drop").label == "Drop the 5 rows with missing values"


def test_a_setting_that_cannot_be_is_a_sentence_and_can_be_mended(app: AppTest) -> None:
    upload(app, written())
    changed(app, "separator", "|")
    assert "not a table" in str(app.error[0].proto.title)
    filled(changed(app, "separator", ";"))
    changed(app, "missing", "x" * 60)
    assert app.error
    filled(changed(app, "missing", "x"))


def test_a_new_file_is_looked_at_afresh(app: AppTest) -> None:
    upload(app, written())
    changed(app, "decimal", ",")
    upload(app, written(",", "."))
    assert app.selectbox(key="p_upload_separator").value == "," and app.selectbox(key="p_upload_decimal").value == "."
    filled(app)
    assert app.session_state["dataset"].bounds[0][1] < 100
