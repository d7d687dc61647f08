"""The update rules against the reference numbers of THEORY.md, and against loops that are written from its text."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from dpviz.datasets import PaperLogistic, UniformLogistic, UploadedTable
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.trace import Trace
from dpviz.families.accelerated import GradientDescent, HeavyBall, MultistageNesterov, Nesterov
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.privacy.batches import draw_marks
from dpviz.privacy.budgets import Budget, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms, Purpose, streams
from dpviz.problems.base import ProblemSpecification, SmoothFacts
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from tests.pairs import all_pairs

DEFAULT = LogisticRegression().facts()
KEY = "d" * 32
METHODS: list[GradientMethod] = [
    GradientDescent(),
    HeavyBall(momentum_rule="optimal"),
    HeavyBall(momentum_rule="polyak"),
    HeavyBall(momentum_rule="own", momentum=0.6),
    Nesterov(),
    MultistageNesterov(),
]
method_ids = [f"{m.title}-{getattr(m, 'momentum_rule', '')}" for m in METHODS]
# κ = 4: stages of 3, 20, 40, ... steps, so 30 steps contain two restarts.
BENCH = Quadratic(rows=1000, dimension=3, strong_convexity=0.25, smoothness=1.0, start=2.0, clip=0.5)


def iterates(
    method: GradientMethod,
    problem: ProblemSpecification,
    budget: Budget,
    replicates: int = 1,
    tables: dict | None = None,
    seed: int = 3,
) -> np.ndarray:
    """(T+1, R, d) all iterates of a run."""
    plan = method.plan(problem.facts(), budget)  # type: ignore[arg-type]
    mechanisms = Mechanisms(Ledger(plan.terms, replicates), seed)
    run = method.run(problem.build(tables or {}), plan, mechanisms)  # type: ignore[arg-type]
    return np.array([snapshot.output["x"] for snapshot in run])


def test_heavy_ball_without_noise_reproduces_the_reference_program() -> None:
    """Check 1: an independent run of the paper's MATLAB code; its six rows are repeated four times here."""
    features = np.array([[(i * j * 0.37 + 0.1 * i) % 1 for j in (1, 2, 3)] for i in range(1, 7)])
    table = np.tile(np.column_stack([features, [1, -1, 1, 1, -1, 1]]), (4, 1)).astype(float)
    data = UploadedTable(identity=KEY, n=24, bounds=((0.0, 1.0),) * 3, names=("a", "b", "c"))
    problem = LogisticRegression(
        data=data, regularisation=0.05, start=2.0, smoothness=1.0, smoothness_source="declared"
    )
    method = HeavyBall(iterations=12, relative_step=0.8, momentum_rule="own", momentum=0.6)
    x = iterates(method, problem, NoPrivacy(), tables={KEY: table})[-1]
    assert x[0] == pytest.approx([0.294724530367, 0.190971221596, 0.662258187713], abs=1e-11)
    assert problem.build({KEY: table}).evaluate({"x": x})["objective"][0] == pytest.approx(0.636407499364, abs=1e-11)


@pytest.mark.parametrize("budget", [NoPrivacy(), PureDP(epsilon=1.0)])
def test_the_noisy_gradient_has_its_part_of_the_regulariser(budget: Budget) -> None:
    """All of a quadratic's gradient is in that part: its norm is the length of a step over the step size."""
    method = GradientDescent(iterations=3, relative_step=0.5)
    plan = method.plan(BENCH.facts(), budget)
    run = method.run(BENCH.build(), plan, Mechanisms(Ledger(plan.terms, 2), seed=3))
    for previous, snapshot in pairwise(run):
        length = np.linalg.norm(snapshot.output["x"] - previous.output["x"], axis=1)
        assert snapshot.released["noisy_gradient_norm"] == pytest.approx(length / 0.5)


