"""The sparse vector technique: what it releases, what that costs by brute force, and what an audit finds."""

import math

import numpy as np
import pytest
from scipy import stats

from dpviz.privacy import audit
from dpviz.privacy.events import Event, Gaussian, StatedPureDP
from dpviz.privacy.ledger import Filter, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms, Purpose, streams
from dpviz.privacy.releases import Query
from tests.oracles.audits import power
from tests.privacy.test_selections import RUNS, P, mechanisms, p_value, states, utilities, values

FIRST = 1 / (1 + 2 ** (2 / 3))  # share of the threshold in ε: ε₁ : ε₂ = 1 : 2^(2/3) is the best split


def stopping(queries: np.ndarray, first: float, factor: float = 2.0, epsilon: float = 1.0) -> np.ndarray:
    """(k + 1,) exact probabilities of stopping at each query, and at none, at sensitivity 1 and threshold 0.

    By the trapezoidal rule over the threshold's noise; the kinks of all densities are on the grid.
    """
    z = np.linspace(-80, 80, 160_001)
    left = stats.laplace.pdf(z, scale=1 / (first * epsilon))
    scale = factor / ((1 - first) * epsilon)
    found = []
    for query in queries:
        found.append(float(np.trapezoid(left * stats.laplace.sf(z - query, scale=scale), z)))
        left = left * stats.laplace.cdf(z - query, scale=scale)
    return np.array([*found, float(np.trapezoid(left, z))])


def worst_pair(k: int) -> tuple[np.ndarray, np.ndarray]:
    """k queries (0, ..., 0, 1) on one data set, (1, ..., 1, 0) on its neighbour."""
    last = np.zeros(k)
    last[-1] = 1.0
    return last, 1 - last


def loss(k: int, first: float, factor: float) -> float:
    one, two = (stopping(queries, first, factor)[k - 1] for queries in worst_pair(k))
    return math.log(one / two)


@pytest.mark.parametrize(("k", "correct", "broken"), [(5, 0.833665, 1.382311), (10, 0.989259, 1.493426)])
def test_stopping_at_the_last_query_costs_what_was_published(k: int, correct: float, broken: float) -> None:
    """For ε = 1 and Dwork and Roth's even split; without the factor 2 of the queries' noise the claim is false."""
    assert loss(k, 0.5, 2.0) == pytest.approx(correct, abs=2e-6)
    assert loss(k, 0.5, 1.0) == pytest.approx(broken, abs=2e-6)


@pytest.mark.slow
def test_the_split_of_the_mechanism_costs_at_most_epsilon_and_reaches_it() -> None:
    losses = [loss(k, FIRST, 2.0) for k in (2, 5, 10, 25)]
    assert (np.diff(losses) > 0).all() and 0.999 < losses[-1] <= 1.0
    assert loss(25, FIRST, 1.0) == pytest.approx(FIRST + 2 * (1 - FIRST), abs=2e-3)


def positions(queries: np.ndarray, repeats: int = 5, seed: int = 0, epsilon: float = 1.0) -> np.ndarray:
    """Where the mechanism stops in repeats × RUNS independent runs."""
    event = StatedPureDP(epsilon)
    source = mechanisms(*[event] * repeats, replicates=RUNS, seed=seed)
    query = Query(utilities(RUNS, queries), 1.0, "linf")
    return np.concatenate([source.above_threshold(query, event) for _ in range(repeats)])


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_positions_have_the_probabilities_of_the_declared_noise(epsilon: float) -> None:
    for queries in (*worst_pair(5), np.array([-3.0, 1.0, -0.5])):
        found = positions(queries, 2, epsilon=epsilon)
        exact = stopping(queries, FIRST, epsilon=epsilon)
        assert exact.sum() == pytest.approx(1, abs=1e-6)
        found[found < 0] = len(queries)
        assert p_value(found, exact) > 1e-3
        assert p_value(found, stopping(queries, FIRST, 1.0, epsilon)) < 1e-6
        if epsilon == 4.0:
            assert p_value(found, stopping(queries, 0.5, epsilon=epsilon)) < 1e-3


