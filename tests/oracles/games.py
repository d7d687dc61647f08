"""Step-size caps and costs of games, in forms of their own: second opinions on what `planning` finds."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dpviz.families.mirror_descent.theory import (
    Batching,
    Floats,
    Player,
    closed_form_optimum,
    mean_batches,
    rho_of_draws,
    sampling_bias,
    squared_weights,
    step_size_cap,
)
from dpviz.privacy.accounting.closed_forms import exponential_rho


def tau_full_batch(
    rounds: ArrayLike, n: int, rho: float, oscillation: float, draws: int = 1, share: float = 0.5
) -> Floats:
    """Step-size cap of one player with its share of ρ, all records in every round; n/(2 L0) √(ρ/(K Σ₂)) for osc = 2 L0,
    share ½. For synthetic data, whose only player on the data has osc = 1, share 1: n √(2 ρ/(K Σ₂))."""
    return step_size_cap(share * rho, oscillation, draws * squared_weights(rounds, n, "full_batch"))


def tau_single_pass(
    rounds: ArrayLike, batch: ArrayLike, rho: float, oscillation: float, draws: int = 1, share: float = 0.5
) -> Floats:
    """Step-size cap of one player with its share of ρ, one batch per round; B/(2 L0) √(ρ/(K (T-1))) for osc = 2 L0 and
    share ½."""
    return step_size_cap(
        share * rho, oscillation, draws * (np.asarray(rounds, float) - 1) / np.asarray(batch, float) ** 2
    )


def accumulated_rho(ranges: Floats, draws: int = 1, tight: bool = False) -> Floats:
    """(T,) ρ spent by one player after rounds 1..T, for the ranges (T-1,) of rounds 2..T."""
    costs = draws * exponential_rho(ranges) if tight else rho_of_draws(ranges, draws)
    return np.concatenate(([0.0], np.cumsum(costs)))


def stopping_bounds(stop: int, largest: int) -> tuple[float, float]:
    """Bounds on the expected number of rounds, (U - 2^M)/E 2^N and U/E 2^N (Wald's identity)."""
    return (stop - 2**largest) / mean_batches(largest), stop / mean_batches(largest)


def sample_size(
    target: float, players: Sequence[Player], shares: Sequence[float], rho: float, batching: Batching
) -> int:
    """The fewest records for which the bound of `closed_form_optimum` reaches a target gap:
    families/mirror_descent/THEORY.md, section 5.5."""
    bias = sampling_bias(players)
    # Without the bias, the bound is proportional to 1/√n.
    one = closed_form_optimum(players, shares, rho, 1, batching).bound - bias
    return math.ceil((one / (target - bias)) ** 2)
