"""Which run is to begin by itself, and whether what a page shows belongs to its settings: state by state."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from dpviz.datasets import UploadedTable
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.families.accelerated import GradientDescent
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.problems.linear.quadratic import Quadratic
from dpviz.ui.experiment import run
from dpviz.ui.experiment.run import FIRST_REPEATS, StartableExperiment
from dpviz.ui.families import FAMILIES, Entry

STATES = ("queued", "running", "done", "stopped", "timeout", "failed")


@dataclass(frozen=True)
class Settings:
    """Settings of a run by name, with so many repeats."""

    name: str
    repeats: int = 20
    public: bool = True
    too_much: bool = False
    work_ratio: float = 5.0

    @property
    def first_part(self) -> "Settings | None":
        return replace(self, repeats=FIRST_REPEATS) if self.repeats >= 2 * FIRST_REPEATS else None

    @property
    def has_few_repeats(self) -> bool:
        return self.first_part is None

    def is_task_of(self, job: Any) -> bool:
        return bool(job.task == (self.name, self.repeats))

    def start(self, page: str, title: str, short: bool) -> Any:
        raise AssertionError("nothing is started here")


def job(name: str, repeats: int = 20, state: str = "done", seconds: float = 0.5) -> Any:
    active = state in ("queued", "running")
    return SimpleNamespace(task=(name, repeats), state=state, active=active, computing=seconds)


A = Settings("A")


@pytest.mark.parametrize(
    ("settings", "newest", "begins"),
    [
        (A, None, A.first_part),
        (A, job("B"), A.first_part),
        (A, job("B", state="running"), A.first_part),
        *((A, job("A", FIRST_REPEATS, state), None) for state in STATES if state != "done"),
        (A, job("A", FIRST_REPEATS), A),
        *((A, job("A", 20, state), None) for state in STATES),
        (replace(A, repeats=7), None, replace(A, repeats=7)),
        (A, job("A", FIRST_REPEATS, seconds=1.1), None),
        (replace(A, public=False), None, None),
        (replace(A, too_much=True), None, None),
    ],
)
def test_what_begins_by_itself(settings: Settings, newest: Any, begins: Settings | None) -> None:
    assert run.next_run(settings, newest, others_wait=False) == begins


def test_where_others_wait_the_first_repeats_begin_and_no_more_follow() -> None:
    assert run.next_run(A, None, others_wait=True) == A.first_part
    assert run.next_run(A, job("A", FIRST_REPEATS), others_wait=True) is None
    assert run.next_run(replace(A, repeats=7), None, others_wait=True) == replace(A, repeats=7)


@pytest.mark.parametrize(
    ("settings", "newest", "short"),
    [
        (A.first_part, None, True),
        (A.first_part, job("B", seconds=60.0), True),
        (A, None, False),
        (A, job("B", FIRST_REPEATS, seconds=0.1), False),
        (A, job("A", FIRST_REPEATS, seconds=0.1), True),
        (A, job("A", FIRST_REPEATS, seconds=0.5), False),
        (A, job("A", FIRST_REPEATS, state="running", seconds=0.1), False),
    ],
)
def test_only_few_repeats_and_what_the_first_ones_measured_count_as_short(
    settings: Settings, newest: Any, short: bool
) -> None:
    assert run.is_short(settings, newest) == short


@pytest.mark.parametrize(
    ("settings", "newest", "pictured", "state", "pale"),
    [
        (A, None, None, "idle", True),
        (None, None, None, "idle", True),
        (A, job("B"), job("B"), "old", True),
        (None, job("A"), job("A"), "old", True),
        (A, job("B", state="running"), job("B", state="running"), "old", True),
        (A, job("A", FIRST_REPEATS, "queued"), job("B"), "queued", True),
        (A, job("A", FIRST_REPEATS, "running"), None, "queued", True),
        (A, job("A", FIRST_REPEATS, "running"), job("A", FIRST_REPEATS, "running"), "first repeats", False),
        (A, job("A", FIRST_REPEATS), job("A", FIRST_REPEATS), "first repeats", False),
        (A, job("A", 20, "queued"), job("A", FIRST_REPEATS), "first repeats", False),
        (A, job("A", 20, "running"), job("A", 20, "running"), "all repeats", False),
        (A, job("A"), job("A"), "all repeats", False),
        (A, job("A", 20, "failed"), job("B"), "failed", True),
        (A, job("A", 20, "failed"), job("A", 20, "failed"), "failed", False),
        (A, job("A", 20, "stopped"), job("B"), "stopped", True),
        (A, job("A", 20, "timeout"), job("A", 20, "timeout"), "stopped", False),
    ],
)
def test_what_a_page_shows(settings: Any, newest: Any, pictured: Any, state: str, pale: bool) -> None:
    assert run.job_state(settings, newest, pictured) == state
    assert run.matches_job(settings, pictured) != pale


@pytest.mark.parametrize("public", [True, False])
def test_no_run_on_a_file_is_the_first_repeats_of_another(public: bool) -> None:
    """Each has noise of its own, and is paid for by itself."""
    data = UploadedTable(identity="0" * 32, n=40, bounds=((0.0, 1.0),), names=("a",))
    problem = Quadratic() if public else LogisticRegression(data=data)
    whole = Experiment(problem, GradientDescent(iterations=3), replicates=20)
    few: Any = SimpleNamespace(task=whole.replaced(replicates=FIRST_REPEATS))
    ready = StartableExperiment(whole, whole.plans())
    assert (ready.first_part is not None) == run.matches_job(ready, few) == public
    assert run._had_first_repeats_of(few, SimpleNamespace(task=whole)) == public  # type: ignore[arg-type]


@pytest.mark.parametrize(("bytes", "too_much"), [(1.0, False), (1e15, True)])
def test_a_run_beyond_the_limit_of_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch, bytes: float, too_much: bool
) -> None:
    experiment = Experiment(problem=Quadratic(), arms=(Arm(label="GD", algorithm=GradientDescent()),))
    monkeypatch.setattr(Experiment, "estimated_bytes", lambda *_: bytes)
    assert StartableExperiment(experiment, experiment.plans()).too_much == too_much


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_preset_begins_by_itself(family: Entry) -> None:
    """Seventeen of them left another experiment's picture on the screen."""
    for preset in family.page().presets:
        planned = preset.experiment.planned()
        assert run.next_run(StartableExperiment(planned.ready(), planned.plans), None, False) is not None, preset.name
