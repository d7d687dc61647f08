"""The handles of a schedule of one's own on the chart of the noise: by pointer, by keyboard alone, by a finger."""

import math
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from dpviz.families.accelerated import theory
from tests.browser.conftest import Visit, done, overflow, part, ready
from tests.browser.test_every_page import DESK, PHONE, violations

SENT: list[str] = []  # to the server
PATH = "/accelerated?accel_data=Quadratic+test+bench&accel_schedule=Your+own&accel_methods=DP-GD&accel_iterations=96"
NOISE = """node => node.calcdata.filter(([{ trace }]) => trace.legendgroup === "DP-GD" && trace.mode === "lines")[0]
    .map(({ y }) => y)"""
# Whether the handles are on the line, to a pixel: at every fifth of the steps, of 96.
ON_LINE = """node => {
    const { xaxis, yaxis, _size: frame } = node._fullLayout, box = node.getBoundingClientRect();
    const line = node.calcdata.find(([{ trace }]) => trace.legendgroup === "DP-GD");
    return [...node.querySelectorAll(".handle")].every((handle, i) => {
        const { left, top, width, height } = handle.getBoundingClientRect(), { x, y } = line[19 * i];
        const across = left + width / 2 - box.left - frame.l, down = top + height / 2 - box.top - frame.t;
        const off = Math.max(Math.abs(across - xaxis.d2p(x)), Math.abs(down - yaxis.d2p(y)));
        return width >= 24 && height >= 24 && off < 1;
    });
}"""
SAID = "nodes => nodes.map(node => node.getAttribute('aria-valuetext'))"


def knots(page: Page) -> tuple[float, ...]:
    """Those in the address."""
    found = re.search(r"accel_knots=([^&]*)", page.url.replace("%2C", ","))
    return tuple(map(float, found[1].split(","))) if found else theory.EVEN


def opened(visit: Visit, more: str = "", **settings: Any) -> tuple[Page, Locator, Locator]:
    page: Page = visit("/", **settings)
    page.on("websocket", lambda socket: socket.on("framesent", lambda frame: SENT.append(str(frame))))
    page.goto(f"{page.url.rstrip('/')}{PATH}{more}")
    done(page)
    chart = part(page, "accel_hero_noise").locator(".dpviz-plot")
    chart.scroll_into_view_if_needed()
    handles = page.get_by_role("slider", name="of the steps")
    expect(handles).to_have_count(6)
    return page, chart, handles


def middle(handle: Locator) -> tuple[float, float]:
    box = handle.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize(("size", "more"), [(DESK, ""), (PHONE, "&accel_noise=Gaussian&accel_currency=ρ-zCDP")])
def test_a_line_follows_its_handle_without_the_server_which_then_draws_the_same(
    visit: Visit, size: dict[str, int], more: str
) -> None:
    page, chart, handles = opened(visit, more, viewport=size)
    assert chart.evaluate(ON_LINE)
    even = chart.evaluate(NOISE)
    (x, y), before = middle(handles.nth(2)), len(SENT)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 10)
    page.mouse.move(x, y - 25)
    expect(chart).to_contain_text("pale: before, shape 0 0 0 0 0 0")
    expect(handles.nth(2)).not_to_have_attribute("aria-valuenow", "0")
    page.wait_for_function(f"node => ({ON_LINE})(node)", arg=chart.element_handle())
    assert abs(middle(handles.nth(2))[1] - (y - 25)) < 2, "the handle is where the pointer is"
    dragged = chart.evaluate(NOISE)
    assert dragged[38] > 2 * even[38] and dragged[0] < even[0] and knots(page) == theory.EVEN
    assert len(SENT) == before
    page.mouse.up()
    page.wait_for_url(re.compile("accel_knots=0"))
    done(page)
    assert sum('"handles"' in frame for frame in SENT[before:]) == 1
    expect(part(page, "accel_hero").locator(".dpviz-plot")).not_to_have_class(re.compile("pale"))
    assert chart.evaluate(NOISE) == pytest.approx(dragged, rel=1e-6)
    assert chart.evaluate(ON_LINE)
    assert math.log10(dragged[38] / dragged[0]) == pytest.approx(knots(page)[2], abs=1e-4)

    page.mouse.move(*middle(handles.nth(3)))
    page.mouse.down()
    page.mouse.move(x, y - 40)
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(handles.nth(3)).to_have_attribute("aria-valuenow", "0")
    assert sum('"handles"' in frame for frame in SENT[before:]) == 1
    page.reload()
    done(page)
    chart.scroll_into_view_if_needed()
    expect(handles).to_have_count(6)
    assert chart.evaluate(NOISE) == pytest.approx(dragged, rel=1e-6)


def test_handles_by_keyboard_change_the_numbers_and_the_plan(visit: Visit) -> None:
    page, chart, handles = opened(visit, viewport=PHONE, color_scheme="dark")
    expect(page.get_by_text(re.compile(r"Expected end: yours ([\d.]+), even \1, optimal"))).to_be_visible()
    first = handles.first
    assert first.get_attribute("aria-label") == "Noise at 0 % of the steps"
    first.focus()
    for key in ("PageUp", "ArrowUp", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    page.wait_for_url(re.compile("accel_knots="))
    done(page)
    assert knots(page) == (0.6, 0, 0, 0, 0, 0)
    assert first.evaluate("node => node === document.activeElement")  # the reruns have not taken the focus
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    page.wait_for_url(re.compile("-1.5"))
    done(page)
    assert knots(page) == (0.6, -1.5, 0, 0, 0, 0)
    assert handles.nth(1).get_attribute("aria-valuetext") == f"{chart.evaluate(NOISE)[19]:.3g}"
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function(f"node => ({ON_LINE})(node)", arg=chart.element_handle())
    page.set_viewport_size(PHONE)
    page.wait_for_function(f"node => ({ON_LINE})(node)", arg=chart.element_handle())
    assert violations(page) == [] and overflow(page) == 0


def test_a_finger_moves_a_handle_and_the_page_stays(visit: Visit) -> None:
    page, _, handles = opened(visit, viewport=PHONE, has_touch=True, is_mobile=True)
    third = handles.nth(2)
    third.evaluate("node => node.scrollIntoView({ block: 'center' })")
    before = scrolled(page)
    swipe(page, *middle(third), -30)
    assert scrolled(page) == before
    page.wait_for_url(re.compile("accel_knots="))
    ready(page)
    assert knots(page)[2] > 0.3 and knots(page)[:2] == (0, 0)


AT_REST = """async () => {
    const main = document.querySelector(".stMain");
    for (let before = -1, still = 0; still < 10; before = main.scrollTop) {
        await new Promise(requestAnimationFrame);
        still = main.scrollTop === before ? still + 1 : 0;
    }
}"""


def scrolled(page: Page) -> float:
    return float(page.locator(".stMain").evaluate("node => node.scrollTop"))


def swipe(page: Page, x: float, y: float, down: float) -> None:
    """A finger goes from a place on the screen so far down."""
    fingers = page.context.new_cdp_session(page)
    for step in range(11):
        kind = "touchMove" if step else "touchStart"
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y + down * step / 10}]})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.evaluate(AT_REST)  # what was pushed goes on for a while
