"""The advice before a run: the table that it rests on agrees with new runs, and it names the method that wins."""

import json

import numpy as np
import pytest

from dpviz.datasets.groups import GroupedBundled, GroupedLosses
from dpviz.datasets.synthetic import LatentGame
from dpviz.experiments.experiment import Experiment
from dpviz.families.mirror_descent import advice, presets, texts
from dpviz.families.mirror_descent.advice import Expectation, expectation
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP, ZeroConcentratedDP
from dpviz.problems.base import ProblemSpecification
from dpviz.problems.games.group_loss import GroupLoss, LossMatrix
from dpviz.problems.games.marginals import MarginalQueries
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.games.quadratic_games import CurvedGame, QuadraticGame
from dpviz.problems.games.simplex_learning import PolytopeRegression, Portfolio, SparseRegression
from dpviz.problems.linear.quadratic import Quadratic
from tests.families.mirror_descent import measure

BUDGET = ApproximateDP(epsilon=1.0, delta=1e-6)
PROBLEMS = (
    MatrixGame(),
    QuadraticGame(),
    CurvedGame(),
    GroupLoss(),
    LossMatrix(),
    MarginalQueries(),
    SparseRegression(),
    Portfolio(),
    PolytopeRegression(),
)
EVERY = pytest.mark.parametrize("problem", PROBLEMS, ids=advice.table_key)
ROUNDS = 64


def known(problem: ProblemSpecification, budget: Budget = BUDGET, rounds: int = ROUNDS) -> Expectation:
    found = expectation(problem, budget, rounds)
    assert found is not None
    return found


def ran(problem: ProblemSpecification, budget: Budget = BUDGET, rounds: int = ROUNDS) -> dict[str, np.ndarray]:
    """Errors of every method offered, over 8 runs on each of two data sets that the table was not made from."""
    metric = "worst_query_error" if isinstance(problem, MarginalQueries) else "duality_gap"
    arms = measure.arms_at_defaults(type(problem), rounds)
    traces = [
        Experiment(problem=measure.seeded(problem, seed), arms=arms, budget=budget, replicates=8, seed=seed).run()
        for seed in (0, 1)
    ]
    return {arm.label: np.concatenate([trace.last(arm.label, metric) for trace in traces]) for arm in arms}


def interval(samples: np.ndarray) -> tuple[float, float]:
    """95 % interval of the median, by order statistics."""
    half = 0.98 / np.sqrt(len(samples))
    low, high = np.quantile(samples, (0.5 - half, 0.5 + half), method="hazen")
    return float(low), float(high)


@pytest.mark.slow
@EVERY
def test_the_advised_method_is_the_best_one_at_the_pages_defaults(problem: ProblemSpecification) -> None:
    """Its median lies within the interval of the best one's, or within the factor that counts as equal."""
    found, runs = known(problem), ran(problem)
    medians = {label: float(np.median(samples)) for label, samples in runs.items()}
    best = min(medians, key=lambda label: medians[label])
    assert found.inside and set(runs) == set(presets.offered(type(problem))[0])
    assert set(found.medians) == set(runs) - set(measure.UNMEASURED)
    for label in found.best:
        assert medians[label] <= max(interval(runs[best])[1], advice.EQUAL**2 * medians[best]), (label, best)
    assert best in found.best or interval(runs[found.best[0]])[0] <= interval(runs[best])[1], (found.best, best)

    # What is said of the others holds too: the numbers, and who might as well not have played.
    uniform = measure.uniform_error(problem)
    assert found.uniform == pytest.approx(uniform, rel=0.05)
    for label in found.medians:
        low, high = interval(runs[label])
        assert low / 1.5 <= max(found.medians[label], 1e-4) <= 1.5 * max(high, 1e-4), label
        if label in found.useless:
            assert medians[label] > 0.9 * uniform, label
        elif medians[label] > 1.1 * uniform:
            raise AssertionError(f"{label} does no better than uniform play, and nothing says so")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "budget", "rounds"),
    [
        (MatrixGame(data=LatentGame(rows=1000, strategies_x=60, strategies_y=60)), BUDGET, 64),
        (MatrixGame(data=LatentGame(structure="hide_seek")), ApproximateDP(epsilon=2.0, delta=1e-6), 100),
        (QuadraticGame(data=LatentGame(strategies_x=60, strategies_y=60)), GaussianDP(mu=0.5), 128),
        (LossMatrix(data=GroupedLosses(dimension=60)), ZeroConcentratedDP(rho=0.1), 64),
        (SparseRegression(dimension=50), PureDP(epsilon=2.0), 16),
        (Portfolio(rows=2000), BUDGET, 128),
        (PolytopeRegression(shape="box", dimension=6), ApproximateDP(epsilon=0.5, delta=1e-6), 64),
        (GroupLoss(loss="logistic"), BUDGET, 20),
    ],
)
def test_between_the_sizes_measured_the_advised_method_is_close_to_the_best(
    problem: ProblemSpecification, budget: Budget, rounds: int
) -> None:
    found = known(problem, budget, rounds)
    arms = [arm for arm in measure.arms_at_defaults(type(problem), rounds) if arm.label in found.medians]
    medians = measure.medians(problem, tuple(arms), budget, seeds=(0, 1))
    assert found.inside and medians[found.best[0]] <= 1.6 * max(min(medians.values()), 1e-4), (found.best, medians)


