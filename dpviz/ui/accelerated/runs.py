"""What is known of the plane in which the runs of the accelerated methods move: of a quadratic, everything."""

import numpy as np

from dpviz.experiments.experiment import Arm
from dpviz.families.accelerated import clouds
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.plots.landscape import Ground
from dpviz.plots.sheets import Ruler
from dpviz.problems.base import SmoothFacts
from dpviz.ui.experiment.cloud import Scenery
from dpviz.ui.experiment.run import Run

POINTS = 61  # of the ground along each axis


def _ground(run: Run, x: Ruler, y: Ruler) -> Ground | None:
    facts = run.experiment.problem.facts()
    if not isinstance(facts, SmoothFacts) or not facts.eigenvalues:
        return None
    return clouds.ground(facts, *(np.linspace(ruler.low, ruler.high, POINTS) for ruler in (x, y)))


def _region(run: Run, arm: Arm) -> tuple[np.ndarray, np.ndarray] | None:
    assert isinstance(arm.algorithm, GradientMethod)
    return clouds.ellipse(arm.algorithm, run.plans[arm.label])


SCENERY = Scenery(ground=_ground, region=_region)
