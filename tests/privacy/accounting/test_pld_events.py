"""Privacy loss distributions of every kind of event: Poisson batches in both directions, selections, black boxes."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant, privacy_loss_distribution
from dp_accounting.privacy_accountant import NeighboringRelation
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.errors import UserError
from dpviz.privacy.accounting import closed_forms, per_event, pld
from dpviz.privacy.events import (
    Event,
    ExpMech,
    Gaussian,
    Laplace,
    Parallel,
    Repeat,
    Seq,
    StatedApproximateDP,
    StatedPureDP,
    StatedZCDP,
    Sub,
)

DELTA = 1e-6
steady = settings(derandomize=True, deadline=None, max_examples=25)


def poisson(m: int, n: int, inner: Event) -> Sub:
    return Sub("poisson", m, n, inner)


def on_a_fine_grid(events, delta: float = DELTA) -> float:
    """What `pld.epsilon_at` gives when its grid is several times finer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pld, "CELLS_PER_DEVIATION", 4 * pld.CELLS_PER_DEVIATION)
        patch.setattr(pld, "CELLS_PER_DEVIATION_FEW", 8 * pld.CELLS_PER_DEVIATION_FEW)
        return pld.epsilon_at(events, delta)


# ---------------------------------------------------------------------------------------------------- Poisson sampling


def their_single(event: Sub, h: float) -> privacy_loss_distribution.PrivacyLossDistribution:
    q = event.m / event.n
    if isinstance(event.inner, Laplace):
        return privacy_loss_distribution.from_laplace_mechanism(
            1 / event.inner.eps, sampling_prob=q, value_discretization_interval=h
        )
    return privacy_loss_distribution.from_gaussian_mechanism(
        1 / event.inner.mu, sampling_prob=q, value_discretization_interval=h
    )


@pytest.mark.parametrize(
    ("event", "count", "expected"),
    [(poisson(1, 100, Gaussian(1.0)), 1000, 2.12452252595), (poisson(1, 10, Gaussian(0.5)), 100, 2.67503574014)],
    ids=["TV51", "TV52"],
)
def test_reference_values_of_poisson_batches(event, count, expected):
    assert -1e-4 <= pld.epsilon_at([(event, count)], DELTA) / expected - 1 <= 1e-3


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("inner", "m", "count"),
    [
        (Gaussian(1.0), 10, 1000),
        (Gaussian(0.5), 100, 100),
        (Gaussian(2.0), 500, 40),
        (Laplace(1.0), 100, 100),
        (Laplace(3.0), 20, 300),
        (Laplace(0.3), 900, 50),
    ],
    ids=str,
)
def test_each_direction_agrees_with_dp_accounting(inner, m, count):
    event = poisson(m, 1000, inner)
    theirs = their_single(event, 5e-4).self_compose(count)
    remove, add = pld.compose([(event, count)], DELTA)
    # Which data set is the null decides; the worse direction is what is reported.
    for ours, other in ((remove, theirs._pmf_remove), (add, theirs._pmf_add)):
        assert -5e-4 <= ours.epsilon(DELTA) / other.get_epsilon_for_delta(DELTA) - 1 <= 2e-3
    reported = pld.epsilon_at([(event, count)], DELTA)
    assert reported == max(remove.epsilon(DELTA), add.epsilon(DELTA))
    assert -5e-4 <= reported / theirs.get_epsilon_for_delta(DELTA) - 1 <= 2e-3


def random_plans() -> list[tuple[list[tuple[Event, int]], float]]:
    """Poisson batches, some with events on all rows beside them."""
    rng = np.random.default_rng(20)
    plans: list[tuple[list[tuple[Event, int]], float]] = []
    for i in range(12):
        inner = [Laplace, Gaussian][i % 2](float(10 ** rng.uniform(-0.6, 0.5)))
        events: list[tuple[Event, int]] = [
            (poisson(int(rng.integers(20, 900)), 1000, inner), int(rng.integers(20, 300)))
        ]
        if i % 3 == 0:
            events.append((Gaussian(float(rng.uniform(0.05, 0.5))), int(rng.integers(1, 30))))
        if i % 4 == 0:
            events.append((Laplace(float(rng.uniform(0.05, 0.3))), int(rng.integers(1, 30))))
        plans.append((events, float(10 ** rng.uniform(-8, -4))))
    return plans


