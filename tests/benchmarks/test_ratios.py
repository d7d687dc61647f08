"""How long the layers take beside plain work of the same machine, against the stored ratios in `ratios.json`.

    OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python -m pytest tests/benchmarks/test_ratios.py [--store-ratios]

Work and baseline take turns, and the processor time of this process is counted, so a busy machine slows both alike. A
ratio is the least of the medians of several blocks of rounds: what disturbs one block is no regression, what is slower
in all of them is; a test ends with the first block that is quick enough. It fails beyond the stored ratio times
(1 + noise); `noise` is stored with it, and is chosen so that the largest of many repetitions on a busy machine stays
well below.
"""

import itertools
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from dpviz.audits.audit import Audit
from dpviz.datasets.synthetic import LatentGame, Saddle, UniformLogistic
from dpviz.experiments.experiment import Arm, Experiment, recorded_iterations
from dpviz.families.accelerated import GradientDescent, HeavyBall, MultistageNesterov, Nesterov
from dpviz.families.accelerated.algorithms import GradientMethod
from dpviz.families.accelerated.audits import CASES
from dpviz.families.bayesian_optimization import Gibo, Placing
from dpviz.families.bayesian_optimization.algorithms import EstimatedGradients
from dpviz.families.mirror_descent import VertexSampling
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.run_figures import convergence
from dpviz.privacy.accounting import pld
from dpviz.privacy.budgets import ApproximateDP, PureDP
from dpviz.privacy.calibration import calibrated_events
from dpviz.privacy.events import Laplace, Sub
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.nonconvex.nonconvex import RobustComponent
from dpviz.problems.tuning.trainers import ProcessLearner
from dpviz.problems.tuning.tuning import TuningFacts, TuningProblem
from tests.benchmarks.conftest import LINES

STORED = Path(__file__).with_name("ratios.json")
BLOCKS, ROUNDS = 4, 5
NOISE, TRIALS = 0.75, 4  # of the ratio; how often at most a layer that seems slower is measured
REPLICATES, DIMENSION = 20, 20
Act = Callable[[], object]


def products(rows: int, dimension: int = DIMENSION, exponential: bool = True) -> Act:
    """The two matrix products of a gradient step at n = rows, and one exponential per element."""
    source = np.random.default_rng(0)
    table, x = source.standard_normal((rows, dimension)), source.standard_normal((REPLICATES, dimension))
    margins, gradient = np.empty((REPLICATES, rows)), np.empty((REPLICATES, dimension))

    def both() -> None:
        np.matmul(x, table.T, out=margins)
        if exponential:
            np.exp(margins, out=margins)
        np.matmul(margins, table, out=gradient)

    return both


def batches(rows: int, size: int) -> Act:
    """What a step on batches cannot do without: random rows of every replicate, gathered, and two products."""
    source = np.random.default_rng(0)
    table, x = source.standard_normal((rows, DIMENSION)), source.standard_normal(DIMENSION)

    def gathered() -> None:
        for _ in range(REPLICATES):
            batch = table[source.choice(rows, size, replace=False)]
            np.exp(batch @ x) @ batch

    return gathered


def interpreter() -> None:
    """Dictionaries, tuples, text and short arrays: what Python itself takes."""
    found: dict[str, float] = {}
    for i in range(3000):
        key = f"{i % 97}:{i % 89}"
        found[key] = found.get(key, 0.0) + float(np.sqrt(i))
    sorted((value, key) for key, value in found.items())


def transforms() -> None:
    """Fourier transforms there and back of 2¹⁶ numbers."""
    values = np.linspace(0.0, 1.0, 2**16)
    for _ in range(3):
        values = np.fft.irfft(np.fft.rfft(values) ** 2, 2**16)
        values /= values.max()


def steps(method: Nesterov, rows: int) -> Act:
    """One step of all replicates per call."""
    problem = LogisticRegression(data=UniformLogistic(rows=rows, dimension=DIMENSION))
    plan = method.plan(problem.facts(), PureDP(epsilon=2.0))
    running = method.run(problem.build(), plan, Mechanisms(Ledger(plan.terms, REPLICATES), 0))
    next(running)
    return lambda: next(running)


def diagnostics(rows: int = 20_000) -> Act:
    problem = LogisticRegression(data=UniformLogistic(rows=rows, dimension=DIMENSION)).build()
    x = np.random.default_rng(0).standard_normal((REPLICATES, DIMENSION))
    return lambda: problem.evaluate({"x": x})


