"""How rows and steps are divided into epochs, and what the estimates of an epoch may change by."""

import math
from dataclasses import dataclass

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Cost
from dpviz.problems.directions import BANK_BYTES, bank_size
from dpviz.problems.value_problem import BLOCK, ValueFacts

SECONDS_PER_TURN, SECONDS_PER_ROTATION = 1.2e-9, 1e-5  # per number of d³, and per rotation, of a replicate
TEMPORARIES = 8  # arrays of a block that are there at once


@dataclass(frozen=True)
class Layout:
    """K epochs of T steps. first, batch : rows of the first and of every later step. move : D, the longest.

    step_size : η. directions : m, per row.
    """

    length: int
    epochs: int
    first: int
    batch: int
    move: float
    step_size: float
    directions: int

    @property
    def steps(self) -> int:
        """K T."""
        return self.length * self.epochs

    @property
    def sizes(self) -> np.ndarray:
        """(K T,) rows of every step."""
        return np.tile([self.first, *[self.batch] * (self.length - 1)], self.epochs)

    @property
    def rows(self) -> int:
        """Rows that a run uses, each once."""
        return self.epochs * (self.first + (self.length - 1) * self.batch)

    def found(self, row: int) -> tuple[int, int] | None:
        """(epoch, step), both from 1, whose batch has this row of the public order, from 1; None: it is not used."""
        if not 1 <= row <= self.rows:
            return None
        epoch, place = divmod(row - 1, self.rows // self.epochs)
        return epoch + 1, 1 if place < self.first else 2 + (place - self.first) // self.batch

    def each(self, first: float, later: float) -> np.ndarray:
        """(K T,) one number for the first step of every epoch, another one for the later steps."""
        return np.tile([first, *[later] * (self.length - 1)], self.epochs)

    def begins(self, t: int) -> bool:
        """Whether step t, from 1, is the first of an epoch."""
        return (t - 1) % self.length == 0

    def ends(self, t: int) -> bool:
        """Whether step t, from 0 for the start, is the last of an epoch."""
        return t > 0 and t % self.length == 0


def shared_out(n: int, length: int, epochs: int, share: float | None) -> tuple[int, int]:
    """Rows of the first step of an epoch and of every later one. share : of an epoch's rows, for the first; None: the
    same for all steps. Raises UserError if there are not enough."""
    per = n // epochs
    batch = per // length if share is None else int(per * (1 - share) / length)
    if batch < 1:
        raise UserError(
            f"Every row is used once, and {n:,} rows are too few for {length * epochs:,} steps. Take fewer steps, or "
            "more rows.",
            title="Not enough rows",
        )
    return (batch if share is None else per - (length - 1) * batch), batch


def total_mu(budget: Budget, facts: ValueFacts) -> float:
    """The μ that a budget buys for Gaussian noise on rows of which each is used once. UserError under pure ε."""
    (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
    return math.sqrt(2 * rho)


def run_seconds(plan: Plan, replicates: int, cost: Cost, evaluations: np.ndarray, directions: int) -> float:
    """What the values of all steps take, and turning directions. evaluations : (T,) values of one row in a step."""
    d = plan.facts.d
    turns = np.ceil(plan.rows / bank_size(directions, d)).sum()
    each = SECONDS_PER_ROTATION + SECONDS_PER_TURN * d**3
    return replicates * (float(plan.rows @ evaluations) * cost.value + float(turns) * each)


def run_bytes(plan: Plan, replicates: int, cost: Cost, directions: int) -> float:
    """Row numbers of all leaves, for each replicate; the bank of directions; temporaries of a block, which hold one row
    for each replicate at least."""
    n, d = plan.facts.n, plan.facts.d
    leaves = replicates * 8.0 * float(plan.rows.sum()) + 8.0 * n
    numbers = max(BLOCK, replicates * d * directions)
    bank = max(float(BANK_BYTES), 8.0 * bank_size(directions, d) * directions * d)
    return leaves + bank + 8.0 * TEMPORARIES * numbers + replicates * (cost.replicate + 16.0 * d**2)
