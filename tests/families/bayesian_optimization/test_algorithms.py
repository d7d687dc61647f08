"""DP-GIBO and what it is compared with: plans, points, and where runs get. Values: THEORY.md, sections 5 and 9."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dpviz.datasets.synthetic import NormalDraws, ProcessDraws
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.bayesian_optimization import Gibo, GlobalSearch, GradientDescent, Placing, RandomSearch, Surrogate
from dpviz.families.bayesian_optimization.algorithms import Walk
from dpviz.families.bayesian_optimization.forecast import advice
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.budgets import ApproximateDP, Budget, GaussianDP, NoPrivacy, PureDP
from dpviz.privacy.events import ExpMech, Gaussian, Laplace
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.tuning.model_tuning import KernelMachine, LengthScales, NormalLocation
from dpviz.problems.tuning.tuning import TuningProblem
from tests.families.test_mutants import Waves

MU = GaussianDP(mu=1.0)
EXACT = Surrogate(kernel="quadratic", relative_noise=1e-10)


def snapshots(method: Any, problem: TuningProblem, budget: Budget = MU, replicates: int = 8) -> Iterator[Snapshot]:
    plan = method.plan(problem.facts, budget)
    yield from method.run(problem, plan, Mechanisms(Ledger(plan.terms, replicates), 3))


def last(
    method: Any, problem: TuningProblem, budget: Budget = MU, replicates: int = 8
) -> tuple[np.ndarray, np.ndarray]:
    """Final objectives (R,) and trainings (R,)."""
    *_, end = snapshots(method, problem, budget, replicates)
    return problem.evaluate(end.output)["objective"], end.released["trainings"]


def test_the_plan_of_the_default() -> None:
    facts = LengthScales().facts()
    method = Gibo()
    plan = method.plan(facts, MU)
    assert set(plan.events) == {Gaussian(1 / math.sqrt(30))} and len(plan.events) == 30
    assert plan.noise["gradient"] == pytest.approx(np.full(30, 0.010954451), rel=1e-7)
    assert plan.spent("mu")[[1, 10]] == pytest.approx([0.182574, 0.577350], abs=1e-6)
    assert [closed_forms.gdp_epsilon(mu, 1e-5) for mu in (0.182574, 0.577350)] == pytest.approx(
        [0.656722, 2.341427], abs=2e-5
    )
    resolved = {"first_batch": 11, "window": 100, "relative_noise": 1e-6, "expected_trainings": 202.4}
    assert dict(plan.resolved) == pytest.approx(resolved)
    assert plan.notes == () and not plan.stops
    approximate = method.plan(facts, ApproximateDP(epsilon=1.0, delta=1e-5))
    assert accountants.total(approximate.events, "mu") == pytest.approx(0.268051, abs=1e-6)
    with pytest.raises(UserError):
        method.plan(facts, PureDP(epsilon=1.0))
    (choice,) = RandomSearch().plan(facts, MU).events
    assert isinstance(choice, ExpMech) and choice.eta == pytest.approx(1.613931, abs=4e-6)
    assert RandomSearch().plan(facts, NoPrivacy()).events == (Laplace(math.inf),)
    values = GlobalSearch().plan(facts, MU)
    assert values.noise["loss"][0] == pytest.approx(4 * math.sqrt(175) / 500, rel=1e-9)


def test_the_advised_bias_level_follows_the_noise() -> None:
    facts, method = LengthScales().facts(), Gibo()
    found = [advice(facts, GaussianDP(mu=mu), method) for mu in (10.0, 1.0, 0.3, 0.1)]
    assert [one.level for one in found] == pytest.approx([0.02, 0.02, 0.05333, 0.2], rel=1e-3)
    assert [one.is_noise_long for one in found] == [False, False, False, True]
    bias = {row.level: (row.batch, row.bias, row.trainings) for row in found[2].rows}
    expected = [bias[one][2] for one in (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)]
    assert expected == pytest.approx([36, 72, 104, 138, 202, 294], abs=1)
    assert all(0.6 < one / taken < 1.6 for one, taken in zip(expected, (24, 58, 89, 118, 166, 218), strict=True))
    assert bias[0.02] == (11, pytest.approx(0.5 * math.sqrt(0.02)), pytest.approx(202.4))
    level = bias[found[2].level]
    assert level[1] == pytest.approx(found[2].noise_length, rel=1e-9)
    assert advice(facts, NoPrivacy(), method).level == 0.02
    assert [one.balance for one in found] == pytest.approx([4.8e-5, 4.8e-3, 0.05333, 0.48], rel=1e-3)
    at_default = {row.level: row.bias for row in found[1].rows}
    assert at_default[0.02] == pytest.approx(0.0707, abs=1e-4) and found[1].noise_length == pytest.approx(
        0.0346, abs=1e-4
    )


@pytest.mark.parametrize(
    ("method", "d"),
    [
        (Gibo(bias_level=0.1, surrogate=Surrogate(relative_noise=1.0)), 3),  # no batch is enough, at no step
        (Gibo(bias_level=0.1, surrogate=Surrogate(kernel="matern", relative_noise=1.0)), 3),
        (Gibo(surrogate=EXACT, placing=Placing(window=2.0)), 5),  # old evaluations leave before all 21 are there
    ],
    ids=["noise", "noise and a rougher process", "a short memory"],
)
def test_as_many_trainings_are_expected_as_are_taken_where_history_does_not_help(method: Gibo, d: int) -> None:
    problem = NormalLocation(data=NormalDraws(rows=100, dimension=d)).build()
    expected = method.plan(problem.facts, MU).resolved["expected_trainings"]
    taken = float(last(method, problem, replicates=2)[1].mean())
    assert 0.4 < expected / taken < 2.5, (expected, taken)


def test_central_differences_and_fixed_batches_count_their_trainings() -> None:
    for method, each in (
        (Gibo(iterations=3, placing=Placing(design="central")), 4),
        (Gibo(iterations=3, batch_size=3), 3),
        (Gibo(iterations=3, placing=Placing(min_points=2), bias_level=0.95), 2),
    ):
        found = [snapshot.released for snapshot in snapshots(method, Waves(), replicates=2)]
        assert found[-1]["trainings"].tolist() == [3 * each] * 2
        assert [one["batch_size"].tolist() for one in found[1:]] == [[each] * 2] * 3


@pytest.mark.parametrize("budget", [NoPrivacy(), MU], ids=["none", "private"])
@pytest.mark.parametrize("always", [True, False])
def test_only_a_run_without_privacy_may_go_without_a_clip(budget: Budget, always: bool) -> None:
    problem = NormalLocation(data=NormalDraws(rows=200)).build()
    settings: dict[str, Any] = {"iterations": 2, "clip": 0.01, "clip_always": always}
    for method in (Gibo(surrogate=EXACT, placing=Placing(nearest=1.0), **settings), GradientDescent(**settings)):
        _, first, _ = snapshots(method, problem, budget, replicates=2)
        found = problem.evaluate(first.internal)
        free = not always and not budget.private
        assert found["clipped_share"].tolist() == [float(not free)] * 2
        assert (found["gradient_error"] < 1.0).all() == free == (found["gradient_norm"] > 0.02).all()


@pytest.mark.slow
def test_normal_location_takes_six_evaluations_and_ends_at_the_predicted_distance() -> None:
    problem = NormalLocation().build()
    settings: dict[str, Any] = {"iterations": 50, "clip": 5.0, "step_size": 0.2, "rule": "sgd", "bias_level": 0.005}
    method = Gibo(**settings, surrogate=EXACT, placing=Placing(nearest=1.0))
    for budget, sigma in ((GaussianDP(mu=0.2), 0.3536), (MU, 0.0707)):
        steps = list(snapshots(method, problem, budget, 20))
        assert steps[-1].released["trainings"].tolist() == [6.0] * 20
        distances = np.array([problem.evaluate(step.output)["distance"] for step in steps[31:]])
        expected = math.sqrt(2 * 0.2 * sigma**2 / (2 - 0.2))
        # About 20 runs of 20 steps that forget by 0.8 each: 20 · 2 · 20/9 independent squares.
        assert (distances**2).mean() == pytest.approx(expected**2, rel=4 * math.sqrt(2 / 89))
    errors = problem.evaluate(steps[-1].internal)
    assert errors["gradient_error"].max() < 1e-4 and errors["clipped_share"].max() < 0.01


@pytest.mark.slow
def test_default_losses_are_those_of_the_published_distribution() -> None:
    """Means over 20 replicates within 4 standard errors, on both sides; so do the numbers of trainings."""
    problem, count = LengthScales().build(), 20
    for budget, loss, spread, trainings, wide in (
        (NoPrivacy(), 0.0904, 0.0012, 113, 18),
        (MU, 0.0913, 0.0014, 165, 17),
        (GaussianDP(mu=0.1), 0.193, 0.062, 215, 14),
    ):
        losses, used = last(Gibo(), problem, budget, count)
        assert losses.mean() == pytest.approx(
            loss, abs=4 * math.hypot(spread / math.sqrt(20), losses.std() / math.sqrt(count))
        )
        assert used.mean() == pytest.approx(
            trainings, abs=4 * math.hypot(wide / math.sqrt(20), used.std() / math.sqrt(count))
        )
    searched, tried = last(RandomSearch(), problem, MU, count)
    assert searched.mean() == pytest.approx(
        0.175, abs=4 * math.hypot(0.026 / math.sqrt(20), searched.std() / math.sqrt(count))
    )
    assert searched.mean() > 0.13 and tried.tolist() == [175.0] * count


def started(of: Experiment) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Of each arm where its repeats begin (R, d), and where they end."""
    first: dict[str, np.ndarray] = {}
    for step in of.stream():
        first.setdefault(step.label, step.snapshot.output["x"])
    return {label: (first[label], step.trace.arm_traces[label].output["x"]) for label in first}


