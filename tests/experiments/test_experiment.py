"""Experiments: arms run side by side and independently; what was computed is kept, whatever happens."""

import itertools
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from dpviz.datasets import UniformLogistic, UploadedTable
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import Arm, Experiment, Step
from dpviz.experiments.plan import Plan
from dpviz.experiments.trace import Trace, recording_grid
from dpviz.families.accelerated import GradientDescent, HeavyBall, Nesterov
from dpviz.privacy.budgets import Budget, GaussianDP, NoPrivacy, PureDP
from dpviz.privacy.events import Laplace
from dpviz.privacy.ledger import LedgerError
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Problem, ProblemSpecification
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic

BENCH = Quadratic(rows=100, dimension=2)


class Broken(Algorithm[Problem, Facts]):
    """Releases more than its plan contains, at its third step."""

    title = "Broken"

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, (Laplace(0.1),) * 2, batch_size=np.full(2, facts.n))

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        for t in range(4):
            if t:
                mechanisms.batch(plan.events[0])
            yield Snapshot(t, {"x": np.zeros((mechanisms.replicates, plan.facts.d))})


@dataclass(frozen=True)
class OtherFacts(Facts):
    """Facts of a problem that no gradient method knows."""


class Game(ProblemSpecification):
    """Not a smooth minimisation problem."""

    title = "Game"

    def facts(self) -> OtherFacts:
        return OtherFacts(n=10, d=2)

    def build(self, tables: Mapping[str, np.ndarray] = {}) -> Problem:
        raise AssertionError("must not be built")


def experiment(*algorithms: Algorithm, **settings: object) -> Experiment:
    arms = tuple(Arm(label=f"{i}", algorithm=algorithm) for i, algorithm in enumerate(algorithms))
    defaults = {"problem": BENCH, "arms": arms, "replicates": 4, "budget": PureDP(epsilon=5.0)}
    return Experiment(**defaults | settings)


def finished(of: Experiment) -> Trace:
    return list(of.stream())[-1].trace


# ---------------------------------------------------------------------------------------------------------------- plans


def test_plans_are_made_arm_by_arm_from_facts_alone() -> None:
    table = UploadedTable(identity="c" * 32, n=50, bounds=((0.0, 1.0),), names=("a",))  # not to be found anywhere
    other = Arm(label="other", algorithm=Nesterov(iterations=3), budget=PureDP(epsilon=1.0))
    both = Experiment(
        problem=LogisticRegression(data=table), arms=(Arm(label="it", algorithm=Nesterov(iterations=7)), other)
    )
    plans = both.plans()
    assert {label: plan.iterations for label, plan in plans.items()} == {"it": 7, "other": 3}
    assert plans["it"].budget == both.budget and plans["other"].budget == PureDP(epsilon=1.0)
    with pytest.raises(UserError):
        next(both.stream())


def test_an_arms_own_budget_wins_and_is_enforced() -> None:
    arms = (
        Arm(label="shared", algorithm=GradientDescent(iterations=2)),
        Arm(label="own", algorithm=GradientDescent(iterations=2, noise="gaussian"), budget=GaussianDP(mu=1.0)),
        Arm(label="none", algorithm=GradientDescent(iterations=2), budget=NoPrivacy()),
    )
    plans = experiment(arms=arms).plans()
    assert plans["shared"].spent("epsilon")[-1] == pytest.approx(5.0)
    assert plans["own"].spent("mu")[-1] == pytest.approx(1.0) and plans["own"].spent("epsilon")[-1] == np.inf
    assert plans["none"].spent("rho")[-1] == np.inf
    with pytest.raises(UserError):
        experiment(GradientDescent(noise="gaussian")).plans()


def test_an_algorithm_on_a_problem_of_another_kind_is_refused_by_name() -> None:
    wrong = Experiment(problem=Game(), arms=(Arm(label="My arm", algorithm=Nesterov()),))
    with pytest.raises(UserError, match=r"My arm.*Game"):
        wrong.plans()
    with pytest.raises(UserError):
        next(wrong.stream())


@pytest.mark.parametrize("labels", [["A", "A"], [""], ["A" * 61], []])
def test_labels_are_short_different_and_there(labels: list[str]) -> None:
    arms = [{"label": label, "algorithm": Nesterov()} for label in labels]
    with pytest.raises(UserError):
        Experiment(problem=BENCH, arms=arms)


def test_a_problem_that_is_not_the_one_planned_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Quadratic.build

    def other(self: Quadratic, tables: Mapping[str, np.ndarray] = {}) -> Problem:
        return true(self.replaced(rows=99), tables)

    monkeypatch.setattr(Quadratic, "build", other)
    with pytest.raises(UserError, match="plan was made for"):
        next(experiment(Nesterov()).stream())


# ----------------------------------------------------------------------------------------------------------------- runs


