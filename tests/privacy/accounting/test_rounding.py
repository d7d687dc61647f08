"""Rounding of long schedules: upwards, to few events, and never across kinds."""

import math

import numpy as np
import pytest

from dpviz.privacy.accounting.accountants import epsilon
from dpviz.privacy.accounting.per_event import pure
from dpviz.privacy.accounting.rounding import MAX_GROUPS, log_strength, merged_runs, parameter, rounded_up, simplified
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


def once(events: list[Event]) -> list[tuple[Event, int]]:
    return rounded_up((event, 1) for event in events)


@pytest.mark.parametrize("growth", [1.5, 10.0, 1e3, 1e7])
def test_grouping_rounds_up_and_keeps_few_events(growth):
    epsilon = 0.01 * growth ** (np.arange(1000) / 1000 - 1)
    rng = np.random.default_rng(3)
    for values in (epsilon, epsilon[::-1], rng.permutation(epsilon)):
        groups = rounded_up((Laplace(float(eps)), 1) for eps in values)
        rounded = np.repeat([event.eps for event, _ in groups], [count for _, count in groups])
        assert len({event for event, _ in groups}) <= MAX_GROUPS
        assert (rounded >= values).all()
        if growth <= 10:
            assert (rounded <= 1.02 * values * (1 + 1e-12)).all()
        assert 1 <= math.sqrt((rounded**2).sum() / (values**2).sum()) <= 1.02


def test_grouping_keeps_equal_events_and_their_order():
    events = [Laplace(0.1)] * 3 + [Gaussian(0.1)] * 2 + [Laplace(0.1)] * 4
    assert once(events) == [(Laplace(0.1), 3), (Gaussian(0.1), 2), (Laplace(0.1), 4)]
    assert rounded_up([]) == []


def test_grouping_mixes_neither_kinds_nor_batch_sizes():
    low, high, gaussian = Laplace(0.1), Laplace(0.1001), Gaussian(0.1)
    events = [low, high, gaussian, Sub("wor", 1, 10, low), Sub("wor", 1, 10, high), Sub("wor", 2, 20, low)]
    events.append(Sub("wor", 1, 10, gaussian))
    assert once(events) == [
        (high, 2),
        (gaussian, 1),
        (Sub("wor", 1, 10, high), 2),
        (Sub("wor", 2, 20, low), 1),
        (Sub("wor", 1, 10, gaussian), 1),
    ]


def test_grouping_leaves_releases_without_noise_alone():
    events = [Laplace(0.001 * 1.05**i) for i in range(300)] + [Laplace(math.inf)]
    groups = once(events)
    assert groups[-1] == (Laplace(math.inf), 1)
    assert all(event.eps < 0.001 * 1.05**301 for event, _ in groups[:-1])


KINDS = [Laplace, Gaussian, ExpMech, StatedPureDP, StatedZCDP, lambda size: StatedApproximateDP(size, 1e-7)]


@pytest.mark.parametrize(
    "kind", KINDS, ids=["Laplace", "Gaussian", "ExpMech", "StatedPureDP", "StatedZCDP", "StatedApproximateDP"]
)
def test_every_kind_of_event_is_rounded_up(kind):
    """Plain and on batches of either kind: the larger parameter dominates."""
    low, high, far = kind(0.1), kind(0.1001), kind(0.5)
    for draw in (lambda event: event, lambda event: Sub("wor", 1, 9, event), lambda event: Sub("poisson", 1, 9, event)):
        events = [draw(low), draw(high), draw(far)]
        assert once(events) == [(draw(high), 2), (draw(far), 1)]
        assert log_strength(events[0]) < log_strength(events[1]) < log_strength(events[2])


@pytest.mark.parametrize("scheme", ["wor", "poisson"])
def test_releases_of_next_to_no_noise_on_batches_are_rounded_up_too(scheme):
    """In any order: e^ε has no number there, yet the larger ε dominates."""
    events = [Sub(scheme, 1, 10, Laplace(2000.0 - 7 * i)) for i in range(150)]
    strengths = [log_strength(event) for event in events]
    assert (np.diff(strengths) < 0).all()
    rounded = [event for event, count in once(events) for _ in range(count)]
    assert all(parameter(new) >= parameter(old) for new, old in zip(rounded, events, strict=True))
    assert epsilon((*events, Sub(scheme, 1, 10, Gaussian(1.0))), 1e-6, "rdp") >= sum(map(pure, events))
    large = [Sub(scheme, 1, 10, Gaussian(mu)) for mu in (9e7, 1e8, 1.1e8, 1e200)]
    assert (np.diff([log_strength(event) for event in large]) > 0).all()


def test_rounding_keeps_schemes_failures_and_counts_apart():
    wor, poisson = Sub("wor", 1, 10, Laplace(0.1)), Sub("poisson", 1, 10, Laplace(0.1001))
    assert once([wor, poisson]) == [(wor, 1), (poisson, 1)]
    assert len(once([StatedApproximateDP(0.1, 1e-8), StatedApproximateDP(0.1001, 1e-9)])) == 2
    assert rounded_up([(Laplace(0.1), 3), (Laplace(0.1001), 4), (StatedPureDP(0.1), 2)]) == [
        (Laplace(0.1001), 7),
        (StatedPureDP(0.1), 2),
    ]
    assert merged_runs(
        [(StatedPureDP(0.1), 3), (StatedPureDP(0.1), 4), (StatedPureDP(0.2), 1), (StatedPureDP(0.1), 1)]
    ) == [(StatedPureDP(0.1), 7), (StatedPureDP(0.2), 1), (StatedPureDP(0.1), 1)]


def number_of(event: Event) -> object:
    return number_of(event.inner) if isinstance(event, Sub) else getattr(event, event.__match_args__[0])


def test_simplified_events_are_single_releases_with_python_floats():
    assert simplified(Repeat(Gaussian(3), 16)) == Gaussian(12.0)
    assert simplified(Parallel((StatedPureDP(1), StatedPureDP(np.float32(0.5))))) == StatedPureDP(1.0)
    assert simplified(Sub("poisson", 1, 3, Seq((Gaussian(3), Gaussian(4))))) == Sub("poisson", 1, 3, Gaussian(5.0))
    for event in (
        Laplace(2),
        ExpMech(np.float32(0.5)),
        StatedZCDP(1),
        StatedApproximateDP(0, 0.5),
        Sub("wor", 1, 2, StatedPureDP(1)),
    ):
        single = simplified(event)
        assert type(number_of(single)) is float
        assert simplified(single) == single
    assert parameter(simplified(StatedApproximateDP(0, 0.5))) > 0  # a logarithm is taken of it
    assert math.isinf(log_strength(Laplace(math.inf)))
