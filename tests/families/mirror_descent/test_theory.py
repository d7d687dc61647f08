"""Costs of draws, step-size caps, bounds and rounds against the verified values of THEORY.md."""

import math
from itertools import pairwise

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.families.mirror_descent import theory
from dpviz.privacy.accounting.closed_forms import exponential_rho, zcdp_epsilon, zcdp_rho
from tests.oracles import games

DELTA = 1e-6
RHO = zcdp_rho(1.0, DELTA)
HALVES = (0.5, 0.5)


def bilinear(d: int, draws: int = 1) -> list[theory.Player]:
    return [theory.Player(math.log(d), 2.0, 2.0, draws=draws)] * 2


# ------------------------------------------------------------------------------------------------------------- privacy


def test_conversions_between_zcdp_and_epsilon() -> None:
    assert zcdp_rho(1.0, DELTA) == pytest.approx(0.02435597, rel=1e-6)
    assert zcdp_rho(2.0, DELTA) == pytest.approx(0.08815269, rel=1e-6)
    assert zcdp_epsilon(0.01, DELTA) == pytest.approx(0.621693, abs=1e-6)
    epsilons = np.geomspace(0.05, 10, 30)
    rho = np.array([zcdp_rho(epsilon, DELTA) for epsilon in epsilons])
    assert [zcdp_epsilon(value, DELTA) for value in rho] == pytest.approx(epsilons, rel=1e-8)


def test_cost_of_one_draw() -> None:
    eta = np.array([0.01, 0.1, 1.0, 3.0])
    tight = theory.rho_of_draws(eta, tight=True)
    assert tight[2] == pytest.approx(0.1233016, abs=1e-7)
    assert tight[0] == pytest.approx(1.2499983e-5, rel=1e-7)
    assert (tight <= theory.rho_of_draws(eta)).all()
    assert theory.rho_of_draws(eta, 5) == pytest.approx(5 * eta**2 / 8)


def test_range_is_that_of_the_change_of_the_scores() -> None:
    old, new = np.array([1.0, -1.0, 0.3]), np.array([-1.0, 1.0, 0.3])
    change = -0.2 / 50 * (old - new)
    assert float(theory.draw_range(2.0, 0.2, 1 / 50)) == pytest.approx(np.ptp(change))


