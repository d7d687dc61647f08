"""Selections: the exponential mechanism, draws that cost nothing, and the sparse vector technique.

Frequencies are compared with exact probabilities by χ²; seeds are fixed, and a p-value below 1e-3 fails.
"""

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from dpviz.privacy import audit
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Parallel, Repeat, Seq, StatedPureDP, Sub
from dpviz.privacy.ledger import Filter, FixedEvents, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms, Purpose, streams
from dpviz.privacy.queries import Query

E, P = ExpMech(1.5), StatedPureDP(1.0)
UTILITIES = np.array([0.0, 3.0, -2.0, 1.0, 2.5])
RUNS = 4000


def mechanisms(*events: Event, replicates: int = 3, seed: int = 11) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents(events), replicates), seed)


def filtered(*events: Event, replicates: int = 3, cap: float = 1000.0) -> Mechanisms:
    return Mechanisms(Ledger(Filter("epsilon", cap, {str(event): event for event in events}), replicates), 11)


def utilities(replicates: int, values: np.ndarray = UTILITIES) -> np.ndarray:
    return np.tile(values, (replicates, *[1] * values.ndim))


def asked(replicates: int = 3, sensitivity: float | np.ndarray = 2.0, **changes: object) -> Query:
    return Query(utilities(replicates), sensitivity, "range")._replace(**changes)


def values(replicates: int = 3, sensitivity: float | np.ndarray = 1.0, **changes: object) -> Query:
    return Query(utilities(replicates), sensitivity, "linf")._replace(**changes)


def states(of: Mechanisms, groups: str = "noise batches public") -> list:
    found = {"noise": of._noise, "batches": of._batches, "public": of.public}
    return [generator.bit_generator.state for group in groups.split() for generator in found[group]]


def p_value(found: np.ndarray, probabilities: np.ndarray, first: int = 0) -> float:
    """Of outcomes first, first + 1, ... that should have these probabilities."""
    counts = np.bincount(found.ravel() - first, minlength=len(probabilities))
    return float(stats.chisquare(counts, probabilities / probabilities.sum() * counts.sum()).pvalue)


# ----------------------------------------------------------------------------------------------- what selections choose


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0.0, -1e6, 1e12])
@pytest.mark.parametrize("event", [E, Repeat(E, 4)], ids=["one", "several"])
def test_an_index_is_selected_with_its_softmax_probability(event: Event, offset: float) -> None:
    source = mechanisms(event, replicates=RUNS)
    found = source.exponential(asked(RUNS, value=utilities(RUNS, UTILITIES + offset)), event)
    assert found.shape == (RUNS, 4 if isinstance(event, Repeat) else 1)
    assert p_value(found, softmax(1.5 / 2.0 * UTILITIES)) > 1e-3
    assert p_value(found, softmax(1.5 / 4.0 * UTILITIES)) < 1e-9, "otherwise a lost factor of 2 would go unnoticed"


@pytest.mark.slow
def test_several_selections_of_a_replicate_are_independent() -> None:
    event = Repeat(E, 2)
    pairs = mechanisms(event, replicates=RUNS).exponential(asked(RUNS), event)
    single = softmax(0.75 * UTILITIES)
    assert p_value(pairs @ np.array([5, 1]), np.outer(single, single).ravel()) > 1e-3


@pytest.mark.slow
def test_each_selection_may_have_utilities_of_its_own() -> None:
    """(R, selections, k): the j-th selection follows the j-th row, as the events of one charge."""
    event = Repeat(E, 3)
    each = np.array([UTILITIES, -UTILITIES, np.zeros(5)])
    query = asked(RUNS, value=utilities(RUNS, each))
    found = mechanisms(event, replicates=RUNS).exponential(query, event)
    assert found.shape == (RUNS, 3)
    for j in range(3):
        assert p_value(found[:, j], softmax(0.75 * each[j])) > 1e-3
    single = mechanisms(E, replicates=RUNS).exponential(asked(RUNS, value=utilities(RUNS, each[1:2])), E)
    assert single.shape == (RUNS, 1) and p_value(single, softmax(-0.75 * UTILITIES)) > 1e-3


