"""Division of rows and steps into epochs, the μ of a budget, and the memory of a run."""

import math
from dataclasses import dataclass

import numpy as np

from dpviz import resources
from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Memory
from dpviz.problems.values.value_problem import BLOCK, TEMPORARIES, ValueFacts, bank_bytes

phrase = resources.phrases(__package__)


@dataclass(frozen=True)
class Layout:
    """Division into K epochs of T steps.

    length : T. epochs : K. first, batch : rows of the first and of every later step of an epoch. move : D, the longest
    move. step_size : η. directions : m, per row. follows : True if later steps have `batch` rows per D of the distance
    between two points, which is up to 2 D, and D on average.
    """

    length: int
    epochs: int
    first: int
    batch: int
    move: float
    step_size: float
    directions: int
    follows: bool = False

    @property
    def steps(self) -> int:
        """K T."""
        return self.length * self.epochs

    @property
    def sizes(self) -> np.ndarray:
        """Rows (K T,) of every step; if they follow the moves, on average, half a row more for rounding up."""
        return self.each(self.first, self.batch + self.follows / 2)

    def drawn_sizes(self, mix: np.ndarray) -> np.ndarray:
        """Return (K T,) the rows of every step. mix : (K T,) the position of each point in its move, in [0, 1]; it is
        public, and drawn before any row is read."""
        if not self.follows:
            return self.sizes.astype(int)
        distance = 1 + mix - np.roll(mix, 1)  # of the points of two steps, in D
        later = np.maximum(1, np.ceil(self.batch * distance)).astype(int)
        return np.where(np.arange(self.steps) % self.length == 0, self.first, later)

    @property
    def reserved(self) -> int:
        """Largest number of rows of an epoch; distances between its points add up to (T - 1 + s_T - s_1) D."""
        later = self.length * (self.batch + 1) - 1 if self.follows else (self.length - 1) * self.batch
        return self.first + later

    @property
    def rows(self) -> int:
        """Largest number of rows that a run uses, each once."""
        return self.epochs * self.reserved

    def found(self, row: int) -> tuple[int, int] | None:
        """Return (epoch, step), both from 1, whose batch has this row of the public order, from 1, if batches have
        their mean size; None if the row is not used."""
        ends = np.cumsum(self.sizes)
        if not 1 <= row <= ends[-1]:
            return None
        epoch, step = divmod(int(np.searchsorted(ends, row)), self.length)
        return epoch + 1, step + 1

    def each(self, first: float, later: float) -> np.ndarray:
        """Return (K T,) the number `first` for the first step of every epoch and `later` for the others."""
        return np.tile([first, *[later] * (self.length - 1)], self.epochs)

    def begins(self, t: int) -> bool:
        """Return True if step t, from 1, is the first of an epoch."""
        return (t - 1) % self.length == 0

    def ends(self, t: int) -> bool:
        """Return True if step t, from 0 for the start, is the last of an epoch."""
        return t > 0 and t % self.length == 0


def shared_out(n: int, length: int, epochs: int, share: float | None, follows: bool = False) -> tuple[int, int]:
    """Return the rows of the first step of an epoch and of every later one, as in `Layout`.

    share : of an epoch's rows, for the first step; None: the same for all steps. Raises UserError if there are not
    enough rows.
    """
    per_epoch = n // epochs
    rest = per_epoch if share is None else int(per_epoch * (1 - share))
    batch = (rest + 1) // length - 1 if follows else rest // length
    if batch < 1:
        raise UserError(
            f"Every row is used once, and {n:,} rows are too few for {length * epochs:,} steps. Take "
            f"{most_steps(n, length, share, follows):,} at most, or more rows.",
            title="Not enough rows",
        )
    if share is None:
        return batch, batch
    return per_epoch - (length * (batch + 1) - 1 if follows else (length - 1) * batch), batch


def most_steps(n: int, length: int, share: float | None, follows: bool = False) -> int:
    """Return the number of steps, in whole epochs of this length, for which rows suffice; if they do not for one epoch,
    the number of steps of a shorter one."""
    later_share = 1.0 if share is None else 1 - share
    min_rows = 2 * length - 1 if follows else length  # for the later steps of an epoch, as in `shared_out`
    per_epoch = math.ceil(min_rows / later_share)
    while int(per_epoch * later_share) < min_rows:  # rounding
        per_epoch += 1
    rest = int(n * later_share)
    return length * (n // per_epoch) or ((rest + 1) // 2 if follows else rest)


def total_mu(budget: Budget, facts: ValueFacts) -> float:
    """Return the μ of a budget for Gaussian noise on rows that are used once each. Raises UserError under pure ε."""
    (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
    return math.sqrt(2 * rho)


def memory(plan: Plan, replicates: int, problem: Memory, directions: int = 0) -> float:
    """Estimate the bytes of a run without the problem's table: row numbers of all leaves, for each replicate.

    directions : per row; if there are any, their bank is added, and the values of one row beyond a block.
    """
    n, d = plan.facts.n, plan.facts.d
    leaves = replicates * 8.0 * float(plan.rows.sum()) + 8.0 * n
    total = leaves + replicates * problem.replicate
    if not directions:
        return total
    beyond = 8.0 * TEMPORARIES * max(0, replicates * d * directions - BLOCK)
    return total + (bank_bytes(directions, d) + beyond + replicates * 16.0 * d**2)
