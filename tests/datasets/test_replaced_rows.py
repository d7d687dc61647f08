"""Replacing one row of an upload by anything changes one row of its array, and no fact, plan or booked event."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.datasets import prepare, prepare_categories, prepare_groups, read_table
from dpviz.datasets.uploads.parsing import Bins
from dpviz.experiments import experiment as experiments
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import HeavyBall, Nesterov
from dpviz.families.mirror_descent import SyntheticData, VertexSampling
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares, LogisticRegression

N, REPLACED = 60, 17
NAME = "0123456789abcdef" * 2
RANGES = {"age": (0.0, 100.0), "income": (-1.0, 3.0)}


def frame() -> pd.DataFrame:
    """Whole numbers, fractions, classes that are numbers, texts that are numbers, true or false, and texts."""
    x = np.arange(N)
    return pd.DataFrame(
        {
            "age": 20 + x,
            "income": np.linspace(-1, 3, N) / 3,
            "ill": x % 2,
            "area": np.resize(["north", "south", "south"], N),
            "code": np.resize([1, 2, 10], N),
            "member": x % 3 == 0,
        }
    )


@dataclass(frozen=True)
class Path:
    """One way from a file to a problem; `prepare` takes a table and an identity."""

    prepare: Callable[[pd.DataFrame], Any]
    problem: Callable[..., ProblemSpecification]
    methods: tuple[Algorithm, ...]


GROUPS = ["north", "south"]
SHARES = [1 / len(GROUPS)] * len(GROUPS)
PATHS = {
    "plain": Path(
        lambda table: prepare(table, "ill", "1", list(RANGES), RANGES, identity=NAME),
        LogisticRegression,
        (Nesterov(iterations=3), Nesterov(iterations=3, noise="gaussian")),
    ),
    "truths": Path(
        lambda table: prepare(table, "member", "True", ["age", "code"], RANGES | {"code": (0, 9)}, identity=NAME),
        LogisticRegression,
        (Nesterov(iterations=3),),
    ),
    "a number": Path(
        lambda table: prepare(table, "income", None, ["age"], RANGES, identity=NAME, target_range=(-1.0, 1.0)),
        LeastSquares,
        (Nesterov(iterations=3), Nesterov(iterations=3, noise="gaussian")),
    ),
    "a number from categories": Path(
        lambda table: prepare(
            table,
            "income",
            None,
            ["age"],
            RANGES,
            identity=NAME,
            categories={"area": GROUPS, "code": ["1", "2"], "member": ["True"], "ill": Bins((0.5,))},
            target_range=(-1.0, 1.0),
        ),
        HuberRegression,
        (Nesterov(iterations=3), HeavyBall(iterations=3, batch_fraction=0.5)),
    ),
    "groups": Path(
        lambda table: prepare_groups(
            table, "ill", "1", "area", list(RANGES), bounds=RANGES, groups=GROUPS, shares=SHARES, identity=NAME
        ),
        GroupLoss,
        (VertexSampling(iterations=3),),
    ),
    "shares that leave nothing": Path(
        lambda table: prepare_groups(
            table,
            "ill",
            "1",
            "code",
            list(RANGES),
            bounds=RANGES,
            groups=["1", "2", "10"],
            shares=[0.3, 0.3, 0.4],
            identity=NAME,
        ),
        GroupLoss,
        (VertexSampling(iterations=3),),
    ),
    "losses": Path(
        lambda table: prepare_groups(
            table, None, None, "area", list(RANGES), bounds=RANGES, groups=GROUPS, shares=SHARES, identity=NAME
        ),
        LossMatrix,
        (VertexSampling(iterations=3),),
    ),
    "categories": Path(
        lambda table: prepare_categories(
            table,
            {"area": GROUPS, "code": ["1", "2"], "member": ["True"], "age": Bins((30, 50)), "income": Bins((0.0,))},
            identity=NAME,
        ),
        MarginalQueries,
        (SyntheticData(iterations=3), VertexSampling(iterations=3)),
    ),
}
ANYTHING: list[object] = [
    *(None, math.nan, math.inf, -math.inf, 1e308, -1e308, 10**400, 1e-320, "1e400", "", " ", "NA", "?"),
    *("west", "other", "x" * 5000, "1_0", "0x10", "1,5", 'say "hi"', "a\nb", "True", True, pd.Timestamp("2020-01-01")),
]


def replaced(value: object, columns: list[str] | None = None) -> pd.DataFrame:
    """The table with one row of nothing but this value, as pandas makes it of cells that do not fit their column."""
    table = frame()
    for name in columns or list(table):
        cells = table[name].astype(object)
        cells.iloc[REPLACED] = value
        # Of a number beyond float64, pandas 2.2 cannot tell the type.
        table[name] = pd.Series(cells.tolist(), dtype=object if value == 10**400 else None)
    return table


def by_file(table: pd.DataFrame) -> pd.DataFrame:
    return read_table(table.to_csv(index=False).encode(), "t.csv")


def booked(problem: ProblemSpecification, methods: tuple[Algorithm, ...], tables: dict[str, np.ndarray]) -> object:
    """Everything that is planned, and everything that a run books."""
    experiment = Experiment(
        problem=problem,
        arms=tuple(Arm(label=f"arm {place}", algorithm=method) for place, method in enumerate(methods)),
        budget=ApproximateDP(epsilon=2.0, delta=1e-5),
        replicates=1,
        seed=0,
    )
    ledgers: list[experiments.Ledger] = []  # type: ignore[name-defined]

    class Kept(experiments.Ledger):  # type: ignore[name-defined]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            ledgers.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "Ledger", Kept)
        experiment.run(tables)
    assert len(ledgers) == len(methods) and all(ledger.booked(0) for ledger in ledgers)
    plans = [
        (plan.events, {name: np.asarray(series).tolist() for name, series in plan.schedule.items()})
        for plan in experiment.plans().values()
    ]
    return repr(plans), [ledger.booked(0) for ledger in ledgers]


@pytest.mark.slow
@pytest.mark.parametrize("through", [by_file, lambda table: table], ids=["file", "frame"])
@pytest.mark.parametrize("name", PATHS)
def test_one_replaced_row_moves_no_fact_no_plan_and_no_booked_event(
    name: str, through: Callable[[pd.DataFrame], pd.DataFrame]
) -> None:
    path = PATHS[name]
    before = path.prepare(through(frame()))
    problem = path.problem(data=before.specification)
    expected = booked(problem, path.methods, {NAME: before.table})
    others = np.delete(before.table, REPLACED, axis=0)
    runs = 0
    for value in ANYTHING:
        after = path.prepare(through(replaced(value)))
        assert after.specification == before.specification, value
        assert np.array_equal(np.delete(after.table, REPLACED, axis=0), others), value
        assert np.isfinite(after.table).all() and after.table.dtype == before.table.dtype, value
        if not np.array_equal(after.table, before.table):
            runs += 1
            assert booked(problem, path.methods, {NAME: after.table}) == expected, value
    assert runs > 10


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
CELLS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.sampled_from(["1.0", " 2", "-inf"]))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(frame(), CELLS)), st.sampled_from(list(PATHS)))
def test_whatever_stands_in_one_row_the_others_are_read_alike(row: dict[str, object], name: str) -> None:
    table = frame()
    for column, value in row.items():
        cells = table[column].astype(object)
        cells.iloc[REPLACED] = value
        table[column] = pd.Series(cells.tolist())
    before, after = (PATHS[name].prepare(found) for found in (frame(), table))
    assert after.specification == before.specification
    assert np.array_equal(np.delete(after.table, REPLACED, axis=0), np.delete(before.table, REPLACED, axis=0))
    again = PATHS[name].prepare(by_file(table))
    assert again.specification == before.specification
    assert np.array_equal(np.delete(again.table, REPLACED, axis=0), np.delete(before.table, REPLACED, axis=0))
