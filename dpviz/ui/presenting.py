"""A page for a lecture hall: larger type and charts, no sidebar and no header, until the visitor ends it; and the chart
of a page alone, for a frame of another web page."""

import streamlit as st

from dpviz.ui.components import style

NAME = "present"  # in the address and in the session
ONLY, PICTURE = "only", "picture"  # in the address
FACTOR = 22 / 16  # of all type


def begin() -> None:
    """Start a presentation if the address says so, or go on with one; called once per page."""
    if st.query_params.get(NAME) == "1":
        st.session_state[NAME] = True
    if st.query_params.get(ONLY) == PICTURE:
        style("only.css")
    if on():
        st.query_params[NAME] = "1"  # also after a change of pages, for a reload
        style("presenting.css", size=f"{16 * FACTOR:g}")
        st.button("End presentation", key="present_end", type="tertiary", on_click=_end)


def on() -> bool:
    """Return whether this visitor presents."""
    return bool(st.session_state.get(NAME))


def scale() -> float:
    """Return the factor of type sizes in our own components."""
    return FACTOR if on() else 1.0


def _end() -> None:
    st.session_state[NAME] = False
    st.query_params.pop(NAME, None)
