"""The shell: the numbers of the page, sweeps that go on where they were, and a sentence for every mistake."""

import io
import json
import math
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NoReturn

import click
import numpy as np
import pandas as pd
import psutil
import pytest

import dpviz
from dpviz import families, resources, specification
from dpviz.cli import looking, main, running
from dpviz.cli.files import table_as_text
from dpviz.datasets import UploadedTable
from dpviz.execution import backend
from dpviz.execution.auditing import Auditing
from dpviz.execution.executors import Slots
from dpviz.execution.progress import DEPENDS
from dpviz.experiments.experiment import Arm, Experiment
from dpviz.experiments.preset import Preset
from dpviz.experiments.results import final_table
from dpviz.experiments.task import Outcome, SerialExecutor
from dpviz.exports.export import sweep_to_csv, to_csv, to_settings
from dpviz.families.mirror_descent import FictitiousPlay
from dpviz.privacy.budgets import PureDP, ZeroConcentratedDP
from dpviz.privacy.statistics.analyses import Analyses, Count, Histogram, Mean, Quantile, Sum
from dpviz.problems.linear.linear_models import LogisticRegression
from dpviz.sweeps.sweep import Axis, Sweep, settings
from tests.cli.conftest import EXPERIMENT

ROOT = Path(__file__).parents[2]
STRANGE = Arm(label="games only", algorithm=FictitiousPlay())
GRID = "epsilon=0.5,1,2"


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many cells every command had to compute."""
    counts: list[int] = []
    run = SerialExecutor.run

    def counting(self, cells, *others):
        counts.append(len(cells))
        return run(self, cells, *others)

    monkeypatch.setattr(SerialExecutor, "run", counting)
    return counts


def press_ctrl_c_at(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    """Once, as soon as this line of progress is told."""
    shown, pressed = running.Progress.update, [False]

    def update(self, share: float, text: str, line: str) -> None:
        shown(self, share, text, line)
        if line.startswith(wanted) and not pressed[0]:
            pressed[0] = True
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(running.Progress, "update", update)


def stored() -> list[Path]:
    """The cells in the store."""
    return list(Path(os.environ["DPVIZ_STORE"]).glob("*/*"))


def test_a_run_writes_the_file_of_the_page_and_prints_the_final_table(shell, computed) -> None:
    code, out, err = shell("run experiment.json --out trace.csv")
    trace, plans = EXPERIMENT.run(), EXPERIMENT.plans()
    expected = to_csv(trace, EXPERIMENT, plans)
    assert code == 0 and Path("trace.csv").read_text() == expected
    for label, gap in final_table(trace, plans)[["algorithm", "objective_gap"]].itertuples(index=False):
        assert re.search(rf"^ *{re.escape(label)} .* {gap:.6g} ", out, re.M)
    assert "Publishing one run of each of 2 methods: ε = 4" in out and "100 %" in err
    code, again, err = shell("run experiment.json --out trace.parquet")
    assert code == 0 and again == out and "its numbers come from the store" in err and computed == [1, 0]
    frame = pd.read_parquet("trace.parquet")
    pd.testing.assert_frame_equal(frame, pd.read_csv(io.StringIO(expected), comment="#"), check_dtype=False)
    assert [f"# {line}" for line in frame.attrs["dpviz"]] == re.findall("^#.*", expected, re.M)


def test_a_sweep_has_the_numbers_of_the_library_and_is_there_at_once_the_second_time(shell, computed) -> None:
    sweep = Sweep(experiment=EXPERIMENT, fields=("budget.epsilon",), values=(0.5, 1, 2), metric="objective_gap")
    code, out, err = shell(f"sweep experiment.json --grid {GRID} --out results.csv")
    result = sweep.run()
    expected = sweep_to_csv(result, sweep)
    assert Path("results.csv").read_text() == expected
    median = np.median(result.curves["NAG"].samples[0])
    assert code == 0
    assert [line.partition(",")[0] for line in err.splitlines()] == [f"{done} of 3 points" for done in range(4)]
    assert re.search(rf"^ *0.5 +{median:.6g} ", out, re.M) and "epsilon " in out
    code, again, err = shell(f"sweep experiment.json --quiet --grid budget.{GRID} --out results.parquet")
    assert (code, again.split(), err) == (0, out.replace("epsilon ", "budget.epsilon ").split(), "")
    assert computed == [3, 3, 0]
    frame, same = pd.read_parquet("results.parquet"), pd.read_csv(io.StringIO(expected), comment="#")
    without = "data_seed"  # there is none
    pd.testing.assert_frame_equal(frame.drop(columns=without), same.drop(columns=without), check_dtype=False)
    assert len(stored()) == 3


def test_what_fails_for_one_reason_is_said_once(shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run = SerialExecutor.run

    def lost(self, cells, stopping, on_progress):
        yield from run(self, cells[:1], stopping, on_progress)
        yield from ((number, Outcome("failed", "The cluster was lost.")) for number in range(1, len(cells)))

    monkeypatch.setattr(SerialExecutor, "run", lost)
    code, out, err = shell(f"sweep experiment.json --quiet --grid {GRID}")
    said = "; ".join(f"{arm.label} at 1, 2" for arm in EXPERIMENT.arms)
    assert code == 1 and "NAG" in out and err == f"Left out: {said}. The cluster was lost.\n"


def test_two_settings_of_every_method_on_several_data_sets_in_two_slots(shell, monkeypatch) -> None:
    """Whose workers are threads here: processes are tested with the slots."""
    asked: list[tuple[int, bool, float]] = []

    def slots(count: int, processes: bool, max_bytes: float) -> Slots:
        asked.append((count, processes, max_bytes))
        return Slots(count)

    monkeypatch.setattr(backend, "Slots", slots)
    problem = LogisticRegression()
    addresses = tuple(f"arms.{place}.algorithm.iterations" for place in range(3))
    of = EXPERIMENT.replaced(problem=problem)
    Path("experiment.json").write_text(of.to_json())
    sweep = Sweep(
        experiment=of,
        fields=addresses,
        values=(2, 3),
        second=Axis(fields=("budget.epsilon",), values=(1.0, 1.0000001)),
        metric="objective",
        data_seed="problem.data.seed",
        data_seeds=(0, 7),
    )
    code, out, _ = shell(
        "sweep experiment.json --grid iterations=2,3 --grid epsilon=1,1.0000001 --metric objective --seeds 0,7 "
        "--workers 2 --store off --out results.csv"
    )
    assert code == 0 and out.count("1.0000001") == 2 and asked == [(2, True, math.inf)]
    assert Path("results.csv").read_text() == sweep_to_csv(sweep.run(), sweep)


def test_a_log_of_a_sweep_says_how_long_the_rest_takes(shell, monkeypatch) -> None:
    monkeypatch.setattr(running.Progress, "time_left", lambda *_: "5 seconds left")
    _, _, err = shell(f"sweep experiment.json --grid {GRID} --store off")
    assert "1 of 3 points, 5 seconds left" in err.splitlines()


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(shell, computed, monkeypatch) -> None:
    press_ctrl_c_at(monkeypatch, "2 of 3 points")
    code, _, err = shell(f"sweep experiment.json --grid {GRID} --out results.csv")
    assert code == 130 and "before the end. 2 of 3 points are finished. The same command goes on from there." in err
    assert sorted(set(pd.read_csv("results.csv", comment="#")["setting"])) == [0.5, 1]
    code, *_ = shell(f"sweep experiment.json --grid {GRID} --out results.csv")
    assert code == 0 and computed[-1] == 1
    sweep = Sweep(experiment=EXPERIMENT, fields=("budget.epsilon",), values=(0.5, 1, 2), metric="objective_gap")
    assert Path("results.csv").read_text() == sweep_to_csv(sweep.run(), sweep)


@pytest.mark.slow
def test_a_single_run_that_is_stopped_says_that_it_cannot_be_continued(shell, monkeypatch: pytest.MonkeyPatch) -> None:
    press_ctrl_c_at(monkeypatch, "50 %")
    code, _, err = shell("run experiment.json --out trace.csv")
    assert code == 130 and "trace.csv has what was recorded until then. A single run cannot be continued" in err
    assert 0 < len(pd.read_csv("trace.csv", comment="#")) < 3 * (7 + 5 + 6) and stored() == []


@pytest.mark.parametrize("own", [False, True])
def test_a_limit_of_time_ends_a_run_and_what_was_recorded_is_kept(shell, own: bool) -> None:
    """On one's own file, the step at which it ends is a function of the data."""
    if own:
        pd.DataFrame({"a": np.linspace(0, 1, 40), "target": ["no", "yes"] * 20}).to_csv("mine.csv", index=False)
        data = UploadedTable(identity="b" * 32, n=40, bounds=((0.0, 1.0),), names=("a",), positive="yes")
        of = Experiment(problem=LogisticRegression(data=data), arms=EXPERIMENT.arms)
        Path("own.json").write_text(to_settings(of))
    settings = "own.json --table mine.csv" if own else "experiment.json"
    code, _, err = shell(f"run {settings} --max-seconds 1e-9 --out trace.csv")
    assert code == 130 and "Stopped at the time limit." in err
    assert (DEPENDS in err) == own and "trace.csv has what was recorded until then." in err
    assert ("how far it came in its time depends on the data" in Path("trace.csv").read_text()) == own


