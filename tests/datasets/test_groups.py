"""Grouped data sets: what is declared is enforced, groups and shares come from declarations and never from counts."""

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets import BundledTable
from dpviz.datasets.groups import (
    GroupedBundled,
    GroupedFacts,
    GroupedLosses,
    GroupedSigns,
    GroupedSpecification,
    GroupedUpload,
    prepare_groups,
)
from dpviz.datasets.uploads.upload import Prepared
from dpviz.errors import UserError
from dpviz.specification import Specification, registered

BOUNDS = {"age": (0.0, 100.0), "income": (0.0, 1e5)}
SECRET = "s3cret"
UPLOAD = GroupedUpload(
    identity="a" * 32,
    n=20,
    bounds=((0.0, 10.0), (-1.0, 3.0)),
    names=("a", "b"),
    groups=("x", "y", "z"),
    shares=(0.5, 0.3, 0.2),
)
SPECIFICATIONS = [GroupedSigns(), GroupedLosses(), GroupedBundled(), GroupedBundled(grouping="three")]


def frame(**changes: object) -> pd.DataFrame:
    n = 40
    columns = {
        "age": np.linspace(18.0, 90.0, n),
        "income": np.arange(n) * 1000.0,
        "label": ["no", "yes"] * (n // 2),
        "city": ["north", "south", "east", SECRET] * (n // 4),
        "code": [1.0, 2.0, 2.5, np.nan] * (n // 4),
    }
    return pd.DataFrame(columns | changes)


def prepared(table: pd.DataFrame | None = None, **choice: object) -> Prepared:
    arguments = {"target": "label", "positive": "yes", "group": "city", "features": ["age", "income"]}
    arguments |= {"bounds": BOUNDS, "groups": ["north", "south", "east"]} | choice
    arguments.setdefault("shares", [1 / len(arguments["groups"]) for _ in arguments["groups"]])
    return prepare_groups(frame() if table is None else table, **arguments)  # type: ignore[arg-type]


def refused(table: pd.DataFrame | None = None, **choice: object) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        prepared(table, **choice)
    assert SECRET not in caught.value.title + str(caught.value)
    return caught.value.title, str(caught.value)


def test_every_kind_is_tested_here() -> None:
    assert {type(s) for s in [*SPECIFICATIONS, UPLOAD]} == set(registered(GroupedSpecification))


@pytest.mark.parametrize("specification", SPECIFICATIONS, ids=lambda s: s.content_hash()[:6])
def test_what_is_loaded_keeps_to_what_is_declared(specification: GroupedSpecification) -> None:
    facts, data = specification.facts(), specification.load()
    assert data.facts == facts and data.features.shape == (facts.n, facts.d)
    assert np.abs(data.features).max() <= 1 and np.abs(data.labels).max() <= 1
    assert not any(array.flags.writeable for array in (data.features, data.labels, data.groups))
    counts = np.bincount(data.groups, minlength=len(facts.groups)) / facts.n
    assert counts == pytest.approx(facts.shares, abs=0.015)
    assert facts.smallest_share == min(facts.shares)
    assert Specification.from_json(specification.to_json()) == specification


def test_a_seed_decides_the_rows() -> None:
    first, same, other = (GroupedSigns(rows=300, dimension=5, seed=seed).load() for seed in (1, 1, 2))
    assert np.array_equal(first.features, same.features) and not np.array_equal(first.features, other.features)


def test_signs_follow_their_formula() -> None:
    data = GroupedSigns(rows=500, dimension=6).load()
    own = data.features[np.arange(500), 1 + data.groups]
    assert set(np.unique(data.features)) == {-1.0, 1.0}
    assert np.array_equal(data.labels, 0.5 * data.features[:, 0] + 0.5 * own)


def test_specialists_fail_their_own_group_rarely() -> None:
    data = GroupedLosses(rows=30_000, dimension=8).load()
    losses = np.array([(data.features[data.groups == group].mean(axis=0) + 1) / 2 for group in range(3)])
    expected = np.full((3, 8), 0.6)
    np.fill_diagonal(expected, 0.1)
    assert losses == pytest.approx(expected, abs=5 * np.sqrt(0.24 / 10_000))


def test_the_bundled_table_is_grouped_by_self_rated_health() -> None:
    raw, labels = BundledTable(table="health_insurance").raw_rows({})
    names = BundledTable(table="health_insurance").facts().names
    four, three = GroupedBundled().load(), GroupedBundled(grouping="three").load()
    health = raw[:, [names.index(name) for name in ("hlthg", "hlthf", "hlthp")]]
    assert np.array_equal(four.groups, (health @ [1, 2, 3]).astype(int))
    assert np.array_equal(three.groups, np.minimum(four.groups, 2))
    assert np.array_equal(four.labels, labels) and not any(name.startswith("hlth") for name in four.facts.names)
    low, high = np.array(four.facts.bounds).T
    back = (four.features + 1) / 2 * (high - low) + low
    assert np.allclose(back, raw[:, [names.index(name) for name in four.facts.names]], rtol=0, atol=1e-12)


def test_hostile_uploads_are_forced_into_the_declarations() -> None:
    table = np.tile([5.0, 1.0, 1.0, 0.0], (20, 1))
    table[0] = [np.nan, np.inf, np.nan, np.nan]
    table[1] = [1e300, -1e300, 1e300, 1e300]
    table[2] = [-np.inf, 3.0, -np.inf, -1.0]
    table[3, 3] = 1.5
    data = UPLOAD.load({UPLOAD.identity: table})
    assert data.features[:4].tolist() == [[-1.0, -0.5], [1.0, -1.0], [-1.0, 1.0], [0.0, 0.0]]
    assert data.labels[:4].tolist() == [0.0, 1.0, 0.0, 1.0]
    assert data.groups[:5].tolist() == [2, 2, 2, 2, 0]
    assert np.isnan(table[0, 0])  # the caller's table stays as it was


def test_a_row_beyond_its_ranges_counts_as_the_row_at_their_ends() -> None:
    table = np.tile([9.0, 2.0, 1.0, 1.0], (20, 1))
    loud = table.copy()
    loud[4, :3] *= 1e6
    table[4, :3] = [10.0, 3.0, 1.0]
    assert np.array_equal(UPLOAD.load({"a" * 32: loud}).features, UPLOAD.load({"a" * 32: table}).features)
    assert np.array_equal(UPLOAD.load({"a" * 32: loud}).labels, UPLOAD.load({"a" * 32: table}).labels)


def test_a_missing_table_is_a_sentence() -> None:
    for tables in ({}, {UPLOAD.identity: np.zeros((20, 3))}, {UPLOAD.identity: np.zeros((20, 4), dtype=np.float32)}):
        with pytest.raises(UserError, match=r"Upload the file again|An array of"):
            UPLOAD.load(tables)


def test_an_upload_becomes_the_chosen_columns_and_the_group() -> None:
    result = prepared()
    specification = result.specification
    assert specification.groups == ("north", "south", "east", "other") and specification.shares == (0.25,) * 4
    assert np.array_equal(specification.rows(frame()), result.table) and result.dropped == 0
    assert not result.table.flags.writeable
    assert np.array_equal(result.table[:, 0], frame()["age"]) and specification.names == ("age", "income")
    data = specification.load({specification.identity: result.table})
    assert data.labels[:2].tolist() == [-1.0, 1.0] and data.groups[:5].tolist() == [0, 1, 2, 3, 0]
    assert np.allclose(data.features[:, 0], frame()["age"] / 50 - 1)
    assert Specification.from_json(specification.to_json()) == specification and not specification.public
    assert SECRET not in specification.to_json()


def test_there_is_always_a_place_for_other_groups() -> None:
    known = ["north", "south", "east", SECRET]
    assert prepared(groups=known).specification.groups == (*known, "other")  # though nobody is in it
    assert prepared(groups=known).specification.shares == (0.2,) * 5
    by_share = prepared(groups=known, shares=[0.2] * 4).specification
    assert by_share.groups[-1] == "other" and by_share.shares == pytest.approx((0.2,) * 5)
    some = prepared(shares=[0.3, 0.3, 0.2])
    assert some.specification.shares == pytest.approx((0.3, 0.3, 0.2, 0.2)) and some.table[3, -1] == 3
    first = prepared(groups=["other", "north"])
    assert first.specification.groups == ("other", "north") and first.table[:5, -1].tolist() == [1, 0, 0, 0, 1]


@pytest.mark.parametrize("left", [0.0, 1e-9, 0.0005, -1e-9])
def test_declared_shares_that_leave_nothing_make_room_for_other_groups(left: float) -> None:
    specification = prepared(shares=[0.5, 0.3, 0.2 - left]).specification
    assert specification.groups[-1] == "other"
    assert specification.shares == pytest.approx((0.5 / 1.2, 0.3 / 1.2, 0.2 / 1.2, 0.2 / 1.2), abs=1e-3)
    assert sum(specification.shares) == pytest.approx(1, abs=1e-12)


def test_groups_of_numbers_are_named_like_classes_and_missing_ones_are_others() -> None:
    result = prepared(group="code", groups=["1", "2.5", "2"])
    assert result.table[:4, -1].tolist() == [0, 2, 1, 3] and result.specification.groups[-1] == "other"
    empty = prepared(frame(code=[np.nan] * 40), group="code", groups=["1"])
    assert (empty.table[:, -1] == 1).all()


def test_rows_with_gaps_are_dropped_only_when_asked_and_are_counted() -> None:
    table = frame()
    table.loc[[3, 7], "age"] = np.nan
    filled = prepared(table)
    assert filled.dropped == 0 and (filled.table[[3, 7], 0] == 50).all() and "2 in 'age'" in filled.notes[-1]
    result = prepared(table, drop_missing=True)
    assert result.dropped == 2 and len(result.table) == 38 == result.specification.n
    assert result.table[3:5, -1].tolist() == [0, 1]  # groups move with their rows
    table.loc[5:35, "income"] = np.nan
    assert refused(table, drop_missing=True)[0] == "Only 8 rows are left"


def test_a_table_of_losses_needs_no_target() -> None:
    result = prepared(target=None, positive=None)
    assert (result.table[:, -2] == 0).all() and result.table[:4, -1].tolist() == [0, 1, 2, 3]
    assert prepared(frame(label_=1, label=2), target=None).specification.names == ("age", "income")


MISTAKES = {
    "no such group column": ({"group": "height"}, "The file has no column 'height'", "again"),
    "group is a feature": ({"group": "age"}, "Column 'age' has two uses", "neither"),
    "group is the target": ({"group": "label"}, "Column 'label' has two uses", "neither"),
    "no groups": ({"groups": []}, "No group is declared", "List the groups"),
    "a group twice": ({"groups": ["north", "north"]}, "These groups cannot be used", "of its own"),
    "too many": ({"groups": [str(j) for j in range(30)]}, "These groups cannot be used", "1 to 20"),
    "too few shares": ({"shares": [0.5, 0.3]}, "These groups cannot be used", "of its own"),
    "a share of nothing": ({"shares": [0.5, 0.3, 0.0]}, "These groups cannot be used", "between 0.001 and 1"),
    "shares above one": (
        {"groups": ["north", "other"], "shares": [0.9, 0.9]},
        "These groups cannot be used",
        "sum to 1",
    ),
    "shares above one without other": ({"shares": [0.9, 0.9, 0.9]}, "These groups cannot be used", "sum to 1"),
    "no share is a number": ({"shares": [np.nan, 0.3, 0.2]}, "These groups cannot be used", "between"),
    "no range": ({"bounds": {"age": (0, 1)}}, "Column 'income' needs a range", "without looking"),
    "one group in two spellings": ({"groups": ["1", "1.0"]}, "These groups cannot be used", "the same"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_unusable_choices_get_their_sentence(name: str) -> None:
    choice, title, part = MISTAKES[name]
    assert refused(**choice)[0] == title and part in refused(**choice)[1]


BROKEN = {
    "names": {"names": ("a", "a")},
    "range": {"bounds": ((1.0, 0.0), (0.0, 1.0))},
    "shares": {"shares": (0.5, 0.5)},
    "sum": {"shares": (0.5, 0.5, 0.5)},
    "groups": {"groups": ("x", "x", "z")},
    "identity": {"identity": "nothing"},
    "rows": {"n": 3},
}


@pytest.mark.parametrize("name", BROKEN)
def test_specifications_of_uploads_are_validated(name: str) -> None:
    with pytest.raises(UserError):
        UPLOAD.replaced(**BROKEN[name])


def test_facts_refuse_what_cannot_be() -> None:
    good = {"n": 5, "bounds": ((0.0, 1.0),), "names": ("a",), "groups": ("x",), "shares": (1.0,)}
    assert GroupedFacts(**good).d == 1
    for change in ({"n": 0}, {"names": ()}, {"bounds": ((1.0, 1.0),)}, {"shares": (0.5,)}):
        with pytest.raises(ValueError):
            GroupedFacts(**good | change)
