"""All lessons: one control moves, the answers cover everything once, the run decides."""

import re
from math import inf, nan, nextafter

import numpy as np
import pytest
from scipy import stats

from dpviz.experiments.changes import changes
from dpviz.experiments.experiment import Experiment
from dpviz.families.accelerated.lessons import MOMENTUM
from dpviz.families.second_order.lessons import FLAT
from dpviz.lessons.lesson import Answer, BudgetSettings, Lesson, NoiseOfMeans, Side
from dpviz.plots import lesson_figures
from dpviz.privacy.budgets import ApproximateDP
from dpviz.specification import Specification
from dpviz.ui.learn import page

LESSONS = page.all_lessons()
SECONDS = 2.0  # that both runs of a lesson may take, as estimated
MARGIN = 1.1  # from the ends of the right answer
each = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.slug)


def side(settings: Specification, seed: int | None) -> Side:
    """With what a run of this seed brings; without a seed, as it is before anything has run."""
    if not isinstance(settings, Experiment):
        return Side(settings)
    return Side(settings, settings.plans(), None if seed is None else settings.replaced(seed=seed).run())


def right(lesson: Lesson, before: Side, after: Side) -> Answer:
    """The answer that a run gives; it lies well inside its interval."""
    ratio = lesson.measure.ratio(before, after)
    answer = lesson.answer(ratio)
    assert MARGIN * answer.low <= ratio <= answer.high / MARGIN, ratio
    return answer


def test_every_lesson_has_an_address_of_its_own() -> None:
    assert len({lesson.slug for lesson in LESSONS}) == len(LESSONS)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", lesson.slug) for lesson in LESSONS)


@each
def test_exactly_one_control_is_moved(lesson: Lesson) -> None:
    (change,) = changes(lesson.before, lesson.after)
    assert change.control is not None, change.path
    assert change == lesson.change


@each
def test_the_answers_cover_every_ratio_once(lesson: Lesson) -> None:
    ordered = sorted(lesson.answers, key=lambda answer: answer.low)
    assert [ordered[0].low, ordered[-1].high] == [0.0, inf]
    assert [answer.high for answer in ordered[:-1]] == [answer.low for answer in ordered[1:]]
    assert all(answer.low < answer.high for answer in ordered)
    assert len({answer.words for answer in ordered}) == len(ordered) >= 3


@each
def test_every_ratio_that_a_run_can_have_has_one_answer(lesson: Lesson) -> None:
    """Ends of intervals, nothing, what overflows; and a run that has diverged and has no ratio is no success."""
    for answer in lesson.answers:
        assert lesson.answer(answer.low) == answer == lesson.answer(nextafter(answer.high, 0.0))
    worst = next(answer for answer in lesson.answers if answer.high == inf)
    assert lesson.answer(inf) == lesson.answer(nan) == worst
    assert lesson.answer(-1.0) == lesson.answer(0.0)


@pytest.mark.parametrize(
    ("before", "after", "ratio"), [(0.0, 1.0, inf), (0.0, 0.0, nan), (1.0, nan, nan), (2.0, 1.0, 0.5)]
)
def test_a_ratio_is_a_number_whatever_the_runs_come_to(before: float, after: float, ratio: float) -> None:
    class Told(NoiseOfMeans):
        def value(self, side: Side) -> float:
            return before if side is sides[0] else after

    one = next(lesson for lesson in LESSONS if lesson.slug == "currencies")
    sides = Side(one.before), Side(one.after)
    assert Told().ratio(*sides) == pytest.approx(ratio, nan_ok=True)
    assert Told().outcome(*sides)


def test_debts_are_equal_parts_of_both_epsilon_and_delta() -> None:
    one = next(lesson for lesson in LESSONS if lesson.slug == "currencies")
    for settings in (one.before, one.after):
        assert isinstance(settings, BudgetSettings) and isinstance(settings.budget, ApproximateDP)
        count, budget = settings.means.iterations, settings.budget
        part = ApproximateDP(epsilon=budget.epsilon / count, delta=budget.delta / count)
        alone = settings.means.replaced(iterations=1).noise_scale(part)
        assert one.measure.numbers(side(settings, None))["debts"] == pytest.approx(alone)


