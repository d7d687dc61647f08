"""What vertex sampling is compared with: a noisy payoff matrix, MWEM, and noisy marginal tables."""

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from dpviz.checkpoints import sliced, slices
from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.methods.algorithms import softmax
from dpviz.families.mirror_descent.planning import CONTROLS
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.games.games import GameFacts
from dpviz.problems.games.marginals import MarginalGame
from dpviz.problems.games.matrix_games import MAX_ENTRIES, MatrixGameProblem
from dpviz.specification import choice, number

# Slices follow from these: per entry of a matrix, to draw, add and look at its noise; to multiply it.
SECONDS_PER_NOISE, SECONDS_PER_PRODUCT = 30e-9, 0.6e-9


class NoisyPayoffs(planning.GameAlgorithm[MatrixGameProblem]):
    """Release the whole payoff matrix with Gaussian noise, and solve the noisy game by exponential weights."""

    kind: ClassVar[str] = "families.mirror_descent.noisy_payoffs"
    title: ClassVar[str] = "Noisy payoff matrix"
    hue: ClassVar[int] = 1
    dash: ClassVar[int] = 3
    matrix_rounds: int = number(256, 1, 1024, **CONTROLS["matrix_rounds"])

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        if not facts.payoff_bound:
            raise planning.refusal("no_payoffs")
        if facts.d_x * facts.d_y > MAX_ENTRIES:
            raise planning.refusal("large_payoffs", d_x=facts.d_x, d_y=facts.d_y)
        (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
        event, rounds = Gaussian(math.sqrt(2 * rho)), self.matrix_rounds
        scale = noise_scale(event, 2 * facts.payoff_bound * math.sqrt(facts.d_x * facts.d_y) / facts.n)
        steps = [
            planning.bold_step(math.log(max(d, 2)), 2 * facts.payoff_bound, rounds) for d in (facts.d_x, facts.d_y)
        ]
        return Plan.fixed(
            facts,
            budget,
            (event,),
            charged_at=np.ones(1, dtype=int),
            iterations=rounds,
            noise={"payoffs": planning.once(scale, rounds)},
            resolved={"rounds": rounds},
            step_size_x=np.full(rounds, steps[0]),
            step_size_y=np.full(rounds, steps[1]),
        )

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Add a noisy matrix for every replicate, and another one while it is drawn."""
        facts = GameFacts.of(plan.facts)
        return super().memory(plan, replicates, problem) + 20.0 * (replicates * facts.d_x * facts.d_y)

    def run(self, problem: MatrixGameProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        x, y = problem.facts.uniform(mechanisms.replicates)
        scores_x, scores_y, total_x, total_y = (np.zeros_like(v) for v in (x, y, x, y))
        yield Snapshot(0, {"x": x, "y": y})
        query = problem.payoffs(mechanisms.replicates)
        payoffs, lost = np.empty(query.value.shape), np.zeros(mechanisms.replicates, dtype=bool)
        parts = slices(mechanisms.replicates, payoffs[0].size * SECONDS_PER_NOISE)
        for part, own in mechanisms.batch(plan.events[0]).split(parts):
            payoffs[part] = own.gaussian(query._replace(value=query.value[part]))
            lost[part] = ~(np.abs(payoffs[part]).max(axis=(1, 2)) < DIVERGED)
        payoffs[lost] = 0.0
        status, seconds = divergence_status(lost), problem.facts.d_x * problem.facts.d_y * SECONDS_PER_PRODUCT
        for t in range(1, plan.iterations + 1):
            total_x, total_y = total_x + x, total_y + y
            against_y = sliced(_against_y, seconds, payoffs, y)
            against_x = sliced(_against_x, seconds, payoffs, x)
            scores_x = scores_x - plan.schedule["step_size_x"][t - 1] * against_y
            scores_y = scores_y + plan.schedule["step_size_y"][t - 1] * against_x
            x, y = softmax(scores_x), softmax(scores_y)
            yield Snapshot(t, {"x": total_x / t, "y": total_y / t}, status=status)


def _against_y(payoffs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A y (R, d_x) for every replicate's own payoffs (R, d_x, d_y)."""
    return np.einsum("rjk,rk->rj", payoffs, y)


def _against_x(payoffs: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Aᵀx (R, d_y)."""
    return np.einsum("rjk,rj->rk", payoffs, x)


class MultiplicativeWeights(planning.GameAlgorithm[MarginalGame]):
    """MWEM (Hardt, Ligett, McSherry 2012): select a badly answered query, measure it, correct the histogram."""

    kind: ClassVar[str] = "families.mirror_descent.multiplicative_weights"
    title: ClassVar[str] = "MWEM"
    hue: ClassVar[int] = 1
    measured_queries: int = number(64, 1, 1024, **CONTROLS["measured_queries"])
    iterate: Literal["last", "average"] = choice("last", **CONTROLS["iterate"])

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Half of the budget selects, half measures: in ε under pure ε (Laplace noise), else in ρ or μ² (Gaussian)."""
        _needs_marginals(facts)
        planning.refuse_without_privacy(budget, self.title)
        rounds = self.measured_queries
        half = budget.share(0.5, facts.released)
        select = ExpMech(calibration.calibrate_selections(half, np.ones(1), rounds))
        if budget.pure:
            measure: Event = Laplace(select.eta)
        else:
            (*_, rho) = calibration.calibrate_gaussian(half, np.ones(rounds), facts.n, facts.n)
            measure = Gaussian(math.sqrt(2 * rho))
        return Plan.fixed(
            facts,
            budget,
            (select, measure) * rounds,
            charged_at=np.repeat(np.arange(1, rounds + 1), 2),
            iterations=rounds,
            batch_size=np.full(rounds, facts.n),
            noise={"y": np.full(rounds, noise_scale(measure, 1 / facts.n))},
            resolved={"rounds": rounds},
        )

    def run(self, problem: MarginalGame, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        replicates = mechanisms.replicates
        x, y = problem.facts.uniform(replicates)
        scores, total = np.zeros_like(x), np.zeros_like(x)
        lost = np.zeros(replicates, dtype=bool)
        yield Snapshot(0, {"x": x, "y": y})
        for t in range(1, plan.iterations + 1):
            select, measure = plan.events[2 * t - 2 : 2 * t]
            answers = problem.answers(x)
            chosen = mechanisms.exponential(problem.selection_scores(answers), select)[:, 0]
            if isinstance(measure, Laplace):
                measured = mechanisms.laplace(problem.answer(chosen, "l1"), measure)
            else:
                measured = mechanisms.gaussian(problem.answer(chosen, "l2"), measure)
            lost |= ~(np.abs(measured) < DIVERGED)
            at = np.arange(replicates)
            error = np.where(lost, 0.0, measured - answers[at, chosen])
            weights = np.zeros_like(answers)
            weights[at, chosen] = error / 2
            scores = scores + problem.transposed(weights)
            x = softmax(scores)
            total = total + x
            yield Snapshot(t, {"x": x if self.iterate == "last" else total / t, "y": y}, status=divergence_status(lost))


class GaussianMarginals(planning.GameAlgorithm[MarginalGame]):
    """Release every marginal table with Gaussian noise, then fit a histogram to them by exponential weights.

    Few tables of few columns: by far the best. The noise grows with the square root of their number.
    """

    kind: ClassVar[str] = "families.mirror_descent.gaussian_marginals"
    title: ClassVar[str] = "Gaussian marginals"
    hue: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("fit_error", "Largest distance from the noisy tables", released=True, scale="log"),
    )
    fitting_rounds: int = number(512, 1, 1024, **CONTROLS["fitting_rounds"])

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        _needs_marginals(facts)
        (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), facts.n, facts.n, facts.released)
        event = Gaussian(math.sqrt(2 * rho))
        scale = noise_scale(event, math.sqrt(2 * facts.tables) / facts.n)  # two cells of each table move by 1/n
        return Plan.fixed(
            facts,
            budget,
            (event,),
            charged_at=np.ones(1, dtype=int),
            iterations=self.fitting_rounds,
            noise={"tables": planning.once(scale, self.fitting_rounds)},
            resolved={"rounds": self.fitting_rounds},
        )

    def run(self, problem: MarginalGame, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        x, y = problem.facts.uniform(mechanisms.replicates)
        yield Snapshot(0, {"x": x, "y": y}, {"fit_error": np.full(mechanisms.replicates, np.nan)})
        tables = mechanisms.gaussian(problem.marginal_tables(mechanisms.replicates), plan.events[0])
        lost = ~(np.abs(tables).max(axis=1) < DIVERGED)
        tables = np.where(lost[:, None], 0.0, tables)
        answers = problem.from_marginals(tables)
        scores, steps = np.zeros_like(x), np.full((mechanisms.replicates, 1), 1 / len(problem.marginals.tables))
        missing = answers - problem.answers(x)
        for t in range(1, plan.iterations + 1):
            # Gradient steps on ½ ‖A x - answers‖², whose curvature in the ℓ1 geometry is the number of tables, so that
            # the first step is safe. Most later ones may be far longer: a step that does not help is halved.
            tried = scores + steps * problem.transposed(missing)
            found = softmax(tried)
            left = answers - problem.answers(found)
            helps = ((left**2).sum(axis=1) < (missing**2).sum(axis=1))[:, None]
            scores, x, missing = (
                np.where(helps, new, old) for new, old in ((tried, scores), (found, x), (left, missing))
            )
            steps = np.where(helps, 1.5, 0.5) * steps
            distance = np.abs(answers - missing - tables).max(axis=1)
            yield Snapshot(t, {"x": x, "y": y}, {"fit_error": distance}, status=divergence_status(lost))


def _needs_marginals(facts: GameFacts) -> None:
    if facts.oscillation_x > 0 or facts.d_x == 1:
        raise planning.refusal("answers_marginals")
