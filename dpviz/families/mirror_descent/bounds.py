"""Error bounds of a plan by round, against T, rows and shares; the actual cost of the paper's step size; and the
comparison of the budget's split between the two players with the even and the best one.

All need settings only, never data or a run. Sections are those of THEORY.md.
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

MAX_ROUNDS = 100_000  # of the bounds for a number of rows


def gap_bound(algorithm: algorithms.VertexSampling, plan: Plan) -> np.ndarray | None:
    """Return (T+1,) a bound on the expected gap of the average after t = 1..T rounds (section 10.1); nan at t = 0.

    It is about the gap on the data, in a single pass about that on the population. None for fresh output draws, which
    it does not cover (erratum E1). Without privacy the weights themselves are played, and sampling costs nothing.
    """
    if algorithm.output == "fresh":
        return None
    facts = GameFacts.of(plan.facts)
    players = planning.players(facts, (int(plan.resolved["draws"]), int(plan.resolved["draws_y"])))
    if not plan.budget.private:
        players = tuple(player._replace(smoothness=0.0) for player in players)
    steps = [plan.schedule[f"step_size_{name}"][0] for name, d in (("x", facts.d_x), ("y", facts.d_y)) if d > 1]
    rounds, batch = np.arange(1.0, plan.iterations + 1), plan.rows[0]
    bound = theory.direct_bound(players, steps, rounds)
    if batch < facts.n:
        bound = bound + theory.population_term(players, facts.lipschitz, rounds, batch)
    return np.concatenate([[np.nan], bound])


def told(bound: np.ndarray, facts: GameFacts) -> np.ndarray:
    """Return the bound, with NaN where it says nothing, because the gap cannot exceed it in any case."""
    return np.where(bound < facts.largest_gap, bound, np.nan)


def histogram_error(algorithm: AnyAlgorithm, plan: Plan, marginals: Marginals, rounds: int, fit_error: float) -> float:
    """Return a bound on the expected largest error of a released histogram's marginal cells, from public numbers and
    the released `fit_error`.

    Gaussian marginals: the largest of q cells' noise is at most σ √(2 ln 2q) on average (a maximum of sub-Gaussian
    variables), and the histogram is `fit_error` away from the noisy tables, which is released. The synthetic data game:
    its gap is at least the largest error, and `gap_bound` bounds it after this many rounds. Infinite where no useful
    bound is known, as for MWEM, or where it exceeds 1, which no error of a share can.
    """
    bound: float = math.inf
    if isinstance(algorithm, baselines.GaussianMarginals):
        bound = plan.noise["tables"][0] * math.sqrt(2 * math.log(2 * marginals.queries)) + fit_error
    elif isinstance(algorithm, algorithms.VertexSampling):
        over_rounds = gap_bound(algorithm, plan)
        bound = math.inf if over_rounds is None else float(over_rounds[rounds])
    return bound if bound <= 1 else math.inf


def bound_over_rounds(
    facts: GameFacts, budget: Budget, rounds: Sequence[int], sampling: planning.Sampling = planning.USUAL
) -> tuple[Floats, Floats]:
    """Return bounds on the expected gap if T rounds share the budget, for each T >= 2 of `rounds`: (k,) with step sizes
    at their caps, and (k,) with the best step sizes below them. In a single pass, on the population's gap."""
    at_caps, at_best = np.array([bound_at(facts, budget, count, sampling) for count in rounds]).T
    return at_caps, at_best


def bound_over_shares(
    facts: GameFacts, budget: Budget, shares: Sequence[float], rounds: int, sampling: planning.Sampling = planning.USUAL
) -> tuple[Floats, Floats]:
    """Return, for each share of x in `shares`, at one number of rounds: (k,) the bound with the best step sizes below
    the caps; and (k,) Σ ln d/(τ T) with steps at the caps, the part that depends on the split (section 10.3)."""
    best, regret = [], []
    for share in shares:
        players, largest, free = _steps(facts, budget, rounds, sampling._replace(share_x=share))
        steps = [min(pair) for pair in zip(largest, free, strict=True)]
        best.append(_bound(facts, players, steps, rounds, sampling.batching))
        regret.append(
            sum(
                player.log_vertices / (step * rounds)
                for player, step in zip(players, largest, strict=True)
                if player.oscillation > 0
            )
        )
    return np.array(best), np.array(regret)


