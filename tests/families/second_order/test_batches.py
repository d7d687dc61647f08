"""Batches: one iteration is one sampled pair of Gaussians, composed as a privacy loss distribution (THEORY.md, 4.5)."""

from typing import Any

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.families.second_order import MiniBatch, MiniBatchTrustRegion
from dpviz.families.second_order.methods.algorithms import NonconvexMethod
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Gaussian, Repeat, Seq, Sub
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts
from tests.refusals import NO_AMPLIFICATION, NO_GAUSSIAN, is_refusal

N, M = 495_141, 4951
FACTS = NonconvexFacts(n=N, d=54, smoothness=1.0, hessian_lipschitz=1.0, gap=0.5)
LOOSE: dict[str, Any] = {"gradient_target": 0.06, "curvature_target": None, "batch_fraction": 0.01}
TIGHT = LOOSE | {"gradient_target": 0.03}


def scales(method: NonconvexMethod, epsilon: float) -> list[float]:
    """σ of each phase, in units of the sensitivity on a batch."""
    plan = method.plan(FACTS, ApproximateDP(epsilon=epsilon, delta=1 / N))
    assert plan.resolved["batch_size"] == M
    found = np.unique(plan.noise["gradient"] * M / FACTS.gradient_sensitivity)
    assert np.allclose(plan.noise["hessian"] / plan.noise["gradient"], FACTS.hessian_sensitivity / 2)
    return found.tolist()


def test_a_pair_of_gaussians_on_a_batch_is_one() -> None:
    pair = Sub("wor", M, N, Seq((Gaussian(0.3), Gaussian(0.4))))
    found = accountants.epsilon((Repeat(pair, 421),), 1 / N, "pld")
    assert found == pytest.approx(0.50155, abs=1e-4)
    assert found == pytest.approx(accountants.epsilon((Repeat(Sub("wor", M, N, Gaussian(0.5)), 421),), 1 / N, "pld"))


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (MiniBatch(**LOOSE), ([5.856], [2.488], [1.790])),
        (MiniBatch(**TIGHT), ([11.120], [4.364], [2.937])),
        (MiniBatchTrustRegion(**LOOSE), ([4.274], [1.953], [1.509])),
        (MiniBatchTrustRegion(**TIGHT), ([6.759], [2.806], [1.978])),
        (MiniBatch(**LOOSE, phases="two"), ([2.092, 16.62], [1.426, 11.34], [1.242, 9.867])),
        pytest.param(
            MiniBatch(**TIGHT, phases="two"), ([2.494, 27.66], [1.504, 16.68], [1.295, 14.36]), marks=pytest.mark.slow
        ),
    ],
    ids=lambda value: f"{value.title} {value.gradient_target}" if isinstance(value, NonconvexMethod) else "",
)
def test_noise_of_the_papers_batches(method: NonconvexMethod, expected: tuple[list[float], ...]) -> None:
    for epsilon, sigma in zip((0.2, 0.6, 1.0), expected, strict=True):
        assert scales(method, epsilon) == pytest.approx(sigma, rel=2e-3)


@pytest.mark.parametrize("method", [MiniBatch(), MiniBatchTrustRegion()])
def test_batches_are_refused_in_currencies_that_they_do_not_shrink(method: NonconvexMethod) -> None:
    facts = RobustComponent().facts()
    for budget in (ZeroConcentratedDP(rho=0.1), GaussianDP(mu=0.3)):
        with pytest.raises(UserError) as raised:
            method.plan(facts, budget)
        assert is_refusal(raised.value, NO_AMPLIFICATION)
        assert method.replaced(batch_fraction=1.0).plan(facts, budget).terms, "all rows are no batch"
    with pytest.raises(UserError) as raised:
        method.plan(facts, PureDP(epsilon=1.0))
    assert is_refusal(raised.value, NO_GAUSSIAN)
