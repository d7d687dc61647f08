"""What the page draws of plans and of runs, and what is known before a run."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.trace import Trace
from dpviz.families.zeroth_order import DirectionalDescent, Naive, VarianceReduced, figures, presets, texts, theory
from dpviz.families.zeroth_order.advice import distance, forecast, reduced_of, setting_of, watched
from dpviz.families.zeroth_order.conversion import EVALUATIONS, NOISY_NORM, ROWS_USED
from dpviz.plots.elements.style import arm_styles
from dpviz.plots.elements.words import in_words
from dpviz.privacy.budgets import GaussianDP, PureDP
from dpviz.problems.values.black_box import BentValley, CappedRegression, PhaseRetrieval, Votes
from dpviz.problems.values.value_problem import ValueProblem

DEFAULT = presets.PRESETS[0].experiment
LOOKS = arm_styles(DEFAULT.arms)


def test_an_outlook_has_a_bound_for_every_method_that_has_one() -> None:
    found = forecast(DEFAULT, DEFAULT.plans())
    assert set(found.bounds) == set(presets.DEFAULT_METHODS) and not found.without and found.mu == 0.3
    assert found.bounds[presets.FRESH].total == min(bound.total for bound in found.bounds.values())
    methods = {
        "range": VarianceReduced(clipping="range", iterations=32),
        "moving": Naive(fresh_start=False, iterations=32),
        "narrow": VarianceReduced(concentration=2.0, iterations=32),
        "single": DirectionalDescent(descent_steps=32),
    }
    arms = tuple(Arm(label=label, algorithm=method) for label, method in methods.items())
    problem = CappedRegression()  # whose values have a range
    none = forecast(experiment := DEFAULT.replaced(problem=problem, arms=arms), experiment.plans())
    assert not none.bounds and none.without == tuple(methods)
    jumps = DEFAULT.replaced(problem=Votes())
    assert not forecast(jumps, jumps.plans()).bounds, "no Lipschitz constant holds"


@pytest.mark.parametrize("sums", ["tree", "optimal", "independent"])
def test_a_bound_counts_the_noise_of_its_plan(sums: theory.Sums) -> None:
    """With equal leaves or not, and with the clip of values that have a range."""
    for share in (0.2, 0.5, 0.8):
        method = VarianceReduced(sums=sums, first_share=share)
        experiment = DEFAULT.replaced(arms=(Arm(label="A", algorithm=method),))
        plan = experiment.plans()["A"]
        found, layout = forecast(experiment, {"A": plan}).bounds["A"], method.layout(plan.facts)
        quiet = replace(setting_of(plan.facts, math.inf), kind="iid")
        least = theory.reduced_bound(quiet, 16, 40, layout.first, layout.batch, layout.move, 1.0)
        noise = plan.facts.d * (plan.noise["prefix"] ** 2).mean()
        assert found.error == pytest.approx(math.sqrt(least.error**2 + noise), rel=1e-9)


def test_there_is_no_outlook_on_gaussian_noise_under_pure_epsilon() -> None:
    arm = Arm(label="A", algorithm=DirectionalDescent(noise="laplace"))
    experiment = Experiment(problem=PhaseRetrieval(), arms=(arm,), budget=PureDP(epsilon=1.0))
    found = forecast(experiment, experiment.plans())
    assert found.mu is None and found.advice is None and not found.watched


def test_who_watches_a_few_steps_of_a_tree_learns_less_than_who_watches_all() -> None:
    """With equal leaves a row of the first step is in ⌊log₂ t⌋ + 1 nodes of the first t steps, of ⌊log₂ T⌋ + 1."""
    facts = PhaseRetrieval().facts()
    layout = VarianceReduced().layout(facts)
    tree, fresh = watched(VarianceReduced(), facts, 1.0), watched(Naive(), facts, 1.0)
    assert tree[-1] == pytest.approx(1.0) and (np.diff(tree) >= 0).all() and (fresh == 1.0).all()
    first, later = VarianceReduced().changes(facts, layout)[:2]
    full = max(math.sqrt(5) * first, math.sqrt(4) * later)
    assert tree[0] == pytest.approx(first / full) and tree[3] == pytest.approx(math.sqrt(2) * later / full)


def test_the_distance_to_a_minimum_is_known_of_simulated_functions_only() -> None:
    for problem in (PhaseRetrieval(rows=1000), Votes(rows=1000, answer="rating"), BentValley(rows=1000)):
        far = distance(problem)
        assert far is not None and far > 0.5
    assert distance(PhaseRetrieval()) == pytest.approx(
        1.42597, abs=1e-4
    )  # √(‖x₀‖² + 1 - 2 ⟨x₀, x*⟩), ⟨x₀, x*⟩ = 0.4/√6
    assert distance(CappedRegression()) is None


def test_running_sums_are_looked_at_with_the_settings_of_the_methods_that_are_chosen() -> None:
    shared = DEFAULT.replaced(arms=presets.arms([presets.FRESH], epoch_length=32))
    assert reduced_of(shared) == VarianceReduced(epoch_length=32, directions="orthonormal")
    assert reduced_of(DEFAULT) == VarianceReduced()


def test_the_noise_of_an_epoch_is_a_line_per_method_with_epochs() -> None:
    arms = (*DEFAULT.arms, Arm(label="single", algorithm=DirectionalDescent()))
    plans = DEFAULT.replaced(arms=arms).plans()
    figure = figures.noise_of_an_epoch(plans, arm_styles(arms)).figure
    drawn = {trace.name: trace.y for trace in figure.data if trace.name in plans}
    assert set(drawn) == set(presets.DEFAULT_METHODS) and all(len(line) == 16 for line in drawn.values())
    tree = drawn[presets.PUBLISHED]
    assert tree[14] / tree[0] == pytest.approx(2.0), "step 15 sums four nodes, step 1 one"


def test_the_parts_of_a_bound_are_stacked_beside_the_line_at_which_it_says_nothing() -> None:
    found = forecast(DEFAULT, DEFAULT.plans())
    figure = figures.bound_parts(found.bounds, found.facts).figure
    assert [bars.name for bars in figure.data] == [word for word, _, _ in figures.PARTS]
    total = sum(bars.x[list(bars.y).index(presets.PUBLISHED)] for bars in figure.data)
    assert total == pytest.approx(found.bounds[presets.PUBLISHED].total, rel=1e-5)
    assert figure.layout.barmode == "stack" and figure.layout.shapes[0].x0 == 1.0
    lines = figure.layout.annotations[0].text.split("<br>")
    assert lines[-1] == "beyond the line at L = 1 a bound says nothing"
    assert max(map(len, lines)) < 50, "on a phone, small print of 60 letters is cut off"
    assert "No bound is known" in in_words(figures.bound_parts({}, found.facts).figure)


def test_no_part_of_a_bound_is_called_twice_an_error_that_averages_out() -> None:
    """Over running sums the third part is 2 e, over fresh estimates e/√T: one word for both."""
    known = forecast(DEFAULT, DEFAULT.plans())
    sums, fresh = known.bounds[presets.PUBLISHED], known.bounds[presets.FRESH]
    assert sums.oracle == 2 * sums.error and fresh.oracle == pytest.approx(fresh.error / 4)
    caption = figures.bound_parts(known.bounds, known.facts).caption
    assert figures.PARTS[2][0] == "oracle's error" and "twice in running sums" in caption


def test_what_is_advised_keeps_its_bound_where_steps_are_limited() -> None:
    """200,000 rows, d = 2, μ = 3: the smallest bound of all takes 59,392 steps; only 20,000 may be
    set, and an option that cannot be set may not be told as the smallest."""
    problem = PhaseRetrieval(rows=200_000, dimension=2, radius=1.0)
    arm = Arm(label="A", algorithm=Naive(directions="orthonormal", directions_per_row=None))
    experiment = Experiment(problem=problem, arms=(arm,), budget=GaussianDP(mu=3.0))
    told = forecast(experiment, experiment.plans()).advice
    assert told is not None
    for option in (option for option in told.options if option.way.sums is None):
        length, steps = option.best.length, option.best.length * option.best.epochs
        own = option.way.method(iterations=steps, epoch_length=length)
        taken = experiment.replaced(arms=(Arm(label="A", algorithm=own),))
        assert forecast(taken, taken.plans()).bounds["A"].total == pytest.approx(option.best.bound, rel=1e-9)
        assert steps > 10_000, "the limit counts here"


def test_the_exact_reading_is_the_smallest_and_the_papers_the_largest() -> None:
    """THEORY.md, 6 (E13); specification: 4.3772, 4.7284, 5.2985 at μ = 1, δ = 10⁻⁵."""
    found = [read(1.0, 1e-5) for read in figures.READINGS.values()]
    assert found == pytest.approx([4.3772, 4.7284, 5.2985], abs=1e-3)
    figure = figures.readings(1.0, 1e-5).figure
    lines = {trace.name: trace.y for trace in figure.data if trace.name in figures.READINGS}
    assert (lines["exact"] < lines["through zCDP"]).all()
    assert (lines["through zCDP"] < lines["by the paper's formula"]).all()


@pytest.fixture
def trace() -> Trace:
    """Two methods, one without privacy; gradients are looked at in step 0 and in step 16."""
    metrics = (ROWS_USED, EVALUATIONS, NOISY_NORM, *ValueProblem.metrics)
    found = Trace({"Published": metrics, "Reference": metrics}, references={"Reference"})
    for label, value in (("Published", 0.5), ("Reference", 0.25)):
        for t in (0, 1, 16):
            released = {metric.name: np.full(3, float(t)) for metric in (ROWS_USED, EVALUATIONS)}
            released[NOISY_NORM.name] = np.full(3, np.nan if t == 0 else 2.0 + t)
            looked_at = ValueProblem.metrics if t != 1 else ValueProblem.metrics[:1]
            diagnostics = {metric.name: np.full(3, value) for metric in looked_at}
            found.lanes[label].append(Snapshot(t, {"x": np.zeros((3, 2))}, released), diagnostics, 0.0)
    return found


def test_noisy_gradients_stand_beside_the_noise_that_was_planned(trace: Trace) -> None:
    plans = {"Published": VarianceReduced().plan(PhaseRetrieval().facts(), GaussianDP(mu=0.3))}
    looks = arm_styles((Arm(label="Published", algorithm=VarianceReduced()),))
    figure = figures.norms(trace, plans, looks, "").figure
    drawn = {line.name: line for line in figure.data if line.name}
    assert drawn["Published"].x.tolist() == [1, 16] and drawn["Published"].y.tolist() == [3.0, 18.0]
    expected = math.sqrt(6) * plans["Published"].noise["prefix"][[0, 15]]
    assert drawn["Published, noise alone"].y == pytest.approx(expected, rel=1e-6)
    assert not any("Reference" in name for name in drawn), "it has released nothing"


def test_an_estimate_of_the_gradient_has_its_own_error_as_a_band(trace: Trace) -> None:
    looks = arm_styles(tuple(Arm(label=label, algorithm=Naive()) for label in trace.lanes))
    figure = figures.stationarity(trace, "smoothed_gradient_norm", looks, "").figure
    lines = {line.name: line for line in figure.data if line.name in trace.lanes}
    assert lines["Published"].x.tolist() == [0, 16], "where it was looked at"
    low, high = (edge for edge in figure.data if edge.legendgroup == "Published" and not edge.name)
    assert low.y.tolist() == [-0.5, -0.5] and high.y.tolist() == [1.5, 1.5], "two errors of 0.5 on both sides"
    assert any("not private" in note.text for note in figure.layout.annotations)


def test_a_simple_method_is_set_beside_the_published_one_in_words() -> None:
    for other, said in ((0.01, "ends lower"), (0.17, "ends lower"), (0.196, "about as low"), (0.3, "higher")):
        assert said in texts.finding(0.2, other, presets.FRESH)
    assert "about as low" in texts.finding(0.0, 0.0, presets.FRESH)
