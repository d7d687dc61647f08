"""What every figure has in common: colours by role, the style of each arm, layout and chart menu.

Titles are headings of the page, and colours of background and text are the theme's, so no figure sets them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import plotly.graph_objects as go

from dpviz.experiments.experiment import Arm
from dpviz.experiments.plan import Privacy, conditional, worst
from dpviz.plots.elements.axes import Axes, Range, axis

# Hues with a contrast of at least 3:1 on the light and on the dark page, apart for colour-blind readers.
PALETTE: Mapping[str, str] = MappingProxyType(
    {"private": "#0072B2", "spent": "#D55E00", "theory": "#009E73", "second": "#CC79A7", "no privacy": "#6B7280"}
)
GREY = PALETTE["no privacy"]
HUES = tuple(color for color in PALETTE.values() if color != GREY)
DASHES = ("solid", "dash", "longdash", "dashdot")
DOTS = ("dot", "1px,6px", "4px,4px", "1px,3px")  # without privacy
HEIGHT, ALONE = 320, 380  # pixels, of charts in two columns, and of those with a row to themselves
SMALL = 188  # of those beside the live picture: names stand at the ends of lines, or nowhere
BOTTOM = 48  # pixels below the axes
# The chart's own menu: no upload of the figure to a third party, which Plotly offers unless told otherwise.
PLOT_CONFIG: dict[str, Any] = {
    "showSendToCloud": False,
    "displaylogo": False,
    "displayModeBar": "hover",
    "toImageButtonOptions": {"format": "png", "scale": 2},
}
TEXT = 13  # pixels, of all words and numbers in a figure, as the page sets them
ROW = 17  # pixels, of a line of them
# Of the words "not private": 4.5:1 and more on the light and on the dark page.
NOT_PRIVATE: Mapping[str, str] = MappingProxyType({"light": "#B45309", "dark": "#F59E0B"})
_ABOVE = {"xref": "paper", "yref": "paper", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"} | {
    "showarrow": False,
    "align": "left",
    "font": {"size": TEXT},
    "xshift": -36,
    "yshift": 8,  # above the uppermost number of the axis
}
_NOTE = {"opacity": 0.8} | _ABOVE
FRAME = 48  # letters of small print that a frame is wide
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
    "font": {"size": TEXT},
}


@dataclass(frozen=True)
class ArmStyle:
    """Colour and dash of one arm: the same in every figure, and no two arms alike.

    reference : an arm without privacy. It may leave the first view of a log axis, so that private arms fill it.
    """

    color: str
    dash: str
    reference: bool = False


def arm_styles(arms: Sequence[Arm]) -> dict[str, ArmStyle]:
    """A style per label: hue = update rule, dash = variant of it, dotted = without privacy.

    Each algorithm says which (`Algorithm.look`), so that a method looks the same whatever else is chosen, in whatever
    order. Of arms that would look alike, all but the first by label take what is left; sixteen private arms and twenty
    without privacy can be told apart.
    """
    styles: dict[str, ArmStyle] = {}
    waiting = []
    for arm in sorted(arms, key=lambda arm: arm.label):
        look = _look(arm)
        if look in styles.values():
            waiting.append((arm.label, look))
        else:
            styles[arm.label] = look
    for label, look in waiting:
        styles[label] = _free(look, set(styles.values()))
    return {arm.label: styles[arm.label] for arm in arms}


def _look(arm: Arm) -> ArmStyle:
    """What the algorithm says, dotted if it is without privacy."""
    hue, dash = arm.algorithm.look
    return ArmStyle((*HUES, GREY)[hue], (DOTS if arm.reference else DASHES)[dash], arm.reference)


def _free(look: ArmStyle, taken: set[ArmStyle]) -> ArmStyle:
    """The first style that is not taken: a dash in the same hue, else in another."""
    hues = (look.color, *(other for other in HUES if other != look.color))
    styles = [replace(look, color=hue, dash=dash) for hue, dash in product(hues, DOTS if look.reference else DASHES)]
    return next((style for style in styles if style not in taken), look)


def with_opacity(color: str, opacity: float) -> str:
    """The colour "#RRGGBB" as rgba text."""
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"


def layout(
    axes: Axes,
    *,
    notes: Sequence[str] = (),
    shown: Range | None = None,
    not_private: bool | str = False,
    legend_entries: int = 0,
    height: int = HEIGHT,
) -> dict[str, Any]:
    """The layout of a figure with one pair of axes.

    notes : small print above the axes, one line each. shown : the part of
    the y axis that it opens with. not_private : says so inside the frame, which stays with the figure wherever it is
    exported to; a text names the curves of which it is true. legend_entries : no legend for fewer than two; many make
    the figure higher, not the axes smaller. height : pixels.
    """
    legend_rows = -(-legend_entries // 3)  # in one of two columns
    y_axis = axis(axes.y, axes.log_y, shown)
    if axes.from_zero:
        y_axis["rangemode"] = "tozero"
    return {
        "height": height + 20 * max(0, legend_rows - 2),
        "margin": {"l": 48, "r": 16, "t": top_margin(notes, axes.y), "b": BOTTOM},
        "annotations": [
            *([_NOTE | {"text": "<br>".join(notes)}] if notes else []),
            *([_NOT_PRIVATE | {"text": "<br>".join(wrap(in_frame(not_private), FRAME))}] if not_private else []),
        ],
        "shapes": [],
        "hovermode": "x unified",
        "hoverlabel": {"namelength": -1},
        "legend": _LEGEND,
        "showlegend": legend_entries > 1,
        "uirevision": f"{axes.x}|{axes.y}",  # zoom and hidden lines survive new data on the same axes
        "xaxis": axis(axes.x, axes.log_x) | {"unifiedhovertitle": {"text": f"{axes.x} = %{{x:,.5~r}}"}},
        "yaxis": y_axis,
    } | ({"meta": axes.bound} if axes.bound else {})


def marked(curves: Mapping[str, Privacy]) -> bool | str:
    """What a figure says of curves, by name: True if none may be published; else of which, or on what, it depends."""
    names = [name for name, status in curves.items() if status == "not private"]
    if names and len(names) == len(curves):
        return True
    said = [f"not private: {'; '.join(names)}"] * bool(names)
    conditions = [status for status in curves.values() if conditional(status)]
    said += [worst(conditions)] * bool(conditions)
    return "; ".join(said)


def in_frame(curves: bool | str) -> str:
    """The words inside a frame about all curves, or those that `marked` names."""
    return f"◉ {curves}" if isinstance(curves, str) else "◉ not private: reads the raw data"


def say_condition(figure: go.Figure, condition: str) -> None:
    """Says inside the frame that its curves are private only on a condition, unless it does so already; in place."""
    if not any(condition in (note.text or "") for note in figure.layout.annotations):
        figure.add_annotation(_NOT_PRIVATE | {"text": in_frame(condition)})


def top_margin(notes: Sequence[str], title: str = "") -> int:
    """Pixels above the axes: room for the title of the vertical one, and for small print."""
    return 12 + ROW * (len(notes) + len(wrap(title, FRAME)))


def y_title(title: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    """The title of the vertical axis, as an annotation above the frame and above what stands there, in its own size;
    title, layout : parts of a figure's specification."""
    size = title.get("font", {}).get("size", TEXT)
    larger = size / TEXT  # in a lecture hall, as all else
    place = "paper", 1, "bottom"
    notes = [note for note in layout.get("annotations", ()) if tuple(map(note.get, ("yref", "y", "yanchor"))) == place]
    above = max(
        (larger * ROW * (note["text"].count("<br>") + 1) + note.get("yshift", 0) for note in notes), default=8 * larger
    )
    words = {"name": "title", "text": "<br>".join(wrap(title["text"], FRAME)), "font": {"size": size}}
    return _ABOVE | words | {"xshift": larger * _ABOVE["xshift"], "yshift": above}


