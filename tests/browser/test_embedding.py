"""A page in a frame of another site: it runs, fits, and keeps to its frame."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from tests.browser.conftest import STILL, Visit
from tests.browser.serving import Server

SIDEBAR = '[data-testid="stSidebar"]'


@pytest.fixture
def course(server: Server) -> Iterator[str]:
    """The address of a page on another site, with a frame of what its own path names here."""

    class Course(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            frame = f'<iframe title="dpviz" src="{server.url}{self.path}" width="900" height="700"></iframe>'
            self.wfile.write(f"<!doctype html><title>Course</title>{frame}".encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    site = ThreadingHTTPServer(("127.0.0.1", 0), Course)
    Thread(target=site.serve_forever, daemon=True).start()
    yield f"http://localhost:{site.server_port}"  # to a browser another site than 127.0.0.1
    site.shutdown()
    site.server_close()


@pytest.mark.parametrize("width", [1400, pytest.param(1024), 390])
def test_an_embedded_page_begins_without_the_sidebar(visit: Visit, width: int) -> None:
    page = visit("/mirror_descent?embed=true&mirror_follow=false", viewport={"width": width, "height": 900})
    expect(page.locator(SIDEBAR)).to_have_attribute("data-collapsed", "true")
    expect(page.locator(SIDEBAR)).not_to_be_in_viewport()
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(page.get_by_role("link", name="Lessons")).to_be_in_viewport()


def test_a_page_in_a_frame_runs_and_fits(browser: Browser, course: str) -> None:
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.goto(f"{course}/accelerated?embed=true&accel_epsilon=4")
    frame = framed(page)
    expect(frame.get_by_text("Done:")).to_be_visible()  # it has run by itself
    expect(frame.get_by_label("Privacy budget ε, exact value").first).to_have_value("4")
    sizes = "node => [node.scrollWidth - node.clientWidth, node.clientHeight]"
    assert frame.locator(".stMain").evaluate(sizes) == [0, 700]  # it scrolls within, and down only
    for control in ("Privacy budget ε", "Steps T"):
        box = frame.get_by_label(f"{control}, exact value").first.bounding_box()
        assert box is not None and box["width"] > 100  # not squeezed beside the sidebar
    frame.get_by_test_id("stExpandSidebarButton").click()
    frame.get_by_role("link", name="Lessons").click()
    expect(frame.get_by_role("heading", name="Lessons", level=1)).to_be_visible()
    assert page.url.startswith(course)
    page.close()


def test_a_lesson_in_a_frame_for_a_lecture_hall_turns_its_pages(browser: Browser, course: str) -> None:
    page = browser.new_page()
    page.goto(f"{course}/learn?lesson=steps&embed=true&present=1")
    frame = framed(page)
    expect(frame.locator(SIDEBAR)).to_be_hidden()
    frame.get_by_role("button", name="Next").click()
    expect(frame.get_by_text("Step 2 of 4")).to_be_visible()
    page.close()


def framed(page: Page) -> FrameLocator:
    frame = page.frame_locator("iframe")
    expect(frame.locator(STILL)).to_be_visible()
    return frame