def bound_at(
    facts: GameFacts, budget: Budget, rounds: int, sampling: planning.Sampling = planning.USUAL
) -> tuple[float, float]:
    """Return bounds on the expected gap after `rounds` that share the budget: with steps at their caps, and with the
    best steps below them. In a single pass, on the population's gap."""
    players, largest, free = _steps(facts, budget, rounds, sampling)
    best = [min(pair) for pair in zip(largest, free, strict=True)]
    at_caps, at_best = (_bound(facts, players, steps, rounds, sampling.batching) for steps in (largest, best))
    return at_caps, at_best


def _steps(
    facts: GameFacts, budget: Budget, rounds: int, sampling: planning.Sampling
) -> tuple[tuple[theory.Player, ...], list[float], list[float]]:
    """Return the players with a choice, the largest step that the budget allows each, and the best step by the bound.

    For a player that pays nothing the former is the latter.
    """
    draws, share_x, batching = sampling
    players = planning.players(facts, draws)
    weights, split = planning.weights(facts, rounds, batching), planning.shares(facts, share_x, draws, budget.pure)
    caps = planning.private_steps(facts, budget, weights, draws, split, "tight", rounds)
    player_caps = [cap for cap, d in zip(caps, (facts.d_x, facts.d_y), strict=True) if d > 1]
    free = [planning.regret_step(player.log_vertices, player.spread, rounds) for player in players]
    return players, [cap or step for cap, step in zip(player_caps, free, strict=True)], free


