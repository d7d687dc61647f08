"""What the page draws of plans and of runs, and what is known before a run."""

import math

import numpy as np
import pytest

from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.zeroth_order import Naive, VarianceReduced
from dpviz.families.zeroth_order.advice import distance, forecast, watched
from dpviz.privacy.budgets import GaussianDP
from dpviz.problems.values.black_box import BentValley, CappedRegression, PhaseRetrieval, Votes


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
