"""The panels for a visitor's file: nothing is guessed or dropped silently, and what is taken from rows is marked."""

import gc
import io
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from dpviz.datasets import UploadedTable, UserUpload, read_table
from dpviz.datasets.uploads.parsing import Bins, Declared
from dpviz.errors import UserError
from dpviz.privacy.events import Laplace
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.tuning.model_tuning import KernelMachine
from dpviz.ui.uploads import file
from dpviz.ui.uploads.categories import categories_text, parse_categories
from dpviz.ui.uploads.how import AGAIN, CONFIRM
from tests.confirming import confirmed

KEYS = {
    "table": "p_upload",
    "users": "p_users_upload",
    "groups": "p_groups_upload",
    "losses": "p_losses_upload",
    "categories": "p_categories_upload",
}
PANELS = pytest.mark.parametrize("kind", KEYS)
NORTH = np.resize(["north", "south", "south", "east"], 60)


def script(kind: str) -> None:
    import streamlit as st

    from dpviz.ui.uploads import categories, groups, table

    panels = {
        "table": table.choose_upload,
        "users": table.choose_upload_with_users,
        "groups": groups.choose_upload,
        "losses": lambda page: groups.choose_upload(page, loss_columns=True),
        "categories": categories.choose_upload,
    }
    if not st.session_state.get("hidden"):
        panel = panels[st.session_state.get("kind", kind)]  # a test may change to another one in the same session
        st.session_state["dataset"], st.session_state["tables"] = panel("p")


class Page:
    """A panel, with the declarations that a test types into it."""

    def __init__(self, kind: str) -> None:
        self.kind, self.key = kind, KEYS[kind]
        self.app = AppTest.from_function(script, kwargs={"kind": kind}, default_timeout=300).run()

    @property
    def dataset(self) -> Any:
        return self.app.session_state["dataset"]

    @property
    def nothing(self) -> bool:
        """Whether no data set is made of the file."""
        return self.dataset is None

    @property
    def shares(self) -> dict[str, float]:
        facts = self.dataset.facts()
        return dict(zip(facts.groups, facts.shares, strict=True))

    @property
    def said(self) -> str:
        """Errors, and hints at what is missing."""
        return " ".join(f"{getattr(one.proto, 'title', '')} {one.value}" for one in [*self.app.error, *self.app.info])

    @property
    def marked(self) -> bool:
        """Whether the panel says that something was taken from the data."""
        return any("taken from the data: not private" in one.value for one in self.app.markdown)

    @property
    def counted(self) -> str:
        return " ".join(one.value for one in [*self.app.markdown, *self.app.caption] if "Not private**" in one.value)

    def run(self) -> "Page":
        self.app.run()
        assert not self.app.exception
        return self

    def upload(self, data: pd.DataFrame | bytes, name: str = "table.csv", confirm: bool = True) -> "Page":
        data = data if isinstance(data, bytes) else data.to_csv(index=False).encode()
        self.app.file_uploader[0].upload(name, data, "text/csv")
        self.run()
        return self.confirm() if confirm else self

    def confirm(self) -> "Page":
        confirmed(self.app)
        for box in self.app.selectbox:  # of two columns of texts the last is offered
            if box.key == f"{self.key}_target" and "sick" in box.options and box.value != "sick":
                self.choose(target="sick")
        return self.run()

    def press(self, name: str) -> "Page":
        self.app.button(key=f"{self.key}_{name}").click().run()
        assert not self.app.exception
        return self

    def choose(self, **values: object) -> "Page":
        """Set controls, one after the other."""
        for name, value in values.items():
            widgets = [
                *(*self.app.selectbox, *self.app.multiselect, *self.app.toggle, *self.app.segmented_control),
                *(*self.app.number_input, *self.app.text_input),
            ]
            (widget,) = (one for one in widgets if one.key == f"{self.key}_{name}")
            widget.set_value(value).run()  # type: ignore[attr-defined]
            assert not self.app.exception
        return self

    def value(self, name: str) -> Any:
        widgets = [*self.app.selectbox, *self.app.multiselect, *self.app.number_input]
        return next(one.value for one in widgets if one.key == f"{self.key}_{name}")

    def type(self, name: str, rows: Mapping[Any, Mapping[str, object]] | None = None, added: Sequence = ()) -> "Page":
        """Fill in cells of the table whose key contains the name, by its row; or replace all of its rows."""
        editor = next(one for one in self.app.data_editor if f"_{name}_" in one.key)
        places = list(editor.value.index)
        self.app.session_state[editor.key] = {
            "edited_rows": {places.index(row): dict(cells) for row, cells in (rows or {}).items()},
            "added_rows": list(added),
            "deleted_rows": list(range(len(editor.value))) if rows is None else [],
        }
        return self.run()

    def members(self, *rows: tuple[str | None, float | None]) -> "Page":
        return self.type("members", added=[{"group": name, "share": share} for name, share in rows])

    def lists(self, **lists: str | None) -> "Page":
        """Use columns with these categories; None takes one out."""
        texts: dict[str, dict[str, object]]
        texts = {name: {"used": text is not None, "categories": text or ""} for name, text in lists.items()}
        if self.kind != "categories":
            texts = {name: {"categories": text or ""} for name, text in lists.items()}
        return self.type("lists", texts)


