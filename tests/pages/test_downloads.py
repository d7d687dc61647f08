"""Whatever columns, categories and names are called: no download and no table of a page is a formula."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import dpviz
from tests.confirming import confirmed
from tests.formulas import formulas
from tests.pages.planner import SPLIT
from tests.pages.reading import Load, all_methods, run
from tests.pages.test_mirror_uploads import declare, homes, people
from tests.pages.test_mirror_uploads import upload as mirror_upload
from tests.pages.test_nothing_but_releases import RANGES, edit
from tests.pages.test_planner_split import row, split

NAMES = {"age": "=1+age,=2", "income": "@income;=1", "bought": "-bought", "region": "+region"}
AREAS = {"city": "=city()", "town": "@town"}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], bytes]]:
    """The CSV files of the download buttons that were drawn."""
    found: dict[str, Callable[[], bytes]] = {}

    def keep(label: str, data: Callable[[], bytes], *, key: str, mime: str, **_: object) -> None:
        if mime == "text/csv":
            found[key] = data

    monkeypatch.setattr(st, "download_button", keep)
    return found


def renamed(data: bytes, names: dict[str, str], cells: dict[str, str] | None = None) -> bytes:
    return pd.read_csv(io.BytesIO(data)).rename(columns=names).replace(cells or {}).to_csv(index=False).encode()


def accelerated(load: Load) -> AppTest:
    app = load("accelerated", accel_data="Your own file", accel_iterations="5", accel_file_replicates="2")
    app.file_uploader[0].upload("mine.csv", renamed(people(), NAMES, {"yes": "=yes"}), "text/csv")
    confirmed(app.run())
    edit(app, "ranges", {"edited_rows": RANGES})
    run(app, press="accel_run", job="accel_job")
    app.session_state["accel_section"] = "Sweep"
    app.run().number_input(key="accel_vary_epsilon_values").set_value(2.0).run()
    return run(app, press="accel_vary_sweep_run", job="accel_vary_sweep_job")


def groups(load: Load) -> AppTest:
    app = mirror_upload(load, "groups", renamed(people(), NAMES, {"north": "=north"}))
    edit(app, "members", {"added_rows": [{"group": "=north", "share": 0.25}, {"group": "@south", "share": 0.5}]})
    edit(app, "ranges", {"edited_rows": RANGES})
    app = run(all_methods(app), press="mirror_run", job="mirror_job")
    app.toggle(key="mirror_diagnostics").set_value(True).run()
    return app


def categories(load: Load) -> AppTest:
    app = mirror_upload(load, "synthetic", renamed(homes(), {"area": "=area()", "pets": "+pets"}, AREAS))
    app = declare(app, **{"'=area()": "=city(), @town", "age": "bins: -1, 40, 80", "'+pets": "cat, dog"})
    app = run(all_methods(app), press="mirror_run", job="mirror_job")
    app.toggle(key="mirror_diagnostics").set_value(True).run()
    return app


def planner(load: Load) -> AppTest:
    app = split(load, [row("=HYPERLINK(1)"), row("x;=1"), row("@B", rows="+north")])
    assert app.session_state["planner_section"] == SPLIT
    assert [editor.value["analysis"].tolist() for editor in app.data_editor] == [["HYPERLINK(1)", "x;1", "B"]]
    return app


def typed(app: AppTest) -> set[str]:
    """The cells of tables that were filled in here."""
    return {str(cell) for editor in app.data_editor for cell in editor.value.to_numpy().ravel()}


@pytest.mark.parametrize(("page", "least"), [(accelerated, 5), (groups, 5), (categories, 4), (planner, 1)])
def test_no_file_and_no_table_holds_a_formula(
    load: Load, files: dict[str, Callable[[], bytes]], page: Callable[[Load], AppTest], least: int
) -> None:
    app = page(load)
    written = {key: data().decode() for key, data in files.items()}
    assert len(written) >= least and len(app.dataframe)
    tables = {f"table {place}": frame.value.to_csv() for place, frame in enumerate(app.dataframe)}
    assert not {name: found for name, content in written.items() if (found := formulas(content))}
    signed = {"+constant", "-constant"}  # vertices of a name of ours call nothing, and are shown as they are
    assert not {name: content for name, content in tables.items() if set(formulas(content)) - typed(app) - signed}
    assert page is planner or "'" in "".join([*written.values(), *tables.values()]), "there was a text to be mended"


def test_tables_and_csv_files_are_made_in_one_place() -> None:
    house = Path(dpviz.__file__).parent
    makers = {
        (path.relative_to(house).as_posix(), found)
        for path in house.rglob("*.py")
        for found in re.findall(r"\.dataframe\(|st\.table\(|(?<!export)\.to_csv\(", path.read_text(encoding="utf-8"))
    }
    assert makers == {("ui/markdown.py", ".dataframe("), ("exports/spreadsheets.py", ".to_csv(")}
