"""`dpviz.table`: one call for a table of one's own, whose rows go with the declarations."""

import gc
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
from scipy.sparse import csr_matrix

import dpviz
from dpviz.datasets import UploadedTable, prepare
from dpviz.datasets.uploads import files, limits
from dpviz.datasets.uploads.files import TableFile

N = 40
FRAME = pd.DataFrame(
    {
        "age": np.linspace(20, 60, N),
        "pay": np.arange(N) % 7,
        "town": ["A", "B"] * (N // 2),
        "sick": ["no", "yes"] * (N // 2),
    }
)
BOUNDS = {"age": (0, 100), "pay": (0, 10)}
DECLARED: dict[str, Any] = {"target": "sick", "positive": "yes", "features": ["age", "pay"], "bounds": BOUNDS}
EXPERIMENT: dict[str, Any] = {"arms": dpviz.Nesterov(iterations=3), "epsilon": 1, "seed": 5}


def _as(kind: str, folder: Path) -> Any:
    """The same table as data of another kind."""
    if kind == "parquet":
        FRAME.to_parquet(folder / "t.parquet")
        return folder / "t.parquet"
    if kind == "csv":
        FRAME.to_csv(folder / "t.csv", index=False)
        return str(folder / "t.csv")
    return {"frame": FRAME, "arrow": pyarrow.Table.from_pandas(FRAME), "other index": FRAME.set_index(FRAME.age * 2)}[
        kind
    ]


@pytest.mark.parametrize("kind", ["frame", "parquet", "csv", "arrow", "other index"])
def test_a_table_of_any_kind_has_the_rows_that_its_declarations_make(kind: str, tmp_path: Path) -> None:
    data = dpviz.table(_as(kind, tmp_path), **DECLARED)
    expected = prepare(FRAME, "sick", "yes", ["age", "pay"], BOUNDS).table
    np.testing.assert_allclose(data.carried[data.identity], expected)
    assert "20" not in data.to_json().replace(data.identity, "")


@pytest.mark.parametrize(
    "cells",
    [
        pd.to_timedelta([1.5, 3] * 10, "s"),
        pd.array([1.5, 3] * 10, pd.ArrowDtype(pyarrow.dictionary(pyarrow.int32(), pyarrow.float64()))),
        pd.array([b"1.5", b"3"] * 10, pd.ArrowDtype(pyarrow.binary())),
    ],
)
def test_a_column_of_pandas_is_read_as_that_of_arrow(cells: Any) -> None:
    lists = pd.array([[1]] * 20, pd.ArrowDtype(pyarrow.list_(pyarrow.int8())))  # which nothing reads
    keys = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 20), pyarrow.array([[1]]))
    intervals = pyarrow.array([(1, 2, 3)] * 20, pyarrow.month_day_nano_interval())
    frame = pd.DataFrame({"x": cells, "y": cells, "unused": lists})
    frame = frame.assign(keys=pd.arrays.ArrowExtensionArray(keys), when=pd.arrays.ArrowExtensionArray(intervals))
    for table in (frame, frame.astype({"y": object}), pyarrow.table(frame)):
        bounds: Any = {"x": [0, 5]}  # a list, as from JSON
        data = dpviz.table(table, target="y", features=["x"], positive=1.5, bounds=bounds)
        np.testing.assert_array_equal(data.carried[data.identity][:2], [[1.5, 1], [3, -1]])
        for used in ({"target": "unused"}, {"features": ["keys"]}, {"features": None}):
            with pytest.raises(dpviz.UserError, match="one number or text per cell"):
                dpviz.table(table, **{"target": "y", "features": ["x"], "positive": 1, "bounds": (0, 5)} | used)


def test_names_ranges_and_categories_may_be_as_numpy_and_pandas_have_them() -> None:
    frame = FRAME.assign(wing=np.arange(N) % 2, town=np.arange(N) % 3)
    target: dict[str, Any] = {"target": "sick", "positive": "yes"}
    for given, meant in (
        (
            {"features": frame.columns[[0, 2]], "bounds": np.array([0, 100]), "categories": {"town": [0, 1.0]}},
            {"features": ["age", "town"], "bounds": {"age": (0, 100)}, "categories": {"town": ["0", "1"]}},
        ),
        (
            {"features": ["age"], "bounds": (0, 100), "groups": [0, 1], "shares": np.array([0.3, 0.6])},
            {"features": ["age"], "bounds": (0, 100), "groups": ["0", "1"], "shares": [0.3, 0.6]},
        ),
    ):
        group = {"group": "wing"} if "groups" in given else {}
        data, expected = (dpviz.table(frame, **target, **group, **declared) for declared in (given, meant))
        assert data == expected.replaced(identity=data.identity)
        np.testing.assert_array_equal(*(part.carried[part.identity] for part in (data, expected)))


