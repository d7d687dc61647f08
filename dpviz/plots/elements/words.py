"""Text alternatives: what a figure shows, in a sentence or two: which line ends lowest, where lines cross."""

import html
import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import short
from dpviz.plots.elements.axes import BOUND_DIGITS, WRITE, Bound
from dpviz.plots.elements.lines import Drawing
from dpviz.plots.elements.multiples import AGAIN
from dpviz.plots.elements.readout import READOUT
from dpviz.plots.elements.style import figure_values

MAX_MARKS = 3  # largest number of marks that the text names


def alt_text(figure: go.Figure | Drawing) -> str:
    """Return the text alternative of what the figure shows now. Axes are named as in the figure."""
    drawing: Drawing = figure_values(figure) if isinstance(figure, go.Figure) else figure
    # Traces return None for missing keys.
    all_traces, layout = [defaultdict(lambda: None, trace) for trace in drawing["data"]], drawing["layout"]
    if not all_traces:
        return " ".join(_plain(note["text"]) for note in layout.get("annotations", ())) or "Nothing to show."
    x_title, y_title = (_title(layout, axis) for axis in ("xaxis", "yaxis"))
    first = all_traces[0]
    if first["type"] == "bar":
        title_of_lengths = x_title if first["orientation"] == "h" else y_title
        return f"{_bars(all_traces, title_of_lengths)}."
    if first["type"] == "heatmap":
        title_of_cells = _plain(layout["coloraxis"]["colorbar"]["title"]["text"])
        return f"{title_of_cells}: {_heat(all_traces, x_title, y_title)}."
    named_traces = (trace for trace in all_traces if trace["name"])
    # In small multiples a reference is drawn in the panels of other lines only; there it is marked AGAIN.
    visible_traces = (trace for trace in named_traces if trace["showlegend"] is not False or trace["meta"] == AGAIN)
    traces = list({trace["name"]: trace for trace in visible_traces}.values())  # each name once
    lines = [trace for trace in traces if _is_line(trace)]
    if any(trace["stackgroup"] for trace in traces):
        parts = sorted(traces, key=lambda trace: -float(trace["y"][-1]))  # the largest first
        ends = (f"{_plain(part['name'])} {short(float(part['y'][-1]))}" for part in parts)
        sentences = [f"{y_title}, at the end: {', '.join(ends)}"]
    elif lines:
        bound = layout.get("meta", "")  # as `style.layout` sets it
        is_log = layout.get("yaxis", {}).get("type") == "log"
        sentences = _lines(lines, y_title, x_title.removeprefix("Number of "), bound, is_log)  # "lowest at steps = 5"
    else:
        counts = (f"{_plain(trace['name'])} {len(trace['x']):,}" for trace in traces)
        sentences = [f"{y_title or x_title}, points: {', '.join(counts)}"]
    mark_traces = [trace for trace in all_traces if _is_mark(trace)]
    marks = [_plain(text) for trace in mark_traces for text in trace["hovertext"] or trace["text"]]
    if len(marks) > MAX_MARKS:
        marks = [*marks[:MAX_MARKS], "and more"]
    if marks:
        sentences.append(f"Marked: {'; '.join(marks)}")
    return f"{'. '.join(sentences)}."


def _lines(lines: Sequence[Drawing], y_title: str, x_title: str, bound: Bound, is_log: bool) -> list[str]:
    """Return sentences on lines: the ends and the lowest point of a single one; of several, which end lowest and
    highest, and where the two lowest cross.

    bound : the direction in which heights are rounded if they are bounds; "" if they are not. is_log : true if the
    vertical axis is logarithmic.
    """

    def write(y: float) -> str:
        # A bound was rounded before the figure was drawn; single precision has moved it since, so it is rounded back.
        return WRITE[bound](float(f"{y:.{BOUND_DIGITS}g}")) if bound else short(y)

    ends = {_plain(line["name"]): float(line["y"][-1]) for line in lines}
    if len(ends) < 2:
        [(name, end)] = ends.items()
        line = lines[0]
        best = int(np.argmin(line["y"]))
        sentence = f"{y_title}: {name} goes from {write(float(line['y'][0]))} to {write(end)}"
        if best in (0, len(line["y"]) - 1):
            return [sentence]
        lowest = f"lowest at {x_title} = {short(float(line['x'][best]))}, {write(float(line['y'][best]))}"
        return [f"{sentence}, {lowest}"]
    scale = max(map(abs, ends.values()))
    # In single precision, which is exact to 6e-8, smaller relative differences come from rounding.
    if np.ptp(list(ends.values())) <= 1e-6 * scale:
        common_end, *_ = ends.values()
        return [f"{y_title}: all end at {write(common_end)}"]
    order = sorted(lines, key=lambda line: float(line["y"][-1]))
    first, second, last = order[0], order[1], order[-1]
    names = [_plain(line["name"]) for line in (first, second, last)]
    sentence = f"{y_title}: {names[0]} ends lowest, at {write(float(first['y'][-1]))}"
    if last is not second:
        sentence += f"; {names[1]} at {write(float(second['y'][-1]))}"
    sentence += f"; highest {names[2]}, {write(float(last['y'][-1]))}"
    return [sentence, *_crossing(first, second, x_title, is_log)]


