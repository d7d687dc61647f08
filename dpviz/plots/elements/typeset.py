"""How formulas in words are set: x_t and m^2 with subscripts and superscripts, the titles of vertical axes upright."""

import re
from base64 import b64encode
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements import style

# One letter, perhaps with a hat, or the end of a norm; then one sign, a short word, or what stands in braces.
_INDEX = re.compile(r"(?<![A-Za-z0-9_])([^\W\d_][\u0300-\u036f]?|‖)_(\{[^}]+\}|min|max|[^\W_](?![\w.]))")
_POWER = re.compile(r"(?<=[\w)‖])\^(\{[^}]+\}|[^\W_](?!\w))")
_SUBSCRIPTS = dict(zip("0123456789aehijklmnoprstuvx+-", "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ₊₋", strict=True))
_BYTES = {"f4", "f8", "i1", "i2", "i4", "u1", "u2", "u4"}  # kinds of arrays that plotly.js reads as bytes
_WORDS = {"text", "name", "hovertemplate", "ticktext"}  # of a figure's parts, those that readers see


def markup(text: str) -> str:
    """Plotly's markup for a text with indices: F(x_t) - F* with a lowered t, and a minus."""
    found = _INDEX.sub(lambda match: f"{match[1]}<sub>{match[2].strip('{}')}</sub>", text)
    return _POWER.sub(lambda match: f"<sup>{match[1].strip('{}')}</sup>", found).replace(" - ", " − ")


def plain(text: str) -> str:
    """The same without markup, for headings and tables: F(xₜ) - F*; as it was where there is no such letter."""

    def lowered(match: re.Match[str]) -> str:
        letters = [_SUBSCRIPTS.get(letter, "") for letter in match[2].strip("{}")]
        return match[1] + "".join(letters) if all(letters) else match[0]

    return _INDEX.sub(lowered, text)


def values(figure: go.Figure) -> dict[str, Any]:
    """A figure as plain values, with its arrays."""
    return {"data": [trace.to_plotly_json() for trace in figure.data], "layout": figure.layout.to_plotly_json()}


def printed(drawing: dict[str, Any]) -> dict[str, Any]:
    """What is sent of a figure, given as plain values, as readers see it: its words typeset, the title of its vertical
    axis upright, above the frame, its numbers as bytes. It is no figure again: to check all parts once more would take
    longer than all else."""
    found: dict[str, Any] = _typeset(drawing)
    layout = found["layout"]
    titles = [axis.setdefault("title", {}) for name, axis in layout.items() if name.startswith("yaxis")]
    title = next((one for one in titles if one.get("text")), None)
    heat = bool(found["data"]) and found["data"][0]["type"] == "heatmap"  # has no room above its panels
    if title is not None and not heat:
        layout["annotations"] = [*layout.get("annotations", ()), style.y_title(title, layout)]
        for one in titles:
            one["text"] = ""
    return found


def _typeset(part: Any, key: str = "") -> Any:
    if isinstance(part, dict):
        return {name: _typeset(value, name) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_typeset(one, key) for one in part]
    if isinstance(part, np.ndarray) and part.dtype.str[1:] in _BYTES:
        return {"dtype": part.dtype.str[1:], "bdata": b64encode(part.tobytes()).decode(), **_shape(part)}
    return markup(part) if isinstance(part, str) and key in _WORDS else part


def _shape(array: np.ndarray) -> dict[str, str]:
    return {"shape": ", ".join(map(str, array.shape))} if array.ndim > 1 else {}
