"""What single events cost: their profiles are profiles; sampled ones against their definition and brute force;
composite ones against the composition of their parts."""

import math

import numpy as np
import pytest

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

SINGLE: list[Event] = [
    Laplace(1.0),
    Laplace(0.02),
    Gaussian(0.7),
    Gaussian(4.0),
    ExpMech(1.0),
    ExpMech(0.01),
    StatedPureDP(1.0),
    StatedPureDP(6.0),
    StatedApproximateDP(0.5, 1e-3),
    StatedApproximateDP(0.0, 0.2),
]
COMPOSITE: list[Event] = [
    Seq((Laplace(0.3), Laplace(0.4))),
    Seq((Gaussian(0.3), ExpMech(0.4))),
    Repeat(StatedPureDP(0.3), 3),
    Parallel((Laplace(0.3), Laplace(0.4))),
    Parallel((Laplace(0.3), Gaussian(0.4))),
    Seq((StatedApproximateDP(0.2, 1e-4), Laplace(0.4))),
    Parallel((StatedApproximateDP(0.2, 1e-4), StatedApproximateDP(0.1, 1e-3), StatedPureDP(0.4))),
]
BATCHES: list[Event] = [Sub("wor", 1, 10, event) for event in (*SINGLE, *COMPOSITE)]
POISSON: list[Event] = [Sub("poisson", 1, 10, event) for event in (*SINGLE, *COMPOSITE)]
ALL = [*SINGLE, *COMPOSITE, *BATCHES, *POISSON]
EPSILON = np.linspace(-4, 4, 161)


@pytest.mark.parametrize("event", ALL, ids=str)
def test_every_direction_of_a_profile_is_one(event):
    """Convex in e^ε, 1 at e^ε = 0, decreasing, and at least what total variation allows."""
    for profile in per_event.directions(event):
        assert profile(-40.0) == pytest.approx(1.0, abs=1e-15) and profile(-math.inf) == 1.0
        ratio = np.linspace(0, 20, 4001)
        with np.errstate(divide="ignore"):
            delta = profile(np.log(ratio))
        assert np.diff(delta, 2).min() >= -1e-12 and np.diff(delta).max() <= 1e-15
        assert (delta >= np.maximum(0.0, 1 - ratio) - 1e-15).all() and delta.max() <= 1.0


@pytest.mark.parametrize("event", ALL, ids=str)
def test_directions_are_each_others_mirror_image(event):
    found = per_event.directions(event)
    assert len(found) == (2 if event in POISSON else 1)
    for one, other in zip(found, reversed(found), strict=True):
        expected = 1 - np.exp(-EPSILON) + np.exp(-EPSILON) * other(EPSILON)
        np.testing.assert_allclose(one(-EPSILON), expected, rtol=0, atol=2e-12 * math.exp(4))
    np.testing.assert_array_equal(per_event.profile(event)(EPSILON), np.max([one(EPSILON) for one in found], axis=0))


