"""Results of a run of the zeroth-order methods beyond curves: stationarity, clipping, and the ground below the runs;
and for a run on a user's file the released model by column, before any diagnostic.
"""

import math

import numpy as np
import pandas as pd
import streamlit as st

from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import figures, texts
from dpviz.numbers import short
from dpviz.plots.elements.style import arm_styles
from dpviz.problems.values.black_box import BlackBox, ReluNetwork, TableModel
from dpviz.ui import charts, explain
from dpviz.ui.controls import Panel
from dpviz.ui.experiment import released_model
from dpviz.ui.experiment.plan import Shown
from dpviz.ui.experiment.run import Run
from dpviz.ui.zeroth_order import live

MUCH = 0.05  # share that clipping takes away, above which it is a warning


def extra(panel: Panel, run: Run, trace: Trace, diagnostics: bool) -> Shown:
    """Draw the length of the noisy gradients, the stationarity of the runs, and for two parameters the raw and the
    smoothed ground; return the charts."""
    left, right = st.columns(2, gap="medium")
    with left:
        drawings = _norms(panel, run, trace)
    if not diagnostics:
        return drawings
    for column, metric in zip((right, left), figures.STATIONARITY, strict=True):
        with column:
            drawings += _stationarity(panel, run, trace, metric)
    return drawings + (_grounds(panel, run, trace) if live.has_landscape(run.experiment.problem) else [])


def _norms(panel: Panel, run: Run, trace: Trace) -> Shown:
    """Draw the length of the released gradients next to that of the noise in them; return the chart, if any."""
    experiment = run.experiment
    privacy = explain.released(experiment, experiment.replicates)
    chart = figures.norms(trace, run.plans, arm_styles(experiment.arms), privacy)
    return [charts.show(chart, panel.key("chart_norms"))] if chart.figure.data else []


def _stationarity(panel: Panel, run: Run, trace: Trace, metric: str) -> Shown:
    """Draw a metric of stationarity with the error of its sample of rows; return the chart, if any."""
    experiment, problem = run.experiment, run.experiment.problem
    privacy = explain.diagnostic(experiment.replicates, problem.public)
    chart = figures.stationarity(trace, metric, arm_styles(experiment.arms), privacy)
    if chart.figure.data:
        return [charts.show(chart, panel.key(f"chart_{figures.STATIONARITY[metric]}"))]
    if metric == "stationarity_bound" and isinstance(problem, BlackBox) and not problem.loss().continuous:
        st.caption(texts.NO_STATIONARITY)
    return []


def _grounds(panel: Panel, run: Run, trace: Trace) -> Shown:
    """Draw the objective next to the smoothed objective, on which the method descends; return the charts."""
    landscapes = {smoothed: live.landscape(run, trace, smoothed) for smoothed in (False, True)}
    keyed = [
        (chart, panel.key(f"chart_ground_{smoothed}")) for smoothed, chart in landscapes.items() if chart is not None
    ]
    return charts.beside(*keyed)


def verdict(_: Run, trace: Trace, diagnostics: bool) -> None:
    """Say how much clipping took away at the end of the run; only with diagnostics."""
    if not diagnostics:
        return
    clipped = {
        label: (float(shares.mean()), float(masses.mean()))
        for label, arm_trace in trace.lanes.items()
        if len(shares := arm_trace.last("clipped_share")) and len(masses := arm_trace.last("clipped_mass"))
    }
    if not clipped:
        return
    label, (share, mass) = max(clipped.items(), key=lambda item: item[1])
    explain.read_off(f"**Clipped**: {texts.clipped(share, mass, label)}")
    if mass > MUCH:
        st.warning(texts.MUCH_CLIPPED, title="Clipping changes the function")


def summary(panel: Panel, run: Run, trace: Trace) -> None:
    """Draw the released model as the first result of a user's file; nothing for public data."""
    problem = run.experiment.problem
    arm_traces = released_model.of_each(trace)
    if problem.public or not arm_traces or not isinstance(problem, TableModel):
        return
    model = _columns(problem)
    names = list(model["column"])
    if "unit" in model:
        names = [f"{name} (unit {unit})" for name, unit in zip(names, model["unit"], strict=True)]
    model = model.assign(**{label: arm_trace.output["x"][0] for label, arm_trace in arm_traces.items()})
    sentences = {
        label: f"{run.plans[label].iterations:,} steps; largest coefficients: "
        f"{released_model.heaviest(arm_trace.output['x'][0], names)}."
        for label, arm_trace in arm_traces.items()
    }
    released_model.show(panel, run, sentences, model, meaning(problem))


def _columns(problem: TableModel) -> pd.DataFrame:
    """Return a table with a row for each parameter: its column, the declared range, and for a network its unit."""
    table = released_model.coefficients(problem.data.facts(), problem.intercept)
    if not isinstance(problem, ReluNetwork):
        return table
    units = np.repeat(np.arange(1, problem.units + 1), len(table))
    return pd.concat([table] * problem.units, ignore_index=True).assign(unit=units)


def meaning(problem: TableModel) -> str:
    """Explain how to predict with the coefficients."""
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
    offset, factor = ((low + high) / 2, (high - low) / 2) if symmetric else (low, high - low)
    return f"{inputs} The prediction is {short(offset, 6)} + {short(factor, 6)} × the output: {output}."
