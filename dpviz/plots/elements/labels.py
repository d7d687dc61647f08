"""Names and final values at the ends of lines, in place of a legend; a legend again where there is no room for them."""

import html
import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from scipy.optimize import isotonic_regression

from dpviz.numbers import beside
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import WRITE, Bound, Range
from dpviz.plots.elements.style import ArmStyle

MOST = 7  # more lines than these have a legend
NAME = "end label"  # of the annotations and shapes that belong to labels
FRAME = 0.6  # lines that end beyond this share of the width have their label outside, where all have one
_WIDTH, _NARROW = 20, 11  # characters of a line of a label, and on a narrow screen
_SHARE = 0.36  # of a narrow screen that labels may take
_BESIDE, _ALONE = 170, 330  # pixels: width that a frame has at least, of one of two charts, or alone
_LINE, _CHARACTER = 1.3 * style.TEXT, 0.54 * style.TEXT  # pixels: height of a line of text, width of a character
_FIXED, _APART = "\u00a0", "\u2002"  # spaces: at which no line is broken, and between a name and its number
_STROKE, _GAP = (4, 20), 24  # pixels right of the line's end: where the stroke is, and where the text begins


@dataclass(frozen=True)
class End:
    """The end of a line: its value and its place, from 0 to 1 along both axes, and what is to be written there: a name
    and, if it is told, a number; how wide the frame is at least; and whether another line goes on where the text would
    stand beside the end."""

    x: float
    y: float
    across: float
    up: float
    name: str
    number: str
    style: ArmStyle
    frame: float  # pixels, that are sure to be there
    crossed: bool = False

    @property
    def reach(self) -> float:
        """Pixels from the left of the frame up to which it stands, beside its end."""
        return self.across * self.frame + _GAP + wide(self.lines)

    @property
    def lines(self) -> list[str]:
        """The text, in lines that fit the margin."""
        return broken(self.name, self.number)

    @property
    def outside(self) -> bool:
        """Whether it stands in the margin, right of the curves: there is no room for it in the frame."""
        return self.crossed or self.across > FRAME or self.reach > self.frame


def least(height: int) -> float:
    """Pixels that the frame of a figure of this height is wide, at least: those of the higher ones stand alone."""
    return _ALONE if height >= style.ALONE else _BESIDE


def numbers(ends: Sequence[float], shown: Range, bound: Bound = "") -> list[str]:
    """How the values at the ends of lines are written: what is nothing beside the others, or beside a linear axis, is
    about 0."""
    scale = max(map(abs, ends if shown.log else (shown.low, shown.high)), default=0.0)
    return [beside(end, scale, WRITE[bound]) for end in ends]


def broken(name: str, number: str, width: int = _WIDTH) -> list[str]:
    """A name and, apart and bold, a number; broken at words, but not between a number and its unit or margin."""
    words = re.sub(r" ([=±]) (?=[-\d])", rf"{_FIXED}\1{_FIXED}", f"{name} {number.replace(' ', _FIXED)}")
    lines = textwrap.wrap(words, width, break_on_hyphens=False, break_long_words=False) or [""]
    if number:
        before, _, last = lines[-1].rpartition(" ")
        lines[-1] = f"{before}{_APART}<b>{last}</b>" if before else f"<b>{last}</b>"
    return lines


def wide(lines: Sequence[str]) -> float:
    """Pixels that the longest of some lines takes, about."""
    return _CHARACTER * max((len(html.unescape(re.sub("<[^>]*>", "", line))) for line in lines), default=0)


def fits(ends: Sequence[End], height: float, most: int = MOST) -> bool:
    """Whether there is room for the labels, one below the other, in a frame of this height in pixels."""
    return 0 < len(ends) <= most and sum(_height(len(end.lines)) for end in ends) <= height


def margin(ends: Sequence[End]) -> int:
    """Pixels that the labels need to the right of the frame."""
    return beyond([line for end in ends if end.outside for line in end.lines])


def beyond(lines: Sequence[str]) -> int:
    """Pixels that these lines need there."""
    return math.ceil(_GAP + wide(lines) + 4) if lines else 16


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
            texts.append(label | {"xanchor": "left", "xshift": _GAP, "font": {"size": style.TEXT}} | text)
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
    offsets = np.concatenate(([0.0], np.cumsum(gaps)))[: len(order)]
    places = wanted[order].astype(float)
    if len(places):
        first, last = heights[order][[0, -1]] / 2
        apart = isotonic_regression(places - offsets).x
        places = np.clip(apart, first, height - last - offsets[-1]) + offsets
    found = np.empty_like(places)
    found[order] = places
    return found