def drawn_rows(generator: np.random.Generator, m: int, n: int) -> np.ndarray:
    """The next batch of a stream: numbers of rows, or a mark on each if there are many."""
    if 8 * m < n:
        return generator.choice(n, m, replace=False, shuffle=False)
    return np.flatnonzero(draw_marks([generator], m, n)[0])


def by_hand(method: GradientMethod, facts: SmoothFacts, table: np.ndarray, replicate: int, seed: int) -> np.ndarray:
    """One replicate, written from the text of sections 3 and 4 alone: ε = 1, uniform schedule, λ = 0.01, C = 0.7."""
    u, z = table[:, :-1], table[:, -1]
    n, d, steps, mu, smoothness = len(u), u.shape[1], method.iterations, 0.02, facts.smoothness
    m = max(1, round(method.batch_fraction * n))
    budget = 1.0 / steps
    scale = 2 * 0.7 / (m * np.log1p(np.expm1(budget) * n / m))
    noise, batches = (streams(seed, purpose, replicate + 1)[replicate] for purpose in (Purpose.NOISE, Purpose.BATCHES))
    cap = np.minimum(1, 0.7 / np.abs(u).sum(axis=1))
    lengths = [int(np.ceil(2 * np.sqrt(smoothness / mu) * np.log(np.sqrt(smoothness / mu))))]
    while sum(lengths) < steps:
        lengths.append(2 ** (len(lengths) + 1) * int(np.ceil(np.sqrt(smoothness / mu) * np.log(8))))
    stage_of = np.repeat(np.arange(1, len(lengths) + 1), lengths)
    x = before = np.zeros(d)
    path = [x]
    for t in range(steps):
        stage = stage_of[t] if isinstance(method, MultistageNesterov) else 1
        step = 1 / smoothness if stage == 1 else 4.0**-stage / smoothness
        q = np.sqrt(mu * step)
        if stage > 1 and stage != stage_of[t - 1]:
            before = x
        if isinstance(method, HeavyBall):
            momentum = {"nesterov": (1 - q) / (1 + q), "optimal": (1 - q) ** 2, "own": method.momentum}.get(
                method.momentum_rule, ((np.sqrt(smoothness) - mu**0.5) / (np.sqrt(smoothness) + mu**0.5)) ** 2
            )
            step = 4 / (mu**0.5 + np.sqrt(smoothness)) ** 2 if method.momentum_rule == "polyak" else step
        else:
            momentum = 0.0 if isinstance(method, GradientDescent) else (1 - q) / (1 + q)
        w = x if isinstance(method, HeavyBall) else (1 + momentum) * x - momentum * before
        rows = np.arange(n) if m == n else drawn_rows(batches, m, n)
        slopes = np.minimum(expit(-z[rows] * (u[rows] @ w)), cap[rows])
        g = -(slopes * z[rows]) @ u[rows] / m + scale * noise.laplace(size=d) + 2 * 0.01 * w
        new = w - step * g + (momentum * (x - before) if isinstance(method, HeavyBall) else 0.0)
        x, before = new, x
        path.append(x)
    return np.array(path)


@pytest.mark.parametrize("fraction", [1.0, 0.3, 0.1])
@pytest.mark.parametrize("method", METHODS, ids=method_ids)
def test_a_run_is_the_loop_of_the_theory(method: GradientMethod, fraction: float) -> None:
    """Noise, batches, clipping, momentum, stages and restarts; small L, so that restarts come early."""
    generator = np.random.default_rng(8)
    table = np.column_stack([generator.random((50, 3)), generator.choice([-1.0, 1.0], 50)])
    data = UploadedTable(identity=KEY, n=50, bounds=((0.0, 1.0),) * 3, names=("a", "b", "c"))
    problem = LogisticRegression(data=data, clip=0.7, smoothness=0.1, smoothness_source="declared")
    method = method.replaced(iterations=60, batch_fraction=fraction)
    path = iterates(method, problem, PureDP(epsilon=1.0), replicates=3, tables={KEY: table}, seed=11)
    if isinstance(method, MultistageNesterov):
        assert method.plan(problem.facts(), PureDP()).schedule["restart"].sum() == 2
    for replicate in range(3):
        expected = by_hand(method, problem.facts(), table, replicate, 11)
        assert path[:, replicate] == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("fraction", [0.001, 0.1, 1.0])
