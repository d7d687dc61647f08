"""Labels at the ends of lines, with name and final value, in place of a legend.

Where there is no room for them the figure has a legend after all.
"""

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

from dpviz.plots.elements import style
from dpviz.plots.elements.style import ArmStyle

MAX_LABELS = 7  # more lines have a legend instead
NAME = "end label"  # name of the annotations and shapes of labels
INSIDE = 0.6  # a line that ends beyond this share of the width has its label outside the frame
_WIDTH, _NARROW = 20, 11  # largest number of characters in a line of a label; the same on a narrow screen
HIDDEN_LEGEND = "legend2"  # plotly's name of the legend of lines that share their hue with another one; it is invisible
_LEGEND_NAME = 36  # largest number of characters in a row of a legend on a narrow screen
_SCREEN, _SHARE = 350.0, 0.36  # pixels: width of a narrow screen; largest share of it that labels may take
# Pixels: smallest width of a frame, next to the live chart, of one of two charts side by side, or alone.
_SMALL, _BESIDE, _ALONE = 120, 170, 330
_LINE, _CHARACTER = 1.3 * style.TEXT, 0.54 * style.TEXT  # pixels: height of a line of text, width of a character
_FIXED, _APART = "\u00a0", "\u2002"  # spaces: within a number, where no line is broken; between a name and its number
_STROKE, _GAP = (4, 20), 24  # pixels right of the line's end: of the stroke, and of the beginning of the text


@dataclass(frozen=True)
class End:
    """The right end of a line, with the texts to be written there.

    x, y : coordinates. across, up : the same as shares of the frame, from 0 at the left or lower edge to 1.
    name, number : the line's name and its last value as texts; the number is "" if it is not to be written.
    style : colour and dash of the line. frame_width : smallest width of the frame in pixels.
    crossed : True if another line would cross the text next to the end.
    """

    x: float
    y: float
    across: float
    up: float
    name: str
    number: str
    style: ArmStyle
    frame_width: float
    crossed: bool = False

    @property
    def reach(self) -> float:
        """Pixels from the left of the frame to the right end of the text, next to the line's end."""
        return self.across * self.frame_width + _GAP + text_width(self.lines)

    @property
    def lines(self) -> list[str]:
        """The text of the label, in lines that fit the margin."""
        return label_lines(self.name, self.number)

    @property
    def outside(self) -> bool:
        """True if the text is in the margin, right of the frame, because there is no room for it next to the end."""
        return self.crossed or self.across > INSIDE or self.reach > self.frame_width


def min_frame_width(height: int) -> float:
    """Return the smallest width in pixels that the frame of a figure with this height may have on a page.

    High figures have a row of the page to themselves; lower ones share it with another, small ones with a larger one.
    """
    if height <= style.SMALL:
        return _SMALL
    return _ALONE if height >= style.ALONE else _BESIDE


def label_lines(name: str, number: str, width: int = _WIDTH) -> list[str]:
    """Return a label in lines of at most `width` characters: the name and then, in bold, the number.

    No line is broken within a number and its unit, nor at "= 3", "± 0.1" or "× 3".
    """
    text = re.sub(r" ([=±×]) (?=[-\d])", rf"{_FIXED}\1{_FIXED}", f"{name} {number.replace(' ', _FIXED)}")
    lines = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]
    if number:
        rest_of_line, _, last_word = lines[-1].rpartition(" ")  # the last word is the number, as its spaces are fixed
        lines[-1] = f"{rest_of_line}{_APART}<b>{last_word}</b>" if rest_of_line else f"<b>{last_word}</b>"
    return lines


def text_width(lines: Sequence[str]) -> float:
    """Return the approximate width in pixels of the longest of these lines of text."""
    without_tags = [html.unescape(re.sub("<[^>]*>", "", line)) for line in lines]
    return _CHARACTER * max(map(len, without_tags), default=0)


def fits(ends: Sequence[End], height: float, max_labels: int = MAX_LABELS) -> bool:
    """Return whether there is room for the labels, one below the other, in a frame of this height in pixels."""
    return 0 < len(ends) <= max_labels and sum(_height(len(end.lines)) for end in ends) <= height


def margin(ends: Sequence[End]) -> int:
    """Return the pixels that the labels need to the right of the frame."""
    return margin_width([line for end in ends if end.outside for line in end.lines])


def margin_width(lines: Sequence[str]) -> int:
    """Return the pixels that these lines of text need to the right of the frame; an empty margin without lines."""
    return math.ceil(_GAP + text_width(lines) + 4) if lines else 16  # 4 pixels free; 16 is the margin of `style.layout`


