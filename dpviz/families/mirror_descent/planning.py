"""From a budget to rounds, draws, step sizes and the events of a plan, for methods that release vertices."""

import math
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import rates, theory
from dpviz.privacy import calibration
from dpviz.privacy.accounting.closed_forms import Floats
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.events import Event, ExpMech, Laplace, Repeat
from dpviz.privacy.ledger import Filter
from dpviz.problems.base import Memory
from dpviz.problems.games.games import Game, GameFacts
from dpviz.problems.games.matrix_games import counted_bytes
from dpviz.specification import choice, number

AFFORDABLE = 1.5e8  # multiplications of one gradient up to which diagnostics at secret mixed strategies are computed

P = TypeVar("P", bound=Game)
Accounting = Literal["tight", "paper"]  # of a draw: by its bounded range, or by the paper's advanced composition
Draws = int | tuple[int, int]  # K of both players, or (K_x, K_y)
Batching = Literal["full", "single"]  # all rows in every round, or a single pass with n/T rows of its own per round
DRAWS = "Vertices that each player draws per round."
Split = Literal["own", "bound"]  # of the budget between the players: as set, or with the smallest bound on the gap
MAX_DRAWS = 64  # the largest K per round that a theorem may choose
EVEN = 0.5  # share of x if the budget is split evenly
GUMBEL = math.pi / math.sqrt(6)  # standard deviation of Gumbel noise of scale 1
SHARE_X: Any = number(
    EVEN, 0.05, 0.95, label="Share of x", symbol="φ", help="Share of the budget (in ρ) of the minimising player."
)
RELATIVE_STEP: Any = number(
    1.0,
    0.01,
    1.0,
    label="Step size",
    symbol="τ",
    unit="max",
    scale="log",
    help="1 = the largest that the budget allows.",
)
SPLIT: Any = choice(
    "own",
    label="Split",
    help="The share of x as set, or the one with the smallest bound on the gap.",
    options={"own": "Share as set", "bound": "Best by the bound"},
)


class Sampling(NamedTuple):
    """Settings of vertex sampling on which bounds depend.

    draws : number of vertices per round. share_x : share of player x in the budget; None = the one with the smallest
    bound. batching : rows that a round reads.
    """

    draws: Draws = 1
    share_x: float | None = EVEN
    batching: Batching = "full"


USUAL = Sampling()


def players(facts: GameFacts, draws: Draws = 1) -> tuple[theory.Player, ...]:
    """Return the constants of each player that has a choice, x before y. In minimisation there is only x."""
    draws_x, draws_y = draws_per_player(draws)
    constants = (
        (facts.d_x, facts.oscillation_x, facts.range_x, facts.smoothness_x, draws_x),
        (facts.d_y, facts.oscillation_y, facts.range_y, facts.smoothness_y, draws_y),
    )
    return tuple(
        theory.Player(math.log(d), oscillation, spread, smoothness, times)
        for d, oscillation, spread, smoothness, times in constants
        if d > 1
    )


def draws_per_player(draws: Draws) -> tuple[int, int]:
    """Return the draws (K_x, K_y)."""
    return (draws, draws) if isinstance(draws, int) else draws


def both_pay(facts: GameFacts) -> bool:
    """Return True if both players have a choice that reads data, so that a budget can be split between them."""
    return min(facts.d_x, facts.d_y) > 1 and min(facts.oscillation_x, facts.oscillation_y) > 0


def shares(facts: GameFacts, share_x: float | None, draws: Draws = 1, pure: bool = False) -> tuple[float, float]:
    """Return the shares of x and of y in the budget (in ρ). A player without a choice, or whose gradient needs no data,
    gets nothing, and the other one gets all.

    share_x : share of x if both pay; None = the split with the smallest bound (`theory.optimal_shares`). pure : True
    for a budget in pure ε.
    """
    if both_pay(facts):
        if share_x is None:
            share_x = theory.optimal_shares(players(facts, draws), pure)[0]
        return share_x, 1 - share_x
    x_pays = facts.d_x > 1 and facts.oscillation_x > 0
    return (1.0, 0.0) if x_pays else (0.0, 1.0)


