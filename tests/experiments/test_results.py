import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from dpviz.datasets import Saddle, UniformLogistic, UploadedTable, own_table
from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import (
    CONFIDENCE,
    budget_spent,
    columns,
    costs,
    describe_releases,
    epsilon_reading,
    final_table,
    median_interval,
    quantiles,
)
from dpviz.experiments.summary import Series, arms_to_draw
from dpviz.experiments.trace import Trace
from dpviz.exports.export import to_table
from dpviz.families.accelerated import GradientDescent, Nesterov
from dpviz.families.second_order import MiniBatch, ShortStep
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import (
    ApproximateDP,
    Budget,
    GaussianDP,
    NoPrivacy,
    PureDP,
    RenyiDP,
    TradeOff,
    ZeroConcentratedDP,
)
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.problems.nonconvex.nonconvex import RobustComponent


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment(
        problem=Quadratic(rows=2000, dimension=3),
        arms=(
            Arm(label="DP-GD", algorithm=GradientDescent(iterations=20)),
            Arm(label="DP-NAG", algorithm=Nesterov(iterations=12), budget=PureDP(epsilon=5.0)),
            Arm(label="GD, no privacy", algorithm=GradientDescent(iterations=20), budget=NoPrivacy()),
        ),
        budget=PureDP(epsilon=2.0),
        replicates=7,
    )


def test_one_row_per_arm_with_the_final_numbers(experiment: Experiment) -> None:
    trace = experiment.run()
    table = final_table(trace, experiment.plans()).set_index("algorithm")
    assert list(table.index) == ["DP-GD", "DP-NAG", "GD, no privacy"]
    assert list(table["steps"]) == [20, 12, 20]
    for label, row in table.iterrows():
        iterations, values = trace.series(label, "objective_gap")
        low, median, high = np.quantile(values[-1], (0.1, 0.5, 0.9))
        assert row["objective_gap"] == pytest.approx(median)
        assert row["objective_gap_low"] == pytest.approx(low) and row["objective_gap_high"] == pytest.approx(high)
        assert row["best_step"] == iterations[np.argmin(np.median(values, axis=1))]
        assert row["seconds"] > 0 and row["diverged"] == 0
    assert table["spent"].tolist() == pytest.approx([2.0, 5.0, math.inf])
    assert table["currency"].tolist() == ["ε", "ε", "no privacy"]


def test_metrics_that_a_problem_does_not_have_are_left_out(experiment: Experiment) -> None:
    table = final_table(experiment.run(), experiment.plans())
    assert "accuracy" not in table and "epsilon_at_delta" not in table


def test_the_table_and_the_guide_to_its_columns_agree(experiment: Experiment) -> None:
    trace = experiment.run()
    guide, table = columns(trace), final_table(trace, experiment.plans(), delta=1e-6)
    assert list(guide) == list(table.columns)
    assert not guide["objective_gap"].released and not guide["objective_gap_low"].released
    assert not guide["best_step"].released
    assert guide["spent"].released and guide["steps"].released and guide["diverged"].released


def test_epsilon_at_delta_is_the_tightest_reading(experiment: Experiment) -> None:
    plans = experiment.plans()
    table = final_table(experiment.run(), plans, delta=1e-6).set_index("algorithm")
    expected = accountants.tightest(plans["DP-NAG"].events, 1e-6)
    assert table.loc["DP-NAG", "epsilon_at_delta"] == expected.epsilon < 5.0
    assert table.loc["DP-NAG", "accountant"] == accountants.METHOD_NAMES[expected.method]
    assert table.loc["GD, no privacy", "epsilon_at_delta"] == math.inf
    assert table.loc["GD, no privacy", "accountant"] == "none"


