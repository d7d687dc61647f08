"""Logistic regression: no data set, however hostile, changes the gradient by more than the declared sensitivity."""

import json
from collections.abc import Mapping

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from dpviz.datasets import DatasetSpecification, UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.privacy.batches import Batch
from dpviz.privacy.events import Gaussian, Laplace, Seq, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.linear import linear_models
from dpviz.problems.linear.linear_base import BLOCK
from dpviz.problems.linear.linear_models import LogisticProblem, LogisticRegression
from tests.pairs import all_pairs

KEY = "f" * 32
N, D = 24, 3
NOISELESS = {"l1": Laplace(np.inf), "l2": Gaussian(np.inf)}
CLIPPED = [{"clip": 0.4}, {"clip": 0.4, "clip_norm": "l2"}, {"clip": 0.4, "clipping": "rows"}]
UNCLIPPED = [{}, {"clip": 900.0}]
SETTINGS = [
    {"scaling": scaling, "intercept": intercept, **clip}
    for scaling in ("unit", "centred")
    for intercept in ("no", "yes")
    for clip in (*CLIPPED, *UNCLIPPED)
]


def specification(
    bounds: tuple[tuple[float, float], ...] = ((-1.0, 1.0),) * D, n: int = N, **settings
) -> LogisticRegression:
    names = tuple(f"c{j}" for j in range(len(bounds)))
    return LogisticRegression(data=UploadedTable(identity=KEY, n=n, bounds=bounds, names=names), **settings)


def built(table: np.ndarray, **settings) -> LogisticProblem:
    """The problem on a table (n, d+1), labels last, through the same door as an upload."""
    settings.setdefault("bounds", ((-1.0, 1.0),) * (table.shape[1] - 1))
    return specification(n=len(table), **settings).build({KEY: table})


def opened(problem: LogisticProblem, replicates: int, norm: str = "l1", m: int | None = None) -> Batch:
    """A paid batch of all rows, or of m of them, that adds no noise."""
    event = NOISELESS[norm] if m is None else Sub("wor", m, problem.facts.n, NOISELESS[norm])
    return Mechanisms(Ledger(FixedEvents((event,)), replicates), 0).batch(event)


def gradient(problem: LogisticProblem, x: np.ndarray, norm: str = "l1", m: int | None = None) -> Query:
    return problem.mean_gradient(x, opened(problem, len(x), norm, m), norm)  # type: ignore[arg-type]


def hostile_row(generator: np.random.Generator, d: int) -> np.ndarray:
    """A row and its label such as an attacker might send."""
    with np.errstate(over="ignore"):
        row = generator.standard_cauchy(d) * 10.0 ** generator.integers(-3, 300)
    row[generator.random(d) < 0.2] = generator.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -0.0, 5e-324])
    return np.append(row, generator.choice([-1.0, 1.0]))


def neighbours(generator: np.random.Generator, n: int = N, d: int = D) -> tuple[np.ndarray, np.ndarray, int]:
    """Two tables that differ in one row, and which."""
    table = np.stack([hostile_row(generator, d) for _ in range(n)])
    other, row = table.copy(), int(generator.integers(n))
    if generator.random() < 0.3:
        other[row, -1] *= -1  # a label flip
    else:
        other[row] = hostile_row(generator, d)
    return table, other, row


def points(generator: np.random.Generator, count: int, d: int) -> np.ndarray:
    x = generator.standard_normal((count, d)) * 10.0 ** generator.uniform(-2, 2, (count, 1))
    x[-1] = generator.choice([1e100, -1e250, 1e308], d)  # a diverged replicate
    x[-1, 0] = generator.choice([np.nan, np.inf, -np.inf, 1e308])
    return x


def norms(difference: np.ndarray, norm: str) -> np.ndarray:
    return np.linalg.norm(difference, 1 if norm == "l1" else 2, axis=1)


# ---------------------------------------------------------------------------------------------------------- sensitivity


@pytest.mark.one_in(5)
@pytest.mark.parametrize("index", range(len(SETTINGS)), ids=lambda index: "-".join(map(str, SETTINGS[index].values())))
def test_no_neighbour_moves_the_gradient_by_more_than_declared(index: int) -> None:
    """20 settings, 150 neighbours each: 3000; gradients at 4 points of ‖x‖ up to 100 and at one diverged point."""
    generator = np.random.default_rng(index)
    chosen = SETTINGS[index]
    for _ in range(150):
        table, other, _ = neighbours(generator)
        here, there = built(table, **chosen), built(other, **chosen)
        assert here.facts == there.facts, "the facts must not depend on the data"
        x = points(generator, 5, here.facts.d)
        for norm in ("l1", "l2"):
            one, two = gradient(here, x, norm), gradient(there, x, norm)
            assert np.isfinite(one.value).all()
            assert one.sensitivity == two.sensitivity == here.facts.gradient_sensitivity(norm, N)  # type: ignore[arg-type]
            assert norms(one.value - two.value, norm).max() <= one.sensitivity * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("m", [2, 6], ids=["gathered", "marked"])
