"""What a visitor sees first: a question, two sliders, a picture that moves, one number, and Run, without scrolling."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PICTURE, Visit, done, drawn, labels, ready, section
from tests.confirming import confirm
from tests.waiting import until

FOLD = 800  # pixels from the top, at 1400 x 1000
STOPS = 15
PAGES = {"accelerated": "Excess loss", "mirror_descent": "Duality gap"}


@pytest.mark.parametrize("name", PAGES)
def test_public_data_run_by_themselves_and_the_answer_stands_above_the_fold(visit: Visit, name: str) -> None:
    """And Run is among the first stops of the keyboard."""
    page = visit(f"/{name}")
    done(page)
    main = page.get_by_role("main")
    picture = main.get_by_role("figure", name=re.compile(PAGES[name])).first
    expect(picture.locator("path.js-line").first).to_be_attached()
    seen = {
        "the question": main.get_by_text("?", exact=False).first,
        "the budget": main.get_by_role("slider", name=re.compile("Privacy budget")),
        "the other slider": main.get_by_role("slider").nth(1),
        "the picture": picture,
        "the number": main.get_by_test_id("stMetricValue").first,
        "Run": main.get_by_role("button", name="Run", exact=True),
    }
    for what, element in seen.items():
        box = element.bounding_box()
        assert box is not None and box["y"] + box["height"] <= FOLD, (what, box)
    expect(main.get_by_text("Without privacy:")).to_be_visible()  # the reference is on
    run_is_among_the_first_stops(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    row = main.get_by_test_id("stHorizontalBlock").filter(has=page.get_by_test_id("stNumberInput")).last
    expect(row.get_by_test_id("stNumberInput")).to_be_visible()
    assert row.evaluate("node => node.scrollWidth <= node.clientWidth"), "the number beside a slider is cut off"


def run_is_among_the_first_stops(page: Page) -> None:
    # Controls are mounted one after the other, and the order of the stops comes with the page's style.
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    expect(page.get_by_test_id("stSidebar").get_by_role("slider").first).to_be_visible()
    expect(page.get_by_test_id("stSidebar")).to_have_css("reading-order", "1")
    stops = []
    for _ in range(STOPS):
        page.keyboard.press("Tab")
        stops.append(page.evaluate("document.activeElement.innerText"))
        if stops[-1].strip().endswith("Run"):
            return
    raise AssertionError(stops)


def test_the_last_of_many_quick_moves_is_what_is_shown(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    slider = page.get_by_role("slider", name="Privacy budget ε")
    page.locator(PICTURE).evaluate("node => { node.dataset.first = 'yes' }")
    for _ in range(8):
        slider.press("ArrowRight")
    budget = (slider.get_attribute("aria-valuetext") or "").replace(",", "")  # the last of them, here and now
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value(budget)
    expect(page).to_have_url(re.compile(rf"accel_epsilon={re.escape(budget)}\b"))
    done(page)
    expect(page.get_by_text(re.compile(f"Guarantee of each method: ε = {re.escape(budget)},"))).to_be_visible()
    section(page, "Results")
    expect(page.get_by_text(re.compile(rf"meets ε = {re.escape(budget)} alone"))).to_be_visible()
    expect(page.get_by_text("Settings changed since this run")).to_have_count(0)
    # The picture has been moved, not drawn anew.
    expect(page.locator(PICTURE)).to_have_attribute("data-first", "yes")


def test_a_preset_from_the_menu_switches_and_its_run_starts_by_itself(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    menu = page.get_by_role("combobox", name="Preset")
    menu.click()
    page.get_by_role("option", name="Figure 3: logistic regression, all rows").click()
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value("10")
    expect(
        page.get_by_text("ε = 10 if these were known beforehand: the smoothness L; one row replaced").first
    ).to_be_visible()
    done(page)
    expect(menu).to_have_value(re.compile("^Figure 3"))
    section(page, "Results")
    expect(labels(drawn(page, "^Excess loss.* against steps"))).to_have_count(6)
    expect(page.get_by_text("Settings changed since this run")).to_have_count(0)


def test_zoom_on_the_live_picture_is_kept_while_a_slider_moves(visit: Visit) -> None:
    page = visit("/accelerated")
    done(page)
    picture = page.locator(PICTURE)
    expect(picture.locator("path.js-line").first).to_be_attached()
    shown = "node => node._fullLayout.xaxis.range.map(end => Math.round(1000 * end) / 1000)"
    before = picture.evaluate(shown)
    picture.hover()
    picture.locator('[data-title="Zoom in"]').click()
    until(lambda: np.ptp(picture.evaluate(shown)) < 0.9 * np.ptp(before))
    zoomed = picture.evaluate(shown)
    page.get_by_role("slider", name="Privacy budget ε").press("ArrowRight")
    expect(page.get_by_label("Privacy budget ε, exact value")).not_to_have_value("2")
    budget = page.get_by_label("Privacy budget ε, exact value").input_value()
    expect(page.get_by_text(re.compile(rf"Guarantee of each method: ε = {re.escape(budget)},"))).to_be_visible()
    done(page)
    assert picture.evaluate(shown) == zoomed


def test_a_file_of_ones_own_never_runs_by_itself(visit: Visit, tmp_path: Path) -> None:
    table = tmp_path / "mine.csv"
    table.write_text("age,visits,label\n" + "".join(f"{20 + i % 50},{i % 7},{i % 2}\n" for i in range(200)))
    page = visit("/accelerated?accel_data=Your+own+file&accel_iterations=5&accel_replicates=2")
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(table)
    confirm(page)
    page.get_by_role("button", name="Fill from the data").click()
    expect(page.get_by_text("Your own file: runs start by click only.")).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    page.get_by_label("Steps T, exact value").fill("6")
    page.get_by_label("Steps T, exact value").press("Enter")
    expect(page).to_have_url(re.compile("accel_iterations=6(&|$)"))
    ready(page)
    expect(page.get_by_text("Press Run: one release.")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    done(page)
