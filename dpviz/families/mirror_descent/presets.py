"""Methods by name, and experiments. The paper has no figures; numbers: THEORY.md, section 6."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpviz.experiments import preset
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.mirror_descent.methods.baselines import TunedReference
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games import marginals, quadratic_games
from dpviz.problems.games.group_loss import LossMatrix
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.sweeps.sweep import Sweep

_SAMPLING = ("Vertex sampling", "Single pass", "As in the paper", "Fresh draws")
CERTIFIED = "Vertex sampling, certified"
_GRADIENTS, _RESPONSES = ("DP-SGDA", "Gaussian mirror descent"), ("Two draws", "Fictitious play")
METHODS: Mapping[str, AnyAlgorithm] = preset.methods(__package__)
SYNTHETIC = ("Synthetic histogram", "Synthetic rows", "MWEM", "Gaussian marginals")
_GAMES = (*_SAMPLING, "Bias-reduced", *_GRADIENTS, *_RESPONSES)
REFERENCE = "Without privacy, tuned"
BY_NAME = ("batching", "accounting", "output", "release")


def offered(problem: type[ProblemSpecification]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of the methods for a kind of problem, and of those selected at first."""
    if issubclass(problem, marginals.MarginalQueries):
        return SYNTHETIC, SYNTHETIC
    if issubclass(problem, SparseRegression | Portfolio | PolytopeRegression):
        minimisers = (*_SAMPLING, "Anytime", "Frank-Wolfe", *_GRADIENTS, *_RESPONSES)
        return minimisers, ("Vertex sampling", "Anytime", "Frank-Wolfe")
    matrix = ("Noisy matrix",) if issubclass(problem, MatrixGame | LossMatrix) else ()
    certified = (CERTIFIED,) if issubclass(problem, MatrixGame | quadratic_games.QuadraticGame | LossMatrix) else ()
    return (*_GAMES, *matrix, *certified), ("Vertex sampling", *_GRADIENTS, "Two draws")


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Return an arm for each method named by `labels`; `settings` apply to all methods that have such a field.

    references : adds the reference without privacy, tuned on the data; it needs none of the settings.
    """
    synthetic = any(label in SYNTHETIC for label in labels)
    tuned = TunedReference(rounds=1024) if synthetic else TunedReference()  # noisy tables come close at large ε
    private = {label: METHODS[label].adopting(settings) for label in labels}
    return preset.arms(private, {REFERENCE: tuned} if references else {})


def page_defaults() -> dict[str, Any]:
    """Return the page's first values of the settings that methods share: those of the first method that has each."""
    defaults: dict[str, Any] = {}
    for method in METHODS.values():
        for control in type(method).controls():
            defaults.setdefault(control.name, control.default)
    return {name: value for name, value in defaults.items() if name not in BY_NAME}


def dimension_sweep(base: Experiment, dimensions: Sequence[int], data_sets: int = 1) -> Sweep:
    """Return the sweep of an experiment over the number of strategies, n and the budget fixed: the family's headline.

    base : an experiment on generated data with a seed. data_sets : number of data sets, with seeds from that of `base`
    on.
    """
    first = base.problem.data.seed  # type: ignore[attr-defined]  # a problem whose strategies can be counted
    return Sweep(
        experiment=base,
        fields=("problem.data.strategies_x", "problem.data.strategies_y"),
        values=tuple(float(d) for d in dimensions),
        metric="duality_gap",
        data_seed="problem.data.seed",
        data_seeds=tuple((first + k) % 2**31 for k in range(data_sets)),
    )


PRESETS: tuple[preset.Preset, ...] = preset.load(__package__)
