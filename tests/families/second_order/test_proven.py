"""What is called proven: the noise of line searches, constants that do not follow from the loss, certificates."""

import math

import numpy as np
import pytest

from dpviz.datasets import CovertypeLike
from dpviz.experiments.experiment import Experiment
from dpviz.experiments.preset import Preset
from dpviz.families.second_order import LineSearch, ShortStep, advice, planning, presets
from dpviz.families.second_order.advice import Forecast
from dpviz.families.second_order.methods.algorithms import CERTIFICATE_FAILURE, NonconvexMethod
from dpviz.families.second_order.methods.steps import Certificate
from dpviz.families.second_order.theory import SearchNoise, search_quantile
from dpviz.privacy.budgets import ApproximateDP
from dpviz.privacy.events import StatedPureDP
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.nonconvex.nonconvex import LogisticTukey, NonconvexModel, RobustComponent, SigmoidTukey

USUAL = ApproximateDP(epsilon=1.0, delta=1e-5)


def last(method: NonconvexMethod, problem: NonconvexModel, label: str = "A") -> Forecast:
    return advice.phase_forecasts(label, method, method.plan(problem.facts(), USUAL))[-1]


def accepted(search_noise: SearchNoise, below: float, searches: int, runs: int) -> np.ndarray:
    """(runs, searches) bool: whether a search accepts a candidate, where all of them are so much below the threshold,
    per length of the direction."""
    event = StatedPureDP(search_noise.epsilon)
    mechanisms = Mechanisms(Ledger(FixedEvents((event,) * searches), runs), 0)
    values = np.full((runs, search_noise.candidates), -below)
    query = Query(values, search_noise.sensitivity, "linf")
    return np.column_stack([mechanisms.above_threshold(query, event) >= 0 for _ in range(searches)])


@pytest.mark.slow
@pytest.mark.parametrize("failure", [0.01, 0.1])
@pytest.mark.parametrize("candidates", [1, 6])
def test_the_noise_of_a_search_is_beyond_its_quantile_as_rarely_as_said(candidates: int, failure: float) -> None:
    """40,000 searches: four standard errors. With one candidate it is exact; with six a union bound."""
    search_noise, runs = SearchNoise(0.3, 0.02, candidates, math.inf), 4000
    found = accepted(search_noise, search_noise.error(failure), 10, runs).mean()
    error = 4 * math.sqrt(failure / (10 * runs))
    assert found <= failure + error and found >= (failure if candidates == 1 else failure / 4) - error
    assert search_noise.error(failure) == pytest.approx(0.02 / 0.3 * search_quantile(candidates, failure))


@pytest.mark.slow
def test_at_the_rows_that_are_proven_a_search_hardly_ever_breaks_the_promised_decrease() -> None:
    """All candidates take off just less than a step is sure to, in all searches: at the rows that the other conditions
    ask for one search in five accepts one; at those that are proven, one run in sixty has such a search."""
    method, facts = LineSearch(search_share=0.05), RobustComponent().facts()
    plan = method.plan(facts, USUAL)
    found, analysis = advice.phase_forecasts("A", method, plan)[-1], method.analysis(facts)
    conditions, noise = advice.guarantee(analysis, found.stopping, method, plan), method.search_noise(plan)
    others = max(
        conditions.gradient_error / conditions.allowed_gradient_error,
        conditions.hessian_error / conditions.allowed_hessian_error,
    )
    assert conditions.row_factor > others and found.rows_needed == pytest.approx(facts.n * conditions.row_factor)

    def at(factor: float) -> SearchNoise:
        return SearchNoise(noise.epsilon, noise.sensitivity / factor, noise.candidates, noise.allowed_error)

    assert accepted(at(others), noise.allowed_error, 1, 4000).mean() > 0.15
    runs, searches = 100, plan.iterations
    broken = accepted(at(conditions.row_factor), noise.allowed_error, searches, runs).any(axis=1).mean()
    assert broken <= advice.FAILURE / 3 + 4 * math.sqrt(advice.FAILURE / 3 / runs)


def released() -> LogisticTukey:
    random = LogisticTukey(data=CovertypeLike(rows=5000), start="random")
    return random.replaced(gap=advice.release_gap(random, 0.05, 0), gap_cost=0.05)


