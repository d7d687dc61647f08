"""The private certificate of the gap: how far a row moves it, what it costs, and that it holds (THEORY.md, 10.5)."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpviz.datasets.groups import GroupedUpload
from dpviz.datasets.synthetic import LatentGame, Signs
from dpviz.errors import UserError
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.mirror_descent import CertifiedSampling, VertexSampling
from dpviz.families.mirror_descent.methods.algorithms import CERTIFIED_GAP, certifying_event
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.closed_forms import zcdp_rho
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import Gaussian, Laplace
from dpviz.problems.games.games import Game
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.matrix_games import MatrixGame, MatrixGameProblem, Payoffs
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame, QuadraticGameProblem

ROWS = 2
SIGNS = list(itertools.product((1, -1), repeat=2))
RECORDS = list(itertools.product(SIGNS, SIGNS))  # all rows (u, v) of a game of 2 against 2
POINTS = [np.array([p, 1 - p]) for p in (0.0, 0.3, 1.0)]
BUDGETS: list[Budget] = [
    PureDP(epsilon=1.0),
    ApproximateDP(epsilon=1.0, delta=1e-6),
    ZeroConcentratedDP(rho=0.05),
    GaussianDP(mu=0.3),
]


def signs_game(cls: type[Game], records: tuple) -> Game:
    u, v = (Signs.pack(np.array([row[player] for row in records]).T < 0) for player in range(2))
    payoffs = Payoffs.of((u, v), (np.zeros((2, 1)), np.zeros((2, 1))))
    data = LatentGame(rows=20, strategies_x=2, strategies_y=2)
    if cls is MatrixGameProblem:
        return MatrixGameProblem(dataclasses.replace(MatrixGame(data=data).facts(), n=ROWS), payoffs)
    facts = dataclasses.replace(QuadraticGame(data=data).facts(), n=ROWS)
    return QuadraticGameProblem(facts, payoffs, (1.0, 0.5))


@pytest.mark.parametrize(("cls", "attained"), [(MatrixGameProblem, 0.999), (QuadraticGameProblem, 0.5)])
def test_no_replaced_row_moves_the_gap_by_more_than_its_sensitivity(cls: type[Game], attained: float) -> None:
    """All pairs of rows, replaced by all others, at pairs of a few strategies; in the matrix game it is attained."""
    xs, ys = (np.array(points) for points in zip(*itertools.product(POINTS, POINTS), strict=True))
    queries = {pair: signs_game(cls, pair).gap(xs, ys, "l2") for pair in itertools.product(RECORDS, RECORDS)}
    largest = 0.0
    for (kept, old), new in itertools.product(queries, RECORDS):
        one, two = queries[kept, old], queries[kept, new]
        assert one.sensitivity == two.sensitivity == 4 / ROWS
        largest = max(largest, float(np.abs(one.value - two.value).max() / one.sensitivity))
    assert attained <= largest <= 1 + 1e-12


def test_losses_of_groups_move_it_by_twice_the_weight_of_a_row() -> None:
    """Also with one strategy only, whose player has nothing to choose but whose loss a row still moves."""
    for d in (1, 2):
        upload = GroupedUpload(
            identity="c" * 32,
            n=20,
            bounds=((0.0, 1.0),) * d,
            names=("a", "b")[:d],
            groups=("one", "other"),
            shares=(0.75, 0.25),
            target=None,
        )
        specification, generator, largest = LossMatrix(data=upload), np.random.default_rng(0), 0.0
        x, y = generator.dirichlet(np.ones(d), 50), generator.dirichlet(np.ones(2), 50)
        x[:4], y[:4] = np.eye(d)[0], np.eye(2)[[0, 1, 0, 1]]
        table = np.column_stack([generator.integers(0, 2, (20, d)), np.zeros(20), np.arange(20) % 2])
        for losses, group in itertools.product(itertools.product((0.0, 1.0), repeat=d), (0.0, 1.0)):
            changed = table.copy()
            changed[0] = [*losses, 0.0, group]
            one, two = (specification.build({"c" * 32: rows}).gap(x, y, "l1") for rows in (table, changed))
            largest = max(largest, float(np.abs(one.value - two.value).max() / one.sensitivity))
        assert one.sensitivity == 2 * 4 / 20 and 0.2 < largest <= 1 + 1e-12


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.name)
def test_its_share_of_the_budget_pays_for_it_and_the_rest_for_the_game(budget: Budget) -> None:
    facts = MatrixGame().facts()
    plan = CertifiedSampling(certificate_share=0.2).plan(facts, budget)
    *draws, last = plan.events
    assert isinstance(last, Laplace if isinstance(budget, PureDP) else Gaussian)
    assert plan.charged_at[-1] == plan.iterations and plan.budget == budget
    whole = {"epsilon": 1.0, "rho": 0.05, "mu": 0.3**2}
    currency = plan.currency or "rho"
    if isinstance(budget, ApproximateDP):
        whole["rho"], currency = zcdp_rho(1.0, 1e-6), "rho"
    parts = [accountants.total(events, currency) for events in (draws, [last])]  # type: ignore[arg-type]
    parts = [value**2 for value in parts] if currency == "mu" else parts
    assert parts == pytest.approx([0.8 * whole[currency], 0.2 * whole[currency]], rel=1e-5)


def test_the_noise_of_the_theory() -> None:
    """σ = 0.0162 at n = 5000 for 5 % of ρ*(1, 1e-6) (section 10.5), and 1.645 σ is added."""
    plan = CertifiedSampling().plan(MatrixGame().facts(), ApproximateDP(epsilon=1.0, delta=1e-6))
    assert plan.noise["gap"][-1] == pytest.approx(0.0162, abs=5e-5) and not plan.noise["gap"][:-1].any()
    assert plan.resolved["certificate_width"] == pytest.approx(1.645 * plan.noise["gap"][-1], rel=1e-3)
    assert certifying_event(ZeroConcentratedDP(rho=0.02)) == Gaussian(0.2)


@pytest.mark.parametrize("budget", [BUDGETS[0], BUDGETS[1]], ids=lambda budget: budget.name)
def test_the_released_bound_holds_as_often_as_it_says(budget: Budget) -> None:
    """19 times in 20 for 200 runs: within four standard errors. It is released, at the end only, and the play of a
    certified run is that of plain vertex sampling with a smaller budget."""
    game = MatrixGame(data=LatentGame(rows=2000, strategies_x=20, strategies_y=20))
    arm = Arm(label="it", algorithm=CertifiedSampling(iterations=8, certificate_share=0.3))
    trace = Experiment(problem=game, arms=(arm,), budget=budget, replicates=200, seed=3).run()
    gaps, certified = trace.last("it", "duality_gap"), trace.last("it", CERTIFIED_GAP.name)
    held = float((gaps <= certified).mean())
    assert abs(held - 0.95) <= 4 * math.sqrt(0.95 * 0.05 / 200)
    assert set(trace.privacy_by_arm(CERTIFIED_GAP).values()) == {"private"} and (certified >= 0).all()
    _, over_rounds = trace.series("it", CERTIFIED_GAP.name)
    assert np.isnan(over_rounds[:-1]).all()


def test_where_there_is_none_is_said() -> None:
    for problem in (CurvedGame(), GroupLoss()):
        facts = problem.facts()
        assert facts.gap_change == 0
        with pytest.raises(UserError, match="computed exactly"):
            CertifiedSampling().plan(facts, BUDGETS[1])
    small = CurvedGame(data=LatentGame(rows=20, strategies_x=2, strategies_y=2)).build()
    with pytest.raises(UserError, match="bracketed"):
        small.gap(*small.facts.uniform(1), "l2")
    with pytest.raises(UserError):
        CertifiedSampling().plan(MatrixGame().facts(), NoPrivacy())
    assert CertifiedSampling(draws=3, draws_y=2).vertex_sampling == VertexSampling(draws=3, draws_y=2)


def test_shares_that_were_bought_come_off_before_the_certificate_and_the_game() -> None:
    """Pure ε = 0.4 first: then the game and the certificate together cost at most ε = 0.6 at δ, and hardly less."""
    upload = GroupedUpload(
        identity="c" * 32,
        n=500,
        bounds=((0.0, 1.0),) * 3,
        names=("a", "b", "c"),
        groups=("one", "other"),
        shares=(0.6, 0.4),
        shares_costs=(0.4,),
        target=None,
    )
    facts = LossMatrix(data=upload).facts()
    plan = CertifiedSampling(iterations=8, certificate_share=0.3).plan(facts, BUDGETS[1])
    assert accountants.total(plan.events, "rho") == pytest.approx(zcdp_rho(0.6, 1e-6), rel=1e-4)
    assert 0.57 < accountants.tightest(plan.events, 1e-6).epsilon <= 0.6
    pure = CertifiedSampling(iterations=8, certificate_share=0.3).plan(facts, BUDGETS[0])
    assert accountants.total(pure.events, "epsilon") == pytest.approx(0.6)
    assert accountants.total(pure.events[-1:], "epsilon") == pytest.approx(0.18)