@pytest.mark.one_in(4)
@each
def test_the_run_decides_and_fills_the_texts(lesson: Lesson) -> None:
    nothing = side(lesson.before, None), side(lesson.after, None)
    before, after = side(lesson.before, 0), side(lesson.after, 0)
    for template in (lesson.setting, lesson.question):  # what comes after is not known yet
        assert "nan" not in lesson.fill_in(template, before, nothing[1])
    for template in (lesson.why, lesson.try_it):
        assert "nan" not in lesson.fill_in(template, before, after)
    assert right(lesson, before, after).words in [answer.words for answer in lesson.answers]
    assert lesson.measure.curves(before) and lesson.measure.curves(after)
    old, new, axes = lesson.measure.curves(before), lesson.measure.curves(after), lesson.measure.axes(before)
    (left, right_end), (low, high) = lesson.frame(nothing[1])
    for curve in (*old, *new):  # all of it is in the frame that was there when it was predicted
        assert left <= curve.x[0] and curve.x[-1] <= right_end
        assert all(low < y.min() and y.max() < high for y in (curve.y, curve.low, curve.high) if y is not None)
    layouts = [
        lesson_figures.before_and_after(old, seen, lesson.change.names, axes, lesson.frame(after)).layout
        for seen in ((), new)
    ]
    for name in ("xaxis", "yaxis"):
        assert layouts[0][name].range == layouts[1][name].range and layouts[0][name].type == layouts[1][name].type
    assert all(len(lesson.measure.noise(one)) == (lesson.slug == "shrink") for one in nothing)


@each
def test_its_runs_are_of_public_data(lesson: Lesson) -> None:
    assert all(one.public for one in (lesson.before, lesson.after) if isinstance(one, Experiment))


@pytest.mark.slow
@each
def test_the_truth_holds_over_six_seeds(lesson: Lesson) -> None:
    sides = ((side(lesson.before, seed), side(lesson.after, seed)) for seed in range(6))
    assert len({right(lesson, *both) for both in sides}) == 1


def test_the_noise_of_a_server_and_of_phones_is_that_of_their_mechanisms() -> None:
    """Errors that are exceeded in 5 % of the cases, on a server as drawn, on phones by the reports' distribution."""
    trust = next(lesson for lesson in LESSONS if lesson.slug == "trust")
    server, phones = (side(settings, None) for settings in (trust.before, trust.after))
    n, model = 1000, trust.after.model  # type: ignore[attr-defined]
    noise = stats.laplace(scale=1 / n)  # of a share of yes at ε = 1, which a replaced answer moves by 1/n
    assert 2 * noise.sf(trust.measure.value(server) / 100) == pytest.approx(0.05)
    reports = np.arange(n + 1)
    law = stats.binom.pmf(reports, n, model.lie)  # if nobody has a yes to report
    errors = np.abs([100 * model.estimate(count, n) for count in reports])
    assert law @ (errors > trust.measure.value(phones)) == pytest.approx(0.05, abs=0.01)


def test_an_answer_in_two_counts_is_found_more_often_than_a_presence_and_no_more_than_a_lesson_says() -> None:
    """Two counts with the noise of ε = 2 for one who comes or goes: the best test of an answer in one or the other."""
    lesson = next(lesson for lesson in LESSONS if lesson.slug == "neighbours")
    comes, replaced = (lesson.measure.value(side(settings, None)) / 100 for settings in (lesson.before, lesson.after))
    first, second = np.random.default_rng(1).laplace(scale=0.5, size=(2, 400_000))
    in_first, in_second = (
        2 * (np.abs(a) - np.abs(a - 1) + np.abs(b - 1) - np.abs(b))  # log of the likelihood ratio
        for a, b in ((first + 1, second), (first, second + 1))
    )
    assert comes < (in_first > np.quantile(in_second, 0.99)).mean() <= replaced


def test_momentum_helps_where_the_lesson_says_so() -> None:
    """With few steps, whoever tries it finds that it does; and without noise."""
    told = MOMENTUM.also(side(MOMENTUM.before, None), side(MOMENTUM.after, None))
    assert float(told["few_after"]) < float(told["few_before"]) / 2
    assert float(told["exact_after"]) < float(told["exact_before"]) / 2


def test_with_a_small_budget_it_goes_down_and_does_not_know_when_it_has_arrived() -> None:
    assert isinstance(FLAT.after, Experiment)
    small = FLAT.after.replaced(budget=FLAT.after.budget.replaced(epsilon=0.02), replicates=4)
    trace = small.run()
    assert FLAT.measure.value(Side(small, small.plans(), trace)) == 1.0
    assert (trace.arm_traces["OPT"].stopped_at < 0).mean() > 0.5 and trace.arm_traces["OPT"].iterations[-1] == 60
