"""Poisson batches: what the planner plans under add/remove-one is what is drawn, and no row moves it further."""

import math
from functools import partial

import numpy as np
import pytest
from scipy import stats

from dpviz.datasets import UniformLogistic
from dpviz.errors import UserError
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import ApproximateDP, PureDP, RenyiDP
from dpviz.privacy.events import Event, Gaussian, Laplace, Parallel, Seq, Sub
from dpviz.privacy.ledger import Filter, FixedEvents, Ledger, LedgerError
from dpviz.privacy.mechanisms import Mechanisms, Purpose, noise_scale, streams
from dpviz.privacy.releases import Query
from dpviz.privacy.statistics.noisy_means import NoisyMeans
from dpviz.problems.linear.linear_models import LogisticProblem, LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

M, N, SEED = 8, 40, 11
ROWS, BATCH = 500, 50  # of the problem
SPECIFICATION = LogisticRegression(data=UniformLogistic(rows=ROWS, dimension=3), clip=0.4)


def sampled(inner: Event, m: int = M, n: int = N) -> Sub:
    return Sub("poisson", m, n, inner)


def opened(event: Event, replicates: int = 3, table_rows: int | None = N, seed: int = SEED) -> Batch:
    return Mechanisms(Ledger(FixedEvents((event,)), replicates), seed).batch(event, table_rows=table_rows)


# ------------------------------------------------------------------------------------------------ who is in the batch


@pytest.mark.slow
def test_sizes_are_binomial_and_every_row_takes_part_alike_and_by_itself() -> None:
    replicates = 20_000
    batch = opened(sampled(Laplace(1.0)), replicates)
    assert batch.indices is not None and batch.taken is not None and batch.indices.shape == batch.taken.shape
    sizes = batch.taken.sum(axis=1)
    law = stats.binom(N, M / N)
    values = np.arange(2, 16)
    observed = np.append((sizes[:, None] == values).sum(axis=0), ((sizes < 2) | (sizes > 15)).sum())
    expected = np.append(law.pmf(values), 1 - law.pmf(values).sum()) * replicates
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3
    present = np.zeros((replicates, N), dtype=bool)
    for r in range(replicates):
        chosen = batch.indices[r, batch.taken[r]]
        assert len(set(chosen.tolist())) == len(chosen)
        present[r, chosen] = True
    share = M / N
    # Standard errors of a share and, of independent rows, of a correlation; 40 rows and 780 pairs.
    assert np.abs(present.mean(axis=0) - share).max() < 4 * math.sqrt(share * (1 - share) / replicates)
    correlations = np.corrcoef(present.T)[np.triu_indices(N, 1)]
    assert np.abs(correlations).max() < 4.5 / math.sqrt(replicates)


def test_a_replicate_draws_its_batch_whatever_the_others_do() -> None:
    wide, narrow = opened(sampled(Laplace(1.0)), 9), opened(sampled(Laplace(1.0)), 2)
    for r in range(2):
        rows = [batch.indices[r, batch.taken[r]].tolist() for batch in (wide, narrow)]  # type: ignore[index]
        assert rows[0] == rows[1]
    single = Mechanisms(Ledger(FixedEvents((sampled(Laplace(1.0)),)), 9), SEED)
    alone = single.batch(sampled(Laplace(1.0)), replicates=np.array([5]), table_rows=N)
    assert alone.indices[0, alone.taken[0]].tolist() == wide.indices[5, wide.taken[5]].tolist()  # type: ignore[index]


def test_a_gradient_does_not_depend_on_the_other_replicates_batches() -> None:
    problem, x = SPECIFICATION.build(), np.random.default_rng(0).normal(size=(9, 3))
    event = sampled(Laplace(1.0), BATCH, ROWS)
    wide, narrow = opened(event, 9, ROWS), opened(event, 2, ROWS)
    several = problem.mean_gradient(x, wide, "l1").value[:2]
    assert several == pytest.approx(problem.mean_gradient(x[:2], narrow, "l1").value, rel=1e-13)


