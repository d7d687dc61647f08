"""Long steps: they have checkpoints, so that Stop and the time limit are seen; these change no result."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpviz import checkpoints
from dpviz.checkpoints import at_checkpoints, checkpoint, checkpointed_slices, compute_in_slices
from dpviz.datasets import BundledTable, NormalDraws, ProcessDraws, UniformLogistic, synthetic
from dpviz.datasets.groups import GroupedLosses, GroupedSigns
from dpviz.datasets.synthetic import LatentGame
from dpviz.errors import UserError
from dpviz.execution.runner import Job
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import Arm, Experiment, Step
from dpviz.experiments.plan import Plan
from dpviz.experiments.task import Cell, SerialExecutor
from dpviz.experiments.trace import Trace
from dpviz.families import mirror_descent
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.families.mirror_descent.methods import baselines
from dpviz.privacy.budgets import ApproximateDP, Budget, NoPrivacy, PureDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Metric, Problem, ProblemSpecification
from dpviz.problems.games.games import GameFacts
from dpviz.problems.games.group_loss import GroupLoss, GroupLossGame, LossMatrix, LossMatrixGame
from dpviz.problems.games.marginals import MarginalQueries, Marginals
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import LearningGame, SparseRegression
from dpviz.problems.linear import linear_base
from dpviz.problems.linear.linear_models import LogisticProblem, LogisticRegression
from dpviz.problems.tuning.model_tuning import KernelMachine, LengthScales, Location, NormalLocation
from dpviz.problems.tuning.tuning import TuningFacts
from dpviz.specification import registered
from dpviz.ui.families import FAMILIES
from tests.counting import Stop, counted


class Point(Problem):
    metrics = (Metric("value", "Value"),)

    def __init__(self) -> None:
        self.facts = Facts(n=10, d=1)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return {"value": output["x"][:, 0]}


class Slow(ProblemSpecification):
    """Comes to three checkpoints while it is loaded."""

    title = "Slow"

    def facts(self) -> Facts:
        return Facts(n=10, d=1)

    def build(self, tables: Mapping[str, np.ndarray] = {}) -> Problem:
        for _ in range(3):
            checkpoint()
        return Point()


class Endless(Algorithm[Problem, Facts]):
    """Its third step never ends, and comes to checkpoints."""

    title = "Endless"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (Laplace(0.1),) * 3, batch_size=np.full(3, facts.n))

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        yield Snapshot(0, {"x": np.zeros((mechanisms.replicates, 1))})
        mechanisms.batch(plan.events[0])
        yield Snapshot(1, {"x": np.ones((mechanisms.replicates, 1))})
        while True:
            checkpoint()


def endless() -> Experiment:
    arm = Arm(label="it", algorithm=Endless())
    return Experiment(problem=Slow(), arms=(arm,), replicates=2, budget=PureDP(epsilon=1.0))


def test_a_run_is_stopped_and_timed_out_inside_a_step_and_keeps_its_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    timed_out, stopped = Job(endless(), {}), Job(endless(), {})
    timed_out.work(SerialExecutor(0.05))
    assert timed_out.state == "timeout"
    told: list[Trace | None] = []

    def told_of(_: int, trace: Trace | None, progress: float) -> None:
        told.append(trace)
        if len(told) == 15:  # long after its last snapshot
            stopped.stop()
        Job._on_progress(stopped, 0, trace, progress)

    monkeypatch.setattr(stopped, "_on_progress", told_of)
    stopped.work(SerialExecutor())
    assert stopped.state == "stopped" and len(told) == 16, "the last one when it has ended"
    for job in (timed_out, stopped):
        assert job.trace is not None and job.trace.series("it", "value")[0].tolist() == [0, 1]
        assert job.progress == 0.5


def test_what_other_processes_compute_for_a_run_counts_against_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Point, "seconds_elsewhere", 100.0)
    ((_, outcome),) = SerialExecutor(99.0).run([Cell(endless())], threading.Event())
    assert outcome.state == "timeout" and 100.0 < outcome.seconds < 101.0


def test_while_data_are_loaded_there_are_heartbeats_without_a_method_and_nothing_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dpviz.experiments.experiment.EVERY", 0.0)
    early: list[Step] = []
    steps = endless().stream(heartbeat=early.append)
    assert next(steps).label == "it"
    assert [(step.label, step.snapshot.iteration, step.progress) for step in early] == [("", -1, 0.0)] * 3
    assert not any(step.trace.arm_traces for step in early)


def test_a_heartbeat_that_raises_ends_the_run_which_records_its_last_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also inside the record of a state, which is then made at the end."""
    evaluate, evaluated = Point.evaluate, []

    def long(self: Point, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        evaluated.append(float(output["x"][0, 0]))
        while evaluated == [0.0, 1.0]:
            checkpoint()
        return evaluate(self, output)

    beats: list[Step] = []

    def heard(step: Step) -> None:
        beats.append(step)
        if len(beats) == 3:
            raise Stop

    monkeypatch.setattr(Point, "evaluate", long)
    steps = endless().stream(heartbeat=heard)
    trace = next(steps).trace
    with pytest.raises(Stop):
        next(steps)
    assert [(step.label, step.snapshot.iteration) for step in beats] == [("it", 1)] * 3
    assert trace.series("it", "value")[0].tolist() == [0, 1] and evaluated == [0.0, 1.0, 1.0]


def test_checkpoints_call_what_is_set_in_their_thread_from_the_inside_out() -> None:
    calls: list[str] = []
    checkpoint()
    with at_checkpoints(lambda: calls.append("outer")):
        with at_checkpoints(lambda: calls.append("inner")):
            checkpoint()
        with at_checkpoints(lambda: calls.append("too early"), every=60.0):
            checkpoint()
        other = threading.Thread(target=checkpoint)
        other.start()
        other.join()
    checkpoint()
    assert calls == ["inner", "outer", "outer"]


def test_runs_in_threads_of_one_process_are_stopped_one_by_one() -> None:
    stopping = [threading.Event() for _ in range(3)]
    outcomes: dict[int, str] = {}

    def work(number: int) -> None:
        ((_, outcome),) = SerialExecutor().run([Cell(endless())], stopping[number])
        outcomes[number] = outcome.state

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in (1, 0, 2):
        assert number not in outcomes
        stopping[number].set()
        threads[number].join(1.0)
        assert outcomes[number] == "stopped" and len(outcomes) == 1 + (1, 0, 2).index(number)


def test_between_two_slices_there_is_a_checkpoint() -> None:
    parts = list(checkpointed_slices(10, checkpoints.LONGEST / 4))
    assert [(part.start, part.stop) for part in parts] == [(0, 4), (4, 8), (8, 10)]
    assert len(list(checkpointed_slices(3, 100.0))) == 3 and len(list(checkpointed_slices(1000, 0.0))) == 1
    assert (
        counted(lambda: list(checkpointed_slices(3, 100.0)))[1] == 2
        and counted(lambda: list(checkpointed_slices(1000, 0.0)))[1] == 0
    )
    values = np.arange(6.0)
    doubled, count = counted(lambda: compute_in_slices(lambda some: 2 * some, checkpoints.LONGEST / 2, values))
    assert doubled.tolist() == [0, 2, 4, 6, 8, 10] and count == 2


GAMES = LatentGame(rows=130, strategies_x=9, strategies_y=7)
LOGISTIC = LogisticRegression(data=UniformLogistic(rows=600, dimension=3))
RUNS = {
    "gradients": (LOGISTIC, (GradientDescent(iterations=3), Nesterov(iterations=2, batch_fraction=0.2)), PureDP()),
    "sampling": (
        MatrixGame(data=GAMES),
        (
            mirror_descent.VertexSampling(iterations=3, draws=2),
            mirror_descent.GaussianMirrorDescent(gradient_rounds=3),
            mirror_descent.NoisyPayoffs(matrix_rounds=3),
            mirror_descent.TwoDraws(),
        ),
        ApproximateDP(),
    ),
    "curved": (CurvedGame(data=GAMES), (mirror_descent.EuclideanGradient(gradient_rounds=2),), ApproximateDP()),
    "marginals": (
        MarginalQueries(),
        (
            mirror_descent.SyntheticData(iterations=3),
            mirror_descent.MultiplicativeWeights(measured_queries=3),
            mirror_descent.GaussianMarginals(fitting_rounds=3),
        ),
        ApproximateDP(),
    ),
    "levels": (
        MatrixGame(data=GAMES),
        (mirror_descent.BiasReduced(stop_level=4), mirror_descent.CertifiedSampling(iterations=3)),
        ApproximateDP(),
    ),
    "strategies": (
        LossMatrix(data=GroupedLosses(rows=300)),
        (mirror_descent.NoisyPayoffs(matrix_rounds=3),),
        ApproximateDP(),
    ),
    "learning": (
        SparseRegression(rows=300, dimension=5),
        (mirror_descent.FrankWolfe(chosen_vertices=3), mirror_descent.GaussianMirrorDescent(gradient_rounds=3)),
        ApproximateDP(),
    ),
    "reference": (QuadraticGame(data=GAMES), (mirror_descent.TunedReference(rounds=4),), NoPrivacy()),
}


@pytest.mark.parametrize("name", RUNS)
def test_as_many_slices_as_possible_change_no_result(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To rounding: sums over replicates one by one are rounded as BLAS likes."""
    problem, methods, budget = RUNS[name]
    arms = tuple(Arm(label=str(number), algorithm=method) for number, method in enumerate(methods))
    of = Experiment(problem=problem, arms=arms, budget=budget, replicates=3)
    if "games" in type(problem).__module__:  # neither player's matrix is computed before the run
        monkeypatch.setattr("dpviz.problems.games.matrix_games.MAX_PRODUCTS", 3 * 130 * 81 if name == "curved" else 1)
    monkeypatch.setattr("dpviz.datasets.synthetic._ENTRIES", 200)
    plain, count = run(of)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoints, "LONGEST", 1e-12)
        paused, often = run(of)
    assert often >= count and often > 2 * len(methods), "there are checkpoints inside steps"
    assert plain.metrics == paused.metrics
    for label in plain.arm_traces:
        for metric in plain.metrics:
            for one, other in zip(plain.series(label, metric), paused.series(label, metric), strict=True):
                assert other == pytest.approx(one, rel=1e-9, abs=1e-12, nan_ok=True), (label, metric)


def run(of: Experiment) -> tuple[Trace, int]:
    """What it recorded, and how many checkpoints there were."""
    told: list[Step] = []

    def whole() -> Trace:
        for step in of.stream(heartbeat=told.append):
            told.append(step)
        return step.trace

    trace, count = counted(whole)
    assert (np.diff([step.progress for step in told]) >= 0).all() and told[-1].progress == 1.0
    return trace, count


def test_a_certified_minimum_has_checkpoints_too(monkeypatch: pytest.MonkeyPatch) -> None:
    game = GroupLoss(data=GroupedSigns(rows=300, dimension=4), loss="logistic", radius=5.0).build()
    output = {"x": np.eye(8)[:3], "y": np.eye(game.facts.d_y)[:3]}
    game._prepared_start = np.eye(8)[[7]]  # a start that is none of the minima
    expected = game.evaluate(output)
    monkeypatch.setattr(checkpoints, "LONGEST", 1e-12)
    found, count = counted(lambda: game.evaluate(output))
    assert count > 3 and all(found[name] == pytest.approx(expected[name], rel=1e-9) for name in expected)
    assert list(game.evaluate(output, expensive=False)) == ["worst_group_loss"]


LARGEST = [
    LogisticRegression(data=UniformLogistic(rows=1_000_000, dimension=50)),
    MatrixGame(data=LatentGame(rows=100_000, strategies_x=10_000, strategies_y=10_000)),
    QuadraticGame(data=LatentGame(rows=100_000, strategies_x=1_700, strategies_y=1_700)),
    SparseRegression(rows=10_000, dimension=2_000),
    GroupLoss(data=GroupedSigns(rows=100_000), loss="logistic"),
    MarginalQueries(),
    LengthScales(data=BundledTable(), training_rows=2000, validation_users=20_000),
    KernelMachine(data=ProcessDraws(rows=3000, dimension=120), training_rows=2000),
    NormalLocation(data=NormalDraws(rows=200_000, dimension=100)),
]


@pytest.mark.parametrize("problem", LARGEST, ids=lambda problem: problem.kind)
def test_the_largest_data_that_the_controls_allow_are_worked_on_with_a_checkpoint_every_second(
    problem: ProblemSpecification,
) -> None:
    """Declared seconds between two checkpoints of a gradient or a record of 200 replicates: `LONGEST`, or one
    replicate's share, or, of a game that is played on packed signs, a block of columns."""
    facts = problem.facts()
    if isinstance(problem, LogisticRegression):
        row = linear_base.SECONDS_PER_DRAWN_ROW + facts.d * linear_base.SECONDS_PER_GATHERED
        single = max(SHARES * linear_base.evaluation_seconds(facts.n, facts.d), facts.n * row)
    elif isinstance(problem, MatrixGame):
        single = synthetic._ENTRIES * (1e-9 + 200 * 0.25e-9)  # to unpack a sign, and to multiply it with a number
    elif isinstance(facts, TuningFacts):  # one training after the other
        single = facts.training_seconds + facts.gradient_seconds
    else:
        assert isinstance(facts, GameFacts)  # of a quadratic game, products with a matrix that was computed before
        single = (200 if isinstance(problem, QuadraticGame) else SHARES) * facts.seconds
    drawn = 200 * facts.d * 2.8e-8  # a vertex for every replicate, at once
    assert max(checkpoints.LONGEST, single, drawn) <= 1.0


METERED = {  # what a step or a record is made of, by replicates: the first array has a row for each
    Marginals: ("answers", "transposed"),
    LearningGame: ("_gradients", "_objective"),
    LossMatrixGame: ("_gradients",),
    GroupLossGame: ("_gradients", "group_losses"),
    LogisticProblem: ("_table_sum", "_batch_sum", "sums"),
    Location: ("_losses", "_gradients"),
}
SHARES = 16  # an oracle of low bias is four gradients of three passes each; fewer than the replicates
METER: list[int] = []  # replicates that were worked on since the last checkpoint
PLAYED: list[ProblemSpecification] = [
    LOGISTIC,
    MatrixGame(data=GAMES),
    SparseRegression(rows=300, dimension=5),
    LossMatrix(data=GroupedLosses(rows=300)),
    GroupLoss(data=GroupedSigns(rows=300, dimension=4)),
    MarginalQueries(),
    NormalLocation(data=NormalDraws(rows=100)),
]
REPEATS = 24


def metered(true: Callable) -> Callable:
    def counted(source: object, first: np.ndarray, *others: Any) -> Any:
        METER.append(len(first))
        return true(*(() if source is None else (source,)), first, *others)

    return counted


# The families whose problems are PLAYED; what else is registered depends on what was imported before.
PAGES = {entry.name: entry.page() for entry in FAMILIES}
OURS = tuple(
    f"dpviz.families.{name}."
    for name, page in PAGES.items()
    if {type(problem) for problem in PLAYED}.intersection(problem.cls for problem in page.problems.problems.values())
)
ALGORITHMS = [cls for cls in registered(Algorithm) if cls.__module__.startswith(OURS)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.kind)
def test_no_method_works_on_many_replicates_without_a_checkpoint(
    cls: type[Algorithm], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a replicate's share takes as long as may be, what is done between two checkpoints is a few shares, not R of
    them: with the declared seconds of one share at the largest settings (above), that is at most a second."""
    for name in ("_payoffs_of_x", "_payoffs_of_y"):
        true = getattr(baselines, name)
        monkeypatch.setattr(baselines, name, lambda payoffs, played, true=true: metered(true)(None, payoffs, played))
    for owner, names in METERED.items():
        for name in names:
            monkeypatch.setattr(owner, name, metered(getattr(owner, name)))
    monkeypatch.setattr(checkpoints, "LONGEST", 1e-12)
    played = 0
    steps = next((control for control in cls.controls() if control.low is not None), None)
    for problem, budget in product(PLAYED, (ApproximateDP(), NoPrivacy())):
        with suppress(UserError):
            short = {} if steps is None else {steps.name: max(2, int(steps.low or 0))}
            arm = Arm(label="it", algorithm=cls(**short))
            of = Experiment(problem=problem, arms=(arm,), budget=budget, replicates=REPEATS)
            of.plans()
            played += 1
            METER.clear()

            def meter(of: Experiment = of) -> None:
                assert sum(METER) <= SHARES, (of.problem.kind, of.budget.kind)
                METER.clear()

            with at_checkpoints(meter):
                for _ in of.stream():
                    meter()
    assert played
