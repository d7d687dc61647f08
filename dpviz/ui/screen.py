"""How wide this visitor's charts are, and whether the page turned dark: figures are built on the server, which cannot
see it. Each page opens at its top: Streamlit keeps the position of the page before."""

from typing import Any

import streamlit as st

from dpviz.ui.components import source

KEY = "screen"
NARROWEST = 400  # pixels of a chart with labels at the ends of its lines; two side by side at 1400 have 430


@st.cache_resource
def _watcher() -> Any:
    return st.components.v2.component("dpviz_screen", html="<span></span>", js=source("screen.js"))


def watch(theme: str, page: str) -> None:
    """Keep `narrow` up to date, and the page of this address drawn for its theme, which is this one now; once per page,
    before the charts."""
    _watcher()(
        key=KEY,
        data={"narrow": narrow(), "narrowest": NARROWEST, "theme": theme, "page": page},
        on_narrow_change=lambda: None,
        on_theme_change=lambda: None,
        height=1,
    )


def narrow() -> bool:
    """Whether charts are too narrow for labels at the ends of lines. False until the browser says so."""
    return bool((st.session_state.get(KEY) or {}).get("narrow"))
