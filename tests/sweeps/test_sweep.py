"""Sweeps: the points of a setting on several data sets, and what is kept of them."""

import math
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest

from dpviz.datasets import UploadedTable
from dpviz.datasets.base import NO_TABLES
from dpviz.datasets.synthetic import LatentGame
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.plan import Plan
from dpviz.exports.export import sweep_to_csv
from dpviz.families.accelerated import HeavyBall, Nesterov
from dpviz.families.mirror_descent import NoisyPayoffs, VertexSampling
from dpviz.plots import displayed
from dpviz.privacy.budgets import ApproximateDP, Budget, NoPrivacy, PureDP
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Facts, Metric, Problem, SmoothProblem
from dpviz.problems.games.matrix_games import MatrixGame
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.sweeps.sweep import Axis, Sweep, SweepStep, settings, with_numbers
from dpviz.sweeps.sweep_result import SweepResult, log_law, power_law

BENCH = Quadratic(rows=1000, dimension=2)
GAP = "objective_gap"


def arms(**algorithms: Algorithm) -> tuple[Arm, ...]:
    return tuple(Arm(label=label, algorithm=algorithm) for label, algorithm in algorithms.items())


BASE = Experiment(problem=BENCH, arms=arms(a=Nesterov(iterations=5), b=Nesterov(iterations=8)), replicates=3)
DIMENSIONS = Sweep(experiment=BASE, fields=("problem.dimension",), values=(2.0, 4.0, 8.0), metric=GAP)
GAME = Experiment(
    problem=MatrixGame(data=LatentGame(rows=200)),
    arms=arms(sampling=VertexSampling(iterations=4), noisy=NoisyPayoffs()),
    budget=ApproximateDP(epsilon=1.0, delta=1e-6),
    replicates=2,
)

SEVERAL = Sweep(
    experiment=GAME,
    fields=("problem.data.strategies_x",),
    values=(10, 30, 100),
    metric="duality_gap",
    data_seed="problem.data.seed",
    data_seeds=(4, 0, 9),
)


