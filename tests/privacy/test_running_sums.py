"""Leaves and running sums: each row in one leaf, each leaf used once, charged in full at once, noise as declared."""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy import stats

from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Seq, Sub
from dpviz.privacy.ledger import Filter, FixedEvents, Ledger, LedgerError
from dpviz.privacy.matrix_factorisation import Factorisation, binary_tree, honaker_tree, restarted, square_root
from dpviz.privacy.mechanisms import Mechanisms, Purpose, streams
from dpviz.privacy.releases import Query
from dpviz.privacy.running_sums import Leaves, PrefixSums

A, G, S = Laplace(0.5), Gaussian(0.25), Sub("wor", 4, 10, Laplace(0.5))
TREE = binary_tree(3)
SEED = 7


def mechanisms(*events: Event, replicates: int = 3, seed: int = SEED) -> Mechanisms:
    return Mechanisms(Ledger(FixedEvents(events), replicates), seed)


def states(of: Mechanisms) -> list:
    return [generator.bit_generator.state for group in (of._noise, of._batches, of.public) for generator in group]


def opened(
    source: Mechanisms,
    factorisation: Factorisation = TREE,
    sensitivities: float | np.ndarray = 2.0,
    replicates: np.ndarray | None = None,
    event: Event = G,
) -> tuple[Leaves, PrefixSums]:
    """Leaves of two rows each, and running sums of four numbers on them."""
    leaves = source.leaves([2] * factorisation.length, 2 * factorisation.length + 1, replicates)
    return leaves, source.prefix_sums(event, factorisation, leaves, sensitivities, (4,))


def query(batch: Batch | None, sensitivity: float | np.ndarray = 2.0, norm: str = "l2") -> Query:
    rows = 3 if batch is None else len(batch.replicates)
    return Query(np.arange(rows * 4.0).reshape(rows, 4), sensitivity, norm, batch)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------------- leaves


def test_leaves_are_disjoint_and_of_the_sizes_that_were_asked_for() -> None:
    sizes = [5, 1, 3, 1]
    source = mechanisms(G)
    leaves = source.leaves(sizes, 11)
    source.prefix_sums(G, binary_tree(4), leaves, 1.0)
    dealt = [leaves.next() for _ in sizes]
    assert [leaf.indices.shape for leaf in dealt] == [(3, size) for size in sizes]  # type: ignore[union-attr]
    assert [leaf.divisor(11) for leaf in dealt] == sizes == list(leaves.sizes)
    rows = np.concatenate([leaf.indices for leaf in dealt], axis=1)  # type: ignore[misc]
    for r in range(3):
        assert len(set(rows[r])) == 10 and set(rows[r]) < set(range(11))
        assert np.array_equal(rows[r], streams(SEED, Purpose.PUBLIC, 3)[r].permutation(11)[:10])
    assert len({tuple(row) for row in rows}) == 3, "every replicate has an order of its own"


@pytest.mark.slow
def test_every_row_is_as_likely_in_every_leaf() -> None:
    source = mechanisms(G, replicates=4000)
    leaves = source.leaves([2, 3], 6)
    source.prefix_sums(G, binary_tree(2), leaves, 1.0)
    for size in (2, 3):
        counts = np.bincount(leaves.next().indices.ravel(), minlength=6)  # type: ignore[union-attr]
        share = size / 6  # counts of one leaf add up to a constant: their covariance has rank 5
        statistic = ((counts - 4000 * share) ** 2).sum() / (4000 * share * (1 - share)) * 5 / 6
        assert stats.chi2.sf(statistic, 5) > 1e-3


def test_leaves_cost_nothing_and_draw_no_noise() -> None:
    source = mechanisms(G)
    before = states(source)[:6]
    source.leaves([2, 2], 4)
    assert states(source)[:6] == before and source._ledger.booked(0) == ()


