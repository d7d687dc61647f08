"""A visitor's own table on the page of private games: groups, losses of strategies, categories; plan, run, table."""

import gc
import io
import weakref
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dpviz.ui.mirror_descent import page as games_page
from tests.confirming import confirmed
from tests.pages.mirror import DIAGNOSTICS, PAGE, TINY
from tests.pages.reading import Load, all_methods, chart, charts, choose, lines, link, pictured, run, said, table, text

KINDS = {"groups": "groups", "losses": "losses", "synthetic": "categories"}  # problem -> prefix of its upload's keys


def people(rows: int = 300) -> bytes:
    """Two features, a target with two classes, and a region to group by; as CSV."""
    generator = np.random.default_rng(0)
    age, income = generator.integers(18, 90, rows), generator.normal(3000, 800, rows).round()
    frame = pd.DataFrame({"age": age, "income": income})
    frame["bought"] = np.where(age / 90 + income / 6000 + generator.normal(0, 0.3, rows) > 1.1, "yes", "no")
    frame["region"] = np.resize(["north", "south", "south", "east"], rows)
    return frame.to_csv(index=False).encode()


def waiting(rows: int = 300) -> bytes:
    """The losses of three strategies, and a group column."""
    x = np.arange(rows)
    frame = pd.DataFrame({"wait": x % 2, "act": x % 3 / 2, "ask": x % 5 / 4, "region": np.resize(["a", "b"], rows)})
    return frame.to_csv(index=False).encode()


def homes(rows: int = 300) -> bytes:
    """Three columns of categories, one of numbers."""
    x = np.arange(rows)
    frame = pd.DataFrame({"area": np.resize(["city", "town", "country"], rows), "owned": np.where(x % 4, "no", "yes")})
    return (
        frame.assign(age=18 + x % 50, pets=np.resize(["cat", "dog", "none", "cat"], rows)).to_csv(index=False).encode()
    )


TABLES = {"groups": people, "losses": waiting, "synthetic": homes}


def upload(load: Load, problem: str, content: bytes | None = None) -> AppTest:
    settings = {f"mirror_{problem}_data": "Your own file", **TINY}
    app = load(PAGE, mirror_problem=games_page.PROBLEMS[problem].title, **settings)
    assert "Before Run: " in text(app) and app.button(key="mirror_run").disabled
    app.file_uploader[0].upload("mine.csv", TABLES[problem]() if content is None else content, "text/csv")
    confirmed(app.run())
    for box in [box for box in app.selectbox if box.key == "mirror_groups_upload_target"]:
        for name in [name for name in box.options if "bought" in name]:
            box.set_value(name).run()
    assert not app.exception
    return app


def press(app: AppTest, problem: str, name: str) -> AppTest:
    app.button(key=f"mirror_{KINDS[problem]}_upload_{name}").click().run()
    assert not app.exception
    return app


def declare(app: AppTest, **lists: str) -> AppTest:
    """Use columns with the given lists of categories."""
    editor = app.data_editor[0]
    rows = list(editor.value.index)
    edited = {rows.index(name): {"used": True, "categories": categories} for name, categories in lists.items()}
    app.session_state[editor.key] = {"edited_rows": edited, "added_rows": [], "deleted_rows": []}
    app.run()
    assert not app.exception
    return app


def ready(load: Load, problem: str) -> AppTest:
    app = press(upload(load, problem), problem, "fill")
    if problem != "synthetic":
        press(app, problem, "propose")
    assert not app.error and "Ready: 300 rows" in text(app) and len(app.metric) == 4
    return app


def diagnostics(app: AppTest) -> set[str]:
    """The charts that read raw data."""
    bounds = ("Upper bound", "Bound on")
    return {alt for alt in charts(app) if any(name in alt for name in DIAGNOSTICS) and not alt.startswith(bounds)}


# ------------------------------------------------------------------------------------------------- from file to results


@pytest.mark.parametrize("problem", KINDS)
def test_an_uploaded_table_runs_through_all_methods_and_hides_diagnostics(load: Load, problem: str) -> None:
    app = run(all_methods(ready(load, problem)))
    assert not app.error and len(app.dataframe[-1].value) == len(app.pills[0].value)
    assert diagnostics(app) == set() and "Stacked shares of the vertices of player x" in " ".join(charts(app))
    assert "Weight of each strategy" in pictured(app)  # a curve could only show diagnostics
    columns = list(app.dataframe[-1].value.columns)
    assert not any(column.startswith(("Duality gap", "Worst", "Mean query")) for column in columns)
    # A band and a best step are those of the first number; with losses one is released, and nothing else is there.
    released = ["Certified duality gap", "10-90 %", "Best step"] if problem == "losses" else []
    assert columns[2:5] == released if released else {"10-90 %", "Best step"}.isdisjoint(columns)
    assert "because read off the raw data" not in text(app)
    assert not any("choosing by such results is tuning" in info.value for info in app.info)
    assert "Curves and numbers that read your raw data are hidden" in text(app)

    app.toggle(key="mirror_diagnostics").set_value(True).run()
    assert not app.exception
    assert "Weight of each strategy" not in pictured(app)
    first = "Worst query error" if problem == "synthetic" else "Duality gap"
    assert (
        any(alt.startswith(first) for alt in diagnostics(app)) and f"{first} (not private)" in app.dataframe[-1].value
    )
    assert ("Loss of every" in " ".join(diagnostics(app))) == (problem != "synthetic")
    assert ("marginal cell" in " ".join(diagnostics(app))) == (problem == "synthetic")
    assert any("choosing by such results is tuning" in info.value for info in app.info)


