"""Vertex sampling that also releases how good its strategies are: a private certificate of the duality gap."""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.methods.algorithms import DRAWS_Y, VertexSampling
from dpviz.families.mirror_descent.planning import CONTROLS
from dpviz.privacy import events, ledger, releases
from dpviz.privacy.budgets import Budget
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
    iterations: int = number(64, 2, 1024, label="Steps", symbol="T", scale="log", help="Rounds of the game.")
    draws: int = number(1, 1, 64, **CONTROLS["draws"])
    draws_y: int | None = number(None, 1, 64, label="Draws of y", symbol="Kᵧ", help=DRAWS_Y)
    share_x: float = planning.SHARE_X
    split: planning.Split = planning.SPLIT
    certificate_share: float = number(0.05, 0.01, 0.5, **CONTROLS["certificate_share"])

    @property
    def play(self) -> VertexSampling:
        """The method whose output is certified."""
        return VertexSampling().adopting(dict(self))

    def has_internal(self, facts: GameFacts) -> bool:
        return self.play.has_internal(facts)

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        planning.refuse_without_privacy(budget, self.title)
        if not facts.gap_change:
            raise planning.refusal("no_exact_gap")
        rest = budget.share(1 - self.certificate_share, facts.released)
        with_prior = rest.of(rest.amount + rest.cost(facts.released))  # whose plan subtracts it again
        played = self.play.plan(facts, with_prior)
        event = certifying_event(budget.share(self.certificate_share, facts.released))
        scale, rounds = noise_scale(event, facts.gap_change / facts.n), played.iterations
        return dataclasses.replace(
            played,
            budget=budget,
            terms=ledger.FixedEvents((*played.events, event)),
            charged_at=np.append(played.charged_at, rounds),
            noise={"gap": np.where(np.arange(1, rounds + 1) < rounds, 0.0, scale)},
            resolved={**played.resolved, "certificate_width": upper_quantile(event, scale)},
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        known = np.full(mechanisms.replicates, np.nan)
        lost = np.zeros(mechanisms.replicates, dtype=bool)
        for snapshot in self.play.run(problem, plan, mechanisms):
            if snapshot.iteration == plan.iterations and np.isnan(known).all():
                event = plan.events[-1]
                norm: releases.Norm = "l1" if isinstance(event, events.Laplace) else "l2"
                gap = problem.gap(snapshot.output["x"], snapshot.output["y"], norm)
                noisy = (mechanisms.laplace if isinstance(event, events.Laplace) else mechanisms.gaussian)(gap, event)
                known = np.maximum(noisy + plan.resolved["certificate_width"], 0.0)
                lost = ~(np.abs(noisy) < DIVERGED)
            status = divergence_status(lost) or snapshot.status
            yield dataclasses.replace(snapshot, released={CERTIFIED_GAP.name: known}, status=status)


def certifying_event(part: Budget) -> events.Event:
    """One release that costs a part of a budget (`Budget.share`): Laplace noise for pure ε, else Gaussian noise."""
    return events.Laplace(part.amount) if part.pure else events.Gaussian(math.sqrt(2 * part.gaussian_rho(part.amount)))


def upper_quantile(event: events.Event, scale: float) -> float:
    """What is added to a noisy gap so that the sum is above the true one with probability `CONFIDENCE`."""
    return scale * (-math.log(2 * (1 - CONFIDENCE)) if isinstance(event, events.Laplace) else float(ndtri(CONFIDENCE)))
