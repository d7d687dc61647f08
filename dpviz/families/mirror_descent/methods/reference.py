"""The floor of the picture: the best play that is found without privacy, tuned on the data."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.methods.algorithms import softmax
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Laplace
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.base import Memory, check_facts
from dpviz.problems.games.games import DUALITY_GAP, Game, GameFacts, Pair
from dpviz.specification import number

STEPS = 2.0 ** np.arange(-4, 8)  # × 1/L₁


class TunedReference(planning.GameAlgorithm[Game]):
    """What the game allows without privacy: the best strategies found so far, of many runs side by side.

    Optimistic mirror descent (Rakhlin, Sridharan 2013) with 12 step sizes, and predictive regret matching (Farina,
    Kroer, Sandholm 2021), which has none. In rounds 1, 2, 4, ... their last strategies and their averages (weights t)
    are compared by the duality gap on the data, player by player. That is tuning on the data, which nothing private may
    do; here nothing is private. Deterministic: all replicates are alike.
    """

    kind: ClassVar[str] = "families.mirror_descent.reference"
    title: ClassVar[str] = "Without privacy, tuned"
    hue: ClassVar[int] = 4
    rounds: int = number(256, 1, 4096, label="Rounds of the reference", scale="log", help="Of every run that is tried.")

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        if budget.private:
            raise planning.refusal("no_private_version")
        each = sum(d > 1 for d in (facts.d_x, facts.d_y))
        return Plan.fixed(
            facts,
            budget,
            (Laplace(math.inf),) * (each * self.rounds),
            charged_at=np.repeat(np.arange(1, self.rounds + 1), each),
            iterations=self.rounds,
            resolved={"rounds": self.rounds},
            batch_size=np.full(self.rounds, facts.n),
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        facts = problem.facts
        steps = STEPS[:, None] / (facts.smoothness or facts.lipschitz)
        start = facts.uniform(1)
        tried = facts.uniform(len(STEPS) + 1)
        sums, regrets, totals = ([np.zeros_like(p) for p in tried] for _ in range(3))
        yield Snapshot(0, dict(zip("xy", facts.uniform(mechanisms.replicates), strict=True)))
        best = _Best.of(problem, start)
        for t in range(1, plan.iterations + 1):
            g_x, g_y = problem.gradients(*tried)
            played = []
            for p, utilities in enumerate((-g_x, g_y)):
                sums[p] += utilities
                gain = utilities - (utilities * tried[p]).sum(axis=1, keepdims=True)
                regrets[p] = np.maximum(regrets[p] + gain, 0.0)
                # Both expect the last gradient once more: that is what makes them optimistic.
                descent = softmax(steps * (sums[p] + utilities)[:-1])
                played.append(np.vstack([descent, _shares(regrets[p] + gain)[-1:]]))
                totals[p] += t * played[p]
            tried = (played[0], played[1])
            if t & (t - 1) == 0 or t == plan.iterations:
                weight = t * (t + 1) / 2
                candidates = [np.vstack([tried[p], totals[p] / weight]) for p in range(2)]
                best.consider(candidates)
            yield Snapshot(t, self._shown(best.pair, mechanisms, plan, t))

    def _shown(self, pair: Pair, mechanisms: Mechanisms, plan: Plan, t: int) -> dict[str, np.ndarray]:
        """The best pair for all replicates; what has a choice is charged as a release without noise."""
        events = iter(plan.events[int(np.searchsorted(plan.charged_at, t)) :])
        shown = {}
        for name, strategy in zip("xy", pair, strict=True):
            value = np.repeat(strategy, mechanisms.replicates, axis=0)
            if value.shape[1] > 1:
                event = next(events)
                assert isinstance(event, Laplace)
                value = mechanisms.laplace(Query(value, 2.0, "l1"), event)
            shown[name] = value
        return shown

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Count the runs that are tried, once for all replicates, and what these show."""
        return (len(STEPS) + 1) * problem.replicate + 3 * 8.0 * replicates * plan.facts.d


class _Best:
    """The best strategy of each player so far. The gap is max_v F(x, v) - min_u F(u, y): the first part depends on x
    alone and the second on y alone, so each is compared with the other player's held fixed."""

    def __init__(self, problem: Game, start: Pair) -> None:
        self._problem, self._start = problem, start
        self.pair = start
        self._losses = [math.inf] * 2

    @classmethod
    def of(cls, problem: Game, start: Pair) -> "_Best":
        """The start is the best so far."""
        best = cls(problem, start)
        (start_gap,) = best._gaps(*start)
        best._losses = [float(start_gap)] * 2
        return best

    def consider(self, candidates: list[np.ndarray]) -> None:
        """Keep the best of (k, d) candidates of each player, if it is better than what there was."""
        found = list(self.pair)
        for p, rows in enumerate(candidates):
            other = np.repeat(self._start[1 - p], len(rows), axis=0)
            gaps = self._gaps(rows, other) if p == 0 else self._gaps(other, rows)
            at = int(gaps.argmin())
            if gaps[at] < self._losses[p]:
                self._losses[p], found[p] = float(gaps[at]), rows[[at]]
        self.pair = (found[0], found[1])

    def _gaps(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._problem.evaluate({"x": x, "y": y})[DUALITY_GAP.name]


def _shares(regrets: np.ndarray) -> np.ndarray:
    """Rows (k, d) in proportion to the positive parts; uniform where there are none."""
    positive = np.maximum(regrets, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / regrets.shape[1])
