"""Bounds on the expected gap before a run: of a plan after each round, and as functions of the number of rounds T, of
the rows and of the players' shares of the budget. Also the actual privacy cost of the paper's step size, and a
comparison of the plan's split of the budget between the two players with the even and the best split.

All of this is computed from settings, never from data or a run. Sections are those of THEORY.md.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpviz.experiments.algorithm import AnyAlgorithm
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import accuracy, planning, rates, theory
from dpviz.families.mirror_descent.methods import algorithms, baselines, bias_reduced, noisy_gradients
from dpviz.privacy.accounting import accountants, closed_forms
from dpviz.privacy.accounting.closed_forms import Floats, zcdp_epsilon
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.events import inner_events
from dpviz.problems.games.games import GameFacts
from dpviz.problems.games.marginals import Marginals

MAX_ROUNDS = 100_000  # the largest T that is considered for a given number of rows


def gap_bound(algorithm: algorithms.VertexSampling, plan: Plan) -> np.ndarray | None:
    """Return (T+1,) a bound on the expected gap of the output after t = 0..T rounds (section 10.1); nan at t = 0.

    It bounds the gap on the data; in a single pass over the rows, the gap on the population. None if the output is
    drawn afresh, because the bound is about the vertices that were played (erratum E1).
    """
    if algorithm.output == "fresh":
        return None
    facts = GameFacts.of(plan.facts)
    players = planning.players(facts, (int(plan.resolved["draws"]), int(plan.resolved["draws_y"])))
    if not plan.budget.private:  # the weights themselves are played, so there is no error of sampling
        players = tuple(player._replace(smoothness=0.0) for player in players)
    # Step sizes and numbers of rows are the same in all rounds. A player with a single strategy makes no steps.
    steps = [plan.schedule[f"step_size_{name}"][0] for name, d in (("x", facts.d_x), ("y", facts.d_y)) if d > 1]
    rounds, batch = np.arange(1.0, plan.iterations + 1), plan.rows[0]
    bound = theory.direct_bound(players, steps, rounds)
    if batch < facts.n:  # a single pass: each round has rows of its own
        bound = bound + theory.population_term(players, facts.lipschitz, rounds, batch)
    return np.concatenate([[np.nan], bound])


def without_vacuous(bound: np.ndarray, facts: GameFacts) -> np.ndarray:
    """Return a bound on the gap, with NaN where it is not below `facts.largest_gap`, the limit of any gap of the game:
    there it says nothing."""
    return np.where(bound < facts.largest_gap, bound, np.nan)


def histogram_error(algorithm: AnyAlgorithm, plan: Plan, marginals: Marginals, rounds: int, fit_error: float) -> float:
    """Return a bound on the expected largest error of the marginal cells of a released histogram; infinite where none
    is known, as for MWEM.

    rounds : after which the histogram was released. fit_error : largest distance of the histogram's cells from the
    noisy tables, as released by `GaussianMarginals`.
    """
    bound: float = math.inf
    if isinstance(algorithm, baselines.GaussianMarginals):
        # On average the largest noise of q cells is at most σ √(2 ln 2q), as the maximum of sub-Gaussian variables. All
        # tables are released in the first round.
        bound = plan.noise["tables"][0] * math.sqrt(2 * math.log(2 * marginals.queries)) + fit_error
    elif isinstance(algorithm, algorithms.VertexSampling):
        # In the game of synthetic data no cell's error exceeds the duality gap.
        bounds_by_round = gap_bound(algorithm, plan)
        bound = math.inf if bounds_by_round is None else float(bounds_by_round[rounds])
    return bound if bound <= 1 else math.inf  # cells are shares of the rows: no error is above 1


def bound_over_rounds(
    facts: GameFacts, budget: Budget, rounds: Sequence[int], sampling: planning.Sampling
) -> tuple[Floats, Floats]:
    """Return two bounds on the expected gap if T rounds share the budget, for each T >= 2 of `rounds` (k,).

    The first (k,) is for the largest step sizes that the budget allows, the second (k,) for the best step sizes up to
    them. In a single pass they bound the gap on the population.
    """
    at_caps, at_best = [], []
    for count in rounds:
        players, largest, unlimited = _players_and_steps(facts, budget, count, sampling)
        best_steps = [min(pair) for pair in zip(largest, unlimited, strict=True)]
        at_caps.append(_bound(facts, players, largest, count, sampling.batching))
        at_best.append(_bound(facts, players, best_steps, count, sampling.batching))
    return np.array(at_caps), np.array(at_best)


def bound_over_shares(
    facts: GameFacts, budget: Budget, shares: Sequence[float], rounds: int, sampling: planning.Sampling
) -> tuple[Floats, Floats]:
    """Return the bound on the expected gap after T = `rounds`, and the part of it that depends on the split of the
    budget (section 10.3), for each of `shares` (k,), the share of player x.

    The first (k,) is the bound with the best step sizes τ up to the largest that the budget allows. The second (k,) is
    Σ ln d/(τ T) over the players that pay, with the largest step sizes.
    """
    best_bounds, regrets = [], []
    for share in shares:
        players, largest, unlimited = _players_and_steps(facts, budget, rounds, sampling._replace(share_x=share))
        steps = [min(pair) for pair in zip(largest, unlimited, strict=True)]
        best_bounds.append(_bound(facts, players, steps, rounds, sampling.batching))
        paying = [(player, step) for player, step in zip(players, largest, strict=True) if player.oscillation > 0]
        regrets.append(sum(player.log_vertices / (step * rounds) for player, step in paying))
    return np.array(best_bounds), np.array(regrets)


def _players_and_steps(
    facts: GameFacts, budget: Budget, rounds: int, sampling: planning.Sampling
) -> tuple[tuple[theory.Player, ...], list[float], list[float]]:
    """Return the players with a choice, and two step sizes of each: the largest that the budget allows, and the one
    with the least regret if the budget were no limit. A player that pays nothing has this second one twice."""
    draws, share_x, batching = sampling
    players = planning.players(facts, draws)
    row_weights = planning.row_weights(facts, rounds, batching)
    split = planning.shares(facts, share_x, draws, pure=budget.pure)
    caps = planning.private_steps(facts, budget, row_weights, draws, split, accounting="tight", rounds=rounds)
    player_caps = [cap for cap, d in zip(caps, (facts.d_x, facts.d_y), strict=True) if d > 1]
    unlimited = [planning.regret_step(player.log_vertices, player.spread, rounds) for player in players]
    # `private_steps` returns 0 for a player that pays nothing.
    largest = [cap if cap > 0 else step for cap, step in zip(player_caps, unlimited, strict=True)]
    return players, largest, unlimited


def _bound(
    facts: GameFacts, players: Sequence[theory.Player], steps: Sequence[float], rounds: int, batching: planning.Batching
) -> float:
    """Return the direct bound (section 10.1) on the expected gap after `rounds` with these step sizes of the players;
    in a single pass, on the gap on the population."""
    bound = float(theory.direct_bound(players, steps, rounds))
    if batching == "single":
        bound += float(theory.population_term(players, facts.lipschitz, rounds, facts.n // rounds))
    return bound


def paper_over_rounds(facts: GameFacts, budget: ApproximateDP, rounds: Floats, draws: int) -> tuple[Floats, Floats]:
    """Return the paper's bound on the gap on the population after T rounds of a single pass, and the part of it that
    Lemma 4.2 adds for drawing the output afresh; (k,) each, for each T of `rounds`.

    The step size is the paper's: min(√(ℓ/T)/L₀, its privacy cap), with ℓ = ln d_x + ln d_y. draws : K.
    """
    remaining = planning.remaining_approximate(budget, "The paper's bound", facts)
    log_vertices = (math.log(facts.d_x), math.log(facts.d_y))
    cap = rates.tau_paper(rounds, facts.n // rounds, remaining.epsilon, remaining.delta, facts.lipschitz, draws)
    step = np.minimum(np.sqrt(facts.log_vertices / rounds) / facts.lipschitz, cap)
    constants = (facts.lipschitz, facts.smoothness, facts.second_smoothness)
    bound = rates.paper_bound(log_vertices, step, rounds, draws, constants)
    return bound, rates.fresh_output_term(log_vertices, facts.smoothness, rounds * draws)


def bound_over_rows(facts: GameFacts, budget: Budget, rows: Sequence[float], draws: planning.Draws = 1) -> Floats:
    """Return (k,) the smallest bound on the expected gap with each number of rows in `rows` (k,).

    All rows are used in every round, the number of rounds is the best up to `MAX_ROUNDS`, and the budget is split
    between the players at its best. The cost of releases before the run is subtracted from the budget.
    """
    players = planning.players(facts, draws)
    remaining = budget.share(1.0, facts.released) if facts.released else budget
    bounds = []
    for n in rows:
        _, bound = accuracy.best_bound(players, round(n), remaining, MAX_ROUNDS)
        bounds.append(bound)
    return np.array(bounds)


def rows_for_gap(facts: GameFacts, budget: Budget, target: float, draws: planning.Draws = 1) -> int | None:
    """Return the smallest number of rows for which `bound_over_rows` is at most `target`, up to 0.1 %, by bisection.

    None if 10⁹ rows are not enough: the part of the bound that comes from drawing few vertices does not fall with the
    number of rows.
    """

    def is_enough(log_rows: float) -> bool:
        return float(bound_over_rows(facts, budget, [math.exp(log_rows)], draws)[0]) <= target

    low, high = math.log(2), math.log(1e9)
    if not is_enough(high):
        return None
    while high - low > 1e-3:  # 0.1 %, as these are logarithms
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return math.ceil(math.exp(high))


def paper_costs(plan: Plan) -> dict[str, float]:
    """Return ε at the budget's δ of the draws of a vertex-sampling plan whose step size follows the paper's rule, by
    the name of the accounting method.

    The draws are the same for all four methods: the paper's claim; the paper's advanced composition, evaluated instead
    of bounded, which counts every draw at the largest range η of all; zCDP with η²/8 per draw; the tightest accountant.
    """
    budget = plan.budget
    assert isinstance(budget, ApproximateDP)
    ranges = [plan.schedule[f"range_{name}"] for name in "xy" if (plan.schedule[f"range_{name}"] > 0).any()]
    # The first events are those of one round: one for each paying player, x before y, with all draws of the player.
    draws = [len(inner_events(event)) for event in plan.events[: len(ranges)]]
    total_draws = sum(draws) * plan.iterations
    composed = closed_forms.advanced_epsilon(float(np.max(ranges)), total_draws, budget.delta)
    rho = sum(float(theory.rho_of_draws(etas, count).sum()) for etas, count in zip(ranges, draws, strict=True))
    return {
        "as the paper counts": budget.epsilon,
        "its composition, evaluated": float(composed),
        "zCDP, η²/8 per draw": zcdp_epsilon(rho, budget.delta),
        "tightest accountant": accountants.tightest(plan.events, budget.delta).epsilon,
    }


SplitMethod = (
    algorithms.VertexSampling | bias_reduced.BiasReduced | algorithms.CertifiedSampling | noisy_gradients.NoisyGradients
)  # the methods whose players share a budget


class SplitComparison(NamedTuple):
    """The part of a method's bound on the gap that depends on how the players split the budget, for three splits.

    yours, even, best : that part at the split as set, at equal shares, and at the best split. For methods that draw
    vertices it is Σ ln d/(τ T), for noisy gradients the part that the noise adds (section 10.7).
    share, best_share : share of player x as set, and at the best split.
    amounts : one number for each of x and y, at the split as set. noisy : True if these are the standard deviations of
    the noise on each coordinate of a gradient; False if they are the largest step sizes that the budget allows.
    """

    yours: float
    even: float
    best: float
    share: float
    best_share: float
    noisy: bool
    amounts: tuple[float, float]


def compare_splits(method: AnyAlgorithm, plan: Plan) -> SplitComparison | None:
    """Compare the plan's split of the budget between the players with the even and the best one; None where there is
    nothing to split, or no privacy."""
    facts = GameFacts.of(plan.facts)
    if not (isinstance(method, SplitMethod) and plan.private and planning.both_pay(facts)):
        return None
    if method.as_in_the_paper:  # the paper's accounting gives both players the same step size, whatever the shares
        return None
    even = method.replaced(split="own", share_x=planning.EVEN).plan(facts, plan.budget)
    best = method.replaced(split="bound").plan(facts, plan.budget)
    noisy = isinstance(method, noisy_gradients.NoisyGradients)
    schedules = [plan.noise[name] if noisy else plan.schedule[f"step_size_{name}"] for name in "xy"]
    amount_x, amount_y = (float(schedule[0]) for schedule in schedules)  # the same in all rounds
    return SplitComparison(
        yours=_split_term(method, plan),
        even=_split_term(method, even),
        best=_split_term(method, best),
        share=float(plan.resolved["share_x"]),
        best_share=float(best.resolved["share_x"]),
        noisy=noisy,
        amounts=(amount_x, amount_y),
    )


def _split_term(method: SplitMethod, plan: Plan) -> float:
    """Return the part of the bound on the gap that depends on the split, as in `SplitComparison`; both players pay."""
    facts = GameFacts.of(plan.facts)
    players = planning.players(facts)
    if isinstance(method, noisy_gradients.NoisyGradients):
        noises = [float(plan.noise[name][0]) for name in "xy"]
        return sum(
            theory.noise_part(player, noise, plan.iterations, method.geometry)
            for player, noise in zip(players, noises, strict=True)
        )
    steps = [float(plan.schedule[f"step_size_{name}"][0]) for name in "xy"]
    regrets = [player.log_vertices / step for player, step in zip(players, steps, strict=True)]
    return sum(regrets) / plan.iterations
