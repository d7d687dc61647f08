"""Charts of the public objects (budgets, plans, experiments, traces, sweeps, verdicts) in a notebook.

They are the figures of the pages, with a caption that says what may be published.
"""

import math
from collections.abc import Sequence
from functools import singledispatch
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio

from dpviz.audits.audit import TUNING, Verdict
from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.plan import Plan, weakest_privacy
from dpviz.experiments.results import headline_metrics
from dpviz.experiments.summary import arms_to_draw
from dpviz.experiments.trace import Trace
from dpviz.numbers import short, short_up
from dpviz.plots import plan_figures, planner_figures, run_figures, sweep_figures
from dpviz.plots.elements import style
from dpviz.plots.elements.axes import Axes
from dpviz.plots.elements.chart import SETTINGS_ONLY, Chart, bold, on_white, provenance, to_html
from dpviz.plots.elements.lines import Limit, Line, line_figure
from dpviz.plots.elements.style import PLOT_CONFIG, ArmStyle, arm_styles
from dpviz.privacy.budgets import Budget
from dpviz.sweeps.sweep_result import SweepResult

NOTHING = "These methods release no series of data that are not public. figure(diagnostics=True) reads the raw data."
_ONE = ArmStyle(style.PALETTE["private"], "solid")
_charts_shown = 0  # only the first chart of a notebook contains plotly.js, which the others then use


def figure(subject: Any, diagnostics: bool) -> go.Figure:
    """Return the figure of an object on white, for a notebook. Raises UserError where nothing may be drawn.

    diagnostics : include series that read raw data.
    """
    plain_figure = chart(subject, diagnostics).figure
    result = on_white(plain_figure)
    # `on_white` encodes the numbers as bytes; whoever works with the figure wants arrays.
    for trace, source in zip(result.data, plain_figure.data, strict=True):
        trace.update({name: source[name] for name in ("x", "y", "z") if name in source and source[name] is not None})
    return result


def html(subject: Any) -> str:
    """Return a notebook's display of an object as HTML: the object in a line of text, its figure, and a caption that
    says what may be published of it."""
    global _charts_shown
    line = f"<p><code>{escape(_line(subject))}</code></p>"
    try:
        picture = chart(subject, False)  # without series that read raw data
    except UserError as error:
        return f"{line}<p>{escape(str(error))}</p>"
    is_first: bool = not _charts_shown
    _charts_shown += 1
    plot = pio.to_html(
        on_white(picture.figure), config=PLOT_CONFIG, full_html=False, include_plotlyjs=is_first, include_mathjax=False
    )
    return f"{line}<p><strong>{escape(picture.heading)}</strong></p>{plot}<p>{bold(picture.caption)}</p>"


def page(subjects: Sequence[Any], settings: str, diagnostics: bool) -> str:
    """Return an HTML page that opens offline, with figures of several objects and then the settings.

    diagnostics : include series that read raw data. Raises UserError where nothing may be drawn.
    """
    return to_html([chart(subject, diagnostics) for subject in subjects], settings)


@singledispatch
def chart(subject: object, _diagnostics: bool) -> Chart:
    """Return the chart of an object; the functions below do it for each class.

    The second argument is True to include series that read raw data. Raises UserError where nothing may be drawn.
    """
    raise TypeError(f"There is no picture of {type(subject).__name__}.")


@singledispatch
def _line(subject: object) -> str:
    """Return an object as a line of text, which a notebook shows above its figure."""
    return repr(subject)


@_line.register
def _(subject: Experiment) -> str:
    return f"{', '.join(arm.label for arm in subject.arms)} on {subject.problem.title}: {subject.promise}"


@_line.register
def _(subject: Verdict) -> str:
    return subject.sentence()


@chart.register
def _(subject: Budget, _diagnostics: bool) -> Chart:
    curve = planner_figures.tradeoff(subject.tradeoff(planner_figures.RATES))
    alt = "Lowest possible rate of missed rows against the rate of false alarms"
    caption = f"No test of one row replaced lies below the curve of {subject.describe()}. {SETTINGS_ONLY}"
    return Chart(curve, "What an attacker can do", alt, caption)