@pytest.mark.parametrize(
    ("method", "problem", "failure"),
    [
        (ShortStep(), RobustComponent(), 0.05),
        (ShortStep(phases="two"), RobustComponent(), 0.05),  # the first phase's releases may fail, too
        (ShortStep(certificate=True), RobustComponent(), 0.04),
        (ShortStep(), released(), 0.049),  # that of the gap may fail with 0.001
    ],
)
def test_all_that_may_fail_counts(method: ShortStep, problem: NonconvexModel, failure: float) -> None:
    plan, analysis = method.plan(problem.facts(), USUAL), method.analysis(problem.facts())
    stopping = planning.stopping_forecasts(analysis, "goe", plan)[-1]
    each = failure / (2 * plan.iterations)
    error = stopping.gradient_noise * (math.sqrt(problem.facts().d) + math.sqrt(2 * math.log(1 / each)))
    assert advice.guarantee(analysis, stopping, method, plan).gradient_error == pytest.approx(error)


TYPED = {"G": "smoothness", "M": "hessian_lipschitz", "Γ": "gap"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("symbol", TYPED)
@pytest.mark.parametrize(
    "problem", [LogisticTukey(), SigmoidTukey(), RobustComponent()], ids=lambda p: type(p).__name__
)
def test_nothing_that_rests_on_a_smaller_constant_is_green_or_proven(problem: NonconvexModel, symbol: str) -> None:
    name = TYPED[symbol]
    follows = getattr(problem.facts(), name)
    assert not problem.facts().assumed
    for factor, assumed in ((0.3, True), (0.999, True), (1.0, False), (1.2, False)):
        typed = problem.replaced(**{name: follows * factor})
        facts = typed.facts()
        assert [a.symbol for a in facts.assumed] == [symbol] * assumed
        for label, method in presets.METHODS.items():
            plan = method.plan(facts, USUAL)
            phases = advice.phase_forecasts(label, method, plan)
            lights = {(forecast.light, forecast.rows_needed is None) for forecast in phases}
            assert any(note.startswith("Assumed") for note in plan.notes) == assumed
            assert not assumed or not any(light == "green" or not unproven for light, unproven in lights)


def test_green_and_proven_are_still_said_where_they_are_so() -> None:
    found = last(ShortStep(), RobustComponent())
    assert found.light == "green" and found.rows_needed == pytest.approx(886_565, rel=1e-4)


def test_a_gap_that_was_released_is_no_assumption() -> None:
    found = released()
    assert found.facts().gap < found.replaced(gap=None, gap_cost=None).facts().gap and not found.facts().assumed
    assert last(ShortStep(), found).rows_needed is not None


@pytest.mark.parametrize("preset", presets.PRESETS, ids=lambda preset: preset.name)
def test_presets_of_assumed_constants_say_so(preset: Preset) -> None:
    experiment = preset.experiment
    assert isinstance(experiment, Experiment) and isinstance(experiment.problem, NonconvexModel)
    assumed = experiment.problem.facts().assumed
    assert bool(assumed) == ("paper's" in preset.name), "they have the authors' Γ = 0.5"
    if assumed:
        assert [a.symbol for a in assumed] == ["Γ"] and assumed[0].implied > 6
        for phases in advice.forecasts(experiment, experiment.plans()).values():
            assert not any(forecast.light == "green" or forecast.rows_needed is not None for forecast in phases)


@pytest.mark.slow
def test_however_often_a_certificate_is_asked_for_it_errs_in_one_run_of_a_hundred() -> None:
    """λ_min is just below the target, and each of 20,000 runs asks 100 times: within four standard errors of α, less
    the 1/101 of it that further questions would take. A margin for 5 % of each question stops nearly all of them."""
    runs, times, scale = 20_000, 100, 0.03
    rng, rows = np.random.default_rng(0), np.arange(runs)
    certificate = Certificate(np.full(times, scale), 0.2, CERTIFICATE_FAILURE)
    wrong = np.zeros(runs, dtype=bool)
    for t in range(1, times + 1):
        wrong |= -0.2 + scale * rng.standard_normal(runs) >= certificate.levels(t, rows)
    error = 4 * math.sqrt(CERTIFICATE_FAILURE / runs)
    assert wrong.mean() == pytest.approx(CERTIFICATE_FAILURE * times / (times + 1), abs=error)


def test_only_the_runs_that_ask_have_a_larger_margin_for_it() -> None:
    certificate = Certificate(np.ones(3), 0.0, 0.01)
    first = certificate.levels(1, np.array([0, 2]))
    second = certificate.levels(2, np.array([0, 1]))
    assert first[0] == first[1] == second[1] == pytest.approx(2.5758, abs=1e-4) and second[0] > first[0]
