"""Gaussian noise on both players' gradients, the usual way: descent-ascent, and mirror descent."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning, theory
from dpviz.families.mirror_descent.methods.algorithms import BATCHES, softmax
from dpviz.families.mirror_descent.planning import CONTROLS
from dpviz.privacy import calibration
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, Gaussian, Parallel, Seq
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.base import check_facts
from dpviz.problems.games.games import Game, GameFacts, Pair, project
from dpviz.specification import choice, number


class NoisyGradients(planning.GameAlgorithm[Game]):
    """What gradient methods with Gaussian noise share: both players' gradients are released, averages are output."""

    gradient_rounds: int | None = number(None, 1, 1024, **CONTROLS["gradient_rounds"])
    batching: planning.Batching = choice("full", BATCHES, **CONTROLS["batching"])
    share_x: float = planning.SHARE_X
    split: planning.Split = planning.SPLIT
    geometry: ClassVar[theory.Geometry]  # of its steps

    def released_settings(self) -> str:
        """Without the split where it is even."""
        even = self.split == "own" and self.share_x == planning.EVEN
        return self.settings_without(("share_x", "split") if even else ())

    @abstractmethod
    def balanced_rounds(self, d: int, signal: float) -> float:
        """Rounds that suit the noise; signal = n √ρ/L, d = vertices of the larger player."""

    @abstractmethod
    def step_size(self, d: int, rounds: int, noise: float) -> float:
        """The step size of a player with d vertices whose gradient's coordinates have noise of this deviation."""

    def rounds(self, facts: GameFacts, budget: Budget) -> int:
        """T: as set, or balanced and within 4 to 256."""
        if self.gradient_rounds is not None:
            return self.gradient_rounds
        if not budget.private:
            return 256
        signal = facts.n * math.sqrt(budget.about_rho(budget.amount)) / max(facts.change_x, facts.change_y, 1e-300)
        return round(min(256.0, max(4.0, self.balanced_rounds(max(facts.d_x, facts.d_y), signal))))

    @abstractmethod
    def advance(self, strategies: Pair, sums: Pair, gradients: Pair, steps: Pair) -> tuple[Pair, Pair]:
        """The next strategies, and sums of scaled gradients; `gradients` are those of a player who maximises."""

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        rounds = self.rounds(facts, budget)
        batch = planning.batch_size(facts, rounds, self.batching)
        used = rounds if self.batching == "full" else 1  # every row is in one block only
        rho = calibration.calibrate_gaussian(budget, np.ones(used), facts.n, facts.n, facts.released)[0]
        changes = (facts.change_x * math.sqrt(facts.d_x) / batch, facts.change_y * math.sqrt(facts.d_y) / batch)
        share_x, share_y = self._shares(facts, rho, changes)
        paid = [Gaussian(math.sqrt(2 * share * rho)) for share in (share_x, share_y) if share]
        event: Event = paid[0] if len(paid) == 1 else Seq(tuple(paid))
        scales = [
            change / math.sqrt(2 * share * rho) if share else 0.0
            for change, share in zip(changes, (share_x, share_y), strict=True)
        ]
        steps = [self.step_size(d, rounds, s) for d, s in zip((facts.d_x, facts.d_y), scales, strict=True)]
        blocks = self.batching == "single"
        return Plan.fixed(
            facts,
            budget,
            (Parallel((event,) * rounds),) if blocks else (event,) * rounds,
            charged_at=np.ones(1, dtype=int) if blocks else None,
            iterations=rounds,
            batch_size=np.full(rounds, batch),
            noise={"x": np.full(rounds, scales[0]), "y": np.full(rounds, scales[1])},
            resolved={"rounds": rounds, "share_x": share_x, "step_size_x": steps[0], "step_size_y": steps[1]},
            step_size_x=np.full(rounds, steps[0]),
            step_size_y=np.full(rounds, steps[1]),
        )

    def _shares(self, facts: GameFacts, rho: float, changes: Sequence[float]) -> tuple[float, float]:
        """Shares of ρ of the two players: as set, or with the smallest bound on the gap. rho : of a round."""
        if self.split == "own" or not planning.both_pay(facts) or not math.isfinite(rho):
            return planning.shares(facts, self.share_x)
        whole = [change / math.sqrt(2 * rho) for change in changes]
        return planning.shares(facts, theory.optimal_noisy_shares(planning.players(facts), whole, self.geometry)[0])

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        facts = problem.facts
        strategies = facts.uniform(mechanisms.replicates)
        totals: Pair = (np.zeros_like(strategies[0]), np.zeros_like(strategies[1]))
        sums: Pair = (np.zeros_like(strategies[0]), np.zeros_like(strategies[1]))
        pays = [share > 0 for share in planning.shares(facts, planning.EVEN)]
        lost = np.zeros(mechanisms.replicates, dtype=bool)
        yield Snapshot(0, {"x": strategies[0], "y": strategies[1]})
        blocks = iter(mechanisms.blocks(plan.events[0], facts.n)) if isinstance(plan.events[0], Parallel) else None
        for t in range(1, plan.iterations + 1):
            batch = next(blocks) if blocks is not None else mechanisms.batch(plan.events[t - 1])
            gradients = self._released(problem.noisy_gradients(*strategies, batch), batch, pays)
            steps = (plan.schedule["step_size_x"][t - 1], plan.schedule["step_size_y"][t - 1])
            totals = (totals[0] + strategies[0], totals[1] + strategies[1])
            lost |= ~(np.isfinite(gradients[0]).all(axis=1) & np.isfinite(gradients[1]).all(axis=1))
            lost |= (np.abs(gradients[0]).max(axis=1) > DIVERGED) | (np.abs(gradients[1]).max(axis=1) > DIVERGED)
            # What broke is frozen where it was, and marked.
            gradients = tuple(np.where(lost[:, None], 0.0, g) for g in gradients)  # type: ignore[assignment]
            strategies, sums = self.advance(strategies, sums, (-gradients[0], gradients[1]), steps)
            yield Snapshot(t, {"x": totals[0] / t, "y": totals[1] / t}, status=divergence_status(lost))

    @staticmethod
    def _released(queries: tuple[Query, Query], batch: Batch, pays: list[bool]) -> Pair:
        found = [batch.gaussian(query) if noisy else query.value for query, noisy in zip(queries, pays, strict=True)]
        return found[0], found[1]


