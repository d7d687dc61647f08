"""Ranges that are bought: one row, or user, changes the counts by what the noise is for, and the cost is never lost."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpviz
from dpviz.datasets import own_table
from dpviz.datasets.uploads import limits
from dpviz.exports.export import to_csv
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems import private_bounds as module

N = 4000
_RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": _RNG.uniform(18, 60, N),
        "debt": _RNG.uniform(-900, 0, N),
        "flag": np.arange(N) % 2,
        "none": ["a", "b"] * (N // 2),
        "zero": 0.0,
        "who": np.arange(N) // 4,
    }
)
COLUMNS = ["age", "debt", "flag"]
ODD = [np.nan, np.inf, -np.inf, 0.0, 1e-300, 1e300, -1e300, 2.0**-20, 2.0**41]


@pytest.mark.parametrize("user", [None, "who"])
def test_what_is_replaced_changes_the_counts_by_the_sensitivity_at_most(
    user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over hostile cells, and users with any number of rows; two rows in different bins attain it."""
    queries: list[Any] = []
    laplace = Mechanisms.laplace

    def record(self: Mechanisms, query: Query, event: Any) -> np.ndarray:
        queries.append(query)
        return laplace(self, query, event)

    monkeypatch.setattr(Mechanisms, "laplace", record)
    frame = FRAME[:600].copy()
    rows = [7] if user is None else np.flatnonzero(frame.who == 3).tolist()
    for value in [5.0, *ODD]:
        frame.loc[rows, COLUMNS] = value
        frame.loc[rows[:-1], COLUMNS] = -3.0 * value  # the other rows of a user
        dpviz.private_bounds(frame, COLUMNS, epsilon=20, user=user)
    changes = [np.abs(a.value - b.value).sum() for a in queries for b in queries]
    if user is not None:  # one row that changes its user is no larger a change, so rows are protected, too
        frame.loc[rows[0], user] = 4
        dpviz.private_bounds(frame, COLUMNS, epsilon=20, user=user)
        changes.append(np.abs(queries[-1].value - queries[-2].value).sum())
    assert max(changes) == pytest.approx(queries[0].sensitivity) == 2 * len(COLUMNS) and queries[0].norm == "l1"


def test_ranges_are_those_of_bins_with_rows_and_a_column_without_numbers_has_none() -> None:
    bought = dpviz.private_bounds(FRAME, [*COLUMNS, "none", "zero"], epsilon=40)
    low, high = bought.ranges["debt"]
    assert bought.ranges | {"debt": ()} == {"age": (16, 64), "flag": (0, 1), "debt": ()}
    assert low == -1024 and -16 <= high <= 0
    assert set(bought.columns) - set(bought.ranges) == {"none", "zero"}
    with pytest.raises(dpviz.UserError) as caught:
        dpviz.table(FRAME, target="flag", positive=1, features=["age", "zero"], bounds=bought)
    assert "zero" in str(caught.value) and "private_bounds" in str(caught.value) and "age" not in str(caught.value)


def test_what_was_bought_is_part_of_every_guarantee_and_a_model_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    bought = {"debt": (-1000, 0)} | dpviz.private_bounds(FRAME, ["age", "debt"], epsilon=1)
    assert bought.ranges["debt"] == (-1000, 0) and bought.costs == (1,)
    twice = bought | dpviz.private_bounds(FRAME, ["age"], epsilon=0.5)
    with pytest.raises(TypeError):
        dict(**bought)  # type: ignore[arg-type]
    FRAME.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(limits, "MAX_ROWS", N - 1)
    for rows in (FRAME, tmp_path / "t.parquet"):
        data = dpviz.table(rows, target="flag", positive=1, features=["age", "debt"], bounds=twice)
        experiment = dpviz.Experiment(dpviz.LogisticRegression(data=data), dpviz.Nesterov(iterations=3), epsilon=2)
        (plan,) = dpviz.Experiment.from_json(experiment.to_json()).plans().values()
        assert plan.spent("epsilon")[[0, -1]].tolist() == pytest.approx([1.5, 2])
        trace = experiment.run()
        assert "1.5" in trace.model("DP-NAG").guarantee and "1 + 0.5" in repr(data)
        header = to_csv(trace, experiment, experiment.plans()).split("one whole run of DP-NAG: epsilon = ")[1]
        assert 1.5 < float(header.split()[0]) <= 2
        with pytest.raises(dpviz.UserError):
            experiment.replaced(budget=dpviz.PureDP(epsilon=1.5)).plans()


def test_too_few_rows_and_other_units_are_refused_before_anything_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    of_users = dpviz.private_bounds(FRAME, ["age", "flag"], epsilon=20, user="who")
    declared: dict[str, Any] = {"target": "flag", "positive": 1, "features": ["age"]}
    assert dpviz.table(FRAME, **declared, bounds=of_users, user="who").costs == (20,)
    monkeypatch.setattr(module, "Mechanisms", None)
    wrong = [
        lambda: dpviz.private_bounds(FRAME[:100], COLUMNS, epsilon=0.5),
        lambda: dpviz.private_bounds(FRAME, [], epsilon=1),
        lambda: dpviz.private_bounds(FRAME[:0], ["age"], epsilon=1),
        lambda: dpviz.private_bounds(FRAME, ["age", "age"], epsilon=1),
        lambda: dpviz.private_bounds(FRAME, ["wage"], epsilon=1),
        lambda: dpviz.table(FRAME, **declared, bounds=own_table.BoughtRanges({"age": (0, 99)}, (1.0,), ()), user="who"),
        lambda: of_users | own_table.BoughtRanges({}, (1.0,), ()),
    ]
    for call in wrong:
        with pytest.raises(dpviz.UserError):
            call()
