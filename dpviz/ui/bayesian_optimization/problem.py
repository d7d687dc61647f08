"""The choice of the tuned model and its data."""

from collections.abc import Mapping

from dpviz.datasets import BundledTable, DatasetSpecification, UniformLinear, UniformLogistic
from dpviz.families.bayesian_optimization import texts
from dpviz.problems.tuning.model_tuning import HuberRegression, KernelMachine, LengthScales, NormalLocation
from dpviz.problems.tuning.tuning import TuningSpecification
from dpviz.ui.experiment.problem_menu import UPLOAD, Menu, ProblemEntry, ProblemMenu, Source, generators, setting_names
from dpviz.ui.uploads import table

# The short names are part of the address.
MODELS: Mapping[str, type[TuningSpecification]] = {
    "scales": LengthScales,
    "machine": KernelMachine,
    "location": NormalLocation,
    "huber": HuberRegression,
}
DRAWN = "drawn"  # name of the source with the default data of a model, which are generated for it
GENERATORS: Mapping[str, type[DatasetSpecification]] = {
    "linear": UniformLinear,
    "uniform": UniformLogistic,
    "bundled": BundledTable,
}
# Names of the settings of noise in the evaluated losses.
NOISY = tuple(control.name for control in TuningSpecification.controls() if control.name.startswith("observation"))


def drawn_for(model: str) -> type[DatasetSpecification]:
    """Return the class that generates the default data of a model. model : its name in MODELS."""
    return type(MODELS[model].model_fields["data"].default)


def _tuned(name: str, cls: type[TuningSpecification]) -> ProblemEntry:
    """Return the entry of a model in the menu: its settings in one expander, those of noisy evaluations in another."""
    groups = {"Model and users": setting_names(cls, NOISY), "Noisy evaluations": NOISY}
    return ProblemEntry(cls, prefix=f"{name}_", shared=NOISY, groups=groups)


MENU = ProblemMenu(
    problems={name: _tuned(name, cls) for name, cls in MODELS.items()},
    menu=Menu("model", "What is tuned", {name: cls.title for name, cls in MODELS.items()}, "scales", texts.MODEL_HELP),
    sources={
        name: {DRAWN: Source("Drawn for it", drawn_for(name), prefix=f"{name}_{DRAWN}_")}
        | generators(GENERATORS)
        | {UPLOAD: Source("Your own file", upload=table.uploaded_with_users)}
        for name in MODELS
    },
    label="Data",
    help="Part of the users train the model, the others judge it. Your own file stays on this server.",
    expanders=("Model and users", "Noisy evaluations", ""),
)
