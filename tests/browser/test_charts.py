"""Charts are drawn near the screen and before printing, moved in place, follow the theme, fill the screen if asked."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Visit, chart, done, drawn, ready

TEXT = "node => getComputedStyle(node).color"


def test_charts_are_drawn_near_the_screen_and_before_printing_and_fill_the_screen(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    far = chart(page, "^Excess loss.* against steps")
    expect(chart(page, "^Noise per step").locator("path.js-line").first).to_be_attached()
    expect(far.locator("path.js-line")).to_have_count(0)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(far.locator("path.js-line")).not_to_have_count(0)

    near = drawn(page, "Privacy spent after each step")
    near.evaluate("node => node.on('plotly_afterplot', () => { node.dataset.drawn = 1 + +(node.dataset.drawn ?? 0) })")
    page.get_by_role("button", name="Run", exact=True).press("Enter")
    done(page)
    assert near.get_attribute("data-drawn") is None, "a figure that is the same is not drawn again"
    near.scroll_into_view_if_needed()
    light = page.locator(".stApp").evaluate(TEXT)
    expect(near.locator(".xtick text").first).to_have_css("fill", light)
    page.emulate_media(color_scheme="dark")
    expect(page.locator(".stApp")).not_to_have_css("color", light)
    expect(near.locator(".xtick text").first).to_have_css("fill", page.locator(".stApp").evaluate(TEXT))
    near.get_by_role("button", name="Fullscreen").press("Enter")
    screen = page.evaluate("[innerWidth, innerHeight].map(String)")
    svg = near.locator(".main-svg").first
    expect(svg).to_have_attribute("height", screen[1])
    expect(svg).to_have_attribute("width", screen[0])
    near.get_by_role("button", name="Fullscreen").press("Enter")
    expect(svg).to_have_attribute("height", "320")


def test_a_chart_of_a_tab_is_drawn_at_its_width_when_the_tab_opens(visit: Visit) -> None:
    page = visit("/accelerated?accel_follow=false")
    page.get_by_role("tab", name="What limits accuracy").click()
    figure = page.locator(".dpviz-plot:visible").last
    figure.scroll_into_view_if_needed()
    expect(figure.locator("path.js-line").first).to_be_attached()
    width = figure.evaluate("node => String(node.clientWidth)")
    expect(figure.locator(".main-svg").first).to_have_attribute("width", re.compile(f"^{width}$"))
    ready(page)
