"""The terms of differential privacy that pages use, from `terms.toml`, each with one sentence and one formula."""

from dataclasses import dataclass

from dpviz import resources


@dataclass(frozen=True)
class Term:
    """A term of differential privacy.

    slug : its name in the code. name : its name on the pages, with its symbol. sentence, formula : its meaning in one
    sentence and in one formula, in which D and D′ are neighbouring data sets, M is an algorithm, and S a set of
    outcomes. code : the name, within the package dpviz, of the function or class that computes it. said : the forms in
    which pages use it, regardless of case.
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
        fields = {name: value for name, value in entry.items() if name != "group"}
        fields["said"] = tuple(entry["said"])
        groups[entry["group"]] = (*groups.get(entry["group"], ()), Term(**fields))
    return groups


GROUPS = _load()
TERMS = {term.slug: term for terms in GROUPS.values() for term in terms}
