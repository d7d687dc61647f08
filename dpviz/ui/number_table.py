"""The numbers of a control in a second part of the page, which keeps its own state: handles, or a table to type in.

Such a part is drawn with its first numbers, and itself knows what a visitor has done since. It has to start again when
the numbers have changed elsewhere, and only then, because a part that starts again forgets what was done meanwhile.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from dpviz.specification import Control
from dpviz.ui.controls import Panel

Numbers = tuple[float, ...]
SHARE = "Share, %"


def edition(part: str, numbers: Numbers) -> int:
    """Return how often the numbers have changed outside this part; a new edition of it starts from them."""
    last, count = st.session_state.get(_state(part), (numbers, 0))
    if last != numbers:
        count += 1
    st.session_state[_state(part)] = numbers, count
    return int(count)


def remember(part: str, numbers: Numbers) -> None:
    """Note that these numbers come from this part."""
    _, count = st.session_state.get(_state(part), (numbers, 0))
    st.session_state[_state(part)] = numbers, count


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
    keys = [f"{part}_{edition(part, numbers)}_{row}" for row in range(len(numbers))]

    def on_type(row: int) -> None:
        typed = tuple(float(st.session_state[key]) for key in keys)
        if take(typed, row) == typed:
            remember(part, typed)  # otherwise the table has to start again from what `take` has set

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
            on_change=on_type,
            args=(row,),
        )


def _state(part: str) -> str:
    return f"{part}_state"


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
