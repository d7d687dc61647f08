"""Attempts to refute the privacy claims that once succeeded, or came close, and now must fail.

Every algorithm that plays a game is run on data sets with no row in common while all that is charged is replaced by
noise that does not know the data: what is shown must then be the same to the last bit, or it was released for free.
"""

import math

import numpy as np
import pytest

from dpviz.datasets.categories import CategoricalGenerator
from dpviz.datasets.groups import GroupedLosses, GroupedSigns, GroupedUpload
from dpviz.datasets.synthetic import LatentGame
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families import mirror_descent
from dpviz.families.mirror_descent import BiasReduced, MultiplicativeWeights, SyntheticData, VertexSampling
from dpviz.privacy.accounting import accountants, closed_forms, per_event
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import ApproximateDP, Budget, RenyiDP, TradeOff, ZeroConcentratedDP
from dpviz.privacy.events import (
    Event,
    ExpMech,
    Gaussian,
    Laplace,
    Parallel,
    Repeat,
    Seq,
    StatedPureDP,
    Sub,
    inner_events,
)
from dpviz.privacy.ledger import Filter, FixedEvents, Ledger, LedgerError, charge_counts
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.games import Game
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, SparseRegression
from tests.refusals import MISFIT, UNDEFINED, is_refusal, refusing

APPROXIMATE = ApproximateDP(epsilon=1.0, delta=1e-6)


# -------------------------------------------------------------------------------------- several releases for one charge


@pytest.mark.parametrize(
    "event",
    [
        Parallel((Gaussian(1.0),) * 5),
        Seq((Laplace(1.0), Parallel((Gaussian(1.0),) * 5))),
        Repeat(Parallel((Laplace(1.0),) * 2), 3),
        Sub("wor", 2, 10, Parallel((Gaussian(1.0),) * 5)),
        Sub("poisson", 2, 10, Gaussian(1.0)),  # of how many rows is not said
    ],
    ids=["blocks", "sequence", "repeated", "sampled", "poisson"],
)
def test_a_batch_opens_only_what_its_event_pays_for(event: Event) -> None:
    ledger = Ledger(FixedEvents((event,)), 1)
    with pytest.raises(LedgerError):
        Mechanisms(ledger, 0).batch(event)
    assert ledger.booked(0) == ()


def test_blocks_hold_no_blocks() -> None:
    event = Parallel((Parallel((Gaussian(1.0),) * 5),) * 2)
    with pytest.raises(LedgerError, match="inside a block"):
        Mechanisms(Ledger(FixedEvents((event,)), 1), 0).blocks(event, 10)


def test_selections_on_the_whole_table_are_not_paid_for_by_blocks() -> None:
    event = Parallel((ExpMech(1.0),) * 5)
    with pytest.raises(LedgerError, match="on the whole table"):
        Mechanisms(Ledger(FixedEvents((event,)), 1), 0).exponential(Query(np.zeros((1, 3)), 1.0, "range"), event)


def test_half_a_draw_is_no_draw() -> None:
    ledger = Ledger(Filter("epsilon", 9.0, {"draw": ExpMech(1.0)}), 1)
    with pytest.raises(LedgerError, match="whole number"):
        Mechanisms(ledger, 0).exponential(Query(np.zeros((1, 3)), 1.0, "range"), ExpMech(1.0), 1.5)  # type: ignore[arg-type]
    assert ledger.booked(0) == ()


def test_what_is_not_a_number_reaches_no_threshold() -> None:
    values = Query(np.array([[math.nan, 1e9]]), 1.0, "linf")
    with pytest.raises(LedgerError, match="numbers"):
        Mechanisms(Ledger(FixedEvents((StatedPureDP(1.0),)), 1), 0).above_threshold(values, StatedPureDP(1.0))


# ----------------------------------------------------------------------------------------------- plans above the budget


@pytest.mark.parametrize("output", ["reuse", "fresh"])
@pytest.mark.parametrize("rounds", [199, 200, 201, 512])
def test_the_papers_rule_keeps_to_the_budget_with_more_rounds_than_rows(rounds: int, output: str) -> None:
    """n // T was 0 rows per round, the step size 0 with it, and 0 read as "nothing is paid": steps without a limit."""
    facts = MatrixGame(data=LatentGame(rows=200, strategies_x=50, strategies_y=50)).facts()
    method = VertexSampling(iterations=rounds, accounting="paper", output=output)  # type: ignore[arg-type]
    plan = method.plan(facts, APPROXIMATE)
    assert accountants.epsilon(plan.events, APPROXIMATE.delta, "rdp") <= APPROXIMATE.epsilon
    assert all(0 < plan.resolved[f"step_size_{name}"] < 0.01 for name in "xy")


