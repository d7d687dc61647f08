"""Sweeps: whoever runs the points, in whatever order they end; and two settings at once."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pandas as pd
import pytest

from dpviz.errors import UserError
from dpviz.experiments.task import Cell, OnProgress, Outcome, SerialExecutor, StopSignal
from dpviz.privacy.budgets import PureDP
from dpviz.sweeps.sweep import Axis, Sweep
from dpviz.sweeps.sweep_result import LeftOut, PointKey
from tests.sweeps.test_sweep import BASE, DIMENSIONS, GAP, SEVERAL


@dataclass
class Elsewhere:
    """Runs the cells in an order of its own; some end in a given way instead."""

    order: Sequence[int] = ()
    instead: Mapping[int, Outcome] = field(default_factory=dict)
    cells: Sequence[Cell] = ()

    def run(
        self, cells: Sequence[Cell], stopping: StopSignal, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        self.cells = cells
        for number in self.order or range(len(cells)):
            if number in self.instead:
                yield number, self.instead[number]
            else:
                ((_, outcome),) = SerialExecutor().run([cells[number]], stopping)
                yield number, outcome


def test_a_sweep_is_cells_that_keep_the_last_record() -> None:
    executor = Elsewhere()
    DIMENSIONS.run(executor=executor)
    assert executor.cells == DIMENSIONS.cells() and {cell.keep for cell in executor.cells} == {"last"}
    assert [cell.experiment for cell in executor.cells] == list(DIMENSIONS.points())


@pytest.fixture(scope="module")
def outcomes() -> dict[int, Outcome]:
    """Of the points of a sweep over several data sets; some did not end well."""
    found = dict(SerialExecutor().run(SEVERAL.cells(), threading.Event()))
    return found | {3: Outcome("failed", "Too large."), 5: Outcome("done", left_out={"noisy": "Not here."})}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("order", [(8, 7, 6, 5, 4, 3, 2, 1, 0), (4, 0, 8, 2, 6, 1, 3, 7, 5)])
def test_the_result_is_the_same_in_whatever_order_points_end(
    outcomes: dict[int, Outcome], order: Sequence[int]
) -> None:
    here, there = (SEVERAL.run(executor=Elsewhere(way, outcomes)) for way in ((), order))
    pd.testing.assert_frame_equal(here.to_frame(), there.to_frame())
    assert there.left_out == here.left_out and len(here.left_out) == 3
    for label in here.curves:
        assert there.laws(label) == here.laws(label) and there.curves[label].data_seeds == here.curves[label].data_seeds
    for one, other in zip(here.orders("sampling", "noisy"), there.orders("sampling", "noisy"), strict=True):
        assert one.leaders == other.leaders and np.array_equal(one.crossings, other.crossings)


def test_a_point_that_fails_is_left_out_with_its_sentence_and_nothing_but_failures_is_a_mistake() -> None:
    failed = Outcome("failed", "This run needed more memory than a run may use.")
    result = DIMENSIONS.run(executor=Elsewhere(instead={0: failed}))
    assert result.series("a")[0].tolist() == [4, 8] and result.finished == 2
    assert [(item.key.value, item.label, item.reason) for item in result.left_out] == [
        (2.0, "a", failed.message), (2.0, "b", failed.message)
    ]  # fmt: skip
    with pytest.raises(UserError, match="more memory than a run may use"):
        DIMENSIONS.run(executor=Elsewhere(instead=dict.fromkeys(range(3), failed)))


@pytest.mark.parametrize("ending", ["stopped", "timeout"])
def test_points_that_were_cut_off_leave_what_is_finished(ending: Literal["stopped", "timeout"]) -> None:
    steps = DIMENSIONS.stream(executor=Elsewhere(order=(1, 0, 2), instead={0: Outcome(ending), 2: Outcome(ending)}))
    *_, step = steps
    assert step.result.cut == ending and step.result.finished == 1 and 0 < step.progress < 1
    assert step.result.series("a")[0].tolist() == [4] and step.result.left_out == []


def test_points_from_a_store_are_counted_and_their_part_of_the_progress_is_told() -> None:
    (_, known), *_ = SerialExecutor().run(DIMENSIONS.cells()[:1], threading.Event())
    steps = list(DIMENSIONS.stream(executor=Elsewhere(instead={0: replace(known, restored=True)})))
    assert steps[-1].result.restored == 1 and steps[-1].result.finished == 3
    assert [step.restored for step in steps] == pytest.approx([1 / 3] * 3)
    pd.testing.assert_frame_equal(steps[-1].result.to_frame(), DIMENSIONS.run().to_frame())


# ------------------------------------------------------------------------------------------------- two settings

BOTH = DIMENSIONS.replaced(
    values=(2.0, 4.0), second=Axis(fields=("budget.epsilon", "arms.0.algorithm.relative_step"), values=(1.0, 0.5))
)


def test_every_value_of_the_one_is_taken_with_every_value_of_the_other() -> None:
    assert Sweep.from_json(BOTH.to_json()) == BOTH and BOTH.points_per_data_set == 4
    settings = [(point.problem.dimension, point.budget.epsilon) for point in BOTH.points()]  # type: ignore[attr-defined]
    assert settings == [(2, 0.5), (4, 0.5), (2, 1.0), (4, 1.0)]
    assert [(point.value, point.second) for point in BOTH.planned()] == settings
    assert BOTH.points()[0].arms[0].algorithm.relative_step == 0.5  # type: ignore[attr-defined]
    same = BOTH.replaced(second=Axis(fields=("problem.rows",), values=(1000.0, 1.5)))
    with pytest.raises(UserError, match=r"At the values 2 and 1\.5: Rows must be a whole number"):
        same.points()


def test_what_two_settings_give_can_be_read_value_by_value() -> None:
    result = BOTH.run()
    assert result.second == (0.5, 1.0) and result.finished == 4
    frame = result.to_frame()
    assert list(frame.columns)[3:5] == ["setting", "second_setting"] and len(frame) == 2 * 4 * 3
    result.left_out, result.cut = [LeftOut(PointKey(0, 2.0, 0.5), "a", "It failed.")], "stopped"
    result.prices, result.done = {0.5: "ε = 1", 1.0: "ε = 2"}, result.done[:3]  # as of a file, stopped at the last
    views = [result.at(second) for second in result.second]
    assert [(view.finished, view.points, len(view.left_out), view.cut, view.price) for view in views] == [
        (2, 2, 1, "", "ε = 1"),
        (1, 2, 0, "stopped", "ε = 2"),
    ]
    for second in result.second:
        view, alone = result.at(second), BASE.replaced(budget=PureDP(epsilon=second))
        values, samples = view.series("b")
        assert values.tolist() == [2, 4] and view.second == () and "second_setting" not in view.to_frame()
        np.testing.assert_array_equal(samples[0], alone.run().last("b", GAP))
        assert view.orders("a", "b") and view.laws("a")[0] is not None
    for along_both in (result.medians, result.laws):
        with pytest.raises(UserError, match=r"result\.at\(0\.5\)"):
            along_both("a")


def test_a_sweep_has_any_number_of_points() -> None:
    values = tuple(float(value) for value in range(2, 32))
    sweep = DIMENSIONS.replaced(values=values, second=Axis(fields=("budget.epsilon",), values=values))
    assert sweep.points_per_data_set == 900
