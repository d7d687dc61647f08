"""Squared and Huber loss: no row, however hostile, moves a gradient by more than declared."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dpviz.datasets import UniformLinear, UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.problems.linear.linear_base import LinearModel, norms
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares, LogisticRegression, RegressionProblem
from tests.pairs import all_pairs
from tests.problems import test_linear_models as logistic
from tests.problems.test_linear_models import KEY, D, N, gradient, opened, points

TARGET = (-3.0, 5.0)
CLIPS = [{}, {"clip": 0.4}, {"clip": 0.4, "clip_norm": "l2"}, {"clip": 0.4, "clipping": "rows"}, {"clip": 900.0}]
LOSSES: list[tuple[type[LinearModel], dict]] = [
    (LeastSquares, {}),
    (HuberRegression, {"threshold": 0.25}),
    (HuberRegression, {"threshold": 2.0}),
]
CASES = [
    pytest.param(
        cls, {"scaling": scaling, "intercept": intercept, **own, **clip}, id=f"{cls.__name__}-{own}-{scaling}-{clip}"
    )
    for cls, own in LOSSES
    for scaling, intercept in (("unit", "no"), ("centred", "yes"))
    for clip in CLIPS
]
# Two numeric columns and the places of two categorical ones, with 3 and 2 categories.
LISTS = (("area", ("north", "south", "other")), ("ill", ("yes", "other")))


def specification(cls: type[LinearModel], n: int = N, mixed: bool = False, **settings: object) -> LinearModel:
    numeric = 2 if mixed else D
    data = UploadedTable(
        identity=KEY,
        n=n,
        bounds=((-1.0, 1.0),) * numeric,
        names=tuple(f"c{j}" for j in range(numeric)),
        categories=LISTS if mixed else (),
        target_range=TARGET,
    )
    return cls.model_validate({"data": data, **settings})


def built(cls: type[LinearModel], table: np.ndarray, mixed: bool = False, **settings: object) -> RegressionProblem:
    problem = specification(cls, len(table), mixed, **settings).build({KEY: table})
    assert isinstance(problem, RegressionProblem)
    return problem


def hostile_row(generator: np.random.Generator, columns: int) -> np.ndarray:
    """Features, or places of categories, and a target such as an attacker might send."""
    row = logistic.hostile_row(generator, columns)
    row[-1] = generator.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, 5.0, -3.0, 1e-320, 40.0])
    return row


def neighbours(generator: np.random.Generator, columns: int) -> tuple[np.ndarray, np.ndarray]:
    table = np.stack([hostile_row(generator, columns) for _ in range(N)])
    other, row = table.copy(), int(generator.integers(N))
    other[row] = hostile_row(generator, columns)
    return table, other


@pytest.mark.one_in(7)
@pytest.mark.parametrize(("cls", "chosen"), CASES)
@pytest.mark.parametrize("mixed", [False, True], ids=["numbers", "categories"])
def test_no_neighbour_moves_the_gradient_by_more_than_declared(
    cls: type[LinearModel], chosen: dict, mixed: bool
) -> None:
    generator = np.random.default_rng(len(chosen))
    largest = 0.0
    for _ in range(15):
        table, other = neighbours(generator, 4 if mixed else D)
        here, there = (built(cls, rows, mixed, **chosen) for rows in (table, other))
        assert here.facts == there.facts, "the facts must not depend on the data"
        x = points(generator, 5, here.facts.d)
        for norm in ("l1", "l2"):
            for m in (None, 6):
                batch = opened(here, len(x), norm, m)  # type: ignore[arg-type]
                one, two = (problem.mean_gradient(x, batch, norm) for problem in (here, there))  # type: ignore[arg-type]
                assert np.isfinite(one.value).all()
                assert one.sensitivity == here.facts.gradient_sensitivity(norm, m or N)  # type: ignore[arg-type]
                moved = logistic.norms(one.value - two.value, norm).max()
                assert moved <= one.sensitivity * (1 + 1e-12)
                largest = max(largest, float(moved / one.sensitivity))
    assert largest > 0.2, "the neighbours were too tame to test anything"


@all_pairs
@pytest.mark.parametrize("cls", [LeastSquares, HuberRegression])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("chosen", CLIPS[:4], ids=str)
def test_a_crafted_pair_attains_the_sensitivity(cls: type[LinearModel], norm: str, chosen: dict) -> None:
    """The same row at the far end of its box, with a prediction far too high and far too low: gradients C and -C. That
    takes two points, so the bound on one gradient is what is attained; twice it, by opposite rows (below)."""
    chosen = {**chosen, "clip_norm": norm} if "clip" in chosen else chosen
    here = built(cls, np.ones((N, D + 1)), **chosen)
    bound = here.facts.gradient_bound(norm)  # type: ignore[arg-type]
    for point in (np.full((1, D), 50.0), np.full((1, D), -50.0)):
        mean = gradient(here, point, norm).value  # every row is the same: the mean is each row's gradient
        assert logistic.norms(mean, norm)[0] == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("cls", [LeastSquares, HuberRegression])
@pytest.mark.parametrize("clip", [{"clip": 0.3}, {}], ids=str)
def test_nearly_opposite_gradients_attain_the_sensitivity(cls: type[LinearModel], norm: str, clip: dict) -> None:
    """Rows u and u' that differ in one small coordinate, which a steep plane turns into residuals of opposite sign."""
    settings = {**clip, "clip_norm": norm} if clip else {}
    table = np.ones((N, D + 1))
    other = table.copy()
    other[0, D - 1] = 1 - 2e-3  # on the scale of features: 1e-3
    x = np.full((1, D), 1e6)
    x[0, : D - 1] = (1e2 - 1e6) / (D - 1)  # ⟨u, x⟩ = 100, ⟨u', x⟩ = 100 - 1000
    one, two = (gradient(built(cls, rows, **settings), x, norm) for rows in (table, other))
    ratio = logistic.norms(one.value - two.value, norm)[0] / one.sensitivity
    assert 0.99 < ratio <= 1 + 1e-12


