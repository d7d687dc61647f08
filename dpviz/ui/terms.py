"""The terms of differential privacy that pages use, from `terms.toml`, each with one sentence and one formula."""

from collections.abc import Sequence
from dataclasses import dataclass

from dpviz import resources


@dataclass(frozen=True)
class Term:
    """A term of differential privacy.

    group : title under which the glossary lists it. slug : its name in the code. name : its name on the pages, with its
    symbol. sentence, formula : its meaning in one sentence and in one formula, in which D and D′ are neighbouring data
    sets, M is an algorithm, and S a set of outcomes. code : the name, within the package dpviz, of the function or
    class that computes it. forms : the forms in which pages use it, regardless of case.
    """

    group: str
    slug: str
    name: str
    sentence: str
    formula: str
    code: str
    forms: Sequence[str]


TERMS = {entry["slug"]: Term(**entry) for entry in resources.data(__package__, "terms.toml")["term"]}
