"""Costs of draws, bounds, rounds and the settings of the paper, against the verified values of THEORY.md."""

import math
import typing
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from dpviz.families.mirror_descent import planning, rates, theory
from dpviz.privacy.accounting.closed_forms import exponential_rho, zcdp_rho
from dpviz.problems.games.matrix_games import MatrixGame
from tests.oracles import games

DELTA = 1e-6
RHO = zcdp_rho(1.0, DELTA)
HALVES = (0.5, 0.5)


def bilinear(d: int, draws: int = 1) -> list[theory.Player]:
    return [theory.Player(math.log(d), 2.0, 2.0, draws=draws)] * 2


def best_bound(
    players: Sequence[theory.Player], shares: Sequence[float], rounds: ArrayLike, n: int, batching: theory.Batching
) -> np.ndarray:
    """`direct_bound` at the best step sizes up to those that privacy allows, in the shape of `rounds`. Without this
    limit the best step size is √(8 ln d/T)/spread."""
    caps = theory.capped_steps(players, shares, RHO, rounds, n, batching)
    unlimited = [np.sqrt(8 * p.log_vertices / np.asarray(rounds, float)) / p.spread for p in players]
    return theory.direct_bound(players, [np.minimum(*pair) for pair in zip(caps, unlimited, strict=True)], rounds)


# ------------------------------------------------------------------------------------------------------------- privacy


def test_cost_of_one_draw() -> None:
    eta = np.array([0.01, 0.1, 1.0, 3.0])
    tight = exponential_rho(eta)
    assert tight[2] == pytest.approx(0.1233016, abs=1e-7)
    assert tight[0] == pytest.approx(1.2499983e-5, rel=1e-7)
    assert (tight <= theory.rho_of_draws(eta)).all()
    assert theory.rho_of_draws(eta, 5) == pytest.approx(5 * eta**2 / 8)


def weights(rounds: int, n: int, batching: theory.Batching) -> np.ndarray:
    facts = replace(MatrixGame().facts(), n=n)
    return planning.row_weights(facts, rounds, "full" if batching == "full_batch" else "single")


def test_weights_and_their_squares() -> None:
    assert weights(5, 10, "full_batch").tolist() == [0.0, 0.1, 0.2, 0.3, 0.4]
    assert weights(4, 32, "single_pass").tolist() == [0.0, 0.125, 0.125, 0.125]
    rounds = np.array([1, 2, 7, 64])
    for batching in typing.get_args(theory.Batching):
        squares = [np.sum(weights(t, 5000, batching) ** 2) for t in rounds]
        assert theory.squared_weights(rounds, 5000, batching) == pytest.approx(squares)
    assert theory.squared_weights([1, 3], 2, "single_pass").tolist() == [0, math.inf]


@pytest.mark.parametrize("batching", ["full_batch", "single_pass"])
def test_caps_spend_exactly_the_budget(batching: theory.Batching) -> None:
    players = [theory.Player(math.log(60), 13.3, 13.3, 1.0, 3), theory.Player(math.log(3), 6.7, 6.7)]
    n, rounds, shares = 3000, 20, (0.8, 0.2)
    batch = n // rounds
    caps = theory.capped_steps(players, shares, RHO, rounds, n, batching)
    for player, share, cap in zip(players, shares, caps, strict=True):
        ranges = 2 * player.oscillation * cap * weights(rounds, n, batching)[1:]  # the first round is free
        spent = games.accumulated_rho(ranges, player.draws)
        assert spent.shape == (rounds,) and spent[0] == 0 and (np.diff(spent) > 0).all()
        assert spent[-1] == pytest.approx(share * RHO)
        closed = (
            games.tau_full_batch(rounds, n, RHO, player.oscillation, player.draws, share)
            if batching == "full_batch"
            else games.tau_single_pass(rounds, batch, RHO, player.oscillation, player.draws, share)
        )
        assert float(cap) == pytest.approx(float(closed))


# --------------------------------------------------------------------------- bias-reduced oracle, lazy anytime averages


