"""What a run of the accelerated methods on a user's file releases: the model by column, before any diagnostic."""

import math
from collections.abc import Mapping

import numpy as np
import streamlit as st

from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.numbers import short, short_up
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.ui import explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import released_model
from dpviz.ui.experiment.run import Run
from dpviz.ui.markdown import plain


def summary(panel: Panel, run: Run, trace: Trace) -> None:
    """What comes first in the results of a user's file; nothing for public data, whose curves come first."""
    problem = run.experiment.problem
    lanes = released_model.of_each(trace)
    if problem.public or not lanes or not isinstance(problem, LinearModel):
        return
    table = released_model.coefficients(problem.data.facts(), problem.intercept == "yes")
    table = table.assign(**{label: lane.output["x"][0] for label, lane in lanes.items()})
    words = {label: _words(lane, list(table["column"])) for label, lane in lanes.items()}
    released_model.show(panel, run, words, table, _meaning(problem))


def _meaning(problem: LinearModel) -> str:
    """How to predict with the coefficients."""
    facts = problem.data.facts()
    interval = "[0, 1]" if problem.scaling == "unit" else "[-½, ½]"
    constant = {"unit": "1", "centred": "½"}[problem.scaling]
    predicted = "A row is predicted positive where the sum of coefficient × value is above 0"
    if facts.target is not None:
        low, high = facts.target
        middle, half = short((low + high) / 2, 6), short((high - low) / 2, 6)
        predicted = f"The prediction for a row is {middle} + {half} × the sum of coefficient × value"
    return (
        f"{predicted}, each value scaled from its range to {interval}"
        f"{', a category being 1 in its rows and 0 elsewhere' * bool(facts.blocks)}"
        f"{f', the constant being {constant}' * (problem.intercept == 'yes')}."
    )


def verdict(run: Run, trace: Trace, diagnostics: bool) -> None:
    """Which models are no better than a guess, and how many rows the clip reaches, where there is one: read off the raw
    rows, for who may see diagnostics."""
    problem = run.experiment.problem
    if not diagnostics or not isinstance(problem, LinearModel):
        return
    useless(trace, problem)
    if not run.has_data or problem.clip is None:
        return
    share = _reached(problem.to_json(), run.tables)
    what = {"rows": "these are scaled down to it", "gradients": "their gradients can be longer, and are cut to it then"}
    reaches = f"reaches {short(100 * share)} % of the rows: {what[problem.clipping]}" if share else "reaches no row"
    explain.read_off(f"**The clip** C = {short(problem.clip)} {reaches}.")
    st.caption("Counted in the raw data. A smaller C needs less noise, but changes more rows.")


def useless(trace: Trace, problem: LinearModel) -> None:
    """Say which models do no better than the majority's class, or the median, for every row."""
    known = {name: found for name in trace.metrics if (found := trace.guess(name)) is not None}
    if not known:
        return
    name, (guess, reached) = next(iter(known.items()))
    sign = 1 if guess.better == "higher" else -1
    # Of a share of n rows the standard error; of errors, which have no such law, a hundredth.
    margin = math.sqrt(reached * (1 - reached) / problem.facts().n) if guess.better == "higher" else reached / 100
    ends = {label: float(np.median(trace.last(label, name))) for label in trace.lanes if len(trace.last(label, name))}
    below = [f"{plain(label)} {short(end, 4)}" for label, end in ends.items() if not sign * (end - reached) > margin]
    if below:
        st.warning(
            f"{guess.label} reaches {short(reached, 4)} in “{trace.metrics[name].label}”, and these no more than "
            f"{short_up(margin, 2)} better: {', '.join(below)}. Medians over the runs, at their ends. A smaller loss "
            "can still mean better probabilities. **Not private**: read off the raw data.",
            title="No better than a constant guess",
            icon=":material/rule:",
        )


@st.cache_data(max_entries=32, scope="session", show_spinner=False)
def _reached(text: str, _tables: Mapping[str, np.ndarray]) -> float:
    """The share of rows that the clip of a problem, given as its JSON text, reaches."""
    problem = LinearModel.from_json(text)
    built = problem.build(_tables)
    return built.shortened_share if problem.clipping == "rows" else built.clipped_share


def _words(lane: ArmTrace, names: list[str]) -> str:
    """The released model in one sentence."""
    x, distance = lane.output["x"][0], lane.last("distance")
    travelled = f"it has travelled {short(float(distance[0]))} from the start; " if len(distance) else ""
    return f"{travelled}largest coefficients: {released_model.heaviest(x, names)}."