def table(kind: str = "table", rows: int = 60) -> pd.DataFrame:
    x = np.arange(rows)
    if kind == "losses":
        return pd.DataFrame({"wait": x % 2, "act": x % 3 / 2, "ask": x % 5 / 4, "region": np.resize(["a", "b"], rows)})
    frame = pd.DataFrame({"age": x % 7 * 1.0, "height": x % 11 * 1.0, "sick": np.where(x % 3 == 0, "yes", "no")})
    return frame.assign(region=np.resize(NORTH, rows)) if kind in ("groups", "categories") else frame


def declared(page: Page) -> Page:
    """Everything that a panel asks for, typed by the visitor."""
    if page.kind == "categories":
        return page.lists(region="north, south", sick="yes", age="bins: 2, 4")
    if page.kind in ("table", "users", "groups"):
        ranges = {"lowest": -5.0, "highest": 9.0}
        page.type("ranges", {"age": ranges, "height": ranges})
    if page.kind in ("groups", "losses"):
        page.members(("north", 0.4), ("south", 0.35), ("other", 0.25))
    return page


FROM_DATA = {
    "table": {("bounds", "age"), ("bounds", "height")},
    "users": {("bounds", "age"), ("bounds", "height")},
    "groups": {("bounds", "age"), ("bounds", "height"), ("groups", "region"), ("shares", "region")},
    "losses": {("bounds", "losses"), ("groups", "region"), ("shares", "region")},
    "categories": {("categories", name) for name in ("age", "height", "sick", "region")},
}


def filled(page: Page) -> Page:
    """Everything that can be taken from the rows is."""
    return page.press("fill").press("propose") if page.kind in ("groups", "losses") else page.press("fill")


# ------------------------------------------------------------------------------------------------ what every panel does


@PANELS
def test_what_is_declared_is_used_and_not_marked_and_survives_another_page(kind: str) -> None:
    page = Page(kind)
    assert page.nothing
    page.upload(table(kind))
    assert page.nothing or kind == "losses"
    assert not page.app.error and not page.marked
    before = declared(page).dataset
    assert not page.app.error and before.from_data == () and not page.marked and before.n == 60
    assert list(page.app.session_state["tables"]) == [before.identity]
    np.testing.assert_array_equal(before.rows(table(kind)), page.app.session_state["tables"][before.identity])
    for hidden in (True, False):
        page.app.session_state["hidden"] = hidden
        page.run()
    assert page.dataset == before


def forgotten(upload: file.File) -> bool:
    """Whether nothing of its rows is left, though a widget that was drawn for it may hold on to it for a while."""
    return upload.frame.empty and upload.result is None and not (upload.row_results or upload.starts or upload.bounds)


@PANELS
def test_what_is_taken_from_the_rows_is_marked_and_a_new_file_starts_afresh(kind: str) -> None:
    page = filled(Page(kind).upload(table(kind)))
    if kind == "losses":
        page.upload(table(kind).assign(ask=table(kind)["ask"] * 40 - 3))
        filled(page)
        assert set(page.dataset.bounds) == {(-10.0, 40.0)}
    assert set(page.dataset.from_data) == FROM_DATA[kind] and page.marked and not page.app.error
    first, upload = page.dataset.identity, page.app.session_state[page.key]
    gc.collect()
    rows, held = weakref.ref(upload.frame), len(file._held)
    page.upload(table(kind))
    assert not page.marked and (page.nothing or page.dataset.from_data == ())
    assert first not in page.app.session_state["tables"]
    gc.collect()
    assert rows() is None and len(file._held) <= held and forgotten(upload)


@pytest.mark.slow
def test_a_file_that_is_removed_leaves_the_uploader_too() -> None:
    page = filled(Page("table").upload(table()))
    upload, uploader = page.app.session_state[page.key], page.app.file_uploader[0].key
    assert page.app.file_uploader[0].value and page.app.session_state["tables"]
    page.app.button(key="p_remove").click().run()
    assert not page.app.exception and page.nothing and page.app.session_state["tables"] == {} and forgotten(upload)
    assert page.key not in page.app.session_state
    assert page.app.file_uploader[0].key != uploader and not page.app.file_uploader[0].value


@PANELS
def test_a_bad_file_is_an_error(kind: str) -> None:
    page = Page(kind)
    for data in (b"", b"  \n", b"\xff\xfe\x00\x81", b"just some words\nand more\n", b"a,b\n1,2\n" * 3):
        page.upload(data)
        assert page.app.error and page.nothing, data
        assert page.app.session_state[page.key].error.__traceback__ is None, "it would keep what was read"


