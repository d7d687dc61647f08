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
FIFTH, OVER = "DP-GIBO, a fifth of μ", "DP-GIBO, noise × 3"
UNDER, FAR_UNDER = "DP-GIBO, noise × 0.1", "DP-GIBO, noise × 0.01"
METHODS: Mapping[str, AnyAlgorithm] = MappingProxyType(
    {
        GIBO: Gibo(),
        EXACT: GradientDescent(),
        RANDOM: RandomSearch(),
        GLOBAL: GlobalSearch(),
        FIFTH: Gibo(share=0.2),
        OVER: Gibo(noise_factor=3.0),
        UNDER: Gibo(noise_factor=0.1),
        FAR_UNDER: Gibo(noise_factor=0.01),
    }
)
DEFAULT_METHODS = (GIBO, RANDOM)
REFERENCE, EXACT_REFERENCE = "GIBO, no privacy", "GD, no privacy"
REPLICATES = 4  # at first: each is several hundred trainings


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all that have such a field.

    references : adds GIBO, which is DP-GIBO without noise; and beside DP-GD, the same steps without noise.
    """
    private = [Arm(label=label, algorithm=METHODS[label].adopting(settings)) for label in labels]
    if not references:
        return tuple(private)
    plain = {REFERENCE: GIBO} | ({EXACT_REFERENCE: EXACT} if EXACT in labels else {})
    return (
        *private,
        *(
            Arm(label=label, algorithm=METHODS[name].adopting(settings), budget=NoPrivacy())
            for label, name in plain.items()
        ),
    )


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
        look_for="At μ = 1 private tuning ends hardly above tuning without privacy, with half more trainings: noise "
        "keeps it moving, and every move asks for new points. Random search with as many trainings stays far above.",
        reported="The paper shows curves without numbers at hand. Mean final loss of 20 runs here, with its standard "
        "error: 0.0901 (0.0002) without privacy and 0.0908 (0.0002) at μ = 1, after 117 and 166 trainings; random "
        "search 0.173 (0.006). The true length-scales have 0.0936.",
        experiment=_tuned(LengthScales()),
        expected=(_ends(GIBO, 0.087, 0.096), _ends(RANDOM, 0.13, 0.23)),
    ),
    Preset(
        name="Figure 2, privacy: almost none to spare",
        source="Sopa et al. 2025, Figure 2; sizes are ours",
        look_for="Noise is now long beside the gradients, and the advice is to leave an eighth of the slope "
        "unexplained: fewer trainings, for a third more loss. Random search, whose only noise is in its choice, ends "
        "twice as high, and single runs of both vary widely. Vary μ in the tab “Sweep”.",
        reported="The paper has μ = 0.2, 1 and ∞. Median final loss of 20 runs here at the advised level: 0.119 after "
        "105 trainings; random search 0.243; without privacy 0.100. At μ = 0.1 and its advised level of 0.2: 0.203, "
        "random search 0.288.",
        experiment=_tuned(LengthScales(), mu=0.2, bias_level=0.12),
        expected=(_ends(GIBO, 0.1, 0.2), _ends(RANDOM, 0.15, 0.36)),
    ),
    Preset(
        name="Figure 2, bias: half of the slope may stay unknown",
        source="Sopa et al. 2025, Figure 2; sizes are ours",
        look_for="A run takes about 24 trainings and stops short of what the budget allows: bias decides, not noise. "
        "Random search with as many trainings does as well, and GIBO without privacy ends no lower. Vary the bias "
        "level in the tab “Sweep” to see where the gain ends.",
        reported="Median final loss of 20 runs: 0.195, without privacy 0.206, random search 0.216: all within chance. "
        "Mean final loss of 10 runs at μ = 1, for ω = 0.5, 0.2, 0.1, 0.05, 0.02, 0.01: 0.203, 0.111, 0.095, 0.092, "
        "0.091, 0.091, after 24, 58, 89, 118, 166, 218 trainings. Below 0.02 nothing is gained, as in the paper.",
        experiment=_tuned(LengthScales(), replicates=6, bias_level=0.5, trainings=23),
        expected=(_ends(GIBO, 0.13, 0.26), _ends(RANDOM, 0.2, 0.32)),
    ),
    Preset(
        name="Figure 2, noise: evaluations that are noisy themselves",
        source="Sopa et al. 2025, Figure 2; sizes are ours",
        look_for="Every loss of every user is off by 1, ten times what there is to find, and the mean over 500 users "
        "still shows the way. It takes more trainings, and buys no privacy. Vary the noise in the tab “Sweep”.",
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
        look_for="Support vector regression with 103 settings, seven features that matter. Steps along gradients find "
        "these; random search with as many trainings stays far above. Choose feature_4, which matters, and "
        "feature_51, which does not, under “Where did the settings go?”.",
        reported="Ten runs, 600 trainings each: 0.14 to 0.33, median 0.18; random search 0.36 to 0.47, median 0.44; "
        "without privacy 0.12 to 0.37, median 0.18. In the paper the private curve lies above the other one; here "
        "chance between runs hides what privacy costs. Its random search is not private, ours is. With kernel ridge "
        "regression, 20 runs: median 0.20, random search 0.44, without privacy 0.16. The paper has CT slices (UCI). "
        "With slice_localization_data.csv, packed as .gz or as Parquet: “Your own file”, target “reference”, which is "
        "a number, user “patientId”. It has fewer than 100 patients, half of whom judge: the noise is longer than any "
        "gradient. The paper protects single slices, as the page does if no column names the user; then leave "
        "“patientId” out of the features.",
        experiment=_tuned(KernelMachine(model="svr"), replicates=3, **_MANY_SETTINGS),
        expected=(_ends(GIBO, 0.13, 0.34), _ends(RANDOM, 0.35, 0.49)),
    ),
    Preset(
        name="Figure 2, right, on real data: even and odd digits",
        source="dpviz; Alpaydin and Kaynak 1998",
        look_for="64 pixels, 67 settings. DP-GIBO ends a quarter lower. Many settings are good here, so random search "
        "is not far behind: the gap is large only where many coordinates must be right.",
        reported="Not in the paper. Ten runs: 0.087 to 0.114, median 0.102; random search 0.123 to 0.152, median "
        "0.140; without privacy 0.091.",
        experiment=_tuned(
            KernelMachine(model="ridge", data=BundledTable(table="digits")), replicates=1, **_MANY_SETTINGS
        ),
        expected=(_ends(GIBO, 0.08, 0.12), _ends(RANDOM, 0.12, 0.155)),
    ),
    Preset(
        name="Real data: a support vector machine tells cell nuclei",
        source="dpviz; Wolberg, Street, Mangasarian 1995",
        look_for="With 285 users the noise is long, and many settings will do: random search, which is simpler, is "
        "close behind, and single runs of it end lower.",
        reported="Not in the paper. Hinge loss of 20 runs: DP-GIBO 0.059 to 0.111, median 0.072; random search 0.067 "
        "to 0.115, median 0.092; without privacy 0.059.",
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
        "gradient is free, and nothing but privacy costs anything. With a fifth of μ runs end five times as far from "
        "the mean. DP-GD pays a training in every step for the same result.",
        reported="Distance from the mean over the last 20 steps of 20 runs, root mean square, 0.168 at μ = 0.2 and "
        "0.031 at μ = 1; predicted 0.167 and 0.033. The paper shows one run at each of two levels of privacy, without "
        "numbers at hand; its bias beside the noise is “Is less bias worth a training?”. Its kernel is outside its "
        "theorem (E5).",
        experiment=_tuned(
            NormalLocation(),
            labels=(GIBO, EXACT, FIFTH),
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
            *(_ends(label, 6.0, 6.0, "trainings") for label in (GIBO, FIFTH)),
            *(_ends(label, 0.012, 0.045, "distance") for label in (GIBO, EXACT)),
            _ends(FIFTH, 0.08, 0.26, "distance"),
        ),
    ),
    Preset(
        name="Figure 4: four losses in place of five slopes",
        source="Sopa et al. 2025, Figure 4; sizes are ours",
        look_for="Robust regression, whose gradients are known. Four evaluations per step are fewer than the five "
        "coefficients, so DP-GIBO lags at first; after twenty steps noise decides, and both are alike.",
        reported="Distance to the true coefficients after 5, 10, 20, 50 steps, mean of 20 runs: DP-GD 0.55, 0.15, "
        "0.14, 0.13; DP-GIBO 0.66, 0.18, 0.12, 0.12; GD without privacy 0.56, 0.14, 0.10, 0.10. In the paper that "
        "reaches the truth; here 0.10 is left, for the sample is finite. Its gradient norms, estimated and exact, "
        "stand under “Second chart”.",
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
        look_for="Every evaluation is noisy. The process takes that noise for what it is, for three times as much, "
        "for a tenth and for a hundredth. Too much costs nothing here. Too little costs the more the less it is: "
        "points are too near each other, noise is taken for slopes, and gradients are clipped; in the end random "
        "search is better.",
        reported="The paper: right is best, too large is viable, too small is worse than random search; how much too "
        "small is lost. Here, mean final loss of 20 runs, with its standard error: right 0.112 (0.003), three times "
        "too large 0.109 (0.003), ten times too small 0.175 (0.009), a hundred times 0.263 (0.019); random search "
        "0.186 (0.007). So too large is as good as right, and ten times too small no worse than random search.",
        experiment=_tuned(
            LengthScales(observation_sd=1.0),
            labels=(GIBO, RANDOM, OVER, UNDER, FAR_UNDER),
            replicates=4,
            batch_size=10,
            placing=Placing(nearest=0.02),
            trainings=300,
        ),
        expected=(
            *(_ends(label, 0.093, 0.13) for label in (GIBO, OVER)),
            _ends(UNDER, 0.12, 0.22),
            _ends(FAR_UNDER, 0.18, 0.6),
            _ends(RANDOM, 0.14, 0.22),
        ),
    ),
    Preset(
        name="One noisy model for all users",
        source="dpviz",
        look_for="A training that is itself private gives one noisy model, whose error all users share: it does not "
        "average out over them, and no number of users helps. **Random search wins**: it compares settings that are "
        "far apart. With noise of its own for each user the same σ would cost nothing.",
        reported="The paper's theory has independent noise only (E12). Mean final loss of 20 runs at σ = 0.1, with "
        "its standard error: 0.279 (0.015) if shared, and random search 0.184 (0.007); 0.093 (0.001) if independent.",
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
        "bias level of 0.1: 110 trainings instead of 170, and nearly the same loss.",
        reported="Not in the paper. Mean final loss of 20 runs at μ = 1: 0.0923 after 109 trainings; without privacy "
        "0.0938 after 76; random search with 116 trainings 0.178.",
        experiment=_tuned(
            LengthScales(), bias_level=0.1, surrogate=Surrogate(kernel="matern", length_scale=2.0), trainings=116
        ),
        expected=(_ends(GIBO, 0.088, 0.097), _ends(RANDOM, 0.12, 0.2)),
    ),
    Preset(
        name="Figure 1: two length-scales, a cloud of runs on the loss",
        source="dpviz; a guess at Sopa et al. 2025, Figure 1",
        look_for="Two settings can be seen whole. Private runs gather in the valley after fifteen trainings, as those "
        "without privacy do; the best of 30 random settings, chosen in private, lies anywhere in its wide part. "
        "Global search releases every loss, pays for each, and learns little.",
        reported="Of the paper's first figure nothing but its caption's subject has survived, so this picture is "
        "ours; its claim that DP-GIBO beats global search holds here. Median final loss of 20 runs at μ = 0.3: "
        "DP-GIBO 0.549, random search 0.560, global search 0.603; without privacy 0.547, at the start 0.96.",
        experiment=_tuned(
            LengthScales(training_rows=40, data=ProcessDraws(dimension=2, seed=2)),
            labels=(GIBO, RANDOM, GLOBAL),
            mu=0.3,
            replicates=10,
            iterations=20,
            trainings=30,
        ),
        expected=(_ends(GIBO, 0.544, 0.555), _ends(RANDOM, 0.549, 0.6), _ends(GLOBAL, 0.58, 0.67)),
    ),
)
