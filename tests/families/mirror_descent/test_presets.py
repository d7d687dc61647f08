"""Presets: every click leads to a plan, and the numbers that they promise are those that a run gives."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.experiments.trace import Trace
from dpviz.families import mirror_descent
from dpviz.families.mirror_descent import TunedReference, VertexSampling, planning, presets, rates
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import GameFacts
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalGame, MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.ui import explain

EVERY = pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
REPLICATES = {"Ten thousand strategies, 100,000 rows": 1}  # which differ by less than a hundredth of the gap
PROBLEMS = (
    MatrixGame,
    QuadraticGame,
    CurvedGame,
    GroupLoss,
    LossMatrix,
    MarginalQueries,
    SparseRegression,
    Portfolio,
    PolytopeRegression,
)


@cache
def outcome(name: str) -> Trace:
    """The run of a preset; of a game of 10⁴ strategies with fewer replicates, which draw what they draw among all."""
    experiment = named(name).experiment
    return experiment.replaced(replicates=min(experiment.replicates, REPLICATES.get(name, 1000))).run()


def named(start: str) -> Preset:
    return next(preset for preset in presets.PRESETS if preset.name.startswith(start))


def mean(preset: str, arm: str, metric: str = "duality_gap") -> float:
    return float(outcome(named(preset).name).last(arm, metric).mean())


def draws(start: str, arm: str) -> tuple[float, float]:
    """Rounds and draws of a preset's plan."""
    resolved = named(start).experiment.plans()[arm].resolved
    return resolved["rounds"], resolved["draws"]


# -------------------------------------------------------------------------------------------------------- what they say


def test_names_differ_and_the_default_comes_first() -> None:
    names = [preset.name for preset in presets.PRESETS]
    assert len(set(names)) == len(names) and names[0].startswith("Start here")
    assert {f"Theorem {k}" for k in ("4.1", "4.2", "4.3", "5.1", "G.1")} <= {name[:11] for name in names}
    problems = {type(preset.experiment.problem) for preset in presets.PRESETS}
    assert {MatrixGame, QuadraticGame, GroupLoss, MarginalQueries, SparseRegression} <= problems


def test_the_theory_names_no_preset_that_does_not_exist() -> None:
    theory = (Path(presets.__file__).parent / "THEORY.md").read_text()
    (section,) = re.findall(r"^## 7\..*?(?=^## 8)", theory, re.M | re.S)
    known = {*(preset.name for preset in presets.PRESETS), "The paper's table", "None"}
    assert set(re.findall(r'"([^"]+)"', section)) <= known


@pytest.mark.slow
def test_the_papers_steps_spend_what_the_errata_say() -> None:
    spent = []
    for preset in presets.PRESETS:
        for arm in preset.experiment.arms:
            if arm.label == "As in the paper":
                plan = preset.experiment.plans()[arm.label]
                spent.append(accountants.tightest(plan.events, plan.budget.own_delta(1e-6)).epsilon)
    text = " ".join(explain.errata(mirror_descent).split())
    assert len(spent) == 5 and f"{min(spent):.2f} to {max(spent):.2f}" in text


@EVERY
def test_every_preset_explains_itself(preset: Preset) -> None:
    for text in (preset.look_for, preset.reported):
        assert len(text) > 10 and text.endswith(".")
    assert preset.source
    labels = {arm.label for arm in preset.experiment.arms}
    metrics = {"duality_gap", "worst_query_error"}
    for expected in preset.expected:
        assert expected.arm in labels and expected.low < expected.high and expected.source
        assert expected.metric in metrics


@EVERY
def test_every_preset_survives_its_text_and_plans_within_its_budget(preset: Preset) -> None:
    experiment = preset.experiment
    assert Experiment.from_json(experiment.to_json()) == experiment
    for label, plan in experiment.plans().items():
        if isinstance(plan.budget, ApproximateDP):
            assert accountants.tightest(plan.events, plan.budget.delta).epsilon <= plan.budget.epsilon * (1 + 1e-9), (
                label
            )
        else:
            assert isinstance(plan.budget, NoPrivacy), label


@EVERY
def test_every_preset_starts_with_methods_that_the_page_offers_in_its_order(preset: Preset) -> None:
    experiment = preset.experiment
    offered, _ = presets.offered(type(experiment.problem))
    labels = [arm.label for arm in experiment.arms if not isinstance(arm.budget, NoPrivacy)]
    assert labels == [label for label in offered if label in labels]
    assert 0 < experiment.estimated_seconds(experiment.plans()) < 60