@pytest.mark.parametrize("method", [VertexSampling, SyntheticData])
def test_a_step_of_no_size_is_not_one_without_limit(method: type[VertexSampling]) -> None:
    facts = MarginalQueries(data=CategoricalGenerator(rows=200)).facts()
    assert method().step_size(facts, 8, 1, 0.0) == 0
    assert method().step_size(facts, 8, 1, math.inf) > 0.1


@pytest.mark.parametrize("method", [MultiplicativeWeights(measured_queries=8), BiasReduced(stop_level=16)])
@pytest.mark.parametrize(
    "budget",
    [
        RenyiDP(epsilon=1.0, order=8.0),
        RenyiDP(epsilon=0.01, order=2.0),
        TradeOff(true_positive_rate=0.05, false_positive_rate=0.01),
        TradeOff(true_positive_rate=0.999, false_positive_rate=0.5),
    ],
    ids=["renyi", "small", "attack", "weak"],
)
def test_a_renyi_divergence_or_an_attack_bound_is_not_taken_for_rho(method: Algorithm, budget: Budget) -> None:
    facts = MarginalQueries(data=CategoricalGenerator(rows=500)).facts()
    try:
        plan = method.plan(facts, budget)
    except UserError as error:
        assert isinstance(budget, TradeOff) and is_refusal(error, UNDEFINED)  # no rule for selections alone
        return
    target = budget.remaining(())
    assert budget.cost(plan.events) <= target * (1 + 1e-6)


# ------------------------------------------------------------------------------ sensitivities that rounding would break


def test_a_polytope_too_small_for_its_rounding_errors_is_refused() -> None:
    near = ((90.0, -80.0, 70.0), (90.0 + 1.5e-14, -80.0, 70.0), (90.0, -80.0, 70.0 + 1.5e-14))
    with pytest.raises(UserError, match="extend over at least"):
        PolytopeRegression(shape="own", vertices=near)


def test_a_game_without_choices_is_refused() -> None:
    data = GroupedUpload(identity="0" * 32, n=300, bounds=((0.0, 1.0),), names=("a",), groups=("g",), shares=(1.0,))
    with pytest.raises(UserError, match="nothing to choose"):
        LossMatrix(data=data)


# ------------------------------------------------------------------------------------ nothing is shown that is not paid


def latent(seed: int) -> LatentGame:
    structure = "needle" if seed else "hide_seek"
    return LatentGame(rows=200, strategies_x=12, strategies_y=9, seed=seed, structure=structure)  # type: ignore[arg-type]


PROBLEMS = {
    "matrix": lambda seed: MatrixGame(data=latent(seed)),
    "quadratic": lambda seed: QuadraticGame(data=latent(seed)),
    "curved": lambda seed: CurvedGame(data=latent(seed)),
    "groups": lambda seed: GroupLoss(data=GroupedSigns(rows=300, dimension=5, seed=seed)),
    "logistic": lambda seed: GroupLoss(loss="logistic", data=GroupedSigns(rows=300, dimension=5, seed=seed)),
    "losses": lambda seed: LossMatrix(data=GroupedLosses(rows=300, dimension=5, seed=seed)),
    "marginals": lambda seed: MarginalQueries(data=CategoricalGenerator(rows=300, seed=seed)),
    "regression": lambda seed: SparseRegression(rows=300, dimension=6, seed=seed),
}
METHODS: list[Algorithm] = [
    VertexSampling(iterations=6, draws=3),
    VertexSampling(iterations=6, draws=2, batching="single", output="fresh"),
    SyntheticData(iterations=6, draws=2),
    SyntheticData(iterations=6, release="rows", output="fresh"),
    BiasReduced(stop_level=16),
    mirror_descent.AnytimeSampling(iterations=7, refresh=3, refresh_draws=2, output_draws=3),
    mirror_descent.FrankWolfe(chosen_vertices=5),
    mirror_descent.EuclideanGradient(gradient_rounds=5, batching="single"),
    mirror_descent.GaussianMirrorDescent(gradient_rounds=5),
    mirror_descent.NoisyPayoffs(matrix_rounds=4),
    MultiplicativeWeights(measured_queries=5),
    mirror_descent.GaussianMarginals(fitting_rounds=4),
]


