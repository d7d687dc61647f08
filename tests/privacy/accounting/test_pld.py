"""Privacy loss distributions against exact formulas, quadrature, reference values and an independent library.

Reference values come from fine grids of two implementations that agree to 1e-8. An upper bound on a grid of this
coarseness lies up to 0.2 % above them and, because of their own rounding, at most 0.01 % below.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.integrate import quad

from dpviz.privacy.accounting import pld
from dpviz.privacy.accounting.closed_forms import gdp_epsilon
from dpviz.privacy.accounting.per_event import mu, profile
from dpviz.privacy.accounting.rounding import rounded_up
from dpviz.privacy.events import Event, Gaussian, Laplace, Seq, Sub
from tests.pairs import all_pairs


def sampled(m: int, n: int, inner: Event) -> Sub:
    return Sub("wor", m, n, inner)


HOMOGENEOUS = [
    (sampled(1, 10, Laplace(1.0)), 100, 1e-6, 5.23516671491),
    (sampled(1, 100, Laplace(1.0)), 1000, 1e-6, 1.53029221303),
    (sampled(1, 100, Gaussian(1.0)), 1000, 1e-6, 2.51286821488),
    (sampled(1, 10, Gaussian(0.5)), 100, 1e-6, 2.88384441549),
    (Laplace(0.1), 100, 1e-6, 4.69266743745),
    (Laplace(0.01), 1000, 1e-6, 1.36292456725),
]


def on_a_fine_grid(events, delta: float = 1e-6) -> float:
    """What `pld.epsilon_at` gives when its grid is several times finer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pld, "CELLS_PER_DEVIATION", 4 * pld.CELLS_PER_DEVIATION)
        patch.setattr(pld, "CELLS_PER_DEVIATION_FEW", 8 * pld.CELLS_PER_DEVIATION_FEW)
        return pld.epsilon_at(events, delta)


@pytest.mark.parametrize(("event", "count", "delta", "expected"), HOMOGENEOUS)
def test_reference_values(event, count, delta, expected):
    assert -1e-4 <= pld.epsilon_at([(event, count)], delta) / expected - 1 <= 2e-3


@pytest.mark.parametrize(
    ("epsilon", "count", "at_1e5", "at_1e6"),
    [(1, 100, 0.3367, 0.3913), (1, 1000, 0.0969, 0.1158), (2, 100, 0.7146, 0.8194), (4, 100, 1.5226, 1.7237)],
)
def test_what_laplace_steps_really_cost(epsilon, count, at_1e5, at_1e6):
    step = Laplace(epsilon / count)
    for delta, expected in ((1e-5, at_1e5), (1e-6, at_1e6)):
        # The table has four decimals: half a unit of the smallest value is 5e-4 of it.
        assert -5e-4 <= pld.epsilon_at([(step, count)], delta) / expected - 1 <= 2e-3


@all_pairs
@pytest.mark.parametrize("mu", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("count", [2, 19, 20, 100, 10_000])
@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-9])
def test_gaussian_steps_compose_as_the_formula_says(mu, count, delta):
    exact = gdp_epsilon(mu * math.sqrt(count), delta)
    assert 1.0 <= pld.epsilon_at([(Gaussian(mu), count)], delta) / exact <= 1.002


def test_different_gaussian_steps_compose_as_the_formula_says():
    events = [(Gaussian(0.1), 50), (Gaussian(0.3), 20), (sampled(9, 10, Gaussian(1e-5)), 3), (Gaussian(1.0), 1)]
    exact = gdp_epsilon(math.sqrt(50 * 0.01 + 20 * 0.09 + 1.0), 1e-6)
    assert 1.0 <= pld.epsilon_at(events, 1e-6) / exact <= 1.002


LAPLACE = [(Laplace(0.1), 100, 1e-6), (Laplace(0.5), 10, 1e-5), (Laplace(2.0), 30, 1e-8)]
GAUSSIAN = [(Gaussian(0.3), 50, 1e-6), (Gaussian(1.0), 4, 1e-5)]


@pytest.mark.parametrize(("event", "count", "delta"), LAPLACE + GAUSSIAN)
def test_agrees_with_dp_accounting(event, count, delta):
    if isinstance(event, Laplace):
        single = privacy_loss_distribution.from_laplace_mechanism(1 / event.eps, value_discretization_interval=2e-4)
    else:
        single = privacy_loss_distribution.from_gaussian_mechanism(1 / event.mu, value_discretization_interval=1e-3)
    theirs = single.self_compose(count).get_epsilon_for_delta(delta)
    assert -1e-4 <= pld.epsilon_at([(event, count)], delta) / theirs - 1 <= 2e-3


