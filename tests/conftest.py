"""Markers: every test is `unit`, `pages` or `browser` by where it stands, or else `slow`; and no store but its own.

A browser on a machine that does other things may be late: what fails there is tried once more, and named at the end.
The last lines say what the tests cost in processor time, which hardly depends on what else the machine does.
"""

import ctypes
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from streamlit.components.v2 import manifest_scanner

from dpviz import processes

# Pages that run in the tests' own process compute there, too: nothing to start, and a test can look inside.
os.environ["DPVIZ_WORKERS"] = "0"
os.environ["DPVIZ_STORE"] = "off"  # what is tested is computed
os.environ["DPVIZ_TRAINERS"] = "0"  # the other processors have tests of their own to run

# Children have the lowest priority: beside tests of the usual one, on busy processors, they would wait for minutes.
if hasattr(os, "setpriority"):
    os.setpriority(os.PRIO_PROCESS, 0, max(os.getpriority(os.PRIO_PROCESS, 0), processes.LOWEST - 1))
if sys.platform == "linux":  # nor may a Chromium that root starts give itself a higher one: prctl(2), capabilities(7)
    PR_CAPBSET_DROP, CAP_SYS_NICE = 24, 23
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0)

# Containers often forbid it, but rewriting the assertions of all tests takes half a minute in each process, and every
# server and worker that a test starts would compile dpviz again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Nothing that is collected is thrown away: looking through it again and again takes seconds in each process.
gc.disable()

TESTS = Path(__file__).parent
MARKERS = {"browser": "browser", "pages": "pages", "ui": "pages", "benchmarks": "slow"}  # by folder; unit elsewhere

# An expectation, or Playwright's patience, and nothing else. A server's traceback is a fault, however rare.
ONCE_MORE = pytest.mark.flaky(
    reruns=1, only_rerun=r"^(AssertionError|TimeoutError|TargetClosedError|Error)\b", rerun_except="Traceback"
)


# Of the tests of pages and in a browser these are quick, and the others slow: see "Tests" in CONTRIBUTING.md.
QUICK = frozenset((TESTS / "quick.txt").read_text().splitlines())

# The same examples in each run; the nightly script sets the other profile, which prints how to repeat a failure.
settings.register_profile("gate", deadline=None, derandomize=True)
settings.register_profile("nightly", deadline=None, derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

NO_BROWSER = "no Chromium: apt-get install chromium, or set the variable CHROMIUM to its path"
LONG = 3.0  # seconds of a processor; what is longer is slow, except:
MAY_BE_LONG = ("tests/browser/", "tests/families/test_mutants.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--most-seconds", type=float, help="fail if a test takes more seconds of a processor")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m unit` and the like, files in folders of other markers are not even imported."""
    only = config.option.markexpr
    if only not in ("unit", "pages", "browser") or collection_path.parent != TESTS or not collection_path.is_dir():
        return None
    return True if MARKERS.get(collection_path.name, "unit") != only else None


@cache
def of_file(path: Path) -> str:
    """The marker of the tests of a file, by its folder."""
    return MARKERS.get(path.relative_to(TESTS).parts[0], "unit")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: Counter[str] = Counter()
    for item in items:
        if some := item.get_closest_marker("one_in"):
            test = item.nodeid.partition("[")[0]
            if cases[test] % some.args[0]:
                item.add_marker("slow")
            cases[test] += 1
        marker = of_file(item.path)
        if marker != "unit" or item.get_closest_marker("slow") is None:
            item.add_marker(marker)
        if marker == "browser":
            item.add_marker(ONCE_MORE)
            if "CI" not in os.environ and not has_browser():
                item.add_marker(pytest.mark.skip(reason=NO_BROWSER))
        if item.path.relative_to(TESTS).parts[0] in ("pages", "browser") and item.nodeid not in QUICK:
            item.add_marker("slow")


@cache
def has_browser() -> bool:
    """Whether the tests in a browser can run."""
    from tests.browser.serving import executable

    try:
        return bool(executable())
    except RuntimeError:
        return False


def processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


class Costs:
    """What each test costs; in the process that prints the summary, all of them."""

    def __init__(self) -> None:
        self.began = 0.0
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logstart(self) -> None:
        self.began = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "call":  # processes that several tests share end later
            report.user_properties.append(("processor", processor_seconds() - self.began))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            seconds = dict(report.user_properties)["processor"]
            assert isinstance(seconds, float)
            self.seconds[report.nodeid] = seconds

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        most = session.config.option.most_seconds
        if most is not None and any(s > most and not test.startswith(MAY_BE_LONG) for test, s in self.seconds.items()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        long = {test: seconds for test, seconds in self.seconds.items() if seconds > LONG}
        for test, seconds in sorted(long.items(), key=lambda pair: -pair[1])[:20]:
            terminalreporter.line(f"{seconds:6.1f} s of a processor: {test}")
        terminalreporter.line(f"{processor_seconds():.0f} s of processor time, with all child processes.")
        if any(NO_BROWSER in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
            terminalreporter.line(f"The tests in a browser were left out: {NO_BROWSER}.")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())


def pytest_collection_finish() -> None:
    """Streamlit's 65 loggers hand on to the root: to each that does not, pytest adds its handlers in every test.

    From here on garbage is collected again.
    """
    gc.enable()
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("streamlit") and isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.fixture(scope="session", autouse=True)
def packages_are_looked_through_once() -> Iterator[None]:
    """Every page of a test asks all installed packages whether they have components: two thirds of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield
