"""What the audit page shows of every case that there is: figures that can be drawn, words that hold."""

import math

import numpy as np
import pytest

from dpviz import families
from dpviz.audits.audit import Attack, Look, Progress, Verdict
from dpviz.execution.auditing import BROKEN, Auditing
from dpviz.plots.elements.words import in_words
from dpviz.ui.audit import results
from dpviz.ui.audit.verdict import proven_at, recognised, verdict

EVERY = [(family, case.name, case.budgets[0]) for family, cases in families.audits().items() for case in cases]
EVERY += [(BROKEN, mistake.name, mistake.budget) for mistake in families.broken()]
QUICK = ("nesterov", "unnoised", "frank_wolfe")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("family", "case", "budget"),
    [pytest.param(*one, id=one[1], marks=() if one[1] in QUICK else pytest.mark.slow) for one in EVERY],
)
def test_every_case_can_be_drawn_at_every_moment(family: str, case: str, budget) -> None:
    auditing = Auditing(family=family, case=case, budget=budget, runs=400)
    *_, progress = auditing.audit.stream()
    parts = (progress.present[:300], progress.absent[:300])
    early = Progress(*parts, progress.tuning, progress.attack, progress.looks[:1])
    for moment in (early, progress):
        figures = [results.roc(auditing, moment, 0.1), results.bound(auditing, moment)]
        figures.append(results.histogram(moment.present, moment.absent, {"yours": math.inf}))
        for figure in figures:
            assert in_words(figure)
            for trace in figure.data:
                assert np.isfinite(np.asarray(trace.x, dtype=float)).all() and np.isfinite(trace.y).all()
        assert all(abs(sum(trace.y) - 1) < 1e-5 for trace in figures[-1].data)  # each run is in some bin
        found = verdict(auditing, moment)
        assert found is not None and 0 <= found.bound < math.inf
        assert 0 <= proven_at(auditing, moment, 0.1) < math.inf
    drawn = results.bound(auditing, progress)
    (proven,) = [trace for trace in drawn.data if trace.name == "proven"]
    np.testing.assert_allclose(proven.y, [look.bound for look in progress.looks], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("reverse", "hits", "false_hits", "told"),
    [
        (False, 50, 10, ("D", "at least", 0.5, 0.1)),
        (False, 95, 85, ("D'", "below", 0.15, 0.05)),
        (True, 50, 10, ("D'", "at most", 0.5, 0.1)),
        (True, 90, 60, ("D", "above", 0.4, 0.1)),
    ],
)
def test_a_test_is_told_as_one_that_is_seldom_wrong(reverse: bool, hits: int, false_hits: int, told: tuple) -> None:
    look = Look(100, hits, false_hits, 0.5)
    found = Verdict("ε", 1.0, 0.5, 0.95, 100, Attack(0.0, reverse), (look,), None)
    which, side, caught, alarms = recognised(found)
    assert (which, side) == told[:2] and (caught, alarms) == pytest.approx(told[2:])