@PANELS
def test_parquet_is_read_without_a_question(kind: str) -> None:
    buffer = io.BytesIO()
    table(kind).to_parquet(buffer)
    page = Page(kind).upload(buffer.getvalue(), "table.parquet", confirm=False)
    assert not any(button.label == CONFIRM for button in page.app.button)
    assert declared(page.confirm()).dataset.n == 60


GROUPS: list[tuple[list[tuple[str | None, float | None]], str]] = [
    ([], "needs groups"),
    ([("south", 0.7), ("north", 0.5), ("east", 0.1)], "sum to 1.3"),
    ([("south", None), ("north", None)], "2 groups need a share"),
    ([("south", -0.5), ("north", 0.5)], "'south' is no share"),
    ([("south", 0.0), ("north", 1.0)], "'south' is no share"),
    ([("south", 0.5), ("south", 0.5)], "'south' is listed twice"),
    ([(None, 0.5), ("south", 0.5)], "A share has no group"),
    ([("south", 0.3), ("other", 0.3)], "must sum to 1"),
    ([(f"g{number}", 0.04) for number in range(21)], "1 to 20 groups"),
    ([("x" * 300, 0.5)], "at most 200"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("rows", "words"), GROUPS)
def test_groups_that_cannot_be_used_are_named_and_can_be_mended(rows: list, words: str) -> None:
    page = Page("groups").upload(table("groups")).press("fill").members(*rows)
    assert words in page.said and page.nothing
    assert page.members(("south", 0.5)).dataset is not None and not page.app.error


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({"region": ""}, "at least one category"),
        ({"region": "city, city"}, "'city' is listed twice"),
        ({"region": "x" * 201}, "at most 200"),
        ({"region": ",".join(map(str, range(1001)))}, "at most 1,000"),
        ({"age": "bins: 2, 1"}, "'age' do not increase"),
        ({"age": "bins: 0, nan"}, "'age' do not increase"),
        ({"age": "bins: 0, 1e400"}, "'age' do not increase"),
        ({"age": "bins: young, old", "region": '"city'}, "'region' cannot be read"),
    ],
)
def test_categories_that_cannot_be_used_are_named_and_can_be_mended(lists: dict[str, str], words: str) -> None:
    page = (
        Page("categories")
        .upload(table("categories"))
        .type("lists", {name: {"used": True, "categories": text} for name, text in lists.items()})
    )
    assert words in page.said and all(f"'{name}'" in page.said or "listed" in words for name in lists if len(lists) > 1)
    assert page.nothing
    page.lists(sick="yes", **dict.fromkeys(lists))
    assert not page.app.error and page.dataset.columns == (("sick", ("yes", "other")),)


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0)])
def test_ranges_that_are_none_are_asked_for_again(low: float, high: float) -> None:
    page = declared(Page("table").upload(table())).type("ranges", {"age": {"lowest": low, "highest": high}})
    assert page.nothing and "'age' needs a range" in page.said
    page = declared(Page("losses").upload(table("losses"))).choose(lowest=low, highest=high)
    assert page.nothing
    assert page.choose(lowest=0.0, highest=2.0).dataset.bounds[0] == (0.0, 2.0)


@pytest.mark.parametrize("kind", ["table", "groups"])
def test_missing_values_are_filled_and_counted_and_dropped_only_if_asked(kind: str) -> None:
    frame = table(kind)
    frame.loc[[2, 5, 9], "age"] = np.nan
    page = filled(Page(kind).upload(frame))
    assert page.dataset.n == 60 and "3 in 'age'" in page.counted.replace("\\", "")
    assert page.choose(drop=True).dataset.n == 57
    if kind == "groups":  # rows of no group are never dropped
        frame.loc[[7, 8], "region"] = None
        page = filled(Page(kind).upload(frame)).choose(drop=True)
        assert page.dataset.n == 57 and "other" in page.shares and "2 rows belong to" in page.counted


# ----------------------------------------------------------------------------------------------------- tables and users


def test_the_first_target_offered_is_the_last_column_of_texts_whatever_the_rows_say() -> None:
    """One row with a third class offered another target, which entered the settings."""
    odd = table().assign(flag=np.arange(60) % 2, kind=np.resize(["a", "b"], 60))[["kind", "age", "sick", "flag"]]
    page = Page("table")
    for rows in (0, 1, 2):
        confirmed(page.upload(odd.assign(sick=["maybe"] * rows + odd["sick"].tolist()[rows:]), confirm=False).app)
        assert page.value("target") == "sick" and page.value("positive") == "yes"
        assert "the list shows the classes in the file" in page.counted
    assert page.upload(table().drop(columns="sick").assign(flag=np.arange(60) % 2)).value("target") == "flag"


