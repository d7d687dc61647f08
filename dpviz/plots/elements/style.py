"""Common parts of all figures: colours by role, the style of each arm, layout and chart menu.

Titles are headings of the page, and colours of background and text are the theme's, so no figure sets them.
"""

import math
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Privacy, is_conditional, weakest_privacy
from dpviz.plots.elements.axes import Axes, Range, axis

# Hues with a contrast of at least 3:1 on the light and on the dark page, distinct for colour-blind readers.
PALETTE: Mapping[str, str] = MappingProxyType(
    {"private": "#0072B2", "spent": "#D55E00", "theory": "#009E73", "second": "#CC79A7", "no privacy": "#6B7280"}
)
GREY = PALETTE["no privacy"]
HUES = tuple(color for color in PALETTE.values() if color != GREY)
DASHES = ("solid", "dash", "7px,3px", "dashdot")  # each is told apart in the 16 pixels beside a label
DOTS = ("dot", "1px,6px", "4px,4px", "1px,3px")  # of arms without privacy
HEIGHT, ALONE = 320, 380  # pixels of charts in two columns, and of those with a row to themselves
SMALL = 188  # pixels of those next to the live chart: names are at the ends of lines, or nowhere
BOTTOM = 48  # pixels below the axes
# The chart's own menu: no upload of the figure to a third party, which Plotly offers unless told otherwise.
PLOT_CONFIG: dict[str, Any] = {
    "showSendToCloud": False,
    "displaylogo": False,
    "displayModeBar": "hover",
    "toImageButtonOptions": {"format": "png", "scale": 2},
}
TEXT = 13  # pixels of all text in a figure, set by the page
ROW = 17  # pixels of a line of text
# Colour of the mark "not private": a contrast of at least 4.5:1 on the light and on the dark page.
NOT_PRIVATE: Mapping[str, str] = MappingProxyType({"light": "#B45309", "dark": "#F59E0B"})
# Common part of the texts above the frame: small print, and the title of the vertical axis.
_ABOVE = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"} | {
    "showarrow": False,
    "align": "left",
    "font": {"size": TEXT},
    "xshift": -36,
    "yshift": 8,  # above the uppermost number of the axis
}
_NOTE = {"opacity": 0.8} | _ABOVE
FRAME_LETTERS = 48  # number of letters of small print that fit the width of a frame
_NOT_PRIVATE = {"name": "not private", "showarrow": False, "align": "left"} | {
    "xref": "paper",
    "yref": "paper",
    "x": 0.01,
    "y": 0.995,
    "xanchor": "left",
    "yanchor": "top",
    "font": {"size": TEXT, "color": NOT_PRIVATE["light"]},
}

_LEGEND = {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0} | {
    "itemwidth": 40,  # two periods of every dash
    "tracegroupgap": 0,  # all rows are alike
    "maxheight": 1,  # a share of the figure, which is high enough: by default plotly cuts it off at half
    "font": {"size": TEXT},
}


@dataclass(frozen=True)
class ArmStyle:
    """Colour and dash of one arm: the same in every figure, and different for every two arms.

    reference : True if the arm has no privacy. Its line may leave the view with which a log axis opens, so that the
        lines of private arms fill it.
    """

    color: str
    dash: str
    reference: bool = False


def arm_styles(arms: Sequence[Arm]) -> dict[str, ArmStyle]:
    """Return the style of each arm by its label: the hue is that of the update rule, the dash that of its variant, and
    dots mean that there is no privacy.

    Each algorithm declares hue and dash (`Algorithm.line_style`), so that a method looks the same next to any others,
    in any order. Where several arms have the same style, the first by label keeps it, and the others get unused ones.
    So up to sixteen private arms, and twenty without privacy, can be told apart.
    """
    styles: dict[str, ArmStyle] = {}
    conflicts = []
    for arm in sorted(arms, key=lambda arm: arm.label):
        hue, dash = arm.algorithm.line_style  # indices in the tuples below
        arm_style = ArmStyle((*HUES, GREY)[hue], (DOTS if arm.reference else DASHES)[dash], arm.reference)
        if arm_style in styles.values():
            conflicts.append((arm.label, arm_style))
        else:
            styles[arm.label] = arm_style
    for label, wanted in conflicts:  # first other dashes of the wanted hue, then other hues
        hues = wanted.color, *(hue for hue in HUES if hue != wanted.color)
        dashes = DOTS if wanted.reference else DASHES
        candidates = [replace(wanted, color=hue, dash=dash) for hue, dash in product(hues, dashes)]
        styles[label] = next((style for style in candidates if style not in styles.values()), wanted)
    return {arm.label: styles[arm.label] for arm in arms}


