"""The contract of every data set: facts without data, bounds enforced, the registry walked."""

from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.datasets import (
    BundledTable,
    CorrelatedLogistic,
    CovertypeLike,
    CovertypeUpload,
    Dataset,
    DatasetFacts,
    DatasetSpecification,
    FactorDraws,
    HeavyTailed,
    NormalDraws,
    PaperLogistic,
    ProcessDraws,
    RegressionDraws,
    Saddle,
    SphereLinear,
    UniformLinear,
    UniformLogistic,
    UploadedTable,
    UserUpload,
    enforce_bounds,
)
from dpviz.datasets.categories import CategoricalSpecification
from dpviz.datasets.groups import GroupedSpecification
from dpviz.datasets.uploads.upload import Upload
from dpviz.errors import UserError
from dpviz.specification import Specification, registered

TABLE = np.column_stack([np.linspace(-3.0, 3.0, 30), np.arange(30.0), np.tile([-1.0, 1.0], 15)])
KEY, MIXED, FOREST, PEOPLE = "a" * 32, "b" * 32, "c" * 32, "d" * 32
SPECIFICATIONS = [
    UniformLogistic(rows=700, dimension=3, seed=5),
    PaperLogistic(rows=600, dimension=4),
    CorrelatedLogistic(rows=800, dimension=5),
    HeavyTailed(rows=900, dimension=2),
    BundledTable(table="breast_cancer"),
    BundledTable(table="digits"),
    BundledTable(table="health_insurance"),
    UniformLinear(rows=600, dimension=3),
    Saddle(rows=1000, dimension=3),
    SphereLinear(rows=1000, dimension=3),
    NormalDraws(rows=200, dimension=3),
    RegressionDraws(rows=200, dimension=3),
    ProcessDraws(rows=150, dimension=3),
    FactorDraws(rows=200, dimension=7),
    CovertypeLike(rows=1000),
    CovertypeUpload(identity=FOREST, n=30),
    UserUpload(identity=PEOPLE, n=30, bounds=((-1.0, 1.0), (0.0, 10.0)), names=("a", "b"), users=20),
    UploadedTable(
        identity=MIXED,
        n=30,
        bounds=((-1.0, 1.0),),
        names=("a",),
        categories=(("area", ("north", "south", "other")), ("size", ("below 3", "3 or more", "other"))),
        edges=(("size", (3.0,)),),
        target_range=(-2.0, 1.0),
    ),
    UploadedTable(identity=KEY, n=30, bounds=((-1.0, 1.0), (0.0, 10.0)), names=("a", "b")),
]
TABLES = {KEY: TABLE, MIXED: np.column_stack([TABLE[:, 0], np.arange(30) % 5, np.arange(30) % 4 - 1, TABLE[:, 0]])}
TABLES[PEOPLE] = np.column_stack([TABLE, np.r_[np.arange(20.0), np.nan, np.inf, -5.0, 99.0, np.zeros(6)]])
TABLES[FOREST] = np.column_stack([np.tile(TABLE[:, :2] * 1000, 27), TABLE[:, 2]])


def enforced(features: np.ndarray, bounds: tuple[tuple[float, float], ...]) -> np.ndarray:
    """What the definition says, entry by entry: non-finite to 0, then into the range."""
    result = np.empty_like(features)
    for i, row in enumerate(features):
        for j, value in enumerate(row):
            low, high = bounds[j]
            result[i, j] = min(max(value if np.isfinite(value) else 0.0, low), high)
    return result


def test_every_registered_kind_is_covered_here() -> None:
    assert {type(s) for s in SPECIFICATIONS} == set(registered(DatasetSpecification))


def test_only_what_says_so_is_public() -> None:
    every: set[Any] = {
        *registered(DatasetSpecification),
        *registered(GroupedSpecification),
        *registered(CategoricalSpecification),
    }
    assert {kind.public for kind in every if not issubclass(kind, Upload)} == {True}
    assert not Hostile.public and not any(kind.public for kind in every if issubclass(kind, Upload))


@pytest.mark.parametrize("specification", SPECIFICATIONS, ids=lambda s: s.content_hash()[:6] + s.kind)
def test_load_delivers_what_the_facts_announce(specification: DatasetSpecification) -> None:
    facts, data = specification.facts(), specification.load(TABLES)
    assert isinstance(data, Dataset) and data.facts == facts
    assert data.features.shape == (facts.n, facts.d) and data.labels.shape == (facts.n,)
    assert data.features.dtype == data.labels.dtype == np.float64
    assert data.features.flags.c_contiguous and not data.features.flags.writeable and not data.labels.flags.writeable
    low, high = np.array(facts.bounds).T
    assert (data.features >= low).all() and (data.features <= high).all()
    if facts.target_range is None:
        assert set(np.unique(data.labels)) == {-1.0, 1.0}
    else:
        assert facts.target_range[0] <= data.labels.min() < data.labels.max() <= facts.target_range[1]
    start = facts.numeric
    for size in facts.blocks:
        assert (np.sort(data.features[:, start : start + size], axis=1) == [*[0.0] * (size - 1), 1.0]).all()
        start += size
    assert len(set(facts.names)) == facts.d and specification.title


@pytest.mark.parametrize("specification", SPECIFICATIONS, ids=lambda s: s.content_hash()[:6] + s.kind)
def test_settings_survive_json(specification: DatasetSpecification) -> None:
    assert Specification.from_json(specification.to_json()) == specification