def test_weights_and_their_squares() -> None:
    assert theory.weights_full_batch(5, 10).tolist() == [0.1, 0.2, 0.3, 0.4]
    assert theory.weights_single_pass(4, 8).tolist() == [0.125] * 3
    assert theory.sum_of_squares([1, 2, 5]).tolist() == [0, 1, 30]
    rounds = np.array([1, 2, 7, 64])
    full = [np.sum(theory.weights_full_batch(t, 5000) ** 2) for t in rounds]
    assert theory.squared_weights(rounds, 5000, "full_batch") == pytest.approx(full)
    single = [np.sum(theory.weights_single_pass(t, 5000 // t) ** 2) for t in rounds]
    assert theory.squared_weights(rounds, 5000, "single_pass") == pytest.approx(single)
    assert theory.squared_weights([1, 3], 2, "single_pass").tolist() == [0, math.inf]


def test_step_size_caps_of_the_default_problem() -> None:
    assert float(games.tau_single_pass(64, 78, RHO, 2.0)) == pytest.approx(0.766826, rel=1e-6)
    assert float(games.tau_full_batch(64, 5000, RHO, 2.0)) == pytest.approx(1.335538, rel=1e-6)


def test_worked_example() -> None:
    assert float(games.tau_single_pass(100, 100, RHO, 2.0)) == pytest.approx(0.78425, rel=1e-5)
    ratio = float(games.tau_full_batch(100, 10_000, RHO, 2.0) / games.tau_single_pass(100, 100, RHO, 2.0))
    assert ratio == pytest.approx(math.sqrt(3), rel=0.01)


def test_synthetic_data_cap() -> None:
    assert float(games.tau_full_batch(128, 10_000, RHO, 1.0, share=1.0)) == pytest.approx(2.6553, rel=1e-4)


@pytest.mark.parametrize("batching", ["full_batch", "single_pass"])
def test_caps_spend_exactly_the_budget(batching: theory.Batching) -> None:
    players = [theory.Player(math.log(60), 13.3, 13.3, 1.0, 3), theory.Player(math.log(3), 6.7, 6.7)]
    n, rounds, shares = 3000, 20, (0.8, 0.2)
    batch = n // rounds
    full = batching == "full_batch"
    weights = theory.weights_full_batch(rounds, n) if full else theory.weights_single_pass(rounds, batch)
    caps = theory.capped_steps(players, shares, RHO, rounds, n, batching)
    for player, share, cap in zip(players, shares, caps, strict=True):
        ranges = theory.draw_range(player.oscillation, cap, weights)
        spent = games.accumulated_rho(ranges, player.draws)
        assert spent.shape == (rounds,) and spent[0] == 0 and (np.diff(spent) > 0).all()
        assert spent[-1] == pytest.approx(share * RHO)
        closed = (
            games.tau_full_batch(rounds, n, RHO, player.oscillation, player.draws, share)
            if full
            else games.tau_single_pass(rounds, batch, RHO, player.oscillation, player.draws, share)
        )
        assert float(cap) == pytest.approx(float(closed))


@pytest.mark.parametrize("rho", [1e-3, 0.1, 5.0, 500.0])
def test_tight_cap_spends_exactly_the_budget_and_is_never_smaller(rho: float) -> None:
    weights = theory.weights_full_batch(10, 200)
    tight = games.tight_step_size_cap(rho, 2.0, weights, 2)
    assert tight >= float(theory.step_size_cap(rho, 2.0, 2 * np.sum(weights**2)))
    assert 2 * exponential_rho(theory.draw_range(2.0, tight, weights)).sum() == pytest.approx(rho)


def test_nothing_is_paid_where_no_draw_depends_on_the_data() -> None:
    assert float(games.tau_full_batch(1, 100, RHO, 2.0)) == math.inf
    assert games.tight_step_size_cap(RHO, 2.0, theory.weights_full_batch(1, 100)) == math.inf
    assert games.tight_step_size_cap(0.0, 2.0, theory.weights_full_batch(3, 100)) == 0
    assert games.accumulated_rho(np.empty(0)).tolist() == [0]


def test_caps_fall_with_rounds_and_draws_and_rise_with_the_budget() -> None:
    rounds = np.arange(2, 300)
    for draws, more in pairwise([1, 2, 8]):
        few, many = (games.tau_full_batch(rounds, 5000, RHO, 2.0, k) for k in (draws, more))
        assert (many < few).all() and (np.diff(few) < 0).all()
    single = games.tau_single_pass(rounds, 5000 // rounds, RHO, 2.0)
    assert (np.diff(single) < 0).all()
    assert (games.tau_full_batch(rounds, 5000, 2 * RHO, 2.0) > games.tau_full_batch(rounds, 5000, RHO, 2.0)).all()


def test_spent_epsilon_never_falls() -> None:
    ranges = theory.draw_range(2.0, 1.3, theory.weights_full_batch(64, 5000))
    epsilons = np.array([zcdp_epsilon(2 * rho, DELTA) for rho in games.accumulated_rho(ranges)])
    assert (np.diff(epsilons) >= 0).all() and epsilons[0] == 0


# --------------------------------------------------------------------------- bias-reduced oracle, lazy anytime averages


@pytest.mark.parametrize("largest", range(7))
def test_levels_of_the_bias_reduced_oracle(largest: int) -> None:
    probabilities = theory.level_probabilities(largest)
    sizes = 2.0 ** np.arange(largest + 1)
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities @ sizes == pytest.approx(theory.mean_batches(largest))
    # The correction of level k is multiplied by C_M 2^k, so that all levels count once: the sum telescopes.
    assert probabilities * theory.level_constant(largest) * sizes == pytest.approx(np.ones(largest + 1))


def test_numbers_of_the_bias_reduced_oracle() -> None:
    assert theory.mean_batches(3) == pytest.approx(2.13333, abs=1e-5)
    assert theory.level_probabilities(0).tolist() == [1.0]
    assert games.bias_reduced_draws([0]) == 2 + 1
    assert games.bias_reduced_draws([0, 2, 1]) == 3 + 9 + 5
    assert [theory.largest_level(u) for u in (1, 3, 4, 15, 16, 256, 1023, 1024)] == [0, 0, 1, 1, 2, 4, 4, 5]


@pytest.mark.parametrize("largest", [0, 1, 4])
def test_weight_of_a_record_in_the_bias_reduced_gradient(largest: int) -> None:
    for level in range(largest + 1):
        scale = theory.level_constant(largest) * 2**level
        # Worst case: its gradient is +1 at the average of all draws and the first one, -1 at both halves' averages.
        attained = (scale * (1 + 0.5 + 0.5) + 1) / 2**level
        assert float(theory.oracle_weight(largest, level)) == pytest.approx(attained)
    assert float(theory.oracle_weight(largest)) == theory.oracle_weight(largest, np.arange(largest + 1)).max() <= 5


def test_random_stopping() -> None:
    stop, largest = 256, theory.largest_level(256)
    low, high = games.stopping_bounds(stop, largest)
    assert (low, high) == pytest.approx((93.0, 99.2), abs=0.05)
    rng, lengths = np.random.default_rng(0), []
    for levels in rng.choice(largest + 1, size=(2000, stop), p=theory.level_probabilities(largest)):
        sums = np.cumsum(2**levels)
        length = int(np.argmax(sums > stop - 2**largest)) + 1
        assert sums[length - 1] <= stop
        assert games.bias_reduced_draws(levels[:length]) <= theory.bias_reduced_draws_bound(stop)
        lengths.append(length)
    error = 4 * np.std(lengths) / math.sqrt(2000)
    assert low - error <= np.mean(lengths) <= high + error


@pytest.mark.parametrize(("rounds", "period"), [(1, 1), (10, 1), (10, 3), (12, 4), (7, 10), (10, 10), (100, 7)])
def test_draws_of_the_lazy_anytime_method(rounds: int, period: int) -> None:
    refreshes = sum(t <= period or t % period == 0 for t in range(1, rounds + 1))
    assert theory.anytime_refreshes(rounds, period) == refreshes
    assert theory.anytime_draws(rounds, 5, period, 3) == 5 * (refreshes - 1) + 3


# ------------------------------------------------------------------------------------------------------ Maurey's lemma


def averages(rng: np.random.Generator, x: np.ndarray, draws: int, times: int) -> np.ndarray:
    """(times, d) averages of vertices drawn from x."""
    return rng.multinomial(draws, x, size=times) / draws


def within_four_errors(samples: np.ndarray, expected: float) -> None:
    # One draw always costs the same: then only rounding errors are left.
    assert abs(samples.mean() - expected) <= 4 * samples.std() / math.sqrt(samples.size) + 1e-12


@pytest.mark.parametrize("draws", [1, 3, 20])
def test_sampling_a_quadratic_costs_exactly_what_maurey_says(draws: int) -> None:
    rng = np.random.default_rng(draws)
    x = rng.dirichlet(np.ones(7))
    sampled = averages(rng, x, draws, 20_000)
    excess = (1 - x @ x) / (2 * draws)
    within_four_errors((sampled**2).sum(1) / 2 - x @ x / 2, excess)
    within_four_errors((sampled * (sampled - x)).sum(1), 2 * excess)
    assert excess <= float(theory.maurey_value(1.0, draws))
    assert 2 * excess <= float(theory.maurey_cross_term(1.0, draws, x @ x)) <= float(theory.maurey_value(1.0, draws))


def test_gradient_bias_and_its_two_forms() -> None:
    rng = np.random.default_rng(1)
    c = rng.uniform(-1, 1, 8)
    x, draws = rng.dirichlet(np.ones(8)), 16
    # h = exp(<c, x>) has partial derivatives of at most e, and so have their derivatives of every order.
    gradients = np.exp(averages(rng, x, draws, 40_000) @ c)[:, None] * c
    bias = np.abs(gradients.mean(0) - np.exp(c @ x) * c)
    bound = float(theory.maurey_gradient_bias(math.e, math.e, draws))
    assert bound == pytest.approx(2 * math.e / draws)
    assert (bias <= bound + 4 * gradients.std(0) / 200).all()
    assert float(theory.maurey_gradient_bias(1.0, math.inf, 16)) == pytest.approx(1.0)
    assert float(theory.maurey_gradient_bias(1.0, math.inf, 16, simplices=2)) == pytest.approx(math.sqrt(2))
    assert float(theory.maurey_gradient_bias(1.0, 1.0, 400, simplices=2)) == pytest.approx(0.01)


def test_second_moment_of_the_gradient_error() -> None:
    rng = np.random.default_rng(2)
    matrix = rng.choice([-1.0, 1.0], size=(200, 200))
    matrix = np.triu(matrix) + np.triu(matrix, 1).T
    x = np.full(200, 1 / 200)
    errors = np.abs((averages(rng, x, 64, 2000) - x) @ matrix).max(1) ** 2
    bound = float(theory.maurey_second_moment(1.0, 0.0, 64, 200))
    assert bound == pytest.approx(0.44, abs=0.005)
    assert 0.1 < errors.mean() < bound


def test_tail_of_the_sampled_value() -> None:
    rng = np.random.default_rng(3)
    x, draws, times = np.array([0.5, 0.5]), 25, 40_000
    values = averages(rng, x, draws, times) @ np.array([1.0, -1.0])  # linear, L0 = 1, value 0 at x
    for excess in (0.1, 0.3, 0.5):
        bound = float(theory.maurey_tail(1.0, draws, excess))
        assert (values >= excess).mean() <= bound + 4 * math.sqrt(bound / times)


# -------------------------------------------------------------------------------------------------------- error bounds


def test_direct_bound() -> None:
    pennies = bilinear(2)
    assert float(theory.direct_bound(pennies, (0.1, 0.1), 100)) == pytest.approx(0.2386, abs=1e-4)
    curved = [player._replace(smoothness=3.0, draws=4) for player in pennies]
    bias = theory.sampling_bias(curved)
    assert bias == pytest.approx(3.0)
    assert float(theory.direct_bound(curved, (0.1, 0.1), 100)) == pytest.approx(0.2386 + bias, abs=1e-4)
    only = theory.direct_bound(pennies[:1], (0.1,), np.array([50, 100]))
    assert only == pytest.approx([math.log(2) / 5 + 0.05, math.log(2) / 10 + 0.05])
    assert float(theory.direct_bound(pennies, (0.0, 0.1), 100)) == math.inf


def test_bound_of_the_default_page() -> None:
    step = games.tau_full_batch(64, 5000, RHO, 2.0)
    assert float(theory.direct_bound(bilinear(300), (step, step), 64)) == pytest.approx(1.5, abs=0.05)


def test_population_term() -> None:
    rounds = np.array([10, 100, 10_000])
    term = theory.population_term(bilinear(50), 1.0, rounds, 10_000 // rounds)
    ell = 2 * math.log(50)
    variance = np.minimum(4.0, 2 * (1 + math.log(100)) / (10_000 // rounds))
    assert term == pytest.approx(2 * np.sqrt(variance * ell / rounds))
    unequal = [theory.Player(math.log(1000), 2.0, 2.0), theory.Player(math.log(3), 2.0, 2.0)]
    largest = 2 * math.sqrt(2 / 100 * (1 + math.log(2000)) * math.log(3000) / 100)
    assert 0 < float(theory.population_term(unequal, 1.0, 100, 100)) <= largest


# --------------------------------------------------------------------------------------------- rounds, shares, records


def test_rounds_in_closed_form() -> None:
    found = theory.closed_form_optimum(bilinear(1000), HALVES, RHO, 10_000, "full_batch")
    ell = 2 * math.log(1000)
    assert found.balanced_rounds == pytest.approx(10_000 * math.sqrt(3 * RHO / (4 * ell)))
    assert found.balanced_rounds == pytest.approx(364, abs=0.5)
    assert found.balanced_bound == pytest.approx(2 * ell**0.75 * (4 / (3 * RHO)) ** 0.25 / 100)
    assert found.balanced_bound == pytest.approx(0.3898, abs=5e-5)
    assert found.practical_rounds == 91
    single = theory.closed_form_optimum(bilinear(1000, draws=4), HALVES, RHO, 10_000, "single_pass")
    assert single.balanced_rounds == pytest.approx(10_000 * math.sqrt(RHO / (16 * ell)))


@pytest.mark.parametrize("batching", ["full_batch", "single_pass"])
@pytest.mark.parametrize("d", [30, 1000])
def test_the_bound_falls_beyond_the_balance_to_the_closed_form_optimum(batching: theory.Batching, d: int) -> None:
    # Many records, so that rounding the batch hardly matters.
    players, n = bilinear(d), 200_000

    def curve(rounds: np.ndarray) -> np.ndarray:
        return theory.best_bound(players, HALVES, RHO, rounds, n, batching)

    found = theory.closed_form_optimum(players, HALVES, RHO, n, batching)
    rounds, bound = theory.optimal_rounds(curve, 100_000)
    assert found.rounds == pytest.approx(math.sqrt(3) * found.balanced_rounds)
    assert bound == pytest.approx(found.bound, rel=0.01)
    assert rounds == pytest.approx(found.rounds, rel=0.1)
    at_balance = float(curve(np.rint([found.balanced_rounds]))[0])
    assert at_balance == pytest.approx(found.balanced_bound, rel=0.02)
    assert bound < 0.89 * at_balance


def test_optimal_rounds_is_the_smallest_of_all() -> None:
    players = [theory.Player(math.log(60), 13.3, 13.3, 3.3, 10), theory.Player(math.log(3), 6.7, 6.7)]
    every = np.arange(2, 5001)
    for batching in ("full_batch", "single_pass"):

        def curve(rounds: np.ndarray, batching: theory.Batching = batching) -> np.ndarray:
            return theory.best_bound(players, (0.8, 0.2), RHO, rounds, 20_000, batching)

        rounds, bound = theory.optimal_rounds(curve, 5000)
        assert bound == pytest.approx(curve(every).min(), rel=2e-3)
        assert float(curve(np.array([rounds]))[0]) == bound
    assert theory.optimal_rounds(curve, 2)[0] == 2


def test_best_bound_is_the_minimum_over_steps_below_the_cap() -> None:
    players = bilinear(100)
    for rounds in (5, 50, 500):
        cap = float(games.tau_full_batch(rounds, 5000, RHO, 2.0))
        steps = np.linspace(cap / 2000, cap, 2000)
        smallest = theory.direct_bound(players, (steps, steps), np.full(2000, rounds)).min()
        best = float(theory.best_bound(players, HALVES, RHO, rounds, 5000, "full_batch"))
        assert best == pytest.approx(smallest, rel=1e-5) and best <= smallest * (1 + 1e-12)


def test_bounds_fall_with_records_and_budget() -> None:
    rounds = np.arange(2, 400)
    for batching in ("full_batch", "single_pass"):
        base = theory.best_bound(bilinear(100), HALVES, RHO, rounds, 5000, batching)
        assert (theory.best_bound(bilinear(100), HALVES, 2 * RHO, rounds, 5000, batching) <= base).all()
        assert (theory.best_bound(bilinear(100), HALVES, RHO, rounds, 20_000, batching) <= base).all()
    assert math.isinf(float(theory.best_bound(bilinear(100), HALVES, RHO, 6000, 5000, "single_pass")))


def test_sample_size_reaches_the_target() -> None:
    for batching in ("full_batch", "single_pass"):
        for smoothness in (0.0, 1.0):
            players = [player._replace(smoothness=smoothness, draws=50) for player in bilinear(1000)]
            n = games.sample_size(0.4, players, HALVES, RHO, batching)
            bounds = [theory.closed_form_optimum(players, HALVES, RHO, m, batching).bound for m in (n, n - 1)]
            assert bounds[0] <= 0.4 < bounds[1]
    # The formula of THEORY.md, section 5, is for the balanced number of rounds, whose bound is 1.14 times as large.
    balanced = 4 * (2 * math.log(1000)) ** 1.5 * math.sqrt(4 / (3 * RHO)) / 0.4**2
    n = games.sample_size(0.4, bilinear(1000), HALVES, RHO, "full_batch")
    assert n == pytest.approx(((3**0.25 + 3**-0.75) / 2) ** 2 * balanced, abs=1)


def test_an_impossible_target_is_refused() -> None:
    players = [player._replace(smoothness=1.0, draws=8) for player in bilinear(10)]
    with pytest.raises(UserError, match=r"Sampling alone can cost 0\.5"):
        games.sample_size(0.5, players, HALVES, RHO, "full_batch")


def test_optimal_shares_minimise_the_regret() -> None:
    players = [theory.Player(math.log(60), 13.3, 13.3, draws=3), theory.Player(math.log(3), 6.7, 6.7)]
    share = theory.optimal_shares(players)[0]
    candidates = np.linspace(0.01, 0.99, 981)
    regrets = [
        sum(p.log_vertices / float(games.tau_full_batch(20, 1000, RHO, p.oscillation, p.draws, s)) for p, s in pair)
        for pair in (zip(players, (c, 1 - c), strict=True) for c in candidates)
    ]
    assert share == pytest.approx(candidates[int(np.argmin(regrets))], abs=1e-3)
    assert theory.optimal_shares(bilinear(7)) == pytest.approx(HALVES)
    assert theory.optimal_shares(players[:1]) == (1.0,)


def test_group_loss_gives_most_of_the_budget_to_the_weights() -> None:
    # Squared loss, d = 30 features, radius 1, three groups of declared share at least 0.3.
    players = [theory.Player(math.log(60), 4 / 0.3, 4 / 0.3), theory.Player(math.log(3), 2 / 0.3, 2 / 0.3)]
    assert theory.optimal_shares(players)[0] == pytest.approx(0.8, abs=0.01)
