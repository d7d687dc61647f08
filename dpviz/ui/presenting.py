"""A page for a lecture hall: larger type and charts, no sidebar and no header, until somebody ends it; and the picture
of a page alone, for a frame of another web page."""

import streamlit as st

from dpviz.ui.components import style

NAME = "present"  # in the address and in the session
ONLY, PICTURE = "only", "picture"  # in the address
FACTOR = 22 / 16  # of all type


def begin() -> None:
    """Follow what the address says, and what was begun before; once per page."""
    if st.query_params.get(NAME) == "1":
        st.session_state[NAME] = True
    if st.query_params.get(ONLY) == PICTURE:
        style("only.css")
    if on():
        st.query_params[NAME] = "1"  # also after a change of pages, for a reload
        style("presenting.css", size=f"{16 * FACTOR:g}")
        st.button("End presentation", key="present_end", type="tertiary", on_click=_end)


def on() -> bool:
    """Whether this visitor presents."""
    return bool(st.session_state.get(NAME))


def scale() -> float:
    """Of type in what is drawn by components of our own."""
    return FACTOR if on() else 1.0


def _end() -> None:
    st.session_state[NAME] = False
    st.query_params.pop(NAME, None)
