"""Figures that only this family has: losses against trainings, bias beside noise, where settings went, what was learned
of a curve."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.results import quantiles
from dpviz.experiments.trace import Trace
from dpviz.families.bayesian_optimization.algorithms import TRAININGS
from dpviz.families.bayesian_optimization.outlook import LEVELS, Outlook, levels
from dpviz.numbers import short
from dpviz.plots import style
from dpviz.plots.lines import Limit, Line, Turn, line_figure, one_band
from dpviz.plots.style import ArmStyle

POINTS = 300  # along the axis of trainings
BIAS, NOISE = ArmStyle(style.PALETTE["private"], "solid"), ArmStyle(style.PALETTE["spent"], "dashdot")


def by_trainings(
    trace: Trace, metric_name: str, styles: Mapping[str, ArmStyle], *, height: int = style.HEIGHT
) -> go.Figure:
    """A metric against the trainings that each run had done: what was current after so many, median over the runs with
    a 10-90 % band. A run that has ended keeps its last value until the longest run of its method ends."""
    lines = []
    for label in trace.lanes:
        found = stepped(trace, label, metric_name)
        if found is not None:
            at, values = found
            low, median, high = quantiles(values).T
            several = bool((high > low).any())
            band = (low, high) if several else (None, None)
            lines.append(Line(at, median, label, styles[label], *band))
    metric = trace.metrics.get(metric_name)
    ends = {line.name: line.y[-1] for line in lines if trace.lanes[line.name].private}
    lines, notes = one_band(lines, min(ends, key=lambda label: ends[label], default=""))
    return line_figure(
        lines,
        x_title=TRAININGS.label,
        y_title=metric_name if metric is None else metric.label,
        log_y=metric is not None and metric.scale == "log",
        notes=notes,
        not_private=metric is not None and not trace.released(metric),
        height=height,
    )


def stepped(trace: Trace, label: str, metric_name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Numbers of trainings (k,), and the metric of what each run had after so many (k, R); None before any."""
    iterations, values = trace.series(label, metric_name)
    steps, trainings = trace.series(label, TRAININGS.name)
    if not len(iterations) or not len(steps):
        return None
    trainings = trainings[np.searchsorted(steps, iterations)]
    at = np.unique(np.linspace(0, trainings[-1].max(), POINTS).round())
    places = [np.searchsorted(done, at, side="right") - 1 for done in trainings.T]
    return at, np.stack([values[place, r] for r, place in enumerate(places)], axis=1)


# ------------------------------------------------------------------------------------------------------------- the plan


def bias_and_noise(found: Outlook, *, height: int = style.HEIGHT) -> go.Figure:
    """How long the planned bias of a step's gradient is against the bias level, beside its noise; below the point where
    they meet, trainings buy what drowns in noise. The level that is set and the one advised are marked."""
    if found.advice is None:
        return nothing("This budget buys no Gaussian noise, which DP-GIBO needs.")
    _, bias = levels(found)
    lines = [Line(LEVELS, bias, "bias", BIAS, value=False)]
    noise = found.advice.noise
    turns = [Turn(found.advice.level, f"advised {short(found.advice.level)}")]
    if found.method.batch_size is None and abs(np.log(found.method.bias_level / found.advice.level)) > 0.1:
        turns.append(Turn(found.method.bias_level, f"set {short(found.method.bias_level)}"))
    return line_figure(
        lines,
        x_title="Bias level ω",
        y_title="Length in a step's gradient",
        log_y=True,
        log_x=True,
        limits=[Limit(noise, f"noise {short(noise)}")] if noise > 0 else [],
        turns=turns,
        notes=[] if noise > 0 else ["without privacy there is no noise"],
        height=height,
    )


def trainings_by_level(found: Outlook, *, height: int = style.HEIGHT) -> go.Figure:
    """About how many trainings a run takes against the bias level; and what the other methods take."""
    trainings, _ = levels(found)
    others = [
        Limit(count, f"{label} {short(count)}") for label, count in found.trainings.items() if label != found.label
    ]
    turns = [] if found.advice is None else [Turn(found.advice.level, f"advised {short(found.advice.level)}")]
    return line_figure(
        [Line(LEVELS, trainings, found.label, BIAS, value=False)],
        x_title="Bias level ω",
        y_title="Trainings of a run, about",
        log_y=False,
        log_x=True,
        from_zero=True,
        limits=others[:1],
        turns=turns,
        height=height,
    )


def nothing(why: str) -> go.Figure:
    """A figure that says why there is none."""
    return line_figure([], x_title="", y_title="", log_y=False, if_empty=why)
