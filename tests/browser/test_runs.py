"""Moving a control, running, stopping: what a visitor sees on the way."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import (
    DONE,
    PICTURE,
    UNDER_WAY,
    Visit,
    curves_under_way,
    done,
    drawn,
    labels,
    ready,
    section,
)

BY_CLICK = "/accelerated?accel_follow=false"  # runs do not start by themselves
LONG = f"{BY_CLICK}&accel_iterations=10000"


def test_default_preset_runs_to_curves_and_table_which_say_when_settings_have_changed(visit: Visit) -> None:
    page = visit(BY_CLICK)
    run = page.get_by_role("button", name="Run", exact=True)
    page.wait_for_function("window.Plotly")  # what draws the picture is fetched before there is one
    run.click()
    done(page)
    section(page, "Results")
    expect(page.get_by_role("main").get_by_text("Done: 431 steps")).to_be_visible()
    gap = drawn(page, "^Excess loss.* against steps")
    expect(labels(gap)).to_have_count(5)
    expect(gap.locator("path.js-line").first).to_be_attached()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    expect(page.get_by_text("not private").first).to_be_visible()
    section(page, "Take away")
    for name in ("Data (CSV)", "Figures (HTML)", "Python script"):
        expect(page.get_by_role("button", name=name)).to_be_enabled()
    section(page, "Results")
    expect(run).to_be_enabled()
    expect(page.get_by_text("Settings changed since this run")).to_have_count(0)
    ready(page)

    page.get_by_label("Steps T, exact value").fill("25")
    page.get_by_label("Steps T, exact value").press("Enter")
    expect(page.get_by_text("Settings changed since this run")).to_be_visible()
    expect(page.get_by_text("This picture belongs to earlier settings.")).to_be_visible()
    expect(page.locator(PICTURE)).to_have_class(re.compile("pale"))
    page.get_by_role("button", name="Run these settings").click()
    done(page)
    expect(page.get_by_text("This picture belongs to earlier settings.")).to_have_count(0)
    expect(page.locator(PICTURE)).not_to_have_class(re.compile("pale"))


def test_stop_keeps_the_partial_curves_and_enables_run(visit: Visit) -> None:
    page = visit("/accelerated?accel_iterations=10000")
    expect(page.get_by_text("No run yet.")).to_be_visible()  # too long to start by itself
    run, stop = (page.get_by_role("button", name=name, exact=True) for name in ("Run", "Stop"))
    expect(stop).to_be_disabled()
    run.click()
    expect(page.get_by_role("main").get_by_text(re.compile(r"[\d,]+ of [\d,]+ steps, about .* left"))).to_be_visible()
    curves_under_way(page)
    expect(run).to_be_disabled()
    stop.click()
    expect(
        page.get_by_role("main").get_by_text(re.compile("Stopped after .* What was computed is kept."))
    ).to_be_visible()
    expect(run).to_be_enabled()
    expect(stop).to_be_disabled()
    section(page, "Results")
    expect(drawn(page, "^Excess loss.* against steps").locator("path.js-line").first).to_be_attached()
    ready(page)


def test_a_run_goes_on_while_its_visitor_looks_at_another_page(visit: Visit) -> None:
    page = visit(LONG)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("main").get_by_text(UNDER_WAY)).to_be_visible()
    menu = page.get_by_role("navigation", name="App pages")
    menu.get_by_role("link", name="Start").click()
    expect(page.get_by_test_id("stSidebar").get_by_text(UNDER_WAY)).to_be_visible()
    menu.get_by_role("link", name="Accelerated gradient").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_role("main").get_by_text(re.compile("Stopped after"))).to_be_visible()


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


def test_moving_a_control_changes_the_plan_and_runs_nothing(visit: Visit) -> None:
    page = visit(BY_CLICK)
    noise, spent = drawn(page, "^Noise per step"), drawn(page, "Privacy spent after each step")
    expect(noise.locator("path.js-line").first).to_be_attached()
    expect(spent.get_by_text("budget ε = 2")).to_be_visible()

    slider = page.get_by_role("slider", name="Privacy budget ε")
    slider.press("ArrowLeft")
    expect(page).to_have_url(re.compile("accel_epsilon=1"))
    expect(page.get_by_label("Privacy budget ε, exact value")).not_to_have_value("2")
    spent.scroll_into_view_if_needed()
    expect(spent.get_by_text("budget ε = 1")).to_be_visible()

    page.get_by_label("Steps T, exact value").fill("1000")
    page.get_by_label("Steps T, exact value").press("Enter")
    noise.scroll_into_view_if_needed()
    expect(noise.locator(".xtick").get_by_text("1,000", exact=True)).to_be_visible()
    expect(page.get_by_role("slider", name="Steps T")).to_have_attribute("aria-valuetext", "1,000")
    expect(page.get_by_text("No run yet.")).to_be_visible()
    ready(page)


def test_a_preset_writes_the_controls_and_runs_nothing_before_run_is_pressed(visit: Visit) -> None:
    page = visit(BY_CLICK)
    page.get_by_role("combobox", name="Preset").click()
    page.get_by_role("option", name=re.compile("Figure 3: logistic regression")).click()
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value("10")
    expect(page.get_by_text("Kuru et al. 2022, Figure 3")).to_be_visible()
    expect(page.get_by_text("No run yet.")).to_be_visible()
    page.get_by_label("Steps T, exact value").fill("60")
    page.get_by_label("Steps T, exact value").press("Enter")
    expect(page.get_by_role("combobox", name="Preset")).to_have_value(re.compile("Your own settings"))

    page.get_by_role("combobox", name="Preset").click()
    page.get_by_role("option", name=re.compile("Real data")).click()
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value("1")
    ready(page)
    page.get_by_role("button", name="Run", exact=True).click()
    done(page)
    section(page, "Results")
    expect(labels(drawn(page, "^Excess loss.* against steps"))).to_have_count(6)
    ready(page)
