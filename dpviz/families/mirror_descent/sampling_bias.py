"""Error of values and gradients at the average of K drawn vertices: measured, exact where known, and bounded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc

from dpviz.families.mirror_descent import theory
from dpviz.families.mirror_descent.methods.algorithms import frequencies
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.games.games import Game, Pair

_BLOCK = 2_000_000  # numbers held at a time


@dataclass(frozen=True, eq=False)
class SamplingBias:
    """Bias for each number of draws K; all arrays (k,).

    mean, standard_error : measured. exact : in closed form, None where there is none. bound : upper bound by theory.
    """

    draws: np.ndarray
    mean: np.ndarray
    standard_error: np.ndarray
    exact: np.ndarray | None
    bound: np.ndarray


def measure(draws: Sequence[int], dimension: int, repetitions: int, seed: int) -> SamplingBias:
    """Measure E h(x̂) - h(x) for h = ½ ‖·‖², L₁ = 1, and x̂ the average of K vertices drawn from x, uniform on
    `dimension` vertices.

    It is (1 - ‖x‖²)/(2K) exactly, and at most 2 L₁/K (THEORY.md, section 5, item 6). No data, no privacy.
    """
    source = _public(seed)
    log_weights = np.zeros((1, dimension))
    means, errors = [], []
    for size in draws:
        excess = np.empty(repetitions)
        for block in _blocks(repetitions, size):
            count = block.stop - block.start
            vertices = source.sample(log_weights, count * size).reshape(count, size)
            excess[block] = 0.5 * (_squared_norms(vertices, dimension) - 1 / dimension)
        means.append(excess.mean())
        errors.append(excess.std(ddof=1) / np.sqrt(repetitions))
    sizes = np.array(draws, dtype=int)
    exact = (1 - 1 / dimension) / (2 * sizes)
    return SamplingBias(sizes, np.array(means), np.array(errors), exact, theory.maurey_value(1.0, sizes))


def measure_game(
    game: Game, strategies: Pair, draws: Sequence[int], repetitions: int, seed: int, rows: slice | None = None
) -> SamplingBias:
    """Measure the bias of a game's gradients, ‖E ∇F(x̂, ŷ) - ∇F(x, y)‖_∞, at strategies x (d_x,) and y (d_y,). Not
    private.

    One half of the repetitions chooses the coordinate and its sign, the other half measures it: on average the result
    is therefore at most the true norm, and may be negative by chance. The bound is `theory.maurey_gradient_bias`, 0
    where gradients are linear. repetitions : at least 4. rows : of the data that are used, None = all.
    """
    facts, source, (x, y) = game.facts, _public(seed), strategies
    g_x, g_y = game.gradients(x[None], y[None], rows)
    exact = np.concatenate([g_x[0], g_y[0]])
    means, errors = [], []
    for size in draws:
        first_half, _ = _mean_deviation(game, strategies, exact, source, size, repetitions // 2, rows)
        mean, error = _mean_deviation(game, strategies, exact, source, size, repetitions - repetitions // 2, rows)
        largest = int(np.argmax(np.abs(first_half)))
        means.append(np.sign(first_half[largest]) * mean[largest])
        errors.append(error[largest])
    sizes = np.array(draws, dtype=int)
    bound = theory.maurey_gradient_bias(
        facts.smoothness, facts.second_smoothness, sizes, simplices=(facts.d_x > 1) + (facts.d_y > 1)
    )
    return SamplingBias(sizes, np.array(means), np.array(errors), None, bound)


def measure_spread(
    game: Game, strategies: Pair, draws: Sequence[int], repetitions: int, seed: int, rows: slice | None = None
) -> SamplingBias:
    """Measure the second moment E ‖∇ₓF(x̂, y) - ∇ₓF(x, y)‖²_∞ at strategies x (d_x,), the only one that is drawn, and y
    (d_y,). Not private. The bound is `theory.maurey_second_moment`, 0 where x's gradient does not depend on x."""
    facts, source, (x, y) = game.facts, _public(seed), strategies
    exact = game.gradients(x[None], y[None], rows)[0][0]
    with np.errstate(divide="ignore"):  # vertices of weight 0 are never drawn
        weights = np.log(x)[None]
    means, errors = [], []
    for size in draws:
        squares = np.empty(repetitions)
        for block in _blocks(repetitions, max(size, facts.d)):
            count = block.stop - block.start
            averages = frequencies(source.sample(weights, count * size).reshape(count, size), facts.d_x)
            deviations = game.gradients(averages, np.repeat(y[None], count, axis=0), rows)[0] - exact
            squares[block] = np.abs(deviations).max(axis=1) ** 2
        means.append(squares.mean())
        errors.append(squares.std(ddof=1) / np.sqrt(repetitions))
    sizes = np.array(draws, dtype=int)
    curvature = facts.second_smoothness if facts.smoothness_x else 0.0
    bound = theory.maurey_second_moment(facts.smoothness_x, curvature, sizes, facts.d_x)
    return SamplingBias(sizes, np.array(means), np.array(errors), None, bound)


