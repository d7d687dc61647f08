"""Six visitors' ways through several pages, in a real browser: what the gate looks at."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, expect

from dpviz.ui.families import FAMILIES
from dpviz.ui.glossary import TERMS
from tests.browser.conftest import (
    PICTURE,
    Visit,
    chart,
    done,
    drawn,
    overflow,
    part,
    ready,
    run_is_among_the_first_stops,
    section,
    shared_link,
    title_is_covered,
)
from tests.browser.test_dragging import LINES
from tests.confirming import confirm

# The places of the marked words on the screen, the first of each text, scrolled to.
MARKED = """wanted => {
    for (const at of CSS.highlights.get("dpviz-words") ?? []) {
        if (at.startContainer.data.slice(at.startOffset, at.endOffset).toLowerCase() !== wanted) continue;
        at.startContainer.parentElement.scrollIntoView({ block: "center" });
        const range = document.createRange();
        range.setStart(at.startContainer, at.startOffset);
        range.setEnd(at.endContainer, at.endOffset);
        const { left, top, width, height } = range.getBoundingClientRect();
        return [left + width / 2, top + height / 2];
    }
    return null;
}"""
TITLES = {family.name: family.title for family in FAMILIES}


def shown(page: Page, label: str) -> str:
    return page.get_by_label(f"{label}, exact value").input_value()


def test_from_the_start_page_to_a_run_a_word_and_a_link(visit: Visit) -> None:
    page = visit("/", permissions=["clipboard-read", "clipboard-write"])
    main = page.get_by_role("main")
    for title in TITLES.values():
        expect(main.get_by_role("heading", name=re.compile(title))).to_be_visible()
    page.get_by_role("slider", name="Privacy budget ε").press("Home")
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value("0.01")
    ready(page)

    page.get_by_role("button", name="Run a method").click()
    menu = page.get_by_role("combobox", name="Preset")
    expect(menu).to_have_value(re.compile("^Start here"))
    expect(page.get_by_label("Privacy budget ε, exact value")).to_have_value("2")
    done(page)
    picture = page.locator(PICTURE)
    expect(picture.locator("path.js-line").first).to_be_attached()

    slider = page.get_by_role("slider", name="Privacy budget ε")
    for _ in range(3):  # the last of several quick moves is what is shown, in the same picture
        slider.press("ArrowLeft")
    budget = (slider.get_attribute("aria-valuetext") or "").replace(",", "")
    expect(page).to_have_url(re.compile(rf"accel_epsilon={re.escape(budget)}(\.0)?(&|$)"))
    done(page)
    assert shown(page, "Privacy budget ε") == budget != "10"
    expect(picture).not_to_have_class(re.compile("pale"))

    page.wait_for_function(f"wanted => ({MARKED})(wanted) !== null", arg="excess loss")
    page.mouse.click(*page.evaluate(MARKED, "excess loss"))
    expect(page.get_by_text(TERMS["excess_loss"].sentence)).to_be_visible()
    page.keyboard.press("Escape")

    link = shared_link(page, f"accel_epsilon={budget}")
    page.get_by_role("button", name="Copy link").click()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("status").get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == link
    page.goto(link)
    ready(page)
    assert shown(page, "Privacy budget ε") == budget


def test_a_lecturer_shows_what_a_tenth_of_the_budget_costs(visit: Visit) -> None:
    page = visit("/accelerated", viewport={"width": 1400, "height": 900})
    done(page)
    charts = [part(page, f"accel_{name}").locator(".dpviz-plot") for name in ("hero", "hero_noise", "hero_privacy")]
    picture, noise, _ = charts
    budget, number = page.get_by_label("Privacy budget ε, exact value"), page.get_by_test_id("stMetricValue")
    budget.fill("0.2")
    budget.press("Enter")
    for plot in charts:
        expect(plot).to_contain_text("pale: before, ε = 2")
    expect(picture).to_contain_text(re.compile(r"DP-NAG-opt, until\s*T\s=\s5\b"))
    done(page)
    before, now = ([line for line in noise.evaluate(LINES) if line["pale"] is pale] for pale in (True, False))
    uniform, old_uniform = (next(line for line in lines if line["steps"] == 100) for lines in (now, before))
    assert uniform["ends"] == pytest.approx(10 * old_uniform["ends"])
    low, high = noise.evaluate("node => node._fullLayout.yaxis.range.map(end => 10 ** end)")
    assert all(low < line["ends"] < high for line in (*before, *now))
    assert any(line["pale"] for line in picture.evaluate(LINES))
    assert page.locator(".stMain").evaluate("node => node.scrollHeight <= node.clientHeight"), "one screen"
    end = number.inner_text()

    menu = page.get_by_role("navigation", name="App pages")
    menu.get_by_role("link", name="Private games").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Private games")
    ready(page)
    for way in (page.go_back, page.reload):
        way()
        expect(page.get_by_role("heading", level=1)).to_have_text("Accelerated gradient")
        done(page)
        expect(page).to_have_url(re.compile(r"/accelerated\?accel_epsilon=0\.2$"))
        expect(budget).to_have_value("0.2")
        expect(number).to_have_text(end)
        expect(noise.locator("path.js-line").first).to_be_attached()
        assert noise.evaluate(LINES) == now


def test_from_a_file_to_its_results_and_what_is_taken_away(visit: Visit, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    age, income = generator.integers(18, 90, 400), generator.normal(3000, 800, 400).round()
    table = pd.DataFrame({"age": age, "income": income, "bought": np.where(age + income / 50 > 120, "yes", "no")})
    table.to_csv(tmp_path / "customers.csv", index=False)
    page = visit("/accelerated?accel_iterations=20&accel_replicates=3")
    expect(page.get_by_role("figure", name="Excess loss")).to_have_count(1)
    page.get_by_role("button", name="Use your own file").click()
    expect(page.get_by_role("figure", name="Excess loss")).to_have_count(0)  # of other data
    page.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(tmp_path / "customers.csv")
    confirm(page)
    expect(page.get_by_text("Column 'age' needs a range")).to_be_visible()
    expect(page.get_by_text("Before Run: the range of 'age', 'income'.")).to_be_visible()
    page.get_by_role("button", name="Fill from the data").click()
    expect(page.get_by_text("Ready: 400 rows, 2 features.")).to_be_visible()
    page.get_by_role("button", name="Done", exact=True).click()
    expect(page.get_by_text("Ready: 400 rows, 2 features.")).to_be_hidden()
    folded = page.get_by_text("customers.csv: 400 rows, 2 features")
    folded.click()
    expect(page.get_by_text("Ready: 400 rows, 2 features.")).to_be_visible()
    expect(page.get_by_text("Your own file: runs start by click only.")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    done(page)
    expect(page.get_by_text("Ready: 400 rows, 2 features.")).to_be_hidden()

    section(page, "Results")
    expect(page.get_by_text("Curves and numbers that read your raw data are hidden.")).to_be_visible()
    expect(chart(page, "^Excess loss")).to_have_count(0)
    page.get_by_text("Accuracy on my data (not private)").click()
    expect(drawn(page, "^Excess loss.* against steps").locator("path.js-line").first).to_be_attached()
    section(page, "Take away")
    with page.expect_download() as download:
        page.get_by_role("button", name="Python script").click()
    assert "customers" not in page.url and "income" not in page.url
    compile(Path(download.value.path()).read_text(), "script", "exec")
    page.get_by_role("button", name="Remove", exact=True).click()
    done(page)
    expect(page.get_by_role("button", name="Use your own file")).to_be_visible()


def test_a_lesson_with_a_guess_that_is_drawn(visit: Visit) -> None:
    page = visit("/learn?lesson=shrink&step=2")
    onward, handles = page.get_by_role("button", name="Next"), page.get_by_role("slider")
    expect(handles).to_have_count(6)
    expect(onward).to_be_disabled()
    sheet = page.locator(".curve svg")
    sheet.scroll_into_view_if_needed()
    box = sheet.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 22, box["y"] + 30, steps=10)
    page.mouse.up()
    expect(page.get_by_text("You predict: “Worse”.")).to_be_visible()
    onward.click()
    expect(page.get_by_text(re.compile("You said “Worse”. It was “2 to 10 times better”"))).to_be_visible()
    expect(chart(page, "^Excess loss.*Your curve")).to_be_visible()
    ready(page)


def test_a_game_on_a_phone(visit: Visit) -> None:
    page = visit("/mirror_descent", viewport={"width": 390, "height": 844}, color_scheme="dark")
    done(page)
    assert overflow(page) == 0 and not title_is_covered(page)
    expect(chart(page, "^Duality gap").first.locator("path.js-line").first).to_be_attached()
    page.get_by_role("slider", name=re.compile("Privacy budget")).first.press("ArrowRight")
    done(page)
    assert overflow(page) == 0


def test_by_keyboard_alone(visit: Visit) -> None:
    page = visit("/accelerated?accel_follow=false&accel_iterations=30&accel_replicates=3")
    run_is_among_the_first_stops(page)
    page.keyboard.press("Enter")
    done(page)
    page.get_by_role("radio", name="Results", exact=True).press("Space")
    expect(page.get_by_role("heading", name="Results", exact=True)).to_be_attached()
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    page.get_by_role("button", name="Words", exact=True).press("Enter")
    expect(page.get_by_role("dialog", name="Words of this page")).to_be_visible()
    page.keyboard.press("Escape")
    ready(page)