def test_runs_and_sweeps_find_the_rows_and_those_of_an_equal_text_too() -> None:
    data = dpviz.table(FRAME, **DECLARED)
    experiment = dpviz.Experiment(dpviz.LogisticRegression(data=data), **EXPERIMENT)
    again = dpviz.Experiment.from_json(experiment.to_json())
    given = experiment.run({data.identity: data.carried[data.identity]})
    for trace in (experiment.run(), again.run()):
        np.testing.assert_array_equal(trace.last("DP-NAG", "distance"), given.last("DP-NAG", "distance"))
    assert dpviz.Sweep(experiment, epsilon=(0.5, 1.0)).run().finished == 2


def test_the_rows_live_as_long_as_the_data() -> None:
    data = dpviz.table(FRAME, **DECLARED)
    text = data.to_json()
    del data
    gc.collect()
    gone = dpviz.Experiment(dpviz.LogisticRegression(data=UploadedTable.from_json(text)), **EXPERIMENT)
    with pytest.raises(dpviz.UserError):
        gone.run()


def test_arrays_have_numbered_columns_and_one_range_for_all() -> None:
    x = np.random.default_rng(0).random((N, 3))
    of_classes = dpviz.table((x, x[:, 0] > 0.5), positive=True, bounds=(0, 1))
    of_numbers = dpviz.table((x, 3 * x[:, 0]), bounds={"x1": (0, 1), "x2": (0, 1), "x3": (0, 1), "y": (0, 3)})
    assert of_classes.facts().names == of_numbers.facts().names == ("x1", "x2", "x3")
    assert (of_classes.facts().target_range, of_numbers.facts().target_range) == (None, (0, 3))
    rows = of_classes.carried[of_classes.identity]
    np.testing.assert_array_equal(rows[:, -1], np.where(x[:, 0] > 0.5, 1, -1))
    with pytest.warns(UserWarning, match="without a finite number"):
        masked = dpviz.table((np.ma.masked_array(x, x > 0.9), x[:, 0] > 0.5), positive=True, bounds=(0, 1))
    assert masked.carried[masked.identity][:, :-1].max() <= 0.9


