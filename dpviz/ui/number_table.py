"""A table in which a visitor types the numbers of a control, drawn in addition to the control itself.

The inputs of the table keep their own state from the numbers with which they were first drawn. They are replaced by new
inputs when the numbers have changed in another way than by typing, and only then: new inputs would lose a number that
is being typed meanwhile.
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
    """Draw a table with an input for each of the numbers.

    The inputs are separate controls, because Streamlit's editor of a table loses a number that is typed while a rerun
    arrives.

    part : prefix of the keys. names : of the rows. heading : above the numbers. limits : (lowest, highest) of each
    number. help : of the table.
    take : is called in a callback with the numbers and the row in which one was typed. It sets the control from code,
    which holds also against an older value that the browser may still report, and returns the numbers that the control
    then has, which may differ from the typed ones.
    """
    state_key = f"{part}_state"  # of the numbers that the inputs show, and the number of times they were replaced
    last_numbers, edition = st.session_state.get(state_key, (numbers, 0))
    if last_numbers != numbers:
        edition += 1  # new keys, and so new inputs
    st.session_state[state_key] = numbers, edition
    keys = [f"{part}_{edition}_{row}" for row in range(len(numbers))]

    def set_control(row: int) -> None:
        typed_numbers = tuple(float(st.session_state[key]) for key in keys)
        if take(typed_numbers, row) == typed_numbers:
            st.session_state[state_key] = typed_numbers, edition  # else new inputs have to show the control's numbers

    st.caption(heading, help=help)
    for row, (name, key, number) in enumerate(zip(names, keys, numbers, strict=True)):
        left, right = st.columns([2, 3], gap="small", vertical_alignment="center", wrap=False)
        left.markdown(name)
        right.number_input(
            f"{heading}: {name}",
            *limits,
            value=st.session_state.setdefault(f"{key}_born", number),  # must stay the same as at first
            step=0.01,
            key=key,
            label_visibility="collapsed",
            on_change=set_control,
            args=(row,),
        )


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

    def take(numbers: Numbers, row: int) -> Numbers:
        """Set the control by the number that was typed in `row`; return both numbers."""
        first = numbers[0] / 100 if row == 0 else 1 - numbers[1] / 100  # in the second row, the other share was typed
        first = round(min(high, max(low, first)), 4)  # in the digits of `percent`
        panel.set_values({control.name: first})
        return percent(first)

    # Both rows have the same limits, wide enough for the share and for its complement.
    limits = 100 * min(low, 1 - high), 100 * max(high, 1 - low)
    table(
        panel.key(f"{control.name}_table"),
        percent(share),
        names,
        take,
        heading=SHARE,
        limits=(round(limits[0], 2), round(limits[1], 2)),
        help="The other one gets the rest.",
    )


def percent(share: float) -> tuple[float, float]:
    """Return a share in [0, 1] and its complement, both in percent."""
    return round(100 * share, 2), round(100 * (1 - share), 2)
