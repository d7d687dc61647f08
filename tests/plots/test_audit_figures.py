"""Figures of an audit: rates, bounds and scores as they were given, and the region that would refute the claim."""

import numpy as np

from dpviz.plots.audit_figures import rising_bound, roc
from dpviz.plots.elements.words import alt_text
from dpviz.plots.planner_figures import RATES
from dpviz.privacy import tradeoffs
from dpviz.privacy.events import Laplace

CLAIM = 1 - tradeoffs.tradeoff([Laplace(1.0)], RATES)


def test_what_lies_above_the_claim_is_shaded_and_thresholds_are_marked() -> None:
    true = np.interp(RATES, [0.0, 0.2, 0.5, 1.0], [0.0, 0.5, 0.8, 1.0])
    figure = roc(true, 0.9 * true, np.minimum(1.1 * true, 1), CLAIM, CLAIM, {"yours": (0.2, 0.5), "best": (0.5, 0.8)})
    by_name = {trace.name: trace for trace in figure.data if trace.name}
    attack, claim = by_name["this attack"], by_name["most that the claim allows"]
    np.testing.assert_allclose(attack.y, true, rtol=1e-6)
    np.testing.assert_allclose(claim.y, CLAIM, rtol=1e-6)
    low, high = [trace for trace in figure.data if trace.legendgroup == claim.name and not trace.name]
    np.testing.assert_allclose(low.y, CLAIM, rtol=1e-6)
    assert (np.asarray(high.y) == 1).all() and high.fill == "tonexty"
    (marks,) = [trace for trace in figure.data if trace.mode == "markers"]
    assert marks.x.tolist() == [np.float32(0.2), 0.5]
    assert "most that the planned noise allows" not in by_name  # it is the same
    more = roc(true, true, true, CLAIM, 0.9 * CLAIM, {})
    assert "most that the planned noise allows" in [trace.name for trace in more.data]
    assert "yours: 50 % caught, 20 % false alarms; best: 80 % caught" in alt_text(figure)


def test_the_bound_rises_below_its_claim_or_crosses_it() -> None:
    runs = np.array([100, 1000, 10_000])
    bounds, estimates, upper = np.array([0.0, 0.6, 1.2]), np.array([np.inf, 1.4, 1.41]), np.array([np.inf, 1.8, 1.5])
    figure = rising_bound(runs, bounds, estimates, upper, 1.0, "ε", refuted_at=10_000)
    by_name = {trace.name: trace for trace in figure.data if trace.name}
    np.testing.assert_allclose(by_name["proven"].y, bounds, rtol=1e-6)
    assert by_name["measured"].x.tolist() == [1000, 10_000]  # before, nothing follows
    assert figure.layout.xaxis.type == "log" and figure.layout.yaxis.title.text == "Lower bound on ε"
    assert any(trace.text is not None and "claimed ε = 1" in trace.text for trace in figure.data)
    assert "refuted after 10,000 runs" in [note.text for note in figure.layout.annotations]
    assert "refuted" not in str(rising_bound(runs, bounds, estimates, upper, 1.0, "ε").layout.annotations)
    falling = rising_bound(runs, bounds[::-1], estimates, upper, 1.0, "ε").data
    assert [trace.y[-1] for trace in falling if trace.name == "proven"] == [np.float32(1.2)]  # once proven, it stays
