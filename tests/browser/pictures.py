"""The README's pictures, made anew: python -m tests.browser.pictures"""

from playwright.sync_api import expect

from dpviz.ui.families import FAMILIES
from tests.browser.conftest import CHART, SECONDS, done
from tests.browser.serving import ROOT, chromium, serve


def main() -> None:
    """The first screen of each family's page after its first run."""
    expect.set_options(timeout=1000 * SECONDS)
    with serve() as server, chromium() as browser:
        for family in FAMILIES:
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(f"{server.url}/{family.name}")
            done(page)
            page.mouse.move(0, 0)  # away from the charts, which show their tools under it
            page.evaluate("dispatchEvent(new Event('beforeprint'))")  # all charts are drawn, also those far below
            expect(page.locator(f"{CHART}:not(:has(.main-svg))")).to_have_count(0)
            page.screenshot(path=ROOT / ".github" / f"{family.name}.png")
            page.close()


if __name__ == "__main__":
    main()