def label_annotations(ends: Sequence[End], height: float, log_x: bool, log_y: bool) -> tuple[list[dict[str, Any]], ...]:
    """Return plotly's annotations and shapes of the labels: for each end a text, in the colour of all text, after a
    short stroke in the line's colour and dash.

    Labels outside the frame keep their position when a visitor zooms, and serve as a legend then; the others move with
    the end of their line. height : of the frame, in pixels.
    """
    texts, strokes = [], []
    for outside in (True, False):  # labels in the margin and those in the frame do not overlap
        group = [end for end in ends if end.outside == outside]
        wanted_positions = np.array([(1 - end.up) * height for end in group])  # pixels from the top
        positions = spread(wanted_positions, height, np.array([_height(len(end.lines)) for end in group]))
        for end, position, wanted in zip(group, positions.tolist(), wanted_positions.tolist(), strict=True):
            text, stroke = _outside(position / height) if outside else _inside(end, wanted - position, log_x, log_y)
            label = {"name": NAME, "text": "<br>".join(end.lines), "showarrow": False, "align": "left"}
            texts.append(label | {"xanchor": "left", "xshift": _GAP, "font": {"size": style.TEXT}} | text)
            line = {"color": end.style.color, "dash": end.style.dash, "width": 2}
            # With this mode x0 and x1 of a stroke are pixels to the right of its "xanchor".
            strokes.append({"name": NAME, "type": "line", "line": line, "xsizemode": "pixel"} | stroke)
    return texts, strokes