class Scripted(Algorithm[Problem, Facts]):
    """Shows the same iterate at each of three iterations, or what happens at a number of dimensions."""

    title = "Scripted"
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("told", "What was told", released=True),)
    happens: str = ""
    dimension: int = 4

    def plan(self, facts: Facts, budget: Budget) -> Plan:
        if self.happens == "no plan" and facts.d == self.dimension:
            raise UserError("It has no plan here.")
        events = Nesterov(iterations=2).plan(BENCH.facts(), NoPrivacy()).events
        return Plan.fixed(facts, budget, events, batch_size=np.ones(2))

    def run(self, problem: Problem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        replicates, here = mechanisms.replicates, problem.facts.d == self.dimension
        for t in range(3):
            if t:
                mechanisms.batch(plan.events[t - 1])
            if t == 1 and here and self.happens == "mistake":
                raise UserError("Choose fewer.", title="The table is too large")
            told = np.full(replicates, float(problem.facts.d))
            if t == 2 and here and self.happens in ("nan", "infinite"):
                told[0] = math.nan if self.happens == "nan" else math.inf
            if here and self.happens == "never a number":
                told[:] = math.nan
            lost = here and self.happens == "nan"
            status = ("diverged" if lost else "running",) + ("running",) * (replicates - 1)
            yield Snapshot(t, {"x": np.ones((replicates, problem.facts.d))}, {"told": told}, status=status)


def scripted(happens: str, **others: Algorithm) -> Sweep:
    of = BASE.replaced(arms=arms(told=Scripted(happens=happens), **others), budget=NoPrivacy())
    return DIMENSIONS.replaced(experiment=of, metric="told")


def told(sweep: Sweep, on_progress: Callable[[SweepStep], object]) -> None:
    """Run a sweep to its end, telling of every advance."""
    for _ in sweep.stream(on_progress=on_progress):
        pass


# ---------------------------------------------------------------------------------------------------------- points


def test_the_value_goes_to_every_address_and_integers_stay_integers() -> None:
    addresses = ("problem.data.strategies_x", "problem.data.strategies_y", "arms.0.algorithm.iterations")
    sweep = Sweep(experiment=GAME, fields=addresses, values=(30, 10), metric="duality_gap")
    assert sweep.values == (10.0, 30.0), "in ascending order"
    for value, point in zip((10, 30), sweep.points(), strict=True):
        data, iterations = point.problem.data, point.arms[0].algorithm.iterations  # type: ignore[attr-defined]
        for number in (data.strategies_x, data.strategies_y, iterations):
            assert number == value and isinstance(number, int)
        assert point.arms[1] == GAME.arms[1] and point.seed == GAME.seed


def test_numbers_of_the_experiment_itself_and_of_its_budget_can_be_varied() -> None:
    of = Sweep(experiment=BASE, fields=("budget.epsilon",), values=(0.5, 2), metric=GAP)
    assert [point.budget for point in of.points()] == [PureDP(epsilon=0.5), PureDP(epsilon=2.0)]
    for name in ("seed", "replicates"):
        of = Sweep(experiment=BASE, fields=(name,), values=(3, 4), metric=GAP)
        assert [getattr(point, name) for point in of.points()] == [3, 4]


@pytest.mark.parametrize(
    ("address", "value", "sentence"),
    [
        (
            "problem.dimension",
            2e6,
            "At the value 2,000,000: Parameters must be a whole number between 1 and 1,000,000 (",
        ),
        ("problem.dimension", 2.5, "At the value 2.5: Parameters must be a whole number."),
        ("budget.epsilon", -1, "At the value -1: "),
        ("problem.colour", 3, "'colour' is not a number"),
        ("problem.spacing", 3, "'spacing' is not a number"),
        ("problem", 3, "'problem' is not a number"),
        ("arms.7.algorithm.iterations", 3, "'7' is not a number"),
        ("arms.0", 3, "'0' is not a number"),
        ("arms.00.algorithm.iterations", 3, "'00' is not a number"),
        ("arms.first.algorithm.iterations", 3, "'first' is not a number"),
        ("arms.0.budget.epsilon", 1, "'epsilon' is not a number"),
        ("problem.dimension.more", 3, "'more' is not a number"),
        ("problem.__class__.kind", 3, "'__class__' is not a number"),
        ("", 3, "'' is not a number"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(address: str, value: float, sentence: str) -> None:
    sweep = Sweep(experiment=BASE, fields=(address,), values=(value,), metric=GAP)
    with pytest.raises(UserError) as caught:
        sweep.points()
    assert sentence in str(caught.value) and str(caught.value).endswith((".", ")"))


@pytest.mark.parametrize("values", [(), (1, 1), (math.nan,), (math.inf,)])
def test_values_are_numbers_at_least_one_and_all_different(values: tuple[float, ...]) -> None:
    with pytest.raises(UserError):
        DIMENSIONS.replaced(values=values)


@pytest.mark.slow
def test_an_arm_without_a_plan_is_left_out_where_it_has_none() -> None:
    sweep = Sweep(
        experiment=GAME.replaced(arms=arms(all=VertexSampling(), blocks=VertexSampling(batching="single"))),
        fields=("arms.0.algorithm.iterations", "arms.1.algorithm.iterations"),
        values=(8, 500),
        metric="duality_gap",
    )
    few, many = sweep.planned()
    assert few.left_out == {} and list(few.plans) == ["all", "blocks"]
    assert list(many.plans) == ["all"] and many.left_out["blocks"].endswith(".") and 0 < few.steps < many.steps
    result = sweep.run()
    assert result.series("all")[0].tolist() == [8, 500] and result.series("blocks")[0].tolist() == [8]
    assert [(item.key.value, item.label) for item in result.left_out] == [(500, "blocks")]


def test_a_value_at_which_no_method_has_a_plan_takes_no_results_of_others() -> None:
    result = scripted("no plan", other=Scripted(happens="no plan")).run()
    for label in ("told", "other"):
        values, samples = result.series(label)
        assert values.tolist() == [2, 8] and [found.tolist() for found in samples] == [[2.0] * 3, [8.0] * 3]
    assert {(item.key.value, item.label) for item in result.left_out} == {(4, "told"), (4, "other")}


def test_without_any_plan_there_is_no_sweep() -> None:
    of = BASE.replaced(arms=arms(a=VertexSampling()))
    with pytest.raises(UserError, match="another problem"):
        DIMENSIONS.replaced(experiment=of).planned()


# ---------------------------------------------------------------------------------------------------------- running


def test_the_outcome_is_that_of_each_experiment_by_itself() -> None:
    result = DIMENSIONS.run()
    for label in ("a", "b"):
        values, samples = result.series(label)
        assert values.tolist() == [2, 4, 8]
        for point, found in zip(DIMENSIONS.points(), samples, strict=True):
            np.testing.assert_array_equal(found, point.run().last(label, GAP))
        np.testing.assert_array_equal(result.medians(label)[1], [np.median(found) for found in samples])
    assert result.metric is not None and result.metric.name == GAP and result.left_out == []


def test_progress_rises_to_one_and_points_come_one_after_the_other() -> None:
    steps: list[tuple[float, float, int]] = []
    told(DIMENSIONS, lambda step: steps.append((step.value, step.progress, step.result.finished)))
    values, progress, finished = zip(*steps, strict=True)
    assert all(a <= b for a, b in pairwise(progress)) and 0 < progress[0] < 0.5 and progress[-1] == 1.0
    assert sorted(values) == list(values) and set(finished) == {0, 1, 2, 3}
    assert progress[finished.index(1)] == pytest.approx(1 / 3), "of three points with equal steps"


def test_a_stop_in_the_middle_keeps_the_points_that_are_finished() -> None:
    stopping = threading.Event()
    steps = DIMENSIONS.stream(stopping=stopping, on_progress=lambda step: stopping.set() if step.value == 4.0 else None)
    *_, step = steps
    assert step.result.finished == 1 and step.result.points == 3
    assert step.result.series("a")[0].tolist() == [2] and set(step.result.to_frame()["setting"]) == {2.0}
    assert step.result.cut == "stopped" and step.progress < 1
    assert "# 1 of 3 points are finished\n" in sweep_to_csv(step.result, DIMENSIONS)


def test_closing_the_stream_stops_what_runs() -> None:
    stopping = threading.Event()
    steps = DIMENSIONS.stream(stopping=stopping)
    result = next(steps).result
    assert not stopping.is_set()
    steps.close()  # type: ignore[attr-defined]
    assert stopping.is_set() and result.finished == 1 and result.cut == "stopped"


def test_what_is_shown_of_a_sweep_under_way_does_not_grow_while_it_is_drawn() -> None:
    steps = DIMENSIONS.stream()
    view = next(steps).result.visible(True)
    first = view.to_frame()
    assert [*steps][-1].result.finished == 3
    assert view.finished == 1 and view.to_frame().equals(first) and len(first) > 0


def test_the_table_is_tidy() -> None:
    frame = DIMENSIONS.run().to_frame()
    assert list(frame.columns) == ["algorithm", "data_seed", "replicate", "setting", "metric", "value", "released"]
    assert len(frame) == 2 * 3 * 3 and frame.groupby(["algorithm", "setting"]).size().eq(3).all()
    assert not frame["released"].any() and set(frame["metric"]) == {GAP} and frame["value"].notna().all()
    assert SweepResult(BASE.arms, GAP, 3).to_frame().empty


def test_nothing_of_an_arm_without_privacy_is_released_whatever_its_metric_says() -> None:
    of = (Arm(label="private", algorithm=Nesterov(iterations=5)),)
    free = Arm(label="free", algorithm=Nesterov(iterations=5), budget=NoPrivacy())
    sweep = DIMENSIONS.replaced(experiment=BASE.replaced(arms=(*of, free)), metric="distance")
    result = sweep.run()
    frame = result.to_frame()
    assert result.metric is not None and result.metric.released
    assert frame[frame["algorithm"] == "private"]["released"].all()
    assert not frame[frame["algorithm"] == "free"]["released"].any()
    assert [[*result.visible(every).curves] for every in (False, True)] == [["private"], ["private", "free"]]
    seen = result.visible(False).to_frame()
    assert set(seen["algorithm"]) == {"private"} and len(seen) == len(frame) / 2
    assert DIMENSIONS.run().visible(False).to_frame().empty, "the gap reads the data"


def test_of_somebodys_own_file_a_sweep_follows_and_draws_what_is_released() -> None:
    data = UploadedTable(identity="b" * 32, n=40, bounds=((0.0, 1.0),), names=("a",))
    own = BASE.replaced(problem=LogisticRegression(data=data), seed=None)
    tables = {data.identity: np.column_stack([np.linspace(0, 1, 40), [1.0, -1.0] * 20])}
    sweep = Sweep(experiment=own, fields=("budget.epsilon",), values=(1.0, 2.0))
    assert own.metrics()[sweep.metric].released
    raw = sweep.replaced(metric="objective").run(tables)
    with pytest.raises(UserError, match="release no series"):
        raw.figure()
    assert any("not private" in note.text for note in raw.figure(diagnostics=True).layout.annotations)


def test_a_diverged_run_counts_with_its_last_number_and_infinity_is_a_number() -> None:
    result = scripted("nan").run()
    assert [found.tolist() for found in result.series("told")[1]] == [[2.0] * 3, [4.0] * 3, [8.0] * 3]
    assert scripted("infinite").run().series("told")[1][1].tolist() == [1e300, 4.0, 4.0]


@pytest.mark.parametrize(
    ("happens", "reason"), [("mistake", "The table is too large."), ("never a number", "delivered no numbers")]
)
def test_an_arm_that_fails_at_one_point_is_left_out_there_and_the_others_are_not(happens: str, reason: str) -> None:
    steps: list[SweepStep] = []
    told(scripted(happens, other=Scripted()), steps.append)
    result = steps[-1].result
    assert result.series("told")[0].tolist() == [2, 8] and result.series("other")[0].tolist() == [2, 4, 8]
    (item,) = result.left_out
    assert (item.key.value, item.label) == (4.0, "told") and reason in item.reason
    assert result.visible(False).left_out == ([] if item.raw else [item]) and item.raw == (happens != "mistake")
    assert all(a.progress <= b.progress for a, b in pairwise(steps)) and steps[-1].progress == 1.0


def test_a_method_that_does_not_record_the_metric_is_left_out() -> None:
    result = scripted("", plain=Nesterov(iterations=2)).run()
    assert {(item.label, item.reason) for item in result.left_out} == {
        ("plain", "This method does not record the quantity.")
    }
    assert result.series("plain")[1] == [] and result.medians("plain")[1].size == 0


def test_a_metric_that_nobody_records_is_a_mistake_at_once() -> None:
    nothing: Any = None  # runs nothing
    with pytest.raises(UserError, match=r"no metric 'beauty' here\. There are: objective_gap"):
        next(DIMENSIONS.replaced(metric="beauty").stream(executor=nothing))


@pytest.mark.parametrize(("name", "annotation"), [("unsaid", None), ("vague", SmoothProblem)])
def test_a_problem_of_ones_own_may_record_more_than_its_annotation_says(name: str, annotation: type | None) -> None:
    class Own(Quadratic):  # here, so that it is none of the classes of which other tests go through all
        """A quadratic whose class says less of what it builds."""

        kind = f"mine.{name}"

        def build(self, tables=NO_TABLES):  # type: ignore[no-untyped-def]
            return super().build(tables)

        if annotation is not None:
            build.__annotations__["return"] = annotation

    sweep = DIMENSIONS.replaced(experiment=BASE.replaced(problem=Own()))
    result = sweep.replaced(metric="objective_gap").run()
    assert result.metric is not None and result.series(BASE.arms[0].label)[0].size
    with pytest.raises(UserError, match=r"no metric 'beauty' here\. There are: objective_gap"):
        sweep.replaced(metric="beauty").run()


# ------------------------------------------------------------------------------------------------- several data sets


def test_every_value_is_taken_on_every_data_set_and_they_have_the_same_plans() -> None:
    points = SEVERAL.points()
    assert Sweep.from_json(SEVERAL.to_json()) == SEVERAL and SEVERAL.data_sets == 3
    assert [(point.problem.data.seed, point.problem.data.strategies_x) for point in points] == [  # type: ignore[attr-defined]
        (seed, value) for seed in (4, 0, 9) for value in (10, 30, 100)
    ]
    planned = SEVERAL.planned()
    assert [(point.data_seed, point.value) for point in planned] == [(s, v) for s in (4, 0, 9) for v in (10, 30, 100)]
    assert [point.experiment for point in planned] == list(points)
    for number, point in enumerate(planned):
        assert point.plans == planned[number % 3].plans


@pytest.mark.slow
def test_the_outcome_is_kept_for_each_data_set() -> None:
    result = SEVERAL.run()
    curve = result.curves["sampling"]
    assert curve.values == [10, 30, 100] * 3 and curve.data_seeds == [4] * 3 + [0] * 3 + [9] * 3
    for point, found in zip(SEVERAL.points(), curve.samples, strict=True):
        np.testing.assert_array_equal(found, point.run().last("sampling", "duality_gap"))
    assert not np.array_equal(curve.samples[0], curve.samples[3]), "another data set, another outcome"
    values, samples = result.series("sampling")
    assert values.tolist() == [10, 30, 100]
    for number, found in enumerate(samples):
        np.testing.assert_array_equal(found, np.concatenate([curve.samples[number + 3 * k] for k in range(3)]))
    frame = result.to_frame()
    assert len(frame) == 2 * 9 * 2 and frame.groupby(["algorithm", "data_seed"])["setting"].nunique().eq(3).all()


@pytest.mark.slow
def test_laws_and_orders_are_those_of_the_data_sets_by_themselves() -> None:
    result = SEVERAL.run()
    curve = result.curves["sampling"]
    data_sets = [curve.samples[3 * k : 3 * k + 3] for k in range(3)]
    assert result.laws("sampling") == tuple(
        law(np.array([10.0, 30.0, 100.0]), *data_sets) for law in (power_law, log_law)
    )
    assert sum(order.data_sets for order in result.orders("sampling", "noisy")) == 3


@pytest.mark.slow
def test_a_data_set_under_way_counts_when_it_is_complete_and_the_first_one_at_once() -> None:
    seen = {}

    def look(step: SweepStep) -> None:
        if step.result.finished not in seen:
            orders = step.result.orders("sampling", "noisy")
            power, _ = step.result.laws("sampling")
            seen[step.result.finished] = sum(order.data_sets for order in orders), power

    told(SEVERAL, look)
    assert {finished: sets for finished, (sets, _) in seen.items()} == {
        0: 0, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 2, 7: 2, 8: 2, 9: 3
    }  # fmt: skip
    assert seen[1][1] is None and seen[2][1] is not None and seen[3][1] == seen[5][1] != seen[6][1]


@pytest.mark.slow
def test_a_method_without_a_plan_is_left_out_once_and_not_once_per_data_set() -> None:
    of = SEVERAL.replaced(
        experiment=GAME.replaced(arms=arms(all=VertexSampling(), blocks=VertexSampling(batching="single"))),
        fields=("arms.0.algorithm.iterations", "arms.1.algorithm.iterations"),
        values=(8, 500),
    )
    result = of.run()
    assert [(item.key.value, item.label) for item in result.left_out] == [(500, "blocks")]
    assert result.series("blocks")[0].tolist() == [8] and len(result.series("blocks")[1][0]) == 6


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"data_seed": "problem.data.colour"}, "'colour' is not a number"),
        ({"data_seeds": (-1, 3)}, "On the data set -1: Data seed must be"),
    ],
)
def test_data_sets_that_cannot_be_are_said_in_a_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        SEVERAL.replaced(**changes).planned()


