"""Copy link copies, by keyboard too, and says so; where that is forbidden the link is ready to be copied by hand.

A link for a lecture hall opens a page without sidebar, in larger type.
"""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, ready

SMALL = "/accelerated?accel_follow=false&accel_iterations=42&accel_epsilon=0.7"
FORBIDDEN = "Object.defineProperty(navigator, 'clipboard', { value: undefined })"


def popover(page: Page) -> None:
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_test_id("stCode").get_by_text("http").first).to_contain_text("accel_iterations=42")


def test_copy_link_copies_by_keyboard_and_says_so(visit: Visit) -> None:
    page = visit(SMALL, permissions=["clipboard-read", "clipboard-write"])
    popover(page)
    page.get_by_role("button", name="Copy", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.get_by_test_id("stCode").first.inner_text().strip()


def test_where_the_clipboard_is_forbidden_the_link_is_selected(visit: Visit) -> None:
    page = visit(SMALL)
    page.evaluate(FORBIDDEN)
    popover(page)
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("textbox", name="Text to copy")).to_have_value(re.compile("accel_iterations=42"))
    expect(page.get_by_role("status").get_by_text(re.compile("Copied|Press Ctrl"))).to_be_visible()


def test_a_link_for_a_lecture_hall_opens_a_page_without_sidebar_in_larger_type(visit: Visit) -> None:
    page = visit(f"{SMALL}&present=1")
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.documentElement).fontSize") == "22px"
    page.get_by_role("button", name="End presentation").click()
    expect(page.get_by_role("button", name="End presentation")).to_have_count(0)
    expect(page.get_by_test_id("stSidebar")).to_be_visible()
    expect(page).not_to_have_url(re.compile("present"))
    ready(page)
