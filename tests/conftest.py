"""Markers: every test is `unit`, `pages` or `browser` by where it stands, or else `slow`; and no store but its own.

A browser on a machine that does other things may be late: what fails there is tried once more, and named at the end.
The last lines say what the tests cost (`tests/costs.py`).
"""

import ctypes
import gc
import logging
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from streamlit.components.v2 import manifest_scanner

from tests.costs import Costs

# Pages that run in the tests' own process compute there, too: nothing to start, and a test can look inside.
os.environ["DPVIZ_WORKERS"] = "0"
os.environ["DPVIZ_STORE"] = "off"  # what is tested is computed
os.environ["DPVIZ_TRAINERS"] = "0"  # the other processors have tests of their own to run

if sys.platform == "linux":  # a Chromium of root's would give itself a higher priority: prctl(2), capabilities(7)
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


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(NO_BROWSER))


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
