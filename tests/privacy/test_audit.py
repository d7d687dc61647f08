"""Audits: lower bounds against exact intervals, exact power, and the bugs that they are meant to find."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import beta, binom, binomtest, laplace, norm

from dpviz.privacy import audit
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, PureDP, RenyiDP, TradeOff, ZeroConcentratedDP
from tests.oracles.audits import Parameter, power

# ------------------------------------------------------------------------------------------------------ an event's runs


def lower_bound(
    least: Callable[..., Any], hits: int, runs: int, false_hits: int, false_runs: int, confidence: float = 0.95
) -> float:
    """Of the parameter that `least` bounds."""
    return float(least(*audit.rate_bounds(hits, runs, false_hits, false_runs, confidence)))


@pytest.mark.parametrize("runs", [1, 7, 1000])
def test_intervals_are_those_of_clopper_and_pearson(runs: int) -> None:
    for hits in sorted({0, 1, runs // 3, runs}):
        interval = binomtest(hits, runs).proportion_ci(0.95, method="exact")
        low, high = audit.clopper_pearson(hits, runs)
        assert float(low) == pytest.approx(interval.low, abs=1e-12)
        assert float(high) == pytest.approx(interval.high, abs=1e-12)


def test_intervals_broadcast_and_narrow_with_less_confidence() -> None:
    low, high = audit.clopper_pearson(np.arange(11), 10)
    assert low.shape == high.shape == (11,) and (np.diff(low) > 0).all() and (np.diff(high) > 0).all()
    narrow_low, narrow_high = audit.clopper_pearson(np.arange(11), 10, confidence=0.5)
    assert (narrow_low >= low).all() and (narrow_high <= high).all()


@pytest.mark.parametrize(("hits", "runs"), [(-1, 10), (11, 10), (0, 0)])
def test_impossible_counts_are_refused(hits: int, runs: int) -> None:
    with pytest.raises(ValueError, match="an event occurs"):
        audit.epsilon_lower_bound(hits, runs, 0, 10)


def test_an_event_that_tells_nothing_bounds_nothing() -> None:
    for bound in (
        audit.epsilon_lower_bound,
        partial(lower_bound, audit.least_mu),
        partial(lower_bound, audit.least_eta),
    ):
        assert bound(0, 100, 0, 100) == bound(50, 100, 50, 100) == bound(100, 100, 100, 100) == 0.0
        assert 0 < bound(100, 100, 0, 100) < math.inf
        assert bound(60, 100, 20, 100) < bound(600, 1000, 200, 1000)  # the same rates, seen more often
        assert bound(60, 100, 20, 100, confidence=0.99) < bound(60, 100, 20, 100)
    assert audit.epsilon_lower_bound(60, 100, 20, 100, delta=0.7) == 0.0
    assert audit.epsilon_lower_bound(60, 100, 20, 100, delta=0.1) < audit.epsilon_lower_bound(60, 100, 20, 100)


def test_the_range_of_a_selection_shows_in_logits_only() -> None:
    """Two outcomes with logits ±η/2 have a ratio of e^(η/2): the ratio test misses the other half."""
    hits, false_hits = round(20_000 * expit(1.0)), round(20_000 * expit(-1.0))
    assert 1.9 < lower_bound(audit.least_eta, hits, 20_000, false_hits, 20_000) < 2.0
    assert 0.9 < audit.epsilon_lower_bound(hits, 20_000, false_hits, 20_000) < 1.0


# ---------------------------------------------------------------------------------------------------------- exact power


@pytest.mark.parametrize(
    ("truth", "runs", "expected"),
    [
        (math.sqrt(2), 200, 0.2821),
        (math.sqrt(2), 400, 0.6567),
        (math.sqrt(2), 500, 0.7834),
        (math.sqrt(2), 600, 0.8721),
        (math.sqrt(2), 800, 0.9600),
        (math.sqrt(2), 1000, 0.9891),
        (math.sqrt(2), 2000, 1.0000),
        (1.1, 5000, 0.6162),
        (1.1, 20_000, 0.9994),
        (2.0, 200, 0.9643),
    ],
)
def test_power_against_laplace_noise_that_is_too_small(truth: float, runs: int, expected: float) -> None:
    """Claim ε = 1, event "the output lies on D's side of its value": p = ½, q = ½ e^(-ε)."""
    assert power("epsilon", 1.0, 0.5, 0.5 * math.exp(-truth), runs) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize(
    ("mu", "expected"),
    [
        (1.11, {5000: 0.91}),
        (1.25, {200: 0.16, 500: 0.55, 1000: 0.92, 5000: 1.00}),
        (math.sqrt(2), {200: 0.58, 500: 0.98, 1000: 1.00}),
    ],
    ids=["1.11", "1.25", "1.41"],
)
def test_power_against_gaussian_noise_that_is_too_small(mu: float, expected: dict[int, float]) -> None:
    for runs, rate in expected.items():
        found = power("mu", 1.0, float(norm.cdf(mu / 2)), float(norm.cdf(-mu / 2)), runs)
        assert found == pytest.approx(rate, abs=0.0051)


def test_power_against_a_selection_without_its_factor_two() -> None:
    for runs, expected in ((100, 0.63), (200, 0.96), (500, 1.00)):
        found = power("eta", 1.0, float(expit(1.0)), float(expit(-1.0)), runs)
        assert found == pytest.approx(expected, abs=0.0051)


@pytest.mark.parametrize("runs", [100, 200, 1000, 2000])
def test_false_alarms_are_rare(runs: int) -> None:
    assert power("epsilon", 1.0, 0.5, 0.5 * math.exp(-1.0), runs) <= 0.0044
    assert power("mu", 1.0, float(norm.cdf(0.5)), float(norm.cdf(-0.5)), runs) <= 0.003
    assert power("eta", 1.0, float(expit(0.5)), float(expit(-0.5)), runs) <= 0.0026


@pytest.mark.parametrize(("parameter", "delta"), [("epsilon", 0.0), ("epsilon", 0.05), ("mu", 0.0), ("eta", 0.0)])
def test_power_counts_the_outcomes_whose_bound_exceeds_the_claim(parameter: Parameter, delta: float) -> None:
    runs, claim, rate, false_rate = 30, 0.7, 0.8, 0.25
    expected = 0.0
    for hits in range(runs + 1):
        for false_hits in range(runs + 1):
            if parameter == "epsilon":
                bound = audit.epsilon_lower_bound(hits, runs, false_hits, runs, delta)
            else:
                bound = lower_bound(getattr(audit, f"least_{parameter}"), hits, runs, false_hits, runs)
            if bound > claim:
                expected += binom.pmf(hits, runs, rate) * binom.pmf(false_hits, runs, false_rate)
    assert power(parameter, claim, rate, false_rate, runs, delta=delta) == pytest.approx(expected, rel=1e-9)


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="parameter"):
        power("rho", 1.0, 0.5, 0.1, 10)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------- bugs that have been made elsewhere


def test_a_gradient_step_with_correct_and_with_too_little_noise() -> None:
    """n = 100, d = 20, one record jumps from +C e₁ to -C e₁; b/√2 is a known mistake (a deviation taken for a scale).

    200 audits each: the false alarms have a chance of 0.4 %, so more than 8 of 200 have one of 1e-6.
    """
    random = np.random.default_rng(7)
    repetitions, runs, n, epsilon = 200, 2000, 100, 1.0
    scale = 2 / (n * epsilon)
    for factor, fewest, most in ((1.0, 0, 8), (1 / math.sqrt(2), 195, 200)):
        # The other 19 coordinates are alike under both, so the first decides.
        noise = random.laplace(0.0, scale * factor, size=(2, repetitions, runs))
        here, there = 1 / n + noise[0], -1 / n + noise[1]
        hits, false_hits = (side >= 1 / n for side in (here, there))  # declared in advance
        bounds = [
            audit.epsilon_lower_bound(int(p), runs, int(q), runs)
            for p, q in zip(hits.sum(axis=1), false_hits.sum(axis=1), strict=True)
        ]
        flagged = sum(bound > epsilon for bound in bounds)
        assert fewest <= flagged <= most
        assert np.median(bounds) == pytest.approx(0.83 if factor == 1 else 1.24, abs=0.04)


def stops_at(k: int, others: float, last: float, query_scale: float) -> float:
    """The probability that the sparse vector technique at ε = 1, ε₁ = ε₂ = ½, threshold 0, stops at query k."""
    z = np.linspace(-60, 60, 120_001)
    passed = laplace.cdf((z - others) / query_scale) ** (k - 1)
    return float(np.trapezoid(laplace.pdf(z, scale=2.0) * passed * laplace.sf((z - last) / query_scale), z))


@pytest.mark.parametrize(
    ("k", "query_scale", "log_ratio", "bound", "flagged"),
    [
        (5, 4.0, 0.833665, 0.67, 0.0),
        (10, 4.0, 0.989259, 0.56, 0.0),
        (5, 2.0, 1.382311, 1.20, 0.999),
        (10, 2.0, 1.493426, 1.14, 0.88),
    ],
)
def test_sparse_vector_technique(k: int, query_scale: float, log_ratio: float, bound: float, flagged: float) -> None:
    """Queries (0, …, 0, 1) against (1, …, 1, 0), N = 20 000. Scale 2 lacks the factor 2 of the query noise."""
    runs = 20_000
    p, q = stops_at(k, 0.0, 1.0, query_scale), stops_at(k, 1.0, 0.0, query_scale)
    assert math.log(p / q) == pytest.approx(log_ratio, abs=1e-6)
    found = audit.epsilon_lower_bound(round(runs * p), runs, round(runs * q), runs)
    assert found == pytest.approx(bound, abs=0.006)
    assert power("epsilon", 1.0, p, q, runs) == pytest.approx(flagged, abs=0.006)


def test_sparse_vector_technique_without_query_noise() -> None:
    """It stops at the one query above the noisy threshold on D, and never there on D'."""
    runs, hits = 20_000, round(20_000 * (1 - math.exp(-0.5)) / 2)
    assert audit.epsilon_lower_bound(hits, runs, 0, runs) == pytest.approx(6.9, abs=0.05)


