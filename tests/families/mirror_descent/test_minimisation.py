"""Minimisation over one simplex: anytime vertex sampling with lazy refreshes, and private Frank-Wolfe."""

import math

import numpy as np
import pytest
from scipy import stats

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.families.mirror_descent import AnytimeSampling, FrankWolfe, theory
from dpviz.families.mirror_descent.methods.minimisation import _mixture
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.closed_forms import exponential_delta
from dpviz.privacy.budgets import ApproximateDP, Budget, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech, Repeat
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.simplex_learning import Portfolio, SparseRegression

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
SMALL = SparseRegression(rows=400, dimension=5)


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def snapshots(method: Algorithm, budget: Budget, replicates: int = 2, seed: int = 0) -> list[Snapshot]:
    plan = method.plan(SMALL.facts(), budget)
    run = method.run(SMALL.build(), plan, Mechanisms(Ledger(plan.terms, replicates), seed))
    found = []
    for s in run:
        arrays = ({name: np.array(value) for name, value in part.items()} for part in (s.output, s.internal))
        output, internal = arrays
        found.append(Snapshot(s.iteration, output, internal=internal))
    return found


# ----------------------------------------------------------------------------------------------------- anytime sampling


@pytest.mark.parametrize("rounds", [2, 7, 64])
@pytest.mark.parametrize("refresh", [1, 3, 64, 100])
def test_draws_are_those_of_the_formula(rounds: int, refresh: int) -> None:
    """Check 12: K (refreshes - 1) + K_out; the first refresh needs no data. U = T refreshes in every round."""
    method = AnytimeSampling(iterations=rounds, refresh=refresh, refresh_draws=5, output_draws=3)
    plan = method.plan(SMALL.facts(), BUDGET)
    assert all(isinstance(event, Repeat) for event in plan.events)
    draws = sum(event.times for event in plan.events)  # type: ignore[union-attr]
    assert draws == theory.anytime_draws(rounds, 5, refresh, 3)
    assert plan.schedule["refreshed"].sum() == theory.anytime_refreshes(rounds, refresh)
    if refresh >= rounds or refresh == 1:
        assert (plan.schedule["refreshed"] == 1).all()
    # The range of every draw that is paid for, and none where the draw is free or there is none.
    paid = np.unique(plan.charged_at)
    assert np.flatnonzero(plan.schedule["range_x"] > 0).tolist() == (paid - 1).tolist() and 1 not in paid