@pytest.mark.slow
def test_every_replicate_has_its_own_sensitivity() -> None:
    own = np.repeat([0.5, 2.0, 20.0, 0.0], RUNS)
    found = mechanisms(E, replicates=4 * RUNS).exponential(asked(4 * RUNS, sensitivity=own), E)
    assert (found[3 * RUNS :] == 1).all()
    for i, sensitivity in enumerate((0.5, 2.0, 20.0)):
        assert p_value(found[i * RUNS : (i + 1) * RUNS], softmax(1.5 / sensitivity * UTILITIES)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "sensitivity"),
    [(E, 0.0), (Repeat(E, 3), 0.0), (ExpMech(math.inf), 2.0), (Repeat(ExpMech(math.inf), 2), 2.0)],
    ids=str,
)
def test_what_one_row_cannot_move_is_chosen_by_rank_and_ties_are_broken_at_random(
    event: Event, sensitivity: float
) -> None:
    tied = np.array([1.0, 7.0, 7.0, np.nextafter(7.0, 0.0), 7.0])
    query = asked(RUNS, sensitivity, value=utilities(RUNS, tied))
    found = mechanisms(event, replicates=RUNS).exponential(query, event)
    assert set(np.unique(found)) == {1, 2, 4}
    assert p_value(np.searchsorted([1, 2, 4], found), np.ones(3)) > 1e-3


@pytest.mark.parametrize("event", [E, Repeat(E, 50)], ids=["one", "several"])
def test_what_is_practically_impossible_is_never_chosen(event: Event) -> None:
    """Weights that underflow to 0, at both ends and in the middle of the cumulative sums."""
    far = np.array([-1e9, 0.0, -1e9, 0.1, -1e300, -1e300])
    found = mechanisms(event, replicates=500).exponential(asked(500, value=utilities(500, far)), event)
    assert set(np.unique(found)) == {1, 3}


# ----------------------------------------------------------------------------------------------- how many, and for whom


def test_under_a_filter_each_replicate_buys_as_many_as_it_likes() -> None:
    source = filtered(E, replicates=5)
    found = source.exponential(asked(5), E, draws=np.array([0, 1, 4, 2, 0]))
    assert found.shape == (5, 4) and found.dtype == np.int64
    for r, count in enumerate((0, 1, 4, 2, 0)):
        assert (found[r, :count] >= 0).all() and (found[r, count:] == -1).all()
        assert source._ledger.booked(r) == (E,) * count
    assert source.exponential(asked(5), E, draws=2).shape == (5, 2)
    none = source.exponential(asked(5), E, draws=0)
    assert none.shape == (5, 1) and (none == -1).all()
    assert source.spent("epsilon") == pytest.approx(1.5 * np.array([2, 3, 6, 4, 2]))


def test_packets_of_selections_are_bought_whole() -> None:
    packet = Repeat(E, 3)
    source = filtered(packet, replicates=3)
    found = source.exponential(asked(), packet, draws=np.array([2, 0, 1]))
    assert ((found >= 0).sum(axis=1) == [6, 0, 3]).all() and found.shape == (3, 6)
    assert [source._ledger.booked(r) for r in range(3)] == [(packet,) * 2, (), (packet,)]
    assert source.spent("epsilon") == pytest.approx([9.0, 0.0, 4.5])


@pytest.mark.slow
def test_bought_numbers_do_not_bias_what_is_selected() -> None:
    source = filtered(E, replicates=RUNS)
    found = source.exponential(asked(RUNS), E, draws=np.arange(RUNS) % 4)
    for count in range(1, 4):
        assert p_value(found[np.arange(RUNS) % 4 == count, :count], softmax(0.75 * UTILITIES)) > 1e-3


def test_rows_say_who_selects() -> None:
    source = filtered(E, replicates=4)
    before = states(source)
    found = source.exponential(asked(2), E, draws=np.array([1, 2]), rows=np.array([3, 1]))
    assert found[0, 1] == -1 and (found[1] >= 0).all()
    assert [len(source._ledger.booked(r)) for r in range(4)] == [0, 2, 0, 1]
    after = states(source)
    assert [old == new for old, new in zip(before, after, strict=True)][:4] == [True, False, True, False]
    assert source.exponential(asked(0), E, rows=np.array([], dtype=int)).shape == (0, 1)


SELECTING: dict[str, Callable[[Mechanisms, int, np.ndarray | None], np.ndarray]] = {
    "one": lambda source, count, rows: source.exponential(asked(count), E, rows=rows),
    "several": lambda source, count, rows: source.exponential(asked(count), E, draws=3, rows=rows),
    "sample": lambda source, count, rows: source.sample(utilities(count), 3, rows=rows),
    "threshold": lambda source, count, rows: source.above_threshold(values(count, 5.0), P, rows=rows),
}


