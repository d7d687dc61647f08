"""The sparse vector technique on a random batch: charged when the batch opens, amplified, released once."""

import math
from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from dpviz.privacy.accounting import accountants, closed_forms, per_event
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Relation, Seq, StatedPureDP, Sub
from dpviz.privacy.ledger import Filter, FixedEvents, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms, Purpose, streams
from dpviz.privacy.releases import Query
from tests.privacy.test_sparse_vector import FIRST, stopping

P, G = StatedPureDP(1.0), Gaussian(0.5)
S = Sub("wor", 2, 4, P)
LADDER = np.array([[-1.0], [0.5], [1.0]])  # of each value, how much the mean of the batch counts


def mechanisms(*events: Event, replicates: int = 3, seed: int = 5) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents(events), replicates), seed)


def states(of: Mechanisms) -> list:
    return [generator.bit_generator.state for group in (of._noise, of._batches) for generator in group]


def values(batch: Batch | None, replicates: int = 3, relation: Relation = "replace-one") -> Query:
    return Query(np.linspace(-3, 3, 4 * replicates).reshape(replicates, 4), 1.0, "linf", batch, relation)


def positions(table: np.ndarray, event: Sub, rows: int, seed: int) -> np.ndarray:
    """Where a run stops that asks for multiples of the mean of its batch; (R,)."""
    source = mechanisms(event, replicates=2000, seed=seed)
    batch = source.batch(event, table_rows=rows if event.kind == "poisson" else None)
    taken = 1.0 if batch.taken is None else batch.taken
    mean = (table[batch.indices] * taken).sum(axis=1) / batch.divisor(rows)  # type: ignore[index]
    relation: Relation = "add/remove-one" if event.kind == "poisson" else "replace-one"
    return batch.above_threshold(Query((LADDER * mean).T, 1.0, "linf", batch, relation))


def exact(table: np.ndarray, event: Sub) -> np.ndarray:
    """(k + 1,) probabilities of stopping at each value and at none, summed over all batches."""
    n, m = len(table), event.m
    found = np.zeros(len(LADDER) + 1)
    sizes = range(n + 1) if event.kind == "poisson" else (m,)
    q = event.m / event.n
    for size in sizes:
        chance = q**size * (1 - q) ** (n - size) if event.kind == "poisson" else 1 / math.comb(n, m)
        for chosen in combinations(range(n), size):
            found += chance * at(float(table[list(chosen)].sum()) / m)
    return found


@cache
def at(mean: float) -> np.ndarray:
    return stopping(LADDER[:, 0] * mean, FIRST)


ROWS = np.array([1.0, -1.0, 1.0, -1.0])
POISSON = Sub("poisson", 2, 4, P)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("event", "neighbour"), [(S, np.array([-1.0, -1.0, 1.0, -1.0])), (POISSON, ROWS[1:])], ids=["wor", "poisson"]
)
def test_a_threshold_on_a_batch_has_its_law_and_costs_what_the_accountants_say(
    event: Sub, neighbour: np.ndarray
) -> None:
    """Exactly, over all batches: ε, the profile and the Rényi divergence of two neighbours; and the law of the runs."""
    one, two = exact(ROWS, event), exact(neighbour, event)
    assert one.sum() == pytest.approx(1, abs=1e-6)
    assert np.abs(np.log(one / two)).max() <= per_event.pure(event) < P.eps
    profile, orders = per_event.profile(event), np.array([1.5, 2.0, 8.0, 40.0])
    for p, q in ((one, two), (two, one)):
        for epsilon in np.linspace(-0.5, 0.7, 7):
            assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= profile(epsilon) + 1e-7
        divergence = np.log((p ** orders[:, None] * q ** (1 - orders[:, None])).sum(axis=1)) / (orders - 1)
        assert (divergence <= per_event.rdp(event, orders)).all()
        assert (divergence <= orders * per_event.rho(event)).all()
    for seed, (table, law) in enumerate(((ROWS, one), (neighbour, two))):
        counts = np.bincount(positions(table, event, len(table), seed) % len(law), minlength=len(law))
        assert stats.chisquare(counts, law / law.sum() * counts.sum()).pvalue > 1e-3


