"""Figures that only this family has.

Of a run: losses against trainings, the lengths of gradient, bias and noise, the paths of settings, and the process
along one setting. Before a run: bias and trainings against the bias level, error bounds, ε after each step, the best
attacks, and the cost of random stopping.

In a figure a `Limit` is a labelled horizontal line, a `VerticalLine` a vertical one, a `Mark` a point with a hover
text. `bound="upper"` rounds numbers of the y axis up. Arrays of plotly's traces have small types, as pages load them.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import INTERNAL
from dpviz.experiments.plan import Plan, Privacy
from dpviz.experiments.results import quantiles
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families.bayesian_optimization import algorithms, planning, posterior_slice, texts
from dpviz.families.bayesian_optimization.forecast import AMPLITUDE, LEVELS, Forecast, prior_trace
from dpviz.families.bayesian_optimization.planning import Landscape
from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart, provenance
from dpviz.plots.elements.lines import (
    Limit,
    Line,
    Mark,
    VerticalLine,
    empty_figure,
    line_figure,
    on_curve,
    one_band,
    staircases,
)
from dpviz.plots.elements.style import ArmStyle
from dpviz.plots.plan_figures import PLANNED
from dpviz.plots.planner_figures import RATES, attackers
from dpviz.privacy import events, tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.problems.tuning.tuning import TuningFacts

SYMBOLS = ("circle", "x", "diamond", "square", "triangle-up", "cross")  # a marker for each method
POINTS = 300  # along the axis of trainings
SMALL_PART = 20  # a twentieth of all that a curve falls counts as little
BIAS = ArmStyle(style.PALETTE["private"], "solid")
# Lengths in a step's gradient: name of the series, name of the line, and its style. Lines differ in their dash, too.
GRADIENT_LINES = (
    ("internal_gradient_norm", "mean clipped gradient", ArmStyle(style.PALETTE["theory"], "solid")),
    (algorithms.NOISY_NORM.name, "released, with noise", ArmStyle(style.GREY, "solid")),
    (algorithms.UNCERTAINTY.name, "bias bound", ArmStyle(style.PALETTE["private"], "dash")),
    ("internal_gradient_error", "its true error", ArmStyle(style.PALETTE["second"], "longdash")),
    ("internal_exact_gradient_norm", "exact gradient", ArmStyle(style.PALETTE["theory"], "dot")),
)
SECRET = frozenset(line_name for name, line_name, _ in GRADIENT_LINES if name.startswith(INTERNAL))
NOISE = ArmStyle(style.PALETTE["spent"], "dashdot")
TRUTH, EXPECTED = ArmStyle(style.GREY, "dash"), ArmStyle(style.PALETTE["private"], "solid")

STEPS = np.unique(np.geomspace(1, 200, 60).round().astype(int))  # numbers of steps of the bounds
TRIES = np.geomspace(2, 1000, 25)  # mean numbers of tries of random stopping
FAILURE = 0.05  # ζ, probability with which a bound may fail
BOUNDS = (  # name and style of each error bound
    ("in the mean", ArmStyle(style.PALETTE["private"], "solid")),
    ("in 95 % of runs", ArmStyle(style.PALETTE["theory"], "dash")),
    ("as published", ArmStyle(style.GREY, "dot")),
)
STOPPING: tuple[tuple[planning.Stopping, str, ArmStyle], ...] = (
    ("logarithmic", "logarithmic law (η = 0)", ArmStyle(style.PALETTE["private"], "solid")),
    ("geometric", "geometric law (η = 1)", ArmStyle(style.PALETTE["theory"], "dash")),
)
NAIVE = ("every try released", ArmStyle(style.GREY, "dot"))


def by_trainings(
    trace: Trace,
    metric_name: str,
    styles: Mapping[str, ArmStyle],
    spent: Mapping[str, np.ndarray] | None = None,
    title: str = algorithms.TRAININGS.label,
    *,
    is_finished: bool = True,
    height: int = style.ALONE,
) -> tuple[go.Figure, str]:
    """Draw a metric against the trainings that each run has done; return also a sentence for the caption, on the number
    of trainings after which further ones gain little, or an empty one.

    Lines are medians over the runs of the value that was current after a number of trainings, with a 10-90 % band. From
    where the first run of a method has ended, its line goes on thin and without a band: runs that have ended keep their
    last value there. (It is not dotted, as dotted lines are those without privacy.) A method that selects a setting
    only once, at its end, is a point. If all runs have ended, a mark on the lowest private line shows what the sentence
    says.

    spent : the privacy spent, (t+1,) by label, to draw against in place of the trainings. title : of the horizontal
    axis. is_finished : True if all runs have ended.
    """
    lines: list[Line] = []
    thin_lines: list[Line] = []
    last_medians: dict[str, float] = {}  # of the private methods
    curves: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # of the methods that are lines, not points
    for label, arm_trace in trace.arm_traces.items():
        curve = stepped(trace, label, metric_name) if spent is None else _over_spent(trace, label, metric_name, spent)
        if curve is None:
            continue
        # (k,) trainings or privacy spent, (k, R) the metric after them, and where the first run has ended.
        axis_values, values, first_end = curve
        low, median, high = quantiles(values).T
        if arm_trace.private:
            last_medians[label] = median[-1]
        selects_at_end = (values[:-1] == values[0]).all() and (values[-1] != values[0]).any()
        if selects_at_end:  # a point
            lines.append(Line(axis_values[-1:], median[-1:], f"{label}, at its end", styles[label], group=label))
            continue
        curves[label] = axis_values, values
        all_run, some_ended = axis_values <= first_end, axis_values >= first_end
        goes_on = bool((axis_values > first_end).any())
        has_band = bool((high > low)[all_run].any())
        low_band, high_band = (low[all_run], high[all_run]) if has_band else (None, None)  # none for a single run
        legend = not goes_on  # a thin part, which ends where the method does, has the label
        lines.append(
            Line(axis_values[all_run], median[all_run], label, styles[label], low_band, high_band, legend=legend)
        )
        if goes_on:
            thin_lines.append(Line(axis_values[some_ended], median[some_ended], label, styles[label], width=1.0))
    # Of three bands or more only that of the lowest private method is drawn, with a note.
    lines, notes = one_band(lines, min(last_medians, key=last_medians.__getitem__, default=""))
    if thin_lines:
        notes = [*notes, "thin lines: some runs have ended"]
    marks, verticals, sentence = [], list[VerticalLine](), ""
    private_labels = last_medians.keys() & curves.keys()  # without points, on which no mark is drawn
    if private_labels and is_finished:
        lowest_line = min(private_labels, key=last_medians.__getitem__)
        axis_values, values = curves[lowest_line]
        end = end_of_gains(values)
        if end is not None:
            index, little = end
            sentence = f"After the diamond {lowest_line} gains less than {little}."
            x = float(axis_values[index])
            marks = [Mark(x, float(np.median(values[index])), sentence, styles[lowest_line].color)]
            # The text is at the top, where falling curves leave room, on the side on which the frame has more of it.
            verticals = [
                VerticalLine(x, f"looks pay until {short(x)}", "left" if x < 0.6 * axis_values[-1] else "right")
            ]
    metric = trace.metrics.get(metric_name)  # None if no method of the trace has it
    figure = line_figure(
        [*lines, *thin_lines],
        Axes(title, metric_name) if metric is None else Axes(title, metric.label, log_y=metric.scale == "log"),
        marks=marks,
        verticals=verticals,
        notes=notes,
        not_private=metric is not None and style.privacy_mark(trace.privacy_by_arm(metric)),
        height=height,
    )
    return figure, sentence


def end_of_gains(values: np.ndarray) -> tuple[int, str] | None:
    """Return the first index of a curve (k, R) of R runs after which its median falls by little in all, and the measure
    of "little" in words.

    Little is less than half the 10-90 % band at the end, by which runs differ, or than a twentieth of the whole fall,
    whichever is larger. None for a single run, a curve that does not fall, and one that still falls at its end.
    """
    low, median, high = quantiles(values).T
    half_band, small_part = (high[-1] - low[-1]) / 2, (median[0] - median[-1]) / SMALL_PART
    falling = np.flatnonzero(median - median[-1] > max(half_band, small_part))  # indices from which it still falls
    is_single_run, falls = values.shape[1] < 2, small_part > 0
    if is_single_run or not falls or not len(falling):
        return None
    if falling[-1] >= len(values) - 2:  # it falls up to its last value
        return None
    little = "half its 10-90 % band at the end" if half_band > small_part else "a twentieth of all it gains"
    return int(falling[-1]) + 1, little


def _over_spent(
    trace: Trace, label: str, metric_name: str, spent: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return (k,) the privacy spent at a method's recorded steps, (k, R) the metric there, and the privacy spent at the
    end; None for a method without privacy or records. spent : (t+1,) after each step, by label."""
    iterations, values = trace.arm_traces[label].series(metric_name)
    if label not in spent or not len(iterations) or not np.isfinite(spent[label][-1]):  # inf without privacy
        return None
    spent_then = spent[label][iterations]
    return spent_then, values, float(spent_then[-1])