def test_all_methods_begin_where_the_others_do_and_search_the_same_settings() -> None:
    """Else which method ends lower is chance: a start decides more than the noise at a hundred settings."""
    data = ProcessDraws(rows=100, dimension=2)
    problem = LengthScales(data=data, training_rows=20, validation_users=40)
    arms = (
        Arm(label="steps", algorithm=Gibo(iterations=2)),
        Arm(label="reference", algorithm=Gibo(iterations=3), budget=NoPrivacy()),
        Arm(label="global", algorithm=GlobalSearch(trainings=2)),
        Arm(label="private", algorithm=RandomSearch(trainings=2)),
        Arm(label="best", algorithm=RandomSearch(trainings=2), budget=NoPrivacy()),
        Arm(label="best of more", algorithm=RandomSearch(trainings=3), budget=NoPrivacy()),
    )
    of = Experiment(problem=problem, arms=arms, budget=MU, replicates=3)
    found = started(of)
    for begin, _ in found.values():
        assert np.array_equal(begin, found["steps"][0])
    assert len(np.unique(found["steps"][0])) == 6, "every repeat its own"
    for other in ("private", "best of more"):  # one or the other of the same settings
        assert np.isin(found[other][1], found["best"][1]).all(axis=1).any()
    fewer = started(of.replaced(arms=arms[:1], budget=GaussianDP(mu=2.0), replicates=2))["steps"][0]
    assert np.array_equal(fewer, found["steps"][0][:2]), "nor do they hang on the budget or the number of repeats"
    for change in ({"seed": 1}, {"problem": problem.replaced(validation_users=41)}):
        assert not np.isin(started(of.replaced(**change))["steps"][0], found["steps"][0]).any()


