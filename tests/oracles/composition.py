"""Composition theorems that no page needs: the order in which they stand checks those that one does."""

import math
from collections.abc import Sequence

import numpy as np

from dpviz.privacy.accounting.closed_forms import _randomised_responses


def optimal_delta(epsilon: float, steps: int, total: float, step_delta: float = 0.0) -> float:
    """δ at ε = total ≥ 0 of any `steps` releases that are (epsilon, step_delta)-DP; inverse of `optimal_epsilon`."""
    if not total >= 0:
        raise ValueError(f"total must not be negative, got {total}")
    losses, excess, scaled = _randomised_responses(epsilon, steps)
    reached = np.flatnonzero(losses >= total)
    failed = steps * math.log1p(-step_delta)
    if len(reached) == 0:
        return -math.expm1(failed)
    last = reached[-1]
    reduced = min(1.0, float(excess[last] - scaled[last] * math.expm1(min(0.0, total - losses[last]))))
    return -math.expm1(failed) + math.exp(failed) * reduced


def simple(epsilons: Sequence[float], slack: float, deltas: Sequence[float] = ()) -> tuple[float, float]:
    """(ε, δ) of releases with different (ε_i, δ_i) (Kairouz, Oh, Viswanath 2015, Theorem 3.5); never above Σ ε_i.

    slack : δ~ > 0; the δ of all is 1 - (1 - δ~) Π (1 - δ_i). deltas : as many as epsilons, or none if all are 0.
    """
    each = np.asarray(epsilons, dtype=float)
    squares = float(each @ each)
    mean = float(each @ np.tanh(each / 2))
    logarithm = min(math.log(1 / slack), math.log(math.e + math.sqrt(squares) / slack))
    kept = math.log1p(-slack) + sum(math.log1p(-delta) for delta in deltas)
    return min(float(each.sum()), mean + math.sqrt(2 * squares * logarithm)), -math.expm1(kept)