def panel_name(text: str, left: float, top: float) -> dict[str, Any]:
    """The name of one of several panels, above its upper left corner."""
    words = {"name": "panel", "text": text, "showarrow": False}
    return words | {"xref": "paper", "yref": "paper", "x": left, "y": top, "xanchor": "left", "yanchor": "bottom"}


def enlarged(figure: go.Figure, factor: float) -> go.Figure:
    """The figure with everything but its width that many times as large: for those who sit at the back of a hall."""
    found = go.Figure(figure)
    layout = found.layout
    layout.height *= factor
    layout.font.size = factor * TEXT
    for side in ("l", "r", "t", "b"):
        layout.margin[side] = factor * (layout.margin[side] or 0)
    layout.legend.font.size = factor * TEXT
    found.for_each_xaxis(lambda axis: axis.update(title_font_size=factor * TEXT))
    found.for_each_yaxis(lambda axis: axis.update(title_font_size=factor * TEXT))
    for note in layout.annotations:
        note.font.size = factor * (note.font.size or TEXT)
        note.xshift, note.yshift = (factor * (shift or 0) for shift in (note.xshift, note.yshift))
    for shape in layout.shapes:
        shape.line.width = factor * (shape.line.width or 2)
        for side in ("x", "y"):
            if shape[f"{side}sizemode"] == "pixel":
                for end in (f"{side}0", f"{side}1"):
                    shape[end] *= factor
    for trace in found.data:
        if trace.type == "scatter" and trace.line.width:
            trace.line.width *= factor
    return found
