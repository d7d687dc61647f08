"""What vertex sampling is compared with: Gaussian gradients, a noisy payoff matrix, MWEM, and noisy marginal tables."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.algorithms import BATCHES, softmax
from dpviz.pauses import between, sliced, slices
from dpviz.privacy import calibration
from dpviz.privacy.batches import Batch
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Parallel, Seq
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.queries import Query
from dpviz.problems.base import Cost, Metric, check_facts
from dpviz.problems.games import Game, GameFacts, Pair
from dpviz.problems.marginals import MarginalGame
from dpviz.problems.matrix_games import MAX_ENTRIES, MatrixGameProblem
from dpviz.problems.simplex import project
from dpviz.specification import choice, number

# Per entry of a matrix: to draw, add and look at its noise; to multiply it.
SECONDS_PER_NOISE, SECONDS_PER_PRODUCT = 30e-9, 0.6e-9


class NoisyGradients(planning.GameAlgorithm[Game]):
    """What gradient methods with Gaussian noise share: both players' gradients are released, averages are output."""

    gradient_rounds: int | None = number(
        None,
        1,
        1024,
        label="Rounds of noisy gradients",
        symbol="T",
        help="Noisy gradients per player. Empty: by how the noise compares with the signal, between 4 and 256.",
    )
    batching: planning.Batching = choice(
        "full", BATCHES, label="Rows per round", help="All rows in every round, or n/T rows of its own for each round."
    )

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
        share_x, share_y = planning.shares(facts, 0.5)
        used = rounds if self.batching == "full" else 1  # every row is in one block only
        rho = calibration.calibrate_gaussian(budget, np.ones(used), facts.n, facts.n, facts.released)[0]
        paid = [Gaussian(math.sqrt(2 * share * rho)) for share in (share_x, share_y) if share]
        event: Event = paid[0] if len(paid) == 1 else Seq(tuple(paid))
        changes = (facts.change_x * math.sqrt(facts.d_x) / batch, facts.change_y * math.sqrt(facts.d_y) / batch)
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
            resolved={"rounds": rounds, "step_size_x": steps[0], "step_size_y": steps[1]},
            step_size_x=np.full(rounds, steps[0]),
            step_size_y=np.full(rounds, steps[1]),
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        facts = problem.facts
        strategies = facts.uniform(mechanisms.replicates)
        totals: Pair = (np.zeros_like(strategies[0]), np.zeros_like(strategies[1]))
        sums: Pair = (np.zeros_like(strategies[0]), np.zeros_like(strategies[1]))
        pays = [share > 0 for share in planning.shares(facts, 0.5)]
        lost = np.zeros(mechanisms.replicates, dtype=bool)
        latest = Snapshot(0, {"x": strategies[0], "y": strategies[1]})
        yield latest
        blocks = iter(mechanisms.blocks(plan.events[0], facts.n)) if isinstance(plan.events[0], Parallel) else None
        for t in range(1, plan.iterations + 1):
            batch = next(blocks) if blocks is not None else mechanisms.batch(plan.events[t - 1])
            queries = yield from between(problem.noisy_gradients_in_parts(*strategies, batch), latest)
            gradients = self._released(queries, batch, pays)
            steps = (plan.schedule["step_size_x"][t - 1], plan.schedule["step_size_y"][t - 1])
            totals = (totals[0] + strategies[0], totals[1] + strategies[1])
            lost |= ~(np.isfinite(gradients[0]).all(axis=1) & np.isfinite(gradients[1]).all(axis=1))
            lost |= (np.abs(gradients[0]).max(axis=1) > DIVERGED) | (np.abs(gradients[1]).max(axis=1) > DIVERGED)
            # What broke is frozen where it was, and marked.
            gradients = tuple(np.where(lost[:, None], 0.0, g) for g in gradients)  # type: ignore[assignment]
            strategies, sums = self.advance(strategies, sums, (-gradients[0], gradients[1]), steps)
            latest = Snapshot(
                t,
                {"x": totals[0] / t, "y": totals[1] / t},
                status=divergence_status(lost),
            )
            yield latest

    @staticmethod
    def _released(queries: tuple[Query, Query], batch: Batch, pays: list[bool]) -> Pair:
        found = [batch.gaussian(query) if noisy else query.value for query, noisy in zip(queries, pays, strict=True)]
        return found[0], found[1]


