"""The glossary: every term once, in one sentence and one formula; pages use every term, and explain none once more."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from dpviz.ui import terms

ROOT = Path(__file__).parents[2]
TERMS = tuple(terms.TERMS.values())
ALIKE = 6  # words of a sentence in a row
ROOMS = ("pages/*.py", "dpviz/ui/**/*.py", "dpviz/families/*/[tpl]e[xs]*.py", "dpviz/privacy/**/*.py")
TEXTS = [
    path for name in ("texts", "charts", "errors", "widgets") for path in sorted((ROOT / "dpviz").rglob(f"{name}.toml"))
]


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


def test_what_pages_say_stands_for_one_term_and_every_term_is_said() -> None:
    said = Counter(word.casefold() for term in TERMS for word in term.said)
    assert [word for word, count in said.items() if count > 1] == []
    texts = "\n".join(text for _, text in _texts()).casefold()
    for term in TERMS:
        assert any(word.casefold() in texts for word in term.said), term.slug


def test_nothing_is_explained_twice() -> None:
    entries = {part: term.slug for term in TERMS for part in _parts(term.sentence)}
    found = [(entries[part], part, place) for place, text in _texts() for part in _parts(text) if part in entries]
    assert found == []


def _parts(text: str) -> Iterator[tuple[str, ...]]:
    words = re.findall(r"\w+", text.casefold())
    return (tuple(words[i : i + ALIKE]) for i in range(len(words) - ALIKE + 1))


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """Where, and what: the texts in the code, without docstrings and the glossary itself."""
    files = [path for pattern in ROOMS for path in sorted(ROOT.glob(pattern))]
    return tuple(
        (str(path.relative_to(ROOT)), text)
        for path in files
        if path.name != "terms.py"
        for text in _constants(ast.parse(path.read_text(encoding="utf-8")))
    ) + tuple(
        (str(path.relative_to(ROOT)), text) for path in TEXTS for text in _values(tomllib.loads(path.read_text()))
    )


def _values(value: Any) -> Iterator[str]:
    """The texts in a table of a TOML file, those in tables below it included."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _values(part)
    elif isinstance(value, str):
        yield value


def _constants(tree: ast.Module) -> Iterator[str]:
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value
