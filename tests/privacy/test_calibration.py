"""Planner: calibrated plans keep their budget, waste next to nothing of it, and refuse what does not exist."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.errors import UserError
from dpviz.privacy import calibration
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.accounting import per_event as event_costs
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Event, Gaussian, Laplace, Sub, inner_events
from tests.pairs import all_pairs

steady = settings(derandomize=True, deadline=None, max_examples=30)

WEIGHTS = {
    "one step": np.ones(1),
    "uniform": np.ones(60),
    "growing": np.exp(np.linspace(-3, 0, 40)),
    "distinct": np.exp(np.linspace(-2, 0, 80)),
    "steep": np.exp(np.linspace(-138, 0, 30)),
}
BATCHES = {"all rows": (1000, 1000), "a tenth": (100, 1000), "one in 200": (5, 1000)}
PRIOR: tuple[Event, ...] = (Laplace(0.05), Laplace(0.02))


def inner_epsilon(event: Event) -> float:
    (release,) = inner_events(event)
    assert isinstance(release, Laplace)
    return release.eps


def used(budget: Budget, events: tuple[Event, ...], before: tuple[Event, ...] = ()) -> float:
    """The share of a budget that events use up, in the budget's own currency, as the dashboard shows it."""
    if isinstance(budget, PureDP):
        return accountants.total(before + events, "epsilon") / budget.epsilon
    if isinstance(budget, ApproximateDP):
        return accountants.tightest(events, budget.delta, before).epsilon / budget.epsilon
    if isinstance(budget, ZeroConcentratedDP):
        return accountants.total(before + events, "rho") / budget.rho
    assert isinstance(budget, GaussianDP)
    return (accountants.total(before + events, "mu") / budget.mu) ** 2


# ------------------------------------------------------------------------------------------- the budget, and all of it


@pytest.mark.one_in(4)
@all_pairs
@pytest.mark.parametrize("prior", [(), PRIOR], ids=["nothing before", "releases before"])
@pytest.mark.parametrize(("m", "n"), BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "budget",
    [
        PureDP(epsilon=1.0),
        PureDP(epsilon=50.0),
        ApproximateDP(epsilon=1.0, delta=1e-6),
        ApproximateDP(epsilon=20.0, delta=1e-3),
        ApproximateDP(epsilon=0.1, delta=1e-10),
        ZeroConcentratedDP(rho=0.01),
        ZeroConcentratedDP(rho=20.0),
        GaussianDP(mu=0.5),
        GaussianDP(mu=10.0),
    ],
    ids=lambda budget: budget.describe(),
)
def test_plans_keep_their_budget_and_use_it_up(budget, noise, weights, m, n, prior):
    calibrate = calibration.calibrate_laplace if noise == "laplace" else calibration.calibrate_gaussian
    impossible = noise == "gaussian" and (
        isinstance(budget, PureDP) or (m < n and not isinstance(budget, ApproximateDP))
    )
    if impossible:
        with pytest.raises(UserError):
            calibrate(budget, weights, m, n, prior)
        return
    costs = calibrate(budget, weights, m, n, prior)
    np.testing.assert_allclose(costs / costs.max(), weights / weights.max(), rtol=1e-12)
    events = (calibration.laplace_events if noise == "laplace" else calibration.gaussian_events)(costs, m, n)
    assert len(events) == len(weights)
    spent = used(budget, events, prior)
    assert spent <= 1 + 1e-12
    assert spent >= 1 - (1e-3 if isinstance(budget, ApproximateDP) else 1e-5)


@steady
@given(
    epsilon=st.floats(-1.9, 1.6).map(lambda x: 10**x),
    delta=st.floats(-9.9, -3.1).map(lambda x: 10**x),
    steps=st.integers(1, 400),
    m=st.integers(1, 1000),
    noise=st.sampled_from(["laplace", "gaussian"]),
)
def test_approximate_budgets_are_kept_and_used_up(epsilon, delta, steps, m, noise):
    budget = ApproximateDP(epsilon=epsilon, delta=delta)
    if noise == "laplace":
        events = calibration.laplace_events(calibration.calibrate_laplace(budget, np.ones(steps), m, 1000), m, 1000)
    else:
        events = calibration.gaussian_events(calibration.calibrate_gaussian(budget, np.ones(steps), m, 1000), m, 1000)
    assert 1 - 1e-3 <= used(budget, events) <= 1 + 1e-12


