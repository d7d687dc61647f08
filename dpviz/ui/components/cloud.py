"""An animation of dots that move in a plane, with a panel for each method.

The browser has all of it: a visitor plays, pauses and steps through it without a request to the server.
"""

from functools import cache
from typing import Any

from dpviz.ui.components import part


@cache
def _component() -> Any:
    return part("cloud", '<div class="cloud"></div>')


def draw(key: str, animation: bytes) -> None:
    """Draw an animation, made by `plots.clouds.animation_bytes`; a new one of the same key goes on at the same step."""
    _component()(key=key, data=animation)
