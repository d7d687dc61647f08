"""A sweep in a browser: run, stop, resume; two settings as maps."""

import re
from itertools import count

from playwright.sync_api import expect

from tests.browser.conftest import SECONDS, Visit, done, drawn, part, ready, section
from tests.waiting import until

POINTS = 8
SETTINGS = f"accel_follow=false&accel_iterations=150&accel_vary_epsilon_values={POINTS}"
# How many points each line has.
POINTS_DRAWN = (
    """node => node.calcdata.filter(([{ trace }]) => trace.mode.includes("markers")).map(line => line.length)"""
)
TRIES = count()  # a second try asks for other points: the first may have left its own in the store


def test_a_sweep_is_stopped_and_resumed_where_it_was(visit: Visit) -> None:
    page = visit(f"/accelerated?{SETTINGS}&accel_seed={next(TRIES)}")
    section(page, "Sweep")
    page.get_by_role("button", name="Run the sweep").click()
    expect(page.get_by_text(re.compile(rf"^[1-9]\d* of {POINTS} points"))).to_be_visible()
    figure = drawn(page, "against privacy budget, one line per method")
    expect(figure.locator("path.js-line, path.point").first).to_be_attached()
    part(page, "accel_vary_sweep_stop").get_by_role("button").click()
    stopped = page.get_by_text(re.compile(rf"^Stopped: (\d+) of {POINTS} points in"))
    expect(stopped).to_be_visible()
    known = int(re.search(r"\d+", stopped.inner_text()).group())  # type: ignore[union-attr]
    assert 0 < known < POINTS
    page.get_by_role("button", name="Resume the sweep").click()
    expect(page.get_by_text(f"; {known} of them were known")).to_be_visible(timeout=3000 * SECONDS)  # it computes
    expect(page.get_by_text(re.compile(f"^Done: {POINTS} of {POINTS} points"))).to_be_visible(timeout=3000 * SECONDS)
    expect(page.get_by_role("button", name="Run the sweep")).to_be_enabled()
    ready(page)  # until then there are two, the one that moved and the one that stays
    figure.scroll_into_view_if_needed()
    expect(figure.locator("path.js-line")).not_to_have_count(0)
    ready(page)


def test_along_the_budget_points_arrive_and_the_mark_goes_where_the_slider_is_let_go(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    page.get_by_role("radio", name="Along the budget", exact=True).click()
    plot = part(page, "accel_hero_budget").locator(".dpviz-plot")
    expect(plot.locator("path.js-line").nth(3)).to_be_attached(timeout=3000 * SECONDS)  # three methods, and the bound
    expect(page.get_by_text(re.compile(r"\d of 7 budgets"))).to_have_count(0)
    mark = plot.locator(".annotation-text", has_text="you are here")
    expect(mark).to_contain_text("ε = 2")
    lines = plot.evaluate(POINTS_DRAWN)
    slider = page.get_by_role("slider", name="Privacy budget ε")
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + box["height"] / 2)
    at = slider.get_attribute("aria-valuetext")
    assert at != "2"
    expect(mark).to_contain_text(f"ε = {at}")
    expect(plot).not_to_have_class(re.compile("pale"))
    page.mouse.up()
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value(at or "")
    done(page)
    # No other budgets are computed; the present one has moved: its point returns when its run ends.
    until(lambda: plot.evaluate(POINTS_DRAWN) == lines, 60)
    page.reload()
    expect(page.get_by_role("radio", name="Along the budget", exact=True)).to_be_checked()
    expect(mark).to_contain_text(f"ε = {at}")