class EuclideanGradient(NoisyGradients):
    """DP-SGDA: noisy gradient descent-ascent, x ← Π_Δ(x - λ g̃), Π the Euclidean projection (Boob, Guzmán 2023)."""

    kind: ClassVar[str] = "families.mirror_descent.euclidean_gradient"
    title: ClassVar[str] = "DP-SGDA (Euclidean)"
    hue: ClassVar[int] = 1
    beside: ClassVar[planning.Beside] = planning.Beside(8.4e-5, 2.4e-6, 3e-8)
    euclidean_step: float = number(
        10.0,
        0.3,
        300.0,
        label="Euclidean step",
        symbol="c",
        scale="log",
        help="Step c √2/√(T (1 + d σ²)); 1 by theory.",
    )

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
    beside: ClassVar[planning.Beside] = planning.Beside(6e-5, 3e-6, 1.8e-8)
    entropic_step: float = number(
        30.0,
        0.3,
        100.0,
        label="Entropic step",
        symbol="c",
        scale="log",
        help="Step c √(ln d/(T (1 + σ²))); 1 by theory.",
    )

    def balanced_rounds(self, d: int, signal: float) -> float:
        return 2 * signal**2 / d

    def step_size(self, d: int, rounds: int, noise: float) -> float:
        return self.entropic_step * math.sqrt(max(math.log(d), 1e-12) / (rounds * (1 + noise**2)))

    def advance(self, strategies: Pair, sums: Pair, gradients: Pair, steps: Pair) -> tuple[Pair, Pair]:
        new = tuple(total + step * g for total, g, step in zip(sums, gradients, steps, strict=True))
        return (softmax(new[0]), softmax(new[1])), (new[0], new[1])


