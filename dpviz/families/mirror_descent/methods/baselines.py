"""Other methods, to compare vertex sampling with: best responses, a tuned reference without privacy, a noisy payoff
matrix; and for synthetic data MWEM and noisy marginal tables."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from dpviz.checkpoints import checkpointed_slices, compute_in_slices
from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning
from dpviz.families.mirror_descent.methods.algorithms import frequencies, softmax
from dpviz.privacy import calibration
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
    """Private fictitious play (Brown 1951): the players take turns, x first, and draw a vertex that is good against the
    average of the other's vertices so far.

    The averages begin at uniform strategies and are the output. The exponential mechanism draws, with the gradient at
    the averages as utilities. If there is only one player, it draws in every round, by the gradient at the average of
    its own vertices. All rows enter every draw, so all draws cost the same.
    """

    sparse: ClassVar[bool] = True

    def has_internal(self, facts: GameFacts) -> bool:
        """Return False: no secret strategies are evaluated as diagnostics, as all that are played are released."""
        return False

    def played_vertices(self, plan: Plan) -> float:
        """Return a typical number of vertices in a player's average: after half of the rounds, if two draw in turn."""
        return max(1.0, plan.iterations / 4)

    @abstractmethod
    def count(self) -> int:
        """Return the total number of vertices that are drawn."""

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan with one draw per round, all of the same cost. Raise UserError for synthetic data."""
        count = self.count()
        turns = np.array(self._turns(facts))
        if budget.private:
            # The largest multiple of ranges of 1 that the budget allows is the range η of a draw itself.
            eta = calibration.calibrate_selections(budget, ranges=np.ones(1), times=count, prior=facts.released)
            event: Event = ExpMech(eta)
        else:
            eta, event = 0.0, Laplace(math.inf)  # no noise
        return Plan.fixed(
            facts,
            budget,
            (event,) * count,
            resolved={"rounds": count},
            range_x=np.where(turns == 0, eta, 0.0),
            range_y=np.where(turns == 1, eta, 0.0),
            batch_size=np.full(count, facts.n),
        )

    def _turns(self, facts: GameFacts) -> list[int]:
        """Return the player that draws in each round (0: x, 1: y). Raise UserError if a player with a choice reads no
        data, as in synthetic data."""
        players = [p for p, d in enumerate((facts.d_x, facts.d_y)) if d > 1]
        if any((facts.oscillation_x, facts.oscillation_y)[p] == 0 for p in players):
            raise UserError(
                "Best responses are drawn by players whose choices read data. For synthetic data, choose one of the "
                "methods that are made for them.",
                title="Algorithm and problem do not fit",
            )
        return [players[t % len(players)] for t in range(self.count())]

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Draw in turn for all R replicates, and yield the averages of the drawn vertices after each draw."""
        check_facts(problem, plan.facts)
        facts = problem.facts
        # Largest change, by one row, of the difference of any two utilities: the sensitivity in the norm "range".
        changes = [2 * oscillation / facts.n for oscillation in (facts.oscillation_x, facts.oscillation_y)]
        counts = [0, 0]  # draws of each player
        averages: Pair = facts.uniform(mechanisms.replicates)
        yield Snapshot(0, {"x": averages[0], "y": averages[1]})
        for t, (player, event) in enumerate(zip(self._turns(facts), plan.events, strict=True)):
            # All replicates begin at the same point, whose gradient may be expensive: it is computed once.
            points = facts.uniform(1) if t == 0 else averages
            g_x, g_y = problem.gradients(*points)
            utilities = np.broadcast_to((-g_x, g_y)[player], averages[player].shape)  # x minimises, y maximises
            if isinstance(event, Laplace):  # no privacy: the best response itself
                best = mechanisms.laplace(Query(utilities, changes[player], "l1"), event).argmax(axis=1)
            else:
                best = mechanisms.exponential(Query(utilities, changes[player], "range"), event)[:, 0]  # the only draw
            counts[player] += 1
            step = 1 / counts[player]  # 1 at first: the first vertex replaces the uniform strategy
            average = (1 - step) * averages[player] + step * frequencies(best[:, None], averages[player].shape[1])
            averages = (average, averages[1]) if player == 0 else (averages[0], average)
            yield Snapshot(t + 1, {"x": averages[0], "y": averages[1]})


