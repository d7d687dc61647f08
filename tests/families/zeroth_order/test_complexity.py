"""Rows needed, and noise of sums over long epochs."""

import math
from dataclasses import replace

import pytest

from dpviz.families.zeroth_order import complexity, theory
from dpviz.families.zeroth_order.complexity import WAYS
from dpviz.families.zeroth_order.theory import Setting

TEN = Setting(n=1, d=10, lipschitz=1.0, radius=0.1, gap=1.0, mu=0.1, kind="iid", count=10)


@pytest.mark.parametrize("sums", ["published", "tree", "square_root", "independent"])
def test_mean_variances_are_those_of_the_factorisations(sums: complexity.Growing) -> None:
    lengths = (2, 3, 7, 8, 16, 63, 64, 100, 256)
    expected = [theory.mean_variance(sums, length) for length in lengths]
    assert complexity.mean_variances(sums, lengths) == pytest.approx(expected, rel=1e-12)


def test_rows_needed_with_a_small_budget() -> None:
    """μ = 0.1 (section 5); and more than 10¹¹ are said to be too many."""
    found = [complexity.rows_needed(TEN, way, 0.3) for way in WAYS]
    assert found == pytest.approx([2.3e7, 3.3e6, 9.2e6, 2.9e6], rel=0.02)
    assert complexity.rows_needed(TEN, WAYS[0], 1e-3) == math.inf


def test_so_many_rows_are_enough_and_few_less_are_not() -> None:
    """Against the planner at a whole number of rows, whose grid is coarser: within 5 %."""
    for way, best in ((WAYS[1], theory.best_reduced), (WAYS[3], theory.best_naive)):
        rows = complexity.rows_needed(TEN, way, 0.3)
        lengths = complexity.LENGTHS[:14]
        bounds = []
        for factor in (0.9, 1.1):
            setting = replace(TEN, n=int(factor * rows), kind=way.kind)
            more = () if way.sums is None else (way.sums,)
            bounds.append(best(setting, *more, lengths=lengths).bound)  # type: ignore[operator]
        assert bounds[0] > 0.3 * 0.99 and bounds[1] < 0.3 * 1.01