@pytest.mark.slow
def test_ctrl_c_before_anything_runs_and_twice_ends_at_once(shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Experiment, "from_json", lambda text: signal.raise_signal(signal.SIGINT))
    code, out, err = shell("plan experiment.json")
    assert (code, out, err.strip()) == (130, "", "Interrupted.")
    with pytest.raises(KeyboardInterrupt), running.stopped_by_ctrl_c() as stopping:
        signal.raise_signal(signal.SIGINT)
        assert stopping.is_set()
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_where_it_was(shell, computed) -> None:
    """SIGKILL, as by a machine that goes down; the command itself, as a person types it."""
    values = [f"{1 + number / 10:g}" for number in range(20)]
    command = f"sweep experiment.json --grid budget.epsilon={','.join(values)} --out results.csv"
    arguments = [sys.executable, "-m", "dpviz", *shlex.split(command)]
    environment = {"PYTHONPATH": str(ROOT), "DPVIZ_STORE": "cells"}
    of = EXPERIMENT.replaced(replicates=200)  # so that there is something left to kill
    Path("experiment.json").write_text(to_settings(of))
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stderr is not None
        while not child.stderr.readline().startswith("3 of 20 points"):
            assert child.poll() is None
        child.kill()
    known = len(stored())
    assert 3 <= known < 20 and not Path("results.csv").exists()
    assert shell(command)[0] == 0 and computed == [20 - known]
    found = pd.read_csv("results.csv", comment="#").query("setting < 1.45")  # five values, which the child had begun
    first = Sweep(
        experiment=of, fields=("budget.epsilon",), values=tuple(map(float, values[:5])), metric="objective_gap"
    )
    expected = first.run().to_frame().sort_values(["algorithm", "setting", "replicate"])
    np.testing.assert_array_equal(found.sort_values(["algorithm", "setting", "replicate"])["value"], expected["value"])


