"""Published uses of differential privacy, with their parameters and sources: `data/deployments.csv`.

What is protected differs between them, so they are grouped by it, and there is no ranking by ε.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from dpviz import resources
from dpviz.numbers import short
from dpviz.privacy.accounting.closed_forms import zcdp_epsilon

AS_OF = "2026-07-15"  # day of the registry's snapshot


@dataclass(frozen=True)
class Deployment:
    """A published release, or a series of such releases, under differential privacy.

    model : "central" or "local". unit : what is protected, in the words of the source. group : one of three kinds of
        units. epsilon, delta, rho : as published, either ε or ρ, the other is None; `delta` is 0 for pure ε and for ρ.
    """

    organisation: str
    product: str
    year: int
    model: str
    unit: str
    group: str
    epsilon: float | None
    delta: float
    rho: float | None
    note: str
    source: str

    @property
    def stated(self) -> str:
        """The guarantee as published."""
        if self.rho is not None:
            return f"ρ = {short(self.rho, 6)}"
        assert self.epsilon is not None
        return f"ε = {short(self.epsilon, 6)}" + (f", δ = {short(self.delta)}" if self.delta else "")

    def epsilon_at(self, delta: float) -> float:
        """Return ε at `delta` if a ρ was published; else the published ε, which holds at the published δ only."""
        if self.rho is not None:
            return zcdp_epsilon(self.rho, delta)
        assert self.epsilon is not None
        return self.epsilon


@cache
def deployments() -> Sequence[Deployment]:
    """Return the deployments of `data/deployments.csv`, those of one group and model after another.

    Sources: the deployments registry of OpenDP as of `AS_OF`, and the list of Desfontaines.
    """
    all_deployments: list[Deployment] = []
    with open(resources.data_file("deployments.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):  # an empty cell is a number that is not stated, or pure ε's δ of 0
            numbers = {name: float(row[name]) if row[name] else None for name in ("epsilon", "rho")}
            values: dict[str, Any] = {**row, **numbers, "year": int(row["year"]), "delta": float(row["delta"] or 0)}
            all_deployments.append(Deployment(**values))
    groups = list(dict.fromkeys(deployment.group for deployment in all_deployments))
    return tuple(sorted(all_deployments, key=lambda deployment: (groups.index(deployment.group), deployment.model)))