@pytest.mark.slow
@steady
@given(
    epsilon=st.floats(0.02, 10),
    delta=st.floats(-9, -4).map(lambda x: 10**x),
    steps=st.integers(1, 200),
    m=st.integers(1, 400),
    factor=st.floats(1.1, 4),
)
def test_more_budget_buys_less_noise_and_more_steps_or_rows_cost_noise(epsilon, delta, steps, m, factor):
    def per_step(epsilon, delta, steps, m):
        """ε of the noise on the batch: larger is less noise relative to what one record can do to the batch."""
        budget = ApproximateDP(epsilon=epsilon, delta=delta)
        (event, *_) = calibration.laplace_events(
            calibration.calibrate_laplace(budget, np.ones(steps), m, 1000), m, 1000
        )
        return inner_epsilon(event)

    base, slack = (
        per_step(epsilon, delta, steps, m),
        1 + 2e-3,
    )  # the grid of the accountant overestimates by up to 0.2 %
    assert per_step(epsilon * factor, delta, steps, m) * slack >= base
    assert per_step(epsilon, delta * factor, steps, m) * slack >= base
    assert per_step(epsilon, delta, steps + 10, m) <= base * slack
    assert per_step(epsilon, delta, steps, m + 100) <= base * slack
    pure = epsilon / steps
    assert base >= float(closed_forms.amplified_inverse(pure, m, 1000)) * (1 - 1e-5)  # δ never costs anything


