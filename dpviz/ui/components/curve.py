"""A curve that a visitor draws with handles, by pointer or by keyboard, on a sheet with axes."""

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


def draw(key: str, sheet: Sheet, values: Sequence[float], label: str, moved: Callable[[], None]) -> None:
    """Draw the sheet with its handles at `values`, shares of its height, when the browser first draws it.

    label : text alternative. moved : called when a handle has moved; `values(key, …)` has the result. The handles stay
    where the visitor moved them, because the browser may know of moves that this server does not know yet.
    """
    data = {
        "height": sheet.height,
        "x": {"title": sheet.x.title, "ticks": sheet.x.ticks},
        "y": {"title": sheet.y.title, "ticks": sheet.y.ticks}
        | {"low": sheet.y.low, "high": sheet.y.high, "log": sheet.y.log},
        "known": sheet.known,
        "start": sheet.start,
        "handles": list(sheet.handles),
        "labels": [f"{sheet.x.title} {text}" for text in sheet.handle_texts],
        "values": list(values),
        "label": label,
    }
    _component()(key=key, data=data, on_values_change=moved, height=sheet.height)


def values(key: str, count: int) -> tuple[float, ...] | None:
    """Return the heights of the handles, shares from 0 to 1; None if the browser has not sent `count` finite
    numbers."""
    heights = (st.session_state.get(key) or {}).get("values")
    if not isinstance(heights, Sequence) or isinstance(heights, str) or len(heights) != count:
        return None
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in heights):
        return None
    return tuple(min(1.0, max(0.0, float(value))) for value in heights)
