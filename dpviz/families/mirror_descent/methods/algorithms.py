"""Private mirror descent for saddle points, by sampling vertices (González, Guzmán, Paquette 2024, arXiv 2403.02912).

Both players run exponential weights: the score of a vertex is the running sum of its coordinate of -∇ₓF for x and of
∇ᵧF for y, and its weight is proportional to exp(τ × score), with the step size τ. Only vertices drawn from these
weights are ever released, and such a draw is the exponential mechanism: playing the game pays for the privacy.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from scipy.special import ndtri

from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning, rates, theory
from dpviz.privacy.budgets import ApproximateDP, Budget
from dpviz.privacy.events import Event, Gaussian, Laplace
from dpviz.privacy.ledger import FixedEvents
from dpviz.privacy.mechanisms import Mechanisms, noise_scale
from dpviz.privacy.releases import Query
from dpviz.problems.base import Metric, check_facts
from dpviz.problems.games.games import Game, GameFacts, GradientSums, Pair
from dpviz.specification import choice, number

ACCOUNTING = {"tight": "Bounded range", "paper": "As in the paper"}
BATCHES = {"full": "All rows", "single": "Single pass"}
BATCHING = "All rows in every round, or n/T rows of its own for each round."
ROUNDS_END = "the rounds that are set end at"
DRAWS_Y = "Vertices that y draws per round. Empty: as many as x. Whose own gradient is linear needs only one."


def softmax(scores: np.ndarray) -> np.ndarray:
    """Return rows of positive weights ∝ e^score that sum to 1; (..., d)."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def frequencies(indices: np.ndarray, d: int) -> np.ndarray:
    """Return (R, d) the average of K drawn vertices: the share of each of the d vertices among the draws.

    indices : (R, K) of the drawn vertices; -1 fills the places of a replicate that drew fewer.
    """
    replicates = len(indices)
    cells = (indices + d * np.arange(replicates)[:, None])[indices >= 0]  # one count for all replicates, d cells each
    counts = np.bincount(cells, minlength=replicates * d).reshape(replicates, d)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)  # not 0/0 for a replicate that drew none


