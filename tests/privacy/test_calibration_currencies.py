"""Budgets in Rényi divergence and as an attack bound: plans that meet them, and what they imply on their own.

Every check has a second opinion that shares no code with the planner: quadrature over the pair of distributions that
the attacker sees, or closed trade-off curves.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from dpviz.errors import UserError
from dpviz.privacy import calibration, conversions, tradeoffs
from dpviz.privacy.accounting import closed_forms
from dpviz.privacy.budgets import (
    ApproximateDP,
    Budget,
    GaussianDP,
    NoPrivacy,
    PureDP,
    RenyiDP,
    TradeOff,
    ZeroConcentratedDP,
)
from dpviz.privacy.events import Event, Gaussian, Laplace, Sub, inner_events
from tests.pairs import all_pairs

steady = settings(derandomize=True, deadline=None, max_examples=25)

RATES = np.concatenate([np.geomspace(1e-6, 1e-2, 30), np.linspace(0.01, 0.999, 100)])
GRID = np.linspace(-60, 60, 240_001)  # of the released value, in units of the noise
SCHEMES = {"all rows": (100, 100, "wor"), "wor": (10, 100, "wor"), "poisson": (10, 100, "poisson")}
RENYI = [RenyiDP(), RenyiDP(epsilon=0.01, order=2.0), RenyiDP(epsilon=5.0, order=32.0), RenyiDP(epsilon=0.5, order=1.5)]
ATTACKS = [
    TradeOff(),
    TradeOff(true_positive_rate=0.02, false_positive_rate=0.01),
    TradeOff(true_positive_rate=0.5, false_positive_rate=0.1),
    TradeOff(true_positive_rate=0.53, false_positive_rate=0.5),
    TradeOff(true_positive_rate=0.01, false_positive_rate=0.0001),
]


def densities(event: Event) -> tuple[np.ndarray, np.ndarray]:
    """Of one release with and without the row that tells, if all other rows are alike: what an attacker can arrange."""
    (inner,) = inner_events(event)
    fraction = event.m / event.n if isinstance(event, Sub) else 1.0
    if isinstance(inner, Laplace):
        moved, still = stats.laplace.pdf(GRID, inner.eps), stats.laplace.pdf(GRID)
    else:
        assert isinstance(inner, Gaussian)
        moved, still = stats.norm.pdf(GRID, inner.mu), stats.norm.pdf(GRID)
    return fraction * moved + (1 - fraction) * still, still


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """D_order(P ‖ Q) by quadrature; the rule's own error, which P = Q would show, is divided out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        heights = np.where((p > 0) & (q > 0), np.exp(order * np.log(p) + (1 - order) * np.log(q)), 0.0)
    whole, of_p, of_q = (math.log(np.trapezoid(values, GRID)) for values in (heights, p, q))
    return (whole - order * of_p - (1 - order) * of_q) / (order - 1)


def detected(p: np.ndarray, q: np.ndarray, false_alarms: float) -> float:
    """TPR of the best test of Q against P, by sorting outcomes by their likelihood ratio; interpolated."""
    order, cell = np.argsort(-p / np.maximum(q, 1e-300), kind="stable"), GRID[1] - GRID[0]
    return float(np.interp(false_alarms, np.cumsum(q[order]) * cell, np.cumsum(p[order]) * cell))


# --------------------------------------------------------------------------------------------- plans that meet a budget


