"""Vertex sampling and synthetic data: step sizes, updates by hand, limits, bounds, and the numbers of THEORY.md."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from dpviz.datasets.categories import CategoricalGenerator
from dpviz.datasets.games import LatentGame
from dpviz.datasets.groups import GroupedUpload
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace
from dpviz.families.mirror_descent import EuclideanGradient, SyntheticData, VertexSampling, theory
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.closed_forms import exponential_rho
from dpviz.privacy.budgets import ApproximateDP, Budget, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech, Repeat
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import Game, GameFacts, Pair
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame, bilinear_gap
from dpviz.problems.games.quadratic_games import QuadraticGame
from dpviz.problems.games.simplex_learning import SparseRegression

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])


class Explicit(Game):
    """xᵀAy for a given matrix A."""

    def __init__(self, payoffs: np.ndarray, n: int = 1000) -> None:
        d_x, d_y = payoffs.shape
        self.facts = GameFacts(n=n, d=d_x + d_y, d_x=d_x, d_y=d_y)
        self._payoffs = payoffs

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        return y @ self._payoffs.T, x @ self._payoffs

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return {"duality_gap": bilinear_gap(self.gradients(output["x"], output["y"]))}


def needle(d: int = 300, n: int = 5000) -> MatrixGame:
    return MatrixGame(data=LatentGame(rows=n, strategies_x=d, strategies_y=d))


def trace(algorithm: Algorithm, problem: ProblemSpecification, budget: Budget, replicates: int, seed: int = 0) -> Trace:
    arm = Arm(label="it", algorithm=algorithm)
    return Experiment(problem=problem, arms=(arm,), budget=budget, replicates=replicates, seed=seed).run()


def gap(algorithm: Algorithm, problem: ProblemSpecification, budget: Budget = BUDGET, replicates: int = 16) -> float:
    return float(trace(algorithm, problem, budget, replicates).last("it", "duality_gap").mean())


def outputs(method: Algorithm, game: Game, plan: Plan, replicates: int = 1, seed: int = 0) -> list[dict]:
    run = method.run(game, plan, Mechanisms(Ledger(plan.terms, replicates), seed))
    return [{name: np.array(value) for name, value in snapshot.output.items()} for snapshot in run]


# ---------------------------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize(
    ("settings", "formula"),
    [({"batching": "full"}, 1.335538), ({"batching": "single"}, 0.766826)],
    ids=["full batch", "single pass"],
)
def test_step_sizes_of_the_default_problem(settings: dict, formula: float) -> None:
    """Check 3. The bounded range costs at most η²/8, so the step is at least the formula's, and hardly more."""
    plan = VertexSampling(**settings).plan(needle().facts(), BUDGET)
    for name in ("step_size_x", "step_size_y"):
        assert formula <= plan.resolved[name] <= 1.02 * formula


def test_the_paper_s_step_size_and_what_it_really_spends() -> None:
    plan = VertexSampling(batching="single", accounting="paper").plan(needle().facts(), BUDGET)
    assert plan.resolved["step_size_x"] == plan.resolved["step_size_y"] == pytest.approx(0.163946, rel=1e-5)
    spent = accountants.tightest(plan.events, BUDGET.delta)
    assert spent.by_method["zcdp"] == pytest.approx(0.193622, rel=2e-3) and spent.epsilon <= 0.193622


def test_the_events_are_the_draws_that_depend_on_data() -> None:
    """Erratum E6: 2 K (T - 1) draws, both players from the second round on; ranges 2 osc τ w."""
    facts = needle().facts()
    for settings, weights in (({}, np.arange(1, 64) / 5000), ({"batching": "single"}, np.full(63, 1 / 78))):
        plan = VertexSampling(draws=3, **settings).plan(facts, BUDGET)
        assert len(plan.events) == 126 and plan.charged_at.tolist() == np.repeat(np.arange(2, 65), 2).tolist()
        ranges = 4 * plan.resolved["step_size_x"] * weights
        assert all(isinstance(event, Repeat) and event.times == 3 for event in plan.events)
        found = [event.event.eta for event in plan.events]  # type: ignore[union-attr]
        assert found[::2] == pytest.approx(ranges) and found[1::2] == pytest.approx(ranges)
        assert plan.schedule["range_x"] == pytest.approx(np.append(0.0, ranges))


