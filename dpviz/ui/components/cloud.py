"""Runs that move in a plane, in a panel for each method: play, pause, step by step, without asking the server."""

from functools import cache
from typing import Any

from dpviz.ui.components import part


@cache
def _component() -> Any:
    return part("cloud", '<div class="cloud"></div>')


def draw(key: str, animation: bytes) -> None:
    """Draw an animation, a result of `plots.clouds.packed`; an animation with the same key keeps its step."""
    _component()(key=key, data=animation)
