"""Choosing what is tuned, and on whose data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dpviz.datasets import BundledTable, DatasetSpecification, UniformLinear, UniformLogistic
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.tuning.direct_tuning import HuberRegression, NormalLocation
from dpviz.problems.tuning.model_tuning import KernelMachine, LengthScales
from dpviz.problems.tuning.tuning import TuningSpecification
from dpviz.ui.controls import Panel, Settings, in_place
from dpviz.ui.experiment.controls import fields_of
from dpviz.ui.uploads import table, users

# The short names are part of the address.
MODELS: Mapping[str, type[TuningSpecification]] = {
    "scales": LengthScales,
    "machine": KernelMachine,
    "location": NormalLocation,
    "huber": HuberRegression,
}
DRAWN = "drawn"
GENERATORS: Mapping[str, type[DatasetSpecification]] = {
    "linear": UniformLinear,
    "uniform": UniformLogistic,
    "bundled": BundledTable,
}
SOURCES = {
    DRAWN: "Drawn for it",
    **{name: cls.title for name, cls in GENERATORS.items()},
    table.UPLOAD: "Your own file",
}
NOISY = tuple(control.name for control in TuningSpecification.controls() if control.name.startswith("observation"))
MODEL_HELP = (
    "Length-scales and kernel machines are trained once for every setting that is tried. Location and robust "
    "regression need no training: there the gradients are known, and DP-GIBO can be compared with who uses them."
)
DATA_HELP = "Part of the users train the model, the others judge it. Your own file stays on this server."


@dataclass(frozen=True)
class Tuned:
    """What the data controls chose: a model, and settings of a generator or an upload, None until it is ready."""

    model: str
    source: str
    settings: Settings[DatasetSpecification] | None = None
    upload: DatasetSpecification | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    leads = False  # the bias level leads

    @property
    def uploaded(self) -> bool:
        """Whether the data are the visitor's own file."""
        return self.source == table.UPLOAD


def drawn_for(model: str) -> type[DatasetSpecification]:
    """The generator of the data that a model comes with."""
    return type(MODELS[model].model_fields["data"].default)


def data(panel: Panel, main: DeltaGenerator, _lead: DeltaGenerator) -> Tuned:
    """Choose model and data; the panel for an upload is drawn in `main`. None of the controls leads."""
    titles = {name: cls.title for name, cls in MODELS.items()}
    model = panel.choice("model", "What is tuned", titles, "scales", MODEL_HELP)
    source = panel.choice("data", "Data", SOURCES, DRAWN, DATA_HELP)
    if source == table.UPLOAD:
        with main, st.expander("Your data", expanded=True, icon=":material/upload_file:"):
            upload, tables = users.uploaded(panel.page)
        return Tuned(model, source, upload=upload, tables=tables)
    cls = drawn_for(model) if source == DRAWN else GENERATORS[source]
    prefix = f"{model}_{DRAWN}_" if source == DRAWN else f"{source}_"
    with st.expander("Data settings"):
        names = [control.name for control in cls.controls()]
        return Tuned(model, source, Settings(cls, panel.specification(cls, names, prefix=prefix)))


def problem(panel: Panel, chosen: Tuned, _budget: Settings[Budget], _seed: int | None) -> ProblemSpecification | None:
    """The problem and, in expanders, its controls; None if there are no data yet.

    The last of the controls that make an experiment: raises UserError for any mistake in them.
    """
    cls = MODELS[chosen.model]
    own = [control.name for control in cls.controls() if control.name not in NOISY]
    with st.expander("Model and users"):
        values = panel.specification(cls, own, prefix=f"{chosen.model}_")
    with st.expander("Noisy evaluations"):
        values |= panel.specification(cls, NOISY)
    panel.check()
    dataset = chosen.upload if chosen.settings is None else chosen.settings.build()
    if dataset is None:
        return None
    with in_place(go_on=False):
        return Settings(cls, {**values, "data": dataset}).build()


def settings_of(problem: ProblemSpecification) -> dict[str, Any]:
    """The controls that rebuild a problem: the inverse of `data` and `problem`.

    Raises ValueError for a problem that the page cannot express, such as one on an uploaded table.
    """
    model = next((name for name, cls in MODELS.items() if type(problem) is cls), None)
    if model is None or not isinstance(problem, TuningSpecification):
        raise ValueError(f"the page has no controls for {problem.kind}")
    values = fields_of(problem)
    noisy = {name: values.pop(name) for name in NOISY}
    found = {"model": model, **noisy, **{f"{model}_{name}": value for name, value in values.items()}}
    generated: DatasetSpecification = problem.data  # type: ignore[attr-defined]
    if type(generated) is drawn_for(model):
        return found | {"data": DRAWN, **fields_of(generated, f"{model}_{DRAWN}_")}
    for source, cls in GENERATORS.items():
        if type(generated) is cls:
            return found | {"data": source, **fields_of(generated, f"{source}_")}
    raise ValueError(f"the page has no controls for {generated.kind}")
