"""Links for a lecture hall, short ones, and one that is copied where copying is forbidden."""

import re

from playwright.sync_api import expect

from dpviz.compare.pins import compress
from tests.browser.conftest import Visit

FORBIDDEN = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"


def test_a_link_for_a_lecture_hall_and_one_where_the_clipboard_is_forbidden(visit: Visit) -> None:
    page = visit("/accelerated?accel_follow=false&accel_iterations=42&present=1")
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.documentElement).fontSize") == "18px"  # of a window 1000 px high
    expect(page.get_by_role("slider", name="Batch m/n")).to_be_visible()
    expect(page.get_by_role("button", name="Plan", exact=True)).to_be_hidden()
    page.get_by_role("button", name="End presentation").click()
    expect(page.get_by_role("button", name="End presentation")).to_have_count(0)
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    expect(page).not_to_have_url(re.compile("present"))

    page.evaluate(FORBIDDEN)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_test_id("stCode").get_by_text("http").first).to_contain_text("accel_iterations=42")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("textbox", name="Text to copy")).to_have_value(re.compile("accel_iterations=42"))
    expect(page.get_by_role("status").get_by_text(re.compile("Copied|Press Ctrl"))).to_be_visible()


def test_short_links_open_on_a_phone_which_asks_twice_and_become_full_ones(visit: Visit) -> None:
    for settings in (f"s={compress('accel_epsilon=0.7')}", "preset=figure-2-the-optimal-noise"):
        page = visit(f"/accelerated?{settings}&accel_follow=false", viewport={"width": 390, "height": 844})
        expect(page).to_have_url(re.compile(r"[?&]accel_epsilon="))
        expect(page).not_to_have_url(re.compile(r"[?&](s|preset|of_page)="))