def laplace_then(first: Laplace, second: Event, epsilon: float) -> float:
    """δ(ε) of a Laplace event and another one, by quadrature over the loss of the Laplace event: two atoms and a
    density between them."""
    after = profile(second)
    size = first.eps
    inside = quad(
        lambda loss: 0.25 * math.exp((loss - size) / 2) * float(after(epsilon - loss)),
        -size,
        size,
        points=sorted({min(max(epsilon + shift, -size), size) for shift in (-0.8, 0.0, 0.8)}),
        epsabs=1e-13,
        limit=200,
    )[0]
    atoms = 0.5 * float(after(epsilon - size)) + 0.5 * math.exp(-size) * float(after(epsilon + size))
    return atoms + inside


@pytest.mark.parametrize("second", [Laplace(0.8), Laplace(0.3), Gaussian(0.7), sampled(1, 5, Laplace(1.5))])
@pytest.mark.parametrize("epsilon", [-0.7, 0.0, 0.4, 1.0])
def test_two_different_events_against_quadrature(second, epsilon):
    first = Laplace(0.5)
    exact = laplace_then(first, second, epsilon)
    (both,) = pld.compose([(first, 1), (second, 1)], 1e-6)
    composed = both.delta(epsilon)
    assert exact - 1e-9 <= composed <= exact + 1e-3


def test_sampling_without_replacement_costs_more_than_poisson_accounting_says():
    poisson = [4.66220, 1.28642, 2.12452, 2.67504]  # the larger of "remove" and "add", both checked with dp_accounting
    for (event, count, delta, _), value in zip(HOMOGENEOUS, poisson, strict=False):
        assert pld.epsilon_at([(event, count)], delta) >= 1.07 * value


@pytest.mark.parametrize(("event", "count", "optimal"), [(Laplace(0.1), 100, 4.77457), (Laplace(0.01), 1000, 1.36543)])
def test_laplace_noise_is_better_than_any_pure_algorithm_need_be(event, count, optimal):
    """Optimal composition of arbitrary ε-DP algorithms (Kairouz, Oh, Viswanath 2015) is an upper bound."""
    assert pld.epsilon_at([(event, count)], 1e-6) <= optimal


SINGLE = [Laplace(1.0), Laplace(0.05), Gaussian(0.3), sampled(1, 10, Laplace(1.0)), sampled(1, 100, Gaussian(1.0))]


@pytest.mark.parametrize("event", [*SINGLE, sampled(1, 10_000, Gaussian(0.01)), Gaussian(20.0), Laplace(300.0)])
def test_a_discretised_event_dominates_it(event):
    (high,) = pld.largest_losses(event, 1e-12)
    for cells in (7, 100, 1001):
        (grid,) = pld.from_profiles([profile(event)], [high], high / cells)  # type: ignore[attr-defined]
        assert grid.p.min() >= 0
        assert grid.p.sum() + grid.inf == pytest.approx(1, abs=1e-9)
        epsilon = np.linspace(-1.1, 1.1, 301) * high
        exact = profile(event)(epsilon)
        assert (grid.delta(epsilon) >= exact - 1e-12).all()
        if cells == 1001:
            assert grid.delta(epsilon) == pytest.approx(exact, abs=2e-2 * float(profile(event)(0.0)))


def test_delta_and_epsilon_of_a_distribution_by_hand():
    distribution = pld.PLD(0.5, -1, np.array([0.2, 0.3, 0.1, 0.3]), 0.1)  # type: ignore[attr-defined]
    assert distribution.losses == pytest.approx([-0.5, 0.0, 0.5, 1.0])

    def by_hand(epsilon: float) -> float:
        masses = zip(distribution.losses, distribution.p, strict=True)
        return 0.1 + sum(p * (1 - math.exp(epsilon - loss)) for loss, p in masses if loss > epsilon)

    for epsilon in (-3.0, -0.5, -0.2, 0.0, 0.3, 0.5, 0.99, 1.0, 7.0):
        assert distribution.delta(epsilon) == pytest.approx(by_hand(epsilon), abs=1e-15)
    assert distribution.delta([[-math.inf, math.inf]]) == pytest.approx(np.array([[1.0, 0.1]]))
    for delta in (0.11, 0.15, 0.2, 0.25):
        assert by_hand(distribution.epsilon(delta)) == pytest.approx(delta)
    assert distribution.epsilon(0.9) == 0.0
    assert distribution.epsilon(0.05) == math.inf
    assert distribution.epsilon(0.1) == pytest.approx(1.0)


