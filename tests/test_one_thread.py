"""Products of matrices take one thread in runs, plans and audits, whatever the environment says."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dpviz.audits import audit
from dpviz.audits.audit import Audit
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.families.accelerated.audits import CASES, ONE_RUN
from dpviz.one_thread import one_thread, steps_on_one_thread
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.quadratic import Quadratic, QuadraticProblem
from dpviz.sweeps.sweep import Sweep

ROOT = Path(__file__).parents[1]
CALLERS = 3  # threads of whoever calls, fewer or more than there are processors


def threads() -> set[int]:
    """Of the libraries of linear algebra, now."""
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture
def several() -> Iterator[None]:
    with threadpool_limits(CALLERS, user_api="blas"):
        yield


def watched(patch: pytest.MonkeyPatch, owner: Any, *names: str) -> list[set[int]]:
    """The numbers of threads at every call of these functions, from now on."""
    seen: list[set[int]] = []

    def watching(function: Callable) -> Callable:
        def called(*arguments, **named):
            seen.append(threads())
            return function(*arguments, **named)

        return called

    for name in names:
        patch.setattr(owner, name, watching(getattr(owner, name)))
    return seen


def experiment() -> Experiment:
    return Experiment(problem=Quadratic(), arms=(Arm(label="NAG", algorithm=Nesterov(iterations=3)),), replicates=2)


def test_every_step_computes_on_one_thread_and_the_caller_has_its_own_number_between_them(several: None) -> None:
    closed = []

    @steps_on_one_thread
    def steps() -> Iterator[set[int]]:
        try:
            while True:
                yield threads()
        finally:
            closed.append(threads())

    found = steps()
    for _ in range(2):
        assert next(found) == {1}
        assert threads() == {CALLERS}
    found.close()  # type: ignore[attr-defined]
    assert closed == [{1}] and threads() == {CALLERS}


def test_an_error_inside_a_step_restores_the_number(several: None) -> None:
    @steps_on_one_thread
    def steps() -> Iterator[None]:
        yield
        raise ValueError

    with pytest.raises(ValueError):
        list(steps())
    assert threads() == {CALLERS}


def test_of_two_runs_at_once_the_last_to_leave_restores_the_number(several: None) -> None:
    one_thread.__enter__()
    one_thread.__enter__()  # another run of the same server begins
    one_thread.__exit__()  # and the first one ends
    assert threads() == {1}
    one_thread.__exit__()
    assert threads() == {CALLERS}


@pytest.mark.parametrize(
    "run",
    [
        lambda: experiment().plans(),
        lambda: experiment().run(),
        lambda: list(experiment().stream()),
        lambda: Sweep(experiment=experiment(), fields=("budget.epsilon",), values=(1.0,), metric="distance").run(),
    ],
    ids=["plans", "run", "stream", "sweep"],
)
def test_plans_gradients_and_diagnostics(run: Callable[[], object], several: None, monkeypatch) -> None:
    planned = watched(monkeypatch, Nesterov, "plan")
    ran = watched(monkeypatch, QuadraticProblem, "mean_gradient", "evaluate")
    run()
    assert planned and all(number == {1} for number in (*planned, *ran))
    assert threads() == {CALLERS}


def test_audits(several: None, monkeypatch) -> None:
    scored = watched(monkeypatch, audit, "scores")
    planned = watched(monkeypatch, GradientDescent, "plan")
    Audit(CASES[0], CASES[0].budgets[0], runs=200, seed=1).run()
    ONE_RUN.run(PureDP(epsilon=1.0), seed=1)
    assert len(scored) > 1 and len(planned) > 1
    assert all(number == {1} for number in (*scored, *planned))
    assert threads() == {CALLERS}


PROGRAM = """
import hashlib, time
import numpy as np
from dpviz.families.bayesian_optimization.presets import PRESETS
experiment = PRESETS[0].experiment
began = time.process_time()
trace = experiment.replaced(replicates=1).run()
print(time.process_time() - began)
values = [np.array(v) for lane in trace.arm_traces.values() for v in lane.values.values()]
print(hashlib.sha256(b"".join(v.tobytes() for v in values)).hexdigest())
"""


@pytest.mark.slow
def test_a_program_with_several_threads_gives_the_same_bits_in_as_much_time() -> None:
    found = []
    for number in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": number}
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        seconds, bits = ran.stdout.split()
        found.append((float(seconds), bits))
    assert found[0][1] == found[1][1]
    assert found[1][0] < 3 * found[0][0]  # of processor time; it was 13 to 60 times as much