def as_dp_event(event: Event) -> dp_event.DpEvent:
    """In the independent library, whose arguments must be floats: an int makes it count an event once only."""
    if isinstance(event, Sub):
        return dp_event.PoissonSampledDpEvent(event.m / event.n, as_dp_event(event.inner))
    if isinstance(event, Laplace):
        return dp_event.LaplaceDpEvent(1.0 / event.eps)
    assert isinstance(event, Gaussian)
    return dp_event.GaussianDpEvent(1.0 / event.mu)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("plan", random_plans(), ids=lambda plan: f"{len(plan[0])} kinds, {plan[1]:.0e}")
def test_random_plans_agree_with_dp_accounting(plan):
    events, delta = plan
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-3)
    for event, count in events:
        theirs.compose(as_dp_event(event), count)
    ours = pld.epsilon_at(events, delta)
    assert ours / theirs.get_epsilon(delta) - 1 == pytest.approx(0, abs=2e-3)
    assert pld.epsilon_at(events[::-1], delta) == pytest.approx(ours, rel=1e-9)


@pytest.mark.parametrize(
    ("inner", "q", "count"),
    [(Gaussian(1.0), 1e-2, 1000), (Gaussian(0.5), 0.1, 100), (Laplace(1.0), 0.1, 100), (Laplace(1.0), 1e-2, 1000)],
)
def test_batches_of_fixed_size_cost_more_than_poisson_batches(inner, q, count):
    m = round(1000 * q)
    fixed = pld.epsilon_at([(Sub("wor", m, 1000, inner), count)], DELTA)
    assert fixed >= 1.07 * pld.epsilon_at([(poisson(m, 1000, inner), count)], DELTA)


@pytest.mark.parametrize("inner", [Laplace(0.2), Gaussian(0.2), ExpMech(0.4), StatedPureDP(0.2)], ids=str)
@pytest.mark.parametrize("kind", ["wor", "poisson"])
def test_a_batch_of_almost_everything_is_everything(inner, kind):
    for count, tolerance in ((1, 1e-6), (50, 1e-3)):
        whole = pld.epsilon_at([(inner, count)], DELTA)
        found = pld.epsilon_at([(Sub(kind, 10**8 - 1, 10**8, inner), count)], DELTA)
        assert found == pytest.approx(whole, rel=tolerance)


@pytest.mark.parametrize("q", [1e-3, 1e-4])
def test_rare_poisson_batches_are_not_drowned_in_round_off(q):
    for inner in (Gaussian(1.0), Laplace(0.5)):
        events = [(poisson(1, round(1 / q), inner), 10_000)]
        assert -1e-4 <= pld.epsilon_at(events, DELTA) / on_a_fine_grid(events) - 1 <= 2e-3


# ----------------------------------------------------------------------------------------------------- single releases

KINDS: list[Event] = [
    ExpMech(1.0),
    ExpMech(0.05),
    StatedPureDP(1.0),
    StatedPureDP(0.05),
    StatedApproximateDP(0.5, 1e-9),
    Parallel((ExpMech(1.0), Laplace(0.8))),
    poisson(1, 10, Parallel((StatedPureDP(0.3), Laplace(0.8)))),
    Sub("wor", 1, 10, ExpMech(1.0)),
    Sub("wor", 1, 10, StatedPureDP(2.0)),
    Sub("wor", 1, 10, StatedApproximateDP(0.5, 1e-9)),
    poisson(1, 10, Laplace(1.0)),
    poisson(1, 10, Gaussian(1.0)),
    poisson(1, 10, ExpMech(1.0)),
    poisson(1, 10, StatedPureDP(2.0)),
    poisson(1, 10, StatedApproximateDP(0.5, 1e-9)),
]


@pytest.mark.parametrize("event", KINDS, ids=str)
def test_discretised_events_dominate_theirs_in_both_directions(event):
    profiles, highest = per_event.directions(event), pld.largest_losses(event, 1e-12)
    for cells in (7, 100, 1001):
        found = pld.from_profiles(profiles, highest, max(highest) / cells)  # type: ignore[attr-defined]
        for grid, profile in zip(found, profiles, strict=True):
            assert grid.p.min() >= 0
            assert grid.p.sum() + grid.inf == pytest.approx(1, abs=1e-9)
            epsilon = np.linspace(-1.1, 1.1, 301) * max(highest)
            assert (grid.delta(epsilon) >= profile(epsilon) - 1e-11).all()
            if cells == 1001:
                assert grid.delta(epsilon) == pytest.approx(profile(epsilon), abs=2e-2 * float(profile(0.0)))


