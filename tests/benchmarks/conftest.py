"""What these measure depends on the machine: leave it alone meanwhile.

OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 python -m pytest tests/benchmarks --benchmark-only

What they have measured stands at the end.
"""

import os
import platform
from collections.abc import Iterator

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

LINES = pytest.StashKey[list[str]]()


def threads() -> str:
    """The number of BLAS threads that the environment asks for."""
    return os.environ.get("OPENBLAS_NUM_THREADS", "unset: all cores")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-ratios", action="store_true", help="write what test_ratios.py measures to ratios.json")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


def pytest_report_header() -> str:
    return f"benchmarks: BLAS threads {threads()}, {os.cpu_count()} cores, NumPy {np.__version__}"


def pytest_benchmark_update_machine_info(machine_info: dict[str, object]) -> None:
    machine_info |= {"blas_threads": threads(), "numpy": np.__version__, "system": platform.platform()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[LINES]:
        terminalreporter.section("measured")
        for line in config.stash[LINES]:
            terminalreporter.write_line(line)


class Report:
    """What one benchmark found: into its `extra_info` (and so into --benchmark-json) and the summary."""

    def __init__(self, benchmark: BenchmarkFixture) -> None:
        self.benchmark = benchmark

    def __call__(self, **values: float | str) -> None:
        """Report numbers; a keyword ends in its unit (`_ms`, `_mib`) or is a ratio."""
        self.benchmark.extra_info |= {
            name: float(f"{v:.4g}") if isinstance(v, float) else v for name, v in values.items()
        }


@pytest.fixture
def report(benchmark: BenchmarkFixture, request: pytest.FixtureRequest) -> Iterator[Report]:
    """Gives the benchmark a place for its ratios, and the summary a line."""
    yield Report(benchmark)
    found = ", ".join(f"{name} = {value}" for name, value in benchmark.extra_info.items())
    request.config.stash[LINES].append(f"{request.node.name}: {found}")