def test_only_uploads_are_not_public() -> None:
    assert [type(s).kind for s in SPECIFICATIONS if not s.public] == [
        "datasets.covertype.upload",
        "datasets.users.upload",
        *["datasets.upload.table"] * 2,
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(), st.floats()), min_size=1, max_size=40))
def test_bounds_hold_for_any_numbers(rows: list[tuple[float, float]]) -> None:
    bounds = ((-1.0, 2.0), (5.0, 7.5))
    features = np.array(rows)
    expected = enforced(features, bounds)
    enforce_bounds(features, bounds)
    assert np.array_equal(features, expected)


def test_bounds_hold_across_row_blocks() -> None:
    features = np.random.default_rng(0).standard_cauchy((300_000, 2))
    features[::1000] = [np.nan, -np.inf]
    features[1::1000] = [1e300, -1e300]
    expected = features.copy()
    expected[::1000] = 0.0
    expected = np.column_stack([expected[:, 0].clip(-1, 1), expected[:, 1].clip(2, 3)])
    enforce_bounds(features, ((-1.0, 1.0), (2.0, 3.0)))
    assert np.array_equal(features, expected)


class Hostile(DatasetSpecification):
    """Rows and labels that break every promise; not registered."""

    label: float = 1.0

    def facts(self) -> DatasetFacts:
        return DatasetFacts(4, ((-1.0, 1.0), (2.0, 3.0)), ("a", "b"))

    def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        features = np.array([[np.nan, np.nan], [np.inf, -np.inf], [1e300, 1e300], [-1e300, -1e300]])
        return features, np.array([1.0, -1.0, 1.0, self.label])


def test_hostile_rows_are_clipped_after_zeroing() -> None:
    expected = [[0.0, 2.0], [0.0, 2.0], [1.0, 3.0], [-1.0, 2.0]]
    features, labels = Hostile().raw_rows({})
    masked, locked = np.ma.masked_array(features, True), features.copy()
    locked.flags.writeable = False
    for raw in (features, masked, locked, np.asfortranarray(features), features.astype(object), features.tolist()):
        with patch.object(Hostile, "raw_rows", lambda *_, raw=raw: (raw, labels.astype(int))):
            loaded = Hostile().load().features
        assert np.array_equal(np.ma.getdata(loaded), expected) and loaded.flags.c_contiguous
        assert loaded.dtype == np.float64
    wrong: list[Any] = [(features[1:], labels), (features,), (features, labels, labels), features, (), None]
    for raw in (*wrong, ([[1.0], [1.0, 2.0]], labels), (features.astype(str), ["yes"] * 4)):
        with patch.object(Hostile, "raw_rows", lambda *_, raw=raw: raw), pytest.raises(UserError, match="4 of 2"):
            Hostile().load()


@pytest.mark.parametrize("label", [0.0, 0.999999999, 2.0, -1.5])
def test_labels_other_than_plus_minus_one_are_refused(label: float) -> None:
    with pytest.raises(UserError, match="exactly -1 or \\+1"):
        Hostile(label=label).load()


def test_labels_that_are_not_numbers_are_refused() -> None:
    table = TABLE.copy()
    for bad in (np.nan, np.inf):
        table[3, -1] = bad
        with pytest.raises(UserError, match="exactly -1 or \\+1"):
            SPECIFICATIONS[-1].load({KEY: table})


@pytest.mark.parametrize(
    ("n", "bounds", "names"),
    [
        (0, ((0.0, 1.0),), ("a",)),
        (5, (), ()),
        (5, ((0.0, 1.0),), ("a", "b")),
        (5, ((1.0, 1.0),), ("a",)),
        (5, ((0.0, np.inf),), ("a",)),
        (5, ((np.nan, 1.0),), ("a",)),
        (5, ((0.0, 1e200),), ("a",)),
    ],
)
def test_facts_that_cannot_be_are_refused(
    n: int, bounds: tuple[tuple[float, float], ...], names: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match=r"facts need|declared range"):
        DatasetFacts(n, bounds, names)


def test_whatever_a_table_holds_one_feature_of_each_categorical_column_is_1() -> None:
    class Broken(DatasetSpecification):
        def facts(self) -> DatasetFacts:
            return DatasetFacts(3, ((0.0, 1.0),) * 4, ("a", "b", "c", "d"), (3,), (0.0, 8.0))

        def raw_rows(self, tables: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
            features = np.array([[2.0, np.nan, 1, 1], [np.inf, -5, -5, -5], [0.5, 0.2, 0.1, 1e308]])
            return features, np.array([np.nan, 1e308, -np.inf])

    data = Broken().load()
    assert data.features.tolist() == [[1, 0, 1, 0], [0, 1, 0, 0], [0.5, 0, 0, 1]]
    assert data.labels.tolist() == [4, 8, 4]


@pytest.mark.parametrize("place", [-1.0, 2.0, 3.0, 0.5, np.nan, 1e300, -np.inf])
def test_a_place_that_is_in_no_list_is_the_last_category(place: float) -> None:
    specification = UploadedTable(identity=KEY, n=20, bounds=(), names=(), categories=(("a", ("x", "y", "other")),))
    table = np.column_stack([np.full(20, place), np.ones(20)])
    assert (specification.load({KEY: table}).features == [0, 0, 1]).all()
