"""What methods of second order read from a symmetric matrix: packed entries, lowest eigenpair, trust-region step."""

import numpy as np
import pytest

from dpviz.problems.nonconvex.symmetric import lanczos, packed, smallest_eigenpair, trust_region_step, unpacked
from tests.counting import counted


def matrices(spectra: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Symmetric matrices (R, d, d) of these eigenvalues (R, d), and their eigenvectors."""
    bases = np.linalg.qr(np.random.default_rng(seed).standard_normal((*spectra.shape, spectra.shape[1])))[0]
    return np.einsum("rij,rj,rkj->rik", bases, spectra, bases), bases


@pytest.mark.parametrize("shape", ["goe", "upper"])
def test_packing_is_an_isometry_or_shrinks(shape: str) -> None:
    chosen = np.random.default_rng(0).standard_normal((3, 5, 5))
    chosen += chosen.transpose(0, 2, 1)
    vectors = packed(chosen, shape)
    assert vectors.shape == (3, 15)
    assert unpacked(vectors, shape) == pytest.approx(chosen, rel=1e-15)
    frobenius, found = np.linalg.norm(chosen, axis=(1, 2)), np.linalg.norm(vectors, axis=1)
    assert found == pytest.approx(frobenius) if shape == "goe" else (found <= frobenius).all()
    noise = unpacked(np.random.default_rng(1).standard_normal((4000, 15)), shape)
    assert np.array_equal(noise, noise.transpose(0, 2, 1))
    ratio = noise[:, range(5), range(5)].var() / noise[:, *np.triu_indices(5, 1)].var()
    assert ratio == pytest.approx(2 if shape == "goe" else 1, rel=0.05)  # 20,000 and 40,000 numbers: 1.2 % sd


def test_the_lowest_eigenvector_does_not_go_uphill() -> None:
    chosen, bases = matrices(np.tile([-0.5, 0.1, 2.0], (40, 1)))
    gradients = np.random.default_rng(1).standard_normal((40, 3))
    values, directions = smallest_eigenpair(chosen, gradients)
    assert values == pytest.approx(np.full(40, -0.5))
    slopes = (directions * gradients).sum(axis=1)
    assert (slopes < 0).all() and slopes == pytest.approx(-np.abs((bases[:, :, 0] * gradients).sum(axis=1)))


def cases() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Names, spectra (R, d), gradients in the eigenbasis (R, d): inside, on the border, and hard."""
    source = np.random.default_rng(2)
    random = source.standard_normal((60, 5)) * 10.0 ** source.uniform(-3, 1, (60, 1))
    gradients = source.standard_normal((60, 5)) * 10.0 ** source.uniform(-6, 1, (60, 1))
    hard = gradients.copy() / 100
    hard[:, 0] = 0.0
    nearly = hard + np.eye(5)[0] * 10.0 ** -source.integers(8, 40, (60, 1))
    negative = np.sort(random, axis=1) - np.abs(random).max(axis=1, keepdims=True)
    twice = negative.copy()
    twice[:, 1] = twice[:, 0]
    return [
        ("any", random, gradients),
        ("convex", np.abs(random) + 1e-3, gradients),
        ("singular", negative - negative.min(axis=1, keepdims=True), gradients),
        ("hard", negative, hard),
        ("nearly hard", negative, nearly),
        ("hard twice", twice, hard),
        ("flat", random, np.zeros((60, 5))),
        ("nothing", np.zeros((1, 5)), np.zeros((1, 5))),
    ]


@pytest.mark.parametrize("name, spectra, along", cases(), ids=[case[0] for case in cases()])
def test_a_trust_region_step_solves_its_subproblem(name: str, spectra: np.ndarray, along: np.ndarray) -> None:
    """The conditions of Moré and Sorensen, which are necessary and sufficient for a global minimum."""
    spectra = np.sort(spectra, axis=1)
    chosen, bases = matrices(spectra)
    gradients = np.einsum("rij,rj->ri", bases, along)
    values, vectors = np.linalg.eigh(chosen)
    radius = 0.3
    steps, multipliers = trust_region_step(values, vectors, gradients, radius)
    lengths = np.linalg.norm(steps, axis=1)
    residual = np.einsum("rij,rj->ri", chosen, steps) + multipliers[:, None] * steps + gradients
    scale = 1 + np.abs(spectra).max(axis=1) + np.linalg.norm(gradients, axis=1)
    assert (np.abs(residual).max(axis=1) / scale).max() <= 1e-8
    assert lengths.max() <= radius * (1 + 1e-9)
    assert (multipliers >= 0).all() and (multipliers + values[:, 0] >= -1e-12 * scale).all()
    assert (multipliers * (radius - lengths) <= 1e-8 * scale).all()
    if "hard" in name:
        assert lengths == pytest.approx(np.full(len(steps), radius), rel=1e-9)
    assert (lengths < 0.99 * radius).any() == (name in ("convex", "flat", "nothing")), "inside or on the border"


def test_lanczos_finds_the_smallest_eigenvalue_from_a_few_products() -> None:
    spectra = np.tile([-0.4, *np.linspace(0, 1, 79)], (3, 1))
    chosen, bases = matrices(spectra)
    asked = []

    def times(v: np.ndarray) -> np.ndarray:
        asked.append(v)
        return np.einsum("rij,rj->ri", chosen, v)

    starts = np.random.default_rng(4).standard_normal((3, 80))
    values, lowest, vectors = lanczos(times, starts, 25, 0.01)
    assert len(asked) == 25 and values == pytest.approx(np.full(3, -0.4), abs=1e-6) and (values >= -0.4 - 1e-12).all()
    assert np.abs((vectors * bases[:, :, 0]).sum(axis=1)) == pytest.approx(np.ones(3), abs=1e-5)
    assert (lowest <= values).all() and lowest == pytest.approx(np.full(3, -0.4), abs=0.01)
    assert counted(lambda: lanczos(times, starts, 25, 0.01))[1] == 25, "a checkpoint before each product"
    few = np.tile([0.3, 0.3, 0.5, 2.0], (3, 1))
    chosen, _ = matrices(few)
    values, lowest, vectors = lanczos(times, starts[:, :4], 25, 0.01)
    assert (lowest == values).all() and values == pytest.approx(np.full(3, 0.3)), (
        "where three products say it all, nothing else is made up"
    )
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("spectrum", ["gap", "edge", "cluster"])
def test_the_bound_of_lanczos_is_below_the_smallest_eigenvalue_as_often_as_said(spectrum: str) -> None:
    """6,000 starts, 12 products, four standard errors."""
    rest = {"gap": np.linspace(0, 1, 79), "edge": np.linspace(-0.99, 1, 79), "cluster": np.full(79, -0.9)}[spectrum]
    eigenvalues, runs, failure = np.concatenate([[-1.0], rest]), 6000, 0.05
    starts = np.random.default_rng(2).standard_normal((runs, 80))
    values, lowest, _ = lanczos(lambda v: v * eigenvalues, starts, 12, failure)
    assert (values >= -1 - 1e-12).all() and (lowest <= values).all()
    assert (lowest > -1 + 1e-12).mean() <= failure + 4 * np.sqrt(failure / runs)
    assert np.median(lowest) > -1.6, "and not far below"


def test_twenty_products_do_not_settle_fifteen_hundred_columns_and_the_bound_says_so() -> None:
    spectrum = np.linspace(-0.43, 0.43, 1500)
    starts = np.random.default_rng(3).standard_normal((4, 1500))
    values, lowest, _ = lanczos(lambda v: v * spectrum, starts, 20, 1e-4)
    assert (values > -0.43 * 0.998).all() and values.mean() > -0.43 * 0.995 and (lowest < -0.43).all()
    values, lowest, _ = lanczos(lambda v: v * spectrum, starts, 160, 1e-4)
    assert (lowest <= -0.43).all() and (lowest > -0.433).all() and (values < -0.4297).all()