def stepped(trace: Trace, label: str, metric_name: str) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Return (k,) numbers of trainings, (k, R) the metric's value in each run after this number, and the trainings of
    the run that has fewest; None before anything is recorded.

    Runs do different numbers of trainings in a step, so each holds its value until the step in which it has done more.
    """
    iterations, values = trace.arm_traces[label].series(metric_name)
    training_iterations, trainings = trace.arm_traces[label].series(algorithms.TRAININGS.name)
    if not len(iterations) or not len(training_iterations):
        return None
    trainings = trainings[np.searchsorted(training_iterations, iterations)]  # at the iterations of the metric
    first_end = float(trainings[-1].min())
    counts = np.unique([*np.linspace(0, trainings[-1].max(), POINTS).round(), first_end])
    columns = []
    for r, trainings_of_run in enumerate(trainings.T):
        latest = np.searchsorted(trainings_of_run, counts, side="right") - 1  # last record with at most that many
        columns.append(values[latest, r])
    return counts, np.stack(columns, axis=1), first_end


# ------------------------------------------------------------------------------------------------------------- the plan


def bias_and_noise(forecast: Forecast) -> Chart:
    """Draw the length of the planned bias of a step's gradient against the bias level, with the length of its noise.

    Below the level where both are equal, further trainings reduce a bias that is hidden by noise. Marked are the level
    as set and the recommended one. Nothing is drawn while no DP-GIBO is selected.
    """
    if forecast.advice is None:
        figure = empty_figure("This budget buys no Gaussian noise, which DP-GIBO needs.")
    elif not forecast.selected:
        figure = empty_figure(texts.NOT_SELECTED)
    else:
        facts, noise = forecast.facts, forecast.advice.noise_length
        lengths = AMPLITUDE * np.sqrt(LEVELS * prior_trace(facts, forecast.method) / facts.d)
        lines = [Line(LEVELS, lengths, "bias", BIAS, value_in_label=False)]
        if noise > 0:
            lines.append(_noise_line(LEVELS, noise))
            notes = [f"alike at {short(forecast.advice.balance)}"]
        else:
            notes = ["without privacy there is no noise"]
        marks = on_curve(LEVELS, lengths, _marked_levels(forecast), BIAS.color)
        axes = Axes("Bias level ω", "Length in a step's gradient", log_x=True, log_y=True)
        figure = line_figure(lines, axes, marks=marks, notes=notes)
    return chart(
        figure,
        "Bias beside noise",
        "Length of the planned bias against the bias level, beside the length of the noise",
        "The planned bias of a step's gradient, A√(ωP/d) with A = 0.5 declared for the mean loss, beside the "
        "length of its noise, σ√d. Right of where they meet bias shows; left of it, trainings buy what drowns.",
    )


def _marked_levels(forecast: Forecast) -> dict[str, float]:
    """Return the bias levels to be marked, by name: the level as set, if batches follow from it, and the recommended
    one."""
    levels = {} if forecast.method.batch_size is not None else {"set": forecast.method.bias_level}
    return levels if forecast.advice is None else levels | {"advised": forecast.advice.level}


def trainings_by_level(forecast: Forecast) -> Chart:
    """Draw about how many trainings a run of DP-GIBO takes against the bias level, with the trainings of one other
    method as a limit; nothing while no DP-GIBO is selected."""
    heading, alt = "What it takes", "Trainings of a run against the bias level"
    if not forecast.selected:
        return chart(empty_figure(texts.NOT_SELECTED), heading, alt, texts.TRAININGS_BY_LEVEL)
    levels = LEVELS[::3]  # fewer, as the rule for batches is evaluated at each
    others = [
        Limit(count, f"{label} {short(count)}")
        for label, count in forecast.trainings.items()
        if label != forecast.label
    ]
    method = forecast.method.replaced(batch_size=None)  # so that the level decides
    rules = [method.replaced(bias_level=level).batches(forecast.facts) for level in levels.tolist()]
    trainings = np.array([planning.expected_trainings(batches, method.iterations) for batches in rules])
    figure = line_figure(
        [Line(levels, trainings, forecast.label, BIAS, value_in_label=False)],
        Axes("Bias level ω", "Trainings of a run, about", log_x=True, from_zero=True),
        limits=others[:1],  # one, so that the labels of several do not meet
        marks=on_curve(levels, trainings, _marked_levels(forecast), BIAS.color),
    )
    return chart(figure, heading, alt, texts.TRAININGS_BY_LEVEL)


# ----------------------------------------------------------------------------------------------------------- the theory


def bound_by_steps(forecast: Forecast, landscape: Landscape, step: float, bias: float) -> Chart:
    """Draw three bounds on the loss above the minimum after T plain steps against T, each with the noise that T steps
    need under the budget.

    Marked are T*, where the bound on the mean is smallest, and T as set. forecast : for a budget that allows Gaussian
    noise. step : η. bias : β, length of the bias of a step's gradient.
    """
    assert forecast.mu is not None
    clip, n, d, mu = forecast.method.clip, forecast.facts.n, forecast.facts.d, forecast.mu
    final_bounds = []
    for count in STEPS.tolist():
        noise = 2 * clip * np.sqrt(count) / (n * mu)  # σ, if so many steps share the budget
        bounds = planning.bounds(landscape, step, noise, bias, clip, d, count, FAILURE)
        final_bounds.append((bounds.expected[-1], bounds.likely[-1], bounds.published[-1]))
    curves = np.array(final_bounds).T
    curve_of_mean, _, _ = curves
    lines = [
        Line(STEPS, curve, name, line_style, value_in_label=False)
        for curve, (name, line_style) in zip(curves, BOUNDS, strict=True)
    ]
    best = planning.best_steps(landscape, step, clip, n, mu, d)
    figure = line_figure(
        lines,
        Axes("Steps T", "Loss above the minimum, at most", log_x=True, log_y=True, bound="upper"),
        marks=on_curve(STEPS, curve_of_mean, {"T* =": best, "set: T =": forecast.method.iterations}, BIAS.color),
        limits=[Limit(landscape.gap, "at the start")],
    )
    return chart(
        figure,
        "How many steps?",
        "Three bounds on the final loss against the number of steps",
        "More steps get nearer, and each of them then gets less of the budget. The published bound is linear in "
        "bias and noise, its constants are unknown and taken as 1 (E8).",
    )


def random_stopping(mu: float, delta: float) -> Chart:
    """Draw μ₀, the budget of each of K random tries, against the mean of K, if only the best try is released and K is
    secret; and for comparison, if every try were released.

    The whole has the (ε, δ) of a μ-GDP release at this δ.
    """
    lines = []
    for law, name, line_style in STOPPING:
        mu_by_tries = np.array([planning.mu_per_try(law, tries, mu, delta) for tries in TRIES.tolist()])
        lines.append(Line(TRIES, mu_by_tries, name, line_style, value_in_label=False))
    lines.append(Line(TRIES, mu / np.sqrt(TRIES), *NAIVE, value_in_label=False))  # the μ² of released tries add up
    figure = line_figure(
        lines,
        Axes("Mean number of tries E K", "μ₀ of each try", log_x=True, log_y=True),
        limits=[Limit(mu, f"one try: μ = {short(mu)}")],
    )
    return chart(
        figure,
        "Stop at random, and keep it secret",
        "Budget of each try against the mean number of tries, for two laws",
        "How exact each try may be if only the best of K random tries is released, K is drawn at random and "
        "**nobody learns it**. For who can count the trainings the promise does not hold, so there is no run of "
        "it here.",
    )


def epsilon_by_step(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle], delta: float) -> Chart:
    """Draw ε at δ of all that a run has released after each step, one line per private method."""
    lines = []
    for label, plan in plans.items():
        if plan.private:
            epsilons = _epsilons(plan, delta)
            lines.append(Line(np.arange(len(epsilons)), epsilons, label, styles[label]))
    axes = Axes("Step t", f"ε at δ = {short_up(delta)}", from_zero=True, bound="upper")
    return chart(
        line_figure(staircases(lines), axes),
        "ε after each step",
        "ε at δ of what a run has released after each step, one line per method",
        "What the steps so far have told, all of them together: costs of Gaussian steps add up as squares of μ, so "
        f"half of the steps tell more than half of ε. Random search tells all at once. {PLANNED}",
    )


def _epsilons(plan: Plan, delta: float) -> np.ndarray:
    """Return (T+1,) ε at δ after each step: for Gaussian noise exactly, from the μ spent so far; else by the tightest
    accountant. The ε of what was bought before the run is added."""
    start = accountants.total(plan.facts.released, "epsilon")
    run_alone = replace(plan, facts=replace(plan.facts, released=()))  # `spent` counts them, `charged` does not
    if all(isinstance(event, events.Gaussian) for event in plan.events):
        return start + np.array([closed_forms.gdp_epsilon(mu, delta) for mu in run_alone.spent("mu").tolist()])
    steps = range(plan.iterations + 1)
    return start + np.array([accountants.tightest(plan.charged(t), delta).epsilon if t else 0.0 for t in steps])


def attacks(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Draw, for the best attacker on a whole run of each private method, the smallest rate of missed users against the
    rate of false alarms; the diagonal is guessing."""
    curves = {}
    for label, plan in plans.items():
        if plan.private:
            # After earlier releases at the cost ε, the false alarms of a test of the run have grown by at most e^ε. The
            # budget bounds the misses, too, and the larger bound counts.
            earlier_epsilon = min(accountants.total(plan.facts.released, "epsilon"), 700.0)  # so that `exp` is finite
            alarms = np.minimum(1.0, RATES * math.exp(earlier_epsilon))
            misses = np.maximum(tradeoffs.tradeoff(plan.events, alarms), plan.budget.tradeoff(RATES))
            curves[label] = misses, styles[label]
    return chart(
        attackers(curves),
        "What an attacker can do",
        "Lowest possible rate of missed users against the rate of false alarms, one line per method",
        "No test of whether one user was replaced lies below its curve, whatever else the attacker knows. Random "
        "search is a choice among few settings, so tests of it are weaker than its μ allows.",
    )