def with_opacity(color: str, opacity: float) -> str:
    """Return the colour "#RRGGBB" as rgba text."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def layout(
    axes: Axes,
    *,
    notes: Sequence[str] = (),
    opening: Range | None = None,
    not_private: bool | str = False,
    legend_entries: int = 0,
    height: int = HEIGHT,
) -> dict[str, Any]:
    """Return the layout of a figure with one pair of axes, as plain values for plotly.

    notes : lines of small print above the axes. opening : part of the y axis that the figure opens with.
    not_private : True to write "not private" into the frame, so that the mark stays with an exported figure; a text to
        name the curves that it is about.
    legend_entries : number of entries in the legend; there is none for fewer than two. Many entries make the figure
        higher, but not the axes smaller. height : pixels of the figure with few entries.
    """
    legend_rows = math.ceil(legend_entries / 3)  # three entries fit a row of a chart in one of two columns
    y_axis = axis(axes.y, axes.log_y, opening)
    if axes.from_zero:
        y_axis["rangemode"] = "tozero"
    return {
        "height": height + 20 * max(0, legend_rows - 2),  # 20 pixels a row; there is room for two rows in any case
        "margin": {"l": 48, "r": 16, "t": top_margin(notes, axes.y), "b": BOTTOM},
        "annotations": [
            *([_NOTE | {"text": "<br>".join(notes)}] if notes else []),
            *([_mark(not_private)] if not_private else []),
        ],
        "shapes": [],
        "hovermode": "x unified",
        "hoverlabel": {"namelength": -1},
        "legend": _LEGEND,
        "showlegend": legend_entries > 1,
        "uirevision": f"{axes.x}|{axes.y}",  # zoom and hidden lines survive new data on the same axes
        "xaxis": axis(axes.x, axes.log_x) | {"unifiedhovertitle": {"text": f"{axes.x} = %{{x:,.5~r}}"}},
        "yaxis": y_axis,
    } | ({"meta": axes.bound} if axes.bound else {})  # `words` reads it, to round heights


def privacy_mark(curves: Mapping[str, Privacy]) -> bool | str:
    """Return the argument `not_private` of a figure from the privacy of its curves, by name.

    It is True if no curve is private; else a text that names the curves that are not, and the condition on which the
    others are private; "" if all are private on no condition.
    """
    names = [name for name, privacy in curves.items() if privacy == "not private"]
    if names and len(names) == len(curves):
        return True
    texts = []
    if names:
        texts.append(f"not private: {'; '.join(names)}")
    conditions = [privacy for privacy in curves.values() if is_conditional(privacy)]
    if conditions:
        texts.append(weakest_privacy(conditions))
    return "; ".join(texts)


def mark_text(not_private: bool | str) -> str:
    """Return the text of the mark inside the frame: about all curves if the argument is True, else the text itself."""
    return f"◉ {not_private}" if isinstance(not_private, str) else "◉ not private: reads the raw data"


def _mark(not_private: bool | str) -> dict[str, Any]:
    """Return the mark as an annotation, in lines that fit the frame."""
    return _NOT_PRIVATE | {"text": "<br>".join(wrap(mark_text(not_private), FRAME_LETTERS))}


def say_condition(figure: go.Figure, condition: str) -> None:
    """Write into the frame of a figure, in place, that its curves are private only on a condition, a `Privacy` such as
    "private if known beforehand", unless a text there says so already."""
    texts = [(note.text or "").replace("<br>", " ") for note in figure.layout.annotations]  # without their line breaks
    if not any(condition in text for text in texts):
        figure.add_annotation(_mark(condition))


def top_margin(notes: Sequence[str], title: str = "") -> int:
    """Return the pixels above the axes: room for the title of the vertical one, and for small print."""
    return 12 + ROW * (len(notes) + len(wrap(title, FRAME_LETTERS)))


def y_title(title: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    """Return the title of the vertical axis as an upright annotation, above the frame and the notes that are there.

    title, layout : the title of the y axis and the layout, from a figure's specification. The title has no markup yet,
        as it is wrapped here by its number of letters.
    """
    size = title.get("font", {}).get("size", TEXT)
    factor = size / TEXT  # above 1 where a figure is enlarged for a lecture hall
    heights = []  # pixels from the frame to the upper edge of each note above it
    for note in layout.get("annotations", ()):
        if (note.get("yref"), note.get("y"), note.get("yanchor")) == ("paper", 1, "bottom"):
            rows = note["text"].count("<br>") + 1
            heights.append(factor * ROW * rows + note.get("yshift", 0))
    yshift = max(heights, default=factor * _ABOVE["yshift"])
    text = {"name": "title", "text": markup("<br>".join(wrap(title["text"], FRAME_LETTERS))), "font": {"size": size}}
    return _ABOVE | text | {"xshift": factor * _ABOVE["xshift"], "yshift": yshift}


def panel_name(text: str, left: float, top: float) -> dict[str, Any]:
    """Return the annotation with a panel's name, above its upper left corner (left, top), in shares of the figure."""
    annotation = {"name": "panel", "text": text, "showarrow": False}
    return annotation | {"xref": "paper", "yref": "paper", "x": left, "y": top, "xanchor": "left", "yanchor": "bottom"}


