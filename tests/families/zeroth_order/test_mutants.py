"""Methods of the family with a mistake in one of their parts: the suite over the registry must see each."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dpviz.families.zeroth_order import DirectionalDescent, FirstOrder, Naive, VarianceReduced
from dpviz.families.zeroth_order.conversion import Path
from dpviz.families.zeroth_order.planning import Layout
from dpviz.privacy import batches
from dpviz.privacy.batches import Batch
from dpviz.privacy.matrix_factorisation import BinaryTree, Draw
from dpviz.privacy.queries import Query
from dpviz.problems.values import value_problem
from dpviz.problems.values.value_problem import ValueProblem
from tests.families.registry import ALL, Case, runs
from tests.families.test_mutants import fails

Patch = Callable[[pytest.MonkeyPatch], None]


def understated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sensitivity 100 times too small."""
    true = ValueProblem._query

    def wrong(self: ValueProblem, *arguments: Any) -> Query:
        query = true(self, *arguments)
        return query._replace(sensitivity=np.asarray(query.sensitivity) / 100)

    monkeypatch.setattr(ValueProblem, "_query", wrong)


def understated_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of a slope along one direction."""
    true = ValueProblem.directional

    def wrong(self: ValueProblem, *arguments: Any) -> Query:
        query = true(self, *arguments)
        return query._replace(sensitivity=np.asarray(query.sensitivity) / 100)

    monkeypatch.setattr(ValueProblem, "directional", wrong)


def without_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences count in full: the declared Lipschitz constant is believed."""
    monkeypatch.setattr(value_problem, "_clipped", lambda values, clips: values)


def row_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step reads the table's first row instead of the first of its own."""

    def wrong(self: ValueProblem, batch: Batch, rows: slice) -> Any:
        assert batch.indices is not None
        chosen = batch.indices[:, rows].copy()
        chosen[:, 0] = 0
        return self._rows[chosen], self._targets[chosen]

    monkeypatch.setattr(ValueProblem, "_gathered", wrong)


def raw(monkeypatch: pytest.MonkeyPatch, moves: bool) -> None:
    """Noise is drawn and paid for; then the raw estimate moves the learner, or its norm is shown."""
    query, learn, seen = ValueProblem._query, Path.learn, []

    def noted(self: ValueProblem, *arguments: Any) -> Query:
        seen.append(query(self, *arguments))
        return seen[-1]

    def wrong(self: Path, t: int, rows: np.ndarray, gradient: np.ndarray, *more: Any) -> None:
        learn(self, t, rows, seen[-1].value if moves else gradient, *more)
        if not moves:
            self.norm[rows] = np.linalg.norm(seen[-1].value, axis=1)

    monkeypatch.setattr(ValueProblem, "_query", noted)
    monkeypatch.setattr(Path, "learn", wrong)


def raw_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    raw(monkeypatch, moves=True)


def raw_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    raw(monkeypatch, moves=False)


def raw_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences are clipped at the largest one that there is."""
    true = value_problem._clipped

    def wrong(values: np.ndarray, clips: np.ndarray) -> np.ndarray:
        return true(values, np.maximum(clips, np.abs(values).max()))

    monkeypatch.setattr(value_problem, "_clipped", wrong)


def batches_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that should follow the moves do not, and changes are clipped by the distance alone."""
    true = ValueProblem.change

    def wrong(self: ValueProblem, x: np.ndarray, before: np.ndarray, batch: Batch, directions: Any, *more: Any) -> Any:
        clips = self.facts.lipschitz * np.linalg.norm(x - before, axis=1)
        return true(self, x, before, batch, directions, clips, *more[1:])

    monkeypatch.setattr(ValueProblem, "change", wrong)
    monkeypatch.setattr(Layout, "drawn_sizes", lambda self, mix: self.sizes.astype(int))


def fresh_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree whose nodes get new noise whenever they are summed: the same variance, and less privacy."""

    def wrong(self: BinaryTree, draw: Draw) -> Iterator[np.ndarray]:
        for t in range(1, self.length + 1):
            yield draw() * np.sqrt(t.bit_count())

    monkeypatch.setattr(BinaryTree, "stream", wrong)


def dealt_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """All leaves begin with the same row, the table's first."""
    true = batches.permuted

    def wrong(*arguments: Any) -> np.ndarray:
        found = true(*arguments)
        found[:, ::2] = 0
        return found

    monkeypatch.setattr(batches, "permuted", wrong)


def case_of(cls: type, start: str) -> Case:
    """The first case that is called so."""
    return next(case for case in runs(cls, ALL) if case.name.startswith(start))


ORTHONORMAL, DEFAULT, FOLLOWING = "directions=orthonormal, ", "default", "follow_moves=True, "


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("cls", "start", "mistake", "check"),
    [
        (VarianceReduced, DEFAULT, understated, "sensitivity"),
        (Naive, DEFAULT, understated, "sensitivity"),
        (Naive, DEFAULT, understated, "noise"),
        (DirectionalDescent, DEFAULT, understated_slope, "sensitivity"),
        (DirectionalDescent, "clip=0.1", without_clip, "sensitivity"),
        (DirectionalDescent, DEFAULT, row_again, "sensitivity"),
        (FirstOrder, DEFAULT, row_again, "sensitivity"),
        (VarianceReduced, ORTHONORMAL, without_clip, "sensitivity"),
        (Naive, DEFAULT, without_clip, "sensitivity"),
        (VarianceReduced, ORTHONORMAL, raw_moves, "sensitivity"),
        (VarianceReduced, DEFAULT, row_again, "sensitivity"),
        (Naive, DEFAULT, row_again, "sensitivity"),
        (VarianceReduced, FOLLOWING, without_clip, "sensitivity"),
        (VarianceReduced, DEFAULT, fresh_noise, "noise"),
        (VarianceReduced, DEFAULT, dealt_twice, "sensitivity"),
        (Naive, DEFAULT, dealt_twice, "sensitivity"),
        (VarianceReduced, DEFAULT, raw_gradient, "released only"),
        (Naive, DEFAULT, raw_gradient, "released only"),
        (VarianceReduced, DEFAULT, raw_norm, "released only"),
    ],
)
def test_a_mistake_is_caught(
    cls: type, start: str, mistake: Patch, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(cls, start)
    assert not fails([case], check)
    mistake(monkeypatch)
    assert fails([case], check)


def test_batches_that_do_not_follow_the_moves_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where moves are as long as they may be: else no two points are far apart."""
    case = case_of(VarianceReduced, FOLLOWING)
    fast = case.algorithm.replaced(expected_norm=0.01)
    case = case._replace(algorithm=fast, plan=fast.plan(case.specification.facts(), case.budget))
    assert not fails([case], "sensitivity")
    batches_alike(monkeypatch)
    assert fails([case], "sensitivity")