@pytest.mark.parametrize("sizes", [[], [0, 1], [-1, 2], [1.0, 2.0], [4, 3], np.array([7])], ids=str)
def test_leaves_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    source = mechanisms(G)
    before = states(source)
    with pytest.raises(LedgerError, match="at most 6"):
        source.leaves(sizes, 6)
    assert states(source) == before


def test_rows_that_move_when_another_is_removed_make_no_leaves() -> None:
    source = mechanisms(Sub("poisson", 4, 10, G), G)
    with pytest.raises(LedgerError, match="added or removed"):
        source.leaves([1, 1], 4)


def test_a_leaf_is_dealt_once_and_only_when_paid_for() -> None:
    source = mechanisms(G, G)
    leaves = source.leaves([2, 2], 4)
    with pytest.raises(LedgerError, match="first"):
        leaves.next()
    source.prefix_sums(G, binary_tree(2), leaves, 1.0)
    with pytest.raises(LedgerError, match="each is used once"):
        source.prefix_sums(G, binary_tree(2), leaves, 1.0)
    with pytest.raises(LedgerError, match="each is used once"):
        source.parallel(Parallel((G, G)), leaves)
    assert source._ledger.booked(0) == (G,)
    leaves.next()
    leaves.next()
    with pytest.raises(LedgerError, match="one more"):
        leaves.next()


def test_leaves_of_another_run_or_number_are_refused_and_book_nothing() -> None:
    source = mechanisms(G)
    with pytest.raises(LedgerError, match="another run"):
        source.prefix_sums(G, TREE, mechanisms(G).leaves([1] * 3, 3), 1.0)
    with pytest.raises(LedgerError, match="2 leaves, and 3"):
        source.prefix_sums(G, TREE, source.leaves([1] * 2, 3), 1.0)
    assert source._ledger.booked(0) == ()


def test_who_skips_a_leaf_has_left() -> None:
    source = mechanisms(G, replicates=6)
    leaves, _ = opened(source, replicates=np.array([5, 0, 3]))
    assert leaves.next().replicates.tolist() == [5, 0, 3]  # type: ignore[union-attr]
    whole = leaves._indices
    second = leaves.next(np.array([3, 5]))
    assert np.array_equal(second.indices, whole[[2, 0], 2:4])  # type: ignore[arg-type]
    for wrong in ([0], [4], [3, 3]):
        with pytest.raises(LedgerError, match="leaf 3"):
            leaves.next(wrong)
    assert np.array_equal(leaves.next().indices, whole[[2, 0], 4:6])  # type: ignore[arg-type]
    with pytest.raises(LedgerError, match="different replicates"):
        source.leaves([1], 1, np.array([1, 1]))


def test_which_rows_a_leaf_or_batch_holds_and_for_whom_cannot_be_changed() -> None:
    leaves, _ = opened(mechanisms(G))
    rows = np.array([0, 2])
    for held in (leaves.next(), leaves.next(rows), mechanisms(S).batch(S, rows)):
        for array in (held.indices, held.replicates):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0  # type: ignore[index]
    rows[0] = 1
    assert held.replicates.tolist() == [0, 2], "the caller's array is the caller's"


# --------------------------------------------------------------------------------------------------------- running sums


def test_running_sums_are_charged_once_and_draw_one_normal_per_step() -> None:
    source = mechanisms(G)
    leaves, sums = opened(source)
    assert source._ledger.booked(0) == (G,) and states(source)[:6] == states(mechanisms(G))[:6]
    assert sums.noise_scale == pytest.approx(np.full(3, math.sqrt(2) * 2.0 / 0.25), rel=1e-15)
    asked = [query(leaves.next()) for _ in range(3)]
    released = np.stack([sums.add(each) for each in asked])
    for r in range(3):
        normals = streams(SEED, Purpose.NOISE, 3)[r].standard_normal(12).reshape(3, 4)
        exact = np.cumsum([asked[0].value[r]] * 3, axis=0)
        expected = exact + math.sqrt(2) * 2.0 / 0.25 * np.array([normals[0], normals[1], normals[1] + normals[2]])
        assert released[:, r] == pytest.approx(expected, rel=1e-14)
    for used in asked:
        with pytest.raises(LedgerError, match="one more"):
            sums.add(used)
    assert source._ledger.booked(0) == (G,)


