"""Browser sessions on one server: the time to the first curve, and ten visitors at once.

Targets: first curve on screen less than 1.5 s after Run, the default run complete in less than 5 s; of ten visitors at
once every one finishes, and the page stays responsive. Server and browsers share this machine: these are upper bounds.
"""

import os
import re
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.serving import Server, chromium, serve

VISITORS, MOVES = 10, 10
DONE = re.compile(r"Done: 462 steps in ([\d.]+) s")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=120_000)
    with chromium() as browser:
        yield browser


@pytest.fixture
def visitors(browser: Browser, server: Server) -> Iterator[list[Page]]:
    """One more than VISITORS, each with the page open and its plan drawn."""
    pages = [browser.new_context(viewport={"width": 1400, "height": 1000}).new_page() for _ in range(VISITORS + 1)]
    for page in pages:
        page.set_default_timeout(120_000)
        page.goto(f"{server.url}/accelerated")
        expect(page.get_by_text("No run yet.")).to_be_visible()
    for page in pages:
        expect(page.locator('.stApp[data-test-script-state="notRunning"]')).to_be_visible()
        expect(page.locator("path.js-line")).not_to_have_count(0)
    yield pages
    for page in pages:
        page.context.close()


def processor_seconds(server: Server) -> float:
    """What the server has used so far, without the browsers beside it."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def press_run(page: Page) -> None:
    page.get_by_role("button", name="Run", exact=True).click()


def first_curve(page: Page) -> None:
    """Wait for a line in a chart of the excess loss, live or final."""
    expect(page.get_by_role("figure", name=re.compile("^Excess loss")).locator("path.js-line").first).to_be_attached()


def test_time_to_the_first_curve(report, browser: Browser, server: Server) -> None:
    """Five visitors one after the other; the first two warm the server up."""
    marks: dict[str, list[float]] = {"first_curve_s": [], "results_s": []}

    def visit() -> None:
        page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
        page.goto(f"{server.url}/accelerated")
        expect(page.locator("path.js-line")).not_to_have_count(0)
        expect(page.locator('.stApp[data-test-script-state="notRunning"]')).to_be_visible()
        began = time.perf_counter()
        press_run(page)
        first_curve(page)
        marks["first_curve_s"].append(time.perf_counter() - began)
        expect(page.get_by_test_id("stDataFrame")).to_be_visible()
        marks["results_s"].append(time.perf_counter() - began)
        page.context.close()

    report.benchmark.pedantic(visit, rounds=5)
    report(**{name: statistics.median(times[2:]) for name, times in marks.items()}, budget_s="1.5, 5")


def test_ten_visitors_at_once(report, visitors: list[Page], server: Server) -> None:
    """Ten press Run; an eleventh moves a control meanwhile."""
    *running, idle = visitors

    def move(epsilon: float) -> float:
        field = idle.get_by_label("Privacy budget ε, exact value")
        field.fill(str(epsilon))
        began = time.perf_counter()
        field.press("Enter")
        expect(idle.get_by_role("main").get_by_text(f"ε = {epsilon}", exact=True)).to_be_visible()
        return time.perf_counter() - began

    def everyone() -> dict[str, float]:
        quiet = statistics.median(move(3 + i / 10) for i in range(1, MOVES))
        began, used = time.perf_counter(), processor_seconds(server)
        for page in running:
            press_run(page)
        pressed = time.perf_counter() - began
        moves = [move(4 + i / 10) for i in range(1, MOVES)]
        for page in running:
            expect(page.get_by_role("main").get_by_text(DONE)).to_be_visible()
        finished = time.perf_counter() - began
        runs = [float(DONE.search(page.get_by_role("main").get_by_text(DONE).inner_text())[1]) for page in running]
        return {
            "all_pressed_s": pressed,
            "all_finished_s": finished,
            "server_processor_s": processor_seconds(server) - used,
            "longest_run_s": max(runs),
            "move_quiet_s": quiet,
            "move_meanwhile_median_s": statistics.median(moves),
            "move_meanwhile_worst_s": max(moves),
        }

    report(**report.benchmark.pedantic(everyone, rounds=1))
    assert "Traceback" not in server.printed()
