"""Buttons that download data, figures and programs. A file is made when its button is pressed."""

from collections.abc import Callable, Collection, Mapping, Sequence
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
    """Draw buttons for an experiment as a program, as a notebook, and as settings for the shell.

    These files hold no data and no secret seed. page : prefix of the page.
    """
    _button(
        "Python script",
        partial(export.to_script, experiment, page),
        export.file_name(page, experiment, "py"),
        f"{page}_script",
        "Prints the same table with the same seed, without a browser.",
    )
    _button(
        "Notebook",
        partial(export.to_notebook, experiment),
        export.file_name(page, experiment, "ipynb"),
        f"{page}_notebook",
        "For Jupyter: the same, cell by cell.",
    )
    _button(
        "Settings (JSON)",
        partial(export.to_settings, experiment),
        export.file_name(page, experiment, "json"),
        f"{page}_settings",
        "For `python -m dpviz run`, `sweep` or `plan` in the shell.",
    )


def analyses(
    page: str, plan: Analyses, notebook: Callable[[], str], report: Callable[[], str], program: Callable[[], str]
) -> None:
    """Draw buttons for the plan of several analyses: a report to print, a notebook that computes it again, and a
    program that releases it.

    notebook, report, program : return the text of these files.
    """
    name = f"dpviz_{page}_{plan.content_hash()[:8]}"
    with st.container(horizontal=True):
        _button(
            "Report to print (HTML)", report, f"{name}.html", f"{page}_report", "In plain words, for those who decide."
        )
        _button("Notebook", notebook, f"{name}.ipynb", f"{page}_notebook", "For Jupyter: computes these numbers again.")
        _button(
            "OpenDP program",
            program,
            f"{name}.py",
            f"{page}_opendp",
            "Releases it: `uv run` this file with your table. It needs no dpviz.",
        )


def pins(page: str, selected: Sequence[Pin]) -> None:
    """Draw a button for the pins of a page as a file: settings with names, without data and results."""
    _button(
        "Pins (JSON)",
        partial(to_file, selected),
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
    """Draw buttons for the results of a run: the values as CSV, and the charts as a page.

    trace : the part of the results that may be shown. delta : at which ε is read. charts : returns the charts that the
    page shows.
    """
    promise = f"{experiment.promise}. {trace.time_note}".rstrip()
    _button(
        "Data (CSV)",
        partial(export.to_csv, trace, experiment, plans, delta),
        export.file_name(page, experiment, "csv"),
        f"{page}_csv",
        "Every value that is shown; what reads raw data ends in _nonprivate.",
    )
    _button(
        "Figures (HTML)",
        lambda: to_html(charts(), f"{experiment.to_json()}\n\nGuarantee: {promise}"),
        export.file_name(page, experiment, "html"),
        f"{page}_html",
        "All charts of this page in one file. For a PNG, use the camera in a chart's own menu.",
    )


def sweep(page: str, settings: Sweep, result: SweepResult) -> None:
    """Draw a button for the numbers of a sweep as CSV. result : the part of the results that may be shown."""
    _button(
        "Sweep (CSV)",
        partial(export.sweep_to_csv, result, settings),
        f"dpviz_{page}_sweep_{settings.content_hash()[:8]}.csv",
        f"{page}_sweep_csv",
        "One row for every method, value, data set and run; what reads raw data ends in _nonprivate.",
    )


def figures(
    panel: Panel, charts: Callable[[], Sequence[Chart]], facts_read: Collection[str] = (), settings: str = ""
) -> None:
    """Draw a button for the charts of a page, with the settings that they are of.

    charts : returns the charts that the page shows. facts_read : names of the settings that were read from the data.
    settings : "" for the address that restores the settings that the page has now.
    """
    settings = settings or address(panel)
    if facts_read:
        settings += f"\n\nNot private: read from the data: {'; '.join(facts_read)}."
    _button(
        "Figures (HTML)",
        lambda: to_html(charts(), settings),
        f"dpviz_{panel.page}.html",
        panel.key("html"),
        "The charts that are open now, in one file. For a PNG, use the camera in a chart's own menu.",
    )


def _button(label: str, make: Callable[[], str], file_name: str, key: str, help: str) -> None:
    """Draw a button that downloads a text, which `make` returns when it is pressed."""
    mime, icon = _KINDS[file_name.rpartition(".")[2]]
    st.download_button(
        label, lambda: make().encode(), file_name=file_name, mime=mime, key=key, icon=icon, help=help, on_click="ignore"
    )
