"""The family's methods by label, those offered for each kind of problem, and its presets.

The paper has no figures that presets could reproduce; THEORY.md, section 6, has the numbers that ours were made for.
"""

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

METHODS: Mapping[str, AnyAlgorithm] = preset.methods(__package__)
# Labels of methods.
_SAMPLING = ("Vertex sampling", "Single pass", "As in the paper", "Fresh draws")
CERTIFIED = "Vertex sampling, certified"
_GRADIENTS, _RESPONSES = ("DP-SGDA", "Gaussian mirror descent"), ("Two draws", "Fictitious play")
SYNTHETIC = ("Synthetic histogram", "Synthetic rows", "MWEM", "Gaussian marginals")
_GAMES = (*_SAMPLING, "Bias-reduced", *_GRADIENTS, *_RESPONSES)
REFERENCE = "Without privacy, tuned"
# Settings whose value follows from a method's label, unless it is set.
BY_NAME = ("batching", "accounting", "output", "release")


def offered(problem: type[ProblemSpecification]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of the methods that are offered for a kind of problem, and of those selected at first."""
    if issubclass(problem, marginals.MarginalQueries):
        return SYNTHETIC, SYNTHETIC
    if issubclass(problem, SparseRegression | Portfolio | PolytopeRegression):
        minimisers = (*_SAMPLING, "Anytime", "Frank-Wolfe", *_GRADIENTS, *_RESPONSES)
        return minimisers, ("Vertex sampling", "Anytime", "Frank-Wolfe")
    matrix = ("Noisy matrix",) if issubclass(problem, MatrixGame | LossMatrix) else ()
    certified = (CERTIFIED,) if issubclass(problem, MatrixGame | quadratic_games.QuadraticGame | LossMatrix) else ()
    return (*_GAMES, *matrix, *certified), ("Vertex sampling", *_GRADIENTS, "Two draws")


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Return an arm of an experiment for each of the methods with these labels.

    settings : fields of methods, set in every method that has them. references : True adds the tuned reference without
    privacy, which has none of these settings.
    """
    is_synthetic = any(label in SYNTHETIC for label in labels)
    # At large ε noisy tables come close to the best histogram, so the reference needs more rounds to stay below.
    tuned = TunedReference(rounds=1024) if is_synthetic else TunedReference()
    private = {label: METHODS[label].adopting(settings) for label in labels}
    return preset.arms(private, {REFERENCE: tuned} if references else {})


def dimension_sweep(base: Experiment, dimensions: Sequence[int], data_sets: int = 1) -> Sweep:
    """Return the sweep of an experiment over the number of strategies of each player, with rows and budget fixed.

    It shows the main claim of the family: the gap hardly grows with the number of strategies. base : an experiment on
    generated data with a seed. data_sets : number of data sets; their seeds are that of `base` and the next ones.
    """
    first_seed = base.problem.data.seed  # type: ignore[attr-defined]  # a problem whose strategies can be counted
    return Sweep(
        experiment=base,
        fields=("problem.data.strategies_x", "problem.data.strategies_y"),
        values=tuple(float(d) for d in dimensions),  # a sweep's values are floats
        metric="duality_gap",
        data_seed="problem.data.seed",
        data_seeds=tuple((first_seed + k) % 2**31 for k in range(data_sets)),  # seeds end at 2^31 - 1
    )


PRESETS: tuple[preset.Preset, ...] = preset.load(__package__)
