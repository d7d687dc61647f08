"""How pages look: narrow and wide, light and dark. The pictures go to tests/browser/screenshots."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import CHART, SCREENSHOTS, Visit, done, ready

SIZES = {"desktop": {"width": 1400, "height": 900}, "narrow": {"width": 390, "height": 844}}
TALLEST = 8000  # pixels of a picture


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark")])
@pytest.mark.parametrize("size", SIZES)
def test_start_page(visit: Visit, size: str, scheme: str) -> None:
    page = visit("/", viewport=SIZES[size], color_scheme=scheme)
    looks_right(page, f"start_{size}_{scheme}", scheme)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark")])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["accelerated", pytest.param("mirror_descent")])
def test_page_with_results(visit: Visit, name: str, size: str, scheme: str) -> None:
    page = visit(f"/{name}", viewport=SIZES[size], color_scheme=scheme)
    done(page)  # it starts by itself
    looks_right(page, f"{name}_{size}_{scheme}", scheme)
    sliders_stand_where_their_numbers_are(page)


def looks_right(page: Page, name: str, scheme: str) -> None:
    """Take the pictures, then check what can be checked: nothing sticks out or is covered, and the theme is used."""
    ready(page)
    drawn(page)
    page.locator(".stMain").evaluate("element => element.scrollTo(0, 0)")
    take(page, name)
    assert overflow(page) == 0
    assert (brightness(page) > 128) == (scheme == "light")
    assert not title_is_covered(page)


def sliders_stand_where_their_numbers_are(page: Page) -> None:
    """A page learns its width while it is drawn for the first time; no slider may lose its value over that."""
    for slider in page.get_by_role("main").get_by_role("slider").all():
        name = slider.get_attribute("aria-label") or ""
        box = page.get_by_label(f"{name}, exact value")
        if name and box.count():
            shown = (slider.get_attribute("aria-valuetext") or "").replace(",", "")
            assert float(shown) == float(box.input_value()), name


def drawn(page: Page) -> None:
    """Wait until all charts of the page have their lines, as they have before it is printed."""
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
    expect(page.locator(CHART).first).to_be_attached()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    # Asked of all at once: a page that is drawn again meanwhile has other charts than those listed before.
    expect(page.locator(f"{CHART}:not(:has(path.js-line))")).to_have_count(0)


def take(page: Page, name: str) -> None:
    """A picture of the first screen, and one of the whole page."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    size = page.viewport_size
    assert size is not None
    height = int(page.locator(".stMain").evaluate("element => element.scrollHeight"))
    page.set_viewport_size({"width": size["width"], "height": min(height, TALLEST)})
    page.screenshot(path=SCREENSHOTS / f"{name}_full.png")
    page.set_viewport_size(size)


def overflow(page: Page) -> int:
    """Pixels by which the page's content is wider than the window."""
    return page.evaluate(
        """() => Math.max(...[document.documentElement, ...document.querySelectorAll('.stMain')]
            .map(element => element.scrollWidth - element.clientWidth))"""
    )


def brightness(page: Page) -> float:
    """Brightness of the page's background, 0 to 255."""
    colour = page.locator(".stApp").evaluate("element => getComputedStyle(element).backgroundColor")
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def title_is_covered(page: Page) -> bool:
    """Whether something, such as the tool bar, lies over the page's title before any scrolling."""
    return page.get_by_role("heading", level=1).evaluate(
        """title => {
            const {left, top, height} = title.getBoundingClientRect();
            const at = part => document.elementFromPoint(left + 5, top + part * height);
            return [0.2, 0.5, 0.8].some(part => !title.contains(at(part)));
        }"""
    )
