"""Only tests in the browser are tried twice, only for what a slow machine may cause, and never without saying so."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TRIED = """
import pytest

class TimeoutError(Exception): ...

tries, started = {}, []

@pytest.fixture(scope="session")
def server():
    started.append(1)
    yield started

def once(name, error):
    tries[name] = tries.get(name, 0) + 1
    if tries[name] == 1:
        raise error

def test_late_once(server):
    once("expectation", AssertionError("not there yet"))
    assert started == [1]

def test_impatient_once(server):
    once("patience", TimeoutError("30 s exceeded"))

def test_never(server):
    assert False, "nowhere"

def test_bug_once(server):
    once("bug", KeyError("x"))

def test_traceback_once(server):
    once("traceback", AssertionError("the server printed: Traceback"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "2", "--dist", "loadfile"]], ids=["alone", "distributed"])
def test_second_chances_are_for_the_browser_and_are_named(tmp_path: Path, workers: list[str]) -> None:
    for name in ("conftest.py", "quick.txt"):
        shutil.copy(ROOT / "tests" / name, tmp_path)
    for folder in ("browser", "problems"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"test_{folder}.py").write_text(TRIED)
    printed = said(tmp_path, *workers, "--max-suite-reruns=9")
    failed = set(re.findall(r"^FAILED \S+/(\w+)\.py::(\w+)", printed, re.MULTILINE))
    everything = {"test_late_once", "test_impatient_once", "test_never", "test_bug_once", "test_traceback_once"}
    assert {name for file, name in failed if file == "test_problems"} == everything
    assert {name for file, name in failed if file == "test_browser"} == everything - {
        "test_late_once",
        "test_impatient_once",
    }
    assert "8 failed, 2 passed, 3 rerun" in printed
    again = printed.partition("rerun test summary info")[2]
    assert "not there yet" in again and "30 s exceeded" in again  # why, where it passed in the end


@pytest.mark.slow
def test_three_are_too_many(tmp_path: Path) -> None:
    for name in ("conftest.py", "quick.txt"):
        shutil.copy(ROOT / "tests" / name, tmp_path)
    (tmp_path / "browser").mkdir()
    (tmp_path / "browser" / "test_browser.py").write_text(
        "import pytest\n\ntries = []\n\n\n@pytest.mark.parametrize('number', range(3))\ndef test_late(number):\n"
        "    tries.append(number)\n    assert tries.count(number) > 1\n"
    )
    assert "1 failed, 2 passed, 2 rerun" in said(tmp_path)


def said(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    return subprocess.run([*command, *options, str(folder)], capture_output=True, text=True, cwd=folder).stdout