@pytest.mark.parametrize("classes", [("bad", "good"), ("False", "True"), ("a", "b", "c")])
def test_a_positive_class_with_another_name_is_chosen_by_the_visitor(classes: tuple[str, ...]) -> None:
    """The class that was offered came from the file, and entered the settings without a mark."""
    page = Page("table").upload(table().assign(sick=np.resize(classes, 60)), confirm=False)
    confirmed(page.app, positive=False)
    page.press("fill")
    assert page.value("positive") is None and page.nothing and not page.app.error
    dataset = page.choose(positive=classes[0]).dataset
    assert (dataset.load(page.app.session_state["tables"]).labels == 1).sum() == 60 // len(classes)


def test_a_choice_that_comes_back_is_the_same_data_set_and_a_wrong_one_forgets_nothing() -> None:
    page = Page("table").upload(table()).press("fill")
    first = page.dataset
    second = page.choose(features=["age"]).dataset
    assert page.choose(features=[]).dataset is None and page.said
    assert page.choose(features=["age", "height"]).dataset == first and second.identity != first.identity
    assert page.upload(table()).press("fill").dataset.identity not in (first.identity, second.identity)


def test_a_number_can_be_the_target_and_its_range_is_declared_too() -> None:
    frame = table().assign(height=np.where(np.isin(np.arange(60), [2, 5]), np.nan, np.arange(60) % 11))
    page = Page("table").upload(frame).choose(target="height", kind="number")
    assert page.nothing and not page.app.error
    page.type("ranges", {"height": {"lowest": 1.0, "highest": 8.0}, "age": {"lowest": 0.0, "highest": 6.0}})
    dataset = page.dataset
    assert dataset.names == ("age",) and dataset.target_range == (1.0, 8.0) and not page.marked
    loaded = dataset.load(page.app.session_state["tables"])
    expected = np.where(np.isnan(frame["height"]), 4.5, np.clip(frame["height"], 1, 8))
    assert np.array_equal(loaded.labels, expected) and loaded.facts.target_range == (1.0, 8.0)
    assert page.choose(drop=True).dataset.n == 58
    page.choose(drop=False).press("fill")
    assert set(page.dataset.from_data) == {("bounds", "age"), ("bounds", "height")}
    page.upload(frame)
    assert next(one.value for one in page.app.segmented_control if one.key == "p_upload_kind") == "classes"


def test_texts_become_features_by_declared_categories() -> None:
    frame = table().assign(area=np.resize(["north", "south", "east"], 60), code=np.arange(60) % 5)
    page = Page("table").upload(frame).press("fill")
    assert page.dataset.names == ("age", "height", "code"), "texts are left out at first"
    page.choose(features=["age"], lists=["area", "code"])
    assert page.nothing
    dataset = page.lists(area="north, south", code="bins: 2, 4").dataset
    assert not page.app.error and dataset.facts().names == (
        *("age", "area: north", "area: south", "area: other"),
        *("code: below 2", "code: 2 to below 4", "code: 4 or more", "code: other"),
    )
    rows = dataset.load(page.app.session_state["tables"]).features
    assert rows[:3, 1:4].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]] and (rows[:, 4:].sum(axis=1) == 1).all()
    for text in ("north, north", "bins: a, b"):
        assert page.lists(area=text, code="bins: 2").dataset is None and page.app.error
    page.press("fill_lists")
    page.choose(target="area")
    assert "area" not in page.value("lists")
    page = Page("table").upload(frame).choose(features=[], lists=["area"]).press("fill_lists")
    assert page.dataset.categories == (("area", ("east", "north", "south", "other")),) and page.marked


def test_rows_of_a_user_are_protected_together_where_a_column_names_the_user() -> None:
    page = Page("users").upload(table(rows=120).assign(who=np.arange(120) % 30)).press("fill")
    alone = page.dataset
    assert type(alone) is UploadedTable and alone.n == 120 and "who" in page.value("features")
    data = page.choose(user="who").dataset
    assert isinstance(data, UserUpload) and (data.user, data.users, data.n) == ("who", 30, 120)
    assert "who" not in page.value("features") and data.identity != alone.identity
    assert KernelMachine(data=data, model="ridge").build(page.app.session_state["tables"]).facts.n == 15
    assert page.choose(user="age").app.error, "seven users"


@pytest.mark.parametrize(
    "kind", ["table", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("groups", "losses", "categories"))]
)
def test_a_person_has_the_rows_that_are_declared_and_no_use_as_a_feature(kind: str) -> None:
    frame = table(kind, rows=120)
    frame.insert(0, "who", [f"p{row % 50}" for row in range(120)])
    page = Page(kind).upload(frame)
    if kind in ("groups", "losses"):
        page.choose(group="region")
    alone = declared(page).dataset
    assert (alone.n, alone.person, alone.rows_per_person) == (120, None, 1)
    page.choose(person="who")
    data = declared(page).dataset if page.nothing else page.dataset
    assert (data.n, data.person, data.rows_per_person) == (50, "who", 1) and "left out" in page.counted
    data = page.choose(rows_per_person=2).dataset
    assert (data.n, data.person, data.rows_per_person) == (100, "who", 2) and data.identity != alone.identity
    assert "who" not in getattr(data, "names", ()) and "who" not in dict(getattr(data, "columns", ()))
    assert page.choose(person=None).dataset.n == 120