@pytest.mark.parametrize(
    ("command", "code", "sentence"),
    [
        ("run", 2, "Give a file with settings, or the name of a preset"),
        ("run experiment.json --preset x", 2, "Give a file with settings, or the name of a preset"),
        ("run absent.json", 2, "There is no file absent.json"),
        ("run binary.json", 2, "This file is no text."),
        ("run words.json", 2, "These settings are not valid JSON."),
        ("run other.json", 2, "Experiment needs problem."),
        ("run list.json", 2, "All of it must be an Experiment"),
        ("run --preset Nothing", 2, "No preset is called 'Nothing'. `dpviz presets` lists them."),
        ("run --preset 'Start here'", 2, "Write more of the name."),
        ("run experiment.json --out trace.xlsx", 2, "'trace.xlsx' must end in .csv or .parquet."),
        ("run experiment.json --out absent/trace.csv", 2, "'absent' is no folder that you may write to."),
        ("run experiment.json --out words.json/trace.csv", 2, "'words.json' is no folder that you may write to."),
        ("run foreign.json", 2, "Module typo, named by DPVIZ_MODULES, cannot be imported: "),
        ("run experiment.json --figure absent/run.html", 2, "'absent' is no folder that you may write to."),
        ("run experiment.json --figure run.png", 2, "'run.png' must end in .html or .htm."),
        ("--module ../mine run experiment.json", 2, "Module ../mine cannot be imported."),
        ("--module typo run experiment.json", 2, "Module typo cannot be imported. SyntaxError"),
        ("statistics a=count --rows 9 --budget mu=1 --report absent/a.html", 2, "'absent' is no folder"),
        ("run experiment.json --delta 2", 2, "--delta"),
        ("run experiment.json --delta nan", 2, "nan is not a number."),
        ("run experiment.json --max-seconds nan", 2, "nan is not a number."),
        ("run experiment.json --table experiment.json", 2, "These settings bring their own data."),
        ("run impossible.json", 2, "does not work on the problem"),
        ("run late.json", 1, "Error: "),
        ("sweep experiment.json", 2, "Missing option '--grid'"),
        ("sweep experiment.json --grid epsilon", 2, "needs the form NAME=VALUE,VALUE,…"),
        ("sweep experiment.json --grid budget.epsilon=1,x", 2, "'x' is not a number."),
        ("sweep experiment.json --grid epsilo=1", 2, "Did you mean epsilon? They have: epsilon, "),
        ("sweep experiment.json --grid budget.epsilo=1", 2, "'epsilo' is not a number among these settings."),
        ("sweep experiment.json --grid budget.epsilon=1000", 2, "Privacy budget must be between 10⁻⁹ and 500"),
        ("sweep experiment.json --grid budget.epsilon=1,1", 2, "every value of a sweep must be another one"),
        ("sweep experiment.json --grid epsilon=1e400,1", 2, "'1e400' is not a finite number."),
        ("sweep experiment.json --grid epsilon=1,2 --grid budget.epsilon=3", 2, "vary another setting beside it."),
        ("sweep experiment.json --grid iterations=1 --grid arms.0.algorithm.iterations=2", 2, "one value at a time"),
        ("sweep experiment.json --grid seed=1 --seeds seed=1", 2, "one value at a time"),
        ("sweep experiment.json --grid epsilon=1 --seeds seed=1,1", 2, "every data set needs a seed of its own."),
        ("sweep experiment.json --grid replicates=2.5", 2, "Repeats must be a whole number."),
        ("sweep experiment.json --grid seed=1 --grid replicates=2 --grid budget.epsilon=1", 2, "one --grid, or two"),
        ("sweep experiment.json --grid epsilon=1 --seeds 1,2", 2, "so they have no seed. Leave --seeds out."),
        ("sweep experiment.json --grid epsilon=1 --seeds seed=1.5", 2, "Seeds are whole numbers"),
        ("sweep experiment.json --grid epsilon=1 --workers 65", 2, "'--workers'"),
        ("sweep experiment.json --grid epsilon=1 --dask nowhere", 2, "'nowhere' is no address of a Dask scheduler."),
        ("sweep experiment.json --grid epsilon=1 --metric gap", 2, "'gap' for you to see. There are: objective_gap,"),
        ("sweep late.json --grid epsilon=1", 1, "Error: "),
        ("plan experiment.json --frobnicate", 2, "No such option"),
        ("frobnicate", 2, "No such command 'frobnicate'"),
    ],
)
def test_a_mistake_is_a_sentence_and_an_exit_code(shell, monkeypatch, command: str, code: int, sentence: str) -> None:
    Path("binary.json").write_bytes(b"\xff\xfe\x00")
    Path("words.json").write_text("Chapter 1")
    Path("other.json").write_text("{}")
    Path("list.json").write_text("[]")
    Path("typo.py").write_text("1 +")
    Path("foreign.json").write_text(EXPERIMENT.to_json().replace("families.accelerated.nesterov", "mine.nesterov"))
    monkeypatch.setenv("DPVIZ_MODULES", " os, typo")
    specification._import_foreign_modules.cache_clear()  # other tests may have imported none
    monkeypatch.syspath_prepend(".")
    Path("impossible.json").write_text(EXPERIMENT.replaced(arms=(STRANGE,)).to_json())
    Path("late.json").write_text(EXPERIMENT.to_json())
    if "late" in command:
        monkeypatch.setattr(
            SerialExecutor, "run", lambda self, cells, *rest: iter([(0, Outcome("failed", "Too large."))])
        )
        sentence += "Too large."
    found, out, err = shell(command)
    assert (found, out) == (code, "") and sentence in err