@pytest.mark.parametrize("schedule", ["uniform", "optimal", "envelope"])
def test_the_noise_scale_costs_what_the_plan_says(fraction: float, schedule: str) -> None:
    """Check 4: ε_t(b_t) adds up to ε, by the formula of section 4 and not by the accountant."""
    method = Nesterov(batch_fraction=fraction, schedule=schedule, iterations=60)
    plan = method.plan(DEFAULT, PureDP(epsilon=2.0))
    scale, m = plan.noise["gradient"], fraction * 10_000
    cost = np.log1p(np.expm1(20 / (m * scale)) * m / 10_000)
    assert cost.sum() == pytest.approx(2.0, rel=1e-12)
    assert plan.spent("epsilon") == pytest.approx(np.concatenate([[0], np.cumsum(cost)]), rel=1e-12)
    if fraction == 1:
        assert scale * 10_000 * cost == pytest.approx(20.0, rel=1e-12)


@pytest.mark.parametrize(("iterations", "scale"), [(100, 0.0574999818), (1000, 0.4194822293)])
def test_published_scales_with_batches(iterations: int, scale: float) -> None:
    problem = Quadratic(rows=100_000, dimension=20, clip=20.0)  # S₁ = 40
    plan = GradientDescent(iterations=iterations, batch_fraction=0.01).plan(problem.facts(), PureDP(epsilon=1.0))
    assert plan.noise["gradient"] == pytest.approx(scale, abs=5e-11)


def test_default_numbers_of_the_optimal_schedule() -> None:
    """Sections 5.3, 6 and check 7: T* = 31, its bound, ε_t and b_t at t = 1, 16, 31; 27 for the uniform schedule."""
    optimal = Nesterov(schedule="optimal", horizon="bound", iterations=1000)
    plan = optimal.plan(DEFAULT, PureDP(epsilon=2.0))
    assert plan.iterations == plan.resolved["iterations"] == 31
    assert np.diff(plan.spent("epsilon"))[[0, 15, 30]] == pytest.approx([0.03894, 0.06209, 0.09900], abs=1e-5)
    assert plan.noise["gradient"][[0, 15, 30]] == pytest.approx([0.05136, 0.03221, 0.02020], abs=5e-6)
    assert optimal.error_bound(plan)[-1] == pytest.approx(0.1038726, abs=5e-8)
    uniform = Nesterov(horizon="bound", iterations=1000)
    plan = uniform.plan(DEFAULT, PureDP(epsilon=2.0))
    assert plan.iterations == 27 and uniform.error_bound(plan)[-1] == pytest.approx(0.1155240, abs=5e-8)
    descent = GradientDescent(schedule="optimal", horizon="bound", iterations=1000)
    plan = descent.plan(DEFAULT, PureDP(epsilon=2.0))
    assert plan.iterations == 21 and descent.error_bound(plan)[-1] == pytest.approx(0.62030, abs=1e-5)
    for limit in (1, 20, 31):  # the user's T is a ceiling
        assert optimal.replaced(iterations=limit).plan(DEFAULT, PureDP(epsilon=2.0)).iterations == limit


