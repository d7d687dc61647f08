"""The error of evaluating a function or its gradient at x̂, the average of K vertices drawn from a mixed strategy x,
instead of at x: measured by simulation, exact where a formula is known, and bounded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc

from dpviz.families.mirror_descent import theory
from dpviz.families.mirror_descent.methods.algorithms import frequencies
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.games.games import Game, Pair

_BLOCK = 2_000_000  # about the most numbers of a simulation that are in memory at a time


@dataclass(frozen=True, eq=False)
class SamplingBias:
    """An error of sampling for each number of draws K: a bias or a mean squared error. All arrays are (k,).

    draws : K. mean, standard_error : as measured. exact : by a formula, None if there is none. bound : upper bound by
    theory.
    """

    draws: np.ndarray
    mean: np.ndarray
    standard_error: np.ndarray
    exact: np.ndarray | None
    bound: np.ndarray


def measure_value_bias(draws: Sequence[int], dimension: int, repetitions: int, seed: int) -> SamplingBias:
    """Measure the bias E h(x̂) - h(x) of the function h = ½ ‖·‖², for uniform x on `dimension` vertices.

    It is (1 - ‖x‖²)/(2K) exactly, and at most 2 L₁/K with L₁ = 1 (THEORY.md, section 5, item 6). It reads no data.
    draws : values of K. repetitions : simulated x̂ for each of them.
    """
    source = _public_draws(seed)
    log_weights = np.zeros((1, dimension))
    means, errors = [], []
    for size in draws:
        excess = np.empty(repetitions)  # h(x̂) - h(x)
        for block in _blocks(repetitions, size):
            count = block.stop - block.start
            vertices = source.sample(log_weights, count * size).reshape(count, size)
            # A cell is a repetition and a vertex. ‖x̂‖² is the sum of the squared shares in the repetition's cells.
            cells, counts = np.unique(vertices + dimension * np.arange(count)[:, None], return_counts=True)
            squared_norms = np.bincount(cells // dimension, weights=(counts / size) ** 2, minlength=count)
            excess[block] = 0.5 * (squared_norms - 1 / dimension)  # ‖x‖² is 1/d
        means.append(excess.mean())
        errors.append(excess.std(ddof=1) / np.sqrt(repetitions))
    sizes = np.array(draws, dtype=int)
    exact = (1 - 1 / dimension) / (2 * sizes)
    return SamplingBias(sizes, np.array(means), np.array(errors), exact, bound=2 / sizes)


def measure_gradient_bias(
    game: Game, strategies: Pair, draws: Sequence[int], repetitions: int, seed: int, rows: slice | None = None
) -> SamplingBias:
    """Measure the largest bias of a coordinate of a game's gradients, ‖E ∇F(x̂, ŷ) - ∇F(x, y)‖_∞, at strategies
    x (d_x,) and y (d_y,). Not private.

    One half of the repetitions chooses the coordinate and the sign of the bias, the other half measures it. A largest
    value over coordinates would be too large by its noise; this one is at most the true norm on average, and may be
    negative by chance. The bound is `theory.maurey_gradient_bias`, 0 where gradients are linear.

    draws : values of K. repetitions : simulated pairs x̂, ŷ for each of them, at least 4. rows : of the data that F is
    a mean over, None = all.
    """
    facts, source, (x, y) = game.facts, _public_draws(seed), strategies
    g_x, g_y = game.gradients(x[None], y[None], rows)
    exact_gradient = np.concatenate([g_x[0], g_y[0]])
    means, errors = [], []
    half = repetitions // 2
    for size in draws:
        first_half, _ = _mean_deviation(game, strategies, exact_gradient, source, size, half, rows)
        mean, error = _mean_deviation(game, strategies, exact_gradient, source, size, repetitions - half, rows)
        largest = int(np.argmax(np.abs(first_half)))
        means.append(np.sign(first_half[largest]) * mean[largest])
        errors.append(error[largest])
    sizes = np.array(draws, dtype=int)
    bound = theory.maurey_gradient_bias(
        facts.smoothness, facts.second_smoothness, sizes, simplices=(facts.d_x > 1) + (facts.d_y > 1)
    )
    return SamplingBias(sizes, np.array(means), np.array(errors), exact=None, bound=bound)


def measure_gradient_spread(
    game: Game, strategies: Pair, draws: Sequence[int], repetitions: int, seed: int, rows: slice | None = None
) -> SamplingBias:
    """Measure E ‖∇ₓF(x̂, y) - ∇ₓF(x, y)‖²_∞, the mean square of the largest error of a coordinate of x's gradient, at
    strategies x (d_x,) and y (d_y,). Not private.

    Only x is seen through drawn vertices here. The bound is `theory.maurey_second_moment`, 0 where x's gradient does
    not depend on x. draws, repetitions, rows : as in `measure_gradient_bias`.
    """
    facts, source, (x, y) = game.facts, _public_draws(seed), strategies
    gradient_x, _ = game.gradients(x[None], y[None], rows)
    exact_gradient = gradient_x[0]  # (d_x,)
    means, errors = [], []
    for size in draws:
        squares = np.empty(repetitions)
        for block in _blocks(repetitions, max(size, facts.d)):
            count = block.stop - block.start
            gradients, _ = game.gradients(_averages(source, x, size, count), np.repeat(y[None], count, axis=0), rows)
            squares[block] = np.abs(gradients - exact_gradient).max(axis=1) ** 2
        means.append(squares.mean())
        errors.append(squares.std(ddof=1) / np.sqrt(repetitions))
    sizes = np.array(draws, dtype=int)
    curvature = facts.second_smoothness if facts.smoothness_x else 0.0  # 0: x's gradient does not depend on x
    bound = theory.maurey_second_moment(facts.smoothness_x, curvature, sizes, facts.d_x)
    return SamplingBias(sizes, np.array(means), np.array(errors), exact=None, bound=bound)


def tail(draws: int, excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact probability that h(x̂) - h(x) is at least `excess`, and its bound exp(-K excess²/2); (k,) each,
    for positive excesses (k,).

    x is uniform and h(x) = ⟨c, x⟩, with c = 1 on one half of the vertices and -1 on the other. Then K (1 + h(x̂))/2, the
    number of draws from the first half, is binomial. The bound is that of Lemma 3.2 with L₀ = 1, L₁ = 0. draws : K.
    """
    # The smallest count of draws from the half where c = 1; less 1e-9, so that rounding does not lift a whole number.
    min_count = np.ceil(draws * (1 + excess) / 2 - 1e-9)
    at_least = bdtrc(np.minimum(min_count, draws) - 1, draws, 0.5)  # the probability of more than min_count - 1
    exact = np.where(min_count > draws, 0.0, at_least)
    return exact, np.exp(-draws * excess**2 / 2)


