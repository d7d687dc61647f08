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
from dpviz.privacy.events import Event, ExpMech, Repeat
from dpviz.privacy.ledger import Filter
from dpviz.problems.base import Memory
from dpviz.problems.games.games import Game, GameFacts
from dpviz.problems.games.matrix_games import counted_bytes
from dpviz.specification import choice, number

AFFORDABLE = 1.5e8  # multiplications of one gradient at a mixed strategy

P = TypeVar("P", bound=Game)
Accounting = Literal["tight", "paper"]
Draws = int | tuple[int, int]  # K of both players, or (K_x, K_y)
Batching = Literal["full", "single"]
DRAWS = "Vertices that each player draws per round."
Split = Literal["own", "bound"]
MOST_DRAWS = 64
EVEN = 0.5
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
    unit="× largest",
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
    """How vertices are drawn: how many by each player, with which share of the budget for x (None: the best one by the
    bound), and from which rows in a round."""

    draws: Draws = 1
    share_x: float | None = EVEN
    batching: Batching = "full"


USUAL = Sampling()


def players(facts: GameFacts, draws: Draws = 1) -> tuple[theory.Player, ...]:
    """The players who have a choice."""
    found = []
    for d, oscillation, spread, smoothness, times in (
        (facts.d_x, facts.oscillation_x, facts.range_x, facts.smoothness_x, of_each(draws)[0]),
        (facts.d_y, facts.oscillation_y, facts.range_y, facts.smoothness_y, of_each(draws)[1]),
    ):
        if d > 1:
            found.append(theory.Player(math.log(d), oscillation, spread, smoothness, times))
    return tuple(found)


def of_each(draws: Draws) -> tuple[int, int]:
    """(K_x, K_y)."""
    return (draws, draws) if isinstance(draws, int) else draws


def both_pay(facts: GameFacts) -> bool:
    """Whether both players have a choice that reads data, so that a budget can be split between them."""
    return min(facts.d_x, facts.d_y) > 1 and min(facts.oscillation_x, facts.oscillation_y) > 0


def shares(facts: GameFacts, share_x: float | None, draws: Draws = 1, pure: bool = False) -> tuple[float, float]:
    """Shares of ρ of the two players; all of it goes to the other one if a player has no choice or needs no data.

    share_x : None takes the best split by the bound (`theory.optimal_shares`). pure : whether the budget is.
    """
    if both_pay(facts):
        if share_x is None:
            share_x = theory.optimal_shares(players(facts, draws), pure)[0]
        return share_x, 1 - share_x
    return (1.0, 0.0) if facts.d_x > 1 and facts.oscillation_x > 0 else (0.0, 1.0)


def sizes(facts: GameFacts, budget: ApproximateDP) -> rates.Sizes:
    """The numbers that the paper's table depends on."""
    return rates.Sizes(
        facts.n,
        facts.d_x,
        facts.d_y,
        budget.epsilon,
        budget.delta,
        facts.lipschitz,
        facts.smoothness,
        facts.second_smoothness,
        bilinear=facts.smoothness_x == facts.smoothness_y == 0,
    )


def stated_for_approximate(budget: Budget, what: str, facts: GameFacts) -> ApproximateDP:
    """What was released before the run leaves of an (ε, δ): pure ε adds to it, by basic composition.

    Raises UserError for another budget, naming what the paper states only for (ε, δ), and if nothing is left.
    """
    if not isinstance(budget, ApproximateDP):
        raise UserError(
            f"{what} is stated for (ε, δ)-DP. State the guarantee as (ε, δ), or choose the tighter accounting and your "
            "own rounds.",
            title="Not defined for this currency",
        )
    if not facts.released:
        return budget
    return ApproximateDP.model_construct(epsilon=budget.left(facts.released), delta=budget.delta)


def cut_short(rule: str, symbol: str, asked: int, given: int, limit: str) -> tuple[str, ...]:
    """A note if a rule asks for more of something than a limit allows; none otherwise."""
    if asked <= given:
        return ()
    return (f"{rule} asks for {symbol} = {asked:,}, but {limit} {given:,}. What it promises is not promised here.",)


