"""Choosing a function that may only be asked for values: simulated, or a model on a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import BundledTable, DatasetSpecification, SphereLinear, UniformLinear, UniformLogistic
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.values.black_box import (
    BentValley,
    BlackBox,
    CappedRegression,
    PhaseRetrieval,
    ReluNetwork,
    TableModel,
    Votes,
)
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment.controls import fields_of
from dpviz.ui.uploads import table as data_panel

# The short names are part of the address.
SIMULATED: Mapping[str, type[BlackBox]] = {"phase": PhaseRetrieval, "valley": BentValley, "votes": Votes}
GENERATORS: Mapping[str, type[DatasetSpecification]] = {
    "sphere": SphereLinear,
    "linear": UniformLinear,
    "uniform": UniformLogistic,
    "bundled": BundledTable,
}
SOURCES = {
    **{name: cls.title for name, cls in SIMULATED.items()},
    **{name: cls.title for name, cls in GENERATORS.items()},
    data_panel.UPLOAD: "Your own file",
}
MODELS: Mapping[str, type[TableModel]] = {"capped": CappedRegression, "network": ReluNetwork}
MODEL_TITLES = {"capped": "Robust regression", "network": "Neural network"}
CONSTANTS = tuple(control.name for control in BlackBox.controls())
ROWS = tuple(control.name for control in TableModel.controls() if control.name not in CONSTANTS)


@dataclass(frozen=True)
class Function:
    """What the data controls chose: settings of a simulated function, or of a generator; or an upload, None until it is
    ready."""

    source: str
    own: Mapping[str, Any] = field(default_factory=dict)
    upload: DatasetSpecification | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    leads = False  # the steps lead

    @property
    def uploaded(self) -> bool:
        """Whether the data are the visitor's own file."""
        return self.source == data_panel.UPLOAD


def data(panel: Panel, main: DeltaGenerator, _lead: DeltaGenerator) -> Function:
    """Choose the function or its data; the panel for an upload is drawn in `main`. None of the controls leads."""
    source = panel.choice(
        "data", "Function", SOURCES, "phase", "Whose values are asked for. Your own file stays on this server."
    )
    if source == data_panel.UPLOAD:
        with main, st.expander("Your data", expanded=True, icon=":material/upload_file:"):
            upload, tables = data_panel.uploaded(panel.page)
        return Function(source, upload=upload, tables=tables)
    cls = SIMULATED.get(source) or GENERATORS[source]
    names = [control.name for control in cls.controls() if control.name not in CONSTANTS]
    with st.expander("Data settings"):
        return Function(source, panel.specification(cls, names, prefix=f"{source}_"))


def model(panel: Panel, chosen: Function, _budget: Settings[Budget], _seed: int | None) -> ProblemSpecification | None:
    """The problem and, in an expander, its controls; None if there are no data yet.

    The last of the controls that make an experiment: raises UserError for any mistake in them.
    """
    with st.expander("Function and constants"):
        values: dict[str, Any] = {}
        cls: type[BlackBox]
        if chosen.source in SIMULATED:
            cls, values = SIMULATED[chosen.source], dict(chosen.own)
        else:
            cls = MODELS[panel.choice("model", "Model", MODEL_TITLES, "capped", MODEL_HELP)]
            own = [control.name for control in cls.controls() if control.name not in (*CONSTANTS, *ROWS)]
            values = panel.specification(cls, own) | panel.specification(cls, ROWS)
        values |= panel.specification(cls, CONSTANTS)
        panel.check()
        with in_place(go_on=False):
            if chosen.source not in SIMULATED:
                generator = GENERATORS.get(chosen.source)
                dataset = chosen.upload if generator is None else Settings(generator, chosen.own).build()
                if dataset is None:
                    return None
                values["data"] = dataset
            return Settings(cls, values).build()


MODEL_HELP = "Robust regression: an error counts up to a cap. Neural network: one hidden layer, only values are used."


def settings_of(problem: ProblemSpecification) -> dict[str, Any]:
    """The controls that rebuild a problem: the inverse of `data` and `model`.

    Raises ValueError for a problem that the page cannot express, such as one on an uploaded table.
    """
    if not isinstance(problem, BlackBox):
        raise ValueError(f"the page has no controls for {problem.kind}")
    fields = fields_of(problem)
    shared = {name: fields.pop(name) for name in CONSTANTS}
    for source, cls in SIMULATED.items():
        if type(problem) is cls:
            return {"data": source, **shared, **{f"{source}_{name}": value for name, value in fields.items()}}
    name = next((name for name, cls in MODELS.items() if type(problem) is cls), None)
    if name is not None and isinstance(problem, TableModel):
        for source, generator in GENERATORS.items():
            if type(problem.data) is generator:
                dataset = fields_of(problem.data, f"{source}_")
                return {"data": source, "model": name, **shared, **fields, **dataset}
    raise ValueError(f"the page has no controls for {problem.kind}")
