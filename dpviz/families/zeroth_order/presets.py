"""The methods by name, and experiments worth a click (Zhang, Tran, Cutkosky 2024; numbers: THEORY.md, section 7)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from dpviz.datasets import BundledTable, SphereLinear
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.preset import Expected, Preset
from dpviz.families.zeroth_order import measured
from dpviz.families.zeroth_order.advice import Way
from dpviz.families.zeroth_order.algorithms import Naive, VarianceReduced
from dpviz.families.zeroth_order.baselines import DirectionalDescent, FirstOrder
from dpviz.numbers import short
from dpviz.privacy.budgets import GaussianDP, NoPrivacy
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.black_box import BentValley, CappedRegression, PhaseRetrieval, ReluNetwork, Votes

PUBLISHED, PAPER, IMPROVED, NAIVE, FRESH = "Published", "Published noise", "Improved", "Naive", "Naive, orthonormal"
DIRECTIONAL, DERIVATIVES = "DP-ZO", "DP-SGD"
METHODS: Mapping[str, AnyAlgorithm] = MappingProxyType(
    {
        PUBLISHED: VarianceReduced(),
        PAPER: VarianceReduced(sums="published"),
        IMPROVED: VarianceReduced(directions="orthonormal", sums="optimal"),
        NAIVE: Naive(),
        FRESH: Naive(directions="orthonormal", directions_per_row=None),
        DIRECTIONAL: DirectionalDescent(),
        DERIVATIVES: FirstOrder(),
    }
)
DEFAULT_METHODS = (PUBLISHED, IMPROVED, NAIVE, FRESH)
BY_NAME = ("directions", "directions_per_row", "sums", "descent_steps", "relative_step_size")  # what a label stands for
REFERENCE = "Published, no privacy"
REPLICATES = 5  # at first: a run asks for half a million values in each


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Arms for the methods named; `settings` apply to all that have such a field.

    references : adds the published method without privacy.
    """
    private = [Arm(label=label, algorithm=METHODS[label].adopting(settings)) for label in labels]
    if not references:
        return tuple(private)
    return (*private, Arm(label=REFERENCE, algorithm=METHODS[PUBLISHED].adopting(settings), budget=NoPrivacy()))


def _compared(
    problem: ProblemSpecification,
    mu: float,
    labels: Sequence[str] = DEFAULT_METHODS,
    replicates: int = REPLICATES,
    **settings: Any,
) -> Experiment:
    """The methods beside the published one without privacy."""
    return Experiment(
        problem=problem,
        arms=arms(labels, references=True, **settings),
        budget=GaussianDP(mu=mu),
        replicates=replicates,
    )


def label_of(option: Way) -> str:
    """The method that an option of the advice stands for."""
    if option.sums is None:
        return FRESH if option.kind == "orthonormal" else NAIVE
    return IMPROVED if option.kind == "orthonormal" else PUBLISHED


def _ends(label: str, low: float, high: float) -> Expected:
    """Where the median of a few runs of a method ends."""
    return Expected(label, "objective", "median", low, high, "dpviz, 5 to 16 runs")


def _numbers(name: str) -> str:
    """What runs of a preset came to, in a sentence; empty while it has not been measured."""
    found = dict(measured.table()["presets"].get(name, {}))
    if not found:
        return ""
    start = found.pop("start")
    told = ", ".join(f"{label} {short(value, 2)}" for label, value in found.items())
    return (
        f"Not in the paper, which has no experiments. Median objective of the last epoch, {measured.PRESET_RUNS} runs: "
        f"{told}. All start at {short(start, 2)}."
    )


def _preset(
    name: str,
    look_for: str,
    experiment: Experiment,
    expected: tuple[Expected, ...],
    source: str = "dpviz",
    tab: str = "",
) -> Preset:
    """A preset that reports what was measured of it."""
    return Preset(name, source, look_for, _numbers(name), experiment, expected, tab)


