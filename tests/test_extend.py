"""Methods of one's own, with the names of `dpviz.extend` alone: planned, run, audited, known to the shell."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpviz
from dpviz import extend
from dpviz.datasets import UploadedTable

PROGRAM = """
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dpviz.extend import Algorithm, Budget, Mechanisms, Metric, Plan, SmoothFacts, SmoothProblem, Snapshot
from dpviz.extend import check_facts, laplace_events, noise_scale, number


class Descent(Algorithm[SmoothProblem, SmoothFacts]):
    kind: ClassVar[str] = "mine.descent"
    title: ClassVar[str] = "Mine"
    iterations: int = number(5, 1, 100, label="Steps", help="Noisy gradients.")

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        epsilon = np.full(self.iterations, budget.remaining(facts.released) / self.iterations)
        events = laplace_events(epsilon, facts.n, facts.n)
        scale = noise_scale(events[0], facts.gradient_sensitivity("l1", facts.n))
        return Plan.fixed(facts, budget, events, noise={"gradient": np.full(self.iterations, scale)})

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        x = problem.facts.starting_point(mechanisms.replicates)
        yield Snapshot(0, {"x": x})
        for t, event in enumerate(plan.events, 1):
            batch = mechanisms.batch(event)
            query = problem.mean_gradient(x, batch, "l1")
            x = x - (batch.laplace(query) + problem.regulariser_gradient(x)) / plan.facts.smoothness
            yield Snapshot(t, {"x": x})


class Forgetful(Descent):
    kind: ClassVar[str] = "mine.forgetful"
    title: ClassVar[str] = "Half the sensitivity"

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        true = problem.mean_gradient

        def understated(*arguments):
            query = true(*arguments)
            return query._replace(sensitivity=query.sensitivity / 4)

        problem.mean_gradient = understated  # for ever
        yield from super().run(problem, plan, mechanisms)


class Restless(Descent):
    kind: ClassVar[str] = "mine.restless"
    title: ClassVar[str] = "Noise of its own"

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        for snapshot in super().run(problem, plan, mechanisms):
            yield Snapshot(snapshot.iteration, {"x": snapshot.output["x"] + np.random.default_rng().random()})


class Poisson(Descent):
    kind: ClassVar[str] = "mine.poisson"

    def plan(self, facts: SmoothFacts, budget: Budget) -> Plan:
        return Plan.fixed(facts, budget, laplace_events(np.full(1, 0.1), 2, facts.n, "poisson"))


