"""Measure what `measured` says: `python -m tests.families.zeroth_order.measure [NAME ...]` writes `measured.json`.

Measures what the table lacks. Names of problems, as the table has them, "presets" or "default": measured anew. Run it
whenever a method, its defaults, a generator or a preset changes; the tests compare cells of the table with new runs.
Everything takes about 40 minutes on one core, less on more.
"""

import json
import multiprocessing
import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from dpviz.datasets import SphereLinear
from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.families.zeroth_order import advice, conversion, presets
from dpviz.families.zeroth_order.algorithms import Naive, VarianceReduced
from dpviz.privacy import ledger, mechanisms
from dpviz.privacy.budgets import Budget, GaussianDP, NoPrivacy
from dpviz.problems.values.black_box import BentValley, BlackBox, CappedRegression, PhaseRetrieval, ReluNetwork, Votes
from dpviz.problems.values.value_problem import ValueProblem

STRENGTHS = (0.1, 0.3, 1.0, 3.0)  # μ
DEFAULT: Mapping[str, conversion.Conversion] = {  # the ways of THEORY.md, section 8
    "as published": VarianceReduced(),
    "square-root sums": VarianceReduced(sums="square_root"),
    "orthonormal directions": VarianceReduced(directions="orthonormal"),
    "and optimal sums": VarianceReduced(directions="orthonormal", sums="optimal"),
    "and batches that follow the moves": VarianceReduced(directions="orthonormal", sums="optimal", follow_moves=True),
    "independent noise": VarianceReduced(sums="independent"),
    "naive, one direction": Naive(),
    "naive, orthonormal": Naive(directions="orthonormal", directions_per_row=None),
}
DEFAULT_BUDGETS: Mapping[str, Budget] = {f"{mu:g}": GaussianDP(mu=mu) for mu in (0.3, 1.0, 3.0)} | {"": NoPrivacy()}
DATA_SEEDS = range(3)
LENGTHS, LONG = (8, 16, 32, 64), (128,)  # T; and of the page's first function, which is not expensive


def problems() -> tuple[tuple[BlackBox, ...], ...]:
    """The problems that are measured, in every size and with every smoothing radius; votes as votes, not as ratings."""
    seed = {"seed": advice.SEED}
    regression = CappedRegression(data=SphereLinear(**seed), cap=0.5, radius=0.2, intercept=False, divisor=1.0)
    line = SphereLinear(dimension=3, outliers=0.0, **seed)
    return (
        tuple(PhaseRetrieval(dimension=d, radius=r, **seed) for d in (6, 20) for r in (0.1, 0.2)),
        (BentValley(**seed),),
        (regression,),
        (Votes(radius=0.2, **seed),),
        (ReluNetwork(data=line, radius=0.2, intercept=False, divisor=1.0),),
    )


def ends(problem: ValueProblem, method: AnyAlgorithm, budget: Budget, replicates: int, seed: int) -> np.ndarray:
    """(R,) the objective of what runs of a method return."""
    plan = method.plan(problem.facts, budget)
    *_, last = method.run(problem, plan, mechanisms.Mechanisms(ledger.Ledger(plan.terms, replicates), seed))
    return problem.evaluate(last.output, expensive=False)["objective"]


def median(problem: ValueProblem, method: AnyAlgorithm, mu: float, length: int, epochs: int) -> float:
    """One number of the table."""
    own = method.replaced(epoch_length=length, iterations=length * epochs)
    found = ends(problem, own, GaussianDP(mu=mu), advice.REPLICATES, advice.SEED)
    return float(f"{np.median(found):.3g}")


def cell(problem: BlackBox) -> dict[str, Any]:
    """All numbers of one problem at one size and with one radius."""
    built = problem.build()
    facts, start = built.facts, built.evaluate({"x": built.facts.starting_point(1)}, expensive=False)["objective"][0]
    lengths = LENGTHS + LONG * isinstance(problem, PhaseRetrieval)
    medians = {
        way.name: [
            [[median(built, way.method(), mu, T, K) for K in advice.EPOCHS] for T in lengths] for mu in STRENGTHS
        ]
        for way in advice.WAYS
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
    found = {"start": problem.evaluate({"x": problem.facts.starting_point(1)}, expensive=False)["objective"]}
    for arm in experiment.arms:
        found[arm.label] = ends(problem, arm.algorithm, arm.budget or experiment.budget, advice.PRESET_RUNS, 0)
    return {label: float(f"{np.median(values):.3g}") for label, values in found.items()}


def of_the_default(name: str, budget: str) -> tuple[float, float, float]:
    """Of runs on the page's first function, drawn from three seeds: the least and the largest mean of the objective
    over the ends of all epochs, and the median of the last."""
    method, means, lasts = DEFAULT[name], [], []
    for seed in DATA_SEEDS:
        problem = PhaseRetrieval(seed=seed).build()
        plan = method.plan(problem.facts, DEFAULT_BUDGETS[budget])
        steps = method.run(problem, plan, mechanisms.Mechanisms(ledger.Ledger(plan.terms, advice.PRESET_RUNS), seed))
        length = plan.resolved["epoch_length"]
        ended = (step.output for step in steps if step.iteration and step.iteration % length == 0)
        found = np.array([problem.evaluate(output, expensive=False)["objective"] for output in ended])
        means.append(float(found.mean()))
        lasts.append(found[-1])
    low, high, median = (float(f"{number:.3g}") for number in (min(means), max(means), np.median(lasts)))
    return low, high, median


def main(anew: Collection[str]) -> None:
    """Measure what the table lacks, and what is named; write the table."""
    known: dict[str, Any] = json.loads(advice.TABLE.read_text()) if advice.TABLE.exists() else {}
    table = known.get("advice", {})
    names = [preset.name for preset in presets.PRESETS]
    missing = [sizes for sizes in problems() if (name := advice.table_key(sizes[0])) not in table or name in anew]
    cells = [problem for sizes in missing for problem in sizes]
    with multiprocessing.Pool() as pool:
        if "presets" in anew or set(known.get("presets", {})) != set(names):
            known["presets"] = dict(zip(names, pool.map(preset_medians, names, chunksize=1), strict=True))
        if "default" in anew or "default" not in known:
            asked = [
                (name, budget) for budget in DEFAULT_BUDGETS for name in DEFAULT if budget or name == "as published"
            ]
            numbered = pool.starmap(of_the_default, asked, chunksize=1)
            known["default"] = {budget: {} for budget in DEFAULT_BUDGETS}
            for (name, budget), numbers in zip(asked, numbered, strict=True):
                known["default"][budget][name] = numbers
        measured_cells = pool.map(cell, cells, chunksize=1)
    for sizes in missing:
        table[advice.table_key(sizes[0])] = []
    for problem, found in zip(cells, measured_cells, strict=True):
        table[advice.table_key(problem)].append(found)
    write({**known, "advice": table})


def write(table: Mapping[str, Any]) -> None:
    """Write the table, a line for each part of it and each problem."""
    text = json.dumps(table, separators=(",", ":"))
    for part in ('{"problem"', '"advice"', '"default"'):
        text = text.replace(part, f"\n{part}")
    advice.TABLE.write_text(f"{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
