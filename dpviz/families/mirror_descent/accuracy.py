"""The guaranteed accuracy of vertex sampling: its error bound for given public numbers and any data."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpviz.experiments.accuracy import Best, ErrorBound, no_bound_in
from dpviz.families.mirror_descent import planning, theory
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import Budget, NoPrivacy
from dpviz.problems.games.games import GameFacts
from dpviz.specification import number


class GameBound(ErrorBound):
    """Vertex sampling in a game on two simplices, all rows in every round; gap on the data, expected over the draws.

    The direct bound (THEORY.md, section 10.1) at the best step sizes that the budget pays for.
    """

    kind: ClassVar[str] = "families.mirror_descent.accuracy.game"
    title: ClassVar[str] = "Vertex sampling"
    error_title: ClassVar[str] = "duality gap"
    advice: ClassVar[str] = "Allow more rounds, draw more vertices per round, or choose a larger target."
    rows: int = number(10_000, 20, 10_000_000, label="Rows", symbol="n", scale="log", help="Rows of the data set.")
    strategies_x: int = number(
        100, 2, 1_000_000, label="Choices of x", symbol="dₓ", scale="log", help="Vertices of the minimising player."
    )
    strategies_y: int = number(
        100, 1, 1_000_000, label="Choices of y", symbol="dᵧ", scale="log", help="1 = minimisation, no second player."
    )
    lipschitz: float = number(
        1.0,
        0.01,
        100.0,
        label="Largest payoff",
        symbol="L₀",
        scale="log",
        help="Bound on every coordinate of one row's gradient; in a matrix game, on its payoffs.",
    )
    smoothness: float = number(
        0.0,
        0.0,
        100.0,
        label="Own curvature",
        symbol="L₁",
        help="Of F in each player's own choices; 0 in matrix games.",
    )
    draws: int = number(1, 1, 64, label="Draws", symbol="K", scale="log", help=planning.DRAWS)
    iterations: int = number(
        10_000, 2, 100_000, label="Steps at most", symbol="T", scale="log", help="The best number up to this is taken."
    )

    def facts(self) -> GameFacts:
        """Return these numbers in the form in which a game states them."""
        return GameFacts(
            n=self.rows,
            d=self.strategies_x + self.strategies_y,
            d_x=self.strategies_x,
            d_y=self.strategies_y,
            lipschitz=self.lipschitz,
            oscillation_x=2 * self.lipschitz,
            oscillation_y=2 * self.lipschitz,
            smoothness=max(self.lipschitz, self.smoothness),
            smoothness_x=self.smoothness,
            smoothness_y=self.smoothness if self.strategies_y > 1 else 0.0,
        )

    def best(self, budget: Budget) -> Best:
        """Return the smallest bound over the numbers of rounds, with steps that the budget surely pays for.

        It is in closed form for every number of rounds at once. Σ η²/8 bounds the draws' ρ, and their μ² is at most π
        times that, because μ ≤ η √(2π)/4. Under pure ε their η add up; (ε, δ) takes the better one of that and ρ. The
        plan's accounting is tighter by about 1 %. Uniform strategies, without any round, are the best if their bound is
        smaller.
        """
        players = planning.players(self.facts(), self.draws)
        rounds, bound = best_bound(players, self.rows, budget, self.iterations)
        # At uniform strategies a player loses at most the spread of its gradient, less its part on the best vertex.
        start = sum(player.spread * -math.expm1(-player.log_vertices) for player in players)
        return Best(bound, rounds) if bound < start else Best(start, 0)

    def without_privacy(self) -> float:
        """Return the bound without a budget: the players still know each other's past only, and play vertices, not
        their strategies."""
        return self.best(NoPrivacy()).bound


def best_bound(players: Sequence[theory.Player], n: int, budget: Budget, longest: int) -> tuple[int, float]:
    """Return (T, bound): the smallest direct bound with all n rows in each of T <= longest rounds, at the best split.

    Players whose gradient needs no data pay nothing. Raises UserError for a budget in which there is no such bound.
    """
    paying = [player for player in players if player.oscillation > 0]
    if not paying or not budget.private:
        return longest, float(_bound(players, {}, np.array([float(longest)])).item())
    return theory.optimal_rounds(lambda rounds: _bounds(players, paying, n, budget, rounds), longest)


def _bounds(
    players: Sequence[theory.Player], paying: Sequence[theory.Player], n: int, budget: Budget, rounds: Floats
) -> Floats:
    """Return (k,) the direct bound after each of `rounds` (k,) that spend the budget; the best over the currencies."""
    bounds, shares = [], theory.optimal_shares(paying, budget.pure)
    if (epsilon := budget.total_epsilon) is not None:  # K η² in proportion to the shares of ρ
        parts = [math.sqrt(share * player.draws) for share, player in zip(shares, paying, strict=True)]
        weights = rounds * (rounds - 1) / n * sum(parts)  # twice the sum of the rows' weights (t - 1)/n
        caps = [
            epsilon * math.sqrt(share / player.draws) / (player.oscillation * weights)
            for share, player in zip(shares, paying, strict=True)
        ]
        bounds.append(_bound(players, dict(zip(paying, caps, strict=True)), rounds))
    if (rho := budget.total_rho) is not None:
        caps = list(theory.capped_steps(paying, shares, rho, rounds, n, "full_batch"))
        bounds.append(_bound(players, dict(zip(paying, caps, strict=True)), rounds))
    if not bounds:
        raise no_bound_in(budget)
    return np.asarray(np.min(bounds, axis=0))


def _bound(players: Sequence[theory.Player], caps: Mapping[theory.Player, ArrayLike], rounds: Floats) -> Floats:
    """Return (k,) the direct bound with the best steps up to `caps`, the largest (k,) that privacy allows."""
    free = [np.sqrt(8 * player.log_vertices / rounds) / player.spread for player in players]
    steps = [np.minimum(caps.get(player, math.inf), best) for player, best in zip(players, free, strict=True)]
    return theory.direct_bound(players, steps, rounds)
