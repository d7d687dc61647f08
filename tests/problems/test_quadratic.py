"""The quadratic bench: facts in closed form, and rows that contribute nothing but their sensitivity."""

import numpy as np
import pytest

from dpviz.privacy.events import Laplace, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.linear.quadratic import Quadratic


def test_the_spectrum_runs_from_strong_convexity_to_smoothness() -> None:
    for low, high in ((0.02, 1.0), (1.0, 0.02), (0.5, 0.5)):
        spectrum = Quadratic(strong_convexity=low, smoothness=high, dimension=7).eigenvalues()
        assert len(spectrum) == 7 and (np.diff(spectrum) >= 0).all()
        assert spectrum[0] == min(low, high) and spectrum[-1] == max(low, high), "to the last digit"
    assert np.ptp(np.diff(np.log(Quadratic().eigenvalues()))) < 1e-12
    assert Quadratic(spacing="ends", dimension=5).eigenvalues().tolist() == [0.02, 0.02, 0.02, 1.0, 1.0]
    assert Quadratic(spacing="ends", dimension=2).eigenvalues().tolist() == [0.02, 1.0]


@pytest.mark.parametrize("spacing", ["log", "ends"])
@pytest.mark.parametrize("start", [0.0, 1.0, -3.0])
def test_the_initial_error_is_exact(start: float, spacing: str) -> None:
    facts = Quadratic(start=start, spacing=spacing, dimension=4).facts()
    problem = Quadratic(start=start, spacing=spacing, dimension=4).build()
    x0 = facts.starting_point(3)
    assert x0.shape == (3, 4) and (x0 == start).all()
    gap = problem.evaluate({"x": x0})["objective_gap"]
    assert gap == pytest.approx(facts.initial_gap, rel=1e-14)
    distance = facts.strong_convexity / 2 * (x0[0] ** 2).sum()
    assert facts.lyapunov == pytest.approx(gap[0] + distance, rel=1e-14) and facts.lyapunov <= 2 * gap[0] + 1e-15
    assert facts == problem.facts, "to the last digit, or a run would refuse its own plan"


def test_the_gradient_is_public_and_the_query_is_only_its_sensitivity() -> None:
    problem = Quadratic(rows=50, dimension=3, clip=2.5).build()
    x = np.random.default_rng(0).normal(size=(4, 3))
    event = Sub("wor", 10, 50, Laplace(1.0))
    mechanisms = Mechanisms(Ledger(FixedEvents((event, Laplace(1.0))), 4), 0)
    for released, m in ((event, 10), (Laplace(1.0), 50)):
        batch = mechanisms.batch(released)
        for norm in ("l1", "l2"):
            query = problem.mean_gradient(x, batch, norm)  # type: ignore[arg-type]
            assert (query.value == 0).all() and query.sensitivity == 2 * 2.5 / m and query.batch is batch
    step = 1e-6
    for j in range(3):
        shift = step * np.eye(3)[j]
        up, down = (problem.evaluate({"x": x + sign * shift})["objective_gap"] for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(problem.regulariser_gradient(x)[:, j], abs=1e-9)
    expected = np.linalg.norm(problem.regulariser_gradient(x), axis=1)
    assert problem.evaluate({"x": x})["gradient_norm"] == pytest.approx(expected, rel=1e-14)


def test_the_bench_needs_no_tables_and_is_public() -> None:
    assert Quadratic().public
    assert Quadratic().build({"a" * 64: np.zeros((2, 2))}).facts == Quadratic().facts()
