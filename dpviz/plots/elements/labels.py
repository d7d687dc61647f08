"""Names and final values at the ends of lines, in place of a legend, which returns where there is no room for them."""

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

MAX_LABELS = 7  # more lines have a legend instead
NAME = "end label"  # name of the annotations and shapes of labels
FRAME = 0.6  # lines that end beyond this share of the width have their label outside the frame
_WIDTH, _NARROW = 20, 11  # characters in a line of a label; the same on a narrow screen
_SHARE = 0.36  # largest share of a narrow screen for labels
_BESIDE, _ALONE = 170, 330  # pixels: smallest width of a frame, of one of two charts side by side, or alone
_LINE, _CHARACTER = 1.3 * style.TEXT, 0.54 * style.TEXT  # pixels: height of a line of text, width of a character
_FIXED, _APART = "\u00a0", "\u2002"  # spaces: within a number, where no line is broken; between a name and its number
_STROKE, _GAP = (4, 20), 24  # pixels right of the line's end: of the stroke, and of the beginning of the text


@dataclass(frozen=True)
class End:
    """End of a line, with the texts to be written there.

    x, y : coordinates. across, up : position along both axes, from 0 to 1. name, number : the texts; "" for no number.
    crossed : whether another line goes on behind the text next to the end.
    """

    x: float
    y: float
    across: float
    up: float
    name: str
    number: str
    style: ArmStyle
    frame: float  # pixels: smallest width of the frame
    crossed: bool = False

    @property
    def reach(self) -> float:
        """Pixels from the left of the frame to the right end of the text, next to the line's end."""
        return self.across * self.frame + _GAP + wide(self.lines)

    @property
    def lines(self) -> list[str]:
        """The text, in lines that fit the margin."""
        return broken(self.name, self.number)

    @property
    def outside(self) -> bool:
        """Whether the text is in the margin, right of the curves, because the frame has no room for it."""
        return self.crossed or self.across > FRAME or self.reach > self.frame


def least(height: int) -> float:
    """Return the smallest width in pixels of the frame of a figure with this height: higher figures have a row to
    themselves."""
    return _ALONE if height >= style.ALONE else _BESIDE


def numbers(ends: Sequence[float], opening: Range, bound: Bound = "") -> list[str]:
    """Return the values at the ends of lines as texts; a negligible one, compared with the others or a linear axis,
    is about 0."""
    scale = max(map(abs, ends if opening.log else (opening.low, opening.high)), default=0.0)
    return [beside(end, scale, WRITE[bound]) for end in ends]


def broken(name: str, number: str, width: int = _WIDTH) -> list[str]:
    """Return a name and, apart and bold, a number in lines, not broken between a number and its unit or margin."""
    words = re.sub(r" ([=±]) (?=[-\d])", rf"{_FIXED}\1{_FIXED}", f"{name} {number.replace(' ', _FIXED)}")
    lines = textwrap.wrap(words, width, break_on_hyphens=False, break_long_words=False) or [""]
    if number:
        head, _, last = lines[-1].rpartition(" ")
        lines[-1] = f"{head}{_APART}<b>{last}</b>" if head else f"<b>{last}</b>"
    return lines


def wide(lines: Sequence[str]) -> float:
    """Return the approximate width in pixels of the longest line."""
    return _CHARACTER * max((len(html.unescape(re.sub("<[^>]*>", "", line))) for line in lines), default=0)


def fits(ends: Sequence[End], height: float, max_labels: int = MAX_LABELS) -> bool:
    """Return whether there is room for the labels, one below the other, in a frame of this height in pixels."""
    return 0 < len(ends) <= max_labels and sum(_height(len(end.lines)) for end in ends) <= height


def margin(ends: Sequence[End]) -> int:
    """Return the pixels that the labels need to the right of the frame."""
    return beyond([line for end in ends if end.outside for line in end.lines])


def beyond(lines: Sequence[str]) -> int:
    """Return the pixels that these lines of text need to the right of the frame."""
    return math.ceil(_GAP + wide(lines) + 4) if lines else 16


def draw(ends: Sequence[End], height: float, log_x: bool, log_y: bool) -> tuple[list[dict[str, Any]], ...]:
    """Return annotations and shapes: the texts in the colour of all text, each after a stroke in the line's colour and
    dash.

    Labels outside the frame stay when a reader zooms, and are the legend then; the others move with their line's end.
    """
    texts, strokes = [], []
    for outside in (True, False):
        group = [end for end in ends if end.outside == outside]
        wanted = np.array([(1 - end.up) * height for end in group])
        positions = spread(wanted, height, np.array([_height(len(end.lines)) for end in group]))
        for end, position, target in zip(group, positions.tolist(), wanted.tolist(), strict=True):
            text, stroke = _outside(position / height) if outside else _inside(end, target - position, log_x, log_y)
            label = {"name": NAME, "text": "<br>".join(end.lines), "showarrow": False, "align": "left"}
            texts.append(label | {"xanchor": "left", "xshift": _GAP, "font": {"size": style.TEXT}} | text)
            line = {"color": end.style.color, "dash": end.style.dash, "width": 2}
            strokes.append({"name": NAME, "type": "line", "line": line, "xsizemode": "pixel"} | stroke)
    return texts, strokes


def _outside(down: float) -> tuple[dict[str, Any], dict[str, Any]]:
    frame = {"xref": "paper", "yref": "paper"}
    stroke = {"xanchor": 1, "x0": _STROKE[0], "x1": _STROKE[1], "y0": 1 - down, "y1": 1 - down}
    return frame | {"x": 1, "y": 1 - down, "yanchor": "middle"}, frame | stroke


