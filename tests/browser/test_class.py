"""A class in one room: a lecturer's projector and three phones, through lessons, randomised response and the game."""

import re

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Visit, chart, ready
from tests.browser.test_phones import choose, draw, is_sound, play


def test_a_lecturer_and_three_phones(visit: Visit, browser: Browser) -> None:
    projector = visit("/learn", viewport={"width": 1400, "height": 900})
    projector.get_by_role("button", name="Teach a class").click()
    code = projector.locator(".dpviz-code").inner_text().strip()
    expect(projector.get_by_role("img", name=f"c/{code}")).to_be_visible()
    with projector.expect_download() as sheet:
        projector.get_by_role("button", name="Sheet to print").click()
    assert {code, f"/c/{code}"} <= set(re.findall(rf"(?:/c/)?{code}", sheet.value.path().read_text(encoding="utf-8")))
    address = f"{projector.url.partition('/learn')[0]}/c/{code}"
    contexts = [browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True) for _ in range(3)]
    phones = [context.new_page() for context in contexts]
    for phone in phones:
        phone.goto(address)
        shows(phone, "Look up")
    expect(projector.get_by_text("3 phones")).to_be_visible()

    # A lesson with answers to choose from; a phone is killed and comes back to its answer.
    lesson(projector, "How many steps can you afford?")
    for index, phone in enumerate(phones):
        expect(phone.get_by_role("radio").first).to_be_visible()
        is_sound(phone)
        choose(phone, (3, 3, 0)[index])
        shows(phone, "Sent. Look up.")
    phones[2].close()
    phones[2] = contexts[2].new_page()
    phones[2].goto(address)
    shows(phones[2], "Sent. Look up.")
    expect(projector.get_by_text("3 of 3 phones answered")).to_be_visible()
    projector.reload()  # the lecturer's tab: the same class, the same question, the same answers
    ready(projector)
    expect(projector.get_by_text("3 of 3 phones answered")).to_be_visible()
    assert projector.get_by_role("progressbar").count() == 0, "nothing of the answers is on the projector yet"
    reveal(projector)
    expect(projector.get_by_role("progressbar")).to_have_count(4)
    onward(projector)
    expect(projector.get_by_text(re.compile("of 3 phones said so"))).to_be_visible()
    onward(projector)
    shows(phones[0], "Look up")

    # A lesson whose curve is drawn.
    lesson(projector, "Why should noise shrink?")
    for index, phone in enumerate(phones):
        draw(phone, index)
        shows(phone, "Sent. Look up.")
    reveal(projector)
    expect(chart(projector, "^Excess loss.*Median of the class")).to_be_visible()
    onward(projector)
    expect(projector.get_by_text(re.compile("of 3 phones said so"))).to_be_visible()

    # Randomised response.
    projector.get_by_role("button", name="Class", exact=True).click()
    projector.get_by_role("button", name="Randomised response").click()
    title = projector.get_by_role("textbox", name="Question")
    title.fill("Have you <b>ever</b> cheated?")
    title.press("Enter")
    projector.get_by_role("button", name="Ask", exact=True).click()
    for phone in phones:
        shows(phone, "Have you <b>ever</b> cheated?")
        choose(phone, 0)
        shows(phone, "Your phone reported")
    expect(projector.get_by_text("From 3 reports")).to_be_visible()
    reveal(projector)
    projector.get_by_role("button", name="Remove one").click()
    expect(projector.get_by_text("Reports: 2")).to_be_visible()

    # The game.
    projector.get_by_role("button", name="Class", exact=True).click()
    projector.get_by_role("button", name="The odds game").click()
    projector.get_by_role("button", name="Play", exact=True).click()
    for index, phone in enumerate(phones):
        play(phone, index)
        shows(phone, "Sent. Look up.")
    reveal(projector)
    expect(projector.get_by_text("The class was right in")).to_be_visible()
    shows(phones[1], re.compile("of your 10 guesses are right"))

    projector.get_by_role("button", name="End class").first.click()
    with projector.expect_download() as download:
        projector.get_by_role("button", name=re.compile("CSV|JSON")).first.click()
    assert download.value.path().stat().st_size > 100
    projector.get_by_test_id("stPopoverBody").get_by_role("button", name="End class").click()
    for phone in phones:
        shows(phone, re.compile("over"))
    for context in contexts:
        context.close()


def shows(phone: Page, text: str | re.Pattern[str]) -> None:
    """A phone shows a text, which screen readers may be told a second time."""
    expect(phone.get_by_text(text).first).to_be_visible()


def lesson(projector: Page, title: str) -> None:
    """Go from anywhere in a class to the step Predict of a lesson."""
    projector.get_by_role("button", name="Class", exact=True).click()
    projector.get_by_role("button", name="Lessons", exact=True).click()
    projector.get_by_role("button", name=title).click()
    onward(projector)
    expect(projector.get_by_role("button", name="Reveal")).to_be_enabled()


def onward(projector: Page) -> None:
    """Go to the next step of a lesson, and wait until it is drawn."""
    step = int((re.search(r"step=(\d)", projector.url) or ["", "1"])[1])
    projector.get_by_role("button", name="Next").first.click()
    expect(projector).to_have_url(re.compile(f"step={step + 1}"))
    ready(projector)


def reveal(projector: Page) -> None:
    """Press Reveal, and wait until it is done."""
    button = projector.get_by_role("button", name="Reveal")
    button.click()
    expect(button).to_be_disabled()
    ready(projector)
