"""The width and the theme of this visitor's screen, which a script in the browser reports.

Charts are built on the server, and depend on both. The script also scrolls each page to its top when it is opened,
because Streamlit keeps the position of the previous page.
"""

from typing import Any

import streamlit as st

from dpviz.ui.components import asset_text

KEY = "screen"
# Smallest width in pixels of a chart with labels at the ends of its lines. On a screen of 1400 pixels, two charts side
# by side have 430 each.
NARROWEST = 400


@st.cache_resource
def _watcher() -> Any:
    return st.components.v2.component("dpviz_screen", html="<span></span>", js=asset_text("screen.js"))


def report_screen(theme: str, page: str) -> None:
    """Draw the script that reports width and theme; call it once per page, before the charts.

    The page is drawn again when either changes.

    theme : theme with which the page is drawn now. page : address of the page.
    """
    _watcher()(
        key=KEY,
        data={"narrow": narrow(), "narrowest": NARROWEST, "theme": theme, "page": page},
        on_narrow_change=lambda: None,  # callbacks declare the values that the script reports
        on_theme_change=lambda: None,
        height=1,
    )


def narrow() -> bool:
    """Return true if charts are too narrow for labels at the ends of lines; false until the browser has reported."""
    return bool((st.session_state.get(KEY) or {}).get("narrow"))
