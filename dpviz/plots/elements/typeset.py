"""Typesetting of formulas in texts: x_t and m^2 with subscripts and superscripts, upright titles of vertical axes."""

import re
from base64 import b64encode
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements import style

# One letter, perhaps with a hat, or the end of a norm; then one character, a short word, or text in braces.
_INDEX = re.compile(r"(?<![A-Za-z0-9_])([^\W\d_][\u0300-\u036f]?|‖)_(\{[^}]+\}|min|max|[^\W_](?![\w.]))")
_POWER = re.compile(r"(?<=[\w)‖])\^(\{[^}]+\}|[^\W_](?!\w))")
_SUBSCRIPTS = dict(zip("0123456789aehijklmnoprstuvx+-", "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ₊₋", strict=True))
_BYTES = {"f4", "f8", "i1", "i2", "i4", "u1", "u2", "u4"}  # kinds of arrays that plotly.js reads as bytes
_VISIBLE = {"text", "name", "hovertemplate", "ticktext"}  # keys of the texts in a figure that readers see


def markup(text: str) -> str:
    """Return Plotly's markup for a text with indices: F(x_t) - F* with a lowered t, and a minus."""
    lowered = _INDEX.sub(lambda match: f"{match[1]}<sub>{match[2].strip('{}')}</sub>", text)
    return _POWER.sub(lambda match: f"<sup>{match[1].strip('{}')}</sup>", lowered).replace(" - ", " − ")


def plain(text: str) -> str:
    """Return a text with indices without markup, for headings and tables: F(xₜ) - F*; unchanged where a letter is
    missing."""

    def lowered(match: re.Match[str]) -> str:
        letters = [_SUBSCRIPTS.get(letter, "") for letter in match[2].strip("{}")]
        return match[1] + "".join(letters) if all(letters) else match[0]

    return _INDEX.sub(lowered, text)


def values(figure: go.Figure) -> dict[str, Any]:
    """Return a figure as plain values and arrays."""
    return {"data": [trace.to_plotly_json() for trace in figure.data], "layout": figure.layout.to_plotly_json()}


def printed(drawing: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a figure, given as plain values, that is sent to readers.

    Its texts are typeset, the title of its vertical axis is upright, above the frame, its numbers are bytes. It is not
    turned into a figure again, because plotly's check of all parts would take longer than everything else.
    """
    result: dict[str, Any] = _typeset(drawing)
    layout = result["layout"]
    titles = [axis.setdefault("title", {}) for name, axis in layout.items() if name.startswith("yaxis")]
    title = next((title for title in titles if title.get("text")), None)
    is_heat_map = bool(result["data"]) and result["data"][0]["type"] == "heatmap"  # no room above its panels
    if title is not None and not is_heat_map:
        layout["annotations"] = [*layout.get("annotations", ()), style.y_title(title, layout)]
        for axis_title in titles:
            axis_title["text"] = ""
    return result


def _typeset(part: Any, key: str = "") -> Any:
    if isinstance(part, dict):
        return {name: _typeset(value, name) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_typeset(item, key) for item in part]
    if isinstance(part, np.ndarray) and part.dtype.str[1:] in _BYTES:
        return {"dtype": part.dtype.str[1:], "bdata": b64encode(part.tobytes()).decode(), **_shape(part)}
    return markup(part) if isinstance(part, str) and key in _VISIBLE else part


def _shape(array: np.ndarray) -> dict[str, str]:
    return {"shape": ", ".join(map(str, array.shape))} if array.ndim > 1 else {}