@all_pairs
@pytest.mark.parametrize("steps", [1, 100, 10_000])
@pytest.mark.parametrize(("m", "n"), BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_ten_thousand_steps_at_the_ends_of_the_ranges(noise, m, n, steps):
    calibrate = calibration.calibrate_laplace if noise == "laplace" else calibration.calibrate_gaussian
    build = calibration.laplace_events if noise == "laplace" else calibration.gaussian_events
    for epsilon, delta in ((0.01, 1e-10), (50.0, 1e-3)):
        budget = ApproximateDP(epsilon=epsilon, delta=delta)
        events = build(calibrate(budget, np.ones(steps), m, n), m, n)
        assert 1 - 1e-3 <= used(budget, events) <= 1 + 1e-12


# ----------------------------------------------------------------------------------------------------- reference values


@pytest.mark.parametrize(
    ("n", "m", "steps", "scale"),
    [
        pytest.param(1000, 100, 100, 0.208842080822, id="TV43"),
        pytest.param(100_000, 1000, 1000, 0.0209741114665, id="TV44"),
    ],
)
def test_laplace_scale_on_the_mean_gradient(n, m, steps, scale):
    costs = calibration.calibrate_laplace(PureDP(epsilon=1.0), np.ones(steps), m, n)
    for event in calibration.laplace_events(costs, m, n):
        assert 2 / m / inner_epsilon(event) == pytest.approx(scale, rel=1e-9)


@pytest.mark.parametrize(("steps", "scale"), [(100, 0.0574999818), (1000, 0.4194822293)])
def test_laplace_scale_of_the_published_experiment(steps, scale):
    """n = 1e5, m = 1e3, sensitivity of the sum 40, ε = 1: b = 40/(m u)."""
    costs = calibration.calibrate_laplace(PureDP(epsilon=1.0), np.ones(steps), 1000, 100_000)
    (event, *_) = calibration.laplace_events(costs, 1000, 100_000)
    assert 40 / (1000 * inner_epsilon(event)) == pytest.approx(scale, rel=1e-9)


@steady
@given(epsilon=st.floats(-6, 1).map(lambda x: 10**x), fraction=st.sampled_from([0.001, 0.1, 1.0]))
def test_events_cost_what_was_asked(epsilon, fraction):
    n = 100_000
    costs = np.array([epsilon, epsilon, 2 * epsilon])
    events = calibration.laplace_events(costs, round(fraction * n), n)
    np.testing.assert_allclose([event_costs.pure(event) for event in events], costs, rtol=1e-12)
    assert events[0] is events[1] and all(isinstance(event, Sub) == (fraction < 1) for event in events)
    rho = calibration.gaussian_events(costs, n, n)
    np.testing.assert_allclose([event_costs.rho(event) for event in rho], costs, rtol=1e-14)


@pytest.mark.parametrize(
    ("epsilon", "m", "n", "steps", "pure", "relaxed"),
    [
        (1.0, 1, 10, 100, 0.0957661, 0.23605),
        (1.0, 1, 100, 1000, 0.0953556, 0.69930),
        (3.0, 5, 100, 500, 0.113651, 0.55505),
        (1.0, 1, 1, 100, 0.01, 0.0241),
        (1.0, 1, 1, 1000, 0.001, 0.0075),
    ],
)
def test_what_a_small_delta_saves(epsilon, m, n, steps, pure, relaxed):
    """The same headline ε with 2.4 to 7.5 times less Laplace noise."""

    def inner(budget):
        return inner_epsilon(
            calibration.laplace_events(calibration.calibrate_laplace(budget, np.ones(steps), m, n), m, n)[0]
        )

    assert inner(PureDP(epsilon=epsilon)) == pytest.approx(pure, rel=1e-5)
    assert inner(ApproximateDP(epsilon=epsilon, delta=1e-6)) == pytest.approx(relaxed, rel=2e-3)


def test_optimal_gaussian_schedule():
    """Minimise Σ a_t σ_t² under ρ: ρ_t ∝ √a_t gives (Δ²/2ρ)(Σ √a_t)²."""
    a = np.exp(np.linspace(-6, 0, 50))
    for weights, expected in ((np.sqrt(a), 2575.98834), (np.ones(50), 4328.91957)):
        costs = calibration.calibrate_gaussian(ZeroConcentratedDP(rho=0.05), weights, 10, 10)
        mu = np.array([event.mu for event in calibration.gaussian_events(costs, 10, 10)])
        assert float((a / mu**2).sum()) == pytest.approx(expected, rel=1e-8)
        assert accountants.total(calibration.gaussian_events(costs, 10, 10), "mu") ** 2 == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize(("epsilon", "delta", "mu"), [(1, 1e-5, 0.26805), (1, 1e-6, 0.23670), (2, 1e-6, 0.44833)])
def test_gaussian_noise_is_calibrated_exactly(epsilon, delta, mu):
    costs = calibration.calibrate_gaussian(ApproximateDP(epsilon=epsilon, delta=delta), np.ones(7), 10, 10)
    assert accountants.total(calibration.gaussian_events(costs, 10, 10), "mu") == pytest.approx(mu, rel=2e-5)


# --------------------------------------------------------------------------------------------- what is left, and limits


def test_what_is_left_adds_up_in_its_unit():
    prior = (Laplace(0.25), Laplace(0.5))
    assert PureDP(epsilon=1.0).remaining(prior) == pytest.approx(0.25)
    assert ApproximateDP(epsilon=1.0, delta=1e-6).remaining(prior) == pytest.approx(0.25)
    rho = sum(event_costs.rho(event) for event in prior)
    assert ZeroConcentratedDP(rho=1.0).remaining(prior) == pytest.approx(1 - rho)
    mu = accountants.total(prior, "mu")
    assert GaussianDP(mu=2.0).remaining(prior) == pytest.approx(4 - mu**2)


@pytest.mark.parametrize(
    ("budget", "prior"),
    [
        (PureDP(epsilon=1.0), (Laplace(1.5),)),
        (PureDP(epsilon=0.3), (Laplace(0.1), Laplace(0.2))),  # 0.1 + 0.2 is not 0.3 to a computer
        (PureDP(epsilon=1.0), (Laplace(0.7), Laplace(0.2), Laplace(0.1))),  # nor is 0.7 + 0.2 + 0.1 quite 1
        (ApproximateDP(epsilon=1.0, delta=1e-6), (Gaussian(0.01),)),  # no pure ε to subtract
        (ZeroConcentratedDP(rho=0.5), (Gaussian(1.0),)),
        (GaussianDP(mu=1.0), (Gaussian(0.6), Gaussian(0.8))),
        (GaussianDP(mu=1.0), (Sub("wor", 1, 10, Gaussian(0.1)),)),
    ],
    ids=str,
)
def test_nothing_is_left(budget, prior):
    with pytest.raises(UserError) as caught:
        calibration.calibrate_laplace(budget, np.ones(3), 10, 10, prior)
    assert caught.value.title == "Nothing is left for the run"


def test_a_little_is_left():
    """However little remains, the plan has a finite cost within it."""
    for noise, calibrate in (("laplace", calibration.calibrate_laplace), ("gaussian", calibration.calibrate_gaussian)):
        build = calibration.laplace_events if noise == "laplace" else calibration.gaussian_events
        for m in (10, 100):
            budget = ApproximateDP(epsilon=1.0, delta=1e-6)
            events = build(calibrate(budget, np.ones(20), m, 100, (Laplace(1 - 1e-8),)), m, 100)
            assert accountants.tightest(events, 1e-6).epsilon <= 1e-8 * (1 + 1e-6)


def test_no_privacy_draws_no_noise():
    for m in (10, 100):
        costs = calibration.calibrate_laplace(NoPrivacy(), np.ones(3), m, 100, PRIOR)
        assert (costs == math.inf).all() and (
            calibration.calibrate_gaussian(NoPrivacy(), np.ones(3), m, 100) == math.inf
        ).all()
        assert {inner_epsilon(event) for event in calibration.laplace_events(costs, m, 100)} == {math.inf}
        (event,) = {inner_events(event) for event in calibration.gaussian_events(costs, m, 100)}
        assert event == (Gaussian(math.inf),)


def test_a_delta_above_the_chance_of_being_drawn_is_refused():
    """Releasing one row of 1000 in the clear is (0, 1/1000)-DP: no noise at all would meet such a budget."""
    for calibrate in (calibration.calibrate_laplace, calibration.calibrate_gaussian):
        with pytest.raises(UserError, match="smaller δ"):
            calibrate(ApproximateDP(epsilon=1.0, delta=1e-3), np.ones(1), 1, 1000)
        calibrate(ApproximateDP(epsilon=1.0, delta=1e-3), np.ones(2), 1, 1000)


def test_more_steps_than_the_loss_distribution_resolves():
    """Below 1e-14 a step of δ the FFT is not accurate: other accountants take over, or the user is told."""
    budget = ApproximateDP(epsilon=1.0, delta=1e-10)
    steps = np.ones(20_000)
    events = calibration.laplace_events(calibration.calibrate_laplace(budget, steps, 100, 100), 100, 100)
    reading = accountants.tightest(events, 1e-10)
    assert "pld" not in reading.by_method and reading.epsilon <= 1
    assert 1 - 1e-3 <= min(reading.by_method["rdp"], reading.by_method["zcdp"]) <= 1
    one_matters = np.append(np.full(19_999, 1e-12), 1.0)  # where basic composition is the best that is left
    events = calibration.laplace_events(calibration.calibrate_laplace(budget, one_matters, 100, 100), 100, 100)
    assert 1 - 1e-5 <= accountants.tightest(events, 1e-10).epsilon <= 1
    events = calibration.gaussian_events(calibration.calibrate_gaussian(budget, steps, 10, 100), 10, 100)  # by Rényi DP
    reading = accountants.tightest(events, 1e-10)
    assert set(reading.by_method) == {"rdp"} and 1 - 1e-3 <= reading.epsilon <= 1


@steady
@given(
    slope=st.floats(0.3, 2.5),
    bend=st.floats(0, 0.2),
    root=st.floats(-50, 50),
    jump=st.floats(0, 0.5),
    at=st.floats(-1, 1),
    guess=st.floats(-60, 60),
)
def test_the_search_never_exceeds_and_never_misses(slope, bend, root, jump, at, guess):
    """Also where a cost jumps, as it may when events are regrouped."""
    asked = []

    def excess(x):
        asked.append(x)
        return min(100.0, slope * (x - root) + bend * math.tanh(x - root) + jump * (x > root + at))

    found = calibration._largest_feasible(excess, guess, 1e-6)
    assert excess(found) <= 0
    assert excess(found + 3e-6 / slope) >= 0
    assert len(asked) <= 80


def test_whole_numbers_of_numpy_are_taken_and_weights_without_end_refused():
    budget, weights = ApproximateDP(epsilon=1.0, delta=1e-6), np.ones(2)
    costs, costs_too = (calibration.calibrate_gaussian(budget, weights, kind(3), kind(100)) for kind in (int, np.int64))
    np.testing.assert_array_equal(costs, costs_too)
    for bad in (np.array([1.0, math.inf]), np.array(["a"], dtype=object)):
        with pytest.raises(UserError, match="positive"):
            calibration.calibrate_laplace(budget, bad, 3, 100)
