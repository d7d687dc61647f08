"""The terms of the field that pages use, from `terms.toml`: each with one sentence and one formula."""

from dataclasses import dataclass

from dpviz import resources


@dataclass(frozen=True)
class Term:
    """A term of the field.

    slug : its name in the code. name : as it is written, with its symbol. sentence, formula : its meaning, in one of
        each; D and D′ are neighbouring data sets, M is an algorithm, S a set of outcomes. code : name of what computes
        it, below dpviz. said : its forms on the pages, in lower or upper case.
    """

    slug: str
    name: str
    sentence: str
    formula: str
    code: str
    said: tuple[str, ...]


def _load() -> dict[str, tuple[Term, ...]]:
    """Return the terms of `terms.toml` by group, in the order of the file."""
    groups: dict[str, tuple[Term, ...]] = {}
    for entry in resources.data(__package__, "terms.toml")["term"]:
        parts = {name: value for name, value in entry.items() if name != "group"}
        term = Term(**parts | {"said": tuple(entry["said"])})
        groups[entry["group"]] = (*groups.get(entry["group"], ()), term)
    return groups


GROUPS = _load()
TERMS = {term.slug: term for terms in GROUPS.values() for term in terms}