@pytest.mark.parametrize(
    ("relative_step", "schedule", "best", "bound"),
    [
        (1.0, "optimal", 121, 0.1108458),
        (1.0, "uniform", 91, 0.2211073),
        (0.1, "optimal", 349, 0.1914485),
        (0.1, "uniform", 268, None),
    ],
)
def test_numbers_of_steps_for_the_papers_problem(
    relative_step: float, schedule: str, best: int, bound: float | None
) -> None:
    problem = LogisticRegression(
        data=PaperLogistic(rows=100_000), start=10.0, initial_gap=10.0, smoothness=5.1001, smoothness_source="estimated"
    )
    method = Nesterov(schedule=schedule, horizon="bound", iterations=1000, relative_step=relative_step)
    plan = method.plan(problem.facts(), PureDP(epsilon=1.0))
    assert plan.iterations == best
    if bound is not None:
        assert method.error_bound(plan)[-1] == pytest.approx(bound, rel=1e-5)  # L is known to five digits


def test_stages_of_the_multistage_method() -> None:
    def starts(facts: SmoothFacts, **settings: object) -> list[int]:
        plan = MultistageNesterov(iterations=1000, **settings).plan(facts, PureDP())  # type: ignore[arg-type]
        assert np.array_equal(plan.schedule["restart"], np.diff(plan.schedule["stage"], prepend=1) > 0)
        alpha = settings.get("relative_step", 1.0) / facts.smoothness * 4.0 ** -plan.schedule["stage"]
        alpha[plan.schedule["stage"] == 1] *= 4.0
        assert plan.schedule["step_size"] == pytest.approx(alpha, rel=1e-12)
        return (np.flatnonzero(plan.schedule["restart"]) + 1).tolist()

    paper = LogisticRegression(data=PaperLogistic(), smoothness=5.1001, smoothness_source="estimated").facts()
    assert starts(DEFAULT) == [56, 152, 344, 728]
    assert starts(Quadratic(strong_convexity=1.0, smoothness=20.0).facts())[:3] == [15, 55, 135]
    assert starts(paper)[:3] == starts(paper, relative_step=0.1, stage_lengths="paper")[:3] == [90, 226, 498]
    assert starts(paper, relative_step=0.1) == [398, 822]


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("method", METHODS, ids=method_ids)
def test_the_mean_gap_of_many_runs_is_the_exact_curve(method: GradientMethod, noise: str) -> None:
    """2 000 replicates on the quadratic bench, restarts included: within 4.5 standard errors at every recorded step."""
    method = method.replaced(iterations=30, noise=noise, schedule="uniform")
    budget: Budget = PureDP(epsilon=2.0) if noise == "laplace" else ZeroConcentratedDP(rho=0.05)
    experiment = Experiment(
        problem=BENCH, arms=(Arm(label="A", algorithm=method),), budget=budget, replicates=200, seed=1
    )
    gaps = np.concatenate([self_gap(experiment.replaced(seed=seed)) for seed in range(10)], axis=1)
    plan = experiment.plans()["A"]
    expected = method.expected_on_quadratic(plan)
    error = gaps.std(axis=1) / np.sqrt(gaps.shape[1])
    assert gaps[0] == pytest.approx(expected[0], rel=1e-12)
    assert (np.abs(gaps.mean(axis=1) - expected)[1:] < 4.5 * error[1:]).all()


def self_gap(experiment: Experiment) -> np.ndarray:
    return experiment.run().series("A", "objective_gap")[1]


@all_pairs
@pytest.mark.parametrize("schedule", ["uniform", "optimal", "envelope"])
@pytest.mark.parametrize("fraction", [1.0, 0.05])
@pytest.mark.parametrize("method", [GradientDescent(), Nesterov(), MultistageNesterov()], ids=lambda m: m.title)
def test_the_error_bound_is_above_the_exact_gap(method: GradientMethod, fraction: float, schedule: str) -> None:
    for problem in (BENCH, BENCH.replaced(strong_convexity=0.01, dimension=20), BENCH.replaced(start=-0.1, clip=5.0)):
        for budget in (PureDP(epsilon=0.1), PureDP(epsilon=50.0)):
            chosen = method.replaced(iterations=80, schedule=schedule, batch_fraction=fraction)
            plan = chosen.plan(problem.facts(), budget)
            bound, exact = chosen.error_bound(plan), chosen.expected_on_quadratic(plan)
            assert bound is not None and bound.shape == exact.shape == (81,)
            assert (bound >= exact * (1 - 1e-12)).all()