class VertexSampling(planning.GameAlgorithm[Game]):
    """Stochastic mirror descent with vertex sampling (Algorithm 1): x_{t+1} ∝ x_t exp(-τ g_t).

    The gradient g_t is that at the averages of K vertices that each player draws from its weights x_t, y_t. The output
    is the average of all drawn vertices. Without privacy the weights themselves are played.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.MatrixGame(), dpviz.VertexSampling(iterations=4), epsilon=1).run()
    <Trace of Vertex sampling: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.mirror_descent.vertex_sampling"
    title: ClassVar[str] = "Vertex sampling"
    sparse: ClassVar[bool] = True
    iterations: int = number(
        64, 2, 1024, label="Steps", symbol="T", scale="log", help="Rounds of the game, or the most that there may be."
    )
    draws: int = number(1, 1, 64, label="Draws", symbol="K", scale="log", help=planning.DRAWS)
    draws_y: int | None = number(None, 1, 64, label="Draws of y", symbol="Kᵧ", help=DRAWS_Y, limits=(1, 64_000))
    batching: planning.Batching = choice("full", BATCHES, label="Rows per round", help=BATCHING)
    accounting: planning.Accounting = choice(
        "tight",
        ACCOUNTING,
        label="Accounting",
        help="What a draw costs: its bounded range, or the paper's advanced composition, which wastes a factor of 4-5.",
    )
    parameters: Literal["own", "practice", "bound", "bilinear", "second_order", "first_order", "synthetic"] = choice(
        "own",
        label="Parameters",
        help="Who chooses rounds and draws. The theorems are stated for (ε, δ); T never exceeds the rounds set above.",
        options={
            "own": "T and K as set",
            "practice": "A quarter of the bound's T",
            "bound": "Best T by the bound",
            "bilinear": "Theorem 4.1, quadratic",
            "second_order": "Theorem 4.1, L₂ > 0",
            "first_order": "Theorem 4.2",
            "synthetic": "Theorem G.1",
        },
    )
    share_x: float = planning.SHARE_X
    split: planning.Split = planning.SPLIT
    relative_step: float = planning.RELATIVE_STEP
    output: Literal["reuse", "fresh"] = choice(
        "reuse",
        label="Output",
        help="Average of the vertices that were played, or of as many fresh ones, which double the draws (erratum E1).",
        options={"reuse": "Played vertices", "fresh": "Fresh draws"},
    )

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of its lines, as indices. The settings that change the method's name change the dash, too."""
        if self.as_in_the_paper:
            return self.hue, 3
        if self.output == "fresh":
            return self.hue, 2
        return self.hue, int(self.batching == "single")

    # ---------------------------------------------------------------------------------------------------------- plan

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan with the largest step sizes for which the budget pays, T rounds and K draws per player and
        round."""
        rounds, draws, notes = self.rounds_and_draws(facts, budget)
        batch = planning.batch_size(facts, rounds, self.batching)
        row_weights = planning.row_weights(facts, rounds, self.batching)
        split = self.shares(facts, draws, pure=budget.pure)
        factor = 2 if self.output == "fresh" else 1  # fresh output takes as many draws as the game
        total_draws = draws[0] * factor, draws[1] * factor  # of x and of y, per round
        max_steps = [math.inf, math.inf]  # of x and y; privacy is no limit for a player that pays nothing
        if budget.private:
            caps = planning.private_steps(
                facts, budget, row_weights, draws=total_draws, split=split, accounting=self.accounting, rounds=rounds
            )
            max_steps = [cap if share else math.inf for cap, share in zip(caps, split, strict=True)]
        steps = [self.step_size(facts, rounds, p, self.relative_step * largest) for p, largest in enumerate(max_steps)]
        # Bounded range η = 2 osc τ w of a draw in each round, with w the largest weight of a row (THEORY.md, 4.1).
        ranges = tuple(
            2 * oscillation * step * row_weights if budget.private and share else np.zeros(rounds)
            for oscillation, step, share in zip((facts.oscillation_x, facts.oscillation_y), steps, split, strict=True)
        )
        if budget.private:
            events, charged_at = planning.round_events(ranges[0], ranges[1], total_draws)
        else:
            events, charged_at = planning.events_without_privacy(facts, rounds)
        return Plan.fixed(
            facts,
            budget,
            events,
            charged_at=charged_at,
            iterations=rounds,
            resolved={
                "rounds": rounds,
                "draws": draws[0],
                "draws_y": draws[1],
                "share_x": split[0],
                "step_size_x": steps[0],
                "step_size_y": steps[1],
            },
            notes=notes,
            step_size_x=np.full(rounds, steps[0]),
            step_size_y=np.full(rounds, steps[1]),
            range_x=ranges[0],
            range_y=ranges[1],
            row_weight=row_weights,
            batch_size=np.full(rounds, batch),
        )

    def shares(self, facts: GameFacts, draws: tuple[int, int], pure: bool) -> tuple[float, float]:
        """Return the shares of the budget (in ρ) of x and y: as set, or those with the smallest bound on the gap.

        draws : (K_x, K_y). pure : True for a budget in pure ε.
        """
        return planning.shares(facts, self.own_share, draws, pure=pure)

    @property
    def own_share(self) -> float | None:
        """Share of player x as set; None if the split with the smallest bound is to be used."""
        return None if self.split == "bound" else self.share_x

    @property
    def draws_per_player(self) -> tuple[int, int]:
        """Draws (K_x, K_y) per round, as set."""
        return self.draws, self.draws if self.draws_y is None else self.draws_y

    def rounds_and_draws(self, facts: GameFacts, budget: Budget) -> tuple[int, tuple[int, int], tuple[str, ...]]:
        """Return the rounds T, the draws (K_x, K_y) per round, and notes.

        T and K are those of the setting `parameters`: as set, by the bound, or by a theorem. There is a note for each
        that the bound or the theorem asks to be larger than the settings allow.
        """
        set_draws = self.draws_per_player
        if self.parameters == "own" or not budget.private:
            return self.iterations, set_draws, ()

        if self.parameters in ("practice", "bound"):
            split = tuple(share for share in self.shares(facts, set_draws, pure=budget.pure) if share)
            paying = tuple(player for player in planning.players(facts, set_draws) if player.oscillation > 0)
            batching: theory.Batching = "full_batch" if self.batching == "full" else "single_pass"
            optimum = theory.closed_form_optimum(paying, split, budget.about_rho(budget.amount), facts.n, batching)
            # The bound is smallest at √3 T*, the `optimum.rounds`; in practice a quarter of T* is better. T* is where
            # the two terms of the bound that depend on T are equal.
            best = optimum.practical_rounds if self.parameters == "practice" else round(optimum.rounds)
            best = min(max(2, best), facts.n)  # 2: the smallest T as a setting; a single pass has at most n rounds
            rounds = min(best, self.iterations)
            notes = planning.limit_note("The bound", "T", wanted=best, allowed=rounds, limit=ROUNDS_END)
            return rounds, set_draws, notes

        setting = self.theorem_setting(facts, planning.remaining_approximate(budget, "The theorem", facts))
        assert setting.rounds is not None and setting.draws is not None
        rounds, draws = min(setting.rounds, self.iterations), min(setting.draws, planning.MAX_DRAWS)
        notes = planning.limit_note(setting.theorem, "T", wanted=setting.rounds, allowed=rounds, limit=ROUNDS_END)
        notes += planning.limit_note(setting.theorem, "K", wanted=setting.draws, allowed=draws, limit="draws end at")
        return rounds, (draws, draws), notes

    def theorem_setting(self, facts: GameFacts, budget: ApproximateDP) -> rates.TheoremParameters:
        """Return the setting of the theorem that `parameters` names, which has T and K. Raise UserError if the theorem
        is about another problem."""
        if self.parameters == "synthetic":
            raise UserError(
                "Theorem G.1 is about synthetic data. Choose Theorem 4.1 or 4.2, or set T and K yourself.",
                title="Algorithm and problem do not fit",
            )
        return rates.sampling_setting(planning.sizes(facts, budget), self.parameters)  # type: ignore[arg-type]

    def step_size(self, facts: GameFacts, rounds: int, player: int, largest: float) -> float:
        """Return the step size of a player (0: x, 1: y): `largest`, which the budget allows, or, if that is infinite
        because privacy is no limit, `planning.free_step`."""
        return largest if largest < math.inf else planning.free_step(facts, rounds, player)

    # ----------------------------------------------------------------------------------------------------------- run

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Play the rounds for all R replicates, and yield a snapshot after each, with the averages of the drawn
        vertices."""
        check_facts(problem, plan.facts)
        facts, draws = problem.facts, (int(plan.resolved["draws"]), int(plan.resolved["draws_y"]))
        batch = int(plan.rows[0])  # rows per round, the same in all rounds
        # Sums of the gradients so far. Their queries, `utilities_x` and `utilities_y`, take a row's weight, which gives
        # the sensitivity.
        scores, events = GradientSums(problem, mechanisms.replicates), iter(plan.events)
        start = facts.uniform(mechanisms.replicates)
        # Sums over the rounds, of x and of y: of the drawn vertices, which are released, and of the secret weights.
        released, hidden = [np.zeros_like(v) for v in start], [np.zeros_like(v) for v in start]
        with_internal = self.has_internal(facts)
        yield _snapshot(0, start, start, with_internal)
        for t in range(1, plan.iterations + 1):
            row_weight = float(plan.schedule["row_weight"][t - 1])
            queries = (scores.utilities_x(row_weight), scores.utilities_y(row_weight))
            played = []  # strategies (R, d) of x and of y
            for p, (query, name) in enumerate(zip(queries, "xy", strict=True)):
                logits = plan.schedule[f"step_size_{name}"][t - 1] * query.value
                # The plan has an event for each player and round whose draws read data, and without privacy one for
                # each player with a choice and round, in this order.
                is_charged = plan.schedule[f"range_{name}"][t - 1] > 0 or not plan.budget.private
                event = next(events) if is_charged and query.value.shape[1] > 1 else None
                strategy = softmax(logits)
                vertices, output = self._play(mechanisms, query, logits, strategy, event, draws[p])
                played.append(vertices)
                released[p] += output
                hidden[p] += strategy
            rows = None if batch == facts.n else slice((t - 1) * batch, t * batch)
            scores.add([(1.0, played[0], played[1])], rows)  # 1.0 times the gradient at the played strategies
            yield _snapshot(t, (released[0] / t, released[1] / t), (hidden[0] / t, hidden[1] / t), with_internal)

    def _play(
        self,
        mechanisms: Mechanisms,
        query: Query,
        logits: np.ndarray,
        strategy: np.ndarray,
        event: Event | None,
        draws: int,
    ) -> Pair:
        """Return two strategies (R, d) of one player: the one that is played, at which the next gradient is taken, and
        the one that enters the output. Both are averages of `draws` vertices, or the weights themselves where these are
        private anyway or there is no privacy.

        query : the player's scores. logits, strategy : (R, d) logarithms of the weights up to a constant, and weights
        that sum to 1. event : pays for the draws; None if they are free.
        """
        d = strategy.shape[1]
        if self._plays_all(query, event):
            return strategy, strategy
        if isinstance(event, Laplace):  # no privacy: the weights themselves, released without noise
            weights = mechanisms.laplace(Query(strategy, 2.0, "l1"), event)  # two strategies differ by 2 in ℓ1 at most
            return weights, weights
        if event is None:  # in the first round, when no row is in the scores, and for a player that needs no data
            indices = mechanisms.sample(logits, draws * (2 if self.output == "fresh" else 1))
        else:
            # An event of range η draws as often as it says, with weights ∝ exp(η score/sensitivity): as η = 2 osc τ w
            # and the sensitivity is 2 osc w, these are exp(logits).
            indices = mechanisms.exponential(query, event)
        # If the output is drawn afresh, the second half of the draws is for it; else these two are the same draws.
        return frequencies(indices[:, :draws], d), frequencies(indices[:, -draws:], d)

    def _plays_all(self, query: Query, event: Event | None) -> bool:
        """Return True if a player plays its weights themselves and draws no vertices: never here, only in
        `SyntheticData`. Arguments as in `_play`."""
        return False


