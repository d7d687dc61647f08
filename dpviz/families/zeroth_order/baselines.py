"""Descent with one pass over the rows, to compare with: along random directions (DPZero, Zhang et al.; DP-ZO, Tang et
al.), and with subgradients, where they are available.

L is the Lipschitz constant of a row's function, d the number of parameters.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from dpviz.experiments.algorithm import DIVERGED, Algorithm, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.zeroth_order import planning
from dpviz.families.zeroth_order.conversion import EVALUATIONS, ROWS_USED
from dpviz.privacy import calibration
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Gaussian, Laplace, Parallel
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.values.value_problem import ValueFacts, ValueProblem, draw_directions
from dpviz.specification import choice, number


def _steps(default: int) -> Any:
    """Return the field for the number of steps S, with this default."""
    return number(
        default, 2, 20_000, label="Steps of a single pass", symbol="S", scale="log", help="Each has rows of its own."
    )


def _step_size(default: float) -> Any:
    """Return the field for the step size a of the first step, in units of 1/L, with this default."""
    return number(
        default,
        0.001,
        10.0,
        label="Step size of a single pass",
        symbol="a",
        unit="1/L",
        scale="log",
        help="Decays to 0 along the run.",
    )


class SinglePass(Algorithm[ValueProblem, ValueFacts]):
    """Descent x ← x - a_t g̃ with noisy estimates g̃ of a slope, and step sizes a_t that decay to 0.

    Each step uses rows that no other step uses, so every step may spend the whole budget. A subclass makes g̃, and says
    what it costs.
    """

    values: ClassVar[float] = 2.0  # function values that a step takes of each of its rows
    descent_steps: int = _steps(200)
    relative_step_size: float = _step_size(0.1)

    @abstractmethod
    def _event(self, facts: ValueFacts, budget: Budget) -> Gaussian | Laplace:
        """Return the event of the release on one batch, which spends the whole budget."""

    @abstractmethod
    def _change(self, facts: ValueFacts) -> float:
        """Return the largest change of the sum over a batch if one row is replaced: B times the sensitivity of the
        mean of B rows that is released."""

    @abstractmethod
    def _estimate(self, problem: ValueProblem, x: np.ndarray, leaf: Batch, mechanisms: Mechanisms) -> np.ndarray:
        """Return g̃ (R, d), estimated at the points x (R, d) from the rows of one batch, whose release is paid for."""

    def plan(self, facts: ValueFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts: the steps, the rows of each, and the event that pays for
        all."""
        _, batch = planning.shared_out(facts.n, self.descent_steps, epochs=1, share=None)  # equally to all steps
        event = self._event(facts, budget)
        decay = 1 - np.arange(self.descent_steps) / self.descent_steps
        return Plan.fixed(
            facts,
            budget,
            (Parallel((event,) * self.descent_steps),),  # on different rows: together they cost what one costs
            charged_at=np.ones(1, dtype=int),  # all at step 1
            iterations=self.descent_steps,
            batch_size=np.full(self.descent_steps, float(batch)),
            noise={"gradient": np.full(self.descent_steps, noise_scale(event, self._change(facts) / batch))},
            resolved={"batch_size": batch, "rows_used": batch * self.descent_steps},
            step_size=self.relative_step_size / facts.lipschitz * decay,
        )

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Estimate the bytes that a run takes, without the problem's table."""
        return planning.memory(plan, replicates, problem)

    def run(self, problem: ValueProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates of the plan; yield a snapshot of their points at the start and after every step."""
        check_facts(problem, plan.facts)
        count = mechanisms.replicates
        x, used, diverged = problem.facts.starting_point(count), np.zeros(count), np.zeros(count, dtype=bool)
        yield Snapshot(0, {"x": x}, {ROWS_USED.name: used, EVALUATIONS.name: self.values * used})
        (event,) = plan.events
        assert isinstance(event, Parallel)
        leaves = mechanisms.leaves(plan.rows.astype(int).tolist(), problem.facts.n)  # disjoint batches, one per step
        mechanisms.parallel(event, leaves)  # pays for the releases of all steps, which `_estimate` makes
        for t, step in enumerate(plan.schedule["step_size"].tolist(), 1):
            new = x - step * self._estimate(problem, x, leaves.next(), mechanisms)
            diverged = diverged | ~(np.abs(new).max(axis=1) < DIVERGED)  # true for nan, too
            x = np.where(diverged[:, None], x, new)  # a diverged replicate stays at its last finite point
            used = used + plan.rows[t - 1]
            released = {ROWS_USED.name: used, EVALUATIONS.name: self.values * used}
            yield Snapshot(t, {"x": x}, released, status=divergence_status(diverged))


class DirectionalDescent(SinglePass):
    """Single pass with g̃ = ṽ u, where u is a random direction and ṽ the noisy mean slope along u.

    A step releases one number ṽ, in any dimension, and moves the point along u only.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.PhaseRetrieval(rows=1000), dpviz.DirectionalDescent(descent_steps=10), mu=1).run()
    <Trace of DP-ZO: one direction per step: 20 runs, 10 iterations>
    """

    kind: ClassVar[str] = "families.zeroth_order.directional_descent"
    title: ClassVar[str] = "DP-ZO: one direction per step"
    hue: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (ROWS_USED, EVALUATIONS)
    distance: float = number(
        0.05,
        0.001,
        1.0,
        label="Distance",
        symbol="λ",
        scale="log",
        help="Values are compared at x ± λu.",
        limits=(1e-6, 1e6),
    )
    clip: float = number(
        2.5,
        0.1,
        20.0,
        label="Clip slopes at",
        symbol="C",
        unit="L",
        scale="log",
        help="u is √d long, and slopes along it up to √d L; most are near L. Noise grows with C.",
    )
    noise: Literal["gaussian", "laplace"] = choice(
        "gaussian",
        label="Noise",
        help="Laplace also gives pure ε.",
        options={"gaussian": "Gaussian", "laplace": "Laplace"},
    )
    law: Literal["sphere", "normal"] = choice(
        "sphere",
        label="Law of u",
        help="The direction of a step.",
        options={"sphere": "On a sphere (DPZero)", "normal": "Normal (DP-ZO)"},
    )

    @property
    def look(self) -> tuple[int, int]:
        """Hue and dash of the method's lines in charts, as numbers; the noise changes the dash."""
        return self.hue, int(self.noise == "laplace")

    def _event(self, facts: ValueFacts, budget: Budget) -> Gaussian | Laplace:
        if self.noise == "gaussian":
            return Gaussian(planning.total_mu(budget, facts))
        # Of a single step on all n rows: nothing is sampled. `prior` are releases that the budget covers, too.
        (epsilon,) = calibration.calibrate_laplace(budget, np.ones(1), m=facts.n, n=facts.n, prior=facts.released)
        return Laplace(float(epsilon))

    def _change(self, facts: ValueFacts) -> float:
        return 2 * self.clip * facts.lipschitz

    def _estimate(self, problem: ValueProblem, x: np.ndarray, leaf: Batch, mechanisms: Mechanisms) -> np.ndarray:
        facts = problem.facts
        u = draw_directions(self.law, facts.d, mechanisms.public)
        clip = self.clip * facts.lipschitz
        if self.noise == "gaussian":
            return leaf.gaussian(problem.directional(x, u, leaf, clip, self.distance)) * u
        # The query is one number, whose norms are all the same; `laplace` takes queries in ℓ1 only.
        return leaf.laplace(problem.directional(x, u, leaf, clip, self.distance, norm="l1")) * u


class FirstOrder(SinglePass):
    """DP-SGD: single pass with noisy means of clipped subgradients.

    It needs more than values; on a step function, whose derivative is 0, it is useless.
    """

    kind: ClassVar[str] = "families.zeroth_order.first_order"
    title: ClassVar[str] = "DP-SGD: with derivatives"
    hue: ClassVar[int] = 3
    metrics: ClassVar[tuple[Metric, ...]] = (ROWS_USED, EVALUATIONS)
    values: ClassVar[float] = 1.0  # a subgradient counts as one value
    descent_steps: int = _steps(640)
    relative_step_size: float = _step_size(0.05)

    def _event(self, facts: ValueFacts, budget: Budget) -> Gaussian:
        return Gaussian(planning.total_mu(budget, facts))

    def _change(self, facts: ValueFacts) -> float:
        return 2 * facts.lipschitz

    def _estimate(self, problem: ValueProblem, x: np.ndarray, leaf: Batch, mechanisms: Mechanisms) -> np.ndarray:
        return leaf.gaussian(problem.subgradient(x, leaf, problem.facts.lipschitz))
