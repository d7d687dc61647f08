"""The inputs in percent of a share and its complement, drawn in addition to the control of the share itself.

They keep their own state from the numbers with which they were first drawn. They are replaced by new inputs when the
share has changed in another way than by typing, and only then: new inputs would lose a number that is being typed
meanwhile. They are separate controls, because Streamlit's editor of a table loses a number that is typed while a rerun
arrives.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from dpviz.specification import Control
from dpviz.ui.controls import Panel

SHARE = "Share, %"


def starts(panel: Panel, splits: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw a button for each of several splits, which sets it. splits : values of the page's controls, by name."""
    with st.container(horizontal=True, gap="small"):
        for name, settings in splits.items():
            st.button(name, key=panel.key(f"split_{name}"), on_click=panel.set_values, args=(settings,))


def split(panel: Panel, control: Control, share: float, names: Sequence[str]) -> None:
    """Draw inputs in percent for a share and its complement; to type one sets the other.

    control : the control of the share of the first part, in [0, 1]. share : its value. names : names of both parts.
    """
    assert control.low is not None and control.high is not None
    low, high = control.low, control.high
    part, percents = panel.key(f"{control.name}_table"), _percents(share)
    state_key = f"{part}_state"  # of the numbers that the inputs show, and the number of times they were replaced
    last_percents, edition = st.session_state.get(state_key, (percents, 0))
    if last_percents != percents:
        edition += 1  # new keys, and so new inputs
    st.session_state[state_key] = percents, edition
    keys = [f"{part}_{edition}_{row}" for row in range(2)]

    def set_control(row: int) -> None:
        """Set the control by the number that was typed in `row`, also against an older value that the browser sends."""
        typed = tuple(float(st.session_state[key]) for key in keys)
        first = typed[0] / 100 if row == 0 else 1 - typed[1] / 100  # in the second row, the other share was typed
        first = round(min(high, max(low, first)), 4)  # in the digits of `_percents`
        panel.set_values({control.name: first})
        if _percents(first) == typed:
            st.session_state[state_key] = typed, edition  # else new inputs have to show the control's numbers

    # Both rows have the same limits, wide enough for the share and for its complement.
    limits = round(100 * min(low, 1 - high), 2), round(100 * max(high, 1 - low), 2)
    st.caption(SHARE, help="The other one gets the rest.")
    for row, (name, key, percent) in enumerate(zip(names, keys, percents, strict=True)):
        left, right = st.columns([2, 3], gap="small", vertical_alignment="center", wrap=False)
        left.markdown(name)
        right.number_input(
            f"{SHARE}: {name}",
            *limits,
            value=st.session_state.setdefault(f"{key}_born", percent),  # must stay the same as at first
            step=0.01,
            key=key,
            label_visibility="collapsed",
            on_change=set_control,
            args=(row,),
        )


def _percents(share: float) -> tuple[float, float]:
    """Return a share in [0, 1] and its complement, both in percent."""
    return round(100 * share, 2), round(100 * (1 - share), 2)
