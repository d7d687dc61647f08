"""What is known of the plane in which the runs of the accelerated methods move: of a quadratic, everything; of a model
of public data, its objective."""

import numpy as np

from dpviz.experiments.experiment import Arm
from dpviz.families.accelerated import figures
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.plots.clouds import Background
from dpviz.plots.elements.sheets import Ruler
from dpviz.problems.base import SmoothFacts
from dpviz.problems.linear.linear_base import LinearModel, LinearProblem, evaluation_seconds
from dpviz.ui.experiment.cloud import PlaneView
from dpviz.ui.experiment.run import Run

POINTS = 61  # of the ground along each axis
SECONDS = 0.2  # that it may take to evaluate the objective there; to load the data takes no longer


def _ground(run: Run, x: Ruler, y: Ruler) -> Background | None:
    problem, grid = run.experiment.problem, [np.linspace(ruler.low, ruler.high, POINTS) for ruler in (x, y)]
    facts = problem.facts()
    assert isinstance(facts, SmoothFacts)
    if facts.eigenvalues:
        return figures.ground(facts, *grid)
    if not isinstance(problem, LinearModel) or figures.KNOTS**2 * evaluation_seconds(facts.n, facts.d) > SECONDS:
        return None
    assert isinstance(run.problem, LinearProblem)
    return figures.section(run.problem, *grid)


def _region(run: Run, arm: Arm) -> tuple[np.ndarray, np.ndarray] | None:
    assert isinstance(arm.algorithm, GradientMethod)
    return figures.ellipse(arm.algorithm, run.plans[arm.label])


SCENERY = PlaneView(ground=_ground, region=_region)
