"""Pairwise cases: of a product of parameters, few cases in which every two values of different parameters meet."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def all_pairs(test: Test) -> Test:
    """Above a stack of `pytest.mark.parametrize`: not all combinations, but all pairs.

    A mistake that shows whenever two settings meet is found as in the full product; one that needs three is left to the
    tests of properties with random values.
    """
    marks = getattr(test, "pytestmark", [])
    axes = [_axis(mark) for mark in marks if mark.name == "parametrize"]
    if len(axes) < 3:
        raise ValueError("with fewer than three parameters, all pairs are all combinations")
    cases = [[axis[1][i] for axis, i in zip(axes, row, strict=True)] for row in covering([len(a[1]) for a in axes])]
    names = [name for axis in axes for name in axis[0]]
    values = [tuple(value for case in row for value in case[0]) for row in cases]
    texts = ["-".join(case[1] for case in row) for row in cases]
    test.pytestmark = [mark for mark in marks if mark.name != "parametrize"]  # type: ignore[attr-defined]
    return pytest.mark.parametrize(names, values, ids=texts)(test)


def covering(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Rows of indices below `sizes` in which every pair of indices of two columns occurs; greedy, always the same."""
    missing = {
        (a, i, b, j) for a, b in combinations(range(len(sizes)), 2) for i in range(sizes[a]) for j in range(sizes[b])
    }
    rows = []
    candidates = list(product(*map(range, sizes)))
    while missing:
        best = max(candidates, key=lambda row: len(missing & _pairs(row)))
        missing -= _pairs(best)
        rows.append(best)
    return sorted(rows)


def _pairs(row: Sequence[int]) -> set[tuple[int, int, int, int]]:
    return {(a, row[a], b, row[b]) for a, b in combinations(range(len(row)), 2)}


def _axis(mark: pytest.Mark) -> tuple[list[str], list[tuple[tuple[Any, ...], str]]]:
    """Names of one mark, and its values with their texts."""
    names, values = mark.args
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cells = [tuple(value) if len(names) > 1 else (value,) for value in values]
    ids = mark.kwargs.get("ids")
    if callable(ids):
        texts = ["-".join(str(ids(value)) for value in cell) for cell in cells]
    else:
        texts = list(ids or map(str, values))
    return names, list(zip(cells, texts, strict=True))