@pytest.mark.parametrize("inner", SINGLE, ids=str)
@pytest.mark.parametrize("m", [1, 40, 99])
def test_poisson_profiles_are_those_of_the_definition(inner, m):
    """H(qP + (1-q)Q ‖ Q) and H(Q ‖ qP + (1-q)Q), written out for all real ε; batches of fixed size have the worse."""
    q, within = m / 100, per_event.profile(inner)
    remove, add = per_event.directions(Sub("poisson", m, 100, inner))
    with np.errstate(invalid="ignore", divide="ignore"):
        a = np.exp(EPSILON)
        removed = np.where(a > 1 - q, q * within(np.log1p(np.maximum((a - 1) / q, -1 + 1e-15))), 1 - a)
        left = 1 - a * (1 - q)
        added = np.where(left > 0, left * within(np.log(a * q / np.where(left > 0, left, 1.0))), 0.0)
    np.testing.assert_allclose(remove(EPSILON), removed, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(add(EPSILON), added, rtol=1e-9, atol=1e-13)
    fixed_size = per_event.profile(Sub("wor", m, 100, inner))
    np.testing.assert_allclose(fixed_size(EPSILON), np.maximum(removed, added), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("inner", SINGLE, ids=str)
@pytest.mark.parametrize("kind", ["wor", "poisson"])
def test_a_batch_of_almost_everything_is_everything(inner, kind):
    for profile in per_event.directions(Sub(kind, 10**9 - 1, 10**9, inner)):
        np.testing.assert_allclose(profile(EPSILON), per_event.profile(inner)(EPSILON), rtol=1e-6, atol=1e-8)


def _outputs(records, inner, grid: np.ndarray) -> np.ndarray:
    """Density of the noisy sum over a batch of 2 of 5 records in [-1, 1], mixed over all ten batches."""
    batches = [records[i] + records[j] for i in range(5) for j in range(i)]
    if isinstance(inner, Laplace):  # a replaced record moves the sum by 2 at most
        scale = 2 / inner.eps
        return np.mean([np.exp(-np.abs(grid - at) / scale) / (2 * scale) for at in batches], axis=0)
    sigma = 2 / inner.mu
    return (
        np.mean([np.exp(-(((grid - at) / sigma) ** 2) / 2) for at in batches], axis=0) / sigma / math.sqrt(2 * math.pi)
    )


@pytest.mark.one_in(3)
@pytest.mark.parametrize("inner", [Laplace(1.0), Laplace(3.0), Gaussian(1.0), Gaussian(2.5)], ids=str)
def test_batches_without_replacement_by_brute_force(inner):
    rng = np.random.default_rng(8)
    profile = per_event.profile(Sub("wor", 2, 5, inner))
    grid = np.linspace(-30, 30, 30_001) * (2 / per_event.rho(inner) ** 0.5 if per_event.rho(inner) < 1 else 1)
    step = grid[1] - grid[0]
    all_low = np.full(5, -1.0)
    worst = {epsilon: 0.0 for epsilon in (0.05, 0.3, 0.8)}
    for trial in range(30):
        records = all_low if trial == 0 else rng.choice([-1.0, 1.0], 5) if trial < 15 else rng.uniform(-1, 1, 5)
        replaced = records.copy()
        replaced[0] = 1.0 if trial == 0 else rng.uniform(-1, 1)
        p, q = _outputs(records, inner, grid), _outputs(replaced, inner, grid)
        for epsilon in worst:
            for one, other in ((p, q), (q, p)):
                found = np.maximum(one - math.exp(epsilon) * other, 0).sum() * step
                assert found <= profile(epsilon) + 1e-6
                worst[epsilon] = max(worst[epsilon], found)
    for epsilon, found in worst.items():  # attained when all others are at one end
        assert found == pytest.approx(float(profile(epsilon)), abs=1e-5)


def test_adding_a_row_alone_would_not_cover_batches_without_replacement():
    remove, add = per_event.directions(Sub("poisson", 1, 10, Gaussian(1.0)))
    assert add(0.1) == pytest.approx(7.5e-6, rel=0.01) and remove(0.1) == pytest.approx(0.01847, rel=1e-3)
    assert per_event.profile(Sub("wor", 1, 10, Gaussian(1.0)))(0.1) == pytest.approx(float(remove(0.1)), rel=1e-12)


def test_rare_poisson_batches_keep_their_digits():
    """δ of adding a row, in 40 digits, at q = 1e-7 and ε = q/2: 1 - e^ε (1 - q) cancels all but nine of them."""
    q, epsilon = 1e-7, 5e-8
    _, add = per_event.directions(Sub("poisson", 1, 10**7, Laplace(1.0)))
    shift = -math.log1p(math.expm1(-epsilon) / q)
    exact = q * math.exp(epsilon) * (1 + math.expm1(-epsilon) / q) * -math.expm1((shift - 1) / 2)
    assert add(epsilon) == pytest.approx(exact, rel=1e-13)


# ----------------------------------------------------------------------------------------------------- other currencies


def test_single_events_in_every_currency():
    assert [
        per_event.pure(event)
        for event in (ExpMech(0.3), StatedPureDP(0.4), StatedZCDP(0.1), StatedApproximateDP(0.1, 1e-9))
    ] == [0.3, 0.4, math.inf, math.inf]
    assert per_event.rho(ExpMech(0.5)) == pytest.approx(0.0311420922612, rel=1e-9)
    assert per_event.rho(StatedPureDP(3.0)) == pytest.approx(2.71544476093, rel=1e-9)
    assert (per_event.rho(StatedZCDP(0.2)), per_event.mu(StatedZCDP(0.2))) == (0.2, math.inf)
    assert per_event.mu(ExpMech(2.0)) == pytest.approx(1.23203538534, rel=1e-9) == per_event.mu(StatedPureDP(1.0))
    for price in (per_event.pure, per_event.rho, per_event.mu):
        assert price(StatedApproximateDP(1.0, 1e-6)) == price(Sub("wor", 1, 9, Gaussian(1.0))) == math.inf


@pytest.mark.parametrize(
    "event", [Laplace(0.4), StatedPureDP(0.4), ExpMech(0.4), Gaussian(0.4), StatedZCDP(0.08)], ids=str
)
def test_divergences_start_at_their_rho_and_composites_follow(event):
    orders = np.array([1 + 1e-5, 1.5, 2.0, 8.0, 64.0])
    found = per_event.rdp(event, orders)
    assert found[0] == pytest.approx(per_event.rho(event), rel=1e-3)
    assert (found <= orders * per_event.rho(event) * (1 + 1e-12)).all() and (np.diff(found) > 0).all()
    other = per_event.rdp(Laplace(0.3), orders)
    np.testing.assert_allclose(per_event.rdp(Repeat(event, 5), orders), 5 * found, rtol=1e-14)
    np.testing.assert_allclose(per_event.rdp(Seq((event, Laplace(0.3))), orders), found + other, rtol=1e-14)
    np.testing.assert_array_equal(per_event.rdp(Parallel((event, Laplace(0.3))), orders), np.maximum(found, other))


def test_composites_add_up_and_blocks_do_not():
    inside = (Laplace(0.3), ExpMech(0.4), StatedPureDP(0.1))
    for price, power in ((per_event.pure, 1), (per_event.rho, 1), (per_event.mu, 2)):
        apart = sum(price(event) ** power for event in inside)
        assert price(Seq(inside)) ** power == pytest.approx(apart, rel=1e-14)
        assert price(Repeat(Seq(inside), 7)) ** power == pytest.approx(7 * apart, rel=1e-14)
        assert price(Parallel(inside)) == max(price(event) for event in inside)
    assert per_event.pure(Sub("poisson", 1, 10, Seq(inside))) == pytest.approx(math.log1p(math.expm1(0.8) / 10))


@pytest.mark.filterwarnings("error")  # as of numbers that float32 cannot hold
@pytest.mark.parametrize("number", [np.float32, np.float64, int])
def test_kinds_of_numbers_make_no_difference(number):
    for kind in (Laplace, Gaussian, ExpMech, StatedPureDP, StatedZCDP, lambda size: StatedApproximateDP(size, 1e-6)):
        given, plain = kind(number(2)), kind(2.0)
        for event, same in ((given, plain), (Sub("wor", 1, 9, Seq((given,) * 3)), Sub("wor", 1, 9, Seq((plain,) * 3)))):
            for price in (per_event.pure, per_event.rho, per_event.mu):
                assert price(event) == price(same)
            if not isinstance(given, StatedZCDP):
                np.testing.assert_array_equal(per_event.profile(event)(EPSILON), per_event.profile(same)(EPSILON))


# ----------------------------------------------------------------------------------------------------- composite events


@pytest.mark.parametrize(
    "event",
    [
        Seq((Laplace(0.3), Laplace(0.4))),
        Seq((Laplace(0.3), Gaussian(0.4), ExpMech(0.5))),
        Repeat(StatedPureDP(0.3), 4),
        Repeat(Seq((Gaussian(0.3), StatedPureDP(0.2))), 2),
        Seq((StatedApproximateDP(0.2, 1e-3), StatedApproximateDP(0.4, 1e-4), Laplace(0.3))),
    ],
    ids=str,
)
def test_what_dominates_a_sequence_is_nowhere_below_its_composition(event):
    inside = [(part, event.times) for part in (event.event,)] if isinstance(event, Repeat) else []
    inside += [(part, 1) for part in event.events] if isinstance(event, Seq) else []
    inside = [
        (part, count) for whole, count in inside for part in (whole.events if isinstance(whole, Seq) else (whole,))
    ]
    (composed,) = pld.compose(inside, 1e-6)
    epsilon = np.linspace(-1, 1.5, 60)
    assert (per_event.profile(event)(epsilon) >= composed.delta(epsilon) - 1e-3).all()


def test_what_dominates_blocks_is_nowhere_below_any():
    for blocks in (
        (Laplace(0.3), ExpMech(0.6)),
        (StatedPureDP(0.3), StatedPureDP(0.4)),
        (Seq((Laplace(0.3), Laplace(0.1))), Laplace(0.2)),
        (StatedApproximateDP(0.2, 1e-3), StatedPureDP(0.4), StatedApproximateDP(0.1, 1e-2)),
    ):
        whole = per_event.profile(Parallel(blocks))(EPSILON)
        for block in blocks:
            assert (whole >= per_event.profile(block)(EPSILON) - 1e-12).all()
    assert per_event.dominating(Parallel((Laplace(0.3), Laplace(0.4)))) == Laplace(0.4)
    assert per_event.dominating(Parallel((Gaussian(0.3),) * 3)) == Gaussian(0.3)
    exact = np.maximum(per_event.profile(Laplace(0.3))(EPSILON), per_event.profile(ExpMech(0.6))(EPSILON))
    np.testing.assert_array_equal(per_event.profile(Parallel((Laplace(0.3), ExpMech(0.6))))(EPSILON), exact)


def test_of_a_bare_rho_only_rho_is_left():
    assert per_event.dominating(Seq((StatedZCDP(0.1), Gaussian(0.2)))) == StatedZCDP(0.1 + 0.02)
    assert per_event.dominating(Parallel((StatedZCDP(0.1), Gaussian(0.2)))) == StatedZCDP(0.1)
    assert per_event.dominating(Repeat(Seq((StatedZCDP(0.1), StatedZCDP(0.2))), 10)).rho == pytest.approx(3.0)
    for event in (StatedZCDP(0.1), Sub("wor", 1, 10, StatedZCDP(0.1))):
        with pytest.raises(TypeError, match="no privacy profile"):
            per_event.profile(event)


def test_many_repetitions_cost_no_time():
    assert per_event.dominating(Repeat(Gaussian(1e-3), 10**12)) == Gaussian(1e3)
    assert per_event.pure(Sub("wor", 1, 2, Repeat(Laplace(1e-12), 10**12))) == pytest.approx(
        math.log1p(math.expm1(1) / 2)
    )
    assert closed_forms.gdp_epsilon(per_event.mu(Repeat(Gaussian(1e-6), 10**12)), 1e-6) == pytest.approx(4.88655411746)
