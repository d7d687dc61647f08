"""Small multiples: one panel for each line, with its band; shared axes, the other lines in light grey."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes, hover_format
from dpviz.plots.elements.labels import label_lines
from dpviz.plots.elements.lines import Line, Scale, band, curve, drop_undrawable, first_view, merged, opening_range
from dpviz.plots.elements.style import ArmStyle

AGAIN = "again"  # `meta` of a line that is also in another panel
_PANEL, _ABOVE = 150, 28  # pixels: height of a panel, and of its name above it
_BETWEEN = 0.08  # gap between two panels, as a share of a panel's width
# Style of the other lines in a panel, which are faint, without hover texts and legend entries.
_OTHERS = ArmStyle(style.GREY, "solid")
_SILENT = {"hoverinfo": "skip", "hovertemplate": None, "showlegend": False, "opacity": 0.35, "meta": AGAIN}


def small_multiples(
    lines: Sequence[Line], axes: Axes, columns: int = 3, *, notes: Sequence[str] = (), not_private: bool | str = False
) -> go.Figure:
    """Return a figure with a panel for every line: there it is coloured, with its band, and all others are grey.

    References, lines of methods without privacy, have no panel, unless there are no other lines. All panels have the
    same axes and zoom together.

    columns : largest number of panels side by side. notes : lines of small print above the panels.
    not_private : True if the lines read the raw data, or a text that names those which do.
    """
    lines = [drop_undrawable(line, log_x=False) for line in lines]
    visible = merged([line for line in lines if len(line.x)])
    if not visible:
        return go.Figure({"layout": style.layout(axes, notes=["Nothing to show yet."])})
    panels = [line for line in visible if not line.style.reference] or visible
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    scale, view = Scale(log_x=False, log_y=axes.log_y), first_view(visible) if axes.log_y else {}
    with_bands = [replace(line, band=True) for line in visible]
    opening = opening_range(with_bands, others=(), scale=scale, view=view, from_zero=False)
    all_notes = [*notes, style.mark_text(not_private)] if not_private else notes
    layout = style.layout(axes, notes=all_notes, opening=opening)
    height = rows * _PANEL + (rows - 1) * _ABOVE  # of all panels
    layout["margin"] |= {"t": layout["margin"]["t"] + _ABOVE}
    layout |= {"height": height + layout["margin"]["t"] + style.BOTTOM, "showlegend": False}
    for note in layout["annotations"]:
        note["yshift"] = _ABOVE - 6  # above the names of the panels, and a little into their row
    x_axis, y_axis = layout.pop("xaxis"), layout.pop("yaxis") | view
    traces: list[dict[str, Any]] = []
    parts = columns + (columns - 1) * _BETWEEN  # the figure's width, in widths of a panel
    for i, line in enumerate(panels):
        number = str(i + 1) if i else ""  # of the panel's axes in plotly, whose first has none
        panel_axes = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        greys = [replace(other, style=_OTHERS, width=1.0) for other in visible if other is not line]
        traces += [curve(grey, scale, "") | _SILENT | panel_axes for grey in greys]
        traces += [trace | panel_axes for trace in band(replace(line, band=True), scale)]
        traces.append(curve(line, scale, hover_format(opening)) | panel_axes)
        # Edges of the panel as shares of the figure.
        row, column = divmod(i, columns)
        left = column * (1 + _BETWEEN) / parts
        right = left + 1 / parts
        top = 1 - row * (_PANEL + _ABOVE) / height
        is_lowest = i + columns >= len(panels)  # the lowest of its column
        # Rounding errors must not lead out of [0, 1], which plotly refuses.
        panel_x_axis = x_axis | {"domain": [left, min(1.0, right)], "anchor": panel_axes["yaxis"]}
        panel_x_axis |= {"showticklabels": is_lowest, "nticks": 4, "title": {"text": axes.x if is_lowest else ""}}
        panel_y_axis = y_axis | {"domain": [max(0.0, top - _PANEL / height), top], "anchor": panel_axes["xaxis"]}
        panel_y_axis |= {"showticklabels": column == 0}
        panel_y_axis |= {"title": {"text": axes.y if column == 0 and row == rows // 2 else ""}}  # middle row
        if i:  # zooms with the first panel
            panel_x_axis["matches"], panel_y_axis["matches"] = "x", "y"
        layout |= {f"xaxis{number}": panel_x_axis, f"yaxis{number}": panel_y_axis}
        name = label_lines(line.name, short(float(line.y[-1])), width=99)[0]  # so wide that all is in one line
        layout["annotations"].append(style.panel_name(name, left, top))
    return go.Figure({"data": traces, "layout": layout})
