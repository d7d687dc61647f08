"""What a run of the accelerated methods on a user's file releases: the model by column, before any diagnostic."""

import numpy as np
import pandas as pd

from dpviz.experiments.trace import Lane, Trace
from dpviz.numbers import short
from dpviz.problems.linear_models import LogisticRegression
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import released_model
from dpviz.ui.experiment.run import Run
from dpviz.ui.uploads.file import plain

CONSTANT = "(constant)"
NAMED = 3  # of the coefficients, in words


def summary(panel: Panel, run: Run, trace: Trace) -> None:
    """What comes first in the results of a user's file; nothing for public data, whose curves come first."""
    problem = run.experiment.problem
    lanes = {label: lane for label, lane in trace.lanes.items() if lane.private and lane.output}
    if problem.public or not lanes or not isinstance(problem, LogisticRegression):
        return
    facts = problem.data.facts()
    low, high = np.array(facts.bounds).T
    table = pd.DataFrame({"column": facts.names, "lowest": low, "highest": high})
    if problem.intercept == "yes":
        table.loc[len(table)] = [CONSTANT, np.nan, np.nan]
    table = table.assign(**{label: lane.output["x"][0] for label, lane in lanes.items()})
    words = {label: _words(trace, label, lane, list(table["column"])) for label, lane in lanes.items()}
    interval = "[0, 1]" if problem.scaling == "unit" else "[-½, ½]"
    constant = {"unit": "1", "centred": "½"}[problem.scaling]
    meaning = (
        "A row is predicted positive where the sum of coefficient × value is above 0, each value scaled from its "
        f"declared range to {interval}{f', the constant being {constant}' * (problem.intercept == 'yes')}."
    )
    released_model.show(panel, run, words, table, meaning)


def _words(trace: Trace, label: str, lane: Lane, names: list[str]) -> str:
    """The released model in one sentence."""
    x, distance = lane.output["x"][0], trace.last(label, "distance")
    heaviest = np.argsort(-np.abs(x), kind="stable")[:NAMED]
    named = ", ".join(f"{plain(names[j])} {x[j]:+.3g}" for j in heaviest)
    travelled = f"it has travelled {short(float(distance[0]))} from the start; " if len(distance) else ""
    return f"{travelled}largest coefficients: {named}."