@pytest.mark.slow
def test_a_table_smaller_than_declared_has_smaller_batches_and_an_empty_one_none() -> None:
    """Neighbours have different numbers of rows; the event is the same."""
    event = sampled(Laplace(1.0), m=20)
    sizes = opened(event, 4000, table_rows=10).taken.sum(axis=1)  # type: ignore[union-attr]
    assert abs(sizes.mean() - 5) < 4 * math.sqrt(2.5 / 4000)
    empty = opened(event, table_rows=0)
    assert empty.indices is not None and empty.indices.shape == (3, 0)


# ----------------------------------------------------------------------------------------------- what it releases


@pytest.mark.one_in(3)
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("settings", [{}, {"clip": None}, {"clip_norm": "l2"}, {"clipping": "rows"}], ids=str)
def test_no_row_that_comes_or_goes_moves_the_gradient_by_more_than_declared(norm: str, settings: dict) -> None:
    """Batches are coupled row by row: with the row in the batch or without it, and all else the same."""
    specification = SPECIFICATION.replaced(**settings)
    whole = specification.build()
    generator, most = np.random.default_rng(1), 0.0
    event = sampled(Laplace(1.0) if norm == "l1" else Gaussian(1.0), BATCH, ROWS)
    for trial in range(100):
        x = generator.standard_normal((4, 3)) * 10.0 ** generator.uniform(-2, 3, (4, 1))
        batch = opened(event, 4, ROWS, trial)
        assert batch.indices is not None and batch.taken is not None
        with_row = whole.mean_gradient(x, batch, norm)  # type: ignore[arg-type]
        bound = specification.facts().gradient_bound(norm) / BATCH  # type: ignore[arg-type]
        assert with_row.sensitivity == bound and with_row.relation == "add/remove-one"
        lost = batch.taken.copy()
        lost[:, 0] = False  # the first row of each batch was never there
        batch.taken = lost
        change = with_row.value - whole.mean_gradient(x, batch, norm).value  # type: ignore[arg-type]
        size = np.abs(change).sum(axis=1) if norm == "l1" else np.linalg.norm(change, axis=1)
        assert (size <= bound * (1 + 1e-12)).all()
        most = max(most, float(size.max() / bound))
    assert most > 0.4  # it is reached, or nearly: no row of these data lies in a corner of the box


def test_the_sum_is_divided_by_the_declared_size_whatever_was_drawn() -> None:
    problem = SPECIFICATION.build()
    x = np.zeros((50, 3))
    batch = opened(sampled(Laplace(1.0), BATCH, ROWS), 50, ROWS)
    assert batch.indices is not None and batch.taken is not None and len(set(batch.taken.sum(axis=1))) > 3
    found = problem.mean_gradient(x, batch, "l1").value
    caps = np.ones(ROWS) if problem._caps is None else problem._caps
    each = -np.minimum(0.5, caps)[:, None] * problem._rows  # at x = 0 every slope is ½
    for r in range(50):
        assert found[r] == pytest.approx(each[batch.indices[r, batch.taken[r]]].sum(axis=0) / BATCH, abs=1e-15)
    # Its mean over batches is the mean gradient of all rows: unbiased.
    many = opened(sampled(Laplace(1.0), BATCH, ROWS), 4000, ROWS)
    mean = problem.mean_gradient(np.zeros((4000, 3)), many, "l1").value.mean(axis=0)
    spread = np.sqrt((each**2).sum(axis=0) * (BATCH / ROWS) * (1 - BATCH / ROWS) / BATCH**2 / 4000)
    assert (np.abs(mean - each.mean(axis=0)) < 4.5 * spread).all()


