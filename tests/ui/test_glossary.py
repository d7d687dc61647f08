"""The glossary: every term once, in one sentence and one formula; pages use every term, and explain none once more."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dpviz.ui import terms

TERMS = tuple(terms.TERMS.values())


def test_every_term_stands_once_in_one_sentence_and_one_formula() -> None:
    listed = [term for group in terms.GROUPS.values() for term in group]
    assert len(listed) == len(TERMS) >= 25
    for field in ("name", "sentence", "formula"):
        assert [text for text, count in Counter(getattr(term, field) for term in TERMS).items() if count > 1] == []
    for term in TERMS:
        assert re.fullmatch(r"[A-Zμ].*[^.]\.", term.sentence) and len(term.sentence) < 130, term.slug
        # The formula is shown as code; what Streamlit would take for something else may not stand in the sentence.
        assert term.formula and not re.search(r"[`\\]", term.formula), term.slug
        assert not re.search(r"[$`~*_|\\]", term.sentence), term.slug


def _values(value: Any) -> Iterator[str]:
    """The texts in a table of a TOML file, those in tables below it included."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _values(part)
    elif isinstance(value, str):
        yield value