@pytest.mark.parametrize("event", KINDS, ids=str)
def test_one_event_is_read_from_its_closed_profile(event):
    for delta in (1e-3, 1e-5):
        epsilon = pld.epsilon_at([(event, 1)], delta)
        assert per_event.profile(event)(epsilon) == pytest.approx(delta, rel=1e-6)
        assert pld.curve([(event, 5)], [1], delta)[0] == pytest.approx(epsilon, rel=1e-12)
        composed = max(side.epsilon(delta) for side in pld.compose([(event, 1)], delta))
        assert 1 - 1e-9 <= composed / epsilon <= 1.004  # a fraction of a cell


def test_one_selection_and_one_pure_release():
    assert pld.epsilon_at([(ExpMech(1.0), 1)], DELTA) == pytest.approx(0.998409, abs=5e-7)
    exact = closed_forms.pure_epsilon(1.0, DELTA)
    assert pld.epsilon_at([(StatedPureDP(1.0), 1)], DELTA) == pytest.approx(exact, rel=1e-12)
    assert pld.epsilon_at([(StatedApproximateDP(1.0, 1e-5), 1)], DELTA) == math.inf
    assert pld.epsilon_at([(StatedApproximateDP(1.0, 1e-7), 1)], DELTA) == pytest.approx(1 - 1.23e-6, abs=1e-8)


@pytest.mark.parametrize("event", KINDS, ids=str)
@pytest.mark.parametrize("count", [2, 3, 7, 20, 100])
def test_few_and_many_events_are_close_to_a_very_fine_grid(event, count):
    found = pld.epsilon_at([(event, count)], DELTA)
    # Of blocks with different ranges, one end may lie between grid points.
    tolerance = 4e-3 if isinstance(event, Parallel) else 2.5e-3
    assert -1e-9 <= found / on_a_fine_grid([(event, count)]) - 1 <= tolerance
    assert found <= count * per_event.pure(event)


@pytest.mark.parametrize(("epsilon", "count", "optimal"), [(0.1, 100, 4.77456758811), (0.5, 10, 4.99988547111)])
def test_pure_releases_cost_what_optimal_composition_says(epsilon, count, optimal):
    """TV35, TV36: randomised response is the worst of all ε-DP algorithms (Kairouz, Oh, Viswanath 2015)."""
    assert -1e-9 <= pld.epsilon_at([(StatedPureDP(epsilon), count)], DELTA) / optimal - 1 <= 2e-3


def test_many_selections_are_cheaper_than_as_many_pure_releases():
    selections = pld.epsilon_at([(ExpMech(0.1), 100)], DELTA)
    assert -1e-4 <= selections / 2.6118 - 1 <= 2e-3
    assert selections < pld.epsilon_at([(Laplace(0.1), 100)], DELTA) < pld.epsilon_at([(StatedPureDP(0.1), 100)], DELTA)


def worst_case(epsilon: float, delta: float, count: int, total: float) -> float:
    """ε at δ = total of `count` releases that fail openly with probability delta and are randomised response otherwise,
    by enumeration of all outcomes."""
    yes = 1 / (1 + math.exp(-epsilon))

    def excess(loss_bound: float) -> float:
        certain = (1 - delta) ** count
        sums = [
            (math.comb(count, k) * yes**k * (1 - yes) ** (count - k), (2 * k - count) * epsilon)
            for k in range(count + 1)
        ]
        return 1 - certain + certain * sum(p * -math.expm1(min(loss_bound - loss, 0.0)) for p, loss in sums)

    low, high = 0.0, count * epsilon
    if excess(high) > total:
        return math.inf
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > total else (low, middle)
    return high


@pytest.mark.parametrize("count", [1, 2, 3, 6, 12])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-8), (1.0, 1e-4), (0.1, 1e-3)])
def test_approximate_releases_against_enumeration(epsilon, delta, count):
    for total in (1.5 * count * delta, 0.01, 0.9 * count * delta):
        exact = worst_case(epsilon, delta, count, total)
        found = pld.epsilon_at([(StatedApproximateDP(epsilon, delta), count)], total)
        assert found == exact == math.inf or -1e-9 <= found - exact <= 2e-3 * exact + 1e-9


def test_approximate_releases_many_times():
    found = pld.epsilon_at([(StatedApproximateDP(0.1, 1e-8), 100)], 1e-5)
    assert -1e-6 <= found / 4.32964 - 1 <= 2e-3
    assert pld.epsilon_at([(StatedApproximateDP(0.1, 1e-8), 100)], 1e-7) == math.inf
    (composed,) = pld.compose([(StatedApproximateDP(0.1, 1e-8), 100), (Gaussian(0.1), 20)], 1e-5)
    assert composed.inf == pytest.approx(1e-6, rel=0.02)


