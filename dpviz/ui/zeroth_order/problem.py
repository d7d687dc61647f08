"""The choice of a function of which only values can be computed: simulated, or a model on a table."""

from collections.abc import Mapping

from dpviz.datasets import BundledTable, DatasetSpecification, SphereLinear, UniformLinear, UniformLogistic
from dpviz.families.zeroth_order import texts
from dpviz.problems.values import black_box
from dpviz.ui.experiment.problem_menu import (
    ANY,
    UPLOAD,
    Menu,
    ProblemEntry,
    ProblemMenu,
    Source,
    generators,
    setting_names,
)
from dpviz.ui.uploads import table

# The short names are part of the address.
SIMULATED: Mapping[str, type[black_box.BlackBox]] = {
    "phase": black_box.PhaseRetrieval,
    "valley": black_box.BentValley,
    "votes": black_box.Votes,
}
GENERATORS: Mapping[str, type[DatasetSpecification]] = {
    "sphere": SphereLinear,
    "linear": UniformLinear,
    "uniform": UniformLogistic,
    "bundled": BundledTable,
}
MODELS: Mapping[str, type[black_box.TableModel]] = {
    "capped": black_box.CappedRegression,
    "network": black_box.ReluNetwork,
}
MODEL_TITLES = {"capped": "Robust regression", "network": "Neural network"}
CONSTANTS = tuple(setting_names(black_box.BlackBox))  # settings that all functions share
ROWS = tuple(setting_names(black_box.TableModel, CONSTANTS))  # further settings that all models on tables share
EXPANDER = "Function and constants"


def _simulated(name: str, cls: type[black_box.BlackBox]) -> ProblemEntry:
    """Return the entry of a simulated function in the menu: its own settings first, the shared ones in the expander."""
    first = setting_names(cls, CONSTANTS)  # without the shared ones
    return ProblemEntry(cls, prefix=f"{name}_", shared=CONSTANTS, first=first, groups={EXPANDER: CONSTANTS})


def _model(cls: type[black_box.TableModel]) -> ProblemEntry:
    """Return the entry of a model on a table in the menu, with all its settings in the expander."""
    return ProblemEntry(cls, groups={EXPANDER: (*setting_names(cls, (*CONSTANTS, *ROWS)), *ROWS, *CONSTANTS)})


MENU = ProblemMenu(
    problems={name: _simulated(name, cls) for name, cls in SIMULATED.items()}
    | {name: _model(cls) for name, cls in MODELS.items()},
    menu=Menu("model", "Model", MODEL_TITLES, default="capped", help=texts.MODEL_HELP),
    sources={
        ANY: {name: Source(cls.title) for name, cls in SIMULATED.items()}
        | generators(GENERATORS)
        | {UPLOAD: Source("Your own file", upload=table.uploaded)}
    },
    label="Function",
    help="Whose values are asked for. Your own file stays on this server.",
    expanders=(EXPANDER,),
)
