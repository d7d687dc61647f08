"""The generators: reproducible, independent of global state, and equal to the numbers published for them."""

import numpy as np
import pytest

from dpviz.datasets import (
    BundledTable,
    CorrelatedLogistic,
    Dataset,
    HeavyTailed,
    PaperLogistic,
    Saddle,
    UniformLogistic,
)
from tests.counting import counted

GENERATORS = [UniformLogistic, PaperLogistic, CorrelatedLogistic, HeavyTailed]


def objective(features: np.ndarray, labels: np.ndarray, x: np.ndarray, regularisation: float = 0.01) -> float:
    return float(np.logaddexp(0.0, -labels * (features @ x)).mean() + regularisation * x @ x)


def minimiser(features: np.ndarray, labels: np.ndarray, regularisation: float = 0.01) -> np.ndarray:
    """The minimiser of the mean logistic loss + regularisation ‖x‖², by Newton's method from 0."""
    n, d = features.shape
    x = np.zeros(d)
    for _ in range(12):
        slope = 1.0 / (1.0 + np.exp(labels * (features @ x)))
        gradient = -features.T @ (labels * slope) / n + 2.0 * regularisation * x
        hessian = (features.T * (slope * (1.0 - slope))) @ features / n + 2.0 * regularisation * np.eye(d)
        x = x - np.linalg.solve(hessian, gradient)
    return x


def minimum(data: Dataset) -> tuple[float, np.ndarray]:
    x = minimiser(data.features, data.labels)
    return objective(data.features, data.labels, x), x


def test_default_problem_has_the_published_facts() -> None:
    # families/accelerated/THEORY.md, section 6: F* = 0.55668, E0 = ln 2 - F* = 0.13647, ‖x*‖ = 2.695
    value, x = minimum(UniformLogistic().load())
    assert value == pytest.approx(0.55668, abs=6e-6)
    assert np.log(2.0) - value == pytest.approx(0.13647, abs=6e-6)
    assert np.linalg.norm(x) == pytest.approx(2.695, abs=6e-4)


def test_first_rows_of_the_paper_have_the_published_facts() -> None:
    # preset P3, fast equivalent: E0 = F(10 · 1) - F* = 29.34, F* = 0.28586
    data = PaperLogistic().load()
    value, _ = minimum(data)
    assert value == pytest.approx(0.28586, abs=6e-6)
    assert objective(data.features, data.labels, np.full(20, 10.0)) - value == pytest.approx(29.34, abs=6e-3)


def test_full_size_of_the_paper_has_the_published_facts() -> None:
    # preset P3: 10.2 % negative labels, E0 = 29.51, largest L1 norm 16.0, λ_max(UᵀU/n) + 0.02 = 5.1001
    full = PaperLogistic(rows=100_000).load()
    value, _ = minimum(full)
    assert (full.labels < 0).mean() == pytest.approx(0.102, abs=5e-4)
    assert objective(full.features, full.labels, np.full(20, 10.0)) - value == pytest.approx(29.51, abs=6e-3)
    assert full.features.sum(axis=1).max() == pytest.approx(16.0, abs=0.05)
    largest = np.linalg.eigvalsh(full.features.T @ full.features / 100_000)[-1]
    assert largest + 0.02 == pytest.approx(5.1001, abs=6e-5)
    assert np.array_equal(full.features, np.random.RandomState(1).rand(20, 100_000).T)
    first = PaperLogistic(rows=10_000).load()
    assert np.array_equal(first.features, full.features[:10_000])
    assert np.array_equal(first.labels, full.labels[:10_000])


def test_health_insurance_has_the_published_facts() -> None:
    # preset P5: declared ranges to [-1/2, 1/2], constant column 1/2, λ = 0.01: F* = .61769, E0 = .0755; .001: .59964
    data = BundledTable(table="health_insurance").load()
    low, high = np.array(data.facts.bounds).T
    features = np.column_stack([(data.features - low) / (high - low) - 0.5, np.full(data.facts.n, 0.5)])
    for regularisation, expected in ((0.01, 0.61769), (0.001, 0.59964)):
        x = minimiser(features, data.labels, regularisation)
        assert objective(features, data.labels, x, regularisation) == pytest.approx(expected, abs=6e-6)
    assert (data.labels > 0).mean() == pytest.approx(0.688, abs=5e-4)