def test_steps_of_adagrad_follow_all_gradients_so_far_and_plain_ones_the_last() -> None:
    """Against gradients 2 and 2, then 1: AdaGrad moves by η, η/√2 and η/√(4 + 4 + 1), plain steps by η times each."""
    facts = LengthScales().facts()
    for rule, moves in (("adagrad", (1.0, 1 / math.sqrt(2), 1 / 3)), ("sgd", (2.0, 2.0, 1.0))):
        walk = Walk(facts, Mechanisms(Ledger(FixedEvents(()), 3), 0), rule)  # type: ignore[arg-type]
        walk.x = np.full_like(walk.x, (walk.low + walk.high) / 2)
        for size, move in zip((2.0, 2.0, 1.0), moves, strict=True):
            before = walk.x
            walk.step(np.full_like(before, size), 1e-3)
            np.testing.assert_allclose(before - walk.x, 1e-3 * move, rtol=1e-6)


def test_a_share_of_the_budget_is_a_share_of_its_mu_in_every_currency() -> None:
    facts = LengthScales().facts()
    for budget in (MU, ApproximateDP(epsilon=1.0, delta=1e-5)):
        whole, fifth = (accountants.total(Gibo(share=share).plan(facts, budget).events, "mu") for share in (1.0, 0.2))
        assert fifth == pytest.approx(0.2 * whole, rel=1e-12)
        assert GradientDescent(share=0.2).plan(facts, budget).events == Gibo(share=0.2).plan(facts, budget).events
    assert Gibo(share=0.2).plan(facts, NoPrivacy()).events == Gibo().plan(facts, NoPrivacy()).events


