"""Two draws and fictitious play: the simplest private ways to play, what they cost exactly, the games they solve."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpviz.datasets.games import LatentGame, Signs
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.mirror_descent import FictitiousPlay, TwoDraws, VertexSampling
from dpviz.privacy.accounting import accountants
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.matrix_games import MatrixGame, MatrixGameProblem, Payoffs
from dpviz.problems.games.simplex_learning import Portfolio, SparseRegression

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
SMALL = MatrixGame(data=LatentGame(rows=60, strategies_x=5, strategies_y=4))
ROWS = tuple(itertools.product(itertools.product((1, -1), repeat=2), repeat=2))  # all (u, v) of a 2 x 2 game
TINY = dataclasses.replace(MatrixGame(data=LatentGame(strategies_x=2, strategies_y=2)).facts(), n=3)
OTHERS = (((1, -1), (1, -1)), ((1, 1), (1, 1)))


def tiny(row: tuple) -> MatrixGameProblem:
    """The 2 x 2 game of three rows whose first is `row`."""
    u, v = (Signs.pack(np.array([one[player] for one in (row, *OTHERS)]).T < 0) for player in range(2))
    return MatrixGameProblem(TINY, Payoffs.of((u, v), (np.zeros((2, 1)), np.zeros((2, 1)))))


def snapshots(method: Algorithm, problem: ProblemSpecification, budget: Budget) -> list[dict[str, np.ndarray]]:
    plan = method.plan(problem.facts(), budget)
    run = method.run(problem.build(), plan, Mechanisms(Ledger(plan.terms, 3), 0))
    return [{name: np.array(value) for name, value in snapshot.output.items()} for snapshot in run]


def gap(method: Algorithm, problem: ProblemSpecification) -> float:
    """Median over 20 runs."""
    arm = Arm(label="it", algorithm=method)
    trace = Experiment(problem=problem, arms=(arm,), budget=BUDGET, replicates=20).run()
    return float(np.median(trace.last("it", "duality_gap")))


def needle(d: int, structure: str = "needle") -> MatrixGame:
    return MatrixGame(data=LatentGame(structure=structure, strategies_x=d, strategies_y=d))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- what they cost


@pytest.mark.parametrize(
    "budget", [PureDP(epsilon=1.0), BUDGET, ZeroConcentratedDP(rho=0.02), GaussianDP(mu=0.3)], ids=lambda b: b.name
)
def test_both_players_draw_at_the_same_range_and_use_the_budget_up(budget: Budget) -> None:
    plan = TwoDraws().plan(needle(300).facts(), budget)
    first, second = plan.events
    assert first == second and isinstance(first, ExpMech) and plan.charged_at.tolist() == [1, 2]
    assert plan.schedule["range_x"].tolist() == [first.eta, 0] and plan.schedule["range_y"].tolist() == [0, first.eta]
    if isinstance(budget, ApproximateDP):
        spent, cap = accountants.tightest(plan.events, budget.delta).epsilon, budget.epsilon
    else:
        currency = {PureDP: "epsilon", ZeroConcentratedDP: "rho", GaussianDP: "mu"}[type(budget)]
        spent, cap = accountants.total(plan.events, currency), getattr(budget, currency)  # type: ignore[arg-type]
    assert 0.98 * cap <= spent <= cap
    if isinstance(budget, PureDP):
        assert first.eta == pytest.approx(0.5)


def probabilities(row: tuple, budget: Budget) -> np.ndarray:
    """(4,) how likely each pair of vertices is, read off the product's own queries."""
    method = TwoDraws()
    plan = method.plan(TINY, budget)
    pairs = np.array(list(itertools.product(range(2), repeat=2)))
    logs, forced = np.zeros(4), iter(pairs.T)

    def exponential(source: Mechanisms, query: Query, event: ExpMech, *_: object) -> np.ndarray:
        logits, vertices = event.eta * query.value / query.sensitivity, next(forced)
        logs[:] += (logits - np.logaddexp.reduce(logits, axis=1)[:, None])[np.arange(4), vertices]
        return vertices[:, None]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Mechanisms, "exponential", exponential)
        for _ in method.run(tiny(row), plan, Mechanisms(Ledger(plan.terms, 4), 0)):
            pass
    return np.exp(logs)


