"""Events: values, not objects; nothing that describes no mechanism can be made."""

import copy
import dataclasses
import math
import pickle
from typing import get_args

import numpy as np
import pytest

from dpviz.privacy.accounting import per_event, rounding
from dpviz.privacy.accounting.currencies import UNITS
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
    described,
    grouped,
    inner_events,
    parts,
)

EVENTS = [
    Laplace(0.5),
    Laplace(math.inf),
    Gaussian(1.0),
    Seq((Laplace(0.5), Gaussian(1.0))),
    Sub("wor", 10, 100, Laplace(0.5)),
    Sub("wor", 1, 2, Seq((Gaussian(0.3), Gaussian(0.4)))),
]


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_events_are_values(event: Event) -> None:
    for twin in (copy.deepcopy(event), pickle.loads(pickle.dumps(event))):
        assert twin == event and hash(twin) == hash(event)
    assert len({event, copy.deepcopy(event)}) == 1
    field = dataclasses.fields(event)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, field, getattr(event, field))
    assert not hasattr(event, "__dict__")


def test_events_of_different_mechanisms_differ() -> None:
    assert len({*EVENTS, Gaussian(0.5), Laplace(1.0), Sub("wor", 11, 100, Laplace(0.5))}) == len(EVENTS) + 3
    assert Laplace(1.0) != Gaussian(1.0)
    assert Seq((Laplace(1.0), Gaussian(1.0))) != Seq((Gaussian(1.0), Laplace(1.0)))
    # The smallest change of a parameter is a change: the plan's event and the one charged must be the same number.
    assert Laplace(0.1 + 0.2) != Laplace(0.3)


@pytest.mark.parametrize("value", [0.0, -0.0, -1.0, math.nan, -math.inf])
def test_no_release_is_free_or_costs_less_than_nothing(value: float) -> None:
    with pytest.raises(ValueError, match="positive"):
        Laplace(value)
    with pytest.raises(ValueError, match="positive"):
        Gaussian(value)


@pytest.mark.parametrize(
    ("kind", "m", "n"),
    [("wor", 0, 10), ("wor", 10, 10), ("wor", 11, 10), ("wor", -1, 10), ("", 5, 10), ("wor", 2.5, 10)],
)
def test_a_batch_is_a_true_subset_of_whole_rows(kind: str, m: int, n: int) -> None:
    with pytest.raises(ValueError):
        Sub(kind, m, n, Laplace(1.0))  # type: ignore[arg-type]


def test_an_empty_sequence_is_refused() -> None:
    with pytest.raises(ValueError):
        Seq(())


def test_a_batch_of_a_batch_is_refused_however_deep_it_hides() -> None:
    sampled = Sub("wor", 5, 10, Laplace(1.0))
    for inner in (sampled, Seq((sampled,)), Seq((Laplace(1.0), Seq((sampled, Laplace(1.0)))))):
        with pytest.raises(ValueError):
            Sub("wor", 2, 10, inner)


def test_inner_events_are_the_noise_releases_in_order() -> None:
    a, b, c = Laplace(1.0), Gaussian(2.0), Laplace(3.0)
    assert inner_events(a) == (a,)
    assert inner_events(Seq((a, Seq((b, c))))) == (a, b, c)
    assert inner_events(Sub("wor", 1, 2, Seq((c, a)))) == (c, a)


WORDS: dict[Event, str] = {
    Laplace(0.2): "Laplace, ε = 0.2",
    Gaussian(0.1): "Gaussian, μ = 0.1",
    ExpMech(0.5): "Selection, η = 0.5",
    StatedPureDP(1.0): "Only known: ε = 1",
    StatedZCDP(0.5): "Only known: ρ = 0.5",
    StatedApproximateDP(1.0, 1e-6): "Only known: ε = 1, δ = 10⁻⁶",
    Sub("wor", 50, 1000, Gaussian(0.1)): "Gaussian, μ = 0.1, on batches of 50 of 1,000 rows",
    Repeat(Laplace(0.2), 2000): "2,000 times Laplace, ε = 0.2",
    Seq((Laplace(0.2), Gaussian(0.1))): "Laplace, ε = 0.2; then Gaussian, μ = 0.1",
    Parallel((Laplace(0.2), Laplace(0.2), Gaussian(0.1))): "disjoint blocks: Laplace, ε = 0.2 | Gaussian, μ = 0.1",
}


def test_every_kind_of_event_is_known_to_all_that_ask_of_which_kind_it_is() -> None:
    """A kind that one of them forgot would be a type error; here it would be one when it runs."""
    assert {type(event) for event in WORDS} == set(get_args(Event))
    for event, words in WORDS.items():
        assert described(event) == words
        assert all(unit.cost(event) > 0 for unit in UNITS.values())
        assert (per_event.rdp(event, np.array([2.0, 8.0])) > 0).all()
        assert parts(rounding.simplified(event)) == () or isinstance(event, Sub | Parallel)
        if not isinstance(event, Sub):
            assert UNITS["epsilon"].cost(grouped(event, 2)) >= UNITS["epsilon"].cost(event)
    with pytest.raises(AssertionError):
        described(Event)  # type: ignore[arg-type]
