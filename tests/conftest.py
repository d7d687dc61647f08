"""Markers: every test is `unit`, `pages` or `browser` by where it stands, or else `slow`; and no store but its own."""

import os
from pathlib import Path

import pytest

# Pages that run in the tests' own process compute there, too: nothing to start, and a test can look inside.
os.environ["DPVIZ_WORKERS"] = "0"
os.environ["DPVIZ_STORE"] = "off"  # what is tested is computed

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder == "browser":
            item.add_marker("browser")
        elif folder in ("pages", "ui"):
            item.add_marker("pages")
        elif folder == "benchmarks":
            item.add_marker("slow")
        elif item.get_closest_marker("slow") is None:
            item.add_marker("unit")
