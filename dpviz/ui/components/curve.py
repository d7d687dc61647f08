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
    """Draw the sheet with its handles at these values (shares of its height) when it is mounted.

    label : what is drawn, for those who cannot see it. moved : called when a handle has moved; see `values`. They stay
    where the visitor has moved them, which is newer than what this server has heard of.
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
    """Where a visitor has left the handles, shares from 0 to 1; None if nothing has come that says so."""
    found = (st.session_state.get(key) or {}).get("values")
    if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != count:
        return None
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in found):
        return None
    return tuple(min(1.0, max(0.0, float(value))) for value in found)
