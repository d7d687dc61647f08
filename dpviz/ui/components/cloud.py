"""Runs that move in a plane, in a panel for each method: play, pause, step by step, without asking the server."""

from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

_HERE = Path(__file__).parent


@cache
def _component() -> Any:
    return st.components.v2.component(
        "dpviz_cloud",
        html='<div class="cloud"></div>',
        css=(_HERE / "cloud.css").read_text(encoding="utf-8"),
        js=(_HERE / "cloud.js").read_text(encoding="utf-8"),
    )


def draw(key: str, animation: bytes) -> None:
    """Show an animation, as `plots.clouds.packed` makes it; where one of this key is shown, its step stays."""
    _component()(key=key, data=animation)
