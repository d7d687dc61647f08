"""Prefix sums: A = B C holds, sensitivities are those of brute force, the noise has the covariance that is claimed."""

import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

from dpviz.errors import UserError
from dpviz.privacy import optimal_sums
from dpviz.privacy.matrix_factorisation import (
    Factorisation,
    binary_tree,
    honaker_tree,
    independent,
    normalised_square_root,
    restarted,
    square_root,
    tree_nodes,
)
from dpviz.privacy.optimal_sums import optimal_mean

Method = Callable[[int], Factorisation]
METHODS: list[Method] = [independent, binary_tree, honaker_tree, square_root, normalised_square_root, optimal_mean]
LENGTHS = [1, 2, 3, 7, 8, 16, 31, 100]
EVERY = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)


def ones(length: int) -> np.ndarray:
    return np.tril(np.ones((length, length)))


def drawing(normals: np.ndarray) -> Callable[[], np.ndarray]:
    """Hands out normals (R, T, ...) step by step."""
    steps: Iterator[np.ndarray] = iter(np.moveaxis(normals, 1, 0))
    return lambda: next(steps)


def streamed(factorisation: Factorisation, normals: np.ndarray) -> np.ndarray:
    return np.stack(list(factorisation.stream(drawing(normals))), axis=1)


def nuclear_bound(length: int, leaves: np.ndarray) -> float:
    """A lower bound for the mean variance at μ = 1, from weights found by plain iteration with dense decompositions.

    Any q gives one: (‖A diag(s q)‖_* / ‖q‖)² / T, by duality.
    """
    q = np.full(length, length**-0.5)
    bound = 0.0
    for _ in range(400):
        _, singular, right = np.linalg.svd(ones(length) * (leaves * q))
        bound = max(bound, (singular.sum() / np.linalg.norm(q)) ** 2 / length)
        q = np.sqrt(singular @ right**2 / singular.sum())
    return float(bound)


# ---------------------------------------------------------------------------------------------------- published numbers


def test_squared_columns_of_the_tree_and_of_the_square_root_match_the_vectors() -> None:
    assert [binary_tree(length).sensitivity() ** 2 for length in (100, 1024)] == pytest.approx([7, 11], rel=1e-15)
    found = [square_root(length).sensitivity() ** 2 for length in (100, 1000)]
    assert found == pytest.approx([2.53135211264, 3.26500308067], rel=1e-9)


def test_largest_error_of_a_thousand_prefixes() -> None:
    found = [method(1000).rms_error().max() for method in (square_root, binary_tree, independent)]
    assert found == pytest.approx([3.2650, math.sqrt(10 * 9), math.sqrt(1000)], abs=5e-5)


@pytest.mark.parametrize(
    ("length", "method", "largest", "mean", "mean_std"),
    [
        (8, independent, 8, 4.5, 2.038),
        (8, binary_tree, 12, 6.5, 2.494),
        (8, square_root, 2.953, 2.515, 1.581),
        (8, normalised_square_root, 2.473, 2.276, 1.506),
        (8, optimal_mean, 2.674, 2.233, 1.492),
        (16, binary_tree, 20, 10.3125, 3.132),
        (16, square_root, 3.779, 3.229, 1.791),
        (16, normalised_square_root, 3.180, 2.921, 1.706),
        (16, optimal_mean, 3.447, 2.854, 1.688),
        (64, independent, 64, 32.5, 5.393),
        (64, binary_tree, 42, 21.109, 4.494),
        (64, square_root, 5.707, 4.971, 2.223),
        (64, normalised_square_root, 4.892, 4.527, 2.124),
        (64, optimal_mean, 5.301, 4.409, 2.099),
        (256, binary_tree, 72, 36.035, 5.899),
        (256, square_root, 8.015, 7.122, 2.663),
        (256, normalised_square_root, 6.996, 6.540, 2.554),
        (256, optimal_mean, 7.555, 6.373, 2.524),
    ],
)
def test_variances_of_all_prefixes(length: int, method: Method, largest: float, mean: float, mean_std: float) -> None:
    error = method(length).rms_error()
    assert error.dtype == np.float64 and error.shape == (length,)
    assert [(error**2).max(), (error**2).mean(), error.mean()] == pytest.approx([largest, mean, mean_std], abs=6e-4)


