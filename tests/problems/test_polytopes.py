"""Regression over a polytope: its vertices, the constants that its plans rely on, gradients and certified minima."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from dpviz.errors import UserError
from dpviz.families.mirror_descent import EuclideanGradient, VertexSampling
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.games.games import Ball, GradientSums
from dpviz.problems.games.simplex_learning import LearningGame, PolytopeRegression, SparseRegression
from dpviz.specification import Specification

Vertices = tuple[tuple[float, ...], ...]


def own(vertices: np.ndarray, rows: int = 300, seed: int = 0) -> PolytopeRegression:
    return PolytopeRegression(
        shape="own", vertices=tuple(map(tuple, np.asarray(vertices).tolist())), rows=rows, seed=seed
    )


def cross(d: int, radius: float) -> np.ndarray:
    return radius * np.vstack([np.eye(d), -np.eye(d)])


_GENERATOR = np.random.default_rng(12)
SHAPES = {
    "box": PolytopeRegression(shape="box", dimension=4, radius=0.3, rows=300),
    "a segment": PolytopeRegression(shape="box", dimension=1, radius=0.5, rows=300),
    "monotone": PolytopeRegression(shape="monotone", dimension=5, radius=0.2, rows=300),
    "large": PolytopeRegression(shape="monotone", dimension=3, radius=4.0, rows=300),
    "cross-polytope": own(cross(3, 0.8)),
    "away from the origin": own(5.0 + _GENERATOR.uniform(-1, 1, (7, 3))),
    "thin": own(np.column_stack([_GENERATOR.uniform(-1, 1, 6), np.full((6, 2), 0.25)])),
    "repeated vertices": own(np.repeat(_GENERATOR.uniform(-0.5, 0.5, (3, 2)), 3, axis=0)),
}
EVERY = pytest.mark.parametrize("name", SHAPES)


def points(game: LearningGame, replicates: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Vertices, and mixtures that are close to one."""
    generator = np.random.default_rng(seed)
    corners = np.eye(game.facts.d_x)[generator.integers(game.facts.d_x, size=replicates)]
    mixed = generator.dirichlet(np.full(game.facts.d_x, 0.3), replicates)
    return np.where(generator.random((replicates, 1)) < 0.5, corners, mixed), np.ones((replicates, 1))


def objective(game: LearningGame, x: np.ndarray) -> np.ndarray:
    return game.evaluate({"x": x})["objective"]


def on_rows(specification: PolytopeRegression, features: np.ndarray, labels: np.ndarray) -> LearningGame:
    """The same problem with other rows; as many as facts say only if that matters."""
    constant = 0.5 * float(labels @ labels) / len(labels)
    return LearningGame(specification.facts(), features, labels, 1.0, constant, specification.polytope())


# ------------------------------------------------------------------------------------------------------------- vertices


def contains(vertices: np.ndarray, point: np.ndarray) -> bool:
    """Whether a point is a convex combination, by linear programming."""
    system = np.vstack([vertices.T, np.ones(len(vertices))])
    return linprog(np.zeros(len(vertices)), A_eq=system, b_eq=[*point, 1.0]).status == 0


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_a_box_is_the_hull_of_its_corners(d: int) -> None:
    vertices = PolytopeRegression(shape="box", dimension=d, radius=0.7).polytope().vertices
    assert len({tuple(vertex) for vertex in vertices}) == 2**d and set(np.unique(vertices)) == {-0.7, 0.7}
    generator = np.random.default_rng(d)
    for point in generator.uniform(-1, 1, (40, d)):
        assert contains(vertices, point) == bool((np.abs(point) <= 0.7).all())


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_rising_weights_are_the_hull_of_their_steps(d: int) -> None:
    vertices = PolytopeRegression(shape="monotone", dimension=d, radius=0.7).polytope().vertices
    assert vertices.shape == (d + 1, d) and (vertices[0] == 0).all() and (vertices[-1] == 0.7).all()
    generator, inside = np.random.default_rng(d), 0
    for trial in range(60):
        point = generator.uniform(-0.1, 0.8, d)
        point = np.sort(point) if trial % 2 else point
        rising = bool((np.diff(point, prepend=0.0, append=0.7) >= 0).all())
        assert contains(vertices, point) == rising
        inside += rising
    assert 5 < inside < 60


