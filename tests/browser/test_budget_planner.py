"""The budget planner in a browser: currencies, sliders, tabs, the table of analyses, downloads, and the shared link."""

import csv
import json
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from dpviz.numbers import short
from tests.browser.conftest import SCREENSHOTS, Visit, part, ready, shared_link
from tests.confirming import confirm
from tests.pages.planner import TABS

READ = ("Pure ε", "ε at δ = 10⁻⁶", "ρ (zCDP)", "μ (Gaussian DP)", "Rényi at α = 8")


def metric(page: Page, label: str) -> Locator:
    return page.get_by_test_id("stMetric").filter(has_text=label).first.get_by_test_id("stMetricValue")


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()
    expect(page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")
    figure = page.get_by_role("tabpanel").get_by_role("figure").first
    expect(figure).to_be_visible()  # when the tab has been opened
    ready(page)
    figure.scroll_into_view_if_needed()
    expect(figure.locator(".main-svg").first).to_be_visible()


def test_another_currency_a_dragged_slider_and_the_shared_link(visit: Visit) -> None:
    page = visit("/budget_planner")
    expect(metric(page, "Pure ε")).to_have_text("2")
    page.get_by_role("combobox", name="Guarantee").click()
    page.get_by_role("option", name="μ-GDP").click()
    expect(page.get_by_label("Privacy budget μ, exact value")).to_be_visible()
    expect(metric(page, "Pure ε")).to_have_text("—")
    ready(page)
    before = {label: metric(page, label).inner_text() for label in READ}
    slider = page.get_by_role("slider", name="Privacy budget μ")
    box = slider.bounding_box()
    assert box
    page.mouse.move(box["x"], box["y"])  # the hidden input begins at the middle of the thumb
    page.mouse.down()
    page.mouse.move(box["x"] + 30, box["y"], steps=6)
    page.mouse.up()
    expect(page).to_have_url(re.compile("planner_mu="))
    for label in READ[1:]:
        expect(metric(page, label)).not_to_have_text(before[label])
    expect(metric(page, "Pure ε")).to_have_text("—")
    ready(page)
    page.screenshot(path=SCREENSHOTS / "budget_planner.png")
    of_one = page.get_by_role("button", name=re.compile("^CSV of the chart “.+”")).first  # and all that is seen is CSV
    assert of_one.evaluate("node => node.getBoundingClientRect().width") < 100

    value = page.get_by_label("Privacy budget μ, exact value").input_value()
    other = page.context.new_page()
    other.goto(shared_link(page, f"planner_mu={value}"))
    ready(other)
    expect(other.get_by_label("Privacy budget μ, exact value")).to_have_value(value)
    for label in READ:
        expect(metric(other, label)).to_have_text(metric(page, label).inner_text())


def test_a_link_restores_the_open_tab_its_controls_and_the_edited_table(visit: Visit) -> None:
    """The table is edited in tests/pages; here it arrives by a link, stays, and leaves by another one."""
    rows = [["Training", "Laplace", 35.0, 1.0, "", "share of the total", None, None]]
    page = visit("/budget_planner?" + urlencode({"planner_split": json.dumps(rows)}))
    open_tab(page, "Start from the accuracy")
    field = page.get_by_label("Error you can live with, exact value")
    field.fill("0.05")
    field.press("Enter")
    expect(page).to_have_url(re.compile("planner_error=0.05"))
    expect(metric(page, "Smallest budget")).not_to_have_text("ε = 0.113")  # of the error 0.2
    smallest = metric(page, "Smallest budget").inner_text()

    open_tab(page, "Split a budget")
    expect(page.get_by_test_id("stMarkdown").filter(has_text="All together")).to_be_visible()
    link = shared_link(page, "planner_tabs=Split")
    assert "Laplace%22%2C35.0%2C" in link and "planner_error=0.05" in link

    open_tab(page, "Noise")
    open_tab(page, "Split a budget")
    assert shared_link(page, "planner_tabs=Split") == link  # the table and the error stay while another tab is open

    other = page.context.new_page()
    other.goto(link)
    ready(other)
    expect(other.get_by_role("tab", name="Split a budget")).to_have_attribute("aria-selected", "true")
    assert shared_link(other, link) == link
    open_tab(other, "Start from the accuracy")
    expect(other.get_by_label("Error you can live with, exact value")).to_have_value("0.05")
    expect(metric(other, "Smallest budget")).to_have_text(smallest)


def test_downloads_hold_what_is_shown(visit: Visit) -> None:
    page = visit("/budget_planner?planner_rows=1000&planner_batch_fraction=0.1&planner_tabs=What+accounting+saves")
    with page.expect_download() as found:
        part(page, "planner_chart_accountants_csv").get_by_role("button").click()
    with found.value.path().open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert found.value.suggested_filename == "dpviz_planner_chart_accountants.csv"
    values = {row["y"]: float(row["ε"]) for row in rows}
    assert values["basic composition"] == pytest.approx(2.0) and len(values) == len(rows) >= 7
    assert min(values, key=values.__getitem__) == "privacy loss distribution"

    with page.expect_download() as found:
        page.get_by_role("button", name="Figures (HTML)").click()
    html = found.value.path().read_text(encoding="utf-8")
    assert "<h2>What an attacker can do</h2>" in html and "<h2>The same noise at δ = 10⁻⁶</h2>" in html
    assert "planner_rows=1000" in html and html.count('id="figure-') == 2
    offline = page.context.new_page()
    offline.set_content(html)
    expect(offline.locator(".main-svg").first).to_be_visible()


def test_columns_of_a_file_become_analyses_a_report_and_a_notebook_that_computes_them(visit: Visit) -> None:
    tall = {"width": 1400, "height": 3000}  # charts are drawn when they come into sight
    page = visit("/budget_planner?planner_currency=ρ-zCDP&planner_tabs=Your+analyses", viewport=tall)
    page.get_by_text("Take columns from a file").click()
    rows = "\n".join(f"{'yes' if k % 3 else 'no'},{k}" for k in range(60))
    file = {"name": "mine.csv", "mimeType": "text/csv", "buffer": f"smokes,age\n{rows}".encode()}
    part(page, "planner_file").locator("input[type=file]").set_input_files([file])  # type: ignore[list-item]
    confirm(page)
    expect(page.get_by_text("60 rows, 2 columns")).to_be_visible()
    columns = part(page, "planner_columns").get_by_role("combobox")
    columns.click()
    page.get_by_role("option", name="smokes").click()
    page.keyboard.press("Escape")
    ready(page)
    part(page, "planner_columns_kind").get_by_role("combobox").click()
    page.get_by_role("option", name="Count").click()
    ready(page)
    page.get_by_role("button", name="Add to the table, with n = 60").click()
    bars = part(page, "planner_chart_analyses").locator("text.bartext")
    expect(bars).to_have_count(1)
    expect(page.get_by_role("spinbutton", name="Rows n, exact value")).to_have_value("60")
    ready(page)

    files = {}
    for name in ("Notebook", "Report to print (HTML)"):
        with page.expect_download() as found:
            page.get_by_role("button", name=name).click()
        files[name] = found.value.path().read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for cell in json.loads(files["Notebook"])["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert names["plan"].rows == 60 and names["table"]["analysis"].tolist() == ["smokes"]
    assert bars.all_text_contents() == [f"{names['table']['rows_needed'][0]:,}"]
    together = page.get_by_test_id("stMetricValue").filter(has_text=f"≤ {short(names['total'].values['rho'])}")
    expect(together.first).to_be_visible()
    page.set_content(files["Report to print (HTML)"])
    expect(page.get_by_text("smokes. Count of the rows that satisfy a condition.")).to_be_visible()


@pytest.mark.parametrize(
    ("name", "settings"), [("narrow", {"viewport": {"width": 390, "height": 900}}), ("dark", {"color_scheme": "dark"})]
)
def test_every_tab_on_a_narrow_and_on_a_dark_screen(visit: Visit, name: str, settings: dict[str, object]) -> None:
    page = visit("/budget_planner", **settings)
    for tab in TABS:
        open_tab(page, tab)
        width = page.viewport_size["width"] if page.viewport_size else 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        main = page.get_by_test_id("stMain")
        assert main.evaluate("element => element.scrollWidth <= element.clientWidth")
    page.screenshot(path=SCREENSHOTS / f"budget_planner_{name}.png")
    if name == "dark":
        background = page.locator(".stApp").evaluate("element => getComputedStyle(element).backgroundColor")
        color = page.locator(".xtitle").first.evaluate("element => getComputedStyle(element).fill")
        assert brightness(background) < 60 < 150 < brightness(color)


def brightness(color: str) -> float:
    """Of a CSS colour, from 0 to 255."""
    red, green, blue = (float(value) for value in re.findall(r"[\d.]+", color)[:3])
    return 0.3 * red + 0.59 * green + 0.11 * blue


def test_the_theory_of_privacy_is_set_in_tables_without_raw_markup(visit: Visit) -> None:
    page = visit("/budget_planner")
    box = page.get_by_test_id("stExpander").filter(has_text="Derivations and sources")
    box.locator("summary").click()
    expect(box.get_by_role("heading", name="Theory of the privacy core")).to_be_visible()
    expect(box.locator("table")).to_have_count(6)
    assert box.locator("h1, h2").count() == 0 and box.locator("code").count() > 5
    assert not re.search(r"\*\*|\|-|`|\\|^#|_\{", box.inner_text(), re.MULTILINE)
    width = box.evaluate("element => [element.scrollWidth, element.clientWidth]")
    assert width[0] <= width[1] + 1