def test_the_table_holds_every_problem_that_is_measured_with_every_method_offered() -> None:
    table = json.loads(advice.TABLE.read_text())
    for sizes in measure.problems():
        kinds = table.pop(advice.table_key(sizes[0]))
        offered = set(presets.offered(type(sizes[0]))[0]) - set(measure.UNMEASURED)
        assert [cell["size"] for cell in kinds["approximate"]] == sorted(cell["size"] for cell in kinds["pure"])
        for problem, cell in zip(sizes, kinds["approximate"], strict=True):
            facts = problem.facts()
            assert (cell["rows"], cell["size"]) == (facts.n, max(facts.d_x, facts.d_y)) and set(cell["medians"]) == set(  # type: ignore[attr-defined]
                offered
            )
            assert cell["signals"] == pytest.approx(
                [advice.signal_of(facts, ApproximateDP(epsilon=e, delta=1e-6)) for e in measure.STRENGTHS], rel=1e-5
            )
        gaussian = {"DP-SGDA", "Gaussian mirror descent", "Gaussian marginals", "As in the paper", "Noisy matrix"}
        assert not gaussian & {label for cell in kinds["pure"] for label in cell["medians"]}, "no pure ε"
    assert table == {}


def test_a_measured_size_gives_its_own_numbers_and_between_them_lines_are_straight_in_logarithms() -> None:
    sizes = json.loads(advice.TABLE.read_text())["sparse_regression"]["approximate"]
    cell = next(size for size in sizes if size["size"] == 1000)
    found = known(SparseRegression(dimension=500))
    for label, columns in cell["medians"].items():
        assert found.medians[label] == pytest.approx(columns[len(columns) // 2][1], rel=1e-5), label
    low, high = (known(SparseRegression(dimension=500), rounds=rounds).medians for rounds in (16, 64))
    middle = known(SparseRegression(dimension=500), rounds=32).medians
    for label in middle:
        assert middle[label] == pytest.approx(np.sqrt(low[label] * high[label]), rel=1e-5), label


def test_the_same_noise_gets_the_same_advice_in_every_currency_and_currencies_that_differ_do_not() -> None:
    rho = BUDGET.about_rho(BUDGET.amount)
    for budget in (ZeroConcentratedDP(rho=rho), GaussianDP(mu=float(np.sqrt(2 * rho)))):
        assert known(Portfolio(), budget).medians == pytest.approx(dict(known(Portfolio()).medians))
    assert "DP-SGDA" not in known(Portfolio(), PureDP(epsilon=1.0)).medians
    twice = Portfolio(rows=20_000), ZeroConcentratedDP(rho=rho / 4)
    assert known(*twice).medians == pytest.approx(dict(known(Portfolio()).medians))


def test_beyond_what_was_measured_the_edge_is_told_and_said_to_be_the_edge() -> None:
    far = known(SparseRegression(dimension=2000, rows=200))
    assert not far.inside
    assert not known(Portfolio(), ApproximateDP(epsilon=0.01, delta=1e-6)).inside
    assert not known(Portfolio(risk_aversion=2.0)).inside and not known(GroupLoss(data=GroupedBundled())).inside
    assert known(Portfolio(rows=12_000, dimension=50, seed=3)).inside
    assert expectation(Quadratic(), BUDGET, 64) is None and expectation(Portfolio(), NoPrivacy(), 64) is None


def test_no_better_than_uniform_play_is_a_statement_about_the_median() -> None:
    around = 0.3 + 0.01 * np.linspace(-1, 1, 20)
    assert advice.no_better_than_uniform(around, 0.3) and advice.no_better_than_uniform(around, 0.29)
    assert not advice.no_better_than_uniform(around, 0.32) and not advice.no_better_than_uniform(0.1 * around, 0.3)
    assert advice.no_better_than_uniform(np.array([0.1, 0.4]), 0.3), "two runs tell little"
    assert "No method" not in texts.verdict({"A": 0.25, "B": 0.26}, (), 0.3, ["A"]), "B is shown to be better"


@pytest.mark.parametrize("problem", PROBLEMS, ids=advice.table_key)
def test_every_method_starts_from_uniform_play(problem: ProblemSpecification) -> None:
    """The verdict takes the first record as the error of not playing."""
    experiment = Experiment(
        problem=problem, arms=measure.arms_at_defaults(type(problem), 2), budget=BUDGET, replicates=2
    )
    x, y = problem.facts().uniform(1)  # type: ignore[attr-defined]
    for step in experiment.stream():
        if step.snapshot.iteration == 0:
            np.testing.assert_allclose(step.snapshot.output["x"], np.repeat(x, 2, axis=0), err_msg=step.label)
            np.testing.assert_allclose(step.snapshot.output["y"], np.repeat(y, 2, axis=0), err_msg=step.label)
        if all(len(lane.iterations) for lane in step.trace.arm_traces.values()):
            break