def test_groups_users_and_categories_have_the_same_way() -> None:
    frame = FRAME.assign(who=np.arange(N) // 2)
    groups = dpviz.table(frame, **DECLARED, group="town", groups=["A", "B"], shares=[0.5, 0.5])
    users = dpviz.table(frame, **DECLARED, user="who")
    categories = dpviz.table(frame, categories={"town": ("A", "B"), "sick": ("no", "yes")})
    assert [type(data).__name__ for data in (groups, users, categories)] == [
        "GroupedUpload",
        "UserUpload",
        "CategoricalUpload",
    ]
    for data in (groups, users, categories):
        data.load(data.carried)
    of_texts = dpviz.table(FRAME[["town", "sick"]], target="sick", positive="yes", categories={"town": ("A", "B")})
    assert (of_texts.facts().d, of_texts.facts().numeric) == (3, 0)
    assert users.facts().users == N // 2  # type: ignore[union-attr]


def test_a_large_file_is_read_in_blocks_and_gives_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _as("parquet", tmp_path)
    whole = dpviz.table(path, **DECLARED)
    monkeypatch.setattr(limits, "MAX_ROWS", N - 1)
    in_blocks = dpviz.table(path, **DECLARED)
    assert isinstance(in_blocks.carried[in_blocks.identity], TableFile) and in_blocks.n == N
    with pytest.raises(dpviz.UserError):
        dpviz.table(path, **DECLARED, user="age")
    rows = [dpviz.LogisticRegression(data=data).load_rows(data.carried)[0].features for data in (whole, in_blocks)]
    np.testing.assert_array_equal(*rows)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_oddities_are_warnings_and_rows_that_are_left_out_are_counted(
    in_blocks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame: Any = FRAME.assign(pay=FRAME.pay.where(FRAME.pay > 0))
    missing = int(frame.pay.isna().sum())
    if in_blocks:
        frame.to_parquet(tmp_path / "t.parquet")
        frame = tmp_path / "t.parquet"
        monkeypatch.setattr(limits, "MAX_ROWS", N - 1)
    with pytest.warns(UserWarning, match=f"left out.*{missing}"):
        data = dpviz.table(frame, **DECLARED, drop_missing=True)
    with pytest.warns(UserWarning, match=f"middle of the declared range: {missing}"):
        dpviz.table(frame, **DECLARED)
    assert data.n == N - missing and "left out" in repr(data)
    monkeypatch.setattr(files, "ROWS", 20)  # of the first block, fewer than 20 rows are left
    with pytest.warns(UserWarning, match=f"left out.*{missing}"):
        assert dpviz.table(frame, **DECLARED, drop_missing=True).n == data.n
    with warnings.catch_warnings(action="error"):
        dpviz.table(FRAME, **DECLARED)


WRONG: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no ranges": ({"bounds": {}}, ("age", "pay")),
    "one range": ({"bounds": {"age": (0, 1)}}, ("pay",)),
    "a range upside down": ({"bounds": BOUNDS | {"pay": (1, 0)}}, ("pay", "below")),
    "a range of three numbers": ({"bounds": BOUNDS | {"pay": (0, 1, 2)}}, ("'pay' is (0, 1, 2)",)),
    "a range of categories": (
        {"features": ["town"], "categories": {"town": ["A", "B"]}, "bounds": {"town": (0, 1)}},
        ("'town' has a range and no use",),
    ),
    "a range without a column": ({"bounds": BOUNDS | {"wage": (0, 1)}}, ("wage",)),
    "another column": ({"features": ["wage"]}, ("wage",)),
    "a column that is nearly there": ({"features": ["agee"]}, ("Did you mean 'age'",)),
    "no column": ({"features": []}, ("No feature",)),
    "two features of one name": (
        {"data": FRAME.rename(columns={"pay": "constant"}), "features": ["age", "constant"]}
        | {"bounds": (0, 100), "constant": True},
        ("'constant'",),
    ),
    "no target": ({"target": None}, ("target",)),
    "another target": ({"target": "ill"}, ("ill",)),
    "a number of texts": ({"positive": None}, ("sick",)),
    "texts as features": ({"features": None}, ("town",)),
    "another file": ({"data": "nowhere.csv"}, ("nowhere.csv",)),
    "a name beyond all files": ({"data": "a" * 5000}, ("cannot be read",)),
    "a name with a null character": ({"data": "a\0"}, ("cannot be read",)),
    "no table": ({"data": 3}, ("3 is no table",)),
    "one column": ({"data": FRAME.age}, ("a Series is no table",)),
    "rows of other lengths": ({"data": ([[1, 2], [3]], [0, 1])}, ("These arrays are no table",)),
    "arrays of other lengths": ({"data": (np.ones((30, 2)), np.ones(3))}, ("(3,)",)),
    "a sparse matrix": ({"data": (csr_matrix(np.ones((30, 2))), np.ones(30))}, ("toarray",)),
    "groups and users": ({"group": "town", "user": "pay"}, ("user",)),
    "groups of no column": ({"groups": ["A", "B"], "shares": [0.5, 0.5]}, ("group=",)),
    "several rows of a user": ({"user": "town", "rows_per_person": 3}, ("person",)),
    "users of categories alone": (
        {"target": None, "positive": None, "features": None, "bounds": {}}
        | {"categories": {"town": ("A", "B")}, "user": "pay"},
        ("user",),
    ),
}


def test_a_file_that_may_not_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    FRAME.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(dpviz.UserError, match="Permission denied"):
        dpviz.table(tmp_path / "t.csv", **DECLARED)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "t.csv", index=False, sep=";")
    with pytest.raises(dpviz.UserError, match="reading="):
        dpviz.table(tmp_path / "t.csv", **DECLARED)
    for changes, named in WRONG.values():
        with pytest.raises(dpviz.UserError) as caught:
            dpviz.table(**({"data": FRAME} | DECLARED | changes))
        for word in named:
            assert word in "".join(traceback.format_exception_only(caught.value))
