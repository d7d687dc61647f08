"""Groups of rows, neighbouring relations, and what is inside a composite event."""

import itertools
import math
from functools import reduce

import numpy as np
import pytest
from scipy.special import log_softmax

from dpviz.errors import UserError
from dpviz.privacy.accounting import accountants, per_event
from dpviz.privacy.accounting.closed_forms import gdp_epsilon
from dpviz.privacy.accounting.currencies import Noise
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
    draws_batch,
    grouped,
    has_blocks,
    inner_events,
    parts,
    relation,
)

A, B, C = Laplace(0.5), Gaussian(0.25), ExpMech(0.75)
SINGLES = [A, B, C, StatedPureDP(0.3), StatedZCDP(0.1), StatedApproximateDP(0.2, 1e-6), StatedApproximateDP(0.0, 1e-3)]
COMPOSITE = [Seq((A, B)), Repeat(C, 5), Seq((Repeat(A, 2), StatedPureDP(0.1))), Repeat(Seq((B, StatedZCDP(0.2))), 3)]
WOR, POISSON = Sub("wor", 2, 9, A), Sub("poisson", 2, 9, A)


# --------------------------------------------------------------------------------------------------------------- groups


@pytest.mark.parametrize("event", [*SINGLES, *COMPOSITE], ids=str)
@pytest.mark.parametrize("k", [1, 2, 7])
def test_a_group_costs_k_times_epsilon_and_mu_and_k_squared_times_rho_at_most(event: Event, k: int) -> None:
    group = grouped(event, k)
    assert per_event.pure(group) == pytest.approx(k * per_event.pure(event), rel=1e-12)
    # Group privacy of zCDP is k² ρ (Bun and Steinke 2016); recomputed for Laplace and selections it is less.
    assert k * per_event.rho(event) * (1 - 1e-9) <= per_event.rho(group) <= k**2 * per_event.rho(event) * (1 + 1e-9)
    if per_event.mu(event) < math.inf:
        assert per_event.mu(group) >= per_event.mu(event) * (1 - 1e-12)
    if all(isinstance(release, Gaussian | StatedZCDP) for release in inner_events(event)):
        assert per_event.rho(group) == pytest.approx(k**2 * per_event.rho(event), rel=1e-12)
    if all(isinstance(release, Gaussian) for release in inner_events(event)):
        assert per_event.mu(group) == pytest.approx(k * per_event.mu(event), rel=1e-12)


@pytest.mark.parametrize("event", [*SINGLES, *COMPOSITE], ids=str)
def test_a_group_of_one_is_one_row(event: Event) -> None:
    assert grouped(event, 1) == event


@pytest.mark.parametrize("event", [*SINGLES, *COMPOSITE], ids=str)
def test_a_group_of_groups_is_a_group(event: Event) -> None:
    for release, expected in zip(
        inner_events(grouped(grouped(event, 2), 3)), inner_events(grouped(event, 6)), strict=True
    ):
        assert type(release) is type(expected)
        for name in type(release).__slots__:
            assert getattr(release, name) == pytest.approx(getattr(expected, name), rel=1e-12)


def test_two_relations_of_the_theory() -> None:
    """Section 6: μ = 0.5 under add/remove-one is μ = 1 under replace-one, not twice the ε."""
    added = grouped(Gaussian(0.5), 2)
    assert added == Gaussian(1.0)
    found = [accountants.tightest((event,), 1e-6).epsilon for event in (Gaussian(0.5), added)]
    assert found == pytest.approx([2.25408, 4.88655], abs=1e-5)
    assert found == pytest.approx([gdp_epsilon(0.5, 1e-6), gdp_epsilon(1.0, 1e-6)], rel=1e-9)
    assert found[1] > 2 * found[0] + 0.3


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-6), (0.0, 1e-3), (2.0, 1e-9), (1e-9, 1e-5)])
def test_a_delta_grows_with_every_row_of_the_group(epsilon: float, delta: float) -> None:
    """One more row: δ_j = δ + e^ε δ_{j-1}, from P ≤ e^ε P' + δ along a chain of neighbours."""
    for k in (1, 2, 5, 10):
        expected = reduce(lambda so_far, _: delta + math.exp(epsilon) * so_far, range(k), 0.0)
        group = grouped(StatedApproximateDP(epsilon, delta), k)
        assert isinstance(group, StatedApproximateDP)
        assert (group.eps, group.delta) == pytest.approx((k * epsilon, expected), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "k"), [(1.0, 100), (10.0, 100), (800.0, 1), (800.0, 3), (0.5, 10_000)])