class Counting(Descent):
    kind: ClassVar[str] = "mine.counting"
    metrics: ClassVar = (Metric("count", "Count", released=True),)
    each: bool = True
    name: str = "count"

    def run(self, problem: SmoothProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        try:
            for snapshot in super().run(problem, plan, mechanisms):
                t = snapshot.iteration
                counts = {self.name: np.full(mechanisms.replicates, t) if self.each else t} if t else {}
                yield Snapshot(t, snapshot.output, counts)
        finally:
            ENDED.append(self.each)


ENDED = []
"""
DATA = (np.zeros((20, 1)), np.ones(20))


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    (tmp_path / "mine_of_test.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(tmp_path)
    import mine_of_test  # type: ignore[import-not-found]

    return mine_of_test


@pytest.mark.filterwarnings("ignore:Not private")
def test_a_method_of_one_s_own_is_planned_run_and_audited(mine: object) -> None:
    method = mine.Descent(iterations=3)  # type: ignore[attr-defined]
    experiment = dpviz.Experiment(dpviz.LogisticRegression(), [method, dpviz.GradientDescent(3)], epsilon=1)  # type: ignore[call-arg]
    assert dpviz.Experiment.from_json(experiment.to_json()) == experiment
    alone = experiment.run().last("Mine", "objective")
    beside = experiment.replaced(arms=[mine.Forgetful(iterations=3), method]).run()  # type: ignore[attr-defined]
    assert alone.shape == (20,) and (beside.last("Mine", "objective") == alone).all()
    problem = dpviz.LogisticRegression(data=dpviz.table(DATA, positive=1, bounds=(0, 1)), clip=0.01)
    pair = extend.neighbours(problem, (1.0, 1.0), (1.0, -1.0))
    claim = dpviz.PureDP(epsilon=1)
    wrong = dpviz.audit(mine.Forgetful(iterations=3), claim, neighbours=pair, runs=4000, seed=1)  # type: ignore[attr-defined]
    right = dpviz.audit(method, claim, neighbours=pair, runs=4000, seed=1)
    assert not right.violation and not right.faulty
    assert wrong.violation or wrong.faulty
    with pytest.raises(dpviz.UserError, match=r"mechanisms\.public"):  # it keeps its claim, and would be refuted
        dpviz.audit(mine.Restless(iterations=3), claim, neighbours=pair, runs=4000, seed=1)  # type: ignore[attr-defined]
    with pytest.raises(dpviz.UserError, match="replaced"):  # they hold if a row is added or removed
        experiment.replaced(arms=mine.Poisson()).plans()  # type: ignore[attr-defined]
    with pytest.raises(dpviz.UserError, match="one size"):  # batches of random size are not replayed
        dpviz.audit(mine.Poisson(), claim, neighbours=pair, runs=10, seed=1)  # type: ignore[attr-defined]
    unlike = dpviz.table((np.linspace(0, 1, 20)[:, None], np.ones(20)), positive=1, bounds=(0, 1))
    pair = extend.neighbours(dpviz.LogisticRegression(data=unlike, clip=0.01), (1.0, 1.0), (1.0, -1.0))
    with pytest.raises(dpviz.UserError, match="other rows"):  # a batch would not be the one that the replays have
        dpviz.audit(dpviz.GradientDescent(batch_fraction=0.2), claim, neighbours=pair, runs=10, seed=1)
    for rows in (((1.0,), (1.0, -1.0)), ((1.0, 1.0), (1.0, 2.0, 3.0))):
        with pytest.raises(dpviz.UserError):
            extend.neighbours(problem, *rows)
    with pytest.raises(dpviz.UserError):
        extend.neighbours(dpviz.LogisticRegression(), (1.0,), (2.0,))


def test_a_metric_has_a_number_for_each_repeat_at_the_steps_that_give_one(mine: object) -> None:
    right, wrong = (
        dpviz.Experiment(dpviz.Quadratic(), mine.Counting(each=each), epsilon=1)  # type: ignore[attr-defined]
        for each in (True, False)
    )
    iterations, counts = right.run().series("Mine", "count")
    np.testing.assert_array_equal(counts[1:, 0], iterations[1:])
    assert len(iterations) == 6 and np.isnan(counts[0]).all()
    with pytest.raises(dpviz.UserError, match="'count'") as refusal:
        wrong.replaced(arms={"wrong": wrong.arms[0].algorithm, "right": right.arms[0].algorithm}).run()
    assert refusal.value.__context__ is None, "it is raised once"
    assert mine.ENDED == [True, True, False], "all are closed"  # type: ignore[attr-defined]
    with pytest.raises(dpviz.UserError, match="'count'") as refusal:  # else its numbers would be lost
        right.replaced(arms=mine.Counting(name="counts")).run()  # type: ignore[attr-defined]
    assert "'counts'" in refusal.value.title


def test_a_problem_of_one_s_own_on_a_table_is_not_public_and_must_count_what_the_table_cost() -> None:
    class Mine(extend.ProblemSpecification):
        data: extend.DatasetSpecification | tuple[extend.DatasetSpecification, ...] | None = None
        costs: bool = True
        table: extend.DatasetSpecification | None = None
        tables: tuple[extend.DatasetSpecification, ...] = ()
        listed: list[extend.DatasetSpecification] | None = None
        named: dict[str, extend.DatasetSpecification] | None = None

        def facts(self) -> extend.SmoothFacts:
            return extend.SmoothFacts(n=20, d=1, released=self.released if self.costs else ())

        def build(self, tables: object = None) -> extend.SmoothProblem:
            raise NotImplementedError

    class Unsaid(Mine):
        def build(self, tables: object = None):  # type: ignore[no-untyped-def]
            raise NotImplementedError

    data = UploadedTable(identity="a" * 32, n=20, bounds=((0.0, 1.0),), names=("a",), ranges_costs=(0.5,))
    right, wrong = (dpviz.Experiment(Mine(data=data, costs=costs), dpviz.GradientDescent(3)) for costs in (True, False))  # type: ignore[call-arg]
    assert not right.public and right.seed is None and right.plans()["DP-GD"].spent("epsilon")[0] == 0.5
    with pytest.raises(dpviz.UserError, match="build"):
        dpviz.Experiment(Unsaid(data=data), dpviz.GradientDescent(3)).metrics()  # type: ignore[call-arg]
    with pytest.raises(dpviz.UserError, match=r"released=self\.released"):
        wrong.plans()

    class Wrapper(extend.DatasetSpecification):
        inner: extend.DatasetSpecification

        def facts(self) -> extend.DatasetFacts:
            return self.inner.facts()

        def raw_rows(self, tables: Any) -> Any:
            return self.inner.raw_rows(tables)

    wrong_fields = {"table": data, "tables": (data,), "listed": [data], "named": {"a": data}}
    for name, rows in [*wrong_fields.items(), ("data", Wrapper(inner=data)), ("data", (data,))]:
        with pytest.raises(dpviz.UserError, match=r"rows are public") as refusal:  # else it would be public, or free
            dpviz.Experiment(Mine(**{name: rows}), dpviz.GradientDescent(3)).plans()  # type: ignore[call-arg]
        assert repr(name) in refusal.value.title


def test_a_method_with_another_update_rule_does_not_have_the_error_bound_of_its_parent() -> None:
    class Own(dpviz.GradientDescent):
        kind = "mine.own"

    problem = dpviz.LogisticRegression(data=dpviz.datasets.UniformLogistic(rows=500))  # type: ignore[attr-defined]
    arms = {"own": Own(iterations=30), "parent": dpviz.GradientDescent(iterations=30)}
    plans = dpviz.Experiment(problem, arms, epsilon=0.1).plans()
    assert ["bound" in " ".join(plans[label].notes) for label in arms] == [False, True]


def test_a_method_that_inherits_its_kind_would_have_the_noise_of_its_parent_and_is_refused() -> None:
    class Other(dpviz.GradientDescent):
        title = "Other"

    with pytest.raises(dpviz.UserError, match=r"mine\.other"):
        dpviz.Experiment(dpviz.Quadratic(), Other(3)).run()  # type: ignore[call-arg]


def test_methods_of_two_classes_without_kinds_have_noise_of_their_own_or_are_refused() -> None:
    names: dict[str, type] = {"__name__": "unnamed"}
    exec(re.sub(r"    kind: ClassVar.*\n", "", PROGRAM).replace("/ 4)", ")"), names)
    arms = {name: names[name](iterations=2) for name in ("Descent", "Forgetful")}
    trace = dpviz.Experiment(dpviz.Quadratic(rows=100), arms, replicates=2).run()
    assert (trace.last("Descent", "objective_gap") != trace.last("Forgetful", "objective_gap")).all()
    no_title = type("NoTitle", (names["Descent"],), {"title": ""})
    with pytest.raises(dpviz.UserError, match=r"μ = 3, .*costs μ = 4\.221") as refusal:  # it takes μ² for a sum of ε
        dpviz.Experiment(dpviz.Quadratic(), no_title(iterations=3), budget=dpviz.GaussianDP(3.0)).plans()
    assert "NoTitle" in refusal.value.title
    same = type("Descent", (names["Descent"],), {"__module__": "unnamed"})
    with pytest.raises(dpviz.UserError, match=r"unnamed\.Descent"):
        dpviz.Experiment(dpviz.Quadratic(), {"a": arms["Descent"], "b": same(iterations=2)})


@pytest.mark.slow
def test_the_shell_and_its_processes_know_a_module_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM)
    settings = {
        "kind": "experiments.experiment.experiment",
        "problem": {"kind": "problems.linear_models.logistic_regression"},
        "arms": [{"kind": "experiments.experiment.arm", "label": "Mine", "algorithm": {"kind": "mine.descent"}}],
        "replicates": 2,
    }
    (tmp_path / "e.json").write_text(json.dumps(settings))
    environment = {**os.environ, "PYTHONPATH": str(Path(dpviz.__file__).parents[1]), "DPVIZ_STORE": "off"}

    def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dpviz", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    assert "mine.descent" in shell("run", "e.json").stderr
    ran = shell("--module", "mine", "run", "e.json")
    swept = shell("--module", "mine", "sweep", "e.json", "--grid", "epsilon=0.5,1")
    assert ran.returncode == 0 and "Mine" in ran.stdout, ran.stderr
    assert swept.returncode == 0 and "Mine" in swept.stdout, swept.stderr
    assert "nowhere" in shell("--module", "nowhere", "run", "e.json").stderr
