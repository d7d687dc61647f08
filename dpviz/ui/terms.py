"""The terms of the field that pages use, from `terms.toml`: each in one sentence and one formula, and nowhere else."""

import tomllib
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Term:
    """A term of the field.

    slug : its name in the code. name : as it is written, with its symbol. sentence, formula : what it means, in one of
    each. D and D′ are neighbouring data sets, M is an algorithm, S a set of outcomes. code : what computes it, below
    dpviz. said : how pages call it, whatever the case.
    """

    slug: str
    name: str
    sentence: str
    formula: str
    code: str
    said: tuple[str, ...]


def _load() -> dict[str, tuple[Term, ...]]:
    """The terms of `terms.toml` by group, in the order of the file."""
    text = resources.files(__package__).joinpath("terms.toml").read_text("utf-8")
    groups: dict[str, tuple[Term, ...]] = {}
    for entry in tomllib.loads(text)["term"]:
        group = entry.pop("group")
        groups[group] = (*groups.get(group, ()), Term(**entry | {"said": tuple(entry["said"])}))
    return groups


GROUPS = _load()
TERMS = {term.slug: term for terms in GROUPS.values() for term in terms}