class TwoDraws(BestResponses):
    """Best responses with one draw of each player, x against uniform y, then y against the drawn x: the simplest
    private play.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.MatrixGame(), dpviz.TwoDraws(), epsilon=1).run()
    <Trace of Two draws: 20 runs, 2 iterations>
    """

    kind: ClassVar[str] = "families.mirror_descent.two_draws"
    title: ClassVar[str] = "Two draws"
    hue: ClassVar[int] = 3

    def count(self) -> int:
        return 2


class FictitiousPlay(BestResponses):
    """Best responses with many draws, whose averages can approach an equilibrium in mixed strategies.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.MatrixGame(), dpviz.FictitiousPlay(responses=4), epsilon=1).run()
    <Trace of Fictitious play: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.mirror_descent.fictitious_play"
    title: ClassVar[str] = "Fictitious play"
    hue: ClassVar[int] = 3
    dash: ClassVar[int] = 1
    responses: int = number(
        32, 2, 1024, label="Best responses", scale="log", help="Vertices drawn in all, in turn, x first."
    )

    def count(self) -> int:
        return self.responses


STEPS = 2.0 ** np.arange(-4, 8)  # step sizes of the tuned reference, as multiples of 1/L₁


class TunedReference(planning.GameAlgorithm[Game]):
    """Reference without privacy: several methods run side by side, and the best strategies that any of them has found
    so far are the output.

    The methods are optimistic mirror descent (Rakhlin, Sridharan 2013) with 12 step sizes, and predictive regret
    matching (Farina, Kroer, Sandholm 2021), which has none. In rounds 1, 2, 4, ... their last strategies and their
    averages, with weight t in round t, are compared by the duality gap on the data, player by player. That is tuning on
    the data, which no private method may do; here nothing is private. It is deterministic, so all replicates are alike.
    """

    kind: ClassVar[str] = "families.mirror_descent.reference"
    title: ClassVar[str] = "Without privacy, tuned"
    hue: ClassVar[int] = 4
    rounds: int = number(256, 1, 4096, label="Rounds of the reference", scale="log", help="Of every run that is tried.")

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan without privacy. Raise UserError if there is a budget."""
        if budget.private:
            raise UserError(
                "The tuned reference chooses by the data, so it exists without privacy only. Choose a private method.",
                title="No private version",
            )
        events, charged_at = planning.events_without_privacy(facts, self.rounds)
        return Plan.fixed(
            facts,
            budget,
            events,
            charged_at=charged_at,
            iterations=self.rounds,
            resolved={"rounds": self.rounds},
            batch_size=np.full(self.rounds, facts.n),
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all methods side by side, and yield the best strategies so far after each round."""
        check_facts(problem, plan.facts)
        facts = problem.facts
        steps = STEPS[:, None] / (facts.smoothness or facts.lipschitz)  # L₁ is 0 if gradients are constant
        start = facts.uniform(1)
        # Strategies of all methods in rows: mirror descent with each step size, and regret matching in the last row.
        strategies = facts.uniform(len(STEPS) + 1)
        # For each player an array with the same rows.
        sums = [np.zeros_like(strategy) for strategy in strategies]  # of utilities
        regrets = [np.zeros_like(strategy) for strategy in strategies]  # positive parts
        totals = [np.zeros_like(strategy) for strategy in strategies]  # of strategies, with weight t in round t
        yield Snapshot(0, dict(zip("xy", facts.uniform(mechanisms.replicates), strict=True)))
        best = _Best(problem, start)
        for t in range(1, plan.iterations + 1):
            g_x, g_y = problem.gradients(*strategies)
            updated = []
            for p, utilities in enumerate((-g_x, g_y)):
                sums[p] += utilities
                gain = utilities - (utilities * strategies[p]).sum(axis=1, keepdims=True)
                regrets[p] = np.maximum(regrets[p] + gain, 0.0)
                # Both methods expect the last gradient once more: that is what makes them optimistic. Each uses its own
                # rows only.
                descent = softmax(steps * (sums[p] + utilities)[:-1])
                matching = _proportional(regrets[p] + gain)[-1:]
                updated.append(np.vstack([descent, matching]))
                totals[p] += t * updated[p]
            strategies = (updated[0], updated[1])
            is_power_of_two = t & (t - 1) == 0
            if is_power_of_two or t == plan.iterations:
                total_weight = t * (t + 1) / 2  # 1 + 2 + … + t
                candidates = [np.vstack([strategies[p], totals[p] / total_weight]) for p in range(2)]
                best.consider(candidates)
            yield Snapshot(t, self._output(best.pair, mechanisms, plan, t))

    def _output(self, pair: Pair, mechanisms: Mechanisms, plan: Plan, t: int) -> dict[str, np.ndarray]:
        """Return the same pair of strategies (1, d) for all replicates, as the output of round t.

        The strategy of a player with a choice goes through the mechanism, as a release without noise that is charged.
        """
        events = iter(plan.events[int(np.searchsorted(plan.charged_at, t)) :])  # from the first one of round t on
        output = {}
        for name, strategy in zip("xy", pair, strict=True):
            value = np.repeat(strategy, mechanisms.replicates, axis=0)
            if value.shape[1] > 1:
                event = next(events)
                assert isinstance(event, Laplace)
                value = mechanisms.laplace(Query(value, 2.0, "l1"), event)  # two strategies differ by 2 in ℓ1 at most
            output[name] = value
        return output

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Return the bytes of the methods that run side by side, once for all replicates, and of the replicates'
        outputs."""
        # 8 bytes a number; each replicate has its output and about two copies of it.
        return (len(STEPS) + 1) * problem.replicate + 3 * 8.0 * replicates * plan.facts.d


class _Best:
    """The best strategy of each player so far.

    The gap is max_v F(x, v) - min_u F(u, y): the first part depends on x alone and the second on y alone. So candidates
    of one player are compared by the gap while the other's strategy stays at the start.

    pair : the best strategies of x and of y, (1, d) each.
    """

    def __init__(self, problem: Game, start: Pair) -> None:
        self._problem, self._start = problem, start
        self.pair = start
        (start_gap,) = self._gaps(*start)
        self._gaps_to_beat = [float(start_gap)] * 2  # of x and of y, the other's strategy at the start

    def consider(self, candidates: list[np.ndarray]) -> None:
        """Store the best of the candidates (k, d) of each player, if it is better than the best so far."""
        best = list(self.pair)
        for p, strategies in enumerate(candidates):
            other = np.repeat(self._start[1 - p], len(strategies), axis=0)
            gaps = self._gaps(strategies, other) if p == 0 else self._gaps(other, strategies)
            index = int(gaps.argmin())
            if gaps[index] < self._gaps_to_beat[p]:
                self._gaps_to_beat[p], best[p] = float(gaps[index]), strategies[[index]]
        self.pair = (best[0], best[1])

    def _gaps(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return (k,) the duality gaps of k pairs of strategies."""
        return self._problem.evaluate({"x": x, "y": y})[DUALITY_GAP.name]


def _proportional(regrets: np.ndarray) -> np.ndarray:
    """Return strategies (k, d), rows that sum to 1, in proportion to the positive parts of the regrets (k, d); uniform
    where no regret is positive."""
    positive = np.maximum(regrets, 0.0)
    total = positive.sum(axis=1, keepdims=True)
    # The inner `where` avoids a division by 0 in rows of which the result is not used.
    return np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / regrets.shape[1])


# Declared seconds per entry of a matrix, from which the size of slices follows: to draw, add and check its noise; to
# multiply it by a vector.
SECONDS_PER_NOISE, SECONDS_PER_PRODUCT = 30e-9, 0.6e-9


class NoisyPayoffs(planning.GameAlgorithm[MatrixGameProblem]):
    """Release of the whole payoff matrix with Gaussian noise. Both players then run exponential weights on the noisy
    matrix, which costs no further privacy."""

    kind: ClassVar[str] = "families.mirror_descent.noisy_payoffs"
    title: ClassVar[str] = "Noisy payoff matrix"
    hue: ClassVar[int] = 1
    dash: ClassVar[int] = 3
    matrix_rounds: int = number(
        256, 1, 1024, label="Rounds on the noisy matrix", scale="log", help="They cost no further privacy."
    )

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan with one release, in the first round. Raise UserError without a payoff matrix of moderate
        size."""
        if not facts.payoff_bound:  # 0 where rows have no payoff matrix
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
        # The ρ of one release on all rows.
        (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), m=facts.n, n=facts.n, prior=facts.released)
        event, rounds = Gaussian(math.sqrt(2 * rho)), self.matrix_rounds
        # A row moves each of the d_x d_y entries by up to 2 payoff_bound/n.
        scale = noise_scale(event, 2 * facts.payoff_bound * math.sqrt(facts.d_x * facts.d_y) / facts.n)
        # At least two strategies are counted, as the step of a player without a choice must not be 0.
        steps = [
            planning.long_step(math.log(max(d, 2)), 2 * facts.payoff_bound, rounds) for d in (facts.d_x, facts.d_y)
        ]
        return Plan.fixed(
            facts,
            budget,
            (event,),
            charged_at=np.ones(1, dtype=int),
            iterations=rounds,
            noise={"payoffs": planning.in_first_round(scale, rounds)},
            resolved={"rounds": rounds},
            step_size_x=np.full(rounds, steps[0]),
            step_size_y=np.full(rounds, steps[1]),
        )

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Return the bytes of a run, with a noisy matrix for every replicate, and another one while it is drawn."""
        facts = GameFacts.of(plan.facts)
        # 8 bytes an entry for each of the two, and some more for the check of the noise.
        return super().memory(plan, replicates, problem) + 20.0 * (replicates * facts.d_x * facts.d_y)

    def run(self, problem: MatrixGameProblem, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Release the noisy matrices of all R replicates, solve them, and yield the average strategies after each
        round."""
        check_facts(problem, plan.facts)
        x, y = problem.facts.uniform(mechanisms.replicates)
        scores_x, scores_y = np.zeros_like(x), np.zeros_like(y)
        total_x, total_y = np.zeros_like(x), np.zeros_like(y)
        yield Snapshot(0, {"x": x, "y": y})
        query = problem.payoffs(mechanisms.replicates)
        payoffs = np.empty(query.value.shape)  # (R, d_x, d_y)
        diverged = np.zeros(mechanisms.replicates, dtype=bool)  # replicates whose noise is beyond all bounds
        replicate_slices = checkpointed_slices(mechanisms.replicates, payoffs[0].size * SECONDS_PER_NOISE)
        for part, batch in mechanisms.batch(plan.events[0]).split(replicate_slices):  # all rows, for some replicates
            payoffs[part] = batch.gaussian(query._replace(value=query.value[part]))
            diverged[part] = ~(np.abs(payoffs[part]).max(axis=(1, 2)) < DIVERGED)  # "not below" is true of NaN, too
        payoffs[diverged] = 0.0
        status = divergence_status(diverged)
        seconds = problem.facts.d_x * problem.facts.d_y * SECONDS_PER_PRODUCT  # of one replicate's product
        for t in range(1, plan.iterations + 1):
            total_x, total_y = total_x + x, total_y + y
            payoffs_of_x = compute_in_slices(_payoffs_of_x, seconds, payoffs, y)
            payoffs_of_y = compute_in_slices(_payoffs_of_y, seconds, payoffs, x)
            scores_x = scores_x - plan.schedule["step_size_x"][t - 1] * payoffs_of_x
            scores_y = scores_y + plan.schedule["step_size_y"][t - 1] * payoffs_of_y
            x, y = softmax(scores_x), softmax(scores_y)
            yield Snapshot(t, {"x": total_x / t, "y": total_y / t}, status=status)


def _payoffs_of_x(payoffs: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return (R, d_x) A y, the payoffs of x's strategies against y, for each replicate's matrix A (R, d_x, d_y)."""
    return np.einsum("rjk,rk->rj", payoffs, y)


def _payoffs_of_y(payoffs: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return (R, d_y) Aᵀx, the payoffs of y's strategies against x, for each replicate's matrix A (R, d_x, d_y)."""
    return np.einsum("rjk,rj->rk", payoffs, x)


class MultiplicativeWeights(planning.GameAlgorithm[MarginalGame]):
    """MWEM (Hardt, Ligett, McSherry 2012): each round selects a query that the histogram answers badly, by the
    exponential mechanism, measures it with noise, and corrects the histogram by multiplicative weights."""

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
        """Return a plan that spends one half of the budget on selections and the other on measurements: halves of ε
        under pure ε, where noise is Laplace, else of ρ or μ², where it is Gaussian."""
        _require_marginals(facts)
        planning.refuse_without_privacy(budget, self.title)
        rounds = self.measured_queries
        half = budget.share(0.5, facts.released)  # of what earlier releases leave, so they are not subtracted again
        # The largest multiple of ranges of 1 that the budget allows is the range η of a selection itself.
        select = ExpMech(calibration.calibrate_selections(half, ranges=np.ones(1), times=rounds))
        if budget.pure:
            measure: Event = Laplace(select.eta)  # the same ε as a selection
        else:
            # All rounds cost the same.
            rho = calibration.calibrate_gaussian(half, np.ones(rounds), m=facts.n, n=facts.n)[0]
            measure = Gaussian(math.sqrt(2 * rho))
        return Plan.fixed(
            facts,
            budget,
            (select, measure) * rounds,
            charged_at=np.repeat(np.arange(1, rounds + 1), 2),
            iterations=rounds,
            batch_size=np.full(rounds, facts.n),
            noise={"y": np.full(rounds, noise_scale(measure, sensitivity=1 / facts.n))},  # an answer is a share of rows
            resolved={"rounds": rounds},
        )

    def run(self, problem: MarginalGame, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Select, measure and correct in each round for all R replicates, and yield the histogram x after it."""
        check_facts(problem, plan.facts)
        replicates = mechanisms.replicates
        x, y = problem.facts.uniform(replicates)
        scores, total = np.zeros_like(x), np.zeros_like(x)
        diverged = np.zeros(replicates, dtype=bool)  # replicates whose noise was beyond all bounds
        yield Snapshot(0, {"x": x, "y": y})
        for t in range(1, plan.iterations + 1):
            select, measure = plan.events[2 * t - 2 : 2 * t]  # of round t, which has two events
            answers = problem.answers(x)
            selected = mechanisms.exponential(problem.selection_scores(answers), select)[:, 0]  # (R,) queries
            if isinstance(measure, Laplace):
                measured = mechanisms.laplace(problem.answer(selected, "l1"), measure)
            else:
                measured = mechanisms.gaussian(problem.answer(selected, "l2"), measure)
            diverged |= ~(np.abs(measured) < DIVERGED)
            indices = np.arange(replicates)  # with `selected` the index of one entry in each replicate's row
            error = np.where(diverged, 0.0, measured - answers[indices, selected])
            correction = np.zeros_like(answers)
            correction[indices, selected] = error / 2  # MWEM's step size
            scores = scores + problem.transposed(correction)  # adds it in the cells that the query counts
            x = softmax(scores)
            total = total + x
            yield Snapshot(
                t, {"x": x if self.iterate == "last" else total / t, "y": y}, status=divergence_status(diverged)
            )


class GaussianMarginals(planning.GameAlgorithm[MarginalGame]):
    """Release of every marginal table with Gaussian noise; a histogram is then fitted to the noisy tables by
    exponential weights.

    This is by far the best method for few tables of few columns. The noise grows with the square root of their number.
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
        """Return the plan with one release of all tables, in the first round of the fit."""
        _require_marginals(facts)
        # The ρ of one release on all rows.
        (rho,) = calibration.calibrate_gaussian(budget, np.ones(1), m=facts.n, n=facts.n, prior=facts.released)
        event = Gaussian(math.sqrt(2 * rho))
        scale = noise_scale(event, math.sqrt(2 * facts.tables) / facts.n)  # two cells of each table move by 1/n
        return Plan.fixed(
            facts,
            budget,
            (event,),
            charged_at=np.ones(1, dtype=int),
            iterations=self.fitting_rounds,
            noise={"tables": planning.in_first_round(scale, self.fitting_rounds)},
            resolved={"rounds": self.fitting_rounds},
        )

    def run(self, problem: MarginalGame, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Release the noisy tables of all R replicates, and yield the fitted histogram x after each round of the
        fit."""
        check_facts(problem, plan.facts)
        x, y = problem.facts.uniform(mechanisms.replicates)
        yield Snapshot(0, {"x": x, "y": y}, {"fit_error": np.full(mechanisms.replicates, np.nan)})
        tables = mechanisms.gaussian(problem.marginal_tables(mechanisms.replicates), plan.events[0])  # (R, cells)
        diverged = ~(np.abs(tables).max(axis=1) < DIVERGED)  # replicates whose noise is beyond all bounds
        tables = np.where(diverged[:, None], 0.0, tables)
        answers = problem.nearest_distributions(tables)  # (R, cells)
        scores, steps = np.zeros_like(x), np.full((mechanisms.replicates, 1), 1 / len(problem.marginals.tables))
        residuals = answers - problem.answers(x)  # `problem.answers(x)` is A x, the tables of the histogram x
        for t in range(1, plan.iterations + 1):
            # Gradient steps on ½ ‖A x - answers‖². Its curvature in the ℓ1 geometry is the number of tables, so the
            # first step size is safe. Most later steps may be far longer. A heuristic: after a step that helps, the
            # step size grows by half; a step that does not help is undone, and the step size is halved.
            new_scores = scores + steps * problem.transposed(residuals)
            new_x = softmax(new_scores)
            new_residuals = answers - problem.answers(new_x)
            helps = ((new_residuals**2).sum(axis=1) < (residuals**2).sum(axis=1))[:, None]
            scores, x = np.where(helps, new_scores, scores), np.where(helps, new_x, x)
            residuals = np.where(helps, new_residuals, residuals)
            steps = np.where(helps, 1.5, 0.5) * steps
            distance = np.abs(answers - residuals - tables).max(axis=1)  # answers - residuals are those of x
            yield Snapshot(t, {"x": x, "y": y}, {"fit_error": distance}, status=divergence_status(diverged))


def _require_marginals(facts: GameFacts) -> None:
    """Raise UserError unless the problem is synthetic data for marginal queries, the only one where x has a choice and
    reads no data."""
    if facts.oscillation_x > 0 or facts.d_x == 1:
        raise UserError(
            "This method answers marginal queries, so it needs the problem 'Synthetic data'.",
            title="Algorithm and problem do not fit",
        )
