"""Figures that only this family has: losses against trainings, bias beside noise, where settings went, what was learned
of a curve; and what theory promises: bounds, what an attacker can do, the cost of random stopping."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpviz.experiments.experiment import INTERNAL
from dpviz.experiments.plan import Plan, Privacy
from dpviz.experiments.results import quantiles
from dpviz.experiments.trace import ArmTrace, Trace
from dpviz.families.bayesian_optimization import algorithms, planning, posterior_slice
from dpviz.families.bayesian_optimization.forecast import AMPLITUDE, LEVELS, Forecast, biases, expected
from dpviz.families.bayesian_optimization.planning import Landscape
from dpviz.numbers import short, short_up
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import Chart, chart, provenance
from dpviz.plots.elements.lines import Limit, Line, Mark, Turn, held_lines, line_figure, on_curve, one_band
from dpviz.plots.elements.style import ArmStyle
from dpviz.plots.plan_figures import PLANNED
from dpviz.plots.planner_figures import RATES, attackers
from dpviz.privacy import events, tradeoffs
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.problems.tuning.tuning import TuningFacts

SYMBOLS = ("circle", "x", "diamond", "square", "triangle-up", "cross")  # a marker for each method
POINTS = 300  # along the axis of trainings
SMALL_PART = 20  # of a whole fall, a twentieth is little
BIAS = ArmStyle(style.PALETTE["private"], "solid")
# What a step's gradient is made of: series, word, look. Colour is never alone.
PARTS = (
    ("internal_gradient_norm", "mean clipped gradient", ArmStyle(style.PALETTE["theory"], "solid")),
    (algorithms.NOISY_NORM.name, "released, with noise", ArmStyle(style.GREY, "solid")),
    (algorithms.UNCERTAINTY.name, "bias bound", ArmStyle(style.PALETTE["private"], "dash")),
    ("internal_gradient_error", "its true error", ArmStyle(style.PALETTE["second"], "longdash")),
    ("internal_exact_gradient_norm", "exact gradient", ArmStyle(style.PALETTE["theory"], "dot")),
)
SECRET = frozenset(word for name, word, _ in PARTS if name.startswith(INTERNAL))
NOISE = ArmStyle(style.PALETTE["spent"], "dashdot")
TRUTH, EXPECTED = ArmStyle(style.GREY, "dash"), ArmStyle(style.PALETTE["private"], "solid")

STEPS = np.unique(np.geomspace(1, 200, 60).round().astype(int))
TRIES = np.geomspace(2, 1000, 25)
FAILURE = 0.05
BOUNDS = (
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
    ended: bool = True,
    height: int = style.ALONE,
) -> tuple[go.Figure, str]:
    """A metric against the trainings that each run had done: what was current after so many, median over the runs with
    a 10-90 % band. Where the first run of a method has ended, its line goes on thin and without a band: runs that have
    ended keep their last value there. (Not dotted: that is what has no privacy.) A method that selects once, at its
    end, is a point. On the lowest private line of runs that have ended a mark shows from where on looks no longer pay;
    what that means, the sentence says that is returned.

    spent : draw against the privacy spent instead, (t+1,) by label, as the title of the axis says.
    """
    lines: list[Line] = []
    thin: list[Line] = []
    curves: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for label in trace.lanes:
        found = stepped(trace, label, metric_name) if spent is None else _over(trace, label, metric_name, spent)
        if found is not None:
            at, values, least = found
            low, median, high = quantiles(values).T
            if (values[:-1] == values[0]).all() and (values[-1] != values[0]).any():
                name = f"{label}, at its end"
                lines.append(Line(at[-1:], median[-1:], name, styles[label], group=label))
                continue
            curves[label] = at, values
            all_run, some_ended = at <= least, at >= least
            several, goes_on = bool((high > low)[all_run].any()), bool((at > least).any())
            low_band, high_band = (low[all_run], high[all_run]) if several else (None, None)
            look, legend = styles[label], not goes_on  # the thin part, which ends where the method does, has the label
            lines.append(Line(at[all_run], median[all_run], label, look, low_band, high_band, legend=legend))
            if goes_on:
                thin.append(Line(at[some_ended], median[some_ended], label, styles[label], width=1.0))
    metric = trace.metrics.get(metric_name)
    ends = {label: line.y[-1] for line in [*lines, *thin] if trace.lanes[label := line.group or line.name].private}
    lines, notes = one_band(lines, min(ends, key=lambda label: ends[label], default=""))
    lowest = min(ends.keys() & curves.keys(), key=lambda label: ends[label], default="")
    marks, told = [], ""
    if lowest and ended and (pays := paying(curves[lowest][1])) is not None:
        (place, little), (at, values) = pays, curves[lowest]
        told = f"After the diamond {lowest} gains less than {little}."
        side = "top right" if at[place] < 0.6 * at[-1] else "top left"
        median, until = float(np.median(values[place])), f"looks pay until {short(at[place])}"
        marks = [Mark(float(at[place]), median, told, styles[lowest].color, until, side)]
    figure = line_figure(
        [*lines, *thin],
        Axes(
            title, metric_name if metric is None else metric.label, log_y=metric is not None and metric.scale == "log"
        ),
        marks=marks,
        notes=[*notes, *["thin: some runs have ended"] * bool(thin)],
        not_private=metric is not None and style.marked(trace.statuses(metric)),
        height=height,
    )
    return figure, told


def paying(values: np.ndarray) -> tuple[int, str] | None:
    """The first entry of a curve (k, R) after which its median falls little in all, and what that means: by less than
    runs differ in the end, or by a small part of the whole fall. None of a single run, and where no end is in sight."""
    low, median, high = quantiles(values).T
    differ, part = (high[-1] - low[-1]) / 2, (median[0] - median[-1]) / SMALL_PART
    above = np.flatnonzero(median - median[-1] > max(differ, part))
    if values.shape[1] < 2 or part <= 0 or not len(above) > 0 or above[-1] + 2 >= len(values):
        return None
    return int(above[-1]) + 1, "half its 10-90 % band at the end" if differ > part else "a twentieth of all it gains"


def _over(
    trace: Trace, label: str, metric_name: str, spent: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """As `stepped`, of the privacy spent; None of methods that have none."""
    iterations, values = trace.lanes[label].series(metric_name)
    if label not in spent or not len(iterations) or not np.isfinite(spent[label][-1]):
        return None
    at = spent[label][iterations]
    return at, values, float(at[-1])


def stepped(trace: Trace, label: str, metric_name: str) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Numbers of trainings (k,), the metric of what each run had after so many (k, R), and the fewest trainings that a
    run had; None before any."""
    iterations, values = trace.lanes[label].series(metric_name)
    steps, trainings = trace.lanes[label].series(algorithms.TRAININGS.name)
    if not len(iterations) or not len(steps):
        return None
    trainings = trainings[np.searchsorted(steps, iterations)]
    least = float(trainings[-1].min())
    at = np.unique([*np.linspace(0, trainings[-1].max(), POINTS).round(), least])
    places = [np.searchsorted(done, at, side="right") - 1 for done in trainings.T]
    return at, np.stack([values[place, r] for r, place in enumerate(places)], axis=1), least