def without_the_factor(queries: np.ndarray, runs: int, seed: int) -> np.ndarray:
    """A broken copy: the queries' noise lacks its factor 2."""
    generator = np.random.default_rng(seed)
    threshold = generator.laplace(scale=1 / FIRST, size=(runs, 1))
    accepted = queries + generator.laplace(scale=1 / (1 - FIRST), size=(runs, len(queries))) >= threshold
    return np.where(accepted.any(axis=1), accepted.argmax(axis=1), -1)


@pytest.mark.slow
def test_an_audit_does_not_refute_the_claim_and_would_find_a_missing_factor() -> None:
    """20 000 runs on each data set and one event that was fixed in advance: the run stops at the fifth query."""
    one, two = worst_pair(5)
    correct = [int((positions(queries, seed=seed) == 4).sum()) for seed, queries in enumerate((one, two))]
    assert 0.4 < audit.epsilon_lower_bound(correct[0], 20_000, correct[1], 20_000) <= 1.0
    broken = [int((without_the_factor(queries, 20_000, seed) == 4).sum()) for seed, queries in enumerate((one, two))]
    assert audit.epsilon_lower_bound(broken[0], 20_000, broken[1], 20_000) > 1.0
    rates = {factor: [stopping(queries, FIRST, factor)[4] for queries in (one, two)] for factor in (1.0, 2.0)}
    assert power("epsilon", 1.0, *rates[1.0], 20_000) > 0.99  # type: ignore[call-arg]
    assert power("epsilon", 1.0, *rates[2.0], 20_000) < 1e-3  # type: ignore[call-arg]


def test_only_the_ratio_of_values_and_sensitivity_matters() -> None:
    own, shared = np.array([4.0, 0.5, 2.0]), mechanisms(*[P] * 200)
    source = mechanisms(*[P] * 200)
    for _ in range(200):
        scaled = values(value=utilities(3) * own[:, None], sensitivity=own)
        assert np.array_equal(source.above_threshold(scaled, P), shared.above_threshold(values(), P))


def test_one_threshold_costs_the_same_however_many_values_it_meets() -> None:
    for count in (0, 1, 1000):
        source = mechanisms(P)
        found = source.above_threshold(values(value=np.full((3, count), -1e6)), P)
        assert (found == -1).all() and [source._ledger.booked(r) for r in range(3)] == [(P,)] * 3


@pytest.mark.parametrize("event", [StatedPureDP(math.inf), StatedPureDP(1.0)], ids=["no privacy", "nothing to hide"])
def test_without_noise_the_first_value_that_reaches_the_threshold_is_found(event: Event) -> None:
    source = mechanisms(event, replicates=4)
    table = np.array([[-1.0, 0.0, 5.0], [-1.0, -1e-300, -2.0], [3.0, 9.0, 9.0], [-1.0, -1.0, 1e-300]])
    query = Query(table, 1.0 if event.eps == math.inf else 0.0, "linf")
    assert source.above_threshold(query, event).tolist() == [1, -1, 0, 2]
    unused = [generator.bit_generator.state for generator in streams(11, Purpose.NOISE, 4)]
    assert (states(source, "noise") == unused) == (event.eps == math.inf)


def test_a_threshold_is_charged_like_any_other_release() -> None:
    source = Mechanisms(Ledger(Filter("epsilon", 2.0, {"stop": P, "noise": Gaussian(0.1)}), 3), 0)
    source.above_threshold(values(1), P, replicates=np.array([1]))
    source.above_threshold(values(2), P, replicates=np.array([1, 2]))
    assert source.spent("epsilon").tolist() == [0.0, 2.0, 1.0]
    assert source.affordable(P).tolist() == [True, False, True]
    before = states(source)
    with pytest.raises(LedgerError):
        source.above_threshold(values(), P)
    assert states(source) == before and source.spent("epsilon").tolist() == [0.0, 2.0, 1.0]