def test_losses_beyond_the_range_of_exp():
    distribution = pld.PLD(10.0, -300, np.full(601, 1 / 601), 0.0)  # type: ignore[attr-defined]
    assert distribution.epsilon(1e-3) == pytest.approx(3000.0 + math.log(1 - 601e-3), abs=1e-9)
    assert distribution.delta(2999.0) == pytest.approx(-math.expm1(-1) / 601)


@pytest.mark.parametrize("event", SINGLE)
def test_one_event_is_read_from_its_closed_profile(event):
    for delta in (1e-3, 1e-6, 1e-20):
        epsilon = pld.epsilon_at([(event, 1)], delta)
        assert profile(event)(epsilon) == pytest.approx(delta, rel=1e-9)
        assert pld.curve([(event, 5)], [1], max(delta, 1e-11))[0] == pytest.approx(
            pld.epsilon_at([(event, 1)], max(delta, 1e-11)), rel=1e-12
        )
    (distribution,) = pld.compose([(event, 1)], 1e-6)
    composed = distribution.epsilon(1e-6)
    assert 1 - 1e-9 <= composed / pld.epsilon_at({event: 1}, 1e-6) <= 1.002


def test_one_laplace_event():
    assert pld.epsilon_at([(Laplace(1.0), 1)], 1e-6) == pytest.approx(1 + 2 * math.log1p(-1e-6), rel=1e-12)
    assert pld.epsilon_at([(Laplace(1.0), 1)], 0.5) == 0.0
    assert pld.epsilon_at([], 1e-6) == 0.0


@pytest.mark.parametrize("event", SINGLE)
@pytest.mark.parametrize("count", [2, 3, 7, 20])
def test_few_events_are_close_to_a_very_fine_grid(event, count):
    found = pld.epsilon_at([(event, count)], 1e-6)
    assert -1e-9 <= found / on_a_fine_grid([(event, count)]) - 1 <= 2e-3
    if isinstance(event, Laplace):
        assert found <= count * event.eps


@pytest.mark.parametrize("q", [1e-3, 1e-4])
def test_rare_sampling_is_not_drowned_in_round_off(q):
    events = [(sampled(1, round(1 / q), Gaussian(1.0)), 10_000)]
    assert -1e-4 <= pld.epsilon_at(events, 1e-6) / on_a_fine_grid(events) - 1 <= 2e-3


def test_the_composed_profile_is_a_profile():
    (composed,) = pld.compose([(Laplace(0.2), 20), (Gaussian(0.3), 5), (sampled(1, 10, Gaussian(1.0)), 9)], 1e-6)
    epsilon = np.linspace(0.0, 3.0, 40)
    above, below = composed.delta(epsilon), composed.delta(-epsilon)
    assert below == pytest.approx(1 - np.exp(-epsilon) + np.exp(-epsilon) * above, abs=1e-7)
    assert (np.diff(above) < 0).all()
    assert composed.epsilon(float(composed.delta(1.7))) == pytest.approx(1.7, rel=1e-9)


MIXED: list[tuple[Event, int]] = [(Laplace(0.1), 30), (Gaussian(0.2), 12), (sampled(1, 20, Laplace(1.0)), 100)]


def test_equal_events_may_be_listed_apart():
    together = pld.epsilon_at({Laplace(0.1): 100}, 1e-6)
    assert pld.epsilon_at([(Laplace(0.1), 1)] * 100, 1e-6) == pytest.approx(together, rel=1e-12)
    assert pld.epsilon_at([(Laplace(0.1), 30), (Laplace(0.1), 70)], 1e-6) == pytest.approx(together, rel=1e-12)
    barely_different = pld.epsilon_at([(Laplace(0.1), 50), (Laplace(0.1 + 1e-9), 50)], 1e-6)
    assert barely_different == pytest.approx(together, rel=2e-3)


def test_the_order_of_events_does_not_matter():
    assert pld.epsilon_at(MIXED[::-1], 1e-6) == pytest.approx(pld.epsilon_at(MIXED, 1e-6), rel=1e-9)
    assert pld.epsilon_at(dict(MIXED), 1e-6) == pytest.approx(pld.epsilon_at(MIXED, 1e-6), rel=1e-12)


