"""Small multiples: one panel for each line, with its band; shared axes, the other lines in light grey."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import hover_format
from dpviz.plots.elements.lines import Line, Scale, band, curve, drawable, first_view, merged, shown_range
from dpviz.plots.elements.style import ArmStyle

AGAIN = "again"  # `meta` of a line that another panel shows, too
_PANEL, _ABOVE = 150, 28  # pixels: height of a panel, and of what is above it
_BETWEEN = 0.08  # share of the width, between two panels
_OTHERS = ArmStyle(style.GREY, "solid")
_SILENT = {"hoverinfo": "skip", "hovertemplate": None, "showlegend": False, "opacity": 0.35, "meta": AGAIN}


def small_multiples(
    lines: Sequence[Line],
    columns: int = 3,
    *,
    x_title: str,
    y_title: str,
    log_y: bool,
    notes: Sequence[str] = (),
    if_empty: str = "Nothing to show yet.",
    not_private: bool | str = False,
) -> go.Figure:
    """A panel for every line but references, which are grey in all of them. All panels zoom together."""
    drawn = merged([line for line in (drawable(line, False) for line in lines) if len(line.x)])
    if not drawn:
        return go.Figure({"layout": style.layout(x_title, y_title, log_y=log_y, notes=[if_empty])})
    panels = [line for line in drawn if not line.style.reference] or drawn
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    scale, view = Scale(False, log_y), first_view(drawn) if log_y else {}
    shown = shown_range([replace(line, band=True) for line in drawn], (), scale, view, from_zero=False)
    above = [*notes, *([style.in_frame(not_private)] if not_private else [])]
    frame = style.layout(x_title, y_title, log_y=log_y, notes=above, shown=shown)
    height = rows * _PANEL + (rows - 1) * _ABOVE
    frame["margin"] |= {"t": frame["margin"]["t"] + _ABOVE}
    frame |= {"height": height + frame["margin"]["t"] + style.BOTTOM, "showlegend": False}
    for note in frame["annotations"]:
        note["yshift"] = _ABOVE - 6
    axes = {"xaxis": frame.pop("xaxis"), "yaxis": frame.pop("yaxis") | view}
    traces: list[dict[str, Any]] = []
    for i, line in enumerate(panels):
        number = str(i + 1) if i else ""
        place = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        greys = [replace(other, style=_OTHERS, width=1.0) for other in drawn if other is not line]
        traces += [curve(grey, scale, "") | _SILENT | place for grey in greys]
        traces += [part | place for part in band(replace(line, band=True), scale)]
        traces.append(curve(line, scale, hover_format(shown)) | place)
        row, column = divmod(i, columns)
        left = column * (1 + _BETWEEN) / (columns + (columns - 1) * _BETWEEN)
        right = left + 1 / (columns + (columns - 1) * _BETWEEN)
        top = 1 - row * (_PANEL + _ABOVE) / height
        last = i + columns >= len(panels)  # the lowest of its column
        across = axes["xaxis"] | {"domain": [left, min(1.0, right)], "anchor": place["yaxis"], "showticklabels": last}
        up = axes["yaxis"] | {"domain": [max(0.0, top - _PANEL / height), top], "anchor": place["xaxis"]}
        up |= {"showticklabels": column == 0}
        up["minor"] = {}
        across["nticks"] = 4
        across["title"] = {"text": x_title if last else ""}
        up["title"] = {"text": y_title if column == 0 and row == rows // 2 else ""}
        shared = {"x": {"matches": "x"}, "y": {"matches": "y"}} if i else {"x": {}, "y": {}}
        frame |= {f"xaxis{number}": across | shared["x"], f"yaxis{number}": up | shared["y"]}
        frame["annotations"].append(_name(line, left, top))
    return go.Figure({"data": traces, "layout": frame})


def _name(line: Line, left: float, top: float) -> dict[str, Any]:
    """The name of a panel, above it, with the line's final value."""
    words = {"text": f"<b>{line.name}</b> {short(float(line.y[-1]))}", "showarrow": False, "font": {"size": 12}}
    place = {"xref": "paper", "yref": "paper", "x": left, "y": top, "xanchor": "left", "yanchor": "bottom"}
    return {"name": "panel", **words, **place}
