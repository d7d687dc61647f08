"""A lesson in a browser, by keyboard alone and on a narrow screen."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, chart, ready


def reach(page: Page, name: str) -> None:
    """Press Tab until the button of this name has the focus."""
    button = page.get_by_role("main").get_by_role("button", name=name)
    expect(button).to_be_enabled()
    for _ in range(40):
        page.keyboard.press("Tab")
        if button.evaluate("node => node === document.activeElement"):
            return
    raise AssertionError(f"{name} is not among the tab stops")


def test_a_lesson_by_keyboard_alone(visit: Visit) -> None:
    page = visit("/learn")
    reach(page, "How many steps can you afford")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Step 1 of 4")).to_be_visible()
    expect(chart(page, "^Excess loss").locator("path.js-line").first).to_be_attached()
    ready(page)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Step 2 of 4")).to_be_visible()
    onward = page.get_by_role("button", name="Next")
    expect(onward).to_be_disabled()
    page.keyboard.press("ArrowRight")  # turns no page before there is an answer
    first = page.get_by_role("radio").first
    for _ in range(40):
        page.keyboard.press("Tab")
        if first.evaluate("node => node === document.activeElement"):
            break
    page.keyboard.press("Space")
    expect(onward).to_be_enabled()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio").nth(1)).to_be_checked()
    expect(page.get_by_text("Step 2 of 4")).to_be_visible()
    ready(page)
    reach(page, "Next")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Step 3 of 4")).to_be_visible()
    expect(page.get_by_text(re.compile("You said “About the same”. It was “More than 15 times worse”"))).to_be_visible()
    expect(page).to_have_url(re.compile("lesson=steps&step=3"))
    ready(page)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Try it yourself")).to_be_visible()
    ready(page)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("Step 3 of 4")).to_be_visible()
    ready(page)
    page.reload()
    expect(page.get_by_text("You said “About the same”.")).to_be_visible()  # until the tab is closed
    ready(page)


def test_a_prediction_is_drawn_by_keyboard_and_pointer(visit: Visit) -> None:
    page = visit("/learn?lesson=shrink&step=2", viewport={"width": 390, "height": 844})
    onward, handles = page.get_by_role("button", name="Next"), page.get_by_role("slider")
    expect(handles).to_have_count(6)
    expect(onward).to_be_disabled()
    last = handles.last
    for _ in range(40):
        page.keyboard.press("Tab")
        if last.evaluate("node => node === node.getRootNode().activeElement"):
            break
    before = int(last.get_attribute("aria-valuenow") or 0)
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")  # down by a step; it turns no page here
    expect(last).to_have_attribute("aria-valuenow", str(before - 12))
    expect(page.get_by_text("You predict: “2 to 10 times better”.")).to_be_visible()
    expect(onward).to_be_enabled()
    sheet = page.locator(".curve svg")
    sheet.scroll_into_view_if_needed()
    box = sheet.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 22, box["y"] + 30, steps=10)
    page.mouse.up()
    expect(page.get_by_text("You predict: “Worse”.")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ready(page)
    onward.click()
    expect(page.get_by_text(re.compile("You said “Worse”. It was “2 to 10 times better”"))).to_be_visible()
    expect(chart(page, "^Excess loss.*Your curve")).to_be_visible()
    page.get_by_role("button", name="Back").click()
    expect(handles.last).not_to_have_attribute("aria-valuenow", str(before - 12))  # what was drawn is still there
    expect(page.get_by_text("You predict: “Worse”.")).to_be_visible()
    ready(page)


def test_a_lesson_fits_a_narrow_screen_and_a_link_leads_to_its_step(visit: Visit) -> None:
    page = visit("/learn?lesson=shrink&step=3", viewport={"width": 390, "height": 844})
    expect(page.get_by_text(re.compile("You made no prediction. It was"))).to_be_visible()
    expect(chart(page, "^Excess loss").locator("path.js-line").first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ready(page)
