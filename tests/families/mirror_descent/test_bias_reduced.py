"""The bias-reduced oracle and its random stopping: what it estimates, what it draws, what it may cost."""

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats

from dpviz.datasets.synthetic import LatentGame
from dpviz.errors import UserError
from dpviz.families.mirror_descent import BiasReduced, theory
from dpviz.privacy.accounting import accountants
from dpviz.privacy.accounting.closed_forms import zcdp_rho
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.privacy.events import ExpMech
from dpviz.privacy.ledger import BudgetExceeded, Filter, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.games.games import Game, GameFacts, GradientSums, Pair
from dpviz.problems.games.matrix_games import MatrixGame
from tests.oracles import games

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
BUDGETS: tuple[Budget, ...] = (BUDGET, PureDP(epsilon=1.0), ZeroConcentratedDP(rho=0.02), GaussianDP(mu=0.3))
SMALL = MatrixGame(data=LatentGame(rows=64, strategies_x=3, strategies_y=4))


class Exponential(Game):
    """F(x) = exp(<c, x>), no data and no second player: its gradient at an average of draws is biased."""

    slopes = np.array([1.5, -0.5])

    def __init__(self, n: int) -> None:
        self.facts = GameFacts(n=n, d=3, d_x=2, d_y=1)

    def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
        return np.exp(x @ self.slopes)[:, None] * self.slopes, np.zeros_like(y)

    def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
        return {"duality_gap": np.zeros(len(output["x"]))}


def mean_gradient(draws: int) -> np.ndarray:
    """E ∇F at the average of so many draws from the uniform distribution: a sum over binomial counts."""
    share = np.arange(draws + 1) / draws
    points = np.stack([share, 1 - share], axis=1)
    return stats.binom.pmf(np.arange(draws + 1), draws, 0.5) @ Exponential(1).gradients(points, points)[0]