def test_groups_of_the_file_name_the_strategies_and_the_losses(load: Load) -> None:
    app = run(ready(load, "groups"))
    regions = {"east", "north", "south", "other"}
    assert lines(app, "Stacked shares of the vertices of player y") == regions
    models = {f"{sign}{name}" for sign in "+-" for name in ("age", "income", "constant")}
    assert lines(app, "Stacked shares of the vertices of player x") == models == set(table(app, "Vertex")["Vertex"])
    app.toggle(key="mirror_diagnostics").set_value(True).run()
    assert set(chart(app, "Loss of every group")["data"][0]["x"]) == regions - {"other"}  # nobody is there
    assert "taken from the data" in text(app) and "**no budget pays for**" in text(app)  # the panel, and the box

    # When the file is removed, its rows leave; what the run released stays.
    (rows,) = map(weakref.ref, app.session_state["mirror_job"].tables.values())
    app.file_uploader[0].set_value(None).run()
    assert not app.exception and any("The file of this run was removed." in info.value for info in app.info)
    assert lines(app, "Stacked shares of the vertices of player y") == regions
    assert not any("Loss of every group" in alt for alt in charts(app))
    gc.collect()
    assert rows() is None


def assumed(app: AppTest) -> str:
    """What the box of assumptions says of the constants."""
    box = next(element.value for element in app.markdown if element.value.startswith("- **Who is protected."))
    return next(line for line in box.splitlines() if line.startswith("- **Constants.**"))


def test_the_assumptions_repeat_what_the_panel_says(load: Load) -> None:
    app = ready(load, "synthetic")
    taken = "Not declared, but read from the data, which **no budget pays for**: "
    assert "Declared: n. " in assumed(app) and f"{taken}the categories of “area”, “owned”" in assumed(app)
    app = declare(upload(load, "synthetic"), area="city, town", pets="cat, dog")
    assert "Declared: n, the categories of the columns. What" in assumed(app) and taken not in assumed(app)
    app = ready(load, "groups")
    read = "the ranges of “age” and “income”; the groups in “region”"
    shares = "; the shares of the groups in “region”"
    assert f"{taken}{read}{shares}. For all else: Declared: n. What lies outside" in assumed(app)
    app.segmented_control(key="mirror_groups_upload_shares").set_value("bought").run()
    press(app, "groups", "release")
    assert f"{taken}{read}. For all else: Declared: n. Released" in assumed(app)
    assert "Released privately, with a part of the budget shown: the groups' shares. " in assumed(app)
    choose(app, "problem", "synthetic")
    choose(app, "synthetic_data", "generated")  # the uploads are out of sight
    assert "Declared: n, the categories of the columns. What" in assumed(app) and taken not in assumed(app)


def test_the_first_screen_after_a_run_shows_what_was_released_and_offers_the_switch_there(load: Load) -> None:
    app = ready(load, "groups")
    app = run(app)
    assert "What one run releases" in text(app) and "largest coefficients: " in text(app)
    model = table(app, "column")
    weights = next(frame.value for frame in app.dataframe if {"group", "Two draws"} <= set(frame.value))
    methods = app.pills[0].value
    assert model["column"].tolist() == ["age", "income", "constant"] and list(model)[3:] == methods
    assert (model[methods].abs().sum() <= 1 + 1e-9).all()
    assert weights["group"].tolist() == ["east", "north", "south", "other"]
    np.testing.assert_allclose(weights[methods].sum(), 1.0)
    assert not any(frame.value.index.name == "Model" for frame in app.dataframe) and "worst off" not in text(app)

    app.toggle(key="mirror_diagnostics").set_value(True).run()
    assert not app.exception and "is worst off with Vertex sampling" in text(app)
    assert "**Price of fairness**" in text(app) and "**Price of privacy**" in text(app)
    tables = [frame.value for frame in app.dataframe if frame.value.index.name == "Model"]
    assert len(tables) == 5  # mean loss, as the game weighs it, error, selection, true positives
    for measure in tables:
        assert {*methods, "Fairest, without privacy", "Best on average, without privacy"} <= set(measure.index)
        assert list(measure)[:4] == ["east", "north", "south", "other"]
    counts = table(app, "Found share")
    assert counts["Rows"].tolist() == [75, 75, 150, 0] and counts["Found share"].tolist() == [0.25, 0.25, 0.5, 0.0]


