"""The live picture of the zeroth-order page: curves of the objective, or a cloud of runs in a valley."""

import math
from functools import partial

import numpy as np
import streamlit as st

from dpviz.experiments.summary import outcome
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import texts
from dpviz.numbers import short
from dpviz.plots import clouds
from dpviz.plots.clouds import Background
from dpviz.plots.elements.chart import Chart
from dpviz.plots.elements.sheets import Ruler
from dpviz.plots.elements.style import arm_styles
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.values.black_box import BentValley, BlackBox, PhaseRetrieval
from dpviz.problems.values.value_problem import ValueFacts
from dpviz.ui.experiment import hero
from dpviz.ui.experiment.plan import PlanView
from dpviz.ui.experiment.run import Run

LINES = 4  # private methods in the picture
DIRECTIONS = ("Parameter x₁", "Parameter x₂")
ROWS, POINTS = 2000, 71  # of the ground, which is a picture; points along each direction
BALL = 64  # points of the disc over which the ground is smoothed
# The part of each function that is drawn: lowest and highest value of both parameters.
REACH = {BentValley: ((-1.4, 1.6), (-1.6, 1.6)), PhaseRetrieval: ((-1.4, 1.4), (-1.4, 1.4))}


def mapped(view: PlanView) -> bool:
    """Return true if the picture is a landscape."""
    return has_landscape(view.experiment.problem)


def has_landscape(problem: ProblemSpecification) -> bool:
    """Return true if the ground can be drawn: for simulated functions of two parameters."""
    return type(problem) in REACH and problem.facts().d == len(DIRECTIONS)


def picture(run: Run, diagnostics: bool) -> Chart | None:
    """Return a dot for every run on the ground of a function of two parameters; for others the objective by steps."""
    if diagnostics and run.job.trace is not None and has_landscape(run.experiment.problem):
        return landscape(run, run.job.trace)
    return curves(run, diagnostics)


def curves(run: Run, diagnostics: bool) -> Chart | None:
    """Return the curves of the objective, step by step."""
    return hero.curves(run, diagnostics, most=LINES)


def landscape(run: Run, trace: Trace, smoothed: bool = False) -> Chart | None:
    """Return a chart of contours, and what every run of every method would release; None before the first step."""
    what = "smoothed objective" if smoothed else "objective"
    return clouds.landscape(
        trace,
        partial(ground, run, smoothed),
        arm_styles(run.experiment.arms),
        DIRECTIONS,
        what=what,
        heading=f"Smoothed over r = {short(radius(run))}" if smoothed else "The function itself",
        caption=f"{texts.LANDSCAPE.format(what=what)} **Not private**: it reads the raw data, which are generated.",
    )


def ground(run: Run, smoothed: bool) -> Background:
    """Compute the objective of a run's function over both parameters, if `smoothed` over discs of radius r."""
    objective = _evaluate(run.experiment.problem.to_json())
    return averaged(objective, radius(run)) if smoothed else objective


def below(run: Run, *_: Ruler) -> Background | None:
    """Return the objective below the runs, over a fixed part of the plane; None where it cannot be drawn.

    The further arguments, the rulers of the runs, do not change it.
    """
    return ground(run, smoothed=False) if has_landscape(run.experiment.problem) else None


def radius(run: Run) -> float:
    """Return the radius r over which a run's function is smoothed."""
    facts = run.problem.facts
    assert isinstance(facts, ValueFacts)
    return facts.radius


@st.cache_resource(max_entries=8, show_spinner=False)
def _evaluate(text: str) -> Background:
    """Compute the objective of the simulated function with JSON text `text`, of ROWS rows: the picture is the same."""
    problem = BlackBox.from_json(text)
    x, y = (np.linspace(low, high, POINTS) for low, high in REACH[type(problem)])
    return clouds.evaluated(problem.replaced(rows=ROWS).build(), x, y)


def averaged(ground: Background, radius: float) -> Background:
    """Compute the mean of a ground over discs of this radius around each point of the grid.

    Between the points the ground is linear; beyond its edge it is continued by odd reflection.
    """
    cells = radius / (ground.x[1] - ground.x[0]), radius / (ground.y[1] - ground.y[0])
    padding = math.ceil(max(cells)) + 1
    padded = np.pad(ground.values, padding, mode="reflect", reflect_type="odd")
    angles = np.arange(BALL) * np.pi * (3 - np.sqrt(5))  # a sunflower: evenly over the disc
    radii = np.sqrt((np.arange(BALL) + 0.5) / BALL)
    total = np.zeros_like(ground.values)
    for length, angle in zip(radii.tolist(), angles.tolist(), strict=True):
        moved = _shift(padded, padding, cells[0] * length * math.cos(angle))
        total += _shift(moved.T, padding, cells[1] * length * math.sin(angle)).T
    return Background(ground.x, ground.y, total / BALL)


def _shift(values: np.ndarray, padding: int, cells: float) -> np.ndarray:
    """Return values (m, k + 2 padding) at `cells` cells further along the last axis, without the padding: (m, k)."""
    whole, last = math.floor(cells), values.shape[1] - padding
    share = cells - whole
    near = values[:, padding + whole : last + whole]
    return np.asarray((1 - share) * near + share * values[:, padding + whole + 1 : last + whole + 1])


def number(run: Run, trace: Trace) -> hero.Headline | None:
    """Return the headline: the end of the best method, compared with its start and with the end without privacy."""
    headline, result = hero.lowest(run, trace), outcome(trace)
    if headline is None or result is None:
        return headline
    start = short(result.start)
    sentence = f"Down from {start}" if result.end < result.start else f"**No lower than where it started**, {start}"
    if result.floor is not None:
        sentence += f"; without privacy {short(result.floor)}"
        sentence += ", a difference that may be chance" * result.chance(result.best, result.reference)
    return headline._replace(sentence=f"{sentence}.")