# Method, T, further settings, verified mean gap and its standard error (section 6; two seeds for T* = 31).
TABLE: list[tuple[GradientMethod, float, float]] = [
    (GradientDescent(iterations=100), 0.029, 0.002),
    (GradientDescent(iterations=60), 0.027, 0.001),
    (HeavyBall(iterations=100), 0.14, 0.012),
    (HeavyBall(iterations=100, momentum_rule="optimal"), 0.12, 0.012),
    (HeavyBall(iterations=20), 0.0059, 0.0005),
    (Nesterov(iterations=100), 0.125, 0.011),
    (Nesterov(iterations=20), 0.0063, 0.0005),
    (Nesterov(iterations=40), 0.016, 0.002),
    (Nesterov(iterations=60), 0.040, 0.004),
    (Nesterov(horizon="bound"), 0.0072, 0.0006),
    (Nesterov(iterations=15, schedule="optimal"), 0.0130, 0.0006),
    (Nesterov(iterations=20, schedule="optimal"), 0.0062, 0.0005),
    (Nesterov(horizon="bound", schedule="optimal"), 0.0085, 0.0008),
    (Nesterov(iterations=40, schedule="optimal"), 0.0106, 0.001),
    (Nesterov(iterations=60, schedule="optimal"), 0.0158, 0.0015),
    (Nesterov(iterations=100, schedule="optimal"), 0.0230, 0.002),
    (MultistageNesterov(iterations=100), 0.045, 0.003),
    (MultistageNesterov(horizon="bound", schedule="optimal"), 0.0085, 0.0008),
    (GradientDescent(iterations=20, schedule="optimal"), 0.0719, 0.002),
    (GradientDescent(iterations=40, schedule="optimal"), 0.0413, 0.002),
    (Nesterov(iterations=31, schedule="optimal", batch_fraction=0.1), 0.0146, 0.0015),
    (Nesterov(iterations=31, batch_fraction=0.1), 0.0172, 0.0015),
]


@pytest.fixture(scope="module")
def default_table() -> list[np.ndarray]:
    """(R,) last gaps of every row of TABLE, on the default problem at ε = 2."""
    found: list[np.ndarray] = []
    for start in range(0, len(TABLE), 11):
        arms = tuple(Arm(label=f"{i}", algorithm=row[0]) for i, row in enumerate(TABLE[start : start + 11]))
        trace: Trace = Experiment(problem=LogisticRegression(), arms=arms, replicates=20, seed=7).run()
        found += [trace.last(arm.label, "objective_gap") for arm in arms]
    return found


@pytest.mark.slow
def test_default_problem_has_the_verified_facts() -> None:
    """Section 6: F* = 0.55668, E₀ = 0.13647."""
    problem = LogisticRegression(data=UniformLogistic()).build()
    assert problem.optimum == pytest.approx(0.55668, abs=5e-6)
    assert problem.evaluate({"x": np.zeros((1, 10))})["objective_gap"][0] == pytest.approx(0.13647, abs=5e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "row", range(len(TABLE)), ids=lambda row: f"{TABLE[row][0].title}-{TABLE[row][0].iterations}-{row}"
)
def test_default_table(default_table: list[np.ndarray], row: int) -> None:
    """Check 18: each mean within 25 % or 4 standard errors of both runs."""
    _, gap, error = TABLE[row]
    found = default_table[row]
    own = found.std(ddof=1) / np.sqrt(len(found))
    assert abs(found.mean() - gap) < max(0.25 * gap, 4 * np.hypot(error, own)), f"{found.mean():.5f} ± {own:.5f}"
