"""Figures of the noise in running sums: how it grows along an epoch, and which nodes of the tree a row enters."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.errors import UserError
from dpviz.families.zeroth_order import algorithms, figures, planning, theory
from dpviz.families.zeroth_order.planning import Layout
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart
from dpviz.plots.elements.lines import Line, Turn, line_figure, turned
from dpviz.plots.elements.style import ArmStyle
from dpviz.privacy.budgets import Budget
from dpviz.privacy.matrix_factorisation import tree_nodes
from dpviz.problems.values.value_problem import ValueFacts

SUMS: dict[theory.Sums, tuple[str, ArmStyle]] = {
    "independent": ("Independent noise", ArmStyle(style.GREY, "dash")),
    "published": ("Binary tree, published noise", ArmStyle(style.PALETTE["spent"], "dot")),
    "tree": ("Binary tree", ArmStyle(style.PALETTE["spent"], "solid")),
    "honaker": ("Honaker's tree", ArmStyle(style.PALETTE["spent"], "dash")),
    "square_root": ("Square root", ArmStyle(style.PALETTE["private"], "dash")),
    "normalised": ("Normalised square root", ArmStyle(style.PALETTE["private"], "dashdot")),
    "optimal": ("Optimal", ArmStyle(style.PALETTE["private"], "solid")),
}
NAIVE = ("Naive, same rows", ArmStyle(style.PALETTE["second"], "longdash"))
_LONG = 32  # steps; from here on t is on a log axis
_OWN = 4.0  # pixels, width of the plan's own line


def running_sums(method: algorithms.VarianceReduced, facts: ValueFacts, budget: Budget) -> Chart:
    """The noise in the running sums of an epoch, for every way to add up; or why the method has no plan."""
    try:
        figure = _noise_of_sums(method, facts, budget)
    except UserError as error:
        figure = figures.nothing(str(error))
    return chart(
        figure,
        "Noise of every running sum",
        "Noise in the running sums of an epoch, one line for every way to add up",
        "Noise in the running sums of an epoch, for every way to add them up, at your settings; and what "
        "estimating afresh in every step would have. Its square grows with t if noise is independent, and with a "
        "tree as log² t.",
    )


def _noise_of_sums(method: algorithms.VarianceReduced, facts: ValueFacts, budget: Budget) -> go.Figure:
    """Standard deviation of the noise in the estimate of step t of an epoch, per coordinate, for every way to add up
    changes, all with the rows, directions and clips of this method; its own is drawn wide. And what estimating afresh
    at every step costs with the same rows.

    UserError where the method has no plan. About 3 ms for T = 16; the dense factorisations are kept.
    """
    layout, mu = method.layout(facts), planning.total_mu(budget, facts)
    steps = np.arange(1, layout.length + 1)
    changes = method.changes(facts, layout)[: layout.length]
    lines = []
    for sums, (name, look) in SUMS.items():
        added = method.epoch_sums(facts, layout, sums)
        deviations = theory.charged(sums, added, changes) * added.row_norms / mu
        own = sums == method.sums
        lines.append(Line(steps, deviations, name, look, width=_OWN if own else 1.5))
    fresh = method.afresh().epoch_noise(facts, method.afresh().layout(facts))[0] / mu
    lines.append(Line(steps, np.full(layout.length, fresh), NAIVE[0], NAIVE[1], width=1.5))
    return line_figure(
        lines if mu < math.inf else [],
        Axes("Step t of an epoch", "Noise in the estimate, std", log_x=layout.length >= _LONG, log_y=True),
        notes=["wide: yours"],
        if_empty="Without privacy there is no noise.",
    )


@dataclass(frozen=True)
class _Look:
    """Of a kind of nodes: name, colour, marker. Colour is never alone."""

    name: str
    color: str
    symbol: str
    size: int


_OTHER = _Look("other nodes", style.GREY, "triangle-up", 1)
_ENTERED = _Look("the row enters", style.PALETTE["private"], "circle", 8)
_SUMMED = _Look("summed for step t", style.PALETTE["spent"], "diamond", 9)
_BOTH = _Look("both", style.PALETTE["second"], "square", 10)


def nodes_of(leaf: int, length: int) -> tuple[tuple[int, int], ...]:
    """The nodes (first, last) of an epoch's tree that a row in this leaf (step, from 1) enters, the shortest first: at
    most ⌊log₂ T⌋ + 1. Right children are never released and do not count."""
    found, size = [], 1
    while size <= length:
        first = (leaf - 1) // size * size + 1
        if (first - 1) // size % 2 == 0 and first + size - 1 <= length:
            found.append((first, first + size - 1))
        size *= 2
    return tuple(found)


def tree(layout: Layout, row: int, step: int) -> Chart:
    """The binary tree of one epoch of T steps: a bar for each released node, over the steps whose changes it sums. What
    one row enters lights up, and what is summed for the estimate of step t; if the row counts there, one node is both.

    row : its place in the public order of a run, from 1; epochs and batches take rows in that order. step : t, to T.
    """
    length, found = layout.length, layout.found(row)
    epoch, leaf = found or (0, 0)
    entered, summed = set(nodes_of(leaf, length) if found else ()), set(tree_nodes(step))
    every = {(last - (last & -last) + 1, last) for last in range(1, length + 1)}
    kinds = (
        (_OTHER, every - entered - summed),
        (_ENTERED, entered - summed),
        (_SUMMED, summed - entered),
        (_BOTH, entered & summed),
    )
    traces = [_nodes(look, sorted(nodes)) for look, nodes in kinds if nodes]
    notes = [f"row {row:,} is not used", f"step {step:,} sums {_nodes_in_words(len(summed))}"]
    if found:
        entries = f"{len(entered)} of {_nodes_in_words(len(every))}, at most {length.bit_length()}"
        notes[:1] = [f"row {row:,} is in step {leaf:,} of epoch {epoch:,}", f"it enters {entries}"]
        if layout.follows:
            notes.insert(1, "where batches have their mean size; a run draws theirs")
    frame = style.layout(
        Axes("Step of the epoch", "Steps in a node", log_y=True),
        notes=notes,
        legend_entries=len(traces),
        height=style.ALONE,
    )
    sizes = [2**j for j in range(length.bit_length())]
    labelled = sizes[:: 1 + len(sizes) // 8]
    frame["yaxis"] |= {"tickvals": labelled, "ticktext": [f"{size:,}" for size in labelled]}
    frame["yaxis"] |= {"range": [-0.2, 1.15 * math.log10(sizes[-1]) + 0.3]}
    frame["xaxis"] |= {"range": [0.4, length + 0.6]}
    frame["legend"] = frame["legend"] | {"itemsizing": "constant"}
    labels, shapes = turned([*([Turn(leaf, "row")] if found else []), Turn(step + 0.5, f"t = {step:,}")])
    for text in labels:  # that of a line far to the right stands on its left
        text |= {"xanchor": "right", "xshift": -3} if text["x"] > 0.8 * length else {}
    frame["annotations"] += labels
    frame["shapes"] += shapes
    return chart(
        go.Figure({"data": traces, "layout": frame | {"hovermode": "closest"}}),
        "Where does a row land in the tree?",
        "The nodes of the tree of one epoch; those that the row enters and those that the step sums stand out",
        "Every bar is a released node, over the steps whose changes it sums; all epochs are alike. Right "
        "children are never needed and never released (E6).",
    )


def _nodes_in_words(count: int) -> str:
    return f"{count:,} node{'s' if count != 1 else ''}"


def _nodes(look: _Look, nodes: list[tuple[int, int]]) -> dict[str, Any]:
    """Markers in the middle of nodes, and bars over their steps."""
    ends = np.array(nodes, dtype=float)
    sizes = ends[:, 1] - ends[:, 0] + 1
    bar = {"type": "data", "array": (sizes / 2).astype(np.float32), "color": look.color, "thickness": 7, "width": 0}
    return {
        "type": "scatter",
        "mode": "markers",
        "name": look.name,
        "x": ends.mean(axis=1).astype(np.float32),
        "y": sizes.astype(np.int32),
        "error_x": bar,
        "marker": {"color": look.color, "symbol": look.symbol, "size": look.size},
        "opacity": 0.35 if look is _OTHER else 1.0,
        "text": [f"steps {first:,} to {last:,}" if last > first else f"step {first:,}" for first, last in nodes],
        "hovertemplate": f"%{{text}}: {look.name}<extra></extra>",
    }
