"""What it looks like when a guarantee does not hold: mistakes that were made on purpose, for audits to find."""

from dataclasses import dataclass
from typing import Literal

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