@pytest.mark.parametrize("inner", [P, Seq((G, G, P)), Seq((Laplace(0.5), P))], ids=str)
def test_every_accountant_has_a_finite_price_or_none(inner: Event) -> None:
    """A line search after a gradient and a Hessian on the same batch: never dearer than without the batch."""
    event = Sub("wor", 10, 1000, inner)
    found = accountants.tightest([event] * 20, 1e-6)
    whole = accountants.tightest([inner] * 20, 1e-6)
    assert found.epsilon < whole.epsilon < math.inf
    assert {"rdp", "pld"} <= found.by_method.keys()
    pure = per_event.pure(inner)
    assert per_event.pure(event) == pytest.approx(closed_forms.amplify(pure, 10, 1000)) or pure == math.inf
    assert (per_event.rho(event) < math.inf) == (per_event.mu(event) < math.inf) == (pure < math.inf)


def test_it_is_charged_when_the_batch_opens_and_released_once() -> None:
    event = Sub("wor", 2, 4, Seq((G, P)))
    source = mechanisms(event)
    batch = source.batch(event, replicates=np.array([0, 2]))
    assert [source._ledger.booked(r) for r in range(3)] == [(event,), (), (event,)]
    with pytest.raises(LedgerError, match="StatedPureDP now"):
        batch.above_threshold(values(batch, 2))
    batch.gaussian(Query(np.zeros((2, 3)), 1.0, "l2", batch))
    before = states(source)
    found = batch.above_threshold(values(batch, 2))
    for i, r in enumerate((0, 2)):
        noise = streams(5, Purpose.NOISE, 3)[r]
        noise.standard_normal(3)
        noise = noise.laplace(size=5)  # type: ignore[assignment]
        accepted = values(None, 2).value[i] + 2 / (1 - FIRST) * noise[1:] >= noise[0] / FIRST
        assert found[i] == (accepted.argmax() if accepted.any() else -1)
    assert states(source)[1] == before[1]
    with pytest.raises(LedgerError, match="declared: \\[\\]"):
        batch.above_threshold(values(batch, 2))
    assert source._ledger.booked(0) == (event,)


WRONG: dict[str, Callable[[Batch], Query]] = {
    "the whole table": lambda batch: values(None),
    "another batch": lambda batch: values(mechanisms(S).batch(S)),
    "norm l2": lambda batch: values(batch)._replace(norm="l2"),
    "other neighbours": lambda batch: values(batch, relation="add/remove-one"),
    "too few replicates": lambda batch: values(batch, 2),
    "a cube": lambda batch: values(batch)._replace(value=np.zeros((3, 2, 2))),
    "no replicates axis": lambda batch: values(batch)._replace(value=np.zeros(3)),
    "a value nan": lambda batch: values(batch)._replace(value=np.full((3, 2), math.nan)),
    "sensitivity nan": lambda batch: values(batch)._replace(sensitivity=math.nan),
    "sensitivity negative": lambda batch: values(batch)._replace(sensitivity=-1.0),
    "two sensitivities": lambda batch: values(batch)._replace(sensitivity=np.ones(2)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_the_batch_draws_nothing_and_uses_nothing_up(wrong: str) -> None:
    source = mechanisms(S)
    batch = source.batch(S)
    before = states(source)
    with pytest.raises(LedgerError):
        batch.above_threshold(WRONG[wrong](batch))
    assert states(source) == before
    assert batch.above_threshold(values(batch)).shape == (3,)


def test_a_filter_counts_the_amplified_price() -> None:
    source = Mechanisms(Ledger(Filter("epsilon", 1.0, {"search": S}), 1), 0)
    price = per_event.pure(S)
    for _ in range(int(1 / price)):
        assert source.affordable(S).all()
        source.batch(S)
    assert not source.affordable(S).any() and source.spent("epsilon")[0] == pytest.approx(int(1 / price) * price)


def test_without_privacy_or_in_a_block_it_works_alike() -> None:
    free = Sub("wor", 2, 4, StatedPureDP(math.inf))
    source = mechanisms(free)
    batch = source.batch(free)
    before = states(source)
    assert batch.above_threshold(values(batch)).tolist() == [-1, 2, 0]
    assert states(source) == before
    event = Parallel((P, P))
    for block in mechanisms(event).blocks(event, 4):
        assert block.above_threshold(values(block)).shape == (3,)
        with pytest.raises(LedgerError, match="declared"):
            block.above_threshold(values(block))
