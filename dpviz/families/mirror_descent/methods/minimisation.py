"""Private minimisation over one simplex: anytime averages with lazy vertex refreshes, and private Frank-Wolfe."""

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from dpviz.experiments.algorithm import Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.mirror_descent import planning, rates
from dpviz.families.mirror_descent.methods.algorithms import ACCOUNTING, frequencies, softmax
from dpviz.families.mirror_descent.planning import CONTROLS
from dpviz.privacy import calibration
from dpviz.privacy.budgets import Budget
from dpviz.privacy.events import ExpMech, Laplace
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.privacy.releases import Query
from dpviz.problems.base import Memory, check_facts
from dpviz.problems.games.games import Game, GameFacts, Scores
from dpviz.specification import choice, number

MOST_KEPT = 100_000_000  # numbers, 0.8 GB


def one_player(facts: GameFacts, title: str) -> None:
    """Raise UserError unless the second player has no choice."""
    if facts.d_y > 1:
        raise planning.refusal("one_simplex", title=title)


class AnytimeSampling(planning.GameAlgorithm[Game]):
    """DP-SCO by anytime online-to-batch averages and lazy vertex refreshes (Algorithm 4), in a single pass.

    Gradients are asked for at an average of K vertices drawn from the mixture x̄_t of all weights so far, drawn anew
    only in the first U rounds and every U-th after. A draw from the mixture picks one of its parts, without looking at
    data, and then a vertex: it costs no more than a draw from that part (mixture lemma, section 4.3).
    """

    kind: ClassVar[str] = "families.mirror_descent.anytime_sampling"
    title: ClassVar[str] = "Anytime vertex sampling"
    hue: ClassVar[int] = 1
    dash: ClassVar[int] = 1
    sparse: ClassVar[bool] = True
    iterations: int = number(64, 2, 1024, **CONTROLS["AnytimeSampling.iterations"])
    refresh_draws: int = number(8, 1, 256, **CONTROLS["refresh_draws"])
    refresh: int = number(4, 1, 1024, **CONTROLS["refresh"])
    output_draws: int = number(8, 1, 256, **CONTROLS["output_draws"])
    theorem: Literal["own", "anytime_second_order", "anytime_first_order"] = choice("own", **CONTROLS["theorem"])
    accounting: planning.Accounting = choice("tight", ACCOUNTING, **CONTROLS["AnytimeSampling.accounting"])
    relative_step: float = planning.RELATIVE_STEP

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        one_player(facts, self.title)
        planning.refuse_without_privacy(budget, self.title)
        rounds, draws, refresh, output_draws, notes = self._sizes(facts, budget)
        batch = planning.batch_size(facts, rounds, "single")
        # The first draw, from the uniform distribution, needs no data.
        paid = [t for t in range(2, rounds + 1) if t <= refresh or t % refresh == 0]
        total = draws * len(paid) + output_draws
        if self.accounting == "paper":
            stated = planning.stated_for_approximate(budget, "Proposition F.1", facts)
            cap = float(rates.tau_paper_anytime(batch, stated.epsilon, stated.delta, facts.lipschitz, total))
            tau = self.relative_step * min(cap, math.sqrt(facts.log_vertices / rounds) / facts.lipschitz)
        else:
            one = np.array([2 * facts.oscillation_x / batch])
            tau = self.relative_step * calibration.calibrate_selections(budget, one, total, facts.released)
        eta = 2 * facts.oscillation_x * tau / batch
        events = (*(planning.selections(eta, draws) for _ in paid), planning.selections(eta, output_draws))
        fresh, ranges = np.zeros(rounds), np.zeros(rounds)
        fresh[[0, *(t - 1 for t in paid)]] = 1.0
        ranges[[*(t - 1 for t in paid), rounds - 1]] = eta  # the output is drawn in the last round
        return Plan.fixed(
            facts,
            budget,
            events,
            charged_at=np.array([*paid, rounds]),
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
            refreshed=fresh,
            batch_size=np.full(rounds, batch),
        )

    def _sizes(self, facts: GameFacts, budget: Budget) -> tuple[int, int, int, int, tuple[str, ...]]:
        """T, K, U and K_out, and a note if T is less than what the theorem asks for."""
        if self.theorem == "own":
            return self.iterations, self.refresh_draws, self.refresh, self.output_draws, ()
        paid = planning.stated_for_approximate(budget, "Theorem 5.1", facts)
        setting = rates.anytime_setting(planning.sizes(facts, paid), self.theorem)
        assert setting.rounds and setting.draws and setting.refresh and setting.output_draws
        rounds = min(setting.rounds, self.iterations)
        notes = planning.cut_short(setting.theorem, "T", setting.rounds, rounds, "the rounds that are set end at")
        return rounds, setting.draws, setting.refresh, setting.output_draws, notes

    def vertices(self, plan: Plan) -> float:
        return plan.resolved["draws"]

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Add the scores of all rounds, and the utilities of all the draws of a round."""
        kept = plan.iterations + max(plan.resolved["draws"], plan.resolved["output_draws"])
        return super().memory(plan, replicates, problem) + 8.0 * kept * replicates * plan.facts.d

    def run(self, problem: Game, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        facts, replicates = problem.facts, mechanisms.replicates
        if plan.iterations * replicates * facts.d_x > MOST_KEPT:
            raise planning.refusal("too_much_to_keep")
        batch = int(plan.rows[0])
        draws, output_draws = int(plan.resolved["draws"]), int(plan.resolved["output_draws"])
        scores, events = Scores(problem, replicates), iter(plan.events)
        x, y = facts.uniform(replicates)
        past: list[np.ndarray] = []  # scaled scores of every round's weights, (R, d) each
        mean, vertices, shown = np.zeros_like(x), x, self.has_internal(facts)
        yield Snapshot(0, {"x": x, "y": y}, internal={"x": x, "y": y} if shown else {})
        for t in range(1, plan.iterations + 1):
            tau = float(plan.schedule["step_size_x"][t - 1])
            query = scores.x(1 / batch)
            past.append(query.value)
            mean += softmax(tau * query.value)
            if plan.schedule["refreshed"][t - 1]:
                if t == 1:
                    indices = mechanisms.sample(tau * query.value, draws)
                else:
                    indices = mechanisms.exponential(_mixture(mechanisms, query, past, draws), next(events))
                vertices = frequencies(indices, facts.d_x)
            scores.add([(1.0, vertices, y)], slice((t - 1) * batch, t * batch))
            if t == plan.iterations:
                indices = mechanisms.exponential(_mixture(mechanisms, query, past, output_draws), next(events))
                vertices = frequencies(indices, facts.d_x)
            yield Snapshot(t, {"x": vertices, "y": y}, internal={"x": mean / t, "y": y} if shown else {})


def _mixture(mechanisms: Mechanisms, query: Query, past: list[np.ndarray], draws: int) -> Query:
    """Utilities (R, draws, d) of draws from the mixture of all past weights: each draw picks its part, data-free."""
    parts = mechanisms.sample(np.zeros((mechanisms.replicates, len(past))), draws)
    utilities = np.empty((*parts.shape, past[0].shape[1]))
    for part in np.unique(parts):
        replicates, places = np.nonzero(parts == part)
        utilities[replicates, places] = past[part][replicates]
    # One draw has the utilities of its part; the sensitivity of the latest sums covers those of all before.
    return query._replace(value=utilities[:, 0] if draws == 1 else utilities)


class FrankWolfe(planning.GameAlgorithm[Game]):
    """Private Frank-Wolfe (Talwar, Thakurta, Zhang 2015), all rows in every round: u ← (1 - γ) u + γ e_j, γ = 2/(t+2),
    vertex j by the exponential mechanism on -∂_j F(u)."""

    kind: ClassVar[str] = "families.mirror_descent.frank_wolfe"
    title: ClassVar[str] = "Frank-Wolfe"
    hue: ClassVar[int] = 2
    dash: ClassVar[int] = 1
    chosen_vertices: int = number(16, 1, 1024, **CONTROLS["chosen_vertices"])

    def plan(self, facts: GameFacts, budget: Budget) -> Plan:
        one_player(facts, self.title)
        rounds = self.chosen_vertices
        if budget.private:
            eta = calibration.calibrate_selections(budget, np.ones(1), rounds, facts.released)
            events = (ExpMech(eta),) * rounds
        else:
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
        check_facts(problem, plan.facts)
        facts = problem.facts
        x, y = facts.uniform(mechanisms.replicates)
        yield Snapshot(0, {"x": x, "y": y})
        for t, event in enumerate(plan.events):
            gradient, _ = problem.gradients(x, y)
            if isinstance(event, Laplace):
                best = mechanisms.laplace(Query(-gradient, 2 * facts.oscillation_x / facts.n, "l1"), event).argmax(
                    axis=1
                )
            else:
                best = mechanisms.exponential(Query(-gradient, 2 * facts.oscillation_x / facts.n, "range"), event)[:, 0]
            step = 2 / (t + 2)
            x = (1 - step) * x + step * frequencies(best[:, None], facts.d_x)
            yield Snapshot(t + 1, {"x": x, "y": y})