@pytest.mark.slow
def test_shares_bought_for_people_cost_a_person_what_is_said_and_hold_for_no_others() -> None:
    frame = table("groups", rows=4000)
    for name, people in (("who", 500), ("other", 450)):
        frame.insert(0, name, [f"p{row % people}" for row in range(4000)])
    page = Page("groups").upload(frame).choose(group="region").press("fill").choose(shares="bought")
    page.members(("south", None), ("north", None), ("east", None))
    page.choose(person="who", rows_per_person=4).choose(person="other")
    data = page.press("release").dataset
    assert data.n == 1800 and GroupLoss(data=data).released == (Laplace(data.costs[0] / 4),)
    assert page.choose(rows_per_person=2).dataset.n == 900, "of fewer rows of the same people"
    assert page.choose(person="who").nothing and page.app.error
    assert page.choose(person=None).dataset.costs == data.costs


@pytest.mark.slow
def test_no_more_is_kept_of_all_visitors_files_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    page = Page("table")
    gc.collect()
    before, size = sum(file._held.values()), 60 * (8 + 8 + 4)
    monkeypatch.setattr(file, "MAX_HELD", before + 2 * size)
    page.upload(table())
    assert size <= sum(file._held.values()) - before < 2 * size and not page.app.error
    page.upload(table(rows=200))
    gc.collect()
    assert page.app.error and sum(file._held.values()) == before
    assert not page.upload(table()).app.error


@pytest.mark.slow
def test_two_million_rows_are_refused_and_a_sample_is_offered() -> None:
    page = Page("table").upload(b"a,b,target\n" + b"1,2,0\n3,4,1\n" * 1_000_001)
    assert page.app.error and page.nothing
    page.app.button[0].click().run()
    assert page.press("fill").dataset.n == 1_000_000


# ---------------------------------------------------------------------------------------------------- groups and losses


THIRDS = [("south", 0.4), ("north", 0.35), ("east", 0.25)]  # nothing is left
ROOM = {"south": 0.32, "north": 0.28, "east": 0.2, "other": 0.2}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("south", 0.4), ("north", 0.35), ("other", 0.25)], {"south": 0.4, "north": 0.35, "other": 0.25}),
        ([("south", 0.5), ("north", 0.3)], {"south": 0.5, "north": 0.3, "other": 0.2}),
        *((rows, ROOM) for rows in (THIRDS, [*THIRDS, ("other", None)])),
    ],
)
def test_shares_are_those_declared_with_room_for_other_groups(rows: list, expected: dict[str, float]) -> None:
    page = Page("groups").upload(table("groups")).press("fill").members(*rows)
    assert page.shares == pytest.approx(expected) and set(page.dataset.from_data) == FROM_DATA["table"]
    assert ("15 rows belong to" in page.counted) == ("east" not in expected)


def test_shares_taken_from_the_data_stay_so_under_other_names_and_keep_those_declared() -> None:
    page = filled(Page("groups").upload(table("groups"))).press("knew_ranges")
    editor = next(one for one in page.app.data_editor if "_members_" in one.key).value
    rows = [(f"{name} of town", share) for name, share in zip(editor["group"], editor["share"], strict=True)][:-1]
    assert page.members(*rows).dataset.from_data == (("shares", "region"),) and page.marked
    assert page.members(*((name, 0.31) for name, _ in rows)).dataset.from_data == () and not page.marked
    page.members(("south", 0.6)).press("propose")  # a quarter each in the file: half of what south leaves
    assert page.shares == pytest.approx({"south": 0.5, "north": 0.2 / 1.2, "east": 0.2 / 1.2, "other": 0.2 / 1.2})


def test_a_game_of_groups_has_their_rows_and_a_game_of_losses_their_means() -> None:
    page = filled(Page("groups").upload(table("groups")))
    tables = page.app.session_state["tables"]
    np.testing.assert_array_equal(page.dataset.load(tables).groups, np.resize([1, 2, 2, 0], 60))
    np.testing.assert_array_equal(page.dataset.load(tables).labels, np.where(np.arange(60) % 3 == 0, 1.0, -1.0))
    game = GroupLoss(data=page.dataset).build(tables)
    assert game.groups == ("east", "north", "south", "other") and game.facts.d_x == 6
    page = Page("losses").upload(table("losses")).members(("a", 1 / 3), ("b", 1 / 3))
    assert page.dataset.bounds == ((0.0, 1.0),) * 3
    _, payoffs = (
        LossMatrix(data=page.dataset)
        .build(page.app.session_state["tables"])
        .gradients(np.eye(3), np.full((3, 3), 1 / 3))
    )
    means = table("losses").groupby("region").mean().to_numpy().T
    # Half of the rows are in either group, for which a third is declared.
    np.testing.assert_allclose(payoffs, np.column_stack([1.5 * means, np.zeros(3)]), atol=1e-12)


