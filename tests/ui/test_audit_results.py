"""What the audit page shows of every case that there is: figures that can be drawn, words that hold."""

import math

import numpy as np
import pytest

from dpviz import families
from dpviz.audits.audit import Attack, Look, Progress, Verdict
from dpviz.execution.auditing import BROKEN, Auditing
from dpviz.plots.elements.words import alt_text
from dpviz.privacy.budgets import PureDP
from dpviz.ui.audit import results
from dpviz.ui.audit.results import attackers_test, proven_at, verdict
from tests.bounds import after, number

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
        figures = [results.rates_chart(auditing, moment, 0.1).figure, results.bound_figure(auditing, moment)]
        figures.append(results.scores_chart(auditing, moment, guess=math.inf, practice=False).figure)
        for figure in figures:
            assert alt_text(figure)
            for trace in figure.data:
                assert np.isfinite(np.asarray(trace.x, dtype=float)).all() and np.isfinite(trace.y).all()
        assert all(abs(sum(trace.y) - 1) < 1e-5 for trace in figures[-1].data)  # each run is in some bin
        found = verdict(auditing, moment)
        assert found is not None and 0 <= found.bound < math.inf
        assert 0 <= proven_at(auditing, moment, 0.1) < math.inf
    last = early.tuning + early.looks[0].runs
    then = Progress(early.present[:last], early.absent[:last], early.tuning, early.attack, early.looks)
    assert proven_at(auditing, early, 0.1) == proven_at(auditing, then, 0.1)  # not by the runs since the look
    drawn = results.bound_figure(auditing, progress)
    (proven,) = [trace for trace in drawn.data if trace.name == "proven"]
    bounds = np.maximum.accumulate([look.bound for look in progress.looks])  # the largest so far
    np.testing.assert_allclose(proven.y, bounds, rtol=1.1e-3)
    assert (proven.y <= bounds * (1 + 1e-7)).all()  # in single precision


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
    which, side, caught, alarms = attackers_test(found)
    assert (which, side) == told[:2] and (caught, alarms) == pytest.approx(told[2:])


def test_a_threshold_of_ones_own_is_tried_on_the_runs_that_count_and_on_no_others() -> None:
    """Practice runs are seen before it is placed, and runs since the last look have no bound yet."""
    auditing = Auditing(family="accelerated", case="nesterov", budget=PureDP(epsilon=1.0), runs=400)
    present, absent = np.repeat([1.0, -1.0], [90, 10]), np.repeat([1.0, -1.0], [20, 80])
    looks = (Look(100, 90, 20, 0.5),)
    proven = proven_at(auditing, Progress(present, absent, 0, Attack(0.0), looks), 0.0)
    assert 0 < proven < math.log(90 / 20)
    for others in (np.full(100, -9.0), np.full(100, 9.0)):
        there = Progress(np.r_[others, present, others], np.r_[-others, absent, -others], 100, Attack(0.0), looks)
        assert proven_at(auditing, there, 0.0) == proven


@pytest.mark.parametrize("claim", [0.5, 1.0, 1.2345])
@pytest.mark.parametrize("share", [0.12345, 0.98765, 1.000123, 1.56789])
def test_what_an_audit_proves_is_rounded_down_and_a_refuted_claim_stays_below_it(claim: float, share: float) -> None:
    look = Look(1000, 500, 100, share * claim)
    found = Verdict("ε", claim, look.bound, 0.95, 1000, Attack(0.0), (look,), 1000 if share > 1 else None)
    (proven,) = after("≥", found.sentence())
    assert look.bound * 0.99 <= proven <= look.bound
    assert (proven > number(found.claimed) >= claim) if share > 1 else number(found.claimed) >= claim
