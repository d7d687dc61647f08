"""Measure what `measured` says: `python -m dpviz.families.zeroth_order.measure [NAME ...]` writes `measured.json`.

Measures what the table lacks. Names of problems, as the table has them, or "presets": these are measured anew. Run it
whenever a method, its defaults, a generator or a preset changes; the tests compare cells of the table with new runs.
Everything takes about half an hour on one core, less on more.
"""

import json
import multiprocessing
import sys
from collections.abc import Collection
from typing import Any

import numpy as np

from dpviz.datasets import SphereLinear
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.families.zeroth_order import measured, presets
from dpviz.families.zeroth_order.advice import WAYS
from dpviz.privacy.budgets import Budget, GaussianDP
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.black_box import BentValley, BlackBox, CappedRegression, PhaseRetrieval
from dpviz.problems.value_problem import ValueProblem

STRENGTHS = (0.1, 0.3, 1.0, 3.0)  # μ
LENGTHS, LONG = (8, 16, 32, 64), (128,)  # T; and of the page's first function, which is not dear


def problems() -> tuple[tuple[BlackBox, ...], ...]:
    """The problems that are measured, in every size and with every smoothing radius."""
    seed = {"seed": measured.SEED}
    regression = CappedRegression(data=SphereLinear(**seed), cap=0.5, radius=0.2, intercept=False, divisor=1.0)
    return (
        tuple(PhaseRetrieval(dimension=d, radius=r, **seed) for d in (6, 20) for r in (0.1, 0.2)),
        (BentValley(**seed),),
        (regression,),
    )


def ends(problem: ValueProblem, method: AnyAlgorithm, budget: Budget, replicates: int, seed: int) -> np.ndarray:
    """(R,) the objective of what runs of a method return."""
    plan = method.plan(problem.facts, budget)
    *_, last = method.run(problem, plan, Mechanisms(Ledger(plan.terms, replicates), seed))
    return problem.evaluate_cheap(last.output)["objective"]


def median(problem: ValueProblem, method: AnyAlgorithm, mu: float, length: int, epochs: int) -> float:
    """One number of the table."""
    own = method.replaced(epoch_length=length, iterations=length * epochs)
    found = ends(problem, own, GaussianDP(mu=mu), measured.REPLICATES, measured.SEED)
    return float(f"{np.median(found):.3g}")


def cell(problem: BlackBox) -> dict[str, Any]:
    """All numbers of one problem at one size and with one radius."""
    built = problem.build()
    facts, start = built.facts, built.evaluate_cheap({"x": built.facts.starting_point(1)})["objective"][0]
    lengths = LENGTHS + LONG * isinstance(problem, PhaseRetrieval)
    medians = {
        way.name: [
            [[median(built, way.method(), mu, T, K) for K in measured.EPOCHS] for T in lengths] for mu in STRENGTHS
        ]
        for way in WAYS
    }
    return {
        "problem": json.loads(problem.to_json()),
        "size": facts.d,
        "radius": facts.radius,
        "start": float(f"{start:.4g}"),
        "lengths": lengths,
        "signals": [facts.n * mu for mu in STRENGTHS],
        "medians": medians,
    }


def preset_medians(name: str) -> dict[str, float]:
    """Medians of all methods of a preset, and the objective at its start."""
    experiment = next(preset.experiment for preset in presets.PRESETS if preset.name == name)
    problem = experiment.problem.build()
    assert isinstance(problem, ValueProblem)
    found = {"start": problem.evaluate_cheap({"x": problem.facts.starting_point(1)})["objective"]}
    for arm in experiment.arms:
        found[arm.label] = ends(problem, arm.algorithm, arm.budget or experiment.budget, measured.PRESET_RUNS, 0)
    return {label: float(f"{np.median(values):.3g}") for label, values in found.items()}


def main(anew: Collection[str]) -> None:
    """Measure what the table lacks, and what is named; write the table."""
    known: dict[str, Any] = json.loads(measured.TABLE.read_text()) if measured.TABLE.exists() else {}
    table = known.get("advice", {})
    names = [preset.name for preset in presets.PRESETS]
    missing = [sizes for sizes in problems() if (name := measured.key(sizes[0])) not in table or name in anew]
    cells = [problem for sizes in missing for problem in sizes]
    with multiprocessing.Pool() as pool:
        if "presets" in anew or set(known.get("presets", {})) != set(names):
            known["presets"] = dict(zip(names, pool.map(preset_medians, names, chunksize=1), strict=True))
        measured_cells = pool.map(cell, cells, chunksize=1)
    for sizes in missing:
        table[measured.key(sizes[0])] = []
    for problem, found in zip(cells, measured_cells, strict=True):
        table[measured.key(problem)].append(found)
    text = json.dumps({"presets": known["presets"], "advice": table}, separators=(",", ":"))
    measured.TABLE.write_text(text.replace('{"problem"', '\n{"problem"').replace('"advice"', '\n"advice"') + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
