"""Text that the theme draws too faint, made readable: at least 4.5:1, on the light and on the dark page; words of
buttons that are there to be heard only; and tables in a text that are wider than a phone."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import streamlit as st

from dpviz.ui.components import style

# Of small text by where it stands; Streamlit's captions have 3.9:1 on white. The words of a chart have the text's.
CAPTION = 0.75  # share of the text's colour
BUTTON: Mapping[str, str] = MappingProxyType({"light": "#005A8C", "dark": "#1F6FAE"})  # below white words
PRESSED: Mapping[str, str] = MappingProxyType({"light": "#005A8C", "dark": "#8CC4F0"})  # words of what is chosen
CODE: Mapping[str, str] = MappingProxyType({"light": "brightness(0.6)", "dark": "brightness(1.25)"})


def theme() -> Literal["light", "dark"]:
    """That of this visitor's page."""
    return "dark" if st.context.theme.type == "dark" else "light"


def readable() -> None:
    """Once per page."""
    here = theme()
    style("readable.css", caption=CAPTION, pressed=PRESSED[here], button=BUTTON[here], code=CODE[here])
