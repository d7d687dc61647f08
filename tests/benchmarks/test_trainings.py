"""Trainings of models that are tuned: what one takes beside what is declared, and what processes beside it save.

Declared is what estimates read; a training's time depends on its setting, so ten are tried.
"""

import numpy as np
import pytest

from dpviz.datasets import BundledTable, FactorDraws, NormalDraws, ProcessDraws
from dpviz.problems.tuning.direct_tuning import HuberRegression, NormalLocation
from dpviz.problems.tuning.model_tuning import KernelMachine, LengthScales
from dpviz.problems.tuning.tuning import TuningProblem, TuningSpecification

PEOPLE = BundledTable(table="health_insurance")
BOXES: dict[str, TuningSpecification] = {
    "process, m = 200, n = 500, p = 10": LengthScales(),
    "process, m = 500, n = 1000, p = 100": LengthScales(
        data=ProcessDraws(rows=1500, dimension=100), training_rows=500, validation_users=1000
    ),
    "ridge, m = 300, n = 1000, p = 100": KernelMachine(model="ridge"),
    "svr, m = 300, n = 1000, p = 100": KernelMachine(),
    "svr, m = 500, n = 4000, p = 9": KernelMachine(data=PEOPLE, training_rows=500, validation_users=4000),
    "svc, m = 500, n = 4000, p = 9": KernelMachine(data=PEOPLE, model="svc", training_rows=500, validation_users=4000),
    "location, n = 100000, d = 20": NormalLocation(data=NormalDraws(rows=100_000, dimension=20)),
    "huber, n = 20190, d = 10": HuberRegression(data=PEOPLE),
}
POINTS = 10


def tried(problem: TuningProblem, count: int = POINTS) -> np.ndarray:
    return np.random.default_rng(0).uniform(*problem.facts.box, (count, problem.facts.d))


@pytest.mark.parametrize("name", BOXES)
def test_one_training(report, name: str) -> None:
    problem = BOXES[name].build()
    x = tried(problem)
    each = report.in_turns(lambda: problem._losses(x), {}, rounds=3)["measured"] / POINTS
    report(each_ms=1e3 * each, declared_over_measured=problem.facts.training_seconds / each)


@pytest.mark.parametrize("name", [name for name in BOXES if name[:3] in ("pro", "hub", "loc")])
def test_the_gradients_of_all_users(report, name: str) -> None:
    problem = BOXES[name].build()
    x = tried(problem, 2)
    each = report.in_turns(lambda: problem._gradients(x), {}, rounds=3)["measured"] / 2
    facts = problem.facts
    report(each_ms=1e3 * each, declared_over_measured=(facts.training_seconds + facts.gradient_seconds) / each)


def test_a_batch_with_a_process_beside(report, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 trainings of about 80 ms with one more process, once it has started; in seconds of the clock, beside those of
    this process alone."""
    box = KernelMachine(data=FactorDraws(rows=3000), training_rows=1400)
    monkeypatch.setenv("DPVIZ_TRAINERS", "1")
    problem = box.build()
    x = tried(problem, 20)
    problem.losses(x)
    found = report.in_turns(lambda: problem.losses(x), {"alone": lambda: problem._losses(x)}, rounds=3)
    report(alone_s=found["alone"], beside_s=found["measured"], saved=1 - found["measured"] / found["alone"])
