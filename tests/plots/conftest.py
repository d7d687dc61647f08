"""A small comparison that every figure test draws: real plans, and a real run on the quadratic test bench."""

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
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


@pytest.fixture(scope="session")
def long_experiment() -> Experiment:
    """Six private arms with T = 1000, for the budgets of time and size."""
    return Experiment(
        problem=Quadratic(),
        arms=presets.arms(presets.SIX_METHODS, iterations=1000, horizon="fixed"),
        budget=PureDP(epsilon=2.0),
    )


@pytest.fixture(scope="session")
def check_finite() -> Callable[[go.Figure], None]:
    """Asserts that a figure holds finite single-precision numbers only, in arrays, and few of them."""

    def check(figure: go.Figure) -> None:
        for trace in figure.data:
            assert isinstance(trace.x, np.ndarray) and isinstance(trace.y, np.ndarray)
            assert trace.y.dtype == np.float32 and trace.x.dtype in (np.int16, np.int32, np.float32)
            assert np.isfinite(trace.x).all() and np.isfinite(trace.y).all()
            assert 0 < len(trace.x) == len(trace.y) <= 1000
        assert figure.layout.title.text is None
        assert figure.layout.paper_bgcolor is None and figure.layout.font.color is None

    return check
