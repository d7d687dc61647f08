"""Anytime vertex sampling and Frank-Wolfe, for one player; and two methods that add Gaussian noise to both players'
gradients, as is usual: descent-ascent, and mirror descent."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from dpviz.errors import UserError
from dpviz.experiments.algorithm import DIVERGED, Snapshot, divergence_status
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning, rates, theory
from dpviz.families.mirror_descent.methods.algorithms import ACCOUNTING, BATCHES, BATCHING, frequencies, softmax
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import Event, ExpMech, Gaussian, Laplace, Parallel, Seq
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.base import Memory, check_facts
from dpviz.problems.games.games import Game, GameFacts, GradientSums, Pair, project_to_simplex
from dpviz.specification import choice, number

MAX_STORED = 100_000_000  # the most numbers that anytime sampling stores, 0.8 GB


def require_one_player(facts: GameFacts, title: str) -> None:
    """Raise UserError if the second player has a choice. title : of the method."""
    if facts.d_y > 1:
        raise UserError(
            f"{title} minimises over one simplex and cannot play a game. Choose sparse regression or the portfolio.",
            title="Algorithm and problem do not fit",
        )


class AnytimeSampling(planning.GameAlgorithm[Game]):
    """Private minimisation over a simplex in a single pass, by anytime online-to-batch averages and lazy refreshes of
    vertices (Algorithm 4).

    x̄_t is the mixture, that is the average, of the weights of all rounds so far. Gradients are taken at an average of K
    vertices drawn from x̄_t, which are drawn anew only in the first U rounds and in every U-th round after. The output
    is an average of K_out vertices drawn from x̄_T. To draw from the mixture is to pick one of its parts without any
    data, and then a vertex from this part; so it costs no more than a draw from the part (mixture lemma, section 4.3 of
    THEORY.md).
    """

    kind: ClassVar[str] = "families.mirror_descent.anytime_sampling"
    title: ClassVar[str] = "Anytime vertex sampling"
    hue: ClassVar[int] = 1
    dash: ClassVar[int] = 1
    sparse: ClassVar[bool] = True
    iterations: int = number(
        64, 2, 1024, label="Steps", symbol="T", scale="log", help="Rounds, or the most that there may be."
    )
    refresh_draws: int = number(
        8, 1, 256, label="Draws", symbol="K", scale="log", help="Vertices drawn at every refresh."
    )
    refresh: int = number(
        4, 1, 1024, label="Refresh period", symbol="U", scale="log", help="New draws in rounds 1 to U and every U-th."
    )
    output_draws: int = number(
        8, 1, 256, label="Output draws", symbol="K_out", scale="log", help="Vertices whose average is released."
    )
    theorem: Literal["own", "anytime_second_order", "anytime_first_order"] = choice(
        "own",
        label="Parameters",
        help="Who chooses T, K, U and K_out. The theorem is stated for (ε, δ); T never exceeds the rounds set above.",
        options={
            "own": "As set",
            "anytime_second_order": "Theorem 5.1, second order",
            "anytime_first_order": "Theorem 5.1, first order",
        },
    )
    accounting: planning.Accounting = choice(
        "tight", ACCOUNTING, label="Accounting", help="What a draw costs: its bounded range, or Proposition F.1."
    )
    relative_step: float = planning.RELATIVE_STEP

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan with the draws of the refreshes and of the output. Raise UserError for a game of two players,
        or without a budget."""
        require_one_player(facts, self.title)
        planning.refuse_without_privacy(budget, self.title)
        rounds, draws, refresh, output_draws, notes = self._sizes(facts, budget)
        batch = planning.batch_size(facts, rounds, "single")  # a single pass: every round has rows of its own
        # The rounds with new draws, but for the first one, which draws from the uniform distribution and needs no data.
        paid_rounds = [t for t in range(2, rounds + 1) if t <= refresh or t % refresh == 0]
        total_draws = draws * len(paid_rounds) + output_draws
        if self.accounting == "paper":
            remaining = planning.remaining_approximate(budget, "Proposition F.1", facts)
            epsilon, delta = remaining.epsilon, remaining.delta
            cap = float(rates.tau_paper_anytime(batch, epsilon, delta, facts.lipschitz, draws=total_draws))
            # Theorem 5.1 demands both: the step that the budget allows, and the one for T rounds without privacy.
            tau = self.relative_step * min(cap, math.sqrt(facts.log_vertices / rounds) / facts.lipschitz)
        else:  # the largest step that the budget allows, or the part of it that the user sets
            unit_range = np.array([2 * facts.oscillation_x / batch])  # of a draw at step size 1
            cap = calibration.calibrate_selections(budget, unit_range, times=total_draws, prior=facts.released)
            tau = self.relative_step * cap
        eta = 2 * facts.oscillation_x * tau / batch  # bounded range of a draw, which decides its cost
        events = (*[planning.selections(eta, draws) for _ in paid_rounds], planning.selections(eta, output_draws))
        refreshed, ranges = np.zeros(rounds), np.zeros(rounds)  # entry t - 1 is of round t
        paid_indices = [t - 1 for t in paid_rounds]
        refreshed[[0, *paid_indices]] = 1.0  # 1 in rounds with new draws, the free first one included
        ranges[[*paid_indices, rounds - 1]] = eta  # the output is drawn in the last round
        return Plan.fixed(
            facts,
            budget,
            events,
            charged_at=np.array([*paid_rounds, rounds]),
            iterations=rounds,
            resolved={
                "rounds": rounds,
                "draws": draws,
                "refresh": refresh,
                "output_draws": output_draws,
                "step_size_x": tau,
            },
            notes=notes,
            step_size_x=np.full(rounds, tau),
            range_x=ranges,
            refreshed=refreshed,
            batch_size=np.full(rounds, batch),
        )

    def _sizes(self, facts: GameFacts, budget: Budget) -> tuple[int, int, int, int, tuple[str, ...]]:
        """Return the rounds T, draws K, refresh period U and output draws K_out, as set or by the theorem, and a note
        if T is less than the theorem asks for."""
        if self.theorem == "own":
            return self.iterations, self.refresh_draws, self.refresh, self.output_draws, ()
        remaining = planning.remaining_approximate(budget, "Theorem 5.1", facts)
        setting = rates.anytime_setting(planning.sizes(facts, remaining), self.theorem)
        assert setting.rounds and setting.draws and setting.refresh and setting.output_draws
        rounds = min(setting.rounds, self.iterations)
        notes = planning.limit_note(
            setting.theorem, "T", wanted=setting.rounds, allowed=rounds, limit="the rounds that are set end at"
        )
        return rounds, setting.draws, setting.refresh, setting.output_draws, notes

    def played_vertices(self, plan: Plan) -> float:
        return plan.resolved["draws"]

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Return the bytes of a run, with the scores of all rounds and the utilities of all draws of a round."""
        arrays = plan.iterations + max(plan.resolved["draws"], plan.resolved["output_draws"])  # (R, d) each
        return super().memory(plan, replicates, problem) + 8.0 * arrays * replicates * plan.facts.d  # 8 bytes a number

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates; the output of a snapshot is the average of the vertices drawn last, after the last
        round that of the output draws."""
        check_facts(problem, plan.facts)
        facts, replicates = problem.facts, mechanisms.replicates
        if plan.iterations * replicates * facts.d_x > MAX_STORED:
            raise UserError(
                "The scores of all rounds are kept, and there would be too many of them. Lower the rounds T, the "
                "repeats R or the number of vertices.",
                title="Too much to keep",
            )
        batch = int(plan.rows[0])  # B, the same in all rounds
        draws, output_draws = int(plan.resolved["draws"]), int(plan.resolved["output_draws"])
        scores = GradientSums(problem, replicates)  # -Σ gradients, the utilities of draws
        events = iter(plan.events)
        x, y = facts.uniform(replicates)
        past_scores: list[np.ndarray] = []  # of every round so far, (R, d) each; its weights are softmax(τ × scores)
        weight_sum = np.zeros_like(x)  # of all rounds so far
        vertices, with_internal = x, self.has_internal(facts)  # vertices: the average of those drawn last
        yield Snapshot(0, {"x": x, "y": y}, internal={"x": x, "y": y} if with_internal else {})
        for t in range(1, plan.iterations + 1):
            tau = float(plan.schedule["step_size_x"][t - 1])
            query = scores.utilities_x(weight=1 / batch)  # of a row, which is in one block; gives the sensitivity
            past_scores.append(query.value)
            weight_sum += softmax(tau * query.value)
            if plan.schedule["refreshed"][t - 1]:
                if t == 1:  # uniform weights need no data
                    indices = mechanisms.sample(tau * query.value, draws)
                else:
                    indices = mechanisms.exponential(_mixture(mechanisms, query, past_scores, draws), next(events))
                vertices = frequencies(indices, facts.d_x)
            scores.add([(1.0, vertices, y)], rows=slice((t - 1) * batch, t * batch))  # 1.0 times the gradient there
            if t == plan.iterations:  # the output
                indices = mechanisms.exponential(_mixture(mechanisms, query, past_scores, output_draws), next(events))
                vertices = frequencies(indices, facts.d_x)
            internal = {"x": weight_sum / t, "y": y} if with_internal else {}
            yield Snapshot(t, {"x": vertices, "y": y}, internal=internal)


