"""A schedule of one's own in a browser: by keyboard alone, on a narrow screen."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, part, ready


def test_handles_by_keyboard_change_the_numbers_and_the_plan(visit: Visit) -> None:
    path = "/accelerated?accel_data=Quadratic+test+bench&accel_schedule=Your+own&accel_methods=DP-GD"
    page: Page = visit(path, viewport={"width": 390, "height": 844})
    handles = page.get_by_role("slider", name="Percent of the steps")
    expect(handles).to_have_count(6)
    said = page.get_by_text(re.compile(r"DP-GD: yours ([\d.]+), even \1"))
    expect(said).to_be_visible()
    first = handles.first
    first.focus()
    for key in ("PageUp", "ArrowUp", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(first).to_have_attribute("aria-valuetext", "4")  # 10^0.6
    expect(page).to_have_url(re.compile(r"accel_knots=0\.6(,|%2C)0(,|%2C)0(,|%2C)0(,|%2C)0(,|%2C)0"))
    expect(said).to_have_count(0)
    ready(page)
    assert first.evaluate("node => node === node.getRootNode().activeElement")  # the reruns have not taken the focus
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    expect(page).to_have_url(re.compile(r"accel_knots=0\.6(,|%2C)-1\.5(,|%2C)"))
    expect(handles.first).to_have_attribute("aria-valuetext", "4")  # a rerun does not fight the handles
    expect(handles.nth(1)).to_have_attribute("aria-valuetext", "0.032")
    part(page, "accel_shape_Rising").get_by_role("button").press("Enter")
    expect(handles.last).to_have_attribute("aria-valuetext", "5.6")  # and these come back to the handles
    expect(handles.first).to_have_attribute("aria-valuetext", "0.18")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ready(page)
