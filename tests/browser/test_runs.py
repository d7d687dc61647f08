"""Runs that take long, while their visitor does something else."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import DONE, PICTURE, UNDER_WAY, Visit, drawn, ready, section

BY_CLICK = "/accelerated?accel_follow=false"  # runs do not start by themselves


def test_a_run_goes_on_while_its_visitor_looks_at_another_page_and_stop_keeps_its_curves(visit: Visit) -> None:
    page = visit(f"{BY_CLICK}&accel_iterations=10000")
    main, menu = page.get_by_role("main"), page.get_by_role("navigation", name="App pages")
    run, stop = (page.get_by_role("button", name=name, exact=True) for name in ("Run", "Stop"))
    run.click()
    expect(page.locator(PICTURE).locator("path.js-line").first).to_be_attached()  # before the end
    expect(main.get_by_text(UNDER_WAY)).to_be_visible()
    expect(run).to_be_disabled()
    menu.get_by_role("link", name="Start").click()
    expect(page.get_by_test_id("stSidebar").get_by_text(UNDER_WAY)).to_be_visible()
    menu.get_by_role("link", name="Accelerated gradient").click()
    stop.click()
    expect(main.get_by_text(re.compile("Stopped after .* What was computed is kept."))).to_be_visible()
    expect(run).to_be_enabled()
    expect(stop).to_be_disabled()
    section(page, "Results")
    expect(drawn(page, "^Excess loss.* against steps").locator("path.js-line").first).to_be_attached()


def test_what_is_being_typed_survives_the_end_of_a_run(visit: Visit) -> None:
    """A run's state comes and goes in the sidebar; the controls below it must not be drawn anew."""
    page = visit(f"{BY_CLICK}&accel_iterations=500&accel_replicates=10")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("main").get_by_text(UNDER_WAY)).to_be_visible()
    steps = page.get_by_label("Steps T, exact value")
    steps.press("End")
    steps.press("5")
    expect(page.get_by_role("main").get_by_text(DONE)).to_be_visible()
    ready(page)
    expect(steps).to_be_focused()
    expect(steps).to_have_value("5005")
