"""A chart with all that belongs to it: heading, privacy badge, numbers as CSV, text alternative, caption."""

import html
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dpviz.experiments.plan import Privacy, worst
from dpviz.exports.spreadsheets import as_csv
from dpviz.plots.elements.labels import compact
from dpviz.plots.elements.multiples import AGAIN
from dpviz.plots.elements.readout import READOUT
from dpviz.plots.elements.style import enlarged, on_dark, say_condition
from dpviz.plots.elements.words import in_words
from dpviz.ui import components, explain, markdown, presenting, screen
from dpviz.ui.appearance import theme

Status = Literal["settings", "partly private"] | Privacy


def show(
    figure: go.Figure,
    key: str,
    heading: str,
    alt: str,
    caption: str,
    status: Status = "settings",
    to_download: Callable[[], go.Figure] | None = None,
) -> None:
    """Draw one chart.

    alt : what the chart is about, for those who cannot see it; what it shows now is added.
    status : what the curves depend on: settings only; else what may be published of them, all or some.
    to_download : the same figure with more exact numbers, made when its numbers are asked for; None for these.
    """
    if status == "private if known beforehand":
        say_condition(figure)
    head = st.container(horizontal=True, vertical_alignment="center", gap="small")
    head.subheader(heading, anchor=False, width="stretch")
    with head:
        if status != "settings":
            explain.privacy_badge(status)
        download(
            f"the chart “{heading}”", partial(_csv, to_download or (lambda: figure)), f"dpviz_{key}.csv", f"{key}_csv"
        )
    plain(figure, key, alt)
    st.caption(caption)


def status_of(curves: Iterable[Privacy]) -> Status:
    """Of a chart with these curves; what is private on a condition is not called so beside what is not private."""
    found = set(curves)
    return "partly private" if found == {"private", "not private"} else worst(found)


def download(of: str, made: Callable[[], bytes], file_name: str, key: str) -> None:
    """The numbers of what is shown below a heading as CSV, by a small button beside it. of : what is shown, as text."""
    st.download_button(
        f"CSV *of {markdown.plain(of)}*",  # `appearance` keeps what is oblique for those who hear the page
        made,
        file_name=file_name,
        mime="text/csv",
        key=key,
        type="tertiary",
        icon=":material/download:",
        help=f"The numbers of {of}.",
        on_click="ignore",
    )


def plain(figure: go.Figure, key: str, alt: str) -> None:
    """Only the chart; where its data change, lines move, zoom and menu stay. Its text alternative begins with `alt`,
    what the chart is about, and goes on with what it shows now."""
    components.plot(as_shown(figure), key, f"{alt}. {in_words(figure)}")


def as_shown(figure: go.Figure) -> go.Figure:
    """The figure as this visitor sees it: with a legend in place of labels on a narrow screen, for a dark page, or
    for a lecture hall."""
    if screen.narrow():
        figure = compact(figure)
    if presenting.on():
        figure = enlarged(figure, presenting.FACTOR)
    return on_dark(figure) if theme() == "dark" else figure


def numbers(figure: go.Figure) -> pd.DataFrame:
    """The curves of a figure as a tidy table: curve, x, y; the columns are named after the axes.

    Of heat maps the cells that are known: curve, x, y, value.
    """
    if figure.data and figure.data[0].type == "heatmap":
        return _cells(figure)
    parts = []
    for trace in figure.data:
        if trace.type == "contour":  # the ground on which points are drawn
            continue
        x, y = (np.asarray(values) for values in (trace.x, trace.y))
        if x.ndim and len(x) == len(y) and trace.meta not in (AGAIN, READOUT):
            for name in trace.meta or [_name(trace)]:  # each of the curves that coincide
                parts.append(pd.DataFrame({"curve": name, _title(figure.layout.xaxis, "x"): x, "y": y}))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["curve", "x", "y"])
    return table.rename(columns={"y": _title(figure.layout.yaxis, "y")})


def _axes(figure: go.Figure) -> tuple[Iterable[go.layout.XAxis], Iterable[go.layout.YAxis]]:
    return figure.select_xaxes(), figure.select_yaxes()


def _cells(figure: go.Figure) -> pd.DataFrame:
    titles = (next((axis.title.text for axis in axes if axis.title.text), "") for axes in _axes(figure))
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
    """The name of a curve; the two edges of a band carry the name of their curve."""
    if trace.name or not trace.legendgroup:
        return html.unescape((trace.name or "").replace("<br>", " "))
    return f"{trace.legendgroup}, {'upper' if trace.fill else 'lower'} edge of the band"


def _csv(figure: Callable[[], go.Figure]) -> bytes:
    return as_csv(numbers(figure())).encode()


def _title(axis: go.layout.XAxis | go.layout.YAxis, otherwise: str) -> str:
    return axis.title.text or otherwise