# -------------------------------------------------------------------------------------------------------------- one run


def test_without_delta_one_run_is_a_binomial_test() -> None:
    """The bound is the log-odds of the largest rate at which so many correct guesses have a chance of 5 %."""
    for guesses, correct in ((10, 10), (50, 40), (2000, 1200)):
        rate = float(beta.ppf(0.05, correct, guesses - correct + 1))
        found = audit.one_run_epsilon_lower_bound(10_000, guesses, correct)
        assert found == pytest.approx(max(0.0, math.log(rate / (1 - rate))), rel=1e-9)


def test_one_run_loses_by_delta_canaries_and_mistakes() -> None:
    best = audit.one_run_epsilon_lower_bound(1000, 100, 90)
    worse = [
        audit.one_run_epsilon_lower_bound(1000, 100, 90, 1e-5),
        audit.one_run_epsilon_lower_bound(1000, 100, 90, 1e-4),
        audit.one_run_epsilon_lower_bound(1000, 100, 80, 1e-4),
    ]
    assert best > worse[0] > worse[1] > worse[2] > 0
    assert audit.one_run_epsilon_lower_bound(2000, 100, 90, 1e-5) < worse[0]
    assert audit.one_run_epsilon_lower_bound(1000, 100, 90, confidence=0.99) < best
    assert audit.one_run_epsilon_lower_bound(1000, 100, 50) == 0.0
    assert audit.one_run_epsilon_lower_bound(1000, 0, 0) == 0.0
    assert audit.one_run_epsilon_lower_bound(10**6, 1000, 900, 0.01) == 0.0  # δ alone explains it


