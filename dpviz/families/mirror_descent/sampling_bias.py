"""How far a game seen through K drawn vertices is from the game itself: measured, exact where known, and bounded."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpviz.families.mirror_descent import theory
from dpviz.families.mirror_descent.algorithms import frequencies
from dpviz.privacy.ledger import FixedEvents, Ledger
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.games import Game, Pair

_BLOCK = 2_000_000  # numbers held at a time


@dataclass(frozen=True, eq=False)
class SamplingBias:
    """A bias for each number of draws K; all arrays (k,).

    mean, standard_error : measured. exact : in closed form, None where there is none. bound : what theory promises.
    """

    draws: np.ndarray
    mean: np.ndarray
    standard_error: np.ndarray
    exact: np.ndarray | None
    bound: np.ndarray


def measure(draws: Sequence[int], dimension: int, repetitions: int, seed: int) -> SamplingBias:
    """E h(x̂) - h(x) for h = ½ ‖·‖², L₁ = 1, and x̂ the average of K vertices drawn from x, uniform on `dimension`.

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
    game: Game, x: np.ndarray, y: np.ndarray, draws: Sequence[int], repetitions: int, seed: int
) -> SamplingBias:
    """Bias of a game's gradients, ‖E ∇F(x̂, ŷ) - ∇F(x, y)‖_∞, at strategies x (d_x,) and y (d_y,). Not private.

    One half of the repetitions chooses the coordinate and its sign, the other half measures it: on average the result
    is therefore at most the true norm, and may be negative by chance. The bound is `theory.maurey_gradient_bias`, 0
    where gradients are linear. repetitions : at least 4.
    """
    facts, source = game.facts, _public(seed)
    g_x, g_y = game.gradients(x[None], y[None])
    exact = np.concatenate([g_x[0], g_y[0]])
    means, errors = [], []
    for size in draws:
        chosen, _ = _mean_deviation(game, (x, y), exact, source, size, repetitions // 2)
        mean, error = _mean_deviation(game, (x, y), exact, source, size, repetitions - repetitions // 2)
        largest = int(np.argmax(np.abs(chosen)))
        means.append(np.sign(chosen[largest]) * mean[largest])
        errors.append(error[largest])
    sizes = np.array(draws, dtype=int)
    bound = theory.maurey_gradient_bias(
        facts.smoothness, facts.second_smoothness, sizes, simplices=(facts.d_x > 1) + (facts.d_y > 1)
    )
    return SamplingBias(sizes, np.array(means), np.array(errors), None, bound)


def _mean_deviation(
    game: Game, strategies: Pair, exact: np.ndarray, source: Mechanisms, size: int, repetitions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean of ∇F(x̂, ŷ) - ∇F(x, y) over the repetitions, and its standard error; (d_x + d_y,) each."""
    total, squares = np.zeros_like(exact), np.zeros_like(exact)
    with np.errstate(divide="ignore"):  # vertices of weight 0 are never drawn
        log_weights = [np.log(strategy)[None] for strategy in strategies]
    for block in _blocks(repetitions, max(size, len(exact))):
        count = block.stop - block.start
        x, y = (
            frequencies(source.sample(weights, count * size).reshape(count, size), weights.shape[1])
            for weights in log_weights
        )
        deviation = np.concatenate(game.gradients(x, y), axis=1) - exact
        total += deviation.sum(axis=0)
        squares += (deviation**2).sum(axis=0)
    mean = total / repetitions
    variance = np.maximum(squares - repetitions * mean**2, 0.0) / (repetitions - 1)
    return mean, np.sqrt(variance / repetitions)


def _public(seed: int) -> Mechanisms:
    """A source of public draws with nothing to spend. One replicate draws for all repetitions, which is much quicker
    than a generator for each."""
    return Mechanisms(Ledger(FixedEvents(()), 1), seed)


def _squared_norms(vertices: np.ndarray, dimension: int) -> np.ndarray:
    """(m,) ‖x̂‖² of the averages of the vertices in each row (m, K); needs no (m, d) table."""
    repetitions, size = vertices.shape
    cells, counts = np.unique(vertices + dimension * np.arange(repetitions)[:, None], return_counts=True)
    return np.bincount(cells // dimension, weights=(counts / size) ** 2, minlength=repetitions)


def _blocks(repetitions: int, width: int) -> list[slice]:
    """The repetitions in blocks of about 2 million numbers."""
    length = max(1, _BLOCK // width)
    return [slice(start, min(start + length, repetitions)) for start in range(0, repetitions, length)]
