"""The README's pictures, one of which moves, and those of the cards on the start page, made anew:
python -m tests.browser.pictures"""

import io
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, expect

import dpviz
from dpviz.ui.families import FAMILIES
from tests.browser.conftest import CHART, PICTURE, SECONDS, done
from tests.browser.serving import ROOT, chromium, serve

CARDS = ROOT / "dpviz" / "ui" / "components" / "cards"
FRAME = "node => { const {x, y, width, height} = node.getBoundingClientRect(); return {x, y, width, height} }"
PICTURES = ROOT / ".github"
MOVES = 9  # of the slider, down and up again
FRAME_TIME, WIDTH = 700, 1000  # milliseconds, pixels
TOOLS = ".pointer, .modebar, .annotation { visibility: hidden; }"


def main() -> None:
    """The first screen of each family's page after its first run, and the frame of its picture, light and dark."""
    expect.set_options(timeout=1000 * SECONDS)
    CARDS.mkdir(exist_ok=True)
    with serve() as server, chromium() as browser:
        for family in FAMILIES:
            page = opened(browser, f"{server.url}/{family.name}", "light")
            page.screenshot(path=PICTURES / f"{family.name}.png")
            card(page, f"{family.name}_light")
            page.close()
            page = opened(browser, f"{server.url}/{family.name}", "dark")
            card(page, f"{family.name}_dark")
            page.close()
        moving(opened(browser, f"{server.url}/accelerated", "light"))
        page = browser.new_page(viewport={"width": 720, "height": 420})
        experiment = dpviz.Experiment(dpviz.LogisticRegression(), dpviz.Nesterov(iterations=30), epsilon=2)
        page.set_content(experiment.run()._repr_html_())
        page.locator(".plotly-graph-div").screenshot(path=PICTURES / "trace.png")


def moving(page: Page) -> None:
    """The page while the budget is moved, each frame with its run."""
    slider, frames = page.get_by_role("slider", name="Privacy budget ε"), []
    for key in ["ArrowLeft"] * MOVES + ["ArrowRight"] * MOVES:
        slider.press(key)
        page.wait_for_timeout(300)
        done(page)
        page.wait_for_timeout(700)
        image = Image.open(io.BytesIO(page.screenshot()))
        frames.append(image.resize((WIDTH, WIDTH * image.height // image.width)))
    first, *others = frames
    options = {"save_all": True, "append_images": others, "duration": FRAME_TIME, "loop": 0, "quality": 70}
    first.save(PICTURES / "moving.webp", **options)


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
