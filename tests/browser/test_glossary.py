"""Terms say what they mean where they stand: by a press on the word, and by the keyboard on one button."""

import pytest
from playwright.sync_api import Page, expect

from dpviz.ui.terms import TERMS
from tests.browser.conftest import Visit, ready

# The places of the marked words on the screen, the first of each text, scrolled to.
MARKED = """wanted => {
    for (const at of CSS.highlights.get("dpviz-words") ?? []) {
        if (at.startContainer.data.slice(at.startOffset, at.endOffset).toLowerCase() !== wanted) continue;
        at.startContainer.parentElement.scrollIntoView({ block: "center" });
        const range = document.createRange();
        range.setStart(at.startContainer, at.startOffset);
        range.setEnd(at.endContainer, at.endOffset);
        const { left, top, width, height } = range.getBoundingClientRect();
        return [left + width / 2, top + height / 2];
    }
    return null;
}"""


@pytest.mark.parametrize(
    ("name", "word", "slug"),
    [
        ("budget_planner", "clip", "clipping"),
        pytest.param("accelerated", "excess loss", "excess_loss"),
        pytest.param("mirror_descent", "duality gap", "duality_gap"),
        pytest.param("audit", "canary", "canary"),
    ],
)
def test_a_word_is_explained_where_it_stands_when_it_is_pressed(visit: Visit, name: str, word: str, slug: str) -> None:
    page, term = visit(f"/{name}"), TERMS[slug]
    assert page.get_by_text(term.sentence).count() == 0
    pressed(page, word)
    expect(page.get_by_text(term.sentence)).to_be_visible()
    assert page.get_by_text(term.sentence).count() == 1
    expect(page.get_by_text(term.formula, exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_text(term.sentence)).to_be_hidden()
    all_words_of_the_page(page, slug)


def pressed(page: Page, word: str) -> None:
    """Press the first place where this word is marked, once it is."""
    page.wait_for_function(f"wanted => ({MARKED})(wanted) !== null", arg=word)
    page.mouse.click(*page.evaluate(MARKED, word))


def all_words_of_the_page(page: Page, slug: str) -> None:
    """One stop of the keyboard explains what the page says, and nothing else, and leads to all that there are."""
    page.get_by_role("button", name="Words", exact=True).press("Enter")
    panel = page.get_by_role("dialog", name="Words of this page")
    expect(panel.get_by_text(TERMS[slug].sentence)).to_be_visible()
    assert panel.get_by_text(TERMS["epsilon"].formula, exact=True).count() == 1
    assert 3 < panel.locator("dt").count() < len(TERMS)
    panel.get_by_role("button", name="All words").press("Enter")
    expect(page.get_by_role("tab", name="Glossary")).to_have_attribute("aria-selected", "true")
    ready(page)
    assert page.get_by_text(TERMS["goldstein"].sentence).count() == 1
    assert page.evaluate('() => CSS.highlights.get("dpviz-words")?.size ?? 0') == 0  # the list explains itself
