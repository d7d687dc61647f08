"""Terms are explained where they are used, when somebody asks, and all of them on one page."""

import pytest

from dpviz.ui import glossary
from tests.pages.reading import Load, text


@pytest.mark.parametrize(
    ("page", "key", "slug"),
    [
        ("accelerated", "accel_words", "amplification"),
        ("budget_planner", "planner_words", "loss_distribution"),
        ("mirror_descent", "mirror_words", "duality_gap"),
    ],
)
def test_words_of_a_page_are_explained_when_they_are_asked_for(load: Load, page: str, key: str, slug: str) -> None:
    app, sentence = load(page), glossary.TERMS[slug].sentence
    assert sentence not in text(app)
    app.session_state[key] = True
    app.run()
    assert not app.exception and text(app).count(sentence) == 1
    assert glossary.TERMS["epsilon"].formula in text(app)


def test_the_glossary_lists_every_term(load: Load) -> None:
    app = load("learn")
    assert not any(term.sentence in text(app) for term in glossary.TERMS.values())
    app = load("learn", **{glossary.TABS: glossary.TAB})
    for term in glossary.TERMS.values():
        assert text(app).count(term.sentence) == text(app).count(term.name) == 1