# ------------------------------------------------------------------------------------------------------------- the plan


def bias_and_noise(found: Forecast) -> Chart:
    """How long the planned bias of a step's gradient is against the bias level, beside its noise; below the point where
    they meet, trainings buy what drowns in noise. The level advised is marked."""
    return chart(
        _bias_and_noise(found),
        "Bias beside noise",
        "Length of the planned bias against the bias level, beside the length of the noise",
        "The planned bias of a step's gradient, A√(ωP/d) with A = 0.5 declared for the mean loss, beside the "
        "length of its noise, σ√d. Right of where they meet bias shows; left of it, trainings buy what drowns.",
    )


def _bias_and_noise(found: Forecast) -> go.Figure:
    if found.advice is None:
        return nothing("This budget buys no Gaussian noise, which DP-GIBO needs.")
    lines = [Line(LEVELS, biases(found), "bias", BIAS, value=False)]
    noise = found.advice.noise
    marks = on_curve(LEVELS, biases(found), _levels(found), BIAS.color)
    notes = [] if noise > 0 else ["without privacy there is no noise"]
    if noise > 0:
        lines.append(_noise(LEVELS, noise))
        notes.append(f"alike at {short(found.advice.balance)}")
    return line_figure(
        lines, Axes("Bias level ω", "Length in a step's gradient", log_x=True, log_y=True), marks=marks, notes=notes
    )


