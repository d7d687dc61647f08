"""What one run of every method releases, in words and as a table to take away; reads no raw data."""

from collections.abc import Mapping
from functools import partial

import pandas as pd
import streamlit as st

from dpviz.experiments.plan import worst
from dpviz.exports.spreadsheets import as_csv
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment.run import Run
from dpviz.ui.tables import show_table

COMPOSES = "Publishing several methods or runs adds up their costs."


def show(
    panel: Panel,
    run: Run,
    words: Mapping[str, str],
    model: pd.DataFrame,
    meaning: str,
    weights: pd.DataFrame | None = None,
    digits: str = "%.3f",
) -> None:
    """The models of the first run of each private method.

    words : a sentence for each method, as Markdown. model : a row for each coefficient, a column for each method, and
    more that says what a row is; meaning : how to read it. weights : the same of the other player, if there is one.
    digits : how numbers are shown; the file has all of them.
    """
    about, guarantee = f"First run of each method. {meaning}", run.experiment.promise
    head = st.container(horizontal=True, vertical_alignment="center", gap="small")
    head.subheader("What one run releases", anchor=False, width="stretch")
    with head:
        explain.privacy_badge(worst(run.plans[label].privacy for label in words))
        charts.download(
            "the released model of each method",
            partial(_csv, model, f"{about} Guarantee: {guarantee}. {COMPOSES}"),
            f"dpviz_{panel.page}_model.csv",
            panel.key("model_csv"),
        )
    st.markdown("\n".join(f"- **{label}**: {sentence}" for label, sentence in words.items()))
    numbers = {label: st.column_config.NumberColumn(format=digits) for label in words}
    show_table(model, column_config=numbers, alt="Released coefficients, one column per method")
    if weights is not None:
        show_table(weights, column_config=numbers, alt="Released weights of the groups")
    st.caption(f"{about} {explain.released(run.experiment, 1)} {COMPOSES}")


def _csv(model: pd.DataFrame, header: str) -> bytes:
    return as_csv(model, [header]).encode()
