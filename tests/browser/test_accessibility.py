"""What axe-core finds on each page, light and dark: nothing of ours; and Run is near for the keyboard on every page."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, expect

from dpviz.compare.pins import Pin
from dpviz.families.accelerated.presets import PRESETS
from dpviz.ui.appearance import PRESSED
from dpviz.ui.experiment.sections import HOLDS
from dpviz.ui.families import FAMILIES
from tests.browser.conftest import Visit, done, ready, section
from tests.browser.test_run_first import run_is_among_the_first_stops

# Rule and place of what Streamlit itself draws so, whatever a page says; every other rule is checked there, too.
THEIRS = [
    # The menu puts the pages of each section into a `div` between `ul` and `li`.
    ("list", '[data-testid="stSidebarNavItems"]'),
    ("listitem", '[data-testid="stSidebarNavItems"]'),
    ("presentation-role-conflict", '[data-testid="stFileUploaderDropzone"]'),
    # What opens over a page is put behind its landmarks.
    ("region", "#stFloatingOverlayPortal"),
]
FOUND = """async theirs => {
    const found = await axe.run(document, { resultTypes: ["violations"], elementRef: true });
    const ours = (rule, node) => !theirs.some(([of, place]) => of === rule && node.element.closest(place));
    return found.violations.flatMap(({ id, nodes }) => nodes.filter(node => ours(id, node))
        .map(node => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
}"""
ADDRESSES = [
    "/",
    "/learn",
    "/learn?learn_tabs=Glossary",
    "/learn?lesson=steps&step=2",
    "/budget_planner",
    "/compare",
    "/audit",
]
DESK, PHONE = {"width": 1400, "height": 1000}, {"width": 390, "height": 844}
# The server draws its colours, too, and has to hear of the change.
HAS_COLOUR = "colour => [...document.querySelectorAll('style')].some(style => style.textContent.includes(colour))"


@pytest.mark.parametrize("address", ADDRESSES)
def test_nothing_of_ours_stands_in_the_way_of_anybody(visit: Visit, address: str) -> None:
    page = visit(address, color_scheme="light")
    for scheme in light_and_dark(page):
        assert violations(page) == [], scheme


@pytest.mark.parametrize("name", [family.name for family in FAMILIES])
def test_an_algorithm_page_is_for_everybody_and_run_is_among_the_first_stops(visit: Visit, name: str) -> None:
    page = visit(f"/{name}", color_scheme="light")
    done(page)  # it starts by itself
    for scheme in light_and_dark(page):
        assert violations(page) == [], scheme
    run_is_among_the_first_stops(page)


def test_a_page_that_turns_dark_while_it_is_open_can_be_read(visit: Visit) -> None:
    page = visit("/budget_planner", color_scheme="light")
    page.emulate_media(color_scheme="dark")
    value = page.get_by_test_id("stSliderThumbValue").first
    expect(value).to_have_css("color", rgb(PRESSED["dark"]))  # drawn by the server, which has to hear of it
    assert violations(page) == []
    page.emulate_media(color_scheme="light")
    expect(value).to_have_css("color", rgb(PRESSED["light"]))


def test_what_opens_on_a_page_is_for_everybody(visit: Visit) -> None:
    page = visit("/accelerated", color_scheme="dark")
    done(page)
    for name in ("Pin this run", "Pins", "Copy link", "Words", "Edit Pin 1"):
        page.get_by_role("button", name=name, exact=True).click()
        assert violations(page) == [], name
        page.keyboard.press("Escape")


def test_the_tabs_of_a_page_are_for_everybody(visit: Visit) -> None:
    page = visit("/accelerated", color_scheme="light", viewport=PHONE)
    done(page)
    for tab in page.get_by_role("tab").all()[1:]:
        tab.click()
        assert violations(page) == [], tab.inner_text()
    for name in list(HOLDS)[1:]:
        section(page, name)
        assert violations(page) == [], name


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pins_side_by_side_are_for_everybody(visit: Visit, scheme: str) -> None:
    pins = [
        ("pin", Pin(name, preset.experiment).to_link()) for name, preset in zip(("One", "Two"), PRESETS, strict=False)
    ]
    page = visit(f"/compare?{urlencode(pins)}", color_scheme=scheme, viewport=PHONE if scheme == "light" else DESK)
    expect(page.get_by_role("heading", name="What publishing all of them costs")).to_be_visible()
    assert violations(page) == []


def test_an_audit_that_has_run_is_for_everybody(visit: Visit) -> None:
    page = visit("/audit", color_scheme="light", viewport=PHONE)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("heading", name="What the attack has found")).to_be_visible()
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_that_the_planner_plans_is_for_everybody(visit: Visit, scheme: str) -> None:
    page = visit("/budget_planner", color_scheme=scheme, viewport=PHONE if scheme == "dark" else DESK)
    for tab in page.get_by_role("tab").all()[1 if scheme == "dark" else 2 :: 2]:  # each of them once
        tab.click()
        assert violations(page) == [], tab.inner_text()


def light_and_dark(page: Page) -> Iterator[str]:
    """The scheme of a page that was opened in light, and then in dark."""
    yield "light"
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(HAS_COLOUR, arg=f"color: {PRESSED['dark']} !important")
    yield "dark"


def rgb(colour: str) -> str:
    """A colour "#RRGGBB" as a browser says it."""
    return "rgb({}, {}, {})".format(*bytes.fromhex(colour[1:]))


def violations(page: Page) -> list[str]:
    """What axe-core finds on all of the page, without what is Streamlit's own."""
    ready(page)
    page.evaluate(AXE_SCRIPT)
    found: list[str] = page.evaluate(FOUND, THEIRS)
    return found
