"""Descent along random directions: what one noisy number per step costs and gets."""

import numpy as np
import pytest

from dpviz.families.zeroth_order import DirectionalDescent, FirstOrder
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.privacy.events import Gaussian, Laplace, Parallel
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.values.black_box import PhaseRetrieval

FACTS = PhaseRetrieval().facts()


def test_laplace_noise_is_priced_exactly_in_every_currency() -> None:
    """μ = 1 buys ε₀ = 0.96553 on every batch; ε₀ = 1 itself would cost μ = 1.0301."""
    method = DirectionalDescent(noise="laplace")
    (event,) = method.plan(FACTS, GaussianDP(mu=1.0)).events
    assert isinstance(event, Parallel) and len(event.events) == 200
    (one,) = set(event.events)
    assert isinstance(one, Laplace) and one.eps == pytest.approx(0.96553, abs=1e-4)
    assert accountants.total((Parallel((Laplace(1.0),) * 3),), "mu") == pytest.approx(1.0301, abs=1e-4)
    (pure,) = method.plan(FACTS, PureDP(epsilon=1.0)).events
    assert set(pure.events) == {Laplace(1.0)}  # type: ignore[union-attr]


def test_noise_is_that_of_one_clipped_number_per_batch() -> None:
    plan = DirectionalDescent().plan(FACTS, GaussianDP(mu=0.3))
    assert set(plan.events[0].events) == {Gaussian(0.3)}  # type: ignore[union-attr]
    assert plan.noise["gradient"] == pytest.approx(2 * 2.5 / 250 / 0.3, rel=1e-12)
    assert plan.schedule["step_size"][[0, 100]] == pytest.approx([0.1, 0.05])


@pytest.mark.slow
def test_the_default_gets_where_the_specification_says() -> None:
    """F = 0.0041 at μ = 0.3; the median of 16 replicates, which spread by half of that."""
    problem, method = PhaseRetrieval().build(), DirectionalDescent()
    plan = method.plan(problem.facts, GaussianDP(mu=0.3))
    *_, last = method.run(problem, plan, Mechanisms(Ledger(plan.terms, 16), 1))
    assert np.median(problem.evaluate(last.output, expensive=False)["objective"]) < 0.01
    assert (last.released["evaluations"] == 2 * last.released["rows_used"]).all()
    derivatives = FirstOrder()
    plan = derivatives.plan(problem.facts, GaussianDP(mu=0.3))
    *_, last = derivatives.run(problem, plan, Mechanisms(Ledger(plan.terms, 16), 1))
    assert np.median(problem.evaluate(last.output, expensive=False)["objective"]) < 0.0005