def _inside(end: End, shift: float, log_x: bool, log_y: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    x, y = (math.log10(value) if log else value for value, log in ((end.x, log_x), (end.y, log_y)))
    axes = {"xref": "x", "yref": "y"}
    stroke = {"xanchor": end.x, "yanchor": end.y, "ysizemode": "pixel", "y0": shift, "y1": shift}
    text = {"x": x, "y": y, "yanchor": "middle", "yshift": shift}
    return axes | text, axes | stroke | {"x0": _STROKE[0], "x1": _STROKE[1]}


def spread(wanted: np.ndarray, height: float, heights: np.ndarray) -> np.ndarray:
    """Return positions (pixels from the top) as near to `wanted` as possible, in its order, without overlap of labels
    or edge.

    heights : of each label; together at most `height`.
    """
    order = np.argsort(wanted, kind="stable")
    gaps = (heights[order][1:] + heights[order][:-1]) / 2
    offsets = np.concatenate(([0.0], np.cumsum(gaps)))[: len(order)]
    positions = wanted[order].astype(float)
    if len(positions):
        first, last = heights[order][[0, -1]] / 2
        apart = isotonic_regression(positions - offsets).x
        positions = np.clip(apart, first, height - last - offsets[-1]) + offsets
    result = np.empty_like(positions)
    result[order] = positions
    return result


def _height(lines: int) -> float:
    """Return the pixels that a label takes; one of several lines has more distance, to be seen as one."""
    return _LINE * lines + (8 if lines > 1 else 1)


def compact(figure: go.Figure, width: float = 350.0) -> go.Figure:
    """Return the figure for a narrow screen, with short labels in the margin if there is room.

    Else it has a legend with as many rows as a frame of this width in pixels needs. A small figure has neither, because
    a figure above it has them.
    """
    result = _wrap_notes(go.Figure(figure))
    notes = _labels(figure)
    if not notes:
        return result
    texts = [broken(*_name_and_number(note.text), _NARROW) for note in notes]
    right_margin = max(map(beyond, texts))
    is_small = figure.layout.height <= style.SMALL
    if (
        not is_small
        and all(note.yref == "paper" for note in notes)
        and right_margin <= _SHARE * width
        and _place_labels(result, figure, texts)
    ):
        return result.update_layout(margin={"r": right_margin})
    return _with_legend(result, width - result.layout.margin.l, not is_small)


def _wrap_notes(figure: go.Figure) -> go.Figure:
    """Break the small print into rows that fit a narrow screen, half of it for a small figure; return the figure.

    The frame keeps its height. Changes the figure.
    """
    room = style.FRAME // (2 if figure.layout.height <= style.SMALL else 1)
    for note in figure.layout.annotations:
        if (note.name, note.yref, note.y, note.yanchor) == (None, "paper", 1, "bottom"):
            rows = [row for line in note.text.split("<br>") for row in textwrap.wrap(line, room)]
            extra = style.ROW * (len(rows) - note.text.count("<br>") - 1)
            note.text = "<br>".join(rows)
            figure.update_layout(height=figure.layout.height + extra, margin_t=figure.layout.margin.t + extra)
    return figure


def _labels(figure: go.Figure) -> list[go.layout.Annotation]:
    return [note for note in figure.layout.annotations if note.name == NAME]


def _name_and_number(text: str) -> tuple[str, str]:
    name, _, number = text.replace("<br>", " ").partition("<b>")
    return name.replace(_APART, " ").strip(), number.removesuffix("</b>")


def _place_labels(figure: go.Figure, original: go.Figure, texts: Sequence[list[str]]) -> bool:
    """Write `texts` into the labels of a figure without overlap; return False if there is no room. Changes the figure.

    original : the figure at its former height, with the wanted positions of the labels.
    """
    frame = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    heights = np.array([_height(len(lines)) for lines in texts])
    # Labels at the ends of short lines reach into the margin of a small figure, so all labels need room there.
    if heights.sum() > frame:
        return False
    notes, strokes = _labels(figure), [shape for shape in figure.layout.shapes if shape.name == NAME]
    outside = [i for i, note in enumerate(notes) if note.yref == "paper"]
    wanted = np.array([1 - note.y for note in _labels(original)])[outside] * frame
    for i, position in zip(outside, spread(wanted, frame, heights[outside]).tolist(), strict=True):
        note, stroke = notes[i], strokes[i]
        note.text, note.y = "<br>".join(texts[i]), 1 - position / frame
        stroke.y0 = stroke.y1 = note.y
    return True


def _with_legend(figure: go.Figure, width: float = 350.0, legend: bool = True) -> go.Figure:
    """Return the figure with a legend, or nothing, in place of its labels. Changes the figure.

    Plotly puts all names into one row, or into columns as wide as the longest name.
    """
    named = [trace for trace in figure.data if trace.name and trace.showlegend is not False]
    needed = [60 + _CHARACTER * len(trace.name) for trace in named]
    rows = math.ceil(len(named) / max(1, width // max(needed))) if sum(needed) > width else 1
    figure.layout.annotations = [note for note in figure.layout.annotations if note.name != NAME]
    figure.layout.shapes = [shape for shape in figure.layout.shapes if shape.name != NAME]
    legend = legend and len(named) > 1
    extra = 20 * rows if legend else 0
    figure.update_layout(showlegend=legend, height=figure.layout.height + extra)
    return figure.update_layout(margin={"r": 16, "b": figure.layout.margin.b + extra})