def test_a_stopped_run_has_spent_what_its_plan_had_spent_by_then(experiment: Experiment) -> None:
    plans, stream = experiment.plans(), experiment.stream()
    for step in stream:
        if step.label == "DP-GD" and step.snapshot.iteration == 5:
            break
    stream.close()  # type: ignore[attr-defined]
    table = final_table(step.trace, plans, delta=1e-6).set_index("algorithm")
    for label in ("DP-GD", "DP-NAG"):
        steps = table.loc[label, "steps"]
        assert steps == step.trace.arm_traces[label].iterations[-1]
        assert table.loc[label, "spent"] == plans[label].spent("epsilon")[steps]
    assert table.loc["DP-GD", "steps"] == 5 and table.loc["DP-GD", "spent"] == pytest.approx(0.5)


def test_before_the_first_step_nothing_is_spent_and_nothing_is_known(experiment: Experiment) -> None:
    finished = experiment.run()
    empty = Trace({label: lane.metrics for label, lane in finished.arm_traces.items()})
    table = final_table(empty, experiment.plans(), delta=1e-6)
    assert table["epsilon_at_delta"].tolist() == [0, 0, math.inf], "without privacy there is no ε at any step"
    assert table["steps"].tolist() == [0, 0, 0] and table["spent"].tolist()[:2] == [0, 0]
    assert table["objective_gap"].isna().all() and table["best_step"].isna().all()


@pytest.mark.parametrize(
    ("budget", "noise", "symbol", "size"),
    [
        (PureDP(epsilon=2.0), "laplace", "ε", 2.0),
        (ZeroConcentratedDP(rho=0.3), "gaussian", "ρ", 0.3),
        (GaussianDP(mu=0.7), "gaussian", "μ", 0.7),
        (ApproximateDP(epsilon=1.5, delta=1e-6), "gaussian", "ε at δ = 10⁻⁶", 1.5),
        (ApproximateDP(epsilon=1.5, delta=1e-6), "laplace", "ε at δ = 10⁻⁶", 1.5),
    ],
)
def test_the_budget_is_spent_in_its_own_currency(budget: Budget, noise: str, symbol: str, size: float) -> None:
    algorithm = Nesterov(iterations=10, noise=noise)
    plan = algorithm.plan(Quadratic(rows=2000, dimension=3).facts(), budget)
    spent, currency = budget_spent(plan, 10)
    # Calibration by bisection leaves less than 1e-4 of an (ε, δ) budget unused, and exceeds none.
    assert currency == symbol and size * (1 - 1e-4) <= spent <= size * (1 + 1e-9)
    assert 0 < budget_spent(plan, 5)[0] <= spent and budget_spent(plan, 0)[0] == 0
    assert epsilon_reading(plan, 10, 1e-6).epsilon <= epsilon_reading(plan, 10, 1e-8).epsilon


