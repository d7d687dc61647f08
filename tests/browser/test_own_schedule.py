"""A schedule of one's own in a browser: by keyboard alone, on a narrow screen."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, done, overflow, part, ready


def test_handles_by_keyboard_change_the_numbers_and_the_plan(visit: Visit) -> None:
    path = "/accelerated?accel_data=Quadratic+test+bench&accel_schedule=Your+own&accel_methods=DP-GD&accel_section=Plan"
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
    assert overflow(page) == 0
    ready(page)


def test_a_finger_scrolls_where_it_meets_no_handle_and_draws_where_it_goes_sideways(visit: Visit) -> None:
    path = "/accelerated?accel_data=Quadratic+test+bench&accel_schedule=Your+own&accel_methods=DP-GD&accel_section=Plan"
    page = visit(path, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    handles = page.get_by_role("slider", name="Percent of the steps")
    expect(handles).to_have_count(6)
    done(page)
    third = handles.nth(2)

    def swiped(beside: float, right: float, down: float) -> float:
        """How far the page moved, in pixels, after a swipe from so far above and right of the third handle."""
        third.evaluate("node => node.scrollIntoView({ block: 'center' })")
        before, box = scrolled(page), third.bounding_box()
        assert box is not None
        swipe(page, box["x"] + 9 + beside / 2, box["y"] + 9 - beside, right, down)
        return scrolled(page) - before

    assert swiped(54, 0, 200) < -100
    assert handles.evaluate_all(VALUES) == ["1"] * 6  # nothing was drawn
    assert swiped(0, 0, 80) > -30  # the page did not go with it; a line of text above may have become longer
    expect(third).not_to_have_attribute("aria-valuetext", "1")
    assert handles.evaluate_all(VALUES)[3:] == ["1"] * 3
    swiped(54, 100, 0)
    expect(handles.nth(4)).not_to_have_attribute("aria-valuetext", "1")


AT_REST = """async () => {
    const main = document.querySelector(".stMain");
    for (let before = -1, still = 0; still < 10; before = main.scrollTop) {
        await new Promise(requestAnimationFrame);
        still = main.scrollTop === before ? still + 1 : 0;
    }
}"""
VALUES = "nodes => nodes.map(node => node.getAttribute('aria-valuetext'))"


def scrolled(page: Page) -> float:
    return float(page.locator(".stMain").evaluate("node => node.scrollTop"))


def swipe(page: Page, x: float, y: float, right: float, down: float) -> None:
    """A finger goes from a place on the screen so far to the right and down."""
    fingers = page.context.new_cdp_session(page)
    for step in range(11):
        at = {"x": x + right * step / 10, "y": y + down * step / 10}
        kind = "touchMove" if step else "touchStart"
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.evaluate(AT_REST)  # what was pushed goes on for a while
