"""Products with noisy matrices: one matrix of noise, of the right law, paid for once."""

import numpy as np
import pytest
from scipy import stats

from dpviz.privacy.events import Gaussian, Laplace
from dpviz.privacy.ledger import FixedEvents, Ledger, LedgerError
from dpviz.privacy.matrix_products import MatrixProducts, MatrixQuery
from dpviz.privacy.mechanisms import Mechanisms

G = Gaussian(0.5)


def opened(
    matrices: np.ndarray,
    sensitivity: float = 0.1,
    event: Gaussian = G,
    seed: int = 3,
    replicates: list[int] | None = None,
) -> tuple[MatrixProducts, Ledger]:
    ledger = Ledger(FixedEvents((event,)), len(matrices) if replicates is None else max(replicates) + 1)
    query = MatrixQuery(lambda v: np.einsum("rij,rj->ri", matrices, v), matrices.shape[-1], sensitivity)
    return Mechanisms(ledger, seed).matrix_products(query, event, replicates), ledger


def noise_of(products: MatrixProducts, replicates: int, directions: np.ndarray) -> np.ndarray:
    """E (R, d, d) of matrices that are 0, from its products with d independent directions (d, d), one after another."""
    found = [products.times(np.tile(v, (replicates, 1))) for v in directions]
    return np.einsum("kri,kj->rij", found, np.linalg.inv(directions).T)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("basis", ["unit", "any"])
def test_the_noise_is_one_symmetric_matrix_whose_diagonal_has_twice_the_variance(basis: str) -> None:
    directions = np.eye(5) if basis == "unit" else np.random.default_rng(0).standard_normal((5, 5))
    products, _ = opened(np.zeros((4000, 5, 5)))
    assert products.noise_scale == 0.2
    noise = noise_of(products, 4000, directions) / 0.2
    assert np.abs(noise - noise.transpose(0, 2, 1)).max() < 1e-9
    diagonal, off = noise[:, range(5), range(5)], noise[:, *np.triu_indices(5, 1)]
    assert diagonal.var() == pytest.approx(1.0, rel=0.04)  # 20,000 numbers: 1 % standard deviation
    assert off.var() == pytest.approx(0.5, rel=0.03)  # 40,000
    both = np.column_stack([diagonal / 1, off * np.sqrt(2)])
    correlations = np.corrcoef(both.T) - np.eye(15)
    assert np.abs(correlations).max() < 5 / np.sqrt(4000)
    assert stats.kstest(both.ravel(), "norm").pvalue > 1e-3


def test_directions_that_were_asked_before_get_no_fresh_noise() -> None:
    generator = np.random.default_rng(1)
    matrices = generator.standard_normal((3, 6, 6))
    matrices += matrices.transpose(0, 2, 1)
    products, _ = opened(matrices, sensitivity=2.0)
    u, v, w = generator.standard_normal((3, 3, 6))
    one, two = products.times(u), products.times(v)
    assert products.times(u) == pytest.approx(one, abs=1e-12)
    assert products.times(2 * u - v) == pytest.approx(2 * one - two, abs=1e-12)
    mixed = u.copy()
    mixed[1] = w[1]  # new for one replicate only
    found = products.times(mixed)
    assert found[[0, 2]] == pytest.approx(one[[0, 2]], abs=1e-12)
    assert (found[1] * u[1]).sum() == pytest.approx((one[1] * w[1]).sum(), rel=1e-9), "symmetric"
    for _ in range(6):
        products.times(generator.standard_normal((3, 6)))
    last = generator.standard_normal((3, 6))
    assert products.times(last) == pytest.approx(products.times(last), abs=1e-12)
    assert products._basis.shape[1] <= 7, "no more directions than there are"
    gram = np.einsum("rki,rli->rkl", products._basis, products._basis)
    assert np.abs(gram - np.round(gram)).max() < 1e-13