def test_step_size_and_cost() -> None:
    """Section 4.2: ρ = N_d η²/8 with η = 2 osc τ/B; Proposition F.1 for the paper's own."""
    facts = SparseRegression().facts()
    plan = AnytimeSampling().plan(facts, ZeroConcentratedDP(rho=0.02))
    eta = 2 * facts.oscillation_x * plan.resolved["step_size_x"] / (10_000 // 64)
    draws = theory.anytime_draws(64, 8, 4, 8)
    assert draws * eta**2 / 8 == pytest.approx(0.02, rel=0.01) and draws * eta**2 / 8 >= 0.02
    assert plan.schedule["range_x"].max() == pytest.approx(eta)
    paper = AnytimeSampling(accounting="paper", relative_step=0.5).plan(facts, BUDGET)
    formula = 156 / (16 * facts.lipschitz * math.sqrt(2 * draws * math.log(1e6)))
    assert paper.resolved["step_size_x"] == pytest.approx(0.5 * formula, rel=1e-6)
    assert accountants.tightest(paper.events, 1e-6).epsilon < 0.5


def test_the_run_is_the_loop_of_the_theory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A4 written from its text, fed with the vertices that were drawn; x̄ moves by at most 2/(t + 1) in ℓ1."""
    drawn: list[np.ndarray] = []
    true = Mechanisms.exponential

    def spied(source: Mechanisms, query: Query, event: Repeat) -> np.ndarray:
        drawn.append(true(source, query, event))
        return drawn[-1]

    monkeypatch.setattr(Mechanisms, "exponential", spied)
    method = AnytimeSampling(iterations=8, refresh=3, refresh_draws=4, output_draws=6)
    found = snapshots(method, ZeroConcentratedDP(rho=5.0))
    step = method.plan(SMALL.facts(), ZeroConcentratedDP(rho=5.0)).resolved["step_size_x"]
    game, d = SMALL.build(), SMALL.facts().d_x
    assert len(drawn) == 4, "refreshes in rounds 2, 3, 6, and the output"
    refreshes = dict(zip((2, 3, 6), drawn[:3], strict=True))
    scores, total = np.zeros((2, d)), np.zeros((2, d))
    vertices = found[1].output["x"]  # the free draws of the first round
    assert np.allclose(vertices * 4, np.rint(vertices * 4)) and vertices.sum(axis=1) == pytest.approx(1)
    for t in range(1, 9):
        total = total + softmax(step * scores)
        assert found[t].internal["x"] == pytest.approx(total / t, abs=1e-12)
        if t in refreshes:
            vertices = np.eye(d)[refreshes[t]].mean(axis=1)
        if t < 8:
            assert found[t].output["x"] == pytest.approx(vertices), "old vertices stay between refreshes"
        gradient, _ = game.gradients(vertices, np.ones((2, 1)), slice(50 * (t - 1), 50 * t))
        scores = scores - gradient
    assert found[8].output["x"] == pytest.approx(np.eye(d)[drawn[3]].mean(axis=1))
    means = [s.internal["x"] for s in found[1:]]
    for t in range(1, 8):
        assert (np.abs(means[t] - means[t - 1]).sum(axis=1) <= 2 / (t + 1) + 1e-12).all()


def test_a_mixture_of_draws_keeps_the_cost_though_not_the_range() -> None:
    """Check 12: range 3.43 for η = 2, but no ratio beyond e² and no order beyond α η²/8."""
    first = np.array([[5.0, 5, -20, -20], [-20, -20, 5, -3]]), np.array([[6.0, 4, -20, -20], [-20, -20, 4, -2]])
    assert all(np.ptp(one - two) <= 2 for one, two in zip(*first, strict=True))
    p, q = (softmax(scores).mean(axis=0) for scores in first)
    ratio = np.log(p / q)
    assert np.ptp(ratio) == pytest.approx(3.4316, abs=1e-4) and np.abs(ratio).max() <= 2
    for one, two in ((p, q), (q, p)):
        for order in (1.01, 2, 8, 32):
            divergence = math.log((one**order * two ** (1 - order)).sum()) / (order - 1)
            assert divergence <= order * 2**2 / 8
        for epsilon in (0.0, 0.5, 1.0, 1.9):
            lost = np.maximum(one - math.exp(epsilon) * two, 0).sum()
            assert lost <= float(exponential_delta(2.0, epsilon)) + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("draws", [1, 4])
def test_draws_of_the_output_follow_the_mixture(draws: int) -> None:
    generator, replicates = np.random.default_rng(0), 4000
    past = [np.tile(2 * generator.normal(size=5), (replicates, 1)) for _ in range(3)]
    event = ExpMech(1.5) if draws == 1 else Repeat(ExpMech(1.5), draws)
    mechanisms = Mechanisms(Ledger(FixedEvents((event,)), replicates), 0)
    query = Query(past[-1], 1.5, "range")  # η/Δ = 1: the utilities are the logits
    found = mechanisms.exponential(_mixture(mechanisms, query, past, draws), event)
    assert found.shape == (replicates, draws)
    expected = np.mean([softmax(scores[0]) for scores in past], axis=0) * found.size
    assert stats.chisquare(np.bincount(found.ravel(), minlength=5), expected).pvalue > 1e-4
    if draws > 1:  # independent draws pick their parts independently
        table = np.zeros((5, 5))
        np.add.at(table, (found[:, 0], found[:, 1]), 1)
        assert stats.chi2_contingency(table).pvalue > 1e-4


# ---------------------------------------------------------------------------------------------------------- Frank-Wolfe


def test_vertices_cost_their_range_and_use_the_budget_up() -> None:
    """ρ = T η²/8: β = n/(2 osc) √(8 ρ/T)."""
    facts = SparseRegression().facts()
    plan = FrankWolfe().plan(facts, ZeroConcentratedDP(rho=0.02))
    assert len(plan.events) == 16 and len(set(plan.events)) == 1
    assert plan.events[0].eta == pytest.approx(math.sqrt(8 * 0.02 / 16), rel=1e-3)  # type: ignore[union-attr]
    pure = FrankWolfe().plan(facts, PureDP(epsilon=1.0))
    assert pure.events[0].eta == pytest.approx(1 / 16)  # type: ignore[union-attr]


@pytest.mark.parametrize("budget", [NoPrivacy(), ZeroConcentratedDP(rho=1.0)], ids=["without", "private"])
def test_frank_wolfe_is_the_published_loop(budget: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[np.ndarray] = []
    queries: list[Query] = []
    true = Mechanisms.exponential

    def spied(source: Mechanisms, query: Query, event: ExpMech) -> np.ndarray:
        queries.append(query)
        chosen.append(true(source, query, event)[:, 0])
        return chosen[-1][:, None]

    monkeypatch.setattr(Mechanisms, "exponential", spied)
    found = snapshots(FrankWolfe(chosen_vertices=12), budget)
    game, d = SMALL.build(), SMALL.facts().d_x
    u = np.full((2, d), 1 / d)
    for t in range(12):
        gradient, _ = game.gradients(u, np.ones((2, 1)))
        if chosen:
            assert queries[t].value == pytest.approx(-gradient)
            assert queries[t].sensitivity == 2 * SMALL.facts().oscillation_x / 400
        vertex = chosen[t] if chosen else gradient.argmin(axis=1)
        u = (1 - 2 / (t + 2)) * u + 2 / (t + 2) * np.eye(d)[vertex]
        assert found[t + 1].output["x"] == pytest.approx(u)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("method", [AnytimeSampling(), FrankWolfe()], ids=lambda method: method.title)
def test_games_are_refused(method: Algorithm) -> None:
    with pytest.raises(UserError, match="one simplex"):
        method.plan(MatrixGame().facts(), BUDGET)
    assert method.plan(Portfolio().facts(), BUDGET).iterations > 0


def test_anytime_sampling_needs_privacy_rows_and_epsilon_for_its_theorems() -> None:
    facts = SMALL.facts()
    for settings, budget, what in (
        ({}, NoPrivacy(), "exists only with privacy"),
        ({"iterations": 1024}, BUDGET, "at most 400 rounds"),
        ({"theorem": "anytime_first_order"}, PureDP(epsilon=1.0), "stated for"),
        ({"accounting": "paper"}, ZeroConcentratedDP(rho=0.1), "stated for"),
    ):
        with pytest.raises(UserError, match=what):
            AnytimeSampling(**settings).plan(facts, budget)  # type: ignore[arg-type]
    big = SparseRegression(rows=100_000, dimension=200)
    for theorem in ("anytime_first_order", "anytime_second_order"):
        plan = AnytimeSampling(theorem=theorem, iterations=1024).plan(big.facts(), BUDGET)
        assert 2 <= plan.iterations <= 1024 and plan.resolved["draws"] >= 1