def _mean_deviation(
    game: Game,
    strategies: Pair,
    exact_gradient: np.ndarray,
    source: Mechanisms,
    size: int,
    repetitions: int,
    rows: slice | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Measure the mean of ∇F(x̂, ŷ) - ∇F(x, y) over the repetitions, and its standard error; (d_x + d_y,) each.

    exact_gradient : (d_x + d_y,) ∇F(x, y), both players' parts. size : K.
    """
    total, squares = np.zeros_like(exact_gradient), np.zeros_like(exact_gradient)
    for block in _blocks(repetitions, max(size, len(exact_gradient))):
        count = block.stop - block.start
        x, y = (_averages(source, strategy, size, count) for strategy in strategies)
        deviation = np.concatenate(game.gradients(x, y, rows), axis=1) - exact_gradient
        total += deviation.sum(axis=0)
        squares += (deviation**2).sum(axis=0)
    mean = total / repetitions
    variance = np.maximum(squares - repetitions * mean**2, 0.0) / (repetitions - 1)  # not below 0 by rounding
    return mean, np.sqrt(variance / repetitions)


def _averages(source: Mechanisms, strategy: np.ndarray, size: int, count: int) -> np.ndarray:
    """Draw (count, d) averages of K = `size` vertices each from a mixed strategy (d,)."""
    with np.errstate(divide="ignore"):  # vertices of weight 0 are never drawn
        log_weights = np.log(strategy)[None]
    return frequencies(source.sample(log_weights, count * size).reshape(count, size), len(strategy))


def _public_draws(seed: int) -> Mechanisms:
    """Return a source of draws that cost no privacy. It has one replicate, which draws for all repetitions: that is
    much faster than a generator for each."""
    return Mechanisms(Ledger(FixedEvents(()), 1), seed)


def _blocks(repetitions: int, width: int) -> list[slice]:
    """Return slices of the repetitions with about `_BLOCK` numbers each. width : numbers of one repetition."""
    length = max(1, _BLOCK // width)
    return [slice(start, min(start + length, repetitions)) for start in range(0, repetitions, length)]