@pytest.mark.slow
def test_the_oracle_has_the_mean_of_many_draws_and_makes_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check 10: M = 4, so the mean is that of a gradient at 32 draws; a round makes 2 (M + 1)/C_M = 5.2 on average."""
    seen: list[np.ndarray] = []

    def exponential(source: Mechanisms, query: Query, *_: object) -> np.ndarray:
        seen.append(-query.value)
        raise StopIteration

    monkeypatch.setattr(Mechanisms, "exponential", exponential)
    method, replicates = BiasReduced(stop_level=256), 8000
    game = Exponential(256)
    plan = method.plan(game.facts, BUDGET)
    run = method.run(game, plan, Mechanisms(Ledger(plan.terms, replicates), 0))
    first = [next(run), next(run)][-1]
    with pytest.raises(RuntimeError):  # the first draw of the second round shows the gradient of the first
        next(run)
    error = seen[0].std(axis=0) / math.sqrt(replicates)
    expected, one_draw = mean_gradient(32), mean_gradient(1)
    assert (np.abs(seen[0].mean(axis=0) - expected) < 4 * error).all()
    assert (np.abs(one_draw - expected) > 8 * error).all(), "the sample can tell it from the plain gradient"
    sizes = first.released["rows_used"] / plan.resolved["rows_per_draw"]
    levels = np.bincount(np.log2(sizes).astype(int), minlength=5)
    assert stats.chisquare(levels, theory.level_probabilities(4) * replicates).pvalue > 1e-4
    assert sizes.mean() == pytest.approx(5 / (2 - 2**-4), abs=4 * sizes.std() / math.sqrt(replicates))
    assert theory.mean_batches(3) == pytest.approx(2.13333, abs=1e-5)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("exponent", [0, 1, 3])
def test_no_replaced_row_moves_the_oracle_further_than_its_weight(exponent: int) -> None:
    """The estimate of level N, on 2^N rows per unit, for all replacements of its first row by random rows."""
    generator = np.random.default_rng(exponent)
    method, size, level = BiasReduced(), 2**exponent, 3
    facts = dataclasses.replace(SMALL.facts(), n=size)

    class Rows(Game):
        def __init__(self, u: np.ndarray, v: np.ndarray) -> None:
            self.facts, self.u, self.v = facts, u, v

        def gradients(self, x: np.ndarray, y: np.ndarray, rows: slice | None = None) -> Pair:
            # No real gradients, but bounded by 1 like those of the game, and curved: the correction does not vanish.
            return np.cos(20 * y @ self.v.T) @ self.u / size, np.cos(20 * x @ self.u.T) @ self.v / size

        def evaluate(self, output: Mapping[str, np.ndarray], expensive: bool = True) -> dict[str, np.ndarray]:
            return {}

    allowed, largest = float(theory.oracle_weight(level, exponent)), np.zeros(2)
    for _round in range(300):
        vertices = [generator.integers(0, d, 2 * size) for d in (3, 4)]
        u, v = generator.choice([-1.0, 1.0], (size, 3)), generator.choice([-1.0, 1.0], (size, 4))
        values = []
        for _ in range(2):
            scores = GradientSums(Rows(u, v), 1)
            method._add_gradient(scores, vertices, level, size, facts, slice(0, size))
            assert scores.weight == pytest.approx(allowed)
            values.append((np.array(scores.utilities_x(allowed).value), np.array(scores.utilities_y(allowed).value)))
            u, v = u.copy(), v.copy()
            u[0], v[0] = generator.choice([-1.0, 1.0], 3), generator.choice([-1.0, 1.0], 4)
        largest = np.maximum(largest, [np.ptp(one - two) for one, two in zip(*values, strict=True)])
    # The bound adds what the four gradients could do at their worst; one plain gradient alone would move by 4/size.
    assert (largest <= 4 * allowed).all() and (largest > 1.5 * 4 / size).all()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("stop", [4, 6, 64, 256])
def test_levels_never_exceed_the_stop_level_and_rounds_are_as_many_as_wald_says(stop: int) -> None:
    """Check 10: Σ 2^N ≤ U in every one of 2000 runs; U = 256: the mean number of rounds lies in [93.0, 99.2]."""
    method, replicates = BiasReduced(stop_level=stop), 2000
    level = theory.largest_level(stop)
    ledger = Ledger(Filter("rho", 1.0, {}), replicates)
    levels = method._levels(Mechanisms(ledger, 0), level)
    going, sums = levels >= 0, np.where(levels >= 0, 2.0**levels, 0).sum(axis=1)
    assert (sums <= stop).all() and sums.max() > stop - 2**level
    assert (np.diff(going.astype(int), axis=1) <= 0).all() and going[:, 0].all()
    rounds = going.sum(axis=1)
    low, high = games.stopping_bounds(stop, level)
    error = rounds.std() / math.sqrt(replicates)
    assert low - 4 * error <= rounds.mean() <= high + 4 * error
    if stop == 256:
        assert rounds.mean() == pytest.approx(94.7, abs=1.0)
    shares = np.bincount(levels[:, 0], minlength=level + 1)
    assert stats.chisquare(shares, theory.level_probabilities(level) * replicates).pvalue > 1e-4


@pytest.mark.one_in(4)
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: budget.describe())
def test_ten_thousand_runs_stay_below_the_filter_s_ceiling(budget: Budget) -> None:
    """The ledger is charged as the run would charge it: 2^(N + 1) + 1 draws of both players from the second round."""
    method, replicates = BiasReduced(stop_level=16), 10_000 // len(BUDGETS)
    plan = method.plan(SMALL.facts(), budget)
    assert isinstance(plan.terms, Filter)
    ledger = Ledger(plan.terms, replicates)
    levels = method._levels(Mechanisms(ledger, 1), int(plan.resolved["level"]))
    for column in levels.T[1:]:
        times = np.where(column >= 0, 2 ** (np.maximum(column, 0) + 1) + 1, 0)
        for event in plan.terms.allowed.values():
            ledger.charge(event, times)  # raises beyond the ceiling
    price = sum(plan.terms.cost(event) for event in plan.terms.allowed.values())
    draws = np.where(levels >= 0, 2.0 ** (levels + 1) + 1, 0)[:, 1:].sum(axis=1)
    assert plan.terms.ceiling == pytest.approx(3 * 16 * price) and draws.max() <= 3 * 16
    with pytest.raises(BudgetExceeded):
        ledger.charge(plan.terms.allowed["x"], np.full(replicates, 2 * 3 * 16))


def test_the_plan_of_the_default_problem() -> None:
    """Section 4.2: η = 2 osc (2 C_M + 1) τ/B for each of at most 3 U draws per player; the sum is the whole budget."""
    facts = MatrixGame().facts()
    plan = BiasReduced().plan(facts, BUDGET)
    assert isinstance(plan.terms, Filter) and plan.terms.currency == "rho"
    assert (plan.resolved["rows_per_draw"], plan.resolved["level"], plan.iterations) == (78, 3, 64)
    tau = plan.resolved["step_size_x"]
    eta = 2 * 2 * (2 * 1.875 + 1) * tau / 78
    assert all(isinstance(event, ExpMech) for event in plan.terms.allowed.values())
    assert {name: event.eta for name, event in plan.terms.allowed.items()} == pytest.approx({"x": eta, "y": eta})  # type: ignore[union-attr]
    assert plan.terms.cap == pytest.approx(zcdp_rho(1.0, 1e-6), rel=1e-5)
    assert 2 * 192 * eta**2 / 8 == pytest.approx(plan.terms.cap, rel=0.01)
    half = BiasReduced(share_x=0.8).plan(facts, BUDGET)
    assert half.resolved["step_size_x"] == pytest.approx(2 * half.resolved["step_size_y"], rel=1e-6)
    paper = BiasReduced(accounting="paper").plan(facts, BUDGET)
    assert paper.resolved["step_size_x"] == pytest.approx(78 / (20 * math.sqrt(48 * 64 * math.log(1e6))), rel=1e-9)
    assert accountants.tightest(paper.events, 1e-6).epsilon < 1


def test_what_cannot_be_planned_is_refused() -> None:
    facts = MatrixGame().facts()
    with pytest.raises(UserError, match="rows"):
        BiasReduced(stop_level=1024, rows_per_draw=5).plan(facts, BUDGET)
    with pytest.raises(UserError, match="exists only with privacy"):
        BiasReduced().plan(facts, NoPrivacy())
    with pytest.raises(UserError, match="stated for"):
        BiasReduced(accounting="paper").plan(facts, PureDP(epsilon=1.0))


def test_the_worst_case_of_the_bias_reduced_oracle_climbs_to_its_cap() -> None:
    plan = BiasReduced(stop_level=64).plan(MatrixGame().facts(), ApproximateDP(epsilon=1.0, delta=1e-6))
    spent = plan.spent("rho")
    assert spent[:2].tolist() == [0, 0], "the first round needs no data"
    assert 0 < spent[2] < spent[3] < spent[-1] == pytest.approx(plan.terms.cap)  # type: ignore[union-attr]
    assert (np.diff(spent) >= 0).all()
