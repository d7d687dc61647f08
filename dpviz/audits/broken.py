"""What it looks like when a guarantee does not hold: mistakes that were made on purpose, for audits to find."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpviz import resources
from dpviz.audits.audit import Audit, Case
from dpviz.privacy.budgets import Budget


@dataclass(frozen=True)
class Broken:
    """A mistake, and how it is caught.

    name : of it in links. title : in a few words. mistake : in a sentence, what is done. why : in a sentence, why that
    is not what the plan claims, and what an attacker makes of it.
    case : with the mistake. sound : the same without it. budget : what is claimed.
    runs : on each data set, with which an audit catches it in 99 of 100 times.
    by : what catches it: the attack on the claim, or the tests of the implementation, where it hides from the attack.
    """

    name: str
    title: str
    mistake: str
    why: str
    case: Case
    sound: Case
    budget: Budget
    runs: int
    by: Literal["attack", "tests"] = "attack"

    def audit(self, seed: int | None = None) -> Audit:
        """An audit with so many runs as are needed."""
        return Audit(self.case, self.budget, runs=self.runs, seed=seed)


def load(package: str, cases: Mapping[str, tuple[Case, Case]]) -> tuple[Broken, ...]:
    """The mistakes of a family, with their words from the file `broken.toml` in its package.

    cases : by the name of the mistake, the case with it and the sound one; the sound one's first budget is claimed.
    Raises KeyError for a mistake without words.
    """
    words = resources.data(package, "broken.toml")
    return tuple(
        Broken(name=name, case=case, sound=sound, budget=sound.budgets[0], **words[name])
        for name, (case, sound) in cases.items()
    )
