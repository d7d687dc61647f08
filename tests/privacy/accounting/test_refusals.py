"""Where a currency does not exist for releases, the release to blame is named, and the reason said."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.currencies import UNITS, Currency, reason, refusals
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
    parts,
)

BATCH = Sub("wor", 10, 100, Gaussian(0.5))
SINGLES: tuple[Event, ...] = (
    Laplace(1.0),
    Gaussian(0.5),
    ExpMech(1.0),
    StatedPureDP(1.0),
    StatedZCDP(0.5),
    StatedApproximateDP(1.0, 1e-5),
    BATCH,
    Sub("wor", 10, 100, Laplace(1.0)),
    Laplace(math.inf),
    Gaussian(math.inf),
)
events = st.recursive(
    st.sampled_from(SINGLES),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(tuple).map(Seq) | st.builds(Repeat, inner, st.integers(1, 5))
    ),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("event", "currency", "why"),
    [
        (Gaussian(0.5), "epsilon", "Gaussian noise has no pure ε"),
        (StatedZCDP(0.5), "epsilon", "no pure ε is known of what has only a ρ"),
        (StatedApproximateDP(1.0, 1e-5), "rho", "what is known in (ε, δ) only has no ρ"),
        (BATCH, "rho", "no amplified ρ is known for batches"),
        (BATCH, "mu", "no finite μ is known for batches"),
        (BATCH, "epsilon", "Gaussian noise has no pure ε"),
        (StatedZCDP(0.5), "mu", "no μ is known of what has only a ρ"),
        (Laplace(math.inf), "epsilon", "without noise nothing is promised"),
    ],
)
def test_why_a_currency_does_not_exist(event: Event, currency: Currency, why: str) -> None:
    inside = (Laplace(0.1), Repeat(Seq((Laplace(0.2), event)), 3))
    assert reason(inside, currency) == reason([event], currency) == why
    if not isinstance(event, Sub):
        assert Parallel((event,)) != event and reason([Parallel((event,))], currency) == why
    (refusal,) = refusals(inside, currency)
    blamed = event.inner if isinstance(event, Sub) and currency == "epsilon" else event
    assert refusal.event == blamed and str(refusal).startswith(why[0].upper()) and str(refusal).endswith(").")


def test_each_reason_is_said_once_and_names_the_first_release() -> None:
    found = refusals([Laplace(1.0), Gaussian(0.5), Gaussian(0.25), StatedZCDP(1.0), Laplace(1.0)], "epsilon")
    assert [refusal.event for refusal in found] == [Gaussian(0.5), StatedZCDP(1.0)]
    assert str(found[0]) == "Gaussian noise has no pure ε (Gaussian, μ = 0.5)."


@pytest.mark.one_in(3)
@settings(derandomize=True, deadline=None, max_examples=100)
@given(released=st.lists(events, max_size=4))
@pytest.mark.parametrize("currency", UNITS)
def test_a_reason_is_given_exactly_where_the_cost_is_infinite(currency: Currency, released: list[Event]) -> None:
    refused = refusals(released, currency)
    assert bool(refused) == (accountants.total(released, currency) == math.inf)
    for refusal in refused:
        assert isinstance(refusal.event, Sub) or not parts(refusal.event)
        assert UNITS[currency].cost(refusal.event) == math.inf
