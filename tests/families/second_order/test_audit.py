"""What an attacker who knows everything but one row can tell from one release: as much as the event says, no more."""

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpviz.privacy.events import Gaussian
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query
from dpviz.problems.base import Cost
from dpviz.problems.nonconvex.nonconvex import LogisticTukey
from dpviz.problems.nonconvex.nonconvex_losses import LogisticRisk, Tukey
from dpviz.problems.nonconvex.symmetric import unpacked

DRAWS, FALSE_ALARMS = 50_000, 0.05
ALLOWED = float(ndtr(ndtri(FALSE_ALARMS) + 1))  # detections that μ = 1 allows
ERROR = 4 * np.sqrt(ALLOWED * (1 - ALLOWED) / DRAWS)  # four standard errors


def risk(row: list[float]) -> LogisticRisk:
    """One row of two features, times its label."""
    facts: Any = LogisticTukey().facts()
    small = type(facts)(**{**vars(facts), "n": 1, "d": 2})
    return LogisticRisk(small, Cost(1e-6, 1e-9, 1e-6), Tukey(1e-3), np.array([row]))


def released(query: Query, seed: int) -> np.ndarray:
    """(DRAWS, k) releases of the query with μ = 1."""
    many = query._replace(value=np.tile(query.value, (DRAWS, 1))[None])
    return Mechanisms(Ledger(FixedEvents((Gaussian(1.0),)), 1), seed).gaussian(many, Gaussian(1.0))[0]


def detections(without: np.ndarray, present: np.ndarray) -> float:
    """How often a statistic (DRAWS,) is above what it is above in 5 % of the draws of the other data set."""
    return float((present > np.quantile(without, 1 - FALSE_ALARMS)).mean())


def test_a_hessian_tells_exactly_what_its_event_says() -> None:
    """e₁ against e₂ at 0: the pair that is furthest apart, seen along the line between them."""
    zero, found = np.zeros((1, 2)), []
    for seed, row in ((1, [1.0, 0.0]), (2, [0.0, 1.0])):
        matrices = unpacked(released(risk(row).hessian(zero), seed), "goe")
        found.append((matrices[:, 1, 1] - matrices[:, 0, 0]) / np.sqrt(2))
    assert detections(*found) == pytest.approx(ALLOWED, abs=ERROR)


@pytest.mark.parametrize(("at_state", "expected"), [(False, float(ndtr(ndtri(FALSE_ALARMS) + 0.5))), (True, ALLOWED)])
def test_a_gradient_at_zero_tells_half_unless_noise_follows_the_point(at_state: bool, expected: float) -> None:
    """The same row with either label: gradients 1 apart at 0, where the bound for all points is 2."""
    zero, found = np.zeros((1, 2)), []
    for seed, row in ((1, [1.0, 0.0]), (2, [-1.0, 0.0])):
        found.append(released(risk(row).mean_gradient(zero, at_state=at_state), seed)[:, 0])
    assert detections(*found) == pytest.approx(expected, abs=ERROR)
    assert (ALLOWED, expected) == pytest.approx((0.2595, 0.2595 if at_state else 0.1261), abs=1e-4)
