"""Disjoint blocks: every row in one of them at most, all for the price of the dearest, nothing else released."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from dpviz.privacy.accounting import accountants
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Parallel, Repeat, Seq, Sub
from dpviz.privacy.ledger import BudgetExceeded, FixedEvents, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms, Purpose, streams
from dpviz.privacy.releases import Query
from dpviz.problems.games.simplex_learning import SparseRegression

A, G = Laplace(0.5), Gaussian(0.25)
FOUR = Parallel((A,) * 4)


def mechanisms(*events: Event, replicates: int = 3) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents(events), replicates), seed=2)


def states(of: Mechanisms) -> list:
    return [generator.bit_generator.state for group in (of._noise, of._batches, of.public) for generator in group]


def query(batch: Batch | None = None, norm: str = "l1", replicates: int = 3) -> Query:
    return Query(np.arange(2.0 * replicates).reshape(replicates, 2), 2.0, norm, batch)  # type: ignore[arg-type]


def books(of: Mechanisms) -> list[tuple[Event, ...]]:
    return [of._ledger.booked(r) for r in range(of.replicates)]


# ----------------------------------------------------------------------------------------------------------- which rows


@pytest.mark.parametrize("k", [1, 2, 3, 7, 10, 99, 100])
@pytest.mark.parametrize("n", [100, 101, 1000])
def test_blocks_are_equal_consecutive_and_disjoint(n: int, k: int) -> None:
    event = Parallel((A,) * k)
    opened = mechanisms(event).blocks(event, n)
    assert len(opened) == k and all(block.indices is None for block in opened)
    rows = [np.arange(n)[block.rows] for block in opened]
    assert {len(block) for block in rows} == {n // k}
    assert np.array_equal(np.concatenate(rows), np.arange(n // k * k)), "no gap, no overlap, in order"
    assert all(block.rows.step in (None, 1) and block.rows.stop <= n for block in opened)  # type: ignore[union-attr]


@pytest.mark.parametrize("n", [3, 1, 0])
def test_fewer_rows_than_blocks_are_refused_before_anything_is_booked(n: int) -> None:
    source = mechanisms(FOUR)
    with pytest.raises(LedgerError, match="do not make 4 blocks"):
        source.blocks(FOUR, n)
    assert books(source) == [()] * 3 and len(source.blocks(FOUR, 4)) == 4


def test_blocks_are_fixed_without_a_draw() -> None:
    """Blocks that were chosen at random would be sound as well, but they must not pay for, or shift, anything."""
    source = mechanisms(FOUR)
    before = states(source)
    source.blocks(FOUR, 9)
    assert states(source) == before


# ------------------------------------------------------------------------------------------------------- what is booked


def test_blocks_are_charged_once_when_they_open() -> None:
    source = mechanisms(FOUR, A)
    opened = source.blocks(FOUR, 8)
    assert books(source) == [(FOUR,)] * 3
    for block in opened[:2]:
        block.laplace(query(block))
    assert books(source) == [(FOUR,)] * 3  # two blocks stay unused, and stay paid
    source.laplace(query(), A)
    assert books(source) == [(FOUR, A)] * 3
    with pytest.raises(BudgetExceeded):
        source.blocks(FOUR, 8)


@pytest.mark.parametrize(
    "other", [Parallel((A,) * 3), Parallel((A,) * 5), Parallel((A, A, A, Laplace(0.4))), Parallel((G,) * 4)], ids=str
)
def test_other_blocks_than_planned_are_refused(other: Parallel) -> None:
    source = mechanisms(FOUR)
    with pytest.raises(LedgerError):
        source.blocks(other, 100)
    assert books(source) == [()] * 3


def test_the_price_is_that_of_the_dearest_block() -> None:
    mixed = Parallel((Laplace(0.3), Laplace(0.7), Seq((Laplace(0.2), Laplace(0.2)))))
    source = mechanisms(mixed, FOUR)
    source.blocks(mixed, 9)
    assert source.spent("epsilon") == pytest.approx(np.full(3, 0.7))
    source.blocks(FOUR, 9)
    assert source.spent("epsilon") == pytest.approx(np.full(3, 1.2))
    assert accountants.total((mixed, FOUR), "epsilon") == pytest.approx(1.2)
    gaussian = Parallel((Gaussian(0.3), Seq((Gaussian(0.3), Gaussian(0.4))), Gaussian(0.45)))
    assert accountants.total((gaussian,), "mu") == pytest.approx(0.5)
    assert accountants.total((gaussian,), "rho") == pytest.approx(0.125)
    for delta in (1e-6, 1e-3):
        alone = accountants.tightest((Gaussian(0.5),), delta).epsilon
        assert accountants.tightest((gaussian,), delta).epsilon == pytest.approx(alone, rel=1e-6)


# ----------------------------------------------------------------------------------------------------- what is released


@pytest.mark.parametrize(
    "wrong",
    [
        lambda opened: opened[0].laplace(query(opened[1])),  # computed on another block
        lambda opened: opened[0].laplace(query()),  # computed on the whole table, at the price of a block
        lambda opened: opened[0].laplace(query(mechanisms(FOUR).blocks(FOUR, 8)[0])),  # the first block of another run
        lambda opened: opened[0].laplace(query(opened[0], norm="l2")),
        lambda opened: opened[0].laplace(query(opened[0], replicates=2)),
        lambda opened: opened[0].gaussian(query(opened[0], norm="l2")),
    ],
    ids=["another block", "the whole table", "another run", "norm", "replicates", "distribution"],
)
def test_a_block_releases_what_was_computed_on_it_or_nothing(wrong: Callable[[list[Batch]], object]) -> None:
    source = mechanisms(FOUR)
    opened = source.blocks(FOUR, 8)
    before = states(source)
    with pytest.raises(LedgerError):
        wrong(opened)
    assert states(source) == before
    for block in reversed(opened):  # in any order
        assert block.laplace(query(block)).shape == (3, 2)
        with pytest.raises(LedgerError):
            block.laplace(query(block))


def test_a_block_is_not_released_by_the_whole_table_nor_twice_through_another() -> None:
    source = mechanisms(FOUR, A)
    opened = source.blocks(FOUR, 8)
    with pytest.raises(LedgerError):
        source.batch(A).laplace(query(opened[2]))
    with pytest.raises(LedgerError):
        mechanisms(A).laplace(query(opened[2]), A)
    with pytest.raises(LedgerError, match="selections on batches"):
        mechanisms(ExpMech(1.0)).exponential(query(opened[2], norm="range"), ExpMech(1.0))


def test_inner_events_are_released_in_the_declared_order() -> None:
    event = Parallel((Seq((A, G)), Repeat(G, 2), A))
    source = mechanisms(event)
    first, second, third = source.blocks(event, 10)
    with pytest.raises(LedgerError):
        first.gaussian(query(first, norm="l2"))
    first.laplace(query(first))
    first.gaussian(query(first, norm="l2"))
    for _ in range(2):
        second.gaussian(query(second, norm="l2"))
    third.laplace(query(third))
    for block in (first, second, third):
        for release, norm in ((block.laplace, "l1"), (block.gaussian, "l2")):
            with pytest.raises(LedgerError):
                release(query(block, norm=norm))


def test_the_noise_of_a_block_is_its_own_and_follows_the_replicates_stream() -> None:
    event = Parallel((Laplace(0.5), Laplace(2.0)))
    opened = mechanisms(event).blocks(event, 7)
    noise = [block.laplace(query(block)) - query().value for block in opened]
    for r, generator in enumerate(streams(2, Purpose.NOISE, 3)):
        assert noise[0][r] == pytest.approx(4.0 * generator.laplace(size=2), abs=1e-13)
        assert noise[1][r] == pytest.approx(1.0 * generator.laplace(size=2), abs=1e-13)
    silent = Parallel((Laplace(math.inf), Laplace(1.0)))
    first, second = mechanisms(silent).blocks(silent, 7)
    assert np.array_equal(first.laplace(query(first)), query().value)
    assert (second.laplace(query(second)) != query().value).all()


def test_a_game_on_blocks_declares_the_sensitivity_of_a_block() -> None:
    game = SparseRegression(rows=200, dimension=3).build()
    event = Parallel((G,) * 8)
    x, y = game.facts.uniform(3)
    sums = np.zeros_like(x)
    for block in mechanisms(event).blocks(event, 200):
        asked, _ = game.gradient_queries(x, y, block)  # type: ignore[attr-defined]
        assert asked.batch is block and asked.sensitivity == pytest.approx(game.facts.change_x * math.sqrt(6) / 25)
        assert block.gaussian(asked).shape == (3, 6)
        sums += asked.value / 8
    assert sums == pytest.approx(game.gradients(x, y)[0], abs=1e-13)


# ------------------------------------------------------------------------------------------ blocks are opened as blocks


@pytest.mark.parametrize(
    "event",
    [FOUR, Seq((FOUR,)), Repeat(FOUR, 2), Seq((A, FOUR)), Sub("wor", 4, 10, FOUR), Parallel((A,))],
    ids=["blocks", "in a sequence", "repeated", "after another", "in a batch", "a single one"],
)
def test_the_price_of_one_block_never_pays_for_several_releases_on_the_whole_table(event: Event) -> None:
    source = mechanisms(event)
    before = states(source)
    for act in (lambda: source.batch(event), lambda: source.laplace(query(), event)):
        with pytest.raises(LedgerError):
            act()
    assert states(source) == before and books(source) == [()] * 3


def test_blocks_inside_a_block_are_refused() -> None:
    event = Parallel((A, Parallel((A, A))))
    source = mechanisms(event)
    with pytest.raises(LedgerError, match="inside a block"):
        source.blocks(event, 100)
    assert books(source) == [()] * 3


def test_batches_inside_blocks_cannot_even_be_declared() -> None:
    for inner in (Sub("wor", 1, 5, A), Seq((A, Sub("wor", 1, 5, A))), Repeat(Sub("poisson", 1, 5, A), 2)):
        with pytest.raises(ValueError, match="not supported"):
            Parallel((A, inner))


def test_a_batch_of_random_size_is_not_drawn_as_one_of_fixed_size() -> None:
    """Poisson batches are planned, never drawn: a fixed size would not have the price that was booked."""
    event = Sub("poisson", 3, 9, A)
    source = mechanisms(event)
    before = states(source)
    with pytest.raises(LedgerError):
        source.batch(event)
    assert states(source) == before and books(source) == [()] * 3