Wrong = Callable[[Batch], Query]
WRONG: dict[str, Wrong] = {
    "more than declared": lambda leaf: query(leaf, 2.001),
    "more in one replicate": lambda leaf: query(leaf, np.array([2.0, 2.0, 2.1])),
    "sensitivity nan": lambda leaf: query(leaf, math.nan),
    "sensitivity negative": lambda leaf: query(leaf, -1.0),
    "two sensitivities": lambda leaf: query(leaf, np.ones(2)),
    "another norm": lambda leaf: query(leaf, norm="l1"),
    "other neighbours": lambda leaf: query(leaf)._replace(relation="add/remove-one"),
    "too few replicates": lambda leaf: query(leaf)._replace(value=np.zeros((2, 4))),
    "another shape": lambda leaf: query(leaf)._replace(value=np.zeros((3, 1))),
    "the whole table": lambda leaf: query(None),
    "a random batch": lambda leaf: query(mechanisms(S).batch(S)),
    "a leaf of another deck": lambda leaf: query(opened(mechanisms(G))[0].next()),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_running_sums_refuse_what_was_not_declared_before_any_draw(wrong: str) -> None:
    source = mechanisms(G)
    leaves, sums = opened(source)
    leaf, before = leaves.next(), states(source)
    with pytest.raises(LedgerError):
        sums.add(WRONG[wrong](leaf))
    assert states(source) == before
    other_leaves, other = opened(mechanisms(G))
    assert np.array_equal(sums.add(query(leaf)), other.add(query(other_leaves.next())))


def test_a_leaf_is_added_once_and_in_its_turn() -> None:
    leaves, sums = opened(mechanisms(G))
    first, second = leaves.next(), leaves.next()
    with pytest.raises(LedgerError, match="on leaf 1"):
        sums.add(query(second))
    sums.add(query(first))
    with pytest.raises(LedgerError, match="on leaf 2"):
        sums.add(query(first))
    with pytest.raises(LedgerError, match="on leaf 2"):
        sums.add(query(second)._replace(batch=None))
    assert sums.add(query(second)).shape == (3, 4)


def test_a_leaf_of_running_sums_releases_nothing_by_itself() -> None:
    source = mechanisms(G)
    leaves, _ = opened(source)
    leaf = leaves.next()
    before = states(source)
    for release, norm in ((leaf.gaussian, "l2"), (leaf.laplace, "l1"), (leaf.above_threshold, "linf")):
        with pytest.raises(LedgerError, match="does not allow"):
            release(query(leaf, norm=norm))
    assert states(source) == before


@pytest.mark.parametrize(
    ("event", "sensitivities"),
    [(A, 1.0), (S, 1.0), (Seq((G,)), 1.0), (G, math.inf), (G, -1.0), (G, math.nan), (Gaussian(0.3), 1.0)],
    ids=str,
)
def test_running_sums_that_cannot_be_opened_book_nothing(event: Event, sensitivities: float) -> None:
    source = mechanisms(*({event} - {Gaussian(0.3)}))
    leaves = source.leaves([2] * 3, 6)
    with pytest.raises(LedgerError):
        source.prefix_sums(event, TREE, leaves, sensitivities)
    assert source._ledger.booked(0) == ()
    with pytest.raises(LedgerError, match="first"):  # nor are the leaves used up
        leaves.next()


def test_a_leaf_costs_its_own_sensitivity_and_infinite_mu_adds_nothing() -> None:
    """Leaf 1 is in two blocks of a tree of three, the others in one; each replicate may have its own sensitivities."""
    sensitivities = np.array([[1.0, 1.0, 1.0], [1.0, 3.0, 1.0]])
    _, sums = opened(mechanisms(G), sensitivities=sensitivities, replicates=np.array([0, 2]))
    assert sums.noise_scale == pytest.approx(np.array([math.sqrt(2), 3.0]) / 0.25, rel=1e-15)
    free = mechanisms(Gaussian(math.inf))
    leaves, sums = opened(free, event=Gaussian(math.inf))
    before, asked = states(free), query(leaves.next())
    assert np.array_equal(sums.add(asked), asked.value)
    assert states(free) == before


def test_a_replicate_gets_the_same_sums_whoever_else_takes_part_and_who_leaves_draws_nothing() -> None:
    alone = mechanisms(G, replicates=5)
    leaves, sums = opened(alone, restarted(TREE, 2), replicates=np.array([4]))
    expected = [sums.add(query(leaves.next())._replace(value=np.ones((1, 4)))) for _ in range(6)]
    source = mechanisms(G, replicates=5)
    leaves, sums = opened(source, restarted(TREE, 2), replicates=np.array([1, 4, 0]))
    for step, rows in enumerate(([1, 4, 0], [1, 4, 0], [4, 1], [4], [4], [4])):
        before = states(source)
        leaf = leaves.next(rows)
        found = sums.add(query(leaf)._replace(value=np.ones((len(rows), 4))))
        assert np.array_equal(found[rows.index(4)], expected[step][0])
        moved = {r for r in range(5) if states(source)[r] != before[r]}
        assert moved == set(rows)
    assert [source._ledger.booked(r) for r in range(5)] == [(G,), (G,), (), (), (G,)]


def test_a_filter_pays_for_running_sums_in_full_when_they_open() -> None:
    source = Mechanisms(Ledger(Filter("mu", 0.5, {"sums": G}), 2), SEED)
    for _ in range(3):
        opened(source, replicates=np.array([1]))
    assert source.spent("mu") == pytest.approx([0.0, math.sqrt(3) * 0.25])
    opened(source)
    with pytest.raises(LedgerError):
        opened(source)
    assert source.affordable(G).tolist() == [True, False]


# ------------------------------------------------------------------------------------------------ restarted; one row


def test_restarted_sums_begin_anew_with_fresh_noise() -> None:
    count, single = 4000, binary_tree(3)
    source = mechanisms(G, replicates=count)
    leaves = source.leaves([1] * 6, 6)
    sums = source.prefix_sums(G, restarted(single, 2), leaves, 0.25, ())
    released = np.stack([sums.add(Query(np.ones(count), 0.25, "l2", leaves.next())) for _ in range(6)], axis=1)
    noise = released - np.tile([1.0, 2.0, 3.0], 2)
    sigma = math.sqrt(2)
    expected = sigma**2 * np.kron(np.eye(2), single.decoder() @ single.decoder().T)
    deviation = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / count)
    # 21 entries: one of them leaves 4.5 standard errors once in 7 000 seeds.
    assert (np.abs(noise.T @ noise / count - expected) < 4.5 * deviation).all()
    assert source._ledger.booked(0) == (G,), "one event for both sums"
    plan = restarted(single, 2)
    assert sums.noise_scale == pytest.approx(plan.sensitivity(0.25) / 0.25)