# ----------------------------------------------------------------------------------------------------------- histories


def test_sequences_repetitions_and_blocks():
    def cost(*events: Event) -> float:
        return pld.epsilon_at([(event, 20) for event in events], DELTA)

    batch = poisson(1, 10, Laplace(0.4))
    assert cost(Repeat(Seq((batch, Repeat(StatedPureDP(0.1), 2))), 4)) == cost(
        *[batch, StatedPureDP(0.1), StatedPureDP(0.1)] * 4
    )
    assert cost(Seq((Gaussian(0.1), ExpMech(0.2)))) == cost(Gaussian(0.1), ExpMech(0.2))
    assert cost(Parallel((ExpMech(0.1), ExpMech(0.2)))) == cost(ExpMech(0.2))
    assert cost(poisson(1, 9, Seq((Gaussian(0.3), Gaussian(0.4))))) == cost(poisson(1, 9, Gaussian(0.5)))
    blocks = cost(Parallel((Laplace(0.5), Gaussian(0.3), ExpMech(0.4))))
    assert max(cost(Laplace(0.5)), cost(Gaussian(0.3))) <= blocks <= cost(Gaussian(per_event.mu(Laplace(0.5))))


def test_the_mixed_example():
    """10 Gaussian, 20 Laplace, 50 selections, 1 pure release: 7.1315 on a fine grid."""
    events = [(Gaussian(0.3), 10), (Laplace(0.2), 20), (ExpMech(0.1), 50), (StatedPureDP(0.5), 1)]
    assert on_a_fine_grid(events) == pytest.approx(7.1315, abs=5e-4)
    assert -1e-4 <= pld.epsilon_at(events, DELTA) / 7.1315 - 1 <= 2e-3


CURVES = [
    (ExpMech(0.2), 1e-6),
    (StatedPureDP(0.1), 1e-6),
    (StatedApproximateDP(0.1, 1e-10), 1e-6),
    (poisson(1, 10, Laplace(1.0)), 1e-5),
    (poisson(1, 50, Gaussian(1.0)), 1e-3),  # whose range, and so the grid, depends a little on the largest checkpoint
]


@pytest.mark.parametrize(("event", "tolerance"), CURVES, ids=str)
def test_a_curve_is_direct_composition_at_every_checkpoint(event, tolerance):
    checkpoints = np.array([0, 1, 2, 3, 19, 20, 21, 100, 399, 400])
    found = pld.curve([(event, 150), (event, 250)], checkpoints, DELTA)
    direct = [pld.epsilon_at([(event, int(t))], DELTA) for t in checkpoints]
    assert found == pytest.approx(direct, rel=tolerance)


def test_a_curve_ends_where_failures_exceed_delta():
    event = StatedApproximateDP(0.1, 3e-8)
    found = pld.curve([(event, 50)], [0, 1, 10, 30, 40, 50], DELTA)
    assert (np.diff(found[:4]) > 0).all() and (found[4:] == math.inf).all()


def test_a_curve_over_poisson_batches_and_all_rows_is_direct_composition():
    groups = [(Laplace(0.3), 2), (poisson(1, 20, Gaussian(1.0)), 60), (ExpMech(0.2), 30)]
    found = pld.curve(groups, [2, 62, 92], DELTA)
    direct = [pld.epsilon_at(groups[:k], DELTA) for k in (1, 2, 3)]
    assert found == pytest.approx(direct, rel=2e-3)


def test_directions_are_not_merged_step_by_step():
    """An unsampled event is its own reverse, so one beside many Poisson batches leaves each direction near its own."""
    batch = poisson(1, 10, Laplace(1.0))
    alone = [side.epsilon(DELTA) for side in pld.compose([(batch, 100)], DELTA)]
    both = [side.epsilon(DELTA) for side in pld.compose([(batch, 100), (Laplace(1e-4), 1)], DELTA)]
    assert both == pytest.approx(alone, rel=2e-3) and alone[0] > 1.02 * alone[1]


