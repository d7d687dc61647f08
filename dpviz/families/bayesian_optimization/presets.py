"""The methods by name, and experiments worth a click (Sopa et al. 2025; what they come to: measured, THEORY.md)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpviz.datasets import BundledTable
from dpviz.datasets.tuning import ProcessDraws
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.preset import Expected, Preset
from dpviz.families.bayesian_optimization.algorithms import Gibo, GradientDescent
from dpviz.families.bayesian_optimization.baselines import GlobalSearch, RandomSearch
from dpviz.families.bayesian_optimization.batches import Placing
from dpviz.families.bayesian_optimization.kernels import Surrogate
from dpviz.privacy.budgets import GaussianDP, NoPrivacy
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.direct_tuning import HuberRegression, NormalLocation
from dpviz.problems.model_tuning import KernelMachine, LengthScales

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
    Preset(
        name="Section 4.1, privacy: almost none to spare",
        source="Sopa et al. 2025, section 4.1; sizes are ours",
        look_for="",
        reported="",
        experiment=_tuned(LengthScales(), mu=0.1, replicates=6, bias_level=0.2),
    ),
    Preset(
        name="Section 4.1, bias: half of the slope may stay unknown",
        source="Sopa et al. 2025, section 4.1; sizes are ours",
        look_for="",
        reported="",
        experiment=_tuned(LengthScales(), replicates=6, bias_level=0.5, trainings=23),
    ),
    Preset(
        name="Section 4.1, noise: evaluations that are noisy themselves",
        source="Sopa et al. 2025, section 4.1; sizes are ours",
        look_for="",
        reported="",
        experiment=_tuned(LengthScales(observation_sd=1.0), batch_size=10, placing=Placing(nearest=0.1), trainings=300),
    ),
    Preset(
        name="Section 4.2: a hundred features, one length-scale each",
        source="Sopa et al. 2025, section 4.2; drawn data in place of the CT slices",
        look_for="",
        reported="",
        experiment=_tuned(
            KernelMachine(model="ridge"),
            replicates=1,
            iterations=30,
            clip=0.3,
            step_size=0.5,
            batch_size=20,
            surrogate=Surrogate(length_scale=3.0),
            placing=Placing(window=2.0),
            trainings=600,
        ),
    ),
    Preset(
        name="Section 4.2 on real data: even and odd digits",
        source="dpviz; Alpaydin and Kaynak 1998",
        look_for="",
        reported="",
        experiment=_tuned(
            KernelMachine(model="ridge", data=BundledTable(table="digits")),
            replicates=1,
            iterations=30,
            clip=0.3,
            step_size=0.5,
            batch_size=20,
            surrogate=Surrogate(length_scale=3.0),
            placing=Placing(window=2.0),
            trainings=600,
        ),
    ),
    Preset(
        name="Real data: a support vector machine tells cell nuclei",
        source="dpviz; Wolberg, Street, Mangasarian 1995",
        look_for="",
        reported="",
        experiment=_tuned(
            KernelMachine(model="svc", data=BundledTable(table="breast_cancer")),
            replicates=2,
            iterations=20,
            clip=0.3,
            step_size=0.4,
            batch_size=12,
            surrogate=Surrogate(length_scale=2.0),
            placing=Placing(window=3.0),
            trainings=240,
        ),
    ),
    Preset(
        name="Section 4.3: six trainings in all",
        source="Sopa et al. 2025, Figure 3; sizes are ours",
        look_for="",
        reported="",
        experiment=_tuned(
            NormalLocation(),
            mu=0.2,
            labels=(GIBO, EXACT),
            replicates=20,
            iterations=50,
            clip=5.0,
            step_size=0.2,
            rule="sgd",
            bias_level=0.001,
            surrogate=Surrogate(kernel="quadratic", relative_noise=1e-10),
            placing=Placing(nearest=1.0),
        ),
    ),
    Preset(
        name="Section 4.4: four losses in place of five slopes",
        source="Sopa et al. 2025, Figure 4; sizes are ours",
        look_for="",
        reported="",
        experiment=_tuned(
            HuberRegression(),
            labels=(GIBO, EXACT),
            replicates=10,
            iterations=50,
            clip=1.902,
            step_size=1.0,
            rule="sgd",
            batch_size=4,
            surrogate=Surrogate(length_scale=2.0, mean="zero"),
            placing=Placing(window=12.0),
        ),
    ),
    Preset(
        name="Section 4.5: noise taken for slopes",
        source="Sopa et al. 2025, Figure 5; sizes are ours",
        look_for="",
        reported="",
        experiment=_tuned(
            LengthScales(observation_sd=1.0),
            batch_size=10,
            surrogate=Surrogate(relative_noise=0.01),
            placing=Placing(nearest=0.02),
            trainings=300,
        ),
    ),
    Preset(
        name="One noisy model for all users",
        source="dpviz",
        look_for="",
        reported="",
        experiment=_tuned(
            LengthScales(observation_sd=0.1, observation="shared"),
            batch_size=10,
            placing=Placing(nearest=0.1),
            trainings=300,
        ),
    ),
    Preset(
        name="A rougher process needs fewer trainings",
        source="dpviz",
        look_for="",
        reported="",
        experiment=_tuned(
            LengthScales(), bias_level=0.1, surrogate=Surrogate(kernel="matern", length_scale=2.0), trainings=116
        ),
    ),
    Preset(
        name="Two length-scales: a cloud of runs on the loss",
        source="Sopa et al. 2025, Figure 1; sizes are ours",
        look_for="",
        reported="",
        experiment=_tuned(
            LengthScales(data=ProcessDraws(dimension=2)), mu=0.3, replicates=10, iterations=20, trainings=60
        ),
    ),
)