def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Charged releases become numbers that do not depend on the values, only on what was released before."""

    def exponential(
        self: Mechanisms, query: Query, event: Event, draws: int | np.ndarray = 1, replicates: np.ndarray | None = None
    ) -> np.ndarray:
        self._ledger.charge(event, charge_counts(replicates, self.replicates, draws))
        chosen = np.arange(self.replicates) if replicates is None else replicates
        counts = np.broadcast_to(draws, len(chosen)) * len(inner_events(event))
        found = np.full((len(chosen), int(counts.max())), -1)
        for row, r, count in zip(found, chosen, counts, strict=True):
            row[:count] = self._noise[r].integers(0, query.value.shape[-1], count)
        return found

    def released(self: Batch, query: Query, *_: object) -> np.ndarray:
        return self._source._drawn("standard_normal", self.replicates, query.value.shape[1:])

    monkeypatch.setattr(Mechanisms, "exponential", exponential)
    monkeypatch.setattr(Batch, "_released", released)


def shown(method: Algorithm, problem: Game, plan: Plan) -> list:
    def copied(snapshot: Snapshot) -> list:
        arrays = [np.copy(values) for values in (*snapshot.output.values(), *snapshot.released.values())]
        return [snapshot.iteration, snapshot.status, np.copy(snapshot.active), *arrays]  # type: ignore[arg-type]

    return [copied(snapshot) for snapshot in method.run(problem, plan, Mechanisms(Ledger(plan.terms, 2), 3))]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: f"{type(m).__name__}-{METHODS.index(m)}")
def test_all_that_is_shown_of_the_data_was_charged(method: Algorithm, monkeypatch: pytest.MonkeyPatch) -> None:
    forced(monkeypatch)
    played = 0
    for make in PROBLEMS.values():
        specifications: list[ProblemSpecification] = [make(0), make(1)]
        plan = None
        with refusing(MISFIT):
            plan = method.plan(specifications[0].facts(), ZeroConcentratedDP(rho=0.1))
        if plan is None:
            continue
        first, second = (shown(method, specification.build(), plan) for specification in specifications)  # type: ignore[arg-type]
        assert len(first) == len(second) > 1
        for before, after in zip(first, second, strict=True):
            assert before[:2] == after[:2]
            for a, b in zip(before[2:], after[2:], strict=True):  # a series may have no number at the start
                assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        played += 1
    assert played >= 1


# ------------------------------------------------------------------------ selections: mixtures, and what composes to it


def test_no_mixture_of_selections_costs_more_than_one() -> None:
    """Random pairs whose log-ratio has a range of η, mixed with public weights: profile, Rényi divergences and ρ."""
    generator, orders = np.random.default_rng(0), np.array([1.1, 1.5, 2.0, 5.0, 30.0])
    for _ in range(1000):
        eta, k = float(10 ** generator.uniform(-1, 0.7)), int(generator.integers(2, 6))
        p, q = np.zeros(k), np.zeros(k)
        for weight in generator.dirichlet(np.ones(3)):
            part = generator.dirichlet(np.ones(k)) + 1e-12
            tilted = part * np.exp(eta * generator.choice([0.0, 0.5, 1.0], k))
            p, q = p + weight * part / part.sum(), q + weight * tilted / tilted.sum()
        epsilon = np.linspace(0, eta, 12)
        delta = np.maximum(p - np.exp(epsilon)[:, None] * q, 0).sum(axis=1)
        assert (delta <= closed_forms.exponential_delta(eta, epsilon) + 1e-12).all()
        divergence = np.log((p ** orders[:, None] * q ** (1 - orders[:, None])).sum(axis=1)) / (orders - 1)
        assert (divergence <= closed_forms.exponential_rdp(eta, orders) * (1 + 1e-9) + 1e-12).all()
        assert (divergence <= orders * per_event.rho(ExpMech(eta)) * (1 + 1e-9) + 1e-12).all()


@pytest.mark.parametrize("seed", range(5))
def test_adaptive_selections_never_exceed_what_any_accountant_says(seed: int) -> None:
    """Two-point pairs, each chosen by what was released before, composed by enumeration."""
    generator = np.random.default_rng(seed)
    etas = generator.uniform(0.2, 2.0, 7).tolist()
    p, q = np.ones(1), np.ones(1)
    for eta in etas:
        gap = generator.choice([0.1, 0.5, 0.9], len(p)) * eta  # the loss is t or t - η
        low = -np.expm1(gap - eta) / (np.exp(gap) - np.exp(gap - eta))
        high = low * np.exp(gap)
        p, q = np.concatenate([p * high, p * (1 - high)]), np.concatenate([q * low, q * (1 - low)])
    events = [ExpMech(eta) for eta in etas]
    for epsilon in (0.3, 1.0, 2.0):
        delta = max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))
        claims = accountants.tightest(events, float(delta)).by_method
        assert min(claims.values()) >= epsilon * (1 - 1e-6)