@chart.register
def _(subject: Plan, _diagnostics: bool) -> Chart:
    return plan_figures.noise_schedule({"plan": subject}, {"plan": _ONE}, height=style.HEIGHT)


@chart.register
def _(subject: Experiment, _diagnostics: bool) -> Chart:
    planned = subject.planned()
    return plan_figures.noise_schedule(planned.plans, arm_styles(planned.ready().arms), height=style.HEIGHT)


@chart.register
def _(subject: Trace, diagnostics: bool) -> Chart:
    trace = subject.visible(diagnostics=diagnostics or subject.public)  # of public data all may be seen
    names = [*headline_metrics(trace), *trace.metrics]  # the most telling metric first
    if not names:
        raise UserError(NOTHING, title="Nothing to draw")
    name = names[0]
    best_arms = trace.only(arms_to_draw(trace, name))  # as many as in the first picture of a page
    metric = trace.metrics[name]
    privacies = best_arms.privacy_by_arm(metric)
    privacy_text = f"{_privacy_text(privacies.values(), subject.public)} {trace.time_note}".rstrip()
    caption = f"{metric.label}: median of the runs, with a band from 10 to 90 %. {privacy_text}"
    # The style of the page if the trace knows the arm, else a solid line in the next hue.
    by_label, hues = arm_styles(subject.arms), iter(style.HUES * len(subject.arm_traces))
    styles = {label: by_label.get(label) or ArmStyle(next(hues), "solid") for label in subject.arm_traces}
    drawing = run_figures.convergence(best_arms, name, styles)
    return Chart(drawing, metric.label, f"{metric.label} by step", caption, provenance(privacies.values()))


@chart.register
def _(subject: SweepResult, diagnostics: bool) -> Chart:
    result = subject.visible(diagnostics=diagnostics or subject.public)  # of public data all may be seen
    metric = result.metric  # None if nothing may be seen
    if metric is None or not any(curve.point_runs for curve in result.curves.values()):
        raise UserError(NOTHING, title="Nothing to draw")
    where = ""
    if result.second:  # of two settings the first, at the lowest value of the second
        where = f" At {short(result.second[0])} of the second setting."
        result = result.at(result.second[0])
    title, symbol, log = result.axis
    privacies = [curve.privacy for curve in result.curves.values() if curve.point_runs]
    label = metric.label
    privacy_text = _privacy_text(privacies, result.public, result.price)
    caption = f"{label}: median of all runs, with a band from 10 to 90 %.{where} {privacy_text}"
    drawing = sweep_figures.metric_by_setting(result, title, symbol=symbol, log_x=log)
    return Chart(drawing, f"{label} against {title}", f"{label} against {title}", caption, provenance(privacies))


@chart.register
def _(subject: Verdict, _diagnostics: bool) -> Chart:
    tuning = math.ceil(TUNING * subject.runs)  # the first runs, which chose the attack; `look.runs` is without them
    runs, bounds = np.array([(look.runs + tuning, look.bound) for look in subject.looks], dtype=float).T
    drawing = line_figure(
        [Line(runs, bounds, "proven", _ONE, width=3.0)],
        Axes("Runs on each data set", f"Lower bound on {subject.symbol}", log_x=True, from_zero=True, bound="lower"),
        limits=[Limit(subject.claim, f"claimed {subject.symbol} = {short_up(subject.claim)}")],
    )
    caption = f"{subject.sentence()} The data sets are made up, so nobody's data are read, unless you gave your own."
    return Chart(drawing, "What is proven", "Proven lower bound by the number of runs, and the claim", caption)


def _privacy_text(privacies: Any, public: bool, price: str = "") -> str:
    """Return a sentence that says what may be published of curves.

    privacies : the privacy of each curve. public : True if the data are public. price : privacy cost of publishing all
        curves together, in words, if known.
    """
    privacy = weakest_privacy(privacies)
    if privacy == "not private":
        return f"**Not private**: {'it reads the raw data, which are public' if public else 'it reads your raw data'}."
    total = f" Publishing all of it: {price}." if price else ""
    return f"**{privacy.capitalize()}**: each run of each method at its own budget.{total}"
