"""Two other forms of a page, which its address asks for.

A presentation, for a lecture hall, has larger type and charts, no sidebar and no header, until the visitor ends it. The
picture alone is for a frame of another web page.
"""

import streamlit as st

from dpviz.ui.components import apply_style

NAME = "present"  # query parameter and session key: the visitor presents
ONLY, PICTURE = "only", "picture"  # query parameter and its value: only the picture is drawn
FACTOR = 22 / 16  # by which all type is larger in a presentation


def begin() -> None:
    """Apply the form that the address asks for, and go on with a presentation; call it once per page."""
    if st.query_params.get(NAME) == "1":
        st.session_state[NAME] = True
    if st.query_params.get(ONLY) == PICTURE:
        apply_style("only.css")
    if on():
        st.query_params[NAME] = "1"  # also on the next page, so that a reload of it presents, too
        apply_style("presenting.css", size=f"{16 * FACTOR:g}")  # of type, in pixels: 16 is the usual one
        st.button("End presentation", key="present_end", type="tertiary", on_click=_end)


def on() -> bool:
    """Return true if this visitor presents."""
    return bool(st.session_state.get(NAME))


def scale() -> float:
    """Return the factor by which type is larger than usual, for components that set its size themselves."""
    return FACTOR if on() else 1.0


def _end() -> None:
    """End the presentation; for a callback."""
    st.session_state[NAME] = False
    st.query_params.pop(NAME, None)
