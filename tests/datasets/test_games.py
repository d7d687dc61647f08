"""Signs in bits: the same products as dense matrices; and the generator draws what its population says."""

import math

import numpy as np
import pytest

from dpviz.datasets import synthetic
from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.specification import Specification

RANGES = [None, slice(0, 1), slice(3, 9), slice(5, 64), slice(64, None), slice(60, 131), slice(63, 65)]


def dense(signs: Signs) -> np.ndarray:
    return signs.columns(slice(None))


def random_signs(generator: np.random.Generator, n: int, d: int) -> tuple[np.ndarray, Signs]:
    matrix = np.where(generator.random((n, d)) < 0.4, -1.0, 1.0)
    return matrix, Signs.pack(matrix.T < 0)


@pytest.mark.parametrize("n", [1, 7, 63, 64, 65, 130, 200])
def test_packing_keeps_every_sign_and_needs_one_bit_for_it(n: int) -> None:
    matrix, signs = random_signs(np.random.default_rng(n), n, 5)
    assert signs.d == 5 and signs.n == n and signs.words.nbytes == 5 * 8 * math.ceil(n / 64)
    assert (dense(signs) == matrix).all() and dense(signs).dtype == np.float64
    chosen = np.array([4, 0, 4])
    part = signs.columns(chosen, slice(0, n), np.float32)
    assert part.dtype == np.float32 and (part == matrix[:, chosen]).all()


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("rows", RANGES, ids=str)
def test_packed_products_equal_dense_ones(rows: slice | None, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if small:  # every loop over blocks runs more than once
        for name in ("_ENTRIES", "_WORDS", "_PRODUCT_ENTRIES"):
            monkeypatch.setattr(synthetic, name, 150)
    generator = np.random.default_rng(1)
    a, own = random_signs(generator, 150, 40)
    b, other = random_signs(generator, 150, 23)
    part = slice(None) if rows is None else rows
    vertices = generator.permutation(23)[:19]
    crossed = own.cross(other, vertices, rows)
    assert crossed.dtype == np.int32 and (crossed == b[part][:, vertices].T @ a[part]).all()
    weights = generator.normal(size=(3, 40)) * (generator.random((3, 40)) < 0.5)
    assert own.mix(weights, rows) == pytest.approx(weights @ a[part].T, abs=1e-12)
    values = generator.normal(size=(3, len(a[part])))
    assert own.inner(values, rows) == pytest.approx(values @ a[part], abs=1e-12)
    assert (own.mean_products(other) == a.T @ b / 150).all(), "integers, so exact"


def test_products_without_vertices_or_weight_are_empty_or_zero() -> None:
    _, signs = random_signs(np.random.default_rng(2), 70, 4)
    assert signs.cross(signs, np.array([], dtype=np.intp)).shape == (0, 4)
    mixed = signs.mix(np.zeros((2, 4)))
    assert (mixed == 0).all() and mixed.shape == (2, 70)


@pytest.mark.parametrize("rows", [slice(0, 10, 2), slice(5, 5), slice(90, None), slice(None, None, -1)], ids=str)
def test_rows_must_be_a_range(rows: slice) -> None:
    _, signs = random_signs(np.random.default_rng(3), 70, 4)
    with pytest.raises(ValueError, match="not a range of rows"):
        signs.span(rows)


def test_counts_beyond_sixteen_bits_do_not_overflow() -> None:
    n = 70_001
    all_minus, all_plus = Signs.pack(np.ones((1, n), dtype=bool)), Signs.pack(np.zeros((1, n), dtype=bool))
    assert all_minus.cross(all_plus, np.array([0])).item() == -n
    assert all_minus.mean_products(all_minus).item() == 1.0


@pytest.mark.parametrize("structure", ["needle", "hide_seek"])
def test_records_have_the_population_that_is_stated(structure: str) -> None:
    data = LatentGame(structure=structure, rows=20_011, strategies_x=31, strategies_y=22, seed=5)  # type: ignore[arg-type]
    u, v = data.load()
    of_x, of_y = data.population()
    population = of_x @ of_y.T
    a, b = data.means()
    classes = np.equal.outer(np.arange(31) % data.classes, np.arange(22) % data.classes)
    assert (population == np.outer(a, b) * classes).all()
    # 682 means of 20 011 signs: the largest deviation exceeds 5 standard errors with probability 4e-4.
    limit = 5 / math.sqrt(data.rows)
    assert np.abs(u.mean_products(v) - population).max() < limit
    for signs, means in ((u, a), (v, b)):
        d = len(means)
        within = np.equal.outer(np.arange(d) % data.classes, np.arange(d) % data.classes)
        expected = np.where(np.eye(d) == 1, 1.0, np.outer(means, means) * within)
        assert np.abs(signs.mean_products(signs) - expected).max() < limit
        assert np.abs(dense(signs).mean(axis=0)).max() < limit, "the hidden signs are fair"


def test_values_of_the_stated_equilibria() -> None:
    of_x, of_y = LatentGame(strategies_x=50, strategies_y=60).population()
    payoffs = of_x @ of_y.T
    assert payoffs[0, 0] == -0.2 == payoffs[0].max() == payoffs[:, 0].min(), "a pure saddle point"
    of_x, of_y = LatentGame(structure="hide_seek", strategies_x=50, strategies_y=60).population()
    x, y = np.zeros(50), np.zeros(60)
    x[:3] = y[:3] = 1 / 3
    assert (of_y @ (of_x.T @ x)).max() == pytest.approx(0.03) == (of_x @ (of_y.T @ y)).min()


def test_the_needle_is_the_opposite_of_the_hidden_sign() -> None:
    u, _ = LatentGame(rows=500, strategies_x=4, strategies_y=4).load()
    products = u.mean_products(u)[0, 1:]
    assert (np.abs(products + 0.5) < 5 / math.sqrt(500)).all()


def test_fair_signs_are_independent_of_everything() -> None:
    data = LatentGame(rows=20_011, strategies_x=31, strategies_y=22)
    p, q = data.fair_signs()
    u, v = data.load()
    limit = 5 / math.sqrt(data.rows)
    for first, second in ((p, q), (p, u), (p, v), (q, u), (q, v)):
        assert np.abs(first.mean_products(second)).max() < limit
    assert np.abs(p.mean_products(p) - np.eye(31)).max() < limit
    assert np.abs(dense(p).mean(axis=0)).max() < limit


def test_data_depend_on_the_seed_and_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    data = LatentGame(structure="hide_seek", rows=333, strategies_x=17, strategies_y=9, seed=7)
    tables = (*data.load(), *data.fair_signs())
    wider = data.replaced(strategies_x=40, strategies_y=10)
    for signs, more in zip(tables, (*wider.load(), *wider.fair_signs()), strict=True):
        assert (signs.words == more.words[: signs.d]).all(), "the first strategies keep their data"
    other = data.replaced(seed=8)
    for signs, changed in zip(tables, (*other.load(), *other.fair_signs()), strict=True):
        assert (signs.words != changed.words).any()
    monkeypatch.setattr(synthetic, "_ENTRIES", 1000)
    for signs, again in zip(tables, (*data.load(), *data.fair_signs()), strict=True):
        assert (signs.words == again.words).all(), "the size of a block"


def test_settings_survive_their_text_and_keep_their_ranges() -> None:
    data = LatentGame(structure="hide_seek", rows=77, strategies_x=3)
    assert Specification.from_json(data.to_json()) == data
    for field, value in (("rows", 1), ("rows", 10**9 + 1), ("strategies_x", 1), ("strategies_y", 10**6 + 1)):
        with pytest.raises(ValueError):
            LatentGame(**{field: value})
    assert {control.name for control in LatentGame.controls()} == set(LatentGame.model_fields)