def sizes(facts: GameFacts, budget: ApproximateDP) -> rates.Sizes:
    """Return the numbers on which the paper's table depends, for this game and budget."""
    return rates.Sizes(
        facts.n,
        facts.d_x,
        facts.d_y,
        budget.epsilon,
        budget.delta,
        lipschitz=facts.lipschitz,
        smoothness=facts.smoothness,
        curvature=facts.second_smoothness,
        bilinear=facts.smoothness_x == facts.smoothness_y == 0,
    )


def remaining_approximate(budget: Budget, result: str, facts: GameFacts) -> ApproximateDP:
    """Return the (ε, δ) that remains of a budget for the run, for a result of the paper that is stated for (ε, δ) only.

    Releases before the run are pure ε, which is subtracted (basic composition). Raises UserError if the budget is not
    an (ε, δ), naming `result`, such as "The theorem"; and if nothing remains.
    """
    if not isinstance(budget, ApproximateDP):
        raise UserError(
            f"{result} is stated for (ε, δ)-DP. State the guarantee as (ε, δ), or choose the tighter accounting and "
            "your own rounds.",
            title="Not defined for this currency",
        )
    if not facts.released:
        return budget
    # Without validation: what remains may be less than the smallest ε that a user may enter.
    return ApproximateDP.model_construct(epsilon=budget.remaining(facts.released), delta=budget.delta)


def limit_note(rule: str, symbol: str, wanted: int, allowed: int, limit: str) -> tuple[str, ...]:
    """Return a note if a rule, such as a theorem, wants a larger number than is allowed; else an empty tuple.

    symbol : of the number. limit : the subject and verb of the limit, such as "draws end at".
    """
    if wanted <= allowed:
        return ()
    return (f"{rule} asks for {symbol} = {wanted:,}, but {limit} {allowed:,}. What it promises is not promised here.",)


def batch_size(facts: GameFacts, rounds: int, batching: Batching) -> int:
    """Return the rows that each round's gradient reads: all n, or floor(n/T) of its own in a single pass.

    Raises UserError for a single pass with more rounds than rows.
    """
    if batching == "full":
        return facts.n
    if rounds > facts.n:
        raise UserError(
            f"A single pass over {facts.n:,} rows allows at most {facts.n:,} rounds. Lower T, or use all rows in every "
            "round.",
            title="More rounds than rows",
        )
    return facts.n // rounds


