"""Optimisation from values alone: presets end to end, and what a move of a slider costs before anything runs.

Targets: the default preset below 5 s, its first record below 1.5 s; plan, planner and advice below 20 ms; the optimal
factorisation at T = 512 below 30 ms with nothing cached. A run at d = 100 takes at most twice as long as its steps.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.families.zeroth_order import VarianceReduced, complexity, complexity_figures, noise_figures, presets, theory
from dpviz.families.zeroth_order.advice import advice
from dpviz.families.zeroth_order.theory import Setting
from dpviz.privacy import optimal_sums
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.values.black_box import PhaseRetrieval
from dpviz.problems.values.value_problem import ValueProblem
from tests.benchmarks.test_plans import forget

FACTS = PhaseRetrieval().facts()
MU = itertools.count(0.5, 1e-4)  # budgets that no cache has seen
SETTING = Setting(n=50_000, d=6, lipschitz=1.0, radius=0.1, gap=0.3, mu=1.0, kind="iid", count=6)


def another() -> Setting:
    return replace(SETTING, mu=next(MU))


# What is seen at every move, by name.
MOVES: dict[str, Callable[[], object]] = {
    "default plan": lambda: VarianceReduced().plan(FACTS, GaussianDP(mu=next(MU))),
    "longest plan": lambda: VarianceReduced(iterations=20_000, epoch_length=1024, first_share=0.05).plan(
        replace(FACTS, n=200_000), GaussianDP(mu=next(MU))
    ),
    "optimal plan": lambda: VarianceReduced(iterations=512, epoch_length=512, sums="optimal").plan(
        FACTS, GaussianDP(mu=next(MU))
    ),
    "planner": lambda: theory.best_reduced(another(), "normalised"),
    "planner, naive": lambda: theory.best_naive(another()),
    "advice": lambda: advice(FACTS, GaussianDP(mu=next(MU))),
    "rows needed": lambda: [complexity.rows_needed(another(), way, 0.3) for way in complexity.WAYS],
    "figure of rows": lambda: complexity_figures.rows_needed(another(), 0.3),
    "figure of the crossover": lambda: complexity_figures.crossover(64, "optimal"),
    "figure of noise, 16 steps": lambda: noise_figures.running_sums(VarianceReduced(), FACTS, GaussianDP(mu=next(MU))),
    "figure of noise, 1,024 steps": lambda: noise_figures.running_sums(
        VarianceReduced(iterations=1024, epoch_length=1024), FACTS, GaussianDP(mu=next(MU))
    ),
    "figure of a tree, 1,024 nodes": lambda: noise_figures.tree(
        VarianceReduced(iterations=1024, epoch_length=1024).layout(FACTS), 30_000, 1000
    ),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("state", ["cold", "moved"])
def test_a_move_of_a_slider(report, state: str, name: str) -> None:
    """cold: no cache knows anything; moved: the budget was never seen before."""
    MOVES[name]()
    report.benchmark.pedantic(MOVES[name], setup=forget if state == "cold" else None, rounds=5)
    report(budget_ms=20)


@pytest.mark.parametrize("length", [16, 63, 64, 128, 256, 512])
def test_optimal_sums(report, length: int) -> None:
    """Nothing is known but the file of multipliers."""
    optimal_sums.optimal_mean(64)
    report.benchmark.pedantic(
        lambda: optimal_sums.optimal_mean(length, 0.7).row_norms, setup=optimal_sums._optimal_mean.cache_clear, rounds=5
    )
    report(budget_ms=30)


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name.split(":")[0].replace(" ", "_"))
def test_preset_end_to_end(report, preset: Preset) -> None:
    """From the click to the plans, to the first record, to the end."""
    experiment = preset.experiment

    def run() -> dict[str, float]:
        began = time.perf_counter()
        estimated = experiment.estimated_seconds(experiment.plans())
        marks = {"plans_s": time.perf_counter() - began}
        for _ in experiment.stream():
            marks.setdefault("first_record_s", time.perf_counter() - began)
        return marks | {"end_s": time.perf_counter() - began, "estimated_s": estimated}

    report(**report.benchmark.pedantic(run, rounds=1))


@pytest.mark.parametrize("label", [*presets.DEFAULT_METHODS, presets.DIRECTIONAL])
def test_records_at_a_hundred_unknowns(report, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """48 steps, which share 50,000 rows: the whole run over what is no diagnostic of it, in processor time."""
    spent, true = [0.0], ValueProblem.evaluate

    def timed(*args: Any) -> Any:
        began = time.process_time()
        found = true(*args)
        spent[0] += time.process_time() - began
        return found

    monkeypatch.setattr(ValueProblem, "evaluate", timed)
    arms = presets.arms([label], iterations=48, descent_steps=48)
    experiment = Experiment(
        problem=PhaseRetrieval(dimension=100), arms=arms, budget=GaussianDP(mu=0.3), replicates=presets.REPLICATES
    )
    began = time.process_time()
    report.benchmark.pedantic(experiment.run, rounds=1)
    whole = time.process_time() - began
    report(run_over_steps=whole / (whole - spent[0]), budget=2.0)
