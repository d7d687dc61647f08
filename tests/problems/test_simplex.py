"""The simplex: projections, minimisation with certificates, polytopes as images of a simplex."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dpviz.problems.games.games import Polytope, ball_gradient, minimise_on_simplex, project_to_simplex, to_ball


def quadratics(seed: int, replicates: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrices H (R, d, d), positive semidefinite of low rank, and c (R, d)."""
    generator = np.random.default_rng(seed)
    factors = generator.standard_normal((replicates, d // 2, d))
    return np.matmul(factors.transpose(0, 2, 1), factors) / d, generator.standard_normal((replicates, d))


def test_projection_of_the_published_example() -> None:
    assert np.allclose(
        project_to_simplex(np.array([0.5, 0.4, -0.2, 0.9])), [0.2333333, 0.1333333, 0.0, 0.6333333], atol=5e-8
    )


def test_projections_are_the_nearest_points_of_the_simplex() -> None:
    generator = np.random.default_rng(1)
    points = generator.standard_normal((3, 40, 6)) * 10.0 ** generator.integers(-3, 4, (3, 40, 1))
    projected = project_to_simplex(points)
    assert (projected >= 0).all() and np.allclose(projected.sum(axis=-1), 1, rtol=0, atol=1e-12)
    # p is nearest if and only if no vertex v has <points - p, v - p> > 0.
    residual = points - projected
    slack = residual.max(axis=-1) - (residual * projected).sum(axis=-1)
    assert (slack <= 1e-12 * np.abs(points).max(axis=-1)).all()


def test_projection_leaves_the_simplex_alone_and_bears_huge_entries() -> None:
    inside = np.random.default_rng(2).dirichlet(np.ones(5), 10)
    assert np.allclose(project_to_simplex(inside), inside, rtol=0, atol=1e-15)
    assert np.array_equal(
        project_to_simplex(np.array([[1e12, 1e12, -1e12], [-1e300, 0.0, 3.0]])), [[0.5, 0.5, 0], [0, 0, 1]]
    )
    assert np.array_equal(project_to_simplex(np.array([[-7.0]])), [[1.0]])


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-8])
def test_minima_are_certified_and_agree_with_a_general_solver(tolerance: float) -> None:
    hessians, linear = quadratics(3, 4, 6)

    def function(u: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        products = np.einsum("rij,rj->ri", hessians[active], u)
        return ((0.5 * products - linear[active]) * u).sum(axis=1), products - linear[active]

    curvature = np.linalg.eigvalsh(hessians)[:, -1]
    found = minimise_on_simplex(function, np.full((4, 6), 1 / 6), curvature, tolerance)
    assert (found.lower <= found.value).all() and (found.value - found.lower <= tolerance).all()
    assert (found.x >= 0).all() and np.allclose(found.x.sum(axis=1), 1)
    assert np.allclose(function(found.x, np.arange(4))[0], found.value, rtol=0, atol=1e-15)
    for r in range(4):
        reference = minimize(
            lambda u, r=r: 0.5 * u @ hessians[r] @ u - linear[r] @ u,
            np.full(6, 1 / 6),
            bounds=[(0, 1)] * 6,
            constraints={"type": "eq", "fun": lambda u: u.sum() - 1},
            options={"ftol": 1e-14},
        ).fun
        assert found.lower[r] - 1e-9 <= reference <= found.value[r] + 1e-9


def test_a_replicate_does_not_depend_on_its_neighbours_and_is_left_alone_once_it_is_done() -> None:
    hessians, linear = quadratics(4, 5, 8)
    seen: list[np.ndarray] = []

    def function(u: np.ndarray, active: np.ndarray, offset: int = 0) -> tuple[np.ndarray, np.ndarray]:
        seen.append(active)
        chosen = active + offset
        products = np.einsum("rij,rj->ri", hessians[chosen], u)
        return ((0.5 * products - linear[chosen]) * u).sum(axis=1), products - linear[chosen]

    curvature, start = np.linalg.eigvalsh(hessians)[:, -1], np.full((5, 8), 1 / 8)
    together = minimise_on_simplex(function, start, curvature, 1e-9)
    sizes = [len(active) for active in seen]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 5
    for r in range(5):
        alone = minimise_on_simplex(lambda u, a, r=r: function(u, a, r), start[r : r + 1], curvature[r], 1e-9)
        assert np.allclose(alone.x, together.x[r], rtol=0, atol=1e-12)
    seen.clear()
    again = minimise_on_simplex(function, together.x, curvature, 1e-9)
    assert len(seen) == 1 and np.array_equal(again.value, together.value)


def test_linear_functions_are_minimised_at_a_vertex() -> None:
    slopes = np.random.default_rng(5).standard_normal((3, 7))
    found = minimise_on_simplex(
        lambda u, active: ((slopes[active] * u).sum(axis=1), slopes[active]), np.full((3, 7), 1 / 7), 0.0, 1e-12
    )
    assert np.array_equal(found.value, slopes.min(axis=1)) and np.array_equal(found.x.max(axis=1), np.ones(3))


def test_an_interrupted_minimisation_still_has_valid_bounds() -> None:
    hessians, linear = quadratics(6, 1, 30)

    def function(u: np.ndarray, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 0.5 * (u @ hessians[0] * u).sum(axis=1) - u @ linear[0], u @ hessians[0] - linear

    curvature, start = np.linalg.eigvalsh(hessians[0])[-1], np.full((1, 30), 1 / 30)
    short, long = (minimise_on_simplex(function, start, curvature, 1e-10, limit) for limit in (3, 2000))
    assert short.value - short.lower > 1e-6
    assert short.lower <= long.lower + 1e-10 and long.value <= short.value


def test_a_ball_is_the_polytope_of_its_vertices() -> None:
    generator = np.random.default_rng(7)
    radius, d = 1.7, 4
    ball = Polytope(radius * np.vstack([np.eye(d), -np.eye(d)]))
    weights, gradient = generator.dirichlet(np.ones(2 * d), 5), generator.standard_normal((5, d))
    assert np.allclose(ball.point(weights), to_ball(weights, radius))
    assert np.allclose(ball.pull_back(gradient), ball_gradient(gradient, radius))
    assert np.allclose((ball_gradient(gradient, radius) * weights).sum(1), (gradient * ball.point(weights)).sum(1))
    assert (ball.radius, ball.diameter) == pytest.approx((radius, 2 * radius))
    assert ball.lipschitz(2.0) == pytest.approx(2 * radius) and ball.oscillation(2.0) == pytest.approx(4 * radius)
    assert ball.smoothness(2.0) == pytest.approx(2 * radius**2)


def test_norms_of_vertices_bound_gradients_but_only_their_differences_bound_oscillations() -> None:
    """Far from the origin the diameter says nothing about the gradient's size (erratum E7)."""
    generator = np.random.default_rng(8)
    polytope = Polytope(100.0 + generator.uniform(-1, 1, (9, 5)))
    gradients = generator.choice([-1.0, 1.0], (200, 5))
    pulled = polytope.pull_back(gradients)
    assert polytope.diameter < 20 < np.abs(pulled).max() <= polytope.lipschitz(1.0)
    assert np.ptp(pulled, axis=1).max() <= polytope.oscillation(1.0)


@pytest.mark.parametrize("vertices", [np.zeros(3), np.zeros((0, 3)), np.array([[1.0, np.nan]])])
def test_polytopes_need_finite_vertices(vertices: np.ndarray) -> None:
    with pytest.raises(ValueError, match="finite"):
        Polytope(vertices)
