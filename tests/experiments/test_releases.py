"""What is released and what is not: noise of its own for every release, nothing of an arm without privacy, the seed."""

import io
import json
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpviz.datasets import UniformLogistic, prepare
from dpviz.experiments import results
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.results import columns, final_table
from dpviz.experiments.trace import Trace
from dpviz.exports.export import NOT_PRIVATE, to_csv, to_script
from dpviz.families.accelerated import GradientDescent, HeavyBall, planning
from dpviz.families.mirror_descent.methods.algorithms import SyntheticData, VertexSampling
from dpviz.families.mirror_descent.methods.noisy_gradients import EuclideanGradient
from dpviz.privacy.accounting.closed_forms import gdp_epsilon
from dpviz.privacy.budgets import ApproximateDP, GaussianDP, NoPrivacy, PureDP
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

BENCH = Quadratic(rows=400, dimension=6)
ONE_STEP = GradientDescent(iterations=1)


def uploaded() -> tuple[LogisticRegression, dict[str, np.ndarray]]:
    """A logistic regression on a table that somebody uploaded, and that table."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"age": generator.integers(18, 90, 200), "sick": generator.integers(0, 2, 200)})
    prepared = prepare(frame, "sick", "1", ["age"], {"age": (0, 120)}, drop_missing=False)
    return LogisticRegression(data=prepared.specification), {prepared.specification.identity: prepared.table}


def experiment(*arms: Arm, **settings: object) -> Experiment:
    return Experiment(arms=arms, **{"problem": BENCH, "replicates": 4, **settings})


def noise(of: Experiment, label: str) -> np.ndarray:
    """(R, d) the noise of an arm's first step, in units of its scale: x₁ = x₀ - α (∇F(x₀) + b z)."""
    plan = of.plans()[label]
    lane = of.run().arm_traces[label]
    exact = experiment(Arm(label="e", algorithm=ONE_STEP, budget=NoPrivacy()), problem=of.problem).run().arm_traces["e"]
    step = plan.schedule["step_size"][0] * plan.noise["gradient"][0]
    return (exact.output["x"][0] - lane.output["x"]) / step


# ------------------------------------------------------------------------------------------------ noise of its own


def test_two_releases_on_the_same_data_share_no_noise() -> None:
    """With common noise z, arms with the scales b and b' would together give z, and so the exact gradient."""
    one = Arm(label="one", algorithm=ONE_STEP)
    other_step = Arm(label="another step size", algorithm=ONE_STEP.replaced(relative_step=0.5))
    other_budget = Arm(label="another budget", algorithm=ONE_STEP, budget=PureDP(epsilon=1.0))
    momentum = Arm(label="another method", algorithm=HeavyBall(iterations=1))
    gaussian = Arm(label="Gaussian", algorithm=ONE_STEP.replaced(noise="gaussian"), budget=ApproximateDP())
    arms = (one, other_step, other_budget, momentum, gaussian)
    together = experiment(*arms)
    later = experiment(one, budget=PureDP(epsilon=0.5))  # another run, one day later, with the same seed
    draws = {arm.label: noise(together, arm.label) for arm in arms} | {"later": noise(later, "one")}
    for (name, first), (other, second) in combinations(draws.items(), 2):
        assert np.abs(first - second).min() > 1e-4, f"{name} and {other} share their noise"
        assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / np.sqrt(first.size), (name, other)


