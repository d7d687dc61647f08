"""Randomised response, noisy counts and the game of guessing, against enumeration: privacy/THEORY.md, section 16."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import integrate, stats

from dpviz.privacy import local
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.local import LaplaceCounts, RandomisedResponse
from dpviz.privacy.tradeoffs import advantage

EPSILONS = (0.25, 1.0, math.log(3), 3.0)
RESPONSES = [RandomisedResponse(eps, choices) for eps in EPSILONS for choices in (2, 5)]


def law(response: RandomisedResponse) -> np.ndarray:
    """Probabilities [answer, report] of the device: a first coin, then the truth or an even draw of an answer."""
    k = response.choices
    return response.coin * np.eye(k) + (1 - response.coin) / k


def law_of_count(response: RandomisedResponse, t: int, n: int) -> np.ndarray:
    """Probabilities of 0 to n reports of an answer that t of n people have."""
    of_t, of_rest = (
        stats.binom.pmf(np.arange(size + 1), size, chance)
        for size, chance in ((t, response.truth), (n - t, response.lie))
    )
    return np.convolve(of_t, of_rest)


@pytest.mark.parametrize("response", RESPONSES)
def test_a_report_is_eps_times_as_likely_for_the_log_at_most_and_so_are_all_together(
    response: RandomisedResponse,
) -> None:
    one = law(response)
    assert np.allclose(one[0, :2], [response.truth, response.lie], rtol=1e-14)
    ratios = np.log(one[:, None] / one[None])
    assert ratios.max() == pytest.approx(response.eps, rel=1e-12)
    # Three people, of whom one changes the answer: the law of all reports is the product.
    tables = [np.einsum("a,b,c->abc", one[first], one[1], one[0]) for first in (0, 1)]
    assert np.log(tables[0] / tables[1]).max() == pytest.approx(response.event.eps, rel=1e-12)


@pytest.mark.parametrize("response", RESPONSES)
def test_estimates_are_unbiased_with_the_stated_variances(response: RandomisedResponse) -> None:
    n, t = 4, 1
    reports, estimates = np.array(list(product(range(response.choices), repeat=n))), []
    answers = np.array([0] * t + [1] * (n - t))
    chances = law(response)[answers, reports].prod(axis=1)
    for choice in range(response.choices):
        estimate = np.array([response.estimate(count, n) for count in (reports == choice).sum(axis=1)])
        share = (answers == choice).mean()
        assert chances @ estimate == pytest.approx(share, abs=1e-12)
        assert chances @ (estimate - share) ** 2 == pytest.approx(response.variance(share, n), rel=1e-10)
        estimates.append(estimate)
    assert np.allclose(np.sum(estimates, axis=0), 1)
    # People who are drawn: each has the answer 0 with probability 0.3.
    counts = np.arange(n + 1)
    mixed = sum(stats.binom.pmf(size, n, 0.3) * law_of_count(response, size, n) for size in counts)
    estimate = np.array([response.estimate(count, n) for count in counts])
    assert mixed @ (estimate - 0.3) ** 2 == pytest.approx(response.variance(0.3, n, sampled=True), rel=1e-10)
    assert response.variance(0.3, n, sampled=True) - response.variance(0.3, n) == pytest.approx(0.3 * 0.7 / n)
    if response.choices == 2:
        closed = math.exp(response.eps) / (n * math.expm1(response.eps) ** 2)
        assert response.standard_error(0, n) ** 2 == pytest.approx(closed) == pytest.approx(response.variance(0.9, n))


@pytest.mark.parametrize("response", [*RESPONSES, RandomisedResponse(5.0)])
def test_intervals_cover_every_share_at_every_size(response: RandomisedResponse) -> None:
    coverage = []
    for n in range(5, 41, 5):
        ends = np.array([response.interval(count, n) for count in range(n + 1)])
        nearest = np.rint(np.clip([response.estimate(count, n) for count in range(n + 1)], 0, 1) * n) / n
        assert (
            (ends[:, 0] <= nearest) & (nearest <= ends[:, 1]) & (ends >= 0).all(axis=1) & (ends <= 1).all(axis=1)
        ).all()
        for t in range(n + 1):
            covers = (ends[:, 0] <= t / n) & (t / n <= ends[:, 1])
            coverage.append(law_of_count(response, t, n) @ covers)
    assert min(coverage) >= 0.95 - 1e-9
    assert np.mean(coverage) <= 0.983  # intervals that say nothing would always cover


def test_reports_of_a_probability_that_underflows_have_an_interval_at_the_nearest_share() -> None:
    assert RandomisedResponse(0.1, 50).interval(500, 500) == (1.0, 1.0)
    assert RandomisedResponse(0.1, 50).interval(0, 500)[0] == 0.0


@pytest.mark.parametrize("eps", EPSILONS)
@pytest.mark.parametrize("choices", [2, 5])
def test_people_needed_are_the_fewest_with_that_error(eps: float, choices: int) -> None:
    for model in (RandomisedResponse(eps, choices), LaplaceCounts(eps, choices)):
        for error in (0.03, 0.1):
            n = model.people(error)
            assert model.error(n) <= error * (1 + 1e-12)
            assert n == 1 or model.error(n - 1) > error
    central = LaplaceCounts(eps, choices)
    noise = stats.laplace(scale=central.scale)
    assert 2 * noise.sf(0.1 * central.people(0.1)) <= 0.05 < 2 * noise.sf(0.1 * (central.people(0.1) - 1))
    assert central.variance(7) == pytest.approx(noise.var() / 49)


@pytest.mark.parametrize(("eps", "choices"), [(0.5, 2), (1.0, 2), (3.0, 2), (1.0, 4)])
def test_the_local_error_is_exceeded_about_as_often_as_stated(eps: float, choices: int) -> None:
    response = RandomisedResponse(eps, choices)
    n = response.people(0.1)
    excess = []
    for t in range(0, n + 1, max(1, n // 7)):
        errors = np.array([response.estimate(count, n) for count in range(n + 1)]) - t / n
        excess.append(law_of_count(response, t, n) @ (np.abs(errors) > 0.1))
    assert 0.5 * 0.05 <= max(excess) <= 1.5 * 0.05


def test_a_count_moves_by_one_and_a_histogram_by_two() -> None:
    for choices in (2, 3, 5):
        counts = [np.bincount([first, 1, 0], minlength=choices) for first in range(choices)]
        released = [table[:1] if choices == 2 else table for table in counts]
        moved = max(np.abs(one - other).sum() for one in released for other in released)
        assert moved == LaplaceCounts(1.0, choices).sensitivity


# ------------------------------------------------------------------------------------------------------------- the game


@pytest.mark.parametrize("eps", EPSILONS)
def test_the_best_guess_is_right_as_often_as_the_densities_allow(eps: float) -> None:
    without, joined = stats.laplace(0, 1 / eps), stats.laplace(1, 1 / eps)
    larger, _ = integrate.quad(
        lambda x: max(without.pdf(x), joined.pdf(x)) / 2, -60 / eps, 60 / eps, points=(0, 0.5, 1)
    )
    assert local.success(eps) == pytest.approx(larger, abs=1e-7)
    assert local.success(eps) == pytest.approx((1 + advantage([Laplace(eps)])) / 2)
    assert local.success(eps) < local.success_bound(eps)
    assert local.success_bound(eps) == pytest.approx((1 + PureDP(epsilon=eps).advantage()) / 2)
    numbers = np.arange(-400, 401)
    discrete = np.exp(-eps * np.abs(numbers)) * math.tanh(eps / 2)  # on whole numbers it attains the bound
    assert np.maximum(discrete[1:], discrete[:-1]).sum() / 2 == pytest.approx(local.success_bound(eps), abs=1e-9)
    assert RandomisedResponse(eps).truth == local.success_bound(eps)


def test_a_game_is_fair_and_its_best_player_scores_as_stated() -> None:
    eps, phones, others = 1.0, 400, 23
    is_in, noisy = local.play(eps, others, phones * local.ROUNDS, seed=3)
    assert abs(is_in.mean() - 0.5) < 4 * 0.5 / math.sqrt(len(is_in))
    score = ((noisy > others) == is_in).mean()
    assert abs(score - local.success(eps)) < 4 * local.score_error(eps, phones)
    assert local.score_error(eps, 1) ** 2 == pytest.approx(local.success(eps) * (1 - local.success(eps)) / local.ROUNDS)
    assert not np.array_equal(noisy, local.play(eps, others, phones * local.ROUNDS, seed=4)[1])