def test_shares_of_the_budget_and_fresh_output_draws() -> None:
    facts = needle().facts()
    plan = VertexSampling(share_x=0.8).plan(facts, ZeroConcentratedDP(rho=0.05))
    own = {p: accountants.total([ExpMech(eta) for eta in plan.schedule[f"range_{p}"][1:]], "rho") for p in "xy"}
    assert own["x"] + own["y"] == pytest.approx(0.05, rel=1e-5) and own["x"] == pytest.approx(0.04, rel=1e-3)
    half, whole = VertexSampling(relative_step=0.5).plan(facts, BUDGET), VertexSampling().plan(facts, BUDGET)
    assert half.resolved["step_size_x"] == pytest.approx(whole.resolved["step_size_x"] / 2)
    fresh = VertexSampling(output="fresh").plan(facts, BUDGET)
    assert all(isinstance(event, Repeat) and event.times == 2 for event in fresh.events)
    assert fresh.resolved["step_size_x"] == pytest.approx(whole.resolved["step_size_x"] / math.sqrt(2), rel=0.02)


def test_who_chooses_rounds_and_draws() -> None:
    """Section 5.3: T = 724 for the quadratic theorem at n = 10 000, d = 1000; a quarter of it in practice."""
    facts = needle(1000, 10_000).facts()

    def size(parameters: str) -> tuple[float, float]:
        plan = VertexSampling(iterations=1024, parameters=parameters).plan(facts, BUDGET)
        assert plan.notes == ()
        return plan.resolved["rounds"], plan.resolved["draws"]

    assert size("bilinear") == (724, 1)
    assert size("bound")[0] == pytest.approx(math.sqrt(3) * 364, abs=2)  # where steps stay at their caps
    assert size("practice")[0] == pytest.approx(364 / 4, abs=1)
    with pytest.raises(UserError, match="stated for"):
        VertexSampling(parameters="bilinear").plan(facts, PureDP(epsilon=1.0))
    with pytest.raises(UserError, match="at most"):
        VertexSampling(iterations=300, batching="single").plan(needle(4, 200).facts(), BUDGET)


# -------------------------------------------------------------------------------------------------------------- updates


