"""Width of this visitor's charts, and theme of the page: figures are built on the server, which cannot see them. Each
page opens at its top, because Streamlit keeps the position of the previous page."""

from typing import Any

import streamlit as st

from dpviz.ui.components import source

KEY = "screen"
NARROWEST = 400  # pixels of a chart with labels at the ends of its lines; two side by side have 430 on a screen of 1400


@st.cache_resource
def _watcher() -> Any:
    return st.components.v2.component("dpviz_screen", html="<span></span>", js=source("screen.js"))


def watch(theme: str, page: str) -> None:
    """Keep `narrow` up to date, and draw the page again when its theme changes; called once per page, before the
    charts.

    theme : of the page now. page : its address.
    """
    _watcher()(
        key=KEY,
        data={"narrow": narrow(), "narrowest": NARROWEST, "theme": theme, "page": page},
        on_narrow_change=lambda: None,
        on_theme_change=lambda: None,
        height=1,
    )


def narrow() -> bool:
    """Return whether charts are too narrow for labels at the ends of lines; False until the browser has measured
    them."""
    return bool((st.session_state.get(KEY) or {}).get("narrow"))