def test_square_root_is_the_square_root() -> None:
    root = square_root(64)
    assert np.allclose(root.encoder() @ root.encoder(), ones(64), rtol=0, atol=1e-13)
    assert np.allclose(root.decoder(), root.encoder(), rtol=0, atol=1e-13)
    totals = [square_root(length).column_norms[0] ** 2 for length in (16, 64, 256)]
    assert totals == pytest.approx([1.94388, 2.38885, 2.83105], abs=5e-6)


def test_tree_nodes_are_the_binary_digits() -> None:
    assert tree_nodes(5) == ((1, 4), (5, 5))
    assert tree_nodes(6) == ((1, 4), (5, 6))
    assert tree_nodes(7) == ((1, 4), (5, 6), (7, 7))
    assert tree_nodes(8) == ((1, 8),)
    for t in range(1, 201):
        nodes = tree_nodes(t)
        assert [i for first, last in nodes for i in range(first, last + 1)] == list(range(1, t + 1))
        assert len(nodes) == t.bit_count()
        assert nodes[-1] == (t - (t & -t) + 1, t)  # a block ends at every t: no prefix goes out without fresh noise


@pytest.mark.parametrize("length", [8, 16, 31, 64])
def test_honakers_tree_has_the_variance_of_its_blocks_and_costs_less_than_all_of_them(length: int) -> None:
    tree = honaker_tree(length)
    variance = [
        sum(2**h / (2 ** (h + 1) - 1) for h in range(t.bit_length()) if t >> h & 1) for t in range(1, length + 1)
    ]
    assert tree.row_norms**2 == pytest.approx(variance, rel=1e-12)
    # The table of the published mechanism, which releases every block: 8.952, 13.857, 16.438, 26.568.
    published = max(variance) * length.bit_length()
    assert 0.85 * published < (tree.rms_error() ** 2).max() < 0.9 * published


# -------------------------------------------------------------------------------------------------------------- algebra


@EVERY
@pytest.mark.parametrize("length", LENGTHS)
def test_the_factors_are_lower_triangular_multiply_to_ones_and_have_the_norms_they_claim(
    method: Method, length: int
) -> None:
    factorisation = method(length)
    encoder, decoder = factorisation.encoder(), factorisation.decoder()
    assert factorisation.length == length
    assert np.array_equal(encoder, np.tril(encoder)) and np.array_equal(decoder, np.tril(decoder))
    assert np.allclose(decoder @ encoder, ones(length), rtol=0, atol=1e-13)
    assert np.linalg.norm(encoder, axis=0) == pytest.approx(factorisation.column_norms, rel=1e-13)
    assert np.linalg.norm(decoder, axis=1) == pytest.approx(factorisation.row_norms, rel=1e-13)


@EVERY
@pytest.mark.parametrize("length", [7, 8, 16, 31])
def test_the_columns_are_what_the_prefix_sums_alone_reveal(method: Method, length: int) -> None:
    """Mahalanobis distance that a unit change of leaf i makes in all prefix sums, under their noise: ‖C_i‖."""
    factorisation = method(length)
    covariance = factorisation.decoder() @ factorisation.decoder().T
    distance = np.sqrt(np.diag(ones(length).T @ np.linalg.solve(covariance, ones(length))))
    assert distance == pytest.approx(factorisation.column_norms, rel=1e-8)


def test_the_two_roots_agree_with_their_matrices_for_many_steps() -> None:
    for method in (square_root, normalised_square_root):
        factorisation = method(700)
        assert np.linalg.norm(factorisation.decoder(), axis=1) == pytest.approx(factorisation.row_norms, rel=1e-12)


@EVERY
def test_results_are_shared_and_cannot_be_changed(method: Method) -> None:
    assert method(16) is method(16)
    for array in (method(16).column_norms, method(16).row_norms):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


@EVERY
def test_impossible_lengths_are_refused(method: Method) -> None:
    with pytest.raises(ValueError, match="at least one step"):
        method(0)
    if method in (honaker_tree, optimal_mean):
        with pytest.raises(UserError, match="1,024 steps"):
            method(1025)
    else:
        assert method(1025).length == 1025


# ---------------------------------------------------------------------------------------------------------- sensitivity