def test_the_group_column_is_neither_target_nor_feature_and_many_groups_leave_a_rest() -> None:
    page = Page("groups").upload(table("groups")).press("fill")
    assert page.value("group") == "region"
    assert page.choose(target="region").value("group") == "sick"
    assert page.choose(target="sick").value("group") == "region"
    page.choose(group="age").press("propose")
    assert page.dataset.names == ("height",) and "other" in page.shares
    names = np.array([f"g{number:02d}" for number in range(30)])
    page = Page("groups").upload(table("groups", 600).assign(region=names[np.minimum(np.arange(600) % 40, 29)]))
    page.choose(group="region").press("propose").press("fill")
    assert len(page.shares) == 20 and {"g29", "other"} <= set(page.shares)
    page.members(("g29", 0.2), ("of no row", 0.1)).press("propose")
    assert len(page.shares) == 20 and page.shares["g29"] == 0.2 and page.shares["of no row"] == 0.1
    *ordered, _ = page.shares
    assert ordered == sorted(ordered), "in the order of shares that were released before"
    page = Page("groups").upload(table().assign(sick=np.arange(60) % 2))
    assert page.nothing and page.said, "no column has groups"


def test_nothing_of_a_group_name_becomes_markup() -> None:
    page = Page("groups").upload(table("groups")).press("fill")
    page.members(("![a](https://example.org/a.png)", 0.3), ("$x$", 0.3), ("north", 0.3))
    assert "\\!\\[a\\]\\(https\\:\\/\\/example" in page.counted and "\\$x\\$" in page.counted


def buying(page: Page, frame: pd.DataFrame, *more: str) -> Page:
    names = ("south", "north", *more)
    return page.upload(frame).press("fill").choose(shares="bought").members(*((name, None) for name in names))


def test_shares_can_be_bought_and_the_plan_pays_for_every_release() -> None:
    page = buying(Page("groups"), table("groups", 6000), "east")
    assert page.nothing and not page.app.error
    page.choose(shares_cost=0.5).press("release")
    assert page.dataset.facts().shares_costs == (0.5,)
    assert GroupLoss(data=page.dataset).facts().released == (Laplace(0.5),)
    # Counts are right up to noise of scale 4 in 6,000 rows; nobody is in the last group, which gets the least share.
    assert page.shares == pytest.approx({"south": 0.49, "north": 0.245, "east": 0.245, "other": 0.02}, abs=0.02)
    assert ("shares", "region") not in page.dataset.from_data
    page.choose(shares_smallest=0.1)  # costs nothing
    assert len(page.dataset.facts().shares_costs) == 1 and page.shares["other"] == pytest.approx(0.1)
    page.press("release")
    assert LossMatrix(data=page.dataset).facts().released == (Laplace(0.5), Laplace(0.5))
    page.choose(shares="declared").members(("south", 0.5), ("north", 0.3))
    assert len(page.dataset.facts().shares_costs) == 2, "whether they are used or not"


def test_bought_shares_belong_to_their_groups_and_nothing_forgets_what_was_bought_from_a_file() -> None:
    """Neither other groups, nor reading the file again, nor uploading it after another one undoes a release."""
    frame = table("groups")
    page = buying(Page("groups"), frame).press("release")
    assert set(page.shares) == {"south", "north", "other"}
    assert page.members(("south", None), ("east", None)).dataset is None
    assert len(page.press("release").dataset.shares_costs) == 2
    page.choose(target="region", positive="south").members(("yes", None), ("no", None)).press("release")
    assert len(page.dataset.shares_costs) == 3, "of the same rows, whatever the column"
    page.press("change").choose(missing="none").confirm()
    page.press("fill").members(("south", None), ("north", None))
    assert page.dataset.shares_costs == (0.05,) * 3, "they can still be used"
    assert len(page.press("release").dataset.shares_costs) == 4
    assert buying(page, table("groups", 90)).dataset is None, "nothing was bought from another file"
    assert buying(page, frame).dataset.shares_costs == (0.05,) * 4


@pytest.mark.slow
def test_what_was_bought_for_one_game_is_paid_for_in_another_on_the_same_file() -> None:
    page = buying(Page("groups"), table("groups")).press("release")
    page.app.session_state["kind"] = page.kind = "losses"
    page.key = KEYS["losses"]
    buying(page.run(), table("groups"))
    assert page.press("release").dataset.shares_costs == (0.05,) * 2


# ----------------------------------------------------------------------------------------------------------- categories


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
        *((text, None) for text in ("bins: 0, ten", "bins: 0,,1", 'a, "b', '"a" b')),
    ],
)
def test_lists_and_edges_are_read_as_typed_or_refused(typed: str, expected: Declared | None) -> None:
    if expected is None:
        with pytest.raises(UserError):
            parse_categories("column", typed)
    else:
        assert parse_categories("column", typed) == expected


