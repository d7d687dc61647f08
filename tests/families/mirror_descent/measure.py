"""Measure what `advice` says: `python -m tests.families.mirror_descent.measure [NAME ...]` writes `measured.json`.

Measures what the table lacks. Names of problems or of methods, as the table has them: these are measured anew. Run it
whenever a method, its defaults, or a generator changes; the tests compare cells of the table with new runs. Everything
takes about twenty minutes on one core.
"""

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from dpviz.datasets import categories, groups, synthetic
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.mirror_descent import advice, presets
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameFacts
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression

STRENGTHS = (0.25, 1.0, 4.0)  # ε
STRATEGIES: Mapping[type[ProblemSpecification], tuple[int, ...]] = {
    MatrixGame: (10, 30, 100, 300, 1000),
    QuadraticGame: (10, 30, 100, 300, 1000),
    CurvedGame: (30, 300),  # the dearest by far
}
# Vertex sampling once more: for erratum E1, which spends half of the budget on draws at the end, and was never better;
# and with a part of the budget kept for a certificate.
UNMEASURED = ("Fresh draws", presets.CERTIFIED)


def problems() -> Iterator[tuple[ProblemSpecification, ...]]:
    """The problems that are measured: for each one that has advice of its own, from its smallest size on."""
    structures = next(c.options for c in synthetic.LatentGame.controls() if c.name == "structure") or {}
    for cls, sizes in STRATEGIES.items():
        for structure in structures:
            chosen = sizes if structure == synthetic.LatentGame().structure else (30, 300)
            data = [synthetic.LatentGame(structure=structure, strategies_x=d, strategies_y=d) for d in chosen]
            yield tuple(cls(data=rows) for rows in data)  # type: ignore[call-arg]
    yield tuple(GroupLoss(data=groups.GroupedSigns(dimension=d)) for d in (10, 30, 100))
    yield (GroupLoss(loss="logistic"),)
    yield tuple(LossMatrix(data=groups.GroupedLosses(dimension=d)) for d in (10, 30, 100, 300))
    yield MarginalQueries(), MarginalQueries(data=categories.CategoricalBundled())
    yield tuple(SparseRegression(dimension=d) for d in (20, 100, 500))
    yield tuple(Portfolio(dimension=d) for d in (10, 100, 300))
    for shape, sizes in (("box", (2, 5, 8)), ("monotone", (2, 5, 10))):
        yield tuple(PolytopeRegression(shape=shape, dimension=d) for d in sizes)


def arms_at_defaults(problem: type[ProblemSpecification], rounds: int) -> tuple[Arm, ...]:
    """Every method offered for a problem as the page has it at first, but for the number of rounds."""
    defaults: dict[str, Any] = {}  # of the first method that has the setting, as on the page
    for control in (control for method in presets.METHODS.values() for control in type(method).controls()):
        defaults.setdefault(control.name, control.default)
    shared = {name: value for name, value in defaults.items() if name not in presets.BY_NAME}
    return presets.arms(presets.offered(problem)[0], **(shared | {"iterations": rounds}))


def seeded(problem: ProblemSpecification, seed: int) -> ProblemSpecification:
    """The same problem on another data set; itself if its rows are given."""
    if "seed" in type(problem).model_fields:
        return problem.replaced(seed=seed)
    data = getattr(problem, "data")  # noqa: B009 (declared by those problems that have no seed of their own)
    return problem.replaced(data=data.replaced(seed=seed)) if "seed" in type(data).model_fields else problem


def medians(
    problem: ProblemSpecification, arms: tuple[Arm, ...], budget: Budget, seeds: tuple[int, ...] = advice.DATA_SEEDS
) -> dict[str, float]:
    """Median of the error over runs on several data sets, by label; without the methods that have no plan."""
    metric = "worst_query_error" if isinstance(problem, MarginalQueries) else "duality_gap"
    found: dict[str, list[np.ndarray]] = {}
    for seed in seeds if arms else ():
        base = Experiment(
            problem=seeded(problem, seed), arms=arms, budget=budget, replicates=advice.REPLICATES, seed=seed
        )
        planned = tuple(arm for arm in arms if _has_plan(base, arm))
        if not planned:
            return {}
        trace = base.replaced(arms=planned).run()
        for arm in planned:
            found.setdefault(arm.label, []).append(trace.last(arm.label, metric))
    values = {label: float(np.median(np.concatenate(series))) for label, series in found.items()}
    return {label: value for label, value in values.items() if np.isfinite(value)}


def uniform_error(problem: ProblemSpecification) -> float:
    """The error of playing all strategies alike, median over the data sets."""
    values = []
    for seed in advice.DATA_SEEDS:
        game = seeded(problem, seed).build()
        assert isinstance(game.facts, GameFacts)
        x, y = game.facts.uniform(1)
        found = game.evaluate({"x": x, "y": y})
        values.append(found.get("worst_query_error", found["duality_gap"])[0])
    return float(np.median(values))


def cell(problem: ProblemSpecification, pure: bool, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All numbers of one problem at one size; known : the same without some methods, which are then measured alone."""
    budgets = [PureDP(epsilon=e) if pure else ApproximateDP(epsilon=e, delta=1e-6) for e in STRENGTHS]
    facts = GameFacts.of(problem.facts())
    offered, _ = presets.offered(type(problem))
    old = {label: value for label, value in known["medians"].items() if label in offered} if known else {}
    columns: dict[str, list[list[float]]] = {}
    for rounds in advice.ROUNDS:
        arms = tuple(arm for arm in arms_at_defaults(type(problem), rounds) if arm.label not in (*old, *UNMEASURED))
        if rounds != advice.ROUNDS[0]:
            arms = tuple(arm for arm in arms if "iterations" in type(arm.algorithm).model_fields)
        found = [medians(problem, arms, budget) for budget in budgets]
        for label in found[0]:
            columns.setdefault(label, []).append([float(f"{by_label[label]:.3g}") for by_label in found])
    return {
        "rows": facts.n,
        "size": _size(problem),
        "signals": [float(f"{advice.signal_of(facts, budget):.6g}") for budget in budgets],
        "uniform": known["uniform"] if known else float(f"{uniform_error(problem):.3g}"),
        "medians": {**old, **columns},
    }


def _size(problem: ProblemSpecification) -> int:
    facts = GameFacts.of(problem.facts())
    return max(facts.d_x, facts.d_y)


def _has_plan(experiment: Experiment, arm: Arm) -> bool:
    try:
        experiment.plan(arm)
    except UserError:
        return False
    return True


def main(anew: Collection[str]) -> None:
    """Measure what the table lacks, and the problems or methods that are named; write the table."""
    table: dict[str, Any] = json.loads(advice.TABLE.read_text()) if advice.TABLE.exists() else {}
    for sizes in problems():
        key = advice.table_key(sizes[0])
        kept = {} if key in anew else table.get(key, {})
        for currency in ("approximate", "pure"):
            cells = {found["size"]: found for found in kept.get(currency, [])}
            for found in cells.values():
                found["medians"] = {label: value for label, value in found["medians"].items() if label not in anew}
            measured = [cell(problem, currency == "pure", cells.get(_size(problem))) for problem in sizes]
            table.setdefault(key, {})[currency] = measured
        lines = [f"{json.dumps(name)}: {json.dumps(found, separators=(',', ':'))}" for name, found in table.items()]
        advice.TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
