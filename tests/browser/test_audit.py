"""The audit page in a browser: the attack runs in a worker by itself, its figures move, and a guess comes first."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, Visit, chart, ready, shared_link

DONE = re.compile(r"Done: [\d,]+ runs on each data set in [\d.]+ s")


def attacked(page: Page) -> None:
    """Wait until the attack has come to its end and what was found is drawn."""
    expect(page.get_by_role("main").get_by_text(DONE)).to_be_visible()
    ready(page)


def test_a_sound_method_holds_and_a_guess_comes_first_on_a_phone(visit: Visit) -> None:
    page = visit("/audit", viewport={"width": 390, "height": 844})
    attacked(page)
    expect(page.get_by_text("No violation found")).to_be_visible()
    figure = chart(page, "True against false positive rate.*Marked: attacker's threshold")
    figure.scroll_into_view_if_needed()
    expect(figure.locator("path.js-line").first).to_be_attached()
    wide = page.evaluate("[...document.querySelectorAll('.stMain')].map(e => e.scrollWidth - e.clientWidth)")
    assert wide == [0]
    page.screenshot(path=SCREENSHOTS / "audit.png")

    page = visit("/audit?audit_guess=true")
    attacked(page)
    expect(page.get_by_text("No violation found")).to_have_count(0)
    page.get_by_role("slider", name="Your threshold").press("ArrowRight")
    value = page.get_by_label("Your threshold, exact value")
    expect(value).not_to_have_value("0")
    ready(page)
    page.get_by_role("button", name="Count it").click()
    expect(page.get_by_text("No violation found")).to_be_visible()
    expect(page.get_by_text(re.compile("Your threshold .* proves"))).to_be_visible()
    shared_link(page, "audit_guess=true")
    page.get_by_role("button", name="Another round").click()
    expect(page.get_by_label("Seed", exact=True)).to_have_value("1")
    expect(page.get_by_role("button", name="Count it")).to_be_enabled()
    expect(page.get_by_text("No violation found")).to_have_count(0)


def test_a_known_mistake_is_caught_and_the_page_says_why(visit: Visit) -> None:
    page = visit("/audit?audit_family=Broken+on+purpose", color_scheme="dark")
    attacked(page)
    expect(page.get_by_test_id("stAlertTitle").get_by_text("VIOLATION")).to_be_visible()
    expect(
        page.get_by_text(re.compile(r"Found after [\d,]+ runs on each data set. Because: Laplace noise"))
    ).to_be_visible()
    figure = chart(page, "What is proven at each announced look.*proven")
    figure.scroll_into_view_if_needed()
    expect(figure.locator(".annotation-text").filter(has_text="refuted after")).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "audit_broken.png")