def _levels(found: Forecast) -> dict[str, float]:
    """The bias levels to be marked: that which is set, if it is used, and that which is advised."""
    levels = {} if found.method.batch_size is not None else {"set": found.method.bias_level}
    return levels if found.advice is None else levels | {"advised": found.advice.level}


def trainings_by_level(found: Forecast) -> Chart:
    """About how many trainings a run takes against the bias level; and what the other methods take."""
    levels = LEVELS[::3]
    others = [
        Limit(count, f"{label} {short(count)}") for label, count in found.trainings.items() if label != found.label
    ]
    takes = expected(found, levels)
    figure = line_figure(
        [Line(levels, takes, found.label, BIAS, value=False)],
        Axes("Bias level ω", "Trainings of a run, about", log_x=True, from_zero=True),
        limits=others[:1],
        marks=on_curve(levels, takes, _levels(found), BIAS.color),
    )
    return chart(
        figure,
        "What it takes",
        "Trainings of a run against the bias level",
        "The first step's batch is known exactly, later ones are taken as 60 % of it or less: they reuse points. "
        "No training costs privacy.",
    )


# ----------------------------------------------------------------------------------------------------------- the theory


def bound_by_steps(found: Forecast, landscape: Landscape, step: float, bias: float) -> Chart:
    """Bounds on the loss above the minimum after T plain steps, against T: each with the noise that T steps need. T* is
    where the one in the mean is smallest. found : of a budget that buys Gaussian noise."""
    assert found.mu is not None
    ends, clip, n, d, mu = [], found.method.clip, found.facts.n, found.facts.d, found.mu
    for count in STEPS.tolist():
        bounds = planning.bounds(landscape, step, 2 * clip * np.sqrt(count) / (n * mu), bias, clip, d, count, FAILURE)
        ends.append((bounds.expected[-1], bounds.likely[-1], bounds.published[-1]))
    curves = np.array(ends).T
    lines = [Line(STEPS, curve, *look, value=False) for curve, look in zip(curves, BOUNDS, strict=True)]
    best = planning.best_steps(landscape, step, clip, n, mu, d)
    figure = line_figure(
        lines,
        Axes("Steps T", "Loss above the minimum, at most", log_x=True, log_y=True, bound="upper"),
        marks=on_curve(STEPS, curves[0], {"T* =": best, "set: T =": found.method.iterations}, BIAS.color),
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
    """μ₀ of each try, if the best of K tries is released and K is secret, against the mean of K; and if every try were
    released. All with the (ε, δ) of μ."""
    lines = [
        Line(
            TRIES,
            np.array([planning.stopped_mu(law, tries, mu, delta) for tries in TRIES.tolist()]),
            name,
            look,
            value=False,
        )
        for law, name, look in STOPPING
    ]
    lines.append(Line(TRIES, mu / np.sqrt(TRIES), *NAIVE, value=False))
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
    """ε at δ of what a run has released after each step: of Gaussian noise exactly, from the μ of so many steps; of a
    choice by the tightest accountant. One line per private method."""
    lines = []
    for label, plan in plans.items():
        if plan.private:
            epsilons = _epsilons(plan, delta)
            lines.append(Line(np.arange(len(epsilons)), epsilons, label, styles[label]))
    axes = Axes("Step t", f"ε at δ = {short_up(delta)}", from_zero=True, bound="upper")
    return chart(
        line_figure(held_lines(lines), axes),
        "ε after each step",
        "ε at δ of what a run has released after each step, one line per method",
        "What the steps so far have told, all of them together, exactly: costs of Gaussian steps add up as "
        "squares of μ, so half of the steps tell more than half of ε. Random search tells all at once, and its ε "
        f"is smaller: a choice among few settings tells less than Gaussian noise of the same μ could. {PLANNED}",
    )


def _epsilons(plan: Plan, delta: float) -> np.ndarray:
    """(T+1,) ε at δ after each step."""
    if all(isinstance(event, events.Gaussian) for event in plan.events):
        return np.array([closed_forms.gdp_epsilon(mu, delta) for mu in plan.spent("mu").tolist()])
    steps = range(plan.iterations + 1)
    return np.array([accountants.tightest(plan.charged(t), delta).epsilon if t else 0.0 for t in steps])


def attacks(plans: Mapping[str, Plan], styles: Mapping[str, ArmStyle]) -> Chart:
    """Smallest rate of missed users against the rate of false alarms, of the best attacker on a whole run of each
    private method; the diagonal is guessing."""
    released = {label: tradeoffs.tradeoff(plan.events, RATES) for label, plan in plans.items() if plan.private}
    return chart(
        attackers({label: (missed, styles[label]) for label, missed in released.items()}),
        "What an attacker can do",
        "Lowest possible rate of missed users against the rate of false alarms, one line per method",
        "No test of whether one user was replaced lies below its curve, whatever else the attacker knows. Random "
        "search is a choice among few settings, so tests of it are weaker than its μ allows.",
    )


# -------------------------------------------------------------------------------------------------------------- the run


def signal_and_noise(trace: Trace, label: str, noise: float, privacy: str = "") -> Chart:
    """Of one DP-GIBO: how long the mean clipped gradient was in each step, the bound on its bias for a mean loss of
    norm `AMPLITUDE`, its true error where gradients are known, and the length of the noise; medians over the runs.

    noise : length of the noise of a step, σ√d. What of it reads the raw data is drawn if the trace has it. privacy :
    what of it may be published, for the caption.
    """
    lines = []
    for name, word, look in PARTS:
        steps, values = trace.lanes[label].series(name)
        known = np.isfinite(values).all(axis=1) & (steps > 0) if len(values) else np.zeros(0, dtype=bool)
        if known.any():
            scale = AMPLITUDE if name == algorithms.UNCERTAINTY.name else 1.0
            lines.append(Line(steps[known], scale * np.median(values[known], axis=1), word, look, value=False))
    if noise > 0 and lines:
        lines.append(_noise(max((line.x for line in lines), key=len), noise))
    own = trace.lanes[label].privacy
    statuses: dict[str, Privacy] = {line.name: "not private" if line.name in SECRET else own for line in lines}
    figure = line_figure(
        lines,
        Axes("Step t", "Length in a step's gradient", log_y=True),
        if_empty="No step has been taken so far.",
        not_private=style.marked(statuses),
    )
    return chart(
        figure,
        "Is less bias worth a training?",
        "Length of the mean gradient, of its bias bound and of the noise in every step",
        f"{label}, medians. Where the bound on the bias (for a mean loss of norm 0.5) is below the noise, further "
        "trainings buy nothing that can be seen. Where the mean gradient is below the noise, steps are mostly "
        f"noise. {privacy}",
        provenance=provenance([own, *statuses.values()]),
    )


def _noise(along: np.ndarray, noise: float) -> Line:
    """How long the noise is, as a line with its name at the end: the words of a limit would stand on the others."""
    return Line(along, np.full(len(along), noise), "noise", NOISE, value=False)


def paths(
    lanes: Mapping[str, ArmTrace],
    styles: Mapping[str, ArmStyle],
    facts: TuningFacts,
    pair: tuple[int, int],
    privacy: str = "",
) -> Chart:
    """Two of the settings, in their own units: where every run of every method is, and the way of the first of them;
    the box is outlined. privacy : what may be published, for the caption."""
    ends = facts.natural(np.array(facts.box))[:, pair]
    logs = [facts.logarithmic[j] for j in pair]
    x_title, y_title = (facts.names[j].capitalize() for j in pair)
    frame = style.layout(Axes(x_title, y_title, log_x=logs[0], log_y=logs[1]), legend_entries=max(2, len(lanes)))
    traces: list[dict[str, Any]] = []
    for number, (label, lane) in enumerate(lanes.items()):
        ways, places = (facts.natural(points)[:, pair] for points in (np.array(lane.path["x"]), lane.output["x"]))
        color, common = styles[label].color, {"type": "scatter", "legendgroup": label}
        line = {"color": color, "width": 1.5, "dash": styles[label].dash}
        name = f"{label}, way of the first run"
        traces.append(common | _at(ways) | {"mode": "lines", "line": line, "name": name, "showlegend": False})
        dots: dict[str, Any] = {"mode": "markers", "name": label}
        marker = {"color": color, "symbol": SYMBOLS[number % len(SYMBOLS)], "size": 9, "opacity": 0.85}
        hover = f"{label}: (%{{x:.3~r}}, %{{y:.3~r}})<extra></extra>"
        traces.append(common | _at(places) | dots | {"marker": marker, "hovertemplate": hover})
    for axis, log, (low, high) in zip(("xaxis", "yaxis"), logs, ends.T.tolist(), strict=True):
        edges = np.log10([low, high]) if log else np.array([low, high])
        room = 0.04 * (edges[1] - edges[0])
        frame[axis] |= {"range": [float(edges[0] - room), float(edges[1] + room)]}
    box = {"type": "rect", "xref": "x", "yref": "y", "line": {"color": style.GREY, "dash": "dot", "width": 1}}
    frame["shapes"] += [box | dict(zip(("x0", "x1", "y0", "y1"), ends.T.ravel().tolist(), strict=True))]
    figure = go.Figure({"data": traces, "layout": frame | {"hovermode": "closest"}})
    return chart(
        figure,
        "Where did the settings go?",
        "Two settings: a dot for every run, the way of the first, and the box",
        f"A dot for every run, the way of the first one, and the edges of the box. {privacy}",
        provenance=provenance(lane.privacy for lane in lanes.values()),
    )


def _at(points: np.ndarray) -> dict[str, np.ndarray]:
    return {"x": points[:, 0].astype(np.float32), "y": points[:, 1].astype(np.float32)}


def process(curve: posterior_slice.Curve, title: str, logarithmic: bool, step: int = 1) -> Chart:
    """The mean loss along one setting, what the process expects of it with two standard deviations, and the points that
    it rests on. Reads the raw data. step : at which it is looked at."""
    at = np.exp(curve.places) if logarithmic else curve.places
    spread = 2 * AMPLITUDE * curve.deviation
    lines = [
        Line(at, curve.mean, "the process", EXPECTED, curve.mean - spread, curve.mean + spread, value=False),
        Line(at, curve.truth, "mean loss", TRUTH, value=False),
    ]
    here = float(np.exp(curve.here)) if logarithmic else curve.here
    figure = line_figure(
        lines, Axes(title, "Validation loss", log_x=logarithmic), turns=[Turn(here, "θ_t")], not_private=True
    )
    queries = np.exp(curve.queries) if logarithmic else curve.queries
    for chosen, name, symbol, color in (
        (~curve.newest, "earlier points", "circle-open", style.GREY),
        (curve.newest, "points of this step", "diamond", style.PALETTE["spent"]),
    ):
        if chosen.any():
            figure.add_scatter(
                x=queries[chosen].astype(np.float32),
                y=curve.losses[chosen].astype(np.float32),
                mode="markers",
                name=name,
                marker={"symbol": symbol, "color": color, "size": 7},
                hovertemplate=f"{name}: %{{y:.3~r}}<extra></extra>",
                showlegend=False,
            )
    drawn = np.concatenate([curve.truth, curve.losses])  # the band may be far wider
    room = 0.25 * float(np.ptp(drawn)) + 1e-9
    figure.update_yaxes(range=[float(drawn.min()) - room, float(drawn.max()) + room])
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


def nothing(why: str) -> go.Figure:
    """A figure that says why there is none."""
    return line_figure([], Axes("", ""), if_empty=why)
