"""Line search under differential privacy: how far to go is asked of the data, too."""

from typing import ClassVar, Self

from pydantic import model_validator

from dpviz.experiments.plan import Plan
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.methods.algorithms import GRADIENT_CHARGED, HESSIAN_CHARGED, SERIES, WholeTable
from dpviz.families.second_order.methods.releases import Releases, Separate
from dpviz.families.second_order.methods.states import GRADIENT_NOISE
from dpviz.families.second_order.methods.steps import Backtracking, StepRule
from dpviz.families.second_order.planning import BudgetSplit, Purpose
from dpviz.numbers import short
from dpviz.privacy.accounting.currencies import stated_pure
from dpviz.privacy.budgets import Budget
from dpviz.problems.base import Metric
from dpviz.problems.nonconvex.nonconvex_risk import NonconvexFacts, NonconvexRisk
from dpviz.specification import number

SEARCH_CHARGED = Metric("search_charged", "ρ charged for line searches", released=True, better="")


class LineSearch(WholeTable):
    """OPT-LS, and 2OPT-LS in two phases: longer steps, as far as the sparse vector technique finds enough decrease."""

    kind: ClassVar[str] = "families.second_order.line_search"
    title: ClassVar[str] = "OPT-LS"
    hue: ClassVar[int] = 1
    metrics: ClassVar[tuple[Metric, ...]] = (*SERIES, GRADIENT_NOISE, GRADIENT_CHARGED, HESSIAN_CHARGED, SEARCH_CHARGED)
    search_share: float | None = number(None, 0.05, 0.9, **theory.CONTROLS["search_share"])
    ladder: theory.Ladder = theory.Ladder()

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if refused := self.ladder.refused_with(self.constants):
            raise ValueError(refused)
        return self

    def search(self, facts: NonconvexFacts) -> theory.Search:
        """The steps that it tries, and what they achieve."""
        return theory.Search(self.analysis(facts), self.ladder)

    def decreases(self, facts: NonconvexFacts) -> tuple[float, float]:
        search = self.search(facts)
        return search.gradient_decrease, search.curvature_decrease

    def searching(self, asks: bool) -> float:
        """φ_f: the share of the line search of what an iteration may spend. asks : whether Hessians are released."""
        return 1 / (2 + asks) if self.search_share is None else self.search_share

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        purse = BudgetSplit.mixed(budget, facts)
        asks = self.asks(facts)
        each: dict[Purpose, float] = {"gradient": 2 * (1 - self.hessian_share) if asks else 1.0, "search": 1.0}
        if asks:
            each["hessian"] = 2 * self.hessian_share
        if self.search_share is not None:
            each["search"] = (1 + asks) * self.search_share / (1 - self.search_share)
        stretches = planning.phases(purse, self.lengths(facts), self.shares(facts), each, self.carry_over)
        epsilons = [stated_pure(purse.currency, phase.costs["search"]).eps for phase in stretches]
        blindness = self.search(facts).blindness(epsilons[0], facts.gradient_sensitivity / facts.n)
        notes = self._notes(facts)
        if blindness > 1:
            notes += (planning.phrase("blind_search", times=short(blindness)),)
        resolved = {**self._resolved(facts), "search_blindness": blindness}
        schedule = {"search_epsilon": planning.in_each(stretches, epsilons)}
        return planning.filtered(purse, stretches, facts, budget, resolved, notes, **schedule)

    def searching_noise(self, plan: Plan) -> theory.Searching:
        """The noise of the line searches of a plan, in the phase that has most of it."""
        facts = NonconvexFacts.of(plan.facts)
        epsilon = float(plan.schedule["search_epsilon"].min())
        search, asks = self.search(facts), self.asks(facts)
        steps = max(len(search.gradient_steps), len(search.curvature_steps) * asks)
        return theory.Searching(epsilon, facts.gradient_sensitivity / facts.n, steps, search.admissible_noise(asks))

    def _step_rule(self, problem: NonconvexRisk, releases: Releases) -> StepRule:
        assert isinstance(releases, Separate)
        return Backtracking(self.search(problem.facts), problem, releases)