class EuclideanGradient(NoisyGradients):
    """DP-SGDA: noisy gradient descent-ascent, x ← Π_Δ(x - λ g̃), Π the Euclidean projection (Boob, Guzmán 2023)."""

    kind: ClassVar[str] = "families.mirror_descent.euclidean_gradient"
    title: ClassVar[str] = "DP-SGDA (Euclidean)"
    hue: ClassVar[int] = 1
    geometry: ClassVar[theory.Geometry] = "euclidean"
    euclidean_step: float = number(10.0, 0.3, 300.0, **CONTROLS["euclidean_step"])

    def balanced_rounds(self, d: int, signal: float) -> float:
        # At (signal/d)² the noise is as large as the signal. Best by trial in the needle and the quadratic game, at
        # d = 100 to 1,000, was 8 times the root of that: 32, 12 and 4 rounds.
        return 8 * signal / d

    def step_size(self, d: int, rounds: int, noise: float) -> float:
        return self.euclidean_step * math.sqrt(2) / math.sqrt(rounds * (1 + d * noise**2))

    def advance(self, strategies: Pair, sums: Pair, gradients: Pair, steps: Pair) -> tuple[Pair, Pair]:
        x, y = (project(p + step * g) for p, g, step in zip(strategies, gradients, steps, strict=True))
        return (x, y), sums


class GaussianMirrorDescent(NoisyGradients):
    """Mirror descent with the same Gaussian noise: exponential weights on noisy gradients. A strong baseline."""

    kind: ClassVar[str] = "families.mirror_descent.gaussian_mirror_descent"
    title: ClassVar[str] = "Gaussian mirror descent"
    hue: ClassVar[int] = 2
    geometry: ClassVar[theory.Geometry] = "entropic"
    entropic_step: float = number(30.0, 0.3, 100.0, **CONTROLS["entropic_step"])

    def advance(self, strategies: Pair, sums: Pair, gradients: Pair, steps: Pair) -> tuple[Pair, Pair]:
        new = tuple(total + step * g for total, g, step in zip(sums, gradients, steps, strict=True))
        return (softmax(new[0]), softmax(new[1])), (new[0], new[1])

    def balanced_rounds(self, d: int, signal: float) -> float:
        return 2 * signal**2 / d

    def step_size(self, d: int, rounds: int, noise: float) -> float:
        return self.entropic_step * math.sqrt(max(math.log(d), 1e-12) / (rounds * (1 + noise**2)))