@pytest.mark.parametrize("generator", GENERATORS)
def test_same_settings_same_rows_whatever_numpy_drew_before(generator: type) -> None:
    first = generator(rows=500, dimension=3).load()
    np.random.seed(12345)
    state = np.random.get_state(legacy=False)["state"]["key"].copy()
    second = generator(rows=500, dimension=3).load()
    assert np.array_equal(first.features, second.features) and np.array_equal(first.labels, second.labels)
    assert np.array_equal(np.random.get_state(legacy=False)["state"]["key"], state)


@pytest.mark.parametrize("generator", GENERATORS)
def test_another_seed_is_another_data_set(generator: type) -> None:
    first, second = (generator(rows=500, dimension=3, seed=seed).load() for seed in (367, 368))
    assert not np.array_equal(first.labels, second.labels)


def test_uniform_labels_follow_the_model() -> None:
    # Labels in ten bins of the true probability: each share within 5 standard errors.
    n, d, seed = 200_000, 5, 3
    data = UniformLogistic(rows=n, dimension=d, signal=6.0, seed=seed).load()
    generator = np.random.default_rng(seed)
    assert np.array_equal(data.features, generator.random((n, d)))
    probability = 1.0 / (1.0 + np.exp(-(data.features - 0.5) @ (6.0 * generator.standard_normal(d))))
    for part in np.array_split(np.argsort(probability), 10):
        p = probability[part]
        error = np.sqrt((p * (1.0 - p)).sum()) / len(part)
        assert abs((data.labels[part] > 0).mean() - p.mean()) < 5.0 * error


def test_correlation_is_the_declared_one_and_makes_the_problem_ill_conditioned() -> None:
    # Cutting at ±3 moves a correlation by less than 0.005; the sampling error is (1 - r²)/√n < 0.001.
    data = CorrelatedLogistic(rows=100_000, dimension=10, correlation=0.9).load()
    correlations = np.corrcoef(data.features.T)[np.triu_indices(10, 1)]
    assert np.abs(correlations - 0.9).max() < 0.01
    spectrum = np.linalg.eigvalsh(np.cov(data.features.T))
    assert spectrum[-1] / spectrum[0] == pytest.approx((1 + 9 * 0.9) / 0.1, rel=0.1)


def test_heavy_tails_are_clipped_at_the_declared_bound() -> None:
    # P(|Cauchy| > b) = 1 - (2/π) arctan b; the share of clipped entries within 5 standard errors.
    for bound in (1.0, 5.0, 100.0):
        data = HeavyTailed(rows=50_000, dimension=4, bound=bound).load()
        clipped, p = (np.abs(data.features) == bound).mean(), 1.0 - 2.0 / np.pi * np.arctan(bound)
        assert abs(clipped - p) < 5.0 * np.sqrt(p * (1.0 - p) / 200_000)


def test_a_wider_bound_only_uncovers_values() -> None:
    narrow, wide = (HeavyTailed(rows=2000, dimension=3, bound=bound).load() for bound in (2.0, 50.0))
    assert np.array_equal(narrow.features, wide.features.clip(-2.0, 2.0))
    assert np.array_equal(narrow.labels, wide.labels)


def test_rows_that_take_long_to_draw_come_in_parts_and_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    data = HeavyTailed(rows=700, dimension=3)
    (whole, labels), drawn = data.raw_rows({}), np.random.default_rng(data.seed).standard_cauchy((700, 3))
    assert (whole == drawn).all()
    monkeypatch.setattr("dpviz.checkpoints.LONGEST", 1e-6)  # 13 rows
    (again, same), count = counted(lambda: data.raw_rows({}))
    assert count > 50
    assert (again == whole).all() and (same == labels).all()


def test_a_saddle_has_two_sides_and_is_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """families/second_order/THEORY.md, section 2.2, in one go: signs, sizes, normal numbers."""
    data, generator = Saddle(rows=1000, dimension=4, seed=3), np.random.default_rng(3)
    sides, sizes = generator.choice([-1.0, 1.0], 1000), generator.uniform(0.6, 1.0, 1000)
    expected = 0.9 * np.sqrt((1 - 0.85**2) / 4) * generator.standard_normal((1000, 4))
    expected[:, 0] += 0.85 * sizes * sides
    expected /= np.maximum(1, np.linalg.norm(expected, axis=1))[:, None]
    features, labels = data.raw_rows({})
    np.testing.assert_allclose(features, expected, rtol=1e-12)
    assert np.array_equal(labels, sides) and np.linalg.norm(features, axis=1).max() <= 1 + 1e-12
    monkeypatch.setattr("dpviz.checkpoints.LONGEST", 1e-6)
    (again, _), count = counted(lambda: data.raw_rows({}))
    assert count > 50 and np.array_equal(again, features)