def _bound(
    facts: GameFacts, players: Sequence[theory.Player], steps: Sequence[float], rounds: int, batching: planning.Batching
) -> float:
    """Return the direct bound on the expected gap; in a single pass, on the population's gap."""
    bound = float(theory.direct_bound(players, steps, rounds))
    if batching == "single":
        bound += float(theory.population_term(players, facts.lipschitz, rounds, facts.n // rounds))
    return bound


def paper_over_rounds(facts: GameFacts, budget: ApproximateDP, rounds: Floats, draws: int = 1) -> tuple[Floats, Floats]:
    """Return (k,) the bound on the population's gap by the paper's analysis for each T of `rounds`, in a single pass
    with its step min(√(ℓ/T)/L₀, its cap); and (k,) the part of it by Lemma 4.2, for drawing the output afresh."""
    paid = planning.stated_for_approximate(budget, "The paper's bound", facts)
    log_vertices = (math.log(facts.d_x), math.log(facts.d_y))
    cap = rates.tau_paper(rounds, facts.n // rounds, paid.epsilon, paid.delta, facts.lipschitz, draws)
    step = np.minimum(np.sqrt(facts.log_vertices / rounds) / facts.lipschitz, cap)
    constants = (facts.lipschitz, facts.smoothness, facts.second_smoothness)
    bound = rates.paper_bound(log_vertices, step, rounds, draws, constants)
    return bound, rates.fresh_output_term(log_vertices, facts.smoothness, rounds * draws)


def bound_over_rows(facts: GameFacts, budget: Budget, rows: Sequence[float], draws: planning.Draws = 1) -> Floats:
    """Return (k,) the smallest bound on the expected gap with each number of rows: all of them in every round, the best
    T up to `MAX_ROUNDS`, the best split. Releases before the run come off the budget."""
    players = planning.players(facts, draws)
    rest = budget.share(1.0, facts.released) if facts.released else budget
    return np.array([accuracy.best_bound(players, round(n), rest, MAX_ROUNDS)[1] for n in rows])


def rows_for_gap(facts: GameFacts, budget: Budget, target: float, draws: planning.Draws = 1) -> int | None:
    """Return the smallest number of rows for which `bound_over_rows` is at most `target`, up to 0.1 %; None if 10⁹ rows
    are not enough, because of the sampling bias."""
    low, high = math.log(2), math.log(1e9)
    if float(bound_over_rows(facts, budget, [math.exp(high)], draws)[0]) > target:
        return None
    while high - low > 1e-3:
        middle = (low + high) / 2
        is_enough = float(bound_over_rows(facts, budget, [math.exp(middle)], draws)[0]) <= target
        low, high = (low, middle) if is_enough else (middle, high)
    return math.ceil(math.exp(high))


def paper_costs(plan: Plan) -> dict[str, float]:
    """Return ε at the budget's δ of a vertex-sampling plan made for (ε, δ) by the paper's rule, by accounting method.

    The draws are the same for every method: the paper's claim; advanced composition at the largest range, evaluated
    instead of bounded; zCDP at η²/8 per draw; the tightest accountant.
    """
    budget = plan.budget
    assert isinstance(budget, ApproximateDP)
    ranges = [plan.schedule[f"range_{name}"] for name in "xy" if (plan.schedule[f"range_{name}"] > 0).any()]
    draws = sum(len(inner_events(event)) for event in plan.events[: len(ranges)])  # of both players, per round
    composed = closed_forms.advanced_epsilon(float(np.max(ranges)), draws * plan.iterations, budget.delta)
    each = zip(ranges, plan.events, strict=False)  # the first events are those of one round
    rho = sum(float(theory.rho_of_draws(values, len(inner_events(event))).sum()) for values, event in each)
    return {
        "as the paper counts": budget.epsilon,
        "its composition, evaluated": float(composed),
        "zCDP, η²/8 per draw": zcdp_epsilon(rho, budget.delta),
        "tightest accountant": accountants.tightest(plan.events, budget.delta).epsilon,
    }


Split = (
    algorithms.VertexSampling | bias_reduced.BiasReduced | algorithms.CertifiedSampling | noisy_gradients.NoisyGradients
)  # the methods whose players share a budget


class Compared(NamedTuple):
    """Part of a method's bound on the gap that depends on the split: as set, even, and at the best split.

    For methods that draw vertices it is Σ ln d/(τ T), for noisy gradients the part that the noise adds. share,
    best_share : of x. noisy : True if `players`, of x and y, are deviations of the noise on each coordinate; else they
    are step sizes, as long as the budget allows.
    """

    yours: float
    even: float
    best: float
    share: float
    best_share: float
    noisy: bool
    players: tuple[float, float]


def compare(method: AnyAlgorithm, plan: Plan) -> Compared | None:
    """Compare the plan's split of the budget with others; None where there is nothing to split, or no privacy."""
    facts = GameFacts.of(plan.facts)
    if not (isinstance(method, Split) and plan.private and planning.both_pay(facts)) or method.as_in_the_paper:
        return None  # the paper counts the draws of both players alike
    even = method.replaced(split="own", share_x=planning.EVEN).plan(facts, plan.budget)
    best = method.replaced(split="bound").plan(facts, plan.budget)
    noisy = isinstance(method, noisy_gradients.NoisyGradients)
    x, y = (float(plan.noise[name][0] if noisy else plan.schedule[f"step_size_{name}"][0]) for name in "xy")
    return Compared(
        _split_term(method, plan),
        _split_term(method, even),
        _split_term(method, best),
        float(plan.resolved["share_x"]),
        float(best.resolved["share_x"]),
        noisy,
        (x, y),
    )


def _split_term(method: Split, plan: Plan) -> float:
    """Return the part of the bound on the gap that depends on the split, as in `Compared`."""
    facts = GameFacts.of(plan.facts)
    players = planning.players(facts)
    if isinstance(method, noisy_gradients.NoisyGradients):
        each = zip(players, (float(plan.noise[name][0]) for name in "xy"), strict=True)
        return sum(theory.noise_part(player, noise, plan.iterations, method.geometry) for player, noise in each)
    steps = [float(plan.schedule[f"step_size_{name}"][0]) for name in "xy"]
    regrets = [player.log_vertices / step for player, step in zip(players, steps, strict=True)]
    return sum(regrets) / plan.iterations
