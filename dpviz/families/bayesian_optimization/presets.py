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


_MANY_SETTINGS: Mapping[str, Any] = {
    "iterations": 30,
    "clip": 0.3,
    "step_size": 0.5,
    "batch_size": 20,
    "surrogate": Surrogate(length_scale=3.0),
    "placing": Placing(window=2.0),
    "trainings": 600,
}
PRESETS: tuple[Preset, ...] = (
    Preset(
        name="Start here: ten length-scales of a Gaussian process",
        source="Sopa et al. 2025, Figure 2; sizes are ours",
        look_for="At μ = 1 private tuning ends where tuning without privacy does, with half more trainings: noise "
        "keeps it moving, and every move asks for new points. Random search with as many trainings stays far above.",
        reported="The paper shows curves without numbers at hand. Mean final loss of 20 runs here: 0.0904 without "
        "privacy, 0.0913 at μ = 1, 0.193 at μ = 0.1; random search 0.165, 0.175 and 0.287. The true length-scales "
        "have 0.0936.",
        experiment=_tuned(LengthScales()),
        expected=(_ends(GIBO, 0.087, 0.096), _ends(RANDOM, 0.13, 0.23)),
    ),
    Preset(
        name="Figure 2, privacy: almost none to spare",
        source="Sopa et al. 2025, Figure 2; sizes are ours",
        look_for="Noise is now about as long as the longest gradient, and the advice is to leave a fifth of the slope "
        "unexplained: a third of the trainings, for a quarter more loss. Random search, whose only noise is in its "
        "choice, is not far behind, and single runs of both vary widely. Vary μ in the tab “Sweep”.",
        reported="Mean final loss of 20 runs at a bias level of 0.02: 0.193 after 215 trainings; random search 0.287. "
        "Here, at the advised level: 0.24 after 78 trainings; random search 0.30.",
        experiment=_tuned(LengthScales(), mu=0.1, bias_level=0.2),
        expected=(_ends(GIBO, 0.12, 0.3), _ends(RANDOM, 0.18, 0.36)),
    ),
    Preset(
        name="Figure 2, bias: half of the slope may stay unknown",
        source="Sopa et al. 2025, Figure 2; sizes are ours",
        look_for="A run takes about 24 trainings and stops short of what the budget allows: bias decides, not noise, "
        "and GIBO without privacy ends little lower. Vary the bias level in the tab “Sweep” to see where the gain "
        "ends.",
        reported="Mean final loss of 10 runs at μ = 1, for ω = 0.5, 0.2, 0.1, 0.05, 0.02, 0.01: 0.203, 0.111, 0.095, "
        "0.092, 0.091, 0.091, after 24, 58, 89, 118, 166, 218 trainings. Below 0.02 nothing is gained, as in the "
        "paper.",
        experiment=_tuned(LengthScales(), replicates=6, bias_level=0.5, trainings=23),
        expected=(_ends(GIBO, 0.13, 0.26), _ends(RANDOM, 0.2, 0.32)),
    ),
    Preset(
        name="Figure 2, noise: evaluations that are noisy themselves",
        source="Sopa et al. 2025, Figure 2; sizes are ours",
        look_for="Every loss of every user is off by 1, ten times what there is to find, and the mean over 500 users "
        "still shows the way. It takes more trainings, and buys no privacy. Vary the noise in the tab "
        "“Sweep”.",
        reported="Mean final loss at μ = 1, ten points per step, for σ = 0, 0.01, 0.1, 0.3, 1, 3: 0.090, 0.090, "
        "0.094, 0.097, 0.106, 0.140: flat, then rising, as in the paper.",
        experiment=_tuned(
            LengthScales(observation_sd=1.0), replicates=3, batch_size=10, placing=Placing(nearest=0.1), trainings=300
        ),
        expected=(_ends(GIBO, 0.088, 0.12), _ends(RANDOM, 0.14, 0.2)),
    ),
    Preset(
        name="Figure 2, right: a hundred features, one length-scale each",
        source="Sopa et al. 2025, Figure 2; drawn data in place of the CT slices",
        look_for="103 settings, seven features that matter. Steps along gradients find these; random search with as "
        "many trainings gets half as far. Choose feature_4, which matters, and feature_51, which does not, under "
        "“Where did the settings go?”.",
        reported="Five runs, 600 trainings each: 0.12 to 0.40, median 0.17; random search 0.38 to 0.48, median 0.43; "
        "without privacy 0.11 to 0.36, median 0.17. With support vector regression, as published, 0.22 and 0.43. The "
        "paper has CT slices (UCI). With slice_localization_data.csv, packed as .gz or as Parquet: “Your own file”, "
        "target “reference”, which is a number, user “patientId”. It has fewer than 100 patients, half of whom judge: "
        "the noise is longer than any gradient. The paper protects single slices, as the page does if no column names "
        "the user; then leave “patientId” out of the features.",
        experiment=_tuned(KernelMachine(model="ridge"), replicates=3, **_MANY_SETTINGS),
        expected=(_ends(GIBO, 0.13, 0.37), _ends(RANDOM, 0.37, 0.5)),
    ),
    Preset(
        name="Figure 2, right, on real data: even and odd digits",
        source="dpviz; Alpaydin and Kaynak 1998",
        look_for="64 pixels, 67 settings. In the median DP-GIBO ends a fifth lower, but a single run may not: many "
        "settings are good here, and random search is close behind. The gap is large only where many coordinates must "
        "be right.",
        reported="Not in the paper. Five runs: 0.107 to 0.119, median 0.109; random search 0.127 to 0.145, median "
        "0.135; without privacy 0.090.",
        experiment=_tuned(
            KernelMachine(model="ridge", data=BundledTable(table="digits")), replicates=1, **_MANY_SETTINGS
        ),
        expected=(_ends(GIBO, 0.09, 0.16), _ends(RANDOM, 0.12, 0.15)),
    ),
    Preset(
        name="Real data: a support vector machine tells cell nuclei",
        source="dpviz; Wolberg, Street, Mangasarian 1995",
        look_for="**Random search wins.** With 285 users the noise is long, and any of many settings will do: trying "
        "240 of them at random is simpler and as good.",
        reported="Not in the paper. Hinge loss of five runs: DP-GIBO 0.069 to 0.114, median 0.084; random search "
        "0.065 to 0.099, median 0.077; without privacy 0.063.",
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
        expected=(_ends(GIBO, 0.06, 0.11), _ends(RANDOM, 0.06, 0.11)),
    ),
    Preset(
        name="Figure 3: six trainings in all",
        source="Sopa et al. 2025, Figure 3; sizes are ours",
        look_for="A quadratic loss in two settings is known exactly after six evaluations: from then on every "
        "gradient is free, and nothing but privacy costs anything. DP-GD pays a training in every step for the same "
        "result.",
        reported="Distance from the mean over the last 20 steps, root mean square, 0.173 at μ = 0.2 and 0.035 at μ = "
        "1; predicted 0.167 and 0.033. The paper shows two levels of privacy without numbers at hand. Its kernel is "
        "outside its theorem (E5).",
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
        expected=(
            _ends(GIBO, 6.0, 6.0, "trainings"),
            _ends(GIBO, 0.08, 0.26, "distance"),
            _ends(EXACT, 0.08, 0.26, "distance"),
        ),
    ),
    Preset(
        name="Figure 4: four losses in place of five slopes",
        source="Sopa et al. 2025, Figure 4; sizes are ours",
        look_for="Robust regression, whose gradients are known. Four evaluations per step are fewer than the five "
        "coefficients, so DP-GIBO lags at first; after twenty steps noise decides, and both are alike.",
        reported="Distance to the true coefficients after 5, 10, 20, 50 steps, mean of 8 runs: DP-GD 0.56, 0.16, "
        "0.14, 0.14; DP-GIBO 0.65, 0.17, 0.14, 0.14. Not even without privacy it is 0: 0.10, for the sample is finite.",
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
        expected=(_ends(GIBO, 0.09, 0.2, "distance"), _ends(EXACT, 0.08, 0.19, "distance")),
    ),
    Preset(
        name="Figure 5: noise taken for slopes",
        source="Sopa et al. 2025, Figure 5; sizes are ours",
        look_for="The process believes that losses are ten times more exact than they are. It puts points too near "
        "each other, takes noise for slopes, and every gradient is clipped. Assume 1 instead, or leave the field "
        "empty: 0.10 to 0.11.",
        reported="Mean final loss, ten points per step: right 0.106, three times too large 0.106, ten times too small "
        "0.156. Under-estimating is the costly mistake, as in the paper.",
        experiment=_tuned(
            LengthScales(observation_sd=1.0),
            replicates=3,
            batch_size=10,
            surrogate=Surrogate(relative_noise=0.01),
            placing=Placing(nearest=0.02),
            trainings=300,
        ),
        expected=(_ends(GIBO, 0.13, 0.22), _ends(RANDOM, 0.14, 0.22)),
    ),
    Preset(
        name="One noisy model for all users",
        source="dpviz",
        look_for="A training that is itself private gives one noisy model, whose error all users share: it does not "
        "average out over them, and no number of users helps. **Random search wins**: it compares settings that are "
        "far apart. With noise of its own for each user the same σ would cost nothing.",
        reported="The paper's theory has independent noise only (E12). Mean final loss of 8 runs at σ = 0.1: 0.28 if "
        "shared, and random search 0.20; 0.09 if independent. At σ = 0.3: 0.34 and 0.10.",
        experiment=_tuned(
            LengthScales(observation_sd=0.1, observation="shared"),
            replicates=3,
            batch_size=10,
            placing=Placing(nearest=0.1),
            trainings=300,
        ),
        expected=(_ends(GIBO, 0.18, 0.4), _ends(RANDOM, 0.13, 0.28)),
    ),
    Preset(
        name="A rougher process needs fewer trainings",
        source="dpviz",
        look_for="A Matérn process with twice the length-scale is less sure of itself, so it can be trusted with a "
        "bias level of 0.1: 100 trainings instead of 170, and the same loss.",
        reported="Not in the paper. Mean final loss of 8 runs at μ = 1: 0.0917 after 100 trainings; without privacy "
        "0.0937 after 70; random search with 116 trainings 0.152.",
        experiment=_tuned(
            LengthScales(), bias_level=0.1, surrogate=Surrogate(kernel="matern", length_scale=2.0), trainings=116
        ),
        expected=(_ends(GIBO, 0.088, 0.097), _ends(RANDOM, 0.12, 0.18)),
    ),
    Preset(
        name="Figure 1: two length-scales, a cloud of runs on the loss",
        source="Sopa et al. 2025, Figure 1; sizes are ours",
        look_for="Two settings can be seen whole. Private runs gather in the valley after sixteen trainings, those "
        "without privacy a little closer; the best of 30 random settings, chosen in private, lies anywhere in its "
        "wide part.",
        reported="The paper's first figure, without numbers. Median final loss of 10 runs at μ = 0.3: DP-GIBO 0.549, "
        "random search 0.584; without privacy 0.547, at the start 0.98.",
        experiment=_tuned(
            LengthScales(training_rows=40, data=ProcessDraws(dimension=2, seed=2)),
            mu=0.3,
            replicates=10,
            iterations=20,
            trainings=30,
        ),
        expected=(_ends(GIBO, 0.544, 0.555), _ends(RANDOM, 0.55, 0.62)),
    ),
)
