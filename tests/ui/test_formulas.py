"""Formulas of the glossary that no other test computes as they are written; and the code that each entry names."""

import math
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dpviz.audits.audit import Neighbours
from dpviz.datasets.synthetic import Saddle
from dpviz.experiments.experiment import Arm
from dpviz.experiments.trace import Trace
from dpviz.families.bayesian_optimization.algorithms import Surface
from dpviz.families.bayesian_optimization.posterior import EvaluatedPoints, Surrogate
from dpviz.families.second_order import ShortStep
from dpviz.families.second_order.advice import within_targets
from dpviz.privacy import audit, budgets
from dpviz.privacy.events import Event, Laplace
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.tuning.tuning import clipped_sum
from dpviz.ui.glossary import TERMS

DRAWN = np.random.default_rng(0)


@pytest.mark.parametrize("slug", TERMS)
def test_the_code_of_an_entry_exists(slug: str) -> None:
    *rooms, name = TERMS[slug].code.split(".")
    if rooms[-1][0].isupper():  # a method of a class
        rooms, name = rooms[:-1], f"{rooms[-1]}.{name}"
    found: Any = import_module("dpviz." + ".".join(rooms))
    for part in name.split("."):
        found = getattr(found, part)


def mechanisms(event: Event, replicates: int = 1) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents((event,)), replicates), 7)


def close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    assert found == pytest.approx(expected, rel=tolerance, abs=1e-12)


# ----------------------------------------------------------------------------------------------------------- guarantees


def test_neighbouring() -> None:
    table, kept = DRAWN.normal(size=(6, 2)), SimpleNamespace(build=lambda tables: tables["a"])
    pair: Any = Neighbours.of(cast(ProblemSpecification, kept), "a", table, (1.0, 1.0), (1.0, -1.0))
    assert pair.one.shape == pair.other.shape == table.shape
    assert np.flatnonzero((pair.one != pair.other).any(axis=1)).tolist() == [pair.row]
    assert (pair.one[1:] == table[1:]).all() and pair.one[0].tolist() == [1.0, 1.0]


# ---------------------------------------------------------------------------------------------------------------- noise


def test_sensitivity() -> None:
    means = NoisyMeans(rows=100, clip=1.5)
    rows = np.zeros((100, 2))
    ends = [clipped_sum(np.vstack([[far, 0.0], rows[1:]]), 1.5)[0] / 100 for far in (-1e9, 1e9)]
    close(means.sensitivity, np.linalg.norm(ends[1] - ends[0]))


def test_clipping() -> None:
    for row in DRAWN.normal(size=(20, 3)) * 2:
        close(clipped_sum(row[None], 1.5)[0], row * min(1, 1.5 / np.linalg.norm(row)))


def test_mechanism() -> None:
    value = np.array([[1.0, -2.0]])
    noisy, noise = (mechanisms(Laplace(1.0)).laplace(Query(at, 0.5, "l1"), Laplace(1.0)) for at in (value, 0 * value))
    close(noisy, value + noise)


# ----------------------------------------------------------------------------------------------------------------- runs


def test_smoothness() -> None:
    problem, x = Quadratic(dimension=3, strong_convexity=0.2, smoothness=2.0).build(), DRAWN.normal(size=(1, 3))
    far = x + DRAWN.normal(size=(500, 3))
    change = np.linalg.norm(problem.regulariser_gradient(far) - problem.regulariser_gradient(x), axis=1)
    ratios = change / np.linalg.norm(far - x, axis=1)
    assert 0.9 * problem.facts.smoothness < ratios.max() <= problem.facts.smoothness * (1 + 1e-12)


def test_second_order() -> None:
    problem, method = RobustComponent(data=Saddle(rows=1000, dimension=3)).build(), ShortStep()
    arm = Arm(label="a", algorithm=method)
    plan = method.plan(problem.facts, budgets.ApproximateDP(epsilon=1.0, delta=1e-5))
    analysis = method.analysis(problem.facts)
    alpha, beta = analysis.gradient_target, analysis.curvature
    lasts = {
        "gradient_norm": np.array([[0.9, 0.9, 1.1]]) * alpha,
        "smallest_eigenvalue": np.array([[-0.9, -1.1, 1.0]]) * beta,
    }
    trace = Trace({"a": ()})
    trace.arm_traces["a"].iterations.append(0)
    trace.arm_traces["a"].values |= {name: list(last) for name, last in lasts.items()}
    met = within_targets(trace, arm, plan)
    assert met is not None and [part.tolist() for part in met] == [[True, True, False], [True, False, True]]


def believed() -> tuple[Any, np.ndarray, np.ndarray]:
    """What is known of a slope at 0 from five points, the inverse K⁻¹, and the kernel's slopes there."""
    surrogate = Surrogate(mean="zero", relative_noise=0.01)
    points = DRAWN.normal(size=(5, 2))
    local, kernel = EvaluatedPoints(surrogate, points).at(np.zeros(2)), surrogate.kernel_function
    inverse = np.linalg.inv(kernel.gram(points, points) + np.diag(local.evaluated.noise(points)))
    return local, inverse, kernel.slopes(np.zeros(2), points)


def test_surrogate() -> None:
    local, inverse, across = believed()
    y = DRAWN.normal(size=5)
    close(local.weights.T @ y, across.T @ inverse @ y, 1e-7)


def test_acquisition() -> None:
    points, values = DRAWN.normal(size=(6, 2)), DRAWN.normal(size=6)
    surface, candidates, t = Surface(0.7, 0.1), DRAWN.normal(size=(50, 2)), 3
    surface.learn(points, values)
    kernel, standard = surface._kernel, (values - values.mean()) / values.std()
    gram = kernel.gram(points, points) + (0.1 / values.std()) ** 2 * np.eye(6)
    across = kernel.gram(points, candidates)
    mean = across.T @ np.linalg.solve(gram, standard)
    deviation = np.sqrt(1 - (across * np.linalg.solve(gram, across)).sum(axis=0))
    beta = 0.4 * math.log(50 * t**2 * math.pi**2 / 0.6)
    assert surface.lowest(candidates, t) == np.argmin(mean - math.sqrt(beta) * deviation)


# --------------------------------------------------------------------------------------------------------------- audits


def test_audit() -> None:
    close(audit.least_epsilon(np.array([0.4]), np.array([0.05]), 1e-3), math.log((0.4 - 1e-3) / 0.05))