def test_a_delta_of_a_large_group_ends_at_one_without_overflow(epsilon: float, k: int) -> None:
    group = grouped(StatedApproximateDP(epsilon, 1e-6), k)
    assert isinstance(group, StatedApproximateDP) and group.eps == k * epsilon
    assert group.delta == (1e-6 if k == 1 else pytest.approx(1.0, abs=1e-12)) and group.delta < 1


@pytest.mark.parametrize("k", [1, 2, 7, 100])
@pytest.mark.parametrize("noise", ["laplace", "gaussian", "selection", "any"])
@pytest.mark.parametrize(
    "budget",
    [
        *(PureDP(epsilon=2.0), ZeroConcentratedDP(rho=0.3), GaussianDP(mu=0.7)),
        *(ApproximateDP(epsilon=epsilon, delta=1e-6) for epsilon in (0.01, 2.0, 50.0)),
    ],
    ids=str,
)
def test_the_largest_release_of_a_rows_budget_costs_a_person_at_most_the_budget(
    budget: Budget, noise: Noise, k: int
) -> None:
    if noise == "gaussian" and budget.pure:
        return
    release = budget.per_row(k).release(noise)
    cost = budget.spent([grouped(release, k)])
    assert cost <= budget.limit * (1 + 1e-9) + 1e-12
    if noise == "any" or (noise, type(budget)) in (("laplace", PureDP), ("gaussian", GaussianDP)):
        assert cost == pytest.approx(budget.limit, rel=1e-9)  # nothing is wasted where nothing else is known


@pytest.mark.parametrize(("epsilon", "delta", "k"), [(2.0, 1e-3, 3), (0.1, 0.01, 7), (5.0, 1e-6, 2)])
def test_the_delta_of_a_row_is_the_largest_that_a_chain_of_people_allows(epsilon: float, delta: float, k: int) -> None:
    """Brute force: data sets D_0, …, D_k, each with one more of a person's rows replaced, and a release of one bit that
    is as far from (ε', δ') between neighbours as allowed: p_(j+1) = e^ε' p_j + δ'."""

    def chain(row: ApproximateDP) -> list[float]:
        rates = [0.0]
        while len(rates) <= k:
            rates.append(math.exp(row.epsilon) * rates[-1] + row.delta)
        return rates

    def excess(p: float, q: float, e: float) -> float:
        return max(
            p - math.exp(e) * q, q - math.exp(e) * p, q - p - math.expm1(e) * (1 - p), p - q - math.expm1(e) * (1 - q)
        )

    row = ApproximateDP(epsilon=epsilon, delta=delta).per_row(k)
    rates = chain(row)
    assert all(excess(p, q, row.epsilon) <= row.delta * (1 + 1e-9) for p, q in itertools.pairwise(rates))
    assert excess(rates[0], rates[-1], epsilon) == pytest.approx(delta, rel=1e-9)
    more = chain(row.replaced(delta=row.delta * 1.01))
    assert excess(more[0], more[-1], epsilon) > delta


def test_currencies_without_a_rule_for_people_refuse() -> None:
    for budget in (RenyiDP(), TradeOff()):
        assert budget.per_row(1) == budget
        with pytest.raises(UserError, match="pure ε"):
            budget.per_row(2)
    with pytest.raises(UserError, match="fewer rows"):
        ApproximateDP(epsilon=500.0).per_row(100)
    assert NoPrivacy().per_row(3) == NoPrivacy()