# -------------------------------------------------------------------------------------------------------------- the run


def signal_and_noise(trace: Trace, label: str, noise: float, privacy: str) -> Chart:
    """Draw lengths in every step of one DP-GIBO: of the mean clipped gradient, of the bound on its bias for a mean loss
    of norm `AMPLITUDE`, of its true error where gradients are known, and of the noise. Lines are medians over the runs.

    label : of the method. noise : length of the noise of a step, σ√d. privacy : a sentence on what may be published,
    for the caption. Series that read the raw data are drawn only if the trace has them.
    """
    lines = []
    for name, line_name, line_style in GRADIENT_LINES:
        steps, values = trace.arm_traces[label].series(name)
        if not len(values):
            continue
        has_gradient = np.isfinite(values).all(axis=1) & (steps > 0)  # before the first step there is no gradient
        if has_gradient.any():
            scale = AMPLITUDE if name == algorithms.UNCERTAINTY.name else 1.0  # the uncertainty is that for norm 1
            medians = scale * np.median(values[has_gradient], axis=1)
            lines.append(Line(steps[has_gradient], medians, line_name, line_style, value_in_label=False))
    if noise > 0 and lines:
        longest_x = max((line.x for line in lines), key=len)
        lines.append(_noise_line(longest_x, noise))
    method_privacy = trace.arm_traces[label].privacy
    privacies: dict[str, Privacy] = {
        line.name: "not private" if line.name in SECRET else method_privacy for line in lines
    }
    figure = line_figure(
        lines,
        Axes("Step t", "Length in a step's gradient", log_y=True),
        if_empty="No step has been taken so far.",
        not_private=style.privacy_mark(privacies),
    )
    return chart(
        figure,
        "Is less bias worth a training?",
        "Length of the mean gradient, of its bias bound and of the noise in every step",
        f"{label}, medians. Where the bound on the bias (for a mean loss of norm 0.5) is below the noise, further "
        "trainings buy nothing that can be seen. Where the mean gradient is below the noise, steps are mostly "
        f"noise. {privacy}",
        provenance=provenance([method_privacy, *privacies.values()]),
    )