# --------------------------------------------------------------------------------------------------------- arms by name


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.kind.rpartition(".")[2])
def test_every_method_that_is_offered_for_a_problem_plans_for_it(problem: type) -> None:
    offered, default = presets.offered(problem)
    assert set(default) <= set(offered) <= set(presets.METHODS) and default == tuple(n for n in offered if n in default)
    arms = presets.arms(offered, references=True)
    plans = Experiment(problem=problem(), arms=arms, budget=ApproximateDP(epsilon=1.0, delta=1e-6)).plans()
    assert set(plans) == {*offered, presets.REFERENCE}


def test_every_method_is_offered_somewhere() -> None:
    assert set().union(*(presets.offered(problem)[0] for problem in PROBLEMS)) == set(presets.METHODS)


def test_arms_take_the_settings_that_they_have() -> None:
    arms = presets.arms(presets.METHODS, iterations=7, draws=3, euclidean_step=2.0, batching="single")
    assert [arm.label for arm in arms] == list(presets.METHODS)
    for arm in arms:
        assert getattr(arm.algorithm, "iterations", 7) == 7 and getattr(arm.algorithm, "draws", 3) == 3
        assert getattr(arm.algorithm, "euclidean_step", 2.0) == 2.0
        assert getattr(arm.algorithm, "batching", "single") == "single"
    assert presets.METHODS["Vertex sampling"] == VertexSampling(), "presets are not changed by arms made from them"


def test_the_reference_is_tuned_and_takes_no_setting_of_the_private_methods() -> None:
    *_, plain = presets.arms(["Vertex sampling", "DP-SGDA"], references=True, iterations=9)
    assert isinstance(plain.budget, NoPrivacy) and plain.algorithm == TunedReference()
    *_, plain = presets.arms(["MWEM"], references=True, iterations=9)
    assert plain.algorithm == TunedReference(rounds=1024)


def test_the_sweep_changes_both_players_and_nothing_else() -> None:
    base = presets.PRESETS[0].experiment
    points = presets.dimension_sweep(base, (10, 30)).planned()
    sizes = [facts_of(plan) for point in points for plan in point.plans.values()]
    assert {(facts.d_x, facts.d_y, facts.n) for facts in sizes} == {(10, 10, 5000), (30, 30, 5000)}
    several = presets.dimension_sweep(base, (10, 30), data_sets=3).planned()
    data = [point.experiment.problem.data for point in several]  # type: ignore[union-attr]
    assert [found.seed for found in data] == [0, 0, 1, 1, 2, 2]


def facts_of(plan: object) -> GameFacts:
    facts = getattr(plan, "facts", None)
    assert isinstance(facts, GameFacts)
    return facts


# --------------------------------------------------------------------------------------------- plan-time claims, no run


def test_the_theorems_presets_have_the_theorems_parameters() -> None:
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    rows = {}
    for start, name in (
        ("Theorem 4.1, quadratic", "bilinear"),
        ("Theorem 4.1, curved", "second_order"),
        ("Theorem 4.2", "first_order"),
    ):
        facts = facts_of(named(start).experiment.plans()["Single pass"])
        row = rows[start] = rates.sampling_setting(planning.sizes(facts, budget), name)  # type: ignore[arg-type]
        for arm in ("Single pass", "As in the paper"):
            assert draws(start, arm) == (row.rounds, row.draws), start
    assert rows["Theorem 4.1, quadratic"].draws == 1
    assert draws("Theorem 4.1, curved", "Single pass") == (694, 12)  # as its text says
    assert draws("Theorem 4.2", "Single pass")[1] > 1


def test_no_preset_is_cut_short() -> None:
    """What a theorem asks for fits into the ranges of every preset: no plan carries a note."""
    for preset in presets.PRESETS:
        assert all(not plan.notes for plan in preset.experiment.plans().values()), preset.name


def test_the_curved_presets_game_is_curved() -> None:
    """The theorem's case is L₂ > 0: of a game with L₂ = 0 the quadratic row holds, with one draw."""
    curved = facts_of(named("Theorem 4.1, curved").experiment.plans()["Single pass"])
    assert curved.second_smoothness > 0 and curved.smoothness_x > 0
    quadratic = facts_of(named("Theorem 4.1, quadratic").experiment.plans()["Single pass"])
    assert quadratic.second_smoothness == 0
    rows = rates.settings(planning.sizes(curved, ApproximateDP(epsilon=1.0, delta=1e-6)))
    assert "second_order" in {row.result for row in rows}