@pytest.mark.slow
def test_one_run_p_value_is_the_definition() -> None:
    canaries, guesses, correct, delta = 500, 40, 33, 1e-4

    def p_value(epsilon: float) -> float:
        right = 1 / (1 + math.exp(-epsilon))
        tail = sum(binom.pmf(b, guesses, right) for b in range(correct, guesses + 1))
        below = [
            sum(binom.pmf(b, guesses, right) for b in range(correct - i, correct)) / i for i in range(1, correct + 1)
        ]
        return float(tail + 2 * canaries * delta * max(below))

    expected = brentq(lambda epsilon: p_value(epsilon) - 0.05, 0.0, 5.0, xtol=1e-12)
    assert audit.one_run_epsilon_lower_bound(canaries, guesses, correct, delta) == pytest.approx(expected, rel=1e-8)


def test_impossible_guesses_are_refused() -> None:
    for canaries, guesses, correct in ((10, 11, 5), (10, 5, 6), (10, 5, -1)):
        with pytest.raises(ValueError, match="canaries"):
            audit.one_run_epsilon_lower_bound(canaries, guesses, correct)


def test_one_run_of_a_mean_with_many_canaries() -> None:
    """2000 coordinates, each moved by ±½ as its canary is in or out; the 500 most extreme are guessed; claim ε = 1.

    Correct noise is flagged in 5 % of runs at most, so more than 12 of 100 have a chance of 1e-3.
    """
    random = np.random.default_rng(3)
    for scale, fewest, most in ((1.0, 0, 12), (1 / math.sqrt(2), 95, 100)):
        flagged = 0
        for _ in range(100):
            included = random.integers(0, 2, 2000).astype(bool)
            released = np.where(included, 0.5, -0.5) + random.laplace(0.0, scale, 2000)
            guessed = np.argsort(-np.abs(released))[:500]
            correct = int(((released[guessed] > 0) == included[guessed]).sum())
            flagged += audit.one_run_epsilon_lower_bound(2000, 500, correct) > 1.0
        assert fewest <= flagged <= most


