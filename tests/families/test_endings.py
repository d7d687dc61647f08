"""How the runs of every algorithm end: progress at 1, nobody left running, nobody charged beyond the worst case."""

from typing import Any

import numpy as np
import pytest

from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.mirror_descent import BiasReduced
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.ledger import Filter
from dpviz.problems.games.matrix_games import MatrixGame
from tests.families.registry import ALGORITHMS, R, runs, started


@pytest.mark.one_in(5)
@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.kind)
def test_a_run_ends_with_progress_one_and_no_replicate_running(cls: type[Algorithm]) -> None:
    for case in runs(cls)[:3]:
        arm = Arm(label="it", algorithm=case.algorithm, budget=case.budget)
        experiment = Experiment(problem=case.specification, arms=(arm,), replicates=R)
        steps = list(experiment.stream(next(iter(case.worlds.values())).tables))
        progress = [step.progress for step in steps]
        assert progress == sorted(progress) and progress[-1] == 1.0, case.name
        lane = steps[-1].trace.lanes["it"]
        assert len(lane.status) == R and "running" not in lane.status, case.name
        assert len(lane.statuses) == len(lane.iterations) and lane.iterations[-1] == steps[-1].snapshot.iteration


@pytest.mark.parametrize("cls", ALGORITHMS, ids=lambda cls: cls.kind)
def test_nobody_is_charged_more_than_the_worst_case_after_any_iteration(cls: type[Algorithm]) -> None:
    for case in runs(cls):
        terms: Any = case.plan.terms
        if not isinstance(terms, Filter):
            continue
        worst = case.plan.spent(terms.currency)
        snapshots, source, _ = started(case)
        for snapshot in snapshots:
            assert (source.spent(terms.currency) <= worst[snapshot.iteration] * (1 + 1e-9)).all(), case.name


def test_the_worst_case_of_the_bias_reduced_oracle_climbs_to_its_cap() -> None:
    plan = BiasReduced(stop_level=64).plan(MatrixGame().facts(), ApproximateDP(epsilon=1.0, delta=1e-6))
    spent = plan.spent("rho")
    assert spent[:2].tolist() == [0, 0], "the first round needs no data"
    assert 0 < spent[2] < spent[3] < spent[-1] == pytest.approx(plan.terms.cap)  # type: ignore[union-attr]
    assert (np.diff(spent) >= 0).all()