def _outside(down: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the positions of text and stroke in the margin. down : share of the frame's height from its top."""
    axes = {"xref": "paper", "yref": "paper"}  # shares of the frame
    stroke = {"xanchor": 1, "x0": _STROKE[0], "x1": _STROKE[1], "y0": 1 - down, "y1": 1 - down}
    return axes | {"x": 1, "y": 1 - down, "yanchor": "middle"}, axes | stroke


def _inside(end: End, shift: float, log_x: bool, log_y: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the positions of text and stroke next to an end inside the frame, `shift` pixels above it."""
    # Plotly takes logarithms for texts, but plain numbers for shapes.
    x = math.log10(end.x) if log_x else end.x
    y = math.log10(end.y) if log_y else end.y
    axes = {"xref": "x", "yref": "y"}
    stroke = {"xanchor": end.x, "yanchor": end.y, "ysizemode": "pixel", "y0": shift, "y1": shift}
    text = {"x": x, "y": y, "yanchor": "middle", "yshift": shift}
    return axes | text, axes | stroke | {"x0": _STROKE[0], "x1": _STROKE[1]}


def spread(wanted: np.ndarray, height: float, heights: np.ndarray) -> np.ndarray:
    """Return the centres of labels, in pixels from the top of the frame, so that none overlaps another or the edge.

    They are as near to `wanted` (k,) as possible, by least squares, and in the same order. height : of the frame.
    heights : (k,) of the labels; together at most `height`.
    """
    order = np.argsort(wanted, kind="stable")
    gaps = (heights[order][1:] + heights[order][:-1]) / 2  # smallest distances of neighbouring centres
    offsets = np.append(0.0, np.cumsum(gaps))[: len(order)]  # centres of labels that touch each other; none without any
    positions = wanted[order].astype(float)
    if len(positions):
        first, last = heights[order][[0, -1]] / 2
        # Labels do not overlap if and only if positions minus offsets never decrease: the nearest such numbers are an
        # isotonic regression. The clip then keeps the first and the last label inside the frame.
        nondecreasing = isotonic_regression(positions - offsets).x
        positions = np.clip(nondecreasing, first, height - last - offsets[-1]) + offsets
    result = np.empty_like(positions)
    result[order] = positions
    return result


def _height(lines: int) -> float:
    """Return the height in pixels of a label with this number of lines, with the distance to the next label.

    A label of several lines has more distance, so that it is seen as one label.
    """
    return _LINE * lines + (8 if lines > 1 else 1)


def compact(figure: go.Figure) -> go.Figure:
    """Return the figure for a narrow screen: with labels in shorter lines, in the margin, if there is room.

    Else it has a legend. A small figure has neither, because a figure above it has them.
    """
    result = _wrap_names(_wrap_notes(go.Figure(figure)))
    labels, is_small = _labels(figure), figure.layout.height <= style.SMALL
    if not labels:
        has_legend = result.layout.showlegend and not is_small
        return _with_legend(result, width=_SCREEN - result.layout.margin.l, legend=True) if has_legend else result
    texts = [label_lines(*_name_and_number(label.text), width=_NARROW) for label in labels]
    right_margin = max(map(margin_width, texts))
    are_in_margin = all(label.yref == "paper" for label in labels)
    may_fit = not is_small and are_in_margin and right_margin <= _SHARE * _SCREEN
    if may_fit and _place_labels(result, figure, texts):  # this writes them into the result
        return result.update_layout(margin={"r": right_margin})
    return _with_legend(result, width=_SCREEN - result.layout.margin.l, legend=not is_small)


def _wrap_notes(figure: go.Figure) -> go.Figure:
    """Break the small print of a figure, in place, into rows that fit a narrow screen, or half of it for a small
    figure; return the figure. It becomes higher, so that the frame keeps its height."""
    max_letters = style.FRAME_LETTERS // (2 if figure.layout.height <= style.SMALL else 1)
    for note in figure.layout.annotations:
        if (note.name, note.yref, note.y, note.yanchor) == (None, "paper", 1, "bottom"):  # as small print is placed
            rows = [row for line in note.text.split("<br>") for row in textwrap.wrap(line, max_letters)]
            growth = style.ROW * (len(rows) - note.text.count("<br>") - 1)
            note.text = "<br>".join(rows)
            figure.update_layout(height=figure.layout.height + growth, margin_t=figure.layout.margin.t + growth)
    return figure


def _wrap_names(figure: go.Figure) -> go.Figure:
    """Break the names in a figure's legend, in place, into rows that fit a narrow screen; return the figure, which
    becomes higher, so that the frame keeps its height."""
    for trace in figure.data:
        rows = (trace.name or "").split("<br>")
        if max(map(len, rows)) > _LEGEND_NAME and _is_in_legend(trace):
            new_rows = textwrap.wrap(" ".join(rows), _LEGEND_NAME, break_long_words=False, break_on_hyphens=False)
            trace.name = "<br>".join(new_rows)
            figure.layout.height += 20 * (len(new_rows) - len(rows))  # 20 pixels a row
    return figure


def _labels(figure: go.Figure) -> list[go.layout.Annotation]:
    """Return the texts of the labels in a figure that `label_annotations` has made."""
    return [note for note in figure.layout.annotations if note.name == NAME]


def _name_and_number(text: str) -> tuple[str, str]:
    """Return name and number from the text of a label: the number is in bold."""
    name, _, number = text.replace("<br>", " ").partition("<b>")
    return name.replace(_APART, " ").strip(), number.removesuffix("</b>")


def _place_labels(figure: go.Figure, original: go.Figure, texts: Sequence[list[str]]) -> bool:
    """Write `texts` into the labels of a figure, in place, without overlap; return False if there is no room.

    original : the figure before its small print was broken into rows, with the wanted positions of the labels.
    texts : the lines of each label; all labels are in the margin.
    """
    frame_height = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    heights = np.array([_height(len(lines)) for lines in texts])
    if heights.sum() > frame_height:
        return False
    strokes = [shape for shape in figure.layout.shapes if shape.name == NAME]  # one for each label
    wanted_positions = np.array([1 - note.y for note in _labels(original)]) * frame_height
    positions = spread(wanted_positions, frame_height, heights).tolist()
    for note, stroke, lines, position in zip(_labels(figure), strokes, texts, positions, strict=True):
        note.text, note.y = "<br>".join(lines), 1 - position / frame_height
        stroke.y0 = stroke.y1 = note.y
    return True


def _with_legend(figure: go.Figure, width: float, legend: bool) -> go.Figure:
    """Replace the labels of a figure, in place, by a legend, or by nothing unless `legend`; return the figure.

    width : of the legend, in pixels. The figure becomes higher by the rows of the legend but one, which has room
    in any case.
    """
    traces = [trace for trace in figure.data if trace.name and _is_in_legend(trace)]
    widths = [60 + _CHARACTER * len(trace.name) for trace in traces]  # 60 pixels, about, for the sample of the line
    # Plotly puts all names into one row if they fit, else into columns as wide as the longest name.
    rows = math.ceil(len(traces) / max(1, width // max(widths))) if sum(widths) > width else 1
    figure.layout.annotations = [note for note in figure.layout.annotations if note.name != NAME]
    figure.layout.shapes = [shape for shape in figure.layout.shapes if shape.name != NAME]
    has_legend = legend and len(traces) > 1
    growth = 20 * max(0, rows - 1) if has_legend else 0  # 20 pixels a row
    figure.update_layout(showlegend=has_legend, height=figure.layout.height + growth)
    return figure.update_layout(margin={"r": 16, "b": figure.layout.margin.b + growth})


def _is_in_legend(trace: Any) -> bool:
    """Return whether a legend, if the figure has one, names this trace."""
    return trace.showlegend is not False and trace.legend != HIDDEN_LEGEND
