"""Taking results away: data, figures, a program, and a link that restores the page."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from urllib.parse import urlencode

import plotly.graph_objects as go
import streamlit as st

from dpviz.experiments import export
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.sweep import Sweep
from dpviz.experiments.sweep_result import SweepResult
from dpviz.experiments.trace import Trace
from dpviz.plots.html import to_html
from dpviz.ui.controls import Panel


def script(page: str, experiment: Experiment) -> None:
    """A program that runs the experiment without the dashboard."""
    st.download_button(
        "Python script",
        partial(_script, experiment, page),
        file_name=export.file_name(page, experiment, "py"),
        mime="text/x-python",
        key=f"{page}_script",
        icon=":material/code:",
        help="Runs these settings with the same seed and prints the same table, without a browser.",
        on_click="ignore",
    )


def settings(page: str, experiment: Experiment) -> None:
    """The experiment as the commands of the shell take it; it holds no data, and no seed of anybody's own."""
    st.download_button(
        "Settings (JSON)",
        partial(_settings, experiment),
        file_name=export.file_name(page, experiment, "json"),
        mime="application/json",
        key=f"{page}_settings",
        icon=":material/terminal:",
        help="For the shell: `python -m dpviz run`, `sweep` or `plan` and the name of this file.",
        on_click="ignore",
    )


def run_files(
    page: str,
    experiment: Experiment,
    plans: Mapping[str, Plan],
    trace: Trace,
    delta: float,
    figures: Callable[[], Sequence[tuple[str, go.Figure, str]]],
) -> None:
    """What may be shown: its values as CSV, ε read at `delta`, and the figures (heading, figure, caption) as a page."""
    st.download_button(
        "Data (CSV)",
        partial(_csv, trace, experiment, plans, delta),
        file_name=export.file_name(page, experiment, "csv"),
        mime="text/csv",
        key=f"{page}_csv",
        icon=":material/table:",
        help="Every value that is shown; what reads raw data ends in _nonprivate.",
        on_click="ignore",
    )
    st.download_button(
        "Figures (HTML)",
        partial(_html, figures, experiment),
        file_name=export.file_name(page, experiment, "html"),
        mime="text/html",
        key=f"{page}_html",
        icon=":material/insert_chart:",
        help="All charts of this page in one file. For a PNG, use the camera in a chart's own menu.",
        on_click="ignore",
    )


def sweep(page: str, sweep: Sweep, result: SweepResult) -> None:
    """Every number of a sweep that may be shown, as CSV."""
    st.download_button(
        "Sweep (CSV)",
        partial(_sweep, sweep, result),
        file_name=f"dpviz_{page}_sweep_{sweep.content_hash()[:8]}.csv",
        mime="text/csv",
        key=f"{page}_sweep_csv",
        icon=":material/table:",
        help="One row for every method, value, data set and run; what reads raw data ends in _nonprivate.",
        on_click="ignore",
    )


def figures(panel: Panel, drawn: Callable[[], Sequence[tuple[str, go.Figure, str]]]) -> None:
    """The figures of a page without a run as a page of their own, with the address that restores the settings."""
    st.download_button(
        "Figures (HTML)",
        partial(_figures, drawn, address(panel)),
        file_name=f"dpviz_{panel.page}.html",
        mime="text/html",
        key=panel.key("html"),
        icon=":material/insert_chart:",
        help="The charts that are open now, in one file. For a PNG, use the camera in a chart's own menu.",
        on_click="ignore",
    )


def link(panel: Panel) -> None:
    """The address that restores the controls, to copy."""
    with st.popover("Copy link", icon=":material/link:", key=panel.key("link")):
        st.markdown("This link restores every control of this page. It holds settings only, never data.")
        st.code(address(panel), language=None, wrap_lines=True)


def address(panel: Panel) -> str:
    """The page's address with all settings that are not the default."""
    base = (st.context.url or "").split("?")[0].split("#")[0]
    return base + ("?" + urlencode(panel.query, doseq=True) if panel.query else "")


def _figures(drawn: Callable[[], Sequence[tuple[str, go.Figure, str]]], settings: str) -> bytes:
    return to_html(drawn(), settings, title="dpviz").encode()


def _script(experiment: Experiment, page: str) -> bytes:
    return export.to_script(experiment, page).encode()


def _settings(experiment: Experiment) -> bytes:
    return export.to_settings(experiment).encode()


def _csv(trace: Trace, experiment: Experiment, plans: Mapping[str, Plan], delta: float) -> bytes:
    return export.to_csv(trace, experiment, plans, delta).encode()


def _sweep(sweep: Sweep, result: SweepResult) -> bytes:
    return export.sweep_to_csv(result, sweep).encode()


def _html(figures: Callable[[], Sequence[tuple[str, go.Figure, str]]], experiment: Experiment) -> bytes:
    return to_html(figures(), experiment.to_json(), title="dpviz").encode()