def gradients(rows: int) -> Act:
    """One gradient on all rows, at a point that was not evaluated."""
    problem = LogisticRegression(data=UniformLogistic(rows=rows, dimension=DIMENSION)).build()
    x = np.random.default_rng(0).standard_normal((REPLICATES, DIMENSION))
    batch = Mechanisms(Ledger(FixedEvents((Laplace(1.0),)), REPLICATES), 0).batch(Laplace(1.0))
    return lambda: problem.mean_gradient(x, batch, "l1")


def hessians(rows: int, dimension: int, replicates: int) -> Act:
    """Hessians on all rows, ready to be released."""
    problem = RobustComponent(data=Saddle(rows=rows, dimension=dimension)).build()
    x = np.random.default_rng(0).standard_normal((replicates, dimension))
    return lambda: problem.hessian(x)


def squares(rows: int, dimension: int, replicates: int) -> Act:
    """The matrix products of Hessians, and nothing else."""
    table = np.random.default_rng(0).standard_normal((rows, dimension))
    other, product = table.copy(), np.empty((dimension, dimension))
    return lambda: [np.matmul(table.T, other, out=product) for _ in range(replicates)]


def releases() -> Act:
    """A hundred releases: query, charge, draw."""
    events, value = tuple(Laplace(0.01 + 1e-5 * t) for t in range(100)), np.zeros((REPLICATES, DIMENSION))

    def released() -> None:
        mechanisms = Mechanisms(Ledger(FixedEvents(events), REPLICATES), 0)
        for event in events:
            batch = mechanisms.batch(event)
            batch.laplace(Query(value, 0.1, "l1", batch))

    return released


def slider_move() -> Act:
    """Rebuild, plan and hash six arms of 1,000 different events each, at a budget that no cache knows."""
    methods = (GradientDescent, Nesterov, MultistageNesterov)
    arms = tuple(
        Arm(label=f"{method.title} {half}", algorithm=method(iterations=1000, schedule="optimal"))
        for method in methods
        for half in (1, 2)
    )
    base, epsilon = Experiment(problem=LogisticRegression(), arms=arms), itertools.count(1.0, 1e-4)

    def moved() -> None:
        experiment = base.replaced(budget=PureDP(epsilon=next(epsilon)))
        experiment.plans()
        experiment.content_hash()

    return moved


def loss_distributions() -> Act:
    """ε of 20 different kinds of subsampled releases that no cache knows, composed exactly."""
    shift = itertools.count(0.5, 1e-5)

    def composed() -> None:
        least = next(shift)
        pld.epsilon_at([(Sub("wor", 100, 10_000, Laplace(least + 0.01 * t)), 20) for t in range(20)], 1e-6)

    return composed


def calibration_of_rare_batches() -> Act:
    """The noise of 1,000 steps of an optimal schedule on one row in 1,000, for a budget that no cache knows."""
    weights, epsilon = np.exp(np.linspace(-3.0, 0.0, 1000)), itertools.count(1.0, 1e-4)

    def calibrated() -> None:
        calibrated_events("gaussian", ApproximateDP(epsilon=next(epsilon)), weights, 100, 100_000)

    return calibrated


def streamed() -> Act:
    """A short run with its records, from the click to the end."""
    arms = (Arm(label="a", algorithm=Nesterov(iterations=50)), Arm(label="b", algorithm=GradientDescent(iterations=50)))
    data = UniformLogistic(rows=500, dimension=5)
    return Experiment(problem=LogisticRegression(data=data), arms=arms, replicates=4).run


def recorded(method: GradientMethod, rows: int = 20_000, dimension: int = DIMENSION) -> Act:
    """A whole run, loading and records included."""
    return whole(method, rows, dimension).run


def whole(method: GradientMethod, rows: int, dimension: int) -> Experiment:
    problem = LogisticRegression(data=UniformLogistic(rows=rows, dimension=dimension))
    return Experiment(problem=problem, arms=(Arm(label="a", algorithm=method),), replicates=REPLICATES)


def least(method: GradientMethod, rows: int, dimension: int = DIMENSION, exponential: bool = False) -> Act:
    """What a whole run cannot do without: two products for every step, and for every record."""
    of = whole(method, rows, dimension)
    plan = of.plan(of.arms[0])
    count = plan.iterations + len(recorded_iterations(plan)[0])
    return repeated(products(rows, dimension, exponential), count)


