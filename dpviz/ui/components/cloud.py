"""Runs that move in a plane, in a panel for each method: play, pause, step by step, without asking the server."""

from functools import cache
from typing import Any

from dpviz.ui.components import part


@cache
def _component() -> Any:
    return part("cloud", '<div class="cloud"></div>')


def draw(key: str, animation: bytes) -> None:
    """Show an animation, as `plots.clouds.packed` makes it; where one of this key is shown, its step stays."""
    _component()(key=key, data=animation)
