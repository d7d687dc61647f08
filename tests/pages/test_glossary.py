"""All terms stand on one page; what a press on one of them says, only a browser shows."""

from dpviz.ui import glossary
from dpviz.ui.glossary import TERMS
from tests.pages.reading import Load, text


def test_the_glossary_lists_every_term(load: Load) -> None:
    app = load("learn")
    assert not any(term.sentence in text(app) for term in TERMS.values())
    app = load("learn", **{glossary.TABS: glossary.TAB})
    for term in TERMS.values():
        assert text(app).count(term.sentence) == text(app).count(f"**{term.name}.**") == 1
        assert term.formula in text(app)