@pytest.mark.parametrize("method", [binary_tree, honaker_tree, square_root], ids=lambda method: method.__name__)
def test_replacing_any_row_moves_one_leaf_and_no_more_than_was_paid_for(method: Callable[[int], Factorisation]) -> None:
    """All n rows, replaced one by one by the opposite: the queries behind the released sums, weighed as C weighs them,
    move by at most μ σ; for some row by just that."""
    length, times, n = 4, 2, 20
    factorisation = restarted(method(length), times)
    sizes = [4, 1, 2, 2] * times
    table = np.sign(np.random.default_rng(0).standard_normal(n))
    declared = 2 / np.array(sizes)

    def leaf_means(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        source = mechanisms(G)
        leaves = source.leaves(sizes, n)
        sums = source.prefix_sums(G, factorisation, leaves, declared)
        dealt = [leaves.next() for _ in sizes]
        return np.stack([table[leaf.indices].mean(axis=1) for leaf in dealt]), sums.noise_scale  # type: ignore[index]

    before, scale = leaf_means(table)
    largest = np.zeros(3)
    for row in range(n):
        changed = table.copy()
        changed[row] *= -1
        moved = leaf_means(changed)[0] - before
        assert ((moved != 0).sum(axis=0) <= 1).all()
        largest = np.maximum(largest, np.linalg.norm(factorisation.encoder() @ moved, axis=0))
    assert largest == pytest.approx(G.mu * scale, rel=1e-12)
    assert scale == pytest.approx(method(length).sensitivity(declared[:length]) / G.mu, rel=1e-12)


def test_leaves_that_shared_a_row_would_cost_more() -> None:
    """Two decks have orders of their own, so a row may be in a leaf of each: sums over both are refused."""
    source = mechanisms(G)
    mine, sums = opened(source)
    other = source.leaves([2] * 3, 7)
    other._open([None] * 3)
    sums.add(query(mine.next()))
    other.next()
    with pytest.raises(LedgerError, match="on leaf 2"):
        sums.add(query(other.next()))


# ------------------------------------------------------------------------------------------- releases leaf by leaf


def test_parallel_leaves_release_their_own_part_and_are_paid_for_once() -> None:
    event = Parallel((A, Seq((G, A)), A))
    source = mechanisms(event)
    leaves = source.leaves([1, 2, 1], 4, np.array([0, 2]))
    source.parallel(event, leaves)
    assert [source._ledger.booked(r) for r in range(3)] == [(event,), (), (event,)]
    first = leaves.next()
    noisy = first.laplace(query(first, norm="l1"))
    for i, r in enumerate((0, 2)):
        unit = streams(SEED, Purpose.NOISE, 3)[r].laplace(size=4)
        assert np.array_equal(noisy[i], query(first).value[i] + 4.0 * unit)
    with pytest.raises(LedgerError, match="does not allow"):
        first.laplace(query(first, norm="l1"))
    second = leaves.next(np.array([2]))
    with pytest.raises(LedgerError, match="computed on"):
        second.gaussian(query(second)._replace(batch=first))
    assert second.gaussian(query(second)).shape == (1, 4)
    assert second.laplace(query(second, norm="l1")).shape == (1, 4)
    with pytest.raises(LedgerError, match="different ones"):
        leaves.next(np.array([0]))


@pytest.mark.parametrize("event", [Seq((A, A)), A, Parallel((Parallel((A,)), A)), Parallel((A,))], ids=str)
def test_parallel_leaves_need_one_plain_part_each(event: Event) -> None:
    source = mechanisms(event)
    with pytest.raises(LedgerError):
        source.parallel(event, source.leaves([1, 1], 2))  # type: ignore[arg-type]
    assert source._ledger.booked(0) == ()


# ------------------------------------------------------------------------------------------------------- public streams


def test_the_shared_stream_is_the_same_for_any_number_of_replicates_and_shares_nothing_with_the_others() -> None:
    one, many = mechanisms(replicates=1), mechanisms(replicates=7)
    drawn = one.shared.random(8)
    assert np.array_equal(drawn, many.shared.random(8))
    others = [generator.random(8) for group in (many._noise, many._batches, many.public) for generator in group]
    assert not any(np.isin(drawn, other).any() for other in others)
    for seed, release in product((SEED, SEED + 1), ("a", "b")):
        other = Mechanisms(Ledger(FixedEvents(()), 1), seed, release=release).shared.random(8)
        assert not np.isin(drawn, other).any()
    public = Mechanisms(Ledger(FixedEvents(()), 1), SEED, Purpose.FACTS)
    assert np.array_equal(public.shared.random(8), drawn), "what is public is so whatever the noise is for"