def _height(lines: int) -> float:
    """Pixels that a label takes; one of several lines keeps a distance, to be seen as one."""
    return _LINE * lines + (8 if lines > 1 else 1)


def compact(figure: go.Figure, width: float = 350.0) -> go.Figure:
    """The figure for a screen that is narrow: with short labels in the margin if there is room; else with a legend in
    as many rows as a frame of this width in pixels needs. A small one has neither: it stands below one that does."""
    found = _wrapped(go.Figure(figure))
    notes = _labels(figure)
    if not notes:
        return found
    texts = [broken(*_name_and_number(note.text), _NARROW) for note in notes]
    beside = max(map(beyond, texts))
    small = figure.layout.height <= style.SMALL
    if (
        not small
        and all(note.yref == "paper" for note in notes)
        and beside <= _SHARE * width
        and _placed(found, figure, texts)
    ):
        return found.update_layout(margin={"r": beside})
    return _with_legend(found, width - found.layout.margin.l, not small)


def _wrapped(figure: go.Figure) -> go.Figure:
    """The figure with rows of small print that fit a narrow screen, of which a small one has the half, above a frame of
    the same height. Changes it."""
    room = style.FRAME // (2 if figure.layout.height <= style.SMALL else 1)
    for note in figure.layout.annotations:
        if (note.name, note.yref, note.y, note.yanchor) == (None, "paper", 1, "bottom"):
            rows = [row for line in note.text.split("<br>") for row in textwrap.wrap(line, room)]
            more = style.ROW * (len(rows) - note.text.count("<br>") - 1)
            note.text = "<br>".join(rows)
            figure.update_layout(height=figure.layout.height + more, margin_t=figure.layout.margin.t + more)
    return figure


def _labels(figure: go.Figure) -> list[go.layout.Annotation]:
    return [note for note in figure.layout.annotations if note.name == NAME]


def _name_and_number(text: str) -> tuple[str, str]:
    name, _, number = text.replace("<br>", " ").partition("<b>")
    return name.replace(_APART, " ").strip(), number.removesuffix("</b>")


def _placed(figure: go.Figure, before: go.Figure, texts: Sequence[list[str]]) -> bool:
    """Write these lines into the labels of a figure, none over another; whether there was room. Changes the figure.

    before : as it was, at its former height, whose labels have the places that are wanted.
    """
    frame = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    heights = np.array([_height(len(lines)) for lines in texts])
    # Those at the ends of short lines reach into the margin of a small figure: all of them need a place of their own.
    if heights.sum() > frame:
        return False
    notes, strokes = _labels(figure), [shape for shape in figure.layout.shapes if shape.name == NAME]
    chosen = [i for i, note in enumerate(notes) if note.yref == "paper"]
    wanted = np.array([1 - note.y for note in _labels(before)])[chosen] * frame
    for i, place in zip(chosen, spread(wanted, frame, heights[chosen]).tolist(), strict=True):
        note, stroke = notes[i], strokes[i]
        note.text, note.y = "<br>".join(texts[i]), 1 - place / frame
        stroke.y0 = stroke.y1 = note.y
    return True


def _with_legend(figure: go.Figure, width: float = 350.0, legend: bool = True) -> go.Figure:
    """The figure with a legend in place of its labels, or without one. Changes it. Plotly puts all names into one row,
    or into columns that are as wide as the longest."""
    named = [trace for trace in figure.data if trace.name and trace.showlegend is not False]
    needed = [60 + _CHARACTER * len(trace.name) for trace in named]
    rows = math.ceil(len(named) / max(1, width // max(needed))) if sum(needed) > width else 1
    figure.layout.annotations = [note for note in figure.layout.annotations if note.name != NAME]
    figure.layout.shapes = [shape for shape in figure.layout.shapes if shape.name != NAME]
    legend = legend and len(named) > 1
    extra = 20 * rows if legend else 0
    figure.update_layout(showlegend=legend, height=figure.layout.height + extra)
    return figure.update_layout(margin={"r": 16, "b": figure.layout.margin.b + extra})