@pytest.mark.parametrize("changes", [{"data_seeds": (1, 1)}, {"data_seed": ""}, {"data_seeds": ()}])
def test_data_sets_differ_and_come_with_the_address_of_their_seed(changes: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"seed of its own|address of their seed"):
        SEVERAL.replaced(**changes)


@pytest.mark.parametrize(
    ("replicates", "price"),
    [
        ({}, "4 releases, ε = 6 by adding up"),
        ({"replicates": 3}, "12 releases, ε = 18 by adding up; with 1 repeat ε = 6"),
    ],
)
def test_the_price_of_a_sweep_on_a_file_is_of_all_runs_that_it_makes(replicates: dict[str, int], price: str) -> None:
    data = UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("a",))
    tables = {data.identity: np.column_stack([np.linspace(0, 1, 40), np.tile([-1.0, 1.0], 20)])}
    experiment = Experiment(LogisticRegression(data=data), BASE.arms, epsilon=2, **replicates)
    sweep = Sweep(experiment, epsilon=(1.0, 2.0), metric="distance")
    result = sweep.run(tables)
    releases = len(result.to_frame())  # a row for each run of each method at each value
    assert sweep.price() == result.price == price and price.startswith(f"{releases} releases")
    assert not sweep.condition and sweep.replaced(data_seed="seed", data_seeds=(0, 1)).condition.seeded
    for view in (result, result.visible(False)):
        assert view.price == price
    assert price in displayed.chart(result, False).caption and price in sweep_to_csv(result, sweep)
    steps = sweep.replaced(second=Axis(fields=("arms.0.algorithm.iterations",), values=(2.0, 3.0))).run(tables)
    assert [steps.at(second).price for second in steps.second] == [price] * 2 != [steps.price] * 2
    assert DIMENSIONS.price() == DIMENSIONS.run().price == "", "of public data nothing is paid"
    assert "ublishing" not in displayed.chart(DIMENSIONS.run(), False).caption


def test_every_address_of_a_number_is_one_that_a_sweep_takes() -> None:
    experiment = Experiment(LogisticRegression(), [Nesterov(iterations=3), HeavyBall(iterations=3)], epsilon=1)
    values = experiment.settings()
    assert values["arms.1.algorithm.iterations"] == 3 and values["budget.epsilon"] == 1.0
    for setting in settings(experiment).values():
        for address in setting.fields:
            assert with_numbers(experiment, [(address.split("."), values[address])]) == experiment
    with pytest.raises(UserError, match=r"'budget\.epsilon'"):
        values["budget.eps"]
