"""A split of the budget of one's own: shares to type, and splits to start from."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dpviz.specification import Control
from dpviz.ui import number_table
from dpviz.ui.controls import Panel

SHARE = "Share, %"


def starts(panel: Panel, splits: Mapping[str, Mapping[str, Any]]) -> None:
    """Buttons for splits to start from: what each sets."""
    with st.container(horizontal=True, gap="small"):
        for name, settings in splits.items():
            st.button(name, key=panel.key(f"split_{name}"), on_click=panel.write, args=(settings,))


def table(panel: Panel, control: Control, share: float, names: Sequence[str]) -> None:
    """The same share to type, of either of two parts: the other one gets the rest.

    control : the share of the first of them. names : of both.
    """

    def take(numbers: number_table.Numbers, row: int) -> number_table.Numbers:
        assert control.low is not None and control.high is not None
        first = numbers[0] / 100 if row == 0 else 1 - numbers[1] / 100
        first = round(min(control.high, max(control.low, first)), 4)
        panel.write({control.name: first})
        return percent(first)

    assert control.low is not None and control.high is not None
    low, high = min(control.low, 1 - control.high), max(control.high, 1 - control.low)
    number_table.table(
        panel.key(f"{control.name}_table"),
        percent(share),
        names,
        take,
        heading=SHARE,
        limits=(round(100 * low, 2), round(100 * high, 2)),
        help="The other one gets the rest.",
    )


def percent(share: float) -> tuple[float, float]:
    """A share and the rest, in percent."""
    return round(100 * share, 2), round(100 * (1 - share), 2)
