"""What pages ask for, and what a server logs."""

import re

from playwright.sync_api import Browser, expect

from tests.browser.conftest import done, ready
from tests.browser.serving import Server, serve
from tests.confirming import confirm

# A name, a category and a number that stand nowhere but in a file.
MARKS = ("visitor7731", "income7731", "north7731", "7731.25")
MARKED = ("income7731,region,bought\n" + "7731.25,north7731,yes\n2600,south,no\n" * 200).encode()


def test_a_first_page_is_light_and_asks_for_nothing_that_is_not_there_or_elsewhere(
    browser: Browser, server: Server
) -> None:
    """Streamlit asks Google for material icons, in the tab, too: then a third party would learn of every visit."""
    context = browser.new_context()
    page, network = context.new_page(), {"bytes": 0.0}
    refused: list[str] = []
    page.on("response", lambda answer: refused.append(answer.url) if answer.status >= 400 else None)
    devtools = context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.on(
        "Network.loadingFinished", lambda file: network.update(bytes=network["bytes"] + file["encodedDataLength"])
    )
    page.goto(f"{server.url}/accelerated")
    done(page)
    assert refused == [] and 1e6 < network["bytes"] < 2.5e6
    page.get_by_role("navigation", name="App pages").get_by_role("link", name="Budget planner").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Budget planner")
    expect(page.locator("link[rel~=icon]")).not_to_have_attribute("href", re.compile("^https?://"))
    context.close()


def test_no_log_holds_anything_of_a_file(browser: Browser) -> None:
    """Neither its name nor its columns, categories and numbers, whatever the server is asked to log."""
    with serve("--logger.level=debug") as server:
        page = browser.new_page()
        page.goto(f"{server.url}/accelerated?accel_data=Your+own+file&accel_iterations=30&accel_file_replicates=5")
        ready(page)
        file = {"name": "visitor7731.csv", "mimeType": "text/csv", "buffer": MARKED}
        page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files([file])  # type: ignore[list-item]
        confirm(page)
        page.get_by_role("button", name="Fill from the data").click()
        expect(page.get_by_text("visitor7731.csv: 400 rows, 1 feature")).to_be_visible()
        page.get_by_role("button", name="Run", exact=True).click()
        done(page)
        page.context.close()
        assert "Runtime state" in server.printed()  # which is said at that level only
        assert [mark for mark in MARKS if mark in server.printed()] == []
