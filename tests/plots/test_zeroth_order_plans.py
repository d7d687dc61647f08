"""Plan-time figures of the zeroth-order family: noise of running sums, the tree, rows needed, and what pays when."""

import math

import numpy as np
import plotly.graph_objects as go
import pytest

from dpviz.families.zeroth_order import Naive, VarianceReduced, complexity, figures
from dpviz.families.zeroth_order.planning import Layout
from dpviz.families.zeroth_order.theory import Setting
from dpviz.plots.elements.words import alt_text
from dpviz.privacy.budgets import GaussianDP
from dpviz.privacy.matrix_factorisation import binary_tree, tree_nodes
from dpviz.problems.values.black_box import PhaseRetrieval

FACTS = PhaseRetrieval(gap=0.3).facts()
MU = GaussianDP(mu=1.0)
TEN = Setting(n=50_000, d=10, lipschitz=1.0, radius=0.1, gap=1.0, mu=1.0, kind="iid", count=10)
SIXTEEN = Layout(16, 40, 665, 39, 0.1, 0.1, 6)


def curves(figure: go.Figure) -> dict[str, np.ndarray]:
    return {trace.name: np.asarray(trace.y) for trace in figure.data if trace.name}


# ------------------------------------------------------------------------------------------------------ running sums


@pytest.mark.parametrize("chosen", ["tree", "optimal"])
def test_noise_of_the_own_sums_is_that_of_the_plan_and_stands_out(chosen: str) -> None:
    method = VarianceReduced(sums=chosen, directions="orthonormal")
    figure = figures.running_sums(method, FACTS, MU).figure
    found, own = curves(figure), figures.SUMS[chosen][0]
    assert set(found) == {name for name, _ in figures.SUMS.values()} | {figures.NAIVE[0]}
    assert found[own] == pytest.approx(method.plan(FACTS, MU).noise["prefix"][:16], rel=1e-6)
    assert {trace.name for trace in figure.data if trace.line.width and trace.line.width > 2} == {own}
    for sums, (name, _) in figures.SUMS.items():
        other = method.replaced(sums=sums).plan(FACTS, MU).noise["prefix"][:16]
        assert found[name] == pytest.approx(other, rel=1e-6)
    naive = Naive(directions="orthonormal", directions_per_row=None).plan(FACTS, MU)
    assert found[figures.NAIVE[0]] == pytest.approx(naive.noise["gradient"][:16], rel=1e-6)
    ratio = found[figures.SUMS["published"][0]] / found[figures.SUMS["tree"][0]]
    assert ratio == pytest.approx(np.sqrt(5 / 4), rel=1e-6), "of 16 steps five levels are counted, and four are entered"


# -------------------------------------------------------------------------------------------------------------- tree


@pytest.mark.parametrize("length", [1, 2, 7, 8, 16, 31, 100])
def test_a_row_enters_the_nodes_that_the_tree_releases(length: int) -> None:
    encoder = binary_tree(length).encoder()
    for leaf in range(1, length + 1):
        found = figures.nodes_of(leaf, length)
        assert [last for _, last in found] == (np.flatnonzero(encoder[:, leaf - 1]) + 1).tolist()
        assert all(first <= leaf <= last for first, last in found)
        assert len(found) <= math.floor(math.log2(length)) + 1 - (leaf > 1 and length & (length - 1) == 0)


def lit(figure: go.Figure) -> dict[str, set[tuple[int, int]]]:
    """Nodes (first, last) by their name in the legend."""
    found = {}
    for trace in figure.data:
        ends = zip(trace.x - trace.error_x.array + 0.5, trace.x + trace.error_x.array - 0.5, strict=True)
        found[trace.name] = {(round(float(low)), round(float(high))) for low, high in ends}
    return found


def test_the_nodes_of_a_row_and_of_a_prefix_light_up_and_share_one() -> None:
    """Row 760 of the order is in step 4 of epoch 1: 665 rows, then 39 each. Its nodes are (1, 4), (1, 8), (1, 16)."""
    figure = figures.tree(SIXTEEN, 760, 7).figure
    found = lit(figure)
    assert found["the row enters"] == {(1, 8), (1, 16)} and found["both"] == {(1, 4)}
    assert found["summed for step t"] == {(5, 6), (7, 7)}
    assert set().union(*found.values()) == {node for t in range(1, 17) for node in tree_nodes(t)}
    assert len({trace.marker.symbol for trace in figure.data}) == 4  # not by colour alone
    before = lit(figures.tree(SIXTEEN, 760, 3).figure)  # a row that comes later is in no sum
    assert "both" not in before and len(before["the row enters"]) == 3


# --------------------------------------------------------------------------------------------------------- complexity


def test_rows_needed_are_those_of_the_planner_and_far_from_the_bare_rate() -> None:
    """d = 10, δ = 0.2, L = F* = 1, ε = 0.3, μ = 1 (section 5): within 3 %, they have two digits."""
    chart, needed = figures.rows_needed(TEN, 0.3)
    figure = chart.figure
    expected = [2.6e6, 4.6e5, 1.1e6, 3.0e5]
    assert [needed[way.name] for way in complexity.WAYS] == pytest.approx(expected, rel=0.035)
    assert needed["published rate alone"] == pytest.approx(3609, rel=1e-3)
    assert needed["naive rate alone"] == pytest.approx((10 + 10**1.5) / (0.2 * 0.3**3), rel=1e-9)
    assert set(curves(figure)) == set(needed) and "M = 2,700,000 at ε = 0.3" in alt_text(figure)
    for line in (trace for trace in figure.data if trace.name in needed):
        assert (np.diff(line.x) > 0).all() and (np.diff(line.y) < 0).all() and line.x.max() <= 1
    assert figures.rows_needed(TEN, 1e-4)[1]["as published"] == math.inf


def test_privacy_is_free_above_the_lines() -> None:
    figure = figures.free_privacy(10, 1.0, 0.3, 0.5).figure
    found = curves(figure)
    assert found["free as published"] == pytest.approx(math.sqrt(10) * found["free with orthonormal directions"])


def test_from_which_epochs_on_the_bound_favours_running_sums() -> None:
    """In powers of two from T = 8192 on as published, 1024 with square roots, 128 if batches follow the moves."""
    figure = figures.crossover(64).figure
    below = {trace.name: trace.x[trace.y < 1].min() for trace in figure.data if trace.name}
    assert below == {name: T for (_, name, _, _), T in zip(figures.CURVES, (8192, 1024, 128), strict=True)}
    found = [figures.favoured_from(kind, follows) for kind, _, follows, _ in figures.CURVES]
    assert found == [5377, 541, 87]
