"""Baselines of DP-GIBO: private random search, and global Bayesian optimisation on noisy mean losses."""

import math
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from dpviz.checkpoints import at_checkpoints, checkpoint
from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.bayesian_optimization.algorithms import SECONDS, TRAININGS, taken
from dpviz.families.bayesian_optimization.posterior import JITTER, Matern, solved
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import ExpMech, Laplace
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.tuning.tuning import TuningFacts, TuningProblem, at_a_time
from dpviz.specification import number

NOISY_LOSS = Metric("noisy_loss", "Noisy loss of the last evaluation", released=True, better="")


class RandomSearch(Algorithm[TuningProblem, TuningFacts]):
    """Random search: N settings drawn from the box, one chosen by the exponential mechanism on the users' mean losses.

    The privacy cost does not depend on N. Losses are clipped to [0, M], so one user moves every mean by M/n at most,
    up or down: a range of 2M/n.
    """

    kind: ClassVar[str] = "families.bayesian_optimization.random_search"
    title: ClassVar[str] = "Private random search"
    hue: ClassVar[int] = 1
    metrics: ClassVar[tuple[Metric, ...]] = (TRAININGS, SECONDS)
    trainings: int = number(
        175, 2, 2000, label="Trainings", symbol="N", scale="log", help="Settings that are tried, a training each."
    )

    def plan(self, facts: TuningFacts, budget: Budget) -> Plan:
        if not budget.private:
            return Plan.fixed(facts, budget, (Laplace(math.inf),))
        eta = calibration.calibrate_selections(budget, np.ones(1), prior=facts.released)
        return Plan.fixed(facts, budget, (ExpMech(eta),), resolved={"selection_epsilon": eta})

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        facts = plan.facts
        losses = replicates * at_a_time(replicates, self.trainings, facts.n) * facts.n
        return replicates * (problem.replicate + 16.0 * self.trainings * facts.d) + 24.0 * losses

    def run(self, problem: TuningProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        evaluations = problem.evaluations(mechanisms.replicates)
        start = problem.facts.starting_points(mechanisms.common)
        latest = Snapshot(0, {"x": start}, taken(evaluations))
        yield latest
        low, high = problem.facts.box
        shape = (self.trainings, problem.facts.d)
        points = np.array([generator.uniform(low, high, shape) for generator in mechanisms.common])

        def count() -> None:
            latest.within = float(evaluations.count.min()) / self.trainings

        with at_checkpoints(count):
            query = evaluations.utilities(points)
        (event,) = plan.events
        if isinstance(event, Laplace):  # no privacy: the best of all
            best = mechanisms.laplace(query._replace(norm="l1"), event).argmax(axis=1)
        else:
            best = mechanisms.exponential(query, event)[:, 0]
        yield Snapshot(1, {"x": points[np.arange(len(points)), best]}, taken(evaluations))


class GlobalSearch(Algorithm[TuningProblem, TuningFacts]):
    """Bayesian optimisation of the whole box with an upper confidence bound (GP-UCB, Srinivas et al. 2010), on mean
    losses that are each released with noise; all else follows from them.

    Kusner et al. 2015 release the result only, and their privacy needs that losses are draws of a Gaussian process,
    which cannot be checked; here privacy needs no such assumption (THEORY.md, section 8).
    """

    kind: ClassVar[str] = "families.bayesian_optimization.global_search"
    title: ClassVar[str] = "Private global search (UCB)"
    hue: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (TRAININGS, SECONDS, NOISY_LOSS)
    if_diverged: ClassVar[str] = "The noise is beyond all bounds. Use a larger budget or fewer trainings."
    trainings: int = number(
        175, 1, 1000, label="Trainings", symbol="N", scale="log", help="Each releases a noisy mean loss."
    )
    length_scale: float = number(
        4.0, 0.1, 50.0, label="Length scale", symbol="ℓ", scale="log", help="Of the Matérn kernel on the whole box."
    )
    first: int = number(10, 1, 100, label="Random points first", scale="log", help="Before the process is asked.")
    candidates: int = number(
        1000, 10, 5000, label="Candidates", scale="log", help="In each step: half anywhere, half near the best so far."
    )

    def plan(self, facts: TuningFacts, budget: Budget) -> Plan:
        steps = np.ones(self.trainings)
        events = calibration.calibrated_events("gaussian", budget, steps, facts.n, facts.n, prior=facts.released)
        noise = np.array([noise_scale(event, facts.loss_sensitivity) for event in events])
        return Plan.fixed(facts, budget, events, noise={"loss": noise}, assumed_noise=noise)

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        facts = plan.facts
        process = 4 * self.candidates * (self.trainings + facts.d) + 4 * self.trainings**2
        return replicates * (problem.replicate + 16.0 * facts.n + 8.0 * self.trainings * facts.d) + 8.0 * process

    def run(self, problem: TuningProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        facts, count = problem.facts, mechanisms.replicates
        low, high = facts.box
        x, lost = facts.starting_points(mechanisms.common), np.zeros(count, dtype=bool)
        points, values = np.empty((count, self.trainings, facts.d)), np.zeros((count, self.trainings))
        evaluations = problem.evaluations(count)
        yield Snapshot(0, {"x": x}, {**taken(evaluations), NOISY_LOSS.name: np.full(count, np.nan)})
        surfaces = [Surface(self.length_scale, float(plan.schedule["assumed_noise"][0])) for _ in range(count)]
        for t, event in enumerate(plan.events):
            for r, surface in enumerate(surfaces):
                checkpoint()
                candidates = mechanisms.public[r].uniform(low, high, (self.candidates, facts.d))
                near = x[r] + 0.5 * mechanisms.public[r].standard_normal((self.candidates // 2, facts.d))
                candidates[: len(near)] = np.clip(near, low, high)
                points[r, t] = candidates[-1] if t < self.first else candidates[surface.lowest(candidates, t)]
            noisy = mechanisms.gaussian(evaluations.mean_loss(points[:, t]), event)[:, 0]
            lost = lost | ~(np.abs(noisy) < DIVERGED)
            values[:, t] = np.where(lost, 0.0, noisy)
            best = [surface.learn(points[r, : t + 1], values[r, : t + 1]) for r, surface in enumerate(surfaces)]
            x = np.where(lost[:, None], x, points[np.arange(count), best])
            released = {**taken(evaluations), NOISY_LOSS.name: values[:, t].copy()}
            yield Snapshot(t + 1, {"x": x}, released, status=divergence_status(lost))


class Surface:
    """Posterior of the mean loss over the box, from noisy values that are released. noise : their standard
    deviation."""

    def __init__(self, length: float, noise: float) -> None:
        self._kernel, self._noise = Matern(length), noise

    def learn(self, points: np.ndarray, values: np.ndarray) -> int:
        """Learn from values (N,) at points (N, d); return the index of the point with the lowest posterior mean."""
        scale = max(float(values.std()), 1e-12)
        standard = (values - values.mean()) / scale
        gram = self._kernel.gram(points, points)
        noise = (self._noise / scale) ** 2 + JITTER * 1e6
        self._points, self._factor = points, np.linalg.cholesky(gram + noise * np.eye(len(points)))
        self._weights = solved(self._factor, solved(self._factor, standard[:, None]), transposed=True)[:, 0]
        return int(np.argmin(gram @ self._weights))

    def lowest(self, candidates: np.ndarray, t: int) -> int:
        """Return the index of the candidate (C, d) with the lowest mean less √β_t standard deviations."""
        covariances = self._kernel.gram(self._points, candidates)
        explained = (solved(self._factor, covariances) ** 2).sum(axis=0)
        beta = 0.4 * math.log(len(candidates) * t**2 * math.pi**2 / 0.6)
        return int(np.argmin(self._weights @ covariances - np.sqrt(beta * np.maximum(1 - explained, 0.0))))