@pytest.mark.parametrize("chosen", CLIPPED, ids=str)
def test_no_neighbour_moves_the_gradient_of_a_batch_by_more_than_declared(chosen: dict, m: int) -> None:
    generator = np.random.default_rng(1)
    largest = 0.0
    for _ in range(100):
        table, other, row = neighbours(generator)
        here, there = built(table, **chosen), built(other, **chosen)
        x = points(generator, 8, D)
        for norm in ("l1", "l2"):
            batch = opened(here, len(x), norm, m)
            one, two = (problem.mean_gradient(x, batch, norm) for problem in (here, there))
            moved = norms(one.value - two.value, norm)
            assert one.sensitivity == 2 * here.facts.gradient_bound(norm) / m
            assert moved.max() <= one.sensitivity * (1 + 1e-12)
            assert (moved[~(batch.indices == row).any(axis=1)] == 0).all(), "a row outside the batch has no influence"
            largest = max(largest, float(moved.max() / one.sensitivity))
    assert largest > 0.3, "the neighbours were too tame to test anything"


@all_pairs
@pytest.mark.parametrize("m", [None, N, N - 1, 1])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("scaling", ["unit", "centred"])
@pytest.mark.parametrize("clipping", ["gradients", "rows"])
def test_a_crafted_pair_attains_the_sensitivity(clipping: str, scaling: str, norm: str, m: int | None) -> None:
    """Nearly opposite rows, both badly misclassified: without this the bound might be loose and waste noise."""
    low = 0.0 if scaling == "unit" else -0.5
    settings = {
        "bounds": ((low, low + 1),) * 2,
        "scaling": scaling,
        "clip": 0.3,
        "clip_norm": norm,
        "clipping": clipping,
    }
    table = np.tile([0.0, 0.0, 1.0], (N, 1))
    other = table.copy()
    table[:, :] = [0.4, 0.001, -1.0]  # every row, so that each is in the batch whichever it draws
    other[:] = table
    batch_rows = slice(None) if m == 1 else 0
    other[batch_rows] = [0.4, 0.0, 1.0]
    x = np.array([[-1e3, 2e6]])
    here, there = built(table, **settings), built(other, **settings)
    event = None if m in (None, N) else m
    if event not in (None, 1):
        batch = opened(here, 1, norm, event)
        other[:] = table
        other[batch.indices[0, 0]] = [0.4, 0.0, 1.0]
        there = built(other, **settings)
        one, two = (problem.mean_gradient(x, batch, norm) for problem in (here, there))  # type: ignore[arg-type]
    else:
        one, two = gradient(here, x, norm, event), gradient(there, x, norm, event)
    ratio = norms(one.value - two.value, norm)[0] / one.sensitivity
    assert 0.99 < ratio <= 1 + 1e-12


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_without_a_clip_the_declared_box_is_all_that_is_needed_and_no_more(norm: str) -> None:
    d = 60  # the bound is attained as d grows: ratio 1 - 1/(2d)
    table = np.ones((N, d + 1))
    table[:, -1] = -1.0
    other = table.copy()
    other[0, d - 1], other[0, -1] = 0.0, 1.0
    x = np.full((1, d), -50.0)
    x[0, -1] = 100.0 * d
    one, two = (gradient(built(t, bounds=((0.0, 1.0),) * d), x, norm) for t in (table, other))
    assert 0.99 < norms(one.value - two.value, norm)[0] / one.sensitivity <= 1 + 1e-12


