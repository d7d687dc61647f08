"""A page in a frame of another site: it runs, fits, and keeps to its frame."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from tests.browser.conftest import PICTURE, STILL
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


def test_a_page_in_a_frame_runs_and_fits_and_a_lesson_turns_its_pages(browser: Browser, course: str) -> None:
    page = browser.new_page(viewport={"width": 1000, "height": 800})
    page.goto(f"{course}/accelerated?embed=true&accel_epsilon=4")
    frame = framed(page)
    expect(frame.get_by_text("Done:")).to_be_visible()  # it has run by itself
    expect(frame.get_by_label("Privacy budget ε, exact value").first).to_have_value("4")
    sizes = "node => [node.scrollWidth - node.clientWidth, node.clientHeight]"
    assert frame.locator(".stMain").evaluate(sizes) == [0, 700]  # it scrolls within, and down only
    for control in ("Privacy budget ε", "Steps T"):
        box = frame.get_by_label(f"{control}, exact value").first.bounding_box()
        assert box is not None and box["width"] > 50  # not squeezed beside the sidebar
    expect(frame.locator(SIDEBAR)).not_to_be_in_viewport()
    frame.get_by_test_id("stExpandSidebarButton").click()
    frame.get_by_role("link", name="Lessons").click()
    expect(frame.get_by_role("heading", name="Lessons", level=1)).to_be_visible()
    assert page.url.startswith(course)

    page.goto(f"{course}/accelerated?embed=true&only=picture")
    frame = framed(page)
    expect(frame.get_by_text("Done:")).to_be_visible()
    expect(frame.locator(PICTURE)).to_be_visible()
    expect(frame.get_by_text("DP-NAG-opt ends at")).to_be_visible()
    for hidden in (frame.get_by_role("slider").first, frame.get_by_role("heading", level=1), frame.locator(SIDEBAR)):
        expect(hidden).to_be_hidden()
    assert frame.locator(".stMainBlockContainer").evaluate("node => node.scrollHeight") <= 500

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