sizes = st.floats(-2, 0.3).map(lambda x: float(10**x))
singles = st.builds(lambda kind, size: kind(size), st.sampled_from([Laplace, Gaussian, ExpMech, StatedPureDP]), sizes)
batches = st.builds(lambda m, inner: poisson(m, 100, inner), st.integers(1, 99), singles)
histories = st.lists(st.tuples(singles | batches, st.integers(1, 60)), min_size=1, max_size=4)


@steady
@given(history=histories, shuffled=st.randoms(use_true_random=False))
def test_the_order_of_events_does_not_matter(history, shuffled):
    other = list(history)
    shuffled.shuffle(other)
    assert pld.epsilon_at(other, DELTA) == pytest.approx(pld.epsilon_at(history, DELTA), rel=1e-9, abs=1e-12)


@steady
@given(history=histories, less_noise=st.floats(1.05, 4))
def test_more_noise_never_costs_more(history, less_noise):
    def louder(event: Event) -> Event:
        if isinstance(event, Sub):
            return Sub(event.kind, event.m, event.n, louder(event.inner))
        return type(event)(less_noise * getattr(event, event.__match_args__[0]))  # type: ignore[call-arg]

    quiet = pld.epsilon_at(history, DELTA)
    assert quiet <= pld.epsilon_at([(louder(event), count) for event, count in history], DELTA) * 1.002 + 1e-9
    assert quiet <= pld.epsilon_at([*history, (StatedPureDP(0.1), 1)], DELTA) * 1.002 + 1e-9
    assert pld.epsilon_at(history, 10 * DELTA) <= quiet * 1.002 + 1e-9


@pytest.mark.parametrize("number", [np.float32, np.float64, int])
def test_kinds_of_numbers_make_no_difference(number):
    def history(one) -> list[tuple[Event, int]]:
        return [(kind(one), 4) for kind in (Laplace, Gaussian, ExpMech, StatedPureDP)] + [
            (poisson(1, 9, Gaussian(one)), 30)
        ]

    assert pld.epsilon_at(history(number(1)), DELTA) == pld.epsilon_at(history(1.0), DELTA)


# -------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "event", [ExpMech(math.inf), StatedPureDP(math.inf), poisson(1, 10, Gaussian(math.inf))], ids=str
)
def test_a_release_without_noise_costs_infinity(event):
    assert pld.epsilon_at([(event, 1)], DELTA) == pld.epsilon_at([(Laplace(0.1), 3), (event, 2)], DELTA) == math.inf
    found = pld.curve([(Laplace(0.1), 5), (event, 1)], [1, 6], DELTA)
    assert found[0] < 0.1 and found[1] == math.inf


@pytest.mark.parametrize("event", [ExpMech(700.0), StatedPureDP(601.0), poisson(1, 10, Laplace(700.0))], ids=str)
def test_very_little_noise_is_left_to_other_accountants(event):
    with pytest.raises(pld.AccountingLimit, match="losses up to"):
        pld.epsilon_at([(event, 2)], DELTA)
    assert pld.epsilon_at([(event, 1)], DELTA) == pytest.approx(per_event.pure(event), rel=1e-4)


@pytest.mark.parametrize(
    "event", [StatedZCDP(0.1), Repeat(StatedZCDP(0.1), 3), Seq((StatedZCDP(0.1), Laplace(0.1)))], ids=str
)
def test_a_bare_rho_is_left_to_other_accountants(event):
    for events in ([(event, 1)], [(event, 5)], [(Laplace(0.1), 3), (event, 1)]):
        with pytest.raises(pld.AccountingLimit, match="no privacy loss distribution"):
            pld.epsilon_at(events, DELTA)


def test_different_kinds_of_batches_do_not_add_up():
    both: list[tuple[Event, int]] = [(poisson(1, 10, Laplace(1.0)), 2), (Sub("wor", 1, 10, Laplace(1.0)), 2)]
    for call in (lambda: pld.epsilon_at(both, DELTA), lambda: pld.curve(both, [1], DELTA)):
        with pytest.raises(UserError, match="Poisson"):
            call()


def test_events_that_cost_next_to_nothing_or_fail_almost_always():
    assert pld.epsilon_at([(StatedApproximateDP(0.0, 1e-8), 30)], DELTA) == 0.0
    assert pld.epsilon_at([(Laplace(1e-200), 30), (StatedPureDP(1e-250), 2)], DELTA) == 0.0
    assert pld.epsilon_at([(StatedApproximateDP(1.0, 1 - 1e-16), 2)], DELTA) == math.inf
    assert pld.epsilon_at([(poisson(1, 10**6, StatedPureDP(1e-12)), 30)], DELTA) == 0.0