@pytest.mark.parametrize(
    ("budget", "noise", "share", "bought"),
    [
        (PureDP(epsilon=8.0), "laplace", 1.0, None),
        (PureDP(epsilon=8.0), "laplace", 1.0, 0.5),
        (ZeroConcentratedDP(rho=0.3), "gaussian", 1.0, None),
        (GaussianDP(mu=0.7), "laplace", 1.0, 0.1),
        (ApproximateDP(epsilon=1.5, delta=1e-6), "gaussian", 1.0, None),
        (ApproximateDP(epsilon=8.0, delta=1e-6), "laplace", 1.0, 0.5),
        (ApproximateDP(epsilon=8.0, delta=1e-6), "laplace", 0.25, None),
        (ApproximateDP(epsilon=1.5, delta=1e-6), "gaussian", 0.25, 0.1),
        (RenyiDP(epsilon=1.0), "gaussian", 1.0, None),
        (TradeOff(true_positive_rate=0.2), "gaussian", 1.0, None),
    ],
)
def test_a_run_that_may_have_been_stopped_for_what_it_released_is_read_by_its_whole_plan_or_added_up(
    budget: Budget, noise: str, share: float, bought: float | None
) -> None:
    """bought : the pure ε of a constant that was released before the run."""
    problem = LogisticRegression()
    if bought is not None:
        problem = LogisticRegression(smoothness=0.2, smoothness_source="released", smoothness_cost=bought)
    method = Nesterov(iterations=40, noise=noise, batch_fraction=share, schedule="uniform")
    experiment = Experiment(problem=problem, arms=(Arm(label="a", algorithm=method),), budget=budget, replicates=2)
    plan = experiment.plans()["a"]
    whole = accountants.tightest(plan.events, 1e-6, plan.facts.released)
    basic = accountants.spent((*plan.facts.released, *plan.events), "epsilon")[len(plan.facts.released) :]
    for step in experiment.stream():
        table = final_table(step.trace, {"a": plan}, delta=1e-6).iloc[0]
        steps = table["steps"]
        assert table["epsilon_at_delta"] == pytest.approx(min(whole.epsilon, basic[steps]), rel=1e-12)
        of_whole = accountants.METHOD_NAMES[whole.method] + (", whole plan" if steps < 40 else "")
        assert table["accountant"] == ("basic composition" if basic[steps] < whole.epsilon else of_whole)
        if isinstance(budget, ApproximateDP):
            assert table["spent"] == table["epsilon_at_delta"]
        elif isinstance(budget, TradeOff):
            assert table["spent"] == budget.spent(plan.events)
        else:
            assert table["spent"] == pytest.approx(budget.spent(plan.charged(steps), plan.facts.released))


def test_quantiles_keep_the_last_number_of_a_replicate_that_ends() -> None:
    values = np.array([[np.nan, np.nan], [1.0, 4.0], [2.0, np.nan], [np.inf, np.nan]])
    result = quantiles(values)
    assert np.isnan(result[0]).all()
    np.testing.assert_allclose(result[1:3, 1], [2.5, 3.0])
    assert np.isfinite(result[3]).all() and result[3, 0] < result[3, 1] < result[3, 2]
    assert quantiles(np.empty((0, 5))).shape == (0, 3) and quantiles(np.empty(0)).shape == (0, 3)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("repeats", [7, 20])
def test_the_interval_of_a_median_holds_it_as_often_as_it_says(repeats: int) -> None:
    """Of a skewed law, 20,000 times: within three standard errors above the confidence, and not much wider."""
    values = np.random.default_rng(repeats).exponential(size=(20_000, 1, repeats))
    ends = np.array([median_interval(one) for one in values])
    found = ((ends[:, 0] <= np.log(2)) & (np.log(2) <= ends[:, 1])).mean()
    error = 3 * np.sqrt(0.95 * 0.05 / len(values))
    exact = 1 - 2 * binom.cdf(binom.ppf(0.025, repeats, 0.5) - 1, repeats, 0.5)
    assert found >= CONFIDENCE - error and abs(found - exact) < error


def test_too_few_runs_and_runs_without_numbers_have_no_interval() -> None:
    for values in (np.arange(5.0)[None], np.array([[np.nan] + [1.0] * 9])):
        assert np.isnan(median_interval(values)).all()
    assert median_interval(np.array([[1.0, 2, 3, 4, 5, 6], [np.nan, np.inf, 3, 4, 5, 6]])) == (
        1.0,
        pytest.approx(1e300),
    )


def test_diverged_replicates_are_counted_and_not_dropped(experiment: Experiment) -> None:
    finished = experiment.run()
    trace = Trace({label: lane.metrics for label, lane in finished.arm_traces.items()})
    status = ("running", "diverged", "diverged")
    snapshot = Snapshot(1, {"x": np.zeros((3, 3))}, status=status)
    trace.arm_traces["DP-GD"].append(snapshot, {"objective_gap": np.array([1.0, 1e190, 1e200])}, 0.1)
    row = final_table(trace, experiment.plans()).set_index("algorithm").loc["DP-GD"]
    assert row["diverged"] == 2 and row["objective_gap"] == 1e190