def repeated(act: Act, times: int) -> Act:
    return lambda: [act() for _ in range(times)]


def game() -> Act:
    """A short private game against its certified gaps."""
    arm = Arm(label="a", algorithm=VertexSampling(iterations=16))
    data = LatentGame(strategies_x=60, strategies_y=60)
    return Experiment(problem=QuadraticGame(data=data), arms=(arm,), budget=ApproximateDP(), replicates=4).run


def figure() -> Act:
    arms = (Arm(label="a", algorithm=Nesterov(iterations=200)),)
    data = UniformLogistic(rows=500, dimension=5)
    experiment = Experiment(problem=LogisticRegression(data=data), arms=arms, replicates=20)
    trace, styles = experiment.run(), arm_styles(arms)
    return lambda: convergence(trace, "objective_gap", styles).to_json()


def audited() -> Act:
    """An audit with 10,000 runs of DP-NAG on each of two tiny data sets, every one of them replayed on the other."""
    case = next(case for case in CASES if case.name == "nesterov")
    return lambda: Audit(case, case.budgets[0], runs=10_000, seed=0).run()


class Free(TuningProblem):
    """Losses that take no time."""

    def __init__(self, users: int, d: int) -> None:
        super().__init__(TuningFacts(users, d, low=(-3.0,) * d, high=(3.0,) * d))
        self._drawn = np.random.default_rng(0).standard_normal((4 * d, users))

    def _losses(self, points: np.ndarray) -> np.ndarray:
        return self._drawn[: len(points)]


def stepping(kept: int = 100, users: int = 500, d: int = 10) -> Act:
    """A step of one replicate of DP-GIBO that keeps so many evaluations, which it has, without its trainings."""
    problem, generator, x = Free(users, d), np.random.default_rng(1), np.zeros((1, d))
    batches = Gibo(placing=Placing(window=kept / d)).batches(problem.facts)
    gradients = EstimatedGradients(problem.evaluations(1, batches.window), batches)

    def step(length: float = 0.05) -> None:
        x[:] = np.clip(x + length * generator.standard_normal(x.shape), -3, 3)
        gradients.mean_gradient(x, 0.5)

    while gradients._evaluated_points[0].points.shape[0] < batches.window:
        step(0.4)
    return step


def trainings(users: int = 500, count: int = 6) -> Act:
    """The trainings of a step of the default: d = 10, 200 training rows."""
    draw = np.random.default_rng(0).standard_normal
    rows = {"x": draw((200, 10)), "y": draw(200), "v": draw((users, 10)), "z": draw(users)}
    learner, points = ProcessLearner(rows, noise=0.01), draw((count, 10))
    return lambda: learner.losses(points)