@pytest.mark.parametrize("largest", range(7))
def test_levels_of_the_bias_reduced_oracle(largest: int) -> None:
    probabilities = theory.level_probabilities(largest)
    sizes = 2.0 ** np.arange(largest + 1)
    assert probabilities.sum() == pytest.approx(1)
    assert probabilities @ sizes == pytest.approx(theory.mean_batches(largest))
    # The correction of level k is multiplied by C_M 2^k, so that all levels count once: the sum telescopes.
    assert probabilities * theory.level_constant(largest) * sizes == pytest.approx(np.ones(largest + 1))


@pytest.mark.parametrize("largest", [0, 1, 4])
def test_weight_of_a_record_in_the_bias_reduced_gradient(largest: int) -> None:
    for level in range(largest + 1):
        scale = theory.level_constant(largest) * 2**level
        # Worst case: its gradient is +1 at the average of all draws and the first one, -1 at both halves' averages.
        attained = (scale * (1 + 0.5 + 0.5) + 1) / 2**level
        assert float(theory.oracle_weight(largest, level)) == pytest.approx(attained)
    assert float(theory.oracle_weight(largest)) == theory.oracle_weight(largest, np.arange(largest + 1)).max() <= 5


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
    assert excess <= 2 / draws  # the bound, 2 L₁/K
    assert 2 * excess <= theory.sampling_bias([theory.Player(math.log(7), 2.0, 2.0, 1.0, draws)])


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
        return best_bound(players, HALVES, rounds, n, batching)

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
            return best_bound(players, (0.8, 0.2), rounds, 20_000, batching)

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
        best = float(best_bound(players, HALVES, rounds, 5000, "full_batch"))
        assert best == pytest.approx(smallest, rel=1e-5) and best <= smallest * (1 + 1e-12)


ODDS = math.log(1 / DELTA)
REFERENCE = rates.Sizes(10_000, 1000, 1000, 1.0, DELTA)


def settings(sizes: rates.Sizes = REFERENCE) -> dict[str, rates.TheoremParameters]:
    return {row.result: row for row in rates.table_rows(sizes)}


# ---------------------------------------------------------------------------------------------------------- accounting


@pytest.mark.parametrize(("epsilon", "factor"), [(0.1, 5.33), (0.5, 4.85), (1, 4.64), (2, 4.41), (4, 4.15), (8, 3.81)])
def test_factor_between_the_caps_for_many_rounds(epsilon: float, factor: float) -> None:
    rounds = 10**7
    ours = games.tau_single_pass(rounds, 100, zcdp_rho(epsilon, DELTA), 2.0)
    assert float(ours / rates.tau_paper(rounds, 100, epsilon, DELTA, 1.0)) == pytest.approx(factor, abs=0.005)


def test_synthetic_data_cap_is_eight_times_the_paper_s() -> None:
    paper = float(rates.tau_paper_synthetic(128, 10_000, 1.0, DELTA))
    ours = float(games.tau_full_batch(128, 10_000, zcdp_rho(1.0, DELTA), 1.0, share=1.0))
    assert paper == pytest.approx(0.32842, abs=5e-6)
    assert ours / paper == pytest.approx(8.09, abs=0.01)


def test_paper_bound() -> None:
    second = float(rates.paper_bound((3.0, 1.0), 0.1, 100, 1024, (1.0, 2.0, 0.5)))
    first = float(rates.paper_bound((3.0, 1.0), 0.1, 100, 1024, (1.0, 2.0, math.inf)))
    common = 0.8 + 0.5 + 4 * math.sqrt(2) * (math.sqrt(3) + 1) / 320 + 8 / 102_400
    assert second == pytest.approx(common + 16 * 0.5 / 1024)
    assert first == pytest.approx(common + 16 * math.sqrt(2) * 2 / 32)


# ------------------------------------------------------------------------------------------------------ table of rates


@pytest.mark.parametrize(
    ("result", "rate"),
    [
        ("bilinear", 0.13816),
        ("second_order", 0.20525),
        ("first_order", 0.26725),
        ("bias_reduced", 0.26635),
        ("anytime_second_order", 0.26635),
        ("anytime_first_order", 0.26689),
        ("lower_bound", 0.13816),
    ],
)
def test_rates_of_the_paper(result: str, rate: float) -> None:
    row = settings()[result]
    assert row.private_rate == pytest.approx(rate, abs=6e-6)
    assert row.statistical_rate == pytest.approx(0.13816 if result == "bias_reduced" else 0.03717, abs=6e-6)
    assert row.rate == row.statistical_rate + row.private_rate


