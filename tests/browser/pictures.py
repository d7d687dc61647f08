"""The README's pictures, and those of the cards on the start page, made anew: python -m tests.browser.pictures"""

from typing import Literal

from playwright.sync_api import Browser, Page, expect

from dpviz.ui.families import FAMILIES
from tests.browser.conftest import CHART, PICTURE, SECONDS, done
from tests.browser.serving import ROOT, chromium, serve

CARDS = ROOT / "dpviz" / "ui" / "components" / "cards"
FRAME = "node => { const {x, y, width, height} = node.getBoundingClientRect(); return {x, y, width, height} }"
TOOLS = ".pointer, .modebar, .annotation { visibility: hidden; }"


def main() -> None:
    """The first screen of each family's page after its first run, and the frame of its picture, light and dark."""
    expect.set_options(timeout=1000 * SECONDS)
    CARDS.mkdir(exist_ok=True)
    with serve() as server, chromium() as browser:
        for family in FAMILIES:
            page = opened(browser, f"{server.url}/{family.name}", "light")
            page.screenshot(path=ROOT / ".github" / f"{family.name}.png")
            card(page, f"{family.name}_light")
            page.close()
            page = opened(browser, f"{server.url}/{family.name}", "dark")
            card(page, f"{family.name}_dark")
            page.close()


def opened(browser: Browser, url: str, theme: Literal["light", "dark"]) -> Page:
    """A page on which all charts are drawn."""
    page = browser.new_page(viewport={"width": 1400, "height": 900}, color_scheme=theme)
    page.goto(url)
    done(page)
    page.mouse.move(0, 0)  # away from the charts, which show their tools under it
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # all charts are drawn, also those far below
    expect(page.locator(f"{CHART}:not(:has(.main-svg))")).to_have_count(0)
    return page


def card(page: Page, name: str) -> None:
    """The frame of the picture, without words."""
    page.add_style_tag(content=TOOLS)
    page.screenshot(path=CARDS / f"{name}.png", clip=page.locator(f"{PICTURE} .nsewdrag").first.evaluate(FRAME))


if __name__ == "__main__":
    main()
