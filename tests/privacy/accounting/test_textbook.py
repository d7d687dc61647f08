"""Composition theorems against brute force, each other, the published numbers, and their ranges."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.errors import UserError
from dpviz.privacy.accounting import closed_forms
from tests.oracles import composition as theorems
from tests.oracles import zcdp

steady = settings(derandomize=True, deadline=None, max_examples=60)
epsilons = st.floats(-3, 1).map(lambda x: 10**x)
slacks = st.floats(-10, -2).map(lambda x: 10**x)


# ------------------------------------------------------------------------------------------------ the published numbers


def test_hundred_releases_by_every_theorem() -> None:
    """ε = 0.1, a hundred times, δ = 1e-6: 10 by basic composition."""
    assert closed_forms.advanced_epsilon(0.1, 100, 1e-6) == pytest.approx(6.3082, abs=5e-5)
    assert theorems.simple([0.1] * 100, 1e-6) == (pytest.approx(5.7561, abs=5e-5), pytest.approx(1e-6, rel=1e-12))
    assert closed_forms.optimal_epsilon(0.1, 100, 1e-6) == pytest.approx(4.7746, abs=5e-5)
    assert closed_forms.optimal_epsilon(0.1, 100, 1e-5, step_delta=1e-8) == pytest.approx(4.32964, abs=5e-6)


def test_thousand_releases_by_every_theorem() -> None:
    """ε = 0.01, a thousand times: the other logarithm is smaller, 1.6415 instead of 1.7123."""
    assert closed_forms.advanced_epsilon(0.01, 1000, 1e-6) == pytest.approx(1.7628, abs=5e-5)
    squares, mean = 1000 * 0.01**2, 1000 * 0.01 * math.tanh(0.005)
    assert mean + math.sqrt(2 * squares * math.log(1e6)) == pytest.approx(1.7123, abs=5e-5)
    assert theorems.simple([0.01] * 1000, 1e-6)[0] == pytest.approx(1.6415, abs=5e-5)
    assert closed_forms.optimal_epsilon(0.01, 1000, 1e-6) == pytest.approx(1.3654, abs=5e-5)


def test_fully_adaptive_releases() -> None:
    """Fifty releases of ε = 0.1: 3.9669 as a filter; 3.5407 with the sharper ρ; 3.1729 with fixed parameters."""
    assert zcdp.filter_epsilon([0.1] * 50, 1e-6) == pytest.approx(3.9669, abs=5e-5)
    sharper = closed_forms.zcdp_epsilon(50 * closed_forms.pure_to_rho(0.1), 1e-6)
    assert sharper == pytest.approx(3.5407, abs=5e-5)
    assert closed_forms.optimal_epsilon(0.1, 50, 1e-6) == pytest.approx(3.1729, abs=5e-5)
    rho = 50 * 0.1**2 / 2  # it is zCDP in its classic conversion
    assert zcdp.filter_epsilon([0.1] * 50, 1e-6) == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e6)))


def test_the_worked_example() -> None:
    """A hundred releases of ε' = ln(1 + (e - 1)/10) on batches: 8.1234 where pure composition says 15.8565."""
    step = float(closed_forms.amplify(1.0, 100, 1000))
    assert 100 * step == pytest.approx(15.8565, abs=5e-5)
    assert closed_forms.optimal_epsilon(step, 100, 1e-6) == pytest.approx(8.1234, abs=5e-5)


# --------------------------------------------------------------------------------------------------------------- ranges


def test_calibration_by_advanced_composition_keeps_its_promise_in_its_range() -> None:
    for total, steps, slack in ((0.999, 10, 1e-6), (0.5, 1000, 1e-5), (0.01, 1, 1e-9)):
        step = float(closed_forms.advanced_step_epsilon(total, steps, slack))
        assert closed_forms.advanced_epsilon(step, steps, slack) <= total


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 8.0, -1.0, math.nan])
def test_theorems_are_not_used_outside_their_range(epsilon: float) -> None:
    for kind in (UserError, ValueError):
        with pytest.raises(kind, match="between 0 and 1"):
            closed_forms.classic_gaussian_mu(epsilon, 1e-6)


@steady
@given(epsilon=st.floats(0.001, 0.999), delta=slacks)
def test_the_classic_gaussian_mechanism_is_valid_in_its_range(epsilon: float, delta: float) -> None:
    assert closed_forms.classic_gaussian_mu(epsilon, delta) <= closed_forms.gdp_mu(epsilon, delta)


# ---------------------------------------------------------------------------------------------- the optimal composition