def enlarged(figure: go.Figure, factor: float) -> go.Figure:
    """Return the figure with height, texts and strokes enlarged by `factor`, for the back rows of a lecture hall."""
    result = go.Figure(figure)
    figure_layout = result.layout
    figure_layout.height *= factor
    figure_layout.font.size = factor * TEXT
    for side in ("l", "r", "t", "b"):
        figure_layout.margin[side] = factor * (figure_layout.margin[side] or 0)
    figure_layout.legend.font.size = factor * TEXT
    result.for_each_xaxis(lambda axis: axis.update(title_font_size=factor * TEXT))
    result.for_each_yaxis(lambda axis: axis.update(title_font_size=factor * TEXT))
    for note in figure_layout.annotations:
        note.font.size = factor * (note.font.size or TEXT)
        note.xshift, note.yshift = (factor * (shift or 0) for shift in (note.xshift, note.yshift))
    for shape in figure_layout.shapes:
        shape.line.width = factor * (shape.line.width or 2)  # plotly's own width is 2
        for side in ("x", "y"):
            if shape[f"{side}sizemode"] == "pixel":  # else its ends are coordinates
                for end in (f"{side}0", f"{side}1"):
                    shape[end] *= factor
    for trace in result.data:
        if trace.type == "scatter" and trace.line.width:
            trace.line.width *= factor
    return result


# --------------------------------------------------------------------------------- mathematics in the texts of a figure

# An index as in x_t: a letter, perhaps with a hat, or ‖; an underscore; then one character, min, max, or text in
# braces.
_INDEX = re.compile(r"(?<![A-Za-z0-9_])([^\W\d_][\u0300-\u036f]?|‖)_(\{[^}]+\}|min|max|[^\W_](?![\w.]))")
_POWER = re.compile(r"(?<=[\w)‖])\^(\{[^}]+\}|[^\W_](?!\w))")
_SUBSCRIPTS = dict(zip("0123456789aehijklmnoprstuvx+-", "₀₁₂₃₄₅₆₇₈₉ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ₊₋", strict=True))
_BYTES = {"f4", "f8", "i1", "i2", "i4", "u1", "u2", "u4"}  # kinds of arrays that plotly.js reads as bytes
_VISIBLE = {"text", "name", "hovertext", "hovertemplate", "ticktext"}  # keys of the texts in a figure that readers see


def markup(text: str) -> str:
    """Return plotly's markup for a text with indices and powers: in F(x_t) - F* it lowers the t and writes a minus."""
    with_indices = _INDEX.sub(lambda match: f"{match[1]}<sub>{match[2].strip('{}')}</sub>", text)
    return _POWER.sub(lambda match: f"<sup>{match[1].strip('{}')}</sup>", with_indices).replace(" - ", " − ")


def with_subscripts(text: str) -> str:
    """Return a text with Unicode's lowered letters as indices, for headings and tables: "F(x_t)" becomes "F(xₜ)".

    An index with a letter that Unicode does not have lowered is left as it is.
    """

    def lowered(match: re.Match[str]) -> str:
        letters = [_SUBSCRIPTS.get(letter, "") for letter in match[2].strip("{}")]
        return match[1] + "".join(letters) if all(letters) else match[0]

    return _INDEX.sub(lowered, text)


def figure_values(figure: go.Figure) -> dict[str, Any]:
    """Return a plotly figure as a dictionary of plain values and arrays."""
    return {"data": [trace.to_plotly_json() for trace in figure.data], "layout": figure.layout.to_plotly_json()}


def browser_figure(drawing: dict[str, Any]) -> dict[str, Any]:
    """Return the form of a figure, given as plain values, that is sent to browsers.

    Indices in its texts are typeset, the title of its vertical axis is an upright text above the frame, and its arrays
    are encoded as bytes. The result is not turned into a plotly figure again, because plotly's check of all parts would
    take longer than everything else.
    """
    result: dict[str, Any] = _typeset(drawing)
    figure_layout = result["layout"]
    titles = [axis.setdefault("title", {}) for name, axis in figure_layout.items() if name.startswith("yaxis")]
    # Of several panels only one axis has a title. It is taken without markup: `y_title` wraps it before typesetting.
    raw_titles = (axis.get("title", {}) for name, axis in drawing["layout"].items() if name.startswith("yaxis"))
    title = next((title for title in raw_titles if title.get("text")), None)
    is_heat_map = bool(result["data"]) and result["data"][0]["type"] == "heatmap"  # no room above its panels
    if title is not None and not is_heat_map:
        figure_layout["annotations"] = [*figure_layout.get("annotations", ()), y_title(title, figure_layout)]
        for axis_title in titles:
            axis_title["text"] = ""
    return result


def _typeset(part: Any, key: str = "") -> Any:
    """Return a part of a figure with visible texts typeset and arrays as bytes. key : its name in the figure."""
    if isinstance(part, dict):
        return {name: _typeset(value, name) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_typeset(item, key) for item in part]
    if isinstance(part, np.ndarray) and part.dtype.str[1:] in _BYTES:  # the type without its byte order
        encoded = {"dtype": part.dtype.str[1:], "bdata": b64encode(part.tobytes()).decode()}
        return encoded | ({"shape": ", ".join(map(str, part.shape))} if part.ndim > 1 else {})
    return markup(part) if isinstance(part, str) and key in _VISIBLE else part