def test_no_replaced_row_tells_more_than_the_budget_and_some_tells_a_quarter() -> None:
    """All 256 replacements of one row by another, every pair of vertices: exact, no sampling."""
    pure = [probabilities(row, PureDP(epsilon=1.0)) for row in ROWS]
    assert all(p.sum() == pytest.approx(1, abs=1e-12) for p in pure)
    ratios = [float(np.abs(np.log(p / q)).max()) for p in pure for q in pure]
    assert 0.25 < max(ratios) <= 1.0  # a range of ½ moves a logit between -¼ and ¼; no row attains it against both
    rho = 0.05
    found = [probabilities(row, ZeroConcentratedDP(rho=rho)) for row in ROWS]
    for order in (1.01, 2.0, 8.0, 32.0):
        divergence = max(math.log((p**order * q ** (1 - order)).sum()) / (order - 1) for p in found for q in found)
        assert divergence <= order * rho and (order > 2 or divergence > 0.2 * order * rho), order


# ----------------------------------------------------------------------------------------------------------- what it is


@pytest.mark.parametrize("budget", [NoPrivacy(), ZeroConcentratedDP(rho=5.0)], ids=["without", "private"])
def test_each_draw_answers_the_average_of_the_other_player(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[Query] = []
    chosen: list[np.ndarray] = []
    true = Mechanisms.exponential

    def spy(source: Mechanisms, query: Query, event: ExpMech) -> np.ndarray:
        queries.append(query)
        chosen.append(true(source, query, event)[:, 0])
        return chosen[-1][:, None]

    monkeypatch.setattr(Mechanisms, "exponential", spy)
    found = snapshots(FictitiousPlay(responses=5), SMALL, budget)
    payoffs = SMALL.build().payoffs(1).value[0]
    played, drawn = {"x": np.full((3, 5), 0.2), "y": np.full((3, 4), 0.25)}, {"x": [], "y": []}  # type: ignore[var-annotated]
    assert all(found[0][name] == pytest.approx(played[name]) for name in "xy")
    for t in range(5):
        name = "xy"[t % 2]
        utilities = -played["y"] @ payoffs.T if name == "x" else played["x"] @ payoffs
        if queries:
            assert queries[t].value == pytest.approx(utilities) and queries[t].sensitivity == 4 / 60
        best = chosen[t] if chosen else utilities.argmax(axis=1)
        drawn[name].append(np.eye(len(utilities[0]))[best])
        played[name] = np.mean(drawn[name], axis=0)
        assert all(found[t + 1][name] == pytest.approx(played[name]) for name in "xy")


@pytest.mark.parametrize("problem", [SparseRegression(rows=400, dimension=4), Portfolio(rows=400, dimension=4)])
def test_who_plays_alone_draws_twice_with_the_whole_budget(problem: ProblemSpecification) -> None:
    plan = TwoDraws().plan(problem.facts(), PureDP(epsilon=1.0))
    assert plan.events == (ExpMech(0.5),) * 2 and plan.schedule["range_y"].tolist() == [0, 0]
    found = snapshots(TwoDraws(), problem, NoPrivacy())
    game, ones = problem.build(), np.ones((3, 1))
    uniform = game.facts.uniform(3)[0]  # type: ignore[attr-defined]
    first = np.eye(uniform.shape[1])[game.gradients(uniform, ones)[0].argmin(axis=1)]  # type: ignore[attr-defined]
    second = np.eye(uniform.shape[1])[game.gradients(first, ones)[0].argmin(axis=1)]  # type: ignore[attr-defined]
    assert found[1]["x"] == pytest.approx(first) and found[2]["x"] == pytest.approx((first + second) / 2)


# ----------------------------------------------------------------------------------------------- what they are good at


@pytest.mark.slow
@pytest.mark.parametrize("d", [10, 100, 300, 1000])
def test_the_needle_is_found_at_every_number_of_strategies(d: int) -> None:
    """Its equilibrium is one strategy each, and each answers uniform play best: two draws have gap 0.000."""
    assert gap(TwoDraws(), needle(d)) < 0.0005 < 0.05 < gap(VertexSampling(), needle(d))