@pytest.mark.parametrize(
    "declared", [("a, b", 'c"d', '"', "e\nf", "bins: 1", "0"), ("bins: 1", "x"), Bins((-1.5, 1 / 3, 1e22, 1e300))]
)
def test_what_is_filled_in_is_read_back(declared: Declared) -> None:
    assert parse_categories("column", categories_text(declared)) == declared


def test_a_domain_is_that_of_the_lists_and_other_rows_are_counted() -> None:
    page = declared(Page("categories").upload(table("categories")))
    dataset, tables = page.dataset, page.app.session_state["tables"]
    assert dict(dataset.columns) == {
        "age": ("below 2", "2 to below 4", "4 or more", "other"),
        "region": ("north", "south", "other"),
        "sick": ("yes", "other"),
    }
    assert "15 in 'region'" in page.counted.replace("\\", "") and "40 in 'sick'" in page.counted.replace("\\", "")
    game = MarginalQueries(data=dataset).build(tables)
    assert game.facts.n == 60 and game.facts.d_x == 4 * 3 * 2
    assert page.lists(age=None, sick=None, region="bins: 1, 2").dataset.n == 60, "texts between no edges: other"


def test_a_fill_keeps_what_was_declared_and_what_it_takes_stays_marked_as_edges() -> None:
    page = Page("categories").upload(table("categories").assign(age=np.resize([1, 2, 3], 60), name=range(60)))
    page.type("lists", {"region": {"used": True, "categories": "north"}, "sick": {"used": True}}).press("fill")
    assert dict(page.dataset.columns) == {"region": ("north", "other"), "sick": ("no", "yes", "other")}
    assert page.dataset.from_data == (("categories", "sick"),)
    page = Page("categories").upload(table("categories").assign(age=np.resize([1, 2, 3], 60))).press("fill")
    listed = page.app.data_editor[0].value.at["age", "categories"].removeprefix("bins: ")
    others: dict[str, str | None] = dict.fromkeys(("height", "sick", "region"))
    for text, taken in ((f"bins: {listed}", True), (listed, True), ("bins: 1.5, 2.5", False)):
        assert page.lists(age=text, **others).dataset.from_data == ((("categories", "age"),) if taken else ())


def test_a_domain_is_limited_and_a_fill_keeps_to_that() -> None:
    page = Page("categories").upload(pd.DataFrame({f"c{number}": np.arange(60) % 12 for number in range(8)}))
    assert len(page.press("fill").dataset.columns) == 4  # 13⁴ = 28,561 combinations
    assert page.lists(c4="bins: 1, 2").dataset is None and "114,244" in page.said and "'c0'" in page.said
    assert page.lists(c4="bins: 1, 2", c0=None).dataset.facts().domain_size == 8788


@pytest.mark.slow
def test_an_enormous_domain_is_refused_too() -> None:
    page = Page("categories").upload(pd.DataFrame({f"c{number}": np.arange(60) % 10 for number in range(150)}))
    page.lists(**{f"c{number}": ",".join(map(str, range(999))) for number in range(150)})
    assert page.nothing and page.app.error


# --------------------------------------------------------------------------------------------------- how files are read


def written(separator: str = ";", decimal: str = ",", header: bool = True) -> bytes:
    rows = [f"{place}{decimal}{place + 100}{separator}{'yes' if place % 3 else 'no'}" for place in range(1, 61)]
    return "\n".join([f"dose{separator}ill"] * header + rows).encode()


def test_nothing_is_made_of_a_file_before_its_reading_is_confirmed_by_one_click() -> None:
    page = Page("table").upload(written(",", "."), confirm=False)
    assert "not private" in " ".join(one.value for one in [*page.app.markdown, *page.app.caption])
    assert not page.dataset and page.app.session_state["p_upload"].frame.empty and not page.app.multiselect
    dataset = page.confirm().press("fill").dataset
    assert (dataset.reading.separator, dataset.reading.decimal) == (",", ".") and dataset.bounds[0][1] < 100
    assert dataset.reading.kinds == ("number", "text")
    page.upload(written(), confirm=False)
    assert not page.dataset and page.value("separator") == ";", "another file is looked at afresh"


@pytest.mark.parametrize(
    ("data", "changes", "reading", "n"),
    [
        (written(), {"decimal": ","}, {"decimal": ",", "separator": ";"}, 60),
        (written(",", ".", header=False), {"header": True}, {}, 59),
        (written(",", "."), {"missing": "NA, unknown"}, {"missing": ("NA", "unknown")}, 60),
        (b"A report;\nof 2020;\n" + written(), {"above": 2}, {"above": 2}, 60),
    ],
    ids=["decimal", "header", "missing", "above"],
)
def test_how_a_file_is_read_can_be_changed(data: bytes, changes: dict, reading: dict, n: int) -> None:
    page = Page("table").upload(data, confirm=False).choose(**changes).confirm().press("fill")
    assert {name: getattr(page.dataset.reading, name) for name in reading} == reading and page.dataset.n == n
    before = page.dataset
    assert not page.press("change").dataset, "it has to be confirmed again"
    page.choose(missing="x").confirm().press("fill")
    assert page.dataset.identity != before.identity
    frame = read_table(data, "table.csv", reading=page.dataset.reading)
    np.testing.assert_array_equal(page.dataset.rows(frame), page.app.session_state["tables"][page.dataset.identity])


