"""The panel for a file with groups: groups and shares are declared, and every mistake gets a sentence."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.privacy.events import Laplace
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from tests.confirming import confirmed


def learning() -> None:
    import streamlit as st

    from dpviz.ui.uploads import groups as group_upload

    if not st.session_state.get("hidden"):
        st.session_state["dataset"], st.session_state["tables"] = group_upload.uploaded("p")


def strategies() -> None:
    import streamlit as st

    from dpviz.ui.uploads import groups as group_upload

    st.session_state["dataset"], st.session_state["tables"] = group_upload.uploaded("p", loss_columns=True)


def table(rows: int = 60) -> pd.DataFrame:
    x = np.arange(rows, dtype=float)
    return pd.DataFrame(
        {
            "age": x % 7,
            "height": x % 11,
            "sick": np.where(x % 3 == 0, "yes", "no"),
            "region": np.resize(["north", "south", "south", "east"], rows),
        }
    )


def losses(rows: int = 60) -> pd.DataFrame:
    x = np.arange(rows)
    return pd.DataFrame({"wait": x % 2, "act": x % 3 / 2, "ask": x % 5 / 4, "region": np.resize(["a", "b"], rows)})


@pytest.fixture
def app() -> AppTest:
    return AppTest.from_function(learning, default_timeout=300).run()


@pytest.fixture
def matrix() -> AppTest:
    return upload(AppTest.from_function(strategies, default_timeout=300).run(), losses())


def upload(app: AppTest, frame: pd.DataFrame | bytes) -> AppTest:
    data = frame if isinstance(frame, bytes) else frame.to_csv(index=False).encode()
    app.file_uploader[0].upload("table.csv", data, "text/csv")
    return aimed(confirmed(app.run()))


def aimed(app: AppTest) -> AppTest:
    """With the column "sick" as the target, if there is one; the last column of texts is offered."""
    if any(box.key == "p_groups_upload_target" and "sick" in box.options for box in app.selectbox):
        app.selectbox(key="p_groups_upload_target").set_value("sick").run()
    assert not app.exception
    return app


def press(app: AppTest, name: str, kind: str = "groups") -> AppTest:
    app.button(key=f"p_{kind}_upload_{name}").click().run()
    assert not app.exception
    return app


def declare(app: AppTest, rows: Sequence[tuple[str | None, float | None]]) -> AppTest:
    """Type groups and shares into the editor, instead of what it starts from."""
    editor = next(editor for editor in app.data_editor if "_members_" in editor.key)
    app.session_state[editor.key] = {
        "edited_rows": {},
        "added_rows": [{"group": name, "share": share} for name, share in rows],
        "deleted_rows": list(range(len(editor.value))),
    }
    app.run()
    assert not app.exception
    return app


def declared(app: AppTest) -> dict[str, float]:
    assert not app.error
    facts = app.session_state["dataset"].facts()
    return dict(zip(facts.groups, facts.shares, strict=True))


def said(app: AppTest) -> str:
    """Errors, and hints at what is missing."""
    hints = [hint for hint in app.info if hint.proto.title]
    return " ".join(f"{getattr(error.proto, 'title', '')} {error.value}" for error in [*app.error, *hints])


def text(app: AppTest) -> str:
    return " ".join(element.value for element in [*app.markdown, *app.caption])


# ----------------------------------------------------------------------------------------------------------- good files


def test_a_file_with_proposed_ranges_and_groups_is_marked_and_makes_a_problem(app: AppTest) -> None:
    assert app.session_state["dataset"] is None and "Not a release tool" in app.info[0].value
    upload(app, table())
    assert "Column 'region' needs groups" in said(app) and "badge" not in text(app)
    assert not app.error  # nothing is wrong yet
    press(app, "propose")
    assert "groups and shares taken from the data: not private" in text(app) and "'age' needs a range" in said(app)
    press(app, "fill")
    assert "ranges taken from the data: not private" in text(app)
    dataset, tables = app.session_state["dataset"], app.session_state["tables"]
    ranges = [("bounds", name) for name in dataset.names]  # type: ignore[attr-defined]
    assert dataset.from_data == (*ranges, ("groups", "region"), ("shares", "region"))  # type: ignore[attr-defined]
    assert declared(app) == pytest.approx({"east": 0.2, "north": 0.2, "south": 0.4, "other": 0.2})  # of 0.25, 0.25, 0.5
    assert dataset.names == ("age", "height") and dataset.bounds == ((0.0, 6.0), (0.0, 10.0))  # type: ignore[attr-defined]
    assert list(tables) == [dataset.identity] and np.array_equal(dataset.rows(table()), tables[dataset.identity])  # type: ignore[attr-defined]
    assert tables[dataset.identity].shape == (60, 4) and "60 rows, 2 features, 4 groups" in app.success[0].value  # type: ignore[attr-defined]
    loaded = dataset.load(tables)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(loaded.labels, np.where(np.arange(60) % 3 == 0, 1.0, -1.0))
    np.testing.assert_array_equal(loaded.groups, np.resize([1, 2, 2, 0], 60))
    game = GroupLoss(data=dataset).build(tables)
    assert game.groups == ("east", "north", "south", "other")
    assert game.facts.d_x == 6  # two features and the constant, with both signs


def test_shares_taken_from_the_data_stay_so_under_other_names(app: AppTest) -> None:
    press(press(upload(app, table()), "propose"), "fill")
    app.button(key="p_groups_upload_knew_ranges").click().run()
    editor = next(editor for editor in app.data_editor if "_members_" in editor.key).value
    rows = [(f"{name} of town", share) for name, share in zip(editor["group"], editor["share"], strict=True)][:-1]
    declare(app, rows)
    assert "badge" in text(app) and app.session_state["dataset"].from_data == (("shares", "region"),)
    declare(app, [(name, 0.31) for name, _ in rows])
    assert "badge" not in text(app) and app.session_state["dataset"].from_data == ()


def test_declared_groups_and_shares_are_used_as_they_are_and_not_marked(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    declare(app, [("south", 0.4), ("north", 0.35), ("east", 0.15), ("other", 0.1)])
    assert declared(app) == {"south": 0.4, "north": 0.35, "east": 0.15, "other": 0.1}
    assert "groups taken from the data" not in text(app) and "south 0.4, north 0.35, east 0.15, other" in text(app)


def test_shares_that_leave_nothing_make_room_for_other_groups(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    declare(app, [("south", 0.4), ("north", 0.35), ("east", 0.25)])
    expected = {"south": 0.4 / 1.25, "north": 0.35 / 1.25, "east": 0.2, "other": 0.2}
    assert declared(app) == pytest.approx(expected)
    declare(app, [("south", 0.4), ("north", 0.35), ("east", 0.25), ("other", None)])
    assert declared(app) == pytest.approx(expected)


@pytest.mark.parametrize("rows", [[("south", 0.5), ("north", None)], [("south", None), ("north", None)]])
def test_a_missing_share_is_asked_for_and_never_made_up(app: AppTest, rows: list) -> None:
    declare(press(upload(app, table()), "fill"), rows)
    assert app.session_state["dataset"] is None and not app.error
    assert "a share" in said(app) and all(word in said(app) for word in ("Declare", "buy", "not private"))


def test_proposing_keeps_the_shares_that_were_declared(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    declare(app, [("south", 0.6)])
    press(app, "propose")  # a quarter each in the file: half of what south leaves
    assert declared(app) == pytest.approx({"south": 0.5, "north": 0.2 / 1.2, "east": 0.2 / 1.2, "other": 0.2 / 1.2})


def test_rows_of_no_declared_group_belong_to_other(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    declare(app, [("south", 1 / 3), ("north", 1 / 3)])
    assert declared(app) == pytest.approx({"south": 1 / 3, "north": 1 / 3, "other": 1 / 3})
    assert "**Not private**, counted in the file: 15 rows belong to “other”" in text(app)
    declare(app, [("south", 0.5), ("north", 0.3)])
    assert declared(app) == pytest.approx({"south": 0.5, "north": 0.3, "other": 0.2})


def test_a_misspelt_group_is_noticed(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    declare(app, [("suoth", 0.5), ("north", 0.2), ("east", 0.2)])
    assert "no row belongs to \\'suoth\\'; 30 rows belong to “other”" in text(app)


def test_many_groups_are_proposed_by_frequency_and_the_rest_is_other(app: AppTest) -> None:
    names = np.array([f"g{number:02d}" for number in range(30)])
    press(upload(app, table(600).assign(region=names[np.minimum(np.arange(600) % 40, 29)])), "fill")
    app.selectbox(key="p_groups_upload_group").set_value("region").run()
    press(app, "propose")
    assert len(declared(app)) == 20 and {"g29", "other"} <= set(declared(app))


def test_nothing_of_a_group_name_becomes_markup(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    declare(app, [("![a](https://example.org/a.png)", 0.3), ("$x$", 0.3), ("north", 0.3)])
    assert "\\!\\[a\\]\\(https\\:\\/\\/example" in text(app) and "\\$x\\$" in text(app)


# --------------------------------------------------------------------------------------------------------------- bought


def buy(app: AppTest) -> AppTest:
    app.segmented_control(key="p_groups_upload_shares").set_value("bought").run()
    assert not app.exception
    return app


def test_shares_can_be_bought_and_the_plan_pays_for_every_release(app: AppTest) -> None:
    frame = table(6000)
    declare(buy(press(upload(app, frame), "fill")), [("south", None), ("north", None), ("east", None)])
    assert "not released yet" in said(app) and app.session_state["dataset"] is None and not app.error
    app.number_input(key="p_groups_upload_shares_cost").set_value(0.5).run()
    press(app, "release")
    facts = app.session_state["dataset"].facts()  # type: ignore[attr-defined]
    assert facts.shares_costs == (0.5,) and GroupLoss(data=app.session_state["dataset"]).facts().released == (
        Laplace(0.5),
    )
    # Counts are right up to noise of scale 4 in 6,000 rows; nobody is in the last group, which gets the least share.
    assert declared(app) == pytest.approx({"south": 0.49, "north": 0.245, "east": 0.245, "other": 0.02}, abs=0.02)
    assert "groups taken from the data" not in text(app)
    app.number_input(key="p_groups_upload_shares_smallest").set_value(0.1).run()  # costs nothing
    assert declared(app)["other"] == pytest.approx(0.1)
    press(app, "release")
    facts = LossMatrix(data=app.session_state["dataset"]).facts()
    assert facts.released == (Laplace(0.5), Laplace(0.5)) and "Spent ε = 0.5 + 0.5" in text(app)


def test_a_release_of_shares_is_paid_for_even_if_others_are_declared_after_it(app: AppTest) -> None:
    declare(buy(press(upload(app, table()), "fill")), [("south", None), ("north", None)])
    press(app, "release")
    app.segmented_control(key="p_groups_upload_shares").set_value("declared").run()
    declare(app, [("south", 0.5), ("north", 0.3)])
    facts = app.session_state["dataset"].facts()
    assert len(facts.shares_costs) == 1 and "whether you use them or not" in text(app)


def test_bought_shares_belong_to_the_groups_that_they_were_bought_for(app: AppTest) -> None:
    declare(buy(press(upload(app, table()), "fill")), [("south", None), ("north", None)])
    press(app, "release")
    assert set(declared(app)) == {"south", "north", "other"}
    declare(app, [("south", None), ("east", None)])
    assert "not released yet" in said(app) and app.session_state["dataset"] is None
    press(app, "release")
    assert set(declared(app)) == {"south", "east", "other"} and len(app.session_state["dataset"].shares_costs) == 2  # type: ignore[attr-defined]
    app.selectbox(key="p_groups_upload_target").set_value("region").run()
    app.selectbox(key="p_groups_upload_positive").set_value("south").run()
    assert app.selectbox(key="p_groups_upload_group").value == "sick"
    declare(app, [("yes", None), ("no", None)])
    press(app, "release")
    assert len(app.session_state["dataset"].shares_costs) == 3  # type: ignore[attr-defined]  # of the same rows, whatever the column
    upload(app, table(90))
    assert app.session_state["dataset"] is None  # another file


def test_nothing_forgets_what_was_bought_from_a_file(app: AppTest) -> None:
    """Neither reading the file again nor uploading it again, after another one, undoes a release."""
    frame = table()
    app = declare(buy(press(upload(app, frame), "fill")), [("south", None), ("north", None)])
    press(app, "release")
    press(app, "change")
    app.text_input(key="p_groups_upload_missing").set_value("none").run()
    aimed(confirmed(app))  # reads the file again
    declare(press(app, "fill"), [("south", None), ("north", None)])
    assert app.session_state["dataset"].shares_costs == (0.05,)  # they can still be used
    press(app, "release")
    assert app.session_state["dataset"].shares_costs == (0.05, 0.05)

    upload(app, table(90))
    declare(buy(press(app, "fill")), [("south", None), ("north", None)])
    assert "not released yet" in said(app)  # another file: nothing was bought from it
    upload(app, frame)
    declare(buy(press(app, "fill")), [("south", None), ("north", None)])
    assert app.session_state["dataset"].shares_costs == (0.05, 0.05)


# ------------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "needs groups"),
        ([("south", 0.7), ("north", 0.5), ("east", 0.1)], "The shares sum to 1.3"),
        ([("south", 1.0), ("north", None)], "Group 'north' needs a share"),
        ([("south", None), ("north", None)], "2 groups need a share"),
        ([("south", -0.5), ("north", 0.5)], "share of 'south' is no share"),
        ([("south", float("inf")), ("north", 0.5)], "share of 'south' is no share"),
        ([("south", 0.0), ("north", 1.0)], "share of 'south' is no share"),
        ([("south", 0.5), ("south", 0.5)], "'south' is listed twice"),
        ([(None, 0.5), ("south", 0.5)], "A share has no group"),
        ([("south", 0.3), ("other", 0.3)], "shares must sum to 1"),
        ([(f"g{number}", 0.04) for number in range(21)], "1 to 20 groups"),
        ([("x" * 300, 0.5)], "at most 200"),
    ],
)
def test_groups_that_cannot_be_used_get_a_sentence(app: AppTest, rows: list, words: str) -> None:
    declare(press(upload(app, table()), "fill"), rows)
    assert words in said(app) and app.session_state["dataset"] is None
    declare(app, [("south", 0.5)])
    assert not said(app) and app.session_state["dataset"] is not None


def test_the_group_column_is_chosen_and_can_be_neither_target_nor_feature(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    assert app.selectbox(key="p_groups_upload_group").value == "region"
    assert "sick" not in app.selectbox(key="p_groups_upload_group").options
    app.selectbox(key="p_groups_upload_target").set_value("region").run()  # the group column becomes the target
    assert not app.exception and not app.error and app.selectbox(key="p_groups_upload_group").value == "sick"
    app.selectbox(key="p_groups_upload_target").set_value("sick").run()
    assert not app.exception and not app.error and app.selectbox(key="p_groups_upload_group").value == "region"
    app.selectbox(key="p_groups_upload_group").set_value("age").run()
    assert not app.exception and app.multiselect(key="p_groups_upload_features").options == ["height", "region"]
    declare(press(app, "propose"), [("3", 0.2), ("4", 0.2)])
    assert app.session_state["dataset"].names == ("height",) and "other" in declared(app)


def test_target_and_groups_at_first_are_different_columns_that_make_sense(app: AppTest) -> None:
    """Of the columns of texts the last is the target, as tables end with it, and the first the group."""
    frame = table().assign(sex=np.resize(["f", "m"], 60), flag=np.arange(60) % 2, income=np.resize(["<=50", ">50"], 60))
    upload(app, frame.drop(columns="sick")[["age", "flag", "sex", "height", "region", "income"]])
    assert app.selectbox(key="p_groups_upload_target").value == "income" and not app.error
    assert app.selectbox(key="p_groups_upload_group").value == "sex"
    assert "'sex' needs groups" in said(app)


def test_a_file_without_a_group_column_asks_for_one(app: AppTest) -> None:
    numbers = np.arange(60.0)
    upload(app, pd.DataFrame({"a": numbers, "b": -numbers, "sick": numbers % 2}))
    assert "No group column is chosen" in said(app) and app.session_state["dataset"] is None


@pytest.mark.parametrize(("data", "title"), [(b"", "empty"), (b"\xff\xfe\x00\x81", "could not be read")])
def test_a_bad_file_gets_a_sentence(app: AppTest, data: bytes, title: str) -> None:
    upload(app, data)
    assert title in said(app) and app.session_state["dataset"] is None


def test_missing_values_are_dropped_only_if_asked_and_missing_groups_never(app: AppTest) -> None:
    frame = table()
    frame.loc[[2, 5, 9], "age"] = np.nan
    frame.loc[[7, 8], "region"] = None
    press(press(upload(app, frame), "fill"), "propose")
    assert app.session_state["dataset"].n == 60 and "the middle of the declared range: 3 in 'age'" in text(app)
    app.toggle(key="p_groups_upload_drop").set_value(True).run()
    assert "other" in declared(app) and app.session_state["dataset"].n == 57
    assert "3 dropped" in app.success[0].value and "2 rows belong to “other”" in text(app)


# ---------------------------------------------------------------------------------------------------------- the session


def test_what_was_declared_survives_another_page(app: AppTest) -> None:
    press(upload(app, table()), "fill")
    declare(app, [("south", 0.4), ("north", 0.35), ("east", 0.25)])
    ranges = next(editor for editor in app.data_editor if "_ranges_" in editor.key)
    app.session_state[ranges.key] = {"edited_rows": {0: {"highest": 50.0}}, "added_rows": [], "deleted_rows": []}
    app.run()
    before = app.session_state["dataset"]
    assert before.bounds == ((0.0, 50.0), (0.0, 10.0))
    for hidden in (True, False):
        app.session_state["hidden"] = hidden
        app.run()
        assert not app.exception
    assert app.session_state["dataset"] == before and declared(app)["south"] == 0.32
    app.run()
    assert app.session_state["dataset"] == before


def test_a_new_file_with_the_same_columns_starts_afresh(app: AppTest) -> None:
    press(press(upload(app, table()), "fill"), "propose")
    upload(app, table().assign(age=np.arange(60.0) * 2, region=np.resize(["up", "down", "level"], 60)))
    assert app.session_state["dataset"] is None and "badge" not in text(app)
    press(press(app, "fill"), "propose")
    assert app.session_state["dataset"].bounds[0] == (0.0, 200.0) and set(declared(app)) == {  # type: ignore[attr-defined]
        "up",
        "down",
        "level",
        "other",
    }


# --------------------------------------------------------------------------------------------------------- loss columns


def test_loss_columns_have_one_declared_range_and_no_target(matrix: AppTest) -> None:
    declare(matrix, [("a", 1 / 3), ("b", 1 / 3)])
    dataset, tables = matrix.session_state["dataset"], matrix.session_state["tables"]
    assert dataset.names == ("wait", "act", "ask") and dataset.bounds == ((0.0, 1.0),) * 3
    assert not (dataset.load(tables).labels.any() or dataset.from_data)
    assert not any("target" in box.key for box in matrix.selectbox)
    game = LossMatrix(data=dataset).build(tables)
    frame = losses()
    means = frame.groupby("region").mean().to_numpy().T
    _, payoffs = game.gradients(np.eye(3), np.full((3, 3), 1 / 3))
    # Half of the rows are in either group, for which a third is declared.
    np.testing.assert_allclose(payoffs, np.column_stack([1.5 * means, np.zeros(3)]), atol=1e-12)


def test_the_range_of_losses_can_be_filled_and_is_marked(matrix: AppTest) -> None:
    upload(matrix, losses().assign(ask=lambda frame: frame["ask"] * 40 - 3))
    declare(matrix, [("a", 1 / 3), ("b", 1 / 3)])
    press(matrix, "fill", "losses")
    assert "range taken from the data: not private" in text(matrix)
    assert matrix.session_state["dataset"].from_data == (("bounds", "losses"),)
    assert len(set(matrix.session_state["dataset"].bounds)) == 1
    assert matrix.session_state["dataset"].bounds[0] == (-10.0, 40.0)
    upload(matrix, losses())
    assert matrix.number_input(key="p_losses_upload_highest").value == 1.0


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0)])
def test_losses_need_a_range(matrix: AppTest, low: float, high: float) -> None:
    declare(matrix, [("a", 1 / 3), ("b", 1 / 3)])
    matrix.number_input(key="p_losses_upload_lowest").set_value(low)
    matrix.number_input(key="p_losses_upload_highest").set_value(high).run()
    assert not matrix.exception and "The losses need a range" in said(matrix)
    matrix.number_input(key="p_losses_upload_lowest").set_value(0.0)
    matrix.number_input(key="p_losses_upload_highest").set_value(2.0).run()
    assert matrix.session_state["dataset"].bounds[0] == (0.0, 2.0) and set(declared(matrix)) == {"a", "b", "other"}
    matrix.multiselect(key="p_losses_upload_features").set_value([]).run()
    assert "No feature is chosen" in said(press(matrix, "fill", "losses"))
