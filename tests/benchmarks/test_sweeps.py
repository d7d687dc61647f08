"""A sweep of 24 points of about 0.35 s: in two worker processes at least 1.8 times as fast as in the caller's thread,
with an overhead below 10 %."""

import threading
import time

from dpviz.experiments.cells import Executor, InThread
from dpviz.experiments.executors import Slots
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.sweep import Sweep
from dpviz.families.accelerated import presets
from dpviz.problems.linear_models import LogisticRegression
from tests.benchmarks.processes import processor_seconds

SWEEP = Sweep(
    experiment=Experiment(problem=LogisticRegression(), arms=presets.arms(["DP-NAG"], iterations=350)),
    fields=("budget.epsilon",),
    values=tuple(0.1 * 1.25**k for k in range(24)),
    metric="objective_gap",
)


def cpu(pids: list[int]) -> float:
    """Seconds of computing so far, of this process and of those."""
    return time.process_time() + sum(map(processor_seconds, pids))


def run(executor: Executor) -> tuple[float, float]:
    """Seconds by the clock, and seconds of computing in the points."""
    began, computed = time.perf_counter(), 0.0
    for _, outcome in executor.run(SWEEP.cells(), threading.Event()):
        assert outcome.state == "done"
        computed += outcome.seconds
    return time.perf_counter() - began, computed


def test_two_workers_against_the_callers_thread(report) -> None:
    slots = Slots(2, processes=True)
    try:
        warm = SWEEP.replaced(values=SWEEP.values[:2])
        there, here = warm.run(executor=slots.place()), warm.run()
        assert there.to_frame().equals(here.to_frame()), "the same numbers"
        alone, one = run(InThread())
        before = cpu(slots.pids)
        both, two = run(slots.place())
        spent = cpu(slots.pids) - before  # unlike the clock it does not count what else the machine does
        report(seconds_each=one / 24, speed_up=alone / both, budget_speed_up=1.8)
        report(overhead_percent=100 * (spent / two - 1), budget_percent=10, computing_ratio=two / one)
        report.benchmark(SWEEP.cells)
    finally:
        slots.close()
