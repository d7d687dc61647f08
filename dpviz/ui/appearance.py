"""Corrections of Streamlit's theme by a style sheet.

They give texts a contrast of at least 4.5:1 on light and dark pages, hide texts that only screen readers are to read,
and let tables be wider than a phone.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import streamlit as st

from dpviz.ui.components import apply_style

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