def tail(draws: int, excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute P(h(x̂) - h(x) ≥ excess), exact, and its bound (Lemma 3.2), for excesses (k,) above 0.

    For h(x) = ⟨c, x⟩ with c = 1 on one half of the vertices and -1 on the other, L₀ = 1 and L₁ = 0, and uniform x: then
    K (1 + h(x̂))/2 is binomial.
    """
    min_count = np.ceil(draws * (1 + excess) / 2 - 1e-9)  # of draws from the half where c = 1
    exact = np.where(min_count > draws, 0.0, bdtrc(np.minimum(min_count, draws) - 1, draws, 0.5))
    return exact, theory.maurey_tail(1.0, draws, excess)


def _mean_deviation(
    game: Game, strategies: Pair, exact: np.ndarray, source: Mechanisms, size: int, repetitions: int, rows: slice | None
) -> tuple[np.ndarray, np.ndarray]:
    """Measure the mean of ∇F(x̂, ŷ) - ∇F(x, y) over the repetitions, and its standard error; (d_x + d_y,) each.

    exact : (d_x + d_y,) ∇F(x, y). size : K.
    """
    total, squares = np.zeros_like(exact), np.zeros_like(exact)
    with np.errstate(divide="ignore"):  # vertices of weight 0 are never drawn
        log_weights = [np.log(strategy)[None] for strategy in strategies]
    for block in _blocks(repetitions, max(size, len(exact))):
        count = block.stop - block.start
        x, y = (
            frequencies(source.sample(weights, count * size).reshape(count, size), weights.shape[1])
            for weights in log_weights
        )
        deviation = np.concatenate(game.gradients(x, y, rows), axis=1) - exact
        total += deviation.sum(axis=0)
        squares += (deviation**2).sum(axis=0)
    mean = total / repetitions
    variance = np.maximum(squares - repetitions * mean**2, 0.0) / (repetitions - 1)
    return mean, np.sqrt(variance / repetitions)


def _public(seed: int) -> Mechanisms:
    """Return a source of public draws without a budget. One replicate draws for all repetitions, which is much faster
    than a generator for each."""
    return Mechanisms(Ledger(FixedEvents(()), 1), seed)


def _squared_norms(vertices: np.ndarray, dimension: int) -> np.ndarray:
    """Return (m,) ‖x̂‖² of the averages of the vertices in each row (m, K); needs no (m, d) table."""
    repetitions, size = vertices.shape
    cells, counts = np.unique(vertices + dimension * np.arange(repetitions)[:, None], return_counts=True)
    return np.bincount(cells // dimension, weights=(counts / size) ** 2, minlength=repetitions)


def _blocks(repetitions: int, width: int) -> list[slice]:
    """Return the repetitions in blocks of about 2 million numbers; width : numbers in one repetition."""
    length = max(1, _BLOCK // width)
    return [slice(start, min(start + length, repetitions)) for start in range(0, repetitions, length)]
