"""The simplest private ways to play: in turn, each player draws a best response by the exponential mechanism."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.methods.algorithms import frequencies
from dpviz.privacy import calibration, events, releases
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import check_facts
from dpviz.problems.games.games import Game, GameFacts, Pair
from dpviz.specification import number


class BestResponses(planning.GameAlgorithm[Game]):
    """Private fictitious play (Brown 1951): in turn, x first, each player draws a vertex by the exponential mechanism
    against the average of what the other one has drawn, uniform at first. Who plays alone draws every time, against
    the average of its own vertices. The averages are output. All rows enter every draw, so all cost the same.
    """

    sparse: ClassVar[bool] = True

    def has_internal(self, facts: GameFacts) -> bool:
        """All that is played is released."""
        return False

    def vertices(self, plan: Plan) -> float:
        """Vertices in the average of all that one of two players drew, half-way."""
        return max(1.0, plan.iterations / 4)

    @abstractmethod
    def count(self) -> int:
        """How many vertices are drawn in all."""

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        count = self.count()
        turns = self._turns(facts)
        private = budget.private
        eta = calibration.calibrate_selections(budget, np.ones(1), count, facts.released) if private else 0.0
        event: events.Event = events.ExpMech(eta) if private else events.Laplace(math.inf)
        return Plan.fixed(
            facts,
            budget,
            (event,) * count,
            resolved={"rounds": count},
            range_x=np.array([eta * (turn == 0) for turn in turns]),
            range_y=np.array([eta * (turn == 1) for turn in turns]),
            batch_size=np.full(count, facts.n),
        )

    def _turns(self, facts: GameFacts) -> list[int]:
        """Who draws in every round, 0: x, 1: y. Raises UserError where a player's scores need no data."""
        having_choices = [p for p, d in enumerate((facts.d_x, facts.d_y)) if d > 1]
        if any((facts.oscillation_x, facts.oscillation_y)[p] == 0 for p in having_choices):
            raise planning.refusal("best_responses")
        return [having_choices[t % len(having_choices)] for t in range(self.count())]

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        facts = problem.facts
        changes = [2 * osc / facts.n for osc in (facts.oscillation_x, facts.oscillation_y)]
        drawn = [0, 0]
        played: Pair = facts.uniform(mechanisms.replicates)
        yield Snapshot(0, {"x": played[0], "y": played[1]})
        for t, (player, event) in enumerate(zip(self._turns(facts), plan.events, strict=True)):
            # All replicates begin at the same point, whose gradient may be expensive.
            g_x, g_y = problem.gradients(*(played if t else facts.uniform(1)))
            utilities = np.broadcast_to((-g_x, g_y)[player], played[player].shape)
            if isinstance(event, events.Laplace):  # no privacy: the best response itself
                best = mechanisms.laplace(releases.Query(utilities, changes[player], "l1"), event).argmax(axis=1)
            else:
                best = mechanisms.exponential(releases.Query(utilities, changes[player], "range"), event)[:, 0]
            drawn[player] += 1
            step = 1 / drawn[player]
            moved = (1 - step) * played[player] + step * frequencies(best[:, None], played[player].shape[1])
            played = (moved, played[1]) if player == 0 else (played[0], moved)
            yield Snapshot(t + 1, {"x": played[0], "y": played[1]})


class TwoDraws(BestResponses):
    """x draws against uniform y, then y against that x: one vertex each, the simplest private way to play."""

    kind: ClassVar[str] = "families.mirror_descent.two_draws"
    title: ClassVar[str] = "Two draws"
    hue: ClassVar[int] = 3

    def count(self) -> int:
        return 2


class FictitiousPlay(BestResponses):
    """More than two: the averages of many best responses approach an equilibrium that needs mixing."""

    kind: ClassVar[str] = "families.mirror_descent.fictitious_play"
    title: ClassVar[str] = "Fictitious play"
    hue: ClassVar[int] = 3
    dash: ClassVar[int] = 1
    responses: int = number(
        32, 2, 1024, label="Best responses", scale="log", help="Vertices drawn in all, in turn, x first."
    )

    def count(self) -> int:
        return self.responses
