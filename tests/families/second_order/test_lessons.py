"""What the lesson of nonconvex objectives says beyond what its runs decide."""

import numpy as np

from dpviz.experiments.experiment import Experiment
from dpviz.families.second_order.lessons import FLAT
from dpviz.lessons.lesson import Side


def test_with_a_small_budget_it_goes_down_and_does_not_know_when_it_has_arrived() -> None:
    assert isinstance(FLAT.after, Experiment)
    budget = FLAT.after.budget.replaced(epsilon=0.02)
    small = FLAT.after.replaced(budget=budget, replicates=4)
    trace = small.run()
    assert FLAT.measure.value(Side(small, small.plans(), trace)) == 1.0
    assert np.median(trace.lanes["OPT"].stopped_at) == 60
