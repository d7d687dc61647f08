"""Charts on a page, with heading, privacy badge, a button for the numbers as CSV, text alternative and caption."""

import html
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dpviz.experiments.plan import is_conditional
from dpviz.exports.spreadsheets import as_csv
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.labels import compact
from dpviz.plots.elements.multiples import AGAIN
from dpviz.plots.elements.readout import READOUT
from dpviz.plots.elements.style import enlarged, figure_values, say_condition, with_subscripts
from dpviz.ui import appearance, components, explain, markdown


def show(chart: Chart, key: str, group: str = "", leads: components.Leads | None = None) -> Chart:
    """Draw a chart below its heading, with its privacy badge and the button for its numbers; return the chart.

    key : of the chart on the page. group, leads : as in `show_captioned`.
    """
    with explain.heading(with_subscripts(chart.heading)):
        badge_and_csv(chart, key)
    return show_captioned(chart, key, group=group, leads=leads)


def badge_and_csv(chart: Chart, key: str) -> None:
    """Draw the privacy badge of a chart, unless it shows settings only, and the button for its numbers."""
    if chart.provenance != "settings":
        explain.privacy_badge(chart.provenance)
    download(f"the chart “{chart.heading}”", partial(_csv, chart), f"dpviz_{key}.csv", f"{key}_csv")


def show_captioned(
    chart: Chart, key: str, pale: bool = False, group: str = "", leads: components.Leads | None = None
) -> Chart:
    """Draw a chart with its caption, without heading; return it.

    pale : true if it belongs to earlier settings. group : name of charts that share a pointer. leads : values of the
    page's sliders, by which the browser tells whether the chart is of earlier settings.
    """
    show_bare(chart, key, pale=pale, group=group, leads=leads)
    st.caption(with_subscripts(chart.caption))
    return chart


def show_bare(
    chart: Chart,
    key: str,
    pale: bool = False,
    group: str = "",
    leads: components.Leads | None = None,
    handles: components.Handles | None = None,
) -> None:
    """Draw a chart without heading and caption.

    handles : points of the chart by which the user draws a schedule. Other arguments as in `show_captioned`.
    """
    alt = f"{chart.alt}. {chart.description}"
    if pale:
        alt = f"Of earlier settings: {alt}"
    components.plot(browser_data(chart), key, alt, pale=pale, group=group, leads=leads, handles=handles)


def show_side_by_side(*charts: tuple[Chart, str]) -> list[Chart]:
    """Draw charts, given with their keys, two by two, side by side; return the charts."""
    result = []
    for start in range(0, len(charts), 2):
        pair = charts[start : start + 2]  # the last one may have a single chart
        for column, (chart, key) in zip(st.columns(2, gap="medium"), pair, strict=False):  # the second may stay empty
            with column:
                result.append(show(chart, key))
    return result


def download(content: str, make: Callable[[], bytes], file_name: str, key: str) -> None:
    """Draw a small button, for the line of a heading, that downloads numbers as CSV.

    content : text that names the subject of the numbers. make : returns the bytes of the file, when it is pressed.
    """
    st.download_button(
        f"CSV *of {markdown.escape_name(content)}*",  # `appearance` hides oblique text from all but screen readers
        make,
        file_name=file_name,
        mime="text/csv",
        key=key,
        type="tertiary",
        icon=":material/download:",
        help=f"The numbers of {content}.",
        on_click="ignore",
    )


def show_figure(figure: go.Figure, key: str, alt: str) -> None:
    """Draw a figure without heading, caption and badge.

    When it is drawn again with other data, its lines move; zoom and menu stay as they are.

    alt : subject of the figure, with which its text alternative begins; a description of its lines follows.
    """
    chart = Chart(figure, heading="", alt=alt, caption="")
    data = _compute_browser_data(chart)  # of a new chart each time: a cache would be of no use
    components.plot(data, key, f"{alt}. {chart.description}")


def browser_data(chart: Chart) -> dict[str, Any]:
    """Return a chart in the form that this visitor's browser receives, computed once for each style of the page."""
    style = page_style()
    if style not in chart.sent:
        chart.sent[style] = _compute_browser_data(chart)
    drawing: dict[str, Any] = chart.sent[style]
    return drawing


