"""What the draws of vertices really cost: exact distributions of transcripts, and audits of the code that draws them.

The smallest game with privacy in it: 2 × 2, three rows of signs, three rounds, so a transcript is one of 64. Its
probabilities under two neighbouring tables give every divergence exactly; sampled transcripts must have these
probabilities, and no test of the samples may show more than the accountant claims (THEORY.md, sections 4.5 and 9).
"""

import dataclasses
import itertools
import math
from functools import cache

import numpy as np
import pytest

from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import VertexSampling
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.closed_forms import exponential_rho
from dpviz.privacy.budgets import ZeroConcentratedDP
from dpviz.privacy.events import ExpMech
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.games.matrix_games import MatrixGame, MatrixGameProblem, Payoffs

STEP, ROUNDS, ROWS = 0.25, 3, 3
FACTS = dataclasses.replace(MatrixGame(data=LatentGame(strategies_x=2, strategies_y=2)).facts(), n=ROWS)
RECORDS = (((1, -1), (1, 1)), ((1, -1), (1, -1)), ((1, 1), (1, 1)))  # (u, v) of every row
NEIGHBOUR = (((-1, 1), (1, 1)), *RECORDS[1:])

# (64, 3, 2): vertices of both players in every round. A round is the digit 2x + y, the first is the most significant.
TRANSCRIPTS = np.array(list(itertools.product(itertools.product(range(2), repeat=2), repeat=ROUNDS)))


def game(records: tuple) -> MatrixGameProblem:
    u, v = (Signs.pack(np.array([row[player] for row in records]).T < 0) for player in range(2))
    return MatrixGameProblem(FACTS, Payoffs.of((u, v), (np.zeros((2, 1)), np.zeros((2, 1)))))


def planned(batching: str) -> tuple[VertexSampling, Plan]:
    """The plan with step size 0.25 for both players, by the budget that pays for it."""
    weights = np.ones(ROUNDS - 1) if batching == "single" else np.arange(1, ROUNDS) / ROWS
    rho = 2 * float(exponential_rho(4 * STEP * weights).sum())
    method = VertexSampling(iterations=ROUNDS, batching=batching)
    plan = method.plan(FACTS, ZeroConcentratedDP(rho=rho))
    assert plan.schedule["step_size_x"] == pytest.approx(np.full(ROUNDS, STEP), rel=1e-6)
    assert plan.schedule["step_size_y"] == pytest.approx(np.full(ROUNDS, STEP), rel=1e-6)
    return method, plan


@cache
def probabilities(records: tuple, batching: str) -> np.ndarray:
    """(64,) exact probabilities of all transcripts: replicate k is made to draw transcript k, and what it would have
    drawn, and how likely, is read off the queries of the product's own run."""
    method, plan = planned(batching)
    logs = np.zeros(len(TRANSCRIPTS))
    forced = iter([TRANSCRIPTS[:, t, player] for t in range(ROUNDS) for player in range(2)])

    def draw(logits: np.ndarray) -> np.ndarray:
        vertices = next(forced)
        logs[:] += (logits - np.logaddexp.reduce(logits, axis=1)[:, None])[np.arange(len(logits)), vertices]
        return vertices[:, None]

    def sample(source: Mechanisms, log_weights: np.ndarray, *_: object) -> np.ndarray:
        return draw(log_weights)

    def exponential(source: Mechanisms, query: Query, event: ExpMech, *_: object) -> np.ndarray:
        return draw(event.eta * query.value / query.sensitivity)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Mechanisms, "sample", sample)
        patched.setattr(Mechanisms, "exponential", exponential)
        for _ in method.run(game(records), plan, Mechanisms(Ledger(plan.terms, len(TRANSCRIPTS)), 0)):
            pass
    assert next(forced, None) is None
    return np.exp(logs)


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    if order == 1:
        return float((p * np.log(p / q)).sum())
    return float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1))


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def test_the_transcripts_of_a_single_pass_have_the_published_divergences() -> None:
    p, q = (probabilities(records, "single") for records in (RECORDS, NEIGHBOUR))
    assert p.sum() == pytest.approx(1, abs=1e-12) and q.sum() == pytest.approx(1, abs=1e-12)
    assert p[0] == pytest.approx(0.0079002790, abs=1e-8)
    assert p[27] == pytest.approx(0.0354065943, abs=1e-8)
    found = [renyi(p, q, order) for order in (1, 2, 8)]
    assert found == pytest.approx([0.237989, 0.444499, 0.888916], abs=2e-6)
    assert float(np.log(p / q).max()) == pytest.approx(1.120115, abs=2e-6)


def test_the_transcripts_of_full_batches_have_the_published_divergences() -> None:
    p, q = (probabilities(records, "full") for records in (RECORDS, NEIGHBOUR))
    assert [renyi(p, q, order) for order in (1, 2, 8)] == pytest.approx([0.068078, 0.132302, 0.348916], abs=2e-6)


@pytest.mark.parametrize(("batching", "bound"), [("single", 0.5), ("full", 0.138889)])
def test_no_order_costs_more_than_the_plan_says(batching: str, bound: float) -> None:
    """Both directions of the worst known pair: D_α ≤ α ρ, with the ρ of the events, below Σ η²/8."""
    _, plan = planned(batching)
    rho = accountants.total(plan.events, "rho")
    assert sum(event.eta**2 / 8 for event in plan.events) == pytest.approx(bound, rel=1e-5)  # type: ignore[union-attr]
    assert rho < bound
    p, q = (probabilities(records, batching) for records in (RECORDS, NEIGHBOUR))
    for order in (1, 1.0001, 1.5, 2, 4, 8, 32):
        assert max(renyi(p, q, order), renyi(q, p, order)) <= order * rho


def test_the_constant_is_nearly_attained() -> None:
    """Section 4.5: among tables of three rows, one pair costs 98 % of 2 (T - 1) η²/8 as α → 1."""
    worst = (((1, -1), (1, -1)), ((1, 1), (1, 1)), ((1, 1), (1, 1)))
    p, q = (probabilities(records, "single") for records in (worst, (((-1, 1), (1, -1)), *worst[1:])))
    divergence = max(renyi(p, q, 1), renyi(q, p, 1))
    assert 0.97 * 0.5 < divergence <= accountants.total(planned("single")[1].events, "rho")


def test_the_privacy_profile_lies_below_every_accountant() -> None:
    p, q = (probabilities(records, "single") for records in (RECORDS, NEIGHBOUR))
    assert hockey_stick(p, q, 0.0) == pytest.approx(0.266284, abs=1e-6)
    assert hockey_stick(p, q, 0.5) == pytest.approx(0.143825, abs=1e-6)
    assert hockey_stick(p, q, 0.830778) == pytest.approx(0.05, abs=1e-6)
    claims = accountants.tightest(planned("single")[1].events, 0.05).by_method
    assert min(claims.values()) > 0.830778 and claims["zcdp"] <= 2.0425
    for delta in (1e-3, 0.05, 0.2):
        claimed = accountants.tightest(planned("single")[1].events, delta).epsilon
        assert max(hockey_stick(p, q, claimed), hockey_stick(q, p, claimed)) <= delta