def test_the_clip_of_the_published_extremal_pair() -> None:
    """g = (C, 0) against (0, C): ratios 0.8808, 0.99995, 1.0000 for KC = 2, 10, 40 (accelerated/THEORY.md, 4)."""
    for size, ratio in ((2.0, 0.8808), (10.0, 0.99995), (40.0, 1.0)):
        table = np.zeros((N, 3))
        table[:, -1] = -1.0
        other = table.copy()
        table[0, 0], other[0, 1] = 1.0, 1.0
        x = np.full((1, 2), size)
        one, two = (gradient(built(t, bounds=((0.0, 1.0),) * 2, clip=1.0), x) for t in (table, other))
        assert norms(one.value - two.value, "l1")[0] / one.sensitivity == pytest.approx(ratio, abs=5e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("chosen", [*CLIPPED, {"scaling": "centred"}, {"intercept": "yes"}], ids=str)
def test_no_neighbour_moves_the_largest_eigenvalue_by_more_than_declared(chosen: dict) -> None:
    generator = np.random.default_rng(3)
    for _ in range(150):
        table, other, _ = neighbours(generator)
        one, two = built(table, **chosen).largest_eigenvalue(), built(other, **chosen).largest_eigenvalue()
        assert one.sensitivity == two.sensitivity and one.norm == "l1" and one.value.shape == (1,)
        assert abs(one.value[0] - two.value[0]) <= one.sensitivity * (1 + 1e-12)


@pytest.mark.parametrize("chosen", [{}, {"clip": 0.4, "clip_norm": "l2", "clipping": "rows"}], ids=str)
def test_the_largest_eigenvalues_sensitivity_is_attained_by_one_outlier(chosen: dict) -> None:
    table = np.column_stack([np.zeros((N, D)), np.ones(N)])
    other = table.copy()
    other[0, :D] = 1.0
    one, two = (built(t, bounds=((0.0, 1.0),) * D, **chosen).largest_eigenvalue() for t in (table, other))
    assert two.value[0] - one.value[0] == pytest.approx(one.sensitivity, rel=1e-12)


# -------------------------------------------------------------------------------------- the objective that is minimised


def naive(problem: LogisticProblem, table: np.ndarray, x: np.ndarray, chosen: dict) -> float:
    """The objective from its definition, row by row, for bounds ±1 and x (d,)."""
    total = 0.0
    for row in table:
        u = (np.clip(np.nan_to_num(row[:-1], nan=0.0, posinf=0.0, neginf=0.0), -1, 1) + 1) / 2
        constant = 1.0
        if chosen.get("scaling") == "centred":
            u, constant = u - 0.5, 0.5
        if chosen.get("intercept") == "yes":
            u = np.append(u, constant)
        size = np.abs(u).sum() if chosen.get("clip_norm", "l1") == "l1" else np.sqrt(u @ u)
        c = min(1.0, chosen.get("clip", np.inf) / max(size, 1e-300))
        if chosen.get("clipping") == "rows":
            u, c = u * c, 1.0
        s = row[-1] * (u @ x)
        knee = -np.inf if c == 1 else np.log((1 - c) / c)
        total += np.logaddexp(0, -s) if s >= knee else np.logaddexp(0, -knee) + c * (knee - s)
    return total / len(table) + 0.01 * x @ x


def mild_table(seed: int, n: int = 60, d: int = D) -> np.ndarray:
    generator = np.random.default_rng(seed)
    features = generator.uniform(-1.2, 1.2, (n, d))
    return np.column_stack([features, np.where(generator.random(n) < expit(2 * features[:, 0]), 1.0, -1.0)])


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: "-".join(map(str, chosen.values())))
def test_the_clipped_gradient_is_that_of_the_huberised_loss(chosen: dict) -> None:
    table = mild_table(11)
    problem = built(table, **chosen)
    x = np.random.default_rng(5).normal(size=(4, problem.facts.d)) * 3
    values = problem.evaluate({"x": x})
    assert values["objective"] == pytest.approx([naive(problem, table, point, chosen) for point in x], rel=1e-12)
    whole = gradient(problem, x).value + problem.regulariser_gradient(x)
    step = 1e-5
    for j in range(problem.facts.d):
        shift = np.eye(problem.facts.d)[j] * step
        up, down = (problem.evaluate({"x": x + sign * shift})["objective"] for sign in (1, -1))
        assert (up - down) / (2 * step) == pytest.approx(whole[:, j], abs=1e-8)
    assert values["gradient_norm"] == pytest.approx(np.linalg.norm(whole, axis=1), rel=1e-12)