def test_nearly_equal_directions_do_not_tell_what_no_noise_has_covered() -> None:
    """The difference of two products along v and v + hu, h just above or below what counts as rounding, is a product
    along u: with as much noise as any other, or without anything of the matrix."""
    generator = np.random.default_rng(2)
    matrix, v, u = np.diag(generator.uniform(-1, 1, 6))[None], np.eye(6)[:1], np.eye(6)[1:2]
    for h in (9e-14, 2e-13, 1e-9):
        differences = []
        for seed in range(20):
            products, _ = opened(matrix, sensitivity=5.0, seed=seed)
            before = products.times(v)
            differences.append(((products.times(v + h * u) - before) / h)[0, 1])
        spread = np.std(differences)
        assert np.allclose(differences, 0) or spread > 5, "the entry with its noise of 10, or nothing of it"


def test_products_in_any_order_have_the_law_of_a_whole_noisy_matrix() -> None:
    """families/second_order/THEORY.md, section 3.6: the smallest eigenvalue after d products, chosen as
    by Lanczos, against that with dense noise."""
    d, draws, spectrum = 12, 800, np.array([-0.4, *np.linspace(0, 0.3, 11)])
    products, _ = opened(np.tile(np.diag(spectrum), (draws, 1, 1)), sensitivity=0.025)
    v = np.ones((draws, d)) / np.sqrt(d)
    basis, images = [], []
    for _ in range(d):
        image = products.times(v)
        basis.append(v)
        images.append(image)
        v = image.copy()
        for _ in range(2):
            for q in basis:
                v -= (v * q).sum(axis=1, keepdims=True) * q
        v /= np.linalg.norm(v, axis=1, keepdims=True)
    lazy = np.linalg.eigvalsh(np.einsum("krd,lrd->rkl", basis, images))[:, 0]
    noise = 0.05 * np.random.default_rng(0).standard_normal((draws, d, d))
    dense = np.linalg.eigvalsh(np.diag(spectrum) + (noise + noise.transpose(0, 2, 1)) / 2)[:, 0]
    assert stats.ks_2samp(lazy, dense).pvalue > 1e-3


def test_it_is_charged_once_before_anything_is_drawn_and_refused_otherwise() -> None:
    products, ledger = opened(np.zeros((2, 3, 3)))
    products.times(np.ones((2, 3)))
    products.times(np.eye(3)[:2])
    assert all(list(ledger.booked(r)) == [G] for r in range(2))
    for bad in (np.ones((1, 3)), np.ones((2, 4)), np.full((2, 3), np.nan)):
        with pytest.raises(LedgerError):
            products.times(bad)
    query = MatrixQuery(lambda v: np.full_like(v, np.inf), 3, 1.0)
    run = Mechanisms(Ledger(FixedEvents((G,)), 2), 0)
    with pytest.raises(LedgerError, match="finite"):
        run.matrix_products(query._replace(sensitivity=np.nan), G)
    with pytest.raises(LedgerError, match="Gaussian"):
        run.matrix_products(query, Laplace(1.0))
    with pytest.raises(LedgerError, match="holds under"):
        run.matrix_products(query._replace(relation="add/remove-one"), G)
    assert run.affordable(G).all(), "refused before it was charged"
    with pytest.raises(LedgerError, match="finite"):
        run.matrix_products(query, G).times(np.ones((2, 3)))
    with pytest.raises(LedgerError):
        run.matrix_products(query, G)


def test_replicates_draw_the_same_whoever_else_is_there_and_without_privacy_nothing() -> None:
    matrices, v = np.zeros((3, 4, 4)), np.random.default_rng(2).standard_normal((2, 3, 4))
    together, _ = opened(matrices)
    alone, _ = opened(matrices[:1], replicates=[2])
    for direction in v:
        assert together.times(direction)[2] == pytest.approx(alone.times(direction[2:])[0], rel=1e-12)
    exact, _ = opened(np.tile(np.eye(4), (3, 1, 1)), event=Gaussian(np.inf))
    assert np.array_equal(exact.times(v[0]), v[0])
