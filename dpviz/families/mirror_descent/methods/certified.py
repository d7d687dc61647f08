"""Vertex sampling that also releases how good its strategies are: a private certificate of the duality gap."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from dpviz.checkpoints import between
from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.methods.algorithms import DRAWS_Y, VertexSampling
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Gaussian, Laplace
from dpviz.privacy.ledger import FixedEvents
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Metric
from dpviz.problems.games.games import Game, GameFacts
from dpviz.specification import number

CONFIDENCE = 0.95  # of the released bound, over its own noise
CERTIFIED_GAP = Metric("certified_gap", "Certified duality gap", released=True, scale="log", headline=4)


class CertifiedSampling(planning.GameAlgorithm[Game]):
    """Vertex sampling with all rows, and after its last round the gap of its output with noise (THEORY.md, section
    10.5): a number that holds for these data with 95 % confidence, and may be published."""

    kind: ClassVar[str] = "families.mirror_descent.certified_sampling"
    title: ClassVar[str] = "Vertex sampling with a certificate"
    hue: ClassVar[int] = 3
    dash: ClassVar[int] = 2
    sparse: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (CERTIFIED_GAP,)
    iterations: int = number(64, 2, 1024, label="Rounds", symbol="T", scale="log", help="Rounds of the game.")
    draws: int = number(
        1, 1, 64, label="Draws", symbol="K", scale="log", help="Vertices that each player draws per round."
    )
    draws_y: int | None = number(None, 1, 64, label="Draws of y", symbol="Kᵧ", help=DRAWS_Y)
    share_x: float = planning.SHARE_X
    split: planning.Split = planning.SPLIT
    certificate_share: float = number(
        0.05,
        0.01,
        0.5,
        label="Share of the certificate",
        symbol="φ_c",
        help="Share of the budget (of ρ; under pure ε, of ε) that pays for releasing the gap at the end.",
    )

    @property
    def play(self) -> VertexSampling:
        """The method whose output is certified."""
        return VertexSampling().adopting(dict(self))

    def has_internal(self, facts: GameFacts) -> bool:
        return self.play.has_internal(facts)

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        planning.refuse_without_privacy(budget, self.title)
        if not facts.gap_change:
            raise UserError(
                "A certificate needs a game whose gap is computed exactly: the matrix game, the quadratic game or "
                "“Strategies against groups”.",
                title="Algorithm and problem do not fit",
            )
        rest = budget.share(1 - self.certificate_share, facts.released)
        with_prior = rest.of(rest.amount + rest.cost(facts.released))  # whose plan subtracts it again
        played = self.play.plan(facts, with_prior)
        event = certifying_event(budget.share(self.certificate_share, facts.released))
        scale, rounds = noise_scale(event, facts.gap_change / facts.n), played.iterations
        return dataclasses.replace(
            played,
            budget=budget,
            terms=FixedEvents((*played.events, event)),
            charged_at=np.append(played.charged_at, rounds),
            noise={"gap": np.where(np.arange(1, rounds + 1) < rounds, 0.0, scale)},
            resolved={**played.resolved, "certificate_width": upper_quantile(event, scale)},
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        known = np.full(mechanisms.replicates, np.nan)
        lost = np.zeros(mechanisms.replicates, dtype=bool)
        latest = Snapshot(-1, {})
        for snapshot in self.play.run(problem, plan, mechanisms):
            if snapshot.iteration == plan.iterations and np.isnan(known).all():
                event = plan.events[-1]
                asked = problem.gap_in_parts(
                    snapshot.output["x"], snapshot.output["y"], "l1" if isinstance(event, Laplace) else "l2"
                )
                gap = yield from between(asked, latest)
                noisy = (mechanisms.laplace if isinstance(event, Laplace) else mechanisms.gaussian)(gap, event)
                known = np.maximum(noisy + plan.resolved["certificate_width"], 0.0)
                lost = ~(np.abs(noisy) < DIVERGED)
            status = divergence_status(lost) or snapshot.status
            latest = dataclasses.replace(snapshot, released={CERTIFIED_GAP.name: known}, status=status)
            yield latest


def certifying_event(part: Budget) -> Event:
    """One release that costs a part of a budget (`Budget.share`): Laplace noise for pure ε, else Gaussian noise."""
    return Laplace(part.amount) if part.pure else Gaussian(math.sqrt(2 * part.gaussian_rho(part.amount)))


def upper_quantile(event: Event, scale: float) -> float:
    """What is added to a noisy gap so that the sum is above the true one with probability `CONFIDENCE`."""
    return scale * (-math.log(2 * (1 - CONFIDENCE)) if isinstance(event, Laplace) else float(ndtri(CONFIDENCE)))