def huber(r: float, c: float) -> float:
    return 0.5 * r * r if abs(r) <= c else c * (abs(r) - c / 2)


def naive(cls: type[LinearModel], table: np.ndarray, x: np.ndarray, chosen: dict) -> float:
    """The objective from its definition, row by row, for bounds ±1 and x (d,)."""
    half, total = (0.5 if chosen.get("scaling") == "centred" else 1.0), 0.0
    d = D + (chosen.get("intercept") == "yes")
    radii = {1: half * d, 2: half * math.sqrt(d)}
    for row in table:
        u = (np.clip(row[:-1], -1, 1) + 1) / 2 - (0.5 if half == 0.5 else 0.0)
        if chosen.get("intercept") == "yes":
            u = np.append(u, half)
        order = 1 if chosen.get("clip_norm", "l1") == "l1" else 2
        size, clip = float(np.linalg.norm(u, order)), chosen.get("clip", math.inf)
        if chosen.get("clipping") == "rows":
            u = u * min(1.0, clip / size)
            radii = {k: min(r, clip) for k, r in radii.items()}
        own = chosen.get("threshold", math.inf)
        if cls is LeastSquares and ("clip" not in chosen or chosen.get("clipping") == "rows"):
            own = min(radii[k] / float(np.linalg.norm(u, k)) for k in (1, 2))
        elif chosen.get("clipping") != "rows":
            own = min(own, clip / size)
        target = (np.clip(row[-1], *TARGET) - 1) / 4
        total += huber(float(u @ x - target), own)
    return total / len(table) + 0.01 * float(x @ x)


def mild_table(seed: int, n: int = 60) -> np.ndarray:
    generator = np.random.default_rng(seed)
    features = generator.uniform(-1.2, 1.2, (n, D))
    return np.column_stack([features, 1 + 3 * features[:, 0] + generator.standard_normal(n)])


@pytest.mark.parametrize(("cls", "chosen"), CASES)
def test_the_objective_is_its_definition_and_the_gradient_its_derivative(cls: type[LinearModel], chosen: dict) -> None:
    table = mild_table(11)
    problem = built(cls, table, **chosen)
    x = np.random.default_rng(5).normal(size=(4, problem.facts.d))
    values = problem.evaluate({"x": x})
    assert values["objective"] == pytest.approx([naive(cls, table, point, chosen) for point in x], rel=1e-12)
    whole = gradient(problem, x).value + problem.regulariser_gradient(x)
    step = 1e-6
    for j in range(problem.facts.d):
        shift = np.eye(problem.facts.d)[j] * step
        up, down = (problem.evaluate({"x": x + sign * shift})["objective"] for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(whole[:, j], abs=1e-7)
    assert values["gradient_norm"] == pytest.approx(np.linalg.norm(whole, axis=1), rel=1e-12)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("cls", "chosen"), CASES)