@all_pairs
@pytest.mark.parametrize("budget", RENYI, ids=lambda budget: budget.describe())
@pytest.mark.parametrize(("m", "n", "sampling"), SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_a_renyi_budget_is_used_up_and_never_exceeded(
    noise: str, m: int, n: int, sampling: str, budget: RenyiDP
) -> None:
    steps = 20
    events = calibration.calibrated_events(noise, budget, np.ones(steps), m, n, sampling=sampling)
    assert len(events) == steps and len(set(events)) == 1
    assert budget.epsilon * (1 - 2e-6) <= budget.cost(events) <= budget.epsilon * (1 + 1e-12)
    p, q = densities(events[0])
    worst = steps * max(divergence(p, q, budget.order), divergence(q, p, budget.order))
    assert worst <= budget.epsilon * (1 + 1e-5)
    if m == n:
        assert worst == pytest.approx(budget.epsilon, rel=1e-5)
    else:  # of a batch only the amplified ε counts, whatever the mechanism
        assert worst > 0.25 * budget.epsilon


def test_a_larger_order_asks_for_more_noise() -> None:
    scales = []
    for order in (1.01, 2.0, 8.0, 100.0, 1000.0):
        (event,) = set(calibration.calibrated_events("laplace", RenyiDP(order=order), np.ones(10), 50, 50))
        assert isinstance(event, Laplace)
        scales.append(event.eps)
    assert scales == sorted(scales, reverse=True)
    assert scales[-1] == pytest.approx(0.1, rel=0.01)  # D_∞ is pure ε


@all_pairs
@pytest.mark.parametrize("budget", ATTACKS, ids=lambda budget: budget.describe())
@pytest.mark.parametrize(("m", "n", "sampling"), SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_an_attack_bound_is_met_by_a_single_release(
    noise: str, m: int, n: int, sampling: str, budget: TradeOff
) -> None:
    rate, limit = budget.false_positive_rate, budget.true_positive_rate
    if m < n and limit > rate + m / n:  # the row is in the batch too rarely to be noticed so often
        with pytest.raises(UserError, match="without any noise"):
            calibration.calibrated_events(noise, budget, np.ones(1), m, n, sampling=sampling)
        return
    (event,) = calibration.calibrated_events(noise, budget, np.ones(1), m, n, sampling=sampling)
    p, q = densities(event)
    found = max(detected(p, q, rate), detected(q, p, rate))
    assert found <= limit * (1 + 5e-4)
    if sampling == "poisson" or rate < 0.5:  # for fixed-size batches the worse of both directions counts at every rate
        assert found == pytest.approx(limit, rel=2e-3)


@all_pairs
@pytest.mark.parametrize("budget", ATTACKS[:3], ids=lambda budget: budget.describe())
@pytest.mark.parametrize(("m", "n", "sampling"), SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_an_attack_bound_holds_for_many_releases(noise: str, m: int, n: int, sampling: str, budget: TradeOff) -> None:
    """An attacker who adds up the likelihood ratios of 10 releases: 40 000 games of each kind."""
    steps, games = 10, 40_000
    events = calibration.calibrated_events(noise, budget, np.ones(steps), m, n, sampling=sampling)
    rate, limit = budget.false_positive_rate, budget.true_positive_rate
    assert 1 - limit <= float(tradeoffs.tradeoff(events, rate)) <= 1 - limit + 2e-5
    (inner,) = inner_events(events[0])
    generator = np.random.default_rng(20)
    fraction, scores = m / n, []
    for present in (True, False):
        drawn = generator.random((games, steps)) < fraction if present else np.zeros((games, steps), dtype=bool)
        if isinstance(inner, Laplace):
            value = generator.laplace(size=(games, steps)) + inner.eps * drawn
            ratio = np.exp(np.abs(value) - np.abs(value - inner.eps))
        else:
            assert isinstance(inner, Gaussian)
            value = generator.normal(size=(games, steps)) + inner.mu * drawn
            ratio = np.exp(inner.mu * value - inner.mu**2 / 2)
        scores.append(np.log(1 - fraction + fraction * ratio).sum(axis=1).round(6))  # rounding residues tell too much
    with_row, without = scores
    worst = max(
        np.mean(with_row > np.quantile(without, 1 - rate)), np.mean(-without > np.quantile(-with_row, 1 - rate))
    )
    # The threshold and the count each err by the root of a binomial variance; the curve's slope is limit/rate at most.
    error = math.sqrt(limit * (1 - limit) / games) + limit / rate * math.sqrt(rate * (1 - rate) / games)
    assert worst <= limit + 4 * error
    if sampling == "poisson" or m == n:
        assert worst >= limit - 4 * error - 0.01 * limit


def test_an_attack_bound_leaves_nothing_for_a_run_after_a_release() -> None:
    with pytest.raises(UserError, match="used up"):
        calibration.calibrated_events("laplace", TradeOff(), np.ones(1), 10, 10, prior=(Laplace(1e-3),))
    after = calibration.calibrated_events("laplace", RenyiDP(), np.ones(5), 10, 10, prior=(Laplace(0.3),))
    orders = np.array([8.0])
    before = float(closed_forms.laplace_rdp(0.3, orders)[0])
    assert before + RenyiDP().cost(after) == pytest.approx(1.0, rel=2e-6)
    with pytest.raises(UserError, match="another currency"):
        calibration.calibrate_selections(TradeOff(), np.ones(3))


def test_selections_meet_a_renyi_budget() -> None:
    for budget in RENYI:
        multiple = calibration.calibrate_selections(budget, np.array([1.0, 0.5]), 10)
        eta, order = multiple * np.array([1.0, 0.5]), np.full(2, budget.order)
        assert 10 * closed_forms.exponential_rdp(eta, order).sum() == pytest.approx(budget.epsilon, rel=2e-6)


# ----------------------------------------------------------------------------------- what follows from a bare guarantee

DELTA = 1e-6
STATED: dict[str, Budget] = {
    "pure": PureDP(epsilon=1.0),
    "approximate": ApproximateDP(epsilon=1.0, delta=DELTA),
    "zcdp": ZeroConcentratedDP(rho=0.5),
    "gaussian": GaussianDP(mu=1.0),
    "renyi": RenyiDP(epsilon=1.0, order=8.0),
    "attack": TradeOff(),
    "none": NoPrivacy(),
}
FOLLOWS = {  # dpviz/privacy/THEORY.md, section 3; of an RDP curve or a trade-off curve, one point is known only
    "pure": {
        "epsilon": 1.0,
        "epsilon_at_delta": 1 - 1.36788e-6,
        "rho": 0.46211715726,
        "mu": 1.23203538534,
        "renyi": 0.9552483740548,
    },
    "approximate": {"epsilon_at_delta": 1.0},
    "zcdp": {"epsilon_at_delta": 5.22153444453, "rho": 0.5, "renyi": 4.0},
    "gaussian": {"epsilon_at_delta": 4.88655411746, "rho": 0.5, "mu": 1.0, "renyi": 4.0},
    "renyi": {"epsilon_at_delta": 1 + math.log(7 / 8) + (math.log(1 / DELTA) - math.log(8)) / 7, "renyi": 1.0},
    "attack": {},
    "none": {},
}
SAME = {  # marked "=" there
    "pure": {"epsilon"},
    "approximate": {"epsilon_at_delta"},
    "zcdp": {"rho", "renyi"},
    "gaussian": {"mu", "epsilon_at_delta"},
    "renyi": {"renyi"},
}


@pytest.mark.parametrize("name", STATED)
def test_what_a_bare_guarantee_implies_and_why_the_rest_does_not_follow(name: str) -> None:
    found = conversions.implied(STATED[name], DELTA)
    assert tuple(found) == conversions.READINGS
    assert {currency for currency, item in found.items() if item.value is not None} == set(FOLLOWS[name])
    for currency, item in found.items():
        if item.value is None:
            assert item.why.endswith(".") and not item.exact
        else:
            assert item.why == "" and item.value == pytest.approx(FOLLOWS[name][currency], rel=2e-6)
    assert {currency for currency, item in found.items() if item.exact} == SAME.get(name, set())


@pytest.mark.parametrize(("detected", "alarms", "delta"), [(2e-4, 1e-4, 1e-3), (0.05, 0.01, 0.3), (0.8, 0.5, 0.5)])
def test_an_attack_bound_implies_an_epsilon_where_delta_allows_its_whole_curve(
    detected: float, alarms: float, delta: float
) -> None:
    budget = TradeOff(true_positive_rate=detected, false_positive_rate=alarms)
    rates = np.linspace(0.0, 1.0, 1_000_001)[1:]
    needed = max(0.0, math.log(((1 - delta - budget.tradeoff(rates)) / rates).max()))
    assert conversions.implied(budget, delta)["epsilon_at_delta"].value == pytest.approx(needed, abs=1e-3)
    assert budget.to_epsilon_at(1e-6) is None


def test_only_the_number_itself_is_called_exact() -> None:
    assert not conversions.implied(STATED["approximate"], 1e-5)["epsilon_at_delta"].exact
    assert conversions.implied(STATED["approximate"], 1e-7)["epsilon_at_delta"].value is None
    lower, higher = (conversions.implied(STATED["renyi"], DELTA, order)["renyi"] for order in (2.0, 9.0))
    assert lower.value == 1.0 and not lower.exact and higher.value is None and higher.why


@steady
@given(size=st.floats(-3.9, 1.9).map(lambda x: 10**x), order=st.floats(0.01, 2.9).map(lambda x: 1 + 10**x / 8))
def test_implied_numbers_bound_mechanisms_that_have_the_guarantee(size: float, order: float) -> None:
    budget = RenyiDP(epsilon=size, order=max(order, 1.01))
    at_delta = conversions.implied(budget, DELTA, budget.order)["epsilon_at_delta"].value
    assert at_delta is not None
    mu = math.sqrt(2 * size / budget.order)
    assert closed_forms.gdp_epsilon(mu, DELTA) <= at_delta * (1 + 1e-9) + 1e-9


def renyi_of(kind: str, budget: RenyiDP) -> float:
    """The parameter with which a mechanism has exactly this Rényi divergence."""
    orders = np.array([budget.order])
    if kind == "gaussian":
        return math.sqrt(2 * budget.epsilon / budget.order)
    closed = closed_forms.laplace_rdp if kind == "laplace" else closed_forms.pure_rdp
    return float(brentq(lambda e: float(closed(e, orders)[0]) - budget.epsilon, 1e-9, 690))


CURVES: dict[str, Callable[[float, np.ndarray], np.ndarray]] = {
    "gaussian": closed_forms.gdp_tradeoff,
    "laplace": closed_forms.laplace_tradeoff,
    "response": closed_forms.pure_tradeoff,
}
ADVANTAGES: dict[str, Callable[[float], float]] = {
    "gaussian": lambda mu: math.erf(mu / math.sqrt(8)),
    "laplace": lambda epsilon: -math.expm1(-epsilon / 2),
    "response": lambda epsilon: math.tanh(epsilon / 2),
}


@pytest.mark.one_in(3)
@steady
@given(size=st.floats(-3.9, 1.6).map(lambda x: 10**x), order=st.floats(-1.9, 2.9).map(lambda x: 1 + 10**x))
@pytest.mark.parametrize("kind", CURVES)
def test_no_mechanism_with_a_renyi_guarantee_lies_below_its_curve(kind: str, size: float, order: float) -> None:
    budget = RenyiDP(epsilon=size, order=max(order, 1.01))
    parameter = renyi_of(kind, budget)
    curve = budget.tradeoff(RATES)
    assert (curve <= CURVES[kind](parameter, RATES) + 1e-9).all()
    assert ((curve >= 0) & (curve <= 1 - RATES + 1e-15) & np.isfinite(curve)).all()
    assert (np.diff(curve) <= 1e-12).all()
    assert ADVANTAGES[kind](parameter) <= budget.advantage() + 1e-9


@steady
@given(rate=st.floats(-4, -0.302).map(lambda x: 10**x), share=st.floats(0.001, 0.998))
@pytest.mark.parametrize("kind", CURVES)
def test_no_mechanism_with_an_attack_bound_lies_below_its_curve(kind: str, rate: float, share: float) -> None:
    """Every mechanism whose own curve goes through the point, or just above."""
    detection = min(max(rate + share * (1 - rate), 0.0002), 0.999)
    budget = TradeOff(true_positive_rate=detection, false_positive_rate=rate)
    curve, at = CURVES[kind], np.array([rate])
    parameter = brentq(lambda x: float(curve(x, at)[0]) - (1 - detection), 1e-9, 200)
    lowest = budget.tradeoff(RATES)
    assert (lowest <= curve(parameter, RATES) + 1e-9).all()
    assert ADVANTAGES[kind](parameter) <= budget.advantage() + 1e-9
    if kind == "gaussian":
        assert parameter == pytest.approx(budget.gaussian_mu, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("budget", ATTACKS, ids=lambda budget: budget.describe())
def test_the_curve_of_an_attack_bound_is_a_worst_case_through_its_point(budget: TradeOff) -> None:
    a, b = budget.false_positive_rate, 1 - budget.true_positive_rate
    assert budget.tradeoff([a, b]) == pytest.approx([b, a], rel=1e-12)
    curve = budget.tradeoff(RATES)
    assert (np.diff(curve) <= 0).all() and (curve <= 1 - RATES + 1e-15).all()
    advantage = budget.advantage()
    assert (1 - RATES - curve <= advantage).all()
    # Any straight line from (0, f(0)) through the point to where it meets its mirror image is a possible curve.
    assert advantage == pytest.approx(max(1 - a - b, (1 - RATES - curve).max()), abs=5e-3)
