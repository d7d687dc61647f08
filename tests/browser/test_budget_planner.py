"""The budget planner in a browser: another currency, another budget, and the link that restores both."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, Visit, ready


def metric(page: Page, label: str) -> str:
    return page.get_by_test_id("stMetric").filter(has_text=label).get_by_test_id("stMetricValue").inner_text()


def test_another_currency_a_dragged_slider_and_the_shared_link(visit: Visit) -> None:
    page = visit("/budget_planner")
    assert metric(page, "Pure ε") == "2"
    page.get_by_role("radio", name="μ-GDP").click()
    expect(page.get_by_label("Privacy budget μ, exact value")).to_be_visible()
    ready(page)
    assert metric(page, "Pure ε") == "—"
    before = metric(page, "ρ (zCDP)")
    page.get_by_role("slider", name="Privacy budget μ").press("ArrowRight")
    expect(page).to_have_url(re.compile("planner_mu="))
    ready(page)
    assert metric(page, "ρ (zCDP)") != before

    page.screenshot(path=SCREENSHOTS / "budget_planner.png")
    value = page.get_by_label("Privacy budget μ, exact value").input_value()
    page.get_by_role("button", name="Copy link").click()
    link = page.get_by_test_id("stCode").get_by_text("http").inner_text()
    tab = page.context.new_page()
    tab.goto(link)
    ready(tab)
    expect(tab.get_by_label("Privacy budget μ, exact value")).to_have_value(value)


def test_the_planner_fits_a_narrow_screen(visit: Visit) -> None:
    page = visit("/budget_planner", viewport={"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