def test_the_worst_group_is_the_one_with_the_highest_mean_and_wrong_shares_are_noticed(load: Load) -> None:
    """Whatever is played, the loss is 0.4 in the large group and 0.6 in the small one; equal shares are declared."""
    many = np.arange(400) < 380
    losses = np.where(many, 0.4, 0.6)
    frame = pd.DataFrame({"wait": losses, "act": losses, "region": np.where(many, "many", "few")})
    app = upload(load, "losses", frame.to_csv(index=False).encode())
    editor = next(editor for editor in app.data_editor if "_members_" in editor.key)
    rows = [{"group": "many", "share": 0.4}, {"group": "few", "share": 0.4}]
    app.session_state[editor.key] = {"edited_rows": {}, "added_rows": rows, "deleted_rows": []}
    app.run()
    app = run(app)
    app.toggle(key="mirror_diagnostics").set_value(True).run()
    assert not app.exception
    assert "**few** is worst off with Vertex sampling" in text(app) and "mean loss, 0.6 as median" in text(app)
    assert "The game sees **many** as the worst instead" in text(app) and "0.4 × 0.95 / 0.4 = 0.95" in text(app)
    assert "many 0.5 against 0.95" in said(app) and "few 0.5 against 0.05" in said(app)


def test_the_synthetic_table_of_a_file_has_its_declared_categories(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, Callable[[], bytes]] = {}

    def keep(label: str, data: Callable[[], bytes], *, key: str, **_: object) -> None:
        files[key] = data

    monkeypatch.setattr(st, "download_button", keep)
    app = declare(upload(load, "synthetic"), area='city, town, "country, far"', age="bins: 0, 40, 80", pets="cat, dog")
    assert not app.error and "|Z| = 60 combinations" in text(app)
    app = run(app)
    made = pd.read_csv(io.BytesIO(files["mirror_synthetic_csv"]()), dtype=str)
    assert list(made) == ["area", "age", "pets"] and len(made) == 300
    assert set(made["area"]) <= {"city", "town", "country, far", "other"}
    assert set(made["pets"]) <= {"cat", "dog", "other"}
    (share,) = table(app, "of which: rows").set_index("Method").loc[["Gaussian marginals"], "Rows with “other”"]
    assert (made == "other").any(axis=1).mean() == pytest.approx(share / 100, abs=0.01)
    assert "Where the table of" not in text(app)  # a diagnostic
    vertices, queries = (frame.value["Vertex"] for frame in app.dataframe if "Vertex" in frame.value)
    ages = "below 0|0 to below 40|40 to below 80|80 or more|other"
    assert vertices.str.fullmatch(rf"area=.*, age=({ages}), pets=\w+").all()
    assert queries.str.match(r"too (few|many): (area|age)=").all()
    app.toggle(key="mirror_without_other").set_value(True).run()
    assert not app.exception
    made = pd.read_csv(io.BytesIO(files["mirror_synthetic_csv"]()), dtype=str)
    assert len(made) == 300 and not (made == "other").any(axis=None)


def test_a_synthetic_table_may_leave_the_page_only_if_nobody_knows_the_seed(load: Load) -> None:
    app = run(ready(load, "synthetic"))
    assert "It must not leave this page** unless these were known beforehand" in text(app)
    press(app, "synthetic", "knew_categories")
    app = run(app)
    assert "it may leave this page: nobody knows the seed" in text(app)
    assert "floating-point arithmetic do not protect" in text(app)
    app.toggle(key="mirror_fixed_seed").set_value(True).run()
    app = run(app)
    assert "It must not leave this page" in text(app) and "may leave this page" not in text(app)


# --------------------------------------------------------------------------------------------- what is missing or wrong


def test_too_many_combinations_are_counted_and_refused(load: Load) -> None:
    many = ", ".join(f"kind {number}" for number in range(250))
    app = declare(upload(load, "synthetic"), area=many, pets=many)
    assert "|Z| = 63,001 combinations of categories so far, of at most 50,000" in text(app)
    assert "50,000" in said(app) and not app.metric and app.button(key="mirror_run").disabled


@pytest.mark.parametrize("problem", KINDS)
@pytest.mark.parametrize("content", [b"", b"\x89PNG\r\n\x1a\n" + bytes(range(256))], ids=["empty", "no table"])
def test_a_file_that_cannot_be_read_gets_a_sentence(load: Load, problem: str, content: bytes) -> None:
    app = upload(load, problem, content)
    assert said(app) and not app.metric and app.number_input(key="mirror_iterations").value == 4


@pytest.mark.parametrize("problem", KINDS)
def test_nothing_of_a_file_goes_into_the_link(load: Load, problem: str) -> None:
    app = ready(load, problem)
    names = ("mine", "_upload", "region", "north", "wait", "area", "city", "age")
    assert "Your+own+file" in link(app) and not any(name in link(app) for name in names)


def test_files_of_different_problems_do_not_mix(load: Load) -> None:
    app = ready(load, "groups")
    choose(app, "problem", "losses")
    assert not app.error and len(app.metric) == 4  # generated data
    choose(app, "problem", "groups")
    assert not app.error and "Ready: 300 rows" in text(app)
