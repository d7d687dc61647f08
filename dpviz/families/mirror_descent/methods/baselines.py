"""What vertex sampling is compared with: a noisy payoff matrix, MWEM, and noisy marginal tables."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from dpviz.checkpoints import sliced, slices
from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.methods.algorithms import frequencies, softmax
from dpviz.privacy import calibration, events, releases
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.releases import Query
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.games.games import DUALITY_GAP, Game, GameFacts, Pair
from dpviz.problems.games.marginals import MarginalGame
from dpviz.problems.games.matrix_games import MAX_ENTRIES, MatrixGameProblem
from dpviz.specification import choice, number


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
            raise UserError(
                "Best responses are drawn by players whose choices read data. For synthetic data, choose one of the "
                "methods that are made for them.",
                title="Algorithm and problem do not fit",
            )
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
            raise UserError(
                "The tuned reference chooses by the data, so it exists without privacy only. Choose a private method.",
                title="No private version",
            )
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


# Slices follow from these: per entry of a matrix, to draw, add and look at its noise; to multiply it.
SECONDS_PER_NOISE, SECONDS_PER_PRODUCT = 30e-9, 0.6e-9


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
    measured_queries: int = number(
        64, 1, 1024, label="Measured queries", scale="log", help="Rounds of MWEM, each selects and measures one query."
    )
    iterate: Literal["last", "average"] = choice(
        "last",
        label="MWEM releases",
        help="Both are private.",
        options={"last": "Last histogram", "average": "Average"},
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
        raise UserError(
            "This method answers marginal queries, so it needs the problem 'Synthetic data'.",
            title="Algorithm and problem do not fit",
        )