def batch_size(facts: GameFacts, rounds: int, batching: Batching) -> int:
    """Rows per gradient: all, or a block of n/T rows of its own in every round. Raises UserError if there is none."""
    if batching == "full":
        return facts.n
    if rounds > facts.n:
        raise UserError(
            f"A single pass over {facts.n:,} rows allows at most {facts.n:,} rounds. Lower T, or use all rows in every "
            "round.",
            title="More rounds than rows",
        )
    return facts.n // rounds


def weights(facts: GameFacts, rounds: int, batching: Batching) -> Floats:
    """(T,) the largest total weight of one row in the scores that round t draws from; 0 in the first round."""
    after = (
        theory.weights_full_batch(rounds, facts.n)
        if batching == "full"
        else theory.weights_single_pass(rounds, facts.n // rounds)
    )
    return np.concatenate([[0.0], after])


def private_steps(
    facts: GameFacts,
    budget: Budget,
    row_weights: Floats,
    draws: Draws,
    split: tuple[float, float],
    accounting: Accounting,
    rounds: int,
) -> tuple[float, float]:
    """The largest step sizes (τ_x, τ_y) that the budget allows; 0 for a player who pays nothing.

    tight : by the bounded range of every draw, its sharp oscillation and the best accountant, with shares of ρ.
    paper : Proposition 4.1, advanced composition of T (K_x + K_y) draws, oscillation 2 L₀, the same step for both.
    """
    oscillations, (draws_x, draws_y) = (facts.oscillation_x, facts.oscillation_y), of_each(draws)
    if accounting == "paper":
        paid = stated_for_approximate(budget, "The paper's composition", facts)
        log_vertices = facts.log_vertices
        if split[0]:
            batch = facts.n // rounds or facts.n / rounds  # with all rows in every round, T may exceed n
            mean = (draws_x + draws_y) / 2 if split[1] else draws_x
            cap = rates.tau_paper(rounds, batch, paid.epsilon, paid.delta, facts.lipschitz, mean)
        else:  # synthetic data: only y pays (Theorem G.1)
            cap = rates.tau_paper_synthetic(rounds, facts.n, paid.epsilon, paid.delta, draws_y)
            log_vertices = math.log(facts.d_y)
        tau = min(float(cap), math.sqrt(log_vertices / rounds) / facts.lipschitz)
        return tuple(tau if share else 0.0 for share in split)  # type: ignore[return-value]
    used = row_weights[row_weights > 0]
    paying = [(share, times) for share, times in zip(split, (draws_x, draws_y), strict=True) if share]
    ranges = np.concatenate([2 * math.sqrt(share / times) * used for share, times in paying])  # K η² in proportion to φ
    multiple = calibration.calibrate_selections(
        budget, ranges, np.repeat([float(times) for _, times in paying], len(used)), facts.released
    )
    steps = [
        multiple * math.sqrt(share / times) / osc if share else 0.0
        for share, times, osc in zip(split, (draws_x, draws_y), oscillations, strict=True)
    ]
    return steps[0], steps[1]


def regret_step(log_vertices: float, spread: float, rounds: int) -> float:
    """The step size √(8 ln d/T)/range that minimises the regret bound of exponential weights (Hedge) over T rounds."""
    return math.sqrt(8 * log_vertices / rounds) / spread


def bold_step(log_vertices: float, spread: float, rounds: int) -> float:
    """128 times `regret_step`, for methods without noise: the bound is loose, and far longer steps do better."""
    return 128 * regret_step(log_vertices, spread, rounds)


def free_step(facts: GameFacts, rounds: int, player: int) -> float:
    """`bold_step` of a player (0: x, 1: y) whom privacy does not limit; 1 if there is nothing to choose."""
    d, spread = ((facts.d_x, facts.range_x), (facts.d_y, facts.range_y))[player]
    return bold_step(math.log(d), spread, rounds) if d > 1 and spread > 0 else 1.0


def selections(eta: float, times: int) -> Event:
    """The event of `times` draws of range η each."""
    return ExpMech(eta) if times == 1 else Repeat(ExpMech(eta), times)


def round_events(ranges: tuple[Floats, Floats], draws: Draws) -> tuple[tuple[Event, ...], np.ndarray]:
    """Events of both players in the order of release, x before y, and the round of each.

    ranges : (T,) η of every round's draws per player; 0 where a draw needs no data, which is no event.
    """
    events: list[Event] = []
    rounds: list[int] = []
    for t, pair in enumerate(zip(*(values.tolist() for values in ranges), strict=True), 1):
        for eta, times in zip(pair, of_each(draws), strict=True):
            if eta > 0:
                events.append(selections(eta, times))
                rounds.append(t)
    return tuple(events), np.array(rounds, dtype=int)


def ranges(plan: Plan) -> dict[str, np.ndarray]:
    """(T,) bounded range η of every round's draws, of each player ("x", "y") who draws privately in some round."""
    found = {name: plan.schedule.get(f"range_{name}") for name in "xy"}
    return {name: values for name, values in found.items() if values is not None and (values > 0).any()}


def draw_noise(plan: Plan) -> dict[str, np.ndarray]:
    """(T,) standard deviation of the noise that every round's draws amount to, of each player ("x", "y") who draws
    privately, or of both together ("draws") where one number says it; 0 where a draw needs no data.

    A draw by exponential weights is the vertex that is best after Gumbel noise: on the mean of the gradients so far, or
    of best responses on the present one. Weights of an earlier round, as `AnytimeSampling` has, rest on fewer.
    """
    earlier, facts = np.arange(plan.iterations), GameFacts.of(plan.facts)  # gradients before round t
    drawn = {name: values > 0 for name, values in ranges(plan).items()}
    if isinstance(plan.terms, Filter):
        drawn = {name: earlier > 0 for name in plan.terms.allowed}
    found = {}
    for name, rounds in drawn.items():
        if f"step_size_{name}" in plan.schedule:
            scale = 1 / (plan.schedule[f"step_size_{name}"] * np.maximum(earlier, 1))
        else:
            change = 2 * (facts.oscillation_x if name == "x" else facts.oscillation_y) / facts.n
            scale = change / np.where(rounds, plan.schedule[f"range_{name}"], math.inf)
        found[name] = np.where(rounds, GUMBEL * scale, 0.0)
    if len(found) == 2 and not (found["x"] * found["y"]).any():
        return {"draws": found["x"] + found["y"]}  # the players take turns
    if len(found) == 2 and np.allclose(found["x"], found["y"], rtol=1e-9, atol=0.0):
        return {"draws": found["x"]}
    return found


def once(scale: float, rounds: int) -> np.ndarray:
    """(T,) the noise scale of a method that adds noise in its first round alone."""
    return np.concatenate([[scale], np.zeros(rounds - 1)])


def refuse_without_privacy(budget: Budget, title: str) -> None:
    """Raise UserError for a method that makes no sense without noise."""
    if not budget.private:
        raise UserError(
            f"{title} exists only with privacy. Compare it with mirror descent without privacy.",
            title="No non-private version",
        )


class GameAlgorithm(Algorithm[P, GameFacts]):
    """An algorithm that plays a game.

    sparse : whether the points at which it asks for gradients are few vertices.
    """

    sparse: ClassVar[bool] = False

    @property
    def as_in_the_paper(self) -> bool:
        """Whether its draws are counted as the paper does, instead of by their bounded range."""
        return getattr(self, "accounting", "tight") == "paper"

    def has_internal(self, facts: GameFacts) -> bool:
        """Averages of secret weights are evaluated where a mixed strategy is cheap to evaluate."""
        return self.sparse and facts.products <= AFFORDABLE

    def vertices(self, plan: Plan) -> float:
        """How many vertices have weight where a gradient is asked for, in most rounds."""
        if not self.sparse or not plan.private:
            return math.inf
        return max(plan.resolved.get("draws", 1), plan.resolved.get("draws_y", 1))

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Add what is counted of drawn vertices, and kept; blocks of rows are no copies."""
        size, played = replicates * problem.replicate, self.vertices(plan)
        if math.isfinite(played):
            size += counted_bytes(GameFacts.of(plan.facts), replicates * played * plan.iterations)
        return size
