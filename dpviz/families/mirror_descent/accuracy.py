"""The guaranteed accuracy of vertex sampling: its error bound for given public numbers and any data."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpviz.experiments.accuracy import BestBound, ErrorBound, no_bound_error
from dpviz.families.mirror_descent import planning, theory
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import Budget
from dpviz.problems.games.games import GameFacts
from dpviz.specification import number


class GameBound(ErrorBound):
    """Bound on the duality gap of vertex sampling in a game on two simplices, with all rows in every round.

    It bounds the gap on the data, in expectation over the draws: the direct bound (THEORY.md, section 10.1) at the best
    step sizes that the budget pays for.
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
        limits=(0.0, 1e6),
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
            oscillation_x=2 * self.lipschitz,  # coordinates are between -L₀ and L₀
            oscillation_y=2 * self.lipschitz,
            smoothness=max(self.lipschitz, self.smoothness),  # mixed derivatives may be as large as the payoffs
            smoothness_x=self.smoothness,
            smoothness_y=self.smoothness if self.strategies_y > 1 else 0.0,
        )

    def best(self, budget: Budget) -> BestBound:
        """Return the smallest bound over the numbers of rounds, with steps that the budget surely pays for.

        The cost of the draws is bounded in closed form, so that all numbers of rounds are compared at once. A draw of
        bounded range η costs at most η²/8 in ρ, and its μ² is at most π times that, because μ ≤ η √(2π)/4. Under pure ε
        the η add up; under (ε, δ) the better one of ε and ρ counts. A plan's exact accounting is tighter by about 1 %.
        Uniform strategies, which need no round, are the best if their bound is smaller.
        """
        players = planning.players(self.facts(), self.draws)
        rounds, bound = best_bound(players, self.rows, budget, self.iterations)
        # A uniform strategy has the weight 1/d on the best vertex already, so it loses at most spread × (1 - 1/d), in
        # which 1 - 1/d is -expm1(-ln d).
        uniform_bound = sum(player.spread * -math.expm1(-player.log_vertices) for player in players)
        return BestBound(bound, rounds) if bound < uniform_bound else BestBound(uniform_bound, 0)


def best_bound(players: Sequence[theory.Player], n: int, budget: Budget, longest: int) -> tuple[int, float]:
    """Return (T, bound): the smallest direct bound with all n rows in each of T <= longest rounds, at the best split
    of the budget between the players.

    Players whose gradient needs no data pay nothing. Raises UserError for a budget in which there is no such bound.
    """
    paying = [player for player in players if player.oscillation > 0]
    if not paying or not budget.private:  # no cost: the more rounds, the smaller the bound
        return longest, float(_bound_below_caps(players, {}, np.array([float(longest)]))[0])
    return theory.optimal_rounds(lambda rounds: _bound_within_budget(players, paying, n, budget, rounds), longest)


def _bound_within_budget(
    players: Sequence[theory.Player], paying: Sequence[theory.Player], n: int, budget: Budget, rounds: Floats
) -> Floats:
    """Return (k,) the direct bound if the whole budget is spent on T rounds, for each T of `rounds` (k,).

    If the budget limits the cost both in ε and in ρ, step sizes follow from either limit, and the smaller bound counts.
    paying : the players that read data, hence share the budget.
    """
    shares = theory.optimal_shares(paying, budget.pure)  # φ of each player, in K η²
    epsilon, rho = budget.total_epsilon, budget.total_rho  # None where the budget is no limit
    bounds = []
    if epsilon is not None:
        # A draw in round t has the range η = 2 osc τ (t - 1)/n, so a player's draws cost K osc τ T (T - 1)/n in ε. With
        # K η² in proportion to φ, these costs are in proportion to √(φ K). Together they are ε.
        root_shares = [math.sqrt(share * player.draws) for share, player in zip(shares, paying, strict=True)]
        unit_cost = rounds * (rounds - 1) / n * sum(root_shares)
        caps = [
            epsilon * math.sqrt(share / player.draws) / (player.oscillation * unit_cost)
            for share, player in zip(shares, paying, strict=True)
        ]
        bounds.append(_bound_below_caps(players, dict(zip(paying, caps, strict=True)), rounds))
    if rho is not None:
        caps = list(theory.capped_steps(paying, shares, rho, rounds, n, batching="full_batch"))
        bounds.append(_bound_below_caps(players, dict(zip(paying, caps, strict=True)), rounds))
    if not bounds:
        raise no_bound_error(budget)
    return np.asarray(np.min(bounds, axis=0))


def _bound_below_caps(
    players: Sequence[theory.Player], caps: Mapping[theory.Player, ArrayLike], rounds: Floats
) -> Floats:
    """Return (k,) the direct bound after each of `rounds` (k,), with the best step sizes below `caps`.

    caps : (k,) the largest step sizes that privacy allows; a player without an entry has no limit. Two players with
    equal constants are one key, and have equal caps.
    """
    unlimited = [np.sqrt(8 * player.log_vertices / rounds) / player.spread for player in players]  # least regret
    steps = [np.minimum(caps.get(player, math.inf), step) for player, step in zip(players, unlimited, strict=True)]
    return theory.direct_bound(players, steps, rounds)
