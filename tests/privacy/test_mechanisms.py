"""Mechanisms: charge, then draw, in one act; the noise drawn is the noise declared."""

import hashlib
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import dpviz
from dpviz.privacy.batches import Batch, draw_marks
from dpviz.privacy.events import Event, Gaussian, Laplace, Seq, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms, Purpose, noise_scale, seed_or_random, streams
from dpviz.privacy.releases import Query

A, G, S = Laplace(0.5), Gaussian(0.25), Sub("wor", 4, 10, Laplace(0.5))
SEED = 7


def mechanisms(*events: Event, replicates: int = 3, seed: int = SEED) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents(events), replicates), seed)


def states(of: Mechanisms) -> list:
    return [generator.bit_generator.state for group in (of._noise, of._batches, of.public) for generator in group]


def query(rows: int = 3, sensitivity: float | np.ndarray = 2.0, norm: str = "l1", batch: Batch | None = None) -> Query:
    value = np.arange(rows * 4.0).reshape(rows, 4)
    return Query(value, sensitivity, norm, batch)  # type: ignore[arg-type]


def units(draw: str, replicate: int, count: int, seed: int = SEED) -> np.ndarray:
    return getattr(streams(seed, Purpose.NOISE, replicate + 1)[replicate], draw)(size=count)


# -------------------------------------------------------------------------------------------------- what noise is drawn


@pytest.mark.parametrize(
    ("event", "norm", "draw", "scale"),
    [(Laplace(0.5), "l1", "laplace", 4.0), (Gaussian(0.25), "l2", "standard_normal", 8.0)],
)
def test_the_noise_is_the_declared_scale_times_a_standard_draw(
    event: Event, norm: str, draw: str, scale: float
) -> None:
    source = mechanisms(event)
    asked = query(norm=norm)
    noisy = getattr(source, "laplace" if norm == "l1" else "gaussian")(asked, event)
    assert noise_scale(event, 2.0) == scale
    for r in range(3):
        assert np.array_equal(noisy[r], asked.value[r] + scale * units(draw, r, 4))
    assert source._ledger.booked(0) == (event,)


def test_a_sensitivity_per_replicate_gives_each_its_own_scale() -> None:
    own = np.array([1.0, 0.0, 3.0])
    noisy = mechanisms(A).laplace(query(sensitivity=own), A) - query().value
    for r in range(3):
        assert noisy[r] == pytest.approx(own[r] / 0.5 * units("laplace", r, 4), abs=1e-14)
    with pytest.raises((LedgerError, ValueError)):
        mechanisms(A).laplace(query(sensitivity=np.ones(2)), A)


def test_scalar_and_matrix_queries_get_noise_in_every_entry() -> None:
    for shape in ((), (1,), (2, 3)):
        value = np.zeros((3, *shape))
        noisy = mechanisms(A).laplace(Query(value, 1.0, "l1"), A)
        assert noisy.shape == value.shape and (noisy != 0).all() and len(np.unique(noisy)) == noisy.size


def test_the_scale_of_a_batch_is_that_of_its_one_release() -> None:
    assert noise_scale(S, 3.0) == 6.0
    assert noise_scale(Seq((G,)), 3.0) == 12.0
    assert noise_scale(Laplace(math.inf), 3.0) == 0.0
    with pytest.raises(ValueError):
        noise_scale(Seq((A, A)), 3.0)


def test_infinite_epsilon_draws_nothing_and_adds_nothing() -> None:
    source = mechanisms(Laplace(math.inf), Gaussian(math.inf))
    before = states(source)
    assert np.array_equal(source.laplace(query(), Laplace(math.inf)), query().value)
    assert np.array_equal(source.gaussian(query(norm="l2"), Gaussian(math.inf)), query().value)
    assert states(source) == before


