"""A chart on the page: heading, privacy badge, numbers as CSV, text alternative, caption."""

import html
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dpviz.experiments.plan import conditional
from dpviz.exports.spreadsheets import as_csv
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.labels import compact
from dpviz.plots.elements.multiples import AGAIN
from dpviz.plots.elements.readout import READOUT
from dpviz.plots.elements.style import enlarged, say_condition, values
from dpviz.plots.elements.style import plain as without_markup
from dpviz.ui import components, explain, markdown, presenting, screen


def show(chart: Chart, key: str) -> Chart:
    """Draw a chart below its heading, with badge and numbers; return it, for lists of drawn charts."""
    if conditional(chart.provenance):
        say_condition(chart.figure, chart.provenance)
    with explain.heading(without_markup(chart.heading)):
        beside_heading(chart, key)
    return picture(chart, key)


def beside_heading(chart: Chart, key: str) -> None:
    """Draw the badge of a chart, and the button for its numbers."""
    if chart.provenance != "settings":
        explain.privacy_badge(chart.provenance)
    download(f"the chart “{chart.heading}”", partial(_csv, chart), f"dpviz_{key}.csv", f"{key}_csv")


def picture(
    chart: Chart, key: str, pale: bool = False, group: str = "", leads: components.Leads | None = None
) -> Chart:
    """Draw a chart with its caption, without heading.

    pale : whether it belongs to earlier settings. group, leads : as in `components.plot`.
    """
    alone(chart, key, pale, group, leads)
    st.caption(without_markup(chart.caption))
    return chart


def alone(
    chart: Chart,
    key: str,
    pale: bool = False,
    group: str = "",
    leads: components.Leads | None = None,
    handles: components.Handles | None = None,
) -> None:
    """Draw a chart without heading and caption; handles as in `components.plot`, other arguments as in `picture`."""
    alt = f"{'Of earlier settings: ' * pale}{chart.alt}. {chart.words}"
    components.plot(sent(chart), key, alt, pale, group, leads, handles)


def beside(*charts: tuple[Chart, str]) -> list[Chart]:
    """Draw charts with their keys two by two, side by side; return them."""
    result = []
    for start in range(0, len(charts), 2):
        for column, (chart, key) in zip(st.columns(2, gap="medium"), charts[start : start + 2], strict=False):
            with column:
                result.append(show(chart, key))
    return result


def download(content: str, make: Callable[[], bytes], file_name: str, key: str) -> None:
    """Draw a small button next to a heading for numbers as CSV.

    content : what the numbers are of, in words. make : returns the file.
    """
    st.download_button(
        f"CSV *of {markdown.plain(content)}*",  # `appearance` hides oblique text from all but screen readers
        make,
        file_name=file_name,
        mime="text/csv",
        key=key,
        type="tertiary",
        icon=":material/download:",
        help=f"The numbers of {content}.",
        on_click="ignore",
    )


def plain(figure: go.Figure, key: str, alt: str) -> None:
    """Draw only a figure, which moves where its data change; zoom and menu stay.

    alt : subject of the figure, the beginning of its text alternative; what it shows now follows.
    """
    chart = Chart(figure, "", alt, "")
    components.plot(_sent(chart), key, f"{alt}. {chart.words}")


def sent(chart: Chart) -> dict[str, Any]:
    """Return a chart as this visitor's browser receives it; computed once for each style of the page."""
    if (style := look()) not in chart.sent:
        chart.sent[style] = _sent(chart)
    drawing: dict[str, Any] = chart.sent[style]
    return drawing


def look() -> tuple[bool, bool]:
    """Return the style of the page: whether the screen is narrow, and whether the page is for a lecture hall."""
    return screen.narrow(), presenting.on()


def _sent(chart: Chart) -> dict[str, Any]:
    if screen.narrow() or presenting.on():
        return components.drawing(values(as_shown(chart.figure)), chart.handles)
    return components.drawing(chart.drawn if isinstance(chart.drawn, dict) else values(chart.drawn), chart.handles)


def as_shown(figure: go.Figure) -> go.Figure:
    """Return the figure for this visitor: with a legend for labels on a narrow screen, enlarged in a lecture hall."""
    if screen.narrow():
        figure = compact(figure)
    if presenting.on():
        figure = enlarged(figure, presenting.FACTOR)
    return figure


def numbers(figure: go.Figure) -> pd.DataFrame:
    """Return the curves of a figure as a tidy table: curve, x, y; the columns are named after the axes.

    Of heat maps, the cells with a value: curve, x, y, value.
    """
    if figure.data and figure.data[0].type == "heatmap":
        return _cells(figure)
    parts = []
    for trace in figure.data:
        if trace.type == "contour":  # the background of points
            continue
        x, y = (np.asarray(values) for values in (trace.x, trace.y))
        if x.ndim and len(x) == len(y) and trace.meta not in (AGAIN, READOUT):
            for name in trace.meta or [_name(trace)]:  # each of the curves that coincide
                parts.append(pd.DataFrame({"curve": name, _title(figure.layout.xaxis, "x"): x, "y": y}))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["curve", "x", "y"])
    return table.rename(columns={"y": _title(figure.layout.yaxis, "y")})


def _cells(figure: go.Figure) -> pd.DataFrame:
    both = figure.select_xaxes(), figure.select_yaxes()
    titles = (next((axis.title.text for axis in axes if axis.title.text), "") for axes in both)
    names = ("curve", *titles)
    value = figure.layout.coloraxis.colorbar.title.text
    rows = [
        {**dict(zip(names, (_name(trace), x, y), strict=True)), value: cell}
        for trace in figure.data
        for y, row in zip(trace.y, trace.customdata, strict=True)
        for x, cell in zip(trace.x, row, strict=True)
        if not np.isnan(cell)
    ]
    return pd.DataFrame(rows)


def _name(trace: go.Scatter) -> str:
    """Return the name of a curve; an edge of a band has the name of its curve, and which edge it is."""
    if trace.name or not trace.legendgroup:
        return html.unescape((trace.name or "").replace("<br>", " "))
    return f"{trace.legendgroup}, {'upper' if trace.fill else 'lower'} edge of the band"


def _csv(chart: Chart) -> bytes:
    """Return the numbers of a chart as CSV, below marks of what is not private or private on a condition.

    The marks are the annotations in the figure's frame, or else the provenance of the chart.
    """
    figure = chart.to_download() if chart.to_download is not None else chart.figure
    notes = [note.text.replace("<br>", " ") for note in figure.layout.annotations if note.name == "not private"]
    marks = notes or [chart.provenance] * (chart.provenance not in ("settings", "private"))
    return as_csv(numbers(figure), map(html.unescape, marks)).encode()


def _title(axis: go.layout.XAxis | go.layout.YAxis, otherwise: str) -> str:
    return axis.title.text or otherwise