def row_weights(facts: GameFacts, rounds: int, batching: Batching) -> Floats:
    """Return (T,) the largest total weight of one row in the scores that each round draws from: 0 in the first round,
    whose draws are uniform; later (t-1)/n with all rows in every round, and in a single pass 1/B, the weight of a row
    in the first block, which is in all later scores."""
    if batching == "full":
        return np.arange(rounds) / facts.n
    return np.concatenate([[0.0], np.full(rounds - 1, 1 / (facts.n // rounds))])


def private_steps(
    facts: GameFacts,
    budget: Budget,
    row_weights: Floats,
    draws: Draws,
    split: tuple[float, float],
    accounting: Accounting,
    rounds: int,
) -> tuple[float, float]:
    """Return the largest step sizes (τ_x, τ_y) that the budget allows; 0 for a player whose share is 0.

    row_weights : (T,) as of the function `row_weights`. draws : per round. split : shares of x and of y in the budget.
    accounting : "tight" takes the bounded range 2 osc τ w of every draw, with osc the oscillation of the player's
    gradient and w the row's weight, and the best accountant; a player's draws have its share of ρ. "paper" is
    Proposition 4.1: advanced composition of T (K_x + K_y) draws, with the oscillation 2 L₀ and the same step size for
    both players, at most √(ℓ/T)/L₀, ℓ = ln d_x + ln d_y.
    """
    (share_x, share_y), (draws_x, draws_y) = split, draws_per_player(draws)
    if accounting == "paper":
        remaining = remaining_approximate(budget, "The paper's composition", facts)
        epsilon, delta = remaining.epsilon, remaining.delta
        log_vertices = facts.log_vertices
        if share_x:
            # B = n/T also with all rows in every round, where a row's weight is up to T/n = 1/B; T may exceed n there.
            batch = facts.n // rounds or facts.n / rounds
            mean_draws = (draws_x + draws_y) / 2 if share_y else draws_x
            cap = rates.tau_paper(rounds, batch, epsilon, delta, facts.lipschitz, mean_draws)
        else:  # synthetic data: only y pays (Theorem G.1)
            cap = rates.tau_paper_synthetic(rounds, facts.n, epsilon, delta, draws_y)
            log_vertices = math.log(facts.d_y)
        tau = min(float(cap), math.sqrt(log_vertices / rounds) / facts.lipschitz)
        return (tau if share_x else 0.0), (tau if share_y else 0.0)

    paid_weights = row_weights[row_weights > 0]
    paying = [(share, times) for share, times in ((share_x, draws_x), (share_y, draws_y)) if share]
    # The cost K η² of a player's draws is in proportion to its share φ, so η to √(φ/K): η = 2 s √(φ/K) w, where the
    # budget decides the multiple s. As η = 2 osc τ w, too, the step size is τ = s √(φ/K)/osc.
    unit_ranges = np.concatenate([2 * math.sqrt(share / times) * paid_weights for share, times in paying])  # at s = 1
    repetitions = np.repeat([float(times) for _, times in paying], len(paid_weights))
    multiple = calibration.calibrate_selections(budget, unit_ranges, times=repetitions, prior=facts.released)
    step_x = multiple * math.sqrt(share_x / draws_x) / facts.oscillation_x if share_x else 0.0
    step_y = multiple * math.sqrt(share_y / draws_y) / facts.oscillation_y if share_y else 0.0
    return step_x, step_y


def regret_step(log_vertices: float, spread: float, rounds: int) -> float:
    """Return the step size √(8 ln d/T)/spread that minimises the regret bound of exponential weights over T rounds.

    log_vertices : ln d. spread : largest minus smallest coordinate of the gradient, at most.
    """
    return math.sqrt(8 * log_vertices / rounds) / spread


def long_step(log_vertices: float, spread: float, rounds: int) -> float:
    """Return 128 times `regret_step`, a heuristic: the bound is loose, and without noise far longer steps do better."""
    return 128 * regret_step(log_vertices, spread, rounds)


def free_step(facts: GameFacts, rounds: int, player: int) -> float:
    """Return the step size of a player (0: x, 1: y) that privacy does not limit: `long_step`; 1 for a player without a
    choice, where it does not matter."""
    d, spread = (facts.d_x, facts.range_x) if player == 0 else (facts.d_y, facts.range_y)
    return long_step(math.log(d), spread, rounds) if d > 1 and spread > 0 else 1.0


def selections(eta: float, times: int) -> Event:
    """Return the event of `times` draws of bounded range η each."""
    return ExpMech(eta) if times == 1 else Repeat(ExpMech(eta), times)


def round_events(ranges_x: Floats, ranges_y: Floats, draws: Draws) -> tuple[tuple[Event, ...], np.ndarray]:
    """Return the events of both players in the order of release, x before y in a round, and the round of each event.

    ranges_x, ranges_y : (T,) the bounded range η of each round's draws; there is no event where it is 0, as such draws
    need no data.
    """
    events: list[Event] = []
    rounds: list[int] = []
    draws_x, draws_y = draws_per_player(draws)
    for t, (eta_x, eta_y) in enumerate(zip(ranges_x.tolist(), ranges_y.tolist(), strict=True), 1):
        for eta, times in ((eta_x, draws_x), (eta_y, draws_y)):
            if eta > 0:
                events.append(selections(eta, times))
                rounds.append(t)
    return tuple(events), np.array(rounds, dtype=int)


def events_without_privacy(facts: GameFacts, rounds: int) -> tuple[tuple[Event, ...], np.ndarray]:
    """Return the events of a run without privacy, and the round of each: in every round each player with a choice
    releases its strategy. Laplace noise with ε = ∞ is no noise."""
    releases_per_round = sum(d > 1 for d in (facts.d_x, facts.d_y))
    return (Laplace(math.inf),) * (releases_per_round * rounds), np.repeat(np.arange(1, rounds + 1), releases_per_round)


def ranges(plan: Plan) -> dict[str, np.ndarray]:
    """Return, for each player ("x", "y") that draws privately in some round, (T,) the bounded range η of each round's
    draws."""
    schedules = {name: plan.schedule.get(f"range_{name}") for name in "xy"}
    return {name: etas for name, etas in schedules.items() if etas is not None and (etas > 0).any()}


def draw_noise(plan: Plan) -> dict[str, np.ndarray]:
    """Return, for each player ("x", "y") that draws privately, (T,) the standard deviation of the noise that each
    round's draws amount to; 0 where a draw needs no data. One entry "draws" if both have the same noise, or take turns.

    A draw with probabilities ∝ exp(u) is the vertex with the largest u + Gumbel noise of scale 1. In mirror descent u
    is τ times the sum of the t - 1 gradients before round t, so the noise on their mean has the scale 1/(τ (t - 1)).
    Best responses have u = η times the present gradient, over its largest change by one row. `AnytimeSampling` draws
    from weights of earlier rounds, too, whose sums have fewer gradients, so its noise may be larger.
    """
    facts, gradients_before = GameFacts.of(plan.facts), np.arange(plan.iterations)
    is_paid = {name: etas > 0 for name, etas in ranges(plan).items()}
    if isinstance(plan.terms, Filter):  # bias-reduced oracle: no ranges; all rounds but the first are paid
        is_paid = {name: gradients_before > 0 for name in plan.terms.allowed}
    noise = {}
    for name, paid_rounds in is_paid.items():
        if f"step_size_{name}" in plan.schedule:  # mirror descent
            scale = 1 / (plan.schedule[f"step_size_{name}"] * np.maximum(gradients_before, 1))
        else:  # best responses
            change = 2 * (facts.oscillation_x if name == "x" else facts.oscillation_y) / facts.n
            scale = change / np.where(paid_rounds, plan.schedule[f"range_{name}"], math.inf)  # no division by 0
        noise[name] = np.where(paid_rounds, GUMBEL * scale, 0.0)
    if len(noise) < 2:
        return noise
    if not (noise["x"] * noise["y"]).any():  # the players take turns
        return {"draws": noise["x"] + noise["y"]}
    if np.allclose(noise["x"], noise["y"], rtol=1e-9, atol=0.0):
        return {"draws": noise["x"]}
    return noise


def in_first_round(scale: float, rounds: int) -> np.ndarray:
    """Return (T,) the noise scale of each round for a method that adds noise in its first round only."""
    return np.concatenate([[scale], np.zeros(rounds - 1)])


def refuse_without_privacy(budget: Budget, title: str) -> None:
    """Raise UserError if there is no budget, for a method that makes no sense without noise. title : of the method."""
    if not budget.private:
        raise UserError(
            f"{title} exists only with privacy. Compare it with mirror descent without privacy.",
            title="No non-private version",
        )


class GameAlgorithm(Algorithm[P, GameFacts]):
    """An algorithm that plays a game.

    sparse : True if it takes gradients at averages of a few drawn vertices, False if at mixed strategies.
    """

    sparse: ClassVar[bool] = False

    @property
    def as_in_the_paper(self) -> bool:
        """True if the cost of its draws is counted as the paper does, instead of by their bounded range."""
        return getattr(self, "accounting", "tight") == "paper"

    def has_internal(self, facts: GameFacts) -> bool:
        """Return True if averages of its secret weights are evaluated, too, as diagnostics: where a gradient at mixed
        strategies, which takes `facts.products` multiplications, is cheap."""
        return self.sparse and facts.products <= AFFORDABLE

    def played_vertices(self, plan: Plan) -> float:
        """Return the number of vertices that most rounds play: those with a weight above 0 where the gradient is taken.

        Of the two players' numbers it is the larger one; infinite for mixed strategies, also without privacy, where
        nothing is drawn.
        """
        if not self.sparse or not plan.private:
            return math.inf
        return max(plan.resolved.get("draws", 1), plan.resolved.get("draws_y", 1))

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Return the bytes of a run: the problem's own for each replicate, and the payoffs of drawn vertices that the
        game counts from the records and stores. Blocks of rows are not copied."""
        size, played_vertices = replicates * problem.replicate, self.played_vertices(plan)
        if math.isfinite(played_vertices):
            size += counted_bytes(GameFacts.of(plan.facts), vertices=replicates * played_vertices * plan.iterations)
        return size