def test_a_group_moves_a_selection_by_k_ranges() -> None:
    """Brute force: utilities that k rows may move by [-½, ½] each have log-ratios within a range of k η."""
    generator, eta = np.random.default_rng(1), 0.75
    for k in (1, 2, 3):
        group = grouped(ExpMech(eta), k)
        worst = 0.0
        for _ in range(300):
            utilities, rows = generator.normal(size=6), generator.choice([-0.5, 0.5], (k, 6))
            ratio = log_softmax(eta * utilities) - log_softmax(eta * (utilities + rows.sum(axis=0)))
            worst = max(worst, float(np.ptp(ratio)))
        assert isinstance(group, ExpMech) and 0.99 * group.eta <= worst <= group.eta * (1 + 1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_rows_of_a_group_may_be_spread_over_blocks(k: int) -> None:
    """No way to spread k rows over the blocks costs more than what is said; a block with j rows costs a group of j."""
    blocks = (Laplace(0.4), Gaussian(0.3), Repeat(Laplace(0.2), 2))
    group = grouped(Parallel(blocks), k)
    for counts in itertools.product(range(k + 1), repeat=3):
        if sum(counts) != k:
            continue
        spread = Seq(tuple(grouped(block, j) for block, j in zip(blocks, counts, strict=True) if j))
        assert per_event.rho(spread) <= per_event.rho(group) * (1 + 1e-12) and per_event.mu(spread) <= per_event.mu(
            group
        ) * (1 + 1e-12)
        for epsilon in (0.1, 1.0, 3.0):
            assert per_event.profile(spread)(epsilon) <= per_event.profile(group)(epsilon) + 1e-15
    plain = Parallel((Laplace(0.4), Laplace(0.1)))
    assert per_event.pure(grouped(plain, k)) >= k * 0.4


@pytest.mark.parametrize(
    "event", [WOR, POISSON, Seq((A, WOR)), Repeat(POISSON, 3), Seq((A, Repeat(Seq((WOR,)), 2)))], ids=str
)
def test_sampled_events_have_no_rule_for_groups(event: Event) -> None:
    for k in (1, 2):
        with pytest.raises(ValueError, match="no simple rule"):
            grouped(event, k)


# ------------------------------------------------------------------------------------------------------------ relations


def test_unsampled_events_hold_under_either_relation() -> None:
    assert relation(()) is None and relation([*SINGLES, *COMPOSITE, Parallel((A, B))]) is None


@pytest.mark.parametrize(("sampled", "expected"), [(WOR, "replace-one"), (POISSON, "add/remove-one")])
def test_a_sampled_event_fixes_the_relation_however_deep_it_is(sampled: Sub, expected: str) -> None:
    for event in (sampled, Seq((A, sampled)), Repeat(sampled, 4), Repeat(Seq((B, Repeat(sampled, 2))), 3)):
        assert relation([event]) == relation([A, event, B]) == relation(iter([event] * 3)) == expected


def test_events_of_different_relations_do_not_compose() -> None:
    for events in ([WOR, POISSON], [Repeat(WOR, 2), A, Seq((POISSON,))]):
        with pytest.raises(UserError, match="do not compose"):
            relation(events)
        with pytest.raises(UserError, match="do not compose"):
            Seq(tuple(events))
        with pytest.raises(UserError, match="do not compose"):
            accountants.spent(events, "epsilon")


# --------------------------------------------------------------------------------------------------------------- inside


def test_parts_are_one_level_down() -> None:
    assert all(parts(event) == () for event in SINGLES)
    assert parts(Seq((A, Seq((B, C))))) == (A, Seq((B, C)))
    assert parts(Parallel((A, B))) == (A, B)
    assert parts(Repeat(Seq((A, B)), 9)) == (Seq((A, B)),)
    assert parts(Sub("wor", 1, 2, Repeat(B, 2))) == (Repeat(B, 2),)


def test_inner_events_are_all_single_releases_in_order() -> None:
    assert all(inner_events(event) == (event,) for event in SINGLES)
    assert inner_events(Repeat(Seq((A, B)), 3)) == (A, B) * 3
    assert inner_events(Repeat(Repeat(A, 2), 3)) == (A,) * 6
    assert inner_events(Parallel((Repeat(A, 2), Seq((B, C))))) == (A, A, B, C)
    assert inner_events(Sub("wor", 1, 2, Seq((C, Repeat(B, 2))))) == (C, B, B)
    assert inner_events(Seq((Parallel((A, B)), C))) == (A, B, C)


def test_what_is_sampled_or_has_blocks_is_found_however_deep() -> None:
    for event in (*SINGLES, *COMPOSITE):
        assert not draws_batch(event) and not has_blocks(event)
    blocks = Parallel((A, B))
    for wrap in (lambda e: e, lambda e: Seq((A, e)), lambda e: Repeat(e, 2), lambda e: Seq((Repeat(Seq((e,)), 2), B))):
        assert draws_batch(wrap(WOR)) and not has_blocks(wrap(WOR))
        assert has_blocks(wrap(blocks)) and not draws_batch(wrap(blocks))
    assert has_blocks(Sub("wor", 1, 2, blocks))


@pytest.mark.parametrize("times", [0, -1, 1.0, 2.5, math.inf])
def test_a_release_is_repeated_a_whole_number_of_times(times: float) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Repeat(A, times)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [ExpMech, StatedPureDP, StatedZCDP])
@pytest.mark.parametrize("value", [0.0, -0.0, -1.0, math.nan, -math.inf])
def test_no_release_is_free(kind: type, value: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        kind(value)


@pytest.mark.parametrize(
    ("eps", "delta"), [(-0.1, 0.1), (0.1, 0.0), (0.1, 1.0), (0.1, -1e-9), (math.nan, 0.1), (0.1, math.nan)]
)
def test_a_release_that_may_fail_needs_a_chance_of_failing(eps: float, delta: float) -> None:
    with pytest.raises(ValueError, match="StatedApproximateDP"):
        StatedApproximateDP(eps, delta)


def test_no_blocks_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Parallel(())
