"""The numbers of a control once more, in a table to type in, which keeps its own state.

It is drawn with the numbers that it began with, and knows itself what a visitor has done since. It has to begin anew
when the numbers have changed otherwise, and only then: what is drawn anew forgets what was done meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from dpviz.specification import Control
from dpviz.ui.controls import Panel

Numbers = tuple[float, ...]
SHARE = "Share, %"


def table(
    part: str,
    numbers: Numbers,
    names: Sequence[str],
    take: Callable[[Numbers, int], Numbers],
    *,
    heading: str,
    limits: tuple[float, float],
    help: str,
) -> None:
    """Draw a table of the numbers to type in, one in each row.

    Each is an input of its own, because Streamlit's editor loses what is typed while a rerun arrives.

    names : of the rows. heading : above the numbers. limits, help : of each number.
    take : called with the numbers and the row in which one was typed, before the page is drawn; sets the control, and
        returns the numbers that the control then has. So the control is drawn with them: what the browser says of the
        control may be older than what was typed.
    """
    state = f"{part}_state"
    seen, edition = st.session_state.get(state, (numbers, 0))
    edition += seen != numbers
    st.session_state[state] = numbers, edition
    keys = [f"{part}_{edition}_{row}" for row in range(len(numbers))]

    def typed(row: int) -> None:
        wanted = tuple(float(st.session_state[key]) for key in keys)
        if take(wanted, row) == wanted:
            st.session_state[state] = wanted, edition  # else the table has to take what was made of them

    st.caption(heading, help=help)
    for row, (name, key, number) in enumerate(zip(names, keys, numbers, strict=True)):
        left, right = st.columns([2, 3], gap="small", vertical_alignment="center", wrap=False)
        left.markdown(name)
        right.number_input(
            f"{heading}: {name}",
            *limits,
            value=st.session_state.setdefault(f"{key}_born", number),
            step=0.01,
            key=key,
            label_visibility="collapsed",
            on_change=typed,
            args=(row,),
        )


def starts(panel: Panel, splits: Mapping[str, Mapping[str, Any]]) -> None:
    """Draw buttons for splits to start from. splits : settings by name."""
    with st.container(horizontal=True, gap="small"):
        for name, settings in splits.items():
            st.button(name, key=panel.key(f"split_{name}"), on_click=panel.write, args=(settings,))


def split(panel: Panel, control: Control, share: float, names: Sequence[str]) -> None:
    """Draw inputs for a share and its complement; typing one sets the other.

    control : the share of the first part. share : its value. names : of both parts.
    """

    def take(numbers: Numbers, row: int) -> Numbers:
        assert control.low is not None and control.high is not None
        first = numbers[0] / 100 if row == 0 else 1 - numbers[1] / 100
        first = round(min(control.high, max(control.low, first)), 4)
        panel.write({control.name: first})
        return percent(first)

    assert control.low is not None and control.high is not None
    low, high = min(control.low, 1 - control.high), max(control.high, 1 - control.low)
    table(
        panel.key(f"{control.name}_table"),
        percent(share),
        names,
        take,
        heading=SHARE,
        limits=(round(100 * low, 2), round(100 * high, 2)),
        help="The other one gets the rest.",
    )


def percent(share: float) -> tuple[float, float]:
    """Return a share and its complement, in percent."""
    return round(100 * share, 2), round(100 * (1 - share), 2)
