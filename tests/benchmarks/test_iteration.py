"""One iteration of all replicates at the size of the paper's experiment, against plain NumPy, in turns.

Target: 5 times faster than a loop over replicates, within 2.5 times of the two matrix products alone.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from dpviz.datasets.synthetic import UniformLogistic
from dpviz.families.accelerated import Nesterov
from dpviz.privacy.budgets import PureDP
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms, Purpose, noise_scale, streams
from dpviz.problems.linear.linear_models import LogisticRegression

ROWS, DIMENSION, REPLICATES, REGULARISATION = 100_000, 20, 20, 0.01
SPECIFICATION = LogisticRegression(data=UniformLogistic(rows=ROWS, dimension=DIMENSION), regularisation=REGULARISATION)
PLAN = Nesterov(iterations=500).plan(SPECIFICATION.facts(), PureDP(epsilon=2.0))
SCALE = noise_scale(PLAN.events[0], SPECIFICATION.facts().gradient_sensitivity("l1", ROWS))


class Loop:
    """DP-NAG as one writes it down first: replicate by replicate, gradient and objective separately."""

    def __init__(self, stable: bool) -> None:
        data = SPECIFICATION.data.load()
        self.features, self.labels = data.features, data.labels
        self.signed = self.features * self.labels[:, None]
        self.stable = stable
        self.x = self.before = np.zeros((REPLICATES, DIMENSION))
        self.generators = streams(0, Purpose.NOISE, REPLICATES)
        self.step, self.momentum = PLAN.schedule["step_size"][0], PLAN.schedule["momentum"][0]

    def iterate(self) -> list[float]:
        """One iteration of every replicate; the objective of each."""
        after, objectives = np.empty_like(self.x), []
        for r, generator in enumerate(self.generators):
            at = self.x[r] + self.momentum * (self.x[r] - self.before[r])
            noise = generator.laplace(scale=SCALE, size=DIMENSION)
            after[r] = at - self.step * (self.gradient(at) + noise)
            objectives.append(self.objective(after[r]))
        self.x, self.before = after, self.x
        return objectives

    def gradient(self, x: np.ndarray) -> np.ndarray:
        if self.stable:
            margins = self.labels * (self.features @ x)
            data = -self.features.T @ (self.labels / (1 + np.exp(margins))) / ROWS
        else:
            data = -(1 / (1 + np.exp(self.signed @ x))) @ self.signed / ROWS
        return data + 2 * REGULARISATION * x

    def objective(self, x: np.ndarray) -> float:
        if self.stable:
            loss = np.logaddexp(0, -self.labels * (self.features @ x)).mean()
        else:
            loss = np.log1p(np.exp(-(self.signed @ x))).mean()
        return float(loss + REGULARISATION * x @ x)


def products() -> Mapping[str, Callable[[], object]]:
    """The two float64 products of one iteration, (R, d)(d, n) and (R, n)(n, d), into arrays that exist already."""
    signed = np.array(Loop(stable=False).signed)
    x = np.random.default_rng(0).standard_normal((REPLICATES, DIMENSION))
    margins, gradient = np.empty((REPLICATES, ROWS)), np.empty((REPLICATES, DIMENSION))

    def whole() -> None:
        np.matmul(x, signed.T, out=margins)
        np.matmul(margins, signed, out=gradient)

    return {"products": whole}


def test_one_iteration_of_all_replicates(report) -> None:
    problem = SPECIFICATION.build()
    snapshots = Nesterov(iterations=500).run(problem, PLAN, Mechanisms(Ledger(PLAN.terms, REPLICATES), 0))
    output = next(snapshots).output
    baselines = {
        "loop": Loop(stable=True).iterate,  # labels beside the features, logaddexp: cannot overflow
        "tuned_loop": Loop(stable=False).iterate,  # one signed table, log1p(exp(.)): overflows for margins below -709
        "diagnostics": lambda: problem.evaluate(output),
        **products(),
    }
    seconds = report.in_turns(lambda: next(snapshots), baselines)
    report(
        threads=os.environ.get("OPENBLAS_NUM_THREADS", "unset"),
        iteration_ms=1e3 * seconds["measured"],
        loop_over_iteration=seconds["loop"] / seconds["measured"],
        tuned_loop_over_iteration=seconds["tuned_loop"] / seconds["measured"],
        iteration_over_products=seconds["measured"] / seconds["products"],
        diagnostics_over_iteration=seconds["diagnostics"] / seconds["measured"],
    )


@pytest.mark.parametrize("threads", [2])
def test_one_iteration_with_more_blas_threads(report, threads: int, tmp_path: Path) -> None:
    """The same in a process of its own: OpenBLAS reads the number of its threads once."""
    found = tmp_path / "found.json"
    program = [sys.executable, "-m", "pytest", f"{__file__}::test_one_iteration_of_all_replicates", "-q"]
    program += ["--benchmark-only", f"--benchmark-json={found}", "-p", "no:cacheprovider"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    report.benchmark.pedantic(
        lambda: subprocess.run(program, env=environment, check=True, capture_output=True), rounds=1
    )
    report(**json.loads(found.read_text())["benchmarks"][0]["extra_info"])