PRESETS: tuple[Preset, ...] = (
    _preset(
        "Start here: signs were lost, and only values may be asked",
        look_for="The published algorithm gets a third of the way down at this budget. With orthonormal directions "
        "and better running sums it arrives; and so does the naive oracle, which adds up nothing, once its directions "
        "are orthonormal. At this size directions matter more than sums.",
        experiment=_compared(PhaseRetrieval(), 0.3),
        expected=(
            _ends(PUBLISHED, 0.1, 0.27),
            _ends(IMPROVED, 0.005, 0.02),
            _ends(FRESH, 0.007, 0.025),
        ),
    ),
    _preset(
        "Long epochs: where running sums pay",
        look_for="Epochs of 128 steps, and batches that follow the moves, which halves the noise of a change: now "
        "even the published algorithm, which adds up, ends far below the naive one with one direction. It gains most "
        "from such batches: switch them off to see.",
        experiment=_compared(
            PhaseRetrieval(radius=0.15), 0.3, iterations=1280, epoch_length=128, travel=2.0, follow_moves=True
        ),
        expected=(
            _ends(PUBLISHED, 0.012, 0.04),
            _ends(IMPROVED, 0.005, 0.012),
            _ends(FRESH, 0.009, 0.06),
        ),
    ),
    _preset(
        "Twenty unknowns: what the dimension costs",
        look_for="More than three times the budget of the start, and the published algorithm hardly moves: in more "
        "dimensions it needs more noise. Orthonormal directions take √20 ≈ 4.5 times less for the same guarantee, and "
        "arrive.",
        experiment=_compared(
            PhaseRetrieval(dimension=20, radius=0.15),
            1.0,
            replicates=3,
            iterations=640,
            epoch_length=32,
            travel=1.5,
            expected_norm=0.3,
        ),
        expected=(
            _ends(PUBLISHED, 0.12, 0.17),
            _ends(IMPROVED, 0.01, 0.02),
            _ends(FRESH, 0.01, 0.06),
        ),
    ),
    _preset(
        "Robust regression: a fifth of the targets are wrong",
        look_for="Errors count up to τ = 0.5, so outliers stop pulling, and the loss is not convex. Privacy lifts the "
        "floor, with independent directions most.",
        experiment=_compared(
            CappedRegression(data=SphereLinear(), intercept=False, divisor=1.0, cap=0.5, radius=0.15),
            0.3,
            iterations=480,
            expected_norm=0.3,
        ),
        expected=(
            _ends(PUBLISHED, 0.125, 0.145),
            _ends(IMPROVED, 0.122, 0.128),
            _ends(FRESH, 0.123, 0.131),
        ),
    ),
    _preset(
        "A small neural network",
        look_for="Four hidden units on three features: 12 parameters with kinks everywhere, and not one derivative.",
        experiment=_compared(
            ReluNetwork(data=SphereLinear(dimension=3, outliers=0.0), intercept=False, divisor=1.0, radius=0.2),
            0.3,
            replicates=4,
            iterations=480,
            expected_norm=0.3,
        ),
        expected=(
            _ends(PUBLISHED, 0.1, 0.33),
            _ends(IMPROVED, 0.039, 0.05),
            _ends(FRESH, 0.04, 0.055),
        ),
    ),
    _preset(
        "Votes jump: no Lipschitz constant holds",
        look_for="One vote in ten differs between two points that are 2r apart, and every such difference is clipped. "
        "Privacy holds all the same, as clipping enforces it, and the average over many votes still shows the way.",
        experiment=_compared(Votes(radius=0.2), 1.0, iterations=480, expected_norm=0.3),
        expected=(
            _ends(PUBLISHED, 0.078, 0.086),
            _ends(IMPROVED, 0.076, 0.081),
            _ends(FRESH, 0.076, 0.081),
        ),
    ),
    _preset(
        "A cloud of runs in a bent valley",
        look_for="Runs drop into the valley and creep along its kink: gradients on both sides nearly cancel, which is "
        "what Goldstein stationarity measures. Below the curves the function stands beside what is descended on.",
        experiment=_compared(BentValley(), 0.3, iterations=640, expected_norm=0.325),
        expected=(
            _ends(PUBLISHED, 0.5, 0.56),
            _ends(IMPROVED, 0.49, 0.54),
            _ends(FRESH, 0.5, 0.54),
        ),
    ),
    _preset(
        "Doctor visits, from values only",
        source="dpviz; RAND Health Insurance Experiment",
        look_for="20,190 rows are few where each is used once. No method gets as low as 0.31, which is what “everybody "
        "sees a doctor” comes to, not even without privacy; noise costs the published algorithm most.",
        experiment=_compared(
            CappedRegression(data=BundledTable(), radius=0.2, targets="unit"), 1.0, iterations=320, expected_norm=0.3
        ),
        expected=(
            _ends(PUBLISHED, 0.37, 0.41),
            _ends(IMPROVED, 0.35, 0.37),
            _ends(FRESH, 0.35, 0.37),
        ),
    ),
    _preset(
        "Theorem 4.3: in how many nodes is a row?",
        look_for="Open at “Running sums”: choose a row and a step, and the nodes of the tree light up; the paper's "
        "Remark 4.2 does so for steps 7 and 8. The paper charges every row for as many nodes as one of the first "
        "step is in: “Published noise” draws that noise, “Published” what the same guarantee needs.",
        experiment=_compared(
            PhaseRetrieval(), 0.3, (PUBLISHED, PAPER, IMPROVED, NAIVE, FRESH), iterations=1280, epoch_length=64
        ),
        expected=(_ends(PAPER, 0.18, 0.27), _ends(PUBLISHED, 0.15, 0.26), _ends(IMPROVED, 0.006, 0.1)),
        tab="Running sums",
    ),
    _preset(
        "Theorem 4.9: how many rows does it take?",
        look_for="Open at “Rows needed”: the bounds with their constants, the published rate, and that of the naive "
        "oracle (Appendix E), which is said never to reach the rate without privacy. Runs at n = 50,000 get down all "
        "the same: bounds are no forecasts.",
        experiment=_compared(PhaseRetrieval(dimension=10, gap=1.0), 1.0),
        expected=(_ends(IMPROVED, 0.001, 0.03),),
        tab="Rows needed",
    ),
)