def test_the_noise_that_is_assumed_is_a_multiple_of_what_is_declared() -> None:
    facts = LengthScales(observation_sd=0.5).facts()
    for factor, stated, assumed in ((1.0, None, 0.25), (3.0, None, 2.25), (0.1, None, 0.0025), (0.1, 4.0, 0.04)):
        method = Gibo(noise_factor=factor, surrogate=Surrogate(relative_noise=stated))
        assert method.plan(facts, MU).resolved["relative_noise"] == pytest.approx(assumed)
    quiet = Gibo(noise_factor=0.001).plan(LengthScales().facts(), MU)
    assert quiet.resolved["relative_noise"] == 1e-6, "as much as is assumed of exact evaluations, for rounding"
    assert Gibo().released_settings() == Gibo(share=1.0, noise_factor=1.0).settings_without(("share", "noise_factor"))


@pytest.mark.slow
def test_noise_that_all_users_share_does_not_average_out() -> None:
    """Erratum E12: 0.279 (0.015) against 0.093 (0.001), means of 20 runs; of 10 others within 4 standard errors."""
    method = Gibo(batch_size=10, placing=Placing(nearest=0.1))
    for kind, mean, error in (("own", 0.093, 0.001), ("shared", 0.279, 0.015)):
        losses, _ = last(method, LengthScales(observation_sd=0.1, observation=kind).build(), MU, 10)
        own = losses.std(ddof=1) / math.sqrt(10)
        assert losses.mean() == pytest.approx(mean, abs=4 * math.hypot(error, own))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ridge", "svr"])
def test_many_settings_are_tuned_better_by_gradients_than_by_trying_as_many_at_random(model: Any) -> None:
    """d = 103, 500 trainings of each, μ = 1, 5 runs of each: of 25 pairs at most two the other way round, which methods
    that are alike would reach with probability 4/252 (Mann and Whitney)."""
    problem = KernelMachine(model=model, training_rows=150).build()
    method = Gibo(
        iterations=25,
        clip=0.3,
        step_size=0.5,
        batch_size=20,
        surrogate=Surrogate(length_scale=3.0),
        placing=Placing(window=2.0),
    )
    losses, trainings = last(method, problem, MU, 5)
    searched, tried = last(RandomSearch(trainings=500), problem, MU, 5)
    assert trainings.tolist() == tried.tolist() == [500.0] * 5
    assert np.median(losses) < np.median(searched) - 0.05 and (losses[:, None] > searched).sum() <= 2