def test_a_mistake_of_ours_is_a_sentence_too_unless_somebody_looks_for_it(shell, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Experiment, "planned", lambda experiment: 1 / 0)
    code, out, err = shell("plan experiment.json")
    assert (code, out) == (1, "") and "Something went wrong on our side." in err and "--debug shows where" in err
    assert main.run(["--debug", "plan", "experiment.json"]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_plan_says_what_the_plans_hold(shell) -> None:
    code, out, _ = shell("plan experiment.json")
    assert code == 0 and "Guarantee: ε = 2, one row replaced." in out
    Path("partly.json").write_text(EXPERIMENT.replaced(arms=(*EXPERIMENT.arms, STRANGE)).to_json())
    code, same, err = shell("plan partly.json")
    assert (code, same) == (0, out) and err.startswith("Left out: games only. Algorithm and problem do not fit.")
    plans = EXPERIMENT.plans()
    code, text, _ = shell("plan experiment.json --json --delta 1e-5")
    found = json.loads(text)
    assert code == 0 and [method["method"] for method in found["methods"]] == list(plans)
    nag, _, floor = found["methods"]
    noise = plans["NAG"].noise["gradient"]
    assert nag["noise"]["gradient"] == {"first": noise[0], "last": noise[-1]} and nag["steps"] == 6
    assert nag["delta"] == 1e-5 and 0 < nag["epsilon"] <= 2 and floor["epsilon"] is None
    budgets = [(arm.budget or EXPERIMENT.budget) for arm in EXPERIMENT.arms]
    assert [method["guarantee"] for method in found["methods"]] == [json.loads(budget.to_json()) for budget in budgets]


def test_presets_are_listed_and_are_the_settings_of_the_pages(shell, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delattr(os, "getcwd")  # which fails in a folder that was deleted
        code, out, _ = shell("presets")
    names = [preset.name for found in families.presets().values() for preset in found]
    assert code == 0 and len(names) > 20 and all(name in out for name in names)
    assert names == [name for _, name in families.preset_names()]
    for found in families.presets().values():
        code, out, _ = shell("presets", found[-1].name.upper())
        assert code == 0 and Experiment.from_json(out) == found[-1].experiment


def test_ones_own_file_is_read_shown_as_on_the_page_and_kept_nowhere(shell) -> None:
    rng = np.random.default_rng(0)
    pd.DataFrame({"a": rng.uniform(size=40), "b": rng.uniform(size=40), "target": [0, 1] * 20}).to_csv(
        "mine.csv", index=False
    )
    data = UploadedTable(identity="b" * 32, n=40, bounds=((0.0, 1.0), (0.0, 1.0)), names=("a", "b"))
    own = Experiment(problem=LogisticRegression(data=data), arms=EXPERIMENT.arms, replicates=2)
    Path("own.json").write_text(to_settings(own))
    assert shell("run own.json")[::2] == (
        2,
        "Please check your settings. These settings are for a file of your own. Say where it is: --table FILE.\n",
    )
    code, out, err = shell("run own.json --table mine.csv --out trace.csv")
    assert "This run makes 4 releases, ε = 8 by adding up; with 1 repeat ε = 4." in err
    frame = pd.read_csv("trace.csv", comment="#")
    assert code == 0 and set(frame["algorithm"]) == {"NAG", "GD #1"} and "floor" not in out
    assert "one row replaced" in out
    assert not [name for name in frame if name.endswith("_nonprivate")]
    code, out, _ = shell("run own.json --table mine.csv --out all.csv --diagnostics")
    assert code == 0 and "floor (not private)" in out and "NAG (not private)" not in out
    assert "objective_nonprivate" in pd.read_csv("all.csv", comment="#")
    code, out, err = shell("sweep own.json --table mine.csv --grid epsilon=1,2 --out results.csv")
    price = "8 releases, ε = 12 by adding up; with 1 repeat ε = 6"
    assert f"This sweep makes {price}." in err and f"Publishing all of it: {price}." in out
    assert f"# publishing all of it: {price}" in Path("results.csv").read_text()
    assert code == 0 and set(pd.read_csv("results.csv", comment="#")["metric"]) == {"distance"}
    code, _, err = shell("sweep own.json --table mine.csv --grid epsilon=1 --metric objective")
    assert code == 2 and "reads your raw data" in err
    assert stored() == []
    filled = own.replaced(problem=own.problem.replaced(data=data.replaced(from_data=(("bounds", "a"),))))
    Path("filled.json").write_text(to_settings(filled))
    asked = "sweep filled.json --table mine.csv --grid epsilon=1,2 --metric objective --diagnostics"
    code, out, _ = shell(asked)
    assert code == 0 and "these were known beforehand: the range of “a”; one row replaced." in out
    assert "Every run is private" not in out and "What private methods release is private" in out  # not what is printed


def test_a_run_that_releases_no_series_leaves_the_picture_of_its_plan(shell) -> None:
    pd.DataFrame({"a": ["x", "y"] * 20, "b": ["u"] * 40}).to_csv("mine.csv", index=False)
    data = dpviz.table("mine.csv", categories={"a": ["x", "y"], "b": ["u", "v"]})
    own = Experiment(dpviz.MarginalQueries(data=data), dpviz.SyntheticData(iterations=2), epsilon=1, delta=1e-3)
    Path("own.json").write_text(to_settings(own))
    for diagnostics, pictures in (("", 1), (" --diagnostics", 2)):
        code, _, err = shell(f"run own.json --table mine.csv --figure out.html{diagnostics}")
        assert code == 0 and ("release no series" in err) == (pictures == 1)
        assert Path("out.html").read_text("utf-8").count("<figure>") == pictures


def test_a_file_that_cannot_be_written_in_the_end_is_a_sentence_and_leaves_the_old_one(shell, monkeypatch) -> None:
    Path("trace.csv").write_text("old")

    def full(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    code, out, err = shell("run experiment.json --out trace.csv")
    assert code == 1 and "trace.csv could not be written: No space left on device." in err and "NAG" in out
    assert Path("trace.csv").read_text() == "old" and list(Path().glob("*.part")) == []


@pytest.mark.parametrize(
    ("command", "module", "columns"),
    [
        ("run experiment.json", running, {"iteration", "metric", "value", "released"}),
        (f"sweep experiment.json --grid {GRID}", running, {"setting", "replicate", "value"}),
    ],
)
def test_a_mistake_of_ours_in_the_end_does_not_lose_what_was_computed(
    shell, monkeypatch, tmp_path: Path, command: str, module: ModuleType, columns: set[str]
) -> None:
    monkeypatch.setattr(module, "table_as_text", lambda *_: 1 / 0)
    code, _, err = shell(f"{command} --store off")
    (path,) = tmp_path.glob("dpviz_*.csv")
    assert code == 1 and f"{path} has all numbers." in err and path.stat().st_mode & 0o077 == 0
    found = pd.read_csv(path)
    assert set(found["algorithm"]) == {arm.label for arm in EXPERIMENT.arms} and columns <= set(found)


def test_a_table_leaves_blank_what_a_row_does_not_have() -> None:
    found = pd.DataFrame({"method": ["one", "two"], "ended": [math.nan, "2 of 5"], "gap": [0.25, math.nan]})
    first, second, third = table_as_text(found).splitlines()
    assert first.split() == ["method", "ended", "gap"] and third.split() == ["two", "2", "of", "5"]
    assert second.split() == ["one", "0.25"]


def test_a_method_may_be_called_as_a_setting_and_what_it_spends_is_rounded_up(shell) -> None:
    """Under the headings of the page, too, as under the names of the columns."""
    arms = tuple(
        arm.replaced(label=label) for arm, label in zip(EXPERIMENT.arms, ("setting", "epsilon", "third"), strict=True)
    )
    Path("names.json").write_text(to_settings(EXPERIMENT.replaced(arms=arms, budget=PureDP(epsilon=1.2345664))))
    assert shell("run names.json -q")[1].count(" 1.23457 ε ") == 2
    code, out, _ = shell("sweep names.json -q --grid epsilon=0.5,1")
    _, headings, first, _ = out.splitlines()
    assert code == 0 and headings.split() == ["epsilon", "setting", "epsilon", "third"]
    assert first.split()[0] == "0.5" and len(first.split()) == 4


def short(arm: Arm) -> Arm:
    """The same method for a few steps, if that can be set: it is then its first number."""
    few = {control.name: control.type(8) for control in arm.algorithm.controls()[:1] if control.low is not None}
    return arm.replaced(algorithm=arm.algorithm.replaced(**few))


@pytest.mark.slow
@pytest.mark.parametrize(
    "preset", [pytest.param(preset, id=preset.name) for named in families.presets().values() for preset in named]
)
def test_every_preset_goes_through_every_command(shell, preset: Preset) -> None:
    """As it is where nothing runs; as one short run of each method where something does, and a sweep of the first two:
    at their full length presets run in the tests of their families."""
    every, labels = ("--preset", preset.name), {arm.label for arm in preset.experiment.arms}
    assert Experiment.from_json(shell("presets", preset.name)[1]) == preset.experiment
    code, out, err = shell("plan", *every)
    assert (code, err) == (0, "") and all(label in out for label in labels)
    code, _, err = shell("sweep", *every, "--grid", "nothing=1")
    assert code == 2 and all(name in err for name in settings(preset.experiment))
    one = preset.experiment.replaced(replicates=1, arms=tuple(map(short, preset.experiment.arms)))
    Path("experiment.json").write_text(to_settings(one))
    code, out, err = shell("run experiment.json --out trace.csv --quiet")
    assert (code, err) == (0, "") and all(label in out for label in labels)
    assert set(pd.read_csv("trace.csv", comment="#")["algorithm"]) == labels
    Path("experiment.json").write_text(to_settings(one.replaced(arms=one.arms[:2])))
    code, out, err = shell("sweep experiment.json --grid replicates=1 --out sweep.csv --quiet")
    assert (code, err) == (0, "") and "replicates" in out
    assert set(pd.read_csv("sweep.csv", comment="#")["algorithm"]) <= labels


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_what_a_link_points_to_is_written_and_a_long_name_is_no_mistake_of_ours(shell) -> None:
    Path("link.csv").symlink_to("target.csv")
    assert shell("run experiment.json --out link.csv")[0] == 0
    assert Path("link.csv").is_symlink() and len(pd.read_csv("target.csv", comment="#"))
    assert shell(f"run experiment.json --out {'x' * 249}.csv")[0] == 0
    code, _, err = shell(f"run experiment.json --out {'x' * 300}.csv")
    assert code == 1 and "could not be written: File name too long." in err


def test_an_output_that_is_full_is_a_sentence(shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(looking, "rows_as_text", full)
        code, _, err = shell("plan experiment.json")
    assert (code, err) == (1, "No space left on device.\n")


def test_progress_that_cannot_be_written_as_to_a_closed_terminal_ends_no_run(shell, monkeypatch) -> None:
    def gone(_: str, err: bool = False) -> None:
        if err:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(click, "echo", gone)
    assert shell("run experiment.json --out trace.csv")[0] == 0 and Path("trace.csv").exists()
    monkeypatch.setattr(sys, "stderr", None)  # as by `2>&-`
    assert main.run(["run", "experiment.json", "--store", "off"]) == 0


def test_a_store_that_does_not_work_is_said_and_the_run_goes_on(shell) -> None:
    code, out, err = shell("run experiment.json --store experiment.json/cells")
    assert code == 0 and "NAG" in out and "Finished runs are not kept" in err
    code, *_ = shell("run experiment.json --store off")
    assert code == 0 and stored() == []


@pytest.mark.parametrize("command", ["run", "sweep", "plan", "presets", "serve"])
def test_every_command_explains_itself_with_an_example(shell, command: str) -> None:
    code, out, _ = shell(f"{command} --help")
    assert code == 0 and f"Example:\n    dpviz {command}" in out
    assert re.search(rf"^  {command} ", shell("--help")[1], re.M)


def test_the_dashboard_is_started_where_its_pages_are(shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[tuple[Path, list[str], Mapping[str, str]]] = []

    def replaced(_: str, program: list[str], environment: Mapping[str, str]) -> NoReturn:
        started.append((Path.cwd(), program, environment))
        raise SystemExit(0)

    monkeypatch.setattr(os, "execve", replaced)
    monkeypatch.setenv("DPVIZ_STORE", "mine")
    for store in ("", "--store '~/mine'", "--store OFF"):
        with pytest.raises(SystemExit):
            shell(f"serve --port 8600 --workers 0 {store} --no-browser")
        os.chdir(tmp_path)
    ((folder, program, environment), *others) = started
    assert program[1:] == ["-m", "streamlit", "run", "app.py", "--server.port=8600", "--server.headless=true"]
    assert (folder / "app.py").exists() and environment["DPVIZ_WORKERS"] == "0"
    assert environment["DPVIZ_STORE"] == str(tmp_path / "mine")
    assert [other["DPVIZ_STORE"] for _, _, other in others] == [str(Path.home() / "mine"), "OFF"]
    monkeypatch.setattr(resources, "__file__", "/nowhere/dpviz/resources.py")
    code, _, err = shell("serve --no-browser")
    assert code == 2 and "The pages of the dashboard are missing" in err


def test_a_class_is_served_in_the_network_under_the_names_of_this_machine(
    shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And never without the flag; no other machine is asked for the address."""
    started: list[list[str]] = []
    up = {name: SimpleNamespace(isup=name != "down") for name in ("lo", "wifi", "cable", "down")}
    addresses = {"lo": "127.0.0.1", "down": "10.0.0.1", "cable": "169.254.3.3", "wifi": "192.168.1.7"}
    network = {name: [SimpleNamespace(family=socket.AF_INET, address=at)] for name, at in addresses.items()}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: up)
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: network)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *asked, **_: pytest.fail(f"{asked[0]} is asked"))
    monkeypatch.setattr(socket, "gethostname", lambda: "Desk")
    monkeypatch.setattr(os, "chdir", lambda _: None)
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: started.append(command))
    monkeypatch.setattr(os, "execve", lambda _, program, __: started.append(program))
    monkeypatch.setenv("STREAMLIT_SERVER_ALLOWED_HOSTS", "dpviz.example.org")
    _, out, _ = shell("serve --class --port 8600")
    opened, program = started
    assert opened[-2:] == ["8600", "http://localhost:8600/learn?class=new"] and "http://192.168.1.7:8600/c\n" in out
    options = [option.removeprefix("--").split("=") for option in program[5:]]
    assert ["server.address", "0.0.0.0"] in options and ["browser.serverAddress", "192.168.1.7"] in options
    names = ["localhost", "127.0.0.1", "::1", "192.168.1.7", "desk", "desk.local", "dpviz.example.org"]
    assert [value for option, value in options if option == "server.allowedHosts"] == names
    started.clear()
    with socket.create_server(("127.0.0.1", 0)) as other:  # whose page must not be opened
        shell(f"serve --port {other.getsockname()[1]}")
    assert len(started) == 1 and not any("address" in option or "Hosts" in option for option in started[0])
    del network["wifi"]
    code, _, err = shell("serve --class --no-browser")
    assert code == 2 and "network" in err and len(started) == 1


def test_a_preset_runs_by_its_name_with_numbers_changed_and_leaves_a_picture(shell) -> None:
    name = "Start here: same"
    code, out, _ = shell(
        f'run "{name}" --set epsilon=1 --set iterations=5 --set replicates=2 --figure out.html --store off'
    )
    assert code == 0 and "Excess loss F(x_t) - F*" in out and "objective_gap" not in out
    page = Path("out.html").read_text()
    assert page.count("Plotly.newPlot") == 2 and "Not private" in page and "ε = 1, one row replaced" in page
    assert shell(f'run "{name}" --set epsilon=1,2')[0] == 2 and shell(f'run "{name}" --set no=1')[0] == 2


def test_a_plan_is_made_without_what_it_does_not_need() -> None:
    """Neither tables nor pictures, and of the families only that of the preset."""
    named = [
        "pandas",
        "pyarrow",
        "plotly",
        "streamlit",
        "jinja2",
        "dpviz.execution.runner",
        "dpviz.families.second_order",
    ]
    program = (
        "import sys; from dpviz.cli import main; main.run(['plan', '--preset', 'Start here: same']); "
        f"print([name for name in {named} if name in sys.modules])"
    )
    out = subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True, encoding="utf-8")
    assert out.startswith("Guarantee") and out.splitlines()[-1] == "[]"


def test_help_and_the_error_about_a_missing_file_import_no_command() -> None:
    told = {name: main.command(name).get_short_help_str(100) for name in main.COMMANDS}
    assert told == {name: words["says"] for name, words in main.COMMANDS.items()}
    program = (
        "import sys; from dpviz.cli import main; main.run(sys.argv[1:]); print({'numpy', 'click'} & {*sys.modules})"
    )
    for command in (
        "--help",
        "plan absent.json",
        "audit absent.json",
        "run x --table absent.csv",
        "run x --table=absent",
    ):
        out = subprocess.check_output([sys.executable, "-c", program, *command.split()], cwd=ROOT, text=True)
        assert out.endswith("{'click'}\n") and (command != "--help" or re.search("^  sweep ", out, re.M)), command


def test_statistics_are_those_of_the_planner_and_their_mistakes_are_sentences(shell) -> None:
    asked = "age=mean:0,100 smokers=count pay=sum:0,9 city=histogram:12 median=quantile:0,200000,0.5,1001"
    code, out, _ = shell(f"statistics {asked} --rows 5000 --budget rho=0.1 --json --report plan.html")
    statistics = (
        Mean(name="age", highest=100.0),
        Count(name="smokers"),
        Sum(name="pay", highest=9.0),
        Histogram(name="city", bins=12),
        Quantile(name="median", highest=200_000.0, candidates=1001),
    )
    budget = ZeroConcentratedDP(rho=0.1)
    planned = Analyses(rows=5000, statistics=statistics).planned(budget)
    told = json.loads(out)
    assert code == 0 and [row["name"] for row in told] == ["age", "smokers", "pay", "city", "median"]
    for row, p in zip(told, planned, strict=True):
        assert (row["error"], row["scale"]) == (p.error, p.scale), "all digits"
        assert row["rows_needed"] == p.rows_needed(0.05) and row["unit"] == (p.statistic.unit or "column")
    assert "smokers" in Path("plan.html").read_text("utf-8")
    assert dpviz.statistics(budget, statistics, rows=5000).to_frame()["error"].tolist() == [p.error for p in planned]
    code, out, _ = shell("statistics age=count --rows 5000 --rows-per-person 3 --budget epsilon=1 --json")
    assert code == 0 and json.loads(out)[0]["scale"] == pytest.approx(3)
    code, out, _ = shell("statistics bins=histogram:9 --rows 5000 --secret-rows --budget epsilon=1")
    assert code == 0 and "one row added or removed, about 5,000 rows" in out and re.search("laplace +1 ", out)
    code, out, _ = shell("statistics age=mean:0,100 --rows 5000 --budget epsilon=1")
    assert code == 0 and "ε = 1, one row replaced" in out and re.search("^age +0.06 ", out, re.M)
    for wrong, words in (
        ("age --rows 9 --budget mu=1", "age=mean:0,100"),
        ("age=maen:0,1 --rows 9 --budget mu=1", "Did you mean 'mean'?"),
        ("age=mean --rows 9 --budget mu=1", "declare the range"),
        ("age=count:3 --rows 9 --budget mu=1", "takes no numbers"),
        ("age=mean:1,0 --rows 9 --budget mu=1", "below the highest"),
        ("age=histogram:2.5 --rows 9 --budget mu=1", "a whole number"),
        ("age=count --rows 9 --budget eps=1", "epsilon=…,delta=…"),
        ("age=count --rows 0 --budget mu=1", "Rows must be"),
        ("age=count --budget mu=1", "--rows"),
    ):
        code, _, err = shell(f"statistics {wrong}")
        assert code == 2 and words in err, (wrong, err)


def test_an_audit_in_the_shell_is_that_of_its_page(shell) -> None:
    listed = shell("audit")[1]
    assert len(listed.splitlines()) > 50 and "accelerated.gradient_descent  (DP-GD" in listed
    code, out, _ = shell("audit gradient_descent --budget epsilon=1 --runs 400 --seed 1 --json")
    verdict = dpviz.audit(dpviz.GradientDescent, dpviz.PureDP(1), runs=400, seed=1)
    assert code == 0 and json.loads(out)["bound"] == verdict.bound
    assert str(verdict) in shell("audit accelerated.gradient_descent --budget epsilon=1 --runs 400 --seed 1")[1]
    mistake = next(mistake for mistake in dpviz.families.broken() if mistake.by == "attack")
    auditing = Auditing(family="broken", case=mistake.name, budget=mistake.budget, runs=mistake.runs, seed=1)
    Path("audit.json").write_text(auditing.to_json())
    code, out, _ = shell("audit audit.json")
    assert code == 1 and "Violation: the attack proves" in out
    for wrong, words in (
        ("nestrov", "Did you mean 'nesterov'?"),
        ("small", "accelerated.small, second_order.small"),
        ("audit.json --seed 2", "The file says all of it."),
        ("experiment.json", "settings of Experiment, not of Auditing"),
    ):
        code, _, err = shell(f"audit {wrong}")
        assert code == 2 and words in err, (wrong, err)


@pytest.mark.slow
def test_the_commands_of_the_document_work_as_written(shell) -> None:
    document = (ROOT / "dpviz" / "cli" / "README.md").read_text()
    block = re.findall(r"<!-- shell-example -->\n```bash\n(.*?)```", document, re.DOTALL)[0]
    for line in block.splitlines():
        words = shlex.split(line)
        assert words.pop(0) == "dpviz"
        code, out, _ = shell(shlex.join(words[: words.index(">")] if ">" in words else words))
        assert code == 0
        if ">" in words:
            Path(words[-1]).write_text(Experiment.from_json(out).replaced(replicates=1).to_json())
    assert len(pd.read_csv("trace.csv", comment="#")) > 100
    assert sorted(set(pd.read_parquet("results.parquet")["setting"])) == [0.1, 0.3, 1, 3]
    (examples,) = re.findall(r"Example:\n(.*?)\n\n", shell("--help")[1], re.DOTALL)
    assert {re.split("   ", line.strip())[0] for line in examples.splitlines()} <= set(block.splitlines())
