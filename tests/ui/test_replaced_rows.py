"""What a panel proposes and what it makes stays the same, whatever stands in one row of the file."""

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from tests.confirming import confirmed


def script(kind: str) -> None:
    import streamlit as st

    from dpviz.ui.uploads import categories as category_upload
    from dpviz.ui.uploads import groups as group_upload
    from dpviz.ui.uploads import table as data_panel

    panels = {
        "plain": data_panel.uploaded,
        "groups": group_upload.uploaded,
        "losses": lambda page: group_upload.uploaded(page, loss_columns=True),
        "categories": category_upload.uploaded,
    }
    st.session_state["dataset"], st.session_state["tables"] = panels[kind]("p")


ROW = 23
VALUES = [
    "",
    "nan",
    "inf",
    "1e308",
    "no such thing",
    "x" * 3000,
    "0,5",
    "1.234,50",
    '"',
    "?",
    "yes",
    "3",
    "-",
    ".",
    "*",
]


def content(value: str | None = None) -> bytes:
    """Two numbers, a target and a group column; one row may hold one value in all cells."""
    x = np.arange(60)
    frame = pd.DataFrame(
        {"age": x % 7, "height": x % 11 / 4, "region": np.resize(["north", "south", "south", "east"], 60)}
    )
    frame["sick"] = np.where(x % 3 == 0, "yes", "no")
    if value is not None:
        frame = frame.astype(object)
        frame.iloc[ROW] = value
    return frame.to_csv(index=False).encode()


def type_into(app: AppTest, name: str, changes: dict[str, object]) -> None:
    for editor in app.data_editor:
        if f"_{name}_" in editor.key:
            app.session_state[editor.key] = {"edited_rows": {}, "added_rows": [], "deleted_rows": []} | changes


def prepared(kind: str, data: bytes) -> tuple[object, np.ndarray]:
    """What the panel makes of a file by its own proposals and the same declarations, without its identity."""
    number = kind == "number"
    app = AppTest.from_function(script, kwargs={"kind": "plain" if number else kind}, default_timeout=300).run()
    app.file_uploader[0].upload("table.csv", data, "text/csv")
    confirmed(app.run())
    assert not app.exception and not app.error
    if number:
        app.selectbox(key="p_upload_target").set_value("height")
        next(control for control in app.segmented_control if control.key == "p_upload_kind").set_value("number")
        app.run()
        app.multiselect(key="p_upload_lists").set_value(["sick", "region"]).run()
        typed = {0: {"categories": "yes, no"}, 1: {"categories": "north, south"}}
        type_into(app, "lists", {"edited_rows": typed})
        app.run()
        assert not app.exception and not app.error
    ranges = {0: {"lowest": 0.0, "highest": 10.0}, 1: {"lowest": -5.0, "highest": 5.0}}
    lists = {2: {"used": True, "categories": "north, south"}, 3: {"used": True, "categories": "yes"}}
    type_into(app, "ranges", {"edited_rows": ranges})
    type_into(app, "members", {"added_rows": [{"group": "north", "share": 0.25}, {"group": "south", "share": 0.5}]})
    if not number:
        type_into(app, "lists", {"edited_rows": lists | {0: {"used": True, "categories": "bins: 2, 4"}}})
    app.run()
    assert not app.exception and not app.error
    dataset = app.session_state["dataset"]
    return dataset.replaced(identity="0" * 32), app.session_state["tables"][dataset.identity]


OTHERS = ("number", "groups", "losses", "categories")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", *(pytest.param(kind, marks=pytest.mark.slow) for kind in OTHERS)])
def test_proposals_and_declarations_do_not_move_with_one_row(kind: str) -> None:
    dataset, table = prepared(kind, content())
    moved = 0
    for value in VALUES:
        other, rows = prepared(kind, content(value))
        assert other == dataset, value
        assert np.array_equal(np.delete(rows, ROW, axis=0), np.delete(table, ROW, axis=0)), value
        moved += not np.array_equal(rows, table)
    assert moved > 5