def test_what_columns_hold_can_be_said_and_a_wrong_setting_can_be_mended() -> None:
    data = b"age,note,dose,ill\n" + b"".join(b"%d,x%d,%d,%d\n" % (i, i, i % 7, i % 2) for i in range(60))
    page = Page("table").upload(data, confirm=False)
    assert page.app.session_state["p_upload"].proposal.ids == ("age", "note"), "proposed as left out"
    page.type("kinds", {0: {"holds": "Numbers"}, 2: {"holds": "Texts or categories"}}).confirm().press("fill")
    assert page.dataset.reading.kinds == ("number", "unused", "text", "number")
    assert page.value("features") == ["age", "ill"], "the last column of texts is the target"
    page.upload(written(), confirm=False).choose(separator="|").confirm()
    assert page.app.error and not page.dataset
    assert page.choose(separator=";").confirm().press("fill").dataset.n == 60


def test_one_row_that_changes_the_proposal_changes_no_other_row_under_what_was_declared() -> None:
    """The same file, but for one row, comes again in the session: it is read as it was declared, without a question."""
    rows = [f"{place % 9}.{place + 100},{20 + place},{'yes' if place % 3 else 'no'}" for place in range(300)]
    page = Page("table").upload("\n".join(["dose,age,ill", *rows]).encode()).press("fill")
    reading, frame = page.dataset.reading, page.app.session_state["p_upload"].frame
    for other in ('"0,5",40,no', "dose,age,ill", '"', ""):
        page.upload("\n".join(["dose,age,ill", *rows[:150], other, *rows[151:]]).encode(), confirm=False)
        held = page.app.session_state["p_upload"]
        assert held.proposal is None and held.reading == reading
        assert list(held.frame) == list(frame)
        assert held.frame.drop(150).astype(str).equals(frame.drop(150).astype(str))


def test_a_reading_that_is_used_again_is_said_and_leaves_out_no_row() -> None:
    """A file without a line break at its end lost its last row by the reading of one with it."""
    data, page = written(",", "."), Page("table")
    page.upload(data + b"\n").upload(data.replace(b"yes", b"no", 1) + b"\n", confirm=False)
    assert any(AGAIN in one.value for one in [*page.app.markdown, *page.app.caption, *page.app.info])
    assert len(page.app.session_state["p_upload"].frame) == 60
    page.upload(data, confirm=False)
    assert page.app.session_state["p_upload"].proposal is not None
    page.confirm()
    assert len(page.app.session_state["p_upload"].frame) == 60


ROW = 23
VALUES = ("", "nan", "inf", "1e308", "x" * 3000, "0,5", "1.234,50", '"', "?", "yes", "3", "-", ".", "*")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "number", "groups", "losses", "categories"])
def test_proposals_and_declarations_do_not_move_with_one_row(kind: str) -> None:
    def prepared(value: str | None = None) -> tuple[object, np.ndarray]:
        """What the panel makes by its proposals and the same declarations, without its identity."""
        x = np.arange(60)
        columns = {"age": x % 7, "height": x % 11 / 4, "region": NORTH, "sick": np.where(x % 3, "no", "yes")}
        frame = pd.DataFrame(columns).astype(object)
        if value is not None:
            frame.iloc[ROW] = value
        page = Page("table" if kind == "number" else kind).upload(frame)
        if kind == "number":
            page.choose(target="height", kind="number", lists=["sick", "region"])
            page.lists(sick="yes, no", region="north, south")
        if kind in ("table", "number", "groups"):
            ranges = {"age": {"lowest": 0.0, "highest": 10.0}, "height": {"lowest": -5.0, "highest": 5.0}}
            page.type("ranges", ranges)
        if kind in ("groups", "losses"):
            page.members(("north", 0.25), ("south", 0.5))
        if kind == "categories":
            page.lists(age="bins: 2, 4", region="north, south", sick="yes")
        assert not page.app.error
        return page.dataset.replaced(identity="0" * 32), page.app.session_state["tables"][page.dataset.identity]

    dataset, rows = prepared()
    moved = 0
    for value in VALUES:
        other, found = prepared(value)
        assert other == dataset, value
        assert np.array_equal(np.delete(found, ROW, axis=0), np.delete(rows, ROW, axis=0)), value
        moved += not np.array_equal(found, rows)
    assert moved > 5