@pytest.mark.parametrize("kind", SELECTING)
def test_a_replicate_selects_the_same_whatever_the_others_do(kind: str) -> None:
    act, seven = SELECTING[kind], [filtered(E, P, replicates=7) for _ in range(2)]
    whole = np.array([act(seven[0], 7, None) for _ in range(5)])
    for replicates in (1, 3):
        narrow = filtered(E, P, replicates=replicates)
        assert np.array_equal([act(narrow, replicates, None) for _ in range(5)], whole[:, :replicates])
    chosen = np.array([5, 0, 6])
    assert np.array_equal([act(seven[1], 3, chosen) for _ in range(5)], whole[:, chosen])
    assert len({tuple(whole[:, r].ravel()) for r in range(7)}) > 1, "replicates must not share their draws"


# ---------------------------------------------------------------------------------------------- draws that cost nothing


@pytest.mark.slow
def test_samples_have_their_probabilities_and_cost_nothing() -> None:
    source = mechanisms(E, replicates=RUNS)
    noise = states(source, "noise batches")
    for draws in (1, 3):
        found = source.sample(utilities(RUNS), draws)
        assert found.shape == (RUNS, draws) and p_value(found, softmax(UTILITIES)) > 1e-3
    assert states(source, "noise batches") == noise and source._ledger.booked(0) == ()


def test_a_selection_leaves_public_draws_and_batches_alone() -> None:
    source = mechanisms(E, P)
    before = states(source, "batches public")
    source.exponential(asked(), E)
    source.above_threshold(values(), P)
    assert states(source, "batches public") == before


def test_samples_are_padded_and_never_hit_what_has_no_weight() -> None:
    source = mechanisms(replicates=200)
    weights = utilities(200, np.array([-np.inf, 0.0, -np.inf, 1.0, -np.inf]))
    draws = np.arange(200) % 5
    found = source.sample(weights, draws)
    assert np.array_equal((found >= 0).sum(axis=1), draws) and set(np.unique(found)) == {-1, 1, 3}
    assert all((found[r, draws[r] :] == -1).all() for r in range(200))
    own = np.where(np.eye(5, dtype=bool)[np.arange(200) % 5], 0.0, -np.inf)
    assert np.array_equal(source.sample(own)[:, 0], np.arange(200) % 5)


def test_the_ends_of_the_unit_interval_do_not_hit_what_has_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    source, weights = mechanisms(replicates=1), np.array([[-np.inf, 0.0, -np.inf, 1.0, -np.inf]])
    ends = SimpleNamespace(random=lambda size: np.array([0.0, 1 - 2.0**-53]))
    monkeypatch.setattr(source, "public", [ends])
    assert source.sample(weights, 2).tolist() == [[1, 3]]


# ------------------------------------------------------------------------------------------------------------- refusals

Act = Callable[[Mechanisms], object]


def selecting(query: Query | None = None, event: Event = E, **more: object) -> Act:
    return lambda source: source.exponential(asked() if query is None else query, event, **more)  # type: ignore[arg-type]


WRONG_SELECTIONS: dict[str, Act] = {
    "another range": selecting(event=ExpMech(1.4)),
    "noise": selecting(event=Laplace(1.5)),
    "a bare epsilon": selecting(event=StatedPureDP(1.5)),
    "a batch": selecting(event=Sub("wor", 1, 10, E)),
    "a batch inside": selecting(event=Seq((Sub("wor", 1, 10, E),))),
    "different ranges": selecting(event=Seq((E, ExpMech(1.0)))),
    "selection and noise": selecting(event=Seq((E, Laplace(1.0)))),
    "two on all rows at the price of one": selecting(event=Parallel((E, E))),
    "such blocks inside": selecting(event=Repeat(Parallel((E, E)), 2)),
    "norm linf": selecting(asked(norm="linf")),
    "computed on a batch": lambda source: source.exponential(asked(batch=mechanisms(P).batch(P)), E),
    "sensitivity nan": selecting(asked(sensitivity=math.nan)),
    "sensitivity infinite": selecting(asked(sensitivity=math.inf)),
    "sensitivity negative": selecting(asked(sensitivity=-1.0)),
    "one sensitivity nan": selecting(asked(sensitivity=np.array([1.0, math.nan, 1.0]))),
    "two sensitivities": selecting(asked(sensitivity=np.ones(2))),
    "too few replicates": selecting(asked(2)),
    "no replicates axis": selecting(asked(value=UTILITIES)),
    "no utilities": selecting(asked(value=np.empty((3, 0)))),
    "a utility nan": selecting(asked(value=np.where(np.eye(3, 5), math.nan, 0.0))),
    "a utility infinite": selecting(asked(value=np.where(np.eye(3, 5), math.inf, 0.0))),
    "own utilities for two of one": selecting(asked(value=np.zeros((3, 2, 5)))),
    "own utilities and two draws": selecting(asked(value=np.zeros((3, 1, 5))), draws=2),
    "half a draw": selecting(draws=0.5),
    "a draw and a half": selecting(draws=np.array([1.0, 1.5, 1.0])),
    "fewer than no draws": selecting(draws=-1),
    "draws for two": selecting(draws=np.array([1, 1])),
    "draws in a matrix": selecting(draws=np.array([[1, 1, 1]])),
    "a replicate twice": selecting(asked(2), rows=np.array([0, 0])),
    "a replicate that is not there": selecting(asked(1), rows=np.array([3])),
    "a mask": selecting(rows=np.array([True, False, True])),
}


