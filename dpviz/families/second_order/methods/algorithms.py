"""Methods that release noisy gradients and noisy Hessians and stop at second-order solutions (Gao and Wright 2023).

One iteration releases a noisy gradient. Where that is long, the run steps against it; where it is short, the run
releases a noisy Hessian, and steps along its most negative curvature, or stops if there is none. The methods differ in
the length of their steps (`steps`) and in the way they pay for releases (`releases`).

Symbols: f is the objective; G is an upper bound on its curvature, M the Lipschitz constant of its Hessian, Γ a bound on
how far f can fall; α and ε_H are the targets of a solution, ‖∇f‖ ≤ α and λ_min(∇²f) ≥ -ε_H; g̃, H̃ and λ̃ are the noisy
gradient, Hessian and smallest eigenvalue.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from dpviz.errors import UserError
from dpviz.experiments.algorithm import Algorithm, Snapshot
from dpviz.experiments.plan import Plan
from dpviz.families.second_order import planning, theory
from dpviz.families.second_order.methods import steps
from dpviz.families.second_order.methods.releases import (
    GRADIENT,
    GRADIENT_NOISE,
    KIND,
    NOISY_CURVATURE,
    NOISY_GRADIENT,
    PERTURBATION,
    BatchReleases,
    Releases,
    SeparateReleases,
    State,
)
from dpviz.families.second_order.methods.steps import NoisyDerivatives
from dpviz.families.second_order.planning import Phase, Purpose, RunBudget
from dpviz.families.second_order.theory import Constants
from dpviz.numbers import short_down
from dpviz.privacy.budgets import Budget
from dpviz.privacy.mechanisms import Mechanisms
from dpviz.problems.base import Memory, Metric, check_facts
from dpviz.problems.nonconvex.nonconvex_risk import MAX_COLUMNS, NonconvexFacts, NonconvexRisk
from dpviz.problems.nonconvex.symmetric import Shape
from dpviz.specification import choice, number, switch

CERTIFICATE_SHARE = 0.1  # share of the smallest eigenvalue in what the curvature test of an iteration may spend
# Probability that a run is stopped wrongly: by the noise of all its scalar certificates; by all its tests of Hessians
# through products.
CERTIFICATE_FAILURE, LANCZOS_FAILURE = 0.01, 0.01

EVEN, HESSIAN_LIMITS = 0.5, (0.05, 0.95)  # default and range of the share of Hessians
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

# Settings that split the budget of an iteration, with their defaults.
SHARES: Mapping[str, float | None] = {"hessian_share": EVEN, "search_share": None}

SERIES = (NOISY_GRADIENT, NOISY_CURVATURE, KIND)
GRADIENT_CHARGED = Metric("gradient_charged", "ρ of a row, charged for gradients", released=True, better="")
HESSIAN_CHARGED = Metric("hessian_charged", "ρ of a row, charged for Hessians", released=True, better="")
ITERATIONS_CHARGED = Metric("iterations_charged", "Iterations charged", released=True, better="")


class NonconvexMethod(Algorithm[NonconvexRisk, NonconvexFacts]):
    """Base of the family: two targets, a number of iterations that follows from them, and a loop that a replicate
    leaves when its tests say that it has met the targets.

    payment : class that pays for the releases, each by itself or all of an iteration together.
    """

    payment: ClassVar[type[SeparateReleases | BatchReleases]]
    iterations: int = number(
        5000,
        1,
        5000,
        label="Steps at most",
        symbol="T",
        scale="log",
        help="The budget is split over the number that the targets ask for, or over so many if that is less.",
    )
    gradient_target: float = number(
        0.1,
        0.01,
        0.3,
        label="Gradient target",
        symbol="α",
        scale="log",
        help="Solutions have ‖∇f‖ ≤ α.",
        limits=(1e-6, 1e6),
    )
    curvature_target: float | None = number(
        0.2,
        0.02,
        0.6,
        label="Curvature target",
        symbol="ε_H",
        scale="log",
        help="Solutions have no eigenvalue of the Hessian below -ε_H. By theory: √(Mα).",
        limits=(1e-6, 1e6),
    )
    hessian_noise: Shape = choice(
        "goe",
        label="Hessian noise",
        help="Even noise is smaller by √2 in spectral norm and costs the same.",
        options={"goe": "Even in all directions (GOE)", "upper": "The same on all entries"},
    )
    constants: Constants = Constants()

    def released_settings(self) -> str:
        """Return the settings as JSON, a text that determines the noise, without shares of the budget that have their
        default: these settings were added later, and equal releases keep their noise."""
        defaults = [name for name, default in SHARES.items() if getattr(self, name, default) == default]
        return self.settings_without(defaults)

    def analysis(self, facts: NonconvexFacts) -> theory.Analysis:
        """Return the tolerances and guaranteed decreases of a step on a problem with these facts."""
        return theory.Analysis(
            facts.smoothness, facts.hessian_lipschitz, self.gradient_target, self.curvature_target, self.constants
        )

    def memory(self, plan: Plan, replicates: int, problem: Memory) -> float:
        """Return the bytes that a run takes.

        They are those of the problem and, for each replicate, the curvature of every row where Hessians are used by
        products only; else whole Hessians, if they have more columns than the problem's own diagnostics form anyway.

        A matrix has d² numbers, its packed triangle half as many. `NoisyDerivatives.hessian` holds 3 d² numbers for
        each replicate at its end: four triangles, of the exact Hessian, the noisy one, the finite ones, and these
        divided by the weights; and the unpacked matrix. Once for all replicates come the indices and weights of a
        triangle, and the copy and workspace of eigenvectors. Measured at d = 390: 3.0 d² each, and 3.8 d² to 5 d² once.
        """
        n, d, shared, per_replicate = plan.facts.n, plan.facts.d, 0.0, 0.0
        if "hessian" in plan.noise and "hessian_products" in plan.resolved:
            per_replicate = 8.0 * n  # 8 bytes a number
        elif "hessian" in plan.noise and d > MAX_COLUMNS:
            shared, per_replicate = 8.0 * 5 * d**2, 8.0 * 3 * d**2
        return super().memory(plan, replicates, problem) + shared + replicates * per_replicate

    @abstractmethod
    def _iteration(self, problem: NonconvexRisk, plan: Plan, releases: Releases) -> Callable[[State, np.ndarray], None]:
        """Return the function that performs one iteration for the replicates that take part, given the state and their
        numbers (R',): it moves each of them in the state, stops it where it meets the targets, or ends it where it
        cannot go on."""

    def run(self, problem: NonconvexRisk, plan: Plan, mechanisms: Mechanisms) -> Iterator[Snapshot]:
        """Run all replicates of the plan until each has ended; yield a snapshot at the start and after every
        iteration."""
        check_facts(problem, plan.facts)
        releases = self.payment(plan, mechanisms)
        iteration = self._iteration(problem, plan, releases)
        state = State(problem.facts.starting_point(mechanisms.replicates))
        yield state.snapshot(0, self.metrics, releases.charged())
        for t in range(1, plan.iterations + 1):
            replicates = state.begin()
            releases.begin(t, replicates)
            iteration(state, replicates)
            yield state.snapshot(t, self.metrics, releases.charged())
            if not len(state.running):
                return


class Descent(NonconvexMethod):
    """Base of methods that step against a noisy gradient where it is long; where it is short they test the curvature,
    step along a direction of negative curvature if the test finds one, and stop if it does not."""

    curvature: Literal["auto", "always", "never"] = choice(
        "auto",
        label="Curvature test",
        help="It cannot fail where no data set has a curvature below -ε_H: there Hessians are wasted. Without it a "
        "run stops at saddle points, too.",
        options={"auto": "Where it can fail", "always": "Always", "never": "Never: first order only"},
    )
    hessian_share: float = HESSIAN_SHARE
    phases: Literal["one", "two", "doubling"] = choice(
        "one",
        label="Phases",
        help="Short phases have little noise, and most runs need few iterations; later ones have more of both.",
        options={"one": "One", "two": "Two: √T, then T", "doubling": "Doubling: √T, 2√T, ..., T"},
    )
    first_share: float = number(
        0.75, 0.5, 0.9, label="Share of the first phase", symbol="φ₁", help="Of the budget in ρ; of two phases."
    )

    @property
    def line_style(self) -> tuple[int, int]:
        """Hue and dash of the method's lines, as indices; without a test of curvature both are others."""
        return (3, 2) if self.curvature == "never" else (self.hue, int(self.phases != "one"))

    def releases_hessians(self, facts: NonconvexFacts) -> bool:
        """Return True if Hessians are released on a problem with these facts: by default, if some data set can have a
        curvature below -ε_H, so that the test can fail."""
        can_fail = facts.curvature_floor < -self.analysis(facts).curvature
        return self.curvature == "always" or (self.curvature == "auto" and can_fail)

    def decreases(self, facts: NonconvexFacts) -> tuple[float, float]:
        """Return D_g and D_H, the guaranteed decreases of a gradient step and of a curvature step."""
        analysis = self.analysis(facts)
        return analysis.gradient_decrease, analysis.curvature_decrease

    def iterations_by_theory(self, facts: NonconvexFacts) -> int:
        """Return T by the analysis: the number of steps after which f cannot fall any further, if each takes off the
        gap Γ the smaller of the guaranteed decreases, or that of a gradient step where no Hessian is released."""
        by_gradient, by_curvature = self.decreases(facts)
        decrease = min(by_gradient, by_curvature) if self.releases_hessians(facts) else by_gradient
        return theory.iterations(facts.gap, decrease)

    def phase_lengths(self, facts: NonconvexFacts) -> tuple[int, ...]:
        """Return the number of iterations of each phase."""
        return theory.phase_lengths(self.phases, self.iterations_by_theory(facts), self.iterations)

    def phase_shares(self, facts: NonconvexFacts) -> np.ndarray:
        """Return the share of the budget of each phase."""
        return theory.phase_shares(self.phases, len(self.phase_lengths(facts)), self.first_share)

    def products(self, facts: NonconvexFacts) -> int | None:
        """Return the number of products with a noisy Hessian that a curvature test takes; None if it takes all entries
        of the matrix."""
        return None

    def _resolved(self, facts: NonconvexFacts) -> dict[str, float]:
        """Return by name the numbers of a plan that follow from the settings and the facts."""
        by_gradient, by_curvature = self.decreases(facts)
        lengths = self.phase_lengths(facts)
        products = self.products(facts) if self.releases_hessians(facts) else None
        resolved: dict[str, float] = {} if products is None else {"hessian_products": products}
        return resolved | {
            "iterations": sum(lengths),
            "iterations_by_theory": self.iterations_by_theory(facts),
            "first_phase": lengths[0],
            "gradient_decrease": by_gradient,
            "curvature_decrease": by_curvature,
        }

    def _notes(self, facts: NonconvexFacts, budget: Budget) -> tuple[str, ...]:
        """Return notes for the plan, in sentences: if it has fewer iterations than the analysis asks for, and if the
        curvature test is left out because it cannot fail."""
        # For the analysis it suffices that one phase has all the iterations that it asks for.
        notes = [*planning.limit_note(self.iterations_by_theory(facts), max(self.phase_lengths(facts)), budget)]
        if self.curvature != "never" and not self.releases_hessians(facts):
            notes.append(
                f"No data set has a curvature below {short_down(facts.curvature_floor)} here, so the curvature test "
                "cannot fail: no Hessian is released, and gradients get the whole budget."
            )
        return tuple(notes)

    def _noisy_derivatives(self, problem: NonconvexRisk, releases: Releases) -> NoisyDerivatives:
        """Return the source of the problem's noisy gradients and Hessians."""
        return NoisyDerivatives(problem, releases, self.hessian_noise, at_state=False)

    def _step_rule(self, problem: NonconvexRisk, releases: Releases) -> steps.StepRule:
        """Return the rule for the length of a step: short steps, unless a method has another one."""
        return steps.ShortSteps(self.analysis(problem.facts))

    def _test(self, derivatives: NoisyDerivatives, plan: Plan) -> steps.CurvatureTest:
        """Return the curvature test of a plan, which looks at whole Hessians, or only at products with them if the plan
        has a number of these; preceded by a test of the smallest eigenvalue alone if the plan has noise for that."""
        analysis, products = self.analysis(derivatives.problem.facts), plan.resolved.get("hessian_products")
        noise = plan.noise.get("certificate")
        certificate = None if noise is None else steps.Certificate(noise, analysis.curvature, CERTIFICATE_FAILURE)
        if products is None:
            return steps.CurvatureTest(derivatives, analysis.curvature_tolerance, certificate)
        failure_of_test = LANCZOS_FAILURE / plan.iterations  # a union bound over the tests, one at most per iteration
        return steps.KrylovTest(
            derivatives, analysis.curvature_tolerance, certificate, products=int(products), failure=failure_of_test
        )

    def _iteration(self, problem: NonconvexRisk, plan: Plan, releases: Releases) -> Callable[[State, np.ndarray], None]:
        analysis = self.analysis(problem.facts)
        derivatives, step_rule = self._noisy_derivatives(problem, releases), self._step_rule(problem, releases)
        test = self._test(derivatives, plan) if self.releases_hessians(problem.facts) else steps.NoCurvatureTest()

        def move(state: State, replicates: np.ndarray) -> None:
            """Perform one iteration for these replicates (R',)."""
            replicates, gradients = derivatives.gradient(state, replicates)
            is_long = state.released[NOISY_GRADIENT.name][replicates] > analysis.gradient_tolerance
            step_rule.gradient_step(state, replicates[is_long], gradients[is_long])
            # The test stops those of the others that pass it, and returns a direction down for those that do not.
            replicates, size, direction = test.stop_passing(state, replicates[~is_long], gradients[~is_long])
            step_rule.curvature_step(state, replicates, size, direction)

        return move


class WholeTable(Descent):
    """Base of descent on all rows in every iteration, in which each release is paid for on its own; so a run with fewer
    releases spends less."""

    payment: ClassVar[type[SeparateReleases | BatchReleases]] = SeparateReleases
    carry_over: bool = CARRY_OVER
    hessian_products: int | None = steps.PRODUCTS

    @model_validator(mode="after")
    def _products_need_even_noise(self) -> Self:
        if self.hessian_products is not None and self.hessian_noise != "goe":
            raise ValueError("products with a Hessian need noise that is even in all directions (GOE)")
        return self

    def products(self, facts: NonconvexFacts) -> int | None:
        # By theory products are taken only with too many columns for matrices, and only with noise that allows them.
        if self.hessian_products is None and (self.hessian_noise != "goe" or facts.d <= MAX_COLUMNS):
            return None
        return min(self.hessian_products or steps.USUAL_PRODUCTS, facts.d)


class ShortStep(WholeTable):
    """OPT, called 2OPT in two phases: on all rows, with steps -g̃/G against a noisy gradient, and of length 2|λ̃|/M
    along a direction of negative curvature λ̃.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.RobustComponent(), dpviz.ShortStep(iterations=4), rho=0.1).run()
    <Trace of OPT: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.second_order.short_step"
    title: ClassVar[str] = "OPT"
    metrics: ClassVar[tuple[Metric, ...]] = (*SERIES, GRADIENT_NOISE, GRADIENT_CHARGED, HESSIAN_CHARGED)
    split: Literal["equal", "decrease"] = choice(
        "equal",
        label="Gradients and Hessians",
        help="By decrease: for OPT in one phase; the share as set where a curvature step is sure of less than a "
        "gradient step.",
        options={"equal": "Share as set", "decrease": "By the decrease that a step is sure of"},
    )
    certificate: bool = switch(
        False,
        label="Ask for the smallest eigenvalue first",
        help="One number with far less noise than the matrix. If it is above -ε_H by a margin, the run stops without "
        "a Hessian. The margin grows each time it is asked: of all times together, 1 % of the runs may err by it.",
    )
    at_state: bool = switch(
        False,
        label="Noise for the point where the run is",
        help="The gradient's sensitivity there is public and may be smaller than anywhere: half of it at 0.",
    )

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts, in which every release is paid for by itself."""
        run_budget = RunBudget.gaussian(budget, facts)
        phases = self._phases(run_budget, facts)
        plan = planning.filtered_plan(
            run_budget, phases, facts, budget, self._resolved(facts), self._notes(facts, budget)
        )
        # With `at_state` the gradient's noise varies with the point.
        return replace(plan, noise_varies=plan.noise_varies or self.at_state)

    def _phases(self, run_budget: RunBudget, facts: NonconvexFacts) -> tuple[Phase, ...]:
        """Return the phases of a plan, with the budget of an iteration split between gradient and curvature test.

        It is split in the proportion `hessian_share`, or, if `split` is "decrease", so that each step costs in
        proportion to the decrease of f that it guarantees.
        """
        lengths, shares = self.phase_lengths(facts), self.phase_shares(facts)
        if not self.releases_hessians(facts):
            return planning.split_into_phases(run_budget, lengths, shares, {"gradient": 1.0}, carry_over=False)
        test_shares: dict[Purpose, float] = {"hessian": 1.0}  # parts of what the test may spend
        if self.certificate:
            if facts.d > MAX_COLUMNS:
                raise UserError(
                    f"It takes whole Hessians, too large with more than {MAX_COLUMNS} columns. Do not ask for it "
                    "first.",
                    title="Too many columns for the smallest eigenvalue",
                )
            test_shares = {"hessian": 1 - CERTIFICATE_SHARE, "certificate": CERTIFICATE_SHARE}
        by_gradient, by_curvature = self.decreases(facts)
        if self.split == "decrease" and self.phases == "one" and by_curvature > by_gradient:
            (length,) = lengths
            # Every step costs at most `unit` times its guaranteed decrease, so all steps but the last cost at most
            # `unit` times the gap together. In a phase too short to use up the gap, gradient steps in all of it are
            # paid for, and one curvature step.
            unit = run_budget.amount / (min(facts.gap, length * by_gradient) + by_curvature)
            cost_of_test = unit * (by_curvature - by_gradient)  # a curvature step pays for a gradient, too
            costs = {purpose: cost_of_test * share for purpose, share in test_shares.items()}
            return (Phase(length, {"gradient": unit * by_gradient, **costs}),)
        weights: dict[Purpose, float] = {"gradient": 1 - self.hessian_share}
        weights |= {purpose: self.hessian_share * share for purpose, share in test_shares.items()}
        # Each certificate of the first phase would count as the most expensive release, a Hessian: nine times its cost.
        carry_over = self.carry_over and not self.certificate
        return planning.split_into_phases(run_budget, lengths, shares, weights, carry_over)

    def _noisy_derivatives(self, problem: NonconvexRisk, releases: Releases) -> NoisyDerivatives:
        return NoisyDerivatives(problem, releases, self.hessian_noise, self.at_state)


class MiniBatch(Descent):
    """OPT-B, called 2OPT-B in two phases: the steps of OPT, where gradient and Hessian of an iteration are computed on
    one batch of rows, drawn afresh.

    All releases on a batch are paid for when it is drawn, used or not. So nothing is left over for a later phase.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.RobustComponent(), dpviz.MiniBatch(iterations=4), epsilon=2, delta=1e-6).run()
    <Trace of OPT-B: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.second_order.mini_batch"
    title: ClassVar[str] = "OPT-B"
    payment: ClassVar[type[SeparateReleases | BatchReleases]] = BatchReleases
    hue: ClassVar[int] = 2
    metrics: ClassVar[tuple[Metric, ...]] = (*SERIES, ITERATIONS_CHARGED)
    batch_fraction: float = BATCH

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts: a batch in every iteration, paid for as a whole."""
        lengths = self.phase_lengths(facts)
        weights = np.repeat(self.phase_shares(facts) / lengths, lengths)  # (T,): a phase's share over its iterations
        share = self.hessian_share if self.releases_hessians(facts) else 0.0
        return planning.fixed_plan(
            self.batch_fraction,
            weights,
            hessian_share=share,
            facts=facts,
            budget=budget,
            resolved=self._resolved(facts),
            notes=self._notes(facts, budget),
        )


# The patience of `PerturbedDescent` allows for a perturbation that ends this many times closer to the ridge than on
# average, as 1 in 12 does.
UNLUCKY = 10.0


class PerturbedDescent(NonconvexMethod):
    """DP-GD with perturbations (after Jin, Ge, Netrapalli, Kakade, Jordan 2017): steps x ← x - g̃/G, and where the
    noisy gradient g̃ gets short, one random step aside, uniform in a ball.

    Along a curvature below -ε_H the perturbation grows by the factor 1 + ε_H/G per step. A run stops where gradients
    stay short for the number of steps in which such growth would have made them long: there is no such curvature,
    unless luck or noise hid it. No Hessian is released, and nothing is certified.

    >>> import dpviz
    >>> dpviz.Experiment(dpviz.RobustComponent(), dpviz.PerturbedDescent(iterations=4), rho=0.1).run()
    <Trace of DP-GD, perturbed: 20 runs, 4 iterations>
    """

    kind: ClassVar[str] = "families.second_order.perturbed_descent"
    title: ClassVar[str] = "DP-GD, perturbed"
    payment: ClassVar[type[SeparateReleases | BatchReleases]] = SeparateReleases
    hue: ClassVar[int] = 1
    dash: ClassVar[int] = 3
    metrics: ClassVar[tuple[Metric, ...]] = (NOISY_GRADIENT, KIND, GRADIENT_CHARGED)
    radius: float = number(
        0.25,
        0.01,
        1.0,
        label="Perturbation",
        symbol="r",
        unit="ε_g/G",
        scale="log",
        help="How far aside. Smaller: it takes longer until gradients show the curvature.",
        limits=(1e-6, 1e6),
    )

    def patience(self, facts: NonconvexFacts) -> int:
        """Return the number of successive short gradients, after a step aside, at which a run stops.

        By then a curvature of -ε_H would have made gradients as long as their tolerance, even if the step aside was an
        unlucky one: the distance from the ridge grows by the factor 1 + ε_H/G per step.
        """
        # Gradients are as long as their tolerance ε_g at the distance ε_g/ε_H from the ridge. Of a step aside of length
        # r ε_g/G about 1/√d leads away from the ridge, or UNLUCKY times less. The factor is the ratio of the two. Here
        # ε_H is its tolerance, which is a little smaller, so that the patience is rather too long.
        growth = self.analysis(facts).curvature_tolerance / facts.smoothness
        factor_to_grow = UNLUCKY * math.sqrt(facts.d) / (self.radius * growth)
        return max(1, math.ceil(math.log(factor_to_grow) / math.log1p(growth)))

    def plan(self, facts: NonconvexFacts, budget: Budget) -> Plan:
        """Return the plan for a problem with these facts, which releases a gradient in every iteration.

        By theory there are as many descent steps as the gap Γ allows, each followed by the short gradients of a step
        aside.
        """
        run_budget, patience = RunBudget.gaussian(budget, facts), self.patience(facts)
        decrease = self.analysis(facts).gradient_decrease
        by_theory = (1 + patience) * theory.iterations(facts.gap, decrease)
        iterations = min(by_theory, self.iterations)
        resolved = {
            "iterations": iterations,
            "iterations_by_theory": by_theory,
            "gradient_decrease": decrease,
            "patience": patience,
        }
        phases = planning.split_into_phases(run_budget, (iterations,), np.ones(1), {"gradient": 1.0}, carry_over=False)
        notes = planning.limit_note(by_theory, iterations, budget)
        return planning.filtered_plan(run_budget, phases, facts, budget, resolved, notes)

    def _iteration(self, problem: NonconvexRisk, plan: Plan, releases: Releases) -> Callable[[State, np.ndarray], None]:
        facts, analysis = problem.facts, self.analysis(problem.facts)
        patience, radius = int(plan.resolved["patience"]), self.radius * analysis.gradient_tolerance / facts.smoothness
        derivatives = NoisyDerivatives(problem, releases, self.hessian_noise, at_state=False)
        assert isinstance(releases, SeparateReleases)
        # By replicate, how many short gradients in a row have followed the first one, at which it stepped aside (0
        # there). Without an entry, read as -1, the last gradient was long.
        counts: dict[int, int] = {}

        def move(state: State, replicates: np.ndarray) -> None:
            """Perform one iteration for these replicates (R',)."""
            replicates, gradients = derivatives.gradient(state, replicates)
            is_long = state.released[NOISY_GRADIENT.name][replicates] > analysis.gradient_tolerance
            for r in replicates[is_long]:
                counts.pop(r, None)
            for r in replicates[~is_long]:
                counts[r] = counts.get(r, -1) + 1
            count = np.array([counts.get(r, -1) for r in replicates])
            stops, steps_aside = count >= patience, count == 0
            steps_on = ~stops & ~steps_aside
            state.stop(replicates[stops])
            state.move(replicates[steps_on], -gradients[steps_on] / facts.smoothness, GRADIENT)
            aside = replicates[steps_aside]
            state.move(aside, in_ball(releases, facts.d, aside, radius), PERTURBATION)

        return move


def in_ball(releases: SeparateReleases, d: int, replicates: np.ndarray, radius: float) -> np.ndarray:
    """Draw (R', d) points, uniform in a ball of this radius around 0 and independent of the data.

    The first d of d + 2 normal numbers that are scaled to norm 1 together are uniform in the unit ball (Voelker,
    Gosmann, Stewart 2017).
    """
    normal = releases.directions(d + 2, replicates)
    return np.asarray(radius * normal[:, :d] / np.linalg.norm(normal, axis=1, keepdims=True))