@EVERY
def test_one_replaced_row_moves_what_is_released_by_the_sensitivity_at_most(method: Method) -> None:
    length, d, rng = 13, 3, np.random.default_rng(0)
    factorisation, leaves = method(length), rng.uniform(0.5, 2.0, length)
    moved = np.empty((length, 20))
    for i, trial in product(range(length), range(20)):
        before = rng.standard_normal((length, d))
        change = rng.standard_normal(d)
        after = before.copy()
        after[i] += leaves[i] * change / np.linalg.norm(change)
        moved[i, trial] = np.linalg.norm(factorisation.encoder() @ (after - before))
    assert moved == pytest.approx(np.repeat((leaves * factorisation.column_norms)[:, None], 20, axis=1), rel=1e-12)
    assert factorisation.sensitivity(leaves) == pytest.approx(moved.max(), rel=1e-12)
    assert factorisation.sensitivity(2.0) == pytest.approx(2 * factorisation.column_norms.max(), rel=1e-15)
    both = factorisation.sensitivity(np.stack([leaves, 3 * leaves]))
    assert both == pytest.approx([moved.max(), 3 * moved.max()], rel=1e-12)
    assert factorisation.rms_error(leaves) == pytest.approx(factorisation.row_norms * moved.max(), rel=1e-12)


# ------------------------------------------------------------------------------------------------------------ restarted


@EVERY
def test_restarted_sums_cost_what_a_single_one_does(method: Method) -> None:
    """Brute force over every leaf and direction: a row is in one of the K T leaves, so one block moves. Two sums that
    one row took part in would cost √2 times as much."""
    length, times, rng = 7, 3, np.random.default_rng(0)
    single, whole = method(length), restarted(method(length), times)
    encoder, decoder = whole.encoder(), whole.decoder()
    assert (whole.length, whole.period, single.period) == (times * length, length, length)
    assert np.allclose(decoder @ encoder, np.kron(np.eye(times), ones(length)), rtol=0, atol=1e-13)
    assert np.array_equal(encoder, np.tril(encoder)), "queries may be chosen while they run"
    leaves = rng.uniform(0.5, 2.0, length)
    moved = [
        np.linalg.norm(encoder[:, [i]] * leaves[i % length] * (change / np.linalg.norm(change)))
        for i in range(times * length)
        for change in rng.standard_normal((5, 3))
    ]
    assert max(moved) == pytest.approx(single.sensitivity(leaves), rel=1e-12)
    assert whole.sensitivity(np.tile(leaves, times)) == pytest.approx(single.sensitivity(leaves), rel=1e-12)
    assert whole.sensitivity() == pytest.approx(single.sensitivity(), rel=1e-15)
    own = leaves * np.array([[1.0], [3.0], [2.0]])  # sums of different leaves: the dearest, not what they add up to
    assert whole.sensitivity(own.ravel()) == pytest.approx(3 * single.sensitivity(leaves), rel=1e-12)
    shared = np.linalg.norm(encoder[:, 0] + encoder[:, length])
    assert shared == pytest.approx(math.sqrt(2) * single.column_norms[0], rel=1e-12)


@EVERY
def test_the_noise_of_restarted_sums_is_fresh_in_each(method: Method) -> None:
    length, times = 5, 3
    single, whole = method(length), restarted(method(length), times)
    normals = np.random.default_rng(1).standard_normal((2, times * length, 2))
    blocks = [single.noise(normals[:, k * length : (k + 1) * length]) for k in range(times)]
    assert np.allclose(streamed(whole, normals), np.concatenate(blocks, axis=1), rtol=0, atol=1e-13)
    assert np.allclose(whole.noise(normals), np.concatenate(blocks, axis=1), rtol=0, atol=1e-13)
    assert np.linalg.norm(whole.decoder(), axis=1) == pytest.approx(whole.row_norms, rel=1e-13)
    twice = restarted(restarted(single, 1), 2)
    assert (twice.length, twice.period) == (2 * length, length)
    with pytest.raises(ValueError, match="at least once"):
        restarted(single, 0)


# ---------------------------------------------------------------------------------------------------------------- noise


@EVERY
@pytest.mark.parametrize(("length", "shape"), [(1, (2,)), (5, ()), (33, (2,)), (64, (3,)), (200, (2, 3))])
def test_step_by_step_at_once_and_the_matrix_give_the_same_noise(
    method: Method, length: int, shape: tuple[int, ...]
) -> None:
    factorisation = method(length)
    normals = np.random.default_rng(1).standard_normal((4, length, *shape))
    expected = np.einsum("ts,rs...->rt...", factorisation.decoder(), normals)
    for found in (factorisation.noise(normals), streamed(factorisation, normals)):
        assert found.shape == normals.shape
        assert np.allclose(found, expected, rtol=0, atol=1e-12)


