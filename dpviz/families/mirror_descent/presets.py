"""The methods by name, and experiments worth a click. The paper has no figures; numbers: THEORY.md, section 6."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.preset import Preset, load
from dpviz.families.mirror_descent.methods.algorithms import SyntheticData, VertexSampling
from dpviz.families.mirror_descent.methods.baselines import GaussianMarginals, MultiplicativeWeights, NoisyPayoffs
from dpviz.families.mirror_descent.methods.best_responses import FictitiousPlay, TwoDraws
from dpviz.families.mirror_descent.methods.bias_reduced import BiasReduced
from dpviz.families.mirror_descent.methods.certified import CertifiedSampling
from dpviz.families.mirror_descent.methods.minimisation import AnytimeSampling, FrankWolfe
from dpviz.families.mirror_descent.methods.noisy_gradients import EuclideanGradient, GaussianMirrorDescent
from dpviz.families.mirror_descent.methods.reference import TunedReference
from dpviz.privacy.budgets import NoPrivacy
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.sweeps.sweep import Sweep

_SAMPLING: dict[str, AnyAlgorithm] = {
    "Vertex sampling": VertexSampling(),
    "Single pass": VertexSampling(batching="single"),
    "As in the paper": VertexSampling(batching="single", accounting="paper"),
    "Fresh draws": VertexSampling(output="fresh"),
}
CERTIFIED = "Vertex sampling, certified"
_GRADIENTS: dict[str, AnyAlgorithm] = {
    "DP-SGDA": EuclideanGradient(),
    "Gaussian mirror descent": GaussianMirrorDescent(),
}
_RESPONSES: dict[str, AnyAlgorithm] = {"Two draws": TwoDraws(), "Fictitious play": FictitiousPlay()}
METHODS: Mapping[str, AnyAlgorithm] = MappingProxyType(
    {
        **_SAMPLING,
        "Bias-reduced": BiasReduced(),
        **_GRADIENTS,
        **_RESPONSES,
        "Noisy matrix": NoisyPayoffs(),
        CERTIFIED: CertifiedSampling(),
        "Anytime": AnytimeSampling(),
        "Frank-Wolfe": FrankWolfe(),
        "Synthetic histogram": SyntheticData(),
        "Synthetic rows": SyntheticData(release="rows"),
        "MWEM": MultiplicativeWeights(),
        "Gaussian marginals": GaussianMarginals(),
    }
)
SYNTHETIC = ("Synthetic histogram", "Synthetic rows", "MWEM", "Gaussian marginals")
_GAMES = (*_SAMPLING, "Bias-reduced", *_GRADIENTS, *_RESPONSES)
REFERENCE = "Without privacy, tuned"
BY_NAME = ("batching", "accounting", "output", "release")


def offered(problem: type[ProblemSpecification]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods that make sense for a kind of problem, and those chosen at first."""
    if issubclass(problem, MarginalQueries):
        return SYNTHETIC, SYNTHETIC
    if issubclass(problem, SparseRegression | Portfolio | PolytopeRegression):
        offered = (*_SAMPLING, "Anytime", "Frank-Wolfe", *_GRADIENTS, *_RESPONSES)
        return offered, ("Vertex sampling", "Anytime", "Frank-Wolfe")
    matrix = ("Noisy matrix",) if issubclass(problem, MatrixGame | LossMatrix) else ()
    certified = (CERTIFIED,) if issubclass(problem, MatrixGame | QuadraticGame | LossMatrix) else ()
    return (*_GAMES, *matrix, *certified), ("Vertex sampling", *_GRADIENTS, "Two draws")


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all that have such a field.

    references : adds the best that is found without privacy, tuned on the data; it needs none of the settings.
    """
    chosen = [(label, METHODS[label].adopting(settings)) for label in labels]
    private = [Arm(label=label, algorithm=method) for label, method in chosen]
    if not references:
        return tuple(private)
    synthetic = any(label in SYNTHETIC for label in labels)
    tuned = TunedReference(rounds=1024) if synthetic else TunedReference()  # noisy tables come close at large ε
    return (*private, Arm(label=REFERENCE, algorithm=tuned, budget=NoPrivacy()))


def page_defaults() -> dict[str, Any]:
    """The settings that the methods share as the page has them at first: those of the first method that has each."""
    found: dict[str, Any] = {}
    for method in METHODS.values():
        for control in type(method).controls():
            found.setdefault(control.name, control.default)
    return {name: value for name, value in found.items() if name not in BY_NAME}


def dimension_sweep(base: Experiment, dimensions: Sequence[int], data_sets: int = 1) -> Sweep:
    """The same comparison at other numbers of strategies, n and the budget fixed: the family's headline.

    base : on generated data with a seed. data_sets : how many there are, with seeds from that of `base` on.
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


PRESETS: tuple[Preset, ...] = load(__package__)
