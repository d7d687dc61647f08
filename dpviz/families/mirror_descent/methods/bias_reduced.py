"""Mirror descent with the bias-reduced gradient oracle (Algorithms 2 and 3): random batch sizes, random stopping."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dpviz.checkpoints import checkpoint
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning, rates, theory
from dpviz.families.mirror_descent.methods.algorithms import ACCOUNTING, frequencies, softmax
from dpviz.privacy.accounting.currencies import UNITS, price
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, ExpMech
from dpviz.privacy.ledger import Filter
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Metric, check_facts
from dpviz.problems.games.games import Game, GameFacts, GradientSums, Pair
from dpviz.specification import choice, number


class BiasReduced(planning.GameAlgorithm[Game]):
    """Vertex sampling whose gradients have the sampling bias of 2^(M+1) draws, though few draws are made (Algorithm 3).

    Each round t has a random level N_t with P(N_t = k) ∝ 2^-k for k = 0..M. At level N a round makes 2^(N+1) draws for
    its gradient and reads B 2^N rows of its own. The levels are drawn without data, before the first round, and a
    replicate ends before Σ 2^(N_t) exceeds U. One more vertex is drawn in each round; the output is their average.
    """

    kind: ClassVar[str] = "families.mirror_descent.bias_reduced"
    title: ClassVar[str] = "Bias-reduced oracle"
    hue: ClassVar[int] = 2
    dash: ClassVar[int] = 3
    sparse: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("rho_spent", "ρ of a row, spent so far", released=True, better=""),
        Metric("rows_used", "Rows used so far", released=True, axis=True, better=""),
    )
    stop_level: int = number(
        64, 4, 1024, label="Stop level", symbol="U", scale="log", help="Rounds end before Σ 2^N exceeds U; U B rows."
    )
    rows_per_draw: int = number(
        0,
        0,
        10_000,
        label="Rows per unit",
        symbol="B",
        help="Rows of a round at level 0. 0 = n/U, all there are.",
        limits=(0, 10**9),
    )
    accounting: planning.Accounting = choice(
        "tight", ACCOUNTING, label="Accounting", help="What a draw costs: its bounded range, or Proposition E.1."
    )
    share_x: float = planning.SHARE_X
    split: planning.Split = planning.SPLIT
    relative_step: float = planning.RELATIVE_STEP

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan, under a filter for the cost of the draws, because their number is random. Raise UserError
        without a budget, or with fewer than U B rows."""
        planning.refuse_without_privacy(budget, self.title)
        unit = self.rows_per_draw or facts.n // self.stop_level  # B
        top_level = theory.largest_level(self.stop_level)  # M
        if unit < 1 or unit * self.stop_level > facts.n:
            raise UserError(
                f"U = {self.stop_level:,} units of B = {max(unit, 1):,} rows need more than n = {facts.n:,} rows. "
                "Lower U or B.",
                title="Not enough rows",
            )
        # Of each player, in the whole run: round t makes 2^(N_t + 1) draws and one for the output, and Σ 2^(N_t) ≤ U.
        max_draws = 3 * self.stop_level
        row_weight = float(theory.oracle_weight(top_level)) / unit  # the largest, at N = 0; a row is in one gradient
        split = planning.shares(facts, None if self.split == "bound" else self.share_x, pure=budget.pure)
        oscillations = (facts.oscillation_x, facts.oscillation_y)
        if self.accounting == "paper":
            remaining = planning.remaining_approximate(budget, "Proposition E.1", facts)
            epsilon, delta = remaining.epsilon, remaining.delta
            cap = rates.tau_paper_bias_reduced(self.stop_level, unit, epsilon, delta, facts.lipschitz)
            tau = min(float(cap), 1 / (facts.lipschitz * math.sqrt(self.stop_level)))  # Theorem 4.3 has both limits
            steps = [self.relative_step * tau if share else 0.0 for share in split]
        else:
            # A filter adds up what the draws cost, so it needs a budget in a currency in which costs add up. All draws
            # of the run have the same range at most, as if they were made in one round.
            additive = budget.additive(facts.released)
            caps = planning.private_steps(
                facts, additive, np.array([row_weight]), max_draws, split, accounting="tight", rounds=1
            )
            steps = [self.relative_step * cap for cap in caps]
        allowed: dict[str, Event] = {  # one draw of each player that pays; the others have the step size 0 here
            name: ExpMech(2 * osc * tau * row_weight)
            for name, osc, tau in zip("xy", oscillations, steps, strict=True)  # osc: oscillation
            if tau > 0
        }
        currency = budget.additive().currency or "rho"  # of the filter; `or` for the type checker only
        rounds = self.stop_level  # the largest number: every round reads a unit of rows at least
        # Prices, which add up, are in ε, ρ or μ²; the filter's cap and the worst case are in ε, ρ or μ.
        draw_price = sum(price(event, currency) for event in allowed.values())
        # After 0..U rounds. Each but the first, which needs no data, makes at most the draws of level M, and one more.
        max_draws_so_far = np.minimum(max_draws, (2 ** (top_level + 1) + 1) * np.maximum(np.arange(-1, rounds), 0))
        return Plan.filtered(
            facts,
            budget,
            Filter(currency, UNITS[currency].root(draw_price * max_draws), allowed),
            rounds,
            worst_case=(draw_price * max_draws_so_far) ** (1 / UNITS[currency].power),
            resolved={
                "rows_per_draw": unit,
                "level": top_level,
                "share_x": split[0],
                "step_size_x": steps[0],
                "step_size_y": steps[1],
            },
            # A player that pays nothing gets a step size here.
            step_size_x=np.full(rounds, steps[0] or planning.free_step(facts, rounds, player=0)),
            step_size_y=np.full(rounds, steps[1] or planning.free_step(facts, rounds, player=1)),
            row_weight=np.full(rounds, row_weight),
            batch_size=np.full(rounds, float(unit) * theory.mean_batches(top_level)),
        )

    def played_vertices(self, plan: Plan) -> float:
        """Return the mean number of vertices in the four points at which the oracle takes gradients: the averages of
        2^(N+1), 2^N and 2^N draws, and one draw, so (4 E 2^N + 1)/4."""
        return theory.mean_batches(int(plan.resolved["level"])) + 0.25

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Play the rounds of all replicates that have not ended, and yield a snapshot after each with the averages of
        the released vertices."""
        check_facts(problem, plan.facts)
        assert isinstance(plan.terms, Filter)
        facts, replicates = problem.facts, mechanisms.replicates
        unit, top_level = int(plan.resolved["rows_per_draw"]), int(plan.resolved["level"])  # B and M
        row_weight = float(plan.schedule["row_weight"][0])
        levels = self._levels(mechanisms, top_level)  # N_t of each replicate and round; -1 after its last one
        scores = [GradientSums(problem, 1) for _ in range(replicates)]  # one each, as replicates read different rows
        used_units = np.zeros(replicates, dtype=int)  # of B rows
        # Sums over the rounds, of x and of y: of the released vertices, and of the secret weights they are drawn by.
        released = [np.zeros_like(v) for v in facts.uniform(replicates)]
        hidden = [np.zeros_like(v) for v in released]
        active = np.ones(replicates, dtype=bool)  # has not ended
        rounds_played = np.zeros((replicates, 1))
        outputs, means = facts.uniform(replicates), facts.uniform(replicates)  # averages of `released` and `hidden`
        with_internal = self.has_internal(facts)
        yield self._snapshot(0, outputs, means, mechanisms, used_units * unit, active, with_internal)
        for t in range(1, plan.iterations + 1):
            playing = np.flatnonzero(active)  # numbers of the replicates that play this round
            draws = 2 ** (levels[playing, t - 1] + 1) + 1  # the oracle's draws, and one for the output
            indices = []  # of x and of y: (R', largest number of draws), filled with -1; R' replicates play
            for p, name in enumerate("xy"):
                queries = [
                    scores[r].utilities_x(row_weight) if p == 0 else scores[r].utilities_y(row_weight) for r in playing
                ]
                values = np.concatenate([query.value for query in queries])
                tau = plan.schedule[f"step_size_{name}"][t - 1]
                hidden[p][playing] += softmax(tau * values)
                event = plan.terms.allowed.get(name)
                if event is None or t == 1:  # the scores need no data: nothing is charged
                    indices.append(mechanisms.sample(tau * values, draws, playing))
                else:
                    query = queries[0]._replace(value=values)  # all replicates' queries have the same sensitivity
                    indices.append(mechanisms.exponential(query, event, draws, playing))
                last_draw = indices[p][np.arange(len(playing)), draws - 1]
                released[p][playing] += frequencies(last_draw[:, None], values.shape[1])
            for i, r in enumerate(playing):  # each reads its own block of rows
                checkpoint()
                size = 2 ** int(levels[r, t - 1])  # 2^N
                block = slice(int(used_units[r]) * unit, (int(used_units[r]) + size) * unit)
                oracle_draws = [player_indices[i, : 2 * size] for player_indices in indices]
                self._add_gradient(scores[r], oracle_draws, top_level, size, facts, block)
                used_units[r] += size
            rounds_played[playing] += 1  # none is 0, as all replicates play round 1
            outputs = (released[0] / rounds_played, released[1] / rounds_played)
            means = (hidden[0] / rounds_played, hidden[1] / rounds_played)
            # Column t of the levels is of round t + 1; once a replicate has ended, all its levels are -1.
            active = levels[:, t] >= 0 if t < plan.iterations else np.zeros_like(active)
            yield self._snapshot(t, outputs, means, mechanisms, used_units * unit, active, with_internal)
            if not active.any():
                return

    def _add_gradient(
        self,
        scores: GradientSums,
        vertices: list[np.ndarray],
        top_level: int,
        size: int,
        facts: GameFacts,
        block: slice,
    ) -> None:
        """Add the gradient of the bias-reduced oracle (Algorithm 2) to the scores of one replicate:
        C 2^N (∇F(all) - ½ ∇F(odd) - ½ ∇F(even)) + ∇F(first), with C = 2 - 2^-M.

        vertices : of x and of y, the indices of the 2^(N+1) drawn vertices; "all", "odd" and "even" are averages of all
        and of every second one of them. top_level : M. size : 2^N. block : rows on which F is a mean.
        """
        factor = theory.level_constant(top_level) * size  # C 2^N
        all_draws, odd, even, first = slice(None), slice(0, None, 2), slice(1, None, 2), slice(0, 1)
        points = []
        for coefficient, part in ((factor, all_draws), (-factor / 2, odd), (-factor / 2, even), (1.0, first)):
            x = frequencies(vertices[0][part][None], facts.d_x)
            y = frequencies(vertices[1][part][None], facts.d_y)
            points.append((coefficient, x, y))
        scores.add(points, block)

    def _levels(self, mechanisms: Mechanisms, top_level: int) -> np.ndarray:
        """Draw (R, U) the level N_t of every round, with -1 after the last round of a replicate; needs no data.

        top_level : M. A round is played if 2^M units of rows are left of U, as many as any level may need.
        """
        log_probabilities = np.log(theory.level_probabilities(top_level))
        levels = mechanisms.sample(np.tile(log_probabilities, (mechanisms.replicates, 1)), self.stop_level)
        used_before = np.concatenate([np.zeros((len(levels), 1)), np.cumsum(2**levels, axis=1)[:, :-1]], axis=1)
        return np.where(used_before <= self.stop_level - 2**top_level, levels, -1)

    def _snapshot(
        self,
        t: int,
        outputs: Pair,
        means: Pair,
        mechanisms: Mechanisms,
        rows_used: np.ndarray,
        active: np.ndarray,
        with_internal: bool,
    ) -> Snapshot:
        """Return the snapshot after round t. outputs, means : averages over the rounds of the released vertices and of
        the secret weights, of x and of y; the latter are part of the snapshot if `with_internal`."""
        return Snapshot(
            t,
            {"x": outputs[0], "y": outputs[1]},
            {"rho_spent": mechanisms.spent("rho"), "rows_used": rows_used.astype(float)},
            internal={"x": means[0], "y": means[1]} if with_internal else {},
            active=active,
            status=tuple("running" if is_active else "exhausted" for is_active in active),
        )
