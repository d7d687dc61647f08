"""Tabs that are closed or loaded again, and servers that are restarted: what becomes of runs, and what is said."""

import re
from contextlib import AsyncExitStack

from playwright.sync_api import Browser, expect

from tests.apart import apart
from tests.benchmarks.visitors import Visitor
from tests.browser.conftest import UNDER_WAY, Server, ready
from tests.browser.serving import serve

LONG = {"accel_follow": "false", "accel_iterations": "10000"}
WAITING = re.compile(r"Waiting: (next|2nd|3rd|4th|5th|6th) in line\. Stop leaves the line")


def test_runs_of_closed_tabs_make_room_within_seconds(server: Server) -> None:
    """Five visitors press Run and leave; the sixth sees its place in line, and does not wait for what they started."""

    def says(visitor: Visitor, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(text) for text in visitor.texts.values())

    async def visits() -> None:
        async with Visitor(server.url, "accelerated", **LONG, accel_seed="5") as sixth:
            async with AsyncExitStack() as leaving:
                for seed in range(5):
                    other = Visitor(server.url, "accelerated", **LONG, accel_seed=str(seed))
                    await (await leaving.enter_async_context(other)).press("Run")
            await sixth.press("Run")
            await sixth.until(lambda visitor: says(visitor, WAITING))
            await sixth.until(lambda visitor: says(visitor, UNDER_WAY), 60.0)
            await sixth.press("Stop")

    apart(visits())


def test_a_tab_has_its_run_again_after_a_reload_and_knows_what_a_crash_has_cost(browser: Browser) -> None:
    address = "/accelerated?" + "&".join(f"{name}={value}" for name, value in LONG.items())
    with serve() as first:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(first.url + address)
        ready(page)
        run, stop = (page.get_by_role("button", name=name, exact=True) for name in ("Run", "Stop"))
        main = page.get_by_role("main")
        run.click()
        expect(main.get_by_text(UNDER_WAY)).to_be_visible()
        page.reload()
        expect(main.get_by_text(UNDER_WAY)).to_be_visible()  # or how far it came, where a reload takes too long

        first.process.kill()
        first.process.wait()
        with serve(port=int(first.url.rpartition(":")[2])) as second:
            lost = main.get_by_text("The server was restarted. The last run is gone, the settings are kept: press Run.")
            expect(lost).to_be_visible()
            expect(page.get_by_label("Steps T, exact value")).to_have_value("10000")
            run.click()
            expect(main.get_by_text(UNDER_WAY)).to_be_visible()
            expect(lost).to_have_count(0)
            stop.click()
            expect(main.get_by_text(re.compile("Stopped (after|before)"))).to_be_visible()
            assert "Traceback" not in second.printed()
        page.close()
