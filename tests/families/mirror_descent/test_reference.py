"""The tuned reference: the floor of every picture, without privacy and never with it."""

import numpy as np
import pytest

from dpviz.datasets.synthetic import LatentGame
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.trace import Trace
from dpviz.families.mirror_descent import TunedReference, presets
from dpviz.privacy.budgets import ApproximateDP, NoPrivacy, PureDP
from dpviz.privacy.ledger import Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression

PROBLEMS = (
    MatrixGame(),
    MatrixGame(data=LatentGame(structure="hide_seek", strategies_x=30, strategies_y=30)),
    QuadraticGame(),
    CurvedGame(),
    GroupLoss(),
    GroupLoss(loss="logistic"),
    LossMatrix(),
    MarginalQueries(),
    SparseRegression(),
    Portfolio(),
    Portfolio(risk_aversion=0.0),
    PolytopeRegression(),
)
EVERY = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.kind.rpartition(".")[2])
SMALL = MatrixGame(data=LatentGame(rows=60, strategies_x=5, strategies_y=4))
TOLERANCE = 1e-4  # of certified gaps


def run(problem: ProblemSpecification, rounds: int = 256, replicates: int = 2) -> Trace:
    arm = Arm(label="it", algorithm=TunedReference(rounds=rounds), budget=NoPrivacy())
    return Experiment(problem=problem, arms=(arm,), replicates=replicates).run()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "epsilon"),
    [*((problem, 10.0) for problem in PROBLEMS), (QuadraticGame(), 1.0), (LossMatrix(), 1.0), (Portfolio(), 1.0)],
    ids=lambda value: str(value) if isinstance(value, float) else value.kind.rpartition(".")[2],
)
def test_no_private_method_ends_below_the_reference(problem: ProblemSpecification, epsilon: float) -> None:
    """Every method that is offered, at the page's defaults, with so little noise that they come close and, on three
    problems, with more: its median gap is not below the reference's."""
    arms = presets.arms(presets.offered(type(problem))[0], references=True)
    budget = ApproximateDP(epsilon=epsilon, delta=1e-6)
    trace = Experiment(problem=problem, arms=arms, budget=budget, replicates=5).run()
    metric = "worst_query_error" if "worst_query_error" in trace.metrics else "duality_gap"
    gaps = {arm.label: float(np.median(trace.last(arm.label, metric))) for arm in arms}
    floor = gaps.pop(presets.REFERENCE)
    assert floor <= min(gaps.values()) + TOLERANCE, gaps | {"floor": floor}
    assert floor < 0.001


@pytest.mark.slow
@EVERY
def test_its_gap_never_grows_and_every_replicate_is_the_same(problem: ProblemSpecification) -> None:
    gaps = run(problem, 40).series("it", "duality_gap")[1]
    assert (gaps[:, 0] == gaps[:, 1]).all()
    assert (np.diff(gaps[:, 0]) <= TOLERANCE).all() and gaps[-1, 0] < 0.7 * gaps[0, 0]


def test_it_finds_the_value_of_a_matrix_game() -> None:
    problem = MatrixGame(data=LatentGame(structure="hide_seek", strategies_x=30, strategies_y=20, seed=3))
    game = problem.build()
    output = {name: value[0] for name, value in run(problem, 1024).arm_traces["it"].output.items()}
    found = float(output["x"] @ game.payoffs(1).value[0] @ output["y"])
    assert found == pytest.approx(game.value(), abs=1e-3)


def test_it_refuses_every_budget() -> None:
    for budget in (PureDP(epsilon=1.0), ApproximateDP(epsilon=1.0, delta=1e-6)):
        with pytest.raises(UserError, match="without privacy only"):
            TunedReference().plan(SMALL.facts(), budget)


@pytest.mark.parametrize("problem", [SMALL, SparseRegression(rows=400, dimension=4)], ids=["game", "alone"])
def test_its_ledger_is_its_plan_and_nothing_is_drawn(problem: ProblemSpecification) -> None:
    method = TunedReference(rounds=7)
    assert Algorithm.from_json(method.to_json()) == method
    plan = method.plan(problem.facts(), NoPrivacy())
    ledger = Ledger(plan.terms, 2)
    source = Mechanisms(ledger, 0)
    before = [generator.bit_generator.state for generator in source._noise]
    iterations = [snapshot.iteration for snapshot in method.run(problem.build(), plan, source)]
    assert iterations == list(range(8)) and ledger.booked(0) == plan.events
    assert plan.spent("epsilon")[-1] == np.inf
    assert [generator.bit_generator.state for generator in source._noise] == before
