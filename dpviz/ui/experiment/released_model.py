"""The model that one run of every method releases, in sentences and as a table to download; reads no raw data."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.datasets.base import DatasetFacts
from dpviz.datasets.groups import GroupedFacts
from dpviz.experiments.plan import weakest_privacy
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.exports.spreadsheets import as_csv
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import texts
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import escape_name, show_table

CONSTANT = "(constant)"  # name of the constant term in the column of coefficients
NAMED = 3  # largest number of coefficients that a sentence names


def private_traces(trace: Trace) -> dict[str, ArmTrace]:
    """Return the traces of the private methods that have released something, by label."""
    return {label: arm_trace for label, arm_trace in trace.arm_traces.items() if arm_trace.private and arm_trace.output}


def coefficients(facts: DatasetFacts | GroupedFacts, constant: bool = False) -> pd.DataFrame:
    """Return a table with a row for each coefficient: the column that it multiplies, and the column's declared range.

    constant : true to append a row for the constant term, which multiplies no column.
    """
    low, high = np.array(facts.bounds).T
    table = pd.DataFrame({"column": facts.names, "lowest": low, "highest": high})
    if constant:
        table.loc[len(table)] = [CONSTANT, np.nan, np.nan]
    return table


def heaviest(x: np.ndarray, names: Sequence[str]) -> str:
    """Return text with the NAMED coefficients of x (d,) that are largest in absolute value, and their names (d,)."""
    largest = np.argsort(-np.abs(x), kind="stable")[:NAMED]
    return ", ".join(f"{escape_name(names[j])} {x[j]:+.3g}" for j in largest)


def show(
    panel: Panel,
    run: Run,
    sentences: Mapping[str, str],
    model: pd.DataFrame,
    meaning: str,
    weights: pd.DataFrame | None = None,
    digits: str = "%.3f",
) -> None:
    """Draw the models that the first run of each private method releases, and a button that saves them as a file.

    sentences : one about the model of each method, in Markdown, by label. model : the table of the coefficients, with a
    row for each, a column for each method, and columns that describe the coefficient. meaning : a sentence on how to
    read it. weights : in a game, the table of the other player's weights, with the same columns of methods.
    digits : format of the numbers on the screen; the file has all digits.
    """
    about, guarantee = f"First run of each method. {meaning}", run.experiment.promise
    note = run.job.trace.time_note if run.job.trace is not None else ""
    with explain.heading("What one run releases"):
        explain.privacy_badge(weakest_privacy(run.plans[label].privacy for label in sentences))
        charts.download(
            "the released model of each method",
            partial(_csv, model, f"{about} Guarantee: {guarantee}. {note} {texts.COMPOSES}"),
            f"dpviz_{panel.page}_model.csv",
            panel.key("model_csv"),
        )
    st.markdown("\n".join(f"- **{label}**: {sentence}" for label, sentence in sentences.items()))
    columns = {label: st.column_config.NumberColumn(format=digits) for label in sentences}
    show_table(model, column_config=columns, alt="Released coefficients, one column per method")
    if weights is not None:
        show_table(weights, column_config=columns, alt="Released weights of the groups")
    st.caption(f"{about} {explain.release_sentence(run.experiment, 1)} {texts.COMPOSES}")


def _csv(model: pd.DataFrame, header: str) -> bytes:
    return as_csv(model, [header]).encode()