def test_parameters_of_the_paper() -> None:
    rows = settings()
    shape = {name: (rows[name].rounds, rows[name].draws) for name in ("bilinear", "second_order", "first_order")}
    assert shape == {"bilinear": (724, 1), "second_order": (328, 5), "first_order": (193, 14)}
    for row in rows.values():
        if row.batch is not None and row.result != "bias_reduced":
            assert row.rounds is not None and row.rounds * row.batch <= REFERENCE.n
    reduced = rows["bias_reduced"]
    assert reduced.stop is not None and reduced.batch is not None and reduced.level is not None
    assert reduced.stop * reduced.batch <= REFERENCE.n
    assert 2**reduced.level <= math.sqrt(reduced.stop) < 2 ** (reduced.level + 1)


def test_rows_need_their_smoothness() -> None:
    every = set(settings())
    rough = rates.Sizes(10_000, 1000, 1000, 1.0, DELTA, curvature=math.inf)
    assert set(settings(rough)) == {"first_order", "anytime_first_order", "lower_bound"}
    curved = rates.Sizes(10_000, 1000, 1000, 1.0, DELTA, curvature=0.3)
    assert set(settings(curved)) == every - {"bilinear"}


def test_small_problems_have_settings_too() -> None:
    for row in rates.table_rows(rates.Sizes(5, 2, 1, 0.1, DELTA)):
        if row.result != "lower_bound":
            assert row.step_size is not None and 0 < row.step_size < math.inf
            assert row.rounds is not None and row.batch is not None and row.batch >= 1


def test_the_setting_of_synthetic_data() -> None:
    row = rates.synthetic_setting(10_000, 480, 127, 1.0, DELTA)
    assert row.rounds == round(10_000 * math.sqrt(math.log(480) / ODDS) / math.log(127))
    # Regret of the queries' player balances with the error of the rows' player at the cap.
    assert row.private_rate == pytest.approx((math.log(480) * ODDS) ** 0.25 * math.sqrt(math.log(127)) / 100)
    assert row.step_size is not None and row.step_size < math.sqrt(math.log(254) / row.rounds)


# ------------------------------------------------------------------------------------------------------ what was before


def test_the_rates_that_were_known_before() -> None:
    """At the reference size by hand: √(2000/10⁴) + 2000 √Λ/10⁴ in ℓ₂, and multiplicative weights for queries."""
    before = {row.result: rates.previous_rate(REFERENCE, row.result) for row in rates.table_rows(REFERENCE)}
    assert before.pop("lower_bound") is None
    euclidean = before["bilinear"]
    assert euclidean is not None and euclidean.rate == pytest.approx(0.44721 + 0.74339, abs=2e-5)
    assert before["second_order"] == before["bias_reduced"] == euclidean and "Boob" in euclidean.source
    games = rates.previous_rate(rates.Sizes(10_000, 1000, 1000, 1.0, DELTA, bilinear=True), "bilinear")
    assert games is not None and games.rate == pytest.approx(0.02628 + 3.12559 * 0.02628, abs=2e-5)


@pytest.mark.parametrize(("d", "smaller"), [(100, "descent"), (10**6, "frank-wolfe")])
def test_minimisation_had_two_rates_before_and_the_smaller_one_counts(d: int, smaller: str) -> None:
    sizes = rates.Sizes(10_000, d, 1, 1.0, DELTA)
    found = rates.previous_rate(sizes, "anytime_second_order")
    assert found == rates.previous_rate(sizes, "bilinear") and found is not None
    rate = {"descent": math.sqrt(d * ODDS) / 10_000, "frank-wolfe": (math.log(d) * math.sqrt(ODDS) / 10_000) ** (2 / 3)}
    assert found.rate == pytest.approx(math.sqrt(math.log(d) / 10_000) + rate[smaller])
    assert rate[smaller] == min(rate.values())