def test_of_batches_that_stop_by_themselves_nothing_adds_up_and_all_is_spent() -> None:
    arms = tuple(
        Arm(label=label, algorithm=method.replaced(iterations=40))
        for label, method in {"all": ShortStep(), "batches": MiniBatch(batch_fraction=0.5)}.items()
    )
    problem = RobustComponent(data=Saddle(rows=5000, dimension=3))
    experiment = Experiment(problem=problem, arms=arms, budget=ApproximateDP(epsilon=1.0, delta=1e-5), replicates=2)
    trace, plans = experiment.run(), experiment.plans()
    found = final_table(trace, plans).set_index("algorithm")
    assert (found["steps"] < 40).all() and found.loc["batches", "spent"] == pytest.approx(1.0, rel=1e-3)
    assert found.loc["all", "ceiling"].endswith("μ") and found["ceiling"].isna()["batches"]
    assert plans["batches"].currency is None and trace.spent("batches")[1].size == 0
    table = to_table(trace, plans)
    assert "spent_rho" not in table and not np.isinf(table.select_dtypes("number")).any(axis=None)


ON_A_FILE = UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("a",))
BOUGHT = {"smoothness": 0.2, "smoothness_source": "released", "smoothness_cost": 0.5}


@pytest.mark.parametrize(
    ("budget", "noise", "bought", "methods", "repeats", "said"),
    [
        (PureDP(epsilon=2.0), "laplace", {}, 3, 3, "9 releases, ε = 18 by adding up; with 1 repeat ε = 6"),
        (PureDP(epsilon=2.0), "laplace", {}, 3, 1, "3 releases, ε = 6 by adding up"),
        (PureDP(epsilon=2.0), "laplace", {}, 1, 1, "1 release, ε = 2"),
        (PureDP(epsilon=2.0), "laplace", {}, 1, 4, "4 releases, ε = 8 by adding up; with 1 repeat ε = 2"),
        (ZeroConcentratedDP(rho=0.5), "gaussian", {}, 2, 2, "4 releases, ρ = 2 by adding up; with 1 repeat ρ = 1"),
        (GaussianDP(mu=1.0), "gaussian", {}, 1, 9, "9 releases, μ = 3 by adding up; with 1 repeat μ = 1"),
        (GaussianDP(mu=1.0), "gaussian", {}, 1, 2, "2 releases, μ = 1.415 by adding up; with 1 repeat μ = 1"),  # √2
        (
            ApproximateDP(epsilon=2.0, delta=1e-6),
            "gaussian",
            {},
            2,
            2,
            "4 releases, ε = 8 and δ = 4×10⁻⁶ by adding up; with 1 repeat ε = 4 and δ = 2×10⁻⁶",
        ),
        (  # a bound of an accountant is no sum
            RenyiDP(epsilon=1.0),
            "gaussian",
            {},
            1,
            2,
            "2 releases, ε ≤ 3.308 at δ = 10⁻⁶ (Gaussian DP); with 1 repeat ε ≤ 2.255 at δ = 10⁻⁶ (Gaussian DP)",
        ),
        # What was bought from the file is paid once: 1.5 times 6, and 0.5.
        (PureDP(epsilon=2.0), "laplace", BOUGHT, 2, 3, "6 releases, ε = 9.5 by adding up; with 1 repeat ε = 3.5"),
        (
            ApproximateDP(epsilon=2.0, delta=1e-6),
            "gaussian",
            BOUGHT,
            2,
            1,
            "2 releases, ε = 3.5 and δ = 2×10⁻⁶ by adding up",
        ),
        # A sum of δ that is 1 promises nothing.
        (
            ApproximateDP(epsilon=1.0, delta=0.01),
            "gaussian",
            {},
            1,
            100,
            "100 releases, ε ≤ 25.75 at δ = 0.01 (Gaussian DP); with 1 repeat ε = 1 and δ = 0.01",
        ),
    ],
)
def test_runs_say_how_many_releases_they_make_and_what_these_add_up_to(
    budget: Budget, noise: str, bought: dict[str, float | str], methods: int, repeats: int, said: str
) -> None:
    """References release nothing, and are not counted."""
    arms = [Arm(label=str(number), algorithm=GradientDescent(iterations=3, noise=noise)) for number in range(methods)]
    free = Arm(label="free", algorithm=GradientDescent(iterations=3), budget=NoPrivacy())
    problem = LogisticRegression(data=ON_A_FILE, **bought)
    plans = Experiment(problem=problem, arms=(*arms, free), budget=budget).plans()
    assert describe_releases([(plan, repeats) for plan in plans.values()], budget) == said
    assert describe_releases([(plans["free"], repeats)], budget) == "no release"


