"""Beside an accuracy stands what a constant guess reaches: in traces, tables, sweeps and comparisons."""

import numpy as np
import pandas as pd
import pytest

from dpviz.compare import comparison
from dpviz.compare.comparison import STEPS, Side
from dpviz.datasets import UploadedTable
from dpviz.datasets.synthetic import UniformLinear, UniformLogistic
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import columns, final_table
from dpviz.experiments.summary import summary
from dpviz.experiments.trace import Trace
from dpviz.exports.export import to_csv
from dpviz.families.accelerated import GradientDescent
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.run_figures import convergence
from dpviz.plots.sweep_figures import metric_by_setting
from dpviz.privacy.budgets import PureDP
from dpviz.problems.linear.linear_base import LinearModel
from dpviz.problems.linear.linear_models import HuberRegression, LeastSquares, LogisticRegression
from dpviz.sweeps.sweep import Sweep

KEY = "d" * 32
MAJORITY, MEDIAN = "Always guessing the majority", "Always guessing the median"
ARMS = (Arm(label="GD", algorithm=GradientDescent(iterations=3)),)
DATA = UploadedTable(identity=KEY, n=40, bounds=((0.0, 1.0),), names=("a",))
TABLE = {KEY: np.column_stack([np.linspace(0, 1, 40), np.where(np.arange(40) < 30, -1.0, 1.0)])}


def experiment(problem: LinearModel) -> Experiment:
    return Experiment(problem=problem, arms=ARMS, budget=PureDP(epsilon=1.0), replicates=2)


def targets(model: LinearModel) -> np.ndarray:
    data = model.data.load()
    low, high = data.facts.target_range or (-1.0, 1.0)
    return (data.labels - low) / (high - low)


@pytest.mark.parametrize("model", [LeastSquares, HuberRegression])
def test_no_constant_has_a_smaller_absolute_error_than_the_guess(model: type[LinearModel]) -> None:
    for data in (UniformLinear(rows=1000), UniformLogistic(rows=1000)):
        trace = experiment(model(data=data)).run()
        found = trace.guess("absolute_error")
        assert found is not None and found[0].label == MEDIAN
        places = targets(model(data=data))
        best = min(np.abs(places - guess).mean() for guess in np.linspace(0, 1, 201))
        assert best - 0.0025 <= found[1] <= best + 1e-12  # the grid's step is 0.005


def test_the_majority_stands_beside_the_accuracy_and_is_no_release() -> None:
    of = experiment(LogisticRegression(data=DATA, intercept="yes"))
    trace, plans = of.run(TABLE), of.plans()
    guess = trace.guess("accuracy")
    assert guess is not None and guess[0].label == MAJORITY and guess[1] == 0.75
    table = final_table(trace, plans)
    assert list(table)[list(table).index("accuracy") + 1] == "majority" and table["majority"].tolist() == [0.75]
    assert not columns(trace)["majority"].released and "majority_nonprivate" in to_csv(trace, of, plans)
    hidden = trace.visible(False)
    assert "accuracy" not in hidden.metrics and "majority" not in to_csv(hidden, of, plans)
    drawn = convergence(trace, "accuracy", arm_styles(of.arms))
    assert MAJORITY.lower() in str(drawn.to_dict()) and MAJORITY.lower() not in str(
        convergence(trace, "objective", arm_styles(of.arms)).to_dict()
    )


def test_a_sweep_of_the_accuracy_has_the_guess_of_every_point() -> None:
    of = experiment(LogisticRegression(data=DATA))
    sweep = Sweep(experiment=of, fields=("budget.epsilon",), values=(1.0, 2.0), metric="accuracy")
    result = sweep.run(TABLE)
    found: pd.DataFrame = result.to_frame()
    guesses = found[found["algorithm"] == MAJORITY]
    assert guesses["value"].tolist() == [0.75, 0.75] and guesses["setting"].tolist() == [1.0, 2.0]
    assert not guesses["released"].any() and set(found["algorithm"]) == {"GD", MAJORITY}
    assert MAJORITY in str(metric_by_setting(result, "ε").to_dict())
    assert result.visible(False).to_frame().empty
    other = sweep.replaced(metric="objective").run(TABLE)
    assert set(other.to_frame()["algorithm"]) == {"GD"} and MAJORITY not in str(metric_by_setting(other, "ε").to_dict())


def test_a_comparison_has_it_too_and_offers_no_curve_of_its_own() -> None:
    of = experiment(LogisticRegression(data=DATA))
    assert summary(Trace({"GD": of.metrics().values()})).guess("accuracy") is None, "nothing is recorded yet"
    found = Side("Mine", of, of.plans(), summary(of.run(TABLE)))
    assert "accuracy" in comparison.metrics([found]) and "majority" not in comparison.metrics([found])
    *_, level = comparison.curves([found], "accuracy", STEPS, all_methods=True)
    assert (level.method, level.released, level.quantiles[:, 1].tolist()) == (MAJORITY.lower(), False, [0.75, 0.75])
    assert comparison.ends([found], "accuracy", all_methods=True)["guess"].tolist() == [0.75]
    assert comparison.ends([found], "objective", all_methods=True)["guess"].isna().all()
    shown = Side("Mine", of, of.plans(), found.summary.visible(False))
    assert "accuracy" not in comparison.metrics([shown])
