"""The start page's story: its numbers are those of the mechanism, of runs and of the theory."""

import numpy as np
import pytest

from dpviz.families.accelerated import presets, story
from dpviz.privacy.budgets import PureDP


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 10.0])
def test_no_count_is_likelier_than_the_guarantee_allows_and_some_are_as_much(epsilon: float) -> None:
    found = story.answers(epsilon)
    ratios = np.maximum(found.with_you / found.without, found.without / found.with_you)
    assert ratios.max() == pytest.approx(found.factor) == pytest.approx(np.exp(epsilon))
    assert found.values[found.with_you.argmax()] == story.OTHERS + 1 == found.values[found.without.argmax()] + 1
    within = np.abs(found.values - story.OTHERS) <= story.REACH  # the same distance on both sides
    area = np.trapezoid(found.without[within], found.values[within])
    assert area == pytest.approx(1 - np.exp(-story.REACH / found.scale), abs=5e-3)  # of the grid of the curve


def test_the_price_falls_and_is_the_bound_of_the_plan() -> None:
    found = story.price()
    assert (np.diff(found.bounds) <= 0).all() and found.bounds[0] == found.start
    assert story.planned(0.01) == (0, found.start)  # no step is proven to help
    method = presets.METHODS[story.METHOD]
    for epsilon in (0.5, 2.0):
        plan = method.replaced(iterations=story.FARTHEST).plan(story.EXAMPLE.facts(), PureDP(epsilon=epsilon))
        bound = method.error_bound(plan)
        assert bound is not None
        assert story.planned(epsilon) == (plan.iterations, pytest.approx(bound[-1], rel=1e-9))