def _noise_line(x: np.ndarray, noise: float) -> Line:
    """Return the level line of the noise's length at x (k,). It is no `Limit`, whose text would lie on other lines."""
    return Line(x, np.full(len(x), noise), "noise", NOISE, value_in_label=False)


def paths(
    arm_traces: Mapping[str, ArmTrace],
    styles: Mapping[str, ArmStyle],
    facts: TuningFacts,
    pair: tuple[int, int],
    privacy: str = "",
    height: int = style.HEIGHT,
) -> Chart:
    """Draw two of the settings, in their own units: a dot for every run of every method at its current iterate, the
    path of each method's first run, and the outline of the box.

    arm_traces : by label. pair : indices of the two settings. privacy : a sentence on what may be published, for the
    caption.
    """
    box = facts.settings_at(np.array(facts.box))[:, pair]  # (2, 2): lower ends, upper ends; a column for each setting
    is_log = [facts.logarithmic[j] for j in pair]
    x_title, y_title = (facts.names[j].capitalize() for j in pair)
    entries = max(2, len(arm_traces))  # at two and more there is a legend, which names a single method, too
    axes = Axes(x_title, y_title, log_x=is_log[0], log_y=is_log[1])
    privacies = {label: arm_trace.privacy for label, arm_trace in arm_traces.items()}
    mark = style.privacy_mark(privacies)
    layout = style.layout(axes, not_private=mark, legend_entries=entries, height=height)
    traces: list[dict[str, Any]] = []
    for number, (label, arm_trace) in enumerate(arm_traces.items()):
        path = facts.settings_at(np.array(arm_trace.path["x"]))[:, pair]  # (t, 2) iterates of the first run
        iterates = facts.settings_at(arm_trace.output["x"])[:, pair]  # (R, 2)
        color, common = styles[label].color, {"type": "scatter", "legendgroup": label}
        line = {"color": color, "width": 1.5, "dash": styles[label].dash}
        name = f"{label}, way of the first run"
        traces.append(common | _coordinates(path) | {"mode": "lines", "line": line, "name": name, "showlegend": False})
        marker = {"color": color, "symbol": SYMBOLS[number % len(SYMBOLS)], "size": 9, "opacity": 0.85}
        hover = f"{label}: (%{{x:.3~r}}, %{{y:.3~r}})<extra></extra>"
        dots = {"mode": "markers", "name": label, "marker": marker, "hovertemplate": hover}
        traces.append(common | _coordinates(iterates) | dots)
    for axis, log, (low, high) in zip(("xaxis", "yaxis"), is_log, box.T.tolist(), strict=True):
        edges = np.log10([low, high]) if log else np.array([low, high])
        room = 0.04 * (edges[1] - edges[0])  # between the outline and the edge of the frame
        layout[axis] |= {"range": [float(edges[0] - room), float(edges[1] + room)]}
    outline = {"type": "rect", "xref": "x", "yref": "y", "line": {"color": style.GREY, "dash": "dot", "width": 1}}
    (x0, y0), (x1, y1) = box.tolist()
    layout["shapes"] += [outline | {"x0": x0, "x1": x1, "y0": y0, "y1": y1}]
    figure = go.Figure({"data": traces, "layout": layout | {"hovermode": "closest"}})
    return chart(
        figure,
        "Where did the settings go?",
        "Two settings: a dot for every run, the way of the first, and the box",
        f"A dot for every run, the way of the first one, and the edges of the box. {privacy}",
        provenance=provenance(privacies.values()),
    )


