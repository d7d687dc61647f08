"""A pin in a browser: its ghost stays through a reload, and goes with the link."""

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Visit, done, labels, part, ready, shared_link

SMALL = "/accelerated?accel_uniform_rows=500&accel_replicates=3&accel_references=false&accel_methods=DP-GD"


def shows_the_ghost(page: Page) -> None:
    expect(page.get_by_text("Changed since the pin: Steps T: 100 → 20.")).to_be_visible()
    expect(labels(part(page, "accel_hero")).filter(has_text="Pin 1: DP-GD")).to_be_visible()


def test_a_pin_stays_through_a_reload_and_goes_with_the_link(visit: Visit) -> None:
    page = visit(SMALL)
    done(page)
    page.get_by_role("button", name="Pin this run").click()
    expect(page).to_have_url(re.compile("[?&]pin="))
    page.get_by_label("Steps T, exact value").fill("20")
    page.get_by_label("Steps T, exact value").press("Enter")
    shows_the_ghost(page)
    page.reload()
    ready(page)
    shows_the_ghost(page)
    link = shared_link(page, "pin=")
    other = visit("/")
    other.goto(link)
    ready(other)
    shows_the_ghost(other)
    other.get_by_role("button", name=re.compile("^Edit .")).click()
    other.get_by_label("Name", exact=True).fill("Canary")  # a term of the glossary, but no name is explained
    other.get_by_label("Name", exact=True).press("Enter")
    expect(other.locator("strong", has_text="Canary")).to_be_visible()
    other.get_by_role("button", name="Words", exact=True).click()
    words = other.get_by_role("dialog", name="Words of this page").locator("dt")
    expect(words.first).to_be_visible()
    expect(words.filter(has_text="Canary")).to_have_count(0)
    other.keyboard.press("Escape")
    other.get_by_role("button", name="Edit Canary").click()
    other.get_by_role("button", name="Remove").click()
    expect(other).not_to_have_url(re.compile("[?&]pin="))
    expect(labels(part(other, "accel_hero")).filter(has_text="Pin 1")).to_have_count(0)
