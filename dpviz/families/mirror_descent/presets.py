"""The methods by name, and experiments worth a click. The paper has no figures; numbers: THEORY.md, section 6."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpviz.datasets.categories import CategoricalBundled, CategoricalGenerator
from dpviz.datasets.games import LatentGame
from dpviz.datasets.groups import GroupedBundled
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.preset import Expected, Preset
from dpviz.experiments.sweep import Sweep
from dpviz.families.mirror_descent.algorithms import SyntheticData, VertexSampling
from dpviz.families.mirror_descent.baselines import GaussianMarginals, MultiplicativeWeights, NoisyPayoffs
from dpviz.families.mirror_descent.best_responses import FictitiousPlay, TwoDraws
from dpviz.families.mirror_descent.bias_reduced import BiasReduced
from dpviz.families.mirror_descent.certified import CertifiedSampling
from dpviz.families.mirror_descent.minimisation import AnytimeSampling, FrankWolfe
from dpviz.families.mirror_descent.noisy_gradients import EuclideanGradient, GaussianMirrorDescent
from dpviz.families.mirror_descent.reference import TunedReference
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.group_loss import GroupLoss, LossMatrix
from dpviz.problems.marginals import MarginalQueries
from dpviz.problems.matrix_games import MatrixGame
from dpviz.problems.quadratic_games import QuadraticGame
from dpviz.problems.simplex_learning import PolytopeRegression, Portfolio, SparseRegression

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
_FIVE = ("Vertex sampling", "As in the paper", *_GRADIENTS, "Two draws")
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


_BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
_SPEC = "THEORY.md, section 6"
_MEASURED = "measured with five data seeds"


def _gap(arm: str, low: float, high: float, metric: str = "duality_gap", source: str = _SPEC) -> Expected:
    return Expected(arm, metric, "mean", low, high, source)


PRESETS: tuple[Preset, ...] = (
    Preset(
        name="Start here: the game that pays for itself",
        source="dpviz",
        look_for="Being predictable costs here: curvature makes the best play spread over all 300 strategies, so no "
        "pair of single strategies is any good. Drawing at random is what a player must do anyway, and it is all that "
        "protects the records: vertex sampling beats noise on gradients. The dotted curve needs no privacy.",
        reported="The paper has no experiments. Vertex sampling has the smallest gap for five data seeds of five.",
        experiment=Experiment(
            problem=QuadraticGame(),
            arms=arms(offered(QuadraticGame)[1], references=True),
            budget=_BUDGET,
            replicates=20,
        ),
        expected=(
            _gap("Vertex sampling", 0.012, 0.018, source=_MEASURED),
            _gap("Gaussian mirror descent", 0.019, 0.025, source=_MEASURED),
            _gap("Two draws", 0.25, 0.35, source=_MEASURED),
        ),
    ),
    Preset(
        name="Find the needle: two draws are enough",
        source="dpviz",
        look_for="Each player must find 1 of 300 strategies and play nothing else. Vertex sampling needs no noise "
        "of its own, tuned Gaussian noise is better still at this size, and two private draws solve the game: x's "
        "needle is the best answer to uniform play, and y's needle is the best answer to that.",
        reported="The paper has no experiments. Gaps were verified with an independent program.",
        experiment=Experiment(problem=MatrixGame(), arms=arms(_FIVE), budget=_BUDGET, replicates=20),
        expected=(
            _gap("Vertex sampling", 0.11, 0.19),
            _gap("As in the paper", 0.7, 0.92),
            _gap("Two draws", -1e-9, 0.001, source=_MEASURED),
        ),
    ),
    Preset(
        name="Hide and seek: a triangle of three strategies",
        source="dpviz",
        look_for="Below the curves every run is a dot in the triangle of player x's mixed strategies; the best is its "
        "middle. Press Play: vertex sampling moves on a lattice, the averages of the corners that it has drawn. The "
        "noise of Gaussian mirror descent takes it all over the triangle.",
        reported="The paper has no experiments. Gaussian mirror descent is the worst for five data seeds of five.",
        experiment=Experiment(
            problem=MatrixGame(data=LatentGame(structure="hide_seek", rows=500, strategies_x=3, strategies_y=3)),
            arms=arms(("Vertex sampling", *_GRADIENTS)),
            budget=_BUDGET,
            replicates=100,
        ),
        expected=(
            _gap("Vertex sampling", 0.018, 0.039, source=_MEASURED),
            _gap("DP-SGDA", 0.018, 0.039, source=_MEASURED),
            _gap("Gaussian mirror descent", 0.044, 0.073, source=_MEASURED),
        ),
    ),
    Preset(
        name="A thousand strategies",
        source="dpviz",
        look_for="From 300 to 1,000 strategies the gap of Gaussian mirror descent more than doubles, because its noise "
        "covers every entry of a gradient; with vertex sampling it grows by about a third.",
        reported="Rates: the gap grows like (log d)^{3/4} with vertex sampling, polynomially with noisy gradients.",
        experiment=Experiment(
            problem=QuadraticGame(data=LatentGame(strategies_x=1000, strategies_y=1000)),
            arms=arms(_FIVE),
            budget=_BUDGET,
            replicates=8,
        ),
        expected=(
            _gap("Vertex sampling", 0.014, 0.024, source=_MEASURED),
            _gap("Gaussian mirror descent", 0.04, 0.065, source=_MEASURED),
        ),
    ),
    Preset(
        name="Ten thousand strategies, 100,000 rows",
        source="dpviz",
        look_for="No payoff matrix is ever formed: a drawn vertex is one column of bits. Gradient methods would have "
        "to pass over two thousand million entries in every round.",
        reported="Not in the paper.",
        experiment=Experiment(
            problem=QuadraticGame(data=LatentGame(rows=100_000, strategies_x=10_000, strategies_y=10_000)),
            arms=arms(("Vertex sampling", "Single pass"), iterations=64),
            budget=_BUDGET,
            replicates=4,
        ),
        expected=(_gap("Vertex sampling", 0.004, 0.01, source=_MEASURED),),
    ),
    Preset(
        name="Theorem 4.1, quadratic: the paper's setting",
        source="González, Guzmán, Paquette 2024, Theorem 4.1",
        look_for="T, K and τ are the theorem's. At this size its constants cost far more than its rate wins.",
        reported="Gap √(ℓ/n) + (ℓ^{3/2} √ln(1/δ) / (n ε))^{1/2}, up to constants.",
        experiment=Experiment(
            problem=MatrixGame(),
            arms=arms(("Single pass", "As in the paper"), iterations=1024, parameters="bilinear"),
            budget=_BUDGET,
            replicates=16,
        ),
    ),
    Preset(
        name="Theorem 4.1, curved: more draws against the bias",
        source="González, Guzmán, Paquette 2024, Theorem 4.1",
        look_for="The logistic loss sees a few draws with a bias of 1/K, so the theorem draws K = √(T/ℓ) = 12 vertices "
        "in each of 694 rounds. At this size so many draws leave next to nothing of a step: the gap hardly falls.",
        reported="Gap √(ℓ/n) + (ℓ^{3/2} √ln(1/δ) / (n ε))^{2/5}. The direct analysis here needs no second derivatives.",
        experiment=Experiment(
            problem=GroupLoss(loss="logistic"),
            arms=arms(("Single pass", "As in the paper"), iterations=1024, parameters="second_order"),
            budget=_BUDGET,
            replicates=16,
        ),
    ),
    Preset(
        name="Theorem 4.2, first order",
        source="González, Guzmán, Paquette 2024, Theorem 4.2",
        look_for="Without second derivatives the theorem draws K = T/ℓ vertices. Erratum E2: that is not needed.",
        reported="Gap √(ℓ/n) + (ℓ^{3/2} √ln(1/δ) / (n ε))^{1/3}, up to constants.",
        experiment=Experiment(
            problem=QuadraticGame(),
            arms=arms(("Single pass", "As in the paper"), iterations=1024, parameters="first_order"),
            budget=_BUDGET,
            replicates=16,
        ),
    ),
    Preset(
        name="Theorem 4.3: the bias-reduced oracle",
        source="González, Guzmán, Paquette 2024, Theorem 4.3",
        look_for="Random batch sizes and random stopping: what the better rate needs, not what you should run. Even at "
        "ε = 8 plain vertex sampling wins.",
        reported="Gap ℓ/√n + ℓ/√(n ε), up to logarithms, with constant probability.",
        experiment=Experiment(
            problem=GroupLoss(loss="logistic"),
            arms=arms(("Vertex sampling", "Bias-reduced"), iterations=20, share_x=0.8, stop_level=32),
            budget=ApproximateDP(epsilon=8.0, delta=1e-6),
            replicates=16,
        ),
    ),
    Preset(
        name="Worst group: be fair to every group",
        source="dpviz; Section 1 of the paper",
        look_for="x is a model, y weighs the groups. The worst group's loss falls from 0.25 to near its optimum 0.084.",
        reported="Not in the paper. Gap 0.020 at ε = 1 in an independent program.",
        experiment=Experiment(
            problem=GroupLoss(),
            arms=arms(("Vertex sampling", *_GRADIENTS), iterations=20, share_x=0.8, references=True),
            budget=_BUDGET,
            replicates=16,
        ),
        expected=(_gap("Vertex sampling", 0.012, 0.026),),
    ),
    Preset(
        name="Worst group, real data: who sees a doctor?",
        source="dpviz; RAND Health Insurance Experiment",
        look_for="20,190 person-years, grouped by self-rated health. The smallest group decides the noise.",
        reported="Not in the paper.",
        experiment=Experiment(
            problem=GroupLoss(data=GroupedBundled(grouping="three")),
            arms=arms(("Vertex sampling", *_GRADIENTS), iterations=20, share_x=0.8, references=True),
            budget=_BUDGET,
            replicates=16,
        ),
    ),
    Preset(
        name="Synthetic data: five columns",
        source="González, Guzmán, Paquette 2024, Algorithm 5",
        look_for="The worst of 127 marginal cells. For so few noisy tables win by far; every method offers rows.",
        reported="Independent program: rows 0.057, histogram 0.040, MWEM 0.052.",
        experiment=Experiment(
            problem=MarginalQueries(),
            arms=arms(offered(MarginalQueries)[1], iterations=256),
            budget=_BUDGET,
            replicates=16,
        ),
        expected=(
            _gap("Synthetic rows", 0.045, 0.07, "worst_query_error"),
            _gap("Synthetic histogram", 0.03, 0.055, "worst_query_error"),
        ),
    ),
    Preset(
        name="Synthetic data: health insurance",
        source="dpviz; RAND Health Insurance Experiment",
        look_for="2,000 combinations of six columns. Take a private table away, of any size and method.",
        reported="Not in the paper.",
        experiment=Experiment(
            problem=MarginalQueries(data=CategoricalBundled()),
            arms=arms(offered(MarginalQueries)[1], iterations=256),
            budget=_BUDGET,
            replicates=8,
        ),
    ),
    Preset(
        name="Theorem G.1: synthetic data as in the paper",
        source="González, Guzmán, Paquette 2024, Theorem G.1",
        look_for="T is the theorem's. The paper charges every round at the last one's range: its step is eight times "
        "too short.",
        reported="Error √(ln q/n) + (ln |Z| ln(1/δ))^{1/4} √(ln q) / √(n ε), up to constants.",
        experiment=Experiment(
            problem=MarginalQueries(data=CategoricalGenerator(rows=7000)),
            arms=arms(
                ("Synthetic histogram", "Synthetic rows"), iterations=1024, accounting="paper", parameters="synthetic"
            ),
            budget=_BUDGET,
            replicates=16,
        ),
    ),
    Preset(
        name="Theorem 5.1: the anytime method's own settings",
        source="González, Guzmán, Paquette 2024, Theorem 5.1",
        look_for="Hundreds of rounds, dozens of draws at each refresh: the best rate, but at this size it ends above "
        "the loss of equal weights. Frank-Wolfe comes close to the optimum.",
        reported="Excess risk √(ℓ/n) + ℓ ln(1/δ)^{1/4} / √(n ε), up to constants.",
        experiment=Experiment(
            problem=SparseRegression(dimension=100),
            arms=arms(("Anytime", "Frank-Wolfe"), iterations=1024, theorem="anytime_second_order"),
            budget=_BUDGET,
            replicates=8,
        ),
    ),
    Preset(
        name="Sparse regression",
        source="dpviz; Section 5 of the paper",
        look_for="One player: convex minimisation on the ℓ1 ball. Reusing played vertices with all rows beats both the "
        "anytime method and Frank-Wolfe.",
        reported="Independent program: vertex sampling 0.002, Frank-Wolfe 0.006; the anytime method 0.036 at its best.",
        experiment=Experiment(
            problem=SparseRegression(),
            arms=arms(offered(SparseRegression)[1], iterations=16),
            budget=_BUDGET,
            replicates=16,
        ),
        expected=(_gap("Vertex sampling", 0.0005, 0.006), _gap("Frank-Wolfe", 0.002, 0.012)),
    ),
    Preset(
        name="Reuse or fresh draws? (erratum E1)",
        source="dpviz; Lemma 4.2 of the paper",
        look_for="Averaging the vertices that were played beats averaging as many fresh draws, which the paper's proof "
        "would need: they double the cost, and steps get shorter by √2.",
        reported="Independent program, matching pennies at T = 100: reuse 0.152, internal average 0.170, fresh 0.230.",
        experiment=Experiment(
            problem=MatrixGame(data=LatentGame(structure="hide_seek", strategies_x=30, strategies_y=30)),
            arms=arms(("Vertex sampling", "Fresh draws"), iterations=64),
            budget=_BUDGET,
            replicates=32,
        ),
    ),
)
