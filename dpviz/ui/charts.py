"""A chart with all that belongs to it: heading, privacy badge, numbers as CSV, text alternative, caption."""

import html
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from dpviz.plots.style import PLOT_CONFIG
from dpviz.ui import explain

Status = Literal["settings", "private", "not private"]


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

    alt : the takeaway in under 120 characters, for those who cannot see it.
    status : what the curves depend on: settings only, released values, or the raw data.
    to_download : the same figure with more exact numbers, made when its numbers are asked for; None for these.
    """
    head = st.container(horizontal=True, vertical_alignment="center", gap="small")
    head.subheader(heading, anchor=False, width="stretch")
    with head:
        if status == "private":
            explain.private_badge()
        elif status == "not private":
            explain.diagnostic_badge()
        st.download_button(
            "CSV",
            partial(_csv, to_download or (lambda: figure)),
            file_name=f"dpviz_{key}.csv",
            mime="text/csv",
            key=f"{key}_csv",
            type="tertiary",
            icon=":material/download:",
            help=f"The numbers of the chart “{heading}”.",
            on_click="ignore",
        )
    plain(figure, key, alt)
    st.caption(caption)


def plain(figure: go.Figure, key: str, alt: str) -> None:
    """Only the chart, with its text alternative."""
    st.plotly_chart(figure, key=key, alt=alt, config=PLOT_CONFIG)


def numbers(figure: go.Figure) -> pd.DataFrame:
    """The curves of a figure as a tidy table: curve, x, y; the columns are named after the axes."""
    parts = []
    for trace in figure.data:
        x, y = (np.asarray(values) for values in (trace.x, trace.y))
        if x.ndim and len(x) == len(y):
            parts.append(pd.DataFrame({"curve": _name(trace), _title(figure.layout.xaxis, "x"): x, "y": y}))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["curve", "x", "y"])
    return table.rename(columns={"y": _title(figure.layout.yaxis, "y")})


def _name(trace: go.Scatter) -> str:
    """The name of a curve; the two edges of a band carry the name of their curve."""
    if trace.name or not trace.legendgroup:
        return html.unescape((trace.name or "").replace("<br>", " "))
    return f"{trace.legendgroup}, {'upper' if trace.fill else 'lower'} edge of the band"


def _csv(figure: Callable[[], go.Figure]) -> bytes:
    return numbers(figure()).to_csv(index=False).encode()


def _title(axis: go.layout.XAxis | go.layout.YAxis, otherwise: str) -> str:
    return axis.title.text or otherwise