def _snapshot(t: int, released: Pair, hidden: Pair, with_internal: bool) -> Snapshot:
    """Return the snapshot after round t. released, hidden : averages of the drawn vertices and of the secret weights;
    the latter are part of the snapshot, for diagnostics, if `with_internal`."""
    internal = {"x": hidden[0], "y": hidden[1]} if with_internal else {}
    return Snapshot(t, {"x": released[0], "y": released[1]}, internal=internal)


class SyntheticData(VertexSampling):
    """Statistical synthetic data (Algorithm 5): y draws queries that the synthetic data answer badly, x draws rows that
    improve these answers.

    x is a distribution over all possible rows, a histogram. Its gradients depend on y's draws only, which are private,
    so x's weights and its drawn rows are private at no further cost.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.MarginalQueries(), dpviz.SyntheticData(iterations=4), epsilon=1).run()
    <Trace of Synthetic data: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.mirror_descent.synthetic_data"
    title: ClassVar[str] = "Synthetic data"
    iterations: int = number(
        256, 2, 1024, label="Steps", symbol="T", scale="log", help="Rounds of the game, or the most that there may be."
    )
    release: Literal["histogram", "rows"] = choice(
        "histogram",
        label="Synthetic output",
        help="The average of x's weights (Rao-Blackwell, less noise), or the rows that were drawn. Both are private.",
        options={"histogram": "Histogram", "rows": "Drawn rows"},
    )

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of its lines, as indices; drawn rows have another dash than the histogram."""
        return self.hue, int(self.release == "rows")

    def has_internal(self, facts: GameFacts) -> bool:
        """Return False, as all strategies of x are released."""
        return False

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan of vertex sampling. Raise UserError unless the problem is synthetic data."""
        if facts.oscillation_x > 0 or facts.d_x == 1:  # only in synthetic data x has a choice and reads no data
            raise UserError(
                "This method draws synthetic rows, so it needs the problem 'Synthetic data'.",
                title="Algorithm and problem do not fit",
            )
        return super().plan(facts, budget)

    def theorem_setting(self, facts: GameFacts, budget: ApproximateDP) -> rates.TheoremParameters:
        """Return the setting of Theorem G.1, for d_x cells and d_y/2 queries: y has each query with both signs."""
        if self.parameters != "synthetic":
            raise UserError(
                "Theorems 4.1 and 4.2 are about players who both read data. For synthetic data choose Theorem G.1, or "
                "set T and K yourself.",
                title="Algorithm and problem do not fit",
            )
        return rates.synthetic_setting(facts.n, facts.d_x, facts.d_y // 2, budget.epsilon, budget.delta)

    def step_size(self, facts: GameFacts, rounds: int, player: int, largest: float) -> float:
        """Return the step size of a player (0: x, 1: y).

        y takes the largest step that the budget allows, as even long ones improve the histogram. Where privacy is no
        limit, which is always so for x, the step is 2 √(ln d_x/T) for x and 4 √(ln d_y/T) for y: a heuristic.
        """
        unlimited = (2 + 2 * player) * math.sqrt(math.log((facts.d_x, facts.d_y)[player]) / rounds)
        return unlimited if largest == math.inf else largest

    def _plays_all(self, query: Query, event: Event | None) -> bool:
        """Return True if the histogram is released, for weights that follow from releases alone: they are less noisy
        than drawn rows."""
        reads_no_data = query.sensitivity == 0  # always so for x, and for y in the first round, which is uniform
        return event is None and self.release == "histogram" and reads_no_data


CONFIDENCE = 0.95  # probability, over the certificate's own noise, that the released bound is above the true gap
CERTIFIED_GAP = Metric("certified_gap", "Certified duality gap", released=True, scale="log", headline=4)


class CertifiedSampling(planning.GameAlgorithm[Game]):
    """Vertex sampling with all rows that also releases an upper bound on the gap of its output (THEORY.md, section
    10.5).

    A share of the budget pays for releasing the gap with noise, once, after the last round. A margin is added, so that
    the sum is above the true gap with 95 % confidence.
    """

    kind: ClassVar[str] = "families.mirror_descent.certified_sampling"
    title: ClassVar[str] = "Vertex sampling with a certificate"
    hue: ClassVar[int] = 3
    dash: ClassVar[int] = 2
    sparse: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (CERTIFIED_GAP,)
    iterations: int = number(64, 2, 1024, label="Steps", symbol="T", scale="log", help="Rounds of the game.")
    draws: int = number(1, 1, 64, label="Draws", symbol="K", scale="log", help=planning.DRAWS)
    draws_y: int | None = number(None, 1, 64, label="Draws of y", symbol="Kᵧ", help=DRAWS_Y, limits=(1, 64_000))
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
    def vertex_sampling(self) -> VertexSampling:
        """Vertex sampling with the settings that it shares with this method: its output is certified."""
        return VertexSampling().adopting(dict(self))

    def has_internal(self, facts: GameFacts) -> bool:
        return self.vertex_sampling.has_internal(facts)

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan of vertex sampling with a part of the budget, and one more release after the last round, of
        the gap."""
        planning.refuse_without_privacy(budget, self.title)
        if not facts.gap_change:  # 0 where it is not known how far one row moves the gap
            raise UserError(
                "A certificate needs a game whose gap is computed exactly: the matrix game, the quadratic game or "
                "“Strategies against groups”.",
                title="Algorithm and problem do not fit",
            )
        game_budget = budget.share(1 - self.certificate_share, facts.released)
        # `share` subtracts the cost of releases before the run, and the game's plan does so once more, so it is added.
        with_releases = game_budget.of_amount(game_budget.amount + game_budget.cost(facts.released))
        game_plan = self.vertex_sampling.plan(facts, budget=with_releases)
        event = certifying_event(budget.share(self.certificate_share, facts.released))
        scale, rounds = noise_scale(event, facts.gap_change / facts.n), game_plan.iterations
        return dataclasses.replace(
            game_plan,
            budget=budget,
            terms=FixedEvents((*game_plan.events, event)),
            charged_at=np.append(game_plan.charged_at, rounds),
            noise={"gap": np.where(np.arange(1, rounds + 1) < rounds, 0.0, scale)},  # in the last round only
            resolved={**game_plan.resolved, "certificate_width": upper_quantile(event, scale)},
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run vertex sampling, and release the bound on the gap of its output with the last snapshot; NaN before."""
        bound = np.full(mechanisms.replicates, np.nan)
        diverged = np.zeros(mechanisms.replicates, dtype=bool)  # replicates whose noise is beyond all bounds
        for snapshot in self.vertex_sampling.run(problem, plan, mechanisms):
            if snapshot.iteration == plan.iterations:
                event, (x, y) = plan.events[-1], (snapshot.output["x"], snapshot.output["y"])
                if isinstance(event, Laplace):
                    noisy_gap = mechanisms.laplace(problem.gap(x, y, norm="l1"), event)  # (R,)
                else:
                    noisy_gap = mechanisms.gaussian(problem.gap(x, y, norm="l2"), event)
                bound = np.maximum(noisy_gap + plan.resolved["certificate_width"], 0.0)
                diverged = ~(np.abs(noisy_gap) < DIVERGED)
            status = divergence_status(diverged) or snapshot.status  # the former is None if no replicate is diverged
            yield dataclasses.replace(snapshot, released={CERTIFIED_GAP.name: bound}, status=status)


def certifying_event(part: Budget) -> Event:
    """Return the event of one release that spends all of `part`, a part of a budget (`Budget.share`): with Laplace
    noise under pure ε, else with Gaussian noise."""
    return Laplace(part.amount) if part.pure else Gaussian(math.sqrt(2 * part.gaussian_rho(part.amount)))


def upper_quantile(event: Event, scale: float) -> float:
    """Return the amount that, added to a noisy gap, makes it exceed the true gap with probability `CONFIDENCE`: that
    quantile of the noise of an event (Laplace or Gaussian). scale : of the noise."""
    is_laplace = isinstance(event, Laplace)
    # Laplace noise of scale 1 exceeds t > 0 with probability e^-t/2.
    standard_quantile = -math.log(2 * (1 - CONFIDENCE)) if is_laplace else float(ndtri(CONFIDENCE))
    return scale * standard_quantile
