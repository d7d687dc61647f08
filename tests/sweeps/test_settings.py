"""What of an experiment can be varied, and over which values."""

from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpviz.errors import UserError
from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated import presets as accelerated
from dpviz.families.bayesian_optimization import presets as tuning
from dpviz.families.mirror_descent import presets as games
from dpviz.privacy.budgets import ApproximateDP
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.specification import Control
from dpviz.sweeps.sweep import Setting, Sweep, data_seed, setting_at, settings
from tests.strategies import steady

EXPERIMENT = Experiment(
    problem=LogisticRegression(),
    arms=accelerated.arms(["DP-GD", "DP-HB"], references=True, momentum_rule="own"),
    budget=ApproximateDP(),
)


def test_settings_are_those_of_budget_methods_problem_and_data() -> None:
    found = settings(EXPERIMENT)
    assert found["epsilon"].fields == ("budget.epsilon",) and found["delta"].title == "Excess δ"
    assert found["iterations"].fields == tuple(f"arms.{k}.algorithm.iterations" for k in range(4)), "references, too"
    assert found["momentum"].fields == ("arms.1.algorithm.momentum", "arms.3.algorithm.momentum")
    assert found["problem_regularisation"].fields == ("problem.regularisation",)
    assert found["data_rows"].fields == ("problem.data.rows",)
    unvaried = {"seed", "replicates", "data_seed", "noise", "schedule", "problem_smoothness_cost"}
    assert not unvaried & set(found), "a cost was paid"
    tuned = settings(tuning.PRESETS[0].experiment)
    assert not [name for name in tuned if name.endswith("seed")], "of the noise in evaluations neither"
    assert data_seed(EXPERIMENT) == "problem.data.seed" and data_seed(EXPERIMENT.replaced(problem=Quadratic())) == ""


@pytest.mark.parametrize("preset", [*accelerated.PRESETS[:2], *games.PRESETS[:2]], ids=lambda preset: preset.name)
def test_every_setting_can_be_swept_and_has_a_title_of_its_own(preset) -> None:
    found = settings(preset.experiment)
    assert len({setting.title for setting in found.values()}) == len(found)
    for name, setting in found.items():
        if "smoothness" in name:
            continue  # goes with another setting
        assert setting_at(preset.experiment, setting.fields) == setting
        low, high = setting.proposed_range
        assert setting.control.low <= low < high <= setting.control.high  # type: ignore[operator]
        values = setting.grid(low, high, 3)
        sweep = Sweep(experiment=preset.experiment, fields=setting.fields, values=values, metric="objective_gap")
        assert 2 <= len(sweep.points()) <= 3


def test_values_are_spaced_as_declared_and_whole_numbers_stay_whole() -> None:
    budget, steps = (settings(EXPERIMENT)[name] for name in ("epsilon", "iterations"))
    assert budget.proposed_range == (0.2, 20.0) and budget.grid(0.2, 20.0, 5) == (0.2, 0.632, 2.0, 6.32, 20.0)
    assert steps.proposed_range == (10.0, 1000.0) and steps.grid(10, 1000, 4) == (10.0, 46.0, 215.0, 1000.0)
    assert steps.grid(1, 3, 24) == (1.0, 2.0, 3.0), "each once"
    share = Setting(Control("share", "Share", "", 0.5, float, 0.0, 1.0), ("share",))
    assert share.proposed_range == (0.0, 1.0) and share.grid(0.0, 1.0, 3) == (0.0, 0.5, 1.0)
    with pytest.raises(UserError, match="Privacy budget: “From” must be below “To”"):
        budget.grid(2.0, 2.0, 5)


@steady
@given(
    low=st.floats(-2e3, 2e3),
    width=st.floats(1e-3, 1e6),
    count=st.integers(1, 24),
    scale=st.sampled_from(["linear", "log"]),
    kind=st.sampled_from([int, float]),
)
@example(1000.4, 2.6, 5, "linear", float)
@example(1000.4, 2.6, 5, "log", int)
@example(0.2, 19.8, 1, "log", float)
def test_values_are_within_their_range_and_no_more_than_wanted(
    low: float, width: float, count: int, scale: Literal["linear", "log"], kind: type
) -> None:
    high = low + width
    setting = Setting(Control("size", "Size", "", 1.0, kind, -1e7, 1e7, scale=scale), ("size",))
    values = setting.grid(low, high, count)
    assert values[0] == low and len(values) <= count and list(values) == sorted(set(values))
    assert values[-1] == (high if count > 1 else low)
    assert all(value == (round(value) if kind is int else float(f"{value:.3g}")) for value in values[1:-1])
    if kind is float and high >= 2 * low > 0:
        assert len(values) == count, "three digits tell them apart"


def test_what_will_be_recorded_is_known_before_anything_runs() -> None:
    for experiment in (EXPERIMENT.replaced(replicates=1), games.PRESETS[0].experiment.replaced(replicates=1)):
        steps = experiment.stream()
        recorded = next(step.trace for step in steps if step.trace.arm_traces).metrics
        steps.close()  # type: ignore[attr-defined]
        assert experiment.metrics() == recorded and next(iter(experiment.metrics())) == next(iter(recorded))