@pytest.mark.parametrize("sensitivity", [math.nan, math.inf, -1.0, np.array([1.0, math.nan, 1.0])], ids=repr)
def test_a_sensitivity_that_bounds_nothing_is_refused(sensitivity: float | np.ndarray) -> None:
    source = mechanisms(A)
    with pytest.raises(LedgerError):
        source.laplace(query(sensitivity=sensitivity), A)


# ---------------------------------------------------------------------------------------------------- charge, then draw


@pytest.mark.parametrize(
    "act",
    [
        lambda source: source.laplace(query(), Laplace(0.4)),
        lambda source: source.gaussian(query(norm="l2"), G),
        lambda source: source.batch(S),
        lambda source: source.laplace(query(2), Laplace(0.4), replicates=np.array([0, 1])),
    ],
)
def test_a_release_outside_the_plan_draws_nothing_and_books_nothing(act: Callable[[Mechanisms], object]) -> None:
    source = mechanisms(A)
    before = states(source)
    with pytest.raises(LedgerError):
        act(source)
    assert states(source) == before
    assert source._ledger.booked(0) == ()


def test_the_hundred_and_first_release_raises_before_any_draw() -> None:
    source = mechanisms(*[A] * 100)
    for _ in range(100):
        source.laplace(query(), A)
    before = states(source)
    with pytest.raises(LedgerError):
        source.laplace(query(), A)
    assert states(source) == before


def test_a_batch_is_charged_in_full_when_it_opens() -> None:
    event = Sub("wor", 4, 10, Seq((A, A, G)))
    source = mechanisms(event)
    source.batch(event)
    assert source._ledger.booked(0) == (event,)  # although nothing has been released


@pytest.mark.parametrize(
    "wrong",
    [
        lambda batch: batch.gaussian(query(norm="l2", batch=batch)),  # not the distribution that was declared
        lambda batch: batch.laplace(query(norm="l2", batch=batch)),  # not the norm that it needs
        lambda batch: batch.laplace(query()),  # computed on all rows, at the price of a batch
        lambda batch: batch.laplace(query(2, batch=batch)),  # not every replicate
        lambda batch: batch.laplace(query(batch=mechanisms(S).batch(S))),  # computed on another batch
    ],
)
def test_a_batch_releases_what_was_declared_or_nothing(wrong: Callable[[Batch], object]) -> None:
    source = mechanisms(S)
    batch = source.batch(S)
    before = states(source)
    with pytest.raises(LedgerError):
        wrong(batch)
    assert states(source) == before
    assert batch.laplace(query(batch=batch)).shape == (3, 4)


def test_a_query_is_released_once() -> None:
    for event in (A, S):
        batch = mechanisms(event).batch(event)
        batch.laplace(query(batch=batch))
        with pytest.raises(LedgerError):
            batch.laplace(query(batch=batch))


def test_several_queries_on_one_batch_come_in_the_declared_order() -> None:
    event = Sub("wor", 4, 10, Seq((A, G)))
    batch = mechanisms(event).batch(event)
    with pytest.raises(LedgerError):
        batch.gaussian(query(norm="l2", batch=batch))
    batch.laplace(query(batch=batch))
    batch.gaussian(query(norm="l2", batch=batch))
    with pytest.raises(LedgerError):
        batch.laplace(query(batch=batch))


def test_a_query_on_a_batch_is_not_released_by_one_on_all_rows() -> None:
    source = mechanisms(S, A)
    batch = source.batch(S)
    with pytest.raises(LedgerError):
        source.laplace(query(batch=batch), A)
    full = mechanisms(A, A)
    first = full.batch(A)
    with pytest.raises(LedgerError):
        full.batch(A).laplace(query(batch=first))


def test_amplification_is_never_charged_for_a_query_on_all_rows() -> None:
    """A batch inside a sequence would be charged as amplified; if no indices are drawn, all rows would be released."""
    hidden = Seq((Sub("wor", 1, 1000, Laplace(5.0)),))
    source = mechanisms(hidden)
    with pytest.raises((LedgerError, TypeError, ValueError)):
        source.laplace(query(), hidden)


