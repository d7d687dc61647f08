"""Methods by name, and experiments, the paper's tables among them (Gao and Wright 2023; numbers: THEORY.md, sections 6
and 7)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpviz.datasets.bundled import CovertypeLike
from dpviz.experiments import preset
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.second_order.comparison import EPSILONS, ROWS, TABLES, TARGETS, Mode, Tolerances, rho_of
from dpviz.families.second_order.methods import algorithms
from dpviz.privacy.budgets import ApproximateDP, ZeroConcentratedDP
from dpviz.problems.nonconvex.nonconvex import LogisticTukey
from dpviz.sweeps.sweep import Sweep

FIRST_ORDER = "First order only"
PERTURBED = "DP-GD, perturbed"
METHODS: Mapping[str, algorithms.NonconvexMethod] = preset.methods(__package__)
DEFAULT_METHODS = ("OPT", FIRST_ORDER, PERTURBED)
BY_NAME = ("curvature", "phases")  # settings that follow from the name of a method
REFERENCE = "OPT, no privacy"


def arms(labels: Sequence[str], *, references: bool = False, **settings: Any) -> tuple[Arm, ...]:
    """Return an arm for each method named by `labels`; `settings` apply to all methods that have such a field.

    references : adds OPT without privacy.
    """
    private = {label: METHODS[label].adopting(settings) for label in labels}
    return preset.arms(private, {REFERENCE: METHODS["OPT"].adopting(settings)} if references else {})


def paper(tolerances: Tolerances, epsilon: float = 1.0, mode: Mode = "honest") -> Experiment:
    """Return the experiment of one of the paper's two tables at one of its budgets.

    tolerances : the table, "loose" or "tight". epsilon : ε of the budget, a column of the table.
    mode : "honest" runs at the budget that is claimed, with the constants that follow from the loss (THEORY.md, 7.3 and
        7.4). "published" runs with the noise that the paper draws for its n rows, with its constants and sensitivities,
        but on fewer rows (7.2); the budget is then the guarantee of that noise for these rows. It leaves mini-batches
        out: their published noise has no guarantee worth stating (E1).
    """
    alpha, curvature = TARGETS[tolerances]
    shared: dict[str, Any] = {"gradient_target": alpha, "curvature_target": curvature, "curvature": "always"}
    labels = [label for label in METHODS if label in TABLES[tolerances]]
    if mode == "published":
        shared["curvature_target"] = math.sqrt(alpha)  # TARGETS has the three digits that the paper prints
        data = CovertypeLike(rows=10_000)
        without_batches = [label for label in labels if not label.endswith("-B")]
        return Experiment(
            problem=LogisticTukey(
                data=data, start="random", gap=0.5, smoothness=1.0, hessian_lipschitz=1.0, hessian_bound="spectral"
            ),
            arms=arms(without_batches, hessian_noise="upper", carry_over=False, trust_radius="published", **shared),
            budget=ZeroConcentratedDP(rho=rho_of(epsilon) * (ROWS / data.rows) ** 2),  # the cost of that noise here
            replicates=5,
        )
    data = CovertypeLike(rows=80_000)
    return Experiment(
        problem=LogisticTukey(data=data, start="random", gap=0.5),
        arms=arms(labels, batch_fraction=0.1, **shared),
        budget=ApproximateDP(epsilon=epsilon, delta=1 / data.rows),
        replicates=5,
    )


def table_sweep(tolerances: Tolerances, mode: Mode) -> Sweep:
    """Return the sweep over all budgets of a table, as experiments of `paper`.

    Its values, in the currency of the budget, are in the order of `comparison.EPSILONS`.
    """
    experiment = paper(tolerances, EPSILONS[-1], mode)
    budgets = [paper(tolerances, epsilon, mode).budget for epsilon in EPSILONS]
    name = budgets[0].controls()[0].name  # the first control is of the budget's amount
    values = tuple(float(getattr(budget, name)) for budget in budgets)
    return Sweep(experiment=experiment, fields=(f"budget.{name}",), values=values, metric="objective")


PRESETS: tuple[preset.Preset, ...] = preset.load(__package__)
