"""Division of rows and steps into epochs, the μ of a budget, and the memory of a run.

A run has K epochs of T steps. A step of an epoch estimates the gradient, or how it changed, from a batch of rows. Every
row is in at most one batch.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.plan import Plan
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Memory
from dpviz.problems.values.value_problem import BLOCK, TEMPORARIES, ValueFacts, bank_bytes


@dataclass(frozen=True)
class Layout:
    """Division of a run into K epochs of T steps, with the sizes of its batches and its moves.

    length : T, steps of an epoch. epochs : K. first, batch : rows of the first and of every later step of an epoch.
    move : D, the length of the longest move from one point to the next. step_size : η of the learner that chooses the
        moves. directions : m, the number of random directions per row.
    follows : True if the batches of later steps follow the moves: such a step has `batch` rows per D of the distance
        between its point and the one before, which is up to 2 D, and D on average.
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
        """Number of steps of a run, K T."""
        return self.length * self.epochs

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of every step, (K T,). If batches follow the moves it is the mean number: rounding up adds
        half a row."""
        return self.per_step(self.first, self.batch + (0.5 if self.follows else 0.0))

    def drawn_sizes(self, positions: np.ndarray) -> np.ndarray:
        """Return (K T,) the number of rows of every step of a run.

        positions : (K T,) of each step's point in its move, in [0, 1]. They are public, and drawn before any row is
            read, so that batches that follow the moves have public sizes.
        """
        if not self.follows:
            return self.sizes.astype(int)  # whole numbers already, stored as floats
        # Largest distance from the point before, in units of D: the rest of the last move and the part of this one.
        distance = 1 + positions - np.roll(positions, 1)
        later = np.maximum(1, np.ceil(self.batch * distance)).astype(int)
        return np.where(np.arange(self.steps) % self.length == 0, self.first, later)

    @property
    def max_rows_of_epoch(self) -> int:
        """Largest number of rows that an epoch uses.

        If batches follow the moves, the distances between the points of an epoch add up to (T - 1 + s_T - s_1) D ≤ T D,
        where s_t in [0, 1] is the position of point t in its move; rounding up adds less than a row to each of the T -
        1 later batches.
        """
        later = self.length * (self.batch + 1) - 1 if self.follows else (self.length - 1) * self.batch
        return self.first + later

    @property
    def rows(self) -> int:
        """Largest number of rows that a run uses, each once."""
        return self.epochs * self.max_rows_of_epoch

    def step_of_row(self, row: int) -> tuple[int, int] | None:
        """Return the epoch and its step, both from 1, whose batch contains a row; None if the row is not used.

        row : its place, from 1, in the public order in which batches take rows. Batches that follow the moves are taken
            at their mean size.
        """
        ends = np.cumsum(self.sizes)
        if not 1 <= row <= ends[-1]:
            return None
        epoch, step = divmod(int(np.searchsorted(ends, row)), self.length)
        return epoch + 1, step + 1

    def per_step(self, first: float, later: float) -> np.ndarray:
        """Return (K T,) one number for every step: `first` for the first step of an epoch, `later` for the others."""
        return np.tile([first, *[later] * (self.length - 1)], self.epochs)

    def begins(self, t: int) -> bool:
        """Return True if step t, from 1, is the first of an epoch."""
        return (t - 1) % self.length == 0

    def ends(self, t: int) -> bool:
        """Return True if step t, from 1, is the last of an epoch; t = 0, the start, is not."""
        return t > 0 and t % self.length == 0


def divide_rows(n: int, length: int, epochs: int, share: float | None, follows: bool = False) -> tuple[int, int]:
    """Share n rows out to the steps of `epochs` epochs; return the rows of the first step of an epoch and of every
    later one, as in `Layout`.

    length : T, steps of an epoch. share : of an epoch's rows, for its first step; None if all steps get the same
        number. The rest is divided by T, not T - 1, so that a half gives B₁ ≥ T B₂, as the paper has it; what remains
        is the first step's, too.
    follows : True if batches follow the moves.
    Raises UserError if there are not enough rows.
    """
    per_epoch = n // epochs
    later_rows = per_epoch if share is None else int(per_epoch * (1 - share))
    # Batches that follow the moves may take T (batch + 1) - 1 rows together: see `Layout.max_rows_of_epoch`.
    batch = (later_rows + 1) // length - 1 if follows else later_rows // length
    if batch < 1:
        raise UserError(
            f"Every row is used once, and {n:,} rows are too few for {length * epochs:,} steps. Take "
            f"{max_steps(n, length, share, follows):,} at most, or more rows.",
            title="Not enough rows",
        )
    if share is None:
        return batch, batch
    max_later_rows = length * (batch + 1) - 1 if follows else (length - 1) * batch
    return per_epoch - max_later_rows, batch


def max_steps(n: int, length: int, share: float | None, follows: bool = False) -> int:
    """Return the largest number of steps, in whole epochs of `length` steps, for which n rows suffice; if they do not
    suffice for one epoch, the number of steps of a shorter one. Arguments as for `divide_rows`."""
    later_share = 1.0 if share is None else 1 - share
    # Smallest number of rows for the later steps of an epoch with which `divide_rows` gives each of them one row or
    # more.
    min_later_rows = 2 * length - 1 if follows else length
    per_epoch = math.ceil(min_later_rows / later_share)
    while int(per_epoch * later_share) < min_later_rows:  # rounding
        per_epoch += 1
    whole_epochs = n // per_epoch
    if whole_epochs:
        return length * whole_epochs
    later_rows = int(n * later_share)
    return (later_rows + 1) // 2 if follows else later_rows  # the largest length that needs no more later rows


def total_mu(budget: Budget, facts: ValueFacts) -> float:
    """Return the μ-Gaussian DP that a budget pays for, inf without privacy: as every row is in one step only, every
    step may have all of it.

    Raises UserError under pure ε, which Gaussian noise never gives.
    """
    # Of a single step on all n rows: nothing is sampled. `prior` are releases that the budget covers, too.
    (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), m=facts.n, n=facts.n, prior=facts.released)
    return math.sqrt(2 * rho)  # ρ = μ²/2


def memory(plan: Plan, replicates: int, problem: Memory, directions: int = 0) -> float:
    """Estimate the bytes that a run takes, without the problem's table.

    They are the row numbers in all batches, for each replicate; the row numbers of the random order, once; and what the
    problem keeps for a replicate.
    directions : per row; 0 for methods without sets of directions. They add the bank of directions, two rotations (d,
        d) per replicate, and the values of a row where they do not fit into a block of the usual size.
    """
    n, d = plan.facts.n, plan.facts.d
    row_numbers = replicates * 8.0 * float(plan.rows.sum()) + 8.0 * n
    total = row_numbers + replicates * problem.replicate
    if not directions:
        return total
    beyond_block = 8.0 * TEMPORARIES * max(0, replicates * d * directions - BLOCK)
    return total + (bank_bytes(directions, d) + beyond_block + replicates * 16.0 * d**2)