def _crossing(one: Drawing, other: Drawing, x_title: str, is_log: bool) -> list[str]:
    """Return a sentence on where two lines cross last, in the range of x that both have; none if they do not.

    Differences below 1 % do not count, of the values on a logarithmic axis, else of the height of both lines: nobody
    sees them, and they may be rounding.
    """
    x = np.union1d(one["x"], other["x"])
    x = x[(x >= max(one["x"][0], other["x"][0])) & (x <= min(one["x"][-1], other["x"][-1]))]
    y, other_y = (np.interp(x, line["x"], line["y"]) for line in (one, other))
    if not len(x):
        return []
    scale = np.maximum(abs(y), abs(other_y)) if is_log else np.nanmax([y, other_y]) - np.nanmin([y, other_y])
    rounding = 1e-6 * np.maximum(abs(y), abs(other_y))  # of single precision
    apart = np.flatnonzero(abs(y - other_y) > np.maximum(0.01 * scale, rounding))
    names = f"{_plain(one['name'])} and {_plain(other['name'])}"
    turns = np.flatnonzero(np.diff((y < other_y)[apart]))  # between a point and the next one of `apart`
    if not len(turns):
        return []
    times = "" if len(turns) == 1 else f" {len(turns)} times, last"
    start, end = apart[turns[-1] : turns[-1] + 2]
    order = np.sign(y - other_y)[start:end]
    first_after = start + int(np.flatnonzero(order == order[0])[-1]) + 1
    return [f"{names} cross{times} at {x_title} = {short(float(x[first_after]))}"]


def _bars(traces: Sequence[Drawing], title: str) -> str:
    """Return the longest and the shortest bar of each series, in words. title : of the axis of lengths."""
    sentences = []
    for trace in traces:
        is_horizontal = trace["orientation"] == "h"
        names, lengths = (trace["y"], trace["x"]) if is_horizontal else (trace["x"], trace["y"])
        low, high = int(np.argmin(lengths)), int(np.argmax(lengths))
        highest, lowest = (f"{_plain(str(names[i]))} {short(float(lengths[i]))}" for i in (high, low))
        sentence = f"{_plain(trace['name'] or '')} highest {highest}".strip()
        sentences.append(sentence if low == high else f"{sentence}; lowest {lowest}")
    return f"{title}: {'. '.join(sentences)}"


def _heat(traces: Sequence[Drawing], x_title: str, y_title: str) -> str:
    """Return the lowest and the highest cell of every panel in words."""
    sentences = []
    for trace in traces:
        cells = np.asarray(trace["customdata"], dtype=float)  # the values; "z", the colours, may be their logarithms
        if np.isnan(cells).all():
            continue
        ends = []
        for word, flat in (("lowest", np.nanargmin(cells)), ("highest", np.nanargmax(cells))):
            row, column = np.unravel_index(flat, cells.shape)
            position = f"{x_title} = {short(trace['x'][column], 4)}, {y_title} = {short(trace['y'][row], 4)}"
            ends.append(f"{word} {short(float(cells[row, column]))} at {position}")
        sentences.append(f"{_plain(trace['name'])} {'; '.join(ends)}")
    return ". ".join(sentences)


def _is_line(trace: Drawing) -> bool:
    """Return whether a trace is a line. A line of a single point is drawn as a marker without a symbol of its own."""
    is_single_point = len(trace["x"]) == 1 and "symbol" not in (trace["marker"] or {})
    return is_single_point or "lines" in (trace["mode"] or "")


def _is_mark(trace: Drawing) -> bool:
    """Return whether a trace consists of `Mark`s: markers without a name that are not the invisible readout."""
    is_unnamed_markers = trace["type"] == "scatter" and not trace["name"] and trace["mode"].startswith("markers")
    return is_unnamed_markers and trace["meta"] != READOUT


def _title(layout: Drawing, axis: str) -> str:
    """Return the title of the axes whose names begin with `axis`; of several panels only one axis has the title."""
    titles = (part.get("title", {}).get("text") for name, part in layout.items() if name.startswith(axis))
    return next((_plain(title) for title in titles if title), "")


def _plain(text: str) -> str:
    """Return a text without plotly's tags."""
    return html.unescape(re.sub(r"<[^>]*>", " ", text)).strip()