def test_mixed_events_are_close_to_a_fine_grid():
    few = [(Laplace(1.0), 1), (Gaussian(0.4), 2), (Laplace(0.05), 3)]
    one_large = [(Laplace(2.0), 1), (Laplace(0.002), 500)]
    one_tiny = [(Gaussian(1.0), 30), (Laplace(1e-7), 1)]
    for events, tolerance in ((MIXED, 2e-3), (few, 2e-3), (one_tiny, 2e-3), (one_large, 4e-3)):
        assert -1e-9 <= pld.epsilon_at(events, 1e-6) / on_a_fine_grid(events) - 1 <= tolerance


def test_more_events_more_noise_and_more_delta():
    by_count = [pld.epsilon_at([*MIXED, (Laplace(0.1), extra)], 1e-6) for extra in (0, 1, 5, 30)]
    by_noise = [pld.epsilon_at([(Laplace(eps), 50)], 1e-6) for eps in (0.001, 0.01, 0.02, 0.1, 1.0)]
    by_delta = [pld.epsilon_at(MIXED, delta) for delta in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)]
    assert all(a < b for values in (by_count, by_noise, by_delta) for a, b in pairwise(values))


# The range of unbounded losses, and so the grid, depends a little on the largest checkpoint.
CURVES = [
    (Laplace(0.05), 1e-6),
    (sampled(1, 10, Laplace(1.0)), 1e-6),
    (Gaussian(0.1), 1e-3),
    (sampled(1, 50, Gaussian(1.0)), 1e-3),
]


@pytest.mark.parametrize(("event", "tolerance"), CURVES)
def test_a_curve_is_direct_composition_at_every_checkpoint(event, tolerance):
    checkpoints = np.array([0, 1, 2, 3, 19, 20, 21, 100, 399, 400])
    found = pld.curve([(event, 150), (event, 250)], checkpoints, 1e-6)
    direct = [pld.epsilon_at([(event, int(t))], 1e-6) for t in checkpoints]
    assert found == pytest.approx(direct, rel=tolerance)
    shuffled = np.array([400, 3, 0, 3])
    assert pld.curve([(event, 400)], shuffled, 1e-6) == pytest.approx(found[[9, 3, 0, 3]], rel=tolerance)