def test_an_epsilon_that_an_accountant_proves_of_several_runs_is_no_sum() -> None:
    arms = [Arm(label=str(number), algorithm=GradientDescent(iterations=3, noise="gaussian")) for number in range(2)]
    budget = RenyiDP(epsilon=1.0, order=8.0)
    plans = Experiment(problem=LogisticRegression(data=ON_A_FILE), arms=tuple(arms), budget=budget).plans()
    said = describe_releases([(plan, 1) for plan in plans.values()], budget)
    assert said.startswith("2 releases, ε ≤ ") and "adding" not in said


@pytest.mark.filterwarnings("ignore:Not private")
def test_of_several_runs_of_which_only_epsilon_and_delta_are_known_both_add_up() -> None:
    """A person's rows in random batches with Gaussian noise have no cost of each step; all of a run meet (ε, δ)."""
    rows = np.arange(24) % 2
    frame = pd.DataFrame({"a": rows / 2, "y": rows, "who": np.arange(24) // 2})
    data = own_table.table(frame, target="y", positive=1, bounds={"a": (0, 1)}, person="who", rows_per_person=2)
    method = GradientDescent(iterations=3, noise="gaussian", batch_fraction=0.5)
    arms = tuple(Arm(label=label, algorithm=method) for label in ("a", "b"))
    budget = ApproximateDP(epsilon=2.0, delta=1e-6)
    plans = Experiment(problem=LogisticRegression(data=data), arms=arms, budget=budget).plans()
    (one, three) = costs(plans, ["a"], budget, 3, 1e-6)
    assert (one.epsilon, one.delta) == (2.0, 1e-6)
    assert three.epsilon == pytest.approx(6.0) and three.delta == pytest.approx(3e-6)
    (both, all_six) = costs(plans, ["a", "b"], budget, 3, 1e-6)
    assert both.epsilon == pytest.approx(4.0) and both.delta == pytest.approx(2e-6)
    assert all_six.epsilon == pytest.approx(12.0) and all_six.delta == pytest.approx(6e-6)


def test_a_share_of_the_start_has_its_interval_as_shares_too() -> None:
    series = Series(np.arange(2), np.array([[1.0, 2.0, 3.0], [0.5, 1.0, 2.0]]), (0.8, 1.6))
    share = series.relative
    assert share is not None and share.end.tolist() == [0.25, 0.5, 1.0] and share.interval == (0.4, 0.8)


def test_the_arms_of_a_picture_are_the_best_in_the_direction_of_its_metric() -> None:
    data = UniformLogistic(rows=200, dimension=2)
    arms = [Arm(label=label, algorithm=GradientDescent(iterations=n)) for label, n in (("many", 30), ("one", 1))]
    trace = Experiment(problem=LogisticRegression(data=data), arms=arms, budget=PureDP(epsilon=100), replicates=5).run()
    for metric, direction in (("objective", np.argmin), ("accuracy", np.argmax)):
        medians = [float(np.median(trace.last(label, metric))) for label in ("many", "one")]
        assert arms_to_draw(trace, metric, 1) == (("many", "one")[direction(medians)],), metric