def test_the_optimum_is_the_one_that_another_solver_finds(cls: type[LinearModel], chosen: dict) -> None:
    problem = built(cls, mild_table(12), **chosen)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        slope = gradient(problem, x[None]).value + problem.regulariser_gradient(x[None])
        return float(problem.evaluate({"x": x[None]})["objective"][0]), slope[0]

    found = minimize(objective, np.zeros(problem.facts.d), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert problem.optimum == pytest.approx(found.fun, abs=1e-12) and problem.optimum <= found.fun + 1e-14


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mixed", [False, True], ids=["numbers", "categories"])
def test_declared_constants_hold_for_any_data(seed: int, mixed: bool) -> None:
    """F(x₀) - F* ≤ initial_gap, V₀ ≤ lyapunov, and L and μ enclose the slopes between any two points."""
    generator = np.random.default_rng(seed)
    cls, own = LOSSES[seed % 3]
    chosen = own | CLIPS[int(generator.integers(len(CLIPS)))] | {"scaling": ("unit", "centred")[seed % 2]}
    start = float(generator.choice([0.0, 0.7, -3.0, 10.0]))
    table = np.stack([hostile_row(generator, 4 if mixed else D) for _ in range(N)])
    problem = built(cls, table, mixed, start=start, **chosen)
    facts = problem.facts
    x0 = facts.starting_point(1)
    best = minimize(lambda x: float(problem.evaluate({"x": x[None]})["objective"][0]), np.zeros(facts.d), tol=1e-10)
    gap = float(problem.evaluate({"x": x0})["objective_gap"][0])
    assert -1e-12 <= gap <= facts.initial_gap + 1e-12
    assert gap + facts.strong_convexity / 2 * ((x0[0] - best.x) ** 2).sum() <= facts.lyapunov + 1e-6
    assert float(problem.largest_eigenvalue().value[0]) + 2 * 0.01 <= facts.smoothness * (1 + 1e-12)
    one, two = generator.standard_normal((2, 40, facts.d))
    slopes = [gradient(problem, x).value + problem.regulariser_gradient(x) for x in (one, two)]
    along = ((slopes[0] - slopes[1]) * (one - two)).sum(axis=1) / ((one - two) ** 2).sum(axis=1)
    assert along.min() >= facts.strong_convexity * (1 - 1e-9) and along.max() <= facts.smoothness * (1 + 1e-9)


def test_facts_follow_from_the_declared_settings() -> None:
    squared, huber_ = LeastSquares().facts(), HuberRegression().facts()
    assert (squared.n, squared.d) == (10_000, 10) and UniformLinear().facts().target_range == (-4.0, 4.0)
    assert squared.smoothness == huber_.smoothness == pytest.approx(10 + 0.02) and squared.strong_convexity == 0.02
    assert (squared.gradient_bound_l1, squared.gradient_bound_l2) == (10.0, pytest.approx(math.sqrt(10)))
    assert (huber_.gradient_bound_l1, huber_.gradient_bound_l2) == (2.5, pytest.approx(math.sqrt(10) / 4))
    assert squared.initial_gap == squared.lyapunov == 0.5
    assert huber_.initial_gap == huber_.lyapunov == pytest.approx(0.25 * (1 - 0.125))
    centred = LeastSquares(scaling="centred").facts()
    assert centred.gradient_bound_l1 == 5.0 and centred.smoothness == pytest.approx(2.5 + 0.02)


@pytest.mark.parametrize("scaling", ["unit", "centred"])
def test_a_column_of_categories_adds_one_to_the_norm_of_a_row(scaling: str) -> None:
    """However many categories it has: five features, of which two numeric, and two columns of categories."""
    model = specification(LeastSquares, mixed=True, scaling=scaling)
    half = 1.0 if scaling == "unit" else 0.5
    assert model.facts().d == 7
    assert model.feature_radius("l1") == 2 * half + 2
    assert model.feature_radius("l2") == pytest.approx(math.sqrt(2 * half**2 + 2))
    generator = np.random.default_rng(1)
    table = np.stack([hostile_row(generator, 4) for _ in range(N)])
    rows = model.rows(model.data.load({KEY: table})).features
    assert (rows[:, 2:5].sum(axis=1) == 1).all() and (rows[:, 5:].sum(axis=1) == 1).all()
    assert set(np.unique(rows[:, 2:])) == {0.0, 1.0}
    for norm in ("l1", "l2"):
        assert norms(rows, norm).max() <= model.feature_radius(norm) * (1 + 1e-15)  # type: ignore[arg-type]
    logit = LogisticRegression(data=model.data.replaced(target_range=None), scaling=scaling)  # type: ignore[arg-type]
    assert logit.facts().gradient_bound_l1 == 2 * half + 2


def test_two_classes_are_the_targets_minus_and_plus_one() -> None:
    data = UniformLogistic(rows=500, dimension=2)
    problem, labels = LeastSquares(data=data).build(), data.load().labels
    error = problem.evaluate({"x": np.zeros((1, 2))})
    assert error["absolute_error"] == 0.5 and error["objective"] == 0.5 and set(labels) == {-1.0, 1.0}


def test_the_logistic_loss_refuses_a_target_that_is_a_number() -> None:
    with pytest.raises(UserError, match="needs two classes"):
        LogisticRegression(data=UniformLinear())


def test_the_share_of_rows_that_the_clip_reaches() -> None:
    assert built(LeastSquares, mild_table(1)).clipped_share == 0.0
    assert built(HuberRegression, mild_table(1)).clipped_share == 0.0
    assert built(LeastSquares, mild_table(1), clip=0.01).clipped_share == 1.0
    assert 0 < built(LeastSquares, mild_table(1), clip=1.5).clipped_share < 1
    assert 0 < built(HuberRegression, mild_table(1), clip=0.4).clipped_share < 1
    for cls in (LeastSquares, HuberRegression):
        problem = built(cls, mild_table(1), clip=1.5, clipping="rows")
        assert problem.clipped_share == 0.0 and 0 < problem.shortened_share < 1
    assert built(LeastSquares, mild_table(1), clip=1.5).shortened_share == 0.0