@EVERY
def test_noise_for_no_replicates_is_empty(method: Method) -> None:
    assert streamed(method(40), np.empty((0, 40, 2))).shape == (0, 40, 2)


@EVERY
def test_the_noise_of_a_prefix_needs_no_later_draw(method: Method) -> None:
    """So an adaptive query, chosen after prefix t was seen, is covered by noise that nobody has seen."""
    length, rng = 70, np.random.default_rng(2)
    normals = rng.standard_normal((2, length, 2))
    whole = streamed(method(length), normals)
    for t in (1, 31, 32, 33, 64):
        changed = normals.copy()
        changed[:, t:] = 1e6 * rng.standard_normal(changed[:, t:].shape)
        assert np.array_equal(streamed(method(length), changed)[:, :t], whole[:, :t])

    drawn = 0

    def draw() -> np.ndarray:
        nonlocal drawn
        drawn += 1
        return normals[:, drawn - 1]

    for t, noise in enumerate(method(length).stream(draw), start=1):
        assert drawn == t  # one draw per step, when the step is asked for
        assert np.array_equal(noise, whole[:, t - 1])
    assert drawn == length


@EVERY
def test_the_covariance_of_the_noise_is_that_of_the_decoder(method: Method) -> None:
    length, replicates = 12, 40_000
    factorisation = method(length)
    noise = streamed(factorisation, np.random.default_rng(3).standard_normal((replicates, length)))
    expected = factorisation.decoder() @ factorisation.decoder().T
    deviation = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / replicates)
    # 78 entries: one of them leaves 4.5 standard errors once in 2 000 seeds.
    assert (np.abs(noise.T @ noise / replicates - expected) < 4.5 * deviation).all()
    means = noise.mean(axis=0) / np.sqrt(np.diag(expected) / replicates)
    assert np.abs(means).max() < 4.5


def test_a_tree_draws_the_noise_of_a_block_once() -> None:
    """Redrawn blocks have the same variance, and leak: Cov(N_7, N_6) is that of the blocks that both share."""
    covariance = binary_tree(8).decoder() @ binary_tree(8).decoder().T
    assert (covariance[6, 6], covariance[6, 5], covariance[7, 6]) == (3.0, 2.0, 0.0)
    shared = [[len(set(tree_nodes(t)) & set(tree_nodes(u))) for u in range(1, 32)] for t in range(1, 32)]
    assert np.array_equal(binary_tree(31).decoder() @ binary_tree(31).decoder().T, shared)


# -------------------------------------------------------------------------------------------------------------- optimal


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", [0.01, 0.3, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("length", [2, 8, 33])
def test_no_factorisation_has_a_smaller_mean(length: int, first: float) -> None:
    leaves = np.append(first, np.ones(length - 1))
    found = (optimal_mean(length, first).rms_error(leaves) ** 2).mean()
    bound = nuclear_bound(length, leaves)
    assert bound * (1 - 1e-12) <= found <= bound * (1 + 2e-5)
    costs = leaves * optimal_mean(length, first).column_norms
    assert costs == pytest.approx(np.full(length, leaves.max()), rel=1e-12)  # no leaf is protected more than others


@pytest.mark.parametrize("length", [8, 64, 256])
def test_the_optimal_one_is_the_best_of_all(length: int) -> None:
    mean = [(method(length).rms_error() ** 2).mean() for method in METHODS]
    assert min(mean) == mean[METHODS.index(optimal_mean)]
    # Without any optimisation, the normalised square root comes close.
    assert mean[METHODS.index(normalised_square_root)] < 1.03 * min(mean)


def test_the_leaves_a_factorisation_was_optimised_for_do_not_bound_those_it_serves() -> None:
    extreme = optimal_mean(16, 1e-4)
    assert extreme is optimal_mean(16, 0.01)
    leaves = np.append(1e-4, np.ones(15))
    assert (extreme.rms_error(leaves) ** 2).mean() < nuclear_bound(16, leaves) * 1.001
    assert extreme.sensitivity() == pytest.approx(100.0, rel=1e-9)  # and with equal leaves it is charged for the first


def test_an_iteration_that_does_not_converge_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimal_sums, "_GAP", -1.0)
    with pytest.raises(ArithmeticError, match="17 steps"):
        optimal_mean(17)