@pytest.mark.parametrize("replicates", [[0, 0], [2, -1], [0, 2, 2], np.array([True, False, True])], ids=repr)
def test_numbers_name_each_replicate_at_most_once(replicates: object) -> None:
    """[0, 0] would hand replicate 0 two releases of the same query and charge it for one."""
    source = mechanisms(A)
    with pytest.raises((LedgerError, IndexError, ValueError)):
        source.laplace(query(len(replicates)), A, replicates=replicates)  # type: ignore[arg-type]


def test_no_replicates_at_all_is_an_empty_release() -> None:
    source = mechanisms(A)
    before = states(source)
    assert source.laplace(query(0), A, replicates=np.array([], dtype=int)).shape == (0, 4)
    assert states(source) == before
    assert [source._ledger.booked(r) for r in range(3)] == [()] * 3


# ------------------------------------------------------------------------------------------------------- random streams


def test_a_replicate_draws_the_same_numbers_whatever_the_others_do() -> None:
    wide, narrow = mechanisms(S, A, replicates=9), mechanisms(S, A, replicates=2)
    assert np.array_equal(wide.batch(S).indices[:2], narrow.batch(S).indices)
    assert np.array_equal(wide.laplace(query(9), A)[:2], narrow.laplace(query(2), A))
    zero = query(9)._replace(value=np.zeros((9, 4)))
    alone = mechanisms(A, replicates=9).laplace(zero._replace(value=np.zeros((1, 4))), A, replicates=np.array([5]))
    assert np.array_equal(alone[0], mechanisms(A, replicates=9).laplace(zero, A)[5])


def test_purposes_replicates_and_seeds_have_streams_of_their_own() -> None:
    firsts = [
        generator.random()
        for seed in (0, 1, 2**31 - 1)
        for purpose in Purpose
        for generator in streams(seed, purpose, 50)
    ]
    assert len(set(firsts)) == len(firsts) == 150 * len(Purpose)
    # Independent, not merely different: correlations of 2 000 draws stay within four standard errors.
    draws = np.array([generator.standard_normal(2_000) for purpose in Purpose for generator in streams(0, purpose, 6)])
    correlations = np.corrcoef(draws)[np.triu_indices(6 * len(Purpose), 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(2_000)


@pytest.mark.parametrize("seed", [0, 7, 2**32, 2**64 + 1, 2**127 + 3])
@pytest.mark.parametrize("release", ["", "a method"])
def test_streams_are_those_that_numpy_makes_of_a_seed_and_a_key(seed: int, release: str) -> None:
    words = np.frombuffer(hashlib.sha256(release.encode()).digest(), dtype="<u4").tolist() if release else ()
    for r, generator in enumerate(streams(seed, Purpose.PUBLIC, 3, release)):
        same = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(Purpose.PUBLIC, r, *words)))
        assert generator.bit_generator.state == same.bit_generator.state


def test_compared_releases_share_public_choices_but_neither_noise_nor_batches() -> None:
    """What two releases share must hang on no data: noise would cancel in their difference, and a batch that both name
    is no secret, as amplification by sampling needs."""

    def of(release: str, compared: str) -> tuple[list[float], np.ndarray, np.ndarray, list[float]]:
        source = Mechanisms(Ledger(FixedEvents((S, A)), 3), 0, release=release, compared=compared)
        common, public = ([generator.random() for generator in group] for group in (source.common, source.public))
        indices = source.batch(S).indices
        assert indices is not None
        return common, indices, source.laplace(query(), A), public

    one, other, third = of("one", "together"), of("other", "together"), of("other", "apart")
    assert one[0] == other[0] and len(set(one[0] + third[0])) == 6
    assert not np.array_equal(one[1], other[1]) and not np.isin(one[2], other[2]).any() and one[3] != other[3]
    for mine, its in zip(other[1:], third[1:], strict=True):
        assert np.array_equal(mine, its), "and what is compared changes no release"