def by_enumeration(epsilon: float, steps: int, step_delta: float, total: float) -> float:
    """δ at ε of randomised responses that also fail openly, over all outcomes, each told from its probabilities."""
    true, false = (1 - step_delta) / (1 + math.exp(-epsilon)), (1 - step_delta) / (1 + math.exp(epsilon))
    outcomes = [(true, false), (false, true), (step_delta, 0.0), (0.0, step_delta)]
    delta = 0.0
    for run in itertools.product(outcomes, repeat=steps):
        p, q = math.prod(here for here, _ in run), math.prod(there for _, there in run)
        delta += max(0.0, p - math.exp(total) * q)
    return delta


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 3.0])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("step_delta", [0.0, 0.01])
def test_optimal_composition_by_enumeration(epsilon: float, steps: int, step_delta: float) -> None:
    for share in (0.0, 0.1, 0.37, 0.6, 0.99, 1.0, 1.5):
        total = share * steps * epsilon
        expected = by_enumeration(epsilon, steps, step_delta, total)
        assert theorems.optimal_delta(epsilon, steps, total, step_delta) == pytest.approx(expected, abs=1e-13)


@steady
@given(
    epsilon=epsilons,
    steps=st.integers(1, 3000),
    share=st.floats(0.0, 1.0),
    step_delta=st.sampled_from([0.0, 1e-9, 1e-5]),
)
def test_optimal_composition_and_its_inverse(epsilon: float, steps: int, share: float, step_delta: float) -> None:
    total = share * steps * epsilon
    delta = theorems.optimal_delta(epsilon, steps, total, step_delta)
    assert 0 <= delta <= 1
    own = -math.expm1(steps * math.log1p(-step_delta))
    assert delta >= own * (1 - 1e-12)
    if own + 1e-12 < delta < 0.999 and delta > 1e-250:
        found = closed_forms.optimal_epsilon(epsilon, steps, delta, step_delta)
        assert found == pytest.approx(total, rel=1e-6, abs=1e-6)
        assert closed_forms.optimal_epsilon(epsilon, steps, delta * 0.99 + own * 0.01, step_delta) >= found - 1e-12


@steady
@given(epsilon=epsilons, steps=st.integers(1, 3000), slack=slacks)
def test_the_theorems_are_in_their_order(epsilon: float, steps: int, slack: float) -> None:
    """Optimal ≤ simple ≤ basic and advanced; and optimal ≤ zCDP, which is a valid bound for the same releases."""
    best = closed_forms.optimal_epsilon(epsilon, steps, slack)
    simple, delta = theorems.simple([epsilon] * steps, slack)
    assert delta == pytest.approx(slack, rel=1e-12)
    slightly = 1 + 1e-9
    assert best <= simple * slightly
    assert simple <= min(steps * epsilon, closed_forms.advanced_epsilon(epsilon, steps, slack)) * slightly
    assert best <= closed_forms.zcdp_epsilon(steps * closed_forms.pure_to_rho(epsilon), slack) * slightly
    assert best <= zcdp.filter_epsilon([epsilon] * steps, slack) * slightly
    assert closed_forms.optimal_epsilon(epsilon, steps, slack / 2) >= best
    assert closed_forms.optimal_epsilon(epsilon, steps + 1, slack) >= best * (1 - 1e-9)


@steady
@given(parts=st.lists(epsilons, min_size=1, max_size=30), slack=slacks)
def test_simple_composition_does_not_mind_the_order(parts: list[float], slack: float) -> None:
    deltas = [1e-7 * (i + 1) for i in range(len(parts))]
    forward, backward = theorems.simple(parts, slack, deltas), theorems.simple(parts[::-1], slack, deltas[::-1])
    assert forward == pytest.approx(backward, rel=1e-12)
    assert forward[1] == pytest.approx(1 - (1 - slack) * math.prod(1 - delta for delta in deltas), rel=1e-6)
    assert zcdp.filter_epsilon(parts, slack) == pytest.approx(zcdp.filter_epsilon(parts[::-1], slack))


def test_the_ends_of_optimal_composition() -> None:
    assert closed_forms.optimal_epsilon(0.1, 100, 0.0) == pytest.approx(10.0)
    assert closed_forms.optimal_epsilon(0.1, 100, 1e-300) == pytest.approx(10.0, rel=1e-9)
    assert closed_forms.optimal_epsilon(0.1, 100, 0.9) == 0.0
    assert closed_forms.optimal_epsilon(0.1, 100, 1e-6, step_delta=1e-7) == math.inf  # they alone fail with 1e-5
    assert closed_forms.optimal_epsilon(0.1, 1, 1e-6, step_delta=1e-6) == pytest.approx(0.1)  # nothing is left to trade
    assert closed_forms.optimal_epsilon(700.0, 3, 1e-6) == pytest.approx(2100.0, rel=1e-6)
    assert theorems.optimal_delta(50.0, 3, 100.0) == pytest.approx(1.0, rel=1e-12)
    assert theorems.optimal_delta(0.1, 10, 1.1) == 0.0
    assert theorems.optimal_delta(0.1, 10, 1.1, step_delta=0.01) == pytest.approx(1 - 0.99**10, rel=1e-12)
    # 100 000 small releases are as good as Gaussian noise with the same variance of the loss.
    gaussian = closed_forms.gdp_epsilon(math.sqrt(100_000) * 0.001, 1e-6)
    assert closed_forms.optimal_epsilon(0.001, 100_000, 1e-6) == pytest.approx(gaussian, rel=1e-3)
    with pytest.raises(ValueError, match="negative"):
        theorems.optimal_delta(0.1, 10, -0.1)