T = np.arange(600)
SCHEDULES = {
    "growing": 1e-3 * 10 ** (T / 600),
    "falling": 1e-2 * 10 ** (-T / 600),
    "power": 0.1 * (1 + T) ** (-2 / 3),
    "random": np.random.default_rng(5).uniform(1e-3, 1e-2, 600),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_grouping_makes_a_curve_slightly_pessimistic(name):
    events = [Laplace(float(eps)) for eps in SCHEDULES[name]]
    checkpoints = np.array([1, 2, 10, 50, 200, 400, 600])
    found = pld.curve(rounded_up((event, 1) for event in events), checkpoints, 1e-6)
    exact = np.array([on_a_fine_grid([(event, 1) for event in events[:t]]) for t in checkpoints])
    assert (found >= exact * (1 - 1e-9)).all()
    assert (found <= exact * 1.02).all()


def test_a_curve_over_different_batches_is_direct_composition():
    groups: list[tuple[Event, int]] = [(Laplace(0.3), 2), (sampled(1, 20, Gaussian(1.0)), 60), (Gaussian(0.2), 30)]
    found = pld.curve(groups, [2, 62, 92], 1e-6)
    direct = [pld.epsilon_at(groups[:k], 1e-6) for k in (1, 2, 3)]
    assert found == pytest.approx(direct, rel=2e-3)


def test_checkpoints_beyond_the_last_event_are_refused():
    with pytest.raises(ValueError, match="between 0 and 5"):
        pld.curve([(Laplace(0.1), 5)], [6], 1e-6)


def test_gaussian_releases_on_one_batch_are_one_release():
    pair = Seq((Gaussian(0.3), Gaussian(0.4)))
    batch, single = sampled(1, 10, pair), sampled(1, 10, Gaussian(0.5))
    assert pld.epsilon_at([(pair, 30)], 1e-6) == pytest.approx(pld.epsilon_at([(Gaussian(0.5), 30)], 1e-6), rel=1e-3)
    assert pld.epsilon_at([(batch, 30)], 1e-6) == pytest.approx(pld.epsilon_at([(single, 30)], 1e-6), rel=1e-9)


def test_releases_on_one_batch_are_booked_as_one_that_dominates_them():
    for inner, single in (
        (Seq((Laplace(0.1), Laplace(0.2))), Laplace(0.1 + 0.2)),
        (Seq((Gaussian(0.3), Gaussian(0.4))), Gaussian(0.5)),
        (Seq((Laplace(0.3), Gaussian(0.4))), Gaussian(math.hypot(mu(Laplace(0.3)), 0.4))),
    ):
        found = pld.epsilon_at([(sampled(1, 10, inner), 30)], 1e-6)
        assert found == pytest.approx(pld.epsilon_at([(sampled(1, 10, single), 30)], 1e-6), rel=1e-9)
        # Outside a batch each is on its own.
        apart = [(part, 30) for part in inner.events]
        assert pld.epsilon_at([(inner, 30)], 1e-6) == pytest.approx(pld.epsilon_at(apart, 1e-6), rel=1e-9)


def test_other_number_types_give_the_same_result():
    assert pld.epsilon_at([(Gaussian(1), 10)], 1e-6) == pld.epsilon_at([(Gaussian(1.0), 10)], 1e-6)
    single = Gaussian(np.float32(0.5))  # type: ignore[arg-type]
    assert pld.epsilon_at([(single, np.int64(10))], 1e-6) == pld.epsilon_at([(Gaussian(0.5), 10)], 1e-6)


@pytest.mark.parametrize("event", [Laplace(math.inf), Gaussian(math.inf), sampled(1, 10, Gaussian(math.inf))])
def test_a_release_without_noise_costs_infinity(event):
    assert pld.epsilon_at([(event, 1)], 1e-6) == math.inf
    assert pld.epsilon_at([(Laplace(0.1), 5), (event, 2)], 1e-6) == math.inf
    found = pld.curve([(Laplace(0.1), 5), (event, 1), (Laplace(0.1), 4)], [0, 1, 5, 6, 10], 1e-6)
    assert found[[0, 1]] == pytest.approx([0.0, pld.epsilon_at([(Laplace(0.1), 1)], 1e-6)])
    assert 0 < found[2] < 0.5
    assert (found[3:] == math.inf).all()


def test_very_little_noise_is_left_to_other_accountants():
    assert pld.epsilon_at([(Laplace(700.0), 1)], 1e-6) == pytest.approx(700.0)
    assert pld.epsilon_at([(Gaussian(1e4), 1)], 1e-6) == pytest.approx(gdp_epsilon(1e4, 1e-6), rel=1e-9)
    assert pld.epsilon_at([(sampled(1, 10, Laplace(700.0)), 1)], 1e-6) == pytest.approx(700 - math.log(10), rel=1e-6)
    for event in (Laplace(700.0), Gaussian(1e4), sampled(1, 10, Laplace(700.0)), sampled(1, 10, Gaussian(40.0))):
        with pytest.raises(pld.AccountingLimit, match="losses up to"):
            pld.epsilon_at([(event, 2)], 1e-6)
    assert math.isfinite(pld.epsilon_at([(Laplace(500.0), 40)], 1e-6))


def test_noise_to_infinity_costs_nothing():
    assert pld.epsilon_at([(Laplace(1e-9), 100)], 1e-6) == 0.0
    assert pld.epsilon_at([(sampled(1, 10**6, Gaussian(1e-4)), 100)], 1e-6) == 0.0


def test_delta_below_the_resolution_is_left_to_other_accountants():
    assert math.isfinite(pld.epsilon_at([(Laplace(0.1), 100)], 1e-11))
    for delta, count in ((9e-12, 100), (1e-10, 20_000), (0.0, 100), (1.0, 100)):
        with pytest.raises(pld.AccountingLimit, match="delta"):
            pld.epsilon_at([(Laplace(0.1), count)], delta)
    with pytest.raises(ValueError, match="nothing"):
        pld.compose({}, 1e-6)


def test_a_window_that_would_fill_the_memory_is_refused():
    with pytest.raises(pld.AccountingLimit, match="cells"):
        pld.epsilon_at([(Gaussian(2.0), 100_000)], 1e-6)


def test_a_rare_large_loss_beside_tiny_ones_makes_the_grid_coarser():
    (composed,) = pld.compose([(Laplace(500.0), 1), (Laplace(1e-3), 10_000_000)], 1e-6)
    assert len(composed.p) < pld.LARGEST_WINDOW
    assert 500 <= composed.epsilon(1e-6) <= 600