class NoisyPayoffs(planning.GameAlgorithm[MatrixGameProblem]):
    """Release the whole payoff matrix with Gaussian noise, and solve the noisy game by exponential weights."""

    kind: ClassVar[str] = "families.mirror_descent.noisy_payoffs"
    title: ClassVar[str] = "Noisy payoff matrix"
    hue: ClassVar[int] = 1
    dash: ClassVar[int] = 3
    matrix_rounds: int = number(
        256, 1, 1024, label="Rounds on the noisy matrix", scale="log", help="They cost no further privacy."
    )

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        if not facts.payoff_bound:
            raise UserError(
                "Only a bilinear game has a payoff matrix to release. Choose 'Matrix game' or 'Strategies against "
                "groups'.",
                title="Algorithm and problem do not fit",
            )
        if facts.d_x * facts.d_y > MAX_ENTRIES:
            raise UserError(
                f"A payoff matrix of {facts.d_x:,} x {facts.d_y:,} entries is too large to release. Choose fewer "
                "strategies.",
                title="Too many entries",
            )
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

    def estimated_seconds(self, plan: Plan, replicates: int, cost: Cost) -> float:
        """Every replicate has a noisy matrix of its own."""
        facts = plan.facts
        assert isinstance(facts, GameFacts)
        each = SECONDS_PER_NOISE + 2 * plan.iterations * SECONDS_PER_PRODUCT
        beside = replicates * facts.d * self.beside.vertex + self.beside.round
        return replicates * facts.d_x * facts.d_y * each + plan.iterations * beside

    def estimated_bytes(self, plan: Plan, replicates: int, cost: Cost) -> float:
        """Every replicate has a noisy matrix of its own, and needs another one while it is drawn."""
        facts = plan.facts
        assert isinstance(facts, GameFacts)
        return super().estimated_bytes(plan, replicates, cost) + 20.0 * replicates * facts.d_x * facts.d_y

    def run(self, problem: MatrixGameProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        x, y = problem.facts.uniform(mechanisms.replicates)
        scores_x, scores_y, total_x, total_y = (np.zeros_like(v) for v in (x, y, x, y))
        latest = Snapshot(0, {"x": x, "y": y})
        yield latest
        query = yield from between(problem.payoffs_in_parts(mechanisms.replicates), latest)
        payoffs, lost = np.empty(query.value.shape), np.zeros(mechanisms.replicates, dtype=bool)
        parts = slices(mechanisms.replicates, payoffs[0].size * SECONDS_PER_NOISE)
        for part, own in mechanisms.batch(plan.events[0]).split(parts):
            if part.start:
                yield latest
            payoffs[part] = own.gaussian(query._replace(value=query.value[part]))
            lost[part] = ~(np.abs(payoffs[part]).max(axis=(1, 2)) < DIVERGED)
        payoffs[lost] = 0.0
        status, seconds = divergence_status(lost), problem.facts.d_x * problem.facts.d_y * SECONDS_PER_PRODUCT
        for t in range(1, plan.iterations + 1):
            total_x, total_y = total_x + x, total_y + y
            against_y = yield from between(sliced(_against_y, seconds, payoffs, y), latest)
            against_x = yield from between(sliced(_against_x, seconds, payoffs, x), latest)
            scores_x = scores_x - plan.schedule["step_size_x"][t - 1] * against_y
            scores_y = scores_y + plan.schedule["step_size_y"][t - 1] * against_x
            x, y = softmax(scores_x), softmax(scores_y)
            latest = Snapshot(t, {"x": total_x / t, "y": total_y / t}, status=status)
            yield latest


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
    beside: ClassVar[planning.Beside] = planning.Beside(1.2e-4, 9.6e-6, 7.2e-9)
    measured_queries: int = number(
        64, 1, 1024, label="Measured queries", scale="log", help="Rounds of MWEM, each selects and measures one query."
    )
    iterate: Literal["last", "average"] = choice(
        "last", {"last": "Last histogram", "average": "Average"}, label="MWEM releases", help="Both are private."
    )

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
        latest = Snapshot(0, {"x": x, "y": y})
        yield latest
        for t in range(1, plan.iterations + 1):
            select, measure = plan.events[2 * t - 2 : 2 * t]
            answers = yield from between(problem.answers_in_parts(x), latest)
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
            scores = scores + (yield from between(problem.transposed_in_parts(weights), latest))
            x = softmax(scores)
            total = total + x
            latest = Snapshot(
                t,
                {"x": x if self.iterate == "last" else total / t, "y": y},
                status=divergence_status(lost),
            )
            yield latest


class GaussianMarginals(planning.GameAlgorithm[MarginalGame]):
    """Release every marginal table with Gaussian noise, then fit a histogram to them by exponential weights.

    Few tables of few columns: by far the best. The noise grows with the square root of their number.
    """

    kind: ClassVar[str] = "families.mirror_descent.gaussian_marginals"
    title: ClassVar[str] = "Gaussian marginals"
    hue: ClassVar[int] = 2
    beside: ClassVar[planning.Beside] = planning.Beside(7.2e-5, 1.2e-6, 6e-9)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("fit_error", "Largest distance from the noisy tables", released=True, scale="log"),
    )
    fitting_rounds: int = number(
        512, 1, 1024, label="Rounds of fitting", scale="log", help="To fit a histogram to the tables; no privacy cost."
    )

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
        latest = Snapshot(0, {"x": x, "y": y}, {"fit_error": np.full(mechanisms.replicates, np.nan)})
        yield latest
        tables = mechanisms.gaussian(problem.marginal_tables(mechanisms.replicates), plan.events[0])
        lost = ~(np.abs(tables).max(axis=1) < DIVERGED)
        tables = np.where(lost[:, None], 0.0, tables)
        answers = yield from between(problem.from_marginals_in_parts(tables), latest)
        scores, steps = np.zeros_like(x), np.full((mechanisms.replicates, 1), 1 / len(problem.marginals.tables))
        missing = answers - (yield from between(problem.answers_in_parts(x), latest))
        for t in range(1, plan.iterations + 1):
            # Gradient steps on ½ ‖A x - answers‖², whose curvature in the ℓ1 geometry is the number of tables, so that
            # the first step is safe. Most later ones may be far longer: a step that does not help is halved.
            moved = yield from between(problem.transposed_in_parts(missing), latest)
            tried = scores + steps * moved
            found = softmax(tried)
            left = answers - (yield from between(problem.answers_in_parts(found), latest))
            helps = ((left**2).sum(axis=1) < (missing**2).sum(axis=1))[:, None]
            scores, x, missing = (
                np.where(helps, new, old) for new, old in ((tried, scores), (found, x), (left, missing))
            )
            steps = np.where(helps, 1.5, 0.5) * steps
            distance = np.abs(answers - missing - tables).max(axis=1)
            latest = Snapshot(t, {"x": x, "y": y}, {"fit_error": distance}, status=divergence_status(lost))
            yield latest


def _needs_marginals(facts: GameFacts) -> None:
    if facts.oscillation_x > 0 or facts.d_x == 1:
        raise UserError(
            "This method answers marginal queries, so it needs the problem 'Synthetic data'.",
            title="Algorithm and problem do not fit",
        )
