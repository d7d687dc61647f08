"""The numbers of a control once more, in a part of the page that keeps its own state: handles, or a table to type in.

Such a part is drawn with the numbers that it began with, and knows itself what a visitor has done since. It has to
begin anew when the numbers have changed otherwise, and only then: what is drawn anew forgets what was done meanwhile.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import streamlit as st

Numbers = tuple[float, ...]


def edition(part: str, numbers: Numbers) -> int:
    """How often the numbers have changed otherwise than by this part, which then has to take them."""
    seen, count = st.session_state.get(_state(part), (numbers, 0))
    if seen != numbers:
        count += 1
    st.session_state[_state(part)] = numbers, count
    return int(count)


def remember(part: str, numbers: Numbers) -> None:
    """These numbers come of this part."""
    _, count = st.session_state.get(_state(part), (numbers, 0))
    st.session_state[_state(part)] = numbers, count


def table(
    part: str,
    numbers: Numbers,
    names: Sequence[str],
    label: str,
    take: Callable[[Numbers, int], Numbers],
    *,
    heading: str,
    column: Any,
    alt: str,
) -> None:
    """A table of the numbers, one in each row, to type in.

    names : of the rows, which `heading` stands above. label : of the column of numbers, `column` how it is edited.
    take : what becomes of numbers that were typed (an empty cell is 0) into this row at last: it sets the control, and
        returns the numbers that this made. Called before the page is drawn, so that the control is drawn with them:
        what the browser says of the control may be older than what was typed.
    """
    editor, base = f"{part}_{edition(part, numbers)}", f"{part}_base"
    if editor not in st.session_state:
        st.session_state[base] = numbers
    frame = pd.DataFrame({label: st.session_state[base]}, index=list(names))

    def typed() -> None:
        cells = dict(enumerate(st.session_state[base]))
        done = st.session_state[editor]["edited_rows"]
        cells |= {row: float(cell[label] or 0.0) for row, cell in done.items() if label in cell}
        wanted = tuple(cells.values())
        if take(wanted, list(done)[-1] if done else 0) == wanted:
            remember(part, wanted)  # else the table has to take what was made of them

    st.data_editor(
        frame.rename_axis(heading),
        key=editor,
        column_config={label: column},
        alt=alt,
        on_change=typed,
    )


def _state(part: str) -> str:
    return f"{part}_state"
