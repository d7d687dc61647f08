"""Every way from one page to another, after the controls of the first were moved: no exception, and the other's top."""

import re

import pytest
from playwright.sync_api import Page, expect

from dpviz.ui.families import FAMILIES
from tests.browser.conftest import Visit, ready
from tests.browser.test_every_page import ADDRESSES

TOP = "() => document.querySelector('[data-testid=stMain]').scrollTop"
BOTTOM = "() => document.querySelector('[data-testid=stMain]').scrollTo(0, 10000)"
DOORS = '[class*="st-key-home_"] .stButton button'


def moved(page: Page) -> None:
    """Move every slider that is enabled."""
    for slider in page.get_by_role("slider", disabled=False).all():
        slider.press("ArrowRight")
    ready(page)


def opened(page: Page, path: str) -> None:
    expect(page).to_have_url(re.compile(rf"//[^/]+{path}(\?.*)?$"))
    ready(page)
    assert page.evaluate(TOP) == 0


def test_every_door_of_start(visit: Visit) -> None:
    page = visit("/")
    doors = page.locator(DOORS)
    count = doors.count()
    assert count >= 3 + len(FAMILIES)
    for number in range(count):
        moved(page)
        doors.nth(number).scroll_into_view_if_needed()
        doors.nth(number).click()
        opened(page, r"/\w+")
        page.get_by_test_id("stSidebarNavLink").filter(has_text="Start").click()
        opened(page, "/")


@pytest.mark.parametrize("name", [name for name in ADDRESSES if name != "start"])
def test_the_menu_and_the_list_of_words_open_from_every_page(visit: Visit, name: str) -> None:
    page = visit(ADDRESSES[name])
    moved(page)
    page.evaluate(BOTTOM)
    page.get_by_test_id("stSidebarNavLink").filter(has_text="Start").click()
    opened(page, "/")
    page.goto(f"{page.url.rstrip('/')}{ADDRESSES[name]}")
    ready(page)
    words = page.get_by_role("button", name="Words", exact=True)
    if not words.count():
        return
    moved(page)
    words.click()
    page.get_by_role("button", name="All words").click()
    expect(page.get_by_role("tab", name="Glossary", selected=True)).to_be_visible()
    ready(page)
    assert name == "learn" or page.evaluate(TOP) == 0  # there it is another tab of the same page


def test_a_pin_opens_its_page(visit: Visit) -> None:
    page = visit(ADDRESSES["compare_pins"])
    page.get_by_role("button", name="Open One").click()
    opened(page, f"/{FAMILIES[0].name}")


def test_a_lesson_opens_the_page_that_it_is_about(visit: Visit) -> None:
    page = visit(ADDRESSES["lesson_outcome"].replace("step=3", "step=4"))
    page.get_by_role("button", name=re.compile("^(Try|Open)")).first.click()
    opened(page, f"/({'|'.join(family.name for family in FAMILIES)}|budget_planner)")