def test_a_stream_advances_every_arm_to_its_end_and_progress_only_grows() -> None:
    of = experiment(GradientDescent(iterations=30), HeavyBall(iterations=3), Nesterov(iterations=150))
    seen: dict[str, list[int]] = {"0": [], "1": [], "2": []}
    progress = []
    for step in of.stream():
        assert isinstance(step, Step)
        seen[step.label].append(step.snapshot.iteration)
        progress.append(step.progress)
    assert seen == {"0": list(range(31)), "1": list(range(4)), "2": list(range(151))}
    assert (np.diff(progress) >= 0).all() and progress[0] > 0 and progress[-1] == 1.0
    for label, iterations in seen.items():
        recorded, values = step.trace.series(label, "objective_gap")
        assert recorded.tolist() == recording_grid(iterations[-1]).tolist() and values.shape == (len(recorded), 4)


def test_a_long_arm_starves_no_other() -> None:
    of = experiment(Nesterov(iterations=2_000), Nesterov(iterations=2_000), Nesterov(iterations=2_000))
    reached = {"0": 0, "1": 0, "2": 0}
    for count, step in enumerate(of.stream()):
        reached[step.label] = step.snapshot.iteration
        if count == 1_500:
            break
    assert min(reached.values()) > 50, "arms of equal cost advance together"


def test_the_time_of_an_arm_is_the_processors_not_that_of_others_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = itertools.count(step=1000)
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    (lane,) = finished(experiment(Nesterov(iterations=50))).arm_traces.values()
    assert 0 < lane.seconds < 100
    others = itertools.count()
    monkeypatch.setattr(Problem, "seconds_elsewhere", property(lambda problem: float(next(others))))
    (lane,) = finished(experiment(Nesterov(iterations=50))).arm_traces.values()
    assert lane.seconds > 50, "what other processes computed for it is its own"


def test_results_depend_neither_on_the_order_of_arms_nor_on_their_number() -> None:
    methods = [GradientDescent(iterations=12), HeavyBall(iterations=12), Nesterov(iterations=12, batch_fraction=0.3)]
    problem = LogisticRegression(data=UniformLogistic(rows=500, dimension=3))
    whole = finished(experiment(*methods, problem=problem))
    turned = finished(experiment(*methods[::-1], problem=problem))
    for i, method in enumerate(methods):
        alone = finished(experiment(method, problem=problem))
        for metric in whole.metrics:
            values = whole.series(str(i), metric)[1]
            assert np.array_equal(values, turned.series(str(2 - i), metric)[1], equal_nan=True)
            assert np.array_equal(values, alone.series("0", metric)[1], equal_nan=True)


def test_arms_share_their_noise_and_replicates_share_nothing() -> None:
    twins = tuple(Arm(label=label, algorithm=Nesterov(iterations=5)) for label in ("A", "its twin"))
    trace = finished(experiment(arms=twins))
    one, two = (trace.series(arm.label, "objective_gap")[1] for arm in twins)
    assert np.array_equal(one, two)
    assert len(set(one[-1])) == 4
    longer = finished(experiment(Nesterov(iterations=5), replicates=9)).series("0", "objective_gap")[1]
    assert longer[:, :4] == pytest.approx(one, rel=1e-10)


@pytest.mark.slow
def test_a_stream_that_is_closed_keeps_the_last_state_of_every_arm() -> None:
    of = experiment(Nesterov(iterations=5_000), GradientDescent(iterations=5_000))
    reached: dict[str, int] = {}
    stream = of.stream()
    for _ in range(701):
        step = next(stream)
        reached[step.label] = step.snapshot.iteration
    grid = recording_grid(5_000)
    while all(iteration in grid for iteration in reached.values()):  # which arm goes next depends on the clock
        step = next(stream)
        reached[step.label] = step.snapshot.iteration
    assert any(iteration not in grid for iteration in reached.values()), "otherwise this proves nothing"
    stream.close()  # type: ignore[attr-defined]
    whole = finished(of)
    for label, iteration in reached.items():
        iterations, values = step.trace.series(label, "objective_gap")
        assert iterations[-1] == iteration and len(values) == len(iterations)
        on_grid = np.isin(iterations, grid)
        full = dict(zip(*whole.series(label, "objective_gap"), strict=True))
        assert all(np.array_equal(values[k], full[iterations[k]]) for k in np.flatnonzero(on_grid)), "a prefix"
    stream.close()  # type: ignore[attr-defined]
    assert step.trace.series("0", "objective_gap")[0].tolist() == sorted(set(step.trace.arm_traces["0"].iterations))


def test_an_arm_that_breaks_its_plan_stops_the_run_and_keeps_what_others_have() -> None:
    of = experiment(Nesterov(iterations=3), Broken())
    trace = None
    with pytest.raises(LedgerError):
        for step in of.stream():
            trace = step.trace
    assert trace is not None
    assert trace.series("1", "objective_gap")[0][-1] == 2, "the last state within the plan is kept"
    assert len(trace.series("0", "objective_gap")[0]) >= 1


def test_seeds_change_the_noise_and_nothing_else() -> None:
    runs = {seed: finished(experiment(Nesterov(iterations=4), seed=seed)) for seed in (0, 1)}
    one, two = (trace.series("0", "objective_gap")[1] for trace in runs.values())
    assert np.array_equal(one[0], two[0]) and not np.isin(one[1:], two[1:]).any()
    plans = [experiment(Nesterov(iterations=4), seed=seed).plans()["0"].events for seed in (0, 1)]
    assert plans[0] == plans[1]
