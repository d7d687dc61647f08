"""The page of zeroth-order optimisation in a browser: its run comes by itself, advice in a click, a cloud of runs."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import PICTURE, Visit, chart, done, ready, section


def test_four_ways_to_ask_run_by_themselves_and_the_advice_is_one_click(visit: Visit) -> None:
    page = visit("/zeroth_order")
    done(page)
    expect(page.locator(PICTURE).first.locator(".js-line")).not_to_have_count(0)
    section(page, "Results")
    expect(page.get_by_text(re.compile("ends lower than the published algorithm"))).to_be_visible()
    section(page, "Plan")
    expect(page.get_by_text(re.compile("Advised at your size: “Improved, batches follow the moves”"))).to_be_visible()
    page.get_by_role("button", name="Use these settings").click()
    expect(page.get_by_role("spinbutton", name=re.compile("Steps per epoch"))).not_to_have_value("16")
    expect(page).to_have_url(re.compile("zeroth_follow_moves=true"))
    page.get_by_role("tab", name="Running sums").click()
    expect(chart(page, "^The nodes of the tree")).to_be_visible()
    ready(page)


def test_runs_are_a_cloud_in_the_bent_valley(visit: Visit) -> None:
    few = "zeroth_valley_rows=4000&zeroth_iterations=64&zeroth_replicates=3"
    page = visit(f"/zeroth_order?zeroth_data=Bent+valley+(two+parameters)&zeroth_references=false&{few}")
    done(page)
    expect(page.locator(PICTURE).locator(".contourlayer path").first).to_be_attached()
    expect(page.locator(PICTURE).first.locator(".point")).to_have_count(12)  # three runs of four methods
    section(page, "Results")
    expect(chart(page, "^Contours of the smoothed objective")).to_be_visible()
    ready(page)
    page.set_viewport_size({"width": 390, "height": 844})
    section(page, "Background")
    page.get_by_text("Derivations and sources").click()
    expect(page.get_by_role("cell", name="robust regression, μ = 0.3")).to_be_visible()
    wide = "element => element.scrollWidth - element.clientWidth"
    assert page.get_by_test_id("stMain").evaluate(wide) == 0, "a wide table moves by itself, not the page"
