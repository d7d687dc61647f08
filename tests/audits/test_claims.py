"""Claims of several selections: what their ranges allow together, and what rates refute of it."""

import dataclasses

import numpy as np
import pytest

from dpviz.audits.audit import Audit, Claim
from dpviz.families.mirror_descent.audits import CASES
from dpviz.privacy import tradeoffs
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.privacy.events import ExpMech
from tests.families.test_implementation import scaled

SAMPLING = next(case for case in CASES if case.name == "vertex_sampling")
RESPONSES = next(case for case in CASES if case.name == "fictitious_play")


def claim_of(ranges: tuple[float, ...]) -> Claim:
    plan = Audit(SAMPLING, PureDP(epsilon=6.0)).plan
    terms = dataclasses.replace(plan.terms, events=tuple(map(ExpMech, ranges)))  # type: ignore[type-var]
    return Claim.of(dataclasses.replace(plan, terms=terms, charged_at=np.ones(len(ranges), dtype=int)))


def test_the_claim_of_selections_is_the_trade_off_of_all_of_them() -> None:
    claim, q = Audit(SAMPLING, PureDP(epsilon=6.0)).claim, np.linspace(0.01, 0.9, 30)
    together = tradeoffs.tradeoff((ExpMech(1.0), ExpMech(1.0), ExpMech(2.0), ExpMech(2.0)), q)
    assert claim.symbol == "largest η" and claim.value == 2.0
    np.testing.assert_allclose(claim.tradeoff(q), together, atol=1e-9)
    assert (together > 5 * PureDP(epsilon=6.0).tradeoff(q)).all()  # what Σε allows is far more


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0, 1.5])
def test_rates_refute_the_ranges_that_do_not_allow_them_and_no_others(share: float) -> None:
    """To the grid of shares: never above the truth, and less than two steps below."""
    ranges, q = (1.0, 1.0, 2.0, 2.0), np.array([0.01, 0.05, 0.2, 0.5])
    rate = 1 - tradeoffs.tradeoff([ExpMech(share * one) for one in ranges], q)
    found = claim_of(ranges).smallest_value(rate, q) / 2
    assert (found <= share).all() and (found >= share - 0.041).all()
    assert (claim_of(ranges).smallest_value(q, q) == 0).all()  # guessing proves nothing
    above = 1 - tradeoffs.tradeoff([ExpMech(one) for one in ranges], q) + 1e-4
    assert (claim_of(ranges).smallest_value(above, q) > 2.0).all()  # the claim itself is refuted by any more


def test_ranges_too_large_to_compose_leave_the_budget_as_the_claim() -> None:
    """At the largest μ of the page the audit ended in an error."""
    claim = Audit(SAMPLING, GaussianDP(mu=20.0)).claim
    assert claim.symbol == "μ" and claim.smallest_value(np.array([0.9]), np.array([0.1])) == pytest.approx(
        2 * 1.2815516
    )


@pytest.mark.slow
def test_selections_with_half_of_the_noise_are_seen_at_six() -> None:
    """ε = 6 allows nearly everything; what three selections with η = 2 allow together does not."""
    case = dataclasses.replace(RESPONSES, source=scaled(0.5))
    assert not Audit(RESPONSES, PureDP(epsilon=6.0), runs=4000, seed=1).run().violation
    assert Audit(case, PureDP(epsilon=6.0), runs=4000, seed=1).run().violation