def test_own_vertices_are_used_as_they_are() -> None:
    vertices: Vertices = ((0.0, 1.0), (2.0, 3.0), (-4.0, 5.0))
    specification = PolytopeRegression(shape="own", vertices=vertices, dimension=9, radius=5.0, rows=300)
    assert specification.polytope().vertices.tolist() == [list(vertex) for vertex in vertices]
    assert (specification.facts().d_x, specification.facts().d_y, specification.facts().d) == (3, 1, 4)
    assert specification.build().weights(np.array([[0.5, 0.25, 0.25]])).tolist() == [[-0.5, 2.5]]
    assert PolytopeRegression(vertices=vertices, dimension=2).polytope().vertices.shape == (3, 2), "of rising weights"


@EVERY
def test_settings_survive_a_round_trip_and_the_problem_has_the_facts_that_were_promised(name: str) -> None:
    specification = SHAPES[name]
    assert Specification.from_json(specification.to_json()) == specification
    game, again = specification.build(), Specification.from_json(specification.to_json()).build()  # type: ignore[attr-defined]
    assert game.facts == specification.facts() == again.facts
    x, _ = points(game, 5)
    assert np.array_equal(objective(game, x), objective(again, x))
    assert not np.array_equal(objective(game, x), objective(specification.replaced(seed=1).build(), x))


# ------------------------------------------------------------------------------------------------------------- refusals

MANY = tuple((float(i),) for i in range(1001))


