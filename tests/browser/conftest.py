"""One server and one Chromium per test process, a fresh visitor per test, and what a healthy page looks like."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, expect

from tests.browser.serving import Server, chromium, serve
from tests.costs import counted

# Patience: where other tests keep all cores busy, a run of seconds takes more than a minute.
SECONDS = 180.0
SCREENSHOTS = Path(__file__).parent / "screenshots"

CHART = ".dpviz-plot"
PICTURE = ":is([class*='_hero '], [class*='_walk ']) .dpviz-plot"  # the live ones
STILL = '.stApp[data-test-script-state="notRunning"]'
PLACEHOLDER = '[data-testid="stSkeleton"]'
DONE = re.compile(r"Done: [\d,]+ (private )?steps( in [\d.]+ s)?")  # of an own file no time is told
UNDER_WAY = re.compile(r"[\d,]+ of [\d,]+ steps")

Visit = Callable[..., Page]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    with serve() as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=1000 * SECONDS)
    with chromium() as browser:
        yield browser


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    """Open a page of the app as a new visitor; `visit("/accelerated?accel_seed=3", color_scheme="dark")`.

    The test fails if the server logged a traceback meanwhile, or if a page asked another machine for anything.
    """
    before = len(server.printed())
    contexts: list[BrowserContext] = []
    elsewhere: set[str] = set()

    def watch(request: Request) -> None:
        if not request.url.startswith((server.url, "data:", "blob:")):
            elsewhere.add(request.url)

    def opened(path: str = "/", **settings: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1400, "height": 1000}, **settings})
        context.set_default_timeout(1000 * SECONDS)
        context.on("request", watch)
        contexts.append(context)
        page = context.new_page()
        page.goto(server.url + path)
        counted["visits"] += 1
        ready(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert elsewhere == set()
    assert "Traceback" not in server.printed()[before:], server.printed()[before:]


def ready(page: Page) -> None:
    """Wait until the page's script has come to its end and all that it said is drawn; check that it raised nothing.

    Each kind of element is fetched when the first of its kind is needed: until then a grey bar stands in its place.
    """
    expect(page.locator(f"{STILL}:not(:has({PLACEHOLDER}))")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def part(page: Page, key: str) -> Locator:
    """The element of this key: there is one, whatever else the page draws."""
    return page.locator(f".st-key-{key}")


def shared_link(page: Page, holding: str = "http") -> str:
    """What "Copy link" gives, once it holds this."""
    page.get_by_role("button", name="Copy link").click()
    shown = page.get_by_test_id("stCode").get_by_text("http").first  # the full one
    expect(shown).to_contain_text(holding)  # it is the last thing that a rerun draws
    link = shown.inner_text()
    page.keyboard.press("Escape")
    return link


def done(page: Page) -> None:
    """Wait until a run of all repeats has come to its end and its number is drawn."""
    expect(page.get_by_role("main").get_by_text(DONE)).to_be_visible()
    expect(page.get_by_text("The sentence follows when the run has ended.")).to_have_count(0)
    expect(page.get_by_text(re.compile(r"First \d+ of \d+ runs\."))).to_have_count(0)
    expect(page.get_by_role("main").get_by_text(DONE)).to_be_visible()
    ready(page)


def section(page: Page, name: str) -> None:
    """Open a section of the page."""
    page.get_by_role("radio", name=name, exact=True).click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_attached()
    ready(page)


def chart(page: Page, alt: str) -> Locator:
    """The chart with this in its text alternative."""
    return page.get_by_role("figure", name=re.compile(alt))


def drawn(page: Page, alt: str) -> Locator:
    """The same, scrolled to: it is drawn when it comes near the screen."""
    found = chart(page, alt)
    found.evaluate("node => node.scrollIntoView({ block: 'center' })")
    return found


def overflow(page: Page) -> int:
    """Pixels by which the page's content is wider than the window."""
    return page.evaluate(
        """() => Math.max(...[document.documentElement, ...document.querySelectorAll('.stMain')]
            .map(element => element.scrollWidth - element.clientWidth))"""
    )


def title_is_covered(page: Page) -> bool:
    """Whether something, such as the tool bar, lies over the page's title before any scrolling."""
    return page.get_by_role("heading", level=1).evaluate(
        """title => {
            const words = document.createRange();
            words.selectNodeContents(title);
            const {left, top, width, height} = words.getBoundingClientRect();
            const at = (across, down) => document.elementFromPoint(left + across * width, top + down * height);
            const parts = [0.01, 0.2, 0.5, 0.8, 0.99];
            return parts.some(across => parts.slice(1, -1).some(down => !title.contains(at(across, down))));
        }"""
    )


def tab_to(page: Page, button: Locator, most: int = 40) -> None:
    """Press Tab until this has the focus."""
    expect(button).to_be_enabled()
    for _ in range(most):
        page.keyboard.press("Tab")
        if button.evaluate("node => node === node.getRootNode().activeElement"):
            return
    raise AssertionError(f"it is not among the next {most} stops of the keyboard")


def run_is_among_the_first_stops(page: Page) -> None:
    # Controls are mounted one after the other, and the order of the stops comes with the page's style.
    expect(page.get_by_test_id("stSidebar").get_by_role("button", name="Reset to defaults")).to_be_visible()
    expect(page.get_by_test_id("stSidebar")).to_have_css("reading-order", "1")
    tab_to(page, page.get_by_role("button", name="Run", exact=True), 15)