@pytest.mark.parametrize("chosen", SETTINGS, ids=lambda chosen: "-".join(map(str, chosen.values())))
def test_the_optimum_is_the_one_that_another_solver_finds(chosen: dict) -> None:
    problem = built(mild_table(12), **chosen)

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        slope = gradient(problem, x[None]).value + problem.regulariser_gradient(x[None])
        return float(problem.evaluate({"x": x[None]})["objective"][0]), slope[0]

    found = minimize(objective, np.zeros(problem.facts.d), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert problem.optimum == pytest.approx(found.fun, abs=1e-13)
    assert problem.optimum <= found.fun + 1e-15
    assert problem.evaluate({"x": found.x[None]})["objective_gap"][0] < 1e-13


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(12))
def test_the_declared_initial_error_holds_for_any_data(seed: int) -> None:
    """F(x₀) - F* ≤ initial_gap and V₀ ≤ lyapunov, also for a start away from 0, clips, and equal labels."""
    generator = np.random.default_rng(seed)
    chosen = SETTINGS[int(generator.integers(len(SETTINGS)))]
    start = float(generator.choice([0.0, 0.7, -3.0, 10.0]))
    table = np.stack([hostile_row(generator, D) for _ in range(N)])
    if seed % 3 == 0:
        table[:, -1] = 1.0
    problem = built(table, start=start, **chosen)
    facts = problem.facts
    x0 = facts.starting_point(1)
    best = minimize(lambda x: float(problem.evaluate({"x": x[None]})["objective"][0]), np.zeros(facts.d), tol=1e-10)
    gap = problem.evaluate({"x": x0})["objective_gap"][0]
    assert 0 <= gap <= facts.initial_gap + 1e-12
    assert gap + facts.strong_convexity / 2 * ((x0[0] - best.x) ** 2).sum() <= facts.lyapunov + 1e-6
    if start == 0:
        assert facts.lyapunov == facts.initial_gap == pytest.approx(np.log(2), rel=1e-12)
    # L from the bounds dominates the Hessian ¼UᵀU/n + 2λ of any data.
    assert problem.largest_eigenvalue().value[0] / 4 + 2 * 0.01 <= facts.smoothness * (1 + 1e-12)


def test_diverged_points_get_finite_gradients_and_honest_diagnostics() -> None:
    problem = built(mild_table(2), clip=0.4)
    x = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [-np.inf, 1e308, 1], [1e100, -1e100, 1e100], [0.0, 0.0, 0.0]])
    query = gradient(problem, x)
    assert np.isfinite(query.value).all()
    assert norms(query.value, "l1").max() <= problem.facts.gradient_bound_l1 * (1 + 1e-12)
    objective = problem.evaluate({"x": x})["objective"]
    assert np.isfinite(objective[3:]).all() and not (objective[:3] < 1e300).any()