def _mixture(mechanisms: Mechanisms, query: Query, past_scores: list[np.ndarray], draws: int) -> Query:
    """Return the query for draws from the mixture of the weights of all rounds so far; each draw picks a round at
    random, without data, and has the utilities of that round.

    query : of the latest round. Its sensitivity covers the earlier rounds, whose sums have no more rows. past_scores :
    (R, d) utilities of every round. The value is (R, draws, d).
    """
    drawn_rounds = mechanisms.sample(np.zeros((mechanisms.replicates, len(past_scores))), draws)  # (R, draws)
    utilities = np.empty((*drawn_rounds.shape, past_scores[0].shape[1]))
    for round_index in np.unique(drawn_rounds):
        replicates, positions = np.nonzero(drawn_rounds == round_index)
        utilities[replicates, positions] = past_scores[round_index][replicates]
    return query._replace(value=utilities)


class FrankWolfe(planning.GameAlgorithm[Game]):
    """Private Frank-Wolfe (Talwar, Thakurta, Zhang 2015), for one player and with all rows in every round.

    Round t = 0, 1, ... moves the strategy u towards a vertex: u ← (1 - γ) u + γ e_j with γ = 2/(t + 2). The exponential
    mechanism draws the vertex j, with the utilities -∂_j F(u).

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.SparseRegression(rows=1000), dpviz.FrankWolfe(chosen_vertices=4), epsilon=1).run()
    <Trace of Frank-Wolfe: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.mirror_descent.frank_wolfe"
    title: ClassVar[str] = "Frank-Wolfe"
    hue: ClassVar[int] = 2
    dash: ClassVar[int] = 1
    chosen_vertices: int = number(
        16, 1, 1024, label="Rounds of Frank-Wolfe", scale="log", help="Vertices that are chosen, one per round."
    )

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan with one draw per round. Raise UserError for a game of two players."""
        require_one_player(facts, self.title)
        rounds = self.chosen_vertices
        if budget.private:
            # The largest multiple of ranges of 1 that the budget allows is the range η itself.
            eta = calibration.calibrate_selections(budget, ranges=np.ones(1), times=rounds, prior=facts.released)
            events = (ExpMech(eta),) * rounds
        else:  # the best vertex itself: no draw, and Laplace noise of scale 0
            eta, events = 0.0, (Laplace(math.inf),) * rounds  # type: ignore[assignment]
        return Plan.fixed(
            facts,
            budget,
            events,
            resolved={"rounds": rounds},
            range_x=np.full(rounds, eta),
            batch_size=np.full(rounds, facts.n),
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates, and yield their strategies after each round."""
        check_facts(problem, plan.facts)
        facts = problem.facts
        x, y = facts.uniform(mechanisms.replicates)
        yield Snapshot(0, {"x": x, "y": y})
        for t, event in enumerate(plan.events):
            gradient, _ = problem.gradients(x, y)
            change = 2 * facts.oscillation_x / facts.n  # of utilities, by one row
            if isinstance(event, Laplace):  # no privacy, no noise: the best vertex itself
                vertices = mechanisms.laplace(Query(-gradient, change, "l1"), event).argmax(axis=1)
            else:
                vertices = mechanisms.exponential(Query(-gradient, change, "range"), event)[:, 0]  # the only draw
            step = 2 / (t + 2)
            x = (1 - step) * x + step * frequencies(vertices[:, None], facts.d_x)
            yield Snapshot(t + 1, {"x": x, "y": y})


class NoisyGradients(planning.GameAlgorithm[Game]):
    """Base of the two methods with Gaussian noise: every round releases both players' gradients with noise, and each
    player steps along its own. The output is the average of the strategies of all rounds."""

    gradient_rounds: int | None = number(
        None,
        1,
        1024,
        label="Rounds of noisy gradients",
        symbol="T",
        help="Noisy gradients per player. Empty: by how the noise compares with the signal, between 4 and 256.",
        limits=(1, 1_024_000),
    )
    batching: planning.Batching = choice("full", BATCHES, label="Rows per round", help=BATCHING)
    share_x: float = planning.SHARE_X
    split: planning.Split = planning.SPLIT
    geometry: ClassVar[theory.Geometry]  # of the method's steps

    @abstractmethod
    def balanced_rounds(self, d: int, signal: float) -> float:
        """Return a number of rounds at which the noise is not too large for the signal.

        d : vertices of the larger player. signal : n √ρ/L, with L the largest change of a coordinate of one row's
        gradient.
        """

    @abstractmethod
    def step_size(self, d: int, rounds: int, noise: float) -> float:
        """Return the step size of a player with d vertices. noise : standard deviation on each coordinate of its
        gradients."""

    def rounds(self, facts: GameFacts, budget: Budget) -> int:
        """Return the number of rounds T: as set; if it is not set, `balanced_rounds` within 4 to 256."""
        if self.gradient_rounds is not None:
            return self.gradient_rounds
        if not budget.private:
            return 256  # the most, as there is no noise
        change = max(facts.change_x, facts.change_y, 1e-300)  # not 0, also if no gradient reads data
        signal = facts.n * math.sqrt(budget.about_rho(budget.amount)) / change
        return round(min(256.0, max(4.0, self.balanced_rounds(max(facts.d_x, facts.d_y), signal))))

    @abstractmethod
    def advance(self, strategies: Pair, sums: Pair, gradients: Pair, steps: Pair) -> tuple[Pair, Pair]:
        """Return the strategies of the next round, and the sums of gradients times step sizes so far.

        All arguments are pairs of x and y. gradients : along which each player steps; minus ∇ₓF for x, which minimises.
        """

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        """Return the plan with equal noise in all rounds, of T releases with all rows or of T blocks in a single
        pass."""
        rounds = self.rounds(facts, budget)
        batch = planning.batch_size(facts, rounds, self.batching)
        is_single_pass = self.batching == "single"
        uses = 1 if is_single_pass else rounds  # of every row: in a single pass it is in one block only
        # The ρ of each of these equal releases; the row is certainly in them (m = n). The size of a block enters by the
        # sensitivities below.
        rho = calibration.calibrate_gaussian(budget, np.ones(uses), m=facts.n, n=facts.n, prior=facts.released)[0]
        # L2 sensitivities of both gradients: one row moves each of the d coordinates by up to `change` / batch.
        changes = (facts.change_x * math.sqrt(facts.d_x) / batch, facts.change_y * math.sqrt(facts.d_y) / batch)
        share_x, share_y = planning.shares(facts, self.share_x)
        if self.split == "bound" and planning.both_pay(facts) and math.isfinite(rho):  # infinite without privacy
            noise_of_all = [change / math.sqrt(2 * rho) for change in changes]  # if a player had all of ρ
            best_x, _ = theory.optimal_noisy_shares(planning.players(facts), noise_of_all, self.geometry)
            share_x, share_y = best_x, 1 - best_x
        releases = [Gaussian(mu=math.sqrt(2 * share * rho)) for share in (share_x, share_y) if share]  # ρ = μ²/2
        event: Event = releases[0] if len(releases) == 1 else Seq(tuple(releases))  # of one round
        scales = [  # standard deviation of the noise: sensitivity/μ
            change / math.sqrt(2 * share * rho) if share else 0.0
            for change, share in zip(changes, (share_x, share_y), strict=True)
        ]
        steps = [self.step_size(d, rounds, scale) for d, scale in zip((facts.d_x, facts.d_y), scales, strict=True)]
        return Plan.fixed(
            facts,
            budget,
            (Parallel((event,) * rounds),) if is_single_pass else (event,) * rounds,
            charged_at=np.ones(1, dtype=int) if is_single_pass else None,  # the single event in round 1
            iterations=rounds,
            batch_size=np.full(rounds, batch),
            noise={"x": np.full(rounds, scales[0]), "y": np.full(rounds, scales[1])},
            resolved={"rounds": rounds, "share_x": share_x, "step_size_x": steps[0], "step_size_y": steps[1]},
            step_size_x=np.full(rounds, steps[0]),
            step_size_y=np.full(rounds, steps[1]),
        )

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all R replicates, and yield the averages of their strategies after each round."""
        check_facts(problem, plan.facts)
        facts = problem.facts
        strategies = facts.uniform(mechanisms.replicates)
        totals: Pair = (np.zeros_like(strategies[0]), np.zeros_like(strategies[1]))  # sums of strategies
        sums: Pair = (np.zeros_like(strategies[0]), np.zeros_like(strategies[1]))  # of gradients times step sizes
        # Of x and of y: a player whose gradient reads data has a share of the budget, whatever the split.
        pays = [share > 0 for share in planning.shares(facts, planning.EVEN)]
        diverged = np.zeros(mechanisms.replicates, dtype=bool)
        yield Snapshot(0, {"x": strategies[0], "y": strategies[1]})
        # In a single pass each round has a block of rows, and one event pays for all blocks.
        blocks = iter(mechanisms.blocks(plan.events[0], facts.n)) if isinstance(plan.events[0], Parallel) else None
        for t in range(1, plan.iterations + 1):
            batch = next(blocks) if blocks is not None else mechanisms.batch(plan.events[t - 1])
            queries = problem.gradient_queries(*strategies, batch)  # of both gradients, to which noise is to be added
            # With noise for a player that pays, and as it is for one whose gradient reads no data.
            g_x, g_y = (batch.gaussian(query) if pay else query.value for query, pay in zip(queries, pays, strict=True))
            steps = (plan.schedule["step_size_x"][t - 1], plan.schedule["step_size_y"][t - 1])
            totals = (totals[0] + strategies[0], totals[1] + strategies[1])
            for gradient in (g_x, g_y):
                diverged |= ~(np.abs(gradient).max(axis=1) <= DIVERGED)  # "not at most" is true of NaN, too
            # Replicates that diverged are frozen where they were, and marked.
            g_x, g_y = (np.where(diverged[:, None], 0.0, gradient) for gradient in (g_x, g_y))
            strategies, sums = self.advance(strategies, sums, (-g_x, g_y), steps)
            yield Snapshot(t, {"x": totals[0] / t, "y": totals[1] / t}, status=divergence_status(diverged))


class EuclideanGradient(NoisyGradients):
    """DP-SGDA: noisy gradient descent-ascent, x ← Π_Δ(x - λ g̃), Π the Euclidean projection (Boob, Guzmán 2023)."""

    kind: ClassVar[str] = "families.mirror_descent.euclidean_gradient"
    title: ClassVar[str] = "DP-SGDA (Euclidean)"
    hue: ClassVar[int] = 1
    geometry: ClassVar[theory.Geometry] = "euclidean"
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
        # With (signal/d)² rounds the noise is as large as the signal. 8 times the root of this number was the best in
        # trials, in the needle and the quadratic game at d = 100 to 1,000 (32, 12 and 4 rounds).
        return 8 * signal / d

    def step_size(self, d: int, rounds: int, noise: float) -> float:
        return self.euclidean_step * math.sqrt(2) / math.sqrt(rounds * (1 + d * noise**2))

    def advance(self, strategies: Pair, sums: Pair, gradients: Pair, steps: Pair) -> tuple[Pair, Pair]:
        x, y = (project_to_simplex(p + step * g) for p, g, step in zip(strategies, gradients, steps, strict=True))
        return (x, y), sums


class GaussianMirrorDescent(NoisyGradients):
    """Mirror descent with the same Gaussian noise as `EuclideanGradient`: exponential weights on sums of noisy
    gradients. A strong baseline.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.QuadraticGame(), dpviz.GaussianMirrorDescent(gradient_rounds=4), mu=1).run()
    <Trace of Gaussian mirror descent: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.mirror_descent.gaussian_mirror_descent"
    title: ClassVar[str] = "Gaussian mirror descent"
    hue: ClassVar[int] = 2
    geometry: ClassVar[theory.Geometry] = "entropic"
    entropic_step: float = number(
        30.0,
        0.3,
        100.0,
        label="Entropic step",
        symbol="c",
        scale="log",
        help="Step c √(ln d/(T (1 + σ²))); 1 by theory.",
    )

    def advance(self, strategies: Pair, sums: Pair, gradients: Pair, steps: Pair) -> tuple[Pair, Pair]:
        sum_x, sum_y = (total + step * g for total, g, step in zip(sums, gradients, steps, strict=True))
        return (softmax(sum_x), softmax(sum_y)), (sum_x, sum_y)

    def balanced_rounds(self, d: int, signal: float) -> float:
        # With T = 2 signal²/d rounds, the noise of a player with all of ρ has the deviation 1 on each coordinate: it is
        # L √d/(n μ), with μ = √(2ρ/T) and signal = n √ρ/L.
        return 2 * signal**2 / d

    def step_size(self, d: int, rounds: int, noise: float) -> float:
        log_vertices = max(math.log(d), 1e-12)  # not 0: a step size is positive, also without a choice (d = 1)
        return self.entropic_step * math.sqrt(log_vertices / (rounds * (1 + noise**2)))
