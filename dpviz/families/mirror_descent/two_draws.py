"""The simplest private way to play: in turn, each player draws a best response by the exponential mechanism."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.algorithms import frequencies
from dpviz.privacy import planner
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, ExpMech, Laplace
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.queries import Query
from dpviz.problems.base import check_facts
from dpviz.problems.games import Game, GameFacts, Pair
from dpviz.specification import number


class TwoDraws(planning.GameAlgorithm[Game]):
    """x draws a vertex by the exponential mechanism against uniform y, then y draws one against that x.

    With more draws they go on in turn, each against the average of what the other one has drawn: private fictitious
    play (Brown 1951). Who plays alone draws every time, against the average of its own vertices. Averages are output.
    """

    kind: ClassVar[str] = "families.mirror_descent.two_draws"
    title: ClassVar[str] = "Two draws"
    responses: int = number(
        2, 2, 64, label="Best responses", scale="log", help="Vertices drawn in all, in turn, x first. 2 = one each."
    )

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        turns = self._turns(facts)
        private = planning.is_private(budget)
        eta = planner.calibrate_selections(budget, np.ones(1), self.responses, facts.released) if private else 0.0
        event: Event = ExpMech(eta) if private else Laplace(math.inf)
        return Plan.fixed(
            facts,
            budget,
            (event,) * self.responses,
            resolved={"rounds": self.responses},
            range_x=np.array([eta * (turn == 0) for turn in turns]),
            range_y=np.array([eta * (turn == 1) for turn in turns]),
            batch_size=np.full(self.responses, facts.n),
        )

    def _turns(self, facts: GameFacts) -> list[int]:
        """Who draws in every round, 0: x, 1: y. Raises UserError where a player's scores need no data."""
        having_choices = [p for p, d in enumerate((facts.d_x, facts.d_y)) if d > 1]
        if any((facts.oscillation_x, facts.oscillation_y)[p] == 0 for p in having_choices):
            raise UserError(
                "Two draws answer a player whose choice reads data. For synthetic data, choose one of its own methods.",
                title="Algorithm and problem do not fit",
            )
        return [having_choices[t % len(having_choices)] for t in range(self.responses)]

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        facts = problem.facts
        changes = [2 * osc / facts.n for osc in (facts.oscillation_x, facts.oscillation_y)]
        drawn = [0, 0]
        played: Pair = facts.uniform(mechanisms.replicates)
        yield Snapshot(0, {"x": played[0], "y": played[1]})
        for t, (player, event) in enumerate(zip(self._turns(facts), plan.events, strict=True)):
            # All replicates begin at the same point, whose gradient may be dear.
            g_x, g_y = problem.gradients(*(played if t else facts.uniform(1)))
            utilities = np.broadcast_to((-g_x, g_y)[player], played[player].shape)
            if isinstance(event, Laplace):  # no privacy: the best response itself
                best = mechanisms.laplace(Query(utilities, changes[player], "l1"), event).argmax(axis=1)
            else:
                best = mechanisms.exponential(Query(utilities, changes[player], "range"), event)[:, 0]
            drawn[player] += 1
            step = 1 / drawn[player]
            moved = (1 - step) * played[player] + step * frequencies(best[:, None], played[player].shape[1])
            played = (moved, played[1]) if player == 0 else (played[0], moved)
            yield Snapshot(t + 1, {"x": played[0], "y": played[1]})
