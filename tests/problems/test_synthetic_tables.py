"""Synthetic tables: rows keep to the released histogram far better than independent draws, and errors are named."""

import math

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets.categories import CategoricalFacts, CategoricalGenerator
from dpviz.datasets.uploads.parsing import OTHER
from dpviz.errors import UserError
from dpviz.problems.games.marginals import SEED, MarginalQueries, Marginals, other_mask, synthetic_table, table_errors

SURVEY = MarginalQueries().marginals()
WITH_OTHER = CategoricalFacts(100, (("a", ("x", "y", OTHER)), ("b", ("0", "1")), ("c", ("p", "q", OTHER))))


def shares_of(kind: str, size: int = 480) -> np.ndarray:
    """Histograms that are concentrated, even, regular along the columns, or of a few points."""
    generator = np.random.default_rng(3)
    return {
        "concentrated": generator.dirichlet(np.full(size, 0.1)),
        "even": generator.dirichlet(np.full(size, 20.0)),
        "uniform": np.full(size, 1 / size),
        "points": np.bincount(generator.integers(0, size, 40), minlength=size) / 40,
    }[kind]


@pytest.mark.parametrize("rows", [1, 7, 96, 1000, 10_000])
@pytest.mark.parametrize("kind", ["concentrated", "even", "uniform", "points"])
def test_every_combination_occurs_as_often_as_released(kind: str, rows: int) -> None:
    """Each count is its mean rounded up or down, so nothing occurs that was not released; the sum is exact."""
    shares = shares_of(kind)
    table = synthetic_table(SURVEY, shares, rows)
    assert table.rows == rows and (np.abs(table.counts - rows * shares) < 1 + 1e-9).all()
    assert not table.counts[shares == 0].any()
    found = np.abs(SURVEY.answers((table.counts / rows)[None]) - SURVEY.answers(shares[None])).max()
    assert table.added == pytest.approx(found, abs=1e-15)


@pytest.mark.parametrize("kind", ["concentrated", "even", "uniform"])
@pytest.mark.parametrize("rows", [500, 10_000])
def test_rows_add_far_less_error_than_independent_draws(kind: str, rows: int) -> None:
    """Independent draws: the worst of the 127 cells is off by at least half a standard deviation of a cell of share
    0.2, and by less than the bound √(ln(2q/β)/2m) in all but a share β of cases."""
    shares, generator = shares_of(kind), np.random.default_rng(0)
    independent = np.array([generator.multinomial(rows, shares) / rows for _ in range(20)]) - shares
    errors = np.abs(SURVEY.answers(independent)).max(axis=1)
    assert (errors < math.sqrt(math.log(2 * SURVEY.queries / 0.001) / (2 * rows))).all()
    assert synthetic_table(SURVEY, shares, rows).added < 0.2 * errors.min()


def test_rows_are_public_randomness_and_repeat_themselves() -> None:
    """The generator is not one that a run may have: seeds that are set are below 2^31."""
    assert SEED >= 2**31
    one, two = (synthetic_table(SURVEY, shares_of("even"), 300) for _ in range(2))
    assert np.array_equal(one.counts, two.counts)
    domain = CategoricalGenerator().facts()
    frame = one.frame(domain)
    assert isinstance(frame, pd.DataFrame) and len(frame) == 300
    codes = np.stack([frame[name].cat.codes for name, _ in domain.columns], axis=1).astype(int)
    points = np.ravel_multi_index(tuple(codes.T), domain.sizes)
    assert np.array_equal(np.bincount(points, minlength=480), one.counts)
    assert not np.array_equal(points, np.sort(points))  # the first rows are a table, too


def test_other_occurs_as_often_as_released_or_not_at_all() -> None:
    marginals, other = Marginals(WITH_OTHER, 2), other_mask(WITH_OTHER)
    assert other.sum() == 18 - 2 * 2 * 2
    assert not other_mask(CategoricalGenerator().facts()).any()
    shares = np.random.default_rng(0).dirichlet(np.ones(18))
    released = synthetic_table(marginals, shares, 5000)
    assert released.counts[other].sum() / 5000 == pytest.approx(shares[other].sum(), abs=2e-3)
    without = synthetic_table(marginals, shares, 5000, without_other=True)
    assert not without.counts[other].any() and without.rows == 5000
    conditioned = np.where(other, 0.0, shares) / shares[~other].sum()
    assert (np.abs(without.counts - 5000 * conditioned) < 1 + 1e-9).all()
    assert without.added >= np.abs(marginals.answers((conditioned - shares)[None])).max() - 2e-3
    with pytest.raises(UserError, match="Every released row has it"):
        synthetic_table(marginals, np.where(other, 1 / other.sum(), 0.0), 10, without_other=True)


def test_the_worst_tables_are_named() -> None:
    marginals = Marginals(WITH_OTHER, 2)
    truth = np.full(marginals.queries, 0.1)
    answers = truth.copy()
    answers[marginals.cells.index("b=1, c=q")] += 0.05
    answers[marginals.cells.index("a=y, b=0")] -= 0.02
    worst, second, last = table_errors(marginals, truth, answers)
    assert (worst.columns, worst.cell) == ("b × c", "b=1, c=q") and worst.worst == pytest.approx(0.05)
    assert worst.synthetic == pytest.approx(0.15) and worst.truth == 0.1 and worst.mean == pytest.approx(0.05 / 6)
    assert (second.columns, second.cell) == ("a × b", "a=y, b=0") and second.worst == pytest.approx(0.02)
    assert last.columns == "a × c" and last.worst == 0
