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

from dpviz.privacy.events import Event, ExpMech, Laplace, Parallel, Repeat, Seq, StatedPureDP, Sub
from dpviz.privacy.ledger import Filter, FixedEvents, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query

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
@pytest.mark.parametrize("offset", [0.0, -1e6, 1e8])
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
    found = source.exponential(asked(2), E, draws=np.array([1, 2]), replicates=np.array([3, 1]))
    assert found[0, 1] == -1 and (found[1] >= 0).all()
    assert [len(source._ledger.booked(r)) for r in range(4)] == [0, 2, 0, 1]
    after = states(source)
    assert [old == new for old, new in zip(before, after, strict=True)][:4] == [True, False, True, False]
    assert source.exponential(asked(0), E, replicates=np.array([], dtype=int)).shape == (0, 1)


SELECTING: dict[str, Callable[[Mechanisms, int, np.ndarray | None], np.ndarray]] = {
    "one": lambda source, count, replicates: source.exponential(asked(count), E, replicates=replicates),
    "several": lambda source, count, replicates: source.exponential(asked(count), E, draws=3, replicates=replicates),
    "sample": lambda source, count, replicates: source.sample(utilities(count), 3, replicates=replicates),
    "threshold": lambda source, count, replicates: source.above_threshold(values(count, 5.0), P, replicates=replicates),
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
    "a replicate twice": selecting(asked(2), replicates=np.array([0, 0])),
    "a replicate that is not there": selecting(asked(1), replicates=np.array([3])),
    "a mask": selecting(replicates=np.array([True, False, True])),
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
    "a replicate twice": thresholding(values(2), replicates=np.array([0, 0])),
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