def test_one_arm_reuses_and_the_other_draws_afresh() -> None:
    """All else equal; fresh draws double the number, so the step is shorter by √2."""
    experiment = named("Reuse or fresh").experiment
    reuse, fresh = (arm.algorithm for arm in experiment.arms)
    assert isinstance(reuse, VertexSampling) and isinstance(fresh, VertexSampling)
    assert (reuse.output, fresh.output) == ("reuse", "fresh") and fresh.replaced(output="reuse") == reuse
    steps = [plan.resolved["step_size_x"] for plan in experiment.plans().values()]
    assert steps[0] / steps[1] == pytest.approx(2**0.5, rel=0.01)


def test_the_papers_accounting_costs_the_steps_that_it_is_said_to_cost() -> None:
    start = named("Find the needle").experiment.plans()
    assert start["Vertex sampling"].resolved["step_size_x"] > 7 * start["As in the paper"].resolved["step_size_x"]
    claimed = accountants.tightest(start["As in the paper"].events, 1e-6).epsilon
    assert 0.15 < claimed < 0.25  # "really spends about 0.2"
    paper = named("Theorem G.1").experiment
    plan = paper.plans()["Synthetic histogram"]
    row_weights = planning.weights(plan.facts, plan.iterations, "full")
    allowed = planning.private_steps(plan.facts, plan.budget, row_weights, 1, (0.0, 1.0), "tight", plan.iterations)[1]
    assert 7.5 < allowed / plan.resolved["step_size_y"] < 8.5  # "eight times too short"


def test_sizes_that_are_told_are_right() -> None:
    five = named("Synthetic data: five columns").experiment.problem
    assert isinstance(five, MarginalQueries) and five.marginals().queries == 127
    insurance = named("Synthetic data: health").experiment.problem
    assert isinstance(insurance, MarginalQueries)
    assert len(insurance.data.facts().columns) == 6 and 1500 < insurance.data.facts().domain_size < 2500
    rounds, k = (named("Theorem 5.1").experiment.plans()["Anytime"].resolved[name] for name in ("rounds", "draws"))
    assert 100 < rounds < 1000 and 24 <= k < 100  # "hundreds of rounds, dozens of draws"


# ------------------------------------------------------------------------------------------------------- what runs give


@pytest.mark.slow
@pytest.mark.parametrize("preset", [p for p in presets.PRESETS if p.expected], ids=lambda preset: preset.name)
def test_expected_numbers_hold(preset: Preset) -> None:
    wrong = []
    for expected in preset.expected:
        values = outcome(preset.name).last(expected.arm, expected.metric)
        found = float(values.mean() if expected.statistic == "mean" else np.median(values))
        error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
        if not expected.low <= found <= expected.high:
            wrong.append(f"{expected.arm}: {found:.5f} ± {error:.5f}, not in [{expected.low}, {expected.high}]")
    assert wrong == []


@pytest.mark.slow
@EVERY
def test_every_preset_runs_to_its_end_and_stays_finite(preset: Preset) -> None:
    trace = outcome(preset.name)
    assert set(trace.lanes) == {arm.label for arm in preset.experiment.arms}
    for label, plan in preset.experiment.plans().items():
        iterations, gaps = trace.series(label, "duality_gap")
        assert iterations[-1] <= plan.iterations and np.isfinite(gaps).all() and (gaps > -1e-6).all(), label
        if label != "Bias-reduced":  # which stops at random
            assert iterations[-1] == plan.iterations, label


@pytest.mark.slow
def test_what_to_look_for_can_be_seen_in_games() -> None:
    """That is, "almost blind", "better still", "more than doubles", "by about a third" (of the mean over five data)."""
    start, needle, wide = "Start here", "Find the needle", "A thousand"
    # The default methods of the page are without the paper's accounting, which stays as blind as it was.
    paper = named(start).experiment.replaced(arms=presets.arms(["As in the paper"])).run()
    assert paper.last("As in the paper", "duality_gap").mean() > 0.7 * 0.847  # uniform play
    assert mean(needle, "As in the paper") > 0.7 and mean(needle, "Gaussian mirror descent") < mean(needle, "DP-SGDA")
    assert mean(needle, "Gaussian mirror descent") < 0.5 * mean(needle, "Vertex sampling")
    arm = "Gaussian mirror descent"
    assert mean(wide, arm) > 2 * mean(start, arm) and mean(start, arm) > 1.2 * mean(start, "Vertex sampling")
    assert mean(wide, "Vertex sampling") < 1.6 * mean(start, "Vertex sampling")


