"""Notebooks: valid, and their cells, run one after the other, give the numbers that they were made from."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest

import dpviz
from dpviz.datasets.uploads.upload import prepare
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import final_table
from dpviz.exports import export
from dpviz.exports.export import to_notebook
from dpviz.families.accelerated import Nesterov
from dpviz.privacy.budgets import ApproximateDP, Budget, PureDP, ZeroConcentratedDP
from dpviz.privacy.statistics import allocation
from dpviz.privacy.statistics.analyses import Analyses, Count, Histogram, Mean, Quantile, Sum
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

HOSTILE = '\'); import os # """ {x} \\ <script>\n%magic'
PLAN = Analyses(
    rows=777,
    statistics=(
        Count(name=HOSTILE),
        Sum(name="sum", highest=3.0),
        Mean(name="mean", highest=3.0, weight=2.0),
        Histogram(name="histogram", bins=7),
        Quantile(name="quantile", highest=9.0, candidates=10),
    ),
)


def code(text: str) -> list[str]:
    """The code cells of a notebook, which must be a valid one."""
    found = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(found)  # type: ignore[no-untyped-call]
    assert json.loads(text)["nbformat_minor"] == 5 and found.cells[0].cell_type == "markdown"
    return [cell.source for cell in found.cells if cell.cell_type == "code"]


def executed(text: str) -> dict[str, Any]:
    """What the names stand for after the last cell."""
    names: dict[str, Any] = {}
    for cell in code(text):
        exec(cell, names)
    return names


@pytest.mark.parametrize(
    "budget",
    [PureDP(epsilon=1.0), ZeroConcentratedDP(rho=0.1), ApproximateDP(epsilon=1.0, delta=1e-5)],
    ids=lambda budget: budget.name,
)
def test_the_notebook_of_analyses_computes_their_numbers(budget: Budget) -> None:
    planned = PLAN.planned(budget)
    found = executed(export.analyses_to_notebook(PLAN, budget, 1e-7, 0.02))
    table = found["table"].set_index("analysis")
    assert table.index.tolist() == [p.statistic.name for p in planned] and table.index[0] == HOSTILE
    assert table["error"].tolist() == [p.error for p in planned]
    assert table["scale"].tolist() == [p.scale for p in planned]
    assert table["rows_needed"].tolist() == [p.rows_needed(0.02) for p in planned]
    assert table["largest_error"]["histogram"] == planned[3].largest_error
    assert found["total"] == allocation.joint_guarantee([p.share for p in planned], budget.own_delta(1e-7))
    assert list(found["seen"]) == table.index[:4].tolist()
    assert all(0.95 - 5 * 0.0022 < share < 0.99 for share in found["seen"].values())
    rehearsed = found["rehearsal"].set_index("analysis")["released"]
    assert rehearsed.index.tolist() == table.index.tolist() and rehearsed["quantile"] in range(10)
    assert abs(rehearsed["mean"] - 1.5) < 0.5 and len(rehearsed["histogram"]) == 7


def test_analyses_of_one_name_are_all_tried_out() -> None:
    plan = Analyses(statistics=(Count(), Count(weight=3.0), Mean()))
    found = executed(export.analyses_to_notebook(plan, PureDP(epsilon=1.0), 1e-6, 0.05))
    assert list(found["seen"]) == ["Analysis", "Analysis (2)", "Analysis (3)"] and len(found["rehearsal"]) == 3


@pytest.mark.slow
def test_a_notebook_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    cells = [
        *code(export.analyses_to_notebook(PLAN, PureDP(epsilon=1.0), 1e-6, 0.05)),
        "print(table['scale'].tolist())",
    ]
    path = tmp_path / "cells.py"
    path.write_text("\n\n".join(cells), encoding="utf-8")
    environment = {"PYTHONPATH": str(Path(dpviz.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1", "PYTHONUTF8": "1"}
    ran = subprocess.run([sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [p.scale for p in PLAN.planned(PureDP(epsilon=1.0))]


def test_the_notebook_of_an_experiment_shows_its_final_table() -> None:
    arms = (Arm(label=HOSTILE, algorithm=Nesterov(iterations=4)),)
    experiment = Experiment(problem=Quadratic(rows=500, dimension=2), arms=arms, replicates=2, seed=3)
    expected = final_table(experiment.run(), experiment.plans()).drop(columns="seconds")
    pd.testing.assert_frame_equal(executed(to_notebook(experiment))["table"], expected)


def test_the_notebook_of_an_upload_reads_the_users_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"age": np.linspace(0, 1, 60), "ill": np.arange(60) % 2})
    upload = prepare(frame, "ill", "1", ["age"], {"age": (0.0, 1.0)})
    problem = LogisticRegression(data=upload.specification)
    experiment = Experiment(problem=problem, arms=(Arm(label="A", algorithm=Nesterov(iterations=3)),), seed=None)
    text = to_notebook(experiment)
    assert "hold no seed" in text and not any(f"{value:.6f}"[:7] in text for value in frame["age"][1:-1])
    (tmp_path / "your_file.csv").write_text(frame.to_csv(index=False))
    monkeypatch.chdir(tmp_path)
    assert executed(text)["table"]["algorithm"].tolist() == ["A"]