@pytest.mark.parametrize("source", [partial(mechanisms, E), partial(filtered, E)], ids=["fixed", "filtered"])
@pytest.mark.parametrize("wrong", WRONG_SELECTIONS)
def test_a_refused_selection_draws_nothing_and_books_nothing(source: Callable[[], Mechanisms], wrong: str) -> None:
    made = source()
    before = states(made)
    with pytest.raises((LedgerError, ValueError)):
        WRONG_SELECTIONS[wrong](made)
    assert states(made) == before
    assert [made._ledger.booked(r) for r in range(3)] == [()] * 3
    assert made.exponential(asked(), E).shape == (3, 1)


def test_a_fixed_plan_sells_one_selection_at_a_time() -> None:
    source = mechanisms(E, E)
    before = states(source)
    for draws in (2, np.array([1, 2, 1])):
        with pytest.raises(LedgerError):
            source.exponential(asked(), E, draws=draws)
    assert states(source) == before and source._ledger.booked(0) == ()
    source.exponential(asked(), E, draws=np.array([1, 0, 1]))
    with pytest.raises(LedgerError, match="left the plan"):
        source.exponential(asked(), E)
    assert [len(source._ledger.booked(r)) for r in range(3)] == [1, 0, 1]


def thresholding(query: Query | None = None, event: Event = P, **more: object) -> Act:
    return lambda source: source.above_threshold(values() if query is None else query, event, **more)  # type: ignore[arg-type]


WRONG_THRESHOLDS: dict[str, Act] = {
    "another epsilon": thresholding(event=StatedPureDP(0.9)),
    "a bounded range": thresholding(event=ExpMech(1.0)),
    "noise": thresholding(event=Laplace(1.0)),
    "a batch": thresholding(event=Sub("wor", 1, 10, P)),
    "norm range": thresholding(values(norm="range")),
    "computed on a batch": lambda source: source.above_threshold(values(batch=mechanisms(P).batch(P)), P),
    "sensitivity nan": thresholding(values(sensitivity=math.nan)),
    "sensitivity infinite": thresholding(values(sensitivity=math.inf)),
    "sensitivity negative": thresholding(values(sensitivity=-1.0)),
    "two sensitivities": thresholding(values(sensitivity=np.ones(2))),
    "too few replicates": thresholding(values(2)),
    "no replicates axis": thresholding(values(value=UTILITIES)),
    "values in a cube": thresholding(values(value=np.zeros((3, 2, 5)))),
    "a value nan": thresholding(values(value=np.where(np.eye(3, 5), math.nan, 0.0))),
    "a replicate twice": thresholding(values(2), rows=np.array([0, 0])),
}


@pytest.mark.parametrize("source", [partial(mechanisms, P), partial(filtered, P)], ids=["fixed", "filtered"])
@pytest.mark.parametrize("wrong", WRONG_THRESHOLDS)
def test_a_refused_threshold_draws_nothing_and_books_nothing(source: Callable[[], Mechanisms], wrong: str) -> None:
    made = source()
    before = states(made)
    with pytest.raises((LedgerError, ValueError)):
        WRONG_THRESHOLDS[wrong](made)
    assert states(made) == before
    assert [made._ledger.booked(r) for r in range(3)] == [()] * 3
    assert made.above_threshold(values(), P).shape == (3,)


# ---------------------------------------------------------------------------------------------- sparse vector technique

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
    assert audit.power("epsilon", 1.0, *rates[1.0], 20_000) > 0.99  # type: ignore[call-arg]
    assert audit.power("epsilon", 1.0, *rates[2.0], 20_000) < 1e-3  # type: ignore[call-arg]


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
    source.above_threshold(values(1), P, rows=np.array([1]))
    source.above_threshold(values(2), P, rows=np.array([1, 2]))
    assert source.spent("epsilon").tolist() == [0.0, 2.0, 1.0]
    assert source.affordable(P).tolist() == [True, False, True]
    before = states(source)
    with pytest.raises(LedgerError):
        source.above_threshold(values(), P)
    assert states(source) == before and source.spent("epsilon").tolist() == [0.0, 2.0, 1.0]
