"""The methods by name, and experiments worth a click (Sopa et al. 2025; what they come to: measured, THEORY.md)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.preset import Expected, Preset
from dpviz.families.bayesian_optimization.algorithms import Gibo, GradientDescent
from dpviz.families.bayesian_optimization.baselines import GlobalSearch, RandomSearch
from dpviz.privacy.budgets import GaussianDP, NoPrivacy
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.model_tuning import LengthScales

GIBO, EXACT, RANDOM, GLOBAL = "DP-GIBO", "DP-GD", "Random search", "Global search"
METHODS: Mapping[str, AnyAlgorithm] = MappingProxyType(
    {GIBO: Gibo(), EXACT: GradientDescent(), RANDOM: RandomSearch(), GLOBAL: GlobalSearch()}
)
DEFAULT_METHODS = (GIBO, RANDOM)
REFERENCE = "GIBO, no privacy"
REPLICATES = 4  # at first: each is several hundred trainings


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all that have such a field.

    references : adds GIBO, which is DP-GIBO without noise.
    """
    private = [Arm(label=label, algorithm=METHODS[label].adopting(settings)) for label in labels]
    if not references:
        return tuple(private)
    return (*private, Arm(label=REFERENCE, algorithm=METHODS[GIBO].adopting(settings), budget=NoPrivacy()))


def _tuned(
    problem: ProblemSpecification,
    mu: float = 1.0,
    labels: Sequence[str] = DEFAULT_METHODS,
    replicates: int = REPLICATES,
    **settings: Any,
) -> Experiment:
    """The methods beside GIBO without privacy."""
    return Experiment(
        problem=problem,
        arms=arms(labels, references=True, **settings),
        budget=GaussianDP(mu=mu),
        replicates=replicates,
    )


def _ends(label: str, low: float, high: float, metric: str = "objective") -> Expected:
    """Where the median of a few runs of a method ends."""
    return Expected(label, metric, "median", low, high, "dpviz")


PRESETS: tuple[Preset, ...] = (
    Preset(
        name="Start here: ten length-scales of a Gaussian process",
        source="Sopa et al. 2025, section 4.1; sizes are ours",
        look_for="At μ = 1 private tuning ends where tuning without privacy does, with a third more trainings: noise "
        "keeps it moving, and every move asks for new points. Random search with as many trainings stays far above.",
        reported="The paper shows curves without numbers at hand. Mean final loss of 20 runs here: 0.0904 without "
        "privacy, 0.0913 at μ = 1, 0.193 at μ = 0.1; random search 0.165, 0.175 and 0.287. The true length-scales have "
        "0.0936.",
        experiment=_tuned(LengthScales()),
        expected=(_ends(GIBO, 0.087, 0.096), _ends(RANDOM, 0.13, 0.23)),
    ),
)
