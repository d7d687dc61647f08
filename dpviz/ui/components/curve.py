"""A sheet with axes on which a visitor draws a curve by moving its handles, with a pointer or the keyboard."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import streamlit as st

from dpviz.plots.elements.sheets import Sheet
from dpviz.ui.components import part


@cache
def _component() -> Any:
    return part("curve", '<div class="curve"></div>')


def draw(key: str, sheet: Sheet, heights: Sequence[float], label: str, moved: Callable[[], None]) -> None:
    """Draw the sheet. At first its handles are at `heights`, which are shares of its height from 0 to 1.

    Later they are where the visitor moved them, as the browser may know of moves that have not reached the server.

    label : text alternative. moved : is called when a handle has moved; `values(key, …)` then returns the new heights.
    """
    data = {
        "height": sheet.height,
        "margin": sheet.margin,
        "x": {"title": sheet.x.title, "ticks": sheet.x.ticks},
        "y": {"title": sheet.y.title, "ticks": sheet.y.ticks}
        | {"low": sheet.y.low, "high": sheet.y.high, "log": sheet.y.log},
        "known": sheet.known,  # points of the curve that is there already
        "start": sheet.start,  # first point of the visitor's curve; None: it begins at the first handle
        "handles": list(sheet.handles),
        "labels": [f"{sheet.x.title} {text}" for text in sheet.handle_texts],
        "values": list(heights),
        "label": label,
    }
    _component()(key=key, data=data, on_values_change=moved, height=sheet.height)


def values(key: str, count: int) -> tuple[float, ...] | None:
    """Return the heights of the `count` handles of the sheet with this key, as shares of its height from 0 to 1.

    Return None if the browser has not sent as many finite numbers.
    """
    heights = (st.session_state.get(key) or {}).get("values")
    if not isinstance(heights, Sequence) or isinstance(heights, str) or len(heights) != count:
        return None
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in heights):
        return None
    return tuple(min(1.0, max(0.0, float(value))) for value in heights)
