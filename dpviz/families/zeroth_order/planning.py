"""How rows and steps are divided into epochs, and what the estimates of an epoch may change by."""

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
    """K epochs of T steps. first, batch : rows of the first and of every later step. move : D, the longest.

    step_size : η. directions : m, per row. follows : whether later steps have `batch` rows per D that two points may be
    apart, which is up to 2 D and D on average.
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
        """(K T,) rows of every step, on average if they follow the moves: half a row is added where they are whole."""
        return self.each(self.first, self.batch + self.follows / 2)

    def drawn_sizes(self, mix: np.ndarray) -> np.ndarray:
        """(K T,) rows of every step. mix : (K T,) where in its move each point is, in [0, 1]; it is public, and drawn
        before any row is read."""
        if not self.follows:
            return self.sizes.astype(int)
        apart = 1 + mix - np.roll(mix, 1)  # the points of two steps, in D
        later = np.maximum(1, np.ceil(self.batch * apart)).astype(int)
        return np.where(np.arange(self.steps) % self.length == 0, self.first, later)

    @property
    def reserved(self) -> int:
        """Rows of an epoch, at most: what points are apart adds up to (T - 1 + s_T - s_1) D."""
        most = self.length * (self.batch + 1) - 1 if self.follows else (self.length - 1) * self.batch
        return self.first + most

    @property
    def rows(self) -> int:
        """Rows that a run uses, each once; at most."""
        return self.epochs * self.reserved

    def found(self, row: int) -> tuple[int, int] | None:
        """(epoch, step), both from 1, whose batch has this row of the public order, from 1, if batches have their mean
        size; None: it is not used."""
        ends = np.cumsum(self.sizes)
        if not 1 <= row <= ends[-1]:
            return None
        epoch, step = divmod(int(np.searchsorted(ends, row)), self.length)
        return epoch + 1, step + 1

    def each(self, first: float, later: float) -> np.ndarray:
        """(K T,) one number for the first step of every epoch, another one for the later steps."""
        return np.tile([first, *[later] * (self.length - 1)], self.epochs)

    def begins(self, t: int) -> bool:
        """Whether step t, from 1, is the first of an epoch."""
        return (t - 1) % self.length == 0

    def ends(self, t: int) -> bool:
        """Whether step t, from 0 for the start, is the last of an epoch."""
        return t > 0 and t % self.length == 0


def shared_out(n: int, length: int, epochs: int, share: float | None, follows: bool = False) -> tuple[int, int]:
    """Rows of the first step of an epoch and of every later one, as in `Layout`. share : of an epoch's rows, for the
    first; None: the same for all steps. Raises UserError if there are not enough."""
    per = n // epochs
    rest = per if share is None else int(per * (1 - share))
    batch = (rest + 1) // length - 1 if follows else rest // length
    if batch < 1:
        raise UserError(
            f"Every row is used once, and {n:,} rows are too few for {length * epochs:,} steps. Take "
            f"{most_steps(n, length, share, follows):,} at most, or more rows.",
            title="Not enough rows",
        )
    if share is None:
        return batch, batch
    return per - (length * (batch + 1) - 1 if follows else (length - 1) * batch), batch


def most_steps(n: int, length: int, share: float | None, follows: bool = False) -> int:
    """For how many steps, in whole epochs of this length, rows suffice; if not for one epoch, for how many of one."""
    kept = 1.0 if share is None else 1 - share
    least = 2 * length - 1 if follows else length  # rows for the later steps of an epoch, as in `shared_out`
    per = math.ceil(least / kept)
    while int(per * kept) < least:  # rounding
        per += 1
    rest = int(n * kept)
    return length * (n // per) or ((rest + 1) // 2 if follows else rest)


def total_mu(budget: Budget, facts: ValueFacts) -> float:
    """The μ that a budget buys for Gaussian noise on rows of which each is used once. UserError under pure ε."""
    (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
    return math.sqrt(2 * rho)


def memory(plan: Plan, replicates: int, problem: Memory, directions: int = 0) -> float:
    """Estimate the bytes beside the problem: row numbers of all leaves, for each replicate; if so many directions of
    every row are turned, their bank, and what the values of one row take beyond a block."""
    n, d = plan.facts.n, plan.facts.d
    leaves = replicates * 8.0 * float(plan.rows.sum()) + 8.0 * n
    found = leaves + replicates * problem.replicate
    if not directions:
        return found
    beyond = 8.0 * TEMPORARIES * max(0, replicates * d * directions - BLOCK)
    return found + (bank_bytes(directions, d) + beyond + replicates * 16.0 * d**2)