def page_style() -> tuple[bool, bool]:
    """Return the style of the page: (the screen is narrow, the page is for a lecture hall)."""
    return appearance.is_narrow(), appearance.presents()


def _compute_browser_data(chart: Chart) -> dict[str, Any]:
    """Compute `browser_data`: on a narrow screen with a legend in place of labels, in a lecture hall larger."""
    is_narrow, presents = page_style()
    is_marked = is_conditional(chart.provenance)  # private on a condition, which is then drawn in the figure
    if isinstance(chart.drawing, dict) and not (is_narrow or presents or is_marked):  # plain values, which save time
        return components.figure_data(chart.drawing, chart.handles)
    figure = chart.figure
    if is_marked:
        say_condition(figure, chart.provenance)
    if is_narrow:
        figure = compact(figure)
    if presents:
        figure = enlarged(figure, appearance.FACTOR)
    return components.figure_data(figure_values(figure), chart.handles)


def numbers(figure: go.Figure) -> pd.DataFrame:
    """Return the curves of a figure as a table with a row for each point, and the columns curve, x and y, of which the
    latter two have the titles of the axes.

    For heat maps there is a row for each cell with a value, and a fourth column with the values.
    """
    if figure.data and figure.data[0].type == "heatmap":
        return _cells(figure)
    parts = []
    for trace in figure.data:
        if trace.type == "contour":  # shades behind the curves
            continue
        x, y = (np.asarray(values) for values in (trace.x, trace.y))
        has_points = x.ndim > 0 and len(x) == len(y)  # x has no dimension if it is None
        # `meta` is AGAIN or READOUT for a trace that repeats another curve; else it may have the names of several
        # curves that coincide in this trace.
        if has_points and trace.meta not in (AGAIN, READOUT):
            for name in trace.meta or [_name(trace)]:
                parts.append(pd.DataFrame({"curve": name, _title(figure.layout.xaxis, "x"): x, "y": y}))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["curve", "x", "y"])
    return table.rename(columns={"y": _title(figure.layout.yaxis, "y")})  # last, as both axes may have the same title


def _cells(figure: go.Figure) -> pd.DataFrame:
    """Return the cells of heat maps that have a value, as `numbers` describes."""
    # All maps have the same axes, of which only those at the edge of the figure have a title.
    x_title = next((axis.title.text for axis in figure.select_xaxes() if axis.title.text), "")
    y_title = next((axis.title.text for axis in figure.select_yaxes() if axis.title.text), "")
    value_title = figure.layout.coloraxis.colorbar.title.text
    rows = []
    for trace in figure.data:
        for y, row in zip(trace.y, trace.customdata, strict=True):  # the values; `z` has their colours
            for x, cell in zip(trace.x, row, strict=True):
                if not np.isnan(cell):
                    rows.append({"curve": _name(trace), x_title: x, y_title: y, value_title: cell})
    return pd.DataFrame(rows)


def _name(trace: go.Scatter) -> str:
    """Return the name of a curve; for an edge of a band, which has none, that of its curve and which edge it is."""
    if trace.name or not trace.legendgroup:
        return html.unescape((trace.name or "").replace("<br>", " "))
    edge = "upper" if trace.fill else "lower"  # the band is filled from its upper edge down to the lower one
    return f"{trace.legendgroup}, {edge} edge of the band"


def _csv(chart: Chart) -> bytes:
    """Return the numbers of a chart as CSV, below lines that say if they are not private, or only on a condition.

    These lines are the notes of that kind in the figure or, without any, the provenance of the chart.
    """
    # `to_download` builds a figure with more exact numbers, for charts that have one.
    figure = chart.to_download() if chart.to_download is not None else chart.figure
    marks = [note.text.replace("<br>", " ") for note in figure.layout.annotations if note.name == "not private"]
    if not marks and chart.provenance not in ("settings", "private"):
        marks = [chart.provenance]
    return as_csv(numbers(figure), map(html.unescape, marks)).encode()


def _title(axis: go.layout.XAxis | go.layout.YAxis, otherwise: str) -> str:
    return axis.title.text or otherwise