def test_sampling_does_not_shift_the_noise() -> None:
    on_batch = mechanisms(S)
    batch = on_batch.batch(S)
    assert np.array_equal(batch.laplace(query(batch=batch)), mechanisms(A).laplace(query(), A))


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    runs = [mechanisms(A, seed=seed).laplace(query(), A) for seed in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.isin(runs[0], runs[2]).any()


@pytest.mark.parametrize(("m", "n"), [(4, 40), (5, 12)], ids=["gathered", "marked"])
def test_batches_are_uniform_sets_of_distinct_rows_and_every_replicate_has_its_own(m: int, n: int) -> None:
    replicates, steps = 200, 10
    event = Sub("wor", m, n, Laplace(1.0))
    source = mechanisms(*[event] * steps, replicates=replicates)
    drawn = np.stack([source.batch(event).indices for _ in range(steps)])  # (steps, R, m)
    assert drawn.min() == 0 and drawn.max() == n - 1
    assert all(len(set(row)) == m for row in drawn.reshape(-1, m).tolist())
    counts = np.bincount(drawn.ravel(), minlength=n)
    # Inclusion counts have variance N q (1-q) n/(n-1) around N q under the constraint that they sum to N m.
    total, share = steps * replicates, m / n
    statistic = ((counts - total * share) ** 2).sum() / (total * share * (1 - share)) * (n - 1) / n
    assert stats.chi2.sf(statistic, n - 1) > 1e-3
    pairs = [frozenset(row) for row in drawn[0].tolist()]
    assert len(set(pairs)) > 150  # of at least 792 possible sets: shared batches would show at once


@pytest.mark.one_in(3)
@pytest.mark.parametrize("m", range(1, 6))
def test_every_set_of_rows_is_as_likely_to_be_marked(m: int) -> None:
    """All sets of m of 6 rows are counted: the law of a batch that is drawn as marks is that of choosing without
    replacement, whatever the bytes came to before they were corrected."""
    draws = 3000
    found = np.concatenate([draw_marks(streams(seed, Purpose.BATCHES, draws // 3), m, 6) for seed in range(3)])
    assert (found.sum(axis=1) == m).all()
    counts = np.bincount(found @ (1 << np.arange(6)), minlength=64)
    sets = [number for number in range(64) if number.bit_count() == m]
    assert counts[sets].sum() == draws and stats.chisquare(counts[sets]).pvalue > 1e-3


def test_a_large_batch_is_marked_and_its_numbers_are_those_of_the_marked_rows() -> None:
    few, many = Sub("wor", 12, 100, Laplace(1.0)), Sub("wor", 13, 100, Laplace(1.0))
    source = mechanisms(few, many)
    small, large = source.batch(few), source.batch(many)
    assert small.marked is None and small.indices is not None and small.indices.shape == (3, 12)
    assert large.marked is not None and large.marked.shape == (3, 100) and not large.marked.flags.writeable
    assert large.indices is not None and not large.indices.flags.writeable
    for marks, numbers in zip(large.marked, large.indices, strict=True):
        assert np.flatnonzero(marks).tolist() == numbers.tolist() and len(numbers) == 13
    for batch in (small, large):
        assert not batch.whole
        with pytest.raises(LedgerError, match="computed on"):
            batch.laplace(query())  # of the whole table


def test_a_full_batch_has_no_indices() -> None:
    assert mechanisms(A).batch(A).indices is None
    assert mechanisms(Seq((A, G))).batch(Seq((A, G))).indices is None


@pytest.mark.parametrize("rows", [4, 60])  # drawn as numbers, and as marks
def test_a_part_of_a_batch_has_the_rows_and_the_releases_of_its_replicates(rows: int) -> None:
    event = Sub("wor", rows, 100, Seq((G, G)))
    source, whole = mechanisms(event, replicates=4), mechanisms(event, replicates=4)
    batch, other = source.batch(event), whole.batch(event)
    indices = other.indices
    assert indices is not None
    asked = query(4, norm="l2")
    first = batch.gaussian(asked._replace(batch=batch))
    assert np.array_equal(first, other.gaussian(asked._replace(batch=other)))
    places = np.array([1, 3])
    part = batch.part(places)
    assert part.replicates.tolist() == [1, 3] and part.divisor(100) == rows
    assert part.indices is not None and np.array_equal(part.indices, indices[places])
    mine = asked._replace(value=asked.value[places], batch=part)
    for wrong in (asked, asked._replace(batch=batch), asked._replace(value=asked.value[places], batch=batch)):
        with pytest.raises(LedgerError):  # what was left went to the part
            batch.gaussian(wrong)
        with pytest.raises(LedgerError, match=r"computed on|replicates"):
            part.gaussian(wrong)
    second = other.gaussian(asked._replace(batch=other))
    assert np.array_equal(part.gaussian(mine), second[places]), "each replicate draws from its own stream"
    with pytest.raises(LedgerError, match="does not allow"):
        part.gaussian(mine)
    unspent = mechanisms(event).batch(event)
    with pytest.raises(LedgerError, match="named twice"):
        unspent.part(np.array([0, 0]))
    assert unspent.check(asked._replace(value=asked.value[:3], batch=unspent), Gaussian, "l2") == G


def test_a_batch_that_is_split_by_replicates_releases_each_of_them_once_with_the_same_noise() -> None:
    asked = query(norm="l2")
    whole, source = mechanisms(G).gaussian(asked, G), mechanisms(G)
    batch = source.batch(G)
    parts = list(batch.split([slice(0, 2), slice(2, 3)]))
    found = np.concatenate([own.gaussian(asked._replace(value=asked.value[part])) for part, own in parts])
    assert np.array_equal(found, whole)
    for part, own in (*parts, (slice(None), batch)):
        with pytest.raises(LedgerError):  # what was paid for has been released
            own.gaussian(asked._replace(value=asked.value[part]))
    with pytest.raises(LedgerError, match="two parts"):
        list(mechanisms(G).batch(G).split([slice(0, 2), slice(1, 3)]))
    with pytest.raises(LedgerError, match="whole table"):
        list(mechanisms(S).batch(S).split([slice(0, 3)]))


def test_a_seed_that_nobody_knows_has_128_random_bits() -> None:
    """Each bit is 0 in some and 1 in others of 64 draws; that one of 128 fair bits is not has a chance of 2⁻⁵⁶."""
    drawn = [seed_or_random(None) for _ in range(64)]
    assert all(any(seed >> bit & 1 == value for seed in drawn) for bit in range(128) for value in (0, 1))
    assert len(set(drawn)) == 64 and seed_or_random(5) == 5
    with pytest.raises(TypeError):
        seed_or_random(1.5)  # type: ignore[arg-type]


def test_whoever_needs_a_seed_that_nobody_knows_takes_it_from_the_one_place() -> None:
    """No module draws one with fewer bits: elsewhere `secrets` makes identities of tables, codes of classes."""
    package = Path(dpviz.__file__).parent
    users = [path for path in package.rglob("*.py") if "import secrets" in path.read_text()]
    assert {path.relative_to(package).as_posix() for path in users} == {
        "datasets/uploads/upload.py",
        "lessons/classroom.py",
        "privacy/mechanisms.py",
    }


@pytest.mark.parametrize("table", [50, 400])
def test_a_row_takes_part_in_a_poisson_batch_with_the_declared_chance_whatever_the_size_of_the_table(
    table: int,
) -> None:
    """m/n of the event: a chance that followed from the rows that there are would tell how many there are."""
    batch = mechanisms(Sub("poisson", 10, 100, Gaussian(0.25)), replicates=500).batch(
        Sub("poisson", 10, 100, Gaussian(0.25)), table_rows=table
    )
    assert batch.taken is not None
    mean, deviation = 0.1 * table, math.sqrt(0.09 * table)
    assert abs(batch.taken.sum() / 500 - mean) < 5 * deviation / math.sqrt(500)