def test_only_public_starts_are_drawn_from_streams_that_arms_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of PCG64 follows from its increment: those of noise, batches and public choices all differ, between arms
    and replicates; those of starts are the same for all arms. Twins release the same, so they repeat each other."""
    seen: list[Mechanisms] = []

    class Seen(Mechanisms):
        def __init__(self, *rest: Any, **more: Any) -> None:
            super().__init__(*rest, **more)
            seen.append(self)

    def increments(of: Mechanisms, *names: str) -> list[int]:
        return [one.bit_generator.state["state"]["inc"] for name in names for one in getattr(of, name)]

    monkeypatch.setattr("dpviz.experiments.experiment.Mechanisms", Seen)
    own, budgets = ("_noise", "_batches", "public"), (GaussianDP(mu=1.0), GaussianDP(mu=2.0))
    arms = [
        Arm(label=f"{place} at {budget.mu}", algorithm=algorithm.replaced(noise="gaussian"), budget=budget)
        for place, algorithm in enumerate((ONE_STEP, HeavyBall(iterations=1), ONE_STEP.replaced(relative_step=0.5)))
        for budget in budgets
    ]
    next(experiment(*arms).stream())
    streams = [inc for one in seen for inc in increments(one, *own)]
    assert len(seen) == len(arms) == 6 and len(set(streams)) == len(streams) == 6 * 3 * 4
    (common,) = {tuple(increments(one, "common")) for one in seen}
    assert len({*common, *streams}) == 4 + len(streams)
    next(experiment(arms[0].replaced(label="its twin")).stream())
    assert increments(seen[-1], *own) == increments(seen[0], *own)


def test_the_same_data_behind_another_problem_get_other_noise() -> None:
    arm = Arm(label="A", algorithm=GradientDescent(iterations=3))
    found = [
        experiment(arm, problem=LogisticRegression(data=UniformLogistic(rows=500), regularisation=size)).run()
        for size in (0.01, 0.02)
    ]
    first, second = (trace.arm_traces["A"].output["x"] for trace in found)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.99


def test_equal_settings_repeat_whatever_stands_beside_them() -> None:
    alone = experiment(Arm(label="A", algorithm=HeavyBall(iterations=5, batch_fraction=0.5)), replicates=2).run()
    beside = experiment(
        Arm(label="first", algorithm=GradientDescent(iterations=9)),
        Arm(label="B", algorithm=HeavyBall(iterations=5, batch_fraction=0.5), budget=PureDP(epsilon=2.0)),
        replicates=5,
    ).run()
    np.testing.assert_allclose(alone.arm_traces["A"].output["x"], beside.arm_traces["B"].output["x"][:2], rtol=1e-12)


def test_games_with_one_seed_and_two_budgets_share_no_draws() -> None:
    game = MatrixGame()
    arm = Arm(label="A", algorithm=EuclideanGradient(gradient_rounds=20))
    found = [
        experiment(arm, problem=game, budget=ApproximateDP(epsilon=size, delta=1e-6), replicates=2)
        .run()
        .arm_traces["A"]
        for size in (1.0, 1.001)
    ]
    first, second = (lane.output["x"] for lane in found)
    assert np.abs(first - second).max() > 1e-3, "almost the same scale, but other numbers"


def test_releases_of_the_smoothness_have_noise_of_their_own_and_repeat_exactly() -> None:
    problem = LogisticRegression(data=UniformLogistic(rows=2_000))
    radius = problem.feature_radius("l2") ** 2

    def noise(model: LogisticRegression, epsilon: float) -> float:
        """In units of the scale b = R²/(n ε), with the margin b ln(1/2β)."""
        scale = radius / (2_000 * epsilon)
        excess = 4 * (planning.release_smoothness(model, epsilon, 7) - planning.estimated_smoothness(model))
        return excess / scale - np.log(1 / (2 * planning.UNDERESTIMATE))

    assert noise(problem, 0.5) == noise(problem, 0.5)
    assert abs(noise(problem, 0.5) - noise(problem, 1.0)) > 1e-3
    other = problem.replaced(regularisation=0.07)
    assert abs(noise(problem, 0.5) - noise(other, 0.5)) > 1e-3
    fresh = {planning.release_smoothness(problem, 0.5, None) for _ in range(3)}
    assert len(fresh) == 3


# --------------------------------------------------------------------------------------------- arms without privacy


@pytest.fixture(scope="module")
def compared() -> tuple[Experiment, Trace, dict[str, np.ndarray]]:
    """A private arm and its reference without privacy on an upload, run."""
    problem, tables = uploaded()
    method = GradientDescent(iterations=5)
    arms = (Arm(label="DP-GD", algorithm=method), Arm(label="GD", algorithm=method, budget=NoPrivacy()))
    both = experiment(*arms, problem=problem)
    return both, both.run(tables), tables


def test_nothing_of_an_arm_without_privacy_counts_as_released(
    compared: tuple[Experiment, Trace, dict[str, np.ndarray]],
) -> None:
    _, trace, _ = compared
    frame = trace.to_frame()
    assert frame.loc[frame["algorithm"] == "DP-GD", "released"].any()
    assert not frame.loc[frame["algorithm"] == "GD", "released"].any()
    private, reference = trace.arm_traces["DP-GD"], trace.arm_traces["GD"]
    released = [metric for metric in private.metrics if metric.released]
    assert released and all(map(private.released, released)) and not any(map(reference.released, reference.metrics))
    assert private.path["x"] and not any(reference.path.values()), "exact iterates of an upload are not kept"
    assert trace.privacy_by_arm(released[0]) == {"DP-GD": "private", "GD": "not private"}, "each line by itself"
    assert all(
        set(trace.privacy_by_arm(metric).values()) == {"not private"}
        for metric in private.metrics
        if not metric.released
    )
    guide, alone = columns(trace), columns(trace.only(["GD"]))
    assert all(guide[metric.name].released == metric.released for metric in private.metrics if metric.name in guide)
    assert not any(alone[metric.name].released for metric in reference.metrics if metric.name in alone)


def test_without_diagnostics_such_arms_are_not_there_at_all(
    compared: tuple[Experiment, Trace, dict[str, np.ndarray]],
) -> None:
    both, trace, _ = compared
    visible, plans = trace.visible(diagnostics=False), both.plans()
    assert set(visible.arm_traces) == {"DP-GD"} and trace.visible(diagnostics=True) is trace
    assert all(metric.released for metric in visible.metrics.values())
    assert set(visible.arm_traces["DP-GD"].values) == set(visible.metrics)
    assert final_table(visible, plans)["algorithm"].tolist() == ["DP-GD"]
    frame = pd.read_csv(io.StringIO(to_csv(visible, both, plans)), comment="#")
    assert set(frame["algorithm"]) == {"DP-GD"} and not any(name.endswith(NOT_PRIVATE) for name in frame)
    assert visible.to_frame()["released"].all()


def test_the_csv_marks_every_value_of_a_reference(compared: tuple[Experiment, Trace, dict[str, np.ndarray]]) -> None:
    both, trace, _ = compared
    frame = pd.read_csv(io.StringIO(to_csv(trace, both, both.plans())), comment="#")
    reference = frame[frame["algorithm"] == "GD"].dropna(axis=1, how="all")
    planned = {"noise_scale", "passes"}  # of settings alone
    measured = set(reference) - {"algorithm", "replicate", "iteration", "spent_epsilon"} - planned
    assert len(measured) > 3 and all(name.endswith(NOT_PRIVATE) for name in measured)
    private = frame[frame["algorithm"] == "DP-GD"].dropna(axis=1, how="all")
    assert "distance" in private and "distance_nonprivate" in reference


def test_a_game_without_private_series_still_has_a_file() -> None:
    """Vertex sampling on an upload may release no series; what is left is the list of its steps."""
    arm = Arm(label="A", algorithm=VertexSampling(iterations=3))
    game = experiment(arm, problem=MatrixGame(), budget=ApproximateDP())
    text = to_csv(game.run().visible(diagnostics=False), game, game.plans())
    frame = pd.read_csv(io.StringIO(text), comment="#")
    assert frame["iteration"].max() == 3 and not any(name.endswith(NOT_PRIVATE) for name in frame)


# ---------------------------------------------------------------------------------------------------------- the seed


def test_the_seed_of_an_upload_is_drawn_afresh_and_stands_nowhere() -> None:
    problem, tables = uploaded()
    arm = Arm(label="A", algorithm=GradientDescent(iterations=2))
    secret = experiment(arm, problem=problem)
    assert secret.seed is None and json.loads(secret.to_json())["seed"] is None
    outputs = [secret.run(tables).arm_traces["A"].output["x"] for _ in range(2)]
    assert not np.isclose(*outputs).any(), "every run has noise of its own"  # type: ignore[call-overload]
    assert Experiment.from_json(secret.to_json()) == secret
    trace = secret.run(tables)
    assert '"seed":null' in to_csv(trace, secret, secret.plans())
    assert "'seed': None" in to_script(secret)
    fixed = secret.replaced(seed=3)
    first, second = (fixed.run(tables).arm_traces["A"].output["x"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_runs_on_public_data_repeat() -> None:
    arm = Arm(label="A", algorithm=GradientDescent(iterations=2))
    assert experiment(arm).seed == 0 and experiment(arm, seed=None) == experiment(arm, seed=0)


# ---------------------------------------------------------------------------------------------- what publishing costs


def test_publishing_several_methods_or_repeats_composes() -> None:
    method = GradientDescent(iterations=4)
    arms = tuple(Arm(label=f"A{size}", algorithm=method.replaced(relative_step=size)) for size in (0.5, 1.0))
    both = experiment(*arms, Arm(label="open", algorithm=method, budget=NoPrivacy()), budget=PureDP(epsilon=2.0))
    one, every = results.costs(both.plans(), both.plans(), both.budget, both.replicates, 1e-6)
    assert (one.methods, one.repeats, every.repeats) == (2, 1, 4), "what has no privacy has no cost to add"
    assert one.spent == pytest.approx(4.0) and every.spent == pytest.approx(16.0)
    assert one.epsilon <= 4.0 < every.epsilon <= 16.0 and one.delta == 1e-6
    alone = results.costs(both.plans(), ["A1.0"], both.budget, 1, 1e-6)
    assert [cost.spent for cost in alone] == [pytest.approx(2.0)]
    assert results.costs(both.plans(), ["open"], both.budget, 4, 1e-6) == []


def test_the_composed_guarantee_of_gaussian_noise_is_exact_in_mu_and_at_delta() -> None:
    """k runs of μ-GDP are √k μ-GDP; the accountants must agree with that at δ, and so must a budget in (ε, δ)."""
    arm = Arm(label="A", algorithm=GradientDescent(iterations=3, noise="gaussian"))
    runs = experiment(arm, budget=GaussianDP(mu=0.5), replicates=9)
    _, every = results.costs(runs.plans(), ["A"], runs.budget, 9, 1e-5)
    assert every.spent == pytest.approx(1.5) and every.symbol == "μ"
    assert every.epsilon == pytest.approx(gdp_epsilon(1.5, 1e-5), rel=1e-6)
    curve = experiment(arm, budget=ApproximateDP(epsilon=1.0, delta=1e-6), replicates=9)
    one, every = results.costs(curve.plans(), ["A"], curve.budget, 9, 1e-3)
    assert one.spent is None and one.delta == 1e-6, "the budget's own δ"
    assert one.epsilon == pytest.approx(1.0, rel=1e-3) and every.epsilon > 3


def test_one_run_of_many_different_releases_costs_no_more_than_its_budget() -> None:
    """Of more than 120 selections, nearly equal ones were rounded up, which made it ε ≤ 1.009."""
    arm = Arm(label="A", algorithm=SyntheticData(iterations=150))
    runs = experiment(arm, problem=MarginalQueries(), budget=ApproximateDP(epsilon=1.0, delta=1e-6))
    assert len(set(runs.plans()["A"].events)) > 120
    (one,) = results.costs(runs.plans(), ["A"], runs.budget, 1, 1e-6)
    assert one.epsilon <= 1


def test_a_release_before_the_run_is_paid_once() -> None:
    problem = LogisticRegression(
        data=UniformLogistic(rows=500), smoothness_source="released", smoothness=0.5, smoothness_cost=0.5
    )
    arms = tuple(Arm(label=str(t), algorithm=GradientDescent(iterations=t)) for t in (2, 3))
    both = experiment(*arms, problem=problem, budget=PureDP(epsilon=2.0))
    one, every = results.costs(both.plans(), both.plans(), both.budget, 4, 1e-6)
    assert one.spent == pytest.approx(0.5 + 2 * 1.5) and every.spent == pytest.approx(0.5 + 8 * 1.5)


def test_the_csv_says_what_publishing_costs() -> None:
    arms = tuple(Arm(label=str(t), algorithm=GradientDescent(iterations=t)) for t in (2, 3))
    both = experiment(*arms, budget=PureDP(epsilon=2.0))
    header = [line for line in to_csv(both.run(), both, both.plans()).splitlines() if line.startswith("# publishing")]
    assert len(header) == 2
    assert "one run of each of 2 methods: ε = 4; ε ≤" in header[0] and "at δ = 10⁻⁶" in header[0]
    assert "all 4 runs of each of 2 methods: ε = 16" in header[1]
