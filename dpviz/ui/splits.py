"""Ways to set a share next to its control: buttons for known splits, and inputs in percent for it and its complement.

An input keeps its own state from the number with which it was first drawn, so both are replaced by new inputs when the
share has changed. They are separate controls, because Streamlit's editor of a table loses a number that is typed while
a rerun arrives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dpviz.specification import Control
from dpviz.ui.controls import Panel

SHARE = "Share, %"


def buttons(panel: Panel, splits: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw a button for each of several splits, which sets it. splits : values of the page's controls, by name."""
    with st.container(horizontal=True, gap="small"):
        for name, settings in splits.items():
            st.button(name, key=panel.key(f"split_{name}"), on_click=panel.set_values, args=(settings,))


def inputs(panel: Panel, control: Control, share: float, names: Sequence[str]) -> None:
    """Draw inputs in percent for a share and its complement; to type one sets the other.

    control : the control of the share of the first part, in [0, 1]. share : its value. names : names of both parts.
    """
    assert control.low is not None and control.high is not None
    low, high = control.low, control.high
    prefix, percents = panel.key(f"{control.name}_table"), _percents(share)
    state_key = f"{prefix}_state"  # of the numbers that the inputs show, and the number of times they were replaced
    last_percents, edition = st.session_state.get(state_key, (percents, 0))
    if last_percents != percents:
        edition += 1  # new keys, and so new inputs
    st.session_state[state_key] = percents, edition
    keys = [f"{prefix}_{edition}_{row}" for row in range(2)]

    def set_control(row: int) -> None:
        """Set the control by the number that was typed in `row`."""
        typed = float(st.session_state[keys[row]]) / 100
        new_share = typed if row == 0 else 1 - typed  # the second row has the complement
        panel.set_values({control.name: round(min(high, max(low, new_share)), 4)})  # in the digits of `_percents`

    # Both rows have the same limits, wide enough for the share and for its complement.
    limits = round(100 * min(low, 1 - high), 2), round(100 * max(high, 1 - low), 2)
    st.caption(SHARE, help="The other one gets the rest.")
    for row, (name, key, percent) in enumerate(zip(names, keys, percents, strict=True)):
        left, right = st.columns([2, 3], gap="small", vertical_alignment="center", wrap=False)
        left.markdown(name)
        right.number_input(
            f"{SHARE}: {name}",
            *limits,
            value=percent,
            step=0.01,
            key=key,
            label_visibility="collapsed",
            on_change=set_control,
            args=(row,),
        )


def _percents(share: float) -> tuple[float, float]:
    """Return a share in [0, 1] and its complement, both in percent."""
    return round(100 * share, 2), round(100 * (1 - share), 2)
