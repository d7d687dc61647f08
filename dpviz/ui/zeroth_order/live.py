"""What a visitor of the zeroth-order page sees first: the objective falling, or a cloud of runs in a valley."""

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
# What is drawn of each function: lowest and highest value of both parameters.
REACH = {BentValley: ((-1.4, 1.6), (-1.6, 1.6)), PhaseRetrieval: ((-1.4, 1.4), (-1.4, 1.4))}


def mapped(shown: PlanView) -> bool:
    """Whether the picture is a landscape."""
    return has_landscape(shown.experiment.problem)


def has_landscape(problem: ProblemSpecification) -> bool:
    """Whether the ground can be drawn: of simulated functions of two parameters."""
    return type(problem) in REACH and problem.facts().d == len(DIRECTIONS)


def picture(run: Run, diagnostics: bool) -> Chart | None:
    """A dot for every run on the ground of a function of two parameters; of others the curves of the objective."""
    if diagnostics and run.job.trace is not None and has_landscape(run.experiment.problem):
        return landscape(run, run.job.trace)
    return curves(run, diagnostics)


def curves(run: Run, diagnostics: bool) -> Chart | None:
    """The objective, step by step."""
    return hero.curves(run, diagnostics, most=LINES)


def landscape(run: Run, trace: Trace, smoothed: bool = False) -> Chart | None:
    """Contours, and what every run of every method would release; None before the first step."""
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
    """The objective of a run's function over both parameters; smoothed over discs of radius r, if so asked."""
    found = _evaluated(run.experiment.problem.to_json())
    return averaged(found, radius(run)) if smoothed else found


def below(run: Run, *_: Ruler) -> Background | None:
    """The objective below the runs, whatever part of the plane they reach; None where it cannot be drawn."""
    return ground(run, smoothed=False) if has_landscape(run.experiment.problem) else None


def radius(run: Run) -> float:
    """r of a run's function."""
    facts = run.problem.facts
    assert isinstance(facts, ValueFacts)
    return facts.radius


@st.cache_resource(max_entries=8, show_spinner=False)
def _evaluated(about: str) -> Background:
    """The objective of a simulated function, given as JSON text, of fewer rows: the picture is the same."""
    problem = BlackBox.from_json(about)
    x, y = (np.linspace(low, high, POINTS) for low, high in REACH[type(problem)])
    return clouds.evaluated(problem.replaced(rows=ROWS).build(), x, y)


def averaged(found: Background, radius: float) -> Background:
    """The mean over discs of this radius, linear between the points of the grid; beyond its edge it goes on as it
    ends."""
    cells = radius / (found.x[1] - found.x[0]), radius / (found.y[1] - found.y[0])
    room = math.ceil(max(cells)) + 1
    padded = np.pad(found.values, room, mode="reflect", reflect_type="odd")
    turns = np.arange(BALL) * np.pi * (3 - np.sqrt(5))  # a sunflower: evenly over the disc
    lengths = np.sqrt((np.arange(BALL) + 0.5) / BALL)
    total = np.zeros_like(found.values)
    for length, turn in zip(lengths.tolist(), turns.tolist(), strict=True):
        along = _moved(padded, room, cells[0] * length * math.cos(turn))
        total += _moved(along.T, room, cells[1] * length * math.sin(turn)).T
    return Background(found.x, found.y, total / BALL)


def _moved(values: np.ndarray, room: int, cells: float) -> np.ndarray:
    """Values (m, k + 2 room) that many cells further along the last axis, without the room at both ends; (m, k)."""
    whole, last = math.floor(cells), values.shape[1] - room
    share = cells - whole
    near = values[:, room + whole : last + whole]
    return np.asarray((1 - share) * near + share * values[:, room + whole + 1 : last + whole + 1])


def number(run: Run, trace: Trace) -> hero.Headline | None:
    """Where the best method ends, and in one sentence how far that is from the start and from no privacy."""
    told, found = hero.lowest(run, trace), outcome(trace)
    if told is None or found is None:
        return told
    fell = found.end < found.start
    words = f"Down from {short(found.start)}" if fell else f"**No lower than where it started**, {short(found.start)}"
    if found.floor is not None:
        words += f"; without privacy {short(found.floor)}"
        words += ", a difference that may be chance" * found.chance(found.best, found.reference)
    return told._replace(sentence=f"{words}.")
