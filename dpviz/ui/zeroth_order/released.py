"""What a run of the zeroth-order methods on a user's file releases: the model by column, before any diagnostic."""

import math

import numpy as np
import pandas as pd

from dpviz.experiments.trace import Trace
from dpviz.numbers import short
from dpviz.problems.values.black_box import ReluNetwork, TableModel
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import released_model
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import plain

CONSTANT = "(constant)"
NAMED = 3  # of the coefficients, in words


def summary(panel: Panel, run: Run, trace: Trace) -> None:
    """What comes first in the results of a user's file; nothing for public data, whose curves come first."""
    problem = run.experiment.problem
    lanes = {label: lane for label, lane in trace.lanes.items() if lane.private and lane.output}
    if problem.public or not lanes or not isinstance(problem, TableModel):
        return
    model = _columns(problem)
    names = list(model["column"])
    if "unit" in model:
        names = [f"{name} (unit {unit})" for name, unit in zip(names, model["unit"], strict=True)]
    model = model.assign(**{label: lane.output["x"][0] for label, lane in lanes.items()})
    words = {label: _words(run.plans[label].iterations, lane.output["x"][0], names) for label, lane in lanes.items()}
    released_model.show(panel, run, words, model, meaning(problem))


def _columns(problem: TableModel) -> pd.DataFrame:
    """A row for each parameter: its column and the declared range of that; of a network also the unit that it is of."""
    facts = problem.data.facts()
    low, high = np.array(facts.bounds).T
    table = pd.DataFrame({"column": facts.names, "lowest": low, "highest": high})
    if problem.intercept:
        table.loc[len(table)] = [CONSTANT, np.nan, np.nan]
    if not isinstance(problem, ReluNetwork):
        return table
    units = np.repeat(np.arange(1, problem.units + 1), len(table))
    return pd.concat([table] * problem.units, ignore_index=True).assign(unit=units)


def _words(steps: int, x: np.ndarray, names: list[str]) -> str:
    """The released model in one sentence."""
    heaviest = np.argsort(-np.abs(x), kind="stable")[:NAMED]
    named = ", ".join(f"{plain(names[j])} {x[j]:+.3g}" for j in heaviest)
    return f"{steps:,} steps; largest coefficients: {named}."


def meaning(problem: TableModel) -> str:
    """How to predict with the coefficients."""
    facts = problem.data.facts()
    divisor = math.sqrt(problem.features) if problem.divisor is None else problem.divisor
    inputs = (
        "A row's inputs are its values, each scaled from its range to [-1, 1]"
        f"{', a category being 1 in its rows and -1 elsewhere' * bool(facts.blocks)}"
        f"{', and the constant 1' * problem.intercept}, all divided by {short(divisor, 6)}"
        f"{', and shortened to length 1 if they are longer' * (divisor < math.sqrt(problem.features))}."
    )
    symmetric = problem.targets == "symmetric"
    output = "the sum of coefficient × input"
    if isinstance(problem, ReluNetwork):
        half = -(-problem.units // 2)
        first = f"units 1 to {half}" if half > 1 else "unit 1"
        output = (
            f"the sum over {first} less that over the others, divided by √{problem.units}, each giving {output} where "
            "that is positive, else 0"
        )
    if facts.target is None:
        return f"{inputs} Predict the positive class where the output is above {0 if symmetric else '½'}: {output}."
    low, high = facts.target
    at, times = ((low + high) / 2, (high - low) / 2) if symmetric else (low, high - low)
    return f"{inputs} The prediction is {short(at, 6)} + {short(times, 6)} × the output: {output}."
