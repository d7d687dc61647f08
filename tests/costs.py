"""What the tests cost, printed at their end: processor time, which hardly depends on what else the machine does.

The README's command has limits that no clock touches: so many tests, pages and visits of a browser, and no more. Who
raises one does so in a commit of its own that says why.
"""

import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

LIMITS = {"tests": 9_400, "pages": 1_560, "visits": 8}
LONG = 3.0  # seconds of a processor; a test that takes longer is slow, except:
MAY_BE_LONG = ("tests/browser/", "tests/families/test_mutants.py")
counted: Counter[str] = Counter()  # in this process: pages that a test has drawn, visits in a browser


def processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


class Costs:
    """What each test costs; in the process that prints the summary, all of them."""

    def __init__(self, no_browser: str) -> None:
        self.no_browser = no_browser
        self.began = 0.0
        self.before: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.total: Counter[str] = Counter()

    def pytest_sessionstart(self) -> None:
        run = AppTest._run

        def drawn(app: AppTest, *given: Any, **more: Any) -> AppTest:
            counted["pages"] += 1
            return run(app, *given, **more)

        AppTest._run = drawn  # type: ignore[method-assign, assignment]

    def pytest_runtest_logstart(self) -> None:
        self.began, self.before = processor_seconds(), counted.copy()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "call":  # processes that several tests share end later
            costs = {"processor": processor_seconds() - self.began, **(counted - self.before)}
            report.user_properties.extend(costs.items())
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            costs: dict[str, Any] = dict(report.user_properties)
            self.seconds[report.nodeid] = costs["processor"]
            self.total.update(tests=1, pages=costs.get("pages", 0), visits=costs.get("visits", 0))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        most = session.config.option.most_seconds
        long = [test for test, s in self.seconds.items() if most and s > most and not test.startswith(MAY_BE_LONG)]
        if long or self.above(session.config):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def above(self, config: pytest.Config) -> list[str]:
        """The limits that the quick tests have passed."""
        if config.option.markexpr != "not slow":
            return []
        return [name for name, limit in LIMITS.items() if self.total[name] > limit]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        long = {test: seconds for test, seconds in self.seconds.items() if seconds > LONG}
        for test, seconds in sorted(long.items(), key=lambda pair: -pair[1])[:20]:
            terminalreporter.line(f"{seconds:6.1f} s of a processor: {test}")
        numbers = ", ".join(f"{number:,} {name}" for name, number in self.total.items())
        terminalreporter.line(f"{processor_seconds():.0f} s of processor time with all child processes: {numbers}.")
        for name in self.above(config):
            terminalreporter.line(f"FAILED: more than {LIMITS[name]:,} {name}, see tests/costs.py.", red=True)
        if any(self.no_browser in str(report.longrepr) for report in terminalreporter.getreports("skipped")):
            terminalreporter.line(f"The tests in a browser were left out: {self.no_browser}.")
