"""Markers: every test is `unit`, `pages` or `browser` by where it stands, or else `slow`; and no store but its own.

A browser on a machine that does other things may be late: what fails there is tried once more, and named at the end.
"""

import logging
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from streamlit.components.v2 import manifest_scanner

from dpviz import processes

# Pages that run in the tests' own process compute there, too: nothing to start, and a test can look inside.
os.environ["DPVIZ_WORKERS"] = "0"
os.environ["DPVIZ_STORE"] = "off"  # what is tested is computed
os.environ["DPVIZ_TRAINERS"] = "0"  # the other processors have tests of their own to run

TESTS = Path(__file__).parent

# An expectation, or Playwright's patience, and nothing else. A server's traceback is a fault, however rare.
ONCE_MORE = pytest.mark.flaky(
    reruns=1, only_rerun=r"^(AssertionError|TimeoutError|TargetClosedError|Error)\b", rerun_except="Traceback"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder == "browser":
            item.add_marker("browser")
            item.add_marker(ONCE_MORE)
        elif folder in ("pages", "ui"):
            item.add_marker("pages")
        elif folder == "benchmarks":
            item.add_marker("slow")
        elif item.get_closest_marker("slow") is None:
            item.add_marker("unit")


def pytest_collection_finish() -> None:
    """Streamlit's 65 loggers hand on to the root: to each that does not, pytest adds its handlers in every test."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("streamlit") and isinstance(logger, logging.Logger):
            logger.propagate = True


@pytest.fixture(scope="session", autouse=True)
def packages_are_looked_through_once() -> Iterator[None]:
    """Every page of a test asks all installed packages whether they have components: two thirds of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(scope="module")
def in_a_crowd() -> Iterator[None]:
    """Children do not step back: beside other tests, which keep all processors busy, they would wait for minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "LOWEST", 0)
        yield
