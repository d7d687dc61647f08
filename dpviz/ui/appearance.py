"""Corrections of the theme by a style sheet: text at a contrast of at least 4.5:1 on light and dark pages, texts of
buttons that only screen readers get, and tables that are wider than a phone."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import streamlit as st

from dpviz.ui.components import style

# Streamlit's captions have a contrast of 3.9:1 on white. The texts of a chart have the page's colour.
CAPTION = 0.75  # share of the text's colour
BUTTON: Mapping[str, str] = MappingProxyType({"light": "#005A8C", "dark": "#1F6FAE"})  # below white text
PRESSED: Mapping[str, str] = MappingProxyType({"light": "#005A8C", "dark": "#8CC4F0"})  # text of the selected option
CODE: Mapping[str, str] = MappingProxyType({"light": "brightness(0.6)", "dark": "brightness(1.25)"})


def theme() -> Literal["light", "dark"]:
    """Return the theme of this visitor's page."""
    return "dark" if st.context.theme.type == "dark" else "light"


def readable() -> None:
    """Apply the corrections of the theme; called once per page."""
    here = theme()
    style("readable.css", caption=CAPTION, pressed=PRESSED[here], button=BUTTON[here], code=CODE[here])
