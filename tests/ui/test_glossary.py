"""The glossary: every term once, in one sentence and one formula; what pages name exists, and every term is named."""

import re
from collections import Counter

from dpviz.ui import families, glossary
from dpviz.ui.audit import texts
from dpviz.ui.budget_planner import view

TERMS = tuple(glossary.TERMS.values())


def test_every_term_stands_once_in_one_sentence_and_one_formula() -> None:
    listed = [term for terms in glossary.GROUPS.values() for term in terms]
    assert len(listed) == len(TERMS) >= 25
    for field in ("name", "sentence", "formula"):
        assert [text for text, count in Counter(getattr(term, field) for term in TERMS).items() if count > 1] == []
    for term in TERMS:
        assert re.fullmatch(r"[A-Zμ].*[^.]\.", term.sentence) and len(term.sentence) < 130, term.slug
        # The formula is shown as code; what Streamlit would take for something else may not stand in the sentence.
        assert term.formula and not re.search(r"[`\\]", term.formula), term.slug
        assert not re.search(r"[$`~*_|\\]", term.sentence), term.slug


def test_what_pages_name_exists_and_is_named_once() -> None:
    pages = [family.page() for family in families.FAMILIES]
    named = [(*glossary.USUAL, *page.words, *glossary.SHOWN) for page in pages]
    named += [view.WORDS, texts.WORDS]
    for slugs in named:
        assert len(set(slugs)) == len(slugs) and set(slugs) <= set(glossary.TERMS)
    assert set().union(*named) == set(glossary.TERMS), "a term that no page uses"
