"""Figures of groups: what each really loses, beside what the game plays for and what is possible without privacy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements import style

_BARS = (
    ("mean loss", style.PALETTE["private"], ""),
    ("as the game weighs it", style.PALETTE["private"], "."),
    ("fairest, without privacy", style.GREY, "/"),
    ("best on average, without privacy", style.PALETTE["second"], "x"),
)


def group_losses(
    groups: Sequence[str],
    means: np.ndarray,
    weighed: np.ndarray,
    fairest: np.ndarray,
    average: np.ndarray,
    *,
    height: int = style.HEIGHT,
) -> go.Figure:
    """Loss of every group: mean losses of a method's models (R, G), median with a 10-90 % bar; the same as the game
    weighs them (R, G), median; mean losses of two models without privacy (G,). Groups without rows are left out."""
    present = ~np.isnan(fairest)
    low, median, high = np.quantile(means[:, present], (0.1, 0.5, 0.9), axis=0)
    bars = (median, np.median(weighed[:, present], axis=0), fairest[present], average[present])
    names = [name for name, there in zip(groups, present, strict=True) if there]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": names,
            "y": np.asarray(losses, dtype=np.float32),
            "name": name,
            "marker": {"color": color, "pattern": {"shape": pattern}},
            "hovertemplate": "%{y:,.4~r}",
        }
        for (name, color, pattern), losses in zip(_BARS, bars, strict=True)
    ]
    several = len(means) > 1
    if several:
        sides = {"array": (high - median).astype(np.float32), "arrayminus": (median - low).astype(np.float32)}
        traces[0]["error_y"] = {"type": "data", "symmetric": False, **sides}
    notes = ["thin bars: 10-90 % of the runs"] if several else ["one run; results vary"]
    frame = style.layout(
        "Group", "Loss", from_zero=True, notes=notes, not_private=True, legend_entries=len(traces), height=height
    )
    frame["xaxis"] |= {"type": "category", "unifiedhovertitle": {"text": "%{x}"}}
    return go.Figure({"data": traces, "layout": frame | {"barmode": "group"}})
