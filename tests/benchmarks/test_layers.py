"""What the layers cost, each against the same work without them."""

import subprocess
import sys
import threading
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets import prepare
from dpviz.execution.runner import Job
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.task import InThread
from dpviz.families.accelerated import GradientDescent, MultistageNesterov, Nesterov
from dpviz.families.accelerated.presets import SIX_METHODS, arms
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms, Purpose, streams
from dpviz.privacy.queries import Query
from dpviz.problems.base import Metric
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic, QuadraticProblem
from tests.waiting import until

FIVE_ARMS = Experiment(problem=LogisticRegression(), arms=arms(SIX_METHODS[:5]))
STEPS, REPLICATES, DIMENSION = 1000, 20, 20
EVENTS = tuple(Laplace(0.01 + 1e-5 * t) for t in range(STEPS))


class Silent(Quadratic):
    """The quadratic without diagnostics: what is left is the price of streaming and recording."""

    def build(self, tables=()) -> "SilentProblem":
        return SilentProblem(self.facts())


class SilentProblem(QuadraticProblem):
    metrics: ClassVar[tuple[Metric, ...]] = ()

    def evaluate(self, output, expensive: bool = True) -> dict[str, np.ndarray]:
        return {}


@pytest.mark.parametrize("act", ["new", "replaced"])
def test_specification(report, act: str) -> None:
    method = Nesterov()
    acts = {"new": lambda: Nesterov(iterations=200), "replaced": lambda: method.replaced(iterations=200)}
    report.benchmark(acts[act])
    report(budget_us=20)


@pytest.mark.parametrize("act", ["to_json", "from_json", "content_hash"])
def test_experiment_of_five_arms(report, act: str) -> None:
    text = FIVE_ARMS.to_json()
    acts = {
        "to_json": FIVE_ARMS.to_json,
        "from_json": lambda: Experiment.from_json(text),
        "content_hash": FIVE_ARMS.content_hash,
    }
    report.benchmark(acts[act])
    report(budget_ms=0.3)


def test_slider_move_of_six_arms_with_distinct_events(report) -> None:
    """Rebuild, plan and hash at T = 1000; every step has an event of its own, and no cache knows the budget."""
    methods = (GradientDescent, Nesterov, MultistageNesterov)
    base = Experiment(
        problem=LogisticRegression(),
        arms=tuple(
            Arm(label=f"{method.title} {half}", algorithm=method(iterations=STEPS, schedule="optimal"))
            for method in methods
            for half in (1, 2)
        ),
    )
    epsilon = iter(np.linspace(1, 2, 100_000))

    def move() -> None:
        experiment = base.replaced(budget=PureDP(epsilon=next(epsilon)))
        experiment.plans()
        experiment.content_hash()

    report.benchmark(move)
    report(budget_ms=20)


def test_ledger_charge(report) -> None:
    def charge_all(ledger: Ledger) -> None:
        for event in EVENTS:
            ledger.charge(event)

    report.benchmark.pedantic(charge_all, setup=lambda: ((Ledger(FixedEvents(EVENTS), REPLICATES),), {}), rounds=50)
    report(releases=STEPS, budget_ms=1e-3 * STEPS)


def test_query_charge_and_draw(report) -> None:
    """One release beyond the NumPy loop that draws the same numbers from the same generators."""
    value = np.zeros((REPLICATES, DIMENSION))

    def released() -> None:
        mechanisms = Mechanisms(Ledger(FixedEvents(EVENTS), REPLICATES), 0)
        for event in EVENTS:
            batch = mechanisms.batch(event)
            batch.laplace(Query(value, 0.1, "l1", batch))

    def plain() -> None:
        generators = streams(0, Purpose.NOISE, REPLICATES)
        streams(0, Purpose.BATCHES, REPLICATES)
        streams(0, Purpose.PUBLIC, REPLICATES)
        for event in EVENTS:
            noise = np.stack([generator.laplace(size=DIMENSION) for generator in generators])
            _ = value + noise * (0.1 / event.eps)

    def one_generator() -> None:
        (generator,) = streams(0, Purpose.NOISE, 1)
        for event in EVENTS:
            _ = value + generator.laplace(size=value.shape) * (0.1 / event.eps)

    seconds = report.in_turns(released, {"plain": plain, "one_generator": one_generator})
    report(
        extra_us_per_release=1e6 * (seconds["measured"] - seconds["plain"]) / STEPS,
        budget_us_per_release=15,
        extra_us_per_generator=1e6 * (seconds["plain"] - seconds["one_generator"]) / STEPS / REPLICATES,
        budget_us_per_generator=2,
    )


def test_stream_and_trace_without_metrics(report) -> None:
    """One iteration of `Experiment.stream` beyond the algorithm's own generator."""
    method = Nesterov(iterations=STEPS)
    experiment = Experiment(problem=Silent(), arms=(Arm(label="NAG", algorithm=method),), replicates=REPLICATES)
    (plan,) = experiment.plans().values()
    problem = experiment.problem.build()

    def bare() -> None:
        for _ in method.run(problem, plan, Mechanisms(Ledger(plan.terms, REPLICATES), 0)):
            pass

    seconds = report.in_turns(experiment.run, {"bare": bare, "plans": experiment.plans})
    extra = seconds["measured"] - seconds["bare"] - seconds["plans"]
    report(extra_us_per_iteration=1e6 * extra / STEPS, budget_us_per_iteration=15)


def test_from_stop_to_stopped(report) -> None:
    """A run of 20 replicates at n = 10 000: one step takes about a millisecond."""
    experiment = Experiment(
        problem=LogisticRegression(), arms=(Arm(label="NAG", algorithm=Nesterov(iterations=10_000)),)
    )

    def running() -> tuple[tuple[Job, threading.Thread], dict[str, object]]:
        job = Job(experiment, {})
        thread = threading.Thread(target=job.work, args=(InThread(60.0),))
        thread.start()
        until(lambda: job.progress > 0.0 or not job.active)
        return (job, thread), {}

    def stop(job: Job, thread: threading.Thread) -> None:
        job.stop()
        thread.join()
        assert job.state == "stopped"

    report.benchmark.pedantic(stop, setup=running, rounds=10)
    report(budget_ms=50)


def test_rows_of_an_upload_of_50_megabytes(report) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).random((125_000, 50))).rename(columns=str).assign(ill=1)
    features = [str(column) for column in range(49)]
    data = prepare(frame, "ill", "1", features, dict.fromkeys(features, (0.0, 1.0))).specification
    report.benchmark(lambda: data.rows(frame))
    report(budget_ms=500)


def test_fresh_worker(report) -> None:
    """A new process that imports the library and reads an experiment, given nothing but its JSON text."""
    program = "import sys; from dpviz.experiments.experiment import Experiment; Experiment.from_json(sys.argv[1])"
    command = [sys.executable, "-c", program, FIVE_ARMS.to_json()]
    report.benchmark.pedantic(lambda: subprocess.run(command, check=True), rounds=5, warmup_rounds=1)
    report(budget_s=1.5)
