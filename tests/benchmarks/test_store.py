"""The store: a cell of 256 kB put and got in about 3 ms each, a repeated sweep of 100 cells in less than 1 s."""

import threading
import time
from itertools import cycle
from pathlib import Path

import pytest

from dpviz.execution.increments import outcome_to_bytes
from dpviz.execution.store import Store, Stored
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.task import Cell, InThread
from dpviz.families.accelerated import Nesterov
from dpviz.problems.linear.quadratic import Quadratic

EXPERIMENT = Experiment(
    problem=Quadratic(rows=100, dimension=2),
    arms=(Arm(label="NAG", algorithm=Nesterov(iterations=200)),),
    replicates=80,
)


@pytest.mark.parametrize("act", ["put", "get"])
def test_one_cell(report, tmp_path: Path, act: str) -> None:
    store = Store(tmp_path / "cells.sqlite")
    cells = [Cell(EXPERIMENT.replaced(seed=number)) for number in range(100)]
    ((_, outcome),) = InThread().run(cells[:1], threading.Event())
    for cell in cells:
        store.put(cell, outcome)
    turns = cycle(cells)
    acts = {"put": lambda: store.put(next(turns), outcome), "get": lambda: store.get(next(turns))}
    report.benchmark(acts[act])
    report(kilobytes=len(outcome_to_bytes(outcome)) / 1e3, budget_ms=3)
    store.close()


def test_a_repeated_sweep(report, tmp_path: Path) -> None:
    """100 cells, and beside it what they took at first."""
    store = Store(tmp_path / "cells.sqlite")
    cells = [Cell(EXPERIMENT.replaced(seed=number), keep="last") for number in range(100)]
    executor = Stored(InThread(), store)
    began = time.perf_counter()
    assert len(list(executor.run(cells, threading.Event()))) == 100
    report(first_s=time.perf_counter() - began, budget_s=1)
    found = report.benchmark(lambda: list(executor.run(cells, threading.Event())))
    assert {outcome.state for _, outcome in found} == {"done"}
    store.close()
