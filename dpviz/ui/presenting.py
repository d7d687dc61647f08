"""A page for a lecture hall: larger type and charts, no sidebar and no header, until somebody ends it."""

import streamlit as st

NAME = "present"  # in the address and in the session
FACTOR = 22 / 16  # of all type
STYLE = f"""<style>
html {{ font-size: {16 * FACTOR:g}px; }}
section[data-testid="stSidebar"], header[data-testid="stHeader"], [data-testid="stExpandSidebarButton"] {{
  display: none !important;
}}
.stMainBlockContainer {{ max-width: none; padding: 1rem 2rem 3rem !important; }}
.st-key-present_end {{ position: fixed; right: 0.5rem; bottom: 0.2rem; width: auto; z-index: 10; opacity: 0.8; }}
.st-key-present_end:hover, .st-key-present_end:focus-within {{ opacity: 1; }}
</style>"""


def begin() -> None:
    """Follow what the address says, and what was begun before; once per page."""
    if st.query_params.get(NAME) == "1":
        st.session_state[NAME] = True
    if on():
        st.query_params[NAME] = "1"  # also after a change of pages, for a reload
        st.html(STYLE)
        st.button("End presentation", key="present_end", type="tertiary", on_click=_end)


def on() -> bool:
    """Whether this visitor presents."""
    return bool(st.session_state.get(NAME))


def _end() -> None:
    st.session_state[NAME] = False
    st.query_params.pop(NAME, None)
