"""The live picture of the second-order page: the position of the runs, and the number of those at a minimum."""

from functools import partial

import numpy as np
import streamlit as st

from dpviz.datasets import Saddle
from dpviz.experiments.trace import Trace
from dpviz.families.second_order import advice, texts
from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.families.second_order.methods.releases import NOISY_GRADIENT
from dpviz.families.second_order.theory import Analysis
from dpviz.numbers import short
from dpviz.plots import clouds
from dpviz.plots.clouds import Background
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.lines import Limit
from dpviz.plots.elements.sheets import Ruler
from dpviz.plots.elements.style import arm_styles
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.nonconvex.nonconvex import DIRECTIONS, RobustComponent
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts
from dpviz.ui.experiment import hero
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.run import Run, about_problem

REACH = (2.7, 1.5)  # of the picture, in both directions: the minima of the demonstration lie at ±2.1 of the first
EVALUATIONS = 3e7  # rows times points of the ground, at most: about a third of a second
MIN_POINTS, MAX_POINTS = 11, 41  # points along each direction
OTHERS = 2  # further methods in the sentence of the headline


def mapped(view: PlanView) -> bool:
    """Return true if the picture is a landscape."""
    return has_landscape(view.experiment.problem)


def has_landscape(problem: ProblemSpecification) -> bool:
    """Return true if the ground can be drawn: for the demonstration, whose first direction leads down."""
    return isinstance(problem, RobustComponent) and isinstance(problem.data, Saddle)


def picture(run: Run, diagnostics: bool) -> Chart | None:
    """Return the landscape with a dot for every run; for other data the noisy gradient against its tolerance."""
    if diagnostics and run.job.trace is not None and has_landscape(run.experiment.problem):
        return landscape(run, run.job.trace)
    return curves(run, diagnostics)


def curves(run: Run, diagnostics: bool) -> Chart | None:
    """Return the chart of the noisy gradient against its tolerance."""
    tolerances = {analysis(run, label).gradient_tolerance for label in run.plans}
    limits = [Limit(value, f"tolerance {short(value)}") for value in tolerances] if len(tolerances) == 1 else []
    return hero.curves(run, diagnostics, NOISY_GRADIENT.name, limits)


def analysis(run: Run, label: str) -> Analysis:
    """Return targets and tolerances of a method."""
    method = next(arm.algorithm for arm in run.experiment.arms if arm.label == label)
    facts = run.plans[label].facts
    assert isinstance(method, NonconvexMethod) and isinstance(facts, NonconvexFacts)
    return method.analysis(facts)


def landscape(run: Run, trace: Trace) -> Chart | None:
    """Return a chart of contours with a dot for every run of every method; None before the first step."""
    return clouds.landscape(
        trace,
        partial(_ground, run),
        arm_styles(run.experiment.arms),
        DIRECTIONS,
        what="objective",
        heading="The objective below the runs",
        caption=f"{texts.LANDSCAPE} **Not private**: it reads the raw data, which are generated.",
    )


def ground(run: Run, *_: Ruler) -> Background | None:
    """Return the objective below the runs, over a fixed part of the plane; None where it cannot be drawn.

    The further arguments, the rulers of the runs, do not change it.
    """
    return _ground(run) if has_landscape(run.experiment.problem) else None


@st.cache_resource(max_entries=8, scope="session", show_spinner=False, hash_funcs={Run: about_problem})
def _ground(run: Run) -> Background:
    """Compute the objective of a run in the plane of the first two coordinates; fewer points where rows are many."""
    points = int(np.clip(np.sqrt(EVALUATIONS / run.problem.facts.n), MIN_POINTS, MAX_POINTS))
    return clouds.evaluated(run.problem, *(np.linspace(-reach, reach, points) for reach in REACH))


def _why_none(run: Run, label: str) -> str:
    """Say why no run of a method stopped: because of its noise, or of its number of steps."""
    forecast = advice.best(advice.forecasts(run.experiment, run.plans)[label])
    return texts.TOO_SOON if forecast.stopping.recognised or forecast.stopping.too_short else texts.NOISY


def number(run: Run, trace: Trace) -> hero.Headline | None:
    """Return the headline: the runs of the first method that stopped, those within the targets, and other methods."""
    arms = [arm for arm in run.experiment.arms if arm.label in trace.lanes]
    all_finishes = {arm: advice.finish(trace, arm, run.plans[arm.label]) for arm in arms}
    finishes = {
        arm.label: finish
        for arm, finish in all_finishes.items()
        if finish is not None and trace.lanes[arm.label].private
    }
    if not finishes:
        return None
    first, *others = finishes
    arm = next(arm for arm in arms if arm.label == first)
    within_targets = advice.within(trace, arm, run.plans[first])
    sentences = [] if within_targets is None else [texts.targets(*within_targets)]
    sentences += [texts.when(finishes[first])] if finishes[first].finished else [_why_none(run, first)]
    sentences += [f"{label}: {texts.ended(finishes[label])}" for label in others[:OTHERS]]
    reads_data = any(finish.solved is not None for finish in finishes.values())
    return hero.Headline(
        f"Runs stopped: {first}",
        f"{finishes[first].finished} of {finishes[first].runs}",
        "By themselves: where the noisy gradient is small and the noisy curvature is not negative."
        + " Whether exact gradient and curvature meet the targets α and ε_H reads the raw data: **not private**."
        * reads_data,
        " ".join(sentences),
    )
