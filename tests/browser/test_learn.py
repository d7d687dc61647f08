"""A lesson in a browser, by keyboard alone."""

import re

from playwright.sync_api import expect

from dpviz.ui.learn.page import all_lessons
from tests.browser.conftest import Visit, ready, tab_to


def test_a_lesson_by_keyboard_alone(visit: Visit) -> None:
    page = visit("/learn", forced_colors="active")
    main = page.get_by_role("main")
    tab_to(page, main.get_by_role("button", name="How many steps can you afford"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Step 1 of 4")).to_be_visible()
    ready(page)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Step 2 of 4")).to_be_visible()
    onward = main.get_by_role("button", name="Next")
    expect(onward).to_be_disabled()
    page.keyboard.press("ArrowRight")  # turns no page before there is an answer
    tab_to(page, page.get_by_role("radio").first)
    page.keyboard.press("Space")
    expect(onward).to_be_enabled()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("radio").nth(1)).to_be_checked()
    # A browser with colours of its own takes away the dot.
    expect(page.get_by_test_id("stRadioOption").nth(1)).to_have_css("forced-color-adjust", "none")
    expect(page.get_by_text("Step 2 of 4")).to_be_visible()
    ready(page)
    tab_to(page, onward)
    page.keyboard.press("Enter")
    answer = page.get_by_text("You said “About the same”.")
    expect(answer).to_be_visible()
    expect(page).to_have_url(re.compile("lesson=steps&step=3"))
    ready(page)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Try it yourself")).to_be_visible()
    ready(page)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("Step 3 of 4")).to_be_visible()
    ready(page)
    page.reload()
    expect(answer).to_be_visible()  # until the tab is closed
    ready(page)


def test_every_lesson_of_the_list_can_be_read_and_opened(visit: Visit) -> None:
    """One whose name begins like that of a part without a body was drawn without a width."""
    page = visit("/learn")
    buttons = page.locator('[class*="st-key-learn_open_"] button')
    expect(buttons).to_have_count(len(all_lessons()))
    sizes = [button.bounding_box() for button in buttons.all()]
    assert all(size and size["width"] > 3 * 14 and size["height"] < 4 * 28 for size in sizes)
    buttons.and_(page.get_by_role("button", name="When should you stop looking")).click()
    expect(page.get_by_text("Step 1 of 4")).to_be_visible()


def test_a_prediction_is_drawn_by_keyboard_and_is_still_there_on_the_way_back(visit: Visit) -> None:
    page = visit("/learn?lesson=shrink&step=2", viewport={"width": 390, "height": 844})
    last = page.get_by_role("slider").last
    tab_to(page, last)
    drawn = str(int(last.get_attribute("aria-valuenow") or 0) - 12)
    page.keyboard.press("PageDown")
    page.keyboard.press("ArrowLeft")  # down by a step; it turns no page here
    expect(last).to_have_attribute("aria-valuenow", drawn)
    expect(page.get_by_text("You predict: “2 to 10 times better”.")).to_be_visible()
    ready(page)
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Step 3 of 4")).to_be_in_viewport()  # at its top; until then, Back leads to step 1
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_role("figure", name=re.compile("Your curve"))).to_be_visible()
    expect(page.get_by_role("slider")).to_have_count(0)  # who has seen the outcome draws no more
