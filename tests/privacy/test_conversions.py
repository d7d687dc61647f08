"""What a bare guarantee implies in other currencies: valid directions only, and no better than the events' own cost."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.privacy import conversions
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Gaussian, Laplace

DELTA = 1e-6

steady = settings(derandomize=True, deadline=None, max_examples=25)


def test_conversions_of_bare_budgets():
    pure = conversions.convert(PureDP(epsilon=1.0), 1e-5)
    assert pure["epsilon"] == 1.0
    assert pure["rho"] == pytest.approx(0.46211715726) and pure["mu"] == pytest.approx(1.23203538534)
    assert pure["epsilon_at_delta"] == pytest.approx(math.log(math.e - 1e-5 * (1 + math.e)), rel=1e-12)
    gaussian = conversions.convert(GaussianDP(mu=1.0), DELTA)
    assert gaussian["epsilon"] is None and gaussian["rho"] == 0.5 and gaussian["mu"] == 1.0
    assert gaussian["epsilon_at_delta"] == pytest.approx(4.88655411746, rel=1e-9)
    concentrated = conversions.convert(ZeroConcentratedDP(rho=0.5), DELTA)
    assert concentrated["epsilon"] is None and concentrated["mu"] is None  # no simple formula is valid
    assert concentrated["epsilon_at_delta"] == pytest.approx(5.22153444453, rel=1e-9)


def test_approximate_budgets_convert_upwards_in_delta_only():
    budget = ApproximateDP(epsilon=1.0, delta=1e-5)
    nothing = {"epsilon": None, "epsilon_at_delta": None, "rho": None, "mu": None}
    assert conversions.convert(budget, 0.9e-5) == nothing  # the worst case fails openly with probability 1e-5
    assert conversions.convert(budget, 1e-5) == {**nothing, "epsilon_at_delta": 1.0}
    better = conversions.convert(budget, 1e-3)["epsilon_at_delta"]
    assert better is not None and better < 1.0
    # The worst case attains it: it fails openly with probability δ₀ and is randomised response otherwise.
    assert 1e-5 + (1 - 1e-5) * float(closed_forms.pure_delta(1.0, better)) == pytest.approx(1e-3, rel=1e-9)
    assert conversions.convert(NoPrivacy(), 1e-3) == nothing


@steady
@given(size=st.floats(-1.9, 1.2).map(lambda x: 10**x), delta=st.floats(-9, -3).map(lambda x: 10**x))
def test_a_plan_reads_no_worse_than_its_bare_budget(size, delta):
    """Converting the mechanism is never worse than converting the number."""
    for budget, event in (
        (PureDP(epsilon=size), Laplace(size)),
        (GaussianDP(mu=size), Gaussian(size)),
        (ZeroConcentratedDP(rho=size**2 / 2 if size < 14 else 98.0), Gaussian(size if size < 14 else 14.0)),
    ):
        bare = conversions.convert(budget, delta)
        assert accountants.tightest([event], delta).epsilon <= bare["epsilon_at_delta"] * (1 + 1e-9)
        for currency in ("epsilon", "rho", "mu"):
            value = bare[currency]
            assert value is None or accountants.total([event], currency) <= value * (1 + 1e-9)
