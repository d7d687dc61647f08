"""Charts are drawn near the screen and before printing, moved in place, follow the theme, fill the screen if asked."""

import re

import numpy as np
from playwright.sync_api import expect

from tests.browser.conftest import PICTURE, Visit, chart, done, drawn, part, ready
from tests.waiting import until

TEXT = "node => getComputedStyle(node).color"
# When the page is printed, the labels that reach beyond their charts on the paper.
CUT = """() => matchMedia("print").addEventListener("change", () => {
    const right = (node) => node.getBoundingClientRect().right;
    window.cut ??= [...document.querySelectorAll(".dpviz-plot")].flatMap((plot) =>
        [...plot.querySelectorAll(".annotation-text")].filter((text) => right(text) > right(plot)))
        .map(({ textContent }) => textContent);
})"""
ENDS = "node => node._fullLayout.xaxis.range.map(end => Math.round(1000 * end) / 1000)"


def test_charts_are_drawn_near_the_screen_and_before_printing_and_fill_the_screen(visit: Visit) -> None:
    page = visit("/accelerated?accel_section=Plan", viewport={"width": 1400, "height": 800})
    done(page)
    far = chart(page, "^Upper bound on the expected excess loss")
    expect(chart(page, "^Scale of the noise in each step").first.locator("path.js-line").first).to_be_attached()
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
    svg = near.locator(".main-svg").first
    before = svg.get_attribute("height") or ""
    near.get_by_role("button", name="Fullscreen").press("Enter")
    screen = page.evaluate("[innerWidth, innerHeight].map(String)")
    expect(svg).to_have_attribute("height", screen[1])
    expect(svg).to_have_attribute("width", screen[0])
    near.get_by_role("button", name="Fullscreen").press("Enter")
    expect(svg).to_have_attribute("height", before)
    assert int(before) < 200, "a small chart, of its own size"
    frame = "node => node._fullLayout._size.h"
    height = near.evaluate(frame)
    near.evaluate("node => Plotly.relayout(node, { showlegend: true })")
    page.emulate_media(color_scheme="light")
    until(lambda: near.evaluate(frame) == height)  # a picture without a legend keeps no room for a former one


def test_on_paper_a_chart_is_whole(visit: Visit) -> None:
    page = visit("/learn?lesson=steps&step=3")
    expect(drawn(page, "Excess loss").locator("path.js-line").first).to_be_attached()
    page.evaluate(CUT)
    page.pdf(format="A4")
    assert page.evaluate("cut") == []


def test_one_pointer_marks_a_step_in_all_three_charts_and_its_values_are_read_out(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    pointers, picture = page.locator(".dpviz-plot > .pointer:visible"), page.locator(PICTURE)
    expect(page.locator(".dpviz-plot[tabindex]")).to_have_count(3)
    picture.locator(".nsewdrag").hover()
    expect(pointers).to_have_count(3)
    page.mouse.move(0, 0)
    expect(pointers).to_have_count(0)
    picture.focus()
    for _ in range(3):
        picture.press("ArrowRight")
    expect(pointers).to_have_count(3)
    expect(picture.locator("output")).to_have_text(re.compile(r"Step t \d+: DP-GD .*DP-NAG-opt \d"))
    picture.press("Escape")
    expect(pointers).to_have_count(0)
    for opened, marked in ((picture, 1), (chart(page, "^Privacy spent").first, 0)):
        opened.press("Enter")
        dialog = opened.get_by_role("dialog")
        expect(dialog.get_by_text("not private")).to_have_count(marked)
        table = dialog.get_by_role("table")
        expect(table.get_by_role("columnheader").first).to_have_text("Step t")
        expect(table.get_by_role("row").last.get_by_role("rowheader")).to_have_text("100")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_last_of_many_quick_moves_is_shown_in_the_same_picture_which_keeps_its_zoom(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    picture, slider = page.locator(PICTURE), page.get_by_role("slider", name="Privacy budget ε")
    expect(picture.locator("path.js-line").first).to_be_attached()
    picture.evaluate("node => { node.dataset.first = 'yes' }")
    before = picture.evaluate(ENDS)
    picture.hover()
    picture.locator('[data-title="Zoom in"]').click()
    until(lambda: np.ptp(picture.evaluate(ENDS)) < 0.9 * np.ptp(before))
    zoomed = picture.evaluate(ENDS)
    for _ in range(8):
        slider.press("ArrowRight")
    budget = (slider.get_attribute("aria-valuetext") or "").replace(",", "")  # the last of them, here and now
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value(budget)
    expect(page).to_have_url(re.compile(rf"accel_epsilon={re.escape(budget)}\b"))
    done(page)
    expect(page.get_by_text(re.compile(f"Guarantee of each method: ε = {re.escape(budget)},"))).to_be_visible()
    expect(page.get_by_text("Settings changed since this run")).to_have_count(0)
    expect(picture).to_have_attribute("data-first", "yes")  # moved, not drawn anew
    assert picture.evaluate(ENDS) == zoomed


def test_figures_that_are_taken_away_are_drawn_without_a_server(visit: Visit) -> None:
    page = visit("/budget_planner?planner_section=Accounting")
    with page.expect_download() as found:
        page.get_by_role("button", name="Figures (HTML)").click()
    offline = page.context.new_page()
    offline.set_content(found.value.path().read_text(encoding="utf-8"))
    expect(offline.locator(".main-svg").first).to_be_visible()


# The labels of limits that a line crosses, by their boxes on the screen, and all of them.
CROSSED = """node => {
    const labels = [...node.querySelectorAll(".textpoint text, .annotation-text")]
        .filter(({ textContent }) => /^[αε].*= [0-9.]+$/.test(textContent));
    const points = [...node.querySelectorAll("path.js-line")].flatMap(path => {
        const [matrix, length] = [path.getScreenCTM(), path.getTotalLength()];
        return Array.from({ length: 400 }, (_, i) => path.getPointAtLength(i * length / 399).matrixTransform(matrix));
    });
    const isCrossed = ({ left, right, top, bottom }) =>
        points.some(({ x, y }) => left < x && x < right && top + 3 < y && y < bottom - 3);
    const crossed = labels.filter(label => isCrossed(label.getBoundingClientRect()));
    return [crossed, labels].map(all => all.map(({ textContent }) => textContent));
}"""


def test_no_line_crosses_the_label_of_a_limit_after_a_tenth_of_the_budget(visit: Visit) -> None:
    page = visit("/second_order?second_follow=false")
    noise = part(page, "second_hero_noise").locator(".dpviz-plot")
    until(lambda: noise.evaluate(CROSSED)[1])
    budget = page.get_by_label("Privacy budget ε, exact value")
    budget.fill("0.02")
    budget.press("Enter")
    expect(noise).to_contain_text("pale: before, ε = 0.2")
    ready(page)
    crossed, labels = noise.evaluate(CROSSED)
    assert len(labels) == 2 and crossed == []
