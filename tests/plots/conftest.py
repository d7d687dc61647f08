"""A small comparison that every figure test draws: real plans, and a real run on the quadratic test bench."""

import pytest

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.trace import Trace
from dpviz.families.accelerated import presets
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.quadratic import Quadratic


@pytest.fixture(scope="session")
def experiment() -> Experiment:
    return Experiment(
        problem=Quadratic(rows=2000, dimension=3),
        arms=presets.arms(presets.SIX_METHODS, references=True, iterations=40),
        budget=PureDP(epsilon=2.0),
        replicates=5,
    )


@pytest.fixture(scope="session")
def trace(experiment: Experiment) -> Trace:
    return experiment.run()