@pytest.mark.parametrize("batching", ["full", "single"])
@pytest.mark.parametrize("draws", [1, 3])
def test_the_run_is_the_loop_of_the_theory(batching: str, draws: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A1 written from its text, fed with the vertices that the run drew: the same weights, scores and averages."""
    problem = MatrixGame(data=LatentGame(rows=60, strategies_x=5, strategies_y=4))
    method = VertexSampling(iterations=6, draws=draws, batching=batching)  # type: ignore[arg-type]
    plan = method.plan(problem.facts(), ZeroConcentratedDP(rho=2.0))
    drawn: list[np.ndarray] = []
    logits: list[np.ndarray] = []
    true_sample, true_exponential = Mechanisms.sample, Mechanisms.exponential

    def sample(source: Mechanisms, log_weights: np.ndarray, *rest: object) -> np.ndarray:
        logits.append(np.array(log_weights))
        drawn.append(true_sample(source, log_weights, *rest))  # type: ignore[arg-type]
        return drawn[-1]

    def exponential(source: Mechanisms, query: Query, event: Repeat | ExpMech) -> np.ndarray:
        eta = (event.event if isinstance(event, Repeat) else event).eta  # type: ignore[union-attr]
        logits.append(eta * query.value / query.sensitivity)
        drawn.append(true_exponential(source, query, event))
        return drawn[-1]

    monkeypatch.setattr(Mechanisms, "sample", sample)
    monkeypatch.setattr(Mechanisms, "exponential", exponential)
    found = outputs(method, problem.build(), plan, replicates=2)
    u, v = (signs.columns(slice(None)) for signs in problem.data.load())
    tau_x, tau_y = plan.resolved["step_size_x"], plan.resolved["step_size_y"]
    score_x, score_y, sums = np.zeros((2, 5)), np.zeros((2, 4)), [np.zeros((2, 5)), np.zeros((2, 4))]
    for t in range(6):
        for score, used in zip((score_x, score_y), logits[2 * t : 2 * t + 2], strict=True):
            assert score - score[:, :1] == pytest.approx(used - used[:, :1], abs=1e-12)
        x, y = (np.eye(d)[drawn[2 * t + p]].mean(axis=1) for p, d in enumerate((5, 4)))
        sums = [sums[0] + x, sums[1] + y]
        assert found[t + 1]["x"] == pytest.approx(sums[0] / (t + 1)) and found[t + 1]["y"] == pytest.approx(
            sums[1] / (t + 1)
        )
        rows = slice(None) if batching == "full" else slice(10 * t, 10 * t + 10)
        payoffs = u[rows].T @ v[rows] / len(u[rows])
        score_x, score_y = score_x - tau_x * y @ payoffs.T, score_y + tau_y * x @ payoffs


def test_without_privacy_it_is_exponential_weights() -> None:
    """Check 7: the published gap and average after 200 rounds with step size 0.1."""
    game = Explicit(np.array([[0.5, -1.0, 0.0], [-0.5, 1.0, 0.25]]))
    method = VertexSampling(iterations=200)
    plan = method.plan(game.facts, NoPrivacy())
    steps = {name: np.full(200, 0.1) for name in ("step_size_x", "step_size_y")}
    plan = Plan.fixed(
        game.facts,
        NoPrivacy(),
        plan.events,
        charged_at=plan.charged_at,
        iterations=200,
        resolved=plan.resolved,
        **{**plan.schedule, **steps},
    )
    last = outputs(method, game, plan)[-1]
    assert game.evaluate(last)["duality_gap"][0] == pytest.approx(0.0596937, abs=1e-6)
    assert last["x"][0] == pytest.approx([0.5505092, 0.4494908], abs=1e-6)


def test_games_with_one_group_or_one_strategy_leave_that_player_alone() -> None:
    table = np.column_stack([np.random.default_rng(0).uniform(0, 1, (40, 2)), np.ones(40), np.zeros(40)])
    data = GroupedUpload(
        identity="b" * 32, n=40, bounds=((0.0, 1.0),) * 2, names=("a", "b"), groups=("all",), shares=(1.0,)
    )
    for problem in (GroupLoss(data=data), LossMatrix(data=data)):
        method = VertexSampling(iterations=5)
        plan = method.plan(problem.facts(), BUDGET)
        assert len(plan.events) == 4 and (plan.schedule["range_y"] == 0).all()
        assert (outputs(method, problem.build({"b" * 32: table}), plan)[-1]["y"] == 1).all()
    one = GroupedUpload(
        identity="b" * 32, n=40, bounds=((0.0, 1.0),), names=("a",), groups=("c", "d"), shares=(0.5, 0.5)
    )
    with pytest.raises(UserError, match="Synthetic data"):
        SyntheticData().plan(LossMatrix(data=one).facts(), BUDGET)


# --------------------------------------------------------------------------------------------------------------- bounds


@pytest.mark.slow
def test_the_direct_bound_holds_for_played_vertices_and_fresh_ones_violate_it() -> None:
    """Check 11 and erratum E1: matching pennies, T = 100, τ = 0.1; mean gaps .160 and .254 against a bound of .239."""
    game, means = Explicit(PENNIES), {}
    bound = float(theory.direct_bound([theory.Player(math.log(2), 2.0, 2.0)] * 2, [0.1, 0.1], 100))
    assert bound == pytest.approx(0.239, abs=1e-3)
    for output in ("reuse", "fresh"):
        method = VertexSampling(iterations=100, output=output)  # type: ignore[arg-type]
        draws = 2 if output == "fresh" else 1
        ranges = 0.4 * np.arange(1, 100) / 1000
        rho = 2 * draws * float(exponential_rho(ranges).sum())
        plan = method.plan(game.facts, ZeroConcentratedDP.model_construct(rho=rho))
        assert plan.resolved["step_size_x"] == pytest.approx(0.1, rel=1e-5)
        gaps = game.evaluate(outputs(method, game, plan, replicates=400)[-1])["duality_gap"]
        means[output] = float(gaps.mean())
        assert gaps.std() / 20 < 0.01
    assert means["reuse"] < bound < means["fresh"]
    assert means["reuse"] == pytest.approx(0.160, abs=0.02) and means["fresh"] == pytest.approx(0.254, abs=0.03)


def test_the_direct_bound_holds_with_curvature() -> None:
    """Section 10.1 with 2 (L_xx + L_yy)/K, on a quadratic game whose curvature needs no data."""
    problem = QuadraticGame(data=LatentGame(rows=2000, strategies_x=20, strategies_y=20))
    facts = problem.facts()
    for draws in (1, 8):
        method = VertexSampling(iterations=32, draws=draws)
        plan = method.plan(facts, ApproximateDP(epsilon=4.0, delta=1e-6))
        steps = [plan.resolved[f"step_size_{p}"] for p in "xy"]
        players = [theory.Player(math.log(20), 2.0, 3.0, 1.0, draws)] * 2
        bound = float(theory.direct_bound(players, steps, 32))
        gaps = problem.build().evaluate(outputs(method, problem.build(), plan, replicates=50)[-1])["duality_gap"]
        assert gaps.mean() < bound


# ------------------------------------------------------------------------------------------------ the published numbers


@pytest.mark.slow
def test_the_headline_regression() -> None:
    """Check 17: the gap hardly grows with the number of strategies; Euclidean noise makes it explode."""
    gaps = {d: gap(VertexSampling(), needle(d)) for d in (30, 300, 1000)}
    assert 0.11 <= gaps[300] <= 0.19
    assert gaps[1000] / gaps[30] < 2.5
    assert gap(EuclideanGradient(gradient_rounds=64, euclidean_step=1.0), needle(1000), replicates=8) > 0.8


@pytest.mark.slow
def test_the_gap_falls_with_the_budget_and_the_rows() -> None:
    """Check 14: needle with 100 strategies, 64 rounds, 32 repeats."""
    by_budget = [gap(VertexSampling(), needle(100), ApproximateDP(epsilon=e, delta=1e-6), 32) for e in (0.3, 1.0, 3.0)]
    by_rows = [gap(VertexSampling(), needle(100, n), BUDGET, 32) for n in (1000, 5000, 20_000)]
    assert by_budget == pytest.approx([0.357, 0.121, 0.055], abs=0.03)
    assert by_rows == pytest.approx([0.554, 0.130, 0.039], abs=0.03)


def test_constants_matter() -> None:
    """Preset P3: 64 rounds with the paper's steps, with tight ones, and with all rows in every round."""
    settings = ({"batching": "single", "accounting": "paper"}, {"batching": "single"}, {"batching": "full"})
    gaps = [gap(VertexSampling(**chosen), needle(), BUDGET, 16) for chosen in settings]  # type: ignore[arg-type]
    assert gaps == pytest.approx([0.812, 0.263, 0.141], abs=0.05)


def test_private_regression_with_all_rows() -> None:
    """Section 6: n = 10 000, 500 features, ε = 1: excess .002 after 16 rounds, .009 in a single pass; .176 at first."""
    problem = SparseRegression()
    full = trace(VertexSampling(iterations=16), problem, BUDGET, 8).series("it", "duality_gap")[1].mean(axis=1)
    assert full[0] == pytest.approx(0.176, abs=0.02) and full[-1] < 0.006
    assert gap(VertexSampling(iterations=16, batching="single"), problem, replicates=8) < 0.02


def test_the_worst_group() -> None:
    """Section 6: gap .020 at ε = 1, T = 20 and four fifths of the budget for the weights; .167 for uniform play."""
    found = trace(VertexSampling(iterations=20, share_x=0.8), GroupLoss(), BUDGET, 8).series("it", "duality_gap")[1]
    assert found[0].mean() == pytest.approx(0.167, abs=0.01) and found[-1].mean() == pytest.approx(0.020, abs=0.006)


# ------------------------------------------------------------------------------------------------------- synthetic data

SURVEY = MarginalQueries(data=CategoricalGenerator(rows=10_000))


def test_synthetic_data_pays_for_the_queries_only() -> None:
    """Check 13: ρ = K τ²Σ₂/(2 n²) by η²/8; x never pays, and its steps are free."""
    facts = SURVEY.facts()
    for draws in (1, 4):
        plan = SyntheticData(iterations=128, draws=draws).plan(facts, ZeroConcentratedDP(rho=0.02))
        assert (plan.schedule["range_x"] == 0).all() and len(plan.events) == 127
        tau = plan.resolved["step_size_y"]
        rho = draws * tau**2 * float(theory.sum_of_squares(128)) / (2 * facts.n**2)
        assert accountants.total(plan.events, "rho") == pytest.approx(rho, rel=1e-3)
        assert plan.resolved["step_size_x"] == pytest.approx(2 * math.sqrt(math.log(480) / 128))
    few, many = (
        SyntheticData(iterations=128, accounting="paper").plan(MarginalQueries(data=data).facts(), BUDGET)
        for data in (CategoricalGenerator(rows=2000), CategoricalGenerator(rows=10_000))
    )
    assert few.resolved["step_size_y"] == pytest.approx(0.32842 / 5, rel=1e-4)
    assert many.resolved["step_size_y"] == pytest.approx(math.sqrt(math.log(facts.d_y) / 128))


def test_synthetic_data_answer_the_marginals() -> None:
    """Section 6: largest query errors .057 for rows and .040 for the histogram after 256 rounds; .207 for uniform."""

    def error(method: Algorithm) -> np.ndarray:
        return trace(method, SURVEY, BUDGET, 4).series("it", "worst_query_error")[1].mean(axis=1)

    histogram, rows = error(SyntheticData()), error(SyntheticData(release="rows"))
    assert histogram[-1] < 0.06 and rows[-1] < 0.08 and histogram[-1] < rows[-1]
    assert histogram[0] > 3 * histogram[-1]
    with pytest.raises(UserError, match="Synthetic data"):
        SyntheticData().plan(needle().facts(), BUDGET)