@pytest.mark.slow
def test_results_do_not_depend_on_how_many_replicates_share_a_pass() -> None:
    """Row blocks have BLOCK/R rows: sizes around the edges, and a block of one row."""
    n = 500
    problem = LogisticRegression(data=UniformLogistic(rows=n, dimension=4), clip=1.0).build()
    generator = np.random.default_rng(0)
    x = generator.normal(size=(BLOCK // n + 3, 4))
    full = gradient(problem, x)
    batch = opened(problem, len(x), m=n - 1)
    sampled = problem.mean_gradient(x, batch, "l1")
    diagnostics = problem.evaluate({"x": x})
    for r in (0, len(x) - 1):
        assert full.value[r] == pytest.approx(gradient(problem, x[r : r + 1]).value[0], rel=1e-12, abs=1e-15)
        for name, values in problem.evaluate({"x": x[r : r + 1]}).items():
            assert diagnostics[name][r] == pytest.approx(values[0], rel=1e-12, abs=1e-14)
        rows = problem._rows[batch.indices[r]]
        slopes = np.minimum(expit(-rows @ x[r]), problem._caps[batch.indices[r]])
        assert sampled.value[r] == pytest.approx(-(slopes @ rows) / (n - 1), rel=1e-11, abs=1e-15)
    crowd = np.tile(x[:1], (BLOCK + 1, 1))  # more replicates than elements in a block
    assert gradient(problem, crowd).value[-1] == pytest.approx(full.value[0], rel=1e-12)


@pytest.mark.parametrize("rows", [20, 799, 1600, 4003])
def test_diagnostics_from_one_exponential_are_those_from_three(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where margins cannot overflow; loss, gradient and accuracy, up to margins of 600 and ties."""
    generator = np.random.default_rng(rows)
    problem = built(np.column_stack([generator.uniform(-1, 1, (rows, D)), np.ones(rows)]))
    directions = generator.standard_normal((20, D))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for size in (0.0, 1e-3, 1.0, 30.0, 300.0):
        x = size * directions
        assert problem._radius * size < linear_models._LARGEST_MARGIN
        quick = problem.sums(x)
        with monkeypatch.context() as patched:
            patched.setattr(linear_models, "_LARGEST_MARGIN", 0.0)
            general = problem.sums(x)
        for one, other in zip(quick, general, strict=True):
            assert one == pytest.approx(other, rel=1e-13, abs=1e-14 * (1 + size))
    far = np.full((2, D), 1e3)
    assert np.isfinite(problem.evaluate({"x": far})["objective"]).all(), "beyond, no exponential is shared"


def test_accuracy_counts_rows_on_the_right_side_and_ties_half() -> None:
    table = mild_table(4)
    problem = built(table)
    x = np.array([[3.0, -1.0, 0.2], [0.0, 0.0, 0.0]])
    u = (np.clip(table[:, :-1], -1, 1) + 1) / 2
    expected = [float((1 + np.sign(u @ point) * table[:, -1]).mean() / 2) for point in x]
    assert problem.evaluate({"x": x})["accuracy"] == pytest.approx(expected, abs=1e-15)


# ---------------------------------------------------------------------------------------------------------------- facts


def test_facts_look_at_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: DatasetSpecification, tables: Mapping) -> None:
        raise AssertionError("facts must not load data")

    monkeypatch.setattr(DatasetSpecification, "load", refuse)
    monkeypatch.setattr(UniformLogistic, "raw_rows", refuse)
    for chosen in SETTINGS:
        specification(**chosen).facts()
    LogisticRegression().facts()


def test_the_defaults_are_those_of_the_theory() -> None:
    facts = LogisticRegression().facts()
    assert (facts.n, facts.d, facts.gradient_bound_l1, facts.smoothness) == (10_000, 10, 10.0, pytest.approx(2.52))
    assert facts.strong_convexity == 0.02 and facts.lyapunov == facts.initial_gap == pytest.approx(np.log(2))
    assert facts.gradient_sensitivity("l1", 10_000) == pytest.approx(20 / 10_000)
    centred = LogisticRegression(scaling="centred").facts()
    assert centred.gradient_bound_l1 == 5.0 and centred.smoothness == pytest.approx(10 / 16 + 0.02)
    assert centred.gradient_bound_l2 == pytest.approx(np.sqrt(10) / 2)


def test_a_clip_in_one_norm_bounds_the_other_validly() -> None:
    in_l1 = specification(clip=0.4).facts()
    assert (in_l1.gradient_bound_l1, in_l1.gradient_bound_l2) == (0.4, 0.4)
    in_l2 = specification(clip=0.4, clip_norm="l2").facts()
    assert (in_l2.gradient_bound_l1, in_l2.gradient_bound_l2) == (pytest.approx(0.4 * np.sqrt(D)), 0.4)


def test_a_missing_or_different_table_is_refused_with_a_sentence() -> None:
    for tables in (
        {},
        {"0" * 32: mild_table(1)},
        {KEY: mild_table(1, n=N + 1)},
        {KEY: mild_table(1, n=N).astype("f4")},
    ):
        with pytest.raises(UserError):
            specification().build(tables)
    for label in (0.0, np.nan, 2.0):
        table = mild_table(1, n=N)
        table[3, -1] = label
        with pytest.raises(UserError):
            specification().build({KEY: table})


def test_a_released_smoothness_is_paid_for_and_others_are_free() -> None:
    released = specification(smoothness=0.5, smoothness_source="released", smoothness_cost=0.1).facts()
    assert released.released == (Laplace(0.1),) and released.smoothness == 0.5
    assert specification(smoothness=0.5, smoothness_source="declared").facts().released == ()
    for wrong in (
        {"smoothness": 0.5},
        {"smoothness_source": "released", "smoothness": 0.5},
        {"smoothness_source": "declared"},
        {"smoothness_cost": 0.1},
        {"smoothness": 0.5, "smoothness_source": "declared", "smoothness_cost": 0.1},
    ):
        with pytest.raises(UserError):
            LogisticRegression.from_json(json.dumps(wrong))


def test_clipped_share_counts_the_rows_that_can_reach_the_clip() -> None:
    assert built(mild_table(1)).clipped_share == 0.0
    assert built(mild_table(1), clip=1e-2).clipped_share == 1.0
    assert built(mild_table(1), clip=0.4, clipping="rows").clipped_share == 0.0
    assert 0 < built(mild_table(1), clip=1.5).clipped_share < 1


def test_several_gradients_on_one_batch_use_the_same_rows() -> None:
    problem = built(mild_table(1, n=N))
    event = Sub("wor", 5, N, Seq((Laplace(np.inf), Laplace(np.inf))))
    batch = Mechanisms(Ledger(FixedEvents((event,)), 2), 0).batch(event)
    x = np.ones((2, D))
    first, second = (batch.laplace(problem.mean_gradient(x, batch, "l1")) for _ in range(2))
    assert np.array_equal(first, second)