@pytest.mark.parametrize(
    ("vertices", "sentence"),
    [
        ((), "2 to 1,000 vertices"),
        (((1.0, 2.0),), "2 to 1,000 vertices"),
        (MANY, "2 to 1,000 vertices"),
        (((1.0, 2.0), (1.0,)), "equally many coordinates"),
        (((), ()), "1 to 100"),
        ((tuple([0.0] * 101), tuple([1.0] * 101)), "1 to 100"),
        (((1.0,), (100.5,)), "between -100 and 100"),
        (((1.0,), (-1e308,)), "between -100 and 100"),
        (((1.0, 2.0), (1.0, 2.0)), "must extend over"),
        (((0.0,), (-0.0,)), "must extend over"),
    ],
    ids=[
        "none",
        "one",
        "too many",
        "ragged",
        "no coordinates",
        "too long",
        "too far",
        "much too far",
        "a point",
        "zero",
    ],
)
def test_what_is_no_polytope_is_refused_in_a_sentence(vertices: Vertices, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        PolytopeRegression(shape="own", vertices=vertices)
    assert PolytopeRegression(shape="box", vertices=vertices).facts().d_x == 32, "unused, so it does not matter"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_vertices_are_finite_numbers(value: float) -> None:
    with pytest.raises(UserError):
        PolytopeRegression(shape="own", vertices=((0.0, 1.0), (value, 1.0)))


def test_the_limits_themselves_are_allowed() -> None:
    assert PolytopeRegression(shape="own", vertices=((100.0,), (-100.0,))).facts().oscillation_x == 200 * 101
    assert PolytopeRegression(shape="own", vertices=MANY[:101]).facts().d_x == 101
    wide = np.zeros((2, 100))
    wide[1] = 1.0
    assert own(wide).facts().lipschitz == 100 * 101


# ------------------------------------------------------------------------------------------------------------ constants


@EVERY
def test_the_constants_follow_from_norms_and_the_diameter(name: str) -> None:
    vertices, facts = SHAPES[name].polytope().vertices, SHAPES[name].facts()
    radius = np.abs(vertices).sum(axis=1).max()
    diameter = np.abs(vertices[:, None] - vertices[None]).sum(axis=2).max()
    assert facts.lipschitz == pytest.approx(radius * (radius + 1)) and facts.change_x == pytest.approx(
        2 * facts.lipschitz
    )
    assert facts.oscillation_x == facts.range_x == pytest.approx(diameter * (radius + 1))
    assert facts.smoothness == facts.smoothness_x == pytest.approx(radius**2)
    assert (facts.oscillation_y, facts.change_y, facts.range_y, facts.second_smoothness, facts.d_y) == (0, 0, 0, 0, 1)
    assert facts.oscillation_x <= 2 * facts.lipschitz * (1 + 1e-12)


def single_gradients(specification: PolytopeRegression, trials: int) -> np.ndarray:
    """(trials, m) gradients of single rows at random weights; rows and labels at their bounds where that hurts most."""
    generator, vertices = np.random.default_rng(7), specification.polytope().vertices
    found = []
    for _ in range(trials):
        features = generator.choice([-1.0, 1.0], (1, vertices.shape[1]))
        labels = generator.choice([-1.0, 1.0], 1)
        game = on_rows(specification.replaced(rows=200), features, labels)
        x, y = points(game, 4, seed=int(generator.integers(1 << 30)))
        found.append(game.gradients(x, y, slice(0, 1))[0])
    return np.concatenate(found)


@pytest.mark.one_in(3)
@EVERY
def test_no_row_breaks_the_bounds(name: str) -> None:
    facts, gradients = SHAPES[name].facts(), single_gradients(SHAPES[name], 500)
    assert np.abs(gradients).max() <= facts.lipschitz * (1 + 1e-12)
    assert np.ptp(gradients, axis=1).max() <= facts.oscillation_x * (1 + 1e-12)


@pytest.mark.parametrize("name", ["box", "a segment", "monotone", "large", "cross-polytope"])
def test_the_bounds_are_attained(name: str) -> None:
    """At the longest vertex, which is also an end of the diameter, a row of the signs of a difference of vertices, with
    a label of the other sign, makes the slope and the spread of its coordinates as large as they can be."""
    specification = SHAPES[name]
    vertices = specification.polytope().vertices
    facts, best = specification.facts(), np.zeros(2)
    for vertex, other in ((v, w) for v in range(len(vertices)) for w in range(len(vertices))):
        features = np.where(vertices[vertex] - vertices[other] >= 0, 1.0, -1.0)[None]
        for at in (vertex, other):
            label = -np.sign(features @ vertices[at] + 1e-300)
            game = on_rows(specification, features, label)
            gradient = game.gradients(np.eye(len(vertices))[[at]], np.ones((1, 1)), slice(0, 1))[0]
            best = np.maximum(best, [np.abs(gradient).max(), np.ptp(gradient)])
    assert best == pytest.approx([facts.lipschitz, facts.oscillation_x], rel=1e-12)


@EVERY
def test_no_replaced_row_moves_the_scores_further_than_declared(name: str) -> None:
    specification, generator = SHAPES[name].replaced(rows=200), np.random.default_rng(3)
    d = specification.polytope().vertices.shape[1]
    features, labels = generator.choice([-1.0, 1.0], (200, d)), generator.uniform(-1, 1, 200)
    before = on_rows(specification, features, labels)
    for _ in range(30):
        row, others, changed = generator.integers(20), features.copy(), labels.copy()
        others[row], changed[row] = -features[row], generator.choice([-1.0, 1.0])
        after = on_rows(specification, others, changed)
        x, y = points(before, 6, seed=int(generator.integers(1 << 30)))
        for rows in (None, slice(0, 20)):
            sums = [GradientSums(game, 6) for game in (before, after)]
            for total in sums:
                total.add([(0.7, x, y)], rows)
            old, new = (total.utilities_x(total.weight) for total in sums)
            assert np.ptp(new.value - old.value, axis=1).max() <= np.max(old.sensitivity) * (1 + 1e-12)
            m = 200 if rows is None else 20
            moved = after.gradients(x, y, rows)[0] - before.gradients(x, y, rows)[0]
            assert np.abs(moved).max() * m <= before.facts.change_x * (1 + 1e-12)


@EVERY
def test_gradients_change_no_faster_than_the_smoothness_says(name: str) -> None:
    """‖∇f(u) - ∇f(u')‖_∞ ≤ L₁ ‖u - u'‖₁, on the whole table and for the worst single row."""
    specification = SHAPES[name]
    vertices, facts = specification.polytope().vertices, specification.facts()
    longest = vertices[np.abs(vertices).sum(axis=1).argmax()]
    worst = on_rows(specification, np.where(longest >= 0, 1.0, -1.0)[None], np.zeros(1))
    for game, rows in ((specification.build(), None), (worst, slice(0, 1))):
        (u, y), (v, _) = points(game, 200, seed=1), points(game, 200, seed=2)
        change = np.abs(game.gradients(u, y, rows)[0] - game.gradients(v, y, rows)[0]).max(axis=1)
        assert (change <= facts.smoothness * np.abs(u - v).sum(axis=1) * (1 + 1e-12) + 1e-12).all()


# ------------------------------------------------------------------------------------------------- gradients and minima


@EVERY
def test_the_gradient_in_the_weights_of_the_vertices_is_that_of_the_objective(name: str) -> None:
    game = SHAPES[name].build()
    x, y = points(game, 6)
    gradient, other = game.gradients(x, y)
    assert gradient.shape == x.shape and np.array_equal(other, np.zeros((6, 1)))
    scale = max(1.0, game.facts.lipschitz)
    for j in range(game.facts.d_x):
        step = 1e-4 * (np.eye(game.facts.d_x)[j] - x)
        slope = objective(game, x + step) - objective(game, x - step)
        # F is quadratic: central differences are exact up to rounding.
        assert slope / 2e-4 == pytest.approx((gradient * step).sum(axis=1) / 1e-4, abs=1e-9 * scale)


@EVERY
def test_blocks_of_rows_add_up_to_the_table(name: str) -> None:
    game = SHAPES[name].build()
    x, y = points(game, 3)
    parts = [game.gradients(x, y, slice(start, start + 100))[0] for start in (0, 100, 200)]
    assert np.mean(parts, axis=0) == pytest.approx(game.gradients(x, y)[0], rel=1e-11, abs=1e-12)


@EVERY
def test_the_minimum_is_certified(name: str) -> None:
    """Against a general solver over the weights of the vertices; the gap is never below the true one."""
    game = SHAPES[name].build()
    optimum = float(game._minimum.value[0])
    d_x = game.facts.d_x
    reference = minimize(
        lambda u: float(objective(game, u[None])[0]),
        np.full(d_x, 1 / d_x),
        jac=lambda u: game.gradients(u[None], np.ones((1, 1)))[0][0],
        bounds=[(0, 1)] * d_x,
        constraints={"type": "eq", "fun": lambda u: u.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert optimum <= reference.fun + 1e-6 and reference.fun <= optimum + 1e-6
    x, _ = points(game, 50)
    found = game.evaluate({"x": x})
    excess = found["objective"] - optimum
    assert (found["duality_gap"] >= excess).all() and (found["duality_gap"] <= excess + 1e-6).all()
    assert (excess >= -1e-6).all()
    assert contains(SHAPES[name].polytope().vertices, game.weights(game._minimum.x)[0])


def test_the_model_that_the_labels_follow_is_inside_and_nearly_optimal() -> None:
    specification = PolytopeRegression(dimension=4, radius=0.2, rows=50_000)
    mixture = np.linspace(2, 0, 5)
    truth = specification.polytope().point(mixture / mixture.sum())
    game = specification.build()
    assert game.weights(game._minimum.x)[0] == pytest.approx(truth, abs=4 / math.sqrt(50_000))
    # What is left is the uniform noise on [-0.2, 0.2]: half of its variance.
    assert game._minimum.value == pytest.approx(0.5 * 0.2**2 / 3, rel=0.02)


# ----------------------------------------------------------------------------------------------------- vertex reduction


@pytest.mark.parametrize("radius", [0.5, 1.0, 1.5])
def test_sparse_regression_is_regression_over_the_cross_polytope(radius: float) -> None:
    """Same constants; on the same rows the same gradients, objectives and minima."""
    ball, hull = SparseRegression(rows=300, dimension=4, radius=radius), own(cross(4, radius), rows=300)
    one, two = ball.facts(), hull.facts()
    numbers = [name for name, value in vars(one).items() if isinstance(value, float)]
    assert len(numbers) > 10 and (one.n, one.d, one.d_x) == (two.n, two.d, two.d_x) == (300, 9, 8)
    assert [getattr(one, name) for name in numbers] == pytest.approx(
        [getattr(two, name) for name in numbers], rel=1e-14
    )
    generator = np.random.default_rng(0)
    features, labels = generator.choice([-1.0, 1.0], (300, 4)), generator.uniform(-1, 1, 300)
    constant = 0.5 * float(labels @ labels) / 300
    first, second = LearningGame(one, features, labels, 1.0, constant, Ball(radius)), on_rows(hull, features, labels)
    x, y = points(first, 8)
    for rows in (None, slice(50, 90)):
        assert first.gradients(x, y, rows)[0] == pytest.approx(second.gradients(x, y, rows)[0], abs=1e-13)
    for name, values in first.evaluate({"x": x}).items():
        assert values == pytest.approx(second.evaluate({"x": x})[name], abs=2e-6)
    assert first.weights(x) == pytest.approx(second.weights(x), abs=1e-15)
    assert first._minimum.value == pytest.approx(second._minimum.value, abs=1e-6)
    assert first.weights(first._minimum.x) == pytest.approx(second.weights(second._minimum.x), abs=3e-3)


def test_a_shift_changes_the_size_of_gradients_but_not_their_oscillation_per_slope() -> None:
    """Erratum E7: the diameter, not the norms, bounds the oscillation; only the slopes' bound grows with the norms."""
    vertices = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    near, far = own(vertices).facts(), own(vertices + 10.0).facts()
    assert near.oscillation_x == 2 * 2 and far.oscillation_x == 2 * 22
    assert near.lipschitz == 1 * 2 and far.lipschitz == 21 * 22


@EVERY
def test_every_polytope_can_be_planned_for(name: str) -> None:
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    for algorithm in (VertexSampling(iterations=8), EuclideanGradient(gradient_rounds=16)):
        plan = algorithm.plan(SHAPES[name].facts(), budget)
        assert all(np.isfinite(values).all() for values in plan.schedule.values())