def _coordinates(points: np.ndarray) -> dict[str, np.ndarray]:
    """Return points (k, 2) as the coordinates of a plotly trace."""
    return {"x": points[:, 0].astype(np.float32), "y": points[:, 1].astype(np.float32)}


def posterior_slice_chart(curve: posterior_slice.PosteriorSlice, title: str, logarithmic: bool, step: int) -> Chart:
    """Draw the mean loss along one setting, its posterior mean by the Gaussian process with a band of two standard
    deviations, and the evaluated points that the posterior rests on. Not private: it reads the losses.

    title : name of the setting. logarithmic : True if the curve's coordinate is the setting's logarithm. step : of the
    run, for the text.
    """
    natural = np.exp if logarithmic else np.positive  # from coordinates to the setting's unit; np.positive: the same
    settings, queries, here = natural(curve.coordinates), natural(curve.queries), float(natural(curve.here))
    spread = 2 * AMPLITUDE * curve.deviation  # the deviation is for losses of variance 1
    low, high = curve.mean - spread, curve.mean + spread
    lines = [
        Line(settings, curve.mean, "the process", EXPECTED, low, high, value_in_label=False),
        Line(settings, curve.truth, "mean loss", TRUTH, value_in_label=False),
    ]
    figure = line_figure(
        lines,
        Axes(title, "Validation loss", log_x=logarithmic),
        verticals=[VerticalLine(here, "θ_t")],
        not_private=True,
    )
    for is_drawn, name, symbol, color in (
        (~curve.newest, "earlier points", "circle-open", style.GREY),
        (curve.newest, "points of this step", "diamond", style.PALETTE["spent"]),
    ):
        if is_drawn.any():
            figure.add_scatter(
                x=queries[is_drawn].astype(np.float32),
                y=curve.losses[is_drawn].astype(np.float32),
                mode="markers",
                name=name,
                marker={"symbol": symbol, "color": color, "size": 7},
                hovertemplate=f"{name}: %{{y:.3~r}}<extra></extra>",
                showlegend=False,
            )
    losses = np.concatenate([curve.truth, curve.losses])  # without the band, which may be far wider
    room = 0.25 * float(np.ptp(losses)) + 1e-9  # 1e-9: the range is not empty if all losses are equal
    figure.update_yaxes(range=[float(losses.min()) - room, float(losses.max()) + room])
    return chart(
        figure,
        "What does the process see?",
        f"The validation loss along one setting at step {step:,}",
        "The mean loss through the first run's setting, with what the Gaussian process expects of it, two "
        "standard deviations on both sides, and the points that it rests on, which lie beside the curve. Between "
        "points far away it is often sure and wrong: the slope at θ_t is all that is used. **Not private**: it "
        "reads the validation losses.",
        provenance="not private",
    )
