"""Before a run: which oracle, directions and running sums have the smallest bound at this size, and why."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from dpviz.families.zeroth_order import planning, theory
from dpviz.families.zeroth_order.theory import Best, Setting, Sums
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.problems.directions import Kind
from dpviz.problems.value_problem import ValueFacts

REDUCED: tuple[tuple[Kind, Sums, bool], ...] = (  # directions, sums, and whether batches follow the moves
    ("iid", "tree", False),
    ("iid", "square_root", False),
    ("orthonormal", "normalised", False),
    ("orthonormal", "normalised", True),
)


@dataclass(frozen=True)
class Option:
    """A way to estimate gradients, with its best epochs. sums : None for the naive oracle. count : m. follows : whether
    batches follow the moves."""

    kind: Kind
    count: int
    sums: Sums | None
    best: Best
    follows: bool = False


@dataclass(frozen=True)
class Advice:
    """options : the smallest bound first. lipschitz : L, from which on a bound says nothing."""

    options: tuple[Option, ...]
    lipschitz: float
    exact: bool

    @property
    def choice(self) -> Option:
        """The one with the smallest bound; the naive oracle where values have no Lipschitz constant."""
        return next((one for one in self.options if self.exact or one.sums is None), self.options[0])

    @property
    def why(self) -> str:
        """The reason, in sentences."""
        chosen, sums = self.choice, min((one for one in self.options if one.sums), key=lambda one: one.best.bound)
        if math.isinf(chosen.best.bound):
            return "There are too few rows for an epoch of two steps."
        kind = "orthonormal" if chosen.kind == "orthonormal" else "independent"
        words = ["One direction per row." if chosen.count == 1 else f"{chosen.count} {kind} directions per row."]
        if chosen.sums is None and not self.exact:
            words.append("Values jump here, so changes of the gradient would be clipped away: estimate it afresh.")
        elif chosen.sums is None:
            words.append(self._against_sums(chosen.best.length, sums))
        else:
            words.append(f"Epochs of {chosen.best.length} steps are long enough for running sums to pay.")
            if chosen.follows:
                words.append("Let batches follow the moves: that halves the noise of a change.")
        if chosen.best.bound >= self.lipschitz:
            words.append("No bound is below L at this size: they promise nothing, though runs may do well.")
        return " ".join(words)

    def _against_sums(self, length: int, sums: Option) -> str:
        """Why fresh estimates do better, in epochs of this length, than the best running sums."""
        ratio = theory.crossover(sums.sums or "tree", length, sums.follows)
        noise = f"{short(ratio)} times that of fresh estimates"
        if ratio >= 1:
            return (
                f"Epochs of {length} steps are too short for running sums: at equal rows their noise would be {noise}."
            )
        return (
            f"In epochs of {length} steps the noise of running sums would be {noise}, but their errors add up, while "
            "those of fresh estimates average out."
        )


def advice(facts: ValueFacts, budget: Budget, radius: float | None = None, most: int | None = None) -> Advice:
    """The options for these facts and this budget. radius : r, if not that of the facts. most : steps, if not any
    number of them. UserError under pure ε."""
    setting = Setting(
        facts.n,
        facts.d,
        facts.lipschitz,
        radius or facts.radius,
        facts.gap,
        planning.total_mu(budget, facts),
        "iid",
        facts.d,
    )
    found: list[Option] = []
    for kind, sums, follows in REDUCED:
        best = theory.best_reduced(replace(setting, kind=kind, follows=follows), sums, most=most)
        found.append(Option(kind, facts.d, sums, best, follows))
    kinds: tuple[tuple[Literal["iid", "orthonormal"], int], ...] = (("iid", 1), ("orthonormal", facts.d))
    for kind, count in kinds:
        best = theory.best_naive(replace(setting, kind=kind, count=count), most=most)
        found.append(Option(kind, count, None, best))
    return Advice(tuple(sorted(found, key=lambda one: one.best.bound)), facts.lipschitz, facts.exact)
