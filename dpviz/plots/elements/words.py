"""What a figure shows, in a sentence or two, for those who cannot see it: who ends lowest, where lines cross."""

import html
import re
from collections.abc import Iterable, Sequence

import numpy as np
import plotly.graph_objects as go

from dpviz.numbers import beside, short
from dpviz.plots.elements.multiples import AGAIN
from dpviz.plots.elements.readout import READOUT

MOST_MARKS = 3  # that are read out


def in_words(figure: go.Figure) -> str:
    """The text alternative: what the figure shows now. Its axes are named as they are in the figure."""
    if not figure.data:
        return " ".join(_plain(note.text) for note in figure.layout.annotations) or "Nothing to show."
    if figure.data[0].type == "bar":
        return f"{_bars(figure)}."
    if figure.data[0].type == "heatmap":
        return f"{_heat(figure)}."
    told = [trace for trace in figure.data if trace.name and (trace.showlegend is not False or trace.meta == AGAIN)]
    traces = list({trace.name: trace for trace in told}.values())
    x_title, y_title = (_title(axes) for axes in (figure.select_xaxes(), figure.select_yaxes()))
    if any(trace.stackgroup for trace in traces):
        found = _areas(traces, y_title)
    elif lines := [trace for trace in traces if _is_line(trace)]:
        found = _lines(lines, y_title, x_title.removeprefix("Number of "))
    else:
        found = [f"{y_title}, points: {', '.join(f'{_plain(trace.name)} {len(trace.x):,}' for trace in traces)}"]
    marks = [_plain(text) for trace in figure.data if _is_mark(trace) for text in trace.hovertext or trace.text]
    if marks:
        found.append(f"Marked: {'; '.join(marks[:MOST_MARKS])}{'; and more' if len(marks) > MOST_MARKS else ''}")
    return f"{'. '.join(found)}."


def _lines(lines: Sequence[go.Scatter], y_title: str, x_title: str) -> list[str]:
    ends = {_plain(line.name): float(line.y[-1]) for line in lines}
    if len(ends) < 2:
        (name, end), line = next(iter(ends.items())), lines[0]
        best = int(np.argmin(line.y))
        words = f"{y_title}: {name} goes from {short(float(line.y[0]))} to {short(end)}"
        lowest = f"lowest at {x_title} = {short(float(line.x[best]))}, {short(float(line.y[best]))}"
        return [f"{words}, {lowest}" if 0 < best < len(line.y) - 1 else words]
    if np.ptp(list(ends.values())) <= 1e-6 * abs(max(ends.values(), key=abs)):
        return [f"{y_title}: all end at {short(next(iter(ends.values())))}"]
    scale = max(map(abs, ends.values()))
    order = sorted(lines, key=lambda line: float(line.y[-1]))
    first, second, last = order[0], order[1], order[-1]
    names = [_plain(line.name) for line in (first, second, last)]
    found = [f"{y_title}: {names[0]} ends lowest, at {beside(float(first.y[-1]), scale)}"]
    if last is not second:
        found[0] += f"; {names[1]} at {beside(float(second.y[-1]), scale)}"
    found[0] += f"; highest {names[2]}, {short(float(last.y[-1]))}"
    return [*found, *_crossing(first, second, x_title)]


def _crossing(one: go.Scatter, other: go.Scatter, x_title: str) -> list[str]:
    """Where the line that ends lowest last came from above the runner-up, as far as both go."""
    x = np.union1d(one.x, other.x)
    x = x[(x >= max(one.x[0], other.x[0])) & (x <= min(one.x[-1], other.x[-1]))]
    if len(x) < 2:
        return []
    below = np.interp(x, one.x, one.y) <= np.interp(x, other.x, other.y)
    names = f"{_plain(one.name)} and {_plain(other.name)}"
    turns = np.flatnonzero(np.diff(below.astype(int)))
    if not len(turns):
        return []
    times = "" if len(turns) == 1 else f" {len(turns)} times, last"
    return [f"{names} cross{times} at {x_title} = {short(float(x[turns[-1] + 1]))}"]


def _areas(traces: Sequence[go.Scatter], y_title: str) -> list[str]:
    parts = sorted(traces, key=lambda trace: -float(trace.y[-1]))
    return [f"{y_title}, at the end: {', '.join(f'{_plain(t.name)} {short(float(t.y[-1]))}' for t in parts)}"]


def _bars(figure: go.Figure) -> str:
    """The longest and the shortest bar; of several series, of each."""
    found = []
    for trace in figure.data:
        across = trace.orientation == "h"
        names, values = (trace.y, trace.x) if across else (trace.x, trace.y)
        low, high = int(np.argmin(values)), int(np.argmax(values))
        ends = [f"{_plain(str(names[i]))} {short(float(values[i]))}" for i in dict.fromkeys((high, low))]
        found.append(f"{_plain(trace.name or '')} highest {'; lowest '.join(ends)}".strip())
    axes = figure.select_xaxes() if figure.data[0].orientation == "h" else figure.select_yaxes()
    return f"{_title(axes)}: {'. '.join(found)}"


def _heat(figure: go.Figure) -> str:
    """The least and the largest cell of every panel."""
    x_title, y_title = (_title(axes) for axes in (figure.select_xaxes(), figure.select_yaxes()))
    found = []
    for trace in figure.data:
        cells = np.asarray(trace.customdata, dtype=float)
        if np.isnan(cells).all():
            continue
        ends = []
        for word, flat in (("lowest", np.nanargmin(cells)), ("highest", np.nanargmax(cells))):
            row, column = np.unravel_index(flat, cells.shape)
            place = f"{x_title} = {short(trace.x[column], 4)}, {y_title} = {short(trace.y[row], 4)}"
            ends.append(f"{word} {short(float(cells[row, column]))} at {place}")
        found.append(f"{_plain(trace.name)} {'; '.join(dict.fromkeys(ends))}")
    return f"{_plain(figure.layout.coloraxis.colorbar.title.text)}: {'. '.join(found)}"


def _is_line(trace: go.Scatter) -> bool:
    """Also one of a single point, which has no symbol of its own."""
    return "lines" in (trace.mode or "") or (len(trace.x) == 1 and trace.marker.symbol is None)


def _is_mark(trace: go.Scatter) -> bool:
    return trace.type == "scatter" and not trace.name and trace.mode.startswith("markers") and trace.meta != READOUT


def _title(axes: Iterable[go.layout.XAxis | go.layout.YAxis]) -> str:
    """The title that panels share."""
    return next((_plain(axis.title.text) for axis in axes if axis.title.text), "")


def _plain(text: str) -> str:
    """Text without plotly's tags."""
    return html.unescape(re.sub(r"<[^>]*>", " ", text)).strip()
