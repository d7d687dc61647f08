"""Audits as tasks: the settings travel as JSON, and what a worker sends back is what the audit has found."""

import threading

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpviz import families
from dpviz.audits.audit import Audit
from dpviz.errors import UserError
from dpviz.execution.auditing import Auditing, case_named, mistake_named, rates
from dpviz.execution.increments import Sender, add_increment
from dpviz.experiments.task import Cell, execute
from dpviz.experiments.trace import Trace
from dpviz.privacy.budgets import NoPrivacy, PureDP
from dpviz.specification import Specification

AUDITING = Auditing(family="accelerated", case="nesterov", budget=PureDP(epsilon=1.0), runs=3000, seed=4)


def test_an_audit_is_stopped_inside_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpviz.execution.auditing.EVERY", 0.0)
    stopping, seen = threading.Event(), []

    def on_progress(trace: Trace | None, progress: float) -> None:
        seen.append(progress)
        if len(seen) == 8:  # the first time is before it begins; a block has 100 steps and more
            stopping.set()

    outcome = execute(Cell(AUDITING), stopping, on_progress)
    assert outcome.state == "stopped" and seen == [0.0] * 8


def test_the_settings_travel_and_what_was_found_comes_back() -> None:
    task = Specification.from_json(AUDITING.to_json())
    assert task == AUDITING and isinstance(task, Auditing)
    sender, received, seen = Sender(), Trace({}), []

    def on_progress(trace: Trace | None, progress: float) -> None:
        if trace is not None:
            add_increment(received, *sender.increment(trace))
        seen.append(progress)

    outcome = execute(Cell(task), threading.Event(), on_progress)
    assert outcome.state == "done" and outcome.trace is not None
    assert seen == sorted(seen) and seen[-1] == 1
    audit = Audit(case_named("accelerated", "nesterov"), AUDITING.budget, AUDITING.runs, seed=AUDITING.seed)
    for direct in audit.stream():  # noqa: B007 (its end is looked at)
        pass
    for trace in (outcome.trace, received):
        found = AUDITING.progress(trace)
        assert found is not None and (found.attack, found.looks, found.tuning) == (
            direct.attack,
            direct.looks,
            direct.tuning,
        )
        np.testing.assert_array_equal(found.present, direct.present)
        np.testing.assert_array_equal(found.absent, direct.absent)
    assert len(direct.present) == AUDITING.runs


def test_a_stop_keeps_the_blocks_that_have_ended() -> None:
    stopping = threading.Event()
    outcome = execute(Cell(AUDITING), stopping, lambda trace, progress: stopping.set() if progress > 0 else None)
    assert outcome.state == "stopped" and outcome.trace is not None
    found = AUDITING.progress(outcome.trace)
    assert found is not None and 0 < len(found.present) < AUDITING.runs
    assert AUDITING.progress(Trace({})) is None


@pytest.mark.parametrize(("family", "case"), [("accelerated", "nothing"), ("nobody", "nesterov"), ("..os", "path")])
def test_there_is_no_other_case(family: str, case: str) -> None:
    with pytest.raises(UserError, match="no"):
        case_named(family, case)
    with pytest.raises(UserError, match="no mistake"):
        mistake_named(case)
    with pytest.raises(UserError, match="no claim"):
        _ = Auditing(family="accelerated", case="nesterov", budget=NoPrivacy()).audit


def test_a_mistake_travels_by_its_name_and_can_be_mended() -> None:
    task = Specification.from_json(Auditing(family="broken", case="quieter", runs=400).to_json())
    assert isinstance(task, Auditing) and task.mistake is not None
    assert task.audit.case is task.mistake.case and task.replaced(mended=True).audit.case is task.mistake.sound
    assert task.replaced(mended=True).mistake is None


def test_names_of_cases_are_their_own() -> None:
    for family, cases in families.audits().items():
        assert len({case.name for case in cases}) == len(cases), family


def test_rates_of_a_test_whose_rates_are_known() -> None:
    """Two normal distributions one apart: 1 - f(α) = Φ(Φ⁻¹(α) + 1), within its band at almost all false alarm rates."""
    generator, at = np.random.default_rng(1), np.linspace(0, 1, 101)
    present, absent = generator.normal(1.0, 1.0, 4000), generator.normal(0.0, 1.0, 4000)
    measured, low, high = rates(present, absent, at)
    true = ndtr(ndtri(at) + 1)
    assert (low <= measured).all() and (measured <= high).all() and (np.diff(measured) >= 0).all()
    assert ((low <= true + 1e-12) & (true <= high + 1e-12)).mean() > 0.9
    np.testing.assert_allclose(measured, true, atol=0.04)  # four standard errors of a rate of one half
    assert measured[0] <= 0.02 and measured[-1] == 1


def test_rates_of_scores_that_tell_everything_or_nothing() -> None:
    at = np.array([0.0, 0.5, 1.0])
    everything, _, _ = rates(np.full(100, np.inf), np.full(100, -np.inf), at)
    np.testing.assert_array_equal(everything, [1, 1, 1])
    nothing, low, high = rates(np.zeros(100), np.zeros(100), at)
    np.testing.assert_array_equal(nothing, at)
    assert low[1] < 0.5 <= high[1]