# ---------------------------------------------------------------------------------------- the least that rates allow


@pytest.mark.parametrize(
    "budget",
    [
        PureDP(epsilon=1.0),
        ApproximateDP(epsilon=1.0, delta=1e-3),
        GaussianDP(mu=1.0),
        ZeroConcentratedDP(rho=0.5),
        RenyiDP(epsilon=1.0, order=4.0),
        TradeOff(true_positive_rate=0.3, false_positive_rate=0.1),
    ],
    ids=lambda budget: budget.kind,
)
def test_what_a_budget_allows_does_not_refute_it_and_a_little_more_does(budget: Budget) -> None:
    """At every false positive rate of its own curve; where that is exact, the least number is the stated one."""
    false = np.array([0.001, 0.05, 0.1, 0.4, 0.9])
    allowed = budget.smallest_limit(1 - budget.tradeoff(false), false)
    exact = not isinstance(budget, ZeroConcentratedDP | RenyiDP)
    assert (allowed <= budget.limit * (1 + 1e-6)).all()
    assert not exact or allowed.max() == pytest.approx(budget.limit, rel=1e-6)
    assert (budget.smallest_limit(np.full(5, 0.99), np.full(5, 0.01)) > budget.limit).all()
    assert float(budget.smallest_limit(np.array(0.3), np.array(0.3))) == pytest.approx(
        getattr(budget, "false_positive_rate", 0)
    )


def test_a_divergence_is_found_again_in_two_coins() -> None:
    """Coins with chances σ(±½), as of one balanced selection of range 1: D₁ = (2σ(½) - 1)/2, below 1/8."""
    p, q, order = expit(0.5), expit(-0.5), 3.0
    exact = math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)
    assert float(audit.least_renyi(p, q, order)) == pytest.approx(exact)
    assert float(audit.least_rho(p, q)) == pytest.approx(p - 0.5, rel=2e-3) and p - 0.5 < 1 / 8
