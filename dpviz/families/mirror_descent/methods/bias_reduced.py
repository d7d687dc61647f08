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
from dpviz.problems.games.games import Game, GameFacts, Pair, Scores
from dpviz.specification import choice, number


class BiasReduced(planning.GameAlgorithm[Game]):
    """Vertex sampling with gradients whose sampling bias is that of 2^{M+1} draws, though few are made (Algorithm 3).

    A level N_t with P(N = k) ∝ 2^-k, k <= M, decides the numbers of draws and rows of a round: 2^{N+1} and B 2^N. The
    levels need no data. A replicate ends when Σ 2^{N_t} would exceed U; the output is the average of one extra draw
    per round.
    """

    kind: ClassVar[str] = "families.mirror_descent.bias_reduced"
    title: ClassVar[str] = "Bias-reduced oracle"
    hue: ClassVar[int] = 2
    dash: ClassVar[int] = 3
    sparse: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("rho_spent", "ρ spent so far", released=True, better=""),
        Metric("rows_used", "Rows used so far", released=True, axis=True, better=""),
    )
    stop_level: int = number(
        64, 4, 1024, label="Stop level", symbol="U", scale="log", help="Rounds end before Σ 2^N exceeds U; U B rows."
    )
    rows_per_draw: int = number(
        0, 0, 10_000, label="Rows per unit", symbol="B", help="Rows of a round at level 0. 0 = n/U, all there are."
    )
    accounting: planning.Accounting = choice(
        "tight", ACCOUNTING, label="Accounting", help="What a draw costs: its bounded range, or Proposition E.1."
    )
    share_x: float = planning.SHARE_X
    split: planning.Split = planning.SPLIT
    relative_step: float = planning.RELATIVE_STEP

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        planning.refuse_without_privacy(budget, self.title)
        unit, level = self.rows_per_draw or facts.n // self.stop_level, theory.largest_level(self.stop_level)
        if unit < 1 or unit * self.stop_level > facts.n:
            raise UserError(
                f"U = {self.stop_level:,} units of B = {max(unit, 1):,} rows need more than n = {facts.n:,} rows. "
                "Lower U or B.",
                title="Not enough rows",
            )
        draws = theory.bias_reduced_draws_bound(self.stop_level)  # of each player, at most
        weight = float(theory.oracle_weight(level)) / unit
        split = planning.shares(facts, None if self.split == "bound" else self.share_x, pure=budget.pure)
        oscillations = (facts.oscillation_x, facts.oscillation_y)
        if self.accounting == "paper":
            paid = planning.stated_for_approximate(budget, "Proposition E.1", facts)
            largest = rates.tau_paper_bias_reduced(self.stop_level, unit, paid.epsilon, paid.delta, facts.lipschitz)
            tau = min(float(largest), 1 / (facts.lipschitz * math.sqrt(self.stop_level)))
            steps = [self.relative_step * tau if share else 0.0 for share in split]
        else:
            additive = budget.additive(facts.released)
            caps = planning.private_steps(facts, additive, np.array([weight]), draws, split, "tight", 1)
            steps = [self.relative_step * cap for cap in caps]
        allowed: dict[str, Event] = {
            name: ExpMech(2 * osc * tau * weight)
            for name, osc, tau in zip("xy", oscillations, steps, strict=True)
            if tau > 0
        }
        currency = budget.additive().currency or "rho"
        draw_price, rounds = sum(price(event, currency) for event in allowed.values()), self.stop_level
        # In every round but the first, which needs no data, at most the oracle's draws at its highest level and one.
        max_draws = np.minimum(draws, (2 ** (level + 1) + 1) * np.maximum(np.arange(-1, rounds), 0))
        return Plan.filtered(
            facts,
            budget,
            Filter(currency, UNITS[currency].root(draw_price * draws), allowed),
            rounds,
            worst_case=(draw_price * max_draws) ** (1 / UNITS[currency].power),
            resolved={
                "rows_per_draw": unit,
                "level": level,
                "share_x": split[0],
                "step_size_x": steps[0],
                "step_size_y": steps[1],
            },
            step_size_x=np.full(rounds, steps[0] or planning.free_step(facts, rounds, 0)),
            step_size_y=np.full(rounds, steps[1] or planning.free_step(facts, rounds, 1)),
            row_weight=np.full(rounds, weight),
            batch_size=np.full(rounds, float(unit) * theory.mean_batches(level)),
        )

    def vertices(self, plan: Plan) -> float:
        """Return the mean number of vertices in the oracle's four points."""
        return theory.mean_batches(int(plan.resolved["level"])) + 0.25

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        assert isinstance(plan.terms, Filter)
        facts, replicates = problem.facts, mechanisms.replicates
        unit, level = int(plan.resolved["rows_per_draw"]), int(plan.resolved["level"])
        weight = float(plan.schedule["row_weight"][0])
        levels = self._levels(mechanisms, level)
        scores = [Scores(problem, 1) for _ in range(replicates)]
        used = np.zeros(replicates, dtype=int)  # units of B rows
        released = [np.zeros_like(v) for v in facts.uniform(replicates)]
        hidden = [np.zeros_like(v) for v in released]
        active = np.ones(replicates, dtype=bool)
        count = np.zeros(replicates)
        outputs, means, with_internal = facts.uniform(replicates), facts.uniform(replicates), self.has_internal(facts)
        yield self._snapshot(0, outputs, means, mechanisms, used * unit, active, with_internal)
        for t in range(1, plan.iterations + 1):
            rows = np.flatnonzero(active)
            draws = 2 ** (levels[rows, t - 1] + 1) + 1  # the oracle's draws, and one for the output
            indices = []
            for p, name in enumerate("xy"):
                queries = [(scores[r].x(weight), scores[r].y(weight))[p] for r in rows]
                values = np.concatenate([query.value for query in queries])
                tau = plan.schedule[f"step_size_{name}"][t - 1]
                hidden[p][rows] += softmax(tau * values)
                event = plan.terms.allowed.get(name)
                if event is None or t == 1:  # needs no data: nothing is charged
                    indices.append(mechanisms.sample(tau * values, draws, rows))
                else:
                    indices.append(mechanisms.exponential(queries[0]._replace(value=values), event, draws, rows))
                last = indices[p][np.arange(len(rows)), draws - 1]
                released[p][rows] += frequencies(last[:, None], values.shape[1])
            for i, r in enumerate(rows):
                checkpoint()
                size = 2 ** int(levels[r, t - 1])
                block = slice(int(used[r]) * unit, (int(used[r]) + size) * unit)
                self._add(scores[r], [index[i, : 2 * size] for index in indices], level, size, facts, block)
                used[r] += size
            count[rows] += 1
            share = np.maximum(count, 1)[:, None]
            outputs, means = (released[0] / share, released[1] / share), (hidden[0] / share, hidden[1] / share)
            active = active & (levels[:, t] >= 0) if t < plan.iterations else np.zeros_like(active)
            yield self._snapshot(t, outputs, means, mechanisms, used * unit, active, with_internal)
            if not active.any():
                return

    def _add(
        self, scores: Scores, vertices: list[np.ndarray], level: int, size: int, facts: GameFacts, block: slice
    ) -> Pair:
        """Add the oracle's gradient G to one replicate's scores (Algorithm 2), from 2^{N+1} draws per player:
        C 2^N (∇F(all) - ½ ∇F(odd) - ½ ∇F(even)) + ∇F(first), C = 2 - 2^-M."""
        factor = theory.level_constant(level) * size
        parts = (slice(None), slice(0, None, 2), slice(1, None, 2), slice(0, 1))  # all, odd, even, first
        points = [
            tuple(frequencies(v[part][None], d) for v, d in zip(vertices, (facts.d_x, facts.d_y), strict=True))
            for part in parts
        ]
        coefficients = (factor, -factor / 2, -factor / 2, 1.0)
        return scores.add([(c, x, y) for c, (x, y) in zip(coefficients, points, strict=True)], block)

    def _levels(self, mechanisms: Mechanisms, level: int) -> np.ndarray:
        """Draw (R, U) the level N_t of every round, -1 after the last, before any data are touched."""
        weights = np.log(theory.level_probabilities(level))
        levels = mechanisms.sample(np.tile(weights, (mechanisms.replicates, 1)), self.stop_level)
        used = np.concatenate([np.zeros((len(levels), 1)), np.cumsum(2**levels, axis=1)[:, :-1]], axis=1)
        return np.where(used <= self.stop_level - 2**level, levels, -1)

    def _snapshot(
        self,
        t: int,
        outputs: tuple[np.ndarray, np.ndarray],
        means: tuple[np.ndarray, np.ndarray],
        mechanisms: Mechanisms,
        rows_used: np.ndarray,
        active: np.ndarray,
        with_internal: bool,
    ) -> Snapshot:
        return Snapshot(
            t,
            {"x": outputs[0], "y": outputs[1]},
            {"rho_spent": mechanisms.spent("rho"), "rows_used": rows_used.astype(float)},
            internal={"x": means[0], "y": means[1]} if with_internal else {},
            active=active,
            status=tuple("running" if is_active else "exhausted" for is_active in active),
        )
