"""Names and final values at the ends of lines, in place of a legend; a legend again where there is no room for them."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.plots.elements import style
from dpviz.plots.elements.style import ArmStyle

MOST = 6  # more lines than these have a legend
NAME = "end label"  # of the annotations and shapes that belong to labels
FRAME = 0.6  # lines that end beyond this share of the width have their label outside, where all have one
_WIDTH = 20  # characters of a line of a label
_LINE, _CHARACTER = 1.3 * style.SMALL, 6.4  # pixels: height of a line of a label in Plotly, width of a character
_STROKE, _GAP = (4, 20), 24  # pixels right of the line's end: where the stroke is, and where the text begins


@dataclass(frozen=True)
class End:
    """The end of a line: its value and its place, from 0 to 1 along both axes, and what is to be written there."""

    x: float
    y: float
    across: float
    up: float
    text: str
    style: ArmStyle

    @property
    def lines(self) -> list[str]:
        """The text, broken where it is too long for the margin, but not between a number and its margin of error."""
        text = self.text.replace(" ± ", "\u00a0±\u00a0")
        return textwrap.wrap(text, _WIDTH, break_on_hyphens=False) or [text]

    @property
    def outside(self) -> bool:
        """Whether it stands in the margin, right of the curves."""
        return self.across > FRAME


def fits(ends: Sequence[End], height: float, most: int = MOST) -> bool:
    """Whether there is room for the labels, one below the other, in a frame of this height in pixels."""
    return 0 < len(ends) <= most and sum(_height(len(end.lines)) for end in ends) <= height


def margin(ends: Sequence[End]) -> int:
    """Pixels that the labels need to the right of the frame."""
    longest = max((len(line) for end in ends if end.outside for line in end.lines), default=0)
    return math.ceil(_GAP + _CHARACTER * longest + 4) if longest else 16


def draw(ends: Sequence[End], height: float, log_x: bool, log_y: bool) -> tuple[list[dict[str, Any]], ...]:
    """Annotations and shapes: the texts in the colour of all text, each after a stroke in the line's colour and dash.

    Those outside stay where they are when a reader zooms, and are the legend then; the others are at their line's end.
    """
    texts, strokes = [], []
    for outside in (True, False):
        chosen = [end for end in ends if end.outside == outside]
        wanted = np.array([(1 - end.up) * height for end in chosen])
        places = spread(wanted, height, np.array([_height(len(end.lines)) for end in chosen]))
        for end, place, aim in zip(chosen, places.tolist(), wanted.tolist(), strict=True):
            text, stroke = _outside(place / height) if outside else _inside(end, aim - place, log_x, log_y)
            label = {"name": NAME, "text": "<br>".join(end.lines), "showarrow": False, "align": "left"}
            texts.append(label | {"xanchor": "left", "xshift": _GAP, "font": {"size": style.SMALL}} | text)
            look = {"color": end.style.color, "dash": end.style.dash, "width": 2}
            strokes.append({"name": NAME, "type": "line", "line": look, "xsizemode": "pixel"} | stroke)
    return texts, strokes


def _outside(down: float) -> tuple[dict[str, Any], dict[str, Any]]:
    place = {"xref": "paper", "yref": "paper"}
    stroke = {"xanchor": 1, "x0": _STROKE[0], "x1": _STROKE[1], "y0": 1 - down, "y1": 1 - down}
    return place | {"x": 1, "y": 1 - down, "yanchor": "middle"}, place | stroke


def _inside(end: End, shift: float, log_x: bool, log_y: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    x, y = (math.log10(value) if log else value for value, log in ((end.x, log_x), (end.y, log_y)))
    place = {"xref": "x", "yref": "y"}
    stroke = {"xanchor": end.x, "yanchor": end.y, "ysizemode": "pixel", "y0": shift, "y1": shift}
    text = {"x": x, "y": y, "yanchor": "middle", "yshift": shift}
    return place | text, place | stroke | {"x0": _STROKE[0], "x1": _STROKE[1]}


def spread(wanted: np.ndarray, height: float, heights: np.ndarray) -> np.ndarray:
    """Places (pixels from the top) as near to the wanted ones as fits, in their order, none over another or the edge.

    heights : of each label; together at most `height`.
    """
    order = np.argsort(wanted, kind="stable")
    gaps = (heights[order][1:] + heights[order][:-1]) / 2
    places = wanted[order].astype(float)
    for _ in range(100):
        short = gaps - np.diff(places)
        if not (short > 1e-6).any():
            break
        for i in np.flatnonzero(short > 1e-6):
            push = max(0.0, gaps[i] - (places[i + 1] - places[i])) / 2
            places[i], places[i + 1] = places[i] - push, places[i + 1] + push
    offsets = np.concatenate(([0.0], np.cumsum(gaps)))[: len(places)]
    if len(places):
        first, last = heights[order][[0, -1]] / 2
        places = np.clip(np.maximum.accumulate(places - offsets), first, height - last - offsets[-1]) + offsets
    found = np.empty_like(places)
    found[order] = places
    return found


def _height(lines: int) -> float:
    """Pixels that a label takes; one of several lines keeps a distance, to be seen as one."""
    return _LINE * lines + (4 if lines > 1 else 1)


def _tall(text: go.layout.Annotation) -> float:
    return _height(text.text.count("<br>") + 1)


def resized(figure: go.Figure, height: int) -> go.Figure:
    """The figure at another height in pixels, with its labels as far apart as before; without, if there is no room.

    Beside long labels its frame is narrow: few numbers stand below it, and upright.
    """
    found = go.Figure(figure).update_layout(height=height).update_xaxes(nticks=3, tickangle=0)
    frame = height - figure.layout.margin.t - figure.layout.margin.b
    texts, strokes = (
        [part for part in parts if part.name == NAME and part.yref == "paper"]
        for parts in (found.layout.annotations, found.layout.shapes)
    )
    heights = np.array([_tall(text) for text in texts])
    # Those at the ends of short lines reach into the margin of a small figure: all of them need a place of their own.
    if sum(_tall(text) for text in found.layout.annotations if text.name == NAME) > frame:
        return compact(found).update_layout(height=height)
    wanted = np.array([(1 - text.y) * frame for text in texts])
    for text, stroke, place in zip(texts, strokes, spread(wanted, frame, heights).tolist(), strict=True):
        text.y = stroke.y0 = stroke.y1 = 1 - place / frame
    return found


def compact(figure: go.Figure, width: float = 350.0) -> go.Figure:
    """The figure for a screen that is narrow: without labels at the ends of lines, with a legend in as many rows as a
    frame of this width in pixels needs."""
    if not any(shape.name == NAME for shape in figure.layout.shapes):
        return figure
    found = go.Figure(figure)
    names = [trace.name for trace in figure.data if trace.name and trace.showlegend is not False]
    rows, room = 0, 0.0
    for name in names:
        needed = 60 + _CHARACTER * len(name)
        rows, room = (rows + 1, width - needed) if needed > room else (rows, room - needed)
    found.layout.annotations = [note for note in figure.layout.annotations if note.name != NAME]
    found.layout.shapes = [shape for shape in figure.layout.shapes if shape.name != NAME]
    extra = 20 * rows if len(names) > 1 else 0
    found.update_layout(showlegend=len(names) > 1, height=figure.layout.height + extra)
    found.update_layout(margin={"r": 16, "b": figure.layout.margin.b + extra})
    return found
