"""Methods that release noisy gradients and noisy Hessians and stop at second-order solutions (Gao and Wright 2023).

One iteration: release a gradient; where it is long, step along it; where it is short, release the Hessian, and step
along its most negative curvature, or stop where there is none. The methods differ in how far they step (`steps`) and in
how releases are paid for (`releases`).
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.checkpoints import Parts, between
from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.constants import Constants
from dpviz.families.second_order.methods.krylov import PRODUCTS, KrylovTest, check_noise, products_by_theory
from dpviz.families.second_order.methods.releases import Releases, Separate, Together
from dpviz.families.second_order.methods.states import GRADIENT_NOISE, KIND, NOISY_CURVATURE, NOISY_GRADIENT, State
from dpviz.families.second_order.methods.steps import (
    Anywhere,
    Certificate,
    CurvatureTest,
    Measured,
    ShortSteps,
    StepRule,
)
from dpviz.families.second_order.planning import BudgetSplit, Phase, Purpose
from dpviz.numbers import short
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Cost, Metric, check_facts
from dpviz.problems.nonconvex.nonconvex_risk import MOST_COLUMNS, NonconvexFacts, NonconvexRisk
from dpviz.problems.nonconvex.symmetric import Shape
from dpviz.specification import choice, number, switch

SECONDS_PER_STATE = 8e-5  # of an iteration, however small the problem

CERTIFICATE_SHARE = 0.1  # of what the curvature test of an iteration may spend
# Of a run that is stopped wrongly: by the noise of scalar certificates, however many it asks for; by a test that looks
# at Hessians through products, in all of its tests.
CERTIFICATE_FAILURE, LANCZOS_FAILURE = 0.01, 0.01

EVEN, HESSIAN_LIMITS = 0.5, (0.05, 0.95)
HESSIAN_SHARE: Any = number(
    EVEN,
    *HESSIAN_LIMITS,
    label="Share of Hessians",
    symbol="φ_H",
    help="Of what an iteration may spend (in ρ) on its gradient and its test of curvature. More of it: less noise in "
    "Hessians, more in gradients.",
)
CARRY_OVER: Any = switch(
    True,
    label="Spend later what is left over",
    help="Of two phases, the second one gets what the first one may ask for and does not, Hessians above all.",
)
BATCH: Any = number(
    0.1,
    0.01,
    1.0,
    label="Batch",
    symbol="m/n",
    scale="log",
    help="Share of the rows in each iteration, drawn afresh without replacement. 1 = all rows, no sampling.",
)

SHARES: Mapping[str, float | None] = {"hessian_share": EVEN, "search_share": None}

SERIES = (NOISY_GRADIENT, NOISY_CURVATURE, KIND)
GRADIENT_CHARGED = Metric("gradient_charged", "ρ charged for gradients", released=True, better="")
HESSIAN_CHARGED = Metric("hessian_charged", "ρ charged for Hessians", released=True, better="")
ITERATIONS_CHARGED = Metric("iterations_charged", "Iterations charged", released=True, better="")


class NonconvexMethod(Algorithm[NonconvexRisk, NonconvexFacts]):
    """What the family shares: two targets, a number of iterations that follows from them, and a loop that replicates
    leave where they have met the targets."""

    iterations: int = number(
        5000,
        1,
        5000,
        label="Iterations at most",
        symbol="T",
        scale="log",
        help="The budget is split over the number that the targets ask for, or over so many if that is less.",
    )
    gradient_target: float = number(
        0.1, 0.01, 0.3, label="Gradient target", symbol="α", scale="log", help="Solutions have ‖∇f‖ ≤ α."
    )
    curvature_target: float | None = number(
        0.2,
        0.02,
        0.6,
        label="Curvature target",
        symbol="ε_H",
        scale="log",
        help="Solutions have no eigenvalue of the Hessian below -ε_H. By theory: √(Mα).",
    )
    hessian_noise: Shape = choice(
        "goe",
        {"goe": "Even in all directions (GOE)", "upper": "The same on all entries"},
        label="Hessian noise",
        help="Even noise is smaller by √2 in spectral norm and costs the same.",
    )
    constants: Constants = Constants()

    def released_settings(self) -> str:
        """Without shares that are as they were before they could be set."""
        return self.settings_without([name for name, even in SHARES.items() if getattr(self, name, even) == even])

    def analysis(self, facts: NonconvexFacts) -> theory.Analysis:
        """What a step achieves on a problem with these facts."""
        return theory.Analysis(
            facts.smoothness, facts.hessian_lipschitz, self.gradient_target, self.curvature_target, self.constants
        )

    def estimated_seconds(self, plan: Plan, replicates: int, cost: Cost) -> float:
        """At most, as nobody can know who ends early; but not every iteration of most methods asks for a Hessian."""
        tests = self.tests_share(plan) * planning.test_seconds(plan, replicates, cost)
        return super().estimated_seconds(plan, replicates, cost) + plan.iterations * SECONDS_PER_STATE + tests

    def tests_share(self, plan: Plan) -> float:
        """In which part of all iterations it is likely to ask for a curvature, where it does at all."""
        return 1.0

    def likely_share(self, plan: Plan) -> float:
        return planning.likely_share(self._stoppings(plan))

    def _stoppings(self, plan: Plan) -> tuple[theory.Stopping, ...]:
        assert isinstance(plan.facts, NonconvexFacts)
        return planning.stoppings(self.analysis(plan.facts), self.hessian_noise, plan)

    def estimated_bytes(self, plan: Plan, replicates: int, cost: Cost) -> float:
        return super().estimated_bytes(plan, replicates, cost) + replicates * planning.hessian_bytes(plan)

    @abstractmethod
    def _releases(self, plan: Plan, mechanisms: Mechanisms) -> Releases:
        """Who pays for what."""

    @abstractmethod
    def _iteration(
        self, problem: NonconvexRisk, plan: Plan, releases: Releases
    ) -> Callable[[State, np.ndarray], Parts[None]]:
        """The update rule: moves, in parts, the replicates (R',) of a state that it is given."""

    def run(self, problem: NonconvexRisk, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        check_facts(problem, plan.facts)
        releases = self._releases(plan, mechanisms)
        iteration = self._iteration(problem, plan, releases)
        state = State(problem.facts.starting_point(mechanisms.replicates))
        latest = state.snapshot(0, self.metrics, releases.charged())
        yield latest
        for t in range(1, plan.iterations + 1):
            rows = state.begin()
            releases.begin(t, rows)
            yield from between(iteration(state, rows), latest)
            if t == plan.iterations:
                state.end(state.going, "exhausted")
            latest = state.snapshot(t, self.metrics, releases.charged())
            yield latest
            if not len(state.going):
                return


class Descent(NonconvexMethod):
    """Gradient steps where the noisy gradient is long, curvature steps where it is short and the noisy Hessian has an
    eigenvalue below -ε_H; else a replicate has arrived."""

    curvature: Literal["auto", "always", "never"] = choice(
        "auto",
        {"auto": "Where it can fail", "always": "Always", "never": "Never: first order only"},
        label="Curvature test",
        help="It cannot fail where no data set has a curvature below -ε_H: there Hessians are wasted. Without it a run "
        "stops at saddle points, too.",
    )
    hessian_share: float = HESSIAN_SHARE
    phases: Literal["one", "two", "doubling"] = choice(
        "one",
        {"one": "One", "two": "Two: √T, then T", "doubling": "Doubling: √T, 2√T, ..., T"},
        label="Phases",
        help="Short phases have little noise, and most runs need few iterations; later ones have more of both.",
    )
    first_share: float = number(
        0.75, 0.5, 0.9, label="Share of the first phase", symbol="φ₁", help="Of the budget in ρ; of two phases."
    )

    def tests_share(self, plan: Plan) -> float:
        return planning.tests_share(self._stoppings(plan))

    @property
    def look(self) -> tuple[int, int]:
        return (3, 2) if self.curvature == "never" else (self.hue, int(self.phases != "one"))

    def asks(self, facts: NonconvexFacts) -> bool:
        """Whether Hessians are released on a problem with these facts."""
        possible = facts.curvature_floor < -self.analysis(facts).curvature
        return self.curvature == "always" or (self.curvature == "auto" and possible)

    def decreases(self, facts: NonconvexFacts) -> tuple[float, float]:
        """D_g and D_H: what a gradient step and a curvature step are sure to take off."""
        analysis = self.analysis(facts)
        return analysis.gradient_decrease, analysis.curvature_decrease

    def by_theory(self, facts: NonconvexFacts) -> int:
        """T that the analysis asks for: after so many steps nothing of the gap is left."""
        by_gradient, by_curvature = self.decreases(facts)
        return theory.iterations(facts.gap, min(by_gradient, by_curvature) if self.asks(facts) else by_gradient)

    def lengths(self, facts: NonconvexFacts) -> tuple[int, ...]:
        """Iterations of each phase."""
        return theory.phase_lengths(self.phases, self.by_theory(facts), self.iterations)

    def shares(self, facts: NonconvexFacts) -> np.ndarray:
        """Share of the budget of each phase."""
        return theory.phase_shares(self.phases, len(self.lengths(facts)), self.first_share)

    def products(self, facts: NonconvexFacts) -> int | None:
        """Products with a noisy Hessian that a curvature test looks at; None: all of its entries."""
        return None

    def _resolved(self, facts: NonconvexFacts) -> dict[str, float]:
        by_gradient, by_curvature = self.decreases(facts)
        lengths, products = self.lengths(facts), self.products(facts) if self.asks(facts) else None
        return {
            **({} if products is None else {"hessian_products": products}),
            "iterations": sum(lengths),
            "iterations_by_theory": self.by_theory(facts),
            "first_phase": lengths[0],
            "gradient_decrease": by_gradient,
            "curvature_decrease": by_curvature,
        }

    def _notes(self, facts: NonconvexFacts) -> tuple[str, ...]:
        notes = [*planning.cut_short(self.by_theory(facts), max(self.lengths(facts)))]
        if self.curvature != "never" and not self.asks(facts):
            notes.append(
                f"No data set has a curvature below {short(facts.curvature_floor)} here, so the curvature test cannot "
                "fail: no Hessian is released, and gradients get the whole budget."
            )
        return tuple(notes)

    def _measured(self, problem: NonconvexRisk, releases: Releases) -> Measured:
        return Measured(problem, releases, self.hessian_noise, at_state=False)

    def _step_rule(self, problem: NonconvexRisk, releases: Releases) -> StepRule:
        return ShortSteps(self.analysis(problem.facts))

    def _test(self, measured: Measured, plan: Plan) -> CurvatureTest:
        analysis, products = self.analysis(measured.problem.facts), plan.resolved.get("hessian_products")
        noise = plan.noise.get("certificate")
        certificate = None if noise is None else Certificate(noise, analysis.curvature, CERTIFICATE_FAILURE)
        if products is None:
            return CurvatureTest(measured, analysis.curvature_tolerance, certificate)
        each = LANCZOS_FAILURE / plan.iterations
        return KrylovTest(measured, analysis.curvature_tolerance, certificate, int(products), each)

    def _iteration(
        self, problem: NonconvexRisk, plan: Plan, releases: Releases
    ) -> Callable[[State, np.ndarray], Parts[None]]:
        analysis = self.analysis(problem.facts)
        measured, step = self._measured(problem, releases), self._step_rule(problem, releases)
        stopping = self._test(measured, plan) if self.asks(problem.facts) else Anywhere()

        def moved(state: State, rows: np.ndarray) -> Parts[None]:
            rows, gradients = yield from measured.gradient(state, rows)
            long = state.shown[NOISY_GRADIENT.name][rows] > analysis.gradient_tolerance
            yield from step.gradient(state, rows[long], gradients[long])
            rows, size, direction = yield from stopping.failing(state, rows[~long], gradients[~long])
            yield from step.curvature(state, rows, size, direction)

        return moved


class WholeTable(Descent):
    """All rows in every iteration, each release with a price of its own: who asks for less has spent less."""

    carry_over: bool = CARRY_OVER
    hessian_products: int | None = PRODUCTS

    @model_validator(mode="after")
    def _products_need_even_noise(self) -> Self:
        check_noise(self.hessian_products, self.hessian_noise)
        return self

    def products(self, facts: NonconvexFacts) -> int | None:
        return products_by_theory(self.hessian_products, self.hessian_noise, facts)

    def _releases(self, plan: Plan, mechanisms: Mechanisms) -> Separate:
        return Separate(plan, mechanisms)


class ShortStep(WholeTable):
    """OPT, and 2OPT in two phases: steps of length 1/G along gradients and 2|λ̃|/M along curvature, all rows."""

    kind: ClassVar[str] = "families.second_order.short_step"
    title: ClassVar[str] = "OPT"
    metrics: ClassVar[tuple[Metric, ...]] = (*SERIES, GRADIENT_NOISE, GRADIENT_CHARGED, HESSIAN_CHARGED)
    split: Literal["equal", "decrease"] = choice(
        "equal",
        {"equal": "Share as set", "decrease": "By the decrease that a step is sure of"},
        label="Gradients and Hessians",
        help="By decrease: for OPT in one phase; the share as set where a curvature step is sure of less than a "
        "gradient step.",
    )
    certificate: bool = switch(
        False,
        label="Ask for the smallest eigenvalue first",
        help="One number with far less noise than the matrix. If it is above -ε_H by a margin, the run stops without a "
        "Hessian. The margin grows each time it is asked: of all times together, 1 % of the runs may err by it.",
    )
    at_state: bool = switch(
        False,
        label="Noise for the point where the run is",
        help="The gradient's sensitivity there is public and may be smaller than anywhere: half of it at 0.",
    )

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        purse = BudgetSplit.gaussian(budget, facts)
        stretches = self._stretches(purse, facts)
        plan = planning.filtered(purse, stretches, facts, budget, self._resolved(facts), self._notes(facts))
        return replace(plan, noise_varies=plan.noise_varies or self.at_state)

    def _certifies(self, facts: NonconvexFacts) -> bool:
        if not (self.certificate and self.asks(facts)):
            return False
        if facts.d > MOST_COLUMNS:
            raise UserError(
                f"It takes whole Hessians, too large with more than {MOST_COLUMNS} columns. Do not ask for it first.",
                title="Too many columns for the smallest eigenvalue",
            )
        return True

    def _stretches(self, purse: BudgetSplit, facts: NonconvexFacts) -> tuple[Phase, ...]:
        share = CERTIFICATE_SHARE if self._certifies(facts) else 0.0
        tests: dict[Purpose, float] = {"hessian": 1 - share}
        if share:
            tests["certificate"] = share
        if not self.asks(facts):
            return planning.phases(purse, self.lengths(facts), self.shares(facts), {"gradient": 1.0}, False)
        by_gradient, by_curvature = self.decreases(facts)
        if self.split == "decrease" and self.phases == "one" and by_curvature > by_gradient:
            (length,) = self.lengths(facts)
            # Steps that are sure of D take at most Γ/D iterations, or what the cap leaves.
            unit = purse.amount / (min(facts.gap, length * by_gradient) + by_curvature)
            rest = unit * (by_curvature - by_gradient)
            costs = {purpose: rest * part for purpose, part in tests.items()}
            return (Phase(length, {"gradient": unit * by_gradient, **costs}),)
        each: dict[Purpose, float] = {"gradient": 2 * (1 - self.hessian_share)}
        each |= {purpose: 2 * self.hessian_share * part for purpose, part in tests.items()}
        return planning.phases(purse, self.lengths(facts), self.shares(facts), each, self.carry_over and not share)

    def _measured(self, problem: NonconvexRisk, releases: Releases) -> Measured:
        return Measured(problem, releases, self.hessian_noise, self.at_state)


class MiniBatch(Descent):
    """OPT-B, and 2OPT-B in two phases: short steps, gradient and Hessian of an iteration on one batch of rows.

    The batch is paid for in full when it is drawn, Hessian included. Nothing is left over for a later phase.
    """

    kind: ClassVar[str] = "families.second_order.mini_batch"
    title: ClassVar[str] = "OPT-B"
    hue: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (*SERIES, ITERATIONS_CHARGED)
    batch_fraction: float = BATCH

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        lengths = self.lengths(facts)
        weights = np.repeat(self.shares(facts) / lengths, lengths)
        share = self.hessian_share if self.asks(facts) else 0.0
        return planning.fixed(
            self.batch_fraction, weights, share, facts, budget, self._resolved(facts), self._notes(facts)
        )

    def _releases(self, plan: Plan, mechanisms: Mechanisms) -> Together:
        return Together(plan, mechanisms)
