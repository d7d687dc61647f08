"""Buttons that download data, figures and programs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import streamlit as st

from dpviz.compare.pins import Pin, to_file
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.exports import export
from dpviz.plots.elements.chart import Chart, to_html
from dpviz.privacy.statistics.analyses import Analyses
from dpviz.sweeps.sweep import Sweep
from dpviz.sweeps.sweep_result import SweepResult
from dpviz.ui.controls import Panel
from dpviz.ui.links import address

_KINDS = {  # MIME type and icon of files, by the ending of their name
    "csv": ("text/csv", ":material/table:"),
    "ipynb": ("application/x-ipynb+json", ":material/data_object:"),
    "html": ("text/html", ":material/insert_chart:"),
    "json": ("application/json", ":material/terminal:"),
    "py": ("text/x-python", ":material/code:"),
}


def programs(page: str, experiment: Experiment) -> None:
    """Offer the experiment as a program, a notebook, and settings for the shell; they hold no data and no secret
    seed."""
    script, notebook = partial(export.to_script, experiment, page), partial(export.to_notebook, experiment)
    settings = partial(export.to_settings, experiment)
    for label, make, ending, name, help in (
        ("Python script", script, "py", "script", "Prints the same table with the same seed, without a browser."),
        ("Notebook", notebook, "ipynb", "notebook", "For Jupyter: the same, cell by cell."),
        ("Settings (JSON)", settings, "json", "settings", "For `python -m dpviz run`, `sweep` or `plan` in the shell."),
    ):
        _button(label, make, export.file_name(page, experiment, ending), f"{page}_{name}", help)


def analyses(page: str, plan: Analyses, notebook: Callable[[], str], report: Callable[[], str]) -> None:
    """Offer the plan of several analyses as a report to print, and as a notebook that computes it."""
    name = f"dpviz_{page}_{plan.content_hash()[:8]}"
    with st.container(horizontal=True):
        _button(
            "Report to print (HTML)", report, f"{name}.html", f"{page}_report", "In plain words, for those who decide."
        )
        _button("Notebook", notebook, f"{name}.ipynb", f"{page}_notebook", "For Jupyter: computes these numbers again.")


def pins(page: str, pins: Sequence[Pin]) -> None:
    """Offer the pins of a page: settings with names, without data and results."""
    _button(
        "Pins (JSON)",
        partial(to_file, pins),
        f"dpviz_{page}_pins.json",
        f"{page}_pins_json",
        "The settings of every pin, for another day or another person: load them here again.",
    )


def run_files(
    page: str,
    experiment: Experiment,
    plans: Mapping[str, Plan],
    trace: Trace,
    delta: float,
    *,
    charts: Callable[[], Sequence[Chart]],
) -> None:
    """Offer what may be shown of a run: values as CSV, with ε at `delta`, and the charts as a page."""
    _button(
        "Data (CSV)",
        partial(export.to_csv, trace, experiment, plans, delta),
        export.file_name(page, experiment, "csv"),
        f"{page}_csv",
        "Every value that is shown; what reads raw data ends in _nonprivate.",
    )
    _button(
        "Figures (HTML)",
        lambda: to_html(charts(), f"{experiment.to_json()}\n\nGuarantee: {experiment.promise}.", title="dpviz"),
        export.file_name(page, experiment, "html"),
        f"{page}_html",
        "All charts of this page in one file. For a PNG, use the camera in a chart's own menu.",
    )


def sweep(page: str, sweep: Sweep, result: SweepResult) -> None:
    """Offer every number of a sweep that may be shown, as CSV."""
    _button(
        "Sweep (CSV)",
        partial(export.sweep_to_csv, result, sweep),
        f"dpviz_{page}_sweep_{sweep.content_hash()[:8]}.csv",
        f"{page}_sweep_csv",
        "One row for every method, value, data set and run; what reads raw data ends in _nonprivate.",
    )


def figures(panel: Panel, charts: Callable[[], Sequence[Chart]]) -> None:
    """Offer the charts of a page without a run as a page of their own, with the address that restores the settings."""
    link = address(panel)
    _button(
        "Figures (HTML)",
        lambda: to_html(charts(), link, title="dpviz"),
        f"dpviz_{panel.page}.html",
        panel.key("html"),
        "The charts that are open now, in one file. For a PNG, use the camera in a chart's own menu.",
    )


def _button(label: str, make: Callable[[], str], file_name: str, key: str, help: str) -> None:
    """Draw a button for a file, which `make` returns when it is pressed."""
    mime, icon = _KINDS[file_name.rpartition(".")[2]]
    st.download_button(
        label, lambda: make().encode(), file_name=file_name, mime=mime, key=key, icon=icon, help=help, on_click="ignore"
    )
