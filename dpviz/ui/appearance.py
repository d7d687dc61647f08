"""Appearance of every page: corrections of Streamlit's theme, two other forms of a page, and the visitor's screen.

The corrections give texts a contrast of at least 4.5:1 on light and dark pages, hide texts that only screen readers are
to read, and let tables be wider than a phone.

The address of a page may ask for another form. A presentation, for a lecture hall, has larger type and charts, no
sidebar and no header, until the visitor ends it. The picture alone is for a frame of another web page.

A script in the browser reports width and theme of the screen, as charts are built on the server and depend on both. It
also scrolls each page to its top when it is opened, because Streamlit keeps the position of the previous page.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import streamlit as st

from dpviz.ui.components import apply_style, declare_script

# --------------------------------------------------------------------------------------------------------- presentation

PRESENT = "present"  # query parameter and session key: the visitor presents
ONLY, PICTURE = "only", "picture"  # query parameter and its value: only the picture is drawn
FACTOR = 22 / 16  # by which all type is larger in a presentation


def apply_form() -> None:
    """Apply the form that the address asks for, and go on with a presentation; call it once per page."""
    if st.query_params.get(PRESENT) == "1":
        st.session_state[PRESENT] = True
    if st.query_params.get(ONLY) == PICTURE:
        apply_style("only.css")
    if presents():
        st.query_params[PRESENT] = "1"  # also on the next page, so that a reload of it presents, too
        apply_style("presenting.css", size=f"{16 * FACTOR:g}")  # of type, in pixels: 16 is the usual one
        st.button("End presentation", key="present_end", type="tertiary", on_click=_end)


def presents() -> bool:
    """Return true if this visitor presents."""
    return bool(st.session_state.get(PRESENT))


def type_scale() -> float:
    """Return the factor by which type is larger than usual, for components that set its size themselves."""
    return FACTOR if presents() else 1.0


def _end() -> None:
    """End the presentation; for a callback."""
    st.session_state[PRESENT] = False
    st.query_params.pop(PRESENT, None)


# --------------------------------------------------------------------------------------------------------------- screen

SCREEN = "screen"
# Smallest width in pixels of a chart with labels at the ends of its lines. On a screen of 1400 pixels, two charts side
# by side have 430 each.
NARROWEST = 400


def report_screen(page: str) -> None:
    """Draw the script that reports width and theme; call it once per page, before the charts.

    The page is drawn again when either changes.

    page : address of the page.
    """
    declare_script("screen")(
        key=SCREEN,
        data={"narrow": is_narrow(), "narrowest": NARROWEST, "theme": theme(), "page": page},
        on_narrow_change=lambda: None,  # callbacks declare the values that the script reports
        on_theme_change=lambda: None,
        height=1,
    )


def is_narrow() -> bool:
    """Return true if charts are too narrow for labels at the ends of lines; false until the browser has reported."""
    return bool((st.session_state.get(SCREEN) or {}).get("narrow"))


# ---------------------------------------------------------------------------------------------------------------- theme

# Opacity of captions, as a share of that of other texts: Streamlit's own have a contrast of 3.9:1 on white.
CAPTION = 0.75
BUTTON: Mapping[str, str] = MappingProxyType({"light": "#005A8C", "dark": "#1F6FAE"})  # below white text
PRESSED: Mapping[str, str] = MappingProxyType({"light": "#005A8C", "dark": "#8CC4F0"})  # text of the selected option
CODE: Mapping[str, str] = MappingProxyType({"light": "brightness(0.6)", "dark": "brightness(1.25)"})  # filter of code


def theme() -> Literal["light", "dark"]:
    """Return the theme of this visitor's page."""
    return "dark" if st.context.theme.type == "dark" else "light"


def correct_theme() -> None:
    """Apply the corrections of the theme; called once per page."""
    name = theme()
    apply_style("readable.css", caption=CAPTION, pressed=PRESSED[name], button=BUTTON[name], code=CODE[name])
