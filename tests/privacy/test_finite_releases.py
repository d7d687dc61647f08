"""What is released are finite numbers: a mechanism refuses anything else before it draws."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Seq, StatedPureDP, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger, LedgerError
from dpviz.privacy.matrix_factorisation import binary_tree
from dpviz.privacy.matrix_products import MatrixQuery
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.privacy.running_sums import Leaves, PrefixSums

L, G, E, P = Laplace(0.5), Gaussian(0.25), ExpMech(1.0), StatedPureDP(1.0)
NOT_FINITE = (math.nan, math.inf, -math.inf)


def mechanisms(*events: Event) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents(events), 3), seed=7)


def states(of: Mechanisms) -> list:
    return [generator.bit_generator.state for group in (of._noise, of._batches, of.public) for generator in group]


def query(bad: float, norm: str) -> Query:
    """One bad entry, in one replicate only."""
    value = np.zeros((3, 4))
    value[1, 2] = bad
    return Query(value, 1.0, norm)  # type: ignore[arg-type]


ACTS: dict[str, tuple[Event, Callable[[Mechanisms, float], object]]] = {
    "laplace": (L, lambda source, bad: source.laplace(query(bad, "l1"), L)),
    "gaussian": (G, lambda source, bad: source.gaussian(query(bad, "l2"), G)),
    "exponential": (E, lambda source, bad: source.exponential(query(bad, "range"), E)),
    "above threshold": (P, lambda source, bad: source.above_threshold(query(bad, "linf"), P)),
    "without privacy": (Laplace(math.inf), lambda source, bad: source.laplace(query(bad, "l1"), Laplace(math.inf))),
}


@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize("act", ACTS)
def test_a_value_that_is_not_finite_is_refused_before_anything_is_charged(act: str, bad: float) -> None:
    event, release = ACTS[act]
    source = mechanisms(event)
    before = states(source)
    with pytest.raises(LedgerError, match="finite"):
        release(source, bad)
    assert states(source) == before and source._ledger.booked(0) == ()
    release(source, 1.0)  # what was planned is still there


@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize("event", [Seq((L, G)), Sub("wor", 4, 10, Seq((L, G)))], ids=str)
def test_a_batch_keeps_its_releases_when_it_refuses_a_value(event: Event, bad: float) -> None:
    """It was paid for when it opened."""
    source = mechanisms(event)
    batch = source.batch(event)
    before = states(source)
    for norm, release in (("l1", batch.laplace), ("l2", batch.gaussian)):
        with pytest.raises(LedgerError, match="finite"):
            release(query(bad, norm)._replace(batch=batch))
        assert states(source) == before
        assert np.isfinite(release(query(1.0, norm)._replace(batch=batch))).all()
        before = states(source)


def running(event: Event) -> tuple[Mechanisms, Leaves, PrefixSums]:
    source = mechanisms(event)
    leaves = source.leaves([2] * 3, 6)
    return source, leaves, source.prefix_sums(event, binary_tree(3), leaves, 1.0, (4,))


@pytest.mark.parametrize("bad", NOT_FINITE)
def test_running_sums_refuse_a_leaf_that_is_not_finite(bad: float) -> None:
    source, leaves, sums = running(G)
    leaf, before = leaves.next(), states(source)
    with pytest.raises(LedgerError, match="finite"):
        sums.add(query(bad, "l2")._replace(batch=leaf))
    assert states(source) == before
    assert np.isfinite(sums.add(query(1.0, "l2")._replace(batch=leaf))).all()


@pytest.mark.parametrize("act", ["laplace", "gaussian", "exponential", "above threshold", "sums", "products"])
def test_noise_that_rounding_would_hide_is_refused_before_it_is_drawn(act: str) -> None:
    """The value 10¹⁶ with noise of scale 10⁻³ left as it was."""
    event = ACTS[act][0] if act in ACTS else G
    change = 1e-3 * event.parameter  # type: ignore[attr-defined]

    def released(source: Mechanisms, value: float) -> None:
        norm = {"laplace": "l1", "exponential": "range", "above threshold": "linf"}.get(act, "l2")
        asked = query(value, norm)._replace(sensitivity=change)
        if act == "sums":
            leaves = source.leaves([2], 6)
            sums = source.prefix_sums(G, binary_tree(1), leaves, change, (4,))
            sums.add(asked._replace(batch=leaves.next()))
        elif act == "products":
            opened = source.matrix_products(MatrixQuery(lambda v: value * v, 4, change), G)
            opened.times(np.tile([1.0, 0, 0, 0], (3, 1)))
        else:
            getattr(source, act.replace(" ", "_"))(asked, event)

    source = mechanisms(event)
    noise = [generator.bit_generator.state for generator in source._noise]
    with pytest.raises(LedgerError, match="rescale the data"):
        released(source, 1e16)
    assert [generator.bit_generator.state for generator in source._noise] == noise
    released(mechanisms(event), 1e6)


@pytest.mark.parametrize("weights", [[math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf]], ids=str)
def test_public_draws_need_weights_that_say_something(weights: list[float]) -> None:
    source = mechanisms()
    before = states(source)
    with pytest.raises(LedgerError, match="weights"):
        source.sample(np.tile(weights, (3, 1)))
    assert states(source) == before