def final_gaps(problem: ProblemSpecification, replicates: int = 12) -> dict[str, float]:
    """The median gap of every private method that is offered for a problem."""
    arms = presets.arms(presets.offered(type(problem))[0])
    budget = ApproximateDP(epsilon=1.0, delta=1e-6)
    trace = Experiment(problem=problem, arms=arms, budget=budget, replicates=replicates).run()
    return {arm.label: float(np.median(trace.last(arm.label, "duality_gap"))) for arm in arms}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_nothing_that_is_offered_beats_vertex_sampling_in_the_default_game(seed: int) -> None:
    """Not two draws, nor longer fictitious play, nor noise on gradients; for every one of five data sets."""
    problem = presets.PRESETS[0].experiment.problem
    assert isinstance(problem, QuadraticGame)
    found = final_gaps(problem.replaced(data=problem.data.replaced(seed=seed)))
    own = found.pop("Vertex sampling")
    found.pop("Vertex sampling, certified")  # the same play, less what the certificate costs
    assert own < min(found.values()) and own < 0.1 * found["Two draws"], found


@pytest.mark.slow
def test_no_two_single_strategies_come_near_the_equilibrium_of_the_default_game() -> None:
    """What makes it so: with curvature the best of all 90,000 pairs of pure strategies still has a gap above 0.2."""
    problem = presets.PRESETS[0].experiment.problem
    game, x, least = problem.build(), np.eye(300), np.inf
    for k in range(300):
        gaps = game.evaluate({"x": x, "y": np.repeat(x[[k]], 300, axis=0)})["duality_gap"]
        least = min(least, float(gaps.min()))
    assert 0.2 < least < 0.5


@pytest.mark.slow
def test_what_to_look_for_can_be_seen_in_learning_and_in_synthetic_data() -> None:
    groups = "Worst group: be fair"
    trace = outcome(named(groups).name)
    assert trace.series("Vertex sampling", "worst_group_loss")[1][0].mean() == pytest.approx(0.25, abs=0.01)
    assert mean(groups, "Vertex sampling", "worst_group_loss") < 0.11  # the optimum is 0.084
    five, error = "Synthetic data: five", "worst_query_error"
    assert mean(five, "Gaussian marginals", error) < 0.2 * mean(five, "Synthetic histogram", error)
    sparse = "Sparse regression"
    assert mean(sparse, "Vertex sampling") < 0.5 * mean(sparse, "Frank-Wolfe") < 0.1 * mean(sparse, "Anytime")


@pytest.mark.slow
def test_what_to_look_for_can_be_seen_in_the_theorems() -> None:
    assert mean("Theorem 4.1, quadratic", "Single pass") > 2 * mean("Find the needle", "Vertex sampling")
    assert mean("Theorem 4.2", "As in the paper") > 2 * mean("Theorem 4.2", "Single pass")
    for arm in ("Single pass", "As in the paper"):  # "the gap hardly falls"
        gaps = outcome(named("Theorem 4.1, curved").name).series(arm, "duality_gap")[1]
        assert 0.9 * gaps[0].mean() < gaps[-1].mean() < gaps[0].mean(), arm
    anytime = outcome(named("Theorem 5.1").name).series("Anytime", "duality_gap")[1]
    assert anytime[-1].mean() > anytime[0].mean()  # "above the loss of equal weights"
    assert mean("Theorem 4.3", "Vertex sampling") < 0.5 * mean("Theorem 4.3", "Bias-reduced")
    assert mean("Theorem 5.1", "Frank-Wolfe") < 0.2 * mean("Theorem 5.1", "Anytime")
    histogram = "Synthetic histogram", "worst_query_error"
    assert mean("Theorem G.1", *histogram) > 1.5 * mean("Synthetic data: five", *histogram)


def test_played_vertices_beat_fresh_ones() -> None:
    """Erratum E1: playing leaves the whole budget to the played vertices."""
    assert mean("Reuse or fresh", "Vertex sampling") < 0.8 * mean("Reuse or fresh", "Fresh draws")


@pytest.mark.slow
def test_drawn_rows_are_a_table() -> None:
    """Shares of drawn rows are whole numbers of rows, as the page's download takes them."""
    trace = outcome(named("Synthetic data: health").name)
    problem = named("Synthetic data: health").experiment.problem.build()
    assert isinstance(problem, MarginalGame)
    shares = trace.lanes["Synthetic rows"].output["x"] * 256
    np.testing.assert_allclose(shares, np.rint(shares), atol=1e-9)
    np.testing.assert_allclose(shares.sum(axis=1), 256)