WORK: dict[str, tuple[Callable[[], Act], Callable[[], Act]]] = {
    "step_on_all_rows": (lambda: steps(Nesterov(iterations=10_000), 20_000), lambda: products(20_000)),
    "step_on_a_batch": (
        lambda: steps(Nesterov(iterations=10_000, batch_fraction=0.05), 20_000),
        lambda: batches(20_000, 1000),
    ),
    "diagnostics": (diagnostics, lambda: products(20_000)),
    # Ratio and noise together: 2 times the product's limit. With few columns weights and overhead count for more.
    "hessians_of_many_columns": (lambda: hessians(5_000, 200, 5), lambda: squares(5_000, 200, 5)),
    "hessians_of_few_columns": (lambda: hessians(20_000, 10, 20), lambda: squares(20_000, 10, 20)),
    # From here to `small_run`, ratio and noise together are the most that a quiet machine may take: 1.7 for diagnostics
    # 2.8 for any batch, 1.8 and 2.6 for whole runs. With five columns the exponentials take longer than the products,
    # and how much longer depends on the processor (4 to 6.7 times the products alone): that baseline has them.
    "diagnostics_over_gradient": (lambda: diagnostics(100_000), lambda: gradients(100_000)),
    "batch_just_gathered": (
        lambda: steps(Nesterov(iterations=10_000, batch_fraction=0.12), 20_000),
        lambda: steps(Nesterov(iterations=10_000), 20_000),
    ),
    "batch_of_half_the_rows": (
        lambda: steps(Nesterov(iterations=10_000, batch_fraction=0.5), 20_000),
        lambda: steps(Nesterov(iterations=10_000), 20_000),
    ),
    "batch_of_nearly_all_rows": (
        lambda: steps(Nesterov(iterations=10_000, batch_fraction=0.95), 20_000),
        lambda: steps(Nesterov(iterations=10_000), 20_000),
    ),
    "gradient_descent_run": (
        lambda: recorded(GradientDescent(iterations=20), 100_000),
        lambda: least(GradientDescent(iterations=20), 100_000),
    ),
    "heavy_ball_run": (
        lambda: recorded(HeavyBall(iterations=20), 100_000),
        lambda: least(HeavyBall(iterations=20), 100_000),
    ),
    "nesterov_run": (
        lambda: recorded(Nesterov(iterations=20), 100_000),
        lambda: least(Nesterov(iterations=20), 100_000),
    ),
    "small_run": (
        lambda: recorded(Nesterov(iterations=20), 10_000, 5),
        lambda: least(Nesterov(iterations=20), 10_000, 5, exponential=True),
    ),
    "releases": (releases, lambda: interpreter),
    "slider_move": (slider_move, lambda: interpreter),
    "loss_distributions": (loss_distributions, lambda: transforms),
    "calibration": (calibration_of_rare_batches, lambda: repeated(transforms, 10)),
    # Between the steps alone and these lies what loading and diagnostics take.
    "run_on_all_rows": (lambda: recorded(Nesterov(iterations=60)), lambda: repeated(products(20_000), 60)),
    "run_on_batches": (
        lambda: recorded(Nesterov(iterations=100, batch_fraction=0.05)),
        lambda: repeated(batches(20_000, 1000), 100),
    ),
    "streamed_run": (streamed, lambda: interpreter),
    "game": (game, lambda: interpreter),
    # A step of DP-GIBO without its trainings, over these; with four times the history, and with ten times the users.
    "tuning_step": (stepping, trainings),
    "tuning_step_of_long_history": (lambda: stepping(kept=400), stepping),
    "tuning_step_of_many_users": (lambda: stepping(users=5000), stepping),
    "figure": (figure, lambda: interpreter),
    "audit": (audited, lambda: interpreter),
}


def clocked(act: Act, calls: int) -> float:
    began = time.process_time()
    for _ in range(calls):
        act()
    return time.process_time() - began


def blocks(work: Act, baseline: Act) -> Iterator[float]:
    """Processor time of the work over that of the baseline, BLOCKS times; each is called as often as fills 20 ms."""
    acts = (work, baseline)
    for act in acts:
        act()
    calls = [max(1, round(0.02 / max(clocked(act, 1), 1e-6))) for act in acts]
    for _ in range(BLOCKS):
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(ROUNDS):
            for found, act, times in zip(seconds, acts, calls, strict=True):
                found.append(clocked(act, times) / times)
        yield statistics.median(seconds[0]) / statistics.median(seconds[1])


@pytest.mark.parametrize("name", WORK)
def test_no_layer_has_become_slower_than_its_stored_ratio(name: str, pytestconfig: pytest.Config) -> None:
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    if pytestconfig.getoption("--store-ratios"):
        ratio = min(blocks(*(make() for make in WORK[name])))
        stored[name] = {"noise": NOISE} | stored.get(name, {}) | {"ratio": float(f"{ratio:.3g}")}
        STORED.write_text(json.dumps(dict(sorted(stored.items())), indent=2) + "\n")
    ratio, limit = math.inf, stored[name]["ratio"] * (1 + stored[name]["noise"])
    # A neighbour on the same machine is gone after a while, a regression is not.
    for block in itertools.chain.from_iterable(blocks(*(make() for make in WORK[name])) for _ in range(TRIALS)):
        ratio = min(ratio, block)
        if ratio <= limit:  # so is the least of all blocks
            break
    pytestconfig.stash[LINES].append(f"{name}: {ratio:.3g} (stored {stored[name]['ratio']:.3g}, at most {limit:.3g})")
    assert ratio <= limit, f"{name} takes {ratio:.3g} times its baseline; {limit:.3g} is the most that noise explains"


@pytest.mark.parametrize("baseline", [interpreter, transforms, products(20_000)], ids=["python", "fft", "products"])
def test_work_done_twice_is_noticed(baseline: Act) -> None:
    found: list[float] = []
    while len(found) < 3 * TRIALS and max(found, default=0.0) <= 1 + NOISE:
        found.append(min(blocks(lambda: (baseline(), baseline()), baseline)))
    assert max(found) > 1 + NOISE and min(found) < 2.5


def test_every_stored_ratio_is_measured() -> None:
    assert set(json.loads(STORED.read_text())) == set(WORK)