@pytest.mark.parametrize(
    ("budget", "noise"),
    [
        (ApproximateDP(epsilon=1.0, delta=1e-6), "gaussian"),
        (RenyiDP(epsilon=1.0, order=8.0), "gaussian"),
        (PureDP(epsilon=2.0), "laplace"),
    ],
)
def test_what_the_planner_plans_is_what_is_drawn(budget: object, noise: str) -> None:
    means = NoisyMeans(rows=ROWS, batch_fraction=BATCH / ROWS, iterations=4, sampling="poisson", noise=noise, clip=0.4)  # type: ignore[arg-type]
    events = means.events(budget)  # type: ignore[arg-type]
    specification = SPECIFICATION.replaced(clip_norm="l1" if noise == "laplace" else "l2")
    problem, x = specification.build(), np.zeros((3, 3))
    source = Mechanisms(Ledger(FixedEvents(events), 3), SEED)
    units = streams(SEED, Purpose.NOISE, 3)
    for event in events:
        batch = source.batch(event, table_rows=ROWS)
        query = problem.mean_gradient(x, batch, "l1" if noise == "laplace" else "l2")
        assert query.sensitivity == pytest.approx(means.sensitivity, rel=1e-15)
        released = batch.laplace(query) if noise == "laplace" else batch.gaussian(query)
        scale = means.noise_scale(budget)  # type: ignore[arg-type]
        assert noise_scale(event, means.sensitivity) == scale
        for r in range(3):
            draw = units[r].laplace(size=3) if noise == "laplace" else units[r].standard_normal(size=3)
            assert released[r] == pytest.approx(query.value[r] + scale * draw, rel=1e-12, abs=1e-12)
    assert source._ledger.booked(0) == events


# --------------------------------------------------------------------------------------------- two kinds of neighbours


def test_relations_are_never_mixed() -> None:
    poisson, wor, whole = sampled(Gaussian(1.0)), Sub("wor", M, N, Gaussian(1.0)), Gaussian(1.0)
    with pytest.raises(UserError, match="do not compose"):
        Ledger(FixedEvents((poisson, wor)), 1)
    with pytest.raises(UserError, match="do not compose"):
        Ledger(Filter("mu", 3.0, {"one": Seq((poisson,)), "other": wor}), 1)
    problem, x = Quadratic(rows=N, dimension=2).build(), np.zeros((1, 2))
    for events, relation in (((poisson, whole), "add/remove-one"), ((wor, whole), "replace-one")):
        source = Mechanisms(Ledger(FixedEvents(events), 1), 0)
        assert source._ledger.relation == relation
        batch = source.batch(events[0], table_rows=N if relation == "add/remove-one" else None)
        query = problem.mean_gradient(x, batch, "l2")
        other = "replace-one" if relation == "add/remove-one" else "add/remove-one"
        with pytest.raises(LedgerError, match=relation):
            batch.gaussian(query._replace(relation=other))
        assert batch.gaussian(query).shape == (1, 2)
        rest = Query(np.zeros((1, 2)), 1.0, "l2")  # stated for replace-one, as everything is unless it says otherwise
        if relation == "replace-one":
            source.gaussian(rest, whole)
        else:
            with pytest.raises(LedgerError, match="add/remove-one"):
                source.batch(whole).gaussian(rest)


def test_poisson_batches_need_the_table_and_others_do_not_take_it() -> None:
    event = sampled(Laplace(1.0))
    for act in (
        partial(opened, event, table_rows=None),
        partial(opened, Laplace(1.0)),
        partial(opened, Sub("wor", 2, 9, event.inner)),
    ):
        with pytest.raises(LedgerError, match="number of rows"):
            act()
    blocks = Parallel((Laplace(1.0),) * 2)
    with pytest.raises(LedgerError, match="other blocks"):
        Mechanisms(Ledger(FixedEvents((event, blocks)), 1), 0).blocks(blocks, N)


def test_a_batch_of_all_rows_under_add_and_remove_has_half_the_sensitivity_of_an_exchange() -> None:
    whole, poisson = Gaussian(1.0), sampled(Gaussian(1.0), BATCH, ROWS)
    problem: LogisticProblem = SPECIFICATION.build()
    values = []
    for events in ((whole,), (whole, poisson)):
        batch = Mechanisms(Ledger(FixedEvents(events), 2), 0).batch(whole)
        values.append(problem.mean_gradient(np.zeros((2, 3)), batch, "l2").sensitivity)
    assert values[0] == 2 * values[1]
